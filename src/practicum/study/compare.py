"""Comparisons on a person's own data: options from the study's signature, arms side by side."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from practicum.errors import InputError
from practicum.study.evidence import (
    Differences,
    Interval,
    binomial_interval,
    bootstrap_interval,
    number,
    yes_or_no,
)
from practicum.study.results import Results
from practicum.study.spec import Measure, Outcome, Study

if TYPE_CHECKING:
    import pandas as pd

    from practicum.data.kinds import UserData


DECIDING = 3  # seeds below which a spread is a guess, whatever its interval says
# Doubles near one are 2e-16 apart, so what is left of sums and differences of numbers around one
# is rounding up to here: 8e-16 against 4e-14 tells in which order an arm added, not how good it is.
ROUNDING = 1e-12
TOLD = 4  # settings that the sentence speaks of; the table has them all


@dataclass(frozen=True)
class Option:
    """An option of ``Study.on``: its name, type, default and explanation."""

    name: str
    annotation: Any
    default: Any
    about: str


def options_of(study: type[Study]) -> dict[str, Option]:
    """The options of a method's comparison, read from the signature of ``on``.

    An explanation is written where the option is: ``bandwidth: Annotated[float, "..."] = 0.3``.
    """
    found = {}
    for name, parameter in inspect.signature(study.on).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        annotation, about = parameter.annotation, ""
        if isinstance(annotation, str):  # from __future__ import annotations
            annotation = eval(annotation, vars(sys.modules[study.__module__]))
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *notes = typing.get_args(annotation)
            about = next((note for note in notes if isinstance(note, str)), "")
        found[name] = Option(name, annotation, parameter.default, about)
    return found


def study_on(study: type[Study], source: UserData, options: Mapping[str, Any]) -> Study:
    """The study on a person's data, options checked and converted from text.

    Raises
    ------
    InputError
        An option is unknown or has the wrong type; or the data are refused.
    """
    known = options_of(study)
    values = {}
    for raw, value in options.items():
        name = raw.replace("-", "_")
        if name not in known:
            there = ", ".join(known) or "none"
            raise InputError(f"{study.slug} has no option {raw!r}", f"its options: {there}")
        values[name] = _convert(known[name], value)
    try:
        made = study.on(source, **values)
    except InputError as error:
        raise InputError(error.message, _as_options(error.hint, known)) from error
    except (OSError, UnicodeDecodeError) as error:
        paths = ", ".join(map(str, source.paths))
        raise InputError(f"{paths}: cannot be read ({error})") from error
    made.source = source
    made.options = {k: v for k, v in values.items() if v != known[k].default}
    return made


def _as_options(hint: str | None, known: Mapping[str, Option]) -> str | None:
    """A hint in the words of ``use`` or of Python, ``--label X`` or ``label="X"``, as ``-o``."""
    import shlex

    from practicum.study.hints import respelled

    def option(name: str, value: str) -> str | None:
        if name not in known:
            return None
        if value != "...":
            try:
                _convert(known[name], value)
            except InputError:  # what Python takes, this option may not
                return None
        return f"-o {name}={shlex.quote(value) if value != '...' else value}"

    def put(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        return f"-o {name}={found[2] or found[3]}" if name in known else found[0]

    # readers that both layers use say "--columns (columns=...)"
    both = r"--([a-z][a-z-]*) (?:\(\w+=([^)]*)\)|([^\s,;]+))"
    return respelled(hint and re.sub(both, put, hint), option)


def _convert(option: Option, value: Any) -> Any:
    origins = {
        typing.get_origin(a) or a for a in (option.annotation, *typing.get_args(option.annotation))
    }
    if isinstance(value, str) and origins & {list, tuple}:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return TypeAdapter(option.annotation).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise InputError(f"option {option.name}={value}: {problem}", option.about) from error


@dataclass(frozen=True)
class Row:
    """One arm on one data set and measure, beside the method."""

    dataset: str
    setting: str  # the parameters, but for those that every cell shares
    measure: str
    arm: str
    role: str
    mean: float
    interval: Interval
    n: int
    difference: float | None  # this arm minus the method
    difference_interval: Interval | None
    standing: str  # ahead | behind | undecided | equal, of the method against this arm; "" for it


def comparison(study: Study, results: Results) -> list[Row]:
    """Every arm against the method: means, intervals, paired differences, who is ahead."""
    method = next(iter(study.arms))
    rows: list[Row] = []
    settings: dict[tuple[str, tuple[tuple[str, Any], ...]], list[Outcome]] = {}
    for outcome in results.outcomes:
        trial = outcome.trial
        settings.setdefault((trial.dataset, trial.params), []).append(outcome)
    shared = _shared(results)
    for (dataset, params), outcomes in settings.items():
        part = Results(outcomes, results.scale)
        setting = _told(pair for pair in params if pair not in shared)
        for measure in study.measures:
            for arm, about in study.arms.items():
                values = part.values(measure, arm=arm)
                if values.empty:
                    continue
                difference, interval, standing = _against(study, part, measure, arm, method)
                rows.append(
                    Row(
                        dataset,
                        setting,
                        measure,
                        arm,
                        about.role,
                        float(values.mean()),
                        mean_interval(study.measures[measure], values),
                        len(values),
                        difference,
                        interval,
                        standing,
                    )
                )
    return rows


def shared_setting(results: Results) -> str:
    """The parameters that every cell has with one value: said once, above the table."""
    return _told(_shared(results))


def _shared(results: Results) -> list[tuple[str, Any]]:
    cells = [outcome.trial.params for outcome in results.outcomes]
    return [pair for pair in cells[0] if all(pair in cell for cell in cells)] if cells else []


def _told(params: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params)


def mean_interval(measure: Measure, values: pd.Series) -> Interval:
    """Of the mean over seeds; exact where every value is a yes or a no."""
    if yes_or_no(values):
        return binomial_interval(int(values.sum()), len(values))
    return bootstrap_interval(values, bounds=measure.bounds)


def paired_difference(measure: Measure, a: pd.Series, b: pd.Series) -> tuple[float, Interval]:
    """The mean of ``a - b`` over the seeds that both have, and its interval."""
    sample = Differences(a, b, measure.bounds)
    return sample.mean, sample.bounded()


def _against(
    study: Study, part: Results, measure: str, arm: str, method: str
) -> tuple[float | None, Interval | None, str]:
    if arm == method:
        return None, None, ""
    other, own = part.paired(measure, arm, method)
    if other.empty:
        return None, None, "undecided"
    about = study.measures[measure]
    mean, interval = paired_difference(about, other, own)
    if interval.low == interval.high == 0:
        return mean, interval, "equal"
    if len(other) < DECIDING:
        return mean, interval, "undecided"
    if _rounding(other, own):
        return mean, interval, "equal"
    if interval.low <= 0 <= interval.high:
        return mean, interval, "undecided"
    ahead = (mean > 0) == (about.better == "lower")
    return mean, interval, "ahead" if ahead else "behind"


def _rounding(a: pd.Series, b: pd.Series) -> bool:
    """Both arms are zero but for rounding; a "no" is an answer, and no number that was rounded."""
    if yes_or_no(a) and yes_or_no(b):
        return False
    return bool((a.abs() < ROUNDING).all() and (b.abs() < ROUNDING).all())


def caveat(rows: list[Row]) -> str:
    """What is to be said above the table: that so few seeds decide nothing; "" for enough.

    Examples
    --------
    >>> caveat([])
    ''
    """
    most = max((r.n for r in rows), default=DECIDING)
    if most >= DECIDING:
        return ""
    seeds = "One seed decides" if most == 1 else "Two seeds decide"
    return f"{seeds} nothing: no arm is called ahead or behind. Ask for more, say --seeds 10."


def sentence(study: Study, rows: list[Row]) -> str:
    """What the comparison says on the headline measure: a plain sentence for each setting.

    An arm may be behind in one setting and undecided in the next, so nothing is pooled over them.
    """
    headline = next(iter(study.measures))
    method = next(iter(study.arms))
    settings: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.measure == headline:
            settings.setdefault((row.dataset, row.setting), []).append(row)
    if not any(row.arm == method for part in settings.values() for row in part):
        return f"{method} has no finished trial."
    label = study.measures[headline].label
    if len(settings) == 1:
        (part,) = settings.values()
        return f"{label}: {_standings(method, part)}"
    datasets = {dataset for dataset, _ in settings}
    told = [
        f"{_place(dataset, setting, len(datasets) > 1)}: {_standings(method, part)}"
        for (dataset, setting), part in list(settings.items())[:TOLD]
    ]
    if len(settings) > TOLD:
        told.append(f"{len(settings) - TOLD} more in the table.")
    return " ".join([f"{label}.", *told])


def _place(dataset: str, setting: str, several: bool) -> str:
    """The words for a row of the table, without a data set that all rows share."""
    if not several:
        return f"With {setting}" if setting else "Without a setting"
    return f"On {dataset} with {setting}" if setting else f"On {dataset}"


def _standings(method: str, part: list[Row]) -> str:
    """One setting in a sentence: the method's mean, and where it stands against every arm."""
    own = next((r for r in part if r.arm == method), None)
    if own is None:
        return f"{method} has no finished trial to compare with."
    words = {
        "ahead": "ahead of",
        "behind": "behind",
        "undecided": "undecided against",
        "equal": "equal to",
    }
    said = []
    for standing, word in words.items():
        if arms := sorted(r.arm for r in part if r.standing == standing):
            said.append(f"{word} {', '.join(arms)}")
    return f"{method} {number(own.mean)} {own.interval} is {'; '.join(said) or 'alone'}."
