"""Finished trials as a tidy table, and the paired views that claims and figures need."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
        self.metrics = sorted({name for o in self.outcomes for name in o.metrics})
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
        """Only the trials whose columns have these values (a list, a range: any of them)."""
        keep = np.arange(len(self))
        if conditions and len(self):
            mask = np.ones(len(self), dtype=bool)
            for column, wanted in conditions.items():
                if column not in self.frame:
                    mask[:] = False
                    continue
                one = isinstance(wanted, str) or not isinstance(wanted, Collection | np.ndarray)
                values = [wanted] if one else list(wanted)
                mask &= self.frame[column].isin(values).to_numpy()
            keep = np.flatnonzero(mask)
        return Results([self.outcomes[i] for i in keep], self.scale)

    def has(self, **conditions: Any) -> bool:
        """Whether any trial matches."""
        return len(self.where(**conditions)) > 0

    def values(self, metric: str, **conditions: Any) -> pd.Series:
        """One number a trial, indexed by (dataset, seed, parameters that vary).

        Trials that do not have the metric are left out; one that returned NaN (it diverged) is not:
        averaging over the others would flatter its arm. Select the arm with ``arm=``.
        """
        part = self._having(metric, **conditions)
        return part._by_cell(metric, part._varying())

    def paired(self, metric: str, a: str, b: str, **conditions: Any) -> tuple[pd.Series, pd.Series]:
        """The metric in arm ``a`` and in arm ``b`` on the cells both have finished.

        A cell is a data set, a seed and the parameters that vary over the two arms; one that an
        arm does not have at all does not tell its cells apart.
        """
        both = self._having(metric, arm=[a, b], **conditions)
        parts = [both.where(arm=arm) for arm in (a, b)]
        if not all(map(len, parts)):
            empty = pd.Series(dtype=float, name=metric)
            return empty, empty
        varying = both._varying()
        first, second = (
            part._by_cell(metric, [p for p in varying if p in part.params]) for part in parts
        )
        first, second = first.align(second, join="inner")
        return first, second

    def _having(self, metric: str, **conditions: Any) -> Results:
        part = self.where(**conditions)
        return Results((o for o in part.outcomes if metric in o.metrics), self.scale)

    def _varying(self) -> list[str]:
        return [p for p in self.params if self.frame[p].nunique(dropna=False) > 1]

    def _by_cell(self, metric: str, params: list[str]) -> pd.Series:
        if not len(self):
            return pd.Series(dtype=float, name=metric)
        return self.frame.set_index(["dataset", "seed", *params])[metric].sort_index()

    def curves(self, name: str, **conditions: Any) -> np.ndarray:
        """The curve ``name`` of every matching trial, stacked: shape (trials, ...)."""
        part = [o.curves[name] for o in self.where(**conditions).outcomes if name in o.curves]
        return np.stack(part) if part else np.empty((0, 0))

    def tidy(self) -> pd.DataFrame:
        """Long form: one row for each trial and metric (``metric``, ``value``).

        A parameter whose name is taken, or that is a number here and a word there, is written
        as ``param_NAME``, or as text.
        """
        rows = [
            {
                "dataset": o.trial.dataset,
                "arm": o.trial.arm,
                "seed": o.trial.seed,
                **{_column(name): value for name, value in o.trial.params},
                "metric": metric,
                "value": value,
            }
            for o in self.outcomes
            for metric, value in {**o.metrics, "seconds": o.seconds}.items()
        ]
        columns = [*ID, *map(_column, self.params), "metric", "value"]
        table = pd.DataFrame(rows, columns=columns)
        for name in map(_column, self.params):
            if table[name].map(lambda value: isinstance(value, str)).any():
                table[name] = table[name].map(str, na_action="ignore")
        return table


def _column(name: str) -> str:
    """The column of a parameter in the tidy table."""
    return f"param_{name}" if name in {*ID, "metric", "value", "slug", "scale"} else name
