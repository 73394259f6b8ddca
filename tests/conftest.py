"""Fixtures shared by all tests: a store of one's own, the command line, the toy method."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

from practicum.catalog import FIELDS

# array shapes in signatures are checked at every call
install_import_hook([f"practicum.{field}" for field in FIELDS], "beartype.beartype")

TOY = Path(__file__).parent / "toy"
sys.path.insert(0, str(TOY))  # a third-party method, found through its entry point


SLOWEST = "test_methods.py"  # the contract: every method's studies, in one file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Under ``--dist loadgroup`` a file stays on one worker, but the contract goes by method."""
    for item in items:
        group = item.path.name
        if group == SLOWEST and hasattr(item, "callspec"):
            group += str(item.callspec.params.get("method", ""))
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    """No test touches the user's results, nor reads replies of an earlier run."""
    monkeypatch.setenv("PRACTICUM_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("PRACTICUM_CHAT_CACHE", str(tmp_path / "chat.sqlite"))


@pytest.fixture
def environment(tmp_path):
    """Environment of a subprocess that sees the toy method and this test's store."""
    return {
        **os.environ,
        "PYTHONPATH": str(TOY),
        "PRACTICUM_STORE": str(tmp_path / "store.sqlite"),
        "COLUMNS": "200",
    }


@pytest.fixture
def practicum(environment, tmp_path):
    """Run the command line as a user does: ``practicum("list", "--json")``."""

    def run(*args, code=0, env=None, cwd=tmp_path, timeout=300):
        done = subprocess.run(
            [sys.executable, "-m", "practicum", *map(str, args)],
            capture_output=True,
            text=True,
            env={**environment, **(env or {})},
            cwd=cwd,
            timeout=timeout,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run
