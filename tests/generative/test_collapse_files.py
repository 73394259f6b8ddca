"""A person's files as items, and the command that reads them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.generative.model_collapse.command import app
from practicum.generative.model_collapse.files import load_items, model_for
from practicum.generative.model_collapse.study import ModelCollapse
from practicum.generative.model_collapse.value import synthetic_gain
from practicum.study.compare import study_on


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "points.csv"
    X = np.random.default_rng(0).normal(5, 3, size=(60, 3))
    X[:, 2] = 7.0
    np.savetxt(path, X, delimiter=",", header="x,y,always", comments="")
    return path


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "notes.txt"
    words = ["model", "data", "writes", "reads", "the", "a", "old", "new"]
    rng = np.random.default_rng(0)
    path.write_text(" ".join(rng.choice(words, 2000)))
    return path


def test_rows_are_standardised_and_constant_columns_left_out(table):
    with pytest.warns(UserWarning, match="constant columns left out: always"):
        X = load_items(table)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert load_items(table, ["y"]).shape == (60, 1)
    assert load_items(table, ["x", "y"], max_items=20).shape == (20, 2)


def test_text_is_cut_into_documents(text, tmp_path):
    documents = load_items(text)
    assert len({len(d) for d in documents}) == 1
    assert len(documents) >= 20
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({"body": d, "text": "x"}) for d in documents))
    assert load_items(lines, field="body") == documents


def test_models_fit_the_kind_of_items(table, text):
    X, documents = load_items(table, ["x", "y"]), load_items(text)
    assert type(model_for(X)).__name__ == "KDEModel"
    assert type(model_for(documents)).__name__ == "NGramLM"
    assert type(model_for(X, "mixture")).__name__ == "SklearnModel"
    assert model_for(X, "kde", 0.3).bandwidth == 0.3
    # Scott's rule, fixed: n^(-1/(d+4)) on standardised columns
    assert model_for(X, "kde").bandwidth == pytest.approx(60 ** (-1 / 6))


def test_bad_input(table, text, tmp_path):
    with pytest.raises(InputError, match="which model=ngram cannot read"):
        model_for(load_items(table, ["x"]), "ngram")
    with pytest.raises(InputError, match="which model=kde cannot read"):
        model_for(load_items(text), "kde")
    with pytest.raises(InputError, match="model 'gan'"):
        model_for(load_items(text), "gan")
    with pytest.raises(InputError, match="singular covariance"):
        model_for(np.eye(12), "gaussian")
    with pytest.raises(InputError, match="every numeric column is constant"):
        load_items(table, ["always"])
    short = tmp_path / "short.csv"
    short.write_text("x\n1\n2\n")
    with pytest.raises(InputError, match=r"short.csv holds 2 rows; at least 8"):
        load_items(short)
    brief = tmp_path / "brief.txt"
    brief.write_text("too little")
    with pytest.raises(InputError, match=r"brief.txt has 10 characters"):
        load_items(brief)


def call(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_run_writes_json_and_a_page(table, tmp_path):
    out = tmp_path / "deep" / "run.json"
    done = call(
        "run", table, "--columns", "x,y", "--model", "kde", "--bandwidth", 0.3,
        "--generations", 6, "--seeds", 4, "--out", out,
    )  # fmt: skip
    content = json.loads(out.read_text())
    assert set(content["verdict"]) == {"replace", "accumulate", "accumulate-subsample"}
    assert len(content["rows"]) == 3 * 6 * 4
    assert "plotly" in out.with_suffix(".html").read_text()
    assert "replace" in done.stdout
    assert sorted(p.name for p in out.parent.iterdir()) == ["run.html", "run.json"]


def test_a_run_tells_how_far_it_is(table, tmp_path, monkeypatch):
    """Three workflows, two seeds, two generations."""
    words = ("run", table, "--model", "gaussian", "--generations", 2, "--seeds", 2)
    assert "fits" not in call(*words, "--out", tmp_path / "a.json").stderr  # it takes no 10 s
    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    told = call(*words, "--out", tmp_path / "b.json").stderr.splitlines()
    told = [line.split(",")[0] for line in told if "fits" in line]
    assert told == [f"{i} of 12 fits" for i in range(1, 13)]


def test_run_reads_text(text, tmp_path):
    done = call("run", text, "--generations", 3, "--seeds", 2, "--out", tmp_path / "t.json")
    assert "undecided" in done.stdout  # two seeds


def test_value_prices_synthetic_items(table, tmp_path):
    out = tmp_path / "value.json"
    done = call(
        "value", table, "--columns", "x,y", "--real", "8,40", "--synth", "40,100",
        "--seeds", 3, "--out", out,
    )  # fmt: skip
    content = json.loads(out.read_text())
    assert {(g["R"], g["F"]) for g in content["gain"]} == {(8, 40), (8, 100), (40, 40), (40, 100)}
    assert "Beside 8 real items" in done.stdout
    call("value", table, "--model", "gaussian", "--real", "2,40", "--seeds", 3, "--out", out)
    lost = [row["loss"] for row in json.loads(out.read_text())["losses"] if row["R"] + row["F"] < 3]
    assert lost == ["inf"] * 3  # JSON has no infinity


def test_value_says_who_wrote_the_synthetic_items(table, tmp_path):
    """Beside 8 rows, items of a generator that saw 40 are not those of one that saw these 8."""
    asked = ("value", table, "--columns", "x,y", "--synth", "40", "--seeds", 3, "--out")
    losses, said = {}, {}
    for name, extra in {
        "largest": ("--real", "8,40"),
        "own": ("--real", "8,40", "--generator", "own"),
        "alone": ("--real", "8"),
    }.items():
        out = tmp_path / f"{name}.json"
        said[name] = call(*asked, out, *extra).stdout
        content = json.loads(out.read_text())
        losses[name] = {(r["seed"], r["R"], r["F"]): r["loss"] for r in content["losses"]}
        fitted = {row["R"]: row["fitted_on"] for row in content["generator"]}
        assert fitted[8] == (40 if name == "largest" else 8)
    assert "fitted on 40 real items, the largest --real" in said["largest"]
    assert "--generator own" in said["largest"]
    assert "Each generator was fitted on the same real items" in said["own"]
    assert losses["alone"].items() <= losses["own"].items()
    for key, loss in losses["own"].items():
        same = key[1] == 40 or key[2] == 0  # that generator is the same, or nothing was written
        assert (loss == losses["largest"][key]) == same
    with pytest.raises(InputError, match="--real '0,8': expected numbers from 1"):
        call(*asked, tmp_path / "x.json", "--real", "0,8", "--generator", "own")
    with pytest.raises(InputError, match="--real holds no number"):
        call(*asked, tmp_path / "x.json", "--real", ",")


def test_run_says_what_it_read_and_what_collapse_is(table, text, tmp_path):
    arguments = ("--generations", 20, "--seeds", 6, "--out", tmp_path / "t.json")
    said = call("run", table, *arguments, "--workflow", "replace", "--items", 50).stdout
    assert "Read: 50 of 60 rows of points.csv, 2 columns (x, y), each standardised" in said
    assert "Model: kde, a kernel density estimate of bandwidth 0.5" in said
    assert ", by auto. Its loss is minus the log density of a held-out real row, in nats" in said
    assert "the loss rises as the rows spread out (replace): each generation of a KDE adds" in said
    spread = float(said.split("real rows having 1: replace ")[1].split(".\n")[0])
    assert spread > 1.5
    said = call("run", text, "--generations", 2, "--seeds", 2, "--out", tmp_path / "t.json").stdout
    assert "documents of" in said
    assert "Model: ngram, a character model of order 5, by auto." in said
    assert "log probability of a character of held-out real documents, in nats" in said
    assert "Spread" not in said
    said = call("run", table, *arguments, "--model", "gaussian", "--columns", "x").stdout
    assert "Model: gaussian, one mean and covariance. Its" in said
    assert "1 column (x)" in said


def test_command_bad_input(table, tmp_path):
    with pytest.raises(InputError, match="--real 'many'"):
        call("value", table, "--columns", "x", "--real", "many")
    # in the words of the command: a person typed no n_per_generation
    with pytest.raises(InputError, match=r"^--real 500: of the 60 real items 45 are left"):
        call("value", table, "--columns", "x", "--real", "500", "--out", tmp_path / "v.json")
    with pytest.raises(InputError, match=r"^--synth '-1': expected numbers from 0"):
        call("value", table, "--columns", "x", "--synth", "-1", "--out", tmp_path / "v.json")
    with pytest.raises(InputError, match=r"^--real-fraction does not apply to --workflow all"):
        call("run", table, "--real-fraction", 0.5)
    with pytest.raises(InputError, match=r"bandwidth=0.3 is for a KDE, the model is gaussian"):
        call("run", table, "--model", "gaussian", "--bandwidth", 0.3)
    with pytest.raises(InputError, match="GaussianMixture cannot be fitted to 3 items"):
        call("value", table, "--columns", "x", "--model", "mixture", "--real", "3,40")
    with pytest.raises(InputError, match="no such file"):
        call("run", tmp_path / "absent.csv")
    with pytest.raises(InputError, match="no column 'z'"):
        call("run", table, "--columns", "z")


def test_gain_needs_a_loss_without_synthetic_items():
    import pandas as pd

    with pytest.raises(InputError, match="add 0 to the sizes"):
        synthetic_gain(pd.DataFrame({"seed": [0], "R": [5], "F": [9], "loss": [1.0]}))


def test_a_comparison_names_the_unit_of_its_loss(table, text):
    for path, unit in ((table, "nats per item"), (text, "nats per character")):
        study = study_on(ModelCollapse, UserData.of([path]), {})
        assert {measure.unit for measure in study.measures.values()} == {unit}
    assert {measure.unit for measure in ModelCollapse.measures.values()} == {"nats per item"}
