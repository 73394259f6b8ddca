"""``practicum use auction-bne``: what is printed, written and refused."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.errors import InputError
from practicum.games.auction_bne import estimate_values, read_samples
from practicum.games.auction_bne.command import app
from practicum.games.auction_bne.files import split_column


@pytest.fixture
def prices(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "values.csv"
    frame = pd.DataFrame({"value": rng.uniform(20, 80, 400), "who": ["a", "b"] * 200})
    frame.to_csv(path, index=False)
    return path


def use(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_solve_prints_the_table_and_the_certificate(prices, tmp_path):
    out = tmp_path / "equilibrium.csv"
    said = use("solve", prices, "--format", "first-price", "--bidders", 8, "--out", out)
    assert "First-price auction; 8 bidders" in said
    assert "The closed form applies and was used" in said
    gain = re.search(r"largest remaining gain from deviating is (\S+) currency units", said)
    assert float(gain[1]) < 0.01
    assert "shading %" in said
    assert "The seller earns" in said
    frame = pd.read_csv(out)
    assert list(frame)[:3] == ["value", "bid", "shading_percent"]
    assert (frame["bid"] <= frame["value"] + 1e-9).all()
    assert out.with_suffix(".html").stat().st_size > 10_000


def test_solve_by_learning_says_how_far_the_formula_is(tmp_path):
    said = use(
        "solve", "--prior", "uniform:0,100", "--bidders", 5, "--method", "abr", "--steps", 300,
        "--out", tmp_path / "b.csv",
    )  # fmt: skip
    assert "A closed form applies to this auction" in said
    assert "no bid gains more than" in said


def test_solve_for_two_types_of_bidders(prices, tmp_path):
    said = use(
        "solve", f"{prices}:value", "--group", "who", "--bidders", "1,2", "--steps", 50,
        "--method", "abr", "--out", tmp_path / "b.csv",
    )  # fmt: skip
    assert "\na:\n" in said
    assert "\nb:\n" in said
    assert set(pd.read_csv(tmp_path / "b.csv")["type"]) == {"a", "b"}


def test_solve_with_a_reserve_shows_who_stays_out(tmp_path):
    said = use(
        "solve", "--prior", "uniform:0,1", "--bidders", 2, "--reserve", 0.5, "--format",
        "second-price", "--out", tmp_path / "b.csv",
    )  # fmt: skip
    assert "no bid" in said
    assert "is sold in 75" in said
    # n Q(u) u^(n-1) (1-u) + n (n-1) int Q (1-t) t^(n-2): 1/4 + 1/6 for two uniform bidders
    assert "The reserve that earns most is 0.5: 0.4167 on average." in said


def test_solve_for_two_priors_shoots(tmp_path):
    said = use(
        "solve", "--prior", "beta:2,5; uniform:0,1", "--bidders", "1,1", "--out",
        tmp_path / "b.csv",
    )  # fmt: skip
    assert "No closed form is known" in said
    assert "beta:2,5: the largest remaining gain" in said


def test_values_recovers_them_from_bids(tmp_path):
    values = np.random.default_rng(1).uniform(0, 90, 3000)
    path, out = tmp_path / "bids.csv", tmp_path / "v.csv"
    pd.DataFrame({"bid": values * 3 / 4}).to_csv(path, index=False)
    said = use("values", path, "--bidders", 4, "--out", out)
    assert "median estimated value" in said
    found = pd.read_csv(out)["value"]
    assert np.median(np.abs(found - values)) < 3
    assert f"Next: practicum use auction-bne solve {out}:value --bidders 4\n" in said


def test_bids_that_were_recorded_are_not_what_solve_writes(prices, tmp_path, monkeypatch):
    """``values bids.csv``, then the line after "Next:": the person's bids.csv is still there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bids.csv").write_text("bid\n1\n")
    use("solve", prices, "--bidders", 3)
    assert (tmp_path / "bids.csv").read_text() == "bid\n1\n"
    assert list(pd.read_csv("equilibrium.csv"))[:2] == ["value", "bid"]


def test_values_that_were_recorded_are_not_what_values_writes(prices, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = prices.read_text()
    pd.DataFrame({"bid": np.linspace(1, 60, 60)}).to_csv("bids.csv", index=False)
    use("values", "bids.csv", "--bidders", 4)
    assert prices.read_text() == before
    assert list(pd.read_csv("estimated-values.csv")) == ["bid", "value"]


def test_compare_lists_the_methods(tmp_path):
    out = tmp_path / "m.csv"
    said = use(
        "compare", "--prior", "uniform:0,1", "--bidders", "2,5", "--methods",
        "closed_form,abr,fictitious", "--seeds", 2, "--steps", 50, "--out", out,
    )  # fmt: skip
    assert "fictitious" in said
    frame = pd.read_csv(out)
    assert len(frame) == 2 * (1 + 2 + 1)
    assert {"format", "n", "method", "seed", "l2", "exploitability", "seconds"} <= set(frame)
    played = frame[frame["method"] == "fictitious"]["l2"]  # the formula is known: so is the error
    assert ((played > 0) & (played < 0.05)).all()


def test_bad_input_of_the_commands(prices, tmp_path):
    with pytest.raises(InputError, match="one source of values"):
        use("solve", "--bidders", 3)
    with pytest.raises(InputError, match="one source of values"):
        use("solve", prices, "--prior", "uniform:0,1", "--bidders", 3)
    with pytest.raises(InputError, match="whole numbers"):
        use("solve", prices, "--bidders", "many")
    with pytest.raises(InputError, match="n_bidders is 1"):
        use("solve", prices, "--bidders", 1)
    with pytest.raises(InputError, match="--bidders is missing"):
        use("values", prices)
    with pytest.raises(InputError, match=r"values\.csv: .*bidders"):
        use("values", prices, "--bidders", 1)
    with pytest.raises(InputError, match="no such file"):
        use("solve", tmp_path / "none.csv", "--bidders", 3)


def test_a_column_may_be_named_with_the_file(prices):
    assert split_column(f"{prices}:value", None) == (prices, "value")
    assert len(read_samples(f"{prices}:value")[""]) == 400
    groups = read_samples(prices, "value", "who")
    assert {k: len(v) for k, v in groups.items()} == {"a": 200, "b": 200}


@pytest.mark.parametrize("n", [2, 5])
def test_estimated_values_of_uniform_bids(n):
    values = np.random.default_rng(0).random(5000)
    found = estimate_values(values * (n - 1) / n, n)
    assert np.median(np.abs(found - values)) < 0.03
    assert np.corrcoef(found, values)[0, 1] > 0.99


def test_estimated_values_keep_order_and_scale():
    bids = np.random.default_rng(0).gamma(4, 2, 200)
    found = estimate_values(bids, 3)
    assert (found > bids).all()
    np.testing.assert_allclose(estimate_values(8 * bids, 3), 8 * found, rtol=1e-9)
    shuffled = np.random.default_rng(1).permutation(200)
    np.testing.assert_allclose(estimate_values(bids[shuffled], 3), found[shuffled])


def test_the_kernel_equals_direct_sums():
    from practicum.games.auction_bne.structural import _triweight

    points = np.sort(np.random.default_rng(0).random(300))
    at = np.linspace(0, 1, 50)
    u = (at[:, None] - points[None, :]) / 0.1
    direct = (35 / 32 * np.clip(1 - u**2, 0, None) ** 3).sum(axis=1) / 0.1
    np.testing.assert_allclose(_triweight(at, points, 0.1), direct, rtol=1e-6)
