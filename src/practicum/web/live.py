"""What arrives while a run goes on: server-sent events, read from the store.

The store is asked, not the process: a run that was started by another server, or in a terminal, is
watched in the same way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import StreamingResponse

from practicum.web.app import Site, site_of
from practicum.web.jobs import alive
from practicum.web.ledger import Cell, Progress

router = APIRouter()

PAUSE = 0.4  # seconds between two looks at the store
SHARE = 4  # a look that takes long is followed by a pause of so many times as long
TELL = 10.0  # seconds between two sentences for a screen reader
BEAT = 15.0  # seconds after which a silent connection is written to, to notice that it is dead


@dataclass(frozen=True)
class Look:
    """A run as it is now."""

    state: str
    progress: Progress
    newest: list[Cell]


def look(site: Site, run_id: int) -> Look:
    """One look at the store."""
    run = site.ledger.run(run_id)
    if run is None:
        raise HTTPException(404)
    return Look(site.jobs.state(run), site.ledger.progress(run), site.ledger.newest_trials(run_id))


@router.get("/runs/{run_id}/events")
async def run_events(request: Request, run_id: int) -> StreamingResponse:
    """Progress and the newest trials, until the run has ended."""
    site = site_of(request)
    await asyncio.to_thread(look, site, run_id)
    return _stream(_watch_run(site, run_id))


@router.get("/jobs/{job_id}/events")
async def job_events(request: Request, job_id: str) -> StreamingResponse:
    """One event, when the process has begun its run or has ended without one."""
    site = site_of(request)
    if job_id not in site.jobs.known:
        raise HTTPException(404)
    return _stream(_watch_job(site, job_id))


def _stream(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream")


async def _watch_run(site: Site, run_id: int) -> AsyncIterator[str]:
    shown = -1
    told = wrote = 0.0
    while not site.ending.is_set():
        began = time.monotonic()
        now = await asyncio.to_thread(look, site, run_id)
        if now.progress.done != shown or now.state != "running" or began - wrote > BEAT:
            shown, wrote = now.progress.done, began
            yield event("progress", _render(site, "_progress", now))
            yield event("trials", _render(site, "_newest", now))
        if began - told > TELL:
            told = began
            yield event("tell", f"{now.progress.done} of {now.progress.total} trials")
        if now.state != "running":
            yield event("done", now.state)
            return
        await _pause(site, SHARE * (time.monotonic() - began))


async def _watch_job(site: Site, job_id: str) -> AsyncIterator[str]:
    while not site.ending.is_set():
        lives = alive(site.jobs.known[job_id])
        job = await asyncio.to_thread(site.jobs.locate, site.jobs.known[job_id])
        if job.run_id is not None or not lives:
            yield event("begun", f"/jobs/{job_id}")
            return
        yield ": waiting\n\n"
        await _pause(site, PAUSE)


async def _pause(site: Site, seconds: float) -> None:
    """Wait; a server that stops is not kept waiting."""
    end = time.monotonic() + max(seconds, PAUSE)
    while time.monotonic() < end and not site.ending.is_set():
        await asyncio.sleep(PAUSE)


def _render(site: Site, name: str, now: Look) -> str:
    template = site.templates.get_template(f"{name}.html.j2")
    return template.render(progress=now.progress, newest=now.newest)


def event(name: str, text: str) -> str:
    """One server-sent event; each line of the text is a line of data."""
    data = "\n".join(f"data: {line}" for line in text.splitlines() or [""])
    return f"event: {name}\n{data}\n\n"
