"""From bids back to values: what bidders must have been willing to pay."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.games.auction_bne.priors import MIN_SAMPLES

SHARE = 0.25  # of the bids at one amount: a list price, not a bid
FAR = 20.0  # times the median: not the same item, or another unit
TRIWEIGHT = 2.978 * 1.06  # Silverman's rule for this kernel (Guerre, Perrigne and Vuong 2000)


def estimate_values(
    bids: Any, n_bidders: int, bandwidth: float | None = None
) -> Float[np.ndarray, " n"]:
    """Private values behind first-price bids of symmetric risk-neutral bidders.

    In equilibrium v = b + G(b)/((n-1) g(b)), where G and g are distribution and density of a single
    bid (Guerre, Perrigne and Vuong 2000); G is the empirical one, g a triweight kernel estimate
    that is reflected at the lowest and the highest bid.

    Parameters
    ----------
    bids : array-like, shape (n,)
        All bids of auctions with the same number of bidders, in currency units.
    n_bidders : int
        Bidders per auction.
    bandwidth : float, optional
        Currency units; default: Silverman's rule for the triweight kernel.

    Returns
    -------
    array, shape (n,), values in currency units, in the order of the bids

    Raises
    ------
    InputError
        Fewer than two bidders or 30 bids; NaN, negative or far outlying bids; an atom.

    Examples
    --------
    >>> values = np.random.default_rng(0).random(4000)
    >>> found = estimate_values(values * 2 / 3, 3)
    >>> bool(np.median(np.abs(found - values)) < 0.03)
    True
    """
    b = _check_bids(bids, n_bidders)
    n = len(b)
    order = np.argsort(b, kind="stable")
    x = b[order]
    h = TRIWEIGHT * x.std(ddof=1) * n**-0.2 if bandwidth is None else float(bandwidth)
    if not 0 < h < np.ptp(x):
        raise InputError(f"bandwidth is {h:g}; between 0 and the range of the bids, {np.ptp(x):g}")
    mirrored = np.r_[2 * x[0] - x, x, 2 * x[-1] - x]
    g = _triweight(x, np.sort(mirrored), h) / n
    G = np.interp(x, *_steps(x))
    values = np.empty(n)
    values[order] = x + G / ((n_bidders - 1) * np.maximum(g, 1e-12 / np.ptp(x)))
    return values


def _steps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    levels, counts = np.unique(x, return_counts=True)
    return levels, (np.cumsum(counts) - counts / 2) / len(x)


def _triweight(at: np.ndarray, points: np.ndarray, h: float) -> np.ndarray:
    """Sums of 35/32 (1 - u^2)^3 / h over sorted points, by cumulative moments: n log n."""
    low, high = np.searchsorted(points, at - h), np.searchsorted(points, at + h, "right")
    centre = points.mean()
    z, u = (points - centre) / h, (at - centre) / h
    moments = [np.r_[0.0, np.cumsum(z**k)] for k in range(7)]
    S = [m[high] - m[low] for m in moments]
    # (1 - (u - z)^2)^3 expanded in powers of z
    inner = np.polynomial.Polynomial([1.0, 0.0, -1.0]) ** 3
    total = np.zeros(len(at))
    from math import comb

    for power, c in enumerate(inner.coef):
        if c:
            for k in range(power + 1):
                total += c * comb(power, k) * u ** (power - k) * (-1) ** k * S[k]
    return 35 / 32 * np.maximum(total, 0.0) / h


def _check_bids(bids: Any, n_bidders: int) -> np.ndarray:
    if isinstance(n_bidders, bool) or int(n_bidders) != n_bidders or n_bidders < 2:
        raise InputError(
            f"n_bidders is {n_bidders}; a whole number of at least 2 bidders per auction expected"
        )
    try:
        b = np.asarray(bids, dtype=float).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(f"the bids are not numbers ({error})") from None
    if len(b) < MIN_SAMPLES:
        raise InputError(f"{len(b)} bids; at least {MIN_SAMPLES} are needed for a density")
    bad = ~np.isfinite(b) | (b < 0)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"bid {row + 1} is {b[row]}; finite non-negative amounts expected")
    levels, counts = np.unique(b, return_counts=True)
    if counts.max() >= SHARE * len(b):
        raise InputError(
            f"{counts.max()} of {len(b)} bids are exactly {levels[counts.argmax()]:g}: an atom",
            "drop list prices and minimum bids; a density of bids is needed",
        )
    if b.max() > FAR * np.median(b):
        row = int(b.argmax())
        raise InputError(
            f"bid {row + 1} is {b[row]:g}, more than {FAR:g} times the median {np.median(b):g}",
            "drop bundles and bids in another unit: no value explains such a bid",
        )
    return b
