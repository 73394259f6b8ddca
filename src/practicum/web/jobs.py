"""Runs as processes of their own, started, cancelled and resumed from the page.

A run is the command a person could have typed. It outlives this server, writes to the store alone,
and is found again after a restart: by its process (number and birth, so that a number given to
another program is not mistaken for it) while it goes on, and by its row in the store for good.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from practicum.errors import InputError
from practicum.study.report import write_atomically
from practicum.study.store import now
from practicum.web.ledger import Ledger, Run

MOST_RUNNING = 4
SILENT = 3600  # seconds
GRACE = 15  # seconds between asking a process to end and ending it


@dataclass(frozen=True)
class Order:
    """What is to be run."""

    slug: str
    kind: str  # verify | compare
    scale: str = "smoke"
    jobs: int = 1
    seeds: int | None = None
    engine: str = "local"
    address: str | None = None
    data: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The command line after ``practicum``."""
        words = [self.kind, self.slug, "--scale", self.scale, "--jobs", str(self.jobs)]
        if self.data:
            words += ["--data", self.data]
        for name, value in self.options.items():
            words += ["-o", f"{name}={value}"]
        if self.seeds:
            words += ["--seeds", str(self.seeds)]
        if self.engine != "local":
            words += ["--engine", self.engine]
        if self.address:
            words += ["--address", self.address]
        return words

    @property
    def shell(self) -> str:
        """The same as a person types it."""
        return shlex.join(["practicum", *self.words])

    @property
    def signature(self) -> tuple[str, str, str, dict[str, Any]]:
        """By what the store knows such a run: slug, kind, scale and options."""
        options = {"data": [self.data], **self.options} if self.data else {}
        return self.slug, self.kind, self.scale, options


@dataclass(frozen=True)
class Job:
    """A started run."""

    id: str
    order: Order
    pid: int
    born: float  # when the process began, as the system counts
    after: int  # the newest run in the store before it began
    started: str
    run_id: int | None = None
    cancelled: bool = False


class Jobs:
    """The runs that were started from this page, remembered in a folder."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self.lock = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True)
        found = [_read(path) for path in folder.glob("*/job.json")]
        self.known = {job.id: job for job in sorted(found, key=lambda job: (job.started, job.id))}

    # --- starting and ending ---------------------------------------------------------------------

    def start(self, order: Order) -> Job:
        """Start a process, or find the one that is doing the same already.

        Raises
        ------
        InputError
            Too many runs are going on, or one that the store would not tell from this one.
        """
        with self.lock:
            going = [job for job in list(self.known.values()) if self._goes_on(job)]
            for job in going:
                if job.order == order:
                    return job
                if job.order.signature == order.signature:
                    raise InputError(
                        f"{order.slug} is running at this scale already, with other settings",
                        "wait for it to end, or cancel it",
                    )
            if len(going) >= MOST_RUNNING:
                raise InputError(
                    f"{len(going)} runs are going on", "wait for one to end, or cancel one"
                )
            return self._spawn(order)

    def _goes_on(self, job: Job) -> bool:
        """Whether it works; a process that was told to end takes a moment to go."""
        if job.cancelled or not alive(job):
            return False
        run_id = self.locate(job).run_id
        run = self.ledger.run(run_id) if run_id else None
        return run is None or run.status == "running"

    def _spawn(self, order: Order) -> Job:
        name = secrets.token_hex(6)
        folder = self.folder / name
        folder.mkdir()
        last = self.ledger.last_id()
        words = [*order.words, "--quiet"]
        if order.kind == "compare":
            words += ["--out", str(folder / "comparison.html")]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "practicum", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                # not on the command line, which every user of the machine can see
                env={**os.environ, "PRACTICUM_STORE": self.ledger.store.url},
                start_new_session=True,  # the server's Ctrl-C is not for it
            )
        # an ended child is a zombie, and looks alive, until someone has waited for it
        threading.Thread(target=process.wait, daemon=True).start()
        try:
            born = psutil.Process(process.pid).create_time()
        except psutil.NoSuchProcess:  # it has ended already
            born = 0.0
        return self._remember(Job(name, order, process.pid, born, last, now()))

    def cancel(self, job: Job) -> None:
        """Ask the process to end; what has finished is stored, and it can be resumed."""
        with self.lock:
            process = _process(job)
            if process is None:
                return
            self._remember(replace(self.known[job.id], cancelled=True))
            process.terminate()
        threading.Thread(target=_end, args=(process,), daemon=True).start()

    def _remember(self, job: Job) -> Job:
        self.known[job.id] = job
        text = json.dumps(asdict(job), indent=1)
        write_atomically(self.folder / job.id / "job.json", lambda path: path.write_text(text))
        return job

    # --- finding ---------------------------------------------------------------------------------

    def locate(self, job: Job) -> Job:
        """The job with the number of its run, as soon as the store has it."""
        with self.lock:
            job = self.known[job.id]
            if job.run_id is not None:
                return job
            taken = {other.run_id for other in self.known.values()}
            begun = self.ledger.begun_after(job.after, *job.order.signature)
            found = next((run_id for run_id in begun if run_id not in taken), None)
            return job if found is None else self._remember(replace(job, run_id=found))

    def of_run(self, run_id: int) -> Job | None:
        """The job that made a run, or None: it was started elsewhere."""
        for job in reversed(list(self.known.values())):
            if self.locate(job).run_id == run_id:
                return self.known[job.id]
        return None

    def waiting(self) -> list[Job]:
        """Jobs that go on and have no run yet."""
        return [j for j in map(self.locate, list(self.known.values())) if not j.run_id and alive(j)]

    def state(self, run: Run) -> str:
        """``running``, ``done``, ``interrupted``, or without a word: ``died``, ``silent``.

        Of a process that was started elsewhere nothing is known but what it stores.
        """
        if run.status != "running":
            return run.status
        job = self.of_run(run.id)
        if job is None:
            return "silent" if self.ledger.silence(run) > SILENT else "running"
        if alive(job):
            return "running"
        again = self.ledger.run(run.id)  # it may have ended since the row was read
        return again.status if again and again.status != "running" else "died"

    def said(self, job: Job) -> list[str]:
        """What the process wrote for people: notes, errors and hints."""
        path = self.folder / job.id / "stderr"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if line.startswith(("note: ", "error: ", "hint: "))]

    def log(self, job: Job) -> str:
        """Everything the process wrote."""
        parts = [(self.folder / job.id / name).read_bytes() for name in ("stderr", "stdout")]
        return b"\n".join(parts).decode(errors="replace")


def _read(path: Path) -> Job:
    fields = json.loads(path.read_text())
    return Job(**{**fields, "order": Order(**fields["order"])})


def _process(job: Job) -> psutil.Process | None:
    """The job's process while it lives."""
    try:
        process = psutil.Process(job.pid)
        same = abs(process.create_time() - job.born) < 0.1
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def alive(job: Job) -> bool:
    """Whether the job's process goes on."""
    return _process(job) is not None


def _end(process: psutil.Process) -> None:
    """End what did not listen, with the workers it started."""
    try:
        process.wait(GRACE)
    except psutil.TimeoutExpired:
        for one in [*process.children(recursive=True), process]:
            one.kill()
