"""The auction: format, bidders, values; bid functions as tables; who outbids whom how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.games.auction_bne.priors import Array, Number, Prior, Rescaled, as_prior

MECHANISMS = ("first_price", "second_price", "all_pay")
UNSUPPORTED = {
    "common": "common or interdependent values are not supported: independent private values only",
    "multi": "multi-unit auctions are not supported: one item, one winner",
    "combinatorial": "combinatorial auctions are not supported: one item, one winner",
}
TIE = 1e-9  # of the highest value
NODES = 4096  # of a tabulated bid function, by quantile, and as many by value


@dataclass(frozen=True)
class Game:
    """One item, independent private values, bidders of one or several types.

    Attributes
    ----------
    mechanism : {"first_price", "second_price", "all_pay"}
    priors : tuple of Prior, one for each type
    counts : tuple of int, bidders of each type
    risk_aversion : float, the exponent rho of utility (v - payment)^rho, in (0, 1]; 1 is neutral
    reserve : float, the lowest bid that is accepted, in currency units

    Examples
    --------
    >>> game = make_game("first_price", "uniform:0,1", 5)
    >>> game.n_bidders, game.symmetric
    (5, True)
    """

    mechanism: str
    priors: tuple[Prior, ...]
    counts: tuple[int, ...]
    risk_aversion: float = 1.0
    reserve: float = 0.0

    @property
    def n_bidders(self) -> int:
        """How many bid."""
        return sum(self.counts)

    @property
    def symmetric(self) -> bool:
        """All bidders draw from one prior."""
        return len(self.priors) == 1

    @property
    def top(self) -> float:
        """The highest possible value."""
        return max(p.support[1] for p in self.priors)

    def opponents(self, i: int) -> Float[np.ndarray, " types"]:
        """Opponents of each type that a bidder of type ``i`` meets."""
        return np.array(self.counts, dtype=float) - (np.arange(len(self.counts)) == i)

    def unit(self) -> tuple[Game, float, float]:
        """The same game with values in [0, 1], and the (offset, scale) that were taken out.

        Only differences of values and payments matter where losers pay nothing, so the lowest
        value is shifted to zero there; an all-pay bid is paid in full and is only scaled.
        """
        low = min(p.support[0] for p in self.priors)
        offset = 0.0 if self.mechanism == "all_pay" else low
        scale = self.top - offset
        priors = tuple(Rescaled(p, offset, scale) for p in self.priors)
        reserve = max(0.0, (self.reserve - offset) / scale)
        game = Game(self.mechanism, priors, self.counts, self.risk_aversion, reserve)
        return game, offset, scale


def make_game(
    mechanism: str,
    priors: Any,
    n_bidders: int | Sequence[int],
    risk_aversion: Number = 1.0,
    reserve: Number = 0.0,
) -> Game:
    """Check and assemble a game.

    Parameters
    ----------
    mechanism : str
        ``first_price``, ``second_price`` or ``all_pay`` (hyphens are fine).
    priors : whatever :func:`as_prior` takes, or a list of them, one for each type of bidder
    n_bidders : int, or a list with the number of bidders of each type
    risk_aversion : float
        Exponent of utility, in (0, 1].
    reserve : float
        In currency units.

    Raises
    ------
    InputError
        Fewer than two bidders, an unknown or unsupported format, a reserve above every value, a
        risk aversion outside (0, 1], or one that the format does not support.

    Examples
    --------
    >>> make_game("second-price", ["uniform:0,1", "uniform:0,2"], [1, 2]).n_bidders
    3
    """
    name = _mechanism(mechanism)
    many = isinstance(priors, list | tuple) and not _are_numbers(priors)
    made = tuple(as_prior(p) for p in (priors if many else [priors]))
    counts = _counts(n_bidders, len(made))
    if not 0 < risk_aversion <= 1:
        raise InputError(
            f"risk_aversion is {risk_aversion}; a number in (0, 1] expected",
            "it is the exponent of utility: 1 is risk neutral, 0.5 strongly averse",
        )
    if name == "all_pay" and risk_aversion < 1:
        raise InputError(
            "risk aversion in an all-pay auction is not supported",
            "leave risk_aversion at 1, or use first_price or second_price",
        )
    game = Game(name, made, counts, float(risk_aversion), float(reserve))
    lowest_top = min(p.support[1] for p in made)
    if not (math.isfinite(reserve) and 0 <= reserve < lowest_top):
        raise InputError(
            f"the reserve {reserve:g} is not below the highest value {lowest_top:g}",
            "reserve and values are in the same currency unit; nobody could bid",
        )
    return game


def _mechanism(given: str) -> str:
    name = given.replace("-", "_").lower()
    for word, message in UNSUPPORTED.items():
        if word in name:
            raise InputError(f"format {given!r}: {message}")
    if name not in MECHANISMS:
        raise InputError(f"format {given!r} is not known", f"use {', '.join(MECHANISMS)}")
    return name


def _are_numbers(given: Sequence[Any]) -> bool:
    return all(isinstance(x, int | float | np.number) for x in given)


def _counts(given: int | Sequence[int], types: int) -> tuple[int, ...]:
    counts = [given] if isinstance(given, int | np.integer) else list(given)
    if any(isinstance(c, bool) or int(c) != c or c < 1 for c in counts) or not counts:
        raise InputError(f"n_bidders is {given}; whole numbers of at least 1 a type expected")
    if len(counts) == 1 and types > 1:
        counts = counts * types
    if len(counts) != types:
        raise InputError(f"n_bidders names {len(counts)} types, priors {types}")
    if sum(counts) < 2:
        raise InputError(
            f"n_bidders is {sum(counts)}; an auction needs at least 2",
            "a single bidder bids the reserve (or nothing) and wins",
        )
    return tuple(int(c) for c in counts)


# ------------------------------------------------------------------------------ bid functions


@dataclass(frozen=True)
class BidFunction:
    """beta(v) as a table, linear in between; NaN below ``entry``, where one does not bid.

    Attributes
    ----------
    values : increasing array, shape (k,), from ``entry`` to the highest value
    bids : array, shape (k,)
    cdf : array, shape (k,), F at the values
    support : (lo, hi) of the values

    Examples
    --------
    >>> beta = BidFunction.of(as_prior("uniform:0,1"), lambda v: v / 2)
    >>> beta(np.array([0.5, 1.0])).tolist()
    [0.25, 0.5]
    """

    values: np.ndarray
    bids: np.ndarray
    cdf: np.ndarray
    support: tuple[float, float]

    @classmethod
    def of(cls, prior: Prior, bid: Any, entry: float = 0.0, nodes: int = NODES) -> BidFunction:
        """Tabulate ``bid`` at quantiles of the prior and at equally spaced values."""
        values = table_nodes(prior, entry, nodes)
        return cls(values, np.asarray(bid(values), dtype=float), prior.cdf(values), prior.support)

    @property
    def entry(self) -> float:
        """The lowest value that bids."""
        return float(self.values[0])

    def __call__(self, v: Array) -> Array:
        """Bids at values, same shape and units."""
        v = np.asarray(v, dtype=float)
        low, high = self.support
        slack = 1e-9 * high
        outside = ~((v >= low - slack) & (v <= high + slack))
        if outside.any():
            worst = np.atleast_1d(v)[np.atleast_1d(outside)][0]
            raise InputError(
                f"value {worst:g} lies outside the support [{low:g}, {high:g}] of the prior",
                "bids are defined for values that the prior allows; values are in currency units",
            )
        bids = np.interp(v, self.values, self.bids)
        return np.where(v < self.entry - slack, np.nan, bids)

    def rescaled(self, offset: float, scale: float) -> BidFunction:
        """The same function in units with v = offset + scale v'."""
        support = (offset + scale * self.support[0], offset + scale * self.support[1])
        return BidFunction(
            offset + scale * self.values, offset + scale * self.bids, self.cdf, support
        )

    def distribution(self) -> tuple[np.ndarray, np.ndarray]:
        """Increasing bids and the probability G of bidding at most that; linear in between.

        Where the function is not increasing its bids are sorted: only how often a bid is made
        matters to the others.  A bid that many values share (an atom) is a steep ramp of width
        ``TIE``, so that just below it loses every tie and the bid itself wins them.
        """
        if np.all(np.diff(self.bids) > 0):
            return self.bids, self.cdf
        share = np.linspace(self.cdf[0], 1.0, 2 * len(self.bids) + 1)
        bids = np.sort(np.interp(share, self.cdf, self.bids))
        levels, first, counts = np.unique(bids, return_index=True, return_counts=True)
        tied = counts > 1
        foot = levels[tied] - TIE * self.support[1]
        ramp = np.r_[levels, foot], np.r_[share[first + counts - 1], share[first[tied]]]
        order = np.argsort(ramp[0], kind="stable")
        return ramp[0][order], np.maximum.accumulate(ramp[1][order])


def table_nodes(prior: Prior, entry: float, nodes: int = NODES) -> Float[np.ndarray, " k"]:
    """Values at which a bid function is tabulated: quantiles and equal steps, from ``entry`` up.

    Parameters
    ----------
    prior : Prior
    entry : float
    nodes : int

    Raises
    ------
    InputError
        ``entry`` is not below the highest value.

    Examples
    --------
    >>> table_nodes(as_prior("uniform:0,1"), 0.5, 4).tolist()
    [0.5, 0.625, 0.75, 0.875, 1.0]
    """
    low, high = max(prior.support[0], entry), prior.support[1]
    if not low < high:
        raise InputError(f"nobody bids: the entry value {low:g} is not below {high:g}")
    start = float(prior.cdf(np.array(low)))
    quantiles = prior.ppf(np.linspace(start, 1.0, nodes + 1))
    values = np.union1d(np.linspace(low, high, nodes + 1), np.clip(quantiles, low, high))
    keep = np.r_[True, np.diff(values) > 1e-12 * high]
    values = values[keep]
    values[-1] = high
    return values
