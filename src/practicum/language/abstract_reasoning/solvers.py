r"""Reference solvers: what an item's examples determine, whatever the symbols are called.

Every family below is a set of hypotheses (a rule, with whatever it leaves open: which symbol is
larger, which index a parameter means). A family returns the *set of answers* that its hypotheses
give to the query, over all those that agree with every example: no answer, the family does not fit;
one, the item determines it; several (or None, an answer that cannot be written), it does not.

Symbols are only compared for equality and ties go to whatever comes first, so a one-to-one map of
the symbols maps the answer: for these solvers :math:`\Delta = 0` exactly. The families of decimal
numbers are the exception; they read digits.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date

import numpy as np

from practicum.language.abstract_reasoning.items import (
    BIT_OPS,
    BITWISE,
    FUNCTIONS,
    SHIFTS,
    WAVES,
    Item,
    is_subsequence,
    to_base,
    wave,
)

Args = tuple[str, ...]
Examples = list[tuple[Args, str]]
Answers = set[str | None]


# --- reading a line ------------------------------------------------------------------------------


def operator_of(item: Item) -> str:
    """The operator as it is written in an item: given, or the one word that all lines share.

    Parameters
    ----------
    item : Item

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> operator_of(Item((("1 @ 2 =", "3"), ("2 @ 2 =", "4")), "3 @ 1 =", "4"))
    '@'
    """
    if item.operator:
        return item.operator
    words = [question.split(" ")[:-1] for question, _ in item.lines]
    if len({len(w) for w in words}) != 1:
        return ""
    shared = [column[0] for column in zip(*words, strict=True) if len(set(column)) == 1]
    return shared[0] if len(shared) == 1 else ""


def _arguments(question: str, operator: str) -> Args | None:
    """Operands of ``A op B =`` or ``op A =``; the last word is the equals sign."""
    body, _, _ = question.rpartition(" ")
    if body.startswith(f"{operator} "):
        return (body[len(operator) + 1 :],)
    first, found, second = body.partition(f" {operator} ")
    return (first, second) if found else None


def _parsed(item: Item) -> tuple[Examples, Args] | None:
    operator = operator_of(item)
    if not operator or not item.examples:
        return None
    lines = [(_arguments(question, operator), answer) for question, answer in item.lines]
    if any(args is None for args, _ in lines) or len({len(a) for a, _ in lines}) != 1:
        return None
    *examples, (query, _) = lines
    return examples, query


class _Lists:
    """Lists and sets as they are written: what opens, closes and separates is learned."""

    def __init__(self, texts: Iterable[str]) -> None:
        """
        Raises
        ------
        ValueError
            If the texts are not written alike.
        """
        texts = list(texts)
        ends = {(t[:1], t[-1:]) for t in texts}
        if len(ends) != 1 or any(len(t) < 2 for t in texts):
            raise ValueError
        self.open, self.close = ends.pop()
        marks = {t[i - 1] for t in texts for i, c in enumerate(t) if c == " "}
        if len(marks) > 1:
            raise ValueError
        self.comma = marks.pop() if marks else None

    def read(self, text: str) -> list[str]:
        inside = text[1:-1]
        return inside.split(f"{self.comma} ") if inside else []

    def write(self, values: Sequence[str]) -> str | None:
        if self.comma is None and len(values) > 1:
            return None
        return self.open + f"{self.comma} ".join(values) + self.close


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


# --- orders --------------------------------------------------------------------------------------


class _Order:
    """What is known to be smaller than what: 2 strictly, 1 at most equal, 0 not known."""

    def __init__(self, strict: Iterable[tuple[str, str]], weak: Iterable[tuple[str, str]] = ()):
        edges = [(a, b, 2) for a, b in dict.fromkeys(strict)]
        edges += [(a, b, 1) for a, b in dict.fromkeys(weak)]
        names = list(dict.fromkeys(n for a, b, _ in edges for n in (a, b)))
        self.index = {name: k for k, name in enumerate(names)}
        known = np.zeros((len(names), len(names)), dtype=np.int8)
        for a, b, level in edges:
            i, j = self.index[a], self.index[b]
            known[i, j] = max(known[i, j], level)
        for k in range(len(names)):  # a path is strict where one of its steps is
            through = np.maximum(known[:, k, None], known[None, k])
            through[(known[:, k, None] == 0) | (known[None, k] == 0)] = 0
            np.maximum(known, through, out=known)
        self.known = known
        self.consistent = not (np.diag(known) == 2).any()

    def below(self, a: str, b: str) -> int:
        """2 if a < b is known, 1 if a <= b, else 0."""
        if a not in self.index or b not in self.index:
            return 0
        return int(self.known[self.index[a], self.index[b]])

    def sorted(self, values: Sequence[str]) -> list[str] | None:
        """In ascending order, None where two different ones cannot be compared."""
        distinct = list(dict.fromkeys(values))
        for a, b in itertools.combinations(distinct, 2):
            if not (self.below(a, b) == 2 or self.below(b, a) == 2):
                return None
        rank = {a: sum(self.below(b, a) == 2 for b in distinct) for a in distinct}
        return sorted(values, key=rank.__getitem__)


def _with_lists(examples: Examples, query: Args, answers: bool = True) -> _Lists | None:
    texts = [args[0] for args, _ in examples] + [query[0]]
    texts += [answer for _, answer in examples] if answers else []
    try:
        return _Lists(texts)
    except ValueError:
        return None


def ordering(examples: Examples, query: Args) -> Answers:
    """Lists sorted, with or without their repetitions, in an order that the examples show.

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
    >>> ordering([(("[b, a]",), "[a, b]"), (("[c, b]",), "[b, c]")], ("[c, a]",))
    {'[a, c]'}
    """
    form = _with_lists(examples, query) if len(query) == 1 else None
    if form is None:
        return set()
    pairs = [(form.read(args[0]), form.read(answer)) for args, answer in examples]
    found: Answers = set()
    for unique in (False, True):

        def kept(values: list[str], unique: bool = unique) -> list[str]:
            return list(dict.fromkeys(values)) if unique else values

        if any(Counter(kept(given)) != Counter(out) for given, out in pairs):
            continue
        order = _Order((a, b) for _, out in pairs for a, b in itertools.pairwise(out) if a != b)
        if order.consistent:
            ranked = order.sorted(kept(form.read(query[0])))
            found.add(None if ranked is None else form.write(ranked))
    return found


def thresholds(examples: Examples, query: Args) -> Answers:
    """What is larger than the parameter is kept; the order is learned.

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
    >>> thresholds([(("[a, b]", "a"), "[b]"), (("[b, c]", "b"), "[c]")], ("[a, c]", "b"))
    {'[c]'}
    """
    form = _with_lists(examples, query) if len(query) == 2 else None
    if form is None:
        return set()
    strict, weak = [], []
    for (text, limit), answer in examples:
        given, kept = form.read(text), form.read(answer)
        if [v for v in given if v in kept] != kept or limit in kept:
            return set()
        strict += [(limit, v) for v in kept]
        weak += [(v, limit) for v in given if v not in kept and v != limit]
    order, limit = _Order(strict, weak), query[1]
    if not order.consistent:
        return set()
    kept = []
    for value in form.read(query[0]):
        if order.below(limit, value) == 2:
            kept.append(value)
        elif value != limit and not order.below(value, limit):
            return {None}
    return {form.write(kept)}


MOST_SYMBOLS = 12  # all subsets are enumerated


def order_statistics(examples: Examples, query: Args) -> Answers:
    r"""Minimum, maximum or upper median, in an order of which the examples may say little.

    All orders are covered by dynamic programming over the sets S of the smallest symbols: v may
    come next exactly if in every example that answers v at most k entries lie in S, and more than k
    in :math:`S \cup \{v\}`, where k is the place of the statistic.

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
    >>> order_statistics([(("[b, a]",), "a"), (("[c, b]",), "b")], ("[c, a]",))
    {'a'}
    """
    form = _with_lists(examples, query, answers=False) if len(query) == 1 else None
    if form is None:
        return set()
    lists = [form.read(args[0]) for args, _ in examples] + [form.read(query[0])]
    answers = [answer for _, answer in examples]
    symbols = list(dict.fromkeys(v for values in lists for v in values))
    if len(symbols) > MOST_SYMBOLS or any(a not in v for a, v in zip(answers, lists, strict=False)):
        return set()
    index = {s: k for k, s in enumerate(symbols)}
    held = np.zeros((len(symbols), len(lists)))
    for column, values in enumerate(lists):
        for value in values:
            held[index[value], column] += 1
    member = (np.arange(2 ** len(symbols))[:, None] >> np.arange(len(symbols))) & 1
    inside = member @ held  # entries of each list that lie in each set
    sizes = held.sum(axis=0)
    found: Answers = set()
    for place in (np.zeros_like(sizes), sizes - 1, sizes // 2):
        found |= {symbols[v] for v in _next_symbols(inside, member, place, answers, index)}
    return found


def _next_symbols(
    inside: np.ndarray,
    member: np.ndarray,
    place: np.ndarray,
    answers: list[str],
    index: dict[str, int],
) -> set[int]:
    """Which symbols the query can have at that place, over all orders that fit the examples."""
    sets, n = member.shape
    low = inside <= place  # (sets, lists)
    may = np.zeros((sets, n), dtype=bool)
    asked = np.zeros((sets, n), dtype=bool)
    answered = np.array([index[a] for a in answers])
    for v in range(n):
        without = np.flatnonzero(member[:, v] == 0)
        mine = np.append(np.flatnonzero(answered == v), -1)  # and the query
        crosses = low[without][:, mine] & ~low[without | (1 << v)][:, mine]
        may[without, v] = crosses[:, :-1].all(axis=1)
        asked[without, v] = crosses[:, -1]
    forward, backward = np.zeros(sets, dtype=bool), np.zeros(sets, dtype=bool)
    forward[0] = backward[-1] = True
    size = member.sum(axis=1)
    levels = [np.flatnonzero(size == k) for k in range(n + 1)]
    for level in levels[:-1]:
        for v in range(n):
            go = level[forward[level] & may[level, v]]
            forward[go | (1 << v)] = True
    for level in reversed(levels[:-1]):
        for v in range(n):
            go = level[may[level, v]]
            backward[go] |= backward[go | (1 << v)]
    return {
        v
        for v in range(n)
        if (forward & may[:, v] & asked[:, v] & backward[np.arange(sets) | (1 << v)]).any()
    }


def modes(examples: Examples, query: Args) -> Answers:
    """The most frequent entries of a list, in their order of appearance.

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
    >>> modes([(("[a, b, a]",), "[a]"), (("[c, b]",), "[c, b]")], ("[x, y, y]",))
    {'[y]'}
    """
    form = _with_lists(examples, query) if len(query) == 1 else None
    if form is None:
        return set()

    def most(text: str) -> str | None:
        counts = Counter(form.read(text))
        top = max(counts.values(), default=0)
        return form.write([v for v, times in counts.items() if times == top])

    fits = all(most(args[0]) == answer for args, answer in examples)
    return {most(query[0])} if fits else set()


def membership(examples: Examples, query: Args) -> Answers:
    """Sets: whether an element is in the answer depends on which of the two sets it is in.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers
        Elements in the order in which the examples write them, as far as that is known.

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> membership([(("{a, b}", "{b, c}"), "{b}")], ("{b}", "{a, b}"))
    {'{b}'}
    """
    if len(query) != 2:
        return set()
    texts = [t for args, answer in examples for t in (*args, answer)]
    try:
        form = _Lists([*texts, *query])
    except ValueError:
        return set()
    table: dict[tuple[bool, bool], bool] = {}
    for args, answer in examples:
        a, b, out = (form.read(t) for t in (*args, answer))
        if not set(out) <= {*a, *b}:
            return set()
        for element in dict.fromkeys(a + b):
            inside = (element in a, element in b)
            if table.setdefault(inside, element in out) != (element in out):
                return set()
    a, b = map(form.read, query)
    elements = list(dict.fromkeys(a + b))
    needed = [table.get((e in a, e in b)) for e in elements]
    if None in needed:
        return {None}
    kept = [e for e, take in zip(elements, needed, strict=True) if take]
    written = [form.read(t) for t in (*texts, *query)]
    order = _Order(pair for values in written for pair in itertools.pairwise(values))
    ranked = order.sorted(kept) if order.consistent else None
    return {form.write(kept if ranked is None else ranked)}


# --- numbers -------------------------------------------------------------------------------------


def base_arithmetic(examples: Examples, query: Args) -> Answers:
    """Sums, differences and products of whole numbers in some base.

    Decimal digits are taken at their value in base 2 to 10; other symbols by trying every
    assignment of digits in base 2 to 5.

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
    >>> base_arithmetic([(("22211", "11202010"), "12001221"), (("2", "1"), "10")], ("12", "2"))
    {'21'}
    """
    if len(query) != 2:
        return set()
    operands = [a for args, _ in examples for a in args] + list(query)
    symbols = list(dict.fromkeys("".join(operands)))
    signs = {out[0] for _, out in examples if out and out[0] not in symbols} or {"-"}
    body = [out[1:] if out[:1] in signs else out for _, out in examples]
    symbols = list(dict.fromkeys([*symbols, *"".join(body)]))
    if len(signs) > 1 or " " in symbols or not all(operands):
        return set()
    sign, found = next(iter(signs)), set()
    for base, value in _readings(symbols):
        for work in (int.__add__, int.__sub__, int.__mul__):
            if all(_agrees(args, out, base, value, sign, work) for args, out in examples):
                a, b = (_value(t, base, value, sign) for t in query)
                result = to_base(work(a, b), base)
                back = {str(digit): symbol for symbol, digit in value.items()} | {"-": sign}
                known = all(c in back for c in result)
                found.add("".join(back[c] for c in result) if known else None)
    return found


def _readings(symbols: list[str]) -> Iterator[tuple[int, dict[str, int]]]:
    """Bases, with a value for every symbol."""
    if all(s in "0123456789" for s in symbols):
        value = {str(d): d for d in range(10)}
        yield from ((base, value) for base in range(max(2, max(map(int, symbols)) + 1), 11))
    elif len(symbols) <= 5:
        for base in range(max(2, len(symbols)), 6):
            for digits in itertools.permutations(range(base), len(symbols)):
                yield base, dict(zip(symbols, digits, strict=True))


def _value(text: str, base: int, value: dict[str, int], sign: str) -> int:
    total = 0
    for symbol in text.removeprefix(sign):
        total = total * base + value[symbol]
    return -total if text.startswith(sign) else total


def _agrees(
    args: Args, out: str, base: int, value: dict[str, int], sign: str, work: Callable
) -> bool:
    a, b = (_value(t, base, value, sign) for t in args)
    return work(a, b) == _value(out, base, value, sign)


def _plain(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _by_formula(work: Callable[..., str | None]) -> Callable[[Examples, Args], Answers]:
    """A family of one rule, which reads decimal numbers."""

    def family(examples: Examples, query: Args) -> Answers:
        try:
            if any(not same_number(work(*args), answer) for args, answer in examples):
                return set()
            return {work(*query)}
        except (ValueError, TypeError, OverflowError, ZeroDivisionError):
            return set()

    return family


def same_number(a: str | None, b: str, relative: float = 1e-6) -> bool:
    """Whether two texts are the same, or numbers that agree.

    Parameters
    ----------
    a, b : str
    relative : float

    Raises
    ------
    TypeError
        If ``b`` is no string.

    Examples
    --------
    >>> same_number("0.50", "0.5"), same_number("x", "1")
    (True, False)
    """
    if a is None or a == b:
        return a == b
    x, y = _plain(a), _plain(b)
    return x is not None and y is not None and math.isclose(x, y, rel_tol=relative, abs_tol=1e-9)


def _days(a: str, b: str) -> str:
    first, second = (date(*map(int, t.strip("[]").split(","))) for t in (a, b))
    return str(abs((first - second).days))


division = _by_formula(lambda a, b: str(float(a) / float(b)))
square_roots = _by_formula(lambda a: str(math.sqrt(float(a))))
days = _by_formula(_days)
in_base = _by_formula(lambda a, b: to_base(int(a), int(b)))
TOLERANCE = 2e-6  # the generated items are rounded to six digits


def functions(examples: Examples, query: Args) -> Answers:
    r"""A function of one number: a line, a parabola, :math:`a \sin bx`, :math:`a \cos bx`, a wave.

    Polynomials and amplitudes by least squares, b and the waves' frequencies by trying 1 to 9; a
    hypothesis counts where its largest error is below 2e-6.

    Parameters
    ----------
    examples : list of (arguments, answer)
    query : arguments

    Returns
    -------
    set of answers
        Rounded to five digits, so that hypotheses that agree are one answer.

    Raises
    ------
    TypeError
        If arguments are not strings.

    Examples
    --------
    >>> functions([(("1",), "5"), (("2",), "7"), (("4",), "11")], ("10",))
    {'23.0'}
    """
    if len(query) != 1:
        return set()
    xs = [_plain(args[0]) for args, _ in examples] + [_plain(query[0])]
    ys = [_plain(answer) for _, answer in examples]
    if None in xs or None in ys:
        return set()
    x, y = np.array(xs), np.array(ys)
    return {str(round(v, 5) + 0.0) for v in _predictions(x[:-1], y, x[-1])}


def _predictions(x: np.ndarray, y: np.ndarray, asked: float) -> Iterator[float]:
    for degree in (1, 2):
        if len(x) > degree + 1:
            columns = np.vander(np.append(x, asked), degree + 1)
            yield from _least_squares(columns, y)
    grid = np.append(x, asked)
    for b in range(1, 10):
        for f in (np.sin, np.cos):
            yield from _least_squares(f(b * grid)[:, None], y)
        if all(float(v).is_integer() for v in grid):
            for kind in WAVES:
                shape = np.array([wave(kind, int(v), b) for v in grid])
                if np.abs(shape[:-1] - y).max() < TOLERANCE:
                    yield float(shape[-1])


def _least_squares(columns: np.ndarray, y: np.ndarray) -> Iterator[float]:
    scale = np.abs(columns).max(axis=0)
    fit, _, rank, _ = np.linalg.lstsq(columns[:-1] / scale, y, rcond=None)
    error = np.abs(columns[:-1] / scale @ fit - y).max()
    if rank == columns.shape[1] and error < TOLERANCE * max(1.0, 1e-4 * np.abs(y).max()):
        yield float(columns[-1] / scale @ fit)


# --- all together --------------------------------------------------------------------------------

Family = Callable[[Examples, Args], Answers]
SYMBOL_BLIND: tuple[Family, ...] = (
    string_rules,
    pointwise,
    shifts,
    place_write,
    place_read,
    subsequences,
    counting,
    membership,
    thresholds,
    modes,
    ordering,
    order_statistics,
    base_arithmetic,
)
DECIMAL: tuple[Family, ...] = (division, square_roots, days, in_base, functions)
FAMILY: dict[str, Family] = {
    **dict.fromkeys(BITWISE, pointwise),
    **dict.fromkeys(SHIFTS, shifts),
    **dict.fromkeys(BIT_OPS, place_write),
    "check_bit": place_read,
    **dict.fromkeys(("reverse", "concatenate", "repeat"), string_rules),
    **dict.fromkeys(("count", "get_length"), counting),
    "subsequence": subsequences,
    **dict.fromkeys(("sort", "deduplicate"), ordering),
    "filter": thresholds,
    **dict.fromkeys(("min", "max", "median"), order_statistics),
    "majority": modes,
    **dict.fromkeys(("intersection", "union", "difference"), membership),
    **dict.fromkeys(("add", "sub", "mul", "add_base", "sub_base", "mul_base"), base_arithmetic),
    "div": division,
    "square_root": square_roots,
    "days": days,
    "to_base": in_base,
    **dict.fromkeys((*FUNCTIONS, *WAVES), functions),
}


def solve(item: Item) -> str | None:
    """The answer of the first family that fits all examples and determines the query.

    It is told neither the rule nor what a symbol means.

    Parameters
    ----------
    item : Item

    Returns
    -------
    str, or None
        None where nothing fits, or what fits leaves the answer open.

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> from practicum.language.abstract_reasoning.items import make_items
    >>> items = make_items("ec/var_set", n=20, shots=20)
    >>> sum(solve(item) == item.answer for item in items)
    20
    """
    parsed = _parsed(item)
    if parsed is None:
        return None
    for family in (*SYMBOL_BLIND, *DECIMAL):
        answers = family(*parsed)
        if len(answers) == 1 and None not in answers:
            return answers.pop()
    return None


def identifiable(item: Item) -> bool | None:
    """Whether an item's examples determine its answer, given what kind of rule it is.

    Every rule of the kind, with every meaning of the symbols, that agrees with all the examples
    must give the same answer.

    Parameters
    ----------
    item : Item

    Returns
    -------
    bool, or None
        None where no reference solver knows the rule, or where it reads decimal digits and they
        were replaced.

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> line = ("01 binary_xor 11 =", "10")
    >>> identifiable(Item((line,), "11 binary_xor 01 =", "10", "binary_xor", "binary_xor"))
    False
    >>> identifiable(Item((line,), "11 binary_xor 01 =", "10", "binary_xor", "riddle")) is None
    True
    """
    family, parsed = FAMILY.get(item.rule), _parsed(item)
    if family is None or parsed is None:
        return None
    answers = family(*parsed)
    if not answers:  # the rule as it stands does not fit: digits replaced, or symbols merged
        return None
    return len(answers) == 1 and None not in answers


def nearest_example(item: Item) -> str | None:
    """The answer of the example that shares most symbols, place by place, with the query.

    A cheap rule to beat: it looks at examples and knows nothing.

    Parameters
    ----------
    item : Item

    Returns
    -------
    str, or None where there are no examples

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> nearest_example(Item((("a b =", "1"), ("c d =", "2")), "c e =", "?"))
    '2'
    """

    def alike(question: str) -> int:
        return sum(map(str.__eq__, question, item.query)) - abs(len(question) - len(item.query))

    best = max(item.examples, key=lambda line: alike(line[0]), default=None)
    return best[1] if best else None


def frequent_answer(item: Item) -> str | None:
    """The most frequent answer among the examples (the first of several).

    Parameters
    ----------
    item : Item

    Returns
    -------
    str, or None where there are no examples

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> frequent_answer(Item((("a =", "1"), ("b =", "2"), ("c =", "2")), "d =", "?"))
    '2'
    """
    counts = Counter(answer for _, answer in item.examples)
    return counts.most_common(1)[0][0] if counts else None
