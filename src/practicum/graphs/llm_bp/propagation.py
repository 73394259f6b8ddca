"""Loopy belief propagation with one scalar coupling, in closed form: O(E C), not O(E C^2)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.special import log_softmax

from practicum.data.graph import clean_edges
from practicum.errors import InputError

COUPLINGS = ("odds", "uniform", "paper")
CHUNK = 1 << 16  # numbers of one temporary: what fits in a core's cache
HUB = 1000  # neighbours of a node that are warned of
MOVED, UNSETTLED = 0.1, 0.01  # a belief that moved, and the share of such nodes warned of
CLAMP = 1e-6  # probability left to the other classes of a labelled node


class Coupling(NamedTuple):
    """Edge potential psi(a, b): ``same`` where a = b, ``diff`` elsewhere."""

    same: float
    diff: float


def coupling_of(
    homophily: float, n_classes: int, mode: str = "odds", chance: float | None = None
) -> Coupling:
    """The edge potential for a share ``r`` of edges that join nodes of one class.

    ==========  =======================================  ==========================
    mode        (same, diff)                             neutral where
    ==========  =======================================  ==========================
    paper       (r, 1 - r)                               r = 1/2, whatever C is
    uniform     (r, (1 - r) / (C - 1))                   r = 1/C
    odds        (l, 1) / (1 + l), l = r/(1-r) (1-s)/s    r = s, chance agreement
    ==========  =======================================  ==========================

    With more than two classes ``paper`` repels linked nodes that agree far above chance: r = 0.35
    among 24 classes, say. ``s = sum_c pi_c^2`` is how often two nodes drawn at random agree.

    Parameters
    ----------
    homophily : float
        r in (0, 1).
    n_classes : int
        C, at least 2.
    mode : {"odds", "uniform", "paper"}
    chance : float, optional
        s in (0, 1); needed for ``odds``. The odds ratio is clipped to [0.02, 200].

    Raises
    ------
    InputError
        r outside [0, 1], an unknown mode, or ``odds`` without a chance.

    Warns
    -----
    UserWarning
        r is 0 or 1, which would forbid something for good: 0.01 or 0.99 is used.

    Examples
    --------
    >>> coupling_of(0.35, 24, "paper")  # repels
    Coupling(same=0.35, diff=0.65)
    >>> same, diff = coupling_of(0.35, 24, "uniform")  # attracts
    >>> round(same / diff, 1)
    12.4
    >>> coupling_of(0.2, 5, "odds", chance=0.2)  # neutral
    Coupling(same=0.5, diff=0.5)
    """
    r = check_homophily(homophily)
    if n_classes < 2:
        raise InputError(f"{n_classes} classes; at least 2 are needed")
    if mode not in COUPLINGS:
        raise InputError(f"coupling {mode!r} is not known", ", ".join(COUPLINGS))
    if mode == "paper":
        return Coupling(r, 1 - r)
    if mode == "uniform":
        return Coupling(r, (1 - r) / (n_classes - 1))
    if chance is None or not 0 < chance <= 1:
        raise InputError(f"chance agreement is {chance}", "coupling='odds' needs it in (0, 1)")
    chance = min(chance, 1 - 1e-9)  # one class alone: every pair agrees
    odds = float(np.clip(r / (1 - r) * (1 - chance) / chance, 0.02, 200))
    return Coupling(odds / (1 + odds), 1 / (1 + odds))


def check_homophily(homophily: float) -> float:
    """r inside (0, 1), clipped to [0.01, 0.99] where it is 0 or 1.

    Parameters
    ----------
    homophily : float

    Raises
    ------
    InputError
        Outside [0, 1] or not a number.

    Examples
    --------
    >>> check_homophily(0.3)
    0.3
    """
    r = float(homophily)
    if not 0 <= r <= 1:
        raise InputError(f"homophily is {r:g}", "the share of edges within a class, from 0 to 1")
    if r in (0.0, 1.0):
        warnings.warn(
            f"homophily {r:g} would make some labellings impossible; "
            f"{np.clip(r, 0.01, 0.99):g} is used",
            UserWarning,
            stacklevel=3,
        )
    return float(np.clip(r, 0.01, 0.99)) if r in (0.0, 1.0) else r


@dataclass(frozen=True)
class Beliefs:
    """Marginals of every node and how the messages ended.

    Attributes
    ----------
    log_beliefs : float, shape (n, C)
        Normalised: ``exp`` of a row sums to 1.
    moving : float
        Share of nodes with a belief that changed by more than 0.1 in the last round.
    rounds : int
    """

    log_beliefs: np.ndarray
    moving: float
    rounds: int

    @property
    def probabilities(self) -> Float[np.ndarray, "n C"]:
        """Rows sum to 1."""
        return np.exp(self.log_beliefs)


def belief_propagation(
    log_phi: Float[np.ndarray, "n C"],
    edges: Int[np.ndarray, "e 2"],
    same: float,
    diff: float,
    *,
    n_iter: int = 5,
    damping: float = 0.0,
    edge_weight: Float[np.ndarray, " e"] | None = None,
    clamp: Int[np.ndarray, " n"] | None = None,
) -> Beliefs:
    """Sum-product messages on the graph, all at once, ``n_iter`` rounds.

    With the cavity distribution ``u`` of node i without j (its belief divided by the last message
    of j, normalised), the message over an edge whose potential has one value on the diagonal and
    one off it is, exactly,

        m_{i->j}(c) = (diff + (same - diff) u(c)) / (C diff + same - diff),

    so no C x C table is formed. Beliefs are summed in log space:
    ``log b_j = log phi_j + sum_i w_ij log m_{i->j}``. On a tree the result is exact once messages
    have crossed it.

    Parameters
    ----------
    log_phi : float, shape (n, C)
        Log-potentials of the nodes, up to a constant a row. float32 is computed as float32.
    edges : int, shape (e, 2)
        Undirected; in any order or orientation, repetitions and loops are dropped.
    same, diff : float
        The edge potential, positive: see :func:`coupling_of`.
    n_iter : int
        Rounds.
    damping : float in [0, 1)
        Share of the old message that is kept.
    edge_weight : float, shape (e,), optional
        Exponent of each edge's messages; 1 by default.
    clamp : int, shape (n,), optional
        Known class of a node, -1 where unknown: its potential is that class but for one in a
        million.

    Returns
    -------
    Beliefs

    Raises
    ------
    InputError
        Shapes that disagree, NaN or infinite potentials, or a parameter out of range.

    Warns
    -----
    UserWarning
        A node has more than 1000 neighbours (products of so many messages saturate), or more than
        one node in a hundred has not settled: a belief moved by more than 0.1 in the last round.

    Examples
    --------
    >>> phi = np.log([[0.9, 0.1], [0.5, 0.5]])
    >>> belief_propagation(phi, np.array([[0, 1]]), 0.8, 0.2).probabilities.round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    """
    potentials = _potentials(log_phi, clamp)
    n = len(potentials)
    if not (0 < same < np.inf and 0 < diff < np.inf):
        raise InputError(f"edge potentials {same} and {diff}; both must be positive")
    if n_iter < 0 or not 0 <= damping < 1:
        raise InputError(f"n_iter {n_iter}, damping {damping}; at least 0, and in [0, 1)")
    links = clean_edges(edges, n, edge_weight, rows=True)
    if not len(links.edges) or n_iter == 0:
        return Beliefs(potentials, 0.0, 0)
    _warn_of_hubs(links.edges, n)
    log_beliefs, moving = _rounds(
        potentials, links.edges, links.weights, same, diff, n_iter, damping
    )
    if moving > UNSETTLED:
        warnings.warn(
            f"{moving:.1%} of the nodes had not settled in round {n_iter} (a belief moved by more "
            f"than {MOVED}); try damping=0.5 or more rounds",
            UserWarning,
            stacklevel=2,
        )
    return Beliefs(log_beliefs, moving, n_iter)


def _potentials(log_phi: np.ndarray, clamp: np.ndarray | None) -> np.ndarray:
    array = np.asarray(log_phi)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(f"potentials have shape {array.shape}", "(nodes, classes) is expected")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).any(1).argmax())
        raise InputError(f"potentials of node {bad} are not finite", "log of 0? add a little")
    potentials = log_softmax(array, axis=1)
    if clamp is not None:
        if len(clamp) != len(array) or np.max(clamp, initial=-1) >= array.shape[1]:
            raise InputError("clamp needs one class number a node, -1 where unknown")
        known = np.flatnonzero(np.asarray(clamp) >= 0)
        potentials[known] = np.log(CLAMP / (array.shape[1] - 1))
        potentials[known, np.asarray(clamp)[known]] = np.log1p(-CLAMP)
    return potentials


def _warn_of_hubs(edges: np.ndarray, n: int) -> None:
    degrees = np.bincount(edges.ravel(), minlength=n)
    if degrees.max() > HUB:
        warnings.warn(
            f"{(degrees > HUB).sum()} nodes have more than {HUB} neighbours (the largest "
            f"{degrees.max():,}): so many messages saturate a belief; max_degree leaves them out",
            UserWarning,
            stacklevel=3,
        )


def _rounds(
    potentials: np.ndarray,
    edges: np.ndarray,
    weights: np.ndarray | None,
    same: float,
    diff: float,
    n_iter: int,
    damping: float,
) -> tuple[np.ndarray, float]:
    """Messages of both directions lie in one array: row k goes from low to high, k + e back."""
    (n, n_classes), n_edges = potentials.shape, len(edges)
    kind = potentials.dtype
    ends = edges.T.ravel()  # row k of messages comes from ends[k] ...
    into = np.concatenate([edges[:, 1], edges[:, 0]])  # ... and goes to into[k]
    strength = np.ones(2 * n_edges, kind)
    if weights is not None:
        strength = np.tile(weights.astype(kind), 2)
    gather = csr_array((strength, (into, np.arange(2 * n_edges))), shape=(n, 2 * n_edges))
    old = np.full((2 * n_edges, n_classes), 1 / n_classes, kind)
    new, logs = np.empty_like(old), np.empty_like(old)
    log_beliefs = potentials
    for _ in range(n_iter):
        beliefs = np.exp(log_beliefs - log_beliefs.max(1, keepdims=True))
        _send(beliefs, ends, old, weights, (same, diff, damping), new, logs)
        before = log_beliefs
        log_beliefs = log_softmax(potentials + gather @ logs, axis=1)
        old, new = new, old
    change = np.abs(np.exp(log_beliefs) - np.exp(before)).max(1)
    return log_beliefs, float((change > MOVED).mean())


def _send(
    beliefs: np.ndarray,
    ends: np.ndarray,
    old: np.ndarray,
    weights: np.ndarray | None,
    setting: tuple[float, float, float],
    new: np.ndarray,
    logs: np.ndarray,
) -> None:
    """Fill ``new`` with the next messages and ``logs`` with their logarithms, block by block.

    Dividing probabilities rather than subtracting logarithms is safe: a message is at least
    min(same, diff) of the largest, and what underflows in a belief adds nothing to a message.
    """
    same, diff, damping = setting
    n_edges, n_classes = len(old) // 2, old.shape[1]
    scale = 1 / (n_classes * diff + same - diff)
    gain, floor = (same - diff) * scale, diff * scale
    block = max(1, CHUNK // n_classes)
    for start in range(0, n_edges, block):
        stop = min(start + block, n_edges)
        for this, back in ((0, n_edges), (n_edges, 0)):
            rows, reverse = slice(start + this, stop + this), slice(start + back, stop + back)
            cavity = beliefs[ends[rows]]
            if weights is None:
                cavity /= old[reverse]
            else:
                cavity /= old[reverse] ** weights[start:stop, None].astype(old.dtype)
            out = new[rows]
            np.multiply(cavity, gain / cavity.sum(1, keepdims=True), out=out)
            out += floor
            if damping:
                out *= 1 - damping
                out += damping * old[rows]
            np.log(out, out=logs[rows])


def approximate_propagation(
    phi: Float[np.ndarray, "n C"],
    edges: Int[np.ndarray, "e 2"],
    weight: float = 0.5,
    *,
    average: bool = False,
) -> Float[np.ndarray, "n C"]:
    """One linear step: ``b_i = phi_i + w sum_j phi_j`` over the neighbours j.

    The published short cut; w is negative on heterophilic graphs. It is the first term of
    ``log m = log(1-r) + log(1 + (2r-1)/(1-r) u)``.

    Parameters
    ----------
    phi : float, shape (n, C)
        Class probabilities.
    edges : int, shape (e, 2)
        Undirected, any order.
    weight : float
        w.
    average : bool
        Mean instead of sum over neighbours (the published code does both, in different scripts).

    Returns
    -------
    scores, shape (n, C): not probabilities; the largest in a row is the prediction.

    Raises
    ------
    InputError
        Edges that name no node.

    Examples
    --------
    >>> phi = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> approximate_propagation(phi, np.array([[0, 1]])).tolist()
    [[1.15, 0.35], [0.95, 0.55]]
    """
    return phi + weight * neighbour_sum(phi, edges, average=average)


def neighbour_sum(
    x: Float[np.ndarray, "n d"], edges: Int[np.ndarray, "e 2"], *, average: bool = False
) -> Float[np.ndarray, "n d"]:
    """Sum (or mean) of the neighbours' rows; zero for a node without neighbours.

    Parameters
    ----------
    x : float, shape (n, d)
    edges : int, shape (e, 2)
        Undirected, any order.
    average : bool

    Raises
    ------
    InputError
        Edges that name no node.

    Examples
    --------
    >>> neighbour_sum(np.array([[1.0], [2.0], [4.0]]), np.array([[0, 1], [1, 2]])).tolist()
    [[2.0], [5.0], [2.0]]
    """
    matrix = adjacency(clean_edges(edges, len(x), rows=True).edges, len(x), x.dtype)
    total = matrix @ x
    if average:
        total /= np.maximum(matrix.sum(1), 1)[:, None]
    return total


def adjacency(
    edges: Int[np.ndarray, "e 2"], n: int, dtype: np.typing.DTypeLike = np.float64
) -> csr_array:
    """The symmetric adjacency matrix of clean edges.

    Parameters
    ----------
    edges : int, shape (e, 2)
        Every undirected edge once.
    n : int
        Nodes.
    dtype : of its ones

    Raises
    ------
    ValueError
        An edge names a node beyond n.

    Examples
    --------
    >>> adjacency(np.array([[0, 1]]), 2).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
    return csr_array((np.ones(len(rows), dtype), (rows, columns)), shape=(n, n))
