"""Local training of many clients at once, and the rounds of federated averaging around it.

Softmax regression by local SGD, all sampled clients (of all clusters) as one stack of matrix
products. NumPy multiplies a stack matrix by matrix, so a client's numbers do not depend on which
others are in the stack: the same bits come out of this module, of an in-process Flower grid and of
a Ray simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.data.clients import ClientData
from practicum.errors import InputError
from practicum.federated.fedgwc.losses import LossLog

LANES = 48  # a longer stack of (64 x 197) batches leaves the second-level cache


@runtime_checkable
class Trainer(Protocol):
    """What federated training needs of a model: one array of parameters a client, stacked.

    ``sizes`` (K,) are the clients' numbers of training samples, ``shape`` is that of one model.
    """

    sizes: np.ndarray
    shape: tuple[int, ...]

    def initial(self) -> np.ndarray:
        """Parameters to start from."""

    def train(
        self, models: np.ndarray, clients: np.ndarray, round: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Trained parameters (L, ...) and losses (L, S) of L clients in one round."""

    def losses(self, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """Mean training loss (L,) of L models, each on its client's data."""

    def accuracy(self, models: np.ndarray) -> np.ndarray:
        """Test accuracy (K,) of every client's model."""


class LocalSGD:
    r"""Softmax regression trained by mini-batch SGD on each client's own data.

    Minimises cross-entropy :math:`+ \frac{\mu}{2} \|W - W_t\|^2` (:math:`\mu > 0`: FedProx), with
    S steps a round. Batches come from fresh shuffles of the client's data, drawn from a generator
    seeded by (seed, round, client) alone: arms that train the same client in the same round see the
    same batches, whatever else happens.

    Parameters
    ----------
    data : ClientData
        Stacked data of K clients.
    steps : int
        S, local steps a round.
    batch_size : int
        Clients with fewer samples fill their batches from the next shuffle.
    learning_rate : float
    proximal : float
        :math:`\mu`.
    seed : int
    ids : int array, shape (K,), optional
        The clients' numbers in the federation, where ``data`` holds only some of them.

    Raises
    ------
    InputError
        No step, no batch, a learning rate that is not positive, or a client without data.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> data = client_data(digits(), partition(digits().labels, 4, "iid", n_per_client=60), 20)
    >>> sgd = LocalSGD(data, steps=3, batch_size=10)
    >>> models, losses = sgd.train(np.stack([sgd.initial()] * 2), np.array([0, 3]), round=0)
    >>> models.shape, losses.shape, bool(abs(losses[0, 0] - np.log(10)) < 1e-5)
    ((2, 10, 65), (2, 3), True)
    """

    def __init__(
        self,
        data: ClientData,
        *,
        steps: int = 8,
        batch_size: int = 64,
        learning_rate: float = 0.05,
        proximal: float = 0.0,
        seed: int = 0,
        ids: Int[np.ndarray, " K"] | None = None,
    ) -> None:
        if steps < 1 or batch_size < 1 or not learning_rate > 0 or not proximal >= 0:
            raise InputError(
                f"steps {steps}, batch_size {batch_size}, learning_rate {learning_rate}, proximal "
                f"{proximal}",
                "steps and batch_size are at least 1, learning_rate is positive, proximal not "
                "negative",
            )
        if (data.train_size < 1).any():
            raise InputError(f"clients {np.flatnonzero(data.train_size < 1).tolist()} hold no data")
        n_clients, self._rows, d = data.train_x.shape
        # a constant last column makes the bias a row of the weights like any other
        self._x = _with_constant(data.train_x).reshape(-1, d + 1)
        self._y = data.train_y.reshape(-1)
        self._test_x, self._test_y = _with_constant(data.test_x), data.test_y
        self._test_size = data.test_size
        self.sizes = np.asarray(data.train_size)
        self.n_test = int(np.sum(data.test_size))
        self.shape = (data.n_classes, d + 1)
        self.steps, self.batch_size = steps, batch_size
        self.learning_rate, self.proximal = np.float32(learning_rate), np.float32(proximal)
        self.seed = seed
        self._ids = np.arange(n_clients) if ids is None else np.asarray(ids)
        self._place = {int(k): i for i, k in enumerate(self._ids)}
        self._batches: dict[tuple[int, int], np.ndarray] = {}

    def initial(self) -> Float[np.ndarray, "C D"]:
        """All zeros: the classes are equally likely, and no client is favoured."""
        return np.zeros(self.shape, np.float32)

    def train(
        self, models: Float[np.ndarray, "L C D"], clients: Int[np.ndarray, " L"], round: int
    ) -> tuple[Float[np.ndarray, "L C D"], Float[np.ndarray, "L S"]]:
        """One round of local training.

        Parameters
        ----------
        models : float32 array, shape (L, C, D)
            Where each client starts; the last column of D is the bias.
        clients : int array, shape (L,)
            Client numbers; the same client may occur several times (for several clusters or arms).
        round : int

        Returns
        -------
        models : float32 array, shape (L, C, D)
        losses : float32 array, shape (L, S)
            Mini-batch loss before each step; NaN or infinite where training diverged.
        """
        trained = np.empty(models.shape, np.float32)
        losses = np.empty((len(clients), self.steps), np.float32)
        self._forget(round)
        with np.errstate(all="ignore"):  # a diverged client is the caller's to notice
            for first in range(0, len(clients), LANES):
                part = slice(first, first + LANES)
                trained[part], losses[part] = self._train(models[part], clients[part], round)
        return trained, losses

    def _train(
        self, start: np.ndarray, clients: np.ndarray, round: int
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = start.astype(np.float32)
        losses = np.empty((len(clients), self.steps), np.float32)
        rows = np.stack([self._schedule(int(k), round) for k in clients])
        lane, column = np.arange(len(clients))[:, None], np.arange(self.batch_size)[None]
        step_size = self.learning_rate / np.float32(self.batch_size)
        for step in range(self.steps):
            x, y = self._x[rows[:, step]], self._y[rows[:, step]]
            logits = weights @ x.transpose(0, 2, 1)  # (L, C, batch): reductions run over rows
            logits -= logits.max(1, keepdims=True)
            odds = np.exp(logits)
            total = odds.sum(1)
            losses[:, step] = (np.log(total) - logits[lane, y, column]).mean(1)
            odds /= total[:, None]
            odds[lane, y, column] -= 1
            if self.proximal:
                weights -= self.learning_rate * self.proximal * (weights - start)
            weights -= step_size * (odds @ x)
        return weights, losses

    def _schedule(self, client: int, round: int) -> np.ndarray:
        """Rows of every batch of a client's round, shape (S, batch)."""
        key = (round, client)
        if key not in self._batches:
            place = self._place[client]
            own, wanted = int(self.sizes[place]), self.steps * self.batch_size
            rng = np.random.default_rng([self.seed, round, client])
            order = np.concatenate([rng.permutation(own) for _ in range(-(-wanted // own))])
            rows = order[:wanted].reshape(self.steps, self.batch_size)
            self._batches[key] = rows + place * self._rows
        return self._batches[key]

    def _forget(self, round: int) -> None:
        """Batches are shared by the clusters of one round; older rounds are not needed again."""
        if len(self._batches) > 4 * len(self._ids):
            self._batches = {k: v for k, v in self._batches.items() if k[0] == round}

    def losses(
        self, models: Float[np.ndarray, "L C D"], clients: Int[np.ndarray, " L"]
    ) -> Float[np.ndarray, " L"]:
        """Mean loss of each model on all training data of its client."""
        out = np.empty(len(clients))
        for i, (weights, client) in enumerate(zip(models, clients, strict=True)):
            place = self._place[int(client)]
            own = slice(place * self._rows, place * self._rows + int(self.sizes[place]))
            logits = self._x[own] @ weights.T
            logits -= logits.max(1, keepdims=True)
            right = np.take_along_axis(logits, self._y[own][:, None], axis=1)[:, 0]
            out[i] = (np.log(np.exp(logits).sum(1)) - right).mean()
        return out

    def accuracy(self, models: Float[np.ndarray, "K C D"]) -> Float[np.ndarray, " K"]:
        """Accuracy of each client's model on that client's test data."""
        with np.errstate(all="ignore"):
            guess = (models @ self._test_x.transpose(0, 2, 1)).argmax(1)
        own = np.arange(guess.shape[1]) < self._test_size[:, None]
        return ((guess == self._test_y) & own).sum(1) / np.maximum(self._test_size, 1)


def _with_constant(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((*x.shape[:2], 1), np.float32)], axis=2)


# --- rounds --------------------------------------------------------------------------------------


def weighted_average(
    models: Real[np.ndarray, "m ..."], n: Real[np.ndarray, " m"]
) -> Float[np.ndarray, "..."]:
    """Federated averaging, in the order and precision of Flower's (bit for bit the same).

    Parameters
    ----------
    models : array, shape (m, ...)
    n : array, shape (m,)
        Weights, usually sample counts.

    Raises
    ------
    InputError
        No model.

    Examples
    --------
    >>> weighted_average(np.array([[0.0], [4.0]], np.float32), np.array([3, 1])).tolist()
    [1.0]
    """
    if len(models) == 0:
        raise InputError("no model to average")
    total = float(np.sum(n))
    mean = models[0] * (float(n[0]) / total)
    for model, size in zip(models[1:], n[1:], strict=True):
        mean += model * (float(size) / total)
    return mean


def sample_clients(
    members: Int[np.ndarray, " k"],
    per_round: int,
    seed: int,
    round: int,
    chances: Float[np.ndarray, " k"] | None = None,
) -> Int[np.ndarray, " m"]:
    """The clients of one cluster that train in a round: min(m, k) of them, ascending.

    The draw depends on (seed, round, smallest member) alone, so every runtime draws the same.

    Parameters
    ----------
    members : int array, shape (k,)
    per_round, seed, round : int
    chances : array, shape (k,), optional
        Probability of each member; equal by default.

    Raises
    ------
    InputError
        No member to draw from.

    Examples
    --------
    >>> sample_clients(np.arange(10), 3, seed=0, round=0).tolist()
    [2, 3, 8]
    """
    if len(members) == 0:
        raise InputError("no client is available")
    rng = np.random.default_rng([seed, round, int(members.min()), 1])
    return np.sort(rng.choice(members, min(per_round, len(members)), replace=False, p=chances))


@dataclass
class Cohort:
    """Clients that share a model, and what is left of their budget of rounds."""

    members: np.ndarray
    model: np.ndarray
    rounds: int

    def updates_per_round(self, per_round: int) -> int:
        """Clients that train in a round of this cohort."""
        return min(per_round, len(self.members))


Observer = Callable[[int, int, np.ndarray, np.ndarray], None]  # cohort, round, clients, losses


def run_cohorts(
    trainer: Trainer,
    cohorts: Sequence[Cohort],
    per_round: int,
    *,
    seed: int = 0,
    start: int = 0,
    observe: Observer | None = None,
) -> None:
    """Federated averaging inside each cohort, all cohorts side by side; updates them in place.

    A client whose losses or parameters are not finite is left out of its round's average.

    Parameters
    ----------
    trainer : Trainer
    cohorts : sequence of Cohort
        Each runs its own number of rounds.
    per_round : int
        m.
    seed : int
        Of the sampling of clients.
    start : int
        Number of the first round (continuing an earlier phase).
    observe : callable, optional
        ``observe(cohort, round, clients, losses)`` after each cohort's round.
    """
    for step in range(max((c.rounds for c in cohorts), default=0)):
        number = start + step
        active = [i for i, c in enumerate(cohorts) if step < c.rounds]
        drawn = [sample_clients(cohorts[i].members, per_round, seed, number) for i in active]
        starts = np.concatenate(
            [np.repeat(cohorts[i].model[None], len(c), 0) for i, c in zip(active, drawn)]
        )
        trained, losses = trainer.train(starts, np.concatenate(drawn), number)
        ends = np.cumsum([len(c) for c in drawn])
        for i, clients, models, own in zip(
            active, drawn, np.split(trained, ends[:-1]), np.split(losses, ends[:-1])
        ):
            fine = usable(models, own)
            if fine.any():
                sizes = trainer.sizes[clients[fine]]
                cohorts[i].model = weighted_average(models[fine], sizes)
            if observe:
                observe(i, number, clients, own)


def usable(models: Float[np.ndarray, "m ..."], losses: Float[np.ndarray, "m S"]) -> np.ndarray:
    """Which clients' losses and parameters are all finite.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> usable(np.ones((2, 3)), np.array([[1.0], [np.nan]])).tolist()
    [True, False]
    """
    return np.isfinite(losses).all(1) & np.isfinite(models.reshape(len(models), -1)).all(1)


def models_of(cohorts: Sequence[Cohort], n_clients: int) -> Float[np.ndarray, "K ..."]:
    """Each client's model.

    Raises
    ------
    InputError
        A client belongs to no cohort.

    Examples
    --------
    >>> halves = [Cohort(np.array([0, 2]), np.zeros(1), 0), Cohort(np.array([1]), np.ones(1), 0)]
    >>> models_of(halves, 3)[:, 0].tolist()
    [0.0, 1.0, 0.0]
    """
    out: list = [None] * n_clients
    for cohort in cohorts:
        for client in cohort.members:
            out[client] = cohort.model
    if any(model is None for model in out):
        raise InputError("a client belongs to no cohort")
    return np.stack(out)


def cohorts_of(
    labels: Int[np.ndarray, " K"], model: np.ndarray, budget: int, per_round: int
) -> list[Cohort]:
    """One cohort a group, all starting from one model, within a budget of client updates.

    Every group runs a round of its own in each global round, so that two groups of twelve train
    twice as many clients a round as one federation and get half the rounds.

    Parameters
    ----------
    labels : int array, shape (K,)
    model : array
    budget : int
        Client updates (rounds x clients a round) to spend in total.
    per_round : int
        m.

    Raises
    ------
    InputError
        The budget is negative.

    Examples
    --------
    >>> [c.rounds for c in cohorts_of(np.arange(24) % 2, np.zeros(1), 3600, 6)]
    [300, 300]
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} client updates")
    groups = [np.flatnonzero(labels == g) for g in np.unique(labels)]
    cost = sum(min(per_round, len(g)) for g in groups)
    return [Cohort(g, model, budget // cost) for g in groups]


def federated_loss_log(trainer: Trainer, rounds: int, per_round: int, *, seed: int = 0) -> LossLog:
    """Federated averaging of one model for everybody, and the losses its clients report.

    Parameters
    ----------
    trainer : Trainer
    rounds, per_round : int
    seed : int
        Of the sampling of clients.

    Returns
    -------
    LossLog

    Raises
    ------
    InputError
        No round.

    Examples
    --------
    >>> from practicum.data.clients import client_data, digits, partition
    >>> data = client_data(digits(), partition(digits().labels, 6, "iid", n_per_client=60), 20)
    >>> federated_loss_log(LocalSGD(data), rounds=5, per_round=3).n_rounds
    5
    """
    if rounds < 1:
        raise InputError(f"{rounds} rounds; at least 1 expected")
    log = LossLog(len(trainer.sizes))

    def observe(_: int, number: int, clients: np.ndarray, losses: np.ndarray) -> None:
        log.add(number, clients, losses, trainer.sizes[clients])

    whole = Cohort(np.arange(len(trainer.sizes)), trainer.initial(), rounds)
    run_cohorts(trainer, [whole], per_round, seed=seed, observe=observe)
    return log
