"""Families of rules on lists and sets; which of two symbols is larger is learned.

See :mod:`.solvers`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from practicum.language.abstract_reasoning.lines import Answers, Args, Examples


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


# --- orders --------------------------------------------------------------------------------------


class _Order:
    """What is known to be smaller than what."""

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        edges = list(dict.fromkeys(pairs))
        names = list(dict.fromkeys(name for pair in edges for name in pair))
        self.index = {name: k for k, name in enumerate(names)}
        self.known = np.zeros((len(names), len(names)), dtype=bool)
        for a, b in edges:
            self.known[self.index[a], self.index[b]] = True
        for k in range(len(names)):  # whatever is below k is below all that k is below
            self.known |= self.known[:, k, None] & self.known[None, k]
        self.consistent = not np.diag(self.known).any()

    def below(self, a: str, b: str) -> bool:
        """Whether a < b is known."""
        if a not in self.index or b not in self.index:
            return False
        return bool(self.known[self.index[a], self.index[b]])

    def sorted(self, values: Sequence[str]) -> list[str] | None:
        """In ascending order, None where two different ones cannot be compared."""
        distinct = list(dict.fromkeys(values))
        for a, b in itertools.combinations(distinct, 2):
            if not (self.below(a, b) or self.below(b, a)):
                return None
        rank = {a: sum(self.below(b, a) for b in distinct) for a in distinct}
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
    pairs = []
    for (text, limit), answer in examples:
        given, kept = form.read(text), form.read(answer)
        if [v for v in given if v in kept] != kept or limit in kept:
            return set()
        # different symbols are different values: what is not larger is smaller
        pairs += [(limit, v) if v in kept else (v, limit) for v in given if v != limit]
    order, limit = _Order(pairs), query[1]
    if not order.consistent:
        return set()
    kept = []
    for value in form.read(query[0]):
        if order.below(limit, value):
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
