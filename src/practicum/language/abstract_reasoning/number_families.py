"""Families of rules on numbers: arithmetic in a base, roots, dates, functions.

See :mod:`.solvers`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from datetime import date

import numpy as np

from practicum.language.abstract_reasoning.lines import Answers, Args, Examples
from practicum.language.abstract_reasoning.rules import WAVES, to_base, wave


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
