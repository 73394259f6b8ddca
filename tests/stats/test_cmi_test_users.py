"""What a fresh user broke: outcomes far from zero, jumps in Z, values that squares cannot hold."""

import numpy as np
import pandas as pd
import pytest

from practicum.errors import InputError
from practicum.stats.cmi_test import (
    ConditionalMeanTest,
    conditional_mean_importance,
    gcm_test,
    nested_f_test,
    pcm_test,
)

QUICK = {"n_boot": 199, "n_check": 0}


def line(seed, n=300):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1))
    x = 0.5 * z[:, 0] + rng.normal(size=n)
    return x, z[:, 0] + 0.5 * x + rng.normal(size=n), z


@pytest.mark.parametrize("offset", [1e5, 1e9])
def test_a_constant_added_to_y_changes_nothing(offset):
    x, y, z = line(0)
    plain = ConditionalMeanTest(random_state=0, **QUICK).fit(x, y, z)
    moved = ConditionalMeanTest(random_state=0, **QUICK).fit(x, y + offset, z)
    assert moved.pvalue_ == plain.pvalue_ < 0.01
    assert moved.statistic_ == pytest.approx(plain.statistic_, rel=1e-4)


def retirement(seed, n=500):
    """Leisure and hours both jump at 65, and have nothing to do with each other besides."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, n).round()
    x = 20 * (age >= 65) + rng.normal(0, 8, n)
    return x, 40 - 30 * (age >= 65) + rng.normal(0, 8, n), age[:, None]


def test_a_jump_in_z_is_noted_and_boosting_follows_it():
    data = retirement(0)
    plain = ConditionalMeanTest(random_state=0, **QUICK).fit(*data)
    assert any("a tree on Z" in note for note in plain.result_.notes)
    boosted = ConditionalMeanTest("boosting", random_state=0, **QUICK).fit(*data)
    assert not any("a tree on Z" in note for note in boosted.result_.notes)
    assert plain.pvalue_ < 0.05 < boosted.pvalue_


def test_a_smooth_mean_gets_no_such_note():
    for seed in range(4):
        t = ConditionalMeanTest(random_state=seed, **QUICK).fit(*line(seed))
        assert not any("a tree on Z" in note for note in t.result_.notes)


@pytest.mark.parametrize(("factor", "words"), [(1e300, "holds"), (1e-300, "nothing above")])
def test_values_that_squares_cannot_hold_are_refused(factor, words):
    x, y, z = line(1)
    for x_, y_, z_ in ((x * factor, y, z), (x, y * factor, z), (x, y, z * factor)):
        with pytest.raises(InputError, match=words):
            ConditionalMeanTest(**QUICK).fit(x_, y_, z_)


@pytest.mark.parametrize("baseline", [gcm_test, pcm_test, nested_f_test])
def test_baselines_refuse_what_is_no_number(baseline):
    x, y, z = line(2)
    x, y = x[:, None], y[:, None]
    assert baseline(x, y, z).pvalue < 0.05
    y[4] = np.nan
    with pytest.raises(InputError, match="y, column 0, row 4"):
        baseline(x, y, z)


def test_importance_refuses_roles_that_clash():
    x, y, z = line(3)
    frame = pd.DataFrame({"x": x, "y": y, "z": z[:, 0]})
    for arguments, words in (
        ((["y"],), "'y' is response too"),
        ((["x"], ["x"]), "'x' is given too"),
    ):
        with pytest.raises(InputError, match=words):
            conditional_mean_importance(frame, "y", *arguments)


def test_frames_with_other_row_labels_are_refused():
    x, y, z = line(4)
    frame = pd.DataFrame({"x": x, "y": y, "z": z[:, 0]})
    shuffled = frame[["x"]].sample(frac=1, random_state=1)
    with pytest.raises(InputError, match="different row labels"):
        ConditionalMeanTest(**QUICK).fit(shuffled, frame["y"], frame[["z"]])


def test_rows_without_a_group_are_refused():
    x, y, z = line(5)
    groups = np.repeat(np.arange(100.0), 3)
    groups[:2] = np.nan
    with pytest.raises(InputError, match="2 rows have no group"):
        ConditionalMeanTest(**QUICK).fit(x, y, z, groups=groups)


def test_the_command_takes_semicolons_and_refuses_outputs_first(practicum, tmp_path):
    x, y, z = line(6)
    pd.DataFrame({"x": x, "y": y, "z": z[:, 0]}).to_csv(
        tmp_path / "t.csv", sep=";", decimal=",", index=False
    )
    use = ("use", "cmi-test", "t.csv", "--response", "y", "--candidates", "x", "--given", "z")
    assert "still helps" in practicum(*use, "--regression", "boosting").stdout
    assert "is a folder" in practicum(*use, "--out", tmp_path, code=2).stderr
    assert "ends in .html or .csv" in practicum(*use, "--out", "p.png", code=2).stderr
    (tmp_path / "folder").mkdir()
    refused = practicum("use", "cmi-test", "folder", *use[3:], code=2)
    assert "No such command" not in refused.stderr
