"""Inside the process of one program: run it, tell how it ended. Standard library only.

A program with a check is two processes. This one's functions run either as *the program*, which
answers calls of its entry point, or as *the checker*, which runs the trusted tests with a stand-in
for that function. Only plain values cross, so the program cannot reach the tests.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

REFUSED = (errno.EPERM, errno.EACCES, errno.EROFS)
Ending = dict[str, Any]
ENDINGS = ("passed", "failed", "exited", "memory", "forbidden")
_sources: dict[str, str] = {}  # for tracebacks


# --- values that cross ---------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A plain value as JSON can hold it; TypeError names the type that cannot cross."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < 2**53 else {"i": hex(value)}
    if type(value) is float:
        return {"f": value.hex()}
    if type(value) is complex:
        return {"c": [value.real.hex(), value.imag.hex()]}
    if type(value) is bytes:
        return {"b": value.hex()}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"t": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"d": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        kind = "s" if isinstance(value, set) else "z"
        return {kind: [encode(item) for item in value]}
    if isinstance(value, (bool, int, float, str)):  # subclasses: as what they are
        plain = next(t for t in (int, float, str) if isinstance(value, t))
        return encode(plain(value))
    raise TypeError(f"a {type(value).__name__} cannot be handed over to the check")


def decode(value: Any) -> Any:
    """What :func:`encode` wrote."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind in "ifcb":
        return {
            "i": lambda: int(inside, 16),
            "f": lambda: float.fromhex(inside),
            "c": lambda: complex(*map(float.fromhex, inside)),
            "b": lambda: bytes.fromhex(inside),
        }[kind]()
    if kind == "d":
        return {decode(k): decode(v) for k, v in inside}
    container = {"t": tuple, "s": set, "z": frozenset}[kind]
    return container(decode(item) for item in inside)


class Line:
    """JSON lines over a pair of pipes."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = open(incoming, "rb", closefd=False)  # noqa: SIM115 - lives with the process
        self.outgoing = outgoing

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.outgoing, data) :]

    def receive(self) -> Any:
        line = self.incoming.readline(64 << 20)
        if not line.endswith(b"\n"):
            raise EOFError("the program ended before it had answered")
        return json.loads(line)


# --- running -------------------------------------------------------------------------------------


def _compile(text: str, name: str) -> Any:
    _sources[name] = text
    return compile(text, name, "exec", dont_inherit=True)


def _namespace() -> dict[str, Any]:
    return {"__name__": "__main__", "__builtins__": builtins}


def ending(error: BaseException) -> Ending:
    """How a program ended that raised."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # a program's own exception may raise again
        text = ""
    reason = f"{name}: {text}"[:500] if text else name
    if isinstance(error, SystemExit):
        code = error.code
        status = code if isinstance(code, int) else 0 if code is None else 1
        return {"status": "exited", "reason": f"sys.exit({code!r})"[:500], "code": status & 0xFF}
    if isinstance(error, MemoryError):
        return {"status": "memory", "reason": reason, "code": 1}
    refused = isinstance(error, OSError) and error.errno in REFUSED
    if refused or type(error).__name__ == "gaierror":
        return {"status": "forbidden", "reason": reason, "code": 1}
    return {"status": "failed", "reason": reason, "code": 1}


def _tell_traceback(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        return
    try:
        import linecache
        import traceback

        for name, text in _sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        inner = error.__traceback__
        while inner and inner.tb_frame.f_code.co_filename == __file__:
            inner = inner.tb_next
        traceback.print_exception(type(error), error, inner, limit=-20)
    except BaseException:  # no memory left, a broken __str__, a closed stderr
        pass


def _finish() -> None:
    """What the interpreter does at a normal end: wait for threads, run exit functions, flush."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _attempt(action: Callable[[], None]) -> Ending:
    try:
        action()
        _finish()
    except BaseException as error:
        # the frames of the program hold its memory: let go of it before anything is told
        _tell_traceback(error)
        told = ending(error)
        error.__traceback__ = None
        with contextlib.suppress(BaseException):
            _finish()
        return told
    return {"status": "passed", "reason": "", "code": 0}


def _report(told: Ending, report: int, ticket: int, elsewhere: float = 0.0) -> NoReturn:
    token = os.read(ticket, 64).hex()
    # a program that passed is not waited for: what it took is what its own process says
    took = f"{time.process_time() + elsewhere}\n"
    reason = took if told["status"] == "passed" else told["reason"]
    data = f"{token}\n{told['status']}\n{reason}".encode("utf-8", "replace")
    while data:
        data = data[os.write(report, data) :]
    os._exit(told["code"])


REHEARSAL = """
from typing import Dict, List, Optional, Tuple
import math

def usual(xs: List[int], word: str = "", at: Optional[Dict[str, Tuple[int, float]]] = None) -> list:
    \"\"\" Nothing in particular.
    >>> usual([1, 2, 3])
    [1, 3]
    \"\"\"
    found = {}
    for i, x in enumerate(xs):
        found[str(i)] = x
        if x < 0 or (len(xs) == 9 and word[::-1].lower() in word):
            return [math.floor(x / 2), max(xs), "".join(sorted(word))]
    return sorted([x for x in found.values() if x % 2], key=lambda x: x)

def check(candidate):
    assert candidate([1, 2, 3]) == [1, 3], "Error"
    assert candidate([0.5, -2.5, 3.0], "abc") == [-2, 3.0, "abc"]
    assert True, "This prints if this assert fails 1 (good for debugging!)"

check(usual)
"""


def rehearse() -> None:
    """Run a program of the usual kind before anything is forked.

    What that changes for good (caches of typing, specialised bytecode, interned names) would
    otherwise be changed, and its page copied, in every program's process: a third of what one cost.
    """
    for _ in range(20):  # bytecode is specialised after a few
        exec(_compile(REHEARSAL, "<program>"), _namespace())
        decode(json.loads(json.dumps(encode([[1, 2.5, "x"], (1, True), {"a": None}, {3}]))))
    _sources.clear()
    random.seed(0)


def warm_up() -> None:
    """Once in every process, while it waits for its program: pages that every program writes to.

    Takes a third off what one waits for a program, and adds a tenth to what it takes altogether.
    """
    exec(_compile(REHEARSAL, "<program>"), _namespace())
    decode(json.loads(json.dumps(encode([1, "x"]))))
    _sources.clear()


def run_whole(text: str, report: int, ticket: int) -> NoReturn:
    """Run a program from its first line to its last."""
    random.seed(0)  # the same program gives the same outcome
    _report(_attempt(lambda: exec(_compile(text, "<program>"), _namespace())), report, ticket)


def serve(text: str, entry_point: str, line: Line) -> NoReturn:
    """Run a program's definitions, then answer calls of its entry point."""
    random.seed(0)
    space = _namespace()
    try:
        exec(_compile(text, "<program>"), space)
        target = space.get(entry_point)
        if not callable(target):
            raise NameError(f"the program defines no function {entry_point!r}")
        line.send({"ready": True})
    except BaseException as error:
        _tell_traceback(error)
        _flush()
        line.send({"ended": ending(error)})
        os._exit(1)
    while True:
        try:
            request = line.receive()
        except EOFError:
            _flush()
            os._exit(0)
        answer = _answer(target, request)
        _flush()  # before the answer: it may be the check's last, after which nobody reads on
        line.send(answer)


def _flush() -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass


def _answer(target: Any, request: Any) -> Any:
    args, kwargs = decode(request["args"]), decode(request["kwargs"])
    try:
        value = target(*args, **kwargs)
        changed = [_maybe(a) for a in args]
        return {"value": encode(value), "args": changed, "cpu_s": time.process_time()}
    except BaseException as error:
        told = ending(error)
        if isinstance(error, SystemExit):
            return {"ended": told}
        base = next(t.__name__ for t in type(error).__mro__ if t.__module__ == "builtins")
        return {"raised": base, "ended": told}


def _maybe(value: Any) -> Any:
    """A list or dict that may have been changed in place, or nothing."""
    if not isinstance(value, (list, dict, set)):
        return None
    try:
        return encode(value)
    except TypeError:
        return None


class Ended(Exception):
    """The program told of its end instead of answering."""


class Candidate:
    """The program's function, as the checker sees it: calls cross to the other process."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.told: Ending | None = None
        self.cpu_s = 0.0  # of the program's process, by its own account

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._line.send({"args": encode(list(args)), "kwargs": encode(kwargs)})
        answer = self._line.receive()
        if "value" in answer:
            self.cpu_s = max(0.0, float(answer["cpu_s"]))
            for mine, theirs in zip(args, answer.get("args", ())):
                if theirs is not None:
                    _update(mine, decode(theirs))
            return decode(answer["value"])
        self.told = answer["ended"]
        kind = getattr(builtins, str(answer.get("raised")), None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise Ended(self.told["reason"])
        reason = self.told["reason"].partition(": ")[2]
        raise _raised(kind, reason, self.told)


def _raised(kind: type[Exception], reason: str, told: Ending) -> Exception:
    try:
        error = kind(reason)
    except TypeError:  # UnicodeDecodeError and its like want five arguments
        error = RuntimeError(told["reason"])
    error.__dict__["told"] = told
    return error


def _update(mine: Any, theirs: Any) -> None:
    """Arguments the program changed in place change for the check too."""
    if isinstance(mine, list) and isinstance(theirs, list):
        mine[:] = theirs
    elif isinstance(mine, (dict, set)) and isinstance(theirs, type(mine)):
        mine.clear()
        mine.update(theirs)


def check(
    setup: str, tests: str, entry_point: str, line: Line, report: int, ticket: int
) -> NoReturn:
    """Run trusted tests against a program that runs in another process."""
    random.seed(0)
    candidate = Candidate(line)

    def action() -> None:
        first = line.receive()
        if "ended" in first:
            candidate.told = first["ended"]
            raise Ended(candidate.told["reason"])
        space = _namespace()
        exec(_compile(setup, "<setup>"), space)
        space[entry_point] = candidate
        exec(_compile(tests, "<check>"), space)
        if callable(space.get("check")):
            space["check"](candidate)

    try:
        action()
        told: Ending = {"status": "passed", "reason": "", "code": 0}
    except BaseException as error:
        told = _failure(error, candidate)
    _flush()
    _report(told, report, ticket, candidate.cpu_s)


def _failure(error: BaseException, candidate: Candidate) -> Ending:
    """Why a check was not passed; what the program told of itself cannot make it pass."""
    told = candidate.told if isinstance(error, Ended) else getattr(error, "told", None)
    if told:
        status = str(told.get("status"))
        known = status in ENDINGS and status != "passed"
        return {
            "status": status if known else "failed",
            "reason": str(told.get("reason"))[:500],
            "code": 1,
        }
    if isinstance(error, (EOFError, BrokenPipeError)):
        return {"status": "exited", "reason": "the program ended before its check", "code": 1}
    _tell_traceback(error)
    return {**ending(error), "code": 1}
