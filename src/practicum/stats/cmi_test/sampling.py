"""A generator of X given Z, fitted as far as it can leave rows out, as a stream of draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.stats.cmi_test.generators import ResidualSampler
from practicum.stats.cmi_test.inputs import Rows
from practicum.stats.cmi_test.smoother import KernelSmoother

ALL_DRAWS = 32


@dataclass
class Sampler:
    """A fitted generator, whatever it can do by itself, as a stream of draws for all rows."""

    source: Any
    z: np.ndarray
    next_draw: Callable[[], np.ndarray]
    r2: np.ndarray | None
    fitted: bool
    folded: bool

    @classmethod
    def of(
        cls,
        source: Any,
        data: Rows,
        fold: np.ndarray,
        rng: np.random.Generator,
        like: KernelSmoother | None = None,
    ) -> Sampler:
        if isinstance(source, str):
            source = _named_generator(source)
        if not hasattr(source, "sample"):
            raise InputError(
                f"generator={source!r} has no sample(z, m, rng)",
                "'residual', 'network', or an object with fit(x, z) and sample(z, m, rng)",
            )
        if not hasattr(source, "fit"):

            def simulate() -> np.ndarray:
                return source.sample(data.z, 1, rng)[0]

            return cls(source, data.z, simulate, None, False, False)
        if hasattr(source, "sample_left_out"):
            shared = {"like": like} if isinstance(source, ResidualSampler) else {}
            source.fit(data.x, data.z, data.groups, **shared)
            r2 = getattr(source, "r2", None)

            def borrow() -> np.ndarray:
                return source.sample_left_out(1, rng)[0]

            return cls(source, data.z, borrow, r2, True, False)
        return cls.cross_fitted(source, data, fold, rng)

    @classmethod
    def cross_fitted(
        cls, source: Any, data: Rows, fold: np.ndarray, rng: np.random.Generator
    ) -> Sampler:
        """Each fold's draws from a generator fitted to the other folds."""
        held_out = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
        training = [np.flatnonzero(fold != k) for k in range(len(held_out))]
        tasks = [(data.x[rows], data.z[rows]) for rows in training]
        seeds = [int(s) for s in rng.integers(0, 2**31, len(tasks))]
        if hasattr(source, "fit_stack"):
            fits = source.fit_stack(tasks, seeds)
        else:
            fits = [deepcopy(source).fit(*task) for task in tasks]

        def next_draw() -> np.ndarray:
            draw = np.empty_like(data.x)
            for rows, fitted in zip(held_out, fits):
                draw[rows] = fitted.sample(data.z[rows], 1, rng)[0]
            return draw

        return cls(source, data.z, next_draw, None, True, True)

    @property
    def pool(self) -> np.ndarray | None:
        """Residuals that may stand in for all draws at once."""
        return None if self.folded else getattr(self.source, "pool", None)

    def mean(self) -> Float[np.ndarray, "n d"]:
        """E[X | Z] at every row: known, left out, or the average of draws used for nothing else."""
        if not self.fitted and hasattr(self.source, "mean"):
            return self.source.mean(self.z)
        if not self.folded and hasattr(self.source, "mean_left_out"):
            return self.source.mean_left_out
        return sum(self.stream(ALL_DRAWS)) / ALL_DRAWS

    def stream(self, draws: int) -> Iterator[Float[np.ndarray, "n d"]]:
        """The draws one after the other."""
        return (self.next_draw() for _ in range(draws))


def _named_generator(name: str) -> Any:
    if name == "residual":
        return ResidualSampler()
    if name == "network":
        from practicum.stats.cmi_test.networks import GenerativeNetwork

        return GenerativeNetwork()
    raise InputError(f"generator={name!r}", "'residual', 'network', or an object with sample")


WIDE, FOLLOWS = 20, 0.2


def about_wide(r2: np.ndarray | None, columns: int) -> tuple[str, ...]:
    """Where both regressions are likely to miss something, and the same thing."""
    if r2 is None or columns < WIDE or r2.mean() < FOLLOWS:
        return ()
    return (
        f"Z has {columns} columns and predicts X in part (R² = {r2.mean():.2f}): what it does to "
        "both X and Y and the regressions miss is taken for an effect of X, so p may be far too "
        "small unless regression= follows the mean of Y well",
    )
