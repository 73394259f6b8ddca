"""Learned bid functions: where they end, what they depend on, what they do not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from practicum.games.auction_bne import (
    PUBLISHED,
    AuctionBNE,
    Beta,
    Empirical,
    LogNormal,
    ScipyPrior,
    Settings,
    TruncNormal,
    Uniform,
    as_prior,
    learn,
    make_game,
)
from practicum.games.auction_bne.market import derivative_operators, quantile_nodes
from practicum.games.auction_bne.networks import BidNetworks
from practicum.games.auction_bne.sampling import softmax_slopes
from practicum.games.auction_bne.utilities import money

RNGS = [0, 1, 2]


def rngs(seeds=RNGS):
    return [np.random.default_rng(s) for s in seeds]


def error(game, chosen, exact, seeds=RNGS):
    values, _ = quantile_nodes(game, chosen.nodes)
    return learn(game, chosen, rngs(seeds), reference=exact(values)).l2[:, 0]


# --- accuracy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 10, 20, 50])
def test_many_bidders_end_below_the_kernels_bias(n):
    """The paper file's floor is .0102 at bandwidth .05 and .0029 at .02."""
    game = make_game("first_price", Uniform(), n)
    done = error(game, Settings(steps=1000), lambda v: v * (n - 1) / n)
    assert done[:, -1].max() < 0.0029


def test_two_bidders_end_below_the_kernels_bias():
    done = error(make_game("first_price", Uniform(), 2), Settings(), lambda v: v / 2)
    assert done[:, -1].max() < 0.0029


def test_second_price_and_risk_aversion():
    done = error(make_game("second_price", Uniform(), 10), Settings(steps=600), lambda v: v)
    assert done[:, -1].max() < 0.005
    averse = make_game("first_price", Uniform(), 6, risk_aversion=0.5)
    done = error(averse, Settings(steps=600), lambda v: v * 5 / 5.5)
    assert done[:, -1].max() < 0.005


def test_all_pay_is_learned_roughly():
    auction = AuctionBNE("all_pay", Uniform(), 2, method="utility_gradient").fit()
    v = np.linspace(0, 1, 50)
    assert np.sqrt(np.mean((auction.bid(v) - v**2 / 2) ** 2)) < 0.05
    assert "closed form applies" in auction.note_


def test_reserve_is_learned():
    auction = AuctionBNE("first_price", Uniform(), 3, reserve=0.3, method="abr", steps=1000).fit()
    v = np.linspace(0.31, 1, 50)
    exact = AuctionBNE("first_price", Uniform(), 3, reserve=0.3).fit()
    assert np.sqrt(np.mean((auction.bid(v) - exact.bid(v)) ** 2)) < 0.01
    assert np.isnan(auction.bid(0.2))


def test_asymmetric_groups_leave_little_to_gain():
    auction = AuctionBNE(
        "first_price", ["beta:2,5", "uniform:0,1"], [2, 3], method="abr", steps=800
    ).fit()
    assert auction.exploitability()["ex_ante"].max() < 0.002
    assert "No closed form" in auction.note_


def test_the_published_rule_reproduces_the_paper_files_numbers():
    """n=10, .05: .0949 (UG) against .0111 at 1,000 steps; two seeds were seen there."""
    game = make_game("first_price", Uniform(), 10)
    short = replace(PUBLISHED, steps=1000)
    newton = error(game, short, lambda v: 0.9 * v, [0, 1])[:, -1]
    plain = error(game, replace(short, method="utility_gradient"), lambda v: 0.9 * v, [0, 1])
    assert newton.mean() == pytest.approx(0.0111, abs=0.004)
    assert plain[:, -1].mean() == pytest.approx(0.0949, abs=0.03)
    assert plain[:, -1].mean() / newton.mean() > 3


def test_sampling_and_quadrature_learn_alike():
    """n=2: both error curves agree within what seeds do."""
    game = make_game("first_price", Uniform(), 2)
    base = replace(PUBLISHED, steps=150, nodes=128)
    sampled = replace(base, gradient="kde_mc", market_samples=1500, own_samples=128)
    a, b = (error(game, chosen, lambda v: v / 2) for chosen in (base, sampled))
    np.testing.assert_allclose(a[:, 0], b[:, 0], atol=1e-12)  # the same weights
    np.testing.assert_allclose(a[:, -1], b[:, -1], atol=0.01)


def test_the_smoothed_market_learns():
    auction = AuctionBNE(
        "first_price", Uniform(), 2, method="smooth_market", steps=400, temperature=0.02,
        market_samples=500, own_samples=128,
    ).fit()  # fmt: skip
    v = np.linspace(0, 1, 50)
    assert np.sqrt(np.mean((auction.bid(v) - v / 2) ** 2)) < 0.05


# --- invariances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["closed_form", "abr", "fictitious"])
def test_values_times_c_give_bids_times_c(method):
    """Exactly for a power of two: values are rescaled to [0, 1] inside."""
    v = np.linspace(0, 1, 21)
    options = {"steps": 60} if method == "abr" else {}
    small = AuctionBNE("first_price", Uniform(0, 1), 3, method=method, **options).fit()
    large = AuctionBNE("first_price", Uniform(0, 64), 3, method=method, **options).fit()
    np.testing.assert_allclose(large.bid(64 * v), 64 * small.bid(v), rtol=1e-9, atol=1e-9)


def test_a_shift_of_all_values_shifts_the_bids():
    v = np.linspace(0, 1, 21)
    here = AuctionBNE("first_price", Uniform(0, 1), 3, method="abr", steps=60).fit()
    there = AuctionBNE("first_price", Uniform(4, 5), 3, method="abr", steps=60).fit()
    np.testing.assert_allclose(there.bid(4 + v), 4 + here.bid(v), atol=1e-6)


@pytest.mark.parametrize("gradient", ["exact", "quadrature"])
def test_a_seed_does_not_depend_on_the_others(gradient):
    game = make_game("first_price", [Uniform(), Uniform(0, 0.5)], [2, 1])
    chosen = Settings(gradient=gradient, steps=30, nodes=64)
    together = learn(game, chosen, rngs([0, 1, 2, 3, 4, 5, 6, 7, 8]))
    alone = learn(game, chosen, rngs([4]))
    np.testing.assert_array_equal(together.bids[4], alone.bids[0])


def test_step_sizes_are_stacked_too():
    game = make_game("first_price", Uniform(), 3)
    chosen = Settings(steps=30, nodes=64)
    both = learn(game, chosen, rngs([0, 0]), lrs=[0.003, 0.01])
    one = learn(game, replace(chosen, lr=0.01), rngs([0]))
    np.testing.assert_array_equal(both.bids[1], one.bids[0])
    assert (both.bids[0] != both.bids[1]).any()


def test_the_reserve_binds():
    auction = AuctionBNE("second_price", Uniform(), 2, reserve=0.5).fit()
    found = auction.revenue(100_000)
    assert found["sold"] == pytest.approx(0.75, abs=0.01)
    assert found["revenue"] == pytest.approx(5 / 12, abs=0.005)  # Myerson's optimum for two


# --- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["abs", "relu", "exp"])
def test_backward_is_the_gradient_of_forward(activation):
    nets = BidNetworks(rngs([5]), hidden=(4, 3), activation=activation)
    v, direction = np.linspace(0.1, 1, 7)[None], np.linspace(-1, 1, 7)[None]
    nets.forward(v)
    gradients = [g for _, g in nets._gradients(direction)]
    for parameter, gradient in zip(nets._parameters(), gradients, strict=True):
        index = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        moved = []
        for e in (1e-6, -2e-6):
            parameter[index] += e
            moved.append((direction * nets.forward(v)).sum())
        parameter[index] += 1e-6
        assert (moved[0] - moved[1]) / 2e-6 == pytest.approx(gradient[index], rel=1e-4, abs=1e-8)


def test_initialisation_is_torchs():
    nets = BidNetworks(rngs([0]))
    for weights, fan_in in zip(nets.weights, (1, 32, 32), strict=True):
        assert np.abs(weights).max() <= 1 / np.sqrt(fan_in)
        assert np.abs(weights).max() > 0.9 / np.sqrt(fan_in)


@given(st.integers(7, 40), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_local_fits_are_exact_for_cubics(m, seed):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.uniform(0.5, 1.5, m))
    x = (x - x[0]) / (x[-1] - x[0])
    c = rng.normal(size=4)
    first, second = derivative_operators(x, 3)
    cubic = np.polynomial.Polynomial(c)
    np.testing.assert_allclose(first @ cubic(x), cubic.deriv()(x), atol=1e-6)
    np.testing.assert_allclose(second @ cubic(x), cubic.deriv(2)(x), atol=1e-3)


PRIORS = [
    Uniform(2, 7),
    Beta(2, 5, 0, 10),
    TruncNormal(5, 2, 1, 9),
    LogNormal(0, 0.5, 5),
    ScipyPrior(stats.gamma(3), hi=12),
    Empirical(np.random.default_rng(0).gamma(5, 2, 300)),
    Empirical(np.random.default_rng(0).gamma(5, 2, 300), "kde"),
]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_priors_are_consistent(prior):
    u = np.linspace(0, 1, 201)
    v = prior.ppf(u)
    assert v[0] == pytest.approx(prior.support[0])
    assert v[-1] == pytest.approx(prior.support[1])
    np.testing.assert_allclose(prior.cdf(v), u, atol=2e-3)
    grid = np.linspace(*prior.support, 20_001)
    assert np.trapezoid(prior.pdf(grid), grid) == pytest.approx(1, abs=0.02)


@given(st.floats(0.6, 4), st.floats(0.6, 4), st.integers(2, 30), st.floats(0.3, 1))
@settings(max_examples=20, deadline=None)
def test_equilibrium_bids_rise_in_value_and_stay_below_it(a, b, n, rho):
    auction = AuctionBNE("first_price", Beta(a, b), n, risk_aversion=rho).fit()
    v = np.linspace(0.01, 1, 60)
    bid = auction.bid(v)
    assert (bid <= v + 1e-9).all()
    assert (np.diff(bid) > -1e-9).all()
    more = AuctionBNE("first_price", Beta(a, b), n + 1, risk_aversion=rho).fit()
    assert (more.bid(v) >= bid - 1e-7).all()  # competition raises bids


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ("uniform:1,3", (1, 3)),
        ("beta:2,5", (0, 1)),
        ("beta:2,5,0,9", (0, 9)),
        ("normal:5,1,2,8", (2, 8)),
        ("lognormal:0,1,7", (0, 7)),
    ],
)
def test_priors_from_text(text, support):
    assert as_prior(text).support == support


def test_ties_are_spread_not_stacked():
    values = np.repeat(np.arange(40.0), 3)
    with pytest.warns(UserWarning, match="67 % of the samples repeat"):
        prior = Empirical(values)
    assert (np.diff(prior.ppf(np.linspace(0, 1, 100))) > 0).all()


def test_history_and_table_have_their_columns():
    auction = AuctionBNE("first_price", Uniform(0, 50), 5, method="abr", steps=100).fit()
    assert list(auction.history_) == [
        "step", "l2", "brd", "exploitability", "seconds", "share_newton",
    ]  # fmt: skip
    assert auction.history_["l2"].iloc[-1] < auction.history_["l2"].iloc[0]
    table = auction.table()
    assert list(table) == ["value", "bid", "shading_percent", "win_probability", "expected_gain"]
    assert table["win_probability"].iloc[-1] == pytest.approx(1)
    assert auction.best_response_distance().iloc[0] < 5


def test_auto_takes_the_formula_then_shooting_then_learning():
    assert AuctionBNE("first_price", Beta(2, 2), 3).fit().method_ == "closed_form"
    assert AuctionBNE("first_price", [Beta(2, 2), Uniform()], 1).fit().method_ == "ode"
    quick = AuctionBNE("first_price", [Beta(2, 2), Uniform()], [1, 2], steps=10).fit()
    assert quick.method_ == "abr"
    assert AuctionBNE("second_price", [Beta(2, 2), Uniform()], 2).fit().method_ == "closed_form"


def test_asymmetric_all_pay_is_played_out():
    auction = AuctionBNE("all_pay", ["uniform:0,1", "uniform:0,2"], 1).fit()
    assert auction.method_ == "fictitious"
    assert auction.exploitability()["ex_ante"].max() < 0.03


def test_networks_that_bid_far_too_much_come_back():
    """All pay at a wild step size: bids leave the value range, and the market stays finite."""
    game = make_game("all_pay", [Uniform(0, 0.5), Uniform()], 1)
    wild = replace(PUBLISHED, method="utility_gradient", bandwidth=0.0125, lr=0.5, steps=200)
    done = learn(game, wild, rngs([0]))
    assert np.isfinite(done.bids).all()


@pytest.mark.parametrize("rho", [1.0, 0.5])
@pytest.mark.parametrize("mechanism", ["first_price", "second_price", "all_pay"])
def test_softmax_slopes_are_derivatives(mechanism, rho):
    """Against finite differences of the allocation by softmax over all bids, as published."""
    if mechanism == "all_pay" and rho < 1:
        pytest.skip("not supported")
    others = np.random.default_rng(0).random((3, 200)) / 2
    v, b, temperature = np.array([0.9, 0.6]), np.array([0.4, 0.2]), 0.05

    def utility(b):
        bids = np.concatenate([np.broadcast_to(b[None, :, None], (1, 2, 200)),
                               np.repeat(others[:, None], 2, axis=1)])  # fmt: skip
        share = np.exp(bids / temperature)
        share = share[0] / share.sum(axis=0)
        if mechanism == "all_pay":
            return (share * v[:, None]).mean(axis=1) - b
        paid = b[:, None] if mechanism == "first_price" else others.max(axis=0)[None]
        return (share * money(v[:, None] - paid, rho)).mean(axis=1)

    e = 1e-4
    slope, curvature = softmax_slopes(mechanism, rho, v, b, others, temperature)
    np.testing.assert_allclose(slope, (utility(b + e) - utility(b - e)) / (2 * e), rtol=1e-4)
    second = (utility(b + e) - 2 * utility(b) + utility(b - e)) / e**2
    np.testing.assert_allclose(curvature, second, rtol=1e-3, atol=1e-3)
