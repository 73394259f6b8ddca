r"""Reference solvers: what an item's examples determine, whatever the symbols are called.

A family (of rules on strings, lists or numbers, in a module of each) is a set of hypotheses: a
rule, with whatever it leaves open, as which symbol is larger or which index a parameter means. It
returns the *set of answers* that its hypotheses give to the query, over all those that agree with
every example: no answer, the family does not fit; one, the item determines it; several (or None, an
answer that cannot be written), it does not.

Symbols are only compared for equality and ties go to whatever comes first, so a one-to-one map of
the symbols maps the answer: for these solvers :math:`\Delta = 0` exactly. The families of decimal
numbers are the exception; they read digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from practicum.language.abstract_reasoning.items import Item
from practicum.language.abstract_reasoning.lines import Answers, Args, Examples, parsed
from practicum.language.abstract_reasoning.list_families import (
    membership,
    modes,
    order_statistics,
    ordering,
    thresholds,
)
from practicum.language.abstract_reasoning.number_families import (
    base_arithmetic,
    days,
    division,
    functions,
    in_base,
    square_roots,
)
from practicum.language.abstract_reasoning.rules import (
    BIT_OPS,
    BITWISE,
    FUNCTIONS,
    SHIFTS,
    WAVES,
)
from practicum.language.abstract_reasoning.string_families import (
    counting,
    place_read,
    place_write,
    pointwise,
    shifts,
    string_rules,
    subsequences,
)

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
    read = parsed(item)
    if read is None:
        return None
    for family in (*SYMBOL_BLIND, *DECIMAL):
        answers = family(*read)
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
    family, read = FAMILY.get(item.rule), parsed(item)
    if family is None or read is None:
        return None
    answers = family(*read)
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
