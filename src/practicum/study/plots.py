"""The house style of figures: colour-blind safe, readable small, uncertainty always shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from practicum.study.evidence import LEVEL, Bounds, Values, bootstrap_interval

# Okabe & Ito's palette without its black and yellow, which one of the two themes would swallow
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#7F7F7F")


def colours(names: Iterable[str]) -> dict[str, str]:
    """One colour a name, the same in every figure that lists the names in the same order."""
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def new_figure(
    caption: str,
    *,
    x: str = "",
    y: str = "",
    log_x: bool = False,
    log_y: bool = False,
    height: int = 420,
    **layout: Any,
) -> go.Figure:
    """An empty figure with labelled axes and a caption.

    Parameters
    ----------
    caption : str
        What is seen and what it means, one or two sentences; units where there are any.
    x, y : str
        Axis titles.
    """
    figure = go.Figure()
    style(figure, caption, height=height, **layout)
    figure.update_xaxes(title=x, type="log" if log_x else None)
    figure.update_yaxes(title=y, type="log" if log_y else None)
    return figure


def style(figure: go.Figure, caption: str, **layout: Any) -> go.Figure:
    """The house layout for a figure made elsewhere (``make_subplots``, say)."""
    figure.update_layout(
        template="plotly_white",
        meta={"caption": caption},
        margin={"l": 60, "r": 20, "t": 40, "b": 55},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        **layout,
    )
    return figure


def translucent(colour: str, alpha: float = 0.18) -> str:
    """``#RRGGBB`` as an rgba colour."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"


def add_ribbon(
    figure: go.Figure,
    x: Sequence[float] | np.ndarray,
    curves: np.ndarray,
    name: str,
    colour: str,
    *,
    centre: str = "mean",
    dash: str | None = None,
    where: Mapping[str, int] | None = None,
    showlegend: bool = True,
) -> None:
    """A line with its 95 % band over seeds.

    On an axis that is logarithmic by then a band that reaches zero ends at a tenth of the smallest
    value.

    Parameters
    ----------
    curves : array of shape (seeds, len(x))
    centre : {"mean", "median"}
        The mean with its pointwise t interval, or the median with the 10-90 % range of seeds.
    where : mapping, optional
        ``{"row": 1, "col": 2}`` in a figure of several panels.
    """
    x, curves = np.asarray(x), np.atleast_2d(np.asarray(curves, dtype=float))
    n = len(curves)
    if centre == "median":
        line = np.nanmedian(curves, axis=0)
        low, high = np.nanpercentile(curves, [10, 90], axis=0)
    else:
        line = curves.mean(axis=0)
        half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * stats.sem(curves, axis=0) if n > 1 else 0
        low, high = line - half, line + half
    place = dict(where or {})
    axes = figure.get_subplot(**place) if place else figure.layout
    if axes.yaxis.type == "log" and (curves > 0).any():
        # plotly would leave out what has no logarithm and fill the rest to another shape
        low = np.maximum(low, curves[curves > 0].min() / 10)
    if n > 1:
        figure.add_trace(
            go.Scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([high, low[::-1]]),
                mode="lines",
                fill="toself",
                fillcolor=translucent(colour),
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
                legendgroup=name,
            ),
            **place,
        )
    figure.add_trace(
        go.Scatter(
            x=x,
            y=line,
            name=name,
            mode="lines",
            line={"color": colour, "width": 2, "dash": dash},
            legendgroup=name,
            showlegend=showlegend,
        ),
        **place,
    )


def interval_bars(
    groups: Mapping[str, Values],
    caption: str,
    *,
    y: str = "",
    palette: Mapping[str, str] | None = None,
    bounds: Bounds | None = None,
    **layout: Any,
) -> go.Figure:
    """One dot a group with its 95 % bootstrap interval, and the values behind it.

    ``bounds`` end the intervals of what cannot leave them, an accuracy (0, 1).
    """
    palette = palette or colours(groups)
    figure = new_figure(caption, y=y, **layout)
    for name, values in groups.items():
        x = np.asarray(values, dtype=float)
        interval = bootstrap_interval(x, bounds=bounds)
        finite = np.isfinite([interval.low, interval.high]).all()
        figure.add_trace(
            go.Box(
                y=x,
                name=name,
                boxpoints="all",
                pointpos=0.6,
                jitter=0.3,
                marker={"color": translucent(palette[name], 0.45), "size": 4},
                line={"width": 0},
                fillcolor="rgba(0,0,0,0)",
                hoverinfo="y",
                showlegend=False,
            )
        )
        error = (
            {
                "type": "data",
                "symmetric": False,
                "array": [interval.high - x.mean()],
                "arrayminus": [x.mean() - interval.low],
                "thickness": 2,
                "width": 8,
            }
            if finite
            else None
        )
        figure.add_trace(
            go.Scatter(
                x=[name],
                y=[x.mean()],
                mode="markers",
                marker={"color": palette[name], "size": 11},
                error_y=error,
                name=name,
                showlegend=False,
            )
        )
    return figure
