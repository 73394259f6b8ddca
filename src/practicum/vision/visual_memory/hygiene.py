"""Which rows cause mistakes, which queries are strange, how error falls with memory.

Geirhos et al. 2025, sections on memory pruning, reliability and scaling, as in their notebooks.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Integer

from practicum.errors import InputError


def without_self(
    indices: Integer[np.ndarray, "n k1"], distances: Float[np.ndarray, "n k1"], own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours of a memory's own rows, the row itself left out by its number, not by distance.

    Duplicates of a row stay neighbours. Where more than k duplicates push the row itself off the
    list, the last neighbour is left out instead.

    Parameters
    ----------
    indices, distances : arrays of shape (n, k + 1)
    own : array of shape (n,)
        The number of the row that asked.

    Returns
    -------
    indices, distances : arrays of shape (n, k)

    Raises
    ------
    InputError
        There is no neighbour to leave out.

    Examples
    --------
    >>> without_self(np.array([[3, 0, 5]]), np.zeros((1, 3)), np.array([0]))[0].tolist()
    [[3, 5]]
    """
    if indices.ndim != 2 or indices.shape[1] < 2:
        raise InputError("leave-one-out needs at least two rows")
    keep = indices != np.asarray(own)[:, None]
    keep[keep.all(axis=1), -1] = False
    shape = len(indices), indices.shape[1] - 1
    return indices[keep].reshape(shape), distances[keep].reshape(shape)


def count_votes(
    indices: Integer[np.ndarray, "n k"],
    right: Bool[np.ndarray, "n k"],
    m: int,
) -> tuple[np.ndarray, np.ndarray]:
    """How often each row was among the neighbours of a query of another class, and of its own.

    Parameters
    ----------
    indices : array of shape (n, k)
        Rows, 0 to m - 1.
    right : array of bool (n, k)
        The row's class is the query's.
    m : int
        Rows of the memory.

    Returns
    -------
    wrong, correct : arrays of shape (m,), counts

    Raises
    ------
    InputError
        The shapes differ.

    Examples
    --------
    >>> wrong, correct = count_votes(np.array([[0, 1]]), np.array([[True, False]]), 2)
    >>> wrong.tolist(), correct.tolist()
    ([0, 1], [1, 0])
    """
    if indices.shape != right.shape:
        raise InputError(f"neighbours of shape {indices.shape}, verdicts of {right.shape}")
    wrong = np.bincount(indices[~right], minlength=m)
    return wrong, np.bincount(indices[right], minlength=m)


def soft_weights(wrong: Integer[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
    """``s_i = 1.75 / (1 + wrong_i)``, and 1 for rows that were never wrong.

    Parameters
    ----------
    wrong : array of shape (m,)
        Counts; see :func:`count_votes`.

    Raises
    ------
    InputError
        A count is negative.

    Examples
    --------
    >>> soft_weights(np.array([0, 1, 2, 3, 10])).round(4).tolist()
    [1.0, 0.875, 0.5833, 0.4375, 0.1591]
    """
    wrong = np.asarray(wrong)
    if (wrong < 0).any():
        raise InputError("counts are 0 or more")
    return np.where(wrong == 0, 1.0, 1.75 / (1.0 + wrong))


def rank_accuracy(
    codes: Integer[np.ndarray, "n k"], truth: Integer[np.ndarray, "n"]
) -> Float[np.ndarray, "k"]:
    """``a_k``: the share of queries whose k-th neighbour alone has their class.

    Parameters
    ----------
    codes : array of shape (n, k)
    truth : array of shape (n,)

    Raises
    ------
    InputError
        There is no query.

    Examples
    --------
    >>> rank_accuracy(np.array([[1, 0], [1, 1]]), np.array([1, 1])).tolist()
    [1.0, 0.5]
    """
    if not len(codes):
        raise InputError("no queries")
    return (codes == np.asarray(truth)[:, None]).mean(axis=0)


def log_fit(accuracy: Float[np.ndarray, "k"]) -> tuple[float, float]:
    """``a_k = a ln k + b`` by least squares, k from 1.

    Parameters
    ----------
    accuracy : array of shape (k,)
        At least two values.

    Returns
    -------
    a, b : float

    Raises
    ------
    InputError
        Fewer than two values.

    Examples
    --------
    >>> k = np.arange(1, 51)
    >>> [round(x, 6) for x in log_fit(0.9 - 0.05 * np.log(k))]
    [-0.05, 0.9]
    """
    if len(accuracy) < 2:
        raise InputError("a line needs at least two points")
    a, b = np.polyfit(np.log(np.arange(1, len(accuracy) + 1)), accuracy, 1)
    return float(a), float(b)


def scaling_fit(
    sizes: Integer[np.ndarray, "s"], error: Float[np.ndarray, "s"]
) -> tuple[float, float]:
    """A straight line of log10(error) on log10(log10 N), the paper's axes.

    Parameters
    ----------
    sizes : array of shape (s,)
        Rows of the memory, 2 or more.
    error : array of shape (s,)
        Shares above 0.

    Returns
    -------
    slope, intercept : float

    Raises
    ------
    InputError
        Fewer than two sizes, or numbers without a logarithm.

    Examples
    --------
    >>> n = np.array([10, 100, 1000])
    >>> [round(x, 6) for x in scaling_fit(n, 0.5 / np.log10(n))]
    [-1.0, -0.30103]
    """
    sizes, error = np.asarray(sizes, dtype=float), np.asarray(error, dtype=float)
    if len(sizes) < 2 or (sizes < 2).any() or (error <= 0).any():
        raise InputError("sizes of 2 or more and errors above 0, at least two of each, are needed")
    slope, intercept = np.polyfit(np.log10(np.log10(sizes)), np.log10(error), 1)
    return float(slope), float(intercept)


def strangeness(distances: Float[np.ndarray, "n k"], stat: str = "mean") -> Float[np.ndarray, "n"]:
    """Out-of-distribution score: mean or median distance to the first neighbours.

    Parameters
    ----------
    distances : array of shape (n, k)
        Cosine distances, 0..2.
    stat : {"mean", "median"}

    Returns
    -------
    array of shape (n,): larger is stranger

    Raises
    ------
    InputError
        Another statistic is asked for.

    Examples
    --------
    >>> strangeness(np.array([[0.1, 0.3]])).tolist()
    [0.2]
    """
    if stat not in ("mean", "median"):
        raise InputError(f"stat={stat!r}", 'use "mean" or "median"')
    return getattr(np, stat)(distances, axis=1)
