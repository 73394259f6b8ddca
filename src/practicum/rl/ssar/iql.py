"""Implicit Q-learning (Kostrikov et al. 2022), stacked: a policy, and a judge of logged actions.

    V       E |tau - 1(u < 0)| u^2,  u = min_k Q'_k(s,a) - V(s)          (expectile regression)
    Q_k     E (Q_k(s,a) - r - gamma (1 - done) V(s'))^2
    policy  -E min(exp(inverse_temperature u), 100) log pi(a|s)

Nothing is asked of actions outside the log. ``Q >= V`` says of a logged action that it is at least
as good as the log's usual one there: the trust rule ``iql``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError
from practicum.models.stacked import StackedAdam, StackedMLP, polyak
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.learner import Learner, Sizes, seed_of, train
from practicum.rl.ssar.regularizer import gaussian_log_density
from practicum.rl.ssar.replay import Batch, Replay
from practicum.rl.ssar.trust import TrustReport, report_of_mask

LARGEST_WEIGHT = 100.0
LOG_STD = (-5.0, 2.0)
CHUNK = 20_000  # transitions judged at once


def expectile_loss(off: Float[Tensor, "s b"], expectile: Float[Tensor, "s"]) -> Float[Tensor, "s"]:
    """``mean |tau - 1(u < 0)| u^2`` of every member.

    Parameters
    ----------
    off : tensor (members, batch)
        u, target minus estimate.
    expectile : tensor (members,)
        tau in (0, 1): 0.5 gives the mean, towards 1 the best.

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> expectile_loss(torch.tensor([[1.0, -1.0]]), torch.tensor([0.7])).item()
    0.5
    """
    tau = expectile.unsqueeze(-1)
    return (torch.where(off > 0, tau, 1 - tau) * off.square()).mean(dim=1)


class IQL(Learner):
    """Implicit Q-learning, each member with its own expectile and temperature.

    Parameters
    ----------
    sizes : Sizes
        LayerNorm, where asked for, goes into Q and V.
    seeds : sequence of int
    expectiles : sequence of float, in (0, 1)
    inverse_temperatures : sequence of float
        0 clones the data, large values follow the advantage.

    Examples
    --------
    >>> learner = IQL(Sizes(3, 1, hidden=(16,)), seeds=[0, 1], expectiles=[0.7, 0.7])
    >>> learner.advantage(torch.zeros(2, 4, 3), torch.zeros(2, 4, 1)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        sizes: Sizes,
        seeds: Sequence[int],
        expectiles: Sequence[float],
        inverse_temperatures: Sequence[float] | None = None,
    ) -> None:
        super().__init__(sizes, seeds)
        inverse_temperatures = inverse_temperatures or [3.0] * len(seeds)
        wrong = [tau for tau in expectiles if not 0 < tau < 1]
        if wrong or len(expectiles) != len(seeds) or len(inverse_temperatures) != len(seeds):
            raise InputError(f"expectiles={list(expectiles)}: one in (0, 1) for each member")
        self.policy, self.critic = self.actor(sizes.actions), self.twin_critic()
        self.critic_target = self.critic.twin()
        seeds_v = [seed_of(s, 4) for s in self.seeds]
        widths = (sizes.states, *sizes.hidden, 1)
        self.value = StackedMLP(widths, seeds_v, layer_norm=sizes.layer_norm).to(self.device)
        shape = (1, self.members, 1, sizes.actions)
        self.log_std = torch.zeros(shape, device=self.device, requires_grad=True)
        self._optimize()
        self.expectile = torch.tensor(expectiles, dtype=torch.float32, device=self.device)
        self.sharpness = torch.tensor(inverse_temperatures, dtype=torch.float32, device=self.device)

    def _optimize(self) -> None:
        lr = self.sizes.lr
        self.policy_adam = StackedAdam([*self.policy.parameters(), self.log_std], lr)
        self.critic_adam = StackedAdam(self.critic.parameters(), lr)
        self.value_adam = StackedAdam(self.value.parameters(), lr)

    def _restart(self, members: list[int]) -> None:
        self.log_std = self.log_std.detach()[:, members].clone().requires_grad_()
        self.expectile, self.sharpness = self.expectile[members], self.sharpness[members]
        self._optimize()

    def update(self, batch: Batch) -> None:
        """One step of V, Q, policy and target."""
        self.updates += 1
        pair = torch.cat([batch.states, batch.actions], dim=-1)
        with torch.no_grad():
            target = self.critic_target(pair).amin(dim=0).squeeze(-1)
            ahead = self.value(batch.next_states).squeeze(-1)
            goal = batch.rewards + self.sizes.gamma * batch.going * ahead
        advantage = target - self.value(batch.states).squeeze(-1)
        expectile_loss(advantage, self.expectile).sum().backward()
        self.value_adam.step()
        q = self.critic(pair).squeeze(-1)
        (q - goal).square().mean(dim=-1).sum().backward()
        self.critic_adam.step()
        self._update_policy(batch, advantage.detach())
        polyak(self.critic_target, self.critic, self.sizes.tau)

    def _update_policy(self, batch: Batch, advantage: Float[Tensor, "s b"]) -> None:
        weight = (self.sharpness.unsqueeze(-1) * advantage).exp().clamp(max=LARGEST_WEIGHT)
        mean = self.policy(batch.states).tanh()
        log_std = self.log_std[0].clamp(*LOG_STD).expand_as(mean)
        density = gaussian_log_density(batch.actions, mean, log_std).sum(dim=-1)
        (-weight * density).mean(dim=1).sum().backward()
        self.policy_adam.step()

    def advantage(
        self, states: Float[Tensor, "s b ds"], actions: Float[Tensor, "s b da"]
    ) -> Float[Tensor, "s b"]:
        """min_k Q_k(s, a) - V(s)."""
        with torch.no_grad():
            return self.q(states, actions) - self.value(states).squeeze(-1)

    def act(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """The policy's mean."""
        with torch.no_grad():
            return self.policy(states).tanh()

    def networks(self) -> dict[str, StackedMLP]:
        """Policy, critics and value."""
        return {"policy": self.policy, "critic": self.critic, "value": self.value}


def trust_by_advantage(
    data: OfflineDataset,
    *,
    expectile: float = 0.7,
    steps: int = 10_000,
    hidden: tuple[int, ...] = (256, 256),
    gamma: float = 0.99,
    batch: int = 256,
    seed: int = 0,
    device: str = "cpu",
) -> TrustReport:
    """Trust single actions: those at least as good as the log's usual ones, ``Q(s,a) >= V(s)``.

    Q and V are those of implicit Q-learning, trained here. The paper advises this rule where
    returns vary much, and trust by return where they vary little.

    Parameters
    ----------
    data : OfflineDataset
    expectile : float, in (0, 1)
        0.5 or 0.7 in the paper.
    steps : int
        Of training.
    hidden, gamma, batch, seed, device
        Of Q and V.

    Raises
    ------
    InputError
        The expectile is not in (0, 1).

    Examples
    --------
    >>> from practicum.rl.ssar import pendulum_mix
    >>> data = pendulum_mix("mixed-20", 10, rng=0)
    >>> report = trust_by_advantage(data, steps=20, hidden=(16,))
    >>> report.trusted.shape
    (2000,)
    """
    sizes = Sizes(
        data.observations.shape[1], data.actions.shape[1], hidden=hidden, layer_norm=False,
        gamma=gamma, steps=steps, device=device,
    )  # fmt: skip
    learner = IQL(sizes, [seed], [expectile])
    # only Q and V are needed, and Q learns more easily from rewards of size 1
    scale = 1 / max(float(np.abs(data.rewards).max()), 1e-6)
    replay = Replay([data], [0], [seed], batch=batch, reward_scale=scale, device=device)
    train(learner, replay, steps)
    advantage = [
        learner.advantage(
            torch.as_tensor(replay.normalizers[0](data.observations[rows])[None], device=device),
            torch.as_tensor(data.actions[rows][None], device=device),
        )[0]
        for rows in np.array_split(np.arange(len(data)), max(1, len(data) // CHUNK))
    ]
    trusted = torch.cat(advantage).cpu().numpy() >= 0
    rule = f"at least as good as the log's usual action there (IQL, expectile {expectile:g})"
    return report_of_mask(data, trusted, "iql", rule)
