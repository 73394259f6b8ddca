"""The kinds of data that methods read, and a person's files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from practicum.errors import InputError

Kind = Literal["table", "text", "points", "mesh", "images", "graph", "trajectories", "tasks"]
KINDS: tuple[str, ...] = get_args(Kind)

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class UserData:
    """A person's files: paths, a name for tables and figures, a fingerprint of the bytes."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[str | Path]) -> UserData:
        """From the command line's arguments; each must exist and be readable."""
        found = []
        for path in map(Path, paths):
            if not os.path.exists(path):  # unlike Path.exists, never raises
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
        """The file's stem or the folder's name, or the first of several with their number."""
        path = _absolute(self.paths[0])
        first = path.name if path.is_dir() else path.stem
        first = first.encode(errors="replace").decode()  # names of files need not be UTF-8
        return first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def files(self) -> list[Path]:
        """Every file, folders opened (hidden files left out), in a fixed order."""
        return [file for path in self.paths for file in files_in(path)]

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of the names and contents; results are stored under it."""
        digest = hashlib.sha256()
        for path in map(_absolute, self.paths):
            for file in files_in(path):
                name = file.relative_to(path.parent).as_posix()  # with the folders below --data
                digest.update(hashlib.sha256(name.encode(errors="surrogatepass")).digest())
                try:
                    with file.open("rb") as handle:
                        digest.update(hashlib.file_digest(handle, "sha256").digest())
                except OSError as error:
                    raise InputError(f"{file}: cannot be read ({error.strerror})") from error
        return digest.hexdigest()[:16]


def _absolute(path: Path) -> Path:
    """The path with its name where it is given as ``.`` or ``..``; links are not followed."""
    return Path(os.path.abspath(path))


def files_in(path: Path) -> list[Path]:
    """A file itself; what a folder holds, hidden files and folders left out, in a fixed order."""
    if not path.is_dir():
        return [path]
    return sorted(
        p
        for p in path.rglob("*")
        if not any(part.startswith(".") for part in p.relative_to(path).parts) and p.is_file()
    )
