"""A person's own loss log: which ways to cluster it agree with themselves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from practicum.data.table import read_table
from practicum.errors import InputError
from practicum.federated.fedgwc.experiments import loss_based
from practicum.federated.fedgwc.losses import LossLog, read_loss_log

MIN_ROUNDS = 20


def is_loss_log(path: str | Path) -> bool:
    """Whether a file means to be a loss log (columns ``round`` and ``loss``) or a data table.

    Raises
    ------
    InputError
        The file cannot be read as a table.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}).to_csv(path, index=False)
    >>> is_loss_log(path)
    False
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NaN losses are counted when it is read again
        return {"round", "loss"} <= set(read_table(path, numeric=False, missing="drop").columns)


# --- a loss log ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogComparison:
    """Loss-based groupings of one log: do two halves of its rounds agree?

    Parameters
    ----------
    path : str
    n_groups : int
    group : str, optional
        Column with each client's true group (default: ``group`` where there is one).

    Raises
    ------
    InputError
        The log is unusable, has fewer than 20 rounds, or a client is in two groups.

    Examples
    --------
    >>> import tempfile
    >>> rng, rows = np.random.default_rng(0), []
    >>> for t in range(80):
    ...     wave = rng.normal()
    ...     rows += [(t, c, 0, np.exp(wave if c < 3 else -wave)) for c in range(6)]
    >>> path = str(Path(tempfile.mkdtemp()) / "losses.csv")
    >>> frame = pd.DataFrame(rows, columns=["round", "client", "step", "loss"])
    >>> frame.to_csv(path, index=False)
    >>> LogComparison(path, 2).run("joint", 0, np.random.default_rng(0))["stability"]
    1.0
    """

    path: str
    n_groups: int = 2
    group: str | None = None

    def __post_init__(self) -> None:
        log, _ = _stored(self.path, self.group)
        if log.n_rounds < MIN_ROUNDS:
            raise InputError(
                f"{self.path}: {log.n_rounds} rounds; at least {MIN_ROUNDS} to compare halves"
            )
        if not 2 <= self.n_groups < log.n_clients:
            raise InputError(f"{self.path}: {self.n_groups} groups of {log.n_clients} clients")

    @property
    def has_truth(self) -> bool:
        """Whether true groups are known."""
        return _stored(self.path, self.group)[1] is not None

    def run(self, way: str, seed: int, rng: np.random.Generator) -> dict[str, Any]:
        """``stability``: agreement of the groups of two random halves of the rounds.

        With true groups also ``ari``, on a bootstrap sample of the rounds.
        """
        log, truth = _stored(self.path, self.group)
        order = rng.permutation(log.n_rounds)
        halves = [log.take(np.sort(part)) for part in np.array_split(order, 2)]
        again = log.take(np.sort(rng.integers(log.n_rounds, size=log.n_rounds)))
        grouping = loss_based(self.n_groups, seed)[way]
        cell: dict[str, Any] = {"stability": adjusted_rand_score(*map(grouping, halves))}
        if truth is not None:
            cell["ari"] = adjusted_rand_score(truth, grouping(again))
        return cell | {"labels": grouping(log)}


@lru_cache(maxsize=2)
def _stored(path: str, group: str | None) -> tuple[LossLog, np.ndarray | None]:
    log = read_loss_log(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        frame = read_table(path, numeric=False, missing="drop")
    column = group or ("group" if "group" in frame else None)
    return log, None if column is None else truth_of(frame, column, log.names, path)


def truth_of(frame: pd.DataFrame, column: str, names: list, path: str) -> np.ndarray:
    """The group of every client, in the order of ``names``, from a column beside ``client``.

    Raises
    ------
    InputError
        There is no such column, or a client is in two groups.

    Examples
    --------
    >>> frame = pd.DataFrame({"client": [1, 1, 2], "site": ["a", "a", "b"]})
    >>> truth_of(frame, "site", [2, 1], "my.csv").tolist()
    [0, 1]
    """
    if column not in frame:
        found = ", ".join(map(str, frame.columns))
        raise InputError(f"{path} has no column {column!r}", f"columns: {found}")
    kinds = frame.groupby("client")[column].nunique()
    if (kinds > 1).any():
        client = kinds.index[kinds > 1][0]
        raise InputError(f"{path}, column {column}: client {client} is in two groups")
    return pd.factorize(frame.groupby("client")[column].first().loc[names])[0]
