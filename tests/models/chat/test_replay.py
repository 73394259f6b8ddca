"""Recordings, and functions in a model's place."""

import json
import subprocess
import sys

import pytest

from practicum.errors import ChatError, InputError
from practicum.models.chat import FunctionChat, ReplayChat, Reply, Request, Usage


def question(text="2 + 2?", **options):
    return Request([{"role": "user", "content": text}], **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.jsonl"


@pytest.fixture
def recorded(path):
    said = {"2 + 2?": "4", "3 + 3?": "6"}
    inner = FunctionChat(lambda r: Reply(said[r.messages[0]["content"]], Usage(9, 1)), "adder")
    with ReplayChat(path, "record", inner) as chat:
        chat.replies([question(text) for text in said])
    return path


def test_recording_gives_identical_replies_twice(recorded):
    asks = [question("3 + 3?"), question("2 + 2?")]
    first, second = (ReplayChat(recorded, "strict").replies(asks) for _ in range(2))
    assert first == second
    assert [reply.text for reply in first] == ["6", "4"]
    assert all(reply.cached and reply.usage == Usage(9, 1) for reply in first)


def test_recording_gives_identical_replies_in_another_process(recorded):
    code = (
        "import sys; from practicum.models.chat import ReplayChat\n"
        "chat = ReplayChat(sys.argv[1], 'strict')\n"
        "print(chat.reply([{'role': 'user', 'content': '2 + 2?'}]).text, chat.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(recorded)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "4 adder", done.stderr


def test_line_is_keyed_by_the_hash_of_the_canonical_request(recorded):
    line = json.loads(recorded.read_text().splitlines()[0])
    assert line["key"] == question().key
    assert line["request"] == json.loads(question().canonical)
    assert line["reply"]["text"] == "4"


def test_strict_raises_for_what_is_not_recorded(recorded):
    chat = ReplayChat(recorded, "strict")
    with pytest.raises(ChatError, match=r"5 \+ 5\?") as caught:
        chat.replies([question(), question("5 + 5?")])
    assert str(recorded) in caught.value.message
    with pytest.raises(ChatError):
        chat.replies([question(max_tokens=1)])


def test_replay_without_a_model_counts_what_is_not_recorded(recorded):
    reply = ReplayChat(recorded).replies([question("5 + 5?")])[0]
    assert reply.finish_reason == "error"
    assert "holds no reply" in reply.error


def test_replay_with_a_model_asks_it_and_records_nothing(recorded):
    before = recorded.read_bytes()
    chat = ReplayChat(recorded, "replay", FunctionChat(lambda _: "ten"))
    assert [r.text for r in chat.replies([question(), question("5 + 5?")])] == ["4", "ten"]
    assert recorded.read_bytes() == before


def test_record_adds_only_what_is_missing(recorded):
    asked = []
    inner = FunctionChat(lambda r: asked.append(r) or "10", "adder")
    chat = ReplayChat(recorded, "record", inner)
    assert [r.text for r in chat.replies([question(), question("5 + 5?")])] == ["4", "10"]
    assert [r.text for r in chat.replies([question("5 + 5?")])] == ["10"]
    assert len(asked) == 1
    assert len(chat) == len(ReplayChat(recorded)) == 3


def test_draws_come_back_in_their_order(path):
    draws = iter("abc")
    chat = ReplayChat(path, "record", FunctionChat(lambda _: next(draws)))
    ask = question(temperature=1.0)
    assert [r.text for r in chat.replies([ask, ask])] == ["a", "b"]
    assert chat.replies([ask])[0].text == "c"
    again = ReplayChat(path, "strict")
    assert [r.text for r in again.replies([ask] * 4)] == ["a", "b", "c", "c"]


def test_errors_are_not_recorded(path):
    failing = FunctionChat(lambda _: Reply("", finish_reason="error", error="no"))
    ReplayChat(path, "record", failing).replies([question()])
    assert not path.exists()


@pytest.mark.parametrize("line", ["not json", "[]", '{"key": "a"}', '{"key": "a", "reply": 3}'])
def test_a_line_that_is_none_of_a_recording_is_named(recorded, line):
    with recorded.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 3"):
        ReplayChat(recorded)


def test_missing_recording_gets_a_suggestion(recorded):
    with pytest.raises(InputError, match="no such recording") as caught:
        ReplayChat(recorded.with_name("replys.jsonl"))
    assert "did you mean" in caught.value.hint
    assert "replies.jsonl" in caught.value.hint


def test_a_recording_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    chat = ReplayChat(tmp_path / "file" / "r.jsonl", "record", FunctionChat(lambda _: "4"))
    with pytest.raises(InputError, match="cannot be written"):
        chat.replies([question()])


def test_bad_arguments(path):
    with pytest.raises(InputError, match="mode is 'rec'"):
        ReplayChat(path, "rec")
    with pytest.raises(InputError, match="nothing to record"):
        ReplayChat(path, "record")


def test_function_sees_the_whole_request():
    seen = []
    chat = FunctionChat(lambda request: seen.append(request) or "ok", "policy")
    assert chat.reply([{"role": "user", "content": "x"}], max_tokens=3, seed=4).text == "ok"
    assert (seen[0].max_tokens, seen[0].seed) == (3, 4)
    assert chat.name == "policy"


def test_function_errors_go_through():
    def broken(request):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        FunctionChat(broken).replies([question()])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"messages": []}, "needs a list of messages"),
        ({"messages": "2 + 2?"}, "needs a list of messages"),
        ({"messages": [{"role": "user"}]}, "message 1 of 1 has no content"),
        ({"messages": [{"content": "a"}]}, "message 1 of 1 has no role"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
    ],
)
def test_bad_requests(options, said):
    with pytest.raises(InputError, match=said):
        Request(**{"messages": [{"role": "user", "content": "a"}], **options})


def test_a_single_stop_is_no_list_of_letters():
    assert question(stop="\n\n").stop == ("\n\n",)


def test_numpy_numbers_make_the_same_key():
    import numpy as np

    plain = question(max_tokens=5, temperature=0.5, seed=3)
    assert question(max_tokens=np.int64(5), temperature=np.float64(0.5), seed=np.int64(3)).key == (
        plain.key
    )
