"""``practicum use agent-resilience``: run teams with a faulty agent, report, look at threads."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field
from typing_extensions import TypedDict

from practicum.models.chat.options import (
    ApiKeyEnvOption,
    CacheOption,
    ConcurrencyOption,
    EndpointOption,
)
from practicum.study.command import Progress, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from practicum.agents.agent_resilience.faults import Fault
    from practicum.agents.agent_resilience.tasks import ProgramJudge, Task
    from practicum.agents.agent_resilience.team import Result
    from practicum.agents.agent_resilience.topology import Topology
    from practicum.agents.agent_resilience.voices import Voice

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="What one quietly faulty agent costs a team, and what defences win back.",
)

TOPOLOGIES = "single, independent, linear, linear-2, flat, flat-vote, hierarchical"
Tasks = Annotated[
    str,
    typer.Option(help="humaneval:N, arithmetic:N, or a file of JSON lines (id, prompt, answer)."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Instead of simulated agents: with --endpoint the model's name there; else local "
        "(SmolLM2-135M), gguf:FILE, hf:FOLDER or replay:FILE.",
    ),
]
Llm = Annotated[
    Literal["sim", "model"] | None,
    typer.Option(help="sim: simulated agents (the default without --model); model: --model."),
]
FaultName = Annotated[
    Literal["autoinject", "autotransform", "routing", "none"],
    typer.Option(help="Messages made wrong, a profile rewritten, messages lost, or nothing."),
]
Pm = Annotated[
    float, typer.Option("--pm", min=0, max=1, help="AutoInject: share of messages touched.")
]
Pe = Annotated[
    float, typer.Option("--pe", min=0, max=1, help="AutoInject: share of segments made wrong.")
]
ErrorKind = Annotated[
    Literal["semantic", "syntactic"], typer.Option("--errors", help="Of meaning or of form.")
]
Via = Annotated[
    Literal["ast", "llm"],
    typer.Option(help="Errors by rule (no model needed), or written by the model."),
]
Defence = Annotated[str, typer.Option(help="challenger, inspector, or both with a comma.")]
Seeds = Annotated[int, typer.Option(min=1, help="Repetitions.")]
Sensitivity = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Simulated reviewers: share of wrong answers noticed. Unset: they run the examples in "
        "the documentation (programs), or notice 0.7 (other tasks).",
    ),
]
Skill = Annotated[
    float, typer.Option(min=0, max=1, help="Simulated writers: share of right first drafts.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]
MaxCalls = Annotated[int, typer.Option(min=1, help="Of the model for one task, defences included.")]
Unsafe = Annotated[
    bool,
    typer.Option(
        "--unsafe-no-sandbox", help="Run models' programs even where nothing can hold them."
    ),
]
ResultsFile = Annotated[Path, typer.Argument(help="What run --out wrote.")]


@app.command()
def run(
    tasks: Tasks = "humaneval:40",
    topology: Annotated[
        str, typer.Option(help=f"Teams, separated by commas: {TOPOLOGIES}.")
    ] = "linear,flat,hierarchical",
    fault: FaultName = "autoinject",
    pm: Pm = 0.2,
    pe: Pe = 0.2,
    errors: ErrorKind = "semantic",
    via: Via = "ast",
    faulty: Annotated[
        str, typer.Option(help="The faulty agent's name; auto: who writes the solution.")
    ] = "auto",
    defence: Defence = "",
    llm: Llm = None,
    endpoint: EndpointOption = None,
    model: Model = None,
    seeds: Seeds = 5,
    sensitivity: Sensitivity = None,
    skill: Skill = 0.75,
    temperature: Annotated[float, typer.Option(min=0, help="Of the model.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of a reply.")] = 768,
    max_calls: MaxCalls = 24,
    grader: Annotated[
        str | None, typer.Option(help="For tasks of a file that name none: exact, numeric, ...")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="All scores and the threads, as JSON, for report and thread."),
    ] = None,
    force: Force = False,
    unsafe_no_sandbox: Unsafe = False,
    api_key_env: ApiKeyEnvOption = "OPENAI_API_KEY",
    concurrency: ConcurrencyOption = 8,
    cache: CacheOption = "default",
) -> None:
    """Measure what one faulty agent costs each team, and what defences win back.

    Example: practicum use agent-resilience run --tasks humaneval:40
    --topology linear,flat,hierarchical --fault autoinject --pm 0.2 --pe 0.2 --llm sim --seeds 20
    --out r.json
    """
    from practicum.agents.agent_resilience.records import results_json
    from practicum.agents.agent_resilience.team import run_resilience
    from practicum.study.report import write_atomically

    refuse_existing([out], force)
    asked = _tasks(tasks, grader)
    teams = [_team(word) for word in _words(topology)]
    guards = _words(defence)
    messages = _say_plan(tasks, asked, teams, seeds, guards, fault)
    voice, chat = _voice(
        llm,
        endpoint,
        model,
        sensitivity,
        skill,
        temperature,
        max_tokens,
        asked,
        api_key_env,
        concurrency,
        cache,
    )
    voice.heard = progress = Progress("messages", messages, at_least=bool(guards))
    judge = _judge(voice, unsafe_no_sandbox)
    made = _fault(fault, pm, pe, errors, via, chat)
    results = []
    try:
        for team in teams:
            with progress, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # told below, with the team's name
                result = run_resilience(
                    team,
                    asked,
                    voice,
                    made,
                    faulty=faulty,
                    defence=guards,
                    seeds=range(seeds),
                    max_calls_per_task=max_calls,
                    judge=judge,
                )
            results.append(result)
            _say(result)
        if chat is not None:
            typer.echo(str(chat.report()))
    finally:
        judge.close()
        if chat is not None:
            chat.close()
    if chat is None:
        typer.echo(
            "Simulated agents show what passing messages and redundancy do, not how good a model "
            "is; for a real one add --endpoint URL --model NAME."
        )
    if out is not None:
        settings = {
            "tasks": tasks,
            "fault": fault,
            "pm": pm,
            "pe": pe,
            "errors": errors,
            "via": via,
            "defence": guards,
            "seeds": seeds,
            "model": voice.name,
            "max_calls": max_calls,
        }
        text = results_json(results, settings)
        write_atomically(out, lambda p: p.write_text(text, encoding="utf-8"))
        typer.echo(f"Scores and threads: {out}")


@app.command()
def critical(
    tasks: Tasks = "humaneval:20",
    topology: Annotated[str, typer.Option(help=f"One of: {TOPOLOGIES}.")] = "hierarchical",
    fault: FaultName = "autotransform",
    pm: Pm = 1.0,
    pe: Pe = 0.2,
    defence: Defence = "",
    llm: Llm = None,
    endpoint: EndpointOption = None,
    model: Model = None,
    seeds: Seeds = 5,
    sensitivity: Sensitivity = None,
    skill: Skill = 0.75,
    max_calls: MaxCalls = 24,
    unsafe_no_sandbox: Unsafe = False,
    api_key_env: ApiKeyEnvOption = "OPENAI_API_KEY",
    concurrency: ConcurrencyOption = 8,
    cache: CacheOption = "default",
) -> None:
    """Make each agent faulty in turn: which one matters most?

    Example: practicum use agent-resilience critical --topology hierarchical --seeds 5
    """
    from practicum.agents.agent_resilience.team import criticality
    from practicum.errors import InputError

    asked, team = _tasks(tasks, None), _team(topology)
    if fault == "none":
        raise InputError("--fault none: name the fault each agent is to have in turn")
    voice, chat = _voice(
        llm, endpoint, model, sensitivity, skill, 0.0, 768, asked, api_key_env, concurrency, cache
    )
    guards = _words(defence)
    messages = team.calls * len(asked) * seeds * (1 + len(team.agents))
    voice.heard = progress = Progress("messages", messages, at_least=bool(guards))
    judge = _judge(voice, unsafe_no_sandbox)
    made = _fault(fault, pm, pe, "semantic", "ast", chat)
    assert made is not None
    try:
        with progress:
            table = criticality(
                team,
                asked,
                voice,
                made,
                defence=guards,
                seeds=range(seeds),
                max_calls_per_task=max_calls,
                judge=judge,
            )
    finally:
        judge.close()
        if chat is not None:
            chat.close()
    typer.echo(f"{team.name}, {len(asked)} tasks, {seeds} seeds, {fault}, agents: {voice.name}.")
    typer.echo("Accuracy lost when this agent is faulty, in points [95 % over tasks]:")
    for row in table.itertuples():
        span = f"[{100 * row.low:.1f}, {100 * row.high:.1f}]"
        typer.echo(f"  {row.agent:<12} {100 * row.drop:6.1f} {span:<16} {row.edits} edits")


@app.command()
def report(
    results: ResultsFile,
    html: Annotated[Path | None, typer.Option(help="Figures as one HTML page.")] = None,
    force: Force = False,
) -> None:
    """Print what a run found, and draw it.

    Example: practicum use agent-resilience report r.json --html r.html
    """
    from practicum.study.report import write_figures

    refuse_existing([html], force)
    found, settings = _results(results)
    typer.echo(", ".join(f"{k} {v if v != [] else 'none'}" for k, v in settings.items()))
    for result in found:
        _say(result)
    if html is not None:
        path = write_figures(_figures(found), html, f"agent-resilience: {results.name}")
        typer.echo(f"Figures: {path}")


@app.command()
def thread(
    results: Annotated[Path, typer.Argument(help="What run --out wrote, or a trace (JSON lines).")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("thread.html"),
    task: Annotated[
        str, typer.Option(help="Ids of tasks, separated by commas; all unless given.")
    ] = "",
    arm: Annotated[
        str, typer.Option(help="vanilla, faulty, defended, or 'vanilla, defended'.")
    ] = "faulty",
    topology: Annotated[str | None, typer.Option(help="One of the run's teams.")] = None,
    force: Force = False,
) -> None:
    """Write the messages of a run as one HTML page, injected lines marked.

    Example: practicum use agent-resilience thread r.json --task HumanEval/0 --out thread.html
    """
    from practicum.agents.agent_resilience.traces import thread_html
    from practicum.study.report import write_atomically

    refuse_existing([out], force)
    threads = _threads(results, task, arm, topology)
    page = thread_html(threads, f"Threads of {results.name}")
    write_atomically(out, lambda p: p.write_text(page, encoding="utf-8"))
    edits = sum(len(m.edits) for t in threads.values() for m in t)
    typer.echo(f"{len(threads)} threads, {edits} injected edits: {out}")


@app.command()
def inject(
    trace: Annotated[
        Path, typer.Argument(help="JSON lines: task_id, step, sender, receivers, content.")
    ],
    faulty: Annotated[str, typer.Option(help="The sender whose messages are made wrong.")],
    pm: Pm = 0.2,
    pe: Pe = 0.2,
    kind: Annotated[
        Literal["code", "number", "choice", "prose"], typer.Option(help="What messages hold.")
    ] = "prose",
    errors: ErrorKind = "semantic",
    compat: Annotated[
        bool, typer.Option("--official", help="As the published code does, slips included.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of what is touched.")] = 0,
    out: Annotated[Path, typer.Option(help="The corrupted trace.")] = Path("injected.jsonl"),
    html: Annotated[Path | None, typer.Option(help="A page of it, changed lines marked.")] = None,
    force: Force = False,
) -> None:
    """Corrupt one sender's messages in a recorded trace, at known rates, without a model.

    Example: practicum use agent-resilience inject trace.jsonl --faulty coder --pm 0.2 --pe 0.2
    --kind code --out injected.jsonl
    """
    from practicum.agents.agent_resilience.faults import AutoInject
    from practicum.agents.agent_resilience.traces import (
        inject_trace,
        read_trace,
        thread_html,
        trace_lines,
    )
    from practicum.study.report import write_atomically

    refuse_existing([out, html], force)
    fault = AutoInject(pm, pe, errors, compat="official" if compat else None)
    messages = read_trace(trace)
    made = inject_trace(messages, fault, faulty, kind=kind, seed=seed)
    write_atomically(out, lambda p: p.write_text(trace_lines(made), encoding="utf-8"))
    own = sum(m.sender == faulty for m in messages)
    hit = sum(bool(m.edits) for m in made)
    edits = sum(len(m.edits) for m in made)
    typer.echo(
        f"{trace.name}: {len(messages)} messages, {own} of them by {faulty}; {hit} corrupted with "
        f"{edits} edits: {out}"
    )
    if not edits:
        typer.echo("Note: 0 edits injected: this tests nothing; raise --pm or --pe.")
    if html is not None:
        page = thread_html(_by_task(made), f"{trace.name}, {faulty} faulty")
        write_atomically(html, lambda p: p.write_text(page, encoding="utf-8"))
        typer.echo(f"Page: {html}")


# --- from words to objects -----------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _tasks(words: str, grader: str | None) -> list[Task]:
    from practicum.agents.agent_resilience.tasks import arithmetic, humaneval, read_tasks
    from practicum.errors import InputError

    name, _, count = words.partition(":")
    makers = {"humaneval": humaneval, "arithmetic": arithmetic}
    if name in makers:
        if count and not count.isdecimal():
            raise InputError(f"--tasks {words}: {count!r} is no number", f"--tasks {name}:40")
        return makers[name](int(count)) if count else makers[name]()
    if not Path(words).exists():
        import difflib

        close = difflib.get_close_matches(name, makers, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}:40?" if close else "humaneval:N, arithmetic:N or a file"
        raise InputError(f"--tasks {words}: no such file", hint)
    return read_tasks(words, grader)


def _team(word: str) -> Topology:
    from practicum.agents.agent_resilience.topology import Topology
    from practicum.errors import InputError

    known = {
        "single": ("single", {}),
        "independent": ("independent", {}),
        "linear": ("linear", {}),
        "linear-2": ("linear", {"rounds": 2}),
        "flat": ("flat", {}),
        "flat-vote": ("flat", {"aggregate": "plurality"}),
        "hierarchical": ("hierarchical", {}),
    }
    if word not in known:
        import difflib

        close = difflib.get_close_matches(word, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {TOPOLOGIES}"
        raise InputError(f"--topology {word}: there is no such team", hint)
    name, options = known[word]
    return Topology.from_name(name, **options)


def _voice(
    llm: str | None,
    endpoint: str | None,
    model: str | None,
    sensitivity: float | None,
    skill: float,
    temperature: float,
    max_tokens: int,
    tasks: Sequence[Task],
    api_key_env: str,
    concurrency: int,
    cache: str,
) -> tuple[Voice, Any]:
    """Who speaks, and the model behind (None: simulated)."""
    from practicum.agents.agent_resilience.voices import ChatVoice, SimTeam
    from practicum.errors import InputError

    named = model is not None or endpoint is not None
    if llm == "sim" and named:
        raise InputError("--llm sim and --model or --endpoint: one of them", "leave one out")
    if llm == "model" and not named:
        raise InputError("--llm model: which?", "add --model local, or --endpoint URL --model NAME")
    if not named:
        if sensitivity is None and tasks[0].kind != "code":
            sensitivity = 0.7
        blank = [t.id for t in tasks if not t.answers]
        if blank:
            raise InputError(
                f"task {blank[0]!r} has no known right answer: simulated agents need one",
                "give answer (for programs a right one), or --endpoint URL --model NAME",
            )
        return SimTeam(skill=skill, sensitivity=sensitivity), None
    if endpoint is not None and model is None:
        raise InputError("--endpoint without --model: which model there?", "add --model NAME")
    from practicum.models.chat import open_chat

    chat = open_chat(
        model or "local",
        endpoint=endpoint,
        cache=cache,
        api_key_env=api_key_env,
        concurrency=concurrency,
    )
    return ChatVoice(chat, max_tokens, temperature), chat


def _judge(voice: Voice, unsafe: bool) -> ProgramJudge:
    from practicum.agents.agent_resilience.tasks import ProgramJudge
    from practicum.agents.agent_resilience.voices import SimTeam
    from practicum.sandbox import Sandbox

    judge = ProgramJudge()
    if unsafe:
        judge = ProgramJudge(Sandbox(cpu_s=1, wall_s=4, unsafe_no_sandbox=True))
    if isinstance(voice, SimTeam):
        voice.judge = judge
    return judge


def _fault(name: str, pm: float, pe: float, errors: str, via: str, chat: Any) -> Fault | None:
    from practicum.agents.agent_resilience.faults import AutoInject, AutoTransform, RoutingFault
    from practicum.errors import InputError

    if via == "llm" and chat is None:
        raise InputError("--via llm needs a model", "add --model, or leave --via ast")
    if name == "autoinject":
        return AutoInject(pm, pe, errors, via, chat)  # type: ignore[arg-type]
    if name == "autotransform":
        return AutoTransform(chat)
    return RoutingFault(pm) if name == "routing" else None


class _Saved(TypedDict):
    """A message of a run, as its file holds it."""

    sender: str
    receivers: list[str]
    content: str
    step: int
    original: str
    edits: list[dict[str, str | int]]
    note: str
    injected: str


class _Thread(TypedDict):
    arm: str
    task: str
    seed: int
    messages: list[_Saved]


_Row = TypedDict(
    "_Row",
    {"arm": str, "task": str, "seed": int, "score": float | None}
    | dict.fromkeys(("calls", "prompt_tokens", "completion_tokens", "edits"), int),
)


class _Run(TypedDict):
    topology: str
    faulty: str
    voice: str
    notes: list[str]
    rows: Annotated[list[_Row], Field(min_length=1)]
    threads: list[_Thread]


def _results(path: Path) -> tuple[list[Result], dict[str, Any]]:
    """Results of a run; a file that was edited by hand is refused where it is wrong."""
    from pydantic import ValidationError

    from practicum.agents.agent_resilience.records import read_results
    from practicum.errors import InputError

    hint = "name the file that practicum use agent-resilience run --out wrote"
    try:
        _check_runs(path)
        return read_results(path)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ", ".join(map(str, wrong["loc"]))
        raise InputError(f"{path}: runs, {where}: {wrong['msg']}", hint) from error
    except (AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not the results of a run ({error})", hint) from error


def _check_runs(path: Path) -> None:
    import contextlib
    import json

    from pydantic import TypeAdapter

    runs = None
    # what is no JSON object with runs, read_results refuses in its own words
    with contextlib.suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        runs = json.loads(path.read_bytes())["runs"]
    if runs is None:
        return
    TypeAdapter(list[_Run]).validate_python(runs)
    counts = [
        {name: value for name, value in row.items() if name not in ("arm", "task")}
        for run in runs
        for row in run["rows"]
    ]
    TypeAdapter(list[dict[str, float | None]]).validate_python(counts)


def _threads(path: Path, task: str, arm: str, topology: str | None) -> dict[str, Any]:
    from practicum.agents.agent_resilience.records import threads_of
    from practicum.agents.agent_resilience.traces import read_trace
    from practicum.errors import InputError

    if path.suffix in (".jsonl", ".ndjson"):
        return _by_task([m for m in read_trace(path) if not task or m.task_id in _words(task)])
    found, _ = _results(path)
    names = [r.topology for r in found]
    kept = [r for r in found if topology is None or r.topology.startswith(topology)]
    if not kept:
        raise InputError(f"--topology {topology}: not in {path.name}", f"there: {', '.join(names)}")
    threads: dict[str, Any] = {}
    for result in kept:
        threads |= threads_of(result, arm, _words(task))
    return threads


def _by_task(messages: Sequence[Any]) -> dict[str, list[Any]]:
    threads: dict[str, list[Any]] = {}
    for message in messages:
        threads.setdefault(message.task_id, []).append(message)
    return threads


# --- saying --------------------------------------------------------------------------------------


def _say_plan(
    words: str,
    tasks: Sequence[Task],
    teams: Sequence[Topology],
    seeds: int,
    guards: Sequence[str],
    fault: str,
) -> int:
    """What is asked, and how many messages that is without the defences."""
    kinds = ", ".join(sorted({t.grader if isinstance(t.grader, str) else "own" for t in tasks}))
    arms = (1 + bool(guards)) * (1 + (fault != "none"))
    calls = sum(t.calls for t in teams) * len(tasks) * seeds * arms
    typer.echo(
        f"{words}: {len(tasks)} tasks (grader {kinds}), {len(teams)} teams, {seeds} seeds, {arms} "
        f"arms: {calls:,} messages{', and what the defences ask' if guards else ''}."
    )
    return calls


def _points(interval: tuple[float, float, float]) -> str:
    mean, low, high = (100 * x for x in interval)
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _say(result: Result) -> None:
    accuracy, calls, tokens = result.accuracy, result.calls, result.tokens
    typer.echo(f"\n{result.topology} (faulty: {result.faulty}; agents: {result.voice})")
    edits = result.injected_edits
    for arm, interval in accuracy.items():
        spent = f", {tokens[arm]:,} tokens" if tokens[arm] else ""
        typer.echo(
            f"  {arm:<18} accuracy {_points(interval):<22} %   {calls[arm]:,} calls{spent}, "
            f"{edits[arm]:,} edits injected"
        )
    if "faulty" in accuracy:
        typer.echo(f"  lost to the fault  {_points(result.drop)} points (95 % over tasks)")
    if "defended" in accuracy:
        share = result.recovery
        if share[0] != share[0]:
            typer.echo("  recovered          undefined: nothing was lost")
        elif share[1] != share[1]:
            typer.echo(
                f"  recovered          {100 * share[0]:.1f} % of it (no interval: too little was "
                "lost; more tasks or seeds)"
            )
        else:
            typer.echo(f"  recovered          {_points(share)} % of it")
    for note in result.notes:
        typer.echo(f"  Note: {note}.")


def _figures(found: Sequence[Result]) -> dict[str, Any]:
    from practicum.study.plots import PALETTE, new_figure

    arms = list(dict.fromkeys(arm for r in found for arm in r.accuracy))
    bars = new_figure(
        "Accuracy of each team in %, with its 95 % interval over tasks.", y="accuracy, %"
    )
    for i, arm in enumerate(arms):
        having = [r for r in found if arm in r.accuracy]
        spans = [r.accuracy[arm] for r in having]
        bars.add_bar(
            x=[r.topology for r in having],
            y=[100 * s[0] for s in spans],
            name=arm,
            marker_color=PALETTE[i % len(PALETTE)],
            error_y=_error(spans),
        )
    bars.update_layout(barmode="group")
    figures = {"Accuracy by team": bars}
    lossy = [r for r in found if "faulty" in r.accuracy]
    if lossy:
        drops = new_figure(
            "Accuracy lost to one faulty agent, in points, with its 95 % interval over tasks.",
            y="drop, points",
        )
        spans = [r.drop for r in lossy]
        drops.add_bar(
            x=[f"{r.topology} ({r.faulty})" for r in lossy],
            y=[100 * s[0] for s in spans],
            error_y=_error(spans),
            marker_color=PALETTE[1],
        )
        figures["What the fault costs"] = drops
    return figures


def _error(spans: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    up = [100 * (high - mean) for mean, _, high in spans]
    down = [100 * (mean - low) for mean, low, _ in spans]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down}
