"""The study: gradients and exact solvers as arms; auctions with known equilibria as data."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import plotly.graph_objects as go

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.games.auction_bne.auction import closed_form, tabulated
from practicum.games.auction_bne.certificate import quick_gaps
from practicum.games.auction_bne.closed_forms import utility_condition_number
from practicum.games.auction_bne.files import (
    has_mariokart,
    mariokart_prices,
    prior_from_file,
    read_samples,
)
from practicum.games.auction_bne.game import BidFunction, Game, make_game
from practicum.games.auction_bne.learning import PUBLISHED, Settings, learn
from practicum.games.auction_bne.market import quantile_nodes
from practicum.games.auction_bne.priors import Empirical
from practicum.games.auction_bne.solvers import fictitious_play
from practicum.study import (
    Arm,
    Measure,
    Metrics,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    greater_than,
    needs_more,
    never,
)
from practicum.study.evidence import number
from practicum.study.plots import add_ribbon, colours, new_figure, style

# Thresholds of the paper file, written before the run.
FASTER_FIRST, FASTER_SECOND = 3.0, 2.0  # ratio of errors at n = 10
FLOOR = 0.0102  # the kernel's bias at bandwidth .05 (n = 2)
NARROW_FLOOR = 0.0029  # at bandwidth .02
REACHED = 2 * FLOOR
ASYMMETRIC = 0.03
TEMPERATURES = (0.01, 0.02, 0.05)

LEARNED: Mapping[str, Settings] = {
    "abr": Settings(),
    "ug": replace(PUBLISHED, method="utility_gradient"),
    "sm": replace(PUBLISHED, method="utility_gradient", gradient="smooth", nodes=256),
    "abr-published": PUBLISHED,
    "abr-sgd": Settings(optimizer="sgd", lr=0.05),
    "ug-adam": Settings(method="utility_gradient"),
    "sm-abr": replace(PUBLISHED, gradient="smooth", nodes=256),
}
SOLVED = ("formula", "fictitious")
SYMMETRIC = ("abr", "ug", "abr-published")
EVERY = 10  # steps between two records
GAIN_GRID = 100


class ApproximateBestResponse(Study):
    """Best response gradient, utility gradient, smoothed market and exact solvers on auctions."""

    slug = "auction-bne"
    arms: ClassVar = {
        "abr": Arm(
            "method", "best response gradient on the exact market (ours): Newton on v = b + H/h"
        ),
        "ug": Arm("baseline", "utility gradient by expected kernel density: plain self-play"),
        "sm": Arm("baseline", "smoothed market: softmax allocation, sampled rivals"),
        "fictitious": Arm("baseline", "fictitious play on 128 values and 256 bids"),
        "formula": Arm("cheap", "the closed form, where there is one"),
        "abr-published": Arm(
            "control", "best response gradient as published: kernel, warm-up, switch to Newton"
        ),
        "abr-sgd": Arm("control", "ours with the paper's plain steps instead of Adam"),
        "ug-adam": Arm("control", "our market and Adam with the preconditioner switched off"),
        "sm-abr": Arm("control", "smoothed market with the paper's switch to Newton"),
    }
    measures: Mapping[str, Measure] = {
        "error": Measure(
            "distance to the equilibrium bids", "lower", "share of the value range", (0.0, math.inf)
        ),
        "gain": Measure(
            "mean gain left from deviating", "lower", "share of the value range", (0.0, math.inf)
        ),
        "fit_seconds": Measure("seconds to solve", "lower", "s", (0.0, math.inf)),
    }

    def __init__(
        self,
        column: str | None = None,
        bidders: int = 5,
        format: str = "first_price",
        risk_aversion: float = 1.0,
    ) -> None:
        self.column, self.bidders, self.format = column, bidders, format
        self.risk_aversion = risk_aversion

    # ----------------------------------------------------------------------------------- the grid

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Formats x bidders x arms x seeds; or a person's values."""
        if self.source is not None:
            yield from self._trials_on_source(scale)
            return
        steps = scale.pick(smoke=500, cpu=2000, paper=2000)
        few = scale.name == "smoke"
        first = scale.pick(smoke=(2, 10), cpu=(2, 5, 10, 20), paper=(2, 5, 10, 20, 50))
        seeds = scale.seeds(smoke=3, cpu=10, paper=10)
        for n in first:
            yield from self._cells(
                "first-price", (*SYMMETRIC, "abr-sgd", "ug-adam", *SOLVED), seeds, n=n, steps=steps
            )
        for n in (10,) if few else first:
            yield from self._cells("second-price", SYMMETRIC, seeds, n=n, steps=steps)
        for n in (10,) if few else (6, 8, 10):
            yield from self._cells("risk-averse", SYMMETRIC, seeds, n=n, steps=steps)
        for n in (10,) if few else (4, 10):
            yield from self._cells("beta", (*SYMMETRIC, "formula"), seeds, n=n, steps=steps)
        if has_mariokart():
            for n in (10,) if few else (2, 10):
                yield from self._cells("mariokart", (*SYMMETRIC, *SOLVED), seeds, n=n, steps=steps)
        yield from self._cells(
            "asymmetric",
            (*SYMMETRIC, *SOLVED),
            scale.seeds(smoke=2, cpu=10, paper=10),
            n=2,
            steps=scale.pick(smoke=400, cpu=1500, paper=2000),
        )
        yield from self._smoothed(scale)

    def _cells(
        self, dataset: str, arms: Iterable[str], seeds: Iterable[int], **params: Any
    ) -> Iterator[Trial]:
        for arm in arms:
            for seed in seeds:
                yield self.trial(dataset, arm, seed, **params)

    def _smoothed(self, scale: Scale) -> Iterator[Trial]:
        steps = scale.pick(smoke=60, cpu=500, paper=2000)
        samples = scale.pick(smoke=300, cpu=1000, paper=10_000)
        for n in scale.pick(smoke=(10,), cpu=(10,), paper=(2, 5, 10)):
            for temperature in TEMPERATURES:
                # the paper's ablation adds Newton's switch at temperature .02
                ablation = ("sm-abr",) if temperature == 0.02 and scale.name != "smoke" else ()
                yield from self._cells(
                    "first-price",
                    ("sm", *ablation),
                    scale.seeds(smoke=2, cpu=10, paper=10),
                    n=n,
                    steps=steps,
                    temperature=temperature,
                    samples=samples,
                )

    def _trials_on_source(self, scale: Scale) -> Iterator[Trial]:
        steps = scale.pick(smoke=300, cpu=2000, paper=2000)
        seeds = scale.seeds(smoke=2, cpu=8, paper=10)
        arms = [a for a in self.arms if a not in ("abr-sgd", "ug-adam", "sm-abr")]
        yield from self._cells(self.source.name, arms, seeds, n=self.bidders, steps=steps)

    # ----------------------------------------------------------------------------------- one cell

    def run(self, trial: Trial) -> Metrics:
        """One arm and seed: its error, what is left to gain, seconds, and the way there."""
        return next(iter(self.run_many([trial])))

    def group(self, trial: Trial):
        """Seeds of one arm and auction are trained together."""
        return trial.dataset, trial.arm, trial.params

    def run_many(self, trials: Sequence[Trial]) -> Iterator[Metrics]:
        """All seeds at once where the arm learns; a seed's numbers do not depend on the others."""
        first = trials[0]
        game = self._game(first)
        if first.arm in SOLVED:
            yield from (self._solve(game, trial) for trial in trials)
        else:
            yield from self._train(game, trials)

    def _game(self, trial: Trial) -> Game:
        n = trial["n"]
        if self.source is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # `on` has told
                return make_game(self.format, self._prior(), n, self.risk_aversion)
        if trial.dataset == "asymmetric":
            return make_game("first_price", ["uniform:0,0.5", "uniform:0,1"], 1)
        if trial.dataset == "mariokart":
            return make_game("first_price", _mariokart(), n)
        mechanism = "second_price" if trial.dataset == "second-price" else "first_price"
        prior = "beta:2,5" if trial.dataset == "beta" else "uniform:0,1"
        return make_game(mechanism, prior, n, 0.5 if trial.dataset == "risk-averse" else 1.0)

    def _prior(self) -> Empirical:
        path = self.source.path
        return _user_prior(str(path), path.stat().st_mtime_ns, self.column)

    def _settings(self, trial: Trial) -> Settings:
        names = dict(trial.params)
        settings = replace(LEARNED[trial.arm], steps=trial["steps"])
        if trial.arm in ("sm", "sm-abr"):
            samples = names.get("samples", 300)
            temperature = names.get("temperature", 0.02)
            settings = replace(settings, temperature=temperature, market_samples=samples)
        averse = self.risk_aversion < 1 or trial.dataset == "risk-averse"
        if averse and trial.arm == "abr-published":
            settings = replace(settings, first_cond=0.05)  # as the authors' script has it
        if trial.dataset == "asymmetric" and settings.gradient == "quadrature":
            settings = replace(settings, bandwidth=0.01)
        if self.format == "all_pay" and settings.gradient == "exact":
            settings = replace(
                PUBLISHED, method=settings.method, bandwidth="auto", steps=settings.steps
            )
        return settings

    def _train(self, game: Game, trials: Sequence[Trial]) -> Iterator[Metrics]:
        settings = self._settings(trials[0])
        unit, _, scale = game.unit()
        exact = closed_form(unit)
        values, _ = quantile_nodes(unit, settings.nodes)
        reference = np.stack([f(v) for f, v in zip(exact, values, strict=True)])
        start = time.perf_counter()
        done = learn(
            unit,
            settings,
            [t.rng("weights") for t in trials],
            reference=reference,
            record_every=EVERY,
        )
        seconds = (time.perf_counter() - start) / len(trials)
        for k, trial in enumerate(trials):
            errors = np.sqrt((done.l2[k] ** 2).mean(axis=0))
            metrics: dict[str, Any] = {
                "error": errors[-1],
                "steps_to": steps_until(errors, REACHED) * EVERY,
                "errors": errors,
                "newton": done.newton[k],
                "fit_seconds": seconds,
                "gain": quick_gaps(game, tabulated(game, done, k), GAIN_GRID)["exploitability"]
                / scale,
            }
            for t, own in enumerate(done.l2[k]):
                metrics[f"error_type_{t}"] = own[-1]
            if trial.seed == 0:
                metrics |= {"values": values, "bids": done.bids[k], "equilibrium": reference}
            yield metrics

    def _solve(self, game: Game, trial: Trial) -> Metrics:
        exact = closed_form(game)
        _, _, scale = game.unit()
        start = time.perf_counter()
        found = closed_form(game) if trial.arm == "formula" else fictitious_play(game)
        seconds = time.perf_counter() - start
        return {
            "error": _distance(game, found, exact) / scale,
            "gain": quick_gaps(game, found, GAIN_GRID)["exploitability"] / scale,
            "fit_seconds": seconds,
        }

    # ------------------------------------------------------------------------- a person's values

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        column: Annotated[str | None, "column of values; default: the first numeric one"] = None,
        bidders: Annotated[int, "how many bid"] = 5,
        format: Annotated[
            Literal["first_price", "second_price", "all_pay"], "the auction's format"
        ] = "first_price",
        risk_aversion: Annotated[float, "exponent of utility, in (0, 1]; 1: risk neutral"] = 1.0,
    ) -> ApproximateBestResponse:
        """The same arms on a prior made from your column of values (currency units)."""
        made = cls(column, bidders, format, risk_aversion)
        made.source = source
        game = make_game(format, made._prior(), bidders, risk_aversion)  # refuses at once
        if game.top <= 0:
            raise InputError(f"{source.path}: all values are zero")
        return made

    # ----------------------------------------------------------------------------------- pictures

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """What the results hold, drawn."""
        if self.source is not None:
            made = {
                "Your auction: error while learning": _error_figure(results, self.source.name),
                "Your auction: bids": _bid_figure(results, self.source.name),
            }
        else:
            made = {
                "First price: error while learning": _error_figure(results, "first-price"),
                "Second price: error while learning": _error_figure(results, "second-price"),
                "Steps to twice the kernel's bias": _steps_figure(results),
                "Why: conditioning": _condition_figure(),
                "The error that is left": _floor_figure(results),
                "A weak and a strong bidder": _bid_figure(results, "asymmetric"),
                "eBay prices as values": _bid_figure(results, "mariokart"),
                "Share of Newton steps, as published": _newton_figure(results),
            }
            if not len(results):
                made.pop("Why: conditioning")
        return {title: figure for title, figure in made.items() if figure is not None}

    claims: ClassVar = {
        "C1": lambda results: _faster_first(results),
        "C2": lambda results: _faster_second(results),
        "C3": lambda results: _rate_independent_of_n(results),
        "C4": lambda results: _risk_averse(results),
        "C5": lambda results: _asymmetric(results),
        "C6": lambda results: _other_priors(results),
        "C7": lambda results: _beats_smoothing(results),
        "C8": lambda results: _no_kernel_bias(results),
    }


# ------------------------------------------------------------------------------------ data


@lru_cache(maxsize=1)
def _mariokart() -> Empirical:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # prices end in .00 and .99: ties are known
        return Empirical(mariokart_prices())


@lru_cache(maxsize=4)
def _user_prior(path: str, changed: int, column: str | None) -> Empirical:
    del changed  # only makes the key
    return prior_from_file(path, read_samples(path, column)[""])


def steps_until(errors: np.ndarray, threshold: float) -> float:
    """Records until the error stays at or below a threshold; the number of records if it does not.

    Parameters
    ----------
    errors : array, shape (records,)
    threshold : float

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> steps_until(np.array([0.5, 0.1, 0.3, 0.1, 0.1]), 0.2)
    3.0
    """
    above = np.flatnonzero(~(errors <= threshold))
    return float(above[-1] + 1) if len(above) else 0.0


def _distance(game: Game, found: list[BidFunction], exact: list[BidFunction]) -> float:
    """Root mean squared distance of bids over values, all types alike."""
    shares = (np.arange(512) + 0.5) / 512
    squares = []
    for prior, own, best in zip(game.priors, found, exact, strict=True):
        v = prior.ppf(shares)
        squares.append(np.mean((own(v) - best(v)) ** 2))
    return float(np.sqrt(np.mean(squares)))


# ------------------------------------------------------------------------------------ claims


def _error_at(results: Results, arm: str, share: float, **where: Any) -> dict[int, float]:
    """seed -> error after this share of the steps."""
    found = {}
    for o in results.where(arm=arm, **where).outcomes:
        if "errors" in o.curves:
            errors = o.curves["errors"]
            found[o.trial.seed] = float(errors[round(share * (len(errors) - 1))])
    return found


def _log_ratio(
    results: Results, top: str, bottom: str, share: float = 1.0, **where: Any
) -> np.ndarray:
    """log(error of ``top`` / error of ``bottom``), one number a seed that both have finished."""
    a, b = (_error_at(results, arm, share, **where) for arm in (top, bottom))
    both = sorted(set(a) & set(b))
    return np.array([np.log(a[s] / b[s]) for s in both])


def _ratio_words(results: Results, top: str, bottom: str, share: float, **where: Any) -> str:
    logs = _log_ratio(results, top, bottom, share, **where)
    return f"{np.exp(logs.mean()):.3g}" if len(logs) else "not run"


def _ratio(logs: Sequence[float] | np.ndarray, what: str, least: float) -> Verdict:
    """A geometric mean over seeds is at least ``least`` (1: more than 1), judged on logarithms."""
    logs = np.asarray(logs, dtype=float)
    if least == 1:
        verdict = greater_than(logs, np.zeros(len(logs)))
        threshold = "more than 1"
    else:
        verdict, threshold = at_least(logs, np.log(least)), f"at least {least:g}"
    return _as_ratio(verdict, what, threshold)


def _as_ratio(verdict: Verdict, what: str, threshold: str) -> Verdict:
    """The verdict on a mean of logarithms in terms of the ratio itself."""
    interval = verdict.interval
    interval = replace(interval, low=np.exp(interval.low), high=np.exp(interval.high))
    estimate = float(np.exp(verdict.estimate))
    more = f"; about {verdict.seeds_needed:,} seeds would decide it" if verdict.seeds_needed else ""
    sentence = (
        f"{what} is {number(estimate)} {interval} (geometric mean over {verdict.n} seeds; asked: "
        f"{threshold}{more})."
    )
    return replace(
        verdict, sentence=sentence, estimate=estimate, interval=interval, threshold=threshold
    )


def _faster(results: Results, least: float, share: float, label: str, **where: Any) -> Verdict:
    """Error of the utility gradient over that of the published best response gradient."""
    logs = _log_ratio(results, "ug", "abr-published", share, **where)
    if not len(logs):
        return needs_more(f"{label}: not run.")
    verdict = _ratio(logs, f"{label}, the utility gradient's error over the published aBR's", least)
    ours = _ratio_words(results, "ug", "abr", share, **where)
    return replace(verdict, sentence=f"{verdict.sentence} Over ours it is {ours}.")


def _faster_first(results: Results) -> Verdict:
    label = "n=10, half of the steps"
    lead = _faster(results, FASTER_FIRST, 0.5, label, dataset="first-price", n=10)
    two = _ratio_words(results, "ug", "abr-published", 0.5, dataset="first-price", n=2)
    exact = results.values("fit_seconds", dataset="first-price", arm="formula")
    formula = (
        f" The closed form is exact and takes {1e3 * exact.mean():.2g} ms." if len(exact) else ""
    )
    return replace(
        lead, sentence=f"{lead.sentence} With two bidders {two}: no advantage there.{formula}"
    )


def _faster_second(results: Results) -> Verdict:
    label = "n=10, all steps"
    return _faster(results, FASTER_SECOND, 1.0, label, dataset="second-price", n=10)


def _growth(results: Results, arm: str, skip: int = 0) -> tuple[np.ndarray, int, int]:
    """log(steps at the most bidders / steps at the fewest) by seed, and the two numbers."""
    part = results.where(dataset="first-price", arm=arm)
    values = part.values("steps_to")
    if values.empty:
        return np.array([]), 0, 0
    table = part.frame.pivot_table(index="seed", columns="n", values="steps_to")
    ns = sorted(table.columns)[skip:]
    few, many = (int(ns[0]), int(ns[-1])) if ns else (0, 0)
    if few == many:
        return np.array([]), few, many
    table = table[[few, many]].dropna()
    return np.log(table[many] / table[few]).to_numpy(), few, many


def _rate_independent_of_n(results: Results) -> Verdict:
    ours, few, many = _growth(results, "abr-sgd")
    published, *_ = _growth(results, "abr-published")
    plain, *_ = _growth(results, "ug")
    if not (len(ours) and len(published) and len(plain)):
        return needs_more("Steps for few and for many bidders: not run.")
    span = np.log(many / few)
    # two bidders are slow for ours, too (the joint dynamics swing): without them
    rest, third, _ = _growth(results, "abr-sgd", skip=1)
    adam, *_ = _growth(results, "abr")
    more = [
        f"ours from {third} to {many}: {np.exp(rest.mean()):.3g}" if len(rest) else "",
        f"ours with Adam: {np.exp(adam.mean()):.3g}" if len(adam) else "",
    ]
    parts = (
        _at_most_double(ours, "with Newton's step everywhere (ours, plain steps), the growth"),
        _at_most_double(published, "as published (warm-up and switch), the growth"),
        at_least(plain / span, 1.0, "the utility gradient's power of n (a lower bound where it "
                 "does not get there)"),
        _conditioning(),
    )  # fmt: skip
    return all_of(
        *parts,
        sentence=f"Steps until the error stays below {REACHED:g}, from {few} to {many} bidders "
        f"({'; '.join(filter(None, more)) or 'two settings only'}):",
    )


def _at_most_double(logs: np.ndarray, what: str) -> Verdict:
    return _as_ratio(at_most(logs, np.log(2)), what, "at most 2")


def _conditioning() -> Verdict:
    """4 n^2 + 2 before, 19.28 after dividing by the curvature."""
    wrong = 0
    for n in (5, 10, 20, 50):
        wrong += abs(utility_condition_number(n)[0] - (4 * n * n + 2)) > 1
        wrong += abs(utility_condition_number(n, preconditioned=True)[0] - 19.28) > 0.01
    return never(wrong, 8, "condition numbers 4n²+2, and 19.28 for every n after preconditioning")


def _risk_averse(results: Results) -> Verdict:
    return _faster(results, 1.0, 1.0, "rho=0.5, n=10", dataset="risk-averse", n=10)


def _asymmetric(results: Results) -> Verdict:
    parts = []
    for t, who in ((1, "strong"), (0, "weak")):
        values = results.values(f"error_type_{t}", dataset="asymmetric", arm="abr-published")
        if values.empty:
            return needs_more("The asymmetric pair: not run.")
        parts.append(at_most(values, ASYMMETRIC, f"the {who} bidder's error, as published,"))
    ours = results.values("error", dataset="asymmetric", arm="abr")
    plain = results.values("error", dataset="asymmetric", arm="ug")
    words = [f"{x.mean():.3g}" if len(x) else "not run" for x in (ours, plain)]
    return all_of(
        *parts,
        sentence=f"Both types: error {words[0]} for ours, {words[1]} for the utility gradient (no "
        "advantage at two bidders; shooting solves this pair to 1e-5).",
    )


def _other_priors(results: Results) -> Verdict:
    parts = [
        _faster(results, 1.0, 1.0, f"{label}, n=10", dataset=dataset, n=10)
        for dataset, label in (("beta", "Beta(2,5)"), ("mariokart", "eBay prices"))
        if results.has(dataset=dataset, n=10)
    ]
    return all_of(*parts) if parts else needs_more("Non-uniform priors: not run.")


def _beats_smoothing(results: Results) -> Verdict:
    part = results.where(dataset="first-price", n=10)
    smoothed = {
        t: _error_at(part, "sm", 1.0, temperature=t)
        for t in TEMPERATURES
        if part.has(temperature=t)
    }
    smoothed = {t: e for t, e in smoothed.items() if e}
    if not smoothed:
        return needs_more("The smoothed market: not run.")
    best = min(smoothed, key=lambda t: np.mean(list(smoothed[t].values())))
    frame = part.where(arm="sm", temperature=best).frame
    steps, seconds = int(frame["steps"].max()), float(frame["fit_seconds"].mean())
    parts = []
    for arm, budget, label in (
        ("ug", steps, "the analytic utility gradient's, same steps,"),
        ("abr-published", steps, "the published aBR's, same steps,"),
        ("ug", _steps_in(part, "ug", seconds), "the analytic utility gradient's, same time,"),
    ):
        own = _error_at(part, arm, min(1.0, budget / max(1, _steps(part, arm))))
        both = sorted(set(own) & set(smoothed[best]))
        if both:
            logs = [np.log(smoothed[best][s] / own[s]) for s in both]
            parts.append(_ratio(logs, f"the smoothed market's error over {label}", 1.0))
    if not parts:
        return needs_more("The analytic gradients beside the smoothed market: not run.")
    return all_of(
        *parts,
        sentence=f"The smoothed market at its best temperature, {best:g} (chosen on the error, in "
        f"its favour), {steps} steps in {seconds:.3g} s:",
    )


def _steps_in(part: Results, arm: str, seconds: float) -> float:
    """How many steps this arm takes in so many seconds."""
    own = part.where(arm=arm).frame
    return seconds / float((own["fit_seconds"] / own["steps"]).mean()) if len(own) else 0.0


def _steps(part: Results, arm: str) -> int:
    own = part.where(arm=arm)
    return int(own.frame["steps"].max()) if len(own) else 0


def _no_kernel_bias(results: Results) -> Verdict:
    part = results.where(dataset="first-price")
    parts = []
    for n in sorted(part.where(arm="abr").frame["n"].unique()) if part.has(arm="abr") else ():
        values = part.values("error", arm="abr", n=n)
        parts.append(at_most(values, NARROW_FLOOR, f"n={n}: the error left"))
    if not parts:
        return needs_more("The best response gradient on the exact market: not run.")
    return all_of(*parts)


# ------------------------------------------------------------------------------------ figures

HUES = colours(ApproximateBestResponse.arms)
NAMES = {
    "abr": "aBR (ours)",
    "ug": "utility gradient",
    "sm": "smoothed market",
    "abr-published": "aBR as published",
    "abr-sgd": "ours, plain steps",
    "ug-adam": "ours, preconditioner off",
    "sm-abr": "smoothed market + Newton",
    "formula": "closed form",
    "fictitious": "fictitious play",
}
DRAWN = ("abr", "abr-published", "ug", "ug-adam", "sm")


def _error_figure(results: Results, dataset: str) -> go.Figure | None:
    from plotly.subplots import make_subplots

    part = results.where(dataset=dataset, arm=list(DRAWN))
    if not len(part):
        return None
    ns = sorted(part.frame["n"].unique())
    figure = make_subplots(1, len(ns), subplot_titles=[f"n = {n}" for n in ns], shared_yaxes=True)
    style(
        figure,
        "Root mean squared distance to the equilibrium bids (share of the value range; geometric "
        f"mean over seeds with its 95 % band). Dotted: the kernel's bias, {FLOOR:g}, at bandwidth "
        "0.05." + (" The smoothed market at its best temperature." if part.has(arm="sm") else ""),
    )
    figure.update_layout(margin={"t": 90}, legend={"y": 1.12})
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="error", col=1)
    _decades(figure)
    shown: set[str] = set()
    for column, n in enumerate(ns, start=1):
        for arm in DRAWN:
            curves = _curves(part.where(n=n, arm=arm))
            if not len(curves):
                continue
            _add_log_ribbon(figure, curves, arm, column, arm not in shown)
            shown.add(arm)
        figure.add_hline(y=FLOOR, line={"dash": "dot", "color": "#7F7F7F", "width": 1}, col=column)
    return figure


def _decades(figure: go.Figure) -> None:
    ticks = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])


def _curves(part: Results) -> np.ndarray:
    """Errors of one arm, every record; of several temperatures the best."""
    if part.has() and "temperature" in part.frame:
        means = part.frame.groupby("temperature")["error"].mean()
        if len(means):
            part = part.where(temperature=float(means.idxmin()))
    return part.curves("errors")


def _add_log_ribbon(
    figure: go.Figure, curves: np.ndarray, arm: str, column: int, legend: bool
) -> None:
    every = max(1, curves.shape[1] // 100)
    steps = np.arange(0, curves.shape[1], every)
    before = len(figure.data)
    add_ribbon(
        figure,
        steps * EVERY,
        np.log(np.maximum(curves[:, steps], 1e-6)),
        NAMES[arm],
        HUES[arm],
        where={"row": 1, "col": column},
        showlegend=legend,
    )
    for trace in figure.data[before:]:
        trace.y = np.exp(np.asarray(trace.y))


def _steps_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="first-price")
    arms = [a for a in ("abr-sgd", "abr-published", "ug") if len(part.values("steps_to", arm=a))]
    if not arms:
        return None
    figure = new_figure(
        f"Steps until the error stays below {REACHED:g} (plain steps of 0.05 for all three; mean "
        "over seeds, bars from least to most). A cross: some seed never got there, and counts as "
        "the last step.",
        x="bidders n",
        y="steps",
        log_x=True,
        log_y=True,
    )
    for arm in arms:
        own = part.where(arm=arm)
        table = own.frame.groupby("n")["steps_to"].agg(["mean", "min", "max"])
        limit = own.frame.groupby("n")["steps"].max()
        figure.add_scatter(
            x=table.index,
            y=table["mean"],
            name=NAMES[arm],
            mode="lines+markers",
            line={"color": HUES[arm]},
            marker={
                "size": 10,
                "symbol": ["x" if m > s else "circle" for m, s in zip(table["max"], limit)],
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": table["max"] - table["mean"],
                "arrayminus": table["mean"] - table["min"],
            },
        )
    ns = sorted(part.frame["n"].unique())
    figure.update_xaxes(tickvals=ns, ticktext=[str(n) for n in ns])
    ticks = [20, 50, 100, 200, 500, 1000, 2000]
    figure.update_yaxes(tickvals=ticks, ticktext=[f"{t:,}" for t in ticks])
    return figure


def _condition_figure() -> go.Figure:
    ns = np.array([2, 3, 5, 10, 20, 50])
    figure = new_figure(
        "Condition number of the expected utility in slope and intercept of a linear bid function "
        "(uniform first price, at the equilibrium). Dividing by the curvature removes n.",
        x="bidders n",
        y="condition number",
        log_x=True,
        log_y=True,
    )
    for name, divided, colour in (
        ("utility", False, HUES["ug"]),
        ("best response distance", True, HUES["abr"]),
    ):
        figure.add_scatter(
            x=ns,
            y=[utility_condition_number(int(n), preconditioned=divided)[0] for n in ns],
            name=name,
            mode="lines+markers",
            line={"color": colour},
        )
    figure.update_xaxes(tickvals=ns, ticktext=[str(n) for n in ns])
    figure.update_yaxes(dtick=1)
    return figure


def _floor_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="first-price")
    arms = [
        a for a in ("abr", "abr-published", "ug", "ug-adam", "fictitious")
        if len(part.values("error", arm=a))
    ]  # fmt: skip
    if not arms:
        return None
    figure = new_figure(
        "Error after the last step over the number of bidders, every seed a dot. Dotted: the "
        "kernel's bias at bandwidth 0.05 and 0.02. The closed form is exact and not shown.",
        x="bidders n",
        y="error (share of the value range)",
        log_x=True,
        log_y=True,
    )
    for k, arm in enumerate(arms):
        frame = part.where(arm=arm).frame
        figure.add_scatter(
            x=frame["n"] * 1.03 ** (k - len(arms) / 2),  # side by side
            y=frame["error"],
            name=NAMES[arm],
            mode="markers",
            marker={"color": HUES[arm], "size": 7, "opacity": 0.7},
        )
    for y in (FLOOR, NARROW_FLOOR):
        figure.add_hline(y=y, line={"dash": "dot", "color": "#7F7F7F", "width": 1})
    ns = sorted(part.frame["n"].unique())
    figure.update_xaxes(tickvals=ns, ticktext=[str(n) for n in ns])
    _decades(figure)
    return figure


def _bid_figure(results: Results, dataset: str) -> go.Figure | None:
    part = results.where(dataset=dataset, seed=0)
    if not len(part):
        return None
    ns = sorted(part.frame["n"].unique())
    part = part.where(n=ns[-1])
    drawn = [o for o in part.outcomes if "bids" in o.curves and o.trial.arm in DRAWN]
    if not drawn:
        return None
    figure = new_figure(
        f"Learned bids (seed 0, {ns[-1]} bidders, values and bids rescaled to [0, 1]) and the "
        "closed form, dashed."
        + (" Prices stand in for values: they are not values." if dataset == "mariokart" else ""),
        x="value",
        y="bid",
    )
    for outcome in drawn:
        arm = outcome.trial.arm
        for t, (v, b) in enumerate(zip(outcome.curves["values"], outcome.curves["bids"])):
            figure.add_scatter(
                x=v,
                y=b,
                mode="lines",
                name=NAMES[arm],
                legendgroup=arm,
                showlegend=t == 0,
                line={"color": HUES[arm], "width": 2},
            )
    first = drawn[0].curves
    for t, (v, b) in enumerate(zip(first["values"], first["equilibrium"])):
        figure.add_scatter(
            x=v,
            y=b,
            mode="lines",
            name="closed form",
            showlegend=t == 0,
            line={"color": "#7F7F7F", "dash": "dash", "width": 2},
        )
    return figure


def _newton_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="first-price", arm="abr-published")
    if not len(part):
        return None
    figure = new_figure(
        "Share of values whose step is Newton's under the published rule (after 200 steps, where "
        "u'' < 0 and |u'| < 0.01), mean over seeds with its 95 % band. Ours takes it everywhere.",
        x="step",
        y="share of Newton steps",
    )
    hues = colours([f"n = {n}" for n in sorted(part.frame["n"].unique())])
    for n in sorted(part.frame["n"].unique()):
        curves = part.curves("newton", n=n)
        steps = np.arange(0, curves.shape[1], max(1, curves.shape[1] // 100))
        name = f"n = {n}"
        add_ribbon(figure, steps * EVERY, curves[:, steps], name, hues[name])
    figure.update_yaxes(range=[0, 1.05])
    return figure
