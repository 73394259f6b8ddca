"""Logged control data for offline reinforcement learning, from the files people have.

An :class:`OfflineDataset` holds transitions (s, a, r, s', done), one episode after the other.  It
is read from NPZ, HDF5 (D4RL's layout, d3rlpy's ``MDPDataset``), Minari, tables (CSV, Parquet) and
data frames; :func:`read_offline` picks the reader.  Nothing is unpickled.  What cannot be used is
refused by name; what was changed or looks odd is warned of and kept in ``notes``.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> states = rng.normal(size=(1201, 3))
>>> data = OfflineDataset.from_arrays(
...     states[:-1], rng.uniform(-2, 2, (1200, 1)), rng.normal(size=1200), np.zeros(1200),
...     timeouts=np.arange(1200) % 100 == 99, next_observations=states[1:],
...     action_bounds=(-2, 2), name="noise")
>>> len(data), data.returns().shape, data.episode_lengths().max().item()
(1200, (12,), 100)
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Real

from practicum.errors import InputError, MissingExtra, plain, reason_of, shown

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 1000  # transitions below which nothing worth having can be learned
JUMP = 1e-6  # the next row's state lies farther than this from s': another episode begins
SHOWN = 8  # indices or names listed in a message
RL_EXTRA = "pip install 'practicum[rl]'"

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
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson")
FILES = (*TABLES, ".npz", ".h5", ".hdf5")
BOUNDARIES = (
    "episodes must be told apart: add terminals (the episode ended by itself) or timeouts (it was "
    "cut off), an episode number per row (episode=...), or jumps=True to start an episode where a "
    "row's observation is not the next_observations of the row before"
)


@dataclass(frozen=True, eq=False)
class OfflineDataset:
    """Transitions (s, a, r, s', done), one episode after the other.

    Make one with :meth:`from_arrays` or a reader: the constructor itself checks shapes only.

    Parameters
    ----------
    observations : float32, shape (n, ds)
    actions : float32, shape (n, da), in [-1, 1]
        The user's actions, mapped affinely from ``[action_low, action_high]``.
    rewards : float32, shape (n,)
    next_observations : float32, shape (n, ds)
    terminals : bool, shape (n,)
        The episode ended by itself here: no value lies beyond.
    timeouts : bool, shape (n,)
        The episode was cut off here: the value of s' still counts.
    action_low, action_high : float32, shape (da,)
        The user's bounds.
    name : str
    notes : tuple of str
        What the reader changed or found odd.
    env_id : str, optional
        The Gymnasium environment that the file says it comes from.

    Examples
    --------
    >>> states = np.array([[0.0], [1.0], [2.0], [0.0], [3.0]])
    >>> data = OfflineDataset.from_arrays(
    ...     states[:-1], np.array([[-2.0], [0.0], [1.0], [2.0]]), np.arange(4.0),
    ...     np.array([0, 1, 0, 0]), next_observations=states[1:], action_bounds=(-2, 2),
    ...     force=True)
    >>> data.actions[:, 0].tolist()
    [-1.0, 0.0, 0.5, 1.0]
    >>> data.episodes.tolist(), data.returns().tolist()
    ([[0, 2], [2, 4]], [1.0, 5.0])
    """

    observations: Float32[np.ndarray, "n ds"]
    actions: Float32[np.ndarray, "n da"]
    rewards: Float32[np.ndarray, "n"]
    next_observations: Float32[np.ndarray, "n ds"]
    terminals: Bool[np.ndarray, "n"]
    timeouts: Bool[np.ndarray, "n"]
    action_low: Float32[np.ndarray, "da"]
    action_high: Float32[np.ndarray, "da"]
    name: str = "data"
    notes: tuple[str, ...] = ()
    env_id: str | None = None

    def __len__(self) -> int:
        return len(self.rewards)

    # ------------------------------------------------------------- episodes

    @cached_property
    def ends(self) -> Bool[np.ndarray, "n"]:
        """Whether a row is the last of its episode: terminal, timeout, a jump, or the last row."""
        return self.terminals | self.timeouts | _jumps(self.observations, self.next_observations)

    @cached_property
    def episodes(self) -> Int[np.ndarray, "e 2"]:
        """First row and one past the last row of every episode."""
        stops = np.flatnonzero(self.ends) + 1
        return np.stack([np.concatenate([[0], stops[:-1]]), stops], axis=1)

    @cached_property
    def episode_of(self) -> Int[np.ndarray, "n"]:
        """The episode of each row, counted from 0."""
        return np.repeat(np.arange(len(self.episodes)), self.episode_lengths())

    def episode_lengths(self) -> Int[np.ndarray, "e"]:
        """Steps of every episode."""
        return np.diff(self.episodes, axis=1)[:, 0]

    def returns(self) -> Float[np.ndarray, "e"]:
        """Undiscounted sum of rewards of every episode."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.episodes[:, 0])

    # ------------------------------------------------------------- actions

    def to_unit(self, actions: Real[np.ndarray, "... da"]) -> Float32[np.ndarray, "... da"]:
        """Actions in the user's units as numbers in [-1, 1] (clipped)."""
        return _to_unit(actions, self.action_low, self.action_high)

    def from_unit(self, actions: Real[np.ndarray, "... da"]) -> Float32[np.ndarray, "... da"]:
        """Actions in [-1, 1] as the user's units."""
        low, high = self.action_low, self.action_high
        return (low + (np.asarray(actions, np.float32) + 1) * (high - low) / 2).astype(np.float32)

    # ------------------------------------------------------------- the whole

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of everything a learner sees."""
        digest = hashlib.sha256()
        for array in (
            self.observations, self.actions, self.rewards, self.next_observations,
            self.terminals, self.timeouts, self.action_low, self.action_high,
        ):  # fmt: skip
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def subset(self, mask: Bool[np.ndarray, "n"], name: str | None = None) -> OfflineDataset:
        """The rows where ``mask`` holds; an episode that loses its end ends where it is cut.

        Raises
        ------
        InputError
            No row is left.
        """
        kept = np.flatnonzero(mask)
        if kept.size == 0:
            raise InputError(f"{self.name}: no transition is left of {len(self)}")
        # the last kept row of an episode, which need not be where the episode really ended
        last = np.append(self.episode_of[kept][1:] != self.episode_of[kept][:-1], True)
        return replace(
            self,
            observations=self.observations[kept],
            actions=self.actions[kept],
            rewards=self.rewards[kept],
            next_observations=self.next_observations[kept],
            terminals=self.terminals[kept],
            timeouts=self.timeouts[kept] | (last & ~self.terminals[kept]),
            name=name or self.name,
        )

    def describe(self) -> str:
        """One paragraph: size, episodes, how they end, returns, actions."""
        lengths, returns = self.episode_lengths(), self.returns()
        terminal = int(self.terminals.sum())
        q = np.quantile(returns, [0, 0.5, 0.9, 1])
        bounds = ", ".join(
            f"[{low:g}, {high:g}]"
            for low, high in zip(self.action_low[:4], self.action_high[:4], strict=True)
        ) + (", ..." if len(self.action_low) > 4 else "")
        steps = f"{lengths.min():,}" + (
            f" to {lengths.max():,}" if lengths.min() < lengths.max() else ""
        )
        return (
            f"{self.name}: {len(self):,} transitions in {len(returns):,} episodes of {steps} "
            f"steps; {terminal:,} episodes end in a terminal state, {len(returns) - terminal:,} "
            f"are cut off. Observations have {self.observations.shape[1]} columns, actions "
            f"{self.actions.shape[1]} (bounds {bounds}). Return of an episode (sum of rewards): "
            f"lowest {q[0]:,.4g}, median {q[1]:,.4g}, 90 % quantile {q[2]:,.4g}, "
            f"highest {q[3]:,.4g}."
        )

    def to_npz(self, path: str | Path) -> None:
        """Write the arrays, actions in the user's units, as :meth:`from_npz` reads them.

        Examples
        --------
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "log.npz"
        >>> states = np.arange(5.0)
        >>> data = OfflineDataset.from_arrays(
        ...     states[:-1], np.linspace(-1, 1, 4), np.arange(4.0), np.array([0, 1, 0, 0]),
        ...     next_observations=states[1:], force=True)
        >>> data.to_npz(path)
        >>> OfflineDataset.from_npz(path, force=True).fingerprint == data.fingerprint
        True
        """
        np.savez_compressed(
            path,
            observations=self.observations,
            actions=self.from_unit(self.actions),
            rewards=self.rewards,
            next_observations=self.next_observations,
            terminals=self.terminals,
            timeouts=self.timeouts,
            action_low=self.action_low,
            action_high=self.action_high,
            **({"env_id": np.array(self.env_id)} if self.env_id else {}),
        )

    # ------------------------------------------------------------- readers

    @classmethod
    def from_arrays(
        cls,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminals: Any = None,
        *,
        timeouts: Any = None,
        next_observations: Any = None,
        episode: Any = None,
        jumps: bool = False,
        action_bounds: tuple[Any, Any] | str | None = None,
        terminals_are_timeouts: bool = False,
        force: bool = False,
        name: str = "data",
        env_id: str | None = None,
        notes: Sequence[str] = (),
    ) -> OfflineDataset:
        """Check arrays and make a data set of them.

        Parameters
        ----------
        observations : array, shape (n, ds) or (n,)
        actions : array of floats, shape (n, da) or (n,)
        rewards : array, shape (n,) or (n, 1)
        terminals, timeouts : arrays of 0 and 1, shape (n,), optional
        next_observations : array like observations, optional
            Rebuilt from the following row where missing.  The last step of an episode that was cut
            off is then dropped (its next state is unknown); one that ended by itself is kept, as
            nothing lies beyond.
        episode : array, shape (n,), optional
            A number or name per row; rows of one episode need not lie together.
        jumps : bool
            Without any of these: an episode starts where a row's observation is not the next
            observation of the row before.
        action_bounds : (low, high) or "data", optional
            Numbers or one per action column; ``"data"`` takes the smallest and the largest of each
            column.  [-1, 1] unless given.
        terminals_are_timeouts : bool
            Every terminal is a time limit: it is stored as a timeout.
        force : bool
            Accept fewer than 1,000 transitions.
        name : str
            Of the file, for messages.

        Raises
        ------
        InputError
            Shapes do not fit, cells are NaN or infinite, actions are discrete or outside their
            bounds, episodes cannot be told apart, or there are fewer than 1,000 transitions.

        Warns
        -----
        UserWarning
            Next observations were rebuilt; a column or the reward never changes; time limits look
            as if stored as terminals; all is one episode.
        """
        said = _Notes(name, list(notes))
        _refuse_discrete(name, actions, action_bounds)
        columns = _arrays(name, observations, actions, rewards, next_observations)
        columns["done"] = _flags(name, "terminals", terminals, len(columns["obs"]))
        columns["cut"] = _flags(name, "timeouts", timeouts, len(columns["obs"]))
        columns = _tell_episodes(said, columns, episode, jumps)
        if terminals_are_timeouts:
            columns["cut"] = columns["cut"] | columns["done"]
            columns["done"] = np.zeros_like(columns["done"])
        if columns["nxt"] is None:
            columns = _rebuild_next(said, columns)
        else:
            _fill_beyond_terminals(name, columns)
        if len(columns["obs"]) < FEWEST and not force:
            raise InputError(
                f"{name}: {len(columns['obs'])} transitions, at least {FEWEST:,} are expected",
                "too few to learn from; use force=True (--force) to go on all the same",
            )
        low, high = _bounds(name, columns["act"], action_bounds)
        made = cls(
            columns["obs"],
            _to_unit(columns["act"], low, high),
            columns["rew"],
            columns["nxt"],
            columns["done"],
            columns["cut"],
            low,
            high,
            Path(name).stem if Path(name).suffix.lower() in FILES else name,
            (),
            env_id,
        )
        _warn_of_oddities(said, made)
        return replace(made, notes=tuple(said.lines))

    @classmethod
    def from_npz(
        cls, path: str | Path, *, keys: Mapping[str, str] | None = None, **options: Any
    ) -> OfflineDataset:
        """Read an NPZ with the arrays observations, actions, rewards, terminals, ...

        Parameters
        ----------
        path : str or Path
        keys : mapping, optional
            The file's names of our arrays, e.g. ``{"observations": "state_log"}``; usual names
            (obs, states, acts, dones, terminated, truncated, ...) are found without.
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            The file is missing or damaged, an array is missing, or as :meth:`from_arrays`.
        """
        path = _existing(path)
        with (
            _damage_named(path, ".npz file"),
            path.open("rb") as handle,  # numpy leaves a file open that it cannot read
            np.load(handle, allow_pickle=False) as archive,
        ):
            arrays = {key: _plain(path, archive, key) for key in archive.files}
        return cls._from_mapping(path, arrays, keys, options)

    @classmethod
    def from_hdf5(
        cls, path: str | Path, *, keys: Mapping[str, str] | None = None, **options: Any
    ) -> OfflineDataset:
        """Read an HDF5 file in the layout of D4RL or of d3rlpy's ``MDPDataset`` (1.x and 2.x).

        Parameters
        ----------
        path : str or Path
        keys : mapping, optional
            As for :meth:`from_npz`; ``"group/array"`` reaches into groups.
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            The file is missing or damaged, an array is missing, or as :meth:`from_arrays`.
        """
        path = _existing(path)
        try:
            import h5py
        except ImportError as error:
            raise MissingExtra("HDF5 files need h5py", RL_EXTRA) from error
        with _damage_named(path, "HDF5 file"), h5py.File(path, "r") as file:
            arrays = _read_hdf5(path, file, keys)
        if "discrete_action" in arrays and bool(np.any(arrays["discrete_action"])):
            _refuse_discrete(str(path), np.zeros(1, int), None)
        return cls._from_mapping(path, arrays, keys, options)

    @classmethod
    def _from_mapping(
        cls,
        path: Path,
        arrays: Mapping[str, np.ndarray],
        keys: Mapping[str, str] | None,
        options: dict[str, Any],
    ) -> OfflineDataset:
        """Find the arrays by our names, the user's ``keys``, or usual other names."""
        found = _find_names(str(path), list(arrays), keys or {})
        bounds = options.pop("action_bounds", None)
        if bounds is None and {"action_low", "action_high"} <= set(arrays):
            bounds = (arrays["action_low"], arrays["action_high"])
        env_id = arrays.get("env_id")
        if env_id is not None and env_id.dtype.kind == "U":
            options.setdefault("env_id", str(env_id))
        given = {ours: arrays[theirs] for ours, theirs in found.items()}
        if "episode_terminals" in arrays and "timeouts" not in given:  # d3rlpy 1.x
            ends = np.asarray(arrays["episode_terminals"]).ravel() > 0
            given["timeouts"] = ends & ~(np.asarray(given["terminals"]).ravel() > 0)
        named = [
            ours if ours == theirs else f"{ours} from {theirs!r}" for ours, theirs in found.items()
        ]
        notes = [f"read the arrays {', '.join(named)}"]
        return cls.from_arrays(
            **given, **{"name": str(path), "notes": notes, "action_bounds": bounds, **options}
        )

    @classmethod
    def from_minari(cls, source: Any, **options: Any) -> OfflineDataset:
        """Read a Minari data set: its id on this machine, its folder, or a ``MinariDataset``.

        Observations in a dictionary are joined in the order of their names.  The bounds of actions
        are those of the action space where they are finite.  Nothing is downloaded.

        Parameters
        ----------
        source : str, Path or minari.MinariDataset
            Ids are looked up in ``MINARI_DATASETS_PATH`` (default ``~/.minari/datasets``).
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            There is no such data set; its actions are discrete; its observations are no vectors;
            or as :meth:`from_arrays`.
        """
        data = _open_minari(source)
        with _damage_named(str(source), "Minari data set"):  # what it says of itself is read late
            name = str(data.spec.dataset_id)
            _refuse_spaces(name, data.spec.observation_space, data.spec.action_space)
            arrays = _minari_arrays(name, data)
            low, high = data.spec.action_space.low.ravel(), data.spec.action_space.high.ravel()
            spec = getattr(data.spec, "env_spec", None)
        if np.isfinite(low).all() and np.isfinite(high).all():
            options.setdefault("action_bounds", (low, high))
        return cls.from_arrays(
            **arrays, **{"name": name, "env_id": spec.id if spec else None, **options}
        )

    @classmethod
    def from_dataframe(
        cls,
        frame: pd.DataFrame,
        *,
        obs: str | Sequence[str] = "obs_*",
        act: str | Sequence[str] = "act_*",
        next_obs: str | Sequence[str] = "next_obs_*",
        reward: str | None = None,
        terminal: str | None = None,
        timeout: str | None = None,
        episode: str | None = None,
        **options: Any,
    ) -> OfflineDataset:
        """Read a data frame with a row per step.

        Parameters
        ----------
        frame : pandas.DataFrame
        obs, act, next_obs : str or sequence of str
            Columns, or a pattern such as ``"obs_*"``; patterns keep the order of the frame.
        reward, terminal, timeout, episode : str, optional
            Columns; by default the usual names (reward, terminal or done, timeout or truncated,
            episode) where they are there.
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            A column is missing or not numeric, or as :meth:`from_arrays`.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"obs_x": [0.0, 1.0, 2.0], "act_u": [0.5, -0.5, 0.1],
        ...                       "reward": [0.0, 0.0, 1.0], "terminal": [0, 0, 1]})
        >>> data = OfflineDataset.from_dataframe(frame, force=True)
        >>> data.next_observations[:, 0].tolist()  # the terminal step keeps its own state
        [1.0, 2.0, 2.0]
        """
        name = str(options.get("name", "data frame"))
        frame = frame.rename(columns=lambda c: str(c).strip())
        columns = [c for c in frame.columns if isinstance(c, str)]
        seen = _columns(name, "obs", obs, columns)
        did = _columns(name, "act", act, columns)
        then = _columns(name, "next_obs", next_obs, columns, required=next_obs != "next_obs_*")
        singles = {
            "rewards": _column(name, "rewards", reward, columns),
            "terminals": _column(name, "terminals", terminal, columns),
            "timeouts": _column(name, "timeouts", timeout, columns),
            "episode": _column(name, "episode", episode, columns),
        }
        if singles["rewards"] is None:
            raise _missing(
                name, "rewards", columns, "name its column with reward=..., --reward NAME"
            )
        arrays = {
            key: frame[column].to_numpy() if key == "episode" else _numbers(name, frame, column)
            for key, column in singles.items()
            if column is not None
        }
        arrays["observations"] = _stack(name, frame, seen)
        arrays["actions"] = _stack(name, frame, did)
        if then:
            arrays["next_observations"] = _stack(name, frame, _matching(name, seen, then))
        used = ", ".join(f"{k} from {c!r}" for k, c in singles.items() if c is not None)
        note = f"read observations from {_listed(seen)}, actions from {_listed(did)}, {used}"
        options["notes"] = [*options.get("notes", ()), note]
        return cls.from_arrays(**arrays, **{"name": name, **options})


def read_offline(source: Any, **options: Any) -> OfflineDataset:
    """Read logged control data, by the kind of the source.

    Parameters
    ----------
    source : str, Path, pandas.DataFrame, MinariDataset or OfflineDataset
        ``.npz``; ``.h5`` or ``.hdf5``; ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``; a Minari
        folder or the id of a Minari data set on this machine.
    **options
        As for the reader: ``action_bounds``, ``keys``, ``obs``, ``force``, ...

    Raises
    ------
    InputError
        Nothing is there, the kind is not known, an option does not fit, or the data cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("obs_x,act_u,reward,terminal\\n0,0.5,0,0\\n1,-0.5,1,1\\n")
    >>> len(read_offline(path, force=True))
    2
    """
    if isinstance(source, OfflineDataset):
        return source
    if hasattr(source, "iterate_episodes"):
        return OfflineDataset.from_minari(source, **options)
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return OfflineDataset.from_dataframe(source, **options)
    path = Path(source)
    suffix = path.suffix.lower()
    if path.is_dir() or not (path.exists() or suffix in (*FILES, ".pkl")):
        return OfflineDataset.from_minari(source, **options)
    _existing(path)
    if suffix == ".npz":
        return OfflineDataset.from_npz(path, **options)
    if suffix in (".h5", ".hdf5"):
        return OfflineDataset.from_hdf5(path, **options)
    if suffix in TABLES:
        from practicum.data.table import read_table

        frame = read_table(path, numeric=False, missing="keep")
        return OfflineDataset.from_dataframe(frame, **{"name": str(path), **options})
    raise InputError(
        f"{path}: files ending in {suffix or 'nothing'!r} are not read as logged control data",
        "use .npz, .h5, .hdf5, .csv, .tsv, .parquet, .jsonl or a Minari data set"
        + ("; pickles are never opened" if suffix in (".pkl", ".pickle", ".pt") else ""),
    )


# ------------------------------------------------------------- checks


class _Notes:
    """What is warned of, kept as well."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines

    def warn(self, text: str) -> None:
        self.lines.append(text)
        warnings.warn(f"{self.name}: {text}", UserWarning, stacklevel=2)


def _listed(items: Any) -> str:
    items = [plain(i) for i in items]
    return ", ".join(items[:SHOWN]) + (f", ... ({len(items)} in all)" if len(items) > SHOWN else "")


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


def _arrays(
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


def _fill_beyond_terminals(name: str, columns: dict[str, Any]) -> None:
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


def _flags(name: str, what: str, array: Any, n: int) -> np.ndarray | None:
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
                f"{_listed(rows)} (counted from 0)",
                "leave out the episodes that hold these rows, or impute the cells",
            )


def _refuse_discrete(name: str, actions: Any, bounds: Any) -> None:
    actions = np.asarray(actions)
    if actions.dtype.kind in "iub" and bounds is None:
        raise InputError(
            f"{name}: actions hold whole numbers ({actions.dtype}): discrete actions are not "
            "supported",
            "use discrete CQL (d3rlpy.algos.DiscreteCQL); if they are a continuous control, give "
            "its bounds: action_bounds=(low, high), --low and --high",
        )


def _bounds(name: str, actions: np.ndarray, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
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
            f"{name}: {side.size} action bounds ({_listed(side)}) for {width} action columns",
            "give one finite number, or one for each column",
        )
    return np.broadcast_to(side, (width,)).copy()


def _to_unit(actions: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    scaled = 2 * (np.asarray(actions, np.float32) - low) / (high - low) - 1
    return np.clip(scaled, -1, 1).astype(np.float32)


# ------------------------------------------------------------- episodes


def _jumps(obs: np.ndarray, nxt: np.ndarray) -> np.ndarray:
    """Rows after which the state is not the one that was reached; the last row always."""
    apart = np.linalg.norm(obs[1:].astype(np.float64) - nxt[:-1], axis=1) > JUMP
    return np.append(apart, True)


def _tell_episodes(
    said: _Notes, columns: dict[str, Any], episode: Any, jumps: bool
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
        cut = _jumps(columns["obs"], columns["nxt"])
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
            f"{_listed(rows)} (counted from 0)",
            "every row needs the number of its episode",
        )
    return labels


def _rebuild_next(said: _Notes, columns: dict[str, Any]) -> dict[str, Any]:
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


def _warn_of_oddities(said: _Notes, data: OfflineDataset) -> None:
    for what, array in (("action", data.actions), ("observation", data.observations)):
        same = np.flatnonzero(np.ptp(array, axis=0) == 0)
        if same.size:
            said.warn(f"{what} column {_listed(same)} (counted from 0) never changes")
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


# ------------------------------------------------------------- files


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, a file is expected")
    if not os.path.isfile(path):
        raise InputError(f"{path}: there is no such file", near_file(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    return path


@contextmanager
def _damage_named(path: Path | str, kind: str) -> Iterator[None]:
    """The libraries that read files raise many kinds of errors on junk; all mean the same here."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: not a readable {kind} ({reason_of(error)})") from error


def _plain(path: Path, archive: Mapping[str, np.ndarray], key: str) -> np.ndarray:
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


def _missing(name: str, what: str, there: Sequence[str], remedy: str) -> InputError:
    from difflib import get_close_matches

    near = get_close_matches(what, there, n=1, cutoff=0.6)
    return InputError(
        f"{name}: {what} is missing; there are: {_listed(there) or 'none'}",
        (f"did you mean {near[0]!r}? " if near else "") + remedy,
    )


def _find_names(name: str, there: list[str], keys: Mapping[str, str]) -> dict[str, str]:
    """Our names of arrays and the file's."""
    if unknown := set(keys) - set(ALIASES):
        raise InputError(f"keys: {_listed(sorted(unknown))} is none of {', '.join(ALIASES)}")
    found = {}
    for ours, usual in ALIASES.items():
        if ours in keys and keys[ours] not in there:
            raise _missing(name, keys[ours], there, f"it was named as {ours} in keys")
        theirs = keys.get(ours) or next((u for u in usual if u in there), None)
        if theirs is not None:
            found[ours] = theirs
        elif ours in REQUIRED:
            option = OPTIONS[ours]
            remedy = f'if it has another name, say keys={{"{ours}": ...}}, --{option} NAME'
            raise _missing(name, ours, there, remedy)
    return found


def _read_hdf5(path: Path, file: Any, keys: Mapping[str, str] | None) -> dict[str, np.ndarray]:
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
        raise _missing(str(path), "observations", list(file), "D4RL's layout is expected")
    return arrays


def _read_d3rlpy(path: Path, file: Any) -> dict[str, np.ndarray]:
    """d3rlpy 2.x writes each episode's arrays by themselves, and whether it ended by itself."""
    parts: dict[str, list[np.ndarray]] = {key: [] for key in (*REQUIRED, "terminals", "timeouts")}
    for i in range(int(file["num_episodes"][()])):
        if f"observations_{i}" not in file:
            raise InputError(
                f"{path}: observations_{i} is missing or a tuple; one array of vectors is expected"
            )
        for key in REQUIRED:
            parts[key].append(file[f"{key}_{i}"][()])
        last = np.arange(len(parts["rewards"][-1])) == len(parts["rewards"][-1]) - 1
        ended = bool(file[f"terminated_{i}"][()])
        parts["terminals"].append(last & ended)
        parts["timeouts"].append(last & (not ended))
    if not parts["rewards"]:
        raise InputError(f"{path}: holds no episode")
    return {key: np.concatenate(arrays) for key, arrays in parts.items()}


def _open_minari(source: Any) -> Any:
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


def _minari_arrays(name: str, data: Any) -> dict[str, np.ndarray]:
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
        f"did you mean {near[0]!r}?" if near else f"Minari data sets here: {_listed(there) or 0}",
    )


def _refuse_spaces(name: str, observation: Any, action: Any) -> None:
    from gymnasium import spaces

    if isinstance(action, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        _refuse_discrete(name, np.zeros(1, int), None)
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


# ------------------------------------------------------------- columns


def _columns(
    name: str, what: str, wanted: str | Sequence[str], there: list[str], required: bool = True
) -> list[str]:
    """Columns by name or by patterns (``obs_*``), in the order of the frame for a pattern."""
    from fnmatch import fnmatchcase

    found: list[str] = []
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        hits = [c for c in there if c == pattern or fnmatchcase(c, pattern)]
        if not hits and required:
            raise _missing(
                name, f"{what} ({pattern})", there, f"name columns with {what}=..., --{what} NAMES"
            )
        found += [c for c in hits if c not in found]
    return found


def _column(name: str, what: str, wanted: str | None, there: list[str]) -> str | None:
    if wanted is None:
        return next((u for u in ALIASES[what] if u in there), None)
    if wanted not in there:
        raise _missing(name, wanted, there, f"it was named as the column of {what}")
    return wanted


def _numbers(name: str, frame: pd.DataFrame, column: str) -> np.ndarray:
    import pandas as pd

    values = pd.to_numeric(frame[column], errors="coerce")
    stray = np.flatnonzero(values.isna() & frame[column].notna())
    if stray.size:
        raise InputError(
            f"{name}, column {column!r}: expected numbers, found "
            f"{shown(frame[column].iloc[stray[0]])} in row {stray[0]} (counted from 0, the header "
            "apart)"
        )
    return values.to_numpy()


def _stack(name: str, frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    arrays = [_numbers(name, frame, c) for c in columns]
    for column, array in zip(columns, arrays, strict=True):
        gaps = np.flatnonzero(np.isnan(array.astype(float)))
        if gaps.size and not column.startswith("next_"):
            raise InputError(
                f"{name}, column {column!r}: empty or NaN in {gaps.size} of {len(array)} rows: "
                f"rows {_listed(gaps)} (counted from 0, the header apart)",
                "leave out the episodes that hold these rows, or impute the cells",
            )
    return np.stack(arrays, axis=1)


def _matching(name: str, seen: list[str], then: list[str]) -> list[str]:
    """next_obs columns in the order of the obs columns (``next_`` + name), or as given."""
    wanted = [f"next_{c}" for c in seen]
    if set(wanted) == set(then):
        return wanted
    if len(then) != len(seen):
        raise InputError(
            f"{name}: {len(then)} columns of next observations ({_listed(then)}) for {len(seen)} "
            f"of observations ({_listed(seen)})"
        )
    return then
