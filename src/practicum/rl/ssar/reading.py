"""How a log is read: the options that every command with a log has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from practicum.errors import InputError

if TYPE_CHECKING:
    from practicum.data.offline import OfflineDataset

SETS = ("pendulum", "maze")
# our names of the arrays of a transition, and the options that name the user's
NAMED = {
    "observations": "obs",
    "actions": "act",
    "rewards": "reward",
    "terminals": "terminal",
    "timeouts": "timeout",
    "episode": "episode",
}


def _option(*names: str, text: str, default: str | bool = True) -> Any:
    return typer.Option(
        *names, help=text, show_default=default, rich_help_panel="How the log is read"
    )


@dataclass(frozen=True)
class Reading:
    """How a log is read: the options that every command with a log has."""

    obs: Annotated[
        str | None,
        _option(
            text="Observation columns, separated by commas, or a pattern; of NPZ and HDF5 the "
            "array.",
            default="obs_*, observations",
        ),
    ] = None
    act: Annotated[
        str | None, _option(text="Action columns, likewise.", default="act_*, actions")
    ] = None
    reward: Annotated[str | None, _option(text="Column or array.", default="reward, rewards")] = (
        None
    )
    terminal: Annotated[
        str | None,
        _option(
            text="Column or array: the episode ended by itself.",
            default="terminal, terminals, done, ...",
        ),
    ] = None
    timeout: Annotated[
        str | None,
        _option(
            text="Column or array: the episode was cut off.",
            default="timeout, timeouts, truncated, ...",
        ),
    ] = None
    episode: Annotated[
        str | None,
        _option(text="Column or array: which episode a row belongs to.", default="episode"),
    ] = None
    low: Annotated[
        str | None,
        _option(
            text="Smallest action, one number or one per column; 'data': the smallest found.",
            default="-1, or what the file says",
        ),
    ] = None
    high: Annotated[
        str | None, _option(text="Largest action.", default="1, or what the file says")
    ] = None
    jumps: Annotated[
        bool,
        _option("--jumps", text="Without terminals: an episode starts where the state jumps."),
    ] = False
    terminals_are_timeouts: Annotated[
        bool,
        _option(
            "--terminals-are-timeouts",
            text="Every terminal is a time limit, beyond which values still count.",
        ),
    ] = False
    force: Annotated[bool, _option("--force", text="Take fewer than 1,000 transitions, too.")] = (
        False
    )

    def read(self, log: str, bounds: Any = None) -> OfflineDataset:
        """The log; what was read from where is printed. ``bounds`` hold where none are given."""
        from practicum.data.offline import read_offline

        if log.partition(":")[0] in SETS:
            given = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
            if given:
                option = given[0].replace("_", "-")
                raise InputError(f"--{option} is for files; {log} needs none", "leave it out")
            return own_log(log, 100, 0)
        options: dict[str, Any] = {
            "jumps": self.jumps,
            "terminals_are_timeouts": self.terminals_are_timeouts,
            "force": self.force,
            **self._names(Path(log).suffix.lower()),
        }
        bounds = self.bounds or bounds
        if bounds is not None:
            options["action_bounds"] = bounds
        data = read_offline(log, **options)
        for note in data.notes:
            if note.startswith("read "):
                typer.echo(f"{log}: {note}.")
        return data

    @property
    def bounds(self) -> Any:
        """What ``action_bounds`` of the readers takes."""
        if self.low is None and self.high is None:
            return None
        if "data" in (self.low, self.high):
            return "data"
        return _numbers("--low", self.low or "-1"), _numbers("--high", self.high or "1")

    def _names(self, suffix: str) -> dict[str, Any]:
        """The user's names, as the reader of this kind of file takes them."""
        from practicum.data.offline.dataset import ARRAYS, TABLES

        named = {ours: getattr(self, o) for ours, o in NAMED.items() if getattr(self, o)}
        if suffix in ARRAYS:
            return {"keys": named}
        if suffix in TABLES:
            options = {NAMED[ours]: value for ours, value in named.items()}
            for option in {"obs", "act"} & set(options):
                options[option] = [c.strip() for c in options[option].split(",") if c.strip()]
            return options
        if named:
            option = NAMED[next(iter(named))]
            raise InputError(f"--{option}: a Minari data set names its own arrays", "leave it out")
        return {}


def reads_log(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Reading`, handed over as its argument ``reading``."""
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name]
        )
        for f in fields(Reading)
    ]
    own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:
        reading = Reading(**{o.name: given.pop(o.name) for o in options})
        command(*args, **given, reading=reading)

    kept = [p for p in own if p.name != "reading"]
    run.__signature__ = inspect.Signature([*kept, *options])  # what typer looks at
    run.__annotations__ = {p.name: p.annotation for p in (*kept, *options)}
    return run


def own_log(name: str, episodes: int, seed: int) -> OfflineDataset:
    """A set of ours, ``pendulum:NAME`` or ``maze:NAME``."""
    from practicum.rl.ssar.pendulum import pendulum_mix
    from practicum.rl.ssar.pointmaze import pointmaze_mix

    family, _, mix = name.partition(":")
    if family not in SETS:
        raise InputError(f"{name!r}: sets are called pendulum:mixed-20 or maze:mixed-20")
    make = pendulum_mix if family == "pendulum" else pointmaze_mix
    return make(mix, episodes, rng=seed)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} {text!r}: expected a number, numbers separated by commas, or data"
        ) from None
