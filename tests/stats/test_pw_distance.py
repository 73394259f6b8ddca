"""The anchors of the Procrustes-Wasserstein distance: closed forms, limits, peers."""

from itertools import permutations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.data import shapes
from practicum.stats.procrustes_wasserstein import procrustes_wasserstein
from practicum.stats.procrustes_wasserstein.distance import alternate
from practicum.stats.procrustes_wasserstein.measures import as_measure, equal_mass_blocks
from practicum.stats.procrustes_wasserstein.transport import Transport, procrustes


def rng(seed=0):
    return np.random.default_rng(seed)


def orthogonal(d, seed=0, det=None):
    q, r = np.linalg.qr(rng(seed).normal(size=(d, d)))
    q = q * np.sign(np.diag(r))
    if det is not None and np.sign(np.linalg.det(q)) != det:
        q[:, 0] *= -1
    return q


def scalene(n, d, seed=0):
    """A cloud without symmetry: exponential coordinates of different scale."""
    return rng(seed).exponential(size=(n, d)) * np.arange(d, 0, -1) ** 1.5


def polygon(n, radius=1.0, angle=0.0):
    t = angle + 2 * np.pi * np.arange(n) / n
    return radius * np.stack([np.cos(t), np.sin(t)], axis=1)


def kabsch(X, Y, group):
    """Best squared distance over all matchings and the whole group, by brute force (n <= 6)."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    best = np.inf
    for order in permutations(range(len(Y))):
        U, S, Vt = np.linalg.svd(Y[list(order)].T @ X)
        if group == "SO" and np.linalg.det(U @ Vt) < 0:
            S[-1] *= -1
        best = min(best, ((X**2).sum() + (Y**2).sum() - 2 * S.sum()) / len(X))
    return best


# --- anchors of the paper's card -----------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("det", [1, -1])
def test_anchor_1_rotated_permuted_copy(d, det):
    X = scalene(60, d)
    Q = orthogonal(d, seed=d, det=det)
    order = rng(1).permutation(60)
    result = procrustes_wasserstein(X, (X @ Q)[order] + 3.0)
    assert result.squared < 1e-12
    np.testing.assert_allclose(result.P, Q.T, atol=1e-7)
    np.testing.assert_allclose(result.transform((X @ Q)[order] + 3.0), X[order], atol=1e-7)
    assert result.reflected == (det < 0)


@pytest.mark.parametrize("shape", ["cell", "airplane", "ant", "nut", "hand"])
def test_anchor_1_on_real_shapes_in_their_own_units(shape):
    if shape == "cell":
        X = shapes.cells().clouds[7].points
    elif shape == "hand":
        X = shapes.hands().clouds[0].points
    else:
        X = shapes.mesh(shape, 150).points
    X = X - X.mean(axis=0)
    X = X / np.sqrt((X**2).sum(axis=1).mean())
    Q = orthogonal(X.shape[1], seed=3, det=-1)
    Y = (X @ Q)[rng(2).permutation(len(X))]
    assert procrustes_wasserstein(X, Y).squared < 1e-12


@given(
    n=st.integers(2, 30),
    m=st.integers(2, 30),
    seed=st.integers(0, 10**6),
    group=st.sampled_from(["O", "SO"]),
)
@settings(max_examples=30, deadline=None)
def test_anchor_2_on_the_line_it_is_the_better_of_two_sorted_matches(n, m, seed, group):
    x, y = rng(seed).normal(size=n), rng(seed + 1).exponential(size=m)
    x, y = x - x.mean(), y - y.mean()
    same, mirrored = (ot.emd2_1d(x, s * y, metric="sqeuclidean") for s in (1, -1))
    expected = min(same, mirrored) if group == "O" else same
    result = procrustes_wasserstein(x[:, None], y[:, None], group=group)
    np.testing.assert_allclose(result.squared, expected, atol=1e-9)


@given(
    d=st.integers(2, 3),
    a=st.floats(0.5, 5),
    b=st.floats(0.5, 5),
    seed=st.integers(0, 10**6),
    group=st.sampled_from(["O", "SO"]),
)
@settings(max_examples=40, deadline=None)
def test_anchor_3_dumbbells(d, a, b, seed, group):
    u, v = (orthogonal(d, seed + k)[0] for k in (0, 1))
    result = procrustes_wasserstein(
        np.array([a * u, -a * u]), np.array([b * v, -b * v]), group=group
    )
    np.testing.assert_allclose(result.distance, abs(a - b), atol=1e-7)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 12, 40])
@pytest.mark.parametrize("init", ["auto", "global"])
def test_anchor_4_regular_polygons(n, init):
    result = procrustes_wasserstein(polygon(n, 2.0), polygon(n, 0.7, angle=0.9), init=init)
    np.testing.assert_allclose(result.distance, 1.3, atol=1e-6)


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 3.0])
def test_anchor_5_scaling(c):
    X = scalene(40, 3)
    p = rng(4).dirichlet(np.ones(40))
    X = X - p @ X
    expected = abs(c - 1) * np.sqrt(p @ (X**2).sum(axis=1))
    result = procrustes_wasserstein(X, c * X @ orthogonal(3), p, p)
    np.testing.assert_allclose(result.distance, expected, atol=1e-6)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_anchor_6_without_reflections_the_distance_cannot_shrink(d, seed):
    X, Y = scalene(5, d, seed), scalene(5, d, seed + 100)
    both, proper = (
        procrustes_wasserstein(X, Y, init="global", group=g, effort=0 if d == 3 else 2)
        for g in ("O", "SO")
    )
    assert proper.squared >= both.squared - 1e-9
    np.testing.assert_allclose(both.squared, kabsch(X, Y, "O"), atol=1e-9)
    np.testing.assert_allclose(proper.squared, kabsch(X, Y, "SO"), atol=1e-9)
    assert np.linalg.det(proper.P) > 0


def test_anchor_6_a_mirror_symmetric_shape_needs_no_reflection():
    half = scalene(20, 2)
    X = np.concatenate([half, half * [1.0, -1.0]])
    Y = scalene(40, 2, seed=5)
    values = [procrustes_wasserstein(X, Y, init="global", group=g).squared for g in ("O", "SO")]
    # the global search certifies a relative gap of 1e-3
    np.testing.assert_allclose(values[0], values[1], rtol=2e-3)


def test_anchor_6_a_scalene_triangle_and_its_mirror_image():
    triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    mirrored = triangle * [1.0, -1.0]
    assert procrustes_wasserstein(triangle, mirrored).squared < 1e-12
    proper = procrustes_wasserstein(triangle, mirrored, group="SO")
    np.testing.assert_allclose(proper.squared, kabsch(triangle, mirrored, "SO"), rtol=1e-9)
    assert proper.squared > 0.009


@given(n=st.integers(4, 20), m=st.integers(4, 20), d=st.integers(1, 4), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_anchor_7_bounds(n, m, d, seed):
    X, Y = scalene(n, d, seed), scalene(m, d, seed + 1)
    p, q = rng(seed).dirichlet(np.ones(n)), rng(seed + 2).dirichlet(np.ones(m))
    result = procrustes_wasserstein(X, Y, p, q)
    X, Y = X - p @ X, Y - q @ Y
    rx, ry = (np.sqrt(w @ (Z**2).sum(axis=1)) for w, Z in ((p, X), (q, Y)))
    assert result.distance >= abs(rx - ry) - 1e-9
    identity = procrustes_wasserstein(X, Y, p, q, init="identity")
    assert identity.squared <= ot.emd2(p, q, ot.dist(X, Y)) + 1e-9


@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize("init", ["auto", "pca", "gw", "fiedler", "identity", "random"])
@pytest.mark.parametrize("weighted", [False, True])
def test_anchor_8_the_result_is_consistent(init, group, weighted):
    n, m = (40, 55) if weighted else (40, 40)
    X, Y = scalene(n, 3), scalene(m, 3, seed=1)
    p = rng(2).dirichlet(np.ones(n)) if weighted else np.full(n, 1 / n)
    q = rng(3).dirichlet(np.ones(m)) if weighted else np.full(m, 1 / m)
    result = procrustes_wasserstein(X, Y, p, q, init=init, group=group)
    Xc, Yc = X - p @ X, Y - q @ Y
    cross = Yc.T @ result.plan.T.toarray() @ Xc
    best = procrustes(cross, group)[1].sum()
    total = p @ (Xc**2).sum(axis=1) + q @ (Yc**2).sum(axis=1)
    np.testing.assert_allclose(result.squared, total - 2 * best, atol=1e-10 * total)
    if group == "O":
        assert best == pytest.approx(np.linalg.norm(cross, "nuc"))
    else:
        assert np.linalg.det(result.P) == pytest.approx(1.0)
    assert (np.diff(result.history) <= 1e-12 * total).all()
    assert result.history[-1] == result.squared == pytest.approx(result.distance**2)
    np.testing.assert_allclose(result.plan.sum(axis=1).A1, p, atol=1e-9)
    np.testing.assert_allclose(result.plan.sum(axis=0).A1, q, atol=1e-9)
    assert result.plan.nnz <= n + m - 1
    np.testing.assert_allclose(result.P @ result.P.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(30, 30), (30, 47), (200, 200)])
def test_anchor_9_one_plan_from_the_identity_equals_pot(n, m):
    X, Y = scalene(n, 3), scalene(m, 3, seed=1)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    transport = Transport(as_measure(X), as_measure(Y))
    ours = transport.cost(transport.plan(np.eye(3)), np.eye(3))
    np.testing.assert_allclose(ours, ot.emd2([], [], ot.dist(X, Y)), rtol=1e-10)


def test_convention_P_multiplies_the_second_argument_from_the_right():
    """The official PCA start moves its first argument: the trap the card warns of."""
    X = scalene(50, 2)
    Q = orthogonal(2, seed=9, det=1)
    for init in ("pca", "auto", "global", "gw", "fiedler"):
        result = procrustes_wasserstein(X, X @ Q, init=init)
        np.testing.assert_allclose(result.P, Q.T, atol=1e-6, err_msg=init)
        assert np.abs(result.P - Q).max() > 0.1


# --- metric properties ---------------------------------------------------------------------------


@given(
    n=st.integers(2, 12),
    m=st.integers(2, 12),
    seed=st.integers(0, 10**6),
    group=st.sampled_from(["O", "SO"]),
)
@settings(max_examples=20, deadline=None)
def test_symmetric_and_invariant(n, m, seed, group):
    X, Y = scalene(n, 2, seed), scalene(m, 2, seed + 1)

    def pw(A, B):
        return procrustes_wasserstein(A, B, init="global", group=group, effort=2).squared

    Q = orthogonal(2, seed, det=1 if group == "SO" else None)
    value = pw(X, Y)
    slack = 2e-6 * (value + 1e-6)  # effort=2 certifies a relative gap of 1e-6
    assert abs(pw(Y, X) - value) <= slack
    assert abs(pw(X, rng(seed).permutation(Y @ Q) + 4.0) - value) <= slack


@given(sizes=st.tuples(*[st.integers(2, 10)] * 3), seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_triangle_inequality(sizes, seed):
    A, B, C = (scalene(n, 2, seed + k) for k, n in enumerate(sizes))

    def pw(X, Y):
        return procrustes_wasserstein(X, Y, init="global", effort=2).distance

    assert pw(A, C) <= (pw(A, B) + pw(B, C)) * (1 + 1e-5) + 1e-6


# --- options -------------------------------------------------------------------------------------


def test_scale_compares_shapes_of_different_size():
    X = scalene(40, 2)
    result = procrustes_wasserstein(X, 50 * X @ orthogonal(2) + 7, scale=True)
    assert result.distance < 1e-6
    np.testing.assert_allclose(result.scale, 1 / 50)
    np.testing.assert_allclose(result.transform(50 * X @ orthogonal(2) + 7), X, atol=1e-6)


def test_a_matrix_as_start_is_used_as_it_is():
    X = scalene(40, 2)
    Q = orthogonal(2, seed=1)
    result = procrustes_wasserstein(X, X @ Q, init=Q.T)
    assert result.squared < 1e-12
    assert result.init == "matrix"
    assert len(result.starts) == 1


def test_zero_weights_drop_points_and_leave_empty_rows():
    X = scalene(6, 2)
    p = np.array([0.25, 0.25, 0.0, 0.25, 0.25, 0.0])
    result = procrustes_wasserstein(X, X[[0, 1, 3, 4]], p)
    assert result.squared < 1e-12
    assert result.plan.shape == (6, 4)
    np.testing.assert_allclose(result.plan.sum(axis=1).A1, p)
    assert any("2 point(s) of X have weight 0" in note for note in result.notes)


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32])
def test_other_number_types_are_computed_in_double_precision(dtype):
    X = np.array([[0, 0], [4, 0], [0, 1]], dtype=dtype)
    result = procrustes_wasserstein(X, X[::-1])
    assert result.P.dtype == np.float64
    assert result.squared < 1e-12


def test_inputs_are_left_alone():
    X, Y = scalene(20, 2), scalene(30, 2, seed=1)
    p, q = np.full(20, 1 / 20) * (1 + 1e-9), np.full(30, 1 / 30)
    before = [a.copy() for a in (X, Y, p, q)]
    procrustes_wasserstein(X, Y, p, q)
    for a, b in zip((X, Y, p, q), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_seed_gives_the_same_result():
    X, Y = scalene(50, 4), scalene(50, 4, seed=1)
    first, second = (procrustes_wasserstein(X, Y, random_state=3) for _ in range(2))
    assert first.squared == second.squared
    np.testing.assert_array_equal(first.P, second.P)


@pytest.mark.parametrize("pair", [("ant", "airplane"), ("nut", "ant"), ("airplane", "nut")])
def test_more_effort_is_not_worse(pair):
    X, Y = (shapes.mesh(name, 80).points for name in pair)
    values = [procrustes_wasserstein(X, Y, scale=True, effort=e).squared for e in (0, 1)]
    assert values[1] <= values[0] * (1 + 1e-9)


def test_the_objective_is_accurate_for_large_and_for_small_coordinates():
    X = scalene(30, 2)
    base = procrustes_wasserstein(X, scalene(30, 2, seed=1))
    for unit in (1e-6, 1e6):
        result = procrustes_wasserstein(unit * X, unit * scalene(30, 2, seed=1))
        np.testing.assert_allclose(result.distance, unit * base.distance, rtol=1e-9)


# --- what the notes say --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "group", "degenerate"),
    [
        (np.zeros((1, 2)), "O", True),
        (np.ones((5, 2)), "O", True),
        (np.outer(np.arange(4.0) ** 2, [1.0, 2.0, 3.0]), "O", True),
        (np.outer(np.arange(4.0) ** 2, [1.0, 2.0, 3.0]), "SO", True),
        (np.outer(np.arange(4.0) ** 2, [1.0, 2.0]), "O", True),  # the mirror along the line
        (np.outer(np.arange(4.0) ** 2, [1.0, 2.0]), "SO", False),
        (scalene(6, 2), "O", False),
        (scalene(6, 3), "SO", False),
    ],
)
def test_degenerate_clouds_are_flagged(X, group, degenerate):
    result = procrustes_wasserstein(X, X, group=group)
    assert result.squared < 1e-12
    assert result.degenerate is degenerate
    assert any("not unique" in note for note in result.notes) is degenerate


@pytest.mark.parametrize("n", [3, 4, 6])
def test_symmetric_shapes_are_reported(n):
    result = procrustes_wasserstein(polygon(n), polygon(n, 2.0))
    assert result.ties
    assert any("symmetric" in note for note in result.notes)
    for P in result.ties:
        np.testing.assert_allclose(P @ P.T, np.eye(2), atol=1e-12)
    assert not procrustes_wasserstein(scalene(20, 2), scalene(20, 2)).ties


def test_a_reflection_is_pointed_out_where_it_is_used():
    X = scalene(20, 3)
    mirrored = X * [1, 1, -1]
    assert any("reflection" in n for n in procrustes_wasserstein(X, mirrored).notes)
    assert not any("reflection" in n for n in procrustes_wasserstein(X, X).notes)
    assert not any("reflection" in n for n in procrustes_wasserstein(X, mirrored, group="SO").notes)


# --- parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [96, 150, 300, 700])
@pytest.mark.parametrize("d", [2, 3])
def test_warm_started_assignments_stay_exact(n, d):
    x, y = as_measure(scalene(n, d)), as_measure(scalene(n, d, seed=1))
    transport = Transport(x, y)
    for seed in range(3):
        P = orthogonal(d, seed)
        value = transport.cost(transport.plan(P), P)
        np.testing.assert_allclose(
            value, ot.emd2([], [], ot.dist(x.points, y.points @ P)), rtol=1e-9
        )


@given(n=st.integers(1, 40), k=st.integers(1, 40), d=st.integers(1, 3), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_blocks_keep_the_mean_and_never_add_spread(n, k, d, seed):
    X, p = scalene(n, d, seed), rng(seed).dirichlet(np.ones(n))
    atoms = equal_mass_blocks(X, p, k)
    assert atoms.shape == (k, d)
    np.testing.assert_allclose(atoms.mean(axis=0), p @ X, atol=1e-9)
    spread = p @ ((X - p @ X) ** 2).sum(axis=1)
    assert ((atoms - p @ X) ** 2).sum(axis=1).mean() <= spread * (1 + 1e-9) + 1e-12


def test_as_many_blocks_as_points_are_the_points():
    X = scalene(32, 2)
    atoms = equal_mass_blocks(X, np.full(32, 1 / 32), 32)
    np.testing.assert_allclose(np.sort(atoms, axis=0), np.sort(X, axis=0), atol=1e-9)


def test_blocks_turn_with_the_cloud():
    X, Q = scalene(77, 3), orthogonal(3, seed=2)
    p = np.full(77, 1 / 77)
    a, b = equal_mass_blocks(X, p, 16) @ Q, equal_mass_blocks(X @ Q, p, 16)
    assert ot.emd2([], [], ot.dist(a, b)) < 1e-12


def test_iterations_end_when_the_plan_repeats():
    x = as_measure(scalene(30, 2))
    start, plan = alternate(Transport(x, x), np.eye(2))
    assert start.converged
    assert len(start.history) == 2
    np.testing.assert_array_equal(plan.cols, np.arange(30))
    assert not alternate(Transport(x, x), np.eye(2), max_iter=1)[0].converged
