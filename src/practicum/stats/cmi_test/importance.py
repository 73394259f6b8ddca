"""Many candidates at once: one test each, p-values adjusted for their number."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from practicum.errors import InputError
from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest


def conditional_mean_importance(
    frame: pd.DataFrame,
    response: Hashable | Sequence[Hashable],
    candidates: Mapping[str, Sequence[Hashable]] | Hashable | Sequence[Hashable],
    given: Hashable | Sequence[Hashable] | None = None,
    adjust: Literal["holm", "none"] = "holm",
    **options: Any,
) -> pd.DataFrame:
    """One test for each candidate, p-values adjusted for their number.

    Parameters
    ----------
    frame : DataFrame
    response : label or sequence of labels
        Column(s) of Y.
    candidates : mapping of str to columns, or sequence of columns
        Groups of columns tested together, by name; or single columns.
    given : label or sequence of labels, optional
        Columns of Z; without it each candidate is tested given all other columns, the other
        candidates among them.
    adjust : {"holm", "none"}
    **options
        Parameters of :class:`ConditionalMeanTest`; ``n_boot`` grows with the candidates by
        default, so that an adjusted p-value can still be small.

    Returns
    -------
    DataFrame
        A row for each candidate: ``p``, ``p_adjusted``, ``effect`` (partial R²), ``size_check``,
        ``statistic``, ``n``, ``conclusive``, ``notes``. A candidate that the others fix has p = 1
        and does not count among the tests.

    Raises
    ------
    InputError
        A column is not there; else as :meth:`ConditionalMeanTest.fit`, the candidate named.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> frame = load_diabetes(as_frame=True).frame
    >>> table = conditional_mean_importance(frame, "target", ["bmi", "s3"], random_state=0)
    >>> bool(table.loc["bmi", "p_adjusted"] < 0.05 < table.loc["s3", "p_adjusted"])
    True
    """
    y = _as_names(response)
    single = {name: [name] for name in _as_names(candidates)}
    groups = single if not isinstance(candidates, Mapping) else candidates
    groups = {name: _as_names(columns) for name, columns in groups.items()}
    for role, names in (
        ("response", y),
        *groups.items(),
        ("given", _as_names(() if given is None else given)),
    ):
        absent = [name for name in names if name not in frame.columns]
        if absent:
            known = ", ".join(map(str, frame.columns[:12]))
            raise InputError(f"{role}: no column {absent[0]!r}", f"columns: {known}")
    if adjust not in ("holm", "none"):
        raise InputError(f"adjust={adjust!r}", "adjust is 'holm' or 'none'")
    for name, columns in groups.items():
        for role, names in (("response", y), ("given", _as_names(() if given is None else given))):
            both = [c for c in columns if c in names]
            if both:
                raise InputError(f"candidate {name}: {both[0]!r} is {role} too", "name it once")
    options.setdefault("n_boot", null_draws(len(groups)))
    rows = {}
    for name, columns in groups.items():
        z = [c for c in frame.columns if c not in (*y, *columns)]
        z = z if given is None else _as_names(given)
        test = ConditionalMeanTest(**options)
        try:
            test.fit(frame[columns], frame[y], frame[z])
        except InputError as error:
            raise InputError(f"candidate {name}: {error.message}", error.hint) from error
        r = test.result_
        rows[name] = {
            "p": r.pvalue,
            "effect": test.effect(),
            "size_check": r.size_check,
            "statistic": r.statistic,
            "n": r.n,
            "conclusive": r.conclusive,
            "nothing_left": bool(r.nothing_left),
            "notes": "; ".join(r.notes),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("candidate")
    tested = table["p"].mask(table.pop("nothing_left").astype(bool)).to_numpy()
    adjusted = table["p"] if adjust == "none" else np.nan_to_num(holm_adjust(tested), nan=1.0)
    table.insert(1, "p_adjusted", adjusted)
    return table


def _as_names(names: Any) -> list[Any]:
    """One label, as it is, or several: columns of a data frame may be numbers."""
    single = isinstance(names, str) or not isinstance(names, Iterable)
    return [names] if single else list(names)


def null_draws(candidates: int) -> int:
    """Draws of the null for each of so many tests: adjusted, p can still fall to 0.01.

    Parameters
    ----------
    candidates : int

    Raises
    ------
    InputError
        There is no candidate.

    Examples
    --------
    >>> null_draws(3), null_draws(40)
    (999, 3999)
    """
    if candidates < 1:
        raise InputError("there is no candidate to test")
    return max(999, 100 * candidates - 1)


def holm_adjust(p: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Holm's step-down p-values; nan stays nan and does not count.

    Parameters
    ----------
    p : array, shape (m,)

    Raises
    ------
    InputError
        A value is outside [0, 1].

    Examples
    --------
    >>> holm_adjust(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    if ((p < 0) | (p > 1)).any():
        raise InputError("a p-value is outside [0, 1]")
    order = np.argsort(p, kind="stable")
    tests = int((~np.isnan(p)).sum())
    adjusted = np.full(len(p), np.nan)
    running = 0.0
    for rank, i in enumerate(order[:tests]):
        running = max(running, min(1.0, (tests - rank) * p[i]))
        adjusted[i] = running
    return adjusted
