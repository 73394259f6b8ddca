"""The null distribution of the statistic, and a check of the size it gives.

Two nulls. *Multiplier* flips the signs of the finished residuals (a wild bootstrap without
retraining, Algorithm 2 of Zhang et al. 2025). *Refit* flips the signs of the noise, adds it to the
fitted regression and runs the regression again, so that the null knows what estimating the
regression costs; with a linear smoother all refits together are one matrix product. The refit null
is the multiplier null where nothing was estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from practicum.stats.cmi_test.smoother import apply_blocks

AT_ONCE = 1000  # draws of the null in memory

Numbers = float | np.ndarray  # one, or one for each data set of a batch
Outcomes = Float[np.ndarray, "n k"] | Float[np.ndarray, "n k b"]


def quadratic_form(form: Float[np.ndarray, "n n"], y: Outcomes) -> Numbers:
    r""":math:`\sum_k y_k^\top B\, y_k`, a number for each data set of a batch.

    Parameters
    ----------
    form : array, shape (n, n)
    y : array, shape (n, k) or (n, k, b)

    Raises
    ------
    ValueError
        The shapes do not fit.

    Examples
    --------
    >>> float(quadratic_form(np.eye(2), np.array([[3.0], [4.0]])))
    25.0
    """
    return np.einsum("ik...,ik...->...", _apply(form, y), y)


def _apply(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One matrix product for all outputs and data sets."""
    return (matrix @ y.reshape(len(y), -1)).reshape(len(matrix), *y.shape[1:])


@dataclass(frozen=True)
class NullModel:
    r"""A quadratic form in Y and the world in which it is drawn again; or a batch of such worlds.

    The statistic is :math:`T = \sum_k Y_k^\top B\, Y_k`; under the null
    :math:`Y_k = g_k + v_k \odot e` with random signs e, the same for all outputs of a row.

    Attributes
    ----------
    form : array, shape (n, n)
        B, symmetric.
    outcome, fitted, noise : arrays, shape (n, k), or (n, k, b) for b data sets
        Y, g and v.
    groups : array of int, shape (n,), or None
        Rows of one group get the same sign.

    Examples
    --------
    >>> form = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> y = np.ones((2, 1))
    >>> model = NullModel(form, y, 0 * y, y)
    >>> model.statistic, sorted(set(model.draw(50, np.random.default_rng(0)).tolist()))
    (np.float64(2.0), [-2.0, 2.0])
    """

    form: Float[np.ndarray, "n n"]
    outcome: Outcomes
    fitted: Outcomes
    noise: Outcomes
    groups: np.ndarray | None = None

    @property
    def statistic(self) -> Numbers:
        """T at the data: a number, or one for each data set of a batch."""
        return quadratic_form(self.form, self.outcome)

    def signs(self, m: int, rng: np.random.Generator) -> Float[np.ndarray, "n m"]:
        """Rademacher signs for every row, by group.

        Parameters
        ----------
        m : int
        rng : numpy Generator
        """
        n = len(self.form) if self.groups is None else int(self.groups.max()) + 1
        drawn = rng.integers(0, 2, (n, m), dtype=np.int8).astype(np.float32) * 2 - 1
        return drawn if self.groups is None else drawn[self.groups]

    def world(self, signs: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n k m"]:
        """The null data sets with these signs (of a single world, not of a batch).

        Parameters
        ----------
        signs : array, shape (n, m)
        """
        return self.fitted[:, :, None] + self.noise[:, :, None] * signs[:, None, :]

    def draw(self, m: int, rng: np.random.Generator) -> Float[np.ndarray, " m"]:
        """``m`` independent statistics under the null, in single precision, a thousand at a time.

        Parameters
        ----------
        m : int
        rng : numpy Generator
        """
        single = replace(
            self,
            fitted=self.fitted.astype(np.float32),
            noise=self.noise.astype(np.float32),
        )
        form = self.form.astype(np.float32)
        parts = [
            quadratic_form(form, single.world(self.signs(min(AT_ONCE, m - done), rng)))
            for done in range(0, m, AT_ONCE)
        ]
        return np.concatenate(parts).astype(float)

    def moments(self) -> tuple[Numbers, Numbers]:
        """Exact mean and standard deviation of the null (of each world of a batch)."""
        linear = 2 * (_apply(self.form, self.fitted) * self.noise).sum(axis=1)
        size = (self.noise**2).sum(axis=1)
        if self.groups is None:
            diagonal = np.diag(self.form)
            mean = np.tensordot(diagonal, size, 1)
            variance = 2 * (self._sum_of_squares() - np.tensordot(diagonal**2, size**2, 1))
        else:
            mean, variance = self._grouped_moments()
            linear = np.stack([linear[self.groups == g].sum(axis=0) for g in self._labels])
        variance = variance + (linear**2).sum(axis=0)
        return mean + quadratic_form(self.form, self.fitted), np.sqrt(np.maximum(variance, 0.0))

    def _sum_of_squares(self) -> np.ndarray:
        """Sum over i, j of (B_ij v_i·v_j)², as quadratic forms in products of two outputs."""
        squared = self.form**2
        total = 0.0
        for k in range(self.noise.shape[1]):
            for other in range(k + 1):
                product = (self.noise[:, k] * self.noise[:, other])[:, None]
                total = total + (1 + (other < k)) * quadratic_form(squared, product)
        return np.asarray(total)

    @property
    def _labels(self) -> range:
        return range(int(self.groups.max()) + 1)

    def _grouped_moments(self) -> tuple[np.ndarray, np.ndarray]:
        member = (self.groups[:, None] == np.arange(len(self._labels))).astype(float)
        noise = self.noise if self.noise.ndim == 3 else self.noise[:, :, None]
        means, variances = [], []
        for v in np.moveaxis(noise, 2, 0):
            weights = member.T @ (self.form * (v @ v.T)) @ member
            means.append(np.trace(weights))
            variances.append(2 * ((weights**2).sum() - (np.diag(weights) ** 2).sum()))
        shape = self.noise.shape[2:]
        return np.reshape(means, shape), np.reshape(variances, shape)


def p_value(statistic: float, null: Float[np.ndarray, " m"]) -> float:
    r""":math:`(1 + \#\{T^* \ge T\}) / (m + 1)`: never zero, valid at any m.

    Parameters
    ----------
    statistic : float
    null : array, shape (m,)

    Raises
    ------
    ValueError
        The null is empty.

    Examples
    --------
    >>> p_value(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    if not len(null):
        raise ValueError("the null distribution is empty")
    # equal up to rounding is equal; where nothing is left of X, T is nothing but rounding
    slack = 1e-9 * max(abs(statistic), float(np.abs(null).max())) + 1e-13
    return float((1 + (null >= statistic - slack).sum()) / (len(null) + 1))


class RefitNull:
    r"""Nulls of a linear smoother: called with an outcome, it gives that outcome's refit null.

    With :math:`S = HH^\top` the smoother and D its leverages, the left-out residuals are
    :math:`RY = (I - D)^{-1}(I - S)Y`, so :math:`B = R^\top A R`; the null data are
    :math:`S Y + v \odot e` with the leverage-corrected noise :math:`v = (I - D)^{-1/2}(I - S) Y`,
    whose size is right on average (HC2; blockwise for groups, CR2).

    Parameters
    ----------
    pairs : array, shape (n, n)
        A, zero diagonal.
    root : array, shape (n, p)
        H.
    groups : array of int, shape (n,), optional

    Raises
    ------
    ValueError
        The shapes do not fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(8, 8)); a = a + a.T; np.fill_diagonal(a, 0)
    >>> mean_only = np.full((8, 1), 8**-0.5)  # S y is the mean of y
    >>> null = RefitNull(a, mean_only)(rng.normal(size=(8, 1)))
    >>> bool(np.allclose(null.form.sum(), 0))  # the mean of Y plays no part
    True
    """

    def __init__(
        self,
        pairs: Float[np.ndarray, "n n"],
        root: Float[np.ndarray, "n p"],
        groups: np.ndarray | None = None,
    ) -> None:
        self.root, self.groups = root, groups
        inner = self._by_leverage(pairs, -1.0)
        inner = self._by_leverage(np.ascontiguousarray(inner.T), -1.0)
        # (I - S) A (I - S) through the thin root: n² p, not n³
        thin = root.T @ inner
        side = root @ thin
        self.form = inner - side - side.T + root @ ((thin @ root) @ root.T)

    def __call__(self, y: Outcomes) -> NullModel:
        """The null of this outcome, shape (n, k), or of each of a batch, shape (n, k, b)."""
        fitted = self.fit(y)
        noise = self._by_leverage(y - fitted, -0.5)
        return NullModel(self.form, y, fitted, noise, self.groups)

    def fit(self, y: Outcomes) -> Outcomes:
        """S y."""
        return _apply(self.root, _apply(self.root.T, y))

    def residual(self, y: Outcomes) -> Outcomes:
        """The left-out residuals R y."""
        return self._by_leverage(y - self.fit(y), -1.0)

    def _by_leverage(self, values: np.ndarray, power: float) -> np.ndarray:
        """``(I - D)^power`` of every column, by row or by group."""
        flat = values.reshape(len(values), -1)
        if self.groups is None:
            left = np.maximum(1 - (self.root**2).sum(axis=1), 1e-10)
            scaled = flat * left[:, None] ** power
        else:
            scaled = apply_blocks(flat, self.groups, power, lambda g: self.root[g] @ self.root[g].T)
        return scaled.reshape(values.shape)


def multiplier_null(
    pairs: Float[np.ndarray, "n n"], residual: Outcomes, groups: np.ndarray | None = None
) -> NullModel:
    """The null that flips the signs of finished residuals.

    Parameters
    ----------
    pairs : array, shape (n, n)
        A, zero diagonal.
    residual : array, shape (n, k) or (n, k, b)
        Y minus its regression on Z.
    groups : array of int, shape (n,), optional

    Raises
    ------
    ValueError
        The shapes do not fit.

    Examples
    --------
    >>> a = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> multiplier_null(a, np.array([[1.0], [2.0]])).moments()
    (np.float64(0.0), np.float64(4.0))
    """
    return NullModel(pairs, residual, np.zeros_like(residual), residual, groups)


def empirical_size(
    outer: NullModel,
    null: Float[np.ndarray, " m"],
    inner: Callable[[Outcomes], NullModel],
    repeats: int,
    rng: np.random.Generator,
    level: float = 0.05,
) -> float:
    """How often the test rejects on null data made from the fitted regression.

    Each repeat is a data set of the ``outer`` null; ``inner`` runs the test's own regression on it
    and gives the null that the test would compare with. Only its exact mean and standard deviation
    are worked out: the shape is taken from ``null``, which differs little between data sets that
    share X and Z.

    Parameters
    ----------
    outer : NullModel
        Where the null data sets come from.
    null : array, shape (m,)
        Null draws at the data, from ``inner``'s kind of null.
    inner : callable
        From outcomes, shape (n, k, repeats), to their null models.
    repeats : int
    rng : numpy Generator
    level : float

    Raises
    ------
    ValueError
        The null is empty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(60, 60)); a = a + a.T; np.fill_diagonal(a, 0)
    >>> refit = RefitNull(a, np.full((60, 1), 60**-0.5))
    >>> model = refit(rng.normal(size=(60, 1)))
    >>> size = empirical_size(model, model.draw(999, rng), refit, 200, rng)
    >>> 0.0 <= size <= 0.12
    True
    """
    if not len(null):
        raise ValueError("the null distribution is empty")
    critical = (np.quantile(null, 1 - level) - null.mean()) / max(null.std(), 1e-300)
    model = inner(outer.world(outer.signs(repeats, rng)))
    mean, spread = model.moments()
    return float((model.statistic > mean + critical * spread).mean())
