"""The statistic's matrix: against the naive loop, its invariances, its limits."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.stats.cmi_test import GaussianConditional, conditional_mean_test, statistic_matrix
from practicum.stats.cmi_test.calibration import multiplier_null, p_value
from practicum.stats.cmi_test.kernels import (
    centred_kernel,
    laplace_kernel,
    median_bandwidth,
    pair_matrix,
    pooled_kernel,
    standardise,
)


def sample(seed, n=8, m=3, d=2, k=2, q=2):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, d)),
        rng.normal(size=(n, k)),
        rng.normal(size=(n, q)),
        rng.normal(size=(m, n, d)),
        rng.normal(size=(n, k)),
    )


def kernel(a, b, sigma):
    return np.exp(-np.abs(a - b).sum() / sigma)


def naive(x, y, z, draws, y_hat):
    """Algorithm 1 of the paper, literally."""
    n, m = len(x), len(draws)
    distances = {
        name: np.array([[np.abs(a - b).sum() for b in v] for a in v])
        for name, v in (("x", x), ("z", z))
    }
    sigma = {name: np.sort(d.ravel())[(d.size - 1) // 2] for name, d in distances.items()}
    f = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            u = kernel(x[i], x[j], sigma["x"])
            for draw in draws:
                u -= kernel(x[i], draw[j], sigma["x"]) / m
                u -= kernel(draw[i], x[j], sigma["x"]) / m
                u += kernel(draw[i], draw[j], sigma["x"]) / m
            v = (y_hat[i] - y[i]) @ (y_hat[j] - y[j])
            f[i, j] = u * v * kernel(z[i], z[j], sigma["z"])
    return f


def test_equals_the_naive_quadruple_loop():
    args = sample(0)
    np.testing.assert_allclose(statistic_matrix(*args), naive(*args), atol=1e-12)


def test_draws_may_come_one_at_a_time():
    x, y, z, draws, y_hat = sample(1)
    np.testing.assert_array_equal(
        statistic_matrix(x, y, z, (d for d in draws), y_hat),
        statistic_matrix(x, y, z, draws, y_hat),
    )


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_symmetric_with_zero_diagonal_and_invariant_to_order_and_rotation(seed):
    x, y, z, draws, y_hat = sample(seed, n=12)
    f = statistic_matrix(x, y, z, draws, y_hat)
    np.testing.assert_allclose(f, f.T, atol=1e-12)
    assert not np.diag(f).any()
    rng = np.random.default_rng(seed)
    order = rng.permutation(12)
    shuffled = statistic_matrix(x[order], y[order], z[order], draws[:, order], y_hat[order])
    np.testing.assert_allclose(shuffled, f[np.ix_(order, order)], atol=1e-12)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    np.testing.assert_allclose(statistic_matrix(x, y @ turn, z, draws, y_hat @ turn), f, atol=1e-12)


@given(st.floats(0.01, 100.0), st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_scaling_y_scales_t_by_the_square_and_leaves_p(c, seed):
    x, y, z, draws, y_hat = sample(seed, n=12)
    f = statistic_matrix(x, y, z, draws, y_hat)
    g = statistic_matrix(x, c * y, z, draws, c * y_hat)
    assert g.sum() == pytest.approx(c**2 * f.sum(), rel=1e-9, abs=1e-12)
    a, b = np.random.default_rng(5), np.random.default_rng(5)
    base = pair_matrix(centred_kernel(x, draws), z)
    first, second = multiplier_null(base, y - y_hat), multiplier_null(base, c * (y - y_hat))
    assert p_value(float(first.statistic), first.draw(199, a)) == p_value(
        float(second.statistic), second.draw(199, b)
    )


def test_x_measurable_in_z_with_an_exact_sampler_leaves_nothing():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 1))

    class Exact:
        def sample(self, rows, m, rng):
            return np.broadcast_to(np.sin(rows), (m, *rows.shape)).copy()

    kernel_matrix = centred_kernel(np.sin(z), Exact().sample(z, 4, rng))
    np.testing.assert_allclose(kernel_matrix, 0, atol=1e-12)
    result = conditional_mean_test(
        np.sin(z),
        rng.normal(size=100),
        z,
        regression=lambda rows: 0 * rows,
        generator=Exact(),
        coordinates="raw",
        draws=4,
        random_state=0,
    )
    assert result.statistic == pytest.approx(0, abs=1e-9)
    assert result.pvalue == 1.0


def test_without_centring_the_test_rejects_a_true_null_when_the_regression_is_biased():
    law = GaussianConditional(np.array([[1.0, 0.7], [0.7, 1.0]]), 1)
    rejected = {"centred": 0, "plain": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(100, 1))
        x = law.sample(z, 1, rng)[0]
        residual = z + rng.normal(size=(100, 1))  # the regression was taken to be zero
        for name, u in (
            ("centred", centred_kernel(x, law.sample(z, 30, rng))),
            ("plain", laplace_kernel(x, 0.0)),
        ):
            model = multiplier_null(pair_matrix(u, z), residual)
            p = p_value(float(model.statistic), model.draw(199, rng))
            rejected[name] += p <= 0.05
    assert rejected["plain"] >= 36
    assert rejected["centred"] <= 8


def test_the_pooled_kernel_is_the_limit_of_many_draws():
    rng = np.random.default_rng(0)
    residual = standardise(rng.normal(size=(30, 2)))
    draws = (residual[rng.integers(0, 30, 30)] for _ in range(4000))
    many = centred_kernel(residual, draws)
    off = ~np.eye(30, dtype=bool)
    assert np.abs(many - pooled_kernel(residual))[off].max() < 0.03


def test_single_precision_is_enough_for_the_null_but_not_needed_for_the_statistic():
    """What float32 changes: the official code is float32, ours float64; p hardly moves."""
    x, y, z, draws, y_hat = sample(3, n=200, m=10, d=5, k=1, q=5)
    f = statistic_matrix(x, y, z, draws, y_hat)
    single = f.astype(np.float32)
    assert abs(single.sum(dtype=np.float32) - f.sum()) < 1e-4 * np.abs(f).sum()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (200, 999))
    double = np.einsum("ij,ij->j", f @ signs, signs)
    rough = np.einsum("ij,ij->j", single @ signs.astype(np.float32), signs.astype(np.float32))
    assert abs((double >= f.sum()).mean() - (rough >= single.sum()).mean()) <= 0.002


def test_median_bandwidth_counts_the_diagonal_and_falls_back_on_ties():
    points = np.array([[0.0], [1.0], [3.0]])
    distances = np.abs(points - points.T)
    assert median_bandwidth(distances) == 1.0  # of 0 0 0 1 1 2 2 3 3
    ties = np.zeros((10, 10))
    ties[0, 1:] = ties[1:, 0] = 2.0
    with pytest.warns(UserWarning, match="same X"):
        assert median_bandwidth(ties, "X") == 2.0
    with pytest.raises(InputError, match="identical"):
        median_bandwidth(np.zeros((4, 4)), "Z")


def test_bad_shapes_are_refused():
    x, y, z, draws, y_hat = sample(0)
    with pytest.raises(InputError, match="regression"):
        inspect.unwrap(statistic_matrix)(x, y, z, draws, y_hat[:, :1])  # past the type checker
    with pytest.raises(InputError, match="no draws"):
        centred_kernel(x, iter(()))
    with pytest.raises(InputError, match="shape"):
        inspect.unwrap(centred_kernel)(x, [x[:4]])
    with pytest.raises(InputError, match="constant"):
        standardise(np.ones((5, 1)))
