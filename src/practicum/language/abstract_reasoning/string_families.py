"""Families of rules on strings: tables, places, shifts, counts.

See :mod:`.solvers`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from practicum.language.abstract_reasoning.lines import Answers, Args, Examples
from practicum.language.abstract_reasoning.rules import is_subsequence

# --- tables and places ---------------------------------------------------------------------------


def pointwise(examples: Examples, query: Args) -> Answers:
    """Every position is looked up in one table: and, or, xor, not, and any other.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> pointwise([(("01", "11"), "01"), (("00", "01"), "00")], ("10", "11"))
    {'10'}
    """
    table: dict[tuple[str, ...], str] = {}
    for args, answer in examples:
        if any(len(a) != len(answer) for a in args) or " " in answer:
            return set()
        for *given, out in zip(*args, answer, strict=True):
            if table.setdefault(tuple(given), out) != out:
                return set()
    if len({len(a) for a in query}) != 1:
        return set()
    needed = [table.get(given) for given in zip(*query, strict=True)]
    return {None} if None in needed else {"".join(needed)}


def _by_parameter(examples: Examples) -> dict[str, list[tuple[str, str]]]:
    grouped: dict[str, list[tuple[str, str]]] = {}
    for (a, n), answer in examples:
        grouped.setdefault(n, []).append((a, answer))
    return grouped


def _binary(examples: Examples, query: Args) -> int | None:
    """The length of the strings, where all first arguments are equally long and of two symbols."""
    texts = [args[0] for args, _ in examples] + [query[0]]
    alike = len(query) == 2 and len({len(t) for t in texts}) == 1
    return len(texts[0]) if alike and len(set("".join(texts))) <= 2 else None


def place_read(examples: Examples, query: Args) -> Answers:
    """The parameter names a position, and the answer says which symbol stands there.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> place_read([(("01", "a"), "yes"), (("10", "a"), "no"), (("11", "a"), "yes")], ("00", "a"))
    {'no'}
    """
    length = _binary(examples, query)
    words = list(dict.fromkeys(answer for _, answer in examples))
    if length is None or not 1 <= len(words) <= 2:
        return set()
    symbols = list(dict.fromkeys("".join(a for (a, _), _ in examples) + query[0]))
    words += [None] * (len(symbols) - len(words))
    found: Answers = set()
    groups = _by_parameter(examples)
    for order in itertools.permutations(words, len(symbols)):
        says = dict(zip(symbols, order, strict=True))
        places = {
            n: [i for i in range(length) if all(says[a[i]] == out for a, out in lines)]
            for n, lines in groups.items()
        }
        if all(places.values()):
            where = places.get(query[1], range(length))
            found |= {says[query[0][i]] for i in where}
    return found


def place_write(examples: Examples, query: Args) -> Answers:
    """The parameter names a position, whose symbol is set, cleared or toggled.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> place_write([(("01", "a"), "00"), (("10", "a"), "11")], ("11", "a"))
    {'10'}
    """
    length = _binary(examples, query)
    if length is None or any(len(out) != length for _, out in examples):
        return set()
    symbols = list(dict.fromkeys("".join(a + out for (a, _), out in examples) + query[0]))
    if len(symbols) != 2:
        return set()
    x, y = symbols
    found: Answers = set()
    groups = _by_parameter(examples)
    for change in ({x: x, y: x}, {x: y, y: y}, {x: y, y: x}):

        def written(a: str, i: int, change: dict[str, str] = change) -> str:
            return a[:i] + change[a[i]] + a[i + 1 :]

        places = {
            n: [i for i in range(length) if all(written(a, i) == out for a, out in lines)]
            for n, lines in groups.items()
        }
        if all(places.values()):
            found |= {written(query[0], i) for i in places.get(query[1], range(length))}
    return found


def shifts(examples: Examples, query: Args) -> Answers:
    """Shifts by an amount that the parameter names: left or right, around or filling in.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> shifts([(("0110", "k"), "1100"), (("1001", "k"), "0011")], ("1000", "k"))
    {'0001'}
    """
    length = _binary(examples, query)
    if length is None or any(len(out) != length for _, out in examples):
        return set()
    fills = [None, *dict.fromkeys("".join(a for (a, _), _ in examples))]
    groups, found = _by_parameter(examples), set()
    for left, fill in itertools.product((True, False), fills):

        def moved(a: str, k: int, left: bool = left, fill: str | None = fill) -> str:
            if fill is None:
                k = k if left else length - k
                return a[k:] + a[:k]
            return a[k:] + fill * k if left else fill * k + a[: length - k]

        amounts = {
            n: [k for k in range(length) if all(moved(a, k) == out for a, out in lines)]
            for n, lines in groups.items()
        }
        if all(amounts.values()):
            found |= {moved(query[0], k) for k in amounts.get(query[1], range(length))}
    return found


# --- strings -------------------------------------------------------------------------------------


STRING_RULES: tuple[Callable[..., str], ...] = (
    lambda a, b="": a[::-1] if not b else a + b,
    lambda a, b="": a * 2 if not b else b + a,
    lambda a, b="": a if not b else b[::-1] + a,
)


def string_rules(examples: Examples, query: Args) -> Answers:
    """Reverse, repeat, copy; concatenate in either order.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> string_rules([(("abc",), "cba")], ("xyz",))
    {'zyx'}
    """
    fitting = (f for f in STRING_RULES if all(f(*args) == out for args, out in examples))
    return {f(*query) for f in fitting}


def _true_count(args: Args) -> int | None:
    """How often the second argument occurs in the first, or how long the only one is."""
    if len(args) == 1:
        return len(args[0])
    return args[0].count(args[1]) if len(args[1]) == 1 else None


def counting(examples: Examples, query: Args) -> Answers:
    """Counts of a symbol, and lengths; which symbol is which digit is learned.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> counting([(("aba", "a"), "z"), (("b", "a"), "q")], ("axa", "a"))
    {'z'}
    """
    digits: dict[str, str] = {}
    for args, answer in examples:
        count = _true_count(args)
        if count is None or len(str(count)) != len(answer):
            return set()
        for digit, symbol in zip(str(count), answer, strict=True):
            if digits.setdefault(digit, symbol) != symbol:
                return set()
    count = _true_count(query)
    if count is None or len(set(digits.values())) < len(digits):
        return set()
    wanted = [digits.get(d) for d in str(count)]
    return {None} if None in wanted else {"".join(wanted)}


def subsequences(examples: Examples, query: Args) -> Answers:
    """Whether the second argument's letters occur in the first in order; two words are learned.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> subsequences([(("abc", "ac"), "T"), (("abc", "ca"), "F")], ("axb", "ab"))
    {'T'}
    """
    if len(query) != 2:
        return set()
    words: dict[bool, str] = {}
    for args, answer in examples:
        if words.setdefault(is_subsequence(*args), answer) != answer:
            return set()
    if len(set(words.values())) < len(words):
        return set()
    return {words.get(is_subsequence(*query))}
