"""From numbers over seeds to a verdict: intervals, thresholds, and the words for them.

A claim's function calls one of the helpers below with the values it rests on and a threshold
written before the run. The interval decides, never the estimate alone:

===================  =========================================================================
reproduced           the whole interval is on the claimed side of the threshold
not reproduced       the whole interval is on the other side
inconclusive         the interval holds the threshold (with the seeds that would decide it)
partly               a claim of several parts, some of which are reproduced
needs more           it cannot be tested here (a GPU, an endpoint, data of the user's)
===================  =========================================================================
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtr, ndtri

Status = Literal["reproduced", "partly", "not reproduced", "inconclusive", "needs more"]
Values: TypeAlias = Sequence[float] | np.ndarray | pd.Series
Bounds: TypeAlias = tuple[float, float]  # between which every value lies by definition

LEVEL = 0.95
MIN_BOOTSTRAP = 10  # below, resampling says little about the tails
MIN_EQUAL = 5  # so many equal values decide; fewer may be equal by luck
NO_VIOLATION = "0 violations"  # the threshold of statements that must always hold
LINE: Bounds = (-math.inf, math.inf)
DECIDED = ("reproduced", "not reproduced")
# a sign beside the words and colours, for whoever skims and whoever sees no colours
MARKS: dict[str, str] = {
    "reproduced": "✓",
    "partly": "◐",
    "not reproduced": "✗",
    "inconclusive": "?",
    "needs more": "…",
}
# which part of a claim decides it
WEIGHT = ("not reproduced", "partly", "inconclusive", "needs more", "reproduced")


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval and how it was computed."""

    low: float
    high: float
    level: float = LEVEL
    method: str = "BCa bootstrap"

    def within(self, low: float, high: float) -> Interval:
        """Its part in [low, high]: a few seeds make an interval wider than what it measures.

        Examples
        --------
        >>> print(Interval(-0.3, 1.4).within(0, 1))
        [0, 1]
        """
        return replace(self, low=max(low, self.low), high=min(high, self.high))

    def __str__(self) -> str:
        return f"[{number(self.low)}, {number(self.high)}]"


@dataclass(frozen=True)
class Verdict:
    """What was measured, against what, and what follows.

    The sentence of a claim of several parts has a line for each.
    """

    status: Status
    sentence: str
    estimate: float | None = None
    interval: Interval | None = None
    threshold: str = ""
    n: int = 0
    p: float | None = None  # two-sided p of the decision, for Holm; None where nothing is random
    seeds_needed: int | None = None

    @property
    def measured(self) -> str:
        """``0.366 [0.35, 0.38]``, ``0 of 300 checks fail``, or nothing where there is no number."""
        if self.estimate is None:
            return ""
        if self.threshold == NO_VIOLATION:
            return f"{round(self.estimate * self.n):,} of {self.n:,} checks fail"
        return number(self.estimate) + (f" {self.interval}" if self.interval else "")


def number(x: float) -> str:
    """Three significant digits, plainly: 0.366, 1,250, 2.7e-05."""
    if not math.isfinite(x):
        return "∞" if x == math.inf else "-∞" if x == -math.inf else "undefined"
    if x and (abs(x) < 1e-3 or abs(x) >= 1e6):
        return f"{x:.2e}"
    if x == round(x) or abs(x) >= 999.5:
        return f"{x + 0.0:,.0f}"  # + 0.0: no minus before a zero
    return f"{x:.3g}"


# --- intervals -----------------------------------------------------------------------------------


class Sample:
    """The bootstrap of a mean: an interval at any level, and the p-value that inverts it.

    BCa (Efron 1987) on ``scipy.stats.bootstrap`` resamples, with the tail probability widened to
    a t interval's (Hesterberg 2015, "expanded percentile") with *half* the degrees of freedom:
    losses over seeds are often skewed, and plain BCa over 10 values calls one study in thirteen
    reproduced on exponential noise (so widened, one in seventeen; from 12 values on, one in
    twenty). Below ten values Student's t takes over, its degrees of freedom lowered for the same
    reason (plain t errs in one study of nine). A single value has no width to estimate from, and
    nor have fewer than five equal ones.

    Heavier tails are beyond five to twenty values, whatever the method: on log-normal noise one
    interval in ten misses its mean, on Student noise with 2.5 degrees of freedom one in twelve.

    Parameters
    ----------
    values : numbers
    bounds : (low, high), optional
        Between which every value lies by definition, an accuracy in (0, 1). What is *shown*
        stays inside (:meth:`bounded`); decisions need no help from it, for a threshold lies
        inside too. Values that break the bounds void them.
    """

    def __init__(self, values: Values, bounds: Bounds | None = None) -> None:
        self.x = np.asarray(values, dtype=float).ravel()
        self.n = len(self.x)
        self.finite = bool(np.isfinite(self.x).all())
        with np.errstate(invalid="ignore"):
            self.mean = float(self.x.mean()) if self.n else math.nan
        self.constant = (
            self.n > 0 and self.finite and bool(np.ptp(self.x) <= 1e-12 * np.abs(self.x).max())
        )
        self.bounds = _kept(bounds, self.x)
        self.bootstrapped = self.n >= MIN_BOOTSTRAP and not self.constant and self.finite
        self.df = _degrees(self.n)
        if self.bootstrapped:
            self._resample()

    def _resample(self) -> None:
        n_resamples = 9999 if self.n <= 1000 else 1999
        result = stats.bootstrap(
            (self.x,),
            np.mean,
            n_resamples=n_resamples,
            batch=max(1, 2_000_000 // self.n),
            method="percentile",
            rng=np.random.default_rng(0),
        )
        self.means = np.sort(result.bootstrap_distribution)
        self.z0 = ndtri(self._cdf(self.mean))
        d = self.x - self.mean
        d /= np.abs(d).max()  # no overflow, whatever the unit
        # jackknife acceleration; for a mean it has this closed form
        self.a = (d**3).sum() / (6 * (d**2).sum() ** 1.5)

    def _cdf(self, t: float) -> float:
        """Mid-rank share of bootstrap means below t, kept off 0 and 1."""
        below = np.searchsorted(self.means, t, "left")
        upto = np.searchsorted(self.means, t, "right")
        return float(np.clip((below + upto) / 2, 0.5, len(self.means) - 0.5)) / len(self.means)

    def _expand(self, tail: float) -> float:
        """The normal quantile whose percentile interval is as wide as the t interval."""
        return float(math.sqrt(self.n / (self.n - 1)) * stats.t.ppf(tail, self.df))

    def interval(self, level: float = LEVEL) -> Interval:
        """The two-sided interval; where nothing tells the spread, the whole line."""
        tail = (1 - level) / 2
        if self.constant and self.n >= MIN_EQUAL:
            return Interval(self.mean, self.mean, level, "all values equal")
        if self.constant or self.n < 2 or not self.finite:
            return Interval(-math.inf, math.inf, level, "too few finite values")
        if not self.bootstrapped:
            half = -stats.t.ppf(tail, self.df) * stats.sem(self.x)
            return Interval(self.mean - half, self.mean + half, level, "Student t, fewer df")
        ends = []
        for z in (self._expand(tail), -self._expand(tail)):
            u = self.z0 + z
            ends.append(float(np.quantile(self.means, ndtr(self.z0 + u / (1 - self.a * u)))))
        return Interval(ends[0], ends[1], level)

    def bounded(self, level: float = LEVEL) -> Interval:
        """The interval as it is shown: what lies outside the bounds is known to be wrong."""
        return self.interval(level).within(*self.bounds)

    def p(self, threshold: float) -> float | None:
        """Two-sided p-value of "the mean is the threshold": where an interval's end meets it."""
        if self.constant or self.n < 2 or not self.finite:
            return None
        by_t = self._p_by_t(threshold)
        if not self.bootstrapped:
            return by_t
        w = ndtri(self._cdf(threshold)) - self.z0
        z = w / (1 + self.a * w) - self.z0
        t = abs(z) / math.sqrt(self.n / (self.n - 1))
        p = float(2 * stats.t.sf(t, self.df))
        if not self.means[0] <= threshold <= self.means[-1]:
            # farther out than any resample: the bootstrap only says "at most p"
            p = min(p, by_t)
        return p

    def _p_by_t(self, threshold: float) -> float:
        with np.errstate(divide="ignore"):  # a spread too small for floating point
            t = abs(self.mean - threshold) / stats.sem(self.x)
        return float(2 * stats.t.sf(t, self.df))


class Differences(Sample):
    """``a - b``, cell by cell; where both arms only ever say yes or no, they are shares.

    Equal differences have no spread to resample, yet five answers leave either share open: the
    interval then comes from the exact ones of the shares of pairs that differ by +1 and by -1.
    Each of the two errs half as often as the whole may, so that together they keep its level.

    Parameters
    ----------
    a, b : one number for each pair
        Matched by index for Series, by position otherwise.
    bounds : (low, high), optional
        Of the arms' values; the difference of two accuracies lies in (-1, 1).
    """

    def __init__(self, a: Values, b: Values, bounds: Bounds | None = None) -> None:
        first, second = _pairs(a, b)
        super().__init__(differences(first, second))
        self.yes_or_no = yes_or_no(first) and yes_or_no(second)
        low, high = _kept((0.0, 1.0) if self.yes_or_no else bounds, np.append(first, second))
        self.bounds = low - high, high - low

    def interval(self, level: float = LEVEL) -> Interval:
        if not (self.constant and self.yes_or_no):
            return super().interval(level)
        each = (1 + level) / 2
        more = binomial_interval(int((self.x == 1).sum()), self.n, each)
        less = binomial_interval(int((self.x == -1).sum()), self.n, each)
        return replace(more, low=more.low - less.high, high=more.high - less.low, level=level)


def _degrees(n: int) -> float:
    """Half the degrees of freedom, and a little less where t is used on 6 to 9 values."""
    half = (n - 1) / 2
    return half if n >= MIN_BOOTSTRAP else min(half, (n + 1) / 3)


def _kept(bounds: Bounds | None, x: np.ndarray) -> Bounds:
    low, high = bounds or LINE
    return (low, high) if bool(((low <= x) & (x <= high)).all()) else LINE


def yes_or_no(values: Values) -> bool:
    """Whether the values are ones and zeros only.

    Examples
    --------
    >>> yes_or_no([1.0, 0.0]), yes_or_no([0.5])
    (True, False)
    """
    return bool(np.isin(np.asarray(values, dtype=float), (0.0, 1.0)).all())


def bootstrap_interval(
    values: Values, level: float = LEVEL, bounds: Bounds | None = None
) -> Interval:
    """Interval for the mean of one value per (dataset, seed), inside the bounds if there are any.

    Examples
    --------
    >>> print(bootstrap_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    [0.625, 6.37]
    >>> print(bootstrap_interval([0.8, 0.9, 1.0], bounds=(0, 1)))
    [0.166, 1]
    """
    return Sample(values, bounds).bounded(level)


def binomial_interval(successes: int, n: int, level: float = LEVEL) -> Interval:
    """Exact (Clopper-Pearson) interval for a rate.

    Examples
    --------
    >>> round(binomial_interval(0, 10).high, 3)
    0.308
    """
    ci = stats.binomtest(successes, n).proportion_ci(level, method="exact")
    return Interval(ci.low, ci.high, level, "exact binomial")


# --- decisions -----------------------------------------------------------------------------------


def _seeds_needed(sample: Sample, interval: Interval, threshold: float) -> int | None:
    """Values at which the interval, shrinking as t(n)/sqrt(n), would clear the threshold."""
    gap = abs(sample.mean - threshold)
    up = threshold > sample.mean
    reach = interval.high - sample.mean if up else sample.mean - interval.low

    def width(n: int) -> float:
        return float(stats.t.ppf((1 + interval.level) / 2, _degrees(n))) / math.sqrt(n)

    if not math.isfinite(reach):
        return None
    now = width(sample.n)
    return _least(sample.n, lambda n: reach * width(n) < gap * now)


def _answers_needed(successes: int, n: int, threshold: float, level: float) -> int | None:
    """Answers at which the exact interval of the same share would clear the threshold."""
    share, tail = successes / n, (1 - level) / 2

    def clears(m: int) -> bool:
        k = share * m
        if threshold < share:
            return bool(stats.beta.ppf(tail, k, m - k + 1) > threshold)
        return bool(stats.beta.ppf(1 - tail, k + 1, m - k) < threshold)

    return None if share == threshold else _least(n, clears)


def _least(n: int, clears: Callable[[int], bool]) -> int | None:
    """The least number above n that clears, and a tenth for luck."""
    most = 1_000_000  # past it the honest word is "cannot be decided this way"
    if not clears(most):
        return None
    return math.ceil(1.1 * bisect_left(range(most), True, lo=n + 1, key=clears))


def _agreeing(p: float, status: Status, level: float) -> float:
    """Ties among resamples, or the other way to cut a tail, may put p beyond the interval's."""
    return max(p, 1 - level) if status == "inconclusive" else min(p, 1 - level)


def _mean_in(
    values: Values, low: float, high: float, what: str, level: float, bounds: Bounds | None
) -> Verdict:
    """The mean of the values lies in [low, high]; yes/no outcomes are judged as a rate.

    The spread among a few ones and zeros is no guide (five ones have none), so the exact binomial
    judges them wherever the threshold can be a rate. A threshold of less than one in a thousand
    is a tolerance, and zeros below it are errors that are exactly zero.
    """
    x = np.asarray(values, dtype=float).ravel()
    ends = [t for t in (low, high) if 1e-3 <= t <= 1 - 1e-3]
    if len(x) and ends and yes_or_no(x):
        asked = max(low, 0.0), min(high, 1.0)
        return rate(int(x.sum()), len(x), *asked, what or "the rate", level)
    return _decide(Sample(x, bounds), low, high, what, level)


def _decide(
    sample: Sample, low: float, high: float, what: str, level: float, strict: bool = False
) -> Verdict:
    """Reproduced when the interval lies in [low, high], not reproduced when it lies outside.

    ``strict``: the end itself does not count (a gain of exactly nothing is no gain).
    """
    interval, shown = sample.interval(level), sample.bounded(level)
    threshold = f"more than {number(low)}" if strict else _range_words(low, high)
    measured = f"{what or 'the mean'} is {number(sample.mean)} {shown} over {sample.n} values"
    inside = low < interval.low if strict else low <= interval.low
    outside = interval.high <= low if strict else interval.high < low
    if inside and interval.high <= high:
        status: Status = "reproduced"
        tail = f"within the threshold ({threshold})"
    elif outside or interval.low > high:
        status, tail = "not reproduced", f"beyond the threshold ({threshold})"
    else:
        status, tail = "inconclusive", f"the interval holds the threshold ({threshold})"
    near = min((t for t in (low, high) if math.isfinite(t)), key=lambda t: abs(sample.mean - t))
    needed = None
    if status == "inconclusive":
        needed = _seeds_needed(sample, interval, near)
        if sample.n < 2:
            tail = f"{'one value' if sample.n else 'nothing'} cannot decide ({threshold})"
        elif needed:
            tail += f"; about {needed:,} values would decide it"
    p = sample.p(near)
    if p is not None:
        p = _agreeing(p, status, level)
    return Verdict(
        status, f"{measured}: {tail}.", sample.mean, shown, threshold, sample.n, p, needed
    )


def _range_words(low: float, high: float) -> str:
    if low == -math.inf:
        return f"at most {number(high)}"
    if high == math.inf:
        return f"at least {number(low)}"
    return f"between {number(low)} and {number(high)}"


def at_least(
    values: Values,
    threshold: float,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """The mean is at least ``threshold``.

    Parameters
    ----------
    values : one number for each (dataset, seed)
        Ones and zeros are yes/no outcomes: the exact binomial judges them, see :func:`rate`.
    what : str
        What the number is, as the sentence begins: "the median trace ratio at t=100".
    bounds : (low, high), optional
        Between which every value lies by definition; the interval shown ends there.

    Examples
    --------
    >>> at_least([0.9, 0.92, 0.91, 0.93, 0.9], 0.5, "accuracy").status
    'reproduced'
    """
    return _mean_in(values, threshold, math.inf, what, level, bounds)


def at_most(
    values: Values,
    threshold: float,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """The mean is at most ``threshold``; see :func:`at_least`."""
    return _mean_in(values, -math.inf, threshold, what, level, bounds)


def between(
    values: Values,
    low: float,
    high: float,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """The mean lies in [low, high]; see :func:`at_least`."""
    return _mean_in(values, low, high, what, level, bounds)


def _pairs(a: Values, b: Values) -> tuple[np.ndarray, np.ndarray]:
    """Matched by index for Series, by position otherwise."""
    if isinstance(a, pd.Series) and isinstance(b, pd.Series):
        a, b = a.align(b, join="inner")
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape:
        raise ValueError(f"arms are not paired: {first.shape} and {second.shape} values")
    return first, second


def differences(a: Values, b: Values) -> np.ndarray:
    """``a - b``, cell by cell: matched by index for Series, by position otherwise."""
    first, second = _pairs(a, b)
    difference = first - second
    rounding = 1e-12 * np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(difference) <= rounding, 0.0, difference)


def greater_than(
    a: Values,
    b: Values,
    margin: float = 0.0,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """The paired mean difference ``a - b`` exceeds ``margin``; ``bounds`` are the arms' own.

    Examples
    --------
    >>> greater_than([2.0, 2.1, 2.2, 2.0, 2.3], [1.0, 1.2, 1.1, 1.0, 1.1]).status
    'reproduced'
    """
    what = what or "the paired difference"
    return _decide(Differences(a, b, bounds), margin, math.inf, what, level, strict=True)


def less_than(
    a: Values,
    b: Values,
    margin: float = 0.0,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """``a`` is below ``b`` by more than ``margin``: the paired difference ``b - a`` exceeds it."""
    return greater_than(b, a, margin, what, level, bounds)


def equivalent_within(
    a: Values,
    b: Values,
    margin: float,
    what: str = "",
    level: float = LEVEL,
    bounds: Bounds | None = None,
) -> Verdict:
    """The paired mean difference lies within ±``margin``; ``bounds`` are the arms' own."""
    what = what or "the paired difference"
    return _decide(Differences(a, b, bounds), -margin, margin, what, level)


def rate(
    successes: int,
    n: int,
    low: float = 0.0,
    high: float = 1.0,
    what: str = "the rate",
    level: float = LEVEL,
) -> Verdict:
    """A share of independent yes/no outcomes lies in [low, high], by the exact binomial."""
    if low <= 0 and high >= 1:
        raise ValueError("a rate between 0 and 1 is always reproduced: give low or high")
    if n == 0:
        return needs_more(f"{what}: no trials.")
    interval = binomial_interval(successes, n, level)
    if low <= interval.low and interval.high <= high:
        status: Status = "reproduced"
    elif interval.high < low or interval.low > high:
        status = "not reproduced"
    else:
        status = "inconclusive"
    ends = [t for t in (low, high) if 0 < t < 1]
    near = min(ends, key=lambda t: abs(successes / n - t)) if ends else 0.5
    p = _agreeing(float(stats.binomtest(successes, n, near).pvalue), status, level)
    needed = None
    if status == "inconclusive":
        needed = _answers_needed(successes, n, near, level)
    words = _range_words(low if low > 0 else -math.inf, high if high < 1 else math.inf)
    sentence = f"{what} is {successes} of {n} ({number(successes / n)} {interval}); asked: {words}."
    return Verdict(status, sentence, successes / n, interval, words, n, p, needed)


def never(violations: int, n: int, what: str) -> Verdict:
    """An exact statement (an identity, a bound) was violated in none of ``n`` checks.

    No p-value: a single violation refutes it, and none in ``n`` bounds its rate by 3/n.
    """
    if n == 0:
        return needs_more(f"{what}: nothing was checked.")
    if violations:
        sentence = f"{what}: violated in {violations} of {n} checks."
        return Verdict("not reproduced", sentence, violations / n, None, NO_VIOLATION, n)
    high = 1 - (1 - LEVEL) ** (1 / n)
    sentence = f"{what}: no violation in {n} checks (rate below {number(high)} at 95 %)."
    return Verdict(
        "reproduced", sentence, 0.0, Interval(0, high, LEVEL, "exact binomial"), NO_VIOLATION, n
    )


def needs_more(sentence: str) -> Verdict:
    """Cannot be tested here; say what it would take."""
    return Verdict("needs more", sentence)


def all_of(*parts: Verdict, sentence: str = "") -> Verdict:
    """A claim of several parts: reproduced when all are, not when none is, partly in between.

    An undecided part leaves the whole inconclusive unless some part already failed. The number
    shown and its n are those of the first part that decides: that failed, or else is open, or else
    holds. The p-value is the largest, for all parts must hold; one that failed refutes the whole,
    and undecided ones beside it do not make it less sure.

    Examples
    --------
    >>> print(all_of(never(0, 60, "a"), never(2, 60, "b"), sentence="Of two.").sentence)
    Of two.
    ✓ a: no violation in 60 checks (rate below 0.0487 at 95 %).
    ✗ b: violated in 2 of 60 checks.
    """
    statuses = [v.status for v in parts]
    if all(s == "reproduced" for s in statuses):
        status: Status = "reproduced"
    elif all(s == "not reproduced" for s in statuses):
        status = "not reproduced"
    elif "not reproduced" in statuses:
        status = "partly" if "reproduced" in statuses or "partly" in statuses else "not reproduced"
    elif "partly" in statuses:
        status = "partly"
    else:
        status = "needs more" if "needs more" in statuses else "inconclusive"
    told = [f"{MARKS[v.status]} {v.sentence}" if len(parts) > 1 else v.sentence for v in parts]
    needed = [v.seeds_needed for v in parts if v.seeds_needed]
    return replace(
        min(parts, key=lambda v: WEIGHT.index(v.status)),
        status=status,
        sentence="\n".join(filter(None, [sentence, *told])),
        p=_joint_p(status, parts),
        seeds_needed=None if status in DECIDED else max(needed, default=None),
    )


def _joint_p(status: Status, parts: Sequence[Verdict]) -> float | None:
    tested = [v.p for v in parts if v.p is not None]
    failed = [v.p for v in parts if v.status == "not reproduced"]
    if status != "not reproduced" or (len(failed) == len(parts) and None not in failed):
        return max(tested, default=None)
    if None in failed:  # an exact statement was violated: no luck in that
        return None
    # one of several parts, whichever failed clearest: each had its chance to fail by luck
    return min(1.0, len(tested) * min(p for p in failed if p is not None))


def _seeds_for(p: float, wanted: float, n: int) -> int | None:
    """How many values bring the p of ``n`` of them down to the wanted one, at the same effect."""
    now, then = -ndtri(p / 2), -ndtri(wanted / 2)
    needed = math.ceil(n * (then / now) ** 2) if now > 0 else 0
    return needed if needed > n else None


def holm(verdicts: dict[str, Verdict], level: float = LEVEL) -> dict[str, Verdict]:
    """Holm's step-down over the claims of one study.

    A study with six claims gets six chances to be right by luck. Verdicts that rest on an
    interval keep their decision only if it survives Holm at ``1 - level``; otherwise they become
    inconclusive, and the sentence says so. Undecided claims count among the chances.
    """
    tested = {name: v.p for name, v in verdicts.items() if v.p is not None}
    out = dict(verdicts)
    running = 0.0
    for rank, (name, p) in enumerate(sorted(tested.items(), key=lambda item: item[1])):
        chances = len(tested) - rank
        running = max(running, min(1.0, p * chances))
        v = out[name]
        if running > 1 - level and v.status in DECIDED:
            if len(tested) > 1:
                why = f"One of {len(tested)} claims that were tested here: together with the others"
            else:
                why = "Of several parts each could have failed by luck: together"
            note = f"{why}, this is not sure enough (Holm's adjusted p = {number(running)})"
            needed = _seeds_for(p, (1 - level) / chances, v.n)
            note += f"; about {needed} values would decide it." if needed else "."
            out[name] = replace(
                v, status="inconclusive", sentence=f"{v.sentence}\n{note}", seeds_needed=needed
            )
    return out
