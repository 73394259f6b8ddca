"""Pictures of a generation run (plotly)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from practicum.generative.model_collapse.workflows import WORKFLOWS

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

#: Okabe and Ito's colours: distinct also for colour-blind readers.
COLOURS = dict(zip(WORKFLOWS, ("#D55E00", "#0072B2", "#009E73"), strict=True))


def generation_curves(summary: pd.DataFrame, y_title: str) -> go.Figure:
    """Mean over generations with a ribbon, one colour per workflow.

    Parameters
    ----------
    summary : pandas.DataFrame
        As returned by ``GenerationResult.summary``.
    y_title : str

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> import pandas as pd
    >>> summary = pd.DataFrame({"workflow": ["replace"] * 2, "generation": [1, 2],
    ...                         "mean": [1.0, 2.0], "low": [0.9, 1.8], "high": [1.1, 2.2]})
    >>> generation_curves(summary, "loss").layout.yaxis.title.text
    'loss'
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for workflow, part in summary.groupby("workflow", sort=False):
        part = part[np.isfinite(part["mean"])]
        ends = part[np.isfinite(part[["low", "high"]]).all(axis=1)]  # one seed has no interval
        colour = COLOURS.get(workflow, "#555555")
        x = ends["generation"].to_numpy()
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]),
            y=np.concatenate([ends["high"], ends["low"][::-1]]),
            mode="lines",
            fill="toself",
            fillcolor=colour,
            opacity=0.2,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=workflow,
        )
        figure.add_scatter(
            x=part["generation"],
            y=part["mean"],
            mode="lines",
            name=workflow,
            legendgroup=workflow,
            line={"color": colour, "width": 2},
        )
    figure.update_layout(
        template="plotly_white",
        meta={"caption": "Mean over seeds with its 95 % interval (bootstrap over seeds)."},
        xaxis_title="generation",
        yaxis_title=y_title,
        legend={"orientation": "h", "y": 1.1, "x": 0},
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
    )
    return figure


def value_map(gain: pd.DataFrame) -> go.Figure:
    """Heat map: by how much F synthetic items change the loss beside R real ones.

    Parameters
    ----------
    gain : pandas.DataFrame
        As returned by :func:`synthetic_gain`.

    Returns
    -------
    plotly.graph_objects.Figure
        Blue helps (the loss falls), red harms.

    Examples
    --------
    >>> import pandas as pd
    >>> figure = value_map(pd.DataFrame({"R": [5], "F": [9], "gain": [0.5]}))
    >>> figure.data[0].z.tolist()
    [[-0.5]]
    """
    import plotly.graph_objects as go

    table = -gain.pivot(index="R", columns="F", values="gain")
    change = table.to_numpy()
    finite = np.abs(change[np.isfinite(change)])
    limit = float(finite.max()) if finite.size else 1.0
    figure = go.Figure(
        go.Heatmap(
            z=change,
            x=[str(f) for f in table.columns],
            y=[str(r) for r in table.index],
            colorscale="RdBu_r",
            zmin=-limit,
            zmax=limit,
            text=[[f"{v:+.3f}" for v in row] for row in change],
            texttemplate="%{text}",
            colorbar={"title": "change"},
        )
    )
    figure.update_xaxes(title="synthetic items F", type="category")
    figure.update_yaxes(title="real items R", type="category", autorange="reversed")
    figure.update_layout(
        template="plotly_white",
        meta={
            "caption": "Change of the loss when F synthetic items are added to R real ones, mean "
            "over seeds. Blue helps, red harms."
        },
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
    )
    return figure
