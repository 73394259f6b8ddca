"""The rules that items show, and how applications of one are drawn as lines of text.

A line is ``A op B =`` or ``op A =``, and its answer. :data:`GENERATORS` has a generator for each of
the 39 sets that are not remapped ones.
"""

from __future__ import annotations

import math
import random
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Literal

from practicum.errors import InputError

Compat = Literal["ours", "official"]
Line = tuple[str, str]

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
class Draw:
    """One item's rule: a function that draws lines, and what goes with it."""

    operator: str
    rule: str
    line: Callable[[], Line]
    meta: dict[str, Any] = field(default_factory=dict)


Generator = Callable[[random.Random, int, Compat], Draw]


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

    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        def line() -> Line:
            a, b = _number(rng), _number(rng)
            return _two(a, operator, b), work(a, b)

        return Draw(operator, rule, line, {"answer": "number"})

    return draw


def _length(rng: random.Random, least: int, most: int, compat: Compat) -> int:
    """The length operands are cut to; ours is long enough to show every shot."""
    return rng.randint(1 if compat == "official" else least, most)


def _enough(shots: int, inputs: Callable[[int], int], most: int = 8) -> int:
    """The shortest operands of which there are more than ``shots`` different inputs."""
    return next((k for k in range(2, most) if inputs(k) > shots), most)


def _bit(var: bool) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
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

        return Draw(rule, rule, line)

    return draw


def _bit_with_place(
    rules: Sequence[str], work: Callable[[str, str, int], str], var: bool
) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        rule = rng.choice(rules)
        least = _enough(shots, lambda k: k * 2 ** (k - 1))
        length = _length(rng, least, 8, compat) if var else 8

        def line() -> Line:
            a, n = _bits(rng.randrange(128) >> (8 - length), length), rng.randrange(length)
            return _two(a, rule, n), work(rule, a, n)

        return Draw(rule, rule, line)

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
    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        operator = "conut" if compat == "official" else "count"  # sic
        pool, length = _words(WORDS, LONG), _length(rng, 3, LONG, compat) if var else LONG

        def line() -> Line:
            word = rng.choice(pool)
            letter, word = rng.choice(word), word[:length]
            return _two(word, operator, letter), str(word.count(letter))

        return Draw(operator, "count", line)

    return draw


def _strings(var: bool) -> Generator:
    rules = ("reverse", "concatenate", "repeat", "get_length")

    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
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

        return Draw(rule, rule, line)

    return draw


def _substring(rng: random.Random, shots: int, compat: Compat) -> Draw:
    operator = "contains(in order)"
    long, short = _words(WORDS, LONG), _words(WORDS, SHORT)

    def line() -> Line:
        word, part = rng.choice(long), rng.choice(short)
        return _two(word, operator, part), "T" if is_subsequence(word, part) else "F"

    return Draw(operator, "subsequence", line)


def _list(rng: random.Random, shots: int, compat: Compat) -> Draw:
    rule = rng.choice(("sort", "filter", "deduplicate"))
    unique = list if compat == "official" else sorted  # a set's order is Python's affair

    def line() -> Line:
        values = [rng.randint(0, 9) for _ in range(8)]
        if rule == "filter":
            limit = rng.randrange(9)
            return _two(values, rule, limit), str([v for v in values if v > limit])
        answer = sorted(values) if rule == "sort" else unique(set(values))
        return f"{rule} {values} =", str(answer)

    return Draw(rule, rule, line)


def _list_count(rng: random.Random, shots: int, compat: Compat) -> Draw:
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

    return Draw(rule, rule, line)


def _set(rng: random.Random, shots: int, compat: Compat) -> Draw:
    rule = rng.choice(("intersection", "union", "difference"))
    work = {"intersection": set.__and__, "union": set.__or__, "difference": set.__sub__}[rule]

    def written(values: set[int], operand: bool = True) -> str:
        empty = "set()" if operand and compat == "official" else "{}"
        return str(values) if values else empty

    def line() -> Line:
        a, b = ({v for v in range(7) if rng.random() < 0.5} for _ in range(2))
        return _two(written(a), rule, written(b)), written(work(a, b), operand=False)

    return Draw(rule, rule, line, {"answer": "set"})


def _square_root(rng: random.Random, shots: int, compat: Compat) -> Draw:
    def line() -> Line:
        a = _number(rng)
        return f"square root {a} =", str(math.sqrt(a))

    return Draw("square root", "square_root", line, {"answer": "number"})


def _days(rng: random.Random, shots: int, compat: Compat) -> Draw:
    first, operator = date(2010, 1, 1), "days_between_dates"
    span = (date(2025, 12, 31) - first).days

    def line() -> Line:
        a, b = (first + timedelta(days=rng.randint(0, span)) for _ in range(2))
        shown = [[d.year, d.month, d.day] for d in (a, b)]
        return _two(shown[0], operator, shown[1]), str(abs((a - b).days))

    return Draw(operator, "days", line)


def _base_hint(base: int) -> str:
    return f"Hint: this is base {base} arithmetic."


def arithmetic_in(operator: str, rule: str, base: int, digits: int = 8) -> Generator:
    work = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[rule]

    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        def line() -> Line:
            a, b = (rng.randrange(base ** rng.randint(1, digits)) for _ in range(2))
            question = _two(to_base(a, base), operator, to_base(b, base))
            return question, to_base(work(a, b), base)

        return Draw(operator, f"{rule}_base", line, {"base": base, "hint": _base_hint(base)})

    return draw


def _to_base(base: int) -> Generator:
    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        def line() -> Line:
            a = _number(rng, 4)
            return _two(a, "to base", base), to_base(a, base)

        return Draw("to base", "to_base", line, {"base": base, "hint": _base_hint(base)})

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

    def draw(rng: random.Random, shots: int, compat: Compat) -> Draw:
        parameters = rng.sample(range(1, 10), count)
        exact = _official_wave if compat == "official" else wave

        def line() -> Line:
            p = rng.sample(range(1, 10), count) if compat == "official" else parameters
            x = rng.randint(1, 99)
            y = work(x, *p) if work else exact(name, x, p[0])
            shown = y if compat == "official" else round(y, 6)
            whole = float(shown).is_integer() and name != "sawtooth_wave"
            return f"fun {x} =", str(int(shown) if whole else shown)

        return Draw("fun", name, line, {"answer": "number"})

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
        f"nbr/{rule}_base{base}": arithmetic_in(sign, rule, base)
        for rule, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        for base in (3, 4, 5)
    },
    **{f"nbr/to_base{base}": _to_base(base) for base in (3, 4, 5)},
    **{f"sma/{name}": _induction(name) for name in (*FUNCTIONS, *WAVES)},
}
