"""The estimator: texts, edges and class names in, class probabilities of every node out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from practicum.data.graph import TextGraph, as_text_graph, text_graph
from practicum.errors import InputError, listed
from practicum.graphs.llm_bp.baselines import average_neighbours, simple_graph_convolution
from practicum.graphs.llm_bp.homophily import (
    Homophily,
    chance_agreement,
    estimate_homophily,
    homophily_from_labels,
    judge_homophily,
)
from practicum.graphs.llm_bp.propagation import (
    COUPLINGS,
    belief_propagation,
    check_homophily,
    coupling_of,
)
from practicum.graphs.llm_bp.prototypes import (
    Annotator,
    Prototypes,
    adapt_to_classes,
    chat_annotator,
    check_class_names,
    class_log_probabilities,
    few_shot_prototypes,
    is_number,
    names_annotator,
    task_instruction,
    zero_shot_prototypes,
)
from practicum.models.chat.protocol import Chat
from practicum.models.embed import Encoder, embed, unit_rows


class LLMBP(ClassifierMixin, BaseEstimator):
    """Classes of the nodes of a graph with texts, from their names or a few labels; no training.

    Texts are embedded, each class gets a prototype, cosines become class probabilities, and belief
    propagation with one coupling - how often linked nodes share a class - sharpens them.
    Transductive: it answers for the nodes it was given.

    Parameters
    ----------
    classes : sequence of str
        Descriptive names; needed unless the graph holds them.
    encoder : "minilm", name, folder, ``URL#MODEL``, callable or Encoder
        See :func:`practicum.models.embed.resolve_encoder`.
    adapt : {"subspace", "none", "prompt"}
        Turn embeddings towards what tells the class names apart; or not; or put the class names
        into the instruction of an encoder that follows instructions.
    annotator : "names", Chat, callable or None
        Who labels the sample in zero-shot: the nearest class name, a language model, a function
        from a list of texts to class numbers (negative: no answer). None: labels must be given.
    homophily : "auto", "labels", "em", "llm", float or Homophily
        Estimated from the edges of labelled nodes, from beliefs, by a language model (the
        annotator) that judges 100 edges, or given. "auto" is "labels" where labelled nodes (or
        those a language model annotated) have twenty edges, "em" elsewhere. Beliefs of linked nodes
        that are about one subject agree whatever their classes, and "em" takes that for homophily:
        where linked nodes may differ in class, judge some edges
        (:func:`~practicum.graphs.llm_bp.homophily.edges_to_judge`).
    coupling : {"odds", "uniform", "paper"}
        See :func:`~practicum.graphs.llm_bp.propagation.coupling_of`.
    temperature : float
        Cosines are divided by it.
    n_iter, damping : int, float
        Rounds, and the share of the old message that is kept.
    aggregate_first : bool
        Average neighbours' embeddings before, which helps where linked nodes share a class.
    few_shot : {"prototypes", "logistic"}
        Class probabilities from labelled nodes: by cosine to their means as published, or by
        logistic regression, better from about five labels a class on.
    samples_per_class, top : int
        Annotated nodes a class, and how many of those nearest their centroid make the prototype.
    max_degree : int, optional
        Edges of nodes with more neighbours are left out.
    use_weights : bool
        Take the graph's edge weights as exponents of messages: an edge of weight 2 counts as two.
        Off by default, since weights are often counts that would drown the texts.
    alpha : float
        How much of the embedding ``adapt="subspace"`` keeps; 1 keeps all.
    thing : str
        What the texts are, for language models: "titles and abstracts of papers".
    cache : bool or path
        See :func:`practicum.models.embed.embed`.
    random_state : int

    Attributes
    ----------
    homophily_, chance_ : float
        r, and how often two random nodes agree.
    homophily_source_ : str
        ``labels``, ``em``, ``llm``, ``judged`` or ``given``.
    coupling_ : tuple of two floats
        Edge potential of equal and of different classes.
    prototypes_ : float, shape (K, d)
    n_shown_ : int
        Nodes that were annotated, or are labelled.
    classes_ : tuple of str
    dropped_classes_ : list of str
        Classes nobody predicted; they are never the answer.
    prior_ : float, shape (n, C)
        Class probabilities before the graph was seen.
    moving_ : float
        Share of nodes with a belief that moved by more than 0.1 in the last round.
    graph_ : TextGraph
    n_truncated_ : int
        Texts longer than the encoder reads.

    Examples
    --------
    >>> texts = ["a sonata for violin", "an opera in three acts", "goals in the second half",
    ...          "the goalkeeper saved it"]
    >>> lookup = {t: v for t, v in zip([*texts, "music", "football"], [
    ...     [1, 0.1], [1, 0.2], [0.1, 1], [0.2, 1], [1, 0], [0, 1]])}
    >>> encoder = lambda batch: np.array([lookup[t] for t in batch])
    >>> model = LLMBP(["music", "football"], encoder, homophily=0.8)
    >>> model.fit([[0, 1], [2, 3], [1, 2]], texts).predict().tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        classes: Sequence[str] | np.ndarray | None = None,
        encoder: str | Path | Callable | Encoder = "minilm",
        adapt: str = "subspace",
        annotator: str | Chat | Callable | None = "names",
        homophily: str | float | Homophily = "auto",
        coupling: str = "odds",
        temperature: float = 0.025,
        n_iter: int = 5,
        damping: float = 0.0,
        aggregate_first: bool = False,
        few_shot: str = "prototypes",
        samples_per_class: int = 20,
        top: int = 10,
        max_degree: int | None = None,
        use_weights: bool = False,
        alpha: float = 0.6,
        thing: str = "text",
        cache: bool | str | Path = True,
        random_state: int = 0,
    ) -> None:
        self.classes = classes
        self.encoder = encoder
        self.adapt = adapt
        self.annotator = annotator
        self.homophily = homophily
        self.coupling = coupling
        self.temperature = temperature
        self.n_iter = n_iter
        self.damping = damping
        self.aggregate_first = aggregate_first
        self.few_shot = few_shot
        self.samples_per_class = samples_per_class
        self.top = top
        self.max_degree = max_degree
        self.use_weights = use_weights
        self.alpha = alpha
        self.thing = thing
        self.cache = cache
        self.random_state = random_state

    def fit(
        self,
        graph: Any,
        texts: Sequence[str] | None = None,
        embeddings: Float[np.ndarray, "n d"] | None = None,
        y: Sequence[Any] | Mapping[Any, Any] | Int[np.ndarray, " n"] | None = None,
    ) -> LLMBP:
        """Infer the classes of all nodes.

        Parameters
        ----------
        graph : TextGraph, NetworkX graph, SciPy adjacency, PyG data, edges, or a path
        texts : sequence of n str, optional
            Where the graph does not hold them.
        embeddings : float, shape (n, d), optional
            Instead of the texts'; then few-shot, or an encoder for class names of the same d.
        y : sequence of n, or mapping of node ids, optional
            Class names or numbers; None or -1 where unknown; a mapping names the known ones only.
            With any of them known, prototypes come from the labelled nodes, whose classes are then
            fixed. Labels that the graph itself holds are not used unless they are given here.

        Raises
        ------
        InputError
            No edges' ends, texts or names that can be used; see the message.

        Warns
        -----
        UserWarning
            Classes nobody predicted, truncated texts, embeddings that are not of unit length.
        """
        self._check()
        n = None if embeddings is None else len(embeddings)
        data = as_text_graph(graph, texts, n_nodes=n, needs_text=embeddings is None)
        names_given = data.classes if self.classes is None else tuple(self.classes)
        self.classes_ = check_class_names(names_given, descriptive=y is None)
        if self.max_degree is not None:
            data = data.without_hubs(self.max_degree)
        shown = self._labels(y, data)
        if not (shown >= 0).any():
            check_class_names(self.classes_)
        rng = np.random.default_rng(self.random_state)
        x, names = self._embed(data, embeddings, needs_names=not bool((shown >= 0).any()))
        annotate = self._annotator(data, x, names)
        if names is not None and self.adapt == "subspace":
            x = adapt_to_classes(x, names, self.alpha)
        made = self._prototypes(x, annotate, shown, rng)
        self.prototypes_, self.n_shown_ = made.vectors, len(made.sample)
        self.dropped_classes_ = [c for i, c in enumerate(self.classes_) if i not in made.kept]
        self._warn_of_dropped(made, bool((shown >= 0).any()))
        plain = class_log_probabilities(x, made.vectors, self.temperature)
        column = np.full(len(self.classes_) + 1, -1)  # the last is of the unlabelled, -1
        column[made.kept] = np.arange(len(made.kept))
        known = column[shown]
        if annotate is not None and self.annotator != "names" and not (known >= 0).any():
            known = known.copy()  # answers of one who reads texts are as good as labels here
            known[made.sample] = column[np.maximum(made.answers, -1)]
        found = self._homophily(data, x, np.exp(plain), known, rng)
        estimated = found.method in ("em", "labels", "llm")
        r = float(np.clip(found.r, 0.01, 0.99)) if estimated else check_homophily(found.r)
        self.homophily_, self.homophily_source_ = r, found.method
        self.chance_ = chance_agreement(np.exp(plain))
        self.coupling_ = coupling_of(r, len(made.kept), self.coupling, self.chance_)
        log_phi = self._log_phi(data, x, made, plain, column[shown])
        self.prior_ = self._spread(np.exp(log_phi), made.kept)
        done = belief_propagation(
            log_phi,
            data.edges,
            *self.coupling_,
            n_iter=self.n_iter,
            damping=self.damping,
            edge_weight=data.weights if self.use_weights else None,
            clamp=column[shown],
        )
        self.moving_, self.graph_ = done.moving, data
        self.beliefs_ = self._spread(done.probabilities, made.kept)
        return self

    def predict(self, X: object = None) -> Int[np.ndarray, " n"]:
        """Class number of every node that was fitted.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        """
        return self.predict_proba().argmax(1)

    def predict_proba(self, X: object = None) -> Float[np.ndarray, "n C"]:
        """Beliefs; rows sum to 1, columns of dropped classes are 0.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        InputError
            Something was given: it answers only for the nodes of ``fit``.
        """
        if not hasattr(self, "beliefs_"):
            raise NotFittedError("call fit(graph, texts) first")
        if X is not None:
            raise InputError("LLMBP answers for the nodes it was fitted on", "fit the whole graph")
        return self.beliefs_

    def fit_predict(
        self,
        graph: Any,
        texts: Sequence[str] | None = None,
        embeddings: Float[np.ndarray, "n d"] | None = None,
        y: Sequence[Any] | Mapping[Any, Any] | Int[np.ndarray, " n"] | None = None,
    ) -> Int[np.ndarray, " n"]:
        """``fit`` and ``predict`` in one.

        Raises
        ------
        InputError
            As ``fit``.
        """
        return self.fit(graph, texts, embeddings, y).predict()

    # --- steps ---

    def _check(self) -> None:
        known = {
            "adapt": ("subspace", "none", "prompt"),
            "few_shot": ("prototypes", "logistic"),
            "coupling": COUPLINGS,
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise InputError(f"{name}={getattr(self, name)!r}", f"one of {', '.join(values)}")
        if isinstance(self.annotator, str) and self.annotator != "names":
            raise InputError(
                f"annotator={self.annotator!r}", "'names', a Chat, a function, or None"
            )
        if isinstance(self.classes, str | Set):  # the order decides the numbers, a set has none
            raise InputError(f"classes={self.classes!r}", "a list of names, in a fixed order")
        if not isinstance(self.n_iter, int | np.integer):
            raise InputError(f"n_iter={self.n_iter!r}", "a whole number of rounds")
        words = ("auto", "labels", "em", "llm")
        if isinstance(self.homophily, str) and self.homophily not in words:
            raise InputError(f"homophily={self.homophily!r}", f"{', '.join(words)}, or a number")
        if self.homophily == "llm" and not isinstance(self.annotator, Chat):
            raise InputError("homophily='llm' needs a language model", "annotator=a Chat")

    def _labels(self, y: Any, data: TextGraph) -> Int[np.ndarray, " n"]:
        n = data.n_nodes
        if y is None:
            return np.full(n, -1)
        if isinstance(y, Mapping):
            of = {str(node): label for node, label in y.items()}
            strange = sorted(of.keys() - set(data.ids))
            if strange:
                raise InputError(f"labels of nodes that are not there: {listed(strange)}")
            y = [of.get(node) for node in data.ids]
        if len(y) != n:
            raise InputError(f"{len(y)} labels for {n} nodes", "None or -1 where unknown")
        return text_graph([], labels=y, classes=self.classes_).labels

    def _embed(
        self, data: TextGraph, embeddings: np.ndarray | None, needs_names: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        before, after = "", ""
        if self.adapt == "prompt":
            before, after = task_instruction(self.thing, self.classes_)
        if embeddings is not None:
            x = np.asarray(embeddings, dtype=np.float64)
            if x.ndim != 2 or len(x) != data.n_nodes:
                raise InputError(f"embeddings have shape {x.shape} for {data.n_nodes} nodes")
            off = np.abs(np.linalg.norm(x, axis=1) - 1).max(initial=0)
            x = unit_rows(x)
            if off > 1e-3:
                warnings.warn(
                    "embeddings are not of unit length; they were normalised (the temperature "
                    f"{self.temperature:g} presumes cosines)",
                    UserWarning,
                    stacklevel=3,
                )
            self.n_truncated_ = 0
        else:
            if data.texts is None:
                raise InputError(f"{data.name} has no texts", "hand over texts or embeddings")
            made = embed(
                [before + t + after if t.strip() else t for t in data.texts],
                self.encoder,
                cache=self.cache,
                progress=True,
            )
            x, self.n_truncated_ = made.vectors, made.n_truncated
            if made.n_truncated:
                warnings.warn(
                    f"{made.n_truncated:,} of {len(x):,} texts are longer than {made.encoder} "
                    "reads; their ends were not seen",
                    UserWarning,
                    stacklevel=3,
                )
        if not needs_names and self.adapt != "subspace":
            return x, None
        if not needs_names and (embeddings is not None or any(map(is_number, self.classes_))):
            return x, None  # names that say nothing, or somebody else's space
        plain = [c.replace("_", " ") for c in self.classes_]
        names = embed([before + c + after for c in plain], self.encoder, cache=self.cache).vectors
        if names.shape[1] != x.shape[1]:
            raise InputError(
                f"embeddings have {x.shape[1]} dimensions, class names {names.shape[1]}",
                "name the encoder that made them, or give a few labels and adapt='none'",
            )
        return x, names

    def _annotator(
        self, data: TextGraph, x: np.ndarray, names: np.ndarray | None
    ) -> Annotator | None:
        """The annotator as one of node numbers."""
        if self.annotator is None or (self.annotator == "names" and names is None):
            return None
        if self.annotator == "names":
            return names_annotator(x, names)
        if data.texts is None:
            raise InputError("an annotator reads texts, and there are none")
        if isinstance(self.annotator, Chat):
            return chat_annotator(self.annotator, data.texts, self.classes_, self.thing)
        return lambda nodes: np.asarray(self.annotator([data.texts[i] for i in nodes]))

    def _prototypes(
        self,
        x: np.ndarray,
        annotate: Annotator | None,
        shown: np.ndarray,
        rng: np.random.Generator,
    ) -> Prototypes:
        n_classes, size = len(self.classes_), self.samples_per_class
        if (shown >= 0).any():
            return few_shot_prototypes(x, shown, n_classes)
        if annotate is None:
            raise InputError("nobody is to annotate and no node is labelled", "annotator='names'")
        return zero_shot_prototypes(x, n_classes, annotate, rng, per_class=size, top=self.top)

    def _log_phi(
        self,
        data: TextGraph,
        x: np.ndarray,
        made: Prototypes,
        plain: np.ndarray,
        known: np.ndarray,
    ) -> Float[np.ndarray, "n K"]:
        """Node potentials, from what was asked for."""
        if self.aggregate_first:
            x = average_neighbours(x, data.edges)
            plain = class_log_probabilities(x, made.vectors, self.temperature)
        if self.few_shot == "logistic" and (known >= 0).any():
            fitted = simple_graph_convolution(
                x, data.edges, known, len(made.kept), hops=0, strength=10.0
            )
            return np.log(fitted + 1e-9)
        return plain

    def _homophily(
        self,
        data: TextGraph,
        x: np.ndarray,
        phi: np.ndarray,
        known: np.ndarray,
        rng: np.random.Generator,
    ) -> Homophily:
        """r as it was asked for, and where it came from."""
        if isinstance(self.homophily, Homophily):
            return self.homophily
        if not isinstance(self.homophily, str):
            return Homophily(float(self.homophily), chance_agreement(phi), 0.0, 0, "given")
        if not data.n_edges:  # nothing follows from it
            return Homophily(0.5, chance_agreement(phi), 0.5, 0, "no edges")
        if self.homophily == "llm":
            ask = (self.annotator, data.texts, data.edges, self.classes_, rng)
            return judge_homophily(*ask, phi=phi, thing=self.thing)
        if self.homophily in ("auto", "labels"):
            try:
                return homophily_from_labels(x, data.edges, known, phi.shape[1], self.temperature)
            except InputError:
                if self.homophily == "labels":
                    raise
        return estimate_homophily(phi, data.edges)

    def _warn_of_dropped(self, made: Prototypes, labelled: bool) -> None:
        if self.dropped_classes_:
            why = "has a labelled node" if labelled else "was given to a text by the annotator"
            warnings.warn(
                f"none of these classes {why}: {', '.join(self.dropped_classes_)}; they will never "
                "be the answer. More descriptive names, a larger samples_per_class or a few labels "
                "help",
                UserWarning,
                stacklevel=3,
            )

    def _spread(self, values: np.ndarray, kept: np.ndarray) -> Float[np.ndarray, "n C"]:
        full = np.zeros((len(values), len(self.classes_)))
        full[:, kept] = values
        return full
