"""``practicum use ssar``: what a person reads, what is written, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.data.offline import read_offline
from practicum.errors import InputError
from practicum.rl.ssar.command import _return_figure, app
from practicum.rl.ssar.trust import trust_trajectories

QUICK = ("--steps", 20, "--hidden", 16, "--batch", 32, "--episodes", 2, "--device", "cpu")


def use(*args):
    done = CliRunner().invoke(app, [str(a) for a in args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log.npz"
    use("sample", "mixed-20", "--episodes", 30, "--out", path)
    return path


@pytest.fixture(scope="module")
def model(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    use("fit", log, *QUICK, "--seeds", 2, "--against", "none", "--out", path)
    return path


@pytest.fixture
def table(log, tmp_path):
    data = read_offline(log)
    columns = {f"obs_{k}": data.observations[:, k] for k in range(3)}
    columns |= {"act_torque": data.from_unit(data.actions)[:, 0], "reward": data.rewards}
    columns |= {"run": data.episode_of}
    path = tmp_path / "log.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


# --- sample ------------------------------------------------------------------------------------


def test_a_sample_is_written_described_and_read_back(tmp_path):
    path = tmp_path / "log.npz"
    out = use("sample", "--episodes", 20, "--out", path)
    assert "pendulum-mixed-20: 4,000 transitions in 20 episodes of 200 steps" in out
    assert f"Next: practicum use ssar trust {path}" in out
    data = read_offline(path)
    assert (len(data), data.env_id) == (4000, "Pendulum-v1")
    with pytest.raises(InputError, match="is there already"):
        use("sample", "--out", path)
    use("sample", "maze:expert", "--episodes", 30, "--out", path, "--overwrite")
    assert read_offline(path).env_id == "PointMaze"


def test_training_tells_how_far_it_is(log, tmp_path, monkeypatch):
    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    words = [str(a) for a in (*QUICK, "--seeds", 1, "--out", tmp_path / "m.safetensors")]
    told = CliRunner().invoke(app, ["fit", str(log), *words]).stderr.splitlines()
    names = ("SSAR on TD3+BC", "filtered-bc")
    expected = [f"{i} of 20 steps of {name}" for name in names for i in range(2, 21, 2)]
    assert [line.split(",")[0] for line in told] == expected


def test_samples_are_repeatable(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        use("sample", "--episodes", 5, "--seed", seed, "--out", tmp_path / f"{name}.npz")
    a, b, c = (read_offline(tmp_path / f"{n}.npz").fingerprint for n in "abc")
    assert a == b != c


def test_bad_input_of_sample(tmp_path):
    with pytest.raises(InputError, match="no pendulum set") as caught:
        use("sample", "mixed20", "--out", tmp_path / "x.npz")
    assert "did you mean 'mixed-20'?" in caught.value.hint
    with pytest.raises(InputError, match=r"an \.npz file is written"):
        use("sample", "--out", tmp_path / "x.csv")
    with pytest.raises(InputError, match="sets are called"):
        use("sample", "ant:mixed-20", "--out", tmp_path / "x.npz")


# --- trust -------------------------------------------------------------------------------------


def test_trust_says_how_much_and_by_which_rule(log, tmp_path):
    table = tmp_path / "episodes.csv"
    out = use("trust", log, "--ref-return", -500, "--out", table)
    assert "log.npz: read the arrays observations, actions, rewards" in out
    assert "Trusted: 1,200 of 6,000 transitions (20 %) in 6 of 30 episodes" in out
    assert "return above -500" in out
    assert "Mean return of the trusted episodes" in out
    assert "Returns of the 30 episodes: lowest" in out
    episodes = pd.read_csv(table)
    assert (episodes["trusted_steps"] > 0).sum() == 6
    assert (episodes.loc[episodes["trusted_steps"] > 0, "return"] > -500).all()


def test_the_figure_counts_every_episode_on_its_side_of_the_cut(log, tmp_path):
    data = read_offline(log)
    figure = _return_figure(data, trust_trajectories(data, -500))
    trusted, other = figure.data
    assert (sum(trusted.y), sum(other.y)) == (6, 24)
    assert min(x for x, y in zip(trusted.x, trusted.y, strict=True) if y) > -500
    assert max(x for x, y in zip(other.x, other.y, strict=True) if y) < -500


def test_trust_is_drawn(log, tmp_path):
    page = tmp_path / "trust.html"
    assert f"Figure: {page}" in use("trust", log, "--plot", page)
    assert page.stat().st_size > 1_000_000


def test_trust_of_a_maze_is_by_success():
    out = use("trust", "maze:mixed-20")
    assert "in 20 of 100 episodes: it ends in success (its last reward is above 0)" in out


def test_trust_by_advantage_judges_single_actions(log):
    out = use("trust", log, "--method", "iql", "--critic-steps", 100)
    assert "at least as good as the log's usual action there" in out


def test_everything_trusted_is_a_note(log):
    assert "Note: log: all 30 episodes are trusted" in use("trust", log, "--ref-return", -1e6)
    assert "6,000 of 6,000" in use("trust", log, "--method", "all")


def test_a_table_is_read_by_the_columns_one_names(table):
    names = ("--episode", "run", "--low", -2, "--high", 2)
    out = use("trust", table, *names)
    assert "read observations from obs_0, obs_1, obs_2, actions from act_torque" in out
    assert "episode from 'run'" in out
    assert "Note:" in out
    assert "30 of 6000 steps (the last of each episode that was cut off) were dropped" in out
    some = use("trust", table, *names, "--obs", "obs_0, obs_2", "--act", "act_*")
    assert "Observations have 2 columns" in some
    found = use("trust", table, "--episode", "run", "--low", "data")
    assert "actions 1 (bounds [-2, 2])" in found


def test_arrays_are_read_by_the_names_one_gives(log, tmp_path):
    with np.load(log) as arrays:
        renamed = {("state_log" if k == "observations" else k): arrays[k] for k in arrays.files}
    np.savez(tmp_path / "odd.npz", **renamed)
    with pytest.raises(InputError, match="observations is missing"):
        use("trust", tmp_path / "odd.npz")
    assert "observations from 'state_log'" in use(
        "trust", tmp_path / "odd.npz", "--obs", "state_log"
    )


def test_bad_input_of_trust(log, table, tmp_path):
    with pytest.raises(InputError, match="not below the best return") as caught:
        use("trust", log, "--ref-return", 5)
    assert "90 %" in caught.value.hint
    with pytest.raises(InputError, match="neither terminals nor timeouts"):
        use("trust", table, "--low", -2, "--high", 2)
    with pytest.raises(InputError, match=r"outside \[-1, 1\]") as caught:
        use("trust", table, "--episode", "run")
    assert "--low and --high" in caught.value.hint
    with pytest.raises(InputError, match="--low 'two'"):
        use("trust", table, "--episode", "run", "--low", "two")
    with pytest.raises(InputError, match="goes with --method traj"):
        use("trust", log, "--method", "iql", "--ref-return", 0)
    with pytest.raises(InputError, match="no such file") as caught:
        use("trust", log.with_name("lg.npz"))
    assert "log.npz" in caught.value.hint
    with pytest.raises(InputError, match="is there already"):
        use("trust", log, "--out", log)
    with pytest.raises(InputError, match="--terminal is for files"):
        use("trust", "maze:mixed-20", "--terminal", "done")
    with pytest.raises(InputError, match="Minari data set names its own"):
        use("trust", "hopper/medium-v0", "--obs", "x")


# --- fit ---------------------------------------------------------------------------------------


def test_fit_puts_the_method_beside_the_log_a_baseline_and_random_actions(log, tmp_path):
    path, page = tmp_path / "m.safetensors", tmp_path / "fit.html"
    out = use("fit", log, *QUICK, "--seeds", 2, "--out", path, "--plot", page)
    for line in ("SSAR on TD3+BC", "filtered-bc", "the log, all episodes", "random actions"):
        assert any(row.startswith(line) for row in out.splitlines()), line
    assert "mean return in Pendulum-v1 [95 % interval over seeds]" in out
    assert "95 % interval" in out
    assert "Trusted: 2,000 of 6,000 transitions" in out
    assert "beta(s) started near 0.4" in out
    assert path.is_file()
    assert page.stat().st_size > 1_000_000


@pytest.mark.parametrize("base", ["td3bc", "cql"])
def test_every_base_and_baseline_runs(log, tmp_path, base):
    baselines = "bc,td3bc,cql,iql" if base == "td3bc" else "none"
    out = use(
        "fit", log, "--base", base, *QUICK, "--seeds", 1, "--against", baselines,
        "--no-adaptive", "--ref-return", -500, "--out", tmp_path / "m.safetensors",
    )  # fmt: skip
    assert {"td3bc": "SSAR on TD3+BC", "cql": "SSAR on CQL"}[base] in out
    assert "beta is fixed at" in out
    if base == "td3bc":
        assert "One seed says nothing of the spread" in out


def test_without_an_environment_returns_are_called_estimates(table, tmp_path):
    names = ("--episode", "run", "--low", -2, "--high", 2)
    out = use("fit", table, *names, *QUICK, "--seeds", 2, "--out", tmp_path / "m.safetensors")
    assert "No environment is named (--env)" in out
    assert "discounted return (0.99), estimated" in out
    assert "estimates by fitted-Q evaluation" in out
    assert "the log, all episodes" in out


def test_bad_input_of_fit(log, tmp_path):
    out = tmp_path / "m.safetensors"
    with pytest.raises(InputError, match="observations have shape"):
        use("fit", log, *QUICK, "--env", "PointMaze", "--out", out)
    with pytest.raises(InputError, match="cannot make this environment") as caught:
        use("fit", log, *QUICK, "--env", "Pendulm-v1", "--out", out)
    assert "did you mean 'Pendulum-v1'?" in caught.value.hint
    with pytest.raises(InputError, match="no such baseline") as caught:
        use("fit", log, *QUICK, "--against", "filter-bc", "--out", out)
    assert "did you mean filtered-bc?" in caught.value.hint
    with pytest.raises(InputError, match="gamma"):
        use("fit", log, *QUICK, "--gamma", 1.5, "--out", out)
    with pytest.raises(InputError, match="is a folder"):
        use("fit", log, *QUICK, "--out", tmp_path)
    assert not out.exists()


# --- evaluate and beta -------------------------------------------------------------------------


def test_a_saved_model_is_evaluated_beside_random_actions(model, tmp_path):
    path = tmp_path / "runs.csv"
    out = use("evaluate", model, "--episodes", 3, "--out", path)
    assert "in Pendulum-v1: 2 policies, 3 episodes each" in out
    assert "random actions" in out
    assert len(pd.read_csv(path)) == 6
    assert use("evaluate", model, "--episodes", 3) == out.replace(f"Episodes: {path}\n", "")
    other = use("evaluate", model, "--episodes", 3, "--env", "gymnasium:Pendulum-v1")
    assert "random actions" in other


def test_beta_and_q_of_every_row_are_written(model, log, tmp_path):
    for name in ("beta.csv", "beta.parquet"):
        path = tmp_path / name
        out = use("beta", model, log, "--out", path)
        frame = pd.read_csv(path) if name.endswith("csv") else pd.read_parquet(path)
        assert list(frame) == ["row", "episode", "beta", "q", "distance", "trusted"]
        assert len(frame) == 6000
        assert frame["beta"].between(0, 0.6).all()
        assert "Rank correlation of beta and distance on trusted rows" in out
    page = tmp_path / "beta.html"
    use("beta", model, log, "--out", path, "--overwrite", "--plot", page, "--y", 2)
    assert page.stat().st_size > 1_000_000
    first = use("beta", model, log, "--out", path, "--overwrite", "--policy", 1)
    assert "beta(s) of policy 1" in first


def test_beta_takes_the_bounds_of_the_model(model, table, tmp_path):
    out = use("beta", model, table, "--episode", "run", "--out", tmp_path / "beta.csv")
    assert "Q of the logged actions" in out  # torques in ±2, which the model knows


def test_bad_input_of_evaluate_and_beta(model, log, tmp_path):
    with pytest.raises(InputError, match="observations have shape"):
        use("evaluate", model, "--env", "PointMaze")
    with pytest.raises(InputError, match="no such file") as caught:
        use("evaluate", model.with_name("modl.safetensors"))
    assert "model.safetensors" in caught.value.hint
    with pytest.raises(InputError):
        use("evaluate", log)
    out = tmp_path / "beta.csv"
    with pytest.raises(InputError, match="there are 2 policies"):
        use("beta", model, log, "--policy", 7, "--out", out)
    with pytest.raises(InputError, match=r"\.csv or \.parquet is written"):
        use("beta", model, log, "--out", tmp_path / "beta.txt")
    with pytest.raises(InputError, match="observation columns 0 to 2"):
        use("beta", model, log, "--out", out, "--plot", tmp_path / "b.html", "--x", 9)
    with pytest.raises(InputError, match="columns"):
        use("beta", model, "maze:mixed-20", "--out", tmp_path / "other.csv")


# --- build -------------------------------------------------------------------------------------


def test_build_writes_minari_sets_that_fit_reads(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    options = ("--steps", 60, "--transitions", 1200, "--hidden", 16, "--device", "cpu")
    out = use("build", "Pendulum-v1", *options, "--levels", "random,expert")
    assert "Minari id practicum/pendulum/random-v0" in out
    assert "Minari id practicum/pendulum/expert-v0" in out
    said = use("fit", "practicum/pendulum/random-v0", *QUICK, "--seeds", 1, "--against", "none",
               "--out", tmp_path / "m.safetensors")  # fmt: skip
    assert "mean return in Pendulum-v1" in said
    with pytest.raises(InputError, match="is there already"):
        use("build", "Pendulum-v1", *options, "--levels", "random")
    use("build", "Pendulum-v1", *options, "--levels", "random", "--overwrite")


def test_bad_input_of_build(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(InputError, match="cannot make this environment"):
        use("build", "Hoper-v5", "--steps", 20)
    with pytest.raises(InputError, match="level 'meduim' is not known"):
        use("build", "Pendulum-v1", "--levels", "meduim")
    with pytest.raises(InputError, match="is no Minari id"):
        use("build", "Pendulum-v1", "--namespace", "a b!")
    with pytest.raises(InputError, match="action space Discrete"):
        use("build", "CartPole-v1", "--steps", 20)
