"""The nearest rows of a memory: measured exactly, or proposed by an index made from its rows."""

from __future__ import annotations

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory import hygiene
from practicum.vision.visual_memory.derived import DerivedIndex, check_kind
from practicum.vision.visual_memory.search import SPARE, nearest, normalised, pair_distances
from practicum.vision.visual_memory.table import Table


class Neighbours:
    """Searches among the living rows of a table.

    Parameters
    ----------
    table : Table
    kind : {"exact", "faiss-ivf", "hnsw", "usearch"}
        What proposes; distances and order are measured from the rows in any case.
    seed : int
        Of approximate indexes.

    Raises
    ------
    InputError
        There is no such index.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0])), Row("rex", "dog", np.float32([0, 1]))])
    >>> distance, slots = Neighbours(table).find(np.float32([[1, 0]]), 2)
    >>> slots.tolist(), distance.tolist()
    ([[0, 1]], [[0.0, 1.0]])
    """

    def __init__(self, table: Table, kind: str = "exact", seed: int = 0) -> None:
        self.table, self.kind, self.seed = table, check_kind(kind), seed
        self._forget()

    def _forget(self) -> None:
        self._derived: DerivedIndex | None = None
        self._own: dict[tuple[int, int | None], tuple[np.ndarray, np.ndarray]] = {}
        self._of = self.table.epoch, self.kind

    def _fresh(self) -> None:
        """What was found among other rows is not looked at again."""
        if self._of != (self.table.epoch, self.kind):
            self._forget()

    def find(self, unit: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances, ascending, and slots of the k nearest living rows, each of shape (n, k)."""
        self._fresh()
        segments, alive = self.table.store.segments, self.table.alive
        live = None if alive.all() else alive
        if self.kind == "exact":
            return nearest(unit, segments, k, alive=live)
        slots = self._index().propose(unit, k + SPARE)
        if slots.shape[1] < k:
            return nearest(unit, segments, k, alive=live)
        slots = np.sort(slots, axis=1)  # so that equal distances stay in the rows' order
        d = pair_distances(unit, segments, slots)
        d[slots < 0] = np.inf
        order = np.argsort(d, axis=1, kind="stable")[:, :k]
        d, slots = np.take_along_axis(d, order, 1), np.take_along_axis(slots, order, 1)
        for i in np.flatnonzero(np.isinf(d).any(axis=1)):  # the graph did not reach enough rows
            d[i : i + 1], slots[i : i + 1] = nearest(unit[i : i + 1], segments, k, alive=live)
        return d, slots

    def _index(self) -> DerivedIndex:
        """The approximate index of this very generation: from memory, the disk, or built now."""
        if self._derived is not None:
            return self._derived
        store, folder = self.table.store, None
        generation = store.state["generation"]
        if store.path and self.table.snapshot is None:
            folder = store.path / "derived"
            self._derived = DerivedIndex.load(self.kind, store.dim, folder, generation)
        if self._derived is None:
            at = self.table.living
            made = DerivedIndex(self.kind, store.dim, self.seed)
            self._derived = made.build(store.segments[at], at)
            if folder and not store.read_only:
                made.save(folder, generation)
        return self._derived

    def leave_one_out(self, k: int, first: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distances and slots of the k neighbours of every living row, itself left out.

        ``first``: of so many rows only.
        """
        self._fresh()
        n = len(self.table.living)
        if n < 2:
            raise InputError(f"{n} rows in the memory", "at least two are needed")
        at, k = self.table.living[:first], min(k, n - 1)
        if (k, first) not in self._own:
            unit = normalised(self.table.store.segments[at])
            d, slots = self.find(unit, k + 1)
            slots, d = hygiene.without_self(slots, d, at)
            self._own[k, first] = d, slots
        return self._own[k, first]
