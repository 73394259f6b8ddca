"""Photographs as people have them: folder trees and tables of paths; every odd mode made RGB.

Pixels are decoded only when asked for.  A file that cannot be decoded is an :class:`InputError`
that names it; whoever reads many files collects these and says so, none is passed over in silence.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.data.kinds import IMAGES
from practicum.data.table import read_table
from practicum.errors import InputError, MissingExtra, listed, plain, reason_of, shown

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

TABLES = {".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson"}
# what people call the columns of such tables, the first found is taken
PATHS = ("path", "file", "filename", "file_name", "image", "image_path", "filepath")
LABELS = ("label", "class", "category", "target", "y")


@dataclass(frozen=True)
class ImageTable:
    """Paths of images, and what is known of each.

    Attributes
    ----------
    paths : list of Path
    ids : list of str
        Unique: relative paths for folders, the ``id`` column or the path column for tables.
    labels : list of str, or None
        None where nothing says what is on the pictures.
    groups, weights : lists, or None
        Who or what a picture belongs to; how much it counts in a vote.
    label_source : str
        Where the labels were taken from, for people: ``the folders' names``.
    """

    paths: list[Path]
    ids: list[str]
    labels: list[str] | None = None
    groups: list[str] | None = None
    weights: list[float] | None = None
    label_source: str = "nowhere"

    def __len__(self) -> int:
        return len(self.paths)


def _pillow():
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise MissingExtra("images need Pillow", "pip install 'practicum[vision]'") from error
    return PIL


def read_images(
    source: str | Path, *, path_column: str | None = None, label_column: str | None = None
) -> ImageTable:
    """Which images there are, and their labels.

    Parameters
    ----------
    source : str or Path
        An image; a folder tree, in which the name of an image's own folder is its label (images
        that lie directly in ``source`` have none, and then nobody has); or a table (CSV, TSV,
        Parquet, JSON lines) with a column of paths, absolute or relative to the table, and perhaps
        ``label``, ``id``, ``group`` and ``weight``.
    path_column, label_column : str, optional
        The columns' names where they are none of the usual ones.

    Returns
    -------
    ImageTable
        In a fixed order: sorted paths, or the table's rows.

    Raises
    ------
    InputError
        No image is there; a column is missing; a path or label is empty; an id comes twice; a file
        that the table names does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.new("L", (8, 8)).save(root / name / "1.png")
    >>> read_images(root).labels
    ['cat', 'dog']
    """
    source = Path(source)
    if source.is_dir():
        return _from_folder(source)
    if not source.is_file():
        raise InputError(f"{source}: there is no such file or folder")
    if source.suffix.lower() in IMAGES:
        return ImageTable([source], [source.name])
    if source.suffix.lower() in TABLES:
        return _from_table(source, path_column, label_column)
    raise InputError(
        f"{source}: files ending in {source.suffix or 'nothing'!r} are no images",
        f"give a folder, a table of paths ({', '.join(sorted(TABLES))}) or an image "
        f"({', '.join(sorted(IMAGES))})",
    )


def _from_folder(root: Path) -> ImageTable:
    found = sorted(
        p
        for p in root.rglob("*")
        if p.suffix.lower() in IMAGES
        and p.is_file()
        and not any(part.startswith(".") for part in p.relative_to(root).parts)
    )
    if not found:
        raise InputError(
            f"{root}: no image in this folder", f"endings known: {', '.join(sorted(IMAGES))}"
        )
    ids = [p.relative_to(root).as_posix() for p in found]
    if any(p.parent == root for p in found):
        return ImageTable(found, ids)
    labels = [p.parent.name for p in found]
    return ImageTable(found, ids, labels, label_source="the names of the folders")


def _from_table(source: Path, path_column: str | None, label_column: str | None) -> ImageTable:
    frame = read_table(source, numeric=False, missing="keep")
    path_at = _column(source, frame, path_column, PATHS, "paths", required=True)
    label_at = _column(source, frame, label_column, LABELS, "labels", required=False)
    for column in filter(None, (path_at, label_at)):
        empty = frame[column].isna()
        if empty.any():
            row = int(empty.to_numpy().argmax()) + 1
            raise InputError(
                f"{source}, column {column!r}, row {row}: an empty cell ({int(empty.sum())} such)",
                "fill it in or leave the row out",
            )
    names = [str(name) for name in frame[path_at]]
    paths = [p if p.is_absolute() else source.parent / p for p in map(Path, names)]
    absent = [i for i, p in enumerate(paths) if not os.path.isfile(p)]
    if absent:
        raise InputError(
            f"{source}, column {path_at!r}, row {absent[0] + 1}: there is no file "
            f"{plain(paths[absent[0]], 300)} ({len(absent)} such)",
            "paths are read as absolute, or relative to the table's own folder",
        )
    ids = [str(i) for i in frame["id"]] if "id" in frame else names
    twice = (
        next((i for i, one in enumerate(ids) if one in ids[:i]), None)
        if len(set(ids)) < len(ids)
        else None
    )
    if twice is not None:
        raise InputError(
            f"{source}, row {twice + 1}: the id {shown(ids[twice])} was taken by an earlier row",
            "ids are the `id` column, or the paths where there is none",
        )
    return ImageTable(
        paths,
        ids,
        [_word(v) for v in frame[label_at]] if label_at else None,
        [str(v) for v in frame["group"]] if "group" in frame else None,
        _weights(source, frame) if "weight" in frame else None,
        f"the column {label_at!r}" if label_at else "nowhere",
    )


def _column(source, frame, asked, usual, what, *, required):
    columns = [str(c) for c in frame.columns]
    if asked is not None:
        if asked not in columns:
            raise InputError(f"{source} has no column {asked!r}", f"its columns: {listed(columns)}")
        return asked
    lower = {c.lower(): c for c in columns}
    found = next((lower[name] for name in usual if name in lower), None)
    if found is None and required:
        raise InputError(
            f"{source} has no column of {what} (looked for {', '.join(usual)})",
            f"its columns: {listed(columns)}",
        )
    return found


def _word(value: object) -> str:
    """A label as text; 3.0, as a table with an empty cell elsewhere reads it, is 3."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _weights(source: Path, frame) -> list[float]:
    import numpy as np
    import pandas as pd

    numbers = pd.to_numeric(frame["weight"], errors="coerce").to_numpy(dtype=float)
    bad = ~np.isfinite(numbers) | (numbers < 0)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{source}, column 'weight', row {row + 1}: found {plain(frame['weight'].iloc[row])}, "
            "expected a number of 0 or more"
        )
    return numbers.tolist()


def load_image(path: str | Path) -> Image:
    """The picture as a person sees it, in RGB.

    Turned as its EXIF tag says; transparency laid over white; CMYK, palettes, grey, 16 bits a
    channel and floating point converted.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        The file is missing, cut short, no image, or too large to be decoded safely.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> path = Path(tempfile.mkdtemp()) / "glass.png"
    >>> Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(path)
    >>> load_image(path).getpixel((0, 0))
    (255, 255, 255)
    """
    pil = _pillow()
    try:
        # Pillow warns of odd tags and of large pictures, without their name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pil.Image.open(path) as image:
                image.load()
                return as_rgb(image)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from error
    except pil.Image.DecompressionBombError as error:
        raise InputError(
            f"{path}: too large to be decoded safely", "make it smaller first"
        ) from error
    # Pillow's plugins raise OSError, SyntaxError, ValueError, struct.error and more on junk
    except Exception as error:
        reason = getattr(error, "strerror", None) or reason_of(error)
        raise InputError(
            f"{path}: not a readable image ({reason})", "is it damaged, or of another kind?"
        ) from error


def as_rgb(image: Image) -> Image:
    """Any Pillow image as upright RGB; see :func:`load_image`.

    Raises
    ------
    InputError
        Floating-point pixels that are neither in 0..1 nor in 0..255.

    Examples
    --------
    >>> from PIL import Image
    >>> as_rgb(Image.new("I;16", (1, 1), 65535)).getpixel((0, 0))
    (255, 255, 255)
    """
    pil = _pillow()
    image = pil.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        return _from_deep(image)
    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    if transparent:
        image = image.convert("RGBA")
        white = pil.Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = pil.Image.alpha_composite(white, image)
    return image.convert("RGB")


def _from_deep(image: Image) -> Image:
    """Grey of 16 or 32 bits, or floating point, as eight bits."""
    import numpy as np

    pil = _pillow()
    values = np.asarray(image, dtype=np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not np.isfinite([low, high]).all() or low < 0:
        raise InputError(f"pixels from {low:g} to {high:g}, expected 0 to 1, 255 or 65,535")
    # whole numbers are taken for 16 bits, wider ones are scaled by their own largest value
    most = max(65535.0, high) if image.mode != "F" else 1.0 if high <= 1 else 255.0
    scale = 255.0 / most
    if high * scale > 255.5:
        raise InputError(
            f"floating-point pixels from {low:g} to {high:g}", "scale them to 0..1 or 0..255"
        )
    grey = np.rint(values * scale).astype(np.uint8)
    return pil.Image.fromarray(grey).convert("RGB")


def file_key(path: str | Path) -> str:
    """SHA-256 of a file's bytes: under it features are cached.

    Raises
    ------
    InputError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> _ = path.write_bytes(b"")
    >>> file_key(path)[:8]
    'e3b0c442'
    """
    try:
        with open(path, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def pixel_key(image: Image) -> str:
    """SHA-256 of an image's mode, size and pixels, for images that are no files.

    Examples
    --------
    >>> from PIL import Image
    >>> pixel_key(Image.new("L", (2, 2))) == pixel_key(Image.new("L", (2, 2)))
    True
    """
    head = f"{image.mode} {image.size}".encode()
    return hashlib.sha256(head + image.tobytes()).hexdigest()


def thumbnail(image: Image, size: int = 64) -> bytes:
    """A small JPEG of the image, for strips of neighbours.

    Parameters
    ----------
    image : PIL image
    size : int
        Pixels of the longer side.

    Examples
    --------
    >>> from PIL import Image
    >>> thumbnail(Image.new("RGB", (200, 100)))[:2] == bytes([0xFF, 0xD8])
    True
    """
    import io

    small = image.convert("RGB")
    small.thumbnail((size, size))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def from_arrays(arrays: Sequence[np.ndarray]) -> list[Image]:
    """Arrays (h, w), (h, w, 1), (h, w, 3) or (h, w, 4) as RGB images.

    Parameters
    ----------
    arrays : sequence of arrays
        Whole numbers of 0..255 (or 0..65,535 as uint16), or floats in 0..1.

    Raises
    ------
    InputError
        A shape or a range that is no image's; the index is named.

    Examples
    --------
    >>> import numpy as np
    >>> from_arrays(np.zeros((1, 4, 4)))[0].size
    (4, 4)
    """
    import numpy as np

    pil = _pillow()
    made = []
    for i, array in enumerate(arrays):
        a = np.asarray(array)
        if a.ndim == 3 and a.shape[2] == 1:
            a = a[:, :, 0]
        if a.ndim not in (2, 3) or (a.ndim == 3 and a.shape[2] not in (3, 4)):
            raise InputError(
                f"image {i} has shape {a.shape}", "expected (height, width) or (height, width, 3)"
            )
        if a.dtype == np.uint16:
            a = np.rint(a / 257.0).astype(np.uint8)
        elif a.dtype.kind == "f":
            if not np.isfinite(a).all() or a.min(initial=0) < 0 or a.max(initial=0) > 1:
                raise InputError(
                    f"image {i}: floats from {a.min():g} to {a.max():g}", "scale them to 0..1"
                )
            a = np.rint(a * 255).astype(np.uint8)
        elif a.dtype != np.uint8:
            if a.dtype.kind not in "iub" or a.min(initial=0) < 0 or a.max(initial=0) > 255:
                raise InputError(f"image {i}: values outside 0..255, of type {a.dtype}")
            a = a.astype(np.uint8)
        made.append(as_rgb(pil.Image.fromarray(a)))
    return made
