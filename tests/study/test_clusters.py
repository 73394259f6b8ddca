"""Clusters as people have them: started apart, two workers on loopback, one of them killed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from practicum.study.store import Store

TRIALS = 24


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, seconds=60):
    """Until ``condition()`` is true; what it returned."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not so after {seconds} s: {condition}")


def listening(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def started(environment):
    """Start a command in a session of its own; the whole session is killed at the end."""
    processes = []

    def start(*words, **extra):
        process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**environment, **extra},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def dask_cluster(started, tmp_path):
    """A scheduler and two workers of one thread, whose trials take ``COIN_SECONDS``."""
    pytest.importorskip("distributed")
    port = free_port()
    common = ("--no-dashboard", "--host", "127.0.0.1")
    started("-m", "dask", "scheduler", "--port", port, *common)
    wait_for(lambda: listening(port))
    address = f"tcp://127.0.0.1:{port}"
    words = ("-m", "dask", "worker", address, "--nthreads", 1, "--no-nanny", *common)
    local = ("--local-directory", tmp_path)
    return address, [started(*words, *local, COIN_SECONDS="0.2") for _ in range(2)]


@pytest.fixture
def ray_cluster(started, tmp_path):
    """A head of two cores, with which two worker processes are started when needed."""
    pytest.importorskip("ray")
    port = free_port()
    words = ("-m", "ray.scripts.scripts", "start", "--head", "--block", "--port", port)
    quiet = ("--num-cpus", 2, "--include-dashboard", "false", "--disable-usage-stats")
    # a folder of its own, not below tmp_path (sockets' names are short): in Ray's usual one it
    # would leave a note that every other ray.init() here follows
    own = Path(tempfile.mkdtemp(prefix="ray-"))
    started(*words, *quiet, "--temp-dir", own, COIN_SECONDS="0.3", RAY_CLUSTER_OF=str(tmp_path))
    wait_for(lambda: listening(port))
    time.sleep(3)  # the port answers before the head does
    yield f"127.0.0.1:{port}"
    for pid in ray_processes(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(own, ignore_errors=True)


def ray_processes(cluster, name=""):
    """Processes that inherited this cluster's environment and whose command line has the name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"RAY_CLUSTER_OF={cluster}".encode() in (entry / "environ").read_bytes()
            if ours and name.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def verify(started, file, engine, address):
    """A verification on the cluster, started."""
    words = ("-m", "practicum", "verify", "coin", "--scale", "smoke", "--store", file)
    return started(*words, "--engine", engine, "--address", address)


def stored(file):
    """How many trials have been stored so far."""
    if not file.exists():
        return 0
    with Store(file) as store:
        return store.count()


def test_a_dask_worker_killed_in_mid_run(started, dask_cluster, tmp_path):
    address, workers = dask_cluster
    file = tmp_path / "dask.sqlite"
    run = verify(started, file, "dask", address)
    before = wait_for(lambda: stored(file))
    workers[0].kill()
    assert run.wait(timeout=60) == 0  # the other worker took its trials over
    assert stored(file) == TRIALS > before


def test_a_ray_worker_killed_in_mid_run(started, ray_cluster, tmp_path):
    file = tmp_path / "ray.sqlite"
    run = verify(started, file, "ray", ray_cluster)
    before = wait_for(lambda: stored(file))
    os.kill(wait_for(lambda: ray_processes(tmp_path, "ray::PoolActor"))[0], signal.SIGKILL)
    status = run.wait(timeout=90)
    assert stored(file) >= before  # nothing that had ended is lost
    if status:  # Ray gives up; the next run goes on from the store
        assert verify(started, file, "ray", ray_cluster).wait(timeout=90) == 0
    assert stored(file) == TRIALS
