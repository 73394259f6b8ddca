"""Numbers beside each other: the arms of a comparison as a figure, two runs as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from practicum.study.compare import Row, mean_interval, paired_difference
from practicum.study.evidence import Interval, number
from practicum.study.report import Section
from practicum.study.spec import Measure, Study

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True)
class Pair:
    """An arm and a measure in two runs."""

    arm: str
    measure: str
    first: str
    second: str
    shared: int  # cells that both have finished
    difference: str  # second minus first, on those


def beside(a: Section, b: Section) -> list[Pair]:
    """Every arm and measure of two runs of one method."""
    ran = [outcome.trial.arm for section in (a, b) for outcome in section.results.outcomes]
    arms = list(dict.fromkeys([*a.study.arms, *b.study.arms, *ran]))
    measures = {**a.study.measures, **b.study.measures}
    pairs = []
    for name, measure in measures.items():
        for arm in arms:
            first, second = a.results.values(name, arm=arm), b.results.values(name, arm=arm)
            if first.empty and second.empty:
                continue
            shared, difference = _difference(measure, first, second)
            means = _mean(measure, first), _mean(measure, second)
            pairs.append(Pair(arm, measure.label, *means, shared, difference))
    return pairs


def _mean(measure: Measure, values: pd.Series) -> str:
    """With the interval that a comparison prints for the same values."""
    if values.empty:
        return ""
    return _told(float(values.mean()), mean_interval(measure, values), len(values))


def _told(mean: float, interval: Interval, n: int) -> str:
    return f"{number(mean)} {interval} n={n}"


def _difference(measure: Measure, first: pd.Series, second: pd.Series) -> tuple[int, str]:
    if first.empty or second.empty or first.index.names != second.index.names:
        return 0, ""
    first, second = first.align(second, join="inner")
    if first.empty:
        return 0, ""
    if first.equals(second):
        return len(first), "equal to the last bit"
    return len(first), _told(*paired_difference(measure, second, first), len(first))


def interval_figure(study: Study, rows: Sequence[Row], measure: str) -> tuple[str, Figure]:
    """A dot and its interval for every arm, data sets and settings apart."""
    import plotly.graph_objects as go

    from practicum.study.plots import colours, new_figure

    about = study.measures[measure]
    mine = [row for row in rows if row.measure == measure]
    wheres = list(dict.fromkeys(_where(row) for row in mine))
    palette = colours(wheres)
    unit = f" ({about.unit})" if about.unit else ""
    endless = any(math.isinf(row.interval.high - row.interval.low) for row in mine)
    figure = new_figure(
        f"Mean and 95 % interval over seeds; {about.better} is better."
        + " No bar: too few or equal values to tell." * endless,
        x=about.label + unit,
        height=140 + 26 * len(mine),
        showlegend=len(wheres) > 1,
    )
    for where in wheres:
        part = [row for row in mine if _where(row) == where]
        figure.add_trace(
            go.Scatter(
                x=[row.mean for row in part],
                y=[row.arm for row in part],
                mode="markers",
                name=where,
                marker={"size": 10, "color": palette[where]},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [row.interval.high - row.mean for row in part],
                    "arrayminus": [row.mean - row.interval.low for row in part],
                    "thickness": 2,
                },
            )
        )
    figure.update_layout(scattermode="group", margin={"l": 150})
    figure.update_yaxes(autorange="reversed", automargin=True)
    return about.label, figure


def _where(row: Row) -> str:
    return f"{row.dataset} ({row.setting})" if row.setting else row.dataset
