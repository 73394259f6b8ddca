"""A person's file as items: standardised rows of a table, or documents of a text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from practicum.data.sniff import sniff
from practicum.data.table import read_table
from practicum.data.text import read_text
from practicum.errors import InputError
from practicum.generative.model_collapse.corpora import split_documents
from practicum.generative.model_collapse.kde import KDEModel, rule_bandwidth
from practicum.generative.model_collapse.models import GaussianModel, GenerativeModel, SklearnModel
from practicum.generative.model_collapse.ngram import NGramLM

MODELS = ("auto", "kde", "gaussian", "mixture", "ngram")

_MIN_ITEMS = 8  # six to train on and two to test on
_DOCUMENT = 1000  # characters


def load_items(
    path: str | Path,
    columns: Sequence[str] | None = None,
    field: str = "text",
    max_items: int | None = None,
) -> Any:
    """Read a file as items that a generation run can use.

    Parameters
    ----------
    path : str or Path
        A table (rows of its numeric columns, standardised to mean 0 and variance 1, constant
        columns left out), UTF-8 text (cut into documents of 1,000 characters, shorter ones if the
        text is short) or JSON lines with a text field (one document each).
    columns : sequence of str, optional
        Columns of a table; all numeric ones by default.
    field : str
        Field of JSON lines that holds the text.
    max_items : int, optional
        Use at most so many items, drawn at random; 1,000 rows or 200 documents by default.

    Returns
    -------
    array (n, d) or list of str

    Raises
    ------
    InputError
        If the file cannot be read, or holds fewer than 8 items.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("x,y\\n" + "".join(f"{i},{i * i}\\n" for i in range(10)))
    >>> load_items(path).shape
    (10, 2)
    """
    path = Path(path)
    is_text = columns is None and sniff(path).kinds[0] == "text"
    items = _documents(path, field) if is_text else _rows(path, columns)
    if len(items) < _MIN_ITEMS:
        what = "documents" if is_text else "rows"
        raise InputError(
            f"{path} holds {len(items)} {what}; at least {_MIN_ITEMS} are needed to train and test"
        )
    limit = max_items or (200 if is_text else 1000)
    if len(items) <= limit:
        return items
    keep = np.sort(np.random.default_rng(0).choice(len(items), limit, replace=False))
    return [items[i] for i in keep] if is_text else items[keep]


def _documents(path: Path, field: str) -> list[str]:
    documents = read_text(path, field)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return documents
    text = documents[0]
    length = min(_DOCUMENT, len(text) // 20)
    if length < 20:
        raise InputError(f"{path} has {len(text)} characters; at least 400 are needed")
    return split_documents(text, length)


def _rows(path: Path, columns: Sequence[str] | None) -> np.ndarray:
    frame = read_table(path, columns)
    X = frame.to_numpy(dtype=float)
    varies = np.ptp(X, axis=0) > 0
    if not varies.any():
        raise InputError(f"{path}: every numeric column is constant over {len(X)} rows")
    if not varies.all():
        left_out = ", ".join(frame.columns[~varies])
        warnings.warn(f"{path}: constant columns left out: {left_out}", UserWarning, stacklevel=3)
    X = X[:, varies]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def model_for(
    items: Any, name: str = "auto", bandwidth: float | None = None, source: str = "the data"
) -> GenerativeModel:
    """The model of a name, fitting the kind of items.

    Parameters
    ----------
    items : array (n, d) or list of str
    name : str
        ``"kde"``, ``"gaussian"``, ``"mixture"`` (five Gaussians), ``"ngram"``, or ``"auto"``: a
        KDE for rows, an n-gram model for documents.
    bandwidth : float, optional
        Of the KDE; Scott's rule on the real items by default, and fixed over the generations.
    source : str
        How messages call the data.

    Returns
    -------
    GenerativeModel

    Raises
    ------
    InputError
        For an unknown name, a model of the other kind of items, a bandwidth for another model than
        the KDE, or a Gaussian in as many dimensions as there are training items.

    Examples
    --------
    >>> model_for(np.random.default_rng(0).normal(size=(20, 2)), "kde", bandwidth=0.3).bandwidth
    0.3
    """
    is_text = isinstance(items, list)
    if name not in MODELS:
        raise InputError(f"model {name!r} is not known", "use one of " + ", ".join(MODELS))
    if name == "auto":
        name = "ngram" if is_text else "kde"
    if is_text != (name == "ngram"):
        found, fitting = ("text", "ngram") if is_text else ("a table", "kde, gaussian or mixture")
        raise InputError(f"{source} is {found}, which model={name} cannot read", f"use {fitting}")
    if bandwidth is not None and name != "kde":
        raise InputError(
            f"bandwidth={bandwidth:g} is for a KDE, the model is {name}", "leave it out"
        )
    if name == "ngram":
        return NGramLM(vocabulary="".join(sorted(set("".join(items)))))
    n, d = items.shape
    if name == "gaussian" and d >= 0.75 * n:
        raise InputError(
            f"{source}: {d} columns and {n} rows (a quarter held out) give a singular covariance",
            "choose columns, or model=kde",
        )
    if name == "gaussian":
        return GaussianModel()
    if name == "mixture":
        from sklearn.mixture import GaussianMixture

        return SklearnModel(GaussianMixture(min(5, n // 4), reg_covar=1e-4))
    return KDEModel(rule_bandwidth(items, "scott") if bandwidth is None else bandwidth)
