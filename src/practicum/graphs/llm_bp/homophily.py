"""How often linked nodes share a class: without labels, from beliefs or from a language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from practicum.data.graph import clean_edges
from practicum.errors import InputError
from practicum.graphs.llm_bp.prototypes import MAX_CHARACTERS, TEMPERATURE, check_parsed
from practicum.models.chat.protocol import Chat, Request

HomophilyMethod = Literal["em", "agree"]
TOLERANCE, MAX_STEPS = 1e-6, 10_000
MIN_EDGES = 20  # at labelled nodes, below which their share within a class says nothing


@dataclass(frozen=True)
class Homophily:
    """An estimate of the share of edges within a class.

    Attributes
    ----------
    r : float
    chance : float
        How often two nodes drawn at random agree: ``sum_c pi_c^2``, pi the mean class probability.
    se : float
        Standard error from the number of edges alone, not from the classes being guessed.
    n_edges : int
        Edges it rests on.
    method : str
    """

    r: float
    chance: float
    se: float
    n_edges: int
    method: str = "em"


def chance_agreement(phi: Float[np.ndarray, "n C"]) -> float:
    """``sum_c pi_c^2`` with pi the mean of the class probabilities.

    Parameters
    ----------
    phi : float, shape (n, C)
        Rows sum to 1.

    Raises
    ------
    InputError
        Rows do not sum to 1.

    Examples
    --------
    >>> chance_agreement(np.eye(4))
    0.25
    """
    _check_phi(phi)
    return float((phi.mean(0) ** 2).sum())


def estimate_homophily(
    phi: Float[np.ndarray, "n C"], edges: Int[np.ndarray, "e 2"], method: HomophilyMethod = "em"
) -> Homophily:
    """Share of edges within a class, from class probabilities of the nodes alone.

    ``em``: edges are a mixture of "same class" (weight r) and "different". With
    ``S_e = sum_c phi_i(c) phi_j(c)`` for the edge e = (i, j), repeat
    ``r <- mean_e r S_e / (r S_e + (1 - r)(1 - S_e) / (C - 1))`` from r = 1/2. ``agree`` is the
    share of edges whose ends have the same most probable class: biased towards chance, since a
    wrong guess at either end breaks it; for comparison.

    Parameters
    ----------
    phi : float, shape (n, C)
        Class probabilities. How sharp they are (the temperature) moves the estimate.
    edges : int, shape (e, 2)
    method : {"em", "agree"}

    Returns
    -------
    Homophily

    Raises
    ------
    InputError
        No edges, rows that do not sum to 1, an unknown method.

    Examples
    --------
    >>> phi = np.repeat([[0.9, 0.1], [0.1, 0.9]], 3, axis=0)
    >>> estimate_homophily(phi, np.array([[0, 1], [1, 2], [3, 4], [2, 3]])).r > 0.5
    True
    """
    if method not in get_args(HomophilyMethod):
        raise InputError(f"method {method!r} is not known", ", ".join(get_args(HomophilyMethod)))
    _check_phi(phi)
    links = clean_edges(edges, len(phi), rows=True).edges
    if not len(links):
        raise InputError("there are no edges to estimate homophily from", "give it as a number")
    chance, n = chance_agreement(phi), len(links)
    if method == "agree":
        guess = phi.argmax(1)[links]
        r = float((guess[:, 0] == guess[:, 1]).mean())
        return Homophily(r, chance, _standard_error(r, n), n, method)
    r = _em(np.einsum("ec,ec->e", phi[links[:, 0]], phi[links[:, 1]]), phi.shape[1])
    return Homophily(r, chance, _standard_error(r, n), n, method)


def homophily_from_labels(
    x: Float[np.ndarray, "n d"],
    edges: Int[np.ndarray, "e 2"],
    known: Int[np.ndarray, " n"],
    n_classes: int,
    temperature: float = TEMPERATURE,
) -> Homophily:
    """Share of edges within a class, from the edges that a few labelled nodes have.

    One end's class is certain, so that a subject shared by both texts cannot pass for a class. For
    the edge (i, j) with label y_i let ``v = phi_j(y_i)``, prototypes made without i. If j has the
    class of i, v is ``a = phi_i(y_i)`` on average over labelled nodes (each left out of its own
    prototype), otherwise ``b = phi_k(y_i)`` over those of other classes; so r is the least-squares
    slope of ``v - b`` on ``a - b``. Ends that are both labelled count as 1 or 0.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    edges : int, shape (e, 2)
    known : int, shape (n,)
        Classes 0 .. K-1 of labelled nodes, negative elsewhere.
    n_classes : int
        K.
    temperature : float

    Returns
    -------
    Homophily

    Raises
    ------
    InputError
        Fewer than 20 edges at nodes of classes with two labels or more.

    Examples
    --------
    >>> x, known = np.repeat(np.eye(2), 30, axis=0), np.repeat([0, 1], 30)
    >>> known[::2] = -1
    >>> edges = np.array([[i, (i + 7) % 60] for i in range(60)])
    >>> truth = float((edges // 30)[:, 0].__eq__((edges // 30)[:, 1]).mean())
    >>> abs(homophily_from_labels(x, edges, known, 2).r - truth) < 0.05
    True
    """
    links = clean_edges(edges, len(x), rows=True).edges
    sums = np.zeros((n_classes, x.shape[1]))
    labelled = np.flatnonzero(known >= 0)
    np.add.at(sums, known[labelled], x[labelled])
    count = np.bincount(known[labelled], minlength=n_classes)
    several = np.zeros(len(x), dtype=bool)
    several[labelled] = count[known[labelled]] > 1
    directed = np.concatenate([links, links[:, ::-1]])
    directed = directed[several[directed[:, 0]]]
    if len(directed) < MIN_EDGES or (count > 1).sum() < 2:
        raise InputError(
            f"{len(directed)} edges at labelled nodes; {MIN_EDGES} are needed", "label more nodes"
        )
    own = np.flatnonzero(several)
    of_labelled = _without(x, sums, known, own, own, temperature)
    table = np.zeros((n_classes, n_classes))  # mean probabilities (columns) of each class (rows)
    np.add.at(table, known[own], of_labelled)
    table /= np.maximum(np.bincount(known[own], minlength=n_classes), 1)[:, None]
    share = _mean_phi(x, sums, temperature)
    apart = (share @ table - share * np.diag(table)) / np.maximum(1 - share, 1e-9)
    source, target = directed.T
    y = known[source]
    value = _without(x, sums, known, source, target, temperature)[np.arange(len(y)), y]
    alike, other = np.diag(table)[y], apart[y]
    both = known[target] >= 0
    value = np.where(both, known[target] == y, value)
    alike, other = np.where(both, 1.0, alike), np.where(both, 0.0, other)
    lever = alike - other
    total = float((lever**2).sum())
    slope = float(((value - other) * lever).sum()) / max(total, 1e-12)
    rest = value - other - slope * lever
    se = float(np.sqrt((rest**2 * lever**2).sum())) / max(total, 1e-12)
    chance = float((share**2).sum())
    return Homophily(float(np.clip(slope, 0, 1)), chance, se, len(directed), "labels")


def _without(
    x: np.ndarray,
    sums: np.ndarray,
    known: np.ndarray,
    left_out: np.ndarray,
    nodes: np.ndarray,
    temperature: float,
) -> Float[np.ndarray, "m K"]:
    """Class probabilities of ``nodes`` with prototypes made without ``left_out``, row by row."""
    cosines = x[nodes] @ _unit(sums).T
    y = known[left_out]
    own = _unit(sums[y] - x[left_out])
    cosines[np.arange(len(nodes)), y] = (x[nodes] * own).sum(1)
    return softmax(cosines.astype(np.float64) / temperature, axis=1)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _mean_phi(x: np.ndarray, sums: np.ndarray, temperature: float) -> Float[np.ndarray, " K"]:
    return softmax((x @ _unit(sums).T).astype(np.float64) / temperature, axis=1).mean(0)


def _em(same: np.ndarray, n_classes: int) -> float:
    r, apart = 0.5, (1 - same) / (n_classes - 1)
    for _ in range(MAX_STEPS):
        joint = r * same
        new = float((joint / np.maximum(joint + (1 - r) * apart, 1e-300)).mean())
        if abs(new - r) < TOLERANCE:
            return new
        r = new
    return r


def _standard_error(r: float, n: int) -> float:
    return float(np.sqrt(r * (1 - r) / n))


def _check_phi(phi: np.ndarray) -> None:
    sums = phi.sum(1)
    if phi.ndim != 2 or not np.allclose(sums, 1, atol=1e-5):
        raise InputError("class probabilities must have rows that sum to 1")


def true_homophily(edges: Int[np.ndarray, "e 2"], labels: Int[np.ndarray, " n"]) -> float:
    """Share of edges whose ends have the same label, of those where both are known.

    The definition used everywhere here ("edge homophily"); node- and class-averaged ones differ.

    Parameters
    ----------
    edges : int, shape (e, 2)
    labels : int, shape (n,)
        Negative where unknown.

    Raises
    ------
    InputError
        No edge has two known ends.

    Examples
    --------
    >>> true_homophily(np.array([[0, 1], [1, 2]]), np.array([0, 0, 1]))
    0.5
    """
    ends = labels[clean_edges(edges, len(labels), rows=True).edges]
    known = ends[(ends >= 0).all(1)]
    if not len(known):
        raise InputError("no edge has two labelled ends")
    return float((known[:, 0] == known[:, 1]).mean())


# --- by a person ---------------------------------------------------------------------------------


def edges_to_judge(
    edges: Int[np.ndarray, "e 2"], n: int = 100, random_state: int | np.random.Generator = 0
) -> Int[np.ndarray, "m 2"]:
    """Random edges for somebody to look at: do the two texts belong to one class?

    A hundred take a person a quarter of an hour and give r to within 0.1 (95 %).

    Parameters
    ----------
    edges : int, shape (e, 2)
    n : int
    random_state : int or numpy Generator

    Raises
    ------
    InputError
        There are no edges.

    Examples
    --------
    >>> edges_to_judge(np.array([[0, 1], [1, 2], [0, 2]]), 2).shape
    (2, 2)
    """
    if not len(edges):
        raise InputError("there are no edges to judge")
    rng = np.random.default_rng(random_state)
    return edges[np.sort(rng.choice(len(edges), min(n, len(edges)), replace=False))]


def judged_homophily(same: Bool[np.ndarray, " m"], chance: float = float("nan")) -> Homophily:
    """The share of judged edges that are within a class, with its standard error.

    Parameters
    ----------
    same : bool, shape (m,)
    chance : float, optional

    Raises
    ------
    InputError
        No answers.

    Examples
    --------
    >>> judged_homophily(np.array([True, False, False, False])).r
    0.25
    """
    if not len(same):
        raise InputError("no edge was judged")
    r, n = float(np.mean(same)), len(same)
    return Homophily(r, chance, _standard_error(r, n), n, "judged")


# --- by a language model -------------------------------------------------------------------------


def judge_homophily(
    chat: Chat,
    texts: Sequence[str],
    edges: Int[np.ndarray, "e 2"],
    classes: Sequence[str],
    rng: np.random.Generator,
    *,
    phi: Float[np.ndarray, "n C"] | None = None,
    n_edges: int = 100,
    n_trials: int = 5,
    thing: str = "texts",
    compat: Literal["official"] | None = None,
) -> Homophily:
    """Share of sampled edges whose two texts a language model puts into one category.

    Every edge is asked about ``n_trials`` times; more than half must say the same.

    Parameters
    ----------
    chat : Chat
    texts : sequence of n str
    edges : int, shape (e, 2)
    classes : sequence of str
    rng : numpy Generator
    phi : float, shape (n, C), optional
        For the chance agreement; by default classes are taken as equally frequent.
    n_edges, n_trials : int
    thing : str
        What the texts are, in the plural.
    compat : "official", optional
        The published reading of replies (:func:`parse_same`).

    Returns
    -------
    Homophily

    Raises
    ------
    InputError
        No edges, or more than 30 % of the replies cannot be read (some are shown).

    Examples
    --------
    >>> from practicum.models.chat import Chat, Reply
    >>> class Agree(Chat):
    ...     name = "agree"
    ...     def replies(self, requests):
    ...         return [Reply("Yes, they do.") for _ in requests]
    >>> rng = np.random.default_rng(0)
    >>> judge_homophily(Agree(), ["x", "y"], np.array([[0, 1]]), ["a", "b"], rng).r
    1.0
    """
    links = clean_edges(edges, len(texts), rows=True).edges
    if not len(links):
        raise InputError("there are no edges to judge", "give the homophily as a number")
    chosen = links[rng.choice(len(links), min(n_edges, len(links)), replace=False)]
    requests = [
        Request(pair_question(texts[i], texts[j], classes, thing), temperature=0.7, seed=k)
        for i, j in chosen
        for k in range(n_trials)
    ]
    replies = [r.text if r.answered else "" for r in chat.replies(requests)]
    answers = np.array([_as_number(parse_same(r, compat)) for r in replies])
    check_parsed(answers >= 0, replies, f"{chat.name} says Yes or No")
    table = answers.reshape(len(chosen), n_trials)
    yes, said = (table == 1).sum(1), (table >= 0).sum(1)
    judged = said > 0
    r = float((2 * yes[judged] > said[judged]).mean())
    chance = chance_agreement(phi) if phi is not None else 1 / len(classes)
    return Homophily(r, chance, _standard_error(r, int(judged.sum())), int(judged.sum()), "llm")


def _as_number(same: bool | None) -> int:
    return -1 if same is None else int(same)


def pair_question(
    first: str, second: str, classes: Sequence[str], thing: str
) -> list[dict[str, Any]]:
    """The messages that ask whether two texts belong to one category.

    Parameters
    ----------
    first, second : str
        Cut at 10,000 characters.
    classes : sequence of str
    thing : str

    Raises
    ------
    nothing

    Examples
    --------
    >>> "Yes or No" in pair_question("x", "y", ["a", "b"], "texts")[-1]["content"]
    True
    """
    names = "\n".join(f"[{c}]" for c in classes)
    ask = (
        f"We have two {thing} from the following {len(classes)} categories:\n{names}\n"
        f"The first text is:\n{first[:MAX_CHARACTERS]}\n"
        f"The second text is:\n{second[:MAX_CHARACTERS]}\n"
        "Please tell whether they belong to the same category or not by answering Yes or No after "
        "reasoning step by step."
    )
    return [
        {"role": "system", "content": "You are an expert in text classification."},
        {"role": "user", "content": ask},
    ]


def parse_same(reply: str, compat: Literal["official"] | None = None) -> bool | None:
    """Whether a reply says "same"; None where it says neither or both.

    The last Yes or No that stands as a word decides. The published rule (``official``) calls a
    reply different if it holds "No" anywhere - as in "Note" or "Nonetheless" - and same otherwise.

    Parameters
    ----------
    reply : str
    compat : "official", optional

    Raises
    ------
    nothing

    Examples
    --------
    >>> parse_same("Note that both are games. Yes"), parse_same("Note ... Yes", "official")
    (True, False)
    >>> parse_same("I cannot tell.") is None
    True
    """
    if compat == "official":
        signs = ("**not**", "not belong", "different categories", "No")
        return not any(sign in reply for sign in signs)
    words = re.findall(r"\b(yes|no)\b", reply, re.I)
    if words:
        return words[-1].lower() == "yes"
    if re.search(r"different categor|not (?:belong|the same)|do(?:es)? not belong", reply, re.I):
        return False
    return True if re.search(r"same category", reply, re.I) else None
