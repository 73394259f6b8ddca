"""What kind of data a file holds, told from its name and first bytes, without heavy imports."""

from __future__ import annotations

import codecs
import csv
import json
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from practicum.data.kinds import IMAGES, KINDS, files_in
from practicum.errors import InputError

MESHES = {".ply", ".obj", ".stl", ".off", ".vtk"}
GRAPHS = {".graphml", ".gml", ".edgelist", ".gexf"}
HEAD = 65536  # bytes that are looked at
# how people name the two halves of a task for a language model
QUESTIONS = {"prompt", "query", "question", "input"}
ANSWERS = {"answer", "answers", "reference", "target", "test", "canonical_solution"}
# how files of a kind begin
NUMPY = b"\x93NUMPY"
PARQUET = b"PAR1"
HDF5 = b"\x89HDF\r\n\x1a\n"
PICTURES = (b"\x89PNG", b"\xff\xd8", b"BM", b"II", b"MM", b"RIFF")


@dataclass(frozen=True)
class Sniffed:
    """The kinds a file may be read as, and one line that says what it looks like."""

    kinds: tuple[str, ...]
    about: str


def sniff(path: str | Path) -> Sniffed:
    """What kinds of data a file or folder may be read as.

    Raises
    ------
    InputError
        The path does not exist, cannot be read, is empty, or is of no kind known here.
    """
    path = Path(path)
    if not os.path.exists(path):
        raise InputError(f"{path}: there is no such file or folder")
    if path.is_dir():
        return _sniff_folder(path)
    try:
        with path.open("rb") as handle:
            head = handle.read(HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise InputError(f"{path}: the file is empty")
    suffix = path.suffix.lower()
    if suffix in MESHES:
        return Sniffed(("mesh", "points"), f"a mesh or point cloud ({suffix})")
    if suffix in IMAGES:
        _must_begin(path, head, PICTURES, "an image")
        return Sniffed(("images",), "an image")
    if suffix in GRAPHS:
        return Sniffed(("graph",), f"a graph ({suffix})")
    if suffix in (".h5ad",):
        return Sniffed(("points", "table"), "an AnnData file")
    if suffix in (".h5", ".hdf5"):
        _must_begin(path, head, (HDF5,), "an HDF5 file")
        return Sniffed(("trajectories",), "an HDF5 file")
    if suffix in (".parquet", ".pq") or head.startswith(PARQUET):
        _must_begin(path, head, (PARQUET,), "a Parquet table")
        return _sniff_parquet(path)
    if suffix == ".npy" or head.startswith(NUMPY):
        return _sniff_npy(path, head)
    if suffix == ".npz":
        return _sniff_npz(path)
    if head.startswith(b"Package: ") and b"\nVersion: " in head:
        return Sniffed(("graph",), "a Debian index of packages")
    return _sniff_text(path, suffix, head)


def _must_begin(path: Path, head: bytes, beginnings: tuple[bytes, ...], what: str) -> None:
    if not head.startswith(beginnings):
        raise InputError(
            f"{path}: the name says {what}, the first bytes do not",
            "is it damaged, or of another kind? Rename it to what it is",
        )


def _sniff_folder(path: Path) -> Sniffed:
    files = files_in(path)
    if not files:
        raise InputError(f"{path}: the folder is empty")
    stems = {p.stem.lower() for p in files if p.parent == path}
    if {"nodes", "edges"} <= stems:
        return Sniffed(("graph",), "a folder of nodes and edges")
    if (path / "data" / "main_data.hdf5").is_file():
        return Sniffed(("trajectories",), "a Minari data set")
    if images := sum(p.suffix.lower() in IMAGES for p in files):
        return Sniffed(("images",), f"a folder of {images} images")
    first = next((p for p in files if p.suffix.lower() in {*MESHES, ".npy", ".xyz", ".csv"}), None)
    if first is None:
        raise InputError(
            f"{path}: no file of a known kind among {len(files)}",
            f"known kinds: {', '.join(KINDS)}",
        )
    inside = sniff(first)
    return Sniffed(inside.kinds, f"a folder of {len(files)} files, the first is {inside.about}")


def _sniff_parquet(path: Path) -> Sniffed:
    # the footer holds the names of the columns as they are
    with path.open("rb") as handle:
        handle.seek(max(0, os.path.getsize(path) - HEAD))
        foot = handle.read()
    if b"obs_" in foot and b"act_" in foot and b"reward" in foot:
        return Sniffed(("trajectories", "table"), "a Parquet table of observations and actions")
    return Sniffed(("table",), "a Parquet table")


def _sniff_npy(path: Path, head: bytes) -> Sniffed:
    # the header is a Python dict; only what is needed of it is read
    found = re.search(rb"""['"]shape['"]\s*:\s*\(([\d\s,]*)\)""", head)
    try:
        if not found or not head.startswith(NUMPY):
            raise ValueError
        shape = tuple(int(n) for n in found[1].split(b",") if n.strip())
    except ValueError as error:
        raise InputError(f"{path}: not a readable .npy file") from error
    if len(shape) != 2:
        raise InputError(
            f"{path}: an array of shape {shape}",
            "arrays of two dimensions (rows, columns) are read",
        )
    kinds = ("points", "table") if shape[1] in (2, 3) else ("table",)
    return Sniffed(kinds, f"an array of {shape[0]} rows and {shape[1]} columns")


def _sniff_npz(path: Path) -> Sniffed:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n.removesuffix(".npy") for n in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: not a readable .npz file") from error
    if {"observations", "actions", "rewards"} <= set(names):
        return Sniffed(("trajectories",), "recorded trajectories")
    return Sniffed(("table",), f"arrays {', '.join(names)}")


def _sniff_text(path: Path, suffix: str, head: bytes) -> Sniffed:
    whole = len(head) < HEAD
    try:
        # the head may end in the middle of a character
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=whole)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"{path}: neither text in UTF-8 nor a known binary format",
            f"save text as UTF-8; known kinds: {', '.join(KINDS)}",
        )
    lines = [line for line in text.splitlines() if line.strip()]
    if not whole and len(lines) > 1:
        lines.pop()  # cut short
    if not lines:
        raise InputError(f"{path}: the file holds only white space")
    if suffix in (".jsonl", ".ndjson"):
        return _sniff_jsonl(path)
    if suffix in (".csv", ".tsv", ".xyz", ".dat"):
        return _sniff_rows(suffix, lines[:50])
    return Sniffed(("text",), "plain text")


def _sniff_jsonl(path: Path) -> Sniffed:
    number, line = 1, ""
    try:
        with path.open(encoding="utf-8-sig") as handle:  # the first record may be long
            number, line = next((n, text) for n, text in enumerate(handle, 1) if text.strip())
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", error)
        raise InputError(f"{path}: line {number} is not JSON ({reason})") from error
    if not isinstance(record, dict):
        raise InputError(f"{path}: line {number} is not a JSON object")
    kinds = ("text", "table") if isinstance(record.get("text"), str) else ("table",)
    if QUESTIONS & set(record) and ANSWERS & set(record):
        kinds = ("tasks", "table")
    return Sniffed(kinds, f"JSON lines with fields {', '.join(list(record)[:8])}")


def _sniff_rows(suffix: str, lines: list[str]) -> Sniffed:
    separator = next((s for s in ";\t,|" if s in lines[0]), None)
    if separator:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    else:  # lined up with spaces
        rows = [line.split() for line in lines]
    names = [cell.strip().lower() for cell in rows[0]]
    if all(any(n.startswith(part) for n in names) for part in ("obs_", "act_", "reward")):
        return Sniffed(("trajectories", "table"), "a table of observations, actions and rewards")
    body = [row for row in rows[1:] if row] or rows
    width = max(len(row) for row in rows)
    numeric = sum(all(_is_number(row[i]) for row in body if i < len(row)) for i in range(width))
    about = f"a table of {width} columns, {numeric} of them numeric"
    # two or three coordinates, and perhaps a weight or a name
    points = numeric >= 2 and (suffix == ".xyz" or (numeric <= 4 and width <= 4))
    return Sniffed(("table", "points") if points else ("table",), about)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()
    return True
