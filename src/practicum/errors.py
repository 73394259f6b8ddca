"""What can go wrong on the user's side, in the user's words.

Every error that is *expected* (a bad file, a missing extra, an unknown name) is a
``PracticumError``: one line that says what and where, and a hint that says what to do.
The command line prints both without a traceback and exits with status 2.
"""

from __future__ import annotations

from collections.abc import Iterable


class PracticumError(Exception):
    """An expected failure.

    Parameters
    ----------
    message : str
        One line: which file, column, row or argument; what was found; what was expected.
    hint : str, optional
        One line: what the user can do about it.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[type, tuple[str, str | None]]:
        # keeps the hint when a worker process raises it
        return type(self), (self.message, self.hint)


class InputError(PracticumError, ValueError):
    """A person's data or argument cannot be used as it is."""


class CardError(PracticumError):
    """A method's ``card.toml`` is missing, unreadable or incomplete."""


class UnknownMethod(PracticumError, LookupError):
    """No method has this slug."""


class MissingExtra(PracticumError, ImportError):
    """A package that this method needs is not installed."""


class StoreError(PracticumError):
    """The results store cannot be opened, read or written."""


class ChatError(PracticumError):
    """A language model cannot be used: a dead endpoint, a wrong key, a prompt that is too long."""


class SandboxError(PracticumError):
    """Programs cannot be run safely on this machine."""


# --- how messages quote what was found -----------------------------------------------------------


def shown(value: object, most: int = 80) -> str:
    """A cell as messages quote it: printable, on one line, and not the whole of a long one.

    Examples
    --------
    >>> shown("a\\tb"), shown("x" * 1000, most=5)
    ("'a\\\\tb'", "'xxxx… (1,002 characters)")
    """
    # NumPy's own repr is np.float64(nan), which nobody has in a file
    scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
    text = repr(value.item() if scalar else value)  # type: ignore[attr-defined]
    text = text if text.isprintable() else ascii(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def reason_of(error: BaseException, most: int = 200) -> str:
    """What a library said of a damaged file: its first line, printable, without long quotations.

    Examples
    --------
    >>> reason_of(ValueError("bad token \\0 at 1"))
    'bad token � at 1'
    """
    first = [line.strip() for line in str(error).splitlines() if line.strip()]
    return plain(first[0] if first else type(error).__name__, most)


def plain(name: object, most: int = 60) -> str:
    """A name from a file as messages write it, without quotes: printable, and not too long.

    Examples
    --------
    >>> plain("a\\tb"), plain("x" * 1000, most=5)
    ('a�b', 'xxxxx…')
    """
    text = "".join(c if c.isprintable() else "\ufffd" for c in str(name)[: most + 1])
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Iterable[object], most: int = 20) -> str:
    """The first of many names, for a hint: a table may have thousands of columns.

    Examples
    --------
    >>> listed("abc", most=2)
    'a, b and 1 more'
    """
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(map(plain, every[:most])) + more
