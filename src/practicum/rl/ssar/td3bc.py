"""TD3+BC and its selective, state-adaptive form: a policy constraint, stacked over members.

One step, with targets y = r + gamma (1 - done) min_k Q'_k(s', clip(pi'(s') + noise)):

    critics   sum_k E (Q_k(s,a) - y)^2
    policy    -E Q_1(s,pi(s)) / E|Q_1| + E_{batch, dim} [ b(s) (pi(s) - a)^2 ]

every second time, b(s) = 1/alpha for TD3+BC (Fujimoto & Gu 2021; their loss is this one times
alpha), b(s) = beta(s) I(s,a) for SSAR.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float

from practicum.models.stacked import StackedAdam, StackedMLP, polyak
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.learner import Learner, Sizes
from practicum.rl.ssar.regularizer import (
    Coefficient,
    Regularization,
    deterministic_margin,
    scaled_beta_rate,
)
from practicum.rl.ssar.replay import Batch

NOISE, NOISE_CLIP = 0.2, 0.5  # of the target policy
POLICY_EVERY = 2
LOOKS = 20  # at n, over a training: every 50,000 of a million steps


def policy_loss(
    q: Float[Tensor, "s b"],
    policy: Float[Tensor, "s b d"],
    actions: Float[Tensor, "s b d"],
    weight: Float[Tensor, "s b"],
) -> Float[Tensor, "s"]:
    """``-mean Q / mean|Q| + mean_{batch, dim}[ weight (pi - a)^2 ]`` of every member.

    Parameters
    ----------
    q : tensor (members, batch)
        Q_1(s, pi(s)).
    policy, actions : tensor (members, batch, action dimensions)
    weight : tensor (members, batch)
        beta(s) I(s, a); 1/alpha for TD3+BC.

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> q, a = torch.tensor([[-2.0, -4.0]]), torch.zeros(1, 2, 1)
    >>> policy_loss(q, a + 0.5, a, torch.tensor([[0.4, 0.0]]))  # the second pair is not trusted
    tensor([1.0500])
    """
    scale = 1 / q.detach().abs().mean(dim=1).clamp(min=1e-8)
    pull = (weight.unsqueeze(-1) * (policy - actions).square()).mean(dim=(1, 2))
    return pull - scale * q.mean(dim=1)


class TD3BC(Learner):
    """TD3 with its policy held to the data, by each member's own rule.

    Parameters
    ----------
    sizes : Sizes
    seeds : sequence of int
    rules : sequence of Regularization
        One for each member.
    beta_lr : float or "auto"
        Of the coefficient; ``auto`` keeps the published movement in a shorter training, see
        ``practicum.rl.ssar.regularizer.scaled_beta_rate``.

    Attributes
    ----------
    coefficient : Coefficient
        beta(s) and n of every member.

    Examples
    --------
    >>> rules = [Regularization(0.4, adaptive=False, restrict=False), Regularization(0.4)]
    >>> learner = TD3BC(Sizes(3, 1, hidden=(16,)), seeds=[0, 0], rules=rules)
    >>> learner.act(torch.zeros(2, 4, 3)).shape
    torch.Size([2, 4, 1])
    """

    def __init__(
        self,
        sizes: Sizes,
        seeds: Sequence[int],
        rules: Sequence[Regularization],
        beta_lr: float | int | str = "auto",
    ) -> None:
        super().__init__(sizes, seeds)
        self.policy, self.critic = self.actor(sizes.actions), self.twin_critic()
        self.policy_target, self.critic_target = self.policy.twin(), self.critic.twin()
        self._optimize()
        updates = max(1, sizes.steps // POLICY_EVERY)
        rate = scaled_beta_rate(updates, sizes.beta_hidden[0]) if beta_lr == "auto" else beta_lr
        self.coefficient = Coefficient(
            rules,
            self.seeds,
            sizes.states,
            sizes.beta_hidden,
            float(rate),
            updates // LOOKS,
            sizes.device,
        )
        self.policy_every = POLICY_EVERY

    def _optimize(self) -> None:
        self.policy_adam = StackedAdam(self.policy.parameters(), self.sizes.lr)
        self.critic_adam = StackedAdam(self.critic.parameters(), self.sizes.lr)

    def _restart(self, members: list[int]) -> None:
        self.coefficient = self.coefficient.select_members(members)
        self._optimize()

    def update(self, batch: Batch) -> None:
        """One step of the critics; every second time of policy, beta and targets too."""
        self.updates += 1
        self._update_critic(batch)
        if self.updates % self.policy_every == 0:
            self._update_policy(batch)
            polyak(self.critic_target, self.critic, self.sizes.tau)
            polyak(self.policy_target, self.policy, self.sizes.tau)

    def _update_critic(self, batch: Batch) -> None:
        with torch.no_grad():
            noise = self.streams.normal(*batch.actions.shape[1:]) * NOISE
            ahead = self.policy_target(batch.next_states).tanh()
            ahead = (ahead + noise.clamp(-NOISE_CLIP, NOISE_CLIP)).clamp(-1, 1)
            value = self.critic_target(torch.cat([batch.next_states, ahead], dim=-1))
            value = value.amin(dim=0).squeeze(-1)
            goal = batch.rewards + self.sizes.gamma * batch.going * value
        q = self.critic(torch.cat([batch.states, batch.actions], dim=-1)).squeeze(-1)
        (q - goal).square().mean(dim=-1).sum().backward()
        self.critic_adam.step()

    def _update_policy(self, batch: Batch) -> None:
        action = self.policy(batch.states).tanh()
        q = self.critic(torch.cat([batch.states, action], dim=-1), copy=0, frozen=True)
        weight = self.coefficient.weight(batch.states, batch.trusted)
        policy_loss(q.squeeze(-1), action, batch.actions, weight).sum().backward()
        self.policy_adam.step()
        if self.coefficient.adaptive:
            margin = deterministic_margin(action.detach(), batch.actions, self.coefficient.n)
            self.coefficient.teach(batch.states, margin, batch.trusted)

    def act(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """tanh f(s)."""
        with torch.no_grad():
            return self.policy(states).tanh()

    def networks(self) -> dict[str, StackedMLP]:
        """Policy and critics."""
        return {"policy": self.policy, "critic": self.critic}
