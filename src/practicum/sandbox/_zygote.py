"""The process that forks programs: locked in first, then one fork a program. Standard library only.

``python -I -c "...; _zygote.main(fd)"`` is started by :class:`practicum.sandbox._worker.Worker`.
It locks itself in as far as it was asked to, imports what programs usually import and says hello.
From then on it keeps a few children ready. Each waits, locked in itself, on a socket of its own
for the program to run; the other side of that socket and of the pipes it writes to goes to the
worker, so that a program does not wait for this process. What is left to do here: tell when a
child ends, end children, clear the scratch folder, make new ones.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import resource
import select
import signal
import sys
import time
from typing import NoReturn

import _harness
from _wire import Message, Wire

if sys.platform == "linux":
    import _linux

# what programs import most; every page of them costs a little at every fork
USUAL = (
    "abc bisect collections copy functools heapq itertools json math operator random re string "
    "typing"
)
# where the program's user may not be able to read Python's folder, what is not here is not there
FURTHER = (
    "ast cmath csv dataclasses datetime decimal enum fractions hashlib io linecache numbers pprint "
    "socket statistics textwrap threading time traceback unicodedata"
)
SCRATCH = "/tmp"
READY = 4  # children: two programs with a check, or one and what waits for the next
UNFIT = 70  # exit code of a child that could not lock itself in
# a job that every child takes over first: what it writes to is then its own and at hand
REHEARSAL = {"stdin": "", "cpu_s": 2**31, "text": "pass"}


# --- locking in ----------------------------------------------------------------------------------


def main(fd: int) -> None:
    """Lock in, say hello, answer jobs."""
    wire = Wire(_socket.socket(fileno=fd))
    config, _ = wire.receive() or sys.exit(1)
    level = config["level"]
    sys.path += dict.fromkeys(config["packages"])
    user = None if level == "none" else _linux.other_user(config["user"])
    try:
        words = USUAL if level == "namespaces" else f"{USUAL} {FURTHER}"
        for name in [*words.split(), *config["preload"]]:
            importlib.import_module(name)
        if level == "namespaces":
            _enter_namespaces(config)
        elif level == "seccomp":
            _enter_landlock(config, user)
    except (OSError, ImportError) as error:
        wire.send({"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    server = Server(wire, config, user)
    _harness.rehearse()
    wire.send({"hello": True})
    gc.collect()
    gc.freeze()  # what is here now is shared by all programs and never looked at again
    server.serve()
    os._exit(0)


def _visible(config: Message) -> list[str]:
    """Folders programs may read: Python's own, and the system's libraries."""
    wanted = [sys.base_prefix, sys.prefix, *sys.path, "/usr", "/lib", "/lib64", "/bin"]
    paths = sorted({os.path.abspath(p) for p in wanted if p and os.path.isdir(p)})
    own = os.path.dirname(os.path.abspath(__file__))
    kept: list[str] = []
    for path in paths:
        inside = any(path == k or path.startswith(k + "/") for k in kept)
        if path != "/" and path != own and not inside:
            kept.append(path)
    return kept


def _enter_namespaces(config: Message) -> None:
    """A process tree, network, mounts and IPC of its own; the caller goes on as its process 1."""
    user, group = os.geteuid(), os.getegid()
    flags = _linux.NEW_NS | _linux.NEW_PID | _linux.NEW_NET | _linux.NEW_IPC | _linux.NEW_UTS
    if user != 0:
        _linux.unshare(flags | _linux.NEW_USER)
        maps = {"uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in {"setgroups": "deny", **maps}.items():
            with open(f"/proc/self/{name}", "w") as handle:
                handle.write(text)
    else:
        _linux.unshare(flags)
    visible = _visible(config)
    first = os.fork()
    if first:
        _wait_for(first)
    _linux.die_with_parent()
    _linux.new_root(config["root"], visible, SCRATCH, config["file_bytes"])
    _linux.prctl(_linux.PR_SET_DUMPABLE, 0)


def _wait_for(pid: int) -> NoReturn:
    """Stay beside process 1 of the namespace and end with it."""
    os.closerange(3, 1024)  # the socket above all: its end is the end of the other side
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _enter_landlock(config: Message, user: int | None) -> None:
    """Without namespaces: Python's folders may be read; another user is what else hides files."""
    if _linux.landlock_version():
        _linux.landlock(_visible(config))
    elif user is None:
        raise OSError("neither namespaces nor Landlock nor another user to become")
    os.chdir("/")


# --- one program ---------------------------------------------------------------------------------


def _child(server: Server, given: tuple[int, ...]) -> NoReturn:
    """Lock in, wait for a program, run it.

    A program sees descriptors 0 to 5: standard input, output and error, the report, its socket,
    its ticket.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # first out of the way of the numbers they are to have
    for new, old in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in given]):
        os.dup2(old, new)
    os.closerange(len(given), 1024)
    ours, theirs = _socket.socketpair()
    Wire(ours).send_bytes(marshal.dumps(REHEARSAL))
    server.lock()
    _take_over(Wire(theirs), server)
    _harness.warm_up()
    for end in (ours, theirs):
        end.close()
    os.write(4, b"!")  # ready
    # it stays open: nobody is at the other side any more, and closing takes time
    job, fds = _take_over(Wire(_socket.socket(fileno=4)), server)
    if job["role"] == "whole":
        _harness.run_whole(job["text"], 3, 5)
    if job["role"] == "program":
        os.close(3)
        os.close(5)
        _harness.serve(job["text"], job["entry_point"], _harness.Line(*fds))
    ends = _harness.Line(*fds)
    _harness.check(job["setup"], job["check"], job["entry_point"], ends, 3, 5)


def _take_over(wire: Wire, server: Server) -> tuple[Message, list[int]]:
    """Wait for what to run, and make ready for it."""
    told = wire.receive_bytes()
    if told is None:
        os._exit(0)
    job, fds = marshal.loads(told[0]), told[1]
    if job["stdin"]:
        stdin = fds.pop()
        os.dup2(stdin, 0)
        os.close(stdin)
    # the only limit that may differ from one program to the next
    cpu = int(-(-job["cpu_s"] // 1))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    if server.level == "namespaces":
        os.chdir(SCRATCH)  # only now: it is another one after every program that wrote to it
    return job, fds


class Server:
    """Keeps children ready, and buries them."""

    def __init__(self, wire: Wire, config: Message, user: int | None) -> None:
        self.wire = wire
        self.config = config
        self.user = user  # whom programs become, None: nobody else
        self.level: str = config["level"]
        if self.level != "none":
            self.filter = _linux.Filter(may_write=self.level == "namespaces")
            _linux.gain_nothing()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.running: set[int] = set()
        self.wake, wake_in = os.pipe()
        for fd in (self.wake, wake_in):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        os.environ.clear()
        os.environ.update({"HOME": SCRATCH, "TMPDIR": SCRATCH, "PATH": "/usr/bin:/bin"})

    def serve(self) -> None:
        asked = self.wire.channel.fileno()
        poller = select.poll()
        poller.register(asked, select.POLLIN)
        poller.register(self.wake, select.POLLIN)
        while True:
            while len(self.running) < READY and not poller.poll(0):
                self._make()
            ready = [fd for fd, _ in poller.poll()]
            if self.wake in ready:
                os.read(self.wake, 512)
                self._tell_ends()
            if asked in ready:
                if (told := self.wire.receive()) is None:
                    return
                self._bury(told[0]["bury"])

    def _make(self) -> None:
        """Fork a child that waits, and hand over the other sides of what it holds."""
        token = os.urandom(32)
        out, out_in = os.pipe()
        err, err_in = os.pipe()
        report, report_in = os.pipe()
        ticket, ticket_in = os.pipe()
        os.write(ticket_in, token)
        ours, theirs = _socket.socketpair()
        given = (self.null, out_in, err_in, report_in, theirs.fileno(), ticket)
        pid = os.fork()
        if pid == 0:
            try:
                _child(self, given)
            except BaseException as error:
                with contextlib.suppress(BaseException):
                    os.write(2, f"sandbox: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(UNFIT)
        self.running.add(pid)
        made = {"made": pid, "token": token.hex()}
        self.wire.send(made, out, err, report, ours.fileno())
        for end in (ours, theirs):
            end.close()
        for fd in (out, out_in, err, err_in, report, report_in, ticket, ticket_in):
            os.close(fd)

    def _bury(self, pids: list[int]) -> None:
        """End children, wait until they are gone, and leave nothing of them.

        The next program is started when that is told, so that two never share a scratch folder.
        """
        alive = self.running.intersection(pids)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        ends = self._reap(*alive, block=True)
        if self.level == "namespaces" and os.listdir(SCRATCH):
            _linux.renew_scratch(SCRATCH, self.config["file_bytes"])
        self.wire.send({"ends": ends, "buried": pids})

    def _tell_ends(self) -> None:
        """Tell which children have ended by themselves."""
        ends = self._reap(*self.running)
        if ends:
            clean = self.level != "namespaces" or not os.listdir(SCRATCH)
            self.wire.send({"ends": ends, "clean": clean})
        if any(status == UNFIT << 8 for status, _ in ends.values()):
            time.sleep(
                0.1
            )  # where they end as soon as they are made, not a thousand times a second

    def _reap(self, *pids: int, block: bool = False) -> dict[int, tuple[int, float]]:
        """Wait status and processor seconds of those that have ended."""
        ends = {}
        for pid in pids:
            done, status, usage = os.wait4(pid, 0 if block else os.WNOHANG)
            if done:
                self.running.discard(pid)
                ends[pid] = status, usage.ru_utime + usage.ru_stime
        return ends

    def lock(self) -> None:
        """In the child, for good: limits, another user, no capabilities, allowed system calls."""
        os.umask(0o077)
        limits = {
            "RLIMIT_AS": self.config["memory_bytes"],
            "RLIMIT_FSIZE": self.config["file_bytes"],
            "RLIMIT_NOFILE": 128,
            "RLIMIT_CORE": 0,
            "RLIMIT_MSGQUEUE": 0,
        }
        for name, most in limits.items():
            with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS lacks some
                resource.setrlimit(getattr(resource, name), (most, most))
        if self.level == "none":
            os.setsid()
            return
        if self.user is not None:  # the capabilities go with the user
            resource.setrlimit(resource.RLIMIT_NPROC, (256, 256))
            os.setgroups([])
            os.setresgid(*[self.user] * 3)
            os.setresuid(*[self.user] * 3)
        else:
            _linux.drop_capabilities()
        if self.level == "seccomp":  # in a namespace, everybody ends with process 1
            _linux.die_with_parent()
        self.filter.apply()
