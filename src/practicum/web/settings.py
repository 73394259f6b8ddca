"""What a server is started with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import platformdirs

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """One server's address, secret, folders and limits.

    Parameters
    ----------
    token : str
        Whoever has it may do what the owner may.
    host, port
        Where the server listens; no other ``Host`` is answered.
    roots : tuple of Path
        Folders below which a person's files may be named.
    store : str
        Where results live, as ``--store`` takes it.
    state : Path
        Uploads and the list of started runs.
    """

    token: str
    host: str
    port: int
    roots: tuple[Path, ...]
    store: str
    state: Path
    max_upload: int = 512 * MEGABYTE
    max_unpacked: int = 2048 * MEGABYTE  # of an archive, and of all uploads together
    max_members: int = 20_000  # files in an archive

    @property
    def hosts(self) -> set[str]:
        """The values of ``Host`` that mean this server."""
        names = {self.host, "127.0.0.1", "localhost", "::1"}
        return {f"[{n}]:{self.port}" if ":" in n else f"{n}:{self.port}" for n in names}


def default_state(store: str) -> Path:
    """A folder for each store, in the platform's data folder."""
    data = Path(platformdirs.user_data_dir("practicum", appauthor=False))
    return data / "web" / hashlib.sha256(store.encode()).hexdigest()[:12]
