"""``practicum use procrustes-wasserstein``: what is printed, written and refused."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from practicum.data.points import read_points, write_points
from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein import procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.command import _turn, app

CORNER = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 0.5]])
QUARTER = np.array([[0.0, 1.0], [-1.0, 0.0]])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for i, shape in enumerate([CORNER, CORNER @ QUARTER + 3, 2 * CORNER, rng.normal(size=(6, 2))]):
        write_points(tmp_path / f"{i}.csv", shape)
    return tmp_path


def use(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_distance_of_a_turned_copy(folder, tmp_path):
    laid = tmp_path / "laid.csv"
    said = use("distance", folder / "0.csv", folder / "1.csv", "--out", laid)
    assert "a turn by -90.0 degrees" in said
    assert "Certified: no pose brings the distance below 0." in said
    np.testing.assert_allclose(read_points(laid).points, CORNER, atol=1e-6)


def test_distance_of_a_copy_of_another_size(folder):
    assert "0 (" not in use("distance", folder / "0.csv", folder / "2.csv")
    said = use("distance", folder / "0.csv", folder / "2.csv", "--scale", "--init", "global")
    value = float(said.split("2.csv: ")[1].split(" ")[0])
    assert value < 1e-6
    assert "in root-mean-square radii" in said


def test_distance_draws_a_figure(folder, tmp_path):
    page = tmp_path / "fit.html"
    use("distance", folder / "0.csv", folder / "3.csv", "--plot", page)
    assert page.stat().st_size > 10_000


def test_barycenter_of_a_folder(folder, tmp_path):
    use("barycenter", folder, "--support", 3, "--out", tmp_path / "three.npy")
    assert np.load(tmp_path / "three.npy").shape == (3, 2)
    mean, page = tmp_path / "mean.ply", tmp_path / "fit.html"
    said = use("barycenter", folder / "0.csv", folder / "1.csv", "--out", mean, "--plot", page)
    assert "Barycenter of 2 clouds with 4 points" in said
    assert read_points(mean, sample="vertices").points.shape == (4, 3)
    assert page.exists()


def test_a_barycenter_as_mesh_file_can_be_compared(folder, tmp_path):
    """The help's own example: a PLY file of vertices is a cloud, not a mesh without a surface."""
    mean, other = tmp_path / "mean.ply", tmp_path / "x.xyz"
    use("barycenter", folder / "0.csv", folder / "1.csv", "--out", mean)
    write_points(other, np.column_stack([CORNER, np.zeros(4)]))
    said = use("distance", mean, other)
    assert "mean.ply: all 4 vertices; the file has no faces and is read as a point cloud." in said
    assert "PW distance of mean.ply and x.xyz" in said


def test_a_barycenter_at_one_size(folder, tmp_path):
    """0.csv and 2.csv are one shape at two sizes: their mean at radius 1 is that shape."""
    mean = tmp_path / "mean.csv"
    said = use("barycenter", folder / "0.csv", folder / "2.csv", "--scale", "--out", mean)
    assert "Every cloud was divided by its radius" in said
    points = read_points(mean).points
    assert np.sqrt((points**2).sum(axis=1).mean()) == pytest.approx(1)
    (tmp_path / "dot.csv").write_text("x,y\n1,2\n1,2\n")
    with pytest.raises(InputError, match=r"dot\.csv has radius 0.*--scale"):
        use("barycenter", folder / "0.csv", tmp_path / "dot.csv", "--scale", "--out", mean)


def test_errors_speak_of_options(folder, tmp_path):
    flat = tmp_path / "flat.off"
    flat.write_text("OFF\n3 1 3\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    with pytest.raises(InputError) as caught:
        use("distance", flat, flat)
    assert caught.value.hint == "read its vertices: --vertices"
    np.save(tmp_path / "four.npy", np.random.default_rng(0).normal(size=(6, 4)))
    four = tmp_path / "four.npy"
    with pytest.raises(InputError, match="--init global certifies") as caught:
        use("distance", four, four, "--init", "global")
    assert caught.value.hint == "use --init auto --effort 2"
    with pytest.raises(InputError, match="--weights applies to tables"):
        use("distance", four, four, "--weights", "mass")


def test_a_long_matrix_tells_how_far_it_is(folder, tmp_path, monkeypatch):
    words = ["matrix", *map(str, folder.glob("*.csv")), "--out", str(tmp_path / "D.csv")]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr) == (0, "")
    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    assert CliRunner().invoke(app, words).stderr == "6 of 6 pairs of clouds\n"


def test_matrix_of_a_folder(folder, tmp_path):
    out = tmp_path / "D" / "distances.csv"
    said = use("matrix", folder, "--out", out)
    assert "4 clouds, 6 distances" in said
    assert "Nearest: 0.csv and 1.csv" in said
    table = pd.read_csv(out, index_col="cloud")
    assert list(table) == ["0.csv", "1.csv", "2.csv", "3.csv"]
    np.testing.assert_allclose(table, table.T)
    expected = np.sqrt(((CORNER - CORNER.mean(axis=0)) ** 2).sum(axis=1).mean())
    np.testing.assert_allclose(table.loc["0.csv", "2.csv"], expected, rtol=1e-4)


def test_meshes_are_sampled_and_that_is_said(tmp_path):
    import trimesh

    for name, extents in (("a", (1, 2, 4)), ("b", (1, 2, 5))):
        trimesh.creation.box(extents=extents).export(tmp_path / f"{name}.ply")
    arguments = ("distance", tmp_path / "a.ply", tmp_path / "b.ply", "--points", 50)
    said = use(*arguments)
    assert "a.ply: 50 points drawn by area from 12 faces with seed 0." in said
    assert "--group SO" in said
    assert "Reflections were allowed" not in use(*arguments, "--group", "SO")


def test_bad_input_comes_back_as_one_error(folder, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        use("distance", folder / "0.csv", folder / "gone.csv")
    with pytest.raises(InputError, match="at least two are needed"):
        use("barycenter", folder / "0.csv")
    write_points(tmp_path / "space.csv", np.eye(3))
    with pytest.raises(InputError, match=r"0\.csv has 2 coordinates.*space\.csv has 3"):
        use("distance", folder / "0.csv", tmp_path / "space.csv")
    before = sorted(folder.iterdir())
    with pytest.raises(InputError, match="cannot be written as"):
        use("distance", folder / "0.csv", folder / "1.csv", "--out", folder / "laid.doc")
    assert sorted(folder.iterdir()) == before, "half a file was left behind"


@pytest.mark.parametrize(
    ("P", "words"),
    [
        (np.eye(2), "a turn by 0.0 degrees"),
        (QUARTER, "a turn by 90.0 degrees"),
        (np.diag([1.0, -1.0]), "a reflection in the line at 0.0 degrees"),
        (np.diag([-1.0, 1.0]), "a reflection in the line at 90.0 degrees"),
        (np.eye(3), "no turn"),
        (-np.eye(3), "no turn and a reflection in the origin"),
        (np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1.0]]), "a turn by 90.0 degrees about (0, 0, 1)"),
    ],
)
def test_turns_in_words(P, words):
    rng = np.random.default_rng(1)
    X = rng.exponential(size=(20, len(P))) * np.arange(len(P), 0, -1)
    # rows are turned by P: (1, 0) goes to (0, 1) under QUARTER
    assert _turn(procrustes_wasserstein(X, X @ P.T, init="global")) == words


def test_clouds_of_different_dimension_are_named_by_their_files(practicum, tmp_path):
    (tmp_path / "flat.csv").write_text("x,y\n1,2\n3,4\n5,7\n")
    (tmp_path / "solid.csv").write_text("x,y,z\n1,2,3\n3,4,1\n5,7,2\n")
    done = practicum("use", "procrustes-wasserstein", "distance", "flat.csv", "solid.csv", code=2)
    assert "flat.csv has 2 coordinates per point, solid.csv has 3" in done.stderr
