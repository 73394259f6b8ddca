"""Running: what is stored is not run again, what fails is kept apart, what ends is stored."""

import getpass
import json
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest
from lab_study import GroupedLab, Lab
from practicum_toy.study import Coin

from practicum.errors import InputError, PracticumError
from practicum.study import runner
from practicum.study.evidence import Verdict, at_least
from practicum.study.results import Results
from practicum.study.runner import describe_environment, judge, run_study, study_code, trial_keys
from practicum.study.spec import Scale
from practicum.study.store import Store

SMOKE = Scale("smoke")
HERE = ("even", "theirs", 1)  # the trial that misbehaves


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def cells(results):
    """Every number of every trial, to the last bit."""
    return {
        o.trial: (
            {k: np.float64(v).tobytes() for k, v in o.metrics.items()},
            {k: (v.dtype, v.shape, v.tobytes()) for k, v in o.curves.items()},
        )
        for o in results.outcomes
    }


# --- once ----------------------------------------------------------------------------------------


def test_every_trial_runs_once(store, log):
    run = run_study(Lab(log), SMOKE, store)
    assert (len(run.results), run.executed, run.failures) == (12, 12, [])
    assert len(set(Lab(log).executions())) == len(Lab(log).executions()) == 12
    assert store.count() == 12


def test_a_second_run_executes_nothing_and_says_the_same(store, log):
    first = run_study(Lab(log), SMOKE, store)
    second = run_study(Lab(log), SMOKE, store)
    assert second.executed == 0
    assert len(Lab(log).executions()) == 12
    assert cells(second.results) == cells(first.results)
    assert second.verdicts == first.verdicts
    assert [o.trial for o in second.results.outcomes] == [o.trial for o in first.results.outcomes]


def test_more_seeds_run_only_what_is_new(store, log):
    run_study(Lab(log), Scale("smoke", 2), store)
    run = run_study(Lab(log), Scale("smoke", 5), store)
    assert (run.executed, len(run.results)) == (12, 20)
    assert len(set(Lab(log).executions())) == len(Lab(log).executions()) == 20


def test_fewer_seeds_judge_only_those_asked_for(store, log):
    run_study(Lab(log), Scale("smoke", 5), store)
    run = run_study(Lab(log), Scale("smoke", 2), store)
    assert (run.executed, len(run.results)) == (0, 8)


def test_fresh_runs_everything_again(store, log):
    first = run_study(Lab(log), SMOKE, store)
    again = run_study(Lab(log), SMOKE, store, fresh=True)
    assert again.executed == 12
    assert len(Lab(log).executions()) == 24
    assert store.count() == 12
    assert cells(again.results) == cells(first.results)


def test_fresh_leaves_other_studies_alone(store, log):
    run_study(Coin(), SMOKE, store)
    run_study(Lab(log), SMOKE, store, fresh=True)
    assert run_study(Coin(), SMOKE, store).executed == 0


def test_a_trial_is_stored_before_the_next_begins(store, log):
    class Watching(Lab):
        def run(self, trial):
            seen.append(store.count())
            return super().run(trial)

    seen = []
    run_study(Watching(log), SMOKE, store)
    assert seen == list(range(12))


def test_equal_cells_are_refused(sqlite_store, log):
    class Twice(Lab):
        def trials(self, scale):
            return [*super().trials(scale), self.trial("odd", "ours", 1, size=7)]

    with pytest.raises(InputError, match=r"odd/ours/seed 1 .*twice"):
        run_study(Twice(log), SMOKE, sqlite_store)
    assert sqlite_store.count() == 0


def test_keys_follow_the_grid(log):
    study = Lab(log)
    grid = list(study.trials(SMOKE))
    assert list(trial_keys(study, grid, "code").values()) == grid


def test_an_empty_grid_is_a_run_of_nothing(sqlite_store, log):
    class Nothing(Lab):
        def trials(self, scale):
            return []

    run = run_study(Nothing(log), SMOKE, sqlite_store)
    assert len(run.results) == 0
    assert run.verdicts["C1"].status == "needs more"


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_trial_leaves_its_neighbours_alone(store, log, jobs):
    run = run_study(Lab(log, trouble={HERE: "error"}), SMOKE, store, jobs=jobs)
    (failure,) = run.failures
    assert failure.label == "even/theirs/seed 1 (size=7)"
    assert failure.reason == "RuntimeError: boom twice"
    assert "misbehave" in failure.traceback
    assert (run.executed, len(run.results), store.count()) == (12, 11, 11)
    (row,) = store.failures_of(run.id)
    assert (row.key, row.reason) == (failure.key, failure.reason)


def test_the_next_run_tries_a_failed_trial_again_and_only_that(store, log):
    run_study(Lab(log, trouble={HERE: "error"}), SMOKE, store)
    run = run_study(Lab(log), SMOKE, store)
    assert (run.executed, run.failures, len(run.results)) == (1, [], 12)
    assert Lab(log).executions()[12:] == ["run even/theirs/seed 1 (size=7)"]


def test_the_mended_numbers_are_those_of_a_run_without_failures(sqlite_store, log, tmp_path):
    run_study(Lab(log, trouble={HERE: "error"}), SMOKE, sqlite_store)
    mended = run_study(Lab(log), SMOKE, sqlite_store)
    with Store(tmp_path / "other.sqlite") as other:
        clean = run_study(Lab(log), SMOKE, other)
    assert cells(mended.results) == cells(clean.results)


def test_an_expected_error_is_one_line_without_its_hint(sqlite_store, log):
    run = run_study(Lab(log, trouble={HERE: "input error"}), SMOKE, sqlite_store)
    assert run.failures[0].reason == "InputError: the probe is too short"


@pytest.mark.parametrize("how", ["text", "nul", "surrogate", "unpicklable"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_whatever_a_trial_does_the_others_are_kept(store, log, how, jobs):
    run = run_study(Lab(log, trouble={HERE: how}), SMOKE, store, jobs=jobs)
    assert [f.label for f in run.failures] == ["even/theirs/seed 1 (size=7)"]
    assert store.count() == 11


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_trial_that_calls_exit_does_not_end_the_run(sqlite_store, log, jobs):
    """Wrapped command-line programs do."""
    run = run_study(Lab(log, trouble={HERE: "exit"}), SMOKE, sqlite_store, jobs=jobs)
    assert len(run.failures) == 1
    assert sqlite_store.count() == 11


def test_a_worker_that_dies_is_an_expected_error(sqlite_store, log):
    """Killed for want of memory, say: a plain sentence, and what had finished is stored."""
    with pytest.raises(PracticumError) as caught:
        run_study(Lab(log, trouble={HERE: "die"}), SMOKE, sqlite_store, jobs=2)
    assert "worker" in caught.value.message
    assert run_study(Lab(log), SMOKE, sqlite_store).executed < 12


def test_everything_fails(store, log):
    trouble = {(t.dataset, t.arm, t.seed): "error" for t in Lab(log).trials(SMOKE)}
    run = run_study(Lab(log, trouble=trouble), SMOKE, store)
    assert len(run.failures) == 12
    assert run.verdicts["C1"].status == "needs more"
    assert store.run(run.id).status == "done"


def test_a_claim_over_failed_trials_is_not_judged_on_the_rest(sqlite_store, log):
    """``judge``: a claim whose trials have failed cannot be decided."""
    trouble = {(d, "ours", s): "error" for d in ("even", "odd") for s in (0, 2)}
    run = run_study(Lab(log, trouble=trouble), Scale("smoke", 6), sqlite_store)
    assert run.verdicts["C1"].status == "inconclusive" or "failed" in run.verdicts["C1"].sentence


def test_an_interrupt_is_not_a_failure(store, log):
    with pytest.raises(KeyboardInterrupt):
        run_study(Lab(log, trouble={HERE: "interrupt"}), SMOKE, store)
    assert store.run(1).status == "interrupted"
    assert store.latest_run("lab", "verify") is None
    before = store.count()
    assert before == 4  # even/ours 0 1 2, even/theirs 0
    assert run_study(Lab(log), SMOKE, store).executed == 12 - before


# --- groups --------------------------------------------------------------------------------------


def many(log):
    return [line for line in GroupedLab(log).executions() if line.startswith("many")]


def alone(log):
    return [line for line in GroupedLab(log).executions() if line.startswith("run")]


def test_a_group_is_run_at_once(store, log):
    run = run_study(GroupedLab(log), SMOKE, store)
    assert len(run.results) == 16
    assert many(log) == ["many 4"] * 4
    assert alone(log) == []


def test_groups_say_what_single_trials_say(sqlite_store, log):
    grouped = run_study(GroupedLab(log), SMOKE, sqlite_store).results
    study = GroupedLab(log)
    for o in grouped.outcomes:
        single = study.run(o.trial)
        assert o.metrics == {"score": single["score"], "third": single["third"]}
        assert o.curves["image"].tobytes() == single["image"].tobytes()


def test_a_resumed_group_gets_only_what_is_missing(sqlite_store, log):
    run_study(GroupedLab(log, seeds=2), SMOKE, sqlite_store)
    run_study(GroupedLab(log, seeds=4), SMOKE, sqlite_store)
    assert many(log) == ["many 2"] * 8


def test_a_single_missing_trial_is_run_alone(sqlite_store, log):
    run_study(GroupedLab(log, seeds=3), SMOKE, sqlite_store)
    run_study(GroupedLab(log, seeds=4), SMOKE, sqlite_store)
    assert len(alone(log)) == 4


@pytest.mark.parametrize("how", ["error", "text", "input error"])
def test_an_error_in_the_middle_of_a_group(store, log, how):
    """What the group had yielded is kept; it and those after it are run alone."""
    study = GroupedLab(log, trouble={HERE: how})
    run = run_study(study, SMOKE, store)
    assert [f.label for f in run.failures] == ["even/theirs/seed 1 (size=7)"]
    assert store.count() == 15
    assert [line.split()[1] for line in alone(log)] == ["even/theirs/seed"] * 3
    mended = run_study(GroupedLab(log), SMOKE, store)
    assert (mended.executed, len(mended.results)) == (1, 16)


def test_a_group_that_ends_early_is_finished_one_by_one(sqlite_store, log):
    run = run_study(GroupedLab(log, stop_at=2), SMOKE, sqlite_store)
    assert (len(run.results), run.failures) == (16, [])
    assert len(alone(log)) == 8


def test_a_group_that_yields_too_much_loses_nothing(sqlite_store, log):
    run = run_study(GroupedLab(log, surplus=True), SMOKE, sqlite_store)
    assert (len(run.results), run.failures) == (16, [])
    scores = run.results.values("score", arm="ours") - run.results.values("score", arm="theirs")
    assert scores.to_numpy() == pytest.approx(1)


@pytest.mark.parametrize("jobs", [2, 3])
def test_one_large_group_is_shared_out(sqlite_store, log, jobs):
    class OneGroup(GroupedLab):
        def group(self, trial):
            return "all"

    run = run_study(OneGroup(log), SMOKE, sqlite_store, jobs=jobs)
    assert len(run.results) == 16
    assert len(many(log)) == jobs


# --- the same numbers everywhere -----------------------------------------------------------------


@pytest.mark.parametrize("study", [Lab, GroupedLab])
def test_one_process_and_two_say_the_same_to_the_last_bit(tmp_path, log, study):
    with Store(tmp_path / "one.sqlite") as one, Store(tmp_path / "two.sqlite") as two:
        serial = run_study(study(log), SMOKE, one, jobs=1)
        parallel = run_study(study(log), SMOKE, two, jobs=2)
    assert cells(serial.results) == cells(parallel.results)
    assert serial.verdicts == parallel.verdicts


def test_two_runs_in_two_threads_do_not_disturb_each_other(tmp_path, monkeypatch):
    """The local page runs comparisons in threads of one process."""
    monkeypatch.setattr(runner, "study_code", lambda study: "code")
    barrier, failed = threading.Barrier(2), []

    class Together(Lab):
        def run(self, trial):
            if trial == next(iter(self.trials(SMOKE))):
                barrier.wait(10)  # both have begun, neither has ended
            return super().run(trial)

    def work(name):
        try:
            with Store(tmp_path / f"{name}.sqlite") as store:
                run_study(Together(tmp_path / name), SMOKE, store)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# --- progress, record ----------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_counts_up_to_all(sqlite_store, log, jobs):
    told = []
    study = Lab(log, trouble={HERE: "error"})
    run_study(study, SMOKE, sqlite_store, jobs=jobs, progress=lambda *t: told.append(t))
    assert [t[0] for t in told] == list(range(13))
    assert {t[1] for t in told} == {12}
    assert told[0] == (0, 12, 0)
    assert told[-1] == (12, 12, 1)


def test_a_run_leaves_its_verdicts_and_its_grid(store, log):
    run = run_study(Lab(log), SMOKE, store, options={"a": 1})
    row = store.run(run.id)
    assert (row.status, row.scale, row.kind) == ("done", "smoke", "verify")
    assert json.loads(row.options) == {"a": 1}
    assert json.loads(row.environment)["code"] == study_code(Lab(log))
    assert store.verdicts_of(run.id) == run.verdicts
    grid, code = list(Lab(log).trials(SMOKE)), study_code(Lab(log))
    assert store.keys_of(run.id) == list(trial_keys(Lab(log), grid, code))


def test_a_comparison_judges_no_claims(sqlite_store, log):
    run = run_study(Lab(log), SMOKE, sqlite_store, kind="compare")
    assert run.verdicts == {}
    assert sqlite_store.latest_run("lab", "verify") is None
    assert sqlite_store.latest_run("lab", "compare").id == run.id


def test_the_record_names_versions_and_nobody():
    record = json.dumps(describe_environment("local", 2))
    assert np.__version__ in record
    assert socket.gethostname() not in record
    assert getpass.getuser() not in record.replace("root", "") or getpass.getuser() == "root"


# --- judging -------------------------------------------------------------------------------------


def judged(log, claims, results=None):
    study = Lab(log)
    study.claims = claims
    results = results or Results([], SMOKE)
    return judge(study, results)


@pytest.fixture
def results(sqlite_store, log):
    return run_study(Lab(log), SMOKE, sqlite_store).results


def test_no_trials_need_more(log):
    assert judged(log, {"C1": lambda r: 1 / 0})["C1"].status == "needs more"


@pytest.mark.parametrize(
    "wrong",
    [lambda r: 1 / 0, lambda r: r.values("score")["nowhere"], lambda r: None, lambda r: True],
    ids=["divides by zero", "misses a cell", "returns nothing", "returns a bool"],
)
def test_a_claim_that_cannot_be_judged_does_not_hide_the_others(log, results, wrong):
    claims = {"C1": wrong, "C2": lambda r: at_least(r.values("third"), 0.1)}
    verdicts = judged(log, claims, results)
    assert verdicts["C1"].status == "inconclusive"
    assert verdicts["C2"].status == "reproduced"


def test_claims_are_corrected_for_their_number(log, results):
    def weak(r):
        return replace(at_least([0.0, 1.0], 0.5), status="reproduced", p=0.03)

    assert judged(log, {"C1": weak}, results)["C1"].status == "reproduced"
    both = judged(log, {"C1": weak, "C2": weak}, results)
    assert {v.status for v in both.values()} == {"inconclusive"}


def test_a_verdict_that_is_not_about_chance_stays(log, results):
    claims = {"C1": lambda r: Verdict("needs more", "a GPU")}
    assert judged(log, claims, results)["C1"] == Verdict("needs more", "a GPU")
