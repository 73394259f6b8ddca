"""Graphs whose nodes carry text: readers of what people have, cleaned and explained.

Nodes and edges as two tables, GraphML, GML or edge lists, NetworkX graphs, SciPy adjacency
matrices, PyTorch Geometric data, and Debian's package index all become one :class:`TextGraph`:
undirected, without self-loops, every edge once. What was changed on the way is in its notes.
"""

from __future__ import annotations

import difflib
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Int

from practicum.data.table import read_table
from practicum.data.text import read_utf8
from practicum.errors import InputError, MissingExtra, listed, plain, reason_of, shown

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".txt")
NETWORKX = (".graphml", ".gml", ".gexf", ".edgelist")
ID = ("id", "node", "node_id", "name", "key")
TEXT = ("text", "title", "abstract", "description", "content", "body", "raw_text", "summary")
LABEL = ("label", "class", "category", "y", "target")
SOURCE = ("src", "source", "from", "u", "head", "citing")
TARGET = ("dst", "target", "to", "v", "tail", "cited")
WEIGHT = ("weight", "w")


@dataclass(frozen=True)
class TextGraph:
    """An undirected graph with a text and perhaps a class for every node.

    Attributes
    ----------
    ids : tuple of n str
        What the owner calls the nodes.
    texts : tuple of n str, or None
    edges : int64, shape (e, 2)
        Every undirected edge once, the smaller node first, sorted.
    weights : float64, shape (e,), or None
    labels : int64, shape (n,), or None
        Number of the class, -1 where unknown.
    classes : tuple of str
        Names of the classes, in the order of their numbers.
    name : str
    notes : tuple of str
        What was dropped or merged while reading, in sentences.
    columns : mapping
        Which column or attribute was read as what.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...] | None
    edges: np.ndarray
    weights: np.ndarray | None = None
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    name: str = "graph"
    notes: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_nodes(self) -> int:
        """n."""
        return len(self.ids)

    @property
    def n_edges(self) -> int:
        """Undirected edges."""
        return len(self.edges)

    @cached_property
    def degrees(self) -> Int[np.ndarray, " n"]:
        """Neighbours of each node."""
        return np.bincount(self.edges.ravel(), minlength=self.n_nodes)

    @property
    def homophily(self) -> float:
        """Share of edges whose ends have the same class, of those where both are known; or NaN."""
        if self.labels is None:
            return math.nan
        ends = self.labels[self.edges]
        known = (ends >= 0).all(1)
        return float((ends[known, 0] == ends[known, 1]).mean()) if known.any() else math.nan

    def keep(self, mask: Bool[np.ndarray, " n"]) -> TextGraph:
        """The subgraph on these nodes."""
        wanted = np.flatnonzero(mask)
        new = np.full(self.n_nodes, -1)
        new[wanted] = np.arange(len(wanted))
        inside = mask[self.edges].all(1)
        return replace(
            self,
            ids=tuple(self.ids[i] for i in wanted),
            texts=None if self.texts is None else tuple(self.texts[i] for i in wanted),
            edges=new[self.edges[inside]],
            weights=None if self.weights is None else self.weights[inside],
            labels=None if self.labels is None else self.labels[wanted],
        )

    def without_hubs(self, max_degree: int) -> TextGraph:
        """The same nodes without the edges of those that have more than ``max_degree`` of them."""
        inside = (self.degrees <= max_degree)[self.edges].all(1)
        lost = int((~inside).sum())
        note = f"{lost:,} edges of {(self.degrees > max_degree).sum():,} hubs left out"
        return replace(
            self,
            edges=self.edges[inside],
            weights=None if self.weights is None else self.weights[inside],
            notes=(*self.notes, note) if lost else self.notes,
        )

    def without_isolated(self) -> TextGraph:
        """Only the nodes that have a neighbour."""
        return self.keep(self.degrees > 0)


# --- edges ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CleanEdges:
    """Undirected edges, each once, and what it took.

    Attributes
    ----------
    edges : int64, shape (e, 2)
    weights : float64, shape (e,), or None
    n_loops, n_repeated : int
        Self-loops dropped; pairs given more than once (in either direction) merged. Where every
        edge came in both directions, as PyTorch Geometric and symmetric matrices hold undirected
        graphs, the second direction is no repetition.
    """

    edges: np.ndarray
    weights: np.ndarray | None
    n_loops: int
    n_repeated: int

    @property
    def note(self) -> str:
        """What was changed, in words; empty where nothing was."""
        parts = []
        if self.n_repeated:
            parts.append(f"{self.n_repeated:,} repeated or reversed edges merged")
        if self.n_loops:
            parts.append(f"{self.n_loops:,} self-loops dropped")
        return ", ".join(parts)


def clean_edges(edges: Any, n_nodes: int, weights: Any = None, *, rows: bool = False) -> CleanEdges:
    """Undirected edges without loops, each once.

    Parameters
    ----------
    edges : int array of shape (e, 2), or (2, e) as PyTorch Geometric has it
    n_nodes : int
    weights : float array of shape (e,), optional
        Positive. A pair given several times keeps its largest weight: both directions of one
        undirected edge are not two edges.
    rows : bool
        The edges are surely rows of pairs; without, the shape tells.

    Raises
    ------
    InputError
        Another shape (a 2 x 2 array may be read both ways and is refused), node numbers outside
        0 .. n_nodes - 1, or weights that are not positive.

    Examples
    --------
    >>> made = clean_edges([[0, 1], [1, 0], [2, 2], [1, 2]], 3)
    >>> made.edges.tolist(), made.note
    ([[0, 1], [1, 2]], '1 repeated or reversed edges merged, 1 self-loops dropped')
    """
    pairs = _pairs(edges, rows)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n_nodes):
        bad = np.flatnonzero(((pairs < 0) | (pairs >= n_nodes)).any(1))
        raise InputError(
            f"edge {bad[0]} joins {pairs[bad[0]].tolist()}; nodes are 0 to {n_nodes - 1} "
            f"({len(bad)} such edges)"
        )
    strength = None if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if strength is not None:
        if len(strength) != len(pairs):
            raise InputError(f"{len(strength)} weights for {len(pairs)} edges")
        bad = np.flatnonzero(~(np.isfinite(strength) & (strength > 0)))
        if len(bad):
            raise InputError(
                f"edge {bad[0]} has the weight {strength[bad[0]]:g}; positive expected"
            )
    loops = pairs[:, 0] == pairs[:, 1]
    given = pairs[~loops]
    pairs = np.sort(given, axis=1)
    keys, inverse = np.unique(pairs[:, 0] * n_nodes + pairs[:, 1], return_inverse=True)
    clean = np.stack([keys // max(n_nodes, 1), keys % max(n_nodes, 1)], axis=1)
    even = True  # both directions of an edge weigh the same
    if strength is not None:
        merged = np.zeros(len(clean))
        np.maximum.at(merged, inverse, strength[~loops])
        even = bool((strength[~loops] == merged[inverse]).all())
        strength = merged
    extra = len(given) - len(clean)
    if even and extra >= len(clean):
        directed = len(np.unique(given[:, 0] * n_nodes + given[:, 1]))
        if directed == 2 * len(clean):
            extra = len(given) - directed
    return CleanEdges(clean, strength, int(loops.sum()), extra)


def _pairs(edges: Any, rows: bool) -> Int[np.ndarray, "e 2"]:
    array = np.asarray(edges.tolist() if hasattr(edges, "detach") else edges)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if array.dtype.kind == "f" and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"edges are {array.dtype}", "pairs of node numbers are expected")
    if array.shape == (2, 2) and not rows:
        raise InputError(
            "edges of shape (2, 2) may be two rows of pairs or two columns of ends",
            "add an edge twice, or give a SciPy matrix",
        )
    if array.ndim == 2 and array.shape[1] == 2:
        return array.astype(np.int64)
    if array.ndim == 2 and array.shape[0] == 2:
        return array.T.astype(np.int64)
    hint = "(edges, 2) or (2, edges) is expected"
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        hint = "an adjacency matrix? hand it over as scipy.sparse.csr_array(matrix)"
    raise InputError(f"edges have shape {array.shape}", hint)


def text_graph(
    edges: Any,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    *,
    n_nodes: int | None = None,
    classes: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    weights: Any = None,
    name: str = "graph",
    rows: bool = False,
) -> TextGraph:
    """A graph from arrays: the one place where edges and labels are checked.

    Parameters
    ----------
    edges : (e, 2) or (2, e) int, or a SciPy sparse adjacency matrix
    texts : sequence of n str, optional
    labels : sequence of n, optional
        Names of classes, or numbers into ``classes``; None, NaN, "" and -1 are unknown.
    n_nodes : int, optional
        Needed where neither texts, labels nor ids say it.
    classes : sequence of str, optional
        By default the names among the labels, sorted.
    ids, weights, name : optional
    rows : bool
        As in :func:`clean_edges`.

    Raises
    ------
    InputError
        Lengths that disagree, a label that is no class, or edges that :func:`clean_edges` refuses.

    Warns
    -----
    UserWarning
        Edges were merged or dropped, with counts.

    Examples
    --------
    >>> graph = text_graph([[0, 1], [1, 2], [0, 2]], ["a", "b", "c"], ["x", "y", "x"])
    >>> graph.classes, graph.labels.tolist(), round(graph.homophily, 2)
    (('x', 'y'), [0, 1, 0], 0.33)
    """
    matrix = hasattr(edges, "tocoo")
    if matrix:
        edges, weights, n_nodes = _from_matrix(edges, n_nodes)
    sizes = {"texts": texts, "labels": labels, "ids": ids}
    lengths = {key: len(value) for key, value in sizes.items() if value is not None}
    if n_nodes is not None:
        lengths["n_nodes"] = n_nodes
    if not lengths:
        raise InputError("a graph needs texts, labels, ids or n_nodes to know its nodes")
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{key} {n}" for key, n in lengths.items())
        raise InputError(f"the numbers of nodes disagree: {found}")
    n = next(iter(lengths.values()))
    made = clean_edges(edges, n, weights, rows=rows or matrix)
    if made.note:
        warnings.warn(f"{name}: {made.note}", UserWarning, stacklevel=2)
    numbers, names = _labels(labels, classes)
    return TextGraph(
        tuple(map(str, ids)) if ids is not None else tuple(map(str, range(n))),
        tuple(texts) if texts is not None else None,
        made.edges,
        made.weights,
        numbers,
        names,
        name,
        (made.note,) if made.note else (),
    )


def _labels(
    labels: Sequence[Any] | None, classes: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    if labels is None:
        return None, tuple(classes or ())
    values = [None if _unknown(v) else v for v in _plain(labels)]
    numeric = all(v is None or isinstance(v, int | float) for v in values)
    if classes is None:
        names = tuple(sorted({_name(v) for v in values if v is not None}, key=_order))
    else:
        names = tuple(map(str, classes))
    if numeric and classes is not None:
        number = {i: i for i in range(len(names))}
    else:
        number = {name: i for i, name in enumerate(names)}
        values = [None if v is None else _name(v) for v in values]
    stray = [v for v in values if v is not None and v not in number]
    if stray:
        raise InputError(
            f"label {shown(stray[0])} is none of the classes ({len(stray)} such nodes)",
            f"classes: {listed(names)}",
        )
    return np.array([-1 if v is None else number[v] for v in values], dtype=np.int64), names


def _name(value: Any) -> str:
    """A label as its owner writes it: 3.0 (from a column with gaps) is 3."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _order(name: str) -> tuple[float, str]:
    """2 before 10, so that classes 0 to C - 1 keep their numbers; words by the alphabet."""
    return (int(name), name) if re.fullmatch(r"-?[0-9]{1,15}", name) else (math.inf, name)


def _plain(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _unknown(value: Any) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return (isinstance(value, str) and not value.strip()) or value == -1


def _from_matrix(matrix: sparse.spmatrix, n_nodes: int | None) -> tuple[Any, Any, int]:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the adjacency matrix has shape {matrix.shape}", "a square one expected")
    if n_nodes is not None and n_nodes != matrix.shape[0]:
        raise InputError(f"the adjacency matrix has {matrix.shape[0]} rows for {n_nodes} nodes")
    # both triangles say the same: the larger of the two is taken, and nothing is "repeated"
    both = matrix.maximum(matrix.T).tocoo()
    upper = (both.row <= both.col) & (both.data != 0)
    pairs = np.stack([both.row[upper], both.col[upper]], axis=1).astype(np.int64)
    weight = both.data[upper].astype(np.float64)
    return pairs, None if (weight == 1).all() else weight, matrix.shape[0]


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Which columns of the node and edge tables hold what; None lets the usual names decide.

    Attributes
    ----------
    id, text, label : str or None
        Of the nodes.
    src, dst, weight : str or None
        Of the edges.
    """

    id: str | None = None
    text: str | None = None
    label: str | None = None
    src: str | None = None
    dst: str | None = None
    weight: str | None = None


def read_graph(
    nodes: str | Path,
    edges: str | Path | None = None,
    *,
    columns: Columns | None = None,
    needs_text: bool = True,
) -> TextGraph:
    """Read a graph from files.

    Parameters
    ----------
    nodes : path
        * a table of nodes (CSV, TSV, Parquet, JSON lines) beside ``edges``: a column of ids, one
          of texts, perhaps one of labels;
        * a folder that holds ``nodes.*`` and ``edges.*``;
        * ``.graphml``, ``.gml`` or ``.gexf`` with the node attributes ``text`` and perhaps
          ``label``; ``.edgelist`` (no texts);
        * a Debian ``Packages`` file: descriptions, sections, Depends.
    edges : path, optional
        A table of edges; its first two columns unless they have usual names (src and dst,
        source and target, from and to, ...).
    columns : Columns, optional
    needs_text : bool
        Empty texts are an error; False lets them pass (embeddings are given elsewhere).

    Raises
    ------
    InputError
        Naming the file, the column or the line: unknown ids (the first five), repeated ids, empty
        texts, a missing column.

    Warns
    -----
    UserWarning
        Edges were merged or dropped, with counts.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "nodes.csv").write_text("id,text,label\\nd1,a cat,pet\\nd2,a dog,pet\\n")
    >>> _ = (folder / "edges.csv").write_text("src,dst\\nd1,d2\\n")
    >>> graph = read_graph(folder)
    >>> graph.ids, graph.edges.tolist(), graph.classes
    (('d1', 'd2'), [[0, 1]], ('pet',))
    """
    columns, path = columns or Columns(), Path(nodes)
    if path.is_dir():
        if edges is not None:
            raise InputError(f"{path} is a folder, and edges were named too", "give one of the two")
        path, edges = _file_in(path, "nodes"), _file_in(path, "edges")
    if edges is not None:
        with _file_named(path, Path(edges)):
            return _from_tables(path, Path(edges), columns, needs_text)
    if not path.exists():
        raise InputError(f"{path}: no such file", _closest(path))
    if path.suffix.lower() in NETWORKX:
        with _file_named(path):
            return _from_file(path, columns, needs_text)
    if path.name.startswith("Packages") or path.name.endswith("_Packages"):
        return packages_graph(read_packages(path), name=path.stem)
    raise InputError(
        f"{path}: where are the edges?",
        "give a table of edges as well, a folder with nodes.csv and edges.csv, or GraphML",
    )


@contextmanager
def _file_named(*paths: Path) -> Iterator[None]:
    """What is refused of arrays, which know no file, is refused of the file (the last one)."""
    try:
        yield
    except InputError as error:
        if any(str(path) in error.message for path in paths):
            raise
        raise InputError(f"{paths[-1]}: {error.message}", error.hint) from error


def _closest(path: Path) -> str | None:
    try:
        there = [p.name for p in path.parent.iterdir()]
    except OSError:
        return None
    close = difflib.get_close_matches(path.name, there, n=1)
    return f"did you mean {path.parent / close[0]}?" if close else None


def _file_in(folder: Path, stem: str) -> Path:
    found = sorted(p for p in folder.iterdir() if p.stem == stem and p.suffix in TABLES)
    if not found:
        there = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"{folder}: no {stem}.csv in it", f"there is {there}; {stem} as {', '.join(TABLES)}"
        )
    if len(found) > 1:
        raise InputError(f"{folder}: both {found[0].name} and {found[1].name}", "keep one of them")
    return found[0]


def _from_tables(path: Path, edges: Path, columns: Columns, needs_text: bool) -> TextGraph:
    frame = _table(path)
    id_column = _column(frame, columns.id, ID, path, "ids of the nodes", first=True)
    text = _column(frame, columns.text, TEXT, path, "texts", required=needs_text)
    label = _column(frame, columns.label, LABEL, path, "labels", required=False)
    ids = _ids(frame[id_column], path, id_column)
    texts = None if text is None else _texts(frame[text], path, text, needs_text)
    links = _table(edges)
    src = _column(links, columns.src, SOURCE, edges, "sources", first=True)
    rest = links.drop(columns=[src])
    dst = _column(rest, columns.dst, TARGET, edges, "targets of the edges", first=True)
    weight = _column(links, columns.weight, WEIGHT, edges, "weights", required=False)
    pairs = _known_ends(ids, links[[src, dst]], edges)
    graph = text_graph(
        pairs,
        texts,
        None if label is None else frame[label].tolist(),
        ids=ids,
        weights=None if weight is None else _numbers(links[weight], edges, weight),
        name=path.parent.name if path.stem == "nodes" and path.parent.name else path.stem,
        rows=True,
    )
    used = {"id": id_column, "text": text, "label": label, "src": src, "dst": dst, "weight": weight}
    return replace(graph, columns={k: v for k, v in used.items() if v is not None})


def _table(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise InputError(f"{path}: no such file", _closest(path))
    return read_table(path, numeric=False, missing="keep")


def _column(
    frame: pd.DataFrame,
    asked: str | None,
    usual: Sequence[str],
    path: Path,
    what: str,
    *,
    first: bool = False,
    required: bool = True,
) -> str | None:
    """The column asked for, one of the usual names, or (for ids and ends) the first."""
    there = [str(c) for c in frame.columns]
    if asked is not None:
        if asked in there:
            return asked
        close = difflib.get_close_matches(asked, there, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"{path} has no column {asked!r}", f"{hint}columns: {listed(there)}")
    lower = {c.lower(): c for c in reversed(there)}
    found = next((lower[u] for u in usual if u in lower), None)
    if found is None and first and there:
        return there[0]
    if found is None and required:
        raise InputError(
            f"{path}: which column holds the {what}?",
            f"columns: {listed(there)}; usual names: {', '.join(usual[:5])}",
        )
    return found


def _ids(column: pd.Series, path: Path, name: str) -> list[str]:
    empty = column.isna().to_numpy()
    if empty.any():
        raise InputError(f"{path}, column {name!r}, row {int(empty.argmax()) + 1}: an empty id")
    ids = [_name(v) for v in column.tolist()]
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(v for v in ids if v in seen or seen.add(v))
        raise InputError(
            f"{path}, column {name!r}: the id {shown(twice)} is there twice "
            f"({len(ids) - len(set(ids))} repeated ids)",
            "name the column of ids if this is not it",
        )
    return ids


def _texts(column: pd.Series, path: Path, name: str, needed: bool) -> list[str]:
    texts = ["" if v is None or v != v else str(v) for v in column.tolist()]
    empty = [i for i, t in enumerate(texts) if not t.strip()]
    if empty and needed:
        raise InputError(
            f"{path}, column {name!r}, row {empty[0] + 1}: an empty text "
            f"({len(empty)} of {len(texts)} nodes)",
            "give every node a text, or hand over embeddings of your own",
        )
    return texts


def _numbers(column: pd.Series, path: Path, name: str) -> np.ndarray:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise InputError(
            f"{path}, column {name!r}, row {bad[0] + 1}: {shown(column.iloc[bad[0]])} is no number"
        )
    return numbers


def _known_ends(ids: Sequence[str], links: pd.DataFrame, path: Path) -> np.ndarray:
    number = {name: i for i, name in enumerate(ids)}
    ends = [[_name(v) for v in links[c].tolist()] for c in links.columns]
    unknown = list(
        dict.fromkeys(v for pair in zip(*ends, strict=True) for v in pair if v not in number)
    )  # in the order of the file
    if unknown:
        n = sum(a not in number or b not in number for a, b in zip(*ends, strict=True))
        raise InputError(
            f"{path}, columns {links.columns[0]!r} and {links.columns[1]!r}: {n:,} edges name "
            f"nodes that are not among the nodes: {', '.join(map(shown, unknown[:5]))}"
            + (f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else ""),
            f"ids of nodes look like {', '.join(map(shown, ids[:3]))}",
        )
    return np.array([[number[a], number[b]] for a, b in zip(*ends, strict=True)]).reshape(-1, 2)


def _from_file(path: Path, columns: Columns, needs_text: bool) -> TextGraph:
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtra(f"{path}: graph files need networkx", "pip install networkx") from error
    readers = {
        ".graphml": nx.read_graphml,
        ".gml": nx.read_gml,
        ".gexf": nx.read_gexf,
        ".edgelist": lambda p: nx.read_edgelist(p, data=False),
    }
    try:
        graph = readers[path.suffix.lower()](path)
    except Exception as error:  # junk makes the parsers raise anything
        said = reason_of(error)
        raise InputError(f"{path}: not readable as {path.suffix[1:]}: {said}") from error
    return from_networkx(graph, columns=columns, name=path.stem, needs_text=needs_text)


# --- objects -------------------------------------------------------------------------------------


def from_networkx(
    graph: Any,
    texts: Sequence[str] | None = None,
    *,
    columns: Columns | None = None,
    name: str = "graph",
    needs_text: bool = True,
) -> TextGraph:
    """A NetworkX graph (of any kind) with a node attribute ``text`` and perhaps ``label``.

    Parameters
    ----------
    graph : networkx.Graph
    texts : sequence of str, optional
        In the order of ``graph.nodes``, instead of the attribute.
    columns : Columns, optional
        Names of the attributes.
    name : str
    needs_text : bool
        A node without a text is an error.

    Raises
    ------
    InputError
        Nodes without a text, naming the first five.

    Examples
    --------
    >>> import networkx as nx
    >>> made = nx.Graph([("x", "y")])
    >>> from_networkx(made, ["a text", "another"]).ids
    ('x', 'y')
    """
    columns, nodes = columns or Columns(), list(graph.nodes)
    attributes = [graph.nodes[v] for v in nodes]
    text = columns.text or next((k for k in TEXT if any(k in a for a in attributes)), "text")
    label = columns.label or next((k for k in LABEL if any(k in a for a in attributes)), None)
    there = sorted({str(k) for a in attributes for k in a})
    for asked in (columns.text, columns.label):
        if asked is not None and asked not in there:
            close = difflib.get_close_matches(asked, there, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise InputError(
                f"{name}: no node has the attribute {asked!r}",
                f"{hint}attributes: {listed(there) or 'none'}",
            )
    if texts is None:
        found = [str(a.get(text) or "").strip() for a in attributes]
        if lacking := [str(v) for v, t in zip(nodes, found, strict=True) if not t]:
            if needs_text:
                raise InputError(
                    f"{name}: {len(lacking)} of {len(nodes)} nodes have no attribute {text!r}: "
                    f"{', '.join(map(plain, lacking[:5]))}",
                    "name the attribute, hand over texts, or embeddings of your own",
                )
            found = None if len(lacking) == len(nodes) else found
        texts = found
    number = {v: i for i, v in enumerate(nodes)}
    pairs = np.array([[number[a], number[b]] for a, b in graph.edges()]).reshape(-1, 2)
    weights = [w for _, _, w in graph.edges(data="weight")]
    made = text_graph(
        pairs,
        texts,
        None if label is None else [a.get(label) for a in attributes],
        ids=[str(v) for v in nodes],
        weights=None if not weights or None in weights else np.array(weights, dtype=float),
        name=name,
        rows=True,
    )
    used = {"text": None if texts is None else text, "label": label}
    return replace(made, columns={k: v for k, v in used.items() if v is not None})


def from_pyg(data: Any, texts: Sequence[str] | None = None, *, name: str = "graph") -> TextGraph:
    """PyTorch Geometric data, told by ``edge_index``; torch_geometric itself is not needed.

    Parameters
    ----------
    data : object with ``edge_index`` (2, e), perhaps ``y`` (n,) and ``raw_texts`` or ``raw_text``
    texts : sequence of str, optional
    name : str

    Raises
    ------
    InputError
        It has no ``edge_index``, or its parts disagree.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> data = SimpleNamespace(edge_index=np.array([[0, 1, 2], [1, 2, 0]]), y=np.array([0, 1, 1]))
    >>> from_pyg(data, ["a", "b", "c"]).n_edges
    3
    """
    if not hasattr(data, "edge_index"):
        raise InputError(f"{type(data).__name__} has no edge_index")
    for key in ("raw_texts", "raw_text", "text", "texts"):
        texts = texts if texts is not None else getattr(data, key, None)
    pairs = np.asarray(
        data.edge_index.tolist() if hasattr(data.edge_index, "detach") else data.edge_index
    )
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"edge_index has shape {pairs.shape}", "(2, edges) is expected")
    y = getattr(data, "y", None)
    names = getattr(data, "label_names", None) or getattr(data, "label_text", None)
    return text_graph(
        pairs.T,
        texts,
        None if y is None else np.asarray(y).ravel(),
        classes=names,
        n_nodes=getattr(data, "num_nodes", None),
        name=name,
        rows=True,
    )


def as_text_graph(
    graph: Any,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    *,
    n_nodes: int | None = None,
    needs_text: bool = True,
) -> TextGraph:
    """A :class:`TextGraph` from whatever a person holds.

    Parameters
    ----------
    graph : TextGraph, NetworkX graph, SciPy sparse adjacency, PyTorch Geometric data, path, or an
        array of edges of shape (e, 2) or (2, e)
    texts, labels : optional
        Of the nodes, in order; they go before what the graph itself holds.
    n_nodes : int, optional
        For edges without texts.
    needs_text : bool
        An empty text in a file is an error.

    Raises
    ------
    InputError
        It is none of these.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> as_text_graph(csr_array([[0, 1], [1, 0]]), ["a", "b"]).edges.tolist()
    [[0, 1]]
    """
    if isinstance(graph, str | Path):
        graph = read_graph(graph, needs_text=needs_text and texts is None)
    elif hasattr(graph, "edge_index"):
        graph = from_pyg(graph, texts)
    elif hasattr(graph, "nodes") and hasattr(graph, "adj"):
        graph = from_networkx(graph, texts, needs_text=False)
    elif not isinstance(graph, TextGraph):
        if not (hasattr(graph, "tocoo") or hasattr(graph, "__len__")):
            raise InputError(
                f"a graph cannot be made of {type(graph).__name__}",
                "a path, edges, a SciPy matrix, a NetworkX graph or PyG data",
            )
        return text_graph(graph, texts, labels, n_nodes=n_nodes)
    for what, given in (("texts", texts), ("labels", labels)):
        if given is not None and len(given) != graph.n_nodes:
            raise InputError(f"{len(given)} {what} for {graph.n_nodes} nodes")
    if texts is not None:
        graph = replace(graph, texts=tuple(texts))
    if labels is not None:
        numbers, names = _labels(labels, graph.classes or None)
        graph = replace(graph, labels=numbers, classes=names)
    return graph


# --- Debian's package index ----------------------------------------------------------------------

FIELDS = ("Package", "Source", "Description", "Section", "Tag")
RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests")


def read_packages(source: str | Path | Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Stanzas of a Debian ``Packages`` file (or of ``apt-cache dumpavail``) by package name.

    Parameters
    ----------
    source : path, or lines

    Returns
    -------
    dict of name to a mapping of the fields Package, Source, Section, Tag, Description (its first
        line) and the relations Depends, Pre-Depends, Recommends, Suggests, where present

    Raises
    ------
    InputError
        No stanza has a Package field.

    Examples
    --------
    >>> found = read_packages(["Package: vim", "Section: editors", "Description: Vi IMproved"])
    >>> found["vim"]["Section"]
    'editors'
    """
    lines = read_utf8(source).split("\n") if isinstance(source, str | Path) else source
    found: dict[str, Mapping[str, str]] = {}
    for stanza in _stanzas(lines):
        if "Package" in stanza:
            found.setdefault(stanza["Package"], stanza)
    if not found:
        raise InputError(
            f"{source if isinstance(source, str | Path) else 'the index'}: no Package field",
            "a Debian package index is expected, e.g. from: apt-cache dumpavail > Packages",
        )
    return found


def _stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    wanted, stanza, field = {*FIELDS, *RELATIONS}, {}, ""
    for line in lines:
        if line.startswith((" ", "\t")):
            if field in wanted and field != "Description":  # its further lines are the long text
                stanza[field] += " " + line.strip()
        elif line.strip():
            field, _, value = line.partition(":")
            if field in wanted:
                stanza[field] = value.strip()
        else:
            yield stanza
            stanza, field = {}, ""
    yield stanza


def related(package: Mapping[str, str], relations: Sequence[str] = ("Depends",)) -> list[str]:
    """Names that a package relates to; of alternatives (``a | b``) the first, which apt prefers.

    Raises
    ------
    InputError
        A relation is not known.

    Examples
    --------
    >>> related({"Depends": "libc6 (>= 2.3), vim:any | editor"})
    ['libc6', 'vim']
    """
    if stray := [r for r in relations if r not in RELATIONS]:
        raise InputError(f"relation {stray[0]!r} is not known", ", ".join(RELATIONS))
    clauses = ",".join(package.get(r, "") for r in relations).split(",")
    names = [
        re.split(r"[\s(:\[]", c.strip(), maxsplit=1)[0]
        for c in (clause.split("|")[0] for clause in clauses)
    ]
    return [n for n in names if n]


def packages_graph(
    packages: Mapping[str, Mapping[str, str]],
    *,
    relations: Sequence[str] = ("Depends",),
    labels: Mapping[str, str] | None = None,
    same_source: bool = False,
    name: str = "packages",
) -> TextGraph:
    """A graph of Debian packages: their one-line descriptions, and an edge for every relation.

    Parameters
    ----------
    packages : see :func:`read_packages`
    relations : sequence of str
    labels : mapping of name to class, optional
        Only these packages become nodes; by default all, with their section.
    same_source : bool
        Only edges between packages that are built from one source.
    name : str

    Raises
    ------
    InputError
        No package is left.

    Examples
    --------
    >>> index = read_packages(["Package: a", "Depends: b", "Description: x", "Section: net", "",
    ...                        "Package: b", "Description: y", "Section: net"])
    >>> packages_graph(index).edges.tolist()
    [[0, 1]]
    """
    if labels is None:
        labels = {p: s.get("Section", "unknown").rpartition("/")[2] for p, s in packages.items()}
    names = sorted(p for p in labels if packages.get(p, {}).get("Description"))
    if not names:
        raise InputError(f"{name}: no package with a description is left")
    number = {p: i for i, p in enumerate(names)}
    source = {p: packages[p].get("Source", p).split(" ")[0] for p in names}
    pairs = {
        (min(a, b), max(a, b))
        for p in names
        for q in related(packages[p], relations)
        if q in number and (not same_source or source[p] == source[q])
        for a, b in [(number[p], number[q])]
        if a != b
    }
    return text_graph(
        np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2),
        [packages[p]["Description"] for p in names],
        [labels[p] for p in names],
        ids=names,
        name=name,
        rows=True,
    )
