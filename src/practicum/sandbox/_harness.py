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


# of one message: which lists, dicts and sets were met, in order; a second time they are a number
Met = dict[int, tuple[int, Any]]


def encode(value: Any, met: Met | None = None) -> Any:
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
    met = {} if met is None else met
    if isinstance(value, (list, dict, set)):
        if id(value) in met:
            return {"r": met[id(value)][0]}
        met[id(value)] = len(met), value
        return _inside(value, met)
    if isinstance(value, tuple):
        return {"t": [encode(item, met) for item in value]}
    if isinstance(value, frozenset):
        return {"z": [encode(item, met) for item in value]}
    if isinstance(value, (bool, int, float, str)):  # subclasses: as what they are
        plain = next(t for t in (int, float, str) if isinstance(value, t))
        return encode(plain(value))
    raise TypeError(f"a {type(value).__name__} cannot be handed over to the check")


def _inside(value: Any, met: Met) -> Any:
    if isinstance(value, list):
        return [encode(item, met) for item in value]
    if isinstance(value, dict):
        return {"d": [[encode(k, met), encode(v, met)] for k, v in value.items()]}
    return {"s": [encode(item, met) for item in value]}


def decode(value: Any, made: list[Any] | None = None) -> Any:
    """What :func:`encode` wrote; `made` collects lists, dicts and sets in the order of `met`."""
    if not isinstance(value, (list, dict)):
        return value
    made = [] if made is None else made
    kind = "l" if isinstance(value, list) else next(iter(value))
    if kind in EMPTY:
        made.append(EMPTY[kind]())
        return _fill(made[-1], value, made)
    inside = value[kind]
    if kind in "ifcb":
        return {
            "i": lambda: int(inside, 16),
            "f": lambda: float.fromhex(inside),
            "c": lambda: complex(*map(float.fromhex, inside)),
            "b": lambda: bytes.fromhex(inside),
        }[kind]()
    if kind == "r":
        return made[inside]
    return {"t": tuple, "z": frozenset}[kind](decode(item, made) for item in inside)


EMPTY: dict[str, Callable[[], Any]] = {"l": list, "d": dict, "s": set}


def _fill(into: Any, value: Any, made: list[Any]) -> Any:
    if isinstance(into, list):
        into.extend(decode(item, made) for item in value)
    elif isinstance(into, dict):
        for k, v in value["d"]:
            key = decode(k, made)
            into[key] = decode(v, made)
    else:
        into.update([decode(item, made) for item in value["s"]])
    return into


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
    made: list[Any] = []
    args, kwargs = decode(request, made)
    met = {id(container): (i, container) for i, container in enumerate(made)}
    try:
        value = target(*args, **kwargs)
        now = [_maybe(container, met) for container in made]
        return {"value": encode(value, met), "now": now, "cpu_s": time.process_time()}
    except BaseException as error:
        told = ending(error)
        if isinstance(error, SystemExit):
            return {"ended": told}
        base = next(t.__name__ for t in type(error).__mro__ if t.__module__ == "builtins")
        return {"raised": base, "ended": told}


def _maybe(container: Any, met: Met) -> Any:
    """What an argument, or a part of one, holds now; nothing where that cannot cross."""
    before = len(met)
    try:
        return _inside(container, met)
    except TypeError:
        while len(met) > before:
            met.popitem()
        return None


class Ended(BaseException):
    """The program ended instead of answering; no test that expects an error may take it for one."""


class Candidate:
    """The program's function, as the checker sees it: calls cross to the other process."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.over: Ending | None = None  # how the program ended, if it did
        self.cpu_s = 0.0  # of the program's process, by its own account

    def begin(self) -> None:
        """Wait until the program has run to the end of its definitions."""
        first = self._receive()
        if "ended" in first:
            self._leave(first["ended"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        met: Met = {}
        request = encode((args, kwargs), met)
        try:
            self._line.send(request)
        except BrokenPipeError:
            self._leave(None)
        answer = self._receive()
        if "value" in answer:
            self.cpu_s = max(0.0, float(answer["cpu_s"]))
            return self._taken(answer, [container for _, container in met.values()])
        if "raised" not in answer:
            self._leave(answer["ended"])
        told = answer["ended"]
        kind = getattr(builtins, str(answer["raised"]), None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            self._leave(told)
        raise _raised(kind, told["reason"].partition(": ")[2], told)

    def _receive(self) -> Any:
        try:
            return self._line.receive()
        except EOFError:
            self._leave(None)

    def _leave(self, told: Any) -> NoReturn:
        silent = {"status": "exited", "reason": "the program ended before its check"}
        if self.over is None:  # a check that goes on asking learns nothing new
            self.over = told if isinstance(told, dict) else silent
        raise Ended

    @staticmethod
    def _taken(answer: Any, mine: list[Any]) -> Any:
        """The result; arguments the program changed in place change for the check too."""
        made, contents = list(mine), []
        for container, now in zip(mine, answer["now"]):
            empty = next(t for t in (list, dict, set) if isinstance(container, t))()
            contents.append(None if now is None else _fill(empty, now, made))
        value = decode(answer["value"], made)
        for container, content in zip(mine, contents):
            if content is None:
                continue
            container.clear()
            add = container.extend if isinstance(container, list) else container.update
            add(content)
        return value


def _raised(kind: type[Exception], reason: str, told: Ending) -> Exception:
    try:
        error = kind(reason)
    except TypeError:  # UnicodeDecodeError and its like want five arguments
        error = RuntimeError(told["reason"])
    error.__dict__["told"] = told
    return error


def check(
    setup: str, tests: str, entry_point: str, line: Line, report: int, ticket: int
) -> NoReturn:
    """Run trusted tests against a program that runs in another process."""
    random.seed(0)
    candidate = Candidate(line)

    def action() -> None:
        candidate.begin()
        space = _namespace()
        exec(_compile(setup, "<setup>"), space)
        space[entry_point] = candidate
        exec(_compile(tests, "<check>"), space)
        if callable(space.get("check")):
            space["check"](candidate)

    told: Ending = {"status": "passed", "reason": "", "code": 0}
    try:
        action()
    except BaseException as error:
        told = _failure(error)
    if candidate.over is not None:  # even where the tests caught what was raised then
        told = _told(candidate.over)
    _flush()
    _report(told, report, ticket, candidate.cpu_s)


def _failure(error: BaseException) -> Ending:
    """Why a check was not passed."""
    if told := getattr(error, "told", None):
        return _told(told)
    if not isinstance(error, Ended):
        _tell_traceback(error)
    return {**ending(error), "code": 1}


def _told(told: Ending) -> Ending:
    """What a program told of its end, which cannot make it pass."""
    status = str(told.get("status"))
    known = status in ENDINGS and status != "passed"
    reason = str(told.get("reason"))[:500]
    return {"status": status if known else "failed", "reason": reason, "code": 1}
