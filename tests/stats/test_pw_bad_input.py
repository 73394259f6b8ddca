"""Every line of "Bad input" on the paper's card: what is said, and what to do about it."""

import sys

import numpy as np
import pytest

from practicum.errors import InputError, MissingExtra
from practicum.stats.procrustes_wasserstein import (
    PWBarycenter,
    procrustes_wasserstein,
    pw_pairwise,
)


def cloud(n=20, d=2, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, d))


def with_nan(rows):
    X = cloud()
    X[rows, 0] = np.nan
    return X


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (cloud().T, ["(2, 20)", "2 points in 20 dimensions", "transpose"]),
        (cloud(5, 8), ["(5, 8)", "transpose"]),
        (cloud(50, 12), ["(50, 12)", "10 or fewer"]),
        (cloud()[:, 0], ["(20,)", "(n, d)", "reshape(-1, 1)"]),
        (np.zeros((0, 2)), ["empty"]),
        (np.zeros((2, 3, 2)), ["(2, 3, 2)"]),
        (with_nan([3, 17]), ["2 row(s): 3, 17"]),
        (with_nan(list(range(15))), ["15 row(s)", "..."]),
        (cloud() * np.inf, ["NaN or infinite"]),
        ([["a", "b"]], ["expected numbers"]),
        ([[1, 2], [3]], ["X"]),
        (cloud() + 1j, ["complex"]),
        (cloud() * 1e160, ["e+160", "another unit"]),
        (cloud() * 1e-200, ["stays within", "e-200", "another unit"]),
        (np.ma.masked_greater(cloud(), 2.0), ["masked"]),
    ],
)
def test_bad_input_of_a_cloud_names_it_and_the_remedy(X, words):
    with pytest.raises(InputError) as caught:
        procrustes_wasserstein(X, cloud())
    assert "X" in caught.value.message
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("points", [np.ones((1, 2)), np.ones((1, 3)), np.eye(3)[:2]])
def test_few_points_in_space_are_not_taken_for_a_transposed_cloud(points):
    assert procrustes_wasserstein(points, points).squared < 1e-12


def test_bad_input_of_the_second_cloud_is_called_y():
    with pytest.raises(InputError, match=r"Y has NaN .* 1 row\(s\): 4"):
        procrustes_wasserstein(cloud(), with_nan([4]))


def test_bad_input_different_dimensions_name_both():
    with pytest.raises(InputError, match=r"X has 2 coordinates .* Y has 3"):
        procrustes_wasserstein(cloud(), cloud(d=3))


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (np.full(19, 1 / 19), ["(19,)", "(20,)"]),
        (np.r_[-0.05, np.full(19, 1.05 / 19)], ["negative", "row(s) 0"]),
        (np.r_[np.nan, np.full(19, 1 / 19)], ["not finite"]),
        (np.full(20, 1.0), ["sum to 20", "divide"]),
        (np.full(20, (1 + 1e-4) / 20), ["sum to 1.0001"]),
    ],
)
def test_bad_input_weights(p, words):
    with pytest.raises(InputError) as caught:
        procrustes_wasserstein(cloud(), cloud(seed=1), p)
    for word in words:
        assert word in str(caught.value)


def test_weights_within_rounding_of_one_are_accepted():
    p = np.full(20, (1 + 5e-7) / 20)
    result = procrustes_wasserstein(cloud(), cloud(seed=1), p)
    assert result.plan.sum() == pytest.approx(1)


def test_uncentred_clouds_warn_with_the_offset():
    X = cloud()
    X = X - X.mean(axis=0) + [3.0, 4.0]
    with pytest.warns(UserWarning, match=r"X is not centred: its mean is 5 from the origin"):
        procrustes_wasserstein(X, X - [3.0, 4.0], center=False)


def test_different_units_warn_with_the_ratio():
    with pytest.warns(UserWarning, match=r"25-fold .* scale=True"):
        procrustes_wasserstein(cloud(), 25 * cloud())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"init": "magic"}, ["'magic'", "auto, global, pca"]),
        ({"init": np.ones((2, 2))}, ["orthogonal"]),
        ({"init": np.eye(3)}, ["(3, 3)", "(2, 2)"]),
        ({"group": "GL"}, ["'GL'", "'SO'"]),
        ({"effort": 7}, ["effort=7", "0, 1 or 2"]),
        ({"n_starts": 0}, ["n_starts=0"]),
        ({"max_iter": 0}, ["max_iter=0"]),
        ({"tol": -1.0}, ["tol=-1"]),
        ({"random_state": -1}, ["random_state=-1"]),
    ],
)
def test_bad_input_options(options, words):
    with pytest.raises(InputError) as caught:
        procrustes_wasserstein(cloud(), cloud(), **options)
    for word in words:
        assert word in str(caught.value)


def test_bad_input_a_cost_matrix_beyond_memory_is_refused():
    big = cloud(5001)
    with pytest.raises(InputError, match=r"5001 x 5000 points would need 200 MB .*subsample"):
        procrustes_wasserstein(big, big[:5000])


def test_bad_input_scale_without_extent():
    with pytest.raises(InputError, match="radius 0"):
        procrustes_wasserstein(np.ones((4, 2)), cloud(), scale=True)


def test_bad_input_global_beyond_space():
    with pytest.raises(InputError, match=r"dimension 1 to 3, these have 4"):
        procrustes_wasserstein(cloud(d=4), cloud(d=4, seed=1), init="global")


def test_missing_transport_extra_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(MissingExtra, match=r"pip install 'practicum\[transport\]'"):
        procrustes_wasserstein(cloud(20), cloud(21))
    with pytest.raises(MissingExtra, match=r"pip install 'practicum\[transport\]'"):
        procrustes_wasserstein(cloud(), cloud(), init="gw")
    assert procrustes_wasserstein(cloud(), cloud()).squared < 1e-12  # an assignment needs none


def test_bad_input_of_collections():
    good = cloud()
    for function in (pw_pairwise, PWBarycenter().fit):
        with pytest.raises(InputError, match=r"clouds\[1\] has NaN"):
            function([good, with_nan([0])])
        with pytest.raises(InputError, match=r"clouds\[2\] has 3 coordinates .* clouds\[0\] has 2"):
            function([good, good, cloud(d=3)])
        with pytest.raises(InputError, match="clouds is empty"):
            function([])
        with pytest.raises(InputError, match="wrap a single cloud in a list"):
            function(good)
        with pytest.raises(InputError, match="1 entries for 2 clouds"):
            function([good, good], cloud_weights=[None])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"weights": [1.0]}, "one non-negative coefficient per cloud"),
        ({"weights": [1.5, -0.5]}, "negative"),
        ({"weights": [0.9, 0.9]}, "sum to 1.8"),
        ({"n_support": 0}, "n_support=0"),
        ({"n_support": 2.5}, "n_support=2.5"),
        ({"max_iter": -1}, "max_iter=-1"),
    ],
)
def test_bad_input_of_the_barycenter(parameters, words):
    with pytest.raises(InputError, match=words):
        PWBarycenter().set_params(**parameters).fit([cloud(), cloud(seed=1)])


def test_torch_like_tensors_are_brought_to_the_host():
    class Tensor:
        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        def cpu(self):
            return self

        def numpy(self):
            return self.values

    X = cloud()
    assert procrustes_wasserstein(Tensor(X), X, Tensor(np.full(20, 1 / 20))).squared < 1e-12


@pytest.mark.parametrize("unit", [1e90, 1e-90])
def test_the_unit_does_not_matter(unit):
    """PW is homogeneous of degree one, as far as squares can be held."""
    plain = procrustes_wasserstein(cloud(), cloud(seed=1))
    scaled = procrustes_wasserstein(cloud() * unit, cloud(seed=1) * unit)
    assert scaled.distance / unit == pytest.approx(plain.distance, rel=1e-9)
    assert procrustes_wasserstein(cloud(), cloud(seed=1), scale=True).distance == pytest.approx(
        procrustes_wasserstein(cloud() * unit, cloud(seed=1) * unit, scale=True).distance
    )


def test_extreme_coordinates_in_a_collection_name_their_cloud():
    for function in (pw_pairwise, PWBarycenter().fit):
        with pytest.raises(InputError, match=r"clouds\[1\] reaches .*e\+160"):
            function([cloud(), cloud() * 1e160])


def test_coincident_points_are_at_distance_zero_exactly():
    """Five threes have the mean 3.0000000000000004; what that leaves is no distance."""
    result = procrustes_wasserstein(np.full((5, 2), 3.0), np.full((5, 2), 0.1))
    assert (result.distance, result.degenerate) == (0.0, True)


def test_bad_input_of_transform_and_pairwise():
    result = procrustes_wasserstein(cloud(), cloud(seed=1))
    assert result.transform(cloud()[0]).shape == (2,)
    with pytest.raises(InputError, match=r"shape \(20, 3\), 2 coordinates each"):
        result.transform(cloud(d=3))
    with pytest.raises(InputError, match="p and q are weights of a single pair"):
        pw_pairwise([cloud(), cloud(seed=1)], p=np.full(20, 1 / 20))
    with pytest.raises(InputError, match="no condensed form"):
        pw_pairwise([cloud()], others=[cloud()], condensed=True)
    with pytest.raises(InputError, match="others have 3 coordinates per point, clouds have 2"):
        pw_pairwise([cloud()], others=[cloud(d=3)])
    with pytest.raises(InputError, match=r"others\[0\] has NaN"):
        pw_pairwise([cloud()], others=[with_nan([0])])
