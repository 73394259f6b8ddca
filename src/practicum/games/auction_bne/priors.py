"""Distributions of private values: bounded, continuous, non-negative, in currency units."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats
from scipy.interpolate import PchipInterpolator

from practicum.errors import InputError

MIN_SAMPLES = 30
ATOM = 0.25  # a value held by a quarter of the samples is an atom, not rounding
TIED = 0.2  # share of samples that repeat another: worth a warning
TABLE = 4097  # nodes of a tabulated quantile function

Number = float | int
Array = Float[np.ndarray, "..."] | float  # NumPy makes numbers of arrays without axes


class Prior(ABC):
    """A distribution of one bidder's private value.

    Everything else in this package reads a prior through these four members only, so a class
    with them can be handed over wherever a prior is expected.

    Attributes
    ----------
    support : (lo, hi)
        The lowest and the highest possible value, finite, ``0 <= lo < hi``.

    Examples
    --------
    >>> isinstance(Uniform(0, 1), Prior)
    True
    """

    support: tuple[float, float]

    @abstractmethod
    def cdf(self, v: Array) -> Array:
        """F(v), the probability of a value of at most v."""

    @abstractmethod
    def ppf(self, u: Array) -> Array:
        """The quantile F^-1(u), u in [0, 1]."""

    @abstractmethod
    def pdf(self, v: Array) -> Array:
        """The density f(v), per unit of currency."""

    def sample(self, rng: np.random.Generator, size: Any) -> Array:
        """Independent values, by inversion."""
        return self.ppf(rng.random(size))


class ScipyPrior(Prior):
    """A frozen SciPy distribution, cut to [lo, hi] where it reaches further.

    Parameters
    ----------
    dist : scipy.stats frozen continuous distribution
    lo, hi : float, optional
        Where to cut; default: the distribution's own support, which must then be bounded.
    truncate : float, optional
        For an unbounded distribution: cut where its distribution function is ``truncate`` (and
        ``1 - truncate`` below), with a warning that says where.

    Raises
    ------
    InputError
        The distribution is discrete (atoms), reaches to infinity and no cut is given, holds
        negative values, or has no probability between the cuts.

    Examples
    --------
    >>> prior = ScipyPrior(stats.gamma(4, scale=10), hi=120)
    >>> prior.support, round(float(prior.cdf(np.array(120.0))), 6)
    ((0.0, 120.0), 1.0)
    """

    def __init__(
        self,
        dist: Any,
        lo: Number | None = None,
        hi: Number | None = None,
        *,
        truncate: Number | None = None,
    ) -> None:
        if not hasattr(dist, "pdf"):
            raise InputError(
                f"the prior {_name(dist)} has atoms (it is discrete)",
                "private values must be continuous: use a density, or Empirical for samples",
            )
        own = tuple(map(float, dist.support()))
        low, high = own[0] if lo is None else float(lo), own[1] if hi is None else float(hi)
        if truncate is not None:
            low, high = _truncate(dist, low, high, truncate)
        _check_support(low, high, _name(dist), dist)
        self._dist = dist
        self._below = float(dist.cdf(low))
        self._mass = float(dist.cdf(high)) - self._below
        if not self._mass > 0:
            raise InputError(
                f"the prior {_name(dist)} has no probability between {low:g} and {high:g}",
                f"its own support is {own[0]:g} to {own[1]:g}",
            )
        self.support = (low, high)

    def __repr__(self) -> str:
        return f"{_name(self._dist)} on [{self.support[0]:g}, {self.support[1]:g}]"

    def cdf(self, v: Array) -> Array:
        """F(v) of the cut distribution."""
        return np.clip((self._dist.cdf(v) - self._below) / self._mass, 0.0, 1.0)

    def ppf(self, u: Array) -> Array:
        """Quantiles of the cut distribution."""
        raw = self._dist.ppf(self._below + self._mass * np.asarray(u, dtype=float))
        return np.clip(raw, *self.support)

    def pdf(self, v: Array) -> Array:
        """Density of the cut distribution."""
        v = np.asarray(v, dtype=float)
        inside = (v >= self.support[0]) & (v <= self.support[1])
        return np.where(inside, self._dist.pdf(v) / self._mass, 0.0)


class Uniform(ScipyPrior):
    """Values uniform on [lo, hi].

    Parameters
    ----------
    lo, hi : float

    Examples
    --------
    >>> Uniform(0, 2).cdf(np.array([0.5, 3.0])).tolist()
    [0.25, 1.0]
    """

    def __init__(self, lo: Number = 0.0, hi: Number = 1.0) -> None:
        _check_support(lo, hi, "uniform")
        super().__init__(stats.uniform(lo, hi - lo))


class Beta(ScipyPrior):
    """Values lo + (hi - lo) X with X from Beta(a, b).

    Parameters
    ----------
    a, b : float
        Shapes, positive.
    lo, hi : float

    Examples
    --------
    >>> round(float(Beta(2, 5).ppf(np.array(0.5))), 3)
    0.264
    """

    def __init__(self, a: Number, b: Number, lo: Number = 0.0, hi: Number = 1.0) -> None:
        _check_positive(beta_a=a, beta_b=b)
        _check_support(lo, hi, "beta")
        super().__init__(stats.beta(a, b, loc=lo, scale=hi - lo))


class TruncNormal(ScipyPrior):
    """A normal distribution cut to [lo, hi].

    Parameters
    ----------
    mu, sd : float
        Mean and standard deviation before the cut, in currency units.
    lo, hi : float

    Examples
    --------
    >>> round(float(TruncNormal(50, 10, 20, 80).cdf(np.array(50.0))), 3)
    0.5
    """

    def __init__(self, mu: Number, sd: Number, lo: Number, hi: Number) -> None:
        _check_positive(sd=sd)
        _check_support(lo, hi, "truncated normal")
        super().__init__(stats.norm(mu, sd), lo, hi)


class LogNormal(ScipyPrior):
    """exp of a normal distribution, cut at ``hi``.

    Parameters
    ----------
    mu, sigma : float
        Mean and standard deviation of log v.
    hi : float
        Where to cut, in currency units: an unbounded prior has no highest bid.

    Examples
    --------
    >>> LogNormal(0, 0.5, hi=4).support
    (0.0, 4.0)
    """

    def __init__(self, mu: Number, sigma: Number, hi: Number) -> None:
        _check_positive(sigma=sigma)
        super().__init__(stats.lognorm(sigma, scale=math.exp(mu)), 0.0, hi)


class Empirical(Prior):
    """A smooth monotone prior from samples.

    ``"pchip"``: the quantile function is a monotone cubic (Fritsch and Carlson 1980) through a few
    sample quantiles, so that the density is continuous and positive; ``"kde"``: a Gaussian kernel
    density, cut to the range of the samples.  Tied samples are spread over the gap to their
    neighbours.

    Parameters
    ----------
    samples : array-like, shape (n,)
        At least 30 non-negative values, in currency units.
    smooth : {"pchip", "kde"}
    knots : int, optional
        Quantiles that the curve passes through; default ``2 n^(1/3)``, at least 5.

    Raises
    ------
    InputError
        Too few samples, NaN, negative or infinite values, all equal, or one value that a quarter
        of the samples share (an atom).

    Warns
    -----
    UserWarning
        More than a fifth of the samples repeat another one.

    Examples
    --------
    >>> draws = np.random.default_rng(1).uniform(20, 60, 500)
    >>> prior = Empirical(draws)
    >>> bool(abs(prior.cdf(np.array(40.0)) - 0.5) < 0.05)
    True
    """

    def __init__(self, samples: Any, smooth: str = "pchip", knots: int | None = None) -> None:
        values = _check_samples(samples)
        if smooth not in ("pchip", "kde"):
            raise InputError(f"smooth={smooth!r} is not known", 'use "pchip" or "kde"')
        self.n_samples = len(values)
        values = _spread_ties(np.sort(values))
        self._u = np.linspace(0.0, 1.0, TABLE)
        if smooth == "pchip":
            count = max(5, round(2 * len(values) ** (1 / 3))) if knots is None else int(knots)
            if not 3 <= count <= len(values):
                raise InputError(f"knots={knots}: between 3 and the {len(values)} samples")
            at = np.linspace(0.0, 1.0, count)
            self._q = PchipInterpolator(at, np.quantile(values, at))(self._u)
        else:
            self._q = _kde_quantiles(values, self._u)
        self._slope = np.maximum(np.gradient(self._q, self._u, edge_order=2), 1e-9 * np.ptp(values))
        self.support = (float(self._q[0]), float(self._q[-1]))

    def __repr__(self) -> str:
        return f"{self.n_samples} samples on [{self.support[0]:g}, {self.support[1]:g}]"

    def cdf(self, v: Array) -> Array:
        """F(v), by inverting the quantile function."""
        return np.interp(np.asarray(v, dtype=float), self._q, self._u)

    def ppf(self, u: Array) -> Array:
        """Quantiles."""
        return np.interp(np.asarray(u, dtype=float), self._u, self._q)

    def pdf(self, v: Array) -> Array:
        """Density, 1 over the slope of the quantile function."""
        v = np.asarray(v, dtype=float)
        inside = (v >= self.support[0]) & (v <= self.support[1])
        return np.where(inside, 1 / np.interp(v, self._q, self._slope), 0.0)


class Rescaled(Prior):
    """(v - offset) / scale for v from another prior: the learner's units, values in [0, 1].

    Parameters
    ----------
    prior : Prior
    offset, scale : float

    Examples
    --------
    >>> Rescaled(Uniform(20, 60), 20, 40).support
    (0.0, 1.0)
    """

    def __init__(self, prior: Prior, offset: Number, scale: Number) -> None:
        self.prior, self.offset, self.scale = prior, offset, scale
        lo, hi = prior.support
        self.support = ((lo - offset) / scale, (hi - offset) / scale)

    def cdf(self, v: Array) -> Array:
        """F(v)."""
        return self.prior.cdf(self.offset + self.scale * np.asarray(v, dtype=float))

    def ppf(self, u: Array) -> Array:
        """Quantiles."""
        return (self.prior.ppf(u) - self.offset) / self.scale

    def pdf(self, v: Array) -> Array:
        """Density."""
        return self.scale * self.prior.pdf(self.offset + self.scale * np.asarray(v, dtype=float))


def as_prior(given: Any) -> Prior:
    """A prior from what people have: a prior, a frozen SciPy distribution, samples, or text.

    Parameters
    ----------
    given : Prior, frozen distribution, array-like of samples, or str
        Text is ``uniform:LO,HI``, ``beta:A,B[,LO,HI]``, ``normal:MU,SD,LO,HI`` or
        ``lognormal:MU,SIGMA,HI``.

    Raises
    ------
    InputError
        Nothing of the kind, or parameters that make no bounded continuous distribution.

    Examples
    --------
    >>> as_prior("beta:2,5").support
    (0.0, 1.0)
    """
    if isinstance(given, Prior):
        return given
    if isinstance(given, str):
        return _parse(given)
    if hasattr(given, "support") and hasattr(given, "cdf"):
        return ScipyPrior(given)
    return Empirical(given)


# ---------------------------------------------------------------------------------- text

_TEXT = {
    "uniform": (Uniform, (2,), "uniform:LO,HI"),
    "beta": (Beta, (2, 4), "beta:A,B or beta:A,B,LO,HI"),
    "normal": (TruncNormal, (4,), "normal:MU,SD,LO,HI"),
    "lognormal": (LogNormal, (3,), "lognormal:MU,SIGMA,HI"),
}


def _parse(text: str) -> Prior:
    name, _, rest = text.partition(":")
    ways = "; ".join(way for _, _, way in _TEXT.values())
    if name not in _TEXT:
        raise InputError(f"prior {text!r} is not known", f"write {ways}")
    make, counts, way = _TEXT[name]
    try:
        numbers = [float(part) for part in rest.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"prior {text!r}: expected numbers after the colon", way) from None
    if len(numbers) not in counts:
        hint = f"write {way}" + (" (HI: where to cut it)" if name == "lognormal" else "")
        raise InputError(f"prior {text!r}: {len(numbers)} numbers after the colon", hint)
    return make(*numbers)


# ---------------------------------------------------------------------------------- checks


def _name(dist: Any) -> str:
    return getattr(getattr(dist, "dist", None), "name", type(dist).__name__)


def _check_positive(**named: Number) -> None:
    for name, value in named.items():
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} is {value}; a positive number expected")


def _check_support(low: Number, high: Number, name: str, dist: Any = None) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        ends = "" if dist is None else f"; 99.9 % of it lies below {float(dist.ppf(0.999)):g}"
        raise InputError(
            f"the prior {name} is not bounded ({low:g} to {high:g}){ends}",
            "say where to cut it: ScipyPrior(dist, lo, hi), or truncate=0.999",
        )
    if low < 0:
        raise InputError(
            f"the prior {name} holds negative values (from {low:g})",
            "values and bids are amounts of money: cut at 0, or shift the values",
        )
    if not low < high:
        raise InputError(f"the prior {name} has support {low:g} to {high:g}; lo < hi expected")


def _truncate(dist: Any, low: Number, high: Number, share: Number) -> tuple[float, float]:
    if not 0.5 < share < 1:
        raise InputError(f"truncate is {share}; a share between 0.5 and 1 expected", "e.g. 0.999")
    low = low if math.isfinite(low) else max(0.0, float(dist.ppf(1 - share)))
    high = high if math.isfinite(high) else float(dist.ppf(share))
    warnings.warn(
        f"the prior {_name(dist)} is cut to [{low:g}, {high:g}], which holds "
        f"{100 * float(dist.cdf(high) - dist.cdf(low)):.4g} % of it",
        UserWarning,
        stacklevel=4,
    )
    return low, high


def _check_samples(samples: Any) -> np.ndarray:
    try:
        values = np.asarray(samples, dtype=float).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(f"the samples of values are not numbers ({error})") from None
    if len(values) < MIN_SAMPLES:
        raise InputError(
            f"{len(values)} samples of values; at least {MIN_SAMPLES} are needed",
            "name a parametric prior instead, e.g. uniform:0,100",
        )
    bad = ~np.isfinite(values)
    if bad.any():
        raise InputError(
            f"sample {int(bad.argmax()) + 1} is {values[bad.argmax()]} "
            f"({int(bad.sum())} such samples); finite values expected"
        )
    if values.min() < 0:
        raise InputError(
            f"sample {int(values.argmin()) + 1} is negative ({values.min():g})",
            "values are amounts of money: drop or shift negative ones",
        )
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) == 1:
        raise InputError(f"all {len(values)} samples are {levels[0]:g}; nothing to bid about")
    if counts.max() >= ATOM * len(values):
        raise InputError(
            f"{counts.max()} of {len(values)} samples are exactly {levels[counts.argmax()]:g}: "
            "an atom",
            "private values must be continuous: drop fixed prices, or give a parametric prior",
        )
    repeated = 1 - len(levels) / len(values)
    if repeated > TIED:
        warnings.warn(
            f"{100 * repeated:.0f} % of the samples repeat another one: ties are spread over the "
            "gap to their neighbours",
            UserWarning,
            stacklevel=4,
        )
    return values


def _spread_ties(values: np.ndarray) -> np.ndarray:
    """Ties spaced evenly over half the gap to the neighbours; sorted in, sorted out."""
    levels, start, counts = np.unique(values, return_index=True, return_counts=True)
    if len(levels) == len(values):
        return values
    gaps = np.diff(levels)
    left = np.r_[0.0, gaps] / 2
    right = np.r_[gaps, 0.0] / 2
    place = np.arange(len(values)) - np.repeat(start, counts)
    share = (place + 0.5) / np.repeat(counts, counts)
    low, width = levels - left, left + right
    spread = np.repeat(low, counts) + share * np.repeat(width, counts)
    return np.where(np.repeat(counts, counts) > 1, spread, values)


def _kde_quantiles(values: np.ndarray, u: np.ndarray) -> np.ndarray:
    grid = np.linspace(values[0], values[-1], len(u))
    density = stats.gaussian_kde(values)(grid)
    mass = np.r_[0.0, np.cumsum((density[1:] + density[:-1]) / 2)]
    return np.interp(u, mass / mass[-1], grid)
