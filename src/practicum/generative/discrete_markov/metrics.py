"""How far drawn bits are from real ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import sqrtm

from practicum.errors import InputError


def _same_width(a: np.ndarray, b: np.ndarray) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise InputError(f"samples of shapes {a.shape} and {b.shape} do not have the same bits")


def sliced_wasserstein(
    a: Bool[np.ndarray, "n d"],
    b: Bool[np.ndarray, "m e"],
    rng: np.random.Generator,
    directions: int = 200,
) -> float:
    """Sliced 2-Wasserstein distance of two samples of bits, over random directions.

    Parameters
    ----------
    a, b : bool arrays, shapes (n, d) and (m, d)
    rng : numpy.random.Generator
    directions : int

    Raises
    ------
    InputError
        If the widths differ.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((100, 3)) < 0.5
    >>> sliced_wasserstein(x, x, np.random.default_rng(1))
    0.0
    """
    _same_width(a, b)
    lines = rng.normal(size=(a.shape[1], directions))
    lines /= np.linalg.norm(lines, axis=0)
    q = (np.arange(512) + 0.5) / 512
    first = np.quantile(a @ lines, q, axis=0)
    second = np.quantile(b @ lines, q, axis=0)
    return float(np.sqrt(((first - second) ** 2).mean()))


def correlation_error(a: Bool[np.ndarray, "n d"], b: Bool[np.ndarray, "m e"]) -> float:
    """Root mean squared difference of all pairwise covariances, as a share of the real ones'.

    0 is perfect, about 1 is what independent bits give.

    Parameters
    ----------
    a, b : bool arrays
        Drawn, and real.

    Raises
    ------
    InputError
        If the widths differ.

    Examples
    --------
    >>> x = np.array([[True, True], [False, False]] * 10)
    >>> correlation_error(x, x)
    0.0
    """
    _same_width(a, b)
    off = ~np.eye(a.shape[1], dtype=bool)
    real = np.cov(b.astype(float), rowvar=False)[off]
    drawn = np.cov(a.astype(float), rowvar=False)[off]
    return float(np.sqrt(((drawn - real) ** 2).mean() / max((real**2).mean(), 1e-12)))


def frechet(a: Float[np.ndarray, "n k"], b: Float[np.ndarray, "m l"]) -> float:
    r"""Fréchet distance between Gaussians fitted to two sets of features, as in FID.

    :math:`|m_a - m_b|^2 + \mathrm{tr}(C_a + C_b - 2 (C_a C_b)^{1/2})`.

    Parameters
    ----------
    a, b : arrays, shapes (n, k) and (m, k)

    Raises
    ------
    InputError
        If the widths differ.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> abs(frechet(x, x + 1.0) - 2.0) < 1e-6
    True
    """
    _same_width(a, b)
    ca, cb = np.atleast_2d(np.cov(a, rowvar=False)), np.atleast_2d(np.cov(b, rowvar=False))
    root = np.real(sqrtm(ca @ cb))
    gap = ((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum()
    return max(float(gap + np.trace(ca + cb - 2 * root)), 0.0)  # rounding may fall below
