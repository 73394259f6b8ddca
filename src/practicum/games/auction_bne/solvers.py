"""Equilibria without learning or formula: shooting for two bidders, fictitious play for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

from practicum.errors import InputError
from practicum.games.auction_bne.game import BidFunction, Game, table_nodes
from practicum.games.auction_bne.priors import Prior
from practicum.games.auction_bne.utilities import money

BISECTIONS = 36
LOG_LOW = -25.0  # log F down to which inverse bids are followed
CLOSE = 1e-7  # of the value range: phi_j(b) - b below this has crossed


def shoot(game: Game) -> list[BidFunction]:
    """Two first-price bidders by shooting from the common top bid (Marshall et al. 1994).

    The inverse bids phi_i solve phi_i'(b) f_i(phi_i)/F_i(phi_i) = 1/(phi_j(b) - b); the top bid is
    bisected until both come down to the lowest value.  log F_i(phi_i) is integrated, which stays
    smooth where F_i vanishes.

    Parameters
    ----------
    game : Game
        Two types of one bidder each, risk neutral, no reserve, the same lowest value.

    Returns
    -------
    list of two BidFunction, in currency units

    Raises
    ------
    InputError
        Another kind of game.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> weak, strong = shoot(make_game("first_price", ["uniform:0,0.5", "uniform:0,1"], 1))
    >>> round(float(strong(np.array(1.0))), 4)
    0.3333
    """
    if not can_shoot(game):
        raise InputError(
            "shooting is for two risk-neutral first-price bidders, one of each of two types, "
            "without reserve and with the same lowest value",
            "methods for other asymmetric auctions: abr, utility_gradient, fictitious",
        )
    unit, offset, scale = game.unit()
    quantiles = [_log_quantile(p) for p in unit.priors]
    low, high = 0.0, min(p.support[1] for p in unit.priors)
    for _ in range(BISECTIONS):
        top = (low + high) / 2
        crossed, path = _descend(quantiles, top)
        low, high = (low, top) if crossed else (top, high)
    _, path = _descend(quantiles, low)
    return [
        _tabulate(prior, phi, path.t).rescaled(offset, scale)
        for prior, phi in zip(unit.priors, _inverse_bids(quantiles, path.y), strict=True)
    ]


def can_shoot(game: Game) -> bool:
    """Whether :func:`shoot` applies.

    Parameters
    ----------
    game : Game

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> can_shoot(make_game("first_price", ["uniform:0,1", "beta:2,5"], 1))
    True
    """
    lows = [p.support[0] for p in game.priors]
    return (
        game.mechanism == "first_price"
        and game.counts == (1, 1)
        and game.risk_aversion == 1
        and game.reserve <= min(lows)
        and max(lows) - min(lows) <= 1e-9 * game.top
    )


def _log_quantile(prior: Prior) -> CubicSpline:
    # close to the top a density that vanishes there bends the quantile function like a root
    grid = np.r_[np.linspace(LOG_LOW, -1, 1200), -np.geomspace(1, 1e-14, 800)[1:], 0.0]
    return CubicSpline(grid, prior.ppf(np.exp(grid)))


def _inverse_bids(quantiles: list[CubicSpline], logs: Any) -> list[np.ndarray]:
    return [q(np.clip(x, LOG_LOW, 0.0)) for q, x in zip(quantiles, logs, strict=True)]


def _descend(quantiles: list[CubicSpline], top: float):
    """From the top bid down: whether an inverse bid meets the diagonal, and the path until then."""

    def slope(b: float, logs: Any) -> list[float]:
        first, second = _inverse_bids(quantiles, logs)
        return [1 / max(second - b, CLOSE / 10), 1 / max(first - b, CLOSE / 10)]

    def meets(b: float, logs: Any) -> float:
        return float(min(_inverse_bids(quantiles, logs)) - b) - CLOSE

    meets.terminal = True
    path = solve_ivp(
        slope, (top, 1e-6 * top), [0.0, 0.0], "DOP853", events=meets, rtol=1e-9, atol=1e-11
    )
    return len(path.t_events[0]) > 0, path


def _tabulate(prior: Prior, phi: np.ndarray, bids: np.ndarray) -> BidFunction:
    order = np.argsort(phi)
    low = prior.support[0]
    known_v, known_b = np.r_[low, phi[order]], np.r_[low, bids[order]]
    keep = np.r_[True, np.diff(known_v) > 1e-9]
    values = table_nodes(prior, low)
    curve = CubicSpline(known_v[keep], known_b[keep])
    return BidFunction(values, curve(values), prior.cdf(values), prior.support)


def fictitious_play(
    game: Game, rounds: int = 1000, n_values: int = 128, n_bids: int = 256
) -> list[BidFunction]:
    """Best responses to the average bids of all earlier rounds, on grids of values and bids.

    A bid function is the average of its best responses with weights that grow with the round, and
    linear between the middles of the value cells.

    Parameters
    ----------
    game : Game
    rounds : int
    n_values, n_bids : int
        Equally likely values per type, and equally spaced bids.

    Returns
    -------
    list of BidFunction, one a type, in currency units

    Raises
    ------
    InputError
        A grid of fewer than 8, or no rounds.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> (beta,) = fictitious_play(make_game("first_price", "uniform:0,1", 3))
    >>> bool(abs(beta(np.array(0.9)) - 0.6) < 0.01)
    True
    """
    if min(n_values, n_bids) < 8 or rounds < 1:
        raise InputError(
            f"rounds={rounds}, n_values={n_values}, n_bids={n_bids}: at least 1 round, grids of 8"
        )
    unit, offset, scale = game.unit()
    bids = np.linspace(unit.reserve, 1.0, n_bids)
    middles = (np.arange(n_values) + 0.5) / n_values
    values = np.stack([p.ppf(middles) for p in unit.priors])
    mean = unit.reserve + np.maximum(values - unit.reserve, 0.0) / 2
    mass = np.stack([_masses(m, v >= unit.reserve, bids) for m, v in zip(mean, values)])
    for t in range(rounds):
        weight = 2 / (t + 2)
        answers = [_answer(unit, i, values[i], bids, mass) for i in range(len(values))]
        for i, answer in enumerate(answers):
            mean[i] += weight * (answer - mean[i])
            out = values[i] < unit.reserve
            mass[i] += weight * (_masses(answer, ~out, bids) - mass[i])
    return [
        _interpolated(p, v, m, unit.reserve).rescaled(offset, scale)
        for p, v, m in zip(unit.priors, values, mean, strict=True)
    ]


def _masses(bid: np.ndarray, bids_at_all: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Probabilities on (stays out, grid)."""
    cell = np.clip(np.rint((bid - grid[0]) / (grid[1] - grid[0])).astype(int), 0, len(grid) - 1)
    counts = np.bincount(np.where(bids_at_all, cell + 1, 0), minlength=len(grid) + 1)
    return counts / len(bid)


def _answer(
    game: Game, i: int, v: np.ndarray, bids: np.ndarray, mass: np.ndarray
) -> Float[np.ndarray, " values"]:
    """The best grid bid of every value; a tie is won half of the time."""
    steps = np.cumsum(mass, axis=1)
    middle = (steps[:, 1:] + steps[:, :-1]) / 2
    H = np.prod(middle ** game.opponents(i)[:, None], axis=0)
    if game.mechanism == "second_price":
        return np.maximum(v, game.reserve)
    if game.mechanism == "all_pay":
        u = v[:, None] * H - bids
    else:
        u = money(v[:, None] - bids, game.risk_aversion) * H
    return bids[u.argmax(axis=1)]


def _interpolated(prior: Prior, v: np.ndarray, bid: np.ndarray, entry: float) -> BidFunction:
    values = table_nodes(prior, entry)
    inside = v >= entry
    ends = np.interp(values, v[inside], bid[inside])
    # beyond the last middle: straight on
    slope = (bid[-1] - bid[-2]) / max(v[-1] - v[-2], CLOSE)
    ends = np.where(values > v[-1], bid[-1] + slope * (values - v[-1]), ends)
    return BidFunction(values, ends, prior.cdf(values), prior.support)
