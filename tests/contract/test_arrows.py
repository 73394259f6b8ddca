"""Arrows point one way: METHOD -> models, data, sandbox, study -> errors."""

import ast
from pathlib import Path

import pytest

import practicum
from practicum import catalog

ROOT = Path(practicum.__file__).parent
SHARED = ("models", "data", "sandbox", "study")
ALLOWED = {
    **{layer: {layer, "errors"} for layer in SHARED},
    "errors": set(),
    "catalog": {"errors", "data", "study"},
    "doctor": {"catalog", "errors", "models", "sandbox", "study"},
    "cli": {"catalog", "cli", "errors", "data", "study", "doctor", "web"},
    "web": {"catalog", "errors", "data", "study", "web"},
}


def imports(path: Path) -> set[str]:
    """Practicum modules this file imports at run time (not those for type checkers alone)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{a.name}" for a in node.names}
    return {n.removeprefix("practicum.") for n in names if n.startswith("practicum.")}


def files_of(layer: str) -> list[Path]:
    single = ROOT / f"{layer}.py"
    return [single] if single.exists() else sorted((ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_what_lies_below_it(layer):
    for path in files_of(layer):
        tops = {name.split(".")[0] for name in imports(path)} - {"__version__"}
        assert tops <= ALLOWED[layer], f"{path.relative_to(ROOT)} imports {tops - ALLOWED[layer]}"


@pytest.mark.parametrize("slug", [m.slug for m in catalog._built_in()])
def test_a_method_imports_no_other_method(slug):
    method = catalog.get(slug)
    own = method.module.removeprefix("practicum.")
    shared = f"{own.rpartition('.')[0]}._"  # what the methods of one field share: federated._flower
    for path in method.folder.rglob("*.py"):
        for name in imports(path):
            below = name.split(".")[0] in {*SHARED, "errors"}
            allowed = name.startswith((own, shared)) or below
            assert allowed, f"{path.relative_to(ROOT)} imports practicum.{name}"


def test_the_check_sees_a_wrong_import(tmp_path):
    wrong = tmp_path / "m.py"
    wrong.write_text("def f():\n    from practicum.web import page\n")
    assert imports(wrong) == {"web.page"}
