"""Runs as processes: started, cancelled, resumed, found again."""

import json
import os
import signal
from dataclasses import replace

import psutil
import pytest
import sqlalchemy as sa

from practicum.errors import InputError
from practicum.web.jobs import Job, Jobs, Order, alive

from .conftest import wait

SLOW = Order("coin", "verify", seeds=20)


def test_an_order_is_a_command():
    order = Order(
        "coin", "compare", "cpu", 2, 5, "ray", "host:1", "/my data/a.csv", {"chance": "0.5; rm"}
    )
    assert order.shell == (
        "practicum compare coin --scale cpu --jobs 2 --data '/my data/a.csv' -o 'chance=0.5; rm' "
        "--seeds 5 --engine ray --address host:1"
    )
    assert order.signature[3] == {"data": ["/my data/a.csv"], "chance": "0.5; rm"}


def started(site):
    """Start 80 trials of a tenth of a second; the job when some have finished."""
    job = site.jobs.start(SLOW)
    run_id = wait(lambda: site.jobs.locate(job).run_id)
    before = site.ledger.progress(site.ledger.run(run_id)).before
    wait(lambda: site.ledger.progress(site.ledger.run(run_id)).stored > before + 2)
    return site.jobs.known[job.id]


def test_a_run_is_cancelled_resumed_killed_and_ended(site, monkeypatch):
    """One story, because every process takes seconds to start."""
    monkeypatch.setenv("COIN_SECONDS", "0.1")
    first = started(site)
    run = site.ledger.run(first.run_id)
    assert site.jobs.state(run) == "running"
    assert site.jobs.start(SLOW).id == first.id  # the same is not started twice
    with pytest.raises(InputError, match="already"):
        site.jobs.start(replace(SLOW, seeds=21))
    assert not any("store" in word for word in psutil.Process(first.pid).cmdline())

    later = Jobs(site.jobs.folder, site.ledger)  # another server
    assert later.of_run(first.run_id) == first
    later.cancel(first)
    wait(lambda: later.state(run_again(site, first)) == "interrupted")
    kept = site.ledger.progress(run).stored
    assert 0 < kept < 80

    second = started(site)
    os.kill(second.pid, signal.SIGKILL)
    wait(lambda: not alive(second))
    assert site.jobs.state(run_again(site, second)) == "died"
    assert site.ledger.progress(run_again(site, second)).stored > kept

    monkeypatch.setenv("COIN_SECONDS", "0")
    third = site.jobs.start(SLOW)
    wait(lambda: not alive(third))
    run = run_again(site, site.jobs.locate(third))
    assert (site.jobs.state(run), site.ledger.progress(run).stored) == ("done", 80)
    assert {v.status for v in site.outcomes.verdicts(run.id).values()} == {"reproduced"}
    assert [first.run_id, second.run_id, run.id] == [1, 2, 3]


def run_again(site, job):
    return site.ledger.run(job.run_id)


def test_a_number_given_to_another_program_is_not_ours():
    assert not alive(Job("x", SLOW, os.getpid(), 0.0, 0, ""))
    assert not alive(Job("x", SLOW, 2**22 + 5, 0.0, 0, ""))


def test_what_was_started_elsewhere_and_is_silent_is_said(site, owner):
    run_id = site.ledger.store.begin("coin", "verify", "smoke", {}, {}, ["a"])
    with site.ledger.store.engine.begin() as db:
        db.execute(sa.text("update runs set started = '2020-01-01T00:00:00+00:00'"))
    assert site.jobs.state(site.ledger.run(run_id)) == "silent"
    assert "has stored nothing for an hour" in owner.get(f"/runs/{run_id}").text
    assert "Going on" not in owner.get("/").text


def test_not_too_many_at_once(site, monkeypatch):
    monkeypatch.setattr("practicum.web.jobs.MOST_RUNNING", 0)
    with pytest.raises(InputError, match="going on"):
        site.jobs.start(SLOW)


def test_a_run_started_elsewhere_is_only_watched(site):
    run_id = site.ledger.store.begin("coin", "verify", "smoke", {}, {}, ["a"])
    run = site.ledger.run(run_id)
    assert site.jobs.of_run(run_id) is None
    assert site.jobs.state(run) == "running"


def test_what_cannot_start_says_why(site, owner):
    data = {"path": "mine.csv", "scale": "smoke", "option.chance": "often"}
    owner.post("/methods/coin/compare", data=data)
    job = next(iter(site.jobs.known.values()))
    wait(lambda: not alive(job))
    page = owner.get(f"/jobs/{job.id}")
    assert "It could not be started" in page.text
    assert "option chance=often" in page.text
    assert "hint: true chance of heads" in page.text
    form = owner.get(f"/methods/coin/compare?path=mine.csv&job={job.id}")
    assert 'value="often"' in form.text
    assert "error: " in owner.get(f"/jobs/{job.id}/log").text


def test_what_is_remembered_is_plain_json(site):
    job = site.jobs._remember(
        Job("abc", Order("coin", "verify", options={"a": "b"}), 1, 2.0, 3, "x")
    )
    kept = json.loads((site.jobs.folder / "abc" / "job.json").read_text())
    assert kept["order"]["options"] == {"a": "b"}
    assert Jobs(site.jobs.folder, site.ledger).known["abc"] == job
