"""Kernel density estimates that can grow: a pool's density is the average of its chunks'."""

from __future__ import annotations

from math import lgamma, log, pi
from typing import Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

Bandwidth = float | Literal["scott", "silverman"] | str
Kernel = Literal["gaussian", "tophat"] | str

# Entries of one block of the test-by-train distance matrix: it should fit the L2 cache.
_BLOCK = 1 << 16


def rule_bandwidth(X: Float[np.ndarray, "n d"], rule: Literal["scott", "silverman"] | str) -> float:
    """Reference bandwidth of an isotropic Gaussian kernel.

    Parameters
    ----------
    X : array, shape (n, d)
    rule : {"scott", "silverman"}
        n^(-1/(d+4)), or (n (d+2)/4)^(-1/(d+4)), times the root of the columns' mean variance
        (Silverman 1986, section 4.3.2).  scikit-learn uses the first factor alone, which assumes
        unit variance.

    Returns
    -------
    float
        In units of the data.

    Raises
    ------
    InputError
        For an unknown rule, or when the data do not vary.

    Examples
    --------
    >>> round(rule_bandwidth(np.array([[-1.0], [1.0]]), "scott"), 4)  # 2 ** -0.2
    0.8706
    """
    n, d = X.shape
    if rule not in ("scott", "silverman"):
        raise InputError(f"bandwidth={rule!r} is not known", 'a number, "scott" or "silverman"')
    scale = float(np.sqrt(np.mean(np.var(X, axis=0))))
    if scale == 0:
        raise InputError(
            f"bandwidth={rule!r} is 0: all {n} rows are equal", "give the bandwidth as a number"
        )
    size = n if rule == "scott" else n * (d + 2) / 4
    return scale * size ** (-1 / (d + 4))


class KernelSums:
    """Log of the kernel sum at fixed test points, to which training points can be added.

    ``log sum_i w_i K(x - x_i)`` per test point, kept as a running maximum and a scaled sum, so that
    adding n points costs O(n m) whatever was added before.

    Parameters
    ----------
    X_test : array, shape (m, d)
    bandwidth : float
    kernel : {"gaussian", "tophat"}

    Examples
    --------
    >>> sums = KernelSums(np.zeros((1, 1)), bandwidth=1.0)
    >>> sums.add(np.zeros((2, 1)))
    >>> round(float(sums.log_density()[0]), 4)
    -0.9189
    """

    def __init__(
        self, X_test: Float[np.ndarray, "m d"], bandwidth: float, kernel: Kernel = "gaussian"
    ) -> None:
        self.X_test = np.array(X_test, dtype=float)
        self.bandwidth, self.kernel = bandwidth, kernel
        self.total_weight = 0.0
        self._top = np.full(len(self.X_test), -np.inf)
        self._sum = np.zeros(len(self.X_test))

    def add(
        self, X: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"] | None = None
    ) -> None:
        """Add training points, each with weight 1 unless told.

        Examples
        --------
        >>> sums = KernelSums(np.zeros((3, 2)), 0.5)
        >>> sums.add(np.ones((4, 2)), weight=np.ones(4))
        >>> sums.total_weight
        4.0
        """
        self.total_weight += len(X) if weight is None else float(np.sum(weight))
        step = max(1, _BLOCK // max(1, len(self.X_test)))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            self._add_block(X[rows], None if weight is None else weight[rows])

    def _add_block(self, X, weight) -> None:
        from scipy.spatial.distance import cdist

        squared = cdist(self.X_test, X, "sqeuclidean")
        if self.kernel == "tophat":
            inside = squared < self.bandwidth**2
            self._sum += inside @ (np.ones(len(X)) if weight is None else weight)
            self._top = np.where(self._sum > 0, 0.0, -np.inf)
            return
        squared *= -0.5 / self.bandwidth**2
        top = np.maximum(self._top, squared.max(axis=1))
        squared -= top[:, None]
        terms = np.exp(squared, out=squared)
        new = terms.sum(axis=1) if weight is None else terms @ weight
        self._sum = self._sum * np.exp(self._top - top) + new
        self._top = top

    def log_density(self) -> Float[np.ndarray, " m"]:
        """Log density at the test points, in nats; ``-inf`` where it is zero.

        Examples
        --------
        >>> sums = KernelSums(np.array([[2.0]]), 1.0, kernel="tophat")
        >>> sums.add(np.zeros((1, 1)))
        >>> float(sums.log_density()[0])
        -inf
        """
        d = self.X_test.shape[1]
        if self.kernel == "tophat":
            log_norm = lgamma(d / 2 + 1) - d / 2 * log(pi)
        else:
            log_norm = -d / 2 * log(2 * pi)
        log_norm -= d * log(self.bandwidth)
        with np.errstate(divide="ignore"):
            return self._top + np.log(self._sum) + (log_norm - log(self.total_weight))


class KDEModel:
    """Kernel density estimate with an isotropic kernel.

    p(x) = 1/(n h^d) sum_i K((x - x_i)/h), K the standard Gaussian, or uniform in the unit ball.

    Parameters
    ----------
    bandwidth : float, "scott" or "silverman"
        h, in units of the data.  A rule is evaluated again at every fit.
    kernel : {"gaussian", "tophat"}

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use.

    Notes
    -----
    The loss is the mean negative log density in nats.  With a number as bandwidth, ``extend``
    followed by ``loss`` on the same test points adds only the new points' kernels: the average of
    chunk densities is the pool's density.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = KDEModel(0.3).fit(rng.normal(size=(50, 2)), rng=rng)
    >>> model.sample(4, rng=rng).shape
    (4, 2)
    """

    loss_unit = "nats"
    accepts_text = False

    def __init__(self, bandwidth: Bandwidth = "scott", kernel: Kernel = "gaussian") -> None:
        if kernel not in ("gaussian", "tophat"):
            raise InputError(f"kernel={kernel!r} is not known", 'use "gaussian" or "tophat"')
        if isinstance(bandwidth, str):
            if bandwidth not in ("scott", "silverman"):
                raise InputError(
                    f"bandwidth={bandwidth!r} is not known", 'a number, "scott" or "silverman"'
                )
        elif not (np.isfinite(bandwidth) and bandwidth > 0):
            raise InputError(f"bandwidth={bandwidth}: must be a positive number")
        self.bandwidth, self.kernel = bandwidth, kernel

    def fresh(self) -> KDEModel:
        """An unfitted copy."""
        return KDEModel(self.bandwidth, self.kernel)

    def fit(
        self,
        X: Float[np.ndarray, "n d"],
        *,
        rng: np.random.Generator | None = None,
        sample_weight: Float[np.ndarray, " n"] | None = None,
    ) -> KDEModel:
        """Keep the points, and evaluate the bandwidth rule.

        Parameters
        ----------
        X : array, shape (n, d)
        rng : ignored
        sample_weight : array, shape (n,), optional

        Raises
        ------
        InputError
            If a bandwidth rule meets data that do not vary.

        Examples
        --------
        >>> KDEModel(0.5).fit(np.zeros((3, 1))).bandwidth_
        0.5
        """
        is_rule = isinstance(self.bandwidth, str)
        self.bandwidth_ = rule_bandwidth(X, self.bandwidth) if is_rule else float(self.bandwidth)
        self._chunks = [np.asarray(X, dtype=float)]
        self._weight = sample_weight
        self._sums: KernelSums | None = None
        self._summed = 0
        return self

    def extend(
        self, X_new: Float[np.ndarray, "k d"], *, rng: np.random.Generator | None = None
    ) -> KDEModel:
        """Add points to the fit; the same model as a fit to all points.

        Examples
        --------
        >>> model = KDEModel(0.5).fit(np.zeros((3, 1))).extend(np.ones((2, 1)))
        >>> len(model.points)
        5
        """
        if self._weight is not None:
            raise InputError("a weighted estimate cannot be extended", "fit it again")
        if isinstance(self.bandwidth, str):  # a rule depends on all points
            return self.fit(np.concatenate([*self._chunks, X_new]), rng=rng)
        self._chunks.append(np.asarray(X_new, dtype=float))
        return self

    @property
    def points(self) -> Float[np.ndarray, "n d"]:
        """The training points."""
        return np.concatenate(self._chunks)

    def sample(self, n: int, *, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Pick n training points with replacement and add kernel noise.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> drawn = KDEModel(0.1, "tophat").fit(np.zeros((2, 1))).sample(9, rng=rng)
        >>> bool(np.all(np.abs(drawn) < 0.1))
        True
        """
        points = self.points
        if self._weight is None:
            centre = points[rng.integers(len(points), size=n)]
        else:
            edges = np.cumsum(self._weight)
            centre = points[np.searchsorted(edges, rng.random(n) * edges[-1], side="right")]
        noise = rng.standard_normal(centre.shape)
        if self.kernel == "tophat":  # a uniform direction, and a radius with density ~ r^(d-1)
            d = centre.shape[1]
            noise /= np.linalg.norm(noise, axis=1, keepdims=True)
            noise *= rng.random((n, 1)) ** (1 / d)
        return centre + self.bandwidth_ * noise

    def log_density(self, X_test: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """Log density per test point, in nats.

        Examples
        --------
        >>> model = KDEModel(1.0).fit(np.zeros((2, 1)))
        >>> model.log_density(np.array([[0.0]])).round(4).tolist()
        [-0.9189]
        """
        X_test = np.asarray(X_test, dtype=float)
        if self._sums is None or not np.array_equal(self._sums.X_test, X_test):
            self._sums, self._summed = KernelSums(X_test, self.bandwidth_, self.kernel), 0
        for chunk in self._chunks[self._summed :]:
            self._sums.add(chunk, self._weight)
        self._summed = len(self._chunks)
        return self._sums.log_density()

    def loss(self, X_test: Float[np.ndarray, "m d"]) -> float:
        """Mean negative log density, in nats per row; ``inf`` where the density is zero.

        Examples
        --------
        >>> round(KDEModel(1.0).fit(np.zeros((2, 1))).loss(np.array([[0.0]])), 4)
        0.9189
        """
        return float(-np.mean(self.log_density(X_test)))

    def metrics(self, X_test: Float[np.ndarray, "m d"]) -> dict[str, float]:
        """Mean squared norm of the training points, and the bandwidth in use.

        Examples
        --------
        >>> KDEModel(1.0).fit(np.ones((2, 1))).metrics(np.ones((1, 1)))
        {'second_moment': 1.0, 'bandwidth': 1.0}
        """
        total = sum(np.sum(chunk**2) for chunk in self._chunks)
        size = sum(len(chunk) for chunk in self._chunks)
        return {"second_moment": float(total / size), "bandwidth": self.bandwidth_}
