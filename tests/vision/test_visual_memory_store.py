"""The store: crashes at every step, kill -9, two writers, and what erasing leaves."""

import contextlib
import json
import os
import signal
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.vision.visual_memory import VisualMemory
from practicum.vision.visual_memory.residue import files_below, find_bytes
from practicum.vision.visual_memory.search import normalised
from practicum.vision.visual_memory.store import Row, Store, row_digest

DIM = 8
# killing a process loses no written page, so a file system in memory tests the same, faster
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def tmp_path():
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        yield Path(folder)


Q = np.random.default_rng(99).standard_normal((20, DIM))


def vectors(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, DIM))


def stored(x, dtype="float32"):
    return [row.astype(dtype).tobytes() for row in normalised(np.atleast_2d(x))]


def in_child(work):
    """Run in a forked process that ends without any clean-up; returns its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dying_at(step):
    """The process ends at the n-th durable step."""
    left = [step]

    def count(self, name):
        left[0] -= 1
        if left[0] < 0:
            os._exit(7)

    return count


def same_answers(a, b):
    k = min(len(a), len(b), 10)
    for first, second in zip(a.kneighbors(Q, k), b.kneighbors(Q, k), strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(a.predict_proba(Q), b.predict_proba(Q))
    np.testing.assert_array_equal(a.predict(Q), b.predict(Q))


def rebuilt(rows):
    """A memory that never held anything else: rows is id -> (vector, label), in order."""
    memory = VisualMemory(k=5)
    memory.add(
        np.array([v for v, _ in rows.values()]),
        labels=[label for _, label in rows.values()],
        ids=list(rows),
    )
    return memory


# --- crashes -------------------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda m: m.add(vectors(5, 1), labels=["c"] * 5, ids=[f"new{i}" for i in range(5)]),
    "remove": lambda m: m.remove(["row3", "row4", "row9"]),
    "retire": lambda m: m.remove(["row3"], erase=False),
    "snapshot": lambda m: m.snapshot("second"),
    "compact": lambda m: m.compact(),
    "prune": lambda m: m.prune("soft", k=3),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_crash_at_any_step_leaves_the_old_state_or_the_new(operation, tmp_path, monkeypatch):
    X = vectors(12)
    for step in range(20):
        path = tmp_path / f"{step}.vm"
        with VisualMemory(path) as memory:
            memory.add(X, labels=list("ab") * 6, ids=[f"row{i}" for i in range(12)])
            memory.snapshot("first")
            memory.remove(["row0"], erase=False)
            memory.remove(["row1"])
            before = set(memory.frame()["id"])

        def work(path=path, step=step):
            warnings.simplefilter("ignore")
            memory = VisualMemory(path)
            Store._step = dying_at(step)
            OPERATIONS[operation](memory)

        status = in_child(work)
        with VisualMemory(path) as memory:
            assert memory.audit() == []
            now = set(memory.frame()["id"])
            after = {
                "add": before | {f"new{i}" for i in range(5)},
                "remove": before - {"row3", "row4", "row9"},
                "retire": before - {"row3"},
            }.get(operation, before)
            assert now in (before, after)
            if status == 0:
                assert now == after
            gone = ["row1"] + (
                ["row3", "row4", "row9"] if operation == "remove" and now == after else []
            )
            erased = [p for name in gone for p in stored(X[int(name[3:])])]
            assert find_bytes(files_below(path), erased).clean
            memory.add(vectors(2, 2), labels=["d", "d"])  # and it can be written again
            assert memory.audit() == []
        if status == 0:
            break
    assert status == 0, "the operation has more steps than were tried"


def test_an_erasure_that_was_announced_is_finished_by_the_next_writer(tmp_path):
    path, X = tmp_path / "m.vm", vectors(6)
    with VisualMemory(path) as memory:
        memory.add(X, labels=["a"] * 6, ids=list("uvwxyz"))

    def work():
        memory = VisualMemory(path)
        Store._step = dying_at(1)  # announced, and the rows zeroed, no more
        memory.remove(["w"])

    assert in_child(work) == 7
    assert (path / "journal").stat().st_size > 0
    with VisualMemory(path, read_only=True) as reader:  # not yet mended, but never served
        assert "w" not in reader
        assert len(reader) == 5
    with VisualMemory(path) as memory:
        assert "w" not in memory
        assert memory.audit() == []
        assert (
            memory.digest
            == rebuilt({k: (X[i], "a") for i, k in enumerate("uvwxyz") if k != "w"}).digest
        )


def test_a_crash_while_the_store_is_being_made(tmp_path):
    path = tmp_path / "m.vm"
    path.mkdir()
    (path / "meta.sqlite").touch()  # the process died before the first table
    with VisualMemory(path) as memory:
        memory.add(vectors(2), labels=["a", "b"])
        assert memory.audit() == []


def writer(path, pipe, seed, writes):
    """Random writes; each is announced and acknowledged on the pipe."""
    warnings.simplefilter("ignore")
    say = lambda record: os.write(pipe, (json.dumps(record) + "\n").encode())  # noqa: E731
    rng = np.random.default_rng(seed)
    with VisualMemory(path) as memory:
        for number in range(writes):
            names = memory.frame()["id"].tolist()
            kind = rng.choice(["add", "add", "remove", "retire", "prune", "compact"])
            if kind == "add" or len(names) < 5:
                ids = [f"{seed}-{number}-{i}" for i in range(int(rng.integers(1, 6)))]
                x = rng.standard_normal((len(ids), DIM))
                say({"do": "add", "ids": ids, "x": x.tolist()})
                memory.add(x, labels=[str(i % 3) for i in range(len(ids))], ids=ids)
            elif kind in ("remove", "retire"):
                ids = rng.choice(names, size=int(rng.integers(1, 4)), replace=False).tolist()
                say({"do": kind, "ids": ids})
                memory.remove(ids, erase=kind == "remove")
            else:
                say({"do": kind, "ids": []})
                memory.compact() if kind == "compact" else memory.prune("soft", k=2)
            say({"done": True})


def apply(rows, erased, record):
    """The history as a dictionary: what an acknowledged write means."""
    if record["do"] == "add":
        rows |= dict(zip(record["ids"], record["x"], strict=True))
    gone = (
        {one: rows.pop(one) for one in record["ids"]}
        if record["do"] in ("remove", "retire")
        else {}
    )
    if record["do"] == "remove":
        erased += list(gone.values())


def killed_writer(path, seed, writes, rng):
    """A writer that is killed somewhere; what it said until then."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            writer(path, writing, seed, writes)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = [pipe.readline() for _ in range(2 * int(rng.integers(1, 40)))]
        time.sleep(float(rng.uniform(0, 0.03)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        said += pipe.readlines()
    return [json.loads(line) for line in said if line.endswith(b"\n")]


def test_kill_9_during_200_random_writes_loses_no_acknowledged_write(tmp_path):
    path, rng = tmp_path / "m.vm", np.random.default_rng(0)
    rows, erased, acknowledged, kills = {}, [], 0, 0
    while acknowledged < 200:
        said = killed_writer(path, kills, 200 - acknowledged, rng)
        kills += 1
        pending = None
        for record in said:
            if "done" in record:
                apply(rows, erased, pending)
                acknowledged, pending = acknowledged + 1, None
            else:
                pending = record
        with VisualMemory(path) as memory:  # it can be opened, and holds all that was promised
            assert memory.audit() == []
            there = set(memory.frame()["id"])
            if pending is not None and there != set(rows):
                apply(rows, erased, pending)  # in flight: it may have gone through
            assert there == set(rows)
            patterns = [p for x in erased for p in stored(np.array(x))]
            assert find_bytes(files_below(path), patterns).clean
    assert kills > 3


def test_two_writers_are_refused_and_readers_welcome(tmp_path):
    path = tmp_path / "m.vm"
    with VisualMemory(path) as memory:
        memory.add(vectors(3), labels=["a", "b", "a"], ids=["1", "2", "3"])

        def second():
            try:
                VisualMemory(path)
            except InputError as error:
                os._exit(5 if "another process is writing" in str(error) else 6)

        assert in_child(second) == 5
        with VisualMemory(path, read_only=True, k=3) as reader:
            assert reader.predict(vectors(1), k=1).tolist() == ["a"]
            memory.add(vectors(1, 5), labels=["c"], ids=["4"])
            assert reader.predict(vectors(1, 5), k=1).tolist() == ["c"]  # sees the change
            memory.remove(["4"])
            assert reader.predict(vectors(1, 5), k=1).tolist() != ["c"]
            with pytest.raises(InputError, match="read-only"):
                reader.remove(["1"])
            with pytest.raises(InputError, match="read-only"):
                reader.add(vectors(1), labels=["a"])
    with VisualMemory(path) as memory:  # the lock is given back
        assert len(memory) == 3


# --- erasing -------------------------------------------------------------------------------------

history = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "erase", "retire", "prune", "snapshot", "compact", "index", "reopen"]
        ),
        st.integers(0, 2**31),
        st.one_of(st.none(), st.integers(0, 12)),  # the step at which the process dies
    ),
    min_size=1,
    max_size=9,
)


class Truth:
    """What the store should hold, kept in plain dictionaries."""

    def __init__(self):
        self.rows, self.retired, self.erased = {}, {}, []


def perform(memory, what, seed, truth):
    """One operation on the store; how the truth changes if it went through."""
    rng = np.random.default_rng(seed)
    living = list(truth.rows)
    if what == "add" or (what in ("erase", "retire") and len(living) < 3):
        ids = [f"{seed}-{len(truth.rows)}-{i}" for i in range(int(rng.integers(1, 5)))]
        new = {one: (rng.standard_normal(DIM), str(rng.integers(3))) for one in ids}
        new = {one: v for one, v in new.items() if one not in memory.table.slot_of}

        def do():
            memory.add(
                np.array([v for v, _ in new.values()]),
                labels=[label for _, label in new.values()],
                ids=list(new),
            )

        def after():
            truth.rows |= new

        return (do, after) if new else (lambda: None, lambda: None)
    chosen = rng.choice(living, size=min(2, len(living)), replace=False).tolist() if living else []
    if what in ("erase", "retire"):

        def after():
            gone = {one: truth.rows.pop(one) for one in chosen}
            if what == "erase":
                truth.erased += [v for v, _ in gone.values()]
            else:
                truth.retired |= gone

        return (lambda: memory.remove(chosen, erase=what == "erase")), after
    if what == "compact":
        gone = [memory.table.ids[s] for s in memory.store.unreachable()]

        def after():
            truth.erased += [truth.retired.pop(one)[0] for one in gone]

        return memory.compact, after
    if what == "snapshot":
        return (lambda: memory.snapshot(str(seed))), lambda: None
    if what == "prune" and len(living) > 3:

        def prune():
            with contextlib.suppress(InputError):  # every row misleads: none would be left
                memory.prune("hard", k=2, threshold=1.0)
            memory.restore()

        return prune, lambda: None
    if what == "index" and len(living) > 3:
        return (lambda: VisualMemory.kneighbors(_with_index(memory), Q, 2)), lambda: None
    return (lambda: None), lambda: None


def _with_index(memory):
    memory.index = "hnsw"
    return memory


@settings(max_examples=40, deadline=None)
@given(history)
def test_random_histories_forget_to_the_last_byte_and_answer_to_the_last_bit(steps):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path, truth = Path(folder) / "m.vm", Truth()
        taken = set()
        for what, seed, death in steps:
            if what == "snapshot" and seed in taken:
                continue
            taken.add(seed if what == "snapshot" else None)
            memory = VisualMemory(path, k=5)
            do, after = perform(memory, what, seed, truth)
            if death is None:
                do()
                after()
                memory.close()
            else:
                memory.close()

                def work(what=what, seed=seed, death=death):
                    held = VisualMemory(path, k=5)
                    act, _ = perform(held, what, seed, truth)
                    Store._step = dying_at(death)
                    act()

                status = in_child(work)
                assert status in (0, 7)
                with VisualMemory(path) as held:
                    there = set(held.table.slot_of)
                old = set(truth.rows) | set(truth.retired)
                kept = dict(truth.rows), dict(truth.retired), list(truth.erased)
                after()
                new = set(truth.rows) | set(truth.retired)
                state = set(truth.rows)
                if what == "retire":
                    with VisualMemory(path) as held:
                        went = set(held.frame()["id"]) == state
                else:
                    went = there == new
                    assert there in (old, new)
                if not went:
                    assert status == 7
                    truth.rows, truth.retired, truth.erased = kept
        with VisualMemory(path, k=5) as memory:
            memory.restore()  # a crash between pruning and restoring
            assert memory.audit() == []
            assert set(memory.frame()["id"]) == set(truth.rows)
            kept = {
                p for v, _ in [*truth.rows.values(), *truth.retired.values()] for p in stored(v)
            }
            patterns = [p for x in truth.erased for p in stored(x) if p not in kept]
            assert find_bytes(files_below(path), patterns).clean
            if len(truth.rows) >= 2:
                same_answers(memory, rebuilt(truth.rows))


def test_erasing_reaches_snapshots_derived_indexes_and_the_feature_cache(tmp_path):
    from PIL import Image

    from practicum.models.vision import get

    rng, paths = np.random.default_rng(0), []
    for i in range(12):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(paths[-1])
    encoder = get("pixels", size=8, cache=tmp_path / "cache")
    path = tmp_path / "m.vm"
    with VisualMemory(path, index="hnsw", encoder=encoder) as memory:
        memory.add(images=paths, labels=["a", "b"] * 6)
        memory.snapshot("then")
        memory.predict([str(paths[0])], k=3)  # builds and saves the graph
        raw = encoder.encode([Image.open(paths[3])], None)
        cached = raw.astype("<f4").tobytes()
        assert not find_bytes(files_below(tmp_path / "cache"), [cached]).clean
        picture = memory.store.thumbnails([3])[0]
        assert not find_bytes(files_below(path), [picture]).clean
        memory.close()
    with VisualMemory(path, index="hnsw") as memory:  # without the encoder at hand
        receipt = memory.remove([str(paths[3])])
        assert receipt.verified
        assert receipt.snapshots == ["then"]
        assert "derived/hnsw.index" in receipt.files
        assert any("cache" in name for name in receipt.files)
        everything = [cached, picture, *stored(raw)]
        assert find_bytes(files_below(path) + files_below(tmp_path / "cache"), everything).clean
        assert memory.diff("then")["removed"] == []
        assert str(paths[3]) not in memory.at("then")
        memory.predict(raw, k=3)  # a new graph, of this generation
        assert find_bytes(files_below(path), everything).clean
    assert json.loads(receipt.to_json())["verified"] is True
    assert "VERIFIED" in str(receipt)


def test_an_erased_vector_that_another_row_shares_is_not_taken_for_a_trace(tmp_path):
    with VisualMemory(tmp_path / "m.vm") as memory:
        memory.add(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 1.0, 0.0]]), labels=[1, 1, 2])
        receipt = memory.remove(["g0-0"])
        assert receipt.verified
        assert receipt.report.shared == 1
        report = memory.verify_erased(np.array([[1.0, 2.0, 3.0]]))
        assert len(report.hits) == 1  # the row that remains


def test_the_scan_finds_what_is_there(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    needles = [rng.standard_normal(16).astype("<f4").tobytes() for _ in range(30)]
    needles[7] = np.zeros(16, "<f4").tobytes()[:-4] + b"\1\2\3\4"  # hardly any telling byte
    hay = bytearray(rng.integers(0, 256, 300_000, dtype=np.uint8).tobytes())
    offsets = [1, 77, 1003, 299_000, 150_001]
    for number, offset in zip((0, 3, 7, 12, 29), offsets, strict=True):
        hay[offset : offset + 64] = needles[number]
    path = tmp_path / "hay"
    path.write_bytes(hay)
    report = find_bytes([path], needles)
    found = sorted((number, offset) for _, offset, number in report.hits)
    assert found == sorted(zip((0, 3, 7, 12, 29), offsets, strict=True))
    monkeypatch.setattr("practicum.vision.visual_memory.residue.CHUNK", 1000)
    assert sorted(find_bytes([path], needles).hits) == sorted(report.hits)
    few = find_bytes([path], [needles[i] for i in (0, 3, 7, 12, 29)])
    assert sorted(offset for _, offset, _ in few.hits) == sorted(offsets)
    with pytest.raises(ValueError, match="chance"):
        find_bytes([path], [b"short"])


def test_the_digest_depends_on_the_rows_and_on_nothing_that_was(tmp_path):
    X = vectors(8)
    with VisualMemory(tmp_path / "m.vm") as memory:
        memory.add(X, labels=["a"] * 8, ids=list("abcdefgh"))
        memory.remove(["c", "f"])
        memory.compact()
        digest = memory.digest
    kept = [i for i in range(8) if i not in (2, 5)]
    other = VisualMemory()
    other.add(X[kept], labels=["a"] * 6, ids=["abcdefgh"[i] for i in kept])
    assert digest == other.digest
    assert row_digest(Row("a", "x", X[0]), X[0]) != row_digest(Row("a", "y", X[0]), X[0])


# --- damaged files -------------------------------------------------------------------------------


def test_damaged_stores_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match="no memory here"):
        VisualMemory(tmp_path / "none.vm", read_only=True)
    strange = tmp_path / "photos"
    strange.mkdir()
    (strange / "cat.jpg").touch()
    with pytest.raises(InputError, match="exists and is no memory"):
        VisualMemory(strange)
    path = tmp_path / "m.vm"
    with VisualMemory(path) as memory:
        memory.add(vectors(3), labels=["a"] * 3)
    with pytest.raises(InputError, match="of 5 numbers, the memory holds 8"):
        VisualMemory(path, dim=5)
    with pytest.raises(InputError, match="float32"):
        VisualMemory(path, dtype="float16")
    with open(path / "seg-0000.vec", "r+b") as handle:
        handle.truncate(40)
    with pytest.raises(InputError, match=r"seg-0000\.vec: 40 bytes, 96 expected"):
        VisualMemory(path)
    (path / "meta.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(InputError, match=r"meta\.sqlite"):
        VisualMemory(path)


def test_audit_sees_a_flipped_bit_and_a_strange_file(tmp_path):
    path = tmp_path / "m.vm"
    with VisualMemory(path) as memory:
        memory.add(vectors(3), labels=["a"] * 3, ids=["x", "y", "z"])
        memory.remove(["z"])
    data = bytearray((path / "seg-0000.vec").read_bytes())
    data[5] ^= 1
    data[70] = 1
    (path / "seg-0000.vec").write_bytes(data)
    (path / "copy.vec").write_bytes(b"x")
    with VisualMemory(path) as memory:
        wrong = " ".join(memory.audit())
    assert "x: its vector or label is not what was added" in wrong
    assert "holes" in wrong
    assert "copy.vec" in wrong


def test_a_full_disk_takes_nothing_back_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "m.vm"
    with VisualMemory(path) as memory:
        memory.add(vectors(3), labels=["a"] * 3)

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("practicum.vision.visual_memory.segments._write_at", full)
        with pytest.raises(InputError, match="No space left"):
            memory.add(vectors(2, 1), labels=["b"] * 2)
        monkeypatch.undo()
        assert len(memory) == 3
        memory.add(vectors(2, 1), labels=["b"] * 2)
        assert memory.audit() == []
