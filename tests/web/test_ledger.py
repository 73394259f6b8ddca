"""What the store says about runs."""

import pytest
import sqlalchemy as sa

from practicum.study.evidence import Verdict
from practicum.study.spec import Outcome, Trial


def outcomes(n, slug="coin", start=0):
    for i in range(start, start + n):
        trial = Trial(slug, "data", f"arm{i % 2}", i, (("n", 5),))
        yield f"{slug}{i}", Outcome(trial, {"error": i / 10}, {}, 0.5)


@pytest.fixture
def begin(site):
    """Record a run over the first ``n`` of its trials, of which ``stored`` have finished."""

    def made(n, stored, *, scale="smoke", kind="verify", status=None, verdicts=(), slug="coin"):
        store = site.ledger.store
        keys = [f"{slug}{i}" for i in range(n)]
        run_id = store.begin(slug, kind, scale, {}, {"code": "x"}, keys)
        store.add(outcomes(stored, slug))
        store.judge(run_id, {c: Verdict(s, "It was so.") for c, s in dict(verdicts).items()})
        if status:
            store.end(run_id, status)
        return site.ledger.run(run_id)

    return made


def test_progress_counts_what_has_finished_and_failed(site, begin):
    run = begin(10, 4)
    site.ledger.store.fail(run.id, "coin9", "data/arm1/seed 9", "it broke", "Traceback")
    progress = site.ledger.progress(run)
    assert (progress.total, progress.stored, progress.failed, progress.done) == (10, 4, 1, 5)


def test_what_earlier_runs_have_stored_says_nothing_about_the_pace(site, begin):
    begin(10, 8)
    with site.ledger.store.engine.begin() as db:
        db.execute(sa.text("update trials set finished = '2020-01-01T00:00:00+00:00'"))
    progress = site.ledger.progress(begin(10, 8))
    assert (progress.before, progress.left) == (8, None)


def test_the_time_left_follows_the_pace(site, begin):
    from practicum.web.ledger import Progress

    assert Progress(total=10, stored=6, before=2, failed=0, elapsed=8.0).left == 8.0
    assert Progress(total=10, stored=10, before=0, failed=0, elapsed=8.0).left == 0.0
    assert Progress(total=0, stored=0, before=0, failed=0, elapsed=0.0).left is None


def test_the_largest_scale_is_shown(site, begin):
    begin(2, 2, scale="cpu", status="done", verdicts={"C1": "partly"})
    begin(2, 2, scale="smoke", status="done", verdicts={"C1": "reproduced"})
    begin(2, 2, scale="cpu", status="done", verdicts={"C1": "not reproduced"})
    begin(2, 2, scale="paper", status="interrupted", verdicts={})
    glance = site.ledger.glances()["coin"]
    assert (glance.scale, glance.run_id, glance.verdicts) == ("cpu", 3, {"C1": "not reproduced"})


def test_trials_come_in_pages_and_by_arm(site, begin):
    run = begin(25, 25)
    count, cells = site.ledger.trials(run.id, limit=10, offset=20)
    assert (count, [cell.seed for cell in cells]) == (25, [20, 21, 22, 23, 24])
    count, cells = site.ledger.trials(run.id, arm="arm1", limit=3)
    assert (count, [cell.seed for cell in cells]) == (12, [1, 3, 5])
    assert cells[0].metrics == {"error": 0.1}
    assert site.ledger.names_of(run.id) == (["arm0", "arm1"], ["data"])


def test_home_looks_at_no_trial(owner, site, begin):
    """A hundred thousand trials cost the home page one count over an index."""
    begin(3, 3, status="done", verdicts={"C1": "reproduced"})
    said = []

    def note(_conn, _cursor, statement, *_):
        said.append(" ".join(statement.split()))

    sa.event.listen(site.ledger.store.engine, "before_cursor_execute", note)
    assert owner.get("/").status_code == 200
    of_trials = [line for line in said if "trials" in line.replace("run_trials", "")]
    assert of_trials == ["SELECT count(*) AS count_1 FROM trials"]
    assert len(said) < 8


def test_a_broken_store_is_said(owner, site):
    with site.ledger.store.engine.begin() as db:
        db.execute(sa.text("drop table verdicts"))
    answer = owner.get("/")
    assert answer.status_code == 503
    assert "cannot read the store" in answer.text
