"""What can go wrong on the user's side, in the user's words.

Every error that is *expected* (a bad file, a missing extra, an unknown name) is a
``PracticumError``: one line that says what and where, and a hint that says what to do.
The command line prints both without a traceback and exits with status 2.
"""

from __future__ import annotations


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
