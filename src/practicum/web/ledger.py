"""What the results store says about runs, in few and small queries."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from practicum.errors import StoreError
from practicum.study.store import Store, failures, run_trials, runs, trials, verdicts

RANK = {"smoke": 0, "cpu": 1, "paper": 2}  # whose verdicts count for more


@dataclass(frozen=True)
class Run:
    """A row of the store's runs."""

    id: int
    slug: str
    kind: str
    scale: str
    options: Mapping[str, Any]
    environment: Mapping[str, Any]
    status: str
    started: str
    ended: str | None

    @property
    def seconds(self) -> float | None:
        """From the first line to the last; None while it goes on."""
        if self.ended is None:
            return None
        return (_time(self.ended) - _time(self.started)).total_seconds()

    @property
    def data(self) -> list[str]:
        """The files of a comparison."""
        return list(self.options.get("data", []))

    @property
    def chosen(self) -> dict[str, str]:
        """The options of a comparison, as they were given."""
        return {name: str(v) for name, v in self.options.items() if name != "data"}


@dataclass(frozen=True)
class Glance:
    """The verdicts of a method at the largest scale it has been verified at."""

    run_id: int
    scale: str
    ended: str
    verdicts: Mapping[str, str]


@dataclass(frozen=True)
class Progress:
    """How far a run has come, from the store alone."""

    total: int
    stored: int
    before: int  # of those, stored when the run began
    failed: int
    elapsed: float

    @property
    def done(self) -> int:
        """Trials that need not be waited for."""
        return min(self.total, self.stored + self.failed)

    @property
    def left(self) -> float | None:
        """Seconds to the end at the pace so far; None before the first trial has ended."""
        ran = self.done - self.before
        return self.elapsed / ran * (self.total - self.done) if ran > 0 else None


@dataclass(frozen=True)
class Cell:
    """One trial of a run's grid; without metrics it has not finished."""

    position: int
    key: str
    dataset: str
    arm: str
    seed: int
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    seconds: float
    finished: str


class Ledger:
    """Questions about runs, answered from an open store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self.store.engine.connect() as db:
                yield db
        except SQLAlchemyError as error:
            raise StoreError(f"cannot read the store {self.store}", str(error.args[0])) from error

    def _all(self, query: Any) -> Sequence[Any]:
        with self._reading() as db:
            return db.execute(query).all()

    def _number(self, query: Any) -> int:
        with self._reading() as db:
            return int(db.scalar(query) or 0)

    # --- runs ------------------------------------------------------------------------------------

    def glances(self) -> dict[str, Glance]:
        """Slug -> the verdicts that the home page shows."""
        newest = (
            sa.select(sa.func.max(runs.c.id))
            .where(runs.c.kind == "verify", runs.c.status == "done")
            .group_by(runs.c.slug, runs.c.scale)
        )
        columns = runs.c.id, runs.c.slug, runs.c.scale, runs.c.ended
        query = (
            sa.select(*columns, verdicts.c.claim, verdicts.c.status)
            .join(verdicts, verdicts.c.run_id == runs.c.id)
            .where(runs.c.id.in_(newest))
        )
        found: dict[str, Glance] = {}
        for row in self._all(query):
            shown = found.get(row.slug)
            if shown is None or RANK.get(row.scale, -1) > RANK.get(shown.scale, -1):
                shown = found[row.slug] = Glance(row.id, row.scale, row.ended or "", {})
            if shown.run_id == row.id:
                shown.verdicts[row.claim] = row.status  # type: ignore[index]
        return found

    def runs(self, slug: str | None = None, limit: int = 50, offset: int = 0) -> list[Run]:
        """The newest runs first."""
        query = sa.select(runs).order_by(runs.c.id.desc()).limit(limit).offset(offset)
        if slug:
            query = query.where(runs.c.slug == slug)
        return [_run(row) for row in self._all(query)]

    def run(self, run_id: int) -> Run | None:
        """One run, or None."""
        found = self._all(sa.select(runs).where(runs.c.id == run_id))
        return _run(found[0]) if found else None

    def newest_verified(self, slug: str) -> dict[str, Run]:
        """Scale -> the newest finished verification of a method."""
        query = sa.select(runs).where(
            runs.c.slug == slug, runs.c.kind == "verify", runs.c.status == "done"
        )
        newest = {row.scale: _run(row) for row in self._all(query.order_by(runs.c.id))}
        return dict(sorted(newest.items(), key=lambda item: -RANK.get(item[0], -1)))

    def last_id(self) -> int:
        """The number of the newest run."""
        return self._number(sa.select(sa.func.max(runs.c.id)))

    def begun_after(
        self, last: int, slug: str, kind: str, scale: str, options: Mapping[str, Any]
    ) -> list[int]:
        """Runs of this kind with these options that began after the run ``last``."""
        query = sa.select(runs.c.id, runs.c.options).where(
            runs.c.id > last, runs.c.slug == slug, runs.c.kind == kind, runs.c.scale == scale
        )
        rows = self._all(query.order_by(runs.c.id))
        return [row.id for row in rows if json.loads(row.options) == dict(options)]

    def n_trials(self) -> int:
        """How many trials are stored; counted over the smallest index there is."""
        return self.store.count()

    # --- trials ----------------------------------------------------------------------------------

    def progress(self, run: Run) -> Progress:
        """How far a run has come."""
        mine = run_trials.c.run_id == run.id
        joined = sa.join(run_trials, trials, run_trials.c.key == trials.c.key)
        earlier = sa.case((trials.c.finished < run.started, 1), else_=0)
        counted = sa.select(sa.func.count(), sa.func.sum(earlier)).select_from(joined).where(mine)
        stored, before = self._all(counted)[0]
        total = self._number(sa.select(sa.func.count()).select_from(run_trials).where(mine))
        failed = self._number(
            sa.select(sa.func.count()).select_from(failures).where(failures.c.run_id == run.id)
        )
        end = _time(run.ended) if run.ended else dt.datetime.now(dt.UTC)
        elapsed = (end - _time(run.started)).total_seconds()
        return Progress(total, int(stored), int(before or 0), failed, max(elapsed, 0.0))

    def silence(self, run: Run) -> float:
        """Seconds since a trial of this run was stored, or since it began."""
        joined = sa.join(run_trials, trials, run_trials.c.key == trials.c.key)
        newest = (
            sa.select(sa.func.max(trials.c.finished))
            .select_from(joined)
            .where(run_trials.c.run_id == run.id)
        )
        with self._reading() as db:
            last = max(run.started, db.scalar(newest) or "")
        return (dt.datetime.now(dt.UTC) - _time(last)).total_seconds()

    def newest_trials(self, run_id: int, limit: int = 10) -> list[Cell]:
        """The trials of a run that ended last."""
        query = self._cells(run_id).order_by(trials.c.finished.desc(), run_trials.c.position.desc())
        return [_cell(row) for row in self._all(query.limit(limit))]

    def trials(
        self, run_id: int, arm: str = "", dataset: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[int, list[Cell]]:
        """How many finished trials match, and one page of them in the order of the grid."""
        query = self._cells(run_id)
        if arm:
            query = query.where(trials.c.arm == arm)
        if dataset:
            query = query.where(trials.c.dataset == dataset)
        count = self._number(sa.select(sa.func.count()).select_from(query.subquery()))
        page = query.order_by(run_trials.c.position).limit(limit).offset(offset)
        return count, [_cell(row) for row in self._all(page)]

    def names_of(self, run_id: int) -> tuple[list[str], list[str]]:
        """The arms and the data sets of a run's finished trials."""
        joined = sa.join(run_trials, trials, run_trials.c.key == trials.c.key)
        query = (
            sa.select(trials.c.arm, trials.c.dataset)
            .select_from(joined)
            .where(run_trials.c.run_id == run_id)
            .distinct()
        )
        rows = self._all(query)
        return sorted({row.arm for row in rows}), sorted({row.dataset for row in rows})

    def _cells(self, run_id: int) -> sa.Select[Any]:
        # without the curves, which are large
        columns = [c for c in trials.c if c.name not in ("curves", "slug")]
        joined = sa.join(run_trials, trials, run_trials.c.key == trials.c.key)
        return (
            sa.select(run_trials.c.position, *columns)
            .select_from(joined)
            .where(run_trials.c.run_id == run_id)
        )


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _run(row: Any) -> Run:
    return Run(
        row.id,
        row.slug,
        row.kind,
        row.scale,
        json.loads(row.options),
        json.loads(row.environment),
        row.status,
        row.started,
        row.ended,
    )


def _cell(row: Any) -> Cell:
    return Cell(
        row.position,
        row.key,
        row.dataset,
        row.arm,
        row.seed,
        json.loads(row.params),
        json.loads(row.metrics),
        row.seconds,
        row.finished,
    )
