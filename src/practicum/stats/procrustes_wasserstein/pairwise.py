"""All distances of a collection of clouds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from jaxtyping import Float
from joblib import Parallel, delayed
from scipy.spatial.distance import squareform

from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein.distance import procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.initialisations import PLANE, SPACE
from practicum.stats.procrustes_wasserstein.measures import Measure, as_measure

PAIRS_PER_TASK = 64


def pw_pairwise(
    clouds: Sequence[Any] | np.ndarray,
    n_jobs: int = 1,
    *,
    others: Sequence[Any] | np.ndarray | None = None,
    cloud_weights: Sequence[Any] | np.ndarray | None = None,
    other_weights: Sequence[Any] | np.ndarray | None = None,
    condensed: bool = False,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Float[np.ndarray, "N M"] | Float[np.ndarray, " pairs"]:
    """Procrustes-Wasserstein distances between all pairs of clouds, or from one list to another.

    Each cloud is validated, centred and split into coarse copies once. The result does not
    depend on ``n_jobs``: every pair is solved once, from the same seed.

    Parameters
    ----------
    clouds : sequence of N clouds
        Arrays of shape (n_i, d), or objects with ``points`` and ``weights``; sizes may differ.
    n_jobs : int
        Processes (joblib); -1 for all cores.
    others : sequence of M clouds, optional
        Distances from every cloud to every one of these (new shapes to known ones, say) instead.
    cloud_weights, other_weights : sequences of N and M arrays or None, optional
        Weights of the points of each cloud.
    condensed : bool
        Return the ``N (N - 1) / 2`` entries above the diagonal, as ``scipy.spatial.distance`` does.
    progress : callable, optional
        Called as ``progress(finished, total)`` with numbers of pairs.
    **options
        Passed to :func:`~.distance.procrustes_wasserstein`: ``init``, ``group``, ``effort``, ...

    Returns
    -------
    (N, N) float array, coordinate units
        Symmetric with a zero diagonal (or the condensed vector); (N, M) to ``others``.

    Raises
    ------
    InputError
        If a cloud is unusable (its position in the list is named), dimensions differ, or an
        option goes with a single pair.

    Examples
    --------
    >>> square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    >>> pw_pairwise([square, 3 * square, square[::-1] + 5.0]).round(6).tolist()
    [[0.0, 2.828427, 0.0], [2.828427, 0.0, 2.828427], [0.0, 2.828427, 0.0]]
    >>> pw_pairwise([square], others=[3 * square, square[::-1] + 5.0]).round(6).tolist()
    [[2.828427, 0.0]]
    """
    if {"p", "q"} & set(options):
        raise InputError("p and q are weights of a single pair", "use cloud_weights=[...]")
    if others is not None and condensed:
        raise InputError("distances to others have no condensed form", "leave condensed=True out")
    center = options.get("center", True)
    measures = as_measures(clouds, cloud_weights, center=center)
    known = [] if others is None else as_measures(others, other_weights, center=center, of="others")
    if known and known[0].dimension != measures[0].dimension:
        raise InputError(
            f"others have {known[0].dimension} coordinates per point, clouds have "
            f"{measures[0].dimension}",
            "all clouds need the same dimension",
        )
    if options.get("init", "auto") in ("auto", "global"):
        _split_all(measures + known)
    count = len(measures)
    pairs = list(combinations(range(count), 2))
    if known:
        pairs = list(product(range(count), range(count, count + len(known))))
        measures = measures + known
    tasks = [pairs[i : i + PAIRS_PER_TASK] for i in range(0, len(pairs), PAIRS_PER_TASK)]
    parts = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_distances)([(measures[i], measures[j]) for i, j in task], options)
        for task in tasks
    )
    values: list[float] = []
    for part in parts:
        values += part
        if progress is not None:
            progress(len(values), len(pairs))
    flat = np.array(values, dtype=np.float64)
    if known:
        return flat.reshape(count, len(known))
    if condensed:
        return flat
    return squareform(flat) if count > 1 else np.zeros((1, 1))


def as_measures(
    clouds: Sequence[Any] | np.ndarray,
    cloud_weights: Sequence[Any] | np.ndarray | None,
    *,
    center: bool = True,
    of: str = "clouds",
) -> list[Measure]:
    """Validate a list of clouds of one dimension; messages name the position in the list."""
    if isinstance(clouds, np.ndarray) and clouds.ndim < 3:
        raise InputError(
            f"{of} is one array of shape {clouds.shape}, expected a list of (n, d) arrays",
            "wrap a single cloud in a list",
        )
    clouds = list(clouds)
    if not clouds:
        raise InputError(f"{of} is empty", "pass at least one (n, d) array")
    weights = [None] * len(clouds) if cloud_weights is None else list(cloud_weights)
    if len(weights) != len(clouds):
        raise InputError(
            f"{of[:-1]}_weights has {len(weights)} entries for {len(clouds)} clouds",
            "give one array (or None) per cloud",
        )
    measures = [
        as_measure(cloud, w, center=center, name=f"{of}[{i}]")
        for i, (cloud, w) in enumerate(zip(clouds, weights, strict=True))
    ]
    for i, measure in enumerate(measures):
        if measure.dimension != measures[0].dimension:
            raise InputError(
                f"{of}[{i}] has {measure.dimension} coordinates per point, "
                f"{of}[0] has {measures[0].dimension}",
                "all clouds need the same dimension",
            )
    return measures


def _split_all(measures: list[Measure]) -> None:
    """Compute axes and coarse copies before the measures are sent to the workers."""
    budget = (PLANE if measures[0].dimension == 2 else SPACE)[0]
    for measure in measures:
        measure.blocks(budget.stages[-1].atoms)
        _ = measure.axes


def _distances(pairs: list[tuple[Measure, Measure]], options: dict[str, Any]) -> list[float]:
    return [procrustes_wasserstein(x, y, **options).distance for x, y in pairs]
