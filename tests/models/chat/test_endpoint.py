"""OpenAIChat against an endpoint that fails in every way we know of."""

import asyncio
import gc
import os
import pickle
import socket
import threading
import time

import faulty_endpoint as f
import pytest

from practicum.errors import ChatError, InputError
from practicum.models.chat import CachedChat, OpenAIChat, Request, Usage
from practicum.models.chat.endpoint import GIVE_UP_AFTER

QUESTION = [{"role": "user", "content": "2 + 2?"}]


@pytest.fixture
def open_endpoint(faults):
    """A chat on the faulty endpoint with short waits; closed at the end."""
    opened = []

    def make(**options):
        settings = {"backoff_s": 0.01, "timeout_s": 20.0, **options}
        opened.append(OpenAIChat(faults.url, "my-model", **settings))
        return opened[-1]

    yield make
    for chat in opened:
        chat.close()


def test_reply_says_text_usage_reason_and_latency(open_endpoint):
    reply = open_endpoint().reply(QUESTION)
    assert (reply.text, reply.usage, reply.finish_reason) == ("4", Usage(10, 2), "stop")
    assert reply.latency_s > 0
    assert not reply.cached
    assert reply.answered


def test_everything_asked_for_is_sent(faults, open_endpoint):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    chat = open_endpoint(extra_body={"top_p": 0.5})
    chat.reply(
        QUESTION,
        max_tokens=7,
        temperature=0.25,
        seed=3,
        stop=("x",),
        json_schema=schema,
        logprobs=True,
    )
    (body,) = faults.bodies
    assert body["model"] == "my-model"
    assert body["messages"] == QUESTION
    assert (body["max_tokens"], body["temperature"], body["seed"]) == (7, 0.25, 3)
    assert (body["stop"], body["logprobs"], body["top_p"]) == (["x"], True, 0.5)
    assert body["response_format"]["json_schema"]["schema"] == schema


def test_nothing_is_sent_that_was_not_asked_for(faults, open_endpoint):
    open_endpoint().reply(QUESTION)
    assert set(faults.bodies[0]) == {"model", "messages", "max_tokens", "temperature"}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (f.status(429, "slow down"), "429"),
        (f.status(408), "408"),
        (f.status(500), "500"),
        (f.status(503, "loading model"), "503"),
        (f.truncated, "truncated"),
        (f.not_json, "truncated"),
        (f.no_choices, "truncated"),
        (f.drop, "connection"),
        (f.cut_body, "connection"),
    ],
)
def test_a_passing_failure_is_asked_again_and_counted(faults, open_endpoint, fault, cause):
    faults.script.extend([fault, fault])
    chat = open_endpoint()
    assert chat.reply(QUESTION).text == "4"
    assert len(faults.seen) == 3
    assert chat.retried == {cause: 2}


@pytest.mark.parametrize("fault", [f.slow(1.5), f.dribble])
def test_a_slow_reply_is_asked_again(faults, open_endpoint, fault):
    faults.script.append(fault)
    chat = open_endpoint(timeout_s=0.5)
    assert chat.reply(QUESTION).text == "4"
    assert chat.retried == {"timeout": 1}


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("fault", [f.status(500, "broken"), f.truncated, f.drop])
def test_retries_are_bounded_and_end_in_a_counted_reply(faults, open_endpoint, fault, retries):
    faults.otherwise = fault
    chat = open_endpoint(retries=retries)
    reply = chat.reply(QUESTION)
    assert reply.finish_reason == "error"
    assert reply.text == ""
    assert not reply.answered
    assert reply.error
    assert len(faults.seen) == retries + 1
    assert sum(chat.retried.values()) == retries


def test_waits_grow_and_never_pass_the_longest(faults, open_endpoint):
    faults.otherwise = f.status(500)
    open_endpoint(backoff_s=0.1, longest_wait_s=0.3, retries=3).reply(QUESTION)
    waits = [b - a for a, b in zip(faults.times, faults.times[1:])]
    # backoff_s 2^k (1 - u/2), u in [0, 1): at least half of .1, .2, and of the longest .3
    assert all(wait >= least for wait, least in zip(waits, (0.05, 0.1, 0.2)))


@pytest.mark.parametrize("header", [{"Retry-After": "1"}, {"retry-after-ms": "400"}])
def test_retry_after_is_honoured(faults, open_endpoint, header):
    faults.script.append(f.status(429, headers=header))
    assert open_endpoint().reply(QUESTION).text == "4"
    first, second = faults.times
    asked = 1.0 if "Retry-After" in header else 0.4
    assert second - first >= asked


def test_one_retry_after_holds_all_requests_back(faults, open_endpoint):
    refused = threading.Event()

    def refuse(handler, body):
        f.status(429, headers={"retry-after-ms": "700"})(handler, body)
        refused.set()

    faults.script.append(refuse)
    chat = open_endpoint(concurrency=4)
    first = threading.Thread(target=chat.reply, args=(QUESTION,))
    first.start()
    refused.wait()
    time.sleep(0.1)  # the refusal is read; this request has not been asked before
    assert chat.reply(QUESTION).text == "4"
    first.join()
    assert len(faults.seen) == 3
    assert all(at - faults.times[0] >= 0.6 for at in faults.times[1:])


def test_a_wait_longer_than_the_longest_is_not_waited_for(faults, open_endpoint):
    faults.otherwise = f.status(429, "quota of the day", headers={"Retry-After": "3600"})
    reply = open_endpoint().reply(QUESTION)
    assert reply.finish_reason == "error"
    assert "asks to wait 3600 s" in reply.error
    assert len(faults.seen) == 1


def test_an_endpoint_that_stops_answering_ends_the_run(faults, open_endpoint):
    faults.otherwise = f.status(500, "out of memory")
    chat = open_endpoint(retries=0, concurrency=4)
    with pytest.raises(ChatError, match=f"{GIVE_UP_AFTER} requests in a row.*out of memory"):
        chat.replies([Request(QUESTION)] * 200)
    assert len(faults.seen) <= GIVE_UP_AFTER + 4


def test_rate_limits_without_end_name_the_concurrency(faults, open_endpoint):
    faults.otherwise = f.status(429, "3 requests a minute")
    with pytest.raises(ChatError, match="3 requests a minute") as caught:
        open_endpoint(retries=0).replies([Request(QUESTION)] * 50)
    assert "--concurrency" in caught.value.hint


def test_latency_is_that_of_the_attempt_that_succeeded(faults, open_endpoint):
    faults.script.append(f.status(429, headers={"retry-after-ms": "600"}))
    started = time.monotonic()
    reply = open_endpoint().reply(QUESTION)
    assert 0 < reply.latency_s <= time.monotonic() - started - 0.6


def test_failures_between_answers_do_not_end_the_run(faults, open_endpoint):
    for _ in range(GIVE_UP_AFTER):
        faults.script.extend([f.status(500), f.answer("4")])
    replies = open_endpoint(retries=0, concurrency=1).replies([Request(QUESTION)] * 40)
    assert sum(not reply.answered for reply in replies) == GIVE_UP_AFTER


def test_dead_endpoint_is_told_with_a_hint(no_key):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with OpenAIChat(url, "m", backoff_s=0.01) as chat:
        with pytest.raises(ChatError, match="cannot be reached") as caught:
            chat.reply(QUESTION)
        assert "--endpoint" in caught.value.hint
        with pytest.raises(ChatError, match="cannot be reached"):
            chat.models()


def test_unknown_host_is_a_dead_endpoint(no_key):
    with (
        OpenAIChat("http://no-such-host.invalid/v1", "m", backoff_s=0.01) as chat,
        pytest.raises(ChatError, match="cannot be reached"),
    ):
        chat.reply(QUESTION)


@pytest.mark.parametrize("code", [401, 403])
def test_wrong_key_names_the_variable_and_is_not_asked_again(faults, open_endpoint, key, code):
    faults.otherwise = f.status(code, f"Incorrect API key provided: {key}")
    with pytest.raises(ChatError, match="refuses the key") as caught:
        open_endpoint().replies([Request(QUESTION)] * 3)
    assert "OPENAI_API_KEY" in caught.value.hint
    assert "not accepted" in caught.value.hint
    assert len(faults.seen) <= 3


def test_missing_key_names_the_variable(faults, open_endpoint, no_key):
    faults.otherwise = f.status(401, "no key")
    with pytest.raises(ChatError) as caught:
        open_endpoint(api_key_env="MY_KEY").reply(QUESTION)
    assert "export the key in the environment variable MY_KEY" in caught.value.hint


def test_key_is_read_at_every_request(faults, open_endpoint, monkeypatch):
    chat = open_endpoint()
    for value in ("first-key", "second-key"):
        monkeypatch.setenv("OPENAI_API_KEY", value + "\n")
        chat.reply(QUESTION)
    sent = [headers["authorization"] for _, headers, _ in faults.seen]
    assert sent == ["Bearer first-key", "Bearer second-key"]


def test_key_that_no_header_can_carry_is_refused_without_showing_it(
    faults, open_endpoint, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ключ")
    with pytest.raises(ChatError, match="no key has") as caught:
        open_endpoint().reply(QUESTION)
    assert "ключ" not in str(caught.value)
    assert not faults.seen


def test_unknown_model_lists_and_suggests(faults):
    faults.otherwise = f.status(404, "The model `my-modle` does not exist.")
    with (
        OpenAIChat(faults.url, "my-modle") as chat,
        pytest.raises(ChatError, match="it has my-model, other-model") as caught,
    ):
        chat.reply(QUESTION)
    assert "did you mean 'my-model'?" in caught.value.hint


def test_url_without_v1_gets_a_hint(faults, open_endpoint):
    faults.models = []
    faults.otherwise = f.status(404, "Not Found")
    with pytest.raises(ChatError) as caught:
        open_endpoint().reply(QUESTION)
    assert "/v1" in caught.value.hint


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            "This model's maximum context length is 2048 tokens. However, your messages resulted "
            "in 3000 tokens. Please reduce the length of the messages.",
            {"code": "context_length_exceeded"},
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 3000 "
            "tokens (2500 in the messages, 500 in the completion).",
            {},
        ),
        (
            "request (3000 tokens) exceeds the available context size (2048 tokens)",
            {"type": "exceed_context_size_error", "n_prompt_tokens": 3000, "n_ctx": 2048},
        ),
        ("prompt is too long: 3000 tokens > 2048 maximum", {}),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2500 `inputs` tokens and "
            "500 `max_new_tokens`",
            {},
        ),
    ],
)
def test_context_overflow_says_how_many_tokens_over(faults, open_endpoint, message, fields):
    faults.otherwise = f.status(400, message, **fields)
    with pytest.raises(ChatError, match=r"3,000 tokens .* holds 2,048: 952 over"):
        open_endpoint().reply(QUESTION)
    assert len(faults.seen) == 1


def test_context_overflow_without_numbers_is_still_told(faults, open_endpoint):
    faults.otherwise = f.status(400, "too long", code="context_length_exceeded")
    with pytest.raises(ChatError, match="context window"):
        open_endpoint().reply(QUESTION)


def test_exhausted_credit_is_not_asked_again(faults, open_endpoint):
    faults.otherwise = f.status(429, "You exceeded your quota", code="insufficient_quota")
    with pytest.raises(ChatError, match="out of credit"):
        open_endpoint().reply(QUESTION)
    assert len(faults.seen) == 1


def test_what_an_endpoint_does_not_know_is_told_at_once(faults, open_endpoint):
    faults.otherwise = f.status(400, "response_format is not supported")
    with pytest.raises(ChatError, match="response_format is not supported") as caught:
        open_endpoint().reply(QUESTION, json_schema={"type": "object"})
    assert "json_schema" in caught.value.hint


def test_one_refused_request_among_answered_ones_is_counted(faults, open_endpoint):
    faults.script.extend([f.answer("4"), f.status(400, "a strange message"), f.answer("4")])
    replies = open_endpoint(concurrency=1).replies([Request(QUESTION)] * 3)
    assert [reply.finish_reason for reply in replies] == ["stop", "error", "stop"]
    assert "a strange message" in replies[1].error


def test_reasoning_models_get_their_name_for_the_limit(faults, open_endpoint):
    faults.script.append(
        f.status(400, "use max_completion_tokens", param="max_tokens", code="unsupported_parameter")
    )
    chat = open_endpoint()
    assert chat.reply(QUESTION, max_tokens=9).text == "4"
    assert chat.reply(QUESTION, max_tokens=9).text == "4"
    assert [body.get("max_completion_tokens") for body in faults.bodies] == [None, 9, 9]
    assert not chat.retried


def test_a_refusal_is_no_answer_of_the_task(faults, open_endpoint):
    faults.otherwise = lambda handler, _: f.reply(
        handler, 200, f.completion(None, refusal="I cannot help with that.")
    )
    reply = open_endpoint().reply(QUESTION)
    assert reply.finish_reason == "content_filter"
    assert reply.text == "I cannot help with that."


def test_a_filtered_prompt_is_a_reply_not_a_failure(faults, open_endpoint):
    faults.otherwise = f.status(400, "flagged by the policy", code="content_filter")
    reply = open_endpoint().reply(QUESTION)
    assert (reply.finish_reason, reply.text) == ("content_filter", "")
    assert "flagged" in reply.error
    assert len(faults.seen) == 1


def test_batch_comes_back_in_order_within_the_concurrency(faults, open_endpoint):
    faults.otherwise = f.echo
    texts = [str(number) for number in range(30)]
    chat = open_endpoint(concurrency=5)
    replies = chat.replies([Request([{"role": "user", "content": text}]) for text in texts])
    assert [reply.text for reply in replies] == texts
    assert 2 <= faults.most_under_way <= 5


def test_threads_share_the_bound(faults, open_endpoint):
    faults.otherwise = f.echo
    chat = open_endpoint(concurrency=3)
    ask = [Request(QUESTION)] * 10
    threads = [threading.Thread(target=chat.replies, args=(ask,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(faults.seen) == 30
    assert faults.most_under_way <= 3


def test_a_proxy_is_not_asked_for_this_machines_own_servers(open_endpoint, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert open_endpoint().reply(QUESTION).text == "4"


def test_usable_where_a_loop_runs_already(open_endpoint):
    """As in a notebook."""

    async def cell():
        return open_endpoint().reply(QUESTION).text

    assert asyncio.run(cell()) == "4"


def test_what_came_before_a_failure_is_kept(faults, open_endpoint, tmp_path, key):
    faults.script.extend([f.answer("1"), f.answer("2"), f.status(401, "revoked")])
    ask = [Request([{"role": "user", "content": str(n)}]) for n in range(5)]
    with CachedChat(open_endpoint(concurrency=1), tmp_path / "c.sqlite") as chat:
        with pytest.raises(ChatError, match="revoked"):
            chat.replies(ask)
        assert len(chat) == 2
        assert [reply.cached for reply in chat.replies(ask)] == [True, True, False, False, False]


def test_leaving_a_batch_early_stops_asking(faults, open_endpoint):
    faults.otherwise = f.echo
    chat = open_endpoint(concurrency=2)
    arrivals = chat.arrivals([Request(QUESTION)] * 200)
    next(arrivals)
    arrivals.close()
    assert chat.reply(QUESTION).text == "2 + 2?"  # still usable
    assert len(faults.seen) < 50


def test_survives_pickling_and_closing(open_endpoint):
    chat = open_endpoint()
    assert chat.reply(QUESTION).text == "4"
    chat.close()
    assert chat.reply(QUESTION).text == "4"
    with pickle.loads(pickle.dumps(chat)) as copy:
        assert copy.reply(QUESTION).text == "4"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_leaves_the_parents_connections_alone(faults, open_endpoint):
    chat = open_endpoint()
    assert chat.reply(QUESTION).text == "4"
    child = os.fork()
    if child == 0:
        answered = chat.reply(QUESTION).text == "4"
        chat.close()
        gc.collect()
        os._exit(0 if answered else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert chat.reply(QUESTION).text == "4"


def test_closing_ends_the_thread(open_endpoint):
    def ours():
        return [t for t in threading.enumerate() if t.name == "practicum-chat"]

    before = len(ours())
    chat = open_endpoint()
    chat.reply(QUESTION)
    assert len(ours()) == before + 1
    chat.close()
    assert len(ours()) == before


def test_context_window_and_models_come_from_the_endpoint(faults, open_endpoint):
    chat = open_endpoint()
    assert chat.models() == ["my-model", "other-model"]
    assert chat.context_window == 2048


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8000", "is not the URL"),
        ("ftp://host/v1", "is not the URL"),
        ("http://", "is not the URL"),
        ("http://host:port/v1", "is not the URL"),
        ("https://user:pw@host/v1", "holds a password or a query"),
        ("https://host/v1?api-key=abc", "holds a password or a query"),
    ],
)
def test_bad_urls(url, said):
    with pytest.raises(InputError, match=said) as caught:
        OpenAIChat(url, "m")
    assert "pw" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_bad_arguments():
    url = "http://127.0.0.1:1/v1"
    for options in ({"concurrency": 0}, {"retries": -1}, {"timeout_s": 0}):
        with pytest.raises(InputError, match="expected"):
            OpenAIChat(url, "m", **options)
    with pytest.raises(InputError, match="no model"):
        OpenAIChat(url, "")


def test_a_key_given_for_its_variable_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="not the name of an environment variable") as caught:
        OpenAIChat("http://127.0.0.1:1/v1", "m", api_key_env="sk-abc-123")
    assert "sk-abc-123" not in str(caught.value)


# --- replies in other dialects -------------------------------------------------------------------


def test_a_text_in_parts_is_put_together(faults, open_endpoint):
    """Some endpoints answer with a list of parts, thinking aloud among them."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "2 + 2 "},
        {"type": "text", "text": "is 4"},
        {"type": "text", "text": None},
    ]
    faults.script.append(f.answer(parts))
    assert open_endpoint().reply(QUESTION).text == "2 + 2 is 4"


def failure(**error):
    return lambda handler, _: f.reply(handler, 200, {"error": error})


def test_an_error_sent_as_a_success_is_the_error_it_says(faults, open_endpoint):
    """Routers answer 200 when the model behind them failed, and say so in the body."""
    busy = failure(code=429, message="the provider is busy")
    faults.script.extend([busy, failure(message="try again")])
    chat = open_endpoint()
    assert chat.reply(QUESTION).text == "4"
    assert chat.retried == {"429": 1, "500": 1}
    faults.otherwise = busy
    assert "the provider is busy" in chat.reply(QUESTION).error


def test_an_error_sent_as_a_success_that_will_not_pass_is_not_asked_again(faults, open_endpoint):
    faults.otherwise = failure(code=402, message="no credits left")
    with pytest.raises(ChatError, match="no credits left"):
        open_endpoint().reply(QUESTION)
    assert len(faults.seen) == 1


def test_a_cost_without_token_counts_is_no_cost(faults, open_endpoint):
    """An endpoint that counts no tokens is not free."""
    uncounted = {**f.completion("4"), "usage": None}
    faults.script.append(lambda handler, _: f.reply(handler, 200, uncounted))
    with CachedChat(open_endpoint(price=(1.0, 2.0)), ":memory:") as chat:
        chat.replies([Request(QUESTION), Request(QUESTION, seed=1), Request(QUESTION, seed=1)])
        assert chat.report().uncounted == 1
        assert str(chat.report()).endswith("; 1 reply came without a count of tokens")
