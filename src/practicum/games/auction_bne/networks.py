"""Many small bid networks, stacked: one array a layer, forward and backward written out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError

ACTIVATIONS = ("abs", "relu", "exp")
FIRST, SECOND = 0.9, 0.99  # Adam's averages


class BidNetworks:
    """Members x (1 - hidden - 1) ReLU networks with a non-negative output.

    The published network is 1-32-32-1 with ``|.|`` on the output and PyTorch's default
    initialisation: weights and biases uniform on +-1/sqrt(inputs).

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each member: a member's weights depend on its own generator alone.
    hidden : sequence of int
    activation : {"abs", "relu", "exp"}
        Of the output.

    Attributes
    ----------
    weights, biases : lists of arrays, shapes (members, inputs, outputs) and (members, 1, outputs)

    Raises
    ------
    InputError
        Unknown activation, or a hidden layer without units.

    Examples
    --------
    >>> nets = BidNetworks([np.random.default_rng(s) for s in (0, 1, 2)])
    >>> nets.forward(np.linspace(0, 1, 5)[None, :].repeat(3, 0)).shape
    (3, 5)
    """

    def __init__(
        self,
        rngs: Sequence[np.random.Generator],
        hidden: Sequence[int] = (32, 32),
        activation: str = "abs",
    ) -> None:
        if activation not in ACTIVATIONS:
            raise InputError(f"activation {activation!r}: use {', '.join(ACTIVATIONS)}")
        if not hidden or any(int(h) != h or h < 1 for h in hidden):
            raise InputError(f"hidden is {tuple(hidden)}; layers of at least one unit expected")
        self.activation = activation
        sizes = [1, *map(int, hidden), 1]
        self._moments: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = 0
        self.weights: list[np.ndarray] = []
        self.biases: list[np.ndarray] = []
        for fan_in, fan_out in pairwise(sizes):
            bound = 1 / np.sqrt(fan_in)
            self.weights.append(
                np.stack([r.uniform(-bound, bound, (fan_in, fan_out)) for r in rngs])
            )
            self.biases.append(np.stack([r.uniform(-bound, bound, (1, fan_out)) for r in rngs]))

    def __len__(self) -> int:
        return len(self.weights[0])

    def pick(self, members: Sequence[int]) -> BidNetworks:
        """Some of the members, as networks of their own."""
        return self._with([self], list(members))

    @staticmethod
    def join(parts: Sequence[BidNetworks]) -> BidNetworks:
        """The members of several stacks of one architecture, in one stack."""
        return parts[0]._with(parts, slice(None))

    def _with(self, parts: Sequence[BidNetworks], members: list[int] | slice) -> BidNetworks:
        made = object.__new__(BidNetworks)
        made.activation, made._moments, made._count = self.activation, [], 0
        made.weights, made.biases = (
            [np.concatenate([getattr(p, name)[k] for p in parts])[members] for k in range(depth)]
            for name, depth in (("weights", len(self.weights)), ("biases", len(self.biases)))
        )
        return made

    def forward(self, v: Float[np.ndarray, "members m"]) -> Float[np.ndarray, "members m"]:
        """Bids at values in [0, 1]; what :meth:`step` needs is kept."""
        a = v[:, :, None]
        self._inputs = [a]
        # one input: an outer product, which broadcasting does without a matrix product
        a = np.maximum(a * self.weights[0] + self.biases[0], 0.0)
        for W, c in zip(self.weights[1:-1], self.biases[1:-1], strict=True):
            self._inputs.append(a)
            a = a @ W
            a += c
            np.maximum(a, 0.0, out=a)
        self._inputs.append(a)
        self._raw = (a @ self.weights[-1] + self.biases[-1])[:, :, 0]
        return self._activate(self._raw)

    def step(
        self, direction: Float[np.ndarray, "members m"], lr: Float[np.ndarray, " members"]
    ) -> None:
        """One step of gradient descent on sum(direction * bids), from the last forward pass."""
        rate = lr[:, None, None]
        for parameter, gradient in self._gradients(direction):
            parameter -= rate * gradient

    def adam_step(
        self, direction: Float[np.ndarray, "members m"], lr: Float[np.ndarray, " members"]
    ) -> None:
        """The same by Adam (Kingma and Ba 2015), beta = (0.9, 0.99)."""
        if not self._moments:
            self._moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self._parameters()]
        self._count += 1
        rate = lr[:, None, None] / (1 - FIRST**self._count)
        correct = 1 - SECOND**self._count
        for (parameter, gradient), (m, s) in zip(
            self._gradients(direction), self._moments, strict=True
        ):
            m += (1 - FIRST) * (gradient - m)
            s += (1 - SECOND) * (gradient**2 - s)
            parameter -= rate * m / (np.sqrt(s / correct) + 1e-8)

    def _parameters(self) -> list[np.ndarray]:
        """Weights and biases from the last layer to the first, as gradients are computed."""
        pairs = zip(reversed(self.weights), reversed(self.biases), strict=True)
        return [p for pair in pairs for p in pair]

    def _gradients(self, direction: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        delta = (direction * self._slope(self._raw))[:, :, None]
        gradients = []
        for layer in range(len(self.weights) - 1, -1, -1):
            a = self._inputs[layer]
            gradients += [a.transpose(0, 2, 1) @ delta, delta.sum(axis=1, keepdims=True)]
            if layer:
                delta = delta @ self.weights[layer].transpose(0, 2, 1)
                delta *= a > 0
        return list(zip(self._parameters(), gradients, strict=True))

    def _activate(self, raw: np.ndarray) -> np.ndarray:
        if self.activation == "abs":
            return np.abs(raw)
        return np.maximum(raw, 0.0) if self.activation == "relu" else np.exp(raw)

    def _slope(self, raw: np.ndarray) -> np.ndarray:
        if self.activation == "abs":
            return np.sign(raw)
        return (raw > 0).astype(float) if self.activation == "relu" else np.exp(raw)
