"""A small neural language model that is fine-tuned by gradient steps from a base model.

The n-gram model counts, so that twice the data weigh twice as much.  A network that makes one pass
over its training set is closer to how language models are fine-tuned: more data also mean more
steps away from the base.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.generative.model_collapse.corpora import PRINTABLE
from practicum.generative.model_collapse.vocabulary import Vocabulary

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's usual constants
_SCORED = 4096  # characters scored at a time


class NeuralLM:
    """Feed-forward character model of Bengio et al. (2003), trained with Adam.

    p(c | h) = softmax(W2 tanh(W1 [e(h_1), ..., e(h_k)] + b1) + b2), e the embedding of a symbol and
    h the last k symbols.  Every fit starts from the base's weights (or the same random ones) and
    makes ``epochs`` passes over the documents in random order.

    Parameters
    ----------
    base : NeuralLM, optional
        A fitted model whose sizes and weights are taken over.
    context : int
        k, in symbols.
    embedding, hidden : int
        Sizes of the layers.
    learning_rate : float
        Adam's step, constant.
    batch_size : int
        Characters per step.
    epochs : int
    vocabulary : str, optional
        The symbols; the base's or printable ASCII by default.  Newline is always one of them.
    document_length : int, optional
        Length of the documents written; by default the mean length of the training documents.

    Notes
    -----
    Y. Bengio, R. Ducharme, P. Vincent, C. Jauvin (2003), *A neural probabilistic language model*,
    JMLR 3.  The loss is the mean negative log-likelihood in nats per character.  float32.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = NeuralLM(context=2, hidden=8, epochs=60, vocabulary="ab", learning_rate=0.01)
    >>> model.fit(["abababab"] * 30, rng=rng).loss(["abab"]) < 0.4
    True
    """

    loss_unit = "nats per character"
    accepts_text = True

    def __init__(
        self,
        base: NeuralLM | None = None,
        context: int = 8,
        embedding: int = 16,
        hidden: int = 96,
        learning_rate: float = 4e-3,
        batch_size: int = 256,
        epochs: int = 1,
        vocabulary: str | None = None,
        document_length: int | None = None,
    ) -> None:
        if min(context, embedding, hidden, batch_size, epochs) < 1 or not learning_rate > 0:
            raise InputError("context, layers, batch_size, epochs and learning_rate: all positive")
        if base is not None:
            if not hasattr(base, "_weights"):
                raise InputError("the base model is not fitted", "call base.fit(texts) first")
            context, embedding, hidden = base.context, base.embedding, base.hidden
            vocabulary = base.vocabulary
        self.base, self.context, self.embedding, self.hidden = base, context, embedding, hidden
        self.learning_rate, self.batch_size, self.epochs = learning_rate, batch_size, epochs
        self.document_length = document_length
        self._symbols = Vocabulary(PRINTABLE if vocabulary is None else vocabulary)
        self.vocabulary = self._symbols.symbols

    def fresh(self) -> NeuralLM:
        """An unfitted copy with the same base."""
        return NeuralLM(
            self.base,
            self.context,
            self.embedding,
            self.hidden,
            self.learning_rate,
            self.batch_size,
            self.epochs,
            self.vocabulary,
            self.document_length,
        )

    def fit(self, X: Sequence[str], *, rng: np.random.Generator) -> NeuralLM:
        """Start from the base and make ``epochs`` passes over the documents.

        Parameters
        ----------
        X : list of str
        rng : numpy.random.Generator
            Orders the characters.

        Raises
        ------
        InputError
            For no or empty documents, or symbols outside the vocabulary (they are listed).

        Examples
        --------
        >>> model = NeuralLM(context=1, hidden=4, vocabulary="ab")
        >>> model.fit(["ab"], rng=np.random.default_rng(0)) is model
        True
        """
        contexts, targets = self._windows(X)
        self._weights = self._initial_weights()
        adam = _Adam(self._weights, self.learning_rate)
        for _ in range(self.epochs):
            order = rng.permutation(len(targets))
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                adam.step(self._gradients(contexts[rows], targets[rows])[1])
        self._mean_length = round(sum(map(len, X)) / len(X))
        return self

    def _initial_weights(self) -> dict[str, np.ndarray]:
        if self.base is not None:
            return {name: w.copy() for name, w in self.base._weights.items()}
        rng = np.random.default_rng(0)  # the same state before every fit
        size, width = len(self.vocabulary), self.context * self.embedding
        shapes = {"E": (size, self.embedding), "W1": (width, self.hidden), "b1": (self.hidden,)}
        shapes |= {"W2": (self.hidden, size), "b2": (size,)}
        scale = {"E": 0.3, "W1": width**-0.5, "W2": self.hidden**-0.5}
        return {
            name: (scale.get(name, 0.0) * rng.standard_normal(shape)).astype(np.float32)
            for name, shape in shapes.items()
        }

    def _windows(self, documents: Sequence[str]):
        """Contexts (characters, k) and next symbols (characters,); documents start in newlines."""
        coded = self._symbols.encode(documents, shortest=1)
        pad = np.full(self.context, self._symbols.newline, dtype=np.int64)
        contexts = [
            np.lib.stride_tricks.sliding_window_view(np.concatenate([pad, c]), self.context)[:-1]
            for c in coded
        ]
        return np.concatenate(contexts), np.concatenate(coded)

    def _log_probabilities(self, contexts: Int[np.ndarray, "b k"]):
        w = self._weights
        inputs = w["E"][contexts].reshape(len(contexts), -1)
        hidden = np.tanh(inputs @ w["W1"] + w["b1"])
        logits = hidden @ w["W2"] + w["b2"]
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits, hidden, inputs

    def _gradients(self, contexts: Int[np.ndarray, "b k"], targets: Int[np.ndarray, " b"]):
        """Mean loss of a batch and its derivative by every weight."""
        w, b = self._weights, len(targets)
        log_p, hidden, inputs = self._log_probabilities(contexts)
        loss = -float(log_p[np.arange(b), targets].mean())
        d_logits = np.exp(log_p)
        d_logits[np.arange(b), targets] -= 1
        d_logits /= b
        d_hidden = (d_logits @ w["W2"].T) * (1 - hidden**2)
        d_embedded = (d_hidden @ w["W1"].T).reshape(-1, self.embedding)
        # bincount adds up the rows of each symbol several times faster than np.add.at.
        cells = contexts.reshape(-1, 1) * self.embedding + np.arange(self.embedding)
        d_E = np.bincount(cells.ravel(), d_embedded.ravel(), minlength=w["E"].size)
        return loss, {
            "E": d_E.reshape(w["E"].shape).astype(np.float32),
            "W1": inputs.T @ d_hidden,
            "b1": d_hidden.sum(axis=0),
            "W2": hidden.T @ d_logits,
            "b2": d_logits.sum(axis=0),
        }

    def loss(self, X_test: Sequence[str]) -> float:
        """Mean negative log-likelihood of documents, in nats per character.

        Examples
        --------
        >>> model = NeuralLM(context=1, hidden=4, vocabulary="ab", learning_rate=1e-9)
        >>> model = model.fit(["ab"], rng=np.random.default_rng(0))
        >>> 0.5 < model.loss(["abba"]) < 2.0  # untrained: about log 3
        True
        """
        contexts, targets = self._windows(X_test)
        total = 0.0
        for start in range(0, len(targets), _SCORED):
            rows = slice(start, start + _SCORED)
            log_p = self._log_probabilities(contexts[rows])[0]
            total -= float(np.take_along_axis(log_p, targets[rows, None], axis=1).sum(dtype=float))
        return total / len(targets)

    def sample(self, n: int, *, rng: np.random.Generator) -> list[str]:
        """Write n documents at temperature 1, all at once, one symbol per step.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> model = NeuralLM(context=1, hidden=4, vocabulary="ab").fit(["ab"], rng=rng)
        >>> [len(t) for t in model.sample(3, rng=rng)]
        [2, 2, 2]
        """
        length = self.document_length or self._mean_length
        written = np.full((n, self.context + length), self._symbols.newline, dtype=np.int64)
        for step in range(length):
            log_p = self._log_probabilities(written[:, step : step + self.context])[0]
            edges = np.cumsum(np.exp(log_p, dtype=float), axis=1)
            place = rng.random((n, 1)) * edges[:, -1:]
            written[:, self.context + step] = np.argmax(edges > place, axis=1)
        return self._symbols.decode(written[:, self.context :])


class _Adam:
    """Adam (Kingma and Ba, 2015) on a dict of arrays, in place."""

    def __init__(self, weights: dict[str, Float[np.ndarray, "..."]], learning_rate: float) -> None:
        self.weights, self.learning_rate, self.steps = weights, np.float32(learning_rate), 0
        self.mean = {name: np.zeros_like(w) for name, w in weights.items()}
        self.square = {name: np.zeros_like(w) for name, w in weights.items()}

    def step(self, gradients: dict[str, Float[np.ndarray, "..."]]) -> None:
        self.steps += 1
        rate = self.learning_rate * np.float32(
            np.sqrt(1 - _BETA2**self.steps) / (1 - _BETA1**self.steps)
        )
        for name, g in gradients.items():
            mean, square = self.mean[name], self.square[name]
            mean += (1 - _BETA1) * (g - mean)
            square += (1 - _BETA2) * (g * g - square)
            self.weights[name] -= rate * mean / (np.sqrt(square) + _EPSILON)
