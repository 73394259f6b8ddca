"""The same study on one process, several, Dask and Ray: the same numbers to the last bit."""

import subprocess
import sys

import pytest
from practicum_toy.study import Coin

from practicum.study.runner import run_study
from practicum.study.spec import Scale
from practicum.study.store import Store


def numbers(file):
    """Key -> the bits of every metric and curve, of every trial in a store."""
    with Store(file) as store:
        keys = store.keys_of(store.latest_run("coin", "verify").id)
        outcomes = store.load(keys)
    assert len(outcomes) == len(keys) == 24
    return {
        key: (
            {name: value.hex() for name, value in o.metrics.items()},
            {name: (c.dtype.str, c.shape, c.tobytes()) for name, c in o.curves.items()},
        )
        for key, o in zip(keys, outcomes, strict=True)
    }


@pytest.fixture
def run(practicum, tmp_path):
    def run(name, *options, env=None):
        file = tmp_path / f"{name}.sqlite"
        done = practicum("verify", "coin", "--scale", "smoke", "--store", file, *options, env=env)
        assert "24 trials run" in done.stdout
        return numbers(file)

    return run


@pytest.fixture
def serial(tmp_path):
    """The numbers of this very process."""
    file = tmp_path / "serial.sqlite"
    with Store(file) as store:
        run_study(Coin(), Scale("smoke"), store)
    return numbers(file)


def test_two_processes(run, serial):
    assert run("two", "--jobs", 2) == serial


def test_dask(run, serial):
    pytest.importorskip("distributed")
    assert run("dask", "--engine", "dask", "--jobs", 2) == serial


def test_ray(run, serial):
    pytest.importorskip("ray")
    assert run("ray", "--engine", "ray", "--jobs", 2) == serial


def test_the_number_of_threads_outside_does_not_matter(run, serial):
    assert run("threads", "--jobs", 1, env={"OMP_NUM_THREADS": "4"}) == serial


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "address"), [("dask", "tcp://127.0.0.1:1"), ("ray", "127.0.0.1:1")]
)
def test_a_cluster_that_is_not_there(practicum, engine, address):
    pytest.importorskip({"dask": "distributed"}.get(engine, engine))
    done = practicum(
        "verify", "coin", "--engine", engine, "--address", address, code=2, timeout=120
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert address in errors[0]
    assert "hint:" in done.stderr


def test_an_address_that_makes_no_sense(practicum):
    pytest.importorskip("distributed")
    done = practicum("verify", "coin", "--engine", "dask", "--address", "nowhere:x:y", code=2)
    assert "hint: --address takes tcp://HOST:8786" in done.stderr


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_an_engine_that_is_not_installed(practicum, tmp_path, engine, package):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        f"import sys\nsys.modules[{package!r}] = None\n"
    )
    path = subprocess.os.pathsep.join([str(tmp_path / "broken"), *toy_path()])
    done = practicum("verify", "coin", "--engine", engine, code=2, env={"PYTHONPATH": path})
    assert f"pip install 'practicum[{engine}]'" in done.stderr


def toy_path():
    return [p for p in sys.path if p.endswith("toy")]
