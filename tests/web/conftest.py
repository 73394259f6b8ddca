"""A page of one's own: in this process for what HTTP shows, as a real server for a browser."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from practicum.web.app import create_app
from practicum.web.settings import Settings

TOY = Path(__file__).parents[1] / "toy"
TOKEN = "a-token-of-the-tests"
HOME = "http://127.0.0.1:8765"


def wait(what, seconds=120):
    """The first true value of ``what()``."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return value


@pytest.fixture
def root(tmp_path):
    """The one folder whose files may be named, with a table in it."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "mine.csv").write_text("x,y,name\n1,2,a\n3,4,b\n")
    return folder


@pytest.fixture
def settings(tmp_path, root):
    return Settings(
        token=TOKEN,
        host="127.0.0.1",
        port=8765,
        roots=(root,),
        store=str(tmp_path / "store.sqlite"),
        state=tmp_path / "state",
        max_upload=200_000,
        max_unpacked=1_000_000,
    )


@pytest.fixture
def app(settings, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TOY))  # for the processes that are started
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return create_app(settings)


@pytest.fixture
def site(app):
    return app.app.state.site


@pytest.fixture
def stranger(app):
    """A client without a cookie."""
    return TestClient(app, base_url=HOME, follow_redirects=False, raise_server_exceptions=False)


@pytest.fixture
def owner(app):
    """A client that has opened the printed address, and sends what a browser would."""
    client = TestClient(app, base_url=HOME, headers={"Origin": HOME})
    client.get(f"/?token={TOKEN}")
    return client


@pytest.fixture
def verified(site):
    """A finished verification of the toy method, made without the page."""
    return ran(site)


def ran(site, seeds=None, **comparison):
    """Run the toy study in this process: processes of their own take seconds to start."""
    from practicum import catalog
    from practicum.study.runner import run_study
    from practicum.study.spec import Scale

    study = comparison.pop("study", None) or catalog.get("coin").load_study()()
    run = run_study(study, Scale("smoke", seeds), site.ledger.store, **comparison)
    return site.ledger.run(run.id)


# --- a real server and a browser -----------------------------------------------------------------


@dataclass
class Server:
    """``python -m practicum.web`` in a process of its own."""

    folder: Path
    coin_seconds: str = "0"
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    port: int = 0
    process: subprocess.Popen | None = None

    def start(self):
        (self.folder / "root").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "practicum.web", "--no-browser", "--port", str(self.port)]
        command += ["--root", "root", "--store", "store.sqlite", "--state", "state"]
        env = {
            **os.environ,
            "PYTHONPATH": str(TOY),
            "OMP_NUM_THREADS": "1",
            "LOKY_MAX_CPU_COUNT": "1",  # more workers would load NumPy once more each
            "COIN_SECONDS": self.coin_seconds,
            "PRACTICUM_TOKEN": self.token,
        }
        self.process = subprocess.Popen(
            [*command, "--max-upload-mb", "2"],
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("a"),
            text=True,
        )
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)/", line)[1])
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """Ctrl-C; what it said."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        assert (self.folder / "stderr").read_text() == ""
        return said

    @property
    def home(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self):
        return f"{self.home}/?token={self.token}"


@pytest.fixture(scope="module")
def chromium():
    """A browser; the tests that need one are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("no Chromium on this machine")
    switches = (
        "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
        "--disable-sync --no-first-run"
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=switches.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shots():
    """Where screenshots are kept, to be looked at."""
    folder = Path(os.environ.get("PRACTICUM_SHOTS", Path(__file__).parents[2] / "out" / "web"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
