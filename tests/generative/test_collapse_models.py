"""Gaussian, categorical, regression and wrapped models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from practicum.errors import InputError
from practicum.generative.model_collapse import (
    CallableModel,
    CategoricalModel,
    FixedDesignRegression,
    GaussianModel,
    GenerativeModel,
    SklearnModel,
    categorical_gini,
    run_generations,
)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("cov", ["mle", "unbiased"])
@given(n=st.integers(4, 40), d=st.integers(1, 3), seed=st.integers(0, 99))
def test_gaussian_equals_numpy_and_scipy(cov, n, d, seed):
    X, X_test = rng(seed).normal(size=(n, d)), rng(seed + 1).normal(size=(7, d))
    model = GaussianModel(cov).fit(X)
    expected = np.atleast_2d(np.cov(X, rowvar=False, bias=cov == "mle"))
    np.testing.assert_allclose(model.covariance_, expected, atol=1e-12)
    density = multivariate_normal(X.mean(axis=0), expected)
    assert model.loss(X_test) == pytest.approx(-np.mean(density.logpdf(X_test)), rel=1e-8)


def test_gaussian_samples_have_its_moments():
    X = rng().normal(size=(30, 3)) @ np.array([[2, 0, 0], [1, 1, 0], [0, 0.5, 0.1]])
    model = GaussianModel().fit(X)
    drawn = model.sample(200_000, rng=rng(1))
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), model.covariance_, atol=0.08)


def test_gaussian_weights_equal_repetition():
    X = rng().normal(size=(6, 2))
    weighted = GaussianModel().fit(X, sample_weight=np.arange(6.0))
    repeated = GaussianModel().fit(np.repeat(X, np.arange(6), axis=0))
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_)


def test_singular_gaussian_warns_and_is_infinite():
    with pytest.warns(UserWarning, match="singular"):
        model = GaussianModel().fit(rng().normal(size=(5, 5)))
    assert model.loss(np.zeros((2, 5))) == np.inf
    assert np.isfinite(model.sample(10, rng=rng())).all()


def test_anchor_7_categorical_replace_simulated():
    X = np.repeat(np.arange(10), 10)
    result = run_generations(X, CategoricalModel(10), "replace", 51, X_test=X, seeds=range(300))
    gini = result.curves("replace", "gini")
    # Generation 1 fits the real items, here exactly uniform (Gini .9); so fit t+1 is theory's t.
    for t, expected in ((1, 0.891), (10, 0.813944), (50, 0.544505)):
        values = gini[:, t]
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values))
    theory = categorical_gini(np.full(10, 0.1), 100, 50, "replace")
    assert theory[0] == pytest.approx(0.891)


def test_categorical_extinct_outcome_is_infinite_unless_smoothed():
    assert CategoricalModel(3).fit(np.array([0, 1])).loss(np.array([2])) == np.inf
    assert CategoricalModel(3, 0.5).fit(np.array([0, 1])).loss(np.array([2])) == pytest.approx(
        -np.log(0.5 / 3.5)
    )


def test_regression_labels_the_same_inputs():
    design = rng().normal(size=(50, 2))
    rows = np.column_stack([design, design @ [1.0, -2.0] + 0.1 * rng(1).normal(size=50)])
    model = FixedDesignRegression(design, 0.1).fit(rows)
    np.testing.assert_allclose(model.coefficients_, [1.0, -2.0], atol=0.1)
    drawn = model.sample(50, rng=rng(2))
    np.testing.assert_array_equal(drawn[:, :-1], design)


def test_regression_error_grows_linearly_under_replace():
    # The coefficients do a random walk: E ||beta_t - beta||^2 = t sigma^2 tr((X'X)^-1).
    design = rng().normal(size=(40, 3))
    clean = np.column_stack([design, np.zeros(40)])
    result = run_generations(
        clean, FixedDesignRegression(design, 1.0), "replace", 10, X_test=clean, seeds=range(300)
    )
    loss = result.curves("replace")
    # On the design itself the mean squared error is t-1 steps of sigma^2 p/n (first fit is exact).
    expected = np.arange(10) * 3 / 40
    error = loss.std(axis=0) / np.sqrt(300)
    assert (np.abs(loss.mean(axis=0) - expected) <= 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("estimator", [GaussianMixture(2), KernelDensity(bandwidth=0.5)])
def test_sklearn_models_are_deterministic_given_the_generator(estimator):
    X = rng().normal(size=(60, 2))
    model = SklearnModel(estimator)
    assert isinstance(model, GenerativeModel)
    drawn = [model.fit(X, rng=g).sample(9, rng=g) for g in (rng(3), rng(3))]
    np.testing.assert_array_equal(*drawn)
    assert model.loss(X) == pytest.approx(
        -model._fitted.score(X) / (len(X) if isinstance(estimator, KernelDensity) else 1)
    )


def test_mixture_samples_are_not_sorted_by_component():
    X = np.concatenate([rng().normal(-50, 1, (50, 1)), rng().normal(50, 1, (50, 1))])
    signs = np.sign(SklearnModel(GaussianMixture(2)).fit(X, rng=rng()).sample(60, rng=rng()))
    assert np.abs(np.diff(signs[:, 0])).sum() > 4


def test_bad_input():
    with pytest.raises(InputError, match="at least 2"):
        GaussianModel().fit(np.ones((1, 1)))
    with pytest.raises(InputError, match="cov"):
        GaussianModel("robust")
    with pytest.raises(InputError, match="K=0"):
        CategoricalModel(0)
    for wrong in ([0, 3], [0.5], [-1], []):
        with pytest.raises(InputError, match="whole numbers from 0 to 2"):
            CategoricalModel(3).fit(np.array(wrong))
    with pytest.raises(InputError, match="sigma"):
        FixedDesignRegression(np.ones((2, 1)), 0.0)
    with pytest.raises(InputError, match="design must be"):
        FixedDesignRegression(np.array([[1.0], [np.nan]]))
    with pytest.raises(InputError, match="columns"):
        FixedDesignRegression(np.ones((2, 1))).fit(np.ones((2, 1)))
    with pytest.raises(InputError, match="fixed design has 2 rows"):
        FixedDesignRegression(np.ones((2, 1))).fit(np.ones((2, 2))).sample(3, rng=rng())
    with pytest.raises(InputError, match="score_samples"):
        SklearnModel(object())


def test_callables_become_a_model():
    model = CallableModel(
        lambda X, g: X, lambda X, n, g: X[g.integers(len(X), size=n)], lambda X, t: 1.0
    )
    assert isinstance(model, GenerativeModel)
    assert model.fit(np.eye(2), rng=rng()).sample(4, rng=rng()).shape == (4, 2)
