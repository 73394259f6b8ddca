"""Any OpenAI-compatible endpoint, with retries that can be seen and a key that cannot."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from practicum.errors import ChatError, InputError, MissingExtra
from practicum.models._endpoints import is_loopback, without_key
from practicum.models.chat._loop import LoopThread
from practicum.models.chat.protocol import Chat, Reply, Request, Usage
from practicum.models.chat.refusals import TRANSIENT, message_of, overflow, retry_after

if TYPE_CHECKING:
    import openai

FINISHED = {"stop", "length", "content_filter"}
GIVE_UP_AFTER = 20  # requests in a row that failed after all their retries
NO_KEY = "no-key"  # local servers ask for none, but the client sends one


@dataclass(eq=False)
class Trouble(Exception):
    """One attempt failed.

    Parameters
    ----------
    cause : str
        As it is counted: ``"429"``, ``"500"``, ``"timeout"``, ``"connection"``, ``"truncated"``…
    message : str
    again : bool
        Whether asking again may help.
    wait_s : float or None
        What the endpoint asked to wait.
    unreachable : bool
        No connection could be opened at all.
    """

    cause: str
    message: str
    again: bool = True
    wait_s: float | None = None
    unreachable: bool = False


class OpenAIChat(Chat):
    """A model behind an OpenAI-compatible endpoint: vLLM, Ollama, llama.cpp, or hosted.

    Requests of a batch run at once, at most `concurrency` of them over all threads that share the
    object. Rate limits (429), server errors (5xx), time-outs, dropped connections and replies
    that are not whole JSON are asked again after ``backoff_s 2^k (1 - u/2)`` seconds (u uniform
    in [0, 1), k the attempt) or after what ``Retry-After`` says; `retried` counts them by cause.

    The key is read from the environment at every request and kept nowhere else. It is sent to
    whatever `base_url` names.

    Parameters
    ----------
    base_url : str
        Up to and including ``/v1``: ``http://127.0.0.1:8000/v1``.
    model : str
        The name under which the endpoint knows it.
    api_key_env : str
        Name of the environment variable that holds the key; it may be unset for local servers.
    concurrency : int
        Requests under way at once.
    retries : int
        How often a request is asked again.
    timeout_s : float
        Seconds one attempt may take.
    backoff_s, longest_wait_s : float
        First wait, and the longest that is kept: an endpoint that asks to wait longer than
        `longest_wait_s` gets an error instead.
    price : (float, float) or None
        Money per million prompt and completion tokens; then reports say what a run has cost.
    extra_body : mapping or None
        Further fields of the request body (``{"top_p": 0.9}``); part of the cache key.

    Raises
    ------
    InputError
        A URL that is none or holds a key, a variable name that is none, numbers out of range.
    MissingExtra
        The `openai` package is not installed.

    Notes
    -----
    Ollama cuts prompts that are too long without a word; give it a ``num_ctx`` that holds yours.

    Examples
    --------
    >>> from practicum.models.chat import OpenAIChat
    >>> chat = OpenAIChat("http://127.0.0.1:8000/v1", "my-model", price=(0.15, 0.60))
    >>> chat
    OpenAIChat('http://127.0.0.1:8000/v1', 'my-model')
    >>> chat.cost(Usage(2_000_000, 500_000))
    0.6
    """

    holds_schema = True

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        retries: int = 4,
        timeout_s: float = 300.0,
        backoff_s: float = 0.5,
        longest_wait_s: float = 60.0,
        price: tuple[float, float] | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.base_url = checked_url(base_url)
        if not model:
            raise InputError("no model named", "name one with --model; the endpoint lists its own")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", api_key_env):
            # not repeated: it may be the key itself
            raise InputError(
                "api_key_env is not the name of an environment variable",
                "export the key under a name and give the name, for example OPENAI_API_KEY",
            )
        if concurrency < 1 or retries < 0 or not timeout_s > 0:
            raise InputError(
                f"concurrency={concurrency}, retries={retries}, timeout_s={timeout_s}: expected "
                "at least 1, at least 0 and more than 0"
            )
        self.name = model
        self.api_key_env = api_key_env
        self.concurrency = concurrency
        self.retries = retries
        self.timeout_s = timeout_s
        self.backoff_s = backoff_s
        self.longest_wait_s = longest_wait_s
        self.price = price
        self.extra_body = dict(extra_body or {})
        self.retried: Counter[str] = Counter()
        self._forget()

    def _forget(self) -> None:
        """The state that belongs to one process."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._client: openai.AsyncOpenAI | None = None
        self._slots: asyncio.Semaphore | None = None
        self._resume_at = 0.0  # no request before, on time.monotonic(): one's Retry-After is all's
        self._failed_in_a_row = 0
        self._has_answered = False
        self._limit_name = "max_tokens"
        self._window: tuple[int | None] | None = None  # asked for once
        self._jitter = random.Random()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"OpenAIChat({self.base_url!r}, {self.name!r})"

    @property
    def identity(self) -> str:
        extra = json.dumps(self.extra_body, sort_keys=True) if self.extra_body else ""
        return f"openai:{self.base_url}:{self.name}{extra}"

    @property
    def context_window(self) -> int | None:  # type: ignore[override]
        """Tokens the model holds, if the endpoint says so (vLLM and llama.cpp do)."""
        if self._window is None:
            self._window = (self._listed_window(),)
        return self._window[0]

    def cost(self, usage: Usage) -> float | None:
        """Money for these tokens, at `price`."""
        if self.price is None:
            return None
        per_prompt, per_completion = self.price
        return (usage.prompt_tokens * per_prompt + usage.completion_tokens * per_completion) / 1e6

    def models(self) -> list[str]:
        """Names of the models the endpoint offers; empty if it has no such list."""
        return [str(entry.get("id")) for entry in self._started().run(self._listed())]

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        found: list[Reply | None] = [None] * len(requests)
        for position, reply in self.arrivals(requests):
            found[position] = reply
        return [reply for reply in found if reply is not None]

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        requests = list(requests)
        yield from self._started().iterate(lambda: self._answer_all(requests))

    def close(self) -> None:
        if self._loop is not None and self._process == os.getpid():
            if self._client is not None:
                self._loop.run(self._client.close())
            self._loop.close()
        self._forget()

    def _started(self) -> LoopThread:
        if self._process != os.getpid():  # a fork: threads and sockets stayed with the parent
            self._forget()
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread()
                self._loop.run(self._connect())
            return self._loop

    async def _connect(self) -> None:
        openai = _openai()
        local = is_loopback(self.base_url)
        self._client = openai.AsyncOpenAI(
            base_url=self.base_url,
            api_key=self._key,
            max_retries=0,  # ours can be seen and counted
            timeout=openai.Timeout(self.timeout_s, connect=min(10.0, self.timeout_s)),
            # a proxy of the environment cannot reach this machine's own servers
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if local else None,
        )
        self._slots = asyncio.Semaphore(self.concurrency)

    async def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip()
        if not re.fullmatch(r"[\x21-\x7e]*", key):
            raise ChatError(
                f"the key in {self._variable()} holds spaces or letters that no key has",
                "export it again",
            )
        return key or NO_KEY

    async def _answer_all(self, requests: Sequence[Request]) -> AsyncIterator[tuple[int, Reply]]:
        todo = iter(enumerate(requests))
        done: asyncio.Queue[tuple[int, Reply] | None] = asyncio.Queue()

        async def work() -> None:
            for position, request in todo:
                done.put_nowait((position, await self._answer(request)))

        async def all_work() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.concurrency, len(requests))):
                        group.create_task(work())
            finally:
                done.put_nowait(None)

        everything = asyncio.create_task(all_work())
        try:
            while (item := await done.get()) is not None:
                yield item
            await everything
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            everything.cancel()

    async def _answer(self, request: Request) -> Reply:
        """One request with its retries; the failures in a row decide whether to go on."""
        started = time.perf_counter()
        assert self._slots is not None
        try:
            async with self._slots:
                reply = await self._attempts(request)
        except Trouble as trouble:
            return self._failed(trouble, time.perf_counter() - started)
        self._failed_in_a_row = 0
        self._has_answered = True
        return reply

    async def _attempts(self, request: Request) -> Reply:
        attempt = 0
        while True:
            await asyncio.sleep(max(0.0, self._resume_at - time.monotonic()))
            try:
                return await self._ask(request)
            except Trouble as trouble:
                never = trouble.unreachable and not self._has_answered
                allowed = min(self.retries, 1) if never else self.retries
                if not trouble.again or attempt >= allowed:
                    raise
                await self._wait(trouble, attempt)
                self.retried[trouble.cause] += 1
                attempt += 1

    async def _wait(self, trouble: Trouble, attempt: int) -> None:
        u = self._jitter.random()
        if trouble.wait_s is None:
            seconds = min(self.longest_wait_s, self.backoff_s * 2**attempt * (1 - u / 2))
            await asyncio.sleep(seconds)
            return
        if trouble.wait_s > self.longest_wait_s:
            raise Trouble(
                trouble.cause,
                f"{trouble.message} (asks to wait {trouble.wait_s:.0f} s, longer than "
                f"longest_wait_s={self.longest_wait_s:g})",
            )
        self._resume_at = max(self._resume_at, time.monotonic() + trouble.wait_s)
        # not all at the very moment the wait is over
        await asyncio.sleep(trouble.wait_s + u * min(self.backoff_s, 0.1 * trouble.wait_s))

    def _failed(self, trouble: Trouble, latency_s: float) -> Reply:
        """The reply that stands for no answer, unless nothing will be answered at all."""
        self._failed_in_a_row += 1
        if trouble.unreachable and not self._has_answered:
            raise ChatError(
                f"{self.base_url} cannot be reached: {trouble.message}",
                "start the server, or correct --endpoint",
            )
        if not trouble.again and not self._has_answered:
            raise ChatError(
                f"{self.base_url} refuses the request: {trouble.message}",
                "leave out what this endpoint does not know (json_schema, logprobs, images, seed)",
            )
        if self._failed_in_a_row >= GIVE_UP_AFTER:
            failed, self._failed_in_a_row = self._failed_in_a_row, 0
            raise ChatError(
                f"{self.base_url}: {failed} requests in a row got no answer, the last: "
                f"{trouble.message}",
                "lower --concurrency: the endpoint limits how often it may be asked"
                if trouble.cause == "429"
                else "see to the endpoint and run again; what a cache or recording holds is kept",
            )
        return Reply("", finish_reason="error", latency_s=latency_s, error=trouble.message)

    async def _ask(self, request: Request) -> Reply:
        """One attempt."""
        openai = _openai()
        assert self._client is not None
        ask, body = self._client.chat.completions.with_raw_response.create, self._body(request)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self.timeout_s):  # the client's own is for each packet
                raw = await ask(**body)
        except (openai.APITimeoutError, TimeoutError) as error:
            unreachable = type(error.__cause__).__name__ == "ConnectTimeout"
            said = "no connection" if unreachable else f"no reply within {self.timeout_s:g} s"
            raise Trouble("timeout", said, unreachable=unreachable) from None
        except openai.APIConnectionError as error:
            unreachable = type(error.__cause__).__name__ == "ConnectError"
            said = self._cleaned(f"{error.__cause__ or error}") or "the connection was dropped"
            raise Trouble("connection", said, unreachable=unreachable) from None
        except openai.APIStatusError as error:
            return await self._refused(
                error.status_code, error.body, error.response.headers, request
            )
        try:
            found = json.loads(raw.http_response.content)
            if not (isinstance(found, dict) and found.get("error") and not found.get("choices")):
                return reply_of(found, time.perf_counter() - started)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            said = self._cleaned(f"the reply is not whole JSON of a chat completion ({error})")
            raise Trouble("truncated", said) from None
        # routers answer 200 when the model behind them failed; the body then holds the status
        code = str(found["error"].get("code")) if isinstance(found["error"], dict) else ""
        status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500
        return await self._refused(status, found["error"], raw.headers, request)

    async def _refused(
        self, status: int, fields: Any, headers: Mapping[str, str], request: Request
    ) -> Reply:
        """The reply all the same, where the request could be put in other words."""
        trouble = await self._refusal(status, fields, headers, request)
        if trouble is None:
            return await self._ask(request)
        if trouble.cause == "content_filter":
            return Reply("", finish_reason="content_filter", error=trouble.message)
        raise trouble from None

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [dict(message) for message in request.messages],
            "temperature": request.temperature,
            self._limit_name: request.max_tokens,
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        if request.json_schema is not None:
            body["response_format"] = response_format(request.json_schema)
        if request.logprobs:
            # llama.cpp sends none unless at least one alternative is asked for
            body |= {"logprobs": True, "top_logprobs": 1}
        if self.extra_body:
            body["extra_body"] = self.extra_body
        return body

    async def _refusal(
        self, status: int, fields: Any, headers: Mapping[str, str], request: Request
    ) -> Trouble | None:
        """What a status means; None where the same request may be asked at once in other words.

        Raises
        ------
        ChatError
            Nothing this object asks will be answered.
        """
        said = self._cleaned(message_of(fields, f"status {status}"))
        given = fields if isinstance(fields, dict) else {}
        code = str(given.get("code") or given.get("type") or "")
        if over := overflow(fields, said):
            raise over.error(self.name, request.messages, said)
        if status in (401, 403):
            raise ChatError(f"{self.base_url} refuses the key ({status}): {said}", self._key_hint())
        if status == 402 or "insufficient_quota" in code:
            raise ChatError(f"{self.base_url}: the account is out of credit: {said}")
        if status == 404 or re.search("model_not_found|invalid_model", code):
            raise await self._unknown_model(said)
        if status in TRANSIENT or status >= 500:
            return Trouble(str(status), f"{status}: {said}", wait_s=retry_after(headers))
        if given.get("param") == "max_tokens" and self._limit_name == "max_tokens":
            self._limit_name = "max_completion_tokens"  # reasoning models know it by this name
            return None
        if "content_filter" in code:
            return Trouble("content_filter", said, again=False)
        return Trouble(str(status), f"{status}: {said}", again=False)

    async def _unknown_model(self, said: str) -> ChatError:
        try:
            names = [str(entry.get("id")) for entry in await self._listed()]
        except ChatError:
            names = []
        if not names:
            return ChatError(
                f"{self.base_url} knows no chat completions or no model {self.name!r}: {said}",
                "does the URL end in /v1? is the model loaded?",
            )
        close = difflib.get_close_matches(self.name, names, n=1, cutoff=0.5)
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        return ChatError(
            f"{self.base_url} has no model {self.name!r}; it has {shown}",
            f"did you mean {close[0]!r}?" if close else "name one of these with --model",
        )

    async def _listed(self) -> list[dict[str, Any]]:
        openai = _openai()
        assert self._client is not None
        try:
            raw = await self._client.models.with_raw_response.list()
            return [e for e in json.loads(raw.http_response.content)["data"] if isinstance(e, dict)]
        except openai.APIConnectionError as error:
            said = self._cleaned(str(error.__cause__ or error))
            raise ChatError(
                f"{self.base_url} cannot be reached: {said}",
                "start the server, or correct --endpoint",
            ) from None
        except (openai.APIStatusError, ValueError, LookupError, TypeError):
            return []

    def _listed_window(self) -> int | None:
        for entry in self._started().run(self._listed()):
            if entry.get("id") == self.name:
                meta = entry.get("meta") or {}
                found = (
                    entry.get("max_model_len") or meta.get("n_ctx") or entry.get("context_length")
                )
                return int(found) if found else None
        return None

    def _key_hint(self) -> str:
        if os.environ.get(self.api_key_env, "").strip():
            return f"the key in the environment variable {self._variable()} is not accepted there"
        return f"export the key in the environment variable {self._variable()}, or name another one"

    def _variable(self) -> str:
        """The variable's name, unless it may be a key given in its place."""
        shown = re.fullmatch(r"[A-Z][A-Z0-9_]{0,60}", self.api_key_env)
        return self.api_key_env if shown else "that api_key_env names"

    def _cleaned(self, text: str) -> str:
        return without_key(text, self.api_key_env)


def reply_of(body: Mapping[str, Any], latency_s: float) -> Reply:
    """A chat completion's JSON as a reply.

    Raises
    ------
    LookupError, TypeError, ValueError
        It is not one.

    Examples
    --------
    >>> reply_of({"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}],
    ...           "usage": {"prompt_tokens": 9, "completion_tokens": 1}}, 0.1).usage.total
    10
    """
    choice = body["choices"][0]
    message = choice["message"]
    refused = message.get("refusal")
    reason = choice.get("finish_reason") or "stop"
    usage = body.get("usage") or {}
    tokens = (choice.get("logprobs") or {}).get("content")
    return Reply(
        text=str(refused or _text_of(message.get("content"))),
        usage=Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)),
        finish_reason="content_filter" if refused else reason if reason in FINISHED else "stop",
        latency_s=latency_s,
        logprobs=tuple((t["token"], float(t["logprob"])) for t in tokens) if tokens else None,
    )


def _text_of(content: Any) -> str:
    """The text, which some endpoints send in parts, what was thought aloud among them."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        return "".join(str(part.get("text") or "") for part in parts)
    return str(content or "")


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The field that asks an endpoint for JSON of a schema."""
    # OpenAI's strict mode refuses schemas that leave room for further properties
    strict = schema.get("additionalProperties") is False
    return {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": dict(schema), "strict": strict},
    }


def checked_url(base_url: str) -> str:
    """The URL up to ``/v1`` without what people paste along with it.

    Raises
    ------
    InputError
        No http(s) URL, or one that holds a key.

    Examples
    --------
    >>> checked_url("http://127.0.0.1:8000/v1/chat/completions")
    'http://127.0.0.1:8000/v1'
    """
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        shown = base_url if "@" not in base_url and "?" not in base_url else "the endpoint"
        raise InputError(
            f"{shown} is not the URL of an endpoint", "for example http://127.0.0.1:8000/v1"
        )
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"the endpoint's URL at {host} holds a password or a query",
            "keys are read from the environment only: export one and name it with --api-key-env",
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtra(
            "endpoints are asked through the openai package, which is not installed",
            "pip install 'practicum[llm]'",
        ) from error
    return openai
