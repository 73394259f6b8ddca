"""Pictures that ship inside packages: digits, solar cells, emoji of three vendors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from practicum.data.images import file_key, load_image
from practicum.errors import InputError, MissingExtra
from practicum.models import vision

VENDORS = ("noto", "twemoji", "fluent")
PACKAGES = ("emoji-datasource-google", "emoji-datasource-twitter", "@lobehub/fluent-emoji-3d")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Vectors with their classes; equal only to itself, so that it can be a key.

    Attributes
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
        Whole numbers from 0.
    names : tuple of str
        Of the classes.

    Examples
    --------
    >>> Labelled(np.eye(2), np.array([0, 1]), ("a", "b")).names
    ('a', 'b')
    """

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


@lru_cache(maxsize=1)
def digits() -> Labelled:
    """scikit-learn's 1,797 digits of 8 x 8 pixels; the pixels are the vector.

    Examples
    --------
    >>> digits().X.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    return Labelled(data.data, data.target, tuple(map(str, range(10))))


def has_elpv() -> bool:
    """Whether the package ``elpv-dataset`` is installed (CC BY-NC-SA 4.0, 91 MB).

    Examples
    --------
    >>> isinstance(has_elpv(), bool)
    True
    """
    return find_spec("elpv_dataset") is not None


@lru_cache(maxsize=2)
def elpv(two_classes: bool = False, size: int = 128) -> Labelled:
    """2,624 electroluminescence photographs of solar cells as EfficientNet-Lite0 features.

    Parameters
    ----------
    two_classes : bool
        Intact or possibly so against defective; otherwise the four levels of defect.
    size : int
        Pixels of a side.

    Raises
    ------
    MissingExtra
        The package is not installed.

    Examples
    --------
    >>> elpv(size=128).X.shape  # doctest: +SKIP
    (2624, 1280)
    """
    spec = find_spec("elpv_dataset")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            "the photographs of solar cells are not installed",
            "pip install --no-deps elpv-dataset (91 MB, CC BY-NC-SA 4.0)",
        )
    root = Path(next(iter(spec.submodule_search_locations))) / "data"
    lines = [line.split() for line in (root / "labels.csv").read_text().splitlines() if line]
    level = np.array([round(3 * float(line[1])) for line in lines])
    X = encoded([root / line[0] for line in lines], size)
    if two_classes:
        return Labelled(X, (level >= 2).astype(int), ("intact", "defective"))
    return Labelled(X, level, ("none", "slight", "moderate", "severe"))


def encoded(paths: list[Path], size: int, name: str = "efficientnet-lite0") -> np.ndarray:
    """Features of image files, whole pictures, cached on disk; shape (n, d).

    Parameters
    ----------
    paths : list of Path
    size : int
    name : str
        Of an encoder.

    Raises
    ------
    InputError, MissingExtra
        A file cannot be read; the encoder is not installed.

    Examples
    --------
    >>> from PIL import Image
    >>> path = Path(tempfile.mkdtemp()) / "a.png"
    >>> Image.new("RGB", (8, 8)).save(path)
    >>> encoded([path], 8, "pixels").shape
    (1, 192)
    """
    encoder = vision.get(name, size=size, crop=1.0)
    loaders = [(lambda path=path: load_image(path)) for path in paths]
    return encoder.encode(loaders, [file_key(path) for path in paths])


def emoji_folder() -> Path:
    """Where the emoji are looked for: ``$PRACTICUM_EMOJI`` or the user's data folder.

    Examples
    --------
    >>> emoji_folder().name != ""
    True
    """
    import platformdirs

    given = os.environ.get("PRACTICUM_EMOJI")
    if given:
        return Path(given)
    return Path(platformdirs.user_data_dir("practicum", appauthor=False)) / "emoji"


def has_emoji() -> bool:
    """Whether :func:`fetch_emoji` has been run.

    Examples
    --------
    >>> isinstance(has_emoji(), bool)
    True
    """
    return (emoji_folder() / "complete").is_file()


def fetch_emoji(folder: Path | None = None) -> Path:
    """Pack three npm packages (152 MB) and keep the 64-pixel pictures and their names (65 MB).

    Noto (Apache-2.0), Twemoji (CC BY 4.0), Fluent 3D (MIT).

    Parameters
    ----------
    folder : Path, optional
        :func:`emoji_folder` by default.

    Raises
    ------
    MissingExtra
        npm is not installed.
    InputError
        npm failed; what it said.

    Examples
    --------
    >>> fetch_emoji.__name__
    'fetch_emoji'
    """
    folder = folder or emoji_folder()
    npm = shutil.which("npm")
    if npm is None:
        raise MissingExtra("the emoji come from npm, which is not installed", "install Node.js")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for vendor, package in zip(VENDORS, PACKAGES, strict=True):
            done = subprocess.run(
                [npm, "pack", package, "--silent"], cwd=scratch, capture_output=True, text=True
            )
            if done.returncode:
                raise InputError(f"npm pack {package} failed: {done.stderr.strip()[:200]}")
            _unpack(Path(scratch) / done.stdout.split()[-1], folder / vendor)
    (folder / "complete").write_text("\n".join(PACKAGES) + "\n")
    return folder


def _unpack(archive: Path, target: Path) -> None:
    """The 64-pixel pictures and the table of names; nothing else of the package."""
    target.mkdir(exist_ok=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = Path(member.name).parts
            picture = "64" in parts or "assets" in parts
            if member.isfile() and (picture or parts[1:] == ("emoji.json",)):
                data = tar.extractfile(member)
                (target / Path(member.name).name).write_bytes(data.read())


@lru_cache(maxsize=1)
def emoji(size: int = 96) -> dict[str, Labelled]:
    """The same concepts drawn by three vendors, by sub-category; vectors of EfficientNet-Lite0.

    Only concepts that all three have drawn.

    Parameters
    ----------
    size : int

    Returns
    -------
    dict of vendor -> Labelled
        Rows are aligned: row i is the same concept in all three.

    Raises
    ------
    MissingExtra
        They have not been fetched.

    Examples
    --------
    >>> sorted(emoji())  # doctest: +SKIP
    ['fluent', 'noto', 'twemoji']
    """
    root = emoji_folder()
    if not has_emoji():
        raise MissingExtra(
            "the emoji have not been fetched", "practicum use visual-memory fetch (152 MB by npm)"
        )
    kept, paths = [], {vendor: [] for vendor in VENDORS}
    for entry in json.loads((root / "noto" / "emoji.json").read_text()):
        stem = entry["unified"].lower()
        files = {
            v: root / v / (f"{stem}.webp" if v == "fluent" else entry["image"]) for v in VENDORS
        }
        if entry["category"] != "Component" and all(p.is_file() for p in files.values()):
            kept.append((entry["category"], entry["subcategory"]))
            for vendor, path in files.items():
                paths[vendor].append(path)
    names = tuple(sorted({"/".join(k) for k in kept}))
    y = np.array([names.index("/".join(k)) for k in kept])
    return {vendor: Labelled(encoded(files, size), y, names) for vendor, files in paths.items()}
