"""Stacked networks: equal to single ones, and a member's bits do not depend on its neighbours."""

import doctest

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.models import stacked
from practicum.models.stacked import (
    StackedAdam,
    StackedMLP,
    Streams,
    clip_members,
    keep_memory,
    polyak,
    single_thread,
)
from practicum.models.training import load_checkpoint, save_checkpoint


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


def plain(net: StackedMLP, member: int, copy: int = 0) -> torch.nn.Sequential:
    """The same network of one member, of PyTorch's own modules."""
    layers = []
    last = len(net.weights) - 1
    for k, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        linear = torch.nn.Linear(w.shape[-2], w.shape[-1])
        linear.weight.data = w[copy, member].T.clone()
        linear.bias.data = b[copy, member, 0].clone()
        layers.append(linear)
        if k < last and net.layer_norm:
            norm = torch.nn.LayerNorm(w.shape[-1])
            norm.weight.data = net.gains[k][copy, member, 0].clone()
            norm.bias.data = net.shifts[k][copy, member, 0].clone()
            layers.append(norm)
        if k < last:
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def disturb(net: StackedMLP) -> StackedMLP:
    """Gains and shifts that are not one and zero."""
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in (*net.gains, *net.shifts):
            p.add_(0.3 * torch.randn(p.shape, generator=g))
    return net


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("out", [1, 3])
def test_every_member_is_the_plain_network(layer_norm, out):
    net = disturb(StackedMLP((5, 32, 16, out), seeds=[3, 4, 5], copies=2, layer_norm=layer_norm))
    x = torch.randn(3, 32, 5)
    y = net(x)
    assert y.shape == (2, 3, 32, out)
    for copy in range(2):
        for member in range(3):
            expected = plain(net, member, copy)(x[member])
            torch.testing.assert_close(y[copy, member], expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(net(x, copy=copy)[member], y[copy, member])


@pytest.mark.parametrize("layer_norm", [False, True])
def test_gradients_are_those_of_the_plain_network(layer_norm):
    net = disturb(StackedMLP((4, 16, 16, 1), seeds=[0, 1], layer_norm=layer_norm))
    x = torch.randn(2, 32, 4, requires_grad=True)
    (net(x).square().mean(dim=(1, 2))).sum().backward()
    for member in range(2):
        single = plain(net, member)
        z = x[member].detach().requires_grad_()
        single(z).square().mean().backward()
        torch.testing.assert_close(x.grad[member], z.grad, rtol=1e-4, atol=1e-6)
        weights = [m for m in single if isinstance(m, torch.nn.Linear)]
        norms = [m for m in single if isinstance(m, torch.nn.LayerNorm)]
        for k, linear in enumerate(weights):
            ours = net.weights[k].grad[0, member]
            torch.testing.assert_close(ours, linear.weight.grad.T, rtol=1e-4, atol=1e-6)
            ours = net.biases[k].grad[0, member, 0]
            torch.testing.assert_close(ours, linear.bias.grad, rtol=1e-4, atol=1e-6)
        for k, norm in enumerate(norms):
            ours = net.gains[k].grad[0, member, 0]
            torch.testing.assert_close(ours, norm.weight.grad, rtol=1e-4, atol=1e-6)


def test_normed_relu_by_finite_differences():
    h = torch.randn(2, 3, 16, dtype=torch.float64)
    h = (h - h.mean(-1, keepdim=True)).requires_grad_()
    gain = (1 + 0.1 * torch.randn(2, 1, 16, dtype=torch.float64)).requires_grad_()
    shift = (0.1 * torch.randn(2, 1, 16, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(stacked._NormedReLU.apply, (h, gain, shift), eps=1e-6)


def train(seeds, rates=None, *, layer_norm=True, out=1, batch=64, width=32, steps=30):
    """A few steps of a regression with clipping and a target network."""
    net = StackedMLP((3, width, width, out), seeds, copies=2, layer_norm=layer_norm)
    target = net.twin()
    lr = 1e-2 if rates is None else torch.tensor(rates)
    adam, streams = StackedAdam(net.parameters(), lr), Streams(seeds)
    for _ in range(steps):
        x = streams.normal(batch, 3)
        loss = (net(x) - x[..., :1].sin()).square().mean(dim=(0, 2, 3))
        loss.sum().backward()
        clip_members(net.parameters(), 0.5)
        adam.step()
        polyak(target, net, 0.05)
    return net, target


@settings(deadline=None, max_examples=8)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=9, unique=True),
    st.booleans(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([16, 48]),
    st.data(),
)
def test_a_member_has_the_same_bits_alone_and_in_a_stack(seeds, layer_norm, out, width, data):
    pick = data.draw(st.integers(0, len(seeds) - 1))
    kind = {"layer_norm": layer_norm, "out": out, "width": width}
    rates = [0.001 * (1 + s) for s in seeds] if data.draw(st.booleans()) else None
    with single_thread():
        net, target = train(seeds, rates, **kind)
        alone, own = train([seeds[pick]], rates and [rates[pick]], **kind)
    for whole, single in ((net, alone), (target, own)):
        for a, b in zip(whole.parameters(), single.parameters(), strict=True):
            assert torch.equal(a[:, pick : pick + 1], b)


def test_select_copies_members_in_order():
    net, _ = train([1, 2, 3], steps=3)
    chosen = net.select([2, 0, 2])
    for a, b in zip(net.parameters(), chosen.parameters(), strict=True):
        assert torch.equal(a[:, [2, 0, 2]], b)
    with torch.no_grad():
        chosen.weights[0].zero_()
    assert net.weights[0].abs().sum() > 0, "a copy, not a view"


def test_saved_member_acts_bit_identically(tmp_path):
    net, _ = train([1, 2], steps=3)
    save_checkpoint(tmp_path / "one.safetensors", net.state(1), {"sizes": net.sizes})
    state, config = load_checkpoint(tmp_path / "one.safetensors")
    loaded = StackedMLP.from_state(state, config["sizes"], copies=2, layer_norm=True)
    x = torch.randn(2, 32, 3)
    assert torch.equal(loaded(x[1:]), net(x)[:, 1:])
    with pytest.raises(InputError, match="do not fit"):
        StackedMLP.from_state(state, (4, 32, 32, 1), copies=2, layer_norm=True)


def test_adam_is_pytorchs():
    net, other = (StackedMLP((3, 16, 2), [0, 1]) for _ in range(2))
    ours = StackedAdam(net.parameters(), torch.tensor([3e-3, 3e-3]))
    theirs = torch.optim.Adam(other.parameters(), lr=3e-3)
    x = torch.randn(2, 32, 3)
    for _ in range(5):
        net(x).square().mean().backward()
        ours.step()
        theirs.zero_grad()
        other(x).square().mean().backward()
        theirs.step()
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_clipping_is_pytorchs_for_every_member():
    net = StackedMLP((3, 16, 1), [0, 1])
    scale = torch.tensor([1e-3, 1e3])
    (net(torch.ones(2, 32, 3)).mean(dim=(1, 2)) * scale).sum().backward()
    before = [p.grad.clone() for p in net.parameters()]
    norms = clip_members(net.parameters(), 0.5)
    for member in range(2):
        grads = [torch.nn.Parameter(g[:, member]) for g in before]
        for g, value in zip(grads, before, strict=True):
            g.grad = value[:, member].clone()
        total = torch.nn.utils.clip_grad_norm_(grads, 0.5)
        torch.testing.assert_close(norms[member], total)
        for p, g in zip(net.parameters(), grads, strict=True):
            torch.testing.assert_close(p.grad[:, member], g.grad)


def test_frozen_weights_take_no_gradient():
    net = StackedMLP((3, 16, 1), [0, 1], layer_norm=True)
    x = torch.randn(2, 32, 3, requires_grad=True)
    net(x, frozen=True).sum().backward()
    assert x.grad.abs().sum() > 0
    assert all(p.grad is None for p in net.parameters())


def test_xavier_and_default_first_weights():
    net = StackedMLP((100, 64, 1), [0], init="xavier")
    bound = (6 / 164) ** 0.5
    assert 0.95 * bound < net.weights[0].abs().max() <= bound
    assert all((b == 0).all() for b in net.biases)
    net = StackedMLP((100, 64, 1), [0])
    assert 0.095 < net.weights[0].abs().max() <= 0.1
    assert net.biases[0].abs().max() <= 0.1


def test_streams_pair_equal_seeds_and_bound_integers():
    streams = Streams([5, 6, 5])
    draws = streams.integers(torch.tensor([10, 1000, 20]), 500)
    assert draws[0].max() < 10
    assert draws[2].max() < 20
    assert draws.min() == 0
    assert torch.equal(draws[0], draws[2] // 2)
    u = streams.uniform(4, 2)
    assert torch.equal(u[0], u[2])
    assert not torch.equal(u[0], u[1])
    np.testing.assert_allclose(Streams([0]).normal(20_000).std().item(), 1, atol=0.02)


def test_refuses_bad_input():
    with pytest.raises(InputError, match="sizes"):
        StackedMLP((3,), [0])
    with pytest.raises(InputError, match="seeds"):
        StackedMLP((3, 1), [])
    with pytest.raises(InputError, match="backward"):
        clip_members(StackedMLP((3, 1), [0]).parameters(), 1.0)


def test_keep_memory_may_be_called_anywhere():
    keep_memory()
    keep_memory()


def test_examples():
    assert doctest.testmod(stacked).failed == 0
