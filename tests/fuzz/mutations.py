"""Damaged copies of valid inputs: what a person's broken export, disk or editor makes of a file.

:func:`mutants` looks at the bytes, picks the mutators that understand them (tables, JSON lines,
NPY and NPZ, HDF5, Parquet, ZIP, images, geometry), mixes in those that know bytes alone, and
yields named mutants.  The same bytes, seed and number give the same mutants: no state is global.
"""

from __future__ import annotations

import csv
import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache

Mutator = Callable[[bytes, random.Random], bytes | None]

# what people's cells hold where a number was meant; the name is part of the mutant's
ODD_CELLS = {
    "nan": "NaN",
    "inf": "inf",
    "minus-inf": "-Infinity",
    "1e308": "1e308",
    "1e400": "1e400",
    "1e-400": "1e-400",
    "huge-integer": "1" + "0" * 40,
    "above-int64": "9223372036854775808",
    "above-uint64": "18446744073709551616",
    "thousands-of-digits": "7" * 5000,
    "negative": "-1",
    "minus-zero": "-0",
    "empty": "",
    "space": "   ",
    "quote": '"',
    "quoted": '"a ""b"", c"',
    "word": "abc",
    "decimal-comma": "1,5",
    "thousands": "1 000",
    "formula": "=HYPERLINK(1)",
    "arabic-digits": "١٢٣",
    "superscript": "²",
    "full-width": "１２",
    "true": "true",
    "none": "None",
    "hex": "0x10",
    "date": "2020-02-30",
    "complex": "1+2j",
    "nul": "\0",
    "carriage": "1\r2",
    "line-separator": "a\u2028b",
    "long": "x" * 150_000,
    "surrogate-escape": "\udcff",
    "brackets": "[1, 2]",
    "path": "../../etc/passwd",
}
# values of other kinds than the one a key of a JSON object usually has
ODD_VALUES = {
    "null": "null",
    "true": "true",
    "string": '"abc"',
    "empty-string": '""',
    "number": "7",
    "negative": "-1",
    "float": "0.5",
    "1e999": "1e999",
    "nan": "NaN",
    "minus-infinity": "-Infinity",
    "huge-integer": "1" + "0" * 400,
    "thousands-of-digits": "7" * 5000,
    "list": "[]",
    "nested-list": "[[1], [1, 2]]",
    "list-of-words": '["a", null, 1]',
    "object": "{}",
    "nested-object": '{"a": {"b": [1]}}',
    "lone-surrogate": '"\\ud800"',
    "nul": '"\\u0000"',
    "deep": "[" * 2000 + "]" * 2000,
    "too-deep": "[" * 200_000 + "]" * 200_000,
    "long": '"' + "x" * 150_000 + '"',
}
BOMB_BYTES = 48 << 20  # of zeros: a thousandth of it as a file


def mutants(data: bytes, seed: int, n: int, kind: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield ``n`` damaged copies of ``data``, each with the name of what was done to it.

    Parameters
    ----------
    data : bytes
        A valid input.
    seed : int
    n : int
        How many.  Mutators are gone through in an order that the seed shuffles, those that know
        the format two to one; the copies differ from ``data``.
    kind : str, optional
        One of :data:`MUTATORS`; told from the bytes by default (:func:`kind_of`).

    Examples
    --------
    >>> made = list(mutants(b"x,y\\n1,2\\n3,4\\n", seed=0, n=5))
    >>> len(made), made == list(mutants(b"x,y\\n1,2\\n3,4\\n", seed=0, n=5))
    (5, True)
    """
    rng = random.Random(f"{seed}")  # a string is hashed by SHA-512, alike on every machine
    order = _order(kind or kind_of(data), rng)
    made = failures = 0
    while made < n and failures < 500:
        name, mutate = next(order)
        one = random.Random(f"{seed} {name} {made} {failures}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the libraries' own, about what is built here
            mutant = mutate(data, one)
        if mutant is None or mutant == data:
            failures += 1
            continue
        made += 1
        yield name, mutant


def _order(kind: str, rng: random.Random) -> Iterator[tuple[str, Mutator]]:
    known, plain = list(MUTATORS[kind].items()), list(MUTATORS["bytes"].items())
    if kind == "bytes":
        known = plain
    while True:
        rng.shuffle(known)
        rng.shuffle(plain)
        others = iter(plain * (1 + len(known) // max(1, 2 * len(plain))))
        for i, mutator in enumerate(known):
            yield mutator
            if i % 2:
                yield next(others)


def kind_of(data: bytes) -> str:
    """Which mutators understand these bytes.

    Examples
    --------
    >>> kind_of(b"a,b\\n1,2\\n"), kind_of(b'{"a": 1}\\n'), kind_of(b"\\x89PNG\\r\\n")
    ('table', 'json', 'image')
    """
    marks = {
        b"\x93NUMPY": "npy",
        b"\x89HDF": "hdf5",
        b"PAR1": "parquet",
        b"\x89PNG": "image",
        b"\xff\xd8\xff": "image",
        b"GIF8": "image",
        b"ply": "geometry",
        b"OFF": "geometry",
        b"v ": "geometry",
        b"solid": "geometry",
        b"SQLite": "bytes",
        b"\x1f\x8b": "gzip",
    }
    for mark, kind in marks.items():
        if data.startswith(mark):
            return kind
    if data.startswith(b"PK"):
        return "npz" if b".npy" in data else "zip"
    if data.lstrip()[:1] in (b"{", b"["):
        return "json"
    if data.lstrip()[:1] == b"<":
        return "xml"
    return "table" if b"\0" not in data[:1000] else "bytes"


# ------------------------------------------------------------- bytes


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))] if data else b"x"


def _cut_front(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data)) :] if data else b"x"


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_head(data: bytes, rng: random.Random) -> bytes:
    """Headers are where lengths and types stand."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        if changed:
            changed[rng.randrange(min(len(changed), 128))] = rng.choice((0, 1, 127, 128, 254, 255))
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    noise = rng.randbytes(rng.choice((1, 4, 64)))
    return data[:at] + noise + data[at + len(noise) :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 4, 64))) + data[at:]


def _block(data: bytes, rng: random.Random) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data), at + rng.choice((1, 8, 200)))


def _repeat_block(data: bytes, rng: random.Random) -> bytes:
    start, end = _block(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def _drop_block(data: bytes, rng: random.Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + data[end:]


def _nul_bytes(data: bytes, rng: random.Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + bytes(max(1, end - start)) + data[end:]


def _big_length(data: bytes, rng: random.Random) -> bytes:
    """Four or eight bytes as a length field would hold them, were it damaged."""
    at = rng.randrange(len(data) + 1)
    word = rng.choice((b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", struct.pack("<q", 1 << 40)))
    return data[:at] + word + data[at + len(word) :]


def _as_text(encoding: str) -> Mutator:
    def recode(data: bytes, rng: random.Random) -> bytes | None:
        return data.decode("latin-1").encode(encoding)

    return recode


BYTES: dict[str, Mutator] = {
    "empty": lambda data, rng: b"",
    "one-byte": lambda data, rng: data[:1],
    "spaces": lambda data, rng: b" \n\t\r\n  \n",
    "zeros": lambda data, rng: bytes(len(data)),
    "noise": lambda data, rng: rng.randbytes(max(1, len(data))),
    "cut": _cut,
    "cut-again": _cut,
    "cut-front": _cut_front,
    "flip": _flip,
    "flip-again": _flip,
    "flip-head": _flip_head,
    "overwrite": _overwrite,
    "insert": _insert,
    "repeat-block": _repeat_block,
    "drop-block": _drop_block,
    "nul-bytes": _nul_bytes,
    "big-length": _big_length,
    "twice": lambda data, rng: data + data,
    "trailing-junk": lambda data, rng: data + rng.randbytes(16),
    "bom": lambda data, rng: b"\xef\xbb\xbf" + data,
    "bom-alone": lambda data, rng: b"\xef\xbb\xbf",
    "utf-16": _as_text("utf-16"),
    "utf-16-without-bom": _as_text("utf-16-le"),
    "utf-32": _as_text("utf-32"),
    "not-utf-8": lambda data, rng: data[: len(data) // 2] + b"\xe9\xff" + data[len(data) // 2 :],
    "html": lambda data, rng: b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "pickle": lambda data, rng: (
        b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."
    ),
    "lfs-pointer": lambda data, rng: (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
    ),
}

# ------------------------------------------------------------- text tables

Rows = list[list[str]]


def _rows_of(data: bytes) -> tuple[Rows, str]:
    text = data.decode("utf-8-sig", "replace")
    header = text.partition("\n")[0]
    separator = max((",", ";", "\t", " "), key=lambda mark: header.count(mark))
    try:
        return [r for r in csv.reader(io.StringIO(text), delimiter=separator) if r], separator
    except csv.Error:  # of what is already a mutant
        return [line.split(separator) for line in text.split("\n") if line], separator


def _text_of(rows: Rows, separator: str, end: str = "\n") -> bytes:
    """Cells that hold the separator are quoted; quotes put there by a mutator stay alone."""

    def cell(value: str) -> str:
        return f'"{value}"' if separator in value and '"' not in value else value

    text = "".join(separator.join(map(cell, row)) + end for row in rows)
    return text.encode("utf-8", "surrogateescape")


def _on_rows(change: Callable[[Rows, random.Random], Rows | None]) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        rows, separator = _rows_of(data)
        if not rows:
            return None
        changed = change([list(row) for row in rows], rng)
        return None if changed is None else _text_of(changed, separator)

    return mutate


def _with_cell(value: str, where: str) -> Mutator:
    def change(rows: Rows, rng: random.Random) -> Rows | None:
        if len(rows) < 2:
            return None
        column = rng.randrange(len(rows[0]))
        if where == "header":
            rows[0][column] = value
        row = rng.randrange(1, len(rows))
        for i, cells in enumerate(rows[1:], start=1):
            if where == "table":
                rows[i] = [value] * len(cells)
            elif column < len(cells) and (where == "column" or (where == "cell" and i == row)):
                cells[column] = value
        return rows

    return _on_rows(change)


def _drop_column(rows: Rows, rng: random.Random) -> Rows | None:
    at = rng.randrange(len(rows[0]))
    return [row[:at] + row[at + 1 :] for row in rows] if len(rows[0]) > 1 else None


def _repeat_header(rows: Rows, rng: random.Random) -> Rows:
    rows[0] = [rng.choice(rows[0])] * len(rows[0])
    return rows


def _repeat_column(rows: Rows, rng: random.Random) -> Rows:
    at = rng.randrange(len(rows[0]))
    return [[*row, *row[at : at + 1]] for row in rows]


def _ragged(rows: Rows, rng: random.Random) -> Rows:
    at = rng.randrange(len(rows))
    rows[at] = rows[at][:-1] if rng.random() < 0.5 else [*rows[at], "9", "9"]
    return rows


def _shuffled_cells(rows: Rows, rng: random.Random) -> Rows:
    """Columns of mixed kinds: every row in an order of its own."""
    for row in rows[1:]:
        rng.shuffle(row)
    return rows


def _constant_column(rows: Rows, rng: random.Random) -> Rows | None:
    if len(rows) < 2:
        return None
    at = rng.randrange(len(rows[0]))
    for row in rows[1:]:
        row[at : at + 1] = rows[1][at : at + 1]
    return rows


def _other_separator(mark: str) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes:
        return _text_of(_rows_of(data)[0], mark)

    return mutate


def _decimal_commas(data: bytes, rng: random.Random) -> bytes:
    rows, _ = _rows_of(data)
    return _text_of([[cell.replace(".", ",") for cell in row] for row in rows], ";")


TABLE: dict[str, Mutator] = {
    "drop-column": _on_rows(_drop_column),
    "repeat-header-name": _on_rows(_repeat_header),
    "repeat-column": _on_rows(_repeat_column),
    "header-twice": _on_rows(lambda rows, rng: [rows[0], *rows]),
    "header-again-below": _on_rows(lambda rows, rng: [*rows, rows[0]]),
    "header-only": _on_rows(lambda rows, rng: rows[:1]),
    "no-header": _on_rows(lambda rows, rng: rows[1:]),
    "one-row": _on_rows(lambda rows, rng: rows[:2]),
    "two-rows": _on_rows(lambda rows, rng: rows[:3]),
    "same-row-often": _on_rows(lambda rows, rng: [rows[0]] + rows[1:2] * len(rows)),
    "one-column": _on_rows(lambda rows, rng: [row[:1] for row in rows]),
    "empty-header": _on_rows(lambda rows, rng: [[""] * len(rows[0]), *rows[1:]]),
    "ragged": _on_rows(_ragged),
    "shuffled-cells": _on_rows(_shuffled_cells),
    "constant-column": _on_rows(_constant_column),
    "blank-lines": lambda data, rng: data.replace(b"\n", b"\n\n"),
    "open-quote": lambda data, rng: data[: len(data) // 2] + b'"' + data[len(data) // 2 :],
    "crlf": lambda data, rng: data.replace(b"\n", b"\r\n"),
    "cr": lambda data, rng: data.replace(b"\n", b"\r"),
    "semicolons": _other_separator(";"),
    "tabs": _other_separator("\t"),
    "spaces-between": _other_separator(" "),
    "pipes": _other_separator("|"),
    "commas": _other_separator(","),
    "decimal-commas": _decimal_commas,
    "comment-line": lambda data, rng: b"# made by hand\n" + data,
    "many-columns": _on_rows(lambda rows, rng: [row * 400 for row in rows]),
    **{
        f"{where}:{name}": _with_cell(value, where)
        for where in ("cell", "column", "header", "table")
        for name, value in ODD_CELLS.items()
        if where != "table" or name in ("nan", "empty", "1e308", "word", "negative", "huge-integer")
    },
}

# ------------------------------------------------------------- JSON and JSON lines


class _Verbatim(str):
    """A value that is written as it stands."""


def _dump(value: object) -> str:
    """JSON with verbatim parts, which ``json`` cannot write."""
    if isinstance(value, _Verbatim):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    return json.dumps(value)


def _documents(data: bytes) -> tuple[list[object], bool] | None:
    """The documents, and whether they stand on lines of their own."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return [json.loads(text)], False
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()], True
    except (ValueError, RecursionError):
        return None


def _places(value: object, depth: int = 0) -> Iterator[tuple[dict | list, str | int]]:
    """Every key of every object and every item of every list, with what holds it."""
    if depth > 50:
        return
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        yield value, key  # type: ignore[misc]
        yield from _places(inner, depth + 1)


def _on_json(change: Callable[[list, random.Random], list | None]) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        found = _documents(data)
        if found is None:
            return None
        changed = change(found[0], rng)
        if changed is None:
            return None
        return ("\n".join(map(_dump, changed)) + "\n" * found[1]).encode("utf-8", "surrogatepass")

    return mutate


def _with_value(value: str, everywhere: bool) -> Mutator:
    def change(documents: list, rng: random.Random) -> list | None:
        places = list(_places(documents))
        inner = [(holder, key) for holder, key in places if holder is not documents]
        if not inner:
            return None
        holder, key = rng.choice(inner)
        for other, there in list(inner) if everywhere else [(holder, key)]:
            if there == key and type(other) is type(holder):
                other[there] = _Verbatim(value)  # type: ignore[index]
        return documents

    return _on_json(change)


def _drop_key(documents: list, rng: random.Random, everywhere: bool = False) -> list | None:
    keys = [(h, k) for h, k in _places(documents) if isinstance(h, dict)]
    if not keys:
        return None
    holder, key = rng.choice(keys)
    for other, there in keys if everywhere else [(holder, key)]:
        if there == key:
            other.pop(there, None)
    return documents


def _rename_key(documents: list, rng: random.Random) -> list | None:
    keys = [(h, k) for h, k in _places(documents) if isinstance(h, dict)]
    if not keys:
        return None
    holder, key = rng.choice(keys)
    holder[rng.choice(("", "ключ", str(key).upper(), "__class__"))] = holder.pop(key)
    return documents


def _repeated_keys(documents: list, rng: random.Random) -> list:
    def twice(value: object) -> object:
        if isinstance(value, dict):
            inner = ", ".join(f"{json.dumps(k)}: {_dump(v)}" for k, v in value.items())
            return _Verbatim("{" + inner + (", " if inner else "") + inner + "}")
        return value

    return [twice(document) for document in documents]


def _drop_item(documents: list, rng: random.Random) -> list | None:
    lists = [(h, k) for h, k in _places(documents) if isinstance(h, list)]
    if not lists:
        return None
    holder, key = rng.choice(lists)
    del holder[key]
    return documents


JSON: dict[str, Mutator] = {
    "drop-key": _on_json(_drop_key),
    "drop-key-everywhere": _on_json(lambda docs, rng: _drop_key(docs, rng, everywhere=True)),
    "rename-key": _on_json(_rename_key),
    "repeated-keys": _on_json(_repeated_keys),
    "drop-item": _on_json(_drop_item),
    "list-instead": _on_json(lambda docs, rng: [[doc] for doc in docs]),
    "items-instead": _on_json(
        lambda docs, rng: [list(d.values()) if isinstance(d, dict) else d for d in docs]
    ),
    "one-line-a-word": _on_json(lambda docs, rng: [*docs, "abc"]),
    "one-line-null": _on_json(lambda docs, rng: [None, *docs]),
    "one-line-number": _on_json(lambda docs, rng: [*docs, 3.5]),
    "empty-object": _on_json(lambda docs, rng: [{}]),
    "empty-list": _on_json(lambda docs, rng: [[]]),
    "first-only": _on_json(lambda docs, rng: docs[:1]),
    "too-deep-alone": lambda data, rng: b"[" * 300_000,
    "too-deep-object": lambda data, rng: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "single-quotes": lambda data, rng: data.replace(b'"', b"'"),
    "trailing-comma": lambda data, rng: data.replace(b"}", b",}"),
    "all-on-one-line": lambda data, rng: data.replace(b"\n", b" "),
    "cr": lambda data, rng: data.replace(b"\n", b"\r"),
    "crlf": lambda data, rng: data.replace(b"\n", b"\r\n"),
    **{
        f"{'values' if everywhere else 'value'}:{name}": _with_value(value, everywhere)
        for everywhere in (False, True)
        for name, value in ODD_VALUES.items()
    },
}

# ------------------------------------------------------------- NumPy's own


def _lying_header(array_bytes: bytes, shape: str, descr: str = "'<f8'") -> bytes:
    """An NPY whose header says other than what follows."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1")
    return head + array_bytes


def _odd_arrays() -> dict[str, Callable]:
    """What takes an array's place, by name; called with the array and a generator."""
    import numpy as np

    def with_value(value: float) -> Callable:
        def change(array, rng):
            changed = np.array(array, dtype=float) if array.dtype.kind in "fiub" else None
            if changed is None or not changed.size:
                return None
            changed.flat[rng.randrange(changed.size)] = value
            return changed

        return change

    return {
        "0-d": lambda a, rng: a.reshape(-1)[:1].reshape(()) if a.size else np.float64(0),
        "empty": lambda a, rng: a[:0] if a.ndim else np.zeros(0),
        "no-columns": lambda a, rng: np.zeros((a.shape[0] if a.ndim else 1, 0)),
        "flat": lambda a, rng: a.reshape(-1),
        "one-more-axis": lambda a, rng: a[..., None],
        "one-fewer-row": lambda a, rng: a[:-1] if a.ndim else None,
        "one-row": lambda a, rng: a[:1] if a.ndim else None,
        "doubled": lambda a, rng: np.concatenate([a, a]) if a.ndim else None,
        "transposed": lambda a, rng: a.T,
        "complex": lambda a, rng: a.astype(complex) if a.dtype.kind in "fiub" else None,
        "words": lambda a, rng: a.astype(str),
        "bytes": lambda a, rng: a.astype(str).astype("S4") if a.dtype.kind in "fiub" else None,
        "bool": lambda a, rng: a.astype(bool) if a.dtype.kind in "fiu" else None,
        "int8": lambda a, rng: np.nan_to_num(a).astype("i1") if a.dtype.kind in "fiub" else None,
        "uint64": lambda a, rng: (
            np.full(a.shape, 2**64 - 1, "u8") if a.dtype.kind in "fiub" else None
        ),
        "minus-one": lambda a, rng: np.full(a.shape, -1) if a.dtype.kind in "fiub" else None,
        "huge": lambda a, rng: np.full(a.shape, 2**62) if a.dtype.kind in "fiub" else None,
        "float16": lambda a, rng: a.astype("f2") if a.dtype.kind in "fiub" else None,
        "long-double": lambda a, rng: a.astype("g") if a.dtype.kind in "fiub" else None,
        "big-endian": lambda a, rng: a.astype(">f8") if a.dtype.kind in "fiub" else None,
        "dates": lambda a, rng: np.zeros(a.shape, "M8[s]"),
        "spans": lambda a, rng: np.zeros(a.shape, "m8[s]"),
        "void": lambda a, rng: np.zeros(a.shape, "V3"),
        "structured": lambda a, rng: np.zeros(a.shape[:1], [("a", "f4"), ("b", "i2", (2,))]),
        "objects": lambda a, rng: a.astype(object),
        "constant": lambda a, rng: np.full(a.shape, 3.0),
        "all-nan": lambda a, rng: np.full(a.shape, np.nan),
        "one-nan": with_value(np.nan),
        "one-inf": with_value(np.inf),
        "one-1e308": with_value(1e308),
        "one-negative": with_value(-5),
        "one-fraction": with_value(0.5),
    }


def _npy_bytes(array) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def _on_npy(name: str) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        import numpy as np

        try:
            array = np.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError):
            return None
        changed = _odd_arrays()[name](array, rng)
        return None if changed is None else _npy_bytes(changed)

    return mutate


ARRAY_NAMES = tuple(_odd_arrays())
LIES = {
    "more-than-follows": "(100,)",
    "terabytes": "(1000000000000,)",
    "terabytes-of-rows": "(1000000000, 1000)",
    "overflowing-shape": "(4294967296, 4294967296, 4294967296)",
    "negative-shape": "(-1,)",
    "empty-huge": "(0, 10000000000)",
    "no-tuple": "7",
    "64-axes": "(" + "1," * 70 + ")",
}


def _npy_lie(shape: str) -> Mutator:
    return lambda data, rng: _lying_header(data[-64:], shape)


NPY: dict[str, Mutator] = {
    **{name: _on_npy(name) for name in ARRAY_NAMES},
    **{f"header:{name}": _npy_lie(shape) for name, shape in LIES.items()},
    "header:bad-type": lambda d, rng: _lying_header(d[-64:], "(1,)", "'<q77'"),
    "header:object": lambda d, rng: _lying_header(d[-64:], "(1,)", "'|O'"),
    "header:not-literal": lambda d, rng: _lying_header(d[-64:], "__import__('os')"),
    "header:deep": lambda d, rng: _lying_header(b"", "(" * 3000 + ")" * 3000),
}


# ------------------------------------------------------------- ZIP and NPZ


def _members(data: bytes) -> dict[str, bytes] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # of what is already a mutant
        return None


def _zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=1) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)  # ZipInfo: a fixed date
    return out.getvalue()


def _on_zip(change: Callable[[dict, random.Random], list | None], method: int = 8) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        members = _members(data)
        if not members:
            return None
        changed = change(members, rng)
        return None if changed is None else _zipped(changed, method)

    return mutate


def _drop_member(members: dict, rng: random.Random) -> list:
    members.pop(rng.choice(list(members)))
    return list(members.items())


def _empty_member(members: dict, rng: random.Random) -> list:
    members[rng.choice(list(members))] = b""
    return list(members.items())


def _swap_members(members: dict, rng: random.Random) -> list:
    names, contents = list(members), list(members.values())
    rng.shuffle(contents)
    return list(zip(names, contents))


def _damage_member(members: dict, rng: random.Random) -> list:
    name = rng.choice(list(members))
    members[name] = rng.choice((_cut, _flip_head, _overwrite, _drop_block))(members[name], rng)
    return list(members.items())


@lru_cache(maxsize=1)
def _zeros() -> bytes:
    return bytes(BOMB_BYTES)


def _bomb(members: dict, rng: random.Random) -> list:
    """A member that is a thousand times its compressed size."""
    name = rng.choice(list(members))
    content = _zeros()
    if name.endswith(".npy"):
        content = _lying_header(content, f"({BOMB_BYTES // 8},)")
    return [*((n, c) for n, c in members.items() if n != name), (name, content)]


def _locked(data: bytes, rng: random.Random) -> bytes | None:
    """The flag of encryption set, in the directory and the member."""
    if not data.startswith(b"PK\x03\x04"):
        return None
    changed = bytearray(data)
    changed[6] |= 1
    at = data.find(b"PK\x01\x02")
    if at >= 0:
        changed[at + 8] |= 1
    return bytes(changed)


def _unknown_method(data: bytes, rng: random.Random) -> bytes | None:
    at = data.find(b"PK\x01\x02")
    if at < 0:
        return None
    changed = bytearray(data)
    changed[at + 10 : at + 12] = struct.pack("<H", 97)
    return bytes(changed)


ZIP: dict[str, Mutator] = {
    "drop-member": _on_zip(_drop_member),
    "empty-member": _on_zip(_empty_member),
    "swap-members": _on_zip(_swap_members),
    "damage-member": _on_zip(_damage_member),
    "damage-member-again": _on_zip(_damage_member),
    "repeated-member": _on_zip(lambda m, rng: [*m.items(), next(iter(m.items()))]),
    "no-member": lambda data, rng: _zipped([]),
    "path-traversal": _on_zip(lambda m, rng: [*m.items(), ("../../tmp/practicum-evil", b"x")]),
    "absolute-path": _on_zip(lambda m, rng: [*m.items(), ("/tmp/practicum-evil", b"x")]),
    "odd-names": _on_zip(lambda m, rng: [*m.items(), ("a\\b:\n\u202e.npy", b"x"), ("", b"y")]),
    "folder-member": _on_zip(lambda m, rng: [(f"{n}/", b"") for n in m]),
    "renamed-members": _on_zip(lambda m, rng: [(f"x_{n}", c) for n, c in m.items()]),
    "stored": _on_zip(lambda m, rng: list(m.items()), method=0),
    "bomb": _on_zip(_bomb),
    "locked": _locked,
    "unknown-method": _unknown_method,
    "prefix": lambda data, rng: b"#!/bin/sh\n" + data,
}


def _on_npz(name: str, everywhere: bool = False) -> Mutator:
    def change(members: dict, rng: random.Random) -> list | None:
        import numpy as np

        chosen = list(members) if everywhere else [rng.choice(list(members))]
        for member in chosen:
            try:
                array = np.load(io.BytesIO(members[member]), allow_pickle=False)
            except (ValueError, EOFError):
                return None
            changed = _odd_arrays()[name](array, rng)
            if changed is None:
                return None
            members[member] = _npy_bytes(changed)
        return list(members.items())

    return _on_zip(change)


def _npz_lie(shape: str) -> Mutator:
    def change(members: dict, rng: random.Random) -> list:
        name = rng.choice(list(members))
        members[name] = _lying_header(members[name][-64:], shape)
        return list(members.items())

    return _on_zip(change)


NPZ: dict[str, Mutator] = {
    **ZIP,
    **{f"array:{name}": _on_npz(name) for name in ARRAY_NAMES},
    **{
        f"arrays:{name}": _on_npz(name, everywhere=True)
        for name in ("0-d", "empty", "one-row", "objects", "words", "constant", "all-nan", "flat")
    },
    **{f"header:{name}": _npz_lie(shape) for name, shape in LIES.items()},
}

# ------------------------------------------------------------- HDF5


def _hdf5_names(file) -> list[str]:
    names: list[str] = []
    file.visit(names.append)
    return names


def _on_hdf5(change: Callable) -> Mutator:
    """Open a copy, let ``change(file, name, rng)`` loose on it, and give the bytes back."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        import h5py

        buffer = io.BytesIO(data)
        try:
            with h5py.File(buffer, "r+") as file:
                names = _hdf5_names(file)
                if not names or change(file, rng.choice(names), rng) is False:
                    return None
        except (OSError, RuntimeError, KeyError, ValueError, TypeError):
            return None
        return buffer.getvalue()

    return mutate


def _replaced(file, name: str, value) -> None:
    attributes = dict(file[name].attrs)
    del file[name]
    file[name] = value
    file[name].attrs.update(attributes)


def _hdf5_array(kind: str) -> Callable:
    def change(file, name: str, rng: random.Random) -> bool:
        import h5py

        if not isinstance(file[name], h5py.Dataset):
            return False
        changed = _odd_arrays()[kind](file[name][()], rng)
        if changed is None:
            return False
        if changed.dtype.kind == "U":
            changed = changed.astype("S")
        _replaced(file, name, changed)
        return True

    return change


def _hdf5_group_instead(file, name: str, rng: random.Random) -> None:
    del file[name]
    file.create_group(name)


def _hdf5_set_instead(file, name: str, rng: random.Random) -> None:
    del file[name]
    file[name] = 3.0


def _hdf5_dangling(file, name: str, rng: random.Random) -> None:
    import h5py

    del file[name]
    file[name] = rng.choice((h5py.SoftLink("/nowhere"), h5py.ExternalLink("none.h5", "/x")))


def _hdf5_terabytes(file, name: str, rng: random.Random) -> None:
    """A set of chunks none of which is stored: a small file that claims ten terabytes."""
    del file[name]
    file.create_dataset(name, shape=(10**12,), dtype="f8", chunks=(1024,))


def _hdf5_no_space(file, name: str, rng: random.Random) -> None:
    import h5py

    del file[name]
    file[name] = h5py.Empty("f8")


def _hdf5_attributes(file, name: str, rng: random.Random) -> None:
    for holder in (file, file[name]):
        for key in list(holder.attrs):
            holder.attrs[key] = rng.choice((b"x", -1, 2**40, "abc"))


def _hdf5_without_attributes(file, name: str, rng: random.Random) -> None:
    for holder in (file, file[name]):
        for key in list(holder.attrs):
            del holder.attrs[key]


HDF5: dict[str, Mutator] = {
    "drop-set": _on_hdf5(lambda file, name, rng: file.pop(name) and None),
    "group-instead": _on_hdf5(_hdf5_group_instead),
    "set-instead": _on_hdf5(_hdf5_set_instead),
    "dangling-link": _on_hdf5(_hdf5_dangling),
    "terabytes": _on_hdf5(_hdf5_terabytes),
    "no-space": _on_hdf5(_hdf5_no_space),
    "odd-attributes": _on_hdf5(_hdf5_attributes),
    "without-attributes": _on_hdf5(_hdf5_without_attributes),
    "renamed": _on_hdf5(lambda file, name, rng: file.move(name, f"{name}_x")),
    "loop": _on_hdf5(lambda file, name, rng: file.__setitem__("loop", file["/"])),
    **{
        f"array:{name}": _on_hdf5(_hdf5_array(name))
        for name in ARRAY_NAMES
        if name not in ("objects", "dates", "spans", "long-double")
    },
}

# ------------------------------------------------------------- Parquet


def _on_parquet(change: Callable) -> Mutator:
    """``change(table, column number, rng)`` gives the new table."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            whole = pq.read_table(io.BytesIO(data))
            if not whole.num_columns:
                return None
            changed = change(whole, rng.randrange(whole.num_columns), rng)
            out = io.BytesIO()
            pq.write_table(changed, out)
        except (pa.ArrowException, OSError, TypeError, ValueError, OverflowError):
            return None
        return out.getvalue()

    return mutate


def _parquet_column(make: Callable) -> Mutator:
    def change(whole, at: int, rng: random.Random):
        name = whole.column_names[at]
        return whole.set_column(at, name, make(whole.num_rows, rng))

    return _on_parquet(change)


def _parquet_columns() -> dict[str, Mutator]:
    import datetime
    import decimal

    def of(value: object, kind: str | None = None) -> Mutator:
        def make(n: int, rng: random.Random):
            import pyarrow as pa

            return pa.array([value] * n, None if kind is None else pa.type_for_alias(kind))

        return _parquet_column(make)

    def dictionary(n: int, rng: random.Random):
        import pyarrow as pa

        return pa.array(["a", "b"] * n)[:n].dictionary_encode()

    return {
        "column:lists": of([1.0, 2.0]),
        "column:ragged-lists": _parquet_column(
            lambda n, rng: __import__("pyarrow").array([[1.0] * (i % 3) for i in range(n)])
        ),
        "column:objects": of({"a": 1}),
        "column:binary": of(b"\xff\x00"),
        "column:dates": of(datetime.date(2020, 1, 1)),
        "column:times": of(datetime.datetime(2020, 1, 1)),
        "column:spans": of(datetime.timedelta(1)),
        "column:decimal": of(decimal.Decimal("1.5")),
        "column:nulls": of(None),
        "column:bool": of(True),
        "column:words": of("abc"),
        "column:long-word": of("x" * 100_000),
        "column:huge": of(2**63 - 1),
        "column:uint64": of(2**64 - 1, "uint64"),
        "column:nan": of(float("nan")),
        "column:inf": of(float("inf")),
        "column:dictionary": _parquet_column(dictionary),
    }


PARQUET: dict[str, Mutator] = {
    **_parquet_columns(),
    "drop-column": _on_parquet(lambda t, at, rng: t.remove_column(at)),
    "repeated-name": _on_parquet(lambda t, at, rng: t.append_column(t.column_names[at], t[at])),
    "empty-name": _on_parquet(
        lambda t, at, rng: t.rename_columns(
            ["" if i == at else c for i, c in enumerate(t.column_names)]
        )
    ),
    "no-rows": _on_parquet(lambda t, at, rng: t.slice(0, 0)),
    "one-row": _on_parquet(lambda t, at, rng: t.slice(0, 1)),
    "no-columns": _on_parquet(lambda t, at, rng: t.select([])),
    "one-column": _on_parquet(lambda t, at, rng: t.select([at])),
}

# ------------------------------------------------------------- images


def _on_image(change: Callable, format: str | None = None, **options: object) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        from PIL import Image

        try:
            image = Image.open(io.BytesIO(data))
            kept = format or image.format
            out = io.BytesIO()
            change(image).save(out, kept, **options)
        except (OSError, SyntaxError, ValueError, KeyError):
            return None
        return out.getvalue()

    return mutate


def _animated(data: bytes, rng: random.Random) -> bytes:
    from PIL import Image

    frames = [Image.new("P", (9, 7), i) for i in range(3)]
    out = io.BytesIO()
    frames[0].save(out, rng.choice(("GIF", "PNG", "TIFF")), save_all=True, append_images=frames[1:])
    return out.getvalue()


def _png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header promises what does not follow."""
    import zlib

    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _converted(mode: str) -> Callable:
    return lambda image: image.convert("RGB").convert(mode)


def _sized(*size: int) -> Callable:
    return lambda image: image.convert("RGB").resize(size)


IMAGE: dict[str, Mutator] = {
    "cut-image": _cut,
    "without-end": lambda data, rng: data[:-12],
    "1x1": _on_image(_sized(1, 1)),
    "1x2000": _on_image(_sized(1, 2000)),
    "grey": _on_image(_converted("L")),
    "bilevel": _on_image(_converted("1"), "PNG"),
    "palette": _on_image(lambda image: image.convert("P"), "PNG"),
    "transparent-palette": _on_image(lambda i: i.convert("P"), "PNG", transparency=0),
    "transparent-bytes": _on_image(lambda i: i.convert("P"), "PNG", transparency=b"\0\x80"),
    "16-bit": _on_image(lambda image: image.convert("I;16"), "PNG"),
    "32-bit": _on_image(lambda image: image.convert("I"), "TIFF"),
    "float": _on_image(lambda image: image.convert("F"), "TIFF"),
    "cmyk": _on_image(_converted("CMYK"), "JPEG"),
    "cmyk-tiff": _on_image(_converted("CMYK"), "TIFF"),
    "lab": _on_image(_converted("LAB"), "TIFF"),
    "ycbcr": _on_image(_converted("YCbCr"), "TIFF"),
    "rgba": _on_image(_converted("RGBA"), "PNG"),
    "rgba-webp": _on_image(_converted("RGBA"), "WEBP"),
    "grey-alpha": _on_image(_converted("LA"), "PNG"),
    "bmp": _on_image(_converted("RGB"), "BMP"),
    "odd-exif": _on_image(_converted("RGB"), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12"),
    "turned": _on_image(
        _converted("RGB"),
        "JPEG",
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
    ),
    "animated": _animated,
    "png-0x0": lambda data, rng: _png_of_size(0, 0),
    "png-cut-rows": lambda data, rng: _png_of_size(100, 100),
    "png-bomb": lambda data, rng: _png_of_size(200_000, 200_000),
    "png-large": lambda data, rng: _png_of_size(12_000, 12_000),
}

# ------------------------------------------------------------- geometry, XML, gzip


def _swap_word(old: bytes, new: bytes) -> Mutator:
    return lambda data, rng: data.replace(old, new, 1)


def _odd_token(value: str) -> Mutator:
    """One word of the text is another."""

    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        words = data.split(b" ")
        if len(words) < 2:
            return None
        words[rng.randrange(1, len(words))] = value.encode("utf-8", "surrogateescape")
        return b" ".join(words)

    return mutate


def _counted(new: bytes) -> Mutator:
    """The first whole number of the text (a count, in most headers) is another."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        import re

        return re.sub(rb"(?<=[ \n])\d+(?=\s)", new, data, count=1)

    return mutate


def _drop_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


GEOMETRY: dict[str, Mutator] = {
    "cut-half": lambda data, rng: data[: len(data) // 2],
    "drop-line": _drop_line,
    "drop-line-again": _drop_line,
    "binary-promised": _swap_word(b"format ascii 1.0", b"format binary_little_endian 1.0"),
    "ascii-promised": _swap_word(b"format binary_little_endian 1.0", b"format ascii 1.0"),
    "big-endian-promised": _swap_word(b"little", b"big"),
    "odd-type": _swap_word(b"float", b"quad"),
    "list-type": _swap_word(b"property float x", b"property list uchar float x"),
    "no-end": _swap_word(b"end_header\n", b""),
    "count-none": _counted(b"0"),
    "count-more": _counted(b"50"),
    "count-terabytes": _counted(b"99999999999"),
    "count-negative": _counted(b"-3"),
    "count-word": _counted(b"many"),
    "crlf": lambda data, rng: data.replace(b"\n", b"\r\n"),
    **{f"word:{name}": _odd_token(value) for name, value in ODD_CELLS.items()},
}

ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)


def _entities(data: bytes, rng: random.Random) -> bytes:
    """Ten to the tenth letters, told in a few hundred bytes."""
    start = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0
    body = data[start:]
    at = body.rfind(b"</")
    return data[:start] + ENTITIES + b"]>" + body[:at] + b"&j;" + body[at:]


def _outer_file(data: bytes, rng: random.Random) -> bytes:
    start = data.find(b"?>") + 2 if data.startswith(b"<?xml") else 0
    body = data[start:]
    at = body.rfind(b"</")
    declared = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    return data[:start] + declared + body[:at] + b"&e;" + body[at:]


def _tag_change(new: bytes) -> Mutator:
    def mutate(data: bytes, rng: random.Random) -> bytes | None:
        import re

        found = list(re.finditer(rb'"[^"]*"', data))
        if not found:
            return None
        at = rng.choice(found)
        return data[: at.start()] + b'"' + new + b'"' + data[at.end() :]

    return mutate


def _drop_tag(data: bytes, rng: random.Random) -> bytes | None:
    import re

    found = list(re.finditer(rb"<[^>]*>", data))
    if not found:
        return None
    at = rng.choice(found)
    return data[: at.start()] + data[at.end() :]


XML: dict[str, Mutator] = {
    "entities": _entities,
    "outer-file": _outer_file,
    "drop-tag": _drop_tag,
    "drop-tag-again": _drop_tag,
    "deep": lambda data, rng: b"<a>" * 20_000 + b"</a>" * 20_000,
    "drop-line": _drop_line,
    "attribute:empty": _tag_change(b""),
    "attribute:word": _tag_change(b"abc"),
    "attribute:number": _tag_change(b"-1e400"),
    "attribute:markup": _tag_change(b"&lt;x&gt;"),
    "attribute:nul": _tag_change(b"&#0;"),
    "attribute:long": _tag_change(b"x" * 50_000),
}


def _on_gzip(mutate: Mutator) -> Mutator:
    def inner(data: bytes, rng: random.Random) -> bytes | None:
        import gzip
        import zlib

        try:
            plain = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
        changed = mutate(plain, rng)
        return None if changed is None else gzip.compress(changed, 1, mtime=0)

    return inner


GZIP: dict[str, Mutator] = {
    "not-compressed": lambda data, rng: __import__("gzip").decompress(data),
    "bomb": _on_gzip(lambda data, rng: data + _zeros()),
    **{f"inside:{name}": _on_gzip(mutate) for name, mutate in BYTES.items()},
}

MUTATORS: dict[str, dict[str, Mutator]] = {
    "bytes": BYTES,
    "table": TABLE,
    "json": JSON,
    "npy": NPY,
    "npz": NPZ,
    "zip": ZIP,
    "hdf5": HDF5,
    "parquet": PARQUET,
    "image": IMAGE,
    "geometry": GEOMETRY,
    "xml": XML,
    "gzip": GZIP,
}
