"""Every line of "Bad input" on the paper's card: refused or warned about, in words that help."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from practicum.data.risks import read_curves, read_risks
from practicum.errors import InputError
from practicum.federated.dkw_certificate import (
    RobustCurves,
    affordable_shift,
    certify,
    dkw_band,
    dkw_half_width,
    dkw_quantile,
    estimate_shift,
    local_robust_curve,
    program_constants,
    risk_upper_limit,
    tail_upper,
    transport_tail,
    worst_case_mean,
    worst_case_tail,
)

RISKS = np.linspace(0.0, 0.5, 60)


def refused(match, call, hint=""):
    with pytest.raises(InputError, match=match) as found:
        call()
    assert hint in (found.value.hint or ""), found.value.hint
    return found.value


# --- numbers -------------------------------------------------------------------------------------


def test_percentages_are_refused_and_the_switch_is_named():
    refused("risks reach 73.4", lambda: certify(RISKS * 146.8, eps=0.2), "--percent")


def test_unbounded_losses_are_refused_unless_the_tail_alone_is_asked_for():
    losses = np.append(RISKS, 3.2)
    refused("risks reach 3.2", lambda: certify(losses, eps=0.2), "unbounded=True")
    refused(
        "n is given for losses without an upper bound",
        lambda: certify(losses, 100, eps=0.2, unbounded=True),
        "leave n out",
    )
    assert certify(losses, eps=0.2, unbounded=True).mean_upper == np.inf


def test_few_clients_are_warned_about_with_the_half_width():
    with pytest.warns(UserWarning, match=r"half-width 0\.31 at K=19; no share .* 0\.25"):
        certify(RISKS[:19], eps=0.2)
    with pytest.warns(UserWarning, match=r"half-width 0\.36 at K=14"):
        dkw_band(RISKS[:14])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certify(RISKS[:50], eps=0.2)
    assert round(dkw_half_width(20), 2) == 0.30


def test_missing_numbers_are_listed():
    risks = RISKS.copy()
    risks[[3, 7]] = np.nan
    refused(r"2 of 60 clients have no number \(clients 3, 7\)", lambda: certify(risks, eps=0.2))


def test_negative_risks_and_wrong_shapes_are_refused():
    refused("reach down to -0.1", lambda: certify(RISKS - 0.1, eps=0.2))
    refused("one number a client", lambda: certify(np.empty(0), eps=0.2))
    refused("n has shape", lambda: unchecked(certify)(RISKS, np.full(3, 10), eps=0.2))
    refused("whole number of samples", lambda: certify(RISKS, np.full(60, 0), eps=0.2))


@pytest.mark.parametrize("eps", [-0.1, float("nan")])
def test_a_radius_below_zero_is_refused(eps):
    refused("eps is", lambda: certify(RISKS, eps=eps))
    refused("eps is", lambda: worst_case_tail(0.3, eps))
    refused("eps is", lambda: worst_case_mean(RISKS, eps=eps))
    refused("eps is", lambda: program_constants(eps, 100))


def test_a_radius_in_percent_is_refused():
    refused(
        "eps is 20; a radius, not a percentage",
        lambda: certify(RISKS, eps=20.0),
        "did you mean 0.2",
    )


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.2, 5.0])
def test_delta_outside_0_1_is_refused(delta):
    hint = "5 % is delta=0.05" if delta >= 1 else "0.05 is usual"
    refused("delta is", lambda: certify(RISKS, eps=0.2, delta=delta), hint)
    refused("delta is", lambda: dkw_half_width(10, delta))
    refused("delta is", lambda: affordable_shift(RISKS, level=0.3, share=0.1, delta=delta))


def test_unknown_names_are_refused_with_the_ones_there_are():
    # at run time without type checks, as a user would meet them
    refused("divergence 'tv'", lambda: unchecked(certify)(RISKS, eps=0.2, divergence="tv"), "chi2")
    refused("no method 'best'", lambda: unchecked(certify)(RISKS, eps=0.2, method="best"), "exact")
    refused("no band 'wide'", lambda: unchecked(tail_upper)(np.array([1]), 10, band="wide"), "dkw")
    refused("no losses 'huber'", lambda: unchecked(risk_upper_limit)(RISKS, None, 0.1, "huber"))
    refused("no few='hide'", lambda: unchecked(certify)(RISKS, eps=0.2, few="hide"), "refuse")
    refused("no side 'both'", lambda: unchecked(dkw_band)(RISKS, side="both"), "two")


def unchecked(function):
    """The function below the type checks of the test suite."""
    return getattr(function, "__wrapped__", function)


def test_clients_with_too_few_samples_are_named_and_dropped_or_kept_on_request():
    sizes = np.full(60, 200)
    sizes[[4, 9]] = 2
    risks = np.round(RISKS * 200) / 200
    found = refused(
        r"2 of 60 clients have too few samples to say anything: client 4 \(n=2\), client 9 \(n=2\)",
        lambda: certify(risks, sizes, eps=0.2),
        'few="keep"',
    )
    assert "valid only if sample size and risk" in found.hint
    assert certify(risks, sizes, eps=0.2, few="drop").K == 58
    assert certify(risks, sizes, eps=0.2, few="keep").K == 60
    refused("60 of 60", lambda: certify(risks, np.full(60, 2), eps=0.2, few="drop"))


def test_means_of_other_losses_are_no_error_rates():
    refused(
        "is no share of 10 samples",
        lambda: certify(RISKS, 10, eps=0.2, losses="01"),
        'losses="bounded"',
    )


def test_arguments_that_do_not_belong_together_are_refused():
    refused("belong to divergence='wasserstein'", lambda: certify(RISKS, eps=0.2, lipschitz=1.0))
    refused(
        "needs either lipschitz or curves",
        lambda: certify(RISKS, eps=0.2, divergence="wasserstein"),
    )
    refused(
        "published program is for f-divergences",
        lambda: certify(RISKS, eps=0.2, divergence="wasserstein", method="program", lipschitz=1.0),
    )
    refused(
        "lipschitz is -1",
        lambda: certify(RISKS, eps=0.2, divergence="wasserstein", lipschitz=-1.0),
    )
    refused("ascending", lambda: certify(RISKS, eps=0.2, levels=[0.3, 0.1]))


def test_shares_and_quantiles_outside_0_1_are_refused():
    refused("share is 10", lambda: affordable_shift(RISKS, level=0.3, share=10.0))
    refused("prob is 95", lambda: dkw_quantile(RISKS, 95.0))
    refused("prob is 2", lambda: certify(RISKS, eps=0.2).quantile(2.0))
    refused("p holds", lambda: worst_case_tail([1.2], 0.2))
    refused("budget is -1", lambda: transport_tail(RISKS, [0.3], -1.0))
    refused("weights", lambda: worst_case_mean([0.1, 0.2], [0.0, 0.0], eps=0.1))
    refused("two lists of one length", lambda: worst_case_mean([0.1, 0.2], [1.0], eps=0.1))
    refused("11 to 11 of 10", lambda: tail_upper(np.array([11]), 10))


def test_diagnostics_refuse_empty_networks():
    refused("target must be", lambda: estimate_shift(RISKS, []))
    refused("bins is 0", lambda: estimate_shift(RISKS, RISKS, bins=0))


# --- what cannot be computed is documented -------------------------------------------------------


def test_the_assumptions_are_stated():
    text = " ".join(certify.__doc__.split())
    assert "Shards of one data set are no independent draws" in text
    assert "must not have been chosen with the target's risks" in text
    assert "must not be used to certify that same target" in " ".join(
        estimate_shift.__doc__.split()
    )


# --- robust curves -------------------------------------------------------------------------------


def test_curves_that_fall_or_start_below_the_risk_are_refused_by_client():
    rhos = [0.0, 0.1, 0.2]
    refused(
        "decreases in rho for client b",
        lambda: RobustCurves.of(rhos, [[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]], ["a", "b"]),
    )
    refused(r"leaves \[0, 1\] for client 0", lambda: RobustCurves.of(rhos, [[0.1, 0.2, 1.3]]))
    refused("ascend from 0", lambda: RobustCurves.of([0.1, 0.2], [[0.1, 0.2]]))
    refused("one row a client", lambda: RobustCurves.of([0.0, 0.2], [[0.1, 0.2, 0.3]]))
    curves = RobustCurves.of(rhos, np.tile([0.1, 0.2, 0.3], (60, 1)))
    refused(
        "robust curve of client 12, 13, .* starts below its nominal risk",
        lambda: certify(RISKS, eps=0.1, divergence="wasserstein", curves=curves),
    )
    refused(
        "60 robust curves for 59 clients",
        lambda: certify(RISKS[1:], eps=0.1, divergence="wasserstein", curves=curves),
    )


def test_local_queries_refuse_what_does_not_fit():
    from sklearn.linear_model import LogisticRegression

    X, y = np.eye(4), np.array([0, 0, 1, 1])
    model, query = LogisticRegression().fit(X, y), unchecked(local_robust_curve)
    refused("budgets of at least 0", lambda: local_robust_curve(model, X, y, [-1.0], "01"))
    refused("4 inputs and 3 labels", lambda: query(model, X, y[:3], [0.0], "01"))
    refused("no classes of the model", lambda: local_robust_curve(model, X, y + 5, [0.0], "01"))
    refused(r"\(n, 4\) expected", lambda: local_robust_curve(model, X[:, :2], y, [0.0], "01"))
    refused("model is a dict", lambda: local_robust_curve({}, X, y, [0.0], "01"))


# --- files ---------------------------------------------------------------------------------------


def csv(tmp_path, text, name="risks.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "match", "hint"),
    [
        ("client,accuracy\na,91.5\nb,80\n", "values up to 91.5, as for client a", "--percent"),
        ("client,loss\na,0.4\nb,2.7\n", "values up to 2.7, as for client b", "--unbounded"),
        ("client,error\na,0.1\nb,\nc,x\n", "no number for client b, client c", "how well they do"),
        ("client,error\na,0.1\na,0.2\nb,0.1\nb,0.1\n", "occur more than once: a, b", "one row"),
        ("client,error\na,-0.1\n", "a negative number for client a", "0 to 1"),
        ("client,error,n\na,0.1,0\n", "no whole number of samples for client a", "1 or more"),
        ("client,auc\na,0.1\n", "no column error, loss or accuracy", "--column"),
        ("client,error\n", "holds no rows", "row"),
    ],
)
def test_files_with_bad_risks_are_refused(tmp_path, text, match, hint):
    found = refused(match, lambda: read_risks(csv(tmp_path, text)), hint)
    assert "risks.csv" in found.message


def test_named_columns_that_are_not_there_are_refused(tmp_path):
    path = csv(tmp_path, "client,error\na,0.1\n")
    refused("no column 'err'", lambda: read_risks(path, column="err"), "client, error")
    refused("no column 'size'", lambda: read_risks(path, n_column="size"))


def test_more_than_ten_clients_are_counted(tmp_path):
    text = "client,error\n" + "".join(f"c{i},\n" for i in range(12)) + "z,0.1\n"
    refused("client c9 and 2 more", lambda: read_risks(csv(tmp_path, text)))


def test_risks_are_read_from_every_format(tmp_path):
    frame = pd.DataFrame({"client": ["a", "b"], "error": [0.1, 0.2], "n": [100, 50]})
    frame.to_csv(tmp_path / "r.csv", index=False)
    frame.to_csv(tmp_path / "r.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "r.parquet")
    frame.to_json(tmp_path / "r.jsonl", orient="records", lines=True)
    (tmp_path / "r.json").write_text(json.dumps(frame.to_dict("records")))
    for name in ("r.csv", "r.tsv", "r.parquet", "r.jsonl", "r.json"):
        found = read_risks(tmp_path / name)
        assert found.risks.tolist() == [0.1, 0.2], name
        assert found.n.tolist() == [100, 50]
        assert found.clients == ("a", "b")
        assert found.is_error_rate
    np.save(tmp_path / "r.npy", np.array([0.1, 0.2]))
    bare = read_risks(tmp_path / "r.npy")
    assert bare.clients == ("row 1", "row 2")
    assert bare.n is None
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    refused("o.npy", lambda: read_risks(tmp_path / "o.npy"))
    refused("no such file", lambda: read_risks(tmp_path / "no.json"))
    refused("cannot be read", lambda: read_risks(csv(tmp_path, "{", "x.json")))


def test_curves_are_read_and_checked(tmp_path):
    text = "client,rho,value\na,0,0.1\na,0.5,0.3\nb,0,0.2\nb,0.5,0.4\n"
    rhos, values, clients = read_curves(csv(tmp_path, text))
    assert rhos.tolist() == [0, 0.5]
    assert values.tolist() == [[0.1, 0.3], [0.2, 0.4]]
    assert clients == ("a", "b")
    refused("no column value", lambda: read_curves(csv(tmp_path, "client,rho\na,0\n")))
    refused("has rho = 0 twice", lambda: read_curves(csv(tmp_path, text + "a,0,0.2\n")))
    refused("missing for client b", lambda: read_curves(csv(tmp_path, text[: text.rindex("b,")])))
