"""Small studies that misbehave on request; a module of their own so that workers can import it."""

import os
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np

from practicum.errors import InputError
from practicum.study import Arm, Measure, Study, at_least


class Lab(Study):
    """Two arms on two data sets; every execution of a trial leaves a line in ``log``."""

    slug = "lab"
    arms: ClassVar = {
        "ours": Arm("method", "a draw plus one"),
        "theirs": Arm("baseline", "the same draw"),
    }
    measures: ClassVar = {"score": Measure("score", "higher")}
    claims: ClassVar = {"C1": lambda r: at_least(r.values("score", arm="ours"), 0.0, "the score")}

    def __init__(self, log, seeds=3, trouble=None):
        self.log = Path(log)
        self.n_seeds = seeds
        self.trouble = trouble or {}  # (dataset, arm, seed) -> what goes wrong there

    def trials(self, scale):
        for dataset in ("even", "odd"):
            for arm in self.arms:
                for seed in scale.seeds(smoke=self.n_seeds, cpu=self.n_seeds, paper=self.n_seeds):
                    yield self.trial(dataset, arm, seed, size=7)

    def run(self, trial):
        self.note(f"run {trial.label}")
        return self.cell(trial)

    def cell(self, trial):
        misbehave(self.trouble.get((trial.dataset, trial.arm, trial.seed)))
        if self.trouble.get((trial.dataset, trial.arm, trial.seed)) == "text":
            return {"score": "very good"}
        draws = trial.rng().normal(size=trial["size"])
        # a matrix product and a reduction: what threads or another BLAS would round otherwise
        square = np.outer(draws, draws) @ np.cos(np.outer(draws, draws))
        return {
            "score": float(square.sum()) + (trial.arm == "ours"),
            "third": 1 / 3,
            "path": np.cumsum(draws),
            "image": square.astype(np.float32),
        }

    def note(self, line):
        with self.log.open("a") as log:
            log.write(line + "\n")

    def executions(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def figures(self, results):
        return {}

    @classmethod
    def on(cls, source):
        return cls(source.path)


class GroupedLab(Lab):
    """All seeds of one data set and arm at once; ``break_at`` stops a group there."""

    slug = "grouped-lab"

    def __init__(self, log, seeds=4, trouble=None, stop_at=None, surplus=False):
        super().__init__(log, seeds, trouble)
        self.stop_at = stop_at
        self.surplus = surplus

    def group(self, trial):
        return trial.dataset, trial.arm

    def run_many(self, trials):
        self.note(f"many {len(trials)}")
        for trial in trials:
            if trial.seed == self.stop_at:
                return
            yield self.cell(trial)
        if self.surplus:
            yield {"score": 0.0}


def misbehave(how):
    if how == "input error":
        raise InputError("the probe is\n\n too short", "take a longer one")
    if how == "error":
        raise RuntimeError("boom\n  twice")
    if how == "nul":
        raise RuntimeError("a reply with \0 in it")
    if how == "surrogate":
        raise OSError("cannot read " + os.fsdecode(b"caf\xe9.csv"))
    if how == "unpicklable":
        raise Unpicklable(lambda: None)
    if how == "die":
        os._exit(3)
    if how == "exit":
        sys.exit("enough")
    if how == "interrupt":
        raise KeyboardInterrupt


class Unpicklable(Exception):
    """Holds a lambda, as exceptions of some libraries hold a handle."""
