"""Models that compute nothing: recorded replies, and a Python function in a model's place."""

from __future__ import annotations

import difflib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from practicum.errors import ChatError, InputError, plain
from practicum.models.chat.protocol import Chat, Reply, Request, Usage


class FunctionChat(Chat):
    """A Python policy in a model's place, for simulations and tests.

    Parameters
    ----------
    fn : callable
        ``fn(request)`` gives the text, or a :class:`~practicum.models.chat.Reply`. What it raises
        goes through.
    name : str, optional
        For reports; the function's own name without it.

    Examples
    --------
    >>> from practicum.models.chat import FunctionChat
    >>> parrot = FunctionChat(lambda request: request.messages[-1]["content"], "parrot")
    >>> parrot.reply([{"role": "user", "content": "hello"}]).text
    'hello'
    """

    def __init__(self, fn: Callable[[Request], str | Reply], name: str | None = None) -> None:
        self.fn = fn
        self.name = name or str(getattr(fn, "__name__", type(fn).__name__))

    def __repr__(self) -> str:
        return f"FunctionChat({self.name})"

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        return [reply for _, reply in self.arrivals(requests)]

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        for position, request in enumerate(requests):
            found = self.fn(request)
            yield position, found if isinstance(found, Reply) else Reply(found)


class ReplayChat(Chat):
    """Replies from a recording: the same numbers twice, in any process, without a model.

    A recording is a JSONL file, one ``{"key", "request", "reply", "model"}`` a line; `key` is the
    SHA-256 of the canonical request. Where a request was recorded several times (temperature
    above 0 without a seed), its replies come back in the order they were recorded, then the last
    again. Requests that got no answer are not recorded.

    Parameters
    ----------
    path : str or Path
    mode : {"replay", "record", "strict"}
        What a request that is not in the recording does: ``replay`` asks `inner`, or without one
        gives a reply with ``finish_reason="error"``; ``record`` asks `inner` and adds its reply to
        the file; ``strict`` raises.
    inner : Chat, optional
        The model behind; ``record`` needs one.

    Raises
    ------
    InputError
        A line that is not of a recording, no such file, or ``record`` without a model.

    Examples
    --------
    >>> import tempfile
    >>> from practicum.models.chat import FunctionChat, ReplayChat
    >>> question = [{"role": "user", "content": "2 + 2?"}]
    >>> path = tempfile.mkdtemp() + "/replies.jsonl"
    >>> ReplayChat(path, "record", FunctionChat(lambda request: "4")).reply(question).text
    '4'
    >>> ReplayChat(path, "strict").reply(question).text
    '4'
    """

    def __init__(
        self,
        path: str | Path,
        mode: Literal["replay", "record", "strict"] = "replay",
        inner: Chat | None = None,
    ) -> None:
        if mode not in ("replay", "record", "strict"):
            raise InputError(f"mode is {mode!r}", "expected replay, record or strict")
        if mode == "record" and inner is None:
            raise InputError("nothing to record: mode is record and there is no inner model")
        self.path = Path(path).expanduser()
        self.mode = mode
        self.inner = inner
        lines = read_recording(self.path, must_exist=mode != "record")
        names = [model for _, _, model in lines] or ["recording"]
        self.name = inner.name if inner else Counter(names).most_common(1)[0][0]
        self.holds_schema = inner.holds_schema if inner else False
        self.context_window = inner.context_window if inner else None
        self._asked: Counter[str] = Counter()
        self._replies: dict[str, list[Reply]] = {}
        for key, reply, _ in lines:
            self._replies.setdefault(key, []).append(reply)

    def __repr__(self) -> str:
        return f"ReplayChat({str(self.path)!r}, {self.mode!r})"

    @property
    def identity(self) -> str:
        return self.inner.identity if self.inner else f"recording:{self.path.resolve()}"

    @property
    def retried(self) -> Mapping[str, int]:  # type: ignore[override]
        """Those of the model behind."""
        return self.inner.retried if self.inner else {}

    def cost(self, usage: Usage) -> float | None:
        return self.inner.cost(usage) if self.inner else None

    def __len__(self) -> int:
        """Replies in the recording."""
        return sum(map(len, self._replies.values()))

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        found: list[Reply | None] = [self._recorded(request) for request in requests]
        missing = [position for position, reply in enumerate(found) if reply is None]
        if self.mode == "strict" or self.inner is None:
            for position in missing:
                found[position] = self._absent(requests[position])
        elif missing:
            for index, reply in self.inner.arrivals([requests[p] for p in missing]):
                found[missing[index]] = reply
                if self.mode == "record" and reply.finish_reason != "error":
                    self._add(requests[missing[index]], reply)
        return [reply for reply in found if reply is not None]

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()

    def _recorded(self, request: Request) -> Reply | None:
        recorded = self._replies.get(request.key)
        if not recorded:
            return None
        turn = self._asked[request.key]
        if turn >= len(recorded) and self.mode == "record" and not request.deterministic:
            return None  # a further draw, to be recorded too
        self._asked[request.key] += 1
        return recorded[min(turn, len(recorded) - 1)]

    def _add(self, request: Request, reply: Reply) -> None:
        line = {
            "key": request.key,
            "request": json.loads(request.canonical),
            "reply": reply.to_json(),
            "model": self.name,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # one write in append mode: lines of several processes do not mix
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, (json.dumps(line) + "\n").encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from None
        self._replies.setdefault(request.key, []).append(Reply.from_json(line["reply"]))
        self._asked[request.key] += 1

    def _absent(self, request: Request) -> Reply:
        last = str(request.messages[-1]["content"])
        shown = last if len(last) <= 80 else last[:80] + "…"
        said = f"{self.path} holds no reply to this request (last message: {shown!r})"
        if self.mode == "strict":
            raise ChatError(said, "record it anew with mode='record', or ask a model")
        return Reply("", finish_reason="error", error=said)


def read_recording(path: Path, must_exist: bool = True) -> list[tuple[str, Reply, str]]:
    """Key, reply and model of every line.

    Raises
    ------
    InputError
        No such file, or a line that is not of a recording.
    """
    if not path.is_file():
        if not must_exist and not path.exists():
            return []
        folder = path.parent if path.parent.is_dir() else Path()
        names = [p.name for p in folder.glob("*.jsonl")]
        close = difflib.get_close_matches(path.name, names, n=1)
        raise InputError(
            f"{path}: no such recording",
            f"did you mean {folder / close[0]}?" if close else "make one with mode='record'",
        )
    found = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
                reply = Reply.from_json(content["reply"])
                found.append((str(content["key"]), reply, str(content.get("model", "recording"))))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise InputError(
                    f"{path}, line {number}: not a line of a recording ({plain(repr(error), 200)})",
                    'expected {"key": …, "request": …, "reply": {"text": …}}',
                ) from None
    return found
