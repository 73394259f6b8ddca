r"""Gamma, Delta, their intervals, and what a study of a given size can see.

.. math:: \Gamma(S) = \text{mean accuracy}, \qquad
   \Delta_k = \frac1T \sum_t \frac1{n_t} \sum_i \bigl(c_i(\text{raw}) - c_i(k)\bigr)

over the T sets of tasks and the same items i: what replacing the symbols of kind k costs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from jaxtyping import Float, Real
from scipy import stats

from practicum.errors import InputError

FLOOR, CEILING = 0.05, 0.98
DRAWS = 2000
FEWEST_FLIPS = 6  # all one way, before the exact McNemar test is below 5 %: 2 * 0.5**6
AT_ONCE = 4_000_000  # items drawn anew in one array


@dataclass(frozen=True)
class Delta:
    """What replacing symbols costs on the same items.

    Parameters
    ----------
    kind : str
        Which symbols were replaced.
    raw, mapped : float
        Accuracy with ordinary and with replaced symbols, mean over the sets.
    delta : float
        Their difference, in [-1, 1].
    low, high : float
        95 % interval of the difference by the bootstrap over items within sets.
    p : float
        Exact McNemar: of the items that flip, as many each way?
    lost, gained : int
        Items that flipped from right to wrong, and the other way.
    items : int
    detectable : float
        The smallest Delta seen with 80 % power at this size and rate of flips.
    raw_interval, mapped_interval : (float, float), optional
        95 % intervals of the two accuracies.

    Attributes
    ----------
    relative : float or None
        Delta / Gamma_raw; None where Gamma_raw is below 0.05 and Delta says nothing.

    Examples
    --------
    >>> Delta("full", 0.8, 0.4, 0.4, 0.3, 0.5, 1e-9, 50, 2, 120, 0.1).relative
    0.5
    """

    kind: str
    raw: float
    mapped: float
    delta: float
    low: float
    high: float
    p: float
    lost: int
    gained: int
    items: int
    detectable: float
    raw_interval: tuple[float, float] | None = None
    mapped_interval: tuple[float, float] | None = None

    @property
    def relative(self) -> float | None:
        """Delta as a share of Gamma_raw."""
        return self.delta / self.raw if self.raw >= FLOOR else None


def _checked(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    arrays = [np.asarray(v, dtype=float) for v in values]
    if not arrays or any(a.ndim != 1 or not len(a) for a in arrays):
        raise InputError("no items to compare", "every set needs at least one")
    return arrays


def bootstrap_means(
    values: Sequence[Real[np.ndarray, "_"]], rng: np.random.Generator, draws: int = DRAWS
) -> Float[np.ndarray, " draws"]:
    """Bootstrap of a mean over sets of means over items: items are drawn anew within each set.

    Parameters
    ----------
    values : sequence of arrays
        One number an item, an array for each set.
    rng : numpy.random.Generator
    draws : int

    Raises
    ------
    InputError
        If a set is empty.

    Examples
    --------
    >>> means = bootstrap_means([np.ones(5), np.zeros(3)], np.random.default_rng(0))
    >>> means.shape, float(means.mean())
    ((2000,), 0.5)
    """
    total = np.zeros(draws)
    arrays = _checked(values)
    for array in arrays:
        n = len(array)
        step = max(1, AT_ONCE // n)
        for start in range(0, draws, step):
            part = total[start : start + step]
            part += array[rng.integers(n, size=(len(part), n))].mean(axis=1)
    return total / len(arrays)


def interval(
    values: Sequence[Real[np.ndarray, "_"]], rng: np.random.Generator, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of :func:`bootstrap_means`, widened for small sets.

    Resampling n items understates their spread by sqrt((n - 1)/n); the interval is stretched about
    the mean by as much.

    Parameters
    ----------
    values : sequence of arrays
    rng : numpy.random.Generator
    level : float

    Raises
    ------
    InputError
        If a set is empty.

    Examples
    --------
    >>> interval([np.ones(5)], np.random.default_rng(0))
    (1.0, 1.0)
    """
    arrays = _checked(values)
    means = bootstrap_means(arrays, rng)
    centre = float(np.mean([a.mean() for a in arrays]))
    size = np.median([len(a) for a in arrays])
    stretch = math.sqrt(size / (size - 1)) if size > 1 else 1.0
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return centre + stretch * (float(low) - centre), centre + stretch * (float(high) - centre)


def _certainty(items: int, level: float = 0.95) -> float:
    """How rare an outcome may be that was not seen once, or that always was: exactly."""
    return 1 - ((1 - level) / 2) ** (1 / items)


def share_interval(
    values: Sequence[Real[np.ndarray, "_"]], rng: np.random.Generator
) -> tuple[float, float]:
    """95 % interval of an accuracy; exact where all or none were right.

    There the bootstrap sees no spread and would claim to be certain.

    Parameters
    ----------
    values : sequence of arrays
        In [0, 1], one number an item, an array for each set.
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If a set is empty.

    Examples
    --------
    >>> [round(x, 3) for x in share_interval([np.ones(5)], np.random.default_rng(0))]
    [0.478, 1.0]
    """
    flat = np.concatenate(_checked(values))
    if flat.min() == flat.max() and flat[0] in (0, 1):
        missed = _certainty(len(flat))
        return (0.0, missed) if flat[0] == 0 else (1 - missed, 1.0)
    low, high = interval(values, rng)
    return max(low, 0.0), min(high, 1.0)


def paired_interval(
    differences: Sequence[Real[np.ndarray, "_"]], rng: np.random.Generator
) -> tuple[float, float]:
    """95 % interval of a mean difference of two outcomes on the same items.

    Where no item differs, either share of differing items may be as large as what is not seen once
    in so many may be; where all differ the same way, the others.

    Parameters
    ----------
    differences : sequence of arrays
        In [-1, 1], one number an item, an array for each set.
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If a set is empty.

    Examples
    --------
    >>> [round(x, 3) for x in paired_interval([np.zeros(100)], np.random.default_rng(0))]
    [-0.036, 0.036]
    """
    flat = np.concatenate(_checked(differences))
    if flat.min() == flat.max() and flat[0] in (-1, 0, 1):
        unseen, all_ = _certainty(len(flat)), float(flat[0])
        if all_ == 0:
            return -unseen, unseen
        return (1 - 2 * unseen, 1.0) if all_ > 0 else (-1.0, 2 * unseen - 1)
    low, high = interval(differences, rng)
    return max(low, -1.0), min(high, 1.0)


def mcnemar(lost: int, gained: int) -> float:
    """Exact McNemar test: under no effect a flip goes either way with equal chance.

    Parameters
    ----------
    lost, gained : int
        Discordant pairs of each sign.

    Raises
    ------
    InputError
        If a count is negative.

    Examples
    --------
    >>> mcnemar(10, 0) < 0.01, mcnemar(0, 0)
    (True, 1.0)
    """
    if min(lost, gained) < 0:
        raise InputError(f"{lost} and {gained} discordant pairs: counts are not negative")
    return float(stats.binomtest(lost, lost + gained).pvalue) if lost + gained else 1.0


def paired_delta(
    raw: Sequence[Real[np.ndarray, "_"]],
    mapped: Sequence[Real[np.ndarray, "_"]],
    kind: str = "full",
    rng: np.random.Generator | None = None,
) -> Delta:
    """Delta on the same items.

    Parameters
    ----------
    raw, mapped : sequence of arrays
        For each set of tasks one number an item, 0 or 1, or a mean over several maps.
    kind : str
    rng : numpy.random.Generator, optional
        Of the bootstrap; by default seeded with 0.

    Raises
    ------
    InputError
        If the sets are not paired or empty.

    Examples
    --------
    >>> d = paired_delta([np.array([1, 1, 1, 0])], [np.array([1, 0, 0, 0])])
    >>> d.delta, d.lost, d.gained
    (0.5, 2, 0)
    """
    before, after = _checked(raw), _checked(mapped)
    if [len(a) for a in before] != [len(a) for a in after]:
        raise InputError("raw and remapped results are not of the same items")
    differences = [a - b for a, b in zip(before, after, strict=True)]
    rng = rng or np.random.default_rng(0)
    low, high = paired_interval(differences, rng)
    flat = np.concatenate(differences)
    lost, gained = int((flat > 0).sum()), int((flat < 0).sum())
    delta = float(np.mean([d.mean() for d in differences]))
    return Delta(
        kind=kind,
        raw=float(np.mean([a.mean() for a in before])),
        mapped=float(np.mean([a.mean() for a in after])),
        delta=delta,
        low=low,
        high=high,
        p=mcnemar(lost, gained),
        lost=lost,
        gained=gained,
        items=len(flat),
        detectable=detectable(len(flat), float((flat**2).mean())),
        raw_interval=share_interval(before, rng),
        mapped_interval=share_interval(after, rng),
    )


def standard_error(items: int, discordance: float, delta: float = 0.0) -> float:
    r"""Standard error of Delta, :math:`\sqrt{(c - \Delta^2)/m}`.

    Parameters
    ----------
    items : int
        m, the paired items.
    discordance : float
        c, the share of items that flip either way.
    delta : float

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> round(standard_error(336, 0.3), 3), round(standard_error(1344, 0.3), 3)
    (0.03, 0.015)
    """
    if items < 1 or not 0 <= discordance <= 1 or delta**2 > discordance:
        raise InputError(
            f"items={items}, discordance={discordance}, delta={delta}: at least one item, a share "
            "in [0, 1], and no Delta beyond it"
        )
    return math.sqrt((discordance - delta**2) / items)


def detectable(items: int, discordance: float = 0.3, power: float = 0.8) -> float:
    """The smallest Delta that is told from none at 5 % with a given power.

    Never less than six items that all flip one way, which the exact test needs; 1 where there are
    not even six.

    Parameters
    ----------
    items : int
    discordance, power : float

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> round(detectable(336), 3), round(detectable(1344), 3)
    (0.084, 0.042)
    """
    if not 0 < power < 1:
        raise InputError(f"power={power}: a share between 0 and 1")
    return min(1.0, max(_reach(power) * standard_error(items, discordance), FEWEST_FLIPS / items))


def _reach(power: float) -> float:
    """Standard errors between nothing and what is seen at 5 % with that power."""
    return float(stats.norm.ppf(0.975) + stats.norm.ppf(power))


def items_needed(delta: float, discordance: float = 0.3, power: float = 0.8) -> int:
    """How many paired items it takes to tell a Delta from none at 5 %.

    Parameters
    ----------
    delta, discordance, power : float

    Raises
    ------
    InputError
        If a number is out of range, or Delta is larger than the share of items that flip.

    Examples
    --------
    >>> items_needed(0.05), items_needed(0.3)
    (942, 27)
    """
    if not 0 < power < 1 or not 0 < delta <= discordance <= 1:
        raise InputError(
            f"delta={delta}, discordance={discordance}, power={power}: a power between 0 and 1, "
            "and 0 < delta <= discordance <= 1"
        )
    return math.ceil(max(discordance * (_reach(power) / delta) ** 2, FEWEST_FLIPS / delta))


# --- the published numbers -----------------------------------------------------------------------


@lru_cache(maxsize=1)
def published() -> Mapping[str, Mapping[str, float]]:
    """The published accuracies of gpt-4o-mini on the 82 sets, without and with chain of thought.

    Read from the authors' repository (MAC-AutoML/abstract-reason-benchmark, result files judged by
    a model); the names are ours.

    Examples
    --------
    >>> {name: len(runs) for name, runs in published().items()}
    {'direct': 82, 'cot': 82}
    """
    text = (files(__package__) / "published.json").read_text(encoding="utf-8")
    return json.loads(text)


def aggregates(accuracy: Mapping[str, float]) -> dict[str, float]:
    """Category means, the overall mean, and the three Deltas, as the benchmark computes them.

    Every set weighs the same, whatever its number of items; Delta is over the fourteen sets that
    exist in all forms. What cannot be computed from the sets given is left out.

    Parameters
    ----------
    accuracy : mapping of set name to accuracy

    Raises
    ------
    InputError
        If there is nothing to average.

    Examples
    --------
    >>> direct = aggregates(published()["direct"])
    >>> round(direct["overall"], 5), round(direct["delta_full"], 5)
    (0.40996, 0.35119)
    """
    if not accuracy:
        raise InputError("no accuracies to aggregate")
    groups: dict[str, list[float]] = {}
    for task, value in accuracy.items():
        category, _, name = task.partition("/")
        groups.setdefault(category, []).append(value)
        if category == "sr":
            groups.setdefault(f"{name.partition('/')[2]}14", []).append(value)
            raw = f"ec/{name.partition('/')[0]}"
            if name.endswith("/full") and raw in accuracy:
                groups.setdefault("raw14", []).append(accuracy[raw])
    out = {name: math.fsum(values) / len(values) for name, values in groups.items()}
    out["overall"] = math.fsum(accuracy.values()) / len(accuracy)
    for kind in ("full", "operand", "operator"):
        if "raw14" in out and f"{kind}14" in out:
            out[f"delta_{kind}"] = out["raw14"] - out[f"{kind}14"]
    return out
