"""The two Gaussian designs on which tests of conditional mean independence are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import toeplitz

from practicum.errors import InputError
from practicum.stats.cmi_test.generators import GaussianConditional

DESIGNS = ("null", "linear-sparse", "linear-dense", "even-sparse", "even-dense")


@dataclass(frozen=True)
class GaussianDesign:
    r"""Y from correlated Gaussian Z and X, 25 columns each, with everything known.

    .. math::

        (Z, X) \sim N(0, 0.3^{|i-j|}), \qquad Y = Z_1 + Z_2 + e(X^\top b) + 0.5\,\varepsilon

    with :math:`e(t) = 0` (``null``), :math:`t` (``linear``) or :math:`t^2` (``even``). Sparse and
    dense effects share the size a: :math:`a/\sqrt2` on 2 and a/5 on 25 columns (linear),
    :math:`a/\sqrt5` on 5 and :math:`a/\sqrt{12}` on 12 columns (even). Examples A1 and A2 of Zhang
    et al. (2025).

    Parameters
    ----------
    name : str
        One of ``null``, ``linear-sparse``, ``linear-dense``, ``even-sparse``, ``even-dense``.
    size : float
        a; the published sizes are 0.2 (linear) and 0.5 (even).
    d : int
        Columns of Z and of X.

    Raises
    ------
    InputError
        There is no such design.

    Examples
    --------
    >>> design = GaussianDesign("even-sparse", 0.5)
    >>> x, y, z = design.draw(200, np.random.default_rng(0))
    >>> x.shape, y.shape, z.shape
    ((200, 25), (200, 1), (200, 25))
    """

    name: str
    size: float = 0.0
    d: int = 25

    def __post_init__(self) -> None:
        if self.name not in DESIGNS:
            raise InputError(f"there is no design {self.name!r}", f"designs: {', '.join(DESIGNS)}")

    @property
    def covariance(self) -> Float[np.ndarray, "p p"]:
        """Of (Z, X)."""
        return toeplitz(0.3 ** np.arange(2 * self.d))

    @property
    def conditional(self) -> GaussianConditional:
        """The exact sampler of X given Z."""
        return GaussianConditional(self.covariance, self.d)

    @property
    def effect(self) -> Float[np.ndarray, " d"]:
        """The coefficients b."""
        active = {"linear-sparse": 2, "linear-dense": self.d, "even-sparse": 5, "even-dense": 12}
        count = min(active.get(self.name, 0), self.d)
        b = np.zeros(self.d)
        b[:count] = self.size / np.sqrt(max(count, 1))
        return b

    def draw(
        self, n: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n 1"], Float[np.ndarray, "n d"]]:
        """X, Y, Z.

        Parameters
        ----------
        n : int
        rng : numpy Generator
        """
        both = rng.standard_normal((n, 2 * self.d)) @ np.linalg.cholesky(self.covariance).T
        z, x = both[:, : self.d], both[:, self.d :]
        signal = x @ self.effect
        if self.name.startswith("even"):
            signal = signal**2
        y = z[:, 0] + z[:, 1] + signal + 0.5 * rng.standard_normal(n)
        return x, y[:, None], z

    def mean_given_z(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """The exact E[Y | Z = z].

        Parameters
        ----------
        z : array, shape (n, d)
        """
        law, b = self.conditional, self.effect
        signal = law.mean(z) @ b
        if self.name.startswith("even"):
            signal = signal**2 + b @ law.covariance @ b
        return (z[:, 0] + z[:, 1] + signal)[:, None]
