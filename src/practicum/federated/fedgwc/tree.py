"""The clusters of a running federation: who trains in which, and when one splits.

No networking and no model: the Flower strategy and the fast study engine drive the same tree.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.errors import InputError
from practicum.federated.fedgwc.grouping import (
    check_options,
    interaction_of,
    published_split,
    split_by_losses,
)
from practicum.federated.fedgwc.interaction import PublishedInteraction, perception_affinity
from practicum.federated.fedgwc.losses import LossLog, gaussian_rewards
from practicum.federated.fedgwc.training import (
    Trainer,
    sample_clients,
    usable,
    weighted_average,
)
from practicum.federated.fedgwc.tree_plot import draw_splits

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROOT = "0"


@dataclass
class _Node:
    """One cluster: its clients, and what is known of their interaction."""

    members: np.ndarray
    log: LossLog
    published: PublishedInteraction | None
    next_look: int
    place: dict[int, int] = field(init=False)
    times_sampled: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.place = {int(k): i for i, k in enumerate(self.members)}
        self.times_sampled = np.zeros(len(self.members))


class ClusterTree:
    """Recursive clustering of a federation by the losses its clients report.

    Parameters
    ----------
    n_clients : int
        K.
    per_round : int
        m, clients that train in a round of each cluster; at least 3.
    estimator : {"joint", "centred", "comovement", "ema"}
        ``"ema"`` is the published procedure: moving average, split attempted when it has settled,
        Davies-Bouldin rule. Ours keep the log and look when the median pair of clients has been
        sampled together ``min_co_samples`` times, and again at each doubling.
    view, gamma, eps, max_clusters
        Of the published procedure; ``max_clusters`` bounds a split of ours too.
    min_co_samples : int
    explore : bool
        Sample clients with probability proportional to exp(smallest count - own count), so that
        nobody is left out for long (an option of the official code).
    seed : int

    Attributes
    ----------
    clusters : dict of str to int array
        Members by name; the children of "0" are "0-0", "0-1", ...
    splits : list of (int, int array)
        The round of each split, and the cluster of each client after it.
    rounds : int
        Rounds that were observed.

    Raises
    ------
    InputError
        m < 3, or more clients a round than there are; an option unknown or out of range.

    Warns
    -----
    UserWarning
        K / m < 2: the published rule can never split.

    Examples
    --------
    >>> tree = ClusterTree(12, 6)
    >>> rng = np.random.default_rng(0)
    >>> for t in range(200):
    ...     for name in list(tree.clusters):
    ...         clients, wave = tree.sample(name, t), 0.3 * rng.normal()
    ...         noise = 0.1 * rng.normal(size=len(clients))
    ...         losses = np.exp(np.where(clients < 6, wave, -wave) + noise)
    ...         _ = tree.observe(name, t, clients, losses[:, None])
    >>> tree.labels.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """

    def __init__(
        self,
        n_clients: int,
        per_round: int,
        *,
        estimator: str = "joint",
        view: str = "column",
        gamma: float = 0.1,
        eps: float = 1e-5,
        max_clusters: int = 5,
        min_co_samples: int = 10,
        explore: bool = False,
        seed: int = 0,
    ) -> None:
        if not 3 <= per_round <= n_clients:
            raise InputError(
                f"{per_round} clients a round of {n_clients}; Gaussian rewards need 3 at least",
                "raise fraction_train or the number of clients",
            )
        check_options(estimator, view, gamma, max_clusters, min_co_samples)
        if estimator == "ema" and n_clients < 2 * per_round:
            warnings.warn(
                f"K/m = {n_clients}/{per_round} is below 2: no split is possible",
                UserWarning,
                stacklevel=2,
            )
        self.n_clients, self.per_round = n_clients, per_round
        self.estimator, self.view, self.gamma = estimator, view, gamma
        self.eps, self.max_clusters = eps, max_clusters
        self.min_co_samples, self.explore, self.seed = min_co_samples, explore, seed
        self.splits: list[tuple[int, np.ndarray]] = []
        self.rounds = 0
        self._nodes: dict[str, _Node] = {}
        self._nodes[ROOT] = self._node(np.arange(n_clients), None)

    def _node(self, members: np.ndarray, parent: PublishedInteraction | None) -> _Node:
        published = parent
        if self.estimator == "ema" and parent is None:
            published = PublishedInteraction(len(members), self.per_round, self.eps)
        return _Node(members, LossLog(len(members)), published, self.min_co_samples)

    @property
    def clusters(self) -> dict[str, Int[np.ndarray, " k"]]:
        """Members of each cluster."""
        return {name: node.members for name, node in self._nodes.items()}

    @property
    def labels(self) -> Int[np.ndarray, " K"]:
        """Cluster number of each client."""
        labels = np.zeros(self.n_clients, dtype=int)
        for i, node in enumerate(self._nodes.values()):
            labels[node.members] = i
        return labels

    def cluster_of(self, client: int) -> str:
        """Name of a client's cluster."""
        return next(name for name, node in self._nodes.items() if client in node.place)

    def sample(
        self, cluster: str, round: int, available: Int[np.ndarray, " a"] | None = None
    ) -> Int[np.ndarray, " m"]:
        """The clients of a cluster that train in this round (none if none is available)."""
        node = self._nodes[cluster]
        here = np.ones(len(node.members), dtype=bool)
        if available is not None:
            here = np.isin(node.members, available)
            if not here.any():
                return node.members[here]
        chances = None
        if self.explore:
            counts = node.times_sampled[here]
            chances = np.exp(counts.min() - counts)
            chances /= chances.sum()
        drawn = sample_clients(node.members[here], self.per_round, self.seed, round, chances)
        node.times_sampled[[node.place[int(k)] for k in drawn]] += 1
        return drawn

    def observe(
        self,
        cluster: str,
        round: int,
        clients: Int[np.ndarray, " m"],
        losses: Real[np.ndarray, "m S"],
        n: Real[np.ndarray, " m"] | None = None,
    ) -> list[str]:
        """Take in a cluster's round; returns the names of the children if it split.

        Reports that are not finite are ignored; a round with fewer than three says nothing.
        """
        self.rounds = max(self.rounds, round + 1)
        node = self._nodes[cluster]
        sizes = np.ones(len(clients)) if n is None else np.asarray(n, dtype=float)
        fine = np.isfinite(losses).all(1)
        if fine.sum() < 3 or len(node.members) <= self.per_round:
            return []
        own = np.array([node.place[int(k)] for k in clients[fine]])
        if node.published is not None:
            node.published.update(own, gaussian_rewards(losses[fine], sizes[fine]))
            labels = self._published_labels(node)
        else:
            node.log.add(round, own, losses[fine], sizes[fine])
            labels = self._own_labels(node)
        return self._split(cluster, labels, round) if labels.max() > 0 else []

    def _published_labels(self, node: _Node) -> np.ndarray:
        whole = np.zeros(len(node.members), dtype=int)
        if not node.published.settled:
            return whole
        affinity = perception_affinity(node.published.matrix, self.gamma, self.view)
        labels = published_split(affinity, self.per_round, self.max_clusters, self.seed)
        if labels.max() == 0:
            node.published.change = 1.0  # the official code waits anew
        return labels

    def _own_labels(self, node: _Node) -> np.ndarray:
        whole = np.zeros(len(node.members), dtype=int)
        # rounds until the median pair can have met so often; counting pairs is the dear part
        k, m = len(node.members), self.per_round
        if node.log.n_rounds < 0.8 * node.next_look * k * (k - 1) / (m * (m - 1)):
            return whole
        pairs = node.log.co_samples()[np.triu_indices(k, 1)]
        if np.median(pairs) < node.next_look:
            return whole
        node.next_look *= 2
        return split_by_losses(
            node.log, self.estimator, seed=self.seed, max_groups=self.max_clusters
        )

    def _split(self, cluster: str, labels: np.ndarray, round: int) -> list[str]:
        node = self._nodes.pop(cluster)
        children = []
        for label in np.unique(labels):
            inside = np.flatnonzero(labels == label)
            inherited = None
            if node.published is not None:
                inherited = node.published.of(inside, self.per_round)
            name = f"{cluster}-{label}"
            self._nodes[name] = self._node(node.members[inside], inherited)
            children.append(name)
        self.splits.append((round + 1, self.labels))
        return children

    def plot(
        self, *, names: Sequence[Any] | None = None, groups: Int[np.ndarray, " K"] | None = None
    ) -> Figure:
        """The tree so far: who was in which cluster in which rounds.

        ``names`` of the clients and their true ``groups``, where there are any, are shown with it.
        """
        at, labels = self.path()
        return draw_splits(at, labels, self.rounds, names=names, groups=groups)

    def path(self) -> tuple[list[int], Int[np.ndarray, "S K"]]:
        """The rounds of the splits, and the clusters before the first split and after each."""
        whole = np.zeros(self.n_clients, dtype=int)
        return [t for t, _ in self.splits], np.stack([whole, *(after for _, after in self.splits)])

    def rewards_of(self, losses: Float[np.ndarray, "m S"], n: Real[np.ndarray, " m"]) -> np.ndarray:
        """Gaussian rewards of a round's finite reports, NaN for the others."""
        rewards = np.full(len(losses), np.nan)
        fine = np.isfinite(losses).all(1)
        if fine.sum() >= 3:
            rewards[fine] = gaussian_rewards(losses[fine], n[fine])
        return rewards

    def interaction(self, cluster: str = ROOT) -> Float[np.ndarray, "k k"]:
        """The matrix of a cluster as it stands."""
        node = self._nodes[cluster]
        if node.published is not None:
            return node.published.matrix.copy()
        return interaction_of(node.log, self.estimator)


def train_tree(
    tree: ClusterTree, trainer: Trainer, budget: int, initial: np.ndarray | None = None
) -> Float[np.ndarray, "K ..."]:
    """The whole method in this process: train, observe, split, until the budget is spent.

    Parameters
    ----------
    tree : ClusterTree
        Changed in place.
    trainer : Trainer
    budget : int
        Client updates; a round costs as many as there are sampled clients in all clusters.
    initial : array, optional
        Parameters to start from (the trainer's by default).

    Returns
    -------
    array, shape (K, ...)
        Each client's model.

    Raises
    ------
    InputError
        The budget does not cover one round.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> from practicum.federated.fedgwc.training import LocalSGD
    >>> plan = partition(digits().labels, 6, "conflict", n_per_client=100)
    >>> trainer = LocalSGD(client_data(digits(), plan, 20), steps=2, learning_rate=0.2)
    >>> tree = ClusterTree(6, 3, min_co_samples=20)
    >>> train_tree(tree, trainer, budget=900).shape, len(tree.clusters)
    ((6, 10, 65), 2)
    """
    if budget < tree.per_round:
        raise InputError(f"a budget of {budget} client updates does not cover one round")
    models = {ROOT: trainer.initial() if initial is None else initial}
    number, spent = 0, 0
    while True:
        drawn = {name: tree.sample(name, number) for name in tree.clusters}
        spent += sum(map(len, drawn.values()))
        if spent > budget:
            break
        starts = [np.repeat(models[name][None], len(c), 0) for name, c in drawn.items()]
        clients = np.concatenate(list(drawn.values()))
        trained, losses = trainer.train(np.concatenate(starts), clients, number)
        ends = np.cumsum([len(c) for c in drawn.values()])[:-1]
        parts = zip(drawn.items(), np.split(trained, ends), np.split(losses, ends), strict=True)
        for (name, own), new, reported in parts:
            fine = usable(new, reported)
            if fine.any():
                models[name] = weighted_average(new[fine], trainer.sizes[own[fine]])
            children = tree.observe(
                name, number, own[fine], reported[fine], trainer.sizes[own[fine]]
            )
            if children:
                parent = models.pop(name)
                models |= dict.fromkeys(children, parent)
        number += 1
    return np.stack([models[tree.cluster_of(k)] for k in range(tree.n_clients)])
