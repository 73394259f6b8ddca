"""Generative models with one small shape: fit, sample, loss.

``GaussianModel``, ``CategoricalModel`` and ``FixedDesignRegression`` are estimated here;
``SklearnModel`` and ``CallableModel`` wrap what a person already has.  Kernel density estimates
are in ``kde.py``, the n-gram language model in ``ngram.py``.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Num

from practicum.errors import InputError, reason_of


@runtime_checkable
class GenerativeModel(Protocol):
    """Anything that can be fitted, write new items and be scored on real items.

    ``fit`` must start from the same state every time it is called.  Optional members that
    :func:`~practicum.generative.model_collapse.run_generations` uses where they exist:

    ``fresh()``
        A cheap unfitted copy (``copy.deepcopy`` otherwise).
    ``extend(X_new, *, rng)``
        Add items to the fit, exactly as if it had been fitted to all of them.
    ``metrics(X_test)``
        A dict of further numbers, one column each in the result.
    ``fit(X, *, rng, sample_weight)``
        Weighted fits, for the ``weights`` hook.
    ``loss_unit``
        ``"nats"`` when the loss is a negative log-likelihood per item; another unit in full, as
        ``"nats per character"``.
    ``accepts_text``
        Whether items are documents (true) or rows of numbers (false).

    Examples
    --------
    >>> isinstance(GaussianModel(), GenerativeModel)
    True
    """

    def fit(self, X: Any, *, rng: np.random.Generator) -> GenerativeModel:
        """Fit to the items X and return self."""

    def sample(self, n: int, *, rng: np.random.Generator) -> Any:
        """Write n new items, of the kind of X."""

    def loss(self, X_test: Any) -> float:
        """Loss on real items; lower is better."""


class GaussianModel:
    """Multivariate Gaussian, N(mu, Sigma).

    Parameters
    ----------
    cov : {"mle", "unbiased"}
        Divide the scatter by n (the paper) or by n - 1.

    Attributes
    ----------
    mean_ : array, shape (d,)
    covariance_ : array, shape (d, d)

    Notes
    -----
    The loss is the mean negative log-likelihood in nats; ``inf`` for a singular covariance.
    Sampling uses the eigen-decomposition with negative eigenvalues clipped, because late
    generations are singular up to rounding.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = GaussianModel().fit(rng.normal(size=(50, 2)), rng=rng)
    >>> model.sample(3, rng=rng).shape
    (3, 2)
    """

    loss_unit = "nats"
    accepts_text = False

    def __init__(self, cov: Literal["mle", "unbiased"] | str = "mle") -> None:
        if cov not in ("mle", "unbiased"):
            raise InputError(f"cov={cov!r} is not known", 'use "mle" or "unbiased"')
        self.cov = cov

    def fresh(self) -> GaussianModel:
        """An unfitted copy."""
        return GaussianModel(self.cov)

    def fit(
        self,
        X: Float[np.ndarray, "n d"],
        *,
        rng: np.random.Generator | None = None,
        sample_weight: Float[np.ndarray, " n"] | None = None,
    ) -> GaussianModel:
        """Estimate mean and covariance.

        Parameters
        ----------
        X : array, shape (n, d)
        rng : ignored
        sample_weight : array, shape (n,), optional
            Non-negative; with "unbiased" the correction uses the effective sample size.

        Raises
        ------
        InputError
            With fewer than two rows.

        Warns
        -----
        UserWarning
            If d >= n: the covariance is singular and the loss infinite.

        Examples
        --------
        >>> GaussianModel().fit(np.array([[0.0], [2.0]])).covariance_.tolist()
        [[1.0]]
        """
        n, d = X.shape
        if n < 2:
            raise InputError(f"a covariance needs at least 2 items to fit, found {n}")
        if d >= n:
            warnings.warn(
                f"{n} rows in {d} dimensions give a singular covariance: the loss is infinite "
                f"(use more than {d} rows)",
                UserWarning,
                stacklevel=2,
            )
        w = np.full(n, 1 / n) if sample_weight is None else sample_weight / np.sum(sample_weight)
        self.mean_ = w @ X
        centred = X - self.mean_
        self.covariance_ = (centred * w[:, None]).T @ centred
        if self.cov == "unbiased":
            self.covariance_ /= 1 - np.sum(w**2)
        self._rank = min(d, n - 1)
        return self

    def sample(self, n: int, *, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draw n rows.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> GaussianModel().fit(np.eye(4)[:, :3], rng=rng).sample(2, rng=rng).shape
        (2, 3)
        """
        values, vectors = np.linalg.eigh(self.covariance_)
        root = vectors * np.sqrt(np.maximum(values, 0))
        return self.mean_ + rng.standard_normal((n, len(values))) @ root.T

    def loss(self, X_test: Float[np.ndarray, "m d"]) -> float:
        """Mean negative log-likelihood, in nats per row.

        Examples
        --------
        >>> model = GaussianModel().fit(np.array([[-1.0], [1.0]]))
        >>> round(model.loss(np.array([[0.0]])), 4)  # log(2 pi) / 2
        0.9189
        """
        d = len(self.mean_)
        if self._rank < d:
            return np.inf
        try:
            lower = np.linalg.cholesky(self.covariance_)
        except np.linalg.LinAlgError:
            return np.inf
        z = np.linalg.solve(lower, (X_test - self.mean_).T)
        log_det = 2 * np.sum(np.log(np.diag(lower)))
        nll = 0.5 * (d * np.log(2 * np.pi) + log_det + np.mean(np.sum(z**2, axis=0)))
        return float(nll) if np.isfinite(nll) else np.inf

    def metrics(self, X_test: Float[np.ndarray, "m d"]) -> dict[str, float]:
        """Trace and log-determinant of the covariance, squared distance of the mean to X_test's.

        Examples
        --------
        >>> sorted(GaussianModel().fit(np.eye(3)[:, :1]).metrics(np.ones((2, 1))))
        ['log_det', 'mean_sq_error', 'trace']
        """
        sign, log_det = np.linalg.slogdet(self.covariance_)
        regular = sign > 0 and self._rank == len(self.mean_)
        return {
            "trace": float(np.trace(self.covariance_)),
            "log_det": float(log_det) if regular else -np.inf,
            "mean_sq_error": float(np.sum((self.mean_ - X_test.mean(axis=0)) ** 2)),
        }


class CategoricalModel:
    """Categorical distribution over 0..K-1: the relative frequencies.

    Parameters
    ----------
    K : int
        Number of outcomes.
    smoothing : float
        Added to every count (Laplace); 0 is maximum likelihood.

    Attributes
    ----------
    probabilities_ : array, shape (K,)

    Notes
    -----
    Loss: cross-entropy -mean log p(x) in nats, ``inf`` if an outcome has died out.
    Metrics: Gini diversity 1 - sum_k p_k^2 and the number of outcomes left.

    Examples
    --------
    >>> CategoricalModel(2).fit(np.array([0, 1, 1, 1])).probabilities_.tolist()
    [0.25, 0.75]
    """

    loss_unit = "nats"
    accepts_text = False

    def __init__(self, K: int, smoothing: float = 0.0) -> None:
        if K < 1 or smoothing < 0:
            raise InputError(f"K={K}, smoothing={smoothing}: need K >= 1 and smoothing >= 0")
        self.K, self.smoothing = int(K), float(smoothing)

    def fresh(self) -> CategoricalModel:
        """An unfitted copy."""
        return CategoricalModel(self.K, self.smoothing)

    def fit(
        self,
        X: Num[np.ndarray, "..."],
        *,
        rng: np.random.Generator | None = None,
        sample_weight: Float[np.ndarray, " n"] | None = None,
    ) -> CategoricalModel:
        """Count outcomes.

        Parameters
        ----------
        X : array of integers, shape (n,) or (n, 1)
        rng : ignored
        sample_weight : array, shape (n,), optional

        Raises
        ------
        InputError
            If X holds anything but integers in 0..K-1.

        Examples
        --------
        >>> CategoricalModel(3, smoothing=1.0).fit(np.array([0, 0, 0])).probabilities_[1:].round(3)
        array([0.167, 0.167])
        """
        codes = self._codes(X)
        counts = np.bincount(codes, weights=sample_weight, minlength=self.K) + self.smoothing
        self.probabilities_ = counts / counts.sum()
        return self

    def _codes(self, X: Num[np.ndarray, "..."]) -> Int[np.ndarray, " n"]:
        values = np.asarray(X).reshape(-1)
        codes = values.astype(np.int64)
        if values.size == 0 or (codes != values).any() or codes.min() < 0 or codes.max() >= self.K:
            raise InputError(
                f"expected whole numbers from 0 to {self.K - 1}", "encode the outcomes"
            )
        return codes

    def sample(self, n: int, *, rng: np.random.Generator) -> Int[np.ndarray, "n 1"]:
        """Draw n outcomes, one per row.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> CategoricalModel(2).fit(np.array([1, 1])).sample(2, rng=rng).tolist()
        [[1], [1]]
        """
        edges = np.cumsum(self.probabilities_)
        draws = np.searchsorted(edges, rng.random(n) * edges[-1], side="right")
        return draws[:, None]

    def loss(self, X_test: Num[np.ndarray, "..."]) -> float:
        """Cross-entropy in nats per item.

        Examples
        --------
        >>> model = CategoricalModel(2).fit(np.array([0, 1]))
        >>> round(model.loss(np.array([0])), 4)  # log 2
        0.6931
        """
        with np.errstate(divide="ignore"):
            return float(-np.mean(np.log(self.probabilities_[self._codes(X_test)])))

    def metrics(self, X_test: Num[np.ndarray, "..."]) -> dict[str, float]:
        """Gini diversity and support size.

        Examples
        --------
        >>> CategoricalModel(4).fit(np.arange(4)).metrics(np.arange(4))
        {'gini': 0.75, 'support': 4.0}
        """
        p = self.probabilities_
        return {"gini": float(1 - np.sum(p**2)), "support": float(np.sum(p > 0))}


class FixedDesignRegression:
    """Ordinary least squares whose every generation labels the same inputs anew.

    Items are rows ``[x, y]``.  A generation writes y = x beta + N(0, sigma^2) for the inputs of the
    design, so only the labels are synthetic.

    Parameters
    ----------
    design : array, shape (n, p)
        The inputs x; add a column of ones for an intercept.
    sigma : float
        Known standard deviation of the noise, in units of y.

    Attributes
    ----------
    coefficients_ : array, shape (p,)

    Raises
    ------
    InputError
        If sigma is not positive or the design not a finite table.

    Notes
    -----
    Loss: mean squared error on real rows.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [2.0, 4.0]])
    >>> FixedDesignRegression(rows[:, :1]).fit(rows).coefficients_.round(6).tolist()
    [2.0]
    """

    accepts_text = False

    def __init__(self, design: Float[np.ndarray, "n p"], sigma: float = 1.0) -> None:
        if not sigma > 0:
            raise InputError(f"sigma={sigma}: the noise must be positive")
        self.design = np.asarray(design, dtype=float)
        if self.design.ndim != 2 or not np.isfinite(self.design).all():
            raise InputError("the design must be a table (n, p) without NaN or infinite cells")
        self.sigma = float(sigma)

    def fresh(self) -> FixedDesignRegression:
        """An unfitted copy."""
        return FixedDesignRegression(self.design, self.sigma)

    def fit(
        self,
        X: Float[np.ndarray, "m columns"],
        *,
        rng: np.random.Generator | None = None,
        sample_weight: Float[np.ndarray, " m"] | None = None,
    ) -> FixedDesignRegression:
        """Least squares of the last column on the others.

        Parameters
        ----------
        X : array, shape (m, p + 1)
        rng : ignored
        sample_weight : array, shape (m,), optional

        Raises
        ------
        InputError
            If X has not one column more than the design.

        Examples
        --------
        >>> rows = np.array([[1.0, 3.0]])
        >>> FixedDesignRegression(rows[:, :1]).fit(rows).coefficients_.round(6).tolist()
        [3.0]
        """
        if X.shape[1] != self.design.shape[1] + 1:
            raise InputError(
                f"rows have {X.shape[1]} columns; the design's {self.design.shape[1]} inputs and "
                "the label last were expected"
            )
        root = np.ones(len(X)) if sample_weight is None else np.sqrt(sample_weight)
        inputs, labels = X[:, :-1], X[:, -1]
        self.coefficients_ = np.linalg.lstsq(inputs * root[:, None], labels * root, rcond=None)[0]
        return self

    def sample(self, n: int, *, rng: np.random.Generator) -> Float[np.ndarray, "n columns"]:
        """Label the first n inputs of the design.

        Raises
        ------
        InputError
            If n exceeds the design's rows.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> FixedDesignRegression(np.ones((4, 1))).fit(np.ones((4, 2))).sample(3, rng=rng).shape
        (3, 2)
        """
        if n > len(self.design):
            raise InputError(f"{n} items asked for, the fixed design has {len(self.design)} rows")
        inputs = self.design[:n]
        labels = inputs @ self.coefficients_ + self.sigma * rng.standard_normal(n)
        return np.column_stack([inputs, labels])

    def loss(self, X_test: Float[np.ndarray, "m columns"]) -> float:
        """Mean squared error on real rows.

        Examples
        --------
        >>> model = FixedDesignRegression(np.ones((2, 1))).fit(np.ones((2, 2)))
        >>> round(model.loss(np.array([[1.0, 2.0]])), 6)
        1.0
        """
        return float(np.mean((X_test[:, -1] - X_test[:, :-1] @ self.coefficients_) ** 2))


class SklearnModel:
    """A scikit-learn density with ``fit``, ``sample`` and ``score_samples``.

    Parameters
    ----------
    estimator : estimator
        For example ``GaussianMixture(3)`` or ``KernelDensity(bandwidth=0.2)``; it is cloned for
        every fit and its ``random_state`` set from the generation's generator.

    Notes
    -----
    The loss is ``-mean(score_samples)`` in nats per row.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> model = SklearnModel(GaussianMixture(2)).fit(rng.normal(size=(40, 2)), rng=rng)
    >>> model.sample(5, rng=rng).shape
    (5, 2)
    """

    loss_unit = "nats"
    accepts_text = False

    def __init__(self, estimator: Any) -> None:
        missing = [m for m in ("fit", "sample", "score_samples") if not hasattr(estimator, m)]
        if missing:
            raise InputError(
                f"{type(estimator).__name__} has no {', '.join(missing)}",
                "use GaussianMixture or KernelDensity, or wrap functions with CallableModel",
            )
        self.estimator = estimator

    def fresh(self) -> SklearnModel:
        """An unfitted copy."""
        return SklearnModel(self.estimator)

    def fit(self, X: Float[np.ndarray, "n d"], *, rng: np.random.Generator) -> SklearnModel:
        """Fit a clone of the estimator.

        Raises
        ------
        InputError
            If the estimator refuses the items, fewer than its components for example.

        Examples
        --------
        >>> from sklearn.neighbors import KernelDensity
        >>> model = SklearnModel(KernelDensity())
        >>> model.fit(np.zeros((2, 1)), rng=np.random.default_rng(0)) is model
        True
        """
        from sklearn.base import clone

        self._fitted = clone(self.estimator)
        self._seed(rng)
        try:
            self._fitted.fit(X)
        except ValueError as error:
            kind = type(self.estimator).__name__
            raise InputError(
                f"{kind} cannot be fitted to {len(X)} items: {reason_of(error)}"
            ) from error
        return self

    def _seed(self, rng: np.random.Generator) -> int:
        seed = int(rng.integers(2**31))
        if "random_state" in self._fitted.get_params():
            self._fitted.random_state = seed
        return seed

    def sample(self, n: int, *, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draw n rows.

        Examples
        --------
        >>> from sklearn.neighbors import KernelDensity
        >>> rng = np.random.default_rng(0)
        >>> SklearnModel(KernelDensity()).fit(np.zeros((2, 1)), rng=rng).sample(4, rng=rng).shape
        (4, 1)
        """
        seed = self._seed(rng)
        takes_seed = "random_state" in inspect.signature(self._fitted.sample).parameters
        drawn = self._fitted.sample(n, **({"random_state": seed} if takes_seed else {}))
        rows = drawn[0] if isinstance(drawn, tuple) else drawn  # mixtures return labels as well
        # Mixtures return rows sorted by component; an item's place must not tell its origin.
        return rows[rng.permutation(n)]

    def loss(self, X_test: Float[np.ndarray, "m d"]) -> float:
        """Mean negative log-likelihood, in nats per row.

        Examples
        --------
        >>> from sklearn.neighbors import KernelDensity
        >>> model = SklearnModel(KernelDensity())
        >>> model = model.fit(np.zeros((1, 1)), rng=np.random.default_rng(0))
        >>> round(model.loss(np.zeros((1, 1))), 4)
        0.9189
        """
        return float(-np.mean(self._fitted.score_samples(X_test)))


class CallableModel:
    """Three functions as a model: the way in for any generator a person already has.

    Parameters
    ----------
    fit : callable ``(X, rng) -> state``
        Must start anew each time.
    sample : callable ``(state, n, rng) -> items``
    loss : callable ``(state, X_test) -> float``
    loss_unit : str, optional
        ``"nats"`` if the loss is a negative log-likelihood per item.

    Examples
    --------
    >>> bootstrap = CallableModel(
    ...     fit=lambda X, rng: X,
    ...     sample=lambda X, n, rng: X[rng.integers(len(X), size=n)],
    ...     loss=lambda X, test: float(np.mean((X.mean(0) - test.mean(0)) ** 2)),
    ... )
    >>> rng = np.random.default_rng(0)
    >>> bootstrap.fit(np.eye(2), rng=rng).sample(5, rng=rng).shape
    (5, 2)
    """

    def __init__(
        self,
        fit: Callable[[Any, np.random.Generator], Any],
        sample: Callable[[Any, int, np.random.Generator], Any],
        loss: Callable[[Any, Any], float],
        loss_unit: str | None = None,
    ) -> None:
        self._fit, self._sample, self._loss, self.loss_unit = fit, sample, loss, loss_unit

    def fresh(self) -> CallableModel:
        """An unfitted copy."""
        return CallableModel(self._fit, self._sample, self._loss, self.loss_unit)

    def fit(self, X: Any, *, rng: np.random.Generator) -> CallableModel:
        """Call ``fit(X, rng)`` and keep what it returns.

        Examples
        --------
        >>> model = CallableModel(lambda X, rng: X, lambda s, n, rng: s[:n], lambda s, t: 0.0)
        >>> model.fit([1, 2], rng=np.random.default_rng(0)).loss([1])
        0.0
        """
        self._state = self._fit(X, rng)
        return self

    def sample(self, n: int, *, rng: np.random.Generator) -> Any:
        """Call ``sample(state, n, rng)``.

        Examples
        --------
        >>> model = CallableModel(lambda X, rng: X, lambda s, n, rng: s[:n], lambda s, t: 0.0)
        >>> rng = np.random.default_rng(0)
        >>> model.fit([1, 2], rng=rng).sample(1, rng=rng)
        [1]
        """
        return self._sample(self._state, n, rng)

    def loss(self, X_test: Any) -> float:
        """Call ``loss(state, X_test)``.

        Examples
        --------
        >>> model = CallableModel(lambda X, rng: X, lambda s, n, rng: s[:n], lambda s, t: 1.5)
        >>> model.fit([1], rng=np.random.default_rng(0)).loss([1])
        1.5
        """
        return float(self._loss(self._state, X_test))


def fresh_copy(model: GenerativeModel) -> GenerativeModel:
    """An unfitted copy: the model's own ``fresh()``, a deep copy otherwise.

    Examples
    --------
    >>> fresh_copy(GaussianModel("unbiased")).cov
    'unbiased'
    """
    return model.fresh() if hasattr(model, "fresh") else copy.deepcopy(model)
