"""A point in a small maze with a sparse reward: one for reaching the goal, nothing before.

The arena is [-1, 1]², a wall juts in from the left, start and goal lie on its two sides::

    +-----------+
    |  G        |
    |=======    |   walk right, up, back left
    |  S        |
    +-----------+

>>> import numpy as np
>>> data = pointmaze_mix("mixed-20", rng=np.random.default_rng(0))
>>> len(data.episodes), int(data.returns().sum())  # episodes, and those that reached the goal
(100, 20)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Float32, Real

from practicum.data.offline import OfflineDataset
from practicum.rl.ssar.mixes import Driver, Mix, Mixes, mixed_transitions

Place = Float[np.ndarray, "... 2"]

STRIDE = 0.1  # of a full step along an axis; half the wall's thickness, so none is jumped over
START, GOAL = np.array([-0.7, -0.6]), np.array([-0.7, 0.6])
RADIUS = 0.2  # within which the goal counts as reached
WALL_END, WALL_HALF = 0.4, 0.1  # the wall is x < 0.4, |y| < 0.1
CORNERS = np.array([[0.7, -0.6], [0.7, 0.6]])  # the way round the wall


@dataclass(frozen=True)
class PointMaze:
    """The dynamics: p' = p + 0.1 a, each axis held up by walls; reward 1 and the end at the goal.

    Parameters
    ----------
    horizon : int
        Steps after which an episode is cut off.

    Examples
    --------
    >>> sim = PointMaze()
    >>> below_wall = np.array([[-0.5, -0.15]])
    >>> state, reward, terminated = sim.step(below_wall, np.array([[1.0, 1.0]]))
    >>> state.round(2).tolist()  # along the wall, not through it
    [[-0.4, -0.15]]
    """

    horizon: int = 150
    name: ClassVar[str] = "PointMaze"
    observation_size: ClassVar[int] = 2
    action_size: ClassVar[int] = 2
    action_low: ClassVar[Float32[np.ndarray, "2"]] = np.array([-1, -1], np.float32)
    action_high: ClassVar[Float32[np.ndarray, "2"]] = np.array([1, 1], np.float32)

    def start(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 2"]:
        """Places near the start, ±0.15 along each axis."""
        return START + rng.uniform(-0.15, 0.15, (n, 2))

    def observe(self, state: Place) -> Float32[np.ndarray, "... 2"]:
        """What a policy sees: the place."""
        return state.astype(np.float32)

    def step(
        self, state: Place, action: Real[np.ndarray, "... 2"]
    ) -> tuple[Place, Float[np.ndarray, "..."], np.ndarray]:
        """The next places, rewards, and whether the goal was reached.

        Parameters
        ----------
        state : shape (..., 2)
        action : shape (..., 2)
            Clipped to ±1.
        """
        x, y = state[..., 0], state[..., 1]
        aimed = np.clip(state + STRIDE * np.clip(action, -1, 1), -1, 1)
        x = np.where(_in_wall(aimed[..., 0], y), x, aimed[..., 0])
        y = np.where(_in_wall(x, aimed[..., 1]), y, aimed[..., 1])
        reached = np.hypot(x - GOAL[0], y - GOAL[1]) < RADIUS
        return np.stack([x, y], axis=-1), reached.astype(float), reached


def _in_wall(x: Float[np.ndarray, "..."], y: Float[np.ndarray, "..."]) -> np.ndarray:
    return (x < WALL_END) & (np.abs(y) < WALL_HALF)


# ------------------------------------------------------------- drivers


def waypoints(state: Place, rng: np.random.Generator, noise: float = 0.5) -> Place:
    """Walks from corner to corner round the wall, with Gaussian noise on every step.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator
    noise : float
        Standard deviation, in units of the action.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> waypoints(np.array([[-0.7, -0.6]]), np.random.default_rng(0), noise=0.0).tolist()
    [[1.0, 0.0]]
    """
    x, y = state[..., :1], state[..., 1:]
    before, beside = (y < WALL_HALF) & (x < WALL_END + 0.1), (y < WALL_HALF + 0.2) & (x > 0)
    target = np.where(before, CORNERS[0], np.where(beside, CORNERS[1], GOAL))
    way = target - state
    way = way / np.maximum(np.abs(way).max(axis=-1, keepdims=True), STRIDE)
    return np.clip(way + noise * rng.standard_normal(state.shape), -1, 1)


def wander(state: Place, rng: np.random.Generator) -> Place:
    """A random walk: every step drawn uniformly.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> wander(np.zeros((4, 2)), np.random.default_rng(0)).shape
    (4, 2)
    """
    return rng.uniform(-1, 1, state.shape)


def astray(state: Place, rng: np.random.Generator) -> Place:
    """Walks the other way than :func:`waypoints`, with the same noise.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> astray(np.zeros((4, 2)), np.random.default_rng(0)).shape
    (4, 2)
    """
    return np.clip(-waypoints(state, rng, 0.0) + 0.5 * rng.standard_normal(state.shape), -1, 1)


def lost(state: Place, rng: np.random.Generator) -> Place:
    """The way round the wall or, in every second step on average, a step at random.

    Parameters
    ----------
    state : shape (..., 2)
    rng : Generator

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> lost(np.zeros((4, 2)), np.random.default_rng(0)).shape
    (4, 2)
    """
    turned = rng.random((*state.shape[:-1], 1)) < 0.5
    return np.where(turned, wander(state, rng), waypoints(state, rng))


# shares of the episodes and who drives them
MAZE_MIXES: Mixes = {
    "expert": ((1.0, waypoints),),
    "medium": ((1.0, lost),),
    "mixed-20": ((0.2, waypoints), (0.8, wander)),
    "mixed-anti": ((0.2, waypoints), (0.8, astray)),
}


def pointmaze_mix(
    name: Mix | str,
    episodes: int = 100,
    *,
    rng: np.random.Generator | int | None = None,
    horizon: int = 150,
) -> OfflineDataset:
    """A log of the maze, walked well, at random, or by several.

    Parameters
    ----------
    name : {"expert", "medium", "mixed-20", "mixed-anti"}
        ``mixed-20``: a fifth of the episodes with waypoints, the rest at random; ``mixed-anti``:
        the rest the wrong way.
    episodes : int
    rng : Generator or seed
    horizon : int
        Steps after which an episode is cut off.

    Returns
    -------
    OfflineDataset
        Its first episodes are those with waypoints.

    Raises
    ------
    InputError
        The name is not known, or fewer than one episode is asked for.

    Examples
    --------
    >>> pointmaze_mix("expert", 10, rng=0).returns().mean().item()
    1.0
    """
    arrays = mixed_transitions("maze", MAZE_MIXES, name, _walk, episodes, horizon, rng)
    return OfflineDataset.from_arrays(
        **arrays, force=True, name=f"pointmaze-{name}", env_id=PointMaze.name
    )


def _walk(
    driver: Driver, episodes: int, horizon: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Transitions of some episodes, one episode after the other, each up to its end."""
    sim, steps = PointMaze(horizon), []
    state, running = sim.start(rng, episodes), np.ones(episodes, bool)
    for t in range(horizon):
        action = driver(state, rng).astype(np.float32)
        following, reward, reached = sim.step(state, action)
        cut = np.full(episodes, t == horizon - 1) & ~reached
        steps.append((state, action, reward, following, reached, cut, running))
        state, running = following, running & ~reached
        if not running.any():
            break
    names = (
        "observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "kept",
    )  # fmt: skip
    stacked = {
        key: np.stack(column, axis=1) for key, column in zip(names, zip(*steps), strict=True)
    }
    kept = stacked.pop("kept")
    return {key: array[kept] for key, array in stacked.items()}
