"""Why a query was decided as it was: the rows with their shares, and what would turn it round."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Integer

from practicum.errors import InputError, MissingExtra
from practicum.vision.visual_memory.votes import vote_curve

if TYPE_CHECKING:
    import pandas as pd
    from PIL.Image import Image

LONGEST = 50  # removals that are tried before a decision is called robust
TILE, EDGE, TEXT = 96, 4, 40  # pixels of the strip


@dataclass(frozen=True)
class FlipSet:
    """The rows whose removal turns a decision round.

    Attributes
    ----------
    ids : list of str
        In the order in which they were removed.
    winner, new_winner : labels
        ``new_winner`` is None where no class took over within the bound.
    robust : bool
        The bound was reached first.

    Examples
    --------
    >>> FlipSet(["a"], "cat", "dog").n
    1
    """

    ids: list[str]
    winner: Any
    new_winner: Any = None
    robust: bool = False

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.ids)

    def __str__(self) -> str:
        if self.robust:
            return f"Robust: removing {self.n} neighbours one by one leaves it {self.winner!r}."
        if self.new_winner is None:
            return f"No other class is among the neighbours: it stays {self.winner!r}."
        rows = "1 row" if self.n == 1 else f"{self.n} rows"
        names = ", ".join(self.ids[:5]) + (", ..." if self.n > 5 else "")
        return f"Without {rows} ({names}) it would be {self.new_winner!r}."


def flip_set(
    distances: Float[np.ndarray, "m"],
    codes: Integer[np.ndarray, "m"],
    k: int,
    weigh: Callable[[np.ndarray, np.ndarray], np.ndarray],
    longest: int = LONGEST,
) -> tuple[list[int], int, int | None, bool]:
    """Fewest rows of the winning class, found greedily, whose removal flips the decision.

    At each step the row of the winning class with the largest weight among the first k goes; ranks
    move up and the next row comes in (so give many more rows than k).

    Parameters
    ----------
    distances, codes : arrays of shape (m,)
        Neighbours, nearest first.
    k : int
        Neighbours that vote.
    weigh : callable
        ``weigh(distances (1, j), positions (1, j)) -> weights (1, j)``.
    longest : int
        Removals that are tried.

    Returns
    -------
    positions : list of int
        Removed, in order.
    winner : int
        The class that is defended.
    new_winner : int or None
        None: no other class took over.
    robust : bool
        ``longest`` was reached.

    Raises
    ------
    InputError
        There are no neighbours.

    Examples
    --------
    >>> from practicum.vision.visual_memory.votes import vote_weights
    >>> flip_set(np.linspace(0, 0.4, 5), np.array([0, 0, 1, 1, 1]), 3,
    ...          lambda d, at: vote_weights(d))
    ([0], 0, 1, False)
    """
    if not 1 <= k <= len(codes):
        raise InputError(f"k={k} with {len(codes)} neighbours")
    left, removed, winner = np.arange(len(codes)), [], None
    while True:
        first = left[:k]
        if not len(first):
            return removed, winner, None, False
        weights = weigh(distances[None, first], first[None])
        now = int(vote_curve(codes[None, first], weights)[0, -1])
        winner = now if winner is None else winner
        if now != winner:
            return removed, winner, now, False
        if len(removed) == longest:
            return removed, winner, None, True
        own = np.flatnonzero(codes[first] == winner)
        goes = own[weights[0, own].argmax()]
        removed.append(int(first[goes]))
        left = np.delete(left, goes)


@dataclass
class Explanation:
    """One decision and the rows that made it.

    Attributes
    ----------
    table : pandas.DataFrame
        ``rank`` (from 1), ``id``, ``label``, ``distance`` (0..2), ``weight``, ``share`` of the
        winner's and others' weights (sums to 1).
    winner : label
    probabilities : dict of label -> float
        Of the classes among the neighbours, largest first.
    flip_set : FlipSet
    query, thumbnails : pictures, where there are any

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory(dim=2)
    >>> _ = memory.add(np.eye(2), labels=["cat", "dog"], ids=["tom", "rex"])
    >>> memory.explain(np.array([1.0, 0.2]), k=2).table["id"].tolist()
    ['tom', 'rex']
    """

    table: pd.DataFrame
    winner: Any
    probabilities: dict[Any, float]
    flip_set: FlipSet
    settings: str = ""
    query: Image | None = None
    thumbnails: Sequence[bytes | None] = field(default_factory=list)

    def __str__(self) -> str:
        chances = ", ".join(f"{c} {100 * p:.0f} %" for c, p in list(self.probabilities.items())[:4])
        return f"{self.winner} ({chances}; {self.settings}). {self.flip_set}"

    def plot(self, columns: int = 12) -> Image:
        """The strip: the query, then its neighbours, framed by class, with their shares.

        Parameters
        ----------
        columns : int
            Pictures a line.

        Raises
        ------
        MissingExtra
            Pillow is not installed.
        """
        return strip(self, columns)

    def html(self) -> str:
        """The same as a page of its own, pictures inside, with the table."""
        return page(self)


def _tiles(explanation: Explanation) -> list[tuple[Any, str, str, str, str]]:
    """(picture, colour, two lines, and the whole of them) of the query and each neighbour."""
    tiles = [(explanation.query, "#444444", "query", str(explanation.winner), "")]
    table = explanation.table
    small = list(explanation.thumbnails) or [None] * len(table)
    for row, data in zip(table.itertuples(), small, strict=True):
        colour = "#0072B2" if row.label == explanation.winner else "#D55E00"
        share = f"{row.rank}. {100 * row.share:.1f} %"
        tiles.append(
            (data, colour, str(row.label), share, f"{row.id}, distance {row.distance:.3f}")
        )
    return tiles


def _picture(data: Any) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra("pictures need Pillow", "pip install 'practicum[vision]'") from error
    if data is None:
        return Image.new("RGB", (TILE, TILE), "#DDDDDD")
    image = Image.open(io.BytesIO(data)) if isinstance(data, bytes) else data
    image = image.convert("RGB")
    scale = TILE / max(image.size)
    size = tuple(max(1, round(side * scale)) for side in image.size)
    canvas = Image.new("RGB", (TILE, TILE), "white")
    canvas.paste(image.resize(size), tuple((TILE - side) // 2 for side in size))
    return canvas


def strip(explanation: Explanation, columns: int = 12) -> Image:
    """The neighbours as one picture; see :meth:`Explanation.plot`.

    Parameters
    ----------
    explanation : Explanation
    columns : int
        Pictures a line.

    Raises
    ------
    MissingExtra
        Pillow is not installed.

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory(dim=2)
    >>> _ = memory.add(np.eye(2), labels=["cat", "dog"])
    >>> strip(memory.explain(np.array([1.0, 0.2]), k=2)).size
    (312, 144)
    """
    tiles = _tiles(explanation)
    _picture(None)  # says what is missing where Pillow is
    from PIL import Image, ImageDraw, ImageFont

    columns = max(1, min(columns, len(tiles)))
    wide, high = TILE + 2 * EDGE, TILE + 2 * EDGE + TEXT
    canvas = Image.new("RGB", (columns * wide, -(-len(tiles) // columns) * high), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    for i, (data, colour, first, second, _) in enumerate(tiles):
        x, y = (i % columns) * wide, (i // columns) * high
        draw.rectangle((x + 1, y + 1, x + wide - 2, y + TILE + 2 * EDGE - 2), fill=colour)
        canvas.paste(_picture(data), (x + EDGE, y + EDGE))
        for line, text in enumerate((first, second)):
            while text and draw.textlength(text, font=font) > wide - 4:
                text = text[:-1]
            draw.text((x + 4, y + TILE + 2 * EDGE + 2 + 17 * line), text, fill="black", font=font)
    return canvas


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
.s{display:flex;flex-wrap:wrap;gap:.5rem}figure{margin:0;width:7rem;font-size:.8rem}
figure img{width:6rem;height:6rem;border:4px solid}figcaption{overflow-wrap:anywhere}
table{border-collapse:collapse;margin-top:1.5rem}td,th{padding:.2rem .8rem;text-align:right}
td:nth-child(2),td:nth-child(3),th:nth-child(2),th:nth-child(3){text-align:left}
tr:nth-child(even){background:#8881}:root{color-scheme:light dark}
"""


def page(explanation: Explanation) -> str:
    """The explanation as one HTML page, pictures inside.

    Parameters
    ----------
    explanation : Explanation

    Raises
    ------
    MissingExtra
        Pillow is not installed.

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory(dim=2)
    >>> _ = memory.add(np.eye(2), labels=["cat", "dog"])
    >>> "cat" in page(memory.explain(np.array([1.0, 0.2]), k=2))
    True
    """
    figures = []
    for data, colour, first, second, about in _tiles(explanation):
        buffer = io.BytesIO()
        _picture(data).save(buffer, "PNG")
        code = base64.b64encode(buffer.getvalue()).decode()
        alt = html.escape(f"{first}: {about or second}", quote=True)
        figures.append(
            f'<figure><img alt="{alt}" title="{alt}" style="border-color:{colour}" '
            f'src="data:image/png;base64,{code}"><figcaption>{html.escape(first)}<br>'
            f"{html.escape(second)}</figcaption></figure>"
        )
    table = explanation.table
    rows = "".join(
        f"<tr><td>{r.rank}</td><td>{html.escape(str(r.id))}</td><td>{html.escape(str(r.label))}"
        f"</td><td>{r.distance:.4f}</td><td>{r.weight:.4f}</td><td>{100 * r.share:.1f} %</td></tr>"
        for r in table.itertuples()
    )
    title = html.escape(f"Why {explanation.winner}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{title}</h1><p>{html.escape(str(explanation))}</p>"
        "<p>Blue frames vote for the winner, orange ones for another class; the percentage is the "
        f'share of the whole vote.</p><div class="s">{"".join(figures)}</div><table><thead><tr>'
        "<th>rank</th><th>row</th><th>label</th><th>cosine distance</th><th>weight</th>"
        f"<th>share</th></tr></thead><tbody>{rows}</tbody></table></html>\n"
    )
