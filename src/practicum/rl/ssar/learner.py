"""What every stacked learner can do, the networks they share, and the loop that trains them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32

from practicum.errors import InputError
from practicum.models.stacked import StackedMLP, Streams
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.replay import Batch, Replay

EXPLORATION = 0.1  # standard deviation of the noise on actions in [-1, 1]


@dataclass(frozen=True)
class Sizes:
    """What all members of a stack share.

    Parameters
    ----------
    states, actions : int
        Dimensions.
    hidden : tuple of int
        Widths of policies and critics.
    layer_norm : bool
        LayerNorm in the critics, before each ReLU.
    gamma : float
        Discount.
    tau : float
        Polyak rate of the target networks.
    lr : float
        Adam's, for policies and critics.
    steps : int
        Length of the training, by which schedules are laid out.
    beta_hidden : tuple of int
        Widths of the coefficient network.
    device : str

    Examples
    --------
    >>> Sizes(states=3, actions=1).hidden
    (256, 256)
    """

    states: int
    actions: int
    hidden: tuple[int, ...] = (256, 256)
    layer_norm: bool = True
    gamma: float = 0.99
    tau: float = 0.005
    lr: float = 3e-4
    steps: int = 100_000
    beta_hidden: tuple[int, ...] = (128, 128, 128)
    device: str = "cpu"


class Learner(ABC):
    """Members trained side by side; what is random comes from each member's seed.

    Parameters
    ----------
    sizes : Sizes
    seeds : sequence of int
        One for each member: first weights, and the noise of its updates.
    """

    def __init__(self, sizes: Sizes, seeds: Sequence[int]) -> None:
        self.sizes, self.seeds, self.members = sizes, list(seeds), len(seeds)
        self.device = torch.device(sizes.device)
        self.streams = Streams([seed_of(seed, 1) for seed in seeds], sizes.device)
        self.updates = 0

    @abstractmethod
    def update(self, batch: Batch) -> None:
        """One step of gradient descent of every network of every member."""

    @abstractmethod
    def act(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """Actions in [-1, 1] at normalised states, without noise or gradients."""

    @abstractmethod
    def networks(self) -> dict[str, StackedMLP]:
        """What has to be kept of the members, by name."""

    def select(self, members: Sequence[int]) -> Learner:
        """A copy of these members (one may occur several times), with new optimisers."""
        new = copy.copy(self)
        new.seeds, new.members = [self.seeds[i] for i in members], len(members)
        new.streams = Streams([seed_of(seed, 6) for seed in new.seeds], self.sizes.device)
        for name, value in vars(self).items():
            if isinstance(value, StackedMLP):
                frozen = not any(p.requires_grad for p in value.parameters())
                setattr(new, name, value.select(members).requires_grad_(not frozen))
        new._restart(list(members))
        return new

    @abstractmethod
    def _restart(self, members: list[int]) -> None:
        """What else belongs to each member of a copy, and its optimisers."""

    def explore(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """Actions to try online: with Gaussian noise of 0.1, unless the policy is random itself."""
        action = self.act(states)
        return (action + EXPLORATION * self.streams.normal(*action.shape[1:])).clamp(-1, 1)

    def q(
        self, states: Float[Tensor, "s b ds"], actions: Float[Tensor, "s b da"]
    ) -> Float[Tensor, "s b"]:
        """The smaller of the twin critics' values, in units of the scaled reward."""
        critic = self.networks().get("critic")
        if critic is None:
            raise InputError(f"{type(self).__name__} has no critic")
        with torch.no_grad():
            return critic(torch.cat([states, actions], dim=-1)).amin(dim=0).squeeze(-1)

    def actor(self, outputs: int) -> StackedMLP:
        """A policy network; members with one seed start from the same weights."""
        widths = (self.sizes.states, *self.sizes.hidden, outputs)
        return StackedMLP(widths, [seed_of(s, 2) for s in self.seeds]).to(self.device)

    def twin_critic(self) -> StackedMLP:
        """Two critics Q(s, a) for every member."""
        widths = (self.sizes.states + self.sizes.actions, *self.sizes.hidden, 1)
        seeds = [seed_of(s, 3) for s in self.seeds]
        net = StackedMLP(widths, seeds, copies=2, layer_norm=self.sizes.layer_norm)
        return net.to(self.device)


def seed_of(seed: int, part: int) -> int:
    """A seed of its own for each part of a learner.

    Parameters
    ----------
    seed, part : int

    Raises
    ------
    ValueError
        A negative number.

    Examples
    --------
    >>> seed_of(0, 1) == seed_of(0, 2)
    False
    """
    return int(np.random.SeedSequence([seed, part]).generate_state(1, np.uint64)[0] >> 2)


def train(
    learner: Learner,
    replay: Replay,
    steps: int,
    *,
    every: int | None = None,
    then: Callable[[int], None] | None = None,
) -> None:
    """Update a learner, calling ``then(step)`` every so many steps and after the last.

    Parameters
    ----------
    learner : Learner
    replay : Replay
        With as many members.
    steps : int
    every : int, optional
    then : callable, optional

    Raises
    ------
    InputError
        The learner and the batches are of different numbers of members.

    Examples
    --------
    >>> from practicum.rl.ssar import BehaviourCloning, pendulum_mix
    >>> data = pendulum_mix("expert", episodes=5, rng=np.random.default_rng(0))
    >>> learner = BehaviourCloning(Sizes(3, 1, hidden=(16,)), seeds=[0, 1])
    >>> train(learner, Replay([data], of=[0, 0], seeds=[0, 1], batch=32), steps=5)
    """
    if learner.members != len(replay.of):
        raise InputError(f"{learner.members} members, but batches for {len(replay.of)}")
    for step in range(1, steps + 1):
        learner.update(replay.sample())
        if then is not None and ((every and step % every == 0) or step == steps):
            then(step)


def policy_of(
    learner: Learner, replay: Replay
) -> Callable[[Float[np.ndarray, "s n ds"]], Float32[np.ndarray, "s n da"]]:
    """All members' policies on raw observations (members, n, ds), for a vectorised environment.

    Parameters
    ----------
    learner : Learner
    replay : Replay
        Whose normalisation the members were trained with.

    Raises
    ------
    RuntimeError
        Called with observations of another shape.

    Examples
    --------
    >>> from practicum.rl.ssar import BehaviourCloning, pendulum_mix
    >>> data = pendulum_mix("expert", episodes=5, rng=np.random.default_rng(0))
    >>> learner = BehaviourCloning(Sizes(3, 1, hidden=(16,)), seeds=[0, 1])
    >>> policy = policy_of(learner, Replay([data], of=[0, 0], seeds=[0, 1]))
    >>> policy(np.zeros((2, 5, 3), np.float32)).shape
    (2, 5, 1)
    """
    mean, std = replay.mean_std()

    def act(observations: Float[np.ndarray, "s n ds"]) -> Float32[np.ndarray, "s n da"]:
        states = ((observations - mean) / std).astype(np.float32)
        return learner.act(torch.as_tensor(states, device=learner.device)).cpu().numpy()

    return act
