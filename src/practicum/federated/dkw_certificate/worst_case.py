r"""The worst that a network within a given distance can look like, in closed form.

``mu`` is the law of clients in the network that was seen, ``mu'`` that of the network to come. Any
statement about the risk of a client depends on ``mu'`` only through the law of that one number,
and passing from clients to their risks shrinks every f-divergence (data processing). What is left
is a problem on the line, or on two points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Real
from scipy import optimize, special

from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import as_number

FDivergence = Literal["chi2", "kl"]
HALVINGS = 60  # of an interval within [0, 1]: to the last bit


def check_divergence(divergence: str) -> None:
    """An error naming the divergences there are.

    Raises
    ------
    InputError
        ``divergence`` is neither "chi2" nor "kl".
    """
    if divergence not in get_args(FDivergence):
        raise InputError(
            f"no divergence {divergence!r} here", f"there are {', '.join(get_args(FDivergence))}"
        )


def check_radius(eps: float) -> float:
    """``eps`` as a radius: a number, at least 0.

    Raises
    ------
    InputError
        Negative or not a number.
    """
    if not as_number(eps, "eps") >= 0:
        raise InputError(f"eps is {eps}; the radius of a ball is at least 0")
    return float(eps)


def _probabilities(p: object, name: str) -> np.ndarray:
    p = np.asarray(p, dtype=float)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"{name} holds {p.min():g} to {p.max():g}; probabilities expected")
    return p


def worst_case_tail(
    p: Real[np.ndarray, "*shape"] | Sequence[float | int] | float,
    eps: float,
    divergence: FDivergence = "chi2",
) -> Float[np.ndarray, "*shape"]:
    r"""The largest probability that an event of probability p can have within radius eps.

    ``q*(p) = sup {mu'(E) : D_f(mu' || mu) <= eps, mu(E) = p}``. A density with two values attains
    it, so it is the largest q with ``D_f(Bern(q) || Bern(p)) <= eps``:

    * chi-square, ``D = E_mu (dmu'/dmu - 1)^2``: ``q* = min(1, p + sqrt(eps p (1 - p)))``;
    * Kullback-Leibler: ``q ln(q / p) + (1 - q) ln((1 - q) / (1 - p)) = eps``, by bisection.

    Parameters
    ----------
    p : array of any shape, in [0, 1]
    eps : float
        Radius of the ball, at least 0.
    divergence : {"chi2", "kl"}

    Returns
    -------
    array of the same shape, at least p

    Raises
    ------
    InputError
        p is no probability, eps negative, or the divergence unknown.

    Examples
    --------
    >>> worst_case_tail([0.05, 0.3, 0.7], 0.2).round(6)
    array([0.147468, 0.504939, 0.904939])
    >>> worst_case_tail([0.05, 0.3, 0.7], 0.2, "kl").round(6)
    array([0.236138, 0.606287, 0.94975 ])
    """
    p, eps = _probabilities(p, "p"), check_radius(eps)
    check_divergence(divergence)
    if eps == 0:
        return p.copy()
    if divergence == "chi2":
        with np.errstate(invalid="ignore"):  # inf * 0 at the two ends, which stay where they are
            q = np.minimum(1.0, p + np.sqrt(eps * p * (1 - p)))
        return np.where((p == 0) | (p == 1), p, q)
    distinct, places = np.unique(p, return_inverse=True)  # a tail takes few values
    low, high = distinct.copy(), np.ones_like(distinct)
    for _ in range(HALVINGS):
        q = 0.5 * (low + high)
        inside = special.rel_entr(q, distinct) + special.rel_entr(1 - q, 1 - distinct) <= eps
        low, high = np.where(inside, q, low), np.where(inside, high, q)
    worst = np.where(distinct == 0, 0.0, high)
    return np.asarray(worst[places].reshape(p.shape))


def radius_to_reach(
    p: Float[np.ndarray, "*shape"] | Sequence[float | int] | float,
    q: Float[np.ndarray, "*shape"] | Sequence[float | int] | float,
    divergence: FDivergence = "chi2",
) -> Float[np.ndarray, "*shape"]:
    """The inverse of :func:`worst_case_tail` in eps: how far until probability p can become q.

    Parameters
    ----------
    p, q : arrays of one shape, in [0, 1]
    divergence : {"chi2", "kl"}

    Returns
    -------
    array of the same shape: ``D_f(Bern(q) || Bern(p))``, 0 where q <= p, infinite for p = 0 < q

    Raises
    ------
    InputError
        As in :func:`worst_case_tail`.

    Examples
    --------
    >>> radius_to_reach([0.3, 0.3, 0.0], [0.504939, 0.2, 0.1]).round(4)
    array([0.2, 0. , inf])
    """
    p, q = _probabilities(p, "p"), _probabilities(q, "q")
    check_divergence(divergence)
    with np.errstate(divide="ignore", invalid="ignore"):
        if divergence == "chi2":
            eps = (q - p) ** 2 / (p * (1 - p))
        else:
            eps = special.rel_entr(q, p) + special.rel_entr(1 - q, 1 - p)
    return np.where(q <= p, 0.0, eps)


def _law(risks: object, weights: object) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values with positive weights that sum to one."""
    values = np.asarray(risks, dtype=float)
    mass = np.ones_like(values) if weights is None else np.asarray(weights, dtype=float)
    if values.ndim != 1 or not len(values) or mass.shape != values.shape:
        raise InputError(
            f"risks of shape {values.shape}, weights of shape {mass.shape}; two lists of one "
            "length expected"
        )
    if not np.isfinite(values).all() or not (mass >= 0).all() or not 0 < mass.sum() < math.inf:
        raise InputError("risks must be finite, weights at least 0 and not all 0")
    order = np.argsort(values, kind="stable")
    order = order[mass[order] > 0]
    return values[order], mass[order] / mass.sum()


def worst_case_mean(
    risks: Real[np.ndarray, " K"] | Sequence[float | int],
    weights: Real[np.ndarray, " K"] | Sequence[float | int] | None = None,
    *,
    eps: float,
    divergence: FDivergence = "chi2",
) -> float:
    r"""The largest mean risk within radius eps: ``sup {E_Q R : D_f(Q || P) <= eps}``.

    * chi-square: the optimal density is ``(R - t)_+`` up to scale. With nobody cut off this is
      ``mean + sqrt(eps Var)``; else the same with the moments of those above t. Exact, from the
      partial sums of the sorted risks.
    * Kullback-Leibler: the convex dual ``min_u u ln E exp(R / u) + u eps`` (any u bounds it).

    Parameters
    ----------
    risks : array, shape (K,)
    weights : array, shape (K,), optional
        P; equal by default.
    eps : float
    divergence : {"chi2", "kl"}

    Returns
    -------
    float, in the unit of the risks; at most the largest risk

    Raises
    ------
    InputError
        Risks or weights are not finite or of different lengths, or as in :func:`worst_case_tail`.

    Examples
    --------
    >>> risks = [0.05, 0.10, 0.12, 0.20, 0.22, 0.30, 0.45, 0.80]
    >>> round(worst_case_mean(risks, eps=0.2), 6)
    0.382543
    >>> round(worst_case_mean(risks, eps=0.2, divergence="kl"), 6)
    0.440648
    """
    values, mass = _law(risks, weights)
    eps = check_radius(eps)
    check_divergence(divergence)
    mean = float(mass @ values)
    if eps == 0 or values[0] == values[-1]:
        return mean
    worst = _chi2_mean if divergence == "chi2" else _kl_mean
    return float(min(values[-1], mean + worst(values - mean, mass, eps)))


def _chi2_mean(x: np.ndarray, mass: np.ndarray, eps: float) -> float:
    """For sorted, centred x; the sums over the clients above each candidate threshold."""
    s0, s1, s2 = (np.cumsum((mass * x**k)[::-1])[::-1] for k in (0, 1, 2))
    # the chi-square of the density (x - t)_+ with t at each value, from those strictly above it
    t, n0, n1, n2 = x[:-1], s0[1:], s1[1:], s2[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        spent = (n2 - 2 * t * n1 + t**2 * n0) / (n1 - t * n0) ** 2 - 1
    beyond = np.flatnonzero(spent > eps)
    first = int(beyond[0]) if len(beyond) else len(x) - 1
    centre = s1[first] / s0[first]
    variance = s2[first] / s0[first] - centre**2
    if first == len(x) - 1 or variance <= 0:  # only the largest risk is left
        return float(centre)
    return float(centre + math.sqrt(variance * max((1 + eps) * s0[first] - 1, 0.0)))


def _kl_mean(x: np.ndarray, mass: np.ndarray, eps: float) -> float:
    top, spread = x[-1], x[-1] - x[0]

    def dual(log_u: float) -> float:
        u = math.exp(log_u)
        if u > spread:  # near log(1), where rounding would be multiplied by u
            return float(u * math.log1p(mass @ np.expm1(x / u)) + u * eps)
        return float(top + u * math.log(mass @ np.exp((x - top) / u)) + u * eps)

    # u* is near sqrt(Var / 2 eps) for small radii and tends to 0 where the top is reached
    scale = math.log(spread)
    reach = min(max(0.0, -0.5 * math.log(eps)), 18.0)
    found = optimize.minimize_scalar(
        dual, bounds=(scale - 14, scale + reach + 3), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun)


def transport_tail(
    risks: Real[np.ndarray, " K"] | Sequence[float | int],
    levels: Real[np.ndarray, " G"] | Sequence[float | int],
    budget: float,
    weights: Real[np.ndarray, " K"] | Sequence[float | int] | None = None,
) -> Float[np.ndarray, " G"]:
    r"""The largest P(R >= level) when risks may rise by ``budget`` on average.

    A fractional knapsack: clients at or above the level count in full, others cost
    ``level - R_k``; the cheapest are lifted first, the last one in part. This is the optimum of
    the linear program.

    Parameters
    ----------
    risks : array, shape (K,)
    levels : array, shape (G,)
    budget : float
        Mean rise, in the unit of the risks.
    weights : array, shape (K,), optional

    Returns
    -------
    array, shape (G,)

    Raises
    ------
    InputError
        A negative budget, or risks and weights as in :func:`worst_case_mean`.

    Examples
    --------
    >>> transport_tail([0.1, 0.2, 0.3, 0.4], [0.35], 0.02)
    array([0.55])
    """
    values, mass = _law(risks, weights)
    if not budget >= 0:
        raise InputError(f"budget is {budget}; a mean rise of at least 0 expected")
    level = np.asarray(levels, dtype=float)
    v, m = values[::-1], mass[::-1]
    total, weighted = (np.concatenate([[0.0], np.cumsum(a)]) for a in (m, m * v))
    above = len(v) - np.searchsorted(values, level, "left")

    def cost(count: np.ndarray) -> np.ndarray:
        return level * (total[count] - total[above]) - (weighted[count] - weighted[above])

    low, high = above.copy(), np.full(level.shape, len(v))
    while (low < high).any():
        middle = (low + high + 1) // 2
        paid = cost(middle) <= budget
        low, high = np.where(paid, middle, low), np.where(paid, high, middle - 1)
    last = np.minimum(low, len(v) - 1)
    rise = np.where(low < len(v), level - v[last], math.inf)
    part = np.minimum(m[last], (budget - cost(low)) / rise)
    return np.minimum(1.0, total[low] + part)
