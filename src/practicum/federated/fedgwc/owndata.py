"""A person's own federation: a loss log to cluster, or a labelled table to train on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from practicum.data.clients import ClientData, Partition, PartitionKind, clients_of_rows, partition
from practicum.data.table import read_table
from practicum.errors import InputError
from practicum.federated.fedgwc.experiments import Settings, loss_based, measure, run_all
from practicum.federated.fedgwc.losses import LossLog, read_loss_log
from practicum.federated.fedgwc.training import LocalSGD

MIN_ROUNDS = 20
MAX_CLASSES = 50


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
    return log, None if column is None else _truth(frame, column, log.names, path)


def _truth(frame: pd.DataFrame, column: str, names: list, path: str) -> np.ndarray:
    """One group a client, or an error that names a client with two."""
    if column not in frame:
        found = ", ".join(map(str, frame.columns))
        raise InputError(f"{path} has no column {column!r}", f"columns: {found}")
    kinds = frame.groupby("client")[column].nunique()
    if (kinds > 1).any():
        client = kinds.index[kinds > 1][0]
        raise InputError(f"{path}, column {column}: client {client} is in two groups")
    return pd.factorize(frame.groupby("client")[column].first().loc[names])[0]


# --- a labelled table ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TableComparison:
    """Federated softmax regression on a labelled table, clustered in every way.

    Parameters
    ----------
    path : str
    label : str, optional
        Default: the last column.
    client : str, optional
        Who holds a row; without it rows are dealt out as ``scenario`` says.
    group : str, optional
        True group of each client (with ``client``).
    scenario : str
        A kind of :func:`~practicum.data.clients.partition`.
    clients, per_round, rounds, groups : int
    learning_rate : float

    Raises
    ------
    InputError
        Columns are missing, the label has too many or too few values, no column is numeric, or the
        table is too small for so many clients; the file is named.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    >>> frame["y"] = np.where(frame["a"] > 0, "up", "down")
    >>> path = str(Path(tempfile.mkdtemp()) / "t.csv")
    >>> frame.to_csv(path, index=False)
    >>> own = TableComparison(path, clients=6, per_round=3, rounds=8)
    >>> own.run(0)["fedavg"]["accuracy"] > 0.5
    True
    """

    path: str
    label: str | None = None
    client: str | None = None
    group: str | None = None
    scenario: str = "mixed"
    clients: int = 12
    per_round: int = 4
    rounds: int = 200
    groups: int = 2
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        if self.scenario not in get_args(PartitionKind):
            kinds = ", ".join(get_args(PartitionKind))
            raise InputError(f"no scenario {self.scenario!r}", f"there are {kinds}")
        if self.group and not self.client:
            raise InputError("true groups need a client column", "name it with client=")
        k = self.data(0).n_clients
        if not 3 <= self.per_round <= k or not 2 <= self.groups <= k or self.rounds < 8:
            raise InputError(
                f"{self.path}: {self.per_round} of {k} clients a round, {self.groups} groups, "
                f"{self.rounds} rounds",
                "at least 3 clients a round, 2 groups and 8 rounds, no more than there are clients",
            )

    @property
    def has_truth(self) -> bool:
        """Whether true groups are known: declared, or planted by the scenario."""
        planted = self.scenario not in ("iid", "dirichlet")
        return bool(self.group) if self.client else planted

    def data(self, seed: int) -> ClientData:
        """The clients' data; the seed decides who gets what, and what is kept for testing."""
        x, y, client, groups = _rows(self.path, self.label, self.client, self.group)
        if client is not None:
            return clients_of_rows(x, y, client, groups=groups, seed=seed)
        share = len(y) // self.clients if self.clients > 0 else 0
        if share < 5:
            raise InputError(
                f"{self.path}: {len(y)} rows for {self.clients} clients; at least 5 each",
                "use fewer clients",
            )
        plan = partition(
            y, self.clients, self.scenario, n_per_client=share, replace=True, seed=seed
        )
        return _dealt(x, y, plan, seed)

    def run(self, seed: int) -> dict[str, dict[str, Any]]:
        """Metrics of every arm."""
        data = self.data(seed)
        settings = Settings.of(
            rounds=self.rounds,
            split_at=self.rounds // 4,
            per_round=self.per_round,
            n_clients=data.n_clients,
            n_groups=self.groups,
        )

        def make_trainer(proximal: float) -> LocalSGD:
            options = {"batch_size": 16, "learning_rate": self.learning_rate, "seed": seed}
            return LocalSGD(data, proximal=proximal, **options)

        outcomes, log = run_all(make_trainer, data.groups, settings, seed)
        return measure(outcomes, data, log, truth=self.has_truth)


def _dealt(x: np.ndarray, y: np.ndarray, plan: Partition, seed: int) -> ClientData:
    """A partition of rows; label and feature shifts are applied as the scenario says."""
    rng = np.random.default_rng([seed, 5])
    rows = plan.index.reshape(-1)
    client = np.repeat(np.arange(plan.n_clients), plan.index.shape[1])
    labels = (y[rows] + plan.label_offset[client]) % plan.n_classes
    noise = plan.noise_std[client][:, None] * rng.standard_normal((len(rows), x.shape[1]))
    features = (x[rows] + noise).astype(np.float32)
    return clients_of_rows(features, labels, client, groups=plan.groups, seed=seed)


@lru_cache(maxsize=2)
def _rows(
    path: str, label: str | None, client: str | None, group: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Standardised features, labels, and perhaps clients and their groups."""
    frame = read_table(path, numeric=False)
    label = label or str(frame.columns[-1])
    roles = {"label": label, "client": client, "group": group}
    for role, column in roles.items():
        if column is not None and column not in frame:
            found = ", ".join(map(str, frame.columns))
            raise InputError(f"{path} has no column {column!r} ({role})", f"columns: {found}")
    features = frame.drop(columns=[c for c in roles.values() if c]).select_dtypes("number")
    y, kinds = pd.factorize(frame[label], sort=True)
    if not 2 <= len(kinds) <= MAX_CLASSES:
        raise InputError(
            f"{path}, column {label}: {len(kinds)} different values; a label of 2 to {MAX_CLASSES} "
            "classes expected",
            "name the label column with label=",
        )
    if features.shape[1] == 0:
        raise InputError(f"{path}: no numeric column besides {label}", "features are numbers")
    x = features.to_numpy(dtype=float)
    x = ((x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)).astype(np.float32)
    if client is None:
        return x, y, None, None
    who, names = pd.factorize(frame[client], sort=True)
    if len(names) < 4:
        raise InputError(f"{path}, column {client}: {len(names)} clients; at least 4 expected")
    counts = np.bincount(who)
    if counts.min() < 4:
        raise InputError(
            f"{path}, column {client}: {names[counts.argmin()]} holds {counts.min()} rows; "
            "at least 4 for each client expected"
        )
    if group is None:
        return x, y, who, None
    return x, y, who, _truth(frame.rename(columns={client: "client"}), group, list(names), path)
