"""Fitted-Q evaluation: what a policy would earn, estimated from a log alone.

    Q <- argmin E ( Q(s,a) - r - gamma (1 - done) Q'(s', pi(s')) )^2,   estimate E Q(s_0, pi(s_0))

(Le et al. 2019). It is an *estimate*: where the policy leaves the log, it is as wrong as any
critic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from practicum.models.stacked import StackedAdam, StackedMLP, polyak
from practicum.models.training import Tensor, torch
from practicum.rl.ssar.learner import Learner, seed_of
from practicum.rl.ssar.replay import Replay

STARTS = 64  # first states over which the estimate is averaged


def fitted_q_evaluation(
    learner: Learner,
    replay: Replay,
    steps: int,
    starts: Sequence[Float[np.ndarray, "_ ds"]],
) -> Float[np.ndarray, "s"]:
    """The discounted return of every member's policy from first states, estimated from its log.

    Parameters
    ----------
    learner : Learner
        Whose policies are judged; its discount, widths and rates are used.
    replay : Replay
        Of the log, normalised as the policies were.
    steps : int
        Of gradient descent.
    starts : sequence of arrays (k, ds)
        First states of the episodes of each member's log, as observed; 64 evenly spaced ones
        are looked at.

    Returns
    -------
    array (members,), in units of the scaled reward

    Raises
    ------
    InputError
        The learner and the batches are of different numbers of members.

    Examples
    --------
    >>> from practicum.rl.ssar import BehaviourCloning, Replay, Sizes, pendulum_mix
    >>> data = pendulum_mix("expert", 5, rng=0)
    >>> replay = Replay([data], of=[0], seeds=[0], batch=32)
    >>> learner = BehaviourCloning(Sizes(3, 1, hidden=(16,)), seeds=[0])
    >>> first = data.observations[data.episodes[:, 0]]
    >>> fitted_q_evaluation(learner, replay, steps=5, starts=[first]).shape
    (1,)
    """
    sizes = learner.sizes
    widths = (sizes.states + sizes.actions, *sizes.hidden, 1)
    seeds = [seed_of(seed, 5) for seed in learner.seeds]
    net = StackedMLP(widths, seeds, layer_norm=True).to(learner.device)
    target, adam = net.twin(), StackedAdam(net.parameters(), sizes.lr)
    for _ in range(steps):
        batch = replay.sample()
        with torch.no_grad():
            value = target(_pair(batch.next_states, learner.act(batch.next_states))).squeeze(-1)
            goal = batch.rewards + sizes.gamma * batch.going * value
        q = net(_pair(batch.states, batch.actions)).squeeze(-1)
        (q - goal).square().mean(dim=-1).sum().backward()
        adam.step()
        polyak(target, net, 2 * sizes.tau)
    return _mean_value(net, learner, replay, starts)


def _pair(states: Tensor, actions: Tensor) -> Tensor:
    return torch.cat([states, actions], dim=-1)


def _mean_value(
    net: StackedMLP, learner: Learner, replay: Replay, starts: Sequence[np.ndarray]
) -> Float[np.ndarray, "s"]:
    chosen = [
        replay.normalizers[of](first[np.linspace(0, len(first) - 1, STARTS).astype(int)])
        for of, first in zip(replay.of, starts, strict=True)
    ]
    states = torch.as_tensor(np.stack(chosen), device=replay.device)
    with torch.no_grad():
        return net(_pair(states, learner.act(states))).squeeze(-1).mean(dim=1).cpu().numpy()
