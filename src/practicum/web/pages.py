"""The pages, from home to two runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from practicum import catalog
from practicum.data.kinds import KINDS
from practicum.data.sniff import sniff
from practicum.errors import InputError, PracticumError
from practicum.study.compare import options_of
from practicum.study.runner import cores
from practicum.web import forms, usage
from practicum.web.app import Site, site_of
from practicum.web.beside import beside, interval_figure
from practicum.web.files import head_of
from practicum.web.jobs import Job, alive
from practicum.web.ledger import Glance, Run
from practicum.web.live import look
from practicum.web.outcome import differing, plotted

router = APIRouter()

PAGE = 25  # trials, or runs
VERDICTS = {
    "reproduced": "every claim reproduced",
    "not reproduced": "some claim not reproduced",
    "undecided": "some claim undecided",
    "not run": "not run here yet",
}


async def sent(request: Request) -> Mapping[str, list[str]]:
    """The fields of a form."""
    return parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)


Here = Annotated[Site, Depends(site_of)]
Sent = Annotated[Mapping[str, list[str]], Depends(sent)]


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


# --- home ----------------------------------------------------------------------------------------


@router.get("/")
def home(
    request: Request, site: Here, q: str = "", field: str = "", reads: str = "", verdict: str = ""
) -> Response:
    """All methods by field, with their verdicts."""
    glances = site.ledger.glances()
    found = [
        method.card
        for method in catalog.methods().values()
        if _matches(method.card, q)
        and field in ("", method.card.field)
        and (reads == "" or reads in method.card.accepts)
        and (verdict == "" or verdict in _tags(method.card, glances.get(method.slug)))
    ]
    return site.page(
        request,
        "home",
        fields={f: [c for c in found if c.field == f] for f in catalog.FIELDS},
        titles=catalog.FIELDS,
        glances=glances,
        found=len(found),
        kinds=KINDS,
        verdict_names=VERDICTS,
        asked={"q": q, "field": field, "reads": reads, "verdict": verdict},
        going=[run for run in site.ledger.runs(limit=20) if site.jobs.state(run) == "running"],
        waiting=site.jobs.waiting(),
        n_trials=site.ledger.n_trials(),
        there={m.card.field for m in catalog.methods().values()},
    )


def _matches(card: catalog.Card, q: str) -> bool:
    text = " ".join([card.slug, card.title, card.summary, *card.use_when, card.paper.title]).lower()
    return all(word in text for word in q.lower().split())


def _tags(card: catalog.Card, glance: Glance | None) -> set[str]:
    """The filters a method passes."""
    if glance is None:
        return {"not run"}
    statuses = {glance.verdicts.get(claim.id, "not run") for claim in card.claims}
    tags = statuses & {"not reproduced"}
    if statuses & {"inconclusive", "needs more", "not run"}:
        tags.add("undecided")
    return tags | ({"reproduced"} if statuses == {"reproduced"} else set())


# --- a person's file -----------------------------------------------------------------------------


@router.get("/file")
def file(request: Request, site: Here, path: str = "", slug: str = "") -> Response:
    """What a file looks like and which methods read it; a folder's listing."""
    if slug:
        catalog.get(slug)
    if not path:
        return _file_page(request, site, None, slug)
    return _file_page(request, site, site.files.resolve(path), slug)


def _file_page(request: Request, site: Site, path: Any, slug: str) -> Response:
    sniffed = head = None
    trouble = ""
    accepting: list[catalog.Card] = []
    if path is not None:
        try:
            sniffed = sniff(path)
            accepting = [m.card for m in catalog.reading(sniffed.kinds)]
            head = head_of(path)
        except InputError as error:
            trouble = str(error)
    listed = path if path is not None and path.is_dir() else None
    if path is None:
        listed = site.files.roots[0]
    return site.page(
        request,
        "file",
        path=path,
        slug=slug,
        sniffed=sniffed,
        trouble=trouble,
        head=head,
        accepting=accepting,
        listed=listed,
        above=listed and listed != listed.parent and site.files.allows(listed.parent),
        listing=site.files.listing(listed) if listed else [],
        uploaded=path is not None and site.files.uploaded(path),
    )


@router.post("/upload")
async def upload(request: Request, site: Here, name: str = "data", slug: str = "") -> Response:
    """Take a file; answers with the page to go to."""
    announced = request.headers.get("content-length", "")
    size = int(announced) if announced.isdecimal() else 0
    path = await site.files.receive(name, request.stream(), size)
    where = f"/methods/{quote(slug)}/compare" if slug else "/file"
    return JSONResponse({"location": f"{where}?{urlencode({'path': str(path)})}"})


@router.get("/uploads")
def uploads(request: Request, site: Here) -> Response:
    """What has been uploaded and is still kept."""
    return site.page(request, "uploads", uploads=site.files.kept(), where=site.files.uploads)


@router.post("/uploads/{upload}/delete")
def forget(site: Here, upload: str) -> Response:
    """Delete the copy of an upload; what was measured on it stays in the store."""
    site.files.forget(upload)
    return _go("/uploads")


# --- a method ------------------------------------------------------------------------------------


@router.get("/methods/{slug}")
def method(request: Request, site: Here, slug: str, scale: str = "") -> Response:
    """What a method is for, how it is used, what its paper claims and what was measured."""
    found = catalog.get(slug)
    verified = site.ledger.newest_verified(slug)
    run = verified.get(scale) or next(iter(verified.values()), None)
    return site.page(
        request,
        "method",
        card=found.card,
        field=catalog.FIELDS[found.card.field],
        usage=usage.of(found),
        benchmark=found.benchmark,
        verified=verified,
        run=run,
        verdicts=site.outcomes.verdicts(run.id) if run else {},
        stale=run is not None and site.outcomes.stale(run),
        runs=_with_states(site, site.ledger.runs(slug, limit=10)),
        **_choices(),
    )


def _choices() -> dict[str, Any]:
    return {"scales": forms.SCALES, "engines": forms.ENGINES, "cores": cores(), "order": None}


def _with_states(site: Site, runs: list[Run]) -> list[tuple[Run, str]]:
    return [(run, site.jobs.state(run)) for run in runs]


@router.post("/methods/{slug}/verify")
def verify(site: Here, slug: str, fields: Sent) -> Response:
    """Start a verification."""
    order = forms.order_from(catalog.get(slug).slug, "verify", fields)
    return _go(f"/jobs/{site.jobs.start(order).id}")


@router.get("/methods/{slug}/compare")
def compare(request: Request, site: Here, slug: str, path: str, job: str = "") -> Response:
    """The options of a comparison on a person's file, with their explanations."""
    found = catalog.get(slug)
    resolved = site.files.resolve(path)
    before = site.jobs.known.get(job)
    given = before.order.options if before else {}
    head = head_of(resolved)
    sniffed = sniff(resolved)
    options = options_of(found.load_study())
    return site.page(
        request,
        "compare",
        card=found.card,
        path=resolved,
        sniffed=sniffed,
        head=head,
        reads=found in catalog.reading(sniffed.kinds),
        questions=forms.questions(options, head.columns if head else [], given),
        **{**_choices(), "order": before.order if before else None},
    )


@router.post("/methods/{slug}/compare")
def start_comparison(site: Here, slug: str, fields: Sent) -> Response:
    """Start a comparison."""
    from dataclasses import replace

    found = catalog.get(slug)
    path = site.files.resolve(forms.one(fields, "path"))
    order = replace(
        forms.order_from(found.slug, "compare", fields),
        data=str(path),
        options=forms.chosen_options(fields, options_of(found.load_study())),
    )
    return _go(f"/jobs/{site.jobs.start(order).id}")


# --- jobs ----------------------------------------------------------------------------------------


def _job(site: Site, job_id: str) -> Job:
    if job_id not in site.jobs.known:
        raise HTTPException(404)
    return site.jobs.locate(site.jobs.known[job_id])


@router.get("/jobs/{job_id}")
def job(request: Request, site: Here, job_id: str) -> Response:
    """A process that has no run yet: it starts, or it could not."""
    lives = job_id in site.jobs.known and alive(site.jobs.known[job_id])
    found = _job(site, job_id)  # after the look at the process: it may end with a run in between
    if found.run_id is not None:
        return _go(f"/runs/{found.run_id}")
    said = [] if lives else site.jobs.said(found) or site.jobs.log(found).splitlines()[-3:]
    return site.page(request, "job", job=found, lives=lives, said=said)


@router.get("/jobs/{job_id}/log")
def log(site: Here, job_id: str) -> Response:
    """Everything the process wrote."""
    return PlainTextResponse(site.jobs.log(_job(site, job_id)))


@router.post("/jobs/{job_id}/cancel")
def cancel(site: Here, job_id: str) -> Response:
    """Ask the process to end."""
    found = _job(site, job_id)
    site.jobs.cancel(found)
    return _go(f"/runs/{found.run_id}" if found.run_id else f"/jobs/{job_id}")


@router.post("/jobs/{job_id}/resume")
def resume(site: Here, job_id: str) -> Response:
    """The same command again: what is stored is not run again."""
    return _go(f"/jobs/{site.jobs.start(_job(site, job_id).order).id}")


# --- runs ----------------------------------------------------------------------------------------


def _run(site: Site, run_id: int) -> Run:
    found = site.ledger.run(run_id)
    if found is None:
        raise HTTPException(404)
    return found


@router.get("/runs")
def runs(request: Request, site: Here, slug: str = "", page: int = 0) -> Response:
    """Every run, the newest first."""
    found = site.ledger.runs(slug or None, PAGE + 1, max(page, 0) * PAGE)
    return site.page(
        request,
        "runs",
        runs=_with_states(site, found[:PAGE]),
        more=len(found) > PAGE,
        page=max(page, 0),
        slug=slug,
        waiting=site.jobs.waiting(),
    )


@router.get("/runs/{run_id}")
def run(request: Request, site: Here, run_id: int) -> Response:
    """One run: how it goes or what came of it, its machine, its trials, its failures."""
    found = _run(site, run_id)
    known = catalog.methods().get(found.slug)
    seen = look(site, run_id)
    job = site.jobs.of_run(run_id)
    return site.page(
        request,
        "run",
        run=found,
        card=known.card if known else None,
        state=seen.state,
        progress=seen.progress,
        newest=seen.newest,
        job=job,
        said=site.jobs.said(job) if job and seen.state != "running" else [],
        verdicts=site.outcomes.verdicts(run_id),
        failures=site.ledger.store.failures_of(run_id),
        stale=known is not None and seen.state != "running" and site.outcomes.stale(found),
        changed=site.outcomes.data_changed(found),
        trials=_trials(site, run_id, "", "", 0),
    )


def _trials(site: Site, run_id: int, arm: str, dataset: str, page: int) -> dict[str, Any]:
    count, cells = site.ledger.trials(run_id, arm, dataset, PAGE, max(page, 0) * PAGE)
    arms, datasets = site.ledger.names_of(run_id)
    return {
        "run_id": run_id,
        "count": count,
        "cells": cells,
        "arms": arms,
        "datasets": datasets,
        "arm": arm,
        "dataset": dataset,
        "page": max(page, 0),
        "pages": -(-count // PAGE),
    }


@router.get("/runs/{run_id}/trials")
def trials(
    request: Request, site: Here, run_id: int, arm: str = "", dataset: str = "", page: int = 0
) -> Response:
    """A page of a run's trials."""
    _run(site, run_id)
    return site.page(request, "_trials", trials=_trials(site, run_id, arm, dataset, page))


@router.get("/runs/{run_id}/comparison")
def comparison(request: Request, site: Here, run_id: int) -> Response:
    """The arms beside each other: a fragment, because intervals take their time."""
    try:
        made = site.outcomes.comparison(_run(site, run_id))
    except PracticumError as error:
        return site.page(request, "_trouble", error=error)
    figures = [
        plotted(*interval_figure(made.study, made.rows, measure))
        for measure in list(made.study.measures)[:2]
        if any(row.measure == measure for row in made.rows)
    ]
    return site.page(request, "_comparison", made=made, figures=figures)


@router.get("/runs/{run_id}/figures")
def figures(request: Request, site: Here, run_id: int) -> Response:
    """The study's figures: a fragment, because they take their time."""
    try:
        made = site.outcomes.figures(_run(site, run_id))
    except PracticumError as error:
        return site.page(request, "_trouble", error=error)
    return site.page(request, "_figures", figures=made)


@router.get("/runs/{run_id}/report.html")
def report(site: Here, run_id: int) -> Response:
    """The run as one file that needs no server."""
    found = _run(site, run_id)
    return _download(site.outcomes.as_html(found), "text/html", f"{found.slug}-{run_id}.html")


@router.get("/runs/{run_id}/trials.csv")
def table(site: Here, run_id: int) -> Response:
    """Every trial and metric as CSV."""
    found = _run(site, run_id)
    return _download(site.outcomes.as_csv(found), "text/csv", f"{found.slug}-{run_id}.csv")


def _download(body: bytes, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type=kind, headers=headers)


@router.get("/side-by-side")
def side_by_side(request: Request, site: Here) -> Response:
    """Two runs beside each other."""
    chosen = [int(n) for n in request.query_params.getlist("run") if n.isdecimal()]
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise InputError(f"two runs are compared, {len(set(chosen))} chosen", "tick two of them")
    first, second = sorted(_run(site, n).id for n in chosen)
    a, b = _run(site, first), _run(site, second)
    known = catalog.methods().get(a.slug)
    rows, trouble = None, None
    if a.slug == b.slug:
        try:
            rows = beside(site.outcomes.numbers(a), site.outcomes.numbers(b))
        except PracticumError as error:
            trouble = error
    return site.page(
        request,
        "side",
        a=a,
        b=b,
        card=known.card if known and a.slug == b.slug else None,
        verdicts=(site.outcomes.verdicts(a.id), site.outcomes.verdicts(b.id)),
        states=(site.jobs.state(a), site.jobs.state(b)),
        rows=rows,
        trouble=trouble,
        differences=differing(
            {**a.environment, **a.options, "scale": a.scale, "kind": a.kind},
            {**b.environment, **b.options, "scale": b.scale, "kind": b.kind},
        ),
    )
