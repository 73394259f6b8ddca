"""Scores of a client clustering by class imbalance: the Wasserstein Adjusted Score and its kin.

They need only how often each client holds each class - no features, no true groups.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Real
from scipy.spatial.distance import cdist
from sklearn.metrics import davies_bouldin_score, silhouette_score

from practicum.errors import InputError


def imbalance_distances(
    class_counts: Real[np.ndarray, "K C"], *, ranked: bool = True
) -> Float[np.ndarray, "K K"]:
    r"""Distance of clients by their class frequencies.

    With the frequencies of each client sorted in descending order, :math:`x_{(1)} \ge \dots \ge
    x_{(C)}`,

    .. math:: d(k, j) = \Big(\frac{1}{C} \sum_i \big(x^k_{(i)} - x^j_{(i)}\big)^2\Big)^{1/2},

    the 2-Wasserstein distance between the two lists of frequencies. Because of the sorting,
    "only class 0" and "only class 7" are the same: the degree of imbalance counts, not the classes.

    Parameters
    ----------
    class_counts : array, shape (K, C)
        Counts or frequencies, one row a client.
    ranked : bool
        False: compare class by class instead, so that *which* classes a client holds counts too.

    Returns
    -------
    array, shape (K, K)

    Raises
    ------
    InputError
        Not a table of one row a client, negative or non-finite counts, or a client without data.

    Examples
    --------
    >>> imbalance_distances(np.array([[7, 2, 1], [34, 33, 33]]))[0, 1].round(6)
    np.float64(0.257811)
    """
    x = _frequencies(class_counts, ranked)
    return cdist(x, x) / math.sqrt(x.shape[1])


def wasserstein_adjusted_silhouette(
    class_counts: Real[np.ndarray, "K C"], labels: Int[np.ndarray, " K"], *, ranked: bool = True
) -> float:
    """Wasserstein Adjusted Score: silhouette with the distance of :func:`imbalance_distances`.

    From -1 to 1; high where clients of one cluster are imbalanced to the same degree. Source:
    Licciardi et al. 2025, section 4.

    Parameters
    ----------
    class_counts : array, shape (K, C)
        Samples of each class that each client holds (counts or frequencies).
    labels : int array, shape (K,)
        Cluster of each client.
    ranked : bool
        False grades which classes clients hold, not only how unevenly.

    Returns
    -------
    float; nan where it is undefined

    Raises
    ------
    InputError
        Unusable counts, or not one label a client.

    Warns
    -----
    UserWarning
        One cluster, or as many as clients: the score is undefined and nan is returned.

    Examples
    --------
    >>> frequencies = np.array([[.7, .2, .1], [.1, .7, .2], [.2, .1, .7],
    ...                         [.34, .33, .33], [.33, .34, .33], [.4, .3, .3]])
    >>> labels = np.array([0, 0, 0, 1, 1, 1])
    >>> round(wasserstein_adjusted_silhouette(frequencies, labels), 5)
    0.93984
    >>> round(wasserstein_adjusted_silhouette(frequencies, labels, ranked=False), 6)
    0.225962
    """
    distances = imbalance_distances(class_counts, ranked=ranked)
    if _undefined(labels, len(distances)):
        return math.nan
    return float(silhouette_score(distances, labels, metric="precomputed"))


def wasserstein_adjusted_davies_bouldin(
    class_counts: Real[np.ndarray, "K C"], labels: Int[np.ndarray, " K"], *, ranked: bool = True
) -> float:
    """Davies-Bouldin score of the sorted class frequencies; lower is better.

    Parameters
    ----------
    class_counts, labels, ranked
        As for :func:`wasserstein_adjusted_silhouette`.

    Returns
    -------
    float; nan where it is undefined

    Raises
    ------
    InputError
        Unusable counts, or not one label a client.

    Warns
    -----
    UserWarning
        One cluster, or as many as clients: nan is returned.

    Examples
    --------
    >>> frequencies = np.array([[.7, .2, .1], [.1, .7, .2], [.2, .1, .7],
    ...                         [.34, .33, .33], [.33, .34, .33], [.4, .3, .3]])
    >>> round(wasserstein_adjusted_davies_bouldin(frequencies, np.array([0, 0, 0, 1, 1, 1])), 6)
    0.077324
    """
    x = _frequencies(class_counts, ranked)
    if _undefined(labels, len(x)):
        return math.nan
    return float(davies_bouldin_score(x, labels))


def _frequencies(class_counts: np.ndarray, ranked: bool) -> np.ndarray:
    counts = np.asarray(class_counts, dtype=float)
    if counts.ndim != 2 or 0 in counts.shape:
        raise InputError(
            f"class counts of shape {counts.shape}", "one row a client, one column a class expected"
        )
    bad = ~np.isfinite(counts).all(1) | (counts < 0).any(1)
    if bad.any():
        raise InputError(
            f"the class counts of the clients at rows {np.flatnonzero(bad)[:5].tolist()} are "
            "negative or not finite"
        )
    totals = counts.sum(1)
    if (totals == 0).any():
        raise InputError(
            f"the clients at rows {np.flatnonzero(totals == 0)[:5].tolist()} hold no sample of any "
            "class",
            "leave clients without data out",
        )
    frequencies = counts / totals[:, None]
    return -np.sort(-frequencies, axis=1) if ranked else frequencies


def _undefined(labels: np.ndarray, n_clients: int) -> bool:
    if np.shape(labels) != (n_clients,):
        raise InputError(
            f"{len(labels)} labels for {n_clients} clients", "one label for each row of the counts"
        )
    n_clusters = len(np.unique(labels))
    if 2 <= n_clusters <= n_clients - 1:
        return False
    reason = "one cluster" if n_clusters == 1 else "every client is a cluster of its own"
    warnings.warn(f"{reason}: the score is undefined (nan)", UserWarning, stacklevel=3)
    return True


def read_class_counts(path: str | Path) -> tuple[Float[np.ndarray, "K C"], list]:
    """Class counts of a federation from a file ``client,class,count``.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, Parquet or JSON lines; pairs that do not occur count 0.

    Returns
    -------
    counts : array, shape (K, C)
    clients : list
        The clients, in the order of the rows.

    Raises
    ------
    InputError
        A column is missing, a (client, class) occurs twice, a count is negative, or a client has no
        sample.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "counts.csv"
    >>> frame = pd.DataFrame({"client": [0, 0, 1], "class": ["a", "b", "a"], "count": [5, 2, 3]})
    >>> frame.to_csv(path, index=False)
    >>> read_class_counts(path)[0].tolist()
    [[5.0, 2.0], [3.0, 0.0]]
    """
    from practicum.data.table import read_table

    frame = read_table(path, ["client", "class", "count"], numeric=False)
    if not pd.api.types.is_numeric_dtype(frame["count"]) or (frame["count"] < 0).any():
        raise InputError(f"{path}, column count: numbers of at least 0 expected")
    twice = frame.duplicated(["client", "class"])
    if twice.any():
        row = frame[twice].iloc[0]
        raise InputError(f"{path}: client {row['client']}, class {row['class']} occurs twice")
    wide = frame.pivot(index="client", columns="class", values="count").fillna(0)
    empty = wide.index[wide.sum(axis=1) == 0]
    if len(empty):
        named = ", ".join(map(str, empty[:5]))
        raise InputError(f"{path}: no sample of any class for {named}", "leave such clients out")
    return wide.to_numpy(dtype=float), wide.index.tolist()
