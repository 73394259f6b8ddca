"""Per-client numbers as servers have them: one row a client with its error, loss or accuracy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from practicum.data import table
from practicum.data.text import read_utf8
from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

RISK_COLUMNS = ("error", "loss", "accuracy")
SIZE_COLUMNS = ("n", "num_examples", "num-examples", "n_samples", "examples")
CLIENT_COLUMNS = ("client", "client_id", "cid", "node", "partition-id")
SHOWN = 10  # clients named in a message


@dataclass(frozen=True)
class ClientRisks:
    """One risk a client.

    Attributes
    ----------
    risks : float array, shape (K,)
        Error or loss; accuracies are turned into errors.
    n : int array, shape (K,), or None
        Samples behind each risk, where the file says so.
    clients : tuple of str
        Names, or row numbers from 1.
    column : str
        Where the risks were found.
    """

    risks: np.ndarray
    n: np.ndarray | None
    clients: tuple[str, ...]
    column: str

    @property
    def is_error_rate(self) -> bool:
        """Whether the column's name says that the risk is a share of wrong answers."""
        return self.column.lower() in ("error", "accuracy")


def find_column(frame: pd.DataFrame, wanted: tuple[str, ...]) -> str | None:
    """The first column with one of these names, in any case."""
    names = {str(c).strip().lower(): str(c) for c in frame.columns}
    return next((names[w] for w in wanted if w in names), None)


def read_risk_frame(path: str | Path) -> pd.DataFrame:
    """A table of risks as it stands: CSV, TSV, Parquet, JSON, JSON lines, NPY or NPZ.

    Parameters
    ----------
    path : str or Path
        ``.json`` holds a list of records or an object of columns; the rest as in
        :func:`practicum.data.table.read_table`, but cells may be empty.

    Raises
    ------
    InputError
        The file is missing, empty, damaged or of another kind.
    """
    path = Path(path)
    if path.suffix.lower() != ".json":
        return table.read_table(path, numeric=False, missing="keep")
    frame = _read_json(path)
    if not len(frame):
        raise InputError(f"{path} holds no rows", "expected a header and one row a client")
    return frame.set_axis([str(c).strip() for c in frame.columns], axis=1).reset_index(drop=True)


def _read_json(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return pd.DataFrame(json.loads(read_utf8(path)))
    except (json.JSONDecodeError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read as a table: {str(error).splitlines()[0]}",
            "expected a list of records, or an object that holds one list a column",
        ) from None


def read_risks(
    path: str | Path,
    *,
    column: str | None = None,
    n_column: str | None = None,
    client_column: str | None = None,
    percent: bool = False,
    unbounded: bool = False,
) -> ClientRisks:
    """Read one risk per client and check it.

    Parameters
    ----------
    path : str or Path
    column : str, optional
        By default the first of ``error``, ``loss``, ``accuracy``. An accuracy (any column whose
        name contains "acc") becomes one minus itself.
    n_column : str, optional
        Samples behind each risk; by default ``n`` or ``num_examples``, where there is one.
    client_column : str, optional
        By default ``client`` or ``client_id``, where there is one.
    percent : bool
        The numbers run from 0 to 100.
    unbounded : bool
        Losses above 1 are meant.

    Returns
    -------
    ClientRisks

    Raises
    ------
    InputError
        No such column; cells that are not numbers, missing, negative or above 1; a client that
        occurs twice. Clients are named.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "risks.csv"
    >>> _ = path.write_text("client,accuracy,n\\na,90,200\\nb,75,100\\n")
    >>> found = read_risks(path, percent=True)
    >>> found.risks.round(2).tolist(), found.n.tolist(), found.clients
    ([0.1, 0.25], [200, 100], ('a', 'b'))
    """
    frame = read_risk_frame(path)
    column = _pick(path, frame, column, RISK_COLUMNS)
    if column is None:
        raise InputError(
            f"{path} has no column {', '.join(RISK_COLUMNS[:-1])} or {RISK_COLUMNS[-1]}",
            f"name the one that holds the risks with --column; there are {', '.join(frame)}",
        )
    clients = _names(path, frame, _pick(path, frame, client_column, CLIENT_COLUMNS))
    risks = _numbers(path, frame, column, clients)
    if percent:
        risks = risks / 100
    _check_range(path, column, risks, clients, unbounded)
    n_name = _pick(path, frame, n_column, SIZE_COLUMNS)
    sizes = None
    if n_name is not None:
        sizes = _numbers(path, frame, n_name, clients)
        bad = (sizes < 1) | (sizes != np.rint(sizes))
        _refuse(path, n_name, bad, clients, "no whole number of samples", "1 or more expected")
        sizes = sizes.astype(np.int64)
    return ClientRisks(1 - risks if "acc" in column.lower() else risks, sizes, clients, column)


def _pick(
    path: str | Path, frame: pd.DataFrame, named: str | None, usual: tuple[str, ...]
) -> str | None:
    """The column the person named, which must be there, or the usual one."""
    if named is None:
        found = find_column(frame, usual)
        alone = usual is RISK_COLUMNS and frame.shape[1] == 1 and list(frame) == ["0"]
        return "0" if found is None and alone else found  # a bare vector
    if named not in frame:
        raise InputError(f"{path} has no column {named!r}", f"there are {', '.join(frame)}")
    return named


def _names(path: str | Path, frame: pd.DataFrame, column: str | None) -> tuple[str, ...]:
    if column is None:
        return tuple(str(i + 1) for i in range(len(frame)))
    names = frame[column].astype(str)
    twice = names[names.duplicated()].unique().tolist()
    if twice:
        raise InputError(
            f"{path}, column {column!r}: {len(twice)} clients occur more than once: "
            f"{', '.join(twice[:SHOWN])}",
            "one row a client expected: average its rounds or samples first",
        )
    return tuple(names)


def _numbers(
    path: str | Path, frame: pd.DataFrame, column: str, clients: tuple[str, ...]
) -> np.ndarray:
    import pandas as pd

    values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=float)
    _refuse(
        path,
        column,
        ~np.isfinite(values),
        clients,
        "no number",
        "leave these clients out only if that has nothing to do with how well they do",
    )
    return values


def _refuse(
    path: str | Path, column: str, bad: np.ndarray, clients: tuple[str, ...], what: str, hint: str
) -> None:
    if bad.any():
        who = ", ".join(clients[k] for k in np.flatnonzero(bad)[:SHOWN])
        more = f" and {int(bad.sum()) - SHOWN} more" if bad.sum() > SHOWN else ""
        raise InputError(f"{path}, column {column!r}: {what} for client {who}{more}", hint)


def _check_range(
    path: str | Path, column: str, risks: np.ndarray, clients: tuple[str, ...], unbounded: bool
) -> None:
    _refuse(path, column, risks < 0, clients, "a negative number", "0 to 1 expected")
    if unbounded or risks.max() <= 1:
        return
    above = (
        f"{path}, column {column!r}: values up to {risks.max():g}, as for client "
        f"{clients[int(risks.argmax())]}; 0 to 1 expected"
    )
    if "loss" in column.lower() and risks.max() < 20:
        raise InputError(
            above,
            "losses without an upper bound: --unbounded certifies their tail alone, since neither "
            "a mean nor its estimate from n samples has a finite limit; or clip and divide",
        )
    raise InputError(above, "if these are percentages, say --percent")


def read_curves(
    path: str | Path,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Robust-risk curves: a table with the columns ``client``, ``rho`` and ``value``.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    rhos : array, shape (R,), ascending
    values : array, shape (K, R)
    clients : tuple of str, in the order of the file

    Raises
    ------
    InputError
        A column is missing, a cell is no number, or a client lacks a rho or has it twice.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "curves.csv"
    >>> _ = path.write_text("client,rho,value\\na,0,0.1\\na,0.5,0.3\\nb,0,0.2\\nb,0.5,0.4\\n")
    >>> read_curves(path)
    (array([0. , 0.5]), array([[0.1, 0.3],
           [0.2, 0.4]]), ('a', 'b'))
    """
    frame = read_risk_frame(path)
    absent = [c for c in ("client", "rho", "value") if c not in frame]
    if absent:
        raise InputError(
            f"{path} has no column {', '.join(absent)}", f"there are {', '.join(frame)}"
        )
    names = tuple(frame["client"].astype(str))
    numbers = {c: _numbers(path, frame, c, names) for c in ("rho", "value")}
    clients = tuple(dict.fromkeys(names))
    rhos = np.unique(numbers["rho"])
    values = np.full((len(clients), len(rhos)), np.nan)
    row = {name: k for k, name in enumerate(clients)}
    for name, rho, value in zip(names, numbers["rho"], numbers["value"], strict=True):
        cell = row[name], int(np.searchsorted(rhos, rho))
        if np.isfinite(values[cell]):
            raise InputError(f"{path}: client {name} has rho = {rho:g} twice")
        values[cell] = value
    gaps = np.isnan(values).any(axis=1)
    _refuse(path, "rho", gaps, clients, "a rho is missing", f"all of {rhos.tolist()} expected")
    return rhos, values, clients
