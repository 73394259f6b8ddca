"""Hints of the Python layer in the words of whoever reads them: an option, not an argument.

A reader of tables says ``missing="drop"``, which is right in Python; on the command line it is
``--missing drop`` or ``-o missing=drop``, or nothing at all where there is no such option.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# not what follows -o or a dash, which is an option already, nor a part of an address
ARGUMENT = re.compile(
    r"(?<![\w.=?&/-])(?<!-o )([a-z][a-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\.\.\.|-?\w+(?:[.-]\w+)*)"
)
DROPPING = re.compile(r"(?:drop (?:the|these) rows with )?(?<!-o )\bmissing=([\"']?)drop\b\1")


def respelled(hint: str | None, option: Callable[[str, str], str | None]) -> str | None:
    """The hint with each ``name=value`` as ``option(name, value)`` spells it.

    Parameters
    ----------
    hint : str, optional
    option : callable
        From a Python argument and its value, without quotes, to the option; None if there is none:
        the words stay, but those that ask for ``missing="drop"`` say what else can be done.

    Examples
    --------
    >>> hint = 'impute them, or drop the rows with missing="drop"'
    >>> respelled(hint, lambda name, value: f"--{name} {value}")
    'impute them, or drop the rows with --missing drop'
    >>> respelled(hint, lambda name, value: None)
    'impute them, or remove the incomplete rows first'
    """
    if not hint:
        return hint
    if option("missing", "drop") is None:
        hint = DROPPING.sub("remove the incomplete rows first", hint)

    def put(found: re.Match[str]) -> str:
        return option(found[1], found[2].strip("\"'")) or found[0]

    return ARGUMENT.sub(put, hint)
