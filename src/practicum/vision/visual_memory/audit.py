"""Is a memory on disk what it says it is?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from practicum.vision.visual_memory.segments import SEGMENT
from practicum.vision.visual_memory.store import MODULUS, Row, row_digest

if TYPE_CHECKING:
    from practicum.vision.visual_memory.memory import VisualMemory

KNOWN = {"manifest.json", "meta.sqlite", "journal", "lock", "meta.sqlite-journal"}


def audit(memory: VisualMemory) -> list[str]:
    """Sentences about what is wrong: damaged rows, holes that are not empty, strange files.

    Parameters
    ----------
    memory : VisualMemory

    Raises
    ------
    InputError
        A file cannot be read.

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory()
    >>> _ = memory.add(np.eye(2), labels=[0, 1])
    >>> audit(memory)
    []
    """
    store, wrong, total = memory.store, [], 0
    taken = np.zeros(store.state["next"], dtype=bool)
    rows = store.rows()
    for start in range(0, len(rows), SEGMENT):
        part = rows[start : start + SEGMENT]
        vectors = store.segments[np.array([row[0] for row in part], dtype=np.intp)]
        for row, vector in zip(part, vectors, strict=True):
            digest = row_digest(Row(row[1], row[2], vector), vector)
            taken[row[0]] = True
            total += int(row[10], 16)
            if digest != int(row[10], 16):
                wrong.append(f"{row[1]}: its vector or label is not what was added")
    if total % MODULUS != int(store.state["digest"], 16):
        wrong.append("the digest of the memory is not the sum of its rows'")
    for start in range(0, len(taken), SEGMENT):
        holes = start + np.flatnonzero(~taken[start : start + SEGMENT])
        if holes.size and np.any(store.segments[holes]):
            wrong.append(f"holes from row {holes[0]} on are not empty")
    return wrong + _files(memory)


def _files(memory: VisualMemory) -> list[str]:
    store = memory.store
    if store.path is None:
        return []
    used = {p.name for p in store.segments.files()} if store.segments else set()
    wrong = []
    for path in store.files():
        name = path.relative_to(store.path).as_posix()
        if name not in KNOWN | used and not name.startswith("derived/"):
            wrong.append(f"{name}: not a file of this memory")
    return wrong
