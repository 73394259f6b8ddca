"""What belief propagation is checked against: enumeration, and the full C x C message table."""

from __future__ import annotations

from itertools import product

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax, logsumexp

from practicum.data.graph import clean_edges
from practicum.errors import InputError

MAX_STATES = 1_000_000


def enumerate_marginals(
    log_phi: Float[np.ndarray, "n C"], edges: Int[np.ndarray, "e 2"], same: float, diff: float
) -> Float[np.ndarray, "n C"]:
    """Exact marginals of ``p(y) ~ prod_i phi_i(y_i) prod_(i,j) psi(y_i, y_j)``, by brute force.

    Parameters
    ----------
    log_phi : float, shape (n, C)
    edges : int, shape (e, 2)
    same, diff : float
        psi on the diagonal and off it.

    Raises
    ------
    InputError
        More than a million labellings.

    Examples
    --------
    >>> phi = np.log([[0.9, 0.1], [0.5, 0.5]])
    >>> enumerate_marginals(phi, np.array([[0, 1]]), 0.8, 0.2).round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    """
    n, n_classes = log_phi.shape
    if n_classes**n > MAX_STATES:
        raise InputError(f"{n_classes}^{n} labellings are too many to enumerate", "a smaller graph")
    states = np.array(list(product(range(n_classes), repeat=n)))
    score = log_phi[np.arange(n), states].sum(1)
    for i, j in clean_edges(edges, n, rows=True).edges:
        score = score + np.where(states[:, i] == states[:, j], np.log(same), np.log(diff))
    weight = np.exp(score - score.max())
    return (
        np.stack([np.bincount(states[:, i], weight, minlength=n_classes) for i in range(n)])
        / weight.sum()
    )


def table_propagation(
    log_phi: Float[np.ndarray, "n C"],
    edges: Int[np.ndarray, "e 2"],
    same: float,
    diff: float,
    *,
    n_iter: int = 5,
) -> Float[np.ndarray, "n C"]:
    """The same messages from the full table, in log space: O(E C^2), as published.

    Parameters
    ----------
    log_phi : float, shape (n, C)
    edges : int, shape (e, 2)
    same, diff : float
    n_iter : int

    Returns
    -------
    log-beliefs, shape (n, C)

    Raises
    ------
    InputError
        Edges that name no node.

    Examples
    --------
    >>> phi = np.log([[0.9, 0.1], [0.5, 0.5]])
    >>> np.exp(table_propagation(phi, np.array([[0, 1]]), 0.8, 0.2)).round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    """
    n, n_classes = log_phi.shape
    clean = clean_edges(edges, n, rows=True).edges
    source, target = np.concatenate([clean, clean[:, ::-1]]).T
    reverse = np.roll(np.arange(len(source)), len(clean))
    table = np.log(np.where(np.eye(n_classes, dtype=bool), same, diff))
    potentials = log_softmax(np.asarray(log_phi, dtype=np.float64), axis=1)
    beliefs, messages = potentials, np.zeros((len(source), n_classes))
    for _ in range(n_iter):
        cavity = beliefs[source] - messages[reverse]
        messages = log_softmax(logsumexp(cavity[:, :, None] + table, axis=1), axis=1)
        total = np.zeros((n, n_classes))
        np.add.at(total, target, messages)
        beliefs = log_softmax(potentials + total, axis=1)
    return beliefs


def random_tree(n: int, rng: np.random.Generator) -> Int[np.ndarray, "e 2"]:
    """Edges of a tree on n nodes: each node hangs on a random earlier one.

    Parameters
    ----------
    n : int
    rng : numpy Generator

    Raises
    ------
    InputError
        n is not positive.

    Examples
    --------
    >>> random_tree(4, np.random.default_rng(0)).shape
    (3, 2)
    """
    if n < 1:
        raise InputError(f"a tree of {n} nodes")
    later = np.arange(1, n)
    return np.stack([np.array([rng.integers(i) for i in later], dtype=np.int64), later], axis=1)
