"""Many small networks trained in one process: arms x seeds as one more axis of every tensor.

A network of 64 units keeps a core waiting for Python most of the time. Here ``S`` members lie in
one tensor for each layer, weights ``(C, S, in, out)``, and every layer is one ``torch.baddbmm``:
five seeds of four arms cost little more than one. ``C`` counts copies within a member (the twin
critics of TD3, say).

**A member's numbers do not depend on its neighbours**, to the last bit, on a CPU with one thread
(:func:`single_thread`), as long as hidden widths are multiples of 16 and batches of 32. Why these:
matrix products round differently when a member's block is not aligned to 64 bytes, and PyTorch's
sigmoid, softplus and fused Adam handle the last few elements of a tensor by another routine than
the rest. Random numbers come from one generator for each *seed* (:class:`Streams`), so members that
share a seed are paired and adding a member changes nothing for the others.

Every loss is a sum over members of each one's own mean: gradients then belong to one member each.

Examples
--------
>>> import torch
>>> net = StackedMLP((3, 16, 1), seeds=[0, 1, 2])  # three members
>>> x = torch.zeros(3, 32, 3)
>>> net(x).shape
torch.Size([3, 32, 1])
>>> optimizer = StackedAdam(net.parameters(), lr=torch.tensor([1e-3, 1e-3, 1e-2]))
>>> loss = (net(x) - 1).square().mean(dim=(1, 2))  # one for each member
>>> loss.sum().backward()
>>> optimizer.step()
>>> alone = net.select([1])  # the second member
>>> bool((alone(x[1:2]) == net(x)[1:2]).all())
True
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.models.training import Tensor, nn, torch, torch_generator

BLOCK = 32  # elements that PyTorch's vectorised kernels take at a time, at most
NORM_EPS = 1e-5  # LayerNorm's


@contextmanager
def single_thread() -> Iterator[None]:
    """One thread for PyTorch inside: sums are then split in one way only, whatever the machine.

    Examples
    --------
    >>> with single_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_memory() -> None:
    """Ask the C library to keep freed memory for the next tensor; does nothing where it cannot.

    glibc returns blocks above some 100 KB to the system, which then clears every page again: on
    stacked tensors that takes longer than the arithmetic.

    Examples
    --------
    >>> keep_memory()
    """
    with suppress(OSError, AttributeError, TypeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: keep up to 2 GB
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD: its largest value


class StackedMLP(nn.Module):
    """Multilayer perceptrons of one shape, ReLU between layers, side by side.

    Parameters
    ----------
    sizes : sequence of int
        Widths from input to output.
    seeds : sequence of int
        One member for each; a member's first weights depend on its seed alone.
    copies : int
        Networks within a member, with different first weights (twin critics: 2).
    layer_norm : bool
        LayerNorm (Ba et al. 2016, with gain and shift) before each ReLU.
    init : {"torch", "xavier"}
        ``torch.nn.Linear``'s uniform ±1/sqrt(in) for weights and biases, or Xavier-uniform weights
        and zero biases.

    Attributes
    ----------
    weights : list of Parameter, (copies, members, in, out)
    biases : list of Parameter, (copies, members, 1, out)
    gains, shifts : list of Parameter, (copies, members, 1, out)
        Of LayerNorm; empty without it.

    Examples
    --------
    >>> twin = StackedMLP((4, 32, 32, 1), seeds=range(5), copies=2, layer_norm=True)
    >>> twin(torch.randn(5, 64, 4)).shape
    torch.Size([2, 5, 64, 1])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        *,
        copies: int = 1,
        layer_norm: bool = False,
        init: Literal["torch", "xavier"] = "torch",
    ) -> None:
        super().__init__()
        if len(sizes) < 2 or min(sizes) < 1:
            raise InputError(f"sizes={tuple(sizes)}: an input and an output width, at least")
        if not len(seeds):
            raise InputError("seeds is empty: one member for each seed")
        self.sizes, self.copies, self.members = tuple(sizes), copies, len(seeds)
        self.layer_norm = layer_norm
        drawn = [self._draw(torch_generator(seed), init) for seed in seeds]
        weights, biases = zip(*drawn, strict=True)
        self.weights = _parameters(torch.stack(w, dim=1) for w in zip(*weights, strict=True))
        self.biases = _parameters(torch.stack(b, dim=1) for b in zip(*biases, strict=True))
        normed = [b for b in self.biases[:-1] if layer_norm]
        self.gains = _parameters(torch.ones_like(b) for b in normed)
        self.shifts = _parameters(torch.zeros_like(b) for b in normed)

    def _draw(self, generator: torch.Generator, init: str) -> tuple[list[Tensor], list[Tensor]]:
        """One member's first weights, layer by layer."""
        weights, biases = [], []
        for fan_in, fan_out in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            xavier = init == "xavier"
            bound = (6 / (fan_in + fan_out)) ** 0.5 if xavier else fan_in**-0.5
            shape = (self.copies, fan_in + (not xavier), fan_out)
            drawn = (2 * torch.rand(shape, generator=generator) - 1) * bound
            weights.append(drawn[:, :fan_in])
            biases.append(torch.zeros(self.copies, 1, fan_out) if xavier else drawn[:, fan_in:])
        return weights, biases

    def forward(
        self, x: Float[Tensor, "s b i"], copy: int | None = None, frozen: bool = False
    ) -> Float[Tensor, "*c s b o"]:
        """Every member on its own batch.

        Parameters
        ----------
        x : tensor (members, batch, in)
        copy : int, optional
            Only this copy; the result then has no axis of copies. Nor has it with one copy.
        frozen : bool
            Gradients reach ``x`` but not the weights.

        Returns
        -------
        tensor ([copies,] members, batch, out)
        """
        single = copy is not None or self.copies == 1

        def part(parameter: Tensor) -> Tensor:
            parameter = parameter.detach() if frozen else parameter
            return parameter[copy or 0] if single else parameter.flatten(0, 1)

        h = x if single else x.expand(self.copies, *x.shape).reshape(-1, *x.shape[1:])
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            normed = self.layer_norm and k < last
            h = _affine(h, part(weight), part(bias), centred=normed)
            if normed:
                h = _NormedReLU.apply(h, part(self.gains[k]), part(self.shifts[k]))
            elif k < last:
                h = torch.relu(h)
        return h if single else h.unflatten(0, (self.copies, self.members))

    def select(self, members: Sequence[int]) -> StackedMLP:
        """A network of these members only (a copy, in this order)."""
        index = torch.as_tensor(list(members))
        chosen = self._like(len(index))
        for own, new in zip(self.parameters(), chosen.parameters(), strict=True):
            new.data = own.detach()[:, index.to(own.device)].clone()
        return chosen

    def twin(self) -> StackedMLP:
        """A copy that takes no gradients: a target network for :func:`polyak`."""
        return self.select(range(self.members)).requires_grad_(False)

    def _like(self, members: int) -> StackedMLP:
        return StackedMLP(self.sizes, [0] * members, copies=self.copies, layer_norm=self.layer_norm)

    def state(self, member: int) -> dict[str, Tensor]:
        """One member's tensors, for ``practicum.models.training.save_checkpoint``."""
        return dict(self.select([member]).state_dict())

    @classmethod
    def from_state(
        cls, state: Mapping[str, Tensor], sizes: Sequence[int], **options: Any
    ) -> StackedMLP:
        """The network whose :meth:`state` was saved; ``options`` as in the constructor.

        Raises
        ------
        InputError
            If the tensors are not those of such a network.
        """
        net = cls(sizes, [0], **options)
        try:
            net.load_state_dict(dict(state))
        except RuntimeError as error:
            raise InputError(f"the saved tensors do not fit layers {tuple(sizes)}") from error
        return net


def _parameters(tensors: Iterable[Tensor]) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(t.contiguous()) for t in tensors)


def _affine(x: Tensor, weight: Tensor, bias: Tensor, centred: bool) -> Tensor:
    """x W + b for every member, less its mean over the outputs where that is asked for."""
    if weight.shape[-1] == 1:
        # a product with one column is waiting for memory: a multiplication and a sum are faster,
        # and round alike for one member (where the library would change to another kernel)
        return (x * weight.transpose(1, 2)).sum(dim=-1, keepdim=True) + bias
    if centred:  # cheaper on the weights than on what comes out
        weight = weight - weight.mean(dim=-1, keepdim=True)
        bias = bias - bias.mean(dim=-1, keepdim=True)
    return torch.baddbmm(bias, x, weight)


class _NormedReLU(torch.autograd.Function):
    """relu(gain h / rms(h) + shift) of centred h: the rest of LayerNorm, and its gradient.

    PyTorch's own kernel takes no gain for each member, and half of a training step.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
        scale = norm.square_().div_(h.shape[-1]).add_(NORM_EPS).rsqrt_()
        normed = h * scale
        out = torch.addcmul(shift, normed, gain).relu_()
        ctx.save_for_backward(normed, scale, gain, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        normed, scale, gain, out = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward(grad, out, 0)
        product = grad * normed
        grads = [None, None]
        if ctx.needs_input_grad[1]:
            grads = [product.sum(dim=1, keepdim=True), grad.sum(dim=1, keepdim=True)]
        along = product.mul_(gain).mean(dim=-1, keepdim=True)
        return grad.mul_(gain).addcmul_(normed, along, value=-1).mul_(scale), *grads


class StackedAdam:
    """Adam (Kingma & Ba 2015) on stacked parameters, a learning rate for each member.

    Parameters
    ----------
    parameters : iterable of Parameter, (copies, members, ...)
    lr : float or tensor (members,)
    betas, eps : as in ``torch.optim.Adam``

    Examples
    --------
    >>> net = StackedMLP((2, 16, 1), seeds=[0, 1])
    >>> optimizer = StackedAdam(net.parameters(), lr=torch.tensor([0.0, 0.1]))
    >>> before = net.select([0, 1])
    >>> net(torch.ones(2, 32, 2)).sum().backward(); optimizer.step()
    >>> moved = (net.weights[0] != before.weights[0]).flatten(2).any(dim=2)
    >>> moved.tolist()
    [[False, True]]
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Float[Tensor, " s"],
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.rates = None
        moving = self.parameters
        if isinstance(lr, Tensor):
            # the fused kernel knows one rate: let it write steps of rate 1, and scale those
            self.rates = [_over_members(lr.to(p), p) for p in self.parameters]
            moving = [torch.zeros_like(p).requires_grad_() for p in self.parameters]
            lr = 1.0
        self.moving = moving
        # the fused kernel rounds the last few elements of a tensor differently now and then
        whole = [p for p in moving if p[0, 0].numel() % BLOCK == 0]
        rest = [p for p in moving if p[0, 0].numel() % BLOCK]
        self.adams = [
            torch.optim.Adam(part, lr=lr, betas=betas, eps=eps, **how)
            for part, how in ((whole, {"fused": True}), (rest, {"foreach": True}))
            if part
        ]

    def step(self) -> None:
        """Move along the gradients, which are cleared."""
        if self.rates is not None:
            for step, p in zip(self.moving, self.parameters, strict=True):
                step.grad = p.grad
        for adam in self.adams:
            adam.step()
        if self.rates is not None:
            self._take(self.rates)
        for p in (*self.parameters, *self.moving):
            p.grad = None

    @torch.no_grad()
    def _take(self, rates: list[Tensor]) -> None:
        for step, p, rate in zip(self.moving, self.parameters, rates, strict=True):
            p.addcmul_(step, rate)
            step.zero_()


def _over_members(values: Tensor, parameter: Tensor) -> Tensor:
    """(members,) shaped to multiply a parameter (copies, members, ...)."""
    return values.reshape(1, -1, *[1] * (parameter.ndim - 2))


@torch.no_grad()
def clip_members(parameters: Iterable[Tensor], max_norm: float) -> Float[Tensor, " s"]:
    """Scale each member's gradient to a norm of at most ``max_norm``; the norms before.

    As ``torch.nn.utils.clip_grad_norm_`` does for one network: by max_norm/(norm + 1e-6) where
    that is below 1.

    Examples
    --------
    >>> net = StackedMLP((2, 16, 1), seeds=[0, 1])
    >>> (net(torch.ones(2, 32, 2)).sum(dim=(1, 2)) * torch.tensor([0.0, 100.0])).sum().backward()
    >>> clip_members(net.parameters(), 0.5).gt(0.5).tolist()
    [False, True]
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        raise InputError("no gradients to clip: call backward first")
    squares = [part for g in grads for part in g.square().flatten(2).sum(dim=2)]
    total = squares[0]
    for part in squares[1:]:  # one after another: a sum over an axis rounds by what lies beside it
        total = total + part
    norms = total.sqrt()
    scale = (max_norm / (norms + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(_over_members(scale, g))
    return norms


@torch.no_grad()
def polyak(target: nn.Module, source: nn.Module, rate: float) -> None:
    """target <- (1 - rate) target + rate source (Polyak averaging).

    Examples
    --------
    >>> net = StackedMLP((1, 16, 1), seeds=[0]); target = net.twin()
    >>> polyak(target, net, 0.005)
    """
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), rate)


class Streams:
    """Random numbers for every member from a generator of its seed; equal seeds share one.

    Parameters
    ----------
    seeds : sequence of int
        One for each member.
    device : torch.device or str
        Where the numbers are needed; they are drawn on the CPU, the same on every machine.

    Examples
    --------
    >>> z = Streams([7, 7, 8]).normal(4)
    >>> bool((z[0] == z[1]).all()), bool((z[0] == z[2]).any())
    (True, False)
    >>> bool((Streams([8]).normal(4) == z[2:]).all())
    True
    """

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        distinct = list(dict.fromkeys(seeds))
        self.generators = [torch_generator(seed) for seed in distinct]
        self.of = torch.tensor([distinct.index(seed) for seed in seeds])
        self.device = torch.device(device)
        self.apart = len(distinct) == len(seeds)

    def _each(self, draw: Any) -> Tensor:
        drawn = torch.stack([draw(g) for g in self.generators])
        return drawn if self.apart else drawn[self.of]

    def normal(self, *shape: int) -> Float[Tensor, "s ..."]:
        """Standard normal numbers, (members, *shape)."""
        return self._each(lambda g: torch.randn(shape, generator=g)).to(self.device)

    def uniform(self, *shape: int) -> Float[Tensor, "s ..."]:
        """Uniform on [0, 1), (members, *shape)."""
        return self._each(lambda g: torch.rand(shape, generator=g)).to(self.device)

    def integers(self, high: Int[Tensor, " s"], *shape: int) -> Int[Tensor, "s ..."]:
        """Uniform on 0..high-1, each member with its own ``high``, (members, *shape)."""
        u = self._each(lambda g: torch.rand(shape, generator=g, dtype=torch.float64))
        return (u * high.cpu().reshape(-1, *[1] * len(shape))).long().to(self.device)
