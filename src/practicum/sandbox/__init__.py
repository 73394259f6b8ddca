"""Runs programs written by models or users, so that they cannot hurt the machine or the score.

Every program is a process of its own, forked from a small interpreter that has the usual standard
modules loaded (so one waits about a millisecond for a program, not for a fresh Python). It has
no network, no other processes, no files but Python's own (read only) and a scratch folder in memory
that the next program does not see, and limits on processor time, wall time, memory, output and
files. What holds it, strongest first:

``namespaces``
    Linux: process, mount, network and IPC namespaces, a file system without ``/proc`` and without
    the user's files, another user or no capabilities, an allow list of system calls (seccomp).
``seccomp``
    Linux where namespaces are not to be had (many containers, Ubuntu for ordinary users): the same
    allow list without any call that writes a file, and Landlock or another user against reading.
    There is no scratch folder.
``none``
    Time and memory limits alone. Only with ``unsafe_no_sandbox=True``; otherwise, where neither of
    the above works (macOS, Windows, unknown processors), programs are refused.

Who says that a program passed?
    A bare program passed when it ran to its last line: neither ``os._exit(0)`` nor ``sys.exit()``
    nor printing anything gets there. It still speaks for itself, as tests in the same process
    always do. Where tests and program should not trust each other, hand over the tests as
    ``Program(text, check=..., entry_point=...)``: they run in a second process that the program
    cannot reach, only plain values cross, and it can pass by no other way than by answering right.

>>> from practicum.sandbox import Program, Sandbox
>>> with Sandbox(cpu_s=2, memory_mb=256) as sandbox:
...     right = sandbox.run(Program("def f(x): return 2 * x", "assert f(4) == 8", "f"))
...     early = sandbox.run("import os; os._exit(0)")
...     bomb = sandbox.run("while True: pass", cpu_s=1)
>>> right.status, early.status, bomb.status
('passed', 'exited', 'timeout')
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from practicum.errors import SandboxError
from practicum.sandbox._worker import Worker

Status = Literal["passed", "failed", "exited", "timeout", "memory", "output", "forbidden", "killed"]
Level = Literal["namespaces", "seccomp", "none"]
LEVELS: tuple[Level, ...] = ("namespaces", "seccomp")

__all__ = ["Outcome", "Program", "Sandbox", "capabilities"]


@dataclass(frozen=True)
class Program:
    """A program, and optionally the tests it has to pass.

    Parameters
    ----------
    text : str
        Python source.
    check : str, optional
        Trusted Python source run in another process, in which the name `entry_point` stands for
        the program's function. If it defines ``check(candidate)`` (HumanEval), that is called;
        otherwise its statements are the test. Arguments and results are numbers, strings, bytes,
        lists, tuples, dicts and sets; a list, dict or set that is an argument and was changed in
        place, inside others too, is changed for the check. What arguments and result of one call
        share is shared on the other side; between two calls the program's copies are its own. A
        program that leaves while it is asked has failed, whatever the check catches.
    entry_point : str
        The name of the program's function; needed with a check.
    setup : str
        Trusted source run before `check`: helpers the tests use.
    stdin : str
        What the program reads from standard input.
    """

    text: str
    check: str | None = None
    entry_point: str = ""
    setup: str = ""
    stdin: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes
    ----------
    status : str
        ``passed``: it ran to its end (or answered its check right). ``failed``: an exception or a
        failed assertion. ``exited``: it left before its end. ``timeout``, ``memory``, ``output``: a
        limit. ``forbidden``: it ended on something the sandbox refused. ``killed``: by a signal.
    reason : str
        One line.
    stdout, stderr : str
        Cut at the limit of output.
    exit_code : int or None
        Negative: the signal's number. None: ended by the sandbox.
    seconds, cpu_seconds : float
        Wall and processor time. A program that passed is not waited for while it ends; its
        processor time is then what its own process tells.
    """

    status: Status
    reason: str
    stdout: str
    stderr: str
    exit_code: int | None
    seconds: float
    cpu_seconds: float

    @property
    def passed(self) -> bool:
        """Whether the status is ``passed``."""
        return self.status == "passed"


class Sandbox:
    """Workers that run programs.

    Parameters
    ----------
    cpu_s : float
        Processor time of a program. Rounded up to whole seconds where the kernel counts it.
    wall_s : float, optional
        Time on the clock; by default four times `cpu_s` and a second.
    memory_mb : int
        Address space of a program.
    file_mb : int
        Size of one file, and of the scratch folder.
    output_kb : int
        Of standard output and of standard error; a program that writes more is ended.
    workers : int
        How many programs run at once.
    preload : sequence of str
        Further modules that programs find already imported (``"numpy"``).
    unsafe_no_sandbox : bool
        Run programs even where nothing holds them. They can then do what you can do.

    Raises
    ------
    SandboxError
        This machine cannot hold programs, or a limit is not positive.
    """

    def __init__(
        self,
        cpu_s: float = 2.0,
        wall_s: float | None = None,
        memory_mb: int = 512,
        *,
        file_mb: int = 16,
        output_kb: int = 256,
        workers: int = 1,
        preload: Sequence[str] = (),
        unsafe_no_sandbox: bool = False,
    ) -> None:
        wall_s = 4 * cpu_s + 1 if wall_s is None else wall_s
        limits = {
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "memory_mb": memory_mb,
            "file_mb": file_mb,
            "output_kb": output_kb,
            "workers": workers,
        }
        _must_be_positive(limits)
        if memory_mb < 64:
            raise SandboxError(f"memory_mb is {memory_mb}: Python itself needs 64")
        self.limits = {
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "memory_bytes": memory_mb << 20,
            "file_bytes": file_mb << 20,
            "output_bytes": output_kb << 10,
        }
        self.preload = tuple(preload)
        self.level = _level(unsafe_no_sandbox)
        self.workers = workers
        self._idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        for _ in range(workers):
            self._idle.put(None)  # started when first used

    def run(
        self,
        program: str | Program,
        stdin: str = "",
        *,
        cpu_s: float | None = None,
        wall_s: float | None = None,
    ) -> Outcome:
        """Run one program.

        Parameters
        ----------
        program : str or Program
        stdin : str
            Standard input of a program given as text.
        cpu_s, wall_s : float, optional
            Limits for this program alone.

        Raises
        ------
        SandboxError
            No worker can be started, a limit is not positive, or the check itself is no Python: a
            fault of the tests is none of the program's.
        """
        if isinstance(program, str):
            program = Program(program, stdin=stdin)
        if not isinstance(program, Program):
            raise SandboxError(f"a program is text or a Program, not a {type(program).__name__}")
        for name, value in vars(program).items():
            if not (isinstance(value, str) or (name == "check" and value is None)):
                raise SandboxError(f"a program's {name} is text, not a {type(value).__name__}")
        if program.check is not None:
            if not program.entry_point.isidentifier():
                raise SandboxError(
                    f"entry_point is {program.entry_point!r}: a check needs the function's name"
                )
            _must_compile("setup", program.setup)
            _must_compile("check", program.check)
        if cpu_s is not None and wall_s is None:
            wall_s = 4 * cpu_s + 1
        limits = {
            name: value
            for name, value in (("cpu_s", cpu_s), ("wall_s", wall_s))
            if value is not None
        }
        _must_be_positive(limits)
        job = {**self.limits, **limits, **vars(program)}
        worker = self._idle.get()
        try:
            if worker is None or not worker.alive:
                worker = Worker(self.level, self.preload, self.limits)
            told = worker.ask(job)
        finally:
            self._idle.put(worker)
        return Outcome(
            told["status"],
            told["reason"],
            told["stdout"],
            told["stderr"],
            told["code"],
            told["seconds"],
            told["cpu_seconds"],
        )

    def run_many(self, programs: Iterable[str | Program]) -> list[Outcome]:
        """Run programs, `workers` at a time, and return their outcomes in order.

        Raises
        ------
        SandboxError
            No worker can be started.
        """
        if self.workers == 1:
            return [self.run(program) for program in programs]
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(self.run, programs))

    def close(self) -> None:
        """End the workers; the sandbox can be used again."""
        for _ in range(self.workers):
            worker = self._idle.get()
            if worker is not None:
                worker.close()
            self._idle.put(None)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _must_be_positive(limits: dict[str, float]) -> None:
    for name, value in limits.items():
        if not value > 0:
            raise SandboxError(f"{name} is {value}: a limit is more than 0")


@lru_cache(maxsize=1024)  # the same tests for many programs
def _must_compile(what: str, text: str) -> None:
    try:
        compile(text, f"<{what}>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SandboxError(f"the {what} is no Python: {error}") from error


_lock = threading.Lock()
_known: dict[Level, str] = {}  # level -> why not, "" where it works


def _why_not(level: Level) -> str:
    """Why this machine has no sandbox of a level; asked once, by starting one and using it."""
    with _lock:
        if level not in _known:
            _known[level] = _try(level)
        return _known[level]


def _try(level: Level) -> str:
    if sys.platform != "linux":
        return f"{sys.platform} has none of what holds programs here"
    from practicum.sandbox._linux import MACHINE

    if MACHINE is None:
        return "the system calls of this processor are not known here"
    try:
        worker = Worker(level, (), {"memory_bytes": 1 << 28, "file_bytes": 1 << 20})
    except SandboxError as error:
        return error.message
    try:
        limits = {"cpu_s": 2, "wall_s": 9, "output_bytes": 4096}
        told = worker.ask({**limits, **vars(Program(_PROBE))})
    except SandboxError as error:
        return error.message
    finally:
        worker.close()
    return "" if told["status"] == "passed" else f"it does not hold: {told['stderr'][-200:]}"


# what must be refused before anybody's program is let in
_PROBE = """
import os, socket
def refused(act):
    try:
        act()
    except OSError:
        return
    raise SystemExit("not refused: " + repr(act))
refused(os.fork)
refused(lambda: socket.socket(socket.AF_INET))
refused(lambda: socket.socket(socket.AF_UNIX))
refused(lambda: os.listdir("/proc/1"))
refused(lambda: open("/usr/practicum-probe", "w"))
refused(lambda: os.kill(os.getppid() or 1, 0))
"""


def _level(unsafe: bool) -> Level:
    reasons = []
    for level in LEVELS:
        if not (reason := _why_not(level)):
            return level
        reasons.append(reason)
    if unsafe:
        if not hasattr(os, "fork"):
            raise SandboxError("programs are run by forking, which this system cannot do")
        return "none"
    raise SandboxError(
        f"programs cannot be held on this machine: {'; '.join(dict.fromkeys(reasons))}",
        "run them in a container or virtual machine with unsafe_no_sandbox=True, knowing that "
        "they can then do whatever you can do",
    )


def capabilities() -> dict[str, str]:
    """What holds programs on this machine, in words for ``practicum doctor``.

    Examples
    --------
    >>> sorted(capabilities())
    ['files', 'limits', 'network', 'processes', 'sandbox']
    """
    works = [level for level in LEVELS if not _why_not(level)]
    if not works:
        why = "; ".join(dict.fromkeys(map(_why_not, LEVELS)))
        nothing = "not held; programs are refused without unsafe_no_sandbox=True"
        return {"sandbox": f"missing: {why}"} | dict.fromkeys(
            ("files", "network", "processes", "limits"), nothing
        )
    from practicum.sandbox._linux import other_user

    own = works[0] == "namespaces"
    root = other_user(65534) is not None
    return {
        "sandbox": "namespaces and seccomp" if own else "seccomp (no namespaces here)",
        "files": "Python's own, read only; a scratch folder in memory"
        if own
        else "no writing at all; reading held by " + ("another user" if root else "Landlock"),
        "network": "none (own network namespace, no sockets)" if own else "none (no sockets)",
        "processes": ("another user, " if root else "") + "no new processes, no signals to others",
        "limits": "processor and wall time, memory, output, file size",
    }
