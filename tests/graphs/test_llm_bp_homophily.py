"""Homophily without labels, from a few labels, by a language model, by a person."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.graphs.llm_bp.homophily import (
    chance_agreement,
    edges_to_judge,
    estimate_homophily,
    homophily_from_labels,
    judge_homophily,
    judged_homophily,
    parse_same,
    true_homophily,
)
from practicum.graphs.llm_bp.prototypes import class_log_probabilities, few_shot_prototypes
from practicum.models.chat import Chat, Reply
from practicum.models.embed import unit_rows


class Said(Chat):
    """Answers with what a function of the question returns."""

    name = "said"

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def replies(self, requests):
        self.asked += requests
        return [Reply(self.answer(r.messages[-1]["content"])) for r in requests]


def planted(r, n=3000, n_edges=8000, c=5, sure=0.6, seed=0):
    """Labels, edges of which a share r is within a class, calibrated class probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    by_class = [np.flatnonzero(y == k) for k in range(c)]
    edges = []
    for _ in range(n_edges):
        i = rng.integers(n)
        other = y[i] if rng.random() < r else (y[i] + rng.integers(1, c)) % c
        edges.append([i, rng.choice(by_class[other])])
    # a signal with a known likelihood: its posterior is calibrated by construction
    z = np.eye(c)[y] * sure * 3 + rng.normal(size=(n, c))
    log = z * sure * 3
    phi = np.exp(log - log.max(1, keepdims=True))
    return y, np.array(edges), phi / phi.sum(1, keepdims=True)


@pytest.mark.parametrize("r", [0.05, 0.2, 0.5, 0.85])
def test_em_finds_the_planted_share_with_calibrated_beliefs(r):
    y, edges, phi = planted(r)
    found = estimate_homophily(phi, edges)
    assert found.r == pytest.approx(true_homophily(edges, y), abs=0.03)
    assert found.chance == pytest.approx(0.2, abs=0.03)


def test_em_finds_chance_on_random_pairs():
    y, _, phi = planted(0.5)
    pairs = np.random.default_rng(1).integers(len(y), size=(8000, 2))
    assert estimate_homophily(phi, pairs).r == pytest.approx(0.2, abs=0.08)


def test_agreement_of_guesses_is_biased_towards_chance():
    y, edges, phi = planted(0.85, sure=0.4)
    truth = true_homophily(edges, y)
    assert estimate_homophily(phi, edges, "agree").r < truth - 0.1
    assert abs(estimate_homophily(phi, edges).r - truth) < 0.05


def test_em_takes_a_shared_subject_for_a_shared_class_and_labels_do_not():
    """Linked texts share a subject; their classes never agree. Ours for that: one end certain."""
    rng = np.random.default_rng(0)
    n, c, d = 2000, 4, 8
    y = np.arange(n) % c
    subject = np.repeat(rng.normal(size=(n // 2, d)), 2, axis=0)
    x = unit_rows(subject + np.eye(c, d)[y] + 0.1 * rng.normal(size=(n, d)))
    edges = np.stack([np.arange(0, n, 2), np.arange(1, n, 2)], axis=1)
    assert true_homophily(edges, y) == 0
    known = np.where(np.arange(n) % 7 < 2, y, -1)
    phi = np.exp(class_log_probabilities(x, few_shot_prototypes(x, known, c).vectors, 0.1))
    assert estimate_homophily(phi, edges).r > 0.8
    assert homophily_from_labels(x, edges, known, c, 0.1).r < 0.05


def test_labels_find_a_high_share():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 100)
    x = unit_rows(rng.normal(size=(4, 32))[y] + rng.normal(size=(400, 32)))
    edges = np.stack([rng.permutation(400), rng.permutation(400)], axis=1)
    same = np.stack([np.arange(400), 100 * y + rng.integers(100, size=400)], axis=1)
    edges = np.concatenate([edges[:80], same])
    known = np.where(rng.random(400) < 0.1, y, -1)
    found = homophily_from_labels(x, edges, known, 4)
    assert found.r == pytest.approx(true_homophily(edges, y), abs=0.15)
    assert found.method == "labels"


def test_chance_is_the_sum_of_squared_class_shares():
    assert chance_agreement(np.eye(3)[[0, 0, 1, 2]]) == pytest.approx(0.25 + 2 / 16)


def test_true_homophily_leaves_unknown_ends_out():
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    assert true_homophily(edges, np.array([0, 0, 1, -1])) == 0.5


# --- a language model, a person ---

CLASSES = ["cat", "dog"]


def test_judge_asks_five_times_and_takes_the_majority():
    texts = ["a", "b", "c"]
    edges = np.array([[0, 1], [1, 2]])
    turns = iter(["Yes", "Yes", "No", "No", "Yes", "No", "No", "No", "Yes", "Yes"])
    chat = Said(lambda question: next(turns))
    found = judge_homophily(chat, texts, edges, CLASSES, np.random.default_rng(0))
    assert len(chat.asked) == 10
    assert found.r == 0.5  # three of five, and two of five
    assert (found.n_edges, found.chance, found.method) == (2, 0.5, "llm")
    assert "[cat]" in chat.asked[0].messages[-1]["content"]


def test_replies_are_read_by_whole_words_and_the_published_rule_by_substrings():
    assert parse_same("Nonetheless, Yes.") is True
    assert parse_same("Nonetheless, Yes.", "official") is False
    assert parse_same("They are **not** alike: No") is False
    assert parse_same("Yes? On reflection: no.") is False
    assert parse_same("Both belong to different categories.") is False
    assert parse_same("Hard to say.") is None
    assert parse_same("Hard to say.", "official") is True


def test_sheet_and_its_answers():
    edges = np.array([[i, i + 1] for i in range(50)])
    chosen = edges_to_judge(edges, 10)
    assert chosen.shape == (10, 2)
    np.testing.assert_array_equal(chosen, edges_to_judge(edges, 10))
    found = judged_homophily(np.arange(10) < 3)
    assert found.r == 0.3
    assert found.se == pytest.approx(np.sqrt(0.21 / 10))


# --- bad input ---


def test_refuses_a_model_that_mostly_does_not_answer_and_shows_replies():
    chat = Said(lambda question: "As a parrot I cannot")
    with pytest.raises(InputError, match="As a parrot"):
        judge_homophily(chat, ["a", "b"], np.array([[0, 1]]), CLASSES, np.random.default_rng(0))


def test_refuses_no_edges_and_rows_that_are_no_probabilities():
    none = np.zeros((0, 2), dtype=int)
    with pytest.raises(InputError, match="no edges"):
        estimate_homophily(np.eye(3), none)
    with pytest.raises(InputError, match="sum to 1"):
        estimate_homophily(2 * np.eye(3), np.array([[0, 1]]))
    with pytest.raises(InputError, match="no edges"):
        judge_homophily(Said(str), ["a"], none, CLASSES, np.random.default_rng(0))
    with pytest.raises(InputError):
        edges_to_judge(none)
    with pytest.raises(InputError):
        judged_homophily(np.zeros(0, dtype=bool))
    with pytest.raises(InputError, match="labelled ends"):
        true_homophily(np.array([[0, 1]]), np.array([-1, 0]))


def test_refuses_too_few_edges_at_labelled_nodes():
    with pytest.raises(InputError, match="20 are needed"):
        homophily_from_labels(np.eye(4), np.array([[0, 1]]), np.array([0, 0, 1, 1]), 2)
