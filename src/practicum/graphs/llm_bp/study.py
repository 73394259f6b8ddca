"""The study: graphs that agree or differ along edges, 18 arms, 0 to 10 labels a class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from plotly.subplots import make_subplots

from practicum.data.graph import Columns, TextGraph, read_graph
from practicum.errors import InputError
from practicum.graphs.llm_bp.arms import ARMS, Cell, make_cell, score
from practicum.graphs.llm_bp.exact import enumerate_marginals, random_tree, table_propagation
from practicum.graphs.llm_bp.homophily import true_homophily
from practicum.graphs.llm_bp.propagation import belief_propagation, coupling_of
from practicum.graphs.llm_bp.prototypes import check_class_names
from practicum.graphs.llm_bp.textgraphs import graphs_here, large_classes, load_graph, snowball
from practicum.models.embed import embed, unit_rows
from practicum.study import (
    Arm,
    Measure,
    Outcome,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    equivalent_within,
    greater_than,
    needs_more,
    never,
)
from practicum.study.evidence import Sample, differences, number
from practicum.study.plots import colours, new_figure, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from practicum.data.kinds import UserData

APPS, ROLES = "debian-apps", "debian-roles"
NOUNS, DERIVED = "wordnet-nouns", "wordnet-derivation"
TOPICS, KINDS = "scipy-topics", "scipy-kinds"
TREES = "trees"
ALIKE, DIFFERENT = (APPS, NOUNS, TOPICS), (ROLES, DERIVED, KINDS)  # along edges
PUBLISHED = (
    *("cora", "citeseer", "pubmed", "bookhis", "bookchild", "sportsfit", "wikics"),
    *("cornell", "texas", "wisconsin", "washington"),
)
ADAPTED = 0.6  # of the embedding is kept where it is turned towards the classes
BOOKCHILD = 0.35  # the homophily that was estimated, and used, for 24 classes
SWEEP = (0.05, 0.2, BOOKCHILD, 0.5, 0.65, 0.8, 0.95)
COUPLINGS = ("bp", "bp-uniform", "bp-odds")
GAP = 1e-9  # of belief propagation on a tree, and from the full message table
JUDGE = "100 edges judged by their true classes (a perfect judge)"


class LLMBPStudy(Study):
    """What belief propagation adds to text, where linked nodes agree and where they do not."""

    slug = "llm-bp"
    arms: ClassVar[Mapping[str, Arm]] = {
        "bp": Arm("method", "published coupling, r from 100 judged edges"),
        "bp-odds": Arm("method", "ours: coupling centred at chance agreement, same r"),
        "bp-uniform": Arm("method", "ours: coupling centred at 1/C, same r"),
        "na+bp": Arm("method", "ours: neighbour averaging, then bp-odds"),
        "lr+bp": Arm("method", "ours: bp on a logistic regression's probabilities, same r"),
        "bp-em": Arm("method", "published coupling, r from beliefs alone (EM)"),
        "bp-labels": Arm("method", "ours: bp, r from the edges of labelled nodes (0, 1 shot: EM)"),
        "bp-appr": Arm("method", "published one-step short cut, sign by the judged r"),
        "na": Arm("baseline", "averaged neighbour embeddings, nearest prototype"),
        "appnp": Arm("baseline", "personalised PageRank of the class guesses"),
        "sgc": Arm("baseline", "logistic regression on smoothed embeddings (SGC)"),
        "spreading": Arm("baseline", "scikit-learn LabelSpreading on the graph"),
        "lp": Arm("cheap", "label propagation; text where no label arrives"),
        "logistic": Arm("cheap", "logistic regression on the text alone"),
        "names": Arm("cheap", "the text alone: nearest class name"),
        "raw": Arm("cheap", "the text alone: nearest prototype"),
        "bp-true": Arm("control", "bp with the true share of edges within a class"),
        "bp-permuted": Arm("control", "bp on the same edges dealt out to random nodes"),
    }
    measures = {
        "accuracy": Measure(
            "accuracy on nodes whose class was not shown", "higher", bounds=(0.0, 1.0)
        ),
        "macro_f1": Measure("macro-F1 over all classes", "higher", bounds=(0.0, 1.0)),
        "calibration": Measure("expected calibration error", "lower", bounds=(0.0, 1.0)),
    }

    def __init__(self, own: OwnGraph | None = None) -> None:
        self.own = own

    # --- the grid ---

    def trials(self, scale: Scale) -> Iterator[Trial]:
        """Graphs x shots x arms x seeds; task-adaptive embeddings; assumed homophilies; trees."""
        if self.own is not None:
            yield from self._own_trials(scale)
            return
        small = scale.name == "smoke"
        seeds = scale.seeds(smoke=2, cpu=10, paper=30)
        shots = scale.pick(smoke=(0, 5), cpu=(0, 1, 5, 10), paper=(0, 10))
        graphs = scale.pick(smoke=(TOPICS, KINDS), cpu=_graphs(), paper=PUBLISHED)
        base = {"size": 400 if small else 0, "encoder": _encoder(scale), "alpha": 1.0, "fixed": 0.0}
        for seed in seeds:
            for graph in graphs:
                for k in shots:
                    for arm in self.arms:
                        yield self.trial(graph, arm, seed, shots=k, **base)
                for arm in ("raw", "bp-odds"):
                    yield self.trial(graph, arm, seed, shots=0, **base | {"alpha": ADAPTED})
                for r in SWEEP:
                    if r == BOOKCHILD or seed < 5:
                        for arm in COUPLINGS:
                            yield self.trial(graph, arm, seed, shots=0, **base | {"fixed": r})
            yield self.trial(TREES, "bp", seed, trees=scale.pick(smoke=5, cpu=40, paper=40))

    def _own_trials(self, scale: Scale) -> Iterator[Trial]:
        own = self.own  # its encoder and alpha are options, which results are stored under
        for seed in scale.seeds(smoke=2, cpu=10, paper=10):
            for arm in self.arms:
                yield self.trial(own.name, arm, seed, shots=own.shots)

    def group(self, trial: Trial) -> Hashable | None:
        """The arms of one draw share its embeddings and prototypes."""
        if trial.dataset == TREES:
            return None
        return (trial.dataset, trial.seed, trial.params)

    def run(self, trial: Trial) -> Mapping[str, Any]:
        """One arm on one draw of the sample or the labels; or belief propagation on trees."""
        if trial.dataset == TREES:
            return _tree_errors(trial.rng(), trial["trees"])
        draw = int(trial.rng().integers(2**31))
        permute = trial.arm == "bp-permuted"
        cell, n_classes = _cell(self.own, trial.dataset, draw, trial.params, permute)
        found = score(cell, ARMS[trial.arm](cell), n_classes)
        if trial.arm in ("bp", "bp-em", "bp-permuted"):
            found |= {
                "r_true": true_homophily(cell.edges, cell.labels),
                "r_em": cell.em.r,
                "r_judged": (cell.judged or cell.em).r,
                "r_labels": cell.from_labels.r,
                "chance": cell.em.chance,
            }
        return found

    # --- claims: thresholds are those of the specification, written before the run ---

    claims: ClassVar[Mapping[str, Callable[[Results], Verdict]]] = {
        "C1": lambda r: _claim_adapted(r),
        "C2": lambda r: _claim_adds(r),
        "C3": lambda r: _claim_regimes(r),
        "C4": lambda r: _claim_homophily(r),
        "C5": lambda r: _claim_exact(r),
        "C6": lambda r: _claim_short_cut(r),
        "C7": lambda r: _claim_centred(r),
    }

    def figures(self, results: Results) -> Mapping[str, Figure]:
        """Accuracy by arm, by assumed r, by degree; estimated r; calibration; confusion."""
        if len(results) == 0:
            return {}
        made = {
            "What the graph adds to the text": _by_arm(results, self.arms),
            "Accuracy by labels a class": _by_shots(results),
            "What if the homophily is wrong?": _by_assumed_r(results),
            "How often do linked nodes share a class?": _estimates(results),
            "Who gains, by number of neighbours": _by_degree(results),
            "Are the probabilities calibrated?": _reliability(results),
            "Which classes are mistaken for which": _confusion(results),
        }
        return {title: figure for title, figure in made.items() if figure is not None}

    # --- a person's own data ---

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        shots: Annotated[int, "labelled nodes a class; 0: prototypes from the class names"] = 0,
        id: Annotated[
            str | None, "column with the ids of the nodes (default: id, or first)"
        ] = None,
        text: Annotated[str | None, "column or attribute with the texts (default: text)"] = None,
        label: Annotated[
            str | None, "column or attribute with the classes (default: label)"
        ] = None,
        src: Annotated[str | None, "column where an edge starts (default: src, or first)"] = None,
        dst: Annotated[str | None, "column where an edge ends (default: dst, or second)"] = None,
        encoder: Annotated[str, "minilm, a folder or name, URL#MODEL"] = "minilm",
        alpha: Annotated[
            float, "1: embeddings as they are; below: turned to the class names"
        ] = 1.0,
        max_degree: Annotated[
            int, "leave out edges of nodes with more neighbours; 0: keep all"
        ] = 0,
    ) -> LLMBPStudy:
        """A labelled graph: a folder with nodes.csv and edges.csv, those two, or GraphML."""
        columns = Columns(id=id, text=text, label=label, src=src, dst=dst)
        paths = tuple(map(str, source.paths))
        own = OwnGraph(source.name, paths, columns, shots, encoder, alpha, max_degree)
        own.check()
        return cls(own)


class OwnGraph:
    """A person's labelled graph and how it is to be compared on."""

    def __init__(
        self,
        name: str,
        paths: tuple[str, ...],
        columns: Columns,
        shots: int,
        encoder: str,
        alpha: float,
        max_degree: int,
    ) -> None:
        self.name, self.paths, self.columns = name, paths, columns
        self.shots, self.encoder, self.alpha, self.max_degree = shots, encoder, alpha, max_degree

    def key(self) -> tuple[Any, ...]:
        """What decides the numbers."""
        return (self.paths, self.columns, self.max_degree, self.encoder, self.alpha)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnGraph) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def load(self) -> TextGraph:
        """The graph."""
        if len(self.paths) > 2:
            raise InputError(f"{len(self.paths)} files; nodes and edges expected", "two --data")
        graph = read_graph(*self.paths, columns=self.columns)
        return graph.without_hubs(self.max_degree) if self.max_degree else graph

    def check(self) -> None:
        """Refuse at once what cannot be compared on."""
        graph = self.load()
        path = self.paths[0]
        if graph.labels is None or not (graph.labels >= 0).any():
            raise InputError(f"{path}: no labels, so nothing to score against", "--label COLUMN")
        if len(graph.classes) > graph.n_nodes // 2:
            raise InputError(
                f"{path}: {len(graph.classes)} classes among {graph.n_nodes} nodes",
                "is the label column the right one? --label COLUMN",
            )
        if not graph.n_edges:
            raise InputError(f"{path}: no edge is left")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"--alpha is {self.alpha}; from 0 to 1")
        if self.shots < 0:
            raise InputError(f"--shots is {self.shots}; at least 0")
        if self.shots == 0:
            check_class_names(graph.classes)
        counts = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.classes))
        if counts.min() <= self.shots:
            small = graph.classes[int(counts.argmin())]
            raise InputError(
                f"{path}: class {small!r} has {counts.min()} nodes; more than {self.shots} "
                "(--shots) are needed to have some left to test on"
            )


# --- cells ---------------------------------------------------------------------------------------


def _graphs() -> tuple[str, ...]:
    """Debian's and WordNet's graphs where they are; SciPy's where one of the two is missing."""
    there = graphs_here()
    wanted = [g for g in (APPS, NOUNS, ROLES, DERIVED) if g in there]
    if not {APPS, DERIVED} <= set(there):
        wanted += [TOPICS, KINDS]
    return tuple(wanted)


def _encoder(scale: Scale) -> str:
    return os.environ.get("PRACTICUM_ENCODER", "minilm") if scale.name == "paper" else "minilm"


def _published(name: str) -> TextGraph:
    """One of the paper's graphs, from the user's own copy."""
    root = os.environ.get("PRACTICUM_TAG")
    folder = Path(root or ".") / name
    if not root or not folder.is_dir():
        raise InputError(
            f"the graph {name} is not here: {folder} is no folder",
            f"name in PRACTICUM_TAG a folder that holds {name}/nodes.csv (id,text,label) and "
            f"{name}/edges.csv (src,dst)",
        )
    return read_graph(folder)


@lru_cache(maxsize=4)
def _embedded(
    own: OwnGraph | None, name: str, size: int, encoder: str
) -> tuple[TextGraph, np.ndarray, np.ndarray]:
    """A graph, its texts' and its class names' embeddings."""
    if own is not None:
        graph = own.load()
    elif name in PUBLISHED:
        graph = _published(name)
    else:
        graph = load_graph(name)
    if size:
        graph = large_classes(snowball(graph, size), 10)
    if encoder == "tfidf":
        return graph, *_tfidf(graph)
    x = embed(graph.texts, encoder).vectors
    return graph, x, embed(list(graph.classes), encoder).vectors


def _tfidf(graph: TextGraph) -> tuple[np.ndarray, np.ndarray]:
    """Words instead of a language model: TF-IDF of words, 128 singular vectors."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    matrix = words.fit_transform(graph.texts)
    svd = TruncatedSVD(128, random_state=0).fit(matrix)
    x, names = svd.transform(matrix), svd.transform(words.transform(graph.classes))
    return unit_rows(x + 1e-12), unit_rows(names + 1e-12)


@lru_cache(maxsize=4)
def _cell(
    own: OwnGraph | None,
    name: str,
    draw: int,
    params: tuple[tuple[str, Any], ...],
    permute: bool,
) -> tuple[Cell, int]:
    wanted = {"size": 0, "fixed": 0.0} | dict(params)
    if own is not None:
        wanted |= {"encoder": own.encoder, "alpha": own.alpha}
    graph, x, names = _embedded(own, name, wanted["size"], wanted["encoder"])
    rng = np.random.default_rng([draw, wanted["shots"]])
    made = make_cell(
        graph,
        x,
        names,
        wanted["shots"],
        rng,
        alpha=wanted["alpha"],
        fixed=wanted["fixed"] or None,
        permute=permute,
    )
    return made, len(graph.classes)


def _tree_errors(rng: np.random.Generator, n_trees: int) -> dict[str, Any]:
    """Largest difference from enumeration on trees, and from the full message table on graphs."""
    tree, table = [], []
    for _ in range(n_trees):
        n_classes, n = int(rng.integers(2, 5)), int(rng.integers(2, 8))
        phi = np.log(rng.dirichlet(np.ones(n_classes), n))
        r = float(rng.uniform(0.02, 0.98))
        pair = coupling_of(r, n_classes, "paper" if rng.random() < 0.5 else "uniform")
        edges = random_tree(n, rng)
        made = belief_propagation(phi, edges, *pair, n_iter=n).probabilities
        tree.append(np.abs(made - enumerate_marginals(phi, edges, *pair)).max())
        edges = rng.integers(0, 30, (60, 2))  # loops, repetitions and cycles among them
        phi = np.log(rng.dirichlet(np.ones(n_classes), 30))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # some of these graphs do not settle
            made = belief_propagation(phi, edges, *pair).probabilities
        table.append(np.abs(made - np.exp(table_propagation(phi, edges, *pair))).max())
    return {"tree_error": np.array(tree), "table_error": np.array(table)}


# --- claims --------------------------------------------------------------------------------------


def _main(results: Results) -> Results:
    """The grid itself: plain embeddings, nothing assumed."""
    return results.where(alpha=1.0, fixed=0.0)


def _judged_graphs(results: Results) -> list[str]:
    """The graphs that the claims are judged on: one that agrees along edges, two that do not."""
    for wanted in ((APPS, ROLES, DERIVED), (TOPICS, KINDS)):
        found = [g for g in wanted if results.has(dataset=g)]
        if found:
            return found
    return list(
        dict.fromkeys(o.trial.dataset for o in results.outcomes if o.trial.dataset != TREES)
    )


def _gains(results: Results, arm: str, base: str, graph: str) -> pd.Series:
    """Accuracy of one arm minus another's on one graph, a value a seed (mean over shots)."""
    a, b = results.paired("accuracy", arm, base, dataset=graph)
    if a.empty:
        return pd.Series(dtype=float)
    gain = pd.Series(differences(a, b), index=a.index)
    return gain.groupby(level="seed").mean()


def _average(parts: list[pd.Series]) -> pd.Series:
    """A value a seed, the mean over graphs, of the seeds that all graphs have."""
    parts = [p for p in parts if len(p)]
    return pd.concat(parts, axis=1, join="inner").mean(axis=1) if parts else pd.Series(dtype=float)


def _claim_adapted(results: Results) -> Verdict:
    """Refuted if the mean gain is at most 0 or its interval holds 0."""
    graphs = [g for g in (APPS, NOUNS) if results.has(dataset=g)] or [TOPICS]
    gains = {g: _turned(results, g, "raw") for g in graphs}
    values = _average(list(gains.values()))
    if values.empty:
        return needs_more("No pair of runs has finished.")
    words = ", ".join(f"{g} {100 * v.mean():+.1f}" for g, v in gains.items() if len(v))
    after = _average([_turned(results, g, "bp-odds") for g in graphs])
    also = f"; after bp-odds {100 * after.mean():+.1f}" if len(after) else ""
    what = "zero-shot accuracy of turned above plain embeddings, mean over graphs"
    verdict = greater_than(values, np.zeros(len(values)), what=what)
    note = (
        f"(points: {words}{also}). A stand-in for the paper's 7B encoder, on other graphs: only "
        "the direction is compared with its +8.1 %."
    )
    return replace(_refute_undecided(verdict), sentence=f"{verdict.sentence} {note}")


def _turned(results: Results, graph: str, arm: str) -> pd.Series:
    """Zero-shot accuracy with turned minus with plain embeddings, a value a seed."""
    part = results.where(dataset=graph, arm=arm, shots=0, fixed=0.0)
    turned, plain = (part.values("accuracy", alpha=a) for a in (ADAPTED, 1.0))
    turned, plain = turned.align(plain, join="inner")
    gain = pd.Series(differences(turned, plain), index=turned.index)
    return gain.groupby(level="seed").mean() if len(gain) else gain


def _refute_undecided(verdict: Verdict) -> Verdict:
    """Where an interval that holds 0 refutes, not a lack of seeds."""
    if verdict.status == "inconclusive" and verdict.n >= 5:
        return replace(verdict, status="not reproduced", p=None, seeds_needed=None)
    return verdict


def _claim_adds(results: Results) -> Verdict:
    """On average over graphs, with r from judged edges and with r from EM alike."""
    part, graphs, parts = _main(results), _judged_graphs(results), []
    for arm, source in (("bp", f"r from {JUDGE}"), ("bp-em", "r from beliefs alone (EM)")):
        gains = {g: _gains(part, arm, "raw", g) for g in graphs}
        values = _average(list(gains.values()))
        if values.empty:
            continue
        words = ", ".join(f"{g} {100 * v.mean():+.1f}" for g, v in gains.items() if len(v))
        what = f"{source}: accuracy above the text alone, mean over graphs and shots"
        verdict = _refute_undecided(greater_than(values, np.zeros(len(values)), what=what))
        parts.append(replace(verdict, sentence=f"{verdict.sentence} (points: {words})"))
    if not parts:
        return needs_more("No pair of runs has finished.")
    note = f"{_why_em(part, parts[0], parts[-1], 'it adds', 'it does not')}The paper's "
    note += "+1.71 % is an average over sets not had here."
    few = part.where(shots=[5, 10])
    ours = {g: _gains(few, "bp-labels", "raw", g) for g in graphs}
    if words := ", ".join(f"{g} {100 * v.mean():+.1f}" for g, v in ours.items() if len(v)):
        note += (
            f" With r from the edges of labelled nodes (ours; 5 and 10 labels a class): {words}."
        )
    return all_of(*parts, sentence=note)


def _claim_regimes(results: Results) -> Verdict:
    """BP within a point of the text on every graph; averaging loses 8 points where ends differ.

    With r from judged edges and with r from EM alike: nobody knows beforehand which graph it is.
    """
    part, parts = _main(results), []
    for graph in _judged_graphs(results):
        for arm, source in (("bp", JUDGE), ("bp-em", "EM")):
            gain = _gains(part, arm, "raw", graph)
            if len(gain):
                parts.append(at_least(gain, -0.01, f"{graph}: BP minus text (r from {source})"))
    for graph in [g for g in _judged_graphs(results) if g in DIFFERENT]:
        loss = _gains(part, "na", "raw", graph)
        if len(loss):
            parts.append(at_most(loss, -0.08, f"{graph}: neighbour averaging minus text"))
    if not parts:
        return needs_more("No pair of runs has finished.")
    by_em = [v for v in parts if "from EM" in v.sentence]
    others = [v for v in parts if "from EM" not in v.sentence]
    note = _why_em(
        part, _worst(others), _worst(by_em), "both halves hold", "belief propagation loses too much"
    )
    return all_of(*parts, sentence=note.strip())


def _worst(parts: list[Verdict]) -> Verdict | None:
    """A part that was refuted, else one that is undecided, else any."""
    order = ("not reproduced", "inconclusive", "reproduced")
    return min(parts, key=lambda v: order.index(v.status), default=None)


def _why_em(
    results: Results, judged: Verdict | None, em: Verdict | None, holds: str, fails: str
) -> str:
    """Why a claim stands with a judge of edges and falls without one: EM's r beside the truth."""
    if judged is None or em is None or judged.status != "reproduced":
        return ""
    if em.status != "not reproduced":
        return ""
    gains = {g: _gains(results, "bp-em", "raw", g).mean() for g in _judged_graphs(results)}
    graph = min(gains, key=gains.__getitem__)
    guess, truth = (
        results.values(name, arm="bp-em", dataset=graph).mean() for name in ("r_em", "r_true")
    )
    return (
        f"Why partly: where somebody judges 100 edges {holds}; where r is guessed from the texts "
        f"alone (EM) {fails}. Linked texts about one subject look like one class to EM: on {graph} "
        f"({100 * gains[graph]:+.1f} points) it puts r at {guess:.2f}, the truth is {truth:.2f}, "
        "so neighbours of other classes are pulled together. "
    )


def _claim_homophily(results: Results) -> Verdict:
    """EM within 0.12 of the truth on each graph, within 0.08 on random pairs."""
    part, parts = _main(results), []
    for graph in _judged_graphs(results):
        error, words = _r_error(part, graph, "bp-em")
        if len(error):
            what = f"{graph}: |estimated - true| share of edges within a class"
            verdict = at_most(error, 0.12, what)
            parts.append(replace(verdict, sentence=f"{verdict.sentence} ({words})"))
    for graph in _judged_graphs(results):
        error, words = _r_error(part, graph, "bp-permuted")
        if len(error):
            verdict = at_most(error, 0.08, f"{graph}, edges dealt out at random: |error|")
            parts.append(replace(verdict, sentence=f"{verdict.sentence} ({words})"))
    if not parts:
        return needs_more("No estimate has finished.")
    far = [
        v.sentence.partition(":")[0].removesuffix(", edges dealt out at random")
        for v in parts[: len(_judged_graphs(results))]
        if v.status == "not reproduced"
    ]
    note = f"Too far from the truth on {' and '.join(far)}: beliefs" if far else "Beliefs"
    note += (
        " of linked nodes that are about one subject agree whatever their classes, and EM takes "
        "that for homophily. A language model as judge needs an endpoint."
    )
    few = {g: part.where(dataset=g, shots=[5, 10]) for g in _judged_graphs(results)}
    ours = {g: p.values("r_labels", arm="bp-em") for g, p in few.items()}
    if words := ", ".join(f"{g} {v.mean():.2f}" for g, v in ours.items() if len(v)):
        note += f" From the edges of labelled nodes (ours; 5 and 10 labels a class): {words}."
    return all_of(*parts, sentence=note)


def _r_error(results: Results, graph: str, arm: str) -> tuple[pd.Series, str]:
    guess, truth = (results.values(name, arm=arm, dataset=graph) for name in ("r_em", "r_true"))
    if guess.empty:
        return guess, ""
    error = (guess - truth).abs().groupby(level="seed").mean()
    return error, f"estimated {number(guess.mean())}, true {number(truth.mean())}"


def _claim_exact(results: Results) -> Verdict:
    parts = []
    for name, what in (
        ("tree_error", f"random trees: within {GAP:g} of enumeration"),
        ("table_error", f"random graphs: within {GAP:g} of the full C x C message table"),
    ):
        errors = results.curves(name, dataset=TREES).ravel()
        if errors.size:
            verdict = never(int((errors > GAP).sum()), errors.size, what)
            words = f"{verdict.sentence} Largest difference {number(errors.max())}."
            parts.append(replace(verdict, sentence=words))
    return all_of(*parts) if parts else needs_more("No tree was checked.")


def _claim_short_cut(results: Results) -> Verdict:
    graph = next((g for g in (APPS, TOPICS) if results.has(dataset=g)), None)
    gain = _gains(_main(results), "bp-appr", "bp", graph) if graph else pd.Series(dtype=float)
    if gain.empty:
        return needs_more("No pair of runs has finished.")
    what = f"{graph}: accuracy of the one-step form minus BP"
    verdict = equivalent_within(gain, pd.Series(0.0, gain.index), 0.02, what)
    low, high = 100 * verdict.interval.low, 100 * verdict.interval.high
    if 1.5 < max(abs(low), abs(high)) < 2:
        edge = low if abs(low) > abs(high) else high
        note = (
            f"The short cut is {100 * gain.mean():+.1f} points from BP, and may be {edge:+.2f}: "
            f"{2 - abs(edge):.2f} points short of the two that are allowed. The nearer to the "
            "limit, the less is left of the evidence when all claims of the study are counted."
        )
        return replace(verdict, sentence=f"{note} {verdict.sentence}")
    return verdict


def _claim_centred(results: Results) -> Verdict:
    """With r = 0.35, far above chance, the published coupling falls below the text."""
    graph = next((g for g in (APPS, TOPICS) if results.has(dataset=g)), None)
    part = results.where(dataset=graph, shots=0, alpha=1.0)
    text = _by_seed(part, "raw", 0.0)
    parts = []
    for arm, sign in (("bp", -1), ("bp-uniform", 1), ("bp-odds", 1)):
        own, base = _by_seed(part, arm, BOOKCHILD).align(text, join="inner")
        if len(own):
            what = f"{graph}, r = {BOOKCHILD} given: {arm} {'above' if sign > 0 else 'below'} text"
            verdict = greater_than(sign * own, sign * base, what=what)
            words = f"{verdict.sentence} ({number(own.mean())} and {number(base.mean())})"
            parts.append(replace(verdict, sentence=words))
    return all_of(*parts) if parts else needs_more("No run with a given r has finished.")


def _by_seed(part: Results, arm: str, fixed: float) -> pd.Series:
    values = part.values("accuracy", arm=arm, fixed=fixed)
    return values if values.empty else values.groupby(level="seed").mean()


# --- figures -------------------------------------------------------------------------------------

ROLE_COLOURS = {
    "method": "#D55E00",
    "baseline": "#0072B2",
    "cheap": "#009E73",
    "control": "#7F7F7F",
}


def _datasets(results: Results) -> list[str]:
    known = [*ALIKE, *DIFFERENT]
    there = list(dict.fromkeys(o.trial.dataset for o in results.outcomes))
    order = [g for g in known if g in there] + [g for g in there if g not in known]
    return [g for g in order if g != TREES]


def _plain(results: Results) -> Results:
    """The main grid; a person's own comparison is nothing else."""
    return _main(results) if "fixed" in results.frame else results


def _title(results: Results, graph: str) -> str:
    r = results.values("r_true", dataset=graph, arm=["bp", "bp-em"])
    return f"{graph} (h = {r.mean():.2f})" if len(r) else graph


def _panels(figure: Figure, caption: str, height: int) -> Figure:
    style(figure, caption, height=height)
    if any(trace.showlegend is not False for trace in figure.data):
        figure.update_layout(margin={"t": 80}, legend={"y": 1.0 + 40 / (height - 135)})
    for note in figure.layout.annotations:
        note.font.size = 12
    return figure


def _by_arm(results: Results, arms: Mapping[str, Arm]) -> Figure | None:
    """Zero-shot (or the fewest shots there are): every arm minus the text alone."""
    part = _plain(results)
    if "shots" not in part.frame or part.frame["shots"].dropna().empty:
        return None
    shots = int(part.frame["shots"].dropna().min())
    part = part.where(shots=shots)
    graphs = [g for g in _datasets(part) if len(part.values("accuracy", dataset=g, arm="raw"))]
    if not graphs:
        return None
    titles = [_title(part, g) for g in graphs]
    figure = make_subplots(1, len(graphs), subplot_titles=titles, shared_yaxes=True)
    order = [a for a in arms if a != "raw" and part.has(arm=a)][::-1]
    for column, graph in enumerate(graphs, start=1):
        for arm in order:
            gain = 100 * _gains(part, arm, "raw", graph)
            if len(gain):
                _dot(figure, arm, gain.to_numpy(), ROLE_COLOURS[arms[arm].role], column)
        figure.add_vline(x=0, line={"dash": "dot", "color": "#7F7F7F"}, row=1, col=column)
        text = part.values("accuracy", dataset=graph, arm="raw").mean()
        name = f"points above text ({100 * text:.0f} %)"
        figure.update_xaxes(title={"text": name, "font": {"size": 11}}, row=1, col=column)
    figure.update_yaxes(categoryorder="array", categoryarray=order)
    setting = "Zero-shot" if shots == 0 else f"{shots} labels a class"
    return _panels(
        figure,
        f"{setting}: accuracy above that of the text alone (raw), in percentage points, mean and "
        "95 % interval over seeds. h: share of edges within a class. Orange: belief propagation, "
        "ours and published; blue: baselines; green: cheap; grey: controls (true r; edges dealt "
        "out at random).",
        height=140 + 26 * len(order),
    )


def _dot(figure: Figure, arm: str, values: np.ndarray, colour: str, column: int) -> None:
    interval = Sample(values).interval()
    error = None
    if np.isfinite([interval.low, interval.high]).all():
        error = {
            "type": "data",
            "symmetric": False,
            "array": [interval.high - values.mean()],
            "arrayminus": [values.mean() - interval.low],
        }
    figure.add_scatter(
        x=[values.mean()],
        y=[arm],
        error_x=error,
        mode="markers",
        marker={"color": colour, "size": 9},
        showlegend=False,
        hovertemplate=f"{arm}: %{{x:.2f}} points, {len(values)} seeds<extra></extra>",
        row=1,
        col=column,
    )


def _lines(
    panels: Mapping[str, Mapping[str, tuple[Any, list[np.ndarray]]]],
    caption: str,
    *,
    x: str,
    y: str,
    height: int = 420,
    titles: list[str] | None = None,
) -> Figure | None:
    """One panel a graph, one line with its 95 % intervals a name: name -> (x, values at each x)."""
    panels = {g: lines for g, lines in panels.items() if lines}
    if not panels:
        return None
    names = titles or list(panels)
    figure = make_subplots(1, len(panels), subplot_titles=names, shared_yaxes=False)
    palette = colours(dict.fromkeys(name for lines in panels.values() for name in lines))
    shown: set[str] = set()
    for column, lines in enumerate(panels.values(), start=1):
        for name, (at, values) in lines.items():
            means = np.array([v.mean() for v in values])
            spread = [Sample(v).interval() for v in values]
            high = np.array([i.high for i in spread]) - means
            low = means - np.array([i.low for i in spread])
            finite = np.isfinite(high) & np.isfinite(low)
            figure.add_scatter(
                x=at,
                y=means,
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": np.where(finite, high, 0),
                    "arrayminus": np.where(finite, low, 0),
                    "thickness": 1,
                    "width": 3,
                },
                mode="lines+markers",
                marker={"size": 5},
                line={"color": palette[name], "width": 2},
                name=name,
                legendgroup=name,
                showlegend=name not in shown,
                row=1,
                col=column,
            )
            shown.add(name)
        figure.update_xaxes(title={"text": x, "font": {"size": 12}}, row=1, col=column)
    figure.update_yaxes(title=y, row=1, col=1)
    return _panels(figure, caption, height)


def _by_shots(results: Results) -> Figure | None:
    part, panels = _plain(results), {}
    wanted = ("raw", "na", "lp", "sgc", "bp", "bp-odds", "na+bp", "lr+bp")
    if "shots" not in part.frame or part.frame["shots"].dropna().nunique() < 2:
        return None
    shots = sorted(part.frame["shots"].dropna().unique())
    for graph in _datasets(part):
        panels[graph] = {}
        for arm in wanted:
            found = [part.values("accuracy", dataset=graph, arm=arm, shots=k) for k in shots]
            there = [i for i, v in enumerate(found) if len(v)]
            if there:
                at = [f"{shots[i]:.0f}" for i in there]
                panels[graph][arm] = (at, [found[i].to_numpy() for i in there])
    return _lines(
        panels,
        "Accuracy on nodes whose class was not shown, mean and 95 % interval over seeds. At 0 an "
        "annotator (nearest class name) answers for 20 texts a class; then so many true labels a "
        "class are known.",
        x="labels a class",
        y="accuracy",
    )


def _by_assumed_r(results: Results) -> Figure | None:
    part = results.where(shots=0, alpha=1.0)
    panels: dict[str, dict[str, Any]] = {}
    for graph in _datasets(part):
        panels[graph] = {}
        own = part.where(dataset=graph)
        text = _by_seed(own, "raw", 0.0)
        for arm in COUPLINGS:
            gains = {}
            for r in SWEEP:
                values, base = _by_seed(own, arm, r).align(text, join="inner")
                if len(values):
                    gains[r] = 100 * differences(values, base)
            if len(gains) > 1:
                panels[graph][arm] = (list(gains), list(gains.values()))
    figure = _lines(
        panels,
        "Zero-shot accuracy above that of the text alone, in percentage points, when this r is "
        "assumed; mean and 95 % interval over seeds. Vertical lines: the true share of edges "
        "within a class (solid) and EM's estimate (dashed). The published coupling (bp) is neutral "
        "at 0.5 whatever the number of classes; the others at chance agreement.",
        x="assumed r",
        y="points above text",
    )
    if figure is None:
        return None
    for column, graph in enumerate((g for g, lines in panels.items() if lines), start=1):
        place = {"row": 1, "col": column}
        figure.add_hline(y=0, line={"dash": "dot", "color": "#7F7F7F"}, **place)
        for name, dash in (("r_true", "solid"), ("r_em", "dash")):
            r = part.values(name, dataset=graph, arm="bp-em", fixed=0.0)
            if len(r):
                line = {"dash": dash, "color": "#7F7F7F", "width": 1}
                figure.add_vline(x=r.mean(), line=line, **place)
    return figure


def _estimates(results: Results) -> Figure | None:
    part = _plain(results)
    if not len(part.values("r_em")):
        return None
    figure = new_figure(
        "Share of edges within a class: estimated and true, a point a seed and number of shots. EM "
        "sees beliefs only; labels: the edges of 5 or 10 labelled nodes a class; judged: 100 "
        "random edges, their true classes. Crosses: edges dealt out at random, where the truth is "
        "chance. In the band the error is at most 0.12.",
        x="true",
        y="estimated",
        height=480,
    )
    figure.add_scatter(
        x=[0, 1, 1, 0], y=[0.12, 1.12, 0.88, -0.12], fill="toself", mode="lines",
        line={"width": 0}, fillcolor="rgba(127,127,127,0.15)", showlegend=False, hoverinfo="skip",
    )  # fmt: skip
    words = {"r_em": "EM", "r_judged": "judged", "r_labels": "labels"}
    for graph, colour in colours(_datasets(part)).items():
        for arm, name, symbol in (
            ("bp-em", "r_em", "circle"),
            ("bp", "r_judged", "diamond-open"),
            ("bp-em", "r_labels", "triangle-up-open"),
            ("bp-permuted", "r_em", "x-thin-open"),
        ):
            # one label a class, or none, leaves nothing to estimate from
            where = {"shots": [5, 10]} if name == "r_labels" else {}
            guess = part.values(name, dataset=graph, arm=arm, **where)
            truth = part.values("r_true", dataset=graph, arm=arm, **where)
            if len(guess):
                figure.add_scatter(
                    x=truth,
                    y=guess,
                    mode="markers",
                    marker={"color": colour, "symbol": symbol, "size": 8, "opacity": 0.7},
                    name=f"{graph}: {words[name]}",
                    showlegend=arm != "bp-permuted",
                )
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_yaxes(range=[-0.02, 1.05])
    return figure


def _by_degree(results: Results) -> Figure | None:
    """Gain over the text alone on the same draw, by number of neighbours."""
    part, panels = _plain(results), {}
    labels = ["0-1", "2", "3-5", "6-10", "11+"]
    for graph in _datasets(part):
        panels[graph] = {}
        text = {_draw(o): o for o in part.where(dataset=graph, arm="raw").outcomes}
        for arm in ("na", "bp", "bp-odds", "lr+bp"):
            own = [o for o in part.where(dataset=graph, arm=arm).outcomes if _draw(o) in text]
            own = [o for o in own if "hits" in o.curves and "hits" in text[_draw(o)].curves]
            if not own:
                continue
            tested = np.stack([o.curves["tested"] for o in own])
            more = np.stack([o.curves["hits"] - text[_draw(o)].curves["hits"] for o in own])
            enough = np.flatnonzero(tested.min(0) >= 20)
            gains = [100 * more[:, g] / tested[:, g] for g in enough]
            panels[graph][arm] = ([labels[g] for g in enough], gains)
    return _lines(
        panels,
        "Accuracy above that of the text alone, in percentage points, by number of neighbours; "
        "mean and 95 % interval over seeds and shots. Groups of fewer than 20 nodes are left out.",
        x="neighbours",
        y="points above text",
    )


def _draw(outcome: Outcome) -> tuple[int, tuple[tuple[str, Any], ...]]:
    """What arms of one draw have in common."""
    return outcome.trial.seed, outcome.trial.params


def _reliability(results: Results) -> Figure | None:
    part, panels = _plain(results), {}
    for graph in _datasets(part):
        panels[graph] = {}
        for arm in ("raw", "bp", "bp-odds", "na"):
            at, hit, share = (
                part.curves(n, dataset=graph, arm=arm)
                for n in ("confidence", "hit_rate", "bin_share")
            )
            if not at.size:
                continue
            weight = share.sum(0)
            used = np.flatnonzero(share.mean(0) > 0.01)
            mean = (at * share).sum(0) / np.maximum(weight, 1e-12)
            rates = [hit[share[:, b] > 0, b] for b in used]
            panels[graph][arm] = (mean[used], rates)
    figure = _lines(
        panels,
        "How often nodes are right that are given this probability (0 to 1 in tenths; tenths with "
        "less than 1 % of the nodes are left out); on the dotted line probabilities can be taken "
        "at their word. The text alone is more certain than right; the graph does not mend it.",
        x="probability of the predicted class",
        y="share that is right",
    )
    if figure is None:
        return None
    for column in range(1, 1 + sum(bool(lines) for lines in panels.values())):
        figure.add_scatter(
            x=[0, 1], y=[0, 1], mode="lines", line={"dash": "dot", "color": "#7F7F7F"},
            showlegend=False, row=1, col=column,
        )  # fmt: skip
    return figure


def _confusion(results: Results) -> Figure | None:
    """Shares of bp-odds on one graph that agrees along edges and one that differs."""
    part = _plain(results)
    shown = []
    for graph in _datasets(part):
        tables = part.curves("confusion", dataset=graph, arm="bp-odds")
        if tables.size and len(shown) < 2 and (graph in (APPS, ROLES, TOPICS, KINDS) or not shown):
            shown.append((graph, tables.sum(0)))
    if not shown:
        return None
    titles = [graph for graph, _ in shown]
    figure = make_subplots(1, len(shown), subplot_titles=titles, horizontal_spacing=0.2)
    for column, (graph, table) in enumerate(shown, start=1):
        rates = table / np.maximum(table.sum(1, keepdims=True), 1)
        names = _class_names(graph, len(table))
        figure.add_heatmap(
            z=rates, x=names, y=names, zmin=0, zmax=1, colorscale="Blues",
            showscale=column == len(shown), row=1, col=column,
        )  # fmt: skip
        figure.update_yaxes(autorange="reversed", row=1, col=column)
    figure.update_xaxes(tickangle=45, tickfont={"size": 10}, title="predicted")
    figure.update_yaxes(tickfont={"size": 10})
    figure.update_yaxes(title="true", row=1, col=1)
    return _panels(
        figure,
        "Of the nodes of each class (a row), the share given to each class by bp-odds, over all "
        "seeds and shots.",
        height=560,
    )


def _class_names(graph: str, n: int) -> list[str]:
    """Names where the graph is at hand; a stored run may come from another machine."""
    try:
        names = load_graph(graph).classes
    except InputError:
        names = ()
    short = [c.partition(",")[0][:26] for c in names]
    return short if len(short) == n else [f"class {i}" for i in range(n)]
