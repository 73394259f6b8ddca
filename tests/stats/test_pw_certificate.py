"""The certified global search against brute force, and the bounds it rests on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from practicum.data import shapes
from practicum.stats.procrustes_wasserstein import certificate, procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.initialisations import planar_rotation, random
from practicum.stats.procrustes_wasserstein.measures import as_measure
from practicum.stats.procrustes_wasserstein.transport import Transport


def rng(seed=0):
    return np.random.default_rng(seed)


def cloud(n, d, seed):
    return rng(seed).exponential(size=(n, d)) * np.arange(d, 0, -1)


def correlation(transport, P):
    return float(np.sum(P * transport.cross(transport.plan(P))))


def search(transport, group, d, relative_gap=1e-3, evaluations=1500):
    return certificate.global_optimum(
        transport, group, relative_gap=relative_gap, max_evaluations=evaluations,
        start=np.eye(d)[None],
    )  # fmt: skip


@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize("sizes", [(12, 12), (9, 14)])
@pytest.mark.parametrize("seed", range(3))
def test_planar_upper_bound_holds_on_a_fine_grid_and_is_tight(group, sizes, seed):
    x, y = (as_measure(cloud(n, 2, seed + 10 * k)) for k, n in enumerate(sizes))
    transport = Transport(x, y)
    optimum = search(transport, group, 2)
    mirrors = [np.eye(2)] if group == "SO" else [np.eye(2), np.diag([1.0, -1.0])]
    grid = [
        correlation(transport, mirror @ planar_rotation(angle))
        for mirror in mirrors
        for angle in np.linspace(0, 2 * np.pi, 721)
    ]
    assert max(grid) <= optimum.upper
    best = correlation(transport, optimum.candidates[0])
    assert best <= optimum.upper
    squared = x.moment + y.moment - 2 * best
    assert 2 * (optimum.upper - best) <= 1e-3 * squared + 1e-9


@pytest.mark.parametrize("budget", [20, 40])
def test_a_search_cut_short_still_bounds(budget):
    transport = Transport(as_measure(cloud(15, 2, 0)), as_measure(cloud(15, 2, 7)))
    short = search(transport, "O", 2, relative_gap=0.0, evaluations=budget)
    full = search(transport, "O", 2, relative_gap=0.0, evaluations=100_000)
    assert short.upper >= full.upper - 1e-9
    assert full.evaluations < 2000, "a polygon has finitely many vertices"
    best = correlation(transport, full.candidates[0])
    assert full.upper - best < 1e-9 * (transport.x.moment + transport.y.moment)


@given(
    left=st.floats(0.1, 3),
    right=st.floats(0.1, 3),
    width=st.floats(0.05, np.pi / 4),
    share=st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_arc_bound_is_the_largest_support_that_fits(left, right, width, share):
    """h(u) <= l1 h(u1) + l2 h(u2) for u = l1 u1 + l2 u2 with l1, l2 >= 0 (sublinearity)."""
    angle = share * width
    l1, l2 = np.sin(width - angle) / np.sin(width), np.sin(angle) / np.sin(width)
    bound, where = certificate._arc_bound(
        certificate._Ray(0.0, left), certificate._Ray(width, right)
    )
    assert l1 * left + l2 * right <= bound * (1 + 1e-9)
    assert 0 < where < width


def test_equal_ends_give_the_cover_bound_of_the_card():
    bound, _ = certificate._arc_bound(certificate._Ray(0.0, 1.0), certificate._Ray(0.4, 1.0))
    assert bound == pytest.approx(1 / np.cos(0.2))


@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize("seed", range(2))
def test_near_the_optimum_the_correlation_keeps_its_guaranteed_share(group, seed):
    """h(P) >= factor(delta) h*: the inequality behind the spatial search."""
    x, y = as_measure(cloud(10, 3, seed)), as_measure(cloud(10, 3, seed + 50) * [1, 1, -1])
    transport = Transport(x, y)
    result = procrustes_wasserstein(x, y, group=group, effort=2)
    best = 0.5 * (x.moment + y.moment - result.squared)
    for delta in (0.1, 0.3, 0.8):
        share = certificate._cell_factor(delta, group)
        for axis in rng(seed).normal(size=(40, 3)):
            turn = Rotation.from_rotvec(delta * axis / np.linalg.norm(axis)).as_matrix()
            assert correlation(transport, result.P @ turn) >= share * best - 1e-9


def test_the_bound_for_rotations_alone_is_attained():
    """S = diag(1, 1, -1): turning about the third axis loses 2 (1 - cos delta), not 1 - cos."""
    S, delta = np.diag([1.0, 1.0, -1.0]), 0.7
    turn = Rotation.from_rotvec([0, 0, delta]).as_matrix()
    assert np.sum(turn * S) == pytest.approx(certificate._cell_factor(delta, "SO") * np.trace(S))


def test_cells_cover_all_rotations():
    half_width = np.pi / 8
    centres = certificate._cube_centres(8, half_width)
    for turn in Rotation.random(300, rng=rng(1)):
        vector = turn.as_rotvec()
        nearest = centres[np.abs(centres - vector).max(axis=1).argmin()]
        assert np.abs(nearest - vector).max() <= half_width + 1e-12
        angle = (turn * Rotation.from_rotvec(nearest).inv()).magnitude()
        assert angle <= np.sqrt(3) * half_width + 1e-12


@pytest.mark.parametrize("group", ["O", "SO"])
def test_spatial_certificate_against_many_starts(group):
    x, y = as_measure(cloud(8, 3, 1)), as_measure(cloud(8, 3, 2))
    transport = Transport(x, y)
    optimum = search(transport, group, 3)
    assert max(correlation(transport, P) for P in random(transport, group, 300)) <= optimum.upper
    many = procrustes_wasserstein(x, y, init="random", n_starts=200, group=group)
    result = procrustes_wasserstein(x, y, init="global", group=group)
    assert result.squared <= many.squared + 1e-9
    assert result.squared - result.gap <= many.squared


def test_spatial_gap_shrinks_with_effort():
    x, y = as_measure(cloud(6, 3, 1)), as_measure(cloud(6, 3, 2))
    transport = Transport(x, y)
    gaps = [search(transport, "O", 3, relative_gap=0.0, evaluations=n).upper for n in (800, 6000)]
    assert gaps[1] < gaps[0]


def test_result_carries_the_gap_in_squared_units():
    outlines = shapes.cells(n_points=60).clouds
    a, b = (outlines[i].points for i in (3, 200))
    result = procrustes_wasserstein(a, b, init="global")
    local = procrustes_wasserstein(a, b)
    assert 0 <= result.gap <= 1.01e-3 * result.squared
    assert result.squared <= local.squared * (1 + 1e-9)
    assert local.squared >= result.squared - result.gap
    assert local.gap is None
    assert any("certified" in note for note in result.notes)


def test_planar_effort_is_certified_too():
    outlines = shapes.cells(n_points=40).clouds
    result = procrustes_wasserstein(outlines[3].points, outlines[90].points, effort=1)
    assert result.init == "auto"
    assert result.gap <= 1.01e-4 * result.squared


def test_on_the_line_there_is_no_gap():
    x, y = rng(0).normal(size=(9, 1)), rng(1).exponential(size=(9, 1))
    assert procrustes_wasserstein(x, y, init="global").gap == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("index", [3, 40, 200, 411, 600])
def test_auto_leaves_the_local_optima_of_outlines(index):
    """Shifting an outline by one point is a local optimum; a noisy copy must still be found."""
    X = shapes.cells(n_points=90).clouds[index].points
    X = (X - X.mean(axis=0)) / np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    Y = rng(index).permutation(X + 0.03 * rng(index).normal(size=X.shape))
    Y = Y @ planar_rotation(1.0 + index)
    certified = procrustes_wasserstein(X, Y, init="global")
    assert procrustes_wasserstein(X, Y).squared <= 1.001 * certified.squared


def test_the_neighbourhood_search_finds_the_best_nearby():
    x, y = as_measure(cloud(30, 2, 0)), as_measure(cloud(30, 2, 7))
    transport = Transport(x, y)
    P = planar_rotation(0.4)
    nearby = certificate.planar_neighbourhood(transport, P, half_width=0.2, max_evaluations=500)
    grid = [correlation(transport, P @ planar_rotation(t)) for t in np.linspace(-0.2, 0.2, 200)]
    assert max(grid) <= nearby.upper
    assert correlation(transport, nearby.candidates[0]) >= max(grid) - 1e-3
