"""Closed forms against the values of the specification."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.generative.model_collapse import (
    categorical_gini,
    gaussian_curve,
    kde_second_moment,
)


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [("replace", 2.656e-5), ("accumulate", 0.844276), ("accumulate-subsample", 0.741128)],
)
def test_anchor_1_trace_ratios(workflow, expected):
    ratio = gaussian_curve(10, 100, workflow, sigma2=1.0)["trace_ratio"][-1]
    assert ratio == pytest.approx(expected, rel=2e-4 if workflow == "replace" else 1e-6)


@pytest.mark.parametrize(
    ("n", "replace", "accumulate", "subsample"),
    [(10, 2.7e-5, 0.8443, 0.7411), (32, 0.042, 0.9497, 0.9125), (100, 0.366, 0.9837, 0.9713)],
)
def test_values_of_the_claims_at_generation_100(n, replace, accumulate, subsample):
    ratios = [
        gaussian_curve(n, 100, w)["trace_ratio"][-1]
        for w in ("replace", "accumulate", "accumulate-subsample")
    ]
    assert ratios == pytest.approx([replace, accumulate, subsample], rel=0.02)


@pytest.mark.parametrize(
    ("n", "limit"), [(10, 0.843436), (32, 0.949383), (100, 0.983632), (1000, 0.998356)]
)
def test_anchor_2_accumulate_tends_to_sinc(n, limit):
    assert np.sinc(1 / np.sqrt(n)) == pytest.approx(limit, abs=1e-6)
    last = gaussian_curve(n, 20_000, "accumulate")["trace_ratio"][-1]
    assert last == pytest.approx(limit, abs=6e-6)


@pytest.mark.parametrize(
    ("n", "limit"), [(10, 0.7390), (32, 0.9116), (100, 0.9710), (1000, 0.9971)]
)
def test_subsample_limits(n, limit):
    last = gaussian_curve(n, 10_000, "accumulate-subsample")["trace_ratio"][-1]
    assert last == pytest.approx(limit, abs=2e-4)


@given(n=st.integers(2, 500), T=st.integers(1, 60), d=st.integers(1, 9))
def test_anchor_4_variance_and_mean_error_add_up(n, T, d):
    for workflow in ("replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"):
        curve = gaussian_curve(n, T, workflow, sigma2=2.0, d=d)
        total = curve["trace_ratio"] + curve["mean_sq_error"] / (2.0 * d)
        np.testing.assert_allclose(total, 1.0, rtol=1e-12)


@given(n=st.integers(2, 500), T=st.integers(2, 60))
def test_solutions_of_the_recursion(n, T):
    t = np.arange(1, T + 1)
    product = np.cumprod(1 - 1 / (n * t**2))
    ratio = {
        w: gaussian_curve(n, T, w)["trace_ratio"]
        for w in ("replace", "accumulate", "accumulate-synthetic")
    }
    np.testing.assert_allclose(ratio["replace"], (1 - 1 / n) ** t, rtol=1e-10)
    np.testing.assert_allclose(ratio["accumulate"], product, rtol=1e-10)
    np.testing.assert_allclose(
        ratio["accumulate-synthetic"][1:], (1 - 1 / n) * product[:-1], rtol=1e-10
    )


@given(n=st.integers(2, 300), T=st.integers(1, 50))
def test_unbiased_replace_keeps_the_trace_and_loses_the_mean(n, T):
    curve = gaussian_curve(n, T, "replace", cov="unbiased")
    np.testing.assert_allclose(curve["trace_ratio"], 1.0, rtol=1e-10)
    np.testing.assert_allclose(curve["mean_sq_error"], np.arange(1, T + 1) / n, rtol=1e-10)


@given(n=st.integers(2, 300), T=st.integers(3, 60))
def test_workflows_are_ordered(n, T):
    ratio = {
        w: gaussian_curve(n, T, w)["trace_ratio"]
        for w in ("replace", "accumulate", "accumulate-subsample")
    }
    assert (ratio["replace"][2:] < ratio["accumulate-subsample"][2:]).all()
    assert (ratio["accumulate-subsample"][1:] < ratio["accumulate"][1:]).all()


def test_anchor_6_second_moment_of_a_kde_pool():
    h, d, e0 = 0.3, 2, 1.5
    for t, harmonic in ((1, 1.0), (2, 1.5), (4, 25 / 12)):
        expected = e0 + d * h**2 * (harmonic - 1)
        for workflow in ("accumulate", "accumulate-subsample"):
            assert kde_second_moment(50, t, workflow, h, d, e0)[-1] == pytest.approx(expected)
        replaced = kde_second_moment(50, t, "replace", h, d, e0)[-1]
        assert replaced == pytest.approx(e0 + d * h**2 * (t - 1))


def test_anchor_7_categorical_diversity():
    gini = categorical_gini(np.full(10, 0.1), n=100, T=50, workflow="replace")
    assert gini[[0, 9, 49]] == pytest.approx([0.891, 0.813944, 0.544505], abs=1e-6)


def test_bad_input():
    with pytest.raises(InputError, match="renew"):
        gaussian_curve(10, 5, "renew")
    with pytest.raises(InputError, match="n=1"):
        gaussian_curve(1, 5, "replace")
    with pytest.raises(InputError, match="cov"):
        gaussian_curve(10, 5, "replace", cov="robust")
    with pytest.raises(InputError, match="positive"):
        kde_second_moment(10, 5, "replace", h=0.0, d=1, e0=1.0)
    with pytest.raises(InputError, match="distribution"):
        categorical_gini([0.5, 0.6], 10, 5, "replace")
