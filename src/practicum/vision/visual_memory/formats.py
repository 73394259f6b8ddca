"""Vectors from other programs, and into them: arrays, tables, indexes, the official JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from practicum.vision.visual_memory.memory import VisualMemory

VECTORS = ("vectors", "vector", "embeddings", "embedding", "features", "X", "img_emb")
LABELS = ("labels", "label", "class", "y", "target")
IDS = ("ids", "id", "image_path", "key", "path")


@dataclass(frozen=True)
class VectorTable:
    """Vectors and what is known of them.

    Attributes
    ----------
    vectors : array of shape (n, d)
    labels, ids : lists, or None
    about : str
        What was read, in a few words.

    Examples
    --------
    >>> len(VectorTable(np.eye(2)))
    2
    """

    vectors: np.ndarray
    labels: list[Any] | None = None
    ids: list[str] | None = None
    about: str = ""

    def __len__(self) -> int:
        return len(self.vectors)


def read_vectors(source: str | Path, dim: int | None = None) -> VectorTable:
    """Vectors from a file of another program's; nothing is unpickled.

    Parameters
    ----------
    source : str or Path
        ``.npy``; ``.npz`` (``vectors`` or ``embeddings``, ``labels``, ``ids``); ``.parquet`` with a
        column of lists; a LAION folder (``img_emb/img_emb_*.npy`` and ``metadata/*.parquet``); a
        folder that Hugging Face's ``save_to_disk`` wrote; ``.faiss``, ``.usearch``, ``.hnsw`` or
        ``.lance`` where their packages are installed.
    dim : int, optional
        Numbers a vector, which hnswlib's files do not say.

    Returns
    -------
    VectorTable

    Raises
    ------
    InputError
        The file is missing, damaged, or holds no vectors.
    MissingExtra
        The package that wrote it is not installed.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "v.npz"
    >>> np.savez(path, vectors=np.eye(2), labels=["a", "b"])
    >>> read_vectors(path).labels
    ['a', 'b']
    """
    source = Path(source)
    if not source.exists():
        raise InputError(f"{source}: there is no such file or folder")
    reader = _reader(source)
    try:
        table = reader(source, dim) if reader is _hnswlib else reader(source)
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # each library has its own errors for junk, all mean the same here
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise InputError(f"{source} cannot be read: {reason}", "is it damaged?") from error
    if table.vectors.ndim != 2 or not len(table.vectors):
        raise InputError(f"{source}: an array of shape {table.vectors.shape}, expected (rows, d)")
    for name, values in (("labels", table.labels), ("ids", table.ids)):
        if values is not None and len(values) != len(table.vectors):
            raise InputError(f"{source}: {len(values)} {name} for {len(table.vectors)} vectors")
    return table


def _reader(source: Path) -> Callable[..., VectorTable]:
    if source.is_dir():
        if list(source.glob("**/img_emb_*.npy")):
            return _laion
        if (source / "dataset_info.json").is_file():
            return _hugging_face
        if source.suffix == ".lance":
            return _lance
        raise InputError(
            f"{source}: a folder of no known kind",
            "known: LAION embeddings (img_emb_*.npy), Hugging Face save_to_disk, NAME.lance",
        )
    readers = {
        ".npy": _npy,
        ".npz": _npz,
        ".parquet": _parquet,
        ".faiss": _faiss,
        ".index": _faiss,
        ".usearch": _usearch,
        ".hnsw": _hnswlib,
        ".bin": _hnswlib,
    }
    if source.suffix.lower() not in readers:
        raise InputError(
            f"{source}: files ending in {source.suffix or 'nothing'!r} hold no vectors known here",
            f"known: {', '.join(readers)}",
        )
    return readers[source.suffix.lower()]


def _npy(source: Path) -> VectorTable:
    return VectorTable(np.load(source, allow_pickle=False), about="an array")


def _npz(source: Path) -> VectorTable:
    with np.load(source, allow_pickle=False) as archive:
        names = list(archive.files)
        pick = {part: _first(part, names) for part in (VECTORS, LABELS, IDS)}
        vectors = pick[VECTORS] or next((n for n in names if archive[n].ndim == 2), None)
        if vectors is None:
            raise InputError(f"{source}: no vectors among {', '.join(names)}")
        rest = [archive[pick[p]].tolist() if pick[p] else None for p in (LABELS, IDS)]
        ids = None if rest[1] is None else [str(one) for one in rest[1]]
        return VectorTable(archive[vectors], rest[0], ids, f"arrays {', '.join(names)}")


def _first(wanted: Sequence[str], there: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in there), None)


def _parquet(source: Path) -> VectorTable:
    import pyarrow.parquet as pq

    return _from_arrow(source, pq.read_table(source))


def _from_arrow(source: Path, table: Any) -> VectorTable:
    import pyarrow as pa

    def is_list(field: Any) -> bool:
        kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(kind(field.type) for kind in kinds)

    lists = [field.name for field in table.schema if is_list(field)]
    column = _first(VECTORS, lists) or (lists[0] if len(lists) == 1 else None)
    if column is None:
        there = ", ".join(table.schema.names)
        raise InputError(f"{source}: no column of vectors", f"its columns: {there}")
    vectors = [np.asarray(v, dtype=np.float32) for v in table.column(column).to_pylist()]
    widths = {len(v) for v in vectors}
    if len(widths) > 1:
        raise InputError(f"{source}, column {column!r}: vectors of {sorted(widths)} numbers")
    label, one = (_first(part, table.schema.names) for part in (LABELS, IDS))
    return VectorTable(
        np.stack(vectors) if vectors else np.empty((0, 0)),
        table.column(label).to_pylist() if label else None,
        [str(x) for x in table.column(one).to_pylist()] if one else None,
        f"column {column!r}",
    )


def _laion(source: Path) -> VectorTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = sorted(source.glob("**/img_emb_*.npy"))
    vectors = np.concatenate([np.load(p, allow_pickle=False) for p in parts])
    tables = [pq.read_table(p) for p in sorted(source.glob("**/metadata*.parquet"))]
    if not tables:
        return VectorTable(vectors, about=f"{len(parts)} LAION parts without metadata")
    table = pa.concat_tables(tables, promote_options="default")
    label, one = (_first(part, table.schema.names) for part in (LABELS, IDS))
    return VectorTable(
        vectors,
        table.column(label).to_pylist() if label else None,
        [str(x) for x in table.column(one).to_pylist()] if one else None,
        f"{len(parts)} LAION parts",
    )


def _hugging_face(source: Path) -> VectorTable:
    """Arrow streams as ``save_to_disk`` writes them; class names from ``dataset_info.json``."""
    import pyarrow as pa

    tables = []
    for path in sorted(source.glob("data-*.arrow")):
        with pa.memory_map(str(path)) as stream:
            tables.append(pa.ipc.open_stream(stream).read_all())
    if not tables:
        raise InputError(
            f"{source}: no data-*.arrow in it", "a DatasetDict? name one of its splits"
        )
    found = _from_arrow(source, pa.concat_tables(tables))
    features = json.loads((source / "dataset_info.json").read_text()).get("features", {})
    names = next((features[n]["names"] for n in LABELS if "names" in features.get(n, {})), None)
    labels = [names[i] for i in found.labels] if names and found.labels else found.labels
    return VectorTable(found.vectors, labels, found.ids, f"a Hugging Face data set, {found.about}")


def _need(module: str, package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{package} is not installed", f"pip install {package}") from error


def _faiss(source: Path) -> VectorTable:
    faiss = _need("faiss", "faiss-cpu")
    index = faiss.read_index(str(source))
    ids = None
    if isinstance(index, faiss.IndexIDMap | faiss.IndexIDMap2):
        ids = [str(i) for i in faiss.vector_to_array(index.id_map)]
    rows = faiss.downcast_index(index.index) if ids is not None else index  # index owns the rows
    if isinstance(rows, faiss.IndexIVF):
        rows.make_direct_map()
    return VectorTable(rows.reconstruct_n(0, index.ntotal), None, ids, type(index).__name__)


def _usearch(source: Path) -> VectorTable:
    index = _need("usearch.index", "usearch").Index.restore(str(source))
    if index is None:
        raise InputError(f"{source} is no usearch index")
    keys = np.array(list(index.keys))
    return VectorTable(np.asarray(index.get(keys)), None, [str(k) for k in keys], "a usearch index")


def _hnswlib(source: Path, dim: int | None) -> VectorTable:
    hnswlib = _need("hnswlib", "hnswlib")
    if dim is None:
        raise InputError(f"{source}: hnswlib's files do not say how wide vectors are", "give dim")
    index = hnswlib.Index(space="cosine", dim=dim)
    index.load_index(str(source))
    keys = index.get_ids_list()
    vectors = np.asarray(index.get_items(keys))
    return VectorTable(vectors, None, [str(k) for k in keys], "an hnswlib index")


def _lance(source: Path) -> VectorTable:
    lancedb = _need("lancedb", "lancedb")
    table = lancedb.connect(str(source.parent)).open_table(source.stem)
    return _from_arrow(source, table.to_arrow())


# --- out -----------------------------------------------------------------------------------------


def export(memory: VisualMemory, path: str | Path, k: int = 100) -> Path:
    """Write the living rows for another program.

    Parameters
    ----------
    memory : VisualMemory
    path : str or Path
        The ending says how: ``.npz`` (vectors, labels, ids), ``.parquet`` (id, label, group,
        source, time, weight, vector), ``.faiss`` (an exact index with the rows' numbers),
        ``.json`` (the official repository's: each row with its k neighbours, itself left out).
    k : int
        Neighbours in the JSON; all other rows where there are fewer.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        The memory is empty, the ending is not known, or the file cannot be written.

    Examples
    --------
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory()
    >>> _ = memory.add(np.eye(3), labels=["a", "b", "a"])
    >>> path = export(memory, Path(tempfile.mkdtemp()) / "m.json", k=2)
    >>> read_neighbours(path)["neighbor_classes"].shape
    (3, 2)
    """
    path = Path(path)
    writers = {
        ".npz": _to_npz,
        ".parquet": _to_parquet,
        ".faiss": _to_faiss,
        ".json": lambda m, p: _to_json(m, p, k),
    }
    if path.suffix not in writers:
        raise InputError(f"{path}: the ending says nothing", f"use {', '.join(writers)}")
    if not len(memory):
        raise InputError("the memory is empty: nothing to export")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
        os.close(handle)
        try:
            writers[path.suffix](memory, Path(name))
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def _to_npz(memory: VisualMemory, path: Path) -> None:
    frame = memory.frame()
    np.savez(
        path,
        vectors=memory.vectors(),
        labels=np.array(frame["label"].tolist()),
        ids=np.array(frame["id"].tolist()),
    )


def _to_parquet(memory: VisualMemory, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = memory.frame()
    columns = {n: pa.array(frame[n].tolist(), from_pandas=True) for n in frame.columns}
    vectors = memory.vectors().astype(np.float32)
    columns["vector"] = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
    pq.write_table(pa.table(columns), path)


def _to_faiss(memory: VisualMemory, path: Path) -> None:
    faiss = _need("faiss", "faiss-cpu")
    vectors = np.ascontiguousarray(memory.vectors(), dtype=np.float32)
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
    index.add_with_ids(vectors, np.arange(len(vectors)))
    faiss.write_index(index, str(path))


def _to_json(memory: VisualMemory, path: Path, k: int) -> None:
    frame = memory.frame()
    if len(frame) < 2:
        raise InputError("one row has no neighbours to export")
    d, slots = memory.neighbours.leave_one_out(k)
    made = memory.store.state.get("encoder", {}).get("name", "own vectors")
    records = {
        one: {
            "featurizer": made,
            "image_id": one,
            "image_class": label,
            "neighbor_image_ids": [memory.table.ids[s] for s in slots[i]],
            "neighbor_classes": [memory.table.labels[s] for s in slots[i]],
            "neighbor_distances": d[i].tolist(),
        }
        for i, (one, label) in enumerate(zip(frame["id"], frame["label"], strict=True))
    }
    path.write_text(json.dumps(records))


def read_neighbours(path: str | Path) -> dict[str, np.ndarray]:
    """The official repository's JSON, as arrays that :mod:`votes` takes.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict
        ``image_id``, ``image_class`` of shape (n,); ``neighbor_image_ids``, ``neighbor_classes``,
        ``neighbor_distances`` of shape (n, k), k the shortest list in the file.

    Raises
    ------
    InputError
        The file is no such JSON; the record and what it lacks are named.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "n.json"
    >>> _ = path.write_text('{"a": {"image_id": "a", "image_class": 0, "neighbor_image_ids": '
    ...     '["b"], "neighbor_classes": [1], "neighbor_distances": [0.5]}}')
    >>> read_neighbours(path)["neighbor_distances"].tolist()
    [[0.5]]
    """
    path = Path(path)
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as JSON ({error})") from error
    if not isinstance(records, dict) or not records:
        raise InputError(f"{path}: expected an object of image id -> record")
    single = ("image_id", "image_class")
    lists = ("neighbor_image_ids", "neighbor_classes", "neighbor_distances")
    for name, record in records.items():
        lacking = [f for f in (*single, *lists) if not isinstance(record, dict) or f not in record]
        if lacking:
            raise InputError(f"{path}, record {name!r}: no field {lacking[0]!r}")
    k = min(len(record[field]) for record in records.values() for field in lists)
    found = {f: np.array([r[f] for r in records.values()]) for f in single}
    return found | {f: np.array([r[f][:k] for r in records.values()]) for f in lists}
