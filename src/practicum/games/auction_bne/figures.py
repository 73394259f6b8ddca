"""Pictures of bid functions (plotly)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from practicum.games.auction_bne.certificate import Rivals
from practicum.games.auction_bne.game import BidFunction, Game

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe and Ito: told apart by colour-blind readers too
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
EXACT = "#E69F00"
POINTS = 200


def bid_figure(
    game: Game,
    functions: Sequence[BidFunction],
    exact: Sequence[BidFunction] | None = None,
    names: Sequence[str] = (),
) -> go.Figure:
    """Bids over values: the functions, their best responses dotted, the closed form dashed.

    Parameters
    ----------
    game : Game
    functions : sequence of BidFunction, one a type
    exact : sequence of BidFunction, optional
    names : sequence of str, optional
        Of the types.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> figure = bid_figure(game, [BidFunction.of(game.priors[0], lambda v: v / 2)])
    >>> [trace.name for trace in figure.data]
    ['bid', 'best response', 'value']
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    many = len(functions) > 1
    for i, own in enumerate(functions):
        v = np.linspace(own.entry, own.support[1], POINTS)
        best, _, _ = Rivals(game, functions, i).best_response(v)
        who = f"{names[i] if names else f'type {i + 1}'}: " if many else ""
        colour = COLOURS[i % len(COLOURS)]
        lines = [("bid", own(v), {"width": 3}), ("best response", best, {"dash": "dot"})]
        if exact is not None:
            lines.append(("closed form", exact[i](v), {"dash": "dash", "color": EXACT}))
        for name, y, line in lines:
            figure.add_scatter(
                x=v, y=y, mode="lines", name=who + name, line={"color": colour, "width": 2, **line}
            )
    low, high = min(f.support[0] for f in functions), game.top
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        name="value",
        line={"color": "#7F7F7F", "width": 1},
    )
    figure.update_xaxes(title="value")
    figure.update_yaxes(title="bid")
    return figure
