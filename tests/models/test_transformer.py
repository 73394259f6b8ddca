"""The small decoder: cache, attention, rotations, learning by copying, several at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.models.transformer import (
    IGNORE,
    Cache,
    Decoder,
    DecoderConfig,
    Training,
    rotate,
    torch,
    train,
    train_stacked,
    turns,
)

SHAPES = [
    DecoderConfig(17, 32, 2, 4),
    DecoderConfig(17, 32, 3, 2, mlp="gelu", tied=False),
    DecoderConfig(17, 16, 1, 1, d_ff=24, rope_base=50.0),
    DecoderConfig(17, 32, 2, 4, smeared=True),
]


def tokens(n, t, vocab=17, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(vocab, size=(n, t)))


# --- one forward pass, three ways ----------------------------------------------------------------


@pytest.mark.parametrize("config", SHAPES)
def test_the_cache_changes_nothing(config):
    net, row = Decoder(config, seed=0), tokens(3, 30)
    with torch.inference_mode():
        whole = net(row)
        cache, parts = Cache(), []
        for start, end in ((0, 7), (7, 8), (8, 20), (20, 30)):
            parts.append(net(row[:, start:end], cache))
    assert cache.length == 30
    assert (torch.cat(parts, dim=1) - whole).abs().max() < 1e-5


@pytest.mark.parametrize("config", SHAPES)
def test_generation_equals_the_full_forward(config):
    net, prompt = Decoder(config, seed=1), tokens(4, 9)
    new = net.generate(prompt, 25)
    row = prompt
    with torch.inference_mode():
        for k in range(25):
            following = net(row)[:, -1].argmax(dim=-1)
            assert (following == new[:, k]).all()
            row = torch.cat([row, following[:, None]], dim=1)


@pytest.mark.parametrize("config", [SHAPES[0], SHAPES[3]])
def test_prompts_of_different_lengths_are_continued_as_if_alone(config):
    net = Decoder(config, seed=2)
    prompts = [tokens(1, t, seed=t)[0] for t in (3, 11, 1, 7)]
    together = net.generate(prompts, 12)
    for prompt, row in zip(prompts, together, strict=True):
        assert (net.generate(prompt[None], 12)[0] == row).all()
    with torch.inference_mode():  # and the logits are the same to 1e-5
        cache = Cache(torch.tensor([[True] * 4 + [False] * 3, [False] * 7]))
        padded = torch.stack([torch.nn.functional.pad(prompts[0], (4, 0)), prompts[3]])
        first = net(padded, cache)[0, -1]
        assert (first - net(prompts[0][None])[0, -1]).abs().max() < 1e-5


@pytest.mark.parametrize("config", SHAPES)
def test_attention_maps_are_causal_and_give_the_same_stream(config):
    net, row = Decoder(config, seed=0), tokens(2, 12)
    maps = net.attention_maps(row)
    assert maps.shape == (config.n_layers, 2, config.n_heads, 12, 12)
    assert torch.allclose(maps.sum(dim=-1), torch.ones(()), atol=1e-5)
    assert (maps.triu(1) == 0).all()


def test_the_future_is_not_seen():
    net, row = Decoder(SHAPES[0], seed=0), tokens(1, 20)
    other = row.clone()
    other[0, 12:] = (other[0, 12:] + 1) % 17
    with torch.inference_mode():
        assert torch.equal(net(row)[:, :12], net(other)[:, :12])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 40))
def test_rotated_products_depend_on_the_distance_alone(i, j, shift):
    q, k = torch.randn(2, 1, 1, 1, 16, generator=torch.Generator().manual_seed(0))
    cos, sin = turns(120, 16)

    def product(a, b):
        return (
            rotate(q, cos[a : a + 1], sin[a : a + 1]) * rotate(k, cos[b : b + 1], sin[b : b + 1])
        ).sum()

    assert product(i, j) == pytest.approx(float(product(i + shift, j + shift)), abs=1e-4)


def test_only_targets_that_are_learned_count():
    net, row = Decoder(SHAPES[0], seed=0), tokens(3, 10)
    targets = torch.full_like(row, IGNORE)
    targets[:, 4] = row[:, 5]
    logits = net(row)[:, 4]
    wanted = torch.nn.functional.cross_entropy(logits, row[:, 5])
    assert net.loss(row, targets).item() == pytest.approx(wanted.item(), abs=1e-6)


# --- training ------------------------------------------------------------------------------------


def repeated(step, n=16, half=12, vocab=16):
    """A random string twice: the second half can be copied, the first cannot be known."""
    rng = np.random.default_rng([7, step])
    first = rng.integers(vocab, size=(n, half))
    row = torch.from_numpy(np.concatenate([first, first], axis=1))
    targets = row[:, 1:].clone()
    targets[:, : half - 1] = IGNORE
    return row[:, :-1], targets


def test_copying_is_learned_and_generated_from_the_cache():
    net = Decoder(DecoderConfig(16, 48, 2, 4, rope_base=100.0), seed=0)
    losses = train(net, repeated, Training(steps=400, lr=4e-3))
    assert losses[-1] < 0.3 * losses[0]
    row, _ = repeated(10**6)
    first = row[:, :12]
    # shown a string and its beginning, it goes on
    prompt = torch.cat([first, first[:, :2]], dim=1)
    assert (net.generate(prompt, 10) == first[:, 2:]).double().mean() > 0.9
    looks = net.attention_maps(row)[:, :, :, 14:20]  # of the second half
    offset = torch.arange(14, 20)[:, None] - torch.arange(row.shape[1])
    back = torch.where(offset == 11, looks, 0).sum(dim=-1).mean(dim=(1, 3))
    assert back.max() > 0.3  # a head that looks at what followed last time


def looked_up(step, n=32, pairs=8, vocab=24):
    """Pairs of a key and a value, new in every row and in any order, then a key that was shown."""
    rng = np.random.default_rng([8, step])
    symbols = rng.random((n, vocab)).argsort(axis=1)[:, :8]
    shown = rng.integers(4, size=(n, pairs))
    asked = shown[np.arange(n), rng.integers(pairs, size=n)]
    which = np.concatenate([shown, asked[:, None]], axis=1)
    keys, values = (np.take_along_axis(symbols, which + k, axis=1) for k in (0, 4))
    row = torch.from_numpy(np.stack([keys, values], axis=2).reshape(n, -1))
    return row[:, :-1], row[:, 1:]


def test_induction_is_learned_by_content_not_by_place():
    """The answer stands at another distance in every row: 1/4 is what guessing gets."""
    net = Decoder(DecoderConfig(24, 48, 2, 4, mlp="gelu", d_ff=48, smeared=True), seed=0)
    train(net, looked_up, Training(steps=500, lr=4e-3))
    tokens, targets = looked_up(10**6, n=400)
    with torch.inference_mode():
        right = net(tokens)[:, -1].argmax(dim=-1) == targets[:, -1]
    assert right.double().mean() > 0.8
    assert (net.generate(tokens, 1)[:, 0] == targets[:, -1]).double().mean() > 0.8


def test_training_is_repeatable_and_leaves_torch_s_seed_alone():
    state = torch.random.get_rng_state()
    runs = []
    for _ in range(2):
        net = Decoder(SHAPES[0], seed=4)
        runs.append(train(net, lambda k: repeated(k, 4), Training(steps=5)))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert torch.equal(state, torch.random.get_rng_state())


def test_averaged_weights_are_left_in_the_network():
    plain, averaged = (Decoder(SHAPES[0], seed=0) for _ in range(2))
    for net, ema in ((plain, 0.0), (averaged, 0.9)):
        train(net, lambda k: repeated(k, 4), Training(steps=10, ema=ema))
    assert not torch.equal(plain.embedding.weight, averaged.embedding.weight)


def test_stacked_training_is_training_one_by_one():
    config, plan = DecoderConfig(16, 16, 2, 2), Training(steps=8, lr=1e-3)
    together = [Decoder(config, seed=k) for k in range(3)]
    alone = [Decoder(config, seed=k) for k in range(3)]

    def batches(step):
        rows = [repeated(100 * k + step, 4) for k in range(3)]
        return tuple(torch.stack(part) for part in zip(*rows, strict=True))

    stacked = train_stacked(together, batches, plan)
    for k, net in enumerate(alone):
        losses = train(net, lambda step, k=k: repeated(100 * k + step, 4), plan)
        np.testing.assert_allclose(stacked[k], losses, rtol=1e-4)
        for a, b in zip(net.parameters(), together[k].parameters(), strict=True):
            assert (a - b).abs().max() < 1e-3


def test_weights_are_saved_and_loaded(tmp_path):
    for config in SHAPES:
        net = Decoder(config, seed=0)
        net.save(tmp_path / "net.safetensors", note="x")
        again = Decoder.load(tmp_path / "net.safetensors")
        assert again.config == config
        assert torch.equal(net(tokens(1, 5)), again(tokens(1, 5)))


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(InputError, match="heads of even width"):
        DecoderConfig(5, d_model=30, n_heads=4)
    with pytest.raises(InputError, match="vocab=0"):
        DecoderConfig(0)
    with pytest.raises(InputError, match="d_ff=0"):
        DecoderConfig(5, d_ff=0)
    net = Decoder(SHAPES[0], seed=0)
    with pytest.raises(InputError, match="a prompt is empty"):
        net.generate([torch.tensor([], dtype=torch.long)], 3)
    with pytest.raises(InputError, match="max_new=0"):
        net.generate(tokens(1, 3), 0)
    with pytest.raises(InputError, match="diverged at step"):
        train(net, lambda k: repeated(k, 4), Training(steps=20, lr=1e6, warmup=1))
    with pytest.raises(InputError, match="one configuration"):
        train_stacked([Decoder(c, seed=0) for c in SHAPES], lambda k: (), Training(steps=1))
    with pytest.raises(InputError, match="averaged weights"):
        train_stacked([net], lambda k: (), Training(steps=1, ema=0.9))
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="no model of Practicum's"):
        Decoder.load(tmp_path / "x.safetensors")


def test_a_stop_token_ends_a_row():
    net = Decoder(DecoderConfig(4, 16, 1, 2), seed=3)
    rows = net.generate(tokens(6, 4, vocab=4), 40, temperature=1.0, stop=0, seed=0)
    for row in rows.tolist():
        if 0 in row:
            assert set(row[row.index(0) :]) == {0}
    assert torch.equal(
        rows, net.generate(tokens(6, 4, vocab=4), 40, temperature=1.0, stop=0, seed=0)
    )


def test_a_network_that_has_generated_can_still_be_trained():
    """On what it wrote; what it keeps for later was made without gradients."""
    network = Decoder(DecoderConfig(vocab=4, d_model=16), seed=0)
    with torch.inference_mode():
        network(torch.tensor([[1, 2]]))
    row = network.generate(torch.tensor([[1, 2]]), 9)
    losses = train(network, lambda step: (row[:, :-1], row[:, 1:]), Training(steps=3, warmup=1))
    assert np.isfinite(losses).all()
