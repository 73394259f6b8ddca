"""What a person chose in a form, checked; and the form that asks for a comparison's options."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from practicum.errors import InputError
from practicum.study.compare import Option
from practicum.study.runner import EngineName
from practicum.study.spec import ScaleName
from practicum.web.jobs import Order

SCALES = {
    "smoke": "smoke: seconds; shows that it runs, decides little",
    "cpu": "cpu: minutes; what the verdicts in the documentation rest on",
    "paper": "paper: the paper's own setting; needs a GPU or hours",
}
ENGINES = {
    "local": "processes of this machine",
    "ray": "a Ray cluster",
    "dask": "a Dask cluster",
}
Widget = Literal["choice", "column", "columns", "number", "text"]


@dataclass(frozen=True)
class Question:
    """One option of a comparison as a form asks for it."""

    name: str
    about: str
    default: str  # "" where the method decides
    widget: Widget
    choices: tuple[str, ...] = ()
    whole: bool = False  # numbers: integers only
    value: str = ""  # what was chosen before

    @property
    def label(self) -> str:
        """The option's name as words."""
        return self.name.replace("_", " ")

    @property
    def values(self) -> list[str]:
        """What was chosen before, as a list."""
        return [part for part in self.value.split(",") if part]


def questions(
    options: Mapping[str, Option], columns: Sequence[str], given: Mapping[str, str]
) -> list[Question]:
    """A form for these options; columns of the file are offered where an option means columns."""
    return [
        _question(option, tuple(columns), given.get(name, "")) for name, option in options.items()
    ]


def _question(option: Option, columns: tuple[str, ...], value: str) -> Question:
    kinds = [k for k in _alternatives(option.annotation) if k is not type(None)]
    first = kinds[0] if kinds else str
    several = typing.get_origin(first) in (list, tuple)
    widget: Widget = "text"
    choices: tuple[str, ...] = ()
    if typing.get_origin(first) is Literal:
        widget, choices = "choice", tuple(map(str, get_args(first)))
    elif first is bool:
        widget, choices = "choice", ("true", "false")
    elif first in (int, float):
        widget = "number"
    elif columns and "column" in option.about:  # the signature does not tell columns from words
        widget, choices = "columns" if several else "column", columns
    default = _text(option.default)
    return Question(option.name, option.about, default, widget, choices, first is int, value)


def _alternatives(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return list(get_args(annotation))
    return [annotation]


def _text(default: Any) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list | tuple):
        return ",".join(map(str, default))
    return str(default)


# --- what was sent -------------------------------------------------------------------------------


Fields = Mapping[str, Sequence[str]]


def order_from(slug: str, kind: str, fields: Fields) -> Order:
    """The order of a sent form.

    Raises
    ------
    InputError
        Naming the field and what it takes.
    """
    return Order(
        slug,
        kind,
        scale=_one_of(fields, "scale", get_args(ScaleName)),
        jobs=_count(fields, "jobs", 1) or 1,
        seeds=_count(fields, "seeds", None),
        engine=_one_of(fields, "engine", get_args(EngineName)),
        address=one(fields, "address") or None,
    )


def chosen_options(fields: Fields, known: Mapping[str, Option]) -> dict[str, str]:
    """The options that differ from leaving them alone, as ``-o NAME=VALUE`` takes them."""
    chosen = {}
    for name in known:
        values = [value for value in fields.get(f"option.{name}", []) if value != ""]
        if len(values) > 1 and any("," in value for value in values):
            raise InputError(
                f"{name}: a column whose name holds a comma cannot be chosen with others",
                "rename it in the file",
            )
        if values and ",".join(values) != _text(known[name].default):
            chosen[name] = ",".join(values)
    return chosen


def one(fields: Fields, name: str) -> str:
    """The first value of a field without white space around it, or nothing."""
    return (list(fields.get(name, [])) or [""])[0].strip()


def _one_of(fields: Fields, name: str, known: Sequence[str]) -> str:
    value = one(fields, name) or known[0]
    if value not in known:
        raise InputError(f"{name}: {value!r} is none of {', '.join(known)}")
    return value


def _count(fields: Fields, name: str, default: int | None) -> int | None:
    text = one(fields, name)
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise InputError(f"{name}: {text!r} is not a whole number from 1 up")
    return int(text)
