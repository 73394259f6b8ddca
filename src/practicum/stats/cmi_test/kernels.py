"""Kernel pieces of the statistic: standardising, bandwidths, and the centred kernel of X given Z.

The statistic is a sum over pairs of rows of three factors: how alike the two rows' X are *beyond
what Z explains* (:func:`centred_kernel`), how alike their residuals of Y are, and how alike their
Z are. The centred kernel needs draws of X given Z; they are taken in one at a time, so that memory
grows with the square of the number of rows and not with the number of draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist, pdist, squareform

from practicum.errors import InputError

Rows = Float[np.ndarray, "n d"]
Pairs = Float[np.ndarray, "n n"]
Draws = Iterable[Float[np.ndarray, "n d"]]


def standardise(values: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """Columns to mean 0 and standard deviation 1 (divisor n - 1).

    Parameters
    ----------
    values : array, shape (n, d) or (draws, n, d)
    reference : array, shape (n, d), optional
        Take the means and deviations from here; draws are put on the scale of the data this way.

    Raises
    ------
    InputError
        A column of the reference is constant.

    Examples
    --------
    >>> standardise(np.array([[1.0], [2.0], [3.0]])).ravel()
    array([-1.,  0.,  1.])
    """
    reference = values if reference is None else reference
    centre, scale = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    if not (scale > 0).all():
        column = int(np.flatnonzero(~(scale > 0))[0])
        raise InputError(
            f"column {column} is constant over {len(reference)} rows, so it has no scale",
            "drop the column, or use fewer folds",
        )
    return (values - centre) / scale


def median_bandwidth(distances: np.ndarray, what: str = "the data") -> float:
    """The lower median of a full distance matrix, its zero diagonal included.

    Parameters
    ----------
    distances : array, shape (n, n)
    what : str
        Named in the warning.

    Warns
    -----
    UserWarning
        More than half of the pairs are identical: the median of the others is taken.

    Raises
    ------
    InputError
        All rows are identical.

    Examples
    --------
    >>> median_bandwidth(np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]]))
    3.0
    """
    median = _lower_median(distances.ravel())
    if median > 0:
        return median
    apart = distances[distances > 0]
    if not apart.size:
        raise InputError(f"all rows of {what} are identical", "leave it out")
    warnings.warn(
        f"more than half of the pairs of rows have the same {what}: the bandwidth is the median "
        "distance of the pairs that differ",
        stacklevel=2,
    )
    return _lower_median(apart)


def _lower_median(values: np.ndarray) -> float:
    middle = (values.size - 1) // 2
    return float(np.partition(values, middle)[middle])


def laplace_kernel(a: Rows, bandwidth: float, what: str = "the data") -> Pairs:
    r"""The Laplace kernel :math:`k(a, a') = \exp(-\|a - a'\|_1 / \sigma)` of all pairs of rows.

    Parameters
    ----------
    a : array, shape (n, d)
    bandwidth : float
        :math:`\sigma`; 0 takes the median distance (:func:`median_bandwidth`).

    Raises
    ------
    InputError
        The rows are all identical.

    Examples
    --------
    >>> laplace_kernel(np.array([[0.0], [1.0]]), 1.0).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    distances = squareform(pdist(a, "cityblock"))
    bandwidth = bandwidth or median_bandwidth(distances, what)
    return np.exp(-distances / bandwidth)


def centred_kernel(x: Rows, draws: Draws, bandwidth: float = 0.0) -> Pairs:
    r"""The kernel of X with its conditional mean given Z taken out of both rows.

    .. math::

        U_{ij} = \frac1M \sum_m k(X_i, X_j) - k(X_i, \tilde X_j^m) - k(\tilde X_i^m, X_j)
                 + k(\tilde X_i^m, \tilde X_j^m)

    where :math:`\tilde X_i^m` are draws of X given :math:`Z_i`. Off the diagonal it is an unbiased
    estimate of :math:`\langle k(X_i, \cdot) - \mu(Z_i),\, k(X_j, \cdot) - \mu(Z_j) \rangle`,
    because draws of different rows are independent.

    Parameters
    ----------
    x : array, shape (n, d)
        Standardised.
    draws : array, shape (M, n, d), or an iterable of M arrays, shape (n, d)
        On the same scale; taken one at a time.
    bandwidth : float
        0 takes the median distance of ``x``.

    Returns
    -------
    array, shape (n, n)
        Time grows as M n² d, memory as n².

    Raises
    ------
    InputError
        The shapes do not fit, or there is no draw.

    Examples
    --------
    X a function of Z and exact draws: nothing is left.

    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> bool(np.allclose(centred_kernel(x, np.stack([x, x])), 0))
    True
    """
    centred = CentredKernel(x, bandwidth)
    for draw in draws:
        centred.add(draw)
    return centred.matrix()


class CentredKernel:
    """What :func:`centred_kernel` computes, given one draw after the other.

    Parameters
    ----------
    x : array, shape (n, d)
        Standardised.
    bandwidth : float
        0 takes the median distance of ``x``.

    Raises
    ------
    InputError
        The rows are all identical.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> centred = CentredKernel(x)
    >>> centred.add(x)
    >>> bool(np.allclose(centred.matrix(), 0))
    True
    """

    def __init__(self, x: Rows, bandwidth: float = 0.0) -> None:
        n, distances = len(x), squareform(pdist(x, "cityblock"))
        self.bandwidth = bandwidth or median_bandwidth(distances, "X")
        self.count, self._scaled = 0, x / self.bandwidth
        self._kernel = _exp_minus(np.divide(distances, self.bandwidth, out=distances))
        self._cross, self._same = np.zeros((n, n)), np.zeros(n * (n - 1) // 2)
        self._square, self._half = np.empty_like(self._cross), np.empty_like(self._same)

    def add(self, draw: Rows) -> None:
        """Take in one draw of X for every row, shape (n, d)."""
        if draw.shape != self._scaled.shape:
            raise InputError(f"a draw of X has shape {draw.shape}, X itself {self._scaled.shape}")
        drawn = np.ascontiguousarray(draw / self.bandwidth, dtype=float)
        self._cross += _exp_minus(cdist(self._scaled, drawn, "cityblock", out=self._square))
        self._same += _exp_minus(pdist(drawn, "cityblock", out=self._half))
        self.count += 1

    def matrix(self) -> Pairs:
        """U for the draws taken in, shape (n, n)."""
        if not self.count:
            raise InputError("no draws of X given Z", "at least one is needed")
        kernel = self._kernel - (self._cross + self._cross.T) / self.count
        kernel += squareform(self._same / self.count)
        kernel[np.diag_indices(len(kernel))] += (
            1.0  # k(draw, draw), which squareform leaves at zero
        )
        return kernel


def _exp_minus(buffer: np.ndarray) -> np.ndarray:
    """exp(-buffer) in place: fresh arrays of this size cost more than the exponential."""
    return np.exp(np.negative(buffer, out=buffer), out=buffer)


def pooled_kernel(residuals: Rows, bandwidth: float = 0.0) -> Pairs:
    r"""The centred kernel where X given Z is a mean plus a residual of one law.

    Seen as X minus its mean, X and all its draws are residuals, and the average over *every*
    residual as a draw has a closed form, the doubly centred kernel :math:`H K H`. No draws, no
    noise from drawing.

    Parameters
    ----------
    residuals : array, shape (n, d)
        X minus its conditional mean, standardised.
    bandwidth : float
        0 takes the median distance.

    Raises
    ------
    InputError
        The rows are all identical.

    Examples
    --------
    >>> u = pooled_kernel(np.random.default_rng(0).normal(size=(6, 2)))
    >>> bool(np.allclose(u.sum(axis=0), 0))
    True
    """
    kernel = laplace_kernel(residuals, bandwidth, "X")
    means = kernel.mean(axis=0)
    kernel += means.mean() - means - means[:, None]
    return kernel


def pair_matrix(kernel: Pairs, z: Float[np.ndarray, "n q"], bandwidth: float = 0.0) -> Pairs:
    r"""What a pair of rows weighs before Y comes in.

    .. math:: A_{ij} = U_{ij}\, k(Z_i, Z_j), \qquad A_{ii} = 0

    Parameters
    ----------
    kernel : array, shape (n, n)
        U, from :func:`centred_kernel` or :func:`pooled_kernel`.
    z : array, shape (n, q)
    bandwidth : float
        0 takes the median distance.

    Raises
    ------
    InputError
        The rows of ``z`` are all identical.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = pair_matrix(pooled_kernel(rng.normal(size=(6, 2))), rng.normal(size=(6, 1)))
    >>> bool(np.allclose(a, a.T)), float(np.trace(a))
    (True, 0.0)
    """
    pairs = kernel * laplace_kernel(z, bandwidth, "Z")
    np.fill_diagonal(pairs, 0.0)
    return pairs


def statistic_matrix(
    x: Rows,
    y: Float[np.ndarray, "n k"],
    z: Float[np.ndarray, "n q"],
    draws: Draws,
    y_hat: Float[np.ndarray, "n k"],
    bandwidths: tuple[float, float] = (0.0, 0.0),
) -> Pairs:
    r"""The matrix F whose off-diagonal sum, divided by n - 1, is the statistic.

    .. math:: F_{ij} = U_{ij}\, (Y_i - \hat g(Z_i))^\top (Y_j - \hat g(Z_j))\, k(Z_i, Z_j)

    Algorithm 1 of Zhang, Huang, Yang and Shao (ICML 2025), the diagonal set to zero. Nothing is
    standardised here.

    Parameters
    ----------
    x, y, z : arrays, shapes (n, d), (n, k), (n, q)
    draws : array, shape (M, n, d), or an iterable of arrays (n, d)
        Draws of X given the Z of each row.
    y_hat : array, shape (n, k)
        The regression of Y on Z, at each row.
    bandwidths : (float, float)
        Of X and of Z; 0 takes the median distance.

    Raises
    ------
    InputError
        The shapes do not fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y, z = rng.normal(size=(6, 2)), rng.normal(size=(6, 1)), rng.normal(size=(6, 1))
    >>> f = statistic_matrix(x, y, z, rng.normal(size=(3, 6, 2)), np.zeros((6, 1)))
    >>> statistic = f.sum() / 5
    """
    if y.shape != y_hat.shape:
        raise InputError(f"y has shape {y.shape}, its regression {y_hat.shape}")
    residual = y - y_hat
    kernel = centred_kernel(x, draws, bandwidths[0])
    return pair_matrix(kernel, z, bandwidths[1]) * (residual @ residual.T)
