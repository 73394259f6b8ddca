"""A hash of the code a method's results depend on.

It covers the modules of the method's folder and, transitively, every other module of the same
package that they import (a reader, a shared model) - but not the engine and not ``command.py``.
Comments, docstrings and layout do not count: editing them keeps stored results valid.
"""

from __future__ import annotations

import ast
import hashlib
import threading
from functools import lru_cache
from pathlib import Path

PARSING = threading.Lock()  # ast.parse is not safe in threads on Python 3.11
ENGINE = {"study", "web", "cli", "catalog", "errors"}  # cannot change a trial's numbers


def code_fingerprint(folder: Path) -> str:
    """Sixteen hex digits for the method in ``folder``."""
    root = folder
    while (root.parent / "__init__.py").exists():  # the top package, e.g. .../practicum
        root = root.parent
    own = [p for p in sorted(folder.rglob("*.py")) if p.name != "command.py"]
    seen: dict[Path, str] = {}
    queue = list(own)
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen[path], names = _parsed(path.read_text(encoding="utf-8"), path, root)
        for name in names:
            queue += [p for p in _files(root, name.split(".")[1:]) if p not in seen]
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(f"{path.relative_to(root)}\n{seen[path]}\n".encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1024)  # parsing is most of what a run costs before its first trial
def _parsed(text: str, path: Path, root: Path) -> tuple[str, frozenset[str]]:
    """A hash of what counts of a module, and what it imports of the same top package, anywhere."""
    with PARSING:
        tree = ast.parse(text)
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    folder = path.parents[node.level - 1]
                    package = ".".join((root.name, *folder.relative_to(root).parts))
                    base = f"{package}.{base}".rstrip(".")
                names |= {base, *(f"{base}.{a.name}" for a in node.names)}
        counts = ast.dump(_strip_docstrings(tree)).encode()
    relevant = frozenset(name for name in names if _matters(name.split("."), root))
    return hashlib.sha256(counts).hexdigest(), relevant


def _matters(parts: list[str], root: Path) -> bool:
    return parts[0] == root.name and not (len(parts) > 1 and parts[1] in ENGINE)


def _files(root: Path, parts: list[str]) -> list[Path]:
    """The module itself and the packages on the way to it.

    A name that is no module may come from anywhere in its package (``lazy_loader``): then all of
    the package counts.
    """
    folders = [root.joinpath(*parts[:i]) for i in range(1, len(parts) + 1)]
    files = [f / "__init__.py" for f in folders if (f / "__init__.py").is_file()]
    if not folders:
        return files
    module, package = folders[-1].with_suffix(".py"), folders[-1].parent
    if module.is_file():
        return [*files, module]
    if not folders[-1].is_dir() and package != root and package.is_dir():
        return [*files, *sorted(package.glob("*.py"))]
    return files


def _strip_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            first = body[0] if body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = body[1:] or [ast.Pass()]
    return tree
