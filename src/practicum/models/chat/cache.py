"""Replies kept on disk between runs, and what a run has asked, saved and cost."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from practicum.errors import InputError, reason_of
from practicum.models.chat.protocol import Chat, Reply, Request, Usage

FORMAT = 1  # of the file
BUSY_S = 60.0  # how long one process waits for another's write
KEYS_AT_ONCE = 500  # bound variables of one query


@dataclass(frozen=True)
class Report:
    """What a model has been asked since it was opened.

    Parameters
    ----------
    model : str
    requests, from_cache, unanswered, uncounted : int
        All; those that cost nothing now; those without an answer after all retries; those whose
        reply came without a count of its tokens, so that usage and cost lack them.
    usage, saved : Usage
        Tokens asked for now, and those that the cache made unnecessary.
    retried : mapping
        How often a request was sent again, by cause.
    seconds : float
        Sum of the latencies of the replies that were not cached.
    cost, cost_saved : float or None
        Money, if a price is known.

    Examples
    --------
    >>> print(Report("m", 10, 4, 1, Usage(600, 60), Usage(400, 40), {"429": 2}, cost=0.5))
    m: 10 requests, 4 of them (40 %) from the cache, 1 without an answer after 2 retries \
(429: 2); 600 prompt + 60 completion tokens now, 440 saved; cost 0.5000
    """

    model: str
    requests: int = 0
    from_cache: int = 0
    unanswered: int = 0
    usage: Usage = field(default_factory=Usage)
    saved: Usage = field(default_factory=Usage)
    retried: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    cost: float | None = None
    cost_saved: float | None = None
    uncounted: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the requests that the cache answered; 0 if there were none."""
        return self.from_cache / self.requests if self.requests else 0.0

    @property
    def retries(self) -> int:
        """Of all causes together."""
        return sum(self.retried.values())

    def __str__(self) -> str:
        plural = "" if self.requests == 1 else "s"
        said = [f"{self.requests:,} request{plural}"]
        if self.from_cache:
            said.append(f"{self.from_cache:,} of them ({self.hit_rate:.0%}) from the cache")
        if self.unanswered or self.retries:
            again = "retry" if self.retries == 1 else "retries"
            causes = ", ".join(f"{cause}: {n:,}" for cause, n in sorted(self.retried.items()))
            said.append(
                f"{self.unanswered:,} without an answer after {self.retries:,} {again}"
                + (f" ({causes})" if causes else "")
            )
        tokens = (
            f"{self.usage.prompt_tokens:,} prompt + {self.usage.completion_tokens:,} completion "
            f"tokens now"
        )
        if self.saved.total:
            tokens += f", {self.saved.total:,} saved"
        money = "" if self.cost is None else f"; cost {self.cost:,.4f}"
        if self.cost_saved:
            money += f", {self.cost_saved:,.4f} saved"
        if self.uncounted and self.cost is not None:  # an endpoint that counts none is not free
            replies = "1 reply" if self.uncounted == 1 else f"{self.uncounted:,} replies"
            money += f"; {replies} came without a count of tokens"
        return f"{self.model}: {', '.join(said)}; {tokens}{money}".replace("%)", " %)")


class CountedChat(Chat):
    """A model that remembers how much it has been asked.

    Parameters
    ----------
    inner : Chat
        The model behind; it is closed with this one.

    Examples
    --------
    >>> from practicum.models.chat import FunctionChat
    >>> chat = CountedChat(FunctionChat(lambda request: "yes", "agreeable"))
    >>> chat.reply([{"role": "user", "content": "Is it?"}]).text
    'yes'
    >>> print(chat.report())
    agreeable: 1 request; 0 prompt + 0 completion tokens now
    """

    def __init__(self, inner: Chat) -> None:
        self.inner = inner
        self.name = inner.name
        self.holds_schema = inner.holds_schema
        self._forget()

    def _forget(self) -> None:
        """The state that belongs to one process."""
        self._lock = threading.Lock()
        self._report = Report(self.name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def context_window(self) -> int | None:  # type: ignore[override]
        """Tokens the model can hold, where known."""
        return self.inner.context_window

    @property
    def retried(self) -> Mapping[str, int]:  # type: ignore[override]
        """Those of the model behind."""
        return self.inner.retried

    def cost(self, usage: Usage) -> float | None:
        return self.inner.cost(usage)

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        found = dict(self.arrivals(requests))
        return [found[position] for position in range(len(requests))]

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        for position, reply in self.inner.arrivals(requests):
            self._count(reply)
            yield position, reply

    def report(self) -> Report:
        """Requests, cache hits, tokens and cost since the model was opened."""
        return replace(
            self._report,
            retried=dict(self.retried),
            cost=self.cost(self._report.usage),
            cost_saved=self.cost(self._report.saved),
        )

    def close(self) -> None:
        self.inner.close()

    def _count(self, reply: Reply) -> None:
        with self._lock:
            old = self._report
            self._report = replace(
                old,
                requests=old.requests + 1,
                from_cache=old.from_cache + reply.cached,
                unanswered=old.unanswered + (reply.finish_reason == "error"),
                uncounted=old.uncounted
                + (reply.answered and not reply.cached and not reply.usage.total),
                usage=old.usage if reply.cached else old.usage + reply.usage,
                saved=old.saved + reply.usage if reply.cached else old.saved,
                seconds=old.seconds + (0.0 if reply.cached else reply.latency_s),
            )


class CachedChat(CountedChat):
    """A model whose replies are kept on disk, shared between runs, threads and processes.

    A reply is found again by everything that decides it: the model's identity (for files, their
    content) and the full request. Only requests of temperature 0 or with a seed are kept, for
    others differ each time on purpose. A request without an answer is never kept, and each reply
    is stored the moment it comes: an interrupted run goes on where it stopped.

    The file holds replies and hashes of the requests, no request and no key.

    Parameters
    ----------
    inner : Chat
    path : str or Path, optional
        An SQLite file; without one ``PRACTICUM_CHAT_CACHE`` or the platform's cache folder.
    sampled : bool
        Keep replies to requests of temperature above 0 without a seed too.

    Raises
    ------
    InputError
        The file cannot be opened, or is not a cache of replies.

    Examples
    --------
    >>> from practicum.models.chat import CachedChat, FunctionChat
    >>> chat = CachedChat(FunctionChat(lambda request: "4"), ":memory:")
    >>> question = [{"role": "user", "content": "2 + 2?"}]
    >>> chat.reply(question).cached, chat.reply(question).cached
    (False, True)
    >>> chat.report().hit_rate
    0.5
    """

    def __init__(
        self, inner: Chat, path: str | Path | None = None, *, sampled: bool = False
    ) -> None:
        self.path = str(path) if path else default_path()
        self.sampled = sampled
        super().__init__(inner)
        self._database()  # a file that is no cache is told of now

    def _forget(self) -> None:
        super()._forget()
        self._local = threading.local()
        self._shared = _open(self.path) if self.path == ":memory:" else None

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        keys = [self._key(request) for request in requests]
        known = self._read({key for key in keys if key})
        places: dict[str, list[int]] = {}  # equal requests of one batch are asked once
        for position, key in enumerate(keys):
            if key in known:
                self._count(known[key])
                yield position, known[key]
            else:
                places.setdefault(key or f"only {position}", []).append(position)
        missing = [positions[0] for positions in places.values()]
        if not missing:
            return
        asked = list(places.values())
        for index, reply in self.inner.arrivals([requests[p] for p in missing]):
            first, *others = asked[index]
            if (key := keys[first]) and reply.finish_reason != "error":
                self._write(key, reply)
            self._count(reply)
            yield first, reply
            for position in others:
                again = replace(reply, cached=reply.finish_reason != "error")
                self._count(again)
                yield position, again

    def __len__(self) -> int:
        """Replies in the file, of all models."""
        with _damage_named(self.path):
            return self._database().execute("SELECT count(*) FROM replies").fetchone()[0]

    def close(self) -> None:
        super().close()
        if (database := getattr(self._local, "database", None)) is not None:
            database.close()
            del self._local.database

    def _key(self, request: Request) -> str | None:
        if not (request.deterministic or self.sampled):
            return None
        return f"{self.identity}\n{request.key}"

    def _read(self, keys: set[str]) -> dict[str, Reply]:
        found: dict[str, Reply] = {}
        wanted = sorted(keys)
        for start in range(0, len(wanted), KEYS_AT_ONCE):
            some = wanted[start : start + KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            query = f"SELECT key, reply FROM replies WHERE key IN ({marks})"
            # closed, else a row that cannot be read keeps the file locked
            with _damage_named(self.path), closing(self._database().execute(query, some)) as rows:
                found |= {key: Reply.from_json(json.loads(reply)) for key, reply in rows}
        return found

    def _write(self, key: str, reply: Reply) -> None:
        row = (key, json.dumps(reply.to_json()), self.name, time.time())
        try:  # of two processes that asked the same at once the first is kept
            self._database().execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?)", row)
        # a full disk or a damaged file need not end a run that is paid for
        except sqlite3.DatabaseError as error:
            warnings.warn(f"{self.path}: replies are not kept any more: {error}", stacklevel=2)

    def _database(self) -> sqlite3.Connection:
        """This thread's connection in this process."""
        if self._shared is not None:
            return self._shared
        held = getattr(self._local, "database", None)
        if held is None or self._local.process != os.getpid():  # SQLite does not survive a fork
            self._local.database = held = _open(self.path)
            self._local.process = os.getpid()
        return held


def default_path() -> str:
    """``PRACTICUM_CHAT_CACHE``, or a file in the platform's cache folder."""
    if path := os.environ.get("PRACTICUM_CHAT_CACHE"):
        return path
    return str(Path(platformdirs.user_cache_dir("practicum", appauthor=False)) / "chat.sqlite")


def _open(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        path = str(Path(path).expanduser())
        _make(Path(path))
    database = None
    try:
        # in memory one connection serves all threads; SQLite itself is built to be called so
        database = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=path != ":memory:"
        )
        _prepare(database)
    except sqlite3.DatabaseError as error:
        if database is not None:
            database.close()  # else its locks stay with the file
        raise InputError(
            f"{path} is not a cache of replies ({error})", "name another file with --cache"
        ) from None
    return database


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """A file that opens may be damaged where its replies lie, and a reply may be none."""
    try:
        yield
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: the cache of replies is damaged ({reason_of(error)})",
            "remove it, or name another file with --cache",
        ) from error


def _make(path: Path) -> None:
    """The file, readable by its owner only: replies may hold what was asked."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise InputError(
            f"{path}: the cache cannot be written ({error.strerror})",
            "name another file with --cache",
        ) from None


def _prepare(database: sqlite3.Connection) -> None:
    """Tables and settings; several processes may do this at once."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    if version > FORMAT or (tables and "replies" not in tables):
        raise sqlite3.DatabaseError(
            f"format {version} of a newer Practicum" if version > FORMAT else "other tables"
        )
    deadline = time.monotonic() + BUSY_S
    while True:
        try:  # the switch to WAL does not wait for others by itself
            database.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    # a power cut may lose the last replies, never the file
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS replies "
        "(key TEXT PRIMARY KEY, reply TEXT NOT NULL, model TEXT NOT NULL, at REAL NOT NULL) "
        "WITHOUT ROWID"
    )
    if version < FORMAT:
        database.execute(f"PRAGMA user_version = {FORMAT}")
