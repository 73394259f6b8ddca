"""What a person hands over, checked: arrays of one length in which something varies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.stats.cmi_test.kernels import standardise
from practicum.stats.cmi_test.tables import RARE, encode_columns

MIN_ROWS = 60
MAX_ROWS = 10_000  # n² doubles of several matrices


@dataclass(frozen=True)
class Rows:
    """Checked arrays.

    Attributes
    ----------
    x, y, z : arrays, shapes (n, d), (n, k), (n, q)
        Without a Z, ``z`` is one column of zeros.
    groups : array of int, shape (n,), or None
    names : mapping of "X", "Y", "Z" to the names of their columns
    notes : tuple of str
        What was done that a person should know.

    Examples
    --------
    >>> rows = Rows.of(np.arange(60), np.arange(60) % 7, np.arange(60) % 5, None, "refuse")
    >>> rows.n, rows.names["X"]
    (60, ('X[0]',))
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    groups: np.ndarray | None
    names: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many."""
        return len(self.x)

    @property
    def conditional(self) -> bool:
        """Whether there is a Z."""
        return bool(self.names["Z"])

    @property
    def standard_z(self) -> np.ndarray:
        """Z for its kernel; zeros, so that all rows are alike, where there is none."""
        return standardise(self.z) if self.conditional else self.z

    def only(self, role: str, kept: np.ndarray) -> Rows:
        """Without some columns of X or of Y.

        Parameters
        ----------
        role : {"X", "Y"}
        kept : array of bool
            One for each column.
        """
        names = tuple(name for name, keep in zip(self.names[role], kept) if keep)
        values = (self.x if role == "X" else self.y)[:, kept]
        changed = {"x" if role == "X" else "y": values}
        return replace(self, names={**self.names, role: names}, **changed)

    @classmethod
    def of(cls, x: Any, y: Any, z: Any, groups: Any, missing: str) -> Rows:
        """Encode, check and, if asked to, drop rows with missing values.

        Parameters
        ----------
        x, y, z : arrays or DataFrames; ``z`` may be None
        groups : array, shape (n,), or None
        missing : {"refuse", "drop"}

        Raises
        ------
        InputError
            What cannot be used, by name.
        """
        given = {"X": x, "Y": y} | ({} if z is None else {"Z": z})
        parts = {k: encode_columns(v, k) for k, v in given.items()}
        arrays = {k: part.values for k, part in parts.items()}
        lengths = {k: len(a) for k, a in arrays.items()}
        _same_index(**given)
        if groups is not None:
            groups = np.asarray(groups)
            lengths["groups"] = len(groups)
            if pd.isna(groups).any() and missing == "refuse":
                raise InputError(
                    f"{int(pd.isna(groups).sum())} rows have no group",
                    "fill them in, or drop these rows with missing='drop'",
                )
        if len(set(lengths.values())) > 1:
            words = ", ".join(f"{k} {n}" for k, n in lengths.items())
            raise InputError(f"numbers of rows differ: {words}")
        notes = [note for part in parts.values() for note in part.notes]
        keep = np.ones(lengths["X"], dtype=bool)
        labels = {k: _row_labels(v) for k, v in given.items()}
        for name, part in parts.items():
            _within_range(part.values, part.names, name, labels[name])
            keep &= _complete(part.values, part.names, name, missing, labels[name])
        if groups is not None:
            keep &= ~pd.isna(groups)
        if not keep.all():
            notes.append(f"{int((~keep).sum())} of {len(keep)} rows with missing values dropped")
        arrays = {k: a[keep] for k, a in arrays.items()}
        if groups is not None:
            groups = np.unique(groups[keep].astype(str), return_inverse=True)[1]
        n = int(keep.sum())
        if n < MIN_ROWS:
            raise InputError(f"{n} rows, at least {MIN_ROWS} are needed")
        if n > MAX_ROWS:
            raise InputError(
                f"{n:,} rows: the pairs of more than {MAX_ROWS:,} do not fit in memory",
                f"test a random sample of {MAX_ROWS // 2:,} rows",
            )
        if groups is not None and groups.max() + 1 < 20:
            raise InputError(f"{groups.max() + 1} groups, at least 20 are needed")
        for name, part in parts.items():
            _varying(arrays[name], part.names, name)
        if z is None:
            arrays["Z"] = np.zeros((n, 1))
        if arrays["X"].shape[1] + arrays["Z"].shape[1] >= n:
            notes.append(f"as many columns as rows ({n}): expect little power")
        notes += _about_outcome(arrays["Y"], parts["Y"].names)
        names = {"Z": ()} | {k: part.names for k, part in parts.items()}
        return cls(arrays["X"], arrays["Y"], arrays["Z"], groups, names, tuple(notes))


def _same_index(**parts: Any) -> None:
    """Rows are paired by position; data frames that say otherwise are a mistake."""
    labelled = {k: v.index for k, v in parts.items() if isinstance(v, pd.DataFrame | pd.Series)}
    first = next(iter(labelled.items()), None)
    for name, index in labelled.items():
        if first and len(index) == len(first[1]) and not index.equals(first[1]):
            raise InputError(
                f"{first[0]} and {name} have different row labels",
                f"align them, {name} = {name}.loc[{first[0]}.index], or pass arrays",
            )


def _row_labels(table: Any) -> Callable[[int], str]:
    """What a person calls a row: its label in a data frame, its position in an array."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return lambda position: f"row {position}"
    return lambda position: f"{table.index.name or 'row'} {table.index[position]}"


def _complete(
    values: np.ndarray,
    names: Sequence[str],
    what: str,
    missing: str,
    label: Callable[[int], str],
) -> np.ndarray:
    """Rows without missing values."""
    gaps = np.isnan(values)
    if gaps.any() and missing == "refuse":
        column = int(gaps.any(axis=0).argmax())
        count = int(gaps[:, column].sum())
        raise InputError(
            f"{what} column {names[column]!r} has {count} missing value{'s' * (count > 1)}, "
            f"the first in {label(int(gaps[:, column].argmax()))}",
            "fill them in, or drop these rows with missing='drop'",
        )
    return ~gaps.any(axis=1)


HUGE, TINY = 1e100, 1e-100  # squares of what lies beyond are no longer numbers


def _within_range(
    values: np.ndarray, names: Sequence[str], what: str, label: Callable[[int], str]
) -> None:
    """Refuse what squares and standard deviations cannot hold."""
    huge = np.argwhere(np.abs(values) > HUGE)
    if len(huge):
        row, column = huge[0]
        found = values[row, column]
        words = "is infinite" if np.isinf(found) else f"holds {found:g}"
        raise InputError(
            f"{what} column {names[column]!r} {words} in {label(int(row))}",
            "correct the value" + ("" if np.isinf(found) else ", or rescale the column"),
        )
    size = np.nanmax(np.abs(values), axis=0, initial=0.0)
    for column in np.flatnonzero((size > 0) & (size < TINY)):
        raise InputError(
            f"{what} column {names[column]!r} holds nothing above {size[column]:g}",
            "rescale the column",
        )


def _varying(values: np.ndarray, names: Sequence[str], what: str) -> None:
    spread = values.max(axis=0) - values.min(axis=0)
    flat = [names[k] for k in np.flatnonzero(spread == 0)]
    if flat:
        more = f" and {len(flat) - 5} more" if len(flat) > 5 else ""
        raise InputError(
            f"{what}: constant columns {', '.join(map(repr, flat[:5]))}{more}",
            "leave them out: they say nothing",
        )


def _about_outcome(y: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    for k, name in enumerate(names):
        values = np.unique(y[:, k])
        if 2 < len(values) <= 10 and (values == values.round()).all():
            yield (
                f"Y column {name!r} has {len(values)} whole-number values and is taken as a "
                "quantity; if they are codes, pass it as text"
            )


# --- what Z fixes --------------------------------------------------------------------------------

SHARED = 0.9


def determined_by(
    values: Float[np.ndarray, "n d"], z: Float[np.ndarray, "n q"]
) -> tuple[Int[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Which column of Z each column is a function of, and how nearly one is.

    Told without a model, from one column of Z at a time: rows that agree on it agree on the value,
    and either the value rises (or falls) with it throughout, or nearly every row shares its value
    of it with another. A square of a whole-number age, a logarithm, a threshold are found; a sum
    of two columns is not, but a regression sees that one.

    Parameters
    ----------
    values : array, shape (n, d)
    z : array, shape (n, q)

    Returns
    -------
    column : array of int, shape (d,)
        -1 where there is none.
    share : array, shape (d,)
        One minus what differs between neighbours in the order of the best column of Z, as a share
        of the variance (Rice 1984): near one for any smooth function of it.

    Raises
    ------
    ValueError
        Lengths differ.

    Examples
    --------
    >>> age = np.random.default_rng(0).uniform(20, 60, (80, 1))
    >>> values = np.hstack([np.log(age), age > 40, np.sin(age)])
    >>> column, share = determined_by(values, age)
    >>> column.tolist(), (share > 0.8).tolist()
    ([0, 0, -1], [True, True, True])
    """
    n, d = values.shape
    column, share = np.full(d, -1), np.zeros(d)
    variance = values.var(axis=0)
    commonest = np.array([np.unique(v, return_counts=True)[1].max() for v in values.T])
    varied = n - commonest >= RARE  # a single case is in order by chance too often
    for k in range(z.shape[1] - 1, -1, -1):
        order = np.argsort(z[:, k], kind="stable")
        same = np.diff(z[order, k]) == 0
        step = np.diff(values[order], axis=0)
        agree = (step[same] == 0).all(axis=0)
        in_order = (step >= 0).all(axis=0) | (step <= 0).all(axis=0)
        column[varied & agree & (in_order | _mostly_shared(z[:, k]))] = k
        share = np.maximum(share, 1 - (step**2).mean(axis=0) / (2 * variance))
    return column, share


def _mostly_shared(values: np.ndarray) -> bool:
    """Whether most rows, those with the commonest value aside, share theirs with another."""
    counts = np.unique(values, return_counts=True)[1]
    others = np.delete(counts, counts.argmax())
    return bool(others[others > 1].sum() >= SHARED * others.sum()) and len(counts) > 1
