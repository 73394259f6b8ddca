"""A regression that is a linear smoother: one matrix gives fits, leverages and left-out residuals.

Being linear in Y it can be refitted to a thousand other outcomes by one matrix product, which is
what calibrating a test by refitting needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin

from practicum.errors import InputError

FAMILIES = ("linear", "additive", "joint")
PENALTIES = np.logspace(-4, 5, 19)
KNOTS = 6  # a Gaussian kernel of length 1 on a standardised column has no more directions


class KernelSmoother(RegressorMixin, BaseEstimator):
    r"""Kernel ridge regression whose kernel and penalty are chosen by leave-one-out error.

    Three kernels are tried on standardised inputs: linear; linear plus additive (a smooth function
    of each column); linear plus joint Gaussian (interactions). Fits are
    :math:`\hat Y = S Y` with :math:`S = 11^\top/n + K(K + \lambda I)^{-1}`, K centred, and the
    error of leaving a row out is known without refitting: :math:`(Y - SY)_i / (1 - S_{ii})`.
    Kernels enter through features, so that time grows as n p².

    Parameters
    ----------
    families : tuple of {"linear", "additive", "joint"}
        The kernels to choose from.
    shared : bool
        One kernel and penalty for all outputs (True), or one for each (False).
    landmarks : int
        Rows that carry the joint kernel (Nystroem); with fewer rows than these it is exact.

    Attributes
    ----------
    left_out_ : array, shape (n, k)
        Residual of each row under the fit without it (without its group, where groups are given).
    r2_ : array, shape (k,)
        Share of each output's variance explained, out of sample.
    choices_ : list of (str, float)
        Kernel and penalty of each output.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 3))
    >>> y = np.sin(2 * z[:, 0]) + z[:, 1] ** 2 + 0.1 * rng.normal(size=200)
    >>> smoother = KernelSmoother().fit(z, y)
    >>> bool(smoother.r2_[0] > 0.9)
    True
    """

    def __init__(
        self,
        families: tuple[str, ...] = FAMILIES,
        shared: bool = True,
        landmarks: int = 200,
    ) -> None:
        self.families = families
        self.shared = shared
        self.landmarks = landmarks

    def fit(
        self,
        z: Float[np.ndarray, "n q"],
        y: np.ndarray,
        groups: np.ndarray | None = None,
        like: KernelSmoother | None = None,
    ) -> KernelSmoother:
        """Choose kernel and penalty, and fit.

        Parameters
        ----------
        z : array, shape (n, q)
        y : array, shape (n,) or (n, k)
        groups : array, shape (n,), optional
            Rows of one group are left out together.
        like : KernelSmoother, optional
            Fitted to the same ``z``: its features are used again.

        Raises
        ------
        InputError
            Fewer than three rows, or lengths differ.
        """
        z, y = np.asarray(z, dtype=float), np.asarray(y, dtype=float)
        if len(z) != len(y) or len(z) < 3:
            raise InputError(
                f"{len(z)} rows of Z and {len(y)} of Y", "the same number, at least three"
            )
        self.n_features_in_ = z.shape[1]
        self._flat = y.ndim == 1
        outputs = y.reshape(len(y), -1)
        self._centre = z.mean(axis=0)
        spread = z.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._bases = {} if like is None else like._bases
        scaled = (z - self._centre) / self._spread
        for name in self.families:
            if name not in self._bases:
                self._bases[name] = _Basis(scaled, name, self.landmarks)
        self._groups = None if groups is None else np.unique(groups, return_inverse=True)[1]
        self._mean = outputs.mean(axis=0)
        centred = outputs - self._mean
        self.choices_ = self._choose(centred)
        self._solve(centred)
        return self

    def _choose(self, centred: np.ndarray) -> list[tuple[str, float]]:
        losses = [self._bases[f].left_out_losses(centred, self._groups) for f in self.families]
        loss = np.concatenate(losses)  # (families x penalties, outputs)
        if self.shared:
            variance = centred.var(axis=0)
            scaled = loss / np.where(variance > 0, variance, 1.0)
            best = np.full(centred.shape[1], scaled.sum(axis=1).argmin())
        else:
            best = loss.argmin(axis=0)
        count = len(PENALTIES)
        return [(self.families[b // count], float(PENALTIES[b % count])) for b in best]

    def _solve(self, centred: np.ndarray) -> None:
        self.left_out_ = np.empty_like(centred)
        self._solutions = []
        for choice in dict.fromkeys(self.choices_):
            columns = [k for k, c in enumerate(self.choices_) if c == choice]
            basis, penalty, part = self._bases[choice[0]], choice[1], centred[:, columns]
            residual, leverage = basis.residuals(part, penalty)
            left = basis.leave_out(residual, leverage, penalty, self._groups)
            self.left_out_[:, columns] = left
            self._solutions.append((choice[0], columns, basis.coefficients(part, penalty)))
        variance = centred.var(axis=0)
        mse = (self.left_out_**2).mean(axis=0)
        self.r2_ = 1 - np.divide(mse, variance, out=np.ones_like(mse), where=variance > 0)

    def hat_root(self, output: int = 0) -> Float[np.ndarray, "n p"]:
        """H with S = H Hᵀ: the in-sample fit of an output is ``H @ (H.T @ y)``.

        Parameters
        ----------
        output : int
            Which output; with ``shared=True`` all have the same.
        """
        name, penalty = self.choices_[output]
        basis = self._bases[name]
        root = basis.vectors * np.sqrt(basis.values / (basis.values + penalty))
        return np.column_stack([np.full(len(root), len(root) ** -0.5), root])

    def predict(self, z: Float[np.ndarray, "m q"]) -> np.ndarray:
        """The regression at new rows, shape (m,) or (m, k) as ``y`` was.

        Parameters
        ----------
        z : array, shape (m, q)
        """
        scaled = (np.asarray(z, dtype=float) - self._centre) / self._spread
        total = np.tile(self._mean, (len(scaled), 1))
        for name, columns, coefficients in self._solutions:
            total[:, columns] += self._bases[name].at(scaled) @ coefficients
        return total[:, 0] if self._flat else total


class _Basis:
    """Centred features of one family: their singular vectors and squared singular values.

    The kernels enter through features (Nystroem: a few knots a column for the additive one, a
    fixed random choice of rows for the joint one), so that nothing costs more than n p².
    """

    def __init__(self, z: np.ndarray, family: str, landmarks: int) -> None:
        self.maps = [_Linear(z)]
        if family == "additive":
            self.maps.append(_Additive(z))
        elif family == "joint":
            self.maps.append(_Joint(z, landmarks))
        features = self.features(z)
        self.means = features.mean(axis=0)
        features -= self.means
        if len(self.means) <= len(z):
            squared, right = eigh(features.T @ features, check_finite=False, driver="evd")
            kept = squared > 1e-11 * squared[-1]
            self.right = right[:, kept] / np.sqrt(squared[kept])
            self.vectors = features @ self.right
        else:
            squared, vectors = eigh(features @ features.T, check_finite=False, driver="evd")
            kept = squared > 1e-11 * squared[-1]
            self.vectors = vectors[:, kept]
            self.right = (features.T @ self.vectors) / squared[kept]
        # nothing is kept where every column is constant, and the fit is the mean
        self.values = squared[kept] * (len(z) / max(squared[kept].sum(), 1e-300))

    def features(self, z: np.ndarray) -> np.ndarray:
        """The family's features at rows ``z``, not centred."""
        return np.hstack([feature(z) for feature in self.maps])

    def at(self, z: np.ndarray) -> np.ndarray:
        """What new rows have in the place of the singular vectors."""
        return (self.features(z) - self.means) @ self.right

    def residuals(self, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """In-sample residuals of centred outputs, and leverages."""
        return self._residuals(y, self.vectors.T @ y, self.vectors**2, penalty)

    def _residuals(
        self, y: np.ndarray, projected: np.ndarray, squared: np.ndarray, penalty: float
    ) -> tuple[np.ndarray, np.ndarray]:
        shrink = self.values / (self.values + penalty)
        residual = y - self.vectors @ (shrink[:, None] * projected)
        return residual, squared @ shrink + 1 / len(y)

    def left_out_losses(self, y: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
        """Mean squared left-out residual, shape (penalties, outputs)."""
        projected, squared = self.vectors.T @ y, self.vectors**2
        losses = np.empty((len(PENALTIES), y.shape[1]))
        for i, penalty in enumerate(PENALTIES):
            residual, leverage = self._residuals(y, projected, squared, penalty)
            left = self.leave_out(residual, leverage, penalty, groups)
            losses[i] = np.einsum("ij,ij->j", left, left) / len(y)
        return losses

    def leave_out(
        self,
        residual: np.ndarray,
        leverage: np.ndarray,
        penalty: float,
        groups: np.ndarray | None,
    ) -> np.ndarray:
        """Residual of each row under the fit without its group (without itself: no groups)."""
        if groups is None:
            return residual / np.maximum(1 - leverage, 1e-10)[:, None]
        shrink = self.values / (self.values + penalty)

        def block(rows: np.ndarray) -> np.ndarray:
            part = self.vectors[rows]
            return (part * shrink) @ part.T + 1 / len(residual)

        return apply_blocks(residual, groups, -1.0, block)

    def coefficients(self, y: np.ndarray, penalty: float) -> np.ndarray:
        """Of the singular vectors."""
        return (self.values / (self.values + penalty))[:, None] * (self.vectors.T @ y)


class _Linear:
    """The columns themselves."""

    def __init__(self, z: np.ndarray) -> None:
        self.scale = 1 / np.sqrt(z.shape[1])

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return z * self.scale


class _Additive:
    """A Gaussian kernel of length 1 on each column, through knots at its quantiles."""

    def __init__(self, z: np.ndarray) -> None:
        levels = (np.arange(KNOTS) + 0.5) / KNOTS
        self.scale = 1 / np.sqrt(z.shape[1])
        self.columns = []
        for k, knots in enumerate(np.quantile(z, levels, axis=0).T):
            knots = np.unique(knots)
            gram = np.exp(-0.5 * (knots[:, None] - knots) ** 2) + 1e-8 * np.eye(len(knots))
            inverse = np.linalg.inv(np.linalg.cholesky(gram)).T
            self.columns.append((k, knots, inverse))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        parts = [
            np.exp(-0.5 * (z[:, k, None] - knots) ** 2) @ inverse
            for k, knots, inverse in self.columns
        ]
        return np.hstack(parts) * self.scale


class _Joint:
    """A Gaussian kernel on all columns, its length the root of their number."""

    def __init__(self, z: np.ndarray, landmarks: int) -> None:
        rows = np.arange(len(z))
        if len(z) > landmarks:
            rows = np.random.default_rng(0).permutation(len(z))[:landmarks]
        self.landmarks = z[rows]
        values, vectors = eigh(self.kernel(self.landmarks), check_finite=False, driver="evd")
        kept = values > 1e-8 * values[-1]
        self.whiten = vectors[:, kept] / np.sqrt(values[kept])

    def kernel(self, z: np.ndarray) -> np.ndarray:
        """Between rows ``z`` and the landmarks."""
        return np.exp(cdist(z, self.landmarks, "sqeuclidean") / (-2 * z.shape[1]))

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return self.kernel(z) @ self.whiten


def apply_blocks(
    values: np.ndarray,
    groups: np.ndarray,
    power: float,
    block: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """``(I - S_gg)^power v_g`` for every group g, where ``block(rows)`` is S_gg."""
    out = np.empty_like(values)
    for group in range(groups.max() + 1):
        rows = np.flatnonzero(groups == group)
        if not rows.size:
            continue
        eigenvalues, vectors = eigh(np.eye(rows.size) - block(rows), check_finite=False)
        scaled = np.maximum(eigenvalues, 1e-10)[:, None] ** power * (vectors.T @ values[rows])
        out[rows] = vectors @ scaled
    return out
