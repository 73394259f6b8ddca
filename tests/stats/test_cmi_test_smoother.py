"""The smoother: left-out residuals without refitting, prediction, what it can follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.stats.cmi_test import KernelSmoother


def data(seed, n=60, q=3):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, q))
    return z, np.sin(2 * z[:, :1]) + z[:, 1:2] + 0.3 * rng.normal(size=(n, 1))


@given(st.integers(0, 500), st.sampled_from(["linear", "additive", "joint"]))
@settings(max_examples=15, deadline=None)
def test_prediction_at_the_fitted_rows_is_the_hat_matrix(seed, family):
    z, y = data(seed)
    smoother = KernelSmoother((family,)).fit(z, y)
    root = smoother.hat_root()
    np.testing.assert_allclose(smoother.predict(z), root @ (root.T @ y), atol=1e-6)


def test_left_out_residuals_are_those_of_deleting_the_row():
    """Exact for a ridge regression on fixed features: penalty and features held."""
    z, y = data(0, n=25)
    smoother = KernelSmoother(("linear",)).fit(z, y)
    penalty = smoother.choices_[0][1]
    features = (z - z.mean(axis=0)) / z.std(axis=0) / np.sqrt(3)
    scale = 25 / (features**2).sum()
    design = np.column_stack([np.ones(25), features * np.sqrt(scale)])
    for i in range(25):
        kept = np.arange(25) != i
        normal = design[kept].T @ design[kept] + penalty * np.diag([0, 1, 1, 1])
        beta = np.linalg.solve(normal, design[kept].T @ y[kept])
        assert smoother.left_out_[i, 0] == pytest.approx(float((y[i] - design[i] @ beta)[0]))


def test_the_features_reproduce_the_kernels():
    z = data(1, n=50)[0]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    from practicum.stats.cmi_test.smoother import _Additive, _Joint

    joint = _Joint(z, landmarks=50)(z)
    exact = np.exp(-0.5 * ((z[:, None] - z) ** 2).sum(2) / 3)
    np.testing.assert_allclose(joint @ joint.T, exact, atol=1e-5)
    additive = _Additive(z)(z)
    exact = np.exp(-0.5 * (z[:, None] - z) ** 2).mean(2)
    assert np.abs(additive @ additive.T - exact).mean() < 0.005


def test_it_follows_what_each_kernel_is_for():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 5))
    noise = 0.3 * rng.normal(size=400)
    for truth in (z[:, 0] + z[:, 1], np.sin(2 * z[:, 0]) + z[:, 1] ** 2, z[:, 0] * z[:, 1]):
        assert KernelSmoother().fit(z, truth + noise).r2_[0] > 0.75
    assert KernelSmoother().fit(z, rng.normal(size=400)).r2_[0] == pytest.approx(0, abs=0.03)


def test_outputs_choose_for_themselves_unless_shared():
    z, _ = data(0, n=200)
    y = np.column_stack([z[:, 0], np.sin(3 * z[:, 1])])
    own = KernelSmoother(shared=False).fit(z, y).choices_
    shared = KernelSmoother().fit(z, y).choices_
    assert own[0] != own[1]
    assert shared[0] == shared[1]


def test_features_are_used_again_and_change_nothing():
    z, y = data(0)
    first = KernelSmoother().fit(z, y)
    again = KernelSmoother().fit(z, 2 * y, like=first)
    np.testing.assert_allclose(again.left_out_, 2 * first.left_out_, atol=1e-12)


def test_constant_and_two_valued_columns_do_no_harm():
    z, y = data(0)
    wide = np.column_stack([z, np.ones(60), z[:, 0] > 0])
    assert np.isfinite(KernelSmoother().fit(wide, y).predict(wide)).all()


def test_shape_of_predictions_follows_y():
    z, y = data(0)
    assert KernelSmoother().fit(z, y[:, 0]).predict(z[:5]).shape == (5,)
    assert KernelSmoother().fit(z, y).predict(z[:5]).shape == (5, 1)


def test_bad_input_lengths():
    z, y = data(0)
    with pytest.raises(InputError, match="60 rows of Z and 59 of Y"):
        KernelSmoother().fit(z, y[:-1])
