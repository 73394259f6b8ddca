"""Gymnasium's Pendulum-v1 for many at once, scripted drivers, and logs of mixed quality.

The equations are those of ``gymnasium.envs.classic_control.PendulumEnv``, in its precision (state
in float64, torque in float32) and in its order of operations, for any batch of states.

>>> import numpy as np
>>> data = pendulum_mix("mixed-20", rng=np.random.default_rng(0))
>>> len(data), len(data.episodes)
(20000, 100)
>>> bool(data.returns().max() > -160) and bool(np.median(data.returns()) < -900)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float32, Real

from practicum.data.offline import OfflineDataset
from practicum.rl.ssar.mixes import Driver, Mix, Mixes, State, mixed_transitions

TORQUE = 2.0  # largest, in N m
SPEED = 8.0  # largest, in rad/s
DT = 0.05  # s
GRAVITY = 10.0  # m/s²; mass 1 kg, length 1 m
UPRIGHT_ENERGY = 5.0  # m g l / 2, in J


@dataclass(frozen=True)
class Pendulum:
    """The dynamics of Pendulum-v1 on states (theta, theta'), in rad and rad/s.

    With the angle from upright, u the torque and h = 0.05 s:
    theta'' = 15 sin(theta) + 3 u; reward = -(theta² + 0.1 theta'² + 0.001 u²).

    Parameters
    ----------
    horizon : int
        Steps after which an episode is cut off; it never ends by itself.

    Examples
    --------
    >>> import numpy as np
    >>> sim = Pendulum()
    >>> hanging = np.array([[np.pi, 0.0]])
    >>> state, reward, terminated = sim.step(hanging, np.zeros((1, 1), np.float32))
    >>> round(float(reward[0]), 4), bool(terminated[0])  # -pi²
    (-9.8696, False)
    """

    horizon: int = 200
    name: ClassVar[str] = "Pendulum-v1"
    observation_size: ClassVar[int] = 3
    action_size: ClassVar[int] = 1
    action_low: ClassVar[Float32[np.ndarray, "1"]] = np.array([-TORQUE], np.float32)
    action_high: ClassVar[Float32[np.ndarray, "1"]] = np.array([TORQUE], np.float32)

    def start(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 2"]:
        """States to start from: any angle, speed in ±1 rad/s."""
        return rng.uniform([-np.pi, -1.0], [np.pi, 1.0], (n, 2))

    def observe(self, state: State) -> Float32[np.ndarray, "... 3"]:
        """What a policy sees: cos(theta), sin(theta), theta'."""
        angle, speed = state[..., 0], state[..., 1]
        return np.stack([np.cos(angle), np.sin(angle), speed], axis=-1).astype(np.float32)

    def step(
        self, state: State, action: Real[np.ndarray, "... 1"]
    ) -> tuple[State, Float[np.ndarray, "..."], np.ndarray]:
        """The next states, rewards, and whether the episode ended by itself (never).

        Parameters
        ----------
        state : shape (..., 2)
        action : shape (..., 1)
            Torque in N m, clipped to ±2.
        """
        angle, speed = state[..., 0], state[..., 1]
        torque = np.clip(action[..., 0], -TORQUE, TORQUE)
        cost = _wrapped(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        pull = 3 * GRAVITY / 2 * np.sin(angle)
        speed = np.clip(speed + (pull + 3.0 * torque) * DT, -SPEED, SPEED)
        state = np.stack([angle + speed * DT, speed], axis=-1)
        return state, -cost, np.zeros(cost.shape, bool)


def _wrapped(angle: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return ((angle + np.pi) % (2 * np.pi)) - np.pi


# ------------------------------------------------------------- drivers


def expert(state: State, rng: np.random.Generator) -> Float[np.ndarray, "... 1"]:
    """Torque that pumps energy until the pendulum is up, then a PD controller; returns about -155.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator
        Not used; all drivers have the same form.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> expert(np.array([[0.1, 0.0]]), np.random.default_rng(0)).round(2).tolist()
    [[-1.2]]
    """
    angle, speed = _wrapped(state[..., 0]), state[..., 1]
    energy = speed**2 / 6 + UPRIGHT_ENERGY * np.cos(angle)
    # the torque does work along the motion; at rest any direction will do
    pump = 5 * (UPRIGHT_ENERGY - energy) * np.where(speed >= 0, 1, -1)
    torque = np.where(np.cos(angle) > 0.9, -(12 * angle + 3 * speed), pump)
    return np.clip(torque, -TORQUE, TORQUE)[..., None]


def uniform(state: State, rng: np.random.Generator) -> Float[np.ndarray, "... 1"]:
    """A torque at random in ±2; returns about -1,230.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> uniform(np.zeros((4, 2)), np.random.default_rng(0)).shape
    (4, 1)
    """
    return rng.uniform(-TORQUE, TORQUE, (*state.shape[:-1], 1))


def medium(state: State, rng: np.random.Generator) -> Float[np.ndarray, "... 1"]:
    """The expert's torque or, in every second step on average, one at random; returns about -455.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> medium(np.zeros((4, 2)), np.random.default_rng(0)).shape
    (4, 1)
    """
    astray = rng.random((*state.shape[:-1], 1)) < 0.5
    return np.where(astray, uniform(state, rng), expert(state, rng))


def inverted(state: State, rng: np.random.Generator) -> Float[np.ndarray, "... 1"]:
    """The expert's torque with its sign changed: takes energy out, and holds the pendulum down.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> inverted(np.array([[0.1, 0.0]]), np.random.default_rng(0)).round(2).tolist()
    [[1.2]]
    """
    return -expert(state, rng)


# shares of the episodes and who drives them
MIXES: Mixes = {
    "expert": ((1.0, expert),),
    "medium": ((1.0, medium),),
    "mixed-20": ((0.2, expert), (0.8, uniform)),
    "mixed-anti": ((0.2, expert), (0.8, inverted)),
}


def pendulum_mix(
    name: Mix | str,
    episodes: int = 100,
    *,
    rng: np.random.Generator | int | None = None,
    horizon: int = 200,
) -> OfflineDataset:
    """A log of the pendulum, driven well, badly, or by several hands.

    Parameters
    ----------
    name : {"expert", "medium", "mixed-20", "mixed-anti"}
        ``mixed-20``: a fifth of the episodes by the expert, the rest at random; ``mixed-anti``: the
        rest by the inverted expert.
    episodes : int
    rng : Generator or seed
    horizon : int
        Steps of an episode; every one is cut off there.

    Returns
    -------
    OfflineDataset
        Its first episodes are the expert's.

    Raises
    ------
    InputError
        The name is not known, or fewer than one episode is asked for.

    Examples
    --------
    >>> pendulum_mix("expert", 10, rng=0).returns().mean() > -250
    np.True_
    """
    arrays = mixed_transitions("pendulum", MIXES, name, _drive, episodes, horizon, rng)
    ends = np.tile(np.arange(horizon) == horizon - 1, episodes)
    return OfflineDataset.from_arrays(
        **arrays,
        terminals=np.zeros(len(ends), bool),
        timeouts=ends,
        action_bounds=(-TORQUE, TORQUE),
        force=True,
        name=f"pendulum-{name}",
        env_id=Pendulum.name,
    )


def _drive(
    driver: Driver, episodes: int, horizon: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Transitions of some episodes, one episode after the other."""
    sim, steps = Pendulum(horizon), []
    state = sim.start(rng, episodes)
    for _ in range(horizon):
        action = driver(state, rng).astype(np.float32)
        following, reward, _ = sim.step(state, action)
        steps.append((sim.observe(state), action, reward, sim.observe(following)))
        state = following
    names = ("observations", "actions", "rewards", "next_observations")
    stacked = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    shape = (episodes * horizon,)
    return {
        key: array.reshape(shape if array.ndim == 2 else (*shape, array.shape[-1]))
        for key, array in zip(names, stacked, strict=True)
    }
