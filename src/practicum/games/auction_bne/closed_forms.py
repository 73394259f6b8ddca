"""Equilibria that have a formula: symmetric bidders, and two uniform ones of different reach."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from practicum.errors import InputError
from practicum.games.auction_bne.game import BidFunction, Game, table_nodes
from practicum.games.auction_bne.priors import Prior, ScipyPrior

SHARES = 20_000  # of the values, at which a reserve is tried
MATTERS = 500  # bidders
GAUSS_X, GAUSS_W = np.polynomial.legendre.leggauss(6)


def symmetric_equilibrium(game: Game) -> BidFunction:
    """The equilibrium of n bidders with one prior, exactly (Krishna 2010, chapters 2 to 4).

    With A(v) = F(v)^((n-1)/rho), r the reserve and n - 1 opponents:

    * first price  beta(v) = v - int_r^v A(t) dt / A(v)
    * second price beta(v) = v
    * all pay      beta(v) = v A(v) - int_{v0}^v A(t) dt with v0 A(v0) = r

    Parameters
    ----------
    game : Game
        One type of bidder.

    Returns
    -------
    BidFunction, in the units of the prior; NaN for values that do not bid.

    Raises
    ------
    InputError
        The bidders are of several types: the message names the methods that work.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> beta = symmetric_equilibrium(make_game("first_price", "uniform:0,1", 5))
    >>> beta(np.array([0.5, 1.0])).round(6).tolist()
    [0.4, 0.8]
    """
    if not game.symmetric:
        raise InputError(
            f"the closed form is for bidders of one type; there are {len(game.priors)}",
            "methods for asymmetric bidders: abr, utility_gradient, smooth_market, fictitious; "
            "for two bidders also ode",
        )
    prior, power = game.priors[0], (game.n_bidders - 1) / game.risk_aversion
    if game.mechanism == "second_price":
        return BidFunction.of(prior, lambda v: v, game.reserve)
    entry = game.reserve
    if game.mechanism == "all_pay":
        entry = _all_pay_entry(prior, power, game.reserve)
    values = table_nodes(prior, entry)
    F = prior.cdf(values)
    shade = _mean_below(prior, values, F, power)
    bids = values - shade if game.mechanism == "first_price" else F**power * (values - shade)
    if game.mechanism == "all_pay" and game.reserve:
        bids = np.maximum(bids, game.reserve)
    return BidFunction(values, bids, F, prior.support)


def optimal_reserve(prior: Prior, n_bidders: int) -> tuple[float, float]:
    r"""The reserve that earns a seller most from n risk-neutral bidders, and what it earns.

    In first- and second-price auctions alike (revenue equivalence), with Q = F^-1, u = F(r) and
    K(t) = n t^(n-1) - (n-1) t^n, the distribution of the second highest of n shares,

    .. math::

        n Q(u) u^{n-1} (1 - u) + \int_u^1 Q(t) dK(t) ,

    whose slope in u is n u^(n-1) times that of M(u) = Q(u) (1 - u), a single bidder's price times
    the chance that she takes it.

    Where v - (1 - F(v))/f(v) increases, the best reserve is its root, whatever n, and no other
    auction earns more (Myerson 1981).  The item is worth nothing to the seller.

    Parameters
    ----------
    prior : Prior
    n_bidders : int

    Returns
    -------
    (reserve, revenue) in currency units; the lowest value where no reserve earns more

    Raises
    ------
    InputError
        Fewer than two bidders.

    Examples
    --------
    >>> from practicum.games.auction_bne.priors import as_prior
    >>> [round(x, 4) for x in optimal_reserve(as_prior("uniform:0,100"), 3)]
    [50.0, 53.125]
    """
    if n_bidders < 2:
        raise InputError(f"n_bidders is {n_bidders}; an auction needs at least 2")
    even = np.linspace(0.0, 1.0, SHARES + 1)
    u = np.union1d(even, even ** (1 / n_bidders))  # the highest of many bidders is near the top
    value, middle = prior.ppf(u), (u[1:] + u[:-1]) / 2
    # among hundreds of bidders no reserve matters any more, and higher powers underflow
    gained = middle ** (min(n_bidders, MATTERS) - 1) * np.diff(value * (1 - u))
    best = int(np.append(0.0, np.cumsum(gained)).argmax())
    second = np.diff(n_bidders * u ** (n_bidders - 1) - (n_bidders - 1) * u**n_bidders)
    paid = ((value[1:] + value[:-1]) / 2 * second)[best:].sum()
    at_reserve = n_bidders * u[best] ** (n_bidders - 1) * (1 - u[best])
    return float(value[best]), float(value[best] * at_reserve + paid)


def uniform_pair_equilibrium(game: Game) -> list[BidFunction]:
    """First price, two risk-neutral bidders with values U[0, a] and U[0, b] (Kaplan, Zamir 2012).

    beta_a(v) = (1 - sqrt(1 - k v^2)) / (k v) with k = 1/a^2 - 1/b^2, and -k for b; both reach the
    same top bid a b / (a + b).

    Parameters
    ----------
    game : Game

    Returns
    -------
    list of two BidFunction

    Raises
    ------
    InputError
        The game is not of this kind.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> pair = make_game("first_price", ["uniform:0,0.5", "uniform:0,1"], 1)
    >>> weak, strong = uniform_pair_equilibrium(pair)
    >>> round(float(weak(np.array(0.5))), 6), round(float(strong(np.array(1.0))), 6)
    (0.333333, 0.333333)
    """
    if not is_uniform_pair(game):
        raise InputError(
            "the closed form for two bidders needs a risk-neutral first-price auction without "
            "reserve and two uniform priors from the same lowest value",
            "use method abr, ode or fictitious",
        )
    low = game.priors[0].support[0]
    a, b = (p.support[1] - low for p in game.priors)
    functions = []
    for prior, k in zip(game.priors, (1 / a**2 - 1 / b**2, 1 / b**2 - 1 / a**2), strict=True):

        def bid(v: np.ndarray, k: float = k) -> np.ndarray:
            x = v - low
            # the same as (1 - sqrt(1 - k x^2)) / (k x), without its 0/0
            return low + x / (1 + np.sqrt(np.maximum(1 - k * x**2, 0.0)))

        functions.append(BidFunction.of(prior, bid))
    return functions


def is_uniform_pair(game: Game) -> bool:
    """Whether :func:`uniform_pair_equilibrium` applies.

    Parameters
    ----------
    game : Game

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> is_uniform_pair(make_game("first_price", ["uniform:0,1", "beta:2,5"], 1))
    False
    """
    return (
        game.mechanism == "first_price"
        and game.counts == (1, 1)
        and game.risk_aversion == 1
        and game.reserve <= min(p.support[0] for p in game.priors)
        and all(_is_uniform(p) for p in game.priors)
        and len({p.support[0] for p in game.priors}) == 1
    )


def utility_condition_number(n: int, preconditioned: bool = False) -> tuple[float, float]:
    """How badly the utility is conditioned in the slope and intercept of a linear bid function.

    At the equilibrium of n uniform first-price bidders -u''(v) = n v^(n-2)/theta with
    theta = (n-1)/n, so the Hessian is E[-u'' phi phi^T] with phi = (v, 1): its condition number is
    4 n^2 + 2 + o(1), its smallest eigenvalue about 1/(2 n^2).  Dividing by u'' leaves E[phi phi^T].

    Parameters
    ----------
    n : int
        Bidders, at least 2.
    preconditioned : bool
        After dividing by the curvature.

    Returns
    -------
    (condition number, smallest eigenvalue)

    Raises
    ------
    InputError
        n is below 2.

    Examples
    --------
    >>> [round(utility_condition_number(n)[0], 1) for n in (2, 5, 10, 20)]
    [19.3, 102.2, 402.0, 1602.0]
    >>> round(utility_condition_number(20, preconditioned=True)[0], 2)
    19.28
    """
    if n < 2:
        raise InputError(f"n is {n}; at least 2 bidders")
    power, factor = (0, 1.0) if preconditioned else (n - 2, n * n / (n - 1))
    moment = factor / (power + 1 + np.arange(3.0))  # E[v^(power + k)]
    eigenvalues = np.linalg.eigvalsh([[moment[2], moment[1]], [moment[1], moment[0]]])
    return float(eigenvalues[1] / eigenvalues[0]), float(eigenvalues[0])


def _is_uniform(prior: Prior) -> bool:
    inner = getattr(prior, "prior", prior)  # a rescaled one
    name = getattr(getattr(getattr(inner, "_dist", None), "dist", None), "name", "")
    return isinstance(inner, ScipyPrior) and name == "uniform"


def _mean_below(
    prior: Prior, values: np.ndarray, F: np.ndarray, power: float
) -> Float[np.ndarray, " k"]:
    """int_{v_0}^{v_k} (F(t)/F(v_k))^power dt at every node, cell by cell.

    Carried from node to node as a ratio, so that F^power may underflow (50 bidders, low values).
    """
    left, right = values[:-1], values[1:]
    t = (left + right) / 2 + (right - left)[None, :] / 2 * GAUSS_X[:, None]
    top = np.maximum(F[1:], np.finfo(float).tiny)
    cell = (GAUSS_W @ (prior.cdf(t) / top) ** power) * (right - left) / 2
    carry = (F[:-1] / top) ** power
    out = np.zeros(len(values))
    for k in range(len(cell)):
        out[k + 1] = carry[k] * out[k] + cell[k]
    return out


def _all_pay_entry(prior: Prior, power: float, reserve: float) -> float:
    """The value v0 with v0 F(v0)^power = reserve: it gains nothing by bidding the reserve."""
    if reserve <= 0:
        return prior.support[0]

    def excess(v: float) -> float:
        return v * float(prior.cdf(np.array(v))) ** power - reserve

    return float(brentq(excess, max(reserve, prior.support[0]), prior.support[1]))
