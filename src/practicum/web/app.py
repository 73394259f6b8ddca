"""The application: what its pages share, how errors look, where the static files are."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from practicum import __version__
from practicum.errors import PracticumError, StoreError, UnknownMethod
from practicum.study.evidence import number
from practicum.study.store import Store
from practicum.web import words
from practicum.web.files import Files, TooLarge
from practicum.web.gate import Gate
from practicum.web.jobs import Jobs
from practicum.web.ledger import Ledger
from practicum.web.outcome import Outcomes
from practicum.web.settings import Settings

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Site:
    """What every page needs."""

    settings: Settings
    ledger: Ledger
    files: Files
    jobs: Jobs
    outcomes: Outcomes
    templates: Jinja2Templates
    ending: threading.Event = field(default_factory=threading.Event)  # set when the server stops

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A template as an answer."""
        return self.templates.TemplateResponse(request, f"{name}.html.j2", values, status)


def site_of(request: Request) -> Site:
    """The site of the application that serves this request."""
    site: Site = request.app.state.site
    return site


def create_app(settings: Settings) -> Gate:
    """The application for one store, one token and one set of allowed folders, behind its gate."""
    from practicum.web import live, pages

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, title="Practicum")
    ledger = Ledger(Store(settings.store))
    files = Files(settings)
    jobs = Jobs(settings.state / "jobs", ledger)
    app.state.site = Site(
        settings, ledger, files, jobs, Outcomes(ledger, files), _templates(settings)
    )
    app.include_router(pages.router)
    app.include_router(live.router)
    _serve_static(app)
    app.add_exception_handler(PracticumError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
    return Gate(app, settings)  # around everything: also the page of an unexpected error


def _templates(settings: Settings) -> Jinja2Templates:
    env = Environment(
        loader=PackageLoader("practicum.web"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    env.filters.update(
        number=number,
        duration=words.duration,
        when=words.when,
        day=words.day,
        css=words.css,
        metrics=words.metrics,
    )
    env.globals.update(
        version=__version__,
        mark=words.MARKS.get,
        max_upload=settings.max_upload,
        roots=[str(root) for root in settings.roots],
    )
    for name in env.list_templates():
        env.get_template(name)  # compiled now, not while the first visitor waits
    return Jinja2Templates(env=env)


def _serve_static(app: FastAPI) -> None:
    plotly = resources.files("plotly") / "package_data" / "plotly.min.js"

    @app.get("/static/plotly.min.js")
    def plotly_js() -> Response:
        # no-cache: asked again each time, answered with "not modified"
        return FileResponse(str(plotly), headers={"Cache-Control": "no-cache"})

    class Static(StaticFiles):
        def file_response(self, *args: Any, **kwargs: Any) -> Response:
            answer = super().file_response(*args, **kwargs)
            answer.headers["Cache-Control"] = "no-cache"
            return answer

    app.mount("/static", Static(directory=HERE / "static"))


# --- errors --------------------------------------------------------------------------------------


def _told(request: Request, status: int, message: str, hint: str) -> Response:
    if request.url.path == "/upload":  # a script asks
        return JSONResponse({"error": message, "hint": hint}, status)
    return site_of(request).page(request, "error", status, message=message, hint=hint)


def _expected(request: Request, error: Any) -> Response:
    known = {TooLarge: 413, UnknownMethod: 404, StoreError: 503}
    return _told(request, known.get(type(error), 400), error.message, error.hint or "")


def _http(request: Request, error: Any) -> Response:
    messages = {404: "There is no such page.", 405: "That cannot be done here."}
    return _told(request, error.status_code, messages.get(error.status_code, error.detail), "")


def _unexpected(request: Request, error: Any) -> Response:
    told = f"{type(error).__name__}: {error}"
    return _told(request, 500, told, "This is a mistake of ours; the terminal has the details.")
