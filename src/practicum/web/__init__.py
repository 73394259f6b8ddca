"""The local page: what the command line knows, for people who would rather look than type.

* :mod:`.server` - the address, the token, the process: ``python -m practicum.web``
* :mod:`.gate` - who may ask what: token, cookie, Host, Origin, the headers of every answer
* :mod:`.files` - a person's files: allowed roots, uploads, archives, what a table holds
* :mod:`.ledger` - what the results store says about runs
* :mod:`.jobs` - runs as processes of their own, started, cancelled and resumed from here
* :mod:`.outcome` - a stored run as verdicts, comparison, figures and files
* :mod:`.forms` - what a person chose, checked
* :mod:`.usage`, :mod:`.beside` - how a method is used; numbers beside each other
* :mod:`.app`, :mod:`.pages`, :mod:`.live` - the application, its pages, what arrives by itself

Nothing here names a method: pages are made from cards, studies and the store.
"""

from __future__ import annotations

from typing import Any

from practicum.errors import MissingExtra


def serve(**settings: Any) -> None:
    """Serve the page: :func:`practicum.web.server.serve`, with its parameters.

    Raises
    ------
    MissingExtra
        The packages of the page are not installed.
    """
    try:
        from practicum.web import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "practicum":
            raise
        raise MissingExtra(
            f"the page needs the package {error.name!r}, which is not installed",
            "install it with: pip install 'practicum[web]'",
        ) from error
    server.serve(**settings)
