"""What else groups clients: loss trajectories, IFCA, clustered federated learning by gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics.pairwise import cosine_similarity
from threadpoolctl import threadpool_limits

from practicum.errors import InputError
from practicum.federated.fedgwc.grouping import first_member_order
from practicum.federated.fedgwc.losses import LossLog
from practicum.federated.fedgwc.training import (
    Cohort,
    Trainer,
    models_of,
    run_cohorts,
    sample_clients,
    usable,
    weighted_average,
)


def trajectory_groups(
    log: LossLog, n_groups: int, *, n_windows: int = 20, seed: int = 0
) -> Int[np.ndarray, " K"]:
    """k-means of loss trajectories: each client's mean loss in equal windows of rounds.

    A window in which a client was not sampled takes the window's mean.

    Parameters
    ----------
    log : LossLog
    n_groups : int
    n_windows : int
    seed : int

    Raises
    ------
    InputError
        The log is empty.

    Examples
    --------
    >>> log = LossLog(4)
    >>> for t in range(10):
    ...     log.add(t, np.arange(4), np.array([[1.0], [1.1], [2.0], [2.1]]))
    >>> trajectory_groups(log, 2, n_windows=5).tolist()
    [0, 0, 1, 1]
    """
    features = _window_means(log, n_windows).mean(2).T
    return _kmeans(features, n_groups, seed)


def descent_groups(log: LossLog, n_groups: int, *, seed: int = 0) -> Int[np.ndarray, " K"]:
    """k-means of how the loss falls *within* a round: the mean curve over steps, less its mean.

    Clients that adapt fast (few classes, noisy images that are learnt by heart) have steep curves.

    Parameters
    ----------
    log : LossLog
    n_groups : int
    seed : int

    Raises
    ------
    InputError
        The log is empty.

    Examples
    --------
    >>> log = LossLog(4)
    >>> log.add(0, np.arange(4), np.array([[2.0, 1.9], [1.0, 0.9], [2.0, 1.0], [1.0, 0.1]]))
    >>> descent_groups(log, 2).tolist()
    [0, 0, 1, 1]
    """
    curves = _window_means(log, 1)[0]
    curves = curves - curves.mean(1, keepdims=True)
    spread = curves.std(0)
    return _kmeans(curves / np.where(spread > 0, spread, 1), n_groups, seed)


def _window_means(log: LossLog, n_windows: int) -> np.ndarray:
    """Mean losses, shape (windows, K, S)."""
    if len(log) == 0:
        raise InputError("the loss log is empty")
    table = log.step_losses()
    means = []
    for part in np.array_split(table, min(n_windows, len(table))):
        seen = np.isfinite(part)
        count = seen.sum(0)
        mean = np.where(seen, part, 0).sum(0) / np.maximum(count, 1)
        overall = np.where(seen, part, 0).sum((0, 1)) / np.maximum(seen.sum((0, 1)), 1)
        means.append(np.where(count > 0, mean, overall))
    return np.stack(means)


def _kmeans(features: np.ndarray, n_groups: int, seed: int) -> np.ndarray:
    model = KMeans(n_groups, n_init=20, random_state=seed)
    with threadpool_limits(1):  # a few dozen points: waiting for threads would cost seconds
        return first_member_order(model.fit_predict(features))


# --- IFCA ----------------------------------------------------------------------------------------


@dataclass
class Clustered:
    """What a clustered method ends with: a group and a model for every client."""

    labels: np.ndarray
    models: np.ndarray


def run_ifca(
    trainer: Trainer,
    n_groups: int,
    rounds: int,
    per_round: int,
    *,
    init_scale: float = 0.1,
    seed: int = 0,
) -> Clustered:
    """Iterative Federated Clustering Algorithm with model averaging (Ghosh et al. 2020).

    Every sampled client receives all models, picks the one with the smallest loss on its data and
    trains it; each model is averaged over the clients that picked it.

    Parameters
    ----------
    trainer : Trainer
    n_groups : int
        Must be known beforehand.
    rounds, per_round : int
    init_scale : float
        Standard deviation of what is added to the initial weights to make the models differ.
    seed : int
        Of the initial weights and of the sampling (the same clients as federated averaging).

    Returns
    -------
    Clustered

    Raises
    ------
    InputError
        Fewer than one group.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> from practicum.federated.fedgwc.training import LocalSGD
    >>> plan = partition(digits().labels, 6, "conflict", n_per_client=100)
    >>> trainer = LocalSGD(client_data(digits(), plan, 20), learning_rate=0.2)
    >>> found = run_ifca(trainer, 2, rounds=30, per_round=6, init_scale=0.5)
    >>> bool((found.labels == plan.groups).all() or (found.labels == 1 - plan.groups).all())
    True
    """
    if n_groups < 1:
        raise InputError(f"n_groups is {n_groups}; at least 1 expected")
    rng = np.random.default_rng([seed, 2])
    shape = (n_groups, *trainer.shape)
    noise = rng.normal(scale=init_scale, size=shape)
    models = (trainer.initial() + noise).astype(np.float32)
    everyone = np.arange(len(trainer.sizes))
    for number in range(rounds):
        clients = sample_clients(everyone, per_round, seed, number)
        choice = _smallest_loss(trainer, models, clients)
        trained, losses = trainer.train(models[choice], clients, number)
        fine = usable(trained, losses)
        for group in np.unique(choice[fine]):
            own = fine & (choice == group)
            models[group] = weighted_average(trained[own], trainer.sizes[clients[own]])
    labels = _smallest_loss(trainer, models, everyone)
    return Clustered(labels, models[labels])


def _smallest_loss(trainer: Trainer, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
    losses = [trainer.losses(np.repeat(model[None], len(clients), 0), clients) for model in models]
    return np.argmin(losses, axis=0)


# --- CFL -----------------------------------------------------------------------------------------


def update_groups(updates: Float[np.ndarray, "K ..."], n_groups: int = 2) -> Int[np.ndarray, " K"]:
    """Clients by the direction of their updates: complete linkage on cosine dissimilarity.

    The split of Clustered Federated Learning (Sattler et al. 2020): the largest similarity across
    the two groups is as small as possible.

    Parameters
    ----------
    updates : array, shape (K, ...)
        Change of the parameters by each client's local training.
    n_groups : int

    Raises
    ------
    InputError
        Fewer clients than groups.

    Examples
    --------
    >>> update_groups(np.array([[1.0, 0.1], [1.0, 0.0], [-1.0, 0.2]])).tolist()
    [0, 0, 1]
    """
    if len(updates) < n_groups:
        raise InputError(f"{len(updates)} clients for {n_groups} groups")
    similarity = cosine_similarity(updates.reshape(len(updates), -1))
    model = AgglomerativeClustering(n_groups, metric="precomputed", linkage="complete")
    return first_member_order(model.fit_predict(np.maximum(1 - similarity, 0)))


def run_cfl(
    trainer: Trainer, rounds: int, split_at: int, *, average_over: int = 1, n_groups: int = 2
) -> Clustered:
    """Clustered Federated Learning with one split, every client in every round.

    CFL compares all clients' updates, so it needs full participation: for the same number of client
    updates it gets m / K as many rounds.

    Parameters
    ----------
    trainer : Trainer
    rounds : int
        In total.
    split_at : int
        Round after which the federation is split.
    average_over : int
        Rounds whose updates are summed before they are compared (1 as published).
    n_groups : int

    Returns
    -------
    Clustered

    Raises
    ------
    InputError
        ``split_at`` is not within the rounds.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> from practicum.federated.fedgwc.training import LocalSGD
    >>> plan = partition(digits().labels, 6, "conflict", n_per_client=100)
    >>> trainer = LocalSGD(client_data(digits(), plan, 20), learning_rate=0.2)
    >>> found = run_cfl(trainer, rounds=20, split_at=10)
    >>> bool((found.labels == plan.groups).all() or (found.labels == 1 - plan.groups).all())
    True
    """
    if not 1 <= split_at <= rounds:
        raise InputError(
            f"split_at is {split_at}, rounds {rounds}; a split needs a round before it"
        )
    n_clients = len(trainer.sizes)
    everyone = np.arange(n_clients)
    model, updates = trainer.initial(), np.zeros((n_clients, *trainer.shape))
    for number in range(split_at):
        start = np.repeat(model[None], n_clients, 0)
        trained, losses = trainer.train(start, everyone, number)
        fine = usable(trained, losses)
        model = weighted_average(trained[fine], trainer.sizes[fine])
        if number >= split_at - average_over:
            updates[fine] += (trained - start)[fine]
    labels = update_groups(updates, n_groups)
    cohorts = [
        Cohort(np.flatnonzero(labels == g), model, rounds - split_at) for g in range(n_groups)
    ]
    run_cohorts(trainer, cohorts, n_clients, start=split_at)
    return Clustered(labels, models_of(cohorts, n_clients))
