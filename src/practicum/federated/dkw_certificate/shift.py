"""How far apart two networks look: a diagnostic, not part of any certificate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Real

from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import as_numbers
from practicum.federated.dkw_certificate.worst_case import FDivergence, check_divergence

MOST_BINS = 1000  # more say nothing about a few thousand clients


def estimate_shift(
    source: Real[np.ndarray, " K"] | Sequence[float | int],
    target: Real[np.ndarray, " M"] | Sequence[float | int],
    divergence: FDivergence = "chi2",
    bins: int = 10,
) -> float:
    r"""A binned estimate of D_f between the laws of a per-client number in two networks.

    With histograms h_s and h_t as densities over the joint range: ``sum (h_t - h_s)^2 / h_s dx``
    or ``sum h_t ln(h_t / h_s) dx``; a source bin that is empty where the target's is not is raised
    to the smallest that holds somebody.

    Coarser bins make it smaller, and it has no confidence level. A radius chosen with the target's
    risks must not be used to certify that same target: choose it from earlier networks, or from
    what the deployment plan says.

    Parameters
    ----------
    source, target : arrays, shapes (K,) and (M,)
        Risks (or accuracies) of the clients of either network.
    divergence : {"chi2", "kl"}
    bins : int
        1 to 1000.

    Raises
    ------
    InputError
        Empty or non-finite numbers, no bin or too many, or an unknown divergence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mild, severe = rng.beta(2, 6, 2000), rng.beta(3, 5, 2000)
    >>> round(estimate_shift(mild, severe), 2), round(estimate_shift(mild, mild), 2)
    (0.8, 0.0)
    """
    check_divergence(divergence)
    both = []
    for name, values in (("source", source), ("target", target)):
        x = as_numbers(values, name)
        if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
            raise InputError(f"{name} must be a list of finite numbers, one a client")
        both.append(x)
    if not 1 <= bins <= MOST_BINS or bins != int(bins):
        raise InputError(
            f"bins is {bins}; at least one is needed", f"a whole number, at most {MOST_BINS}"
        )
    joint = np.concatenate(both)
    if joint.min() == joint.max():
        return 0.0
    edges = np.linspace(joint.min(), joint.max(), bins + 1)
    h_s, h_t = (np.histogram(x, edges, density=True)[0] for x in both)
    # only where the target has somebody: a bin that both leave empty is no difference
    h_s = np.where((h_s == 0) & (h_t > 0), h_s[h_s > 0].min(), h_s)
    width = edges[1] - edges[0]
    if divergence == "chi2":
        seen = h_s > 0
        return float(((h_t[seen] - h_s[seen]) ** 2 / h_s[seen]).sum() * width)
    some = h_t > 0
    return float((h_t[some] * np.log(h_t[some] / h_s[some])).sum() * width)
