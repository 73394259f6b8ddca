"""What a person meets at the command line: every answer says what it is an answer to."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.data.kinds import UserData
from practicum.data.risks import read_risks
from practicum.errors import InputError
from practicum.federated.dkw_certificate.command import app
from practicum.federated.dkw_certificate.study import CertificateStudy
from practicum.study import Scale
from practicum.study.compare import study_on

K = 60


def use(*args):
    """What the command prints; its files go to the working folder."""
    done = CliRunner().invoke(app, [str(a) for a in args])
    if done.exception:
        raise done.exception
    return " ".join(done.output.split())


def refused(match, *args, hint=""):
    with pytest.raises(InputError, match=match) as found:
        use(*args)
    assert hint in (found.value.hint or ""), found.value.hint
    return found.value


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hospitals():
    """Sixty hospitals, 100 to 399 samples each; ``save`` writes a changed copy."""
    rng = np.random.default_rng(0)
    n = rng.integers(100, 400, K)
    errors = rng.binomial(n, rng.beta(2, 8, K)) / n
    return pd.DataFrame({"client": [f"site {k}" for k in range(K)], "error": errors, "n": n})


def save(frame, name="hosp.csv"):
    frame.to_csv(name, index=False)
    return name


# --- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [{"error": "error"}, {"error": "loss"}])
def test_fractions_are_not_taken_for_percentages(hospitals, columns):
    with_n, without = hospitals.rename(columns=columns), hospitals.rename(columns=columns)
    name = next(iter(columns.values()))
    files = save(with_n), save(without.drop(columns="n"), "non.csv")
    for file in files:
        for command in (("certify", file, "--eps", 0.2), ("band", file), ("afford", file)):
            found = refused(f"{file}, column '{name}'.*no value above 1", *command, "--percent")
            assert "leave --percent out" in found.hint


def test_two_networks_in_different_units_are_refused(hospitals):
    percent = save(hospitals.assign(error=100 * hospitals.error), "pct.csv")
    refused("hosp.csv, column 'error'", "shift", save(hospitals), percent, "--percent")
    refused("pct.csv, column 'error'", "shift", save(hospitals), percent, hint="--percent")
    assert "risk = column 'error'" in use("shift", percent, percent, "--percent")


def test_cross_entropies_are_no_percentages(hospitals):
    file = save(hospitals.assign(loss=6 * hospitals.error).drop(columns="error"))
    options = ["--eps", 0.2, "--percent"]
    refused("column 'loss'.*no percentages", "certify", file, *options, hint="--unbounded")


# --- levels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [2, -0.1, "nan", "inf"])
def test_levels_that_are_no_risks_are_refused(hospitals, level):
    file = save(hospitals)
    for command in (("certify", file, "--eps", 0.2), ("band", file), ("afford", file)):
        refused(r"--level is", *command, "--level", level, hint="0 to 1")
    refused("--level is 30", "band", file, "--level", 30, hint="30 % is --level 0.3")


def test_levels_of_a_file_in_percent_are_percentages(hospitals):
    percent = save(hospitals.assign(error=100 * hospitals.error), "pct.csv")
    options = ["--level", 30, "--percent", "--losses", "bounded"]
    said = use("certify", percent, "--eps", 0.2, *options)
    assert "risk 0.3 or more" in said
    assert "30 % is risk 0.3" in said
    own = use("certify", save(hospitals), "--eps", 0.2, "--level", 0.3, "--losses", "bounded")
    assert said.split("risk 0.3 or more")[0].split()[-6:] == own.split("risk 0.3")[0].split()[-6:]
    assert "risk 0.3" in use("afford", percent, *options, "--share", 0.5)
    refused("--level is 130", "afford", percent, "--level", 130, "--percent", hint="0 to 100")


def test_levels_of_unbounded_losses_may_exceed_1(hospitals):
    file = save(hospitals.assign(loss=6 * hospitals.error).drop(columns="error"))
    assert "risk 2 or more" in use("certify", file, "--eps", 0.2, "--unbounded", "--level", 2)


# --- what was used is said -----------------------------------------------------------------------


def test_sample_sizes_that_are_not_used_are_named(hospitals):
    file = save(hospitals.assign(loss=6 * hospitals.error).drop(columns="error"))
    said = use("certify", file, "--eps", 0.2, "--unbounded", "--out", "c.json")
    assert "column 'n' is not used" in said
    written = json.loads(Path("c.json").read_text())
    assert written["certified"] is False
    assert "reported" in written["about"]
    use("certify", save(hospitals), "--eps", 0.2, "--out", "d.json")
    written = json.loads(Path("d.json").read_text())
    assert written["certified"] is True
    assert written["column"] == "error"


def test_certify_says_column_direction_and_kind(hospitals):
    said = use("certify", save(hospitals), "--eps", 0.2)
    assert "risk = column 'error'" in said
    assert "n = column 'n'" in said
    assert "--losses 01" in said
    file = save(hospitals.assign(accuracy=1 - hospitals.error).drop(columns="error"), "acc.csv")
    assert "risk = 1 - column 'accuracy'" in use("certify", file, "--eps", 0.2)
    both = save(hospitals.assign(accuracy=1 - hospitals.error), "both.csv")
    assert "not column 'accuracy'" in use("certify", both, "--eps", 0.2)
    losses = save(hospitals.rename(columns={"error": "loss"}), "loss.csv")
    assert "--losses bounded" in use("certify", losses, "--eps", 0.2)


def test_only_the_word_accuracy_is_inverted(hospitals):
    for name in ("inaccuracy", "accident_rate", "error rate"):
        file = save(hospitals.rename(columns={"error": name}))
        assert read_risks(file, column=name).risks == pytest.approx(hospitals.error)
    for name in ("acc", "test accuracy", "Accuracy (%)", "test_acc"):
        file = save(hospitals.rename(columns={"error": name}))
        assert read_risks(file, column=name).risks == pytest.approx(1 - hospitals.error)
    for name, hint in (("AUC", "1 - AUC"), ("error_accuracy", "rename"), ("f1 score", "1 - f1")):
        file = save(hospitals.rename(columns={"error": name}))
        refused(f"column '{name}'", "certify", file, "--column", name, "--eps", 0.2, hint=hint)


def test_the_band_is_about_what_is_reported(hospitals):
    said = use("band", save(hospitals), "--level", 0.2)
    assert "report risk 0.2 or more" in said
    assert "between" in said
    assert "column 'n' is not used" in said
    assert "clients have risk" not in said


def test_the_program_is_not_called_a_certainty(hospitals):
    said = use("certify", save(hospitals), "--eps", 0.2, "--method", "program", "--level", 0.3)
    assert said.index("not valid for many clients") < said.index("% of the clients")


def test_answers_are_sentences(hospitals):
    said = use("afford", save(hospitals), "--level", 0.05)
    assert "No shift can be afforded" in said
    assert "None" not in said
    said = use("certify", save(hospitals), "--eps", 0.2, "--out", "c.csv")
    assert "Written: c.csv" in said
    said = use("certify", save(hospitals[:1], "one.csv"), "--eps", 0.2)
    assert "1 client)" in said
    assert "1 clients" not in said


# --- cells and rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "found", "hint"),
    [
        ("n/a?", "'n/a?'", "how well they do"),
        ("-", "'-'", "how well they do"),
        ("inf", "inf", "how well they do"),
        ("12.5%", "'12.5%'", "write 12.5% as 0.125"),
    ],
)
def test_cells_that_are_no_numbers_are_shown(hospitals, cell, found, hint):
    frame = hospitals.astype({"error": object})
    frame.loc[7, "error"] = cell
    message = refused("no number for client site 7", "band", save(frame), hint=hint).message
    assert f"found {found}" in message
    if "%" in cell:  # in all cells
        frame["error"] = [f"{100 * e:.1f}%" for e in hospitals.error]
        refused("site 0", "band", save(frame), hint="remove the % signs, and say --percent")


def test_sizes_beyond_all_measure_are_refused_by_name(hospitals):
    frame = hospitals.astype({"n": float})
    frame.loc[7, "n"] = 1e300
    found = refused("hosp.csv, column 'n'.*site 7", "certify", save(frame), "--eps", 0.2)
    assert "1e+300" in found.message
    assert "1 or more" in found.hint


def test_rows_without_a_name_are_called_by_their_line(hospitals):
    frame = hospitals.rename(columns={"client": "Hospital name"})
    frame.loc[35, "error"] = np.nan
    refused("line 37", "band", save(frame))
    few = frame.fillna(0).assign(n=3, error=1 / 3)
    refused("line 2 ", "certify", save(few), "--eps", 0.2)


def test_clients_with_few_samples_are_named_in_words_of_the_command_line(hospitals):
    some = hospitals.copy()
    some.loc[:4, ["n", "error"]] = 3, 1 / 3
    found = refused("client site 0", "certify", save(some), "--eps", 0.2, hint="--few keep")
    assert "--few drop" in found.hint
    file = save(hospitals.assign(n=3, error=1 / 3))
    found = refused("client site 0", "certify", file, "--eps", 0.2, "--few", "drop")
    assert "drop" not in found.hint
    assert "hosp.csv" in found.message


def test_rounded_rates_are_understood_and_others_named(hospitals):
    rounded = save(hospitals.assign(error=hospitals.error.round(2)), "round.csv")
    said = use("certify", rounded, "--eps", 0.2)
    assert "rounded to 2 decimals" in said
    other = hospitals.assign(error=hospitals.error + 0.0012345678)
    found = refused("column 'error'.*client site", "certify", save(other), "--eps", 0.2)
    assert "rounded?" in found.message
    assert "--losses bounded" in found.hint


# --- before the work -----------------------------------------------------------------------------


def test_bad_names_and_numbers_are_refused_before_the_file_is_read(hospitals):
    file = "nowhere.csv"
    refused("--prob is 80", "band", file, "--prob", 80)
    for command in (("certify", file, "--eps", 0.2), ("band", file)):
        refused("x.xls", *command, "--out", "x.xls")
    for command in (("certify", file, "--eps", 0.2), ("afford", file), ("simulate",)):
        refused("x.gif", *command, "--plot", "x.gif")


def test_wasserstein_names_the_options(hospitals):
    options = ["certify", save(hospitals), "--eps", 0.2]
    found = refused("wasserstein", *options, "--divergence", "wasserstein")
    assert "--lipschitz" in found.hint
    assert "--curves" in found.hint
    refused("--lipschitz", *options, "--lipschitz", 1, hint="--divergence wasserstein")


def test_an_infinite_radius_has_no_silly_hint(hospitals):
    found = refused("^--eps is inf", "certify", save(hospitals), "--eps", "inf")
    assert "did you mean" not in (found.hint or "")
    refused("^--delta is 5", "certify", save(hospitals), "--eps", 0.2, "--delta", 5, hint="--delta")


def test_bins_are_capped(hospitals):
    file = save(hospitals)
    refused("bins is 1000000000", "shift", file, file, "--bins", 1_000_000_000, hint="at most")


# --- compare -------------------------------------------------------------------------------------


def test_a_column_that_looks_like_risks_is_not_passed_over(hospitals):
    names = {"client": "Hospital name", "error": "error rate (test)", "n": "patients seen"}
    source = UserData.of([save(hospitals.rename(columns=names))])
    with pytest.raises(InputError, match="'error rate") as found:
        study_on(CertificateStudy, source, {})
    assert "-o column=" in found.value.hint
    assert "-o target=" in found.value.hint
    study = study_on(
        CertificateStudy, source, {"column": "error rate (test)", "n_column": "patients seen"}
    )
    assert not study.records
    with warnings.catch_warnings(record=True):
        assert study_on(CertificateStudy, source, {"target": "patients seen"}).records


def test_records_that_become_clients_are_announced(hospitals):
    source = UserData.of([save(hospitals.rename(columns={"error": "load", "n": "x"}))])
    with pytest.warns(UserWarning, match="logistic regression for 'x'.*-o column="):
        study = study_on(CertificateStudy, source, {})
    trial = next(iter(study.trials(Scale("smoke", 1))))
    assert "logistic regression for 'x'" in str(trial["network"])
    source = UserData.of([save(hospitals)])
    trial = next(iter(study_on(CertificateStudy, source, {}).trials(Scale("smoke", 1))))
    assert "column 'error'" in str(trial["network"])


def test_what_is_printed_promises_no_more_than_what_is_certified(hospitals):
    """Rounded to the nearest, a bound of 36.64 % would be printed as 36.6 %."""
    said = use("certify", save(hospitals), "--eps", 0.2, "--level", 0.3, "--out", "c.json")
    bound = json.loads(Path("c.json").read_text())
    printed = float(said.split("at most ")[1].split(" %")[0])
    assert 0 <= printed / 100 - bound["share_at_or_above"]["0.3"] < 0.001
    printed = float(said.split("the mean risk is at most ")[1].split()[0])
    assert 0 <= printed - bound["mean_upper"] < 0.001


def test_levels_of_unbounded_losses_are_those_that_were_seen():
    losses = np.random.default_rng(0).gamma(2.0, 1.0, 200)
    pd.DataFrame({"loss": losses}).to_csv("loss.csv", index=False)
    said = use("certify", "loss.csv", "--eps", 0.2, "--unbounded")
    half = float(f"{np.median(losses):.2g}")
    assert f"have risk {half:g} or more" in said
    assert "at most 100 %" not in said
    assert "risk -2 or more" in use(
        "certify", "loss.csv", "--eps", 0.2, "--unbounded", "--level=-2"
    )
