"""Run many policies at once: in a simulator of ours, or in any Gymnasium environment.

A *policy* here is a stack: a callable from observations (S, E, ds) to actions in [-1, 1] of shape
(S, E, da), for S policies in E episodes each.  Every policy meets the same starts, and what one
earns does not depend on the others in the stack, to the bit.

>>> import numpy as np
>>> from practicum.rl.ssar.pendulum import Pendulum
>>> def still(observations):
...     return np.zeros((*observations.shape[:-1], 1), np.float32)
>>> result = evaluate(still, Pendulum(), policies=2, episodes=3, seed=0)
>>> result.returns.shape, bool((result.returns[0] == result.returns[1]).all())
((2, 3), True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Real

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError, MissingExtra

Policy = Callable[[Float32[np.ndarray, "s e ds"]], Any]
LONGEST = 10_000  # steps of an episode in an environment without a time limit


@runtime_checkable
class Simulator(Protocol):
    """Dynamics on arrays of states: what :class:`~practicum.rl.ssar.pendulum.Pendulum` has."""

    name: str
    horizon: int
    observation_size: int
    action_size: int
    action_low: np.ndarray
    action_high: np.ndarray

    def start(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """States (n, k) to start from."""
        ...

    def observe(self, state: np.ndarray) -> np.ndarray:
        """What a policy sees of states (..., k): float32 (..., ds)."""
        ...

    def step(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Next states, rewards (...,), and where the episode ended by itself (...,)."""
        ...


Env = str | Simulator | Callable[[], Any]  # a name, dynamics, or what makes a gymnasium.Env


@dataclass(frozen=True)
class Step:
    """What a step of all led to: observations (S, E, ds) and (S, E) of the rest."""

    observations: Float32[np.ndarray, "s e ds"]
    rewards: Float[np.ndarray, "s e"]
    terminated: Bool[np.ndarray, "s e"]
    truncated: Bool[np.ndarray, "s e"]


@runtime_checkable
class Batch(Protocol):
    """S x E episodes side by side, actions in [-1, 1]; made by :func:`open_batch`."""

    name: str
    horizon: int
    low: np.ndarray
    high: np.ndarray

    def reset(self, seeds: Sequence[int]) -> Float32[np.ndarray, "s e ds"]:
        """Start all, each policy's episodes from its own seed."""
        ...

    def step(self, actions: Real[np.ndarray, "s e da"]) -> Step:
        """One step of all."""
        ...

    def reset_where(self, over: Bool[np.ndarray, "s e"]) -> Float32[np.ndarray, "s e ds"]:
        """Start anew where an episode is over; the observations of all."""
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """What S policies earned in E episodes each.

    Attributes
    ----------
    returns : shape (S, E)
        Undiscounted sums of rewards.
    lengths : shape (S, E)
        Steps.
    terminated : bool, shape (S, E)
        Whether the episode ended by itself (in the point maze: the goal was reached).
    env : str

    Examples
    --------
    >>> e = Evaluation(np.array([[1.0, 3.0]]), np.ones((1, 2), int), np.ones((1, 2), bool), "env")
    >>> e.mean.tolist()
    [2.0]
    """

    returns: Float[np.ndarray, "s e"]
    lengths: Int[np.ndarray, "s e"]
    terminated: Bool[np.ndarray, "s e"]
    env: str

    @property
    def mean(self) -> Float[np.ndarray, "s"]:
        """Mean return of each policy."""
        return self.returns.mean(axis=1)


# ------------------------------------------------------------- environments


def open_batch(
    env: Env,
    policies: int,
    episodes: int,
    data: OfflineDataset | None = None,
) -> Batch:
    """Episodes of an environment side by side, after a look at whether they fit the data.

    Parameters
    ----------
    env : str, Simulator or callable that makes a gymnasium.Env
        ``"Pendulum-v1"`` and ``"PointMaze"`` are simulated on arrays; any other id (and
        ``"gymnasium:Pendulum-v1"``) is Gymnasium's.
    policies, episodes : int
    data : OfflineDataset, optional
        Its bounds turn actions in [-1, 1] into the environment's; without, the environment's do.

    Raises
    ------
    InputError
        There is no such environment; its spaces are not those of the data (both shapes are
        named); its actions are discrete or without bounds.

    Examples
    --------
    >>> batch = open_batch("Pendulum-v1", policies=2, episodes=4)
    >>> batch.reset([0, 1]).shape
    (2, 4, 3)
    """
    if policies < 1 or episodes < 1:
        raise InputError(f"{policies} policies in {episodes} episodes: at least one of each")
    simulator = _simulator(env)
    if simulator is None:
        return _GymBatch(env, policies, episodes, data)
    return _SimulatedBatch(simulator, policies, episodes, data)


def check_spaces(
    name: str,
    observations: tuple[int, ...],
    actions: tuple[int, ...],
    data: OfflineDataset,
) -> None:
    """Whether an environment's spaces are those of the data.

    Parameters
    ----------
    name : str
        Of the environment.
    observations, actions : tuple of int
        Shapes of one observation and one action of the environment.
    data : OfflineDataset

    Raises
    ------
    InputError
        They differ; both shapes are named.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> check_spaces("Pendulum-v1", (3,), (1,), pendulum_mix("expert", 1, rng=0))
    """
    for what, theirs, ours in (
        ("observations", observations, data.observations.shape[1:]),
        ("actions", actions, data.actions.shape[1:]),
    ):
        if tuple(theirs) != ours:
            raise InputError(
                f"{name}: {what} have shape {tuple(theirs)} in the environment and {ours} in "
                f"{data.name}",
                "name the environment that the data come from",
            )


def _simulator(env: Any) -> Simulator | None:
    """A simulator of ours, or None where Gymnasium is meant."""
    if not isinstance(env, str):
        return env if hasattr(env, "observe") else None
    from practicum.rl.ssar.pendulum import Pendulum
    from practicum.rl.ssar.pointmaze import PointMaze

    return {s.name: s for s in (Pendulum(), PointMaze())}.get(env)


def _bounds(
    name: str, low: np.ndarray, high: np.ndarray, data: OfflineDataset | None
) -> tuple[np.ndarray, np.ndarray]:
    """What -1 and 1 mean."""
    if data is not None:
        return data.action_low, data.action_high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(f"{name}: actions have no bounds", "give the data, whose bounds are taken")
    return low.astype(np.float32), high.astype(np.float32)


class _SimulatedBatch:
    """Episodes of a simulator of ours."""

    def __init__(
        self, simulator: Simulator, policies: int, episodes: int, data: OfflineDataset | None
    ) -> None:
        if data is not None:
            shapes = (simulator.observation_size,), (simulator.action_size,)
            check_spaces(simulator.name, *shapes, data)
        self.simulator, self.shape = simulator, (policies, episodes)
        self.name, self.horizon = simulator.name, simulator.horizon
        self.low, self.high = _bounds(self.name, simulator.action_low, simulator.action_high, data)

    def reset(self, seeds: Sequence[int]) -> Float32[np.ndarray, "s e ds"]:
        policies, episodes = self.shape
        self.streams = [np.random.default_rng(seed) for seed in _one_each(seeds, policies)]
        self.state = np.stack([self.simulator.start(rng, episodes) for rng in self.streams])
        self.time = np.zeros(self.shape, int)
        return self.simulator.observe(self.state)

    def step(self, actions: Real[np.ndarray, "s e da"]) -> Step:
        action = scaled(actions, self.low, self.high)
        self.state, rewards, terminated = self.simulator.step(self.state, action)
        self.time += 1
        truncated = (self.time >= self.horizon) & ~terminated
        return Step(self.simulator.observe(self.state), rewards, terminated, truncated)

    def reset_where(self, over: Bool[np.ndarray, "s e"]) -> Float32[np.ndarray, "s e ds"]:
        for policy in np.flatnonzero(over.any(axis=1)):
            fresh = self.simulator.start(self.streams[policy], int(over[policy].sum()))
            self.state[policy, over[policy]] = fresh
        self.time[over] = 0
        return self.simulator.observe(self.state)

    def close(self) -> None:
        return None


class _GymBatch:
    """Episodes of Gymnasium environments, one after another within a step."""

    def __init__(self, env: Any, policies: int, episodes: int, data: OfflineDataset | None) -> None:
        gym = _gymnasium()
        make = env if callable(env) else lambda: _make(gym, env.removeprefix("gymnasium:"))
        first = make()
        self.name = first.spec.id if first.spec else type(first).__name__
        limit = first.spec.max_episode_steps if first.spec else None
        self.horizon = limit or LONGEST
        self.low, self.high = _box(gym, self.name, first, data)
        self.shape = (policies, episodes)
        self.action_shape = first.action_space.shape
        makers = [lambda: first] + [make] * (policies * episodes - 1)
        disabled = gym.vector.AutoresetMode.DISABLED
        self.envs = gym.vector.SyncVectorEnv(makers, autoreset_mode=disabled)

    def reset(self, seeds: Sequence[int]) -> Float32[np.ndarray, "s e ds"]:
        policies, episodes = self.shape
        each = [
            int(np.random.SeedSequence((seed, episode)).generate_state(1)[0])
            for seed in _one_each(seeds, policies)
            for episode in range(episodes)
        ]
        self.observed, _ = self.envs.reset(seed=each)
        self.time = np.zeros(self.shape, int)
        return self._shaped(self.observed)

    def step(self, actions: Real[np.ndarray, "s e da"]) -> Step:
        flat = scaled(actions, self.low, self.high).reshape(-1, *self.action_shape)
        self.observed, rewards, terminated, truncated, _ = self.envs.step(flat)
        self.time += 1
        terminated, truncated = terminated.reshape(self.shape), truncated.reshape(self.shape)
        truncated = (truncated | (self.time >= self.horizon)) & ~terminated
        return Step(
            self._shaped(self.observed),
            np.asarray(rewards, float).reshape(self.shape),
            terminated,
            truncated,
        )

    def reset_where(self, over: Bool[np.ndarray, "s e"]) -> Float32[np.ndarray, "s e ds"]:
        if over.any():
            mask = over.reshape(-1).copy()
            self.observed, _ = self.envs.reset(options={"reset_mask": mask})
            self.time[over] = 0
        return self._shaped(self.observed)

    def _shaped(self, observed: Any) -> Float32[np.ndarray, "s e ds"]:
        from practicum.data.offline import flat_observations

        return flat_observations(observed).astype(np.float32).reshape(*self.shape, -1)

    def close(self) -> None:
        self.envs.close()


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtra("environments need gymnasium", "pip install 'practicum[rl]'") from error
    return gymnasium


def _make(gym: Any, env: str) -> Any:
    from difflib import get_close_matches

    try:
        return gym.make(env)
    except Exception as error:  # Gymnasium raises many kinds; each says what it misses
        own = ["Pendulum-v1", "PointMaze"]
        near = get_close_matches(env, [*own, *gym.registry], n=1, cutoff=0.6)
        raise InputError(
            f"{env}: Gymnasium cannot make this environment ({error})",
            f"did you mean {near[0]!r}?" if near and near[0] != env else None,
        ) from error


def _box(
    gym: Any, name: str, env: Any, data: OfflineDataset | None
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of actions, after a look at the spaces."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gym.spaces.Box):
        raise InputError(
            f"{name}: action space {actions} is not supported, a Box of numbers is expected",
            "for discrete actions use discrete CQL (d3rlpy.algos.DiscreteCQL)",
        )
    parts = (
        list(observations.spaces.values())
        if isinstance(observations, gym.spaces.Dict)
        else [observations]
    )
    if any(not isinstance(p, gym.spaces.Box) or len(p.shape) != 1 for p in parts):
        raise InputError(
            f"{name}: observation space {observations} is not supported, vectors are expected"
        )
    if data is not None:
        size = sum(p.shape[0] for p in parts)
        check_spaces(name, (size,), (int(np.prod(actions.shape)),), data)
    return _bounds(name, actions.low.ravel(), actions.high.ravel(), data)


def _one_each(seeds: Sequence[int], policies: int) -> list[int]:
    if len(seeds) != policies:
        raise InputError(f"{len(seeds)} seeds for {policies} policies")
    return [int(seed) for seed in seeds]


def scaled(actions: Any, low: np.ndarray, high: np.ndarray) -> Float32[np.ndarray, "s e da"]:
    """Actions in [-1, 1] (clipped) in the environment's units.

    Parameters
    ----------
    actions : array (S, E, da)
    low, high : float32 (da,)

    Examples
    --------
    >>> scaled(np.array([[[0.5]]]), np.float32([-2]), np.float32([2])).item()
    1.0
    """
    unit = np.clip(np.asarray(actions, np.float32), -1, 1)
    return low + (unit + np.float32(1)) * (high - low) / np.float32(2)


# ------------------------------------------------------------- runs


def evaluate(
    policy: Policy,
    env: Env,
    *,
    policies: int = 1,
    episodes: int = 20,
    seed: int = 0,
    data: OfflineDataset | None = None,
) -> Evaluation:
    """What each policy of a stack earns.

    Parameters
    ----------
    policy : callable
        Observations float32 (S, E, ds) to actions in [-1, 1] of shape (S, E, da); NumPy or torch.
    env : str, Simulator or callable that makes a gymnasium.Env
        As for :func:`open_batch`.
    policies : int
        S, the policies in the stack.
    episodes : int
        E; every policy meets the same E starts.
    seed : int
    data : OfflineDataset, optional
        What the policy learned from: spaces are compared, and its bounds scale actions.

    Raises
    ------
    InputError
        As :func:`open_batch`; or the policy's actions have another shape or are not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def jitter(observations):
    ...     return rng.uniform(-1, 1, (*observations.shape[:-1], 1))
    >>> evaluate(jitter, "Pendulum-v1", episodes=50).mean.round(-3).tolist()
    [-1000.0]
    """
    batch = open_batch(env, policies, episodes, data)
    try:
        return _run(policy, batch, policies, episodes, seed)
    finally:
        batch.close()


def _run(policy: Policy, batch: Batch, policies: int, episodes: int, seed: int) -> Evaluation:
    shape = (policies, episodes)
    returns, lengths = np.zeros(shape), np.zeros(shape, int)
    running, ended = np.ones(shape, bool), np.zeros(shape, bool)
    observations = batch.reset([seed] * policies)
    while running.any():
        step = batch.step(_actions(policy, observations, batch.name))
        # where an episode is over the batch goes on with another, which counts for nothing
        returns += np.where(running, step.rewards, 0)
        lengths += running
        over = step.terminated | step.truncated
        ended |= running & step.terminated
        running &= ~over
        observations = batch.reset_where(over) if over.any() else step.observations
    return Evaluation(returns, lengths, ended, batch.name)


def _actions(policy: Policy, observations: np.ndarray, name: str) -> np.ndarray:
    actions = policy(observations)
    actions = np.asarray(actions.detach().cpu() if hasattr(actions, "detach") else actions)
    if actions.ndim != 3 or actions.shape[:2] != observations.shape[:2]:
        raise InputError(
            f"{name}: the policy gave actions of shape {actions.shape} for observations of shape "
            f"{observations.shape}",
            "a policy takes (policies, episodes, ds) and gives (policies, episodes, da)",
        )
    if not np.isfinite(actions).all():
        raise InputError(f"{name}: the policy gave NaN or infinite actions; did it diverge?")
    return actions


def random_returns(
    env: Env,
    *,
    episodes: int = 100,
    seed: int = 0,
    data: OfflineDataset | None = None,
) -> Float[np.ndarray, "e"]:
    """Returns of actions drawn uniformly: the reference below which a policy knows nothing.

    Parameters
    ----------
    env, episodes, seed, data
        As for :func:`evaluate`.

    Raises
    ------
    InputError
        As :func:`open_batch`.

    Examples
    --------
    >>> bool(-1400 < random_returns("Pendulum-v1").mean() < -1100)
    True
    """
    batch = open_batch(env, 1, 1, data)
    size = len(batch.low)
    batch.close()
    rng = np.random.default_rng(seed)

    def drawn(observations: Float32[np.ndarray, "s e ds"]) -> np.ndarray:
        return rng.uniform(-1, 1, (*observations.shape[:-1], size))

    return evaluate(drawn, env, episodes=episodes, seed=seed, data=data).returns[0]
