"""The Procrustes-Wasserstein distance: Algorithm 1 of the paper from good starts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein import certificate, initialisations
from practicum.stats.procrustes_wasserstein.measures import Measure, as_measure, to_host
from practicum.stats.procrustes_wasserstein.transport import Plan, Transport, procrustes

INITS = ("auto", "global", "pca", "gw", "fiedler", "identity", "random")
MAX_DENSE_ENTRIES = 25_000_000  # 200 MB of costs
RADIUS_RATIO = 20.0
SHAKE_RADIANS, SHAKE_EVALUATIONS = np.radians(8.0), 10
PLANAR_EXACT = 50  # planar clouds of at most so many points are always searched exactly
TIE = 1e-9  # starts whose objectives differ by less (relative) are equally good
GLOBAL_GAPS = ((1e-3, 4_000), (1e-4, 20_000), (1e-6, 100_000))  # (relative gap, evaluations)


class Race(NamedTuple):
    """How starts compete: after ``iterations``, the best are ``finished`` if within ``margin``."""

    iterations: int
    finished: int
    margin: float


# Starts that were not screened may still overtake each other after three iterations; those
# that were alternated to the end on coarse copies hardly do.
UNSCREENED = Race(iterations=3, finished=3, margin=np.inf)
SCREENED = (
    Race(iterations=1, finished=3, margin=1.003),
    Race(iterations=3, finished=10, margin=1.02),
    Race(iterations=3, finished=30, margin=1.05),
)


@dataclass(frozen=True)
class Start:
    """One run of Algorithm 1.

    Attributes
    ----------
    P : (d, d) array
        The matrix it ended at.
    squared : float
        The squared distance it reached (coordinate units squared).
    history : (n_iter,) array
        The objective after every iteration.
    converged : bool
        Whether it stood still before the iterations ran out.

    Examples
    --------
    >>> segment = np.array([[-1.0, 0.0], [1.0, 0.0]])
    >>> best = procrustes_wasserstein(segment, 3 * segment).starts[0]
    >>> best.squared, best.converged
    (4.0, True)
    """

    P: Float[np.ndarray, "d d"]
    squared: float
    history: Float[np.ndarray, " n_iter"]
    converged: bool


@dataclass(frozen=True)
class PWResult:
    """What :func:`procrustes_wasserstein` returns.

    Attributes
    ----------
    distance : float
        ``PW_2``, in the unit of the coordinates (in root-mean-square radii if ``scale=True``).
    squared : float
        ``PW_2^2``.
    P : (d, d) array
        Orthogonal; ``Y @ P`` is aligned to X.
    translation : (d,) array
        ``mean_X - scale * mean_Y @ P``.
    scale : float
        1, or the ratio of the radii of X and Y if ``scale=True`` was asked for.
    plan : (n, m) scipy.sparse.csr_matrix
        Transport plan: rows sum to p, columns to q, at most n + m - 1 entries.
    n_iter : int
        Iterations of the start that won.
    history : (n_iter,) array
        Its objective after each iteration, never increasing.
    init : str
        The initialisation that was asked for.
    gap : float or None
        Certified: the true squared distance is at least ``squared - gap``. None where the
        search was not exhaustive.
    degenerate : bool
        P is not unique, whatever the start: one point, coincident or collinear points, ...
    starts : tuple of Start
        Every start that was run to the end, best first.
    notes : tuple of str
        Plain sentences about symmetry, reflection, dropped points and the like.

    Examples
    --------
    >>> corner = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> result = procrustes_wasserstein(corner, corner + 5.0)
    >>> result.translation.round(6).tolist(), np.abs(result.transform(corner + 5)).round(6).tolist()
    ([-5.0, -5.0], [[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    """

    distance: float
    squared: float
    P: Float[np.ndarray, "d d"]
    translation: Float[np.ndarray, " d"]
    scale: float
    plan: sp.csr_matrix
    n_iter: int
    history: Float[np.ndarray, " n_iter"]
    init: str
    gap: float | None = None
    degenerate: bool = False
    starts: tuple[Start, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    def transform(self, Y: Any) -> Float[np.ndarray, "... d"]:
        """Lay points of Y's space over X: ``scale * Y @ P + translation``.

        Parameters
        ----------
        Y : (m, d) array-like, torch tensor, or object with ``points``
            Also other points than the cloud that was aligned: a finer mesh, landmarks.

        Raises
        ------
        InputError
            If the points have another dimension.
        """
        points = np.asarray(to_host(getattr(Y, "points", Y)), dtype=np.float64)
        if points.shape[-1:] != self.translation.shape:
            raise InputError(
                f"points of shape {points.shape}, {len(self.P)} coordinates each are expected"
            )
        return self.scale * points @ self.P + self.translation

    @property
    def reflected(self) -> bool:
        """Whether the best alignment mirrors Y."""
        return bool(np.linalg.det(self.P) < 0)

    @property
    def ties(self) -> tuple[Float[np.ndarray, "d d"], ...]:
        """Other matrices that are as good as P: non-empty for symmetric shapes."""
        best = self.starts[0]
        margin = TIE * max(best.history[0], np.finfo(float).tiny)
        return tuple(
            start.P
            for start in self.starts[1:]
            if start.squared - best.squared <= margin and np.abs(start.P - best.P).max() > 1e-3
        )


def procrustes_wasserstein(
    X: Any,
    Y: Any,
    p: Any = None,
    q: Any = None,
    *,
    init: str | Float[np.ndarray, "d d"] = "auto",
    group: str = "O",
    center: bool = True,
    scale: bool = False,
    n_starts: int = 16,
    max_iter: int = 100,
    tol: float = 1e-10,
    effort: int | None = None,
    random_state: int = 0,
) -> PWResult:
    r"""Wasserstein-2 distance between point clouds, minimised over rotations and reflections.

    .. math::

        PW_2^2(\mu_X, \mu_Y) = \min_{P \in O(d)} \min_{\Gamma \in \Pi(p, q)}
            \sum_{ij} \Gamma_{ij} \| x_i - y_j P \|^2

    after both clouds have been centred at their weighted means. Algorithm 1 of Adamo et al.
    (ICML 2025) alternates exact optimal transport with a Procrustes step; each lowers the
    objective, and the start decides which local minimum is reached.

    Parameters
    ----------
    X : (n, d) array-like, torch tensor, or object with ``points`` and ``weights``
        First cloud, one point a row, any unit.
    Y : (m, d) array-like
        Second cloud, same dimension and unit; this is the one that is turned.
    p, q : (n,) and (m,) array-like, optional
        Weights, non-negative, summing to one. Points of weight zero are left out.
    init : str or (d, d) array
        ``"auto"`` screens a cover of rotations on coarse copies and finishes the best few (in
        the plane it also searches around the winner, and up to 50 points or with ``effort`` it
        searches everywhere, as ``"global"`` does);
        ``"global"`` certifies the optimum (d <= 3); ``"pca"``, ``"gw"``, ``"fiedler"``,
        ``"identity"`` and ``"random"`` are the paper's strategies; a matrix is used as it is.
    group : "O" or "SO"
        ``"O"`` allows reflections; use ``"SO"`` where left and right differ (molecules, hands).
    center : bool
        Remove the means first. Without it, translation counts as difference.
    scale : bool
        Divide each cloud by its root-mean-square radius first.
    n_starts : int
        Number of starts of ``init="random"``.
    max_iter, tol : int, float
        A start ends after ``max_iter`` iterations, when the plan repeats, or when the objective
        falls by less than ``tol`` times ``sum p|x|^2 + sum q|y|^2``.
    effort : int, optional
        0 (default), 1 or 2: how many rotations ``"auto"`` screens; for ``"global"``, a relative
        gap of 1e-3, 1e-4 or 1e-6.
    random_state : int
        Seed of the random starts.

    Returns
    -------
    PWResult

    Raises
    ------
    InputError
        For clouds, weights or options that make no sense, or costs above 200 MB.
    MissingExtra
        If POT is needed (different sizes, unequal weights, ``init="gw"``) and not installed.

    Warns
    -----
    UserWarning
        Uncentred clouds with ``center=False``; radii that differ more than twentyfold.

    Examples
    --------
    >>> triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> turned = triangle[::-1] @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + 7.0
    >>> result = procrustes_wasserstein(triangle, turned)
    >>> bool(result.squared < 1e-12), np.allclose(result.P, [[0.0, -1.0], [1.0, 0.0]])
    (True, True)
    >>> np.allclose(result.plan.toarray() @ result.transform(turned), triangle / 3)
    True
    """
    x, y = _validated_pair(X, Y, p, q, center)
    _check_options(init, group, effort, x.dimension, n_starts, max_iter, tol, random_state)
    radii = (x.radius, y.radius)
    if scale:
        x, y = _unit_radius(x), _unit_radius(y)
    else:
        _warn_about_units(radii)
    transport = Transport(x, y)
    candidates, upper = _candidates(transport, init, group, n_starts, effort or 0, random_state)
    screened = isinstance(init, str) and init in ("auto", "global")
    race = SCREENED[effort or 0] if screened else UNSCREENED
    starts = _run(transport, candidates, group, max_iter, tol, race)
    if screened and upper is None and transport.x.dimension == 2:
        starts = _shaken(transport, starts, group, max_iter, tol)
    return _result(transport, starts, init, group, upper, radii if scale else None)


def _validated_pair(X: Any, Y: Any, p: Any, q: Any, center: bool) -> tuple[Measure, Measure]:
    x = as_measure(X, p, center=center, name="X")
    y = as_measure(Y, q, center=center, name="Y")
    if x.dimension != y.dimension:
        raise InputError(
            f"X has {x.dimension} coordinates per point and Y has {y.dimension}",
            "compare clouds of the same dimension",
        )
    if x.n * y.n > MAX_DENSE_ENTRIES:
        raise InputError(
            f"{x.n} x {y.n} points would need {x.n * y.n * 8 / 1e6:.0f} MB of costs "
            f"(limit {MAX_DENSE_ENTRIES * 8 / 1e6:.0f} MB)",
            "subsample both clouds, e.g. to 2000 points",
        )
    if not center:
        for measure in (x, y):
            offset = float(np.linalg.norm(measure.weights @ measure.points))
            if offset > 1e-6 * max(measure.radius, np.finfo(float).tiny):
                warnings.warn(
                    f"{measure.name} is not centred: its mean is {offset:.3g} from the origin, "
                    "and center=False counts that as difference",
                    stacklevel=3,
                )
    return x, y


def _check_options(
    init: Any,
    group: str,
    effort: Any,
    d: int,
    n_starts: int,
    max_iter: int,
    tol: float,
    random_state: Any,
) -> None:
    if isinstance(init, str):
        if init not in INITS:
            raise InputError(f"init={init!r} is unknown", f"choose from {', '.join(INITS)}")
    else:
        matrix = np.asarray(init, dtype=np.float64)
        if matrix.shape != (d, d) or not np.allclose(matrix.T @ matrix, np.eye(d), atol=1e-6):
            raise InputError(
                f"init is a matrix of shape {matrix.shape}, expected an orthogonal ({d}, {d})",
                "pass the P of an earlier result, or a name",
            )
    if group not in ("O", "SO"):
        raise InputError(f"group={group!r} is unknown", "use 'O' (with reflections) or 'SO'")
    if effort is not None and effort not in (0, 1, 2):
        raise InputError(f"effort={effort!r}, expected 0, 1 or 2", "leave it out for 0")
    for name, value in (("n_starts", n_starts), ("max_iter", max_iter)):
        if value < 1:
            raise InputError(f"{name}={value}, expected 1 or more")
    if not tol >= 0:
        raise InputError(f"tol={tol}, expected zero or more")
    if isinstance(random_state, Integral) and random_state < 0:
        raise InputError(f"random_state={random_state}, expected 0 or more")


def _unit_radius(measure: Measure) -> Measure:
    if measure.radius <= np.finfo(float).tiny:
        raise InputError(
            f"{measure.name} has radius 0 (all points equal), so scale=True has nothing to scale",
            "use scale=False",
        )
    return measure.divided_by(measure.radius)


def _warn_about_units(radii: tuple[float, float]) -> None:
    small, large = sorted(radii)
    if small > 0 and large / small > RADIUS_RATIO:
        warnings.warn(
            f"the root-mean-square radii of X and Y differ {large / small:.0f}-fold "
            f"({radii[0]:.3g} and {radii[1]:.3g}): if the units differ, use scale=True",
            stacklevel=3,
        )


def _candidates(
    transport: Transport, init: Any, group: str, n_starts: int, effort: int, seed: int
) -> tuple[Float[np.ndarray, "c d d"], float | None]:
    """Starting matrices, and for "global" the upper bound on the correlation."""
    if not isinstance(init, str):
        return np.asarray(init, dtype=np.float64)[None], None
    # In the plane an exact search costs less than a finer screening, and less than any screening
    # if the clouds are small.
    planar = transport.x.dimension == 2
    small = max(transport.x.n, transport.y.n) <= PLANAR_EXACT
    if init == "global" or (init == "auto" and planar and (small or effort > 0)):
        relative_gap, evaluations = GLOBAL_GAPS[effort]
        optimum = certificate.global_optimum(
            transport,
            group,
            relative_gap=relative_gap,
            max_evaluations=evaluations,
            start=(
                initialisations.pca(transport, group)
                if planar
                else initialisations.auto(transport, group, effort, seed)
            ),
        )
        return optimum.candidates, optimum.upper
    if init == "auto":
        return initialisations.auto(transport, group, effort, seed), None
    if init == "random":
        return initialisations.random(transport, group, n_starts, seed), None
    if init == "identity":
        return initialisations.identity(transport), None
    strategy = {
        "pca": initialisations.pca,
        "gw": initialisations.gromov_wasserstein,
        "fiedler": initialisations.fiedler,
    }[init]
    return strategy(transport, group), None


def _run(
    transport: Transport,
    candidates: Float[np.ndarray, "c d d"],
    group: str,
    max_iter: int,
    tol: float,
    race: Race,
) -> list[tuple[Start, Plan]]:
    """A few iterations of every start, then the promising ones to the end; best first."""
    brief = min(race.iterations, max_iter)
    runs = [alternate(transport, P, group, brief, tol) for P in candidates]
    runs.sort(key=lambda run: run[0].squared)
    limit = race.margin * runs[0][0].squared + TIE * (transport.x.moment + transport.y.moment)
    finished = [
        _continued(transport, run, group, max_iter, tol)
        for run in runs[: race.finished]
        if run[0].squared <= limit
    ]
    return sorted(finished, key=lambda run: run[0].squared)


def _shaken(
    transport: Transport, runs: list[tuple[Start, Plan]], group: str, max_iter: int, tol: float
) -> list[tuple[Start, Plan]]:
    """Search the neighbourhood of the winner, and run on from what is better there."""
    nearby = certificate.planar_neighbourhood(
        transport, runs[0][0].P, half_width=SHAKE_RADIANS, max_evaluations=SHAKE_EVALUATIONS
    )
    best = alternate(transport, nearby.candidates[0], group, max_iter, tol)
    return [best, *runs] if best[0].squared < runs[0][0].squared else runs


def _continued(
    transport: Transport, run: tuple[Start, Plan], group: str, max_iter: int, tol: float
) -> tuple[Start, Plan]:
    start, plan = run
    remaining = max_iter - len(start.history)
    if remaining < 1 or start.converged:
        return run
    more, plan = alternate(transport, start.P, group, remaining, tol, previous=plan)
    history = np.concatenate([start.history, more.history])
    return Start(more.P, more.squared, history, more.converged), plan


def alternate(
    transport: Transport,
    P: Float[np.ndarray, "d d"],
    group: str = "O",
    max_iter: int = 100,
    tol: float = 1e-10,
    previous: Plan | None = None,
) -> tuple[Start, Plan]:
    """Algorithm 1: exact transport, then Procrustes, until the objective stands still.

    Parameters
    ----------
    transport : Transport
    P : (d, d) array
        Where to start.
    group : "O" or "SO"
    max_iter, tol : int, float
        ``tol`` is relative to ``sum p|x|^2 + sum q|y|^2``.
    previous : Plan, optional
        The plan that led to P, when a run is continued: if it comes back, the run has ended.

    Returns
    -------
    start : Start
    plan : Plan
        The plan whose Procrustes matrix is ``start.P``.

    Examples
    --------
    >>> x = as_measure([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> start, plan = alternate(Transport(x, x), np.eye(2))
    >>> start.squared < 1e-12, len(plan.mass)
    (True, 3)
    """
    margin = tol * (transport.x.moment + transport.y.moment)
    history: list[float] = []
    plan, converged = previous, False
    while not converged and len(history) < max_iter:
        plan, last = transport.plan(P), plan
        repeated = plan.equals(last)
        if not repeated:
            P = procrustes(transport.cross(plan), group)[0]
        history.append(transport.cost(plan, P))
        converged = repeated or (len(history) > 1 and history[-2] - history[-1] <= margin)
    return Start(P, history[-1], np.array(history), converged), plan


def _result(
    transport: Transport,
    runs: list[tuple[Start, Plan]],
    init: Any,
    group: str,
    upper: float | None,
    radii: tuple[float, float] | None,
) -> PWResult:
    x, y = transport.x, transport.y
    best, plan = runs[0]
    scale = 1.0 if radii is None else radii[0] / radii[1]
    total = x.moment + y.moment
    gap = None if upper is None else max(0.0, best.squared - (total - 2.0 * upper))
    result = PWResult(
        distance=float(np.sqrt(best.squared)),
        squared=best.squared,
        P=best.P,
        translation=x.mean - scale * y.mean @ best.P,
        scale=scale,
        plan=sp.csr_matrix(
            (plan.mass, (x.kept[plan.rows], y.kept[plan.cols])), shape=(x.size, y.size)
        ),
        n_iter=len(best.history),
        history=best.history,
        init=init if isinstance(init, str) else "matrix",
        gap=gap,
        degenerate=_is_degenerate(transport.cross(plan), group, total),
        starts=tuple(start for start, _ in runs),
    )
    object.__setattr__(result, "notes", tuple(_notes(result, x, y, group)))
    return result


def _is_degenerate(cross: Float[np.ndarray, "d d"], group: str, total: float) -> bool:
    """Whether another matrix of the group fits the final plan equally well."""
    signed = procrustes(cross, group)[1]
    # O(d): a zero singular value frees a reflection. SO(d): two directions must be free, or
    # the two smallest singular values must cancel.
    slack = signed[-1] if group == "O" else signed[-2:].sum() if len(signed) > 1 else np.inf
    return bool(slack <= 1e-12 * max(total, np.finfo(float).tiny))


def _notes(result: PWResult, x: Measure, y: Measure, group: str) -> Iterable[str]:
    for measure in (x, y):
        if measure.n < measure.size:
            yield f"{measure.size - measure.n} point(s) of {measure.name} have weight 0: left out"
    if result.degenerate:
        yield "P is not unique: the clouds do not span enough directions to fix it"
    elif result.ties:
        yield "two starts tie with different P: the shape is symmetric, and P is one of several"
    if group == "O" and result.reflected and not result.degenerate:
        yield "the best alignment is a reflection; if left and right differ, use group='SO'"
    if result.gap is not None:
        yield f"certified: the true squared distance is at least {result.squared - result.gap:.6g}"
