"""What deleting means elsewhere: recall and surviving bytes after a deletion, store by store.

Every store gets the same vectors, deletes the same half of them with its own call, is closed, and
its files are searched for the bytes of deleted vectors; then once more after the clean-up that its
documentation offers.  The scan is tried on each store before the deletion, and only vectors that
it finds then are looked for afterwards; where it finds none (compressed files) it says so.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory.residue import files_below, find_bytes
from practicum.vision.visual_memory.search import nearest, normalised

if TYPE_CHECKING:
    import pandas as pd

SAMPLED = 20  # deleted vectors that are looked for


class Peer:
    """One store: its package, and the four things that are done to it."""

    package = ""
    note = ""
    most = 1_000_000  # rows it is given

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim

    def build(self, X: np.ndarray) -> None:
        """Store rows under their numbers, on the disk."""
        raise NotImplementedError

    def search(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Numbers of the k nearest, (n, k)."""
        raise NotImplementedError

    def delete(self, numbers: np.ndarray) -> None:
        """As the documentation says."""
        raise NotImplementedError

    def flush(self) -> None:
        """See that the files are as they would be after the program has ended."""

    def clean_up(self) -> None:
        """What the documentation offers to give space back."""
        raise NotImplementedError("it offers none")


class Ours(Peer):
    """This package: exact, erased in place."""

    package = "practicum"
    note = "nothing to clean up"

    def build(self, X):
        from practicum.vision.visual_memory.memory import VisualMemory

        self.memory = VisualMemory(self.folder / "m.vm", k=10)
        self.memory.add(X, labels=[0] * len(X), ids=[str(i) for i in range(len(X))])

    def search(self, Q, k):
        return self.memory.kneighbors(Q, k)[1].astype(int)

    def delete(self, numbers):
        self.memory.remove([str(i) for i in numbers])

    def clean_up(self):
        self.memory.compact()


class FaissFlat(Peer):
    """``IndexFlatIP``: remove_ids moves the rest up."""

    package = "faiss-cpu"
    note = "remaining rows are renumbered: old ids point elsewhere"

    def build(self, X):
        import faiss

        self.faiss = faiss
        self.index = self._empty()
        self._add(X)
        self.flush()

    def _empty(self):
        return self.faiss.IndexFlatIP(self.dim)

    def _add(self, X):
        self.index.add(X)

    def search(self, Q, k):
        return self.index.search(Q, k)[1]

    def delete(self, numbers):
        self.index.remove_ids(np.asarray(numbers, dtype=np.int64))

    def flush(self):
        self.faiss.write_index(self.index, str(self.folder / "x.faiss"))


class FaissIDMap(FaissFlat):
    """``IndexIDMap2(IndexFlatIP)``: the same with ids of one's own."""

    note = "the file is clean once the whole index is written again"

    def _empty(self):
        return self.faiss.IndexIDMap2(self.faiss.IndexFlatIP(self.dim))

    def _add(self, X):
        self.index.add_with_ids(X, np.arange(len(X)))


class FaissHNSW(FaissFlat):
    """``IndexHNSWFlat``."""

    note = "remove_ids is not implemented"

    def _empty(self):
        return self.faiss.IndexHNSWFlat(self.dim, 16, self.faiss.METRIC_INNER_PRODUCT)


class Hnswlib(Peer):
    """``mark_deleted``."""

    package = "hnswlib"
    note = "marks only; ef=50"

    def build(self, X):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=self.dim)
        self.index.init_index(len(X), M=16, ef_construction=200, random_seed=0)
        self.index.add_items(X, np.arange(len(X)), num_threads=1)
        self.index.set_ef(50)
        self.flush()

    def search(self, Q, k):
        return self.index.knn_query(Q, k=k, num_threads=1)[0].astype(int)

    def delete(self, numbers):
        for i in numbers:
            self.index.mark_deleted(int(i))

    def flush(self):
        self.index.save_index(str(self.folder / "x.bin"))


class Usearch(Peer):
    """``Index.remove``."""

    package = "usearch"
    note = "marks only; expansion 64"

    def build(self, X):
        from usearch.index import Index

        self.index = Index(ndim=self.dim, metric="ip", dtype="f32")
        self.index.add(np.arange(len(X)), X, threads=1)
        self.flush()

    def search(self, Q, k):
        return np.asarray(self.index.search(Q, k, threads=1).keys).astype(int).reshape(len(Q), -1)

    def delete(self, numbers):
        self.index.remove(np.asarray(numbers))

    def flush(self):
        self.index.save(str(self.folder / "x.usearch"))


class SqliteVec(Peer):
    """``vec0`` tables in one SQLite file; its DELETE, then VACUUM."""

    package = "sqlite-vec"
    note = "exact"

    def build(self, X):
        import sqlite_vec

        sqlite3 = _sqlite_with_extensions()
        self.db = sqlite3.connect(self.folder / "x.sqlite")
        self.db.enable_load_extension(True)
        sqlite_vec.load(self.db)
        self.db.enable_load_extension(False)
        self.db.execute(f"CREATE VIRTUAL TABLE v USING vec0(e float[{self.dim}])")
        self.db.executemany(
            "INSERT INTO v(rowid, e) VALUES (?, ?)", ((i, x.tobytes()) for i, x in enumerate(X))
        )
        self.db.commit()

    def search(self, Q, k):
        query = "SELECT rowid FROM v WHERE e MATCH ? AND k = ? ORDER BY distance"
        rows = [[r for (r,) in self.db.execute(query, (q.tobytes(), k))] for q in Q]
        return _padded(rows, k)

    def delete(self, numbers):
        self.db.executemany("DELETE FROM v WHERE rowid = ?", ((int(i),) for i in numbers))
        self.db.commit()

    def clean_up(self):
        self.db.execute("VACUUM")


class LanceDB(Peer):
    """Tables with versions; ``delete``, then ``optimize(cleanup_older_than=0)``."""

    package = "lancedb"
    note = "exact without an index; old versions stay until cleaned"

    def build(self, X):
        import lancedb
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(X.ravel(), self.dim)
        table = pa.table({"id": np.arange(len(X)), "vector": vectors})
        self.table = lancedb.connect(str(self.folder / "x")).create_table("v", table)

    def search(self, Q, k):
        rows = []
        for q in Q:
            found = self.table.search(q).distance_type("cosine").limit(k).to_arrow()
            rows.append(found.column("id").to_pylist())
        return _padded(rows, k)

    def delete(self, numbers):
        self.table.delete(f"id IN ({', '.join(map(str, numbers))})")

    def clean_up(self):
        from datetime import timedelta

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody else reads this table
            self.table.optimize(cleanup_older_than=timedelta(0))


class Chroma(Peer):
    """A persistent client on the disk; ``delete`` of ids."""

    package = "chromadb"
    note = "its own defaults, HNSW"

    def build(self, X):
        import chromadb

        settings = chromadb.Settings(anonymized_telemetry=False)
        self.client = chromadb.PersistentClient(str(self.folder / "x"), settings=settings)
        self.table = self.client.create_collection(
            "vectors", metadata={"hnsw:space": "cosine"}, embedding_function=None
        )
        for part in np.array_split(np.arange(len(X)), -(-len(X) // 2000)):
            self.table.add(ids=[str(i) for i in part], embeddings=X[part])

    def search(self, Q, k):
        found = self.table.query(query_embeddings=Q, n_results=k, include=[])["ids"]
        return _padded([[int(i) for i in row] for row in found], k)

    def delete(self, numbers):
        for part in np.array_split(numbers, -(-len(numbers) // 2000)):
            self.table.delete(ids=[str(i) for i in part])


class Qdrant(Peer):
    """The client's local mode, without a server."""

    package = "qdrant-client"
    note = "local mode writes each point by itself: 1,000 rows here"
    most = 1000

    def build(self, X):
        from qdrant_client import QdrantClient, models

        self.models = models
        self.client = QdrantClient(path=str(self.folder / "x"))
        shape = models.VectorParams(size=self.dim, distance=models.Distance.COSINE)
        self.client.create_collection("v", vectors_config=shape)
        for part in np.array_split(np.arange(len(X)), -(-len(X) // 2000)):
            points = [models.PointStruct(id=int(i), vector=X[i].tolist()) for i in part]
            self.client.upsert("v", points)

    def search(self, Q, k):
        found = (self.client.query_points("v", query=q.tolist(), limit=k).points for q in Q)
        return _padded([[p.id for p in points] for points in found], k)

    def delete(self, numbers):
        ids = [int(i) for i in numbers]
        self.client.delete("v", points_selector=self.models.PointIdsList(points=ids))

    def flush(self):
        self.client.close()
        from qdrant_client import QdrantClient

        self.client = QdrantClient(path=str(self.folder / "x"))


class DuckDB(Peer):
    """A table of fixed-size arrays; DELETE, then CHECKPOINT."""

    package = "duckdb"
    note = "exact, without the vss index; compression off, so that the scan can see"

    def build(self, X):
        import duckdb
        import pyarrow as pa

        self.db = duckdb.connect(str(self.folder / "x.duckdb"))
        self.db.execute("PRAGMA force_compression='uncompressed'")
        vectors = pa.FixedSizeListArray.from_arrays(X.ravel(), self.dim)
        self.db.register("given", pa.table({"id": np.arange(len(X)), "e": vectors}))
        self.db.execute(f"CREATE TABLE v AS SELECT id, e::FLOAT[{self.dim}] AS e FROM given")
        self.db.unregister("given")
        self.db.execute("CHECKPOINT")

    def search(self, Q, k):
        query = f"""SELECT id FROM v ORDER BY array_cosine_distance(e, ?::FLOAT[{self.dim}])
                    LIMIT {int(k)}"""
        rows = [[r for (r,) in self.db.execute(query, [q.tolist()]).fetchall()] for q in Q]
        return _padded(rows, k)

    def delete(self, numbers):
        self.db.execute("DELETE FROM v WHERE id IN (SELECT UNNEST(?))", [[int(i) for i in numbers]])

    def clean_up(self):
        self.db.execute("CHECKPOINT")
        self.db.execute("VACUUM")


STORES: dict[str, type[Peer]] = {
    "visual-memory": Ours,
    "faiss-flat": FaissFlat,
    "faiss-idmap": FaissIDMap,
    "faiss-hnsw": FaissHNSW,
    "hnswlib": Hnswlib,
    "usearch": Usearch,
    "sqlite-vec": SqliteVec,
    "lancedb": LanceDB,
    "chromadb": Chroma,
    "qdrant-local": Qdrant,
    "duckdb": DuckDB,
}


def _sqlite_with_extensions() -> Any:
    """Some builds of Python cannot load SQLite's extensions; ``pysqlite3`` can."""
    import sqlite3

    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        import pysqlite3
    except ImportError as error:
        raise RuntimeError(
            "this Python's sqlite3 loads no extensions: pip install pysqlite3-binary"
        ) from error
    return pysqlite3


def _padded(rows: Sequence[Sequence[int]], k: int) -> np.ndarray:
    out = np.full((len(rows), k), -1, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row[:k]
    return out


def clustered(n: int, dim: int, seed: int) -> np.ndarray:
    """Unit vectors around 100 centres, float32, shape (n, dim)."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((100, dim))
    return normalised(centres[rng.integers(100, size=n)] + 0.5 * rng.standard_normal((n, dim)))


def encodings(vector: np.ndarray) -> list[bytes]:
    """How a vector may lie in a file: single, half, double precision, pickled Python floats.

    Parameters
    ----------
    vector : array of shape (d,), float32

    Raises
    ------
    ValueError
        Fewer than four numbers.

    Examples
    --------
    >>> len(encodings(np.ones(8, dtype=np.float32)))
    4
    """
    if len(vector) < 4:
        raise ValueError("at least four numbers")
    double = vector.astype("<f8")
    pickled = b"".join(b"G" + struct.pack(">d", x) for x in double[:8])
    return [
        vector.astype("<f4").tobytes(),
        vector.astype("<f2").tobytes(),
        double.tobytes(),
        pickled,
    ]


def _surviving(folder: Path, rows: np.ndarray) -> np.ndarray:
    """Which of the vectors are in some file, in some encoding: numbers of rows."""
    kinds = [encodings(row) for row in rows]
    flat = [pattern for kind in kinds for pattern in kind]
    owner = np.repeat(np.arange(len(rows)), [len(kind) for kind in kinds])
    report = find_bytes(files_below(folder), flat)
    return np.array(sorted({int(owner[number]) for _, _, number in report.hits}), dtype=np.intp)


def _recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([len({*a} & {*b}) / len(b) for a, b in zip(found, truth, strict=True)]))


def compare_erasure(
    n: int = 20_000,
    dim: int = 64,
    *,
    queries: int = 200,
    k: int = 10,
    stores: Sequence[str] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Delete half of the rows from each store that is installed, and look what is left.

    Parameters
    ----------
    n, dim : int
        Rows and numbers a row: clustered unit vectors.
    queries, k : int
        For recall against an exact search among the rows that remain.
    stores : sequence of str, optional
        All of ``STORES`` by default; those not installed are skipped, with the line that installs
        them.
    seed : int
    progress : callable, optional
        Called with each store's name.

    Returns
    -------
    pandas.DataFrame
        One row a store: ``store``, ``version``, ``recall before``, ``recall after`` (0..1), ``MB
        before``, ``MB after``, ``seen before`` (of 20 sampled), ``surviving`` and ``after
        clean-up`` (of those that were seen), ``delete s``, ``note``.

    Raises
    ------
    InputError
        An unknown store or too few rows.

    Examples
    --------
    >>> table = compare_erasure(400, 16, queries=5, stores=["visual-memory"])
    >>> table["surviving"].tolist()
    ['0 of 20']
    """
    import pandas as pd

    if n < 100 or dim < 8 or not 1 <= k <= n // 2 or queries < 1:
        raise InputError(f"{n} rows of {dim} numbers, k={k}", "at least 100 rows of 8 numbers")
    chosen = list(stores or STORES)
    for name in chosen:
        if name not in STORES:
            raise InputError(f"there is no store {name!r}", f"stores: {', '.join(STORES)}")
    X = clustered(n + queries, dim, seed)
    X, Q = X[:n], X[n:]
    rows = []
    for name in chosen:
        if progress:
            progress(name)
        rows.append({"store": name, **_one(STORES[name], X, Q, k, seed)})
    return pd.DataFrame(rows)


def _one(peer: type[Peer], X: np.ndarray, Q: np.ndarray, k: int, seed: int) -> dict[str, Any]:
    """One line of the table."""
    X = X[: peer.most]
    order = np.random.default_rng(seed).permutation(len(X))
    gone, left = np.sort(order[: len(X) // 2]), np.sort(order[len(X) // 2 :])
    truth = nearest(Q, X, k)[1], left[nearest(Q, X[left], k)[1]]
    try:
        found: dict[str, Any] = {"version": version(peer.package)}
    except PackageNotFoundError:
        return {"note": f"not installed: pip install {peer.package}"}
    folder = Path(tempfile.mkdtemp(prefix="practicum-erasure-"))
    os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
    try:
        _fill(found, peer(folder, X.shape[1]), folder, X, Q, gone, truth, k)
        found.setdefault("note", peer.note)
    except Exception as error:  # what a store does to its users is what is measured here
        reason = str(error).strip().split("\n")[0][:90] or type(error).__name__
        found["note"] = f"{peer.note + '; ' if peer.note else ''}failed: {reason}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _fill(found, store: Peer, folder: Path, X, Q, gone, truth, k) -> None:
    sample = X[gone[:: max(1, len(gone) // SAMPLED)][:SAMPLED]]
    store.build(X)
    store.flush()
    found["recall before"] = _recall(store.search(Q, k), truth[0])
    found["MB before"] = _megabytes(folder)
    seen = sample[_surviving(folder, sample)]  # a vector may lie across two pages of a file
    found["seen before"] = f"{len(seen)} of {len(sample)}"
    start = time.perf_counter()
    store.delete(gone)
    store.flush()
    found["delete s"] = time.perf_counter() - start
    found["recall after"] = _recall(store.search(Q, k), truth[1])
    found["MB after"] = _megabytes(folder)
    found["surviving"] = _count(folder, seen)
    try:
        store.clean_up()
        store.flush()
        found["after clean-up"] = _count(folder, seen)
    except NotImplementedError:
        found["after clean-up"] = "offers none"


def _count(folder: Path, sample: np.ndarray) -> str:
    if not len(sample):
        return "cannot be seen (compressed)"
    return f"{len(_surviving(folder, sample))} of {len(sample)}"


def _megabytes(folder: Path) -> float:
    return sum(p.stat().st_size for p in files_below(folder)) / 1e6
