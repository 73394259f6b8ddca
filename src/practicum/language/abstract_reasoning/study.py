"""The study of abstract-reasoning: known models, exact solvers, the published recount, a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.language.abstract_reasoning.evaluation import FORMS, AbstractReport, evaluate
from practicum.language.abstract_reasoning.extraction import is_correct
from practicum.language.abstract_reasoning.items import (
    PAIRED,
    Item,
    base_items,
    make_items,
    read_items,
)
from practicum.language.abstract_reasoning.metrics import FLOOR, aggregates, published
from practicum.language.abstract_reasoning.remap import collides, remap
from practicum.language.abstract_reasoning.solvers import (
    frequent_answer,
    nearest_example,
    solve,
)
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
    less_than,
    needs_more,
    never,
    rate,
)
from practicum.study.plots import colours, interval_bars, new_figure

KINDS = ("full", "operand", "operator")
TRAINED = ("ordinary", "varied", "remapped")
RULES_OF_THUMB = {"solver": solve, "nearest": nearest_example, "frequent": frequent_answer}
NAMES = {
    "lm": "language model",
    "solver": "reference solvers",
    "nearest": "most similar example",
    "frequent": "most frequent answer",
    "ordinary": "trained on ordinary symbols",
    "varied": "trained on ordinary symbols, all as operands",
    "remapped": "trained on remapped symbols",
}
# what the paper's result files hold (gpt-4o-mini, direct and with a chain of thought)
REPORTED = {
    "direct": {
        "bc": 0.54427,
        "ec": 0.63411,
        "nbr": 0.05903,
        "ma": 0.90826,
        "sma": 0.12351,
        "sr": 0.44792,
        "overall": 0.40996,
        "raw14": 0.70610,
        "full14": 0.35491,
        "operand14": 0.39658,
        "operator14": 0.59226,
        "delta_full": 0.35119,
        "delta_operand": 0.30952,
        "delta_operator": 0.11384,
    },
    "cot": {
        "overall": 0.43853,
        "delta_full": 0.44122,
        "delta_operand": 0.47470,
        "delta_operator": 0.20164,
    },
}
BASES = (3, 4, 5)
INDUCTION = (
    "linear",
    "quadratic",
    "sine",
    "cosine",
    "square_wave",
    "triangle_wave",
    "sawtooth_wave",
)
DEFAULTS = {"model": "local", "endpoint": "", "items": 0, "shots": 8, "maps": 1, "cot": False}
ENDPOINT = "set PRACTICUM_CHAT_ENDPOINT and PRACTICUM_CHAT_MODEL and verify again"


# --- the model under test ------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _chat(model: str, endpoint: str) -> Any:
    """One model a process; replies are cached by request, so that a run can be resumed."""
    from practicum.models.chat import open_chat

    return open_chat(model, endpoint=endpoint or None, cache="default")


def _named_model() -> tuple[str, str]:
    """The model that claims are judged on: the packaged one, or an endpoint of the user's."""
    endpoint = os.environ.get("PRACTICUM_CHAT_ENDPOINT", "")
    return os.environ.get("PRACTICUM_CHAT_MODEL", "local"), endpoint


def _answerer(trial: Trial) -> Any:
    if trial.arm != "lm":
        return RULES_OF_THUMB[trial.arm]
    return _chat(trial["model"], trial["endpoint"])


def _seed(trial: Trial, stream: str = "items") -> int:
    return int(trial.rng(stream).integers(2**31))


def _measured(report: AbstractReport, prefix: str = "") -> dict[str, float]:
    """Accuracies and Deltas of a report, where there are any."""
    out = {f"{prefix}gamma_{kind}": float(v) for kind, v in report.overall.items()}
    for kind, d in report.deltas.items():
        out[f"{prefix}delta{'' if kind == 'full' else f'_{kind}'}"] = d.delta
    out[f"{prefix}unparsed"] = float((report.items["status"] != "answered").mean())
    return {name: value for name, value in out.items() if np.isfinite(value)}


# --- one cell ------------------------------------------------------------------------------------


def _trained(trial: Trial) -> Metrics:
    """R1, R3a: a small transformer of known diet on the four forms of the same items."""
    from practicum.language.abstract_reasoning.small_rules import (
        DEFAULT,
        answers_right,
        majority_right,
        train_on_rules,
    )

    config = replace(DEFAULT, d_model=trial["width"], d_ff=2 * trial["width"])
    network, losses = train_on_rules(
        trial.arm, trial["steps"], trial.rng(f"train {trial.arm}"), config=config
    )
    right = {
        form: answers_right(network, form, trial["items"], trial.rng("test")).mean()
        for form in FORMS
    }
    out: dict[str, Any] = {f"gamma_{form}": float(value) for form, value in right.items()}
    for kind in KINDS:
        name = "delta" if kind == "full" else f"delta_{kind}"
        out[name] = out["gamma_raw"] - out[f"gamma_{kind}"]
    out["majority"] = float(majority_right("full", trial["items"], trial.rng("test")).mean())
    every = max(1, len(losses) // 50)
    out["losses"] = losses[: len(losses) // every * every].reshape(-1, every).mean(axis=1)
    return out


def _on_maps(trial: Trial) -> Metrics:
    """R2: the solver before and after maps of every kind, on the fourteen paired sets."""
    rng = trial.rng(f"maps {trial['collision_free']}")
    flips, merged, checked, right = dict.fromkeys(KINDS, 0), 0, 0, []
    before, after = [], {kind: [] for kind in KINDS}
    for task in trial["tasks"].split(","):
        for item in make_items(task, trial["items"], trial["shots"], seed=_seed(trial)):
            raw = is_correct(solve(item), item)
            right.append(raw)
            before.append(raw)
            for kind in KINDS:
                mapped, symbols = remap(
                    item, kind, rng, collision_free=bool(trial["collision_free"])
                )
                merged += collides(item, symbols)
                checked += 1
                done = is_correct(solve(mapped), mapped)
                after[kind].append(done)
                flips[kind] += done != raw
    out = {f"flips_{kind}": count for kind, count in flips.items()}
    for kind in KINDS:
        name = "delta" if kind == "full" else f"delta_{kind}"
        out[name] = float(np.mean(before) - np.mean(after[kind]))
        out[f"gamma_{kind}"] = float(np.mean(after[kind]))
    return {**out, "gamma_raw": float(np.mean(right)), "merged": merged / checked, "n": checked}


def _recount(trial: Trial) -> Metrics:
    """R0: aggregates of the 82 published accuracies against the published aggregates."""
    gaps = [
        aggregates(published()[run])[name] - value
        for run, reported in REPORTED.items()
        for name, value in reported.items()
    ]
    return {"recount_errors": sum(abs(g) > 5.1e-6 for g in gaps), "recount_n": len(gaps)}


def _shared_rules(trial: Trial) -> Metrics:
    """R3b, R4: a language model on generated sets in all forms."""
    report = evaluate(
        _answerer(trial),
        trial["tasks"],
        items=trial["items"],
        shots=trial["shots"],
        maps=trial["maps"],
        cot=bool(trial["cot"]),
        seed=_seed(trial),
        probe=False,
    )
    return _measured(report)


def _bases(trial: Trial) -> Metrics:
    """R5: sums of operands of the same lengths in base 10 and in base 3, 4, 5."""
    out: dict[str, float] = {}
    n, shots, digits = trial["items"], trial["shots"], trial["digits"]
    sets = {
        "decimal": base_items("add", 10, n, shots, _seed(trial), digits),
        "other_bases": [
            item
            for base in BASES[: max(1, min(n, len(BASES)))]
            for item in base_items(
                "add", base, max(1, n // len(BASES)), shots, _seed(trial), digits
            )
        ],
    }
    for name, items in sets.items():
        report = evaluate(_answerer(trial), items, ["raw"], probe=False)
        out[name] = float(report.items["correct"].mean())
    return out


def _induction(trial: Trial) -> Metrics:
    """R6: functions of one variable, as we generate them or as published."""
    items = [
        item
        for name in trial["functions"].split(",")
        for item in make_items(
            f"sma/{name}", trial["items"], trial["shots"], _seed(trial), trial["compat"]
        )
    ]
    report = evaluate(_answerer(trial), items, ["raw"], probe=False)
    return {"induction": float(report.items["correct"].mean()), "n": len(items)}


def _own(trial: Trial, items: Sequence[Item]) -> Metrics:
    """A person's tasks: as many as the scale asks, drawn anew for every seed."""
    order = trial.rng("items").permutation(len(items))[: trial["items"]]
    kinds = ["raw", "full"]
    if all(item.meta.get("operators") for item in items):
        kinds += ["operand", "operator"] if trial["kinds"] == "all" else []
    shown = [items[k].with_shots(min(trial["shots"], len(items[k].examples))) for k in order]
    report = evaluate(
        _answerer(trial),
        [replace(item, task=trial.dataset) for item in shown],
        kinds,
        maps=trial["maps"],
        cot=bool(trial["cot"]),
        seed=_seed(trial, "maps"),
        probe=False,
    )
    return _measured(report.read("lenient"))


CELLS = {
    "small rules": _trained,
    "maps": _on_maps,
    "published": _recount,
    "shared rules": _shared_rules,
    "bases": _bases,
    "induction": _induction,
}


# --- claims --------------------------------------------------------------------------------------


def _recounted(*names: str, run: str = "direct") -> str:
    found = aggregates(published()[run])
    return ", ".join(f"{name} {found[name]:.3f}" for name in names)


def claim_recount(r: Results) -> Verdict:
    """R0: every aggregate to five digits."""
    errors = r.values("recount_errors", dataset="published")
    if errors.empty:
        return needs_more("The published accuracies were not aggregated.")
    n = r.values("recount_n", dataset="published")
    return never(int(errors.max()), int(n.max()), "an aggregate off by more than 5e-6")


def claim_separates(r: Results) -> Verdict:
    """R1: Delta at least .3 for memory of either kind, at most .2 for what has none to use."""
    part = r.where(dataset="small rules")
    parts = [
        at_least(part.values("delta", arm=arm), 0.3, f"Delta, {NAMES[arm]}")
        for arm in ("ordinary", "varied")
        if part.has(arm=arm)
    ]
    if part.has(arm="remapped"):
        parts.append(at_most(part.values("delta", arm="remapped"), 0.2, "Delta, remapped"))
        # a model that has learned nothing has no Delta either
        parts.append(
            greater_than(
                part.values("gamma_full", arm="remapped"),
                part.values("majority", arm="remapped"),
                0.05,
                "its accuracy beyond the shots' majority answer",
            )
        )
    if len(parts) < 4:
        return needs_more("The three small models are needed.")
    return all_of(*parts)


def claim_blind(r: Results) -> Verdict:
    """R2: no item flips under a collision-free map; on official maps, what is lost is told."""
    free = r.where(dataset="maps", arm="solver", collision_free=True)
    if not len(free):
        return needs_more("The solver was not asked.")
    flips = int(sum(free.values(f"flips_{kind}").sum() for kind in KINDS))
    verdict = never(flips, int(free.values("n").sum()), "the solver's verdict on a mapped item")
    words = f"Solved: {free.values('gamma_raw').mean():.3f} of the items."
    official = r.where(dataset="maps", arm="solver", collision_free=False)
    if len(official):
        lost = ", ".join(
            f"{kind} {official.values('delta' if kind == 'full' else f'delta_{kind}').mean():.3f}"
            for kind in KINDS
        )
        words += (
            f" On official-style maps, {100 * official.values('merged').mean():.0f} % of which "
            f"merge symbols, the same solver shows Delta {lost}: that much is ambiguity."
        )
    return all_of(verdict, sentence=words)


def claim_operands_trained(r: Results) -> Verdict:
    """R3a: Delta_operand beyond Delta_operator in the models that rest on memory."""
    part, parts = r.where(dataset="small rules"), []
    for arm in ("ordinary", "varied"):
        operand, operator = (part.values(f"delta_{k}", arm=arm) for k in ("operand", "operator"))
        if len(operand):
            what = f"{NAMES[arm]}: Delta_operand minus Delta_operator"
            parts.append(greater_than(operand, operator, what=what))
    if not parts:
        return needs_more("No small model was trained.")
    return all_of(*parts, sentence=_against_published())


def _against_published() -> str:
    told = _recounted("delta_operator", "delta_operand", "delta_full")
    return f"Recount of the published accuracies: {told}."


def claim_operands_model(r: Results) -> Verdict:
    """R3b: the same in a language model, where it can do the task at all."""
    part = r.where(dataset="shared rules", arm="lm", cot=False)
    operand, operator = part.values("delta_operand"), part.values("delta_operator")
    if operand.empty:
        return needs_more("No language model was asked.")
    if floored := _floor(part.values("gamma_raw"), "Gamma_raw"):
        return floored
    what = f"Gamma_raw {part.values('gamma_raw').mean():.3f}; Delta_operand minus Delta_operator"
    return all_of(greater_than(operand, operator, what=what), sentence=_against_published())


def _floor(gamma: Any, what: str) -> Verdict | None:
    """A model that cannot do the task says nothing about symbols."""
    mean = float(gamma.mean()) if len(gamma) else 0.0
    if mean >= FLOOR:
        return None
    sentence = (
        f"{what} {mean:.3f} is below {FLOOR}: the model cannot do the task with ordinary symbols, "
        f"so nothing follows from it. To decide, {ENDPOINT}."
    )
    return Verdict("inconclusive", sentence, mean, None, f"Gamma_raw at least {FLOOR}", len(gamma))


def claim_cot(r: Results) -> Verdict:
    """R4: refuted if a chain of thought halves Delta."""
    told = (
        f"Recount: Delta_full without {_recounted('delta_full')}, with a chain of thought "
        f"{_recounted('delta_full', run='cot')}."
    )
    part = r.where(dataset="shared rules", arm="lm")
    direct, cot = part.values("delta", cot=False), part.values("delta", cot=True)
    if direct.empty or cot.empty:
        return needs_more(f"Needs an endpoint: {ENDPOINT}. {told}")
    if floored := _floor(part.values("gamma_raw", cot=False), "Gamma_raw"):
        return floored
    direct, cot = (
        v.droplevel([n for n in v.index.names if n not in ("dataset", "seed")])
        for v in (direct, cot)
    )
    verdict = greater_than(cot, direct / 2, what="Delta with a chain of thought beyond half of it")
    return all_of(verdict, sentence=told)


def claim_bases(r: Results) -> Verdict:
    """R5: other bases below decimal, operands equally long."""
    part = r.where(dataset="bases", arm="lm")
    decimal, other = part.values("decimal"), part.values("other_bases")
    told = f"Recount: {_recounted('bc', 'nbr')}."
    if decimal.empty:
        return needs_more(f"No language model was asked. {told}")
    if floored := _floor(decimal, "Decimal accuracy"):
        return floored
    solver = r.values("other_bases", dataset="bases", arm="solver")
    words = f"Accuracy {decimal.mean():.3f} in base 10, {other.mean():.3f} in base 3 to 5"
    words += f" (exact search: {solver.mean():.3f})." if len(solver) else "."
    return all_of(less_than(other, decimal, what="decimal minus other"), sentence=f"{words} {told}")


def claim_induction(r: Results) -> Verdict:
    """R6: at most half of the functions, which an oracle finds all."""
    part = r.where(dataset="induction", compat="ours")
    found, asked = _counts(part.where(arm="solver"))
    if not asked:
        return needs_more("The oracle was not asked.")
    words = f"Recount: {_recounted('sma')}; with a chain of thought {_recounted('sma', run='cot')}."
    there, of = _counts(r.where(dataset="induction", arm="solver", compat="official"))
    if of:
        words += (
            " As published every example has parameters of its own: the oracle finds "
            f"{found} of {asked} of our functions and {there} of {of} of such, so the published "
            "figure does not speak of induction."
        )
    solvable = rate(found, asked, low=0.9, what="functions the oracle finds")
    right, shown = _counts(part.where(arm="lm"))
    if not shown:
        return all_of(solvable, needs_more("No language model was asked."), sentence=words)
    reference = r.values("decimal", dataset="bases", arm="lm")
    if floored := _floor(reference, "Accuracy on decimal sums"):
        return replace(floored, sentence=f"{floored.sentence} {words}")
    model = rate(right, shown, high=0.5, what="functions the model finds")
    return all_of(model, solvable, sentence=words)


def _counts(part: Results) -> tuple[int, int]:
    """Functions found, and functions asked for."""
    shares, asked = part.values("induction"), part.values("n")
    return round(float((shares * asked).sum())) if len(shares) else 0, int(asked.sum())


# --- figures -------------------------------------------------------------------------------------


def slope_figure(values: Mapping[str, Mapping[str, np.ndarray]], caption: str) -> go.Figure:
    """Accuracy from ordinary to fully replaced symbols, a line for each name."""
    figure = new_figure(caption, y="accuracy (Gamma)")
    order = ("raw", "operator", "operand", "full")
    shade = colours(values)
    for name, forms in values.items():
        there = [k for k in order if k in forms and len(forms[k])]
        means = [float(np.mean(forms[k])) for k in there]
        spread = [2 * float(np.std(forms[k]) / np.sqrt(len(forms[k]))) for k in there]
        figure.add_trace(
            go.Scatter(
                x=there,
                y=means,
                name=name,
                mode="lines+markers",
                line={"color": shade[name], "width": 2},
                error_y={"type": "data", "array": spread, "width": 4},
            )
        )
    figure.update_xaxes(
        categoryorder="array", categoryarray=list(order), title="symbols that are replaced"
    )
    figure.update_yaxes(range=[-0.03, 1.05])
    figure.update_layout(margin={"t": 100})
    return figure


def _slopes(r: Results, datasets: Sequence[str], caption: str) -> go.Figure | None:
    lines = {}
    for arm, name in NAMES.items():
        part = r.where(dataset=list(datasets), arm=arm)
        forms = {form: part.values(f"gamma_{form}").to_numpy() for form in FORMS}
        if any(len(v) for v in forms.values()):
            lines[name] = {form: v for form, v in forms.items() if len(v)}
    return slope_figure(lines, caption) if lines else None


def _official_figure(r: Results) -> go.Figure | None:
    groups = {}
    for free, name in ((True, "collision-free"), (False, "official")):
        for kind in KINDS:
            metric = "delta" if kind == "full" else f"delta_{kind}"
            values = r.values(metric, dataset="maps", arm="solver", collision_free=free)
            if len(values):
                groups[f"{kind}, {name}"] = values
    if not groups:
        return None
    return interval_bars(
        groups,
        "Delta of a solver that knows no symbols, over draws of items: exactly 0 where the map "
        "keeps symbols apart. What it loses on official-style maps is ambiguity, not memory.",
        y="Delta",
    )


def _published_figure() -> go.Figure:
    lines = {}
    for run, name in (("direct", "gpt-4o-mini"), ("cot", "gpt-4o-mini, chain of thought")):
        found = aggregates(published()[run])
        lines[name] = {form: np.array([found[f"{form}14"]]) for form in FORMS}
    return slope_figure(
        lines,
        "The published accuracies of gpt-4o-mini on the fourteen paired sets, recounted: a chain "
        "of thought raises the ordinary score, not the one with replaced symbols.",
    )


# --- the study -----------------------------------------------------------------------------------


class AbstractReasoningStudy(Study):
    """Models whose memory is known, solvers that have none, a language model; a person's tasks."""

    slug = "abstract-reasoning"
    arms = {
        "lm": Arm("method", "the language model under test: SmolLM2-135M, or the one you name"),
        "solver": Arm("baseline", "exact reference solvers that know rules but no symbols"),
        "nearest": Arm("cheap", "the answer of the most similar example"),
        "frequent": Arm("control", "the most frequent answer among the examples"),
        "ordinary": Arm("control", "a small transformer trained on ordinary symbols"),
        "varied": Arm("control", "the same, every symbol an operand of some rule"),
        "remapped": Arm("control", "the same, symbols drawn anew for every item"),
    }
    measures = {
        "gamma_full": Measure("accuracy with all symbols replaced", "higher", bounds=(0.0, 1.0)),
        "gamma_raw": Measure("accuracy with ordinary symbols", "higher", bounds=(0.0, 1.0)),
        "delta": Measure("what replacing all symbols costs (Delta)", "lower"),
    }
    claims = {
        "R0": claim_recount,
        "R1": claim_separates,
        "R2": claim_blind,
        "R3a": claim_operands_trained,
        "R3b": claim_operands_model,
        "R4": claim_cot,
        "R5": claim_bases,
        "R6": claim_induction,
    }

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Small models, solvers, the recount, the language model; or a person's tasks alone."""
        if self.source is not None:
            yield from self._user_trials(scale)
            return
        yield self.trial("published", "solver", 0)
        steps = scale.pick(
            smoke=dict.fromkeys(TRAINED, 20),
            cpu={"ordinary": 300, "varied": 800, "remapped": 1000},
            paper={"ordinary": 3000, "varied": 6000, "remapped": 6000},
        )
        width = scale.pick(smoke=16, cpu=64, paper=128)
        for seed in scale.seeds(smoke=2, cpu=5, paper=10):
            for arm in TRAINED:
                yield self.trial(
                    "small rules",
                    arm,
                    seed,
                    steps=steps[arm],
                    width=width,
                    items=scale.pick(smoke=100, cpu=2000, paper=5000),
                )
        for seed in scale.seeds(smoke=2, cpu=5, paper=10):
            for free in (True, False):
                yield self.trial(
                    "maps",
                    "solver",
                    seed,
                    collision_free=free,
                    tasks=",".join(PAIRED),
                    items=scale.pick(smoke=1, cpu=20, paper=96),
                    shots=scale.pick(smoke=8, cpu=30, paper=50),
                )
        yield from self._model_trials(scale)

    def _model_trials(self, scale: Scale) -> Iterator[Trial]:
        """A handful of prompts a cell for the packaged model; the sets in full for an endpoint."""
        model, endpoint = _named_model()
        named = {"model": model, "endpoint": endpoint}
        large = bool(endpoint) and scale.name != "smoke"
        shots = 8 if large else scale.pick(smoke=2, cpu=8, paper=8)
        few = {"shots": shots, "items": 24 if large else scale.pick(smoke=1, cpu=6, paper=24)}
        two = "ec/var_list_cnt,ec/var_bit"
        shared = ",".join(PAIRED) if large else scale.pick(smoke="ec/var_bit", cpu=two, paper=two)
        for seed in scale.seeds(smoke=2, cpu=5, paper=10):
            for arm in ("lm", "solver", "nearest"):
                extra = named if arm == "lm" else {"model": "", "endpoint": ""}
                for cot in (False, True) if large and arm == "lm" else (False,):
                    yield self.trial(
                        "shared rules",
                        arm,
                        seed,
                        tasks=shared,
                        cot=cot,
                        maps=3 if large else 1,
                        **few,
                        **extra,
                    )
                yield self.trial("bases", arm, seed, digits=8 if large else 2, **few, **extra)
                for compat in ("ours", "official") if arm == "solver" else ("ours",):
                    yield self.trial(
                        "induction",
                        arm,
                        seed,
                        compat=compat,
                        shots=20 if arm == "solver" else shots,
                        items=24 if large else 4 if arm == "solver" else 1,
                        functions=",".join(
                            INDUCTION if large or arm != "lm" else INDUCTION[: few["items"]]
                        ),
                        **extra,
                    )

    def _user_trials(self, scale: Scale) -> Iterator[Trial]:
        asked = {**DEFAULTS, **self.options}
        named = {"model": asked["model"], "endpoint": asked["endpoint"]}
        n = asked["items"] or scale.pick(smoke=2, cpu=8, paper=96)
        for seed in scale.seeds(smoke=2, cpu=5, paper=10):
            for arm in ("lm", *RULES_OF_THUMB):
                extra = named if arm == "lm" else {"model": "", "endpoint": ""}
                yield self.trial(
                    self.source.name,
                    arm,
                    seed,
                    items=n,
                    shots=asked["shots"],
                    maps=asked["maps"],
                    cot=asked["cot"],
                    kinds="two" if scale.name == "smoke" else "all",
                    **extra,
                )

    def run(self, trial: Trial) -> Metrics:
        """One cell."""
        if self.source is not None:
            return _own(trial, _user_items(self.source.path, self.source.fingerprint))
        return CELLS[trial.dataset](trial)

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """Slopes from ordinary to replaced symbols, the solver on both kinds of maps."""
        drawn = {
            "Memory and abstraction": _slopes(
                results,
                ["small rules"],
                "Small transformers of known diet on the same items in four forms, mean and two "
                "standard errors over seeds: memory falls with its symbols, induction does not.",
            ),
            "A solver without symbols": _official_figure(results),
            "A language model": _slopes(
                results,
                ["shared rules"],
                "Generated sets in four forms: the language model beside exact solvers and the "
                "answer of the most similar example. A model at the floor has no Delta.",
            ),
            "Your tasks": _slopes(
                results,
                [self.source.name] if self.source is not None else [],
                "Your tasks with ordinary and with replaced symbols, mean and two standard errors "
                "over draws of items.",
            ),
        }
        if results.has(dataset="published"):
            drawn["Published"] = _published_figure()
        return {title: figure for title, figure in drawn.items() if figure is not None}

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        model: Annotated[
            str, "local, gguf:FILE, hf:FOLDER, replay:FILE, or a name at the endpoint"
        ] = "local",
        endpoint: Annotated[str, "of an OpenAI-compatible server, http://HOST:PORT/v1"] = "",
        items: Annotated[int, "items asked a seed; 0: what the scale says"] = 0,
        shots: Annotated[int, "worked examples shown, at most"] = 8,
        maps: Annotated[int, "random maps an item"] = 1,
        cot: Annotated[bool, "ask for a chain of thought"] = False,
    ) -> AbstractReasoningStudy:
        """The same arms on a person's tasks; model replies are cached by request."""
        study = cls()
        found = _user_items(source.path, source.fingerprint)
        if items < 0 or shots < 1 or maps < 1:
            raise InputError(f"items={items}, shots={shots}, maps={maps}: at least 0, 1 and 1")
        with_examples = sum(bool(item.examples) for item in found)
        if with_examples < len(found):
            raise InputError(
                f"{source.path}: {len(found) - with_examples} of {len(found)} tasks show no "
                "examples, so no rule can be induced",
                'give each "examples": [[question, answer], ...]',
            )
        study.source = source
        study.options = {
            "model": model,
            "endpoint": endpoint,
            "items": items,
            "shots": shots,
            "maps": maps,
            "cot": cot,
        }
        return study


@lru_cache(maxsize=2)
def _user_items(path: Path, fingerprint: str) -> tuple[Item, ...]:
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(f"{path}: JSON lines of tasks expected", "name a .jsonl file")
    return tuple(read_items(path)[0])
