"""Votes and curves as pure functions: the anchors of the paper file, and the published loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.vision.visual_memory.hygiene import (
    count_votes,
    log_fit,
    scaling_fit,
    soft_weights,
    strangeness,
    without_self,
)
from practicum.vision.visual_memory.votes import (
    VOTES,
    accuracy_curves,
    class_scores,
    confidence,
    fit_temperature,
    probabilities,
    vote_curve,
    vote_weights,
)

A, B = 0, 1


def loop(codes, weights):
    """The published scan, one query at a time, its winner compared with None."""
    scores, best, winner, curve = {}, 0.0, None, []
    for c, w in zip(codes, weights, strict=True):
        scores[c] = scores.get(c, 0.0) + w
        if winner is None or scores[c] > best:
            best, winner = max(best, scores[c]), c
        curve.append(winner)
    return curve


def test_anchor_1_rank_votes_on_abbab():
    codes = np.array([[A, B, B, A, B]])
    weights = vote_weights(np.zeros((1, 5)))
    np.testing.assert_allclose(weights[0], [1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6])
    np.testing.assert_allclose(class_scores(codes, weights, 2), [[0.7, 0.75]])
    np.testing.assert_allclose(
        class_scores(codes[:, :4], weights[:, :4], 2), [[0.7, 0.5833]], atol=1e-4
    )
    curve = vote_curve(codes, weights)[0]
    assert curve[4] == B
    assert curve[3] == A


def test_the_tie_goes_to_the_class_that_reached_the_score_first():
    ones = np.ones((1, 5))
    assert vote_curve(np.array([[0, 1]]), ones[:, :2])[0, -1] == 0
    assert vote_curve(np.array([[2, 3, 3, 1, 1]]), ones)[0, -1] == 3


def test_anchor_7_class_0_wins_by_votes_and_not_by_the_nearest():
    """The published code answers class 0 with the nearest neighbour's label."""
    codes = np.array([[1, 0, 0, 0]])
    assert vote_curve(codes, np.ones((1, 4)))[0, -1] == 0
    assert vote_curve(codes + 5, np.ones((1, 4)))[0, -1] == 5


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(VOTES), st.integers(1, 40))
def test_the_vectorised_scan_is_the_loop_ties_included(seed, vote, k):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (7, k))
    d = np.sort(rng.integers(0, 6, (7, k)) / 8.0, axis=1)  # ties
    weights = vote_weights(d, vote)
    np.testing.assert_array_equal(
        vote_curve(codes, weights), [loop(c, w) for c, w in zip(codes, weights, strict=True)]
    )


def test_anchor_2_limits_of_the_votes():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (200, 30))
    d = np.sort(rng.random((200, 30)), axis=1)
    plurality = vote_curve(codes, vote_weights(d, "plurality"))
    for weights in (
        vote_weights(d, "distance", gamma=0.0),
        vote_weights(d, "softmax", tau=1e12),
        vote_weights(d, "rank", alpha=1e12),
    ):
        # at the limit the weights differ by 1e-11: only where plurality has no tie is it the same
        scores = np.sort(class_scores(codes, vote_weights(d, "plurality"), 5), axis=1)
        clear = scores[:, -1] > scores[:, -2]
        np.testing.assert_array_equal(vote_curve(codes, weights)[clear, -1], plurality[clear, -1])
    np.testing.assert_array_equal(
        vote_curve(codes, vote_weights(d, "softmax", tau=1e-9))[:, -1], codes[:, 0]
    )


def test_anchor_3_one_neighbour_is_the_same_under_all_votes():
    rng = np.random.default_rng(1)
    codes, d = rng.integers(0, 3, (50, 5)), np.sort(rng.random((50, 5)), axis=1)
    for vote in VOTES:
        np.testing.assert_array_equal(vote_curve(codes, vote_weights(d, vote))[:, 0], codes[:, 0])


def test_anchor_3_plurality_and_distance_agree_with_scikit_learn():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier

    from practicum.vision.visual_memory import nearest, normalised

    data = load_digits()
    X, y, Q = normalised(data.data[:800]), data.target[:800], normalised(data.data[800:1200])
    d, index = nearest(Q, X, 15)
    for vote, weights in (("plurality", "uniform"), ("distance", lambda x: np.exp(-x))):
        peer = KNeighborsClassifier(15, weights=weights, metric="cosine", algorithm="brute")
        expected = peer.fit(X, y).predict(Q)
        w = vote_weights(d, vote)
        scores = np.sort(class_scores(y[index], w, 10), axis=1)
        clear = scores[:, -1] > scores[:, -2] + 1e-9
        assert clear.mean() > 0.95
        np.testing.assert_array_equal(vote_curve(y[index], w)[clear, -1], expected[clear])


def test_anchor_8_soft_weights():
    np.testing.assert_allclose(
        soft_weights(np.array([0, 1, 2, 3, 10])), [1.0, 0.875, 0.58333, 0.4375, 0.15909], atol=1e-5
    )


def test_softmax_votes_do_not_overflow():
    d = np.array([[0.0, 1.0, 2.0]])
    weights = vote_weights(d, "softmax", tau=1e-3)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(
        vote_weights(d, "softmax")[0] / vote_weights(d, "softmax")[0, 0],
        np.exp((1 - d[0]) / 0.07) / np.exp(1 / 0.07),
    )


def test_probabilities_are_shares_and_absent_classes_have_none():
    p = probabilities(np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(p, [[0.75, 0.25, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert probabilities(np.array([[3.0, 1.0, 0.0]]), 5.0)[0, 2] == 0.0


def test_the_fitted_temperature_lowers_the_cross_entropy():
    rng = np.random.default_rng(0)
    scores = rng.random((500, 4)) ** 3
    codes = np.array([rng.choice(4, p=row / row.sum()) for row in scores])
    sharp = scores**4  # a temperature of 4 gives the truth back
    assert 3 < fit_temperature(sharp, codes) < 5.5


def test_confidence_of_agreement_and_of_none():
    share, order = confidence(np.array([[0, 0, 0, 0], [0, 1, 2, 3]]))
    np.testing.assert_allclose(share, [1.0, 0.25])
    np.testing.assert_allclose(order, [1.0, 0.0], atol=1e-12)


def test_the_curve_of_all_votes_comes_from_one_list():
    rng = np.random.default_rng(2)
    codes, d = rng.integers(0, 3, (40, 9)), np.sort(rng.random((40, 9)), axis=1)
    truth = rng.integers(0, 3, 40)
    curves = accuracy_curves(d, codes, truth)
    assert set(curves) == set(VOTES)
    for vote, curve in curves.items():
        for k in (1, 4, 9):
            w = vote_weights(d[:, :k], vote)
            np.testing.assert_allclose(
                curve[k - 1], (vote_curve(codes[:, :k], w)[:, -1] == truth).mean()
            )


def test_leaving_one_out_drops_the_row_itself_and_keeps_its_duplicates():
    indices = np.array([[1, 0, 2], [3, 4, 5]])
    kept, _ = without_self(indices, np.zeros((2, 3)), np.array([0, 9]))
    assert kept.tolist() == [[1, 2], [3, 4]]


def test_counts_and_fits():
    wrong, correct = count_votes(np.array([[0, 1], [0, 2]]), np.array([[True, False]] * 2), 4)
    assert wrong.tolist() == [0, 1, 1, 0]
    assert correct.tolist() == [2, 0, 0, 0]
    k = np.arange(1, 101)
    np.testing.assert_allclose(log_fit(0.8 - 0.03 * np.log(k)), (-0.03, 0.8))
    sizes = np.array([10, 100, 10_000])
    np.testing.assert_allclose(scaling_fit(sizes, 0.3 * np.log10(sizes) ** -2.0)[0], -2.0)
    np.testing.assert_allclose(strangeness(np.array([[0.0, 1.0, 5.0]]), "median"), [1.0])


def test_bad_input_is_refused():
    d = np.zeros((1, 2))
    with pytest.raises(InputError, match="did you mean 'rank'"):
        vote_weights(d, "rnak")
    for wrong in ({"alpha": 0.0}, {"tau": 0.0}, {"gamma": -1.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            vote_weights(d, "rank", **wrong)
    with pytest.raises(InputError, match="whole numbers from 0"):
        vote_curve(np.array([[-1, 0]]), np.ones((1, 2)))
    with pytest.raises(InputError, match="temperature"):
        probabilities(np.ones((1, 2)), 0.0)
    with pytest.raises(InputError, match="0 or more"):
        soft_weights(np.array([-1]))
    with pytest.raises(InputError, match="stat"):
        strangeness(d, "max")
