"""Going on online after training on a log: beta frozen, its weight decayed step by step.

    b_on(s) = decay(N) b(s),  decay = max(1 - N/N_end, 0)  or  cos(pi/2 min(N/N_end, 1))

The pull to the log holds the policy while the critics are still wrong about what lies outside it,
and lets go while online data tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError
from practicum.models.training import torch
from practicum.rl.ssar.evaluation import open_batch
from practicum.rl.ssar.learner import Learner
from practicum.rl.ssar.replay import Replay

BUFFERS = ("all", "half", "part", "none")
BEST_EPISODES = 50  # that "part" keeps


def kept_rows(data: OfflineDataset, buffer: str, rng: np.random.Generator) -> Bool[np.ndarray, "n"]:
    """Which transitions of the log stay in the buffer.

    Parameters
    ----------
    data : OfflineDataset
    buffer : {"all", "half", "part", "none"}
        Everything, half of the episodes at random, the 50 best by return, nothing.
    rng : Generator
        For ``half``.

    Raises
    ------
    InputError
        Another name.

    Examples
    --------
    >>> from practicum.rl.ssar import pendulum_mix
    >>> data = pendulum_mix("mixed-20", 100, rng=0)
    >>> [kept_rows(data, b, np.random.default_rng(0)).mean().item() for b in ("part", "none")]
    [0.5, 0.0]
    """
    if buffer not in BUFFERS:
        raise InputError(f"buffer={buffer!r}", f"one of {', '.join(BUFFERS)}")
    returns = data.returns()
    kept = np.ones(len(returns), bool)
    if buffer == "none":
        kept[:] = False
    elif buffer == "half":
        kept[rng.permutation(len(returns))[len(returns) // 2 :]] = False
    elif buffer == "part":
        kept[np.argsort(-returns, kind="stable")[BEST_EPISODES:]] = False
    return kept[data.episode_of]


def finetune_online(
    learner: Learner,
    replay: Replay,
    env: Any,
    steps: int,
    *,
    decays: Sequence[Callable[[int], float]],
    seeds: Sequence[int],
    warmup: int = 0,
    data: OfflineDataset | None = None,
    every: int | None = None,
    then: Callable[[int], None] | None = None,
) -> None:
    """Every member acts in its own copy of an environment and learns from what it sees.

    Parameters
    ----------
    learner : Learner
        With a ``coefficient`` (TD3BC, CQL): it is frozen, and weighted by the decay.
    replay : Replay
        With ``room`` for ``steps`` transitions.
    env : str, simulator or callable
        As for ``practicum.rl.ssar.evaluate``.
    steps : int
        Of each member, one update each.
    decays : sequence of callable
        Of each member: step -> share of beta that is kept.
    seeds : sequence of int
        Of each member's environment.
    warmup : int
        First steps, without updates.
    data : OfflineDataset, optional
        The log, whose bounds scale the actions.
    every, then
        ``then(step)`` is called before the first, then every so many steps.

    Raises
    ------
    InputError
        The learner has no coefficient, or spaces do not fit.

    Examples
    --------
    >>> from practicum.rl.ssar import TD3BC, Regularization, Sizes, linear_decay, pendulum_mix
    >>> data = pendulum_mix("mixed-20", 5, rng=0)
    >>> learner = TD3BC(Sizes(3, 1, hidden=(16,)), seeds=[0], rules=[Regularization(0.4)])
    >>> replay = Replay([data], of=[0], seeds=[0], batch=32, room=10)
    >>> finetune_online(learner, replay, "Pendulum-v1", 10, seeds=[0],
    ...                 decays=[lambda step: linear_decay(step, 20)])
    >>> learner.coefficient.scale
    tensor([0.5000])
    """
    coefficient = getattr(learner, "coefficient", None)
    if coefficient is None:
        raise InputError(f"{type(learner).__name__} has no pull to the log that could be decayed")
    coefficient.frozen = True
    batch = open_batch(env, learner.members, 1, data)
    mean, std = replay.mean_std()
    try:
        observed = batch.reset(seeds)
        if then is not None:
            then(0)
        for step in range(1, steps + 1):
            states = torch.as_tensor(((observed - mean) / std).astype(np.float32))
            action = learner.explore(states.to(learner.device)).cpu().numpy()
            led = batch.step(action)
            replay.add(
                observed[:, 0], action[:, 0], led.rewards[:, 0], led.observations[:, 0],
                led.terminated[:, 0],
            )  # fmt: skip
            over = led.terminated | led.truncated
            observed = batch.reset_where(over) if over.any() else led.observations
            scale = [decay(step) for decay in decays]
            coefficient.scale = torch.tensor(scale, device=learner.device)
            if step > warmup and int(replay.size.min()) >= replay.batch:
                learner.update(replay.sample())
            if then is not None and every and step % every == 0:
                then(step)
    finally:
        batch.close()
