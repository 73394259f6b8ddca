"""Forgetting for good: what a row left behind, in which files, and the proof that it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from practicum.models.vision import FeatureCache
from practicum.vision.visual_memory.receipt import Receipt
from practicum.vision.visual_memory.residue import ErasureReport, find_bytes
from practicum.vision.visual_memory.segments import SEGMENT
from practicum.vision.visual_memory.store import SMALL, now
from practicum.vision.visual_memory.table import Table, listed_ids


def erase(
    table: Table, slots: Sequence[int], own_cache: str | None, last: Sequence[Any] = ()
) -> Receipt:
    """Overwrite rows wherever they are kept, scan the files for what is left, and say so.

    Parameters
    ----------
    table : Table
    slots : sequence of int
    own_cache : str, optional
        Path of the encoder's cache of features, besides those the store knows.
    last : sequence
        Labels that lose their last row, for the receipt.

    Returns
    -------
    Receipt

    Raises
    ------
    InputError
        The store cannot be written.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0]))])
    >>> erase(table, [0], None).verified
    True
    """
    store, names, before = table.store, [table.ids[s] for s in slots], table.store.state["digest"]
    caches = feature_caches(table, own_cache)
    patterns = _patterns(table, slots, caches)
    files = _forget_features(table, slots, caches)
    if slots and store.path:
        numbers = sorted({s // SEGMENT for s in slots})
        files |= {store.segments.path(i).name: "rows zeroed in place" for i in numbers}
        files |= {f"derived/{p.name}": "zeroed and deleted" for p in store.derived_files()}
        files["meta.sqlite"] = "rows deleted, file rewritten"
    held = table.erase(slots)
    report = _scan(table, patterns, caches)
    found = {hit[0] for hit in report.hits}  # in files too large to be rewritten every time
    if found:
        if any(Path(name).name == "meta.sqlite" for name in found):
            store.vacuum()
        for cache in caches:
            if str(cache.path) in found:
                cache.vacuum()
        report = _scan(table, patterns, caches)
    clean = report.clean
    if not store.path:  # there is no file to scan: look at the rows
        clean = not slots or not np.any(store.segments[np.array(slots, dtype=np.intp)])
    digest = store.state["digest"]
    return Receipt(
        len(slots), names, True, files, before, digest, clean, now(), held, list(last), report
    )


def verify(table: Table, vectors: np.ndarray) -> ErasureReport:
    """Scan every file of a memory, or the rows of one that has no files, for vectors.

    Parameters
    ----------
    table : Table
    vectors : array of shape (n, d)
        Of unit length; rounded here as the store does.

    Raises
    ------
    OSError
        A file cannot be read.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0]))])
    >>> verify(table, np.float32([[0, 1]])).clean
    True
    """
    store = table.store
    if store.segments is None:
        return ErasureReport([], {}, len(vectors))
    patterns = _bytes_of(vectors.astype(store.segments.dtype))
    if store.path:
        return find_bytes(store.files(), patterns)
    number = {pattern: i for i, pattern in enumerate(patterns)}  # no file to scan: look at the rows
    rows = enumerate(row.tobytes() for row in store.segments[:])
    hits = [("the memory", slot, number[row]) for slot, row in rows if row in number]
    return ErasureReport(hits, {}, len(patterns))


def verify_ids(table: Table, ids: Any) -> ErasureReport:
    """Look ids up, and scan every file for those of 8 bytes and more.

    Parameters
    ----------
    table : Table
    ids : str or sequence

    Raises
    ------
    OSError
        A file cannot be read.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Row, Store
    >>> table = Table(Store(None, dim=2))
    >>> table.append([Row("tom", "cat", np.float32([1, 0]))])
    >>> verify_ids(table, "tom").clean, verify_ids(table, "rex").clean
    (False, True)
    """
    names = listed_ids(ids)
    words = [one.encode() for one in names if len(one.encode()) >= 8]
    report = find_bytes(table.store.files(), words)
    there = [
        ("the memory", table.slot_of[one], i) for i, one in enumerate(names) if one in table.slot_of
    ]
    return ErasureReport([*there, *report.hits], report.files, len(names))


def feature_caches(table: Table, own_cache: str | None = None) -> list[FeatureCache]:
    """Those that exist: wherever they were when images were added, and the encoder's own.

    Parameters
    ----------
    table : Table
    own_cache : str, optional

    Raises
    ------
    OSError
        One cannot be opened.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Store
    >>> feature_caches(Table(Store(None)))
    []
    """
    paths = [*table.store.state.get("caches", []), *([own_cache] if own_cache else [])]
    return [FeatureCache(Path(p)) for p in dict.fromkeys(paths) if Path(p).is_file()]


def _bytes_of(rows: np.ndarray) -> list[bytes]:
    """The bytes of rows as the store holds them, and as derived indexes do: in float32."""
    found = [row.tobytes() for row in rows]
    if rows.dtype != np.float32:
        found += [row.astype("<f4").tobytes() for row in rows]
    return list(dict.fromkeys(found))


def _patterns(table: Table, slots: Sequence[int], caches: Sequence[FeatureCache]) -> list[bytes]:
    """Everything of the rows that a file could still hold."""
    if not slots:
        return []
    found = _bytes_of(np.asarray(table.store.segments[np.array(slots, dtype=np.intp)]))
    found += [small for small in table.store.thumbnails(slots) if small]
    keys = [key for s in slots if (key := table.keys[s])]
    for cache in caches:
        found += [v.astype("<f4").tobytes() for v in cache.get(keys).values()]
    return [p for p in dict.fromkeys(found) if len(p) >= 8]


def _forget_features(
    table: Table, slots: Sequence[int], caches: Sequence[FeatureCache]
) -> dict[str, str]:
    """Take the rows out of the caches their images went through."""
    keys, done = [key for s in slots if (key := table.keys[s])], {}
    for cache in caches if keys else []:
        n = cache.erase(keys)
        if n:
            if cache.path.stat().st_size <= SMALL:
                cache.vacuum()
            done[str(cache.path)] = f"{n} cached vectors deleted"
    return done


def _scan(table: Table, patterns: Sequence[bytes], caches: Sequence[FeatureCache]) -> ErasureReport:
    """All files; a vector that a remaining row has too is no trace of an erased one."""
    files = table.store.files()
    if files:
        files += [cache.path for cache in caches]
    report = find_bytes(files, patterns)
    hits = [hit for hit in report.hits if not _is_a_row(table, hit)]
    return ErasureReport(hits, report.files, report.patterns, len(report.hits) - len(hits))


def _is_a_row(table: Table, hit: tuple[str, int, int]) -> bool:
    segments, path = table.store.segments, Path(hit[0])
    names = [p.name for p in segments.files()] if segments else []
    if path.name not in names or hit[1] % segments.row_bytes:
        return False
    slot = names.index(path.name) * SEGMENT + hit[1] // segments.row_bytes
    return slot < len(table.ids) and table.ids[slot] is not None
