"""The shapes that ship inside packages: what is there, and what is said when it is not."""

import importlib.util
import sys

import numpy as np
import pytest

from practicum.data import shapes
from practicum.errors import InputError, MissingExtra


def test_cells():
    cells = shapes.cells()
    assert len(cells.clouds) == 650
    sizes = [len(c.points) for c in cells.clouds]
    assert (min(sizes), int(np.median(sizes)), max(sizes)) == (20, 240, 1759)
    assert np.unique(cells.labels["line"], return_counts=True)[1].tolist() == [258, 392]
    assert set(cells.labels["treatment"]) == {"control", "cytd", "jasp"}
    assert cells.clouds[3].label == cells.labels["treatment"][3]


def test_cells_can_be_resampled_and_filtered():
    cells = shapes.cells(n_points=50, min_points=240)
    assert 300 < len(cells.clouds) < 350
    assert {c.points.shape for c in cells.clouds} == {(50, 2)}
    assert len(cells.labels["line"]) == len(cells.clouds)


def test_outlines_are_resampled_evenly():
    rectangle = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 1.0], [0.0, 1.0]])
    points = shapes.resample_outline(rectangle, 16)
    np.testing.assert_allclose(
        points[:9],
        [[0, 0], [0.5, 0], [1, 0], [1.5, 0], [2, 0], [2.5, 0], [3, 0], [3, 0.5], [3, 1]],
    )
    with pytest.raises(InputError, match="length zero"):
        shapes.resample_outline(np.ones((3, 2)), 5)


def test_hands_are_all_53_of_the_file():
    hands = shapes.hands()
    assert len(hands.clouds) == 53
    assert {c.points.shape for c in hands.clouds} == {(22, 3)}
    assert set(hands.labels["pose"]) == {"grab", "expand"}


@pytest.mark.parametrize("name", shapes.MESHES)
def test_meshes_are_sampled_from_a_seed(name):
    first, again = (shapes.mesh(name, 60, random_state=1) for _ in range(2))
    assert first.points.shape == (60, 3)
    np.testing.assert_array_equal(first.points, again.points)
    assert not np.array_equal(first.points, shapes.mesh(name, 60, random_state=2).points)


def test_digits():
    drawn = shapes.digits((0, 1, 4), per_class=5, random_state=2)
    assert list(drawn.labels["digit"]) == ["0"] * 5 + ["1"] * 5 + ["4"] * 5
    for cloud in drawn.clouds:
        assert cloud.points.shape[1] == 2
        assert ((cloud.points >= 0) & (cloud.points <= 7)).all()
    assert len(shapes.digits().clouds) == 1797


def test_a_one_stands_upright():
    heights = [np.ptp(c.points[:, 1]) for c in shapes.digits((1,)).clouds]
    widths = [np.ptp(c.points[:, 0]) for c in shapes.digits((1,)).clouds]
    assert np.median(heights) > np.median(widths)


def test_bad_input_names():
    with pytest.raises(InputError, match="choose from airplane, ant, nut"):
        shapes.mesh("teapot")
    with pytest.raises(InputError, match="no digit 12"):
        shapes.digits((12,))


@pytest.mark.parametrize(
    ("package", "reader"),
    [
        ("geomstats", shapes.cells),
        ("geomstats", shapes.hands),
        ("pyvista", lambda: shapes.mesh("ant")),
    ],
)
def test_missing_packages_are_named_with_the_command(monkeypatch, package, reader):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == package else find(name, *a)
    )
    with pytest.raises(MissingExtra) as caught:
        reader()
    assert package in caught.value.message
    assert caught.value.hint == "pip install --no-deps geomstats pyvista"


def test_neither_package_is_imported():
    shapes.cells(n_points=20)
    shapes.mesh("ant", 10)
    assert "geomstats" not in sys.modules
    assert "pyvista" not in sys.modules
