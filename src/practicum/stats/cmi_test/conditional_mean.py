"""The test of conditional mean independence: the estimator, its result, and the function."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest
from sklearn.base import BaseEstimator

from practicum.errors import InputError
from practicum.stats.cmi_test.calibration import (
    NullModel,
    RefitNull,
    empirical_size,
    multiplier_null,
    p_value,
)
from practicum.stats.cmi_test.generators import ResidualSampler
from practicum.stats.cmi_test.inputs import Rows, determined_by
from practicum.stats.cmi_test.kernels import (
    CentredKernel,
    centred_kernel,
    pair_matrix,
    pooled_kernel,
    standardise,
)
from practicum.stats.cmi_test.regressions import (
    CrossFitted,
    about_fit,
    about_misfit,
    make_regression,
)
from practicum.stats.cmi_test.sampling import ALL_DRAWS, Sampler, about_wide
from practicum.stats.cmi_test.smoother import KernelSmoother

NO_VARIATION, LITTLE = 1 - 1e-7, 0.99  # R²: none is left; what is left may be the smoother's error
NAMED = 5

# The published settings (notebooks of Zhang et al. 2025); the networks' constants are theirs too.
PAPER: Mapping[str, Any] = {
    "regression": "network",
    "generator": "network",
    "coordinates": "raw",
    "draws": 100,
    "folds": 2,
    "pairs": "within",
    "null": "multiplier",
    "n_boot": 1000,
    "scale": "paper",
}


@dataclass(frozen=True)
class CMIResult:
    """What one test says.

    Attributes
    ----------
    statistic : float
        T, in units of the standardised Y.
    pvalue : float
        Probability of a T at least this large if the mean of Y does not depend on X given Z. It is
        1 where there is nothing to test: the null hypothesis then holds whatever Y does.
    null : array, shape (n_boot,)
        Draws of T under the null.
    null_kind : {"refit", "multiplier"}
    n, folds, draws : int
        Rows used, folds of the cross-fitting (0: left out row by row), draws of X a row.
    r2_y_given_z, r2_x_given_z : float
        Out-of-sample R² of the two regressions (nan where nothing was fitted).
    mmd_x_given_z : float
        How far the draws are from X given Z, on rows the generator has not seen (conditional MMD²,
        zero on average for exact draws); ``mmd_sd`` is its standard deviation then. Residuals
        borrowed from the tested rows themselves make it negative by about 1/n.
    mmd_reference : float or None
        The same for the residual sampler, where another generator was fitted.
    size_check : float or None
        Share of null data sets, made from these rows, on which the test rejects at 5 %.
    n_check : int
        How many such data sets.
    seconds : float
    preset : str
    notes : tuple of str
        What a person should know before reading the p-value.
    nothing_left : {"", "X", "Y"}
        Which of the two is a function of Z, so that there is nothing to test.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 2)); x = z + rng.normal(size=(100, 2))
    >>> result = conditional_mean_test(x, x[:, 0] + z[:, 0], z, random_state=0)
    >>> result.pvalue < 0.01, result.n
    (True, 100)
    """

    statistic: float
    pvalue: float
    null: np.ndarray = field(repr=False)
    null_kind: str
    n: int
    folds: int
    draws: int
    r2_y_given_z: float
    r2_x_given_z: float
    mmd_x_given_z: float
    mmd_sd: float
    mmd_reference: float | None
    size_check: float | None
    n_check: int
    seconds: float
    preset: str
    notes: tuple[str, ...] = ()
    nothing_left: Literal["", "X", "Y"] = ""

    @property
    def conclusive(self) -> bool:
        """False where p cannot be trusted.

        There is nothing to test, or the self-check rejects clearly more than 10 % of null data
        sets, or the generator is clearly worse than borrowing residuals would be.
        """
        return not self.nothing_left and not self._doubts()

    def _doubts(self) -> str:
        if self._rejects_more_than(0.10):
            return (
                f"on {self.n_check} null data sets made from these rows the test rejected "
                f"{self.size_check:.0%} at the 5 % level, so that p = {self.pvalue:.3g} says "
                "nothing; use more rows, or fewer columns"
            )
        reference = self.mmd_reference
        if reference is not None and self.mmd_x_given_z > max(reference, 2 * self.mmd_sd):
            return (
                "the generator misses the law of X given Z by more than borrowed residuals do; "
                "train it longer, or use generator='residual'"
            )
        return ""

    def _rejects_more_than(self, share: float) -> bool:
        """Whether the self-check shows that, beyond its own chance."""
        if self.size_check is None:
            return False
        hits = round(self.size_check * self.n_check)
        return bool(binomtest(hits, self.n_check, share, "greater").pvalue < 0.025)

    def sentence(
        self,
        x: str = "X",
        y: str = "Y",
        z: str = "Z",
        level: float = 0.05,
        adjusted: float | None = None,
    ) -> str:
        """The result in plain words.

        Parameters
        ----------
        x, y, z : str
            What the columns are called.
        level : float
            Below it a p-value counts as evidence.
        adjusted : float, optional
            The p-value adjusted for several tests, which then decides.
        """
        if self.nothing_left == "X":
            return f"{x} adds no variation given {z}: there is nothing to test (p = 1)."
        if self.nothing_left == "Y":
            return f"{z} already fixes {y}: nothing is left for {x} to predict (p = 1)."
        if not self.conclusive:
            return f"No conclusion about {x}: {self._doubts()}."
        decides = self.pvalue if adjusted is None else adjusted
        p = f"p = {self.pvalue:.3g}"
        if decides != self.pvalue:
            p += f", adjusted {decides:.3g}"
        if decides <= level:
            return f"Knowing {z}, {x} still helps to predict the mean of {y} ({p})."
        return (
            f"No evidence that, knowing {z}, {x} helps to predict the mean of {y} ({p}); "
            "this is not evidence that it does not."
        )

    def size_sentence(self) -> str:
        """The self-check in plain words."""
        if self.size_check is None:
            return "Self-check: not run."
        found = (
            f"Self-check: on {self.n_check} null data sets made from these rows the test rejected "
            f"{self.size_check:.1%} at the 5 % level."
        )
        if self._rejects_more_than(0.05):
            found += " That is too often: take a p-value near 0.05 with care."
        return found


class ConditionalMeanTest(BaseEstimator):
    r"""Does X help to predict the mean of Y once Z is known?

    The null hypothesis is :math:`E[Y \mid X, Z] = E[Y \mid Z]`. The statistic is

    .. math::

        T = \frac{1}{n-1} \sum_{i \ne j} U_{ij}\, \hat e_i^\top \hat e_j\, k(Z_i, Z_j)

    with :math:`\hat e = Y - \hat g(Z)` and U the kernel of X centred by draws of X given Z
    (:func:`centred_kernel`). Zhang, Huang, Yang, Shao: Testing conditional mean independence using
    generative neural networks, ICML 2025. An error in the regression or in the generator alone
    leaves the mean of T at zero.

    Four things differ from the paper by default (``preset="paper"`` undoes all of them):

    * the regression and the generator are leave-one-out kernel smoothers instead of networks;
    * all pairs of rows enter, not only pairs within a fold: half the sample is enough;
    * the kernel sees X minus its mean given Z. The hypothesis is the same, because (X - m(Z), Z)
      holds what (X, Z) holds; but a candidate that Z explains well keeps its power, where a kernel
      on X itself has a bandwidth far too wide for what is left;
    * the null distribution refits the regression, which removes the over-rejection that
      estimating it causes.

    Parameters
    ----------
    regression : {"smoother", "lasso", "boosting", "network"}, estimator or callable
        Of Y on Z. A scikit-learn regressor is cross-fitted; a callable is the known mean
        :math:`g(z)`, shape (n, q) to (n,) or (n, k).
    generator : {"residual", "network"} or object
        Of X given Z, see :class:`ResidualSampler`. An object with ``sample(z, m, rng)`` and no
        ``fit`` is a simulator of the true law.
    coordinates : {"residual", "raw"}
        What the kernel of X sees: X minus its conditional mean, or X itself.
    draws : int or "all"
        Draws of X a row; time grows with them, memory does not. ``all`` averages over every
        residual at once, in closed form, where the generator is the residual sampler on residual
        coordinates without two-valued columns; elsewhere it takes 32 draws.
    folds : int
        For regressions and generators that cannot leave rows out by themselves.
    pairs : {"all", "within"}
        Pairs of rows that enter T: all, or only pairs of one fold.
    null : {"auto", "refit", "multiplier"}
        How T is drawn under the null; ``auto`` refits where the regression is a smoother.
    n_boot : int
        Draws of the null.
    n_check : int
        Null data sets of the self-check; 0 leaves it out.
    scale : {"common", "paper"}
        Standardise draws and fits with the data's mean and deviation, or each with its own.
    missing : {"refuse", "drop"}
        What to do with rows that have a missing value.
    preset : {None, "paper"}
        ``paper``: every parameter that is at its default takes the published value (networks
        trained on two folds; needs PyTorch; minutes on a CPU).
    random_state : int, numpy Generator or None

    Attributes
    ----------
    result_ : CMIResult
    pvalue_, statistic_ : float

    Raises
    ------
    InputError
        From ``fit``: what cannot be used, by name.

    Examples
    --------
    Does a patient's body mass index matter for disease progression, given the other measurements?

    >>> from sklearn.datasets import load_diabetes
    >>> data = load_diabetes(as_frame=True)
    >>> test = ConditionalMeanTest(random_state=0)
    >>> _ = test.fit(data.data[["bmi"]], data.target, data.data.drop(columns="bmi"))
    >>> test.pvalue_ < 0.01
    True
    """

    def __init__(
        self,
        regression: Any = "smoother",
        generator: Any = "residual",
        *,
        coordinates: Literal["residual", "raw"] = "residual",
        draws: int | Literal["all"] = "all",
        folds: int = 5,
        pairs: Literal["all", "within"] = "all",
        null: Literal["auto", "refit", "multiplier"] = "auto",
        n_boot: int = 999,
        n_check: int = 100,
        scale: Literal["common", "paper"] = "common",
        missing: Literal["refuse", "drop"] = "refuse",
        preset: Literal["paper"] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.regression = regression
        self.generator = generator
        self.coordinates = coordinates
        self.draws = draws
        self.folds = folds
        self.pairs = pairs
        self.null = null
        self.n_boot = n_boot
        self.n_check = n_check
        self.scale = scale
        self.missing = missing
        self.preset = preset
        self.random_state = random_state

    def fit(self, X: Any, y: Any, Z: Any = None, groups: Any = None) -> ConditionalMeanTest:
        """Run the test.

        Parameters
        ----------
        X, y, Z : arrays or DataFrames, shapes (n, d), (n,) or (n, k), (n, q)
            Text columns of a DataFrame are encoded as categories. Without Z the null hypothesis is
            E[Y | X] = E[Y].
        groups : array, shape (n,), optional
            Rows that belong together (a patient, a class): left out together, one sign for all,
            no pairs among them.

        Returns
        -------
        self

        Raises
        ------
        InputError
            Missing values, constant columns, fewer than 60 rows, text that is no category, ...

        Warns
        -----
        UserWarning
            A column of X or of Y is a function of Z, exactly or nearly; or the result is not
            ``conclusive``. ``result_.notes`` has these and whatever else should be known.
        """
        started = time.perf_counter()
        options = self._options()
        data = Rows.of(X, y, Z, groups, self.missing)
        streams = np.random.default_rng(self.random_state).spawn(4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            result, said = self._test(data, options, streams)
        notes = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        self.result_ = replace(
            result,
            notes=tuple(dict.fromkeys([*data.notes, *said, *result.notes, *notes])),
            seconds=time.perf_counter() - started,
        )
        self.pvalue_, self.statistic_ = self.result_.pvalue, self.result_.statistic
        self._data = data
        if self.result_.nothing_left:
            said = [f"{'; '.join(said)}: there is nothing to test, and p is 1"]
        elif not self.result_.conclusive:
            said = [*said, self.result_.sentence()]
        for words in said:
            warnings.warn(words, UserWarning, stacklevel=2)
        return self

    def effect(self) -> float:
        """Share of the variance of Y that Z leaves and X explains, out of sample (partial R²).

        By two leave-one-out smoothers of Y, on (X, Z) and on Z; negative values mean that the
        smoother finds nothing, which the test may still do.

        Raises
        ------
        InputError
            Before ``fit``.
        """
        if not hasattr(self, "_data"):
            raise InputError("effect() before fit()", "call fit first")
        d = self._data
        without = KernelSmoother().fit(d.z, d.y, d.groups).left_out_
        both = KernelSmoother().fit(np.hstack([d.x, d.z]), d.y, d.groups).left_out_
        return float(1 - (both**2).sum() / (without**2).sum())

    def _options(self) -> dict[str, Any]:
        """Parameters, after the preset."""
        options = {name: getattr(self, name) for name in PAPER}
        if self.preset == "paper":
            default = type(self)()
            for name, value in PAPER.items():
                if options[name] == getattr(default, name):
                    options[name] = value
        elif self.preset is not None:
            raise InputError(f"preset={self.preset!r}", "preset is None or 'paper'")
        allowed = {
            "coordinates": ("residual", "raw"),
            "pairs": ("all", "within"),
            "null": ("auto", "refit", "multiplier"),
            "scale": ("common", "paper"),
        }
        for name, values in allowed.items():
            if options[name] not in values:
                raise InputError(f"{name}={options[name]!r}", f"{name} is one of {values}")
        counts = {name: options[name] for name in ("draws", "folds", "n_boot")}
        for name, least in (("draws", 1), ("folds", 2), ("n_boot", 19), ("n_check", 0)):
            value = {**counts, "n_check": self.n_check}[name]
            if name == "draws" and value == "all":
                continue
            if not isinstance(value, Integral) or value < least:
                words = " or 'all'" if name == "draws" else ""
                raise InputError(
                    f"{name}={value!r}", f"a whole number of at least {least}{words} is needed"
                )
        seed = self.random_state
        if isinstance(seed, Integral) and seed < 0:
            raise InputError(f"random_state={seed}", "zero, a positive number or None")
        if self.missing not in ("refuse", "drop"):
            raise InputError(f"missing={self.missing!r}", "missing is 'refuse' or 'drop'")
        return options

    def _test(
        self, data: Rows, options: dict[str, Any], streams: Sequence[np.random.Generator]
    ) -> tuple[CMIResult, list[str]]:
        """The result, and what is to be said aloud."""
        fold = _folds(data.n, options["folds"], data.groups, streams[0], self.preset)
        found = _Nuisances.of(data, options, fold, streams[1])
        data, regression, sampler = found.data, found.regression, found.sampler
        within = options["pairs"] == "within"
        kind = _kind_of_null(options, regression)
        result = CMIResult(
            statistic=0.0,
            pvalue=1.0,
            null=np.zeros(options["n_boot"]),
            null_kind=kind,
            n=data.n,
            folds=int(fold.max()) + 1 if within or sampler.folded or regression.folded else 0,
            draws=0,
            r2_y_given_z=regression.r2,
            r2_x_given_z=float("nan") if sampler.r2 is None else float(sampler.r2.mean()),
            mmd_x_given_z=float("nan"),
            mmd_sd=float("nan"),
            mmd_reference=None,
            size_check=None,
            n_check=0,
            seconds=0.0,
            preset=self.preset or "default",
            nothing_left=found.nothing_left,
        )
        if found.nothing_left:
            return result, found.fixed
        blocks = fold if within else None
        pairs, draws = self._pairs(sampler, data, options, blocks)
        count = len(pairs) * (len(pairs) - 1)
        distance, spread = pairs.sum() / count, np.sqrt(2 * np.vdot(pairs, pairs)) / count
        reference = None
        if sampler.fitted and not isinstance(sampler.source, ResidualSampler):
            plain = Sampler.cross_fitted(ResidualSampler(), data, fold, streams[1])
            reference = float(self._pairs(plain, data, options, blocks)[0].sum() / count)
        pairs *= _pair_weights(blocks, data)
        scaling = _Scaling(data.y, blocks, options["scale"])
        model, outer, inner = _nulls(kind, regression, pairs, scaling, data)
        null = model.draw(options["n_boot"], streams[2])
        statistic, size = float(model.statistic), None
        if self.n_check:
            size = empirical_size(outer, null, inner, self.n_check, streams[3])
        result = replace(
            result,
            statistic=statistic,
            pvalue=p_value(statistic, null),
            null=null,
            draws=draws,
            mmd_x_given_z=float(distance),
            mmd_sd=float(spread),
            mmd_reference=reference,
            size_check=size,
            n_check=self.n_check,
            notes=tuple(found.notes()),
        )
        return result, [*found.fixed, *found.nearly]

    def _pairs(
        self, sampler: Sampler, data: Rows, options: dict[str, Any], blocks: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        """A, each block standardised and given bandwidths by itself; and the draws it took."""
        centre = sampler.mean() if options["coordinates"] == "residual" else np.zeros_like(data.x)
        x, count = data.x - centre, options["draws"]
        pooled = (
            count == "all" and options["coordinates"] == "residual" and sampler.pool is not None
        )
        if count == "all":
            count = ALL_DRAWS
        width = 0.0 if data.conditional else 1.0  # zeros have no median distance
        if blocks is None:
            z = data.standard_z
            if pooled:
                return pair_matrix(pooled_kernel(standardise(sampler.pool)), z, width), data.n
            draws = (standardise(draw - centre, x) for draw in sampler.stream(count))
            return pair_matrix(centred_kernel(standardise(x), draws), z, width), count
        own = options["scale"] == "paper"
        members = [np.flatnonzero(blocks == block) for block in range(int(blocks.max()) + 1)]
        kernels = [CentredKernel(standardise(x[rows])) for rows in members]
        for draw in sampler.stream(count):
            for rows, kernel in zip(members, kernels):
                part = (draw - centre)[rows]
                kernel.add(standardise(part, None if own else x[rows]))
        pairs = np.zeros((data.n, data.n))
        for rows, kernel in zip(members, kernels):
            z = standardise(data.z[rows]) if data.conditional else data.z[rows]
            pairs[np.ix_(rows, rows)] = pair_matrix(kernel.matrix(), z, width)
        return pairs, count


# --- nuisances -----------------------------------------------------------------------------------


@dataclass
class _Nuisances:
    """The two regressions, on the columns of X and Y that Z does not fix."""

    data: Rows
    regression: Any
    sampler: Sampler
    nothing_left: Literal["", "X", "Y"]
    fixed: list[str]
    nearly: list[str]

    @classmethod
    def of(
        cls, data: Rows, options: dict[str, Any], fold: np.ndarray, rng: np.random.Generator
    ) -> _Nuisances:
        """Fit both; again without the columns that turn out to be functions of Z.

        What is left of such a column is rounding, or the smoother's own error, which the kernel
        would blow up to unit variance.
        """
        regression, sampler = _fitted(data, options, fold, rng)
        fixed: list[str] = []
        nearly: list[str] = []
        known_mean = not hasattr(regression, "left_out")
        of_y = (
            None if known_mean else 1 - (regression.left_out**2).mean(axis=0) / data.y.var(axis=0)
        )
        kept = data
        checked: tuple[tuple[Literal["X", "Y"], np.ndarray, Any, bool], ...] = (
            ("X", data.x, sampler.r2, sampler.fitted),
            ("Y", data.y, of_y, not known_mean),
        )
        for role, values, r2, estimated in checked:
            column, share = determined_by(values, data.z)
            if r2 is not None:
                share = np.maximum(share, r2)
            gone = (column >= 0) | (share >= NO_VARIATION)
            of = [f"it is a function of {data.names['Z'][k]!r}" if k >= 0 else "" for k in column]
            if gone.all():
                return cls(data, regression, sampler, role, _fixed(data, role, gone, of), [])
            if gone.any() and estimated:
                fixed += [f"{note}; left out" for note in _fixed(data, role, gone, of)]
                kept = kept.only(role, ~gone)
            if role == "X":
                near = np.flatnonzero(~gone & (share >= LITTLE))
                nearly = [_nearly(data.names["X"][k], share[k]) for k in near[:NAMED]]
        if kept is not data:
            regression, sampler = _fitted(kept, options, fold, rng)
        return cls(kept, regression, sampler, "", fixed, nearly)

    def notes(self) -> Iterator[str]:
        """What a person should know about the fits."""
        if not self.data.conditional:
            return
        yield from about_fit(self.regression.r2)
        yield from about_wide(self.sampler.r2, self.data.z.shape[1])
        if hasattr(self.regression, "left_out"):
            yield from about_misfit(self.regression.left_out, self.data.z, self.data.groups)


def _fitted(
    data: Rows, options: dict[str, Any], fold: np.ndarray, rng: np.random.Generator
) -> tuple[Any, Sampler]:
    """The regression of Y and the generator of X, which share features of Z."""
    regression = make_regression(options["regression"], data.z, data.y, fold, data.groups)
    like = getattr(regression, "smoother", None)
    return regression, Sampler.of(options["generator"], data, fold, rng, like)


def _fixed(data: Rows, role: str, gone: np.ndarray, of: list[str]) -> list[str]:
    """The columns of X or Y that Z fixes, and why."""
    notes = [
        f"no variation given Z in {role} column {data.names[role][k]!r}: {of[k] or 'R² = 1'}"
        for k in np.flatnonzero(gone)
    ]
    more = len(notes) - NAMED
    return notes[:NAMED] + ([f"nor in {more} more columns of {role}"] if more > 0 else [])


def _nearly(name: str, share: float) -> str:
    return (
        f"X column {name!r} is nearly a function of Z (R² = {np.floor(1000 * share) / 1000:.3f}): "
        "if it is one, nothing is left to test, and p is about what the regression of X on Z misses"
    )


def _kind_of_null(options: dict[str, Any], regression: Any) -> str:
    kind = options["null"]
    if kind == "auto":
        kind = "refit" if regression.refits else "multiplier"
    if kind == "refit" and not regression.refits:
        raise InputError(
            "null='refit' needs a regression that is a linear smoother",
            "use regression='smoother', or null='multiplier'",
        )
    if options["scale"] == "paper" and (kind == "refit" or options["pairs"] == "all"):
        raise InputError(
            "scale='paper' goes with pairs='within' and null='multiplier'", "or use 'common'"
        )
    return kind


# --- pairs and nulls ----------------------------------------------------------------------------


def _folds(
    n: int,
    folds: int,
    groups: np.ndarray | None,
    rng: np.random.Generator,
    preset: str | None,
) -> np.ndarray:
    """Fold of each row: groups stay together; contiguous blocks in the published form."""
    if groups is None:
        fold = np.arange(n) * folds // n
        return fold if preset == "paper" else rng.permutation(fold)
    order = rng.permutation(int(groups.max()) + 1)
    return (order * folds // len(order))[groups]


def _pair_weights(blocks: np.ndarray | None, data: Rows) -> np.ndarray:
    """1/(n - 1); within folds the mean over folds of theirs; none within a group."""
    if blocks is None:
        weights = np.full((data.n, data.n), 1 / (data.n - 1))
    else:
        sizes = np.bincount(blocks)
        each = 1 / (len(sizes) * (sizes - 1.0))
        weights = (blocks[:, None] == blocks) * each[blocks][:, None]
    if data.groups is not None:
        weights[data.groups[:, None] == data.groups] = 0.0
    return weights


@dataclass(frozen=True)
class _Scaling:
    """Residuals from outcomes and fits, on the common scale or, as published, each on its own."""

    y: np.ndarray
    blocks: np.ndarray | None
    scale: str

    def __call__(self, y: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        if self.blocks is None or self.scale == "common":
            spread = self.y.std(axis=0, ddof=1)
            return (y - fitted) / spread.reshape(-1, *[1] * (y.ndim - 2))
        residual = np.empty_like(y)
        for block in range(int(self.blocks.max()) + 1):
            rows = self.blocks == block
            residual[rows] = standardise(y[rows]) - standardise(fitted[rows])
        return residual


def _nulls(
    kind: str, regression: Any, pairs: np.ndarray, scaling: _Scaling, data: Rows
) -> tuple[NullModel, NullModel, Callable[[np.ndarray], NullModel]]:
    """The null at the data, the world of the self-check, and the test's null in that world."""
    groups = data.groups
    if isinstance(regression, CrossFitted):
        residual = data.y - regression.fitted
        outer = NullModel(pairs, data.y, regression.fitted, residual, groups)

        def again(y: np.ndarray) -> NullModel:
            return multiplier_null(pairs, scaling(y, regression.refit(y)), groups)

        return multiplier_null(pairs, scaling(data.y, regression.fitted), groups), outer, again
    # centred: the smoother keeps constants only up to rounding, and Y may be far from 0
    scaled = (data.y - data.y.mean(axis=0)) / data.y.std(axis=0, ddof=1)
    refit = RefitNull(pairs, regression.root, groups)
    outer = refit(scaled)
    if kind == "refit":
        return outer, outer, refit

    def flip(y: np.ndarray) -> NullModel:
        return multiplier_null(pairs, refit.residual(y), groups)

    return flip(scaled), outer, flip


def conditional_mean_test(
    X: Any, y: Any, Z: Any = None, groups: Any = None, **options: Any
) -> CMIResult:
    """:class:`ConditionalMeanTest` as a function.

    Parameters
    ----------
    X, y, Z : arrays or DataFrames, shapes (n, d), (n,) or (n, k), (n, q)
    groups : array, shape (n,), optional
        Rows that belong together.
    **options
        Parameters of :class:`ConditionalMeanTest`.

    Raises
    ------
    InputError
        As :meth:`ConditionalMeanTest.fit`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z = rng.normal(size=(200, 2)); x = z + rng.normal(size=(200, 2))
    >>> noise = rng.normal(size=200)
    >>> conditional_mean_test(x, z[:, 0] + noise, z, random_state=0).pvalue > 0.05
    True
    """
    return ConditionalMeanTest(**options).fit(X, y, Z, groups).result_
