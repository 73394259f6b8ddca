"""Wrong versions of right text: mutations of Python's syntax tree, of numbers, choices and prose.

Every function is deterministic given its generator, needs no language model, and says what it did.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from practicum.errors import InputError

Kind = Literal["semantic", "syntactic", "placebo"]
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
OPPOSITES = {
    "is": "is not",
    "are": "are not",
    "was": "was not",
    "can": "cannot",
    "will": "will not",
    "more": "less",
    "less": "more",
    "before": "after",
    "after": "before",
    "all": "none",
    "always": "never",
    "never": "always",
    "first": "last",
    "last": "first",
    "true": "false",
    "false": "true",
    "yes": "no",
    "no": "yes",
    "larger": "smaller",
    "smaller": "larger",
    "increase": "decrease",
    "decrease": "increase",
    "must": "must not",
    "even": "odd",
    "odd": "even",
    "maximum": "minimum",
    "minimum": "maximum",
    "ascending": "descending",
}
WORD = re.compile(r"[A-Za-z]+")
STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\#.*""")
NUMERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Edit:
    """One change: where, what it was, what it is, and the operator's name.

    Parameters
    ----------
    segment : int
        Index of the line or sentence, from 0.
    before, after : str
        The whole segment.
    operator : str

    Examples
    --------
    >>> Edit(0, "a < b", "a <= b", "comparison").operator
    'comparison'
    """

    segment: int
    before: str
    after: str
    operator: str


@dataclass(frozen=True)
class Mutation:
    """A replacement of one span on one line of a program (columns in characters)."""

    line: int  # from 0
    start: int
    end: int
    text: str
    operator: str

    def apply(self, lines: list[str]) -> list[str]:
        """The lines with the span replaced."""
        line = lines[self.line]
        changed = line[: self.start] + self.text + line[self.end :]
        return [*lines[: self.line], changed, *lines[self.line + 1 :]]


def parses(source: str) -> bool:
    """Whether Python accepts a text, as a program or as an indented function body.

    Parameters
    ----------
    source : str

    Raises
    ------
    TypeError
        The source is not text.

    Examples
    --------
    >>> parses("return x"), parses("    return x"), parses("x = (")
    (True, True, False)
    """
    return _parses(source)


@lru_cache(maxsize=4096)
def _parses(source: str) -> bool:
    return _tree(source)[0] is not None


def _tree(source: str) -> tuple[ast.Module | None, int]:
    """The syntax tree, and how many lines were put before the source to get it."""
    for head in ("", "def _():\n"):
        body = source
        if head and not source.startswith((" ", "\t")):
            body = "".join(f" {line}" for line in source.splitlines(keepends=True))
        try:
            return ast.parse(head + body), bool(head)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None, 0


def semantic_mutations(source: str) -> list[Mutation]:
    """Every single change of meaning this module knows for a program.

    Comparisons (``<`` with ``<=``, ``==`` with ``!=``), integers (one more, one less), ``+`` with
    ``-``, ``and`` with ``or``, a negated ``if``, the last operand of a returned expression dropped,
    a name replaced by another local name.

    Parameters
    ----------
    source : str

    Raises
    ------
    TypeError
        The source is not text.

    Examples
    --------
    >>> [m.text for m in semantic_mutations("if a < 3:\\n    b = a + c")][:3]
    ['not (a < 3)', '<=', '2']
    """
    return list(_mutations(source))


@lru_cache(maxsize=4096)
def _mutations(source: str) -> tuple[Mutation, ...]:
    tree, head = _tree(source)
    if tree is None or head:
        return ()
    # columns of the tree count bytes: as Latin-1 every byte is a character
    lines = [line.encode().decode("latin-1") for line in source.split("\n")]
    names = sorted(
        {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        | {a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in n.args}
    )
    found = [m for node in ast.walk(tree) for m in _mutations_of(node, lines, names)]
    found = [_in_characters(m, lines[m.line]) for m in found]
    return tuple(sorted(set(found), key=lambda m: (m.line, m.start, m.operator, m.text)))


def _in_characters(m: Mutation, line: str) -> Mutation:
    def text(latin: str) -> str:
        return latin.encode("latin-1").decode()

    if line.isascii():
        return m
    start, end = len(text(line[: m.start])), len(text(line[: m.end]))
    return Mutation(m.line, start, end, text(m.text), m.operator)


def _mutations_of(node: ast.AST, lines: list[str], names: list[str]) -> list[Mutation]:
    """Mutations of one node; spans of several lines are left alone."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _between(node.left, node.comparators[0], lines, COMPARISONS, "comparison")
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _between(node.left, node.right, lines, {"+": "-", "-": "+"}, "arithmetic")
    if isinstance(node, ast.BoolOp):
        return _between(node.values[0], node.values[1], lines, {"and": "or", "or": "and"}, "logic")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [m for d in (1, -1) for m in _replace(node, lines, str(node.value + d), "integer")]
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        return _replace(node.test, lines, "not ({})", "negated condition")
    if isinstance(node, ast.Return) and node.value is not None:
        return _drop_operand(node.value, lines)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        others = [n for n in names if n != node.id][:2]
        return [m for other in others for m in _replace(node, lines, other, "name")]
    return []


def _replace(node: ast.expr, lines: list[str], text: str, operator: str) -> list[Mutation]:
    line, start, end = node.lineno - 1, node.col_offset, node.end_col_offset
    if node.end_lineno != node.lineno or end is None:
        return []
    return [Mutation(line, start, end, text.replace("{}", lines[line][start:end]), operator)]


def _between(
    left: ast.expr, right: ast.expr, lines: list[str], exchange: dict[str, str], operator: str
) -> list[Mutation]:
    """The operator written between two operands of one line."""
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return []
    line = right.lineno - 1
    gap = lines[line][left.end_col_offset : right.col_offset]
    for old in sorted(exchange, key=len, reverse=True):
        if (at := gap.find(old)) >= 0:
            start = left.end_col_offset + at
            return [Mutation(line, start, start + len(old), exchange[old], operator)]
    return []


def _drop_operand(value: ast.expr, lines: list[str]) -> list[Mutation]:
    kept = None
    if isinstance(value, ast.BinOp):
        kept = value.left
    elif isinstance(value, ast.BoolOp):
        kept = value.values[0]
    if kept is None or value.end_lineno != value.lineno:
        return []
    line = value.lineno - 1
    text = lines[line][kept.col_offset : kept.end_col_offset]
    return _replace(value, lines, text.replace("{}", "{{}}"), "dropped operand")


def mutants(source: str, rng: random.Random, n: int | None = None) -> list[str]:
    """Distinct programs one semantic edit away that still parse, in random order.

    Parameters
    ----------
    source : str
    rng : random.Random
    n : int, optional
        At most so many.

    Raises
    ------
    TypeError
        The source is not text.

    Examples
    --------
    >>> import random
    >>> mutants("x = a + b", random.Random(0))
    ['x = a - b']
    """
    every = semantic_mutations(source)
    rng.shuffle(every)
    lines, found = source.split("\n"), {}
    for mutation in every:
        text = "\n".join(mutation.apply(lines))
        if text != source and parses(text):
            found[text] = None
            if n is not None and len(found) >= n:
                break
    return list(found)


# --- segments ------------------------------------------------------------------------------------


def break_syntax(line: str, rng: random.Random) -> tuple[str, str]:
    """A line that Python refuses: a colon, a bracket or the indentation is taken away.

    Parameters
    ----------
    line : str
    rng : random.Random

    Raises
    ------
    TypeError
        The line is not text.

    Examples
    --------
    >>> import random
    >>> break_syntax("x = (1)", random.Random(1))[1]
    'bracket'
    """
    return rng.choice(_broken(line))


def _broken(line: str) -> list[tuple[str, str]]:
    """A line without one of what holds it together, and what that was."""
    code = line.rstrip()
    # brackets in strings and remarks hold nothing together
    masked = STRING.sub(lambda m: "_" * len(m[0]), line)
    choices: list[tuple[str, str]] = []
    if masked.rstrip().endswith(":"):
        choices.append((code[:-1], "colon"))
    choices += [
        (line[: m.start()] + line[m.end() :], "bracket") for m in re.finditer(r"[()\[\]{}]", masked)
    ]
    if line.startswith((" ", "\t")):
        choices.append((line[1:], "indent"))
    return choices or [(f"( {code}", "bracket")]


def corrupt_sentence(sentence: str, kind: Kind, rng: random.Random) -> tuple[str, str]:
    """A sentence that says something else (semantic) or is misspelt (syntactic).

    Numbers come first (+3, or two digits exchanged), then words with an opposite, then a denial.

    Parameters
    ----------
    sentence : str
    kind : {"semantic", "syntactic", "placebo"}
    rng : random.Random

    Raises
    ------
    InputError
        The kind is unknown.

    Examples
    --------
    >>> import random
    >>> corrupt_sentence("All are odd", "semantic", random.Random(0))[0] != "All are odd"
    True
    >>> corrupt_sentence("It is 12", "semantic", random.Random(3))[0]
    'It is 15'
    """
    _check_kind(kind)
    if kind == "placebo":
        return f"{sentence} ", "placebo"
    if kind == "syntactic":
        words = [m for m in WORD.finditer(sentence) if len(m[0]) > 2]
        if not words:
            return f"{sentence}(", "misspelt"
        word = rng.choice(words)
        at = word.start() + rng.randrange(1, len(word[0]))
        return sentence[:at] + sentence[at + 1 :], "misspelt"
    if numbers := list(NUMERAL.finditer(sentence)):
        number = rng.choice(numbers)
        wrong = corrupt_number(number[0], rng)
        return sentence[: number.start()] + wrong + sentence[number.end() :], "number"
    turned = [m for m in WORD.finditer(sentence) if m[0].lower() in OPPOSITES]
    if turned:
        word = rng.choice(turned)
        wrong = OPPOSITES[word[0].lower()]
        wrong = wrong.capitalize() if word[0][0].isupper() else wrong
        return sentence[: word.start()] + wrong + sentence[word.end() :], "opposite"
    lead = len(sentence) - len(sentence.lstrip())
    return f"{sentence[:lead]}It is not so that {sentence[lead:]}", "denial"


def corrupt_number(text: str, rng: random.Random) -> str:
    """Another number: three more, or two different neighbouring digits exchanged.

    Parameters
    ----------
    text : str
        A numeral.
    rng : random.Random

    Raises
    ------
    ValueError
        The text is no number.

    Examples
    --------
    >>> import random
    >>> corrupt_number("12", random.Random(3)) in ("15", "21")
    True
    """
    swaps = [
        text[:i] + text[i + 1] + text[i] + text[i + 2 :]
        for i in range(len(text) - 1)
        if text[i].isdigit() and text[i + 1].isdigit() and text[i] != text[i + 1]
    ]
    swaps = [s for s in swaps if not (s.startswith("0") and len(s) > 1)]
    if swaps and rng.random() < 0.5:
        return rng.choice(swaps)
    value = float(text) + 3
    return str(int(value)) if "." not in text else f"{value:.{len(text.partition('.')[2])}f}"


def rotate_choice(text: str, letters: str = "ABCD") -> str:
    """Every single choice letter replaced by the next: A by B, D by A.

    Parameters
    ----------
    text : str
    letters : str

    Raises
    ------
    TypeError
        The text is not text.

    Examples
    --------
    >>> rotate_choice("The answer is (D).")
    'The answer is (A).'
    """
    pattern = re.compile(rf"(?<![A-Za-z'])[{letters}](?![A-Za-z'])")
    following = dict(zip(letters, letters[1:] + letters[:1]))
    return pattern.sub(lambda m: following[m[0]], text)


def corrupt_lines(
    lines: list[str], chosen: list[int], kind: Kind, draws: Callable[[int], random.Random]
) -> tuple[list[str], list[Edit]]:
    """A program with the chosen lines made wrong.

    A semantic edit keeps the program parsing, a syntactic one does not: where leaving something out
    of a line would not do that (in documentation), a bracket or quotes are put there. A line with
    nothing to mutate (``else:``, an import) gets a misleading remark, so that every chosen line
    does change.

    Parameters
    ----------
    lines : list of str
    chosen : list of int
        Indices of lines, from 0.
    kind : {"semantic", "syntactic", "placebo"}
    draws : callable
        The generator of a line.

    Raises
    ------
    InputError
        The kind is unknown.

    Examples
    --------
    >>> import random
    >>> corrupt_lines(["x = 1"], [0], "semantic", lambda i: random.Random(i))[1][0].operator
    'integer'
    """
    _check_kind(kind)
    now, edits = list(lines), []
    whole = "\n".join(lines)
    fine = kind != "placebo" and parses(whole)
    # edits stay on their line, so those of the text as it was serve for all
    options = _mutations(whole) if kind == "semantic" and fine else None
    for i in chosen:
        if kind == "syntactic":
            after, operator = _break_line((lines, now) if fine else (), now[i], i, draws(i))
        else:
            after, operator = _corrupt_line(now, i, kind, draws(i), options)
        if after != now[i]:
            edits.append(Edit(i, now[i], after, operator))
            now[i] = after
    return now, edits


def _break_line(
    programs: Sequence[list[str]], line: str, i: int, rng: random.Random
) -> tuple[str, str]:
    """The line so that none of the programs parses with it: the one as it was, the one so far."""
    broken = _broken(line)
    rng.shuffle(broken)
    code = line.rstrip()
    forced = [(f"( {code}", "bracket"), (f'{code} """', "quotes"), (f"{code} '''", "quotes")]
    for after, operator in (*broken, *forced):
        if not any(parses("\n".join([*p[:i], after, *p[i + 1 :]])) for p in programs):
            return after, operator
    return broken[0]


def _corrupt_line(
    lines: list[str],
    i: int,
    kind: Kind,
    rng: random.Random,
    options: tuple[Mutation, ...] | None,
) -> tuple[str, str]:
    if kind == "placebo":
        return f"{lines[i]}  # checked", "placebo"
    if options is None:  # no program, or none that parses
        return corrupt_sentence(lines[i], "semantic", rng)
    here = [m for m in options if m.line == i]
    rng.shuffle(here)
    for mutation in here:
        changed = mutation.apply(lines)
        if changed[i] != lines[i] and parses("\n".join(changed)):
            return changed[i], mutation.operator
    for after, operator in (
        (f"{lines[i]}  # holds for empty input only", "remark"),
        corrupt_sentence(lines[i], "semantic", rng),
    ):
        if parses("\n".join([*lines[:i], after, *lines[i + 1 :]])):
            return after, operator
    return lines[i], ""


def _check_kind(kind: str) -> None:
    if kind not in ("semantic", "syntactic", "placebo"):
        raise InputError(f"kind of error {kind!r} is none of semantic, syntactic, placebo")
