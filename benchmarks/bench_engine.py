"""What the engine costs: 10,000 trials that do nothing, against bare joblib + sqlite3.

Both run in this process, commit every trial on its own to a WAL database, and read all of it back.
The bar: under 10 s, and at most three times the bare loop. Then what handing a trial to a worker
process costs, and a simulation of how far one such process can feed up to 1,000 workers.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import joblib
import pandas as pd

from practicum.study import Arm, Measure, Scale, Store, Study, at_least, run_study


class Nothing(Study):
    """Trials that return a constant."""

    slug = "nothing"
    arms = {"a": Arm("method", "nothing"), "b": Arm("baseline", "nothing")}
    measures = {"value": Measure("value", "lower")}
    claims = {"C1": lambda results: at_least(results.values("value", arm="a"), 0)}

    def trials(self, scale):
        for seed in range(scale.n_seeds // 2):
            for arm in self.arms:
                yield self.trial("none", arm, seed)

    def run(self, trial):
        return {"value": 1.0}

    def figures(self, results):
        return {}

    @classmethod
    def on(cls, source):
        return cls()


def engine(n: int, folder: Path) -> float:
    """Seconds for ``n`` trials through the engine, verdict included."""
    start = time.perf_counter()
    with Store(folder / f"engine{n}.sqlite") as store:
        run = run_study(Nothing(), Scale("cpu", n), store)
    assert len(run.results) == n
    return time.perf_counter() - start


def bare(n: int, folder: Path) -> float:
    """Seconds for the same loop written by hand."""
    start = time.perf_counter()
    db = sqlite3.connect(folder / f"bare{n}.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE trials (key TEXT PRIMARY KEY, arm TEXT, seed INTEGER, metrics TEXT)")
    study = Nothing()
    grid = list(study.trials(Scale("cpu", n)))
    done = joblib.Parallel(n_jobs=1, return_as="generator")(
        joblib.delayed(study.run)(t) for t in grid
    )
    for trial, metrics in zip(grid, done, strict=True):
        row = (trial.key("", ""), trial.arm, trial.seed, json.dumps(metrics))
        db.execute("INSERT INTO trials VALUES (?, ?, ?, ?)", row)
    assert len(pd.read_sql("SELECT * FROM trials", db)) == n
    return time.perf_counter() - start


def handing_out(n: int, folder: Path) -> float:
    """Seconds for each trial with two workers that return at once and are there already."""
    for trials in (10, n):  # the first starts the workers
        start = time.perf_counter()
        with Store(folder / f"workers{trials}.sqlite") as store:
            run_study(Nothing(), Scale("cpu", trials), store, jobs=2)
    return (time.perf_counter() - start) / n


def simulated(workers: int, duration: float, overhead: float, n: int) -> float:
    """Share of the workers' time spent on trials when one process hands all of them out.

    The runner is busy ``overhead`` seconds a trial; a worker that is done waits for it in line.
    """
    free = [0.0] * workers
    runner = end = 0.0
    for _ in range(n):
        runner = max(runner, heapq.heappop(free)) + overhead
        end = max(end, runner + duration)
        heapq.heappush(free, runner + duration)
    return n * duration / (workers * end)


def scaling(overhead: float) -> None:
    """Print how busy the workers would be."""
    print(f"\nhanding out and storing a trial: {1000 * overhead:.2f} ms of the runner")
    print("simulated with that overhead: how busy the workers are (20 trials each)")
    print("seconds a trial " + "".join(f"{w:>9,} workers" for w in (10, 100, 1000)))
    for duration in (0.1, 1.0, 10.0, 60.0):
        shares = [simulated(w, duration, overhead, 20 * w) for w in (10, 100, 1000)]
        print(f"{duration:15g} " + "".join(f"{share:17.0%}" for share in shares))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine(10, folder)  # imports
        print("trials   engine s   bare s   ratio")
        for n in (1000, 3000, 10000):
            ours, peer = engine(n, folder), bare(n, folder)
            print(f"{n:6}   {ours:8.2f}   {peer:6.2f}   {ours / peer:5.2f}")
        print("cost grows linearly in the number of trials")
        scaling(handing_out(2000, folder))
    return int(ours > 10 or ours > 3 * peer)


if __name__ == "__main__":
    sys.exit(main())
