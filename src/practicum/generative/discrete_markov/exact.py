r"""The enumerable oracle: for d bits, laws on all :math:`2^d` states, without a network.

A law is an array of shape ``(2,) * d``, indexed by the bits.  The forward kernel is applied axis by
axis (:math:`d\,2^d` work, never the :math:`4^d` matrix), so that d = 14 takes milliseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from practicum.errors import InputError
from practicum.generative.discrete_markov.process import alpha, flip_chance

MAX_BITS = 16
Law = Float[np.ndarray, "..."]


def states(d: int) -> Bool[np.ndarray, "s d"]:
    """All states of d bits, in the order in which a law's ``ravel()`` lists them.

    Parameters
    ----------
    d : int

    Raises
    ------
    InputError
        If there are too many to enumerate.

    Examples
    --------
    >>> states(2).astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if not 1 <= d <= MAX_BITS:
        raise InputError(f"{d} bits cannot be enumerated", f"at most {MAX_BITS}")
    codes = np.arange(2**d)
    return (codes[:, None] >> np.arange(d)[::-1]) & 1 == 1


def empirical_law(x: Bool[np.ndarray, "n d"]) -> Law:
    """Share of every state in a sample.

    Parameters
    ----------
    x : bool array, shape (n, d)

    Returns
    -------
    array of shape ``(2,) * d``

    Raises
    ------
    InputError
        If d is too large to enumerate.

    Examples
    --------
    >>> empirical_law(np.array([[True], [False], [True], [True]])).tolist()
    [0.25, 0.75]
    """
    n, d = x.shape
    if d > MAX_BITS:
        raise InputError(f"{d} bits cannot be enumerated", f"at most {MAX_BITS}")
    codes = x @ (1 << np.arange(d)[::-1])
    return np.bincount(codes, minlength=2**d).reshape((2,) * d) / n


def product_law(p: Float[np.ndarray, " d"]) -> Law:
    """The law of independent bits that are 1 with probabilities ``p``.

    Parameters
    ----------
    p : array, shape (d,)

    Raises
    ------
    InputError
        If a probability is outside [0, 1].

    Examples
    --------
    >>> product_law(np.array([0.25, 0.5])).tolist()
    [[0.375, 0.375], [0.125, 0.125]]
    """
    p = np.asarray(p, dtype=float)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("probabilities lie in [0, 1]")
    law = np.ones(())
    for chance in p:
        law = np.multiply.outer(law, [1 - chance, chance])
    return law


def _mix(law: Law, axis: int, a: float) -> Law:
    """The two-state chain on one bit: keep with probability (1 + a)/2."""
    return (1 + a) / 2 * law + (1 - a) / 2 * np.flip(law, axis)


def forward(mu0: Law, t: float) -> Law:
    r"""The law :math:`\mu_t` of the noised bits.

    Parameters
    ----------
    mu0 : array, shape (2,) * d
        The law of the data; sums to 1.
    t : float

    Raises
    ------
    InputError
        If t is negative.

    Examples
    --------
    >>> forward(np.array([0.0, 1.0]), 0.0).tolist()
    [0.0, 1.0]
    """
    a = float(alpha(t))
    law = np.asarray(mu0, dtype=float)
    for axis in range(law.ndim):
        law = _mix(law, axis, a)
    return law


def denoiser(mu0: Law, t: float) -> Float[np.ndarray, "s d"]:
    r""":math:`d_t^l(x) = P(X_0^l \ne x^l \mid X_t = x)` for every state, from Bayes' rule.

    Parameters
    ----------
    mu0 : array, shape (2,) * d
    t : float, > 0

    Returns
    -------
    array, shape (2**d, d)
        States in the order of :func:`states`.

    Raises
    ------
    InputError
        If t is negative.

    Examples
    --------
    >>> denoiser(np.array([0.5, 0.5]), 1.0).round(3).tolist()  # (1 - alpha)/2 on both states
    [[0.432], [0.432]]
    """
    a = float(alpha(t))
    mu0 = np.asarray(mu0, dtype=float)
    d = mu0.ndim
    mu_t = forward(mu0, t)
    columns = []
    for bit in range(d):
        others = mu0  # noised in every bit but this one: P(X_0^l = b, other bits at t)
        for axis in range(d):
            if axis != bit:
                others = _mix(others, axis, a)
        columns.append(((1 - a) / 2 * np.flip(others, bit) / mu_t).ravel())
    return np.stack(columns, axis=1)


def score(mu0: Law, t: float) -> Float[np.ndarray, "s d"]:
    r"""The discrete score :math:`1 - \mu_t(\varphi_l x)/\mu_t(x)` by its definition, a ratio.

    Parameters
    ----------
    mu0 : array, shape (2,) * d
    t : float, > 0

    Raises
    ------
    InputError
        If t is negative.

    Examples
    --------
    >>> score(np.array([0.5, 0.5]), 1.0).tolist()
    [[0.0], [0.0]]
    """
    mu_t = forward(mu0, t)
    return np.stack([(1 - np.flip(mu_t, k) / mu_t).ravel() for k in range(mu_t.ndim)], axis=1)


def sample_law(
    mu0: Law,
    times: Float[np.ndarray, " k"],
    sampler: str = "bridge",
    denoise: Callable[[float], Float[np.ndarray, "s d"]] | None = None,
) -> Law:
    """The law a sampler ends in, exactly: no draws.

    Parameters
    ----------
    mu0 : array, shape (2,) * d
        The law of the data (gives the exact denoiser, unless ``denoise`` is given).
    times : array
        Decreasing, from the horizon to 0, as :func:`time_grid` makes them.
    sampler : {"bridge", "frozen", "renoise", "euler"}
    denoise : callable, optional
        ``t -> (2**d, d)``, another denoiser: a trained network's.

    Returns
    -------
    array, shape (2,) * d

    Raises
    ------
    InputError
        If the times are not decreasing.

    Examples
    --------
    >>> from practicum.generative.discrete_markov.process import time_grid
    >>> law = product_law(np.array([0.1, 0.8]))
    >>> total_variation(sample_law(law, time_grid(3.0, 1)), law) < 1e-4
    True
    """
    d = np.ndim(mu0)
    now = np.full(2**d, 2.0**-d)
    for t, u in itertools.pairwise(times):
        d_t = denoiser(mu0, t) if denoise is None else denoise(float(t))
        flips = flip_chance(d_t, float(t), float(u), sampler)
        now = _flip_independently(now, flips)
    return now.reshape((2,) * d)


def _flip_independently(
    law: Float[np.ndarray, " s"], flips: Float[np.ndarray, "s d"]
) -> np.ndarray:
    """Push a law through a kernel in which state x flips its bits with probabilities flips[x]."""
    size, d = flips.shape
    after = np.zeros(size)
    chunk = max(1, 2**22 // size)
    order = np.arange(size)
    for start in range(0, size, chunk):
        some = slice(start, start + chunk)
        pattern = law[some, None]  # probability of every pattern of flips, one bit at a time
        for bit in range(d):
            q = flips[some, bit, None]
            pattern = np.concatenate([pattern * (1 - q), pattern * q], axis=1)
            pattern = pattern.reshape(-1, 2, 2**bit).swapaxes(1, 2).reshape(len(pattern), -1)
        for row, state in zip(pattern, order[some], strict=True):
            after[state ^ order] += row
    return after


def entropy(law: Law) -> float:
    """Entropy in nats.

    Parameters
    ----------
    law : array that sums to 1

    Raises
    ------
    ValueError
        Never for a law.

    Examples
    --------
    >>> round(entropy(np.array([0.5, 0.5])), 4)
    0.6931
    """
    positive = law[law > 0]
    return float(-(positive * np.log(positive)).sum())


def kl_from_uniform(law: Law) -> float:
    r""":math:`\mathrm{KL}(\mu \,\|\, \gamma_d)` to the uniform law, in nats.

    Parameters
    ----------
    law : array, shape (2,) * d

    Raises
    ------
    ValueError
        Never for a law.

    Examples
    --------
    >>> kl_from_uniform(np.array([0.5, 0.5]))
    0.0
    """
    return float(np.ndim(law) * np.log(2) - entropy(law))


def total_variation(p: Law, q: Law) -> float:
    """Half the sum of absolute differences, in [0, 1].

    Parameters
    ----------
    p, q : arrays of one shape

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
    return float(np.abs(p - q).sum() / 2)
