"""What every command refuses before any work, so that a new method need not think of it.

Odd numbers, blank names, pipes, outputs that cannot be written and outputs that would replace what
is read; and hints of the Python layer, respelled as the options of the command that was run.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path
from typing import Any

from practicum.errors import InputError, PracticumError

OUTPUTS = ("--out", "--plot", "--html", "--csv", "--parquet", "--markdown", "--receipt", "--why",
           "--losses", "OUT")  # fmt: skip
MOST_SEEDS = 100_000  # their trials are listed before the first is run
LARGEST = 2**32 - 1  # NumPy's and scikit-learn's seeds end here, and no table is longer


def guarded(command: Any, hints: bool = False) -> Any:
    """The command, refusing before any work what no method means by a number or a file.

    NaN and infinity, integers beyond every counter, names that are blank, pipes and devices, and
    outputs that cannot be written or would replace an input: in one place, so that a new method
    need not think of them. With ``hints``, those that name Python arguments name its options.
    """
    for inner in getattr(command, "commands", {}).values():
        guarded(inner, hints)
    for param in command.params:
        param.callback = _odd_refused(param.callback)
    if not hasattr(command, "commands"):
        command.invoke = _careful(command.invoke, hints)
    return command


def _careful(invoke: Any, hints: bool) -> Any:
    def run(ctx: Any) -> Any:
        _refuse_overwriting(ctx)
        try:
            return invoke(ctx)
        except PracticumError as error:
            if hints:
                error.hint = in_options(error.hint, ctx.command)
            raise

    return run


def _name(param: Any) -> str:
    named: str = param.opts[-1]
    return named if param.param_type_name == "option" else param.human_readable_name


def _is_output(param: Any) -> bool:
    return _name(param) in OUTPUTS and param.type.name == "path"


def _odd_refused(callback: Any) -> Any:
    def check(ctx: Any, param: Any, value: Any) -> Any:
        name = _name(param)
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, int | float):
                _refuse_number(name, one)
            elif isinstance(one, str | Path):
                if not str(one).strip(" ,") and param.default != "":
                    raise InputError(f"{name} is empty", _usual(param))
                if _is_output(param):
                    refuse_output(name, one)
                else:
                    _refuse_pipe(name, one)
        return callback(ctx, param, value) if callback else value

    return check


def _refuse_number(name: str, value: float) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{name} is {value:g}; a finite number expected")
        return
    most = MOST_SEEDS if name == "--seeds" else LARGEST
    if abs(value) > most:
        digits = len(str(abs(value)))
        said = f"{value:,}" if digits < 13 else f"a number of {digits} digits"
        raise InputError(f"{name} is {said}; at most {most:,} expected")


def _usual(param: Any) -> str:
    if param.required:
        return "practicum ... --help says what it takes"
    usual = f"; then it is {param.default}" if isinstance(param.default, str) else ""
    return f"leave it out, or name something{usual}"


def _refuse_pipe(name: str, path: str | Path) -> None:
    """A pipe can be read once and never ends if nobody writes; readers look at a file twice."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # no file, or no path at all
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{name} {path} is a pipe or a device, not a file", "save it as a file first"
        )


def refuse_output(name: str, path: str | Path) -> None:
    """Said before the work: nothing can be written there."""
    target = os.path.expanduser(path)
    if os.path.isdir(target):
        raise InputError(f"{name} {path}: cannot be written (it is a folder)", "name a file in it")
    _refuse_pipe(name, target)
    try:
        os.lstat(target)
    except FileNotFoundError:
        pass
    except OSError as error:  # its folder is a file, or the name is too long
        raise InputError(f"{name} {path}: cannot be written ({error.strerror})") from error
    folder = os.path.dirname(os.path.abspath(target))
    while not os.path.lexists(folder):  # it is made when the file is written
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = f"{folder}: {error.strerror}"
        raise InputError(
            f"{name} {path}: cannot be written ({reason})", "name a file in a folder of yours"
        ) from error


def _refuse_overwriting(ctx: Any) -> None:
    """A person's own file that is an output too would be lost; no method need think of it.

    Asked once all parameters are known: a default is as good at it as a name that was given.
    """
    outputs: dict[str, str] = {}
    files: list[str] = []
    folders: list[str] = []
    for param in ctx.command.params:
        value = ctx.params.get(param.name)
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, str | Path) or param.type.name == "choice":
                continue
            if _is_output(param):
                outputs[_name(param)] = str(one)
                continue
            path = _meant(str(one))
            if os.path.isfile(path):
                files.append(path)
            # a word like --label text is no folder, even where a folder has its name
            elif os.path.isdir(path) and (
                param.type.name == "path"
                or param.param_type_name == "argument"
                or _name(param) == "--data"
            ):
                folders.append(path)
    targets = {name: os.path.expanduser(path) for name, path in outputs.items()}
    if len(set(map(os.path.realpath, targets.values()))) < len(targets):
        raise InputError(
            f"{' and '.join(outputs)} name one file: one would be lost", "name a file for each"
        )
    for name, target in targets.items():
        if not os.path.isfile(target):
            continue
        hint = "name another output" + f" with {name}" * name.startswith("-")
        if any(os.path.samefile(target, file) for file in files):
            raise InputError(f"{outputs[name]} is read and would be overwritten", hint)
        for folder in folders:
            # a report that the run before left there is nobody's data
            if _inside(target, folder) and not target.lower().endswith(".html"):
                raise InputError(
                    f"{outputs[name]} is in {folder}, which is read, and would be overwritten", hint
                )


def _meant(text: str) -> str:
    """The file or folder in ``FILE``, ``FILE:COLUMN`` or ``NAME=FILE``; a very name wins."""
    meant = [text, text.rpartition(":")[0], text.partition("=")[2]]
    paths = [os.path.expanduser(path) for path in meant if path]
    return next((path for path in paths if os.path.exists(path)), text)


def _inside(path: str, folder: str) -> bool:
    """A link counts both where it lies and where it leads."""
    root = os.path.realpath(folder)
    lies = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    return any(root == os.path.commonpath([root, one]) for one in (lies, os.path.realpath(path)))


def in_options(hint: str | None, command: Any) -> str | None:
    """A hint of the Python layer, its arguments as the options of the command that was run."""
    from practicum.study.hints import respelled

    known = {opt: param for param in command.params for opt in param.opts}

    def option(name: str, value: str) -> str | None:
        spelling = f"--{name.replace('_', '-')}"
        param = known.get(spelling)
        if param is None or re.search(rf"{spelling}(?![\w-])", hint or ""):
            return None  # there is none, or the hint names it beside the argument
        if getattr(param, "is_flag", False):
            off = next(iter(param.secondary_opts), None)
            return {"True": spelling, "False": off}.get(value)
        if value != "..." and value not in getattr(param.type, "choices", [value]):
            return None
        return f"{spelling} {value if value == '...' else shlex.quote(value)}"

    return respelled(hint, option)
