"""Arrays from Minari data sets on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from practicum.data.offline.checks import refuse_discrete
from practicum.data.offline.names import ALIASES, RL_EXTRA
from practicum.errors import InputError, MissingExtra, listed, reason_of


def open_minari(source: Any) -> Any:
    if hasattr(source, "iterate_episodes"):
        return source
    try:
        import minari
    except ImportError as error:
        raise MissingExtra(f"{source}: Minari data sets need minari", RL_EXTRA) from error
    folder = Path(source)
    try:
        if folder.is_dir():
            inner = folder / "data" if (folder / "data").is_dir() else folder
            return minari.MinariDataset(inner)
        return minari.load_dataset(str(source), download=False)
    except Exception as error:  # Minari raises many kinds, all of which mean the same here
        raise _no_minari(minari, source, error) from error


def minari_arrays(name: str, data: Any) -> dict[str, np.ndarray]:
    """The episodes of a Minari data set, one after the other."""
    rows: dict[str, list[np.ndarray]] = {key: [] for key in ALIASES if key != "episode"}
    for episode in data.iterate_episodes():
        steps = len(episode.rewards)
        if steps == 0:
            continue
        states = flat_observations(episode.observations)
        if len(states) != steps + 1:
            raise InputError(
                f"{name}, episode {episode.id}: {len(states)} observations for {steps} steps",
                "a Minari episode holds one observation more than steps",
            )
        truncated = np.array(episode.truncations, bool)
        truncated[-1] |= not episode.terminations[-1]  # the recording ended here
        rows["observations"].append(states[:-1])
        rows["next_observations"].append(states[1:])
        rows["actions"].append(np.asarray(episode.actions).reshape(steps, -1))
        rows["rewards"].append(np.asarray(episode.rewards))
        rows["terminals"].append(np.asarray(episode.terminations, bool))
        rows["timeouts"].append(truncated)
    if not rows["rewards"]:
        raise InputError(f"{name}: the data set holds no steps")
    return {key: np.concatenate(parts) for key, parts in rows.items()}


def _no_minari(minari: Any, source: Any, error: Exception) -> InputError:
    from difflib import get_close_matches

    if Path(source).is_dir():
        return InputError(
            f"{source}: not the folder of a Minari data set ({reason_of(error)})",
            "the folder that holds data/main_data.hdf5 and data/metadata.json is expected",
        )
    try:
        there = list(minari.list_local_datasets())
    except Exception:  # an unreadable folder: nothing to suggest
        there = []
    near = get_close_matches(str(source), there, n=1, cutoff=0.5)
    return InputError(
        f"{source}: there is no such file, and no Minari data set of this id on this machine",
        f"did you mean {near[0]!r}?" if near else f"Minari data sets here: {listed(there) or 0}",
    )


def refuse_spaces(name: str, observation: Any, action: Any) -> None:
    from gymnasium import spaces

    if isinstance(action, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        refuse_discrete(name, np.zeros(1, int), None)
    if not isinstance(action, spaces.Box):
        raise InputError(f"{name}: action space {action} is not supported, a Box is expected")
    parts = observation.spaces.values() if isinstance(observation, spaces.Dict) else [observation]
    for part in parts:
        if not isinstance(part, spaces.Box) or len(part.shape) != 1:
            raise InputError(
                f"{name}: observation space {part} is not supported",
                "vectors, or a dictionary of vectors, are expected",
            )


def flat_observations(observations: Any) -> np.ndarray:
    """Rows of vector observations; the parts of a dictionary side by side, by name.

    Parameters
    ----------
    observations : array of shape (n, ...) or mapping of name to such arrays

    Examples
    --------
    >>> flat_observations({"at": np.zeros((4, 2)), "goal": np.ones((4, 2))}).shape
    (4, 4)
    """
    if isinstance(observations, Mapping):
        return np.concatenate([flat_observations(observations[k]) for k in sorted(observations)], 1)
    rows = np.asarray(observations)
    return rows.reshape(len(rows), -1)
