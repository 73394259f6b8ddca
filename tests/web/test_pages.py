"""The pages over HTTP."""

import csv
import io
import re
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from practicum import catalog
from practicum.data.kinds import UserData
from practicum.study.compare import study_on
from practicum.web import pages
from practicum.web.jobs import alive
from practicum.web.live import event

from .conftest import ran, wait


def text(answer):
    """What a person reads."""
    body = re.sub(r"<(script|style).*?</\1>", "", answer.text, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


@pytest.fixture
def compared(site, root):
    """A finished comparison on a person's file."""
    path = str(root / "mine.csv")
    study = study_on(catalog.get("coin").load_study(), UserData.of([path]), {"chance": "0.6"})
    return ran(site, study=study, kind="compare", options={"data": [path], "chance": "0.6"})


# --- home ----------------------------------------------------------------------------------------


def test_home_lists_every_method_by_field(owner):
    page = owner.get("/")
    for method in catalog.methods().values():
        assert f'href="/methods/{method.slug}"' in page.text
    assert "none verified here yet" in page.text


def test_home_shows_verdicts(owner, verified):
    page = text(owner.get("/"))
    assert "✓ C1 reproduced ✓ C2 reproduced" in page
    assert "tried here at smoke scale, which decides little" in page


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("q=BIASED coin", True),
        ("q=coin zebra", False),
        ("field=stats", True),
        ("field=games", False),
        ("reads=table", True),
        ("reads=graph", False),
        ("verdict=reproduced", True),
        ("verdict=not reproduced", False),
        ("verdict=not run", False),
    ],
)
def test_home_filters(owner, verified, query, there):
    assert ("/methods/coin" in owner.get(f"/?{query}").text) is there


def test_markup_in_a_search_is_text(owner):
    assert "<b>x" not in owner.get('/?q="><b>x').text


# --- a file --------------------------------------------------------------------------------------


def test_a_file_says_what_it_is_for(owner):
    page = text(owner.get("/file?path=mine.csv"))
    assert "a table of 3 columns, 2 of them numeric" in page
    assert "Compare coin on this file" in page


def test_a_folder_is_listed(owner, root):
    (root / "sub").mkdir()
    page = owner.get("/file")
    assert "sub/" in page.text
    assert "mine.csv" in page.text
    assert "the folder above" not in page.text
    assert "the folder above" in owner.get("/file?path=sub").text


def test_a_file_of_no_known_kind(owner, root):
    (root / "noise.bin").write_bytes(b"\0\1\2")
    assert "neither text in UTF-8 nor" in text(owner.get("/file?path=noise.bin"))


# --- a method ------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", list(catalog.methods()))
def test_every_method_has_its_page(owner, slug):
    page = owner.get(f"/methods/{slug}")
    card = catalog.get(slug).card
    assert page.status_code == 200
    for claim in card.claims:
        assert f"<b>{claim.id}</b>" in page.text
    assert f"practicum verify {slug}" in page.text


def test_a_method_shows_reported_and_measured(owner, verified):
    page = text(owner.get("/methods/coin"))
    assert re.search(r"C1 the coin falls heads .* 70 % 0\.693 \[0\.\d+, 0\.\d+\] n=6 ✓ repro", page)
    assert "the share of heads is" in page
    assert "decide by the scale cpu" in page


def test_what_a_method_costs_is_shown_where_it_was_measured(owner, tmp_path, monkeypatch):
    assert "strongest peer" not in owner.get("/methods/coin").text
    moved = replace(catalog.get("coin"), folder=tmp_path)
    monkeypatch.setattr(pages.catalog, "get", lambda slug: moved)
    (tmp_path / "benchmark.txt").write_text("2026-11-30; Linux.\n\nflips: 3 x <numpy>\n")
    page = owner.get("/methods/coin").text
    assert "strongest peer" in page
    assert "flips: 3 x &lt;numpy&gt;" in page


def test_the_usage_can_be_copied(owner):
    page = owner.get("/methods/coin")
    assert "bias([1, 1, 0, 1])" in page.text
    assert "practicum use coin flip 7 10" in page.text


def test_an_unknown_method_is_said(owner):
    page = owner.get("/methods/koin")
    assert page.status_code == 404
    assert "did you mean coin?" in text(page)


def test_a_changed_method_is_said(owner, verified, monkeypatch):
    monkeypatch.setattr("practicum.web.outcome.code_of", lambda slug: "new")
    assert "code has changed" in text(owner.get("/methods/coin"))


# --- a run ---------------------------------------------------------------------------------------


def test_a_run_has_everything(owner, verified):
    page = text(owner.get(f"/runs/{verified.id}"))
    for words in ("done at smoke scale", "Verdicts", "numpy", "1 worker", "24 finished trials"):
        assert words in page
    assert "coin estimate 0 flips=50" in page


def test_the_figures_are_data(owner, verified):
    page = owner.get(f"/runs/{verified.id}/figures")
    assert '<script type="application/json">{' in page.text
    assert "Error by arm" in page.text
    assert page.text.count("</script>") == 1  # the caption's own is escaped


def test_a_failed_trial_has_its_reason(owner, site, monkeypatch):
    monkeypatch.setenv("COIN_FAILS", "half3")
    page = text(owner.get(f"/runs/{ran(site).id}"))
    assert "1 failed trial" in page
    assert "coin/half/seed 3 (flips=50) : InputError: the coin rolled under the table" in page
    assert "trials failed and are missing" in page


def test_a_comparison(owner, compared):
    page = text(owner.get(f"/runs/{compared.id}"))
    assert "Comparison of coin on mine.csv" in page
    assert "chance 0.6" in page
    fragment = text(owner.get(f"/runs/{compared.id}/comparison"))
    assert "absolute error: estimate" in fragment
    assert fragment.index("absolute error, lower is better") < fragment.index("heads, higher is")
    assert "first flip cheap the first flip alone" in fragment


def test_downloads(owner, compared, verified):
    for run in (compared, verified):
        html = owner.get(f"/runs/{run.id}/report.html")
        assert "attachment" in html.headers["Content-Disposition"]
        assert "estimate" in html.text
        rows = list(csv.DictReader(io.StringIO(owner.get(f"/runs/{run.id}/trials.csv").text)))
        assert {row["slug"] for row in rows} == {"coin"}
        assert {row["metric"] for row in rows} == {"error", "heads", "seconds"}


def test_a_file_that_has_changed_or_gone_is_said(owner, compared, root):
    (root / "mine.csv").unlink()
    assert "mine.csv is gone or has changed" in text(owner.get(f"/runs/{compared.id}"))
    assert "no such file" in text(owner.get(f"/runs/{compared.id}/comparison"))


def test_data_of_a_run_outside_the_roots_is_not_read(owner, site):
    """A comparison started in a terminal, on a file that the page may not read."""
    options = {"data": ["/etc/passwd"]}
    run_id = site.ledger.store.begin("coin", "compare", "smoke", options, {}, [])
    site.ledger.store.end(run_id, "done")
    assert "outside the folders" in text(owner.get(f"/runs/{run_id}/comparison"))
    assert owner.get(f"/runs/{run_id}/report.html").status_code == 400


def test_a_run_of_a_method_that_is_not_installed_is_shown(owner, site):
    run_id = site.ledger.store.begin("gone", "verify", "smoke", {}, {}, [])
    site.ledger.store.end(run_id, "done")
    assert "Verification of gone" in text(owner.get(f"/runs/{run_id}"))
    assert "no method &#39;gone&#39;" in text(owner.get(f"/runs/{run_id}/figures"))


def test_two_runs_side_by_side(owner, site, verified):
    second = ran(site, seeds=8)
    page = text(owner.get(f"/side-by-side?run={verified.id}&run={second.id}"))
    assert "Runs 1 and 2 side by side" in page
    assert "the same machine, versions, code and options" not in page
    assert "seeds None 8" in page
    third = ran(site, seeds=8)
    again = text(owner.get(f"/side-by-side?run={second.id}&run={third.id}"))
    assert "the same machine, versions, code and options" in again
    assert page.count("equal to the last bit") == 8  # four arms, two measures
    assert re.search(r"n=6 .* n=8", page)


def test_side_by_side_needs_no_file(owner, site, compared, root):
    """What was measured is in the store; the file may be gone, or outside the roots."""
    options = {"data": [str(root / "mine.csv")], "chance": "0.7"}
    study = study_on(catalog.get("coin").load_study(), UserData.of(options["data"]), {})
    second = ran(site, study=study, kind="compare", options=options)
    before = text(owner.get(f"/side-by-side?run={compared.id}&run={second.id}"))
    assert "Means over every stored trial" in before
    (root / "mine.csv").unlink()
    assert text(owner.get(f"/side-by-side?run={compared.id}&run={second.id}")) == before


@pytest.mark.parametrize("query", ["", "run=1", "run=1&run=1", "run=1&run=2&run=3", "run=a&run=b"])
def test_side_by_side_takes_two(owner, verified, query):
    page = owner.get(f"/side-by-side?{query}")
    assert page.status_code == 400
    assert "two runs are compared" in page.text


@pytest.mark.parametrize(
    "path", ["/runs/99", "/runs/99/trials", "/runs/x", "/jobs/none", "/runs/99/events", "/no"]
)
def test_what_is_not_there(owner, path):
    assert owner.get(path).status_code in (404, 422)


def test_pages_of_trials(owner, verified):
    page = owner.get(f"/runs/{verified.id}/trials?arm=half")
    assert "6 finished trials" in page.text


# --- live ----------------------------------------------------------------------------------------


def test_the_events_of_a_finished_run_end_at_once(owner, verified):
    answer = owner.get(f"/runs/{verified.id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    names = re.findall(r"^event: (\w+)$", answer.text, re.M)
    assert names == ["progress", "trials", "tell", "done"]
    assert "24 of 24 trials" in answer.text


def test_a_started_run_is_found_from_its_job(owner, site):
    data = {"scale": "smoke", "jobs": "1", "seeds": "2"}
    page = owner.post("/methods/coin/verify", data=data)
    (job,) = site.jobs.known.values()
    assert f"/jobs/{job.id}" in str(page.history[0].headers["location"])
    wait(lambda: not alive(job))
    assert f"event: begun\ndata: /jobs/{job.id}\n" in owner.get(f"/jobs/{job.id}/events").text
    page = owner.get(f"/jobs/{job.id}")
    assert str(page.url).endswith("/runs/1")
    assert "practicum verify coin --scale smoke --jobs 1 --seeds 2" in page.text


def test_a_server_that_stops_hangs_up(owner, site):
    run_id = site.ledger.store.begin("coin", "verify", "smoke", {}, {}, ["never"])
    threading.Timer(1, site.ending.set).start()
    answer = owner.get(f"/runs/{run_id}/events")
    assert "0 of 1 trials" in answer.text
    assert "event: done" not in answer.text


def test_an_event_of_several_lines():
    assert event("a", "x\ny") == "event: a\ndata: x\ndata: y\n\n"
    assert event("a", "") == "event: a\ndata: \n\n"


# --- the house -----------------------------------------------------------------------------------


def test_a_page_imports_no_method():
    code = (
        "import sys; from practicum.web.app import create_app; from practicum import catalog; "
        "names = [m.module for m in catalog.methods().values()]; "
        "print([n for n in names if n in sys.modules], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


def test_an_unexpected_error_is_a_page_without_a_traceback(stranger, owner, monkeypatch):
    stranger.cookies = owner.cookies

    def broken(*_):
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("practicum.web.pages._tags", broken)
    page = stranger.get("/?verdict=not run")
    assert page.status_code == 500
    assert "ZeroDivisionError: of ours" in page.text
    assert "Traceback" not in page.text
    assert "Content-Security-Policy" in page.headers
