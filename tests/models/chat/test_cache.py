"""CachedChat: what is kept, what is not, and who may share it."""

import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.models.chat import (
    CachedChat,
    CountedChat,
    FunctionChat,
    OpenAIChat,
    Reply,
    Request,
    Usage,
)
from practicum.models.chat.cache import default_path


def question(text="2 + 2?", **options):
    return Request([{"role": "user", "content": text}], **options)


class Counting:
    """A policy that counts how often it is asked and never says the same twice."""

    def __init__(self):
        self.asked = 0

    def __call__(self, request):
        self.asked += 1
        return Reply(f"answer {self.asked}", Usage(10, 2))


@pytest.fixture
def policy():
    return Counting()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.sqlite"


def test_second_run_asks_nothing(policy, path):
    asks = [question(str(n)) for n in range(1200)]  # more than one query's worth of keys
    with CachedChat(FunctionChat(policy, "m"), path) as chat:
        first = chat.replies(asks)
        assert chat.report().hit_rate == 0
    with CachedChat(FunctionChat(policy, "m"), path) as chat:
        second = chat.replies(asks)
        report = chat.report()
    assert policy.asked == 1200
    assert [reply.text for reply in first] == [reply.text for reply in second]
    assert all(reply.cached for reply in second)
    assert (report.requests, report.from_cache, report.hit_rate) == (1200, 1200, 1.0)
    assert (report.usage, report.saved) == (Usage(), Usage(12000, 2400))


def test_every_part_of_a_request_is_in_the_key(policy):
    chat = CachedChat(FunctionChat(policy), ":memory:")
    different = [
        question("other"),
        question(max_tokens=1),
        question(temperature=0.5, seed=1),
        question(temperature=0.5, seed=2),
        question(seed=1),
        question(stop=("x",)),
        question(json_schema={"type": "object"}),
        question(logprobs=True),
        Request([{"role": "system", "content": "2 + 2?"}]),
        Request([{"role": "user", "content": "2 + 2?"}] * 2),
    ]
    chat.replies([question(), *different])
    assert policy.asked == 1 + len(different)
    assert chat.replies([question()])[0].cached


def test_the_model_is_in_the_key(path):
    for name, text in (("one", "1"), ("two", "2")):
        with CachedChat(FunctionChat(lambda _, text=text: text, name), path) as chat:
            assert chat.replies([question()])[0].text == text
    urls = ("http://a/v1", "http://b/v1")
    ids = {OpenAIChat(url, m).identity for url in urls for m in ("m", "n")}
    ids.add(OpenAIChat(urls[0], "m", extra_body={"top_p": 0.5}).identity)
    assert len(ids) == 5


def test_what_differs_on_purpose_is_not_kept(policy, path):
    ask = [question(temperature=0.7)] * 2
    with CachedChat(FunctionChat(policy), path) as chat:
        assert len({reply.text for reply in [*chat.replies(ask), *chat.replies(ask)]}) == 4
        assert len(chat) == 0
    with CachedChat(FunctionChat(policy), path, sampled=True) as chat:
        assert len({reply.text for reply in [*chat.replies(ask), *chat.replies(ask)]}) == 1
    assert policy.asked == 5


def test_equal_requests_of_a_batch_are_asked_once(policy):
    chat = CachedChat(FunctionChat(policy), ":memory:")
    replies = chat.replies([question("a"), question("b"), question("a"), question("a")])
    assert [reply.text for reply in replies] == ["answer 1", "answer 2", "answer 1", "answer 1"]
    assert [reply.cached for reply in replies] == [False, False, True, True]
    assert policy.asked == 2


def test_errors_are_never_kept(path):
    answers = iter([Reply("", finish_reason="error", error="no"), Reply("4")])
    with CachedChat(FunctionChat(lambda _: next(answers)), path) as chat:
        assert chat.replies([question()] * 2)[1].finish_reason == "error"
        assert len(chat) == 0
        again = chat.replies([question()])[0]
        assert (again.text, again.cached) == ("4", False)
        assert chat.report().unanswered == 2


def test_replies_are_kept_though_a_later_request_fails(path):
    def fails_at_three(request):
        if request.messages[0]["content"] == "3":
            raise ZeroDivisionError
        return "ok"

    with CachedChat(FunctionChat(fails_at_three), path) as chat:
        with pytest.raises(ZeroDivisionError):
            chat.replies([question(str(n)) for n in range(5)])
        assert len(chat) == 3


def test_a_full_disk_is_told_and_ends_no_run(path):
    with CachedChat(FunctionChat(lambda _: "4" * 9000), path) as chat:
        pages = chat._database().execute("PRAGMA page_count").fetchone()[0]
        chat._database().execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.warns(UserWarning, match="not kept any more"):
            replies = chat.replies([question(str(n)) for n in range(5)])
        assert all(reply.answered for reply in replies)
        assert len(chat) < 5


def test_whole_reply_comes_back(path):
    given_reply = Reply(
        "Zürich \U0001f3d4", Usage(3, 4), "length", 0.25, logprobs=(("Z", -0.5), ("ü", -1.5))
    )
    with CachedChat(FunctionChat(lambda _: given_reply), path) as chat:
        chat.replies([question()])
        found = chat.replies([question()])[0]
    assert found.cached
    for part in ("text", "usage", "finish_reason", "latency_s", "logprobs", "error"):
        assert getattr(found, part) == getattr(given_reply, part)


texts = st.text(max_size=20)
requests = st.builds(
    question,
    texts,
    max_tokens=st.integers(1, 9),
    temperature=st.sampled_from([0, 0.0, 0.5]),
    seed=st.none() | st.integers(0, 3),
    stop=st.lists(texts, max_size=2),
    logprobs=st.booleans(),
)


@given(requests, requests)
def test_keys_are_equal_exactly_for_equal_requests(one, other):
    def parts(request):
        return (
            request.messages,
            request.max_tokens,
            float(request.temperature),
            request.seed,
            list(request.stop),
            request.logprobs,
        )

    assert (one.key == other.key) == (parts(one) == parts(other))


def test_threads_share_one_cache(path):
    chat = CachedChat(FunctionChat(lambda request: request.messages[0]["content"]), path)
    wrong = []

    def work(start):
        for n in range(start, start + 100):
            text = str(n % 120)
            reply = chat.replies([question(text)])[0]
            if reply.text != text:
                wrong.append((text, reply.text))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 160, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(chat) == 120
    assert chat.report().requests == 800


PROCESS = textwrap.dedent("""
    import sys
    from practicum.models.chat import CachedChat, FunctionChat, Request
    path, name = sys.argv[1:]
    with CachedChat(FunctionChat(lambda request: name, "m"), path) as chat:
        sys.stdin.readline()
        for n in range(300):
            text = chat.reply([{"role": "user", "content": str(n)}]).text
            again = chat.reply([{"role": "user", "content": str(n)}])
            assert again.cached
    print("done")
""")


def test_processes_share_one_cache(path):
    """Opened, created and written by two at the same moment."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        out, said = process.communicate(timeout=120)
        assert out.strip() == "done", said
    never = FunctionChat(lambda request: pytest.fail("asked"), "m")
    with CachedChat(never, path) as chat:
        kept = {chat.replies([question(str(n))])[0].text for n in range(300)}
        assert len(chat) == 300
    assert kept <= {"first", "second"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_connection(path):
    with CachedChat(FunctionChat(lambda request: "4"), path) as chat:
        chat.replies([question()])
        child = os.fork()
        if child == 0:
            kept = chat.replies([question()])[0].cached and chat.replies([question("new")])
            os._exit(0 if kept else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert chat.replies([question("new")])[0].cached


def answer_four(request):
    return "4"


def test_pickled_copy_finds_the_same_file(path):
    with CachedChat(FunctionChat(answer_four), path) as chat:
        chat.replies([question()])
        with pickle.loads(pickle.dumps(chat)) as copy:
            assert copy.replies([question()])[0].cached


def test_other_files_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("my notes, longer than the header of a database " * 10)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE mine (x)")
    newer = tmp_path / "newer.sqlite"
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 99")
    for file in (text, other, newer):
        before = file.read_bytes()
        with pytest.raises(InputError, match="is not a cache of replies") as caught:
            CachedChat(FunctionChat(answer_four), file)
        assert str(file) in caught.value.message
        assert file.read_bytes() == before


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        CachedChat(FunctionChat(answer_four), tmp_path)


def test_only_its_owner_reads_it(path):
    CachedChat(FunctionChat(answer_four), path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_default_path_can_be_moved(monkeypatch, tmp_path):
    assert default_path().endswith("chat.sqlite")
    monkeypatch.setenv("PRACTICUM_CHAT_CACHE", str(tmp_path / "mine.sqlite"))
    chat = CachedChat(FunctionChat(answer_four))
    assert chat.path == str(tmp_path / "mine.sqlite")
    chat.close()


def test_report_says_cost_in_a_sentence():
    class Priced(FunctionChat):
        def cost(self, usage):
            return usage.total / 100

    chat = CachedChat(Priced(lambda _: Reply("4", Usage(10, 2)), "m"), ":memory:")
    chat.replies([question("a"), question("b")])
    chat.replies([question("a")])
    assert str(chat.report()) == (
        "m: 3 requests, 1 of them (33 %) from the cache; 20 prompt + 4 completion tokens now, "
        "12 saved; cost 0.2400, 0.1200 saved"
    )


def test_report_counts_retries_and_what_got_no_answer(faults):
    import faulty_endpoint as f

    faults.script.extend([f.status(500), f.answer("4"), f.status(500), f.status(500)])
    inner = OpenAIChat(faults.url, "m", retries=1, backoff_s=0.01, concurrency=1)
    with CountedChat(inner) as chat:
        chat.replies([question("a"), question("b")])
        report = chat.report()
    assert (report.requests, report.unanswered, report.retries) == (2, 1, 2)
    assert "1 without an answer after 2 retries (500: 2)" in str(report)
