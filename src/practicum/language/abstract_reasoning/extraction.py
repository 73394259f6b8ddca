r"""From a reply to an answer, and from an answer to right or wrong.

What people fight with when they measure language models is this step. So there are three readings:
``strict`` wants the phrase it asked for ("The answer is ..."), ``lenient`` also takes the other
ways in which models end ("Answer: 12", ``\boxed{12}``, "= 12", a bare line), ``official`` is the
published expression. What none of them can read is *unparsed*: scored wrong, and counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from practicum.errors import InputError
from practicum.language.abstract_reasoning.items import Item

Reading = Literal["strict", "lenient", "official"]
READINGS = ("strict", "lenient", "official")
_ANSWER = re.compile(r"the answer is:?[ \t]*(.*?)(?:\.(?=\s|$)|\n|$)", re.IGNORECASE)
_OFFICIAL = re.compile(r"The answer is (.*?)(?:\.\s|\.\n|$)")
_OTHERS = (
    re.compile(r"\\boxed\{(.*?)\}(?=\s|$|\.|\$)"),
    re.compile(r"(?:^|\n)\W*(?:final )?answer\W*:[ \t]*(.+?)\.?[ \t]*(?=\n|$)", re.IGNORECASE),
    re.compile(r"answer (?:is|would be):?\s*(.+?)(?:\.(?=\s|$)|\n|$)", re.IGNORECASE),
    re.compile(r"=[ \t]*([^=\n]+?)\.?[ \t]*$"),
)
_WRAPS = ("**", "`", '"', "'", "$", "<answer>", "</answer>", "\\(", "\\)")
_LATEX = re.compile(r"\\(?:boxed|text|mathrm|mathbf)\{(.*)\}")


def extract(reply: str, reading: str = "strict") -> str | None:
    """The answer that a reply gives, or None where it cannot be read.

    Parameters
    ----------
    reply : str
    reading : {"strict", "lenient", "official"}
        ``strict`` and ``lenient`` take the *last* answer (reasoning models recite the examples
        first; what comes before ``</think>`` is not read) and keep its sign; ``official`` takes the
        first and drops all punctuation but ``. , { } [ ] -``.

    Raises
    ------
    InputError
        If the reading is not known.

    Examples
    --------
    >>> extract("The answer is -12."), extract("The answer is [1, 2].")
    ('-12', '[1, 2]')
    >>> extract("The answer is 4. No: The answer is 5."), extract("It is 5.")
    ('5', None)
    >>> extract("Answer: **5**", "lenient")
    '5'
    """
    if reading not in READINGS:
        raise InputError(f"reading {reading!r} is not known", "use " + ", ".join(READINGS))
    if reading == "official":
        found = _OFFICIAL.search(reply)
        kept = re.sub(r"[^\w\s\.,\{\}\[\]-]", "", found[1]).rstrip(".") if found else ""
        return kept or None
    reply = reply.rpartition("</think>")[2]
    answers = [_clean(text) for text in _ANSWER.findall(reply)]
    answers = [text for text in answers if text]
    if answers or reading == "strict":
        return answers[-1] if answers else None
    for pattern in _OTHERS:
        if found := pattern.findall(reply.strip()):
            return _clean(found[-1]) or None
    lines = [line for line in reply.strip().splitlines() if line.strip()]
    return (_clean(lines[0]) or None) if len(lines) == 1 and len(lines[0]) < 200 else None


def _clean(text: str) -> str:
    text = text.strip()
    for _ in range(3):  # **`12`**.
        for wrap in _WRAPS:
            text = text.removeprefix(wrap).removesuffix(wrap).strip()
        if inside := _LATEX.fullmatch(text):
            text = inside[1]
        text = text.removesuffix(".") if text.count(".") == 1 else text
    return text


def normalised(text: str) -> str:
    """Spaces as one, none inside brackets, one after a comma.

    Parameters
    ----------
    text : str

    Raises
    ------
    TypeError
        If it is no string.

    Examples
    --------
    >>> normalised("[ 1,2 ,  3]")
    '[1, 2, 3]'
    """
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"([\[{(]) | ([\]})])", r"\1\2", text)
    return re.sub(r" ?, ?", ", ", text)


def last_number(text: str) -> float | None:
    """The last number of a text, with its sign; commas between digits are no part of it.

    Parameters
    ----------
    text : str

    Raises
    ------
    TypeError
        If it is no string.

    Examples
    --------
    >>> last_number("it is -1,234.5"), last_number("none")
    (-1234.5, None)
    """
    plain = re.sub(r"(\d),(?=\d{3}\b)", r"\1", text)
    found = re.findall(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", plain)
    return float(found[-1]) if found else None


def _unmapped(text: str, symbols: Mapping[str, str]) -> str | None:
    """The text in the symbols before a one-to-one map; None where the map merges two."""
    back: dict[str, str] = {}
    for before, after in symbols.items():
        if back.setdefault(after, before) != before:
            return None
    missing = set(symbols) - set(symbols.values())  # replaced, so they mean nothing any more
    return text.translate(str.maketrans({**dict.fromkeys(missing, "\ufffd"), **back}))


def is_correct(answer: str | None, item: Item, reading: str = "strict") -> bool:
    """Whether an extracted answer is right.

    Sets are compared as sets; numbers to 0.01, relative where the true value is below one (the
    published 0.01 accepts 0 for most quotients); everything else as text, spaces normalised. An
    answer in replaced symbols is translated back first. ``official``: numbers to 0.01 without
    their sign, everything else exactly, and a true value of 0 is never right.

    Parameters
    ----------
    answer : str or None
        None is never right.
    item : Item
    reading : {"strict", "lenient", "official"}

    Raises
    ------
    InputError
        If the reading is not known.

    Examples
    --------
    >>> item = Item((), "{1, 2} union {3} =", "{1, 2, 3}", "union", meta={"answer": "set"})
    >>> is_correct("{3, 2,1}", item), is_correct("{1, 2}", item), is_correct(None, item)
    (True, False, False)
    """
    if reading not in READINGS:
        raise InputError(f"reading {reading!r} is not known", "use " + ", ".join(READINGS))
    if answer is None:
        return False
    if reading == "official":
        return _official(answer, item)
    gold, kind = item.answer, item.meta.get("answer", "text")
    if normalised(answer) == normalised(gold):
        return True
    if (symbols := item.meta.get("map")) and kind != "text":
        translated = _unmapped(answer, symbols), _unmapped(gold, symbols)
        if None in translated:
            return False
        answer, gold = translated  # type: ignore[assignment]
    if kind == "set":
        return _elements(answer) is not None and _elements(answer) == _elements(gold)
    if kind == "number":
        said, true = last_number(answer), last_number(gold)
        scale = min(1.0, abs(true)) if true else 1.0
        return said is not None and true is not None and abs(said - true) < 0.01 * scale
    return False


def _elements(text: str) -> frozenset[str] | None:
    text = normalised(text)
    if not (text.startswith("{") and text.endswith("}")):
        return None
    return frozenset(part.strip() for part in text[1:-1].split(",") if part.strip())


def _official(answer: str, item: Item) -> bool:
    numeric = item.task.startswith(("bc/", "sma/"))
    if not numeric:
        return answer == item.answer
    said, true = (last_number(text.replace("-", "")) for text in (answer, item.answer))
    return bool(true) and said is not None and math.fabs(said - true) < 0.01
