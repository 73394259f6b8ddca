"""Finds the methods: built-in folders, and packages of the entry point group ``practicum.methods``.

A method's identity is data (``card.toml``), so listing and showing imports nothing heavy.
"""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from practicum.data.kinds import Kind
from practicum.errors import CardError, MissingExtra, UnknownMethod

if TYPE_CHECKING:
    from practicum.study.spec import Study

GROUP = "practicum.methods"
FIELDS = {
    "stats": "Statistics",
    "health": "Health",
    "federated": "Federated learning",
    "graphs": "Graphs",
    "optimize": "Online optimisation",
    "games": "Games",
    "rl": "Reinforcement learning and control",
    "generative": "Generative models",
    "language": "Language models",
    "agents": "Agents",
    "vision": "Vision",
}

Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Paper(_Strict):
    """Where the method comes from."""

    title: Text
    authors: list[Text]
    venue: Text = "ICML 2025"
    arxiv: str | None = None
    code: str | None = None
    code_note: str | None = None  # licence, state


class Claim(_Strict):
    """What the paper says: the statement, the setting, and the numbers it reports."""

    id: Annotated[str, Field(pattern=r"^[A-Z]\d+[a-z]?$")]
    statement: Text
    reported: Text
    reported_value: float | None = None
    setting: str | None = None
    slow: bool = False


class Card(_Strict):
    """The contents of ``card.toml``."""

    slug: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: Text
    field: Text
    summary: Text
    use_when: list[Text]
    not_when: list[Text] = []
    accepts: list[Kind]
    extras: list[Text] = []
    paper: Paper
    claims: Annotated[list[Claim], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> Card:
        if self.field not in FIELDS:
            raise ValueError(f"field {self.field!r} is none of {', '.join(FIELDS)}")
        ids = [c.id for c in self.claims]
        if len(set(ids)) < len(ids):
            raise ValueError("two claims have the same id")
        return self


def read_card(path: Path) -> Card:
    """Read and validate a card.

    Raises
    ------
    CardError
        Naming the file, the field and what is wrong with it.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Card.model_validate(data)
    except OSError as error:
        raise CardError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CardError(f"{path}: not valid TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "card"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise CardError(f"{path}: field {where}: {first['msg']}{more}") from error


@dataclass(frozen=True)
class Method:
    """A card and where its code is; loading the code is a separate step."""

    card: Card
    folder: Path
    module: str

    @property
    def slug(self) -> str:
        """The card's slug."""
        return self.card.slug

    @property
    def benchmark(self) -> str:
        """What the method's benchmark printed when it was run last; empty where it never was."""
        path = self.folder / "benchmark.txt"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def load_study(self) -> type[Study]:
        """The ``Study`` subclass of the method's ``study.py``."""
        from practicum.study.spec import Study

        module = self._load("study")
        own = [
            value
            for value in vars(module).values()
            if inspect.isclass(value)
            and issubclass(value, Study)
            and value.__module__ == module.__name__
            and not inspect.isabstract(value)
        ]
        if len(own) != 1:
            raise CardError(f"{self.folder}/study.py: one Study class expected, {len(own)} found")
        return own[0]

    def load_command(self) -> Any:
        """The Typer app of the method's ``command.py``."""
        module = self._load("command")
        if not hasattr(module, "app"):
            raise CardError(f"{self.folder}/command.py: no Typer app called 'app'")
        return module.app

    def _load(self, part: str) -> Any:
        module = f"{self.module}.{part}"
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name == module:
                raise CardError(f"{self.folder}/{part}.py: there is no such file") from error
            package = (error.name or "").partition(".")[0]
            own = {"practicum", self.module.partition(".")[0]}
            if not self.card.extras or package in own:
                raise
            extras = ",".join(self.card.extras)
            raise MissingExtra(
                f"{self.slug} needs the package {error.name!r}, which is not installed",
                f"install it with: pip install 'practicum[{extras}]'",
            ) from error


def methods() -> dict[str, Method]:
    """Every method by slug, in the order of fields and then of titles."""
    found: dict[str, Method] = {}
    for method in [*_built_in(), *_third_party()]:
        if method.slug in found:
            raise CardError(
                f"{method.folder}: the slug {method.slug!r} is taken by {found[method.slug].folder}"
            )
        found[method.slug] = method
    order = list(FIELDS)
    ranked = sorted(found.values(), key=lambda m: (order.index(m.card.field), m.card.title))
    return {m.slug: m for m in ranked}


def get(slug: str) -> Method:
    """The method with this slug.

    Raises
    ------
    UnknownMethod
        With the closest names there are.
    """
    known = methods()
    if slug in known:
        return known[slug]
    import difflib

    close = difflib.get_close_matches(slug, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "see: practicum list"
    raise UnknownMethod(f"there is no method {slug!r}", hint)


def reading(kinds: Sequence[str]) -> list[Method]:
    """The methods that read one of these kinds of data, the likeliest kind first."""
    ranks = {kind: rank for rank, kind in enumerate(kinds)}
    found = []
    for method in methods().values():
        mine = [ranks[kind] for kind in method.card.accepts if kind in ranks]
        if mine:
            found.append((min(mine), method))
    return [method for _, method in sorted(found, key=lambda pair: pair[0])]


@cache
def _built_in() -> tuple[Method, ...]:
    root = Path(__file__).parent
    return tuple(
        Method(read_card(path), path.parent, f"practicum.{path.parts[-3]}.{path.parts[-2]}")
        for path in sorted(root.glob("*/*/card.toml"))
    )


def _third_party() -> Iterator[Method]:
    for point in entry_points(group=GROUP):
        try:
            spec = find_spec(point.value)
        except Exception as error:  # the packages around it are imported, and may raise anything
            raise CardError(f"entry point {point.name!r} of {GROUP}: {error}") from error
        if spec is None or not spec.submodule_search_locations:
            raise CardError(f"entry point {point.name!r} of {GROUP}: no package {point.value!r}")
        folder = Path(next(iter(spec.submodule_search_locations)))
        yield Method(read_card(folder / "card.toml"), folder, point.value)
