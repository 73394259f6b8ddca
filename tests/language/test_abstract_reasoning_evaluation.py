"""Asking models: prompts, pairing, what is counted, the report, the command line."""

import json
import re
import warnings

import numpy as np
import pytest

from practicum.errors import ChatError, InputError
from practicum.language.abstract_reasoning import (
    AbstractReport,
    Item,
    alphabet_note,
    compare_reports,
    conversation,
    evaluate,
    frequent_answer,
    make_items,
    nearest_example,
    read_items,
    remap,
    solve,
)
from practicum.models.chat import ChatServer, FunctionChat, OpenAIChat, Reply

QUESTION = re.compile(r"Question: (.*)")


def item_of(request):
    """The item that a conversation shows, as a model sees it."""
    talk = [m["content"] for m in request.messages if m["role"] != "system"]
    questions = [QUESTION.search(text)[1] for text in talk[::2]]
    answers = [text.removeprefix("Answer: The answer is ").removesuffix(".") for text in talk[1::2]]
    return Item(tuple(zip(questions, answers, strict=False)), questions[-1], "")


def solver_chat(name="solver"):
    """The exact solver behind the chat protocol: it sees text alone."""

    def answer(request):
        if len(request.messages) == 1:  # the probe of the alphabet
            return "no"
        found = solve(item_of(request))
        return "I cannot tell" if found is None else f"Answer: The answer is {found}."

    return FunctionChat(answer, name)


def rows(report, **conditions):
    frame = report.items
    for column, value in conditions.items():
        frame = frame[frame[column] == value]
    return frame


# --- prompts -------------------------------------------------------------------------------------


def test_a_conversation_holds_the_task_the_examples_and_the_query():
    item = make_items("nbr/add_base3", n=1, shots=3)[0]
    talk = conversation(item)
    assert [m["role"] for m in talk] == ["system", *["user", "assistant"] * 3, "user"]
    assert talk[-1]["content"].endswith(f"Question: {item.query}")
    assert "base 3" in talk[1]["content"]
    assert "step by step" not in talk[0]["content"]
    assert conversation(item, cot=True)[-1]["content"].endswith("Let's think step by step.")


def test_a_solver_behind_the_protocol_has_no_delta():
    report = evaluate(solver_chat(), "ec/fixed_bit", ["raw", "operand"], items=8, shots=20)
    assert report.deltas["operand"].delta == 0
    assert report.overall["raw"] == 1.0


def test_a_raw_only_responder_loses_what_it_has():
    """It knows 0 and 1 and nothing else."""

    def answer(item):
        return solve(item) if set(item.answer) <= set("01") and "map" not in item.meta else "?"

    report = evaluate(answer, "ec/fixed_bit,ec/var_bit", items=8, shots=20, maps=2)
    for kind in ("full", "operand", "operator"):
        d = report.deltas[kind]
        assert d.delta == d.raw == 1.0
        assert d.lost == d.items


@pytest.mark.parametrize("rule", [frequent_answer, nearest_example, lambda item: "?"])
def test_rules_without_symbols_have_no_delta(rule):
    report = evaluate(rule, "ec/var_list_cnt,ec/fixed_substr", items=10, shots=10, maps=2)
    assert all(d.delta == 0 for d in report.deltas.values())


def test_maps_are_averaged_before_pairing():
    state = iter([1, 0, 0] * 100)

    def answer(item):
        return item.answer if "map" not in item.meta or next(state) else "?"

    report = evaluate(answer, "ec/fixed_bit", ["raw", "full"], items=6, shots=20, maps=3)
    pairs = report.pairs("full")
    assert len(pairs) == 6
    assert np.allclose(pairs["mapped"], 1 / 3)


def test_undetermined_items_are_left_out_and_counted():
    report = evaluate(lambda item: item.answer, "ec/fixed_bitop", ["raw", "full"], items=20, maps=1)
    dropped = report.dropped("full")
    assert 0 < dropped < 20
    assert report.deltas["full"].items == 20 - dropped
    share = round(100 * dropped / 20)
    said = [
        words for words in report.sentences() if f"{dropped} items ({share} %) dropped" in words
    ]
    assert said
    assert said[0].endswith("more examples in each would.")


# --- what is counted -----------------------------------------------------------------------------


def test_unparsed_cut_empty_and_unanswered_are_told_apart():
    replies = iter(
        [
            Reply("The answer is 1."),
            Reply("no idea\nnone at all"),
            Reply("because\nbecause", finish_reason="length"),
            Reply(""),
            Reply("", finish_reason="error", error="timed out"),
        ]
    )
    chat = FunctionChat(lambda request: next(replies), "mixed")
    report = evaluate(chat, "bc/add", ["raw"], items=5)
    assert list(report.items["status"]) == ["answered", "unparsed", "cut", "empty", "no answer"]
    assert report.items["correct"].isna().tolist() == [False] * 4 + [True]
    assert report.unanswered["raw"] == 1
    assert report.unparsed["raw"] == pytest.approx(3 / 4)
    said = " ".join(report.sentences())
    assert "75.0 % of the replies no answer could be read" in said
    assert "1 requests got no reply; they are not counted" in said


def test_a_floored_model_is_not_called_abstract():
    report = evaluate(lambda item: "?", "ec/fixed_bit", ["raw", "full"], items=5)
    assert report.deltas["full"].relative is None
    assert any("Delta is uninformative" in words for words in report.sentences())


def test_a_perfect_model_is_at_the_ceiling():
    report = evaluate(lambda item: item.answer, "ec/fixed_bit", ["raw", "full"], items=5)
    assert any("at the ceiling" in words for words in report.sentences())


def test_readings_are_reported_side_by_side():
    chat = FunctionChat(lambda request: f"Answer: {solve(item_of(request))}", "lenient only")
    report = evaluate(chat, "ec/fixed_bit", ["raw"], items=5, shots=20)
    assert report.overall["raw"] == 0
    assert report.unparsed["raw"] == 1
    assert report.read("lenient").overall["raw"] == 1
    assert report.read("lenient").unparsed["raw"] == 0


def test_examples_are_left_out_openly_where_the_window_is_short():
    chat = solver_chat()
    chat.context_window = 1200
    report = evaluate(chat, "ec/fixed_bit", ["raw"], items=3, shots=30)
    shots = set(report.items["shots"])
    assert len(shots) == 1
    assert 1 < shots.pop() < 30
    assert any("examples are shown" in words for words in report.sentences())


def test_a_server_that_folds_case_is_found():
    assert "another case" in alphabet_note(
        FunctionChat(lambda r: r.messages[-1]["content"].rpartition(": ")[2].lower())
    )
    assert alphabet_note(FunctionChat(lambda r: r.messages[-1]["content"])) is None
    assert alphabet_note(FunctionChat(lambda r: "I am a model")) is None


def test_prose_and_items_without_operators_are_asked_as_they_can_be(tmp_path):
    path = tmp_path / "own.jsonl"
    records = [
        {"question": "How many eggs?", "answer": "#### 18"},
        {"query": "a b =", "answer": "c", "examples": [["a a =", "b"]]},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    report = evaluate(lambda item: item.answer, read_items(path)[0], maps=1)
    assert list(report.items["kind"]) == ["raw", "raw", "full"]
    assert any("operand or operator" in words for words in report.sentences())


def test_evaluation_refuses_bad_input():
    with pytest.raises(InputError, match="form 'half'"):
        evaluate(solve, "bc/add", ["half"])
    with pytest.raises(InputError, match="each form once"):
        evaluate(solve, "bc/add", ["raw", "raw"])
    with pytest.raises(InputError, match="maps=0"):
        evaluate(solve, "bc/add", maps=0)
    with pytest.raises(InputError, match="no items"):
        evaluate(solve, [])
    with pytest.raises(InputError, match="full was not asked"):
        evaluate(solve, "bc/add", ["raw"], items=2).pairs("full")


def test_a_dead_endpoint_is_an_error_and_no_score():
    with OpenAIChat("http://127.0.0.1:9/v1", "none") as chat, pytest.raises(ChatError):
        evaluate(chat, "bc/add", ["raw"], items=2)


# --- the report ----------------------------------------------------------------------------------


def test_a_report_survives_being_written(tmp_path):
    report = evaluate(solve, "ec/fixed_bit,ec/var_set", items=4, shots=20, maps=1)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(report.to_json()))
    again = AbstractReport.load(path)
    assert again.deltas == report.deltas
    assert again.sentences() == report.sentences()


@pytest.mark.parametrize("text", ["{}", "[]", "x", '{"items": [{}], "name": 1}'])
def test_bad_input_no_report(text, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError, match="no report of abstract-reasoning"):
        AbstractReport.load(path)


def test_two_models_are_compared_on_the_same_items():
    a, b = (evaluate(f, "ec/var_set", items=12, shots=20, maps=1) for f in (nearest_example, solve))
    table = compare_reports(a, b)
    assert table.loc["gamma raw", "difference"] > 0.3
    assert table.loc["gamma raw", "low"] > 0
    row = table.loc["delta full"]
    assert row.difference == 0
    # nothing differs in so many items; two Deltas may be up to 2 apart
    assert row.high == -row.low == pytest.approx(2 * (1 - 0.025 ** (1 / row["items"])))
    other = evaluate(solve, "ec/fixed_bit", items=3, shots=20, maps=1)
    with pytest.raises(InputError, match="share no item"):
        compare_reports(a, other)


# --- the command line ----------------------------------------------------------------------------


def call(*words):
    """The command in this process, output and errors."""
    from typer.testing import CliRunner

    from practicum.language.abstract_reasoning.command import app

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture(scope="module")
def server():
    with ChatServer() as running:
        yield running


def test_run_and_compare_against_an_endpoint(server, tmp_path, monkeypatch):
    """The one command of the docs, on a real OpenAI-compatible server."""
    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    words = [
        "run",
        "--endpoint",
        server.base_url,
        "--model",
        server.model,
        "--tasks",
        "ec/var_bit",
        "--items",
        2,
        "--shots",
        2,
        "--kinds",
        "raw,full",
        "--maps",
        1,
        "--max-tokens",
        12,
        "--cache",
        tmp_path / "c.sqlite",
    ]
    done = call(*words, "--out", tmp_path / "a.json", "--plot", tmp_path / "a.html")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert "Accuracy (Gamma) of SmolLM2-135M-Instruct" in done.output
    assert "5 requests" in done.output
    assert "4 of 4 replies\n" in done.stderr  # not a terminal: a plain line
    assert "\r" not in done.stderr
    assert (tmp_path / "a.html").stat().st_size > 1_000_000
    again = call(*words, "--out", tmp_path / "b.json")
    assert "5 of them (100 %) from the cache" in again.output
    both = call("compare", tmp_path / "a.json", tmp_path / "b.json")
    assert both.exit_code == 0, both.output + repr(both.exception)
    assert "+0.000 [-0.842, +0.842]" in both.output  # two items: nearly anything may be true


def test_files_are_not_overwritten_unasked(tmp_path):
    out = tmp_path / "it.jsonl"
    assert call("items", "--tasks", "ec/var_set", "--items", 2, "--out", out).exit_code == 0
    before = out.read_text()
    refused = call("items", "--tasks", "bc/add", "--out", out)
    assert isinstance(refused.exception, InputError)
    assert out.read_text() == before
    assert call("items", "--tasks", "bc/add", "--out", out, "--force").exit_code == 0


def test_written_items_can_be_asked_again(tmp_path):
    out = tmp_path / "it.jsonl"
    done = call(
        "items",
        "--tasks",
        "ec/var_set",
        "--items",
        3,
        "--shots",
        12,
        "--kind",
        "full",
        "--out",
        out,
    )
    assert "3 items of 1 sets, symbols full" in done.output
    items, _ = read_items(out)
    assert len(items) == 3
    assert len(items[0].examples) == 12


def test_power_says_what_a_run_can_see():
    done = call("power", "--sets", 14, "--items", 24)
    assert "336 paired items" in done.output
    assert "standard error of Delta 0.030" in done.output
    assert "0.084" in done.output


def test_bad_input_on_the_command_line(tmp_path):
    for words, said in (
        (["run", "--tasks", "nothing"], "no task set or category 'nothing'"),
        (["run", "--model", "locall"], "did you mean local"),
        (["run", "--data", tmp_path / "none.jsonl"], "no such file"),
        (["compare", tmp_path / "a.json", tmp_path / "b.json"], "no such file"),
        (["power", "--discordance", "1.5"], "discordance=1.5"),
    ):
        done = call(*words)
        assert isinstance(done.exception, InputError), (words, done.output, done.exception)
        assert said in str(done.exception)


def test_remapped_items_keep_their_hints():
    item = make_items("nbr/add_base4", n=1, shots=4)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new, _ = remap(item, "operand", np.random.default_rng(0))
    assert new.meta["hint"] == item.meta["hint"]
