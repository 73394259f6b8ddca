r"""The forward process on bits, its exact reversal, and one step of every sampler.

Each of d bits flips at the rings of a Poisson clock of rate :math:`\lambda` (1 here: time is
measured in mean flips of a bit).  With :math:`\alpha_t = e^{-2t}` a bit has kept its value after
time t with probability :math:`(1 + \alpha_t)/2`.

Everything is written in :math:`\alpha` and in the *denoiser* :math:`d_t^l(x) = P(X_0^l \ne x^l
\mid X_t = x)`, for NumPy arrays and torch tensors alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from practicum.errors import InputError

TIME_LAWS = ("linear", "quadratic", "cosine")
SAMPLERS = ("bridge", "frozen", "renoise", "euler")


def alpha(t: Any) -> Any:
    r""":math:`\alpha_t = e^{-2t}`, the correlation of a bit with itself after time t.

    Parameters
    ----------
    t : float or array, >= 0

    Raises
    ------
    InputError
        If a time is negative.

    Examples
    --------
    >>> round(float(alpha(3.0)), 5)
    0.00248
    """
    if np.any(np.asarray(t) < 0):
        raise InputError("times are at least 0")
    return np.exp(-2.0 * np.asarray(t, dtype=float))


def noise(
    x0: Bool[np.ndarray, "n d"], t: Any, rng: np.random.Generator
) -> tuple[Bool[np.ndarray, "n d"], Bool[np.ndarray, "n d"]]:
    r"""Draw :math:`X_t \mid X_0 = x_0` exactly: every bit flips with probability
    :math:`(1 - \alpha_t)/2`.

    Parameters
    ----------
    x0 : bool array, shape (n, d)
    t : float, or array of shape (n,)
        One time for all rows, or one each.
    rng : numpy.random.Generator

    Returns
    -------
    x_t, flipped : bool arrays, shape (n, d)

    Raises
    ------
    InputError
        If a time is negative.

    Examples
    --------
    >>> x, flipped = noise(np.zeros((2, 3), bool), 0.0, np.random.default_rng(0))
    >>> bool(x.any() or flipped.any())
    False
    """
    chance = (1 - np.broadcast_to(alpha(t), len(x0))) / 2
    flipped = rng.random(x0.shape) < chance[:, None]
    return x0 ^ flipped, flipped


def clock(
    x0: Bool[np.ndarray, "n d"], t: float, rng: np.random.Generator
) -> Bool[np.ndarray, "n d"]:
    """The same law by its definition: ring a Poisson clock of rate d, flip a random bit each time.

    Parameters
    ----------
    x0 : bool array, shape (n, d)
    t : float
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If t is negative.

    Examples
    --------
    >>> bool(clock(np.zeros((2, 3), bool), 0.0, np.random.default_rng(0)).any())
    False
    """
    n, d = x0.shape
    rings = rng.poisson(d * t, size=n)
    rows = np.repeat(np.arange(n), rings)
    counts = np.zeros((n, d), dtype=np.int64)
    np.add.at(counts, (rows, rng.integers(d, size=rings.sum())), 1)
    return x0 ^ (counts % 2 == 1)


def reverse_rates(denoiser: Any, a: Any) -> Any:
    r"""Rate at which each bit flips in reverse time,
    :math:`\frac{1-\alpha}{1+\alpha} + \frac{4\alpha}{1-\alpha^2} d_t^l(x)`.

    It equals :math:`\mu_t(\varphi_l x)/\mu_t(x)`, the ratio that other discrete diffusions learn.

    Parameters
    ----------
    denoiser : array, (..., d), in [0, 1]
    a : float or array that broadcasts
        :math:`\alpha_t`, in (0, 1).

    Raises
    ------
    ZeroDivisionError
        At ``a = 1``, time 0, where there is nothing to reverse (a float; arrays give infinity).

    Examples
    --------
    >>> round(reverse_rates(0.25, 0.5), 4)  # 1/3 + 8/3 * 1/4
    1.0
    """
    return (1 - a) / (1 + a) + 4 * a / (1 - a * a) * denoiser


def discrete_score(denoiser: Any, a: Any) -> Any:
    r"""The discrete score :math:`s_t^l(x) = 1 - \mu_t(\varphi_l x)/\mu_t(x)`: one minus the rate.

    Parameters
    ----------
    denoiser : array, (..., d), in [0, 1]
    a : float or array that broadcasts

    Raises
    ------
    ZeroDivisionError
        At ``a = 1``.

    Examples
    --------
    >>> round(discrete_score(0.25, 0.5), 4)
    0.0
    """
    return 1 - reverse_rates(denoiser, a)


def flip_chance(denoiser: Any, t: float, u: float, sampler: str = "bridge") -> Any:
    r"""Probability that a bit differs at time u from what it is at time t > u.

    ``bridge``
        The law of :math:`X_u` between :math:`X_0` (drawn from the denoiser) and :math:`X_t`; exact
        for independent bits whatever the step.
    ``frozen``
        Rates frozen over the step, so that a bit flips an odd number of times with probability
        :math:`(1 - e^{-2 r (t-u)})/2` (tau-leaping).
    ``renoise``
        :math:`X_0` from the denoiser, noised again to time u. Good at very few steps; its error
        does not vanish with more.
    ``euler``
        The step of discrete flow matching (Gat et al. 2024) for the same path, on which a bit is
        the data's with weight :math:`\kappa = \alpha_t` and uniform otherwise: with probability
        :math:`1 - e^{-(\alpha_u - \alpha_t)/(1 - \alpha_t)}` a bit is drawn anew from the
        denoiser; the last step draws all of them.

    Parameters
    ----------
    denoiser : array or tensor, (..., d), in [0, 1]
    t, u : float
        ``t > u >= 0``.
    sampler : {"bridge", "frozen", "renoise", "euler"}

    Raises
    ------
    InputError
        If the sampler is not known or the times are not in order.

    Examples
    --------
    >>> flip_chance(0.25, 1.0, 0.0)  # at time 0 a bit is what the denoiser says
    0.25
    """
    if not t > u >= 0:
        raise InputError(f"a reverse step goes from a time to an earlier one, not {t} to {u}")
    a_t, a_u, a_h = math.exp(-2 * t), math.exp(-2 * u), math.exp(-2 * (t - u))
    if sampler == "bridge":
        kept = (1 - a_u) / 2 * ((1 - a_h) / 2) / ((1 + a_t) / 2)
        differs = (1 + a_u) / 2 * ((1 - a_h) / 2) / ((1 - a_t) / 2)
        return kept + (differs - kept) * denoiser
    if sampler == "frozen":
        return (1 - _exp(-2 * (t - u) * reverse_rates(denoiser, a_t))) / 2
    if sampler == "renoise":
        return (1 - a_u) / 2 + a_u * denoiser
    if sampler == "euler":
        return denoiser * (1.0 if u == 0 else -math.expm1(-(a_u - a_t) / (1 - a_t)))
    raise InputError(f"sampler {sampler!r} is not known", "use " + ", ".join(SAMPLERS))


def _exp(x: Any) -> Any:
    """Of a number, an array or a tensor."""
    return np.exp(x) if isinstance(x, float | np.ndarray) else x.exp()


def time_grid(horizon: float, steps: int, law: str = "quadratic") -> Float[np.ndarray, " k"]:
    r"""Times :math:`T = t_0 > \dots > t_K = 0`.

    ``linear`` :math:`T(1-k/K)`, ``quadratic`` :math:`T(1-k/K)^2`, ``cosine``
    :math:`T(1 - \sin(\pi k/2K))`; the last two take small steps near the data, where bits depend on
    each other most.

    Parameters
    ----------
    horizon : float
        T > 0.
    steps : int
        K >= 1, the number of calls of the network.
    law : {"linear", "quadratic", "cosine"}

    Raises
    ------
    InputError
        If ``steps < 1`` or the law is not known.

    Examples
    --------
    >>> time_grid(3.0, 3).round(3).tolist()
    [3.0, 1.333, 0.333, 0.0]
    """
    if steps < 1:
        raise InputError(f"steps={steps}: at least one call of the network is needed")
    share = np.arange(steps + 1) / steps
    if law == "linear":
        return horizon * (1 - share)
    if law == "quadratic":
        return horizon * (1 - share) ** 2
    if law == "cosine":
        grid = horizon * (1 - np.sin(np.pi / 2 * share))
        grid[-1] = 0.0
        return grid
    raise InputError(f"time law {law!r} is not known", "use " + ", ".join(TIME_LAWS))
