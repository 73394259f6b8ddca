r"""An upper confidence bound on P(R >= level) in the network that was seen.

Let ``U_k`` be a limit that client k's true risk R_k exceeds with chance at most ``miss``, whatever
the client. Then ``P(U < level) <= P(R < level) + miss P(R >= level)``, or

    P(R >= level) <= P(U >= level) / (1 - miss),

and P(U >= level) is bounded from the K independent limits by :func:`bands.tail_upper`, at all
levels at once. Neither delta nor the clients have to be shared out: no ``ln K`` enters, and clients
with few samples do no harm to the others. Where all clients have the same n, every ``miss`` gives a
threshold on the same K numbers, the band covers them all, and the smallest bound counts.

The union bound asks more than is needed, namely that all K limits hold: ``U_k = risk_k + sqrt(ln(K
/ delta_2) / (2 n_k))``, with delta shared between clients and samples. It is kept for clients whose
sample sizes were fixed by hand, and for comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from practicum.federated.dkw_certificate.bands import (
    Band,
    Losses,
    risk_upper_limit,
    tail_upper,
)

MISSES = (0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-5)  # for equal n, all at no extra cost
MISS = 0.05  # for unequal n


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class SourceTail:
    """A nonincreasing step function above P(R >= level), simultaneously in the level.

    Attributes
    ----------
    limits : array, shape (J, U)
        Distinct limits in ascending order, one row a ``miss``.
    bounds : array, shape (U + 1,)
        Bound on P(U >= level) when the first u limits lie below the level.
    keep : array, shape (J,)
        ``1 - miss``.
    """

    limits: np.ndarray
    bounds: np.ndarray
    keep: np.ndarray

    def __call__(self, levels: Float[np.ndarray, " G"]) -> Float[np.ndarray, " G"]:
        """The bound at each level."""
        best = np.ones(len(levels))
        for limits, keep in zip(self.limits, self.keep, strict=True):
            below = np.searchsorted(limits, levels, "left")
            np.minimum(best, self.bounds[below] / keep, out=best)
        return best

    def law(self, top: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Values and masses of the law with this tail; what is left of the tail goes to ``top``."""
        values = np.unique(self.limits)
        tail = self(values)
        beyond = min(1.0, float((self.bounds[-1] / self.keep).min()))
        mass = tail - np.append(tail[1:], beyond)
        return np.append(values, top), np.append(mass, beyond)


def _steps(
    values: np.ndarray, counts: np.ndarray, delta: float, band: Band
) -> Float[np.ndarray, " U1"]:
    """Bounds on the tail when 0, 1, ... distinct values lie below the level."""
    below = np.concatenate([[0], np.cumsum(counts)])
    return tail_upper(below[-1] - below, int(below[-1]), delta, band)


def source_tail(
    risks: Float[np.ndarray, " K"],
    n: Int[np.ndarray, " K"] | None,
    delta: float,
    losses: Losses,
    band: Band,
) -> SourceTail:
    """The bound that shares nothing; see the module's page.

    Parameters
    ----------
    risks : array, shape (K,)
    n : int array, shape (K,), optional
        Samples of each client; without it the risks are taken as exact.
    delta : float
    losses : {"bounded", "01"}
    band : {"tail", "dkw"}

    Raises
    ------
    InputError
        As in :func:`risk_upper_limit`.

    Examples
    --------
    >>> risks, n = np.array([0.1] * 30 + [0.4] * 10), np.full(40, 200)
    >>> tail = source_tail(risks, n, 0.05, "01", "tail")
    >>> tail(np.array([0.05, 0.3, 0.6])).round(3)
    array([1.   , 0.453, 0.125])
    """
    if n is None or len(set(n.tolist())) > 1:
        single = risks if n is None else risk_upper_limit(risks, n, MISS, losses)
        values, counts = np.unique(single, return_counts=True)
        keep = np.array([1.0 if n is None else 1 - MISS])
        return SourceTail(values[None], _steps(values, counts, delta, band), keep)
    values, counts = np.unique(risks, return_counts=True)
    size = np.full(len(values), n[0])
    limits = np.stack([risk_upper_limit(values, size, miss, losses) for miss in MISSES])
    return SourceTail(limits, _steps(values, counts, delta, band), 1 - np.array(MISSES))


def union_tail(
    risks: Float[np.ndarray, " K"], n: Int[np.ndarray, " K"] | None, delta: float, band: Band
) -> SourceTail:
    """The bound by a union over clients, delta shared equally with the samples.

    Parameters
    ----------
    risks, n, delta, band
        As in :func:`source_tail`.

    Raises
    ------
    InputError
        ``delta`` outside (0, 1/2].

    Examples
    --------
    >>> risks, n = np.array([0.1] * 30 + [0.4] * 10), np.full(40, 200)
    >>> union_tail(risks, n, 0.05, "dkw")(np.array([0.05, 0.3, 0.6])).round(3)
    array([1.   , 0.465, 0.215])
    """
    limits, spent = risks, delta
    if n is not None:
        spent = delta / 2
        limits = np.minimum(1.0, risks + np.sqrt(math.log(len(risks) / spent) / (2 * n)))
    values, counts = np.unique(limits, return_counts=True)
    return SourceTail(values[None], _steps(values, counts, spent, band), np.ones(1))
