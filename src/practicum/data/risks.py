"""Per-client numbers as servers have them: one row a client with its error, loss or accuracy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from practicum.data import table
from practicum.data.text import parse_json, read_utf8
from practicum.errors import InputError, listed, plain, reason_of, shown

if TYPE_CHECKING:
    import pandas as pd

RISK_COLUMNS = ("error", "loss", "accuracy")
SIZE_COLUMNS = ("n", "num_examples", "num-examples", "n_samples", "examples")
CLIENT_COLUMNS = ("client", "client_id", "cid", "node", "partition-id")
SHOWN = 10  # clients named in a message
LOSSES_BELOW = 20  # a loss column with larger numbers holds percentages
MOST_SAMPLES = 2**53  # whole numbers beyond are no longer exact

ACCURACY_WORDS = {"accuracy", "acc"}
RISK_WORDS = {"error", "errors", "loss", "losses", "risk", "risks", "misclassification"}
SCORE_WORDS = {"auc", "auroc", "auprc", "f1", "precision", "recall", "sensitivity", "specificity"}


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class ClientRisks:
    """One risk a client.

    Attributes
    ----------
    risks : float array, shape (K,)
        Error or loss; accuracies are turned into errors.
    n : int array, shape (K,), or None
        Samples behind each risk, where the file says so.
    clients : tuple of str
        Names; rows without one are ``line 2`` or ``row 1``, as their owner counts.
    column : str
        Where the risks were found.
    n_column : str, optional
        Where the samples were found.
    inverted : bool
        The column holds accuracies.
    passed_over : tuple of str
        Other columns that the risks would have been read from by default.
    named : bool
        The file names its clients.
    """

    risks: np.ndarray
    n: np.ndarray | None
    clients: tuple[str, ...]
    column: str
    n_column: str | None = None
    inverted: bool = False
    passed_over: tuple[str, ...] = ()
    named: bool = True

    @property
    def is_error_rate(self) -> bool:
        """Whether the column's name says that the risk is a share of wrong answers."""
        return self.column.lower() in ("error", "accuracy")

    @property
    def labels(self) -> list[str]:
        """What messages call each client."""
        return _labels(self.clients, self.named)


def _labels(clients: tuple[str, ...], named: bool) -> list[str]:
    return [f"client {plain(name)}" if named else name for name in clients]


def words_of(column: str) -> set[str]:
    """The words in a column's name: ``Test_Accuracy (%)`` holds test and accuracy.

    Examples
    --------
    >>> sorted(words_of("Test_Accuracy (%)")), sorted(words_of("accidentRate"))
    (['accuracy', 'test'], ['accident', 'rate'])
    """
    apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", column)
    return set(re.findall("[a-z]+[0-9]*", apart.lower()))


def risk_like_columns(frame: pd.DataFrame) -> list[str]:
    """Columns whose names speak of errors, losses or accuracies."""
    return [str(c) for c in frame if words_of(str(c)) & (RISK_WORDS | ACCURACY_WORDS)]


def _holds_accuracies(path: str | Path, column: str) -> bool:
    """Whether the column's name says that more is better, in a way that can be inverted."""
    words = words_of(column)
    if words & RISK_WORDS:
        if words & ACCURACY_WORDS:
            raise InputError(
                f"{path}, column {column!r}: accuracies, or errors?",
                "rename it: a column named accuracy is turned into 1 - accuracy, one named error "
                "is taken as it is",
            )
        return False
    score = sorted(words & SCORE_WORDS)
    if score:
        raise InputError(
            f"{path}, column {column!r}: more is better, and it is no mean over samples",
            f"errors or bounded losses expected; for the tail of 1 - {column.split()[0]}, write it "
            "into a column of its own, without sample sizes",
        )
    return bool(words & ACCURACY_WORDS)


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
        return pd.DataFrame(parse_json(read_utf8(path)))
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read as a table: {reason_of(error)}",
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
        By default the first of ``error``, ``loss``, ``accuracy``. An accuracy (a column whose
        name holds the word "accuracy" or "acc") becomes one minus itself.
    n_column : str, optional
        Samples behind each risk; by default ``n`` or ``num_examples``, where there is one.
    client_column : str, optional
        By default ``client`` or ``client_id``, where there is one; else rows go by their line.
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
        No such column, or a score that is no mean (AUC); cells that are not numbers, missing,
        negative or above 1; with ``percent``, none above 1; a client that occurs twice. Clients
        are named.

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
    asked = column
    column = _pick(path, frame, column, RISK_COLUMNS)
    if column is None:
        likely = risk_like_columns(frame)
        raise InputError(
            f"{path} has no column {', '.join(RISK_COLUMNS[:-1])} or {RISK_COLUMNS[-1]}",
            f"name the one that holds the risks with --column{' (perhaps ' * bool(likely)}"
            f"{listed(map(shown, likely))}{')' * bool(likely)}; there are {listed(frame)}",
        )
    inverted = _holds_accuracies(path, column)
    name_column = _pick(path, frame, client_column, CLIENT_COLUMNS)
    clients = _names(path, frame, name_column)
    labels = _labels(clients, name_column is not None)
    risks = _numbers(path, frame, column, labels)
    if percent:
        _check_percentages(path, column, risks)
        risks = risks / 100
    _check_range(path, column, risks, labels, unbounded)
    n_name = _pick(path, frame, n_column, SIZE_COLUMNS)
    return ClientRisks(
        1 - risks if inverted else risks,
        None if n_name is None else _sizes(path, frame, n_name, labels),
        clients,
        column,
        n_name,
        inverted,
        () if asked else _other_risks(frame, column),
        name_column is not None,
    )


def _other_risks(frame: pd.DataFrame, column: str) -> tuple[str, ...]:
    return tuple(c for c in map(str, frame) if c.lower() in RISK_COLUMNS and c != column)


def _sizes(path: str | Path, frame: pd.DataFrame, column: str, labels: list[str]) -> np.ndarray:
    hint = f"whole numbers of samples expected, 1 or more and at most {MOST_SAMPLES:.0g}"
    sizes = _numbers(path, frame, column, labels, hint)
    bad = (sizes < 1) | (sizes != np.rint(sizes)) | (sizes > MOST_SAMPLES)
    found = f" (found {sizes[bad][0]:g})" if bad.any() else ""
    _refuse(path, column, bad, labels, "no whole number of samples", hint, found)
    return sizes.astype(np.int64)


def _pick(
    path: str | Path, frame: pd.DataFrame, named: str | None, usual: tuple[str, ...]
) -> str | None:
    """The column the person named, which must be there, or the usual one."""
    if named is None:
        found = find_column(frame, usual)
        alone = usual is RISK_COLUMNS and frame.shape[1] == 1 and list(frame) == ["0"]
        return "0" if found is None and alone else found  # a bare vector
    if named not in frame:
        raise InputError(f"{path} has no column {named!r}", f"there are {listed(frame)}")
    return named


def _names(path: str | Path, frame: pd.DataFrame, column: str | None) -> tuple[str, ...]:
    if column is None:
        return _row_names(Path(path), len(frame))
    names = frame[column].astype(str)
    twice = names[names.duplicated()].unique().tolist()
    if twice:
        who = "1 client occurs" if len(twice) == 1 else f"{len(twice)} clients occur"
        raise InputError(
            f"{path}, column {column!r}: {who} more than once: "
            f"{', '.join(map(plain, twice[:SHOWN]))}",
            "one row a client expected: average its rounds or samples first",
        )
    return tuple(names)


def _row_names(path: Path, n_rows: int) -> tuple[str, ...]:
    """``line 2`` in text files, as an editor counts; ``row 1`` elsewhere."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
        lines = read_utf8(path).split("\n")
        numbers = [i for i, line in enumerate(lines, start=1) if line.strip()]
        numbers = numbers if "json" in suffix else numbers[1:]  # below the header
        if len(numbers) == n_rows:  # else quoted cells hold line breaks
            return tuple(f"line {i}" for i in numbers)
    return tuple(f"row {i + 1}" for i in range(n_rows))


def _numbers(
    path: str | Path,
    frame: pd.DataFrame,
    column: str,
    labels: list[str],
    hint: str = "leave these clients out only if that has nothing to do with how well they do",
) -> np.ndarray:
    import pandas as pd

    values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=float)
    bad = ~np.isfinite(values)
    cells = frame[column][bad].tolist()
    if any("%" in str(cell) for cell in cells):
        hint = "remove the % signs, and say --percent"
        if not bad.all():  # without the sign, 12.5 would be divided like the fractions beside it
            hint = "one unit for all: write 12.5% as 0.125, or all in percent and say --percent"
    # of three kinds at most; a cell of JSON or Parquet may be a list, which has no hash
    found = dict.fromkeys("an empty cell" if _is_empty(c) else shown(c) for c in cells)
    said = f" (found {', '.join(list(found)[:3])})"
    _refuse(path, column, bad, labels, "no number", hint, said)
    return values


def _is_empty(cell: object) -> bool:
    import pandas as pd

    return pd.api.types.is_scalar(cell) and bool(pd.isna(cell))


def _refuse(
    path: str | Path,
    column: str,
    bad: np.ndarray,
    labels: list[str],
    what: str,
    hint: str,
    found: str = "",
) -> None:
    if bad.any():
        who = ", ".join(labels[k] for k in np.flatnonzero(bad)[:SHOWN])
        more = f" and {int(bad.sum()) - SHOWN} more" if bad.sum() > SHOWN else ""
        raise InputError(f"{path}, column {column!r}: {what} for {who}{more}{found}", hint)


def _check_percentages(path: str | Path, column: str, values: np.ndarray) -> None:
    """Fractions divided by 100 would make a certificate that is false."""
    if values.max() <= 1:
        raise InputError(
            f"{path}, column {column!r}: no value above 1 (the largest is {values.max():g}), so "
            "these are no percentages",
            "leave --percent out (compare: -o percent=true); if all of them are below 1 %, divide "
            "them by 100 yourself",
        )
    if words_of(column) & {"loss", "losses"} and values.max() < LOSSES_BELOW:
        raise InputError(
            f"{path}, column {column!r}: losses up to {values.max():g} look like cross-entropies, "
            "which are no percentages",
            "--unbounded certifies their tail alone; percentages of errors belong into a column "
            "named error",
        )


def _check_range(
    path: str | Path, column: str, risks: np.ndarray, labels: list[str], unbounded: bool
) -> None:
    _refuse(path, column, risks < 0, labels, "a negative number", "0 to 1 expected")
    if unbounded or risks.max() <= 1:
        return
    above = (
        f"{path}, column {column!r}: values up to {risks.max():g}, as for "
        f"{labels[int(risks.argmax())]}; 0 to 1 expected"
    )
    if "loss" in column.lower() and risks.max() < LOSSES_BELOW:
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
        raise InputError(f"{path} has no column {', '.join(absent)}", f"there are {listed(frame)}")
    names = tuple(frame["client"].astype(str))
    numbers = {c: _numbers(path, frame, c, _labels(names, True)) for c in ("rho", "value")}
    clients = tuple(dict.fromkeys(names))
    rhos = np.unique(numbers["rho"])
    values = np.full((len(clients), len(rhos)), np.nan)
    row = {name: k for k, name in enumerate(clients)}
    for name, rho, value in zip(names, numbers["rho"], numbers["value"], strict=True):
        cell = row[name], int(np.searchsorted(rhos, rho))
        if np.isfinite(values[cell]):
            raise InputError(f"{path}: client {plain(name)} has rho = {rho:g} twice")
        values[cell] = value
    gaps = np.isnan(values).any(axis=1)
    hint = f"all of {rhos.tolist()} expected"
    _refuse(path, "rho", gaps, _labels(clients, True), "a rho is missing", hint)
    return rhos, values, clients
