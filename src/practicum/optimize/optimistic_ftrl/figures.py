"""Pictures of one run: regret, its terms, the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

if TYPE_CHECKING:
    from practicum.optimize.optimistic_ftrl.oco import OCOResult

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MAX_POINTS = 2000


def result_figure(result: OCOResult) -> Figure:
    """Average regret, and below it the regularisation, the state's norm and the errors.

    Parameters
    ----------
    result : OCOResult
        Of a single run; of parallel runs the first is drawn.

    Raises
    ------
    ValueError
        If the result holds no round.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, OptFPRL, run_oco
    >>> figure = result_figure(run_oco(OptFPRL(Ball(1.0, 1)), np.ones((20, 1))))
    >>> len(figure.data) >= 3
    True
    """
    T = result.n_rounds
    keep = np.unique(np.linspace(0, T - 1, min(T, MAX_POINTS)).astype(int))
    t = keep + 1
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.12)
    curves = [
        (1, f"average regret, {result.comparator.name}", _first(result.regret)[keep] / t),
        (2, "prediction error", _first(result.errors)[keep]),
        (2, "regularisation sigma", _first(result.sigma)[keep]),
    ]
    if len(result.states):
        norms = np.linalg.norm(result.states, axis=-1)
        curves.append((2, "norm of the stored state", _first(norms)[keep]))
    for i, (row, name, y) in enumerate(curves):
        if np.isnan(y).all():
            continue
        line = {"color": COLOURS[i % len(COLOURS)]}
        figure.add_trace(Scatter(x=t, y=y, name=name, mode="lines", line=line), row=row, col=1)
    figure.update_xaxes(title="round", row=2, col=1)
    figure.update_yaxes(title="R_t / t", row=1, col=1)
    caption = f"{result.explain()} Above: average regret. Below: what the learner carries."
    figure.update_layout(
        template="plotly_white",
        height=560,
        meta={"caption": caption},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
    )
    return figure


def _first(curve: np.ndarray) -> np.ndarray:
    return curve.reshape(len(curve), -1)[:, 0]
