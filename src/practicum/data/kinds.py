"""What kind of data a file holds, told from its name and first bytes, without heavy imports."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from practicum.errors import InputError

Kind = Literal["table", "text", "points", "mesh", "images", "graph", "trajectories"]
KINDS: tuple[str, ...] = get_args(Kind)

MESHES = {".ply", ".obj", ".stl", ".off", ".vtk"}
IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}
GRAPHS = {".graphml", ".gml", ".edgelist", ".gexf"}
HEAD = 65536  # bytes that are looked at


@dataclass(frozen=True)
class Sniffed:
    """The kinds a file may be read as, and one line that says what it looks like."""

    kinds: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class UserData:
    """A person's files: paths, a name for tables and figures, a fingerprint of the bytes."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[str | Path]) -> UserData:
        """From the command line's arguments; each must exist and be readable."""
        found = []
        for path in map(Path, paths):
            if not path.exists():
                raise InputError(f"{path}: there is no such file or folder")
            found.append(path)
        if not found:
            raise InputError("no data given", "name a file with --data FILE")
        return cls(tuple(found))

    @property
    def path(self) -> Path:
        """The single path; several are an error that says so."""
        if len(self.paths) > 1:
            raise InputError(f"one file expected, {len(self.paths)} given")
        return self.paths[0]

    @property
    def name(self) -> str:
        """The file's stem, or the first of several with their number."""
        first = self.paths[0].stem
        return first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def files(self) -> list[Path]:
        """Every file, folders opened (hidden files left out), in a fixed order."""
        files: list[Path] = []
        for path in self.paths:
            if path.is_dir():
                inside = (p for p in path.rglob("*") if p.is_file())
                files += sorted(p for p in inside if not p.name.startswith("."))
            else:
                files.append(path)
        return files

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of the names and contents; results are stored under it."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(file.name.encode())
            try:
                with file.open("rb") as handle:
                    while block := handle.read(1 << 20):
                        digest.update(block)
            except OSError as error:
                raise InputError(f"{file}: cannot be read ({error.strerror})") from error
        return digest.hexdigest()[:16]


def sniff(path: str | Path) -> Sniffed:
    """What kinds of data a file or folder may be read as.

    Raises
    ------
    InputError
        The path does not exist, cannot be read, is empty, or is of no kind known here.
    """
    path = Path(path)
    if not path.exists():
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
        return Sniffed(("images",), "an image")
    if suffix in GRAPHS:
        return Sniffed(("graph",), f"a graph ({suffix})")
    if suffix in (".h5ad",):
        return Sniffed(("points", "table"), "an AnnData file")
    if suffix in (".h5", ".hdf5"):
        return Sniffed(("trajectories",), "an HDF5 file")
    if suffix in (".parquet", ".pq") or head[:4] == b"PAR1":
        return Sniffed(("table",), "a Parquet table")
    if suffix == ".npy" or head[:6] == b"\x93NUMPY":
        return _sniff_npy(path, head)
    if suffix == ".npz":
        return _sniff_npz(path)
    return _sniff_text(path, suffix, head)


def _sniff_folder(path: Path) -> Sniffed:
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    if not files:
        raise InputError(f"{path}: the folder is empty")
    suffixes = {p.suffix.lower() for p in files}
    if suffixes & IMAGES:
        return Sniffed(("images",), f"a folder of {len(files)} images")
    first = next((p for p in files if p.suffix.lower() in {*MESHES, ".npy", ".xyz", ".csv"}), None)
    if first is None:
        raise InputError(
            f"{path}: no file of a known kind among {len(files)}",
            f"known kinds: {', '.join(KINDS)}",
        )
    inside = sniff(first)
    return Sniffed(inside.kinds, f"a folder of {len(files)} files, the first is {inside.about}")


def _sniff_npy(path: Path, head: bytes) -> Sniffed:
    try:
        width, start = ("<H", 10) if head[6] == 1 else ("<I", 12)
        (length,) = struct.unpack(width, head[8:start])
        header = ast.literal_eval(head[start : start + length].decode("latin1"))
        shape = tuple(header["shape"])
    except (struct.error, ValueError, SyntaxError, KeyError, IndexError, TypeError) as error:
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
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path}: not a readable .npz file") from error
    if {"observations", "actions", "rewards"} <= set(names):
        return Sniffed(("trajectories",), "recorded trajectories")
    return Sniffed(("table",), f"arrays {', '.join(names)}")


def _sniff_text(path: Path, suffix: str, head: bytes) -> Sniffed:
    try:
        # the head may end in the middle of a character
        text = head.decode("utf-8-sig") if len(head) < HEAD else head[:-4].decode("utf-8", "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"{path}: neither text nor a known binary format", f"known kinds: {', '.join(KINDS)}"
        )
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: the file holds only white space")
    if suffix in (".jsonl", ".ndjson"):
        return _sniff_jsonl(path, lines[0])
    if suffix in (".csv", ".tsv", ".xyz", ".dat"):
        return _sniff_rows(suffix, lines)
    return Sniffed(("text",), "plain text")


def _sniff_jsonl(path: Path, line: str) -> Sniffed:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}: line 1 is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise InputError(f"{path}: line 1 is not a JSON object")
    kinds = ("text", "table") if isinstance(record.get("text"), str) else ("table",)
    return Sniffed(kinds, f"JSON lines with fields {', '.join(list(record)[:8])}")


def _sniff_rows(suffix: str, lines: list[str]) -> Sniffed:
    sample = "\n".join(lines[:50])
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(sample, ",;\t |")
    except csv.Error:
        dialect = csv.excel_tab if suffix == ".tsv" else csv.excel
    rows = list(csv.reader(lines[:50], dialect))
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
