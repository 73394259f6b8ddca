"""Finished trials as a tidy table, and the paired views that claims and figures need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from practicum.study.spec import Outcome, Scale

ID = ["dataset", "arm", "seed"]


class Results:
    """The outcomes of one study.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row a trial: ``dataset``, ``arm``, ``seed``, a column for each parameter, a column for
        each scalar metric, ``seconds``.
    scale : Scale
    """

    def __init__(self, outcomes: Iterable[Outcome], scale: Scale) -> None:
        self.outcomes = list(outcomes)
        self.scale = scale
        self.params = sorted({name for o in self.outcomes for name, _ in o.trial.params})
        self.frame = pd.DataFrame(
            [
                {
                    "dataset": o.trial.dataset,
                    "arm": o.trial.arm,
                    "seed": o.trial.seed,
                    **dict(o.trial.params),
                    **o.metrics,
                    "seconds": o.seconds,
                }
                for o in self.outcomes
            ]
        )

    def __len__(self) -> int:
        return len(self.outcomes)

    def where(self, **conditions: Any) -> Results:
        """Only the trials whose columns have these values (a list: any of them)."""
        keep = np.arange(len(self))
        if conditions and len(self):
            mask = np.ones(len(self), dtype=bool)
            for column, wanted in conditions.items():
                if column not in self.frame:
                    mask[:] = False
                    continue
                values = wanted if isinstance(wanted, list | tuple | set) else [wanted]
                mask &= self.frame[column].isin(list(values)).to_numpy()
            keep = np.flatnonzero(mask)
        return Results([self.outcomes[i] for i in keep], self.scale)

    def has(self, **conditions: Any) -> bool:
        """Whether any trial matches."""
        return len(self.where(**conditions)) > 0

    def values(self, metric: str, **conditions: Any) -> pd.Series:
        """One number a trial, indexed by (dataset, seed, parameters that vary).

        Trials that do not have the metric are left out. Select the arm with ``arm=``.
        """
        part = self.where(**conditions)
        if metric not in part.frame:
            return pd.Series(dtype=float, name=metric)
        frame = part.frame.dropna(subset=[metric])
        varying = [p for p in part.params if frame[p].nunique(dropna=False) > 1]
        return frame.set_index(["dataset", "seed", *varying])[metric].sort_index()

    def paired(self, metric: str, a: str, b: str, **conditions: Any) -> tuple[pd.Series, pd.Series]:
        """The metric in arm ``a`` and in arm ``b`` on the cells both have finished."""
        first = self.values(metric, arm=a, **conditions)
        second = self.values(metric, arm=b, **conditions)
        first, second = first.align(second, join="inner")
        return first, second

    def curves(self, name: str, **conditions: Any) -> np.ndarray:
        """The curve ``name`` of every matching trial, stacked: shape (trials, ...)."""
        part = [o.curves[name] for o in self.where(**conditions).outcomes if name in o.curves]
        return np.stack(part) if part else np.empty((0, 0))

    def tidy(self) -> pd.DataFrame:
        """Long form: one row for each trial and metric (``metric``, ``value``)."""
        metrics = [c for c in self.frame if c not in {*ID, *self.params}]
        return self.frame.melt([*ID, *self.params], metrics, "metric", "value").dropna(
            subset=["value"]
        )
