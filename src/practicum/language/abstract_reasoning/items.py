r"""Items: worked examples of one hidden rule, and a query. 81 generated sets, or a person's own.

Every generated item shows ``shots`` distinct applications of one rule and asks for another. A line
is ``A op B =`` or ``op A =``. Sets are named ``category/set``: four of basic computation (``bc``),
sixteen of extended calculation (``ec``), twelve in number bases (``nbr``), seven of function
induction (``sma``), and 42 of symbolic reasoning (``sr``): fourteen of ``ec`` in three remapped
forms.

Where the official generator errs, ours differs: function induction keeps one set of parameters
within an item (officially every *line* draws its own, so that nothing can be induced), waves are
exact at their jumps (officially floating-point rounding decides), a shortened operand is as long as
it takes to show all shots. ``compat="official"`` gives the published behaviour.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from practicum.errors import InputError
from practicum.language.abstract_reasoning.rules import GENERATORS, Compat, Line, arithmetic_in


@dataclass(frozen=True)
class Item:
    """Examples of one rule, a query, and its answer.

    Parameters
    ----------
    examples : tuple of (question, answer)
    query, answer : str
    operator : str
        How the rule is written in the questions; empty where that is not known.
    rule : str
        The rule's name, for the reference solvers; empty where it is not known.
    task : str
        The set it belongs to.
    meta : dict
        ``answer``: how answers are compared (``text``, ``number``, ``set``); ``hint``: a line shown
        before every question; ``map``: the replacement of symbols, where there was one.

    Attributes
    ----------
    lines : tuple of (question, answer)
        The examples and the query.

    Examples
    --------
    >>> item = Item((("1 + 1 =", "2"),), "1 + 2 =", "3", "+", "add")
    >>> item.lines[-1]
    ('1 + 2 =', '3')
    """

    examples: tuple[Line, ...]
    query: str
    answer: str
    operator: str = ""
    rule: str = ""
    task: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The examples and the query."""
        return (*self.examples, (self.query, self.answer))

    def with_shots(self, shots: int) -> Item:
        """The same item with only the last ``shots`` examples."""
        return replace(self, examples=self.examples[max(0, len(self.examples) - shots) :])


# --- generated sets ------------------------------------------------------------------------------

UNPAIRED = ("ec/square_root", "ec/days")
PAIRED = tuple(t for t in GENERATORS if t.startswith("ec/") and t not in UNPAIRED)
KINDS = ("full", "operand", "operator")
SYMBOLIC = {f"sr/{t[3:]}/{kind}": (t, kind) for t in PAIRED for kind in KINDS}
TASKS = (*GENERATORS, *SYMBOLIC)
CATEGORIES = {
    "bc": "basic computation",
    "ec": "extended calculation",
    "nbr": "number bases",
    "ma": "mathematical application",
    "sma": "function induction",
    "sr": "symbolic reasoning",
}


def make_items(
    task: str, n: int = 96, shots: int = 50, seed: int = 42, compat: Compat = "ours"
) -> list[Item]:
    """Generate a set of items; the same arguments give the same items on every machine.

    The seed is set anew for every set, so that sets share draws, as in the official generator.

    Parameters
    ----------
    task : str
        One of :data:`TASKS`, e.g. ``"ec/fixed_bit"``, ``"nbr/add_base3"``, ``"sr/var_set/full"``.
    n : int
        Items.
    shots : int
        Worked examples in each. ``compat="official"`` can show fewer: it shortens operands until
        there are not that many different ones.
    seed : int
    compat : {"ours", "official"}

    Returns
    -------
    list of Item

    Raises
    ------
    InputError
        If there is no such set (with the nearest names), or a number is out of range.

    Examples
    --------
    >>> item = make_items("ec/fixed_bit", n=1, shots=8)[0]
    >>> len(item.examples), item.rule == item.operator
    (8, True)
    >>> len(TASKS)
    81
    """
    if task not in TASKS:
        raise InputError(f"there is no task set {task!r}", _nearest(task))
    if n < 1:
        raise InputError(f"items={n}: at least 1")
    if not 1 <= shots <= 90:
        raise InputError(f"shots={shots}: 1 to 90 worked examples", "the published sets show 50")
    if task in SYMBOLIC:
        return list(_symbolic(task, n, shots, seed, compat))
    return list(_generated(task, n, shots, seed, compat))


@lru_cache(maxsize=64)
def _generated(task: str, n: int, shots: int, seed: int, compat: Compat) -> tuple[Item, ...]:
    rng = random.Random(seed)
    return tuple(_one(task, rng, shots, compat) for _ in range(n))


def _one(task: str, rng: random.Random, shots: int, compat: Compat) -> Item:
    """One item: as many different lines as can be drawn, the last one asked."""
    while True:
        draw = GENERATORS[task](rng, shots, compat)
        lines: dict[str, str] = {}
        tries = 0
        while len(lines) <= shots and tries < 40 * (shots + 1):
            question, answer = draw.line()
            lines.setdefault(question, answer)
            tries += 1
        if len(lines) > (shots if compat == "ours" else 1):
            *examples, (query, answer) = lines.items()
            return Item(tuple(examples), query, answer, draw.operator, draw.rule, task, draw.meta)


def _symbolic(task: str, n: int, shots: int, seed: int, compat: Compat) -> Iterator[Item]:
    import numpy as np

    from practicum.language.abstract_reasoning.remap import remap

    base, kind = SYMBOLIC[task]
    rng = np.random.default_rng([seed, TASKS.index(task)])
    for item in _generated(base, n, shots, seed, compat):
        mapped, _ = remap(item, kind, rng, collision_free=compat != "official")
        yield replace(mapped, task=task)


def _nearest(task: str) -> str:
    import difflib

    inside = [t for t in TASKS if task and task.lower() in t.lower()]
    close = inside[:4] or difflib.get_close_matches(task, TASKS, n=3, cutoff=0.4)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"categories: {', '.join(c for c in CATEGORIES if c != 'ma')}"


def base_items(rule: str, base: int, n: int, shots: int, seed: int, digits: int = 8) -> list[Item]:
    """Arithmetic in a base of one's choice, operands of 1 to ``digits`` digits in every base.

    With the same seed, base 10 and base 3 differ in nothing but the base.

    Parameters
    ----------
    rule : {"add", "sub", "mul"}
    base : int
        2 to 10; there is a hint line unless it is 10.
    n, shots, seed, digits : int

    Raises
    ------
    InputError
        If the rule or the base is not known, or there are too few operands of that length.

    Examples
    --------
    >>> base_items("add", 10, n=1, shots=4, seed=0, digits=2)[0].operator
    '+'
    """
    if rule not in ("add", "sub", "mul") or not 2 <= base <= 10:
        raise InputError(f"{rule} in base {base}: add, sub or mul in base 2 to 10")
    if base ** (2 * digits) < 2 * (shots + 1):
        raise InputError(f"digits={digits}: too few operands in base {base} for {shots} examples")
    rng = random.Random(seed)
    sign = {"add": "+", "sub": "-", "mul": "*"}[rule]
    made = []
    for _ in range(n):
        draw = arithmetic_in(sign, rule, base, digits)(rng, shots, "ours")
        meta = {} if base == 10 else draw.meta
        lines: dict[str, str] = {}
        while len(lines) <= shots:
            lines.setdefault(*draw.line())
        *examples, (query, answer) = lines.items()
        name = f"{rule}_base{base}"
        made.append(Item(tuple(examples), query, answer, sign, f"{rule}_base", name, meta))
    return made


def task_names(words: str | Sequence[str]) -> list[str]:
    """The sets that a person means: names, or categories like ``ec``, separated by commas.

    Parameters
    ----------
    words : str or sequence of str

    Raises
    ------
    InputError
        If a word names nothing.

    Examples
    --------
    >>> len(task_names("ec,bc/add")), task_names("ec/var_set")
    (17, ['ec/var_set'])
    """
    parts = words.split(",") if isinstance(words, str) else list(words)
    names: list[str] = []
    for part in (p.strip() for p in parts):
        if part == "ma":
            raise InputError("ma is GSM8K, which is not bundled", "name your copy: --gsm8k FILE")
        found = [part] if part in TASKS else [t for t in TASKS if t.startswith(f"{part}/")]
        if part == "paired":
            found = list(PAIRED)
        if not part or not found:
            raise InputError(f"there is no task set or category {part!r}", _nearest(part))
        names += [t for t in found if t not in names]
    return names


# --- a person's own ------------------------------------------------------------------------------


@dataclass
class Notes:
    """What was left out of a person's items, and how often.

    Attributes
    ----------
    leaks : int
        Items dropped because their query is one of their examples.
    duplicates : int
        Examples dropped because they stand there twice.

    Examples
    --------
    >>> Notes(leaks=2).sentences()
    ['2 items dropped: their query is one of their examples']
    """

    leaks: int = 0
    duplicates: int = 0

    def sentences(self) -> list[str]:
        """One line for each thing that was left out."""
        said = {
            "items dropped: their query is one of their examples": self.leaks,
            "repeated examples dropped": self.duplicates,
        }
        return [f"{count} {what}" for what, count in said.items() if count]


def read_items(path: str | Path) -> tuple[list[Item], Notes]:
    """A person's tasks from JSON lines.

    Each line holds ``query`` (or ``question``, ``prompt``, ``input``) and ``answer``; it may hold
    ``examples`` ([[question, answer], ...]), ``operator_symbols`` (["+"], for telling operators
    from operands), ``rule`` (a name our solvers know) and ``task``. GSM8K's own files are read as
    they are: ``#### 18`` ends an answer.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    items, notes

    Raises
    ------
    InputError
        Naming the line and what is wrong: no JSON, a field missing or of the wrong type, two
        answers to one question.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.jsonl"
    >>> record = {"examples": [["1 @ 2 =", "3"]], "query": "2 @ 2 =", "answer": "4"}
    >>> _ = path.write_text(json.dumps(record))
    >>> read_items(path)[0][0].answer
    '4'
    """
    from practicum.data.text import read_utf8

    path, notes, items = Path(path), Notes(), []
    for number, line in enumerate(read_utf8(path).split("\n"), start=1):
        if line.strip():
            item = _record(line, f"{path}, line {number}", path.stem, notes)
            items += [item] if item else []
    if not items:
        raise InputError(f"{path}: no item is left to ask", "; ".join(notes.sentences()) or None)
    return items, notes


QUESTIONS = ("query", "question", "prompt", "input")


def _record(text: str, where: str, name: str, notes: Notes) -> Item | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected a JSON object, found {type(record).__name__}")
    query = next((record[key] for key in QUESTIONS if key in record), None)
    answer = record.get("answer", record.get("target"))
    for what, value in (("query", query), ("answer", answer)):
        if not isinstance(value, str | int | float) or not str(value).strip():
            there = ", ".join(record) or "none"
            raise InputError(f"{where}: no {what} (text or a number); fields there: {there}")
    answer = str(answer)
    meta: dict[str, Any] = {"answer": _kind_of(answer)}
    if "####" in answer:  # GSM8K: the reasoning, then the number
        answer, meta = answer.rpartition("####")[2].strip().replace(",", ""), {"answer": "number"}
    examples = _examples(record.get("examples", []), where, notes)
    query = str(query)
    if query in examples:
        notes.leaks += 1
        return None
    symbols = record.get("operator_symbols", [])
    symbols = [symbols] if isinstance(symbols, str) else symbols
    if not isinstance(symbols, list) or not all(isinstance(s, str) and s for s in symbols):
        raise InputError(f"{where}: operator_symbols must be a list of strings")
    meta["operators"] = symbols
    operator = symbols[0] if len(symbols) == 1 else ""
    rule, task = str(record.get("rule", "")), str(record.get("task", name))
    return Item(tuple(examples.items()), query, answer, operator, rule, task, meta)


def _examples(pairs: Any, where: str, notes: Notes) -> dict[str, str]:
    if not isinstance(pairs, list):
        raise InputError(f"{where}: examples must be a list of [question, answer]")
    seen: dict[str, str] = {}
    for pair in pairs:
        if isinstance(pair, dict):
            pair = [next((pair[k] for k in QUESTIONS if k in pair), None), pair.get("answer")]
        fine = isinstance(pair, list) and len(pair) == 2
        if not fine or not all(isinstance(p, str | int | float) for p in pair):
            raise InputError(f"{where}: an example is {pair!r:.60}, not [question, answer]")
        question, answer = map(str, pair)
        if seen.get(question, answer) != answer:
            raise InputError(
                f"{where}: the examples contradict each other: {question!r} is answered "
                f"{seen[question]!r} and {answer!r}",
                "drop the item or mend it",
            )
        notes.duplicates += question in seen
        seen[question] = answer
    return seen


def _kind_of(answer: str) -> str:
    """How answers like this are compared."""
    if answer.startswith("{") and answer.endswith("}"):
        return "set"
    try:
        return "number" if "." in answer and math.isfinite(float(answer)) else "text"
    except ValueError:
        return "text"


def item_record(item: Item) -> dict[str, Any]:
    """An item as a plain record, as :func:`read_items` reads it.

    Parameters
    ----------
    item : Item

    Raises
    ------
    AttributeError
        If it is no item.

    Examples
    --------
    >>> item_record(make_items("bc/add", n=1, shots=1)[0])["operator_symbols"]
    ['+']
    """
    symbols = item.meta.get("operators") or ([item.operator] if item.operator else [])
    return {
        "task": item.task,
        "rule": item.rule,
        "examples": [list(pair) for pair in item.examples],
        "query": item.query,
        "answer": item.answer,
        "operator_symbols": symbols,
    }
