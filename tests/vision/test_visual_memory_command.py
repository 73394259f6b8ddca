"""The command line, as a person meets it."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from practicum.errors import InputError
from practicum.vision.visual_memory import VisualMemory
from practicum.vision.visual_memory.command import app


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Two classes of small pictures, one of them damaged, and a cache of one's own."""
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for c, name in enumerate(("dark", "light")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(8):
            shade = np.clip(rng.normal(60 + 120 * c, 30, (12, 12, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(shade).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "photos" / "dark" / "bad.png").write_bytes(b"\x89PNG")
    return tmp_path / "photos"


def run(*args, code=0, answer=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, [str(a) for a in args], input=answer)
    if isinstance(done.exception, Exception):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def store(photos, tmp_path):
    run("add", photos, "--store", tmp_path / "m.vm", "--encoder", "pixels", "--size", 8)
    return tmp_path / "m.vm"


def test_adding_says_what_was_used_and_what_was_left_out(photos, tmp_path):
    out = run("add", photos, "--store", "m.vm", "--encoder", "pixels", "--size", 8)
    assert "16 images of 2 classes (dark, light; labels from the names of the folders)" in out
    assert "with pixels, 8 px" in out
    assert "bad.png: not a readable image" in out
    again = photos / "light" / "more.png"
    Image.new("RGB", (9, 9), "white").save(again)
    out = run("add", photos, "--store", "m.vm", "--source", "later")
    assert "1 image of 1 class (light; labels from" in out
    assert "16 images that the memory has under the same id" in out
    with pytest.raises(InputError, match="made with pixels"):
        run("add", photos, "--store", "m.vm", "--size", 16)


def test_encoding_tells_how_far_it_is(photos, monkeypatch):
    """What is cached is not to do again; the damaged picture is, each time."""
    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    pixels = ("--encoder", "pixels", "--size", 8)
    for words, to_do in (
        (("add", photos, "--store", "m.vm", *pixels), 17),
        (("compare", photos, *pixels), 1),
        (("ask", "m.vm", photos, "--out", "a.csv"), 1),
    ):
        done = CliRunner().invoke(app, [str(w) for w in words])
        assert done.stderr.splitlines()[-1] == f"{to_do} of {to_do} images"


def test_another_picture_under_a_taken_id_is_never_dropped(photos, tmp_path):
    """Two folders, each with cat/1.png: ids are relative to the folder, the pictures differ."""
    rng = np.random.default_rng(1)
    shared = rng.integers(0, 255, (9, 9), dtype=np.uint8)
    for folder in ("a", "b"):
        (tmp_path / folder / "cat").mkdir(parents=True)
        own = rng.integers(0, 255, (9, 9), dtype=np.uint8)
        Image.fromarray(own).save(tmp_path / folder / "cat" / "1.png")
        Image.fromarray(shared).save(tmp_path / folder / "cat" / "2.png")
    made = ("--store", "c.vm", "--encoder", "pixels", "--size", 8)
    run("add", "a", *made)
    with pytest.raises(InputError, match=r"1 image has the id of other pictures.*cat/1\.png") as e:
        run("add", "b", *made)
    assert "nothing was added" in e.value.message
    assert "--prefix NAME/" in e.value.hint
    assert "2 images of 1 class" in run("add", "b", *made, "--prefix", "b/")
    with VisualMemory("c.vm", read_only=True) as memory:
        assert sorted(memory.frame()["id"]) == [
            "b/cat/1.png",
            "b/cat/2.png",
            "cat/1.png",
            "cat/2.png",
        ]
    with pytest.raises(InputError, match=r"2 images: in c\.vm already"):
        run("add", "a", *made)
    assert "1 row erased" in run("remove", "c.vm", "b/cat/1.png", "--yes")
    with pytest.raises(InputError) as e:
        run("remove", "c.vm", "b/cat/9.png", "--yes")
    assert "missing=" not in e.value.hint
    assert "did you mean 'b/cat/2.png'" in e.value.hint
    assert "list c.vm --out" in e.value.hint


def test_asking_one_image_draws_why(store, photos, tmp_path):
    out = run("ask", store, photos / "dark" / "1.png", "-k", 5)
    assert "1.png: dark" in out
    assert "rank vote of 5 neighbours" in out
    assert Image.open("why.png").size[1] == 144
    assert "data:image/png" in (tmp_path / "why.html").read_text()
    with pytest.raises(InputError, match="exists already"):
        run("ask", store, photos / "dark" / "1.png")
    run("ask", store, photos / "dark" / "1.png", "--force")
    with pytest.raises(InputError, match="the ending says nothing"):
        run("ask", store, photos / "dark" / "1.png", "--why", "why.pdf")


def test_asking_many_writes_a_table(store, photos):
    out = run("ask", store, photos, "--out", "a.csv", "-k", 3)
    assert "agree with the names of the folders" in out
    assert "always answering the most frequent label" in out
    assert "bad.png" in out
    table = pd.read_csv("a.csv")
    assert len(table) == 16
    assert (table["answer"] == table["label"]).mean() > 0.8


def test_removing_asks_first_and_files_a_receipt(store):
    one = "dark/1.png"
    assert "Nothing was removed" in run("remove", store, one, code=1, answer="n\n")
    out = run("remove", store, one, "--yes", "--receipt", "r.json")
    assert "VERIFIED" in out
    assert "does not remove what the encoder learnt" in out
    assert json.loads(Path("r.json").read_text())["ids"] == [one]
    with VisualMemory(store, read_only=True) as memory:
        assert one not in memory
    with pytest.raises(InputError, match="did you mean 'dark/2"):
        run("remove", store, "dark/2.pgn", "--yes")
    with pytest.raises(InputError, match="no image in"):
        run("remove", store, "--where", "source == nobody", "--yes")
    with pytest.raises(InputError, match="say which images"):
        run("remove", store, "--yes")
    assert "no row is left of: light" in run("remove", store, "--where", "label == light", "--yes")


def test_auditing_snapshots_compacting_listing(store):
    out = run("audit", store)
    assert "every vector is as it was added" in out
    assert "the largest class is 50.0 %" in out
    assert "Snapshot monday: 16 images" in run("snapshot", store, "monday")
    run("remove", store, "light/3.png", "--retire", "--yes")
    assert "1 removed since monday: light/3.png" in run("snapshot", store, "--against", "monday")
    assert "Snapshot monday: 16 images" in run("list", store)
    run("snapshot", store, "monday", "--drop")
    assert "given back; 15 images left" in run("compact", store)
    assert "2 classes: dark (8), light (7)" in run("list", store, "--out", "rows.csv")
    assert len(pd.read_csv("rows.csv")) == 15
    assert "weigh less now" in run("audit", store, "--prune", "soft")
    run("audit", store, "--restore")
    data = bytearray((store / "seg-0001.vec").read_bytes())
    data[9] ^= 1
    (store / "seg-0001.vec").write_bytes(data)
    assert "not what was added" in run("audit", store, code=1)


def test_exporting_and_importing(store, tmp_path):
    run("export", store, "m.npz")
    with pytest.raises(InputError, match="exists already"):
        run("export", store, "m.npz")
    out = run("import", "m.npz", "--store", "other.vm")
    assert "16 vectors of 192 numbers" in out
    np.save("plain.npy", np.eye(4))
    with pytest.raises(InputError, match="holds no labels"):
        run("import", "plain.npy", "--store", "plain.vm")
    pd.DataFrame({"label": list("abab")}).to_csv("labels.csv", index=False)
    run("import", "plain.npy", "--store", "plain.vm", "--labels", "labels.csv")
    with pytest.raises(InputError, match="vectors of your own"):
        run("ask", "plain.vm", store.parent / "photos" / "dark" / "1.png")


def test_comparing_votes(store, photos):
    out = run("compare", store, "--plot", "votes.html")
    assert "The most frequent class alone: 50.0 %" in out
    assert "plurality" in out
    assert "16 images" in run("compare", photos, "--encoder", "pixels", "--size", 8)


def test_comparing_erasure_skips_what_is_not_installed(photos):
    out = run("compare-erasure", "--rows", 400, "--dim", 16, "--out", "e.csv")
    table = pd.read_csv("e.csv").set_index("store")
    assert table.loc["visual-memory", "surviving"] == "0 of 20"
    assert table.loc["hnswlib", "surviving"] == "20 of 20"
    assert table.loc["visual-memory", "recall after"] == 1.0
    assert table.loc["faiss-flat", "recall after"] < 0.5
    for store in ("sqlite-vec", "lancedb", "chromadb", "qdrant-local", "duckdb"):
        assert "pip install" in str(table.loc[store, "note"]) or table.loc[store, "MB before"] > 0
    assert "recall" in out


def test_bad_input_memories_and_folders(photos, store, tmp_path):
    with pytest.raises(InputError, match=r"did you mean m\.vm"):
        run("ask", "n.vm", photos)
    with pytest.raises(InputError, match="nothing says"):
        run("add", photos / "dark" / "1.png", "--store", "x.vm", "--encoder", "pixels")
    out = run(
        "add", photos / "dark" / "1.png", "--store", "x.vm", "--encoder", "pixels", "--label", "d"
    )
    assert "labels from --label" in out
    with pytest.raises(InputError, match=r"1 image: in x\.vm already"):
        run("add", photos / "dark" / "1.png", "--store", "x.vm", "--label", "d")


def test_own_images_are_measured_against_the_others_only(store, photos):
    """Three rows, two of them equal: 0 and 1 from the others, not 0, 0 and 1."""
    from practicum.vision.visual_memory import hygiene

    memory = VisualMemory()
    memory.add(np.array([[1.0, 0], [1.0, 0], [0, 1.0]]), labels=["a", "a", "b"])
    own = hygiene.strangeness(memory.neighbours.leave_one_out(2, first=200)[0])
    assert own.tolist() == [0.5, 0.5, 1.0]
    assert len(memory.neighbours.leave_one_out(2, first=1)[0]) == 1
    out = run("ask", store, photos / "dark" / "0.png", "-k", 3)
    assert "nearest 15 images" in out  # as many others as each of the 16 has
    assert "the first 16, each to the others" in out
