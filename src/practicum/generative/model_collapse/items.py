"""Items of either kind, rows of numbers or documents, and the few things a pool must do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError, listed
from practicum.generative.model_collapse.checks import check_table

if TYPE_CHECKING:
    from practicum.generative.model_collapse.models import GenerativeModel

Items = Any  # an array of rows (n, d) or a list of documents


def check_items(X: Items, name: str = "X_real") -> Items:
    """Rows as a finite float array (n, d), documents as a list of non-empty strings.

    Raises
    ------
    InputError
        For one long string, no or empty documents, or a table that is not numeric and finite.

    Examples
    --------
    >>> check_items(("one", "two"))
    ['one', 'two']
    """
    if not is_text(X, name):
        return check_table(X, name)
    X = list(X)
    if any(not t for t in X):
        raise InputError(f"{name}: document {[not t for t in X].index(True) + 1} is empty")
    return X


def check_test(X_test: Items, X_real: Items) -> Items:
    """Held-out items as :func:`check_items` makes them, with the columns of the real ones.

    Raises
    ------
    InputError
        As in :func:`check_items`, and for other columns or another order of them.

    Examples
    --------
    >>> check_test([[1.0, 2.0]], np.zeros((3, 2))).shape
    (1, 2)
    """
    names, expected = (list(map(str, getattr(X, "columns", []))) for X in (X_test, X_real))
    if names and expected and names != expected:
        raise InputError(
            f"X_test has the columns {listed(names)}, X_real has {listed(expected)}",
            "give both the same columns in the same order",
        )
    X_test = check_items(X_test, "X_test")
    width, wanted = _columns(X_test), _columns(X_real)
    if width and wanted and width != wanted:
        raise InputError(f"X_test has {width} columns, X_real has {wanted}")
    return X_test


def _columns(X: Items) -> int:
    """How many; 0 for documents (an array of them is as wide as the longest), and for no table."""
    if is_text(X):
        return 0
    try:
        shape = np.shape(X)
    except ValueError:  # rows of different lengths: check_items says so
        return 0
    return shape[1] if len(shape) == 2 else 1


def check_seeds(seeds: Any) -> list[int]:
    """Seeds as whole numbers.

    Raises
    ------
    InputError
        For none, one number instead of several, or one seed twice: it would be counted twice.

    Examples
    --------
    >>> check_seeds(range(3))
    [0, 1, 2]
    """
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds={seeds} is one number", f"for {seeds} runs pass range({seeds})")
    found = [int(s) for s in seeds]
    if not found:
        raise InputError("no seeds were given", "pass for example seeds=range(10)")
    if len(set(found)) < len(found):
        raise InputError("a seed occurs twice, and would count as two runs", "leave one out")
    return found


def is_text(X: Items, name: str = "X_real") -> bool:
    """Whether X holds documents: a sequence, an array or a column of strings.

    Raises
    ------
    InputError
        If X is one string.

    Examples
    --------
    >>> is_text(["a document"]), is_text([[1.0]])
    (True, False)
    """
    if isinstance(X, str):
        raise InputError(
            f"{name} is one string; expected a list of documents", "cut it with split_documents"
        )
    if not isinstance(X, Sequence) and np.ndim(X) == 1 and hasattr(X, "tolist"):
        X = X.tolist()  # an array, or a column of a data frame
    return isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], str)


def check_kind(X: Items, model: GenerativeModel, name: str = "X_real") -> None:
    """Raise InputError when a model of text is given numbers, or the other way round.

    Examples
    --------
    >>> from practicum.generative.model_collapse import GaussianModel
    >>> check_kind(np.zeros((2, 1)), GaussianModel())
    """
    wants_text = getattr(model, "accepts_text", is_text(X))
    if is_text(X) != wants_text:
        found, expected = ("numbers", "text") if wants_text else ("text", "numbers")
        raise InputError(f"{name} holds {found}, {type(model).__name__} expects {expected}")


def items_per_generation(
    n: int | None,
    X_real: Items,
    X_test: Items,
    test_size: float,
    name: str = "n_per_generation",
) -> int:
    """Check n against the real items left for training; all of them when n is None.

    ``name`` is how messages call n.

    Raises
    ------
    InputError
        If fewer than n real items are left, naming both numbers.

    Examples
    --------
    >>> items_per_generation(None, [0] * 100, None, 0.25)
    75
    """
    if X_test is None and not 0 < test_size < 1:
        raise InputError(f"test_size={test_size}: must lie strictly between 0 and 1")
    held_out = 0 if X_test is not None else max(1, round(test_size * len(X_real)))
    available = len(X_real) - held_out
    n = available if n is None else int(n)
    if n < 1 or available < n:
        raise InputError(
            f"{name}={n}, but only {available} real items are left for training "
            f"({len(X_real)} in all, {held_out} held out)",
            f"use a smaller {name} or more real items",
        )
    return n


def split(
    X_real: Items, X_test: Items | None, n: int, test_size: float, seed: int
) -> tuple[Items, Items]:
    """A seed's n training items and its held-out items.

    Examples
    --------
    >>> train, test = split(list("abcd"), None, 3, 0.25, seed=0)
    >>> sorted(train + test)
    ['a', 'b', 'c', 'd']
    """
    order = stream(seed, 0).permutation(len(X_real))
    held_out = 0 if X_test is not None else max(1, round(test_size * len(X_real)))
    test = X_test if X_test is not None else take(X_real, order[:held_out])
    return take(X_real, order[held_out : held_out + n]), test


def sample_items(
    model: GenerativeModel, n: int, real: Items, t: int, seed: int, rng: np.random.Generator
) -> Items:
    """n items from a model, of the kind and width of the real items.

    Raises
    ------
    InputError
        For the wrong number, shape, kind or NaN, naming generation t and the seed.

    Examples
    --------
    >>> from practicum.generative.model_collapse import GaussianModel
    >>> rng, X = np.random.default_rng(0), np.array([[0.0], [1.0]])
    >>> sample_items(GaussianModel().fit(X), 3, X, 1, 0, rng).shape
    (3, 1)
    """
    items = model.sample(n, rng=rng)
    where = f"{type(model).__name__}.sample at generation {t}, seed {seed}"
    if isinstance(real, list):
        if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
            raise InputError(f"{where}: expected a list of non-empty documents")
        if len(items) != n:
            raise InputError(f"{where}: expected {n} documents, found {len(items)}")
        return items
    array = np.asarray(items)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{where}: expected numbers, found dtype {array.dtype}")
    if array.shape != (n, real.shape[1]):
        raise InputError(f"{where}: expected shape {(n, real.shape[1])}, found {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        raise InputError(f"{where}: {bad.any(axis=1).sum()} of {n} rows hold NaN or infinite cells")
    return array.astype(float, copy=False)


def stream(seed: int, purpose: int) -> np.random.Generator:
    """One of a seed's independent random generators.

    Examples
    --------
    >>> stream(0, 1).random() == stream(0, 1).random()
    True
    """
    return np.random.default_rng([seed, purpose])


def take(items: Items, index: np.ndarray) -> Items:
    """The items at the given places.

    Examples
    --------
    >>> take(["a", "b"], np.array([1, 1]))
    ['b', 'b']
    """
    return [items[i] for i in index] if isinstance(items, list) else items[index]


def concatenate(a: Items, b: Items) -> Items:
    """Two pools as one.

    Examples
    --------
    >>> concatenate(["a"], ["b"])
    ['a', 'b']
    """
    return a + b if isinstance(a, list) else np.concatenate([a, b])
