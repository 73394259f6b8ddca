"""What is asked of logged arrays: shapes, numbers, bounds of actions, episodes told apart."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError, listed

if TYPE_CHECKING:
    from practicum.data.offline.dataset import OfflineDataset

JUMP = 1e-6  # the next row's state lies farther than this from s': another episode begins
BOUNDARIES = (
    "episodes must be told apart: add terminals (the episode ended by itself) or timeouts (it was "
    "cut off), an episode number per row (episode=...), or jumps=True to start an episode where a "
    "row's observation is not the next_observations of the row before"
)


class Notes:
    """What is warned of, kept as well."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines

    def warn(self, text: str) -> None:
        self.lines.append(text)
        warnings.warn(f"{self.name}: {text}", UserWarning, stacklevel=2)


def _float32(name: str, what: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name}: {what} holds {array.dtype}, numbers are expected", "store it as floats"
        )
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused
        return array.astype(np.float32)


def _matrix(name: str, what: str, array: Any) -> np.ndarray:
    array = _float32(name, what, array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        hint = "images must be embedded first" if array.ndim > 2 else "is the array empty?"
        raise InputError(f"{name}: {what} has shape {array.shape}, expected (rows, columns)", hint)
    return array


def _vector(name: str, what: str, array: Any, n: int) -> np.ndarray:
    array = _float32(name, what, array)
    if array.shape not in ((n,), (n, 1)):
        raise InputError(
            f"{name}: {what} has shape {array.shape}, expected ({n},): one number for each row of "
            "observations"
        )
    return array.reshape(n)


def checked_arrays(
    name: str, observations: Any, actions: Any, rewards: Any, next_observations: Any
) -> dict[str, Any]:
    """The arrays as float32, of shapes that fit, without gaps."""
    obs = _matrix(name, "observations", observations)
    act = _matrix(name, "actions", actions)
    rew = _vector(name, "rewards", rewards, len(obs))
    _same_length(name, "actions", act, obs)
    _refuse_not_finite(name, {"observations": obs, "actions": act, "rewards": rew})
    nxt = None
    if next_observations is not None:
        nxt = _matrix(name, "next_observations", next_observations)
        if nxt.shape != obs.shape:
            raise InputError(
                f"{name}: next_observations has shape {nxt.shape}, observations {obs.shape}",
                "they must be the same; leave next_observations out to have them rebuilt",
            )
    return {"obs": obs, "act": act, "rew": rew, "nxt": nxt}


def fill_beyond_terminals(name: str, columns: dict[str, Any]) -> None:
    """Beyond a terminal state lies nothing: its gaps must not reach a network all the same."""
    _refuse_not_finite(name, {"next_observations": columns["nxt"]}, ~columns["done"])
    gaps = ~np.isfinite(columns["nxt"]).all(axis=1)
    columns["nxt"][gaps] = columns["obs"][gaps]


def _same_length(name: str, what: str, array: np.ndarray, obs: np.ndarray) -> None:
    if len(array) != len(obs):
        raise InputError(
            f"{name}: {what} has shape {array.shape}, observations {obs.shape}: the number of rows "
            "differs",
            "a row is one step: observation, action, reward",
        )


def flags_of(name: str, what: str, array: Any, n: int) -> np.ndarray | None:
    if array is None:
        return None
    flags = _vector(name, what, array, n)
    odd = np.flatnonzero((flags != 0) & (flags != 1))
    if odd.size:
        raise InputError(
            f"{name}: {what} holds {flags[odd[0]]:g} in row {odd[0]} (rows counted from 0), "
            "expected 0 or 1"
        )
    return flags == 1


def _refuse_not_finite(
    name: str, arrays: Mapping[str, np.ndarray], where: np.ndarray | None = None
) -> None:
    for what, array in arrays.items():
        bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
        rows = np.flatnonzero(bad if where is None else bad & where)
        if rows.size:
            raise InputError(
                f"{name}: {what} is NaN or infinite in {rows.size} of {len(array)} rows: rows "
                f"{listed(rows)} (counted from 0)",
                "leave out the episodes that hold these rows, or impute the cells",
            )


def refuse_discrete(name: str, actions: Any, bounds: Any) -> None:
    actions = np.asarray(actions)
    if actions.dtype.kind in "iub" and bounds is None:
        raise InputError(
            f"{name}: actions hold whole numbers ({actions.dtype}): discrete actions are not "
            "supported",
            "use discrete CQL (d3rlpy.algos.DiscreteCQL); if they are a continuous control, give "
            "its bounds: action_bounds=(low, high), --low and --high",
        )


def action_bounds_of(name: str, actions: np.ndarray, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """The bounds as one number a column, and whether the actions keep to them."""
    width = actions.shape[1]
    smallest, largest = actions.min(axis=0), actions.max(axis=0)
    if isinstance(bounds, str):
        if bounds != "data":
            raise InputError(f'action_bounds={bounds!r} is not known, use (low, high) or "data"')
        low, high = smallest.copy(), largest.copy()
        same = low == high  # a constant column: any interval around it will do
        low[same] -= 1
        high[same] += 1
    else:
        low, high = (_bound(name, side, width) for side in ((-1, 1) if bounds is None else bounds))
    if not (low < high).all():
        j = int(np.argmin(low < high))
        raise InputError(f"{name}: action bounds [{low[j]:g}, {high[j]:g}] of column {j} are empty")
    slack = 1e-5 * (high - low)  # float32 of a bound may lie just beyond it
    outside = (actions < low - slack) | (actions > high + slack)
    if outside.any():
        j = int(np.argmax(outside.any(axis=0)))
        rows = np.flatnonzero(outside.any(axis=1))
        raise InputError(
            f"{name}: actions lie outside [{low[j]:g}, {high[j]:g}] in {rows.size} of "
            f"{len(actions)} rows: column {j} goes from {smallest[j]:g} to {largest[j]:g}, first "
            f"in row {rows[0]} (counted from 0)",
            "give the bounds of your controls: action_bounds=(low, high), on the command line "
            '--low and --high; action_bounds="data" takes the range found in the data',
        )
    return low, high


def _bound(name: str, side: Any, width: int) -> np.ndarray:
    side = np.asarray(side, np.float32).ravel()
    if side.size not in (1, width) or not np.isfinite(side).all():
        raise InputError(
            f"{name}: {side.size} action bounds ({listed(side)}) for {width} action columns",
            "give one finite number, or one for each column",
        )
    return np.broadcast_to(side, (width,)).copy()


def to_unit(actions: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    scaled = 2 * (np.asarray(actions, np.float32) - low) / (high - low) - 1
    return np.clip(scaled, -1, 1).astype(np.float32)


def jumps_of(obs: np.ndarray, nxt: np.ndarray) -> np.ndarray:
    """Rows after which the state is not the one that was reached; the last row always."""
    apart = np.linalg.norm(obs[1:].astype(np.float64) - nxt[:-1], axis=1) > JUMP
    return np.append(apart, True)


def tell_episodes(
    said: Notes, columns: dict[str, Any], episode: Any, jumps: bool
) -> dict[str, Any]:
    """Terminals and timeouts, from whatever tells the episodes apart."""
    done, cut, n = columns["done"], columns["cut"], len(columns["obs"])
    if done is None and cut is None and episode is None:
        if not jumps:
            raise InputError(f"{said.name}: neither terminals nor timeouts", BOUNDARIES)
        if columns["nxt"] is None:
            raise InputError(
                f"{said.name}: jumps=True needs next_observations, which are missing", BOUNDARIES
            )
        cut = jumps_of(columns["obs"], columns["nxt"])
        said.warn(f"{int(cut.sum())} episodes told apart by jumps of the state")
    if done is None:
        said.warn("no terminals: every episode is taken to be cut off, none to end by itself")
        done = np.zeros(n, bool)
    cut = np.zeros(n, bool) if cut is None else cut & ~done
    columns = columns | {"done": done, "cut": cut}
    if episode is None:
        return columns
    labels = _episode_labels(said.name, episode)
    if len(labels) != n:
        raise InputError(f"{said.name}: episode has {len(labels)} rows, observations {n}")
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[number]  # by first appearance
    if (np.diff(number) < 0).any():
        order = np.argsort(number, kind="stable")
        said.warn("rows of an episode do not lie together; they were brought together in order")
        columns = {k: v if v is None else v[order] for k, v in columns.items()}
        number = number[order]
    last = np.append(number[1:] != number[:-1], True)
    return columns | {"cut": columns["cut"] | (last & ~columns["done"])}


def _episode_labels(name: str, episode: Any) -> np.ndarray:
    """One number or word a row, which sort; a row without one belongs to no episode."""
    labels = np.asarray(episode).reshape(-1)
    if labels.dtype.kind not in "biufUSMm":  # a column of words, or of words and gaps
        cells = labels.tolist()
        gaps = ("None", "nan", "NaT", "<NA>")
        empty = np.array([not isinstance(v, str) and str(v) in gaps for v in cells], bool)
        labels = np.array(list(map(str, cells)))
    else:
        empty = labels != labels
    rows = np.flatnonzero(empty)
    if rows.size:
        raise InputError(
            f"{name}: episode is empty or NaN in {rows.size} of {len(labels)} rows: rows "
            f"{listed(rows)} (counted from 0)",
            "every row needs the number of its episode",
        )
    return labels


def rebuild_next(said: Notes, columns: dict[str, Any]) -> dict[str, Any]:
    """s' is the following row's s; unknown, and the step dropped, where an episode was cut off."""
    obs, done, cut = columns["obs"], columns["done"], columns["cut"].copy()
    cut[-1] |= not done[-1]
    nxt = np.concatenate([obs[1:], obs[-1:]])
    nxt[done] = obs[done]  # nothing lies beyond a terminal state; its own stands in
    kept = ~cut
    if not kept.any():
        raise InputError(
            f"{said.name}: next_observations are missing and cannot be rebuilt: every episode is "
            "one step long"
        )
    before_cut = np.append(cut[1:], False) & ~done  # now the last of its episode
    said.warn(
        f"next_observations are missing and were rebuilt from the following row; {int(cut.sum())} "
        f"of {len(obs)} steps (the last of each episode that was cut off) were dropped"
    )
    made = columns | {"nxt": nxt, "cut": before_cut}
    return {key: value[kept] for key, value in made.items()}


def warn_of_oddities(said: Notes, data: OfflineDataset) -> None:
    for what, array in (("action", data.actions), ("observation", data.observations)):
        same = np.flatnonzero(np.ptp(array, axis=0) == 0)
        if same.size:
            said.warn(f"{what} column {listed(same)} (counted from 0) never changes")
    if np.ptp(data.rewards) == 0:
        said.warn(f"the reward is {data.rewards[0]:g} in every row: nothing can be learned from it")
    lengths, terminal = data.episode_lengths(), data.terminals[data.episodes[:, 1] - 1]
    loose = int((data.ends & ~data.terminals & ~data.timeouts)[:-1].sum())
    if loose > 0.5 * len(data):
        said.warn(
            f"in {loose} of {len(data)} rows the next row's observation is not this row's next "
            "observation: the rows look shuffled, and returns of episodes mean nothing"
        )
    if len(lengths) == 1 and not (data.terminals | data.timeouts)[-1]:
        said.warn(f"all {len(data)} transitions are one episode; are its boundaries missing?")
    elif terminal.all() and lengths.min() == lengths.max():
        said.warn(
            f"all {len(lengths)} episodes have {lengths[0]} steps and end in a terminal state: "
            "these look like time limits, beyond which values still count; if so, read with "
            "terminals_are_timeouts=True (--terminals-are-timeouts)"
        )
