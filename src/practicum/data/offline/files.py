"""Arrays from NPZ and HDF5 files (D4RL's layout, d3rlpy's); nothing is unpickled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from practicum.data.offline.names import ALIASES, REQUIRED, near_file, not_there
from practicum.errors import InputError, reason_of


def existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, a file is expected")
    if not os.path.isfile(path):
        raise InputError(f"{path}: there is no such file", near_file(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    return path


@contextmanager
def damage_named(path: Path | str, kind: str) -> Iterator[None]:
    """The libraries that read files raise many kinds of errors on junk; all mean the same here."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: not a readable {kind} ({reason_of(error)})") from error


def unpickled(path: Path, archive: Mapping[str, np.ndarray], key: str) -> np.ndarray:
    """An array of an NPZ, which must be no Python objects."""
    try:
        return archive[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise InputError(
            f"{path}: {key} holds Python objects, which are never unpickled",
            "store plain arrays of numbers with numpy.savez",
        ) from error


def read_hdf5(path: Path, file: Any, keys: Mapping[str, str] | None) -> dict[str, np.ndarray]:
    """The arrays of a file in one of three layouts."""
    if "columns" in file and "num_episodes" in file:
        return _read_d3rlpy(path, file)
    if "episode_0" in file:
        raise InputError(
            f"{path}: this is the inside of a Minari data set",
            "name its id, or the folder that holds data/main_data.hdf5",
        )
    names = {usual for known in ALIASES.values() for usual in known}
    names |= {"episode_terminals", "discrete_action", *(keys or {}).values()}
    there = [key for key in sorted(names) if key in file and hasattr(file[key], "shape")]
    arrays = {key: np.asarray(file[key][()]) for key in there}
    if not set(arrays) & names:
        raise not_there(str(path), "observations", list(file), "D4RL's layout is expected")
    return arrays


def _read_d3rlpy(path: Path, file: Any) -> dict[str, np.ndarray]:
    """d3rlpy 2.x writes each episode's arrays by themselves, and whether it ended by itself."""

    def episodes() -> Iterator[tuple[Any, Any, Any, Any]]:
        for i in range(int(file["num_episodes"][()])):
            if f"observations_{i}" not in file:
                raise InputError(
                    f"{path}: observations_{i} is missing or a tuple; one array of vectors is "
                    "expected"
                )
            yield tuple(file[f"{key}_{i}"][()] for key in (*REQUIRED, "terminated"))

    return joined_episodes(str(path), episodes())


def joined_episodes(
    name: str, episodes: Iterable[tuple[Any, Any, Any, Any]]
) -> dict[str, np.ndarray]:
    """Arrays of whole episodes, each with whether it ended by itself, one after the other.

    Parameters
    ----------
    name : str
        For messages.
    episodes : iterable of (observations, actions, rewards, terminated)

    Raises
    ------
    InputError
        There is none.

    Examples
    --------
    >>> one = (np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2), True)
    >>> joined_episodes("toy", [one])["terminals"].tolist()
    [False, True]
    """
    parts: dict[str, list[np.ndarray]] = {key: [] for key in (*REQUIRED, "terminals", "timeouts")}
    for *arrays, ended in episodes:
        for key, array in zip(REQUIRED, arrays, strict=True):
            parts[key].append(np.asarray(array))
        steps = len(parts["rewards"][-1])
        last = np.arange(steps) == steps - 1
        parts["terminals"].append(last & bool(ended))
        parts["timeouts"].append(last & (not ended))
    if not parts["rewards"]:
        raise InputError(f"{name}: holds no episode")
    return {key: np.concatenate(arrays) for key, arrays in parts.items()}
