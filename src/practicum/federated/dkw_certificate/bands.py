r"""What K clients say about all clients, and what n samples say about one client.

Two sources of chance stand between the numbers that a server receives and the network they come
from. Only some clients are seen: :func:`dkw_half_width` and :func:`tail_upper` bound the
distribution of the risk over *all* clients, at every level at once. And each client has measured
its risk on a finite sample: :func:`risk_upper_limit` bounds the risk behind one estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int, Real
from scipy import special

from practicum.errors import InputError

Side = Literal["two", "upper", "lower"]
Band = Literal["tail", "dkw"]
Losses = Literal["bounded", "01"]

TAIL_SHARE = 0.25  # of delta, spent on the exact limits for few exceedances
TAIL_DECAY = 1.5  # share of the limit for i exceedances: (i + 1)^-1.5 / zeta(1.5)
TAIL_REACH = 0.1  # beyond this share of clients the constant width is the smaller one

ROUNDING = 1e-9  # of levels that are sums of steps
DECIMALS = 6  # rates with more are taken as they are; single precision has about as many
ROUNDED_BY_CHANCE = 1e-4  # exact shares of n samples look rounded less often than this
DISTINCT = 4  # rates, at least, before they are said to look rounded


def as_number(value: object, name: str) -> float:
    """``value`` as a float, or an error that names it.

    Raises
    ------
    InputError
        Not a number (NaN and infinity are).
    """
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {value!r}; a number expected") from None


def as_numbers(values: object, name: str) -> np.ndarray:
    """``values`` as an array of floats, or an error that names it.

    A masked entry is a missing number, not the number under the mask.

    Raises
    ------
    InputError
        Something among them is not a number, or rows have different lengths.
    """
    if hasattr(values, "detach"):  # a tensor, which may be on a device or part of a graph
        values = values.detach().cpu()
    try:
        if isinstance(values, np.ma.MaskedArray):
            return values.astype(float).filled(math.nan)
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        found = np.shape(values) if isinstance(values, np.ndarray) else str(values)[:40]
        raise InputError(
            f"{name} hold {found}; finite numbers expected, rows of one length"
        ) from None


def check_delta(delta: float, limit: float = 1.0) -> float:
    """``delta`` as a probability below ``limit``, or an error that says what was meant.

    Raises
    ------
    InputError
        Not strictly between 0 and ``limit``.
    """
    if not 0 < delta < limit:
        hint = f"5 % is delta=0.05, not {delta}" if delta >= 1 else "0.05 is usual"
        raise InputError(f"delta is {delta}; a probability between 0 and {limit:g} expected", hint)
    return float(delta)


def check_levels(levels: np.ndarray) -> None:
    """Levels of a risk in [0, 1], or an error that says what was meant.

    By definition nobody has a risk above 1 and everybody one of at least 0, so a level outside is
    answered 0 or 1 whatever the clients do: it is a percentage, or a level of another loss.

    Raises
    ------
    InputError
        A level below 0 or above 1 (by more than rounding).
    """
    outside = levels[~((levels >= -ROUNDING) & (levels <= 1 + ROUNDING))]
    if len(outside):
        first = float(outside[0])
        hint = f"{first:g} % is {first / 100:g}" if 1 < first <= 100 else None
        raise InputError(f"level is {first:g}; a risk between 0 and 1 expected", hint)


def dkw_half_width(n_clients: int, delta: float = 0.05, side: Side = "two") -> float:
    r"""Half-width of the Dvoretzky-Kiefer-Wolfowitz band with Massart's constant.

    ``P(sup |F_hat - F| > eta) <= delta`` for ``eta = sqrt(ln(2 / delta) / (2 K))``; one-sided,
    ``ln(1 / delta)`` in its place, for delta up to 1/2 (Massart, *Ann. Probab.* 18, 1990).

    Parameters
    ----------
    n_clients : int
        K, independent draws.
    delta : float
        Chance that the band fails anywhere.
    side : {"two", "upper", "lower"}

    Raises
    ------
    InputError
        No client, an unknown side, or delta outside (0, 1) (one-sided: (0, 1/2]).

    Examples
    --------
    >>> round(dkw_half_width(500), 7), round(dkw_half_width(500, side="upper"), 7)
    (0.0607361, 0.0547333)
    """
    if n_clients < 1:
        raise InputError(f"{n_clients} clients; at least one is needed")
    if side not in get_args(Side):
        raise InputError(f"no side {side!r}", f"there are {', '.join(get_args(Side))}")
    check_delta(delta, 1.0 if side == "two" else 0.5 + 1e-12)
    factor = 2.0 if side == "two" else 1.0
    return math.sqrt(math.log(factor / delta) / (2 * n_clients))


def tail_upper(
    exceeding: Int[np.ndarray, " G"], n_clients: int, delta: float = 0.05, band: Band = "tail"
) -> Float[np.ndarray, " G"]:
    r"""Upper bound on P(R >= level), at all levels at once, from how many clients exceed each.

    ``"dkw"`` adds the one-sided half-width to the share. ``"tail"`` spends a quarter of delta on
    exact limits: with ``X_(i+1)`` the (i+1)-th largest of K draws, ``P(R > X_(i+1))`` is at most
    the ``1 - delta_i`` quantile of Beta(i + 1, K - i), with chance ``1 - delta_i``. The weights
    ``delta_i`` proportional to ``(i + 1)^-1.5`` sum to that quarter whatever K, and the smaller of
    both bounds holds. Where no client of 500 exceeds a level, 0.011 is certified instead of 0.055.

    Parameters
    ----------
    exceeding : int array, shape (G,)
        Number of clients at or above each level, 0 to K.
    n_clients : int
    delta : float
    band : {"tail", "dkw"}

    Returns
    -------
    array, shape (G,), in [0, 1], nondecreasing in ``exceeding``

    Raises
    ------
    InputError
        Counts outside 0 .. K or not whole, or as in :func:`dkw_half_width`.

    Examples
    --------
    >>> tail_upper(np.array([0, 5, 250]), 500, band="dkw").round(4)
    array([0.0547, 0.0647, 0.5547])
    >>> tail_upper(np.array([0, 5, 250]), 500).round(4)
    array([0.0106, 0.0355, 0.5573])
    """
    if band not in get_args(Band):
        raise InputError(f"no band {band!r}", f"there are {', '.join(get_args(Band))}")
    i = np.asarray(exceeding)
    if not (i == np.rint(i)).all():
        raise InputError(f"exceeding holds {i.tolist()[:5]}; whole numbers of clients expected")
    if i.size and (i.min() < 0 or i.max() > n_clients):
        raise InputError(f"{i.min()} to {i.max()} of {n_clients} clients exceed a level")
    if band == "dkw":
        return np.minimum(1.0, i / n_clients + dkw_half_width(n_clients, delta, "upper"))
    width = dkw_half_width(n_clients, (1 - TAIL_SHARE) * delta, "upper")
    upper = np.minimum(1.0, i / n_clients + width)
    few = np.flatnonzero((i < n_clients) & (i <= TAIL_REACH * n_clients + 1))
    own = delta * TAIL_SHARE * (i[few] + 1.0) ** -TAIL_DECAY / special.zeta(TAIL_DECAY)
    exact = special.betaincinv(i[few] + 1.0, n_clients - i[few] * 1.0, 1 - own)
    upper[few] = np.minimum(upper[few], exact)
    return upper


def risk_upper_limit(
    risks: Float[np.ndarray, " K"],
    n: Int[np.ndarray, " K"],
    miss: float,
    losses: Losses = "bounded",
) -> Float[np.ndarray, " K"]:
    r"""A limit that each client's true risk exceeds with chance at most ``miss``.

    ``"01"`` (an error rate): the exact binomial limit of Clopper and Pearson. ``"bounded"`` (any
    losses in [0, 1]): the smaller root of Hoeffding's inequality in its Kullback-Leibler form,
    ``kl(risk || r) = ln(1 / miss) / n``, and of Bentkus' (*Ann. Probab.* 32, 2004),
    ``e P(Bin(n, r) <= ceil(n risk)) = miss``. Both lie below the usual ``sqrt(ln(1/miss) / 2n)``.

    Error rates that were rounded when they were printed are counted upwards: as the largest number
    of errors whose share of n rounds to them (:func:`rounded_to`).

    Parameters
    ----------
    risks : array, shape (K,), in [0, 1]
        Mean loss on each client's sample.
    n : int array, shape (K,)
        Samples behind each mean.
    miss : float
        In (0, 1).
    losses : {"bounded", "01"}

    Raises
    ------
    InputError
        ``losses`` is unknown, ``miss`` outside (0, 1), or "01" and a risk is no share of n samples.

    Examples
    --------
    >>> risks, n = np.array([0.0, 0.25]), np.array([300, 300])
    >>> risk_upper_limit(risks, n, 0.05, "01").round(4)
    array([0.0099, 0.2945])
    >>> risk_upper_limit(risks, n, 0.05).round(4)
    array([0.0099, 0.3065])
    """
    if losses not in get_args(Losses):
        raise InputError(f"no losses {losses!r}", f"there are {', '.join(get_args(Losses))}")
    if not 0 < miss < 1:
        raise InputError(f"miss is {miss}; a probability between 0 and 1 expected")
    if losses == "01":
        return _clopper_pearson(count_errors(risks, n), n, miss)
    bentkus = _clopper_pearson(np.ceil(risks * n - 1e-9), n, miss / math.e)
    return np.minimum(_kl_limit(risks, math.log(1 / miss) / n), bentkus)


def rounded_to(risks: Float[np.ndarray, " K"], n: Int[np.ndarray, " K"]) -> int | None:
    """To how many decimals error rates were rounded; None where they are exact shares of n.

    They were rounded where some are no shares, or where all have so few decimals that chance
    would hardly do it: ``10^d + 1`` of the ``n + 1`` shares of n samples have d decimals.

    Parameters
    ----------
    risks : array, shape (K,)
    n : int array, shape (K,)

    Examples
    --------
    >>> rounded_to(np.array([0.33, 0.16]), np.array([1774, 1501]))
    2
    >>> rounded_to(np.array([577, 240]) / 1774, np.array([1774, 1774])) is None
    True
    """
    decimals = next(
        (d for d in range(DECIMALS) if np.abs(risks - np.round(risks, d)).max() < 1e-9), DECIMALS
    )
    if (np.abs(risks * n - np.rint(risks * n)) > 1e-6).any():
        return decimals
    inner = len(np.unique(risks[(risks > 0) & (risks < 1)]))
    by_chance = min(1.0, (10.0**decimals + 1) / (float(n.min()) + 1)) ** inner
    return decimals if inner >= DISTINCT and by_chance < ROUNDED_BY_CHANCE else None


def count_errors(
    risks: Float[np.ndarray, " K"], n: Int[np.ndarray, " K"], clients: Sequence[str] | None = None
) -> Float[np.ndarray, " K"]:
    """How many of the n samples were wrong; what rounding has hidden is counted upwards.

    Parameters
    ----------
    risks : array, shape (K,)
    n : int array, shape (K,)
    clients : sequence of str, optional
        Names for messages.

    Raises
    ------
    InputError
        A risk is no share of n samples, nor one that was rounded.

    Examples
    --------
    >>> count_errors(np.array([0.33, 0.161]), np.array([1774, 1501]))
    array([586., 242.])
    """
    decimals = rounded_to(risks, n)
    if decimals is None:
        return np.rint(risks * n)
    half = 0.5 * 10.0**-decimals
    most = np.minimum(np.floor((risks + half) * n + 1e-6), n)
    off = most < (risks - half) * n - 1e-6
    if off.any():
        k = int(np.argmax(off))
        who = f"client {k}" if clients is None else clients[k]
        raise InputError(
            f"risk {risks[k]:g} of {who} is no share of {n[k]} samples; rounded?",
            'means of other losses than 0 and 1 need losses="bounded"',
        )
    return most


def _clopper_pearson(errors: np.ndarray, n: np.ndarray, miss: float) -> np.ndarray:
    right = np.maximum(n - errors, 1)
    return np.where(errors < n, special.betaincinv(errors + 1.0, right * 1.0, 1 - miss), 1.0)


def _kl_limit(x: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """The largest r with kl(x || r) <= budget.

    Newton's method on a convex increasing function, from a point to the right of the root, only
    moves towards it: every iterate is a valid limit.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = special.entr(x) + special.entr(1 - x)
        far = -np.expm1(-(budget + entropy) / (1 - x))
        r = np.minimum(x + np.sqrt(budget / 2), far)
        for _ in range(12):
            value = special.rel_entr(x, r) + special.rel_entr(1 - x, 1 - r) - budget
            r = np.maximum(r - np.maximum(value, 0) * r * (1 - r) / (r - x), x)
    return np.where(x >= 1, 1.0, np.nan_to_num(r, nan=1.0))


def dkw_quantile(
    values: Real[np.ndarray, " K"],
    prob: float,
    delta: float = 0.05,
    *,
    compat: Literal["official"] | None = None,
) -> tuple[float, float]:
    r"""Where the ``prob`` quantile of the clients' law lies: the band read sideways.

    The interval from the sorted values is ``[x_(ceil(K (c - eta))), x_(ceil(K (c + eta)))]``, open
    where an index leaves 1 .. K; all quantiles are covered at once with chance 1 - delta.

    Parameters
    ----------
    values : array, shape (K,)
        One number a client (risks, accuracies: any unit).
    prob : float
        c, in (0, 1).
    delta : float
    compat : {"official"}, optional
        The published command returns the least and the largest value whose empirical CDF lies in
        ``[c - eta, c + eta]``: an interval that is never open, and too short at the ends.

    Raises
    ------
    InputError
        ``prob`` outside (0, 1), no values, or values that are not numbers.

    Examples
    --------
    >>> accuracies = np.arange(1, 101) / 100
    >>> dkw_quantile(accuracies, 0.5)
    (0.37, 0.64)
    >>> dkw_quantile(accuracies, 0.95)  # a hundred clients cannot bound this from above
    (0.82, inf)
    """
    x = np.sort(as_numbers(values, "values"))
    if not len(x) or not np.isfinite(x).all():
        raise InputError("the values of the clients are missing or not finite")
    if not 0 < prob < 1:
        raise InputError(f"prob is {prob}; a quantile level between 0 and 1 expected")
    eta = dkw_half_width(len(x), delta)
    if compat == "official":
        cdf = np.arange(1, len(x) + 1) / len(x)
        inside = x[(cdf >= prob - eta) & (cdf <= prob + eta)]
        return (float(inside[0]), float(inside[-1])) if len(inside) else (math.nan, math.nan)
    # 1e-9: products such as 100 * 0.55 must not round up to the next client
    low, high = (math.ceil(len(x) * (prob + s * eta) - 1e-9) for s in (-1, 1))
    return (
        float(x[low - 1]) if low >= 1 else -math.inf,
        float(x[high - 1]) if high <= len(x) else math.inf,
    )
