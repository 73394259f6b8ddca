"""Extraction, Delta and its intervals, power, the published recount."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from practicum.errors import InputError
from practicum.language.abstract_reasoning import (
    TASKS,
    Item,
    aggregates,
    detectable,
    extract,
    is_correct,
    items_needed,
    make_items,
    mcnemar,
    paired_delta,
    published,
    remap,
    standard_error,
)
from practicum.language.abstract_reasoning.metrics import bootstrap_means, interval

# --- from replies to answers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "strict", "lenient"),
    [
        ("The answer is -12.", "-12", "-12"),
        ("The answer is [1, 2].", "[1, 2]", "[1, 2]"),
        ("The answer is 3.\nNo. The answer is 4.", "4", "4"),
        ("I do not know\nwhat it is", None, None),
        ("", None, None),
        ("Answer: The answer is 1.5.", "1.5", "1.5"),
        ("the answer is: **12**", "12", "12"),
        ("Answer: 12", None, "12"),
        ("so \\boxed{12}.", None, "12"),
        ("4 + 8 = 12", None, "12"),
        ("12", None, "12"),
        ("The answer is .", None, None),
        ("The answer is \\boxed{12}.", "12", "12"),
        ("The answer is \\(12\\).", "12", "12"),
        ("The answer is:\n12.", None, "12"),
        ("So the final answer is 12", None, "12"),
        ("<think>The answer is 3.</think>The answer is 4.", "4", "4"),
        ("<think>The answer is 3.</think>\n12", None, "12"),
        ("My answer is unsure at first.\nSo \\boxed{5}", None, "5"),
        ("What answer is right?\nAnswer: 5", None, "5"),
    ],
)
def test_extraction(reply, strict, lenient):
    assert extract(reply) == strict
    assert extract(reply, "lenient") == lenient


def test_the_published_expression_takes_the_first_match():
    assert extract("The answer is 3. The answer is 4.", "official") == "3"
    assert extract("The answer is (a|b).", "official") == "ab"
    assert extract("none", "official") is None


def item(answer, kind="text", task="ec/x", **meta):
    return Item((), "q", answer, "op", task=task, meta={"answer": kind, **meta})


def test_scoring():
    assert is_correct("[1,2]", item("[1, 2]"))
    assert is_correct("{2, 1}", item("{1, 2}", "set"))
    assert not is_correct("{2, 1}", item("[1, 2]", "set"))
    assert is_correct("0", item("0", "number"))
    assert is_correct("-12.0", item("-12", "number"))
    assert not is_correct("12", item("-12", "number"))
    assert not is_correct("0", item("0.0017", "number"))  # 0.01 would accept it
    assert not is_correct(None, item("1"))
    assert not is_correct("10", item("1"))  # containment would accept it


def test_the_published_scoring_errs_where_it_is_said_to():
    basic = {"kind": "number", "task": "bc/sub"}
    assert is_correct("12", item("-12", **basic), "official")
    assert not is_correct("0", item("0", **basic), "official")
    assert is_correct("0", item("0.0017", **basic), "official")


def test_answers_in_replaced_symbols_are_compared_in_the_old_ones():
    one = next(i for i in make_items("ec/var_set", n=40, shots=9) if i.answer.count(",") == 2)
    new, symbols = remap(one, "full", np.random.default_rng(1))
    a, b, c = one.answer[1:-1].split(", ")
    shuffled = "{" + f"{c}, {a}, {b}" + "}"
    assert is_correct(shuffled.translate(str.maketrans(symbols)), new)
    assert not is_correct(shuffled, new)


def test_bad_input_of_readings():
    with pytest.raises(InputError, match="strict, lenient, official"):
        extract("x", "loose")
    with pytest.raises(InputError, match="strict, lenient, official"):
        is_correct("x", item("x"), "loose")


# --- Delta ---------------------------------------------------------------------------------------


def test_a_constant_responder_has_no_delta():
    right = [np.array([1.0, 0, 0, 1]), np.array([0.0, 1, 1])]
    d = paired_delta(right, right)
    assert (d.delta, d.p, d.lost, d.gained) == (0, 1.0, 0, 0)
    # of seven items none flipped: a share of .41 may flip and not be seen once, 0.59^7 = .025
    assert (d.low, d.high) == pytest.approx((-0.4096, 0.4096), abs=1e-4)
    assert pytest.approx(0.025, abs=1e-4) == 0.5904**7


def test_no_flip_among_few_items_does_not_promise_to_see_anything():
    """The formula would say that a Delta of 0.00 had been seen."""
    assert paired_delta([np.ones(12)], [np.ones(12)]).detectable == 0.5  # six of twelve
    assert paired_delta([np.ones(4)], [np.ones(4)]).detectable == 1.0
    assert items_needed(0.3) == 27
    assert detectable(items_needed(0.05)) == pytest.approx(0.05, rel=1e-3)
    with pytest.raises(InputError, match=r"delta=0\.5"):
        items_needed(0.5, 0.3)


def test_five_flips_of_five_are_no_evidence():
    """The bootstrap of five equal numbers sees no spread; the exact test has p = 1/16."""
    d = paired_delta([np.ones(5)], [np.zeros(5)])
    assert d.p == 0.0625
    assert d.low < 0 < d.high == 1
    assert d.raw_interval == pytest.approx((0.025**0.2, 1))
    assert d.mapped_interval == pytest.approx((0, 1 - 0.025**0.2))


def test_a_raw_only_responder_loses_all_it_has():
    raw = [np.ones(20), np.repeat([0.0, 1.0], 10)]
    d = paired_delta(raw, [np.zeros(20), np.zeros(20)])
    assert d.delta == d.raw == 0.75
    assert d.relative == 1.0
    assert d.lost == 30


def test_identical_models_are_told_so():
    """200 runs of equal accuracy: the 95 % interval holds 0 in 183 to 198 of them (p > .001)."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        raw, mapped = ([(rng.random(24) < 0.6) * 1.0 for _ in range(4)] for _ in range(2))
        d = paired_delta(raw, mapped, rng=rng)
        held += d.low <= 0 <= d.high
    assert 182 <= held <= 199


@pytest.mark.parametrize("shared", [0.5, 0.9])
def test_pairing_narrows_the_interval(shared):
    rng = np.random.default_rng(1)
    raw = (rng.random(300) < 0.6) * 1.0
    mapped = np.where(rng.random(300) < shared, raw, (rng.random(300) < 0.6) * 1.0)
    paired = interval([raw - mapped], rng)
    unpaired = bootstrap_means([raw], rng) - bootstrap_means([mapped], rng)
    assert paired[1] - paired[0] < np.ptp(np.quantile(unpaired, [0.025, 0.975]))


def test_sets_weigh_the_same_whatever_their_size():
    d = paired_delta([np.ones(10), np.ones(1000)], [np.zeros(10), np.ones(1000)])
    assert d.delta == 0.5


def test_the_interval_is_the_formula_s():
    rng = np.random.default_rng(2)
    difference = rng.choice([-1.0, 0, 1], p=[0.05, 0.7, 0.25], size=336)
    low, high = interval([difference], rng)
    expected = standard_error(336, (difference**2).mean(), difference.mean())
    assert (high - low) / 3.92 == pytest.approx(expected, rel=0.08)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_sign_test(lost, gained):
    n = lost + gained
    wanted = min(1.0, 2 * stats.binom.cdf(min(lost, gained), n, 0.5)) if n else 1.0
    assert mcnemar(lost, gained) == pytest.approx(wanted)


def test_power_of_the_paper_file():
    assert standard_error(336, 0.3) == pytest.approx(0.030, abs=5e-4)
    assert standard_error(1344, 0.3) == pytest.approx(0.015, abs=5e-4)
    assert detectable(336) == pytest.approx(0.08, abs=0.005)
    assert detectable(1344) == pytest.approx(0.04, abs=0.003)


def test_bad_input_of_metrics():
    with pytest.raises(InputError, match="not of the same items"):
        paired_delta([np.ones(3)], [np.ones(2)])
    with pytest.raises(InputError, match="at least one"):
        paired_delta([], [])
    with pytest.raises(InputError, match="discordance=2"):
        standard_error(10, 2.0)
    with pytest.raises(InputError, match="power=1"):
        detectable(10, power=1.0)
    with pytest.raises(InputError, match="not negative"):
        mcnemar(-1, 0)
    with pytest.raises(InputError, match="no accuracies"):
        aggregates({})


# --- the published numbers -----------------------------------------------------------------------

DIRECT = {
    "bc": 0.54427,
    "ec": 0.63411,
    "nbr": 0.05903,
    "ma": 0.90826,
    "sma": 0.12351,
    "sr": 0.44792,
    "overall": 0.40996,
    "raw14": 0.70610,
    "full14": 0.35491,
    "operand14": 0.39658,
    "operator14": 0.59226,
    "delta_full": 0.35119,
    "delta_operand": 0.30952,
    "delta_operator": 0.11384,
}
COT = {
    "overall": 0.43853,
    "delta_full": 0.44122,
    "delta_operand": 0.47470,
    "delta_operator": 0.20164,
}


@pytest.mark.parametrize(("run", "wanted"), [("direct", DIRECT), ("cot", COT)])
def test_the_published_aggregates_follow_from_the_82_accuracies(run, wanted):
    found = aggregates(published()[run])
    for name, value in wanted.items():
        assert round(found[name], 5) == pytest.approx(value, abs=1e-9), name


def test_published_accuracies_are_counts_of_items():
    for accuracies in published().values():
        assert set(accuracies) == {*TASKS, "ma/gsm8k"}
        for task, value in accuracies.items():
            right = value * (1319 if task == "ma/gsm8k" else 96)
            assert right == pytest.approx(round(right), abs=1e-5)


def test_a_wrong_accuracy_would_be_noticed():
    wrong = dict(published()["direct"])
    wrong["ec/var_set"] += 1 / 96
    assert round(aggregates(wrong)["overall"], 5) != DIRECT["overall"]
