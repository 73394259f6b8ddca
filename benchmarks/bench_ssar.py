"""What SSAR costs: a step beside d3rlpy's TD3+BC, many seeds and arms beside one after another.

All in one run, on one thread, the same batches, widths (64-64) and batch size (128):

* one gradient step of ours against d3rlpy's TD3PlusBC (``pip install --no-deps d3rlpy``; optional);
* 5 seeds x 4 arms as one stack against the same 20 trainings one after another (bar: 3 times);
* 10 seeds as one stack against one seed (bar: less than 3 times as long);
* with ``--agreement``: our TD3+BC and d3rlpy's trained on the same pendulum logs (minutes).

CPU seconds of this process are compared, the least of a few repeats: the machine may be shared.
Exits non-zero where a bar is missed, or where the two TD3+BC differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from practicum.models.stacked import keep_memory, single_thread
from practicum.models.training import torch
from practicum.rl.ssar import (
    CQL,
    IQL,
    TD3BC,
    Regularization,
    Replay,
    Sizes,
    evaluate,
    pendulum_mix,
    policy_of,
    train,
)
from practicum.study.evidence import Sample

WIDTH, BATCH, GAMMA, TAU, SCALE = 64, 128, 0.97, 0.01, 0.1
ARMS = {
    "SSAR": Regularization(0.4),
    "selection only": Regularization(0.4, adaptive=False),
    "TD3+BC": Regularization(0.4, adaptive=False, select=False, restrict=False),
    "TD3+BC, alpha 10": Regularization(0.1, adaptive=False, select=False, restrict=False),
}
STACK_BAR, SEEDS_BAR = 3.0, 3.0


def sizes(width: int = WIDTH, layer_norm: bool = True) -> Sizes:
    """The study's."""
    return Sizes(
        3, 1, hidden=(width, width), beta_hidden=(width, width), gamma=GAMMA, tau=TAU,
        steps=6000, layer_norm=layer_norm,
    )  # fmt: skip


def step_time(work: Callable[[int], object], steps: int = 60, repeats: int = 5) -> float:
    """CPU milliseconds of one step: the fastest of a few repeats."""
    work(10)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work(steps)
        times.append((time.process_time() - start) / steps * 1e3)
    return min(times)


def stack(members: Sequence[tuple[str, int]], width: int = WIDTH) -> Callable[[int], None]:
    """Training of some (arm, seed) as one stack."""
    data = pendulum_mix("mixed-20", rng=0)
    trusted = data.returns()[data.episode_of] > -500
    seeds = [seed for _, seed in members]
    learner = TD3BC(sizes(width), seeds, [ARMS[arm] for arm, _ in members])
    replay = Replay(
        [data], [0] * len(seeds), seeds, batch=BATCH, reward_scale=SCALE,
        trusted=[trusted] * len(seeds),
    )  # fmt: skip
    return lambda steps: train(learner, replay, steps)


def stacked_against_single() -> bool:
    """5 seeds x 4 arms at once, and one after another."""
    every = [(arm, seed) for seed in range(5) for arm in ARMS]
    alone = {arm: step_time(stack([(arm, 0)]), steps=150) for arm in ARMS}
    one_by_one = 5 * sum(alone.values())
    together = step_time(stack(every), steps=30)
    ratio = one_by_one / together
    shown = ", ".join(f"{arm} {ms:.2f}" for arm, ms in alone.items())
    print(f"ms a step alone: {shown}")
    print(
        f"5 seeds x 4 arms: one after another {one_by_one:.1f} ms a step of all, stacked "
        f"{together:.1f} ms: {ratio:.1f} times faster (bar {STACK_BAR:g})"
    )
    return ratio >= STACK_BAR


def growth() -> bool:
    """How a step grows with the seeds and the width."""
    fine = True
    for arm in ("TD3+BC", "SSAR"):
        times = {n: step_time(stack([(arm, s) for s in range(n)])) for n in (1, 5, 10, 20)}
        ratio = times[10] / times[1]
        shown = ", ".join(f"{n} seeds {ms:.2f} ms" for n, ms in times.items())
        print(f"{arm}: {shown}; ten cost {ratio:.2f} times one (bar {SEEDS_BAR:g})")
        fine &= ratio < SEEDS_BAR
    wide = step_time(stack([("SSAR", 0)], 256), steps=20)
    print(f"SSAR, one seed, width 256: {wide:.2f} ms a step")
    return fine


def families() -> None:
    """A step of the others, five seeds."""
    data = pendulum_mix("mixed-20", rng=0)
    seeds, own = list(range(5)), sizes()
    rule = [Regularization(0.3)] * 5
    replay = Replay([data], [0] * 5, seeds, batch=BATCH, reward_scale=SCALE)
    for name, learner in {
        "IQL": IQL(own, seeds, [0.7] * 5),
        "SSAR on CQL, 3 x 3 actions": CQL(own, seeds, rule, n_actions=3),
        "SSAR on CQL, 3 x 10 actions": CQL(own, seeds, rule, n_actions=10),
    }.items():
        ms = step_time(lambda n, one=learner: train(one, replay, n), steps=8, repeats=3)
        print(f"{name}: {ms:.2f} ms a step of five seeds")


# ------------------------------------------------------------- d3rlpy


class Peer:
    """d3rlpy's TD3PlusBC with our widths and batches (states normalised, rewards scaled)."""

    def __init__(self, seed: int, alpha: float) -> None:
        import d3rlpy

        d3rlpy.seed(seed)
        encoder = d3rlpy.models.VectorEncoderFactory([WIDTH, WIDTH])
        config = d3rlpy.algos.TD3PlusBCConfig(
            actor_encoder_factory=encoder, critic_encoder_factory=encoder, alpha=alpha,
            batch_size=BATCH, gamma=GAMMA, tau=TAU,
        )  # fmt: skip
        self.algorithm = config.create(device=False)
        self.algorithm.create_impl((3,), 1)

    def train(self, replay: Replay, steps: int) -> None:
        """As ``practicum.rl.ssar.train``, for a single member."""
        for _ in range(steps):
            self.algorithm.update(self.minibatch(replay.sample()))

    @staticmethod
    def minibatch(batch: Any) -> Any:
        """Our batch of one member as d3rlpy's."""
        from d3rlpy.dataset import TransitionMiniBatch

        one = {name: getattr(batch, name)[0].numpy() for name in batch._fields}
        return TransitionMiniBatch(
            observations=one["states"],
            actions=one["actions"],
            rewards=one["rewards"][:, None],
            next_observations=one["next_states"],
            next_actions=one["actions"],
            terminals=1 - one["going"][:, None],
            intervals=np.ones((BATCH, 1), np.float32),
            transitions=[],
        )

    def policy(self, replay: Replay) -> Callable[[np.ndarray], np.ndarray]:
        """On raw observations (1, episodes, 3)."""
        mean, std = replay.mean_std()

        def act(observations: np.ndarray) -> np.ndarray:
            states = ((observations - mean) / std).astype(np.float32)
            return self.algorithm.predict(states[0])[None]

        return act


def one_step() -> None:
    """A gradient step of ours and d3rlpy's on the same batches, no LayerNorm in either."""
    data, free = pendulum_mix("mixed-20", rng=0), ARMS["TD3+BC"]
    replay = Replay([data], [0], [0], batch=BATCH, reward_scale=SCALE)
    peer = Peer(0, 2.5)
    theirs = step_time(lambda n: peer.train(replay, n), steps=100)
    times = {}
    for name, rule, norm in (
        ("TD3+BC, no LayerNorm", free, False),
        ("TD3+BC", free, True),
        ("SSAR", ARMS["SSAR"], True),
    ):
        learner = TD3BC(sizes(layer_norm=norm), [0], [rule])
        times[name] = step_time(lambda n, one=learner: train(one, replay, n), steps=100)
    shown = ", ".join(f"{name} {ms:.2f}" for name, ms in times.items())
    print(f"one seed, ms a step: {shown}; d3rlpy's TD3PlusBC (no LayerNorm) {theirs:.2f}")
    print(
        f"ours is {theirs / times['TD3+BC, no LayerNorm']:.1f} times as fast as d3rlpy's; SSAR "
        f"takes {times['SSAR'] / times['TD3+BC']:.2f} times TD3+BC's step (aim: 1.3)"
    )


def agreement(steps: int = 2000, seeds: int = 5) -> bool:
    """Returns of our TD3+BC and d3rlpy's, trained on the same logs and batches."""
    fine = True
    for name, alpha in (("medium", 2.5), ("mixed-20", 40.0)):
        rule = Regularization(1 / alpha, adaptive=False, select=False, restrict=False)
        ours, theirs = [], []
        for seed in range(seeds):
            data = pendulum_mix(name, rng=1000 + seed)
            learner, peer = TD3BC(sizes(layer_norm=False), [seed], [rule]), Peer(seed, alpha)

            def fresh(log: Any = data, own: int = seed) -> Replay:
                return Replay([log], [0], [own], batch=BATCH, reward_scale=SCALE)

            replay = fresh()
            train(learner, replay, steps)
            peer.train(fresh(), steps)
            for returns, policy in (
                (ours, policy_of(learner, replay)),
                (theirs, peer.policy(replay)),
            ):
                found = evaluate(policy, "Pendulum-v1", episodes=32, seed=7)
                returns.append(float(found.mean[0]))
        interval = Sample(np.subtract(ours, theirs)).interval()
        own = Sample(np.array(theirs)).interval()
        fine &= interval.low <= 0 <= interval.high
        print(
            f"{name}, alpha {alpha:g}, {steps} steps, {seeds} seeds: ours {np.mean(ours):.0f} "
            f"(from {min(ours):.0f} to {max(ours):.0f}), d3rlpy {np.mean(theirs):.0f} {own} "
            f"(from {min(theirs):.0f} to {max(theirs):.0f}); difference {interval}"
        )
    return fine


def main() -> int:
    torch.set_num_threads(1)
    keep_memory()
    fine = True
    with single_thread():
        fine &= stacked_against_single()
        fine &= growth()
        families()
        if find_spec("d3rlpy") is None:
            print("d3rlpy is not installed: no peer (pip install --no-deps d3rlpy)")
        else:
            one_step()
            if "--agreement" in sys.argv:
                fine &= agreement()
    print("all bars met" if fine else "A BAR WAS MISSED")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
