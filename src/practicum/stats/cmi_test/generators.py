"""Samplers of X given Z.

A generator is any object with ``fit(x, z)`` and ``sample(z, m, rng) -> (m, n, d)``. One that can
leave each fitted row out by itself offers ``sample_left_out(m, rng)`` as well, and is then fitted
once; others are fitted once a fold. A simulator of the true conditional law needs no ``fit``.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.stats.cmi_test.smoother import KernelSmoother


@runtime_checkable
class Generator(Protocol):
    """What the test asks of a sampler of X given Z.

    Examples
    --------
    >>> isinstance(ResidualSampler(), Generator)
    True
    """

    def sample(
        self, z: Float[np.ndarray, "n q"], m: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "m n d"]:
        """``m`` independent draws of X for every row of ``z``."""


class ResidualSampler:
    """Conditional mean plus a residual borrowed, whole, from another row.

    The mean of each column of X is a :class:`KernelSmoother`; the residual vector of a random
    other row keeps how the columns hang together. A column of two values is drawn as such: the
    donor's row gives the quantile, the row's own probability gives the value.

    Parameters
    ----------
    families : tuple of str
        Kernels the mean may use, see :class:`KernelSmoother`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(300, 1))
    >>> x = z + 0.5 * rng.normal(size=(300, 1))
    >>> draws = ResidualSampler().fit(x, z).sample(np.array([[2.0]]), 4000, rng)
    >>> bool(abs(draws.mean() - 2) < 0.2), bool(abs(draws.std() - 0.5) < 0.05)
    (True, True)
    """

    def __init__(self, families: tuple[str, ...] = ("linear", "additive", "joint")) -> None:
        self.families = families

    def fit(
        self,
        x: Float[np.ndarray, "n d"],
        z: Float[np.ndarray, "n q"],
        groups: np.ndarray | None = None,
        like: KernelSmoother | None = None,
    ) -> ResidualSampler:
        """Fit the mean of every column.

        Parameters
        ----------
        x, z : arrays, shapes (n, d), (n, q)
        groups : array, shape (n,), optional
            Rows of one group are left out together.
        like : KernelSmoother, optional
            Fitted to the same ``z``: its features are used again.

        Raises
        ------
        InputError
            Lengths differ.
        """
        self.smoother = KernelSmoother(self.families, shared=False).fit(z, x, groups, like)
        self._mean = x - self.smoother.left_out_
        pool = self.smoother.left_out_
        self._pool = pool - pool.mean(axis=0)
        self._x = x
        self._low, self._high = x.min(axis=0), x.max(axis=0)
        two = ((x == self._low) | (x == self._high)).all(axis=0)
        self._two_valued = np.flatnonzero(two & (self._high > self._low))
        return self

    @property
    def mean_left_out(self) -> Float[np.ndarray, "n d"]:
        """The mean of X at each fitted row, from the fit that left the row out."""
        return self._mean

    @property
    def pool(self) -> Float[np.ndarray, "n d"] | None:
        """The residuals that are borrowed; None where a column of two values is drawn as such."""
        return None if self._two_valued.size else self._pool

    @property
    def r2(self) -> np.ndarray:
        """Out-of-sample R² of each column of X, shape (d,)."""
        return self.smoother.r2_

    def sample_left_out(self, m: int, rng: np.random.Generator) -> Float[np.ndarray, "m n d"]:
        """Draws for the fitted rows, each from the fit that left the row out.

        Parameters
        ----------
        m : int
            Draws a row.
        rng : numpy Generator
        """
        n = len(self._mean)
        donors = rng.integers(0, n - 1, (m, n))
        donors += donors >= np.arange(n)  # never one's own residual
        return self._draw(self._mean, donors, rng)

    def sample(
        self, z: Float[np.ndarray, "n q"], m: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "m n d"]:
        """Draws for new rows.

        Parameters
        ----------
        z : array, shape (n, q)
        m : int
        rng : numpy Generator
        """
        mean = self.smoother.predict(z).reshape(len(z), -1)
        return self._draw(mean, rng.integers(0, len(self._pool), (m, len(z))), rng)

    def _draw(self, mean: np.ndarray, donors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        draws = mean + self._pool[donors]
        for k in self._two_valued:
            low, high = self._low[k], self._high[k]
            chance = np.clip((mean[:, k] - low) / (high - low), 1e-3, 1 - 1e-3)
            own = np.clip((self._mean[:, k] - low) / (high - low), 1e-3, 1 - 1e-3)
            # where the donor lies in its own two-point law, spread evenly over its step
            upper = self._x[:, k] == high
            step = rng.random(donors.shape)
            level = np.where(upper[donors], 1 - own[donors] * step, (1 - own[donors]) * step)
            draws[:, :, k] = np.where(level > 1 - chance, high, low)
        return draws


class GaussianConditional:
    r"""The exact law of X given Z where (Z, X) is jointly Gaussian: a simulator, nothing is fitted.

    .. math:: X \mid Z = z \sim N(\Sigma_{XZ} \Sigma_{ZZ}^{-1} z,\;
              \Sigma_{XX} - \Sigma_{XZ} \Sigma_{ZZ}^{-1} \Sigma_{ZX})

    Parameters
    ----------
    covariance : array, shape (q + d, q + d)
        Of (Z, X), means zero.
    q : int
        How many of the coordinates are Z.

    Raises
    ------
    InputError
        The covariance is not positive definite.

    Examples
    --------
    >>> law = GaussianConditional(np.array([[1.0, 0.6], [0.6, 1.0]]), 1)
    >>> law.mean(np.array([[2.0]])).round(2)
    array([[1.2]])
    """

    def __init__(self, covariance: Float[np.ndarray, "p p"], q: int) -> None:
        zz, zx, xx = covariance[:q, :q], covariance[:q, q:], covariance[q:, q:]
        try:
            np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError as error:
            raise InputError("the covariance is not positive definite") from error
        self.slope = np.linalg.solve(zz, zx)  # (q, d)
        self.covariance = xx - zx.T @ self.slope
        self._root = np.linalg.cholesky(self.covariance)

    def mean(self, z: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n d"]:
        """E[X | Z = z].

        Parameters
        ----------
        z : array, shape (n, q)
        """
        return z @ self.slope

    def sample(
        self, z: Float[np.ndarray, "n q"], m: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "m n d"]:
        """Independent draws.

        Parameters
        ----------
        z : array, shape (n, q)
        m : int
        rng : numpy Generator
        """
        noise = rng.standard_normal((m, len(z), len(self._root)))
        return self.mean(z) + noise @ self._root.T
