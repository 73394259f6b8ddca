"""Scales, trials, their random numbers and keys, and what may be a metric."""

import hashlib
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_study import Lab

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.study.spec import Scale, Trial, split_metrics

TRIAL = Trial("coin", "euro", "ours", 3, (("flips", 50),))


def first_draws(trial, stream=""):
    return trial.rng(stream).integers(2**62, size=4).tolist()


# --- randomness ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [Trial("coin", "euro", "theirs", 3, (("flips", 50),)), Trial("coin", "euro", "ours", 3)],
    ids=["another arm", "other parameters"],
)
def test_arms_and_settings_are_paired(other):
    assert first_draws(other) == first_draws(TRIAL)


@pytest.mark.parametrize(
    "other",
    [
        Trial("coin", "euro", "ours", 4, (("flips", 50),)),
        Trial("coin", "yen", "ours", 3, (("flips", 50),)),
        Trial("dice", "euro", "ours", 3, (("flips", 50),)),
    ],
    ids=["seed", "dataset", "slug"],
)
def test_another_cell_draws_other_numbers(other):
    assert first_draws(other) != first_draws(TRIAL)


def test_streams_are_independent_and_named():
    assert first_draws(TRIAL, "split") != first_draws(TRIAL)
    assert first_draws(TRIAL, "split") != first_draws(TRIAL, "noise")
    assert first_draws(TRIAL, "split") == first_draws(TRIAL, "split")


def test_fields_do_not_run_into_one_another():
    """coin/1, seed 2 is not coin/12."""
    assert first_draws(Trial("coin", "1", "a", 2)) != first_draws(Trial("coin", "12", "a", 0))
    assert first_draws(Trial("c", "a", "x", 0), "b") != first_draws(Trial("c", "ab", "x", 0))


def test_the_numbers_are_the_same_in_another_process_and_on_another_day():
    code = (
        "from practicum.study.spec import Trial; "
        "print(Trial('coin','euro','ours',3).rng().integers(2**62, size=4).tolist())"
    )
    env = {"PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert json.loads(done.stdout) == first_draws(TRIAL) == PINNED


# Seeded by the eight 32-bit words of SHA-256; changing this would change every stored result.
PINNED = (
    np.random.default_rng(
        np.random.SeedSequence(
            np.frombuffer(hashlib.sha256(b'["coin", "euro", 3, ""]').digest(), dtype="<u4").tolist()
        )
    )
    .integers(2**62, size=4)
    .tolist()
)


# --- keys ----------------------------------------------------------------------------------------


def test_the_key_is_pinned():
    cell = '["coin", "euro", "ours", 3, [["flips", 50]], "code", "data"]'
    assert TRIAL.key("code", "data") == hashlib.sha256(cell.encode()).hexdigest()


def test_whatever_changes_the_result_changes_the_key():
    others = [
        Trial("dice", "euro", "ours", 3, (("flips", 50),)),
        Trial("coin", "yen", "ours", 3, (("flips", 50),)),
        Trial("coin", "euro", "theirs", 3, (("flips", 50),)),
        Trial("coin", "euro", "ours", 4, (("flips", 50),)),
        Trial("coin", "euro", "ours", 3, (("flips", 51),)),
        Trial("coin", "euro", "ours", 3, (("flip", 50),)),
        Trial("coin", "euro", "ours", 3),
    ]
    keys = {t.key("code", "data") for t in [TRIAL, *others]}
    keys |= {TRIAL.key("other", "data"), TRIAL.key("code", "other")}
    assert len(keys) == len(others) + 3


def test_one_and_true_and_text_are_different_settings():
    keys = {Trial("s", "d", "a", 0, (("p", v),)).key("", "") for v in (1, 1.0, True, "1", None)}
    assert len(keys) == 5


def test_the_order_in_which_parameters_are_written_does_not_matter(tmp_path):
    study = Lab(tmp_path / "log")
    assert study.trial("d", "ours", 0, a=1, b=2) == study.trial("d", "ours", 0, b=2, a=1)


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3)])
@pytest.mark.parametrize("value", [np.float64(0.5), np.int64(7), np.bool_(True), np.str_("x")])
def test_numbers_from_numpy_name_the_same_trial(tmp_path, seed, value):
    """A grid is often written with numpy: ``for n in np.geomspace(...).astype(int)``."""
    study = Lab(tmp_path / "log")
    ours = study.trial("d", "ours", seed, p=value)
    assert ours.key("", "") == study.trial("d", "ours", 3, p=value.item()).key("", "")


def test_an_unknown_arm_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="ours, theirs"):
        Lab(tmp_path / "log").trial("d", "their", 0)


def test_a_trial_reads_like_a_mapping_of_its_parameters():
    assert TRIAL["flips"] == 50
    assert TRIAL.label == "euro/ours/seed 3 (flips=50)"
    with pytest.raises(KeyError, match="no parameter 'size'"):
        TRIAL["size"]


def test_data_and_options_are_part_of_what_results_depend_on(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1")
    study = Lab(tmp_path / "log")
    assert study.data_fingerprint() == ""
    study.source = UserData.of([file])
    plain = study.data_fingerprint()
    study.options = {"chance": 0.5}
    assert len({"", plain, study.data_fingerprint()}) == 3


# --- scale ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "expected"), [("smoke", 1), ("cpu", 2), ("paper", 3)])
def test_scale_picks(name, expected):
    assert Scale(name).pick(smoke=1, cpu=2, paper=3) == expected
    assert Scale(name).seeds(smoke=1, cpu=2, paper=3) == range(expected)
    assert Scale(name, n_seeds=9).seeds(smoke=1, cpu=2, paper=3) == range(9)


# --- metrics -------------------------------------------------------------------------------------


@given(st.floats(), st.integers(-(2**53), 2**53), st.booleans())
def test_numbers_of_any_kind_become_floats(x, n, flag):
    scalars, curves = split_metrics(
        TRIAL, {"x": x, "np": np.float64(x), "0-d": np.array(x), "n": n, "flag": flag}
    )
    assert curves == {}
    assert all(type(v) is float for v in scalars.values())
    np.testing.assert_equal([scalars["x"], scalars["np"], scalars["0-d"]], [x, x, x])
    assert (scalars["n"], scalars["flag"]) == (n, flag)


def test_arrays_are_curves_and_floats_keep_their_precision():
    _, curves = split_metrics(
        TRIAL,
        {"list": [1, 2], "ints": np.arange(3), "mask": np.array([True]), "f4": np.float32([0.1])},
    )
    assert {k: v.dtype.str[1:] for k, v in curves.items()} == {
        "list": "f8",
        "ints": "f8",
        "mask": "f8",
        "f4": "f4",
    }


@pytest.mark.parametrize(
    "value", ["0.5", None, 1j, {"a": 1}, np.array(["a"]), SimpleNamespace(), b"1"]
)
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(InputError, match=r"euro/ours/seed 3.*metric 'loss'"):
        split_metrics(TRIAL, {"loss": value})


@pytest.mark.parametrize("name", ["dataset", "arm", "seed", "flips", "seconds"])
def test_a_metric_may_not_take_the_name_of_a_column(name):
    """It would overwrite the column in every table of results."""
    with pytest.raises(InputError, match=name):
        split_metrics(TRIAL, {name: 1.0})


@pytest.mark.parametrize("value", [(3, 4), [3, 4], {"a": 1}, np.arange(2), object()])
def test_a_parameter_that_the_store_cannot_give_back_is_refused(value):
    """A tuple would come back as a list, which no table can group by."""
    with pytest.raises(ValueError, match="parameter 'widths'"):
        Lab("log").trial("d", "ours", 0, widths=value)


@pytest.mark.parametrize("name", ["seconds", "dataset"])
def test_a_parameter_does_not_take_the_name_of_a_column(name):
    with pytest.raises((ValueError, TypeError), match=name):
        Lab("log").trial("d", "ours", 0, **{name: 3})
