"""The study on small federations and on people's files; the commands."""

import numpy as np
import pandas as pd
import pytest

from practicum.data import clients as fed
from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.federated.fedgwc import LossLog, SplitEvidence
from practicum.federated.fedgwc.checks import message_bytes, reward_convergence, score_ranking
from practicum.federated.fedgwc.command import _decision
from practicum.federated.fedgwc.study import FedGWCStudy, _scenario
from practicum.study import Results, Scale, Store, run_study
from practicum.study.compare import comparison, sentence, study_on
from practicum.study.spec import Outcome


def write_log(path, seed=0, n_clients=12, rounds=120, group=False):
    """A loss log of two groups that pull the model apart."""
    rng, log = np.random.default_rng(seed), LossLog(n_clients)
    side = np.where(np.arange(n_clients) % 2, 1.0, -1.0)
    for t in range(rounds):
        clients = rng.choice(n_clients, 6, replace=False)
        wave = 0.3 * rng.normal()
        noise = 0.1 * rng.normal(size=(6, 3))
        log.add(t, clients, np.exp(side[clients] * wave)[:, None] * np.exp(noise), clients + 5)
    frame = log.to_frame()
    if group:
        frame["group"] = np.where(frame["client"] % 2, "odd", "even")
    frame.to_csv(path, index=False)
    return path


# --- checks --------------------------------------------------------------------------------------


def test_anchor_rewards_converge_as_claimed():
    rng = np.random.default_rng(1)
    mean = reward_convergence(12, 4, 4096, rng, moving=False)
    assert mean["slope"] == pytest.approx(-0.5, abs=0.1)
    moving = reward_convergence(12, 4, 4096, np.random.default_rng(1), moving=True)
    assert moving["floor_ratio"] == pytest.approx(1, abs=0.1)
    assert abs(moving["slope"]) < 0.1


def test_messages_carry_the_losses_and_nothing_else():
    fedavg, ours, ifca = (message_bytes(way, 6, 0) for way in ("fedavg", "fedgwc", "ifca"))
    assert ours["up"] - fedavg["up"] == len("train-losses") + 8 * 8
    assert ours["bytes"] < 1.01 * fedavg["bytes"]
    assert ifca["bytes"] == fedavg["bytes"] + fedavg["model"]


def test_the_score_orders_partitions_of_one_size():
    rng = np.random.default_rng(0)
    counts = np.stack([rng.multinomial(200, p) for p in rng.dirichlet(np.full(10, 0.2), 24)])
    cell = score_ranking(counts, 120, rng)
    assert cell["spearman_fixed"] > 0.7 > cell["spearman_any"]
    assert cell["changed"] == 0


# --- on a person's files -------------------------------------------------------------------------


def compared(study):
    with Store("sqlite:///:memory:") as store:
        run = run_study(study, Scale("smoke", 2), store, kind="compare")
    assert run.failures == []
    return run.results, comparison(study, run.results)


def test_a_loss_log_without_truth_is_judged_by_stability(tmp_path):
    study = study_on(FedGWCStudy, UserData.of([write_log(tmp_path / "losses.csv")]), {})
    results, rows = compared(study)
    assert {r.arm for r in rows} == {"joint", "centred", "column", "row", "trajectory", "descent"}
    assert {r.measure for r in rows} == {"stability"}
    assert results.values("stability", arm="joint").mean() > 0.9
    assert sentence(study, rows).startswith("adjusted Rand index between halves")
    assert list(study.figures(results)) == ["Do two halves of the rounds agree?"]


def test_a_group_column_or_option_gives_the_truth(tmp_path):
    path = write_log(tmp_path / "losses.csv", group=True)
    results, rows = compared(study_on(FedGWCStudy, UserData.of([path]), {}))
    assert results.values("ari", arm="joint").mean() == 1
    assert {r.measure for r in rows} == {"ari", "stability"}
    with pytest.raises(InputError, match="no column 'site'"):
        study_on(FedGWCStudy, UserData.of([path]), {"group": "site"})


def write_sites(path):
    """Eight sites, half of which call it the other way round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(480, 4))
    site = np.repeat(np.arange(8), 60)
    y = (x[:, 0] > 0) ^ (site % 2 == 1)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(
        site=[f"s{i}" for i in site], side=site % 2, y=np.where(y, "up", "down")
    )
    frame.to_csv(path, index=False)
    return path


def test_a_table_with_clients_is_trained_on(tmp_path):
    write_sites(tmp_path / "sites.csv")
    options = {"client": "site", "group": "side", "per_round": 3, "rounds": 120}
    study = study_on(FedGWCStudy, UserData.of([tmp_path / "sites.csv"]), options)
    results, rows = compared(study)
    assert {r.arm for r in rows} == set(FedGWCStudy.arms)
    accuracy = results.frame.groupby("arm")["accuracy"].mean()
    assert accuracy["fedavg"] < 0.65 < 0.85 < accuracy["oracle"]
    assert results.values("ari", arm="joint").mean() == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("round,client,step,loss\n0,a,0,1\n0,b,0,1\n", {}, "2 clients"),
        ("round,client,loss\n0,a,1\n", {}, "no column step"),
        ("a,b\n1,x\n2,y\n", {}, "2 rows for 12 clients"),
        ("a,b\nu,x\nv,y\n", {}, "no numeric column besides b"),
        ("a,b\n1,0.5\n2,0.5\n", {}, "1 different values"),
        ("a,b\n1,x\n2,y\n", {"label": "c"}, r"no column 'c' \(label\)"),
        ("a,b\n1,x\n2,y\n", {"group": "a"}, "need a client column"),
        ("a,b,c\n1,x,p\n2,y,q\n", {"client": "b"}, "2 clients; at least 4"),
        ("a,b\n1,x\n2,y\n", {"scenario": "chaos"}, "no scenario 'chaos'"),
        ("a,b\n1,x\n2,y\n", {"learning_rate": "-1"}, "it is positive"),
        ("a,b\n" + "1,x\n2,y\n" * 30, {"clients": "6", "per_round": "2"}, "3 clients a round"),
    ],
)
def test_bad_input_is_refused_by_name(tmp_path, text, options, message):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        study_on(FedGWCStudy, UserData.of([path]), options)


def test_bad_input_a_client_in_two_groups(tmp_path):
    path = write_log(tmp_path / "losses.csv", group=True)
    frame = pd.read_csv(path)
    frame.loc[0, "group"] = "neither"
    frame.to_csv(path, index=False)
    with pytest.raises(InputError, match="is in two groups"):
        study_on(FedGWCStudy, UserData.of([path]), {})


def test_nan_losses_in_a_file_are_left_out_with_a_warning(tmp_path):
    path = write_log(tmp_path / "losses.csv")
    frame = pd.read_csv(path)
    frame.loc[[4, 5], "loss"] = np.nan
    frame.to_csv(path, index=False)
    from practicum.federated.fedgwc import read_loss_log

    with pytest.warns(UserWarning, match="NaN or infinite losses left out, of clients"):
        log = read_loss_log(path)
    assert len(log) == 6 * 120 - 1


# --- claims --------------------------------------------------------------------------------------


def outcomes(study, cells):
    """Results with these ARIs: {(scenario, arm): values}."""
    return Results(
        [
            Outcome(study.trial(scenario, arm, seed), {"ari": value, "accuracy": value})
            for (scenario, arm), values in cells.items()
            for seed, value in enumerate(values)
        ],
        Scale("cpu"),
    )


def test_claims_follow_the_rules_of_the_specification():
    study = FedGWCStudy()
    noise = np.random.default_rng(0).normal(scale=0.02, size=10)
    chance, good = noise, 0.5 + noise
    found = outcomes(study, {("conflict", "column"): good, ("mixed", "column"): chance})
    assert study.claims["C2"](found).status == "partly"
    none = outcomes(study, {("conflict", "column"): chance, ("mixed", "column"): chance[::-1]})
    assert study.claims["C2"](none).status == "not reproduced"
    worse = outcomes(
        study, {("conflict", "column"): chance, ("conflict", "ifca"): good + chance[::-1]}
    )
    assert study.claims["C3"](worse).status == "not reproduced"
    exact = outcomes(study, {("conflict", "centred"): np.ones(10)})
    assert study.claims["C2b"](exact).status == "reproduced"
    once = outcomes(study, {("conflict", "centred"): np.r_[np.ones(9), 0.83]})
    assert study.claims["C2b"](once).status == "not reproduced"
    useless = outcomes(study, {("domain", a): chance for a in ("oracle", "fedavg", "column")})
    assert study.claims["C4"](useless).status == "needs more"
    cells = {("conflict", "oracle"): [0.8, 0.9], ("conflict", "fedavg"): [0.4, 0.7]}
    few = outcomes(study, cells | {("conflict", "column"): [0.6, 0.7]})
    verdict = study.claims["C4"](few)
    assert verdict.status == "inconclusive"
    assert verdict.seeds_needed > 2
    assert f"About {verdict.seeds_needed:,} seeds would tell for conflict" in verdict.sentence
    worse = outcomes(
        study, {("two", "oracle"): chance, ("two", "fedavg"): good, ("two", "column"): good}
    )
    assert study.claims["C4"](worse).status == "needs more"


def test_the_tree_of_the_published_procedure_is_drawn():
    trial = FedGWCStudy().trial("conflict", "official", 0)
    labels = np.array([[0, 0, 0, 0], [0, 1, 0, 1]])
    curves = {"tree_at": np.array([30, 90]), "tree_labels": labels}
    outcome = Outcome(trial, {"accuracy": 0.5}, curves | {"groups": np.array([0, 1, 0, 1])})
    results = Results([outcome], Scale("cpu"))
    figure = FedGWCStudy().figures(results)["How the published procedure splits"]
    assert [trace.name for trace in figure.data] == ["4 clients", "2 clients", "2 clients"]
    assert figure.data[0].x[:2] == (0, 30)
    assert figure.data[1].x[:2] == (30, 90)


def test_the_paper_scale_runs_on_a_tiny_copy_of_cifar(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for name in ("train.bin", "test.bin"):
        rows = rng.integers(0, 256, (120, 3074)).astype(np.uint8)
        rows[:, 1] = np.arange(120) % 100
        rows.tofile(tmp_path / name)
    monkeypatch.setenv("PRACTICUM_CIFAR100", str(tmp_path))
    trial = next(iter(FedGWCStudy().trials(Scale("paper", 1))))
    assert dict(trial.params)["images"] == "cifar-100"
    size = dict(trial.params) | {
        "clients": 4,
        "per_round": 3,
        "rounds": 2,
        "split_at": 1,
        "train": 6,
        "test": 2,
        "steps": 1,
        "batch": 4,
    }
    cells = _scenario("conflict", 1, 2, tuple(sorted(size.items())))
    assert set(cells) == set(FedGWCStudy.arms)
    assert all(0 <= cell["accuracy"] <= 1 for cell in cells.values())


# --- commands ------------------------------------------------------------------------------------


def test_cluster_a_log_from_the_command_line(tmp_path, practicum):
    write_log(tmp_path / "losses.csv")
    done = practicum("use", "fedgwc", "cluster", "losses.csv", "--out", "g.csv", "--plot", "w.html")
    assert "Group 0 (6 clients): 0, 2, 4, 6, 8, 10" in done.stdout
    assert pd.read_csv(tmp_path / "g.csv")["group"].tolist() == [0, 1] * 6
    assert (tmp_path / "w.html").stat().st_size > 1_000_000


def test_a_log_without_groups_keeps_one_model(tmp_path, practicum):
    rng = np.random.default_rng(0)
    rows = [(t, c, 0, rng.gamma(9)) for t in range(60) for c in range(8)]
    frame = pd.DataFrame(rows, columns=["round", "client", "step", "loss"])
    frame.to_csv(tmp_path / "losses.csv", index=False)
    done = practicum("use", "fedgwc", "cluster", "losses.csv")
    assert "The losses do not speak for groups: keep one model" in done.stdout
    assert "Group 0" not in done.stdout
    frame[frame["round"] < 9].to_csv(tmp_path / "losses.csv", index=False)
    refused = practicum("use", "fedgwc", "cluster", "losses.csv", code=2)
    assert "about 10 rounds of this kind would do" in refused.stderr


def test_score_a_clustering_from_the_command_line(tmp_path, practicum):
    rows = [(c, k, 20 if (c < 3) == (k == 0) else 1) for c in range(6) for k in range(3)]
    pd.DataFrame(rows, columns=["client", "class", "count"]).to_csv(
        tmp_path / "counts.csv", index=False
    )
    pd.DataFrame({"client": range(6), "group": list("aaabbb")}).to_csv(
        tmp_path / "groups.csv", index=False
    )
    done = practicum("use", "fedgwc", "score", "counts.csv", "groups.csv")
    assert "Wasserstein Adjusted Score" in done.stdout
    assert done.stdout.startswith("6 clients, 3 classes, groups: 2.")
    pd.DataFrame({"client": range(6), "group": "a"}).to_csv(tmp_path / "groups.csv", index=False)
    alone = practicum("use", "fedgwc", "score", "counts.csv", "groups.csv")
    assert "No score: groups are compared with each other" in alone.stdout
    pd.DataFrame({"client": [0], "group": ["a"]}).to_csv(tmp_path / "groups.csv", index=False)
    refused = practicum("use", "fedgwc", "score", "counts.csv", "groups.csv", code=2)
    assert "no group for the clients [1, 2, 3, 4, 5]" in refused.stderr


def test_run_a_federation_from_the_command_line(tmp_path, practicum):
    done = practicum(
        *("use", "fedgwc", "run", "--data", "digits", "--scenario", "conflict", "--clients", "8"),
        *("--fraction", "0.5", "--rounds", "60", "--arms", "fedavg,joint", "--losses", "log.csv"),
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("8 clients, 4 a round, 60 rounds, 1 seed;")
    assert lines[1].startswith("Too few rounds to trust groups: a pair of clients meets 3.2 times")
    assert [line.split()[0] for line in lines[2:5]] == ["arm", "fedavg", "joint"]
    assert pd.read_csv(tmp_path / "log.csv")["round"].nunique() == 60


def test_run_a_table_with_a_client_column_from_the_command_line(tmp_path, practicum):
    write_sites(tmp_path / "sites.csv")
    command = ("use", "fedgwc", "run", "--data", "sites.csv", "--client", "site", "--group", "side")
    done = practicum(*command, "--fraction", "0.5", "--rounds", "200", "--out", "groups.csv")
    assert "Group 0 (4 clients): s0, s2, s4, s6" in done.stdout
    assert "serve 8 clients better than one model and 0 worse" in done.stdout
    table = pd.read_csv(tmp_path / "groups.csv").set_index("client")
    assert table.index.tolist() == [f"s{i}" for i in range(8)]
    assert (table["accuracy_group_model"] > table["accuracy_one_model"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "mnist"], "--data mnist: no such file"),
        (["--data", "digits", "--client", "site"], "are for tables, not for digits"),
        (["--data", "digits", "--fraction", "0"], "--fraction is 0; above 0, up to 1"),
        (["--data", "digits", "--arms", "magic"], "no arm magic"),
        (["--data", "sites.csv", "--client", "who"], "no column 'who'"),
    ],
)
def test_bad_input_to_run_ends_in_one_line(tmp_path, practicum, arguments, message):
    write_sites(tmp_path / "sites.csv")
    refused = practicum("use", "fedgwc", "run", *arguments, code=2)
    errors = [line for line in refused.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert message in errors[0]


def test_a_missing_data_set_is_explained_by_the_command(practicum, tmp_path, monkeypatch):
    monkeypatch.setattr(fed, "DEBIAN_FOLDER", tmp_path)
    with pytest.raises(InputError, match="apt-get install dataset-fashion-mnist"):
        fed.fashion_mnist(14, tmp_path)


def test_a_log_that_lost_everything_says_so(tmp_path):
    from practicum.federated.fedgwc import LossLog, published_interaction

    with pytest.raises(InputError, match="no round has finite losses"):
        published_interaction(LossLog(3))


def test_a_client_without_finite_losses_is_named(tmp_path):
    from practicum.federated.fedgwc import read_loss_log

    rows = [(t, c, 0, np.nan if c == 2 else 1.0 + c) for t in range(3) for c in range(4)]
    path = tmp_path / "l.csv"
    pd.DataFrame(rows, columns=["round", "client", "step", "loss"]).to_csv(path, index=False)
    with pytest.warns(UserWarning, match="no finite losses at all from 2"):
        read_loss_log(path)
    text = path.read_text().replace("1.0", "high", 1)
    path.write_text(text)
    with pytest.raises(InputError, match="column loss, row 1: a number expected, found 'high'"):
        read_loss_log(path)


def evidence(reason):
    return SplitEvidence(np.zeros(8, dtype=int), 2, 0.3, 0.1, reason)


@pytest.mark.parametrize(
    ("found", "asked", "together", "why", "words"),
    [
        (2, 0, 15.0, "groups", "speak for 2 groups."),
        (2, 0, 4.0, "groups", "pairs that met 4 times are weak evidence"),
        (1, 0, 15.0, "noise", "keep one model"),
        (1, 0, 15.0, "weak", "explains 30% of it, and groups explain 42% or more. Keep one model"),
        (1, 0, 15.0, "unstable", "Undecided: 2 groups stand out"),
        (1, 2, 15.0, "noise", "because they were asked for"),
        (2, 1, 15.0, "groups", "in one group because that was asked for"),
        (1, 0, 2.0, "noise", "Too few rounds to tell"),
        (1, 0, 15.0, None, "published rule finds no groups"),
    ],
)
def test_what_the_losses_say_is_told_from_what_was_asked(found, asked, together, why, words):
    said = _decision(found, asked, together, why and evidence(why))
    assert words in said
    # a verdict on the federation needs the rule's own "no", and nothing that was forced
    assert ("eep one model" in said) == (why in ("noise", "weak") and together > 10)


def test_a_rule_that_cannot_split_says_nothing_about_groups():
    said = _decision(1, 0, 60.0, None, can_split=False)
    assert "says nothing about groups" in said
    assert "finds no groups" not in said


def test_options_that_an_estimator_has_not_are_refused(tmp_path, practicum):
    write_log(tmp_path / "losses.csv")
    use = ("use", "fedgwc", "cluster", "losses.csv")
    refused = practicum(*use, "--view", "row", code=2)
    assert "--view: joint has none" in refused.stderr
    assert "Group 0" in practicum(*use, "--view", "row", "--estimator", "ema", "--groups", 2).stdout
    write_sites(tmp_path / "sites.csv")
    use = ("use", "fedgwc", "run", "--data", "sites.csv", "--client", "site", "--scenario", "two")
    assert "column 'site' says who holds a row already" in practicum(*use, code=2).stderr


def test_a_run_names_its_label_and_what_was_forced(tmp_path, practicum):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.arange(320) % 8, "x": rng.normal(size=320)})
    frame["y"] = frame["x"] > 0
    frame.to_csv(tmp_path / "s.csv", index=False)
    use = ("use", "fedgwc", "run", "--data", "s.csv", "--client", "site", "--rounds", 40)
    done = practicum(*use, "--fraction", 0.5, "--plot", "r.html")
    assert done.stdout.startswith("Label: column 'y' (the last; choose with --label); from x.")
    assert "left to itself, joint would not split" in done.stdout
    assert "keep one model" not in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert "How the published procedure splits" in page
    assert "true group" not in page


def test_the_client_is_no_label(practicum, tmp_path):
    rows = pd.DataFrame({"site": np.arange(80) % 4, "x": np.arange(80.0), "y": np.arange(80) % 2})
    rows.to_csv(tmp_path / "s.csv", index=False)
    use = ("use", "fedgwc", "run", "--data", "s.csv", "--client", "site", "--rounds", 8)
    assert "is the client and the label" in practicum(*use, "--label", "site", code=2).stderr
