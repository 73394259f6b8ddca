"""Tables as people have them, and what is said about those that cannot be used."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from practicum.data.table import read_table
from practicum.errors import InputError


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


FRAME = pd.DataFrame({"x": [1.0, 2.5, -3.0], "y": [4, 5, 6]})


@pytest.fixture(params=["csv", "tsv", "parquet", "npz", "jsonl"])
def same_table(request, tmp_path):
    path = tmp_path / f"table.{request.param}"
    if request.param == "csv":
        FRAME.to_csv(path, index=False)
    elif request.param == "tsv":
        FRAME.to_csv(path, index=False, sep="\t")
    elif request.param == "parquet":
        FRAME.to_parquet(path)
    elif request.param == "npz":
        np.savez(path, **{c: FRAME[c].to_numpy() for c in FRAME})
    else:
        FRAME.to_json(path, orient="records", lines=True)
    return path


def test_every_format_gives_the_same_table(same_table):
    frame = read_table(same_table)
    pd.testing.assert_frame_equal(frame.astype(float), FRAME.astype(float))


def test_columns_are_chosen_and_ordered(same_table):
    assert list(read_table(same_table, columns=["y", "x"]).columns) == ["y", "x"]
    with pytest.raises(InputError, match=r"no column 'z'.*columns there: 'x', 'y'"):
        read_table(same_table, columns=["x", "z"])


@given(array=arrays(float, (4, 2), elements=st.floats(-1e6, 1e6)))
def test_npy_and_csv_round_trip(array, tmp_path_factory):
    folder = tmp_path_factory.mktemp("round")
    np.save(folder / "a.npy", array)
    np.testing.assert_array_equal(read_table(folder / "a.npy").to_numpy(), array)
    pd.DataFrame(array, columns=["a", "b"]).to_csv(folder / "a.csv", index=False)
    np.testing.assert_allclose(read_table(folder / "a.csv").to_numpy(), array, rtol=1e-12)


def test_arrays_get_numbers_for_names(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2))
    assert list(read_table(tmp_path / "a.npy").columns) == ["0", "1"]
    np.save(tmp_path / "b.npy", np.arange(3))
    assert read_table(tmp_path / "b.npy").shape == (3, 1)
    np.savez(tmp_path / "c.npz", data=np.eye(2))
    assert read_table(tmp_path / "c.npz").shape == (2, 2)


def test_structured_arrays_keep_their_names(tmp_path):
    np.save(tmp_path / "a.npy", np.array([(1, 2.0)], dtype=[("id", int), ("size", float)]))
    assert list(read_table(tmp_path / "a.npy").columns) == ["id", "size"]


def test_text_columns_are_skipped_with_a_warning(tmp_path):
    path = write(tmp_path, "t.csv", "name,x\nann,1\nbob,2\n")
    with pytest.warns(UserWarning, match="skipped columns that are not numeric: name"):
        assert list(read_table(path).columns) == ["x"]
    assert list(read_table(path, numeric=False).columns) == ["name", "x"]


def test_text_columns_that_were_named_are_an_error(tmp_path):
    path = write(tmp_path, "t.csv", "name,x\nann,1\nbob,2\n")
    with pytest.raises(InputError, match="column 'name', line 2: expected a number, found 'ann'"):
        read_table(path, columns=["name", "x"])


def test_a_stray_word_in_a_numeric_column_is_an_error_with_its_line(tmp_path):
    path = write(tmp_path, "t.csv", "x,y\n1,2\n3,4\n5,n.a.n\n7,8\n")
    with pytest.raises(InputError, match=r"t.csv, column 'y', line 4: .*found 'n.a.n' \(1 such"):
        read_table(path)


@pytest.mark.parametrize(
    ("cell", "words"), [("", "an empty cell"), ("NaN", "an empty cell or NaN"), ("inf", "inf")]
)
def test_missing_cells_name_file_column_and_line(tmp_path, cell, words):
    path = write(tmp_path, "t.csv", f"x,y\n1,2\n\n3,{cell}\n5,6\n")
    with pytest.raises(InputError, match="line 4"):  # the blank line counts, and is no row
        read_table(path)
    path = write(tmp_path, "t.csv", f"x,y\n1,2\n3,{cell}\n5,{cell}\n")
    with pytest.raises(InputError, match=rf"t.csv, column 'y', line 3: found {words}.*2 of 3 rows"):
        read_table(path)


def test_missing_cells_of_binary_files_count_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0, 2], [3, np.nan]]))
    with pytest.raises(InputError, match="column '1', row 2"):
        read_table(tmp_path / "a.npy")


def test_missing_rows_are_dropped_when_asked(tmp_path):
    path = write(tmp_path, "t.csv", "x,y\n1,2\n3,\n-inf,6\n7,8\n")
    with pytest.warns(UserWarning, match="dropped 2 of 4 rows"):
        frame = read_table(path, missing="drop")
    assert frame["x"].tolist() == [1, 7]
    assert frame.index.tolist() == [0, 1]
    with pytest.raises(InputError, match="every row"):
        read_table(write(tmp_path, "u.csv", "x\nnan\nnan\n"), missing="drop")


def test_trailing_blank_lines_are_nothing(tmp_path):
    assert len(read_table(write(tmp_path, "t.csv", "x\n1\n2\n\n\n"))) == 2


def test_rows_are_counted_where_quoted_cells_hold_line_breaks(tmp_path):
    path = write(tmp_path, "t.csv", 'note,x\n"two\nlines",1\nb,inf\n')
    with pytest.raises(InputError, match="column 'x', row 2"):
        read_table(path)


def test_byte_order_mark_and_spaces_in_names(tmp_path):
    path = write(tmp_path, "t.csv", "\ufeffx , y\n1,2\n")
    assert list(read_table(path).columns) == ["x", "y"]


BAD = [
    ("t.csv", b"", "is empty"),
    ("t.csv", b"x,y\n", "holds no rows"),
    ("t.csv", bytes(range(256)), "not text"),
    ("t.csv", b"x\n\xff\xfe1\n", "not UTF-8"),
    ("t.csv", b"x,y\n1,2\n1,2,3,4\n", "cannot be read as CSV"),
    ("t.csv", b"a,b\nu,v\nw,z\n", "no numeric column"),
    ("t.parquet", b"not parquet at all", "cannot be read as PARQUET"),
    ("t.npy", b"\x93NUMPY\x01\x00", "cannot be read as NPY"),
    ("t.npz", b"PK\x03\x04junk", "cannot be read as NPZ"),
    ("t.jsonl", b'{"x": 1}\n{"x": \n', "line 2: not JSON"),
    ("t.jsonl", b'{"x": 1}\n[1]\n', "line 2: expected a JSON object"),
    ("t.xlsx", b"PK", "are not read as tables"),
]


@pytest.mark.parametrize(("name", "content", "words"), BAD)
def test_bad_input(tmp_path, name, content, words):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=words) as caught:
        read_table(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_input_arguments(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="missing='fill'"):
        read_table(write(tmp_path, "t.csv", "x\n1\n"), missing="fill")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match=r"shape \(2, 2, 2\)"):
        read_table(tmp_path / "cube.npy")
    np.savez(tmp_path / "odd.npz", a=np.zeros(2), b=np.zeros(3))
    with pytest.raises(InputError, match="1-D arrays of one length"):
        read_table(tmp_path / "odd.npz")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as NPY"):
        read_table(tmp_path / "o.npy")


def test_empty_jsonl_cells_are_missing(tmp_path):
    path = write(tmp_path, "t.jsonl", '{"x": 1, "y": 2}\n{"x": 3}\n')
    with pytest.raises(InputError, match="column 'y', line 2"):
        read_table(path)


@pytest.mark.parametrize(
    ("text", "values"),
    [("a;b\n1,5;2\n3,25;4\n", [1.5, 3.25]), ("a;b\n1.5;2\n3.25;4\n", [1.5, 3.25])],
)
def test_semicolons_as_spreadsheets_write_them(tmp_path, text, values):
    path = tmp_path / "t.csv"
    path.write_text(text)
    frame = read_table(path)
    assert list(frame) == ["a", "b"]
    assert frame["a"].tolist() == values


def test_tabs_in_a_file_called_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\tb\n1\t2\n")
    assert read_table(path)["b"].tolist() == [2]


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)


def test_gaps_are_kept_on_request(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n,y\n")
    assert read_table(path, numeric=False, missing="keep")["a"].isna().tolist() == [False, True]
