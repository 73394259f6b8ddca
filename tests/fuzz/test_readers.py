"""Every reader × every format it accepts × damaged copies of a small valid file.

Whatever the bytes, a reader ends in a result or in a ``PracticumError`` that names the file: no
traceback, no hang, no noise on stderr, no memory out of proportion.  The corpus is fixed: a seed
for each reader, and as many mutants as it takes to go through all mutators that know the format.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gzip
import io
import json
import logging
import random
import re
import resource
import signal
import sqlite3
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from practicum.data import clients, graph, images, offline, points, risks, shapes, streams
from practicum.data.kinds import UserData
from practicum.data.sniff import sniff
from practicum.data.table import read_table
from practicum.data.text import read_text, read_utf8
from practicum.errors import PracticumError

sys.path.insert(0, str(Path(__file__).parent))  # tests are no package
from mutations import IMAGE, NPY, ZIP, mutants

LIMIT_S = 20.0
MEMORY = 1 << 30  # bytes that reading a file of a few kilobytes may take, bombs of 48 MB included
LONGEST = 2_000  # characters of a message
STATUS = Path("/proc/self/status")
SLOW = 8  # times as many in the slow run


@dataclass(frozen=True)
class Case:
    """A valid input, which of its files is damaged, and how it is read."""

    files: dict[str, bytes | Callable[[], bytes]]  # made late where a package is needed
    read: Callable[[Path], Any]
    damaged: str = ""  # the first file unless named
    source: str = ""  # what is handed over: the damaged file, unless it is a folder (".")
    n: int = 24
    kind: str | None = None
    named: tuple[str, ...] = ()  # what a message may name instead of the file
    extra: tuple[str, ...] = ()  # packages

    @property
    def target(self) -> str:
        return self.damaged or next(iter(self.files))

    def content(self, name: str) -> bytes:
        """A file as it should be."""
        found = self.files[name]
        return found() if callable(found) else found


# ------------------------------------------------------------- valid inputs


def _frame(n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).round(3), columns=["x", "y", "z"])
    return frame.assign(count=np.arange(n), group=["a", "b", "c"] * (n // 3))


def _csv(frame: pd.DataFrame, separator: str = ",") -> bytes:
    return frame.to_csv(index=False, sep=separator).encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    return frame.to_parquet(index=False)


def _jsonl(frame: pd.DataFrame) -> bytes:
    return frame.to_json(orient="records", lines=True).encode()


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _hdf5(**sets: Any) -> bytes:
    h5py = pytest.importorskip("h5py")
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, value in sets.items():
            file[name.replace("__", "/")] = value
    return out.getvalue()


def _picture(format: str, mode: str = "RGB") -> bytes:
    image_module = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    out = io.BytesIO()
    image_module.fromarray(pixels).convert(mode).save(out, format)
    return out.getvalue()


def _corner() -> np.ndarray:
    return np.array([[0, 0, 0], [4, 0, 0], [0, 3, 0], [0, 0, 2], [1, 1, 1.5]])


FACES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))


def _ply(binary: bool) -> bytes:
    kind = "binary_little_endian" if binary else "ascii"
    head = f"ply\nformat {kind} 1.0\ncomment made here\nelement vertex 5\n"
    head += "property float x\nproperty float y\nproperty float z\n"
    head += "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
    if binary:
        body = _corner().astype("<f4").tobytes()
        return head.encode() + body + b"".join(struct.pack("<B3i", 3, *f) for f in FACES)
    lines = [" ".join(f"{v:g}" for v in row) for row in _corner()]
    return (head + "\n".join([*lines, *(f"3 {a} {b} {c}" for a, b, c in FACES)]) + "\n").encode()


def _obj() -> bytes:
    lines = [f"v {a:g} {b:g} {c:g}" for a, b, c in _corner()]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES)]).encode()


def _off() -> bytes:
    lines = [" ".join(f"{v:g}" for v in row) for row in _corner()]
    return "\n".join(["OFF", "5 4 0", *lines, *(f"3 {a} {b} {c}" for a, b, c in FACES)]).encode()


def _stl(binary: bool) -> bytes:
    corners = [[_corner()[i] for i in face] for face in FACES]
    if binary:
        triangles = [np.array([[0, 0, 1], *c], "<f4").tobytes() + b"\0\0" for c in corners]
        return bytes(80) + struct.pack("<I", len(FACES)) + b"".join(triangles)
    text = "solid corner\n"
    for face in corners:
        text += "facet normal 0 0 1\nouter loop\n"
        text += "".join(f"vertex {a:g} {b:g} {c:g}\n" for a, b, c in face)
        text += "endloop\nendfacet\n"
    return (text + "endsolid corner\n").encode()


def _vtk() -> bytes:
    lines = ["# vtk DataFile Version 5.1", "corner", "ASCII", "DATASET UNSTRUCTURED_GRID"]
    lines += ["POINTS 5 double", *(" ".join(f"{v:g}" for v in row) for row in _corner())]
    lines += ["CELLS 5 12", "OFFSETS vtktypeint64", "0 3 6 9 12", "CONNECTIVITY vtktypeint64"]
    lines += [" ".join(str(i) for face in FACES for i in face)]
    lines += ["CELL_TYPES 4", "5", "5", "5", "5", ""]
    return "\n".join(lines).encode()


NODES = pd.DataFrame(
    {
        "id": [f"d{i}" for i in range(6)],
        "text": ["a cat", "a dog", "two cats", "a stone", "some ore", "a rock"],
        "label": ["pet", "pet", "pet", "rock", "rock", "rock"],
    }
)
EDGES = pd.DataFrame(
    {"src": ["d0", "d1", "d3", "d4"], "dst": ["d1", "d2", "d4", "d5"], "weight": [1.0, 2, 0.5, 1]}
)


def _networkx(format: str) -> bytes:
    nx = pytest.importorskip("networkx")
    made = nx.Graph()
    for row in NODES.itertuples():
        made.add_node(row.id, text=row.text, label=row.label)
    made.add_weighted_edges_from(EDGES.itertuples(index=False))
    if format == "edgelist":
        return "\n".join(nx.generate_edgelist(made, data=False)).encode()
    generate = getattr(nx, f"generate_{format}")
    return "\n".join(generate(made)).encode()


PACKAGES = (
    b"Package: vim\nSection: editors\nDepends: libc6 (>= 2.3), less:any | more\n"
    b"Description: Vi IMproved\n long text\n\n"
    b"Package: less\nSection: text\nSource: less (1)\nDescription: a pager\n\n"
    b"Package: libc6\nSection: libs\nDescription: the C library\n"
)


def _control(n: int = 24) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(n + 1, 2))
    return {
        "observations": states[:-1],
        "actions": rng.uniform(-1, 1, (n, 2)).round(4),
        "rewards": rng.normal(size=n),
        "terminals": np.arange(n) % 12 == 11,
        "timeouts": np.zeros(n, bool),
        "next_observations": states[1:],
    }


def _d3rlpy() -> bytes:
    held = _control()
    sets: dict[str, Any] = {"columns": np.array([b"observations"]), "num_episodes": 2}
    for i, rows in enumerate((slice(0, 12), slice(12, 24))):
        for key in ("observations", "actions", "rewards"):
            sets[f"{key}_{i}"] = held[key][rows]
        sets[f"terminated_{i}"] = True
    return _hdf5(**sets)


def _control_frame() -> pd.DataFrame:
    held = _control()
    names = {"observations": "obs", "actions": "act", "next_observations": "next_obs"}
    frame = {f"{short}_{j}": held[k][:, j] for k, short in names.items() for j in range(2)}
    singles = {"reward": held["rewards"], "terminal": held["terminals"].astype(int)}
    return pd.DataFrame({**frame, **singles, "episode": np.arange(24) // 12}).round(5)


MINARI = ("main_data.hdf5", "metadata.json")


def _part(make: Callable[[], dict[str, bytes]], name: str) -> bytes:
    return make()[name]


@lru_cache(maxsize=1)
def _minari() -> dict[str, bytes]:
    minari = pytest.importorskip("minari")
    from gymnasium import spaces
    from minari.serialization import serialize_space

    held = _control(20)
    sets = {}
    for i, rows in enumerate((slice(0, 10), slice(10, 20))):
        at = f"episode_{i}__"
        seen = held["observations"][rows]
        sets |= {
            at + "observations": np.concatenate([seen, seen[-1:]]),
            at + "actions": held["actions"][rows],
            at + "rewards": held["rewards"][rows],
            at + "terminations": np.arange(10) == 9,
            at + "truncations": np.zeros(10, bool),
        }
    box, act = spaces.Box(-9, 9, (2,), np.float64), spaces.Box(-1, 1, (2,), np.float64)
    about = {
        "total_episodes": 2,
        "total_steps": 20,
        "data_format": "hdf5",
        "dataset_id": "pump/runs-v0",
        "minari_version": minari.__version__,
        "observation_space": serialize_space(box),
        "action_space": serialize_space(act),
    }
    data = _hdf5(**sets)
    h5py = pytest.importorskip("h5py")
    held_open = io.BytesIO(data)
    with h5py.File(held_open, "r+") as file:
        for i in range(2):
            file[f"episode_{i}"].attrs.update({"id": i, "total_steps": 10})
        file.attrs.update({"total_episodes": 2, "total_steps": 20})
    return {
        "data/main_data.hdf5": held_open.getvalue(),
        "data/metadata.json": json.dumps(about).encode(),
    }


RISKS = pd.DataFrame(
    {"client": [f"c{i}" for i in range(8)], "error": np.linspace(0, 0.7, 8), "n": [30] * 8}
)
CURVES = pd.DataFrame(
    {"client": list("aabb"), "rho": [0, 0.5, 0, 0.5], "value": [0.1, 0.3, 0.2, 0.4]}
)
STREAM = pd.DataFrame(
    {
        "time": pd.date_range("2026-01-01", periods=10).astype(str),
        "c_1": np.linspace(1, 2, 10).round(3),
        "c_2": np.linspace(3, 2, 10).round(3),
        "pred_1": np.linspace(0, 1, 10).round(3),
        "pred_2": np.linspace(1, 0, 10).round(3),
        "load": np.arange(10) * 1.5,
    }
)
DOCUMENTS = b'{"text": "first", "n": 1}\n{"text": "second \\u00e9", "n": 2}\n{"text": "x"}\n'


def _idx(shape: tuple[int, ...]) -> bytes:
    head = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    return gzip.compress(head + bytes(i % 10 for i in range(int(np.prod(shape)))), mtime=0)


def _sqlite(*statements: str) -> bytes:
    db = sqlite3.connect(":memory:")
    for statement in statements:
        db.execute(statement)
    db.commit()
    content = db.serialize()
    db.close()
    return content


# ------------------------------------------------------------- how each is read


def _points(**options: Any) -> Callable[[Path], Any]:
    return lambda path: points.read_points(path, **options)


def _offline(**options: Any) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        data = offline.read_offline(path, force=True, **options)
        return data.describe(), data.fingerprint, data.episode_of

    return read


def _graph(path: Path) -> Any:
    made = graph.read_graph(path)
    return made.degrees, made.homophily, made.without_isolated(), made.without_hubs(1)


def _image_table(path: Path) -> Any:
    found = images.read_images(path)
    return [images.file_key(p) for p in found.paths], found.labels, found.weights


def _image_folder(path: Path) -> Any:
    found = images.read_images(path)
    return [images.thumbnail(images.load_image(p)) for p in found.paths]


def _one_image(path: Path) -> Any:
    return images.thumbnail(images.load_image(path)), images.file_key(path)


def _stream(**options: Any) -> Callable[[Path], Any]:
    return lambda path: streams.read_stream(path, **options)


def _sniffed(path: Path) -> Any:
    data = UserData.of([path])
    return sniff(path), data.name, data.fingerprint


def _shapes(function: Callable[[], Any]) -> Callable[[Path], Any]:
    """A bundled set whose package lies elsewhere."""

    def read(path: Path) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shapes, "_package_folder", lambda package: path)
            return function()

    return read


def _series(path: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "source_of", lambda name: path)
        return streams.load_series("water-flow")


TABLES: dict[str, tuple[str, bytes]] = {}


def _cases() -> dict[str, Case]:
    frame, control, stream = _frame(), _control_frame(), STREAM
    numbers = frame[["x", "y", "z"]].to_numpy()
    table_files = {
        "csv": _csv(frame),
        "tsv": _csv(frame, "\t"),
        "txt": _csv(frame, ";"),
        "parquet": _parquet(frame),
        "npy": _npy(numbers),
        "npz": _npz(x=numbers[:, 0], y=numbers[:, 1]),
        "jsonl": _jsonl(frame),
    }
    made: dict[str, Case] = {}
    for suffix, content in table_files.items():
        files = {f"points.{suffix}": content}
        made[f"table.{suffix}"] = Case(files, read_table, n=40 if suffix == "csv" else 30)
        made[f"table-kept.{suffix}"] = Case(
            files, lambda path: read_table(path, numeric=False, missing="keep"), n=20
        )
    made["table-dropped.csv"] = Case(
        {"points.csv": _csv(frame)}, lambda path: read_table(path, ["x", "y"], missing="drop")
    )
    made["text.jsonl"] = Case({"notes.jsonl": DOCUMENTS}, read_text, n=30)
    made["text.txt"] = Case({"notes.txt": "A café.\nIts door.\n".encode()}, read_text)
    made["utf8.txt"] = Case({"notes.txt": "A café.\n".encode()}, read_utf8, kind="bytes", n=15)

    for suffix, content in {
        "csv": _csv(RISKS),
        "json": RISKS.to_json(orient="records").encode(),
        "jsonl": _jsonl(RISKS),
        "parquet": _parquet(RISKS),
        "npz": _npz(error=RISKS["error"].to_numpy(), n=RISKS["n"].to_numpy()),
        "npy": _npy(RISKS["error"].to_numpy()),
    }.items():
        made[f"risks.{suffix}"] = Case({f"risks.{suffix}": content}, risks.read_risks)
    made["risks-columns.json"] = Case(
        {"risks.json": RISKS.to_json(orient="columns").encode()}, risks.read_risks
    )
    made["risks-percent.csv"] = Case(
        {"risks.csv": _csv(RISKS.assign(error=RISKS["error"] * 100))},
        lambda path: risks.read_risks(path, percent=True),
    )
    made["curves.csv"] = Case({"curves.csv": _csv(CURVES)}, risks.read_curves, n=30)
    made["curves.json"] = Case(
        {"curves.json": CURVES.to_json(orient="records").encode()}, risks.read_curves
    )

    for suffix, content in {
        "csv": _csv(stream),
        "parquet": _parquet(stream),
        "jsonl": _jsonl(stream),
    }.items():
        files = {f"load.{suffix}": content}
        made[f"stream.{suffix}"] = Case(
            {f"load.{suffix}": content}, _stream(with_target=True, target="load"), n=30
        )
        made[f"stream-costs.{suffix}"] = Case(files, _stream(columns=["c_1", "c_2"]))
    made["stream-prices.csv"] = Case(
        {"prices.csv": _csv(stream[["time", "c_1", "c_2"]])},
        lambda path: streams.relatives_of(streams.read_stream(path)),
    )
    made["stream-numbers.npy"] = Case({"costs.npy": _npy(numbers)}, _stream())
    made["series.csv"] = Case(
        {"datasets/water-flow.csv": b"Time,Flow\n2022-03-01,3.5\n2022-03-02,4\n"},
        _series,
        source=".",
    )

    for suffix, name, mode in (
        ("png", "PNG", "RGB"),
        ("jpg", "JPEG", "RGB"),
        ("tif", "TIFF", "RGB"),
        ("webp", "WEBP", "RGB"),
        ("bmp", "BMP", "RGB"),
        ("gif.png", "GIF", "P"),
    ):
        made[f"image.{suffix}"] = Case(
            {f"cat.{suffix}": partial(_picture, name, mode)}, _one_image, kind="image", n=30
        )
    picture = {"pics/1.png": partial(_picture, "PNG"), "pics/2.png": partial(_picture, "PNG", "L")}
    listed = pd.DataFrame(
        {"path": ["pics/1.png", "pics/2.png"], "label": ["cat", "dog"], "weight": [1.0, 2.0]}
    ).assign(id=["a", "b"], group=["g", "g"])
    for suffix, content in {
        "csv": _csv(listed),
        "jsonl": _jsonl(listed),
        "parquet": _parquet(listed),
    }.items():
        files = {f"list.{suffix}": content, **picture}
        made[f"images.{suffix}"] = Case(files, _image_table)
    made["images.folder"] = Case(picture, _image_folder, source=".", n=15)

    flat = pd.DataFrame(_corner()[:, :2], columns=["x", "y"]).assign(mass=[1, 1, 2, 1, 1])
    spaced = "\n".join("\t".join(f"{v:g}" for v in row) for row in _corner()).encode()
    for suffix, content, options in (
        ("csv", _csv(flat), {"weight_column": "mass"}),
        ("txt", spaced, {"n_points": 3}),
        ("xyz", b"5\na comment\n" + b"\n".join(b"C " + r for r in spaced.split(b"\n")), {}),
        ("npy", _npy(_corner()), {}),
        ("npz", _npz(points=_corner(), weights=np.ones(5)), {}),
        ("ply", _ply(False), {"n_points": 9}),
        ("binary.ply", _ply(True), {"n_points": 9}),
        ("vertices.ply", _ply(False), {"sample": "vertices"}),
        ("obj", _obj(), {"n_points": 9}),
        ("off", _off(), {"n_points": 9}),
        ("stl", _stl(False), {"n_points": 9}),
        ("binary.stl", _stl(True), {"n_points": 9}),
        ("vtk", _vtk(), {"n_points": 9}),
        ("h5ad", partial(_hdf5, obsm__spatial=_corner()[:, :2], X=np.eye(5)), {}),
    ):
        geometry = suffix.rpartition(".")[2] in ("ply", "obj", "off", "stl", "vtk")
        made[f"points.{suffix}"] = Case(
            {f"cloud.{suffix}": content},
            _points(**options),
            kind="geometry" if geometry else None,
            n=36,
            extra=("trimesh", "meshio") if geometry else (),
        )
    made["points.folder"] = Case(
        {"a/1.csv": _csv(flat[["x", "y"]]), "b/2.npy": _npy(_corner()[:, :2])},
        points.read_clouds,
        source=".",
        named=("1.csv", "2.npy"),
    )

    for suffix, write in {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}.items():
        files = {f"nodes.{suffix}": write(NODES), f"edges.{suffix}": write(EDGES)}
        for part in ("nodes", "edges"):
            made[f"graph-{part}.{suffix}"] = Case(files, _graph, f"{part}.{suffix}", ".")
    for format in ("graphml", "gml", "gexf", "edgelist"):
        read = _graph
        if format == "edgelist":
            read = lambda path: graph.read_graph(path, needs_text=False)  # noqa: E731
        made[f"graph.{format}"] = Case(
            {f"net.{format}": partial(_networkx, format)}, read, n=36, extra=("networkx",)
        )
    made["graph.packages"] = Case({"Packages": PACKAGES}, _graph, kind="geometry")

    held = _control()
    for suffix, content, options in (
        ("npz", _npz(**held), {}),
        ("without-next.npz", _npz(**{k: v for k, v in held.items() if "next" not in k}), {}),
        ("h5", partial(_hdf5, **held), {}),
        ("d3rlpy.h5", _d3rlpy, {}),
        ("csv", _csv(control), {}),
        ("tsv", _csv(control, "\t"), {"action_bounds": "data"}),
        ("parquet", _parquet(control), {}),
        ("jsonl", _jsonl(control), {}),
    ):
        made[f"offline.{suffix}"] = Case({f"log.{suffix}": content}, _offline(**options), n=36)
    for part in MINARI:
        made[f"offline-minari.{part}"] = Case(
            {f"data/{p}": partial(_part, _minari, f"data/{p}") for p in MINARI},
            _offline(),
            f"data/{part}",
            ".",
            n=24,
            named=("pump/runs-v0",),
            extra=("minari",),
        )

    made["clients.idx"] = Case({"train-ubyte.gz": _idx((3, 2, 2))}, clients.read_idx, n=36)
    four = {
        f"{name}-ubyte.gz": _idx((2, 28, 28) if "images" in name else (2,))
        for name in clients.FILES
    }
    for part in clients.FILES[:2]:
        made[f"clients.fashion-{part}"] = Case(
            four,
            lambda folder: clients.fashion_mnist.__wrapped__(14, folder),
            f"{part}-ubyte.gz",
            ".",
            n=15,
            named=tuple(four),
        )
    cifar = bytes([0, 7]) + bytes(3072)
    made["clients.cifar"] = Case(
        {"train.bin": cifar, "test.bin": cifar}, clients.cifar100, source=".", n=15, kind="bytes"
    )

    ring = "\n".join(f"{np.cos(t):.4f} {np.sin(t):.4f}" for t in np.linspace(0, 6, 25))
    cell_files = {
        "datasets/data/cells/cells.txt": f"{ring}\n\n{ring}\n".encode(),
        "datasets/data/cells/treatments.txt": b"control\ncytd\n",
        "datasets/data/cells/cell_lines.txt": b"dunn\ndlm8\n",
    }
    for part in cell_files:
        made[f"shapes.{Path(part).stem}"] = Case(
            cell_files, _shapes(lambda: shapes.cells(n_points=10)), part, ".", 15,
            kind="geometry", named=tuple(Path(p).name for p in cell_files),
        )  # fmt: skip
    joints = " ".join(f"{v:.3f}" for v in np.arange(2 * 66) / 50).encode()
    hand_files = {
        "datasets/data/hands/hands.txt": joints,
        "datasets/data/hands/labels.txt": b"0\n1\n",
    }
    for part in hand_files:
        made[f"shapes.hands-{Path(part).stem}"] = Case(
            hand_files, _shapes(shapes.hands), part, ".", 15,
            kind="geometry", named=("hands.txt", "labels.txt"),
        )  # fmt: skip

    for name in (
        "table.csv", "table.parquet", "table.npy", "table.npz", "table.jsonl", "text.txt",
        "points.xyz", "points.ply", "offline.csv", "offline.h5", "offline.npz", "graph.graphml",
        "image.png", "risks.jsonl",
    ):  # fmt: skip
        case = made[name]
        made[f"sniff-{name}"] = Case(case.files, _sniffed, n=24, kind=case.kind)
    made["sniff-folder"] = Case({"a/1.csv": _csv(flat)}, _sniffed, source=".")
    made |= _other_cases()
    return made


def _other_cases() -> dict[str, Case]:
    """Readers outside ``practicum.data``."""
    from practicum import catalog
    from practicum.models.chat import cache, replay
    from practicum.models.chat import images as chat_images
    from practicum.models.chat.local import checked_gguf

    card = (Path(catalog.__file__).parent / "stats/cmi_test/card.toml").read_bytes()
    recording = b"".join(
        json.dumps(
            {
                "key": f"k{i}",
                "request": {"messages": []},
                "reply": {"text": "4", "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
                "model": "m",
            }
        ).encode()
        + b"\n"
        for i in range(3)
    )
    made = {
        "card.toml": Case({"card.toml": card}, catalog.read_card, n=40, kind="geometry"),
        "replay.jsonl": Case({"replies.jsonl": recording}, replay.read_recording, n=60),
        "chat-image.png": Case({"cat.png": partial(_picture, "PNG")}, chat_images.image_part, n=20),
        "model.gguf": Case(
            {"m.gguf": b"GGUF\3\0\0\0" + bytes(64)}, checked_gguf, n=20, kind="bytes"
        ),
    }

    def cached(path: Path) -> Any:
        chat = cache.CachedChat(replay.FunctionChat(lambda request: "5"), path)
        try:
            answers = chat.reply([{"role": "user", "content": "2 + 2?"}])
            return answers, len(chat)
        finally:
            chat.close()

    made["chat-cache.sqlite"] = Case({"chat.sqlite": _chat_cache}, cached, n=60, kind="bytes")
    made["store.sqlite"] = Case({"store.sqlite": _store}, _read_store, n=60, kind="bytes")
    made["upload.zip"] = Case({"up.zip": _zip()}, _upload, n=40, named=("/up/",))
    made["upload.npz"] = Case({"up.npz": _npz(x=np.eye(3))}, _upload, n=40)
    made["upload.parquet"] = Case({"up.parquet": _parquet(_frame())}, _upload, n=40)
    made["upload.csv"] = Case({"up.csv": _csv(_frame())}, _upload, n=40)
    made["feature-cache.sqlite"] = Case(
        {"features.sqlite": _feature_cache}, _read_features, n=40, kind="bytes"
    )
    made["embedding-cache.sqlite"] = Case(
        {"embeddings.sqlite": _embedding_cache}, _read_embeddings, n=40, kind="bytes"
    )
    if find_spec("torch") and find_spec("safetensors"):
        made["checkpoint.safetensors"] = Case(
            {"model.safetensors": _checkpoint}, _read_checkpoint, n=60, kind="bytes"
        )
    if find_spec("tokenizers") and find_spec("transformers"):
        encoder = {name: partial(_part, _encoder, name) for name in ENCODER}
        for part, kind in (
            ("model.safetensors", "bytes"),
            ("tokenizer.json", "json"),
            ("config.json", "json"),
            ("sentence_bert_config.json", "json"),
        ):
            made[f"encoder.{part}"] = Case(
                encoder, _read_encoder, part, ".", n=24, kind=kind, named=tuple(encoder)
            )
    made["upload.jsonl"] = Case({"up.jsonl": _jsonl(_frame())}, _upload, n=30)
    return made


def _feature_cache() -> bytes:
    import tempfile

    from practicum.models.vision import FeatureCache

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.sqlite"
        FeatureCache(path).put(list("abc"), np.ones((3, 4), np.float32))
        return path.read_bytes()


def _read_features(path: Path) -> Any:
    from practicum.models.vision import FeatureCache

    cache = FeatureCache(path)
    cache.put(["d"], np.ones((1, 4), np.float32))
    found = cache.get(list("abcd"))
    return found, cache.erase(["a"]), cache.vacuum()


def _embedding_cache() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.sqlite"
        _read_embeddings(path)
        return path.read_bytes()


def _read_embeddings(path: Path) -> Any:
    from practicum.models.embed import EmbeddingCache

    cache = EmbeddingCache(path, "model")
    try:
        found = cache.find(["a text", "another"])
        cache.add({"a text": (np.ones(4, np.float32), False)})
        return found
    finally:
        cache.close()


def _checkpoint() -> bytes:
    import tempfile

    import torch

    from practicum.models.training import save_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        save_checkpoint(path, {"w": torch.ones(2, 3), "b": torch.zeros(3)}, {"width": 3})
        return path.read_bytes()


def _read_checkpoint(path: Path) -> Any:
    from practicum.models.training import load_checkpoint

    return load_checkpoint(path)


ENCODER = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)


@lru_cache(maxsize=1)
def _encoder() -> dict[str, bytes]:
    """A BERT of a few numbers, in sentence-transformers' layout."""
    import tempfile

    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import BertConfig, BertModel, logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it has an opinion on every setting that it reads
    words = {"[UNK]": 0, "a": 1, "cat": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    config = BertConfig(
        vocab_size=3, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=4, max_position_embeddings=8,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        return {
            "config.json": (Path(folder) / "config.json").read_bytes(),
            "model.safetensors": (Path(folder) / "model.safetensors").read_bytes(),
            "tokenizer.json": tokenizer.to_str().encode(),
            "sentence_bert_config.json": b'{"max_seq_length": 8}',
            "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
        }


def _read_encoder(folder: Path) -> Any:
    from practicum.models.embed import FolderEncoder

    encoder = FolderEncoder(folder, device="cpu")
    return encoder.fingerprint, encoder._tokenizer, encoder._model


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a/1.csv"), b"x,y\n1,2\n")
        archive.writestr(zipfile.ZipInfo("a/2.csv"), b"x,y\n1,2\n")
    return out.getvalue()


def _chat_cache() -> bytes:
    import tempfile

    from practicum.models.chat import CachedChat, FunctionChat

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.sqlite"
        chat = CachedChat(FunctionChat(lambda request: "4"), path)
        for i in range(3):
            chat.reply([{"role": "user", "content": f"{i} + 2?"}])
        chat.reply([{"role": "user", "content": "2 + 2?"}])
        chat.close()
        return path.read_bytes()


def _store() -> bytes:
    import tempfile

    from practicum.study.evidence import Verdict
    from practicum.study.spec import Outcome, Trial
    from practicum.study.store import Store

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        with Store(path) as store:
            trial = Trial("toy", "d", "arm", 0, (("n", 3),))
            store.add([("k", Outcome(trial, {"error": 0.5}, {"loss": np.arange(3.0)}, 1.0))])
            run = store.begin("toy", "verify", "smoke", {}, {"code": "x"}, ["k"])
            store.judge(run, {"C1": Verdict("supported", "it is")})
            store.fail(run, "k2", "a trial", "ValueError", "Traceback")
            store.end(run, "done")
        return path.read_bytes()


def _read_store(path: Path) -> Any:
    from practicum.study.store import Store

    with Store(path) as store:
        row = store.latest_run("toy", "verify")
        held = store.load(["k"]), store.count(), store.failures_of(1), store.verdicts_of(1)
        store.add([])
        run = store.begin("toy", "verify", "smoke", {}, {}, ["k"])
        return row, held, store.keys_of(run)


def _upload(path: Path) -> Any:
    from practicum.web.files import Files, head_of
    from practicum.web.settings import Settings

    async def chunks() -> Any:
        yield path.read_bytes()

    settings = Settings("token", "127.0.0.1", 0, (path.parent,), "", path.parent / "state")
    kept = asyncio.run(Files(settings).receive(path.name, chunks(), path.stat().st_size))
    return head_of(kept), sniff(kept)


# ------------------------------------------------------------- the judge


class TooSlow(BaseException):
    """Not an ``Exception``: no reader may take it for a library's."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TooSlow(f"longer than {LIMIT_S:g} s")

    before = signal.signal(signal.SIGALRM, late)
    faulthandler.dump_traceback_later(6 * LIMIT_S, exit=True)  # a library that never comes back
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory_limit(extra: int = 4 << 30) -> Iterator[None]:
    """A file that claims terabytes is refused the same on machines that promise all of them."""
    if not STATUS.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _peak() -> int:
    """The most memory held since :func:`_forget_peak`."""
    found = re.search(r"VmHWM:\s*(\d+)", STATUS.read_text()) if STATUS.exists() else None
    return int(found[1]) * 1024 if found else 0


def _forget_peak() -> int:
    with suppress(OSError):  # not Linux, or not allowed: the peak of all so far stands in
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


@contextmanager
def _no_listener() -> Iterator[None]:
    """Logging as in a person's process: what nobody handles goes to stderr."""
    root = logging.getLogger()
    held, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = held


@dataclass
class Fall:
    """What went wrong with one mutant."""

    case: str
    number: int
    mutation: str
    what: str
    said: str
    content: bytes = field(repr=False, default=b"")

    def __str__(self) -> str:
        return f"{self.case} #{self.number} {self.mutation}: {self.what}: {self.said[:300]}"


def _write(case: Case, folder: Path) -> Path:
    for name in case.files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.content(name))
    return folder if case.source == "." else folder / case.target


def _faults_of(error: BaseException, case: Case, folder: Path) -> Iterator[tuple[str, str]]:
    """What is wrong with how a reader refused."""
    if not isinstance(error, PracticumError):
        import traceback

        where = traceback.extract_tb(error.__traceback__)
        ours = [f"{Path(f.filename).name}:{f.lineno}" for f in where if "practicum" in f.filename]
        yield "raised", f"{type(error).__name__}: {error!s:.200} at {ours[-1:]}"
        return
    said = str(error)
    names = (Path(case.target).name, *case.named, str(folder) if case.source == "." else "\0")
    if not any(name in said for name in names):
        yield "does not name the file", said
    if len(said) > LONGEST:
        yield "long message", f"{len(said)} characters: {said[:150]}"
    if odd := re.search(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]", said):
        yield "unprintable message", repr(said[max(0, odd.start() - 80) : odd.end() + 20])
    if "\n" in error.message:
        yield "message of several lines", repr(said[:300])


def _noise(caught: list[warnings.WarningMessage]) -> Iterator[tuple[str, str]]:
    for one in caught:
        said = str(one.message)
        if one.category is not UserWarning or not re.search(r"[\w/]: |edges merged", said):
            yield "warning", f"{one.category.__name__}: {said:.200} ({one.filename}:{one.lineno})"
        elif len(said) > LONGEST:
            yield "long warning", said[:150]


def _judged(case: Case, folder: Path, source: Path, content: bytes, capfd: Any) -> Any:
    """What is wrong with how one content of the damaged file is read, and the error, if any."""
    for left in folder.rglob("*"):  # what SQLite keeps beside a file
        if left.is_file() and left.relative_to(folder).as_posix() not in case.files:
            left.unlink()
    (folder / case.target).write_bytes(content)
    capfd.readouterr()
    before = _forget_peak()
    wrong: list[tuple[str, str]] = []
    caught: BaseException | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with _memory_limit(), _time_limit(), _no_listener():
                case.read(source)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            caught = error
            wrong += _faults_of(error, case, folder)
    wrong += _noise(warned)
    if _peak() - before > MEMORY:
        wrong.append(("memory", f"{(_peak() - before) >> 20} MB"))
    if noise := "".join(capfd.readouterr()):
        wrong.append(("noise", noise[:200]))
    return wrong, caught


def falls(name: str, case: Case, folder: Path, seed: int, n: int, capfd: Any) -> Iterator[Fall]:
    """Read ``n`` mutants, and say what went wrong with each."""
    source = _write(case, folder)
    case.read(source)  # the valid input is read
    damaged = mutants(case.content(case.target), seed, n, case.kind)
    for number, (mutation, content) in enumerate(damaged):
        wrong, _ = _judged(case, folder, source, content, capfd)
        yield from (Fall(name, number, mutation, what, said, content) for what, said in wrong)


CASES = _cases()


def _seed(name: str) -> int:
    return sum(name.encode()) * 7919 + len(name)


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_read_or_refused_by_name(name, tmp_path, capfd):
    case = CASES[name]
    for package in case.extra:
        pytest.importorskip(package)
    found = list(falls(name, case, tmp_path, _seed(name), case.n, capfd))
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_more_damaged_files(name, tmp_path, capfd):
    case = CASES[name]
    for package in case.extra:
        pytest.importorskip(package)
    found = list(falls(name, case, tmp_path, _seed(name) + 1, case.n * SLOW, capfd))
    assert not found, "\n".join(map(str, found))


def test_the_corpus_is_as_large_as_promised():
    assert sum(case.n for case in CASES.values()) >= 1000


# ------------------------------------------------------------- what fell once, in its smallest form


def _lying(shape: str) -> bytes:
    return NPY["header:" + shape](bytes(64), random.Random(0)) or b""


def _changed(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old), old
    return content.replace(old, new, 1)


def _odd_exif() -> bytes:
    return IMAGE["odd-exif"](_picture("PNG"), random.Random(0)) or b""


def _not_utf8_in_a_page() -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    out = io.BytesIO()
    rows = pyarrow.table({"x": ["1-bad", "2-bad"]})
    parquet.write_table(rows, out, compression="none", use_dictionary=False, write_statistics=False)
    return _changed(out.getvalue(), b"1-bad", b"1-b\xffd")


def _columns_of(frame: pd.DataFrame, **columns: Any) -> bytes:
    return _parquet(frame.assign(**columns))


# case, the damaged file, and what the message says (None: it is read all the same)
FELL: dict[str, tuple[str, bytes | Callable[[], bytes], str | None]] = {
    "nested JSON exhausts the stack": ("text.jsonl", b"[" * 100_000, "line 1: not JSON"),
    "nested JSON in a list of risks": ("risks.json", b"[" * 100_000, "nested too deeply"),
    "nested JSON in a recording": ("replay.jsonl", b"[" * 100_000, "line 1"),
    "a whole number beyond floats": (
        "stream.jsonl", (b'{"load": 1' + b"0" * 400 + b', "c": 1}\n') * 3, "line 1",
    ),
    "a whole number of 5,000 digits": (
        "table.jsonl", b'{"x": 1}\n{"x": ' + b"7" * 5000 + b"}\n", "line 2: found inf",
    ),
    "a list in a cell of risks": ("risks.json", b'[{"client": "a", "error": [1]}]', r"found \[1\]"),
    "an object in a cell of risks": ("risks.jsonl", b'{"error": {"a": 1}}', "found {'a': 1}"),
    "a cell of 100,000 letters": (
        "risks.csv", b"client,error\na," + b"x" * 100_000 + b"\n", "100,002 characters",
    ),
    "a name of 100,000 letters": (
        "graph-nodes.csv", b"id,text\n" + b"x" * 100_000 + b",a\n", "name nodes that are not",
    ),
    "a weight that is missing": (
        "graph-edges.csv", b"src,dst,weight\nd0,d1,\n", "row 1: nan is no number",
    ),
    "a header of 10^10 columns without rows": (
        "table-kept.npy", partial(_lying, "empty-huge"), "holds no rows",
    ),
    "a header of a terabyte": ("table.npy", partial(_lying, "terabytes"), "cannot be read as NPY"),
    "raw bytes for numbers": ("table.npy", partial(_npy, np.zeros((2, 2), "V3")), "column '0'"),
    "complex numbers in a table": ("table.npz", partial(_npz, x=np.ones(2) * 1j), "complex128"),
    "records in records": (
        "risks.npz", partial(_npz, error=np.zeros(2, [("a", "f4"), ("b", "f4")]), n=[1, 2]),
        "column 'error'",
    ),
    "an archive cut short was left open": ("table.npz", b"PK\3\4" + bytes(40), "cannot be read"),
    "text in Parquet that is no UTF-8": ("table.parquet", _not_utf8_in_a_page, "cannot be read"),
    "a picture with a cut tag is read in silence": ("image.png", _odd_exif, None),
    "a picture of 144 megapixels is refused in silence": (
        "image.png", lambda: IMAGE["png-large"](b"", random.Random(0)) or b"", "not a readable",
    ),
    "a path too long for a file": (
        "images.csv", b"path\n" + b"x" * 5000 + b"\n", "there is no file",
    ),
    "complex weights of points": (
        "points.npz", partial(_npz, points=np.eye(2), weights=np.ones(2) * 1j), "complex128",
    ),
    "weights beyond floats": (
        "points.csv", b"x,y,mass\n0,0,1e308\n0,1,1e308\n", "more than a float holds",
    ),
    "a corner that is no number": (
        "points.ply", lambda: _changed(_ply(False), b"3 0 1 2", b"3 0 1 inf"), "corners",
    ),
    "a mesh in the plane": (
        "points.obj", b"v 0 0\nv 0 1\nv 1 1\nf 1 2 3\n", "3 coordinates",
    ),
    "a surface beyond floats": (
        "points.off", lambda: _changed(_off(), b"4 0 0", b"1e308 0 0"), "area inf",
    ),
    "an atom count that is no number": (
        "points.xyz", "²\nC 0 0 1\n".encode(), "line 2",
    ),
    "an AnnData file of ten terabytes": (
        "points.h5ad", lambda: _hdf5_claim(), "not a readable HDF5 file",
    ),
    "an AnnData file with nothing in obsm": (
        "points.h5ad", lambda: _hdf5(obsm=pytest.importorskip("h5py").Empty("f8")), "HDF5 file",
    ),
    "a weight of an edge names no file": (
        "graph.gexf", lambda: _changed(_networkx("gexf"), b'weight="0.5"', b'weight="-1"'),
        "net.gexf: edge",
    ),
    "rows without an episode": (
        "offline.parquet", partial(_columns_of, _control_frame(), episode=None), "episode is empty",
    ),
    "lists for episodes": (
        "offline.parquet",
        partial(_columns_of, _control_frame(), episode=[[1.0] * (i % 3) for i in range(24)]), None,
    ),
    "a Minari set without a name": (
        "offline-minari.metadata.json",
        lambda: _changed(_minari()["data/metadata.json"], b"pump/runs-v0", b""), "Minari data set",
    ),
    "a header cut between its sizes": (
        "clients.idx", gzip.compress(b"\0\0\x08\x03\0\0\0\x02", mtime=0), "not an IDX file",
    ),
    "bundled outlines damaged": ("shapes.cells", b"1 2 x\n", "is damaged"),
    "bundled labels cut": ("shapes.hands-labels", b"0\n", "1 words for 2 shapes"),
    "a bundled series damaged": ("series.csv", b"Time,Flow\n1,x\n", "is damaged"),
    "a cache of replies damaged within": (
        "chat-cache.sqlite", lambda: _scrambled(_chat_cache()), "is damaged",
    ),
    "a cache of replies left locked when refused": ("chat-cache.sqlite", b"x" * 40, "not a cache"),
    "a store with a row that is no text": (
        "store.sqlite", lambda: _changed(_store(), b'{"error": 0.5}', b"{" * 14), "cannot be read",
    ),
    "a cache of embeddings left locked when refused": (
        "embedding-cache.sqlite", b"x" * 40, "cannot be used",
    ),
    "a cache of features damaged within": (
        "feature-cache.sqlite", lambda: _scrambled(_feature_cache()), "cannot be used",
    ),
    "an upload whose column holds bytes": (
        "upload.parquet", partial(_parquet, pd.DataFrame({"x": [b"\xff"], "y": [1]})), None,
    ),
    "an archive with an unprintable name": (
        "upload.zip", lambda: ZIP["odd-names"](_zip(), random.Random(0)) or b"", r"u202e",
    ),
    "a tokenizer that is none": ("encoder.tokenizer.json", b"{}", "is no tokenizer"),
    "settings of a model that are no object": ("encoder.config.json", b"[]", "object is expected"),
    "weights cut short": ("encoder.model.safetensors", b"", "cannot be loaded"),
}  # fmt: skip


def _hdf5_claim() -> bytes:
    h5py = pytest.importorskip("h5py")
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_dataset("obsm/spatial", (10**12,), "f8", chunks=(1024,))
    return out.getvalue()


def _scrambled(content: bytes) -> bytes:
    """Every page but the first: the tables are known, what they hold is not."""
    return content[:4096] + b"\x55" * (len(content) - 4096)


@pytest.mark.parametrize("what", FELL)
def test_what_fell_once(what, tmp_path, capfd):
    name, content, said = FELL[what]
    if name not in CASES:
        pytest.skip(f"{name} needs a package that is not installed")
    case = CASES[name]
    for package in case.extra:
        pytest.importorskip(package)
    damaged = content() if callable(content) else content
    wrong, error = _judged(case, tmp_path, _write(case, tmp_path), damaged, capfd)
    assert not wrong, wrong
    assert (error is None) == (said is None), error
    assert said is None or re.search(said, str(error)), error
