"""``practicum use abstract-reasoning``: ask a model, compare two, write the items, plan a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field
from typing_extensions import TypedDict

from practicum.models.chat.options import (
    ApiKeyEnvOption,
    CacheOption,
    ConcurrencyOption,
    EndpointOption,
    ModelOption,
)
from practicum.study.command import Progress, refuse_existing

if TYPE_CHECKING:
    from practicum.language.abstract_reasoning.evaluation import AbstractReport
    from practicum.language.abstract_reasoning.items import Item

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Does a model know the rule, or the symbols? Same items, symbols replaced.",
)

Tasks = Annotated[
    str,
    typer.Option(
        "--tasks",
        help="Sets or categories, separated by commas: bc, ec, nbr, sma, sr, paired (the 14 of "
        "ec that are remapped), ec/var_set ...",
    ),
]
Reading = Annotated[
    Literal["strict", "lenient", "official"],
    typer.Option(
        help="How answers are read: strict wants 'The answer is ...', lenient takes other "
        "endings too, official is the published expression."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]


@app.command()
def run(
    model: ModelOption = "local",
    endpoint: EndpointOption = None,
    tasks: Tasks = "paired",
    data: Annotated[
        Path | None,
        typer.Option(help="Your own tasks (JSON lines) instead of generated sets."),
    ] = None,
    gsm8k: Annotated[
        Path | None, typer.Option(help="Your copy of GSM8K (JSON lines), asked as it is.")
    ] = None,
    kinds: Annotated[
        str, typer.Option(help="Forms to ask, separated by commas.")
    ] = "raw,full,operand,operator",
    items: Annotated[int, typer.Option(min=1, max=100_000, help="Items a set.")] = 24,
    shots: Annotated[int, typer.Option(min=1, help="Worked examples in each item.")] = 8,
    maps: Annotated[int, typer.Option(min=1, max=10_000, help="Random maps an item and form.")] = 3,
    cot: Annotated[bool, typer.Option("--cot", help="Ask for a chain of thought.")] = False,
    reading: Reading = "lenient",
    official: Annotated[
        bool,
        typer.Option(
            "--official",
            help="Items and maps as published: maps may merge symbols, functions change from "
            "line to line.",
        ),
    ] = False,
    alphabet: Annotated[
        str | None, typer.Option(help="Characters to draw from; letters and digits unless given.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="New tokens a reply may have.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of items and maps.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Every reply and setting as JSON, for compare.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Figures as one HTML page.")] = None,
    force: Force = False,
    api_key_env: ApiKeyEnvOption = "OPENAI_API_KEY",
    concurrency: ConcurrencyOption = 8,
    cache: CacheOption = "default",
) -> None:
    """Ask a model the same items with ordinary and with replaced symbols.

    Example: practicum use abstract-reasoning run --endpoint http://127.0.0.1:8000/v1 --model NAME
    --tasks ec --items 24 --shots 8 --out name.json
    """
    from practicum.language.abstract_reasoning.evaluation import evaluate
    from practicum.language.abstract_reasoning.remap import ALNUM
    from practicum.models.chat import open_chat
    from practicum.study.report import write_atomically

    refuse_existing([out, plot], force)
    asked = _asked(tasks, data, gsm8k, items, shots, seed, official)
    forms = [part.strip() for part in kinds.split(",") if part.strip()]
    typer.echo(_plan(asked, forms, maps, data or gsm8k))
    with open_chat(
        model, endpoint=endpoint, cache=cache, api_key_env=api_key_env, concurrency=concurrency
    ) as chat:
        with Progress("replies") as progress:
            report = evaluate(
                chat,
                asked,
                forms,
                items=items,
                shots=shots,
                maps=maps,
                cot=cot,
                seed=seed,
                alphabet=alphabet or ALNUM,
                collision_free=not official,
                compat="official" if official else "ours",
                max_tokens=max_tokens,
                progress=progress,
            )
        cost = str(chat.report())
    report.settings["tasks"] = str(data or gsm8k or tasks)
    _tell(report.read(reading))
    typer.echo(cost)
    if out is not None:
        import json

        content = json.dumps(report.to_json(), indent=1, allow_nan=False)
        write_atomically(out, lambda p: p.write_text(content, encoding="utf-8"))
        typer.echo(f"Replies and settings: {out}")
    if plot is not None:
        _draw(report.read(reading), plot)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="What run --out wrote.")],
    second: Annotated[Path, typer.Argument(help="Another, of the same items.")],
    reading: Reading = "lenient",
) -> None:
    """Two models on the same items: accuracy in each form, and Delta, with intervals.

    Example: practicum use abstract-reasoning compare small.json large.json
    """
    from practicum.language.abstract_reasoning.evaluation import compare_reports

    a, b = (_report(path).read(reading) for path in (first, second))
    for path, report in ((first, a), (second, b)):
        s = report.settings
        typer.echo(
            f"{path}: {report.name}, tasks {s.get('tasks', '?')}, {s['shots']} shots, "
            f"{s['maps']} maps, seed {s['seed']}{', chain of thought' if s['cot'] else ''}"
        )
    table = compare_reports(a, b)
    name_a, name_b = (a.name, b.name) if a.name != b.name else (first.name, second.name)
    typer.echo(f"\n{'':<16}{name_a[:18]:>20}{name_b[:18]:>20}   second minus first, 95 %   items")
    for name, row in table.iterrows():
        gap = f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]"
        typer.echo(f"{name:<16}{row.a:>20.3f}{row.b:>20.3f}   {gap:<25} {row['items']:.0f}")
    typer.echo(f"\nAccuracies and Deltas by the {reading} reading; paired by item, over sets.")
    for name, row in table.iterrows():
        if row.low > 0 or row.high < 0:
            more = name_b if row.difference > 0 else name_a
            words = "loses more to replaced symbols" if name.startswith("delta") else "is ahead"
            typer.echo(f"{name}: {more} {words}.")


@app.command()
def items(
    tasks: Tasks = "paired",
    out: Annotated[Path, typer.Option(help="JSON lines, one item a line.")] = Path("items.jsonl"),
    n: Annotated[int, typer.Option("--items", min=1, max=100_000, help="Items a set.")] = 96,
    shots: Annotated[int, typer.Option(min=1, help="Worked examples in each.")] = 50,
    kind: Annotated[
        Literal["raw", "full", "operand", "operator"], typer.Option(help="Symbols to replace.")
    ] = "raw",
    seed: Annotated[int, typer.Option(min=0, help="Of items and maps.")] = 42,
    official: Annotated[bool, typer.Option("--official", help="As published.")] = False,
    force: Force = False,
) -> None:
    """Write generated items, for your own harness; the same arguments give the same items.

    Example: practicum use abstract-reasoning items --tasks ec/var_set,nbr --items 96 --out it.jsonl
    """
    import json
    import warnings

    import numpy as np

    from practicum.language.abstract_reasoning.items import item_record, make_items, task_names
    from practicum.language.abstract_reasoning.remap import remap
    from practicum.language.abstract_reasoning.solvers import identifiable
    from practicum.study.report import write_atomically

    refuse_existing([out], force)
    compat = "official" if official else "ours"
    made = [i for name in task_names(tasks) for i in make_items(name, n, shots, seed, compat)]
    if kind != "raw":
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = [remap(i, kind, rng, collision_free=not official)[0] for i in made]
        for words in dict.fromkeys(str(w.message) for w in caught):
            typer.echo(f"Note: {words}.")
    open_ = sum(identifiable(item) is False for item in made)
    lines = "".join(json.dumps(item_record(item)) + "\n" for item in made)
    write_atomically(out, lambda p: p.write_text(lines, encoding="utf-8"))
    sets = len({item.task for item in made})
    typer.echo(f"{len(made)} items of {sets} sets, symbols {kind}, seed {seed}: {out}")
    typer.echo(f"In {open_} of them the examples leave the answer open, symbols unknown.")


@app.command()
def power(
    sets: Annotated[int, typer.Option(min=1, help="Sets of tasks.")] = 14,
    n: Annotated[int, typer.Option("--items", min=1, help="Items a set.")] = 24,
    discordance: Annotated[
        float, typer.Option(help="Share of items that flip either way; .3 is usual.")
    ] = 0.3,
    maps: Annotated[int, typer.Option(min=1, help="Maps an item and form.")] = 3,
    shots: Annotated[int, typer.Option(min=1, help="Worked examples.")] = 8,
) -> None:
    """What a run of a given size can see, and how many prompts it takes.

    Example: practicum use abstract-reasoning power --sets 14 --items 24
    """
    from practicum.language.abstract_reasoning.metrics import (
        detectable,
        items_needed,
        standard_error,
    )

    m = sets * n
    typer.echo(
        f"{m} paired items ({sets} sets of {n}), {discordance:.0%} of them flipping: standard "
        f"error of Delta {standard_error(m, discordance):.3f}, smallest Delta seen with 80 % power "
        f"at 5 %: {detectable(m, discordance):.3f}."
    )
    prompts = m * (1 + 3 * maps)
    typer.echo(
        f"All four forms, {maps} map{'s' * (maps > 1)} each: {prompts:,} prompts of {shots} "
        f"examples, roughly {prompts * (60 + 50 * shots) / 1e6:.1f} million prompt tokens."
    )
    for target in (0.05, 0.1, 0.2):
        if target <= discordance:
            typer.echo(
                f"To see a Delta of {target:g}: {items_needed(target, discordance):,} items."
            )


# --- helpers -------------------------------------------------------------------------------------


class _Asked(TypedDict):
    """A row of a report, as its file holds it; what else there is, is not used."""

    task: str
    number: int
    kind: str
    map: int
    query: str
    answer: str
    reply: str
    strict: str | None
    lenient: str | None
    correct: float | None
    correct_lenient: float | None
    correct_official: float | None
    status: str


class _Settings(TypedDict):
    kinds: list[str]
    shots: int
    maps: int
    seed: int
    cot: bool


class _Saved(TypedDict):
    name: str
    settings: _Settings
    notes: list[str]
    items: Annotated[list[_Asked], Field(min_length=1)]


def _report(path: Path) -> AbstractReport:
    """A report that run wrote; one that was edited by hand is refused where it is wrong."""
    from pydantic import TypeAdapter, ValidationError

    from practicum.data.text import parse_json, read_utf8
    from practicum.errors import InputError
    from practicum.language.abstract_reasoning.evaluation import AbstractReport

    try:
        TypeAdapter(_Saved).validate_python(parse_json(read_utf8(path)))
    except (InputError, ValidationError) as error:
        if isinstance(error, InputError):
            raise
        wrong = error.errors()[0]
        where = ", ".join(map(str, wrong["loc"])) or "the whole"
        raise InputError(
            f"{path} is no report of abstract-reasoning: {where}: {wrong['msg']}",
            "write one with: practicum use abstract-reasoning run --out FILE.json",
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is no report of abstract-reasoning: not JSON ({error})") from None
    return AbstractReport.load(path)


def _asked(
    tasks: str,
    data: Path | None,
    gsm8k: Path | None,
    n: int,
    shots: int,
    seed: int,
    official: bool,
) -> list[Item]:
    """Generated items, or a person's own with what was left out said."""
    from dataclasses import replace

    from practicum.language.abstract_reasoning.items import make_items, read_items, task_names

    if data is None and gsm8k is None:
        compat = "official" if official else "ours"
        return [i for name in task_names(tasks) for i in make_items(name, n, shots, seed, compat)]
    found: list[Item] = []
    for path in filter(None, (data, gsm8k)):
        own, notes = read_items(path)
        typer.echo(f"{path}: {len(own)} tasks.")
        for words in notes.sentences():
            typer.echo(f"{path}: {words}.")
        if path == gsm8k:
            own = [replace(item, task="ma/gsm8k") for item in own]
        found += [i.with_shots(min(shots, len(i.examples))) for i in own[:n]]
        if len(own) > n:
            typer.echo(f"The first {n} are asked; more with --items.")
    return found


def _plan(asked: list[Item], forms: list[str], maps: int, path: Path | None) -> str:
    from practicum.language.abstract_reasoning.metrics import FEWEST_FLIPS, detectable

    sets = len({item.task for item in asked})
    seen = (
        f"A Delta of {detectable(len(asked)):.2f} or more would be seen (80 % power, if 3 items in "
        "10 flip)."
    )
    if len(asked) < FEWEST_FLIPS:
        seen = f"Fewer than {FEWEST_FLIPS} items can tell no Delta from chance."
    where = f"of {path}" if path else f"of {sets} generated sets"
    return (
        f"Asking {len(asked)} items {where} as {', '.join(forms)}"
        f"{f', {maps} maps each' if maps > 1 else ''}. {seen}"
    )


def _tell(report: AbstractReport) -> None:
    """The table of accuracies, then what it means."""
    gamma = report.gamma
    typer.echo(f"\nAccuracy (Gamma) of {report.name}, {report.reading} reading:")
    typer.echo(f"{'':<24}" + "".join(f"{kind:>10}" for kind in report.kinds))
    rows = [(task, gamma.loc[task]) for task in gamma.index]
    if len(rows) > 1:
        rows.append(("mean over sets", report.overall))
    for task, row in rows:
        cells = "".join(
            f"{'-':>10}" if row[kind] != row[kind] else f"{row[kind]:>10.3f}"
            for kind in report.kinds
        )
        typer.echo(f"{task:<24}{cells}")
    typer.echo("")
    for words in report.sentences():
        typer.echo(words)
    other = "strict" if report.reading != "strict" else "lenient"
    against = report.read(other).overall
    typer.echo(
        f"By the {other} reading: "
        + ", ".join(f"{kind} {against[kind]:.3f}" for kind in report.kinds)
        + "."
    )
    _show_replies(report)


def _show_replies(report: AbstractReport, most: int = 3) -> None:
    """Replies beside what was read out of them: where numbers go wrong first."""
    wrong = report.items[report.items["status"].isin(["unparsed", "cut", "empty"])]
    shown = wrong if len(wrong) else report.items[report.items["correct"] == 0]
    if not len(shown):
        return
    what = "Replies that could not be read" if len(wrong) else "Wrong answers"
    typer.echo(f"{what}, the first {min(most, len(shown))} of {len(shown)}:")
    for row in shown.head(most).itertuples():
        text = " ".join(str(row.reply).split())
        typer.echo(f"  {row.task} {row.kind}: {row.query} {row.answer}")
        typer.echo(f"    reply {text[:100]!r}, read as {row.lenient!r}")


def _draw(report: AbstractReport, path: Path) -> None:
    from practicum.language.abstract_reasoning.study import slope_figure
    from practicum.study.report import write_figures

    values = {
        task: {
            k: part.loc[part["kind"] == k, report._right].dropna().to_numpy() for k in report.kinds
        }
        for task, part in report.items.groupby("task", sort=False)
    }
    figure = slope_figure(
        values,
        f"{report.name}: accuracy on the same items with more and more symbols replaced, mean and "
        "two standard errors over items.",
    )
    write_figures({"Replaced symbols": figure}, path, f"Abstract reasoning of {report.name}")
    typer.echo(f"Figures: {path}")
