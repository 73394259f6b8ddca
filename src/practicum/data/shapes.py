"""Real shapes that ship inside Python packages: cells, hands, three meshes, and digits.

The files are read from where the packages lie; neither geomstats nor pyvista is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from practicum.data.points import PointCloud, read_points
from practicum.errors import InputError, MissingExtra, reason_of

INSTALL = "pip install --no-deps geomstats pyvista"
MESHES = ("airplane", "ant", "nut")


class LabelledClouds(NamedTuple):
    """Clouds, and for each kind of label one array with an entry per cloud."""

    clouds: list[PointCloud]
    labels: dict[str, np.ndarray]


def cells(n_points: int | None = None, min_points: int = 20) -> LabelledClouds:
    """Outlines of 650 mouse osteosarcoma cells, in pixels (geomstats, MIT licence).

    Parameters
    ----------
    n_points : int, optional
        Resample every outline to this many points, evenly along its length. By default the
        points are those of the file: 20 to 1759 per cell.
    min_points : int
        Leave out cells with fewer points than this in the file.

    Returns
    -------
    LabelledClouds
        ``labels["treatment"]``: control, cytd or jasp; ``labels["line"]``: dunn or dlm8. The
        label of a cloud is its treatment.

    Raises
    ------
    MissingExtra
        If geomstats is not installed.

    Examples
    --------
    >>> outlines = cells(n_points=50)  # doctest: +SKIP
    >>> len(outlines.clouds), outlines.clouds[0].points.shape  # doctest: +SKIP
    (650, (50, 2))
    """
    folder = _package_folder("geomstats") / "datasets" / "data" / "cells"
    blocks = _read(folder / "cells.txt").strip().split("\n\n")
    treatments = _words(folder / "treatments.txt", len(blocks))
    lines = _words(folder / "cell_lines.txt", len(blocks))
    clouds, kept = [], []
    for i, (block, treatment) in enumerate(zip(blocks, treatments, strict=True)):
        outline = _numbers(folder / "cells.txt", block, (-1, 2))
        if len(outline) < min_points:
            continue
        if n_points is not None:
            outline = resample_outline(outline, n_points)
        clouds.append(PointCloud(outline, None, f"cell {i}", treatment))
        kept.append(i)
    return LabelledClouds(
        clouds, {"treatment": np.array(treatments)[kept], "line": np.array(lines)[kept]}
    )


def resample_outline(outline: Float[np.ndarray, "m 2"], n_points: int) -> Float[np.ndarray, "n 2"]:
    """Points at equal distances along a closed polygon, starting at its first corner.

    Parameters
    ----------
    outline : (m, 2) float array, corners in order, not repeating the first
    n_points : int

    Returns
    -------
    (n_points, 2) float array, same unit

    Raises
    ------
    InputError
        If the outline has length zero.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    >>> resample_outline(square, 8)[1].tolist()
    [1.0, 0.0]
    """
    closed = np.vstack([outline, outline[:1]])
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    if length[-1] <= 0:
        raise InputError("an outline of length zero cannot be resampled", "drop this outline")
    where = np.arange(n_points) * length[-1] / n_points
    return np.stack([np.interp(where, length, closed[:, k]) for k in range(2)], axis=1)


def hands() -> LabelledClouds:
    """Joints of 53 hands, 22 points each in space, in metres (SHREC 2017, from geomstats).

    geomstats' own loader reads the first hand as a header and returns 52.

    Returns
    -------
    LabelledClouds
        ``labels["pose"]``: "grab" or "expand".

    Raises
    ------
    MissingExtra
        If geomstats is not installed.

    Examples
    --------
    >>> hands().clouds[0].points.shape  # doctest: +SKIP
    (22, 3)
    """
    folder = _package_folder("geomstats") / "datasets" / "data" / "hands"
    joints = _numbers(folder / "hands.txt", _read(folder / "hands.txt"), (-1, 22, 3))
    codes = np.array(_words(folder / "labels.txt", len(joints)))
    pose = np.where(codes == "0", "grab", "expand")
    clouds = [
        PointCloud(hand, None, f"hand {i}", str(label))
        for i, (hand, label) in enumerate(zip(joints, pose, strict=True))
    ]
    return LabelledClouds(clouds, {"pose": pose})


def mesh(name: str, n_points: int = 200, random_state: int = 0) -> PointCloud:
    """Points drawn by area from a mesh of pyvista's examples (MIT licence).

    Parameters
    ----------
    name : "airplane", "ant" or "nut"
    n_points : int
    random_state : int

    Returns
    -------
    PointCloud
        (n_points, 3), in the unit of the file.

    Raises
    ------
    InputError
        If there is no such mesh.
    MissingExtra
        If pyvista (the files) or trimesh (the sampling) is not installed.

    Examples
    --------
    >>> mesh("ant", 100).points.shape  # doctest: +SKIP
    (100, 3)
    """
    if name not in MESHES:
        raise InputError(f"no mesh {name!r}", f"choose from {', '.join(MESHES)}")
    file = _package_folder("pyvista") / "examples" / f"{name}.ply"
    cloud = read_points(file, n_points=n_points, random_state=random_state)
    return PointCloud(cloud.points, None, name, name, cloud.note)


def digits(
    classes: Sequence[int] = tuple(range(10)),
    per_class: int | None = None,
    threshold: float = 8.0,
    random_state: int = 0,
) -> LabelledClouds:
    """scikit-learn's handwritten digits as planar clouds: one point per inked pixel.

    Parameters
    ----------
    classes : sequence of int
        Which digits. 6 and 9 are the same shape up to rotation: never ask a pose-free
        distance to tell them apart.
    per_class : int, optional
        Draw this many of each (from a seed); all by default.
    threshold : float
        A pixel counts as inked from this grey value on (0 to 16).
    random_state : int

    Returns
    -------
    LabelledClouds
        ``labels["digit"]``; coordinates in pixels, y upwards.

    Examples
    --------
    >>> drawn = digits((0, 1), per_class=2)
    >>> [cloud.label for cloud in drawn.clouds]
    ['0', '0', '1', '1']
    """
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    rng = np.random.default_rng(random_state)
    clouds = []
    for digit in classes:
        members = np.flatnonzero(targets == digit)
        if not members.size:
            raise InputError(f"there is no digit {digit!r}", "classes are 0 to 9")
        if per_class is not None:
            members = np.sort(rng.choice(members, per_class, replace=False))
        for i in members:
            row, column = np.nonzero(images[i] >= threshold)
            points = np.stack([column, 7 - row], axis=1).astype(np.float64)
            clouds.append(PointCloud(points, None, f"digit {i}", str(digit)))
    return LabelledClouds(clouds, {"digit": np.array([cloud.label for cloud in clouds])})


def _package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"these shapes ship with {package}, which is not installed", INSTALL)
    return Path(next(iter(spec.submodule_search_locations)))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingExtra(f"{file} is missing from the installed package", INSTALL) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(file, str(error)) from error


def _numbers(file: Path, text: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        found = np.array(text.split(), dtype=np.float64).reshape(shape)
    except ValueError as error:
        raise _damaged(file, reason_of(error)) from error
    if not np.isfinite(found).all():
        raise _damaged(file, "NaN or infinite numbers")
    return found


def _words(file: Path, n: int) -> list[str]:
    """One word for each of the ``n`` shapes that lie beside."""
    found = _read(file).split()
    if len(found) != n:
        raise _damaged(file, f"{len(found)} words for {n} shapes")
    return found


def _damaged(file: Path, reason: str) -> InputError:
    return InputError(
        f"{file} of the installed package is damaged: {reason}",
        f"install it again: {INSTALL} --force-reinstall",
    )
