"""The study of OptFPRL: six scenarios, the bounds, forecasts of every quality, the limits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from practicum.data.streams import (
    SOURCES,
    RecordedStream,
    is_available,
    read_stream,
    relatives_of,
)
from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.arms import (
    Facts,
    run_arm,
    split_stream,
    told_hints,
    working_on,
)
from practicum.optimize.optimistic_ftrl.domains import Ball, Domain, parse_domain
from practicum.optimize.optimistic_ftrl.experiments import (
    DIM,
    FLIPS,
    LOADS,
    RADIUS,
    SCENARIOS,
    STILL,
    as_published,
    by_segment,
    demand,
    in_a_disc,
    nominal_facts,
    on_perfect_hints,
    on_random_problems,
    on_still_stream,
    scenario_costs,
    scenario_hints,
    told,
)
from practicum.optimize.optimistic_ftrl.hints import as_predictor
from practicum.optimize.optimistic_ftrl.losses import (
    WITHOUT_TARGET,
    LinearCosts,
    Losses,
    stream_of,
)
from practicum.optimize.optimistic_ftrl.oco import OCOResult
from practicum.optimize.optimistic_ftrl.problems import switching_costs
from practicum.study import (
    Arm,
    Measure,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    greater_than,
    less_than,
    needs_more,
    never,
)
from practicum.study.evidence import number
from practicum.study.plots import add_ribbon, colours, new_figure, style

JITTER = 0.2  # of the switches' times
OPTFPRL = ("recursive", "et", "observed-path")
LAZY, STEPS = ("ftrl", "adaftrl"), ("ogd", "ogd-tuned")
ORACLES = ("known-path", "official-code")
SCENARIO_ARMS = (*OPTFPRL, *ORACLES, *LAZY, *STEPS, "optogd", "ader", "greedy", "centre")
TERM_ARMS = ("recursive", "et", "adaftrl", "ftrl")
BOUND_ARMS = ("recursive", "et", "known-path")
NOISE_ARMS = ("recursive", "et", "ftrl", "ogd", "optogd", "greedy")
NOISE = (0.0, 0.1, 0.3, 1.0, 3.0)
LOAD_ARMS = (*(a for a in SCENARIO_ARMS if "path" not in a), "shuffled")
LOAD_HINTS = ("none", "last", "day", "week", "adversarial")
STILL_ARMS = (*OPTFPRL, *LAZY, *STEPS, "ader", "hedge", "centre")
N_POINTS = 200  # of a stored curve


# --- running -------------------------------------------------------------------------------------


def _scenario_batch(trials: Sequence[Trial]) -> tuple[np.ndarray, np.ndarray, Domain, Facts]:
    first = trials[0]
    k, fraction = int(first.dataset.split()[1]), first["fraction"]
    costs = np.stack([scenario_costs(k, fraction, t["jitter"], t.rng()) for t in trials], axis=1)
    if first.arm == "official-code":
        costs = as_published(costs)
    return costs, scenario_hints(k, costs), Ball(RADIUS, DIM), nominal_facts(k, fraction)


def _noise_batch(trials: Sequence[Trial]) -> tuple[np.ndarray, np.ndarray, Domain, Facts]:
    T = trials[0]["rounds"]
    costs = switching_costs(FLIPS * (T // 100), DIM)
    noise = np.stack([t.rng().standard_normal((T, DIM)) for t in trials], axis=1)
    costs = np.repeat(costs[:, None], len(trials), axis=1)
    return costs, costs + trials[0]["tau"] * noise, Ball(RADIUS, DIM), Facts(T)


def _load_batch(trials: Sequence[Trial]) -> tuple[np.ndarray, np.ndarray, Domain, Facts]:
    """One parallel run for every kind of hint."""
    first = trials[0]
    task = demand(first.dataset)
    T = task.week * first["weeks"] or len(task.costs)
    hints = [task.hints(t["hints"])[:T] for t in trials]
    if first.arm == "shuffled":
        hints = [t.rng().permutation(h) for t, h in zip(trials, hints, strict=True)]
    costs = task.costs[:T]
    path = float(np.abs(np.diff(np.sign(costs[:, 0]))).sum())
    facts = Facts(T, float(np.abs(costs).max()), path)
    return (
        np.repeat(costs[:, None], len(trials), axis=1),
        np.stack(hints, axis=1),
        Ball(1.0, 1),
        facts,
    )


def _thinned(curve: np.ndarray) -> np.ndarray:
    keep = np.linspace(0, len(curve) - 1, min(N_POINTS, len(curve))).astype(int)
    return curve[keep]


def _metrics_of_batch(done: OCOResult, first: Trial) -> Iterator[Mapping[str, Any]]:
    T = done.n_rounds
    u = done.against("best_fixed")
    average = _thinned(done.regret / np.arange(1, T + 1)[:, None])
    with_terms = first.dataset.startswith("scenario") and first.arm in TERM_ARMS
    terms = {k: v / T for k, v in done.terms().items()} if with_terms else {}
    excess = done.losses - done.comparator.losses
    by_half_week = None
    if first.dataset in LOADS:
        by_half_week = by_segment(excess, 7 * LOADS[first.dataset] // 2)
    for i in range(done.losses.shape[1]):
        made = {
            "avg_regret": float(done.average_regret[i]),
            "fixed_regret": float(u.average_regret[i]),
            "loss": float(np.ascontiguousarray(done.losses[:, i]).mean()),
            "average_regret_curve": average[:, i],
        }
        made |= {f"term_{name}": float(value[i]) for name, value in terms.items()}
        if by_half_week is not None:
            made["segment_regret"] = by_half_week[:, i]
        yield made


@lru_cache(maxsize=4)
def _user_stream(
    path: Path,
    fingerprint: str,
    loss: str,
    target: str | None,
    columns: tuple[str, ...],
    time: str | None,
    q: float,
) -> tuple[RecordedStream, Losses]:
    """The file with one row a round of the losses, and the losses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, when the study was made
        recorded = read_stream(
            path,
            with_target=loss not in WITHOUT_TARGET,
            target=target,
            timestamp=time,
            columns=columns,
        )
    rows = relatives_of(recorded) if loss == "prices" else recorded
    return rows, stream_of(recorded, loss, q)


def _own_arms(asked: Sequence[str], domain: Domain, known: Iterable[str]) -> tuple[str, ...]:
    """What is run on a person's stream, the method first."""
    known = list(known)
    if unknown := [arm for arm in asked if arm not in known]:
        raise InputError(f"there are no arms {', '.join(unknown)}", f"use {', '.join(known)}")
    wanted = [a for a in known if (a in asked or a == "recursive" if asked else a not in ORACLES)]
    able = working_on(wanted, domain)
    if left := [arm for arm in asked if arm not in able]:
        raise InputError(f"{', '.join(left)} cannot work on {domain!r}", "leave it out of arms")
    return tuple(able)


def _shuffled(done: OCOResult, trial: Trial) -> np.ndarray:
    """The hints of a run in another order."""
    return trial.rng("shuffle").permutation(done.hints)


# --- claims --------------------------------------------------------------------------------------


def exact(value: float, holds: bool, sentence: str, threshold: str) -> Verdict:
    """The verdict of a number in which nothing is random."""
    status = "reproduced" if holds else "not reproduced"
    return Verdict(status, sentence, value, None, threshold, 1)


def _as_published_numbers(r: Results, k: int) -> dict[str, float]:
    """Average regret of every arm in a scenario exactly as published (no jitter)."""
    part = r.where(dataset=f"scenario {k}", jitter=0.0).frame
    return {} if part.empty else dict(zip(part["arm"], part["avg_regret"], strict=True))


def _ratio(r: Results, k: int, a: str, b: str) -> np.ndarray:
    first, second = r.paired("avg_regret", a, b, dataset=f"scenario {k}", jitter=JITTER)
    return (first / second).to_numpy()


def _lacking(x: Mapping[str, float], *arms: str) -> bool:
    return any(a not in x for a in arms)


def _rivals(x: Mapping[str, float]) -> str:
    """What the paper does not compare with, said beside every claim about the scenarios."""
    known = {
        "ader": "Ader, told horizon and scale",
        "ogd-tuned": "OGD with its best step in hindsight",
        "greedy": "acting greedily on the hint or the last cost",
    }
    shown = ", ".join(f"{words} {x[arm]:.4f}" for arm, words in known.items() if arm in x)
    return f" Not in the paper: {shown}." if shown else ""


NOT_RUN = "The scenario has not been run with every arm that is needed."


def claim_stuck(r: Results) -> Verdict:
    """C1: at most half of OGD's regret, and FTRL's at least ten times OptFPRL's."""
    x = _as_published_numbers(r, 1)
    if _lacking(x, "et", "ogd", "ftrl", "recursive", "official-code"):
        return needs_more(NOT_RUN)
    words = (
        f"As published: FTRL {x['ftrl']:.4f}, OGD {x['ogd']:.4f}, OptFPRL {x['et']:.4f} by the "
        f"paper's rule, {x['recursive']:.4f} by the recursive rule, {x['official-code']:.4f} as "
        "the published program computes it." + _rivals(x)
    )
    holds = x["et"] <= 0.5 * x["ogd"] and x["ftrl"] >= 10 * x["et"]
    return all_of(
        exact(x["et"], holds, words, "at most half of OGD's, a tenth of FTRL's"),
        at_most(_ratio(r, 1, "et", "ogd"), 0.5, "with moved switches, OptFPRL's regret over OGD's"),
        at_least(_ratio(r, 1, "ftrl", "et"), 10, "and FTRL's over OptFPRL's"),
    )


def claim_switches(r: Results) -> Verdict:
    """C2: OptFPRL < OGD < FTRL in scenarios 2, 3 and 4."""
    parts = []
    for k in (2, 3, 4):
        x = _as_published_numbers(r, k)
        if _lacking(x, "et", "ogd", "ftrl", "recursive"):
            return needs_more(NOT_RUN)
        words = (
            f"Scenario {k}: OptFPRL {x['et']:.4f} (recursive {x['recursive']:.4f}), "
            f"OGD {x['ogd']:.4f}, FTRL {x['ftrl']:.4f}.{_rivals(x)}"
        )
        parts.append(exact(x["et"], x["et"] < x["ogd"] < x["ftrl"], words, "OptFPRL < OGD < FTRL"))
        for a, b in (("et", "ogd"), ("ogd", "ftrl")):
            pair = r.paired("avg_regret", a, b, dataset=f"scenario {k}", jitter=JITTER)
            parts.append(less_than(*pair, what=f"with moved switches, {b} minus {a}"))
    return all_of(*parts)


def claim_no_winner(r: Results) -> Verdict:
    """C3: by the paper's rule at least 0.95 of OGD's regret; the published program clearly more."""
    x = _as_published_numbers(r, 5)
    if _lacking(x, "et", "ogd", "recursive", "official-code"):
        return needs_more(NOT_RUN)
    words = (
        f"As published: OGD {x['ogd']:.4f}, OptFPRL {x['et']:.4f} by the paper's rule and "
        f"{x['official-code']:.4f} as the published program computes it; the recursive rule has "
        f"{x['recursive']:.4f}.{_rivals(x)}"
    )
    holds = x["et"] >= 0.95 * x["ogd"] and x["official-code"] >= 1.2 * x["ogd"]
    return all_of(
        exact(x["official-code"], holds, words, "no gain of 5 % over OGD"),
        at_least(_ratio(r, 5, "et", "ogd"), 0.95, "with moved switches, OptFPRL's over OGD's"),
    )


def claim_optimism(r: Results) -> Verdict:
    """C4: at most half the regret of optimistic OGD."""
    x = _as_published_numbers(r, 6)
    if _lacking(x, "et", "optogd", "ftrl", "recursive", "official-code"):
        return needs_more(NOT_RUN)
    words = (
        f"As published: FTRL {x['ftrl']:.4f}, optimistic OGD {x['optogd']:.4f}, OptFPRL "
        f"{x['et']:.4f} (recursive {x['recursive']:.4f}, published program "
        f"{x['official-code']:.4f}).{_rivals(x)}"
    )
    return all_of(
        exact(x["et"], x["et"] <= 0.5 * x["optogd"], words, "at most half"),
        at_most(
            _ratio(r, 6, "et", "optogd"),
            0.5,
            "with moved switches, OptFPRL's regret over optimistic OGD's",
        ),
    )


def claim_bounds(r: Results) -> Verdict:
    """C5: no violation."""
    part = r.where(dataset="random problems").frame
    if part.empty or "violations" not in part:
        return needs_more("No random problem has been run.")
    verdict = never(
        int(part["violations"].sum()), int(part["checks"].sum()), "regret above its bound"
    )
    worst = float(part["worst"].max())
    return all_of(
        verdict,
        sentence=f"The regret reaches {number(worst)} of its bound: shrunk below that it fails.",
    )


def claim_perfect(r: Results) -> Verdict:
    """C6: exactly zero."""
    part = r.where(dataset="perfect hints", arm=["recursive", "et"]).frame
    if part.empty:
        return needs_more("Perfect predictions have not been run.")
    what = "regret under perfect predictions above 1e-12 per round"
    return never(int(part["violations"].sum()), int(part["checks"].sum()), what)


def claim_noise(r: Results) -> Verdict:
    """C6b: each step up in noise costs; no noise costs nothing."""
    part = r.where(dataset="noise sweep", arm="recursive")
    taus = sorted(part.frame["tau"].unique()) if len(part) else []
    if len(taus) < 2:
        return needs_more("The noise sweep has not been run.")
    parts = []
    for low, high in pairwise(taus):
        first, second = (part.values("avg_regret", tau=tau) for tau in (high, low))
        what = f"the step in regret from noise {low:g} to {high:g}"
        parts.append(greater_than(first, second, what=what))
    return all_of(*parts)


def claim_adversarial(r: Results) -> Verdict:
    """C7: at most 1.1 times OGD's regret on every stream that is installed.

    One run over the whole stream; the interval is over half weeks, of ``a - 1.1 b`` and not of
    ``a / b``, which one in which OGD loses next to nothing would decide alone.
    """
    parts, absent = [], []
    for name in LOADS:
        a, b = (
            r.curves("segment_regret", dataset=name, hints="adversarial", arm=arm)
            for arm in ("recursive", "ogd")
        )
        if not (a.size and b.size):
            absent.append(f"{name} ({SOURCES[name][1]})")
            continue
        what = f"on {name} ({a.mean():.3f} against OGD's {b.mean():.3f}), regret minus 1.1 x OGD's"
        parts.append(at_most((a - 1.1 * b)[0], 0.0, what))
    if not parts:
        return needs_more(f"Needs a demand stream: {'; '.join(absent)}.")
    note = f"Not judged: {'; '.join(absent)}." if absent else ""
    return all_of(*parts, sentence=note)


def claim_limits(r: Results) -> Verdict:
    """C8: OGD's loss is smaller, on every stream that is installed; interval over its segments."""
    parts, absent = [], []
    for name, (source, _) in STILL.items():
        a, b = (r.curves("segment_loss", dataset=name, arm=arm) for arm in ("recursive", "ogd"))
        if not (a.size and b.size):
            absent.append(f"{name} ({SOURCES[source][1]})")
            continue
        total = r.where(dataset=name).frame.set_index("arm")["total_loss"]
        shown = ", ".join(f"{NAMES[arm]} {value:.3f}" for arm, value in total.items())
        what = f"on {name} (total losses: {shown}), OptFPRL's loss a round minus OGD's"
        parts.append(greater_than(a[0], b[0], what=what))
    if not parts:
        return needs_more(f"Needs a stream: {'; '.join(absent)}.")
    note = f"Not judged: {'; '.join(absent)}." if absent else ""
    return all_of(*parts, sentence=note)


# --- figures -------------------------------------------------------------------------------------

NAMES = {
    "recursive": "OptFPRL (recursive)",
    "et": "OptFPRL (et)",
    "observed-path": "OptFPRL (observed path)",
    "known-path": "OptFPRL (known path)",
    "official-code": "published program",
    "ftrl": "FTRL",
    "adaftrl": "AdaFTRL",
    "ogd": "OGD",
    "ogd-tuned": "OGD, best step in hindsight",
    "optogd": "optimistic OGD",
    "ader": "Ader",
    "hedge": "AdaHedge",
    "greedy": "greedy",
    "centre": "centre",
    "shuffled": "OptFPRL, shuffled hints",
}
COLOUR = colours(["recursive", "et", "ogd", "ftrl", "optogd", "ader", "adaftrl", "greedy"])
COLOUR |= {"ogd-tuned": COLOUR["ogd"], "official-code": COLOUR["et"], "hedge": COLOUR["adaftrl"]}
COLOUR |= {"observed-path": COLOUR["et"], "centre": "#7F7F7F", "shuffled": "#7F7F7F"}
COLOUR |= {"known-path": COLOUR["ftrl"]}


def _scenario_figure(results: Results) -> go.Figure | None:
    shown = ("recursive", "et", "ogd", "ftrl", "optogd", "ader", "greedy", "ogd-tuned")
    part = results.where(arm=list(shown), jitter=0.0)
    found = [k for k in SCENARIOS if part.has(dataset=f"scenario {k}")]
    if not found:
        return None
    titles = [f"scenario {k}" for k in SCENARIOS]
    figure = make_subplots(2, 3, subplot_titles=titles, vertical_spacing=0.16)
    named: set[str] = set()
    for k in found:
        where = {"row": (k - 1) // 3 + 1, "col": (k - 1) % 3 + 1}
        for arm in shown:
            curve = part.curves("average_regret_curve", dataset=f"scenario {k}", arm=arm)
            if not curve.size or (arm == "optogd" and k != 6):
                continue
            x = np.linspace(0, 1, curve.shape[1])
            add_ribbon(
                figure,
                x,
                curve,
                NAMES[arm],
                COLOUR[arm],
                dash="dot" if arm == "ogd-tuned" else None,
                where=where,
                showlegend=arm not in named,
            )
            named.add(arm)
    figure.update_xaxes(title="share of the rounds", row=2)
    figure.update_yaxes(type="log", dtick=1)
    figure.update_yaxes(title="R_t / t", col=1)
    caption = (
        "Average dynamic regret R_t/t (cost units, logarithmic) in the paper's scenarios, nothing "
        "random. FTRL rises after each switch because it must first undo its past. Rivals that "
        "the paper does not show are ahead: greedy (the best answer to the last cost), OGD with "
        "its best step in hindsight, Ader (told horizon and scale)."
    )
    return style(figure, caption, height=640).update_layout(margin_t=90)


def _disc_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="disc")
    if not len(part):
        return None
    caption = (
        "Two dimensions, unit disc, the best decision turns half round from right to left. Large "
        "marks: decisions. Lines: the unconstrained minimisers -p/sigma behind them (logarithmic "
        "radius beyond the disc). AdaFTRL's lies far outside and must come back before its "
        "decision moves; the pruned state never leaves the neighbourhood of the disc."
    )
    figure = new_figure(caption, x="x_1", y="x_2", height=520)
    t = np.linspace(0, 2 * np.pi, 200)
    figure.add_trace(
        go.Scatter(x=np.cos(t), y=np.sin(t), mode="lines", name="the set", line={"color": "#999"})
    )
    for arm in ("adaftrl", "recursive"):
        curves = [part.curves(n, arm=arm) for n in ("free_x", "free_y", "action_x", "action_y")]
        if not curves[0].size:
            continue
        fx, fy, ax, ay = (c[0] for c in curves)
        size = np.maximum(np.hypot(fx, fy), 1e-12)
        squeeze = np.where(size > 1, (1 + np.log10(np.maximum(size, 1))) / size, 1.0)
        line = {"color": COLOUR[arm], "width": 1.5}
        mark = {"color": COLOUR[arm], "size": 7, "opacity": 0.5}
        name = NAMES[arm]
        figure.add_trace(
            go.Scatter(
                x=fx * squeeze, y=fy * squeeze, mode="lines", line=line, name=f"{name}: state"
            )
        )
        figure.add_trace(
            go.Scatter(x=ax, y=ay, mode="markers", marker=mark, name=f"{name}: decisions")
        )
    figure.update_yaxes(scaleanchor="x")
    return figure


def _terms_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="scenario 2", jitter=0.0, arm=list(TERM_ARMS)).frame
    if part.empty or "term_path" not in part:
        return None
    part = part.dropna(subset=["term_path"]).set_index("arm")
    arms = [a for a in TERM_ARMS if a in part.index]
    caption = (
        "Scenario 2: what the regret of a round is made of (cost units; the parts add up to the "
        "regret, the slack is negative). Without pruning the path term, the price of a state full "
        "of the past, is the whole story."
    )
    figure = new_figure(caption, y="per round", barmode="relative")
    parts = {"errors": "prediction errors", "size": "size", "path": "path", "slack": "slack"}
    palette = colours(parts)
    for name, label in parts.items():
        figure.add_trace(
            go.Bar(
                x=[NAMES[a] for a in arms],
                y=[part.loc[a, f"term_{name}"] for a in arms],
                name=label,
                marker={"color": palette[name]},
            )
        )
    return figure


def _forecast_figure(results: Results) -> go.Figure | None:
    names = [n for n in LOADS if results.has(dataset=n)]
    if not names:
        return None
    shown = ("recursive", "et", "ftrl", "ogd", "ogd-tuned", "optogd", "greedy", "shuffled")
    figure = make_subplots(len(names), 1, subplot_titles=names, vertical_spacing=0.35 / len(names))
    named: set[str] = set()
    for row, name in enumerate(names, start=1):
        part = results.where(dataset=name)
        hints = [h for h in LOAD_HINTS if part.has(hints=h)]
        for arm in shown:
            groups = [part.curves("segment_regret", arm=arm, hints=h).ravel() for h in hints]
            if not any(len(g) for g in groups):
                continue
            figure.add_trace(_bars(hints, groups, arm, arm not in named), row=row, col=1)
            named.add(arm)
        figure.update_yaxes(title="regret a round", row=row, col=1)
    caption = (
        "Charging against real demand: regret per round against the best of each round, in "
        "standard deviations of demand, by what is predicted (none, the last value, a day ago, a "
        "week ago, the opposite of the truth). Means over half weeks with 95 % t intervals. Costs "
        "that last reward trust: greedy play and long steps win, unless the forecast is wrong."
    )
    height = 120 + 300 * len(names)
    return style(figure, caption, height=height, barmode="group").update_layout(margin_t=90)


def _bars(labels: Sequence[str], groups: Sequence[Any], arm: str, legend: bool) -> go.Bar:
    from scipy import stats

    half = [
        float(stats.t.ppf(0.975, len(g) - 1) * stats.sem(g)) if len(g) > 1 else 0.0 for g in groups
    ]
    pattern = "/" if arm in ("ogd-tuned", "et", "shuffled") else ""
    return go.Bar(
        x=list(labels),
        y=[float(g.mean()) if len(g) else None for g in groups],
        error_y={"type": "data", "array": half, "thickness": 1},
        name=NAMES[arm],
        legendgroup=arm,
        showlegend=legend,
        marker={"color": COLOUR[arm], "pattern": {"shape": pattern}},
    )


def _noise_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="noise sweep")
    taus = sorted(part.frame["tau"].unique()) if len(part) else []
    if not taus:
        return None
    caption = (
        "Scenario 4 with predictions g + tau N(0, I): average regret (cost units), mean with its "
        "95 % interval over seeds. OptFPRL falls to exactly 0 with the noise; OGD cannot listen. "
        "Greedy is ahead: over 16 equal coordinates even a noisy hint points the right way."
    )
    figure = new_figure(caption, x="noise tau", y="R_T / T")
    for arm in NOISE_ARMS:
        rows = part.where(arm=arm).frame
        if rows.empty:
            continue
        table = rows.pivot(index="seed", columns="tau", values="avg_regret").dropna()
        positions = [taus.index(tau) for tau in table.columns]
        if len(table):
            add_ribbon(figure, positions, table.to_numpy(), NAMES[arm], COLOUR[arm])
    figure.update_xaxes(tickvals=list(range(len(taus))), ticktext=[f"{t:g}" for t in taus])
    return figure


def _bounds_figure(results: Results) -> go.Figure | None:
    part = results.where(dataset="random problems")
    if not len(part):
        return None
    caption = (
        "Regret over its proved bound on random problems (share of checks; negative: the player "
        "beat the comparator; all below -0.5 drawn there). Nothing reaches 1; a bound shrunk below "
        "the largest would fail."
    )
    figure = new_figure(caption, x="regret / bound", y="share", barmode="overlay")
    for arm in BOUND_ARMS:
        ratios = part.curves("ratios", arm=arm).ravel()
        if ratios.size:
            figure.add_trace(
                go.Histogram(
                    x=np.maximum(ratios, -0.5),
                    histnorm="probability",
                    xbins={"start": -0.5, "end": 1.0, "size": 0.02},
                    name=NAMES[arm],
                    opacity=0.55,
                    marker={"color": COLOUR[arm]},
                )
            )
    figure.add_vline(x=1, line={"dash": "dash"})
    return figure


def _still_figure(results: Results) -> go.Figure | None:
    names = [n for n in STILL if results.has(dataset=n)]
    if not names:
        return None
    figure = make_subplots(1, len(names), subplot_titles=names)
    for col, name in enumerate(names, start=1):
        for arm in STILL_ARMS:
            values = results.curves("segment_regret", dataset=name, arm=arm).ravel()
            if len(values):
                bar = _bars([NAMES[arm]], [values], arm, False)
                figure.add_trace(bar, row=1, col=col)
    figure.update_yaxes(title="regret a round, best fixed action", col=1)
    caption = (
        "Streams whose best decision barely moves: regret per round against the best fixed action "
        "(log-wealth; standard deviations), mean over segments with its 95 % t interval. Agility "
        "costs here: descent, or staying uniform, is ahead of OptFPRL."
    )
    return style(figure, caption, height=460)


def _user_bars(results: Results, study: Study) -> go.Figure | None:
    if not len(results):
        return None
    hints = [h for h in study.user["hints"] if results.has(hints=h)]
    caption = (
        f"{study.user['name']}: regret per round against the best of each round, by hints; mean "
        "over contiguous blocks with its 95 % t interval."
    )
    figure = new_figure(caption, y="regret a round", barmode="group")
    for arm in study.arms:
        groups = [results.values("avg_regret", arm=arm, hints=h) for h in hints]
        if any(len(g) for g in groups):
            figure.add_trace(_bars(hints, groups, arm, True))
    return figure


# --- the study -----------------------------------------------------------------------------------


class OptimisticFTRL(Study):
    """OptFPRL against FTRL, OGD and their optimistic, tuned and meta variants."""

    slug = "optimistic-ftrl"
    arms: ClassVar = {
        "recursive": Arm("method", "OptFPRL, regularisation from measured error costs (default)"),
        "et": Arm("method", "OptFPRL, sigma = sqrt(E_t)/(4R), the rule of the paper's figures"),
        "observed-path": Arm("method", "OptFPRL, sigma from the observed per-round minimisers"),
        "ftrl": Arm("baseline", "lazy optimistic FTRL, the same sigma as et, no pruning"),
        "adaftrl": Arm("baseline", "lazy FTRL, the same rule as recursive, no pruning (AdaFTRL)"),
        "ogd": Arm("baseline", "online gradient descent, scale-free step"),
        "ogd-tuned": Arm("baseline", "OGD with the best multiple of its step, in hindsight"),
        "optogd": Arm("baseline", "optimistic OGD, two sequences"),
        "ader": Arm("baseline", "Hedge over OGD steps; told the horizon and the largest gradient"),
        "hedge": Arm("baseline", "optimistic AdaHedge (simplex only)"),
        "greedy": Arm("cheap", "the best answer to the hint, or to the last gradient without one"),
        "centre": Arm("cheap", "always the centre of the set (uniform weights)"),
        "known-path": Arm("control", "OptFPRL told the comparator's path length"),
        "official-code": Arm("control", "what the published program does (balls around 0)"),
        "shuffled": Arm("control", "the method with its hints in random order"),
    }
    measures: ClassVar = {
        "avg_regret": Measure(
            "regret per round, against the best of each round", "lower", bounds=(0.0, math.inf)
        ),
        "fixed_regret": Measure("regret per round, against the best fixed action", "lower"),
        "loss": Measure("loss per round", "lower"),
    }

    def __init__(self) -> None:
        self.user: dict[str, Any] | None = None

    # --- the grid --------------------------------------------------------------------------------

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Scenarios, random problems, noise sweep and real streams; or the user's stream."""
        if self.user is not None:
            yield from self._user_trials(scale)
            return
        yield from self._scenario_trials(scale)
        yield from self._random_trials(scale)
        rounds = scale.pick(smoke=200, cpu=5000, paper=5000)
        taus = scale.pick(smoke=(0.0, 0.3, 3.0), cpu=NOISE, paper=NOISE)
        for seed in scale.seeds(smoke=3, cpu=20, paper=20):
            for tau in taus:
                for arm in NOISE_ARMS:
                    yield self.trial("noise sweep", arm, seed, tau=tau, rounds=rounds)
        yield from self._load_trials(scale)
        yield from self._still_trials(scale)

    def _scenario_trials(self, scale: Scale) -> Iterator[Trial]:
        fraction = scale.pick(smoke=0.05, cpu=1.0, paper=1.0)
        for k in SCENARIOS:
            for arm in SCENARIO_ARMS:
                yield self.trial(f"scenario {k}", arm, 0, jitter=0.0, fraction=fraction)
                for seed in scale.seeds(smoke=3, cpu=10, paper=20):
                    yield self.trial(f"scenario {k}", arm, seed, jitter=JITTER, fraction=fraction)
        yield self.trial("disc", "recursive", 0)
        yield self.trial("disc", "adaftrl", 0)

    def _random_trials(self, scale: Scale) -> Iterator[Trial]:
        rounds = scale.pick(smoke=40, cpu=300, paper=300)
        for seed in scale.seeds(smoke=2, cpu=8, paper=40):
            for arm in BOUND_ARMS:
                yield self.trial("random problems", arm, seed, rounds=rounds)
            for arm in ("recursive", "et", "ftrl", "optogd"):
                yield self.trial("perfect hints", arm, seed, rounds=rounds)

    def _load_trials(self, scale: Scale) -> Iterator[Trial]:
        kinds = scale.pick(smoke=("none", "adversarial"), cpu=LOAD_HINTS, paper=LOAD_HINTS)
        weeks = scale.pick(smoke=1, cpu=0, paper=0)  # 0: the whole series
        for name in LOADS:
            for hint in kinds if is_available(name) else ():
                for arm in LOAD_ARMS:
                    if arm != "shuffled" or hint != "none":
                        yield self.trial(name, arm, 0, hints=hint, weeks=weeks)

    def _still_trials(self, scale: Scale) -> Iterator[Trial]:
        segments = scale.pick(smoke=1, cpu=0, paper=0)
        for name, (source, _) in STILL.items():
            for arm in STILL_ARMS if is_available(source) else ():
                if arm != "hedge" or "log-wealth" in name:
                    yield self.trial(name, arm, 0, segments=segments)

    # --- one cell --------------------------------------------------------------------------------

    def group(self, trial: Trial) -> Hashable | None:
        """Seeds of one setting are advanced together, where all are linear costs of one length."""
        name = trial.dataset
        batched = name.startswith("scenario") or name == "noise sweep" or name in LOADS
        if not batched or self.user is not None:
            return None
        return (name, trial.arm, trial["weeks"] if name in LOADS else trial.params)

    def run(self, trial: Trial) -> Mapping[str, Any]:
        """One cell; see the methods below for each kind of data set."""
        if self.user is not None:
            return self._run_user(trial)
        if trial.dataset == "random problems":
            return on_random_problems(trial.arm, trial.rng(), trial["rounds"])
        if trial.dataset == "perfect hints":
            return on_perfect_hints(trial.arm, trial.rng(), trial["rounds"])
        if trial.dataset == "disc":
            return in_a_disc(trial.arm)
        if trial.dataset in STILL:
            return on_still_stream(trial.dataset, trial.arm, trial["segments"])
        return next(self.run_many([trial]))

    def run_many(self, trials: Sequence[Trial]) -> Iterator[Mapping[str, Any]]:
        """Batched cells: linear costs (T, B, d), one parallel run per trial."""
        first = trials[0]
        if self.group(first) is None:
            for trial in trials:
                yield self.run(trial)
            return
        if first.dataset.startswith("scenario"):
            costs, hints, domain, facts = _scenario_batch(trials)
        elif first.dataset == "noise sweep":
            costs, hints, domain, facts = _noise_batch(trials)
        else:
            costs, hints, domain, facts = _load_batch(trials)
        arm = "recursive" if first.arm == "shuffled" else first.arm
        done = told(arm, domain, LinearCosts(costs), hints, facts=facts, n_runs=len(trials))
        yield from _metrics_of_batch(done, first)

    # --- on a person's stream --------------------------------------------------------------------

    @classmethod
    def on(
        cls,
        source: Any,
        *,
        loss: Annotated[
            Literal[
                "linear", "squared", "absolute", "quantile", "logistic", "log-wealth", "prices"
            ],
            "linear: rows hold costs; log-wealth: price relatives; else one column is a target",
        ] = "linear",
        domain: Annotated[
            str, "the set of decisions: simplex, ball:R, box:LOW:HIGH, l1:R, capped-simplex:CAP"
        ] = "simplex",
        hints: Annotated[
            tuple[str, ...],
            "predictions: none, last, mean:WINDOW, rounds back, 7D, recorded, adversarial",
        ] = ("none", "last"),
        target: Annotated[str | None, "the target column (the last one without)"] = None,
        columns: Annotated[
            tuple[str, ...], "the columns to use, with the target; all numeric ones without"
        ] = (),
        time: Annotated[str | None, "the column of times (one called time or date without)"] = None,
        q: Annotated[float, "the level of the quantile loss"] = 0.5,
        arms: Annotated[
            tuple[str, ...],
            "what to set beside recursive; all but known-path and official-code without",
        ] = (),
    ) -> OptimisticFTRL:
        """The same arms on a recorded stream; replicates are contiguous blocks of it."""
        study = cls()
        if target is not None and loss in WITHOUT_TARGET:
            raise InputError(f"a target does nothing with loss={loss}", "use loss=squared, ...")
        recorded = read_stream(
            source.path,
            with_target=loss not in WITHOUT_TARGET,
            target=target,
            timestamp=time,
            columns=columns,
            min_rounds=20,
        )
        stream = stream_of(recorded, loss, q)
        decisions = parse_domain(domain, stream.dim)
        stream.check(decisions)
        if loss == "linear" and (recorded.values > 0).all():
            warnings.warn(
                f"{source.name}: the rows are taken as costs, decisions on {domain} (domain=...); "
                "if they are prices, use -o loss=prices",
                UserWarning,
                stacklevel=2,
            )
        for hint in hints:  # those that no trial could be run with
            as_predictor(told_hints(hint, stream, recorded.hints), recorded.timestamps)
        # the loss says it in the person's own units; a regret repeats the same differences
        study.measures = {"loss": cls.measures["loss"]}
        study.user = {
            "path": source.path,
            "loss": loss,
            "domain": domain,
            "hints": tuple(hints),
            "target": target,
            "columns": tuple(columns),
            "time": time,
            "q": q,
            "arms": _own_arms(arms, decisions, cls.arms),
            "rounds": stream.n_rounds,
            "fingerprint": source.fingerprint,
            "name": source.name,
        }
        return study

    def _user_trials(self, scale: Scale) -> Iterator[Trial]:
        wanted = len(scale.seeds(smoke=2, cpu=8, paper=8))
        blocks = max(1, min(wanted, self.user["rounds"] // 10))
        for hint in self.user["hints"]:
            for arm in self.user["arms"]:
                if arm == "shuffled" and hint == "none":
                    continue
                for seed in range(blocks):
                    yield self.trial(self.user["name"], arm, seed, hints=hint, blocks=blocks)

    def _run_user(self, trial: Trial) -> Mapping[str, Any]:
        u = self.user
        recorded, stream = _user_stream(
            u["path"], u["fingerprint"], u["loss"], u["target"], u["columns"], u["time"], u["q"]
        )
        domain = parse_domain(u["domain"], stream.dim)
        part = split_stream(stream, trial["blocks"])[trial.seed]
        rows = np.array_split(np.arange(stream.n_rounds), trial["blocks"])[trial.seed]
        times = None if recorded.timestamps is None else recorded.timestamps[rows]
        arm = trial.arm
        known = None if recorded.hints is None else recorded.hints[rows]
        hints = told_hints(trial["hints"], part, known)
        if arm == "shuffled":
            done = run_arm("recursive", domain, part, hints, timestamps=times)
            arm, hints = "recursive", _shuffled(done, trial)
        done = run_arm(arm, domain, part, hints, timestamps=times)
        return {
            "avg_regret": done.average_regret,
            "loss": float(done.losses.mean()),
            "average_regret_curve": _thinned(done.regret / np.arange(1, part.n_rounds + 1)),
        }

    # --- claims and figures ----------------------------------------------------------------------

    claims: ClassVar = {
        "C1": claim_stuck,
        "C2": claim_switches,
        "C3": claim_no_winner,
        "C4": claim_optimism,
        "C5": claim_bounds,
        "C6": claim_perfect,
        "C6b": claim_noise,
        "C7": claim_adversarial,
        "C8": claim_limits,
    }

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """Whatever can be drawn of: scenarios, state, terms, forecasts, noise, bounds, limits."""
        if self.user is not None:
            drawn = {"Regret by arm and hints": _user_bars(results, self)}
        else:
            drawn = {
                "The six scenarios": _scenario_figure(results),
                "Why pruning helps: the state in a disc": _disc_figure(results),
                "Which term costs": _terms_figure(results),
                "What a forecast is worth": _forecast_figure(results),
                "From perfect to useless predictions": _noise_figure(results),
                "How close the bounds are": _bounds_figure(results),
                "Where it does not help": _still_figure(results),
            }
        return {title: figure for title, figure in drawn.items() if figure is not None}
