"""Pictures of alignments and barycenters (plotly), in the plane and in space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe and Ito's blue and vermilion: told apart by colour-blind readers too
FIRST, SECOND = "#0072B2", "#D55E00"
SEGMENT = "rgba(120,120,120,0.45)"


def overlay(
    X: Float[np.ndarray, "n d"],
    Y: Float[np.ndarray, "m d"],
    aligned: Float[np.ndarray, "m d"],
    pairs: tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]],
    names: tuple[str, str] = ("X", "Y"),
) -> go.Figure:
    """Two clouds as they came and after alignment, matched points joined by segments.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, d = 2 or 3
        The clouds, centred.
    aligned : (m, d) array
        Y laid over X.
    pairs : two (k,) int arrays
        Rows of X and of Y that exchange mass.
    names : tuple of str

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 0.0]])
    >>> figure = overlay(X, X[:, ::-1], X, (np.array([0, 1]), np.array([0, 1])))
    >>> [trace.name for trace in figure.data]
    ['X', 'Y', 'matched', 'X', 'Y']
    """
    from plotly.subplots import make_subplots

    kind = "scene" if X.shape[1] == 3 else "xy"
    figure = make_subplots(
        1, 2, specs=[[{"type": kind}] * 2], subplot_titles=("as they came", "aligned")
    )
    for column, second in ((1, Y), (2, aligned)):
        if column == 2:
            figure.add_trace(_segments(X[pairs[0]], aligned[pairs[1]]), row=1, col=2)
        for points, name, colour in ((X, names[0], FIRST), (second, names[1], SECOND)):
            trace = _dots(points, name, colour, showlegend=column == 1)
            figure.add_trace(trace, row=1, col=column)
    _same_scale(figure, X.shape[1])
    figure.update_annotations(y=-0.16)  # below, where no legend is
    return figure


def barycenter_overlay(
    support: Float[np.ndarray, "k d"], aligned: Sequence[Float[np.ndarray, "_ d"]]
) -> go.Figure:
    """The barycenter over the aligned inputs.

    Examples
    --------
    >>> cloud = np.array([[0.0, 1.0], [2.0, 0.0]])
    >>> [trace.name for trace in barycenter_overlay(cloud, [cloud, cloud]).data]
    ['aligned inputs', 'barycenter']
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    inputs = _dots(np.concatenate(list(aligned)), "aligned inputs", FIRST, size=3, opacity=0.35)
    figure.add_trace(inputs)
    figure.add_trace(_dots(support, "barycenter", SECOND, size=6))
    _same_scale(figure, support.shape[1])
    return figure


def _dots(points: np.ndarray, name: str, colour: str, size: int = 5, **more: Any) -> Any:
    import plotly.graph_objects as go

    marker = {"color": colour, "size": size if points.shape[1] < 3 else max(2, size - 2)}
    return _scatter(go, points, mode="markers", marker=marker, name=name, **more)


def _segments(a: np.ndarray, b: np.ndarray) -> Any:
    """One trace of many segments: a gap (NaN) after every pair of ends."""
    import plotly.graph_objects as go

    ends = np.stack([a, b, np.full_like(a, np.nan)], axis=1).reshape(-1, a.shape[1])
    line = {"color": SEGMENT, "width": 1}
    return _scatter(go, ends, mode="lines", line=line, name="matched", hoverinfo="skip")


def _scatter(go: Any, points: np.ndarray, **more: Any) -> Any:
    axes = dict(zip("xyz", points.T, strict=False))
    if points.shape[1] == 1:
        axes["y"] = np.zeros(len(points))
    return go.Scatter3d(**axes, **more) if points.shape[1] == 3 else go.Scatter(**axes, **more)


def _same_scale(figure: Any, d: int) -> None:
    """A unit is as long on every axis: shapes must not look stretched."""
    if d == 3:
        figure.update_scenes(aspectmode="data")
        return
    for axis in figure.select_yaxes():
        axis.update(scaleanchor=axis.anchor or "x", scaleratio=1)
