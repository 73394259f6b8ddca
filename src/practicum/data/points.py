"""Point clouds from people's files: tables, arrays, meshes and AnnData.

>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "corner.csv").write_text("x,y,mass\\n0,0,1\\n4,0,1\\n0,3,2\\n")
>>> cloud = read_points(folder / "corner.csv", weight_column="mass")
>>> cloud.points.shape, cloud.weights.tolist()
((3, 2), [0.25, 0.25, 0.5])
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.data.table import load_arrays
from practicum.errors import InputError, MissingExtra, listed, reason_of, shown

ARRAY_SUFFIXES = (".npy", ".npz")
TABLE_SUFFIXES = (".csv", ".txt", ".xyz")
MESH_SUFFIXES = (".ply", ".obj", ".stl", ".off", ".vtk")
ANNDATA_SUFFIXES = (".h5ad",)
SUFFIXES = ARRAY_SUFFIXES + TABLE_SUFFIXES + MESH_SUFFIXES + ANNDATA_SUFFIXES

MAX_DIMENSION = 10
WEIGHT_SUM_TOLERANCE = 1e-6
MESH_POINTS = 500  # drawn from a surface when nothing else is asked for


@dataclass(frozen=True, eq=False)
class PointCloud:
    """A weighted point cloud.

    Attributes
    ----------
    points : (n, d) float64 array, in the unit of the file
    weights : (n,) float64 array summing to one, or None for equal weights
    name : str, the file's name
    label : str, the folder it lay in when a directory with subfolders was read, else ""
    note : str, one sentence about what the reader did (sampled, subsampled), else ""
    """

    points: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"] | None = None
    name: str = ""
    label: str = ""
    note: str = ""


def read_points(
    path: str | Path,
    n_points: int | None = None,
    random_state: int = 0,
    weight_column: str | int | None = None,
    sample: str = "surface",
) -> PointCloud:
    """Read one cloud.

    Parameters
    ----------
    path : str or Path
        ``.npy``, ``.npz`` (array ``points``, optional ``weights``), ``.csv``, ``.txt``, ``.xyz``,
        a mesh (``.ply``, ``.obj``, ``.stl``, ``.off``, ``.vtk``), or ``.h5ad``
        (``obsm["spatial"]``).
    n_points : int, optional
        For a mesh, how many points to draw from its surface by area (500 by default); for
        everything else, how many points to keep at most, drawn without replacement.
    random_state : int
        Seed of either draw.
    weight_column : str or int, optional
        Column of a table (by header or position, from 0) that holds weights; they are divided by
        their sum.
    sample : "surface" or "vertices"
        Whether a mesh stands for its surface or for its vertices. A mesh file without faces
        is a point cloud: its vertices are read either way, and the note says so.

    Returns
    -------
    PointCloud

    Raises
    ------
    InputError
        If the file is missing, empty, of an unknown kind, unreadable, or holds anything but
        finite numbers of shape (n, d).
    MissingExtra
        If a mesh or AnnData file needs a package that is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "square.txt"
    >>> _ = file.write_text("0 0\\n0 1\\n1 1\\n1 0\\n")
    >>> read_points(file, n_points=3).note
    'square.txt: 3 of 4 points, drawn with seed 0'
    """
    path = Path(path)
    suffix = _checked_suffix(path)
    if n_points is not None and n_points < 1:
        raise InputError(f"n_points={n_points}, expected 1 or more")
    if sample not in ("surface", "vertices"):
        raise InputError(f"sample={sample!r} is unknown", "use 'surface' or 'vertices'")
    if weight_column is not None and suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"{path}: weight_column applies to tables, not to {suffix} files",
            "leave it out, or export the cloud as CSV",
        )
    if suffix in MESH_SUFFIXES and sample == "surface":
        return _sampled_surface(path, n_points, random_state)
    if suffix in MESH_SUFFIXES:
        points, weights = np.asarray(_read_mesh(path)[0]), None
    elif suffix in ARRAY_SUFFIXES:
        points, weights = _read_array(path)
    elif suffix in TABLE_SUFFIXES:
        points, weights = _read_table(path, weight_column)
    else:
        points, weights = _read_anndata(path), None
    points = check_points(points, str(path))
    if weights is not None:
        weights = _normalised(weights, len(points), str(path))
    return _subsampled(PointCloud(points, weights, path.name), n_points, random_state)


def read_clouds(source: str | Path | Iterable[str | Path], **options: Any) -> list[PointCloud]:
    """Read several clouds: a directory, or a list of files.

    Subfolders of a directory become labels (``horse/1.ply`` has the label ``horse``). Files of
    other kinds are passed over; hidden files too.

    Parameters
    ----------
    source : directory, or iterable of files
    **options
        Passed to :func:`read_points`.

    Returns
    -------
    list of PointCloud, in the order of their names (or as given)

    Raises
    ------
    InputError
        If nothing readable is there, a file is unusable, or dimensions differ.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "bird").mkdir()
    >>> np.save(folder / "bird" / "wren.npy", np.eye(3))
    >>> [(cloud.name, cloud.label) for cloud in read_clouds(folder)]
    [('wren.npy', 'bird')]
    """
    if isinstance(source, (str, Path)):
        root = Path(source)
        if not root.is_dir():
            raise InputError(f"{root} is not a directory", "pass a directory, or a list of files")
        files = sorted(f for f in root.rglob("*") if _is_cloud_file(f, root))
        labels = [f.parent.name if f.parent != root else "" for f in files]
    else:
        root, files = None, [Path(f) for f in source]
        labels = [""] * len(files)
    if not files:
        raise InputError(
            f"no point clouds in {root or 'an empty list'}",
            f"expected files ending in {', '.join(SUFFIXES)}",
        )
    clouds = [read_points(file, **options) for file in files]
    for file, cloud in zip(files, clouds, strict=True):
        if cloud.points.shape[1] != clouds[0].points.shape[1]:
            raise InputError(
                f"{file} has {cloud.points.shape[1]} coordinates per point, "
                f"{files[0]} has {clouds[0].points.shape[1]}",
                "all clouds need the same dimension",
            )
    return [
        PointCloud(c.points, c.weights, c.name, label, c.note)
        for c, label in zip(clouds, labels, strict=True)
    ]


def write_points(
    path: str | Path,
    points: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"] | None = None,
) -> None:
    """Write a cloud in the format its name asks for; :func:`read_points` reads it back.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.txt`` or ``.xyz`` (text), ``.npy``, ``.npz``, or ``.ply`` (ASCII, vertices
        only; planar clouds get z = 0).
    points : (n, d) array
    weights : (n,) array, optional
        Kept by ``.csv`` (column ``weight``) and ``.npz``; other formats hold no weights.

    Raises
    ------
    InputError
        If the ending names none of these formats, or a PLY file is asked for and d is not 2 or 3.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "corner.csv"
    >>> write_points(file, np.array([[0.0, 1.0], [2.5, 3.0]]))
    >>> file.read_text()
    'x,y\\n0,1\\n2.5,3\\n'
    """
    path, d = Path(path), points.shape[1]
    suffix = path.suffix.lower()
    if suffix == ".npy":
        np.save(path, points)
    elif suffix == ".npz":
        np.savez(path, points=points, **({} if weights is None else {"weights": weights}))
    elif suffix == ".csv":
        header = list("xyz")[:d] if d <= 3 else [f"x{i}" for i in range(d)]
        table = points if weights is None else np.column_stack([points, weights])
        names = ",".join(header + ([] if weights is None else ["weight"]))
        np.savetxt(path, table, fmt="%.10g", delimiter=",", header=names, comments="")
    elif suffix in (".txt", ".xyz"):
        np.savetxt(path, points, fmt="%.10g")
    elif suffix == ".ply" and d in (2, 3):
        axes = "".join(f"property double {axis}\n" for axis in "xyz")
        header = f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n{axes}end_header"
        np.savetxt(path, _in_space(points), fmt="%.10g", header=header, comments="")
    else:
        raise InputError(
            f"{path}: clouds of {d} coordinates cannot be written as {suffix or 'no ending'}",
            "use .csv, .txt, .xyz, .npy, .npz, or .ply for 2 or 3 coordinates",
        )


def _in_space(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 3"]:
    return points if points.shape[1] == 3 else np.column_stack([points, np.zeros(len(points))])


def check_points(points: Any, what: str) -> Float[np.ndarray, "n d"]:
    """A finite float64 (n, d) array, or an error that says which row or axis is at fault.

    Parameters
    ----------
    points : array-like
        Integers and half precision become float64.
    what : str
        File or argument, for the message.

    Raises
    ------
    InputError
        For text, objects or complex numbers, a wrong number of axes, an empty table, an array
        that looks transposed, NaN or infinity.

    Examples
    --------
    >>> check_points([[1, 2], [3, 4]], "X").dtype
    dtype('float64')
    """
    try:
        array = np.asarray(points)
    except ValueError as error:  # rows of different length
        raise InputError(f"{what} is not a table of numbers: {error}", _ONE_ARRAY) from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} holds {array.dtype} values, expected numbers", _ONE_ARRAY)
    array = np.ascontiguousarray(array, dtype=np.float64)
    _check_shape(array, what)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise InputError(
            f"{what} has NaN or infinite coordinates in {bad.size} row(s): {_listed(bad)} "
            "(counted from 0)",
            "drop or repair those rows",
        )
    return array


_ONE_ARRAY = "pass one (n, d) array of numbers per cloud, one point a row"


def _check_shape(array: np.ndarray, what: str) -> None:
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {array.shape}, expected (n, d): one point a row",
            "for points on a line use a single column, x.reshape(-1, 1)",
        )
    n, d = array.shape
    if n == 0 or d == 0:
        raise InputError(f"{what} is empty (shape {array.shape})", "pass at least one point")
    # One point in the plane, or two in space, are legitimate although n < d.
    if d > MAX_DIMENSION or (n < d and d > 3):
        raise InputError(
            f"{what} has shape {array.shape}, which reads as {n} points in {d} dimensions",
            f"if these are {d} points in {n} dimensions, transpose; if {d} coordinates are meant, "
            f"reduce them to {MAX_DIMENSION} or fewer first",
        )


def check_weights(weights: Any, n: int, what: str) -> Float[np.ndarray, " n"]:
    """A copy of a probability vector of length ``n``, summing to one exactly.

    Raises
    ------
    InputError
        For a wrong length, negative or non-finite entries, or a sum off one by more than 1e-6.

    Examples
    --------
    >>> check_weights([0.25, 0.75], 2, "X").tolist()
    [0.25, 0.75]
    """
    p = _checked_masses(weights, n, what)
    if abs(p.sum() - 1.0) > WEIGHT_SUM_TOLERANCE:
        raise InputError(
            f"the weights of {what} sum to {p.sum():.6g}, expected 1",
            "divide them by their sum if they are proportions",
        )
    return p / p.sum()


def _checked_masses(weights: Any, n: int, what: str) -> Float[np.ndarray, " n"]:
    array = np.asarray(weights)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"the weights of {what} are {array.dtype} values, expected numbers",
            "weights are masses: zero or more",
        )
    p = np.array(array, dtype=np.float64)  # a copy: the caller's weights are never rescaled
    if p.shape != (n,):
        raise InputError(
            f"the weights of {what} have shape {p.shape}, expected ({n},)",
            "give one weight per point",
        )
    bad = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))
    if bad.size:
        raise InputError(
            f"the weights of {what} are negative or not finite in row(s) {_listed(bad)} "
            "(counted from 0)",
            "weights are masses: zero or more",
        )
    return p


def _normalised(weights: Any, n: int, what: str) -> Float[np.ndarray, " n"]:
    """Masses from a file, in whatever unit, as probabilities."""
    p = _checked_masses(weights, n, what)
    with np.errstate(over="ignore"):
        total = p.sum()
    if not 0 < total < np.inf:
        found = "are all zero" if total == 0 else "sum to more than a float holds"
        raise InputError(f"the weights of {what} {found}", "give masses of a smaller unit")
    return p / total


def _listed(rows: np.ndarray) -> str:
    return ", ".join(map(str, rows[:10])) + (", ..." if rows.size > 10 else "")


def _checked_suffix(path: Path) -> str:
    if not path.exists():
        raise InputError(f"{path} does not exist", "check the name and the folder")
    if path.is_dir():
        raise InputError(f"{path} is a directory", "use read_clouds, or name one file in it")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: {suffix or 'no'} ending is not a kind of point cloud known here",
            f"expected one of {', '.join(SUFFIXES)}",
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes)", "export it again")
    return suffix


def _is_cloud_file(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    return file.is_file() and not hidden and file.suffix.lower() in SUFFIXES


def _subsampled(cloud: PointCloud, n_points: int | None, seed: int) -> PointCloud:
    n = len(cloud.points)
    if n_points is None or n_points == n:
        return cloud
    if n_points > n:
        note = f"{cloud.name}: all {n} points ({n_points} were asked for)"
        return PointCloud(cloud.points, cloud.weights, cloud.name, cloud.label, note)
    kept = np.sort(np.random.default_rng(seed).choice(n, n_points, replace=False))
    weights = None
    if cloud.weights is not None:
        weights = _normalised(cloud.weights[kept], n_points, cloud.name)
    note = f"{cloud.name}: {n_points} of {n} points, drawn with seed {seed}"
    return PointCloud(cloud.points[kept], weights, cloud.name, cloud.label, note)


def _read_array(path: Path) -> tuple[Any, Any]:
    try:
        arrays = load_arrays(path)
    except Exception as error:  # numpy raises ValueError, EOFError, BadZipFile, ...
        raise InputError(
            f"{path} is not a readable NumPy file: {reason_of(error)}",
            "save it with np.save or np.savez; object arrays are refused because they "
            "can run code when loaded",
        ) from error
    points = arrays.get("points", next(iter(arrays.values())) if len(arrays) == 1 else None)
    if points is None:
        raise InputError(
            f"{path} holds the arrays {listed(sorted(arrays)) or 'none'}, expected 'points'",
            "name the coordinates 'points' (and the weights 'weights')",
        )
    return points, arrays.get("weights")


def _read_table(path: Path, weight_column: str | int | None) -> tuple[Any, Any]:
    """Numbers separated by commas, semicolons, tabs or blanks, with or without a header."""
    rows = [(i, line) for i, line in enumerate(_text(path).splitlines(), 1) if line.strip()]
    rows = [(i, line) for i, line in rows if not line.lstrip().startswith("#")]
    if path.suffix.lower() == ".xyz":
        rows = _without_xyz_preamble(rows)
    if not rows:
        raise InputError(f"{path} holds no rows", "expected one point a line")
    fields = [(i, _fields(line)) for i, line in rows]
    header: list[str] | None = None
    if not any(_is_number(value) for value in fields[0][1]):
        header, fields = fields[0][1], fields[1:]
        if not fields:
            raise InputError(f"{path} holds a header and no rows", "expected one point a line")
    if path.suffix.lower() == ".xyz" and not _is_number(fields[0][1][0]):
        fields = [(i, values[1:]) for i, values in fields]  # the chemical element
    table = _parsed(path, fields, header)
    if weight_column is None:
        return table, None
    column = _weight_position(path, weight_column, header, table.shape[1])
    return np.delete(table, column, axis=1), table[:, column]


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: {error}", "expected a table of numbers") from error
    if "\0" in text:
        raise InputError(f"{path} is binary, not text", "expected a table of numbers")
    return text


def _without_xyz_preamble(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Drop the count and the comment line of a chemist's XYZ file (blank comments are gone)."""
    first = rows[0][1].strip() if rows else ""
    if first.isdecimal() and len(first) < 20:  # isdigit would pass a superscript
        count = int(first)
        return rows[-count:] if count else []
    return rows


def _fields(line: str) -> list[str]:
    for separator in (";", ",", "\t"):
        if separator in line:
            return [value.strip() for value in line.strip().split(separator)]
    return re.split(r"\s+", line.strip())


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _parsed(
    path: Path, fields: list[tuple[int, list[str]]], header: list[str] | None
) -> Float[np.ndarray, "n c"]:
    width = len(header) if header else len(fields[0][1])
    table = np.empty((len(fields), width))
    for row, (line, values) in enumerate(fields):
        if len(values) != width:
            raise InputError(
                f"{path}, line {line}: {len(values)} values, expected {width}",
                "every line needs the same number of columns",
            )
        for column, value in enumerate(values):
            if not value:
                value = "nan"  # reported with its row by check_points
            elif not _is_number(value):
                name = shown(header[column]) if header else str(column)
                raise InputError(
                    f"{path}, line {line}, column {name}: {shown(value)} is not a number",
                    "keep coordinate columns (and one of weights) only",
                )
            table[row, column] = float(value)
    return table


def _weight_position(
    path: Path, weight_column: str | int, header: list[str] | None, width: int
) -> int:
    if isinstance(weight_column, str) and header and weight_column in header:
        return header.index(weight_column)
    if str(weight_column).lstrip("-").isdecimal() and -width <= int(weight_column) < width:
        return int(weight_column) % width
    known = listed(header) if header else f"0 to {width - 1} (no header)"
    raise InputError(f"{path} has no weight column {weight_column!r}", f"its columns are {known}")


def _sampled_surface(path: Path, n_points: int | None, seed: int) -> PointCloud:
    """Points spread evenly over the surface of a mesh; its vertices where it has no faces."""
    vertices, faces = _read_mesh(path)
    vertices = check_points(vertices, str(path))
    if faces is None or len(faces) == 0:  # a scanner's cloud, or one of write_points
        cloud = _subsampled(PointCloud(vertices, None, path.name), n_points, seed)
        what = cloud.note or f"{path.name}: all {len(vertices)} vertices"
        return replace(cloud, note=f"{what}; the file has no faces and is read as a point cloud")
    _check_faces(np.asarray(faces), vertices, path)
    mesh = _trimesh(path).Trimesh(vertices, faces, process=False)
    with np.errstate(all="ignore"):
        area = float(mesh.area)
    if not 0 < area < np.inf:
        raise InputError(
            f"{path} has a surface of area {area:g}",
            "read its vertices: sample='vertices' (--vertices)",
        )
    import trimesh.sample

    n_points = n_points or MESH_POINTS
    points, _ = trimesh.sample.sample_surface(mesh, n_points, seed=seed)
    note = f"{path.name}: {n_points} points drawn by area from {len(faces)} faces with seed {seed}"
    return PointCloud(np.array(points, dtype=np.float64), None, path.name, "", note)


def _trimesh(path: Path) -> Any:
    try:
        import trimesh
    except ImportError as error:
        raise MissingExtra(
            f"{path}: reading meshes needs trimesh", "pip install 'practicum[meshes]'"
        ) from error
    # it logs tracebacks of what it cannot read; they go on to whoever listens, not to stderr
    logging.getLogger("trimesh").addHandler(logging.NullHandler())
    return trimesh


def _read_mesh(path: Path) -> tuple[Any, Any]:
    """Vertices, and triangles or None."""
    if path.suffix.lower() == ".vtk":
        return _read_vtk(path)
    trimesh = _trimesh(path)
    try:
        with np.errstate(all="ignore"):  # what is no index as an integer is refused below
            loaded = trimesh.load(path, process=False)
            if isinstance(loaded, trimesh.Scene):
                loaded = loaded.to_mesh()
    except Exception as error:  # every format has its own ways to fail
        raise InputError(
            f"{path} is not a readable {path.suffix} file: {reason_of(error)}", "export it again"
        ) from error
    if len(loaded.vertices) == 0:
        raise InputError(f"{path} has no vertices", "export it again")
    return loaded.vertices, getattr(loaded, "faces", None)


def _check_faces(faces: np.ndarray, vertices: np.ndarray, path: Path) -> None:
    n_vertices, d = vertices.shape
    if d != 3 or faces.ndim != 2 or faces.shape[1] != 3:
        raise InputError(
            f"{path}: vertices of {d} coordinates and faces of shape {faces.shape}; 3 coordinates "
            "and 3 corners are expected",
            "export it again, as triangles in space",
        )
    bad = np.flatnonzero(((faces < 0) | (faces >= n_vertices)).any(axis=1))
    if bad.size:
        raise InputError(
            f"{path}: {bad.size} face(s) name corners that are not there: {_listed(bad)} (counted "
            f"from 0), the first the corners {faces[bad[0]].tolist()} of {n_vertices}",
            "export it again",
        )


def _read_vtk(path: Path) -> tuple[Any, Any]:
    try:
        import meshio
    except ImportError as error:
        raise MissingExtra(
            f"{path}: reading VTK needs meshio", "pip install 'practicum[meshes]'"
        ) from error
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            mesh = meshio.read(path)
    except (Exception, SystemExit) as error:  # meshio prints and exits on what it cannot read
        reason = " ".join((said.getvalue() or str(error)).split())
        raise InputError(
            f"{path} is not a VTK file that meshio reads: {reason_of(ValueError(reason))}",
            "export the surface as PLY, OBJ or STL",
        ) from None
    triangles = [block.data for block in mesh.cells if block.type == "triangle"]
    quads = [block.data for block in mesh.cells if block.type == "quad"]
    triangles += [q[:, corners] for q in quads for corners in ([0, 1, 2], [0, 2, 3])]
    return mesh.points, np.concatenate(triangles) if triangles else None


def _read_anndata(path: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra(
            f"{path}: reading AnnData needs h5py", "pip install 'practicum[meshes]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            known = list(file["obsm"]) if "obsm" in file else []
            if "spatial" in known:
                return np.asarray(file["obsm"]["spatial"])
    # damage shows as OSError, RuntimeError, KeyError, TypeError, ValueError or MemoryError
    except Exception as error:
        raise InputError(
            f"{path} is not a readable HDF5 file: {reason_of(error)}", "export it again"
        ) from error
    raise InputError(
        f"{path} has no obsm['spatial'] (obsm holds {listed(known) or 'nothing'})",
        "store the coordinates of the spots there",
    )
