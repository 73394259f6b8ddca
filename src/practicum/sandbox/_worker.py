"""A worker: the process that makes children ready, and one program after another run in them."""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.errors import SandboxError
from practicum.sandbox._harness import ENDINGS
from practicum.sandbox._wire import Message, Wire

START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import _zygote; _zygote.main(int(sys.argv[2]))"
)
LINUX = sys.platform == "linux"
MOST_UNFIT = 50  # children ended by somebody else before they had work
PATIENCE_S = 30.0  # for the worker itself, on a machine that has much to do


@dataclass(frozen=True)
class Child:
    """A process that is locked in and waits for its program, and what it is reached by."""

    pid: int  # in the worker's process tree
    token: str
    out: int
    err: int
    report: int
    control: socket.socket

    def fit(self) -> bool:
        """Wait until it is locked in; false where somebody has ended it before.

        Raises
        ------
        SandboxError
            It could not lock itself in.
        """
        try:
            said = self.control.recv(1)
        except ConnectionError:
            said = b""
        if said:
            return True
        why = os.read(self.err, 1000).decode("utf-8", "replace").strip()
        if why:
            raise SandboxError(f"a program's process could not be locked in: {why}")
        return False

    def start(self, job: Message, *fds: int) -> None:
        """Hand over what to run: the pipes to the other process of a check, and standard input."""
        # it has ended already if this fails, which is seen where that is waited for
        with contextlib.suppress(OSError), self.control:
            Wire(self.control).send_bytes(marshal.dumps(job), *fds)

    def close(self) -> None:
        """Let go of what it wrote; one that waits for work ends with that."""
        self.control.close()
        for fd in (self.out, self.err, self.report):
            os.close(fd)


class Worker:
    """The process that makes children ready, and what is known of them.

    Raises
    ------
    SandboxError
        It does not start, or cannot lock itself in.
    """

    def __init__(self, level: str, preload: Sequence[str], limits: Message) -> None:
        self.channel, theirs = socket.socketpair()
        self.wire = Wire(self.channel)
        self.root = tempfile.TemporaryDirectory(prefix="practicum-sandbox-")
        self.ready: list[Child] = []
        self.ends: dict[int, tuple[int, float]] = {}  # pid -> wait status, processor seconds
        self.left: set[int] = set()  # processes of the last program that may still be there
        config = {
            "level": level,
            "preload": list(preload),
            "memory_bytes": limits["memory_bytes"],
            "file_bytes": limits["file_bytes"],
            "root": self.root.name,
            "user": 2_000_000_000 + os.getpid(),  # nobody's
            "packages": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")],
        }
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",  # what .pth files import would be copied at every fork
                    "-X",
                    "utf8",
                    "-c",
                    START,
                    str(Path(__file__).parent),
                    str(theirs.fileno()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"},  # no secrets of ours
                cwd="/",
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._finalize = weakref.finalize(
            self, _end, self.process, self.wire, self.root, self.ready
        )
        self.channel.settimeout(2 * PATIENCE_S)
        try:
            self.wire.send(config)
            hello, _ = self.wire.receive() or ({"error": "it ended"}, ())
        except OSError as error:
            hello = {"error": f"the worker did not start ({error})"}
        if "error" in hello:
            self.close()
            raise SandboxError(f"no sandbox of level {level}: {hello['error']}")
        self.channel.settimeout(PATIENCE_S)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._finalize.alive and self.process.poll() is None

    def ask(self, job: Message) -> Message:
        """Run a program and tell how it ended; a worker that ends meanwhile is told as that.

        Raises
        ------
        SandboxError
            Nothing holds the program, or this process has no more files to open, so it was not run.
        """
        try:
            return Run(self, job).outcome()
        except OSError as error:
            self.close()
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise SandboxError(
                    f"no more files can be opened here ({os.strerror(error.errno)})",
                    "close some, use fewer workers, or raise the limit (ulimit -n)",
                ) from error
            return {
                "status": "killed",
                "reason": "the sandbox's worker ended with it",
                "stdout": "",
                "stderr": "",
                "code": None,
                "seconds": 0.0,
                "cpu_seconds": 0.0,
            }
        except BaseException:  # Ctrl-C in the middle of a message
            self.close()
            raise

    def close(self) -> None:
        """End it and everything in it."""
        self._finalize()

    def take(self, n: int) -> list[Child]:
        """Children that wait for work, once nothing of the last program is left.

        One that was ended while it waited is passed over: no program is to be blamed for that.
        """
        while self.wire.waiting() or select.select([self.channel], [], [], 0)[0]:
            self.hear()
        self.bury()
        taken: list[Child] = []
        try:
            while len(taken) < n:
                taken.append(self._fit_one())
        except BaseException:
            for child in taken:
                child.close()
            raise
        known = {child.pid for child in (*taken, *self.ready)}
        self.ends = {pid: end for pid, end in self.ends.items() if pid in known}
        self.left = {child.pid for child in taken}
        return taken

    def _fit_one(self) -> Child:
        """The next child that is locked in and alive."""
        for _ in range(MOST_UNFIT):
            while not self.ready:
                self.hear()
            child, kept = self.ready.pop(0), False
            try:
                kept = child.fit() and child.pid not in self.ends
                if kept:
                    return child
            finally:
                if not kept:
                    child.close()
        raise SandboxError("the processes for programs are ended as soon as they are made")

    def bury(self) -> None:
        """Have what is left of the last program ended, and wait for it."""
        if self.left:
            self.wire.send({"bury": sorted(self.left)})
        while self.left:
            self.hear()

    def hear(self) -> None:
        """Wait for one message of the worker; raises OSError when it has ended."""
        told, fds = self.wire.receive() or ({}, [])
        if not told:
            raise ConnectionError("the worker is gone")
        if "made" in told:
            *written, control = fds
            control = socket.socket(fileno=control)
            self.ready.append(Child(told["made"], told["token"], *written, control))
        for pid, (status, spent) in told.get("ends", {}).items():
            self.ends[int(pid)] = status, spent
        ended = told.get("clean") and self.left <= self.ends.keys()
        if ended or told.get("buried") == sorted(self.left):
            self.left = set()


def _end(process: subprocess.Popen[bytes], wire: Wire, root: Any, ready: list[Child]) -> None:
    wire.close()
    process.kill()
    process.wait()
    for child in ready:
        child.close()
    root.cleanup()


class Run:
    """One program from its start to its outcome."""

    def __init__(self, worker: Worker, job: Message) -> None:
        self.worker, self.job = worker, job
        self.text: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.report = bytearray()
        self.stopped = ""  # timeout | output, where it was us
        self.passed = False  # said so, and may still be on its way out

    def outcome(self) -> Message:
        """Run it."""
        self.children = self.worker.take(1 if self.job["check"] is None else 2)
        self.main = self.children[-1]
        try:
            started = time.monotonic()
            self._start()
            self._watch(started + self.job["wall_s"])
            ended_before = {child.pid for child in self.children} & self.worker.ends.keys()
            if not self.passed:
                self.worker.bury()
            self._drain()
            seconds = time.monotonic() - started
        finally:
            for child in self.children:
                child.close()
        told = self._judge(ended_before)
        limit = self.job["output_bytes"]
        texts = {k: v[:limit].decode("utf-8", "replace") for k, v in self.text.items()}
        return {**told, **texts, "seconds": seconds, "cpu_seconds": self._spent()}

    def _start(self) -> None:
        job = self.job
        # what is no text in UTF-8 is the program's to stumble over
        stdin = [_in_memory(job["stdin"].encode("utf-8", "surrogatepass"))] if job["stdin"] else []
        fds = [*stdin]
        try:
            if job["check"] is None:
                self.main.start({**job, "role": "whole"}, *stdin)
                return
            program, main = self.children
            fds += [*os.pipe(), *os.pipe()]
            ask, asked, answer, answered = fds[-4:]
            # each side gets its own half of the job: the program never holds the tests
            own = {k: v for k, v in job.items() if k not in ("check", "setup")}
            program.start({**own, "role": "program"}, ask, answered, *stdin)
            main.start({**job, "role": "check", "text": "", "stdin": ""}, answer, asked)
        finally:
            for fd in fds:
                os.close(fd)

    # -- watching

    def _watch(self, deadline: float) -> None:
        """Collect what is written until the main process ends or a limit is hit."""
        self.into = {}
        for child in self.children:
            own_report = self.report if child is self.main else bytearray()
            self.into |= {
                child.out: self.text["stdout"],
                child.err: self.text["stderr"],
                child.report: own_report,
            }
        passed = f"{self.main.token}\npassed\n".encode()
        channel = self.worker.channel.fileno()
        poller = self.poller = select.poll()
        for fd in (*self.into, channel):
            poller.register(fd, select.POLLIN)
        while self.main.pid not in self.worker.ends:
            said = self.report.startswith(passed) and self.report.endswith(b"\n", len(passed))
            if said and LINUX:
                self.passed = True  # how it ends cannot change that: do not wait for it
                return
            if max(map(len, self.text.values())) > self.job["output_bytes"]:
                self.stopped = "output"
                return
            left = deadline - time.monotonic()
            if left <= 0:
                self.stopped = "timeout"
                return
            for fd, _ in poller.poll(left * 1000 + 1):
                if fd == channel:
                    self.worker.hear()
                else:
                    self._collect(fd)

    def _collect(self, fd: int) -> None:
        data = os.read(fd, 65536)
        into = self.into[fd]
        if len(into) <= max(self.job["output_bytes"], 4096):
            into += data
        if not data:
            self.poller.unregister(fd)

    def _drain(self) -> None:
        """Read what lies in the pipes already."""
        self.poller.unregister(self.worker.channel)
        most = self.job["output_bytes"]
        while max(map(len, self.text.values())) <= most and (there := self.poller.poll(0)):
            for fd, _ in there:
                self._collect(fd)

    def _spent(self) -> float:
        """Processor seconds: as the kernel has it of those that were waited for."""
        if not self.passed:
            return sum(self.worker.ends[child.pid][1] for child in self.children)
        try:
            return max(0.0, float(self.report.split(b"\n")[2]))
        except ValueError:
            return 0.0  # a program can write there too

    # -- judging

    def _judge(self, ended_before: set[int]) -> Message:
        """Status, reason and exit code, from what the kernel says before what the program says."""
        if self.passed:
            return {"status": "passed", "reason": "", "code": 0}
        if self.stopped:
            limit = {
                "timeout": f"no end within {self.job['wall_s']:g} s",
                "output": f"more than {self.job['output_bytes']} bytes of output",
            }
            return {"status": self.stopped, "reason": limit[self.stopped], "code": None}
        for child in self.children:
            status, spent = self.worker.ends[child.pid]
            if os.WIFSIGNALED(status):
                number = os.WTERMSIG(status)
                # the program beside a check that has ended ends by our hand
                ours = number == signal.SIGKILL and child.pid not in ended_before
                if not ours or child is self.main:
                    return self._killed(number, spent)
        status, _ = self.worker.ends[self.main.pid]
        code = os.waitstatus_to_exitcode(status)
        token, _, rest = bytes(self.report).partition(b"\n")
        word, _, told = rest.decode("utf-8", "replace").partition("\n")
        if token == self.main.token.encode() and word in ENDINGS:
            return {"status": word, "reason": told, "code": code}
        reason = f"it left with exit code {code} before its end"
        return {"status": "exited", "reason": reason, "code": code}

    def _killed(self, number: int, spent: float) -> Message:
        name = signal.Signals(number).name if number < signal.NSIG else str(number)
        if number == signal.SIGXCPU or spent >= self.job["cpu_s"]:
            reason = f"more than {self.job['cpu_s']:g} s of processor time"
            return {"status": "timeout", "reason": reason, "code": -number}
        return {"status": "killed", "reason": f"ended by {name}", "code": -number}


def _in_memory(data: bytes) -> int:
    """A file that holds ``data`` and has no name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("stdin")
    else:
        handle, name = tempfile.mkstemp()
        os.unlink(name)
        fd = handle
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
