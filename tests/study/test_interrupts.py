"""Ctrl-C, kill and kill -9: what had finished is stored, and the next run goes on."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

GRID = 24  # smoke: 6 seeds of 4 arms


class Runner:
    """``practicum verify coin`` in a process of its own, on one store."""

    def __init__(self, environment, store):
        self.environment, self.store = environment, Path(store)

    def start(self, *options, jobs=1, seconds=0.0):
        command = [sys.executable, "-m", "practicum", "verify", "coin", "--scale", "smoke"]
        self.process = subprocess.Popen(
            [*command, "--jobs", str(jobs), "--store", str(self.store), *options],
            env={**self.environment, "COIN_SECONDS": str(seconds)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # a background shell starts its children with Ctrl-C ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        return self.process

    def stored(self):
        if not self.store.exists():
            return 0
        with contextlib.suppress(sqlite3.OperationalError), self.connect() as db:
            return db.execute("SELECT count(*) FROM trials").fetchone()[0]
        return 0

    def connect(self):
        return contextlib.closing(sqlite3.connect(self.store, timeout=30))

    def wait_for(self, n):
        while self.stored() < n:
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.01)

    def kill(self):
        """kill -9 the runner; then, as pipes would stay open, whatever it left behind."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def finish(self, *options, **kwargs):
        out, err = self.start(*options, **kwargs).communicate(timeout=120)
        assert self.process.returncode == 0, err
        return out

    def check(self, n):
        """Exactly the ``n`` cells of the grid, each once, in a sound file."""
        with self.connect() as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            cells = db.execute("SELECT dataset, arm, seed, params FROM trials").fetchall()
        assert len(cells) == len(set(cells)) == n


@pytest.fixture
def runner(environment, tmp_path):
    runner = Runner(environment, tmp_path / "store.sqlite")
    yield runner
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(runner.process.pid, signal.SIGKILL)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("sig", "send"),
    [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_an_interrupted_run_keeps_what_has_finished(runner, sig, send, jobs):
    process = runner.start(jobs=jobs, seconds=0.1)
    runner.wait_for(3)
    send(process.pid, sig)  # Ctrl-C reaches every process of the terminal's group
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "Error" not in err
    assert "run the same command to go on" in err
    kept = runner.stored()
    assert 3 <= kept < GRID
    out = runner.finish()
    assert f"{GRID - kept} trials run, {kept} taken from the store" in out
    runner.check(GRID)


def test_an_interrupt_before_the_first_trial_has_finished(runner):
    process = runner.start(seconds=30)
    while "trials" not in process.stderr.readline():
        pass
    time.sleep(0.5)  # into the first trial
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err, runner.stored()) == (130, False, 0)


def kill_at_random_moments(runner, jobs, times):
    """kill -9 while trials end every few milliseconds; returns the size of the whole grid."""
    randomly = random.Random(jobs)
    seeds = 25 * times
    for _ in range(times):
        before = runner.stored()
        runner.start("--seeds", str(seeds), jobs=jobs, seconds=0.002)
        with contextlib.suppress(AssertionError):  # it may have finished
            runner.wait_for(before + 1)
        time.sleep(randomly.uniform(0, 0.2))
        runner.kill()
        runner.check(runner.stored())
    return 4 * seeds


@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_9_loses_nothing_and_doubles_nothing(runner, jobs):
    grid = kill_at_random_moments(runner, jobs, times=5)
    assert 0 < runner.stored() < grid
    runner.finish("--seeds", str(grid // 4), jobs=jobs)
    runner.check(grid)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_9_twenty_times(runner, jobs):
    grid = kill_at_random_moments(runner, jobs, times=20)
    runner.finish("--seeds", str(grid // 4), jobs=jobs)
    runner.check(grid)


def test_workers_do_not_outlive_a_killed_run(runner):
    psutil = pytest.importorskip("psutil")
    process = runner.start(jobs=2, seconds=0.2)
    runner.wait_for(1)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    alive = [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    for worker in alive:
        with contextlib.suppress(psutil.Error):
            worker.kill()
    assert alive == []


def test_a_run_that_was_killed_is_not_reported(runner, practicum):
    runner.start(seconds=0.1)
    runner.wait_for(1)
    runner.kill()
    done = practicum("report", "coin", "--store", runner.store, code=2)
    assert "no verification has finished" in done.stderr
