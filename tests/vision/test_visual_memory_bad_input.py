"""Every line of "Bad input" in the paper file."""

import numpy as np
import pytest
from PIL import Image

from practicum.errors import InputError
from practicum.models.vision import from_callable, get
from practicum.vision.visual_memory import (
    VisualMemory,
    VisualMemoryClassifier,
    export,
    read_vectors,
)
from practicum.vision.visual_memory.formats import read_neighbours
from practicum.vision.visual_memory.vector_stores import compare_erasure


@pytest.fixture
def memory():
    made = VisualMemory()
    made.add(np.eye(3), labels=["a", "b", "b"], ids=["x", "y", "z"])
    return made


def test_k_out_of_range_and_an_empty_memory(memory):
    for k in (0, 4):
        with pytest.raises(InputError, match="expected 1 to 3"):
            memory.predict(np.eye(3), k=k)
    with pytest.raises(InputError, match="k=0"):
        VisualMemory(k=0)
    for ask in ("predict", "predict_proba", "kneighbors", "ood_score"):
        with pytest.raises(InputError, match="empty"):
            getattr(VisualMemory(), ask)(np.eye(3))
    with pytest.raises(InputError, match="at least two"):
        VisualMemory().reliability()


def test_vectors_that_are_none_are_refused_by_their_id(memory):
    with pytest.raises(InputError, match="'bad' holds NaN"):
        memory.add(np.array([[1.0, 0, 0], [np.nan, 0, 0]]), labels=["a", "a"], ids=["ok", "bad"])
    with pytest.raises(InputError, match="'bad' is all zeros"):
        memory.add(np.zeros((1, 3)), labels=["a"], ids=["bad"])
    with pytest.raises(InputError, match="NaN or infinity"):
        memory.predict(np.array([[np.inf, 0, 0]]))
    assert len(memory) == 3


def test_another_width_says_both_and_whose(memory):
    with pytest.raises(InputError, match="of 2 numbers, the memory holds 3"):
        memory.add(np.eye(2), labels=["a", "b"])
    with pytest.raises(InputError, match="of 2 numbers, the memory holds 3"):
        memory.predict(np.eye(2))
    encoder = get("pixels", size=4, cache=None)
    pictures = VisualMemory(encoder=encoder)
    pictures.add(images=[Image.new("RGB", (9, 9), "red")], labels=["red"])
    with pytest.raises(InputError, match="the memory holds 48, made by pixels"):
        pictures.predict(np.eye(3))


def test_encoders_are_not_mixed(memory, tmp_path):
    small, large = (get("pixels", size=s, cache=None) for s in (4, 8))
    image = Image.new("RGB", (9, 9), "red")
    with VisualMemory(tmp_path / "m.vm", encoder=small) as pictures:
        pictures.add(images=[image], labels=["red"])
        with pytest.raises(InputError, match="made with pixels"):
            pictures.add(images=[image], labels=["red"], ids=["2"], encoder=large)
        twin = from_callable(lambda x: x.reshape(len(x), -1), "twin", 48, size=4)
        with pytest.raises(InputError, match="this is twin"):
            pictures.add(images=[image], labels=["red"], ids=["2"], encoder=twin)
        with pytest.raises(InputError, match="say not with what"):
            pictures.add(np.ones((1, 48)), labels=["red"])
    with pytest.raises(InputError, match="weights and preprocessing"):
        VisualMemory(tmp_path / "m.vm", encoder=large)
    with pytest.raises(InputError, match="vectors of your own"):
        memory.add(images=[image], labels=["red"], encoder=small)
    with pytest.raises(InputError, match="images need an encoder"):
        memory.predict([image])
    with pytest.raises(InputError, match="images need an encoder"):
        VisualMemory().add(images=[image], labels=["a"])


def test_labels_missing_fractional_or_mixed(memory):
    with pytest.raises(InputError, match="labels are missing"):
        memory.add(np.eye(3))
    with pytest.raises(InputError, match="2 labels for 3 rows"):
        memory.add(np.eye(3), labels=["a", "b"])
    with pytest.raises(InputError, match=r"label 1 is 0\.5"):
        memory.add(np.eye(3), labels=["a", 0.5, "b"])
    with pytest.raises(InputError, match="label 0 is None"):
        memory.add(np.eye(3), labels=[None, "a", "b"])
    with pytest.raises(InputError, match="labels of types int, str"):
        memory.add(np.eye(3), labels=[1, 2, 3])
    assert len(memory) == 3


def test_ids_are_unique_and_known(memory):
    with pytest.raises(InputError, match="'x' is in the memory already"):
        memory.add(np.eye(3)[:1], labels=["a"], ids=["x"])
    with pytest.raises(InputError, match="'new' is twice in this batch"):
        memory.add(np.eye(3)[:2], labels=["a", "a"], ids=["new", "new"])
    with pytest.raises(InputError, match="not in the memory: 'w', 'v'"):
        memory.remove(["x", "w", "v"])
    assert len(memory) == 3
    with pytest.warns(UserWarning, match="no row is left of: a"):
        assert memory.remove(["x", "w"], missing="ignore").ids == ["x"]


def test_removing_nothing_and_conditions_that_are_none(memory):
    with pytest.raises(InputError, match="either ids or where"):
        memory.remove()
    with pytest.raises(InputError, match="not understood"):
        memory.remove(where="alice")
    with pytest.raises(InputError, match="no column 'colour'"):
        memory.remove(where="colour == red")
    assert memory.remove(where="label == nobody").n == 0


def test_a_folder_with_a_corrupt_image(tmp_path):
    Image.new("RGB", (20, 20), "red").save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG no picture")
    paths = [tmp_path / "bad.png", tmp_path / "good.png", tmp_path / "gone.png"]
    encoder = get("pixels", size=4, cache=None)
    memory = VisualMemory(encoder=encoder)
    with pytest.warns(UserWarning, match=r"left out 2 of 3 images.*bad\.png"):
        ids = memory.add(images=paths, labels=["a", "b", "c"])
    assert ids == [str(paths[1])]
    assert memory.frame()["label"].tolist() == ["b"]
    assert set(memory.problems) == {str(paths[0]), str(paths[2])}
    with pytest.raises(InputError, match="none of 1 images can be read"):
        memory.add(images=paths[:1], labels=["a"])
    with pytest.raises(InputError, match=r"bad\.png"):
        memory.predict([str(paths[0])])


def test_odd_images_are_read(tmp_path):
    pictures = {
        "grey.png": Image.new("L", (9, 9), 100),
        "clear.png": Image.new("RGBA", (9, 9), (1, 2, 3, 0)),
        "ink.tif": Image.new("CMYK", (9, 9), (0, 255, 255, 0)),
        "deep.png": Image.fromarray(np.full((9, 9), 40_000, dtype=np.uint16)),
    }
    for name, image in pictures.items():
        image.save(tmp_path / name)
    memory = VisualMemory(encoder=get("pixels", size=4, cache=None))
    names = [tmp_path / name for name in pictures]
    assert len(memory.add(images=names, labels=list(pictures))) == 4
    assert memory.problems == {}
    assert memory.predict([str(names[2])], k=1).tolist() == ["ink.tif"]


def test_snapshots_cannot_be_changed_and_names_are_checked(memory):
    memory.snapshot("then")
    view = memory.at("then")
    for change in (
        lambda: view.remove(["x"]),
        lambda: view.add(np.eye(3)[:1], labels=["a"]),
        lambda: view.prune("soft"),
        lambda: view.compact(),
    ):
        with pytest.raises(InputError, match="snapshot 'then', which cannot be changed"):
            change()
    with pytest.raises(InputError, match="already"):
        memory.snapshot("then")
    with pytest.raises(InputError, match="no snapshot 'than'"):
        memory.at("than")
    with pytest.raises(InputError, match="cannot be called 'now'"):
        memory.snapshot("now")


def test_erasing_inside_a_snapshot_erases_there_too_and_says_so(memory):
    memory.snapshot("then")
    with pytest.warns(UserWarning, match="no row is left"):
        receipt = memory.remove(["x"])
    assert receipt.snapshots == ["then"]
    assert "x" not in memory.at("then")


def test_arguments_that_are_none_of_the_known(memory):
    for wrong in (
        lambda: VisualMemory(vote="mean"),
        lambda: VisualMemory(index="tree"),
        lambda: VisualMemory(dtype="int8"),
        lambda: VisualMemory(dim=0),
        lambda: memory.prune("gently"),
        lambda: memory.prune("hard", rule="both"),
        lambda: memory.prune("score", threshold=2.0),
        lambda: memory.prune("score", column="beauty"),
        lambda: memory.prune("score", column=[1.0]),
        lambda: memory.reliability(kind="cv"),
        lambda: memory.explain(np.eye(3)),
        lambda: memory.curve(np.eye(3), ["a"], ks=[1]),
        lambda: memory.add(),
        lambda: memory.add(np.eye(3), labels=["a"] * 3, meta={"colour": [1, 2, 3]}),
        lambda: memory.add(np.eye(3), labels=["a"] * 3, meta={"weight": [1, -1, 1]}),
        lambda: memory.add(np.eye(3), labels=["a"] * 3, meta={"source": ["a"]}),
    ):
        with pytest.raises(Exception, match=r"") as caught:
            wrong()
        # in the tests beartype refuses what the types already exclude
        assert isinstance(caught.value, InputError) or "TypeCheck" in type(caught.value).__name__


def test_pruning_everything_is_refused():
    memory = VisualMemory()
    memory.add(np.array([[1.0, 0], [1.0, 0.1]]), labels=["a", "b"])
    with pytest.raises(InputError, match="no row would be left"):
        memory.prune("hard", k=1)
    assert len(memory) == 2


def test_the_classifier_refuses_rows_without_a_direction():
    model = VisualMemoryClassifier()
    with pytest.raises(InputError, match="all zeros"):
        model.fit(np.array([[0.0, 0.0], [1.0, 0.0]]), [0, 1])
    with pytest.raises(InputError, match="no vote"):
        VisualMemoryClassifier(vote="mean").fit(np.eye(2), [0, 1])


FILES = {
    "cut.npy": (b"\x93NUMPY\x01\x00", "cannot be read"),
    "flat.npz": (None, "no vectors among|shape"),
    "junk.parquet": (b"PAR1 junk", "cannot be read"),
    "junk.faiss": (b"junk", "cannot be read"),
    "notes.docx": (b"x", "no vectors known here"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_hold_no_vectors_are_refused(name, tmp_path):
    data, message = FILES[name]
    path = tmp_path / name
    if data is None:
        np.savez(path, a=np.arange(3), b=np.arange(3))
    else:
        path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_vectors(path)
    assert name in str(caught.value)


def test_exports_and_neighbour_files(memory, tmp_path):
    with pytest.raises(InputError, match="ending"):
        export(memory, tmp_path / "m.xlsx")
    with pytest.raises(InputError, match="empty"):
        export(VisualMemory(), tmp_path / "m.npz")
    with pytest.raises(InputError, match="cannot be written"):
        export(memory, tmp_path / "none" / "m.npz")
    (tmp_path / "n.json").write_text('{"a": {"image_id": "a"}}')
    with pytest.raises(InputError, match="record 'a': no field 'image_class'"):
        read_neighbours(tmp_path / "n.json")
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "none.npy")
    with pytest.raises(InputError, match="no known kind"):
        read_vectors(tmp_path)


def test_the_comparison_of_stores_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="no store 'pinecone'"):
        compare_erasure(stores=["pinecone"])
    with pytest.raises(InputError, match="at least 100 rows"):
        compare_erasure(10)
