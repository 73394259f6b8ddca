"""What arrays and columns are called in the wild, and what to say where one is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from practicum.errors import InputError, listed

# what the arrays of a transition are called in the wild; the first is ours and D4RL's
ALIASES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "obs", "states", "state", "observation"),
    "actions": ("actions", "acts", "action"),
    "rewards": ("rewards", "reward", "rews"),
    "terminals": ("terminals", "terminations", "terminated", "terminal", "dones", "done"),
    "timeouts": ("timeouts", "truncations", "truncated", "timeout"),
    "next_observations": ("next_observations", "next_obs", "next_states", "next_state"),
    "episode": ("episode", "episodes", "episode_id", "trajectory"),
}
REQUIRED = ("observations", "actions", "rewards")
OPTIONS = {"observations": "obs", "actions": "act", "rewards": "reward"}  # of the command line
RL_EXTRA = "pip install 'practicum[rl]'"


def near_file(path: Path) -> str | None:
    """A question after a file beside the one asked for, of almost its name.

    Parameters
    ----------
    path : Path
        Which is not there.

    Examples
    --------
    >>> near_file(Path("/nowhere/at/all.npz")) is None
    True
    """
    from difflib import get_close_matches

    beside = os.listdir(path.parent) if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, n=1, cutoff=0.6)
    return f"did you mean {path.parent / near[0]}?" if near else None


def not_there(name: str, what: str, there: Sequence[str], remedy: str) -> InputError:
    from difflib import get_close_matches

    near = get_close_matches(what, there, n=1, cutoff=0.6)
    return InputError(
        f"{name}: {what} is missing; there are: {listed(there) or 'none'}",
        (f"did you mean {near[0]!r}? " if near else "") + remedy,
    )


def find_names(name: str, there: list[str], keys: Mapping[str, str]) -> dict[str, str]:
    """Our names of arrays and the file's."""
    if unknown := set(keys) - set(ALIASES):
        raise InputError(f"keys: {listed(sorted(unknown))} is none of {', '.join(ALIASES)}")
    found = {}
    for ours, usual in ALIASES.items():
        if ours in keys and keys[ours] not in there:
            raise not_there(name, keys[ours], there, f"it was named as {ours} in keys")
        theirs = keys.get(ours) or next((u for u in usual if u in there), None)
        if theirs is not None:
            found[ours] = theirs
        elif ours in REQUIRED:
            option = OPTIONS[ours]
            remedy = f'if it has another name, say keys={{"{ours}": ...}}, --{option} NAME'
            raise not_there(name, ours, there, remedy)
    return found
