"""What people use today to ask whether X matters for the mean of Y given Z."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg, optimize, stats

from practicum.errors import InputError
from practicum.stats.cmi_test.smoother import KernelSmoother

Matrix = Float[np.ndarray, "n d"]


@dataclass(frozen=True)
class BaselineResult:
    """A baseline's answer.

    Attributes
    ----------
    name : str
    statistic, pvalue : float
    n : int

    Examples
    --------
    >>> BaselineResult("gcm", 2.1, 0.04, 100).pvalue
    0.04
    """

    name: str
    statistic: float
    pvalue: float
    n: int


def _columns(**parts: Any) -> list[np.ndarray]:
    """Finite two-dimensional arrays of one length."""
    arrays = {}
    for name, part in parts.items():
        values = np.asarray(part, dtype=float)
        arrays[name] = values[:, None] if values.ndim == 1 else values
        if not np.isfinite(arrays[name]).all():
            row, column = np.argwhere(~np.isfinite(arrays[name]))[0]
            raise InputError(
                f"{name}, column {column}, row {row}: {arrays[name][row, column]} is no number",
                "drop these rows, or fill them in",
            )
    if len({len(values) for values in arrays.values()}) > 1:
        words = ", ".join(f"{name} {len(values)}" for name, values in arrays.items())
        raise InputError(f"numbers of rows differ: {words}")
    return list(arrays.values())


def gcm_test(
    x: Matrix,
    y: Float[np.ndarray, "n k"],
    z: Float[np.ndarray, "n q"],
    *,
    n_boot: int = 999,
    rng: np.random.Generator | int | None = None,
) -> BaselineResult:
    r"""Generalised covariance measure: is any residual of X correlated with a residual of Y?

    .. math:: T = \max_{j,k} \Bigl| \sqrt{n}\, \frac{\overline{R_{jk}}}{sd(R_{jk})} \Bigr|,
              \qquad R_{jk,i} = (X_{ij} - \hat E[X_j|Z_i]) (Y_{ik} - \hat E[Y_k|Z_i])

    with the Gaussian multiplier bootstrap (Shah and Peters, Annals of Statistics 2020). Residuals
    are left-out ones of :class:`KernelSmoother`, the same as the test's own. It sees covariances
    only: an even effect, :math:`X^2`, leaves none.

    Parameters
    ----------
    x, y, z : arrays, shapes (n, d), (n, k), (n, q)
    n_boot : int
    rng : numpy Generator or seed

    Raises
    ------
    InputError
        Fewer than three rows, lengths differ, or a value is no number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 2)); x = z + rng.normal(size=(200, 2))
    >>> gcm_test(x, x[:, :1] + z[:, :1], z, rng=0).pvalue < 0.01
    True
    """
    x, y, z = _columns(x=x, y=y, z=z)
    rng = np.random.default_rng(rng)
    of_x = KernelSmoother(shared=False).fit(z, x)
    of_y = KernelSmoother(shared=False).fit(z, y, like=of_x)
    products = (of_x.left_out_[:, :, None] * of_y.left_out_[:, None, :]).reshape(len(x), -1)
    spread = np.maximum(products.std(axis=0), 1e-300)
    statistic = float(np.abs(np.sqrt(len(x)) * products.mean(axis=0) / spread).max())
    centred = (products - products.mean(axis=0)) / (spread * np.sqrt(len(x)))
    null = np.abs(rng.standard_normal((n_boot, len(x))) @ centred).max(axis=1)
    return BaselineResult("gcm", statistic, _share(null >= statistic), len(x))


def _share(at_least: np.ndarray) -> float:
    return float((1 + at_least.sum()) / (len(at_least) + 1))


def pcm_test(
    x: Matrix,
    y: Float[np.ndarray, "n k"],
    z: Float[np.ndarray, "n q"],
    *,
    regressor: Callable[[], Any] = KernelSmoother,
    rng: np.random.Generator | int | None = None,
) -> BaselineResult:
    r"""Projected covariance measure: half of the rows find a direction, the other half test it.

    On the first half, :math:`\hat h(x, z) = \hat g(x, z) - \hat E[\hat g \mid z]` from a regression
    of Y on (X, Z), divided by an estimate of the variance of Y given (X, Z); on the second,

    .. math:: T = \sqrt{n}\, \frac{\overline{L}}{sd(L)}, \qquad
              L_i = (Y_i - \hat E[Y|Z_i]) (\hat f(X_i, Z_i) - \hat E[\hat f|Z_i])

    compared with the upper tail of a standard normal (Lundborg, Kim, Shah, Samworth, Annals of
    Statistics 2024, Algorithm 1). Several outputs are tested one by one (Bonferroni).

    Parameters
    ----------
    x, y, z : arrays, shapes (n, d), (n, k), (n, q)
    regressor : callable
        Makes a regressor with ``fit(inputs, outcome)`` and ``predict(inputs)``.
    rng : numpy Generator or seed
        Splits the rows.

    Raises
    ------
    InputError
        Fewer than twenty rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 2)); x = z + rng.normal(size=(400, 2))
    >>> y = x[:, :1] ** 2 + z[:, :1] + rng.normal(size=(400, 1))
    >>> pcm_test(x, y, z, rng=0).pvalue < 0.01
    True
    """
    x, y, z = _columns(x=x, y=y, z=z)
    n = len(x)
    if n < 20:
        raise InputError(f"{n} rows, at least 20 are needed to split")
    order = np.random.default_rng(rng).permutation(n)
    halves = order[: n // 2], order[n // 2 :]
    tests = [_pcm_one(x, y[:, k], z, halves, regressor) for k in range(y.shape[1])]
    best = min(tests, key=lambda t: t[1])
    return BaselineResult("pcm", best[0], min(1.0, best[1] * len(tests)), n)


def _pcm_one(
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    halves: tuple[np.ndarray, np.ndarray],
    make: Callable[[], Any],
) -> tuple[float, float]:
    find, test = halves
    both = np.hstack([x, z])
    full = make().fit(both[find], y[find])
    fitted = full.predict(both[find])
    projected = make().fit(z[find], fitted)
    direction = fitted - projected.predict(z[find])
    marginal = y[find] - make().fit(z[find], y[find]).predict(z[find])
    sign = np.sign(np.mean(marginal * direction)) or 1.0
    variance = _conditional_variance(both[find], (y[find] - fitted) ** 2, make)
    weighted = sign * (full.predict(both[test]) - projected.predict(z[test])) / variance(both[test])
    of_y = y[test] - make().fit(z[test], y[test]).predict(z[test])
    of_f = weighted - make().fit(z[test], weighted).predict(z[test])
    product = of_y * of_f
    spread = product.std()
    statistic = float(np.sqrt(len(test)) * product.mean() / spread) if spread > 0 else 0.0
    return statistic, float(stats.norm.sf(statistic))


def _conditional_variance(
    inputs: np.ndarray, squares: np.ndarray, make: Callable[[], Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """Fitted squares, lifted by a constant until they are right on average: mean(r²/v) = 1."""
    model = make().fit(inputs, squares)
    base = np.maximum(model.predict(inputs), 0.0)
    floor = 1e-6 * squares.mean() + 1e-300

    def excess(lift: float) -> float:
        return float(np.mean(squares / (base + lift))) - 1.0

    lift = floor
    if excess(floor) > 0:
        lift = optimize.brentq(excess, floor, 10 * squares.sum())
    return lambda rows: np.maximum(model.predict(rows), 0.0) + lift


def nested_f_test(
    x: Matrix, y: Float[np.ndarray, "n k"], z: Float[np.ndarray, "n q"]
) -> BaselineResult:
    r"""The F-test of least squares on (1, X, Z) against (1, Z).

    .. math:: F = \frac{(RSS_Z - RSS_{XZ}) / d}{RSS_{XZ} / (n - d - q - 1)}

    Several outputs are tested one by one (Bonferroni). It sees linear effects only.

    Parameters
    ----------
    x, y, z : arrays, shapes (n, d), (n, k), (n, q)

    Raises
    ------
    InputError
        No more rows than columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 2)); x = z + rng.normal(size=(100, 2))
    >>> nested_f_test(x, x[:, :1] + z[:, :1], z).pvalue < 0.01
    True
    """
    x, y, z = _columns(x=x, y=y, z=z)
    n = len(x)
    small = np.column_stack([np.ones(n), z])
    large = np.column_stack([small, x])
    rank_small, rss_small = _least_squares(small, y)
    rank_large, rss_large = _least_squares(large, y)
    left, added = n - rank_large, rank_large - rank_small
    if left < 1:
        raise InputError(
            f"{n} rows and {large.shape[1]} columns: least squares leaves nothing over",
            "use fewer columns, or a test that regularises",
        )
    if added == 0:
        return BaselineResult("f-test", 0.0, 1.0, n)
    f = ((rss_small - rss_large) / added) / (rss_large / left)
    p = stats.f.sf(f, added, left)
    best = int(np.argmin(p))
    return BaselineResult("f-test", float(f[best]), min(1.0, float(p[best]) * len(p)), n)


def _least_squares(design: np.ndarray, y: np.ndarray) -> tuple[int, np.ndarray]:
    coefficients, _, rank, _ = linalg.lstsq(design, y)
    return int(rank), ((y - design @ coefficients) ** 2).sum(axis=0)
