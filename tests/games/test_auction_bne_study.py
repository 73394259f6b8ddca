"""The study: grid, cells, and verdicts that can go either way."""

import warnings

import numpy as np
import pandas as pd
import pytest

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.games.auction_bne import study as module
from practicum.games.auction_bne.study import ApproximateBestResponse, steps_until
from practicum.study import Outcome, Results, Scale
from practicum.study.spec import split_metrics

STUDY = ApproximateBestResponse()


def outcomes(errors, dataset="first-price", n=10, steps=20, **more):
    """Outcomes with given error curves: arm -> one curve, for five seeds that differ a little."""
    made = []
    for arm, curve in errors.items():
        for seed in range(5):
            curve_s = np.asarray(curve) * (1 + 0.01 * seed)
            trial = STUDY.trial(dataset, arm, seed, n=n, steps=steps)
            metrics = {
                "error": curve_s[-1],
                "errors": curve_s,
                "steps_to": 10 * steps_until(curve_s, module.REACHED),
                **more,
            }
            made.append(Outcome(trial, *split_metrics(trial, metrics)))
    return made


def judge(claim, made):
    return STUDY.claims[claim](Results(made, Scale("cpu")))


@pytest.mark.parametrize(("claim", "dataset"), [("C1", "first-price"), ("C2", "second-price")])
def test_the_ratio_decides(claim, dataset):
    fast = {"abr-published": [0.5, 0.01, 0.01], "ug": [0.5, 0.09, 0.09]}
    slow = {"abr-published": [0.5, 0.08, 0.08], "ug": [0.5, 0.09, 0.09]}
    assert judge(claim, outcomes(fast, dataset)).status == "reproduced"
    assert judge(claim, outcomes(slow, dataset)).status == "not reproduced"
    assert judge(claim, []).status == "needs more"


def test_the_measured_ratio_is_a_ratio():
    fast = {"abr-published": [0.5, 0.01, 0.01], "ug": [0.5, 0.08, 0.09]}
    verdict = judge("C1", outcomes(fast))
    assert verdict.estimate == pytest.approx(8)
    assert verdict.threshold == "at least 3"


def test_growth_of_steps():
    quick, late = [0.5, 0.01, 0.01, 0.01, 0.01], [0.5] * 3 + [0.01] * 2
    never_there = [0.5] * 30
    few = {"abr-sgd": quick, "abr-published": quick, "ug": quick}
    many = {"abr-sgd": quick, "abr-published": quick, "ug": never_there}
    switch = {**many, "abr-published": late}
    assert judge("C3", outcomes(few, n=2) + outcomes(many, n=20)).status == "reproduced"
    assert judge("C3", outcomes(few, n=2) + outcomes(switch, n=20)).status == "partly"
    assert judge("C3", outcomes(few, n=2)).status == "needs more"


def test_floor_and_asymmetric_pair():
    assert judge("C8", outcomes({"abr": [0.5, 0.001]})).status == "reproduced"
    assert judge("C8", outcomes({"abr": [0.5, 0.01]})).status == "not reproduced"
    for error, status in ((0.01, "reproduced"), (0.1, "not reproduced")):
        made = outcomes({"abr-published": [0.5, error]}, "asymmetric", n=2)
        for o in made:
            o.metrics["error_type_0"] = error * (1 + 0.01 * o.trial.seed)
            o.metrics["error_type_1"] = error * (1 + 0.01 * o.trial.seed)
        assert judge("C5", made).status == status


def test_steps_until_counts_a_relapse():
    assert steps_until(np.array([1.0, 0.1, 1.0, 0.1]), 0.5) == 3
    assert steps_until(np.array([1.0, 1.0]), 0.5) == 2
    assert steps_until(np.array([np.nan, 0.1]), 0.5) == 1


def test_without_the_prices_package_the_synthetic_part_remains(monkeypatch):
    monkeypatch.setattr(module, "has_mariokart", lambda: False)
    datasets = {t.dataset for t in STUDY.trials(Scale("cpu"))}
    assert datasets == {"first-price", "second-price", "risk-averse", "beta", "asymmetric"}


@pytest.mark.parametrize("arm", ["abr", "ug", "sm", "formula", "fictitious", "sm-abr", "ug-adam"])
def test_every_arm_runs_at_paper_size_with_few_steps(arm):
    """50 bidders, a few steps: the paper's grid in small."""
    more = {"temperature": 0.02, "samples": 100} if arm.startswith("sm") else {}
    trial = STUDY.trial("first-price", arm, 0, n=50, steps=5, **more)
    metrics = STUDY.run(trial)
    assert np.isfinite(metrics["error"])
    assert metrics["gain"] >= 0


def test_paired_arms_start_from_the_same_weights():
    runs = [
        STUDY.run(STUDY.trial("first-price", arm, 3, n=5, steps=10))["errors"][0]
        for arm in ("ug", "abr-published")
    ]
    assert runs[0] == runs[1]


def test_on_a_persons_values(tmp_path):
    path = tmp_path / "v.csv"
    draws = np.random.default_rng(0).gamma(5, 10, (200, 2))
    pd.DataFrame(draws, columns=["a", "b"]).to_csv(path, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ApproximateBestResponse.on(UserData.of([path]), bidders=4, format="all_pay")
    trial = next(iter(made.trials(Scale("smoke"))))
    assert trial["n"] == 4
    assert np.isfinite(made.run(made.trial("v", "formula", 0, n=4, steps=5))["gain"])
    with pytest.raises(InputError, match="all-pay auction is not supported"):
        ApproximateBestResponse.on(
            UserData.of([path]), column="a", format="all_pay", risk_aversion=0.5
        )
    averse = ApproximateBestResponse.on(
        UserData.of([path]), column="a", bidders=3, risk_aversion=0.5
    )
    for arm in ("abr", "sm", "fictitious", "formula"):  # measured against the averse equilibrium
        done = averse.run(averse.trial("v", arm, 0, n=3, steps=400 if arm == "abr" else 20))
        assert done["error"] < {"abr": 0.02, "fictitious": 0.02, "formula": 1e-9}.get(arm, 1)
    with pytest.raises(InputError, match="n_bidders is 1"):
        ApproximateBestResponse.on(UserData.of([path]), column="b", bidders=1)
    with pytest.raises(InputError, match=r"v\.csv has no column 'c'"):
        ApproximateBestResponse.on(UserData.of([path]), column="c")
