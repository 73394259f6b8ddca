"""The Procrustes-Wasserstein barycenter: Algorithm 2 of the paper as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein.distance import PWResult, procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.measures import Measure, as_measure
from practicum.stats.procrustes_wasserstein.pairwise import as_measures, pw_pairwise

MEDOID_CANDIDATES = 20  # more inputs than this are represented by a seeded sample of them
MEDOID_ATOMS = 32
COEFFICIENT_TOLERANCE = 1e-6


class PWBarycenter(TransformerMixin, BaseEstimator):
    r"""Average point clouds up to rotation (and reflection).

    .. math::

        \min_X \sum_i w_i \, PW_2^2(\mu_X, \mu_{Y_i})

    by alternating: every cloud is aligned and matched to the current support (Algorithm 1),
    then every support point moves to the mean of what was matched to it,
    ``X <- sum_i w_i diag(1/b) Gamma_i Y_i P_i`` (Algorithm 2 of Adamo et al., ICML 2025).
    Where the paper starts from Gaussian noise, this starts from the medoid of the inputs, and
    every round starts from the rotations of the last one, so that the objective never rises; once
    the support has settled, every cloud is aligned from scratch, and the rounds go on if that
    helps.

    Parameters
    ----------
    n_support : int, optional
        Points of the barycenter. By default those of the medoid input, with its weights.
    init : str or (d, d) array
        First-round initialisation, as in :func:`~.distance.procrustes_wasserstein`.
    max_iter : int
        Rounds at most.
    tol : float
        Stop when the support moves by less than ``tol`` times its own moment:
        ``sum b|x_new - x|^2 <= tol * sum b|x|^2``.
    weights : (N,) array-like, optional
        Coefficients w of the clouds, non-negative, summing to one; equal by default.
    random_state : int
        Seed for the random starts and for drawing support points.
    group : "O" or "SO"
        Whether reflections are allowed.

    Attributes
    ----------
    support_ : (k, d) array
        Points of the barycenter, centred, in the pose of the first cloud.
    weights_ : (k,) array
        Their weights b.
    rotations_ : (N, d, d) array
        ``(Y_i - mean_i) @ rotations_[i]`` lies over ``support_``.
    plans_ : list of (k, n_i) csr_matrix
        Transport plans from the support to each cloud.
    distances_ : (N,) array
        PW of each cloud to the barycenter: a cloud far from it is an outlier, or misaligned.
    objective_ : (n_iter_ + 1,) array
        ``sum_i w_i PW_i^2`` at the start of every round, and at the end; never increasing.
    n_iter_ : int
        Rounds that were run.
    medoid_ : int
        The cloud that the iteration started from.

    Examples
    --------
    >>> triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> quarter_turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> mean = PWBarycenter().fit([triangle, triangle @ quarter_turn])
    >>> bool(mean.objective_[-1] < 1e-12)
    True
    >>> np.allclose(mean.support_, triangle - triangle.mean(axis=0))
    True
    """

    def __init__(
        self,
        n_support: int | None = None,
        init: Any = "auto",
        max_iter: int = 30,
        tol: float = 1e-6,
        weights: Sequence[float] | np.ndarray | None = None,
        random_state: int = 0,
        group: str = "O",
    ) -> None:
        self.n_support = n_support
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.weights = weights
        self.random_state = random_state
        self.group = group

    def fit(
        self,
        clouds: Sequence[Any] | np.ndarray,
        y: None = None,
        *,
        cloud_weights: Sequence[Any] | np.ndarray | None = None,
    ) -> PWBarycenter:
        """Compute the barycenter.

        Parameters
        ----------
        clouds : sequence of N clouds
            (n_i, d) arrays or objects with ``points`` and ``weights``; sizes may differ.
        y : ignored
            Here for scikit-learn's sake.
        cloud_weights : sequence of N arrays or None, optional
            Weights of the points of each cloud.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a cloud, its weights or a parameter is unusable.
        """
        measures = as_measures(clouds, cloud_weights)
        coefficients = self._coefficients(len(measures))
        self._check_parameters()
        self.medoid_ = _medoid(measures, coefficients, self.group, self.random_state)
        support = self._first_support(measures[self.medoid_])
        results = self._align(support, measures)
        objective = [_objective(results, coefficients)]
        while len(objective) <= self.max_iter:
            points = _average(results, measures, coefficients, support)
            moved = support.weights @ np.sum((points - support.points) ** 2, axis=1)
            support = as_measure(points, support.weights, name="support")
            results = self._align(support, measures, results)
            if moved <= self.tol * support.moment:
                warm = _objective(results, coefficients)
                results = self._fresh_look(support, measures, results)
                objective.append(_objective(results, coefficients))
                if warm - objective[-1] <= self.tol * support.moment:
                    break
            else:
                objective.append(_objective(results, coefficients))
        self.n_iter_ = len(objective) - 1
        self.objective_ = np.array(objective)
        self._store(support, results)
        return self

    def transform(
        self,
        clouds: Sequence[Any] | np.ndarray,
        *,
        cloud_weights: Sequence[Any] | np.ndarray | None = None,
    ) -> list[Float[np.ndarray, "n d"]]:
        """Clouds, old or new, centred and turned over the barycenter.

        Parameters
        ----------
        clouds : sequence of clouds, as in :meth:`fit`
        cloud_weights : sequence of N arrays or None, optional
            Weights of the points of each cloud; points without weight are turned with the others.

        Returns
        -------
        list of (n_i, d) arrays in the pose of ``support_``
        """
        check_is_fitted(self)
        support = as_measure(self.support_, self.weights_, name="support")
        aligned = []
        for cloud, measure in zip(clouds, as_measures(clouds, cloud_weights), strict=True):
            result = self._solve(support, measure, self.init)
            aligned.append(result.transform(cloud))
        return aligned

    def fit_transform(
        self,
        clouds: Sequence[Any] | np.ndarray,
        y: None = None,
        *,
        cloud_weights: Sequence[Any] | np.ndarray | None = None,
    ) -> list[Float[np.ndarray, "n d"]]:
        """Fit, and the clouds in the common pose; parameters as in :meth:`fit`."""
        fitted = self.fit(clouds, y, cloud_weights=cloud_weights)
        return fitted.transform(clouds, cloud_weights=cloud_weights)

    def _solve(self, support: Measure, cloud: Measure, init: Any) -> PWResult:
        return procrustes_wasserstein(
            support, cloud, init=init, group=self.group, random_state=self.random_state
        )

    def _align(
        self, support: Measure, measures: list[Measure], previous: list[PWResult] | None = None
    ) -> list[PWResult]:
        """Every cloud to the support: from the last rotations, or from scratch."""
        inits = [self.init] * len(measures) if previous is None else [r.P for r in previous]
        return [self._solve(support, m, P) for m, P in zip(measures, inits, strict=True)]

    def _fresh_look(
        self, support: Measure, measures: list[Measure], results: list[PWResult]
    ) -> list[PWResult]:
        """Start over against the settled support: a cloud misplaced in round one may now fit."""
        fresh = self._align(support, measures)
        return [min(pair, key=lambda r: r.squared) for pair in zip(results, fresh, strict=True)]

    def _coefficients(self, count: int) -> Float[np.ndarray, " N"]:
        if self.weights is None:
            return np.full(count, 1.0 / count)
        w = np.array(self.weights, dtype=np.float64)
        if w.shape != (count,) or not (w >= 0).all():
            raise InputError(
                f"weights has shape {w.shape} for {count} clouds, or a negative entry",
                "give one non-negative coefficient per cloud",
            )
        if abs(w.sum() - 1.0) > COEFFICIENT_TOLERANCE:
            raise InputError(f"weights sum to {w.sum():.6g}, expected 1", "divide by their sum")
        return w / w.sum()

    def _check_parameters(self) -> None:
        k = self.n_support
        if k is not None and not (isinstance(k, Integral) and k >= 1):
            raise InputError(f"n_support={k!r}, expected a whole number, 1 or more")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 0:
            raise InputError(f"max_iter={self.max_iter!r}, expected a whole number, 0 or more")

    def _first_support(self, medoid: Measure) -> Measure:
        if self.n_support is None:
            return as_measure(medoid.points, medoid.weights, name="support")
        k = self.n_support
        if medoid.uniform and k <= medoid.n:
            # Real points keep the detail of the shape that block centroids would smooth away.
            rng = np.random.default_rng(self.random_state)
            points = medoid.points[np.sort(rng.choice(medoid.n, size=k, replace=False))]
        else:
            points = medoid.blocks(k)
        return as_measure(points, name="support")

    def _store(self, support: Measure, results: list[PWResult]) -> None:
        """Turn everything into the pose of the first cloud."""
        first = results[0]
        # A symmetric shape leaves a choice: take the turn closest to none.
        pose = max((first.P, *first.ties), key=np.trace).T
        self.support_ = support.points @ pose
        self.weights_ = support.weights
        self.rotations_ = np.array([result.P @ pose for result in results])
        self.plans_ = [result.plan for result in results]
        self.distances_ = np.array([result.distance for result in results])


def _objective(results: list[PWResult], coefficients: Float[np.ndarray, " N"]) -> float:
    return float(coefficients @ [result.squared for result in results])


def _average(
    results: list[PWResult],
    measures: list[Measure],
    coefficients: Float[np.ndarray, " N"],
    support: Measure,
) -> Float[np.ndarray, "k d"]:
    """``sum_i w_i diag(1/b) Gamma_i Y_i P_i``: every support point to the mean of its matches."""
    total = np.zeros_like(support.points)
    for result, measure, w in zip(results, measures, coefficients, strict=True):
        total += w * (result.plan[:, measure.kept] @ (measure.points @ result.P))
    return total / support.weights[:, None]


def _medoid(
    measures: list[Measure], coefficients: Float[np.ndarray, " N"], group: str, seed: int
) -> int:
    """The cloud with the smallest weighted sum of squared distances, judged on coarse copies."""
    candidates = np.flatnonzero(coefficients > 0)
    if len(candidates) > MEDOID_CANDIDATES:
        rng = np.random.default_rng(seed)
        candidates = np.sort(rng.choice(candidates, MEDOID_CANDIDATES, replace=False))
    if len(candidates) < 3:  # of two clouds, the heavier one
        return int(candidates[np.argmax(coefficients[candidates])])
    coarse = [measures[i].blocks(MEDOID_ATOMS) for i in candidates]
    squared = pw_pairwise(coarse, group=group, random_state=seed) ** 2
    return int(candidates[np.argmin(squared @ coefficients[candidates])])
