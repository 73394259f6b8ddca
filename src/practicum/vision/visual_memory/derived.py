"""Approximate indexes made from the rows, and thrown away: FAISS, usearch, hnswlib.

They only propose candidates; distances, order and labels come from the rows themselves. An index
carries the generation of the memory it was made from and is never asked when that has moved on:
that way nothing in it needs to be deleted, which is what such indexes do badly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from practicum.errors import InputError, MissingExtra

LIBRARIES = {"faiss-ivf": "faiss-cpu", "hnsw": "hnswlib", "usearch": "usearch"}
KINDS = tuple(LIBRARIES)


def check_kind(kind: str) -> str:
    """The kind, if there is such an index.

    Parameters
    ----------
    kind : str
        ``exact`` or one of ``KINDS``.

    Raises
    ------
    InputError
        There is none of this name.

    Examples
    --------
    >>> check_kind("hnsw")
    'hnsw'
    """
    if kind != "exact" and kind not in KINDS:
        raise InputError(f"there is no index {kind!r}", f"use exact, {', '.join(KINDS)}")
    return kind


def _library(kind: str) -> Any:
    from importlib import import_module

    name = {"faiss-ivf": "faiss", "hnsw": "hnswlib", "usearch": "usearch.index"}[kind]
    try:
        return import_module(name)
    except ImportError as error:
        package = LIBRARIES[kind]
        raise MissingExtra(f"index={kind!r} needs {package}", f"pip install {package}") from error


class DerivedIndex:
    """An approximate index over rows of unit length.

    Parameters
    ----------
    kind : {"faiss-ivf", "hnsw", "usearch"}
    dim : int
    seed : int

    Raises
    ------
    MissingExtra
        The library is not installed.

    Examples
    --------
    >>> rows = np.eye(4, dtype=np.float32)
    >>> index = DerivedIndex("hnsw", 4).build(rows, np.array([7, 8, 9, 10]))
    >>> index.propose(rows[1:2], 1).tolist()
    [[8]]
    """

    def __init__(self, kind: str, dim: int, seed: int = 0) -> None:
        self.kind, self.dim, self.seed = check_kind(kind), dim, seed
        self.library, self.index, self.size = _library(kind), None, 0

    def build(
        self, rows: Float[np.ndarray, "m d"], slots: Integer[np.ndarray, "m"]
    ) -> DerivedIndex:
        """From all rows that count, and what they are called."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        self.size = len(rows)
        getattr(self, f"_build_{self.kind.replace('-', '_')}")(rows, np.asarray(slots, np.int64))
        return self

    def _build_faiss_ivf(self, rows: np.ndarray, slots: np.ndarray) -> None:
        faiss = self.library
        cells = int(np.clip(4 * np.sqrt(len(rows)), 1, max(1, len(rows) // 39)))
        index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(self.dim), self.dim, cells, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.seed = self.seed
        index.train(rows)
        index.add_with_ids(rows, slots)
        index.nprobe = max(1, cells // 8)
        self.index = index

    def _build_hnsw(self, rows: np.ndarray, slots: np.ndarray) -> None:
        index = self.library.Index(space="ip", dim=self.dim)
        index.init_index(len(rows), M=16, ef_construction=200, random_seed=self.seed)
        index.add_items(rows, slots, num_threads=1)  # more threads: another graph each time
        self.index = index

    def _build_usearch(self, rows: np.ndarray, slots: np.ndarray) -> None:
        index = self.library.Index(ndim=self.dim, metric="ip", dtype="f32", expansion_search=128)
        index.add(slots, rows, threads=1)
        self.index = index

    def propose(self, queries: Float[np.ndarray, "n d"], width: int) -> Integer[np.ndarray, "n w"]:
        """Slots that are probably among the nearest; -1 where there are too few."""
        width = min(width, self.size)
        if self.kind == "faiss-ivf":
            return self.index.search(queries, width)[1]
        if self.kind == "hnsw":
            self.index.set_ef(max(100, 2 * width))
            return self.index.knn_query(queries, k=width, num_threads=1)[0].astype(np.int64)
        found = self.index.search(queries, width, threads=1)
        keys = np.asarray(found.keys).astype(np.int64).reshape(len(queries), -1)
        counts = np.asarray(getattr(found, "counts", len(keys[0])))
        return np.where(np.arange(keys.shape[1]) < counts.reshape(-1, 1), keys, -1)

    def save(self, folder: Path, generation: int) -> Path:
        """Into ``folder``; the facts are written last, an index without them does not exist."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.kind}.index"
        facts = folder / f"{self.kind}.json"
        facts.unlink(missing_ok=True)
        if self.kind == "faiss-ivf":
            self.library.write_index(self.index, str(path))
        elif self.kind == "hnsw":
            self.index.save_index(str(path))
        else:
            self.index.save(str(path))
        facts.write_text(json.dumps({"generation": generation, "rows": self.size}) + "\n")
        return path

    @classmethod
    def load(cls, kind: str, dim: int, folder: Path, generation: int) -> DerivedIndex | None:
        """The saved index, or None when there is none of this very generation."""
        path, facts = folder / f"{kind}.index", folder / f"{kind}.json"
        try:
            about = json.loads(facts.read_text())
        except (OSError, ValueError):
            return None
        if about.get("generation") != generation or not path.is_file():
            return None
        self = cls(kind, dim)
        self.size = about["rows"]
        if kind == "faiss-ivf":
            self.index = self.library.read_index(str(path))
        elif kind == "hnsw":
            self.index = self.library.Index(space="ip", dim=dim)
            self.index.load_index(str(path))
        else:
            self.index = self.library.Index.restore(str(path))
        return self
