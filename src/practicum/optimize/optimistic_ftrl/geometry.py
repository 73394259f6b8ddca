"""The regulariser behind an update: what is minimised, and what a prediction error costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.domains import Domain, Simplex

if TYPE_CHECKING:
    from practicum.optimize.optimistic_ftrl.learners import OptFPRL


class Euclidean:
    r"""Half the squared Euclidean norm, relative to the centre of the set.

    Parameters
    ----------
    domain : Domain

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> Euclidean(Ball(2.0, 3)).error_scale
    0.125
    """

    name = "euclidean"

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.gap_scale = 8 * domain.radius**2
        self.error_scale = 1 / (4 * domain.radius)
        self._slack = (1e-12 * domain.radius) ** 2

    def size2(self, error: np.ndarray) -> Any:
        """Squared dual norm."""
        return np.vecdot(error, error)

    def argmin(self, q: np.ndarray, sigma: Any, steady: bool) -> tuple[np.ndarray, Any]:
        """``argmin <q, w> + sigma/2 |w|^2``, and whether the free minimiser lies outside."""
        if steady:
            z = q / -sigma[..., None]
            w = self.domain._project(z)
            off = z - w
            return w, np.vecdot(off, off) > self._slack
        positive = np.asarray(sigma > 0)[..., None]
        scale = np.where(positive, sigma[..., None], 1.0)
        w, outside = self.argmin(q, scale[..., 0], True)
        w = np.where(positive, w, self.domain._linear_min(q))
        return w, np.where(positive[..., 0], outside, q.any(axis=-1))

    def absorb(
        self, learner: OptFPRL, grad: np.ndarray, error: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """The state after this round, and the cost of its error (None where no rule needs it)."""
        sigma, w, share = learner.sigma_, learner._w, learner.prune
        pull = sigma[..., None] * w
        change = error
        if share < 1:
            change = share * error + (1 - share) * (learner._p + grad + pull)
        gap = None
        if learner.rule == "recursive":
            gap = self.gap(change, w, sigma, learner._steady)
        return change - pull, gap

    def gap(self, change: np.ndarray, w: np.ndarray, sigma: Any, steady: bool) -> Any:
        r"""How far w is from minimising ``<change - sigma w, .> + sigma/2 |.|^2`` over the set.

        The best answer is one projected step from w, so nothing cancels numerically.
        """
        if steady:
            better = self.domain._project(w - change / sigma[..., None])
        else:
            positive = np.asarray(sigma > 0)[..., None]
            scale = np.where(positive, sigma[..., None], 1.0)
            better = np.where(
                positive,
                self.domain._project(w - change / scale),
                self.domain._linear_min(change),
            )
        step = better - w
        return np.maximum(-(np.vecdot(change, step) + sigma / 2 * np.vecdot(step, step)), 0.0)


class Entropy:
    r"""Negative entropy on the probability simplex: exponential weights.

    A normal-cone vector of the simplex at an interior point is a constant, which does not change
    the weights; pruning is therefore the recentring of the state.

    Parameters
    ----------
    domain : Simplex

    Raises
    ------
    InputError
        If the domain is not the probability simplex.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Simplex
    >>> round(Entropy(Simplex(3)).gap_scale, 3)
    1.099
    """

    name = "entropy"

    def __init__(self, domain: Domain) -> None:
        if not isinstance(domain, Simplex) or domain.total != 1:
            raise InputError(
                f'geometry="entropy" needs the probability simplex, not {domain!r}',
                'use Simplex(d), or geometry="euclidean"',
            )
        self.domain = domain
        self.gap_scale = math.log(domain.dim)
        self.error_scale = math.sqrt(math.sqrt(2) / math.log(domain.dim))

    def size2(self, error: np.ndarray) -> Any:
        """Squared dual norm: of the largest entry."""
        return np.abs(error).max(axis=-1) ** 2

    def argmin(self, q: np.ndarray, sigma: Any, steady: bool) -> tuple[np.ndarray, Any]:
        """Softmax of ``-q/sigma``, relative to the centre; at sigma = 0 the best vertex."""
        positive = np.asarray(sigma > 0)[..., None]
        scale = np.where(positive, sigma[..., None], 1.0)
        weight = np.exp((q.min(axis=-1, keepdims=True) - q) / scale)
        x = weight / weight.sum(axis=-1, keepdims=True)
        w = np.where(positive, x - self.domain.center, self.domain._linear_min(q))
        return w, np.zeros(w.shape[:-1], dtype=bool)

    def absorb(
        self, learner: OptFPRL, grad: np.ndarray, error: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """The state after this round, and the mixability gap of its error."""
        from practicum.optimize.optimistic_ftrl.learners import mix_gap

        sigma = learner.sigma_
        started = np.asarray(sigma > 0)[..., None]
        p = np.where(started, learner._p + grad, error)
        gap = None
        if learner.rule == "recursive":
            x = learner._w + self.domain.center
            gap = np.where(
                started[..., 0],
                mix_gap(error, x, sigma),
                np.vecdot(error, x) - error.min(axis=-1),
            )
        return p - p.min(axis=-1, keepdims=True), gap
