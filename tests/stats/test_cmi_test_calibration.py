"""Nulls: exact moments, all signs enumerated, refitting done the slow way, the self-check."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.stats.cmi_test import KernelSmoother, conditional_mean_test, statistic_matrix
from practicum.stats.cmi_test.calibration import (
    NullModel,
    RefitNull,
    empirical_size,
    multiplier_null,
    p_value,
    quadratic_form,
)


def symmetric(seed, n):
    a = np.random.default_rng(seed).normal(size=(n, n))
    a = a + a.T
    np.fill_diagonal(a, 0)
    return a


def test_all_signs_of_six_rows_agree_with_the_exact_moments():
    rng = np.random.default_rng(0)
    f = statistic_matrix(
        rng.normal(size=(6, 2)),
        rng.normal(size=(6, 1)),
        rng.normal(size=(6, 1)),
        rng.normal(size=(3, 6, 2)),
        np.zeros((6, 1)),
    )
    signs = np.array(list(product([-1.0, 1.0], repeat=6)))
    values = np.einsum("bi,ij,bj->b", signs, f, signs) / 5
    assert values.mean() == pytest.approx(0, abs=1e-12)
    assert values.std() == pytest.approx(np.sqrt(2 * (f**2).sum()) / 5)
    mean, spread = multiplier_null(f / 5, np.ones((6, 1))).moments()
    assert (mean, spread) == (pytest.approx(0), pytest.approx(values.std()))


@given(st.integers(0, 1000), st.integers(1, 3), st.booleans())
@settings(max_examples=20, deadline=None)
def test_moments_of_any_world_are_those_of_all_its_signs(seed, outputs, grouped):
    rng = np.random.default_rng(seed)
    n = 8
    form = symmetric(seed, n) + np.diag(rng.normal(size=n))
    fitted, noise = rng.normal(size=(2, n, outputs))
    groups = np.array([0, 0, 1, 2, 2, 2, 3, 4]) if grouped else None
    model = NullModel(form, fitted, fitted, noise, groups)
    free = 5 if grouped else n
    signs = np.array(list(product([-1.0, 1.0], repeat=free))).T
    signs = signs[groups] if grouped else signs
    values = quadratic_form(form, model.world(signs))
    mean, spread = model.moments()
    assert mean == pytest.approx(values.mean())
    assert spread == pytest.approx(values.std())


def test_a_batch_of_worlds_is_the_worlds_one_by_one():
    rng = np.random.default_rng(0)
    root = np.linalg.qr(rng.normal(size=(20, 3)))[0] * np.sqrt([0.9, 0.5, 0.1])
    for groups in (None, np.arange(20) // 2):
        refit = RefitNull(symmetric(1, 20), root, groups)
        outcomes = rng.normal(size=(20, 2, 4))
        batch = refit(outcomes)
        mean, spread = batch.moments()
        for b in range(4):
            alone = refit(outcomes[:, :, b].copy())
            assert float(alone.statistic) == pytest.approx(batch.statistic[b])
            assert alone.moments() == (pytest.approx(mean[b]), pytest.approx(spread[b]))


def test_the_refit_null_is_what_refitting_every_row_out_gives():
    """The statistic by deleting each row in turn, for a ridge regression with an intercept."""
    rng = np.random.default_rng(0)
    n, penalty = 15, 2.0
    z, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    z -= z.mean(axis=0)
    vectors, values, _ = np.linalg.svd(z, full_matrices=False)
    shrink = values**2 / (values**2 + penalty)
    root = np.column_stack([np.full(n, n**-0.5), vectors * np.sqrt(shrink)])
    pairs = symmetric(2, n)
    residual = np.empty((n, 1))
    for i in range(n):
        kept = np.arange(n) != i
        design = np.column_stack([np.ones(n), z])
        normal = design[kept].T @ design[kept] + penalty * np.diag([0, 1, 1])
        beta = np.linalg.solve(normal, design[kept].T @ y[kept])
        residual[i] = y[i] - design[i] @ beta
    refit = RefitNull(pairs, root)
    np.testing.assert_allclose(refit.residual(y), residual, atol=1e-10)
    assert float(refit(y).statistic) == pytest.approx(float((residual.T @ pairs @ residual)[0, 0]))


def test_groups_are_left_out_together():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    groups = np.repeat(np.arange(20), 2)
    smoother = KernelSmoother(("linear",)).fit(z, y, groups)
    refit = RefitNull(symmetric(0, 40), smoother.hat_root(), groups)
    np.testing.assert_allclose(refit.residual(y), smoother.left_out_, atol=1e-10)


def test_the_refit_null_is_the_multiplier_null_when_nothing_is_fitted():
    y = np.random.default_rng(0).normal(size=(30, 1))
    pairs = symmetric(0, 30)
    refit, flip = RefitNull(pairs, np.zeros((30, 1)))(y), multiplier_null(pairs, y)
    assert float(refit.statistic) == pytest.approx(float(flip.statistic))
    np.testing.assert_allclose(
        refit.draw(50, np.random.default_rng(1)), flip.draw(50, np.random.default_rng(1)), rtol=1e-4
    )


def test_p_value_is_never_zero_and_counts_ties():
    assert p_value(10.0, np.arange(9.0)) == 0.1
    assert p_value(0.0, np.zeros(9)) == 1.0
    assert p_value(1.0 + 1e-13, np.ones(9)) == 1.0
    with pytest.raises(ValueError, match="empty"):
        p_value(1.0, np.array([]))


def test_the_self_check_agrees_with_a_double_bootstrap():
    """Its shortcut (exact moments, the shape of one null) against drawing every inner null."""
    rng = np.random.default_rng(0)
    n = 80
    z = rng.normal(size=(n, 10))
    y = z[:, :1] + rng.normal(size=(n, 1))
    smoother = KernelSmoother(("linear",)).fit(z, y)
    x = standard = rng.normal(size=(n, 2))
    pairs = np.exp(-np.abs(x[:, None] - standard).sum(2))
    pairs -= pairs.mean(axis=0) + pairs.mean(axis=0)[:, None] - pairs.mean()
    np.fill_diagonal(pairs, 0)
    refit = RefitNull(pairs, smoother.hat_root())

    def flip(outcomes):
        return multiplier_null(pairs, refit.residual(outcomes))

    outer = refit(y)
    for inner in (refit, flip):
        model = inner(y)
        quick = empirical_size(outer, model.draw(1999, rng), inner, 2000, rng)
        slow = []
        for column in outer.signs(500, rng).T:
            world = inner(outer.fitted + outer.noise * column[:, None])
            slow.append(p_value(float(world.statistic), world.draw(199, rng)) <= 0.05)
        assert abs(quick - np.mean(slow)) < 0.03


def test_the_self_check_sees_over_rejection():
    """Multipliers on in-sample residuals of a saturated regression: far too many false alarms."""
    rng = np.random.default_rng(0)
    n, q = 80, 40
    root = np.linalg.qr(rng.normal(size=(n, q)))[0]
    y = rng.normal(size=(n, 1))
    x = rng.normal(size=(n, 1))
    x -= root @ (root.T @ x)
    pairs = x @ x.T
    np.fill_diagonal(pairs, 0)
    refit = RefitNull(pairs, root)

    def in_sample(outcomes):
        flat = outcomes.reshape(n, -1)
        return multiplier_null(pairs, (flat - root @ (root.T @ flat)).reshape(outcomes.shape))

    null = in_sample(y).draw(999, rng)
    assert empirical_size(refit(y), null, in_sample, 1000, rng) > 0.1


def test_two_identical_outcomes_give_the_p_value_of_one():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 2))
    x, y = z + rng.normal(size=(100, 2)), z[:, 0] + rng.normal(size=100)
    one = conditional_mean_test(x, y, z, random_state=3)
    two = conditional_mean_test(x, np.column_stack([y, y]), z, random_state=3)
    assert one.pvalue == two.pvalue
    assert two.statistic == pytest.approx(2 * one.statistic)
