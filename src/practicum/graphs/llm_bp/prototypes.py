"""One direction a class: from an annotator's answers, from labelled nodes, or from class names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from practicum.errors import InputError
from practicum.models.chat.protocol import Chat, Request
from practicum.models.embed import unit_rows

TEMPERATURE = 0.025
MAX_CHARACTERS = 10_000  # of a text shown to a language model
MAX_UNPARSED = 0.3  # share of replies that may name no class, or several
NO_ANSWER, SEVERAL = -1, -2

Annotator = Callable[[Int[np.ndarray, " m"]], Int[np.ndarray, " m"]]
"""Node numbers in, class numbers out; negative where there is no answer."""


@dataclass(frozen=True)
class Prototypes:
    """Directions of the classes that got one.

    Attributes
    ----------
    vectors : float, shape (K, d)
        Unit length, one row a class that is kept.
    kept : int, shape (K,)
        Their class numbers.
    sample : int, shape (m,)
        Nodes that were annotated or are labelled.
    answers : int, shape (m,)
        Their classes; negative where the annotator gave none.
    """

    vectors: np.ndarray
    kept: np.ndarray
    sample: np.ndarray
    answers: np.ndarray

    @property
    def missing(self) -> int:
        """Answers that were none, or more than one."""
        return int((self.answers < 0).sum())


def class_log_probabilities(
    x: Float[np.ndarray, "n d"],
    vectors: Float[np.ndarray, "K d"],
    temperature: float = TEMPERATURE,
) -> Float[np.ndarray, "n K"]:
    """``log softmax(x p / temperature)``: cosine to each prototype, made a distribution.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    vectors : float, shape (K, d)
        Prototypes, unit rows.
    temperature : float
        0.025 as published, presuming cosines of a sentence encoder. It decides what an estimated
        homophily means: report the two together.

    Raises
    ------
    InputError
        Temperature not positive.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0]])
    >>> np.exp(class_log_probabilities(x, np.eye(2), 1.0)).round(2).tolist()
    [[0.73, 0.27]]
    """
    if not temperature > 0:
        raise InputError(f"temperature is {temperature}; it must be positive")
    return log_softmax(x.astype(np.float64) @ vectors.T.astype(np.float64) / temperature, axis=1)


def zero_shot_prototypes(
    x: Float[np.ndarray, "n d"],
    n_classes: int,
    annotate: Annotator,
    rng: np.random.Generator,
    *,
    candidates: Int[np.ndarray, " m"] | None = None,
    per_class: int = 20,
    top: int = 10,
) -> Prototypes:
    """Prototypes from an annotator's answers on a small random sample.

    ``per_class * C`` nodes are drawn and annotated; of those answered c, the ``top`` nearest to
    their centroid are averaged and normalised. A class without an answer gets no prototype.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    n_classes : int
        C.
    annotate : callable
        See :func:`names_annotator` and :func:`chat_annotator`.
    rng : numpy Generator
    candidates : int, shape (m,), optional
        Nodes to draw from; all by default.
    per_class, top : int

    Returns
    -------
    Prototypes

    Raises
    ------
    InputError
        Fewer than two classes got an answer.

    Warns
    -----
    UserWarning
        A class got no answer (the caller names it).

    Examples
    --------
    >>> x = np.repeat(np.eye(2), 30, axis=0)
    >>> made = zero_shot_prototypes(x, 2, lambda i: i // 30, np.random.default_rng(0))
    >>> made.vectors.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    pool = np.arange(len(x)) if candidates is None else np.asarray(candidates)
    if per_class < 1 or top < 1:
        raise InputError(f"per_class {per_class}, top {top}; both are at least 1")
    sample = rng.choice(pool, min(per_class * n_classes, len(pool)), replace=False)
    answers = np.asarray(annotate(sample))
    vectors, kept = [], []
    for c in range(n_classes):
        own = x[sample[answers == c]]
        if len(own):
            distance = np.linalg.norm(own - own.mean(0), axis=1)
            vectors.append(own[np.argsort(distance, kind="stable")[:top]].mean(0))
            kept.append(c)
    if len(kept) < 2:
        raise InputError(
            f"the annotator used {len(kept)} of {n_classes} classes on {len(sample)} texts",
            "descriptive class names, another annotator, or a few labelled nodes",
        )
    return Prototypes(unit_rows(np.stack(vectors)), np.array(kept), sample, answers)


def few_shot_prototypes(
    x: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], n_classes: int
) -> Prototypes:
    """Normalised means of the labelled nodes of each class.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    labels : int, shape (n,)
        Class numbers; negative where unknown.
    n_classes : int

    Returns
    -------
    Prototypes

    Raises
    ------
    InputError
        Fewer than two classes have a labelled node.

    Examples
    --------
    >>> few_shot_prototypes(np.eye(3), np.array([0, 1, -1]), 2).vectors.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    sample = np.flatnonzero(labels >= 0)
    kept = np.unique(labels[sample])
    if len(kept) < 2:
        raise InputError(
            f"labelled nodes of {len(kept)} class{'es' * (len(kept) != 1)}", "two at least"
        )
    vectors = np.stack([x[labels == c].mean(0) for c in kept])
    return Prototypes(unit_rows(vectors), kept, sample, labels[sample])


def draw_shots(
    labels: Int[np.ndarray, " n"], shots: int, rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Labels of ``shots`` random nodes of every class, without replacement; -1 elsewhere.

    Parameters
    ----------
    labels : int, shape (n,)
        Negative where unknown.
    shots : int
    rng : numpy Generator

    Raises
    ------
    InputError
        A class has fewer nodes than shots plus one to test on.

    Examples
    --------
    >>> draw_shots(np.array([0, 0, 0, 1, 1, 1]), 1, np.random.default_rng(0)).tolist()
    [-1, -1, 0, -1, 1, -1]
    """
    shown = np.full(len(labels), -1, dtype=np.int64)
    for c in np.unique(labels[labels >= 0]):
        members = np.flatnonzero(labels == c)
        if len(members) <= shots:
            raise InputError(f"class {c} has {len(members)} nodes; more than {shots} are needed")
        shown[rng.choice(members, shots, replace=False)] = c
    return shown


# --- task-adaptive embeddings --------------------------------------------------------------------


def adapt_to_classes(
    x: Float[np.ndarray, "n d"], names: Float[np.ndarray, "C d"], alpha: float = 0.6
) -> Float[np.ndarray, "n d"]:
    """Turn embeddings towards what tells the class names apart.

    With V the top C - 1 right singular vectors of the centred class-name embeddings,
    ``x' = normalise(alpha x + (1 - alpha) V V^T (x - mean x))``. A stand-in, for any encoder, for
    an encoder that reads the classes in its instruction (:func:`task_instruction`); not the
    published encoder.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    names : float, shape (C, d)
        Embedded class names.
    alpha : float in [0, 1]
        1 changes nothing; near 0 harms few-shot prototypes.

    Raises
    ------
    InputError
        alpha outside [0, 1].

    Examples
    --------
    >>> x = unit_rows(np.random.default_rng(0).normal(size=(5, 4)))
    >>> bool(np.allclose(adapt_to_classes(x, np.eye(4)[:2], 1.0), x))
    True
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha is {alpha}; it lies in [0, 1]")
    centred = names - names.mean(0)
    v = np.linalg.svd(centred, full_matrices=False)[2][: len(names) - 1]
    along = (x - x.mean(0)) @ v.T @ v
    return unit_rows(alpha * x + (1 - alpha) * along)


def task_instruction(thing: str, classes: Sequence[str]) -> tuple[str, str]:
    """What goes before and after a text for an encoder that follows instructions.

    Parameters
    ----------
    thing : str
        What the texts are: "titles and abstracts of scientific publications".
    classes : sequence of str

    Raises
    ------
    nothing

    Examples
    --------
    >>> before, after = task_instruction("webpage text", ["course", "faculty"])
    >>> print(before + "Dr. Smith teaches ..." + after)
    <instruct>Given the webpage text, classify it into one of the following 2 classes:
    course
    faculty
    <query>
    Dr. Smith teaches ...
    <response>
    """
    names = "\n".join(classes)
    ask = f"Given the {thing}, classify it into one of the following {len(classes)} classes:"
    return f"<instruct>{ask}\n{names}\n<query>\n", "\n<response>"


# --- annotators ----------------------------------------------------------------------------------


def names_annotator(x: Float[np.ndarray, "n d"], names: Float[np.ndarray, "C e"]) -> Annotator:
    """Answers with the class whose name is nearest: no language model, no cost.

    Parameters
    ----------
    x, names : float, shapes (n, d) and (C, d)
        Embedded by the same encoder.

    Raises
    ------
    InputError
        Dimensions differ.

    Examples
    --------
    >>> names_annotator(np.eye(2), np.eye(2))(np.array([1, 0])).tolist()
    [1, 0]
    """
    if x.shape[1] != names.shape[1]:
        raise InputError(f"texts have {x.shape[1]} dimensions, class names {names.shape[1]}")
    return lambda nodes: (x[nodes] @ names.T).argmax(1)


def chat_annotator(
    chat: Chat, texts: Sequence[str], classes: Sequence[str], thing: str = "text"
) -> Annotator:
    """Answers with what a language model says, one request a text.

    Parameters
    ----------
    chat : Chat
        Any of :mod:`practicum.models.chat`.
    texts : sequence of n str
    classes : sequence of str
    thing : str
        What the texts are.

    Raises
    ------
    InputError
        When called: more than 30 % of the replies name no class, or several; some are shown.

    Examples
    --------
    >>> from practicum.models.chat import Chat, Reply
    >>> class Parrot(Chat):
    ...     name = "parrot"
    ...     def replies(self, requests):
    ...         return [Reply(r.messages[-1]["content"].split("Text: ")[1]) for r in requests]
    >>> annotate = chat_annotator(Parrot(), ["a cat", "a dog"], ["cat", "dog"])
    >>> annotate(np.array([1, 0])).tolist()
    [1, 0]
    """

    def annotate(nodes: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        requests = [Request(class_question(texts[i], classes, thing), max_tokens=64) for i in nodes]
        replies = [r.text if r.answered else "" for r in chat.replies(requests)]
        answers = np.array([parse_class(r, classes) for r in replies], dtype=np.int64)
        check_parsed(answers >= 0, replies, f"{chat.name} names exactly one class")
        return answers

    return annotate


def class_question(text: str, classes: Sequence[str], thing: str) -> list[dict[str, Any]]:
    """The messages that ask which class a text belongs to.

    Parameters
    ----------
    text : str
        Cut at 10,000 characters.
    classes : sequence of str
    thing : str

    Raises
    ------
    nothing

    Examples
    --------
    >>> class_question("a cat", ["cat", "dog"], "caption")[0]["role"]
    'system'
    """
    names = "\n".join(f"[{c}]" for c in classes)
    ask = (
        f"We have {thing} from the following {len(classes)} categories:\n{names}\n"
        f"Text: {text[:MAX_CHARACTERS]}\n"
        "Please tell which category the text belongs to:"
    )
    return [
        {"role": "system", "content": "You are an expert in text classification."},
        {"role": "user", "content": ask},
    ]


def parse_class(reply: str, classes: Sequence[str]) -> int:
    """Number of the one class that a reply names; -1 for none, -2 for several.

    "(...)" in class names is ignored, case too, and a name within a longer name that is also
    there does not count.

    Parameters
    ----------
    reply : str
    classes : sequence of str

    Raises
    ------
    nothing

    Examples
    --------
    >>> parse_class("It is Net.", ["net", "web"]), parse_class("net or web", ["net", "web"])
    (0, -2)
    >>> parse_class("text editors", ["text", "text editors"])
    1
    """
    plain = [re.sub(r"\([^)]*\)", "", c).strip() for c in classes]
    left, found = reply, []
    for i in sorted(range(len(plain)), key=lambda i: -len(plain[i])):
        pattern = rf"(?<!\w){re.escape(plain[i])}(?!\w)"
        if plain[i] and re.search(pattern, left, re.I):
            found.append(i)
            left = re.sub(pattern, " ", left, flags=re.I)
    return NO_ANSWER if not found else found[0] if len(found) == 1 else SEVERAL


def check_parsed(good: np.ndarray, replies: Sequence[str], what: str) -> None:
    """Refuse a language model that mostly does not answer.

    Parameters
    ----------
    good : bool, shape (m,)
    replies : sequence of m str
    what : str
        What a good reply does, for the message.

    Raises
    ------
    InputError
        More than 30 % are not good; three of them are shown.

    Examples
    --------
    >>> check_parsed(np.array([True, True]), ["a", "b"], "x names a class")
    """
    bad = [r for r, ok in zip(replies, good, strict=True) if not ok]
    if len(bad) > MAX_UNPARSED * len(replies):
        shown = "; ".join(repr(r[:60]) for r in bad[:3])
        raise InputError(
            f"{what} in only {int(good.sum())} of {len(replies)} replies; others: {shown}",
            "another model, or annotator='names'",
        )


# --- names and leaks -----------------------------------------------------------------------------


def check_class_names(classes: Sequence[str], *, descriptive: bool = True) -> tuple[str, ...]:
    """Class names that a text encoder or a language model can do something with.

    Parameters
    ----------
    classes : sequence of str
    descriptive : bool
        Refuse names that are plain numbers; with labels in every class they may be.

    Raises
    ------
    InputError
        Fewer than two, repeated, empty, or plain numbers.

    Examples
    --------
    >>> check_class_names(["games", "science"])
    ('games', 'science')
    """
    if isinstance(classes, str):
        raise InputError(f"classes is the text {classes!r}", "a list of names is expected")
    names = tuple(str(c).strip() for c in classes)
    if len(names) < 2:
        raise InputError(f"{len(names)} classes; at least 2 are needed")
    repeated = sorted({c for c in names if [n.lower() for n in names].count(c.lower()) > 1})
    if repeated:
        raise InputError(f"the class {repeated[0]!r} is named twice")
    numbers = [c for c in names if not c or is_number(c)]
    if numbers and descriptive:
        raise InputError(
            f"the class name {numbers[0]!r} is a number or empty",
            "zero-shot needs descriptive names: what would a person call the class?",
        )
    return names


def is_number(name: str) -> bool:
    """Whether a class is called by a number, which tells an encoder nothing.

    Parameters
    ----------
    name : str

    Raises
    ------
    nothing

    Examples
    --------
    >>> is_number("3"), is_number("sound"), is_number("2.5")
    (True, False, True)
    """
    return bool(re.fullmatch(r"[-+]?[\d.]+", name.strip()))


def check_leak(
    texts: Sequence[str],
    labels: Int[np.ndarray, " n"],
    classes: Sequence[str],
    share: float = 0.2,
) -> dict[str, float]:
    """Classes whose name stands in their own texts: accuracy there is reading, not inference.

    Parameters
    ----------
    texts : sequence of n str
    labels : int, shape (n,)
        Negative where unknown.
    classes : sequence of str
    share : float
        From which share of a class's texts on it is reported.

    Returns
    -------
    class name -> share of its texts that hold the name

    Raises
    ------
    InputError
        Texts and labels of different lengths.

    Warns
    -----
    UserWarning
        Some class leaks.

    Examples
    --------
    >>> check_leak(["a pet", "dog food", "a bird"], np.array([0, 1, 1]), ["cat", "dog"], 0.6)
    {}
    """
    if len(texts) != len(labels):
        raise InputError(f"{len(texts)} texts and {len(labels)} labels")
    found = {}
    for c, name in enumerate(classes):
        own = [texts[i] for i in np.flatnonzero(labels == c)]
        word = re.sub(r"\([^)]*\)", "", name).strip()
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.I)
        rate = float(np.mean([bool(pattern.search(t)) for t in own])) if own else 0.0
        if rate > share:
            found[name] = round(rate, 3)
    if found:
        words = ", ".join(f"{name!r} in {rate:.0%}" for name, rate in found.items())
        warnings.warn(
            f"class names stand in the texts of their own class ({words}): the text may have been "
            "written from the label",
            UserWarning,
            stacklevel=2,
        )
    return found
