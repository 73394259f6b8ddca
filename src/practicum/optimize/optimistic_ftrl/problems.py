"""Streams of costs with a known structure: switching, seasonal load, autoregression, random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.domains import (
    Ball,
    Box,
    CappedSimplex,
    Domain,
    L1Ball,
    Simplex,
)
from practicum.optimize.optimistic_ftrl.losses import RegressionLosses

GRADIENTS = ("noise", "drift", "switches", "adversary")
HINTS = ("none", "last", "noisy", "opposite")


def switching_costs(
    segments: Sequence[tuple[int, float]],
    dim: int,
    jitter: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Float[np.ndarray, "T d"]:
    """Linear costs that are constant on segments: ``factor`` in every coordinate.

    Parameters
    ----------
    segments : sequence of (length, factor)
    dim : int
    jitter : float in [0, 1)
        Each length is multiplied by a number drawn from 1 - jitter to 1 + jitter; the total stays.
    rng : numpy Generator
        Needed for a jitter.

    Returns
    -------
    (T, d) array

    Raises
    ------
    InputError
        If a length is not positive, or the jitter has no generator.

    Examples
    --------
    >>> switching_costs([(2, -1.0), (1, 5.0)], dim=2).tolist()
    [[-1.0, -1.0], [-1.0, -1.0], [5.0, 5.0]]
    """
    lengths = np.array([length for length, _ in segments], dtype=float)
    factors = np.array([factor for _, factor in segments], dtype=float)
    if (lengths < 1).any():
        raise InputError("a segment without rounds", "give lengths of 1 or more")
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    if jitter:
        if rng is None:
            raise InputError("jitter needs a random generator", "give rng=...")
        lengths = lengths * rng.uniform(1 - jitter, 1 + jitter, len(lengths))
        ends = np.round(np.cumsum(lengths) * total / lengths.sum())
    which = np.searchsorted(ends, np.arange(total), side="right")
    return np.repeat(factors[np.minimum(which, len(factors) - 1), None], dim, axis=1)


@dataclass(frozen=True)
class LoadTask:
    """Charge or discharge, -1 to 1, against demand that is above or below its running mean.

    Attributes
    ----------
    costs : (T, 1) array, (demand - mean of the last ``week``) / sd of the first week
    warmup : (week, 1) array, the same for the first week, which is not played
    week, day : int, rounds in a week and in a day
    """

    costs: np.ndarray
    warmup: np.ndarray
    week: int
    day: int

    def hints(self, kind: str) -> np.ndarray:
        """Recorded hints: none, last, day, week (that long ago) or adversarial (minus the cost).

        Parameters
        ----------
        kind : str

        Raises
        ------
        InputError
            If the kind is unknown.
        """
        lags = {"last": 1, "day": self.day, "week": self.week}
        if kind in lags:
            whole = np.concatenate([self.warmup, self.costs])
            start = len(self.warmup) - lags[kind]
            return whole[start : start + len(self.costs)]
        if kind == "none":
            return np.zeros_like(self.costs)
        if kind == "adversarial":
            return -self.costs
        raise InputError(f"hints {kind!r}", f"use none, {', '.join(lags)} or adversarial")


def load_task(demand: Any, day: int) -> LoadTask:
    """Costs of a battery against a demand series with a daily and weekly season.

    Parameters
    ----------
    demand : (T,) array
    day : int
        Values per day; the first seven days set the scale and are not played.

    Raises
    ------
    InputError
        If the series is not longer than a week.

    Examples
    --------
    >>> task = load_task(np.sin(np.arange(400.0)), day=24)
    >>> task.costs.shape, task.warmup.shape, task.hints("week").shape
    ((232, 1), (168, 1), (232, 1))
    """
    demand = np.asarray(demand, dtype=float)
    week = 7 * day
    if len(demand) <= week + 1:
        raise InputError(f"{len(demand)} values are not longer than a week of {week}")
    total = np.concatenate([[0.0], np.cumsum(demand)])
    i = np.arange(1, len(demand) + 1)
    first = np.maximum(i - week, 0)
    mean = (total[i] - total[first]) / (i - first)
    costs = ((demand - mean) / demand[:week].std())[:, None]
    return LoadTask(costs[week:], costs[:week], week, day)


def autoregression(
    series: Any, lags: int, scale_rounds: int, loss: str = "absolute"
) -> RegressionLosses:
    """Predict a series from its last values, in units of its first rounds' standard deviation.

    Parameters
    ----------
    series : (n,) array
    lags : int
    scale_rounds : int
        How many first values set the mean and the scale.
    loss : str

    Raises
    ------
    InputError
        If the series is too short.

    Examples
    --------
    >>> autoregression(np.sin(np.arange(50.0)), lags=2, scale_rounds=10).n_rounds
    48
    """
    series = np.asarray(series, dtype=float)
    if len(series) <= max(lags, scale_rounds):
        raise InputError(f"{len(series)} values for {lags} lags and {scale_rounds} scale rounds")
    z = (series - series[:scale_rounds].mean()) / series[:scale_rounds].std()
    features = np.lib.stride_tricks.sliding_window_view(z, lags)[:-1]
    return RegressionLosses(features, z[lags:], loss)


@dataclass(frozen=True)
class RandomProblem:
    """A set, B gradient sequences (perhaps chosen against the player) and hints.

    Attributes
    ----------
    domain : Domain
    gradient : callable (t, x) -> (B, d) array, x of shape (B, d)
    hint : callable (t, last gradient or None) -> (B, d) array
    n_rounds : int
    """

    domain: Domain
    gradient: Any
    hint: Any
    n_rounds: int


def random_problem(
    rng: np.random.Generator, gradients: str, hints: str, n_runs: int, max_rounds: int = 300
) -> RandomProblem:
    """Draw a problem: a random set, horizon and scale, and the named kinds of costs and hints.

    Parameters
    ----------
    rng : numpy Generator
    gradients : {"noise", "drift", "switches", "adversary"}
        ``adversary`` pushes away from wherever the player stands.
    hints : {"none", "last", "noisy", "opposite"}
        ``noisy`` is the coming gradient plus noise (for the adversary: noise alone), ``opposite``
        its negative.
    n_runs : int
        Independent sequences B.
    max_rounds : int

    Raises
    ------
    InputError
        If a kind is unknown.

    Examples
    --------
    >>> problem = random_problem(np.random.default_rng(0), "drift", "last", n_runs=3)
    >>> problem.gradient(0, np.zeros((3, problem.domain.dim))).shape[0]
    3
    """
    if gradients not in GRADIENTS or hints not in HINTS:
        raise InputError(f"gradients {gradients!r}, hints {hints!r}", f"use {GRADIENTS}, {HINTS}")
    domain = _random_domain(rng)
    T = int(rng.integers(max_rounds // 6, max_rounds + 1))
    scale = 10.0 ** rng.uniform(-2, 2)
    base = scale * _random_gradients(rng, gradients, (T, n_runs, domain.dim))
    noise = scale * 10.0 ** rng.uniform(-2, 0.5) * rng.standard_normal(base.shape)

    def gradient(t: int, x: np.ndarray) -> np.ndarray:
        if gradients != "adversary":
            return base[t]
        away = domain.absorb(x)
        size = np.linalg.norm(away, axis=-1, keepdims=True)
        return base[t] + scale * away / np.maximum(size, 1e-12)

    def hint(t: int, last: np.ndarray | None) -> np.ndarray:
        known = np.zeros_like(base[t]) if gradients == "adversary" else base[t]
        if hints == "last":
            return np.zeros_like(known) if last is None else last
        return {"none": 0 * known, "noisy": known + noise[t], "opposite": -known}[hints]

    return RandomProblem(domain, gradient, hint, T)


def _random_domain(rng: np.random.Generator) -> Domain:
    d = int(rng.integers(2, 9))
    size = float(10.0 ** rng.uniform(-1, 1))
    makers = (
        lambda: Ball(size, d, center=rng.normal(size=d)),
        lambda: Box(-size * rng.random(d), size * (0.1 + rng.random(d))),
        lambda: Simplex(d, total=size),
        lambda: L1Ball(size, d),
        lambda: CappedSimplex(d, cap=2.0 / d),
    )
    return makers[int(rng.integers(len(makers)))]()


def _random_gradients(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    T, n_runs, _ = shape
    if kind == "noise":
        return rng.standard_normal(shape)
    if kind == "drift":
        steps = rng.standard_normal(shape) / np.sqrt(T)
        return rng.standard_normal(shape[1:]) + 3 * np.cumsum(steps, axis=0)
    if kind == "switches":
        flips = rng.random((T, n_runs, 1)) < rng.uniform(0.003, 0.2)
        signs = 1 - 2.0 * (np.cumsum(flips, axis=0) % 2)
        return signs * rng.standard_normal(shape[1:])
    return 0.1 * rng.standard_normal(shape)
