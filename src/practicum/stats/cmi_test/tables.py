"""Tables with mixed columns, as people have them, to arrays; and what cannot be used, by name."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from practicum.data.table import read_table, separator_of
from practicum.data.text import read_utf8
from practicum.errors import InputError, listed, shown

RARE = 5  # rows below which a category is pooled with the other rare ones
SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t"}


def column_names(path: str | Path) -> list[str]:
    """The columns of a table file, whatever its rows hold.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        The file is missing, empty, or not a table, or two columns have one name.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = file.write_text("a, b\\n1,\\n2,\\n")
    >>> column_names(file)
    ['a', 'b']
    """
    path = Path(path)
    kind = path.suffix.lower()
    if path.is_file() and path.stat().st_size and kind in (*SEPARATORS, ".parquet"):
        try:
            names = _of_parquet(path) if kind == ".parquet" else _of_text(path, SEPARATORS[kind])
        except InputError:  # not UTF-8, say
            raise
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{path} cannot be read as a table: {reason}") from error
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            names = list(read_table(path, numeric=False, missing="drop").columns)
    _no_twins(names, str(path))
    return names


def _of_parquet(path: Path) -> list[str]:
    return [str(name).strip() for name in pd.read_parquet(path).columns]


def _of_text(path: Path, usual: str) -> list[str]:
    """As written: pandas renames the second of two equal names."""
    text = read_utf8(path)
    separator = separator_of(text.partition("\n")[0], usual)
    head = pd.read_csv(StringIO(text), sep=separator, header=None, nrows=1, dtype=str)
    read = pd.read_csv(StringIO(text), sep=separator, nrows=0)
    return [str(name).strip() for name in head.iloc[0].fillna(pd.Series(read.columns))]


def line_numbers(path: str | Path) -> list[int]:
    """The line of each row of a text table; nothing for other kinds of file.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        The file is not UTF-8.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = file.write_text("a,b\\n1,2\\n\\n3,4\\n")
    >>> line_numbers(file)
    [2, 4]
    """
    if Path(path).suffix.lower() not in SEPARATORS:
        return []
    lines = enumerate(read_utf8(path).split("\n"), start=1)
    return [number for number, line in lines if line.strip()][1:]


def _no_twins(names: Sequence[Any], what: str) -> None:
    twins = [name for k, name in enumerate(names) if name in names[:k]]
    if twins:
        raise InputError(f"{what}: two columns are called {twins[0]!r}", "rename one of them")


def pick_columns(
    columns: Sequence[str],
    wanted: Sequence[str],
    taken: Sequence[str] = (),
    option: str = "columns",
) -> list[str]:
    """Column names from names, patterns (``region_*``) and ``rest``.

    Parameters
    ----------
    columns : sequence of str
        Those there are.
    wanted : sequence of str
        ``rest`` stands for every column not in ``taken``.
    taken : sequence of str
        Columns that have another role.
    option : str
        Named in the error.

    Raises
    ------
    InputError
        No name is given, one matches no column, or a column already has a role.

    Examples
    --------
    >>> columns = ["y", "region_a", "region_b", "age"]
    >>> pick_columns(columns, ["region_*"]), pick_columns(columns, ["rest"], ["y", "age"])
    (['region_a', 'region_b'], ['region_a', 'region_b'])
    """
    if not wanted:
        raise InputError(f"{option} names no column", f"columns: {listed(columns)}")
    found: list[str] = []
    for name in wanted:
        if name in columns:
            matches = [name]
        elif name == "rest":
            matches = [c for c in columns if c not in taken]
        else:
            matches = [c for c in fnmatch.filter(columns, name) if c not in taken]
        if not matches:
            raise InputError(f"{option}: no column {name!r}", f"columns: {listed(columns)}")
        both = [c for c in matches if c in taken]
        if both:
            raise InputError(f"{option}: column {both[0]!r} already has another role")
        found += [c for c in matches if c not in found]
    return found


@dataclass(frozen=True)
class Encoded:
    """Columns as numbers.

    Attributes
    ----------
    values : array, shape (n, d)
    names : tuple of str
        One for each column of ``values``; ``colour=red`` for a category.
    notes : tuple of str
        What was done that a person should know.

    Examples
    --------
    >>> encode_columns(pd.DataFrame({"a": [1.0, 2.0]})).names
    ('a',)
    """

    values: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def encode_columns(table: Any, what: str = "X") -> Encoded:
    """Numbers stay, yes/no becomes 0/1, categories become one column a level.

    Parameters
    ----------
    table : DataFrame, Series or array, shape (n,) or (n, d)
        Torch tensors and sparse matrices too. Missing values, also masked ones, become NaN.
    what : str
        Names the role in messages, and the columns of an array: ``X[0]``, ``X[1]``, ...

    Raises
    ------
    InputError
        A column holds text that is no category, dates, or numbers with words among them; two
        columns have one name; an array is not numeric or not two-dimensional.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [30, 40] * 9, "team": list("abc") * 6})
    >>> encode_columns(frame).names
    ('age', 'team=a', 'team=b', 'team=c')
    """
    if isinstance(table, pd.Series):
        table = table.to_frame(table.name if table.name is not None else what)
    if not isinstance(table, pd.DataFrame):
        return _encode_array(table, what)
    _no_twins(list(table.columns), what)
    parts, names, notes = [], [], []
    for column in table.columns:
        values, levels, note = _encode_one(table[column], f"{what} column {str(column)!r}")
        parts.append(values)
        names += [str(column) if level is None else f"{column}={level}" for level in levels]
        notes += [note] if note else []
    if not parts:
        raise InputError(f"{what} has no columns")
    return Encoded(np.column_stack(parts), tuple(names), tuple(notes))


def _encode_array(table: Any, what: str) -> Encoded:
    if table is None:
        raise InputError(f"{what} is None, an array or a data frame is expected")
    if hasattr(table, "detach"):  # a torch tensor, wherever it lies
        table = table.detach().cpu().numpy()
    if issparse(table):
        table = table.toarray()
    if np.ma.isMaskedArray(table):  # masked is missing: asarray would bring back what lies beneath
        table = table.astype(float).filled(np.nan)
    array = np.asarray(table)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} is an array of {array.dtype}, numbers are expected",
            "pass columns of text as a pandas DataFrame: they are encoded",
        )
    array = array.astype(float)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.shape[1]:
        hint = "leave Z out (None) to test without one" if what == "Z" else None
        raise InputError(f"{what} has shape {array.shape}, (rows, columns) is expected", hint)
    return Encoded(array, tuple(f"{what}[{k}]" for k in range(array.shape[1])))


def _encode_one(column: pd.Series, what: str) -> tuple[np.ndarray, list[Any], str]:
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_numeric_dtype(kind):
        return column.astype(float).to_numpy()[:, None], [None], ""
    if isinstance(kind, np.dtype | pd.DatetimeTZDtype) and kind.kind in "mM":
        found = "dates" if kind.kind == "M" else "durations"
        raise InputError(
            f"{what} holds {found}", "turn it into a number (days, say), or leave it out"
        )
    present = column.dropna().astype(str).str.strip()
    numbers = pd.to_numeric(present, errors="coerce")
    share = float(numbers.notna().mean()) if len(present) else 0.0
    if share == 1.0:
        return pd.to_numeric(column, errors="coerce").to_numpy(float)[:, None], [None], ""
    if share > 0.8:
        row = numbers.index[numbers.isna()][0]
        raise InputError(
            f"{what} is numeric but for {column.index.name or 'row'} {row}: {shown(present[row])}",
            "correct the cell, or leave it empty and choose to drop missing rows",
        )
    return _one_hot(column, present, what)


def _one_hot(column: pd.Series, present: pd.Series, what: str) -> tuple[np.ndarray, list[Any], str]:
    counts = present.value_counts()
    if len(counts) > max(20, len(column) // 20):
        raise InputError(
            f"{what} has {len(counts)} different texts in {len(column)} rows: not a category",
            "leave it out, or group its values",
        )
    rare = counts.index[counts < RARE]
    note = ""
    if len(rare) > 1:
        present = present.where(~present.isin(rare), "(rare)")
        note = f"{what}: {len(rare)} categories with fewer than {RARE} rows were pooled"
    levels = sorted(present.unique())
    if len(levels) == 2:
        levels = levels[1:]  # the other column would say the same
    text = present.reindex(column.index)
    hot = np.column_stack([(text == level).to_numpy(float) for level in levels])
    hot[text.isna().to_numpy()] = np.nan
    return hot, levels, note
