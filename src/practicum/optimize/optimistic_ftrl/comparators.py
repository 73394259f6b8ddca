"""What a learner's losses are measured against: best in each round, best fixed, best slowly moving.

For linear costs all three are exact (the last one where that is affordable: its name tells).  For
other losses the best fixed action is found by an accelerated projected gradient method that
certifies how far from optimal it may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import finite, whole
from practicum.optimize.optimistic_ftrl.domains import (
    TOLERANCE,
    Ball,
    Box,
    Domain,
    L1Ball,
    Simplex,
)
from practicum.optimize.optimistic_ftrl.losses import (
    CustomLosses,
    LinearCosts,
    LogWealth,
    Losses,
    RegressionLosses,
)

GAP = 1e-6  # of the loss's own scale: where the solver stops
MAX_STEPS = 3000
LINEAR_BLOCKS, OTHER_BLOCKS = 96, 16
EXACT_ROUNDS = 3000  # of linear costs, for which every pair of rounds fits into memory
EXACT_STEPS = 300_000_000  # pairs of rounds times moves: some seconds
MAX_STATES, MAX_VERTICES = 100_000_000, 512  # of the dynamic program over vertices


@dataclass(frozen=True)
class Comparator:
    """A sequence to be measured against.

    Attributes
    ----------
    points : (T, ..., d) array, u_1 .. u_T
    losses : (T, ...) array, f_t(u_t)
    moves : int, how often it changes (-1 where it may move every round)
    gap : float, its total loss is at most this much above the best of its kind
    name : str

    Examples
    --------
    >>> u = Comparator(np.array([[0.0], [1.0]]), np.zeros(2), 1, 0.0, "mine")
    >>> u.path_length
    1.0
    """

    points: np.ndarray
    losses: np.ndarray
    moves: int
    gap: float
    name: str

    @property
    def steps(self) -> np.ndarray:
        """``||u_{t+1} - u_t||``, shape (T-1, ...)."""
        return np.linalg.norm(np.diff(self.points, axis=0), axis=-1)

    @property
    def path_length(self) -> Any:
        """``P_T``, their sum."""
        total = self.steps.sum(axis=0)
        return float(total) if np.ndim(total) == 0 else total


def per_round(losses: Losses, domain: Domain) -> Comparator:
    """The minimiser of every single round: the hardest comparator.

    Parameters
    ----------
    losses : Losses
    domain : Domain

    Raises
    ------
    InputError
        If the losses do not know their minimisers.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball, LinearCosts
    >>> u = per_round(LinearCosts([[1.0], [-2.0]]), Ball(1.0, 1))
    >>> u.losses.tolist(), u.path_length
    ([-1.0, -2.0], 2.0)
    """
    points = losses.minimizers(domain)
    return Comparator(points, losses.values(points), -1, 0.0, "best in each round")


def best_fixed(losses: Losses, domain: Domain) -> Comparator:
    """The best single action in hindsight.

    Parameters
    ----------
    losses : Losses
    domain : Domain

    Returns
    -------
    Comparator
        ``gap`` bounds how far it is from the best.

    Raises
    ------
    InputError
        For losses given by two functions of one's own, without ``batch`` structure to exploit.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import LinearCosts, Simplex
    >>> best_fixed(LinearCosts([[1.0, 0.0], [0.0, 3.0]]), Simplex(2)).points[0].tolist()
    [1.0, 0.0]
    """
    if isinstance(losses, LinearCosts):
        point, gap = domain.linear_min(losses.costs.sum(axis=0)), 0.0
    else:
        point, gap = _solve(losses, domain, np.arange(losses.n_rounds))
    points = np.broadcast_to(point, (losses.n_rounds, *point.shape))
    return Comparator(points, losses.values(points), 0, gap, "best fixed")


def best_slow(losses: Losses, domain: Domain, moves: Any = None, blocks: Any = None) -> Comparator:
    r"""The best sequence that is constant but for a few moves.

    Found by dynamic programming: over rounds and vertices where the set has few of them, else over
    the best fixed action of every run of rounds. Exact for linear costs on simplices, l1 balls and
    small boxes, and on balls and boxes up to 3,000 rounds and a few dozen moves. Elsewhere the
    moves lie on a grid of ``blocks`` blocks, which the comparator's name then says.

    Parameters
    ----------
    losses : Losses
    domain : Domain
    moves : int, optional
        At most this many; :math:`T^{1/3}` by default, at most 48 (8 for losses that are not
        linear).
    blocks : int, optional
        A grid of this many blocks; without, none where the exact answer is affordable, else 96 for
        linear costs and 16 for others (each run of blocks is a problem to solve).

    Raises
    ------
    InputError
        If ``moves`` or ``blocks`` is not a whole number or too small, or the stream has parallel
        runs.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, LinearCosts
    >>> costs = np.repeat([[1.0], [-1.0]], 50, axis=0)
    >>> u = best_slow(LinearCosts(costs), Ball(1.0, 1), moves=1)
    >>> float(u.losses.sum()), u.moves, u.path_length
    (-100.0, 1, 2.0)
    """
    linear = isinstance(losses, LinearCosts)
    if linear and losses.costs.ndim != 2:
        raise InputError("a slow comparator is for one stream at a time", "leave n_runs out")
    T = losses.n_rounds
    grid = min(T, whole("blocks", blocks or (LINEAR_BLOCKS if linear else OTHER_BLOCKS), 1))
    moves = min(round(T ** (1 / 3)), grid // 2) if moves is None else whole("moves", moves, 0)
    exact = _exactly(losses, domain, moves) if blocks is None else None
    if exact is not None:
        return exact
    moves, edges = min(moves, grid - 1), np.linspace(0, T, grid + 1).round().astype(int)
    name = _slow_name(moves, edges)
    if linear:
        cuts = edges[_best_cuts(_linear_runs(losses, domain, edges), moves)]
        return _pieces(losses, domain, cuts.tolist(), name)
    costs, points, gaps = _solved_runs(losses, domain, edges)
    cuts = _best_cuts(costs, moves)
    u = np.empty((T, domain.dim))
    for i, j in pairwise(cuts):
        u[edges[i] : edges[j]] = points[i, j]
    gap = float(sum(gaps[i, j] for i, j in pairwise(cuts)))
    return Comparator(u, losses.values(u), len(cuts) - 2, gap, name)


def _exactly(losses: Losses, domain: Domain, moves: int) -> Comparator | None:
    """The best of all sequences with these moves, where it is affordable."""
    T = losses.n_rounds
    every_round = np.arange(T + 1)
    if moves >= T - 1 and not isinstance(losses, CustomLosses):
        u = losses.minimizers(domain)
        changes = int((np.diff(u, axis=0) != 0).any(axis=-1).sum())
        return Comparator(u, losses.values(u), changes, 0.0, _slow_name(T - 1, every_round))
    if not isinstance(losses, LinearCosts):
        return None
    vertices = _few_vertices(domain, T * (moves + 1))
    few = T <= EXACT_ROUNDS and T**2 * (moves + 1) <= EXACT_STEPS
    if vertices is not None:
        cuts = _best_switches(losses.costs @ vertices.T, moves)
    elif few and isinstance(domain, Ball | Box):
        cuts = _best_cuts(_linear_runs(losses, domain, every_round), moves)
    else:
        return None
    return _pieces(losses, domain, cuts, _slow_name(moves, every_round))


def _slow_name(moves: int, edges: np.ndarray) -> str:
    """Only what was chosen among all rounds is called the best."""
    few = f"with at most {moves} move{'s' * (moves != 1)}"
    every = int(np.diff(edges).min())
    if len(edges) == edges[-1] + 1:
        return f"best {few}"
    if every > 1:
        return f"one {few}, changing at most every {every} rounds"
    return f"one {few}, changing on a grid of {len(edges) - 1} blocks"


def _few_vertices(domain: Domain, steps: int) -> np.ndarray | None:
    """The set's extreme points, (V, d), if ``steps`` times as many states are affordable."""
    most = min(MAX_STATES // steps, MAX_VERTICES)
    if isinstance(domain, Simplex) and domain.dim <= most:
        return domain.total * np.eye(domain.dim)
    if isinstance(domain, L1Ball) and 2 * domain.dim <= most:
        return domain.radius * np.concatenate([np.eye(domain.dim), -np.eye(domain.dim)])
    if isinstance(domain, Box) and 2**domain.dim <= most:
        return np.array(list(product(*zip(domain.lo, domain.hi, strict=True))))
    return None


def _best_switches(costs: np.ndarray, moves: int) -> list[int]:
    """Where to change the vertex: rounds 0, ..., T; ``costs`` is (T, V).

    ``reach[m, v]`` is the least cost so far that ends in v after at most m moves.
    """
    T, V = costs.shape
    reach = np.tile(costs[0], (moves + 1, 1))
    moved = np.zeros((T, moves + 1, V), dtype=bool)
    came = np.zeros((T, moves + 1), dtype=int)
    for t in range(1, T):
        came[t] = reach.argmin(axis=1)
        least = reach.min(axis=1)
        moved[t, 1:] = least[:-1, None] < reach[1:]
        reach[1:] = np.where(moved[t, 1:], least[:-1, None], reach[1:])
        reach += costs[t]
    total = reach.min(axis=1)
    m = int(np.argmax(total <= total[-1] + 1e-12 * abs(total[-1])))  # no move without a gain
    v, cuts = int(reach[m].argmin()), [T]
    for t in range(T - 1, 0, -1):
        if moved[t, m, v]:
            m -= 1
            v = int(came[t, m])
            cuts.append(t)
    return [0, *reversed(cuts)]


def _pieces(losses: LinearCosts, domain: Domain, cuts: list[int], name: str) -> Comparator:
    """The best fixed action between every two cuts."""
    u = np.empty((losses.n_rounds, domain.dim))
    for i, j in pairwise(cuts):
        u[i:j] = domain.linear_min(losses.costs[i:j].sum(axis=0))
    return Comparator(u, losses.values(u), len(cuts) - 2, 0.0, name)


def _linear_runs(losses: LinearCosts, domain: Domain, edges: np.ndarray) -> np.ndarray:
    """Least cost of every run of blocks i..j-1, from prefix sums."""
    n = len(edges) - 1
    prefix = np.concatenate([np.zeros((1, losses.dim)), np.cumsum(losses.costs, axis=0)])[edges]
    costs = np.full((n + 1, n + 1), np.inf)
    for i in range(n):
        total = prefix[i + 1 :] - prefix[i]
        costs[i, i + 1 :] = np.vecdot(total, domain.linear_min(total))
    return costs


def _solved_runs(
    losses: Losses, domain: Domain, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cost, best point and gap of every run of blocks i..j-1."""
    n = len(edges) - 1
    points = np.zeros((n + 1, n + 1, losses.dim))
    costs, gaps = np.full((n + 1, n + 1), np.inf), np.zeros((n + 1, n + 1))
    for i in range(n):
        for j in range(i + 1, n + 1):
            rows = np.arange(edges[i], edges[j])
            start = points[i, j - 1] if j > i + 1 else None
            points[i, j], gaps[i, j] = _solve(losses, domain, rows, start)
            costs[i, j] = _Objective(losses, rows).exact(points[i, j]) * len(rows)
    return costs, points, gaps


def _best_cuts(costs: np.ndarray, moves: int) -> list[int]:
    """Cheapest way from edge 0 to the last with at most ``moves`` edges in between."""
    n = len(costs) - 1
    reach, came = costs[0], []
    best, best_moves = reach[n], 0
    for m in range(1, moves + 1):
        through = reach[:, None] + costs
        came.append(through.argmin(axis=0))
        reach = through.min(axis=0)
        if reach[n] < best - 1e-12 * abs(best):
            best, best_moves = reach[n], m
    cuts = [n]
    for previous in reversed(came[:best_moves]):
        cuts.append(int(previous[cuts[-1]]))
    return [0, *reversed(cuts)]


class _Objective:
    """The mean loss of some rounds, smoothed where it has kinks, with its gradient."""

    def __init__(self, losses: Losses, rows: np.ndarray) -> None:
        if not isinstance(losses, RegressionLosses | LogWealth):
            raise InputError(
                "the best fixed action is not known for losses given by functions",
                'give comparators="per_round" with minimizers, or your own sequence',
            )
        self.losses, self.n = losses, len(rows)
        regression = isinstance(losses, RegressionLosses)
        self.A = (losses.features if regression else losses.relatives)[rows]
        self.y = losses.target[rows] if regression else np.ones(self.n)
        kinked = regression and losses.loss in ("absolute", "quantile")
        self.width = 1e-3 * max(float(np.std(losses.target)), 1e-12) if kinked else 0.0
        self.smoothing = self.width / 2  # the smoothed loss is at most this far below the loss

    def exact(self, x: np.ndarray) -> float:
        """The mean loss itself."""
        margin = self.A @ x
        if isinstance(self.losses, LogWealth):
            return float(-np.log(margin).mean())
        return float(self.losses.link_value(margin, self.y).mean())

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        margin = self.A @ x
        if isinstance(self.losses, LogWealth):
            safe = np.maximum(margin, 1e-12)
            return float(-np.log(safe).mean()), -(self.A.T @ (1 / safe)) / self.n
        if self.width:
            value, slope = self._huber(margin - self.y)
        else:
            value = self.losses.link_value(margin, self.y)
            slope = self.losses.link_slope(margin, self.y)
        return float(value.mean()), self.A.T @ slope / self.n

    def _huber(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The kink rounded off within ``width``; below the loss, by at most ``width / 2``."""
        losses = self.losses
        up, down = (1.0, 1.0) if losses.loss == "absolute" else (1 - losses.q, losses.q)
        slope = np.clip(r / self.width, -down, up)
        return slope * r - self.width * slope**2 / 2, slope


def _solve(
    losses: Losses, domain: Domain, rows: np.ndarray, start: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Best fixed action on some rounds, and a bound on what its total loss lacks.

    FISTA with backtracking and restarts; the bound is the Frank-Wolfe gap plus the smoothing.
    """
    f = _Objective(losses, rows)
    x = domain.center if start is None else start
    y, momentum, curvature = x, 1.0, 1.0
    value, slope = f(y)
    scale = max(abs(value), 1e-12)
    gap = np.inf
    for step in range(MAX_STEPS):
        if step % 10 == 0:
            _, at_x = f(x)
            gap = float(at_x @ (x - domain.linear_min(at_x)))
            if gap <= GAP * scale + f.smoothing / 10:
                break
        value, slope = f(y)
        while True:
            moved = domain.project(y - slope / curvature)
            away = moved - y
            new, _ = f(moved)
            if new <= value + slope @ away + curvature / 2 * (away @ away) + 1e-14 * scale:
                break
            curvature *= 2
        curvature *= 0.9
        if (y - moved) @ (moved - x) > 0:  # the momentum points uphill: restart
            momentum, y = 1.0, moved
        else:
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            y = moved + (momentum - 1) / following * (moved - x)
            momentum = following
        x = moved
    return x, (max(gap, 0.0) + f.smoothing) * len(rows)


def _nothing(losses: Losses, domain: Domain) -> Comparator:
    T = losses.n_rounds
    points = np.broadcast_to(domain.center, (T, domain.dim))
    return Comparator(points, np.zeros(T), 0, 0.0, "nothing")


def as_comparator(wanted: Any, losses: Losses, domain: Domain) -> Comparator:
    """A comparator by name, or a sequence of one's own.

    Parameters
    ----------
    wanted : {"per_round", "best_fixed", "slow", "none"} or (T, d) or (d,) array
        ``none`` is the set's centre with loss 0: regret is then the loss itself.
    losses : Losses
    domain : Domain

    Raises
    ------
    InputError
        If the name is unknown, the shape does not fit, or a point lies outside the set.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball, LinearCosts
    >>> as_comparator([0.5], LinearCosts([[1.0], [2.0]]), Ball(1.0, 1)).losses.tolist()
    [0.5, 1.0]
    """
    named = {
        "per_round": per_round,
        "best_fixed": best_fixed,
        "slow": best_slow,
        "none": _nothing,
    }
    if isinstance(wanted, Comparator):
        return wanted
    if isinstance(wanted, str):
        if wanted not in named:
            raise InputError(
                f"comparator {wanted!r} is not known", f"use {', '.join(named)} or an array"
            )
        return named[wanted](losses, domain)
    points = finite("comparator", wanted)
    if points.shape == (domain.dim,):
        points = np.broadcast_to(points, (losses.n_rounds, domain.dim))
    if points.ndim < 2 or len(points) != losses.n_rounds or points.shape[-1] != domain.dim:
        raise InputError(
            f"comparator has shape {points.shape}, expected ({losses.n_rounds}, {domain.dim})",
            "one point per round, or a single point",
        )
    excess = domain.excess(points)
    if (excess > 1e3 * TOLERANCE * domain.radius).any():
        t = int(np.argwhere(excess > 1e3 * TOLERANCE * domain.radius)[0][0])
        raise InputError(
            f"comparator: the point of round {t + 1} is outside the set, by {excess[t].max():.3g}",
            "project it first: domain.project(points)",
        )
    moves = int((np.diff(points, axis=0) != 0).any(axis=-1).sum()) if points.ndim == 2 else -1
    return Comparator(points, losses.values(points), moves, 0.0, "given")
