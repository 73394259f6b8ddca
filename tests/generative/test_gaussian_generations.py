"""The Gaussian laboratory against theory, against the hand-written loop, and batch by batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.generative.model_collapse import (
    gaussian,
    gaussian_curve,
    gaussian_generations,
    gaussian_generations_loop,
)
from practicum.generative.model_collapse.gaussian import _streams, _uniform_subsets
from practicum.generative.model_collapse.theory import replace_trace_variance

WORKFLOWS = ("replace", "accumulate", "accumulate-subsample", "accumulate-synthetic")
CURVES = ("trace_ratio", "log_det_ratio", "mean_sq_error", "nll")


def z_scores(samples, expected, sd=None):
    """How many standard errors the mean over seeds is off, per generation."""
    sd = samples.std(axis=0, ddof=1) if sd is None else sd
    return np.abs(samples.mean(axis=0) - expected) / (sd / np.sqrt(len(samples)))


@pytest.mark.parametrize("cov", ["mle", "unbiased"])
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize(("n", "d"), [(10, 1), (10, 3), (8, 12), (32, 2)])
def test_means_follow_the_closed_forms(n, d, workflow, cov):
    T = 8
    runs = gaussian_generations(n, d, T, workflow, range(1500), cov=cov)
    theory = gaussian_curve(n, T, workflow, d=d, cov=cov)
    assert z_scores(runs.trace_ratio, theory["trace_ratio"]).max() < 4.5
    assert z_scores(runs.mean_sq_error, theory["mean_sq_error"]).max() < 4.5


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [("accumulate", 0.844276), ("accumulate-subsample", 0.741128)],
)
def test_anchor_1_simulated(workflow, expected):
    ratio = gaussian_generations(10, 1, 100, workflow, range(3000)).trace_ratio[:, -1]
    assert z_scores(ratio[:, None], expected)[0] < 4


def test_replace_follows_theory_with_its_exact_variance():
    # Late generations are carried by rare runs: the estimated standard error would be too small.
    ratio = gaussian_generations(10, 2, 30, "replace", range(3000)).trace_ratio
    sd = np.sqrt(replace_trace_variance(10, 30, 2))
    assert z_scores(ratio, (1 - 1 / 10) ** np.arange(1, 31), sd).max() < 4


def test_replace_variance_is_that_of_a_chi_square_at_generation_1():
    # trace ratio = chi^2(d (n-1)) / (d n): variance 2 (n-1) / (d n^2)
    assert np.isclose(replace_trace_variance(10, 1, 4)[0], 2 * 9 / (4 * 100))


@pytest.mark.parametrize(("n", "d"), [(6, 2), (40, 3)])  # double and single precision
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_same_distribution_as_the_hand_written_loop(workflow, n, d):
    from scipy.stats import ks_2samp

    fast = gaussian_generations(n, d, 6, workflow, range(1200))
    slow = gaussian_generations_loop(n, d, 6, workflow, range(1200))
    for curve in CURVES:
        for t in (1, 2, 5):
            p = ks_2samp(getattr(fast, curve)[:, t], getattr(slow, curve)[:, t]).pvalue
            assert p > 1e-4, (curve, t + 1)


@pytest.mark.parametrize(("n", "d"), [(12, 1), (12, 3), (12, 10), (12, 15), (40, 3)])
def test_anchor_3_generation_1_is_the_same_in_every_workflow(n, d):
    runs = [gaussian_generations(n, d, T, w, range(5)) for w in WORKFLOWS for T in (1, 4)]
    single = gaussian_generations(n, d, 1, "replace", range(5))
    for curve in CURVES:
        for run in runs:
            np.testing.assert_array_equal(getattr(run, curve)[:, 0], getattr(single, curve)[:, 0])


def test_anchor_4_variance_and_mean_error_add_up():
    for workflow in WORKFLOWS[:3]:
        runs = gaussian_generations(10, 4, 20, workflow, range(1500))
        total = runs.trace_ratio + runs.mean_sq_error / 4
        assert z_scores(total, 1.0).max() < 4.5


def test_anchor_8_official_runs():
    # mean +- standard error of the official d=1 runs at t=100
    for n, workflow, official, error in [
        (100, "replace", 0.309, 0.040),
        (10, "accumulate", 0.873, 0.048),
    ]:
        theory = gaussian_curve(n, 100, workflow)["trace_ratio"][-1]
        assert abs(theory - official) < 2 * error
        ours = gaussian_generations(n, 1, 100, workflow, range(400)).trace_ratio[:, -1]
        spread = np.hypot(error, ours.std() / np.sqrt(len(ours)))
        assert abs(ours.mean() - official) < 3 * spread


@pytest.mark.parametrize("workflow", WORKFLOWS)
@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(2, 14),
    d=st.integers(1, 12),
    others=st.lists(st.integers(0, 10_000), max_size=130, unique=True),
)
def test_a_seed_does_not_depend_on_its_batch(workflow, n, d, others):
    seeds = [7, *(s for s in others if s != 7)]
    alone = gaussian_generations(n, d, 6, workflow, [7])
    for order in (seeds, seeds[::-1]):
        batch = gaussian_generations(n, d, 6, workflow, order)
        for curve in CURVES:
            np.testing.assert_array_equal(
                getattr(batch, curve)[order.index(7)], getattr(alone, curve)[0]
            )


def assert_equal_to_the_last_bit(runs, others):
    for curve in CURVES:
        np.testing.assert_array_equal(getattr(runs, curve), getattr(others, curve))


@pytest.mark.parametrize(("n", "d"), [(12, 15), (12, 3), (40, 3)])
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_results_do_not_depend_on_the_size_of_blocks(workflow, n, d, monkeypatch):
    runs = gaussian_generations(n, d, 12, workflow, range(23))
    for statistics, items, few in ((1, 1, 1), (12 * d * d * 5, 12 * n * (2 * d + 1) * 7, 3)):
        monkeypatch.setattr(gaussian, "_STATISTICS", statistics)
        monkeypatch.setattr(gaussian, "_ITEMS", items)
        monkeypatch.setattr(gaussian, "_FEW", few)
        assert_equal_to_the_last_bit(runs, gaussian_generations(n, d, 12, workflow, range(23)))


@pytest.mark.parametrize(("n", "d"), [(10, 3), (40, 3)])
def test_chunks_of_which_more_than_usual_is_used(n, d, monkeypatch):
    # Expect that only few items are ever used: then most chunks are written in two parts.
    monkeypatch.setattr(gaussian, "_usual_use", lambda n, T: [n] + [n // 2] * (T - 1))
    runs = gaussian_generations(n, d, 8, "accumulate-subsample", range(1500))
    theory = gaussian_curve(n, 8, "accumulate-subsample", d=d)
    assert z_scores(runs.trace_ratio, theory["trace_ratio"]).max() < 4.5
    assert z_scores(runs.mean_sq_error, theory["mean_sq_error"]).max() < 4.5
    monkeypatch.setattr(gaussian, "_ITEMS", 1)  # each seed by itself
    alone = gaussian_generations(n, d, 8, "accumulate-subsample", range(1500))
    assert_equal_to_the_last_bit(runs, alone)


@pytest.mark.parametrize("shape", [(500, 40), (501, 41)])
def test_single_precision_normals_are_normal(shape):
    from scipy.stats import kstest

    x = np.empty((10, *shape), np.float32)
    gaussian._standard_normal(_streams(range(10)), x)
    assert kstest(x.ravel(), "norm").pvalue > 1e-4
    assert kstest((x.astype(float) ** 2).sum(axis=2).ravel(), "chi2", (shape[1],)).pvalue > 1e-4
    # Normals come in pairs, half of all apart.
    flat = x.reshape(10, -1)
    half = (flat.shape[1] + 1) // 2
    first, second = flat[:, : flat.shape[1] - half], flat[:, half:]
    for f in (np.abs, np.square, np.sign, np.asarray):
        r = np.corrcoef(f(first).ravel(), f(second).ravel())[0, 1]
        assert abs(r) * np.sqrt(first.size) < 4


def test_single_precision_is_far_finer_than_the_sampling_error():
    assert gaussian._noise_type(100, 10) == np.float32
    x = np.random.default_rng(0).standard_normal((30, 100, 10))
    single, double = np.empty((2, 30, 10, 11))
    gaussian._fit(x.astype(np.float32), 0, single)
    gaussian._fit(x, 0, double)
    assert np.abs(single - double).max() < 1e-5
    # Too few items for it: covariances are badly conditioned.
    assert gaussian._noise_type(31, 1) == gaussian._noise_type(100, 26) == np.float64


@given(n=st.integers(1, 12), generations=st.integers(1, 9), seed=st.integers(0, 1000))
def test_subsets_hold_distinct_items_of_the_pool(n, generations, seed):
    (subsets,) = _uniform_subsets([np.random.default_rng(seed)], n, generations)
    for t, row in enumerate(subsets):
        assert len(set(row)) == n
        assert row.min() >= 0
        assert row.max() < (t + 1) * n


def test_every_subset_is_equally_likely():
    from scipy.stats import chisquare

    # 2 of 4 items, and 2 of 6: six and fifteen equally likely pairs
    draws = _uniform_subsets(_streams(range(6000)), 2, 3)
    for t, pairs in ((1, 6), (2, 15)):
        a, b = np.sort(draws[:, t], axis=1).T
        counts = np.unique(a * 10 + b, return_counts=True)[1]
        assert len(counts) == pairs
        assert chisquare(counts).pvalue > 1e-4


def test_singular_covariance_has_infinite_loss_and_no_nan():
    for workflow in WORKFLOWS:
        runs = gaussian_generations(10, 10, 30, workflow, range(20))
        assert np.isposinf(runs.nll).all()
        assert np.isneginf(runs.log_det_ratio).all()
        assert np.isfinite(runs.trace_ratio).all()
        assert (runs.trace_ratio > 0).all()


def test_a_covariance_that_underflows_is_infinite_not_nan():
    runs = gaussian_generations(2, 1, 2500, "replace", range(10))
    assert np.isposinf(runs.nll[:, -1]).all()
    for curve in CURVES:
        assert not np.isnan(getattr(runs, curve)).any()


def test_frame_is_tidy():
    frame = gaussian_generations(10, 2, 3, "replace", [4, 9]).frame
    assert frame["seed"].tolist() == [4, 4, 4, 9, 9, 9]
    assert frame["generation"].tolist() == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 1}, "n=1"),
        ({"d": 0}, "d=0"),
        ({"generations": 0}, "generations=0"),
        ({"workflow": "renew"}, "renew"),
        ({"cov": "robust"}, "robust"),
        ({"seeds": []}, "no seeds"),
    ],
)
def test_bad_input(change, words):
    arguments = {"n": 5, "d": 1, "generations": 2, "workflow": "replace", "seeds": [0]} | change
    with pytest.raises(InputError, match=words):
        gaussian_generations(**arguments)
