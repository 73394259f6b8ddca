"""The Wasserstein Adjusted Score: the anchors, its invariances, what it refuses."""

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.federated.fedgwc import (
    imbalance_distances,
    read_class_counts,
    wasserstein_adjusted_davies_bouldin,
    wasserstein_adjusted_silhouette,
)

FREQUENCIES = np.array(
    [
        [0.7, 0.2, 0.1],
        [0.1, 0.7, 0.2],
        [0.2, 0.1, 0.7],
        [0.34, 0.33, 0.33],
        [0.33, 0.34, 0.33],
        [0.4, 0.3, 0.3],
    ]
)
LABELS = np.array([0, 0, 0, 1, 1, 1])


def test_anchor_4_value():
    assert imbalance_distances(FREQUENCIES)[0, 3] == pytest.approx(0.257811, abs=5e-7)


@given(st.integers(2, 8), st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_anchor_4_equals_exact_one_dimensional_transport(n_classes, seed):
    a, b = np.random.default_rng(seed).dirichlet(np.ones(n_classes), 2)
    exact = np.sqrt(ot.wasserstein_1d(a, b, p=2))
    assert imbalance_distances(np.stack([a, b]))[0, 1] == pytest.approx(exact, abs=1e-9)


def test_anchor_5_scores():
    assert wasserstein_adjusted_silhouette(FREQUENCIES, LABELS) == pytest.approx(0.939840, abs=5e-7)
    aware = wasserstein_adjusted_silhouette(FREQUENCIES, LABELS, ranked=False)
    assert aware == pytest.approx(0.225962, abs=5e-7)
    bouldin = wasserstein_adjusted_davies_bouldin(FREQUENCIES, LABELS)
    assert bouldin == pytest.approx(0.077324, abs=5e-7)


@given(st.integers(0, 500))
@settings(max_examples=30, deadline=None)
def test_renaming_the_classes_of_any_client_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 50, (9, 4))
    labels = rng.permutation(np.arange(9) % 3)
    renamed = rng.permuted(counts, axis=1)
    for score in (wasserstein_adjusted_silhouette, wasserstein_adjusted_davies_bouldin):
        assert score(renamed, labels) == pytest.approx(score(counts, labels), abs=1e-12)
    # counts or frequencies, clusters by any name
    assert wasserstein_adjusted_silhouette(
        counts / counts.sum(1, keepdims=True), labels + 7
    ) == pytest.approx(wasserstein_adjusted_silhouette(counts, labels), abs=1e-12)


def test_bad_input_one_cluster_is_undefined_with_a_reason():
    with pytest.warns(UserWarning, match="one cluster"):
        assert np.isnan(wasserstein_adjusted_silhouette(FREQUENCIES, np.zeros(6, int)))
    with pytest.warns(UserWarning, match="cluster of its own"):
        assert np.isnan(wasserstein_adjusted_davies_bouldin(FREQUENCIES, np.arange(6)))


def test_a_cluster_of_one_client_scores_zero_there():
    labels = np.array([0, 0, 0, 0, 0, 1])
    assert np.isfinite(wasserstein_adjusted_silhouette(FREQUENCIES, labels))


@pytest.mark.parametrize(
    ("counts", "labels", "message"),
    [
        (np.array([[1, 2], [0, 0], [3, 1]]), np.array([0, 1, 1]), r"rows \[1\] hold no sample"),
        (np.array([[1, 2], [-1, 4], [3, 1]]), np.array([0, 1, 1]), r"rows \[1\] are negative"),
        (np.array([[1, 2], [np.nan, 4], [3, 1]]), np.array([0, 1, 1]), "not finite"),
    ],
)
def test_bad_input_counts_are_refused_by_row(counts, labels, message):
    with pytest.raises(InputError, match=message):
        wasserstein_adjusted_silhouette(counts, labels)


def test_which_classes_a_client_holds_counts_only_when_not_ranked():
    """Whoever expects the score to see them is pointed to ranked=False."""
    counts = np.array([[9, 0, 0], [0, 0, 9], [0, 9, 0], [3, 3, 3]])
    assert imbalance_distances(counts)[0, 1] == 0
    assert imbalance_distances(counts, ranked=False)[0, 1] == pytest.approx(np.sqrt(2 / 3))
    assert "*which* classes" in imbalance_distances.__doc__


def test_bad_input_in_count_files(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("client,class,count\na,0,5\na,0,6\nb,1,2\n")
    with pytest.raises(InputError, match="client a, class 0 occurs twice"):
        read_class_counts(path)
    path.write_text("client,class,count\na,0,-5\n")
    with pytest.raises(InputError, match="column count"):
        read_class_counts(path)
    path.write_text("client,class,count\na,0,5\nb,0,0\nb,1,0\n")
    with pytest.raises(InputError, match="no sample of any class for b"):
        read_class_counts(path)
    path.write_text("client,count\na,5\n")
    with pytest.raises(InputError, match="no column 'class'"):
        read_class_counts(path)
