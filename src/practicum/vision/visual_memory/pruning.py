"""Hygiene of a memory: which rows mislead their neighbours, and what is done about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory import hygiene
from practicum.vision.visual_memory.table import Labels, Table

if TYPE_CHECKING:
    import pandas as pd


def vote_counts(table: Table, slots: np.ndarray, truth: np.ndarray) -> pd.DataFrame:
    """How often each living row was a neighbour of a query of another class, and of its own.

    Parameters
    ----------
    table : Table
    slots : array of shape (n, k)
        Neighbours of n queries.
    truth : array of shape (n,)
        The queries' classes, as codes of the table; -1 for one that is not there.

    Returns
    -------
    pandas.DataFrame with columns id, label, wrong, correct, soft_weight; in order of rows

    Raises
    ------
    InputError
        The shapes differ.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0])), Row("rex", "dog", np.float32([0, 1]))])
    >>> vote_counts(table, np.array([[0, 1]]), np.array([0]))["wrong"].tolist()
    [0, 1]
    """
    import pandas as pd

    right = table.codes[slots] == truth[:, None]
    wrong, correct = hygiene.count_votes(slots, right, len(table.ids))
    at = table.living
    return pd.DataFrame(
        {
            "id": [table.ids[i] for i in at],
            "label": [table.labels[i] for i in at],
            "wrong": wrong[at],
            "correct": correct[at],
            "soft_weight": hygiene.soft_weights(wrong[at]),
        }
    )


def misleading(counts: pd.DataFrame, rule: str, threshold: float | None) -> np.ndarray:
    """Which rows hard pruning takes out.

    Parameters
    ----------
    counts : DataFrame
        See :func:`vote_counts`.
    rule : {"balance", "wrong"}
    threshold : float, optional
        1 and 128 by default.

    Raises
    ------
    InputError
        An unknown rule.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame({"wrong": [0, 3], "correct": [1, 1]})
    >>> misleading(counts, "balance", None).tolist()
    [False, True]
    """
    if rule == "balance":
        limit = 1 if threshold is None else threshold
        return (counts["wrong"] - counts["correct"] >= limit).to_numpy()
    if rule == "wrong":
        limit = 128 if threshold is None else threshold
        return (counts["wrong"] >= limit).to_numpy()
    raise InputError(f"rule={rule!r}", 'use "balance" or "wrong"')


def lowest(table: Table, column: str | Labels, share: float) -> np.ndarray:
    """Which living rows are the lowest share by a score.

    Parameters
    ----------
    table : Table
    column : str or sequence
        ``weight``, or a score for each living row in their order.
    share : float

    Raises
    ------
    InputError
        An unknown column, a share out of range, or scores that do not fit the rows.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0])), Row("rex", "dog", np.float32([0, 1]))])
    >>> lowest(table, [2.0, 1.0], 0.5).tolist()
    [False, True]
    """
    if not 0 < share < 1:
        raise InputError(f"threshold={share}: expected a share between 0 and 1")
    n = len(table.living)
    if isinstance(column, str):
        if column != "weight":
            raise InputError(f"there is no column {column!r} of scores", "weight, or an array")
        scores = table.weight[table.living]
    else:
        scores = np.asarray(column, dtype=float)
    if scores.shape != (n,) or not np.isfinite(scores).all():
        raise InputError(f"scores of shape {scores.shape}, expected {(n,)} finite numbers")
    goes = np.zeros(n, dtype=bool)
    goes[np.argsort(scores, kind="stable")[: int(share * n)]] = True
    return goes
