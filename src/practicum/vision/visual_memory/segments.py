"""Vectors in equal files (or arrays), and the few ways in which files are written and destroyed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

SEGMENT = 65536  # rows a file


class Segments:
    """Rows in equal files (or arrays), indexed as one array of shape (m, d).

    Parameters
    ----------
    dim : int
    dtype : {"float32", "float16"}
    folder : Path or None
        None keeps the rows in memory.
    base : int
        Number of the first file.

    Examples
    --------
    >>> rows = Segments(2, "float32")
    >>> rows.append(np.eye(2, dtype=np.float32))
    >>> rows[np.array([1])].tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, dim: int, dtype: str, folder: Path | None = None, base: int = 0) -> None:
        self.dim, self.dtype = dim, np.dtype(dtype).newbyteorder("<")
        self.folder, self.base, self.n = folder, base, 0
        self.parts: list[np.ndarray] = []

    def __len__(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, numbers a row)."""
        return self.n, self.dim

    def __getitem__(self, at: slice | np.ndarray) -> np.ndarray:
        if isinstance(at, slice):
            start, stop, _ = at.indices(self.n)
            pieces = []
            while start < stop:
                number, inside = divmod(start, SEGMENT)
                upto = min(stop - number * SEGMENT, SEGMENT)
                pieces.append(self.parts[number][inside:upto])
                start = number * SEGMENT + upto
            if len(pieces) == 1:
                return pieces[0]
            return np.concatenate(pieces) if pieces else np.empty((0, self.dim), self.dtype)
        at = np.asarray(at)
        out = np.empty((len(at), self.dim), dtype=self.dtype)
        at = np.where(at < 0, at + self.n, at)
        number = at // SEGMENT
        for part in np.unique(number):
            mine = number == part
            out[mine] = self.parts[part][at[mine] - part * SEGMENT]
        return out

    def path(self, number: int) -> Path:
        """The file of a segment, counted from the first."""
        assert self.folder is not None
        return self.folder / f"seg-{self.base + number:04d}.vec"

    def files(self) -> list[Path]:
        """The files in use."""
        return [self.path(i) for i in range(-(-self.n // SEGMENT))] if self.folder else []

    def resize(self, n: int) -> None:
        """See ``n`` rows (of the files: no others are touched)."""
        if self.folder:
            self.parts = []
            for number in range(-(-n // SEGMENT)):
                rows = min(SEGMENT, n - number * SEGMENT)
                self.parts.append(
                    np.memmap(self.path(number), self.dtype, "r", shape=(rows, self.dim))
                )
        self.n = n

    def append(self, vectors: np.ndarray) -> None:
        """Write rows after the last one, and see that they are on the disk."""
        vectors = np.ascontiguousarray(vectors, dtype=self.dtype)
        start, n = 0, self.n
        while start < len(vectors):
            number, inside = divmod(n, SEGMENT)
            part = vectors[start : start + SEGMENT - inside]
            if self.folder:
                _write_at(self.path(number), inside * self.row_bytes, part.tobytes())
            elif inside == 0:
                self.parts.append(part.copy())
            else:
                self.parts[number] = np.concatenate([self.parts[number], part])
            start, n = start + len(part), n + len(part)
        if self.folder:
            sync_folder(self.folder)
        self.resize(n)

    def zero(self, slots: Iterable[int]) -> None:
        """Overwrite rows in place."""
        by_file: dict[int, list[int]] = {}
        for slot in slots:
            by_file.setdefault(slot // SEGMENT, []).append(slot % SEGMENT)
        empty = bytes(self.row_bytes)
        for number, inside in by_file.items():
            if not self.folder:
                self.parts[number][inside] = 0
                continue
            with open(self.path(number), "r+b") as handle:
                for row in inside:
                    handle.seek(row * self.row_bytes)
                    handle.write(empty)
                sync(handle)

    def cut(self, n: int) -> None:
        """Forget rows from ``n`` on: what an addition left that was not committed."""
        if not self.folder:
            return
        number = 0
        while self.path(number).exists():
            keep = max(0, min(SEGMENT, n - number * SEGMENT)) * self.row_bytes
            if self.path(number).stat().st_size > keep:
                with open(self.path(number), "r+b") as handle:
                    _overwrite(handle, keep)
                    handle.truncate(keep)
                    sync(handle)
            number += 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dim * self.dtype.itemsize


def _write_at(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b" if path.exists() else "w+b") as handle:
        handle.seek(offset)
        handle.write(data)
        sync(handle)


def _overwrite(handle: Any, start: int = 0) -> None:
    """Zeros over a file from ``start`` to its end, on the disk."""
    end = handle.seek(0, os.SEEK_END)
    handle.seek(start)
    while (left := end - handle.tell()) > 0:
        handle.write(bytes(min(left, 1 << 20)))
    sync(handle)


def sync(handle: Any) -> None:
    """See that what was written to an open file is on the disk.

    Parameters
    ----------
    handle : file

    Raises
    ------
    OSError
        It cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as handle:
    ...     sync(handle)
    """
    handle.flush()
    os.fsync(handle.fileno())


def sync_folder(folder: Path) -> None:
    """See that a folder's list of files is on the disk, where the system can.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    OSError
        It cannot be closed again.

    Examples
    --------
    >>> sync_folder(Path("."))
    """
    with contextlib.suppress(OSError):  # some systems do not sync folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def shred(path: Path) -> None:
    """Overwrite a file with zeros, then delete it.

    Parameters
    ----------
    path : Path

    Raises
    ------
    OSError
        It cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> _ = path.write_bytes(b"secret")
    >>> shred(path); path.exists()
    False
    """
    if path.is_file():
        with open(path, "r+b") as handle:
            _overwrite(handle)
        path.unlink()
