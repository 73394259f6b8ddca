"""Prototypes, annotators, task-adaptive embeddings, class names, leaks, baselines."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.graphs.llm_bp.baselines import (
    average_neighbours,
    label_propagation,
    label_spreading,
    personalised_propagation,
    simple_graph_convolution,
)
from practicum.graphs.llm_bp.prototypes import (
    adapt_to_classes,
    chat_annotator,
    check_class_names,
    check_leak,
    class_log_probabilities,
    draw_shots,
    few_shot_prototypes,
    names_annotator,
    parse_class,
    task_instruction,
    zero_shot_prototypes,
)
from practicum.models.chat import Chat, Reply
from practicum.models.embed import unit_rows


class Said(Chat):
    name = "said"

    def __init__(self, answer):
        self.answer = answer

    def replies(self, requests):
        return [Reply(self.answer(r.messages[-1]["content"])) for r in requests]


def blobs(n=60, c=3, d=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return unit_rows(3 * np.eye(c, d)[y] + rng.normal(size=(n, d))), y


def test_zero_shot_averages_the_ten_answers_nearest_their_centroid():
    x, y = blobs()
    made = zero_shot_prototypes(
        x, 3, lambda i: y[i], np.random.default_rng(0), per_class=20, top=10
    )
    assert len(made.sample) == 60
    for c in range(3):
        own = x[made.sample[made.answers == c]]
        near = own[np.argsort(np.linalg.norm(own - own.mean(0), axis=1))[:10]]
        np.testing.assert_allclose(made.vectors[c], unit_rows(near.mean(0)[None])[0])


def test_a_class_without_an_answer_is_left_out_and_numbers_are_kept():
    x, y = blobs()
    annotate = lambda i: np.where(y[i] == 1, -1, y[i])  # noqa: E731
    made = zero_shot_prototypes(x, 3, annotate, np.random.default_rng(0))
    assert made.kept.tolist() == [0, 2]
    assert made.missing == 20
    assert made.vectors.shape == (2, 8)


def test_few_shot_is_the_normalised_mean():
    x, y = blobs()
    shown = draw_shots(y, 5, np.random.default_rng(0))
    assert np.bincount(shown[shown >= 0]).tolist() == [5, 5, 5]
    made = few_shot_prototypes(x, shown, 3)
    np.testing.assert_allclose(made.vectors[1], unit_rows(x[shown == 1].mean(0)[None])[0])


def test_potentials_are_a_softmax_of_cosines_over_the_temperature():
    x = np.array([[1.0, 0.0], [0.6, 0.8]])
    made = np.exp(class_log_probabilities(x, np.eye(2), 0.025))
    assert made[1, 1] == pytest.approx(1 / (1 + np.exp(-0.2 / 0.025)))
    with pytest.raises(InputError, match="temperature"):
        class_log_probabilities(x, np.eye(2), 0.0)


def test_adapting_keeps_only_what_tells_classes_apart():
    """With alpha 0 an embedding lies in the span of the class names; with 1 nothing changes."""
    rng = np.random.default_rng(0)
    x, names = unit_rows(rng.normal(size=(20, 10))), unit_rows(rng.normal(size=(4, 10)))
    made = adapt_to_classes(x, names, 0.0)
    centred = names - names.mean(0)
    v = np.linalg.svd(centred, full_matrices=False)[2][:3]
    np.testing.assert_allclose(made @ v.T @ v, made, atol=1e-10)
    np.testing.assert_allclose(adapt_to_classes(x, names, 1.0), x)
    np.testing.assert_allclose(np.linalg.norm(adapt_to_classes(x, names, 0.5), axis=1), 1)


def test_instruction_is_the_published_one():
    before, after = task_instruction("webpage text", ["course", "faculty"])
    assert before.startswith("<instruct>Given the webpage text, classify it into one of the")
    assert "following 2 classes:\ncourse\nfaculty\n<query>\n" in before
    assert after == "\n<response>"


# --- annotators ---


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("The text belongs to NET.", 0),
        ("web or net", -2),
        ("neither", -1),
        ("internet", -1),
        ("Machine Learning", 2),
    ],
)
def test_replies_are_parsed(reply, wanted):
    assert parse_class(reply, ["net", "web", "machine learning (cs.LG)"]) == wanted


def test_chat_annotator_reads_texts_and_refuses_noise():
    texts, classes = ["a cat", "a dog", "a cat too"], ["cat", "dog"]
    good = Said(lambda q: "It is a " + ("cat" if "Text: a cat" in q else "dog"))
    assert chat_annotator(good, texts, classes)(np.array([0, 1, 2])).tolist() == [0, 1, 0]
    with pytest.raises(InputError, match=r"0 of 3 replies.*cat and dog"):
        chat_annotator(Said(lambda q: "cat and dog"), texts, classes)(np.arange(3))


def test_names_annotator_takes_the_nearest_name():
    x, y = blobs()
    assert (names_annotator(x, np.eye(3, 8))(np.arange(60)) == y).mean() > 0.9
    with pytest.raises(InputError, match="dimensions"):
        names_annotator(x, np.eye(3))


# --- bad input ---


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["only"], "1 classes"),
        (["a", "b", "A"], "named twice"),
        (["0", "1"], "descriptive names"),
        (["a", ""], "number or empty"),
        ("games,net", "a list of names"),
    ],
)
def test_refuses_class_names_that_say_nothing(names, wanted):
    with pytest.raises(InputError, match=wanted):
        check_class_names(names)


def test_numbers_pass_where_every_class_has_labels():
    assert check_class_names(["0", "1"], descriptive=False) == ("0", "1")


def test_refuses_one_class_only():
    x, _ = blobs()
    with pytest.raises(InputError, match="1 of 3 classes"):
        zero_shot_prototypes(x, 3, lambda i: np.zeros(len(i), int), np.random.default_rng(0))
    with pytest.raises(InputError, match="labelled nodes of 1 class"):
        few_shot_prototypes(x, np.where(np.arange(60) < 3, 0, -1), 3)


def test_refuses_more_shots_than_nodes():
    with pytest.raises(InputError, match="more than 3"):
        draw_shots(np.array([0, 0, 0, 1, 1, 1, 1]), 3, np.random.default_rng(0))


def test_leak_is_warned_of():
    texts = ["the game of cat", "cat", "dog food", "bone"]
    with pytest.warns(UserWarning, match="'cat' in 100%"):
        assert check_leak(texts, np.array([0, 0, 1, 1]), ["cat", "bird"]) == {"cat": 1.0}
    assert check_leak(["concatenate"], np.array([0]), ["cat", "dog"]) == {}


# --- baselines ---

PATH = np.array([[0, 1], [1, 2], [3, 4]])


def test_averaging_is_the_published_formula():
    x = unit_rows(np.random.default_rng(0).normal(size=(5, 3)))
    made = average_neighbours(x, PATH)
    np.testing.assert_allclose(made[1], unit_rows((x[1] + (x[0] + x[2]) / 2)[None])[0])


def test_label_propagation_has_its_harmonic_solution():
    """Between two known ends a node takes the mean; beyond reach, the fallback."""
    shown, fallback = np.array([0, -1, 1, -1, -1]), np.tile([0.2, 0.8], (5, 1))
    made = label_propagation(shown, PATH, fallback)
    np.testing.assert_allclose(made[1], [0.5, 0.5])
    np.testing.assert_allclose(made[3], [0.2, 0.8])


def test_spreading_equals_its_closed_form():
    shown, fallback = np.array([0, -1, 1, -1, -1]), np.full((5, 2), 0.5)
    made = label_spreading(shown, PATH, fallback, alpha=0.5, n_iter=500)
    a = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) / np.sqrt(np.outer([1, 2, 1], [1, 2, 1]))
    exact = np.linalg.solve(np.eye(3) - 0.5 * a, np.array([[1, 0], [0, 0], [0, 1]]))
    np.testing.assert_allclose(made[:3], exact / exact.sum(1, keepdims=True), atol=1e-3)


def test_appnp_equals_its_closed_form():
    phi = np.random.default_rng(0).dirichlet([1, 1], 3)
    edges = np.array([[0, 1], [1, 2]])
    made = personalised_propagation(phi, edges, teleport=0.3, n_iter=300)
    a = np.eye(3) + np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    a = a / np.sqrt(np.outer(a.sum(1), a.sum(1)))
    np.testing.assert_allclose(made, 0.3 * np.linalg.solve(np.eye(3) - 0.7 * a, phi))


def test_sgc_learns_and_refuses_one_class():
    x, y = blobs()
    shown = draw_shots(y, 5, np.random.default_rng(0))
    none = np.zeros((0, 2), dtype=int)
    made = simple_graph_convolution(x, none, shown, 3)
    assert (made.argmax(1) == y).mean() > 0.8
    with pytest.raises(InputError, match="two classes"):
        simple_graph_convolution(x, none, np.where(shown == 0, 0, -1), 3)


def test_refuses_no_known_class():
    nobody = np.full(5, -1)
    for baseline in (label_propagation, label_spreading):
        with pytest.raises(InputError, match="no node has a known class"):
            baseline(nobody, PATH, np.full((5, 2), 0.5))
    with pytest.raises(InputError, match="teleport"):
        personalised_propagation(np.eye(2), PATH[:1], teleport=0.0)
