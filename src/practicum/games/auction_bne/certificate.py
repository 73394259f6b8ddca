"""How far bid functions are from an equilibrium: best responses, remaining gains, revenue."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from practicum.errors import InputError
from practicum.games.auction_bne.game import TIE, BidFunction, Game
from practicum.games.auction_bne.priors import Array
from practicum.games.auction_bne.utilities import certainty_equivalent, money

CHUNK = 50  # values at a time: arrays of CHUNK x nodes
SIMULATE = 50_000  # auctions at a time


class Rivals:
    """The highest competing bid of a bidder of type ``i``, exactly for tabulated bid functions.

    G_j is linear between the nodes of a table, H the product of its powers: on every cell log H is
    concave and H convex.  Whoever keeps to her function loses ties, who deviates wins them: gains
    are never understated.

    Parameters
    ----------
    game : Game
    functions : sequence of BidFunction, one a type
    i : int

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> half = BidFunction.of(game.priors[0], lambda v: v / 2)
    >>> Rivals(game, [half], 0).win_probability(np.array([0.4, 0.6])).round(6).tolist()
    [0.64, 1.0]
    """

    def __init__(self, game: Game, functions: Sequence[BidFunction], i: int) -> None:
        self.game = game
        self.tie = TIE * max(f.support[1] for f in functions)
        self.tables = [
            (count, *f.distribution())
            for count, f in zip(game.opponents(i), functions, strict=True)
            if count
        ]
        nodes = np.unique(np.concatenate([bids for _, bids, _ in self.tables]))
        floor = game.reserve
        if game.mechanism == "second_price":  # truthful bids may lie above every competing one
            nodes = np.append(nodes, max(nodes[-1], game.priors[i].support[1]))
        self.nodes = np.unique(np.r_[floor, floor + self.tie, nodes[nodes >= floor]])
        self.H = self.win_probability(self.nodes)
        self._rates()

    def win_probability(self, b: Array) -> Array:
        """H(b): all others bid at most b."""
        b = np.asarray(b, dtype=float)
        H = np.ones_like(b)
        for count, bids, G in self.tables:
            H = H * np.interp(b, bids, G, left=G[0]) ** count
        return H

    def _rates(self) -> None:
        """h/H at the lower and at the upper end of every cell."""
        low, high = self.nodes[:-1], self.nodes[1:]
        self.rate_low, self.rate_high = np.zeros(len(low)), np.zeros(len(low))
        for count, bids, G in self.tables:
            at = np.interp(self.nodes, bids, G, left=G[0])
            slope = np.diff(at) / (high - low)
            with np.errstate(divide="ignore", invalid="ignore"):
                self.rate_low += count * np.nan_to_num(slope / at[:-1], nan=0.0, posinf=np.inf)
                self.rate_high += count * np.nan_to_num(slope / at[1:], nan=0.0, posinf=np.inf)

    def utility(self, v: Float[np.ndarray, " k"], b: Float[np.ndarray, " k"]) -> Array:
        """u(b|v) without ties, pair by pair; NaN bids (who stays out) gain 0."""
        out = np.isnan(b)
        b = np.where(out, 0.0, b)
        below = b - self.tie
        if self.game.mechanism == "second_price":
            u = np.concatenate([self._second_price(x, y) for x, y in _chunks(v, below)])
        elif self.game.mechanism == "all_pay":
            u = v * self.win_probability(below) - b
        else:
            u = money(v - b, self.game.risk_aversion) * self.win_probability(below)
        return np.where(out, 0.0, u)

    def _second_price(self, v: np.ndarray, b: np.ndarray) -> np.ndarray:
        """s(v - r) H(r) + int_r^b s(v - m) dH(m), by the middles of the cells."""
        middle = (self.nodes[1:] + self.nodes[:-1]) / 2
        worth = money(v[:, None] - middle[None, :], self.game.risk_aversion) * np.diff(self.H)
        whole = np.concatenate([np.zeros((len(v), 1)), np.cumsum(worth, axis=1)], axis=1)
        at = np.clip(np.interp(b, self.nodes, np.arange(len(self.nodes))), 0, len(middle) - 1e-9)
        cell = at.astype(int)
        rows = np.arange(len(v))
        inside = whole[rows, cell] + (at - cell) * worth[rows, cell]
        return inside + money(v - self.nodes[0], self.game.risk_aversion) * self.H[0]

    def best_response(
        self, v: Float[np.ndarray, " k"], bounds: bool = True
    ) -> tuple[Array, Array, Array]:
        """The best bid (NaN: none gains), its utility, and an upper bound on that of any bid.

        Without ``bounds`` the last is the utility again, and half the time is saved.
        """
        if self.game.mechanism == "second_price":
            best = np.where(v >= self.game.reserve, np.maximum(v, self.nodes[0]), np.nan)
            utility = np.maximum(self.utility(v, best), 0.0)
            return best, utility, utility
        parts = [self._search(chunk, bounds) for chunk, _ in _chunks(v, v)]
        bid, utility, bound = (np.concatenate(p) for p in zip(*parts, strict=True))
        bid = np.where(utility > 0, bid, np.nan)
        return bid, np.maximum(utility, 0.0), np.maximum(bound, 0.0)

    def _search(self, v: np.ndarray, bounds: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, column = np.arange(len(v)), v[:, None]
        if self.game.mechanism == "all_pay":  # convex on every cell: best at a node
            u = column * self.H - self.nodes
            best = u.argmax(axis=1)
            return self.nodes[best], u[rows, best], u[rows, best]
        rho = self.game.risk_aversion
        gain = column - self.nodes
        u = money(gain, rho) * self.H
        best = u.argmax(axis=1)
        if not bounds:
            return self.nodes[best], u[rows, best], u[rows, best]
        bound = np.maximum(u[rows, best], self._cell_bounds(gain, u, rho).max(axis=1))
        return self.nodes[best], u[rows, best], bound

    def _cell_bounds(self, gain: np.ndarray, u: np.ndarray, rho: float) -> np.ndarray:
        """log u = rho log(v-b) + log H is concave on a cell: its two tangents bound it."""
        low, high = gain[:, :-1], gain[:, 1:]
        width = np.diff(self.nodes)
        crude = money(np.maximum(low, 0.0), rho) * self.H[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            up = self.rate_low - rho / low
            down = self.rate_high - rho / high
            start, end = np.log(u[:, :-1]), np.log(u[:, 1:])
            meet = np.clip((end - start - down * width) / (up - down), 0.0, width)
            tangent = np.exp(start + up * meet)
        tangent = np.where(up <= 0, u[:, :-1], np.where(down >= 0, u[:, 1:], tangent))
        usable = (high > 0) & np.isfinite(tangent) & (u[:, :-1] > 0)
        return np.where(usable, np.minimum(tangent, crude), crude)


def exploitability(game: Game, functions: Sequence[BidFunction], n_grid: int = 400) -> pd.DataFrame:
    """What each type could still gain by deviating, in currency units.

    For every value the best response to the others' exact bid distributions is compared with the
    bid function.  Under risk aversion gains are differences of certainty equivalents.

    Parameters
    ----------
    game : Game
    functions : sequence of BidFunction, one a type
    n_grid : int
        Values per type, at equal shares of the prior.

    Returns
    -------
    pandas.DataFrame, one row a type:
        ``ex_ante`` (mean gain over values), ``interim`` (largest gain of any value), ``at_value``
        (where), ``certified`` (upper bound on ``interim`` over the values looked at: no bid does
        better), ``relative`` (``ex_ante`` over the mean best-response utility).

    Raises
    ------
    InputError
        Fewer than 2 grid values.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> half = BidFunction.of(game.priors[0], lambda v: v / 2)
    >>> round(float(exploitability(game, [half])["ex_ante"].iloc[0]), 6)
    0.015625
    """
    if n_grid < 2:
        raise InputError(f"n_grid is {n_grid}; at least 2 values")
    rho, rows = game.risk_aversion, []
    for i, (prior, own) in enumerate(zip(game.priors, functions, strict=True)):
        rivals = Rivals(game, functions, i)
        v = prior.ppf((np.arange(n_grid) + 0.5) / n_grid)
        bid = own(v)
        u = certainty_equivalent(rivals.utility(v, bid), rho)
        _, best, bound = rivals.best_response(v)
        best, bound = certainty_equivalent(best, rho), certainty_equivalent(bound, rho)
        gain = np.maximum(best - u, 0.0)
        certified = np.maximum(bound - u, 0.0)
        if game.mechanism == "second_price":
            certified = _second_price_bound(rivals, v, bid, gain)
        mean = float(best.mean())
        rows.append(
            {
                "ex_ante": float(gain.mean()),
                "interim": float(gain.max()),
                "at_value": float(v[gain.argmax()]),
                "certified": float(certified.max()),
                "relative": float(gain.mean()) / mean if mean > 0 else 0.0,
            }
        )
    return pd.DataFrame(rows, index=pd.RangeIndex(len(rows), name="type"))


def _second_price_bound(
    rivals: Rivals, v: np.ndarray, bid: np.ndarray, gain: np.ndarray
) -> np.ndarray:
    """Between bid and value the loss is int |s(v-m)| dH, at most |s(v-b)| times H's increase."""
    if rivals.game.risk_aversion < 1:
        return gain  # certainty equivalents are not additive: the search stands as it is
    b = np.where(np.isnan(bid), v, bid)
    increase = np.abs(rivals.win_probability(v) - rivals.win_probability(b))
    return np.maximum(gain, np.abs(v - b) * increase)


def best_response_distance(
    game: Game, functions: Sequence[BidFunction], n_grid: int = 400
) -> pd.Series:
    """E[(beta(v) - BR(v))^2] of each type, in squared currency units.

    Parameters
    ----------
    game, functions, n_grid : as for :func:`exploitability`

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> exact = BidFunction.of(game.priors[0], lambda v: v * 2 / 3)
    >>> bool(best_response_distance(game, [exact]).iloc[0] < 1e-6)
    True
    """
    out = []
    for i, (prior, own) in enumerate(zip(game.priors, functions, strict=True)):
        v = prior.ppf((np.arange(n_grid) + 0.5) / n_grid)
        best, _, _ = Rivals(game, functions, i).best_response(v, bounds=False)
        gap = own(v) - best
        # where no bid gains anything, every bid that never wins is a best response
        out.append(float(np.mean(np.nan_to_num(gap) ** 2)))
    return pd.Series(out, index=pd.RangeIndex(len(out), name="type"), name="brd")


def quick_gaps(game: Game, functions: Sequence[BidFunction], n_grid: int = 100) -> dict[str, float]:
    """Best response distance and ex-ante gain, means over types, without bounds: for histories.

    Parameters
    ----------
    game, functions, n_grid : as for :func:`exploitability`; values stay within the tables

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> half = BidFunction.of(game.priors[0], lambda v: v / 2)
    >>> sorted(quick_gaps(game, [half]))
    ['brd', 'exploitability']
    """
    distances, gains = [], []
    for i, own in enumerate(functions):
        rivals = Rivals(game, functions, i)
        share = own.cdf[0] + (1 - own.cdf[0]) * (np.arange(n_grid) + 0.5) / n_grid
        v = np.interp(share, own.cdf, own.values)
        bid = np.interp(v, own.values, own.bids)
        best, utility, _ = rivals.best_response(v, bounds=False)
        rho = game.risk_aversion
        gain = certainty_equivalent(utility, rho) - certainty_equivalent(
            rivals.utility(v, bid), rho
        )
        gains.append((1 - own.cdf[0]) * np.maximum(gain, 0.0).mean())
        distances.append(np.mean(np.nan_to_num(bid - best) ** 2))
    return {"brd": float(np.mean(distances)), "exploitability": float(np.mean(gains))}


def revenue(
    game: Game, functions: Sequence[BidFunction], n: int, rng: np.random.Generator
) -> dict[str, float]:
    """The seller's revenue and how often the item goes to the highest value, by simulation.

    Parameters
    ----------
    game : Game
    functions : sequence of BidFunction, one a type
    n : int
        Simulated auctions.
    rng : numpy.random.Generator

    Returns
    -------
    dict with ``revenue``, ``low``, ``high`` (95 % normal interval), ``efficiency`` (share of the
    auctions won by the highest value; with a reserve, of those that sell), ``sold`` (share)

    Raises
    ------
    InputError
        Fewer than 100 auctions.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("second_price", "uniform:0,1", 3)
    >>> truth = BidFunction.of(game.priors[0], lambda v: v)
    >>> r = revenue(game, [truth], 20_000, np.random.default_rng(0))
    >>> r["low"] < 0.5 < r["high"], r["efficiency"]
    (True, 1.0)
    """
    if n < 100:
        raise InputError(f"n is {n}; at least 100 simulated auctions")
    paid, right, sold = [], 0, 0
    for start in range(0, n, SIMULATE):
        size = min(SIMULATE, n - start)
        values = [p.sample(rng, (c, size)) for p, c in zip(game.priors, game.counts, strict=True)]
        bids = np.concatenate([f(v) for f, v in zip(functions, values, strict=True)])
        values = np.concatenate(values)
        bids = np.where(np.isnan(bids), -1.0, bids)  # out
        winner = bids.argmax(axis=0)
        ranked = np.sort(bids, axis=0)
        sale = ranked[-1] >= 0
        paid.append(_payments(game, bids, ranked) * sale)
        sold += int(sale.sum())
        right += int((sale & (values.argmax(axis=0) == winner)).sum())
    amounts = np.concatenate(paid)
    half = 1.96 * float(amounts.std(ddof=1)) / math.sqrt(n)
    mean = float(amounts.mean())
    return {
        "revenue": mean,
        "low": mean - half,
        "high": mean + half,
        "efficiency": right / max(sold, 1),
        "sold": sold / n,
    }


def _payments(game: Game, bids: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    if game.mechanism == "first_price":
        return ranked[-1]
    if game.mechanism == "second_price":
        return np.maximum(ranked[-2], game.reserve)
    return np.maximum(bids, 0.0).sum(axis=0)


def _chunks(v: np.ndarray, b: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(v[k : k + CHUNK], b[k : k + CHUNK]) for k in range(0, len(v), CHUNK)]
