"""The data set and its readers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Real

from practicum.data.offline.checks import (
    Notes,
    action_bounds_of,
    checked_arrays,
    fill_beyond_terminals,
    flags_of,
    jumps_of,
    rebuild_next,
    refuse_discrete,
    tell_episodes,
    to_unit,
    warn_of_oddities,
)
from practicum.data.offline.columns import column_of, columns_of, in_order_of, numbers_of, stacked
from practicum.data.offline.files import (
    damage_named,
    existing,
    joined_episodes,
    read_hdf5,
    unpickled,
)
from practicum.data.offline.minari_sets import minari_arrays, open_minari, refuse_spaces
from practicum.data.offline.names import RL_EXTRA, find_names, not_there
from practicum.errors import InputError, MissingExtra, listed

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 1000  # transitions below which nothing worth having can be learned
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson")
ARRAYS = (".npz", ".h5", ".hdf5")
FILES = (*TABLES, *ARRAYS)


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
        return self.terminals | self.timeouts | jumps_of(self.observations, self.next_observations)

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
        return to_unit(actions, self.action_low, self.action_high)

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
        said = Notes(name, list(notes))
        refuse_discrete(name, actions, action_bounds)
        columns = checked_arrays(name, observations, actions, rewards, next_observations)
        columns["done"] = flags_of(name, "terminals", terminals, len(columns["obs"]))
        columns["cut"] = flags_of(name, "timeouts", timeouts, len(columns["obs"]))
        columns = tell_episodes(said, columns, episode, jumps)
        if terminals_are_timeouts:
            columns["cut"] = columns["cut"] | columns["done"]
            columns["done"] = np.zeros_like(columns["done"])
        if columns["nxt"] is None:
            columns = rebuild_next(said, columns)
        else:
            fill_beyond_terminals(name, columns)
        if len(columns["obs"]) < FEWEST and not force:
            raise InputError(
                f"{name}: {len(columns['obs'])} transitions, at least {FEWEST:,} are expected",
                "too few to learn from; use force=True (--force) to go on all the same",
            )
        low, high = action_bounds_of(name, columns["act"], action_bounds)
        made = cls(
            columns["obs"],
            to_unit(columns["act"], low, high),
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
        warn_of_oddities(said, made)
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
        path = existing(path)
        with (
            damage_named(path, ".npz file"),
            path.open("rb") as handle,  # numpy leaves a file open that it cannot read
            np.load(handle, allow_pickle=False) as archive,
        ):
            arrays = {key: unpickled(path, archive, key) for key in archive.files}
        return cls._from_named(str(path), arrays, keys, options)

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
        path = existing(path)
        try:
            import h5py
        except ImportError as error:
            raise MissingExtra("HDF5 files need h5py", RL_EXTRA) from error
        with damage_named(path, "HDF5 file"), h5py.File(path, "r") as file:
            arrays = read_hdf5(path, file, keys)
        if "discrete_action" in arrays and bool(np.any(arrays["discrete_action"])):
            refuse_discrete(str(path), np.zeros(1, int), None)
        return cls._from_named(str(path), arrays, keys, options)

    @classmethod
    def from_mapping(
        cls, arrays: Mapping[str, Any], *, keys: Mapping[str, str] | None = None, **options: Any
    ) -> OfflineDataset:
        """Arrays by name, as D4RL's ``env.get_dataset()`` and ``qlearning_dataset`` give them.

        Parameters
        ----------
        arrays : mapping of name to array
            What is no array of a transition is passed over.
        keys : mapping, optional
            Their names of our arrays, as for :meth:`from_npz`.
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            An array is missing, or as :meth:`from_arrays`.

        Examples
        --------
        >>> states = np.arange(5.0)
        >>> given = {"observations": states[:-1], "actions": np.zeros((4, 1)),
        ...          "rewards": np.arange(4.0), "terminals": np.array([0, 1, 0, 1]),
        ...          "next_observations": states[1:]}
        >>> OfflineDataset.from_mapping(given, force=True).returns().tolist()
        [1.0, 5.0]
        """
        name = str(options.get("name", "data"))
        found = find_names(name, list(arrays), keys or {})
        wanted = {*found.values(), "action_low", "action_high", "env_id", "episode_terminals"}
        kept = {key: np.asarray(arrays[key]) for key in wanted & set(arrays)}
        return cls._from_named(name, kept, keys, options)

    @classmethod
    def from_d3rlpy(cls, source: Any, **options: Any) -> OfflineDataset:
        """The episodes of d3rlpy's ``MDPDataset`` or ``ReplayBuffer`` (2.x).

        Parameters
        ----------
        source : object with ``episodes``
            Each with ``observations``, ``actions``, ``rewards`` and ``terminated``.
        **options
            As for :meth:`from_arrays`.

        Raises
        ------
        InputError
            There is no episode, or as :meth:`from_arrays`.
        """
        name = str(options.get("name", "data"))
        arrays = joined_episodes(
            name, ((e.observations, e.actions, e.rewards, e.terminated) for e in source.episodes)
        )
        return cls.from_arrays(**arrays, **{"name": name, **options})

    @classmethod
    def _from_named(
        cls,
        name: str,
        arrays: Mapping[str, np.ndarray],
        keys: Mapping[str, str] | None,
        options: dict[str, Any],
    ) -> OfflineDataset:
        """Find the arrays by our names, the user's ``keys``, or usual other names."""
        found = find_names(name, list(arrays), keys or {})
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
            **given, **{"name": name, "notes": notes, "action_bounds": bounds, **options}
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
        data = open_minari(source)
        with damage_named(str(source), "Minari data set"):  # what it says of itself is read late
            name = str(data.spec.dataset_id)
            refuse_spaces(name, data.spec.observation_space, data.spec.action_space)
            arrays = minari_arrays(name, data)
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
        seen = columns_of(name, "obs", obs, columns)
        did = columns_of(name, "act", act, columns)
        then = columns_of(name, "next_obs", next_obs, columns, required=next_obs != "next_obs_*")
        singles = {
            "rewards": column_of(name, "rewards", reward, columns),
            "terminals": column_of(name, "terminals", terminal, columns),
            "timeouts": column_of(name, "timeouts", timeout, columns),
            "episode": column_of(name, "episode", episode, columns),
        }
        if singles["rewards"] is None:
            raise not_there(
                name, "rewards", columns, "name its column with reward=..., --reward NAME"
            )
        arrays = {
            key: frame[column].to_numpy() if key == "episode" else numbers_of(name, frame, column)
            for key, column in singles.items()
            if column is not None
        }
        arrays["observations"] = stacked(name, frame, seen)
        arrays["actions"] = stacked(name, frame, did)
        if then:
            arrays["next_observations"] = stacked(name, frame, in_order_of(name, seen, then))
        used = ", ".join(f"{k} from {c!r}" for k, c in singles.items() if c is not None)
        note = f"read observations from {listed(seen)}, actions from {listed(did)}, {used}"
        options["notes"] = [*options.get("notes", ()), note]
        return cls.from_arrays(**arrays, **{"name": name, **options})


def read_offline(source: Any, **options: Any) -> OfflineDataset:
    """Read logged control data, by the kind of the source.

    Parameters
    ----------
    source : str, Path, pandas.DataFrame, mapping, MinariDataset, MDPDataset or OfflineDataset
        ``.npz``; ``.h5`` or ``.hdf5``; ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``; a Minari
        folder or the id of a Minari data set on this machine. A mapping holds arrays by name, as
        D4RL's ``env.get_dataset()`` gives them.
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
    if isinstance(source, Mapping):
        return OfflineDataset.from_mapping(source, **options)
    if hasattr(source, "episodes"):
        return OfflineDataset.from_d3rlpy(source, **options)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"an object of type {type(source).__name__} is not read as logged control data",
            "give a file, an id, a data frame, a dictionary of arrays, or the arrays themselves: "
            "OfflineDataset.from_arrays(observations, actions, rewards, terminals)",
        )
    path = Path(source)
    suffix = path.suffix.lower()
    if path.is_dir() or not (path.exists() or suffix in (*FILES, ".pkl")):
        return OfflineDataset.from_minari(source, **options)
    existing(path)
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
