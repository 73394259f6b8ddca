"""The command line: list, show, use, compare, verify, report, serve, doctor.

Only what ``list`` and ``show`` need is imported at the top; numpy and its friends come in with the
commands that compute.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from practicum import __version__, catalog
from practicum.cli.console import (
    err,
    failures_json,
    out,
    print_comparison,
    print_failures,
    print_json,
    print_verdicts,
    row_json,
    run_json,
    running,
)
from practicum.cli.guard import guarded
from practicum.data.kinds import UserData
from practicum.data.sniff import sniff
from practicum.errors import InputError, MissingExtra, PracticumError

if TYPE_CHECKING:
    from practicum.study.report import Section
    from practicum.study.store import Store


class Group(TyperGroup):
    """Commands that refuse odd values alike."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and guarded(command), rest


class UseGroup(TyperGroup):
    """``practicum use SLUG``: each method's own Typer app, loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(catalog.methods())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What help and completion list, from the card alone."""
        return TyperCommand(cmd_name, help=escape(catalog.get(cmd_name).card.title))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What runs: the method's app."""
        slug, *rest = args
        try:
            method = catalog.get(slug)
            command: Any = typer.main.get_command(method.load_command())
            command.name = slug
            command.help = command.help or escape(method.card.summary)
        except Exception:
            if not ctx.resilient_parsing:
                raise
            command = TyperCommand(slug)  # a shell asks for completions: there are none
        return slug, guarded(command, hints=True), rest


app = typer.Typer(
    cls=Group,
    name="practicum",
    help="Machine-learning papers as software: use, compare, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(
    typer.Typer(
        cls=UseGroup,
        add_completion=False,
        no_args_is_help=True,
        help="Use a method on your own files: practicum use SLUG COMMAND ...",
    ),
    name="use",
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="PRACTICUM_STORE",
        help="Where results live: a file name, sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        show_default="a file in your data folder",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ScaleName = Literal["smoke", "cpu", "paper"]
ScaleOption = Annotated[
    ScaleName, typer.Option(help="smoke: seconds; cpu: minutes; paper: the paper's own, a GPU.")
]
SeedsOption = Annotated[
    int | None, typer.Option(min=1, help="Seeds per cell.", show_default="the study's own")
]
EngineOption = Annotated[Literal["local", "ray", "dask"], typer.Option(help="Where trials run.")]
AddressOption = Annotated[
    str | None,
    typer.Option(help="Address of a Ray or Dask cluster.", show_default="start one here"),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, max=1024, help="Worker processes.", show_default="one per core"
    ),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Run again what is stored.")]


def _version(asked: bool) -> None:
    if asked:
        out.print(f"practicum {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


# --- the catalogue -------------------------------------------------------------------------------


@app.command("list")
def list_methods(
    field: Annotated[str | None, typer.Option(help="Only this field, e.g. stats.")] = None,
    for_file: Annotated[
        Path | None, typer.Option("--for", help="Only methods that can read this file or folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the methods; with --for, those that could help on a file of yours.

    Example: practicum list --for measurements.csv
    """
    sniffed = sniff(for_file) if for_file is not None else None
    found = catalog.reading(sniffed.kinds) if sniffed else list(catalog.methods().values())
    if field is not None:
        if field not in catalog.FIELDS:
            known = ", ".join(f for f in catalog.FIELDS)
            raise InputError(f"there is no field {field!r}", f"fields: {known}")
        found = [m for m in found if m.card.field == field]
    if as_json:
        print_json(
            [
                m.card.model_dump(include={"slug", "title", "field", "summary", "accepts"})
                for m in found
            ]
        )
        return
    if sniffed:
        out.print(Text(f"{for_file} looks like {sniffed.about}."))
    if not found:
        out.print("No method here reads it yet." if for_file else "No method yet.")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("method", "field", "reads", "what it does"):
        table.add_column(column, no_wrap=column == "method")
    for m in found:
        card = m.card
        table.add_row(card.slug, card.field, ", ".join(card.accepts), Text(card.summary))
    out.print(table)
    if for_file is not None:
        out.print(f"\nNext: practicum show {found[0].slug}", style="dim")


@app.command()
def show(slug: str, as_json: JsonOption = False) -> None:
    """Show what a method is for, what it reads and what its paper claims.

    Example: practicum show model-collapse
    """
    card = catalog.get(slug).card
    if as_json:
        print_json(card.model_dump())
        return
    out.print(Text(card.title, style="bold"))
    out.print(Text(card.summary))
    out.print(Text(f"\n{card.paper.title}. {', '.join(card.paper.authors)}. {card.paper.venue}."))
    for title, lines in (("Use it when", card.use_when), ("Not when", card.not_when)):
        if lines:
            out.print(f"\n[bold]{title}[/]")
            for line in lines:
                out.print(Text(f"  · {line}"))
    out.print(f"\n[bold]Reads[/] {', '.join(card.accepts)}")
    if card.extras:
        out.print(Text(f"Install: pip install 'practicum[{','.join(card.extras)}]'"))
    table = Table(box=None, pad_edge=False, title="Claims", title_justify="left")
    for column in ("id", "the paper claims", "reported"):
        table.add_column(column)
    for claim in card.claims:
        table.add_row(claim.id, Text(claim.statement), Text(claim.reported))
    out.print()
    out.print(table)
    out.print(
        f"\nNext: practicum use {slug} --help · practicum compare {slug} --data FILE · "
        f"practicum verify {slug}",
        style="dim",
    )


# --- verify and compare --------------------------------------------------------------------------


@app.command()
def verify(
    slugs: Annotated[list[str] | None, typer.Argument(help="Methods, e.g. model-collapse.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every method.")] = False,
    scale: ScaleOption = "cpu",
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    fresh: FreshOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a paper's claims and print reported, measured, verdict.

    What is stored already is not run again; Ctrl-C keeps what has finished. Exit status 1 when a
    trial failed. Example: practicum verify model-collapse --scale smoke
    """
    from practicum.study.runner import run_study
    from practicum.study.spec import Scale
    from practicum.study.store import Store

    _refuse_address(engine, address)
    chosen = list(catalog.methods().values()) if every else [catalog.get(s) for s in slugs or []]
    if not chosen:
        raise InputError("no method named", "practicum verify SLUG..., or --all")
    failed, printed = False, []
    with Store(store) as db:
        for method in chosen:
            try:
                study = method.load_study()()
            except MissingExtra as missing:
                if not every:
                    raise
                err.print(f"skipped {method.slug}: {missing}", style="yellow", markup=False)
                continue
            with running(method.slug, quiet or as_json) as progress:
                run = run_study(
                    study,
                    Scale(scale, seeds),
                    db,
                    engine=engine,
                    address=address,
                    jobs=jobs,
                    fresh=fresh,
                    progress=progress,
                )
            failed |= bool(run.failures)
            printed.append(run_json(method, run))
            if not as_json:
                print_verdicts(method, run)
            print_failures(run)
    if as_json:
        print_json(printed)
    raise typer.Exit(1 if failed else 0)


@app.command()
def compare(
    slug: str,
    data: Annotated[list[Path], typer.Option("--data", help="Your file or folder (repeatable).")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="An option of the method."),
    ] = None,
    html: Annotated[Path, typer.Option("--out", help="The report.")] = Path("comparison.html"),
    scale: ScaleOption = "cpu",
    seeds: SeedsOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    fresh: FreshOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare a method with what people use today, on your own data.

    Example: practicum compare model-collapse --data measurements.csv -o model=kde
    """
    from practicum.study.compare import (
        comparison,
        options_of,
        sentence,
        shared_setting,
        study_on,
    )
    from practicum.study.report import Section, write_comparison
    from practicum.study.runner import run_study
    from practicum.study.spec import Scale
    from practicum.study.store import Store, now

    _refuse_address(engine, address)
    method = catalog.get(slug)
    cls = method.load_study()
    options = {}
    for text in option or []:
        name, equals, value = text.partition("=")
        if not equals:
            known = "; ".join(f"{o.name} ({o.about})" for o in options_of(cls).values())
            raise InputError(f"--option takes NAME=VALUE, not {text!r}", f"options: {known}")
        options[name] = value
    try:
        study = study_on(cls, UserData.of(data), options)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{error.filename or _names(data)}: cannot be read ({reason})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{_names(data)}: not text in UTF-8", "save it as UTF-8") from error
    with Store(store) as db:
        with running(slug, quiet or as_json) as progress:
            run = run_study(
                study,
                Scale(scale, seeds),
                db,
                engine=engine,
                address=address,
                jobs=jobs,
                fresh=fresh,
                kind="compare",
                options={"data": [str(p.absolute()) for p in data], **options},
                progress=progress,
            )
        row: Any = db.run(run.id)
        section = Section(
            method.card, study, run.results, {}, json.loads(row.environment), now(), run.failures
        )
    rows = comparison(study, run.results)
    written = write_comparison(section, html)
    if as_json:
        print_json(
            {
                "slug": slug,
                "sentence": sentence(study, rows),
                "setting": shared_setting(run.results),
                "report": str(written),
                "rows": [row_json(r) for r in rows],
                "failures": failures_json(run),
            }
        )
    else:
        print_comparison(study, rows, shared_setting(run.results))
        out.print(Text(sentence(study, rows), style="bold"))
        out.print(Text(f"Report: {written}"))
    print_failures(run)
    raise typer.Exit(1 if run.failures else 0)


def _refuse_address(engine: str, address: str | None) -> None:
    if address is not None and engine == "local":
        raise InputError(
            f"--address {address} is of a cluster, and trials run here",
            "add --engine ray or --engine dask, or leave it out",
        )


def _names(data: list[Path]) -> str:
    return ", ".join(map(str, data))


@app.command()
def report(
    slugs: Annotated[list[str] | None, typer.Argument(help="Methods; all without.")] = None,
    html: Annotated[Path, typer.Option("--out", help="The HTML report.")] = Path("report.html"),
    markdown: Annotated[Path | None, typer.Option(help="Also write RESULTS.md here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also export every trial as CSV.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="Also export every trial as Parquet.")
    ] = None,
    scale: Annotated[
        ScaleName | None, typer.Option(help="Runs of this scale.", show_default="the newest")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write one self-contained HTML report of what has been verified.

    Example: practicum report --out report.html --markdown RESULTS.md
    """
    from practicum.study.report import export_tidy, write_html, write_markdown
    from practicum.study.store import Store

    chosen = [catalog.get(s) for s in slugs] if slugs else list(catalog.methods().values())
    with Store(store) as db:
        sections = _sections(chosen, db, scale)
    if not sections:
        raise InputError(
            "nothing to report: no verification has finished in this store",
            "run one first: practicum verify SLUG, or practicum verify --all",
        )
    if markdown:
        out.print(Text(str(write_markdown(sections, markdown))))
    for path, form in ((csv, "csv"), (parquet, "parquet")):
        if path:
            named = path if path.suffix else path.with_suffix(f".{form}")
            out.print(Text(str(export_tidy(sections, named, form))))
    out.print(Text(str(write_html(sections, html))))


def _sections(chosen: list[catalog.Method], db: Store, scale: str | None) -> list[Section]:
    from practicum.study.report import stored_section

    found = []
    for method in chosen:
        if db.latest_run(method.slug, "verify", scale) is None:
            continue  # what it needs may not be installed
        section = stored_section(method.card, method.load_study()(), db, scale)
        if section:
            found.append(section)
    return found


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder whose files the page may read (repeatable).",
            show_default="the current folder",
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print it.")] = False,
    store: StoreOption = None,
) -> None:
    """Open the local page: look around, verify and compare in a browser.

    Example: practicum serve --root ~/data
    """
    from practicum.web import serve as serve_page

    serve_page(host=host, port=port, roots=root or (), browser=not no_browser, store=store)


@app.command()
def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say what is installed, what is missing and how to get it; cores, GPU, store.

    Example: practicum doctor
    """
    from practicum.doctor import examine

    facts = examine(store)
    if as_json:
        print_json(facts)
        return
    for title, rows in facts.items():
        out.print(Text(title, style="bold"))
        for name, value in rows.items():
            missing = value.startswith("missing")
            out.print(Text(f"  {name:<16} {value}", style="yellow" if missing else ""))


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Warnings about a person's data are plain lines; Python's own are for developers."""
    if issubclass(category, UserWarning) or "--debug" in sys.argv:
        err.print(Text(f"note: {message}", "yellow"))


def _one_line(text: str, most: int = 600) -> str:
    """A cell of a thousand words that a message repeats, cut in the middle."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 150]} … {text[-150:]}"


def main() -> None:
    """The entry point: expected errors are one red line and a hint, exit 2; no traceback."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode
    try:
        app(prog_name="practicum")
    except PracticumError as error:
        if "--debug" in sys.argv:
            raise
        err.print(Text(f"error: {_one_line(error.message)}", "red"))
        if error.hint:
            err.print(Text(f"hint: {_one_line(error.hint)}"))
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("interrupted; what had finished is stored, run the same command to go on")
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise  # PyTorch's word for it; anything else is a mistake of ours
        if "--debug" in sys.argv:
            raise
        asked = str(error).partition("DefaultCPUAllocator: ")[2] or str(error)
        asked = f" ({asked.splitlines()[0]})" if asked else ""
        err.print(Text(f"error: this needs more memory than there is{asked}", "red"))
        err.print("hint: ask for less: smaller numbers in the options, or fewer rows of the file")
        sys.exit(2)
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed" or "--debug" in sys.argv:
            raise
        said = error.object[max(0, error.start - 40) : error.end + 1]
        err.print(Text(f"error: half a character, which no file can hold, in {said!a}", "red"))
        err.print(Text("hint: look for such a \\ud... in the files that were read"))
        sys.exit(2)
    except BrokenPipeError:  # `practicum list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
