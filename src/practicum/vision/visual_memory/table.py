"""What is known of the rows, by slot: ids, labels, weights, states (the columns of the store)."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory.store import ALIVE, PRUNED, RETIRED, Row, Store

if TYPE_CHECKING:
    import pandas as pd

Labels = Any  # one value a row: a list, an array, a series, a tensor


def listed_ids(ids: Any) -> list[str]:
    """One id or many, as text.

    Parameters
    ----------
    ids : str, or a sequence

    Raises
    ------
    InputError
        Neither.

    Examples
    --------
    >>> listed_ids("a"), listed_ids(np.array([1, 2]))
    (['a'], ['1', '2'])
    """
    if isinstance(ids, str):
        return [ids]
    try:
        return [str(one) for one in ids]
    except TypeError as error:
        raise InputError(f"ids={ids!r}", "give one id as text, or a list of ids") from error


class Table:
    """The columns of all rows; also of those that are retired, pruned or (as holes) erased.

    Every change goes to the store first, so that what is asked and what is on the disk agree.

    Parameters
    ----------
    store : Store

    Raises
    ------
    InputError
        The store cannot be read.

    Examples
    --------
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0])), Row("rex", "dog", np.float32([0, 1]))])
    >>> table.classes.tolist(), table.codes.tolist(), table.living.tolist()
    (['cat', 'dog'], [0, 1], [0, 1])
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.snapshot: str | None = None
        self.epoch = 0  # counts refreshes: what was derived from an older one is stale
        self._load()

    def _load(self) -> None:
        m = self.store.state["next"]
        self.ids: list[str | None] = [None] * m
        self.labels: list[Any] = [None] * m
        self.keys: list[str | None] = [None] * m
        self.meta: dict[str, list[Any]] = {name: [None] * m for name in ("group", "source", "time")}
        self.weight, self.trust = np.ones(m), np.ones(m)
        self.state = np.zeros(m, dtype=np.int8)
        for (
            slot,
            one,
            label,
            group,
            source,
            when,
            weight,
            trust,
            state,
            key,
            _,
        ) in self.store.rows():
            self.ids[slot], self.labels[slot], self.keys[slot] = one, label, key
            self.meta["group"][slot], self.meta["source"][slot] = group, source
            self.meta["time"][slot] = when
            self.weight[slot], self.trust[slot], self.state[slot] = weight, trust, state
        self.slot_of = {one: slot for slot, one in enumerate(self.ids) if one is not None}
        self._refresh()

    def _refresh(self) -> None:
        """What follows from the columns: who is alive, the classes, their codes."""
        if self.snapshot is None:
            self.alive = self.state == ALIVE
        else:
            self.alive = np.zeros(len(self.ids), dtype=bool)
            self.alive[self.store.snapshot_slots(self.snapshot)] = True
        self.living = np.flatnonzero(self.alive)
        there = sorted({self.labels[i] for i in self.living})
        code = {label: i for i, label in enumerate(there)}
        self.codes = np.full(len(self.ids), -1, dtype=np.intp)
        for i in self.living:
            self.codes[i] = code[self.labels[i]]
        self.classes = np.array(there) if there else np.array([], dtype=str)
        self.generation = self.store.state["generation"]
        self.epoch += 1

    def sync(self) -> None:
        """Catch up: with the writer where this is a reader, with the memory where it is a view."""
        if self.store.read_only:
            self.store.changed()
        self.catch_up()

    def catch_up(self) -> None:
        """Read again where the store has gone on since."""
        if self.generation != self.store.state["generation"]:
            self._load()

    def as_of(self, snapshot: str) -> Table:
        """The same rows as a snapshot has them."""
        self.store.snapshot_slots(snapshot)  # refuses one that is not there
        view = copy.copy(self)
        view.snapshot = snapshot
        view._load()
        return view

    @property
    def strength(self) -> np.ndarray:
        """What each row's vote is multiplied by."""
        return self.weight * self.trust

    def frame(self) -> pd.DataFrame:
        """The living rows: id, label, group, source, time, weight, trust."""
        import pandas as pd

        at = self.living
        columns = {"id": [self.ids[i] for i in at], "label": [self.labels[i] for i in at]}
        columns |= {name: [values[i] for i in at] for name, values in self.meta.items()}
        return pd.DataFrame(columns | {"weight": self.weight[at], "trust": self.trust[at]})

    def codes_of(self, y: Labels, n: int | None = None) -> np.ndarray:
        """Labels as positions in ``classes``, -1 for classes that are not there."""
        if n is not None and len(y) != n:
            raise InputError(f"{len(y)} labels for {n} queries")
        code = {label: i for i, label in enumerate(self.classes.tolist())}
        plain = [x.item() if hasattr(x, "item") else x for x in y]
        return np.array([code.get(x, -1) for x in plain], dtype=np.intp)

    # --- which rows ------------------------------------------------------------------------------

    def slots_of(self, ids: Any, missing: str = "raise") -> list[int]:
        """The slots of ids, each once, in their order."""
        names = listed_ids(ids)
        unknown = [one for one in names if one not in self.slot_of]
        if unknown and missing != "ignore":
            close = difflib.get_close_matches(unknown[0], self.slot_of, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise InputError(
                f"not in the memory: {', '.join(map(repr, unknown[:5]))}{more}",
                f'{hint}missing="ignore" passes over them',
            )
        return list(dict.fromkeys(self.slot_of[one] for one in names if one in self.slot_of))

    def select(
        self, ids: Any = None, where: str | Mapping[str, Any] | None = None, missing: str = "raise"
    ) -> list[int]:
        """The slots of ids, or of the rows for which a condition holds."""
        if missing not in ("raise", "ignore"):
            raise InputError(f"missing={missing!r}", 'use "raise" or "ignore"')
        if (ids is None) == (where is None):
            raise InputError("say which rows: either ids or where")
        if ids is not None:
            return self.slots_of(ids, missing)
        wanted, equal = _condition(where) if isinstance(where, str) else (where, True)
        columns = {"id": self.ids, "label": self.labels, **self.meta}
        for name in wanted:
            if name not in columns:
                raise InputError(f"there is no column {name!r}", f"columns: {', '.join(columns)}")
        found = []
        for slot in self.slot_of.values():
            hit = all(str(columns[n][slot]) == str(v) for n, v in wanted.items())
            if hit == equal:
                found.append(slot)
        return sorted(found)

    def last_of_class(self, slots: Sequence[int]) -> list[Any]:
        """Labels of which no row would be left without these."""
        gone = set(slots)
        left = {self.labels[i] for i in self.living if i not in gone}
        return [
            label
            for label in dict.fromkeys(self.labels[i] for i in self.living)
            if label not in left
        ]

    def holder(self, one: str) -> str:
        """Where an id that is taken is, in words."""
        words = {ALIVE: "in the memory", RETIRED: "in the memory, retired", PRUNED: "pruned"}
        return words.get(int(self.state[self.slot_of[one]]), "in the memory") + " already"

    # --- changes ---------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows, on the disk too."""
        first = len(self.ids)
        self.store.append(rows)
        for i, row in enumerate(rows):
            self.ids.append(row.id)
            self.labels.append(row.label)
            self.keys.append(row.key)
            self.slot_of[row.id] = first + i
            for name, value in (("group", row.group), ("source", row.source), ("time", row.time)):
                self.meta[name].append(value)
        self.weight = np.concatenate([self.weight, [row.weight for row in rows]])
        self.trust = np.concatenate([self.trust, np.ones(len(rows))])
        self.state = np.concatenate([self.state, np.full(len(rows), ALIVE, np.int8)])
        self._refresh()

    def set_state(self, what: str, slots: Sequence[int] | np.ndarray, state: int) -> None:
        """Retire or prune rows."""
        if len(slots):
            self.store.update(what, {int(s): {"state": state} for s in slots})
            self.state[np.asarray(slots)] = state
            self._refresh()

    def set_trust(self, slots: np.ndarray, trust: np.ndarray) -> None:
        """Weigh rows of soft pruning; who is alive stays as it is."""
        changed = np.flatnonzero(self.trust[slots] != trust)
        if changed.size:
            self.store.update(
                "prune softly", {int(slots[i]): {"trust": float(trust[i])} for i in changed}
            )
            self.trust[slots] = trust
            self.generation = self.store.state["generation"]

    def restore(self) -> int:
        """Undo prunings; returns how many rows changed."""
        back = np.flatnonzero((self.state == PRUNED) | ((self.state == ALIVE) & (self.trust != 1)))
        if back.size:
            self.store.update("restore", {int(s): {"state": ALIVE, "trust": 1.0} for s in back})
            self.state[back], self.trust[back] = ALIVE, 1.0
            self._refresh()
        return int(back.size)

    def erase(self, slots: Sequence[int]) -> list[str]:
        """Overwrite and delete rows; returns the snapshots that lost some."""
        held = self.store.erase(slots) if slots else []
        for slot in slots:
            self.slot_of.pop(self.ids[slot], None)
            self.ids[slot] = self.labels[slot] = self.keys[slot] = None
            for values in self.meta.values():
                values[slot] = None
        self.state[list(slots)] = 0
        self.weight[list(slots)] = self.trust[list(slots)] = 1.0
        self._refresh()
        return held

    def remember(self, name: str) -> int:
        """Take a snapshot; nothing changes, so nothing is read again."""
        n = self.store.snapshot(name)
        self.generation = self.store.state["generation"]
        return n

    def compact(self) -> None:
        """Close the holes of the store; slots change."""
        self.store.compact()
        self._load()


def _condition(text: str) -> tuple[dict[str, str], bool]:
    """``column == value`` or ``column != value``."""
    match = re.fullmatch(r"\s*(\w+)\s*(==|!=|=)\s*(.+?)\s*", text)
    if not match:
        raise InputError(f"the condition {text!r} is not understood", "write: source == alice")
    value = match[3].strip("\"'")
    return {match[1]: value}, match[2] != "!="
