"""The estimator on a small planted graph: both regimes, few labels, dropped classes, bad input."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from practicum.data.graph import text_graph
from practicum.errors import InputError
from practicum.graphs.llm_bp import LLMBP, compare_tag, judged_homophily
from practicum.graphs.llm_bp.arms import ARMS, make_cell, score
from practicum.models.chat import Chat, Reply
from practicum.models.embed import unit_rows

CLASSES = ["cat", "dog", "bird"]


class World:
    """Texts of three classes with noisy embeddings, and edges of which a share r agrees."""

    def __init__(self, r=0.9, n=240, noise=1.1, seed=0):
        rng = np.random.default_rng(seed)
        self.y = np.arange(n) % 3
        self.texts = [f"{CLASSES[k]} story {i}" for i, k in enumerate(self.y)]
        x = unit_rows(np.eye(3, 16)[self.y] + noise * rng.normal(size=(n, 16)) / 4)
        self.table = dict(zip(self.texts, x, strict=True))
        self.table |= dict(zip(CLASSES, np.eye(3, 16), strict=True))
        edges = []
        for i in range(n):
            for _ in range(2):
                same = rng.random() < r
                pool = np.flatnonzero((self.y == self.y[i]) == same)
                edges.append([i, rng.choice(pool)])
        self.edges = np.array(edges)
        self.graph = text_graph(self.edges, self.texts, [CLASSES[k] for k in self.y])

    def encode(self, texts):
        return np.array([self.table[t] for t in texts])


@pytest.fixture(scope="module")
def alike():
    return World(0.9)


@pytest.fixture(scope="module")
def different():
    return World(0.05)


def settings(world, **options):
    return {"classes": CLASSES, "encoder": world.encode, "adapt": "none", **options}


def accuracy(model, world):
    return (model.predict() == world.y).mean()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_graph_helps_in_both_regimes(alike, different):
    for world, r in ((alike, 0.9), (different, 0.05)):
        for coupling in ("odds", "uniform", "paper"):
            model = LLMBP(**settings(world, homophily=r, coupling=coupling)).fit(world.graph)
            text = (model.prior_.argmax(1) == world.y).mean()
            assert accuracy(model, world) > text
            np.testing.assert_allclose(model.predict_proba().sum(1), 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_tell_the_regime(alike, different):
    for world, low, high in ((alike, 0.7, 1), (different, 0, 0.3)):
        y = [CLASSES[k] if i % 5 == 0 else None for i, k in enumerate(world.y)]
        model = LLMBP(**settings(world)).fit(world.graph, y=y)
        assert low <= model.homophily_ <= high
        assert model.homophily_source_ == "labels"
        shown = np.array([v is not None for v in y])
        assert (model.predict() == world.y)[shown].all(), "labelled nodes keep their class"


def test_without_labels_it_is_em_and_labels_are_refused(alike):
    assert LLMBP(**settings(alike)).fit(alike.graph).homophily_source_ == "em"
    with pytest.raises(InputError, match="label more nodes"):
        LLMBP(**settings(alike, homophily="labels")).fit(alike.graph)


def test_labels_the_graph_holds_are_not_peeked_at(alike):
    blind = text_graph(alike.edges, alike.texts)
    one = LLMBP(**settings(alike)).fit(alike.graph).predict_proba()
    np.testing.assert_array_equal(one, LLMBP(**settings(alike)).fit(blind).predict_proba())


def test_neutral_homophily_changes_nothing(alike):
    model = LLMBP(**settings(alike, homophily=1 / 3, coupling="uniform")).fit(alike.graph)
    np.testing.assert_allclose(model.predict_proba(), model.prior_, atol=1e-9)


def test_every_form_of_the_graph_gives_the_same(alike):
    base = LLMBP(**settings(alike, homophily=0.8)).fit(alike.graph).predict_proba()
    n = len(alike.y)
    made = nx.Graph()
    made.add_nodes_from((i, {"text": t}) for i, t in enumerate(alike.texts))
    made.add_edges_from(alike.edges.tolist())
    matrix = csr_array((np.ones(len(alike.edges)), alike.edges.T), shape=(n, n))
    for graph in (made, matrix, alike.edges, alike.edges.T):
        model = LLMBP(**settings(alike, homophily=0.8)).fit(graph, alike.texts)
        np.testing.assert_allclose(model.predict_proba(), base, atol=1e-9)


def test_a_class_nobody_predicts_is_named_and_left_out(alike):
    annotate = lambda texts: [0 if t.startswith("cat") else 1 for t in texts]  # noqa: E731
    with pytest.warns(UserWarning, match="annotator: bird; they will never be the answer"):
        model = LLMBP(**settings(alike, annotator=annotate, homophily=0.8)).fit(alike.graph)
    assert model.dropped_classes_ == ["bird"]
    assert model.predict_proba().shape == (240, 3)
    assert (model.predict_proba()[:, 2] == 0).all()


class Reader(Chat):
    """Reads the first word of a text, and compares those of two."""

    name = "reader"

    def replies(self, requests):
        return [Reply(self.said(r.messages[-1]["content"])) for r in requests]

    def said(self, question):
        if "The first text is" in question:
            first, second = (question.split(f"The {k} text is:\n")[1] for k in ("first", "second"))
            return "Yes" if first.split()[0] == second.split()[0] else "No"
        return question.split("Text: ")[1].split()[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_language_model_annotates_and_judges(alike, different):
    for world, low, high in ((alike, 0.8, 1), (different, 0, 0.15)):
        model = LLMBP(**settings(world, annotator=Reader(), homophily="llm")).fit(world.graph)
        assert low <= model.homophily_ <= high
        seen = LLMBP(**settings(world, annotator=Reader())).fit(world.graph)
        assert seen.homophily_source_ == "labels", "its answers are as good as labels"
        assert abs(seen.homophily_ - model.homophily_) < 0.25


def test_judged_edges_are_taken(alike):
    judged = judged_homophily(np.arange(20) < 15)
    model = LLMBP(**settings(alike, homophily=judged)).fit(alike.graph)
    assert (model.homophily_, model.homophily_source_) == (0.75, "judged")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_logistic_potentials_and_averaging(alike):
    y = np.where(np.arange(240) % 4 == 0, alike.y, -1)
    plain = LLMBP(**settings(alike, homophily=0.9)).fit(alike.graph, y=y)
    fitted = LLMBP(**settings(alike, homophily=0.9, few_shot="logistic")).fit(alike.graph, y=y)
    averaged = LLMBP(**settings(alike, homophily=0.9, aggregate_first=True)).fit(alike.graph, y=y)
    assert accuracy(fitted, alike) > 0.8
    assert accuracy(averaged, alike) > 0.8
    assert not np.allclose(plain.prior_, fitted.prior_)


def test_embeddings_of_ones_own(alike):
    x = alike.encode(alike.texts)
    with pytest.warns(UserWarning, match="not of unit length"):
        model = LLMBP(**settings(alike, homophily=0.9)).fit(alike.edges, embeddings=3 * x)
    given = LLMBP(**settings(alike, homophily=0.9)).fit(alike.graph)
    np.testing.assert_allclose(model.predict_proba(), given.predict_proba(), atol=1e-6)
    y = np.where(np.arange(240) % 4 == 0, alike.y, -1)
    numbered = LLMBP(["0", "1", "2"], homophily=0.9).fit(alike.edges, embeddings=x, y=y)
    assert accuracy(numbered, alike) > 0.8


def test_weights_count_only_when_asked(alike):
    heavy = text_graph(alike.edges, alike.texts, weights=np.full(len(alike.edges), 3.0))
    base = LLMBP(**settings(alike, homophily=0.8)).fit(alike.graph).predict_proba()
    off = LLMBP(**settings(alike, homophily=0.8)).fit(heavy).predict_proba()
    on = LLMBP(**settings(alike, homophily=0.8, use_weights=True)).fit(heavy).predict_proba()
    np.testing.assert_array_equal(off, base)
    assert np.abs(on - base).max() > 0.01


def test_it_is_an_estimator(alike):
    model = LLMBP(**settings(alike))
    named = LLMBP(CLASSES, homophily=0.3)
    assert clone(named).get_params() == named.get_params()
    with pytest.raises(NotFittedError):
        model.predict()


def test_same_seed_same_answer(alike):
    one, two = (LLMBP(**settings(alike)).fit(alike.graph).predict_proba() for _ in range(2))
    np.testing.assert_array_equal(one, two)


# --- bad input ---


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"classes": ["0", "1"]}, "descriptive names"),
        ({"classes": None}, "0 classes"),
        ({"classes": ["cat"]}, "1 classes"),
        ({"homophily": 1.5}, "from 0 to 1"),
        ({"homophily": "guess"}, "labels, em, llm"),
        ({"homophily": "llm"}, "needs a language model"),
        ({"coupling": "published"}, "odds, uniform, paper"),
        ({"adapt": "finetune"}, "subspace, none, prompt"),
        ({"annotator": "gpt"}, "'names', a Chat"),
        ({"annotator": None}, "no node is labelled"),
        ({"temperature": 0.0}, "temperature"),
        ({"damping": 1.0}, "damping"),
    ],
)
def test_refuses_options(alike, options, wanted):
    blind = text_graph(alike.edges, alike.texts)
    with pytest.raises(InputError, match=wanted):
        LLMBP(**settings(alike) | options).fit(blind)


def test_refuses_data(alike):
    model = LLMBP(**settings(alike))
    texts = list(alike.texts)
    with pytest.raises(InputError, match="text 3 is an empty text"):
        model.fit(alike.edges, [*texts[:3], "", *texts[4:]])
    with pytest.raises(InputError, match="nodes are 0 to 99"):
        model.fit(alike.edges, texts[:100])
    with pytest.raises(InputError, match="100 texts for 240 nodes"):
        model.fit(alike.graph, texts[:100])
    with pytest.raises(InputError, match="no texts"):
        model.fit(csr_array((3, 3)))
    with pytest.raises(InputError, match="2 labels for 240 nodes"):
        model.fit(alike.graph, y=["cat", "dog"])
    with pytest.raises(InputError, match="'fish' is none of the classes"):
        model.fit(alike.graph, y=["fish"] + [None] * 239)
    with pytest.raises(InputError, match="shape"):
        model.fit(alike.graph, embeddings=np.ones((3, 16)))
    with pytest.raises(InputError, match="dimensions"):
        model.fit(alike.edges, embeddings=np.ones((240, 5)))
    with pytest.raises(InputError, match="fitted on"):
        model.fit(alike.graph).predict_proba(alike.texts)


def test_zero_homophily_is_clipped_and_said(different):
    with pytest.warns(UserWarning, match="0.01 is used"):
        LLMBP(**settings(different, homophily=0.0)).fit(different.graph)


# --- arms ---


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_compare_on_ones_own_graph(different):
    table = compare_tag(
        different.graph, encoder=different.encode, shots=[0, 3], seeds=2, arms=list(ARMS)
    )
    assert len(table) == 2 * 2 * len(ARMS)
    mean = table.groupby("arm").accuracy.mean()
    assert mean["bp"] > mean["raw"] > mean["na"]
    with pytest.raises(InputError, match="no arm 'gnn'"):
        compare_tag(different.graph, arms=["gnn"])
    blind = text_graph(different.edges, different.texts, classes=CLASSES)
    with pytest.raises(InputError, match="no labels"):
        compare_tag(blind, encoder=different.encode, arms=["raw"])


def test_scores_leave_shown_nodes_out_and_count_dropped_classes_as_missed(alike):
    x, names = alike.encode(alike.texts), np.eye(3, 16)
    cell = make_cell(alike.graph, x, names, 5, np.random.default_rng(0))
    found = score(cell, cell.phi, 3)
    assert found["confusion"].sum() == 240 - 15
    assert found["accuracy"] == pytest.approx(np.trace(found["confusion"]) / 225)
    from sklearn.metrics import f1_score

    test = cell.shown < 0
    guess = cell.predict(cell.phi)[test]
    wanted = f1_score(alike.graph.labels[test], guess, average="macro")
    assert found["macro_f1"] == pytest.approx(wanted)


def test_permuted_edges_keep_degrees_and_lose_the_classes(alike):
    x, names = alike.encode(alike.texts), np.eye(3, 16)
    cell = make_cell(alike.graph, x, names, 0, np.random.default_rng(0), permute=True)
    before, after = (np.bincount(e.ravel()) for e in (alike.graph.edges, cell.edges))
    assert sorted(before) == sorted(after)
    same = cell.labels[cell.edges]
    assert (same[:, 0] == same[:, 1]).mean() == pytest.approx(1 / 3, abs=0.08)


# --- the types of the field ----------------------------------------------------------------------


def test_labels_by_node_as_networkx_holds_them(alike):
    graph = nx.Graph()
    graph.add_nodes_from((f"n{i}", {"text": t}) for i, t in enumerate(alike.texts))
    graph.add_edges_from((f"n{i}", f"n{j}") for i, j in alike.edges.tolist())
    known = {f"n{i}": CLASSES[alike.y[i]] for i in range(30)}
    by_node = LLMBP(**settings(alike)).fit(graph, y=known)
    row = [CLASSES[k] if i < 30 else None for i, k in enumerate(alike.y)]
    np.testing.assert_array_equal(
        by_node.predict_proba(), LLMBP(**settings(alike)).fit(graph, y=row).predict_proba()
    )
    with pytest.raises(InputError, match="labels of nodes that are not there: n999"):
        LLMBP(**settings(alike)).fit(graph, y={**known, "n999": "cat"})


def test_class_names_as_an_array_but_not_as_a_set(alike):
    own = settings(alike) | {"classes": np.array(CLASSES)}
    assert LLMBP(**own).fit(alike.graph).classes_ == tuple(CLASSES)
    model = LLMBP(**own)
    with pytest.raises(InputError, match="a fixed order"):  # nobody knows a set's numbers
        model.set_params(classes=set(CLASSES)).fit(alike.graph)
    with pytest.raises(InputError, match=r"n_iter=2\.5"):
        LLMBP(**settings(alike)).set_params(n_iter=2.5).fit(alike.graph)


def test_few_shot_comparison_needs_no_class_names(alike):
    x = alike.encode(alike.texts)  # somebody else's space: 16 dimensions, no encoder for names
    own = {"labels": [CLASSES[k] for k in alike.y], "embeddings": x, "seeds": 2}

    def no_encoder(texts):
        raise AssertionError("class names were embedded")

    table = compare_tag(alike.edges, shots=[5], encoder=no_encoder, arms=["raw", "bp"], **own)
    assert table.shape == (4, 6)
    wide = lambda names: np.eye(5)[: len(names)]  # noqa: E731
    with pytest.raises(InputError, match="embeddings have 16 dimensions, class names 5"):
        compare_tag(alike.edges, shots=[0], encoder=wide, arms=["raw"], **own)
