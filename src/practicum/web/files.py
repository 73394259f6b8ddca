"""A person's files: which may be named, what is uploaded, what a table holds.

A path is followed through its links before it is compared with the allowed roots. An upload is
counted while it arrives and an archive while it unpacks: what a sender or an archive says of its
own size decides nothing but an early refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import hashlib
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from practicum.data.table import read_table, separator_of
from practicum.errors import InputError, reason_of, shown
from practicum.web.settings import MEGABYTE, Settings

HEAD = 65_536  # bytes of a text table that are looked at
SMALL = 20 * MEGABYTE  # a binary table up to this size is opened to see its columns
PREVIEW = 5  # rows
UPLOAD = r"[0-9a-f]{16}"  # the folder of one


class TooLarge(InputError):
    """More bytes than this server takes."""


@dataclass(frozen=True)
class Head:
    """Column names and the first rows of a table."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Entry:
    """One line of a folder's listing."""

    name: str
    path: Path
    folder: bool


@dataclass(frozen=True)
class Upload:
    """A file or unpacked folder that came through the page, with all it takes on the disk."""

    id: str  # the folder it lies in: a hash of what was sent
    path: Path
    size: int
    since: float  # when it came, as a timestamp


class Files:
    """The files that a person may name to this server, and those uploaded to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.roots = tuple(Path(os.path.realpath(root)) for root in settings.roots)
        self.uploads = Path(os.path.realpath(settings.state)) / "uploads"
        self.uploads.mkdir(parents=True, exist_ok=True)
        settings.state.chmod(0o700)

    # --- paths -----------------------------------------------------------------------------------

    def resolve(self, text: str) -> Path:
        """The file or folder meant; relative to the first root where the path is relative.

        Raises
        ------
        InputError
            There is no such file, or it lies (links followed) outside the allowed roots or below
            a hidden folder of theirs.
        """
        try:
            path = Path(os.path.realpath(self.roots[0] / Path(text).expanduser()))
        except (ValueError, RuntimeError) as error:  # a NUL, a user who does not exist
            raise InputError("that is not the name of a file") from error
        if not self.allows(path):
            roots = ", ".join(map(str, self.roots))
            raise InputError(
                f"{text}: outside the folders that this page may read",
                f"allowed: {roots}; name others with --root when starting the server",
            )
        if not os.path.exists(path):
            raise InputError(f"{text}: there is no such file or folder")
        return path

    def allows(self, path: Path) -> bool:
        """Whether a path without links lies below an allowed root, in no hidden folder."""
        for root in (*self.roots, self.uploads):
            if path.is_relative_to(root):
                return not any(part.startswith(".") for part in path.relative_to(root).parts)
        return False

    def listing(self, folder: Path) -> list[Entry]:
        """What a folder holds: folders first, hidden ones left out."""
        try:
            found = [
                Entry(e.name, Path(e.path), e.is_dir())
                for e in os.scandir(folder)
                if not e.name.startswith(".") and self.allows(Path(os.path.realpath(e.path)))
            ]
        except OSError as error:
            raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
        return sorted(found, key=lambda e: (not e.folder, e.name.lower()))

    def uploaded(self, path: Path) -> bool:
        """Whether this is a file that came through the page."""
        return path.is_relative_to(self.uploads)

    # --- uploads ---------------------------------------------------------------------------------

    def kept(self) -> list[Upload]:
        """The uploads that are still there, the newest first."""
        found = []
        for home in self.uploads.iterdir():
            inside = sorted(home.iterdir()) if re.fullmatch(UPLOAD, home.name) else []
            if inside:
                held = sum(p.stat().st_size for p in home.rglob("*") if p.is_file())
                found.append(Upload(home.name, inside[0], held, home.stat().st_mtime))
        return sorted(found, key=lambda upload: -upload.since)

    def forget(self, upload: str) -> None:
        """Delete an upload; one that is gone already is no error."""
        if not re.fullmatch(UPLOAD, upload):
            raise InputError(f"{shown(upload)} is no upload")
        shutil.rmtree(self.uploads / upload, ignore_errors=True)

    async def receive(self, name: str, chunks: AsyncIterator[bytes], announced: int) -> Path:
        """Store an upload under a hash of its contents, so that the same file is the same data.

        Raises
        ------
        TooLarge
            The file, what an archive unpacks to, or all uploads together exceed the limits.
        """
        limit = self.settings.max_upload
        self._refuse_if(announced > limit, limit)
        self._refuse_if_full(announced)
        digest, size = hashlib.sha256(), 0
        with _temporary_folder(self.uploads) as scratch:
            part = scratch / safe_name(name)
            with part.open("wb") as out:
                async for chunk in chunks:
                    size += len(chunk)
                    self._refuse_if(size > limit, limit)
                    digest.update(chunk)
                    out.write(chunk)
            home = self.uploads / digest.hexdigest()[:16]
            return await asyncio.to_thread(self._keep, part, home)  # unpacking may take long

    def _keep(self, part: Path, home: Path) -> Path:
        """Move a finished upload to its place; an archive is unpacked there."""
        made = self._unpacked(part) if part.suffix.lower() == ".zip" else part
        self._refuse_bombs(made)
        home.mkdir(exist_ok=True)
        target = home / made.name
        if not target.exists():  # a second upload of the same bytes changes nothing
            made.rename(target)
        inside = list(target.iterdir()) if target.is_dir() else []
        return inside[0] if len(inside) == 1 else target

    def _refuse_if(self, too_large: bool, limit: int) -> None:
        if too_large:
            raise TooLarge(
                f"the file is larger than {limit // MEGABYTE:,} MB",
                "name its path instead: files below the allowed roots are not copied",
            )

    def _refuse_if_full(self, announced: int) -> None:
        held = sum(p.stat().st_size for p in self.uploads.rglob("*") if p.is_file())
        if held + announced > self.settings.max_unpacked:
            raise TooLarge(
                f"the uploads already hold {held // MEGABYTE:,} MB",
                "delete what is no longer needed on the page Uploads",
            )

    # --- archives --------------------------------------------------------------------------------

    def _unpacked(self, archive: Path) -> Path:
        folder = archive.parent / "unpacked" / (archive.stem or "files")
        folder.mkdir(parents=True)
        with _archive(archive) as opened:
            members = self._members(archive, opened)
            left = self.settings.max_unpacked
            for member in members:
                target = folder / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                left -= self._unpack(opened, member, target, left)
        if not any(folder.iterdir()):
            raise InputError(f"{archive.name}: the archive holds no files")
        return folder

    def _members(self, archive: Path, opened: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        members = opened.infolist()
        if len(members) > self.settings.max_members:
            raise TooLarge(f"{archive.name}: {len(members):,} files in one archive")
        self._refuse_total(archive, sum(m.file_size for m in members))
        kept = []
        for member in members:
            parts = Path(member.filename).parts
            linked = stat.S_ISLNK(member.external_attr >> 16)
            if (
                member.filename.startswith("/")
                or ".." in parts
                or "\\" in member.filename
                or linked
            ):
                raise InputError(
                    f"{archive.name}: {shown(member.filename)} would be written outside its folder"
                )
            if not member.is_dir() and not any(p.startswith((".", "__MACOSX")) for p in parts):
                kept.append(member)
        return kept

    def _unpack(
        self, opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, left: int
    ) -> int:
        size = 0
        with opened.open(member) as source, target.open("wb") as out:
            while chunk := source.read(MEGABYTE):
                size += len(chunk)
                if size > left:
                    self._refuse_total(target, self.settings.max_unpacked + 1)
                out.write(chunk)
        return size

    def _refuse_bombs(self, made: Path) -> None:
        """Small files that open to large ones: NumPy's archives, Parquet's repeated values."""
        for path in [made] if made.is_file() else [p for p in made.rglob("*") if p.is_file()]:
            if path.suffix.lower() == ".npz":
                with _archive(path) as opened:
                    self._refuse_total(path, sum(m.file_size for m in opened.infolist()))
            elif path.suffix.lower() in (".parquet", ".pq"):
                self._refuse_total(path, _parquet_size(path))

    def _refuse_total(self, path: Path, size: int) -> None:
        limit = self.settings.max_unpacked
        if size > limit:
            raise TooLarge(f"{path.name}: opens to more than {limit // MEGABYTE:,} MB")


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as opened:
            yield opened
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        # RuntimeError: a password is asked for
        raise InputError(
            f"{path.name}: not an archive that can be read ({reason_of(error)})"
        ) from error


def _parquet_size(path: Path) -> int:
    import pyarrow
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path.name}: not a Parquet file ({reason_of(error)})") from error
    packed = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    return max(packed, about.num_rows * about.num_columns * 8)


@contextlib.contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    """A scratch folder on the same disk, gone afterwards whatever happens."""
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix="."))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def safe_name(name: str) -> str:
    """A file name without folders, control characters or a leading dot; its ending is kept."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^\w.\- ()]", "_", last).strip(". ")
    return plain[-120:] or "data"


def head_of(path: Path) -> Head | None:
    """Columns and first rows where the file is a table that says so cheaply, else None."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return None
    if suffix in (".csv", ".tsv", ".txt", ".dat"):
        return _text_head(path, "\t" if suffix == ".tsv" else ",")
    if suffix not in (".parquet", ".pq", ".npy", ".npz", ".jsonl") or path.stat().st_size > SMALL:
        return None
    try:
        frame = read_table(path, numeric=False, missing="keep")
    except InputError:
        return None  # of another kind; the method will say what it misses
    rows = [list(map(str, row)) for row in frame.head(PREVIEW).itertuples(index=False, name=None)]
    return Head([str(c) for c in frame.columns], rows)


def _text_head(path: Path, usual: str) -> Head | None:
    with path.open("rb") as handle:
        text = handle.read(HEAD).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()][: PREVIEW + 1]
    if not lines:
        return None
    rows = list(csv.reader(lines, delimiter=separator_of(lines[0], usual)))
    return Head([c.strip() for c in rows[0]], rows[1:])
