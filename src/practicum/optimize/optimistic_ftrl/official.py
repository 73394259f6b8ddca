"""What the published program of OptFPRL does, where it departs from the stated rule.

Written from its observable behaviour, to measure the difference: the pruning vector is not reset
while the minimiser is inside the ball and keeps being added; pruning begins 0.01 outside the ball;
sigma starts at 1e-4; actions are pulled in by 1e-4 and reported with four decimals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.domains import Ball

if TYPE_CHECKING:
    from practicum.optimize.optimistic_ftrl.learners import OptFPRL

START, MARGIN, SHRINK, DECIMALS = 1e-4, 1e-2, 1e-4, 4


def begin(learner: OptFPRL) -> None:
    """The published program's initial state."""
    if not isinstance(learner.domain, Ball) or not learner.domain._at_origin:
        raise InputError(
            f"the published program knows balls around 0 only, not {learner.domain!r}",
            'use variant="paper"',
        )
    learner.sigma_ = learner.sigma_ + START
    learner._cone = learner._zero
    learner._exact = learner._zero  # the action before rounding


def play(learner: OptFPRL, hint: np.ndarray) -> np.ndarray:
    """Its action: rounded, and a little inside the ball."""
    R = learner.domain.radius
    if learner.t_ == 0:
        learner._exact = learner.domain._linear_min(hint)
        learner._far = np.zeros(learner.batch, dtype=bool)
        return np.round(learner._exact, DECIMALS)
    z = -(learner._p + hint) / learner.sigma_[..., None]
    norm = np.linalg.norm(z, axis=-1)[..., None]
    learner._exact = np.where(norm + SHRINK > R, z / (norm + SHRINK) * R, z)
    learner._far = norm[..., 0] > R + MARGIN
    learner.n_pruned_ = learner.n_pruned_ + learner._far
    return np.round(learner._exact, DECIMALS)


def observe(learner: OptFPRL, grad: np.ndarray) -> None:
    """Its update, with the pruning vector of the last time the minimiser was outside."""
    error2 = np.vecdot(grad - learner._hint, grad - learner._hint)
    fresh = -(learner._p + learner._hint + learner.sigma_[..., None] * learner._exact)
    learner._cone = np.where(learner._far[..., None], fresh, learner._cone)
    if learner.t_ == 0:
        learner._cone = np.where((error2 < START)[..., None], -grad, learner._cone)
    before = np.sqrt(learner.E_)
    learner.E_ = learner.E_ + error2
    learner.sigma_ = learner.sigma_ + (np.sqrt(learner.E_) - before) / (4 * learner.domain.radius)
    learner._p = learner._p + grad + learner._cone
