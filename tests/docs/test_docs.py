"""The documentation: pages build without a warning or a dead link, and every code block runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"results.md", "benchmarks.md", "contributing.md"}
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
PAGES = [p for p in [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")] if p.name not in GENERATED]


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, code) of every block that is meant to run."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


ENDPOINT = "http://127.0.0.1:8000/v1"


@pytest.fixture(scope="module")
def endpoint():
    """Where the pages say that the reader's own model is served."""
    pytest.importorskip("xllamacpp")
    from practicum.models.chat import ChatServer

    with ChatServer(n_ctx=4096) as server:
        yield server.base_url


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_every_block_of_a_page_runs(page, tmp_path, practicum, request):
    if page.stem == "start":  # it speaks of a file that the reader has
        from sklearn.datasets import load_wine

        load_wine(as_frame=True).data.iloc[:, :6].to_csv(tmp_path / "wines.csv", index=False)
    for language, code in blocks(page):
        if language == "python":
            run_python(code, tmp_path)
            continue
        for line in code.splitlines():
            assert line.startswith("$ practicum "), f"{page.name}: {line!r} is no command"
            if ENDPOINT in line:
                line = line.replace(ENDPOINT, request.getfixturevalue("endpoint"))
            practicum(*shlex.split(line)[2:], cwd=tmp_path)


def run_python(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=300
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=str)
def test_links_lead_somewhere(page):
    generated = {DOCS / name for name in GENERATED} | {DOCS / "methods" / "index.md"}
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        assert path.exists() or path in generated, f"{page.name} links to {target}"


@pytest.mark.slow
def test_pages_build_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-E", "-b", "html", DOCS, tmp_path / "html"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
