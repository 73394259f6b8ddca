"""Arrays from the columns of a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from practicum.data.offline.names import ALIASES, not_there
from practicum.errors import InputError, listed, shown

if TYPE_CHECKING:
    import pandas as pd


def columns_of(
    name: str, what: str, wanted: str | Sequence[str], there: list[str], required: bool = True
) -> list[str]:
    """Columns by name or by patterns (``obs_*``), in the order of the frame for a pattern."""
    from fnmatch import fnmatchcase

    found: list[str] = []
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        hits = [c for c in there if c == pattern or fnmatchcase(c, pattern)]
        if not hits and required:
            raise not_there(
                name, f"{what} ({pattern})", there, f"name columns with {what}=..., --{what} NAMES"
            )
        found += [c for c in hits if c not in found]
    return found


def column_of(name: str, what: str, wanted: str | None, there: list[str]) -> str | None:
    if wanted is None:
        return next((u for u in ALIASES[what] if u in there), None)
    if wanted not in there:
        raise not_there(name, wanted, there, f"it was named as the column of {what}")
    return wanted


def numbers_of(name: str, frame: pd.DataFrame, column: str) -> np.ndarray:
    import pandas as pd

    values = pd.to_numeric(frame[column], errors="coerce")
    stray = np.flatnonzero(values.isna() & frame[column].notna())
    if stray.size:
        raise InputError(
            f"{name}, column {column!r}: expected numbers, found "
            f"{shown(frame[column].iloc[stray[0]])} in row {stray[0]} (counted from 0, the header "
            "apart)"
        )
    return values.to_numpy()


def stacked(name: str, frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    arrays = [numbers_of(name, frame, c) for c in columns]
    for column, array in zip(columns, arrays, strict=True):
        gaps = np.flatnonzero(np.isnan(array.astype(float)))
        if gaps.size and not column.startswith("next_"):
            raise InputError(
                f"{name}, column {column!r}: empty or NaN in {gaps.size} of {len(array)} rows: "
                f"rows {listed(gaps)} (counted from 0, the header apart)",
                "leave out the episodes that hold these rows, or impute the cells",
            )
    return np.stack(arrays, axis=1)


def in_order_of(name: str, seen: list[str], then: list[str]) -> list[str]:
    """next_obs columns in the order of the obs columns (``next_`` + name), or as given."""
    wanted = [f"next_{c}" for c in seen]
    if set(wanted) == set(then):
        return wanted
    if len(then) != len(seen):
        raise InputError(
            f"{name}: {len(then)} columns of next observations ({listed(then)}) for {len(seen)} "
            f"of observations ({listed(seen)})"
        )
    return then
