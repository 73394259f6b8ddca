"""What people use today, on the same clouds: Wasserstein, Gromov-Wasserstein, PCA alignment.

All of them take validated measures or plain arrays and return plain numbers, so that they can be
put beside Procrustes-Wasserstein in a comparison. They need POT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import MissingExtra
from practicum.stats.procrustes_wasserstein.initialisations import GW_OPTIONS, pca
from practicum.stats.procrustes_wasserstein.measures import Measure, as_measure
from practicum.stats.procrustes_wasserstein.transport import Transport


def _pot() -> Any:
    try:
        import ot
    except ImportError as error:
        raise MissingExtra(
            "comparing with other transport distances needs POT",
            "pip install 'practicum[transport]'",
        ) from error
    return ot


def wasserstein(X: Any, Y: Any) -> float:
    """Wasserstein-2 distance of the centred clouds, as they are posed (coordinate units).

    Examples
    --------
    >>> round(wasserstein([[-1.0, 0.0], [1.0, 0.0]], [[0.0, -1.0], [0.0, 1.0]]), 6)
    1.414214
    """
    transport = Transport(as_measure(X, name="X"), as_measure(Y, name="Y"))
    pose = np.eye(transport.x.dimension)
    return float(np.sqrt(transport.cost(transport.plan(pose), pose)))


def pca_wasserstein(X: Any, Y: Any, group: str = "O") -> float:
    """Wasserstein-2 after turning principal axes onto each other, in the best sign pattern.

    One look, no iteration: the pre-alignment that is done by hand today.

    Examples
    --------
    >>> pca_wasserstein([[-1.0, 0.0], [1.0, 0.0]], [[0.0, -1.0], [0.0, 1.0]])
    0.0
    """
    transport = Transport(as_measure(X, name="X"), as_measure(Y, name="Y"))
    costs = [transport.cost(transport.plan(P), P) for P in pca(transport, group)]
    return float(np.sqrt(min(costs)))


def gromov_wasserstein(X: Any, Y: Any) -> float:
    """Root of the Gromov-Wasserstein loss between Euclidean distance matrices (POT).

    Same stopping rule as the paper's code: 100 iterations, tolerances of 1e-3.

    Raises
    ------
    MissingExtra
        If POT is not installed.

    Examples
    --------
    >>> gromov_wasserstein([[-1.0, 0.0], [1.0, 0.0]], [[0.0, -1.0], [0.0, 1.0]])
    0.0
    """
    ot = _pot()
    x, y = as_measure(X, name="X"), as_measure(Y, name="Y")
    within = [ot.dist(m.points, m.points, metric="euclidean") for m in (x, y)]
    loss = ot.gromov.gromov_wasserstein2(*within, x.weights, y.weights, **GW_OPTIONS)
    return float(np.sqrt(max(loss, 0.0)))


def wasserstein_barycenter(clouds: Sequence[Any], n_support: int) -> Float[np.ndarray, "k d"]:
    """POT's free-support barycenter of the centred clouds, started from the first one.

    Examples
    --------
    >>> segment = np.array([[-1.0, 0.0], [1.0, 0.0]])
    >>> np.sort(wasserstein_barycenter([segment, 3 * segment], 2)[:, 0]).round(6).tolist()
    [-2.0, 2.0]
    """
    ot = _pot()
    measures = [as_measure(cloud, name=f"clouds[{i}]") for i, cloud in enumerate(clouds)]
    return ot.lp.free_support_barycenter(
        [m.points for m in measures],
        [m.weights for m in measures],
        _some_points(measures[0], n_support),
        numItermax=30,
        stopThr=1e-6,
    )


def gromov_barycenter(
    clouds: Sequence[Any], n_support: int, random_state: int = 0
) -> Float[np.ndarray, "k d"]:
    """POT's Gromov-Wasserstein barycenter, a distance matrix, made a cloud again by metric MDS.

    Examples
    --------
    >>> segment = np.array([[-1.0, 0.0], [1.0, 0.0]])
    >>> mean = gromov_barycenter([segment, segment], 2)
    >>> bool(abs(np.linalg.norm(mean[0] - mean[1]) - 2) < 1e-3)
    True
    """
    from sklearn.manifold import MDS

    ot = _pot()
    measures = [as_measure(cloud, name=f"clouds[{i}]") for i, cloud in enumerate(clouds)]
    within = [ot.dist(m.points, m.points, metric="euclidean") for m in measures]
    start = _some_points(measures[0], n_support)
    mean = ot.gromov.gromov_barycenters(
        n_support,
        within,
        [m.weights for m in measures],
        max_iter=30,
        tol=1e-3,
        init_C=ot.dist(start, start, metric="euclidean"),
        random_state=random_state,
    )
    mean = 0.5 * (mean + mean.T)
    np.fill_diagonal(mean, 0.0)
    scaling = MDS(
        measures[0].dimension, metric="precomputed", n_init=4, init="random",
        random_state=random_state,
    )  # fmt: skip
    return scaling.fit_transform(mean)


def _some_points(measure: Measure, k: int) -> Float[np.ndarray, "k d"]:
    """``k`` points to start from: the measure's own, or equal-mass blocks of it."""
    return measure.points.copy() if k == measure.n else measure.blocks(k).copy()
