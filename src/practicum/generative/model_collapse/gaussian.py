"""The Gaussian laboratory: many seeds at once, in closed form where that is exact.

The real data are n draws from N(0, I_d).  Each generation fits a mean and a covariance and
writes n new items.  Two facts make it fast, and the distribution stays the exact one:

* *replace* and *accumulate* see a chunk of n new items only through its mean and its scatter
  matrix.  For a Gaussian these are independent, N(mu, Sigma/n) and Wishart(n - 1, Sigma), so the
  chunk itself need not be drawn (Bartlett's decomposition of the Wishart matrix instead).
* *accumulate-subsample* can draw the same item in several generations, so items keep their
  identity.  But *which* items are drawn does not depend on their values: all subsets are drawn
  first, and hardly more than the items that are used at all (about half of them) are ever written.

With many more items than dimensions, normal variables are drawn and items kept in single
precision; fits and curves are always double.

Every seed owns one ``numpy.random.Generator``, all random numbers of a seed come from it, and
everything else is per-item batched algebra: the result of a seed is the same, to the last bit,
whatever other seeds are in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from practicum.errors import InputError
from practicum.generative.model_collapse.workflows import Workflow, check_workflow

if TYPE_CHECKING:
    import pandas as pd

Covariance = Literal["mle", "unbiased"] | str

# Seeds are simulated in blocks of about so many numbers, which are sufficient statistics or items:
# enough to hide Python's overhead, few enough to stay in the cache.  No result depends on these.
_STATISTICS, _ITEMS = 200_000, 5_000_000
# Of such a block, updates are drawn for so many seeds at a time: that takes several more arrays.
_FEW = 10
# The curves are computed for so many fits at a time, and for fewer when d > 10.
_FITS = 1000


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
    evaluate = _Curves(d, min(d, n - 1))
    curves = np.empty((4, generations, len(seeds)))
    done = 0
    for fits in simulate(n, d, generations, workflow, seeds, ddof=int(cov == "unbiased")):
        curves[:, :, done : done + fits.shape[1]] = evaluate(fits)
        done += fits.shape[1]
    curves = np.ascontiguousarray(curves.swapaxes(1, 2))
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
    # SFC64: the quickest of numpy's bit generators, and drawing is much of the cost here.
    return [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]


def _blocks(seeds: Sequence[int], size: int) -> list[Sequence[int]]:
    size = max(size, 1)
    return [seeds[i : i + size] for i in range(0, len(seeds), size)]


def _arrays(dtype, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Empty arrays in one piece of memory, for all blocks of seeds to use.

    Memory is slow when it is first written to.  Of freed memory the C library keeps about twice
    its largest piece, so that one piece costs nothing in the next call.
    """
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    pieces = np.split(np.empty(ends[-1], dtype), ends[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _noise_type(n: int, rank: int) -> type:
    """Precision of standard normal variables, and of items made of them.

    Single precision takes a third of the time to draw and half the memory to move.  With many
    more items than dimensions all covariances are well conditioned, and rounding moves them by
    about 1e-6 of themselves, far below their sampling error.  Fits and curves are double anyway.
    """
    return np.float32 if n >= max(32, 4 * rank) else np.float64


def _standard_normal(rngs, out: Float[np.ndarray, "seeds rows columns"]) -> None:
    """Fill in standard normal variables, each seed's from its own stream."""
    if out.dtype == np.float64:
        for rng, rows in zip(rngs, out, strict=True):
            rng.standard_normal(out=rows)
        return
    # Box and Muller: numpy's single-precision functions are so quick that this takes a third of
    # the time of its own normals.  Exact but for rounding and for what is beyond 6.7, which has
    # probability 2^-32.
    flat = out.reshape(len(out), -1)
    size = flat.shape[1]
    half = (size + 1) // 2
    uniform = np.empty((len(out), 2 * half), np.float32)
    for rng, row in zip(rngs, uniform, strict=True):
        row[:] = rng.bit_generator.random_raw(half).view(np.uint32)
    radius, angle = uniform[:, :half], uniform[:, half:]
    radius += np.float32(0.5)
    radius *= np.float32(2**-32)
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle *= np.float32(2 * np.pi * 2**-32)
    np.cos(angle, out=flat[:, :half])
    flat[:, :half] *= radius
    np.sin(angle[:, : size - half], out=flat[:, half:])
    flat[:, half:] *= radius[:, : size - half]


# ------------------------------------------------------------- replace and accumulate


def _by_sufficient_statistics(n, d, generations, workflow, seeds, ddof):
    """Yield the fits of one block of seeds after another.

    They are [C, mean], shape (generations, seeds, d, r + 1): Sigma = C C^T, r = min(d, n - 1).
    """
    rank = min(d, n - 1)
    # Items in the pool before each new chunk; the control has dropped the first, real ones.
    pool = n * (np.arange(generations - 1) + (workflow == "accumulate"))
    if workflow == "replace":
        pool[:] = 0
    blocks = _blocks(seeds, _STATISTICS // (generations * d * d))
    size = len(blocks[0])
    all_updates, all_fits = _arrays(
        float, (generations - 1, size, rank, rank + 1), (generations, size, d, rank + 1)
    )
    all_updates[:] = 0
    for block in blocks:
        updates, fits = all_updates[:, : len(block)], all_fits[:, : len(block)]
        rngs = _streams(block)
        fits[0] = _first_fits(rngs, n, d, ddof)
        for i in range(0, len(block), _FEW):
            few = slice(i, i + _FEW)
            _relative_updates(rngs[few], n, pool, ddof, out=updates[:, few])
        for t in range(1, generations):  # [C_{t+1}, mu_{t+1} - mu_t] = C_t [R_t, u_t]
            np.matmul(fits[t - 1, :, :, :rank], updates[t - 1], out=fits[t])
        np.cumsum(fits[..., rank], axis=0, out=fits[..., rank])
        yield fits


def _first_fits(rngs, n: int, d: int, ddof: int) -> Float[np.ndarray, "seeds d columns"]:
    """Fits to the real data, the same numbers in every workflow.

    They move from the truth, C = I and mu = 0, by one chunk without a pool.
    """
    fits = np.zeros((1, len(rngs), d, min(d, n - 1) + 1))
    _relative_updates(rngs, n, np.zeros(1), ddof, out=fits)
    return fits[0]


def _relative_updates(rngs, n, pool, ddof, out) -> None:
    """Draw how each fit of some seeds moves, in the coordinates of the fit before it.

    With Sigma_t = C_t C_t^T, a new chunk has mean mu_t + C_t z / sqrt(n) and scatter
    C_t A A^T C_t^T (A: Bartlett factor of a standard Wishart matrix with n - 1 degrees).
    Hence C_{t+1} = C_t R_t and mu_{t+1} = mu_t + C_t u_t, and R, u need no earlier fit.

    Out: [R_t, u_t], shape (steps, seeds, d, r + 1); d = r but for the first fit.  What is above
    the diagonal must be 0, and stays so.
    """
    steps, seeds, d, columns = out.shape
    flat = out.reshape(steps, seeds, d * columns)  # a view
    below, diagonal = _lower_positions(d, columns)
    normals = np.empty((seeds, steps, d + below.size), _noise_type(n, columns - 1))
    _standard_normal(rngs, normals)
    normals = normals.swapaxes(0, 1)
    flat[:, :, below] = normals[:, :, d:]
    degrees = n - 1 - np.arange(columns - 1)
    squares = [rng.chisquare(degrees, (steps, columns - 1)) for rng in rngs]
    flat[:, :, diagonal] = np.sqrt(np.stack(squares, axis=1))
    z, pool = normals[:, :, :d].astype(float), pool[:, None, None]
    if pool.any():
        # The pool's scatter: the old one (I), the chunk's, and that between the two means.
        out[..., -1] = z * np.sqrt(pool / (pool + n))
        scatter = np.matmul(out, out.swapaxes(2, 3))
        scatter.reshape(steps, seeds, d * d)[:, :, :: d + 1] += np.maximum(pool - ddof, 0)
        out[..., :-1] = np.linalg.cholesky(scatter)
    flat *= 1 / np.sqrt(pool + n - ddof)
    out[..., -1] = z * (np.sqrt(n) / (pool + n))


@cache
def _lower_positions(d: int, columns: int):
    """Where the entries below and on the diagonal are in a flattened (d, columns) matrix."""
    row, column = np.tril_indices(d, -1, columns - 1)
    return row * columns + column, np.arange(columns - 1) * (columns + 1)


# ------------------------------------------------------------- accumulate-subsample


def _by_subsets(n, d, generations, workflow, seeds, ddof):
    """Yield the fits of one block of seeds after another, as _by_sufficient_statistics does.

    With d >= n, all is in the coordinates of the first fit until the end: item = mean + C w.
    """
    del workflow  # the same signature as _by_sufficient_statistics
    rank = min(d, n - 1)
    usual = _usual_use(n, generations)
    start = np.cumsum([0, 0, *usual[1:]]).tolist()  # of a chunk's noise; real items have none
    blocks = _blocks(seeds, _ITEMS // (generations * n * (2 * rank + 1)))
    size = len(blocks[0])
    all_noise, items, all_train = _arrays(
        _noise_type(n, rank),
        (size, start[-1], rank + 1),
        (size * generations * n, rank),
        (size, n, rank),
    )
    (all_fits,) = _arrays(float, (generations, size, rank, rank + 1))
    for block in blocks:
        k = len(block)
        noise, train, fits = all_noise[:k], all_train[:k], all_fits[:, :k]
        pool = items[: k * generations * n]
        chunks = pool.reshape(generations, k, n, rank)
        rngs = _streams(block)
        first = _first_fits(rngs, n, d, ddof)
        fits[0] = first if rank == d else np.eye(rank, rank + 1)
        chunks[0] = _real_items(rngs, fits[0], n, ddof)
        subsets, more = _plans(rngs, n, usual)
        _draw_noise(rngs, noise)
        for t in range(1, generations):
            affine = fits[t - 1].astype(noise.dtype).swapaxes(1, 2)
            _write_chunk(chunks[t], noise[:, start[t] : start[t + 1]], affine, rngs, more[t])
            np.take(pool, subsets[t], axis=0, mode="clip", out=train)
            _fit(train, ddof, out=fits[t])
        if rank < d:
            fits = np.matmul(first[:, :, :-1], fits)
            fits[..., -1] += first[..., -1]
        yield fits


def _real_items(rngs, fit, n: int, ddof: int) -> Float[np.ndarray, "seeds n r"]:
    """Draw the real items given their fit: uniform among those with this mean and covariance.

    In the QR decomposition of centred normals Q is independent of R, which is the fit's factor.
    """
    rank = fit.shape[1]
    x = np.empty((len(rngs), n, rank), _noise_type(n, rank))
    _standard_normal(rngs, x)
    x = x.astype(float)
    x -= _sums(x)[:, None] / n
    q, r = np.linalg.qr(x)
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    q *= (sign * np.sqrt(n - ddof))[:, None]
    return np.matmul(q, fit[:, :, :-1].swapaxes(1, 2)) + fit[:, None, :, -1]


def _usual_use(n: int, generations: int) -> list[int]:
    """How many items of each chunk are ever drawn, but for one seed in about a thousand."""
    # No later fit draws an item of chunk t: t/(t+1) times (t+1)/(t+2) times ... = t/generations.
    missed = np.arange(generations) / generations
    usual = n * (1 - missed) + 3 * np.sqrt(n * missed * (1 - missed))
    return np.minimum(np.ceil(usual), n).astype(int).tolist()


def _draw_noise(rngs, out: Float[np.ndarray, "seeds rows columns"]) -> None:
    """Fill in rows [z, 1], z standard normal."""
    for i in range(len(rngs)):  # one by one, to stay in the cache
        _standard_normal(rngs[i : i + 1], out[i : i + 1])
    out[..., -1] = 1  # normals were drawn here too: quicker than to draw around it


def _write_chunk(chunk, noise, affine, rngs, more) -> None:
    """Write one chunk's items, mean + C z: as many as usual, and all where more are used.

    Rounding may depend on the shapes of a product, and these must not depend on the other seeds.
    """
    usual = noise.shape[1]
    np.matmul(noise, affine, out=chunk[:, :usual])
    for i in more:
        rest = np.empty((1, chunk.shape[1] - usual, noise.shape[2]), noise.dtype)
        _draw_noise(rngs[i : i + 1], rest)
        np.matmul(rest, affine[i : i + 1], out=chunk[i : i + 1, usual:])


def _fit(x: Float[np.ndarray, "b n r"], ddof: int, out: Float[np.ndarray, "b r columns"]) -> None:
    """Write [C, mean] of each seed's items."""
    n = x.shape[1]
    total = _sums(x)
    mean = total / x.dtype.type(n)
    # One pass is safe: the coordinates are standardised, so the mean is never large.
    scatter = np.matmul(x.swapaxes(1, 2), x)
    scatter -= total[:, :, None] * mean[:, None]
    sigma = np.divide(scatter, n - ddof, dtype=float)
    out[..., :-1], out[..., -1] = _lower_factor(sigma), mean


def _sums(x: Float[np.ndarray, "b n r"]) -> Float[np.ndarray, "b r"]:
    # A product with ones: several times as fast as x.sum(axis=1) for a small r.
    return np.matmul(np.ones((1, x.shape[1]), x.dtype), x)[:, 0]


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


# ------------------------------------------------------------- which items are drawn


def _plans(rngs, n: int, usual: Sequence[int]):
    """Draw every subset of every seed before any item exists.

    Returns
    -------
    subsets : int array, shape (generations, seeds, n)
        Row t of a seed: what its fit t+1 is trained on, as rows of the pool.  The pool lies chunk
        by chunk, within a chunk seed by seed, with n slots for each; used items come first.
    more : list of list of int
        The seeds that use more slots of a chunk than usual.
    """
    seeds, generations = len(rngs), len(usual)
    plans = np.empty((generations, seeds, n), dtype=np.int32)
    more: list[list[int]] = [[] for _ in usual]
    chunk = np.arange(generations, dtype=np.int32)
    before = np.zeros_like(chunk)
    for i, subsets in enumerate(_uniform_subsets(rngs, n, generations)):
        items = subsets.astype(np.intp)
        drawn: Bool[np.ndarray, " items"] = np.zeros(generations * n, dtype=bool)
        drawn[items] = True
        # Items of a chunk are exchangeable: moving the used ones to the front is no change.
        slots = np.cumsum(drawn, dtype=np.int32).reshape(generations, n)
        before[1:] = slots[:-1, -1]
        for t in np.flatnonzero(slots[:, -1] - before > usual).tolist():
            more[t].append(i)
        slots += ((chunk * seeds + i) * n - before - 1)[:, None]
        plans[:, i] = slots.ravel().take(items, mode="clip")
    return plans, more


def _uniform_subsets(
    rngs: Sequence[np.random.Generator], n: int, generations: int
) -> Int[np.ndarray, "seeds generations n"]:
    """Row t of a seed: n distinct integers below (t+1) n, uniform over all such subsets, sorted.

    Draw with replacement and draw again whatever repeats, until nothing does.  The procedure
    treats all integers alike, so every subset is equally likely.
    """
    size = n * np.arange(1.0, generations + 1)
    uniform = np.empty((generations, n))
    subsets = np.empty((len(rngs), generations, n), dtype=np.int32)
    for rng, subset in zip(rngs, subsets, strict=True):
        rng.random(out=uniform)
        uniform *= size[:, None]
        subset[:] = uniform
        subset[0] = np.arange(n)  # the first pool is taken whole
        subset.sort(axis=1)
    rows = subsets.reshape(-1, n)
    part, where = rows, np.arange(len(rows))  # the rows that may hold repeats
    while True:
        repeats = np.flatnonzero(_repeats(part))
        if not repeats.size:
            return subsets
        # Rows are in the order of the seeds: each seed draws again from its own stream.
        row = repeats // n
        counts = np.bincount(where[row] // generations, minlength=len(rngs)).tolist()
        again = [rng.random(k) for rng, k in zip(rngs, counts, strict=True) if k]
        part.reshape(-1)[repeats] = np.concatenate(again) * size[where[row] % generations]
        changed = np.flatnonzero(np.bincount(row))
        part, where = part[changed], where[changed]
        part.sort(axis=1)
        rows[where] = part


def _repeats(rows: Int[np.ndarray, "rows n"]) -> Bool[np.ndarray, "rows n"]:
    """Where an entry of a sorted row equals the one before it."""
    flat = rows.reshape(-1)
    repeats = np.empty(rows.shape, dtype=bool)
    np.equal(flat[1:], flat[:-1], out=repeats.reshape(-1)[1:])
    repeats[:, 0] = False
    return repeats


# ------------------------------------------------------------- curves


class _Curves:
    """Trace ratio, log-determinant ratio, squared error of the mean and loss of every fit.

    The fits' entries go to the first axes, (d, r + 1, fits), so that all is a few long elementwise
    operations.  Their size is always the same, so that they round alike whatever the batch.
    """

    def __init__(self, d: int, rank: int) -> None:
        self.size = max(min(_FITS, 100 * _FITS // (d * d)), 1)
        self.planes = np.ones((d, rank + 1, self.size))
        self.white = np.empty((d, d + 1, self.size))

    def __call__(self, fits: Float[np.ndarray, "generations seeds d columns"]):
        flat = fits.reshape(-1, *fits.shape[2:])
        curves = np.empty((4, len(flat)))
        for i in range(0, len(flat), self.size):
            part = flat[i : i + self.size]
            self.planes[:, :, : len(part)] = part.transpose(1, 2, 0)
            for curve, values in zip(curves, self._evaluate(), strict=True):
                curve[i : i + self.size] = values[: len(part)]
        return curves.reshape(4, *fits.shape[:2])

    def _evaluate(self):
        lower, mean = self.planes[:, :-1], self.planes[:, -1]
        d, rank, _ = lower.shape
        trace, error = _sum_of_squares(lower), _sum_of_squares(mean[:, None])
        log_det, nll = np.full_like(trace, -np.inf), np.full_like(trace, np.inf)
        if rank == d:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                log_det = 2 * sum(np.log(lower[i, i]) for i in range(d))
                _whiten(mean, lower, out=self.white)
                nll = 0.5 * (d * np.log(2 * np.pi) + log_det + _sum_of_squares(self.white))
            # A covariance that has underflowed to singular: inf - inf would be NaN.
            nll[~np.isfinite(nll)] = np.inf
        return trace / d, log_det, error, nll


def _sum_of_squares(a: Float[np.ndarray, "rows columns fits"]) -> Float[np.ndarray, " fits"]:
    return np.einsum("ijf,ijf->f", a, a)


def _whiten(mean, lower, out: Float[np.ndarray, "d columns fits"]) -> None:
    """L^-1 [mean, I] by forward substitution, all fits at once."""
    out[:, 0], out[:, 1:] = mean, 0
    for i in range(len(mean)):
        scale = 1 / lower[i, i]
        out[i, : i + 1] *= scale
        out[i, i + 1] = scale
        out[i + 1 :, : i + 2] -= lower[i + 1 :, i, None] * out[i, : i + 2]
