"""From the words of a command line to a model."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from practicum.errors import InputError
from practicum.models.chat.cache import CachedChat, CountedChat
from practicum.models.chat.protocol import Chat
from practicum.models.chat.replay import ReplayChat

WORDS = "local, gguf:FILE, hf:FOLDER or replay:FILE; or a model's name together with --endpoint"
KINDS = ("gguf", "hf", "replay")


def open_chat(
    model: str = "local",
    *,
    endpoint: str | None = None,
    cache: str | Path | None = "none",
    api_key_env: str = "OPENAI_API_KEY",
    concurrency: int = 8,
    **options: Any,
) -> CountedChat:
    """The model that these words name, counted, and cached if asked for.

    Parameters
    ----------
    model : str
        With `endpoint` the model's name there. Without: ``local`` (the packaged SmolLM2-135M),
        ``gguf:FILE``, ``hf:FOLDER`` or ``replay:FILE`` (a recording, strict).
    endpoint : str, optional
        ``http://127.0.0.1:8000/v1``
    cache : str or Path
        ``none``; ``default``: the file shared by all runs of this user; or a file of one's own.
    api_key_env, concurrency
        For endpoints; see :class:`~practicum.models.chat.OpenAIChat`.
    **options
        Handed to the model's class (`n_threads`, `price`, `device`, …).

    Raises
    ------
    InputError
        Words that name no model, with a suggestion.

    Examples
    --------
    >>> open_chat("local")  # doctest: +ELLIPSIS
    CountedChat(LocalChat('...SmolLM2-135M-Instruct.Q4_1.gguf'))
    >>> open_chat("my-model", endpoint="http://127.0.0.1:8000/v1")
    CountedChat(OpenAIChat('http://127.0.0.1:8000/v1', 'my-model'))
    """
    found = _opened(model, endpoint, api_key_env, concurrency, options)
    if cache in (None, "", "none") or isinstance(found, ReplayChat):
        return CountedChat(found)
    return CachedChat(found, None if cache == "default" else cache)


def _opened(
    model: str, endpoint: str | None, api_key_env: str, concurrency: int, options: dict[str, Any]
) -> Chat:
    kind, colon, rest = model.partition(":")
    if endpoint is None and model.startswith(("http://", "https://")):
        raise InputError(
            f"--model is {model}, which is an endpoint", f"--endpoint {model} --model NAME"
        )
    if endpoint is not None:
        from practicum.models.chat.endpoint import OpenAIChat

        return OpenAIChat(
            endpoint, model, api_key_env=api_key_env, concurrency=concurrency, **options
        )
    if model == "local":
        from practicum.models.chat.local import LocalChat

        return LocalChat(**options)
    if kind == "gguf" and rest:
        from practicum.models.chat.local import LocalChat

        return LocalChat(rest, **options)
    if kind == "hf" and rest:
        from practicum.models.chat.huggingface import HFChat

        return HFChat(rest, **options)
    if kind == "replay" and rest:
        return ReplayChat(rest, "strict", **options)
    raise InputError(f"no model is called {model!r}", _suggestion(model, kind, bool(colon)))


def _suggestion(model: str, kind: str, has_colon: bool) -> str:
    if model.endswith(".gguf"):
        return f"did you mean gguf:{model}?"
    if model.endswith(".jsonl"):
        return f"did you mean replay:{model}?"
    if Path(model).is_dir():
        return f"did you mean hf:{model}?"
    words = [f"{k}:" for k in KINDS] if has_colon else ["local"]
    asked = f"{kind}:" if has_colon else model
    close = difflib.get_close_matches(asked, words, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"expected {WORDS}"
