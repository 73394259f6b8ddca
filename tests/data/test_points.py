"""Reading point clouds: every format, and what is said about files that hold none."""

import sys

import numpy as np
import pytest

from practicum.data.points import PointCloud, read_clouds, read_points, write_points
from practicum.errors import InputError, MissingExtra

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]])
TETRAHEDRON = "OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 0 3 2\n3 1 2 3\n"
POINTS_ONLY_PLY = (
    "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
    "property float z\nend_header\n0 0 0\n1 0 0\n0 1 0\n"
)


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        read_points(path, **options)
    assert str(path) in caught.value.message
    return str(caught.value)


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y\n0,0\n1,0\n1,2\n0,2\n"),
        ("a.csv", "0;0\n1;0\n1;2\n0;2"),
        ("a.csv", "\ufeffx\ty\n0\t0\n1\t0\n\n1\t2\n0\t2\n"),
        ("a.txt", "# made by hand\n0 0\n 1   0\n1 2\n0 2e0\n"),
        ("a.xyz", "0 0\n1 0\n1 2\n0 2\n"),
        ("a.XYZ", "4\nwater, in angstrom\nO 0 0\nH 1 0\nH 1 2\nC 0 2\n"),
        ("a.xyz", "4\n\nO 0 0\nH 1 0\nH 1 2\nC 0 2\n"),
    ],
)
def test_tables_in_every_dialect(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    cloud = read_points(path)
    np.testing.assert_array_equal(cloud.points, SQUARE)
    assert cloud.weights is None
    assert cloud.name == name


@pytest.mark.parametrize("column", ["mass", 1, "1", -2])
def test_weight_columns_become_probabilities(tmp_path, column):
    path = tmp_path / "a.csv"
    path.write_text("x,mass,y\n0,1,0\n1,1,0\n1,3,2\n0,5,2\n")
    cloud = read_points(path, weight_column=column)
    np.testing.assert_array_equal(cloud.points, SQUARE)
    np.testing.assert_allclose(cloud.weights, [0.1, 0.1, 0.3, 0.5])


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("x,y\n1,2\n3,nan\n5,6\n,8\n", {}, ["2 row(s): 1, 3"]),
        ("x,y\n1,2\n3\n", {}, ["line 3", "1 values, expected 2"]),
        ("x,y\n1,2\n3,four\n", {}, ["line 3", "column 'y'", "'four'"]),
        ("1 2\n3 four\n", {}, ["line 2", "column 1", "'four'"]),
        ("x,y\n", {}, ["header and no rows"]),
        ("\n\n", {}, ["no rows"]),
        ("x,y\n1,2\n", {"weight_column": "mass"}, ["no weight column 'mass'", "x, y"]),
        ("1,2\n", {"weight_column": 2}, ["no weight column 2", "0 to 1"]),
        ("x,w\n1,-1\n2,2\n", {"weight_column": "w"}, ["negative", "row(s) 0"]),
        ("x,w\n1,0\n2,0\n", {"weight_column": "w"}, ["all zero"]),
        (",".join("1" * 30) + "\n", {}, ["1 points in 30 dimensions", "transpose"]),
    ],
)
def test_bad_input_tables(tmp_path, text, options, words):
    path = tmp_path / "a.csv"
    path.write_text(text)
    message = refusal(path, **options)
    for word in words:
        assert word in message


@pytest.mark.parametrize("suffix", ["csv", "txt", "xyz", "npy", "npz", "ply", "stl", "obj", "off"])
@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 20, b"\x93NUMPY\x01\x00"])
def test_bad_input_empty_and_binary_files(tmp_path, suffix, content):
    path = tmp_path / f"junk.{suffix}"
    path.write_bytes(content)
    refusal(path)


def test_bad_input_a_broken_vtk_file(tmp_path):
    path = tmp_path / "junk.vtk"
    path.write_bytes(bytes(range(256)) * 20)
    refusal(path)


def test_bad_input_paths_and_arguments(tmp_path):
    assert "does not exist" in refusal(tmp_path / "no.csv")
    assert "is a directory" in refusal(tmp_path)
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"x")
    assert ".npy" in refusal(photo)
    square = tmp_path / "a.npy"
    np.save(square, SQUARE)
    assert "weight_column applies to tables" in refusal(square, weight_column="w")
    with pytest.raises(InputError, match="n_points=0"):
        read_points(square, n_points=0)
    assert "all 4 points (9 were asked for)" in read_points(square, n_points=9).note
    with pytest.raises(InputError, match="sample='volume'"):
        read_points(square, sample="volume")


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int16, np.float16, np.float32, np.float64])
def test_arrays_become_double_precision(tmp_path, dtype):
    path = tmp_path / "a.npy"
    np.save(path, SQUARE.astype(dtype))
    cloud = read_points(path)
    assert cloud.points.dtype == np.float64
    np.testing.assert_array_equal(cloud.points, SQUARE)


def test_archives_hold_points_and_weights(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, points=SQUARE, weights=[1, 1, 1, 5])
    np.testing.assert_allclose(read_points(path).weights, [0.125, 0.125, 0.125, 0.625])
    np.savez(path, anything=SQUARE)
    np.testing.assert_array_equal(read_points(path).points, SQUARE)
    np.savez(path, a=SQUARE, b=SQUARE)
    assert "arrays a, b, expected 'points'" in refusal(path)
    np.savez(path, points=SQUARE, weights=[1, 1])
    assert "(2,), expected (4,)" in refusal(path)


def test_bad_input_nothing_is_unpickled(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([{"run": "code"}], dtype=object), allow_pickle=True)
    assert "object arrays are refused" in refusal(path)


def test_subsamples_come_from_a_seed(tmp_path):
    path = tmp_path / "a.npz"
    points = np.random.default_rng(0).normal(size=(50, 3))
    np.savez(path, points=points, weights=np.arange(50.0))
    first, again, other = (read_points(path, n_points=10, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.points, again.points)
    assert not np.array_equal(first.points, other.points)
    np.testing.assert_allclose(first.weights.sum(), 1)
    assert "10 of 50 points, drawn with seed 1" in first.note


# --- meshes --------------------------------------------------------------------------------------


def test_surfaces_are_sampled_by_area(tmp_path):
    """A box of 1 x 1 x 8: two of its six sides hold 2 of its 34 units of area."""
    import trimesh

    path = tmp_path / "box.ply"
    trimesh.creation.box(extents=(1, 1, 8)).export(path)
    cloud = read_points(path, n_points=4000, random_state=3)
    assert cloud.points.shape == (4000, 3)
    assert "4000 points drawn by area from 12 faces with seed 3" in cloud.note
    on_ends = np.isclose(np.abs(cloud.points[:, 2]), 4).mean()
    assert abs(on_ends - 2 / 34) < 5 * np.sqrt(2 / 34 / 4000)
    np.testing.assert_array_equal(
        cloud.points, read_points(path, n_points=4000, random_state=3).points
    )


@pytest.mark.parametrize("suffix", ["ply", "obj", "stl", "off"])
def test_mesh_formats(tmp_path, suffix):
    import trimesh

    path = tmp_path / f"ball.{suffix}"
    trimesh.creation.icosphere(subdivisions=2, radius=3).export(path)
    cloud = read_points(path)
    assert cloud.points.shape == (500, 3)
    np.testing.assert_allclose(np.linalg.norm(cloud.points, axis=1), 3, atol=0.15)


def test_vtk_meshes_with_triangles_and_quads(tmp_path):
    import meshio

    corners = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [3, 0, 0]], float)
    mesh = meshio.Mesh(corners, [("quad", [[0, 1, 2, 3]]), ("triangle", [[1, 4, 2]])])
    path = tmp_path / "sheet.vtk"
    meshio.write(path, mesh)
    cloud = read_points(path, n_points=3000)
    # area 2 in the rectangle and 1/2 in the triangle beyond x = 2
    assert abs((cloud.points[:, 0] > 2).mean() - 0.2) < 0.04
    np.testing.assert_array_equal(read_points(path, sample="vertices").points, corners)


def test_vertices_can_stand_for_the_mesh(tmp_path):
    path = tmp_path / "tetrahedron.off"
    path.write_text(TETRAHEDRON)
    cloud = read_points(path, sample="vertices")
    assert sorted(cloud.points.tolist()) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_a_mesh_file_with_no_faces_is_a_point_cloud(tmp_path):
    path = tmp_path / "scan.ply"
    path.write_text(POINTS_ONLY_PLY)
    cloud, plain = read_points(path), read_points(path, sample="vertices")
    np.testing.assert_array_equal(cloud.points, plain.points)
    assert cloud.note == (
        "scan.ply: all 3 vertices; the file has no faces and is read as a point cloud"
    )
    two = read_points(path, n_points=2)
    assert two.points.shape == (2, 3)
    assert two.note.startswith("scan.ply: 2 of 3 points, drawn with seed 0; the file has no faces")


def test_bad_input_a_flat_mesh_without_area(tmp_path):
    path = tmp_path / "line.off"
    path.write_text("OFF\n3 1 3\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    assert "area 0" in refusal(path)


def test_bad_input_a_mesh_without_vertices(tmp_path):
    path = tmp_path / "empty.ply"
    path.write_text("ply\nformat ascii 1.0\nelement vertex 0\nend_header\n")
    refusal(path)


def test_missing_extras_say_how_to_get_them(tmp_path, monkeypatch):
    path = tmp_path / "tetrahedron.off"
    path.write_text(TETRAHEDRON)
    spots = tmp_path / "slice.h5ad"
    spots.write_bytes(b"anything")
    grid = tmp_path / "grid.vtk"
    grid.write_bytes(b"anything")
    for package, file in (("trimesh", path), ("h5py", spots), ("meshio", grid)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtra, match=r"pip install 'practicum\[meshes\]'"):
            read_points(file)


def test_anndata(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "slice.h5ad"
    with h5py.File(path, "w") as file:
        file["obsm/spatial"] = SQUARE
    np.testing.assert_array_equal(read_points(path).points, SQUARE)
    with h5py.File(path, "w") as file:
        file["obsm/X_pca"] = SQUARE
    assert "no obsm['spatial'] (obsm holds X_pca)" in refusal(path)
    path.write_bytes(b"not HDF5")
    assert "HDF5" in refusal(path)


# --- collections ---------------------------------------------------------------------------------


def test_directories_are_read_in_order_with_folders_as_labels(tmp_path):
    for name in ("cat/2.npy", "cat/1.npy", "dog/a.csv", ".hidden/b.csv", "notes.md"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        if name.endswith("npy"):
            np.save(file, SQUARE)
        else:
            file.write_text("0,0\n1,1\n")
    clouds = read_clouds(tmp_path)
    assert [(c.name, c.label) for c in clouds] == [
        ("1.npy", "cat"),
        ("2.npy", "cat"),
        ("a.csv", "dog"),
    ]
    assert all(isinstance(c, PointCloud) for c in clouds)


def test_lists_of_files_keep_their_order(tmp_path):
    for name in "ba":
        np.save(tmp_path / f"{name}.npy", SQUARE)
    names = [c.name for c in read_clouds([tmp_path / "b.npy", str(tmp_path / "a.npy")])]
    assert names == ["b.npy", "a.npy"]


def test_bad_input_collections(tmp_path):
    with pytest.raises(InputError, match="no point clouds in"):
        read_clouds(tmp_path)
    with pytest.raises(InputError, match="an empty list"):
        read_clouds([])
    with pytest.raises(InputError, match="is not a directory"):
        read_clouds(tmp_path / "gone")
    np.save(tmp_path / "a.npy", SQUARE)
    np.save(tmp_path / "b.npy", np.ones((4, 3)))
    with pytest.raises(InputError, match=r"b.npy has 3 coordinates .*a.npy has 2"):
        read_clouds(tmp_path)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["csv", "txt", "xyz", "npy", "npz", "ply"])
def test_what_is_written_is_read_back(tmp_path, suffix, d):
    points = np.random.default_rng(0).normal(size=(7, d))
    path = tmp_path / f"a.{suffix}"
    if suffix == "ply" and d == 1:
        with pytest.raises(InputError, match=r"clouds of 1 coordinates .* \.ply"):
            write_points(path, points)
        return
    write_points(path, points)
    back = read_points(path, sample="vertices").points
    np.testing.assert_allclose(back[:, :d], points, atol=1e-8)


def test_weights_are_written_where_the_format_holds_them(tmp_path):
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    write_points(tmp_path / "a.csv", SQUARE, weights)
    cloud = read_points(tmp_path / "a.csv", weight_column="weight")
    np.testing.assert_allclose(cloud.weights, weights)
    write_points(tmp_path / "a.npz", SQUARE, weights)
    np.testing.assert_allclose(read_points(tmp_path / "a.npz").weights, weights)


def test_bad_input_unknown_formats_are_not_written(tmp_path):
    with pytest.raises(InputError, match=r"\.doc"):
        write_points(tmp_path / "a.doc", SQUARE)
