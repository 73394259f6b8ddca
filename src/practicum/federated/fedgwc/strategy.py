"""FedGWC on Flower: a strategy for any client app that reports its losses, and such a client app.

The same two objects run in this process, under Flower's simulation and on a deployment, with the
same numbers.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from practicum.data.clients import ClientData
from practicum.errors import InputError
from practicum.federated.fedgwc.grouping import check_options
from practicum.federated.fedgwc.losses import LossLog
from practicum.federated.fedgwc.training import LocalSGD, weighted_average
from practicum.federated.fedgwc.tree import ROOT, ClusterTree

# relative: absolute imports of a method stay within the method and the shared layers
from .._flower import (  # noqa: TID252
    ArrayRecord,
    ClientApp,
    ConfigRecord,
    Context,
    Grid,
    Message,
    MetricRecord,
    RecordDict,
    Strategy,
    answer_partition,
    ask_partitions,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AGGREGATIONS = ("fedavg", "fairavg", "fedopt")
NEWCOMER_TIMEOUT = 30.0  # seconds, for nodes that join a running federation
LOSSES, WEIGHT, ARRAYS, CONFIG = "train-losses", "num-examples", "arrays", "config"

logger = logging.getLogger("flwr")


@dataclass
class _Cluster:
    """A cluster's parameters, and the server optimiser's momentum where there is one."""

    arrays: list[np.ndarray]
    momentum: list[np.ndarray] | None = None


@dataclass
class _Report:
    """What one client sent after training."""

    arrays: list[np.ndarray]
    losses: np.ndarray
    n: float

    @property
    def finite(self) -> bool:
        return bool(
            np.isfinite(self.losses).all() and all(np.isfinite(a).all() for a in self.arrays)
        )


class FedGWC(Strategy):
    """Clustered federated averaging: clusters found from the losses that clients report.

    A client app needs nothing new but its losses: in the ``MetricRecord`` of its train reply a
    list ``train-losses`` (the mini-batch loss before each local step) beside ``num-examples``.
    Clients are told apart by partition id (:func:`answer_partition` adds the question to any client
    app); without it node ids are used, which change from run to run.

    A client that fails, disappears or reports losses or parameters that are not finite is left out
    of its round, counted in ``history_``, and warned about; the run goes on.

    Parameters
    ----------
    fraction_train : float
        Share of the clients that train in a round *of each cluster* (at least 3 clients).
    local_steps : int
        Sent to the clients as ``local-steps``.
    gamma, eps, max_clusters, estimator, view, min_co_samples, explore, seed
        See :class:`~practicum.federated.fedgwc.tree.ClusterTree`; ``estimator="ema"`` is the
        published procedure.
    aggregation : {"fedavg", "fairavg", "fedopt"}
        Weights by samples, equal weights, or server SGD on the averaged update.
    server_lr, server_momentum : float
        Of ``"fedopt"``.
    fraction_evaluate : float
        Share of each cluster's clients that evaluate their own cluster's model after a round.
    n_clients : int, optional
        Wait for so many before the first round (default: those connected then).
    connect_timeout : float
        Seconds to wait for them.

    Attributes
    ----------
    clusters_ : dict of str to list of int
        Partition ids by cluster.
    interaction_ : array, shape (K, K)
        Interaction within clusters, NaN between.
    history_ : pandas.DataFrame
        One row for each client asked: ``round, cluster, client, reward, loss, n, status``
        (``ok``, ``diverged`` or ``failed``).
    loss_log_ : LossLog
        Everything reported; ``LossClusterer().fit(strategy.loss_log_)`` looks again, offline.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> from practicum.federated._flower import run_in_process
    >>> plan = partition(digits().labels, 6, "conflict", n_per_client=100)
    >>> data = client_data(digits(), plan, n_test=20)
    >>> app = softmax_client_app(lambda client, n: data.only(client), steps=2, learning_rate=0.2)
    >>> strategy = FedGWC(fraction_train=0.5, local_steps=2)
    >>> result = run_in_process(strategy, app, 6, initial_arrays(data), num_rounds=4)
    >>> strategy.clusters_, strategy.model_for(3).to_numpy_ndarrays()[0].shape
    ({'0': [0, 1, 2, 3, 4, 5]}, (10, 65))
    """

    def __init__(
        self,
        fraction_train: float = 0.1,
        local_steps: int = 8,
        gamma: float = 0.1,
        eps: float = 1e-5,
        max_clusters: int = 5,
        estimator: str = "joint",
        view: str = "column",
        aggregation: str = "fedavg",
        seed: int = 0,
        *,
        min_co_samples: int = 10,
        explore: bool = False,
        server_lr: float = 1.0,
        server_momentum: float = 0.0,
        fraction_evaluate: float = 0.0,
        n_clients: int | None = None,
        connect_timeout: float = 600.0,
    ) -> None:
        if not 0 < fraction_train <= 1 or not 0 <= fraction_evaluate <= 1:
            raise InputError(
                f"fraction_train {fraction_train}, fraction_evaluate {fraction_evaluate}",
                "fractions of the clients, above 0 to train and up to 1",
            )
        if local_steps < 1:
            raise InputError(f"local_steps is {local_steps}; without a step there is no loss")
        if aggregation not in AGGREGATIONS:
            raise InputError(f"aggregation {aggregation!r}", f"use {', '.join(AGGREGATIONS)}")
        check_options(estimator, view, gamma, max_clusters, min_co_samples)
        self.fraction_train, self.fraction_evaluate = fraction_train, fraction_evaluate
        self.local_steps, self.aggregation, self.seed = local_steps, aggregation, seed
        self.server_lr, self.server_momentum = server_lr, server_momentum
        self.n_clients, self.connect_timeout = n_clients, connect_timeout
        self._options: dict[str, Any] = {
            "estimator": estimator,
            "view": view,
            "gamma": gamma,
            "eps": eps,
            "max_clusters": max_clusters,
            "min_co_samples": min_co_samples,
            "explore": explore,
            "seed": seed,
        }
        self._tree: ClusterTree | None = None
        self._clusters: dict[str, _Cluster] = {}
        self._keys: list[str] = []
        self._steps = 0  # losses in a report
        self._client_of: dict[int, int] = {}  # node id -> partition id
        self._asked_for_id: set[int] = set()  # node ids
        self._asked: dict[int, str] = {}  # client -> cluster, in this round
        self._rows: list[dict[str, Any]] = []

    # --- what a user reads afterwards ---

    @property
    def clusters_(self) -> dict[str, list[int]]:
        """Partition ids by cluster."""
        return {name: members.tolist() for name, members in self._started.clusters.items()}

    @property
    def interaction_(self) -> Float[np.ndarray, "K K"]:
        """Interaction within each cluster, NaN between clusters."""
        tree = self._started
        matrix = np.full((tree.n_clients, tree.n_clients), np.nan)
        for name, members in tree.clusters.items():
            matrix[np.ix_(members, members)] = tree.interaction(name)
        return matrix

    @property
    def history_(self) -> pd.DataFrame:
        """One row for each client asked to train."""
        return pd.DataFrame(self._rows)

    def model_for(self, client: int) -> ArrayRecord:
        """The model of a client's cluster, by partition id.

        Raises
        ------
        InputError
            No such client, or the run has not started.
        """
        tree = self._started
        if not 0 <= client < tree.n_clients:
            raise InputError(
                f"no client {client}; partition ids are 0 to {tree.n_clients - 1}",
                "node ids are random and change between runs: use partition ids",
            )
        return self._record(tree.cluster_of(client))

    def plot_tree(self, names: Sequence[Any] | None = None) -> Figure:
        """How the federation was split: clusters over rounds, as wide as they have clients.

        Parameters
        ----------
        names : sequence, optional
            Of the clients, in the order of their partition ids.

        Raises
        ------
        InputError
            The run has not started, or there is not one name a client.
        """
        return self._started.plot(names=names)

    @property
    def _started(self) -> ClusterTree:
        if self._tree is None:
            raise InputError("the strategy has not run yet", "call start() first")
        return self._tree

    def _record(self, cluster: str) -> ArrayRecord:
        arrays = self._clusters[cluster].arrays
        packed = ArrayRecord(arrays)
        return ArrayRecord(dict(zip(self._keys, packed.values(), strict=True)))

    def summary(self) -> None:
        """Log the configuration."""
        logger.info("\t├──> FedGWC: %s", self._options)
        logger.info("\t└──> fraction %.3f, %s", self.fraction_train, self.aggregation)

    # --- clients ---

    def _connect(self, grid: Grid) -> None:
        """Learn who the nodes are: once all, later only new ones."""
        first = self._tree is None
        nodes = self._wait(grid) if first else list(grid.get_node_ids())
        new = [n for n in nodes if n not in self._asked_for_id]
        if not new:
            return
        self._asked_for_id.update(new)
        # a newcomer that says nothing must not hold up a run
        wait = self.connect_timeout if first else min(self.connect_timeout, NEWCOMER_TIMEOUT)
        known = ask_partitions(grid, new, wait, strict=first)
        if first and not known:
            warnings.warn(
                "the client app does not tell its partition id: clusters are keyed by the order of "
                "node ids, which changes from run to run; wrap the app in answer_partition()",
                UserWarning,
                stacklevel=4,
            )
            known = {node: i for i, node in enumerate(sorted(new))}
        if first:
            self._begin(known)
        for node, client in known.items():
            if client < self._started.n_clients:
                self._client_of = {n: c for n, c in self._client_of.items() if c != client}
                self._client_of[node] = client

    def _wait(self, grid: Grid) -> list[int]:
        deadline = monotonic() + self.connect_timeout
        while True:
            nodes = list(grid.get_node_ids())
            if len(nodes) >= (self.n_clients or 3):
                return nodes
            if monotonic() > deadline:
                raise InputError(
                    f"{len(nodes)} clients connected within {self.connect_timeout:g} s; "
                    f"{self.n_clients or 3} needed",
                    "start more SuperNodes, or raise connect_timeout",
                )
            sleep(0.2)

    def _begin(self, known: dict[int, int]) -> None:
        ids = sorted(known.values())
        if ids != list(range(len(ids))):
            raise InputError(
                f"partition ids {ids[:8]}; every number from 0 to {len(ids) - 1} expected, once",
                'start each SuperNode with its own --node-config "partition-id=I"',
            )
        n_clients = len(ids)
        per_round = max(3, round(self.fraction_train * n_clients))
        self._tree = ClusterTree(n_clients, per_round, **self._options)
        self.loss_log_ = LossLog(n_clients)

    def _node_of(self, present: Iterable[int]) -> dict[int, int]:
        """Partition id -> node id of the clients that are connected now."""
        here = set(present)
        return {client: node for node, client in self._client_of.items() if node in here}

    # --- Flower's rounds ---

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Sampled clients of every cluster get their cluster's model."""
        self._connect(grid)
        if not self._clusters:
            self._keys = list(arrays.keys())
            self._clusters[ROOT] = _Cluster(arrays.to_numpy_ndarrays())
        node_of = self._node_of(grid.get_node_ids())
        available = np.array(sorted(node_of), dtype=int)
        self._asked, messages = {}, []
        for cluster in self._started.clusters:
            clients = self._started.sample(cluster, server_round - 1, available)
            for client in clients.tolist():
                self._asked[client] = cluster
                messages.append(
                    self._message("train", cluster, node_of[client], server_round, config)
                )
        return messages

    def _message(
        self,
        kind: str,
        cluster: str,
        node: int,
        server_round: int,
        config: ConfigRecord,
    ) -> Message:
        # a record for each message: a dictionary shared by messages is a known trap
        own = ConfigRecord(dict(config))
        own["server-round"], own["local-steps"] = server_round, self.local_steps
        content = RecordDict({ARRAYS: self._record(cluster), CONFIG: own})
        return Message(content, node, kind, group_id=str(server_round))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average within clusters, take in the losses, split what has to be split."""
        reports = self._reports(server_round, replies)
        asked = {name: [] for name in self._started.clusters}
        for client in sorted(reports):
            asked[self._asked[client]].append(client)
        for cluster, clients in asked.items():
            if clients:
                self._aggregate(server_round, cluster, clients, reports)
        metrics = self._round_metrics(server_round)
        return self._mean_model(), metrics

    def _reports(self, server_round: int, replies: Iterable[Message]) -> dict[int, _Report]:
        """Usable replies by client; all others are noted in the history and warned about."""
        reports: dict[int, _Report] = {}
        bad = dict.fromkeys(self._asked, ("failed", "no reply"))
        refused: list[InputError] = []
        for reply in replies:
            client = self._client_of.get(reply.metadata.src_node_id)
            if client not in self._asked:
                continue
            if not reply.has_content():
                bad[client] = ("failed", " ".join(reply.error.reason.split())[:200])
                continue
            try:
                reports[client] = self._unpack(reply, self._asked[client])
            except InputError as error:
                refused.append(error)
                bad[client] = ("failed", error.message)
        if self._asked and len(refused) == len(self._asked):
            raise refused[0]  # the app is wrong, not a client
        bad |= self._unlike_others(reports)
        self._warn_about(server_round, {c: why for c, why in bad.items() if c not in reports})
        return reports

    def _unlike_others(self, reports: dict[int, _Report]) -> dict[int, tuple[str, str]]:
        """Takes out reports that cannot be averaged, or compared, with the others."""
        if reports and not self._steps:
            lengths = Counter(len(report.losses) for report in reports.values())
            self._steps = lengths.most_common(1)[0][0]
        bad = {}
        for client, report in list(reports.items()):
            if len(report.losses) != self._steps:
                why = f"it reports {len(report.losses)} losses where others report {self._steps}"
                bad[client] = ("failed", why)
            elif not report.finite:
                bad[client] = ("diverged", "losses or arrays are not finite")
                self.loss_log_.excluded[client] += 1
            else:
                continue
            del reports[client]
        return bad

    def _warn_about(self, server_round: int, bad: Mapping[int, tuple[str, str]]) -> None:
        for client, (status, _) in sorted(bad.items()):
            self._note(server_round, client, status=status)
        if bad:
            named = "; ".join(f"client {c} ({': '.join(bad[c])})" for c in sorted(bad))
            warnings.warn(f"round {server_round}: left out {named}", UserWarning, stacklevel=5)

    def _unpack(self, reply: Message, cluster: str) -> _Report:
        """What a client sent, if it fits what the others send."""
        metrics = next(iter(reply.content.metric_records.values()), {})
        if LOSSES not in metrics or WEIGHT not in metrics:
            raise InputError(
                f"a client's reply has the metrics {', '.join(metrics) or 'none'}",
                f"FedGWC needs {LOSSES} (the loss before each local step) and {WEIGHT}",
            )
        losses = np.atleast_1d(np.asarray(metrics[LOSSES], dtype=float))
        if not losses.size:
            raise InputError(f"a client's {LOSSES} is empty", "report one loss for each local step")
        n = float(metrics[WEIGHT])
        if not 0 < n < np.inf:
            raise InputError(f"its {WEIGHT} is {n:g}; at least 1 expected")
        records = reply.content.array_records.values()
        arrays = next(iter(records)).to_numpy_ndarrays() if records else []
        sent = [a.shape for a in self._clusters[cluster].arrays]
        if [a.shape for a in arrays] != sent:
            raise InputError(f"it returns arrays of shapes {[a.shape for a in arrays]}, not {sent}")
        return _Report(arrays, losses, n)

    def _aggregate(
        self,
        server_round: int,
        cluster: str,
        clients: list[int],
        reports: Mapping[int, _Report],
    ) -> None:
        own = np.array(clients)
        losses = np.stack([reports[c].losses for c in clients])
        sizes = np.array([reports[c].n for c in clients])
        weights = np.ones(len(own)) if self.aggregation == "fairavg" else sizes
        models = zip(*(reports[c].arrays for c in clients), strict=True)
        self._step(
            self._clusters[cluster], [weighted_average(np.stack(a), weights) for a in models]
        )
        rewards = self._started.rewards_of(losses, sizes)
        for client, reward, loss, n in zip(clients, rewards, losses.mean(1), sizes, strict=True):
            self._note(server_round, client, reward=reward, loss=loss, n=n)
        self.loss_log_.add(server_round - 1, own, losses, sizes)
        children = self._started.observe(cluster, server_round - 1, own, losses, sizes)
        if children:
            logger.info("round %d: cluster %s splits into %s", server_round, cluster, children)
            parent = self._clusters.pop(cluster)
            for name in children:
                self._clusters[name] = _Cluster(parent.arrays, parent.momentum)

    def _step(self, cluster: _Cluster, mean: list[np.ndarray]) -> None:
        """Replace the model by the mean, or (fedopt) step towards it."""
        if self.aggregation != "fedopt":
            cluster.arrays = mean
            return
        update = [new - old for new, old in zip(mean, cluster.arrays, strict=True)]
        if cluster.momentum is not None:
            pairs = zip(cluster.momentum, update, strict=True)
            update = [self.server_momentum * before + now for before, now in pairs]
        cluster.momentum = update
        moved = zip(cluster.arrays, update, strict=True)
        cluster.arrays = [(old + self.server_lr * u).astype(old.dtype) for old, u in moved]

    def _note(
        self,
        server_round: int,
        client: int,
        *,
        status: str = "ok",
        reward: float = np.nan,
        loss: float = np.nan,
        n: float = np.nan,
    ) -> None:
        self._rows.append(
            {
                "round": server_round,
                "cluster": self._asked[client],
                "client": client,
                "reward": float(reward),
                "loss": float(loss),
                "n": float(n),
                "status": status,
            }
        )

    def _round_metrics(self, server_round: int) -> MetricRecord:
        rows = [r for r in self._rows[-len(self._asked) :] if r["round"] == server_round]
        fine = [r for r in rows if r["status"] == "ok"]
        metrics = {"n-clusters": len(self._clusters), "left-out": len(rows) - len(fine)}
        if fine:
            total = sum(r["n"] for r in fine)
            metrics["train-loss"] = sum(r["loss"] * r["n"] for r in fine) / total
        return MetricRecord(metrics)

    def _mean_model(self) -> ArrayRecord:
        """One model for whoever asks for one: the clusters' mean, weighted by their clients."""
        names = list(self._clusters)
        if len(names) == 1:
            return self._record(names[0])
        sizes = np.array([len(self._started.clusters[name]) for name in names])
        models = zip(*(self._clusters[name].arrays for name in names), strict=True)
        mean = [weighted_average(np.stack(a), sizes) for a in models]
        packed = ArrayRecord(mean)
        return ArrayRecord(dict(zip(self._keys, packed.values(), strict=True)))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Clients evaluate their own cluster's model."""
        if self.fraction_evaluate == 0:
            return []
        node_of = self._node_of(grid.get_node_ids())
        messages = []
        for cluster, members in self._started.clusters.items():
            here = [c for c in members.tolist() if c in node_of]
            rng = np.random.default_rng([self.seed, server_round, int(members.min()), 3])
            n = int(np.ceil(self.fraction_evaluate * len(here)))
            for client in np.sort(rng.permutation(here)[:n]).astype(int).tolist():
                messages.append(
                    self._message("evaluate", cluster, node_of[client], server_round, config)
                )
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Means over clients, weighted by their numbers of test samples."""
        records = [
            next(iter(reply.content.metric_records.values()))
            for reply in replies
            if reply.has_content()
        ]
        total = sum(float(r[WEIGHT]) for r in records)
        if not total:
            return None
        names = [k for k, v in records[0].items() if k != WEIGHT and not isinstance(v, list)]
        return MetricRecord(
            {k: sum(float(r[k]) * float(r[WEIGHT]) for r in records) / total for k in names}
        )


# --- a client app --------------------------------------------------------------------------------


def initial_arrays(data: ClientData) -> ArrayRecord:
    """The zero model of softmax regression on these data.

    Parameters
    ----------
    data : ClientData
        Of any number of clients.

    Returns
    -------
    ArrayRecord of one float32 array, shape (C, d + 1); the last column is the bias

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> plan = partition(digits().labels, 3, "iid", n_per_client=30)
    >>> initial_arrays(client_data(digits(), plan, 10)).to_numpy_ndarrays()[0].shape
    (10, 65)
    """
    return ArrayRecord([np.zeros((data.n_classes, data.train_x.shape[2] + 1), np.float32)])


def softmax_client_app(
    data_of: Callable[[int, int], ClientData], *, seed: int = 0, **sgd: Any
) -> ClientApp:
    """A Flower client app that trains softmax regression and reports its losses.

    Parameters
    ----------
    data_of : callable
        ``data_of(partition_id, num_partitions)`` gives the data of that one client.
    seed : int
        Of the batches; the same as the server's for numbers equal to the in-process engine's.
    **sgd
        Passed on to :class:`~practicum.federated.fedgwc.training.LocalSGD`.

    Raises
    ------
    InputError
        At the first message: the data hold more than one client.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> data = client_data(digits(), partition(digits().labels, 3, "iid", n_per_client=30), 10)
    >>> type(softmax_client_app(lambda client, n: data.only(client))).__name__
    'ClientApp'
    """
    app = answer_partition(ClientApp())
    trainers: dict[tuple[int, int], LocalSGD] = {}

    def trainer_of(context: Context, steps: int) -> tuple[int, LocalSGD]:
        client = int(context.node_config["partition-id"])
        if (client, steps) not in trainers:
            data = data_of(client, int(context.node_config["num-partitions"]))
            if data.n_clients != 1:
                raise InputError(f"data_of gave {data.n_clients} clients; one expected")
            options = {"seed": seed, "steps": steps, **sgd}
            trainers[client, steps] = LocalSGD(data, ids=np.array([client]), **options)
        return client, trainers[client, steps]

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = message.content[CONFIG]
        client, trainer = trainer_of(context, int(config["local-steps"]))
        start = message.content[ARRAYS].to_numpy_ndarrays()[0]
        number = int(config["server-round"]) - 1
        models, losses = trainer.train(start[None], np.array([client]), number)
        metrics = {LOSSES: losses[0].astype(float).tolist(), WEIGHT: int(trainer.sizes[0])}
        content = {ARRAYS: ArrayRecord([models[0]]), "metrics": MetricRecord(metrics)}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        config = message.content[CONFIG]
        _, trainer = trainer_of(context, int(config["local-steps"]))
        model = message.content[ARRAYS].to_numpy_ndarrays()[0]
        accuracy = float(trainer.accuracy(model[None])[0])
        metrics = MetricRecord({"accuracy": accuracy, WEIGHT: trainer.n_test})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app
