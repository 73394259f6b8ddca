"""Values that a formula fixes: the anchors of the paper file."""

import numpy as np
import pytest
from scipy import stats

from practicum.games.auction_bne import (
    AuctionBNE,
    Beta,
    BidFunction,
    Uniform,
    as_prior,
    best_response_distance,
    exploitability,
    fictitious_play,
    kernel_sums,
    make_game,
    optimal_reserve,
    revenue,
    shoot,
    symmetric_equilibrium,
    uniform_pair_equilibrium,
    utility_condition_number,
    utility_slopes,
)
from practicum.games.auction_bne.market import KernelMarket, QuantileMarket, quantile_nodes

V = np.linspace(0.02, 1, 99)
BIDDERS = (2, 3, 5, 10, 50)


def bids(mechanism, prior, n, values=V, **more):
    return symmetric_equilibrium(make_game(mechanism, prior, n, **more))(values)


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", BIDDERS)
def test_uniform_first_price_bids_the_share_n_minus_1_over_n(n):
    np.testing.assert_allclose(bids("first_price", Uniform(), n), V * (n - 1) / n, atol=1e-9)


@pytest.mark.parametrize("n", BIDDERS)
@pytest.mark.parametrize("a", [0.5, 2.0, 3.0])
def test_power_priors(n, a):
    expected = V * a * (n - 1) / (a * (n - 1) + 1)
    np.testing.assert_allclose(bids("first_price", Beta(a, 1), n), expected, atol=1e-5)


@pytest.mark.parametrize("n", BIDDERS)
def test_second_price_is_truthful(n):
    np.testing.assert_allclose(bids("second_price", Beta(2, 5), n), V, atol=1e-12)


@pytest.mark.parametrize("n", BIDDERS)
def test_uniform_all_pay(n):
    expected = (n - 1) / n * V**n
    np.testing.assert_allclose(bids("all_pay", Uniform(), n), expected, atol=2e-5)


@pytest.mark.parametrize("n", [2, 6, 10])
def test_risk_aversion_of_one_half_equals_the_official_formula(n):
    averse = bids("first_price", Uniform(), n, risk_aversion=0.5)
    np.testing.assert_allclose(averse, V * (n - 1) / (n - 1 + 0.5), atol=1e-9)
    np.testing.assert_allclose(averse, V * (1 - 1 / (2 * n - 1)), atol=1e-9)


@pytest.mark.parametrize("n", [2, 5])
def test_reserve(n):
    r, v = 0.3, np.linspace(0.3, 1, 50)
    expected = (1 - 1 / n) * v + v / n * (r / v) ** n
    np.testing.assert_allclose(bids("first_price", Uniform(), n, v, reserve=r), expected, atol=1e-7)
    assert np.isnan(bids("first_price", Uniform(), n, np.array([0.1, 0.29]), reserve=r)).all()


def test_all_pay_with_a_reserve_starts_where_entry_just_pays():
    r, n = 0.2, 3
    beta = symmetric_equilibrium(make_game("all_pay", Uniform(), n, reserve=r))
    entry = r ** (1 / n)  # v F(v)^(n-1) = v^n = r
    assert beta.entry == pytest.approx(entry, abs=1e-9)
    assert beta(np.array(entry + 1e-6)) == pytest.approx(r, abs=1e-4)
    v = np.linspace(entry, 1, 30)
    np.testing.assert_allclose(beta(v), v**n - (v**n - entry**n) / n, atol=1e-5)


def test_asymmetric_pair_and_its_common_top_bid():
    game = make_game("first_price", ["uniform:0,0.5", "uniform:0,1"], 1)
    weak, strong = uniform_pair_equilibrium(game)
    v, k = np.linspace(0.01, 0.5, 40), 1 / 0.5**2 - 1
    np.testing.assert_allclose(weak(v), (1 - np.sqrt(1 - k * v**2)) / (k * v), atol=1e-6)
    v = np.linspace(0.01, 1, 40)
    np.testing.assert_allclose(strong(v), (1 - np.sqrt(1 + k * v**2)) / (-k * v), atol=1e-6)
    assert weak(np.array(0.5)) == pytest.approx(1 / 3)
    assert strong(np.array(1.0)) == pytest.approx(1 / 3)


def test_shooting_agrees_with_the_formula_of_the_pair():
    game = make_game("first_price", ["uniform:0,0.5", "uniform:0,1"], 1)
    for own, exact in zip(shoot(game), uniform_pair_equilibrium(game), strict=True):
        v = np.linspace(0.005, own.support[1], 60)
        np.testing.assert_allclose(own(v), exact(v), atol=2e-5)


def test_shooting_agrees_with_the_symmetric_integral():
    pair = make_game("first_price", [Beta(2, 3), Beta(2, 3)], 1)
    exact = symmetric_equilibrium(make_game("first_price", Beta(2, 3), 2))
    np.testing.assert_allclose(shoot(pair)[0](V), exact(V), atol=2e-5)


def test_fictitious_play_comes_close():
    (beta,) = fictitious_play(make_game("first_price", Uniform(), 3))
    assert np.sqrt(np.mean((beta(V) - V * 2 / 3) ** 2)) < 0.01


# --- revenue -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("mechanism", ["first_price", "second_price", "all_pay"])
def test_revenue_equivalence(mechanism, n):
    game = make_game(mechanism, Uniform(), n)
    found = revenue(game, [symmetric_equilibrium(game)], 200_000, np.random.default_rng(0))
    assert found["revenue"] == pytest.approx((n - 1) / (n + 1), abs=5e-3)
    assert found["efficiency"] == 1.0


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "n", "reserve", "revenue"),
    [  # v - (1 - F)/f is 2v - hi; revenues by hand
        ("uniform:1,3", 2, 1.5, 1.6875),
        ("uniform:0,1", 1000, 0.5, 999 / 1001),
        ("uniform:2,3", 2, 2.0, 7 / 3),  # positive everywhere: no reserve helps
    ],
)
def test_optimal_reserve(prior, n, reserve, revenue):
    found = optimal_reserve(as_prior(prior), n)
    assert found == pytest.approx((reserve, revenue), abs=2e-4)


def test_optimal_reserve_earns_what_the_simulation_says():
    best, earned = optimal_reserve(as_prior("beta:2,5"), 3)

    def simulated(reserve):
        return AuctionBNE("first_price", "beta:2,5", 3, reserve=reserve).fit().revenue()

    assert simulated(best)["low"] < earned < simulated(best)["high"]
    assert simulated(0.6 * best)["high"] < earned
    assert simulated(1.4 * best)["high"] < earned


def test_gradient_spot_value():
    """n=3, the others bid v/2, v=.8, b=.4: u'=.64, u''=-3.2, Newton's target .6 (capped at .5)."""
    v, b = np.array(0.8), np.array(0.4)
    H, h, dh = (2 * b) ** 2, 8 * b, np.array(8.0)
    slope, curvature = utility_slopes("first_price", 1.0, v, b, H, h, dh)
    assert slope == pytest.approx(0.64)
    assert curvature == pytest.approx(-3.2)
    assert b - slope / curvature == pytest.approx(0.6)
    auction = AuctionBNE("first_price", Uniform(), 3)
    auction.functions_ = [BidFunction.of(Uniform(), lambda x: x / 2)]
    assert auction.best_response(0.8)[0] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 10, 50])
def test_at_equilibrium_the_slope_vanishes_and_the_curvature_is_known(n):
    game = make_game("first_price", Uniform(), n)
    values, shares = quantile_nodes(game, 256)
    theta = (n - 1) / n
    H, rate, curve, excess = QuantileMarket(game, values, shares)(theta * values)
    slope, curvature = utility_slopes(
        "first_price", 1.0, values, theta * values, H, H * rate, H * curve
    )
    np.testing.assert_allclose(slope, 0, atol=1e-8)
    np.testing.assert_allclose(curvature, -n * values ** (n - 2) / theta, rtol=1e-5)
    assert (excess == 0).all()


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.8])
@pytest.mark.parametrize("mechanism", ["first_price", "second_price", "all_pay"])
def test_slopes_are_the_derivatives_of_the_utility(mechanism, rho):
    """Against finite differences of the exact utility, H = b^2."""
    if mechanism == "all_pay" and rho < 1:
        pytest.skip("not supported")
    v = np.array([0.8, 0.8, 0.3])
    b = np.array([0.3, 0.7, 0.6])  # below and above the value

    def utility(b):
        m = np.linspace(0, 1, 20001)[:, None] * b  # trapezoid over the prices below b
        gain = v - (b if mechanism != "second_price" else m)
        s = np.where(gain > 0, np.abs(gain) ** rho, gain)
        if mechanism == "second_price":
            return np.trapezoid(s * 2 * m, m, axis=0)
        return s * b**2 if mechanism == "first_price" else v * b**2 - b

    def slopes(b):
        return utility_slopes(mechanism, rho, v, b, b**2, 2 * b, np.full(3, 2.0))

    e = 1e-4
    slope, curvature = slopes(b)
    np.testing.assert_allclose(slope, (utility(b + e) - utility(b - e)) / (2 * e), atol=1e-4)
    change = (slopes(b + e)[0] - slopes(b - e)[0]) / (2 * e)
    np.testing.assert_allclose(curvature, change, atol=1e-4)


# --- the market ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bandwidth", [0.05, 0.02])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_binned_kernel_equals_direct_sums(n, bandwidth):
    game = make_game("first_price", Uniform(), n)
    values, shares = quantile_nodes(game, 512)
    x = (0.6 * values + 0.1 * np.sin(7 * values))[0]  # not increasing
    edges = np.arange(513) / 512
    weights = np.empty(512)
    weights[np.argsort(x)] = np.diff(edges ** (n - 1))
    z = (x[:, None] - x[None, :]) / bandwidth
    density = stats.norm.pdf(z) / bandwidth
    direct = stats.norm.cdf(z) @ weights, density @ weights, (-z / bandwidth * density) @ weights
    for found, expected in zip(KernelMarket(game, shares)(x[None], bandwidth), direct):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found[0] / scale, expected / scale, atol=1e-4)


def test_sampled_kernel_tends_to_the_quadrature():
    game = make_game("first_price", Uniform(), 3)
    values, shares = quantile_nodes(game, 512)
    own = 0.5 * values
    exact = KernelMarket(game, shares)(own, 0.05)
    draws = 0.5 * np.random.default_rng(0).random((2, 200_000)).max(axis=0)
    sampled = [
        np.concatenate(parts)
        for parts in zip(*(kernel_sums(b, draws, 0.05) for b in np.split(own[0], 32)))
    ]
    u = utility_slopes("first_price", 1.0, values[0], own[0], *(m[0] for m in exact))
    w = utility_slopes("first_price", 1.0, values[0], own[0], *sampled)
    np.testing.assert_allclose(u[0], w[0], atol=1e-2)


def test_quantile_market_of_several_types_equals_one_type():
    """One type with k bidders is k types with one each: the market is the same."""
    one = make_game("first_price", Uniform(), 3)
    three = make_game("first_price", [Uniform()] * 3, 1)
    values, shares = quantile_nodes(three, 256)
    tied = np.repeat((0.5 * values[:1] ** 1.3), 3, axis=0)
    alone = QuantileMarket(one, values[:1], shares[:1])(tied[:1])
    apart = QuantileMarket(three, values, shares)(tied)
    for a, b in zip(alone, apart):
        np.testing.assert_allclose(np.repeat(a, 3, axis=0), b, rtol=1e-9, atol=1e-12)
    kernel = KernelMarket(one, shares[:1])(tied[:1], 0.05)
    for a, b in zip(kernel, KernelMarket(three, shares)(tied, 0.05)):
        np.testing.assert_allclose(np.repeat(a, 3, axis=0), b, rtol=1e-9, atol=1e-12)


def test_order_of_types_changes_nothing():
    priors, counts = [Uniform(0, 0.5), Uniform(0, 1)], [1, 2]
    values, shares = quantile_nodes(make_game("first_price", priors, counts), 128)
    there = QuantileMarket(make_game("first_price", priors, counts), values, shares)
    back = QuantileMarket(
        make_game("first_price", priors[::-1], counts[::-1]), values[::-1], shares[::-1]
    )
    for a, b in zip(there(0.5 * values), back(0.5 * values[::-1])):
        np.testing.assert_allclose(a, b[::-1], rtol=1e-12)


# --- certificates --------------------------------------------------------------------------------


def test_exploitability_of_linear_bids():
    game = make_game("first_price", Uniform(), 3)
    half = exploitability(game, [BidFunction.of(Uniform(), lambda v: v / 2)])
    exact = exploitability(game, [BidFunction.of(Uniform(), lambda v: v * 2 / 3)])
    assert half["ex_ante"].iloc[0] == pytest.approx(0.015625, abs=1e-6)
    assert exact["ex_ante"].iloc[0] == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("mechanism", ["first_price", "second_price", "all_pay"])
def test_closed_forms_leave_nothing_to_gain(mechanism):
    for prior in (Beta(2, 5), Uniform(20, 60)):
        game = make_game(mechanism, prior, 4)
        table = exploitability(game, [symmetric_equilibrium(game)])
        assert table["certified"].iloc[0] < 1e-4 * game.top
        assert (table["certified"] >= table["interim"] - 1e-12).all()


@pytest.mark.parametrize("mechanism", ["first_price", "second_price", "all_pay"])
def test_closed_forms_with_a_reserve_leave_nothing_to_gain(mechanism):
    game = make_game(mechanism, Uniform(), 3, reserve=0.3)
    table = exploitability(game, [symmetric_equilibrium(game)])
    assert table["certified"].iloc[0] < 1e-4


def test_the_certificate_bounds_a_finer_search():
    game = make_game("first_price", Uniform(), 3, risk_aversion=0.7)
    own = BidFunction.of(Uniform(), lambda v: 0.6 * v**1.2)
    certified = exploitability(game, [own])["certified"].iloc[0]
    v = (np.arange(400) + 0.5) / 400
    b = np.linspace(0, 0.6, 40_001)
    H = np.interp(b, own.bids, own.cdf) ** 2
    best = np.array([(np.maximum(x - b, 0) ** 0.7 * H).max() for x in v])
    mine = (v - own(v)) ** 0.7 * np.interp(own(v), own.bids, own.cdf) ** 2
    gain = best ** (1 / 0.7) - mine ** (1 / 0.7)
    assert gain.max() <= certified
    assert certified <= 1.01 * gain.max()


def test_the_regret_is_bounded_by_the_best_response_distance():
    game = make_game("first_price", Uniform(), 3)
    own = [BidFunction.of(Uniform(), lambda v: 0.64 * v)]
    brd = best_response_distance(game, own).iloc[0]
    theta = 0.64  # |u''| of linear bids is at most |gain| h' + 2 h = 6 v / theta^2 ...
    assert exploitability(game, own)["ex_ante"].iloc[0] <= 6 / theta**2 / 2 * brd


def test_condition_numbers():
    expected = {5: 102.2, 10: 402.0, 20: 1602.0, 50: 10002.0}
    assert utility_condition_number(2)[0] == pytest.approx(19.3, abs=0.05)
    for n, condition in expected.items():
        assert utility_condition_number(n)[0] == pytest.approx(condition, abs=0.06)
    smallest = {2: 1.05, 5: 0.63, 10: 0.56, 20: 0.53, 50: 0.51}
    for n, times in smallest.items():
        assert utility_condition_number(n)[1] * n * n == pytest.approx(times, abs=0.006)
        assert utility_condition_number(n, True)[0] == pytest.approx(19.28, abs=0.005)


@pytest.mark.parametrize("mechanism", ["first_price", "all_pay"])
@pytest.mark.parametrize("flat", [0.0, 0.2])
def test_a_shared_bid_is_no_equilibrium(mechanism, flat):
    """All bid the same: a little more wins for sure, and keeping to it loses every tie."""
    game = make_game(mechanism, Uniform(), 2)
    v = (np.arange(400) + 0.5) / 400
    table = exploitability(game, [BidFunction.of(Uniform(), lambda v: 0 * v + flat)])
    lost = flat if mechanism == "all_pay" else 0.0  # what is paid without winning
    gain = np.maximum(v - flat, 0) + lost
    assert table["ex_ante"].iloc[0] == pytest.approx(gain.mean(), abs=1e-6)


def test_a_flat_stretch_leaves_a_gain():
    game = make_game("first_price", Uniform(), 3)
    steps = BidFunction.of(Uniform(), lambda v: np.floor(v * 5) / 5 * 2 / 3)
    smooth = BidFunction.of(Uniform(), lambda v: v * 2 / 3)
    gains = [exploitability(game, [f])["ex_ante"].iloc[0] for f in (steps, smooth)]
    assert gains[0] > 0.01 > 1e-6 > gains[1]


def test_an_auction_says_what_it_is():
    auction = AuctionBNE("first_price", ["uniform:0,1", "uniform:0,2"], [1, 3])
    said = "AuctionBNE(first_price, 1 x uniform on [0, 1], 3 x uniform on [0, 2], method=auto)"
    assert repr(auction) == said
