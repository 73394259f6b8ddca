"""Three small checks: does a reward's estimate converge, what is sent, what the score orders."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from practicum.data.clients import LabelledImages, client_data, partition
from practicum.errors import InputError
from practicum.federated.fedgwc.interaction import PublishedInteraction, pair_means
from practicum.federated.fedgwc.losses import gaussian_rewards
from practicum.federated.fedgwc.scores import wasserstein_adjusted_silhouette


def reward_convergence(
    n_clients: int, per_round: int, rounds: int, rng: np.random.Generator, *, moving: bool
) -> dict[str, Any]:
    """Error of a pair's estimated reward against rounds, where the truth is known.

    All clients draw losses from one Gaussian, so the share of a reward in its round's sum is 1/m on
    average for every pair.

    Parameters
    ----------
    n_clients, per_round, rounds : int
    rng : numpy.random.Generator
    moving : bool
        The published moving average instead of the mean.

    Returns
    -------
    dict
        ``error`` (root mean square over pairs) after ``at_round`` rounds, powers of two; ``slope``
        of their logarithms over the last three octaves; for the moving average ``floor`` =
        sd sqrt(rate / (2 - rate)) and ``floor_ratio``, error over floor in those octaves.

    Raises
    ------
    InputError
        Fewer than 512 rounds.

    Examples
    --------
    >>> cell = reward_convergence(6, 3, 512, np.random.default_rng(0), moving=False)
    >>> bool(cell["error"][-1] < cell["error"][0])
    True
    """
    if rounds < 512:
        raise InputError(f"{rounds} rounds; a slope needs at least 512")
    marks = 2 ** np.arange(6, int(np.log2(rounds)) + 1)
    shares = np.full((rounds, n_clients), np.nan)
    published = PublishedInteraction(n_clients, per_round)
    off = ~np.eye(n_clients, dtype=bool)
    errors = []
    for t in range(rounds):
        clients = rng.choice(n_clients, per_round, replace=False)
        reward = gaussian_rewards(rng.normal(2.0, 0.5, (per_round, 8)))
        shares[t, clients] = reward / reward.sum()
        if moving:
            published.update(clients, reward)
        if t + 1 in marks:
            means, counts = (published.matrix, off) if moving else pair_means(shares[: t + 1])
            errors.append(_rms((means - 1 / per_round)[off & (counts > 0)]))
    error, late = np.array(errors), marks >= marks[-1] // 8
    cell: dict[str, Any] = {"at_round": marks.astype(float), "error": error}
    cell["slope"] = float(np.polyfit(np.log(marks[late]), np.log(error[late]), 1)[0])
    if moving:
        floor = float(np.nanstd(shares) * np.sqrt(published.rate / (2 - published.rate)))
        cell |= {"floor": floor, "floor_ratio": float(error[late].mean() / floor)}
    return cell


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt((x**2).mean()))


def message_bytes(way: str, n_clients: int, seed: int, n_models: int = 2) -> dict[str, float]:
    """Bytes that one client and round exchanges, counted on the messages of a Flower grid.

    Parameters
    ----------
    way : {"fedgwc", "fedavg", "ifca"}
        IFCA's are FedAvg's plus the further models each client receives.
    n_clients : int
    seed : int
    n_models : int
        Of IFCA.

    Returns
    -------
    dict with ``down``, ``up``, ``bytes`` (both) and ``model`` (one model alone)

    Raises
    ------
    InputError
        An unknown way.
    MissingExtra
        Flower is not installed.

    Examples
    --------
    >>> fedavg, fedgwc = (message_bytes(way, 6, 0)["bytes"] for way in ("fedavg", "fedgwc"))
    >>> bool(fedavg < fedgwc < 1.01 * fedavg)
    True
    """
    from flwr.serverapp.strategy import FedAvg

    from practicum.federated.fedgwc.strategy import (
        LOSSES,
        FedGWC,
        initial_arrays,
        softmax_client_app,
    )

    from .._flower import ConfigRecord, InProcessGrid, quiet  # noqa: TID252

    if way not in ("fedgwc", "fedavg", "ifca"):
        raise InputError(f"no way {way!r}", "use fedgwc, fedavg or ifca")

    class Counting(InProcessGrid):
        """Counts what training messages hold."""

        down = up = losses = messages = 0

        def _answer(self, message: Any) -> Any:
            reply = super()._answer(message)
            if message.metadata.message_type == "train":
                metrics = next(iter(reply.content.metric_records.values()))
                self.messages += 1
                self.down += payload(message.content)
                self.up += payload(reply.content)
                self.losses += len(LOSSES) + 8 * len(metrics[LOSSES])
            return reply

    pool = np.random.default_rng(seed).random((400, 14, 14), np.float32)
    images = LabelledImages(pool, np.arange(400) % 10, 10, "random")
    data = client_data(images, partition(images.labels, n_clients, "iid", n_per_client=40), 10)
    app = softmax_client_app(lambda client, n: data.only(client), batch_size=8)
    grid, start = Counting(app, n_clients), initial_arrays(data)
    with quiet(logging.ERROR):  # it warns that nothing is evaluated, which is meant
        if way == "fedgwc":
            FedGWC(fraction_train=0.5).start(grid, start, 3)
        else:
            averaging = FedAvg(
                fraction_train=0.5, min_available_nodes=n_clients, fraction_evaluate=0.0
            )
            averaging.start(grid, start, 3, train_config=ConfigRecord({"local-steps": 8}))
    model = float(sum(len(array.data) for array in start.values()))
    down, up = grid.down / grid.messages, grid.up / grid.messages
    if way != "fedgwc":  # a client of theirs has no reason to send its losses
        up -= grid.losses / grid.messages
    if way == "ifca":
        down += (n_models - 1) * model
    return {"down": down, "up": up, "bytes": down + up, "model": model}


def payload(records: Any) -> int:
    """Bytes of a RecordDict: arrays as they are sent, eight a number, names as text.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> payload({"m": {"loss": [0.1, 0.2], "n": 5}})
    29
    """
    total = 0
    for record in records.values():
        for name, value in record.items():
            total += len(name)
            if hasattr(value, "stype"):  # a flwr Array
                total += len(value.data)
            else:
                total += len(value) if isinstance(value, str | bytes) else 8 * np.size(value)
    return total


def score_ranking(
    class_counts: np.ndarray, n_partitions: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Whether the Wasserstein Adjusted Score orders partitions by within-cluster imbalance.

    Partitions run from sorted by degree of imbalance to random (a uniform share of the clients is
    dealt out at random), into 2 to 5 clusters.

    Parameters
    ----------
    class_counts : array, shape (K, C)
    n_partitions : int
    rng : numpy.random.Generator

    Returns
    -------
    dict
        ``spearman_fixed``: rank correlation of the score with minus the within-cluster variance of
        sorted frequencies, mean over the numbers of clusters; ``spearman_any``: over all partitions
        together; ``changed`` of ``checked`` scores when every client's classes are renamed; curves
        ``score``, ``variance``, ``n_groups``.

    Raises
    ------
    InputError
        Fewer than 40 partitions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cell = score_ranking(rng.integers(1, 50, (12, 4)), 60, rng)
    >>> cell["changed"], cell["checked"]
    (0.0, 60.0)
    """
    if n_partitions < 40:
        raise InputError(f"{n_partitions} partitions; at least 40 needed")
    frequencies = -np.sort(-class_counts / class_counts.sum(1, keepdims=True), axis=1)
    rank = frequencies[:, 0].argsort().argsort()
    n_groups = rng.integers(2, 6, n_partitions)
    score, variance, changed = np.empty(n_partitions), np.empty(n_partitions), 0
    for i, k in enumerate(n_groups):
        dealt = rng.random(len(rank)) < rng.random()
        labels = np.where(dealt, rng.integers(k, size=len(rank)), rank * k // len(rank))
        labels[:k] = np.arange(k)  # no cluster is empty
        score[i] = wasserstein_adjusted_silhouette(class_counts, labels)
        variance[i] = sum(
            ((frequencies[labels == g] - frequencies[labels == g].mean(0)) ** 2).sum()
            for g in range(k)
        )
        renamed = rng.permuted(class_counts, axis=1)
        changed += abs(wasserstein_adjusted_silhouette(renamed, labels) - score[i]) > 1e-12
    per_number = [spearmanr(score[n_groups == k], -variance[n_groups == k])[0] for k in range(2, 6)]
    return {
        "spearman_fixed": float(np.mean(per_number)),
        "spearman_any": float(spearmanr(score, -variance)[0]),
        "changed": float(changed),
        "checked": float(n_partitions),
        "score": score,
        "variance": variance,
        "n_groups": n_groups.astype(float),
    }
