"""The process that forks programs: locked in first, then one fork a program. Standard library only.

``python -I -c "...; _zygote.main(fd)"`` is started by :class:`practicum.sandbox.Sandbox`, locks
itself in as far as it was asked to, imports what programs usually import, says hello on the
socket, and then answers jobs (JSON with a length before it) until the socket closes.
"""

from __future__ import annotations

import _socket  # socket itself imports so much that every fork takes half as long again
import contextlib
import fcntl
import gc
import importlib
import json
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import Any, NoReturn

import _harness

LINUX = sys.platform == "linux"
if LINUX:
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
READY = 4  # children that wait for work: two programs with a check
Message = dict[str, Any]


def send(channel: _socket.socket, message: Message) -> None:
    data = json.dumps(message).encode()
    channel.sendall(struct.pack("!I", len(data)) + data)


def receive(channel: _socket.socket) -> Message | None:
    """The next message, or None at the end."""
    (size,) = struct.unpack("!I", _exactly(channel, 4) or b"\0\0\0\0")
    data = _exactly(channel, size) if size else b""
    return json.loads(data) if data else None


def _exactly(channel: _socket.socket, n: int) -> bytes:
    parts = bytearray()
    while len(parts) < n:
        part = channel.recv(n - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


# --- locking in ----------------------------------------------------------------------------------


def main(fd: int) -> None:
    """Lock in, say hello, answer jobs."""
    channel = _socket.socket(fileno=fd)
    config = receive(channel) or sys.exit(1)
    level = config["level"]
    sys.path += dict.fromkeys(config["packages"])
    try:
        words = USUAL if level == "namespaces" else f"{USUAL} {FURTHER}"
        for name in [*words.split(), *config["preload"]]:
            importlib.import_module(name)
        if level == "namespaces":
            _enter_namespaces(config)
        elif level == "seccomp":
            _enter_landlock(config)
    except (OSError, ImportError) as error:
        send(channel, {"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    server = Server(channel, config)
    _harness.rehearse()
    send(channel, {"hello": True})
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
    _linux.new_root(config["root"], visible, SCRATCH, config["disk_bytes"])
    _linux.prctl(_linux.PR_SET_DUMPABLE, 0)


def _wait_for(pid: int) -> NoReturn:
    """Stay beside process 1 of the namespace and end with it."""
    os.closerange(3, 1024)  # the socket above all: its end is the end of the other side
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _enter_landlock(config: Message) -> None:
    """Without namespaces: Python's folders may be read; another user is what else hides files."""
    if _linux.landlock_version():
        _linux.landlock(_visible(config))
    elif os.geteuid() != 0:
        raise OSError("neither namespaces nor Landlock nor another user to become")
    os.chdir("/")


# --- one program ---------------------------------------------------------------------------------


class Spare:
    """A child that is forked and locked in, and waits on its socket for the program to run.

    Programs do not wait for a fork this way: children are made while nobody asks. They see
    descriptors 0 to 5: standard input, output and error, the report, its socket, its ticket.
    """

    def __init__(self, server: Server) -> None:
        self.token = os.urandom(32)
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.rep, rep = os.pipe()
        ticket, issue = os.pipe()
        os.write(issue, self.token)
        self.control, theirs = _socket.socketpair()
        given = (server.null, out, err, rep, theirs.fileno(), ticket)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become_spare(server, given)
            except BaseException as error:
                with contextlib.suppress(BaseException):
                    os.write(2, f"sandbox: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(70)
        theirs.close()
        for fd in (out, err, rep, ticket, issue):
            os.close(fd)

    def start(self, job: Message, *fds: int) -> None:
        """Hand over what to run: standard input, and the pipes to the other process of a check."""
        data = marshal.dumps(job)
        try:
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))
            self.control.sendmsg([struct.pack("!I", len(data))], [rights])
            self.control.sendall(data)
        except OSError:
            pass  # it has ended already, which is seen where it is waited for
        self.control.close()


def _become_spare(server: Server, given: tuple[int, ...]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # first out of the way of the numbers they are to have
    for new, old in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in given]):
        os.dup2(old, new)
    os.closerange(len(given), 1024)
    server.lock()
    _harness.warm_up()
    control = _socket.socket(fileno=4)
    head, ancillary, *_ = control.recvmsg(4, _socket.CMSG_SPACE(3 * 4))
    if not head:
        os._exit(0)
    rights = ancillary[0][2]
    fds = struct.unpack(f"{len(rights) // 4}i", rights)
    job = marshal.loads(_exactly(control, struct.unpack("!I", head)[0]))
    os.dup2(fds[0], 0)
    os.close(fds[0])
    control.close()
    server.limit(job)
    if server.level == "namespaces":
        os.chdir(SCRATCH)
    if job["role"] == "whole":
        _harness.run_whole(job["text"], 3, 5)
    if job["role"] == "program":
        os.close(3)
        os.close(5)
        _harness.serve(job["text"], job["entry_point"], _harness.Line(*fds[1:]))
    line = _harness.Line(*fds[1:])
    _harness.check(job["setup"], job["check"], job["entry_point"], line, 3, 5)


class Server:
    """Answers jobs, one at a time."""

    def __init__(self, channel: _socket.socket, config: Message) -> None:
        self.channel = channel
        self.config = config
        self.level: str = config["level"]
        if self.level != "none":
            self.filter = _linux.Filter(may_write=self.level == "namespaces")
            _linux.gain_nothing()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.spares: list[Spare] = []
        self.wake, wake_in = os.pipe()
        for fd in (self.wake, wake_in):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        os.environ.clear()
        os.environ.update({"HOME": SCRATCH, "TMPDIR": SCRATCH, "PATH": "/usr/bin:/bin"})

    def serve(self) -> None:
        self._replenish()
        while (job := receive(self.channel)) is not None:
            run = Run(self, job)
            send(self.channel, run.outcome())
            # the kernel takes a process down while others are made; the next program starts when
            # it is gone, so that two never share a scratch folder
            self.spares += [Spare(self) for _ in run.spared]
            run.bury()
            self._replenish()

    def _replenish(self) -> None:
        asked = select.poll()
        asked.register(self.channel.fileno(), select.POLLIN)
        while len(self.spares) < READY and not asked.poll(0):
            self.spares.append(Spare(self))

    def spare(self) -> Spare:
        """A child that waits for work."""
        return self.spares.pop() if self.spares else Spare(self)

    def lock(self) -> None:
        """In the child, for good: another user, no capabilities, the allowed system calls."""
        os.umask(0o077)
        if self.level == "none":
            os.setsid()
            return
        if os.geteuid() == 0:  # the capabilities go with the user
            resource.setrlimit(resource.RLIMIT_NPROC, (256, 256))
            os.setgroups([])
            os.setresgid(*[self.config["user"]] * 3)
            os.setresuid(*[self.config["user"]] * 3)
        else:
            _linux.drop_capabilities()
        if self.level == "seccomp":  # in a namespace, everybody ends with process 1
            _linux.die_with_parent()
        self.filter.apply()

    def limit(self, job: Message) -> None:
        """In the child: what the program may use."""
        cpu = int(-(-job["cpu_s"] // 1))
        limits = {
            "RLIMIT_CPU": (cpu, cpu + 1),
            "RLIMIT_AS": (job["memory_bytes"], job["memory_bytes"]),
            "RLIMIT_FSIZE": (job["file_bytes"], job["file_bytes"]),
            "RLIMIT_NOFILE": (128, 128),
            "RLIMIT_CORE": (0, 0),
            "RLIMIT_MSGQUEUE": (0, 0),
        }
        for name, pair in limits.items():
            with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS lacks some
                resource.setrlimit(getattr(resource, name), pair)

    def clean(self) -> None:
        """Not a file of a program is left for the next one."""
        if self.level == "namespaces" and os.listdir(SCRATCH):
            _linux.renew_scratch(SCRATCH, self.config["disk_bytes"])


class Run:
    """One program from its start to its outcome."""

    def __init__(self, server: Server, job: Message) -> None:
        self.server, self.job = server, job
        self.text: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.report = bytearray()
        self.ends: dict[int, tuple[int, float]] = {}  # pid -> wait status, CPU seconds
        self.stopped = ""  # timeout | output, where it was us
        self.passed = False  # said so, and may still be on its way out

    def outcome(self) -> Message:
        started = time.monotonic()
        self._start()
        self._watch(started + self.job["wall_s"])
        if not self.passed:
            self.bury()
        self._drain()
        seconds = time.monotonic() - started
        told = self._judge()
        limit = self.job["output_bytes"]
        texts = {k: v[:limit].decode("utf-8", "replace") for k, v in self.text.items()}
        cpu = sum(spent for _, spent in self.ends.values())
        if self.passed:
            cpu += sum(_cpu_seconds(c.pid) for c in self.spared if c.pid not in self.ends)
        return {**told, **texts, "seconds": seconds, "cpu_seconds": cpu}

    def _start(self) -> None:
        job, server = self.job, self.server
        stdin = _in_memory(job["stdin"].encode()) if job["stdin"] else os.dup(server.null)
        self.main = server.spare()
        self.spared = [self.main]
        fds = [stdin]
        if job["check"] is None:
            self.main.start({**job, "role": "whole"}, stdin)
        else:
            program = server.spare()
            self.spared.insert(0, program)
            ask, asked = os.pipe()
            answer, answered = os.pipe()
            fds += [ask, asked, answer, answered]
            # each side gets its own half of the job: the program never holds the tests
            own = {k: v for k, v in job.items() if k not in ("check", "setup")}
            program.start({**own, "role": "program"}, stdin, ask, answered)
            rest = {k: v for k, v in job.items() if k != "text"}
            self.main.start({**rest, "role": "check"}, server.null, answer, asked)
        for fd in fds:
            os.close(fd)
        self.into = {}
        for child in self.spared:
            own_report = self.report if child is self.main else bytearray()
            self.into |= {
                child.out: self.text["stdout"],
                child.err: self.text["stderr"],
                child.rep: own_report,
            }

    # -- watching

    def _watch(self, deadline: float) -> None:
        """Collect what is written until the main process ends, a limit is hit or nobody asks."""
        poller = select.poll()
        channel = self.server.channel.fileno()
        for fd in (*self.into, self.server.wake, channel):
            poller.register(fd, select.POLLIN)
        while True:
            self._reap()
            if self.main.pid in self.ends:
                return
            if LINUX and self.report == self.main.token.hex().encode() + b"\npassed\n":
                self.passed = True  # how it ends cannot change that: do not wait for it
                return
            if max(len(t) for t in self.text.values()) > self.job["output_bytes"]:
                self.stopped = "output"
                return
            left = deadline - time.monotonic()
            if left <= 0:
                self.stopped = "timeout"
                return
            for fd, _ in poller.poll(left * 1000 + 1):
                if fd == channel:
                    os._exit(0)  # nobody waits for the outcome any more
                if fd == self.server.wake:
                    os.read(fd, 512)
                elif not self._collect(fd):
                    poller.unregister(fd)

    def _collect(self, fd: int) -> bool:
        data = os.read(fd, 65536)
        into = self.into[fd]
        if len(into) <= max(self.job["output_bytes"], 4096):
            into += data
        return bool(data)

    def _reap(self) -> None:
        for child in self.spared:
            if child.pid not in self.ends:
                done, status, usage = os.wait4(child.pid, os.WNOHANG)
                if done:
                    self.ends[child.pid] = status, usage.ru_utime + usage.ru_stime

    def bury(self) -> None:
        """End what still runs, wait until it is gone, and leave nothing of it."""
        for child in self.spared:
            if child.pid not in self.ends:
                os.kill(child.pid, signal.SIGKILL)
                _, status, usage = os.wait4(child.pid, 0)
                # the program beside a check that has ended ends by our hand, unless it was dying
                ours = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                killed = 0 if ours and not self.stopped and child is not self.main else status
                self.ends[child.pid] = killed, usage.ru_utime + usage.ru_stime
        self.server.clean()

    def _drain(self) -> None:
        """Read what lies in the pipes already."""
        for fd in self.into:
            os.set_blocking(fd, False)
            with contextlib.suppress(BlockingIOError):
                while self._collect(fd):
                    pass
            os.close(fd)

    # -- judging

    def _judge(self) -> Message:
        """Status, reason and exit code, from what the kernel says before what the program says."""
        if self.passed:
            return {"status": "passed", "reason": "", "code": 0}
        if self.stopped:
            limit = {
                "timeout": f"no end within {self.job['wall_s']:g} s",
                "output": f"more than {self.job['output_bytes']} bytes of output",
            }
            return {"status": self.stopped, "reason": limit[self.stopped], "code": None}
        for child in self.spared:
            status, spent = self.ends[child.pid]
            if os.WIFSIGNALED(status):
                return self._killed(os.WTERMSIG(status), spent)
        status, _ = self.ends[self.main.pid]
        code = os.waitstatus_to_exitcode(status)
        token, _, rest = bytes(self.report).partition(b"\n")
        word, _, told = rest.decode("utf-8", "replace").partition("\n")
        if token == self.main.token.hex().encode() and word in _harness.ENDINGS:
            return {"status": word, "reason": told, "code": code}
        reason = f"it left with exit code {code} before its end"
        return {"status": "exited", "reason": reason, "code": code}

    def _killed(self, number: int, spent: float) -> Message:
        name = signal.Signals(number).name if number < signal.NSIG else str(number)
        if number == signal.SIGXCPU or spent >= self.job["cpu_s"]:
            reason = f"more than {self.job['cpu_s']:g} s of processor time"
            return {"status": "timeout", "reason": reason, "code": -number}
        return {"status": "killed", "reason": f"ended by {name}", "code": -number}


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process that has not been waited for (clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def _in_memory(data: bytes) -> int:
    """A file that holds ``data`` and has no name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("stdin")
    else:
        import tempfile

        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
