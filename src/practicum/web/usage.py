"""How a method is used, read from its docstrings without importing it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from practicum.catalog import Method


@dataclass(frozen=True)
class Usage:
    """A page to read first, an example in Python, and lines for a shell."""

    page: str
    python: str
    shell: list[str]


def of(method: Method) -> Usage:
    """The usage of a method."""
    page = _docstrings(method.folder / "__init__.py")[:1]
    lines = [line for text in _docstrings(method.folder / "command.py") for line in _lines(text)]
    return Usage(
        "".join(page).strip(),
        _first_example("".join(page)),
        [
            *lines,
            f"practicum compare {method.slug} --data FILE",
            f"practicum verify {method.slug}",
        ],
    )


def _docstrings(path: Path) -> list[str]:
    """The module's own docstring (empty where it has none), then those of its functions."""
    if not path.is_file():
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [ast.get_docstring(tree) or ""]
    return found + [text for node in functions if (text := ast.get_docstring(node))]


def _lines(text: str) -> list[str]:
    """The commands of ``Example: practicum use ...``."""
    return re.findall(r"Examples?:\s+(practicum [^\n]+)", text)


def _first_example(page: str) -> str:
    """The first run of ``>>>`` lines as a program, without what they print."""
    block: list[str] = []
    for line in page.splitlines():
        if line.startswith((">>> ", "... ")):
            block.append(line[4:])
        elif block and not line.strip():
            break
    return "\n".join(block)
