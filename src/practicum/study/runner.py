"""Run a study: what is stored already is not run again, what ends is stored at once."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import joblib
from threadpoolctl import threadpool_limits

from practicum.errors import InputError, MissingExtra, PracticumError, StoreError
from practicum.study.evidence import Verdict, holm, needs_more
from practicum.study.fingerprint import code_fingerprint
from practicum.study.results import Results
from practicum.study.spec import Outcome, Scale, Study, Trial, split_metrics
from practicum.study.store import Store

EngineName = Literal["local", "ray", "dask"]


class _WorkerDied(BrokenExecutor):
    """A cluster's worker ended without an answer, and nobody else took its trials."""


@dataclass(frozen=True)
class Failure:
    """A trial that raised: the reason in one line, and where it happened."""

    key: str
    label: str
    reason: str
    traceback: str


@dataclass
class Run:
    """What a run left behind."""

    id: int
    results: Results
    verdicts: dict[str, Verdict]
    failures: list[Failure] = field(default_factory=list)
    executed: int = 0
    seconds: float = 0.0


Progress = Callable[[int, int, int], None]  # finished in this run, to do, failed


def run_study(
    study: Study,
    scale: Scale,
    store: Store,
    *,
    engine: EngineName = "local",
    address: str | None = None,
    jobs: int | None = 1,
    fresh: bool = False,
    kind: str = "verify",
    options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run what is missing of a study, then judge its claims on all of it.

    Parameters
    ----------
    study, scale, store
        What to run, how large, and where finished trials are kept.
    engine : {"local", "ray", "dask"}
        Worker processes of this machine, or a cluster through joblib's own backends.
    address : str, optional
        The cluster's address; without it the engine starts a small one here.
    jobs : int or None
        Worker processes; 1 runs in this process, None takes every core there is: of this machine,
        or of the cluster.
    fresh : bool
        Run every trial again, whatever is stored.
    kind, options
        Recorded with the run: ``verify`` or ``compare`` and what was asked.
    progress : callable, optional
        Called as ``progress(finished, total, failed)``.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C or SIGTERM; every trial that had finished is stored.
    StoreError
        The store cannot be written.
    """
    started = time.perf_counter()
    if jobs is None and address is None:
        jobs = cores()
    code = study_code(study)
    keys = trial_keys(study, list(study.trials(scale)), code)
    if fresh:
        store.forget(list(keys))
    done = store.finished(list(keys))
    todo = {key: trial for key, trial in keys.items() if key not in done}
    environment = {**describe_environment(engine, jobs), "code": code, "seeds": scale.n_seeds}
    run_id = store.begin(study.slug, kind, scale.name, options or {}, environment, list(keys))
    run = Run(run_id, Results([], scale), {})
    tell = progress or (lambda finished, total, failed: None)
    try:
        with _sigterm_as_interrupt():
            tell(0, len(todo), 0)
            for batch in _execute(study, todo, engine, address, jobs):
                store.add((key, o) for key, o in batch if isinstance(o, Outcome))
                for key, outcome in batch:
                    if isinstance(outcome, Failure):
                        run.failures.append(outcome)
                        store.fail(run_id, key, outcome.label, outcome.reason, outcome.traceback)
                run.executed += len(batch)
                tell(run.executed, len(todo), len(run.failures))
    except BaseException as error:
        with contextlib.suppress(StoreError):
            store.end(run_id, "interrupted")
        if isinstance(error, BrokenExecutor):
            raise PracticumError(
                f"a worker process died after {run.executed} of {len(todo)} trials",
                "out of memory, perhaps: run again, with fewer --jobs; what had finished is stored",
            ) from error
        raise
    run.results = Results(store.load(list(keys)), scale)
    if kind == "verify":
        run.verdicts = judge(study, run.results)
        if run.failures:
            note = f"\n{len(run.failures)} of {len(keys)} trials failed and are missing."
            run.verdicts = {
                claim: replace(v, sentence=v.sentence + note) for claim, v in run.verdicts.items()
            }
        store.judge(run_id, run.verdicts)
    store.end(run_id, "done")
    run.seconds = time.perf_counter() - started
    return run


def trial_keys(study: Study, grid: Sequence[Trial], code: str) -> dict[str, Trial]:
    """Key -> trial, in the order of the grid; two equal cells are a mistake of the study."""
    data = study.data_fingerprint()
    keys = {trial.key(code, data): trial for trial in grid}
    if len(keys) < len(grid):
        seen: set[Trial] = set()
        twice = next(t for t in grid if t in seen or seen.add(t))  # type: ignore[func-returns-value]
        raise InputError(f"{study.slug}: the trial {twice.label} occurs twice in the grid")
    return keys


def study_code(study: Study) -> str:
    """The code fingerprint of the folder in which this study is written."""
    return code_fingerprint(Path(sys.modules[type(study).__module__].__file__ or "").parent)


def judge(study: Study, results: Results) -> dict[str, Verdict]:
    """A verdict for every claim, with Holm's correction over the claims of the study.

    A claim whose trials have failed cannot be decided: it is inconclusive, with the reason.
    """
    verdicts: dict[str, Verdict] = {}
    for claim, decide in study.claims.items():
        if len(results) == 0:
            verdicts[claim] = needs_more("No trial has finished.")
            continue
        try:
            verdict = decide(results)
            if not isinstance(verdict, Verdict):
                raise TypeError(f"the claim returned {type(verdict).__name__}, not a Verdict")
            verdicts[claim] = verdict
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            verdicts[claim] = Verdict("inconclusive", f"Could not be judged ({reason}).")
    return holm(verdicts)


# --- executing -----------------------------------------------------------------------------------


def _execute(
    study: Study, todo: dict[str, Trial], engine: EngineName, address: str | None, jobs: int | None
) -> Iterator[list[tuple[str, Outcome | Failure]]]:
    """Yield finished groups as they end, in whatever order."""
    if not todo:
        return
    groups: dict[Hashable, list[tuple[str, Trial]]] = defaultdict(list)
    for key, trial in todo.items():
        group = study.group(trial)
        groups[key if group is None else ("group", group)].append((key, trial))
    if engine == "local" and jobs == 1:
        with _one_thread():
            for task in groups.values():
                yield _work(study, task, worker=False)
        return
    with _engine_config(engine, address, jobs) as workers:
        tasks = [part for group in groups.values() for part in _split(group, workers, len(groups))]
        parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
        with _ctrl_c_held():  # the workers are started here, and are born deaf to it
            results = parallel(joblib.delayed(_work)(study, task) for task in tasks)
        yield from results


def cores() -> int:
    """Cores this process may use: a container's or a batch system's limit counts."""
    return int(joblib.cpu_count())


def _split(group: list[Any], jobs: int, n_groups: int) -> list[list[Any]]:
    """Share one large group out when there are fewer groups than workers."""
    parts = max(1, min(len(group), -(-jobs // n_groups)))
    return [group[i::parts] for i in range(parts)]


def _work(
    study: Study, task: list[tuple[str, Trial]], worker: bool = True
) -> list[tuple[str, Outcome | Failure]]:
    """Run one group; what raises is a Failure, and its neighbours are run alone."""
    if worker:
        _limit_this_process()
    finished: list[tuple[str, Outcome | Failure]] = []
    if len(task) > 1:
        with contextlib.suppress(Exception, SystemExit):
            start = time.perf_counter()
            for (key, trial), metrics in zip(
                task, study.run_many([t for _, t in task]), strict=True
            ):
                scalars, curves = split_metrics(trial, metrics)
                seconds, start = time.perf_counter() - start, time.perf_counter()
                finished.append((key, Outcome(trial, scalars, curves, seconds)))
    for key, trial in task[len(finished) :]:
        start = time.perf_counter()
        try:
            scalars, curves = split_metrics(trial, study.run(trial))
            outcome: Outcome | Failure = Outcome(
                trial, scalars, curves, time.perf_counter() - start
            )
        except (Exception, SystemExit) as error:  # wrapped programs call exit
            reason = error.message if isinstance(error, PracticumError) else str(error)
            reason = f"{type(error).__name__}: {' '.join(reason.split())}"
            outcome = Failure(key, trial.label, reason, traceback.format_exc())
        finished.append((key, outcome))
    return finished


_limited = False


def _limit_this_process() -> None:
    """One thread for BLAS, OpenMP and torch in a worker, once; trials are what runs in parallel."""
    global _limited
    if not _limited:
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
        threadpool_limits(1)
        _limited = True
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _begin_worker(runner: int) -> None:
    """A loky worker leaves Ctrl-C to the runner, and ends when the runner was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        threading.Thread(target=_end_with, args=(runner,), daemon=True).start()


def _end_with(runner: int) -> None:
    while os.getppid() == runner:
        time.sleep(1)
    os._exit(1)


@contextlib.contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Child processes inherit the mask: a terminal's Ctrl-C is not for them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The same limit in this process, lifted again afterwards."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        if torch:
            torch.set_num_threads(before)


@contextlib.contextmanager
def _engine_config(engine: EngineName, address: str | None, jobs: int | None) -> Iterator[int]:
    """joblib's backend for this engine and its number of workers; what starts here stops here."""
    if engine == "local":
        jobs = jobs or cores()
        begin: dict[str, Any] = {"initializer": _begin_worker, "initargs": (os.getpid(),)}
        with (
            warnings.catch_warnings(),
            joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1, **begin),
        ):
            # loky replaces a worker whose memory has grown, loses nothing, and says so
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
            yield jobs
    elif engine == "ray":
        with _ray(address, jobs) as there:
            jobs = jobs or there
            with joblib.parallel_config("practicum-ray", n_jobs=jobs):
                yield jobs
    else:
        with _dask(address, jobs) as client:
            jobs = jobs or max(1, sum(client.nthreads().values()))
            with joblib.parallel_config("dask", client=client):
                yield jobs


@contextlib.contextmanager
def _ray(address: str | None, jobs: int | None) -> Iterator[int]:
    """A Ray cluster and the number of its cores."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError as error:
        raise MissingExtra(
            "--engine ray needs Ray", "install it with: pip install 'practicum[ray]'"
        ) from error
    if address and not address.startswith(("ray://", "auto", "local")):
        host, _, port = address.rpartition(":")  # Ray itself would try for minutes
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot reach Ray at {address}: {error}",
                "--address takes HOST:PORT, or ray://HOST:10001",
            ) from error
    start: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    try:
        # "local": never a cluster that happens to run here, or did until it was killed
        where = address or "local"
        ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, **start)
    except Exception as error:
        raise InputError(
            f"cannot reach Ray at {address or 'this machine'}: {error}",
            "--address takes HOST:PORT, or ray://HOST:10001",
        ) from error

    class Unordered(RayBackend):  # its pool has callbacks; joblib's flag is for multiprocessing's
        supports_return_generator = True

    joblib.register_parallel_backend("practicum-ray", Unordered)
    try:
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    except ray.exceptions.RayError as error:
        raise _WorkerDied(str(error).splitlines()[0]) from error
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _dask(address: str | None, jobs: int | None) -> Iterator[Any]:
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError as error:
        raise MissingExtra(
            "--engine dask needs Dask", "install it with: pip install 'practicum[dask]'"
        ) from error
    with contextlib.ExitStack() as stack:
        if address is None:
            cluster = LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=50,
            )
            address = stack.enter_context(cluster).scheduler_address
        try:
            client = stack.enter_context(Client(address, timeout="20s"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot reach the Dask scheduler at {address}: {error}",
                "--address takes tcp://HOST:8786",
            ) from error
        try:
            yield client
        except KilledWorker as error:  # the same trial on several workers, one after another
            raise _WorkerDied(str(error).splitlines()[0]) from error


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """`kill PID` ends a run as Ctrl-C does: cleanly, with what is finished stored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "pot", "torch", "joblib")


def describe_environment(engine: str = "local", jobs: int | None = 1) -> dict[str, Any]:
    """Machine and versions, recorded with every run. No host name, no user name."""
    packages = {}
    for name in ("practicum", *PACKAGES):
        with contextlib.suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": cores(),
        "engine": engine,
        "jobs": jobs or "all",
        "pid": os.getpid(),  # whether an unfinished run still goes on
        "packages": packages,
    }
