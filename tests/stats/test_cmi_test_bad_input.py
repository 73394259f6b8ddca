"""What a person may hand over by mistake, and what they are told."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

from practicum.errors import InputError
from practicum.stats.cmi_test import (
    ConditionalMeanTest,
    conditional_mean_importance,
    conditional_mean_test,
)
from practicum.stats.cmi_test.importance import holm_adjust, null_draws
from practicum.stats.cmi_test.tables import column_names, encode_columns, pick_columns

N = 100


@pytest.fixture
def good():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 2))
    return z + rng.normal(size=(N, 2)), z[:, 0] + rng.normal(size=N), z


def refused(match, *args, hint=None, **options):
    with pytest.raises(InputError, match=match) as caught:
        # set_params: past the type checker, as for a person who runs without one
        ConditionalMeanTest().set_params(**options).fit(*args)
    assert caught.value.hint or hint is None
    if hint:
        assert hint in caught.value.hint


def test_x_a_copy_of_z_has_nothing_to_test(good):
    """The null hypothesis holds whatever Y does: p is 1, and that is said aloud."""
    _, y, z = good
    with pytest.warns(UserWarning, match=r"'X\[0\]': it is a function of 'Z\[0\]': there is noth"):
        result = conditional_mean_test(z[:, :1], y, z, random_state=0)
    assert (result.pvalue, result.statistic, result.nothing_left) == (1.0, 0.0, "X")
    assert result.size_check is None
    assert not result.conclusive
    assert result.sentence() == "X adds no variation given Z: there is nothing to test (p = 1)."
    assert "X[0]" in " ".join(result.notes)


def test_what_z_fixes_is_left_out_of_x_and_said(good):
    x, y, z = good
    alone = conditional_mean_test(x[:, 0], y, z, random_state=0)
    with pytest.warns(UserWarning, match=r"X column 'X\[0\]': it is a .* left out"):
        half = conditional_mean_test(np.column_stack([z[:, 0], x[:, 0]]), y, z, random_state=0)
    assert (half.pvalue, half.statistic) == (alone.pvalue, alone.statistic)
    assert half.nothing_left == ""
    with pytest.warns(UserWarning, match=r"Y column 'Y\[1\]': .* left out"):
        both = conditional_mean_test(x[:, 0], np.column_stack([y, -z[:, 1]]), z, random_state=0)
    assert both.pvalue == alone.pvalue


def whole_years(n=300):
    rng = np.random.default_rng(1)
    age = rng.integers(20, 66, n).astype(float)
    income = np.exp(rng.normal(size=n))
    return rng, pd.DataFrame({"age": age, "income": income})


@pytest.mark.parametrize(
    "made",
    [
        lambda z: z["age"] ** 2,
        lambda z: np.sin(z["age"]),  # any function of whole numbers that repeat
        lambda z: np.log(z["income"]),
        lambda z: z["income"] > 1.0,
        lambda z: z["income"].round(),
        lambda z: z["age"] + z["income"],  # of two columns: the regression sees it
        lambda z: pd.cut(z["age"], [0, 30, 40, 70], labels=["low", "mid", "high"]).astype(str),
    ],
)
def test_functions_of_z_are_no_candidates(made):
    """Y jumps with income: without this, 1[income > 1] is found in every run (of 40)."""
    rng, z = whole_years()
    y = 2.0 * (z["income"] > 1) + z["age"] / 20 + rng.normal(size=len(z))
    with pytest.warns(UserWarning, match="nothing to test"):
        result = conditional_mean_test(made(z), y, z, random_state=0)
    assert (result.pvalue, result.nothing_left) == (1.0, "X")


def test_a_nearly_exact_function_is_said_and_noise_is_not(recwarn):
    rng, z = whole_years()
    y = z["age"] / 20 + rng.normal(size=len(z))
    result = conditional_mean_test(np.sqrt((z["income"] - 1) ** 2 + 0.1), y, z, random_state=0)
    assert 0 < result.pvalue <= 1
    assert "is nearly a function of Z (R² = 0.99" in " ".join(result.notes)
    recwarn.clear()
    rare = np.zeros(len(z))
    rare[z["income"].to_numpy().argmax()] = 1.0  # one case is in order by chance
    for x in (rng.normal(size=len(z)), z["age"] + rng.normal(0, 4, len(z)), rare):
        assert conditional_mean_test(x, y, z, random_state=0).nothing_left == ""
    assert not [w for w in recwarn if "function of" in str(w.message)]


def test_a_y_that_z_fixes_leaves_nothing_to_predict(good):
    x, _, z = good
    with pytest.warns(UserWarning, match="nothing to test"):
        result = conditional_mean_test(x, 2 * z[:, 0] - z[:, 1], z, random_state=0)
    assert (result.pvalue, result.nothing_left) == (1.0, "Y")
    assert (
        result.sentence("x", "y", "z")
        == "z already fixes y: nothing is left for x to predict (p = 1)."
    )


def test_what_is_inconclusive_is_warned_of(good, monkeypatch):
    from practicum.stats.cmi_test import conditional_mean

    monkeypatch.setattr(conditional_mean, "empirical_size", lambda *_: 0.3)
    with pytest.warns(UserWarning, match="No conclusion about X: on 100 null data sets"):
        conditional_mean_test(*good, random_state=0)


def test_without_z_the_mean_itself_is_tested(good):
    """The statistic is the pooled kernel against centred Y, rows all alike in Z."""
    x, y, _ = good
    from practicum.stats.cmi_test.kernels import pooled_kernel, standardise

    result = conditional_mean_test(x, y, random_state=0)
    kernel = pooled_kernel(standardise(x))
    np.fill_diagonal(kernel, 0.0)
    left = (y - y.mean()) / y.std(ddof=1) * N / (N - 1)  # the mean of the others taken off
    assert result.statistic == pytest.approx(left @ kernel @ left / (N - 1))
    assert result.pvalue < 0.01
    assert conditional_mean_test(np.random.default_rng(9).normal(size=N), y).pvalue > 0.05
    refused("Z has shape", x, y, np.empty((N, 0)), hint="None")


def test_tensors_sparse_and_masked_arrays(good):
    import scipy.sparse as sp
    import torch

    x, y, z = good
    plain = conditional_mean_test(x, y, z, random_state=0)
    tensors = [torch.tensor(v, requires_grad=True) for v in good]
    assert conditional_mean_test(*tensors, random_state=0).statistic == plain.statistic
    sparse = conditional_mean_test(x, y, sp.csr_matrix(z), random_state=0)
    assert sparse.statistic == plain.statistic
    refused("X column 'X\\[0\\]' has 1 missing value,", np.ma.masked_equal(x, x[3, 0]), y, z)


def test_too_few_rows_and_lengths_that_differ(good):
    x, y, z = good
    refused("59 rows, at least 60", x[:59], y[:59], z[:59])
    refused("X 100, Y 99, Z 100", x, y[:-1], z)


def test_constant_columns_are_named(good):
    x, y, z = good
    flat = pd.DataFrame({"age": x[:, 0], "site": 1.0})
    refused("X: constant columns 'site'", flat, y, z, hint="leave them out")
    refused("Y: constant", x, np.ones(N), z)
    refused("Z: constant columns 'Z\\[1\\]'", x, y, np.column_stack([z[:, 0], np.zeros(N)]))


def test_missing_and_infinite_values(good):
    x, y, z = good
    frame = pd.DataFrame(z, columns=["age", "dose"])
    frame.loc[[3, 7], "dose"] = np.nan
    refused("Z column 'dose' has 2 missing values, the first in row 3", x, y, frame, hint="drop")
    dropped = conditional_mean_test(x, y, frame, missing="drop", random_state=0)
    assert dropped.n == N - 2
    assert "2 of 100 rows" in " ".join(dropped.notes)
    x[5, 1] = np.inf
    refused("X column 'X\\[1\\]' is infinite in row 5", x, y, z, missing="drop")


def test_text_that_is_no_category(good):
    x, y, z = good
    refused("array of <U", x.astype(str), y, z, hint="DataFrame")
    names = pd.DataFrame({"name": [f"person {i}" for i in range(N)]})
    refused("100 different texts", names, y, z, hint="leave it out")
    stray = pd.DataFrame({"dose": [str(v) for v in x[:, 0]]})
    stray.loc[12, "dose"] = "n.a.!"
    refused("numeric but for row 12: 'n.a.!'", stray, y, z, hint="correct")
    dates = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=N)})
    refused("dates", dates, y, z, hint="number")
    refused("shape", x[:, :, None], y, z)
    refused("no columns", pd.DataFrame(index=range(N)), y, z)
    twins = pd.DataFrame(x, columns=["dose", "dose"])
    refused("X: two columns are called 'dose'", twins, y, z, hint="rename")


def test_categories_are_encoded_and_rare_ones_pooled(good):
    x, y, z = good
    colour = np.array(["red", "green", "blue", "red"] * 25)
    colour[[0, 1]] = ["mauve", "ochre"]
    frame = pd.DataFrame({"colour": colour, "yes": x[:, 0] > 0, "v": [str(v) for v in x[:, 1]]})
    encoded = encode_columns(frame)
    assert encoded.names == (
        "colour=(rare)",
        "colour=blue",
        "colour=green",
        "colour=red",
        "yes",
        "v",
    )
    assert "2 categories with fewer than 5 rows" in encoded.notes[0]
    result = conditional_mean_test(frame, y, z, random_state=0)
    assert 0 < result.pvalue <= 1
    assert "pooled" in " ".join(result.notes)
    assert encode_columns(pd.Series(["a", "b"] * 10, name="s")).names == ("s=b",)
    gap = pd.DataFrame({"c": ["a", "b", None] * 10})
    assert np.isnan(encode_columns(gap).values).sum() == 10


def test_groups(good):
    x, y, z = good
    with pytest.raises(InputError, match="5 groups, at least 20"):
        ConditionalMeanTest().fit(x, y, z, np.arange(N) % 5)
    with pytest.raises(InputError, match="groups 99"):
        ConditionalMeanTest().fit(x, y, z, np.arange(N - 1))
    assert ConditionalMeanTest(n_check=10).fit(x, y, z, np.arange(N) // 2).pvalue_ > 0


def test_whole_number_codes_are_noted_and_yes_no_outcomes_are_fine(good):
    x, _, z = good
    rng = np.random.default_rng(0)
    codes = conditional_mean_test(x, rng.integers(0, 4, N), z, random_state=0)
    assert "4 whole-number values" in " ".join(codes.notes)
    binary = conditional_mean_test(x, rng.integers(0, 2, N), z, random_state=0)
    assert not any("whole-number" in note for note in binary.notes)
    text = pd.Series(rng.choice(["low", "mid", "high"], N), name="grade")
    assert conditional_mean_test(x, text, z, random_state=0).pvalue > 0


def test_a_regression_that_is_worse_than_the_mean_or_too_good_is_noted(good):
    x, y, z = good
    tree = conditional_mean_test(
        x,
        np.random.default_rng(0).normal(size=N),
        z,
        regression=DecisionTreeRegressor(random_state=0),
        n_check=0,
        random_state=0,
    )
    assert "worse than the mean of Y" in " ".join(tree.notes)
    known = conditional_mean_test(x, 3 * z[:, 0] + 0.001 * y, z, random_state=0)
    assert "almost nothing of Y unexplained" in " ".join(known.notes)


def test_identical_pairs_fall_back_to_the_distances_that_differ(good):
    _, y, z = good
    rare = np.zeros((N, 1))
    rare[:12] = 1.0
    result = conditional_mean_test(
        rare + 0.0, y, z, coordinates="raw", draws=5, n_check=0, random_state=0
    )
    assert "more than half of the pairs" in " ".join(result.notes)


def test_as_many_columns_as_rows_is_noted():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(70, 30)), rng.normal(size=(70, 50))
    result = conditional_mean_test(x, z[:, 0] + rng.normal(size=70), z, random_state=0)
    assert "as many columns as rows" in " ".join(result.notes)
    assert 0 < result.pvalue <= 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"preset": "official"}, "preset='official'"),
        ({"pairs": "some"}, "pairs='some'"),
        ({"null": "normal"}, "null='normal'"),
        ({"scale": "own"}, "scale='own'"),
        ({"scale": "paper"}, "pairs='within'"),
        ({"coordinates": "polar"}, "coordinates='polar'"),
        ({"missing": "impute"}, "missing='impute'"),
        ({"draws": 0}, "draws=0"),
        ({"folds": 1}, "folds=1"),
        ({"random_state": -1}, "random_state=-1"),
        ({"n_boot": 5}, "n_boot=5"),
        ({"n_boot": 99.5}, "n_boot=99.5"),
        ({"draws": "many"}, "draws='many'"),
        ({"n_check": -1}, "n_check=-1"),
        ({"regression": "forest"}, "regression='forest'"),
        ({"regression": 3}, "regression=3"),
        ({"generator": "gan"}, "generator='gan'"),
        ({"generator": 3}, "no sample"),
        ({"null": "refit", "regression": "lasso"}, "linear smoother"),
        ({"regression": lambda rows: np.zeros((len(rows), 3))}, "known mean has shape"),
    ],
)
def test_options_are_refused_by_name(good, options, match):
    refused(match, *good, **options)


def test_effect_before_fit_and_other_calls():
    with pytest.raises(InputError, match="before fit"):
        ConditionalMeanTest().effect()
    with pytest.raises(InputError, match=r"outside \[0, 1\]"):
        holm_adjust(np.array([0.1, 1.2]))
    np.testing.assert_array_equal(holm_adjust(np.array([np.nan, 0.02, 0.01])), [np.nan, 0.02, 0.02])


def test_a_self_check_that_finds_too_much_is_said(good):
    result = conditional_mean_test(*good, random_state=0)
    assert "too often" not in replace(result, size_check=0.08).size_sentence()
    warned = replace(result, size_check=0.12)
    assert "too often" in warned.size_sentence()
    assert warned.conclusive
    refused_ = replace(result, size_check=0.25)
    assert not refused_.conclusive
    assert "No conclusion about X: on 100 null data sets" in refused_.sentence()
    assert "not run" in replace(result, size_check=None).size_sentence()


def test_a_wide_z_that_predicts_x_in_part_is_noted():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 25))
    x = z @ rng.normal(size=(25, 1)) / 5 + rng.normal(size=(150, 1))
    noted = conditional_mean_test(x, z[:, 0] + rng.normal(size=150), z, random_state=0)
    assert "Z has 25 columns and predicts X in part" in " ".join(noted.notes)
    free = conditional_mean_test(rng.normal(size=150), z[:, 0] + x[:, 0], z, random_state=0)
    assert "in part" not in " ".join(free.notes)


def test_many_candidates_take_more_draws_of_the_null():
    """Holm multiplies p by their number: with 999 draws 60 candidates could never reject."""
    assert [null_draws(m) for m in (1, 10, 60)] == [999, 999, 5999]
    with pytest.raises(InputError, match="no candidate"):
        null_draws(0)


def test_importance_names_the_candidate(good):
    x, y, z = good
    frame = pd.DataFrame({"y": y, "x": x[:, 0], "flat": 1.0, "z": z[:, 0]})
    with pytest.raises(InputError, match="candidate flat: X: constant"):
        conditional_mean_importance(frame, "y", ["flat"], given=["z"])
    with pytest.raises(InputError, match="xx: no column 'xx'") as caught:
        conditional_mean_importance(frame, "y", "xx")
    assert "columns: y, x, flat, z" in caught.value.hint
    frame["copy"] = 2 * frame["x"]
    with pytest.warns(UserWarning, match="'x': it is a function of 'copy'"):
        table = conditional_mean_importance(frame.drop(columns="flat"), "y", ["x", "z"])
    assert table.loc["x", ["p", "p_adjusted", "conclusive"]].tolist() == [1.0, 1.0, False]
    assert table.loc["z", "p_adjusted"] == table.loc["z", "p"]  # one test, not two
    numbered = pd.DataFrame(np.column_stack([y, x[:, 0], z[:, 0]]))
    assert conditional_mean_importance(numbered, 0, [1]).index.tolist() == [1]
    with pytest.raises(InputError, match="given: no column 'age'"):
        conditional_mean_importance(frame, "y", {"both": ["x", "z"]}, given="age")


def test_names_patterns_and_rest(tmp_path):
    columns = ["y", "region_a", "region_b", "age"]
    assert pick_columns(columns, ["rest"], ["y", "region_a"]) == ["region_b", "age"]
    with pytest.raises(InputError, match="--given: no column 'agee'"):
        pick_columns(columns, ["agee"], option="--given")
    with pytest.raises(InputError, match="already has another role"):
        pick_columns(columns, ["y"], ["y"])
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"\xff\xfe\x00")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("stra\xdfe,x\n1,2\n".encode("latin-1"))
    with pytest.raises(
        InputError, match=r"latin\.csv is not UTF-8: byte 0xdf at offset 4"
    ) as caught:
        column_names(latin)
    assert "iconv -f latin1" in caught.value.hint
    with pytest.raises(InputError, match=r"broken\.csv"):
        column_names(broken)
    with pytest.raises(InputError, match=r"none\.csv"):
        column_names(tmp_path / "none.csv")
    gaps = tmp_path / "gaps.parquet"
    pd.DataFrame({"a": [1.0, None], "b": [None, 2.0]}).to_parquet(gaps)
    assert column_names(gaps) == ["a", "b"]  # whatever its rows hold
    lines = tmp_path / "t.jsonl"
    lines.write_text('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n')
    assert column_names(lines) == ["a", "b"]
