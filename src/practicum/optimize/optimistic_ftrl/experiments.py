"""The settings the study measures in: six scenarios, random problems, a disc, demand, the limits.

Everything here takes plain numbers and generators; which cells are run, and what they say about the
paper, is the study's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from practicum.data.streams import load_relatives, load_series
from practicum.optimize.optimistic_ftrl.arms import Facts, facts_of, run_arm
from practicum.optimize.optimistic_ftrl.comparators import Comparator, best_fixed, per_round
from practicum.optimize.optimistic_ftrl.domains import Ball, Domain, Simplex
from practicum.optimize.optimistic_ftrl.losses import CustomLosses, LinearCosts, LogWealth, Losses
from practicum.optimize.optimistic_ftrl.oco import OCOResult
from practicum.optimize.optimistic_ftrl.problems import (
    GRADIENTS,
    HINTS,
    LoadTask,
    RandomProblem,
    autoregression,
    load_task,
    random_problem,
    switching_costs,
)

DIM, RADIUS = 16, 2.0
FLIPS = [(50, -1.0), (50, 1.0)]
SCENARIOS: dict[int, list[tuple[int, float]]] = {
    1: [(1000, -1.0), (4000, 1.0)],
    2: [(1000, -1.0), (1000, 1.0), (500, -1.0), (1000, 1.0), (250, -1.0), (1250, 1.0)],
    3: [(1000, -1.0), (1000, 1.0), (500, -5.0), (1000, 1.0), (250, -10.0), (1250, 1.0)],
    4: FLIPS * 50,
    5: [(50, -0.1), (50, 1.0)] * 50,
    6: FLIPS * 10,
}
LOADS = {"water-flow": 24, "taylor": 48, "elecdemand": 48}  # values a day
STILL = {  # streams whose best decision barely moves: where their data come from, judged by
    "nyse-o log-wealth": ("nyse-o", 565),  # tenths of 22 years
    "water-flow AR(8)": ("water-flow", 84),  # half weeks
}
PER_COMBINATION = 8  # random problems of each kind of costs and hints, for one seed


def scenario_costs(
    k: int, fraction: float = 1.0, jitter: float = 0.0, rng: np.random.Generator | None = None
) -> np.ndarray:
    """The costs of one of the paper's scenarios, (T, 16).

    Parameters
    ----------
    k : int
        1 to 6.
    fraction : float
        Shorter segments for smoke tests; 1 is the paper's.
    jitter, rng
        How far, and by what draws, the switches are moved: 0.2 for up to 20 %.
    """
    segments = [(max(round(n * fraction), 2), factor) for n, factor in SCENARIOS[k]]
    return switching_costs(segments, DIM, jitter, rng)


def scenario_hints(k: int, costs: np.ndarray) -> np.ndarray:
    """Scenario 6 predicts ``c_t - c_t / (0.1 t + 0.1)``, t from 0; the others predict nothing."""
    if k != 6:
        return np.zeros_like(costs)
    t = np.arange(len(costs)).reshape(-1, *[1] * (costs.ndim - 1))
    return costs - costs / (0.1 * t + 0.1)


def as_published(costs: np.ndarray) -> np.ndarray:
    """The published program begins with the last cost and plays one round more."""
    return np.concatenate([costs[-1:], costs])


@lru_cache(maxsize=16)
def nominal_facts(k: int, fraction: float) -> Facts:
    """What ader and known-path are told: the facts of the scenario as published, not jittered."""
    return facts_of(LinearCosts(scenario_costs(k, fraction)), Ball(RADIUS, DIM))


def told(*args: Any, **settings: Any) -> OCOResult:
    """``run_arm`` without the warning that perfect predictions look ahead: here they are meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the hints equal")
        return run_arm(*args, **settings)


@lru_cache(maxsize=4)
def demand(name: str) -> LoadTask:
    """Charge or discharge against a recorded demand."""
    return load_task(load_series(name), LOADS[name])


@lru_cache(maxsize=4)
def still_stream(name: str) -> tuple[Losses, Domain]:
    """A stream whose best decision barely moves."""
    if name == "nyse-o log-wealth":
        relatives = load_relatives("nyse-o").to_numpy()
        return LogWealth(relatives), Simplex(relatives.shape[1])
    return autoregression(load_series("water-flow"), 8, scale_rounds=168), Ball(2.0, 8)


def by_segment(curve: np.ndarray, rounds: int) -> np.ndarray:
    """Means over consecutive segments of one long run; an incomplete last one is left out."""
    n = len(curve) // rounds
    return curve[: n * rounds].reshape(n, rounds, *curve.shape[1:]).mean(axis=1)


def on_random_problems(arm: str, rng: np.random.Generator, rounds: int) -> Mapping[str, Any]:
    """Bounds on random problems: how often violated, and how close they come."""
    ratios, violations, checks = [], 0, 0
    for gradients in GRADIENTS:
        for hints in HINTS:
            problem = random_problem(rng, gradients, hints, PER_COMBINATION, rounds)
            done = play_problem(problem, arm)
            for comparator in _three_comparators(done, rng):
                against = done.against(comparator)
                regret, bound = against.regret[-1], against.bounds()["paper"]
                violations += int((regret > bound + 1e-9 * np.maximum(bound, 1)).sum())
                checks += len(bound)
                ratios.append(regret / bound)
    ratios = np.concatenate(ratios)
    return {"violations": violations, "checks": checks, "worst": ratios.max(), "ratios": ratios}


def play_problem(problem: RandomProblem, arm: str) -> OCOResult:
    """Run, then keep the gradients that were met as linear costs: their regret is the larger."""
    last: list[Any] = [None]

    def gradient(t: int, x: np.ndarray) -> np.ndarray:
        last[0] = problem.gradient(t, x)
        return last[0]

    losses = CustomLosses(
        lambda t, x: np.zeros(PER_COMBINATION), gradient, problem.n_rounds, problem.domain.dim
    )
    path = problem.n_rounds * problem.domain.radius / 10
    still = np.broadcast_to(
        problem.domain.center, (problem.n_rounds, PER_COMBINATION, problem.domain.dim)
    )
    unused = Comparator(still, np.zeros(still.shape[:2]), 0, 0.0, "centre")
    done = run_arm(
        arm,
        problem.domain,
        losses,
        lambda past: problem.hint(past.t, last[0]),
        facts=Facts(problem.n_rounds, 1.0, path),
        n_runs=PER_COMBINATION,
        comparators=unused,
    )
    met = LinearCosts(done.gradients)
    return replace(done, stream=met, losses=met.values(done.actions), _others={})


def _three_comparators(done: OCOResult, rng: np.random.Generator) -> Iterator[Comparator]:
    stream, domain = done.stream, done.learner.domain
    yield per_round(stream, domain)
    fixed = best_fixed(stream, domain)
    yield fixed
    # a few moves between random points of the set's surface and the best fixed action
    T = stream.n_rounds
    which = np.searchsorted(np.sort(rng.integers(1, T, 4)), np.arange(T), side="right")
    corners = domain.linear_min(rng.standard_normal((5, *fixed.points.shape[1:])))
    corners[::2] = fixed.points[0]
    yield Comparator(corners[which], stream.values(corners[which]), 4, 0.0, "random")


def on_perfect_hints(arm: str, rng: np.random.Generator, rounds: int) -> Mapping[str, Any]:
    """Perfect predictions: largest regret per round over the problems, either sign."""
    worst, violations, checks = 0.0, 0, 0
    for gradients in GRADIENTS[:3]:  # an adversary cannot be predicted before it has looked
        for _ in range(4):
            problem = random_problem(rng, gradients, "none", PER_COMBINATION, rounds)
            still = np.tile(problem.domain.center, (PER_COMBINATION, 1))
            costs = np.stack([problem.gradient(t, still) for t in range(problem.n_rounds)])
            done = told(
                arm,
                problem.domain,
                LinearCosts(costs),
                lambda past, costs=costs: costs[past.t] if past.t < len(costs) else None,
                n_runs=PER_COMBINATION,
            )
            regret = np.abs(done.regret[-1])
            violations += int((regret >= 1e-12 * problem.n_rounds).sum())
            checks += len(regret)
            size = np.abs(costs).max() * problem.domain.radius
            worst = max(worst, float(regret.max()) / problem.n_rounds / size)
    return {"violations": violations, "checks": checks, "worst_regret": worst}


def in_a_disc(arm: str) -> Mapping[str, Any]:
    """Two dimensions: a cost that stays, then turns; actions and unconstrained minimisers."""
    angle = np.concatenate([np.zeros(60), np.linspace(0, np.pi, 40), np.full(60, np.pi)])
    costs = -np.stack([np.cos(angle), np.sin(angle)], axis=1)
    done = run_arm(arm, Ball(1.0, 2), LinearCosts(costs))
    with np.errstate(divide="ignore", invalid="ignore"):
        free = -done.states[1:-1] / done.sigma[2:, None]
    return {
        "loss": float(done.losses.mean()),
        "free_x": free[:, 0],
        "free_y": free[:, 1],
        "action_x": done.actions[2:, 0],
        "action_y": done.actions[2:, 1],
    }


def on_still_stream(name: str, arm: str, segments: int) -> Mapping[str, Any]:
    stream, domain = still_stream(name)
    rounds = STILL[name][1]
    if segments:
        stream = stream.part(0, rounds * segments)
    done = run_arm(arm, domain, stream)
    fixed = best_fixed(stream, domain)
    return {
        "avg_regret": done.average_regret,
        "fixed_regret": float((done.losses - fixed.losses).mean()),
        "loss": float(done.losses.mean()),
        "total_loss": float(done.losses.sum()),
        "segment_loss": by_segment(done.losses, rounds),
        "segment_regret": by_segment(done.losses - fixed.losses, rounds),
    }
