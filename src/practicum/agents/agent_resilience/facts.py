"""Numbers the paper and its authors' result files report (facts; no text or data of theirs)."""

from __future__ import annotations

import math
from typing import NamedTuple

# Table 3, HumanEval pass@1 in %, GPT-3.5: team -> fault -> defence
TABLE_3 = {
    "Self-collab": {
        "none": {"none": 76.2, "C": 74.6, "I": 76.4, "C+I": 76.8},
        "AutoTransform": {"none": 43.3, "C": 70.7, "I": 74.4, "C+I": 75.0},
        "AutoInject": {"none": 40.9, "C": 72.0, "I": 67.7, "C+I": 73.8},
    },
    "CAMEL": {
        "none": {"none": 62.2, "C": 62.2, "I": 61.0, "C+I": 63.8},
        "AutoTransform": {"none": 32.5, "C": 43.5, "I": 41.8, "C+I": 48.7},
        "AutoInject": {"none": 29.3, "C": 40.2, "I": 44.2, "C+I": 48.6},
    },
}

# the headline: mean absolute drop in points over tasks, systems, models and faults
STATED_DROP = {"hierarchical": 5.5, "flat": 10.5, "linear": 23.7}


class System(NamedTuple):
    """Passes of 164 HumanEval problems in the published result files, and the paired drop.

    Which system has which topology is from memory of the paper, and agrees with its structure
    figure only loosely.

    Examples
    --------
    >>> RECOUNT["MAD"].topology
    'hierarchical'
    """

    topology: str
    vanilla: int
    transformed: int | None  # AutoTransform
    injected: int  # AutoInject, semantic, 0.2
    drop: float  # AutoInject, points, paired over problems
    half_width: float  # of its 95 % interval


RECOUNT = {
    "MetaGPT": System("linear", 82, 60, 44, 23.2, 8.1),
    "Self-collab": System("linear", 125, 71, 67, 35.4, 8.6),
    "CAMEL": System("flat", 102, None, 48, 32.9, 8.5),
    "SPP": System("flat", 107, 86, 57, 30.5, 9.3),
    "MAD": System("hierarchical", 102, 92, 88, 8.5, 8.7),
    "AgentVerse": System("hierarchical", 119, 79, 81, 23.2, 6.7),
}

# pass@1 in %: severity (segments of a touched message) and frequency (messages touched); which
# suffix of a file's name is which is our inference
SEVERITY = {"CAMEL": (57.3, 57.9, 56.1), "MetaGPT": (52.4, 46.3, 50.6)}  # P_e = .2, .4, .6
FREQUENCY = {"CAMEL": (29.3, 18.9, 10.4), "MetaGPT": (26.8, 15.9, 6.7)}  # P_m = .2, .4, .6


def recounted_drop(topology: str) -> tuple[float, float]:
    """Mean drop of a topology's systems in points on code, and the half width of its 95 % interval.

    Intervals are combined as of independent systems, sqrt(sum h^2) / n.

    Parameters
    ----------
    topology : {"linear", "flat", "hierarchical"}

    Raises
    ------
    ZeroDivisionError
        There is no system of that topology.

    Examples
    --------
    >>> [round(recounted_drop(t)[0], 2) for t in ("linear", "flat", "hierarchical")]
    [29.3, 31.7, 15.85]
    """
    part = [s for s in RECOUNT.values() if s.topology == topology]
    mean = sum(s.drop for s in part) / len(part)
    return mean, math.sqrt(sum(s.half_width**2 for s in part)) / len(part)


def recounted_difference(worse: str, better: str) -> tuple[float, float, float]:
    """Drop of one topology minus another's, with its 95 % interval: (difference, low, high).

    Parameters
    ----------
    worse, better : {"linear", "flat", "hierarchical"}

    Raises
    ------
    ZeroDivisionError
        There is no system of a topology.

    Examples
    --------
    >>> [round(x, 1) for x in recounted_difference("linear", "hierarchical")]
    [13.4, 5.4, 21.5]
    """
    (a, h), (b, k) = recounted_drop(worse), recounted_drop(better)
    half = math.hypot(h, k)
    return a - b, a - b - half, a - b + half
