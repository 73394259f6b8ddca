"""What can be wrong with data handed to a generation loop, in the user's words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

_SAME_DISTRIBUTION_P = 1e-3


def check_table(X: Any, name: str = "X_real") -> Float[np.ndarray, "n d"]:
    """Return a numeric table as a float array of two dimensions.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame, shape (n, d) or (n,)
        One item per row; one dimension is taken as one column.
    name : str
        How messages call the table.

    Returns
    -------
    array, shape (n, d)

    Raises
    ------
    InputError
        If X is not numeric, has no rows or columns, or holds NaN or infinite cells.

    Warns
    -----
    UserWarning
        If a column is constant.

    Examples
    --------
    >>> check_table([[1, 2], [3, 5]]).shape
    (2, 2)
    """
    columns = [str(c) for c in getattr(X, "columns", [])]
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        if columns and hasattr(X, "iloc"):  # pandas' own missing values are no floats
            X = X.to_numpy(dtype=float, na_value=np.nan)
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not numeric: {error}", "drop or encode text columns") from None
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"{name} has shape {table.shape}; expected rows and columns (n, d)")
    bad = ~np.isfinite(table)
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1))
        raise InputError(
            f"{name}: {rows.size} of {len(table)} rows hold NaN or infinite cells, "
            f"the first is row {rows[0] + 1}",
            "impute or drop them first",
        )
    constant = np.flatnonzero(np.ptp(table, axis=0) == 0)
    if constant.size and len(table) > 1:
        named = ", ".join(columns[j] if columns else f"column {j + 1}" for j in constant)
        warnings.warn(f"{name}: constant, zero variance: {named}", UserWarning, stacklevel=3)
    return table


def warn_overlap(train: np.ndarray | Sequence[str], test: np.ndarray | Sequence[str]) -> int:
    """Warn when test items also occur in the training data; return how many.

    Parameters
    ----------
    train, test : array (n, d) or list of str
        Items; equal means exactly equal.

    Examples
    --------
    >>> warn_overlap(["a", "b"], ["c"])
    0
    """
    known = {_identity(item) for item in train}
    shared = sum(_identity(item) in known for item in test)
    if shared:
        warnings.warn(
            f"{shared} of {len(test)} test items are exact copies of training items: "
            "the loss is optimistic (remove duplicates before splitting)",
            UserWarning,
            stacklevel=3,
        )
    return shared


def _identity(item: Any) -> Any:
    return item if isinstance(item, str) else np.asarray(item).tobytes()


def warn_different_distribution(
    train: Float[np.ndarray, "n d"], test: Float[np.ndarray, "m d"]
) -> float:
    """Warn when training and test rows do not look like draws from one distribution.

    A two-sample Kolmogorov-Smirnov test per column, Bonferroni-corrected; it warns below 1e-3.
    It catches, for example, cluster data whose centres were drawn anew for the test set, which
    turns every loss curve of the study into nonsense.

    Parameters
    ----------
    train : array, shape (n, d)
    test : array, shape (m, d)

    Returns
    -------
    float
        The corrected p-value.

    Examples
    --------
    >>> x = np.arange(20.0)[:, None]
    >>> warn_different_distribution(x, x + 0.5) > 0.5
    True
    """
    from scipy.stats import ks_2samp

    p_values = [ks_2samp(train[:, j], test[:, j]).pvalue for j in range(train.shape[1])]
    p = min(1.0, len(p_values) * float(np.min(p_values)))
    if p < _SAME_DISTRIBUTION_P:
        warnings.warn(
            f"X_test does not look like X_real (two-sample test on column "
            f"{int(np.argmin(p_values)) + 1}, p = {p:.1e}): draw both at once and split, "
            "otherwise the loss measures the difference between them",
            UserWarning,
            stacklevel=3,
        )
    return p
