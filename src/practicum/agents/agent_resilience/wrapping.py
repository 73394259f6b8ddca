"""Make a node of somebody's own agent graph faulty: LangGraph, AG2 / AutoGen, or any function."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from practicum.agents.agent_resilience.faults import Fault, Injection, TaskKind
from practicum.errors import InputError, MissingExtra


class Tampering:
    """Applies a fault to whatever shape messages have, and keeps a log.

    Parameters
    ----------
    fault : Fault
    kind : {"code", "number", "choice", "prose"}
        What messages hold.
    seed : int
    key : str, optional
        Of a mapping: where its message is.

    Attributes
    ----------
    injections : list of Injection
        One a message that passed, touched or not.

    Raises
    ------
    InputError
        The fault does not act on messages; or a message has a shape in which no text is found.

    Examples
    --------
    >>> from practicum.agents.agent_resilience import AutoInject
    >>> tamper = Tampering(AutoInject(1.0, 1.0), kind="prose")
    >>> tamper({"messages": ["All is well"]}), tamper.edits
    ({'messages': ['None is well']}, 1)
    """

    def __init__(
        self, fault: Fault, kind: TaskKind = "prose", seed: int = 0, key: str | None = None
    ) -> None:
        if fault.idle("message"):
            raise InputError(
                f"{type(fault).__name__} does not act on messages: it would do nothing here",
                "use AutoInject, or a Fault of your own with a method message",
            )
        self.fault, self.kind, self.key = fault, kind, key
        self.rng = random.Random(seed)
        self.injections: list[Injection] = []

    @property
    def edits(self) -> int:
        """Edits made so far; 0 means that nothing was tested."""
        return sum(len(i.edits) for i in self.injections)

    def text(self, text: str) -> str:
        """A message given as text."""
        made = self.fault.message(text, self.rng, self.kind)
        self.injections.append(made)
        return made.text

    def __call__(self, message: Any) -> Any:
        """The message with its text changed; the original object is left alone."""
        if isinstance(message, str):
            return self.text(message)
        if message is None or (isinstance(message, (list, tuple)) and not message):
            return message  # nothing was said: a call of a tool, a node without an update
        if isinstance(message, Mapping):
            key = self._key(message)
            inner = message[key]
            if isinstance(inner, (list, tuple)) and inner and isinstance(inner[-1], Mapping):
                inner = type(inner)([*inner[:-1], self._part(inner[-1])])
            else:
                inner = self(inner)
            return {**message, key: inner}
        if isinstance(message, (list, tuple)):
            # a node returns what it adds to the thread: the last is its own word
            return type(message)([*message[:-1], self(message[-1])])
        if isinstance(getattr(message, "content", None), (str, list)):
            return self._object(message)
        if dataclasses.is_dataclass(message) and hasattr(message, "update"):  # LangGraph's Command
            return dataclasses.replace(message, update=self(message.update))  # type: ignore[type-var]
        raise InputError(
            f"a message of type {type(message).__name__} has no text to corrupt",
            "a message is a string, a mapping, a list, or has an attribute content",
        )

    def _key(self, message: Mapping[str, Any]) -> str:
        if self.key is not None:
            if self.key not in message:
                there = ", ".join(map(str, message)) or "none"
                raise InputError(f"the message has no key {self.key!r}", f"its keys: {there}")
            return self.key
        for key in ("messages", "content", "text"):
            if key in message:
                return key
        texts = [k for k, v in message.items() if isinstance(v, str)]
        if len(texts) == 1:
            return texts[0]
        there = ", ".join(map(str, message)) or "none"
        raise InputError("which value of the message is its text?", f"give key=; it has: {there}")

    def _part(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message in a list, or a part of one: ``{"role", "content"}``, ``{"type", "text"}``."""
        for key in ("content", "text"):
            if isinstance(part.get(key), str):
                return {**part, key: self.text(part[key])}
        return part  # an image

    def _object(self, message: Any) -> Any:
        content = message.content
        if isinstance(content, list):
            changed: Any = [self._part(p) if isinstance(p, Mapping) else p for p in content]
        else:
            changed = self.text(content)
        if hasattr(message, "model_copy"):  # pydantic: LangChain's messages
            return message.model_copy(update={"content": changed})
        made = copy.copy(message)
        made.content = changed
        return made


def wrap(
    node: Callable[..., Any],
    fault: Fault,
    *,
    kind: TaskKind = "prose",
    seed: int = 0,
    key: str | None = None,
) -> Callable[..., Any]:
    """A function that answers like ``node``, with the fault in what it returns.

    Works for plain functions, coroutines, LangGraph nodes (``state -> update``, or a ``Command``)
    and AutoGen's ``process_message_before_send`` hooks. The wrapped function has the attribute
    ``tampering``: its ``edits`` say whether the fault has landed at all.

    Parameters
    ----------
    node : callable
        Returns a string, a mapping, a list of messages or an object with ``content``.
    fault : Fault
    kind : {"code", "number", "choice", "prose"}
    seed : int
    key : str, optional
        Of a mapping: where its message is. By default ``messages``, ``content``, ``text``, or the
        only text.

    Raises
    ------
    InputError
        The fault does not act on messages; (when called) no text is found in what the node returns.

    Examples
    --------
    >>> from practicum.agents.agent_resilience import AutoInject
    >>> node = wrap(lambda question: "The sum is 12", AutoInject(1.0, 1.0), seed=1)
    >>> node("7 + 5?") != "The sum is 12", node.tampering.edits
    (True, 1)
    """
    tampering = Tampering(fault, kind, seed, key)

    async def awaited(said: Awaitable[Any]) -> Any:
        return tampering(await said)

    if inspect.iscoroutinefunction(node):

        @functools.wraps(node)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            return await awaited(node(*args, **kwargs))

    else:

        @functools.wraps(node)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            said = node(*args, **kwargs)
            return awaited(said) if inspect.isawaitable(said) else tampering(said)

    wrapped.tampering = tampering  # type: ignore[attr-defined]
    return wrapped


def ag2_middleware(fault: Fault, *, kind: TaskKind = "prose", seed: int = 0) -> Any:
    """Middleware that makes an AG2 agent faulty: ``Agent(..., middleware=[ag2_middleware(f)])``.

    Parameters
    ----------
    fault : Fault
    kind : {"code", "number", "choice", "prose"}
    seed : int

    Raises
    ------
    MissingExtra
        AG2 is not installed.

    Examples
    --------
    >>> from practicum.agents.agent_resilience import AutoInject
    >>> ag2_middleware(AutoInject(1.0, 1.0)).tampering.edits  # doctest: +SKIP
    0
    """
    try:
        from ag2.middleware import BaseMiddleware
    except ImportError as error:
        raise MissingExtra(
            "AG2 is not installed", "install it with: pip install 'practicum[agents]'"
        ) from error
    tampering = Tampering(fault, kind, seed)

    class Faulty(BaseMiddleware):
        async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
            response = await call_next(events, context)
            if response.message is not None and response.message.content:
                response.message.content = tampering.text(response.message.content)
            return response

    def factory(event: Any, context: Any) -> Any:
        return Faulty(event, context)

    factory.tampering = tampering  # type: ignore[attr-defined]
    return factory
