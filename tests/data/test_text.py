"""Text as people have it, and what is said about files that are not text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.data.text import read_text, read_utf8
from practicum.errors import InputError


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_plain_text_is_one_document(tmp_path):
    path = write(tmp_path, "a.txt", "\ufeffThe naïve\n\nreader.\n")
    assert read_text(path) == ["The naïve\n\nreader.\n"]


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_json_lines_round_trip(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    lines = (json.dumps({"body": t}, ensure_ascii=False) for t in texts)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    assert read_text(path, field="body") == texts


def test_blank_lines_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "one"}\n\n{"text": "two"}\n{"text": \n')
    with pytest.raises(InputError, match=r"a.jsonl, line 4: not JSON"):
        read_text(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b" \n \n", "is empty"),
        ("a.txt", b"caf\xe9 au lait", "byte 0xe9 at offset 3"),
        ("a.txt", bytes(range(256)), "not text: byte 0 is zero"),
        ("a.jsonl", b'{"text": "a"}\n7\n', "line 2: expected a JSON object, found int"),
        ("a.jsonl", b'{"body": "a"}\n', "line 1: no field 'text'; fields there: 'body'"),
        ("a.jsonl", b"{}\n", "fields there: none"),
        ("a.jsonl", b'{"text": 5}\n', "line 1: field 'text' is not a non-empty string"),
        ("a.jsonl", b'{"text": ""}\n', "not a non-empty string"),
    ],
)
def test_bad_input(tmp_path, name, content, words):
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=words) as caught:
        read_text(path)
    assert name in str(caught.value)


def test_bad_input_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="no such file"):
        read_utf8(tmp_path)
