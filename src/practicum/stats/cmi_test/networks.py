"""The published networks: a generator of X given Z trained by conditional moment matching, and a
regression of Y on Z. Several are trained at once, their parameters stacked along a first axis.

A network draws its initial weights, batches, noise and dropout from a generator of its own, so
that what it learns does not depend, but for rounding, on which others are trained beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin

from practicum.errors import InputError, MissingExtra

try:
    import torch
except ImportError as error:  # pragma: no cover - exercised where torch is absent
    raise MissingExtra(
        "the networks of cmi-test need PyTorch", "install it with: pip install 'practicum[torch]'"
    ) from error

Task = tuple[np.ndarray, np.ndarray]  # target (n, d) and Z (n, q)


class _Stack:
    """R networks of one hidden layer, as stacked matrices."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        seeds: Sequence[int],
        slope: float,
        dropout: float,
        device: str,
    ) -> None:
        self.slope, self.dropout, self.device = slope, dropout, device
        self.streams = [torch.Generator().manual_seed(seed) for seed in seeds]
        inputs, hidden, outputs = sizes
        shapes = ((inputs, hidden), (1, hidden), (hidden, outputs), (1, outputs))
        fans = (inputs, inputs, hidden, hidden)
        self.parameters = []
        for shape, fan in zip(shapes, fans):  # as torch.nn.Linear starts
            start = self.each(lambda g, s=shape: torch.rand(s, generator=g)) * 2 - 1
            self.parameters.append((start / fan**0.5).requires_grad_())

    def each(self, draw: Callable[[Any], torch.Tensor]) -> torch.Tensor:
        """``draw(generator)`` of every network, stacked."""
        return torch.stack([draw(g) for g in self.streams]).to(self.device)

    def forward(self, inputs: torch.Tensor, train: bool) -> torch.Tensor:
        w1, b1, w2, b2 = self.parameters
        hidden = torch.nn.functional.leaky_relu(torch.baddbmm(b1, inputs, w1), self.slope)
        if train and self.dropout:
            keep = self.each(lambda g: torch.rand(hidden.shape[1:], generator=g)) >= self.dropout
            hidden = hidden * keep / (1 - self.dropout)
        if w2.shape[2] == 1:  # BLAS sums a single column in an order that depends on the stack
            return (hidden * w2.transpose(1, 2)).sum(2, keepdim=True) + b2
        return torch.baddbmm(b2, hidden, w2)

    def optimiser(self, lr: float, weight_decay: float) -> torch.optim.Adam:
        return torch.optim.Adam(
            self.parameters, lr=lr, betas=(0.5, 0.999), weight_decay=weight_decay
        )

    @torch.no_grad()
    def penalise_and_clip(self, l1: float, limit: float) -> None:
        """Add the L1 penalty's gradient, then clip the norm of each network's by itself."""
        squared = torch.zeros(len(self.streams), device=self.device)
        for p in self.parameters:
            p.grad += l1 * p.sign()
            squared += p.grad.square().flatten(1).sum(1)
        scale = (limit / (squared.sqrt() + 1e-6)).clamp(max=1.0)
        for p in self.parameters:
            p.grad *= scale[:, None, None]

    def weights(self, r: int) -> list[np.ndarray]:
        return [p[r].detach().cpu().numpy() for p in self.parameters]


def _apply(weights: list[np.ndarray], inputs: np.ndarray, slope: float) -> np.ndarray:
    w1, b1, w2, b2 = weights
    hidden = inputs @ w1 + b1
    return np.where(hidden > 0, hidden, slope * hidden) @ w2 + b2


class _Standard:
    """Columns to mean 0, deviation 1, and back."""

    def __init__(self, values: np.ndarray) -> None:
        self.centre, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
        self.spread = np.where(spread > 0, spread, 1.0)

    def to(self, values: np.ndarray) -> np.ndarray:
        return ((values - self.centre) / self.spread).astype(np.float32)

    def back(self, values: np.ndarray) -> np.ndarray:
        return values * self.spread + self.centre


class _Stackable:
    """``fit_stack`` for tasks of any sizes: those of one shape are trained together."""

    seed: int
    n_jobs = None

    def fit_stack(self, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Any]:
        """A fitted copy of this object for every task.

        Parameters
        ----------
        tasks : sequence of (array (n, d), array (n, q))
            What is generated or predicted, and Z.
        seeds : sequence of int
            One a task.

        Raises
        ------
        InputError
            As many seeds as tasks are needed.
        """
        if len(tasks) != len(seeds):
            raise InputError(f"{len(tasks)} tasks and {len(seeds)} seeds")
        shapes: dict[Any, list[int]] = {}
        for i, (target, z) in enumerate(tasks):
            shapes.setdefault((target.shape, z.shape), []).append(i)
        fitted: list[Any] = [None] * len(tasks)
        for members in shapes.values():
            models = self._fit_equal([tasks[i] for i in members], [seeds[i] for i in members])
            for i, model in zip(members, models):
                fitted[i] = model
        return fitted

    def _fit_equal(self, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Any]:
        raise NotImplementedError

    def _copies(self, tasks: Sequence[Task], stack: _Stack, scales: Sequence[Any]) -> list[Any]:
        copies = []
        for r in range(len(tasks)):
            model = copy(self)
            model.weights_, model.scales_ = stack.weights(r), scales[r]
            copies.append(model)
        return copies


def _scaled(tasks: Sequence[Task], device: str) -> tuple[list[Any], torch.Tensor, torch.Tensor]:
    scales = [(_Standard(target), _Standard(z)) for target, z in tasks]
    stacked = [
        torch.from_numpy(np.stack([s[part].to(t[part]) for s, t in zip(scales, tasks)])).to(device)
        for part in (0, 1)
    ]
    return scales, stacked[0], stacked[1]


class GenerativeNetwork(_Stackable):
    r"""Draws of X given Z from a network :math:`G(z, \eta)` trained by moment matching.

    The loss is a conditional maximum mean discrepancy, over mini-batches and ``train_draws``
    draws, for a Gaussian kernel plus ``laplace_share`` times the same for a Laplace kernel, plus
    an L1 penalty:

    .. math:: L = \frac1{n_b} \sum_{i \ne j} k(Z_i, Z_j)\, U_{ij}

    with U as in :func:`centred_kernel`. The defaults are the published constants; X and Z are
    standardised first.

    Parameters
    ----------
    epochs, hidden, noise, batch, train_draws : int
        Passes over the data; hidden units; noise inputs, N(0, 1/3); rows a batch; draws a row in
        the loss.
    slope, dropout : float
        Of the LeakyReLU; share of hidden units dropped in training.
    lr, weight_decay, l1, clip, laplace_share : float
        Of Adam (momenta .5, .999); of the penalty; largest gradient norm.
    seed : int
    device : str
        Where it is trained, e.g. ``cpu`` or ``cuda``.

    Raises
    ------
    InputError
        ``epochs`` is not positive, or X and Z differ in length.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(128, 1))
    >>> x = 2 * z + 0.3 * rng.normal(size=(128, 1))
    >>> network = GenerativeNetwork(epochs=150).fit(x, z)
    >>> draws = network.sample(np.array([[1.0], [-1.0]]), 200, rng)
    >>> bool(draws[:, 0].mean() > 1 > -1 > draws[:, 1].mean())
    True
    """

    def __init__(
        self,
        epochs: int = 1000,
        *,
        hidden: int = 128,
        noise: int = 50,
        batch: int = 128,
        train_draws: int = 10,
        slope: float = 0.8,
        dropout: float = 0.05,
        lr: float = 0.004950377967576449,
        weight_decay: float = 1e-5,
        l1: float = 0.001,
        clip: float = 0.5,
        laplace_share: float = 0.25,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if epochs < 1:
            raise InputError(f"epochs={epochs}", "at least one is needed")
        self.epochs, self.hidden, self.noise, self.batch = epochs, hidden, noise, batch
        self.train_draws, self.slope, self.dropout = train_draws, slope, dropout
        self.lr, self.weight_decay, self.l1, self.clip = lr, weight_decay, l1, clip
        self.laplace_share, self.seed, self.device = laplace_share, seed, device

    def fit(self, x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "n q"]) -> GenerativeNetwork:
        """Train one network.

        Parameters
        ----------
        x, z : arrays, shapes (n, d), (n, q)
        """
        if len(x) != len(z):
            raise InputError(f"{len(x)} rows of X and {len(z)} of Z")
        fitted = self.fit_stack([(x, z)], [self.seed])[0]
        self.weights_, self.scales_ = fitted.weights_, fitted.scales_
        return self

    def sample(
        self, z: Float[np.ndarray, "n q"], m: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "m n d"]:
        """``m`` draws of X for every row of ``z``.

        Parameters
        ----------
        z : array, shape (n, q)
        m : int
        rng : numpy Generator
        """
        of_x, of_z = self.scales_
        scaled = of_z.to(z)
        draws = np.empty((m, len(z), len(of_x.centre)))
        for i in range(m):
            noise = rng.standard_normal((len(z), self.noise), dtype=np.float32) / 3**0.5
            inputs = np.hstack([scaled, noise])
            draws[i] = of_x.back(_apply(self.weights_, inputs, self.slope))
        return draws

    def _fit_equal(self, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Any]:
        scales, x, z = _scaled(tasks, self.device)
        n, sizes = x.shape[1], (z.shape[2] + self.noise, self.hidden, x.shape[2])
        stack = _Stack(sizes, seeds, self.slope, self.dropout, self.device)
        adam = stack.optimiser(self.lr, self.weight_decay)
        kernels = _Kernels(x, z)
        for _ in range(self.epochs):
            order = stack.each(lambda g: torch.randperm(n, generator=g))
            for start in range(0, n, self.batch):
                rows = order[:, start : start + self.batch]
                if rows.shape[1] < 2:
                    continue
                adam.zero_grad()
                draws = self._draws(stack, _take(z, rows))
                kernels.loss(draws, _take(x, rows), rows, self.laplace_share).backward()
                stack.penalise_and_clip(self.l1, self.clip)
                adam.step()
        return self._copies(tasks, stack, scales)

    def _draws(self, stack: _Stack, z: torch.Tensor) -> torch.Tensor:
        """Draws for a batch, shape (R, draws, rows, d)."""
        count, rows = self.train_draws, z.shape[1]
        shape = (count * rows, self.noise)
        noise = stack.each(lambda g: torch.randn(shape, generator=g)) / 3**0.5
        inputs = torch.cat([z.repeat(1, count, 1), noise], dim=2)
        return stack.forward(inputs, train=True).unflatten(1, (count, rows))


def _take(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Row ``rows[r]`` of ``values[r]``, for every network r."""
    return torch.gather(values, 1, rows[:, :, None].expand(-1, -1, values.shape[2]))


class _Kernels:
    """The two kernels of Z, computed once, and the moment-matching loss of a batch."""

    def __init__(self, x: torch.Tensor, z: torch.Tensor) -> None:
        self.laplace_z, self.gauss_z, self.laplace_x, self.gauss_x = [], [], [], []
        for xr, zr in zip(x, z):
            for values, kernels, widths in (
                (zr, (self.laplace_z, self.gauss_z), None),
                (xr, None, (self.laplace_x, self.gauss_x)),
            ):
                absolute = torch.cdist(values, values, p=1)
                squared = (values[:, None] - values).square().sum(2)
                sigma = absolute.median(), 2 * squared.median()
                if kernels is not None:
                    for kept, d, s in zip(kernels, (absolute, squared), sigma):
                        kept.append(torch.exp(-d / s).fill_diagonal_(0))
                if widths is not None:
                    for kept, s in zip(widths, sigma):
                        kept.append(s)
        self.laplace_z, self.gauss_z = torch.stack(self.laplace_z), torch.stack(self.gauss_z)
        self.laplace_x = torch.stack(self.laplace_x)[:, None, None, None]
        self.gauss_x = torch.stack(self.gauss_x)[:, None, None, None]

    def loss(
        self, draws: torch.Tensor, x: torch.Tensor, rows: torch.Tensor, laplace_share: float
    ) -> torch.Tensor:
        """What varies with the draws, summed over networks: their parameters are separate.

        The second argument of each kernel of two draws is held fixed and the term counted twice,
        which by symmetry has the same gradient at half the cost.
        """
        count, batch = draws.shape[1:3]
        fixed = draws.detach()
        real = x[:, None].expand(-1, count, -1, -1)
        total = torch.zeros((), device=draws.device)
        for share, distance, width, of_z in (
            (1.0, _squared, self.gauss_x, self.gauss_z),
            (laplace_share, _absolute, self.laplace_x, self.laplace_z),
        ):
            weight = torch.stack([k[r][:, r] for k, r in zip(of_z, rows)])[:, None]
            same = torch.exp(-distance(draws, fixed) / width)
            cross = torch.exp(-distance(draws, real) / width)
            total = total + share * 2 * (weight * (same - cross)).sum() / (batch * count)
        return total


def _absolute(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cdist(a, b, p=1)


def _squared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    cross = torch.matmul(a, b.transpose(-1, -2))
    sums = a.square().sum(-1)[..., :, None] + b.square().sum(-1)[..., None, :]
    return (sums - 2 * cross).clamp(min=0)


class NetworkRegressor(_Stackable, RegressorMixin, BaseEstimator):
    r"""The published regression of Y on Z: one hidden layer, full batches, L1 penalty.

    Defaults are the published constants; Y and Z are standardised first.

    Parameters
    ----------
    epochs, hidden : int
        Full-batch steps; hidden units.
    slope, dropout : float
        Of the LeakyReLU; share of hidden units dropped in training.
    lr, weight_decay, l1, clip : float
        Of Adam (momenta .5, .999); of the penalty; largest gradient norm.
    seed : int
    device : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 2))
    >>> network = NetworkRegressor(epochs=300).fit(z, z[:, 0])
    >>> bool(np.corrcoef(network.predict(z), z[:, 0])[0, 1] > 0.8)
    True
    """

    def __init__(
        self,
        epochs: int = 1000,
        *,
        hidden: int = 256,
        slope: float = 0.6957593034943316,
        dropout: float = 0.15,
        lr: float = 0.00021957327899192503,
        weight_decay: float = 0.00010530996833286099,
        l1: float = 0.020062972725244245,
        clip: float = 0.5,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.epochs = epochs
        self.hidden = hidden
        self.slope = slope
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.l1 = l1
        self.clip = clip
        self.seed = seed
        self.device = device

    def fit(self, z: Float[np.ndarray, "n q"], y: np.ndarray) -> NetworkRegressor:
        """Train one network.

        Parameters
        ----------
        z : array, shape (n, q)
        y : array, shape (n,) or (n, k)
        """
        self._flat = y.ndim == 1
        fitted = self.fit_stack([(y.reshape(len(y), -1), z)], [self.seed])[0]
        self.weights_, self.scales_ = fitted.weights_, fitted.scales_
        return self

    def predict(self, z: Float[np.ndarray, "n q"]) -> np.ndarray:
        """The regression at new rows, shape (n,) or (n, k) as ``y`` was.

        Parameters
        ----------
        z : array, shape (n, q)
        """
        of_y, of_z = self.scales_
        values = of_y.back(_apply(self.weights_, of_z.to(z), self.slope))
        return values[:, 0] if getattr(self, "_flat", False) else values

    def _fit_equal(self, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Any]:
        scales, y, z = _scaled(tasks, self.device)
        sizes = (z.shape[2], self.hidden, y.shape[2])
        stack = _Stack(sizes, seeds, self.slope, self.dropout, self.device)
        adam = stack.optimiser(self.lr, self.weight_decay)
        for _ in range(self.epochs):
            adam.zero_grad()
            error = stack.forward(z, train=True) - y
            error.square().mean(dim=(1, 2)).sum().backward()
            stack.penalise_and_clip(self.l1, self.clip)
            adam.step()
        return self._copies(tasks, stack, scales)
