"""Behaviour cloning: imitate what the log did, all of it or only a trusted part."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float

from practicum.models.stacked import StackedAdam, StackedMLP
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.learner import Learner, Sizes
from practicum.rl.ssar.replay import Batch


class BehaviourCloning(Learner):
    """Least squares on the trusted actions: min E[ I (tanh f(s) - a)^2 ].

    With everything trusted this is BC; give the replay the trusted subset as its data for filtered
    BC (whole batches of trusted pairs), or trust bits (they weigh the pairs of a batch).

    Parameters
    ----------
    sizes : Sizes
    seeds : sequence of int

    Examples
    --------
    >>> BehaviourCloning(Sizes(3, 1, hidden=(16,)), seeds=[0, 1]).act(torch.zeros(2, 4, 3)).shape
    torch.Size([2, 4, 1])
    """

    def __init__(self, sizes: Sizes, seeds: Sequence[int]) -> None:
        super().__init__(sizes, seeds)
        self.policy = self.actor(sizes.actions)
        self._restart(list(range(self.members)))

    def _restart(self, members: list[int]) -> None:
        self.optimizer = StackedAdam(self.policy.parameters(), self.sizes.lr)

    def update(self, batch: Batch) -> None:
        """One step on the squared distance to the data's actions."""
        self.updates += 1
        off = (self.policy(batch.states).tanh() - batch.actions).square().mean(dim=-1)
        (off * batch.trusted).mean(dim=1).sum().backward()
        self.optimizer.step()

    def act(self, states: Float[Tensor, "s b ds"]) -> Float[Tensor, "s b da"]:
        """tanh f(s)."""
        with torch.no_grad():
            return self.policy(states).tanh()

    def networks(self) -> dict[str, StackedMLP]:
        """The policy."""
        return {"policy": self.policy}
