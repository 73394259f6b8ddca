"""The table of finished trials and the paired views that claims read."""

import math

import numpy as np
import pytest

from practicum.study.results import Results
from practicum.study.spec import Outcome, Scale, Trial


def outcome(arm, seed, score, dataset="d", curves=None, **params):
    trial = Trial("s", dataset, arm, seed, tuple(sorted(params.items())))
    return Outcome(trial, {"score": score}, curves or {}, 0.5)


@pytest.fixture
def results():
    return Results(
        [
            outcome("ours", 1, 3.0, curves={"path": np.array([1.0, 2.0])}),
            outcome("ours", 0, 2.0, curves={"path": np.array([3.0, 4.0])}),
            outcome("theirs", 0, 1.0),
            outcome("theirs", 2, 9.0),
        ],
        Scale("smoke"),
    )


def test_values_are_indexed_by_cell(results):
    values = results.values("score", arm="ours")
    assert values.to_dict() == {("d", 0): 2.0, ("d", 1): 3.0}


def test_pairs_are_the_cells_that_both_arms_finished(results):
    ours, theirs = results.paired("score", "ours", "theirs")
    assert (ours.tolist(), theirs.tolist()) == ([2.0], [1.0])


def test_where_takes_one_value_or_several(results):
    assert len(results.where(arm="ours")) == 2
    assert len(results.where(seed=[0, 2])) == 3
    assert len(results.where(arm="ours", seed=2)) == 0
    assert not results.has(nonsense=1)


def test_curves_are_stacked(results):
    assert results.curves("path", arm="ours").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert results.curves("path", arm="theirs").shape == (0, 0)


def test_settings_that_vary_are_part_of_the_cell():
    results = Results(
        [outcome(arm, 0, n, n=n) for n in (10, 20) for arm in ("ours", "theirs")], Scale()
    )
    ours, theirs = results.paired("score", "ours", "theirs")
    assert ours.to_dict() == theirs.to_dict() == {("d", 0, 10): 10, ("d", 0, 20): 20}


def test_nothing_at_all_is_empty_and_no_error():
    nothing = Results([], Scale())
    assert len(nothing) == 0
    assert nothing.values("score").empty
    assert not nothing.has(arm="ours")
    ours, theirs = nothing.paired("score", "ours", "theirs")
    assert ours.empty
    assert theirs.empty
    assert nothing.tidy().empty


def test_tidy_has_a_row_for_each_trial_and_metric(results):
    tidy = results.tidy()
    assert len(tidy) == 4 * 2  # score and seconds
    assert tidy[tidy.metric == "score"].value.tolist() == [3.0, 2.0, 1.0, 9.0]


def test_a_trial_that_diverged_is_not_a_trial_that_is_missing():
    """Averaging over the runs that did not diverge would flatter an arm."""
    results = Results([outcome("ours", 0, 1.0), outcome("ours", 1, math.nan)], Scale())
    assert len(results.values("score", arm="ours")) == 2


@pytest.mark.parametrize("name", ["value", "metric", "variable"])
def test_any_name_may_be_a_metric_or_a_parameter(name):
    as_metric = Results([Outcome(Trial("s", "d", "a", 0), {name: 1.0})], Scale())
    assert as_metric.tidy().query("metric == @name").value.tolist() == [1.0]
    as_param = Results([Outcome(Trial("s", "d", "a", 0, ((name, 5),)), {"loss": 1.0})], Scale())
    assert len(as_param.tidy()) == 2


def test_a_setting_that_one_arm_alone_has_more_of_pairs_with_nothing():
    """The n=20 of ours has no counterpart; n=10 of theirs is no stand-in for it."""
    results = Results(
        [outcome("ours", s, n + s, n=n) for s in (0, 1) for n in (10, 20)]
        + [outcome("theirs", s, s, n=10) for s in (0, 1)],
        Scale(),
    )
    ours, theirs = results.paired("score", "ours", "theirs")
    assert ours.tolist() == [10, 11]
    assert theirs.tolist() == [0, 1]


def test_an_arm_that_has_no_such_setting_is_everyones_counterpart():
    results = Results(
        [outcome("ours", 0, n, n=n) for n in (10, 20)] + [outcome("fixed", 0, 5.0)], Scale()
    )
    ours, fixed = results.paired("score", "ours", "fixed")
    assert ours.to_dict() == {("d", 0, 10): 10, ("d", 0, 20): 20}
    assert fixed.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("several", [range(2), np.arange(2), {0, 1}, frozenset({0, 1})])
def test_where_takes_any_collection(results, several):
    """One seed of theirs is 2; a range that were taken for one value would match nothing."""
    assert len(results.where(seed=several)) == 3
