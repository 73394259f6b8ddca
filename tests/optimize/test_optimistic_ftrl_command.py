"""``practicum use optimistic-ftrl`` as its user meets it: what is said, written and refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from plotly.graph_objects import Figure
from typer.testing import CliRunner

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.command import _ranking, app
from practicum.optimize.optimistic_ftrl.study import OptimisticFTRL
from practicum.study import Scale

RNG = np.random.default_rng(5)
T = 60


@pytest.fixture
def costs(tmp_path):
    frame = pd.DataFrame(50 + RNG.normal(size=(T, 3)), columns=["site a", "site b", "site c"])
    frame.insert(0, "date", pd.date_range("2026-01-01", periods=T, freq="D").astype(str))
    path = tmp_path / "costs.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def loads(tmp_path):
    X = RNG.normal(size=(T, 2))
    frame = pd.DataFrame(X, columns=["f", "h"]).assign(load=X @ [0.4, 0.6])
    path = tmp_path / "loads.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def prices(tmp_path):
    steps = np.exp(0.02 * RNG.normal(size=(T, 2)))
    path = tmp_path / "prices.csv"
    pd.DataFrame(100 * np.cumprod(steps, axis=0), columns=["A", "B"]).to_csv(path, index=False)
    return path


def use(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception:
        raise done.exception
    return " ".join(done.output.split())


def refuses(words, *arguments):
    with pytest.raises(InputError, match=words) as caught:
        use(*arguments)
    return caught.value


# --- B: what used to be a traceback --------------------------------------------------------------


def test_bad_input_sets_and_arms(costs, loads):
    refuses("1e\\+300", "run", costs, "--set", "ball:1e300")
    refuses("too small", "run", costs, "--set", "ball:1e-300")
    assert "simplex" in str(
        refuses("hedge", "compare", costs, "--set", "ball:2", "--arms", "hedge")
    )
    words = use("compare", costs, "--set", "ball:2", "--arms", "hedge,ogd", "--hints", "none")
    assert "hedge is left out" in words
    refuses(
        "adversarial", "compare", loads, "--loss", "squared", "--hints", "adversarial",
        "--arms", "ogd",
    )  # fmt: skip


# --- C: files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.txt", "p", "p.csv", "p.jpg"])
def test_bad_input_plot_of_another_kind(tmp_path, name):
    # refused before the stream is even looked for
    refuses(r"\.html", "run", tmp_path / "nowhere.csv", "--plot", tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("name", ["o.xlsx", "o", "o.json"])
def test_bad_input_out_of_another_kind(tmp_path, command, name):
    refuses(r"\.csv, \.parquet", command, tmp_path / "nowhere.csv", "--out", tmp_path / name)


def test_a_picture_is_a_picture_or_an_error(costs, tmp_path, monkeypatch):
    path = tmp_path / "p.png"
    monkeypatch.setattr(Figure, "write_image", lambda self, file, **_: file.write_bytes(b"PNG"))
    use("run", costs, "--plot", path)
    assert path.read_bytes() == b"PNG"

    def without_kaleido(self, file, **_):
        raise ValueError("Kaleido is not installed\nand more")

    monkeypatch.setattr(Figure, "write_image", without_kaleido)
    error = refuses("Kaleido is not installed", "run", costs, "--plot", tmp_path / "q.png")
    assert ".html" in error.hint
    assert not (tmp_path / "q.png").exists()


def test_actions_are_named_for_their_columns(costs, tmp_path):
    use("run", costs, "--out", tmp_path / "o.csv", "--moves", 2)
    use("run", costs, "--out", tmp_path / "o.parquet", "--moves", 2)
    table, same = pd.read_csv(tmp_path / "o.csv"), pd.read_parquet(tmp_path / "o.parquet")
    assert list(table) == list(same)
    assert list(table)[:5] == ["round", "time", "x_site a", "x_site b", "x_site c"]
    for name in ("best_fixed", "slow", "best_in_each_round"):
        regret = np.cumsum(table["loss"] - table[f"loss_{name}"])
        np.testing.assert_allclose(table[f"cumulative_regret_{name}"], regret, atol=1e-9)
    assert "regret" not in table
    use("compare", costs, "--arms", "ogd", "--hints", "none", "--out", tmp_path / "t.parquet")
    assert pd.read_parquet(tmp_path / "t.parquet")["arm"].tolist() == ["ogd"]


# --- A and D: what is said -----------------------------------------------------------------------


def test_the_slow_comparator_says_what_it_is(costs, loads):
    assert "against the best with at most 1 move:" in use("run", costs, "--moves", 1)
    words = use("run", loads, "--loss", "squared", "--moves", 30)
    assert "at most 15 moves, changing at most every" in words
    assert "best with at most" not in words


def test_costs_that_may_be_prices(prices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "--loss prices" in use("run", prices)
        assert "--loss prices" not in use("run", prices, "--loss", "prices")
    with pytest.warns(UserWarning, match=r"taken as costs.*simplex.*loss=prices"):
        OptimisticFTRL.on(UserData.of([prices]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OptimisticFTRL.on(UserData.of([prices]), loss="prices")


def test_columns_are_an_option_everywhere(costs, loads):
    words = use("run", costs, "--columns", "site c, site a")
    assert "2 coordinates (site c, site a)" in words
    words = use("compare", costs, "--columns", "site a,site b", "--arms", "ogd", "--hints", "none")
    assert "ogd" in words
    study = OptimisticFTRL.on(UserData.of([loads]), loss="squared", columns=("f", "load"),
                              domain="ball:1")  # fmt: skip
    assert study.user["columns"] == ("f", "load")
    assert "no column 'site z'" in refuses("site z", "run", costs, "--columns", "site z").message


def test_one_coordinate_names_the_way_out(loads):
    error = refuses("loads.csv", "run", loads, "--loss", "squared", "--columns", "f,load")
    assert "ball:R" in error.hint
    assert "box:LOW:HIGH" in error.hint
    words = use("run", loads, "--loss", "squared", "--columns", "f,load", "--set", "ball:1")
    assert "1 coordinate (f)" in words


def test_the_target_and_the_loss_are_named(loads, prices):
    words = use("run", loads, "--loss", "squared")
    assert "target: load" in words
    assert "half the squared error" in words
    assert "minus the log of the wealth" in use("run", prices, "--loss", "prices")


def test_terms_are_parts_of_the_regret(costs):
    words = use("run", costs)
    assert "Of the bound" not in words
    assert "errors" in words
    assert "slack" in words
    assert "add up" in words


def test_no_advice_where_there_is_no_regret(costs, tmp_path):
    frame = pd.read_csv(costs)
    for j, name in enumerate(["site a", "site b", "site c"]):
        frame[f"pred_{j + 1}"] = frame[name]
    frame.to_csv(tmp_path / "known.csv", index=False)
    words = use("run", tmp_path / "known.csv", "--hints", "recorded")
    assert "would lower it" not in words


def test_compare_takes_recorded_hints(costs, tmp_path):
    frame = pd.read_csv(costs)
    for j, name in enumerate(["site a", "site b", "site c"]):
        frame[f"pred_{j + 1}"] = frame[name] + 0.1
    frame.to_csv(tmp_path / "told.csv", index=False)
    words = use(
        "compare", tmp_path / "told.csv", "--hints", "none,recorded", "--arms", "recursive,ogd",
        "--blocks", 3,
    )  # fmt: skip
    assert "Hints: recorded." in words
    assert "paired" in words
    assert "pred_1" in refuses("pred_1", "compare", costs, "--hints", "recorded").message


@pytest.mark.parametrize("period", ["0D", "-7D"])
def test_bad_input_periods(costs, period):
    refuses("positive", "run", costs, f"--hints={period}")


def test_bad_input_periods_without_use(costs, tmp_path):
    refuses("1000 days.*no round would have a hint", "run", costs, "--hints", "1000D")
    untimed = pd.read_csv(costs).drop(columns="date")
    untimed.to_csv(tmp_path / "untimed.csv", index=False)
    assert "--time" in refuses("times", "run", tmp_path / "untimed.csv", "--hints", "7D").hint
    frame = pd.read_csv(costs).assign(date=range(T))
    frame.to_csv(tmp_path / "steps.csv", index=False)
    refuses("dates", "run", tmp_path / "steps.csv", "--hints", "7D")
    dated = pd.read_csv(costs).assign(date=lambda f: f["date"].str.replace("-", ""))
    dated.to_csv(tmp_path / "whole.csv", index=False)
    assert "hints: 7D" in use("run", tmp_path / "whole.csv", "--hints", "7D")


def test_bad_input_wealth_outside_the_simplex(prices):
    for command in ("run", "compare"):
        error = refuses(
            "prices.csv.*wealth", command, prices, "--loss", "prices", "--set", "ball:1"
        )
        assert "simplex" in error.hint
    assert use("run", prices, "--loss", "prices", "--set", "capped-simplex:0.8")


def test_bad_input_options_that_would_do_nothing(costs, loads):
    refuses("--target", "run", costs, "--target", "site a")
    refuses("--path-length", "run", costs, "--path-length", 3)
    refuses("--q", "run", loads, "--loss", "squared", "--q", 0.9)
    refuses("--target", "compare", costs, "--target", "site a")


def test_late_gradients_say_that_nothing_is_proved(costs):
    assert "no bound" in use("run", costs, "--delay", 2)


def test_the_comparison_takes_recorded_and_periodic_hints(costs, tmp_path):
    frame = pd.read_csv(costs).rename(columns={"date": "when"})
    for j, name in enumerate(["site a", "site b", "site c"]):
        frame[f"pred_{j + 1}"] = frame[name]
    frame.to_csv(tmp_path / "told.csv", index=False)
    source = UserData.of([tmp_path / "told.csv"])
    study = OptimisticFTRL.on(source, hints=("recorded", "7D"), time="when")
    trials = [t for t in study.trials(Scale("smoke")) if t.arm == "recursive"]
    regrets = {t["hints"]: study.run(t)["avg_regret"] for t in trials}
    assert regrets["recorded"] == pytest.approx(0.0, abs=1e-12)
    assert regrets["7D"] > 0
    for hints, words in (("weekly", "not known"), ("7D", "need times"), ("-3", "lag -3")):
        with pytest.raises(InputError, match=words):
            OptimisticFTRL.on(source, hints=(hints,))
    with pytest.raises(InputError, match="pred_1"):
        OptimisticFTRL.on(UserData.of([costs]), hints=("recorded",))
    with pytest.raises(InputError, match="times"):
        OptimisticFTRL.on(source, time="never")


def test_a_bound_that_says_nothing_is_called_void(tmp_path):
    # costs 1 and -1 on the ball of radius 1: no regret a round exceeds 2
    costs = np.where(np.arange(200) % 2, 1.0, -1.0)
    pd.DataFrame({"a": costs}).to_csv(tmp_path / "c.csv", index=False)
    words = use("run", tmp_path / "c.csv", "--set", "ball:1")
    assert "no player can lose more than 2 on these gradients: it is void" in words
    costs = np.where(np.arange(20000) < 15000, 1.0, -1.0)
    pd.DataFrame({"a": costs}).to_csv(tmp_path / "c.csv", index=False)
    assert "void" not in use("run", tmp_path / "c.csv", "--set", "ball:1")


def test_the_ranking_gives_no_regret_below_zero(tmp_path):
    # one block holds a burst: an unclipped interval of five would reach below 0
    rng = np.random.default_rng(1)
    costs = rng.normal(size=(100, 2)) * np.where(np.arange(100) < 20, 10.0, 0.01)[:, None]
    pd.DataFrame(costs, columns=["a", "b"]).to_csv(tmp_path / "c.csv", index=False)
    words = use("compare", tmp_path / "c.csv", "--blocks", 5, "--arms", "et,ogd", "--hints", "none")
    assert words.count("[0, ") == 2


def test_regrets_of_nought_and_one_are_numbers_and_no_answers():
    arms = {"et": 0.0, "greedy": 0.0, "ogd": 1.0}
    rows = [(i, arm, regret) for arm, regret in arms.items() for i in range(5)]
    lines = _ranking(pd.DataFrame(rows, columns=["block", "arm", "avg_regret"]), 5)
    assert [" ".join(line.split()) for line in lines] == [
        "1. et 0 [0, 0]",
        "2. greedy 0 [0, 0] (a tie with et)",
        "3. ogd 1 [1, 1]",
    ]
