"""People's binary tables as bits: what each column's two levels are, and how to go back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from practicum.errors import InputError

TRUE_WORDS = ("true", "yes", "y", "1", "present", "male")  # which of two words becomes 1


@dataclass(frozen=True)
class BitTable:
    """Columns of two levels.

    Attributes
    ----------
    names : tuple of str
    levels : tuple of (zero, one)
        What 0 and 1 stand for in each column.

    Examples
    --------
    >>> table = BitTable.of(pd.DataFrame({"vote": ["no", "yes", "yes"]}))
    >>> table.encode(pd.DataFrame({"vote": ["yes", None]})).tolist()
    [[1.0], [nan]]
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(cls, frame: pd.DataFrame, what: str = "the table") -> BitTable:
        """Find the two levels of every column; ``what`` is how errors name the table.

        Raises
        ------
        InputError
            If a column has more than two, naming it and what was found.
        """
        names, levels = [], []
        for name in frame.columns:
            found = sorted(frame[name].dropna().unique().tolist(), key=str)
            numeric = all(isinstance(v, bool | int | float) for v in found)
            if numeric and set(found) <= {0, 1}:
                pair: tuple[Any, Any] = (0, 1)
            elif len(found) == 2:
                first_is_one = str(found[0]).lower() in TRUE_WORDS
                pair = (found[1], found[0]) if first_is_one else (found[0], found[1])
            elif len(found) == 1:
                pair = (f"not {found[0]}", found[0])
            else:
                shown = ", ".join(
                    f"{v:.6g}" if isinstance(v, float) else repr(v) for v in found[:4]
                )
                raise InputError(
                    f"{what}: column {str(name)!r} has {len(found)} levels "
                    f"({shown}{', ...' if len(found) > 4 else ''}), two are expected",
                    "turn columns into yes/no questions with --cut (cut_table in Python), or "
                    "leave the column out",
                )
            names.append(str(name))
            levels.append(pair)
        return cls(tuple(names), tuple(levels))

    def encode(self, frame: pd.DataFrame) -> Float[np.ndarray, "n d"]:
        """0, 1 and NaN (missing).

        Raises
        ------
        InputError
            If a column is absent or holds a value that is neither level.
        """
        absent = [name for name in self.names if name not in map(str, frame.columns)]
        if absent:
            raise InputError(
                f"columns missing: {', '.join(map(repr, absent))}",
                "columns there: " + ", ".join(repr(str(c)) for c in frame.columns),
            )
        frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
        bits = np.full((len(frame), len(self.names)), np.nan)
        for j, (name, (zero, one)) in enumerate(zip(self.names, self.levels, strict=True)):
            column = frame[name]
            values = column.to_numpy(dtype=object)
            gap = column.isna().to_numpy()
            for value, bit in ((zero, 0.0), (one, 1.0)):
                bits[[v == value for v in values], j] = bit
            strange = np.flatnonzero(np.isnan(bits[:, j]) & ~gap)
            if strange.size:
                raise InputError(
                    f"column {name!r}, row {strange[0] + 1}: found {values[strange[0]]!r}, "
                    f"expected {zero!r} or {one!r}"
                )
        return bits

    def decode(self, bits: Bool[np.ndarray, "n d"]) -> pd.DataFrame:
        """The person's own levels."""
        columns = {
            name: np.where(bits[:, j], one, zero)
            if _plain(zero, one)
            else _words(bits, j, zero, one)
            for j, (name, (zero, one)) in enumerate(zip(self.names, self.levels, strict=True))
        }
        return pd.DataFrame(columns)

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"names": list(self.names), "levels": [list(pair) for pair in self.levels]}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> BitTable:
        """From a checkpoint."""
        return cls(tuple(stored["names"]), tuple((a, b) for a, b in stored["levels"]))


def _plain(zero: Any, one: Any) -> bool:
    return isinstance(zero, int | float) and isinstance(one, int | float)


def _words(bits: np.ndarray, j: int, zero: Any, one: Any) -> list[Any]:
    return [one if bit else zero for bit in bits[:, j]]


MOST_LEVELS = 20  # of a column that becomes one bit a level


def cut_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of anything as yes/no questions, with the questions as column names.

    Columns of two levels stay; numbers become "above the median"; other columns of up to 20 levels
    become one question a level.

    Parameters
    ----------
    frame : DataFrame without gaps

    Returns
    -------
    DataFrame
        Columns like ``height > 1.75`` and ``colour = red``, of booleans.

    Raises
    ------
    InputError
        If a column has too many levels.

    Warns
    -----
    UserWarning
        Naming the columns that were turned into questions.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     cut_table(pd.DataFrame({"x": [1.0, 2.0, 4.0]}))["x > 2"].tolist()
    [False, False, True]
    """
    columns: dict[str, Any] = {}
    turned = []
    for name in map(str, frame.columns):
        values = frame[name]
        levels = values.nunique()
        if levels <= 2:
            columns[name] = values
            continue
        turned.append(name)
        if pd.api.types.is_numeric_dtype(values):
            middle = float(values.median())
            if not (values > middle).any():  # more than half of the rows hold the largest value
                middle = float(values[values < middle].max())
            middle = float(f"{middle:.6g}")  # as the column's name will say
            columns[f"{name} > {middle:.6g}"] = values > middle
        elif levels <= MOST_LEVELS:
            for level in sorted(values.unique(), key=str):
                columns[f"{name} = {level}"] = values == level
        else:
            raise InputError(
                f"column {name!r} has {levels} levels, at most {MOST_LEVELS} can become bits",
                "leave it out",
            )
    if turned:
        warnings.warn(
            f"turned into yes/no questions: {', '.join(turned)}", UserWarning, stacklevel=2
        )
    return pd.DataFrame(columns)


def ask(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The questions that :func:`cut_table` made of a table, put to another one; gaps stay gaps.

    Parameters
    ----------
    frame : DataFrame
    names : sequence of str
        Columns of the table, or questions like ``height > 1.75`` and ``colour = red``.

    Returns
    -------
    DataFrame
        With the columns that could be made; the others are left to the caller's complaint.

    Raises
    ------
    ValueError
        Never for names that :func:`cut_table` made.

    Examples
    --------
    >>> ask(pd.DataFrame({"x": [1.0, 3.0, None]}), ["x > 2"])["x > 2"].tolist()
    [False, True, None]
    """
    there = {str(c): frame[c] for c in frame.columns}
    columns: dict[str, Any] = {}
    for name in names:
        base, above, limit = name.rpartition(" > ")
        word, equal, level = name.partition(" = ")
        if name in there:
            columns[name] = there[name]
        elif above and base in there:
            answers = pd.to_numeric(there[base], errors="coerce") > float(limit)
            columns[name] = answers.astype(object).where(there[base].notna(), None)
        elif equal and word in there:
            answers = there[word].astype(str) == level
            columns[name] = answers.astype(object).where(there[word].notna(), None)
    return pd.DataFrame(columns)


def as_bits(
    X: Any, *, missing: bool = False, binarize: float | None = None, what: str = "X"
) -> Float[np.ndarray, "n d"]:
    """An array, sparse matrix or data frame of 0 and 1 (and NaN where ``missing``) as floats.

    Parameters
    ----------
    X : array, sparse matrix or DataFrame, shape (n, d); images (n, h, w) are flattened
    missing : bool
        Whether NaN is allowed: a bit to be generated.
    binarize : float, optional
        Numbers above it become 1.
    what : str
        How errors name the argument.

    Raises
    ------
    InputError
        If a value is anything else, naming values and where the first one is.

    Examples
    --------
    >>> as_bits([[0, 1], [True, False]]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(X, pd.DataFrame):
        X = X.to_numpy(dtype=object)
    try:
        values = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"{what} holds words", "give a data frame: columns of two levels are encoded"
        ) from None
    if values.ndim > 2:
        values = values.reshape(len(values), -1)
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{what} has shape {values.shape}, expected (rows, bits)")
    gaps = np.isnan(values)
    if gaps.any() and not missing:
        row, column = (int(i) for i in np.argwhere(gaps)[0])
        raise InputError(
            f"{what}: row {row + 1}, column {column + 1} is missing ({int(gaps.sum())} cells)",
            "fit on complete rows, then fill the others with impute",
        )
    if binarize is not None:
        values = np.where(gaps, np.nan, values > binarize)
    strange = ~gaps & (values != 0) & (values != 1)
    if strange.any():
        row, column = (int(i) for i in np.argwhere(strange)[0])
        found = np.unique(values[strange])[:4]
        raise InputError(
            f"{what} holds {', '.join(f'{v:g}' for v in found)} (first in row {row + 1}, column "
            f"{column + 1}), bits are 0 or 1",
            "choose a threshold: binarize=0.5",
        )
    return values


def check_training_bits(x: Bool[np.ndarray, "n d"], names: tuple[str, ...] | None = None) -> None:
    """Warn about data from which there is little to learn.

    Parameters
    ----------
    x : bool array, shape (n, d)
    names : tuple of str, optional

    Warns
    -----
    UserWarning
        If a column is constant, or all rows are equal.

    Examples
    --------
    >>> check_training_bits(np.array([[True, False], [False, True]]))
    """
    if len(x) == 1 or (x == x[0]).all():
        warnings.warn(
            "all rows are equal: the model can only repeat that row", UserWarning, stacklevel=3
        )
        return
    constant = np.flatnonzero(x.all(axis=0) | ~x.any(axis=0))
    if constant.size:
        shown = ", ".join(names[j] if names else str(j + 1) for j in constant[:8])
        warnings.warn(
            f"{constant.size} of {x.shape[1]} columns are constant ({shown}"
            f"{', ...' if constant.size > 8 else ''})",
            UserWarning,
            stacklevel=3,
        )
