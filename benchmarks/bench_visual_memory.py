"""What looking up costs: ours beside FAISS, scikit-learn, hnswlib and usearch; erasing; growth.

On one thread, 100,000 unit vectors of 512 numbers, in one run. Exits non-zero when exact search
takes more than 1.3 times ``faiss.IndexFlatIP``'s time, or as long as scikit-learn's brute force.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from practicum.vision.visual_memory import VisualMemory, nearest, normalised, vote_curve
from practicum.vision.visual_memory.derived import DerivedIndex
from practicum.vision.visual_memory.votes import VOTES, accuracy_curves, vote_weights

ROWS, DIM = 100_000, 512


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """CPU seconds of the fastest of a few repeats: the machine may be shared, a thread is not."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def unit(n: int, dim: int = DIM, seed: int = 0) -> np.ndarray:
    """Vectors around a thousand centres, as images of classes are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((1000, dim)).astype(np.float32)
    return normalised(centres[rng.integers(1000, size=n)] + rng.standard_normal((n, dim)))


def exact(rows: np.ndarray, queries: np.ndarray) -> bool:
    """The bar: exact search of the same arrays; FAISS by the faster of its two ways."""
    from sklearn.neighbors import NearestNeighbors

    met = True
    peer = NearestNeighbors(algorithm="brute", metric="cosine").fit(rows)
    flat = None
    if find_spec("faiss"):
        import faiss

        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(DIM)
        flat.add(rows)
    print(f"exact search, {ROWS:,} x {DIM} float32, one thread, CPU seconds")
    for n, k in ((1, 10), (64, 10), (200, 10), (200, 100), (1000, 50)):
        part = queries[:n]
        ours = seconds(lambda q=part, k=k: nearest(q, rows, k), 5 if n < 500 else 3)
        line = f"  {n:>5} queries, k={k:<4} ours {ours:7.4f}"
        if flat is not None:
            faiss_took = np.inf
            for threshold in (20, 10_000):  # from so many queries on it multiplies matrices
                faiss.cvar.distance_compute_blas_threshold = threshold
                spent = seconds(lambda q=part, k=k: flat.search(q, k), 3)
                faiss_took = min(faiss_took, spent)
            line += f"   FAISS {faiss_took:7.4f} (ours {ours / faiss_took:.2f} x)"
            met &= ours <= 1.3 * faiss_took
            same = np.mean(flat.search(part, k)[1] == nearest(part, rows, k)[1])
            line += f"   same rows {100 * same:.2f} %"
        brute = seconds(lambda q=part, k=k: peer.kneighbors(q, k), 1 if n > 200 else 2)
        print(f"{line}   scikit-learn {brute:7.4f} ({brute / ours:.1f} x ours)")
        met &= ours < brute
    if flat is None:
        print("  FAISS is not installed: pip install faiss-cpu")
    return met


def approximate() -> None:
    """Time and recall of the derived indexes, which only propose."""
    rows, queries = unit(20_000, 128), unit(500, 128, 2)
    truth = nearest(queries, rows, 10)[1]
    took = seconds(lambda: nearest(queries, rows, 10))
    print(f"20,000 x 128, 500 queries, k=10, CPU seconds: exact {took:.3f}")
    for kind, module in (("faiss-ivf", "faiss"), ("hnsw", "hnswlib"), ("usearch", "usearch")):
        if not find_spec(module):
            continue
        start = time.process_time()
        index = DerivedIndex(kind, 128).build(rows, np.arange(len(rows)))
        built = time.process_time() - start
        spent = seconds(lambda index=index: index.propose(queries, 26), 3)
        found = index.propose(queries, 10)
        recall = np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, truth, strict=True)])
        print(f"  {kind:<10} built in {built:6.2f} s, {spent:.3f} s, recall@10 {recall:.3f}")


def votes() -> None:
    """Every vote at every k from one search, against the published loop in Python."""
    rng = np.random.default_rng(0)
    codes, d = rng.integers(0, 100, (500, 100)), np.sort(rng.random((500, 100)), axis=1)
    truth = rng.integers(0, 100, 500)

    def loop() -> None:
        for row, weights in zip(codes.tolist(), vote_weights(d).tolist(), strict=True):
            scores: dict[int, float] = {}
            best = 0.0
            for c, w in zip(row, weights, strict=True):
                scores[c] = scores.get(c, 0.0) + w
                best = max(best, scores[c])

    ours, theirs = seconds(lambda: vote_curve(codes, vote_weights(d))), seconds(loop)
    every = seconds(lambda: accuracy_curves(d, codes, truth, VOTES))
    print(
        f"500 queries, k = 1 to 100: one vote {1e3 * ours:.1f} ms, the loop {1e3 * theirs:.1f} ms "
        f"({theirs / ours:.1f} x), all four votes {1e3 * every:.1f} ms"
    )


def erasing() -> None:
    """A store of 20,000 x 512: adding, erasing with proof, opening."""
    rows = unit(20_000)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with VisualMemory(Path(folder) / "m.vm") as memory:
            start = time.perf_counter()
            ids = memory.add(rows, labels=(np.arange(len(rows)) % 100).tolist())
            added = time.perf_counter() - start
            size = memory.store.size() / 1e6
            print(
                f"wall time, a store of {len(rows):,} x {DIM}, {size:.0f} MB: "
                f"added in {added:.2f} s"
            )
            for n in (1, 100, 1000):
                gone, ids = ids[:n], ids[n:]
                start = time.perf_counter()
                receipt = memory.remove(gone)
                took = time.perf_counter() - start
                print(
                    f"  {n:>5} rows erased in {took:.2f} s ({1e3 * took / n:.1f} ms a row), "
                    f"verified: {receipt.verified}"
                )
        start = time.perf_counter()
        VisualMemory(Path(folder) / "m.vm").close()
        print(f"  opened in {time.perf_counter() - start:.2f} s")


def growth() -> None:
    """2 N D operations a query; linear in both."""
    print("200 queries, k=10, milliseconds a query, by rows and numbers a row")
    for n, dim in ((10_000, 128), (40_000, 128), (160_000, 128), (40_000, 512)):
        rows, queries = unit(n, dim), unit(200, dim, 2)
        spent = seconds(lambda rows=rows, queries=queries: nearest(queries, rows, 10), 3)
        print(f"  {n:>8,} x {dim:<4} {1e3 * spent / 200:.3f}")


def main() -> int:
    """Print everything; 1 if a bar is missed."""
    with threadpool_limits(1):
        met = exact(unit(ROWS), unit(1000, seed=2))
        approximate()
        votes()
        erasing()
        growth()
    print("bars:", "met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
