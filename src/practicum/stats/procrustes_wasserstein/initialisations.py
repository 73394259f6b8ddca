"""Where Algorithm 1 starts: one function per strategy of the paper, and the portfolio.

Every function takes a :class:`~.transport.Transport` and returns candidate matrices ``P`` of
shape (c, d, d) for which ``Y @ P`` should lie near ``X``; all of them are in the group asked for.
``auto`` screens many rotations on coarse copies of the two clouds and hands on the few
that deserve exact transport.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation
from scipy.stats import ortho_group, special_ortho_group

from practicum.errors import InputError, MissingExtra
from practicum.stats.procrustes_wasserstein.transport import Plan, Transport, procrustes

EIGENVALUE_GAP = 0.10  # principal axes closer than this in variance may come in either order
GW_OPTIONS = {"max_iter": 100, "tol_rel": 1e-3, "tol_abs": 1e-3}  # the official code's setting


def identity(transport: Transport) -> Float[np.ndarray, "1 d d"]:
    """``P = I``: plain Wasserstein first (the paper's "Wasserstein" initialisation)."""
    return np.eye(transport.x.dimension)[None]


def pca(transport: Transport, group: str = "O") -> Float[np.ndarray, "c d d"]:
    """Principal axes onto principal axes, in every sign: ``P = Q_y S Q_x^T``.

    Axes are sorted by variance, so the 2^d sign patterns cover all matches of distinct axes;
    axes whose variances differ by less than 10 % are also tried in the other order. (The
    official code does not sort, and repairs it by quarter turns in the plane only.)
    For group="SO" only the patterns with ``det P = +1`` remain.

    Examples
    --------
    >>> from practicum.stats.procrustes_wasserstein.measures import as_measure
    >>> x = as_measure([[0.0, 0.0], [4.0, 0.0], [1.0, 1.0]])
    >>> pca(Transport(x, x)).shape, pca(Transport(x, x), group="SO").shape
    ((4, 2, 2), (2, 2, 2))
    """
    x, y = transport.x, transport.y
    signs = np.array(list(product((1.0, -1.0), repeat=x.dimension)))
    candidates = np.concatenate(
        [
            (y.axes[:, order] * signs[:, None, :]) @ x.axes.T
            for order in _axis_orders(x.variances, y.variances)
        ]
    )
    return candidates[np.linalg.det(candidates) > 0] if group == "SO" else candidates


def _axis_orders(x: np.ndarray, y: np.ndarray) -> list[list[int]]:
    """Orders of y's axes: permutations inside runs of nearly equal variance."""
    near = [
        min(_relative_gap(x, i), _relative_gap(y, i)) < EIGENVALUE_GAP for i in range(len(x) - 1)
    ]
    runs, start = [], 0
    for i in range(1, len(x) + 1):
        if i == len(x) or not near[i - 1]:
            runs.append(range(start, i))
            start = i
    # A run of five axes already has 120 orders; longer ones are left to the random starts.
    options = [list(permutations(run)) if len(run) <= 4 else [tuple(run)] for run in runs]
    return [[axis for run in choice for axis in run] for choice in product(*options)]


def _relative_gap(variances: np.ndarray, i: int) -> float:
    return float((variances[i] - variances[i + 1]) / max(variances[i], np.finfo(float).tiny))


def gromov_wasserstein(transport: Transport, group: str = "O") -> Float[np.ndarray, "1 d d"]:
    """Procrustes of the Gromov-Wasserstein plan between Euclidean distance matrices.

    Raises
    ------
    MissingExtra
        If POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise MissingExtra("init='gw' needs POT", "pip install 'practicum[transport]'") from error
    x, y = transport.x, transport.y
    within_x = ot.dist(x.points, x.points, metric="euclidean")
    within_y = ot.dist(y.points, y.points, metric="euclidean")
    dense = ot.gromov.gromov_wasserstein(within_x, within_y, x.weights, y.weights, **GW_OPTIONS)
    return procrustes(y.points.T @ dense.T @ x.points, group)[0][None]


def fiedler(transport: Transport, group: str = "O") -> Float[np.ndarray, "1 d d"]:
    """Match the clouds along the Fiedler vectors of their nearest-neighbour graphs.

    The second eigenvector of ``L = D - A`` orders a cloud along its longest direction *inside*
    the shape. Both orders are matched in one dimension, forwards and backwards; the cheaper match
    gives ``P`` by Procrustes. Weights p and q are used (the official code assumes equal ones),
    and the matching sorts, O(n log n), instead of calling a simplex.
    """
    x, y = transport.x, transport.y
    fx = _fiedler_vector(x.points, x.weights)
    fy = _fiedler_vector(y.points, y.weights)
    plans = [monotone_plan(fx, sign * fy, x.weights, y.weights) for sign in (1.0, -1.0)]
    costs = [
        plan.mass @ (fx[plan.rows] - sign * fy[plan.cols]) ** 2
        for plan, sign in zip(plans, (1.0, -1.0), strict=True)
    ]
    return procrustes(transport.cross(plans[int(np.argmin(costs))]), group)[0][None]


def _fiedler_vector(
    points: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    from sklearn.neighbors import kneighbors_graph

    n = len(points)
    if n < 3:
        return points[:, 0] - weights @ points[:, 0]
    neighbours = min(n, max(3, n // 5))  # itself included; fewer than three leave no graph
    graph = kneighbors_graph(points, neighbours, include_self=True).toarray()
    graph = 0.5 * (graph + graph.T)
    laplacian = np.diag(graph.sum(axis=1)) - graph
    vector = eigh(laplacian, subset_by_index=[1, 1])[1][:, 0]
    vector = (vector - vector.min()) / max(np.ptp(vector), np.finfo(float).tiny)
    vector -= weights @ vector
    return vector / max(np.abs(vector).max(), np.finfo(float).tiny)


def monotone_plan(
    a: Float[np.ndarray, " n"],
    b: Float[np.ndarray, " m"],
    p: Float[np.ndarray, " n"],
    q: Float[np.ndarray, " m"],
) -> Plan:
    """Optimal plan on the line for any convex cost: both sides sorted, mass laid end to end.

    Parameters
    ----------
    a, b : positions of the two measures
    p, q : their probability vectors

    Returns
    -------
    Plan
        At most ``n + m - 1`` entries, O((n + m) log(n + m)).

    Examples
    --------
    >>> half = np.full(2, 0.5)
    >>> plan = monotone_plan(np.array([1.0, 0.0]), np.array([5.0, 7.0]), half, half)
    >>> plan.rows.tolist(), plan.cols.tolist(), plan.mass.tolist()
    ([1, 0], [0, 1], [0.5, 0.5])
    """
    rows, cols = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    ends_a, ends_b = np.cumsum(p[rows]), np.cumsum(q[cols])
    ends_a[-1] = ends_b[-1] = 1.0  # the last unit of mass must not get lost to rounding
    ends = np.union1d(ends_a, ends_b)
    starts = np.concatenate([[0.0], ends[:-1]])
    middle = 0.5 * (starts + ends)
    return Plan(
        rows[np.searchsorted(ends_a, middle)], cols[np.searchsorted(ends_b, middle)], ends - starts
    )


def random(
    transport: Transport, group: str = "O", n_starts: int = 16, seed: int = 0
) -> Float[np.ndarray, "c d d"]:
    """Haar-distributed matrices from a seed."""
    d = transport.x.dimension
    if d == 1:
        return np.array([[[1.0]], [[-1.0]]])[: 1 if group == "SO" else 2]
    haar = ortho_group if group == "O" else special_ortho_group
    draws = haar.rvs(d, size=n_starts, random_state=np.random.default_rng(seed))
    return np.reshape(draws, (n_starts, d, d))


class Stage(NamedTuple):
    """One pass of the screening: alternate on copies of ``atoms`` atoms and keep the best."""

    atoms: int
    rounds: int
    kept: int


class Budget(NamedTuple):
    """What ``auto`` looks at."""

    rotations: int  # per determinant; twice as many Haar draws when d > 3
    stages: tuple[Stage, ...]


# Chosen on 40 pairs of different real shapes per dimension (n = 200), where fewer rotations or
# atoms began to miss the optimum; the benchmark measures what is left on other pairs.
PLANE = (Budget(24, (Stage(32, 1, 10), Stage(32, 2, 5), Stage(64, 2, 3))),)
SPACE = (
    Budget(100, (Stage(16, 1, 24), Stage(32, 3, 8), Stage(64, 1, 3))),
    Budget(600, (Stage(32, 1, 80), Stage(32, 3, 30), Stage(128, 3, 10))),
    Budget(2400, (Stage(32, 1, 300), Stage(64, 3, 100), Stage(128, 3, 30))),
)
# On the last copies, squared distances within 5 % may still change places on the full clouds.
MARGIN = 0.05


def auto(
    transport: Transport, group: str = "O", effort: int = 0, seed: int = 0
) -> Float[np.ndarray, "c d d"]:
    """The portfolio: PCA signs and a cover of the group, screened on coarse copies.

    1. Turn Y by every rotation of a low-discrepancy cover laid over the principal axes
       (so that the answer does not depend on the pose of the input), and by the PCA candidates.
    2. Rank them by the coarse correlation after one transport and Procrustes step.
    3. Alternate the best on the coarse copies, drop duplicates, alternate what is left on
       finer copies, and return the best few, best first.

    Parameters
    ----------
    transport : Transport
    group : "O" or "SO"
    effort : int
        0, 1 or 2: each step looks at about four times more rotations.
    seed : int
        Used only for d > 3, where the cover is a Haar sample.

    Returns
    -------
    (c, d, d) float array, best first.
    """
    budgets = PLANE if transport.x.dimension == 2 else SPACE
    budget = budgets[min(effort, len(budgets) - 1)]
    axes = pca(transport, group)[:64]
    candidates = np.concatenate([axes, _framed_cover(transport, group, budget, seed)])
    transport.coarse(budget.stages[-1].atoms)  # the finest split passes through the coarser ones
    for stage in budget.stages:
        x, y = transport.coarse(stage.atoms)
        if stage is budget.stages[1]:  # the first copies may be too coarse for what these find
            candidates = np.concatenate([candidates, axes])
        candidates, values = alternate_coarsely(x, y, candidates, group, stage.rounds)
        candidates, values = distinct(candidates, values, stage.kept)
    total = np.sum(x * x) / len(x) + np.sum(y * y) / len(y)
    squared = total - 2 * values
    candidates = candidates[squared <= (1 + MARGIN) * squared[0] + 1e-9 * total]
    if effort > 0:  # never less than what the lower effort looks at
        candidates = np.concatenate([candidates, auto(transport, group, effort - 1, seed)])
    return candidates


def _framed_cover(
    transport: Transport, group: str, budget: Budget, seed: int
) -> Float[np.ndarray, "c d d"]:
    d = transport.x.dimension
    if d > 3:
        return random(transport, group, 2 * budget.rotations, seed)
    turned = cover(d, budget.rotations)
    candidates = transport.y.axes @ turned @ transport.x.axes.T
    mirrored = (transport.y.axes * np.where(np.arange(d) == 0, -1.0, 1.0)) @ turned
    candidates = np.concatenate([candidates, mirrored @ transport.x.axes.T])
    return candidates[np.linalg.det(candidates) > 0] if group == "SO" else candidates


def cover(d: int, count: int) -> Float[np.ndarray, "c d d"]:
    """Evenly spread rotations: equal angles in the plane, a super-Fibonacci spiral in space.

    Source: M. Alexa, "Super-Fibonacci Spirals: Fast, Low-Discrepancy Sampling of SO(3)",
    CVPR 2022. For d = 1 there is only the identity.

    Examples
    --------
    >>> cover(2, 4)[1].round(12).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    >>> cover(3, 100).shape
    (100, 3, 3)
    """
    if d == 1:
        return np.ones((1, 1, 1))
    if d == 2:
        return planar_rotation(2 * np.pi * np.arange(count) / count)
    if d != 3:
        raise InputError(f"no cover of the rotations of dimension {d}", "use d = 1, 2 or 3")
    s = np.arange(count) + 0.5
    inner, outer = np.sqrt(s / count), np.sqrt(1 - s / count)
    alpha, beta = 2 * np.pi * s / np.sqrt(2), 2 * np.pi * s / 1.533751168755204288118041
    quaternions = np.stack(
        [
            inner * np.sin(alpha),
            inner * np.cos(alpha),
            outer * np.sin(beta),
            outer * np.cos(beta),
        ],
        axis=1,
    )
    return Rotation.from_quat(quaternions).as_matrix()


def planar_rotation(angle: float | Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 2 2"]:
    """``[[cos, sin], [-sin, cos]]``: turns row vectors counter-clockwise, ``y @ P``."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], -2)


def alternate_coarsely(
    x: Float[np.ndarray, "k d"],
    y: Float[np.ndarray, "k d"],
    candidates: Float[np.ndarray, "c d d"],
    group: str,
    rounds: int,
) -> tuple[Float[np.ndarray, "c d d"], Float[np.ndarray, " c"]]:
    """Algorithm 1 on equal-mass atoms, all candidates at once; returns them with their values.

    The value of a candidate is its correlation ``<P, M>`` after the last Procrustes step, in
    squared coordinate units: larger is better.
    """
    for _ in range(rounds):
        similarity = x @ np.swapaxes(y @ candidates, -1, -2)
        cols = [linear_sum_assignment(table, maximize=True)[1] for table in similarity]
        cross = np.swapaxes(y[np.array(cols)], -1, -2) @ x / len(x)
        candidates, signed = procrustes(cross, group)
    return candidates, signed.sum(axis=-1)


def distinct(
    candidates: Float[np.ndarray, "c d d"], values: Float[np.ndarray, " c"], count: int
) -> tuple[Float[np.ndarray, "k d d"], Float[np.ndarray, " k"]]:
    """The best ``count``, best first, without those within about five degrees of a better one.

    Examples
    --------
    >>> turns = planar_rotation(np.array([0.0, 0.01, 1.0]))
    >>> distinct(turns, np.array([1.0, 3.0, 2.0]), 2)[1].tolist()
    [3.0, 2.0]
    """
    order = np.argsort(-values, kind="stable")[: 4 * count]
    candidates, values = candidates[order], values[order]
    flat = candidates.reshape(len(candidates), -1)
    near = flat @ flat.T > candidates.shape[-1] - 0.008  # <P, P'> = d - |P - P'|^2 / 2
    kept: list[int] = []
    for i in range(len(candidates)):
        if len(kept) < count and not near[i, kept].any():
            kept.append(i)
    return candidates[kept], values[kept]
