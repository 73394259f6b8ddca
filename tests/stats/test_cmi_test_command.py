"""``practicum use cmi-test``: what a person reads, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.errors import InputError
from practicum.stats.cmi_test.command import app

NOISE = np.random.default_rng(0).normal(size=(70, 4, 4))


def use(*args):
    done = CliRunner().invoke(app, [str(a) for a in args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def pay(tmp_path):
    rng = np.random.default_rng(0)
    n = 200
    age = rng.normal(40, 10, n)
    degree = rng.choice(["none", "school", "college"], n)
    luck = rng.normal(size=n)
    wage = 0.2 * age + 3 * (degree == "college") + rng.normal(size=n)
    path = tmp_path / "pay.csv"
    frame = pd.DataFrame(
        {"wage": wage, "degree": degree, "luck": luck, "age": age, "firm": np.arange(n) // 4}
    )
    frame.to_csv(path, index=False)
    return path


def test_one_candidate_is_a_sentence_with_p_effect_and_self_check(pay):
    out = use("test", pay, "--response", "wage", "--candidates", "degree", "--given", "age")
    assert "Knowing age, degree still helps to predict the mean of wage (p = 0.001)." in out
    assert "partial R²" in out
    assert "Self-check: on 100 null data sets made from these rows" in out


def test_a_file_alone_is_tested(pay):
    options = ("--response", "wage", "--candidates", "degree", "--given", "age")
    assert use(pay, *options) == use("test", pay, *options)


def test_a_copy_of_another_column_is_said_to_have_nothing_to_test(pay, tmp_path):
    frame = pd.read_csv(pay)
    frame.assign(years=frame["age"] * 2).to_csv(pay, index=False)
    options = ("--response", "wage", "--given", "degree,age")
    said = "years adds no variation given degree and age: there is nothing to test (p = 1)."
    alone = use(pay, *options, "--candidates", "years", "--out", tmp_path / "years.html")
    assert said in alone
    assert alone.endswith("years.html: the result.\n")  # there is no null distribution to draw
    both = use(pay, *options, "--candidates", "years,luck")
    assert said in both
    assert "Note (years): no variation given Z in X column 'years': it is a function of" in both
    luck = next(line.split() for line in both.splitlines() if line.startswith("luck"))
    assert luck[1] == luck[2]  # one test, whatever the number of candidates


def test_without_z(pay):
    options = ("--response", "wage", "--candidates", "age", "--given", "none")
    assert "Knowing nothing else, age still helps to predict the mean of wage" in use(pay, *options)


def test_columns_can_be_ignored(pay):
    frame = pd.read_csv(pay)
    frame.assign(flat=1, name=[f"p{i}" for i in range(len(frame))]).to_csv(pay, index=False)
    options = ("--response", "wage", "--candidates", "degree")
    with pytest.raises(InputError, match="Z column 'name' has 200 different texts") as caught:
        use(pay, *options)
    assert "--ignore" in caught.value.hint
    assert "still helps" in use(pay, *options, "--ignore", "name,flat")


def test_several_candidates_are_a_holm_table(pay, tmp_path):
    page = tmp_path / "out.html"
    out = use(
        "test", pay, "--response", "wage", "--candidates", "degree,luck", "--out", page, "--seed", 1
    )
    assert "p (Holm)" in out
    degree = next(line.split() for line in out.splitlines() if line.startswith("degree"))
    assert degree[1:3] == ["0.001", "0.002"]  # p, and twice p
    assert "Knowing the rest, degree still helps to predict the mean of wage" in out
    assert "No evidence that, knowing the rest, luck helps" in out
    assert "Only the mean is tested" in out
    assert page.stat().st_size > 1_000_000
    text = page.read_text()
    for words in ("Knowing the rest, degree still helps", "Self-check: share of null", "p (Holm)"):
        assert words in text  # the page says what the terminal said
    numbers = tmp_path / "out.csv"
    use("test", pay, "--response", "wage", "--candidates", "degree,luck", "--out", numbers)
    frame = pd.read_csv(numbers, index_col="candidate")
    assert frame["p_adjusted"].tolist() == [2 * frame["p"]["degree"], frame["p"]["luck"]]
    assert frame["given"]["degree"] == "luck, age and firm"
    joint = use("test", pay, "--response", "wage", "--candidates", "degree,luck", "--joint")
    assert "degree + luck still helps" in joint


def test_groups_keep_rows_together(pay):
    out = use("test", pay, "--response", "wage", "--candidates", "luck", "--groups", "firm")
    assert "degree and age" in out  # the groups' column is no covariate


def test_an_example_file_can_be_tested_as_it_says(tmp_path):
    path = tmp_path / "even.csv"
    out = use("example", path, "--design", "even-sparse", "--rows", 300)
    assert f"Next: practicum use cmi-test {path} --response y" in out
    options = ("--response", "y", "--candidates", "x*", "--given", "z*", "--joint")
    assert "still helps" in use("test", path, *options)


def test_an_image_region(tmp_path):
    from sklearn.datasets import load_digits

    digits = load_digits()
    path = tmp_path / "digits.npz"
    np.savez(path, images=digits.images, labels=digits.target)
    out = use("image", path, "--box", "2:6,2:6")
    assert "box 2:6,2:6 still helps to predict the mean of labels" in out


def test_a_map_of_the_image(tmp_path):
    """The label is the left half's brightness, squared; a tile of the margin never varies."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(150, 2, 6))
    images[:, :, 4:] = 0
    path, page = tmp_path / "i.npz", tmp_path / "map.html"
    labels = images[:, :, :2].sum(axis=(1, 2)) ** 2 + 0.1 * rng.normal(size=150)
    np.savez(path, images=images, labels=labels)
    out = use("image", path, "--tiles", 2, "--out", page)
    assert "Knowing the rest, box 0:2,0:2 still helps to predict the mean of labels" in out
    assert "No evidence that, knowing the rest, box 0:2,2:4 helps" in out
    assert "0:2,4:6" not in out
    assert page.stat().st_size > 1_000_000
    with pytest.raises(InputError, match="one of --box and --tiles"):
        use("image", path)
    np.savez(path, images=0 * images, labels=labels)
    with pytest.raises(InputError, match=r"i\.npz: nothing varies in the images"):
        use("image", path, "--tiles", 2)


def test_missing_values_are_refused_or_dropped(pay):
    frame = pd.read_csv(pay)
    frame.loc[4, "age"] = np.nan
    frame.to_csv(pay, index=False)
    options = ("--response", "wage", "--candidates", "luck", "--given", "age")
    with pytest.raises(InputError, match=r"pay\.csv, column 'age', line 6") as caught:
        use("test", pay, *options)
    assert "--missing drop" in caught.value.hint
    assert "Self-check" in use("test", pay, *options, "--missing", "drop")


def test_a_cell_is_named_by_its_line_whatever_is_wrong_with_it(pay):
    """Line 4 of the file, a blank line before it, in the reader's words and in the test's own."""
    lines = pay.read_text().split("\n")
    options = ("--response", "wage", "--candidates", "luck", "--given", "age")
    for cell, words in (
        ("", "line 4"),
        ("forty", "line 4: 'forty'"),
        ("1e200", "1e\\+200 in line 4"),
    ):
        values = lines[2].split(",")
        pay.write_text("\n".join([*lines[:2], "", ",".join([cell, *values[1:]]), *lines[3:]]))
        with pytest.raises(InputError, match=words):
            use(pay, *options)


def test_bad_input_is_named(pay, tmp_path):
    with pytest.raises(InputError, match=r"pay\.csv: --candidates: no column 'degre'"):
        use("test", pay, "--response", "wage", "--candidates", "degre")
    with pytest.raises(InputError, match="already has another role"):
        use("test", pay, "--response", "wage", "--candidates", "wage")
    with pytest.raises(InputError, match=r"pay\.csv: --candidates names no column"):
        use("test", pay, "--response", "wage", "--candidates", "")
    frame = pd.read_csv(pay)
    narrow, flat = tmp_path / "narrow.csv", tmp_path / "flat.csv"
    frame[["wage", "luck"]].to_csv(narrow, index=False)
    frame.assign(firm=1).to_csv(flat, index=False)
    with pytest.raises(InputError, match=r"flat\.csv, candidate firm: X: constant"):
        use("test", flat, "--response", "wage", "--candidates", "firm", "--given", "age")
    with pytest.raises(InputError, match="no column is left"):
        use("test", narrow, "--response", "wage", "--candidates", "luck")


def test_bad_input_files_are_named_with_the_cell(pay, tmp_path):
    def refused(name, text, match):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError, match=match):
            use(path, "--response", "wage", "--candidates", "luck")

    table = pay.read_text()
    refused("empty.csv", "", r"empty\.csv is empty")
    refused("header.csv", table.split("\n")[0] + "\n", r"header\.csv holds no rows")
    refused("short.csv", "\n".join(table.split("\n")[:41]), r"short\.csv, .*40 rows, at least 60")
    refused("twins.csv", table.replace("degree", "luck", 1), "two columns are called 'luck'")
    lines = table.split("\n")
    lines[8] = "forty," + lines[8].split(",", 1)[1]
    refused("stray.csv", "\n".join(lines), "'wage' is numeric but for line 9: 'forty'")


@pytest.mark.parametrize(
    ("arrays", "box", "match"),
    [
        ({"images": np.zeros((70, 4, 4)), "labels": np.arange(70) % 2}, "0:9,0:2", "does not fit"),
        ({"images": np.zeros((70, 4, 4)), "labels": np.arange(70) % 2}, "nine", "rows and columns"),
        ({"images": np.zeros((70, 4, 4)), "labels": np.arange(70) % 2}, "0:4,0:4", "whole image"),
        (
            {"images": np.zeros((70, 4, 4)), "labels": np.arange(70) % 2},
            "0:2,0:2",
            "nothing varies",
        ),
        (
            {"images": NOISE[:59], "labels": np.arange(59) % 2},
            "0:2,0:2",
            r"i\.npz, box 0:2,0:2: 59 rows",
        ),
        ({"images": np.zeros((70, 4)), "labels": np.arange(70)}, "0:2,0:2", "are expected"),
        ({"images": np.zeros((70, 4, 4)), "labels": np.arange(70) - 5}, "0:2,0:2", "labels from"),
        (
            {"images": np.where(NOISE > 2, np.nan, NOISE), "labels": np.arange(70) % 2},
            "0:2,0:2",
            "NaN",
        ),
        ({"pictures": np.zeros(3)}, "0:2,0:2", "no array 'images'"),
    ],
)
def test_bad_input_images(tmp_path, arrays, box, match):
    path = tmp_path / "i.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=match):
        use("image", path, "--box", box)


def test_bad_input_not_an_npz(tmp_path):
    path = tmp_path / "i.npz"
    path.write_text("no")
    with pytest.raises(InputError, match="cannot be read as NPZ"):
        use("image", path, "--box", "0:2,0:2")
