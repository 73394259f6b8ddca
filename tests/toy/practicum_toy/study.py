"""The coin's study; environment variables make it slow, failing or noisy for the tests."""

import os
import time
from typing import Annotated

import numpy as np

from practicum.errors import InputError
from practicum.study import Arm, Measure, Study, at_least, less_than
from practicum.study.plots import interval_bars

CHANCES = {"estimate": 0.7, "half": 0.5, "first flip": 0.7, "fair coin": 0.5}


class Coin(Study):
    slug = "coin"
    arms = {
        "estimate": Arm("method", "the share of heads in 50 flips"),
        "half": Arm("baseline", "always one half"),
        "first flip": Arm("cheap", "the first flip alone"),
        "fair coin": Arm("control", "the same estimate on a fair coin"),
    }
    measures = {
        "error": Measure("absolute error", "lower", bounds=(0, 1)),
        "heads": Measure("heads", "higher", bounds=(0, 1)),
    }

    def __init__(self, chance=0.7, column=None):
        self.chance = chance
        self.column = column

    def trials(self, scale):
        for seed in scale.seeds(smoke=6, cpu=20, paper=100):
            for arm in self.arms:
                yield self.trial("coin", arm, seed, flips=scale.pick(smoke=50, cpu=50, paper=500))

    def run(self, trial):
        time.sleep(float(os.environ.get("COIN_SECONDS", 0)))
        if os.environ.get("COIN_FAILS") == f"{trial.arm}{trial.seed}":
            raise InputError("the coin rolled under the table")
        chance = 0.5 if trial.arm == "fair coin" else self.chance
        flips = trial.rng().random(trial["flips"]) < chance
        guess = {"half": 0.5, "first flip": float(flips[0])}.get(trial.arm, flips.mean())
        return {"error": abs(guess - chance), "heads": flips.mean(), "path": np.cumsum(flips)}

    claims = {
        "C1": lambda r: at_least(r.values("heads", arm="estimate"), 0.5, "the share of heads"),
        "C2": lambda r: less_than(*r.paired("error", "estimate", "half"), what="the gain"),
    }

    def figures(self, results):
        groups = {a: results.values("error", arm=a) for a in self.arms if results.has(arm=a)}
        return {"Error by arm": interval_bars(groups, "Absolute error </script> by arm.")}

    @classmethod
    def on(cls, source, *, chance: Annotated[float, "true chance of heads"] = 0.7,
           columns: Annotated[list[str] | None, "columns to read"] = None):  # fmt: skip
        source.path.read_text()
        return cls(chance, columns)
