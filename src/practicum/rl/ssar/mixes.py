"""Logs by several hands: shares of the episodes, and who drives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

Mix = Literal["expert", "medium", "mixed-20", "mixed-anti"]
State = Float[np.ndarray, "... 2"]
Driver = Callable[[State, np.random.Generator], Float[np.ndarray, "... a"]]
Mixes = Mapping[str, tuple[tuple[float, Driver], ...]]
# driver, episodes, steps of one: its transitions, one episode after the other
Drive = Callable[[Driver, int, int, np.random.Generator], dict[str, np.ndarray]]


def mixed_transitions(
    kind: str,
    mixes: Mixes,
    name: str,
    drive: Drive,
    episodes: int,
    horizon: int,
    rng: np.random.Generator | int | None,
) -> dict[str, Any]:
    """The transitions of a mix by its name, driver after driver.

    Parameters
    ----------
    kind : str
        What a message calls these sets.
    mixes : mapping
        Name to shares and drivers.
    name : str
    drive : callable
        Lets a driver make some episodes.
    episodes, horizon : int
        Their number, and the steps after which one is cut off.
    rng : Generator or seed

    Raises
    ------
    InputError
        The name is not known, or fewer than one episode or step is asked for.

    Examples
    --------
    >>> def drive(driver, episodes, horizon, rng):
    ...     return {"actions": driver(np.zeros((episodes, 2)), rng)}
    >>> left, right = (lambda s, rng: s[:, :1] - 1), (lambda s, rng: s[:, :1] + 1)
    >>> mix = {"both": ((0.25, left), (0.75, right))}
    >>> mixed_transitions("toy", mix, "both", drive, 4, 1, 0)["actions"].ravel().tolist()
    [-1.0, 1.0, 1.0, 1.0]
    """
    if name not in mixes:
        near = get_close_matches(str(name), mixes, n=1, cutoff=0.3)
        raise InputError(
            f"{name!r} is no {kind} set",
            (f"did you mean {near[0]!r}? " if near else "") + f"sets: {', '.join(mixes)}",
        )
    if episodes < 1 or horizon < 1:
        raise InputError(f"{episodes} episodes of {horizon} steps: at least one of each is needed")
    rng = np.random.default_rng(rng)
    mix = mixes[name]
    counts = np.diff(np.round(np.cumsum([0, *(share for share, _ in mix)]) * episodes))
    parts = [
        drive(driver, int(count), horizon, rng)
        for count, (_, driver) in zip(counts, mix, strict=True)
        if count
    ]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
