"""The estimator: an auction in, bid functions and what is left to gain out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from practicum.errors import InputError
from practicum.games.auction_bne import certificate, solvers
from practicum.games.auction_bne.closed_forms import (
    is_uniform_pair,
    symmetric_equilibrium,
    uniform_pair_equilibrium,
)
from practicum.games.auction_bne.game import BidFunction, Game, make_game, table_nodes
from practicum.games.auction_bne.learning import Learned, Settings, learn
from practicum.games.auction_bne.priors import Array, Number
from practicum.games.auction_bne.utilities import certainty_equivalent

METHODS = (
    "auto",
    "closed_form",
    "abr",
    "utility_gradient",
    "smooth_market",
    "ode",
    "fictitious",
)
RECORDS = 20  # rows of the history
HISTORY_GRID = 100


class AuctionBNE:
    """Bayesian Nash equilibrium of a sealed-bid auction with independent private values.

    Parameters
    ----------
    mechanism : {"first_price", "second_price", "all_pay"}
    priors : prior, frozen SciPy distribution, samples or text; or a list, one for each type
    n_bidders : int or list of int
        Bidders (of each type), at least two in all.
    risk_aversion : float
        Exponent of utility, in (0, 1]; 1 is risk neutral.
    reserve : float
        Lowest bid that is accepted, currency units.
    method : str
        ``"auto"`` takes the closed form where there is one, ``"ode"`` for other pairs that can be
        shot, ``"fictitious"`` for other all-pay auctions and ``"abr"`` elsewhere; or
        ``"closed_form"``, ``"abr"`` (approximate best response gradient), ``"utility_gradient"``,
        ``"smooth_market"``, ``"ode"`` (two asymmetric bidders), ``"fictitious"``.
    gradient : {"auto", "exact", "quadrature", "kde_mc"}
        Of the learned methods; see :class:`Settings`. "auto" is exact (all pay: quadrature).
    monotone : bool
        Sort the learned bids, so that a higher value never bids less.
    random_state : int
    settings : further fields of :class:`Settings`
        ``bandwidth``, ``hidden``, ``lr``, ``steps``, ``warmup``, ``first_cond``, ``second_cond``,
        ``nodes``, ``optimizer`` ...

    Attributes
    ----------
    functions_ : list of BidFunction, one a type
    method_ : str, what was used
    distance_ : float, root mean square of bids minus the closed form's, currency units; NaN: none
    note_ : str, whether a closed form exists and how far the result is from it
    history_ : DataFrame with step, l2, brd, exploitability, seconds, share_newton (learned methods)

    Raises
    ------
    InputError
        An auction or settings that cannot be: one line that names the argument.

    Examples
    --------
    >>> auction = AuctionBNE("first_price", "uniform:0,100", 5).fit()
    >>> auction.method_, auction.bid(np.array([50.0, 100.0])).round(6).tolist()
    ('closed_form', [40.0, 80.0])
    >>> bool(auction.exploitability()["ex_ante"].iloc[0] < 1e-4)
    True
    """

    def __init__(
        self,
        mechanism: str = "first_price",
        priors: Any = "uniform:0,1",
        n_bidders: int | Sequence[int] = 2,
        risk_aversion: Number = 1.0,
        reserve: Number = 0.0,
        method: str = "auto",
        gradient: str = "auto",
        monotone: bool = False,
        random_state: int = 0,
        **settings: Any,
    ) -> None:
        self.game = make_game(mechanism, priors, n_bidders, risk_aversion, reserve)
        if method not in METHODS:
            raise InputError(f"method {method!r} is not known", f"use {', '.join(METHODS)}")
        self.method, self.gradient = method, gradient
        self.monotone, self.random_state = monotone, random_state
        unknown = set(settings) - set(Settings.__dataclass_fields__) | {"method"} & set(settings)
        if unknown:
            known = ", ".join(sorted(set(Settings.__dataclass_fields__) - {"method", "gradient"}))
            raise InputError(f"no setting {sorted(unknown)[0]!r}", f"settings: {known}")
        self.settings = self._settings(settings)

    def __repr__(self) -> str:
        game = self.game
        who = ", ".join(f"{n} x {p!r}" for n, p in zip(game.counts, game.priors, strict=True))
        return f"AuctionBNE({game.mechanism}, {who}, method={self.method})"

    def _settings(self, given: dict[str, Any]) -> Settings:
        gradient = self.gradient
        if self.method == "smooth_market":
            gradient = "smooth"
        elif gradient == "auto":
            gradient = "quadrature" if self.game.mechanism == "all_pay" else "exact"
        method = "abr" if self.method in ("auto", "abr") else "utility_gradient"
        if gradient != "exact" and "optimizer" not in given:  # the paper's steps
            given = {"optimizer": "sgd", "lr": 0.05, "nodes": 512, **given}
        if self.game.mechanism == "all_pay":  # a kernel that narrows makes it swing
            given = {"bandwidth": 0.05, **given}
        return Settings(method=method, gradient=gradient, **given).check()

    # ------------------------------------------------------------------------------- fitting

    def fit(self) -> AuctionBNE:
        """Find the bid functions; sets the attributes above and returns the estimator."""
        exact = closed_form(self.game)
        self.history_ = pd.DataFrame()
        self.method_ = self.method
        if self.method == "auto":
            self.method_ = self._best_method(exact is not None)
        if self.method_ == "closed_form":
            self.functions_ = symmetric_equilibrium(self.game) if exact is None else exact
        elif self.method_ == "ode":
            self.functions_ = solvers.shoot(self.game)
        elif self.method_ == "fictitious":
            self.functions_ = solvers.fictitious_play(self.game)
        else:
            self._learn(exact)
        self.distance_ = self._distance(exact)
        self.note_ = self._note(exact)
        return self

    def _best_method(self, formula: bool) -> str:
        if formula:
            return "closed_form"
        if solvers.can_shoot(self.game):
            return "ode"
        # all-pay bids are so flat for low values that gradients of any kind settle badly
        return "fictitious" if self.game.mechanism == "all_pay" else "abr"

    def _learn(self, exact: list[BidFunction] | None) -> None:
        unit, offset, scale = self.game.unit()
        every = max(1, self.settings.steps // RECORDS)
        reference = None
        if exact is not None:
            from practicum.games.auction_bne.market import quantile_nodes

            values, _ = quantile_nodes(unit, self.settings.nodes)
            inside = [
                np.clip(offset + scale * v, *f.support) for f, v in zip(exact, values, strict=True)
            ]
            reference = np.array(
                [(f(v) - offset) / scale for f, v in zip(exact, inside, strict=True)]
            )
        done = learn(
            unit,
            self.settings,
            [np.random.default_rng(self.random_state)],
            reference=reference,
            record_every=every,
            keep_bids=True,
        )
        self.functions_ = tabulated(self.game, done, monotone=self.monotone)
        self.history_ = self._history(done, scale, offset)

    def _history(self, done: Learned, scale: float, offset: float) -> pd.DataFrame:
        rows = []
        for k, step in enumerate(done.steps):
            row = {
                "step": int(step),
                "l2": float(np.sqrt((done.l2[0, :, k] ** 2).mean())) * scale,
                "seconds": float(done.seconds[k]),
                "share_newton": float(done.newton[0, k]),
            }
            functions = [
                BidFunction(
                    offset + scale * v, offset + scale * b, p.cdf(offset + scale * v), p.support
                )
                for p, v, b in zip(self.game.priors, done.values, done.snapshots[k][0], strict=True)
            ]
            row |= certificate.quick_gaps(self.game, functions, HISTORY_GRID)
            rows.append(row)
        columns = ["step", "l2", "brd", "exploitability", "seconds", "share_newton"]
        return pd.DataFrame(rows)[columns]

    def _distance(self, exact: list[BidFunction] | None) -> float:
        """Of the type that is farthest from it."""
        if exact is None:
            return float("nan")
        gaps = []
        for prior, own, best in zip(self.game.priors, self.functions_, exact, strict=True):
            v = np.maximum(prior.ppf((np.arange(400) + 0.5) / 400), own.entry)
            gaps.append(np.sqrt(np.nanmean((own(v) - best(v)) ** 2)))
        return float(max(gaps))

    def _note(self, exact: list[BidFunction] | None) -> str:
        if exact is None:
            exactly = self.method_ != "ode" and solvers.can_shoot(self.game)
            hint = "; method ode solves it exactly in a second" if exactly else ""
            return f"No closed form is known for this auction{hint}."
        if self.method_ == "closed_form":
            return "The closed form applies and was used: it is exact, learning adds nothing."
        return (
            "A closed form applies to this auction (method closed_form: exact, in milliseconds); "
            f"the {self.method_} bids are {self.distance_:.3g} from it (root mean square)."
        )

    # ------------------------------------------------------------------------------- results

    def bid(self, values: Any, bidder: int = 0) -> Array:
        """Equilibrium bids of a type at values, same units and shape; NaN: does not bid.

        Raises
        ------
        InputError
            A value outside the prior's support, or no such type.
        """
        self._check(bidder)
        return self.functions_[bidder](np.asarray(values, dtype=float))

    def best_response(self, values: Any, bidder: int = 0) -> Array:
        """The bid that would gain most against the others' functions; NaN: none gains."""
        self._check(bidder)
        v = np.atleast_1d(np.asarray(values, dtype=float))
        self.functions_[bidder](v)  # refuses values outside the support
        return certificate.Rivals(self.game, self.functions_, bidder).best_response(v)[0]

    def exploitability(self, n_grid: int = 400) -> pd.DataFrame:
        """What each type could still gain; see :func:`certificate.exploitability`."""
        self._check(0)
        return certificate.exploitability(self.game, self.functions_, n_grid)

    def best_response_distance(self) -> pd.Series:
        """E[(beta - BR)^2] of each type, squared currency units."""
        self._check(0)
        return certificate.best_response_distance(self.game, self.functions_)

    def revenue(self, n: int = 200_000) -> dict[str, float]:
        """The seller's mean revenue with its interval, efficiency, share sold, by simulation."""
        self._check(0)
        rng = np.random.default_rng([self.random_state, 1])
        return certificate.revenue(self.game, self.functions_, n, rng)

    def table(self, rows: int = 11, bidder: int = 0) -> pd.DataFrame:
        """value, bid, shading (%), win probability, expected gain at quantiles of the prior."""
        self._check(bidder)
        prior, own = self.game.priors[bidder], self.functions_[bidder]
        v = prior.ppf(np.linspace(0.0, 1.0, rows))
        bids = own(v)
        rivals = certificate.Rivals(self.game, self.functions_, bidder)
        gain = certainty_equivalent(rivals.utility(v, bids), self.game.risk_aversion)
        with np.errstate(divide="ignore", invalid="ignore"):
            shading = np.where(v > 0, 100 * (1 - bids / v), np.nan)
        wins = np.where(np.isnan(bids), 0.0, rivals.win_probability(np.nan_to_num(bids)))
        return pd.DataFrame(
            {
                "value": v,
                "bid": bids,
                "shading_percent": shading,
                "win_probability": wins,
                "expected_gain": gain,
            }
        )

    def plot(self, names: Sequence[str] = ()) -> Any:
        """The bid functions, with best responses and the closed form where there is one."""
        from practicum.games.auction_bne.figures import bid_figure

        self._check(0)
        return bid_figure(self.game, self.functions_, closed_form(self.game), names)

    def _check(self, bidder: int) -> None:
        if not hasattr(self, "functions_"):
            raise InputError("the auction has not been solved", "call fit() first")
        if not 0 <= bidder < len(self.functions_):
            raise InputError(f"bidder {bidder}: there are types 0 to {len(self.functions_) - 1}")


def closed_form(game: Game) -> list[BidFunction] | None:
    """The exact bid functions where a formula exists, else None.

    Parameters
    ----------
    game : Game

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> closed_form(make_game("first_price", ["uniform:0,1", "beta:2,5"], 1)) is None
    True
    """
    if game.symmetric:
        return [symmetric_equilibrium(game)]
    if game.mechanism == "second_price":  # truthful, whoever the others are
        return [BidFunction.of(p, lambda v: v, game.reserve) for p in game.priors]
    return uniform_pair_equilibrium(game) if is_uniform_pair(game) else None


def tabulated(
    game: Game, done: Learned, seed: int = 0, *, monotone: bool = False
) -> list[BidFunction]:
    """The learned networks of one seed as bid functions in currency units.

    Bids above the value, which are weakly dominated in every format, are cut to the value.

    Parameters
    ----------
    game : Game, in currency units
    done : Learned
    seed : int
        Position among the seeds.
    monotone : bool
        Sort the bids.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> game = make_game("first_price", "uniform:0,10", 3)
    >>> done = learn(game.unit()[0], Settings(steps=60), [np.random.default_rng(0)])
    >>> tabulated(game, done)[0].support
    (0.0, 10.0)
    """
    unit, offset, scale = game.unit()
    functions = []
    for t, prior in enumerate(unit.priors):
        network = done.networks.pick([seed * len(unit.priors) + t])
        values = table_nodes(prior, unit.reserve)
        bids = np.minimum(network.forward(values[None])[0] + unit.reserve, values)
        if monotone:
            bids = np.sort(bids)
        cdf, support = prior.cdf(values), prior.support
        functions.append(BidFunction(values, bids, cdf, support).rescaled(offset, scale))
    return functions
