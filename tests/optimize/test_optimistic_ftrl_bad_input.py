"""Every line under "Bad input" of the card: one line that says what, where and what to do."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl import (
    OGD,
    Ader,
    Ball,
    Box,
    CappedSimplex,
    CustomLosses,
    Fixed,
    Hedge,
    L1Ball,
    LogWealth,
    OptFPRL,
    OptFPRLRegressor,
    OptimisticOGD,
    RegressionLosses,
    Simplex,
    best_slow,
    compare_learners,
    make_arm,
    path_kappa,
    per_round,
    run_oco,
    run_parallel,
)
from practicum.optimize.optimistic_ftrl.hints import Regression, Seasonal
from practicum.optimize.optimistic_ftrl.losses import LinearCosts
from practicum.optimize.optimistic_ftrl.problems import random_problem, switching_costs

X = Ball(1.0, 2)
COSTS = np.random.default_rng(0).normal(size=(20, 2))


def refuses(words, call):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_input_gradient_and_hint_not_finite(value):
    learner = OptFPRL(X)
    learner.predict()
    refuses("gradient of round 1 holds", lambda: learner.update([0.0, value]))
    learner.update([0.0, 1.0])  # the round goes on with a good gradient
    refuses("hint of round 2 holds", lambda: learner.predict([value, 0.0]))
    assert np.isfinite(learner.predict([1.0, 0.0])).all()
    costs = COSTS.copy()
    costs[7, 1] = value
    refuses(r"costs holds .* at index \[7, 1\]", lambda: run_oco(OptFPRL(X), costs))
    refuses("hints holds", lambda: run_oco(OptFPRL(X), COSTS, costs))
    many = OptFPRL(X, n_runs=3)
    many.predict()
    bad = np.zeros((3, 2))
    bad[2, 0] = value
    refuses(r"round 1 holds .* at index \[2, 0\]", lambda: many.update(bad))


def test_bad_input_wrong_length():
    learner = OptFPRL(X)
    refuses(r"hint has shape \(3,\), expected \(2,\)", lambda: learner.predict(np.zeros(3)))
    learner.predict()
    refuses(r"gradient has shape \(1,\)", lambda: learner.update([1.0]))
    refuses("not numeric", lambda: learner.update(["a", "b"]))
    refuses("stream has 2 coordinates, the set 5", lambda: run_oco(OptFPRL(Ball(1.0, 5)), COSTS))
    refuses("hints have shape", lambda: run_oco(OptFPRL(X), COSTS, COSTS[:-1]))
    refuses("parallel streams", lambda: run_oco(OptFPRL(X, n_runs=2), np.zeros((5, 3, 2))))
    refuses("costs have shape", lambda: run_oco(OptFPRL(X), np.zeros(5)))


def test_bad_input_order_of_calls():
    learner = OptFPRL(X)
    refuses("update was called before predict", lambda: learner.update([1.0, 0.0]))
    learner.predict()
    refuses("predict was called twice", learner.predict)
    learner.update([1.0, 0.0])
    refuses("update was called before predict", lambda: learner.update([1.0, 0.0]))


def test_bad_input_hints_that_look_ahead():
    with pytest.warns(UserWarning, match="look ahead"):
        run_oco(OptFPRL(X), COSTS, COSTS)
    with pytest.warns(UserWarning, match="look ahead"):
        run_oco(OptFPRL(X), COSTS, lambda past: COSTS[past.t])


def test_honest_hints_raise_no_warning(recwarn):
    run_oco(OptFPRL(X), COSTS, np.roll(COSTS, 1, axis=0))
    run_oco(OptFPRL(X), np.ones((20, 2)), "last")
    assert not recwarn.list


def test_bad_input_comparator():
    refuses(
        "point of round 4 is outside the set, by 2",
        lambda: run_oco(
            OptFPRL(X), COSTS, comparators=np.where(np.arange(20)[:, None] == 3, [0.0, 3.0], 0.0)
        ),
    )
    refuses("comparator has shape", lambda: run_oco(OptFPRL(X), COSTS, comparators=np.zeros(3)))
    refuses("is not known", lambda: run_oco(OptFPRL(X), COSTS, comparators="best"))
    refuses("moves is -1", lambda: best_slow(LinearCosts(COSTS), X, moves=-1))
    refuses("one stream", lambda: best_slow(LinearCosts(COSTS[:, None]), X))
    own = CustomLosses(lambda t, x: 0.0, lambda t, x: x, 5, 2)
    refuses("where each round is smallest", lambda: per_round(own, X))
    refuses("not known for losses", lambda: run_oco(OptFPRL(X), own, comparators="best_fixed"))
    refuses("cannot be cut", lambda: own.part(0, 2))


def test_zero_costs_divide_by_nothing():
    with np.errstate(all="raise"):
        for learner in (
            OptFPRL(X),
            OptFPRL(X, "et"),
            OGD(X),
            OptimisticOGD(X),
            Hedge(Simplex(2)),
            OptFPRL(Simplex(2), geometry="entropy"),
        ):
            done = run_oco(learner, np.zeros((5, 2)))
            np.testing.assert_array_equal(done.actions, np.tile(learner.domain.center, (5, 1)))


def test_a_large_change_of_scale_is_said():
    costs = np.where(np.arange(80)[:, None] < 20, 1e6, 1.0) * np.ones((80, 2))
    done = run_oco(OptFPRL(X, "et"), costs)
    assert any("restart()" in note for note in done.notes)
    assert not run_oco(OptFPRL(X, "et"), COSTS).notes


@pytest.mark.parametrize("path", [None, -1.0, np.nan, "long"])
def test_bad_input_path_length(path):
    refuses("path_length", lambda: OptFPRL(X, "known_path", path_length=path))


def test_bad_input_times_and_lags():
    refuses(
        "do not increase: row 3",
        lambda: run_oco(OptFPRL(X), COSTS[:4], 1, timestamps=[1, 2, 2, 3]),
    )
    refuses("no round would have a hint", lambda: run_oco(OptFPRL(X), COSTS, 20))
    refuses("seasonal lag 0", lambda: Seasonal(lag=0))
    refuses("either lag", lambda: Seasonal())
    refuses("needs timestamps", lambda: Seasonal(period=3))
    refuses("3 timestamps for 20", lambda: run_oco(OptFPRL(X), COSTS, 1, timestamps=[1, 2, 3]))
    refuses("are not known", lambda: run_oco(OptFPRL(X), COSTS, "weekly"))
    refuses("moving average", lambda: run_oco(OptFPRL(X), COSTS, "mean:0"))
    refuses("no fit", lambda: Regression(object()))
    refuses("delay 20", lambda: run_oco(OptFPRL(X), COSTS, delay=20))


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("rule 'best'", lambda: OptFPRL(X, "best")),
        ("prune is 2", lambda: OptFPRL(X, prune=2)),
        ("sigma", lambda: OptFPRL(X, "constant")),
        ("sigma", lambda: OptFPRL(X, "constant", sigma=-1.0)),
        ("geometry", lambda: OptFPRL(X, geometry="hyperbolic")),
        ("probability simplex", lambda: OptFPRL(X, geometry="entropy")),
        ("Euclidean", lambda: OptFPRL(Simplex(2), "observed_path", geometry="entropy")),
        ("variant", lambda: OptFPRL(X, variant="draft")),
        ("balls around 0", lambda: OptFPRL(Simplex(2), variant="official_code")),
        ("n_runs is 0", lambda: OptFPRL(X, n_runs=0)),
        ("step", lambda: OGD(X, step=0.0)),
        ("order", lambda: OptimisticOGD(X, "random")),
        ("Hedge needs", lambda: Hedge(X)),
        ("rate", lambda: Hedge(Simplex(2), rate=-1.0)),
        ("horizon", lambda: Ader(X, 0, 1.0)),
        ("grad_bound", lambda: Ader(X, 10, None)),
        ("action is outside", lambda: Fixed(X, [5.0, 5.0])),
        ("arm 'adam'", lambda: make_arm("adam", X)),
        ("set has 2 coordinates", lambda: OptFPRLRegressor(X).fit(np.ones((3, 4)), np.ones(3))),
        ("target has shape", lambda: RegressionLosses(np.ones((3, 2)), np.ones(4))),
        ("features have shape", lambda: RegressionLosses(np.ones(3), np.ones(3))),
        ("loss 'cubic'", lambda: RegressionLosses(np.ones((3, 2)), np.ones(3), "cubic")),
        ("q is 1", lambda: RegressionLosses(np.ones((3, 2)), np.ones(3), "quantile", 1.0)),
        ("logistic", lambda: RegressionLosses(np.ones((3, 2)), np.arange(3.0), "logistic")),
        ("row 2, column 1", lambda: LogWealth([[1.0, 1.0], [0.0, 1.0]])),
        ("many runs", lambda: run_parallel(OptFPRL(X), COSTS)),
        ("how many rounds", lambda: run_parallel(OptFPRL(X, n_runs=2), lambda t: COSTS)),
        ("segment", lambda: switching_costs([(0, 1.0)], 2)),
        ("generator", lambda: switching_costs([(5, 1.0)], 2, jitter=0.1)),
        ("gradients", lambda: random_problem(np.random.default_rng(0), "odd", "none", 1)),
    ],
)
def test_bad_input_settings(words, make):
    refuses(words, make)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("lo has shape", lambda: Box([0, 0], [1, 1, 1])),
        ("lo has shape", lambda: Box([0, 0], 1, dim=3)),
        ("dim is 2.5", lambda: Simplex(2.5)),
        ("dim is 2.5", lambda: Ball(1, 2.5)),
        ("dim is 0", lambda: Ball(1, 0)),
        ("dim is 2.5", lambda: L1Ball(1, 2.5)),
        ("dim is 2.5", lambda: CappedSimplex(2.5, 1)),
        ("dim is 'two'", lambda: Box(0, 1, dim="two")),
        ("center has shape", lambda: Ball(1.0, 2, [0.0, 0.0, 0.0])),
        ("radius is 1e\\+300", lambda: Ball(1e300, 2)),
        ("radius is 1e-300", lambda: Ball(1e-300, 2)),
        ("learner is str", lambda: run_oco("x", COSTS)),
        ("delay is 2.5", lambda: run_oco(OptFPRL(X), COSTS, delay=2.5)),
        ("path_length is -5", lambda: path_kappa(2, -5)),
        ("radius is 0", lambda: path_kappa(0.0, 1.0)),
        ("passes is 0", lambda: OptFPRLRegressor(X, passes=0).fit(np.ones((3, 1)), np.ones(3))),
        ("costs holds 1e\\+300 at index", lambda: LinearCosts([[1.0, 1e300]])),
        ("features holds", lambda: RegressionLosses([[1e300]], [1.0])),
        ("wealth", lambda: run_oco(OptFPRL(X), LogWealth(np.ones((5, 2))))),
        ("no arm", lambda: compare_learners(COSTS, X, [])),
    ],
)
def test_bad_input_is_never_a_python_error(words, call):
    assert refuses(words, call).hint


def test_one_arm_may_be_given_by_its_name():
    assert set(compare_learners(COSTS, X, arms="recursive", hints="none")["arm"]) == {"recursive"}
