"""One federation, many ways to cluster it: everything that is compared, on the same draws.

All ways see the same data, the same batches and (until they split) the same sampled clients, and
get the same budget of client updates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from practicum.data.clients import ClientData
from practicum.errors import InputError
from practicum.federated.fedgwc.baselines import (
    descent_groups,
    run_cfl,
    run_ifca,
    trajectory_groups,
)
from practicum.federated.fedgwc.grouping import (
    LossClusterer,
    first_member_order,
    interaction_of,
)
from practicum.federated.fedgwc.losses import LossLog
from practicum.federated.fedgwc.scores import wasserstein_adjusted_silhouette
from practicum.federated.fedgwc.training import Cohort, Trainer, cohorts_of, models_of, run_cohorts
from practicum.federated.fedgwc.tree import ClusterTree, train_tree


@dataclass(frozen=True)
class Settings:
    """The size of a comparison and the tuned constants of the baselines.

    Attributes
    ----------
    per_round, rounds : int
        m, and the rounds of one unclustered federation; rounds x m is everybody's budget.
    split_at : int
        Round at which the loss-based ways split, when they are told the number of groups.
    n_groups : int
        That number.
    eps : float
        Of the published procedure. The squared change of its matrix has a noise floor that grows
        like 1/K^2: the published 1e-5 (K = 100) corresponds to 1.7e-4 at K = 24 and is never
        reached there; 1e-4 gave the published procedure its best agreement on tuning seeds.
    proximal, ifca_scale, cfl_split_share, cfl_average
        FedProx's penalty, IFCA's initial scale, the share of CFL's rounds before its split and the
        rounds whose updates it sums: tuned on seeds that no study uses.
    checkpoints : tuple of int
        Rounds after which the loss-based ways are asked again.
    """

    per_round: int
    rounds: int
    split_at: int
    n_groups: int = 2
    eps: float = 1e-4
    proximal: float = 0.1
    ifca_scale: float = 0.03
    cfl_split_share: float = 1 / 15
    cfl_average: int = 10
    checkpoints: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.split_at < self.rounds:
            raise InputError(
                f"split_at is {self.split_at} of {self.rounds} rounds",
                "a split needs rounds before and after it",
            )

    @classmethod
    def of(
        cls, *, rounds: int, split_at: int, per_round: int, n_clients: int, n_groups: int = 2
    ) -> Settings:
        """For a federation of so many clients: eps by the noise floor, five checkpoints."""
        marks = {max(1, round(rounds * f)) for f in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)}
        return cls(
            per_round=per_round,
            rounds=rounds,
            split_at=split_at,
            n_groups=n_groups,
            eps=1e-5 if n_clients >= 100 else 1e-4 * (24 / n_clients) ** 2,
            checkpoints=tuple(sorted(marks)),
        )


@dataclass
class Outcome:
    """What one way ended with.

    Attributes
    ----------
    accuracy : array, shape (K,)
        Of each client's model on its test data.
    labels : int array, shape (K,), or None
        Groups after all rounds (None: there are none, or as many as clients).
    split_labels : int array or None
        Groups that the models were trained in.
    path : dict of int to int array
        Groups after each checkpoint.
    own_labels : int array or None
        Groups where the number of them is left to the method.
    tree : ClusterTree or None
        Where clusters are split one after the other.
    """

    accuracy: np.ndarray
    labels: np.ndarray | None = None
    split_labels: np.ndarray | None = None
    path: Mapping[int, np.ndarray] | None = None
    own_labels: np.ndarray | None = None
    tree: ClusterTree | None = None


def loss_based(n_groups: int | None, seed: int) -> dict[str, Callable[[LossLog], np.ndarray]]:
    """Every way to group clients that needs a loss log alone.

    Parameters
    ----------
    n_groups : int or None
        None leaves the number to those that can choose it.
    seed : int

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> sorted(loss_based(2, 0))
    ['centred', 'column', 'descent', 'joint', 'row', 'trajectory']
    """

    def clusterer(**options: str) -> Callable[[LossLog], np.ndarray]:
        model = LossClusterer(n_groups, random_state=seed, min_co_samples=0, **options)

        def group(log: LossLog) -> np.ndarray:
            with warnings.catch_warnings():
                # short logs have pairs that never met; how much that costs is what is looked at
                warnings.filterwarnings("ignore", message=".*never sampled together")
                warnings.filterwarnings("ignore", message=".*published rule splits nothing")
                return first_member_order(model.fit(log).labels_)

        return group

    ways = {
        "joint": clusterer(estimator="joint"),
        "centred": clusterer(estimator="centred"),
        "column": clusterer(estimator="ema", view="column"),
        "row": clusterer(estimator="ema", view="row"),
    }
    if n_groups is not None:
        ways["trajectory"] = lambda log: trajectory_groups(log, n_groups, seed=seed)
        ways["descent"] = lambda log: descent_groups(log, n_groups, seed=seed)
    return ways


def run_all(
    make_trainer: Callable[[float], Trainer], groups: np.ndarray, settings: Settings, seed: int
) -> tuple[dict[str, Outcome], LossLog]:
    """Train and cluster one federation in every way.

    Parameters
    ----------
    make_trainer : callable
        ``make_trainer(proximal)`` gives a trainer (:class:`LocalSGD` or the like).
    groups : int array, shape (K,)
        The true groups, for the oracle.
    settings : Settings
    seed : int
        Of the sampling of clients and of random starts.

    Returns
    -------
    outcomes : dict of str to Outcome
    log : LossLog
        Losses of the unclustered federation.

    Raises
    ------
    InputError
        The settings do not fit the federation.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> from practicum.federated.fedgwc.training import LocalSGD
    >>> plan = partition(digits().labels, 12, "conflict", n_per_client=100)
    >>> data = client_data(digits(), plan, 20)
    >>> settings = Settings(per_round=4, rounds=40, split_at=20)
    >>> outcomes, _ = run_all(lambda mu: LocalSGD(data, proximal=mu), plan.groups, settings, 0)
    >>> len(outcomes), bool(outcomes["oracle"].accuracy.mean() > outcomes["fedavg"].accuracy.mean())
    (14, True)
    """
    trainer = make_trainer(0.0)
    log, start, final = _federation(trainer, settings, seed)
    n_clients, budget = len(groups), settings.rounds * settings.per_round
    common = trainer.accuracy(np.repeat(final[None], n_clients, 0))
    outcomes = {"fedavg": Outcome(common)}

    found = _groups_over_time(log, settings, seed)
    wanted = {name: labels[settings.split_at] for name, labels in found.items()}
    wanted["oracle"] = first_member_order(groups)
    rng = np.random.default_rng([seed, 4])
    wanted["shuffled"] = first_member_order(rng.permutation(wanted["joint"]))
    accuracy = _train_groups(trainer, wanted, start, settings, seed)
    for name, labels in wanted.items():
        outcomes[name] = Outcome(accuracy[name], split_labels=labels)
    own = loss_based(None, seed)
    for name, path in found.items():
        outcomes[name].path = path
        outcomes[name].labels = path[settings.rounds]
        if name in own:
            outcomes[name].own_labels = own[name](log)

    outcomes["official"] = _official(trainer, log, common, settings, seed)
    outcomes["fedprox"] = Outcome(_fedprox(make_trainer(settings.proximal), settings, seed))
    ifca = run_ifca(
        trainer,
        settings.n_groups,
        settings.rounds,
        settings.per_round,
        init_scale=settings.ifca_scale,
        seed=seed,
    )
    full = max(2, budget // n_clients)
    cfl = run_cfl(
        trainer,
        full,
        max(1, round(settings.cfl_split_share * full)),
        average_over=settings.cfl_average,
        n_groups=settings.n_groups,
    )
    for name, clustered in (("ifca", ifca), ("cfl", cfl)):
        labels = first_member_order(clustered.labels)
        outcomes[name] = Outcome(trainer.accuracy(clustered.models), labels, labels)
    alone = cohorts_of(np.arange(n_clients), trainer.initial(), budget, settings.per_round)
    run_cohorts(trainer, alone, settings.per_round, seed=seed)
    outcomes["local"] = Outcome(trainer.accuracy(models_of(alone, n_clients)))
    return outcomes, log


def _federation(
    trainer: Trainer, settings: Settings, seed: int
) -> tuple[LossLog, np.ndarray, np.ndarray]:
    """Federated averaging: its loss log, its model at the split, its model at the end."""
    n_clients = len(trainer.sizes)
    log = LossLog(n_clients)

    def observe(_: int, number: int, clients: np.ndarray, losses: np.ndarray) -> None:
        log.add(number, clients, losses, trainer.sizes[clients])

    m = settings.per_round
    whole = Cohort(np.arange(n_clients), trainer.initial(), settings.split_at)
    run_cohorts(trainer, [whole], m, seed=seed, observe=observe)
    start = whole.model
    whole.rounds = settings.rounds - settings.split_at
    run_cohorts(trainer, [whole], m, seed=seed, start=settings.split_at, observe=observe)
    return log, start, whole.model


def _groups_over_time(
    log: LossLog, settings: Settings, seed: int
) -> dict[str, dict[int, np.ndarray]]:
    times = sorted({*settings.checkpoints, settings.split_at, settings.rounds})
    logs = {t: log.first(t) for t in times}
    ways = loss_based(settings.n_groups, seed)
    return {name: {t: way(logs[t]) for t in times} for name, way in ways.items()}


def _train_groups(
    trainer: Trainer,
    wanted: Mapping[str, np.ndarray],
    start: np.ndarray,
    settings: Settings,
    seed: int,
) -> dict[str, np.ndarray]:
    """Accuracy of cluster models for every grouping; equal groupings are trained once."""
    n_clients = len(trainer.sizes)
    left = (settings.rounds - settings.split_at) * settings.per_round
    cohorts: dict[bytes, list[Cohort]] = {}
    for labels in wanted.values():
        if labels.tobytes() not in cohorts:
            cohorts[labels.tobytes()] = cohorts_of(labels, start, left, settings.per_round)
    run_cohorts(
        trainer,
        [c for part in cohorts.values() for c in part],
        settings.per_round,
        seed=seed,
        start=settings.split_at,
    )
    accuracy = {key: trainer.accuracy(models_of(part, n_clients)) for key, part in cohorts.items()}
    return {name: accuracy[labels.tobytes()] for name, labels in wanted.items()}


def _official(
    trainer: Trainer, log: LossLog, common: np.ndarray, settings: Settings, seed: int
) -> Outcome:
    """The published procedure from the first round on, the number of groups left to it."""
    n_clients = len(trainer.sizes)

    def tree() -> ClusterTree:
        return ClusterTree(
            n_clients, settings.per_round, estimator="ema", eps=settings.eps, seed=seed
        )

    # until it splits it is federated averaging on the same draws: the log tells whether it does
    trial = tree()
    for number, (clients, losses, sizes) in enumerate(log):
        if trial.observe("0", number, clients, losses, sizes):
            break
    else:
        labels = np.zeros(n_clients, dtype=int)
        return Outcome(common, labels, labels, own_labels=labels, tree=trial)
    split = tree()
    models = train_tree(split, trainer, settings.rounds * settings.per_round)
    labels = first_member_order(split.labels)
    accuracy = trainer.accuracy(models)
    return Outcome(accuracy, labels, labels, own_labels=labels, tree=split)


def _fedprox(trainer: Trainer, settings: Settings, seed: int) -> np.ndarray:
    whole = Cohort(np.arange(len(trainer.sizes)), trainer.initial(), settings.rounds)
    run_cohorts(trainer, [whole], settings.per_round, seed=seed)
    return trainer.accuracy(models_of([whole], len(trainer.sizes)))


def measure(
    outcomes: Mapping[str, Outcome], data: ClientData, log: LossLog, *, truth: bool
) -> dict[str, dict[str, Any]]:
    """Numbers of every way: accuracy, agreement with the true groups, imbalance score.

    Parameters
    ----------
    outcomes, log
        From :func:`run_all`.
    data : ClientData
    truth : bool
        Whether ``data.groups`` means anything.

    Returns
    -------
    dict of str to dict
        ``accuracy``, ``worst`` and, where they exist, ``ari``, ``was``, ``ari_split``, ``n_own``,
        ``ari_own``; curves ``client_accuracy``, ``groups``, ``labels`` (of the whole log),
        ``trained_labels`` (at the split), ``ari_path``, ``rounds_path``, ``matrix``, and of a tree
        ``tree_labels`` (before and after each split) and ``tree_at`` (their rounds, then the last).

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> data = client_data(digits(), partition(digits().labels, 3, "iid", n_per_client=30), 10)
    >>> half = Outcome(np.array([0.2, 0.4, 0.6]))
    >>> measure({"fedavg": half}, data, LossLog(3), truth=False)["fedavg"]["worst"]
    0.2
    """
    made = {}
    for name, out in outcomes.items():
        cell: dict[str, Any] = {
            "accuracy": float(out.accuracy.mean()),
            "worst": float(out.accuracy.min()),
            "client_accuracy": out.accuracy,
            "groups": data.groups,
        }
        agreement = partial(adjusted_rand_score, data.groups)
        if out.labels is not None:
            cell["labels"] = out.labels
            if 1 < len(np.unique(out.labels)) < len(out.labels):
                cell["was"] = wasserstein_adjusted_silhouette(data.class_counts, out.labels)
        if out.split_labels is not None:
            cell["trained_labels"] = out.split_labels
        if out.tree is not None:
            at, cell["tree_labels"] = out.tree.path()
            cell["tree_at"] = np.array([*at, out.tree.rounds])
        if out.own_labels is not None:
            cell["n_own"] = len(np.unique(out.own_labels))
        if truth:
            found = {"ari": out.labels, "ari_split": out.split_labels, "ari_own": out.own_labels}
            cell |= {key: agreement(labels) for key, labels in found.items() if labels is not None}
            if out.path is not None:
                cell["rounds_path"] = np.array(list(out.path), dtype=float)
                cell["ari_path"] = np.array([agreement(labels) for labels in out.path.values()])
        made[name] = cell
    matrices = {"joint": "joint", "centred": "centred", "column": "ema"}
    for name, estimator in matrices.items():
        if name in made:
            made[name]["matrix"] = interaction_of(log, estimator)
    return made
