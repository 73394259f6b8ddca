"""What an endpoint's refusal means: wait, try again, give up this request or give up all.

Servers word the same thing differently; the wordings known here are those of OpenAI, vLLM,
llama.cpp, Ollama, text-generation-inference and Anthropic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from practicum.errors import ChatError

TRANSIENT = frozenset({408, 409, 425, 429})  # and every 5xx

# (tokens needed, tokens there are), by the names of the groups
_OVERFLOWS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI and vLLM
        r"maximum context length is (?P<window>\d+) tokens.*?"
        r"(?:requested|resulted in|has|contains)\D{0,20}(?P<needed>\d+)",
        # llama.cpp
        r"request \((?P<needed>\d+) tokens\) exceeds the available context size"
        r" \((?P<window>\d+) tokens\)",
        # Anthropic
        r"prompt is too long: (?P<needed>\d+) tokens > (?P<window>\d+)",
        # text-generation-inference
        r"must be <= (?P<window>\d+)\. Given: (?P<needed>\d+) `inputs` tokens"
        r"(?: and (?P<more>\d+) `max_new_tokens`)?",
    )
)
_OVERFLOW_WORDS = re.compile(
    r"context.?length|context.?size|context.?window|prompt is too long|too many tokens", re.I
)


@dataclass(frozen=True)
class Overflow:
    """A prompt, or a prompt with its reply, that is longer than the model's window.

    Parameters
    ----------
    needed, window : int or None
        Tokens; None where the endpoint did not say.

    Examples
    --------
    >>> print(Overflow(90, 80).error("m", [{"role": "user", "content": "Sum up."}]).message)
    m: the request that begins 'Sum up.' needs 90 tokens and the context window holds 80: 10 over
    """

    needed: int | None = None
    window: int | None = None

    def error(self, model: str, messages: Sequence[Mapping[str, Any]], said: str = "") -> ChatError:
        """The error to raise: how many tokens over, and which request, by its first words."""
        hint = "shorten the messages, ask for fewer max_tokens or take a larger context"
        begins = " ".join(str(messages[0]["content"]).split())
        begins = begins if len(begins) <= 60 else begins[:60] + "…"
        if self.needed is None or self.window is None:
            numbers = f"does not fit the context window ({said})"
        else:
            over = self.needed - self.window
            numbers = (
                f"needs {self.needed:,} tokens and the context window holds {self.window:,}: "
                f"{over:,} over"
            )
        return ChatError(f"{model}: the request that begins {begins!r} {numbers}", hint)


def overflow(body: Any, said: str) -> Overflow | None:
    """Whether a refusal is about the context window; numbers where they were given.

    Parameters
    ----------
    body : the error's JSON, or anything else
    said : str
        The message in it.

    Examples
    --------
    >>> overflow(None, "This model's maximum context length is 2048 tokens. However, you "
    ...          "requested 3000 tokens (2500 in the messages, 500 in the completion).")
    Overflow(needed=3000, window=2048)
    >>> overflow({"type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4}, "")
    Overflow(needed=9, window=4)
    >>> overflow(None, "messages must not be empty") is None
    True
    """
    fields = body if isinstance(body, Mapping) else {}
    if {"n_prompt_tokens", "n_ctx"} <= fields.keys():
        return Overflow(int(fields["n_prompt_tokens"]), int(fields["n_ctx"]))
    for pattern in _OVERFLOWS:
        if found := pattern.search(said):
            needed = int(found["needed"]) + int(found.groupdict().get("more") or 0)
            window = int(found["window"])
            if needed > window:
                return Overflow(needed, window)
            return Overflow()
    named = f"{fields.get('code', '')} {fields.get('type', '')}"
    if "context_length" in named or _OVERFLOW_WORDS.search(said):
        return Overflow()
    return None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the endpoint asks to wait, from ``retry-after-ms`` or ``Retry-After``.

    Parameters
    ----------
    headers : mapping, lower-case names
    now : float, optional
        Seconds since the epoch; what a date is compared with.

    Examples
    --------
    >>> retry_after({"retry-after": "1.5"}), retry_after({"retry-after-ms": "250"})
    (1.5, 0.25)
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=20.0)
    40.0
    >>> retry_after({"retry-after": "soon"}) is None
    True
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def message_of(body: Any, fallback: str) -> str:
    """The sentence in an error's JSON, cut to a line."""
    found = body
    while isinstance(found, Mapping):
        found = found.get("error", found.get("message", found.get("detail")))
    text = found if isinstance(found, str) and found.strip() else fallback
    text = " ".join(text.split())
    return text if len(text) <= 400 else text[:400] + " …"
