"""Reading an item's lines: its operator, the operands beside it, the answers."""

from __future__ import annotations

from practicum.language.abstract_reasoning.items import Item

Args = tuple[str, ...]
Examples = list[tuple[Args, str]]
Answers = set[str | None]


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


def parsed(item: Item) -> tuple[Examples, Args] | None:
    operator = operator_of(item)
    if not operator or not item.examples:
        return None
    lines = [(_arguments(question, operator), answer) for question, answer in item.lines]
    if any(args is None for args, _ in lines) or len({len(a) for a, _ in lines}) != 1:
        return None
    *examples, (query, _) = lines
    return examples, query
