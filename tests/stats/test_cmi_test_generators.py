"""Samplers of X given Z: they follow the law they are fitted to."""

import numpy as np
import pytest
from scipy import stats

from practicum.errors import InputError
from practicum.stats.cmi_test import GaussianConditional, GaussianDesign, ResidualSampler
from practicum.stats.cmi_test.simulate import DESIGNS


def test_the_gaussian_conditional_is_the_second_block_given_the_first():
    """The official code had them the other way round, which symmetry hides in the size alone."""
    design = GaussianDesign("null")
    law = design.conditional
    rng = np.random.default_rng(0)
    x, _, z = design.draw(20_000, rng)
    residual = x - law.mean(z)
    assert np.abs(residual.T @ z / len(z)).max() < 0.05
    np.testing.assert_allclose(np.cov(residual.T), law.covariance, atol=0.06)
    assert np.abs(law.slope[-1, 0]) > 0.25  # the first column of X follows the last of Z
    assert np.abs(law.slope[0, -1]) < 1e-6


def test_exact_draws_have_the_conditional_mean_and_covariance():
    law = GaussianConditional(np.array([[1.0, 0.5, 0.2], [0.5, 2.0, 0.3], [0.2, 0.3, 1.0]]), 1)
    draws = law.sample(np.array([[1.5]]), 40_000, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose(draws.mean(axis=0), [0.75, 0.3], atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), law.covariance, atol=0.05)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_known_mean_of_a_design_is_its_conditional_mean(name):
    """At one z, by simulation of X given z."""
    design = GaussianDesign(name, 0.5, d=12)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1, 12))
    x = design.conditional.sample(z, 60_000, rng)[:, 0]
    signal = x @ design.effect
    if name.startswith("even"):
        signal = signal**2
    expected = z[0, 0] + z[0, 1] + signal.mean()
    assert design.mean_given_z(z)[0, 0] == pytest.approx(expected, abs=0.02)


def test_borrowed_residuals_keep_mean_spread_and_dependence():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 1))
    noise = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 600)
    x = np.column_stack([np.sin(2 * z[:, 0]), z[:, 0]]) + noise
    sampler = ResidualSampler().fit(x, z)
    draws = np.concatenate([sampler.sample_left_out(1, rng)[0] - sampler.mean_left_out] * 1)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(0.8, abs=0.06)
    new = sampler.sample(np.array([[0.5]]), 3000, rng)[:, 0]
    np.testing.assert_allclose(new.mean(axis=0), [np.sin(1.0), 0.5], atol=0.25)
    assert sampler.r2[0] > 0.15


def test_no_row_borrows_its_own_residual():
    rng = np.random.default_rng(0)
    z, x = rng.normal(size=(80, 1)), rng.normal(size=(80, 1))
    sampler = ResidualSampler().fit(x, z)
    draws = sampler.sample_left_out(300, rng)
    own = sampler.mean_left_out + sampler.pool
    assert not np.isclose(draws, own).any()


def test_two_valued_columns_are_drawn_as_such_with_their_probability():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 1))
    chance = 1 / (1 + np.exp(-2 * z[:, 0]))
    switch = rng.random(1500) < chance
    x = np.column_stack([np.where(switch, 5.0, 2.0), z[:, 0] + rng.normal(size=1500)])
    sampler = ResidualSampler().fit(x, z)
    assert sampler.pool is None
    draws = sampler.sample_left_out(60, rng)
    assert set(np.unique(draws[:, :, 0])) == {2.0, 5.0}
    high = np.abs(z[:, 0] - 1) < 0.2
    assert (draws[:, high, 0] == 5).mean() == pytest.approx(chance[high].mean(), abs=0.06)


def test_the_law_of_the_draws_is_the_law_of_x():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 1))
    x = z + rng.exponential(1.0, (400, 1))
    fitted, held = ResidualSampler().fit(x[:200], z[:200]), slice(200, None)
    drawn = fitted.sample(z[held], 1, rng)[0]
    assert stats.ks_2samp(drawn[:, 0] - z[held, 0], x[held, 0] - z[held, 0]).pvalue > 0.01


def test_bad_input_covariance_and_design():
    with pytest.raises(InputError, match="positive definite"):
        GaussianConditional(np.array([[1.0, 2.0], [2.0, 1.0]]), 1)
    with pytest.raises(InputError, match="even-sparse"):
        GaussianDesign("odd")
