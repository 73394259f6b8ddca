"""Interim utility of a bid, and its first two derivatives, from the highest competing bid.

m is the highest bid of the others with distribution function H, density h and slope h'; a bidder
of value v who bids b has

==============  =============================  =====================  ======================
format          u                              u'                     u''
==============  =============================  =====================  ======================
first price     (v - b) H                      (v - b) h - H          (v - b) h' - 2 h
second price    int_{m < b} (v - m) h(m) dm    (v - b) h              (v - b) h' - h
all pay         v H - b                        v h - 1                v h'
==============  =============================  =====================  ======================

With risk aversion the gain x = v - payment counts as s(x) = x^rho for x > 0; a loss counts as it
is.  (Huang et al. 2025 and their code; the all-pay line is ours.)
"""

from __future__ import annotations

import numpy as np

from practicum.games.auction_bne.priors import Array


def utility_slopes(
    mechanism: str, rho: float, v: Array, b: Array, H: Array, h: Array, dh: Array
) -> tuple[Array, Array]:
    """u'(b|v) and u''(b|v).

    Parameters
    ----------
    mechanism : {"first_price", "second_price", "all_pay"}
    rho : float
        Exponent of utility, in (0, 1].
    v, b : arrays of one shape
        Values and bids.
    H, h, dh : arrays of the same shape
        Distribution function, density and slope of the highest competing bid at b.  All three may
        be divided by one positive number: the derivatives are divided by it too (not for all pay).

    Returns
    -------
    (u', u''), arrays of the same shape

    Raises
    ------
    Nothing: the game was checked when it was made.

    Examples
    --------
    Three uniform bidders, the others bid v/2: H = (2b)^2.  At v=0.8, b=0.4:

    >>> v, b, H, h, dh = map(np.array, (0.8, 0.4, 0.64, 3.2, 8.0))
    >>> [round(float(u), 6) for u in utility_slopes("first_price", 1.0, v, b, H, h, dh)]
    [0.64, -3.2]
    """
    gain = v - b
    if mechanism == "all_pay":
        return v * h - 1.0, v * dh
    first = mechanism == "first_price"
    if first:
        slope, curvature = gain * h - H, gain * dh - 2 * h
    else:
        slope, curvature = gain * h, gain * dh - h
    if rho == 1.0:
        return slope, curvature
    x = np.where(gain > 0, gain, 1.0)
    p0, p1 = x**rho, rho * x ** (rho - 1)
    if first:
        p2 = rho * (rho - 1) * x ** (rho - 2)
        averse = p0 * h - p1 * H, p0 * dh - 2 * p1 * h + p2 * H
    else:
        averse = p0 * h, p0 * dh - p1 * h
    return np.where(gain > 0, averse[0], slope), np.where(gain > 0, averse[1], curvature)


def money(gain: Array, rho: float) -> Array:
    """s(x): what a gain of x counts for; a loss counts as it is.

    Parameters
    ----------
    gain : array, currency units
    rho : float

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> money(np.array([0.25, -1.0]), 0.5).tolist()
    [0.5, -1.0]
    """
    gain = np.asarray(gain, dtype=float)
    return gain if rho == 1.0 else np.where(gain > 0, np.abs(gain) ** rho, gain)


def certainty_equivalent(utility: Array, rho: float) -> Array:
    """The sure gain worth this utility: the inverse of :func:`money`, in currency units.

    Parameters
    ----------
    utility : array
    rho : float

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> certainty_equivalent(np.array([0.5]), 0.5).tolist()
    [0.25]
    """
    return money(utility, 1 / rho)
