"""What OptFPRL costs: parallel runs, single rounds, against peers on the same input in this run.

The bars: 10,000 parallel learners of dimension 10 at one million steps a second on one core, or
20 times a loop over single learners; published numbers and special cases hold on the way.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from practicum.optimize.optimistic_ftrl import (
    OGD,
    Ball,
    Box,
    CappedSimplex,
    L1Ball,
    OptFPRL,
    Simplex,
    run_parallel,
)
from practicum.optimize.optimistic_ftrl.experiments import scenario_costs

B, DIM, ROUNDS = 10_000, 10, 50
REPEATS = 3


def best_of(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest repeat: the machine may be shared."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def single_loop(domain, rule: str, costs: np.ndarray) -> None:
    """The public interface, one learner after the other."""
    for b in range(costs.shape[1]):
        learner = OptFPRL(domain, rule)
        for cost in costs[:, b]:
            learner.predict()
            learner.update(cost)


def parallel_runs() -> bool:
    """Steps per second of many runs, and of a loop over single ones, on the same costs."""
    costs = np.random.default_rng(0).normal(size=(ROUNDS, B, DIM))
    few = costs[:, :20]
    domains = [
        ("ball", Ball(1.0, DIM)),
        ("box", Box(-1.0, 1.0, dim=DIM)),
        ("simplex", Simplex(DIM)),
        ("l1 ball", L1Ball(1.0, DIM)),
        ("capped simplex", CappedSimplex(DIM, 0.3)),
    ]
    print(f"{B:,} learners of dimension {DIM}, million steps a second (ratio to a single loop)")
    met = True
    for name, domain in domains:
        line = f"  {name:<15}"
        for rule in ("recursive", "et"):
            together = best_of(
                lambda d=domain, r=rule: run_parallel(OptFPRL(d, r, n_runs=B), costs)
            )
            alone = best_of(lambda d=domain, r=rule: single_loop(d, r, few), 1)
            rate, loop = costs[..., 0].size / together, few[..., 0].size / alone
            line += f"  {rule} {rate / 1e6:6.2f} (x {rate / loop:4.0f})"
            met &= rate >= 1e6 or rate >= 20 * loop
        print(line)
    return met


def growth() -> None:
    """Seconds against the dimension: linear on the ball, d log d on the simplex."""
    print("one round of the recursive rule, microseconds, by dimension")
    for name, make in (("ball", lambda d: Ball(1.0, d)), ("simplex", Simplex)):
        times = []
        for d in (10, 1_000, 100_000):
            costs = np.random.default_rng(0).normal(size=(20 if d > 1e4 else 400, d))
            learner = OptFPRL(make(d))

            def play(learner=learner, costs=costs) -> None:
                for cost in costs:
                    learner.predict()
                    learner.update(cost)

            times.append(f"{d:,}: {1e6 * best_of(play) / len(costs):,.0f}")
        print(f"  {name:<9}" + "  ".join(times))


def plain_descent(costs: np.ndarray, R: float) -> np.ndarray:
    """Gradient descent as one would write it in ten lines: the floor."""
    x, total, actions = np.zeros(costs.shape[1]), 0.0, []
    for g in costs:
        actions.append(x)
        total += g @ g
        z = x - 2 * R / np.sqrt(2 * total) * g
        norm = np.sqrt(z @ z)
        x = z if norm <= R else z * (R / norm)
    return np.array(actions)


def play(learner, costs: np.ndarray) -> np.ndarray:
    """Actions through the public interface."""
    actions = []
    for g in costs:
        actions.append(learner.predict())
        learner.update(g)
    return np.array(actions)


def single_rounds() -> None:
    """Scenario 1, round by round: ours, the floor, and a solver call as in the published code."""
    costs, X = scenario_costs(1), Ball(2.0, 16)
    floor = best_of(lambda: plain_descent(costs, 2.0)) / len(costs)
    same = np.abs(plain_descent(costs, 2.0) - play(OGD(X), costs)).max()
    print(f"scenario 1, microseconds a round (plain descent in ten lines: {1e6 * floor:.1f})")
    for name, make in {
        "OGD": lambda: OGD(X),
        "OptFPRL et": lambda: OptFPRL(X, "et"),
        "OptFPRL recursive": lambda: OptFPRL(X),
    }.items():
        seconds = best_of(lambda m=make: play(m(), costs)) / len(costs)
        print(f"  {name:<18} {1e6 * seconds:6.1f}  ({seconds / floor:.1f} x plain descent)")
    print(f"  our OGD and the plain one differ by at most {same:.1e}")
    if find_spec("cvxpy"):
        ours = best_of(lambda: play(OptFPRL(X, "et"), costs)) / len(costs)
        theirs = solver_round(X)
        print(f"  a projection by cvxpy, as in the published code: {1e6 * theirs:,.0f}")
        print(f"  ratio: {theirs / ours:,.0f} x")


def solver_round(X: Ball) -> float:
    """Seconds of one projection on the ball by a parametrised cvxpy problem, warm."""
    import cvxpy as cp

    x, z = cp.Variable(X.dim), cp.Parameter(X.dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - z)), [cp.norm(x, 2) <= X.radius])
    rng = np.random.default_rng(0)

    def solve() -> None:
        for _ in range(50):
            z.value = 3 * rng.normal(size=X.dim)
            problem.solve(warm_start=True)

    solve()
    return best_of(solve, 1) / 50


def river_peer() -> None:
    """FTRL-Proximal of River on a drifting regression stream, as its users run it."""
    if not find_spec("river"):
        print("river is not installed: pip install --no-deps river==0.26.1")
        return
    from river import linear_model, optim

    from practicum.optimize.optimistic_ftrl import RiverRegressor

    rng = np.random.default_rng(0)
    T, d = 4000, 10
    X = rng.normal(size=(T, d)) / np.sqrt(d)
    weights = np.where(np.arange(T)[:, None] < 3000, 1.0, -1.0) * rng.normal(size=d)
    y = (X * weights).sum(axis=1) + 0.1 * rng.normal(size=T)
    rows = [{f"f{j}": v for j, v in enumerate(row)} for row in X.tolist()]

    def progressive(model) -> float:
        error = 0.0
        for row, goal in zip(rows, y.tolist(), strict=True):
            error += abs(model.predict_one(row) - goal)
            model.learn_one(row, goal)
        return error / T

    models = {
        "River FTRL-Proximal (defaults)": lambda: linear_model.LinearRegression(
            optimizer=optim.FTRLProximal(), intercept_lr=0
        ),
        "River FTRL-Proximal (best alpha)": None,
        "OptFPRL (nothing tuned)": lambda: RiverRegressor(domain="ball:5", fit_intercept=False),
    }
    alphas = 10.0 ** np.arange(-2, 2.1, 0.5)

    def tuned(alpha: float):
        return linear_model.LinearRegression(
            optimizer=optim.FTRLProximal(alpha=alpha, l2=0.0), intercept_lr=0
        )

    best = min(alphas, key=lambda a: progressive(tuned(a)))
    models["River FTRL-Proximal (best alpha)"] = lambda: tuned(best)
    print(f"drifting regression, {T:,} samples of {d} features: error, microseconds a sample")
    for name, make in models.items():
        error = progressive(make())
        seconds = best_of(lambda m=make: progressive(m()), 1) / T
        print(f"  {name:<34} {error:.4f}  {1e6 * seconds:6.1f}")


def main() -> int:
    """Print everything; 1 if a bar is missed."""
    with threadpool_limits(1):
        met = parallel_runs()
        growth()
        single_rounds()
        river_peer()
    print("bar (a million steps a second, or 20 x the loop):", "met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
