"""Regressions of Y on Z: a linear smoother that refits for free, a known mean, or cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from practicum.errors import InputError
from practicum.stats.cmi_test.smoother import KernelSmoother

OVERFIT = 0.99


class RelaxedLasso(RegressorMixin, BaseEstimator):
    """LASSO chooses the columns (5-fold cross-validation), least squares fits them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 10))
    >>> RelaxedLasso().fit(z, 2 * z[:, 3]).coef_.round(2)[3]
    np.float64(2.0)
    """

    def fit(self, z: Float[np.ndarray, "n q"], y: Float[np.ndarray, " n"]) -> RelaxedLasso:
        """Fit to one outcome.

        Parameters
        ----------
        z : array, shape (n, q)
        y : array, shape (n,)
        """
        chosen = np.flatnonzero(LassoCV(cv=5).fit(z, y).coef_)
        self.coef_, self.intercept_ = np.zeros(z.shape[1]), float(y.mean())
        if chosen.size:
            line = LinearRegression().fit(z[:, chosen], y)
            self.coef_[chosen], self.intercept_ = line.coef_, line.intercept_
        return self

    def predict(self, z: Float[np.ndarray, "n q"]) -> Float[np.ndarray, " n"]:
        """The line at new rows.

        Parameters
        ----------
        z : array, shape (n, q)
        """
        return z @ self.coef_ + self.intercept_


class Smoothed:
    """A :class:`KernelSmoother` of all outputs, with its hat matrix's root."""

    refits, folded = True, False

    def __init__(
        self, smoother: KernelSmoother, z: np.ndarray, y: np.ndarray, groups: np.ndarray | None
    ) -> None:
        self.smoother = smoother.set_params(shared=True).fit(z, y, groups)
        self.root = smoother.hat_root()
        self.left_out = smoother.left_out_
        self.r2 = float(smoother.r2_.mean())


class CrossFitted:
    """An estimator fitted outside each fold, or a known mean (no estimator)."""

    refits = False

    def __init__(self, estimator: Any, z: np.ndarray, y: np.ndarray, fold: np.ndarray) -> None:
        self.estimator, self.z, self.fold = estimator, z, fold
        self.folded = estimator is not None
        self.fitted = self.refit(y[:, :, None])[:, :, 0]
        self.left_out = y - self.fitted
        mse = (self.left_out**2).sum(axis=0)
        self.r2 = float((1 - mse / ((y - y.mean(axis=0)) ** 2).sum(axis=0)).mean())

    def refit(self, outcomes: Float[np.ndarray, "n k b"]) -> Float[np.ndarray, "n k b"]:
        """Out-of-fold fits of each outcome."""
        fitted = np.empty_like(outcomes)
        folds = [self.fold == k for k in range(int(self.fold.max()) + 1)]
        if hasattr(self.estimator, "fit_stack"):
            tasks = [
                (outcomes[~inside, :, b], self.z[~inside])
                for b in range(outcomes.shape[2])
                for inside in folds
            ]
            models = iter(self.estimator.fit_stack(tasks, list(range(len(tasks)))))
            for b in range(outcomes.shape[2]):
                for inside in folds:
                    predicted = next(models).predict(self.z[inside])
                    fitted[inside, :, b] = predicted.reshape(-1, outcomes.shape[1])
            return fitted
        # the self-check fits hundreds of models to a few hundred rows: threads would only wait
        with threadpool_limits(limits=1, user_api="openmp"):
            for inside in folds:
                for k, b in np.ndindex(outcomes.shape[1:]):
                    model = clone(self.estimator).fit(self.z[~inside], outcomes[~inside, k, b])
                    fitted[inside, k, b] = np.ravel(model.predict(self.z[inside]))
        return fitted


class KnownMean(CrossFitted):
    """The true mean of Y given Z: nothing is fitted, and refitting changes nothing."""

    def __init__(self, mean: Any, z: np.ndarray, y: np.ndarray) -> None:
        values = np.asarray(mean(z), dtype=float).reshape(len(z), -1)
        if values.shape != y.shape:
            raise InputError(f"the known mean has shape {values.shape}, Y has {y.shape}")
        self.fitted, self.folded = values, False
        self.r2 = float("nan")

    def refit(self, outcomes: Float[np.ndarray, "n k b"]) -> Float[np.ndarray, "n k b"]:
        """The known mean, whatever the outcome."""
        return np.broadcast_to(self.fitted[:, :, None], outcomes.shape)


def about_fit(r2: float) -> tuple[str, ...]:
    """What a person should know about the regression of Y on Z."""
    if r2 < 0:
        return (
            f"the regression of Y on Z is worse than the mean of Y (out-of-sample R² = {r2:.3f})",
        )
    if r2 > OVERFIT:
        return (f"Z leaves almost nothing of Y unexplained (out-of-sample R² = {r2:.4f})",)
    return ()


MISFIT = 0.02


def about_misfit(
    left_out: Float[np.ndarray, "n k"],
    z: Float[np.ndarray, "n q"],
    groups: np.ndarray | None = None,
) -> tuple[str, ...]:
    """A note where a shallow tree still predicts what the regression leaves.

    Jumps and interactions in Z that X follows too are then taken for an effect of X, and the
    self-check does not see it: its data come from the same regression.

    Parameters
    ----------
    left_out : array, shape (n, k)
        Out-of-sample residuals of Y given Z.
    z : array, shape (n, q)
    groups : array of int, shape (n,), optional

    Raises
    ------
    ValueError
        Lengths differ.

    Examples
    --------
    >>> z = np.linspace(-1, 1, 200)[:, None]
    >>> len(about_misfit(np.sign(z), z)), len(about_misfit(np.cos(99 * z), z))
    (1, 0)
    """
    n = len(z)
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=max(10, n // 20), random_state=0)
    split = KFold(5, shuffle=True, random_state=0) if groups is None else GroupKFold(5)
    predicted = cross_val_predict(tree, z, left_out, cv=split, groups=groups).reshape(n, -1)
    left = ((left_out - predicted) ** 2).sum(axis=0)
    r2 = float((1 - left / ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)).max())
    if not r2 > MISFIT:
        return ()
    return (
        f"a tree on Z still predicts {100 * r2:.0f} % of what the regression of Y leaves: jumps or "
        "interactions in Z that X follows too would be taken for an effect of X, and the "
        "self-check cannot see it; compare with regression='boosting' (--regression boosting)",
    )


def make_regression(
    choice: Any,
    z: np.ndarray,
    y: np.ndarray,
    fold: np.ndarray,
    groups: np.ndarray | None,
) -> Smoothed | CrossFitted:
    """The fitted regression that ``choice`` names.

    Parameters
    ----------
    choice : str, estimator or callable
    z, y : arrays, shapes (n, q), (n, k)
    fold : array of int, shape (n,)
    groups : array of int, shape (n,), or None

    Raises
    ------
    InputError
        The choice is none of these.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1))
    >>> len(make_regression("smoother", z, y, np.arange(40) % 2, None).root)
    40
    """
    named: dict[str, Any] = {
        "smoother": KernelSmoother,
        "lasso": RelaxedLasso,
        "boosting": lambda: HistGradientBoostingRegressor(
            max_depth=3, min_samples_leaf=10, learning_rate=0.1, early_stopping=False
        ),
    }
    if isinstance(choice, str):
        if choice == "network":
            from practicum.stats.cmi_test.networks import NetworkRegressor

            choice = NetworkRegressor()
        elif choice in named:
            choice = named[choice]()
        else:
            raise InputError(f"regression={choice!r}", f"one of {', '.join([*named, 'network'])}")
    if isinstance(choice, KernelSmoother):
        return Smoothed(clone(choice), z, y, groups)
    if hasattr(choice, "predict") and hasattr(choice, "fit"):
        return CrossFitted(choice, z, y, fold)
    if callable(choice):
        return KnownMean(choice, z, y)
    raise InputError(
        f"regression={choice!r} is neither a name, nor an estimator, nor a function of Z"
    )


__all__: Sequence[str] = ("CrossFitted", "KnownMean", "RelaxedLasso", "Smoothed", "make_regression")
