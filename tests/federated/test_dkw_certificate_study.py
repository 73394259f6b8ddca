"""The study's parts, the simulated networks, the command line."""

import json
import struct

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.federated.dkw_certificate import Fleet, beta_fleet, image_fleet, record_fleet
from practicum.federated.dkw_certificate.command import app
from practicum.federated.dkw_certificate.fleets import cifar10
from practicum.federated.dkw_certificate.study import (
    CertificateStudy,
    against_truth,
    upper_bound,
)
from practicum.study import Results, Scale
from practicum.study.compare import study_on
from practicum.study.spec import Outcome


@pytest.fixture
def risks_csv(tmp_path):
    rng = np.random.default_rng(0)
    n = rng.integers(100, 400, 120)
    frame = pd.DataFrame(
        {
            "client": [f"site {k}" for k in range(120)],
            "error": rng.binomial(n, rng.beta(2, 8, 120)) / n,
            "n": n,
        }
    )
    path = tmp_path / "risks.csv"
    frame.to_csv(path, index=False)
    return path


# --- networks ------------------------------------------------------------------------------------


def test_the_radius_of_the_two_kinds():
    fleet = Fleet("", (np.array([0.1]), np.array([0.4])), (0.8, 0.2), (0.5, 0.5))
    assert fleet.radius("chi2") == pytest.approx(0.5625)
    assert fleet.radius("kl") == pytest.approx(0.2231, abs=5e-5)


def test_draws_follow_the_law():
    fleet = Fleet("", (np.array([0.1, 0.2]), np.array([0.8])), (0.75, 0.25), (0.5, 0.5))
    rng = np.random.default_rng(0)
    risks, none = fleet.draw(None, n_clients=40_000, rng=rng)
    assert none is None
    assert set(risks) == {0.1, 0.2, 0.8}
    assert (risks == 0.8).mean() == pytest.approx(0.25, abs=0.01)
    assert (risks == 0.1).mean() == pytest.approx(0.375, abs=0.01)
    errors, sizes = fleet.draw(50, n_clients=40_000, rng=rng)
    assert errors.mean() == pytest.approx(0.75 * 0.15 + 0.25 * 0.8, abs=0.01)
    assert (sizes == 50).all()


def test_the_worst_tail_contains_the_target():
    fleet = image_fleet("digits", model="linear", n_clients=40)
    levels = np.linspace(0, 1, 51)
    for divergence in ("chi2", "kl"):
        worst = fleet.worst_tail(levels, fleet.radius(divergence), divergence)
        assert (worst >= fleet.target_tail(levels) - 1e-9).all()


def test_severe_clients_are_served_worse_by_every_model():
    for model in ("linear", "mlp"):
        mild, severe = image_fleet("digits", model=model, n_clients=30).risks
        assert mild.mean() < 0.3
        assert severe.mean() > mild.mean() + 0.05


@pytest.mark.slow
def test_fashion_mnist_as_on_the_card():
    fleet = image_fleet("fashion-mnist", n_clients=100)
    assert fleet.risks[0].mean() < fleet.risks[1].mean() < 0.6


def test_the_paper_grid_runs_on_a_tiny_copy_of_cifar(tmp_path, monkeypatch):
    """The CNN, the binary reader and one of the paper's trials, on 240 random images."""
    pytest.importorskip("torch")
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        rows = rng.integers(0, 256, (40, 3073), dtype=np.uint8)
        rows[:, 0] %= 10
        (folder / name).write_bytes(rows.tobytes())
    images = cifar10(tmp_path)
    assert images.images.shape == (240, 32, 32, 3)
    assert images.images.max() <= 1
    monkeypatch.setenv("PRACTICUM_DATA", str(tmp_path))
    study = CertificateStudy()
    paper = next(t for t in study.trials(Scale("paper", 1)) if t.dataset == "cifar10")
    assert (paper["clients"], paper["n"], paper["members"]) == (500, 1000, 1000)
    tiny = {**dict(paper.params), "members": 2, "runs": 2}
    done = study.run(study.trial("cifar10", paper.arm, 0, **tiny))
    assert 0 <= done["violated"] <= 1


def test_a_missing_or_cut_copy_of_cifar_is_explained(tmp_path):
    with pytest.raises(InputError, match=r"data_batch_1\.bin.*cifar-10-binary"):
        cifar10(tmp_path)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(struct.pack("10B", *range(10)))
    with pytest.raises(InputError, match="10 bytes; a multiple of 3073"):
        cifar10(tmp_path)


def test_records_become_clients():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    frame["y"] = frame["a"] + 0.1 * rng.standard_normal(200)  # cut at its median
    mild, severe = record_fleet(frame, n_clients=50).risks
    assert mild.mean() < 0.2 < 0.5
    assert severe.mean() > mild.mean()
    for bad, match in (
        (frame[:10], "10 records; at least 40"),
        (frame[["y"]], "no numeric column besides 'y'"),
        (frame.assign(y="one"), "one value only"),
    ):
        with pytest.raises(InputError, match=match):
            record_fleet(bad, "y")
    with pytest.raises(InputError, match="no column 'z'"):
        record_fleet(frame, "z")


def test_models_and_images_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match="no image set 'imagenet'"):
        image_fleet("imagenet")
    with pytest.raises(InputError, match="a=-1"):
        beta_fleet(-1.0)


# --- the study -----------------------------------------------------------------------------------


def test_the_score_is_the_interval_score():
    upper, truth = np.array([0.5, 0.1]), np.array([0.4, 0.2])
    found = against_truth(upper, truth, 0.05)
    assert found["score"] == pytest.approx((0.1 + 0.1 / 0.05) / 2)
    assert found["gap"] == pytest.approx(0)
    assert found["violated"] == 1


@pytest.mark.parametrize("arm", CertificateStudy.arms)
def test_every_arm_is_a_nonincreasing_tail(arm):
    errors, sizes = beta_fleet().draw(300, n_clients=100, rng=np.random.default_rng(0))
    for divergence in ("chi2", "kl"):
        upper = upper_bound(arm, errors, sizes, 0.2, divergence)
        assert upper.shape == (1001,)
        assert (np.diff(upper) <= 1e-12).all()
        assert ((upper >= 0) & (upper <= 1)).all()


def test_the_bootstrap_arm_is_the_bootstrap():
    rng = np.random.default_rng(0)
    errors = rng.beta(2, 6, 60)
    level = np.array([0.3])
    resampled = rng.choice(errors, (20_000, 60)) >= level
    expected = np.quantile(resampled.mean(1), 0.95)
    found = upper_bound("bootstrap", errors, None, 0.0, "chi2", levels=level)[0]
    assert found == pytest.approx(expected, abs=1 / 60 + 1e-9)


def test_arms_are_paired():
    study = CertificateStudy()
    grid = [t for t in study.trials(Scale("smoke", 1)) if t.dataset == "beta"]
    one = next(t for t in grid if t.arm == "exact")
    other = next(t for t in grid if t.arm == "vanilla" and t.params == one.params)
    draws = [beta_fleet().draw(100, n_clients=5, rng=t.rng())[0] for t in (one, other)]
    np.testing.assert_array_equal(*draws)


def results_where(exact, program, **params):
    """Results with given violation rates, as a claim sees them."""
    study, outcomes = CertificateStudy(), []
    for arm, rate in (("exact", exact), ("union", exact), ("program", program)):
        for seed in range(10):
            trial = study.trial("beta", arm, seed, **params)
            outcomes.append(Outcome(trial, {"violated": rate, "gap": 0.1}))
    return Results(outcomes, Scale("cpu"))


def test_the_ball_claims_can_fail():
    params = {"clients": 50, "n": 0, "divergence": "kl", "eps": 0.2, "runs": 400}
    claims = CertificateStudy.claims
    good, bad = results_where(0.02, 0.5, **params), results_where(0.2, 0.0, **params)
    assert claims["C2a"](good).status == "reproduced"
    assert claims["C2b"](good).status == "not reproduced"
    assert claims["C2a"](bad).status == "not reproduced"
    assert claims["C2b"](bad).status == "reproduced"


def test_compare_reads_risks_and_options(risks_csv):
    study = study_on(CertificateStudy, UserData.of([risks_csv]), {"eps": "0.1", "divergence": "kl"})
    assert not study.records
    assert (study.eps, study.divergence) == (0.1, "kl")
    trial = next(iter(study.trials(Scale("smoke", 1))))
    done = study.run(trial)
    assert done["violated"] == 0
    with pytest.raises(InputError, match="eps"):
        study_on(CertificateStudy, UserData.of([risks_csv]), {"eps": "-1"})
    with pytest.raises(InputError, match="no column 'acc'"):
        study_on(CertificateStudy, UserData.of([risks_csv]), {"column": "acc"})
    few = risks_csv.with_name("few.csv")
    few.write_text("error\n0.1\n0.2\n")
    with pytest.raises(InputError, match=r"few\.csv: 2 clients; at least 5"):
        study_on(CertificateStudy, UserData.of([few]), {})


def test_wasserstein_is_compared_too(risks_csv):
    study = study_on(
        CertificateStudy, UserData.of([risks_csv]), {"eps": "0.05", "divergence": "wasserstein"}
    )
    arms = {t.arm for t in study.trials(Scale("smoke", 1))}
    for trial in study.trials(Scale("smoke", 1)):
        study.run(trial)
    assert "program" not in arms


# --- the command line ----------------------------------------------------------------------------


def use(*args):
    """What the command prints; its files go to the working folder."""
    done = CliRunner().invoke(app, [str(a) for a in args])
    if done.exception:
        raise done.exception
    return done.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_certify_writes_a_certificate_and_a_picture(practicum, risks_csv, tmp_path):
    options = ["--eps", 0.2, "--divergence", "kl", "--level", 0.3]
    files = ["--plot", "cert.html", "--out", "cert.parquet"]
    out = practicum("use", "dkw-certificate", "certify", risks_csv, *options, *files).stdout
    assert "With confidence 95 %, in every network within KL divergence 0.2" in out
    assert "% of the clients have risk 0.3 or more" in out
    assert "independent draws" in out
    frame = pd.read_parquet(tmp_path / "cert.parquet")
    assert list(frame) == ["level", "upper", "source", "nominal"]
    page = (tmp_path / "cert.html").read_text()
    assert "target, certified" in page
    assert "Plotly" in page


def test_the_other_commands_say_what_they_found(risks_csv, folder):
    use("certify", risks_csv, "--eps", 0.2, "--out", "cert.json")
    assert json.loads((folder / "cert.json").read_text())["clients"] == 120
    assert "quantile" in use("band", risks_csv, "--prob", 0.8, "--out", "band.csv")
    assert "lower" in pd.read_csv(folder / "band.csv")
    found = use("afford", risks_csv, "--level", 0.5, "--share", 0.4, "--plot", "a.html")
    assert "In every network within chi2" in found
    assert "afford" in (folder / "a.html").read_text()
    assert "cannot be certified" in use("afford", risks_csv, "--level", 0.05)
    assert "chi2 about 0 " in use("shift", risks_csv, risks_csv)
    table = use("simulate", "--clients", 100, "--samples", 100, "--plot", "s.html")
    assert "target, certified" in table
    assert (folder / "s.html").stat().st_size > 1_000_000


def test_notes_are_plain_lines(folder):
    (folder / "few.csv").write_text("error\n" + "0.1\n0.2\n" * 5)
    out = use("certify", "few.csv", "--eps", 0.2)
    assert "Note: half-width 0.43 at K=10" in out
    assert "the risks are taken as exact" in out


def test_curves_from_a_file(risks_csv, folder):
    frame = pd.read_csv(risks_csv)
    rows = [
        (client, rho, min(1, error + rho))
        for client, error in zip(frame.client, frame.error, strict=True)
        for rho in (0.0, 0.1)
    ]
    table = pd.DataFrame(rows, columns=["client", "rho", "value"])
    table.sample(frac=1, random_state=0).to_csv("c.csv", index=False)
    options = ["--eps", 0.02, "--divergence", "wasserstein", "--curves", "c.csv"]
    assert "As an estimate, not a certificate" in use("certify", risks_csv, *options)
    table[table.client != "site 7"].to_csv("c.csv", index=False)
    with pytest.raises(InputError, match="no curve for client site 7"):
        use("certify", risks_csv, *options)


def test_bad_input_of_the_command_line_is_refused(risks_csv, folder):
    (folder / "percent.csv").write_text("accuracy\n91\n82\n")
    for args, word in (
        (("percent.csv", "--eps", 0.2), "--percent"),
        ((risks_csv, "--eps", 20), "not a percentage"),
        ((risks_csv, "--eps", 0.2, "--out", "x.xls"), r"x\.xls"),
        ((risks_csv, "--eps", 0.2, "--plot", "x.gif"), r"x\.gif"),
    ):
        with pytest.raises(InputError, match=word):
            use("certify", *args)
