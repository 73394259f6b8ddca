"""The Gaussian laboratory: many seeds at once, in closed form where that is exact.

The real data are n draws from N(0, I_d).  Each generation fits a mean and a covariance and
writes n new items.  Two facts make it fast without approximation:

* *replace* and *accumulate* see a chunk of n new items only through its mean and its scatter
  matrix.  For a Gaussian these are independent, N(mu, Sigma/n) and Wishart(n - 1, Sigma), so the
  chunk itself need not be drawn (Bartlett's decomposition of the Wishart matrix instead).
* *accumulate-subsample* can draw the same item in several generations, so items keep their
  identity.  But *which* items are drawn does not depend on their values: all subsets are drawn
  first, and only items that are used at least once (about half of them) are ever written.

Every seed owns one ``numpy.random.Generator``, all random numbers of a seed come from it, and
everything else is per-item batched algebra: the result of a seed is the same, to the last bit,
whatever other seeds are in the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from practicum.errors import InputError
from practicum.generative.model_collapse.workflows import Workflow, check_workflow

if TYPE_CHECKING:
    import pandas as pd

Covariance = Literal["mle", "unbiased"] | str

# Seeds simulated together: enough to hide Python's overhead, few enough to stay in the cache.
_BATCH = 100


@dataclass(frozen=True)
class GaussianTrajectories:
    """What happened to a Gaussian over the generations, one row per seed.

    Attributes
    ----------
    trace_ratio : array, shape (seeds, generations)
        tr(Sigma_t) / tr(Sigma_0).
    log_det_ratio : array, shape (seeds, generations)
        log det(Sigma_t) - log det(Sigma_0); ``-inf`` where Sigma_t is singular.
    mean_sq_error : array, shape (seeds, generations)
        ``||mu_t - mu_0||^2``.
    nll : array, shape (seeds, generations)
        Expected negative log-likelihood of a real item under the fit, in nats:
        ``(log det(2 pi Sigma_t) + tr(Sigma_t^-1 (Sigma_0 + (mu_t-mu_0)(mu_t-mu_0)^T))) / 2``;
        ``inf`` where Sigma_t is singular.

    Examples
    --------
    >>> runs = gaussian_generations(100, 2, 5, "replace", seeds=range(3))
    >>> runs.trace_ratio.shape
    (3, 5)
    """

    workflow: Workflow
    n: int
    d: int
    cov: Covariance
    seeds: tuple[int, ...]
    trace_ratio: Float[np.ndarray, "seeds generations"]
    log_det_ratio: Float[np.ndarray, "seeds generations"]
    mean_sq_error: Float[np.ndarray, "seeds generations"]
    nll: Float[np.ndarray, "seeds generations"]

    @property
    def frame(self) -> pd.DataFrame:
        """Tidy table: one row per seed and generation.

        Examples
        --------
        >>> list(gaussian_generations(10, 1, 2, "replace", seeds=[0]).frame.columns)[:3]
        ['workflow', 'seed', 'generation']
        """
        import pandas as pd

        n_seeds, generations = self.trace_ratio.shape
        return pd.DataFrame(
            {
                "workflow": self.workflow,
                "seed": np.repeat(self.seeds, generations),
                "generation": np.tile(np.arange(1, generations + 1), n_seeds),
                "trace_ratio": self.trace_ratio.ravel(),
                "log_det_ratio": self.log_det_ratio.ravel(),
                "mean_sq_error": self.mean_sq_error.ravel(),
                "loss": self.nll.ravel(),
            }
        )


def gaussian_generations(
    n: int,
    d: int,
    generations: int,
    workflow: Workflow | str,
    seeds: Iterable[int],
    *,
    cov: Covariance = "mle",
) -> GaussianTrajectories:
    """Fit and sample a Gaussian for many generations, batched over seeds.

    Parameters
    ----------
    n : int
        Items per generation, and real items; at least 2.
    d : int
        Dimension.  With d >= n every covariance is singular and the loss is ``inf``.
    generations : int
        Number of fits.
    workflow : {"replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"}
        What each generation is trained on.
    seeds : iterable of int
        One independent run each; a seed's result does not depend on the other seeds.
    cov : {"mle", "unbiased"}
        Divide the scatter by the number of items (the paper) or by that number minus one.

    Returns
    -------
    GaussianTrajectories

    Raises
    ------
    InputError
        For an unknown workflow or covariance, n < 2, d < 1, generations < 1 or no seed.

    Notes
    -----
    Algorithm 1 of Kazdan et al., *Collapse or Thrive?*, ICML 2025 (arXiv 2410.16713), Gaussian
    setting.  Cost per seed and generation: O(d^3) for replace and accumulate, whatever n;
    O(n d^2) for accumulate-subsample.

    Examples
    --------
    >>> import numpy as np
    >>> runs = gaussian_generations(10, 1, 45, "replace", seeds=range(100))
    >>> bool(np.median(runs.trace_ratio[:, -1]) < 0.05)
    True
    """
    seeds = _check(n, d, generations, workflow, seeds, cov)
    simulate = _by_subsets if workflow == "accumulate-subsample" else _by_sufficient_statistics
    batches = [
        simulate(n, d, generations, workflow, seeds[i : i + _BATCH], ddof=int(cov == "unbiased"))
        for i in range(0, len(seeds), _BATCH)
    ]
    curves = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return GaussianTrajectories(workflow, n, d, cov, seeds, *curves)


def gaussian_generations_loop(
    n: int,
    d: int,
    generations: int,
    workflow: Workflow | str,
    seeds: Iterable[int],
    *,
    cov: Covariance = "mle",
) -> GaussianTrajectories:
    """The same experiment as one writes it by hand: raw data, one seed at a time.

    Slow and obviously right; it is what :func:`gaussian_generations` is checked and timed
    against.  The random numbers differ, the distribution of every output is the same.

    Parameters
    ----------
    n, d, generations, workflow, seeds, cov
        As in :func:`gaussian_generations`.

    Returns
    -------
    GaussianTrajectories

    Raises
    ------
    InputError
        As in :func:`gaussian_generations`.

    Examples
    --------
    >>> gaussian_generations_loop(10, 1, 3, "accumulate", seeds=[0, 1]).nll.shape
    (2, 3)
    """
    seeds = _check(n, d, generations, workflow, seeds, cov)
    out = np.empty((4, len(seeds), generations))
    for i, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        pool = rng.multivariate_normal(np.zeros(d), np.eye(d), n)
        for t in range(generations):
            train = pool
            if workflow == "accumulate-subsample":
                train = pool[rng.choice(len(pool), n, replace=False)]
            mu = np.mean(train, axis=0)
            sigma = np.atleast_2d(np.cov(train, rowvar=False, bias=cov == "mle"))
            sign, log_det = np.linalg.slogdet(sigma)
            error = mu @ mu
            nll = np.inf
            if sign > 0 and d < n:
                spread = np.trace(np.linalg.inv(sigma) @ (np.eye(d) + np.outer(mu, mu)))
                nll = 0.5 * (d * np.log(2 * np.pi) + log_det + spread)
            else:
                log_det = -np.inf
            out[:, i, t] = np.trace(sigma) / d, log_det, error, nll
            new = rng.multivariate_normal(mu, sigma, n)
            drop = workflow == "replace" or (workflow == "accumulate-synthetic" and t == 0)
            pool = new if drop else np.concatenate([pool, new])
    return GaussianTrajectories(workflow, n, d, cov, seeds, *out)


def _check(n, d, generations, workflow, seeds, cov) -> tuple[int, ...]:
    check_workflow(workflow)
    if cov not in ("mle", "unbiased"):
        raise InputError(f"cov={cov!r} is not known", 'use "mle" or "unbiased"')
    if n < 2:
        raise InputError(f"n={n} items per generation give no covariance", "use n >= 2")
    if d < 1 or generations < 1:
        raise InputError(f"d={d}, generations={generations}: both must be at least 1")
    seeds = tuple(int(s) for s in seeds)
    if not seeds:
        raise InputError("no seeds were given", "pass for example seeds=range(100)")
    return seeds


def _streams(seeds: Sequence[int]) -> list[np.random.Generator]:
    # SFC64: the quickest of numpy's bit generators, and drawing is most of the cost here.
    return [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]


def _real_fit(rngs, n: int, d: int, ddof: int):
    """Fit generation 1 on real data: the same numbers in every workflow.

    Returns the mean (seeds, d), a factor C (seeds, d, r) with Sigma_1 = C C^T and
    r = min(d, n - 1), and the items' coordinates w (seeds, n, r): item = mean + C w.
    """
    x = np.empty((len(rngs), n, d))
    for rng, rows in zip(rngs, x, strict=True):
        rng.standard_normal(out=rows)
    mean = _column_means(x)
    q, r = np.linalg.qr(x - mean[:, None])
    rank, scale = min(d, n - 1), np.sqrt(n - ddof)
    r = r[:, :rank]
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    factor = np.swapaxes(r * sign[:, :, None], 1, 2) / scale
    return mean, np.ascontiguousarray(factor), q[:, :, :rank] * sign[:, None] * scale


def _column_means(x: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b d"]:
    # A product with ones: three times as fast as x.mean(axis=1) for a small d.
    return np.matmul(np.full((1, x.shape[1]), 1 / x.shape[1]), x)[:, 0]


# ------------------------------------------------------------- replace and accumulate


def _by_sufficient_statistics(n, d, generations, workflow, seeds, ddof):
    rngs = _streams(seeds)
    mean, factor, _ = _real_fit(rngs, n, d, ddof)
    relative, steps = _relative_updates(rngs, n, generations - 1, factor.shape[2], workflow, ddof)
    out = _Metrics(len(seeds), generations, d)
    out.record(0, mean, factor)
    for t in range(1, generations):
        mean = mean + np.matmul(factor, steps[:, t - 1, :, None])[:, :, 0]
        factor = np.matmul(factor, relative[:, t - 1])
        out.record(t, mean, factor)
    return out.finish()


def _relative_updates(rngs, n, steps, rank, workflow, ddof):
    """Draw how each fit moves, in the coordinates of the fit before it.

    With Sigma_t = C_t C_t^T, a new chunk has mean mu_t + C_t z / sqrt(n) and scatter
    C_t A A^T C_t^T (A: Bartlett factor of a standard Wishart matrix with n - 1 degrees).
    Hence C_{t+1} = C_t R_t and mu_{t+1} = mu_t + C_t u_t, and R, u need no earlier fit.
    """
    bartlett, z = _standard_chunks(rngs, n, steps, rank)
    if workflow == "replace":
        return bartlett / np.sqrt(n - ddof), z / np.sqrt(n)
    # Items in the pool before the new chunk; the control has dropped the first, real ones.
    pool = n * np.arange(workflow == "accumulate", steps + (workflow == "accumulate"))[:, None]
    offset = z / np.sqrt(n)  # chunk mean - pool mean
    weighted = offset * np.sqrt(pool * n / (pool + n))
    scatter = np.matmul(bartlett, bartlett.swapaxes(-1, -2))
    scatter += weighted[..., :, None] * weighted[..., None, :]
    diagonal = np.arange(rank)
    scatter[..., diagonal, diagonal] += np.maximum(pool - ddof, 0)
    scatter /= (pool + n - ddof)[..., None]
    return np.linalg.cholesky(scatter), offset * (n / (pool + n))


def _standard_chunks(rngs, n: int, steps: int, rank: int):
    """Bartlett factors (seeds, steps, r, r) and mean directions (seeds, steps, r) of chunks."""
    below = rank * (rank - 1) // 2
    normals = np.empty((len(rngs), steps, rank + below))
    gammas = np.empty((len(rngs), steps, rank))
    shapes = (n - 1 - np.arange(rank)) / 2
    for i, rng in enumerate(rngs):
        rng.standard_normal(out=normals[i])
        rng.standard_gamma(shapes, out=gammas[i])
    bartlett = np.zeros((len(rngs), steps, rank, rank))
    diagonal = np.arange(rank)
    bartlett[..., diagonal, diagonal] = np.sqrt(2 * gammas)
    start = rank
    for row in range(1, rank):
        bartlett[..., row, :row] = normals[..., start : start + row]
        start += row
    return bartlett, normals[..., :rank]


# ------------------------------------------------------------- accumulate-subsample


def _by_subsets(n, d, generations, workflow, seeds, ddof):
    del workflow  # the same signature as _by_sufficient_statistics
    rngs = _streams(seeds)
    mean, factor, real = _real_fit(rngs, n, d, ddof)
    subsets, used = _plans(rngs, n, generations)
    # All in the coordinates of the first fit: item = mean + factor w.  There the real items have
    # mean 0 and covariance I, and d >= n needs no special case.
    rank = factor.shape[2]
    pool = np.empty((len(seeds), generations, n, rank))
    pool[:, 0] = real
    noise = np.zeros((len(seeds), n, rank))
    train = np.empty((len(seeds) * n, rank))
    m, root = np.zeros((len(seeds), rank)), np.broadcast_to(np.eye(rank), (len(seeds), rank, rank))
    out = _Metrics(len(seeds), generations, d)
    out.record(0, mean, factor)
    for t in range(1, generations):
        for rng, rows, count in zip(rngs, noise, used[t], strict=True):
            rng.standard_normal(out=rows[:count])
        # All n rows, also the unused ones: one shape for every seed keeps the rounding the same.
        np.matmul(noise, root.swapaxes(1, 2), out=pool[:, t])
        pool[:, t, : used[t].max()] += m[:, None]
        np.take(pool.reshape(-1, rank), subsets[t], axis=0, out=train, mode="clip")
        m, root = _fit(train.reshape(noise.shape), ddof)
        out.record(t, mean + np.matmul(factor, m[:, :, None])[:, :, 0], np.matmul(factor, root))
    return out.finish()


def _fit(x: Float[np.ndarray, "b n r"], ddof: int):
    m = _column_means(x)
    n = x.shape[1]
    # One pass is safe: the coordinates are standardised, so the mean is never large.
    scatter = np.matmul(x.swapaxes(1, 2), x)
    scatter -= n * m[:, :, None] * m[:, None, :]
    return m, _lower_factor(scatter / (n - ddof))


def _lower_factor(sigma: Float[np.ndarray, "b r r"]) -> Float[np.ndarray, "b r r"]:
    """Lower-triangular L with L L^T = sigma; also for an item that is singular by rounding."""
    try:
        return np.linalg.cholesky(sigma)
    except np.linalg.LinAlgError:
        return np.stack([_lower_factor_one(s) for s in sigma])


def _lower_factor_one(sigma: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "r r"]:
    try:  # each item by itself, so that one singular item changes no other one
        return np.linalg.cholesky(sigma[None])[0]
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(sigma)
        lower = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0))).T)[1].T
        return lower * np.where(np.diagonal(lower) < 0, -1.0, 1.0)


def _plans(rngs, n: int, generations: int):
    """Draw every subset of every seed before any item exists.

    Returns
    -------
    subsets : int array, shape (generations, seeds * n)
        Row t: what fit t+1 is trained on, as rows of the pools of all seeds laid end to end.
    used : int array, shape (generations, seeds)
        How many items of each chunk are ever drawn; these have slots 0 .. used-1.
    """
    subsets = np.empty((generations, len(rngs), n), dtype=np.int64)
    used = np.empty((generations, len(rngs)), dtype=np.int64)
    for i, rng in enumerate(rngs):
        chosen, used[:, i] = _plan(rng, n, generations)
        np.add(chosen, i * generations * n, out=subsets[:, i])
    return subsets.reshape(generations, -1), used


def _plan(rng: np.random.Generator, n: int, generations: int):
    """One seed's subsets (generations, n) as ``chunk * n + slot``, and the counts of used items."""
    subsets = _uniform_subsets(rng, n, generations)
    drawn: Bool[np.ndarray, " items"] = np.zeros(generations * n, dtype=bool)
    drawn[subsets.ravel()] = True
    # Items of a chunk are exchangeable: moving the used ones to the front changes no distribution.
    slots = np.cumsum(drawn.reshape(generations, n), axis=1, dtype=np.int32)
    used = slots[:, -1].copy()
    slots += np.arange(generations, dtype=np.int32)[:, None] * n - 1
    return slots.ravel()[subsets], used


def _uniform_subsets(
    rng: np.random.Generator, n: int, generations: int
) -> Int[np.ndarray, "generations n"]:
    """Row t: n distinct integers below (t+1) n, uniform over all such subsets.

    Draw with replacement and draw again whatever repeats.  The procedure treats all integers
    alike, so every subset is equally likely.  Repeats are found with Briggs and Torczon's sparse
    set, which needs no cleared memory.
    """
    row = np.repeat(np.arange(generations), n)
    size = (row + 1) * n
    first = n * row * (row + 1) // 2  # a separate range of keys for every row
    key = first + (rng.random(row.size) * size).astype(np.int64)
    key[:n] = np.arange(n)  # the first pool is taken whole
    owner = np.empty(n * generations * (generations + 1) // 2, dtype=np.int64)
    owner[key] = place = np.arange(row.size)
    repeats = np.flatnonzero(owner[key] != place)
    while repeats.size:
        new = first[repeats] + (rng.random(repeats.size) * size[repeats]).astype(np.int64)
        key[repeats] = -1
        holder = owner[new]
        taken = (holder >= 0) & (holder < key.size)
        taken[taken] = key[holder[taken]] == new[taken]
        fresh, where = new[~taken], repeats[~taken]
        owner[fresh] = where
        won = owner[fresh] == where
        key[where[won]] = fresh[won]
        repeats = np.concatenate([repeats[taken], where[~won]])
    return (key - first).reshape(generations, n)


# ------------------------------------------------------------- metrics


class _Metrics:
    """Keeps mean and factor of every fit and turns them into the four curves at the end.

    The factor's entries lie on the first axes, (d, r, generations, seeds), so that the triangular
    inverse is a few long elementwise operations, which round alike whatever the batch.
    """

    def __init__(self, n_seeds: int, generations: int, d: int) -> None:
        self.mean = np.empty((d, generations, n_seeds))
        self.factor: np.ndarray | None = None

    def record(self, t: int, mean, factor) -> None:
        if self.factor is None:
            self.factor = np.empty((*factor.shape[1:], *self.mean.shape[1:]))
        self.mean[:, t] = mean.T
        np.copyto(self.factor[:, :, t], factor.transpose(1, 2, 0))

    def finish(self) -> list[Float[np.ndarray, "seeds generations"]]:
        d, rank = self.factor.shape[:2]
        trace, error = _sum_of_squares(self.factor), _sum_of_squares(self.mean)
        log_det = np.full_like(trace, -np.inf)
        nll = np.full_like(trace, np.inf)
        if rank == d:
            log_det, nll = self._likelihood()
        return [np.ascontiguousarray(a.T) for a in (trace / d, log_det, error, nll)]

    def _likelihood(self):
        d = self.factor.shape[0]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_det = 2 * sum(np.log(self.factor[i, i]) for i in range(d))
            inverse = _triangular_inverse(self.factor)
            spread = _sum_of_squares(inverse)
            for i in range(d):
                spread += sum(inverse[i, j] * self.mean[j] for j in range(i + 1)) ** 2
            nll = 0.5 * (d * np.log(2 * np.pi) + log_det + spread)
        # A covariance that has underflowed to singular: inf - inf would be NaN.
        return log_det, np.where(np.isfinite(nll), nll, np.inf)


def _sum_of_squares(a: Float[np.ndarray, "..."]) -> Float[np.ndarray, "generations seeds"]:
    planes = a.reshape(-1, *a.shape[-2:])
    total = planes[0] * planes[0]
    for plane in planes[1:]:
        total += plane * plane
    return total


def _triangular_inverse(lower: Float[np.ndarray, "d d g s"]) -> Float[np.ndarray, "d d g s"]:
    """Forward substitution, all matrices at once."""
    d = lower.shape[0]
    inverse = np.zeros_like(lower)
    for i in range(d):
        inverse[i, i] = 1 / lower[i, i]
        for j in range(i):
            total = lower[i, j] * inverse[j, j]
            for k in range(j + 1, i):
                total += lower[i, k] * inverse[k, j]
            np.multiply(total, -inverse[i, i], out=inverse[i, j])
    return inverse
