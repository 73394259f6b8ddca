"""Real data that need no download: shapes, tables and text."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

#: Printable ASCII with newline and tab: what the packaged text is reduced to.
PRINTABLE = "".join(sorted(set(string.printable) - set("\r\x0b\x0c")))

Shape = Literal["moons", "circles", "swiss-roll", "blobs"] | str
Table = Literal["wine", "breast-cancer", "diabetes", "digits"] | str


def shape_data(
    name: Shape, n: int, n_test: int, *, rng: np.random.Generator, noise: float = 0.05
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Training and test points of one of scikit-learn's shapes.

    Both sets come from one draw.  Two separate draws of "blobs" would have different centres, and
    the loss would measure the distance between them.

    Parameters
    ----------
    name : {"moons", "circles", "swiss-roll", "blobs"}
        Swiss roll has 3 dimensions, the others 2.
    n, n_test : int
        Number of training and test points.
    rng : numpy.random.Generator
    noise : float
        Standard deviation of the noise (not used by blobs, whose clusters have unit variance).

    Returns
    -------
    X, X_test : arrays, shapes (n, d) and (n_test, d)

    Raises
    ------
    InputError
        For an unknown name or a size below 1.

    Examples
    --------
    >>> X, X_test = shape_data("moons", 100, 50, rng=np.random.default_rng(0))
    >>> X.shape, X_test.shape
    ((100, 2), (50, 2))
    """
    from sklearn import datasets

    if min(n, n_test) < 1:
        raise InputError(f"n={n}, n_test={n_test}: both must be at least 1")
    seed = int(rng.integers(2**31))
    total = n + n_test
    draw: dict[str, Callable] = {
        "moons": lambda: datasets.make_moons(total, noise=noise, random_state=seed),
        "circles": lambda: datasets.make_circles(total, noise=noise, random_state=seed),
        "swiss-roll": lambda: datasets.make_swiss_roll(total, noise=noise, random_state=seed),
        "blobs": lambda: datasets.make_blobs(total, random_state=seed),
    }
    if name not in draw:
        raise InputError(f"shape {name!r} is not known", "use one of " + ", ".join(draw))
    points = draw[name]()[0][rng.permutation(total)]
    return points[:n], points[n:]


def real_table(name: Table) -> Float[np.ndarray, "n d"]:
    """A real table from scikit-learn, columns standardised, constant columns left out.

    Parameters
    ----------
    name : {"wine", "breast-cancer", "diabetes", "digits"}

    Returns
    -------
    array, shape (n, d)
        Wine (178, 13), breast cancer (569, 30), diabetes (442, 10), digits (1797, 61).

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> real_table("wine").shape
    (178, 13)
    """
    from sklearn import datasets

    load = {
        "wine": datasets.load_wine,
        "breast-cancer": datasets.load_breast_cancer,
        "diabetes": datasets.load_diabetes,
        "digits": datasets.load_digits,
    }
    if name not in load:
        raise InputError(f"table {name!r} is not known", "use one of " + ", ".join(load))
    X = load[name]().data
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def python_topics() -> str:
    """The help texts of Python's own reference (``pydoc_data.topics``), about 460,000 characters.

    The "real" domain of the language study.  Characters outside :data:`PRINTABLE` are left out.

    Examples
    --------
    >>> len(python_topics()) > 400_000
    True
    """
    from pydoc_data.topics import topics

    return printable("\n\n".join(topics[name] for name in sorted(topics)))


def library_docstrings(characters: int = 800_000) -> str:
    """Docstrings of numpy and scipy: the corpus a base language model is trained on.

    Parameters
    ----------
    characters : int
        At most so many are returned.

    Returns
    -------
    str

    Raises
    ------
    InputError
        If characters < 1.

    Examples
    --------
    >>> len(library_docstrings(1000))
    1000
    """
    import importlib

    if characters < 1:
        raise InputError(f"characters={characters}: at least 1 is needed")
    modules = [
        "numpy",
        "numpy.linalg",
        "numpy.random",
        "numpy.fft",
        "numpy.polynomial",
        "scipy.linalg",
        "scipy.special",
        "scipy.optimize",
        "scipy.integrate",
        "scipy.interpolate",
        "scipy.spatial",
        "scipy.sparse",
        "scipy.signal",
        "scipy.stats",
    ]
    parts: list[str] = []
    seen: set[str] = set()
    length = 0
    for name in modules:
        module = importlib.import_module(name)
        for member in sorted(m for m in dir(module) if not m.startswith("_")):
            doc = inspect.getdoc(getattr(module, member, None)) or ""
            if doc in seen:
                continue
            seen.add(doc)
            parts.append(printable(doc))
            length += len(parts[-1]) + 2
            if length >= characters:
                return "\n\n".join(parts)[:characters]
    return "\n\n".join(parts)


def printable(text: str) -> str:
    """The text without characters outside :data:`PRINTABLE`.

    Examples
    --------
    >>> printable("na\\u00efve\\r\\n")
    'nave\\n'
    """
    allowed = frozenset(PRINTABLE)
    return "".join(c for c in text if c in allowed)


def split_documents(text: str, length: int = 1000) -> list[str]:
    """Cut a text into documents of equal length; the rest at the end is dropped.

    Parameters
    ----------
    text : str
    length : int
        Characters per document.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If the text is shorter than one document.

    Examples
    --------
    >>> split_documents("abcdefg", 3)
    ['abc', 'def']
    """
    if length < 1 or len(text) < length:
        raise InputError(
            f"the text has {len(text)} characters, one document needs {length}",
            "use a longer text or a smaller length",
        )
    return [text[i : i + length] for i in range(0, len(text) - length + 1, length)]
