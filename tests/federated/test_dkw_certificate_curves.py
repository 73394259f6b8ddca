"""Robust curves: the server's exact optimum, and the clients' local queries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from practicum.federated.dkw_certificate import (
    RobustCurves,
    certify,
    local_robust_curve,
    robust_mean,
    robust_tail,
    transport_tail,
)

RHOS = [0.0, 0.1, 0.2, 0.4]
increments = st.lists(st.floats(0, 0.25), min_size=4, max_size=4)


def some_curves(steps):
    return RobustCurves.of(RHOS, np.minimum(np.cumsum(steps, axis=1), 1.0))


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(increments, min_size=1, max_size=5), budget=st.floats(0, 0.4))
def test_the_server_mean_equals_its_dual(steps, budget):
    curves = some_curves(steps)
    length, slope = curves._extended()
    grid = np.concatenate([np.zeros((len(slope), 1)), np.cumsum(length, axis=1)], axis=1)
    value = curves.values[:, :1] + np.concatenate(
        [np.zeros((len(slope), 1)), np.cumsum(length * slope, axis=1)], axis=1
    )
    # piecewise linear in gamma, with kinks at the slopes
    gammas = np.append(np.unique(slope), [0.0, slope.max() + 1])
    dual = min(g * budget + (value - g * grid).max(axis=1).mean() for g in gammas)
    assert robust_mean(curves, budget) == pytest.approx(min(1.0, dual), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(increments, min_size=1, max_size=5),
    level=st.floats(0.01, 1),
    budget=st.floats(0, 0.4),
)
def test_the_server_tail_equals_the_linear_program(steps, level, budget):
    # HiGHS gives up on coefficients such as 1e-97; a level that a curve misses by 1e-10 is missed
    curves, level = some_curves(np.round(steps, 9).tolist()), round(level, 9)
    length, slope = curves._extended()
    cost = []
    for k, start in enumerate(curves.values[:, 0]):
        rho, value = 0.0, start
        for step, rise in zip(length[k], slope[k], strict=True):
            if value < level - 1e-12 and rise * step > 0:
                part = min(1.0, (level - value) / (rise * step))
                rho, value = rho + part * step, value + part * rise * step
        cost.append(rho if value >= level - 1e-12 else np.inf)
    able = np.isfinite(cost)
    if not able.any():
        return
    costs = np.array(cost)[able] / len(cost)
    lp = optimize.linprog(
        -np.ones(able.sum()) / len(cost), A_ub=[costs], b_ub=[budget], bounds=(0, 1)
    )
    found = robust_tail(curves, np.array([level]), budget)[0]
    assert found == pytest.approx(-lp.fun, abs=1e-6)


def test_lipschitz_curves_give_the_greedy_of_the_lipschitz_mode():
    risks = np.array([0.1, 0.2, 0.3, 0.4])
    curves = RobustCurves.of([0.0, 0.5], np.column_stack([risks, risks + 0.5]))
    levels = np.array([0.05, 0.35, 0.6])
    np.testing.assert_allclose(
        robust_tail(curves, levels, 0.02), transport_tail(risks, levels, 0.02), atol=1e-9
    )
    assert robust_mean(curves, 0.02) == pytest.approx(0.25 + 0.02)


def test_curves_give_an_estimate_that_says_so():
    rng = np.random.default_rng(0)
    risks = rng.beta(2, 8, 100)
    curves = RobustCurves.of(RHOS, np.minimum(1, risks[:, None] + np.sqrt(RHOS)))
    seen = certify(risks, eps=0.05, divergence="wasserstein", curves=curves)
    assert not seen.certified
    assert seen.sentence(0.5).startswith("As an estimate, not a certificate")
    assert (np.diff(seen.upper) <= 1e-12).all()
    still = certify(risks, eps=0.0, divergence="wasserstein", curves=curves)
    np.testing.assert_allclose(still.upper, still.source, atol=1e-9)
    wider = certify(risks, eps=0.1, divergence="wasserstein", curves=curves)
    assert (wider.upper >= seen.upper - 1e-12).all()
    assert wider.mean_upper > seen.mean_upper > still.mean_upper


# --- local queries -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("make", [LogisticRegression, RidgeClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_curve_of_a_linear_model_is_exact(wine, make, classes):
    X, y = wine[0][wine[1] < classes], wine[1][wine[1] < classes]
    model = make().fit(X, y)
    curve = local_robust_curve(model, X, y, [0.0, 0.5, 2.0, 1e6], "01")
    assert curve[0] == pytest.approx((model.predict(X) != y).mean())
    assert curve[-1] == 1
    # moving the cheapest samples onto the boundary really changes the prediction
    distances = np.array(
        [local_robust_curve(model, X[i : i + 1], y[i : i + 1], [1e6], "01") for i in range(3)]
    )
    assert (distances == 1).all()
    assert (np.diff(curve) >= 0).all()


def test_a_binary_margin_is_the_distance():
    model = LogisticRegression(C=1e4).fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1])
    edge = -model.intercept_[0] / model.coef_[0, 0]
    X, y = np.array([[edge - 0.5], [edge + 1.0]]), np.array([0, 1])
    # mean budget for the first: 0.25 / 2; then the second costs 1 / 2 more
    curve = local_robust_curve(model, X, y, [0.0, 0.0625, 0.125, 0.375, 0.625], "01")
    np.testing.assert_allclose(curve, [0, 0.25, 0.5, 0.75, 1.0], atol=1e-9)


def test_a_network_without_hidden_layers_agrees_with_the_exact_distances(wine):
    torch = pytest.importorskip("torch")
    X, y = wine
    model = LogisticRegression().fit(X, y)
    net = torch.nn.Linear(X.shape[1], 3).double()
    with torch.no_grad():
        net.weight.copy_(torch.as_tensor(model.coef_))
        net.bias.copy_(torch.as_tensor(model.intercept_))
    rhos = [0.0, 0.5, 1.0, 2.0, 4.0]
    exact = local_robust_curve(model, X, y, rhos, "01")
    found = local_robust_curve(net, X, y, rhos, "01", 40)
    assert (found <= exact + 1e-9).all()  # an attack finds no shorter way than the shortest
    np.testing.assert_allclose(found, exact, atol=0.05)


@pytest.mark.parametrize("loss", ["xent", "01"])
def test_curves_of_networks_are_nondecreasing_and_concave(loss):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    net.train()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    with torch.no_grad():
        y = net(torch.as_tensor(X).float()).argmax(1).numpy()
    before = [p.clone() for p in net.parameters()]
    rhos = np.linspace(0, 1, 11)
    curve = local_robust_curve(net, X, y, rhos, loss)
    assert (np.diff(curve) >= -1e-9).all()
    assert (np.diff(curve, 2)[1:] <= 1e-6).all()
    with torch.no_grad():
        logits = net(torch.as_tensor(X).float())
        nominal = torch.nn.functional.cross_entropy(logits, torch.as_tensor(y))
    assert curve[0] == pytest.approx(float(nominal) if loss == "xent" else 0.0, abs=1e-5)
    assert net.training
    assert all((p == q).all() for p, q in zip(net.parameters(), before, strict=True))
    assert all(p.grad is None for p in net.parameters())


def test_cross_entropy_of_a_linear_logit_in_closed_form():
    """For large gamma and a small move, the loss rises by sqrt(rho) times the gradient's norm."""
    pytest.importorskip("torch")
    model = LogisticRegression().fit([[-1.0, 0], [1.0, 0], [-2.0, 1], [2.0, 1]], [0, 1, 0, 1])
    X, y = np.array([[0.5, 0.2]] * 4), np.ones(4, int)
    logit = X[0] @ model.coef_[0] + model.intercept_[0]
    nominal, size = np.log1p(np.exp(-logit)), np.linalg.norm(model.coef_) / (1 + np.exp(logit))
    curve = local_robust_curve(model, X, y, [0.0, 1e-4], "xent", 30)
    assert curve[0] == pytest.approx(nominal)
    assert curve[1] - curve[0] == pytest.approx(1e-2 * size, rel=0.03)
