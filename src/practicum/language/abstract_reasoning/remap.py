r"""Replacing symbols: operators, operands or all of them, under a one-to-one map.

With U the non-space characters of an item's lines, O those of its operator and N = U minus O, the
kinds replace

=========  ==============================================
full       U
operator   O (wherever they stand, as officially)
operand    N
=========  ==============================================

Officially the replacements come from the whole alphabet, so that a replacement can equal a symbol
that is still in use: the examples then no longer say what was what. ``collision_free`` draws only
from symbols that are not in use.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from practicum.errors import InputError
from practicum.language.abstract_reasoning.items import Item

ALNUM = string.ascii_letters + string.digits
BREAK = "\0"  # between strings while they are translated together; JSON text may hold none


def used_symbols(item: Item) -> set[str]:
    """All characters of an item's questions and answers but spaces and line breaks.

    Parameters
    ----------
    item : Item

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> sorted(used_symbols(Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+")))
    ['+', '1', '2', '3', '=']
    """
    return {c for c in set(_text(item)) if not c.isspace() and c != BREAK}


def _text(item: Item) -> str:
    return BREAK.join(part for line in item.lines for part in line)


def replaced_symbols(item: Item, kind: str) -> tuple[list[str], set[str]]:
    """Which symbols a kind replaces (in order of appearance), and which stay.

    Parameters
    ----------
    item : Item
    kind : {"full", "operand", "operator"}

    Raises
    ------
    InputError
        If the kind is not known, or operators are not told from operands.

    Examples
    --------
    >>> replaced_symbols(Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+"), "operator")[0]
    ['+']
    """
    used = used_symbols(item)
    operators = set("".join(item.meta.get("operators") or [item.operator])) & used
    if kind == "full":
        wanted = used
    elif kind not in ("operand", "operator"):
        raise InputError(f"kind {kind!r} is not known", "use full, operand or operator")
    elif not operators:
        raise InputError(
            f"an item of {item.task or 'yours'} does not say which symbols are operators",
            'give "operator_symbols": ["+"] with it, or replace all symbols (--kinds raw,full)',
        )
    else:
        wanted = operators if kind == "operator" else used - operators
    ordered = [c for c in dict.fromkeys(_text(item)) if c in wanted]
    return ordered, used - wanted


def draw_map(
    item: Item,
    kind: str,
    rng: np.random.Generator,
    alphabet: str = ALNUM,
    collision_free: bool = True,
) -> dict[str, str]:
    """A random one-to-one map of the symbols that a kind replaces.

    Parameters
    ----------
    item : Item
    kind : {"full", "operand", "operator"}
    rng : numpy.random.Generator
    alphabet : str
        Characters to draw from.
    collision_free : bool
        Leave out characters that stay in use in the item.

    Raises
    ------
    InputError
        If fewer characters are free than symbols are to be replaced.

    Examples
    --------
    >>> item = Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+")
    >>> len(draw_map(item, "full", np.random.default_rng(0)))
    5
    """
    symbols, staying = replaced_symbols(item, kind)
    free = [c for c in dict.fromkeys(alphabet) if not (collision_free and c in staying)]
    if len(free) < len(symbols):
        taken = len(set(alphabet)) - len(free)
        used = f" ({taken} of them in use by symbols that stay)" if taken else ""
        raise InputError(
            f"needs {len(symbols)} symbols, alphabet has {len(set(alphabet))}{used}",
            "pass a larger alphabet",
        )
    chosen = rng.permutation(len(free))[: len(symbols)].tolist()
    return {symbol: free[k] for symbol, k in zip(symbols, chosen, strict=True)}


def apply_map(item: Item, symbols: Mapping[str, str]) -> Item:
    """An item with its characters replaced: questions, answers and operator alike.

    Parameters
    ----------
    item : Item
    symbols : mapping of character to character

    Raises
    ------
    ValueError
        If a key is longer than one character.

    Examples
    --------
    >>> apply_map(Item((), "1 + 2 =", "3", "+"), {"+": "k", "3": "x"}).query
    '1 k 2 ='
    """
    table = str.maketrans(dict(symbols))
    parts = _text(item).translate(table).split(BREAK)
    lines = list(zip(parts[::2], parts[1::2], strict=True))
    meta = {**item.meta, "map": dict(symbols)}
    if operators := item.meta.get("operators"):
        meta["operators"] = [o.translate(table) for o in operators]
    return replace(
        item,
        examples=tuple(lines[:-1]),
        query=lines[-1][0],
        answer=lines[-1][1],
        operator=item.operator.translate(table),
        meta=meta,
    )


def remap(
    item: Item,
    kind: str,
    rng: np.random.Generator,
    alphabet: str = ALNUM,
    collision_free: bool = True,
) -> tuple[Item, dict[str, str]]:
    """Replace symbols of an item, its answer included, by random others.

    Parameters
    ----------
    item : Item
    kind : {"full", "operand", "operator"}
    rng : numpy.random.Generator
    alphabet : str
    collision_free : bool
        False: the official behaviour, under which a replacement may equal a symbol that stays.

    Returns
    -------
    item, map
        The map is also the item's ``meta["map"]``.

    Raises
    ------
    InputError
        If fewer characters are free than symbols are to be replaced, or operators are unknown.

    Warns
    -----
    UserWarning
        If digits of decimal numbers are replaced one by one: place value goes with them.

    Examples
    --------
    >>> item = Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+")
    >>> mapped, symbols = remap(item, "operand", np.random.default_rng(0))
    >>> mapped.query.split()[1], len(mapped.query) == len(item.query)
    ('+', True)
    """
    symbols = draw_map(item, kind, rng, alphabet, collision_free)
    if kind != "operator" and item.meta.get("answer") == "number" and "map" not in item.meta:
        warnings.warn(
            f"{item.task or 'an item'}: numbers are remapped digit by digit, which destroys place "
            "value by construction; that is the test, not a fault of the model",
            stacklevel=2,
        )
    return apply_map(item, symbols), symbols


def collides(item: Item, symbols: Mapping[str, str]) -> bool:
    """Whether a map of the item's symbols merges two of them.

    Parameters
    ----------
    item : Item
        Before the map.
    symbols : mapping

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> collides(Item((), "1 + 2 =", "3", "+"), {"+": "2"})
    True
    """
    used = used_symbols(item)
    return len({symbols.get(c, c) for c in used}) < len(used)
