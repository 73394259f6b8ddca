"""What commands of methods share: warnings as plain lines, no file lost unasked, progress."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from practicum.errors import InputError

SECONDS_BETWEEN_LINES = 10.0  # off a terminal
SECONDS_OF_WARMING_UP = 3.0  # they say nothing about the time left


@contextmanager
def notes(err: bool = False) -> Iterator[None]:
    """Warnings of the block as plain lines after it, each once.

    Parameters
    ----------
    err : bool
        On standard error; a command whose output other programs read wants that.

    Examples
    --------
    >>> with notes():
    ...     warnings.warn("the column is constant")
    ...     warnings.warn("the column is constant")
    Note: the column is constant
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    told = (str(w.message) for w in caught if issubclass(w.category, UserWarning))
    for text in dict.fromkeys(told):
        typer.echo(f"Note: {text}", err=err)


def refuse_existing(paths: Sequence[Path | None], force: bool, option: str = "--force") -> None:
    """Before hours of work, not after them: nothing that is there is overwritten unasked.

    Raises
    ------
    InputError
        A path is a folder, or a file that is there while `force` is false.

    Examples
    --------
    >>> refuse_existing([None, Path("there-is-no-such-file.json")], force=False)
    """
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{path} is a folder", "name a file in it")
        if path.exists() and not force:
            raise InputError(f"{path} is there already", f"name another file, or add {option}")


class Progress:
    """How far long work is, on standard error.

    On a terminal one line that is written over and cleared when the block ends (it may be entered
    again, to print in between); elsewhere a plain line every ten seconds, so none of short work.

    Parameters
    ----------
    what : str
        What is counted, in the plural.
    total : int
        Not needed where the calls tell it.
    at_least : bool
        It may become more: the time left is not known.

    Examples
    --------
    >>> with Progress("messages", 2, at_least=True) as progress:
    ...     for _ in range(3):
    ...         progress()  # one more; or progress(done, total)
    >>> print(progress)
    3 of at least 3 messages
    """

    def __init__(self, what: str, total: int = 0, at_least: bool = False) -> None:
        self.what, self.total, self.at_least = what, total, at_least
        self.done, self.note, self.shown, self.terminal = 0, "", 0, False
        self.began = self.told = time.monotonic()
        with suppress(AttributeError, ValueError):  # no standard error, or a closed one
            self.terminal = sys.stderr.isatty()

    def __call__(self, done: int | None = None, total: int | None = None, note: str = "") -> None:
        self.done = self.done + 1 if done is None else done
        self.total, self.note = self.total if total is None else total, note
        if time.monotonic() - self.told >= (0.2 if self.terminal else SECONDS_BETWEEN_LINES):
            self.told = time.monotonic()
            self._write(str(self))

    def __str__(self) -> str:
        of = f"{'at least ' * self.at_least}{max(self.total, self.done):,}"
        words = f"{self.done:,} of {of} {self.what}" + (f", {self.note}" if self.note else "")
        spent = time.monotonic() - self.began
        if self.at_least or not 0 < self.done < self.total or spent < SECONDS_OF_WARMING_UP:
            return words
        left = spent / self.done * (self.total - self.done)
        return f"{words}, " + (f"{left:.0f} s left" if left < 120 else f"{left / 60:,.0f} min left")

    def _write(self, words: str) -> None:
        with suppress(OSError, ValueError):  # where nobody listens, the work goes on
            if self.terminal:  # a longer line would wrap; some terminals have no size
                words = words[: (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1]
                words, self.shown = f"\r{words:<{self.shown}}\r", len(words)
            typer.echo(words, err=True, nl=not self.terminal)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self._write("")
