"""Characters as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from practicum.errors import InputError


class Vocabulary:
    """A fixed set of symbols, numbered in order; newline is always one of them.

    Parameters
    ----------
    symbols : str

    Attributes
    ----------
    symbols : str
        Sorted, without repetition.
    newline : int
        The number of the newline, in which documents start.

    Examples
    --------
    >>> vocabulary = Vocabulary("ba")
    >>> vocabulary.decode(np.array([[1, 2, 1]]))
    ['aba']
    """

    def __init__(self, symbols: str) -> None:
        self.symbols = "".join(sorted(set(symbols) | {"\n"}))
        self.newline = self.symbols.index("\n")
        self._points = np.array([ord(c) for c in self.symbols])
        self._number_of = np.full(self._points.max() + 2, -1, dtype=np.int64)
        self._number_of[self._points] = np.arange(len(self._points))

    def encode(self, documents: Sequence[str], shortest: int) -> list[Int[np.ndarray, " length"]]:
        """Numbers of every document's symbols.

        Parameters
        ----------
        documents : list of str
        shortest : int
            Least length of a document.

        Raises
        ------
        InputError
            For one string, no documents, a document that is too short, or symbols that are not in
            the vocabulary (they are listed).

        Examples
        --------
        >>> Vocabulary("ab").encode(["ab"], shortest=1)[0].tolist()
        [1, 2]
        """
        if isinstance(documents, str):
            raise InputError("expected a list of documents, found one string", "pass [text]")
        if len(documents) == 0:
            raise InputError("there are no documents")
        for i, text in enumerate(documents, start=1):
            if len(text) < shortest:
                what = "is empty" if not text else f"has {len(text)} characters"
                raise InputError(
                    f"document {i} {what}; the model needs at least {shortest}",
                    "drop short documents, or use a smaller order",
                )
        out = self._number_of.size - 1  # any code point beyond the table is unknown
        coded = []
        for text in documents:
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            coded.append(self._number_of[np.minimum(points, out)])
        if any((c < 0).any() for c in coded):
            unseen = sorted(set("".join(documents)) - set(self.symbols))
            raise InputError(
                f"symbols outside the vocabulary: {' '.join(map(repr, unseen[:20]))}",
                "pass vocabulary=... with all symbols of the text, or remove them",
            )
        return coded

    def decode(self, numbers: Int[np.ndarray, "n length"]) -> list[str]:
        """Documents of rows of numbers.

        Examples
        --------
        >>> Vocabulary("ab").decode(np.array([[1], [2]]))
        ['a', 'b']
        """
        points = self._points[numbers].astype("<u4")
        return [row.tobytes().decode("utf-32-le", "surrogatepass") for row in points]
