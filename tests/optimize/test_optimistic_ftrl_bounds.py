"""The bounds on 1,000 random problems (and that the check can fail), the account of the regret."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl import (
    FTRL,
    OGD,
    Ball,
    Box,
    L1Ball,
    LinearCosts,
    OptFPRL,
    Simplex,
    best_fixed,
    best_slow,
    run_oco,
)
from practicum.optimize.optimistic_ftrl.experiments import play_problem
from practicum.optimize.optimistic_ftrl.problems import GRADIENTS, HINTS, random_problem
from practicum.optimize.optimistic_ftrl.study import OptimisticFTRL
from practicum.study import Scale

STUDY = OptimisticFTRL()


def problems(arm, n_seeds):
    return [
        STUDY.run(STUDY.trial("random problems", arm, seed, rounds=80)) for seed in range(n_seeds)
    ]


@pytest.mark.parametrize("arm", ["recursive", "et", "known-path"])
def test_bounds_hold_on_a_thousand_random_problems(arm):
    """8 seeds x 16 combinations x 8 problems = 1,024, three comparators each; and they can fail."""
    done = problems(arm, 8)
    assert sum(d["checks"] for d in done) == 1024 * 3
    assert sum(d["violations"] for d in done) == 0
    ratios = np.concatenate([d["ratios"] for d in done])
    assert ratios.max() <= 1
    # the companion: a bound shrunk fourfold is violated, so the check can fail
    assert (ratios > 1 / 4).any(), ratios.max()


def test_the_worst_problem_is_close_to_the_bound():
    """Some problem reaches three quarters of the recursive bound: little is given away."""
    assert max(d["worst"] for d in problems("recursive", 4)) > 0.75


def test_the_checks_constants_are_the_papers():
    """(5.8 R + P/2) sqrt(E) + H and 1.0625 D + sum D_t |du| / (4R) + H, written out."""
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(50, 3))
    hints = costs + rng.normal(size=costs.shape)
    R = 1.7
    u = -R * costs / np.linalg.norm(costs, axis=1, keepdims=True)
    steps = np.linalg.norm(np.diff(u, axis=0), axis=1)
    errors = np.linalg.norm(costs - hints, axis=1)
    E, H, P = (errors**2).sum(), (errors[:-1] * steps).sum(), steps.sum()
    et = run_oco(OptFPRL(Ball(R, 3), "et"), costs, hints)
    assert et.bounds()["paper"] == pytest.approx((5.8 * R + P / 2) * np.sqrt(E) + H)
    assert et.learner.bound(P, H) == pytest.approx(et.bounds()["paper"])
    assert et.path_length == pytest.approx(P)
    rec = run_oco(OptFPRL(Ball(R, 3)), costs, hints)
    D = np.cumsum(rec.gaps())
    expected = 1.0625 * D[-1] + (D[:-1] * steps).sum() / (4 * R) + H
    assert rec.bounds()["paper"] == pytest.approx(expected)
    assert rec.learner.bound(P, H) >= expected  # every weight replaced by the last


@pytest.mark.parametrize("arm", ["recursive", "et", "observed-path", "ftrl", "adaftrl"])
@pytest.mark.parametrize("gradients", GRADIENTS)
def test_terms_add_up_and_bound_the_regret(arm, gradients):
    """errors + size + path + slack is the regret, and the slack is never positive."""
    rng = np.random.default_rng(1)
    for hints in HINTS:
        done = play_problem(random_problem(rng, gradients, hints, 8, 60), arm)
        for comparator in ("per_round", "best_fixed"):
            against = done.against(comparator)
            terms = against.terms()
            scale = sum(np.abs(v) for v in terms.values()) + 1e-12
            np.testing.assert_allclose(
                sum(terms.values()) / scale, against.regret[-1] / scale, atol=1e-9
            )
            assert (terms["slack"] <= 1e-9 * scale).all()
            assert (against.regret[-1] <= against.bounds()["log"] + 1e-9 * scale).all()


def test_without_pruning_the_path_is_what_costs():
    costs = np.where(np.arange(400) < 300, -1.0, 1.0)[:, None]
    lazy = run_oco(FTRL(Ball(1.0, 1)), costs)
    pruned = run_oco(OptFPRL(Ball(1.0, 1), "et"), costs)
    assert lazy.terms()["path"] > 10 * lazy.terms()["errors"]
    assert pruned.terms()["path"] < lazy.terms()["path"] / 10
    assert "path" in lazy.explain()


def test_no_account_where_none_is_known():
    costs = np.ones((5, 1))
    with pytest.raises(InputError, match="no regularised state"):
        run_oco(OGD(Ball(1.0, 1)), costs).terms()
    with pytest.raises(InputError, match="late"):
        run_oco(OptFPRL(Ball(1.0, 1)), costs, delay=1).terms()
    with pytest.raises(InputError, match="no dynamic bound"):
        OptFPRL(Ball(1.0, 1), prune=0.5).bound(1.0)


# --- comparators ---------------------------------------------------------------------------------


def test_best_fixed_of_linear_costs_is_the_linear_minimiser():
    costs = np.random.default_rng(2).normal(size=(40, 3))
    for X in (Ball(2.0, 3), Simplex(3), L1Ball(1.0, 3)):
        u = best_fixed(LinearCosts(costs), X)
        grid = X.project(np.random.default_rng(3).normal(size=(500, 3)) * 2)
        assert u.losses.sum() <= (costs.sum(axis=0) @ grid.T).min() + 1e-9


def test_best_slow_finds_the_moves():
    levels = np.repeat([1.0, -2.0, 0.5, 3.0], 24)[:, None]
    stream = LinearCosts(levels)
    X = Box(-1, 1, dim=1)
    perfect = -np.abs(levels).sum()
    u = best_slow(stream, X, moves=3, blocks=96)
    assert u.losses.sum() == pytest.approx(perfect)
    # 0.5 and 3.0 want the same action: two moves are enough
    assert u.moves == 2
    assert u.path_length == pytest.approx(4.0)
    one = best_slow(stream, X, moves=1, blocks=96)
    every = [
        -abs(levels[:k].sum()) - abs(levels[k:].sum()) for k in range(97)
    ]  # all places of one move
    assert one.losses.sum() == pytest.approx(min(every))
    assert best_slow(stream, X, moves=0).losses.sum() == pytest.approx(-abs(levels.sum()))


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile", "logistic", "log-wealth"])
@pytest.mark.parametrize("X", [Simplex(3), Ball(1.0, 3), L1Ball(0.7, 3)], ids=str)
def test_best_fixed_is_certified_and_agrees_with_scipy(loss, X):
    from scipy.optimize import minimize

    from practicum.optimize.optimistic_ftrl import LogWealth, RegressionLosses

    rng = np.random.default_rng(4)
    A = rng.normal(size=(60, 3))
    y = A @ [0.5, 0.2, 0.1] + 0.3 * rng.normal(size=60)
    if loss == "log-wealth":
        X, stream = Simplex(3), LogWealth(np.exp(0.1 * A))
    elif loss == "logistic":
        stream = RegressionLosses(A, (y > 0) * 1.0, loss)
    else:
        stream = RegressionLosses(A, y, loss, q=0.8)
    u = best_fixed(stream, X)
    total = u.losses.sum()
    assert u.gap <= 2e-3 * 60
    # a direct search finds nothing better, up to the certificate
    found = min(
        minimize(
            lambda v: stream.values(np.broadcast_to(X.project(v), (60, 3))).sum(),
            u.points[0] + 0.1 * rng.normal(size=3),
            method="Nelder-Mead",
            options={"maxiter": 2000, "xatol": 1e-7, "fatol": 1e-9},
        ).fun
        for _ in range(2)
    )
    assert total <= found + u.gap + 1e-9
    slow = best_slow(stream, X, moves=2, blocks=4)
    assert slow.losses.sum() <= total + u.gap + slow.gap


def test_a_sequence_of_ones_own():
    costs = np.random.default_rng(5).normal(size=(30, 2))
    X = Ball(1.0, 2)
    done = run_oco(OptFPRL(X), costs, comparators=[0.5, 0.5])
    assert done.regret[-1] == pytest.approx(done.losses.sum() - costs.sum() / 2)
    moving = X.project(np.cumsum(costs, axis=0))
    assert run_oco(OptFPRL(X), costs, comparators=moving).path_length == pytest.approx(
        np.linalg.norm(np.diff(moving, axis=0), axis=1).sum()
    )


def test_the_study_offers_the_papers_own_grid():
    grid = list(STUDY.trials(Scale("paper", 1)))
    assert {"scenario 1", "scenario 6", "random problems"} <= {t.dataset for t in grid}
    tiny = STUDY.trial("scenario 4", "et", 0, jitter=0.2, fraction=0.05)
    assert STUDY.run(tiny)["avg_regret"] > 0
