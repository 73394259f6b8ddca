"""Networks that say, for every bit, how likely it was flipped; and how they are trained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from practicum.errors import InputError
from practicum.models.training import Averaged, nn, torch, torch_generator

Tensor = torch.Tensor
Loss = Literal["elbo", "ce", "l2", "score_l2"]
LOSSES = ("elbo", "ce", "l2", "score_l2")
T_MIN = 1e-3  # below, a flip is one in a thousand and its weight a thousand
TIME_FEATURES = 16


def time_features(t: Float[Tensor, " n"]) -> Float[Tensor, "n 16"]:
    r"""Sinusoids of :math:`\tfrac12 \log t`: what matters is the order of magnitude of the noise.

    Parameters
    ----------
    t : tensor, shape (n,), > 0

    Raises
    ------
    RuntimeError
        If ``t`` is no vector.

    Examples
    --------
    >>> time_features(torch.tensor([1.0])).shape
    torch.Size([1, 16])
    """
    position = 0.5 * torch.log(t)
    frequencies = torch.exp(torch.linspace(math.log(0.25), math.log(8.0), TIME_FEATURES // 2)).to(t)
    angles = position[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class BitMLP(nn.Module):
    """A multilayer perceptron on (bits, time) -> one logit a bit, for up to about 2,000 bits.

    Parameters
    ----------
    d : int
    hidden, layers : int
        Width and number of hidden layers, SiLU.

    Examples
    --------
    >>> BitMLP(5, 8, 2)(torch.zeros(3, 5), torch.ones(3)).shape
    torch.Size([3, 5])
    """

    def __init__(self, d: int, hidden: int = 128, layers: int = 3) -> None:
        super().__init__()
        widths = [d + TIME_FEATURES, *[hidden] * layers]
        parts: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            parts += [nn.Linear(before, after), nn.SiLU()]
        self.body = nn.Sequential(*parts, nn.Linear(widths[-1], d))

    def forward(self, signs: Tensor, t: Tensor) -> Tensor:
        """Logits, shape (n, d), of bits given as -1 and 1 (0: masked)."""
        return self.body(torch.cat([signs, time_features(t)], dim=1))


class _Block(nn.Module):
    """Two 3x3 convolutions with the time added between them, and a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(4 * TIME_FEATURES, after)
        self.norms = nn.ModuleList([nn.GroupNorm(8, after), nn.GroupNorm(8, after)])
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = nn.functional.silu(self.norms[0](self.first(x)) + self.time(time)[:, :, None, None])
        return self.short(x) + nn.functional.silu(self.norms[1](self.second(h)))


class BitUNet(nn.Module):
    """A small U-Net for binary images: two halvings, skips, about a million weights at width 32.

    Parameters
    ----------
    shape : (height, width)
        Both divisible by 4.
    width : int
        Channels of the first level; a multiple of 8.

    Raises
    ------
    InputError
        If the image does not halve twice.

    Examples
    --------
    >>> BitUNet((8, 8), 8)(torch.zeros(2, 64), torch.ones(2)).shape
    torch.Size([2, 64])
    """

    def __init__(self, shape: tuple[int, int], width: int = 32) -> None:
        super().__init__()
        if shape[0] % 4 or shape[1] % 4:
            raise InputError(f"images of shape {shape} do not halve twice", "pad them to 4 k")
        self.shape = shape
        self.time = nn.Sequential(nn.Linear(TIME_FEATURES, 4 * TIME_FEATURES), nn.SiLU())
        w = width
        self.down = nn.ModuleList([_Block(1, w), _Block(w, 2 * w)])
        self.middle = nn.ModuleList([_Block(2 * w, 4 * w), _Block(4 * w, 4 * w)])
        self.up = nn.ModuleList([_Block(6 * w, 2 * w), _Block(3 * w, w)])
        self.out = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, signs: Tensor, t: Tensor) -> Tensor:
        """Logits, shape (n, d), of bits given as -1 and 1."""
        time = self.time(time_features(t))
        x, skips = signs.view(-1, 1, *self.shape), []
        for block in self.down:
            x = block(x, time)
            skips.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        for block in self.middle:
            x = block(x, time)
        for block, skip in zip(self.up, reversed(skips), strict=True):
            x = nn.functional.interpolate(x, scale_factor=2)
            x = block(torch.cat([x, skip], dim=1), time)
        return self.out(x).flatten(1)


@dataclass(frozen=True)
class Training:
    """How a network is trained: Adam, cosine decay, gradient clipping, averaged weights."""

    steps: int = 4000
    batch_size: int = 256
    lr: float = 2e-3
    ema: float = 0.999
    clip: float = 1.0


def optimise(
    network: nn.Module,
    loss_of: Callable[[int], Tensor],
    training: Training,
    progress: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Minimise a stochastic loss and leave the averaged weights in the network.

    Parameters
    ----------
    network : nn.Module
    loss_of : callable
        Step number -> the loss of a fresh batch.
    training : Training
    progress : callable, optional
        Called with (step, loss) every 50 steps.

    Returns
    -------
    array, shape (steps,)
        The loss of every step.

    Raises
    ------
    InputError
        If the loss is no longer finite.

    Examples
    --------
    >>> net = nn.Linear(1, 1)
    >>> done = optimise(net, lambda k: net(torch.ones(1, 1)).square().sum(), Training(steps=9))
    >>> len(done)
    9
    """
    optimiser = torch.optim.Adam(network.parameters(), lr=training.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.steps)
    average = Averaged(network, training.ema)
    network.train()
    history = np.empty(training.steps)
    for step in range(training.steps):
        loss = loss_of(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), training.clip)
        optimiser.step()
        schedule.step()
        average.update(network)
        history[step] = loss.item()
        if not math.isfinite(history[step]):
            raise InputError(f"training diverged at step {step + 1}", "lower lr")
        if progress and step % 50 == 0:
            progress(step, float(history[step]))
    average.copy_to(network)
    network.eval()
    return history


def flip_logits(network: nn.Module, x: Bool[Tensor, "n d"], t: Float[Tensor, " n"]) -> Tensor:
    r"""Logits of the denoiser, :math:`\log\frac{1-\alpha_t}{1+\alpha_t} - (2 x^l - 1)\, g^l(x, t)`.

    This is Bayes' rule: the first term is the log-odds of a flip before anything is known of the
    data, and the network's :math:`g^l` the log-odds of :math:`X_0^l = 1` given the other bits. To
    have the network say "flipped" itself would ask it for an exclusive or of its input and of what
    it makes of the other bits, one for every bit, which perceptrons learn slowly: on the digits it
    cost 6 nats. The network is not asked about times below those it was trained on.

    Parameters
    ----------
    network : nn.Module
    x : bool tensor, shape (n, d)
    t : tensor, shape (n,)

    Raises
    ------
    RuntimeError
        If the shapes do not fit the network.

    Examples
    --------
    >>> flip_logits(BitMLP(2, 4, 1), torch.zeros(1, 2, dtype=torch.bool), torch.ones(1)).shape
    torch.Size([1, 2])
    """
    a = torch.exp(-2 * t)
    prior = torch.log(-torch.expm1(-2 * t) / (1 + a))[:, None]
    signs = 2 * x.to(t.dtype) - 1
    return prior - signs * network(signs, t.clamp(min=T_MIN))


def path_kl(
    logits: Float[Tensor, "n d"], flipped: Bool[Tensor, "n d"], t: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    r"""Integrand of the path KL, :math:`\sum_l r_\theta - r + r \log(r / r_\theta)`.

    :math:`r_\theta` is the learnt reverse rate and :math:`r` the rate given the data point,
    :math:`(1-\alpha)/(1+\alpha)` for a bit that has kept its value and its inverse for one that has
    flipped. Integrated over time it bounds the negative log-likelihood.

    Parameters
    ----------
    logits : tensor, shape (n, d)
        As :func:`flip_logits` gives them.
    flipped : bool tensor, shape (n, d)
    t : tensor, shape (n,)

    Raises
    ------
    RuntimeError
        If the shapes differ.

    Examples
    --------
    >>> t = torch.tensor([1.0])
    >>> path_kl(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool), t).item() >= 0
    True
    """
    t = t[:, None]
    a = torch.exp(-2 * t)
    base = -torch.expm1(-2 * t) / (1 + a)  # (1 - a)/(1 + a), also where a is nearly 1
    rate = base - 4 * a / torch.expm1(-4 * t) * torch.sigmoid(logits)
    given = torch.where(flipped, 1 / base, base)
    return (rate - given + given * torch.log(given / rate)).sum(dim=1)


def expected_path_kl(
    kept: Float[Tensor, "n d"], gone: Float[Tensor, "n d"], t: Float[Tensor, " n"]
) -> Float[Tensor, "n d"]:
    r"""Each bit's term of :func:`path_kl`, averaged over whether that bit was flipped.

    :math:`\frac{1+\alpha}{2}[\beta\,h(r_\theta/\beta) + h(\beta r'_\theta)]` with
    :math:`h(z) = z - 1 - \log z`, :math:`\beta = (1-\alpha)/(1+\alpha)`, and the rates where the
    bit was kept and where it was flipped. An early flip has probability t and weighs 1/t: averaged
    over, it does no harm, and drawn it makes the bound of a row little more than noise.

    Parameters
    ----------
    kept, gone : tensors, shape (n, d)
        Logits of :func:`flip_logits` where the bit has kept its value, and where it was flipped.
    t : tensor, shape (n,)

    Raises
    ------
    RuntimeError
        If the shapes differ.

    Examples
    --------
    >>> t = torch.tensor([1.0])
    >>> z = torch.zeros(1, 1)
    >>> a = math.exp(-2)
    >>> drawn = [path_kl(z, torch.tensor([[f]]), t).item() for f in (False, True)]
    >>> average = (1 + a) / 2 * drawn[0] + (1 - a) / 2 * drawn[1]
    >>> abs(expected_path_kl(z, z, t).item() - average) < 1e-6
    True
    """
    t = t[:, None]
    a = torch.exp(-2 * t)
    base, slope = -torch.expm1(-2 * t) / (1 + a), -4 * a / torch.expm1(-4 * t)
    low = (base + slope * torch.sigmoid(kept)) / base
    high = base * (base + slope * torch.sigmoid(gone))
    return (1 + a) / 2 * (base * (low - 1 - low.log()) + high - 1 - high.log())


def bit_loss(
    logits: Float[Tensor, "n d"],
    flipped: Bool[Tensor, "n d"],
    t: Float[Tensor, " n"],
    weight: Float[Tensor, " n"],
    loss: Loss,
) -> Tensor:
    """The training loss of a batch, a scalar.

    ``elbo`` weighs times as the likelihood bound does (``weight`` is dt/du of the law of times);
    ``ce`` and ``l2`` are classification and regression of the flips; ``score_l2`` is regression on
    the score itself, whose weights explode near time 0.

    Parameters
    ----------
    logits, flipped : tensors, shape (n, d)
    t, weight : tensors, shape (n,)
    loss : {"elbo", "ce", "l2", "score_l2"}

    Raises
    ------
    InputError
        If the loss is not known.

    Examples
    --------
    >>> z, f, t = torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool), torch.ones(1)
    >>> round(bit_loss(z, f, t, t, "ce").item(), 4)
    0.6931
    """
    target = flipped.to(logits.dtype)
    if loss == "elbo":
        return (weight * path_kl(logits, flipped, t)).mean()
    if loss == "ce":
        each = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    elif loss in ("l2", "score_l2"):
        each = (torch.sigmoid(logits) - target).square()
        if loss == "score_l2":
            a = torch.exp(-2 * t)[:, None]
            each = (4 * a / (1 - a * a)).square() * each
    else:
        raise InputError(f"loss {loss!r} is not known", "use " + ", ".join(LOSSES))
    return each.sum(dim=1).mean()


def train_denoiser(
    network: nn.Module,
    x: Bool[Tensor, "n d"],
    *,
    horizon: float,
    loss: Loss,
    time_law: str,
    training: Training,
    seed: int | np.random.Generator | None,
    progress: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Train a network to tell which bits were flipped.

    Parameters
    ----------
    network : nn.Module
        Takes (signs, times), gives one logit a bit.
    x : bool tensor, shape (n, d)
    horizon : float
    loss, time_law : str
        ``time_law="quadratic"`` draws t = T u², ``"linear"`` uniformly, ``"cosine"``
        T (1 - sin(pi u/2)).
    training : Training
    seed : int, Generator or None
        Of batches, times and flips.
    progress : callable, optional

    Returns
    -------
    array, shape (steps,)

    Raises
    ------
    InputError
        If the loss or the law of times is not known, or training diverges.

    Examples
    --------
    >>> net = BitMLP(2, 4, 1)
    >>> data = torch.ones(8, 2, dtype=torch.bool)
    >>> len(train_denoiser(net, data, horizon=3.0, loss="elbo", time_law="quadratic",
    ...                    training=Training(steps=3), seed=0))
    3
    """
    device = x.device
    generator = torch_generator(seed, device)
    n, d = x.shape
    B = training.batch_size

    def batch_loss(step: int) -> Tensor:
        rows = torch.randint(n, (B,), generator=generator, device=device)
        # stratified: every batch sees all times
        u = (torch.rand(B, generator=generator, device=device) + torch.arange(B, device=device)) / B
        t, weight = _times(u, horizon, time_law)
        chance = (1 - torch.exp(-2 * t)) / 2
        flipped = torch.rand(B, d, generator=generator, device=device) < chance[:, None]
        logits = flip_logits(network, x[rows] ^ flipped, t)
        return bit_loss(logits, flipped, t, weight, loss)

    return optimise(network, batch_loss, training, progress)


def _times(u: Tensor, horizon: float, law: str) -> tuple[Tensor, Tensor]:
    """Times for uniform numbers u, and dt/du."""
    if law == "quadratic":
        t, weight = horizon * u.square(), 2 * horizon * u
    elif law == "linear":
        t, weight = horizon * u, torch.full_like(u, horizon)
    elif law == "cosine":
        angle = math.pi / 2 * u
        t, weight = horizon * (1 - angle.cos()), horizon * math.pi / 2 * angle.sin()
    else:
        raise InputError(f"time law {law!r} is not known", "use linear, quadratic or cosine")
    return t + T_MIN, weight
