"""One cell of a comparison: prototypes and potentials are made once, every arm starts from them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from practicum.data.graph import TextGraph, as_text_graph
from practicum.errors import InputError
from practicum.graphs.llm_bp.baselines import (
    average_neighbours,
    label_propagation,
    label_spreading,
    personalised_propagation,
    simple_graph_convolution,
)
from practicum.graphs.llm_bp.homophily import (
    Homophily,
    chance_agreement,
    edges_to_judge,
    estimate_homophily,
    homophily_from_labels,
    judged_homophily,
    true_homophily,
)
from practicum.graphs.llm_bp.propagation import (
    approximate_propagation,
    belief_propagation,
    coupling_of,
)
from practicum.graphs.llm_bp.prototypes import (
    Prototypes,
    adapt_to_classes,
    class_log_probabilities,
    draw_shots,
    few_shot_prototypes,
    names_annotator,
    zero_shot_prototypes,
)

JUDGED = 100  # edges that somebody looks at to say how often linked nodes share a class
APPROXIMATE_TEMPERATURE = 0.01


@dataclass(frozen=True)
class Cell:
    """One graph, one draw of the annotated sample or of the labelled nodes.

    Attributes
    ----------
    x : float, shape (n, d)
        Unit embeddings.
    edges : int, shape (e, 2)
    labels : int, shape (n,)
        True classes, negative where unknown; they score, and answer for a perfect judge of edges.
    prototypes : Prototypes
    shown : int, shape (n,)
        Classes of labelled nodes (few-shot), all -1 in zero-shot: what beliefs are clamped to.
    by_name : float, shape (n, C), or None
        Class probabilities from the class names alone, where these were embedded.
    judged : Homophily or None
        From up to 100 random edges judged without error; None where no edge has known ends.
    fixed : float or None
        A homophily that is given rather than estimated.
    """

    x: np.ndarray
    edges: np.ndarray
    labels: np.ndarray
    prototypes: Prototypes
    shown: np.ndarray
    by_name: np.ndarray | None
    judged: Homophily | None
    fixed: float | None = None

    @property
    def n_kept(self) -> int:
        """K: classes that have a prototype."""
        return len(self.prototypes.kept)

    @cached_property
    def log_phi(self) -> Float[np.ndarray, "n K"]:
        """Node potentials."""
        return class_log_probabilities(self.x, self.prototypes.vectors)

    @cached_property
    def phi(self) -> Float[np.ndarray, "n K"]:
        """Class probabilities before the graph is seen."""
        return np.exp(self.log_phi)

    @cached_property
    def known(self) -> Int[np.ndarray, " n"]:
        """Column of each labelled or annotated node, -1 elsewhere: what baselines learn from."""
        column = np.full(self.prototypes.kept.max() + 1, -1)
        column[self.prototypes.kept] = np.arange(self.n_kept)
        shown = np.full(len(self.x), -1)
        good = self.prototypes.answers >= 0
        shown[self.prototypes.sample[good]] = column[self.prototypes.answers[good]]
        return shown

    @cached_property
    def clamp(self) -> Int[np.ndarray, " n"]:
        """Columns of labelled nodes alone: an annotator's answers are no certainty."""
        return np.where(self.shown >= 0, self.known, -1)

    @cached_property
    def em(self) -> Homophily:
        """Estimated from beliefs alone."""
        return estimate_homophily(self.phi, self.edges)

    @cached_property
    def from_labels(self) -> Homophily:
        """Estimated from the edges of labelled nodes; from beliefs where these are too few."""
        try:
            return homophily_from_labels(self.x, self.edges, self.clamp, self.n_kept)
        except InputError:
            return self.em

    def homophily(self, source: str) -> float:
        """r from ``judged``, ``em``, ``labels`` or ``true``, off 0 and 1; ``fixed`` before all."""
        if self.fixed is not None:
            return self.fixed
        if source == "true":
            return float(np.clip(true_homophily(self.edges, self.labels), 0.01, 0.99))
        found = {"judged": self.judged or self.em, "labels": None, "em": self.em}[source]
        return float(np.clip((found or self.from_labels).r, 0.01, 0.99))

    def beliefs(
        self, coupling: str, source: str, log_phi: np.ndarray | None = None
    ) -> Float[np.ndarray, "n K"]:
        """Belief propagation with this coupling and source of r."""
        chance = chance_agreement(self.phi)
        pair = coupling_of(self.homophily(source), self.n_kept, coupling, chance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # hubs and oscillation: known graphs
            done = belief_propagation(
                self.log_phi if log_phi is None else log_phi, self.edges, *pair, clamp=self.clamp
            )
        return done.probabilities

    def predict(self, scores: Float[np.ndarray, "n K"]) -> Int[np.ndarray, " n"]:
        """Class numbers (not columns) of the largest scores."""
        return self.prototypes.kept[scores.argmax(1)]


def make_cell(
    graph: TextGraph,
    x: Float[np.ndarray, "n d"],
    names: Float[np.ndarray, "C d"] | None,
    shots: int,
    rng: np.random.Generator,
    *,
    alpha: float = 1.0,
    fixed: float | None = None,
    permute: bool = False,
) -> Cell:
    """Draw what is random and make prototypes: by class names (no shots) or from labelled nodes.

    Parameters
    ----------
    graph : TextGraph
        With labels.
    x, names : float, shapes (n, d) and (C, d)
        Embedded texts and class names; names may be None with labelled nodes and alpha 1.
    shots : int
        Labelled nodes a class; 0 for zero-shot.
    rng : numpy Generator
    alpha : float
        Of :func:`~practicum.graphs.llm_bp.prototypes.adapt_to_classes`; 1 leaves embeddings alone.
    fixed : float, optional
        A homophily for every arm.
    permute : bool
        Deal the edges out to random nodes: the same degrees, and nothing to learn from.

    Raises
    ------
    InputError
        The graph has no labels, a class too few nodes, or class names are needed and not given.

    Examples
    --------
    >>> graph = TextGraph(tuple("abcd"), None, np.array([[0, 1], [2, 3]]), None,
    ...                   np.array([0, 0, 1, 1]), ("x", "y"))
    >>> x = np.repeat(np.eye(2), 2, axis=0)
    >>> cell = make_cell(graph, x, np.eye(2), 1, np.random.default_rng(0))
    >>> cell.predict(ARMS["raw"](cell)).tolist()
    [0, 0, 1, 1]
    """
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels", "a comparison needs some to score against")
    if names is None and (shots == 0 or alpha < 1):
        raise InputError("class names are not embedded", "labelled nodes (shots), and alpha=1")
    labels, edges = graph.labels, graph.edges
    judge, draw = rng.spawn(2)
    if permute:
        order = judge.permutation(len(x))
        edges = np.sort(order[edges], axis=1)
    vectors = adapt_to_classes(x, names, alpha) if alpha < 1 else x
    shown = draw_shots(labels, shots, draw) if shots else np.full(len(x), -1)
    n_classes = len(graph.classes)
    if shots:
        prototypes = few_shot_prototypes(vectors, shown, n_classes)
    else:
        annotate = names_annotator(x, names)
        prototypes = zero_shot_prototypes(vectors, n_classes, annotate, draw)
    judged = _judge(edges, labels, judge)
    by_name = None if names is None else np.exp(class_log_probabilities(x, names))
    return Cell(vectors, edges, labels, prototypes, shown, by_name, judged, fixed)


def _judge(edges: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Homophily | None:
    known = edges[(labels[edges] >= 0).all(1)]
    if not len(known):
        return None
    ends = labels[edges_to_judge(known, JUDGED, rng)]
    return judged_homophily(ends[:, 0] == ends[:, 1])


def _approximate(cell: Cell) -> np.ndarray:
    """Sign of w by whether linked nodes agree more than chance; published: by the data's name."""
    phi = np.exp(class_log_probabilities(cell.x, cell.prototypes.vectors, APPROXIMATE_TEMPERATURE))
    attract = cell.homophily("judged") > chance_agreement(cell.phi)
    scores = approximate_propagation(phi, cell.edges, 0.5 if attract else -0.5)
    scores = np.maximum(scores, 1e-9)
    return scores / scores.sum(1, keepdims=True)


def _logistic(cell: Cell) -> np.ndarray:
    """Logistic regression on the text alone; 10 was best of 1, 10, 100 on other draws."""
    return simple_graph_convolution(
        cell.x, cell.edges, cell.known, cell.n_kept, hops=0, strength=10.0
    )


def _averaged(cell: Cell) -> np.ndarray:
    return class_log_probabilities(average_neighbours(cell.x, cell.edges), cell.prototypes.vectors)


ARMS: Mapping[str, Callable[[Cell], np.ndarray]] = {
    "bp": lambda c: c.beliefs("paper", "judged"),
    "bp-uniform": lambda c: c.beliefs("uniform", "judged"),
    "bp-odds": lambda c: c.beliefs("odds", "judged"),
    "bp-em": lambda c: c.beliefs("paper", "em"),
    "bp-labels": lambda c: c.beliefs("paper", "labels"),
    "bp-appr": _approximate,
    "lr+bp": lambda c: c.beliefs("paper", "judged", np.log(_logistic(c) + 1e-9)),
    "na+bp": lambda c: c.beliefs("odds", "judged", _averaged(c)),
    "na": lambda c: np.exp(_averaged(c)),
    "appnp": lambda c: personalised_propagation(c.phi, c.edges),
    "sgc": lambda c: simple_graph_convolution(c.x, c.edges, c.known, c.n_kept),
    "spreading": lambda c: label_spreading(c.known, c.edges, c.phi),
    "lp": lambda c: label_propagation(c.known, c.edges, c.phi),
    "logistic": lambda c: _logistic(c),
    "names": lambda c: c.by_name[:, c.prototypes.kept],
    "raw": lambda c: c.phi,
    "bp-true": lambda c: c.beliefs("paper", "true"),
    "bp-permuted": lambda c: c.beliefs("paper", "judged"),  # on a cell made with permute=True
}


def score(
    cell: Cell, scores: Float[np.ndarray, "n K"], n_classes: int, *, bins: int = 10
) -> dict[str, Any]:
    """Accuracy, macro-F1 over all classes, calibration error, on nodes whose class was not shown.

    A class without a prototype counts as missed; the published macro-F1 renumbers classes and is
    wrong when one is dropped.

    Parameters
    ----------
    cell : Cell
    scores : float, shape (n, K)
        Rows sum to 1.
    n_classes : int
    bins : int
        Of confidence, equally wide.

    Returns
    -------
    dict with ``accuracy``, ``macro_f1``, ``calibration`` (expected calibration error), and the
        curves ``confidence``, ``hit_rate``, ``bin_share``, ``confusion``, ``hits``, ``tested``

    Raises
    ------
    InputError
        No node to test on.

    Examples
    --------
    >>> graph = TextGraph(tuple("abcd"), None, np.array([[0, 1], [2, 3]]), None,
    ...                   np.array([0, 0, 1, 1]), ("x", "y"))
    >>> x = np.repeat(np.eye(2), 2, axis=0)
    >>> cell = make_cell(graph, x, np.eye(2), 1, np.random.default_rng(0))
    >>> score(cell, cell.phi, 2)["accuracy"]
    1.0
    """
    from sklearn.metrics import confusion_matrix

    test = np.flatnonzero((cell.labels >= 0) & (cell.shown < 0))
    if not len(test):
        raise InputError("no labelled node is left to test on")
    truth, guess = cell.labels[test], cell.predict(scores)[test]
    table = confusion_matrix(truth, guess, labels=range(n_classes))
    right, there = np.diag(table), table.sum(1)
    f1 = 2 * right / np.maximum(there + table.sum(0), 1)
    top = scores[test].max(1) / scores[test].sum(1)
    place = np.minimum((top * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    mean = np.bincount(place, top, minlength=bins) / np.maximum(count, 1)
    rate = np.bincount(place, truth == guess, minlength=bins) / np.maximum(count, 1)
    degrees = np.bincount(cell.edges.ravel(), minlength=len(cell.x))[test]
    group = np.searchsorted([2, 3, 6, 11], degrees, side="right")  # 0-1, 2, 3-5, 6-10, more
    return {
        "accuracy": float((truth == guess).mean()),
        "macro_f1": float(f1[there > 0].mean()),
        "calibration": float((count / len(test) * np.abs(mean - rate)).sum()),
        "confidence": mean,
        "hit_rate": rate,
        "bin_share": count / len(test),
        "confusion": table,
        "hits": np.bincount(group, truth == guess, minlength=5),
        "tested": np.bincount(group, minlength=5),
    }


def compare_tag(
    graph: Any,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    *,
    arms: Sequence[str] = ("raw", "na", "lp", "bp", "bp-odds", "bp-appr", "na+bp"),
    shots: Sequence[int] = (0, 1, 5, 10),
    seeds: int = 10,
    encoder: Any = "minilm",
    embeddings: Float[np.ndarray, "n d"] | None = None,
    alpha: float = 1.0,
) -> pd.DataFrame:
    """Every arm on your labelled graph, paired over seeds.

    Parameters
    ----------
    graph : anything :func:`practicum.data.graph.as_text_graph` takes
    texts, labels : optional
        Where the graph does not hold them.
    arms : sequence of str
        Of ``ARMS``.
    shots : sequence of int
        Labelled nodes a class; 0 is zero-shot by class names.
    seeds : int
    encoder : see :func:`practicum.models.embed.embed`
    embeddings : float, shape (n, d), optional
        Instead of the texts'; class names still go through the encoder where they are needed: for
        0 shots, an alpha below 1 and the arm names.
    alpha : float

    Returns
    -------
    DataFrame with the columns shots, seed, arm, accuracy, macro_f1, calibration

    Raises
    ------
    InputError
        An unknown arm, no labels, unusable texts.

    Examples
    --------
    >>> x = np.repeat(np.eye(2), 6, axis=0)
    >>> edges = [[i, i + 1] for i in range(11)]
    >>> table = compare_tag(edges, [f"text {i}" for i in range(12)], ["cat", "dog"] * 6, seeds=1,
    ...     shots=[1], embeddings=x, encoder=lambda names: np.eye(2)[: len(names)], arms=["raw"])
    >>> table.columns.tolist()
    ['shots', 'seed', 'arm', 'accuracy', 'macro_f1', 'calibration']
    """
    from practicum.models.embed import embed, unit_rows

    if stray := [a for a in arms if a not in ARMS]:
        raise InputError(f"no arm {stray[0]!r}", f"there are {', '.join(ARMS)}")
    data = as_text_graph(graph, texts, labels)
    if embeddings is None and data.texts is None:
        raise InputError(f"{data.name} has no texts", "hand over texts or embeddings")
    x = embed(data.texts, encoder).vectors if embeddings is None else unit_rows(embeddings)
    needed = 0 in shots or alpha < 1 or "names" in arms
    names = embed(list(data.classes), encoder).vectors if needed else None
    if names is not None and names.shape[1] != x.shape[1]:
        raise InputError(
            f"embeddings have {x.shape[1]} dimensions, class names {names.shape[1]}",
            "name the encoder that made them, or leave out 0 shots and the arm names",
        )
    rows = []
    for k in shots:
        for seed in range(seeds):
            cells: dict[bool, Cell] = {}  # arms of one draw share its potentials and estimates
            for arm in arms:
                permute = arm == "bp-permuted"
                if permute not in cells:
                    rng = np.random.default_rng([seed, k])
                    cells[permute] = make_cell(data, x, names, k, rng, alpha=alpha, permute=permute)
                cell = cells[permute]
                found = score(cell, ARMS[arm](cell), len(data.classes))
                wanted = {m: found[m] for m in ("accuracy", "macro_f1", "calibration")}
                rows.append({"shots": k, "seed": seed, "arm": arm, **wanted})
    return pd.DataFrame(rows)
