"""The test of conditional mean independence: estimator, function, and many candidates at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
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
from practicum.stats.cmi_test.kernels import (
    CentredKernel,
    centred_kernel,
    pair_matrix,
    pooled_kernel,
    standardise,
)
from practicum.stats.cmi_test.regressions import CrossFitted, about_misfit, make_regression
from practicum.stats.cmi_test.smoother import KernelSmoother
from practicum.stats.cmi_test.tables import encode_columns

MIN_ROWS = 60
ALL_DRAWS = 32
MAX_ROWS = 10_000  # n² doubles of several matrices
NO_VARIATION = 1 - 1e-7

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
        Probability of a T at least this large if the mean of Y does not depend on X given Z; nan
        where X has no variation left given Z.
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

    @property
    def conclusive(self) -> bool:
        """False where p cannot be trusted.

        Either the self-check rejects clearly more than 10 % of null data sets, or the generator is
        clearly worse than borrowing residuals would be.
        """
        return not np.isnan(self.pvalue) and not self._doubts()

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
        if np.isnan(self.pvalue):
            return f"{x} adds no variation given {z} (R² = 1): there is nothing to test."
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
    random_state : int or None

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
        random_state: int | None = None,
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

    def fit(self, X: Any, y: Any, Z: Any, groups: Any = None) -> ConditionalMeanTest:
        """Run the test.

        Parameters
        ----------
        X, y, Z : arrays or DataFrames, shapes (n, d), (n,) or (n, k), (n, q)
            Text columns of a DataFrame are encoded as categories.
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
        """
        started = time.perf_counter()
        options = self._options()
        data = _Data.of(X, y, Z, groups, self.missing)
        streams = np.random.default_rng(self.random_state).spawn(4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            self._test(data, options, streams, started)
        notes = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        if notes:
            values = {**vars(self.result_), "notes": (*self.result_.notes, *dict.fromkeys(notes))}
            self.result_ = CMIResult(**values)
        self._data = data
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
        for name, least in (("draws", 1), ("folds", 2), ("n_boot", 19)):
            value = options[name]
            if value != "all" and value < least:
                raise InputError(f"{name}={value}, at least {least} is needed")
        if self.random_state is not None and self.random_state < 0:
            raise InputError(f"random_state={self.random_state}", "zero, a positive number or None")
        if self.missing not in ("refuse", "drop"):
            raise InputError(f"missing={self.missing!r}", "missing is 'refuse' or 'drop'")
        return options

    def _test(
        self,
        data: _Data,
        options: dict[str, Any],
        streams: Sequence[np.random.Generator],
        started: float,
    ) -> None:
        fold = _folds(data.n, options["folds"], data.groups, streams[0], self.preset)
        regression = make_regression(options["regression"], data.z, data.y, fold, data.groups)
        like = getattr(regression, "smoother", None)
        sampler = _Sampler.of(options["generator"], data, fold, streams[1], like)
        notes = [*data.notes, *sampler.notes, *regression.notes]
        notes += _about_wide(sampler.r2, data.z.shape[1])
        if hasattr(regression, "left_out"):
            notes += about_misfit(regression.left_out, data.z, data.groups)
        within = options["pairs"] == "within"
        blocks = fold if within else None
        kind = options["null"]
        if kind == "auto":
            kind = "refit" if regression.refits else "multiplier"
        if kind == "refit" and not regression.refits:
            raise InputError(
                "null='refit' needs a regression that is a linear smoother",
                "use regression='smoother', or null='multiplier'",
            )
        if options["scale"] == "paper" and (kind == "refit" or not within):
            raise InputError(
                "scale='paper' goes with pairs='within' and null='multiplier'", "or use 'common'"
            )
        pairs, draws = self._pairs(sampler, data, options, blocks)
        count = len(pairs) * (len(pairs) - 1)
        distance, spread = pairs.sum() / count, np.sqrt(2 * np.vdot(pairs, pairs)) / count
        reference = None
        if sampler.fitted and not isinstance(sampler.source, ResidualSampler):
            plain = _Sampler.cross_fitted(ResidualSampler(), data, fold, streams[1])
            reference = self._pairs(plain, data, options, blocks)[0].sum() / count
        pairs *= _pair_weights(blocks, data)
        scaling = _Scaling(data.y, blocks, options["scale"])
        model, outer, inner = _nulls(kind, regression, pairs, scaling, data)
        null = model.draw(options["n_boot"], streams[2])
        empty = sampler.r2 is not None and bool((sampler.r2 >= NO_VARIATION).all())
        size = None
        if self.n_check and not empty:
            size = empirical_size(outer, null, inner, self.n_check, streams[3])
        self.statistic_ = float(model.statistic)
        self.pvalue_ = float("nan") if empty else p_value(self.statistic_, null)
        self.result_ = CMIResult(
            self.statistic_,
            self.pvalue_,
            null,
            kind,
            data.n,
            int(fold.max()) + 1 if within or sampler.folded or regression.folded else 0,
            draws,
            regression.r2,
            float("nan") if sampler.r2 is None else float(sampler.r2.mean()),
            float(distance),
            float(spread),
            None if reference is None else float(reference),
            size,
            self.n_check if size is not None else 0,
            time.perf_counter() - started,
            self.preset or "default",
            tuple(notes),
        )

    def _pairs(
        self, sampler: _Sampler, data: _Data, options: dict[str, Any], blocks: np.ndarray | None
    ) -> tuple[np.ndarray, int]:
        """A, each block standardised and given bandwidths by itself; and the draws it took."""
        centre = sampler.mean() if options["coordinates"] == "residual" else np.zeros_like(data.x)
        x, count = data.x - centre, options["draws"]
        pooled = (
            count == "all" and options["coordinates"] == "residual" and sampler.pool is not None
        )
        if count == "all":
            count = ALL_DRAWS
        if blocks is None:
            z = standardise(data.z)
            if pooled:
                return pair_matrix(pooled_kernel(standardise(sampler.pool)), z), data.n
            draws = (standardise(draw - centre, x) for draw in sampler.stream(count))
            return pair_matrix(centred_kernel(standardise(x), draws), z), count
        own = options["scale"] == "paper"
        members = [np.flatnonzero(blocks == block) for block in range(int(blocks.max()) + 1)]
        kernels = [CentredKernel(standardise(x[rows])) for rows in members]
        for draw in sampler.stream(count):
            for rows, kernel in zip(members, kernels):
                part = (draw - centre)[rows]
                kernel.add(standardise(part, None if own else x[rows]))
        pairs = np.zeros((data.n, data.n))
        for rows, kernel in zip(members, kernels):
            pairs[np.ix_(rows, rows)] = pair_matrix(kernel.matrix(), standardise(data.z[rows]))
        return pairs, count


# --- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    """Checked arrays."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    groups: np.ndarray | None
    names: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        return len(self.x)

    @classmethod
    def of(cls, x: Any, y: Any, z: Any, groups: Any, missing: str) -> _Data:
        parts = {k: encode_columns(v, k) for k, v in (("X", x), ("Y", y), ("Z", z))}
        arrays = {k: part.values for k, part in parts.items()}
        lengths = {k: len(a) for k, a in arrays.items()}
        _same_index(X=x, Y=y, Z=z)
        if groups is not None:
            groups = np.asarray(groups)
            lengths["groups"] = len(groups)
            if pd.isna(groups).any() and missing == "refuse":
                raise InputError(
                    f"{int(pd.isna(groups).sum())} rows have no group",
                    "fill them in, or drop these rows with missing='drop'",
                )
        if len(set(lengths.values())) > 1:
            words = ", ".join(f"{k} {n}" for k, n in lengths.items())
            raise InputError(f"numbers of rows differ: {words}")
        notes = [note for part in parts.values() for note in part.notes]
        keep = np.ones(lengths["X"], dtype=bool)
        for name, part in parts.items():
            keep &= _finite(part.values, part.names, name, missing)
        if groups is not None:
            keep &= ~pd.isna(groups)
        if not keep.all():
            notes.append(f"{int((~keep).sum())} of {len(keep)} rows with missing values dropped")
        arrays = {k: a[keep] for k, a in arrays.items()}
        if groups is not None:
            groups = np.unique(groups[keep].astype(str), return_inverse=True)[1]
        n = int(keep.sum())
        if n < MIN_ROWS:
            raise InputError(f"{n} rows, at least {MIN_ROWS} are needed")
        if n > MAX_ROWS:
            raise InputError(
                f"{n:,} rows: the pairs of more than {MAX_ROWS:,} do not fit in memory",
                f"test a random sample of {MAX_ROWS // 2:,} rows",
            )
        if groups is not None and groups.max() + 1 < 20:
            raise InputError(f"{groups.max() + 1} groups, at least 20 are needed")
        for name, part in parts.items():
            _within_range(arrays[name], part.names, name)
            _varying(arrays[name], part.names, name)
        if arrays["X"].shape[1] + arrays["Z"].shape[1] >= n:
            notes.append(f"as many columns as rows ({n}): expect little power")
        notes += _about_outcome(arrays["Y"], parts["Y"].names)
        names = {k: part.names for k, part in parts.items()}
        return cls(arrays["X"], arrays["Y"], arrays["Z"], groups, names, tuple(notes))


def _same_index(**parts: Any) -> None:
    """Rows are paired by position; data frames that say otherwise are a mistake."""
    labelled = {k: v.index for k, v in parts.items() if isinstance(v, pd.DataFrame | pd.Series)}
    first = next(iter(labelled.items()), None)
    for name, index in labelled.items():
        if first and len(index) == len(first[1]) and not index.equals(first[1]):
            raise InputError(
                f"{first[0]} and {name} have different row labels",
                f"align them, {name} = {name}.loc[{first[0]}.index], or pass arrays",
            )


def _finite(values: np.ndarray, names: Sequence[str], what: str, missing: str) -> np.ndarray:
    """Rows without missing values; infinite ones are refused in any case."""
    infinite = np.isinf(values)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"{what} column {names[column]!r} is infinite in row {row}", "correct the value"
        )
    gaps = np.isnan(values)
    if gaps.any() and missing == "refuse":
        column = int(gaps.any(axis=0).argmax())
        row = int(gaps[:, column].argmax())
        raise InputError(
            f"{what} column {names[column]!r} has {int(gaps[:, column].sum())} missing values, "
            f"the first in row {row}",
            "fill them in, or drop these rows with missing='drop'",
        )
    return ~gaps.any(axis=1)


HUGE, TINY = 1e100, 1e-100  # squares of what lies beyond are no longer numbers


def _within_range(values: np.ndarray, names: Sequence[str], what: str) -> None:
    """Refuse what squares and standard deviations cannot hold."""
    huge = np.argwhere(np.abs(values) > HUGE)
    if len(huge):
        row, column = huge[0]
        raise InputError(
            f"{what} column {names[column]!r} holds {values[row, column]:g} in row {row}",
            "correct the value, or rescale the column",
        )
    size = np.abs(values).max(axis=0)
    for column in np.flatnonzero((size > 0) & (size < TINY)):
        raise InputError(
            f"{what} column {names[column]!r} holds nothing above {size[column]:g}",
            "rescale the column",
        )


def _varying(values: np.ndarray, names: Sequence[str], what: str) -> None:
    spread = values.max(axis=0) - values.min(axis=0)
    flat = [names[k] for k in np.flatnonzero(spread == 0)]
    if flat:
        more = f" and {len(flat) - 5} more" if len(flat) > 5 else ""
        raise InputError(
            f"{what}: constant columns {', '.join(map(repr, flat[:5]))}{more}",
            "leave them out: they say nothing",
        )


def _about_outcome(y: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    for k, name in enumerate(names):
        values = np.unique(y[:, k])
        if 2 < len(values) <= 10 and (values == values.round()).all():
            yield (
                f"Y column {name!r} has {len(values)} whole-number values and is taken as a "
                "quantity; if they are codes, pass it as text"
            )


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


def _pair_weights(blocks: np.ndarray | None, data: _Data) -> np.ndarray:
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


# --- X given Z -----------------------------------------------------------------------------------


@dataclass
class _Sampler:
    """A fitted generator, whatever it can do by itself, as a stream of draws for all rows."""

    source: Any
    z: np.ndarray
    next_draw: Callable[[], np.ndarray]
    r2: np.ndarray | None
    fitted: bool
    folded: bool
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        source: Any,
        data: _Data,
        fold: np.ndarray,
        rng: np.random.Generator,
        like: KernelSmoother | None = None,
    ) -> _Sampler:
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

            return cls(source, data.z, simulate, None, False, False, ())
        if hasattr(source, "sample_left_out"):
            shared = {"like": like} if isinstance(source, ResidualSampler) else {}
            source.fit(data.x, data.z, data.groups, **shared)
            r2 = getattr(source, "r2", None)
            notes = _about_variation(r2, data.names["X"])

            def borrow() -> np.ndarray:
                return source.sample_left_out(1, rng)[0]

            return cls(source, data.z, borrow, r2, True, False, notes)
        return cls.cross_fitted(source, data, fold, rng)

    @classmethod
    def cross_fitted(
        cls, source: Any, data: _Data, fold: np.ndarray, rng: np.random.Generator
    ) -> _Sampler:
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

        return cls(source, data.z, next_draw, None, True, True, ())

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


def _about_variation(r2: np.ndarray | None, names: Sequence[str]) -> tuple[str, ...]:
    if r2 is None:
        return ()
    gone = [names[k] for k in np.flatnonzero(r2 >= NO_VARIATION)]
    if not gone:
        return ()
    return (f"no variation given Z (R² = 1) in X column {', '.join(map(repr, gone[:5]))}",)


WIDE, FOLLOWS = 20, 0.2


def _about_wide(r2: np.ndarray | None, columns: int) -> tuple[str, ...]:
    """Where both regressions are likely to miss something, and the same thing."""
    if r2 is None or columns < WIDE or not FOLLOWS <= r2.mean() < NO_VARIATION:
        return ()
    return (
        f"Z has {columns} columns and predicts X in part (R² = {r2.mean():.2f}): what it does to "
        "both X and Y and the regressions miss is taken for an effect of X, so p may be far too "
        "small unless regression= follows the mean of Y well",
    )


# --- nulls ---------------------------------------------------------------------------------------


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
    kind: str, regression: Any, pairs: np.ndarray, scaling: _Scaling, data: _Data
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


# --- functions -----------------------------------------------------------------------------------


def conditional_mean_test(X: Any, y: Any, Z: Any, groups: Any = None, **options: Any) -> CMIResult:
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


def conditional_mean_importance(
    frame: pd.DataFrame,
    response: str | Sequence[str],
    candidates: Mapping[str, Sequence[str]] | Sequence[str],
    given: Sequence[str] | None = None,
    adjust: Literal["holm", "none"] = "holm",
    **options: Any,
) -> pd.DataFrame:
    """One test for each candidate, p-values adjusted for their number.

    Parameters
    ----------
    frame : DataFrame
    response : str or sequence of str
        Column(s) of Y.
    candidates : mapping of str to columns, or sequence of columns
        Groups of columns tested together, by name; or single columns.
    given : sequence of str, optional
        Columns of Z; without it each candidate is tested given all other columns, the other
        candidates among them.
    adjust : {"holm", "none"}
    **options
        Parameters of :class:`ConditionalMeanTest`; ``n_boot`` grows with the candidates by
        default, so that an adjusted p-value can still be small.

    Returns
    -------
    DataFrame
        A row for each candidate: ``p``, ``p_adjusted``, ``effect`` (partial R²), ``size_check``,
        ``statistic``, ``n``, ``notes``.

    Raises
    ------
    InputError
        A column is not there; else as :meth:`ConditionalMeanTest.fit`, the candidate named.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> frame = load_diabetes(as_frame=True).frame
    >>> table = conditional_mean_importance(frame, "target", ["bmi", "s3"], random_state=0)
    >>> bool(table.loc["bmi", "p_adjusted"] < 0.05 < table.loc["s3", "p_adjusted"])
    True
    """
    y = _as_names(response)
    single = {name: [name] for name in _as_names(candidates)}
    groups = single if not isinstance(candidates, Mapping) else candidates
    groups = {name: _as_names(columns) for name, columns in groups.items()}
    for role, names in (("response", y), *groups.items(), ("given", _as_names(given or ()))):
        absent = [name for name in names if name not in frame.columns]
        if absent:
            known = ", ".join(map(str, frame.columns[:12]))
            raise InputError(f"{role}: no column {absent[0]!r}", f"columns: {known}")
    if adjust not in ("holm", "none"):
        raise InputError(f"adjust={adjust!r}", "adjust is 'holm' or 'none'")
    for name, columns in groups.items():
        for role, names in (("response", y), ("given", _as_names(given or ()))):
            both = [c for c in columns if c in names]
            if both:
                raise InputError(f"candidate {name}: {both[0]!r} is {role} too", "name it once")
    options.setdefault("n_boot", null_draws(len(groups)))
    rows = {}
    for name, columns in groups.items():
        z = [c for c in frame.columns if c not in (*y, *columns)]
        z = z if given is None else _as_names(given)
        test = ConditionalMeanTest(**options)
        try:
            test.fit(frame[columns], frame[y], frame[z])
        except InputError as error:
            raise InputError(f"candidate {name}: {error.message}", error.hint) from error
        r = test.result_
        rows[name] = {
            "p": r.pvalue,
            "effect": test.effect(),
            "size_check": r.size_check,
            "statistic": r.statistic,
            "n": r.n,
            "notes": "; ".join(r.notes),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("candidate")
    adjusted = holm_adjust(table["p"].to_numpy()) if adjust == "holm" else table["p"]
    table.insert(1, "p_adjusted", adjusted)
    return table


def _as_names(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def null_draws(candidates: int) -> int:
    """Draws of the null for each of so many tests: adjusted, p can still fall to 0.01.

    Parameters
    ----------
    candidates : int

    Raises
    ------
    InputError
        There is no candidate.

    Examples
    --------
    >>> null_draws(3), null_draws(40)
    (999, 3999)
    """
    if candidates < 1:
        raise InputError("there is no candidate to test")
    return max(999, 100 * candidates - 1)


def holm_adjust(p: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Holm's step-down p-values; nan stays nan and does not count.

    Parameters
    ----------
    p : array, shape (m,)

    Raises
    ------
    InputError
        A value is outside [0, 1].

    Examples
    --------
    >>> holm_adjust(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    if ((p < 0) | (p > 1)).any():
        raise InputError("a p-value is outside [0, 1]")
    order = np.argsort(p, kind="stable")
    tests = int((~np.isnan(p)).sum())
    adjusted = np.full(len(p), np.nan)
    running = 0.0
    for rank, i in enumerate(order[:tests]):
        running = max(running, min(1.0, (tests - rank) * p[i]))
        adjusted[i] = running
    return adjusted
