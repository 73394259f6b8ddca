"""The memory: adding is undone by removing, explanations, hygiene, snapshots, other programs."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from practicum.vision.visual_memory import (
    VisualMemory,
    VisualMemoryClassifier,
    count_votes,
    export,
    nearest,
    normalised,
    read_vectors,
    soft_weights,
)
from practicum.vision.visual_memory.formats import read_neighbours
from practicum.vision.visual_memory.votes import VOTES


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.data, data.target


@pytest.fixture
def memory(digits):
    X, y = digits
    made = VisualMemory(k=20)
    made.add(X[:600], labels=y[:600])
    return made


def everything(memory, Q):
    d, ids = memory.kneighbors(Q, 30)
    votes = [memory.predict(Q, vote=vote) for vote in VOTES]
    return [d, ids, memory.predict_proba(Q), *votes]


# --- forgetting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_anchor_5_adding_and_removing_is_the_identity_to_the_bit(digits, dtype, on_disk, tmp_path):
    X, y = digits
    memory = VisualMemory(tmp_path / "m.vm" if on_disk else None, dtype=dtype, k=20)
    ids = memory.add(X[:600], labels=y[:600])
    before, digest = everything(memory, X[1000:1100]), memory.digest
    more = memory.add(X[600:900], labels=y[600:900])
    memory.remove(more)
    for a, b in zip(before, everything(memory, X[1000:1100]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert memory.digest == digest
    memory.remove(ids[100:300])
    rebuilt = VisualMemory(dtype=dtype, k=20)
    keep = [*range(100), *range(300, 600)]
    rebuilt.add(X[keep], labels=y[keep], ids=[ids[i] for i in keep])
    for a, b in zip(
        everything(rebuilt, X[1000:1100]), everything(memory, X[1000:1100]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    memory.compact()
    for a, b in zip(
        everything(rebuilt, X[1000:1100]), everything(memory, X[1000:1100]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    memory.close()


def test_anchor_5_a_class_that_was_removed_is_never_predicted(memory, digits):
    X, _ = digits
    columns = memory.classes_.tolist()
    with pytest.warns(UserWarning, match="no row is left of: 8"):
        receipt = memory.remove(where="label == 8")
    assert receipt.last_of_class == [8]
    assert 8 not in memory.predict(X[1000:])
    assert memory.classes_.tolist() == [c for c in columns if c != 8]
    assert memory.curve(X[:600], [8] * 600, ks=[5])["accuracy"].max() == 0.0


def test_anchor_6_duplicates_are_both_neighbours_and_only_the_row_itself_is_left_out():
    memory = VisualMemory()
    memory.add(
        np.array([[1.0, 0], [1.0, 0], [0, 1.0], [0.1, 1.0]]),
        labels=["a", "b", "c", "c"],
        ids=["p", "q", "r", "s"],
    )
    _, ids = memory.kneighbors(np.array([[1.0, 0]]), 2)
    assert ids.tolist() == [["p", "q"]]
    table = memory.reliability(k=1).set_index("id")
    assert table.loc["p", "wrong"] == 1  # the nearest of q
    assert table.loc["q", "wrong"] == 1
    assert table.loc["r", "correct"] == 1


def test_anchor_7_string_labels_and_ints_give_the_same_answers(memory, digits):
    X, y = digits
    named = VisualMemory(k=20)
    named.add(X[:600], labels=[f"d{label}" for label in y[:600]])
    found = memory.predict(X[1000:])
    assert named.predict(X[1000:]).tolist() == [f"d{label}" for label in found]
    assert found.dtype.kind == "i"
    assert 0 in found


def test_retired_rows_are_out_of_searches_and_go_when_compacted(digits, tmp_path):
    X, y = digits
    with VisualMemory(tmp_path / "m.vm") as memory:
        ids = memory.add(X[:50], labels=y[:50])
        memory.snapshot("monday")
        receipt = memory.remove(ids[:5], erase=False)
        assert not receipt.erased
        assert "retired" in str(receipt)
        assert len(memory) == 45
        assert memory.diff("monday") == {"added": [], "removed": ids[:5]}
        assert len(memory.at("monday")) == 50
        assert memory.at("monday").kneighbors(X[0], 1)[1][0, 0] == ids[0]
        memory.compact()  # the snapshot holds them
        assert memory.at("monday").kneighbors(X[0], 1)[1][0, 0] == ids[0]
        memory.store.drop_snapshot("monday")
        assert memory.compact() > 0
        assert memory.verify_erased(X[:5]).clean
        assert not memory.verify_erased(X[5:6]).clean
        assert memory.audit() == []
        assert len(memory) == 45


def test_verify_erased_by_id(tmp_path):
    with VisualMemory(tmp_path / "m.vm") as memory:
        memory.add(np.eye(3), labels=["a", "b", "b"], ids=["portrait-of-alice", "b", "c"])
        assert not memory.verify_erased(["portrait-of-alice"]).clean
        with pytest.warns(UserWarning, match="no row is left"):
            memory.remove("portrait-of-alice")
        assert memory.verify_erased(["portrait-of-alice"]).clean


def test_where_selects_by_column():
    memory = VisualMemory()
    meta = {"source": ["alice", "bob", "alice"], "group": ["x", "x", "y"]}
    memory.add(np.eye(3), labels=["a", "a", "a"], ids=["1", "2", "3"], meta=meta)
    assert memory.remove(where={"source": "alice", "group": "y"}).ids == ["3"]
    assert memory.remove(where="source != alice").ids == ["2"]
    assert memory.frame()["id"].tolist() == ["1"]


# --- why -----------------------------------------------------------------------------------------


def test_shares_of_an_explanation_are_the_vote(memory, digits):
    X, _ = digits
    why = memory.explain(X[1000], k=12)
    assert why.winner == memory.predict(X[1000:1001], k=12)[0]
    assert why.table["share"].sum() == pytest.approx(1.0)
    by_label = why.table.groupby("label")["share"].sum()
    p = memory.predict_proba(X[1000:1001], k=12)[0]
    for label, share in by_label.items():
        assert share == pytest.approx(p[memory.classes_.tolist().index(label)])


def test_removing_the_flip_set_flips_and_one_row_less_does_not(memory, digits):
    X, _ = digits
    flipped = 0
    for i in range(1000, 1400, 4):
        found = memory.counterfactual(X[i], k=7)
        if found.robust or found.new_winner is None:
            continue
        flipped += 1
        copy = VisualMemory(k=20)
        frame = memory.frame()
        copy.add(memory.vectors(), labels=frame["label"].tolist(), ids=frame["id"].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if found.n > 1:
                copy.remove(found.ids[:-1], erase=False)
                assert copy.predict(X[i : i + 1], k=7)[0] == found.winner
            copy.remove(found.ids[-1:], erase=False)
        assert copy.predict(X[i : i + 1], k=7)[0] == found.new_winner
        if flipped == 8:
            break
    assert flipped == 8


def test_a_decision_without_rivals_stays():
    memory = VisualMemory()
    memory.add(np.random.default_rng(0).random((80, 3)), labels=["a"] * 80)
    found = memory.counterfactual(np.ones(3), k=5)
    assert found.robust
    assert found.n == 50
    few = VisualMemory()
    few.add(np.eye(3), labels=["a", "a", "a"])
    assert few.counterfactual(np.ones(3), k=2).new_winner is None


def test_the_strip_and_the_page(tmp_path):
    from PIL import Image

    from practicum.models.vision import get

    encoder = get("pixels", size=4, cache=None)
    memory = VisualMemory(encoder=encoder)
    colours = ["red", "darkred", "blue", "navy"]
    memory.add(
        images=[Image.new("RGB", (20, 10), c) for c in colours],
        labels=["<b>red</b>", "<b>red</b>", "blue", "blue"],
    )
    why = memory.explain(Image.new("RGB", (9, 9), "tomato"), k=3)
    assert why.winner == "<b>red</b>"
    strip = why.plot(columns=2)
    assert strip.size == (2 * 104, 2 * 144)
    assert strip.getpixel((52, 52)) == (255, 99, 71)  # the query, in the first place
    page = why.html()
    assert page.count("data:image/png;base64,") == 4
    assert "<b>red</b>" not in page  # labels are text, never markup


# --- hygiene -------------------------------------------------------------------------------------


def test_reliability_counts_by_hand(digits):
    X, y = digits
    memory = VisualMemory()
    memory.add(X[:80], labels=y[:80])
    table = memory.reliability(k=5)
    unit = normalised(X[:80])
    d = 1 - unit.astype(float) @ unit.astype(float).T
    np.fill_diagonal(d, np.inf)
    near = np.argsort(d, axis=1, kind="stable")[:, :5]
    wrong, correct = count_votes(near, y[:80][near] == y[:80][:, None], 80)
    np.testing.assert_array_equal(table["wrong"], wrong)
    np.testing.assert_array_equal(table["correct"], correct)
    np.testing.assert_allclose(table["soft_weight"], soft_weights(wrong))


def test_pruning_softly_weighs_and_is_undone(memory, digits):
    X, _ = digits
    before = memory.predict_proba(X[1000:1050])
    ids = memory.prune("soft")
    assert 0 < len(ids) < 600
    frame = memory.frame().set_index("id")
    assert (frame.loc[ids, "trust"] < 1).all()
    assert not np.array_equal(memory.predict_proba(X[1000:1050]), before)
    assert memory.restore() == len(ids)
    np.testing.assert_array_equal(memory.predict_proba(X[1000:1050]), before)


def test_pruning_hard_takes_out_and_is_undone(memory, digits):
    X, _ = digits
    before = everything(memory, X[1000:1050])
    table = memory.reliability(10)
    expected = table["id"][table["wrong"] - table["correct"] >= 1].tolist()
    assert memory.prune("hard") == expected
    assert len(memory) == 600 - len(expected)
    assert memory.restore() == len(expected)
    for a, b in zip(before, everything(memory, X[1000:1050]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert memory.prune("hard", rule="wrong", threshold=1e6) == []


def test_pruning_by_a_score_of_ones_own(memory):
    scores = np.arange(600.0)[::-1].copy()
    gone = memory.prune("score", column=scores, threshold=0.05, undoable=False)
    assert gone == [f"g0-{i}" for i in range(599, 569, -1)][::-1]
    assert memory.restore() == 0  # erased: nothing comes back
    assert len(memory) == 570


def test_blame_names_the_rows_that_mislead(digits):
    X, y = digits
    memory = VisualMemory(k=5)
    labels = y[:600].copy()
    labels[7] = (labels[7] + 1) % 10  # one wrong label
    memory.add(X[:600], labels=labels)
    worst = memory.blame(X[:600], y[:600])["id"].tolist()
    assert worst.index("g0-7") < 10


def test_weights_of_zero_do_not_vote(digits):
    X, y = digits
    memory = VisualMemory(k=30)
    memory.add(X[:100], labels=y[:100], meta={"weight": [1.0] * 100})
    other = VisualMemory(k=30)
    weights = np.where(y[:100] == 1, 0.0, 1.0)
    other.add(X[:100], labels=y[:100], meta={"weight": weights.tolist()})
    ones = X[1000:][y[1000:] == 1]
    assert (memory.predict(ones) == 1).mean() > 0.5
    assert other.predict_proba(ones)[:, 1].max() == 0.0


def test_strangers_are_farther(digits):
    X, y = digits
    memory = VisualMemory()
    memory.add(X[:1000][y[:1000] != 8], labels=y[:1000][y[:1000] != 8])
    score = memory.ood_score(X[1000:])
    assert score[y[1000:] == 8].mean() > score[y[1000:] != 8].mean()
    assert memory.ood_score(X[1000:1003], stat="median").shape == (3,)


def test_calibration_lowers_the_cross_entropy(digits):
    X, y = digits
    order = np.random.default_rng(0).permutation(len(y))  # other people wrote the later digits
    memory, rest = VisualMemory(k=20), order[600:]
    memory.add(X[order[:600]], labels=y[order[:600]])

    def loss():
        p = memory.predict_proba(X[rest])[np.arange(len(rest)), y[rest]]
        return -np.log(np.maximum(p, 1e-3)).mean()

    before = loss()
    memory.calibrate()
    assert loss() < before


def test_the_curve_is_what_single_predictions_say(memory, digits):
    X, y = digits
    curve = memory.curve(X[600:700], y[600:700], ks=[1, 7, 30])
    for row in curve.itertuples():
        right = (memory.predict(X[600:700], k=row.k, vote=row.vote) == y[600:700]).mean()
        assert row.accuracy == pytest.approx(right)


@pytest.mark.parametrize("index", ["faiss-ivf", "hnsw", "usearch"])
def test_approximate_indexes_are_made_anew_after_every_change(digits, index, tmp_path):
    X, y = digits
    with VisualMemory(tmp_path / "m.vm", index=index, k=10) as memory:
        ids = memory.add(X[:800], labels=y[:800])
        exact = VisualMemory(k=10)
        exact.add(X[:800], labels=y[:800])
        assert (memory.predict(X[800:]) == exact.predict(X[800:])).mean() > 0.95
        _, found = memory.kneighbors(X[5], 1)
        assert found[0, 0] == ids[5]
        memory.remove([ids[5]])
        assert memory.kneighbors(X[5], 1)[1][0, 0] != ids[5]
        memory.add(X[5:6], labels=y[5:6], ids=["again"])
        assert memory.kneighbors(X[5], 1)[1][0, 0] == "again"


# --- scikit-learn --------------------------------------------------------------------------------

COSINE = {"check_estimators_dtypes": "its data, rounded to integers, hold a row of zeros"}


@parametrize_with_checks(
    [VisualMemoryClassifier(k=5)], expected_failed_checks=lambda estimator: COSINE
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_classifier_is_the_memory(memory, digits):
    X, y = digits
    model = VisualMemoryClassifier(k=20).fit(X[:300], y[:300])
    model.partial_fit(X[300:600], y[300:600])
    np.testing.assert_array_equal(model.predict(X[1000:]), memory.predict(X[1000:]))
    np.testing.assert_array_equal(model.predict_proba(X[1000:]), memory.predict_proba(X[1000:]))


# --- other programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npz", "parquet", "faiss"])
def test_what_is_exported_is_read_again(memory, kind, tmp_path):
    path = export(memory, tmp_path / f"m.{kind}")
    table = read_vectors(path)
    np.testing.assert_array_equal(table.vectors.astype(np.float32), memory.vectors())
    if kind != "faiss":
        assert table.labels == memory.frame()["label"].tolist()
        assert table.ids == memory.frame()["id"].tolist()


def test_the_official_json_there_and_back(memory, tmp_path):
    path = export(memory, tmp_path / "m.json", k=15)
    record = json.loads(path.read_text())["g0-3"]
    assert set(record) == {
        "featurizer",
        "image_id",
        "image_class",
        "neighbor_image_ids",
        "neighbor_classes",
        "neighbor_distances",
    }
    assert "g0-3" not in record["neighbor_image_ids"]
    found = read_neighbours(path)
    assert found["neighbor_distances"].shape == (600, 15)
    assert (np.diff(found["neighbor_distances"]) >= 0).all()


def test_vectors_of_other_programs(tmp_path):
    import faiss
    import hnswlib
    import pyarrow as pa
    from usearch.index import Index

    X = normalised(np.random.default_rng(0).standard_normal((30, 8)))
    np.save(tmp_path / "a.npy", X)
    graph = hnswlib.Index(space="ip", dim=8)
    graph.init_index(30)
    graph.add_items(X, np.arange(30))
    graph.save_index(str(tmp_path / "a.hnsw"))
    peer = Index(ndim=8, metric="ip", dtype="f32")
    peer.add(np.arange(30), X)
    peer.save(str(tmp_path / "a.usearch"))
    cells = faiss.IndexIVFFlat(faiss.IndexFlatIP(8), 8, 2, faiss.METRIC_INNER_PRODUCT)
    cells.train(X)
    cells.add(X)
    faiss.write_index(cells, str(tmp_path / "a.faiss"))
    for name in ("a.npy", "a.hnsw", "a.usearch", "a.faiss"):
        table = read_vectors(tmp_path / name, dim=8)
        order = np.argsort([int(i) for i in table.ids]) if table.ids else np.arange(30)
        np.testing.assert_allclose(table.vectors[order], X, atol=1e-6, err_msg=name)
    laion = tmp_path / "laion" / "img_emb"
    laion.mkdir(parents=True)
    for part in range(2):
        np.save(laion / f"img_emb_{part}.npy", X[15 * part : 15 * part + 15])
        frame = pd.DataFrame({"image_path": [f"{part}/{i}" for i in range(15)], "label": part})
        frame.to_parquet(tmp_path / "laion" / f"metadata_{part}.parquet")
    table = read_vectors(tmp_path / "laion")
    np.testing.assert_array_equal(table.vectors, X)
    assert table.labels == [0] * 15 + [1] * 15
    assert table.ids[16] == "1/1"
    saved = tmp_path / "hub"
    saved.mkdir()
    batch = pa.table({"embedding": X.tolist(), "label": [i % 2 for i in range(30)]})
    with pa.ipc.new_stream(str(saved / "data-00000-of-00001.arrow"), batch.schema) as stream:
        stream.write_table(batch)
    names = {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}
    (saved / "dataset_info.json").write_text(json.dumps(names))
    table = read_vectors(saved)
    np.testing.assert_allclose(table.vectors, X, atol=1e-7)
    assert table.labels[:3] == ["cat", "dog", "cat"]


def test_segments_beyond_the_first(tmp_path, monkeypatch):
    for module in ("segments", "store", "erasing", "audit"):
        monkeypatch.setattr(f"practicum.vision.visual_memory.{module}.SEGMENT", 16)
    X = np.random.default_rng(0).standard_normal((100, 8))
    with VisualMemory(tmp_path / "m.vm") as memory:
        ids = []
        for start in range(0, 100, 30):
            part = X[start : start + 30]
            ids += memory.add(part, labels=["a"] * len(part))
        receipt = memory.remove([ids[3], ids[40], ids[99]])
        assert receipt.verified
        assert memory.audit() == []
        keep = [i for i in range(100) if i not in (3, 40, 99)]
        expected = nearest(normalised(X[:9]), normalised(X[keep]), 5)
        np.testing.assert_array_equal(memory.kneighbors(X[:9], 5)[0], expected[0])
        memory.compact()
        np.testing.assert_array_equal(memory.kneighbors(X[:9], 5)[0], expected[0])
        assert memory.audit() == []
    with VisualMemory(tmp_path / "m.vm") as memory:
        assert memory.verify_erased(X[[3, 40, 99]]).clean
        np.testing.assert_array_equal(memory.kneighbors(X[:9], 5)[0], expected[0])


# --- what people hand over, and views of the past ------------------------------------------------


def test_what_was_erased_is_gone_from_views_that_were_taken_before(digits):
    X, y = digits
    memory = VisualMemory(k=5)
    ids = memory.add(X[:20], labels=y[:20])
    memory.snapshot("monday")
    view, approximate = memory.at("monday"), memory.at("monday")
    approximate.index = "hnsw"
    approximate.kneighbors(X[0], 3)
    memory.remove(ids[:5])
    for one in (view, approximate):
        found = one.kneighbors(X[:5], 15)[1]
        assert set(found.ravel()) == set(ids[5:])
        assert len(one) == 15
        assert one.predict(X[6:7], k=1).tolist() == [y[6]]


def test_a_view_names_nothing_that_was_erased_and_keeps_its_rows_when_slots_move(digits):
    X, y = digits
    memory = VisualMemory(k=5)
    ids = memory.add(X[:20], labels=["gone"] * 5 + y[5:20].astype(str).tolist())
    memory.snapshot("monday")
    views = [memory.at("monday") for _ in range(6)]  # each is asked one thing, and nothing before
    with pytest.warns(UserWarning, match="no row is left of: gone"):
        memory.remove(ids[:5])
    memory.compact()
    assert views[0].ids == ids[5:]
    assert views[1].frame()["id"].tolist() == ids[5:]
    assert "gone" not in views[2].classes_
    assert ids[0] not in views[3]
    assert len(views[4]) == 15
    np.testing.assert_array_equal(views[5].vectors(), memory.vectors())


@pytest.mark.parametrize("path", [None, "m.vm"])
def test_vectors_that_are_there_are_never_called_erased(tmp_path, path, digits):
    torch = pytest.importorskip("torch")
    X, _ = digits
    with VisualMemory(path and tmp_path / path) as memory:
        ids = memory.add(X[:9], labels=["digit"] * 9)
        memory.remove(ids[:3])
        for form in (np.array, torch.tensor, pd.DataFrame, list, lambda x: x.tolist()):
            assert memory.verify_erased(form(X[:3])).clean
            assert len(memory.verify_erased(form(X[2:5])).hits) == 2
        assert memory.verify_erased(ids[0]).clean
        assert len(memory.verify_erased(ids).hits) == 6
    assert VisualMemory().verify_erased(X[:3]).clean


def test_one_text_is_for_all_images():
    from practicum.models.vision import get

    memory = VisualMemory(encoder=get("pixels", cache=None))
    pictures = [np.full((9, 9, 3), 40 * i + 9, np.uint8) for i in range(5)]  # as many as letters
    memory.add(images=pictures, labels=list("abcde"), meta={"source": "alice"})
    assert memory.frame()["source"].tolist() == ["alice"] * 5


def test_queries_and_rows_come_in_the_types_of_the_field(memory, digits):
    torch = pytest.importorskip("torch")
    X, y = digits
    expected = memory.predict(X[700:703]).tolist()
    for Q in (
        torch.tensor(X[700:703]),
        pd.DataFrame(X[700:703]),
        list(X[700:703]),
        X[700:703].tolist(),
        [torch.tensor(x) for x in X[700:703]],
    ):
        assert memory.predict(Q).tolist() == expected
    assert memory.predict(list(X[700].astype(np.float32))).tolist() == expected[:1]
    other = VisualMemory(k=20)
    index = np.arange(5000, 5600)  # of a frame that was filtered: no positions
    other.add(
        torch.tensor(X[:600]),
        labels=torch.tensor(y[:600]),
        ids=pd.Series(memory.ids, index=index),
        meta={"group": pd.Series(["a"] * 600, index=index)},
    )
    assert other.digest == memory.digest
    assert other.ids == memory.ids


def test_ids_of_images_may_be_a_series_whose_index_is_no_position():
    from PIL import Image

    from practicum.models.vision import get

    pictures = [Image.new("RGB", (9, 9), c) for c in ("red", "blue")]
    memory = VisualMemory(encoder=get("pixels", cache=None))
    index = [1, 0]  # by the index instead of by position the two would change places
    memory.add(
        images=pictures,
        labels=pd.Series(["r", "b"], index=index),
        ids=pd.Series(["red", "blue"], index=index),
    )
    assert memory.frame()[["id", "label"]].to_numpy().tolist() == [["red", "r"], ["blue", "b"]]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m: m.predict([]), "there is no query"),
        (lambda m: m.predict([[1.0, 2.0], [1.0]]), "not of one length"),
        (lambda m: m.remove(3), "ids=3"),
    ],
)
def test_bad_input_of_other_types_is_refused_in_words(memory, act, words):
    from practicum.errors import InputError

    with pytest.raises(InputError, match=words):
        act(memory)


def test_a_snapshot_neither_reads_rows_nor_builds_an_index_again(digits):
    X, y = digits
    memory = VisualMemory(k=5, index="hnsw")
    memory.add(X[:50], labels=y[:50])
    memory.kneighbors(X[0], 3)
    index, epoch = memory.neighbours._derived, memory.table.epoch
    memory.snapshot("monday")
    memory.kneighbors(X[0], 3)
    assert memory.neighbours._derived is index
    assert memory.table.epoch == epoch
