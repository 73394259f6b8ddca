"""The store, on SQLite and on PostgreSQL: exact, once, and plain about what is wrong."""

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from practicum.errors import StoreError
from practicum.study.evidence import Interval, Verdict, at_least, rate
from practicum.study.spec import Outcome, Trial
from practicum.study.store import Store, default_url

AWKWARD = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "sum": 0.1 + 0.2,
    "least": 5e-324,
    "denormal": 2.2250738585072011e-308,
    "greatest": sys.float_info.max,
    "minus zero": -0.0,
    "third": 1 / 3,
    "next to one": math.nextafter(1, 2),
}


def outcome(seed=0, metrics=None, curves=None, **params):
    trial = Trial("lab", "moons", "ours", seed, tuple(sorted(params.items())))
    return Outcome(trial, metrics or {"score": 1.0}, curves or {}, 0.25)


def key(i):
    return f"{i:064x}"


def bits(x):
    return np.float64(x).tobytes()


# --- what goes in comes out ----------------------------------------------------------------------


def test_a_trial_comes_back_as_it_was(store):
    one = outcome(3, n=100, model="kde", noise=0.1, exact=True, none=None)
    store.add([(key(1), one)])
    (back,) = store.load([key(1)])
    assert back.trial == one.trial
    assert [type(v) for _, v in back.trial.params] == [type(v) for _, v in one.trial.params]
    assert back.seconds == 0.25


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_numbers_come_back_bit_for_bit(store, name):
    store.add([(key(1), outcome(metrics={name: AWKWARD[name]}))])
    (back,) = store.load([key(1)])
    assert bits(back.metrics[name]) == bits(AWKWARD[name])


@given(st.lists(st.floats(), min_size=1, max_size=20))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_numbers_come_back_bit_for_bit(store, numbers):
    store.forget([key(1)])
    store.add([(key(1), outcome(metrics={str(i): x for i, x in enumerate(numbers)}))])
    (back,) = store.load([key(1)])
    plain = [math.nan if math.isnan(x) else x for x in numbers]  # one NaN is as good as another
    assert [bits(x) for x in back.metrics.values()] == [bits(x) for x in plain]


@pytest.mark.parametrize(
    "curve",
    [
        np.array([*AWKWARD.values()]),
        np.frombuffer(bytes.fromhex("010000000000f87f"), dtype="<f8"),  # a NaN with a payload
        np.float32([0.1, np.nan, 1e-45]),
        np.float16([0.1, np.inf]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.empty((0, 3)),
        np.arange(24.0).reshape(2, 3, 4),
        np.arange(10.0)[::2],
    ],
    ids=["awkward", "payload", "f4", "f2", "fortran", "empty", "3-d", "strided"],
)
def test_curves_come_back_bit_for_bit(store, curve):
    store.add([(key(1), outcome(curves={"path": curve}))])
    back = store.load([key(1)])[0].curves["path"]
    assert (back.dtype, back.shape) == (curve.dtype, curve.shape)
    assert back.tobytes() == curve.tobytes()


@pytest.mark.parametrize(
    "name", ["loss", "loss/train", "σ²", "a b", "x.npy", "file", "arr_0", "allow_pickle"]
)
def test_a_curve_may_have_any_name(store, name):
    store.add([(key(1), outcome(curves={name: np.arange(3.0)}))])
    assert list(store.load([key(1)])[0].curves) == [name]


def test_order_is_the_callers_and_what_is_missing_is_left_out(store):
    store.add([(key(i), outcome(i)) for i in range(4)])
    assert [o.trial.seed for o in store.load([key(2), key(9), key(0)])] == [2, 0]
    assert store.finished([key(2), key(9)]) == {key(2)}


def test_thousands_of_keys_at_once(store):
    keys = [key(i) for i in range(1203)]
    store.add((k, outcome(i)) for i, k in enumerate(keys))
    assert store.count() == len(store.finished(keys)) == len(store.load(keys)) == 1203
    store.forget(keys[:1100])
    assert store.count() == 103


def test_a_trial_is_there_once_and_the_first_stays(store):
    store.add([(key(1), outcome(metrics={"score": 1.0}))])
    store.add([(key(1), outcome(metrics={"score": 2.0})), (key(2), outcome(1))])
    assert store.count() == 2
    assert store.load([key(1)])[0].metrics == {"score": 1.0}


def test_a_large_seed_is_a_seed(store):
    store.add([(key(1), outcome(2**40))])
    assert store.load([key(1)])[0].trial.seed == 2**40


def test_another_connection_sees_it_at_once(store, url):
    store.add([(key(1), outcome())])
    with Store(url) as other:
        assert other.count() == 1


def test_nothing_is_no_error(store):
    store.add([])
    store.forget([])
    assert store.load([]) == []
    assert store.finished([]) == set()
    assert store.count() == 0


# --- runs ----------------------------------------------------------------------------------------


def begin(store, scale="cpu", keys=(), slug="lab", kind="verify"):
    return store.begin(slug, kind, scale, {"data": ["a.csv"]}, {"cores": 2}, list(keys))


def test_a_run_is_recorded(store):
    run = begin(store, keys=[key(2), key(1)])
    row = store.run(run)
    assert (row.slug, row.kind, row.scale, row.status) == ("lab", "verify", "cpu", "running")
    assert json.loads(row.options) == {"data": ["a.csv"]}
    assert store.keys_of(run) == [key(2), key(1)]
    store.end(run, "done")
    assert store.run(run).status == "done"
    assert store.run(run).ended >= row.started


def test_the_latest_run_is_the_newest_that_finished(store):
    first, second, third = begin(store), begin(store, "smoke"), begin(store)
    assert store.latest_run("lab", "verify") is None
    store.end(first, "done")
    store.end(second, "done")
    store.end(third, "interrupted")
    assert store.latest_run("lab", "verify").id == second
    assert store.latest_run("lab", "verify", "cpu").id == first
    assert store.latest_run("lab", "compare") is None
    assert store.latest_run("other", "verify") is None
    assert store.run(99) is None


def test_failures_belong_to_their_run(store):
    run = begin(store)
    store.fail(run, key(1), "moons/ours/seed 0", "ValueError: no", "Traceback ...")
    store.fail(run, key(1), "moons/ours/seed 0", "ValueError: again", "Traceback ...")
    (row,) = store.failures_of(run)
    assert (row.key, row.label, row.reason) == (key(1), "moons/ours/seed 0", "ValueError: no")
    assert store.failures_of(begin(store)) == []


@pytest.mark.parametrize(
    "text", ["naïve 🤖", "a\0b", os.fsdecode(b"caf\xe9"), "'; DROP TABLE runs"]
)
def test_a_failure_may_say_anything(store, text):
    """Messages quote what a model or a file said: zero bytes, names that are not UTF-8."""
    run = begin(store)
    store.fail(run, key(1), "label", text, text)
    assert len(store.failures_of(run)) == 1


VERDICTS = {
    "plain": at_least([0.9, 0.92, 0.91, 0.93, 0.9], 0.5, "accuracy"),
    "one value": at_least([1.0], 0.5),
    "nothing": at_least([], 0.5),
    "no numbers": Verdict("needs more", "a GPU"),
    "exact": rate(3, 10, low=0.9),
    "counted by numpy": rate((np.arange(10) < 3).sum(), np.int64(10), low=0.9),
    "infinite": Verdict("inconclusive", "∞", math.inf, Interval(-math.inf, math.inf)),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_come_back(store, name):
    run = begin(store)
    store.judge(run, {"C1": VERDICTS[name]})
    np.testing.assert_equal(fields(store.verdicts_of(run)["C1"]), fields(VERDICTS[name]))


def fields(verdict):
    return {**vars(verdict), "interval": verdict.interval and vars(verdict.interval)}


def test_judging_again_replaces_the_verdicts(store):
    run = begin(store)
    store.judge(run, {"C1": Verdict("reproduced", "a"), "C2": Verdict("reproduced", "b")})
    store.judge(run, {"C1": Verdict("partly", "c")})
    assert {k: v.status for k, v in store.verdicts_of(run).items()} == {"C1": "partly"}
    store.judge(run, {})
    assert store.verdicts_of(run) == {}


# --- several processes ---------------------------------------------------------------------------


def test_many_may_open_a_new_store_at_once(url):
    def use(i):
        with Store(url) as mine:
            mine.add([(key(j), outcome(j)) for j in range(5)])
            mine.add([(key(100 + i), outcome(i))])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    with Store(url) as store:
        assert store.count() == 5 + 8


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_store_whose_creation_was_cut_short_is_completed(url, cut):
    """kill -9 at the very first run, between one CREATE and the next."""
    created = []

    def stop(connection, cursor, statement, *_):
        created.append(statement.lstrip().startswith("CREATE"))
        if sum(created) == cut:
            raise KeyboardInterrupt

    sa.event.listen(sa.Engine, "before_cursor_execute", stop)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            Store(url).close()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", stop)
    with Store(url) as store:
        store.add([(key(1), outcome())])
        assert store.count() == 1


def test_two_processes_may_run_one_study_at_once(url, environment):
    command = [sys.executable, "-m", "practicum", "verify", "coin", "--jobs", "1", "--store", url]
    both = [
        subprocess.Popen(
            command,
            env={**environment, "COIN_SECONDS": "0.01"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    with Store(url) as store:
        assert store.count() == 80
        assert store.latest_run("coin", "verify").id == 2
        assert len(store.load(store.keys_of(1))) == len(store.load(store.keys_of(2))) == 80


# --- what can be wrong with a store --------------------------------------------------------------


def refusal(url):
    """The error of opening ``url``: a StoreError of one line with a hint."""
    with pytest.raises(StoreError) as caught:
        Store(url)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me@localhost/results",
        "redis://localhost",
        "://",
        "sqlite+nosuch:///x.sqlite",
        "sqlite+aiosqlite:///x.sqlite",
        "postgresql+nosuch://localhost/results",
        "postgresql://localhost:port/results",
        "postgresql://localhost:99999999/results",
        "sqlite://host/x.sqlite",
    ],
)
def test_a_url_that_makes_no_sense(url):
    refusal(url)


@pytest.mark.parametrize(
    "url", ["postgresql://127.0.0.1:1/results", "postgresql://no.such.host.invalid/results"]
)
def test_a_server_that_is_not_there(url):
    assert "127.0.0.1" in refusal(url) or "no.such.host.invalid" in refusal(url)


@pytest.mark.slow
def test_a_server_that_never_answers(environment):
    """A firewall that drops packets: say so after a while instead of hanging for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/results"
        code = f"from practicum.study.store import Store; Store({url!r})"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=45,
        )
    assert "StoreError" in done.stderr


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@127.0.0.1:1/results", "postgresql://me:secret@h:port/results"]
)
def test_a_password_is_never_shown(url):
    with pytest.raises(StoreError) as caught:
        Store(url)
    assert "secret" not in str(caught.value)


def test_a_folder(tmp_path):
    refusal(tmp_path)


@pytest.mark.parametrize("content", [b"name,score\nAda,1\n" * 100, b"\x80\x01" * 4000])
def test_a_file_that_is_no_database(tmp_path, content):
    file = tmp_path / "scores.csv"
    file.write_bytes(content)
    assert str(file) in refusal(file)
    assert file.read_bytes() == content


def test_a_path_through_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    refusal(tmp_path / "file" / "store.sqlite")


@contextlib.contextmanager
def nobody():
    """Without root's rights, which would make every folder writable."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def guarded():
    """A folder that everyone may read and nobody may write."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        yield Path(folder)
        os.chmod(folder, 0o755)


@pytest.mark.parametrize("name", ["store.sqlite", "new folder/store.sqlite"])
def test_a_folder_that_cannot_be_written(guarded, name):
    with nobody():
        refusal(guarded / name)


def test_a_store_that_cannot_be_written(guarded):
    os.chmod(guarded, 0o755)
    Store(guarded / "store.sqlite").close()
    os.chmod(guarded / "store.sqlite", 0o444)
    os.chmod(guarded, 0o555)
    with nobody():
        refusal(guarded / "store.sqlite")


def set_schema(url, version):
    with Store(url) as store, store.engine.begin() as db:
        db.execute(sa.text(f"UPDATE practicum_meta SET value = '{version}' WHERE key = 'schema'"))


def test_a_store_of_a_newer_practicum_is_refused(url):
    set_schema(url, 2)
    with pytest.raises(StoreError, match="newer Practicum") as caught:
        Store(url)
    assert "upgrade" in caught.value.hint


def test_somebody_elses_database_is_refused(tmp_path):
    """An SQLite file with a table of the same name and other columns."""
    file = tmp_path / "lab.sqlite"
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE trials (name TEXT)"))
    engine.dispose()
    with pytest.raises(StoreError), Store(file) as store:
        store.finished([key(1)])


READS_AND_WRITES = {
    "finished": lambda s: s.finished([key(1)]),
    "load": lambda s: s.load([key(1)]),
    "count": lambda s: s.count(),
    "begin": begin,
    "latest_run": lambda s: s.latest_run("lab", "verify"),
    "keys_of": lambda s: s.keys_of(1),
    "verdicts_of": lambda s: s.verdicts_of(1),
    "failures_of": lambda s: s.failures_of(1),
    "add": lambda s: s.add([(key(1), outcome())]),
    "forget": lambda s: s.forget([key(1)]),
    "end": lambda s: s.end(1, "done"),
}


@pytest.mark.parametrize("name", ["finished", "add"])
def test_a_store_damaged_during_a_run_is_a_store_error(sqlite_store, name):
    """Its tables overwritten, as a failing disk would."""
    sqlite_store.add((key(i), outcome(i)) for i in range(500))
    with sqlite_store.engine.connect() as db:
        db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(sa.make_url(sqlite_store.url).database)
    with file.open("r+b") as handle:
        handle.seek(4096)
        handle.write(b"\xff" * (file.stat().st_size - 4096))
    with pytest.raises(StoreError) as caught:
        READS_AND_WRITES[name](sqlite_store)
    assert caught.value.hint


@pytest.mark.parametrize("name", READS_AND_WRITES)
def test_a_lost_server_is_a_store_error(postgres_url, name):
    with Store(postgres_url) as store:
        lose_server(store)
        with pytest.raises(StoreError) as caught:
            READS_AND_WRITES[name](store)
        assert caught.value.hint


def lose_server(store):
    """Every connection is dropped and no new one is let in."""
    database = sa.make_url(store.url).database
    admin = sa.create_engine(
        sa.make_url(store.url).set(database="postgres"),
        isolation_level="AUTOCOMMIT",
        poolclass=sa.NullPool,
    )
    with admin.connect() as db:
        db.execute(sa.text(f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS false"))
        db.execute(
            sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": database},
        )


def test_a_connection_that_broke_is_opened_again(postgres_url):
    """A server that restarted during a long study: the next write is not lost for that."""
    with Store(postgres_url) as store:
        database = sa.make_url(store.url).database
        lose_server(store)
        admin = sa.create_engine(
            sa.make_url(store.url).set(database="postgres"),
            isolation_level="AUTOCOMMIT",
            poolclass=sa.NullPool,
        )
        with admin.connect() as db:
            db.execute(sa.text(f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS true"))
        with contextlib.suppress(StoreError):
            store.add([(key(1), outcome(1))])
        store.add([(key(2), outcome(2))])
        assert store.finished([key(2)]) == {key(2)}


# --- where it lives ------------------------------------------------------------------------------


def test_the_default_store(monkeypatch, tmp_path):
    monkeypatch.setenv("PRACTICUM_STORE", "here.sqlite")
    assert default_url() == "here.sqlite"
    monkeypatch.delenv("PRACTICUM_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Path(default_url()).name == "results.sqlite"


def test_a_plain_name_a_home_and_new_folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("plain.sqlite", "~/home.sqlite", "new/folders/store.sqlite"):
        Store(name).close()
    assert (tmp_path / "plain.sqlite").exists()
    assert (tmp_path / "home.sqlite").exists()
    assert (tmp_path / "new" / "folders" / "store.sqlite").exists()


def test_the_postgres_scheme_of_hosting_providers(postgres_url):
    with Store(postgres_url.replace("postgresql://", "postgres://")) as store:
        assert store.count() == 0
        assert "psycopg" in store.url


def test_a_closed_store_may_be_moved(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        store.add([(key(1), outcome())])
    (tmp_path / "a.sqlite").rename(tmp_path / "b.sqlite")
    with Store(tmp_path / "b.sqlite") as store:
        assert store.count() == 1


def test_a_connection_that_was_dropped_between_two_trials_is_opened_again(postgres_url):
    """A trial of an hour is long enough for a firewall, or for a restart of the server."""
    with Store(postgres_url) as store:
        store.count()
        others = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
        there = "pg_backend_pid() and datname = current_database()"
        admin = sa.create_engine(store.url, poolclass=sa.NullPool)
        with admin.begin() as db:
            assert db.exec_driver_sql(others + there).all()
        store.add([("a key", outcome())])
        assert store.finished(["a key"]) == {"a key"}
        store.end(store.begin("s", "verify", "cpu", {}, {}, ["a key"]), "done")
