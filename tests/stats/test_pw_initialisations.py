"""Starts of Algorithm 1: conventions, membership in the group, matching on the line."""

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.stats.procrustes_wasserstein import initialisations
from practicum.stats.procrustes_wasserstein.measures import as_measure
from practicum.stats.procrustes_wasserstein.transport import Transport


def rng(seed=0):
    return np.random.default_rng(seed)


def cloud(n=60, d=3, seed=0):
    return rng(seed).exponential(size=(n, d)) * np.arange(d, 0, -1) ** 1.5


def rotation(d, seed=0):
    q = np.linalg.qr(rng(seed).normal(size=(d, d)))[0]
    q[:, 0] *= np.sign(np.linalg.det(q))
    return q


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["pca", "fiedler", "gromov_wasserstein", "random", "auto"])
@pytest.mark.parametrize("group", ["O", "SO"])
def test_every_start_is_in_the_group(name, group, d):
    transport = Transport(as_measure(cloud(40, d)), as_measure(cloud(50, d, seed=1)))
    candidates = getattr(initialisations, name)(transport, group)
    assert len(candidates) >= 1
    for P in candidates:
        np.testing.assert_allclose(P @ P.T, np.eye(d), atol=1e-9)
        assert group == "O" or np.linalg.det(P) > 0


@pytest.mark.parametrize("d", [2, 3])
def test_pca_has_a_candidate_that_undoes_the_rotation_of_the_second_cloud(d):
    X, Q = cloud(d=d), rotation(d)
    candidates = initialisations.pca(Transport(as_measure(X), as_measure(X @ Q)))
    assert len(candidates) == 2**d
    assert np.abs(candidates - Q.T).max(axis=(1, 2)).min() < 1e-9
    assert np.abs(candidates - Q).max(axis=(1, 2)).min() > 0.05


def test_pca_tries_both_orders_of_axes_that_are_nearly_equal():
    # variances 9, 1.03, 1: the last two differ by 3 %
    spread = np.sqrt([9.0, 1.03, 1.0])
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], float)
    x = as_measure(corners * spread)
    assert len(initialisations.pca(Transport(x, x))) == 2 * 8
    y = as_measure(corners * np.sqrt([9.0, 2.0, 1.0]))
    assert len(initialisations.pca(Transport(y, y))) == 8


@given(
    n=st.integers(1, 25),
    m=st.integers(1, 25),
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_matching_on_the_line_is_optimal(n, m, seed, ties):
    a, b = rng(seed).normal(size=n), rng(seed + 1).normal(size=m)
    if ties:
        a, b = a.round(), b.round()
    p, q = rng(seed).dirichlet(np.ones(n)), rng(seed + 1).dirichlet(np.ones(m))
    plan = initialisations.monotone_plan(a, b, p, q)
    dense = np.zeros((n, m))
    np.add.at(dense, (plan.rows, plan.cols), plan.mass)
    np.testing.assert_allclose(dense.sum(axis=1), p, atol=1e-12)
    np.testing.assert_allclose(dense.sum(axis=0), q, atol=1e-12)
    cost = plan.mass @ (a[plan.rows] - b[plan.cols]) ** 2
    expected = ot.emd2_1d(a, b, p, q, metric="sqeuclidean")
    np.testing.assert_allclose(cost, expected, atol=1e-9)
    assert len(plan.mass) <= n + m - 1


def test_fiedler_follows_a_bent_strip():
    """A spiral and a turned copy: the order along the strip fixes the rotation."""
    t = np.linspace(0, 1, 80) ** 1.5
    X = np.stack([(0.3 + t) * np.cos(5 * t), (0.3 + t) * np.sin(5 * t)], axis=1)
    Q = rotation(2, seed=3)
    transport = Transport(as_measure(X), as_measure(rng(1).permutation(X @ Q)))
    np.testing.assert_allclose(initialisations.fiedler(transport)[0], Q.T, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fiedler_copes_with_a_handful_of_points(n):
    x, y = as_measure(cloud(n, 2)), as_measure(cloud(n, 2, seed=1))
    P = initialisations.fiedler(Transport(x, y))[0]
    np.testing.assert_allclose(P @ P.T, np.eye(2), atol=1e-9)


def test_the_cover_of_space_is_even():
    """Every rotation lies within 35 degrees of one of 300: no holes."""
    cover = initialisations.cover(3, 300)
    np.testing.assert_allclose(cover @ np.swapaxes(cover, 1, 2), [np.eye(3)] * 300, atol=1e-9)
    assert np.allclose(np.linalg.det(cover), 1)
    others = np.array([rotation(3, seed) for seed in range(500)])
    traces = np.einsum("aij,bij->ab", others, cover).max(axis=1)
    angles = np.degrees(np.arccos((traces - 1) / 2))
    assert angles.max() < 35


def test_auto_sees_shapes_and_not_poses():
    X, Y = cloud(80, 3), cloud(80, 3, seed=1)
    Q = rotation(3, seed=5)
    first = initialisations.auto(Transport(as_measure(X), as_measure(Y)))
    second = initialisations.auto(Transport(as_measure(X), as_measure(Y @ Q)))
    np.testing.assert_allclose(first[0], Q @ second[0], atol=1e-6)
