"""A local model as an OpenAI-compatible endpoint: llama.cpp's own server on the packaged model.

``python -m practicum.models.chat.serve --port 8000`` serves until Ctrl-C; in Python::

    with ChatServer() as server:
        chat = OpenAIChat(server.base_url, server.model)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from practicum.errors import InputError, PracticumError
from practicum.models.chat.local import PACKAGED, checked_gguf, packaged_model, start_server


class ChatServer:
    """An endpoint on this machine for as long as the ``with`` block lasts.

    Parameters
    ----------
    path : str or Path, optional
        A GGUF file; the packaged SmolLM2-135M without one.
    host, port
        Where it listens; port 0 takes a free one.
    api_key_env : str, optional
        Environment variable with the key that requests must carry; without it anyone on this
        machine may ask.
    n_threads, n_ctx, reuse_prefix
        As for :class:`~practicum.models.chat.LocalChat`.

    Attributes
    ----------
    base_url, model : str
        What an OpenAI client needs.

    Raises
    ------
    MissingExtra, InputError
        As for :class:`~practicum.models.chat.LocalChat`; or the variable holds no key.

    Examples
    --------
    >>> from practicum.models.chat import OpenAIChat
    >>> with ChatServer() as server, OpenAIChat(server.base_url, server.model) as chat:
    ...     chat.models()
    ['SmolLM2-135M-Instruct']
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key_env: str | None = None,
        n_threads: int = 1,
        n_ctx: int = 4096,
        reuse_prefix: bool = False,
    ) -> None:
        gguf = packaged_model() if path is None else checked_gguf(Path(path).expanduser())
        self.model = PACKAGED if path is None else gguf.stem
        keys = []
        if api_key_env is not None:
            keys = [os.environ.get(api_key_env, "").strip()]
            if not keys[0]:
                raise InputError(f"the environment variable {api_key_env} holds no key")
        self._server: Any = start_server(
            gguf, self.model, n_threads, n_ctx, keys, host, port, reuse_prefix
        )
        self.base_url = f"{self._server.listening_address}/v1"

    def close(self) -> None:
        """Stop listening and free the model."""
        self._server = None

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main(
    path: Annotated[Path | None, typer.Argument(help="GGUF file; else SmolLM2-135M.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8000,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key requests must carry.")
    ] = None,
    n_threads: Annotated[int, typer.Option(help="Threads.")] = 1,
    n_ctx: Annotated[int, typer.Option(help="Tokens of prompt and reply together.")] = 4096,
) -> None:
    """Serve a local model to OpenAI clients until Ctrl-C.

    Example: python -m practicum.models.chat.serve --port 8000
    """
    try:
        with ChatServer(
            path, host=host, port=port, api_key_env=api_key_env, n_threads=n_threads, n_ctx=n_ctx
        ) as server:
            stop = threading.Event()
            for signal_ in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signal_, lambda *_: stop.set())
            print(f"{server.model} at {server.base_url} (Ctrl-C stops)", flush=True)
            stop.wait()
        print("stopped")
    except PracticumError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
