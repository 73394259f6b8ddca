"""A method against others on a person's own data: options, standings, the sentence."""

import math
from typing import Annotated, Literal

import numpy as np
import pytest
from lab_study import Lab
from practicum_toy.study import Coin

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.study.compare import (
    caveat,
    comparison,
    options_of,
    sentence,
    shared_setting,
    study_on,
)
from practicum.study.results import Results
from practicum.study.spec import Arm, Measure, Outcome, Scale, Trial


class Optioned(Lab):
    @classmethod
    def on(
        cls,
        source,
        *,
        width: Annotated[float, "how wide"] = 0.5,
        columns: Annotated[list[str] | None, "which columns"] = None,
        model: Annotated[Literal["kde", "gaussian"], "which model"] = "kde",
        exact: bool = False,
        steps: int = 10,
    ):
        made = cls(source.path)
        made.values = {
            "width": width, "columns": columns, "model": model, "exact": exact, "steps": steps,
        }  # fmt: skip
        return made


@pytest.fixture
def data(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    return UserData.of([tmp_path / "mine.csv"])


# --- options -------------------------------------------------------------------------------------


def test_options_are_read_from_the_signature():
    options = options_of(Optioned)
    assert list(options) == ["width", "columns", "model", "exact", "steps"]
    assert (options["width"].default, options["width"].about) == (0.5, "how wide")
    assert options["exact"].about == ""
    assert "chance" in options_of(Coin)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("width", "2", 2.0),
        ("width", "1e-3", 1e-3),
        ("columns", "a, b", ["a", "b"]),
        ("columns", "a", ["a"]),
        ("model", "gaussian", "gaussian"),
        ("exact", "true", True),
        ("exact", "no", False),
        ("steps", "7", 7),
    ],
)
def test_text_becomes_what_the_option_takes(data, name, text, value):
    assert study_on(Optioned, data, {name: text}).values[name] == value


def test_dashes_are_underscores():
    class Dashed(Lab):
        @classmethod
        def on(cls, source, *, two_words: int = 1):
            return cls(source.path)

    assert list(options_of(Dashed)) == ["two_words"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("width", "wide"), ("steps", "1.5"), ("exact", "perhaps"), ("model", "tree"), ("steps", "")],
)
def test_a_bad_value_is_named(data, name, text):
    with pytest.raises(InputError, match=f"option {name}={text}"):
        study_on(Optioned, data, {name: text})


def test_an_unknown_option_is_answered_with_the_known_ones(data):
    with pytest.raises(InputError, match="no option 'with'") as caught:
        study_on(Optioned, data, {"with": "1"})
    assert "width, columns, model" in caught.value.hint


def test_results_depend_on_options_that_differ_from_their_defaults(data):
    plain = study_on(Optioned, data, {}).data_fingerprint()
    assert study_on(Optioned, data, {"width": "0.5"}).data_fingerprint() == plain
    assert study_on(Optioned, data, {"width": "0.6"}).data_fingerprint() != plain
    assert study_on(Optioned, data, {"columns": "a,b"}).data_fingerprint() != plain


def test_a_file_that_cannot_be_read_is_an_expected_error(tmp_path):
    """The toy reads its file as text: a folder and binary junk are a person's mistakes."""
    (tmp_path / "junk.csv").write_bytes(b"\xff\xfe\x00\x81")
    for path in (tmp_path, tmp_path / "junk.csv"):
        with pytest.raises(InputError, match=path.name):
            study_on(Coin, UserData.of([path]), {})


# --- standings -----------------------------------------------------------------------------------


class Race(Lab):
    arms = {
        "ours": Arm("method", "."),
        "slow": Arm("baseline", "."),
        "fast": Arm("cheap", "."),
        "same": Arm("control", "."),
        "like": Arm("baseline", "."),
    }


NOISE = np.linspace(-1, 1, 8)
SHIFTS = {"ours": 0.0, "slow": 2.0, "fast": -2.0, "same": 0.0}


def race(tmp_path, better, n=8):
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", better, "s")}
    outcomes = [
        Outcome(Trial("lab", "d", arm, i), {"time": NOISE[i] + shift + (0.01 * i) * bool(shift)})
        for arm, shift in SHIFTS.items()
        for i in range(n)
    ]
    outcomes += [Outcome(Trial("lab", "d", "like", i), {"time": -NOISE[i]}) for i in range(n)]
    return study, Results(outcomes, Scale())


@pytest.mark.parametrize(
    ("better", "ahead", "behind"), [("lower", "slow", "fast"), ("higher", "fast", "slow")]
)
def test_who_is_ahead(tmp_path, better, ahead, behind):
    study, results = race(tmp_path, better)
    standing = {r.arm: r.standing for r in comparison(study, results)}
    assert standing == {
        "ours": "", ahead: "ahead", behind: "behind", "same": "equal", "like": "undecided",
    }  # fmt: skip


def test_differences_are_paired_and_signed(tmp_path):
    study, results = race(tmp_path, "lower")
    rows = {r.arm: r for r in comparison(study, results)}
    assert rows["slow"].difference == pytest.approx(2.035)
    assert rows["slow"].difference_interval.high < 2.1  # the noise they share is gone
    assert (rows["ours"].difference, rows["ours"].role, rows["ours"].n) == (None, "method", 8)


def test_one_seed_tells_nobody_apart(tmp_path):
    study, results = race(tmp_path, "lower", n=1)
    assert {r.standing for r in comparison(study, results)} == {"", "undecided"}


def test_shares_keep_within_their_range(tmp_path):
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("rejected", "lower")}
    outcomes = [
        Outcome(Trial("lab", "d", arm, seed), {"time": value})
        for arm, values in {"ours": (1.0, 1.0, 1.0), "slow": (0.0, 1.0, 0.0)}.items()
        for seed, value in enumerate(values)
    ]
    ours, slow = comparison(study, Results(outcomes, Scale()))
    assert (ours.interval.method, slow.interval.method) == ("exact binomial",) * 2
    assert ours.interval.low == pytest.approx(0.025 ** (1 / 3), abs=1e-3)  # 3 of 3
    assert ours.interval.high == 1
    assert (slow.difference_interval.low, slow.standing) == (-1, "undecided")


def few(tmp_path, label, values, **about):
    """Rows of a comparison on two seeds."""
    study = Race(tmp_path / "log")
    study.measures = {"m": Measure(label, "higher", **about)}
    outcomes = [
        Outcome(Trial("lab", "d", arm, seed), {"m": value})
        for arm, pair in values.items()
        for seed, value in enumerate(pair)
    ]
    return study, comparison(study, Results(outcomes, Scale()))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 100), (-0.5, 1)])
def test_intervals_keep_within_the_range_of_their_measure(tmp_path, low, high):
    """Two seeds have an interval wider than any accuracy's range."""
    values = {"ours": (0.7 * high, 0.81 * high), "slow": (0.6 * high, 0.6 * high)}
    ours, slow = few(tmp_path, "accuracy", values, bounds=(low, high))[1]
    assert (ours.interval.low, ours.interval.high) == (low, high)
    assert (slow.interval.low, slow.interval.high) == (low, high)  # of two equal values: no spread
    assert (slow.difference_interval.low, slow.difference_interval.high) == (
        low - high,
        high - low,
    )


def test_a_range_may_be_open(tmp_path):
    seconds = {"ours": (1.0, 5.0)}
    (ours,) = few(tmp_path, "CPU time", seconds, bounds=(0, math.inf))[1]
    assert ours.interval.low == 0
    assert 5 < ours.interval.high < math.inf


def test_measures_without_a_range_keep_their_intervals(tmp_path):
    ours, _ = few(tmp_path, "accuracy lost", {"ours": (0.7, 0.81), "slow": (0.6, 0.6)})[1]
    assert ours.interval.low < 0
    assert ours.interval.high > 1
    wrong = {"ours": (70.0, 81.0), "slow": (60.0, 61.0)}
    ours, _ = few(tmp_path, "accuracy", wrong, bounds=(0, 1))[1]
    assert ours.interval.high > 81, "values in per cent, declared as shares"


def test_two_seeds_decide_nothing_and_that_is_said_once(tmp_path):
    _, rows = few(tmp_path, "loss", {"ours": (0.0, 0.0), "slow": (5.0, 5.000000001)})
    assert [r.standing for r in rows] == ["", "undecided"]
    assert caveat(rows).startswith("Two seeds decide nothing")
    study, results = race(tmp_path, "lower")
    assert caveat(comparison(study, results)) == ""
    one = race(tmp_path, "lower", n=1)
    assert caveat(comparison(*one)).startswith("One seed decides nothing")


def test_hints_of_a_study_name_the_options_of_compare(data):
    class Hinting(Optioned):
        @classmethod
        def on(cls, source, *, two_words: int = 1, width: float = 1.0):
            raise InputError("no", "--width NUMBER, --two-words 3, or --other X")

    with pytest.raises(InputError) as caught:
        study_on(Hinting, data, {})
    assert caught.value.hint == "-o width=NUMBER, -o two_words=3, or --other X"


def test_the_sentence_names_every_arm(tmp_path):
    study, results = race(tmp_path, "lower")
    text = sentence(study, comparison(study, results))
    assert text.startswith("time: ours ")
    for part in ("ahead of slow", "behind fast", "undecided against like", "equal to same"):
        assert part in text


def test_without_results_there_is_no_comparison(tmp_path):
    study, _ = race(tmp_path, "lower")
    rows = comparison(study, Results([], Scale()))
    assert rows == []
    assert sentence(study, rows) == "ours has no finished trial."


def test_settings_are_compared_each_on_its_own(tmp_path):
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", "lower")}
    outcomes = [
        Outcome(Trial("lab", "d", arm, i, (("n", n),)), {"time": NOISE[i] + sign * shift})
        for n, sign in ((10, 1), (20, -1))
        for arm, shift in (("ours", 0.0), ("slow", 2.0))
        for i in range(8)
    ]
    standing = {
        (r.setting, r.arm): r.standing for r in comparison(study, Results(outcomes, Scale()))
    }
    assert standing[("n=10", "slow")] == "ahead"
    assert standing[("n=20", "slow")] == "behind"


def test_an_arm_without_a_setting_does_not_mix_those_of_the_method(tmp_path):
    """A baseline that has no ``n``: its row must not show the method pooled over every n."""
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", "lower")}
    outcomes = [
        Outcome(Trial("lab", "d", "ours", i, (("n", n),)), {"time": NOISE[i] + n})
        for n in (10, 20)
        for i in range(8)
    ]
    outcomes += [Outcome(Trial("lab", "d", "slow", i), {"time": NOISE[i]}) for i in range(8)]
    rows = [r for r in comparison(study, Results(outcomes, Scale())) if r.arm == "ours"]
    assert sorted(r.mean for r in rows) == pytest.approx([10, 20])


# --- yes or no, rounding, settings ---------------------------------------------------------------


def yes_or_no(tmp_path, ours, slow, better="higher"):
    """The row of ``slow`` against ``ours``, from their values."""
    study = Race(tmp_path / "log")
    study.measures = {"m": Measure("found", better)}
    outcomes = [
        Outcome(Trial("lab", "d", arm, seed), {"m": float(value)})
        for arm, values in {"ours": ours, "slow": slow}.items()
        for seed, value in enumerate(values)
    ]
    return comparison(study, Results(outcomes, Scale()))[1]


@pytest.mark.parametrize(
    ("ours", "slow", "difference", "low", "high", "standing"),
    [
        ([0] * 5, [0] * 5, 0, -0.584, 0.584, "undecided"),  # 0 in 5 at 97.5 %: 1 - .0125^(1/5)
        ([1] * 5, [1] * 5, 0, -0.584, 0.584, "undecided"),
        ([0, 1, 0, 1, 1], [0, 1, 0, 1, 1], 0, -0.584, 0.584, "undecided"),
        ([0] * 5, [1] * 5, 1, 0.416 - 0.584, 1, "undecided"),
        ([0] * 10, [1] * 10, 1, 0.645 - 0.355, 1, "behind"),
        ([1] * 10, [0] * 10, -1, -1, 0.355 - 0.645, "ahead"),
    ],
)
def test_equal_differences_of_yes_and_no_are_not_certain(
    tmp_path, ours, slow, difference, low, high, standing
):
    row = yes_or_no(tmp_path, ours, slow)
    assert row.difference == difference
    assert row.difference_interval.low == pytest.approx(low, abs=1e-3)
    assert row.difference_interval.high == pytest.approx(high, abs=1e-3)
    assert (row.difference_interval.method, row.standing) == ("exact binomial", standing)


def test_equal_values_that_are_no_yes_or_no_are_equal(tmp_path):
    row = yes_or_no(tmp_path, [0.25] * 5, [0.25] * 5)
    assert (row.difference_interval.low, row.difference_interval.high) == (0, 0)
    assert row.standing == "equal"


def test_rounding_wins_nothing(tmp_path):
    """8.2e-16 was called ahead of 4.3e-14."""
    spread = 1 + 0.01 * NOISE
    for ours, slow in ((8.2e-16, 4.3e-14), (-4.3e-14, 8.2e-16), (0.0, 4.3e-14)):
        assert yes_or_no(tmp_path, ours * spread, slow * spread, "lower").standing == "equal"
    assert yes_or_no(tmp_path, 8.2e-16 * spread, 4.3e-11 * spread, "lower").standing == "ahead"
    few_seeds = 8.2e-16 * spread[:2], 4.3e-14 * spread[:2]
    assert yes_or_no(tmp_path, *few_seeds, "lower").standing == "undecided"


def told(tmp_path, places):
    """The sentence, where ``slow`` is so much above ``ours`` in each (data set, settings)."""
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", "lower")}
    outcomes = [
        Outcome(Trial("lab", dataset, arm, i, params), {"time": place + NOISE[i] + shift})
        for place, ((dataset, params), gap) in enumerate(places.items(), 1)
        for arm, shift in (("ours", 0.0), ("slow", gap))
        for i in range(8)
    ]
    return sentence(study, comparison(study, Results(outcomes, Scale())))


def test_the_sentence_pools_no_settings(tmp_path):
    text = told(tmp_path, {("d", (("hints", "none"),)): 2.0, ("d", (("hints", "last"),)): -2.0})
    start, none, last = text.split("With ")
    assert start == "time. "
    assert none.startswith("hints=none: ours 1 [")
    assert none.endswith("] is ahead of slow. ")
    assert last.startswith("hints=last: ours 2 [")
    assert last.endswith("] is behind slow.")


def test_what_all_cells_share_is_said_once(tmp_path):
    """Blocks are eight everywhere and only ours has a step: the hints tell the rows apart."""
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", "lower")}
    outcomes = [
        Outcome(Trial("lab", "d", arm, i, (("blocks", 8), ("hints", hints), *more)), {"time": i})
        for arm, more in (("ours", (("step", 1),)), ("slow", ()))
        for hints in ("none", "last")
        for i in range(3)
    ]
    results = Results(outcomes, Scale())
    assert shared_setting(results) == "blocks=8"
    settings = {row.setting for row in comparison(study, results)}
    assert settings == {"hints=none", "hints=last", "hints=none, step=1", "hints=last, step=1"}
    assert shared_setting(Results([], Scale())) == ""


def test_the_sentence_names_data_sets_where_they_differ(tmp_path):
    text = told(tmp_path, {("a", ()): 2.0, ("b", (("n", 5),)): 0.0})
    assert "On a: ours 1 [" in text
    assert "On b with n=5: ours 2 [" in text
    assert text.endswith("is equal to slow.")
    assert told(tmp_path, {("a", (("n", 5),)): 2.0}).startswith("time: ours 1 [")


def test_the_sentence_tells_of_four_settings_and_counts_the_others(tmp_path):
    text = told(tmp_path, {("d", (("n", n),)): 2.0 for n in range(6)})
    assert text.count("ours") == 4
    assert text.endswith(". 2 more in the table.")
    assert "more" not in told(tmp_path, {("d", (("n", n),)): 2.0 for n in range(4)})


def test_a_setting_without_the_method_is_said(tmp_path):
    study = Race(tmp_path / "log")
    study.measures = {"time": Measure("time", "lower")}
    outcomes = [
        Outcome(Trial("lab", "d", "ours", i, (("n", 1),)), {"time": 1.0 + i}) for i in (0, 1)
    ]
    outcomes += [Outcome(Trial("lab", "d", "slow", i), {"time": 1.0 + i}) for i in (0, 1)]
    text = sentence(study, comparison(study, Results(outcomes, Scale())))
    assert text.startswith("time. With n=1: ours 1.5 [")
    assert "] is alone. " in text
    assert text.endswith("Without a setting: ours has no finished trial to compare with.")
