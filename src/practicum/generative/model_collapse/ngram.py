"""A character n-gram language model that is "fine-tuned" on top of a base model.

Contexts are coded as one int64 number (base-V digits, V symbols: no collisions), and a fit is the
sorted array of the codes of all n-grams.  Counting a context is two binary searches; so is drawing
a next symbol, for hundreds of documents at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.generative.model_collapse.corpora import PRINTABLE
from practicum.generative.model_collapse.vocabulary import Vocabulary


class NGramLM:
    """Character n-gram model with Dirichlet back-off.

    For a context h of k-1 symbols and h' = h without its first symbol

        p_k(c | h) = (N(h c) + tau q(c | h)) / (N(h) + tau),

    where the prior q is p_{k-1}(c | h'), and at order 1 the uniform distribution.  With a ``base``
    model the prior at the highest order is the base model's p(c | h): the counts fine-tune it, and
    every fit starts from the same base.  MacKay and Peto (1995), *A hierarchical Dirichlet language
    model*.

    Parameters
    ----------
    order : int
        n: a symbol depends on the n-1 before it.
    base : NGramLM, optional
        A fitted model with the same vocabulary and order.
    tau : float
        Strength of the prior, in symbols.
    vocabulary : str, optional
        The symbols; the base's or printable ASCII by default.  Newline is always one of them,
        because a document starts in the context of newlines.
    document_length : int, optional
        Length of the documents written; by default the mean length of the training documents.

    Notes
    -----
    Items are documents (str).  The loss is the mean negative log-likelihood in nats per character.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = NGramLM(order=3).fit(["abracadabra " * 5], rng=rng)
    >>> len(model.sample(2, rng=rng)[0])
    60
    """

    loss_unit = "nats per character"
    accepts_text = True

    def __init__(
        self,
        order: int = 5,
        base: NGramLM | None = None,
        tau: float = 4.0,
        vocabulary: str | None = None,
        document_length: int | None = None,
    ) -> None:
        if vocabulary is None:
            vocabulary = base.vocabulary if base is not None else PRINTABLE
        self.order, self.base, self.tau = order, base, float(tau)
        self._symbols = Vocabulary(vocabulary)
        self.vocabulary = self._symbols.symbols
        self.document_length = document_length
        self._check()

    def _check(self) -> None:
        if self.order < 1 or not self.tau > 0:
            raise InputError(f"order={self.order}, tau={self.tau}: need order >= 1 and tau > 0")
        if self.order * np.log2(len(self.vocabulary)) > 63:
            raise InputError(
                f"order={self.order} with {len(self.vocabulary)} symbols does not fit 64 bits",
                f"use order <= {int(63 / np.log2(len(self.vocabulary)))}",
            )
        if self.base is not None:
            if (self.base.order, self.base.vocabulary) != (self.order, self.vocabulary):
                raise InputError("the base model has another order or vocabulary")
            if not hasattr(self.base, "_tables"):
                raise InputError("the base model is not fitted", "call base.fit(texts) first")

    def fresh(self) -> NGramLM:
        """An unfitted copy with the same base."""
        return NGramLM(self.order, self.base, self.tau, self.vocabulary, self.document_length)

    # ------------------------------------------------------------- fitting

    def fit(self, X: Sequence[str], *, rng: np.random.Generator | None = None) -> NGramLM:
        """Count the n-grams of documents.

        Parameters
        ----------
        X : list of str
        rng : ignored

        Raises
        ------
        InputError
            For no or empty documents, documents shorter than the order, or symbols outside the
            vocabulary (they are listed).

        Examples
        --------
        >>> NGramLM(order=2, vocabulary="ab").fit(["abab"]).loss(["abab"]) < 0.7
        True
        """
        codes = self._symbols.encode(X, self.order)
        size = len(self.vocabulary)
        self._tables = [_Table(np.sort(self._codes_of_order(codes, k)), size) for k in self._orders]
        self._mean_length = round(sum(map(len, X)) / len(X))
        self._memo: tuple[np.ndarray, np.ndarray] | None = None
        return self

    def extend(self, X_new: Sequence[str], *, rng: np.random.Generator | None = None) -> NGramLM:
        """Add documents to the counts; the same model as a fit to all documents.

        Examples
        --------
        >>> both = NGramLM(2, vocabulary="ab").fit(["abab", "bbbb"])
        >>> grown = NGramLM(2, vocabulary="ab").fit(["abab"]).extend(["bbbb"])
        >>> grown.loss(["ab"]) == both.loss(["ab"])
        True
        """
        codes = self._symbols.encode(X_new, self.order)
        self._tables = [
            table.with_grams(self._codes_of_order(codes, k))
            for k, table in zip(self._orders, self._tables, strict=True)
        ]
        self._memo = None
        return self

    @property
    def _orders(self) -> range:
        """Orders that are counted: only the highest when a base model supplies the prior."""
        return range(self.order if self.base is not None else 1, self.order + 1)

    def _codes_of_order(self, documents, k: int) -> Int[np.ndarray, " tokens"]:
        """Code of the last k symbols at every position; documents are padded with newlines."""
        return np.concatenate([self._windows(codes, k) for codes in documents])

    def _windows(self, codes, k: int) -> Int[np.ndarray, " length"]:
        padded = np.concatenate([np.full(k - 1, self._symbols.newline, dtype=np.int64), codes])
        out = np.zeros(len(codes), dtype=np.int64)
        for j in range(k):
            out *= len(self.vocabulary)
            out += padded[j : j + len(codes)]
        return out

    # ------------------------------------------------------------- likelihood

    def loss(self, X_test: Sequence[str]) -> float:
        """Mean negative log-likelihood of documents, in nats per character.

        Parameters
        ----------
        X_test : list of str

        Raises
        ------
        InputError
            As in :meth:`fit`.

        Examples
        --------
        >>> model = NGramLM(1, vocabulary="\\na", tau=1.0).fit(["a"])
        >>> round(model.loss(["a"]), 4)  # -log((1 + 1/2) / (1 + 1))
        0.2877
        """
        grams, times = np.unique(
            self._codes_of_order(self._symbols.encode(X_test, self.order), self.order),
            return_counts=True,
        )
        log_p = np.log(self.probability(grams))
        return float(-(times @ log_p) / times.sum())

    def probability(self, grams: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """p(last symbol | the others) of n-grams given as codes.

        Parameters
        ----------
        grams : int array, shape (m,)
            Base-V digits, the oldest symbol first.

        Returns
        -------
        array, shape (m,)

        Examples
        --------
        >>> model = NGramLM(1, vocabulary="\\na", tau=1.0).fit(["aa"])
        >>> model.probability(np.array([0, 1])).round(4).tolist()  # (1/2)/3, (2 + 1/2)/3
        [0.1667, 0.8333]
        """
        size = len(self.vocabulary)
        p = np.full(len(grams), 1 / size) if self.base is None else self.base._remembered(grams)
        for k, table in zip(self._orders, self._tables, strict=True):
            tail = grams % size**k
            _, total = table.occurrences(tail // size)
            p = (table.count(tail) + self.tau * p) / (total + self.tau)
        return p

    def _remembered(self, grams: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """``probability``, kept for the last n-grams: many fits are scored on one test set."""
        if self._memo is None or not np.array_equal(self._memo[0], grams):
            self._memo = grams, self.probability(grams)
        return self._memo[1]

    # ------------------------------------------------------------- sampling

    def sample(self, n: int, *, rng: np.random.Generator) -> list[str]:
        """Write n documents, all at once, one symbol per step.

        The predictive distribution is a mixture: with probability N(h)/(N(h)+tau) the symbol that
        followed a random occurrence of h, otherwise a draw from the prior.  So no distribution over
        the vocabulary is ever computed.

        Parameters
        ----------
        n : int
        rng : numpy.random.Generator

        Returns
        -------
        list of str

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> NGramLM(2, vocabulary="ab", tau=1e-9).fit(["abababab"]).sample(1, rng=rng)
        ['abababab']
        """
        length = self.document_length or self._mean_length
        size = len(self.vocabulary)
        keep = size ** (self.order - 1)
        pad = sum(self._symbols.newline * size**j for j in range(self.order - 1))
        context = np.full(n, pad, dtype=np.int64)
        written = np.empty((n, length), dtype=np.int64)
        for step in range(length):
            symbol = self._next(context, rng)
            written[:, step] = symbol
            context = (context * size + symbol) % keep
        return self._symbols.decode(written)

    def _next(self, context: Int[np.ndarray, " n"], rng) -> Int[np.ndarray, " n"]:
        size = len(self.vocabulary)
        symbol = np.empty(len(context), dtype=np.int64)
        open_ = np.arange(len(context))  # whose symbol is not decided yet
        for k, table in zip(reversed(self._orders), reversed(self._tables), strict=True):
            start, total = table.occurrences(context[open_] % size ** (k - 1))
            # One uniform number decides both whether to stop here and at which occurrence.
            place = (rng.random(len(open_)) * (total + self.tau)).astype(np.int64)
            stop = place < total
            symbol[open_[stop]] = table.grams[(start + place)[stop]] % size
            open_ = open_[~stop]
            if open_.size == 0:
                return symbol
        if self.base is not None:
            symbol[open_] = self.base._next(context[open_], rng)
        else:
            symbol[open_] = rng.integers(size, size=len(open_))
        return symbol


class _Table:
    """The n-grams of one order, sorted, and where each context's n-grams begin.

    Contexts are found in an array of their own, which is several times shorter: it stays in the
    cache, and sampling is little else than looking up contexts.
    """

    def __init__(self, grams: Int[np.ndarray, " tokens"], size: int) -> None:
        self.grams, self.size = grams, size
        context = grams // size
        begins = np.flatnonzero(np.diff(context, prepend=-1))
        self.contexts = context[begins]
        self.edges = np.append(begins, len(grams))

    def with_grams(self, new: Int[np.ndarray, " k"]) -> _Table:
        """A table that holds these n-grams as well."""
        merged = np.concatenate([self.grams, np.sort(new)])
        return _Table(np.sort(merged, kind="stable"), self.size)  # two runs to merge

    def occurrences(self, context: Int[np.ndarray, " m"]):
        """Where the n-grams of each context begin, and how many there are."""
        place = np.minimum(np.searchsorted(self.contexts, context), len(self.contexts) - 1)
        start = self.edges[place]
        total = (self.edges[place + 1] - start) * (self.contexts[place] == context)
        return start, total

    def count(self, grams: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """How often each n-gram occurs."""
        return np.searchsorted(self.grams, grams + 1) - np.searchsorted(self.grams, grams)
