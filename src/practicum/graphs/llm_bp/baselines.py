"""What people do on such graphs today: average neighbours, spread labels, fit a linear model.

All return scores of shape (n, K); the largest in a row is the prediction. They see what belief
propagation sees: embeddings, edges, and the classes of a few nodes (labelled, or annotated).
"""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array, eye_array

from practicum.errors import InputError
from practicum.graphs.llm_bp.propagation import adjacency, neighbour_sum
from practicum.models.embed import unit_rows


def average_neighbours(
    x: Float[np.ndarray, "n d"], edges: Int[np.ndarray, "e 2"]
) -> Float[np.ndarray, "n d"]:
    """``normalise(x_i + mean of the neighbours' x)``: the usual first step on a graph.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    edges : int, shape (e, 2)

    Raises
    ------
    InputError
        Edges that name no node, or a row and its neighbours that cancel.

    Examples
    --------
    >>> average_neighbours(np.eye(2), np.array([[0, 1]])).round(2).tolist()
    [[0.71, 0.71], [0.71, 0.71]]
    """
    return unit_rows(x + neighbour_sum(x, edges, average=True), "averaged embeddings")


def normalised_adjacency(edges: Int[np.ndarray, "e 2"], n: int, *, loops: bool = True) -> csr_array:
    """``D^-1/2 (A + I) D^-1/2``, as graph convolutions use it.

    Parameters
    ----------
    edges : int, shape (e, 2)
        Every undirected edge once.
    n : int
    loops : bool
        Add I.

    Raises
    ------
    ValueError
        An edge names a node beyond n.

    Examples
    --------
    >>> normalised_adjacency(np.array([[0, 1]]), 2).toarray().round(2).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    matrix = adjacency(edges, n)
    if loops:
        matrix = matrix + eye_array(n, format="csr")
    root = 1 / np.sqrt(np.maximum(matrix.sum(1), 1))
    return csr_array(matrix.multiply(root[:, None]).multiply(root[None, :]))


def label_propagation(
    shown: Int[np.ndarray, " n"],
    edges: Int[np.ndarray, "e 2"],
    fallback: Float[np.ndarray, "n K"],
    *,
    n_iter: int = 50,
) -> Float[np.ndarray, "n K"]:
    """Known classes flow along edges and stay put where they are known (Zhu & Ghahramani 2002).

    Nodes that no known one reaches keep ``fallback``.

    Parameters
    ----------
    shown : int, shape (n,)
        Column of a known class, negative elsewhere.
    edges : int, shape (e, 2)
        Every undirected edge once.
    fallback : float, shape (n, K)
        Scores that do not see the graph.
    n_iter : int

    Raises
    ------
    InputError
        No class is known.

    Examples
    --------
    >>> shown, edges = np.array([0, -1, -1]), np.array([[0, 1]])
    >>> label_propagation(shown, edges, np.tile([0.3, 0.7], (3, 1))).argmax(1).tolist()
    [0, 0, 1]
    """
    known = np.flatnonzero(shown >= 0)
    if not len(known):
        raise InputError("no node has a known class", "label a few, or annotate a sample")
    truth = np.zeros_like(fallback)
    truth[known, shown[known]] = 1
    walk = adjacency(edges, len(shown))
    degrees = np.maximum(walk.sum(1), 1)[:, None]
    scores = truth.copy()
    for _ in range(n_iter):
        scores = walk @ scores / degrees
        scores[known] = truth[known]
    return _or_fallback(scores, fallback)


def label_spreading(
    shown: Int[np.ndarray, " n"],
    edges: Int[np.ndarray, "e 2"],
    fallback: Float[np.ndarray, "n K"],
    *,
    alpha: float = 0.8,
    n_iter: int = 50,
) -> Float[np.ndarray, "n K"]:
    """scikit-learn's ``LabelSpreading`` (Zhou et al. 2004) with the graph as its kernel.

    Parameters
    ----------
    shown, edges, fallback : as in :func:`label_propagation`
    alpha : float in (0, 1)
        How much a node listens to its neighbours rather than to what it was.
    n_iter : int

    Raises
    ------
    InputError
        No class is known.

    Examples
    --------
    >>> shown, edges = np.array([0, -1, 1]), np.array([[0, 1]])
    >>> label_spreading(shown, edges, np.tile([0.3, 0.7], (3, 1))).argmax(1).tolist()
    [0, 0, 1]
    """
    from sklearn.semi_supervised import LabelSpreading

    known = np.unique(shown[shown >= 0])
    if not len(known):
        raise InputError("no node has a known class", "label a few, or annotate a sample")
    # scikit-learn 1.7 puts its Laplacian's diagonal in by COO indices
    kernel = coo_array(adjacency(edges, len(shown)))
    model = LabelSpreading(kernel=lambda a, b: kernel, alpha=alpha, max_iter=n_iter)
    with warnings.catch_warnings():
        # isolated nodes have no distribution, and rounds are bounded on purpose
        warnings.simplefilter("ignore")
        model.fit(np.arange(len(shown))[:, None], shown)
    scores = np.zeros_like(fallback)
    scores[:, known] = np.nan_to_num(model.label_distributions_)
    return _or_fallback(scores, fallback)


def personalised_propagation(
    phi: Float[np.ndarray, "n K"],
    edges: Int[np.ndarray, "e 2"],
    *,
    teleport: float = 0.2,
    n_iter: int = 10,
) -> Float[np.ndarray, "n K"]:
    """``Z <- (1 - a) A Z + a phi``: APPNP's propagation (Gasteiger et al. 2019) of class guesses.

    Parameters
    ----------
    phi : float, shape (n, K)
        Class probabilities.
    edges : int, shape (e, 2)
        Every undirected edge once.
    teleport : float in (0, 1]
        a.
    n_iter : int

    Raises
    ------
    InputError
        a outside (0, 1].

    Examples
    --------
    >>> phi = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> personalised_propagation(phi, np.array([[0, 1]])).argmax(1).tolist()
    [0, 0]
    """
    if not 0 < teleport <= 1:
        raise InputError(f"teleport is {teleport}; it lies in (0, 1]")
    matrix, z = normalised_adjacency(edges, len(phi)), phi
    for _ in range(n_iter):
        z = (1 - teleport) * (matrix @ z) + teleport * phi
    return z


def simple_graph_convolution(
    x: Float[np.ndarray, "n d"],
    edges: Int[np.ndarray, "e 2"],
    shown: Int[np.ndarray, " n"],
    n_classes: int,
    *,
    hops: int = 2,
    strength: float = 1.0,
) -> Float[np.ndarray, "n K"]:
    """SGC (Wu et al. 2019): logistic regression on features smoothed ``hops`` times.

    Parameters
    ----------
    x : float, shape (n, d)
        Unit rows.
    edges : int, shape (e, 2)
        Every undirected edge once.
    shown : int, shape (n,)
        Column of a known class, negative elsewhere.
    n_classes : int
        K.
    hops : int
        0 sees the text alone.
    strength : float
        Inverse regularisation (scikit-learn's C).

    Raises
    ------
    InputError
        Fewer than two known classes.

    Examples
    --------
    >>> shown = np.array([0, 1, -1])
    >>> simple_graph_convolution(np.eye(3), np.array([[0, 2]]), shown, 2).argmax(1).tolist()
    [0, 1, 0]
    """
    from sklearn.linear_model import LogisticRegression

    known = np.flatnonzero(shown >= 0)
    if len(np.unique(shown[known])) < 2:
        raise InputError("a classifier needs known nodes of two classes at least")
    matrix, smooth = normalised_adjacency(edges, len(x)), x.astype(np.float64)
    for _ in range(hops):
        smooth = matrix @ smooth
    smooth = unit_rows(smooth, "smoothed embeddings")
    model = LogisticRegression(C=strength, max_iter=300).fit(smooth[known], shown[known])
    scores = np.zeros((len(x), n_classes))
    scores[:, model.classes_] = model.predict_proba(smooth)
    return scores


def _or_fallback(scores: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Normalised scores, or those that do not see the graph where nothing arrived."""
    total = scores.sum(1, keepdims=True)
    return np.where(total > 1e-12, scores / np.maximum(total, 1e-12), fallback)
