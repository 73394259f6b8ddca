"""Looks for what should be gone: the bytes of erased vectors, in files of any kind."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

CHUNK = 1 << 24  # bytes looked at in one go
FEW = 12  # patterns that are searched for one by one


@dataclass(frozen=True)
class ErasureReport:
    """What a byte scan found.

    Attributes
    ----------
    hits : list of (file, offset in bytes, number of the pattern)
    files : dict of file -> bytes scanned
    patterns : int
        How many things were looked for.
    shared : int
        Patterns left out because rows that remain hold the same bytes.

    Examples
    --------
    >>> ErasureReport([], {"a": 10}, 1).clean
    True
    """

    hits: list[tuple[str, int, int]]
    files: Mapping[str, int]
    patterns: int
    shared: int = 0
    where: str = field(default="", compare=False)

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.hits

    def __str__(self) -> str:
        size = sum(self.files.values())
        found = f"{len(self.hits)} found, the first in {self.hits[0][0]}" if self.hits else "none"
        more = f" ({self.shared} left out: rows that remain hold the same)" if self.shared else ""
        return (
            f"{self.patterns} byte patterns looked for in {len(self.files)} files "
            f"({size:,} bytes): {found}{more}"
        )


def files_below(folder: Path) -> list[Path]:
    """Every regular file of a folder, hidden ones too.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    OSError
        The folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> files_below(Path(tempfile.mkdtemp()))
    []
    """
    return sorted(p for p in Path(folder).rglob("*") if p.is_file() and not p.is_symlink())


def find_bytes(files: Iterable[Path], patterns: Sequence[bytes]) -> ErasureReport:
    """Where any of many byte strings occurs, at any offset.

    Parameters
    ----------
    files : iterable of Path
    patterns : sequence of bytes
        At least 8 bytes each.

    Returns
    -------
    ErasureReport

    Raises
    ------
    ValueError
        A pattern is too short to mean anything.
    OSError
        A file cannot be read.

    Notes
    -----
    More than a few patterns share one pass a file, however many they are: pairs of bytes are looked
    up in a table of 65,536 for the most telling eight bytes (the *anchor*) of each pattern, and
    what passes is compared in full.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> _ = path.write_bytes(b"...secret vector...")
    >>> find_bytes([path], [b"secret vector"]).hits[0][1:]
    (3, 0)
    """
    if any(len(p) < 8 for p in patterns):
        raise ValueError("patterns of fewer than 8 bytes occur by chance")
    anchors = [_anchor(p) for p in patterns]
    words = np.array([_word(p[a : a + 8]) for p, a in zip(patterns, anchors, strict=True)], "<u8")
    order = np.argsort(words, kind="stable")
    words = words[order]
    gate = np.zeros(65536, dtype=bool)
    gate[(words & 0xFFFF).astype(np.intp)] = True
    hits, sizes = [], {}
    for path in files:
        size = os.path.getsize(path)
        sizes[str(path)] = size
        if size < 8 or not patterns:
            continue
        with (
            open(path, "rb") as handle,
            mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if len(patterns) <= FEW:
                found = _find_few(data, patterns)
            else:
                found = _scan(data, words, order, gate, patterns, anchors)
            hits += [(str(path), offset, number) for offset, number in found]
    return ErasureReport(hits, sizes, len(patterns))


def _find_few(data: mmap.mmap, patterns: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """(offset, pattern) of every match, one search a pattern."""
    for number, pattern in enumerate(patterns):
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK + len(pattern) - 1]
            at = part.find(pattern)
            while at >= 0:
                yield start + at, number
                at = part.find(pattern, at + 1)


def _word(eight: bytes) -> int:
    return int.from_bytes(eight, "little")


def _anchor(pattern: bytes) -> int:
    """Where the eight bytes with the most different values start: zeros say little."""
    raw = np.frombuffer(pattern, dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(raw, 8)[::4]
    ordered = np.sort(windows, axis=1)
    return 4 * int((np.diff(ordered, axis=1) != 0).sum(axis=1).argmax())


def _scan(data, words, order, gate, patterns, anchors):
    """(offset, pattern) of every full match."""
    size = len(data)
    for start in range(0, size - 7, CHUNK):
        raw = np.frombuffer(data[start : min(size, start + CHUNK + 7)], dtype=np.uint8)
        low = raw[:-7].astype(np.uint16) | (raw[1:-6].astype(np.uint16) << 8)
        at = np.flatnonzero(gate[low])
        for part in np.array_split(at, max(1, len(at) // 1_000_000)):
            eight = raw[part[:, None] + np.arange(8)].copy().view("<u8")[:, 0]
            first = np.searchsorted(words, eight, "left")
            last = np.searchsorted(words, eight, "right")
            for i in np.flatnonzero(last > first):
                for j in range(first[i], last[i]):
                    number = int(order[j])
                    begin = start + int(part[i]) - anchors[number]
                    pattern = patterns[number]
                    if begin >= 0 and data[begin : begin + len(pattern)] == pattern:
                        yield begin, number
