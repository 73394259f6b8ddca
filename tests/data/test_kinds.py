"""What a file may be, told from its name and first bytes; and what makes two files the same."""

import gzip
import json
import os
import random
import string
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from practicum.data.graph import read_graph
from practicum.data.kinds import KINDS, UserData
from practicum.data.sniff import Sniffed, sniff
from practicum.errors import InputError

JUNK = random.Random(0).randbytes(2000)
LATIN = "name,Größe\nJörg,1\n".encode("latin1")


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# --- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "kinds"),
    [
        ("a.csv", "x,y\n1,2\n3,4\n", {"table", "points"}),
        ("a.CSV", "x,y\n1,2\n3,4\n", {"table", "points"}),
        ("semicolon.csv", "x;y;name\n1;2;a\n3;4;b\n", {"table", "points"}),
        ("bom.csv", "\ufeffx,y\n1,2\n3,4\n", {"table", "points"}),
        ("windows.csv", "x,y\r\n1,2\r\n3,4\r\n", {"table", "points"}),
        ("words.csv", "name,town\nAda,London\n", {"table"}),
        ("one.csv", "x\n1\n2\n", {"table"}),
        ("wide.csv", "a,b,c,d,e\n1,2,3,4,5\n", {"table"}),
        ("header.csv", "a,b\n", {"table"}),
        ("quoted.csv", 'a,b\n"1,5","x"\n"2,5","y"\n', {"table"}),
        ("a.tsv", "x\ty\n1\t2\n", {"table", "points"}),
        ("cloud.xyz", "0.1 0.2 0.3\n1 2 3\n4 5 6\n", {"table", "points"}),
        ("a.jsonl", '{"text": "hello"}\n', {"text", "table"}),
        ("a.ndjson", '{"x": 1, "y": 2}\n', {"table"}),
        ("blank.jsonl", '\n\n{"x": 1}\n', {"table"}),
        ("a.txt", "once upon a time\n", {"text"}),
        ("README", "naïve\n", {"text"}),
        ("a.ply", "ply\nformat ascii 1.0\n", {"mesh", "points"}),
        ("a.obj", "v 0 0 0\n", {"mesh", "points"}),
        ("a.png", b"\x89PNG\r\n", {"images"}),
        ("a.JPG", b"\xff\xd8\xff", {"images"}),
        ("a.graphml", "<graphml/>", {"graph"}),
        ("a.h5", b"\x89HDF\r\n\x1a\n", {"trajectories"}),
    ],
)
def test_kinds_by_name_and_content(file, name, content, kinds):
    sniffed = sniff(file(name, content))
    assert set(sniffed.kinds) == kinds
    assert set(sniffed.kinds) <= set(KINDS)
    assert sniffed.about


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "no suffix"])
def test_parquet(tmp_path, name):
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / name)
    assert sniff(tmp_path / name) == Sniffed(("table",), "a Parquet table")


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [((5, 2), {"points", "table"}), ((5, 3), {"points", "table"}), ((5, 4), {"table"})],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path, shape, kinds, order):
    np.save(tmp_path / "a.npy", np.zeros(shape, order=order))
    sniffed = sniff(tmp_path / "a.npy")
    assert set(sniffed.kinds) == kinds
    assert sniffed.about == f"an array of {shape[0]} rows and {shape[1]} columns"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version_whatever_its_name(tmp_path, version):
    with (tmp_path / "array").open("wb") as handle:
        np.lib.format.write_array(handle, np.zeros((4, 2)), version=version)
    assert "4 rows and 2 columns" in sniff(tmp_path / "array").about


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_npy_of_another_dimension_says_its_shape(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.zeros(shape))
    assert str(shape) in refusal(tmp_path / "a.npy")


def test_a_folder_of_nodes_and_edges_is_a_graph(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,text\na,x\nb,y\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    assert sniff(tmp_path).kinds == ("graph",)
    assert read_graph(tmp_path).n_edges == 1


def test_an_index_of_packages_is_a_graph(tmp_path):
    entry = "Package: {}\nVersion: 1\nDepends: b\nDescription: does {}\n\n"
    (tmp_path / "Packages").write_text(entry.format("a", "this") + entry.format("b", "that"))
    assert sniff(tmp_path / "Packages").kinds == ("graph",)
    assert read_graph(tmp_path / "Packages").n_nodes == 2


def test_a_minari_folder_is_a_log(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "main_data.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert sniff(tmp_path).kinds == ("trajectories",)


@pytest.mark.parametrize("name", ["a.png", "a.JPG", "a.parquet", "a.h5"])
def test_a_name_that_says_what_the_bytes_do_not(tmp_path, name):
    (tmp_path / name).write_bytes(b"x,y\n1,2\n")
    with pytest.raises(InputError, match="the first bytes do not"):
        sniff(tmp_path / name)


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(3))
    assert sniff(tmp_path / "a.npz") == Sniffed(("table",), "arrays x, y")
    np.savez(tmp_path / "b.npz", observations=0, actions=0, rewards=0, terminals=0)
    assert sniff(tmp_path / "b.npz").kinds == ("trajectories",)


def test_columns_are_counted(file):
    about = sniff(file("a.csv", "a,b,c\n1,x,2\n3,y,\n")).about
    assert about == "a table of 3 columns, 2 of them numeric"


@pytest.mark.parametrize("name", ["a.xyz", "a.dat"])
def test_columns_lined_up_with_spaces(file, name):
    """What Fortran and MATLAB write."""
    sniffed = sniff(file(name, "  1.0   2.0  10.0\n  3.0  40.0   0.5\n 5.0   6.0    7.0\n"))
    assert sniffed.about == "a table of 3 columns, 3 of them numeric"
    assert "points" in sniffed.kinds


# --- refusals ------------------------------------------------------------------------------------


def refusal(path):
    """The message of the InputError: one line that names the file."""
    with pytest.raises(InputError) as caught:
        sniff(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value.message


def test_what_is_not_there(tmp_path):
    assert "no such file or folder" in refusal(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.png", "a.jsonl", "a"])
def test_an_empty_file(file, name):
    assert "the file is empty" in refusal(file(name, b""))


def test_white_space_alone(file):
    assert "only white space" in refusal(file("a.csv", " \n\n\t\n"))


@pytest.mark.parametrize("name", ["a.bin", "a.csv", "a.txt", "a.jsonl", "a"])
@pytest.mark.parametrize("size", [2000, 200_000])
def test_binary_junk(file, name, size):
    refusal(file(name, JUNK * (size // len(JUNK))))


@pytest.mark.parametrize("size", [2000, 200_000])
def test_binary_junk_without_a_zero_byte(file, size):
    junk = JUNK.replace(b"\0", b"\xfe") * (size // len(JUNK))
    refusal(file("a.bin", junk))


@pytest.mark.parametrize("repeat", [1, 10_000])
def test_text_in_another_encoding_is_refused_at_any_size(file, repeat):
    """A small file and a large one alike; UTF-8 is what the readers read."""
    assert "UTF-8" in refusal(file("a.csv", LATIN * repeat))


def test_utf_16_is_refused(file):
    refusal(file("a.csv", "a,b\n1,2\n".encode("utf-16")))


def test_a_compressed_file_is_not_text(file):
    refusal(file("a.csv.gz", gzip.compress(b"a,b\n1,2\n")))


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"{'descr': '<f8'}    ",
        b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"{'shape': 5}        ",
        b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"[1, 2, 3]           ",
        b"\x93NUMPY\x01\x00" + (6000).to_bytes(2, "little") + b"(" * 6000,
        b"\x93NUMPY\x01\x00" + (6000).to_bytes(2, "little") + b"-" * 6000,
        b"\x93NUMPY\x01\x00" + (60001).to_bytes(2, "little") + b"1+" * 30000 + b"1",
        b"not numpy at all",
    ],
)
def test_a_broken_npy(file, content):
    assert "not a readable .npy file" in refusal(file("a.npy", content))


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut short", JUNK, b"words"])
def test_a_broken_npz(file, content):
    assert "not a readable .npz file" in refusal(file("a.npz", content))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{'x': 1}\n", "line 1 is not JSON"),
        ("[1, 2]\n", "line 1 is not a JSON object"),
        ("\n\nnot json\n", "line 3 is not JSON"),
        ("[" * 50_000, "line 1 is not JSON"),
    ],
)
def test_a_broken_jsonl(file, content, what):
    assert what in refusal(file("a.jsonl", content))


# --- long lines, large heads ---------------------------------------------------------------------


def test_a_header_longer_than_what_is_looked_at(file):
    names = ",".join(f"column number {i}" for i in range(10_000))
    values = ",".join("1" for _ in range(10_000))
    assert sniff(file("a.csv", f"{names}\n{values}\n")).kinds == ("table",)


def test_a_first_record_longer_than_what_is_looked_at(file):
    """A document of a hundred kilobytes on one line."""
    record = json.dumps({"text": "a" * 100_000})
    assert set(sniff(file("a.jsonl", record + "\n")).kinds) == {"text", "table"}


@pytest.mark.parametrize("repeat", [1, 20_000])
def test_a_byte_order_mark_does_not_matter_at_any_size(file, repeat):
    assert set(sniff(file("a.jsonl", "\ufeff" + '{"text": "a"}\n' * repeat)).kinds) == {
        "text",
        "table",
    }


def test_the_head_may_end_in_the_middle_of_a_character(file):
    for shift in range(4):
        assert sniff(file("a.txt", "x" * shift + "🤖" * 20_000)).kinds == ("text",)


def test_quotes_do_not_stop_the_reader(environment, file):
    """``csv.Sniffer`` takes the square of the length over some lines; a person sees a hang."""
    path = file("a.csv", ", \"a'" * 13_000)
    code = f"from practicum.data.sniff import sniff; sniff({str(path)!r})"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=20)


@given(
    st.binary(max_size=300), st.sampled_from([".csv", ".npy", ".npz", ".jsonl", ".txt", ".xyz", ""])
)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_are_a_kind_or_an_input_error(file, content, suffix):
    path = file("any" + suffix, content)
    try:
        kinds = sniff(path).kinds
    except InputError as error:
        kinds = ()
        named = str(path) in error.message
    assert set(kinds) <= set(KINDS)
    assert kinds or named


@given(st.text(alphabet=string.printable, min_size=1, max_size=300))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_is_a_table_or_an_input_error(file, content):
    try:
        assert "table" in sniff(file("any.csv", content)).kinds
    except InputError:
        assert not content.strip()


# --- folders -------------------------------------------------------------------------------------


def test_a_folder_of_images(file, tmp_path):
    for name in ("cat/1.png", "dog/2.jpeg", "labels.csv"):
        file(f"data/{name}", "x")
    assert sniff(tmp_path / "data").kinds == ("images",)


def test_a_folder_of_meshes(file, tmp_path):
    file("data/1.ply", "ply\n")
    file("data/2.ply", "ply\n")
    sniffed = sniff(tmp_path / "data")
    assert set(sniffed.kinds) == {"mesh", "points"}
    assert "2 files" in sniffed.about


def test_a_folder_with_nothing_in_it(tmp_path):
    (tmp_path / "a").mkdir()
    assert "the folder is empty" in refusal(tmp_path / "a")


def test_a_folder_of_unknown_files(file, tmp_path):
    file("data/a.doc", "x")
    assert "no file of a known kind among 1" in refusal(tmp_path / "data")


@pytest.mark.parametrize("hidden", [".DS_Store", ".git/x.csv", ".ipynb_checkpoints/mine.csv"])
def test_hidden_files_and_folders_do_not_count(file, tmp_path, hidden):
    file(f"data/{hidden}", "a,b\n1,2\n")
    assert "the folder is empty" in refusal(tmp_path / "data")


def test_a_broken_file_in_a_folder_is_named(file, tmp_path):
    path = file("data/a.npy", "x")
    with pytest.raises(InputError, match=r"a\.npy"):
        sniff(tmp_path / "data")
    assert path.exists()


# --- a person's data -----------------------------------------------------------------------------


def fingerprint(*paths):
    return UserData.of(paths).fingerprint


def test_data_must_be_there():
    with pytest.raises(InputError, match=r"nowhere\.csv: there is no such file"):
        UserData.of(["nowhere.csv"])
    with pytest.raises(InputError, match="no data given"):
        UserData.of([])


def test_a_single_path_is_a_single_path(file):
    a, b = file("a.csv", "1"), file("b.csv", "2")
    assert UserData.of([a]).path == a
    with pytest.raises(InputError, match="one file expected, 2 given"):
        UserData.of([a, b]).path  # noqa: B018


def test_names(file, tmp_path, monkeypatch):
    a, b = file("mine.csv", "1"), file("b.csv", "2")
    assert UserData.of([a]).name == "mine"
    assert UserData.of([a, b]).name == "mine and 1 more"
    monkeypatch.chdir(tmp_path)
    assert UserData.of(["."]).name == tmp_path.name


def test_a_file_name_that_is_not_utf_8_can_be_printed(file):
    path = file(os.fsdecode(b"caf\xe9.csv"), "1")
    assert UserData.of([path]).name.encode().startswith(b"caf")


def test_the_fingerprint_follows_the_content(file):
    before = fingerprint(file("a.csv", "1,2\n"))
    assert len(before) == 16
    assert fingerprint(file("a.csv", "1,3\n")) != before
    assert fingerprint(file("a.csv", "1,2\n\n")) != before
    assert fingerprint(file("a.csv", "1,2\n")) == before


def test_the_fingerprint_does_not_follow_time_or_place(file):
    here, there = file("here/a.csv", "1,2\n"), file("there/deep/a.csv", "1,2\n")
    os.utime(there, (1, 1))
    assert fingerprint(here) == fingerprint(there)


def test_the_fingerprint_of_a_folder_does_not_follow_its_place(file, tmp_path):
    for place in ("here", "there/deep"):
        file(f"{place}/data/cat/1.png", "x")
        file(f"{place}/data/dog/2.png", "y")
    assert fingerprint(tmp_path / "here/data") == fingerprint(tmp_path / "there/deep/data")


def test_a_relative_path_is_the_same_data(file, tmp_path, monkeypatch):
    path = file("a.csv", "1")
    monkeypatch.chdir(tmp_path)
    assert fingerprint("a.csv") == fingerprint(path)


def test_a_picture_in_another_class_is_other_data(file, tmp_path):
    """Folders name classes: cat/1.png is not dog/1.png."""
    file("one/cat/1.png", "x")
    file("two/dog/1.png", "x")
    assert fingerprint(tmp_path / "one") != fingerprint(tmp_path / "two")


def test_names_and_contents_do_not_run_into_one_another(file):
    assert fingerprint(file("ab", "c")) != fingerprint(file("a", "bc"))


def test_two_files_are_not_one(file):
    one = fingerprint(file("a", "1"), file("b", "2"))
    assert one != fingerprint(file("a", "1b2"))
    assert one != fingerprint(file("b", "2"), file("a", "1"))


def test_a_new_file_in_a_folder_is_other_data(file, tmp_path):
    file("data/a.csv", "1")
    before = fingerprint(tmp_path / "data")
    file("data/.DS_Store", "x")
    assert fingerprint(tmp_path / "data") == before
    file("data/b.csv", "2")
    assert fingerprint(tmp_path / "data") != before


def test_what_vanished_is_said(file):
    path = file("a.csv", "1")
    data = UserData.of([path])
    path.unlink()
    with pytest.raises(InputError, match=r"a\.csv: cannot be read"):
        data.fingerprint  # noqa: B018


def test_nothing_heavy_is_imported():
    code = (
        "import practicum.data.kinds, sys; "
        "print(sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
