"""What makes stored results stale, and what does not: edits to a small package on disk."""

import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from practicum import catalog
from practicum.study.fingerprint import code_fingerprint

FILES = {
    "__init__.py": "",
    "data/__init__.py": "",
    "data/table.py": "from pkg.data.columns import pick\ndef read(path): return pick(path)\n",
    "data/columns.py": "def pick(path): return 1\n",
    "data/mesh.py": "def read(path): return 2\n",
    "study/__init__.py": "class Study: pass\n",
    "stats/__init__.py": "",
    "stats/other/__init__.py": "",
    "stats/other/study.py": "x = 1\n",
    "stats/m/__init__.py": '"""The method."""\n',
    "stats/m/distance.py": "def far(a, b):\n    return abs(a - b)\n",
    "stats/m/study.py": """
        from pkg.data.table import read
        from pkg.study import Study
        from .distance import far

        class Mine(Study):
            \"\"\"A study.\"\"\"

            def run(self, trial):
                \"\"\"Run it.\"\"\"
                return {"far": far(1, 2)}
        """,
    "stats/m/command.py": "app = 1\n",
}


class Package:
    def __init__(self, root):
        self.root = root
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def replace(self, name, old, new):
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    def fingerprint(self):
        return code_fingerprint(self.root / "stats" / "m")


@pytest.fixture
def package(tmp_path):
    return Package(tmp_path / "pkg")


def test_sixteen_hex_digits_that_stay(package):
    first = package.fingerprint()
    assert len(first) == 16
    assert int(first, 16) >= 0
    assert package.fingerprint() == first


def test_the_place_does_not_matter(tmp_path):
    here, there = Package(tmp_path / "a" / "pkg"), Package(tmp_path / "b" / "pkg")
    assert here.fingerprint() == there.fingerprint()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stats/m/study.py", "far(1, 2)", "far(1, 3)"),
        ("stats/m/distance.py", "abs(a - b)", "abs(a - b) ** 2"),
        ("data/table.py", "return pick(path)", "return pick(path) + 1"),
        ("data/columns.py", "return 1", "return 2"),
    ],
    ids=["the study", "a sibling module", "an imported reader", "what the reader imports"],
)
def test_code_that_a_result_depends_on_counts(package, name, old, new):
    before = package.fingerprint()
    package.replace(name, old, new)
    assert package.fingerprint() != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stats/m/study.py", "return {", "# where it is\n        return {"),
        ("stats/m/study.py", '"""A study."""', '"""A far better study."""'),
        ("stats/m/study.py", '"""Run it."""', '"""Run."""'),
        ("stats/m/study.py", 'return {"far": far(1, 2)}', "return {\n'far': far(1,\n2)}"),
        ("stats/m/__init__.py", '"""The method."""', '"""The method, explained."""'),
        ("data/columns.py", "def pick", "\n\n# picks\ndef pick"),
    ],
    ids=["comment", "class docstring", "docstring", "layout", "module docstring", "in a reader"],
)
def test_words_and_layout_do_not_count(package, name, old, new):
    before = package.fingerprint()
    package.replace(name, old, new)
    assert package.fingerprint() == before


@pytest.mark.parametrize(
    "name", ["stats/m/command.py", "study/__init__.py", "data/mesh.py", "stats/other/study.py"]
)
def test_code_that_cannot_change_a_number_does_not_count(package, name):
    before = package.fingerprint()
    package.write(name, "x = 'something else'\n")
    assert package.fingerprint() == before


@pytest.mark.parametrize(
    "statement",
    [
        "import pkg.data.mesh",
        "import pkg.data.mesh as shapes",
        "from pkg.data import mesh",
        "from pkg.data.mesh import read as read_mesh",
        "from ...data import mesh",
        "from ...data.mesh import read as read_mesh",
        "def late():\n    from pkg.data import mesh",
        "if True:\n    import pkg.data.mesh",
    ],
)
def test_every_way_to_import_a_module_is_followed(package, statement):
    package.write("stats/m/distance.py", statement + "\ndef far(a, b): return 0\n")
    before = package.fingerprint()
    package.replace("data/mesh.py", "return 2", "return 3")
    assert package.fingerprint() != before


def test_a_name_that_a_package_exports_lazily_is_followed(package):
    """``from practicum.data import read_mesh`` through ``lazy_loader``, as the design asks for."""
    package.write(
        "data/__init__.py",
        "import lazy_loader\n__getattr__, __dir__, __all__ = lazy_loader.attach(\n"
        "    __name__, submod_attrs={'mesh': ['read_mesh']})\n",
    )
    package.write("data/mesh.py", "def read_mesh(path): return 2\n")
    package.write(
        "stats/m/distance.py", "from pkg.data import read_mesh\ndef far(a, b): return 0\n"
    )
    before = package.fingerprint()
    package.replace("data/mesh.py", "return 2", "return 3")
    assert package.fingerprint() != before


def test_a_package_imported_on_the_way_counts(package):
    """``pkg.data.table`` cannot be imported without running ``pkg/data/__init__.py``."""
    before = package.fingerprint()
    package.write("data/__init__.py", "import os\nos.environ['OMP_NUM_THREADS'] = '3'\n")
    assert package.fingerprint() != before


def test_a_new_module_of_the_method_counts(package):
    before = package.fingerprint()
    package.write("stats/m/extra.py", "x = 1\n")
    assert package.fingerprint() != before


def test_modules_that_import_each_other_are_no_problem(package):
    package.write("data/columns.py", "import pkg.data.table\ndef pick(path): return 1\n")
    assert len(package.fingerprint()) == 16


def test_a_module_alone_on_disk_has_a_fingerprint(tmp_path):
    (tmp_path / "study.py").write_text("import json\nx = 1\n")
    assert len(code_fingerprint(tmp_path)) == 16


def test_threads_may_ask_at_the_same_time(package):
    """Python 3.11's ast.parse is not safe in threads; the local page has several."""
    package.write("stats/m/extra.py", "x = [" + "(1, [2, {3: -4}]), " * 3000 + "]\n")
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: package.fingerprint(), range(12)))) == 1


@pytest.mark.parametrize("slug", list(catalog.methods()))
def test_every_method_here_has_one(slug):
    assert len(code_fingerprint(catalog.get(slug).folder)) == 16
