"""Intervals against theory and scipy, decisions against thresholds, Holm against its example."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from practicum.study.evidence import (
    Interval,
    Sample,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    binomial_interval,
    bootstrap_interval,
    differences,
    equivalent_within,
    greater_than,
    holm,
    less_than,
    needs_more,
    never,
    number,
    rate,
)

REPRODUCED, NOT, UNDECIDED = "reproduced", "not reproduced", "inconclusive"


def draws(n, seed=0, kind="normal"):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) if kind == "normal" else rng.exponential(size=n)


# --- the interval --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "exponential"])
@pytest.mark.parametrize("n", [10, 12, 40])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_without_the_t_expansion_the_interval_is_scipys_bca(monkeypatch, kind, n, level):
    monkeypatch.setattr(Sample, "_expand", lambda self, tail: float(ndtri(tail)))
    x = draws(n, seed=n, kind=kind)
    peer = stats.bootstrap(
        (x,),
        np.mean,
        confidence_level=level,
        n_resamples=9999,
        batch=2_000_000 // n,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    ours = Sample(x).interval(level)
    assert (ours.low, ours.high) == pytest.approx((peer.low, peer.high), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [10, 20, 50])
def test_on_symmetric_data_the_expanded_interval_is_as_wide_as_students(n):
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)
    ours = Sample(x).interval()
    half = stats.t.ppf(0.975, (n - 1) / 2) * stats.sem(x)
    assert ours.high - ours.low == pytest.approx(2 * half, rel=0.05)
    assert ours.low + ours.high == pytest.approx(0, abs=0.1 * half)


def test_the_interval_leans_towards_the_long_tail():
    x = stats.expon.ppf((np.arange(30) + 0.5) / 30)
    ours = Sample(x).interval()
    assert ours.high - x.mean() > 1.1 * (x.mean() - ours.low)


@pytest.mark.parametrize(("n", "df"), [(2, 0.5), (3, 1), (5, 2), (7, 8 / 3), (9, 10 / 3)])
def test_few_values_get_students_interval_with_fewer_degrees_of_freedom(n, df):
    x = draws(n)
    ours = Sample(x).interval()
    low, high = stats.t.interval(0.95, df, loc=x.mean(), scale=stats.sem(x))
    assert (ours.low, ours.high) == pytest.approx((low, high))
    assert "Student t" in ours.method


@given(
    st.lists(st.floats(-100, 100), min_size=10, max_size=14),
    st.sampled_from([0.8, 0.9, 0.95]),
)
@settings(max_examples=40, deadline=None)
def test_a_higher_level_is_a_wider_interval_within_the_data(values, level):
    sample = Sample(values)
    assume(sample.bootstrapped)
    inner, outer = sample.interval(level), sample.interval(0.99)
    assert outer.low <= inner.low <= inner.high <= outer.high
    assert min(values) - 1e-9 <= outer.low
    assert outer.high <= max(values) + 1e-9


def test_the_interval_is_the_same_every_time():
    x = draws(20)
    assert bootstrap_interval(x) == bootstrap_interval(list(x)) == bootstrap_interval(pd.Series(x))


# --- the p-value inverts the interval ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "exponential"])
@pytest.mark.parametrize("n", [2, 3, 4, 8, 20, 200])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_p_at_either_end_of_an_interval_is_one_minus_its_level(kind, n, level):
    sample = Sample(draws(n, seed=3, kind=kind))
    interval = sample.interval(level)
    for end in (interval.low, interval.high):  # to the grain of 9,999 resamples
        assert sample.p(end) == pytest.approx(1 - level, rel=0.05)


@pytest.mark.parametrize("values", [[1, 2, 2, 2, 2], [1, 2, 3, 4, 5], list(range(1, 21))])
def test_a_threshold_far_outside_the_data_has_a_tiny_p(values):
    assert Sample(values).p(-1000) < 1e-3


def test_p_is_one_at_the_mean_and_falls_away_from_it():
    sample = Sample(draws(20))
    away = [sample.p(sample.mean + step) for step in (0, 0.1, 0.2, 0.4, 0.8)]
    assert away[0] == pytest.approx(1, abs=0.05)
    assert away == sorted(away, reverse=True)


@given(
    st.lists(st.integers(0, 3), min_size=5, max_size=10).filter(lambda v: len(set(v)) > 1),
    st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 2.75]),
)
@settings(max_examples=100, deadline=None)
def test_holm_over_one_claim_changes_nothing(values, threshold):
    """With a single claim there is nothing to correct for: the interval has decided."""
    verdict = at_least(values, threshold)
    assert holm({"C1": verdict})["C1"].status == verdict.status


# --- decisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decide", "mean", "status"),
    [
        (lambda x: at_least(x, 0.5), 1.0, REPRODUCED),
        (lambda x: at_least(x, 0.5), 0.0, NOT),
        (lambda x: at_least(x, 0.5), 0.5, UNDECIDED),
        (lambda x: at_most(x, 0.5), 0.0, REPRODUCED),
        (lambda x: at_most(x, 0.5), 1.0, NOT),
        (lambda x: at_most(x, 0.5), 0.5, UNDECIDED),
        (lambda x: between(x, 0.5, 1.5), 1.0, REPRODUCED),
        (lambda x: between(x, 0.5, 1.5), 0.0, NOT),
        (lambda x: between(x, 0.5, 1.5), 2.0, NOT),
        (lambda x: between(x, 0.5, 1.5), 1.5, UNDECIDED),
    ],
)
def test_the_interval_decides(decide, mean, status):
    x = np.linspace(-0.2, 0.2, 11) + mean
    verdict = decide(x)
    assert verdict.status == status
    assert verdict.estimate == pytest.approx(mean)
    assert verdict.n == 11
    assert verdict.interval == bootstrap_interval(x)


def test_an_estimate_beyond_the_threshold_is_not_enough():
    assert at_least([0.0, 1.5, 0.2, 1.4, 0.1], 0.5).status == UNDECIDED


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12), st.floats(-10, 10))
@settings(max_examples=60, deadline=None)
def test_at_most_is_at_least_in_the_mirror(values, threshold):
    ours = at_least(values, threshold)
    mirrored = at_most([-v for v in values], -threshold)
    assume(ours.p is None or abs(ours.p - 0.05) > 0.005)
    assert mirrored.status == ours.status


@pytest.mark.parametrize("scale", [1e-120, 1e-15, 1e-9, 1e6, 1e15, 1e120])
@pytest.mark.parametrize("threshold", [-2.0, 0.0, 2.0])
def test_the_unit_does_not_matter(scale, threshold):
    """An error in metres or in picometres: the same verdict."""
    x = draws(9, seed=4)
    assert at_least(scale * x, scale * threshold).status == at_least(x, threshold).status


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12), st.floats(-10, 10))
@settings(max_examples=60, deadline=None)
def test_what_refutes_a_claim_supports_its_opposite(values, threshold):
    over, under = at_least(values, threshold).status, at_most(values, threshold).status
    assert over != NOT or under == REPRODUCED
    assert under != NOT or over == REPRODUCED


# --- degenerate values ---------------------------------------------------------------------------


def test_nothing_decides_nothing():
    verdict = at_least([], 0.5)
    assert verdict.status == UNDECIDED
    assert verdict.n == 0
    assert "one value" not in verdict.sentence


def test_one_value_decides_nothing():
    verdict = at_least([0.7], 0.5)
    assert verdict.status == UNDECIDED
    assert (verdict.interval.low, verdict.interval.high) == (-math.inf, math.inf)
    assert "one value" in verdict.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("others", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0], [math.inf], []])
@pytest.mark.parametrize("decide", [at_least, at_most])
def test_a_value_that_is_not_finite_decides_nothing(decide, bad, others):
    verdict = decide([*others, bad], 0.5)
    assert verdict.status == UNDECIDED
    assert verdict.p is None


@pytest.mark.parametrize(("value", "status"), [(0.7, REPRODUCED), (0.2, NOT)])
def test_five_equal_values_decide_without_a_p(value, status):
    verdict = at_least([value] * 5, 0.5)
    assert verdict.status == status
    assert verdict.p is None


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_than_five_equal_values_may_be_equal_by_luck(n):
    assert at_least([0.7] * n, 0.5).status == UNDECIDED


def test_ones_and_zeros_are_judged_as_a_rate():
    wins = [1.0] * 9 + [0.0]
    assert at_least(wins, 0.5, "wins") == rate(9, 10, low=0.5, what="wins")
    assert at_most(wins, 0.2, "wins") == rate(9, 10, high=0.2, what="wins")
    assert between(wins, -1, 0.4, "wins") == rate(9, 10, high=0.4, what="wins")
    assert at_least([True] * 5, 0.9).status == UNDECIDED
    assert at_least([1] * 30, 0.9).status == UNDECIDED  # 0.884 is still possible
    assert at_least([1] * 40, 0.9).status == REPRODUCED


def test_errors_of_exactly_zero_are_below_a_tolerance():
    assert at_most([0.0] * 5, 1e-9).status == REPRODUCED


@pytest.mark.parametrize("decide", [greater_than, less_than])
def test_equal_arms_are_not_a_gain(decide):
    """An arm that does exactly what the other does has not beaten it."""
    a = [0.9, 0.8, 0.7, 0.9, 0.8]
    assert decide(a, a).status != REPRODUCED


@pytest.mark.parametrize("decide", [greater_than, less_than])
def test_rounding_is_not_a_gain(decide):
    """0.1 + 0.2 is not 0.3: two arms equal but for the last bit."""
    a, b = [0.1 + 0.2] * 2 + [0.3] * 3, [0.3] * 5
    assert decide(a, b).status != REPRODUCED


@pytest.mark.parametrize("pairs", [1, 5])
def test_a_mean_a_hair_from_the_threshold_is_undecided_not_an_error(pairs):
    verdict = at_least([1.0, -1.0] * pairs + [1e-200], 0.0)
    assert verdict.status == UNDECIDED


def test_a_range_that_excludes_nothing_is_refused():
    """A claim that cannot fail is not a claim."""
    with pytest.raises(ValueError):
        between([1.0, 2.0, 3.0], -math.inf, math.inf)


# --- pairs ---------------------------------------------------------------------------------------


def test_pairing_removes_what_both_arms_share():
    noise = 100 * draws(8)
    gain = np.linspace(0.5, 1.5, 8)
    assert greater_than(noise + gain, noise).status == REPRODUCED
    assert less_than(noise, noise + gain).status == REPRODUCED
    assert greater_than(noise + gain, np.roll(noise, 1)).status == UNDECIDED


def test_a_gain_smaller_than_the_margin_is_not_reproduced():
    b = draws(8)
    a = b + np.linspace(0.5, 0.6, 8)
    assert greater_than(a, b, margin=0.4).status == REPRODUCED
    assert greater_than(a, b, margin=0.7).status == NOT


def test_series_are_matched_by_index():
    a = pd.Series([1.0, 2.0, 3.0], index=[0, 1, 2])
    b = pd.Series([30.0, 10.0, 7.0], index=[2, 0, 9])
    assert differences(a, b).tolist() == [-9.0, -27.0]


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="not paired"):
        greater_than([1.0, 2.0, 3.0], [1.0, 2.0])


def test_equivalence_needs_data_not_the_lack_of_it():
    b = draws(8)
    close = b + np.linspace(-0.01, 0.01, 8)
    assert equivalent_within(close, b, 0.1).status == REPRODUCED
    assert equivalent_within(b + draws(8, seed=1), b, 0.1).status == UNDECIDED
    assert equivalent_within(close + 1, b, 0.1).status == NOT


def test_arms_exactly_equal_are_equivalent():
    assert equivalent_within([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 0.1).status == REPRODUCED


def test_an_undecided_range_has_a_p_that_holm_cannot_use_against_others():
    wide = between(draws(6), -0.1, 0.1)
    assert wide.status == UNDECIDED
    assert wide.p >= 0.05


# --- rates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Clopper and Pearson's; 0 and n of n have the closed form 1 - 0.025**(1/n)
        (0, 10, 0.0, 1 - 0.025**0.1),
        (10, 10, 0.025**0.1, 1.0),
        (5, 10, 0.18709, 0.81291),
        (7, 20, 0.15391, 0.59219),
        (81, 263, stats.beta.ppf(0.025, 81, 183), stats.beta.ppf(0.975, 82, 182)),
    ],
)
def test_exact_binomial_interval(successes, n, low, high):
    interval = binomial_interval(successes, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-6)


@pytest.mark.parametrize(
    ("successes", "n", "limits", "status"),
    [
        (95, 100, {"low": 0.8}, REPRODUCED),
        (50, 100, {"low": 0.8}, NOT),
        (80, 100, {"low": 0.8}, UNDECIDED),
        (1, 100, {"high": 0.1}, REPRODUCED),
        (30, 100, {"high": 0.1}, NOT),
        (50, 100, {"low": 0.3, "high": 0.7}, REPRODUCED),
        (10, 10, {"low": 0.9}, UNDECIDED),
        (0, 10, {"low": 0.0, "high": 0.2}, UNDECIDED),
    ],
)
def test_rate(successes, n, limits, status):
    assert rate(successes, n, **limits).status == status


@pytest.mark.parametrize("n", [5, 20, 100])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_rate_on_the_threshold_is_reproduced_with_at_most_half_the_level(n, share):
    """Exactly, by summing over every outcome."""
    outcomes = range(n + 1)
    chances = stats.binom.pmf(outcomes, n, share)
    at_low = [rate(k, n, low=share).status == REPRODUCED for k in outcomes]
    at_high = [rate(k, n, high=share).status == REPRODUCED for k in outcomes]
    assert chances[at_low].sum() <= 0.025 + 1e-12
    assert chances[at_high].sum() <= 0.025 + 1e-12


def test_no_outcomes_need_more():
    assert rate(0, 0, low=0.5).status == "needs more"


def test_a_rate_that_no_outcome_could_refute_is_refused():
    """A claim that cannot fail is not a claim."""
    with pytest.raises(ValueError):
        rate(5, 10)


def test_never():
    held = never(0, 59, "the bound")
    assert held.status == REPRODUCED
    assert held.interval.high == pytest.approx(1 - 0.05 ** (1 / 59))
    assert held.interval.high < 3 / 59  # the rule of three
    assert never(1, 59, "the bound").status == NOT
    assert "1 of 59" in never(1, 59, "the bound").sentence
    assert never(0, 0, "the bound").status == "needs more"


def test_never_is_outside_holms_family():
    assert never(0, 3, "x").p is None
    assert never(3, 3, "x").p is None


# --- several parts -------------------------------------------------------------------------------

R, N, P, I, M = REPRODUCED, NOT, "partly", UNDECIDED, "needs more"  # noqa: E741
TABLE = {
    (R, R): R,
    (N, N): N,
    (P, P): P,
    (I, I): I,
    (M, M): M,
    (R, N): P,
    (R, P): P,
    (R, I): I,
    (R, M): M,
    (N, P): P,
    (N, I): N,
    (N, M): N,
    (P, I): P,
    (P, M): P,
    (I, M): M,
}


@pytest.mark.parametrize(("first", "second"), [*itertools.product((R, N, P, I, M), repeat=2)])
def test_all_of_two(first, second):
    expected = TABLE.get((first, second)) or TABLE[(second, first)]
    whole = all_of(Verdict(first, "one."), Verdict(second, "two."))
    assert whole.status == expected
    signs = dict(zip((R, N, P, I, M), "✓✗◐?…", strict=True))
    assert whole.sentence == f"{signs[first]} one.\n{signs[second]} two."


def test_a_claim_of_one_part_has_no_sign():
    assert all_of(Verdict(N, "one."), sentence="Why.").sentence == "Why.\none."


def test_the_number_shown_is_of_the_part_that_decides():
    """Of one that failed, else of one that is open; a reader looks there for the reason."""
    held, failed, open_ = Verdict(R, "a", 0.9), Verdict(N, "b", 0.1), Verdict(I, "c", 0.5)
    assert all_of(held, open_, failed).estimate == 0.1
    assert all_of(held, open_).estimate == 0.5
    assert all_of(held, Verdict(R, "d", 0.8)).estimate == 0.9


@given(st.lists(st.sampled_from([R, N, P, I, M]), min_size=1, max_size=5), st.randoms())
def test_all_of_does_not_depend_on_the_order(statuses, random):
    shuffled = random.sample(statuses, len(statuses))
    ours = all_of(*(Verdict(s, "x") for s in statuses))
    assert all_of(*(Verdict(s, "x") for s in shuffled)).status == ours.status


def test_all_of_is_as_sure_as_its_least_sure_part():
    parts = [
        Verdict(R, "a", 0.7, Interval(0.6, 0.8), "t", 20, 0.001),
        Verdict(R, "b", 0.2, Interval(0.1, 0.3), "t", 30, 0.04),
        Verdict(R, "c"),
    ]
    whole = all_of(*parts)
    assert whole.p == 0.04
    assert whole.n == 20  # of the number that is shown, not of another part
    assert (whole.estimate, whole.interval) == (0.7, Interval(0.6, 0.8))


# --- Holm ----------------------------------------------------------------------------------------


def test_holms_example():
    """p = .01 .04 .03 .005: adjusted .03 .06 .06 .02; only the first and last survive at 5 %."""
    ps = {"C1": 0.01, "C2": 0.04, "C3": 0.03, "C4": 0.005}
    judged = holm({name: Verdict(R, "s.", p=p, n=100) for name, p in ps.items()})
    assert {k: v.status for k, v in judged.items()} == {"C1": R, "C2": I, "C3": I, "C4": R}
    assert "adjusted p = 0.06" in judged["C2"].sentence
    # two-sided p of .03 has z = 2.170, the .025 it has to reach 2.241: 100 (2.241 / 2.170)^2
    assert judged["C3"].seeds_needed == 107
    assert judged["C3"].sentence.endswith("; about 107 values would decide it.")
    assert judged["C1"].sentence == "s."


def test_claims_that_were_tested_and_not_decided_count_too():
    """Six chances to be lucky are six chances, whether the other five came off or not."""
    others = {f"C{i}": Verdict(I, "s", p=0.5) for i in range(5)}
    assert holm({**others, "C5": Verdict(R, "s", p=0.03)})["C5"].status == I
    assert holm({**others, "C5": Verdict(R, "s", p=0.005)})["C5"].status == R


def test_verdicts_without_chance_are_left_alone():
    verdicts = {
        "C1": never(0, 10, "x"),
        "C2": needs_more("a GPU"),
        "C3": at_least([0.7] * 5, 0.5),
    }
    assert holm(verdicts) == verdicts


def test_holm_applies_to_not_reproduced_as_well():
    judged = holm({f"C{i}": Verdict(N, "s", p=0.04) for i in range(2)})
    assert {v.status for v in judged.values()} == {I}


@pytest.mark.parametrize("n", [4, 5, 6, 10, 20])
def test_overwhelming_evidence_survives_holm_over_six_claims(n):
    """Accuracies of 0.9 against a threshold of 0.5: five seeds are no worse than four."""
    x = 0.9 + 0.01 * draws(n)
    judged = holm({f"C{i}": at_least(x, 0.5) for i in range(6)})
    assert {v.status for v in judged.values()} == {R}


# --- seeds that would decide ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 6, 12])
def test_so_many_seeds_of_the_same_kind_would_decide(n):
    x = draws(n, seed=7) + 0.3
    verdict = at_least(x, 0.0)
    assert verdict.status == UNDECIDED
    assert verdict.seeds_needed > n
    enough = np.tile(x, -(-verdict.seeds_needed // n))
    assert at_least(enough, 0.0).status != UNDECIDED


def test_the_nearer_the_threshold_the_more_seeds():
    x = draws(8)
    x = x - x.mean()
    needed = [at_least(x, t).seeds_needed for t in (-0.1, -0.05, -0.025)]
    assert needed == sorted(needed)
    # far out the half-width shrinks as 1/sqrt(n): half the gap, four times the seeds
    assert needed[2] == pytest.approx(4 * needed[1], rel=0.02)


def test_decided_claims_need_no_seeds():
    assert at_least([1.0, 1.1, 1.2, 1.0, 0.9], 0.0).seeds_needed is None


def test_no_number_of_seeds_decides_a_mean_on_the_threshold():
    assert at_least([1.0, -1.0, 2.0, -2.0], 0.0).seeds_needed is None


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.36612, "0.366"),
        (1250, "1,250"),
        (0.000027, "2.70e-05"),
        (0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (999.4, "999"),
        (999.7, "1,000"),
        (12345678.0, "1.23e+07"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "undefined"),
    ],
)
def test_numbers_read_plainly(value, text):
    assert number(value) == text


def test_a_verdict_says_what_was_measured_and_against_what():
    verdict = at_least([0.9, 0.92, 0.91, 0.93, 0.9], 0.5, "accuracy")
    assert verdict.sentence.startswith("accuracy is 0.912 [")
    assert "at least 0.5" in verdict.sentence
    assert verdict.threshold == "at least 0.5"
    assert verdict.measured.startswith("0.912 [")
    assert needs_more("a GPU").measured == ""
    assert never(1, 1200, "an axiom").measured == "1 of 1,200 checks fail"
    assert never(0, 60, "an axiom").measured == "0 of 60 checks fail"


# --- bounds --------------------------------------------------------------------------------------


def test_an_interval_is_shown_within_what_it_measures():
    """Three accuracies: Student's interval with one degree of freedom leaves [0, 1]."""
    x = [0.8, 0.9, 0.7]
    free, bound = at_least(x, 0.5, "accuracy"), at_least(x, 0.5, "accuracy", bounds=(0, 1))
    assert free.interval.high > 1
    assert (bound.interval.low, bound.interval.high) == (max(0, free.interval.low), 1)
    assert bound.sentence.startswith("accuracy is 0.8 [")
    assert ", 1] over 3 values" in bound.sentence
    assert (bound.status, bound.p) == (free.status, free.p)
    assert bound.seeds_needed == free.seeds_needed


def test_differences_of_what_has_bounds_have_theirs():
    a, b = [0.9, 0.5, 0.8], [0.1, 0.4, 0.3]
    verdict = greater_than(a, b, bounds=(0, 1))
    assert (verdict.interval.low, verdict.interval.high) == (-1, 1)
    assert less_than(b, a, bounds=(0, 1)).interval == verdict.interval
    assert equivalent_within(a, b, 0.1, bounds=(0, math.inf)).interval.low < -1


def test_a_value_outside_voids_the_bounds():
    x = [0.8, 0.9, 1.1]
    assert at_least(x, 0.5, bounds=(0, 1)).interval == at_least(x, 0.5).interval
    assert bootstrap_interval(x, bounds=(0, 1)) == bootstrap_interval(x)


def test_bounds_decide_nothing():
    """A loss that is never negative is not thereby shown to be at least zero."""
    x = [0.1, 0.0, 0.3]
    assert at_least(x, 0.0, bounds=(0, math.inf)).status == at_least(x, 0.0).status == UNDECIDED


# --- arms that say yes or no ---------------------------------------------------------------------


def test_five_equal_answers_of_two_arms_do_not_fix_their_shares():
    """Five times yes in both arms: either share may be 0.5 yet, and so may their difference."""
    assert equivalent_within([1] * 5, [1] * 5, 0.1).status == UNDECIDED
    assert greater_than([1] * 5, [0] * 5, 0.5).status == UNDECIDED
    assert greater_than([1] * 5, [1] * 5).status == UNDECIDED
    assert equivalent_within([0.3] * 5, [0.3] * 5, 0.1).status == R  # numbers, not answers
    assert greater_than([1] * 20, [0] * 20, 0.5).status == R


# --- a part that fails ---------------------------------------------------------------------------

FAILS = at_least([-1.0, -1.1, -0.9, -1.0, -1.05], 0.0)
OPEN = at_least([0.1, -0.1, 0.2, -0.2, 0.3], 0.0)


@pytest.mark.parametrize("parts", [(FAILS, OPEN), (OPEN, FAILS)])
def test_an_undecided_part_does_not_save_a_claim_whose_other_part_failed(parts):
    whole = all_of(*parts)
    assert whole.status == NOT
    assert whole.p == pytest.approx(2 * FAILS.p)  # either part could have failed by luck
    assert whole.seeds_needed is None
    assert holm({"C1": whole})["C1"].status == NOT


def test_a_part_that_barely_failed_among_others_is_not_said_to_be_one_of_several_claims():
    barely = at_least([0.4, 0.3, 0.44, 0.38, 0.42, 0.35], 0.47)
    whole = holm({"C1": all_of(barely, OPEN)})["C1"]
    assert (barely.status, whole.status) == (NOT, UNDECIDED)
    assert whole.sentence.splitlines()[-1].startswith("Of several parts")


def test_a_violated_identity_needs_no_p_value():
    whole = all_of(never(3, 10, "the identity"), OPEN)
    assert whole.p is None
    assert holm({"C1": whole})["C1"].status == NOT


def test_where_all_parts_failed_the_largest_p_counts():
    assert all_of(FAILS, at_least([-1.0, -2.0, -1.5, -1.2, -1.4], 0.0)).p < 0.05
    weaker = at_least([-1.0, -2.0, -1.5, -1.2, -1.4], 0.0)
    assert all_of(FAILS, weaker).p == max(FAILS.p, weaker.p)


# --- p-values and intervals of rates -------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 6, 10, 30])
@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.5, 0.9])
def test_the_p_value_of_a_rate_is_on_the_side_of_its_interval(n, threshold):
    for k in range(n + 1):
        for verdict in (rate(k, n, low=threshold), rate(k, n, high=threshold)):
            assert (verdict.status == UNDECIDED) == (verdict.p >= 0.05)


# --- as many as would decide, and not ten times as many ------------------------------------------


@pytest.mark.parametrize(("n", "most"), [(3, 12), (5, 12), (8, 20)])
def test_few_seeds_do_not_ask_for_far_too_many(n, most):
    """t shrinks faster than 1/sqrt(n): at a gap of two standard errors 2 n or so will do."""
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)
    verdict = at_least(x / stats.sem(x) + 2, 0.0)
    assert verdict.status == UNDECIDED
    assert n < verdict.seeds_needed <= most


def test_the_answers_that_would_decide_a_rate():
    """0.025^(1/n) > 0.99 from 368 on; a tenth more for luck."""
    assert rate(5, 5, low=0.99).seeds_needed == math.ceil(1.1 * 368)
    assert rate(5, 10, low=0.5).seeds_needed is None
    needed = rate(8, 10, low=0.5).seeds_needed
    assert rate(round(0.8 * needed), needed, low=0.5).status == R
