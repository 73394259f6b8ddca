"""The barycenter: fixed points, closed forms, monotone objective, scikit-learn manners."""

import numpy as np
import ot
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from practicum.data import shapes
from practicum.stats.procrustes_wasserstein import PWBarycenter, procrustes_wasserstein


def rng(seed=0):
    return np.random.default_rng(seed)


def cloud(n=40, d=2, seed=0):
    return rng(seed).exponential(size=(n, d)) * np.arange(d, 0, -1) ** 1.5


def orthogonal(d, seed=0):
    return np.linalg.qr(rng(seed).normal(size=(d, d)))[0]


def same_cloud(a, b, atol=1e-6):
    return ot.emd2([], [], ot.dist(a, b)) < atol**2


def noisy_copies(X, count, noise=0.02):
    return [
        (X + noise * rng(i).normal(size=X.shape))[rng(i).permutation(len(X))]
        @ orthogonal(X.shape[1], i)
        for i in range(count)
    ]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_anchor_10_two_rotated_copies_have_objective_zero(d):
    X = cloud(d=d)
    mean = PWBarycenter().fit([X, rng(1).permutation(X @ orthogonal(d)) + 2.0])
    assert mean.objective_[-1] < 1e-12
    assert same_cloud(mean.support_, X - X.mean(axis=0))


@pytest.mark.parametrize("first", [0, 1])
def test_anchor_10_all_weight_on_one_cloud_reproduces_it(first):
    clouds = [cloud(seed=1), cloud(seed=2)]
    weights = np.eye(2)[first]
    mean = PWBarycenter(weights=weights).fit(clouds)
    assert procrustes_wasserstein(mean.support_, clouds[first]).squared < 1e-12


def test_one_cloud_is_its_own_barycenter():
    X = cloud() + 5.0
    p = rng(3).dirichlet(np.ones(40))
    mean = PWBarycenter().fit([X], cloud_weights=[p])
    np.testing.assert_allclose(mean.support_, X - p @ X, atol=1e-9)
    np.testing.assert_allclose(mean.weights_, p)
    assert mean.objective_[-1] < 1e-12


@pytest.mark.parametrize("d", [2, 3])
def test_identical_clouds_are_a_fixed_point(d):
    X = cloud(d=d)
    mean = PWBarycenter().fit([X] * 5)
    assert same_cloud(mean.support_, X - X.mean(axis=0))
    assert mean.n_iter_ == 1


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_dumbbells_average_their_arms(share):
    """min over r of w (r - a)^2 + (1 - w) (r - b)^2 is attained at r = w a + (1 - w) b."""
    a, b = 1.0, 3.0
    u, v = orthogonal(2, 1)[0], orthogonal(2, 2)[0]
    clouds = [np.array([a * u, -a * u]), np.array([b * v, -b * v])]
    mean = PWBarycenter(weights=[share, 1 - share]).fit(clouds)
    r = share * a + (1 - share) * b
    np.testing.assert_allclose(np.linalg.norm(mean.support_, axis=1), r, atol=1e-7)
    expected = share * (r - a) ** 2 + (1 - share) * (r - b) ** 2
    np.testing.assert_allclose(mean.objective_[-1], expected, atol=1e-7)


def test_concentric_polygons_average_their_radii():
    t = 2 * np.pi * np.arange(12) / 12
    ring = np.stack([np.cos(t), np.sin(t)], axis=1)
    mean = PWBarycenter().fit([ring, 2 * ring @ orthogonal(2), 6 * ring])
    np.testing.assert_allclose(np.linalg.norm(mean.support_, axis=1), 3.0, atol=1e-6)


@pytest.mark.parametrize("init", ["auto", "pca", "identity"])
@pytest.mark.parametrize("n_support", [None, 25, 50])
def test_the_objective_never_rises(init, n_support):
    clouds = [c.points for c in shapes.cells(n_points=40).clouds[:6]]
    mean = PWBarycenter(n_support=n_support, init=init).fit(clouds)
    assert len(mean.objective_) == mean.n_iter_ + 1
    assert (np.diff(mean.objective_) <= 1e-9 * mean.objective_[0]).all()
    values = [procrustes_wasserstein(mean.support_, c, init=P).squared
              for c, P in zip(clouds, mean.rotations_, strict=True)]  # fmt: skip
    assert np.mean(values) <= mean.objective_[-1] * (1 + 1e-9)


def test_unequal_sizes_and_weights():
    X = cloud(60)
    clouds = [X[:50], X[5:60] @ orthogonal(2), X[::2]]
    weights = [rng(i).dirichlet(np.full(len(c), 50.0)) for i, c in enumerate(clouds)]
    mean = PWBarycenter(n_support=30).fit(clouds, cloud_weights=weights)
    assert mean.support_.shape == (30, 2)
    np.testing.assert_allclose(mean.weights_, 1 / 30)
    for plan, q in zip(mean.plans_, weights, strict=True):
        np.testing.assert_allclose(plan.sum(axis=1).A1, 1 / 30, atol=1e-9)
        np.testing.assert_allclose(plan.sum(axis=0).A1, q, atol=1e-9)


def test_the_result_lies_in_the_pose_of_the_first_cloud():
    X = cloud(50)
    copies = noisy_copies(X, 5, noise=0.05)
    mean = PWBarycenter().fit(copies)
    first = copies[0] - copies[0].mean(axis=0)
    unturned = ot.emd2([], [], ot.dist(mean.support_, first))
    np.testing.assert_allclose(
        unturned, procrustes_wasserstein(mean.support_, first).squared, rtol=1e-6
    )
    np.testing.assert_allclose(mean.rotations_[0], np.eye(2), atol=1e-9)


def test_transform_brings_clouds_into_the_common_pose():
    X = cloud(50)
    mean = PWBarycenter().fit(noisy_copies(X, 5))
    for aligned in mean.transform(noisy_copies(X, 8)[5:]):
        # noise of 0.02 per coordinate: far below the size of the shape
        assert ot.emd2([], [], ot.dist(mean.support_, aligned)) < 4 * 0.02**2


def test_distances_of_the_inputs_and_weights_of_their_points():
    X = cloud(30)
    clouds = [*noisy_copies(X, 4), 2 * X]
    weights = [rng(i).dirichlet(np.full(30, 5.0)) for i in range(5)]
    mean = PWBarycenter()
    aligned = mean.fit_transform(clouds, cloud_weights=weights)
    assert mean.distances_.argmax() == 4
    np.testing.assert_allclose(np.mean(mean.distances_**2), mean.objective_[-1])
    for points, q, distance in zip(aligned, weights, mean.distances_, strict=True):
        np.testing.assert_allclose(q @ points, 0.0, atol=1e-9)  # centred by its own weights
        cost = ot.emd2(mean.weights_, q, ot.dist(mean.support_, points))
        assert cost <= distance**2 * (1 + 1e-9)


def test_without_reflections_a_mirrored_input_stays_apart():
    X = cloud(30)
    clouds = [X, X * [1.0, -1.0]]
    assert PWBarycenter().fit(clouds).objective_[-1] < 1e-12
    proper = PWBarycenter(group="SO").fit(clouds)
    assert proper.objective_[-1] > 1e-3
    assert (np.linalg.det(proper.rotations_) > 0).all()


def test_the_noise_averages_out():
    """Ten noisy copies: the barycenter is nearer to the shape than any of them."""
    X = shapes.cells(n_points=60).clouds[40].points
    X = (X - X.mean(axis=0)) / np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    copies = noisy_copies(X, 10, noise=0.08)
    mean = PWBarycenter().fit(copies)
    own = procrustes_wasserstein(mean.support_, X).squared
    assert own < 0.7 * min(procrustes_wasserstein(c, X).squared for c in copies)


def test_scikit_learn_manners():
    estimator = PWBarycenter(n_support=7, init="pca", group="SO")
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    assert twin.set_params(n_support=5).n_support == 5
    with pytest.raises(NotFittedError):
        estimator.transform([cloud()])
    assert estimator.fit([cloud(), cloud(seed=1)]) is estimator


def test_the_same_seed_gives_the_same_barycenter():
    clouds = [cloud(seed=i) for i in range(4)]
    a, b = (PWBarycenter(n_support=20).fit(clouds) for _ in range(2))
    np.testing.assert_array_equal(a.support_, b.support_)


def test_many_clouds_are_sampled_for_the_medoid():
    clouds = noisy_copies(cloud(12), 25)
    mean = PWBarycenter(max_iter=2).fit(clouds)
    assert 0 <= mean.medoid_ < 25


def test_zero_weight_points_do_not_pull():
    X = cloud(20)
    q = np.full(21, 1 / 20)
    q[-1] = 0.0
    far = np.vstack([X, [[1e3, 1e3]]])
    mean = PWBarycenter().fit([X, far], cloud_weights=[None, q])
    assert mean.objective_[-1] < 1e-12
