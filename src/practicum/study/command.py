"""What the commands of methods share: warnings as plain lines, no file lost unasked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from practicum.errors import InputError


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
