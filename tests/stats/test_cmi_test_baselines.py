"""The baselines against their formulas and against packages that have them."""

import numpy as np
import pytest
from scipy import stats

from practicum.errors import InputError
from practicum.stats.cmi_test import (
    GaussianDesign,
    KernelSmoother,
    gcm_test,
    nested_f_test,
    pcm_test,
)


def data(seed, n=150, effect=0.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    x = z[:, :2] + rng.normal(size=(n, 2))
    return x, (z[:, :1] + effect * x[:, :1] + rng.normal(size=(n, 1))), z


def test_the_f_test_is_that_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    x, y, z = data(0, effect=0.1)
    small = sm.OLS(y, sm.add_constant(z)).fit()
    large = sm.OLS(y, sm.add_constant(np.hstack([z, x]))).fit()
    f, p, _ = large.compare_f_test(small)
    ours = nested_f_test(x, y, z)
    assert (ours.statistic, ours.pvalue) == (pytest.approx(f), pytest.approx(p))


def test_the_f_test_of_a_copy_of_z_has_nothing_to_test():
    _, y, z = data(0)
    assert nested_f_test(z[:, :1], y, z).pvalue == 1.0


def test_gcm_is_its_formula():
    x, y, z = data(1)
    of_x, of_y = (KernelSmoother(shared=False).fit(z, v).left_out_ for v in (x, y))
    products = of_x * of_y
    t = np.sqrt(len(x)) * products.mean(axis=0) / products.std(axis=0)
    result = gcm_test(x, y, z, n_boot=20_000, rng=0)
    assert result.statistic == pytest.approx(np.abs(t).max())
    correlation = np.corrcoef(products.T)[0, 1]
    drawn = np.random.default_rng(0).multivariate_normal(
        [0, 0], [[1, correlation], [correlation, 1]], 20_000
    )
    exact = (np.abs(drawn).max(axis=1) >= result.statistic).mean()
    assert result.pvalue == pytest.approx(exact, abs=0.02)


def level(test, runs):
    return sum(test(*data(s), s).pvalue <= 0.05 for s in range(runs))


def test_the_baselines_hold_their_level_and_see_linear_effects():
    for test in (
        lambda x, y, z, s: gcm_test(x, y, z, rng=s, n_boot=199),
        lambda x, y, z, s: pcm_test(x, y, z, rng=s),
        lambda x, y, z, s: nested_f_test(x, y, z),
    ):
        assert level(test, 80) <= stats.binom.ppf(0.999, 80, 0.06)
        assert sum(test(*data(s, effect=0.8), s).pvalue <= 0.05 for s in range(10)) >= 8


def test_covariances_do_not_see_an_even_effect():
    design = GaussianDesign("even-sparse", 1.0, d=3)
    p = [gcm_test(*design.draw(200, np.random.default_rng(s)), rng=s).pvalue for s in range(30)]
    assert np.mean(np.array(p) <= 0.05) <= 0.25


def test_several_outcomes_are_paid_for():
    x, y, z = data(0, effect=0.5)
    noise = np.random.default_rng(0).normal(size=(len(y), 1))
    one = nested_f_test(x, y, z).pvalue
    assert nested_f_test(x, np.hstack([y, noise]), z).pvalue == pytest.approx(2 * one)
    assert pcm_test(x, np.hstack([y, noise]), z, rng=0).pvalue <= 1


def test_bad_input_more_columns_than_rows():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="least squares leaves nothing"):
        nested_f_test(
            rng.normal(size=(30, 20)), rng.normal(size=(30, 1)), rng.normal(size=(30, 15))
        )
    with pytest.raises(InputError, match="10 rows"):
        pcm_test(rng.normal(size=(10, 1)), rng.normal(size=(10, 1)), rng.normal(size=(10, 1)))
