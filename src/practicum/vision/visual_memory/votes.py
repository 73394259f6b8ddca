"""How neighbours decide: rank-weighted votes, the whole curve over k in one scan, probabilities.

Geirhos et al. 2025, read in their notebook ``nearest_neighbor_evaluation.ipynb``.  Neighbours are
given nearest first; ``i`` is the rank from 0, ``d`` the cosine distance ``1 - z . z_i``.  A class
is ahead only when its score *strictly* exceeds the best so far, so the class that reached a score
first keeps a tie.  (The published code tests the winner by its truth value and thereby answers
class 0 with the nearest neighbour's label; here 0 is a class like any other.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Integer

from practicum.errors import InputError

Vote = Literal["plurality", "distance", "softmax", "rank"]
VOTES: tuple[str, ...] = get_args(Vote)
CELLS = 4_000_000  # of a table of class scores held at once


def vote_weights(
    distances: Float[np.ndarray, "n k"],
    vote: str = "rank",
    *,
    alpha: float = 2.0,
    gamma: float = 1.0,
    tau: float = 0.07,
    reliability: Float[np.ndarray, "n k"] | None = None,
) -> Float[np.ndarray, "n k"]:
    """The weight of each neighbour.

    ``plurality``: 1; ``distance``: exp(-d)^gamma; ``softmax``: exp((1 - d) / tau), divided here by
    the nearest neighbour's so that nothing overflows (only ratios matter); ``rank``: 1/(i + alpha).

    Parameters
    ----------
    distances : array of shape (n, k)
        Cosine distances in 0..2, ascending along each row; without a unit.
    vote : {"rank", "softmax", "distance", "plurality"}
    alpha : float
        Positive; the paper's 2.0 gives 1/2, 1/3, 1/4, ...
    gamma : float
        0 or more; at 0 distance voting is plurality voting.
    tau : float
        Positive; towards 0 the nearest neighbour decides alone, towards infinity plurality does.
    reliability : array of shape (n, k), optional
        Multiplies the weights (``s_i`` of soft pruning, or weights of your own).

    Returns
    -------
    array of shape (n, k), float64

    Raises
    ------
    InputError
        An unknown vote or a setting out of range.

    Examples
    --------
    >>> vote_weights(np.array([[0.1, 0.2, 0.3]]), "rank").round(3).tolist()
    [[0.5, 0.333, 0.25]]
    """
    d = np.asarray(distances, dtype=np.float64)
    if vote not in VOTES:
        import difflib

        close = difflib.get_close_matches(str(vote), VOTES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"votes: {', '.join(VOTES)}"
        raise InputError(f"there is no vote {vote!r}", hint)
    for name, value, low in (("alpha", alpha, 0), ("tau", tau, 0)):
        if not value > low:
            raise InputError(f"{name}={value}: expected a number above 0")
    if not gamma >= 0:
        raise InputError(f"gamma={gamma}: expected a number of 0 or more")
    if vote == "rank":
        weights = np.broadcast_to(1.0 / (np.arange(d.shape[1]) + alpha), d.shape)
    elif vote == "distance":
        weights = np.exp(-gamma * d)
    elif vote == "softmax":
        weights = np.exp((d[:, :1] - d) / tau)
    else:
        weights = np.ones_like(d)
    return np.array(weights) if reliability is None else weights * reliability


def vote_curve(
    codes: Integer[np.ndarray, "n k"], weights: Float[np.ndarray, "n k"]
) -> Integer[np.ndarray, "n k"]:
    """The winner among the first 1, 2, ..., k neighbours, from one scan.

    Parameters
    ----------
    codes : array of shape (n, k)
        Classes as whole numbers from 0, nearest neighbour first.
    weights : array of shape (n, k)
        0 or more; see :func:`vote_weights`.

    Returns
    -------
    array of shape (n, k)
        Column j holds the prediction for k = j + 1.

    Raises
    ------
    InputError
        Shapes differ, there is no neighbour, or a code is negative.

    Examples
    --------
    >>> rank = vote_weights(np.zeros((1, 5)))
    >>> vote_curve(np.array([[0, 1, 1, 0, 1]]), rank).tolist()  # a, b, b, a, b
    [[0, 0, 1, 0, 1]]
    """
    return _scan(codes, weights)[0]


def class_scores(
    codes: Integer[np.ndarray, "n k"], weights: Float[np.ndarray, "n k"], n_classes: int
) -> Float[np.ndarray, "n c"]:
    """The sum of weights of each class over all k neighbours.

    Parameters
    ----------
    codes, weights : see :func:`vote_curve`
    n_classes : int
        Columns of the result.

    Raises
    ------
    InputError
        See :func:`vote_curve`.

    Examples
    --------
    >>> class_scores(np.array([[0, 1, 1]]), np.array([[0.5, 0.25, 0.125]]), 3).tolist()
    [[0.5, 0.375, 0.0]]
    """
    return _scan(codes, weights, n_classes)[1]


def _scan(
    codes: np.ndarray, weights: np.ndarray, n_classes: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Winners (n, k) and final scores (n, c): the published loop, all queries at a time.

    Scores are added in the order of the ranks, as a loop would, so ties are the loop's to the bit.
    """
    codes, weights = np.asarray(codes), np.asarray(weights, dtype=np.float64)
    if codes.shape != weights.shape or codes.ndim != 2 or codes.shape[1] < 1:
        raise InputError(f"classes of shape {codes.shape} and weights of shape {weights.shape}")
    n, k = codes.shape
    if n and codes.min() < 0:
        raise InputError("classes are whole numbers from 0")
    width = n_classes or (int(codes.max()) + 1 if n else 1)
    winners, scores = np.empty((n, k), dtype=np.intp), np.zeros((n, width))
    step = max(1, CELLS // width)
    for start in range(0, n, step):
        part = slice(start, start + step)
        table, rows = scores[part], np.arange(len(scores[part]))
        best, winner = np.full(len(rows), -np.inf), np.zeros(len(rows), dtype=np.intp)
        for i in range(k):
            c = codes[part, i]
            table[rows, c] += weights[part, i]
            reached = table[rows, c]
            ahead = reached > best
            best = np.where(ahead, reached, best)
            winner = np.where(ahead, c, winner)
            winners[part, i] = winner
    return winners, scores


def probabilities(
    scores: Float[np.ndarray, "n c"], temperature: float = 1.0
) -> Float[np.ndarray, "n c"]:
    """Scores as probabilities: ``p_c`` proportional to ``score_c^(1/T)``.

    At T = 1 that is the share of the score; a class without a neighbour has exactly 0.

    Parameters
    ----------
    scores : array of shape (n, c)
        0 or more, some of each row above 0 (rows of zeros give equal shares).
    temperature : float
        Positive; above 1 flattens.

    Raises
    ------
    InputError
        The temperature is not positive.

    Examples
    --------
    >>> probabilities(np.array([[3.0, 1.0, 0.0]])).tolist()
    [[0.75, 0.25, 0.0]]
    """
    if not temperature > 0:
        raise InputError(f"temperature={temperature}: expected a number above 0")
    top = scores.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        powered = np.where(top > 0, (scores / top) ** (1 / temperature), 1.0)
    return powered / powered.sum(axis=1, keepdims=True)


def fit_temperature(
    scores: Float[np.ndarray, "n c"], codes: Integer[np.ndarray, "n"], floor: float = 1e-3
) -> float:
    """The temperature with the least cross-entropy on labelled scores (leave-one-out, say).

    Parameters
    ----------
    scores : array of shape (n, c)
    codes : array of shape (n,)
        The true classes.
    floor : float
        Probability that a true class without a neighbour is counted with: its logarithm would be
        minus infinity at any temperature.

    Raises
    ------
    InputError
        There is nothing to fit to.

    Examples
    --------
    >>> scores = np.array([[9.0, 1.0]] * 4)  # sure of class 0, and wrong one time in four
    >>> 1 < fit_temperature(scores, np.array([0, 0, 0, 1])) < 3
    True
    """
    from scipy.optimize import minimize_scalar

    if not len(scores):
        raise InputError("no scores to fit a temperature to")
    rows = np.arange(len(codes))

    def loss(log_t: float) -> float:
        p = probabilities(scores, float(np.exp(log_t)))[rows, codes]
        return -float(np.log(np.maximum(p, floor)).mean())

    found = minimize_scalar(loss, bounds=(np.log(0.05), np.log(20.0)), method="bounded")
    return float(np.exp(found.x))


def confidence(codes: Integer[np.ndarray, "n k"]) -> tuple[np.ndarray, np.ndarray]:
    """How much the neighbours agree: plurality count over k, and ``1 - H / H_max``.

    H is the entropy of the neighbours' labels in bits, H_max that of k different labels.

    Parameters
    ----------
    codes : array of shape (n, k)

    Returns
    -------
    two arrays of shape (n,), each in 0..1

    Raises
    ------
    InputError
        There is no neighbour.

    Examples
    --------
    >>> [float(x[0]) for x in confidence(np.array([[1, 1, 1, 1]]))]
    [1.0, 1.0]
    """
    codes = np.asarray(codes)
    k = codes.shape[1]
    counts = class_scores(codes, np.ones(codes.shape), int(codes.max(initial=0)) + 1)
    share = counts / k
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(share > 0, share * np.log2(share), 0.0).sum(axis=1)
    return share.max(axis=1), 1 - entropy / np.log2(k) if k > 1 else np.ones(len(codes))


def accuracy_curves(
    distances: Float[np.ndarray, "n k"],
    codes: Integer[np.ndarray, "n k"],
    truth: Integer[np.ndarray, "n"],
    votes: Sequence[str] = VOTES,
    *,
    reliability: Float[np.ndarray, "n k"] | None = None,
    alpha: float = 2.0,
    gamma: float = 1.0,
    tau: float = 0.07,
) -> dict[str, np.ndarray]:
    """Accuracy for every k from 1 and every vote, from one list of neighbours.

    Parameters
    ----------
    distances, codes : arrays of shape (n, k)
    truth : array of shape (n,)
        The queries' classes; -1 for one that the memory does not know.
    votes : sequence of str
    reliability, alpha, gamma, tau : see :func:`vote_weights`

    Returns
    -------
    dict of vote -> array of shape (k,), shares in 0..1

    Raises
    ------
    InputError
        See :func:`vote_weights` and :func:`vote_curve`.

    Examples
    --------
    >>> curves = accuracy_curves(np.zeros((1, 3)), np.array([[0, 1, 1]]), np.array([1]))
    >>> curves["plurality"].tolist()
    [0.0, 0.0, 1.0]
    """
    found = {}
    for vote in votes:
        w = vote_weights(
            distances, vote, alpha=alpha, gamma=gamma, tau=tau, reliability=reliability
        )
        found[vote] = (vote_curve(codes, w) == np.asarray(truth)[:, None]).mean(axis=0)
    return found
