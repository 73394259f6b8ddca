"""What people use for binary tables today: independent bits, trees, mixtures, RBMs, masking.

All have ``fit(X)`` on a bool array and ``sample(n, rng)``.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import expit, logsumexp

from practicum.errors import InputError
from practicum.generative.discrete_markov.metrics import correlation_error

SMOOTHING = 0.5  # Jeffreys' prior: half a success and half a failure


class Sampleable(Protocol):
    """Fit bits, draw bits."""

    def fit(self, X: Bool[np.ndarray, "n d"]) -> Any:
        """Learn the law of the rows."""

    def sample(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
        """Draw rows."""


class IndependentBits:
    """Each bit on its own: the right marginals and no dependence.

    Examples
    --------
    >>> model = IndependentBits().fit(np.array([[True, False]] * 99))
    >>> model.p_.round(3).tolist()
    [0.995, 0.005]
    """

    def fit(self, X: Bool[np.ndarray, "n d"]) -> IndependentBits:
        """Shares of ones, smoothed."""
        self.p_ = (X.sum(axis=0) + SMOOTHING) / (len(X) + 2 * SMOOTHING)
        return self

    def sample(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
        """Draw rows."""
        return rng.random((n, len(self.p_))) < self.p_

    def log_likelihood(self, X: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Of each row, in nats."""
        return X @ np.log(self.p_) + ~X @ np.log1p(-self.p_)


class ChowLiuTree:
    """The tree-shaped law nearest to the data in KL (Chow & Liu 1968).

    A maximum spanning tree under pairwise mutual information; each bit depends on its parent.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.random(1000) < 0.5
    >>> drawn = ChowLiuTree().fit(np.column_stack([a, ~a])).sample(1000, rng)
    >>> bool((drawn[:, 0] != drawn[:, 1]).mean() > 0.99)
    True
    """

    def fit(self, X: Bool[np.ndarray, "n d"]) -> ChowLiuTree:
        """Find the tree and its conditional probabilities."""
        n, d = X.shape
        ones = X.astype(float)
        both = (ones.T @ ones + SMOOTHING / 2) / (n + 2 * SMOOTHING)
        p = (ones.sum(axis=0) + SMOOTHING) / (n + 2 * SMOOTHING)
        information = np.zeros((d, d))
        for a, b in itertools.product((0, 1), repeat=2):
            joint = _joint(both, p, a, b)
            product = np.outer(p if a else 1 - p, p if b else 1 - p)
            information += joint * np.log(np.maximum(joint, 1e-12) / product)
        # spanning trees take positive weights only: shift, so that every edge exists
        weights = information.max() - information + 1e-3
        np.fill_diagonal(weights, 0)
        tree = minimum_spanning_tree(weights)
        order, parents = breadth_first_order(tree, 0, directed=False)
        self.order_, self.parents_, self.p_ = order, parents, p
        self.given_ = np.zeros((d, 2))  # P(bit = 1 | parent = 0 or 1)
        for j in order[1:]:
            k = parents[j]
            self.given_[j] = [
                np.clip(
                    _joint(both, p, 1, value)[j, k] / (p[k] if value else 1 - p[k]), 1e-9, 1 - 1e-9
                )
                for value in (0, 1)
            ]
        return self

    def sample(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
        """Draw rows, from the root down."""
        x = np.zeros((n, len(self.p_)), dtype=bool)
        u = rng.random(x.shape)
        root = self.order_[0]
        x[:, root] = u[:, root] < self.p_[root]
        for j in self.order_[1:]:
            x[:, j] = u[:, j] < self.given_[j, x[:, self.parents_[j]].astype(int)]
        return x

    def log_likelihood(self, X: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Of each row, in nats: the root's bit, and every other one given its parent's."""
        chance = np.empty(X.shape)
        root = self.order_[0]
        chance[:, root] = self.p_[root]
        for j in self.order_[1:]:
            chance[:, j] = self.given_[j, X[:, self.parents_[j]].astype(int)]
        return np.log(np.where(X, chance, 1 - chance)).sum(axis=1)


def _joint(both: np.ndarray, p: np.ndarray, a: int, b: int) -> np.ndarray:
    """P(bit i = a, bit j = b) for all pairs, from P(1, 1) and the marginals."""
    if a and b:
        return both
    if a:
        return np.maximum(p[:, None] - both, 1e-12)
    if b:
        return np.maximum(p[None, :] - both, 1e-12)
    return np.maximum(1 - p[:, None] - p[None, :] + both, 1e-12)


class BernoulliMixture:
    """Mixture of independent bits (latent classes) by EM; the number of classes by held-out data.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of components tried; the one with the best likelihood on a fifth of the rows held
        out is fitted to all.
    iterations, restarts : int

    Examples
    --------
    >>> X = np.array([[True, True], [False, False]] * 50)
    >>> model = BernoulliMixture((1, 2), rng=np.random.default_rng(0)).fit(X)
    >>> model.n_components_
    2
    """

    def __init__(
        self,
        sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64),
        iterations: int = 60,
        restarts: int = 3,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.sizes, self.iterations, self.restarts = sizes, iterations, restarts
        self.rng = rng or np.random.default_rng()

    def fit(self, X: Bool[np.ndarray, "n d"]) -> BernoulliMixture:
        """Choose the number of components, then fit."""
        x = X.astype(float)
        held = self.rng.permutation(len(x)) < max(1, len(x) // 5)
        sizes = [k for k in self.sizes if k <= max(1, (~held).sum() // 2)] or [1]
        scores = {}
        for k in sizes:
            self._em(x[~held], k)
            scores[k] = self._log_joint(x[held]).mean() if len(sizes) > 1 else 0.0
        self.n_components_ = max(scores, key=scores.__getitem__)
        self._em(x, self.n_components_)
        return self

    def _em(self, x: np.ndarray, k: int) -> None:
        best = -np.inf
        for _ in range(self.restarts):
            share = np.full(k, 1 / k)
            p = np.clip(
                x[self.rng.integers(len(x), size=k)] * 0.5 + x.mean(axis=0) * 0.5, 0.02, 0.98
            )
            for _ in range(self.iterations):
                joint = _component_loglik(x, share, p)
                weight = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
                mass = weight.sum(axis=0)
                share = (mass + 1e-3) / (mass + 1e-3).sum()
                p = (weight.T @ x + SMOOTHING) / (mass[:, None] + 2 * SMOOTHING)
            likelihood = logsumexp(_component_loglik(x, share, p), axis=1).mean()
            if likelihood > best:
                best, self.share_, self.p_ = likelihood, share, p

    def _log_joint(self, x: np.ndarray) -> np.ndarray:
        return logsumexp(_component_loglik(x, self.share_, self.p_), axis=1)

    def log_likelihood(self, X: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Of each row, in nats."""
        return self._log_joint(X.astype(float))

    def sample(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
        """Draw a component, then its bits."""
        chosen = rng.choice(len(self.share_), size=n, p=self.share_)
        return rng.random((n, self.p_.shape[1])) < self.p_[chosen]


def _component_loglik(x: np.ndarray, share: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.log(share) + x @ np.log(p).T + (1 - x) @ np.log1p(-p).T


class RBM:
    """scikit-learn's restricted Boltzmann machine, its learning rate by what it draws.

    Pseudo-likelihood prefers large rates, with which a machine rates rows well and draws others
    than it was shown; so the rate is the one whose draws have the covariances of a fifth of the
    rows, held out, and all rows are fitted with it.

    Parameters
    ----------
    n_components : int
    rates : sequence of float
        Learning rates tried.
    n_iter : int
        Passes over the data.
    gibbs : int
        Steps of Gibbs sampling, from random rows of the training data.
    seed : int

    Examples
    --------
    >>> X = np.array([[True, True], [False, False]] * 50)
    >>> RBM(4, n_iter=5).fit(X).sample(3, np.random.default_rng(0)).shape
    (3, 2)
    """

    def __init__(
        self,
        n_components: int = 64,
        rates: tuple[float, ...] = (0.003, 0.01, 0.02, 0.05),
        n_iter: int = 60,
        gibbs: int = 500,
        seed: int = 0,
    ) -> None:
        self.n_components, self.rates, self.n_iter = n_components, rates, n_iter
        self.gibbs, self.seed = gibbs, seed

    def fit(self, X: Bool[np.ndarray, "n d"]) -> RBM:
        """Choose the rate, then fit."""
        held = np.random.default_rng(self.seed).permutation(len(X)) < max(1, len(X) // 5)
        errors = {}
        for rate in self.rates:
            self._fit(X[~held], rate)
            drawn = self.sample(2000, np.random.default_rng(self.seed))
            errors[rate] = correlation_error(drawn, X[held])
        self.rate_ = min(errors, key=errors.__getitem__)
        self._fit(X, self.rate_)
        return self

    def _fit(self, X: np.ndarray, rate: float) -> None:
        from sklearn.neural_network import BernoulliRBM

        self.start_ = X
        self.machine_ = BernoulliRBM(
            self.n_components, learning_rate=rate, n_iter=self.n_iter, random_state=self.seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.machine_.fit(X.astype(float))

    def sample(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "n d"]:
        """The end of ``gibbs`` steps of block Gibbs sampling."""
        m = self.machine_
        v = self.start_[rng.integers(len(self.start_), size=n)].astype(float)
        for _ in range(self.gibbs):
            hidden = expit(v @ m.components_.T + m.intercept_hidden_)
            h = (rng.random(hidden.shape) < hidden).astype(float)
            visible = expit(h @ m.components_ + m.intercept_visible_)
            v = (rng.random(visible.shape) < visible).astype(float)
        return v == 1


class MaskedDiffusion:
    r"""Absorbing ("masked") diffusion: bits are erased instead of flipped.

    The strongest neighbour of DMPM. At time t in [0, 1] a bit is masked with probability t; the
    network predicts masked bits from the others and is trained on the likelihood bound
    :math:`\int_0^1 \frac1t E \sum_{l\ \mathrm{masked}} -\log p_\theta(x^l | x_t)\,dt`. Drawing
    starts from nothing and reveals bits in random order, a few at a time; a bit once revealed
    stays.

    Parameters
    ----------
    hidden, layers, steps, batch_size, lr, ema
        As for :class:`DMPM`: the same network and the same training.
    random_state : int or Generator

    Raises
    ------
    InputError
        If training diverges.

    Examples
    --------
    >>> X = np.array([[True, True], [False, False]] * 50)
    >>> model = MaskedDiffusion(16, 1, steps=20, random_state=0).fit(X)
    >>> model.sample(3, np.random.default_rng(0), nfe=2).shape
    (3, 2)
    """

    def __init__(
        self,
        hidden: int = 128,
        layers: int = 3,
        steps: int = 4000,
        batch_size: int = 256,
        lr: float = 2e-3,
        ema: float = 0.999,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.hidden, self.layers, self.steps, self.batch_size = hidden, layers, steps, batch_size
        self.lr, self.ema, self.random_state = lr, ema, random_state

    def fit(self, X: Bool[np.ndarray, "n d"]) -> MaskedDiffusion:
        """Train on complete rows."""
        from practicum.generative.discrete_markov.networks import BitMLP, Training, optimise
        from practicum.models.training import nn, torch, torch_generator

        weights, batches = np.random.default_rng(self.random_state).integers(2**31, size=2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(weights))
            network = BitMLP(X.shape[1], self.hidden, self.layers)
        generator = torch_generator(int(batches))
        x, B = torch.from_numpy(X), self.batch_size

        def loss_of(step: int) -> torch.Tensor:
            rows = torch.randint(len(x), (B,), generator=generator)
            u = (torch.rand(B, generator=generator) + torch.arange(B)) / B
            t = u.clamp(min=1e-3)
            masked = torch.rand(B, x.shape[1], generator=generator) < t[:, None]
            target = x[rows].float()
            logits = network((2 * target - 1) * ~masked, t)
            each = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
            return ((each * masked).sum(dim=1) / t).mean()

        self.loss_curve_ = optimise(network, loss_of, Training(self.steps, B, self.lr, self.ema))
        self.network_ = network
        return self

    def sample(self, n: int, rng: np.random.Generator, nfe: int = 32) -> Bool[np.ndarray, "n d"]:
        """Reveal all bits in ``nfe`` calls of the network."""
        from practicum.models.training import torch, torch_generator

        if nfe < 1:
            raise InputError(f"nfe={nfe}: at least one call of the network")
        generator = torch_generator(rng)
        d = self.network_.body[-1].out_features
        signs = torch.zeros(n, d)
        times = np.linspace(1, 0, nfe + 1)
        with torch.inference_mode():
            for t, u in itertools.pairwise(times.tolist()):
                p = torch.sigmoid(self.network_(signs, torch.full((n,), t)))
                drawn = 2.0 * (torch.rand(n, d, generator=generator) < p) - 1
                reveal = (signs == 0) & (torch.rand(n, d, generator=generator) < (t - u) / t)
                signs = torch.where(reveal, drawn, signs)
        return signs.numpy() > 0

    def log_likelihood_bound(
        self, X: Bool[np.ndarray, "n d"], n_times: int = 64
    ) -> Float[np.ndarray, " n"]:
        """A lower bound on each row's log-likelihood, in nats; comparable with DMPM's."""
        from practicum.models.training import nn, torch, torch_generator

        generator = torch_generator(n_times)
        x = torch.from_numpy(X).float()
        total = torch.zeros(len(x), dtype=torch.float64)
        with torch.inference_mode():
            for k in range(n_times):
                t = (k + torch.rand(len(x), generator=generator)).clamp(min=1e-4) / n_times
                masked = torch.rand(x.shape, generator=generator) < t[:, None]
                logits = self.network_((2 * x - 1) * ~masked, t)
                each = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none")
                total += ((each * masked).sum(dim=1) / t).double() / n_times
        return -total.numpy()
