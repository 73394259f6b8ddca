"""Text files: UTF-8 ``.txt`` and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.errors import InputError, listed, shown

FLOAT_DIGITS = 308  # whole numbers of more digits are beyond every float


def read_text(path: str | Path, field: str = "text") -> list[str]:
    """Read documents from a file.

    Parameters
    ----------
    path : str or Path
        ``.jsonl`` or ``.ndjson``: one JSON object per line, its ``field`` is the document (empty
        lines are skipped).  Anything else: plain text, which is one document.
    field : str
        Name of the field in JSON lines.

    Returns
    -------
    list of str
        Non-empty documents.

    Raises
    ------
    InputError
        If the file is missing, empty, not UTF-8 (with the byte's place) or not text, or if a line
        is not JSON or lacks the field (with the line's number).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.jsonl"
    >>> _ = path.write_text('{"text": "first"}\\n{"text": "second"}\\n')
    >>> read_text(path)
    ['first', 'second']
    """
    path = Path(path)
    text = read_utf8(path)
    if not text.strip():
        raise InputError(f"{path} is empty", "expected UTF-8 text")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _json_lines(path, text, field)
    return [text]


def read_utf8(path: str | Path) -> str:
    """The content of a UTF-8 file, without a byte-order mark.

    Raises
    ------
    InputError
        If the file is missing, unreadable, binary, or not UTF-8 (with the byte's place).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_bytes(b"caf\\xc3\\xa9")
    >>> len(read_utf8(path))
    4
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if b"\0" in content:
        raise InputError(
            f"{path} is not text: byte {content.index(0)} is zero", "expected a UTF-8 text file"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}",
            "convert it, for example: iconv -f latin1 -t utf-8",
        ) from None


def parse_json(text: str) -> Any:
    """JSON as people's programs write it; a whole number beyond every float is infinite, as 1e400.

    Raises
    ------
    ValueError
        It is not JSON, or nested more deeply than Python can follow.

    Examples
    --------
    >>> parse_json('{"a": [1, 1e400]}')
    {'a': [1, inf]}
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= FLOAT_DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)


def json_records(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines, each with the number of its line; empty lines are skipped.

    Raises
    ------
    InputError
        A line that is no JSON object, by its number.

    Examples
    --------
    >>> list(json_records(Path("a.jsonl"), '{"a": 1}'))
    [(1, {'a': 1})]
    """
    # Only \n ends a JSON line: str.splitlines would also cut at characters inside strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            reason = getattr(error, "msg", error)
            raise InputError(f"{path}, line {number}: not JSON ({reason})") from None
        if not isinstance(record, dict):
            found = type(record).__name__
            raise InputError(f"{path}, line {number}: expected a JSON object, found {found}")
        yield number, record


def _json_lines(path: Path, text: str, field: str) -> list[str]:
    documents = []
    for number, record in json_records(path, text):
        if field not in record:
            there = listed(map(shown, record)) or "none"
            raise InputError(
                f"{path}, line {number}: no field {field!r}; fields there: {there}",
                "name the right one with field=...",
            )
        if not isinstance(record[field], str) or not record[field]:
            raise InputError(
                f"{path}, line {number}: field {field!r} is not a non-empty string",
                "drop such lines",
            )
        documents.append(record[field])
    return documents
