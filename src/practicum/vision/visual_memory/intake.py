"""What a person hands over - images or vectors, labels, ids - checked, and made into vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.data.images import as_rgb, file_key, from_arrays, load_image, pixel_key, thumbnail
from practicum.errors import InputError
from practicum.vision.visual_memory.search import normalised
from practicum.vision.visual_memory.table import Labels, Table, listed_ids

if TYPE_CHECKING:
    from practicum.models.vision import Encoder

META = ("group", "source", "time", "weight")
PICTURE = 64  # pixels of a kept thumbnail


# --- images --------------------------------------------------------------------------------------


@dataclass
class Encoded:
    """Images that could be read, and what became of the others.

    Attributes
    ----------
    vectors : array of shape (kept, d)
    kept : list of int
        Their positions among the images given.
    keys : list of str
        Hashes of their contents.
    thumbnails : list of bytes or None
    names : list of str or None
        Paths, where they were files.
    problems : dict of name -> what is wrong with it

    Examples
    --------
    >>> Encoded(np.ones((1, 2)), [0], [""], [None], ["a.png"], {}).names
    ['a.png']
    """

    vectors: np.ndarray
    kept: list[int]
    keys: list[str]
    thumbnails: list[bytes | None]
    names: list[str | None]
    problems: dict[str, str]


def encode_images(
    images: Sequence[Any],
    encoder: Encoder | None,
    thumbnails: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Encoded:
    """Vectors of images; files that cannot be read are left out with a warning.

    Parameters
    ----------
    images : sequence of paths, Pillow images or arrays
    encoder : Encoder
    thumbnails : bool
    progress : callable, optional

    Raises
    ------
    InputError
        There is no encoder, or no image could be read.

    Examples
    --------
    >>> from practicum.models.vision import get
    >>> encode_images([np.zeros((8, 8, 3), np.uint8)], get("pixels", cache=None)).kept
    [0]
    """
    if encoder is None:
        raise InputError(
            "images need an encoder", "VisualMemory(..., encoder=practicum.models.vision.get())"
        )
    names = [str(x) if isinstance(x, str | Path) else None for x in images]
    problems: dict[int, str] = {}
    pairs = [_loader(image, i, problems) for i, image in enumerate(images)]
    loaders, keys = [a for a, _ in pairs], [b for _, b in pairs]
    vectors = encoder.encode(loaders, keys, progress=progress, problems=problems)
    small: list[bytes | None] = [None] * len(images)
    if thumbnails:
        for i, load in enumerate(loaders):
            if i not in problems:
                small[i] = _thumbnail(load, i, problems)
    kept = [i for i in range(len(images)) if i not in problems]
    said = {names[i] or f"image {i}": why for i, why in sorted(problems.items())}
    if problems:
        few = "; ".join(list(said.values())[:3])
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        if not kept:
            raise InputError(f"none of {len(images)} images can be read: {few}{more}")
        warnings.warn(
            f"left out {len(problems)} of {len(images)} images: {few}{more}",
            UserWarning,
            stacklevel=3,
        )
    return Encoded(
        vectors[kept],
        kept,
        [keys[i] for i in kept],
        [small[i] for i in kept],
        [names[i] for i in kept],
        said,
    )


def _loader(image: Any, i: int, problems: dict[int, str] | None) -> tuple[Callable[[], Any], str]:
    """How an image is loaded, and the hash of its content."""
    if isinstance(image, str | Path):
        try:
            return (lambda: load_image(image)), file_key(image)
        except InputError as error:
            if problems is None:
                raise
            problems[i] = error.message

            def fail() -> Any:
                raise InputError(problems[i])

            return fail, ""
    picture = from_arrays([image])[0] if isinstance(image, np.ndarray) else as_rgb(image)
    return (lambda: picture), pixel_key(picture)


def _thumbnail(load: Callable[[], Any], i: int, problems: dict[int, str]) -> bytes | None:
    try:
        return thumbnail(load(), PICTURE)
    except InputError as error:  # its vector came from the cache, the file has gone bad since
        problems[i] = error.message
        return None


# --- queries -------------------------------------------------------------------------------------


def query_vectors(Q: Any, encoder: Encoder | None, table: Table) -> np.ndarray:
    """Queries as vectors of unit length, shape (n, d), whatever they came as.

    Parameters
    ----------
    Q : array, tensor or frame (n, d) or (d,); list of vectors; image or images
        Images are paths, Pillow images, or arrays of two and more dimensions in a list.
    encoder : Encoder, optional
        Needed for images.
    table : Table
        Of the memory that is asked: its width and its encoder must be the query's.

    Raises
    ------
    InputError
        Another width or encoder; images without an encoder; NaN or zero vectors.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Store
    >>> query_vectors([3.0, 4.0], None, Table(Store(None))).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    store = table.store
    vectors = _numbers(Q)
    if vectors is None:
        images = [Q] if isinstance(Q, str | Path) or not isinstance(Q, Sequence) else list(Q)
        if encoder is None:
            raise InputError("images need an encoder", "VisualMemory(..., encoder=...)")
        if store.state.get("encoder"):
            check_same_encoder(store.state["encoder"], encoder)
        elif len(table.slot_of):
            raise InputError("the memory holds vectors of your own: ask with vectors")
        pairs = [_loader(image, i, None) for i, image in enumerate(images)]
        vectors = encoder.encode([a for a, _ in pairs], [b for _, b in pairs])
    if store.dim is not None and vectors.ndim == 2 and vectors.shape[1] != store.dim:
        raise InputError(store.width_differs(vectors.shape[1]), "ask with its own kind of vector")
    return normalised(vectors)


def _numbers(Q: Any) -> np.ndarray | None:
    """The table of numbers that ``Q`` is, or None where it is images."""
    if isinstance(Q, str | Path) or hasattr(Q, "convert"):  # as Pillow's images have
        return None
    if isinstance(Q, Sequence):
        if not len(Q):
            raise InputError("there is no query", "give at least one vector or image")
        first = Q[0]
        if isinstance(first, str | Path) or hasattr(first, "convert") or np.ndim(first) > 1:
            return None
        try:
            x = np.stack([np.asarray(one) for one in Q])
        except ValueError as error:
            raise InputError("the vectors of the queries are not of one length") from error
    else:
        x = np.asarray(Q)
    return x[None] if x.ndim == 1 else x


def are_vectors(what: Any) -> bool:
    """Whether a person hands over vectors, not ids; whole numbers outside of an array are ids.

    Parameters
    ----------
    what : anything

    Raises
    ------
    ValueError
        A frame or the like that no array can hold.

    Examples
    --------
    >>> are_vectors([[0.0, 1.0]]), are_vectors(np.arange(2)), are_vectors([1, 2]), are_vectors("a")
    (True, True, False, False)
    """
    if isinstance(what, Sequence) and not isinstance(what, str):
        return bool(len(what)) and (
            np.ndim(what[0]) > 0 or isinstance(what[0], float | np.floating)
        )
    x = np.asarray(what)
    return x.dtype.kind == "f" or (x.dtype.kind in "iu" and (x.ndim > 1 or x is what))


def query_picture(q: Any) -> Any:
    """The picture a query was, None if it was a vector.

    Parameters
    ----------
    q : path, Pillow image, array, or a list of one of them

    Raises
    ------
    InputError
        The file cannot be read.

    Examples
    --------
    >>> query_picture([0.0, 1.0]) is None
    True
    """
    if isinstance(q, str | Path):
        return load_image(q)
    if isinstance(q, Sequence) and len(q) == 1:
        return query_picture(q[0])
    return as_rgb(q) if hasattr(q, "convert") else None


# --- encoders ------------------------------------------------------------------------------------


def encoder_facts(encoder: Encoder) -> dict[str, Any]:
    """What is kept of an encoder with the vectors it made.

    Parameters
    ----------
    encoder : Encoder

    Raises
    ------
    AttributeError
        It is none.

    Examples
    --------
    >>> from practicum.models.vision import get
    >>> encoder_facts(get("pixels", cache=None))["name"]
    'pixels'
    """
    how = encoder.preprocess
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dim": encoder.dim,
        "size": getattr(how, "size", None),
        "crop": getattr(how, "crop", None),
    }


def check_same_encoder(own: Mapping[str, Any], encoder: Encoder) -> None:
    """Refuse an encoder that is not the one of these facts.

    Parameters
    ----------
    own : mapping
        See :func:`encoder_facts`.
    encoder : Encoder

    Raises
    ------
    InputError
        Weights or preprocessing differ.

    Examples
    --------
    >>> from practicum.models.vision import get
    >>> encoder = get("pixels", cache=None)
    >>> check_same_encoder(encoder_facts(encoder), encoder)
    """
    if own["fingerprint"] != encoder.fingerprint:
        raise InputError(
            f"the memory was made with {own['name']} ({own['fingerprint']}), "
            f"this is {encoder.name} ({encoder.fingerprint})",
            "weights and preprocessing must be the same: size, crop and network",
        )


def check_encoder(encoder: Encoder | None, table: Table) -> None:
    """Refuse rows that were made otherwise than those of the memory.

    Parameters
    ----------
    encoder : Encoder or None
        None: vectors of a person's own.
    table : Table

    Raises
    ------
    InputError
        Vectors of two makers would be mixed.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Store
    >>> check_encoder(None, Table(Store(None)))
    """
    own = table.store.state.get("encoder")
    if not len(table.slot_of) and not own:
        return
    if encoder is not None and own:
        check_same_encoder(own, encoder)
    elif own:
        raise InputError(
            f"the memory was made with {own['name']} ({own['fingerprint']}), the vectors say "
            "not with what",
            "pass encoder=... if they are its",
        )
    elif encoder is not None:
        raise InputError(
            "the memory holds vectors of your own, not of an encoder",
            "vectors of two makers cannot be compared: use another memory",
        )


def facts_to_note(
    encoder: Encoder | None, labels: Sequence[Any], state: Mapping[str, Any]
) -> dict[str, Any]:
    """What the store does not know yet: its encoder, the caches rows went through, their labels.

    Parameters
    ----------
    encoder : Encoder or None
    labels : sequence
    state : mapping
        Of the store.

    Raises
    ------
    AttributeError
        The encoder is none.

    Examples
    --------
    >>> facts_to_note(None, ["cat"], {})
    {'labels': 'str'}
    """
    facts: dict[str, Any] = {}
    if encoder is not None and not state.get("encoder"):
        facts["encoder"] = encoder_facts(encoder)
    if encoder is not None and encoder.cache is not None:
        paths, own = state.get("caches", []), str(encoder.cache.path.absolute())
        facts |= {"caches": [*paths, own]} if own not in paths else {}
    if not state.get("labels") and len(labels):
        facts["labels"] = type(labels[0]).__name__
    return facts


# --- labels, ids, further columns ----------------------------------------------------------------


def check_labels(labels: Labels | None, n: int, kind: str | None = None) -> list[str | int]:
    """Labels as Python's own text or whole numbers.

    Parameters
    ----------
    labels : sequence, array, series or tensor
    n : int
        Rows.
    kind : str, optional
        ``str`` or ``int``, where the memory has labels already.

    Raises
    ------
    InputError
        They are missing, too few, fractional, or of two types.

    Examples
    --------
    >>> check_labels(np.array([3, 1]), 2)
    [3, 1]
    """
    if labels is None:
        raise InputError("labels are missing", "give one label a row: labels=[...]")
    # NumPy's numbers and tensors of one number know themselves as Python's
    found = [x.item() if hasattr(x, "item") and np.ndim(x) == 0 else x for x in labels]
    if len(found) != n:
        raise InputError(f"{len(found)} labels for {n} rows")
    for i, x in enumerate(found):
        if isinstance(x, bool) or not isinstance(x, str | int):
            raise InputError(
                f"label {i} is {x!r} ({type(x).__name__})",
                "labels are text or whole numbers; numbers with a fraction are no classes",
            )
    kinds = {type(x).__name__ for x in found} | ({kind} if kind else set())
    if len(kinds) > 1:
        raise InputError(
            f"labels of types {', '.join(sorted(kinds))} in one memory",
            "make them all text, or all whole numbers",
        )
    return found


def check_ids(ids: Any, n: int, table: Table) -> list[str]:
    """Ids as text, each new; numbers of their own where none are given.

    Parameters
    ----------
    ids : sequence or None
    n : int
        Rows.
    table : Table
        Of the memory they are added to.

    Raises
    ------
    InputError
        One is taken or given twice, or they are too few.

    Examples
    --------
    >>> from practicum.vision.visual_memory.store import Store
    >>> check_ids(None, 2, Table(Store(None)))
    ['g0-0', 'g0-1']
    """
    if ids is None:
        generation = table.store.state["generation"]
        return [f"g{generation}-{i}" for i in range(n)]
    found = listed_ids(ids)
    if len(found) != n:
        raise InputError(f"{len(found)} ids for {n} rows")
    seen: set[str] = set()
    for one in found:
        if one in seen or one in table.slot_of:
            where = "twice in this batch" if one in seen else table.holder(one)
            raise InputError(f"the id {one!r} is {where}", "ids are unique")
        seen.add(one)
    return found


def check_meta(meta: Mapping[str, Any] | None, n: int) -> dict[str, list[Any]]:
    """All columns of ``META``, one value a row.

    Parameters
    ----------
    meta : mapping of column -> values, or one text for all
    n : int
        Rows.

    Raises
    ------
    InputError
        An unknown column, too few values, or a weight that is none.

    Examples
    --------
    >>> check_meta({"source": "alice"}, 2)["source"], check_meta(None, 1)["weight"]
    (['alice', 'alice'], [1.0])
    """
    given = dict(meta or {})
    for name in given:
        if name not in META:
            raise InputError(f"there is no column {name!r}", f"columns: {', '.join(META)}")
    found: dict[str, list[Any]] = {}
    for name in META:
        values = given.get(name)
        if values is None:
            found[name] = [1.0 if name == "weight" else None] * n
            continue
        values = [values] * n if isinstance(values, str) else list(values)
        if len(values) != n:
            raise InputError(f"{len(values)} values of {name!r} for {n} rows")
        if name == "weight":
            found[name] = [_weight(i, v) for i, v in enumerate(values)]
        else:
            found[name] = [None if v is None else str(v) for v in values]
    return found


def _weight(i: int, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"weight {i} is {value!r}, expected a number of 0 or more")
    return number


def picked(values: Any, kept: Sequence[int], n: int, what: str) -> list[Any]:
    """The values of the images that could be read.

    Parameters
    ----------
    values : sequence of n
    kept : sequence of int
    n : int
    what : str
        What they are called in an error.

    Raises
    ------
    InputError
        They are not n.

    Examples
    --------
    >>> picked("abc", [0, 2], 3, "labels")
    ['a', 'c']
    """
    values = list(values)
    if len(values) != n:
        raise InputError(f"{len(values)} {what} for {n} images")
    return [values[i] for i in kept]
