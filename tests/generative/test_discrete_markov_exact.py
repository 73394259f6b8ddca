"""Bits by enumeration: identities, samplers' exact errors, the clock (the paper file's anchors)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from practicum.errors import InputError
from practicum.generative.discrete_markov import exact, process

T = 3.0


def random_law(d, seed):
    return np.random.default_rng(seed).dirichlet(np.full(2**d, 0.3)).reshape((2,) * d)


@pytest.mark.parametrize("t", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_score_is_a_conditional_expectation(d, t):
    mu0 = random_law(d, d)
    by_denoiser = process.discrete_score(exact.denoiser(mu0, t), math.exp(-2 * t))
    np.testing.assert_allclose(by_denoiser, exact.score(mu0, t), rtol=1e-10, atol=1e-10)


def test_the_denoiser_is_bayes_rule_over_all_pairs_of_states():
    d, t = 3, 0.4
    mu0, x = random_law(d, 1), exact.states(d)
    a = math.exp(-2 * t)
    kernel = np.prod(np.where(x[:, None] == x[None], (1 + a) / 2, (1 - a) / 2), axis=2)
    joint = mu0.ravel()[:, None] * kernel  # (x0, xt)
    differs = np.einsum("st,stl->tl", joint, x[:, None] != x[None]) / joint.sum(axis=0)[:, None]
    np.testing.assert_allclose(exact.denoiser(mu0, t), differs, rtol=1e-12)


@given(st.integers(0, 1000), st.floats(0.05, 3))
@settings(max_examples=25, deadline=None)
def test_the_score_has_mean_zero(seed, t):
    mu0 = random_law(4, seed)
    mean = exact.forward(mu0, t).ravel() @ exact.score(mu0, t)
    np.testing.assert_allclose(mean, 0, atol=1e-12)


def test_one_bit_in_closed_form():
    p, t = 0.2, 0.7
    a = math.exp(-2 * t)
    mu0 = np.array([1 - p, p])
    assert exact.forward(mu0, t)[1] == pytest.approx(0.5 + (p - 0.5) * a)
    rate = process.reverse_rates(exact.denoiser(mu0, t), a)[1, 0]
    assert rate == pytest.approx((0.5 - (p - 0.5) * a) / (0.5 + (p - 0.5) * a))


def test_kl_of_independent_bits_to_uniform():
    law = exact.product_law(np.array([0.1, 0.3, 0.5, 0.8, 0.95]))
    expected = {1.0: 0.0180752, 2.0: 3.30442e-4, 3.0: 6.05205e-6}
    for horizon, value in expected.items():
        found = exact.kl_from_uniform(exact.forward(law, horizon))
        assert found == pytest.approx(value, rel=1e-5)


def test_independent_bits_are_denoised_one_by_one():
    law = exact.product_law(np.array([0.2, 0.7, 0.5]))
    denoised, x = exact.denoiser(law, 0.5), exact.states(3)
    for bit in range(3):
        for value in (False, True):
            assert np.ptp(denoised[x[:, bit] == value, bit]) < 1e-12


@pytest.mark.parametrize("sampler", ["bridge", "renoise"])
def test_one_step_is_enough_for_independent_bits(sampler):
    law = exact.product_law(np.array([0.1, 0.3, 0.5, 0.8, 0.95]))
    # what is left is the start: uniform instead of mu_T, exp(-2 T) a bit
    drawn = exact.sample_law(law, process.time_grid(T, 1), sampler)
    assert exact.total_variation(drawn, law) < 1e-2
    drawn = exact.sample_law(law, process.time_grid(12.0, 1), sampler)
    assert exact.total_variation(drawn, law) < 1e-5


def test_frozen_rates_are_not_exact_for_independent_bits():
    law = exact.product_law(np.array([0.1, 0.3, 0.5, 0.8, 0.95]))
    for steps, value in ((1, 0.616), (40, 0.124)):
        drawn = exact.sample_law(law, process.time_grid(T, steps, "linear"), "frozen")
        assert exact.total_variation(drawn, law) == pytest.approx(value, abs=5e-4)


TABLE = {  # the paper file's: total variation at K = 5, 10, 20, 40, 80
    ("frozen", "linear"): (0.478, 0.415, 0.303, 0.189, 0.106),
    ("frozen", "quadratic"): (0.323, 0.189, 0.097, 0.047, 0.023),
    ("frozen", "cosine"): (0.343, 0.206, 0.107, 0.052, 0.025),
    ("bridge", "linear"): (0.435, 0.340, 0.221, 0.127, 0.066),
    ("bridge", "quadratic"): (0.239, 0.117, 0.052, 0.024, 0.011),
    ("bridge", "cosine"): (0.260, 0.130, 0.058, 0.026, 0.012),
    ("renoise", "quadratic"): (0.252, 0.147, 0.083, 0.051, 0.041),
}


@pytest.mark.parametrize(("sampler", "law"), TABLE)
def test_exact_errors_of_the_samplers(sampler, law):
    mu0 = np.random.default_rng(0).dirichlet(np.full(32, 0.3)).reshape((2,) * 5)
    for steps, value in zip((5, 10, 20, 40, 80), TABLE[sampler, law], strict=True):
        drawn = exact.sample_law(mu0, process.time_grid(T, steps, law), sampler)
        assert exact.total_variation(drawn, mu0) == pytest.approx(value, abs=1.01e-3)


@pytest.mark.parametrize("sampler", ["bridge", "frozen", "euler"])
def test_many_steps_reach_the_data(sampler):
    mu0 = random_law(3, 5)
    drawn = exact.sample_law(mu0, process.time_grid(T, 400), sampler)
    assert exact.total_variation(drawn, mu0) < 0.01


@given(st.floats(0, 2), st.floats(0, 2), st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_noise_composes(s, t, seed):
    mu0 = random_law(3, seed)
    twice = exact.forward(exact.forward(mu0, s), t)
    np.testing.assert_allclose(twice, exact.forward(mu0, s + t), atol=1e-12)


def test_relabelling_a_bit_relabels_everything():
    mu0, flip = random_law(3, 7), 1
    other = np.flip(mu0, flip)
    for sampler in process.SAMPLERS:
        a = exact.sample_law(mu0, process.time_grid(T, 6), sampler)
        b = exact.sample_law(other, process.time_grid(T, 6), sampler)
        np.testing.assert_allclose(np.flip(a, flip), b, atol=1e-12)


def test_samplers_flip_bits_as_the_law_says():
    """The pushed law against brute force over all pairs of states."""
    rng = np.random.default_rng(0)
    law, flips, x = rng.dirichlet(np.ones(8)), rng.random((8, 3)), exact.states(3)
    kernel = np.where(x[:, None] != x[None], flips[:, None], 1 - flips[:, None]).prod(axis=2)
    np.testing.assert_allclose(exact._flip_independently(law, flips), law @ kernel, atol=1e-14)


def test_the_clock_and_the_closed_form_draw_the_same_law():
    rng, n, t = np.random.default_rng(3), 40_000, 0.3
    start = np.array([True, False, True])
    law = exact.forward(exact.empirical_law(start[None]), t)
    for drawn in (
        process.clock(np.tile(start, (n, 1)), t, rng),
        process.noise(np.tile(start, (n, 1)), t, rng)[0],
    ):
        counts = exact.empirical_law(drawn).ravel() * n
        assert stats.chisquare(counts, law.ravel() * n).pvalue > 1e-3


def test_fourteen_bits_are_enumerated():
    mu0 = random_law(14, 0)
    assert exact.forward(mu0, 0.5).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: process.alpha(-1.0), "at least 0"),
        (lambda: process.time_grid(3.0, 0), "at least one call"),
        (lambda: process.time_grid(3.0, 4, "cubic"), "not known"),
        (lambda: process.flip_chance(0.5, 1.0, 0.5, "best"), "not known"),
        (lambda: process.flip_chance(0.5, 0.5, 1.0), "earlier"),
        (lambda: exact.states(20), "enumerated"),
        (lambda: exact.empirical_law(np.zeros((1, 20), bool)), "enumerated"),
        (lambda: exact.product_law(np.array([1.2])), r"\[0, 1\]"),
    ],
)
def test_bad_input_of_the_oracle(call, words):
    with pytest.raises(InputError, match=words):
        call()
