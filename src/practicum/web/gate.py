"""Who may ask what: every request passes here before any page sees it.

The page runs programs and reads files for its owner, so it must be deaf to everyone else on the
machine (the token), to other web pages in the same browser (the cookie is ``SameSite=Strict``, and
a write needs our own ``Origin``, because another port of this machine is the *same* site), and to
names that merely point here (the ``Host``, against DNS rebinding).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import Message, Receive, Scope, Send

from practicum.web.settings import Settings

SAFE = {"GET", "HEAD"}
UPLOAD = "/upload"  # counts its own bytes while they arrive
MAX_FORM = 1 << 20  # bytes of any other request

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # not "no-referrer": browsers then send "Origin: null" with our own forms
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Gate:
    """The application and the outermost layer around it."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        # cookies do not tell ports apart: two servers of one person must not log each other out
        self.cookie = f"practicum-{settings.port}"
        # derived, so that a restart with the same token keeps open pages alive
        self.session = hmac.new(settings.token.encode(), b"session", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once what is not allowed; hand on the rest."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets here
        headers = Headers(scope=scope)
        static = scope["path"].startswith("/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                out.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refuse_host(headers) or (None if static else self._enter(scope, headers))
        await (answer or self.app)(scope, receive, send_with_headers)

    def _refuse_host(self, headers: Headers) -> Response | None:
        if headers.get("host", "") in self.settings.hosts:
            return None
        return _page(400, "This name is not served here", "Use the address the server printed.")

    def _enter(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and scope["method"] in SAFE and _equal(given[0], self.settings.token):
            return self._welcome(scope["path"], [pair for pair in query if pair[0] != "token"])
        if not _equal(self._cookie_of(headers), self.session):
            return _page(
                403,
                "This page is private",
                "Open the address that practicum serve printed, with its token; after a restart "
                "the token may be a new one.",
            )
        if scope["method"] in SAFE:
            return None
        return self._refuse_write(scope, headers)

    def _refuse_write(self, scope: Scope, headers: Headers) -> Response | None:
        if headers.get("origin") != f"http://{headers['host']}":
            return _page(403, "Refused", "A request that changes something must come from here.")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _page(403, "Refused", "A request that changes something must come from here.")
        length = headers.get("content-length", "")
        if scope["path"] != UPLOAD and not (length.isdecimal() and int(length) <= MAX_FORM):
            return _page(413, "Too much", "A form holds less than a megabyte.")
        return None

    def _cookie_of(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _welcome(self, path: str, query: Iterable[tuple[str, str]]) -> Response:
        """Set the cookie and go on without the token in the address.

        Not a redirect: one that began on another site (a mail program's page) would not carry a
        strict cookie. A navigation that begins on this page does.
        """
        path = "/" + path.lstrip("/")  # "//host" would be another site
        target = escape(path + (f"?{urlencode(list(query))}" if query else ""))
        body = (
            f'<meta http-equiv="refresh" content="0;url={target}"><p><a href="{target}">Go on</a>'
        )
        answer = _page(200, "Practicum", body, raw=True)
        answer.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")
        return answer


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _page(status: int, title: str, text: str, raw: bool = False) -> HTMLResponse:
    inside = text if raw else f"<h1>{escape(title)}</h1><p>{escape(text)}</p>"
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">'
        f"</head><body><main>{inside}</main></body></html>",
        status,
    )
