"""The claims' functions on results made to order: each can be reproduced and can fail."""

import numpy as np
import pytest

from practicum.generative.model_collapse import gaussian_curve
from practicum.generative.model_collapse.study import LOOP_ARMS, ModelCollapse
from practicum.study import Outcome, Results, Scale

STUDY = ModelCollapse()


def outcome(dataset, arm, seed, scalars, curves, **params):
    return Outcome(STUDY.trial(dataset, arm, seed, **params), scalars, curves)


def gaussian(swap=()):
    """Results whose trace ratios follow theory, with the names of two arms swapped."""
    made = []
    names = dict(zip(swap, reversed(swap), strict=True))
    for n in (10, 32, 100):
        for d in (1, 10):
            for arm in LOOP_ARMS:
                mean = gaussian_curve(n, 100, names.get(arm, arm))["trace_ratio"]
                for seed in range(100):
                    noise = np.random.default_rng([seed, n, d]).normal(0, 0.02)
                    trace = mean * np.exp(noise - 0.0002)
                    scalars = {
                        "final_trace": trace[-1],
                        "late_change": np.log(trace[-1] / trace[49]) + noise / 10,
                    }
                    curves = {"trace_ratio": trace, "loss": trace}
                    made.append(outcome("gaussian", arm, seed, scalars, curves, n=n, d=d, T=100))
    return Results(made, Scale("cpu"))


@pytest.mark.parametrize(
    ("claim", "swap"),
    [
        ("C1", ("replace", "accumulate")),
        ("C2", ("accumulate", "replace")),
        ("C3", ("accumulate-subsample", "accumulate")),
    ],
)
def test_gaussian_claims_hold_in_theory_and_fail_when_arms_are_swapped(claim, swap):
    assert STUDY.claims[claim](gaussian()).status == "reproduced"
    assert STUDY.claims[claim](gaussian(swap)).status in ("not reproduced", "partly")


def kde(rises, bump=0.0):
    made = []
    for arm, rise in rises.items():
        for seed in range(8):
            loss = 0.8 + (rise + 0.01 * seed) * np.linspace(0, 1, 100)
            if arm == "accumulate":
                loss[1] += bump
            scalars = {"final_loss": loss[-1], "rise": loss[-1] - loss[0]}
            made.append(outcome("moons", arm, seed, scalars, {"loss": loss}, n=100, h=0.1, T=100))
    return Results(made, Scale("cpu"))


def test_kde_claim():
    reported = {"replace": 21.3, "accumulate": 0.7, "accumulate-subsample": 0.9}
    assert STUDY.claims["C4"](kde(reported)).status == "reproduced"
    assert STUDY.claims["C4"](kde(reported | {"replace": 0.5})).status == "partly"
    # a rise of accumulate above log t would be a mistake in the code
    assert STUDY.claims["C4"](kde(reported, bump=1.0)).status == "partly"


def language(rises):
    made = []
    for model in ("ngram", "network"):
        for arm, rise in rises.items():
            for seed in range(6):
                scalars = {"rise": rise + 0.01 * seed}
                curves = {"loss": np.zeros(3)}
                made.append(outcome("python-docs", arm, seed, scalars, curves, model=model))
    return Results(made, Scale("cpu"))


def test_language_claim():
    reported = {"replace": 1.53, "accumulate": 0.04, "accumulate-subsample": 0.16}
    assert STUDY.claims["C5"](language(reported)).status == "reproduced"
    wrong = reported | {"replace": 0.2}
    assert STUDY.claims["C5"](language(wrong)).status == "partly"
    wrong = {"replace": 0.2, "accumulate": 0.4, "accumulate-subsample": 0.16}
    assert STUDY.claims["C5"](language(wrong)).status == "not reproduced"


def mixed(few, many):
    made = []
    for seed in range(6):
        for arm, sign in (("accumulate", 1), ("real-only", 0)):
            noise = 0.001 * seed * sign
            scalars = {
                "loss_few_real": 2.0 + sign * few + noise,
                "loss_many_real": 1.6 + sign * many + noise,
            }
            made.append(outcome("python-docs-mixed", arm, seed, scalars, {}))
    return Results(made, Scale("cpu"))


def test_worth_claim():
    assert STUDY.claims["C6"](mixed(-0.2, 0.1)).status == "reproduced"
    assert STUDY.claims["C6"](mixed(-0.2, -0.1)).status == "partly"
    assert STUDY.claims["C6"](mixed(0.2, -0.1)).status == "not reproduced"


def test_claims_without_their_data_need_more():
    empty = Results([], Scale("cpu"))
    assert STUDY.claims["C4"](empty).status == "needs more"
    assert STUDY.claims["C5"](empty).status == "needs more"


def test_the_papers_grid_is_there():
    grid = list(STUDY.trials(Scale("paper", n_seeds=1)))
    gaussians = {(t["n"], t["d"]) for t in grid if t.dataset == "gaussian"}
    assert gaussians == {(n, d) for n in (10, 32, 100, 316, 1000) for d in (1, 3, 10, 31, 100)}
    kdes = {(t.dataset, t["n"], t["h"]) for t in grid if "h" in dict(t.params)}
    assert len(kdes) == 4 * 5 * 3
    assert {d for d, _, _ in kdes} == {"moons", "circles", "swiss-roll", "blobs"}


@pytest.mark.parametrize("shape", ["circles", "swiss-roll", "blobs"])
def test_a_cell_of_the_papers_grid_runs(shape):
    trial = STUDY.trial(shape, "accumulate-subsample", 0, n=10, h=0.5, T=3)
    metrics = STUDY.run(trial)
    assert np.isfinite(metrics["loss"]).all()
