"""Where results live: SQL through SQLAlchemy, an embedded SQLite file unless a URL says else.

A finished trial is one row, committed the moment it ends. Its primary key is the trial's key, so
a trial is in the store exactly once whatever is killed or run twice at the same time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import re
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from practicum.errors import StoreError
from practicum.study.evidence import Interval, Verdict
from practicum.study.spec import Outcome, Trial

SCHEMA_VERSION = 1
# what SQLite's, JSON's, NumPy's and our own decoding of a damaged row raise
DAMAGED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)

metadata = sa.MetaData()
meta = sa.Table(
    "practicum_meta",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
trials = sa.Table(
    "trials",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("slug", sa.String(100), nullable=False, index=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("params", sa.Text, nullable=False),
    sa.Column("metrics", sa.Text, nullable=False),
    sa.Column("curves", sa.LargeBinary),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("finished", sa.String(32), nullable=False),
)
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("slug", sa.String(100), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),  # verify | compare
    sa.Column("scale", sa.String(16), nullable=False),
    sa.Column("options", sa.Text, nullable=False),  # what it takes to build the study again
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),  # running | done | interrupted
    sa.Column("started", sa.String(32), nullable=False),
    sa.Column("ended", sa.String(32)),
)
run_trials = sa.Table(
    "run_trials",
    metadata,
    sa.Column("run_id", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(64), nullable=False),
)
failures = sa.Table(
    "failures",
    metadata,
    sa.Column("run_id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("traceback", sa.Text, nullable=False),
)
verdicts = sa.Table(
    "verdicts",
    metadata,
    sa.Column("run_id", sa.Integer, primary_key=True),
    sa.Column("claim", sa.String(32), primary_key=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
)


def default_url() -> str:
    """``PRACTICUM_STORE``, or a SQLite file in the platform's data folder."""
    if url := os.environ.get("PRACTICUM_STORE"):
        return url
    return str(Path(platformdirs.user_data_dir("practicum", appauthor=False)) / "results.sqlite")


def now() -> str:
    """UTC to the second, as text that sorts."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


class Store:
    """Open (and on first use create) a results store.

    Parameters
    ----------
    url : str or Path, optional
        A file name, ``sqlite:///file``, or ``postgresql://user@host/db``. Default:
        :func:`default_url`.

    Raises
    ------
    StoreError
        The URL is malformed, the database cannot be reached, or it was written by a newer
        version of Practicum.
    """

    def __init__(self, url: str | Path | None = None) -> None:
        self.url = _normalise(str(url or default_url()))
        self.engine = _engine(self.url)
        self._insert = sqlite.insert if self.engine.dialect.name == "sqlite" else postgresql.insert
        # compiled once: it runs for every trial
        self._insert_trial = self._compile(self._insert(trials).on_conflict_do_nothing())
        try:
            with self._decoding():
                self._create()
            self._write = self.engine.connect()  # one connection for the many small writes
        except SQLAlchemyError as error:
            self.engine.dispose()
            raise StoreError(
                f"cannot open the store {self}: {_reason(error)}",
                HINT,
            ) from error

    def _compile(self, statement: Any) -> str:
        return str(statement.compile(dialect=self.engine.dialect))

    def __str__(self) -> str:
        return sa.engine.make_url(self.url).render_as_string(hide_password=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections; the file may then be moved or deleted."""
        self._write.close()
        self.engine.dispose()

    def _create(self) -> None:
        """Tables on first use; two processes may get here at once, so the loser tries again."""
        for attempt in range(10):
            try:
                with self.engine.begin() as db:
                    there = set(sa.inspect(db).get_table_names())
                    if meta.name not in there and there & set(metadata.tables):
                        raise StoreError(
                            f"{self} is a database of something else: it has tables "
                            f"{', '.join(sorted(there & set(metadata.tables)))}",
                            "name another file or database with --store",
                        )
                    metadata.create_all(db)
                    db.execute(
                        self._insert(meta)
                        .values(key="schema", value=str(SCHEMA_VERSION))
                        .on_conflict_do_nothing()
                    )
                    found = db.scalar(sa.select(meta.c.value).where(meta.c.key == "schema"))
                break
            except SQLAlchemyError as error:
                raced = any(w in _reason(error) for w in ("exists", "locked", "duplicate"))
                if attempt == 9 or not raced:
                    raise
                time.sleep(0.05 * (attempt + 1))
        if int(found or 0) > SCHEMA_VERSION:
            raise StoreError(
                f"the store {self} was written by a newer Practicum (schema {found}, this one "
                f"reads up to {SCHEMA_VERSION})",
                "upgrade with: pip install -U practicum, or name another file with --store",
            )

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise StoreError(
                f"the store {self} holds a row that cannot be read: {error}",
                "the file is damaged: put a copy of it back, or name another with --store",
            ) from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self._decoding(), self.engine.connect() as db:
                yield db
        except SQLAlchemyError as error:
            raise StoreError(
                f"cannot read the store {self}: {_reason(error)}",
                "mend or restart the database, or name another with --store",
            ) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        try:
            self._revive()
            with self._write.begin():
                yield self._write
        except SQLAlchemyError as error:
            raise StoreError(
                f"cannot write to the store {self}: {_reason(error)}",
                "what finished before is kept; free space or mend the database and run again",
            ) from error

    def _revive(self) -> None:
        """A firewall or a restart may drop a server's connection that is held through a trial."""
        if self.engine.dialect.name == "sqlite":
            return
        try:
            self._write.exec_driver_sql("SELECT 1")
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        self._write.rollback()  # it opens anew with the next transaction

    # --- trials ----------------------------------------------------------------------------------

    def finished(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys are stored."""
        return {row.key for row in self._select([trials.c.key], keys)}

    def add(self, finished: Iterable[tuple[str, Outcome]]) -> None:
        """Store finished trials, in one transaction; one already there is left as it is."""
        finished_at = now()
        rows = [
            {
                "key": key,
                "slug": o.trial.slug,
                "dataset": o.trial.dataset,
                "arm": o.trial.arm,
                "seed": o.trial.seed,
                "params": json.dumps(dict(o.trial.params)),
                "metrics": json.dumps(o.metrics),
                "curves": _pack(o.curves),
                "seconds": o.seconds,
                "finished": finished_at,
            }
            for key, o in finished
        ]
        if rows:
            self._do(self._insert_trial, rows)

    def load(self, keys: Sequence[str]) -> list[Outcome]:
        """The stored outcomes, in the order of ``keys``; those not stored are left out."""
        found = {row.key: row for row in self._select(list(trials.c), keys)}
        with self._decoding():
            return [_outcome(found[key]) for key in keys if key in found]

    def forget(self, keys: Sequence[str]) -> None:
        """Remove these trials (``--fresh``)."""
        for part in _chunks(keys):
            self._do(sa.delete(trials).where(trials.c.key.in_(part)))

    def _select(self, columns: list[Any], keys: Sequence[str]) -> list[Any]:
        rows: list[Any] = []
        with self._reading() as db:
            for part in _chunks(keys):
                rows += db.execute(sa.select(*columns).where(trials.c.key.in_(part))).all()
        return rows

    # --- runs ------------------------------------------------------------------------------------

    def begin(
        self,
        slug: str,
        kind: str,
        scale: str,
        options: Mapping[str, Any],
        environment: Mapping[str, Any],
        keys: Sequence[str],
    ) -> int:
        """Record that a run over these trials has started; returns its number."""
        row = {
            "slug": slug,
            "kind": kind,
            "scale": scale,
            "options": json.dumps(options),
            "environment": json.dumps(environment),
            "status": "running",
            "started": now(),
        }
        with self._writing() as db:
            made = db.execute(sa.insert(runs).values(row)).inserted_primary_key
            run_id = int(made[0]) if made else 0
            cells = [{"run_id": run_id, "position": i, "key": k} for i, k in enumerate(keys)]
            if cells:
                db.exec_driver_sql(self._compile(sa.insert(run_trials)), cells)
        return run_id

    def end(self, run_id: int, status: str) -> None:
        """Record how a run ended: ``done`` or ``interrupted``."""
        self._do(sa.update(runs).where(runs.c.id == run_id).values(status=status, ended=now()))

    def fail(self, run_id: int, key: str, label: str, reason: str, traceback: str) -> None:
        """Record a trial that raised; the next run tries it again."""
        row = {
            "run_id": run_id,
            "key": key,
            "label": _storable(label),
            "reason": _storable(reason),
            "traceback": _storable(traceback),
        }
        self._do(self._insert(failures).on_conflict_do_nothing(), [row])

    def judge(self, run_id: int, judged: Mapping[str, Verdict]) -> None:
        """Store the verdicts of a run, replacing earlier ones."""
        rows = [
            {"run_id": run_id, "claim": claim, "status": v.status, "detail": _verdict_json(v)}
            for claim, v in judged.items()
        ]
        self._do(sa.delete(verdicts).where(verdicts.c.run_id == run_id))
        if rows:
            self._do(sa.insert(verdicts), rows)

    def run(self, run_id: int) -> Any | None:
        """One run, as a row."""
        with self._reading() as db:
            return db.execute(sa.select(runs).where(runs.c.id == run_id)).first()

    def count(self) -> int:
        """How many trials are stored."""
        with self._reading() as db:
            return int(db.scalar(sa.select(sa.func.count()).select_from(trials)) or 0)

    def latest_run(self, slug: str, kind: str, scale: str | None = None) -> Any | None:
        """The newest finished run of a method (of this scale, or of any), as a row."""
        query = sa.select(runs).where(
            runs.c.slug == slug, runs.c.kind == kind, runs.c.status == "done"
        )
        if scale:
            query = query.where(runs.c.scale == scale)
        with self._reading() as db:
            return db.execute(query.order_by(runs.c.id.desc()).limit(1)).first()

    def keys_of(self, run_id: int) -> list[str]:
        """The trials of a run, in the order of its grid."""
        query = sa.select(run_trials.c.key).where(run_trials.c.run_id == run_id)
        with self._reading() as db:
            return list(db.scalars(query.order_by(run_trials.c.position)))

    def failures_of(self, run_id: int) -> list[Any]:
        """The failed trials of a run: rows with ``key``, ``label``, ``reason``, ``traceback``."""
        with self._reading() as db:
            return list(db.execute(sa.select(failures).where(failures.c.run_id == run_id)))

    def verdicts_of(self, run_id: int) -> dict[str, Verdict]:
        """Claim id -> verdict of a run."""
        with self._reading() as db:
            rows = db.execute(sa.select(verdicts).where(verdicts.c.run_id == run_id)).all()
            return {row.claim: _verdict(row.detail) for row in rows}

    def _do(self, statement: Any, rows: list[dict[str, Any]] | None = None) -> None:
        with self._writing() as db:
            run = db.exec_driver_sql if isinstance(statement, str) else db.execute
            run(statement, rows)


def _normalise(url: str) -> str:
    """A plain file name becomes a SQLite URL; PostgreSQL goes through psycopg 3."""
    if "://" not in url:
        return f"sqlite:///{Path(url).expanduser().absolute()}"
    for scheme in ("postgres://", "postgresql://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url.removeprefix(scheme)
    return url


HINT = "--store takes a file name, sqlite:///FILE or postgresql://USER@HOST/DATABASE"


def _engine(url: str) -> sa.Engine:
    shown = re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)
    try:
        parsed = sa.engine.make_url(url)
        backend = parsed.get_backend_name()
        if backend not in ("sqlite", "postgresql"):
            raise StoreError(f"cannot use a {backend!r} store", HINT)
        if backend == "postgresql":
            # a server behind a firewall that drops packets would hang us for minutes
            wait = {} if "connect_timeout" in parsed.query else {"connect_timeout": 10}
            return sa.create_engine(parsed, pool_pre_ping=True, connect_args=wait)
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = sa.create_engine(parsed, connect_args={"timeout": 60}, paramstyle="named")
        # asks for the connection's arguments now: a malformed SQLite URL is found here
        engine.dialect.create_connect_args(parsed)
    except ImportError as error:
        if error.name == "psycopg":
            raise StoreError(
                "PostgreSQL needs psycopg", "install it with: pip install 'practicum[postgres]'"
            ) from error
        raise StoreError(
            f"cannot use the store URL {shown!r}: no driver {error.name}", HINT
        ) from error
    except OSError as error:
        raise StoreError(f"cannot create the folder of the store {shown}: {error}", HINT) from error
    except (SQLAlchemyError, ValueError) as error:
        raise StoreError(f"cannot read the store URL {shown!r}", HINT) from error
    sa.event.listen(engine, "connect", _sqlite_pragmas)
    return engine


def _sqlite_pragmas(connection: Any, _: Any) -> None:
    """WAL lets readers and a second run in; NORMAL survives a killed process."""
    cursor = connection.cursor()
    for pragma in ("busy_timeout=60000", "journal_mode=WAL", "synchronous=NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _reason(error: SQLAlchemyError) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _chunks(keys: Sequence[str], size: int = 500) -> Iterable[Sequence[str]]:
    return (keys[i : i + size] for i in range(0, len(keys), size))


def _pack(curves: Mapping[str, np.ndarray]) -> bytes | None:
    if not curves:
        return None
    buffer = io.BytesIO()
    # a prefix, because numpy's own parameters are names that a curve may have
    np.savez_compressed(buffer, **{f"curve {k}": v for k, v in curves.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


@lru_cache(maxsize=4096)  # a grid repeats few settings over many seeds
def _params(text: str) -> tuple[tuple[str, Any], ...]:
    return tuple(json.loads(text).items())


def _outcome(row: Any) -> Outcome:
    curves = {}
    if row.curves:
        with np.load(io.BytesIO(row.curves), allow_pickle=False) as packed:
            curves = {name.removeprefix("curve "): packed[name] for name in packed.files}
    trial = Trial(row.slug, row.dataset, row.arm, row.seed, _params(row.params))
    return Outcome(trial, json.loads(row.metrics), curves, row.seconds)


def _verdict_json(v: Verdict) -> str:
    fields = {**vars(v), "interval": vars(v.interval) if v.interval else None}
    return json.dumps(fields, default=lambda number: number.item())  # NumPy's


def _storable(text: str) -> str:
    """Any text: PostgreSQL takes no NUL, UTF-8 no lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _verdict(detail: str) -> Verdict:
    fields = json.loads(detail)
    if fields["interval"]:
        fields["interval"] = Interval(**fields["interval"])
    return Verdict(**fields)
