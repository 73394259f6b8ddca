"""What every language model is to Practicum: messages in, replies with their cost out."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from practicum.errors import InputError

Message = Mapping[str, Any]
"""``{"role": "system" | "user" | "assistant", "content": text or OpenAI content parts}``."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one reply, as the model counted them.

    Examples
    --------
    >>> (Usage(10, 2) + Usage(5, 1)).total
    18
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True)
class Request:
    """One question with everything that decides its answer; the key of the cache.

    Parameters
    ----------
    messages : sequence of messages
    max_tokens : int
    temperature : float
    seed : int or None
        Handed on to models that take one.
    stop : sequence of str
    json_schema : mapping or None
        The reply should be JSON of this schema, where the model can be held to it.
    logprobs : bool
        Ask for the log-probability of every token of the reply.

    Raises
    ------
    InputError
        No messages, a message without a role or content, `max_tokens` below 1 or a temperature
        below 0.

    Examples
    --------
    >>> request = Request([{"role": "user", "content": "2 + 2?"}])
    >>> request.deterministic, request.key[:12]
    (True, '304e249bc075')
    >>> Request([{"role": "user", "content": "2 + 2?"}], temperature=1.0).deterministic
    False
    """

    messages: Sequence[Message]
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int | None = None
    stop: Sequence[str] = ()
    json_schema: Mapping[str, Any] | None = None
    logprobs: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):  # a sequence of its characters would stop at each of them
            object.__setattr__(self, "stop", (self.stop,))
        if not self.messages or isinstance(self.messages, str | Mapping):
            raise InputError(
                "a request needs a list of messages",
                'for example [{"role": "user", "content": "2 + 2?"}]',
            )
        for number, message in enumerate(self.messages, 1):
            for part in ("role", "content"):  # an empty text is a text; agents do fall silent
                if message.get(part) is None:
                    raise InputError(f"message {number} of {len(self.messages)} has no {part}")
        if self.max_tokens < 1:
            raise InputError(f"max_tokens is {self.max_tokens}; expected at least 1")
        if not self.temperature >= 0:
            raise InputError(f"temperature is {self.temperature}; expected 0 or more")

    @property
    def deterministic(self) -> bool:
        """Whether the same reply may be expected again: temperature 0 or a seed."""
        return self.temperature == 0 or self.seed is not None

    @property
    def canonical(self) -> str:
        """The request as JSON with one spelling: equal requests give equal text."""
        content = {
            "messages": [dict(message) for message in self.messages],
            "max_tokens": int(self.max_tokens),
            "temperature": float(self.temperature),
            "seed": None if self.seed is None else int(self.seed),
            "stop": list(self.stop),
            "json_schema": self.json_schema,
            "logprobs": bool(self.logprobs),
        }
        try:
            return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
        except (TypeError, ValueError) as error:
            raise InputError(f"the request cannot be written as JSON: {error}") from error

    @property
    def key(self) -> str:
        """SHA-256 of the canonical request, hexadecimal."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """NumPy's scalars and arrays, frozen mappings: as JSON knows them."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


@dataclass(frozen=True)
class Reply:
    """What came back.

    Parameters
    ----------
    text : str
        Empty when there was no answer.
    usage : Usage
    finish_reason : str
        ``stop``, ``length`` (cut at max_tokens), ``content_filter``, or ``error``: no answer after
        all retries, with the reason in `error`. Callers count these; they are not wrong answers.
    latency_s : float
    cached : bool
        It came from the cache or a recording and cost nothing now.
    logprobs : tuple of (token, log-probability) or None
    error : str or None
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    latency_s: float = 0.0
    cached: bool = False
    logprobs: tuple[tuple[str, float], ...] | None = None
    error: str | None = None

    @property
    def answered(self) -> bool:
        """Whether there is a text to judge at all."""
        return self.finish_reason != "error" and bool(self.text.strip())

    def to_json(self) -> dict[str, Any]:
        """Everything but whether it was cached, as JSON holds it."""
        content = asdict(self)
        del content["cached"]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Reply:
        """The reply that :meth:`to_json` wrote down, marked as cached.

        Examples
        --------
        >>> Reply.from_json(Reply("4", Usage(10, 1)).to_json())  # doctest: +ELLIPSIS
        Reply(text='4', usage=Usage(prompt_tokens=10, completion_tokens=1), ... cached=True, ...)
        """
        logprobs = content.get("logprobs")
        return cls(
            text=content["text"],
            usage=Usage(**content.get("usage", {})),
            finish_reason=content.get("finish_reason", "stop"),
            latency_s=content.get("latency_s", 0.0),
            cached=True,
            logprobs=None if logprobs is None else tuple((t, p) for t, p in logprobs),
        )


class Chat(ABC):
    """A language model. Subclasses answer batches; the rest follows.

    Attributes
    ----------
    name : str
        The model's name, for reports.
    context_window : int or None
        Tokens it can hold, where known.
    holds_schema : bool
        Whether the model can be held to a JSON schema.
    retried : mapping
        How often a request was sent again, by cause; empty for models that never fail.
    """

    name: str
    context_window: int | None = None
    holds_schema: bool = False
    retried: Mapping[str, int] = MappingProxyType({})

    @property
    def identity(self) -> str:
        """What besides the request decides the reply: kind, name, weights; part of cache keys."""
        return f"{type(self).__name__}:{self.name}"

    def cost(self, usage: Usage) -> float | None:
        """Money these tokens cost; None where no price is known."""
        return None

    @abstractmethod
    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer every request, in order; independent ones at once where the model can.

        Raises
        ------
        ChatError
            If the model cannot be used at all: a dead endpoint, a wrong key, an unknown model, a
            prompt longer than the context window. A single request that fails after all retries is
            a :class:`Reply` with ``finish_reason="error"`` instead.
        """

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Position and reply of every request as they come, in any order.

        What has come is kept by a cache or shown by a progress bar although a later one fails.
        """
        yield from enumerate(self.replies(requests))

    def reply(self, messages: Sequence[Message], **options: Any) -> Reply:
        """Answer one conversation; options are those of :class:`Request`."""
        return self.replies([Request(messages, **options)])[0]

    def close(self) -> None:  # noqa: B027 - most models hold nothing
        """Let go of connections and memory."""

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
