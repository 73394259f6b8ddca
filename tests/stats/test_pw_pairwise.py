"""Distance matrices: symmetric, zero on the diagonal, the same for any number of processes."""

import numpy as np
import pytest
from scipy.spatial.distance import squareform

from practicum.data import shapes
from practicum.stats.procrustes_wasserstein import procrustes_wasserstein, pw_pairwise


@pytest.fixture(scope="module")
def outlines():
    return [c.points for c in shapes.cells(n_points=40).clouds[:14]]


def test_entries_are_the_distances_of_pairs(outlines):
    D = pw_pairwise(outlines)
    assert D.shape == (14, 14)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diag(D), 0)
    for i, j in ((0, 1), (3, 11)):
        assert D[i, j] == procrustes_wasserstein(outlines[i], outlines[j]).distance
    np.testing.assert_array_equal(pw_pairwise(outlines, condensed=True), squareform(D))


@pytest.mark.parametrize("init", ["auto", "random"])
def test_processes_do_not_change_the_numbers(outlines, init):
    one, two = (pw_pairwise(outlines, n_jobs=n, init=init) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_sizes_and_weights_may_differ():
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(n, 3)) for n in (5, 9, 12)]
    weights = [rng.dirichlet(np.ones(5)), None, rng.dirichlet(np.ones(12))]
    D = pw_pairwise(clouds, cloud_weights=weights, group="SO")
    expected = procrustes_wasserstein(clouds[0], clouds[2], weights[0], weights[2], group="SO")
    assert D[0, 2] == expected.distance


def test_readers_clouds_are_accepted_as_they_are():
    drawn = shapes.digits((1, 7), per_class=2).clouds
    assert pw_pairwise(drawn).shape == (4, 4)


def test_one_cloud_has_no_distances():
    np.testing.assert_array_equal(pw_pairwise([np.eye(2)]), [[0.0]])
    assert pw_pairwise([np.eye(2)], condensed=True).shape == (0,)


def test_an_array_of_clouds_is_a_list_of_clouds():
    stack = np.random.default_rng(0).normal(size=(3, 6, 2))
    np.testing.assert_array_equal(pw_pairwise(stack), pw_pairwise(list(stack)))


def test_distances_from_one_list_to_another():
    rng = np.random.default_rng(3)
    new, known = ([rng.exponential(size=(n, 2)) for n in sizes] for sizes in ((9, 12), (9, 8, 11)))
    weights = [rng.dirichlet(np.ones(len(c))) for c in known]
    table = pw_pairwise(new, others=known, other_weights=weights)
    expected = [
        [procrustes_wasserstein(x, y, q=q).distance for y, q in zip(known, weights)] for x in new
    ]
    np.testing.assert_allclose(table, expected, rtol=1e-9)
