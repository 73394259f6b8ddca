"""CQL on soft actor-critic and its selective, state-adaptive form: a value constraint, stacked.

    critics   sum_k E (Q_k(s,a) - y)^2 + E[ b(s) (log sum_a' exp Q_k(s,a') - Q_k(s,a)) ],
              y = r + gamma (1 - done) min_k Q'_k(s', a'),  a' ~ pi(s')
    policy    E[ temperature log pi(a|s) - min_k Q_k(s,a) ],  a ~ pi(s)

The sum over actions is estimated by importance sampling from uniform actions and the policy's at s
and at s' (Kumar et al. 2020). b(s) = alpha for CQL, b(s) = beta(s) I(s,a) for SSAR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Float

from practicum.models.stacked import StackedAdam, StackedMLP, polyak
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.learner import Learner, Sizes
from practicum.rl.ssar.regularizer import (
    Coefficient,
    Regularization,
    gaussian_log_density,
    gaussian_margin,
    log_tanh_slope,
    scaled_beta_rate,
)
from practicum.rl.ssar.replay import Batch

LOG_STD = (-20.0, 2.0)
LOOKS = 20  # at n, over a training


class CQL(Learner):
    """Conservative Q-learning, by each member's own rule.

    Parameters
    ----------
    sizes : Sizes
    seeds : sequence of int
    rules : sequence of Regularization
        One for each member; ``beta0`` is CQL's alpha.
    n_actions : int
        Drawn from each of the three proposals.
    policy_lr : float, optional
        Adam's for the policy and the temperature; ``sizes.lr`` unless given.
    beta_lr : float or "auto"
    temperature : float
        At first; it is then tuned so that the policy's entropy is -(action dimensions).

    Attributes
    ----------
    coefficient : Coefficient
        beta(s) and n of every member.

    Examples
    --------
    >>> rules = [Regularization(10.0, adaptive=False, restrict=False), Regularization(10.0)]
    >>> learner = CQL(Sizes(3, 1, hidden=(16,)), seeds=[0, 0], rules=rules)
    >>> learner.act(torch.zeros(2, 4, 3)).shape
    torch.Size([2, 4, 1])
    """

    def __init__(
        self,
        sizes: Sizes,
        seeds: Sequence[int],
        rules: Sequence[Regularization],
        n_actions: int = 10,
        policy_lr: float | None = None,
        beta_lr: float | int | str = "auto",
        temperature: float | int = 1.0,
    ) -> None:
        super().__init__(sizes, seeds)
        self.n_actions = n_actions
        self.policy, self.critic = self.actor(2 * sizes.actions), self.twin_critic()
        self.critic_target = self.critic.twin()
        self.log_temperature = torch.full(
            (1, self.members), math.log(temperature), device=self.device, requires_grad=True
        )
        self.policy_lr = policy_lr or sizes.lr
        self._optimize()
        rate = beta_lr
        if beta_lr == "auto":
            rate = scaled_beta_rate(max(1, sizes.steps), sizes.beta_hidden[0], 1e-8, 1e6)
        self.coefficient = Coefficient(
            rules,
            self.seeds,
            sizes.states,
            sizes.beta_hidden,
            float(rate),
            sizes.steps // LOOKS,
            sizes.device,
        )

    def _optimize(self) -> None:
        self.policy_adam = StackedAdam(self.policy.parameters(), self.policy_lr)
        self.temperature_adam = StackedAdam([self.log_temperature], self.policy_lr)
        self.critic_adam = StackedAdam(self.critic.parameters(), self.sizes.lr)

    def _restart(self, members: list[int]) -> None:
        self.coefficient = self.coefficient.select_members(members)
        own = self.log_temperature.detach()[:, members].clone()
        self.log_temperature = own.requires_grad_()
        self._optimize()

    def explore(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """A draw from the policy."""
        with torch.no_grad():
            return self._draw(states, 1)[0]

    def _gaussian(self, states: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.policy(states).chunk(2, dim=-1)
        return mean, log_std.clamp(*LOG_STD)

    def _draw(self, states: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Actions (members, batch * count, da) of the policy and their log densities."""
        mean, log_std = self._gaussian(states)
        if count > 1:
            mean, log_std = (t.repeat_interleave(count, dim=1) for t in (mean, log_std))
        raw = mean + log_std.exp() * self.streams.normal(*mean.shape[1:])
        density = gaussian_log_density(raw, mean, log_std) - log_tanh_slope(raw)
        return raw.tanh(), density.sum(dim=-1)

    def update(self, batch: Batch) -> None:
        """One step of policy, temperature, critics, beta and target."""
        self.updates += 1
        self._update_policy(batch)
        self._update_critic(batch)
        polyak(self.critic_target, self.critic, self.sizes.tau)
        if self.coefficient.adaptive:
            with torch.no_grad():
                mean, log_std = self._gaussian(batch.states)
                margin = gaussian_margin(batch.actions, mean, log_std, self.coefficient.n)
            self.coefficient.teach(batch.states, margin, batch.trusted)

    def _update_policy(self, batch: Batch) -> None:
        action, density = self._draw(batch.states, 1)
        # the entropy is held at -da, so that the temperature rises where it is lower
        gap = (density.detach() - self.sizes.actions).mean(dim=1)
        (-self.log_temperature[0] * gap).sum().backward()
        temperature = self.log_temperature.detach()[0].exp().unsqueeze(-1)
        q = self.critic(torch.cat([batch.states, action], dim=-1), frozen=True)
        loss = (temperature * density - q.amin(dim=0).squeeze(-1)).mean(dim=1)
        loss.sum().backward()
        self.policy_adam.step()
        self.temperature_adam.step()

    def _update_critic(self, batch: Batch) -> None:
        with torch.no_grad():
            ahead, _ = self._draw(batch.next_states, 1)
            value = self.critic_target(torch.cat([batch.next_states, ahead], dim=-1))
            value = value.amin(dim=0).squeeze(-1)
            goal = batch.rewards + self.sizes.gamma * batch.going * value
            actions, densities = self._proposals(batch)
        q = self.critic(torch.cat([batch.states, batch.actions], dim=-1)).squeeze(-1)
        count = actions.shape[2]
        states = batch.states.unsqueeze(2).expand(-1, -1, count, -1)
        pairs = torch.cat([states, actions], dim=-1).flatten(1, 2)
        others = self.critic(pairs).reshape(2, self.members, -1, count)
        gap = (others - densities).logsumexp(dim=-1) - math.log(count) - q
        weight = self.coefficient.weight(batch.states, batch.trusted)
        loss = (q - goal).square().mean(dim=-1) + (weight * gap).mean(dim=-1)
        loss.sum().backward()
        self.critic_adam.step()

    def _proposals(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Actions (members, batch, 3 n, da) and their log densities (members, batch, 3 n)."""
        n, (size, da) = self.n_actions, batch.actions.shape[1:]
        shape = (self.members, size, n)
        uniform = 2 * self.streams.uniform(size, n, da) - 1
        flat = torch.full(shape, -da * math.log(2.0), device=self.device)
        here, density_here = self._draw(batch.states, n)
        there, density_there = self._draw(batch.next_states, n)
        actions = [uniform, here.reshape(*shape, da), there.reshape(*shape, da)]
        densities = [flat, density_here.reshape(shape), density_there.reshape(shape)]
        return torch.cat(actions, dim=2), torch.cat(densities, dim=2)

    def act(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """tanh of the policy's mean."""
        with torch.no_grad():
            return self._gaussian(states)[0].tanh()

    def networks(self) -> dict[str, StackedMLP]:
        """Policy and critics."""
        return {"policy": self.policy, "critic": self.critic}
