"""The study of agent-resilience: simulated teams, published counts, a person's tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from practicum.agents.agent_resilience.facts import (
    FREQUENCY,
    RECOUNT,
    SEVERITY,
    STATED_DROP,
    TABLE_3,
    recounted_difference,
    recounted_drop,
)
from practicum.agents.agent_resilience.faults import AutoInject, AutoTransform, Fault, probability
from practicum.agents.agent_resilience.tasks import ProgramJudge, Task, grade, humaneval, read_tasks
from practicum.agents.agent_resilience.team import Setting, play, recovery
from practicum.agents.agent_resilience.topology import Topology
from practicum.agents.agent_resilience.voices import ChatVoice, SimTeam, Voice
from practicum.data.kinds import UserData
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
from practicum.study.evidence import Interval, bootstrap_interval
from practicum.study.plots import add_ribbon, colours, new_figure

TEAMS = {
    "hierarchical": ("hierarchical", {}),
    "linear": ("linear", {}),
    "linear-2": ("linear", {"rounds": 2}),
    "flat-last": ("flat", {}),
    "flat-vote": ("flat", {"aggregate": "plurality"}),
    "independent": ("independent", {}),
    "single": ("single", {}),
    "placebo": ("hierarchical", {}),
}
NAMES = {
    "hierarchical": "hierarchical",
    "linear": "linear",
    "linear-2": "linear, 2 rounds",
    "flat-last": "flat, last speaks",
    "flat-vote": "flat, vote",
    "independent": "6 drafts, vote",
    "single": "one agent",
    "placebo": "placebo (hierarchical)",
}
COMPARED = ("hierarchical", "linear", "flat-last", "flat-vote")  # what the paper's claims speak of
DEFENCES = {"C": ("challenger",), "I": ("inspector",), "CI": ("challenger", "inspector")}
SENSITIVITIES = (0.5, 0.75, 0.9, 0.99)
RATES = (0.2, 0.4, 0.6)
MAX_CALLS = 24
EXAMPLES = -1.0  # the detector that runs the examples in the documentation


def team_of(arm: str) -> Topology:
    """The topology of an arm."""
    name, options = TEAMS[arm]
    return Topology.from_name(name, **options)


# --- what runs -----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _judge() -> ProgramJudge:
    return ProgramJudge()


@lru_cache(maxsize=16)
def _team(skill: float, fix: float, specificity: float, sensitivity: float) -> SimTeam:
    seen = None if sensitivity == EXAMPLES else sensitivity
    return SimTeam(skill, fix, specificity, seen, judge=_judge())


@lru_cache(maxsize=2)
def _tasks(n: int) -> tuple[Task, ...]:
    return tuple(humaneval(n))


@lru_cache(maxsize=2)
def _user_tasks(path: Path, fingerprint: str) -> tuple[Task, ...]:
    return tuple(read_tasks(path))


@lru_cache(maxsize=2)
def _endpoint(endpoint: str | None, model: str) -> ChatVoice:
    from practicum.models.chat import open_chat

    return ChatVoice(open_chat(model, endpoint=endpoint))


class _Bench:
    """Scores of one team and seed in one setting after the other."""

    def __init__(self, team: Topology, tasks: Sequence[Task], seed: int, voice: Voice) -> None:
        self.team, self.tasks, self.seed, self.voice = team, tasks, seed, voice
        self.edits = self.calls = 0

    def scores(
        self, fault: Fault | None = None, defence: str = "", faulty: str | None = None
    ) -> np.ndarray:
        """One score a task."""
        setting = Setting(fault, DEFENCES.get(defence, ()), faulty or self.team.producer, MAX_CALLS)
        done = play(self.team, self.tasks, [self.seed], setting, self.voice)
        self.edits = sum(e.counts["edits"] for e in done.values())
        self.calls = sum(e.counts["calls"] for e in done.values())
        answers = [done[task.id, self.seed].answer for task in self.tasks]
        return np.array(
            [
                np.nan if a is None else grade(a, t, _judge())
                for a, t in zip(answers, self.tasks, strict=True)
            ]
        )


@lru_cache(maxsize=16)
def _inject(p_message: float, p_segment: float, kind: str = "semantic") -> AutoInject:
    """One injector a setting: it remembers what it made of a text with the same luck."""
    return AutoInject(p_message, p_segment, kind)  # type: ignore[arg-type]


def _faults(arm: str, p_message: float, p_segment: float) -> dict[str, Fault]:
    if arm == "placebo":  # as often touched, never made wrong
        blank = _inject(1.0, 1.0, "placebo")
        return {"inject": blank, "transform": blank}
    return {"inject": _inject(p_message, p_segment), "transform": AutoTransform()}


def _whole(bench: _Bench, faults: Mapping[str, Fault]) -> Metrics:
    """Everything about one team: alone, faulty, and with each defence."""
    vanilla = bench.scores()
    out: dict[str, float] = {"vanilla": float(np.nanmean(vanilla)), "calls": bench.calls}
    for defence in DEFENCES:
        out[f"clean_{defence}"] = float(np.nanmean(bench.scores(defence=defence)))
    helped, edits = [], 0
    for name, fault in faults.items():
        faulty = bench.scores(fault)
        edits += bench.edits
        helped.append(np.nanmean((faulty > vanilla).astype(float)))
        out[name] = float(np.nanmean(faulty))
        out[f"{name}_drop"] = out["vanilla"] - out[name]
        for defence in DEFENCES:
            out[f"{name}_{defence}"] = float(np.nanmean(bench.scores(fault, defence)))
    out["helped"] = float(np.mean(helped))
    out["edits"] = edits / len(bench.tasks)
    out["accuracy"] = float(np.mean([out[name] for name in faults]))
    out["drop"] = out["vanilla"] - out["accuracy"]
    out["defended"] = float(np.mean([out[f"{name}_CI"] for name in faults]))
    return out


# --- claims --------------------------------------------------------------------------------------

LLM = "The numbers of language models (4 tasks, 6 systems, 2 models) need an endpoint: "


def _endpoint_part(command: str) -> Verdict:
    return needs_more(
        f"{LLM}practicum use agent-resilience run --endpoint URL --model NAME {command}."
    )


def published(what: str, estimate: float, low: float, high: float) -> Verdict:
    """Judged from authors' numbers: positive, negative, or not told apart from nothing."""
    status = "reproduced" if low > 0 else "not reproduced" if high < 0 else "inconclusive"
    interval = Interval(low, high, method="paired over 164 problems")
    words = f"{what}: {estimate:.1f} points [{low:.1f}, {high:.1f}]."
    return Verdict(status, words, estimate, interval, "more than 0", 164)


def _drops(r: Results, worse: str, better: str) -> Verdict | None:
    part = r.where(dataset="teams")
    a, b = part.paired("drop", worse, better)
    if a.empty:
        return None
    what = (
        f"simulation: drop of {NAMES[worse]} ({100 * a.mean():.1f} points) minus "
        f"{NAMES[better]} ({100 * b.mean():.1f})"
    )
    return greater_than(a, b, what=what)


def _together(
    simulated: Iterable[Verdict | None], counted: Sequence[Verdict], command: str, words: str = ""
) -> Verdict:
    """Simulation, published numbers and what only an endpoint can tell, each with its own word."""
    mechanism = _simulated(simulated)
    said = f"Mechanism, by simulation: {all_of(*mechanism).status}."
    if counted:
        said += f" Published numbers: {all_of(*counted).status}."
    lead = f"{said} {words}".strip()
    return all_of(*mechanism, *counted, _endpoint_part(command), sentence=lead)


def _simulated(parts: Iterable[Verdict | None]) -> list[Verdict]:
    kept = [p for p in parts if p is not None]
    return kept or [needs_more("No team was simulated.")]


def _control(r: Results) -> Verdict | None:
    """Lines touched and not made wrong cost nothing: it is the errors that cost."""
    drop = r.where(dataset="teams").values("drop", arm="placebo")
    if drop.empty:
        return None
    changed = int((drop.abs() > 1e-9).sum())
    return never(changed, len(drop), "control: lines touched and not made wrong changed accuracy")


def claim_hierarchy(r: Results) -> Verdict:
    """R1: hierarchical loses less than linear and than flat, published counts and simulation."""
    counted = [
        published(
            f"published counts on code: {other} minus hierarchical",
            *recounted_difference(other, "hierarchical"),
        )
        for other in ("linear", "flat")
    ]
    others = [name for name in COMPARED if name != "hierarchical"]
    simulated = [*(_drops(r, other, "hierarchical") for other in others), _control(r)]
    stated = ", ".join(f"{name} {value}" for name, value in STATED_DROP.items())
    words = f"Stated mean drops: {stated}."
    return _together(simulated, counted, "--topology linear,flat,hierarchical", words)


def claim_linear(r: Results) -> Verdict:
    """R2: linear loses most."""
    counted = [
        published(
            f"published counts on code: linear minus {other}",
            *recounted_difference("linear", other),
        )
        for other in ("flat", "hierarchical")
    ]
    others = [name for name in COMPARED if name != "linear"]
    simulated = [_drops(r, "linear", other) for other in others]
    means = ", ".join(f"{t} {recounted_drop(t)[0]:.1f}" for t in STATED_DROP)
    words = f"Recounted mean drops on code: {means}; as stated over four tasks linear is worst."
    return _together(simulated, counted, "--topology linear,flat,hierarchical", words)


def _slopes(frame: pd.DataFrame) -> tuple[float, float]:
    """Loss of accuracy for a step of P_m and for the same step of P_e, by least squares.

    The expected number of wrong lines, P_m P_e L, grows alike along both.
    """
    x = np.column_stack([np.ones(len(frame)), frame["pm"], frame["pe"]])
    slope = np.linalg.lstsq(x, frame["accuracy"].to_numpy(), rcond=None)[0]
    return -float(slope[1]), -float(slope[2])


def claim_frequency(r: Results) -> Verdict:
    """R3: accuracy falls faster with P_m than with P_e at equal expected wrong lines."""
    parts: list[Verdict | None] = []
    for arm in ("single", "linear", "hierarchical"):
        frame = r.where(dataset="severity", arm=arm).frame
        if frame.empty or frame["pm"].nunique() < 2 or frame["pe"].nunique() < 2:
            continue
        slopes = np.array([_slopes(part) for _, part in frame.groupby("seed")])
        m, e = slopes.mean(axis=0)
        what = f"simulation, {NAMES[arm]}: slope along P_m ({m:.2f}) minus along P_e ({e:.2f})"
        parts.append(greater_than(slopes[:, 0], slopes[:, 1], what=what))
    words = "Published files (which is which is inferred), pass@1 at .2/.4/.6: " + "; ".join(
        f"{name} by severity {'/'.join(map(str, SEVERITY[name]))}, "
        f"by frequency {'/'.join(map(str, FREQUENCY[name]))}"
        for name in SEVERITY
    )
    return _together(parts, [], "--pm 0.2 --pe 0.6", f"{words}.")


def _table_3() -> Verdict:
    """In the published table: C+I recovers at least what the better of the two does."""
    wrong = rows = 0
    for team in TABLE_3.values():
        for fault in ("AutoTransform", "AutoInject"):
            shares = {
                d: recovery(team["none"]["none"], team[fault]["none"], team[fault][d])
                for d in ("C", "I", "C+I")
            }
            rows += 1
            wrong += shares["C+I"] < max(shares["C"], shares["I"])
    best = recovery(76.2, 43.3, 75.0)
    verdict = never(wrong, rows, "Table 3: C+I recovers less than C or I alone")
    return all_of(verdict, sentence=f"Largest recovery in Table 3: {100 * best:.1f} %.")


def recoveries(r: Results, sensitivity: float, arm: str) -> pd.DataFrame:
    """Recovery a seed for each defence (columns C, I, CI), both faults pooled."""
    part = r.where(dataset="detectors", arm=arm, sensitivity=sensitivity).frame
    if part.empty:
        return pd.DataFrame(columns=list(DEFENCES))
    rows = []
    for _, row in part.iterrows():
        faulty = row["inject"] + row["transform"]
        rows.append(
            {
                d: recovery(2 * row["vanilla"], faulty, row[f"inject_{d}"] + row[f"transform_{d}"])
                for d in DEFENCES
            }
        )
    return pd.DataFrame(rows)


def claim_defences(r: Results) -> Verdict:
    """R4: at sensitivity .9, C+I wins back at least half, and more than either alone.

    Judged without dividing: half the loss is won back where defended - faulty exceeds half of
    vanilla - faulty, and a seed that lost nothing is no division by nothing.
    """
    parts: list[Verdict | None] = []
    for arm in ("linear", "hierarchical"):
        part = r.where(dataset="detectors", arm=arm, sensitivity=0.9)
        if not len(part):
            continue
        faulty = _over_faults(part, "")
        lost = part.values("vanilla") - faulty
        won = {d: _over_faults(part, f"_{d}") - faulty for d in DEFENCES}
        shown = ", ".join(f"{d} {_percent(w.mean(), lost.mean())}" for d, w in won.items())
        what = f"simulation, {NAMES[arm]} (recovered: {shown}): accuracy won by C+I beyond half"
        parts.append(at_least(won["CI"] - lost / 2, 0.0, f"{what} the loss"))
        for d in ("C", "I"):
            parts.append(greater_than(won["CI"], won[d], what=f"{NAMES[arm]}: C+I minus {d}"))
    return _together(parts, [_table_3()], "--defence challenger,inspector")


def _over_faults(part: Results, suffix: str) -> pd.Series:
    """Accuracy a seed, mean of the two faults."""
    return (part.values(f"inject{suffix}") + part.values(f"transform{suffix}")) / 2


def _percent(won: float, lost: float) -> str:
    return f"{100 * won / lost:.0f} %" if lost > 0 else "undefined, nothing lost"


def claim_free(r: Results) -> Verdict:
    """R5: without faults, defences cost at most 2 points (specificity .95)."""
    parts: list[Verdict | None] = []
    for arm in COMPARED:
        part = r.where(dataset="teams", arm=arm)
        vanilla = part.values("vanilla")
        if vanilla.empty:
            continue
        loss = pd.concat([vanilla - part.values(f"clean_{d}") for d in DEFENCES], axis=1)
        worst = loss.mean().argmax()
        name = {"C": "Challenger", "I": "Inspector", "CI": "both"}[list(DEFENCES)[worst]]
        what = f"simulation, {NAMES[arm]}: loss by {name}, the dearest"
        parts.append(at_most(loss.iloc[:, worst], 0.02, what))
    losses = [t["none"]["none"] - t["none"][d] for t in TABLE_3.values() for d in ("C", "I", "C+I")]
    table = never(sum(x > 2 for x in losses), len(losses), "Table 3: a loss above 2 points")
    return _together(parts, [table], "--defence challenger,inspector")


def claim_help(r: Results) -> Verdict:
    """R6: single problems may be solved only with the fault; never a gain on the whole."""
    helped = r.where(dataset="teams", arm=list(COMPARED)).frame
    parts: list[Verdict | None] = []
    if not helped.empty:
        by_seed = helped.groupby("seed")["helped"].mean()
        what = "simulation: share of problems solved with the fault and not without"
        parts.append(at_least(by_seed, 0.001, what))
    gains = sum(s.injected > s.vanilla for s in RECOUNT.values())
    gains += sum((s.transformed or 0) > s.vanilla for s in RECOUNT.values())
    words = (
        f"Published counts on code: {gains} of 11 system-fault pairs gained (sign test of 11 "
        f"losses: p = {2 * 0.5**11:.3f}). Reported, never claimed as general."
    )
    return _together(parts, [], "--fault autoinject", words)


# --- figures -------------------------------------------------------------------------------------


def _bars(
    groups: Mapping[str, Mapping[str, Any]], caption: str, y: str, **layout: Any
) -> go.Figure:
    """Grouped bars of means with 95 % intervals: series -> category -> values."""
    figure = new_figure(caption, y=y, **layout)
    shade = colours(groups)
    for name, bars in groups.items():
        kept = {label: np.asarray(v, dtype=float) for label, v in bars.items() if len(v)}
        means = [v.mean() for v in kept.values()]
        spans = [bootstrap_interval(v) for v in kept.values()]
        up = [s.high - m if np.isfinite(s.high) else 0 for s, m in zip(spans, means)]
        down = [m - s.low if np.isfinite(s.low) else 0 for s, m in zip(spans, means)]
        error = {"type": "data", "symmetric": False, "array": up, "arrayminus": down}
        figure.add_bar(x=list(kept), y=means, name=name, marker_color=shade[name], error_y=error)
    figure.update_layout(barmode="group")
    return figure


def _drop_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset=["teams", "your tasks"])
    arms = [a for a in NAMES if part.has(arm=a)]
    if not arms:
        return None
    labels = {"inject": "AutoInject", "transform": "AutoTransform"}
    groups = {
        label: {NAMES[a]: 100 * part.values(f"{f}_drop", arm=a) for a in arms}
        for f, label in labels.items()
    }
    if part.has(arm="hierarchical", dataset="teams"):
        stated = {"linear": "linear", "flat, last speaks": "flat", "hierarchical": "hierarchical"}
        groups["stated (LLMs, four tasks)"] = {
            label: [STATED_DROP[t]] for label, t in stated.items() if label in groups["AutoInject"]
        }
    return _bars(
        groups,
        "Accuracy lost when the agent that writes the solution is faulty, in points; mean and 95 % "
        "interval over seeds. AutoInject touches one message in five and a fifth of its lines (not "
        "the placebo's: all, without changing what they mean); AutoTransform spoils all messages. "
        "Simulated agents show what passing messages and redundancy do; green is what the "
        "paper states for language models.",
        "drop, points",
    )


def _recovery_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset="detectors")
    arms = [a for a in ("linear", "hierarchical") if part.has(arm=a)]
    levels = sorted(set(part.frame.get("sensitivity", [])))
    if not arms or len(levels) < 2:
        return None
    figure = new_figure(
        "Share of the loss that Challenger (C), Inspector (I) and both win back, by how many wrong "
        "answers a reviewer notices (it takes 5 % of right ones for wrong); mean and 95 % band "
        "over seeds. Solid: hierarchical; dashed: linear.",
        x="sensitivity of reviewers",
        y="recovery, %",
    )
    names = {"C": "Challenger", "I": "Inspector", "CI": "both"}
    shade = colours(names)
    for arm in arms:
        tables = [recoveries(part, s, arm) for s in levels]
        n = min(map(len, tables))
        for d, name in names.items():
            curves = 100 * np.stack([t[d].to_numpy()[:n] for t in tables], axis=1)
            curves = curves[np.isfinite(curves).all(axis=1)]
            if len(curves):
                dash = None if arm == "hierarchical" else "dash"
                add_ribbon(figure, levels, curves, f"{name}, {NAMES[arm]}", shade[d], dash=dash)
    return figure


def _heat_figure(r: Results) -> go.Figure | None:
    frame = r.where(dataset="severity", arm="single").frame
    if frame.empty:
        return None
    table = 100 * frame.pivot_table(index="pm", columns="pe", values="accuracy")
    figure = new_figure(
        "Accuracy in % of one agent whose messages are touched with probability P_m, and whose "
        "lines are then wrong with probability P_e. Down (more messages) costs more than right "
        "(more lines a message): one wrong line is enough.",
        x="P_e, share of lines",
        y="P_m, share of messages",
    )
    figure.add_heatmap(
        x=[str(c) for c in table.columns],
        y=[str(i) for i in table.index],
        z=table.to_numpy(),
        texttemplate="%{z:.0f}",
        colorscale="Blues",
        colorbar={"title": "%"},
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


def _critical_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset="criticality")
    arms = [a for a in ("linear", "hierarchical", "flat-last", "flat-vote") if part.has(arm=a)]
    if not arms:
        return None
    figure = new_figure(
        "Accuracy lost when this agent is the faulty one (AutoTransform), in points; mean and 95 % "
        "interval over seeds. An analyst's plan hurts nobody: simulated coders do not read it.",
        y="drop, points",
    )
    shade = colours(arms)
    for arm in arms:
        team = team_of(arm)
        for i, agent in enumerate(team.agents):
            values = 100 * part.values("drop", arm=arm, position=i)
            if values.empty:
                continue
            span = bootstrap_interval(values)
            half = max(0.0, span.high - values.mean()) if np.isfinite(span.high) else 0
            figure.add_bar(
                x=[[NAMES[arm]], [agent.name]],
                y=[values.mean()],
                marker_color=shade[arm],
                error_y={"type": "data", "array": [half]},
                showlegend=False,
            )
    return figure


def _defence_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset=["teams", "your tasks"])
    arms = [a for a in NAMES if part.has(arm=a) and a != "placebo"]
    if not arms:
        return None
    groups = {
        "no fault": {NAMES[a]: 100 * part.values("vanilla", arm=a) for a in arms},
        "no fault, both defences": {NAMES[a]: 100 * part.values("clean_CI", arm=a) for a in arms},
        "one faulty agent": {NAMES[a]: 100 * part.values("accuracy", arm=a) for a in arms},
        "one faulty agent, both defences": {
            NAMES[a]: 100 * part.values("defended", arm=a) for a in arms
        },
    }
    return _bars(
        groups,
        "Accuracy in %, mean of AutoInject and AutoTransform, with and without Challenger and "
        "Inspector; 95 % interval over seeds. Reviewers run the examples in the documentation, "
        "where there are any.",
        "accuracy, %",
        height=460,
    )


# --- the study -----------------------------------------------------------------------------------


class AgentResilienceStudy(Study):
    """Teams of simulated agents with one faulty member; a person's tasks, with any model."""

    slug = "agent-resilience"
    arms = {
        "hierarchical": Arm("method", "leader and two workers who read each other, 6 calls"),
        "linear": Arm("baseline", "analyst, coder, checker: one pass, 3 calls"),
        "linear-2": Arm("baseline", "the chain with a second round of coder and checker, 5 calls"),
        "flat-last": Arm(
            "baseline", "three peers, two rounds, the last has the last word, 6 calls"
        ),
        "flat-vote": Arm("baseline", "three peers, two rounds, then a vote, 6 calls"),
        "independent": Arm("cheap", "six drafts and a vote, nobody reads anybody, 6 calls"),
        "single": Arm("cheap", "one agent, 1 call"),
        "placebo": Arm("control", "hierarchical; all lines touched, none made wrong"),
    }
    measures = {
        "accuracy": Measure("accuracy with one faulty agent", "higher", bounds=(0.0, 1.0)),
        "drop": Measure("accuracy lost to the faulty agent", "lower"),
        "defended": Measure(
            "accuracy with the fault and both defences", "higher", bounds=(0.0, 1.0)
        ),
        "vanilla": Measure("accuracy without a fault", "higher", bounds=(0.0, 1.0)),
        "calls": Measure(
            "calls of the model for all tasks, no fault", "lower", bounds=(0.0, math.inf)
        ),
    }
    claims = {
        "R1": claim_hierarchy,
        "R2": claim_linear,
        "R3": claim_frequency,
        "R4": claim_defences,
        "R5": claim_free,
        "R6": claim_help,
    }

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Teams, detectors, severities, positions; or a person's tasks alone."""
        if self.source is not None:
            yield from self._user_trials(scale)
            return
        n = scale.pick(smoke=4, cpu=40, paper=164)
        team = {"n": n, "skill": 0.75, "fix": 0.6, "specificity": 0.95}
        seeds = scale.seeds(smoke=5, cpu=20, paper=20)
        for seed in seeds:
            for arm in self.arms:
                yield self.trial("teams", arm, seed, sensitivity=EXAMPLES, pm=0.2, pe=0.2, **team)
            for sensitivity in scale.pick(smoke=(0.9,), cpu=SENSITIVITIES, paper=SENSITIVITIES):
                for arm in ("linear", "hierarchical"):
                    yield self.trial(
                        "detectors", arm, seed, sensitivity=sensitivity, pm=0.2, pe=0.2, **team
                    )
            rates = scale.pick(smoke=(0.2, 0.6), cpu=RATES, paper=RATES)
            chains = ("single", "linear", "hierarchical")
            for arm in scale.pick(smoke=chains[:1], cpu=chains, paper=chains):
                for pm in rates:
                    for pe in rates:
                        yield self.trial(
                            "severity", arm, seed, sensitivity=EXAMPLES, pm=pm, pe=pe, **team
                        )
        yield from self._positions(scale, team)

    def _positions(self, scale: Scale, team: Mapping[str, Any]) -> Iterator[Trial]:
        teams = ("linear", "hierarchical", "flat-last", "flat-vote")
        for seed in scale.seeds(smoke=1, cpu=10, paper=20):
            for arm in scale.pick(smoke=teams[:1], cpu=teams, paper=teams):
                for i in range(len(team_of(arm).agents)):
                    yield self.trial(
                        "criticality", arm, seed, position=i, sensitivity=EXAMPLES, **team
                    )

    def _user_trials(self, scale: Scale) -> Iterator[Trial]:
        options = {"pm": 0.2, "pe": 0.2, "sensitivity": 0.7}
        options |= {k: v for k, v in self.settings.items() if k in options}
        for seed in scale.seeds(smoke=2, cpu=10, paper=10):
            for arm in self.arms:
                yield self.trial(
                    "your tasks", arm, seed, n=0, skill=0.75, fix=0.6, specificity=0.95, **options
                )

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def run(self, trial: Trial) -> Metrics:
        """One team, seed and setting."""
        bench = _Bench(
            team_of(trial.arm), self._tasks(trial), self._seed(trial), self._voice(trial)
        )
        if trial.dataset == "severity":
            scores = bench.scores(_inject(trial["pm"], trial["pe"]))
            return {"accuracy": float(np.nanmean(scores)), "edits": bench.edits / len(scores)}
        if trial.dataset == "criticality":
            agent = bench.team.agents[trial["position"]].name
            vanilla = np.nanmean(bench.scores())
            faulty = np.nanmean(bench.scores(AutoTransform(), faulty=agent))
            return {"accuracy": float(faulty), "drop": float(vanilla - faulty)}
        return _whole(bench, _faults(trial.arm, trial["pm"], trial["pe"]))

    def _seed(self, trial: Trial) -> int:
        return int(trial.rng().integers(2**31))

    def _tasks(self, trial: Trial) -> tuple[Task, ...]:
        if self.source is not None:
            return _user_tasks(self.source.path, self.source.fingerprint)
        return _tasks(trial["n"])

    def _voice(self, trial: Trial) -> Voice:
        if self.settings.get("model"):
            return _endpoint(self.settings.get("endpoint"), self.settings["model"])
        names = ("skill", "fix", "specificity", "sensitivity")
        return _team(*(trial[name] for name in names))

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """Drops, defences, detectors, severities, positions."""
        drawn = {
            "What one faulty agent costs": _drop_figure(results),
            "What defences win back": _defence_figure(results),
            "How good reviewers must be": _recovery_figure(results),
            "More messages or more errors a message": _heat_figure(results),
            "Which agent matters most": _critical_figure(results),
        }
        return {title: figure for title, figure in drawn.items() if figure is not None}

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        model: Annotated[
            str,
            "model that speaks for the agents (local, gguf:FILE, a name at --endpoint); "
            "empty: simulated agents",
        ] = "",
        endpoint: Annotated[str, "OpenAI-compatible endpoint of the model"] = "",
        p_message: Annotated[float, "AutoInject: share of messages touched"] = 0.2,
        p_segment: Annotated[float, "AutoInject: share of lines or sentences made wrong"] = 0.2,
        sensitivity: Annotated[float, "simulated reviewers: share of wrong answers noticed"] = 0.7,
    ) -> AgentResilienceStudy:
        """The same teams on a person's tasks, with simulated agents or a model."""
        read_tasks(source.path)
        return cls(
            model=model or ("local" if endpoint else ""),
            endpoint=endpoint or None,
            pm=probability(p_message, "p_message"),
            pe=probability(p_segment, "p_segment"),
            sensitivity=probability(sensitivity, "sensitivity"),
        )
