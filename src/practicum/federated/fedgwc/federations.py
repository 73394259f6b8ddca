"""Federations to train and cluster in every way: a person's labelled table, or bundled images."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from practicum.data.clients import (
    ClientData,
    ImageSet,
    Partition,
    PartitionKind,
    client_data,
    clients_of_rows,
    load_images,
    partition,
)
from practicum.data.table import read_table
from practicum.errors import InputError
from practicum.federated.fedgwc.experiments import Settings, measure, run_all
from practicum.federated.fedgwc.losses import LossLog
from practicum.federated.fedgwc.owndata import truth_of
from practicum.federated.fedgwc.training import LocalSGD

MAX_CLASSES = 50


@dataclass(frozen=True, kw_only=True)
class Federation(ABC):
    """Softmax regression in a federation, clustered in every way.

    Parameters
    ----------
    scenario : str
        A kind of :func:`~practicum.data.clients.partition`, where rows are dealt out.
    clients, per_round, rounds, groups : int
        K (where rows are dealt out), m, rounds, and the groups to look for.
    learning_rate : float

    Raises
    ------
    InputError
        An unknown scenario, or numbers that do not fit each other.
    """

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
        if not self.learning_rate > 0:
            raise InputError(f"the learning rate is {self.learning_rate}; it is positive")
        k = self.data(0).n_clients
        if not 3 <= self.per_round <= k or not 2 <= self.groups <= k or self.rounds < 8:
            raise InputError(
                f"{self.source}: {self.per_round} of {k} clients a round, {self.groups} groups, "
                f"{self.rounds} rounds",
                "at least 3 clients a round, 2 groups and 8 rounds, no more than there are clients",
            )

    @property
    @abstractmethod
    def source(self) -> str:
        """What messages call the data."""

    @abstractmethod
    def data(self, seed: int) -> ClientData:
        """The clients' data; the seed decides who gets what, and what is kept for testing."""

    @property
    def names(self) -> list:
        """What the clients are called."""
        return list(range(self.clients))

    @property
    def has_truth(self) -> bool:
        """Whether true groups are known: here, planted by the scenario."""
        return self.scenario not in ("iid", "dirichlet")

    @property
    def batch_size(self) -> int:
        """Of local SGD."""
        return 16

    @property
    def split_at(self) -> int:
        """Round at which the groups get models of their own."""
        return self.rounds // 4

    def run(self, seed: int) -> dict[str, dict[str, Any]]:
        """Metrics of every arm (:func:`~practicum.federated.fedgwc.experiments.measure`)."""
        return self.run_with_log(seed)[0]

    def run_with_log(self, seed: int) -> tuple[dict[str, dict[str, Any]], LossLog]:
        """Metrics of every arm, and the losses of the unclustered federation."""
        data = self.data(seed)
        settings = Settings.of(
            rounds=self.rounds,
            split_at=self.split_at,
            per_round=self.per_round,
            n_clients=data.n_clients,
            n_groups=self.groups,
        )

        def make_trainer(proximal: float) -> LocalSGD:
            options = {"learning_rate": self.learning_rate, "seed": seed}
            return LocalSGD(data, batch_size=self.batch_size, proximal=proximal, **options)

        outcomes, log = run_all(make_trainer, data.groups, settings, seed)
        return measure(outcomes, data, log, truth=self.has_truth), log


# --- bundled images ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageFederation(Federation):
    """Bundled images, dealt out to clients of a known kind.

    Parameters
    ----------
    images : {"fashion-mnist", "digits"}
    scenario, clients, per_round, rounds, groups, learning_rate
        See :class:`Federation`.

    Raises
    ------
    InputError
        The images are not installed, or what :class:`Federation` refuses.

    Examples
    --------
    >>> own = ImageFederation("digits", scenario="iid", clients=6, per_round=3, rounds=8)
    >>> own.data(0).train_x.shape, own.has_truth
    ((6, 60, 64), False)
    """

    images: ImageSet

    @property
    def source(self) -> str:
        """The name of the set."""
        return self.images

    @property
    def batch_size(self) -> int:
        """Of local SGD."""
        return 16 if self.images == "digits" else 64

    def data(self, seed: int) -> ClientData:
        """Every client gets 200 images to train on and 100 to test (of the digits 60 and 30)."""
        images = load_images(self.images)
        train, test = (60, 30) if self.images == "digits" else (200, 100)
        plan = partition(
            images.labels,
            self.clients,
            self.scenario,
            n_per_client=train + test,
            replace=True,
            seed=seed,
        )
        return client_data(images, plan, test)


# --- a labelled table ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TableFederation(Federation):
    """A labelled table with a column that says who holds a row, or dealt out to clients.

    Parameters
    ----------
    path : str
    label : str, optional
        Default: the last column.
    client : str, optional
        Who holds a row; without it rows are dealt out as ``scenario`` says.
    group : str, optional
        True group of each client (with ``client``).
    scenario, clients, per_round, rounds, groups, learning_rate
        See :class:`Federation`; the first two count only without ``client``.

    Raises
    ------
    InputError
        Columns are missing, the label has too many or too few values, no column is numeric, or the
        table is too small for so many clients; the file is named.

    Warns
    -----
    UserWarning
        Columns that are not numbers are not used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    >>> frame["y"] = np.where(frame["a"] > 0, "up", "down")
    >>> path = str(Path(tempfile.mkdtemp()) / "t.csv")
    >>> frame.to_csv(path, index=False)
    >>> own = TableFederation(path, clients=6, per_round=3, rounds=8)
    >>> own.run(0)["fedavg"]["accuracy"] > 0.5
    True
    """

    path: str
    label: str | None = None
    client: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if self.group and not self.client:
            raise InputError("true groups need a client column", "name it with client=")
        super().__post_init__()

    @property
    def source(self) -> str:
        """The file."""
        return self.path

    @property
    def label_column(self) -> str:
        """The column that is predicted."""
        return _rows(self.path, self.label, self.client, self.group).label

    @property
    def feature_columns(self) -> list[str]:
        """The columns that it is predicted from."""
        return _rows(self.path, self.label, self.client, self.group).features

    @property
    def names(self) -> list:
        """What the table calls its clients; numbers where rows are dealt."""
        return table_clients(self.path, self.label, self.client, self.group) or super().names

    @property
    def has_truth(self) -> bool:
        """Whether true groups are known: declared, or planted by the scenario."""
        return bool(self.group) if self.client else super().has_truth

    def data(self, seed: int) -> ClientData:
        """The clients' data; three rows in ten are kept for testing."""
        x, y, client, groups, *_ = _rows(self.path, self.label, self.client, self.group)
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


def table_clients(
    path: str, label: str | None = None, client: str | None = None, group: str | None = None
) -> list:
    """The clients that a table names, in order; none without a client column.

    Raises
    ------
    InputError
        As :class:`TableFederation`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> frame = pd.DataFrame({"who": list("abcd") * 4, "x": range(16), "y": [0, 1] * 8})
    >>> path = str(Path(tempfile.mkdtemp()) / "t.csv")
    >>> frame.to_csv(path, index=False)
    >>> table_clients(path, client="who")
    ['a', 'b', 'c', 'd']
    """
    return _rows(path, label, client, group).clients


def _dealt(x: np.ndarray, y: np.ndarray, plan: Partition, seed: int) -> ClientData:
    """A partition of rows; label and feature shifts are applied as the scenario says."""
    rng = np.random.default_rng([seed, 5])
    rows = plan.index.reshape(-1)
    client = np.repeat(np.arange(plan.n_clients), plan.index.shape[1])
    labels = (y[rows] + plan.label_offset[client]) % plan.n_classes
    noise = plan.noise_std[client][:, None] * rng.standard_normal((len(rows), x.shape[1]))
    features = (x[rows] + noise).astype(np.float32)
    return clients_of_rows(features, labels, client, groups=plan.groups, seed=seed)


class _Rows(NamedTuple):
    """A table, read."""

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None
    groups: np.ndarray | None
    clients: list
    label: str
    features: list[str]


@lru_cache(maxsize=2)
def _rows(path: str, label: str | None, client: str | None, group: str | None) -> _Rows:
    """Standardised features, labels, and perhaps clients, their groups, and their names."""
    frame = read_table(path, numeric=False)
    free = [str(c) for c in frame.columns if c not in (client, group)]
    label = label or (free or [str(c) for c in frame.columns])[-1]
    roles = {"label": label, "client": client, "group": group}
    taken = [role for role in ("client", "group") if roles[role] == label]
    if taken:
        raise InputError(
            f"{path}: {label!r} is the {taken[0]} and the label", "name another --label"
        )
    for role, column in roles.items():
        if column is not None and column not in frame:
            found = ", ".join(map(str, frame.columns))
            raise InputError(f"{path} has no column {column!r} ({role})", f"columns: {found}")
    y, kinds = pd.factorize(frame[label], sort=True)
    if not 2 <= len(kinds) <= MAX_CLASSES:
        raise InputError(
            f"{path}, column {label}: {len(kinds)} different values; a label of 2 to {MAX_CLASSES} "
            "classes expected",
            "name the label column with label=",
        )
    x, features = _features(frame.drop(columns=[c for c in roles.values() if c]), path, label)
    if client is None:
        return _Rows(x, y, None, None, [], label, features)
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
        return _Rows(x, y, who, None, list(names), label, features)
    truth = truth_of(frame.rename(columns={client: "client"}), group, list(names), path)
    return _Rows(x, y, who, truth, list(names), label, features)


def _features(frame: pd.DataFrame, path: str, label: str) -> tuple[np.ndarray, list[str]]:
    """The numeric columns, standardised, and their names."""
    numbers = frame.select_dtypes("number")
    if numbers.shape[1] == 0:
        raise InputError(f"{path}: no numeric column besides {label}", "features are numbers")
    skipped = [str(c) for c in frame if c not in numbers]
    if skipped:
        message = f"{path}: columns that are not numbers are not used: {', '.join(skipped)}"
        warnings.warn(message, UserWarning, stacklevel=2)
    x = numbers.to_numpy(dtype=float)
    scaled = ((x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)).astype(np.float32)
    return scaled, [str(c) for c in numbers]
