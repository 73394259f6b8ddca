"""The address, the token, the process: ``practicum serve``."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn

from practicum.errors import InputError, PracticumError
from practicum.study.store import default_url
from practicum.web.app import Site, create_app
from practicum.web.gate import Gate
from practicum.web.jobs import alive
from practicum.web.settings import MEGABYTE, Settings, default_state

PORT = 8765


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    roots: Sequence[Path] = (),
    browser: bool = True,
    store: str | None = None,
    state: Path | None = None,
    max_upload_mb: int = 512,
    token: str | None = None,
) -> None:
    """Serve the page until Ctrl-C; runs that were started go on without it.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    roots : sequence of Path
        Folders below which a person's files may be named; the current folder without.
    browser : bool
        Open the page.
    store : str, optional
        Where results live, as ``--store`` takes it.
    state : Path, optional
        Uploads and the list of started runs; a folder for each store without.
    token : str, optional
        The secret in the address; a new one each time without, or ``PRACTICUM_TOKEN``.

    Raises
    ------
    InputError
        The address cannot be listened on, or a root is no folder.
    """
    listening = _listen(host, port)
    url = store or default_url()
    settings = Settings(
        token=token or os.environ.get("PRACTICUM_TOKEN") or secrets.token_urlsafe(24),
        host=host,
        port=listening.getsockname()[1],
        roots=_folders(roots),
        store=url,
        state=state or default_state(url),
        max_upload=max_upload_mb * MEGABYTE,
    )
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{settings.port}/?token={settings.token}"
    app = create_app(settings)
    print(f"Practicum: {address}\nCtrl-C ends the page; runs go on without it.", flush=True)
    if browser:
        threading.Thread(target=_open, args=(address,), daemon=True).start()
    _run(app, listening)


def _run(app: Gate, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would hold the token
        server_header=False,
        timeout_graceful_shutdown=5,
        lifespan="off",
    )
    site: Site = app.app.state.site
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, site).run(sockets=[listening])
    going = sum(alive(job) for job in site.jobs.known.values())
    if going:
        print(f"{going} {'run goes' if going == 1 else 'runs go'} on; start the page to watch.")


class _Server(uvicorn.Server):
    """Tells the pages that watch a run to hang up, which they never do by themselves."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self.site = site

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C or ``kill``."""
        self.site.ending.set()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    if host in ("", "0.0.0.0", "::"):
        raise InputError(
            f"--host {host}: every name of this machine",
            "name one address; for another machine rather use ssh -L",
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)  # now: whoever reads the address below may come at once
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host}:{port} ({error})", "name another --port, or 0 for a free one"
        ) from error
    return listening


def _folders(roots: Sequence[Path]) -> tuple[Path, ...]:
    for root in roots:
        if not root.is_dir():
            raise InputError(f"--root {root}: there is no such folder")
    return tuple(root.absolute() for root in roots) or (Path.cwd(),)


def _open(address: str) -> None:
    """Open the page through a file of the owner's: a browser's command line is seen by all."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False) as page:
        page.write(f'<meta http-equiv="refresh" content="0;url={address}">')
    webbrowser.open(Path(page.name).as_uri())
    time.sleep(20)  # in a thread of its own; the browser has read it by then
    Path(page.name).unlink(missing_ok=True)


def main() -> None:
    """``python -m practicum.web``."""
    try:
        typer.run(_command)
    except PracticumError as error:
        sys.exit(f"error: {error}")


def _command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = PORT,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="A folder whose files the page may read (repeatable)."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open nothing.")] = False,
    store: Annotated[str | None, typer.Option(help="Where results live.")] = None,
    state: Annotated[Path | None, typer.Option(help="Folder of uploads and runs.")] = None,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Largest upload, in MB.")] = 512,
) -> None:
    serve(
        host=host,
        port=port,
        roots=root or (),
        browser=not no_browser,
        store=store,
        state=state,
        max_upload_mb=max_upload_mb,
    )
