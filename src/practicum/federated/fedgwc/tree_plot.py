"""How a federation was split: clusters over rounds, as wide as they have clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from practicum.errors import InputError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
WHOLE = "#D9D9D9"  # clusters that were split later
MOST_NAMES = 40  # clients whose names fit on an axis


def draw_splits(
    at: Sequence[int],
    labels: Int[np.ndarray, "S K"],
    rounds: int,
    *,
    names: Sequence[Any] | None = None,
    groups: Int[np.ndarray, " K"] | None = None,
) -> Figure:
    """The tree of clusters, from left to right: a bar a cluster, from its first round to its last.

    Parameters
    ----------
    at : sequence of int, length S - 1
        The round of each split.
    labels : int array, shape (S, K)
        Cluster of each client before the first split, and after each.
    rounds : int
        How many there were.
    names : sequence, optional
        Of the clients; their numbers by default.
    groups : int array, shape (K,), optional
        True groups, shown as dots at the right end.

    Raises
    ------
    InputError
        Not one row of labels more than there are splits, or not one name or group a client.

    Examples
    --------
    >>> labels = np.array([[0, 0, 0, 0], [0, 1, 0, 1]])
    >>> figure = draw_splits([30], labels, 100)
    >>> [bar.name for bar in figure.data]
    ['4 clients', '2 clients', '2 clients']
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for trace in split_traces(at, labels, rounds, names=names, groups=groups):
        figure.add_trace(trace)
    figure.update_layout(
        template="plotly_white",
        height=max(260, 120 + 14 * labels.shape[1]),
        margin={"l": 70, "r": 20, "t": 30, "b": 55},
    )
    figure.update_xaxes(title="round", showgrid=False)
    figure.update_yaxes(title="client", showgrid=False, zeroline=False, autorange="reversed")
    order, shown = _order(labels), _names(names, labels.shape[1])
    if len(order) <= MOST_NAMES:
        places = list(range(len(order)))
        figure.update_yaxes(tickvals=places, ticktext=[shown[k] for k in order])
    return figure


def split_traces(
    at: Sequence[int],
    labels: Int[np.ndarray, "S K"],
    rounds: int,
    *,
    names: Sequence[Any] | None = None,
    groups: Int[np.ndarray, " K"] | None = None,
) -> list[Any]:
    """The bars and dots of :func:`draw_splits`, to be put into a panel.

    Parameters
    ----------
    at, labels, rounds, names, groups
        As there.

    Raises
    ------
    InputError
        As there.

    Examples
    --------
    >>> len(split_traces([30], np.array([[0, 0, 0], [0, 1, 1]]), 100, groups=np.array([0, 1, 1])))
    5
    """
    import plotly.graph_objects as go

    n_clients = labels.shape[1]
    if len(labels) != len(at) + 1:
        raise InputError(f"{len(labels)} rows of labels for {len(at)} splits; one more expected")
    for what, given in (("names", names), ("groups", groups)):
        if given is not None and len(given) != n_clients:
            raise InputError(f"{len(given)} {what} for {n_clients} clients")
    order, shown = _order(labels), _names(names, n_clients)
    place = np.argsort(order)
    bars = _bars(at, labels, rounds)
    leaves = _members(labels[-1])
    traces: list[Any] = []
    for members, (first, last) in bars.items():
        low, high = (f(place[list(members)]) for f in (min, max))
        colour = COLOURS[leaves.index(members) % len(COLOURS)] if members in leaves else WHOLE
        inside = ", ".join(shown[k] for k in order if k in members)
        count = f"{len(members)} client{'s' * (len(members) != 1)}"
        end = max(last, first + rounds / 50)  # also what the last round split off is seen
        traces.append(
            go.Scatter(
                x=[first, end, end, first, first],
                y=[low - 0.45, low - 0.45, high + 0.45, high + 0.45, low - 0.45],
                fill="toself",
                mode="lines",
                line={"color": "white", "width": 1},
                fillcolor=colour,
                name=count,
                text=f"{count}, rounds {first} to {last}: {inside}",
                hoverinfo="text",
                hoveron="fills",
                showlegend=False,
            )
        )
    for group in np.unique(groups) if groups is not None else ():
        own = np.flatnonzero(groups == group)
        traces.append(
            go.Scatter(
                x=np.full(len(own), 1.03 * rounds),
                y=place[own],
                mode="markers",
                marker={"color": COLOURS[::-1][int(group) % len(COLOURS)], "size": 7},
                name=f"true group {group}",
                text=[f"{shown[k]}: true group {group}" for k in own],
                hoverinfo="text",
                legendgroup=f"true group {group}",
            )
        )
    return traces


def _order(labels: np.ndarray) -> np.ndarray:
    """Clients such that every cluster is in one piece: clusters lie within each other."""
    return np.lexsort(labels[::-1])


def _names(names: Sequence[Any] | None, n_clients: int) -> list[str]:
    return [str(name) for name in (range(n_clients) if names is None else names)]


def _members(row: np.ndarray) -> list[tuple[int, ...]]:
    """The clients of every cluster."""
    return [tuple(np.flatnonzero(row == label).tolist()) for label in np.unique(row)]


def _bars(
    at: Sequence[int], labels: np.ndarray, rounds: int
) -> dict[tuple[int, ...], tuple[int, int]]:
    """Members of every cluster there was -> its first and last round."""
    bars: dict[tuple[int, ...], tuple[int, int]] = {}
    edges = [0, *map(int, at), rounds]
    for row, first, last in zip(labels, edges[:-1], edges[1:], strict=True):
        if first == last < rounds:
            continue  # two clusters were split in one round
        for members in _members(row):
            bars[members] = (bars.get(members, (first,))[0], last)
    return bars
