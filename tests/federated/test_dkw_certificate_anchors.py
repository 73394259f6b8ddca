"""The correctness anchors of the paper card, to the digits given there."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from practicum.federated.dkw_certificate import (
    affordable_shift,
    beta_fleet,
    certify,
    dkw_band,
    dkw_half_width,
    dkw_quantile,
    estimate_shift,
    program_bound,
    program_constants,
    program_optimum,
    radius_to_reach,
    risk_upper_limit,
    tail_upper,
    transport_tail,
    worst_case_mean,
    worst_case_tail,
)

EIGHT = [0.05, 0.10, 0.12, 0.20, 0.22, 0.30, 0.45, 0.80]
probability = st.floats(0, 1)
radius = st.floats(0, 5)
divergences = pytest.mark.parametrize("divergence", ["chi2", "kl"])


# --- 1, 2: the worst tail ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("divergence", "p", "expected"),
    [
        ("chi2", 0.3, 0.504939),
        ("chi2", 0.7, 0.904939),
        ("chi2", 0.05, 0.147468),
        ("kl", 0.3, 0.606287),
        ("kl", 0.7, 0.949750),
        ("kl", 0.05, 0.236138),
    ],
)
def test_anchor_1_worst_tail(divergence, p, expected):
    assert worst_case_tail(p, 0.2, divergence) == pytest.approx(expected, abs=5e-7)


@divergences
def test_anchor_2_limits_of_the_radius(divergence):
    p = np.array([0.0, 1e-9, 0.3, 0.5, 1.0])
    np.testing.assert_array_equal(worst_case_tail(p, 0.0, divergence), p)
    np.testing.assert_array_equal(worst_case_tail(p[1:4], 1e12, divergence), 1)
    np.testing.assert_array_equal(worst_case_tail([0.0, 1.0], 0.2, divergence), [0, 1])
    np.testing.assert_array_equal(worst_case_tail([0.0, 1.0], math.inf, divergence), [0, 1])


@divergences
@settings(deadline=None)
@given(p=probability, eps=radius)
def test_the_worst_tail_lies_on_the_sphere(divergence, p, eps):
    q = float(worst_case_tail(p, eps, divergence))
    assert p <= q <= 1
    if 1e-6 < p < 1 - 1e-6 and eps > 1e-3 and q < 1 - 1e-12:
        assert float(radius_to_reach(p, q, divergence)) == pytest.approx(eps, rel=1e-6)


@settings(deadline=None)
@given(p=probability, eps=radius)
def test_anchor_9_a_chi_square_ball_lies_in_a_kl_ball(p, eps):
    inner = worst_case_tail(p, eps, "chi2")
    assert inner <= worst_case_tail(p, math.log1p(eps), "kl") + 1e-9


# --- 3: the published program --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("divergence", "eps", "p", "expected"),
    [("chi2", 0.2, 0.3, 0.726644), ("kl", 0.2, 0.3, 0.857992), ("chi2", 0.5, 0.05, 0.208114)],
)
def test_anchor_3_program(divergence, eps, p, expected):
    optimum = program_optimum(p, eps, 200, 0.05, divergence)
    assert float(optimum) == pytest.approx(expected, abs=5e-7)
    slack = math.sqrt(math.log(200 / 0.05) / 200)
    assert float(program_bound(p, eps, 200, 0.05, divergence)) == pytest.approx(
        min(1, expected + slack), abs=5e-7
    )


@divergences
@pytest.mark.parametrize("eps", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 0.9, 1.0])
def test_two_values_solve_the_program_of_k_variables(divergence, eps, p):
    cp = pytest.importorskip("cvxpy")
    k, c = 60, program_constants(eps, 60, 0.05, divergence)
    above = (np.arange(k) < p * k).astype(float)
    alpha = cp.Variable(k)
    distance = cp.sum_squares(alpha - 1) if divergence == "chi2" else -cp.sum(cp.entr(alpha))
    limits = [alpha >= 0, alpha <= c.cap, distance / k <= c.divergence]
    limits.append(cp.abs(cp.sum(alpha) / k - 1) <= c.mass)
    conic = cp.Problem(cp.Maximize(above @ alpha / k), limits).solve(solver="CLARABEL")
    assert float(program_optimum(p, eps, k, 0.05, divergence)) == pytest.approx(conic, abs=1e-7)


def test_the_cap_solves_f_of_lambda_also_where_the_official_root_search_stops():
    cap = program_constants(0.1, 100, 0.05, "kl").cap
    assert cap * math.log(cap) == pytest.approx(0.1 / 0.05)
    assert program_constants(0.2, 100, 0.05, "chi2").cap == pytest.approx(1 + math.sqrt(4))


def test_the_optimum_exceeds_one_and_the_bound_does_not():
    assert float(program_optimum(0.95, 0.5, 200)) > 1.1
    assert float(program_bound(0.95, 0.5, 200)) == 1


@pytest.mark.parametrize(
    ("divergence", "k", "bound", "truth"),
    [("kl", 20_000, 0.059, 0.122), ("chi2", 200_000, 0.039, 0.054)],
)
def test_the_program_falls_below_the_truth_for_many_clients(divergence, k, bound, truth):
    assert float(program_bound(0.01, 0.2, k, 0.05, divergence)) == pytest.approx(bound, abs=5e-4)
    assert float(worst_case_tail(0.01, 0.2, divergence)) == pytest.approx(truth, abs=5e-4)


# --- 4: the worst mean ---------------------------------------------------------------------------


@pytest.mark.parametrize(("divergence", "expected"), [("chi2", 0.382543), ("kl", 0.440648)])
def test_anchor_4_worst_mean(divergence, expected):
    assert worst_case_mean(EIGHT, eps=0.2, divergence=divergence) == pytest.approx(
        expected, abs=5e-7
    )


def primal_mean(risks, weights, eps, divergence):
    """The worst mean by a general solver (SLSQP), one density a client."""
    f = (lambda a: (a - 1) ** 2) if divergence == "chi2" else (lambda a: special.xlogy(a, a))
    found = optimize.minimize(
        lambda a: -weights @ (a * risks),
        np.ones(len(risks)),
        bounds=[(1e-12, None)] * len(risks),
        constraints=[
            {"type": "eq", "fun": lambda a: weights @ a - 1},
            {"type": "ineq", "fun": lambda a: eps - weights @ f(a)},
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return -found.fun


@divergences
@pytest.mark.parametrize("eps", [0.02, 0.5, 2.0])
def test_worst_mean_equals_the_primal(divergence, eps):
    rng = np.random.default_rng(1)
    risks, weights = rng.random(7), rng.dirichlet(np.ones(7))
    ours = worst_case_mean(risks, weights, eps=eps, divergence=divergence)
    assert ours == pytest.approx(primal_mean(risks, weights, eps, divergence), abs=2e-5)


@divergences
def test_worst_mean_at_the_ends(divergence):
    assert worst_case_mean(EIGHT, eps=0.0, divergence=divergence) == pytest.approx(0.28)
    assert worst_case_mean(EIGHT, eps=100.0, divergence=divergence) == pytest.approx(0.8)
    assert worst_case_mean(EIGHT, eps=math.inf, divergence=divergence) == pytest.approx(0.8)
    assert worst_case_mean([0.3] * 5, eps=1.0, divergence=divergence) == pytest.approx(0.3)
    # two values: the same as the worst tail
    two = worst_case_mean([0.0, 1.0], [0.7, 0.3], eps=0.2, divergence=divergence)
    assert two == pytest.approx(float(worst_case_tail(0.3, 0.2, divergence)), abs=1e-7)


@divergences
@settings(max_examples=50, deadline=None)
@given(risks=st.lists(probability, min_size=2, max_size=8), eps=radius, lift=probability)
def test_worst_mean_is_monotone_in_risks_and_radius(divergence, risks, eps, lift):
    base = worst_case_mean(risks, eps=eps, divergence=divergence)
    assert np.mean(risks) - 1e-9 <= base <= max(risks) + 1e-9
    raised = [max(r, lift) for r in risks]
    assert worst_case_mean(raised, eps=eps, divergence=divergence) >= base - 1e-7
    assert worst_case_mean(risks, eps=eps + 0.1, divergence=divergence) >= base - 1e-7


# --- 5: transport --------------------------------------------------------------------------------


def test_anchor_5_greedy():
    assert transport_tail([0.1, 0.2, 0.3, 0.4], [0.35], 0.02)[0] == pytest.approx(0.55, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    risks=st.lists(probability, min_size=1, max_size=6),
    level=st.floats(0.01, 1),
    budget=st.floats(0, 0.5),
)
def test_greedy_equals_the_linear_program(risks, level, budget):
    r = np.array(risks)
    cost = np.maximum(level - r, 0)
    lp = optimize.linprog(
        -np.ones(len(r)) / len(r), A_ub=[cost / len(r)], b_ub=[budget], bounds=(0, 1)
    )
    assert transport_tail(risks, [level], budget)[0] == pytest.approx(-lp.fun, abs=1e-7)


# --- 6: the band ---------------------------------------------------------------------------------


def test_anchor_6_half_width():
    assert dkw_half_width(500, 0.05) == pytest.approx(0.0607361, abs=5e-8)
    assert dkw_half_width(500, 0.05, "upper") == pytest.approx(0.0547333, abs=5e-8)


def test_anchor_6_equals_statsmodels():
    module = pytest.importorskip("statsmodels.distributions.empirical_distribution")
    risks = np.sort(np.random.default_rng(0).random(500))
    cdf = np.arange(1, 501) / 500
    low, high = module._conf_set(cdf, alpha=0.05)
    band = dkw_band(risks, levels=np.nextafter(risks, 2))
    np.testing.assert_allclose(1 - band.upper, low, atol=1e-12)
    np.testing.assert_allclose(1 - band.lower, high, atol=1e-12)


def test_one_sided_bands_are_half_of_a_two_sided_one():
    risks = np.random.default_rng(0).random(100)
    upper, lower = (dkw_band(risks, side=side) for side in ("upper", "lower"))
    assert upper.lower is None
    assert (lower.upper == 1).all()
    two = dkw_band(risks)
    assert (upper.upper <= two.upper + 1e-12).all()
    assert (lower.lower >= two.lower - 1e-12).all()


def test_quantile_intervals_are_open_where_the_official_ones_are_too_short():
    x = np.arange(1, 101) / 100
    assert dkw_quantile(x, 0.5) == (0.37, 0.64)
    assert dkw_quantile(x, 0.02) == (-math.inf, 0.16)
    assert dkw_quantile(x, 0.99) == (0.86, math.inf)
    low, high = dkw_quantile(x, 0.99, compat="official")
    assert (low, high) == (0.86, 1.0)
    assert dkw_quantile(x, 0.5, compat="official") == (0.37, 0.63)


# --- 7, 8: monotone, symmetric -------------------------------------------------------------------


def table(seed=0, k=80, n=200):
    rng = np.random.default_rng(seed)
    return rng.binomial(n, rng.beta(2, 6, k)) / n


@pytest.mark.parametrize("method", ["exact", "union", "program"])
@divergences
def test_anchor_7_monotone(method, divergence):
    errors = table()

    def upper(eps=0.2, delta=0.05, copies=1):
        return certify(
            np.tile(errors, copies),
            200,
            eps=eps,
            delta=delta,
            divergence=divergence,
            method=method,
            losses="01",
        ).upper

    base = upper()
    assert (np.diff(base) <= 1e-12).all()
    assert (upper(eps=0.3) >= base - 1e-12).all()
    assert (upper(delta=0.1) <= base + 1e-12).all()
    if method == "exact":  # the others let ln K enter the clients' limits
        assert (upper(copies=2) <= base + 1e-12).all()
        assert (upper(copies=10) <= upper(copies=2) + 1e-12).all()


@divergences
def test_anchor_8_order_and_copies_of_clients(divergence):
    errors = table()
    shuffled = np.random.default_rng(1).permutation(errors)
    for method in ("exact", "union", "program"):
        a, b = (
            certify(e, 200, eps=0.2, divergence=divergence, method=method)
            for e in (errors, shuffled)
        )
        np.testing.assert_array_equal(a.upper, b.upper)
        assert a.mean_upper == pytest.approx(b.mean_upper, abs=1e-12)
    share = [(errors >= 0.3).mean(), (np.tile(errors, 3) >= 0.3).mean()]
    q = worst_case_tail(share, 0.2, divergence)
    assert q[0] == q[1]
    assert worst_case_mean(errors, eps=0.2, divergence=divergence) == pytest.approx(
        worst_case_mean(np.tile(errors, 3), eps=0.2, divergence=divergence), abs=1e-7
    )


@settings(deadline=None)
@given(exceeding=st.integers(0, 200), k=st.integers(200, 300), delta=st.floats(0.001, 0.3))
def test_the_tail_band_is_a_band(exceeding, k, delta):
    counts = np.array([exceeding, exceeding + 1 if exceeding < k else k])
    upper = tail_upper(counts, k, delta)
    assert (upper >= counts / k).all()
    assert upper[0] <= upper[1] <= 1
    # never far above the constant width, and far below it where few exceed
    constant = tail_upper(counts, k, delta, "dkw")
    assert (upper <= counts / k + dkw_half_width(k, 0.75 * delta, "upper") + 1e-12).all()
    assert tail_upper(np.array([0]), k, delta)[0] < constant.max()


def test_duplicating_the_clients_never_widens_the_tail_band():
    for i in (0, 1, 5, 20, 70):
        uppers = [tail_upper(np.array([c * i]), c * 100)[0] for c in (1, 2, 3, 10, 100, 1000)]
        assert (np.diff(uppers) <= 1e-12).all(), i


def test_the_tail_band_is_missed_no_more_often_than_promised():
    rng, k, misses = np.random.default_rng(0), 100, 0
    for _ in range(2000):
        u = np.sort(rng.random(k))[::-1]  # P(U >= level) = 1 - level
        # just above the (i+1)-th largest, i values exceed: the worst place for the bound
        misses += bool((1 - u > tail_upper(np.arange(k), k)).any())
    assert stats.binomtest(misses, 2000, 0.05, "greater").pvalue > 0.001


@pytest.mark.parametrize("losses", ["01", "bounded"])
@pytest.mark.parametrize("miss", [0.2, 0.01])
def test_limits_of_single_risks_cover_and_beat_hoeffding(losses, miss):
    n = 100
    errors, sizes = np.arange(n + 1) / n, np.full(n + 1, n)
    limit = risk_upper_limit(errors, sizes, miss, losses)
    assert (np.diff(limit) > -1e-12).all()
    assert (limit <= errors + math.sqrt(math.log(1 / miss) / (2 * n)) + 1e-12).all()
    for risk in np.linspace(0.001, 0.999, 57):
        below = limit < risk
        chance = stats.binom.pmf(np.arange(n + 1), n, risk)[below].sum()
        assert chance <= miss + 1e-9


def test_the_bounded_limit_is_a_root():
    x, n, miss = 0.25, 300, 0.05
    limit = float(risk_upper_limit(np.array([x]), np.array([n]), miss)[0])
    kl = special.rel_entr(x, limit) + special.rel_entr(1 - x, 1 - limit)
    assert kl <= math.log(1 / miss) / n + 1e-9


# --- the whole certificate -----------------------------------------------------------------------


def test_no_samples_and_no_shift_leave_the_band():
    risks = table()
    exact = certify(risks, eps=0.0, band="dkw")
    np.testing.assert_allclose(exact.upper, dkw_band(risks, side="upper").upper, atol=1e-12)
    assert exact.mean_upper == pytest.approx(dkw_band(risks, side="upper").mean_upper, abs=1e-9)


def test_many_samples_tend_to_exact_risks():
    risks = np.rint(np.random.default_rng(0).beta(2, 6, 80) * 10**7) / 10**7
    limit = certify(risks, eps=0.2, levels=[0.255, 0.405]).upper
    close = certify(risks, 10**7, eps=0.2, losses="01", levels=[0.255, 0.405]).upper
    np.testing.assert_allclose(close, limit, rtol=1e-3)


def test_unequal_sizes_are_used_and_small_ones_do_not_harm_the_others():
    errors = table(k=200)
    sizes = np.full(200, 200)
    sizes[:20] = 20
    errors[:20] = np.round(errors[:20] * 20) / 20
    mixed = certify(errors, sizes, eps=0.2, losses="01")
    union = certify(errors, sizes, eps=0.2, method="union")
    assert mixed.upper.mean() < union.upper.mean()


@divergences
@pytest.mark.parametrize("method", ["exact", "union"])
def test_mean_bound_is_at_most_the_sum_of_the_tail(divergence, method):
    cert = certify(table(), 200, eps=0.2, divergence=divergence, method=method)
    assert cert.mean_upper <= np.trapezoid(cert.upper, cert.levels) + 2e-3
    assert cert.mean_upper > table().mean()


def test_wasserstein_moves_the_mean_by_lipschitz_times_eps():
    still, moved = (
        certify(table(), eps=e, divergence="wasserstein", lipschitz=0.5) for e in (0.0, 0.1)
    )
    assert moved.mean_upper == pytest.approx(still.mean_upper + 0.05, abs=1e-9)
    np.testing.assert_allclose(still.upper, still.source, atol=1e-9)
    assert (moved.upper >= still.upper - 1e-12).all()


def test_reading_a_certificate():
    cert = certify(table(k=300), eps=0.2)
    assert (cert.at(0.0), cert.at(1.0 + 1e-12)) == (1, cert.upper[-1])
    assert cert.at(0.2505) == cert.at(0.25)  # the next lower level
    level = cert.quantile(0.3)
    assert cert.at(level) <= 0.3 < cert.at(level - 0.001)
    assert cert.quantile(0.0) == math.inf
    assert list(cert.to_frame()) == ["level", "upper", "source", "nominal"]
    assert "certified" in cert.plot().data[0].name
    assert cert.sentence(0.3).startswith("With confidence 95 %")


@divergences
def test_the_affordable_shift_is_where_the_certificate_meets_the_share(divergence):
    errors = table(k=300)
    eps = float(affordable_shift(errors, level=0.4, share=0.4, divergence=divergence)[0])
    assert eps > 0
    at = certify(errors, eps=eps, divergence=divergence, levels=[0.4]).upper[0]
    assert at == pytest.approx(0.4, abs=1e-6)
    assert affordable_shift(errors, level=0.05, share=0.1)[0] == 0


def test_unbounded_losses_have_a_tail_and_no_mean():
    losses = np.random.default_rng(0).exponential(2.0, 400)
    cert = certify(losses, eps=0.2, unbounded=True)
    assert cert.mean_upper == math.inf
    assert cert.levels[-2] == losses.max() < cert.levels[-1]
    np.testing.assert_array_equal(
        cert.upper[:1], certify(losses / 100, eps=0.2, levels=[0.0]).upper
    )
    assert "mean" not in cert.sentence(3.0)
    # beyond all losses that were seen, the bound is the one of a level that none of 400 exceeds
    none = worst_case_tail(tail_upper(np.array([0]), 400), 0.2)[0]
    assert cert.at(1e6) == pytest.approx(none, abs=1e-12)
    assert cert.at(losses.max()) > none


def test_unbounded_losses_may_be_negative_and_move():
    losses = np.random.default_rng(0).normal(-3.0, 1.0, 300)
    cert = certify(losses, eps=0.2, unbounded=True)
    assert (np.diff(cert.levels) > 0).all()
    assert cert.nominal[0] == 1
    assert cert.at(-3.0) < 1 == cert.at(-9.0)
    shift = {"divergence": "wasserstein", "lipschitz": 1.0, "unbounded": True}
    grid = [-4.0, -3.0, -2.0]
    far, near = (certify(losses, eps=e, levels=grid, **shift) for e in (0.1, 0.0))
    np.testing.assert_allclose(near.upper, near.source, atol=1e-12)
    assert (far.upper >= near.upper).all()
    assert far.mean_upper == math.inf
    # a shift of everybody by the budget is in the ball
    assert (far.upper >= (losses[:, None] + 0.1 >= np.array(grid)).mean(0)).all()


def test_shift_estimates():
    rng = np.random.default_rng(0)
    a, b = rng.beta(2, 6, 4000), rng.beta(2, 6, 4000)
    for divergence in ("chi2", "kl"):
        assert estimate_shift(a, a, divergence) == 0
        ties = [0.1] * 60 + [0.2] * 60  # all bins between them are empty in both
        assert estimate_shift(ties, ties, divergence) == 0
        assert estimate_shift(a, b, divergence) < 0.05
        assert estimate_shift(a, b + 0.2, divergence) > 0.3
    assert estimate_shift([0.2, 0.2], [0.2]) == 0
    coarse, fine = (estimate_shift(a, b + 0.1, bins=bins) for bins in (4, 12))
    assert coarse < fine


@pytest.mark.parametrize("shift", ["chi2", "kl", "wasserstein"])
def test_the_worst_network_of_the_ball_is_bounded(shift):
    fleet, levels = beta_fleet(), np.linspace(0, 1, 201)
    truth = fleet.worst_tail(levels, 0.1, shift)
    rng, misses = np.random.default_rng(0), 0
    options = {"lipschitz": 1.0} if shift == "wasserstein" else {}
    for _ in range(300):
        errors, n = fleet.draw(100, n_clients=100, rng=rng)
        bound = certify(
            errors, n, eps=0.1, divergence=shift, losses="01", levels=levels, **options
        ).upper
        misses += bool((bound < truth - 1e-9).any())
    assert stats.binomtest(misses, 300, 0.05, "greater").pvalue > 0.001
