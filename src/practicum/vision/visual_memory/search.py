"""Exact nearest neighbours by cosine: one matrix product a block, ties in order of insertion.

The product (BLAS, or FAISS where it is installed) only proposes.  Its rounding depends on block
sizes and threads, so the few rows that could be among the k nearest are measured again in double
precision, each pair on its own, and sorted by (distance, row).  Whatever proposed them, the answer
is then the same to the last bit: for other block sizes, thread counts and libraries, and for a
memory from which other rows have been removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Integer

from practicum.errors import InputError, MissingExtra

BLOCK = 8192  # rows a product
QUERIES = 512  # queries a product: enough to be bound by arithmetic, few enough for the cache
SPARE = 16  # candidates beyond k, measured again in double precision


def normalised(
    vectors: np.ndarray, names: Iterable[str] | None = None, dtype: type = np.float32
) -> Float[np.ndarray, "n d"]:
    """Rows of unit length, ``z = x / |x|``.

    Parameters
    ----------
    vectors : array of shape (n, d)
        Finite numbers; no row of zeros only.
    names : iterable of str, optional
        What the rows are called in an error; numbers from 0 otherwise.
    dtype : numpy type
        Of the result.

    Raises
    ------
    InputError
        Another shape; NaN, infinity or zero rows, named.

    Examples
    --------
    >>> normalised(np.array([[3.0, 4.0]])).round(2).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    try:
        x = np.asarray(vectors)
        x = x.astype(np.float64) if x.dtype != np.float64 else x
    except (TypeError, ValueError) as error:
        raise InputError(f"vectors are not numbers ({error})") from error
    if x.ndim != 2 or x.shape[1] < 1:
        raise InputError(f"vectors of shape {x.shape}", "expected (rows, numbers a row)")
    x = np.ascontiguousarray(x)  # rows are then summed in one order, whatever they came in
    with np.errstate(over="ignore"):
        length = np.sqrt((x * x).sum(axis=1))
    huge = np.isinf(length) & np.isfinite(x).all(axis=1)
    if huge.any():  # squares overflow, or the numbers do
        x = np.where(huge[:, None], x / np.abs(x).max(axis=1, keepdims=True, initial=1e-300), x)
        length = np.sqrt((x * x).sum(axis=1))
    for bad, what in (
        (~np.isfinite(length), "holds NaN or infinity"),
        (length == 0, "is all zeros: it has no direction"),
    ):
        if bad.any():
            at = int(bad.argmax())
            name = list(names)[at] if names is not None else str(at)
            more = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
            raise InputError(f"the vector of {name!r} {what}{more}", "leave the row out")
    return (x / length[:, None]).astype(dtype)


def nearest(
    queries: Float[np.ndarray, "n d"],
    rows: Any,
    k: int,
    *,
    alive: np.ndarray | None = None,
    backend: Literal["auto", "numpy", "faiss"] = "auto",
    block: int = BLOCK,
) -> tuple[Float[np.ndarray, "n k"], Integer[np.ndarray, "n k"]]:
    """The k nearest rows of each query.

    Parameters
    ----------
    queries : array of shape (n, d)
        Unit length, float32.
    rows : array of shape (m, d)
        Unit length, float32 or float16; a memory-mapped file or the segments of a store will do.
    k : int
        1 to the number of rows that count.
    alive : array of bool (m,), optional
        The rows that count; all by default.
    backend : {"auto", "numpy", "faiss"}
        What proposes; the answer does not depend on it. ``auto`` is NumPy.
    block : int
        Rows a matrix product.

    Returns
    -------
    distances : array of shape (n, k), float64
        ``1 - z . z_i`` in 0..2, ascending.
    indices : array of shape (n, k)
        Rows; equal distances in order of the rows.

    Raises
    ------
    InputError
        k is out of range, or the widths differ.

    Notes
    -----
    2 n m d operations for the product. A float32 product of unit vectors errs by less than
    ``d * 2^-24``: rows that the proposal puts farther than twice that behind the k-th are not
    among the k nearest. Queries with more rows than ``SPARE`` within it are searched again with
    all such rows as candidates (many equal vectors).

    Examples
    --------
    >>> rows = normalised(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    >>> distance, index = nearest(rows[:1], rows, 2)
    >>> index.tolist(), distance.tolist()
    ([[0, 2]], [[0.0, 0.0]])
    """
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    _check(queries, rows, k, alive, block)
    if len(queries) == 0:
        return np.empty((0, k)), np.empty((0, k), dtype=np.intp)
    propose = _faiss_proposals if backend == "faiss" else _proposals
    parts = []
    for start in range(0, len(queries), QUERIES):
        part = queries[start : start + QUERIES]
        scores, index = propose(part, rows, min(k + SPARE, len(rows)), alive, block)
        parts.append(_refine(part, rows, k, scores, index, alive, block))
    distances, indices = zip(*parts, strict=True)
    return np.concatenate(distances), np.concatenate(indices)


def _check(queries: np.ndarray, rows: Any, k: int, alive: np.ndarray | None, block: int):
    if queries.ndim != 2 or queries.shape[1] != rows.shape[1]:
        raise InputError(
            f"queries of shape {queries.shape}, rows of shape {rows.shape}",
            "both need the same number of numbers a row",
        )
    there = len(rows) if alive is None else int(np.count_nonzero(alive))
    if there == 0:
        raise InputError("the memory is empty", "add rows first")
    if not 1 <= k <= there:
        raise InputError(f"k={k} with {there} rows in the memory", f"expected 1 to {there}")
    if block < 1:
        raise InputError(f"block={block}: at least 1")


def _blocks(
    rows: Any, alive: np.ndarray | None, block: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    for start in range(0, len(rows), block):
        live = None if alive is None else alive[start : start + block]
        if live is not None:
            if not live.any():
                continue
            live = None if live.all() else live
        yield start, np.asarray(rows[start : start + block], dtype=np.float32), live


def _proposals(
    queries: np.ndarray, rows: Any, width: int, alive: np.ndarray | None, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best ``width`` rows of each query by the float32 product, unsorted.

    After the first block only what beats the worst kept score is looked at, so that the cost of
    selecting falls away as 1/blocks and the product is what remains.
    """
    n = len(queries)
    best = np.full((n, width), -np.inf, dtype=np.float32)
    index = np.full((n, width), -1, dtype=np.intp)
    floor = best[:, 0].copy()
    for start, part, live in _blocks(rows, alive, block):
        scores = queries @ part.T
        if live is not None:
            scores[:, ~live] = -np.inf
        hits = np.flatnonzero(scores > floor[:, None])
        if hits.size == 0:
            continue
        if hits.size > n * width * 4:  # early on nearly everything is a hit
            new, at = _top(scores, np.arange(start, start + len(part)), width)
        else:
            new, at = _gather(scores, hits, start, n)
        best, index = _top(np.hstack([best, new]), np.hstack([index, at]), width)
        floor = best.min(axis=1)
    return best, index


def _top(scores: np.ndarray, index: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``width`` largest of each row, unsorted."""
    index = np.broadcast_to(index, scores.shape)
    if scores.shape[1] <= width:
        return scores, index
    keep = np.argpartition(scores, scores.shape[1] - width, axis=1)[:, -width:]
    return np.take_along_axis(scores, keep, axis=1), np.take_along_axis(index, keep, axis=1)


def _gather(
    scores: np.ndarray, hits: np.ndarray, start: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Few hits, as a table padded to the row with the most."""
    row, column = np.divmod(hits, scores.shape[1])
    counts = np.bincount(row, minlength=n)
    place = np.arange(len(hits)) - np.repeat(np.cumsum(counts) - counts, counts)
    new = np.full((n, counts.max()), -np.inf, dtype=scores.dtype)
    at = np.full(new.shape, -1, dtype=np.intp)
    new[row, place] = scores.ravel()[hits]
    at[row, place] = column + start
    return new, at


def _faiss_proposals(
    queries: np.ndarray, rows: Any, width: int, alive: np.ndarray | None, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same from FAISS's brute force, on blocks as large as its own buffers like them."""
    if not find_spec("faiss"):
        raise MissingExtra("FAISS is not installed", "pip install faiss-cpu")
    import faiss

    best = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    index = np.empty((len(queries), 0), dtype=np.intp)
    for start, part, live in _blocks(rows, alive, 16 * block):
        kept = np.arange(len(part)) if live is None else np.flatnonzero(live)
        part = np.ascontiguousarray(part if live is None else part[kept])
        new, at = faiss.knn(queries, part, min(width, len(part)), metric=faiss.METRIC_INNER_PRODUCT)
        best, index = _top(np.hstack([best, new]), np.hstack([index, kept[at] + start]), width)
    pad = width - best.shape[1]
    if pad > 0:
        best = np.pad(best, ((0, 0), (0, pad)), constant_values=-np.inf)
        index = np.pad(index, ((0, 0), (0, pad)), constant_values=-1)
    return best, index


def _refine(
    queries: np.ndarray,
    rows: Any,
    k: int,
    scores: np.ndarray,
    index: np.ndarray,
    alive: np.ndarray | None,
    block: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Measure the candidates in double precision, sort, keep k."""
    n, width = scores.shape
    index = np.where(np.isneginf(scores), -1, index)
    order = np.argsort(index, axis=1)  # by row, so that a stable sort by distance breaks ties
    index = np.take_along_axis(index, order, axis=1)
    distance = np.where(index < 0, np.inf, pair_distances(queries, rows, index))
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    out = np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1)
    margin = 2 * queries.shape[1] * 2.0**-24 + 1e-7
    # the worst kept score bounds all that was left out; unless everything was kept
    full = ~(index < 0).any(axis=1) if alive is not None or width < len(rows) else np.zeros(n, bool)
    kth = -np.partition(-scores, k - 1, axis=1)[:, k - 1]
    unsure = full & (scores.min(axis=1) >= kth - margin)
    for i in np.flatnonzero(unsure):
        out[0][i], out[1][i] = _all_within(
            queries[i], rows, k, float(kth[i]) - margin, alive, block
        )
    return out


def pair_distances(queries: np.ndarray, rows: Any, index: np.ndarray) -> np.ndarray:
    """``1 - z . z_i`` in double precision, every pair summed in the same order.

    A matrix product would sum a pair in an order that depends on its place; this does not.
    """
    width, dim = index.shape[1], queries.shape[1]
    out, buffer = np.empty(index.shape), np.empty((width, dim))
    for i, query in enumerate(queries.astype(np.float64)):
        buffer[:] = rows[index[i]]
        np.einsum("kd,d->k", buffer, query, out=out[i])
    # float32 rows are of unit length to 1e-7: nothing is nearer than the thing itself
    return np.clip(1.0 - out, 0.0, 2.0)


def _all_within(
    query: np.ndarray, rows: Any, k: int, floor: float, alive: np.ndarray | None, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest among all rows whose product reaches the floor, however many."""
    index, distance = [], []
    for start, part, live in _blocks(rows, alive, block):
        hit = part @ query >= floor
        if live is not None:
            hit &= live
        at = np.flatnonzero(hit) + start
        if at.size:
            index.append(at)
            distance.append(pair_distances(query[None], rows, at[None])[0])
    at, d = np.concatenate(index), np.concatenate(distance)
    order = np.argsort(d, kind="stable")[:k]
    return d[order], at[order]
