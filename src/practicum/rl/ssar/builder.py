"""Make logs like D4RL's: train a policy online, and record it at several stages as Minari sets.

==============  ================================================================================
random          actions drawn uniformly
medium          the first policy with a third of the way from the random to the best return
medium-replay   everything that the training had seen until then
expert          the best policy
==============  ================================================================================

The trainer is TD3 (Fujimoto et al. 2018): the TD3+BC of this package with no pull to any data.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float32

from practicum.data.offline import RL_EXTRA, OfflineDataset
from practicum.errors import InputError, MissingExtra
from practicum.rl.ssar.evaluation import Env, Step, evaluate, open_batch, random_returns, scaled

Level = Literal["random", "medium", "medium-replay", "expert"]
MEDIUM = 1 / 3  # of the way from random to best, as D4RL chose its medium policies
Act = Callable[[Float32[np.ndarray, "1 1 ds"]], np.ndarray]


@dataclass(frozen=True)
class OnlineSettings:
    """How a policy is trained online, and how long each stage is recorded.

    Parameters
    ----------
    steps : int
        Of training, in the environment; one update each.
    warmup : int
        Steps at random first.
    transitions : int
        Recorded of each stage (medium-replay has what it has).
    check_every, check_episodes : int
        Steps between two evaluations, each of which is a stage one may record.
    noise : float
        Standard deviation added to actions in [-1, 1], in training and in records.
    hidden : tuple of int
    batch : int
    gamma, tau, lr : float
    seed : int
    device : str

    Raises
    ------
    InputError
        A number is not positive, or the warm-up is as long as the training.

    Examples
    --------
    >>> OnlineSettings(steps=50_000).warmup
    10000
    """

    steps: int = 300_000
    warmup: int = 10_000
    transitions: int = 100_000
    check_every: int = 5_000
    check_episodes: int = 5
    noise: float = 0.1
    hidden: tuple[int, ...] = (256, 256)
    batch: int = 256
    gamma: float = 0.99
    tau: float = 0.005
    lr: float = 3e-4
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("steps", "warmup", "transitions", "check_every", "check_episodes", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: at least 1 is expected")
        if self.warmup >= self.steps:
            raise InputError(f"warmup={self.warmup} leaves nothing of steps={self.steps}")


@dataclass(frozen=True)
class Stage:
    """A policy of some moment of a training.

    Attributes
    ----------
    step : int
    mean_return : float
        Of ``check_episodes`` episodes without noise.
    act : callable
        Observations (1, 1, ds) to actions in [-1, 1] (1, 1, da).
    """

    step: int
    mean_return: float
    act: Act


@dataclass(frozen=True)
class Built:
    """A recorded stage.

    Attributes
    ----------
    level : str
    step : int
        Of the training, at which the policy was taken; 0 for the random one.
    data : OfflineDataset
    """

    level: str
    step: int
    data: OfflineDataset


@dataclass
class _Recorder:
    """Transitions of one environment as they come."""

    rows: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def add(self, observation: np.ndarray, action: np.ndarray, step: Step) -> None:
        self.rows.append(
            (
                observation[0, 0],
                action[0, 0],
                step.rewards[0, 0],
                step.observations[0, 0],
                step.terminated[0, 0],
                step.truncated[0, 0],
            )
        )

    def dataset(
        self, name: str, env: str, bounds: tuple[np.ndarray, np.ndarray], n: int | None = None
    ) -> OfflineDataset:
        """The first n transitions; the last one counts as cut off."""
        columns = [np.stack(column) for column in zip(*self.rows[:n], strict=True)]
        obs, act, rew, nxt, done, cut = columns
        cut[-1] |= not done[-1]
        return OfflineDataset.from_arrays(
            obs, act, rew, done, timeouts=cut, next_observations=nxt,
            action_bounds=bounds, force=True, name=name, env_id=env,
        )  # fmt: skip


# ------------------------------------------------------------- training


def train_online(
    env: Env,
    settings: OnlineSettings | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[OfflineDataset, list[Stage]]:
    """Train TD3 in an environment.

    Parameters
    ----------
    env : str, Simulator or callable
        As for ``practicum.rl.ssar.evaluation.open_batch``.
    settings : OnlineSettings, optional
    progress : callable, optional
        Called with the step and the mean return of every evaluation.

    Returns
    -------
    OfflineDataset, list of Stage
        All that was seen, in order, and the policy at every evaluation.

    Raises
    ------
    InputError
        There is no such environment, or its actions are discrete.

    Examples
    --------
    >>> seen, stages = train_online("Pendulum-v1", OnlineSettings(
    ...     steps=40, warmup=30, check_every=20, check_episodes=1, hidden=(16,), batch=32))
    >>> len(seen), [stage.step for stage in stages]
    (40, [20, 40])
    """
    settings = settings or OnlineSettings()
    batch, recorder, stages = open_batch(env, 1, 1), _Recorder(), []
    rng = np.random.default_rng(settings.seed)
    try:
        trainer = _Trainer(batch.reset([settings.seed]).shape[-1], len(batch.low), settings)
        observation = batch.reset([settings.seed])
        for step in range(1, settings.steps + 1):
            early = step <= settings.warmup
            action = rng.uniform(-1, 1, (1, 1, len(batch.low))).astype(np.float32)
            if not early:
                noise = settings.noise * rng.standard_normal(action.shape)
                action = np.clip(trainer.act(observation) + noise, -1, 1).astype(np.float32)
            led = batch.step(action)
            recorder.add(observation, scaled(action, batch.low, batch.high), led)
            trainer.add(observation[0], action[0], led)
            over = led.terminated | led.truncated
            observation = batch.reset_where(over) if over.any() else led.observations
            if not early:
                trainer.update()
            if step % settings.check_every == 0 or step == settings.steps:
                act = trainer.frozen()
                found = evaluate(
                    act, env, episodes=settings.check_episodes, seed=settings.seed + 1
                ).mean.item()
                stages.append(Stage(step, found, act))
                if progress is not None:
                    progress(step, found)
        bounds = (batch.low, batch.high)
        return recorder.dataset(f"{batch.name} training", batch.name, bounds), stages
    finally:
        batch.close()


class _Trainer:
    """TD3 and its replay buffer: one member of a stacked learner."""

    def __init__(self, ds: int, da: int, settings: OnlineSettings) -> None:
        from practicum.rl.ssar.learner import Sizes
        from practicum.rl.ssar.regularizer import Regularization
        from practicum.rl.ssar.replay import Normalizer, Replay
        from practicum.rl.ssar.td3bc import TD3BC

        sizes = Sizes(
            ds, da, hidden=settings.hidden, layer_norm=False, gamma=settings.gamma,
            tau=settings.tau, lr=settings.lr, steps=settings.steps, device=settings.device,
        )  # fmt: skip
        free = Regularization(0.0, adaptive=False, select=False, restrict=False)
        self.learner = TD3BC(sizes, [settings.seed], [free])
        as_is = Normalizer(np.zeros(ds, np.float32), np.ones(ds, np.float32))
        # a buffer starts from some data, of which nothing is kept
        row, one = np.zeros((1, ds), np.float32), np.ones(da, np.float32)
        none = OfflineDataset(
            row, one[None], row[:, 0], row, np.zeros(1, bool), np.ones(1, bool), -one, one
        )
        self.replay = Replay(
            [none], of=[0], seeds=[settings.seed], batch=settings.batch, normalizers=[as_is],
            room=settings.steps, keep=[np.zeros(1, bool)], device=settings.device,
        )  # fmt: skip

    def act(self, observation: Float32[np.ndarray, "1 e ds"]) -> np.ndarray:
        from practicum.models.training import torch

        states = torch.as_tensor(observation, device=self.learner.device)
        return self.learner.act(states).cpu().numpy()

    def add(self, observation: np.ndarray, action: np.ndarray, led: Step) -> None:
        rewards, ended = led.rewards[:, 0], led.terminated[:, 0]
        self.replay.add(observation, action, rewards, led.observations[:, 0], ended)

    def update(self) -> None:
        self.learner.update(self.replay.sample())

    def frozen(self) -> Act:
        """The policy as it is now."""
        from practicum.models.training import torch

        policy, device = self.learner.policy.select([0]), self.learner.device

        def act(observation: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                states = torch.as_tensor(observation, device=device)
                return policy(states).tanh().cpu().numpy()

        return act


def record(
    act: Act | None,
    env: Env,
    transitions: int,
    *,
    noise: float = 0.1,
    seed: int = 0,
    name: str = "record",
) -> OfflineDataset:
    """What a policy does in an environment, with noise on its actions.

    Parameters
    ----------
    act : callable or None
        Observations (1, 1, ds) to actions in [-1, 1] (1, 1, da); None draws them uniformly.
    env : str, Simulator or callable
    transitions : int
        The last episode is cut off there.
    noise : float
        Standard deviation, actions being in [-1, 1].
    seed : int
    name : str

    Raises
    ------
    InputError
        There is no such environment, or its actions are discrete.

    Examples
    --------
    >>> len(record(None, "Pendulum-v1", 300).episodes)
    2
    """
    batch, recorder = open_batch(env, 1, 1), _Recorder()
    rng = np.random.default_rng(seed)
    try:
        observation = batch.reset([seed])
        for _ in range(transitions):
            size = (1, 1, len(batch.low))
            if act is None:
                action = rng.uniform(-1, 1, size).astype(np.float32)
            else:
                action = act(observation) + noise * rng.standard_normal(size)
                action = np.clip(action, -1, 1).astype(np.float32)
            led = batch.step(action)
            recorder.add(observation, scaled(action, batch.low, batch.high), led)
            over = led.terminated | led.truncated
            observation = batch.reset_where(over) if over.any() else led.observations
        return recorder.dataset(name, batch.name, (batch.low, batch.high))
    finally:
        batch.close()


def build(
    env: Env,
    levels: Sequence[str] = get_args(Level),
    settings: OnlineSettings | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> dict[str, Built]:
    """Train a policy online and record it at several stages.

    Parameters
    ----------
    env : str, Simulator or callable
        ``"HalfCheetah-v5"``, ``"Hopper-v5"``, ``"Walker2d-v5"`` need ``gymnasium[mujoco]``.
    levels : sequence of {"random", "medium", "medium-replay", "expert"}
    settings : OnlineSettings, optional
    progress : callable, optional
        Called with the step and the mean return of every evaluation.

    Returns
    -------
    dict of level to Built

    Raises
    ------
    InputError
        A level is not known; as :func:`train_online`.

    Warns
    -----
    UserWarning
        The best policy is not better than random actions: the training was too short.

    Examples
    --------
    >>> made = build("Pendulum-v1", ["random"], OnlineSettings(transitions=400))
    >>> len(made["random"].data)
    400
    """
    settings = settings or OnlineSettings()
    if wrong := [level for level in levels if level not in get_args(Level)]:
        raise InputError(f"level {wrong[0]!r} is not known", f"use {', '.join(get_args(Level))}")
    made: dict[str, Built] = {}

    def keep(level: str, stage: Stage | None) -> None:
        if level in levels:
            act, step = (None, 0) if stage is None else (stage.act, stage.step)
            seed = settings.seed + 2
            data = record(
                act, env, settings.transitions, noise=settings.noise, seed=seed, name=level
            )
            made[level] = Built(level, step, data)

    keep("random", None)
    if set(levels) == {"random"}:
        return made
    floor = float(random_returns(env, episodes=20, seed=settings.seed).mean())
    seen, stages = train_online(env, settings, progress)
    best = max(stages, key=lambda stage: stage.mean_return)
    if best.mean_return <= floor:
        warnings.warn(
            f"the best policy returns {best.mean_return:,.4g}, random actions {floor:,.4g}: "
            f"{settings.steps:,} steps of training were too few",
            UserWarning,
            stacklevel=2,
        )
    goal = min(floor + MEDIUM * (best.mean_return - floor), best.mean_return)
    middle = next(stage for stage in stages if stage.mean_return >= goal)
    keep("medium", middle)
    if "medium-replay" in levels:
        rows = np.arange(len(seen)) < middle.step
        made["medium-replay"] = Built(
            "medium-replay", middle.step, seen.subset(rows, "medium-replay")
        )
    keep("expert", best)
    return made


# ------------------------------------------------------------- Minari


def write_minari(
    data: OfflineDataset,
    dataset_id: str,
    *,
    algorithm: str = "practicum",
    description: str = "",
    reference: tuple[float, float] | None = None,
    overwrite: bool = False,
) -> Path:
    """Store a data set as Minari does, to be read by anything that reads Minari.

    Parameters
    ----------
    data : OfflineDataset
        With ``env_id`` known to Gymnasium, its spaces are stored, else boxes of its shapes.
    dataset_id : str
        ``"hopper/medium-v0"``; a namespace may come first.
    algorithm, description : str
    reference : (float, float), optional
        Returns of the random and the best policy: Minari's normalised score is 0 and 1 there.
    overwrite : bool

    Returns
    -------
    Path
        The folder, below ``MINARI_DATASETS_PATH`` (default ``~/.minari/datasets``).

    Raises
    ------
    InputError
        The id is taken or no Minari id.
    MissingExtra
        Minari is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp()
    >>> data = pendulum_mix("expert", 6, rng=0)
    >>> write_minari(data, "pendulum/expert-v0").name
    'expert-v0'
    >>> OfflineDataset.from_minari("pendulum/expert-v0").fingerprint == data.fingerprint
    True
    >>> del os.environ["MINARI_DATASETS_PATH"]
    """
    if not overwrite:
        refuse_taken(dataset_id)
    folder = _folder_of(dataset_id)
    import minari
    from minari.data_collector import EpisodeBuffer

    if folder.exists():
        with contextlib.redirect_stdout(None):
            minari.delete_dataset(dataset_id)
    spaces = _spaces(data)
    buffers = [
        EpisodeBuffer(
            observations=np.concatenate(
                [data.observations[a:b], data.next_observations[b - 1 : b]]
            ),
            actions=data.from_unit(data.actions[a:b]).reshape(b - a, *spaces["shape"]),
            rewards=data.rewards[a:b],
            terminations=data.terminals[a:b],
            truncations=data.timeouts[a:b],
        )
        for a, b in data.episodes
    ]
    low, high = reference or (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of fields of its own that stay empty
        minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            algorithm_name=algorithm,
            description=description or data.describe(),
            ref_min_score=low,
            ref_max_score=high,
            **spaces["known"],
        )
    return folder


def refuse_taken(dataset_id: str) -> None:
    """Complain if there is a Minari data set of this id, or if it is no id.

    Parameters
    ----------
    dataset_id : str

    Raises
    ------
    InputError
        The id is taken, or no Minari id.
    MissingExtra
        Minari is not installed.

    Examples
    --------
    >>> refuse_taken("nobody/has-this-v0")
    """
    folder = _folder_of(dataset_id)
    if folder.exists():
        raise InputError(
            f"the Minari data set {dataset_id} is there already ({folder})",
            "name another, or have it replaced with overwrite=True (--overwrite)",
        )


def _folder_of(dataset_id: str) -> Path:
    try:
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage.datasets_root_dir import get_dataset_path
    except ImportError as error:
        raise MissingExtra("writing Minari data sets needs minari and h5py", RL_EXTRA) from error
    try:
        parse_dataset_id(dataset_id)
    except ValueError as error:
        raise InputError(
            f"{dataset_id!r} is no Minari id ({error})", "for example hopper/medium-v0"
        ) from error
    return Path(get_dataset_path(dataset_id))


def _spaces(data: OfflineDataset) -> Mapping[str, dict]:
    """What Minari stores beside the data: the environment, or boxes of the right shapes."""
    import gymnasium

    if data.env_id in gymnasium.registry:
        env = gymnasium.make(data.env_id)
        fits = env.observation_space.shape == data.observations.shape[1:]
        shape = env.action_space.shape
        env.close()
        if fits:
            return {"known": {"env": data.env_id}, "shape": shape}
    box = gymnasium.spaces.Box
    known = {
        "observation_space": box(-np.inf, np.inf, data.observations.shape[1:], np.float32),
        "action_space": box(data.action_low, data.action_high, dtype=np.float32),
    }
    return {"known": known, "shape": data.actions.shape[1:]}
