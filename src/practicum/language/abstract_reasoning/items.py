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
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from practicum.errors import InputError

Compat = Literal["ours", "official"]
Line = tuple[str, str]


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


# --- the rules -----------------------------------------------------------------------------------


def _bits(value: int, length: int) -> str:
    return format(value & ((1 << length) - 1), f"0{length}b")


def _shift(rule: str, a: str, n: int) -> str:
    """Left or right, circular or with zeros; arithmetic right repeats the first bit."""
    n = min(n, len(a))
    left = rule.endswith("left_shift")
    if rule.startswith("circular"):
        n = n if left else len(a) - n
        return a[n:] + a[:n]
    if left:
        return a[n:] + "0" * n
    fill = a[0] if rule.startswith("arithmetic") else "0"
    return fill * n + a[: len(a) - n]


def _bit_of(rule: str, a: str, n: int) -> str:
    """Bit n, counted from the right: read, set, cleared or toggled."""
    place = len(a) - 1 - n
    if rule == "check_bit":
        return str(a[place] == "1")
    new = {"set_bit": "1", "clear_bit": "0", "toggle_bit": "01"[a[place] == "0"]}[rule]
    return a[:place] + new + a[place + 1 :]


BITWISE: dict[str, Callable[[int, int], int]] = {
    "binary_and": lambda a, b: a & b,
    "binary_or": lambda a, b: a | b,
    "binary_xor": lambda a, b: a ^ b,
    "binary_not": lambda a, b: ~a,
}
SHIFTS = tuple(
    f"{kind}_{side}_shift"
    for kind in ("logical", "arithmetic", "circular")
    for side in ("left", "right")
)
BIT_OPS = ("check_bit", "set_bit", "clear_bit", "toggle_bit")
ALPHABET_SIZES = (26, 8)  # half the words use all letters, half only the first eight


def to_base(number: int, base: int) -> str:
    """A whole number written in a base of at most ten.

    Parameters
    ----------
    number, base : int

    Raises
    ------
    InputError
        If the base is not between 2 and 10.

    Examples
    --------
    >>> to_base(1367, 3), to_base(-5, 4)
    ('1212122', '-11')
    """
    if not 2 <= base <= 10:
        raise InputError(f"base {base}: 2 to 10 expected")
    sign, number, digits = "-" * (number < 0), abs(number), ""
    while number or not digits:
        number, digit = divmod(number, base)
        digits = str(digit) + digits
    return sign + digits


def is_subsequence(word: str, part: str) -> bool:
    """Whether the letters of ``part`` occur in ``word`` in that order.

    Parameters
    ----------
    word, part : str

    Raises
    ------
    TypeError
        If one is no string.

    Examples
    --------
    >>> is_subsequence("axbxc", "abc"), is_subsequence("axbxc", "cb")
    (True, False)
    """
    letters = iter(word)
    return all(letter in letters for letter in part)


def wave(kind: str, x: int, tenths: int) -> float:
    r"""Square, triangle or sawtooth wave of frequency ``tenths``/10 at a whole x, exactly.

    With the phase :math:`u = (x\,p/10) \bmod 1`: square 1 for u <= 1/2, else -1; triangle 4u - 1 up
    to 1/2 and 3 - 4u after; sawtooth 2u - 1.

    Parameters
    ----------
    kind : {"square_wave", "triangle_wave", "sawtooth_wave"}
    x, tenths : int

    Raises
    ------
    InputError
        If the kind is not known.

    Examples
    --------
    >>> wave("sawtooth_wave", 36, 5), wave("triangle_wave", 1, 3), wave("square_wave", 5, 1)
    (-1.0, 0.2, 1.0)
    """
    phase = x * tenths % 10  # in tenths of a period: no rounding decides at the jumps
    if kind == "square_wave":
        return 1.0 if phase <= 5 else -1.0
    if kind == "triangle_wave":
        return (4 * phase - 10) / 10 if phase < 5 else (30 - 4 * phase) / 10
    if kind == "sawtooth_wave":
        return (2 * phase - 10) / 10
    raise InputError(f"wave {kind!r} is not known")


def _official_wave(kind: str, x: int, tenths: int) -> float:
    """As published: rounding decides at the jumps."""
    frequency = tenths / 10
    if kind == "square_wave":
        return 1.0 if math.sin(2 * math.pi * frequency * x) >= 0 else -1.0
    period = 1.0 / frequency
    u = x % period
    if kind == "triangle_wave":
        return 4 * u / period - 1 if u < period / 2 else 3 - 4 * u / period
    return 2 * u / period - 1


# --- how lines of a set are drawn ----------------------------------------------------------------


@dataclass
class _Draw:
    """One item's rule: a function that draws lines, and what goes with it."""

    operator: str
    rule: str
    line: Callable[[], Line]
    meta: dict[str, Any] = field(default_factory=dict)


Generator = Callable[[random.Random, int, Compat], _Draw]


def _two(a: Any, operator: str, b: Any) -> str:
    return f"{a} {operator} {b} ="


def _number(rng: random.Random, digits: int = 9) -> int:
    length = rng.randint(1, digits)
    return rng.randrange(10 ** (length - 1), 10**length)


def _basic(operator: str, rule: str) -> Generator:
    work = {
        "add": lambda a, b: str(a + b),
        "sub": lambda a, b: str(a - b),
        "mul": lambda a, b: str(a * b),
        "div": lambda a, b: str(a / b),
    }[rule]

    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        def line() -> Line:
            a, b = _number(rng), _number(rng)
            return _two(a, operator, b), work(a, b)

        return _Draw(operator, rule, line, {"answer": "number"})

    return draw


def _length(rng: random.Random, least: int, most: int, compat: Compat) -> int:
    """The length operands are cut to; ours is long enough to show every shot."""
    return rng.randint(1 if compat == "official" else least, most)


def _enough(shots: int, inputs: Callable[[int], int], most: int = 8) -> int:
    """The shortest operands of which there are more than ``shots`` different inputs."""
    return next((k for k in range(2, most) if inputs(k) > shots), most)


def _bit(var: bool) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        rule = rng.choice(list(BITWISE))
        one, work = rule == "binary_not", BITWISE[rule]
        least = _enough(shots, lambda k: 2 ** ((k - 1) * (1 if one else 2)))
        length = _length(rng, least, 8, compat) if var else 8

        def line() -> Line:
            # operands are the first bits of 0 to 127 written with eight: they begin with 0
            a, b = rng.randrange(128) >> (8 - length), rng.randrange(128) >> (8 - length)
            first, answer = _bits(a, length), _bits(work(a, b), length)
            if one:
                return f"{rule} {first} =", answer
            return _two(first, rule, _bits(b, length)), answer

        return _Draw(rule, rule, line)

    return draw


def _bit_with_place(
    rules: Sequence[str], work: Callable[[str, str, int], str], var: bool
) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        rule = rng.choice(rules)
        least = _enough(shots, lambda k: k * 2 ** (k - 1))
        length = _length(rng, least, 8, compat) if var else 8

        def line() -> Line:
            a, n = _bits(rng.randrange(128) >> (8 - length), length), rng.randrange(length)
            return _two(a, rule, n), work(rule, a, n)

        return _Draw(rule, rule, line)

    return draw


@lru_cache(maxsize=8)
def _words(seed: int, length: int, n: int = 1000) -> tuple[str, ...]:
    """Random words, half of them over eight letters."""
    rng = random.Random(f"words {seed} {length}")
    return tuple(
        "".join(rng.choices(string.ascii_lowercase[: ALPHABET_SIZES[i % 2]], k=length))
        for i in range(n)
    )


WORDS, LONG, SHORT = 42, 40, 4


def _count(var: bool) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        operator = "conut" if compat == "official" else "count"  # sic
        pool, length = _words(WORDS, LONG), _length(rng, 3, LONG, compat) if var else LONG

        def line() -> Line:
            word = rng.choice(pool)
            letter, word = rng.choice(word), word[:length]
            return _two(word, operator, letter), str(word.count(letter))

        return _Draw(operator, "count", line)

    return draw


def _strings(var: bool) -> Generator:
    rules = ("reverse", "concatenate", "repeat", "get_length")

    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        rule, pool = rng.choice(rules), _words(WORDS, LONG)
        # officially the two sets differ in nothing but their draws
        length = rng.randint(4, LONG) if var and compat == "ours" else LONG

        def line() -> Line:
            a = rng.choice(pool)[:length]
            if rule == "concatenate":
                b = rng.choice(pool)[:length]
                return _two(a, rule, b), a + b
            answer = {"reverse": a[::-1], "repeat": a * 2, "get_length": str(len(a))}[rule]
            return f"{rule} {a} =", answer

        return _Draw(rule, rule, line)

    return draw


def _substring(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    operator = "contains(in order)"
    long, short = _words(WORDS, LONG), _words(WORDS, SHORT)

    def line() -> Line:
        word, part = rng.choice(long), rng.choice(short)
        return _two(word, operator, part), "T" if is_subsequence(word, part) else "F"

    return _Draw(operator, "subsequence", line)


def _list(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    rule = rng.choice(("sort", "filter", "deduplicate"))
    unique = list if compat == "official" else sorted  # a set's order is Python's affair

    def line() -> Line:
        values = [rng.randint(0, 9) for _ in range(8)]
        if rule == "filter":
            limit = rng.randrange(9)
            return _two(values, rule, limit), str([v for v in values if v > limit])
        answer = sorted(values) if rule == "sort" else unique(set(values))
        return f"{rule} {values} =", str(answer)

    return _Draw(rule, rule, line)


def _list_count(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    rule = rng.choice(("min", "max", "median", "majority"))

    def line() -> Line:
        values = [rng.randint(0, 9) for _ in range(8)]
        if rule == "majority":
            counts = Counter(values)
            most = max(counts.values())
            answer: Any = [v for v, times in counts.items() if times == most]
        else:
            answer = sorted(values)[{"min": 0, "max": -1, "median": 4}[rule]]
        return f"{rule} {values} =", str(answer)

    return _Draw(rule, rule, line)


def _set(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    rule = rng.choice(("intersection", "union", "difference"))
    work = {"intersection": set.__and__, "union": set.__or__, "difference": set.__sub__}[rule]

    def written(values: set[int], operand: bool = True) -> str:
        empty = "set()" if operand and compat == "official" else "{}"
        return str(values) if values else empty

    def line() -> Line:
        a, b = ({v for v in range(7) if rng.random() < 0.5} for _ in range(2))
        return _two(written(a), rule, written(b)), written(work(a, b), operand=False)

    return _Draw(rule, rule, line, {"answer": "set"})


def _square_root(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    def line() -> Line:
        a = _number(rng)
        return f"square root {a} =", str(math.sqrt(a))

    return _Draw("square root", "square_root", line, {"answer": "number"})


def _days(rng: random.Random, shots: int, compat: Compat) -> _Draw:
    first, operator = date(2010, 1, 1), "days_between_dates"
    span = (date(2025, 12, 31) - first).days

    def line() -> Line:
        a, b = (first + timedelta(days=rng.randint(0, span)) for _ in range(2))
        shown = [[d.year, d.month, d.day] for d in (a, b)]
        return _two(shown[0], operator, shown[1]), str(abs((a - b).days))

    return _Draw(operator, "days", line)


def _base_hint(base: int) -> str:
    return f"Hint: this is base {base} arithmetic."


def _base(operator: str, rule: str, base: int, digits: int = 8) -> Generator:
    work = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[rule]

    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        def line() -> Line:
            a, b = (rng.randrange(base ** rng.randint(1, digits)) for _ in range(2))
            question = _two(to_base(a, base), operator, to_base(b, base))
            return question, to_base(work(a, b), base)

        return _Draw(operator, f"{rule}_base", line, {"base": base, "hint": _base_hint(base)})

    return draw


def _to_base(base: int) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        def line() -> Line:
            a = _number(rng, 4)
            return _two(a, "to base", base), to_base(a, base)

        return _Draw("to base", "to_base", line, {"base": base, "hint": _base_hint(base)})

    return draw


FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "linear": (2, lambda x, a, b: a * x + b),
    "quadratic": (3, lambda x, a, b, c: a * x**2 + b * x + c),
    "sine": (2, lambda x, a, b: a * math.sin(b * x)),
    "cosine": (2, lambda x, a, b: a * math.cos(b * x)),
}
WAVES = ("square_wave", "triangle_wave", "sawtooth_wave")


def _induction(name: str) -> Generator:
    """A function of one variable. Officially every line has parameters of its own."""
    count, work = FUNCTIONS.get(name, (1, None))

    def draw(rng: random.Random, shots: int, compat: Compat) -> _Draw:
        parameters = rng.sample(range(1, 10), count)
        exact = _official_wave if compat == "official" else wave

        def line() -> Line:
            p = rng.sample(range(1, 10), count) if compat == "official" else parameters
            x = rng.randint(1, 99)
            y = work(x, *p) if work else exact(name, x, p[0])
            shown = y if compat == "official" else round(y, 6)
            whole = float(shown).is_integer() and name != "sawtooth_wave"
            return f"fun {x} =", str(int(shown) if whole else shown)

        return _Draw("fun", name, line, {"answer": "number"})

    return draw


GENERATORS: dict[str, Generator] = {
    "bc/add": _basic("+", "add"),
    "bc/sub": _basic("-", "sub"),
    "bc/mul": _basic("*", "mul"),
    "bc/div": _basic("/", "div"),
    **{
        f"ec/{'var' if var else 'fixed'}_{name}": made
        for var in (False, True)
        for name, made in {
            "bit": _bit(var),
            "bit_shift": _bit_with_place(SHIFTS, _shift, var),
            "bitop": _bit_with_place(BIT_OPS, _bit_of, var),
            "str": _count(var),
            "strop": _strings(var),
        }.items()
    },
    "ec/fixed_substr": _substring,
    "ec/var_list": _list,
    "ec/var_list_cnt": _list_count,
    "ec/var_set": _set,
    "ec/square_root": _square_root,
    "ec/days": _days,
    **{
        f"nbr/{rule}_base{base}": _base(sign, rule, base)
        for rule, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        for base in (3, 4, 5)
    },
    **{f"nbr/to_base{base}": _to_base(base) for base in (3, 4, 5)},
    **{f"sma/{name}": _induction(name) for name in (*FUNCTIONS, *WAVES)},
}
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
        draw = _base(sign, rule, base, digits)(rng, shots, "ours")
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
