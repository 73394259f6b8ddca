"""Exact search: the same answer, to the bit, whatever proposes the candidates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.vision.visual_memory.derived import KINDS, DerivedIndex
from practicum.vision.visual_memory.search import nearest, normalised
from practicum.vision.visual_memory.segments import Segments


def brute(queries, rows, k):
    """Double precision, all pairs, stable order."""
    d = 1 - queries.astype(float) @ rows.astype(float).T
    order = np.argsort(np.round(d, 12), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(d, order, axis=1), order


@pytest.mark.parametrize(("m", "block"), [(1000, 128), (1000, 999), (1000, 1000), (1000, 1001)])
def test_anchor_9_recall_is_one_whatever_the_block(m, block):
    rng = np.random.default_rng(0)
    rows, queries = (normalised(rng.standard_normal((n, 24))) for n in (m, 37))
    d, index = nearest(queries, rows, 50, block=block)
    expected, order = brute(queries, rows, 50)
    np.testing.assert_array_equal(index, order)
    np.testing.assert_allclose(d, expected, atol=1e-12)


def test_anchor_9_identical_rows_have_distance_zero():
    rows = normalised(np.random.default_rng(0).standard_normal((300, 512)))
    d, index = nearest(rows, rows, 1)
    np.testing.assert_array_equal(index[:, 0], np.arange(300))
    assert (d >= 0).all()
    assert d.max() <= 1e-6


def test_anchor_10_ties_are_in_the_order_of_insertion():
    rng = np.random.default_rng(0)
    few = normalised(rng.standard_normal((3, 8)))
    rows = few[rng.integers(3, size=500)]  # far more equal rows than spare candidates
    for block in (7, 64, 500):
        for backend in ("numpy", "faiss"):
            d, index = nearest(few, rows, 40, block=block, backend=backend)
            for q in range(3):
                own = np.flatnonzero((rows == few[q]).all(axis=1))
                np.testing.assert_array_equal(index[q], own[:40])
            assert (d <= 1e-6).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 200))
def test_blocks_libraries_and_holes_do_not_change_a_bit(seed, k, block):
    rng = np.random.default_rng(seed)
    levels = rng.integers(-1, 2, (120, 6)).astype(float)  # many exact ties
    levels[:, 0] += 0.5
    rows, queries = normalised(levels), normalised(rng.standard_normal((5, 6)))
    alive = rng.random(120) < 0.7
    k = min(k, int(alive.sum()))
    if k == 0:
        return
    d, index = nearest(queries, rows, k, alive=alive, block=block)
    again = nearest(queries, rows, k, alive=alive, backend="faiss", block=150)
    rebuilt = nearest(queries, rows[alive], k)
    np.testing.assert_array_equal(index, again[1])
    np.testing.assert_array_equal(d, again[0])
    np.testing.assert_array_equal(d, rebuilt[0])
    np.testing.assert_array_equal(index, np.flatnonzero(alive)[rebuilt[1]])


def test_anchor_4_scaling_rotation_and_order_do_not_matter():
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((400, 16)), rng.standard_normal((20, 16))
    _, index = nearest(normalised(Q), normalised(X), 10)
    scaled = nearest(normalised(Q * 1e-3), normalised(X * rng.uniform(1, 100, (400, 1))), 10)[1]
    np.testing.assert_array_equal(index, scaled)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    np.testing.assert_array_equal(index, nearest(normalised(Q @ turn), normalised(X @ turn), 10)[1])
    order = rng.permutation(400)
    shuffled = nearest(normalised(Q), normalised(X[order]), 10)[1]
    np.testing.assert_array_equal(index, order[shuffled])


def test_threads_do_not_change_a_bit():
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    rows, queries = (normalised(rng.standard_normal((n, 40))) for n in (5000, 64))
    with threadpool_limits(1):
        one = nearest(queries, rows, 20)
    with threadpool_limits(2):
        two = nearest(queries, rows, 20)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_half_precision_rows_are_searched_as_they_are_stored():
    rng = np.random.default_rng(0)
    rows, queries = (normalised(rng.standard_normal((n, 32))) for n in (500, 10))
    half = rows.astype(np.float16)
    d, index = nearest(queries, half, 5)
    expected, order = brute(queries, half, 5)
    np.testing.assert_array_equal(index, order)
    np.testing.assert_allclose(d, expected, atol=1e-9)


def test_segments_behave_as_one_array(tmp_path, monkeypatch):
    monkeypatch.setattr("practicum.vision.visual_memory.segments.SEGMENT", 10)
    rows = np.random.default_rng(0).standard_normal((37, 4)).astype(np.float32)
    for folder in (None, tmp_path):
        segments = Segments(4, "float32", folder)
        for start in range(0, 37, 7):
            segments.append(rows[start : start + 7])
        assert segments.shape == (37, 4)
        np.testing.assert_array_equal(segments[:], rows)
        np.testing.assert_array_equal(segments[8:31], rows[8:31])
        np.testing.assert_array_equal(segments[np.array([36, 0, 19])], rows[[36, 0, 19]])
        segments.zero([3, 12])
        assert not segments[np.array([3, 12])].any()
    assert len(list(tmp_path.glob("seg-*.vec"))) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_derived_indexes_propose_saved_and_loaded(kind, tmp_path):
    rng = np.random.default_rng(0)
    rows = normalised(rng.standard_normal((600, 16)))
    index = DerivedIndex(kind, 16).build(rows, np.arange(600) + 1000)
    found = index.propose(rows[:50], 20)
    assert np.mean([1000 + i in row for i, row in enumerate(found)]) > 0.9
    index.save(tmp_path, generation=7)
    again = DerivedIndex.load(kind, 16, tmp_path, generation=7)
    np.testing.assert_array_equal(np.sort(again.propose(rows[:50], 20)), np.sort(found))
    assert DerivedIndex.load(kind, 16, tmp_path, generation=8) is None  # stale: never trusted


def test_bad_input_is_refused():
    rows = normalised(np.eye(3))
    for k in (0, 4):
        with pytest.raises(InputError, match="expected 1 to 3"):
            nearest(rows, rows, k)
    with pytest.raises(InputError, match="empty"):
        nearest(rows, rows[:0], 1)
    with pytest.raises(InputError, match="same number of numbers"):
        nearest(rows[:, :2].copy(), rows, 1)
    with pytest.raises(InputError, match="'b' holds NaN"):
        normalised(np.array([[1.0, 0.0], [np.nan, 1.0]]), ["a", "b"])
    with pytest.raises(InputError, match="'1' is all zeros"):
        normalised(np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InputError, match="shape"):
        normalised(np.ones(3))
    with pytest.raises(InputError, match="not numbers"):
        normalised(np.array([["a"]]))
    with pytest.raises(InputError, match="no index 'tree'"):
        DerivedIndex("tree", 3)


def test_vectors_too_large_to_be_squared_are_normalised():
    np.testing.assert_allclose(normalised(np.array([[3e200, 4e200]])), [[0.6, 0.8]], atol=1e-6)
