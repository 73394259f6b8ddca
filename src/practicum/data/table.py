"""Tables of numbers: CSV, TSV, Parquet, NPY, NPZ and JSON lines.

Nothing is unpickled.  Every complaint names the file, the column, and the row as its owner counts
them: the line for text formats, the row (from 1) for binary ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from practicum.data.text import json_records, read_utf8
from practicum.errors import InputError, listed, plain, reason_of, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


@dataclass(frozen=True)
class _Raw:
    """A table as read, and how its owner counts rows."""

    frame: pd.DataFrame
    unit: str  # "line" or "row"
    numbers: Sequence[int]  # what each row is called


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    numeric: bool = True,
    missing: Literal["error", "drop", "keep"] = "error",
) -> pd.DataFrame:
    """Read a table, check it, and say what is wrong with it.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.parquet``, ``.npy``, ``.npz`` or ``.jsonl`` (also ``.txt`` as CSV).
        A CSV whose header holds semicolons or tabs and no comma is read by those; with
        semicolons, decimal commas are numbers.
        Arrays without names get the columns ``"0"``, ``"1"``, ...; an ``.npz`` must hold either one
        2-D array or several 1-D arrays of one length.
    columns : sequence of str, optional
        The columns to keep, in this order; all by default.
    numeric : bool
        Keep numbers only.  Columns that are not numeric are skipped with a warning, unless they
        were named in ``columns``: then they are an error.
    missing : {"error", "drop", "keep"}
        What to do with rows that hold empty, NaN or infinite cells; kept, infinite ones stay as
        they are.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    InputError
        If the file is missing, empty, unreadable or of an unknown kind; a column is missing or not
        numeric; or cells are NaN or infinite.

    Warns
    -----
    UserWarning
        When columns are skipped or rows dropped.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x,y\\n1,2\\n3,4\\n")
    >>> read_table(path, columns=["y"])["y"].tolist()
    [2, 4]
    """
    path = Path(path)
    if missing not in ("error", "drop", "keep"):
        raise InputError(f"missing={missing!r} is not known", 'use "error", "drop" or "keep"')
    raw = _read(path)
    if raw.frame.shape[0] == 0 or raw.frame.shape[1] == 0:
        raise InputError(f"{path} holds no rows", "expected a header and at least one row")
    raw = _select(path, raw, columns)
    if numeric:
        raw = _only_numeric(path, raw, named=columns is not None)
    if missing == "keep":
        return raw.frame.reset_index(drop=True)
    return _without_gaps(path, raw, missing)


# ------------------------------------------------------------- reading


def _read(path: Path) -> _Raw:
    readers: dict[str, Callable[[Path], _Raw]] = {
        ".csv": lambda p: _read_delimited(p, ","),
        ".txt": lambda p: _read_delimited(p, ","),
        ".tsv": lambda p: _read_delimited(p, "\t"),
        ".parquet": _read_parquet,
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
    }
    if path.is_dir():
        raise InputError(f"{path} is a folder, a table is expected", "name a file in it")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty", "expected a header and at least one row")
    if path.suffix.lower() not in readers:
        raise InputError(
            f"{path}: files ending in {path.suffix or 'nothing'!r} are not read as tables",
            "use " + ", ".join(readers),
        )
    try:
        return readers[path.suffix.lower()](path)
    except InputError:
        raise
    # The libraries below raise many kinds of errors on junk, all of which mean the same here.
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as {path.suffix.lower()[1:].upper()}: {reason_of(error)}",
            "is it damaged, or of another kind than its name says?",
        ) from error


def _read_delimited(path: Path, separator: str) -> _Raw:
    import pandas as pd

    text = read_utf8(path)
    header, _, body = text.partition("\n")
    separator = separator_of(header, separator)
    decimal = "," if separator == ";" and re.search(r"\d,\d", body) else "."
    frame = pd.read_csv(path, sep=separator, decimal=decimal, encoding="utf-8-sig")
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if line.strip()][1:]
    if len(lines) == len(frame):
        return _Raw(frame, "line", lines)
    return _Raw(frame, "row", range(1, len(frame) + 1))  # quoted cells hold line breaks


def separator_of(header: str, usual: str = ",") -> str:
    """What separates the columns of a header: a file called CSV may hold semicolons or tabs.

    Spreadsheets write semicolons where the comma is the decimal sign.

    Parameters
    ----------
    header : str
        The first line.
    usual : str
        What the file's name promises; kept where the header holds it.

    Examples
    --------
    >>> separator_of("a;b"), separator_of("a;b,c"), separator_of("a")
    (';', ',', ',')
    """
    if usual != "," or "," in header:
        return usual
    return next((mark for mark in (";", "\t") if mark in header), usual)


def _rows(frame: pd.DataFrame) -> _Raw:
    return _Raw(frame, "row", range(1, len(frame) + 1))


def _read_parquet(path: Path) -> _Raw:
    import pandas as pd
    import pyarrow as pa

    frame = pd.read_parquet(path)
    for _, column in frame.items():
        if isinstance(column.dtype, pd.StringDtype):  # a damaged page may hold what is no UTF-8
            pa.chunked_array(pa.array(column)).validate(full=True)
    return _rows(frame)


def _read_npy(path: Path) -> _Raw:
    return _rows(_from_array(path, load_arrays(path)["0"]))


def _read_npz(path: Path) -> _Raw:
    import pandas as pd

    arrays = load_arrays(path)
    if len(arrays) == 1:
        return _rows(_from_array(path, next(iter(arrays.values()))))
    shapes = {name: a.shape for name, a in arrays.items()}
    if any(a.ndim != 1 for a in arrays.values()) or len(set(shapes.values())) != 1:
        raise InputError(
            f"{path} holds arrays of shapes {shapes}",
            "expected one 2-D array, or 1-D arrays of one length",
        )
    for name, array in arrays.items():
        _refuse_kind(path, name, array)
    return _rows(pd.DataFrame(arrays))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPY (called ``"0"``) or NPZ file by name; nothing is unpickled.

    Raises
    ------
    Exception
        Of many kinds where the file is damaged; the file is closed all the same.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> path = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(path, x=np.arange(2))
    >>> load_arrays(path)
    {'x': array([0, 1])}
    """
    import numpy as np

    with path.open("rb") as handle:  # numpy leaves a file open that it cannot read
        loaded = np.load(handle, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"0": loaded}
        with loaded as archive:
            return {name: archive[name] for name in archive.files}


def _from_array(path: Path, array: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    if array.dtype.names and array.ndim == 1:  # it has column names of its own
        fields = {name: array[name] for name in array.dtype.names}
        for name, field in fields.items():
            _refuse_kind(path, name, field)
        return pd.DataFrame(fields)
    _refuse_kind(path, "0", array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 2 and array.size == 0:  # a header may promise 10^10 columns of no rows
        raise InputError(f"{path} holds no rows", f"its array has the shape {array.shape}")
    if array.ndim != 2:
        raise InputError(
            f"{path} holds an array of shape {array.shape}", "expected (rows, columns)"
        )
    return pd.DataFrame(array, columns=[str(j) for j in range(array.shape[1])])


def _refuse_kind(path: Path, name: str, array: np.ndarray) -> None:
    """What is no column: raw bytes, records in records, and complex numbers, which pass for
    numbers and lose their imaginary part wherever floats are made of them."""
    if array.dtype.kind in "cV" or (array.ndim != 1 and name != "0"):
        shape = f" of shape {array.shape}" if array.ndim != 1 else ""
        raise InputError(
            f"{path}, column {shown(name)}: {plain(array.dtype)} values{shape}, expected one real "
            "number, word or date a row",
            "store it as plain columns",
        )


def _read_json_lines(path: Path) -> _Raw:
    import pandas as pd

    records, numbers = [], []
    for number, record in json_records(path, read_utf8(path)):
        records.append(record)
        numbers.append(number)
    return _Raw(pd.DataFrame.from_records(records), "line", numbers)


# ------------------------------------------------------------- checking


def _select(path: Path, raw: _Raw, columns: Sequence[str] | None) -> _Raw:
    frame = raw.frame.set_axis([str(c).strip() for c in raw.frame.columns], axis=1)
    if columns is not None:
        absent = [c for c in columns if c not in frame.columns]
        if absent:
            raise InputError(
                f"{path} has no column {', '.join(map(repr, absent))}",
                "columns there: " + listed(map(shown, frame.columns)),
            )
        frame = frame[list(columns)]
    return replace(raw, frame=frame)


def _only_numeric(path: Path, raw: _Raw, *, named: bool) -> _Raw:
    import warnings

    import pandas as pd

    frame = raw.frame
    text = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]
    # A column of numbers with one stray word is a mistake to report, not a column to skip.
    for column in text:
        numbers = pd.to_numeric(frame[column], errors="coerce")
        stray = numbers.isna() & frame[column].notna()
        if not stray.any():
            frame = frame.assign(**{column: numbers})
        elif named or stray.mean() < 0.5:
            row = int(stray.to_numpy().argmax())
            raise InputError(
                f"{path}, column {column!r}, {raw.unit} {raw.numbers[row]}: "
                f"expected a number, found {shown(frame[column].iloc[row])} "
                f"({int(stray.sum())} such cells)",
                "correct the cells, or leave the column out with columns=...",
            )
    skipped = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]
    if len(skipped) == frame.shape[1]:
        raise InputError(f"{path} has no numeric column", "columns: " + listed(skipped))
    if skipped:
        warnings.warn(
            f"{path}: skipped columns that are not numeric: {listed(skipped)}",
            UserWarning,
            stacklevel=3,
        )
    return replace(raw, frame=frame.drop(columns=skipped))


def _without_gaps(path: Path, raw: _Raw, missing: str) -> pd.DataFrame:
    import warnings

    import numpy as np

    numbers = raw.frame.select_dtypes("number")
    bad = raw.frame.isna()
    bad[numbers.columns] |= np.isinf(numbers.astype(float))
    rows = np.flatnonzero(bad.any(axis=1))
    if rows.size == 0:
        return raw.frame.reset_index(drop=True)
    if missing == "drop":
        if rows.size == len(raw.frame):
            raise InputError(f"{path}: every row holds an empty, NaN or infinite cell")
        warnings.warn(
            f"{path}: dropped {rows.size} of {len(raw.frame)} rows with empty, NaN or infinite "
            "cells",
            UserWarning,
            stacklevel=3,
        )
        return raw.frame.drop(index=raw.frame.index[rows]).reset_index(drop=True)
    column = raw.frame.columns[int(np.argmax(bad.iloc[rows[0]]))]
    value = raw.frame[column].iloc[rows[0]]
    raise InputError(
        f"{path}, column {column!r}, {raw.unit} {raw.numbers[rows[0]]}: found "
        f"{'an empty cell or NaN' if value != value or value is None else value} "
        f"({rows.size} of {len(raw.frame)} rows hold such cells)",
        'impute them, or drop the rows with missing="drop"',
    )
