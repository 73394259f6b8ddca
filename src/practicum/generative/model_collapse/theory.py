"""Closed forms: what the generations must do, on average.

Derived for Algorithm 1 of Kazdan et al., *Collapse or Thrive?*, ICML 2025 (arXiv 2410.16713).
The pool's mean and its second moment are martingales; everything else follows from that.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.generative.model_collapse.workflows import Workflow, check_workflow


def gaussian_curve(
    n: int,
    T: int,
    workflow: Workflow | str,
    sigma2: float = 1.0,
    d: int = 1,
    cov: Literal["mle", "unbiased"] | str = "mle",
) -> dict[str, Float[np.ndarray, " T"]]:
    """Expected trace ratio and mean error of a Gaussian fit at generations 1..T.

    Parameters
    ----------
    n : int
        Items per generation, at least 2.
    T : int
        Number of generations.
    workflow : {"replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"}
        What each generation is trained on.
    sigma2 : float
        Variance of one coordinate of the real distribution N(mu_0, sigma2 I_d).
    d : int
        Dimension.
    cov : {"mle", "unbiased"}
        Divide the scatter by the number of items, or by that number minus one.

    Returns
    -------
    dict
        ``trace_ratio`` (T,) is f_t = E tr(Sigma_t) / tr(Sigma_0); ``mean_sq_error`` (T,) is
        E ||mu_t - mu_0||^2, in squared units of the data.

    Raises
    ------
    InputError
        For an unknown workflow or estimator, n < 2 or T < 1.

    Notes
    -----
    With the maximum likelihood covariance the recursion below has the solutions

    * replace: f_t = (1 - 1/n)^t;
    * accumulate: f_t = prod_{s<=t} (1 - 1/(n s^2)) -> sin(pi/sqrt n) / (pi/sqrt n);
    * accumulate-subsample: c_t = (t-1)/(nt-1), V_1 = 1 - 1/n,
      V_{t+1} = V_t (1 - (c_t + (1-c_t)/n)/(t+1)^2), f_t = V_t (1 - c_t);

    and E ||mu_t - mu_0||^2 = tr(Sigma_0) (1 - f_t) in all three.  The unbiased covariance keeps
    f_t = 1 under replace, while the mean error grows as t tr(Sigma_0) / n.
    "accumulate-synthetic", accumulate without the real items, is accumulate started from the first
    fit: f_t = (1 - 1/n) times accumulate's f_{t-1}.

    Examples
    --------
    >>> round(float(gaussian_curve(10, 100, "accumulate")["trace_ratio"][-1]), 6)
    0.844276
    """
    check_workflow(workflow)
    if cov not in ("mle", "unbiased"):
        raise InputError(f"cov={cov!r} is not known", 'use "mle" or "unbiased"')
    if n < 2 or T < 1:
        raise InputError(f"n={n}, T={T}: need n >= 2 and T >= 1")
    trace, error = np.empty(T), np.empty(T)
    variance, mean_error = 1 - 1 / n, 1 / n  # of the pool: biased variance, error of its mean
    chunks = 1  # the pool holds chunks * n items
    for t in range(T):
        # A fit to n of the pool's items sees a mean that is off by c variance.
        c = (chunks - 1) / (n * chunks - 1) if workflow == "accumulate-subsample" else 0.0
        size = n if workflow == "accumulate-subsample" else n * chunks
        spread = variance * (1 - c) * (size / (size - 1) if cov == "unbiased" else 1.0)
        trace[t], error[t] = spread, mean_error + c * variance
        if workflow == "replace" or (workflow == "accumulate-synthetic" and t == 0):
            variance, mean_error = spread * (1 - 1 / n), mean_error + spread / n
            continue
        second_moment = chunks * (variance + mean_error) + spread + mean_error + c * variance
        chunks += 1
        mean_error += (c * variance + spread / n) / chunks**2
        variance = second_moment / chunks - mean_error
    return {"trace_ratio": trace, "mean_sq_error": sigma2 * d * error}


def kde_second_moment(
    n: int, T: int, workflow: Workflow | str, h: float, d: int, e0: float
) -> Float[np.ndarray, " T"]:
    """Expected mean squared norm of the pool before fits 1..T of a fixed-bandwidth Gaussian KDE.

    Sampling a KDE picks a training item and adds N(0, h^2 I_d), so a new chunk's mean squared norm
    is the training set's plus d h^2.  With H_t = 1 + 1/2 + ... + 1/t:

    * replace: e0 + d h^2 (t - 1);
    * accumulate and accumulate-subsample: e0 + d h^2 (H_t - 1);
    * accumulate-synthetic: e0, then e0 + d h^2 H_{t-1}.

    Parameters
    ----------
    n : int
        Items per generation (the expectation does not depend on it).
    T : int
        Number of generations.
    workflow : {"replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"}
        What each generation is trained on.
    h : float
        Bandwidth, in units of the data.
    d : int
        Dimension.
    e0 : float
        Mean squared norm of the real items.

    Returns
    -------
    array, shape (T,)

    Raises
    ------
    InputError
        For an unknown workflow, h <= 0, or n, d, T < 1.

    Examples
    --------
    >>> kde_second_moment(50, 3, "replace", h=0.1, d=2, e0=1.0).round(2).tolist()
    [1.0, 1.02, 1.04]
    """
    check_workflow(workflow)
    if min(n, d, T) < 1 or not h > 0:
        raise InputError(f"n={n}, T={T}, h={h}, d={d}: all must be positive")
    t = np.arange(1, T + 1)
    harmonic = np.cumsum(1 / t)
    growth = {
        "replace": t - 1.0,
        "accumulate-synthetic": np.concatenate([[0.0], harmonic[:-1]]),
    }.get(workflow, harmonic - 1)
    return e0 + d * h**2 * growth


def replace_trace_variance(n: int, T: int, d: int) -> Float[np.ndarray, " T"]:
    """Variance of the trace ratio tr(Sigma_t)/d under replace, for N(0, I_d) and the MLE.

    With W ~ Wishart(n-1, Sigma)/n and m = n - 1, the second moments obey a linear recursion:

        E (tr W)^2 = (m^2 (tr Sigma)^2 + 2 m tr Sigma^2) / n^2
        E tr W^2   = (m (tr Sigma)^2 + m (m+1) tr Sigma^2) / n^2

    A handful of rare runs carry the variance, so that the standard error estimated from a few
    hundred seeds is far too small in late generations; this one is not.

    Parameters
    ----------
    n : int
        Items per generation, at least 2.
    T : int
        Number of generations.
    d : int
        Dimension.

    Returns
    -------
    array, shape (T,)

    Raises
    ------
    InputError
        If n < 2, T < 1 or d < 1.

    Examples
    --------
    >>> round(float(replace_trace_variance(10, 1, 1)[0]), 6)  # variance of chi^2(9) / 10
    0.18
    """
    if n < 2 or T < 1 or d < 1:
        raise InputError(f"n={n}, T={T}, d={d}: need n >= 2, T >= 1 and d >= 1")
    m = n - 1
    step = np.array([[m * m, 2 * m], [m, m * (m + 1)]]) / n**2
    moments = np.array([d**2, d], dtype=float)
    variance = np.empty(T)
    for t in range(T):
        moments = step @ moments
        variance[t] = moments[0] / d**2 - (1 - 1 / n) ** (2 * (t + 1))
    return variance


def categorical_gini(
    p: Float[np.ndarray, " K"] | list[float], n: int, T: int, workflow: Workflow | str
) -> Float[np.ndarray, " T"]:
    """Expected Gini diversity E[1 - sum_k p_tk^2] of a categorical fit at generations 1..T.

    The diversity of a maximum likelihood fit shrinks by the same f_t as a Gaussian's trace:
    (1 - sum_k p_k^2) f_t, with f_t from :func:`gaussian_curve`.

    Parameters
    ----------
    p : array, shape (K,)
        Probabilities of the real distribution.
    n : int
        Items per generation, at least 2.
    T : int
        Number of generations.
    workflow : {"replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"}
        What each generation is trained on.

    Returns
    -------
    array, shape (T,)

    Raises
    ------
    InputError
        If p is not a distribution, or as in :func:`gaussian_curve`.

    Examples
    --------
    >>> round(float(categorical_gini([0.1] * 10, n=100, T=1, workflow="replace")[0]), 3)
    0.891
    """
    p = np.asarray(p, dtype=float)
    if p.ndim != 1 or (p < 0).any() or not np.isclose(p.sum(), 1):
        raise InputError("p is not a distribution", "pass non-negative numbers that sum to 1")
    return (1 - np.sum(p**2)) * gaussian_curve(n, T, workflow)["trace_ratio"]
