r"""The published convex program for an f-divergence ball, solved exactly instead of numerically.

The official code maximises, over one weight ``alpha_k`` a client,

    (1/K) sum alpha_k I_k   subject to   0 <= alpha_k <= Lambda,
    |mean(alpha) - 1| <= c1 s,   mean f(alpha) <= eps + c2 s,

with ``I_k = 1{risk_k >= level - slack}``, ``s = sqrt(ln(K / delta) / K)``, ``Lambda = f^{-1}(eps /
delta)``, ``c1 = Lambda - 1`` and ``c2`` half the range of f; the bound is the optimum plus s. Being
convex and symmetric within both groups of clients, the program has an optimum with one weight for
all with I = 1 and one for all with I = 0: two unknowns instead of K, one bisection for every level
at once.

The weights are capped at Lambda. For a fixed delta and a rare event, the true worst case needs a
larger weight, so that for large K the program's bound falls *below* the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real
from scipy import special

from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import check_delta
from practicum.federated.dkw_certificate.worst_case import (
    FDivergence,
    _probabilities,
    check_divergence,
    check_radius,
)

HALVINGS = 48  # of an interval within [1, Lambda]: to about 1e-13


class Constants(NamedTuple):
    """The published constants for one (eps, K, delta, divergence).

    Attributes
    ----------
    cap : float
        Lambda, the largest weight.
    slack : float
        s.
    mass : float
        c1 s, how far the mean weight may be from 1.
    divergence : float
        eps + c2 s.
    """

    cap: float
    slack: float
    mass: float
    divergence: float


def program_constants(
    eps: float, n_clients: int, delta: float = 0.05, divergence: FDivergence = "chi2"
) -> Constants:
    """The constants that the official code puts into its program.

    It finds Lambda for KL by a root search on ``[1e-10, eps / delta]``, which has no sign change
    for ``eps / delta < e`` and stops; ``t ln t = eps / delta`` is solved by Lambert's W here.

    Parameters
    ----------
    eps : float
    n_clients : int
    delta : float
    divergence : {"chi2", "kl"}

    Raises
    ------
    InputError
        No client, or eps, delta or divergence out of range.

    Examples
    --------
    >>> program_constants(0.2, 200).cap
    3.0
    >>> round(program_constants(0.1, 200, divergence="kl").cap, 4)  # the official code stops here
    2.3458
    """
    eps, delta = check_radius(eps), check_delta(delta)
    check_divergence(divergence)
    if n_clients < 1:
        raise InputError(f"{n_clients} clients; at least one is needed")
    slack = math.sqrt(math.log(n_clients / delta) / n_clients)
    if divergence == "chi2":
        cap = 1 + math.sqrt(eps / delta)
        half_range = (cap - 1) ** 2 / 2
    else:
        cap = math.exp(special.lambertw(eps / delta).real)
        half_range = (cap + 1 / cap) * math.log(cap) / 2
    return Constants(cap, slack, (cap - 1) * slack, eps + half_range * slack)


def program_optimum(
    p: Real[np.ndarray, "*shape"] | Sequence[float | int] | float,
    eps: float,
    n_clients: int,
    delta: float = 0.05,
    divergence: FDivergence = "chi2",
) -> Float[np.ndarray, "*shape"]:
    r"""The optimum of the published program when a share p of the clients has I = 1.

    With weight a on the share p and b on the rest, it is ``p a`` for the largest a such that some
    b keeps the three constraints; the best b for a given a is the minimiser of f, moved into the
    interval that the mean weight allows. Feasible a form an interval, found by bisection.

    Parameters
    ----------
    p : array of any shape, in [0, 1]
    eps : float
    n_clients : int
        K.
    delta : float
    divergence : {"chi2", "kl"}

    Returns
    -------
    array of the same shape; often above 1

    Raises
    ------
    InputError
        As in :func:`program_constants`, or p is no probability.

    Examples
    --------
    >>> program_optimum([0.3], 0.2, 200).round(6), program_optimum([0.05], 0.5, 200).round(6)
    (array([0.726644]), array([0.208114]))
    >>> program_optimum([0.3], 0.2, 200, divergence="kl").round(6)
    array([0.857992])
    """
    given = _probabilities(p, "p")
    p, places = np.unique(given, return_inverse=True)  # a tail takes few values
    c = program_constants(eps, n_clients, delta, divergence)
    rest = 1 - p
    f = _chi2 if divergence == "chi2" else _kl
    best = 1.0 if divergence == "chi2" else 1 / math.e

    alone = rest == 0

    def feasible(a: np.ndarray) -> np.ndarray:
        low = np.maximum((max(0.0, 1 - c.mass) - p * a) / rest, 0.0)
        high = np.minimum((1 + c.mass - p * a) / rest, c.cap)
        b = np.where(alone, 1.0, np.clip(best, low, high))
        within = np.where(alone, a <= 1 + c.mass, high >= 0)
        return within & (p * f(a) + rest * f(b) <= c.divergence)

    low, high = np.ones_like(p), np.full_like(p, c.cap)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 where nobody has I = 0
        for _ in range(HALVINGS):
            a = 0.5 * (low + high)
            inside = feasible(a)
            low, high = np.where(inside, a, low), np.where(inside, high, a)
    return np.asarray((p * high)[places].reshape(given.shape))


def program_bound(
    p: Real[np.ndarray, "*shape"] | Sequence[float | int] | float,
    eps: float,
    n_clients: int,
    delta: float = 0.05,
    divergence: FDivergence = "chi2",
) -> Float[np.ndarray, "*shape"]:
    """The published bound on P(R >= level): the optimum plus s, at most 1.

    Parameters
    ----------
    p, eps, n_clients, delta, divergence
        As in :func:`program_optimum`.

    Raises
    ------
    InputError
        As in :func:`program_optimum`.

    Examples
    --------
    Twenty thousand clients, one in a hundred at or above the level: the bound is below the truth.

    >>> from practicum.federated.dkw_certificate.worst_case import worst_case_tail
    >>> program_bound([0.01], 0.2, 20_000, divergence="kl").round(3)
    array([0.059])
    >>> worst_case_tail([0.01], 0.2, "kl").round(3)
    array([0.122])
    """
    slack = program_constants(eps, n_clients, delta, divergence).slack
    return np.asarray(
        np.minimum(1.0, program_optimum(p, eps, n_clients, delta, divergence) + slack)
    )


def _chi2(t: np.ndarray) -> np.ndarray:
    return (t - 1) ** 2


def _kl(t: np.ndarray) -> np.ndarray:
    return special.xlogy(np.maximum(t, 0.0), np.maximum(t, 0.0))


def program_slack(n: Int[np.ndarray, " K"], delta: float = 0.05) -> Float[np.ndarray, " K"]:
    """What the official code takes off the level for the finite samples of the clients.

    ``sqrt(ln((K + 2) / delta) / (2 n))``, Hoeffding's inequality over K clients and two more
    events.

    Parameters
    ----------
    n : int array, shape (K,)
        Samples of each client (the official code has one n for all).
    delta : float

    Raises
    ------
    InputError
        ``delta`` outside (0, 1).

    Examples
    --------
    >>> program_slack(np.full(200, 1000)).round(4)[0]
    np.float64(0.0644)
    """
    return np.sqrt(math.log((len(n) + 2) / check_delta(delta)) / (2 * np.asarray(n, dtype=float)))
