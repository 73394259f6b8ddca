"""The memory on disk: vectors in flat segments, what is known of them in SQLite, and a journal.

One folder ``NAME.vm``::

    manifest.json   for people and other programs; the truth is in meta.sqlite
    seg-0000.vec    65,536 rows of raw little-endian float32 or float16; the row is the slot
    meta.sqlite     slot -> id, label, group, source, time, weight, ...; secure_delete is on
    journal         what is being done, written and synced before it is done; slots, never vectors
    lock            held by the one process that may write
    derived/        search indexes made from the rows, with the generation they were made from

An operation is announced in the journal, done to the segments, committed in SQLite, and struck from
the journal.  After a crash at any point the next writer finishes an announced erasure and takes
back an announced addition that had not been committed.  SQLite keeps its rollback journal only
during a commit (no write-ahead log that would outlive an erasure).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory.segments import SEGMENT, Segments, shred, sync, sync_folder

FORMAT = 1
ALIVE, RETIRED, PRUNED = 1, 2, 3  # states of a row; a slot without a row is a hole
MODULUS = 1 << 256
SMALL = 1 << 26  # bytes up to which SQLite's file is simply rewritten after an erasure
COLUMNS = (
    "slot",
    "id",
    "label",
    "grp",
    "source",
    "time",
    "weight",
    "trust",
    "state",
    "key",
    "digest",
)
SCHEMA = """
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS rows (
  slot INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, label, grp TEXT, source TEXT, time TEXT,
  weight REAL NOT NULL, trust REAL NOT NULL, state INTEGER NOT NULL, key TEXT, digest TEXT NOT NULL,
  thumbnail BLOB);
CREATE TABLE IF NOT EXISTS snapshots (name TEXT PRIMARY KEY, time TEXT, generation INTEGER);
CREATE TABLE IF NOT EXISTS snapshot_rows (name TEXT, slot INTEGER, PRIMARY KEY (name, slot));
CREATE TABLE IF NOT EXISTS log (time TEXT, what TEXT, n INTEGER, generation INTEGER);
"""


@dataclass
class Row:
    """One row to be added; see the columns of :class:`Store`."""

    id: str
    label: str | int
    vector: np.ndarray
    group: str | None = None
    source: str | None = None
    time: str | None = None
    weight: float = 1.0
    key: str | None = None
    thumbnail: bytes | None = None


class _Lock:
    """One writer: the operating system drops the lock when the process dies."""

    def __init__(self, path: Path) -> None:
        self.handle = open(path, "a+b")  # noqa: SIM115 - held as long as the store is open
        try:
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(self.handle.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.handle.close()
            raise InputError(
                f"{path.parent}: another process is writing to this memory",
                "wait for it to end, or open the memory with read_only=True",
            ) from error

    def release(self) -> None:
        self.handle.close()


class Store:
    """Durable rows: append, erase, mark, take snapshots, compact.

    Parameters
    ----------
    path : Path or None
        A folder ``NAME.vm``; None keeps everything in memory.
    dim : int, optional
        Numbers a vector; needed for a new store, checked for an old one.
    dtype : {"float32", "float16"}, optional
        Float32 for a new store unless said otherwise.
    read_only : bool
        No lock is taken; changes of the writer are seen at the next :meth:`changed`.
    create : bool
        Make the folder if it is not there.

    Raises
    ------
    InputError
        No such store; a store of another width, kind of number or format; another writer.

    Examples
    --------
    >>> store = Store(None, dim=2)
    >>> _ = store.append([Row("a", "cat", np.float32([1, 0]))])
    >>> store.rows()[0][1:3]
    ('a', 'cat')
    """

    def __init__(
        self,
        path: str | Path | None,
        dim: int | None = None,
        dtype: str | None = None,
        *,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        self.path = Path(path) if path is not None else None
        self.read_only, self.lock = read_only, None
        if dtype not in (None, "float32", "float16"):
            raise InputError(f"dtype={dtype!r}", 'use "float32" or "float16"')
        if dim is not None and dim < 1:
            raise InputError(f"dim={dim}: at least 1")
        self.dim: int | None = dim
        self.dtype = dtype or "float32"
        self._prepare(create)
        try:
            self._connect()
            self._read_state(dim, dtype)
            if not read_only:
                self._recover()
        except sqlite3.DatabaseError as error:
            self.close()
            hint = "restore the folder from a copy"
            if read_only and (self.path / "meta.sqlite-journal").exists():
                hint = "a write was interrupted: open it once for writing, that mends it"
            raise InputError(f"{self.path}/meta.sqlite cannot be read ({error})", hint) from error
        except BaseException:
            self.close()
            raise

    # --- opening ---------------------------------------------------------------------------------

    def _prepare(self, create: bool) -> None:
        if self.path is None:
            return
        there = (self.path / "meta.sqlite").is_file()
        if not there and (self.read_only or not create):
            raise InputError(
                f"{self.path}: there is no memory here", "make one with: add ... --store NAME.vm"
            )
        if not there and self.path.exists():
            strange = [
                p.name
                for p in (self.path.iterdir() if self.path.is_dir() else [self.path])
                if p.name not in ("lock", "journal", "meta.sqlite-journal")
            ]
            if strange:
                raise InputError(
                    f"{self.path} exists and is no memory (it holds {strange[0]})",
                    "name a new folder",
                )
        if not self.read_only:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self.lock = _Lock(self.path / "lock")
            except OSError as error:
                raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error

    def _connect(self) -> None:
        if self.path is None:
            self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        else:
            file = self.path / "meta.sqlite"
            mode = "ro" if self.read_only else "rwc"
            uri = f"{file.absolute().as_uri()}?mode={mode}"
            self.db = sqlite3.connect(
                uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False
            )
        self.db.execute("PRAGMA secure_delete=ON")
        if self.read_only:
            return
        self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.execute("PRAGMA synchronous=EXTRA")  # the folder too, after the journal is gone
        self.db.execute("PRAGMA temp_store=MEMORY")
        self.db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        if not self.db.execute("SELECT COUNT(*) FROM state").fetchone()[0]:
            self._begin()

    def _begin(self) -> None:
        start = {
            "format": FORMAT,
            "generation": 0,
            "next": 0,
            "base": 0,
            "digest": "0" * 64,
            "dtype": self.dtype,
        }
        with self._commit():
            for name, value in start.items():
                self._set(name, value)

    def _read_state(self, dim: int | None, dtype: str | None) -> None:
        state = dict(self.db.execute("SELECT name, value FROM state"))
        state = {name: json.loads(value) for name, value in state.items()}
        if state.get("format") != FORMAT:
            raise InputError(
                f"{self.path}: a memory of format {state.get('format')}, {FORMAT} is read here"
            )
        self.state = state
        own = state.get("dim")
        if dim is not None and own is not None and dim != own:
            raise InputError(self.width_differs(dim))
        if dtype is not None and state["next"] and dtype != state["dtype"]:
            raise InputError(f"{self.path} holds {state['dtype']}, dtype={dtype!r} was asked for")
        self.dtype = state["dtype"] if state["next"] or dtype is None else dtype
        self.dim = own or dim
        self._map()

    def width_differs(self, dim: int) -> str:
        """What to say of vectors of another width."""
        made = self.state.get("encoder", {}).get("name")
        by = f", made by {made}" if made else ""
        return f"vectors of {dim} numbers, the memory holds {self.state['dim']}{by}"

    def _map(self) -> None:
        self.segments = None
        if self.dim:
            self.segments = Segments(self.dim, self.dtype, self.path, self.state["base"])
            if self.path:
                self._check_sizes()
                self.segments.resize(self.state["next"])

    def _check_sizes(self) -> None:
        slots = self.state["next"]
        for number in range(-(-slots // SEGMENT)):
            file, rows = self.segments.path(number), min(SEGMENT, slots - number * SEGMENT)
            size = file.stat().st_size if file.exists() else 0
            if size < rows * self.segments.row_bytes:
                raise InputError(
                    f"{file}: {size} bytes, {rows * self.segments.row_bytes} expected",
                    "the file was cut or lost; restore the folder from a copy",
                )

    def close(self) -> None:
        """Give the lock back."""
        if hasattr(self, "db"):
            self.db.close()
        if self.lock:
            self.lock.release()
            self.lock = None

    # --- small pieces ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _commit(self):
        """One transaction of SQLite's."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._step("to be committed")
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def _set(self, name: str, value: Any) -> None:
        self.db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, json.dumps(value)))

    def _advance(self, what: str, n: int, **changed: Any) -> dict[str, Any]:
        """Within a transaction: the new state, and a line of the log (no ids in it)."""
        state = {**self.state, **changed, "generation": self.state["generation"] + 1}
        for name, value in state.items():
            if self.state.get(name) != value:
                self._set(name, value)
        self.db.execute(
            "INSERT INTO log VALUES (?, ?, ?, ?)", (now(), what, n, state["generation"])
        )
        return state

    def _step(self, name: str) -> None:
        """A point between two durable steps; the tests end the process here."""

    def _journal(self, record: Mapping[str, Any] | None) -> None:
        if self.path is None:
            return
        with open(self.path / "journal", "wb") as handle:
            if record is not None:
                text = json.dumps(record)
                handle.write(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n".encode())
            sync(handle)
        sync_folder(self.path)
        self._step(f"journal {record['op'] if record else 'cleared'}")

    def _journalled(self) -> dict[str, Any] | None:
        """What was announced and not struck; a torn record announces nothing."""
        if self.path is None or not (self.path / "journal").is_file():
            return None
        text, _, digest = (self.path / "journal").read_text(errors="replace").partition("\n")
        if hashlib.sha256(text.encode()).hexdigest() != digest.strip():
            return None
        return json.loads(text)

    def _recover(self) -> None:
        """Finish what was announced to be erased, take back what was not committed."""
        if self.path is None:
            return
        record = self._journalled()
        if self.segments:
            self.segments.cut(self.state["next"])
            self.segments.resize(self.state["next"])
        self._drop_segments()
        if record and record["op"] == "erase":
            self.erase(record["slots"], record["what"])
        self._journal(None)
        self.write_manifest()

    def changed(self) -> bool:
        """Whether another process has written since; if so its state is read."""
        row = self.db.execute("SELECT value FROM state WHERE name = 'generation'").fetchone()
        if json.loads(row[0]) == self.state["generation"]:
            return False
        self._read_state(None, None)
        return True

    def check_writable(self) -> None:
        """Refuse where the memory was opened for reading."""
        if self.read_only:
            raise InputError(
                f"{self.path} was opened read-only", "open it without read_only to change it"
            )

    # --- reading ---------------------------------------------------------------------------------

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows in order of their slots, columns as in ``COLUMNS``; thumbnails apart."""
        found = self.db.execute(f"SELECT {', '.join(COLUMNS)} FROM rows ORDER BY slot").fetchall()
        record = self._journalled() if self.read_only else None
        if record and record["op"] == "erase":  # another process is at it: these are gone
            gone = set(record["slots"])
            found = [row for row in found if row[0] not in gone]
        return found

    def thumbnails(self, slots: Sequence[int] | np.ndarray) -> list[bytes | None]:
        """The small pictures of rows."""
        read = "SELECT thumbnail FROM rows WHERE slot = ?"
        found = [self.db.execute(read, (int(slot),)).fetchone() for slot in slots]
        return [row[0] if row else None for row in found]

    def snapshots(self) -> dict[str, tuple[str, int]]:
        """Name -> (time, number of rows)."""
        query = """SELECT s.name, s.time, COUNT(r.slot) FROM snapshots s
                   LEFT JOIN snapshot_rows r ON r.name = s.name GROUP BY s.name ORDER BY s.time"""
        return {name: (when, n) for name, when, n in self.db.execute(query)}

    def snapshot_slots(self, name: str) -> list[int]:
        """The slots a snapshot holds."""
        if name not in self.snapshots():
            there = ", ".join(self.snapshots()) or "none"
            raise InputError(f"there is no snapshot {name!r}", f"snapshots: {there}")
        query = "SELECT slot FROM snapshot_rows WHERE name = ? ORDER BY slot"
        return [slot for (slot,) in self.db.execute(query, (name,))]

    def log(self) -> list[tuple[str, str, int, int]]:
        """What was done: time, operation, rows, generation."""
        return self.db.execute(
            "SELECT time, what, n, generation FROM log ORDER BY rowid"
        ).fetchall()

    # --- writing ---------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> range:
        """Add rows; returns their slots. On return they are on the disk.

        Raises
        ------
        InputError
            An id is taken, the width differs, or the store is read-only.
        """
        self.check_writable()
        if not rows:
            return range(0)
        width = len(rows[0].vector)
        if self.dim is None:
            self.dim = width
            self.state["dim"] = width
            self._map()
        elif width != self.dim:
            raise InputError(self.width_differs(width))
        first = self.state["next"]
        slots = range(first, first + len(rows))
        vectors = np.stack([row.vector for row in rows]).astype(self.segments.dtype)
        digests = [row_digest(r, v) for r, v in zip(rows, vectors, strict=True)]
        digest = (int(self.state["digest"], 16) + sum(digests)) % MODULUS
        self._journal({"op": "add", "first": first, "n": len(rows)})
        try:
            self.segments.append(vectors)
            self._step("rows written")
            with self._commit():
                self._insert(slots, rows, digests)
                state = self._advance(
                    "add",
                    len(rows),
                    next=first + len(rows),
                    digest=f"{digest:064x}",
                    dim=self.dim,
                    dtype=self.dtype,
                )
                self._set("dim", self.dim)
                self._set("dtype", self.dtype)
        except sqlite3.IntegrityError as error:
            self._take_back(first)
            raise InputError(f"an id is in the memory already ({error})") from error
        except OSError as error:
            self._take_back(first)
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from error
        except BaseException:
            self._take_back(first)
            raise
        self.state = state
        self._step("committed")
        self._journal(None)
        self.write_manifest()
        return slots

    def _take_back(self, first: int) -> None:
        """Undo an addition that failed or was interrupted, unless it was committed just before."""
        if self.path is None:
            for number in range(len(self.segments.parts)):
                keep = max(0, first - number * SEGMENT)
                self.segments.parts[number] = self.segments.parts[number][:keep]
            self.segments.parts = [p for p in self.segments.parts if len(p)]
            self.segments.n = first
            return
        self._read_state(None, None)
        if self.segments:
            self.segments.cut(self.state["next"])
        self._journal(None)

    def _insert(self, slots: range, rows: Sequence[Row], digests: Sequence[int]) -> None:
        self.db.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, 1.0, 1, ?, ?, ?)",
            (
                (
                    *(slot, r.id, r.label, r.group, r.source, r.time, r.weight),
                    *(r.key, f"{digest:064x}", r.thumbnail),
                )
                for slot, r, digest in zip(slots, rows, digests, strict=True)
            ),
        )

    def erase(self, slots: Sequence[int], what: str = "erase") -> list[str]:
        """Overwrite the rows and delete what is known of them, in snapshots too.

        Returns
        -------
        list of str
            The snapshots that held one of them.
        """
        self.check_writable()
        slots = [int(s) for s in slots]
        self._journal({"op": "erase", "slots": slots, "what": what})
        taken = self._digest_of(slots)
        self.segments.zero(slots)
        self._step("rows zeroed")
        self.drop_derived()
        self._step("derived dropped")
        held: set[str] = set()
        with self._commit():
            for slot in slots:
                found = self.db.execute("SELECT name FROM snapshot_rows WHERE slot = ?", (slot,))
                held |= {name for (name,) in found}
                self.db.execute("DELETE FROM snapshot_rows WHERE slot = ?", (slot,))
                self.db.execute("DELETE FROM rows WHERE slot = ?", (slot,))
            digest = (int(self.state["digest"], 16) - taken) % MODULUS
            state = self._advance(what, len(slots), digest=f"{digest:064x}")
        self.state = state
        self._step("committed")
        if self.path and (self.path / "meta.sqlite").stat().st_size <= SMALL:
            self.vacuum()  # pages keep traces of rows that were moved before they were deleted
            self._step("rewritten")
        self._journal(None)
        self.write_manifest()
        return sorted(held)

    def _digest_of(self, slots: Sequence[int]) -> int:
        """The sum of the rows' digests, from SQLite: after a crash the vectors may be gone."""
        read = "SELECT digest FROM rows WHERE slot = ?"
        found = (self.db.execute(read, (slot,)).fetchone() for slot in slots)
        return sum(int(row[0], 16) for row in found if row)

    def update(self, what: str, changes: Mapping[int, Mapping[str, Any]]) -> None:
        """Set columns of rows (``trust``, ``state``, ``weight``), by slot."""
        self.check_writable()
        with self._commit():
            for slot, values in changes.items():
                names = ", ".join(f"{name} = ?" for name in values)
                self.db.execute(
                    f"UPDATE rows SET {names} WHERE slot = ?", (*values.values(), int(slot))
                )
            state = self._advance(what, len(changes))
        self.state = state
        self.write_manifest()

    def note(self, **values: Any) -> None:
        """Keep facts about the memory as a whole (its encoder, its temperature)."""
        self.check_writable()
        with self._commit():
            for name, value in values.items():
                self._set(name, value)
        self.state |= values
        self.write_manifest()

    def snapshot(self, name: str) -> int:
        """Remember which rows are alive now; returns how many.

        Raises
        ------
        InputError
            The name is taken or empty.
        """
        self.check_writable()
        if not name or name == "now":
            raise InputError(f"a snapshot cannot be called {name!r}")
        if name in self.snapshots():
            raise InputError(f"there is a snapshot {name!r} already", "use another name")
        with self._commit():
            stamp = (name, now(), self.state["generation"])
            self.db.execute("INSERT INTO snapshots VALUES (?, ?, ?)", stamp)
            self.db.execute(
                "INSERT INTO snapshot_rows SELECT ?, slot FROM rows WHERE state = ?", (name, ALIVE)
            )
            n = self.db.execute("SELECT changes()").fetchone()[0]
            state = self._advance("snapshot", n)
        self.state = state
        return n

    def drop_snapshot(self, name: str) -> None:
        """Forget a snapshot; rows that only it held go at the next :meth:`compact`."""
        self.check_writable()
        self.snapshot_slots(name)
        with self._commit():
            self.db.execute("DELETE FROM snapshot_rows WHERE name = ?", (name,))
            self.db.execute("DELETE FROM snapshots WHERE name = ?", (name,))
            state = self._advance("drop snapshot", 1)
        self.state = state

    def unreachable(self) -> list[int]:
        """Retired rows that no snapshot holds."""
        query = """SELECT slot FROM rows WHERE state = ?
                   AND slot NOT IN (SELECT slot FROM snapshot_rows) ORDER BY slot"""
        return [slot for (slot,) in self.db.execute(query, (RETIRED,))]

    def compact(self) -> int:
        """Close the holes: rows move up, in their order; returns the bytes given back."""
        self.check_writable()
        if self.segments is None:
            return 0
        before = self.size()
        self.drop_derived()
        kept = [slot for (slot,) in self.db.execute("SELECT slot FROM rows ORDER BY slot")]
        old, count = self.state["base"], len(self.segments.files())
        new = Segments(self.dim, self.dtype, self.path, old + count)
        self._journal({"op": "compact"})
        for start in range(0, len(kept), SEGMENT):
            new.append(self.segments[np.array(kept[start : start + SEGMENT], dtype=np.intp)])
            self._step("segment copied")
        with self._commit():
            # upwards in order, so that no slot is taken while its row still waits
            for table in ("rows", "snapshot_rows"):
                self.db.executemany(
                    f"UPDATE {table} SET slot = ? WHERE slot = ?",
                    ((to, slot) for to, slot in enumerate(kept) if to != slot),
                )
            base = old + count if self.path else 0
            state = self._advance("compact", len(kept), next=len(kept), base=base)
        self.state, self.segments = state, new
        self._step("committed")
        self._drop_segments()
        self.db.execute("VACUUM")
        self._journal(None)
        self.write_manifest()
        return before - self.size()

    def _drop_segments(self) -> None:
        """Files that are not in use: the old ones after compacting, or what a crash left."""
        if self.path is None:
            return
        if self.segments:
            self.segments.resize(self.state["next"])
        used = {p.name for p in self.segments.files()} if self.segments else set()
        for path in sorted(self.path.glob("seg-*.vec")):
            if path.name not in used:
                shred(path)

    # --- the folder ------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        """Every file of the memory."""
        from practicum.vision.visual_memory.residue import files_below

        return files_below(self.path) if self.path else []

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(p.stat().st_size for p in self.files())

    def vacuum(self) -> None:
        """Rewrite SQLite's file from what is in it."""
        self.db.execute("VACUUM")

    def derived_files(self) -> list[Path]:
        """Those of the search indexes."""
        found = (self.path / "derived").glob("*") if self.path else ()
        return sorted(p for p in found if p.is_file())

    def drop_derived(self) -> list[str]:
        """Overwrite and delete the search indexes; returns their names."""
        gone = self.derived_files()
        for path in gone:
            shred(path)
        return [p.name for p in gone]

    def write_manifest(self) -> None:
        """``manifest.json``: what the folder is, for people and other programs."""
        if self.path is None:
            return
        facts = {
            "what": "visual memory (practicum)",
            "format": FORMAT,
            "metric": "cosine",
            "dim": self.dim,
            "dtype": self.dtype,
            "rows_per_segment": SEGMENT,
            "first_segment": self.state["base"],
            "slots": self.state["next"],
            "rows": self.db.execute("SELECT COUNT(*) FROM rows").fetchone()[0],
            "generation": self.state["generation"],
            "digest": self.state["digest"],
            "encoder": self.state.get("encoder"),
        }
        temporary = self.path / ".manifest.json"
        temporary.write_text(json.dumps(facts, indent=2) + "\n")
        temporary.replace(self.path / "manifest.json")


def row_digest(row: Row, vector: np.ndarray) -> int:
    """SHA-256 of id, label and stored vector, as a number.

    The digest of a memory is the sum of its rows' modulo 2^256: it depends on the rows that are
    there and on nothing that once was.

    Parameters
    ----------
    row : Row
    vector : array of shape (d,)
        As stored.

    Raises
    ------
    TypeError
        The label is neither text nor a number.

    Examples
    --------
    >>> row = Row("a", "cat", np.zeros(1))
    >>> row_digest(row, np.zeros(1, "<f4")) == row_digest(row, np.zeros(1, "<f4"))
    True
    """
    head = json.dumps([row.id, row.label]).encode()
    return int.from_bytes(hashlib.sha256(head + b"\0" + vector.tobytes()).digest(), "big")


def now() -> str:
    """The time in UTC, to the second.

    Examples
    --------
    >>> len(now())
    20
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
