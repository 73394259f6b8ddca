"""The command line: list, show, use, compare, verify, report, serve, doctor.

Only what ``list`` and ``show`` need is imported at the top; numpy and its friends come in with the
commands that compute.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import shlex
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from practicum import __version__, catalog
from practicum.data.kinds import UserData
from practicum.data.sniff import sniff
from practicum.errors import InputError, MissingExtra, PracticumError

if TYPE_CHECKING:
    from practicum.study.report import Section
    from practicum.study.runner import Run
    from practicum.study.store import Store

# piped output is not wrapped at 80 columns
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False, soft_wrap=True)

VERDICT_STYLE = {
    "reproduced": "green",
    "partly": "yellow",
    "not reproduced": "red",
    "inconclusive": "yellow",
    "needs more": "dim",
}


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
                error.hint = _in_options(error.hint, ctx.command)
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
    found = list(catalog.methods().values())
    if field is not None:
        if field not in catalog.FIELDS:
            known = ", ".join(f for f in catalog.FIELDS)
            raise InputError(f"there is no field {field!r}", f"fields: {known}")
        found = [m for m in found if m.card.field == field]
    about = ""
    if for_file is not None:
        sniffed = sniff(for_file)
        found = [m for m in found if set(m.card.accepts) & set(sniffed.kinds)]
        about = f"{for_file} looks like {sniffed.about}."
    if as_json:
        _print_json(
            [
                m.card.model_dump(include={"slug", "title", "field", "summary", "accepts"})
                for m in found
            ]
        )
        return
    if about:
        out.print(Text(about))
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
        _print_json(card.model_dump())
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
            with _running(method.slug, quiet or as_json) as progress:
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
            printed.append(_run_json(method, run))
            if not as_json:
                _print_verdicts(method, run)
            _print_failures(run)
    if as_json:
        _print_json(printed)
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
    from practicum.study.compare import comparison, options_of, sentence, study_on
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
        with _running(slug, quiet or as_json) as progress:
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
        _print_json(
            {
                "slug": slug,
                "sentence": sentence(study, rows),
                "report": str(written),
                "rows": [_row_json(r) for r in rows],
                "failures": _failures_json(run),
            }
        )
    else:
        _print_comparison(study, rows)
        out.print(Text(sentence(study, rows), style="bold"))
        out.print(Text(f"Report: {written}"))
    _print_failures(run)
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
    for path in (csv, parquet):
        if path:
            suffix = ".csv" if path is csv else ".parquet"
            out.print(Text(str(export_tidy(sections, path.with_suffix(suffix)))))
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
        _print_json(facts)
        return
    for title, rows in facts.items():
        out.print(Text(title, style="bold"))
        for name, value in rows.items():
            missing = value.startswith("missing")
            out.print(Text(f"  {name:<16} {value}", style="yellow" if missing else ""))


# --- printing ------------------------------------------------------------------------------------


def _print_json(value: Any) -> None:
    escaped = "utf" not in (sys.stdout.encoding or "").lower()
    text = json.dumps(_finite(value), indent=2, ensure_ascii=escaped, allow_nan=False)
    sys.stdout.write(text + "\n")


def _finite(value: Any) -> Any:
    """NaN and infinity, which JSON does not know, become null."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _run_json(method: catalog.Method, run: Run) -> dict[str, Any]:
    claims = {c.id: c for c in method.card.claims}
    return {
        "slug": method.slug,
        "scale": run.results.scale.name,
        "trials": len(run.results),
        "executed": run.executed,
        "seconds": round(run.seconds, 2),
        "failures": _failures_json(run),
        "claims": [
            {
                "id": name,
                "statement": claims[name].statement,
                "reported": claims[name].reported,
                "verdict": v.status,
                "estimate": v.estimate,
                "interval": [v.interval.low, v.interval.high] if v.interval else None,
                "threshold": v.threshold,
                "n": v.n,
                "p": v.p,
                "seeds_needed": v.seeds_needed,
                "sentence": v.sentence,
            }
            for name, v in run.verdicts.items()
        ],
    }


def _failures_json(run: Run) -> list[dict[str, str]]:
    return [{"key": f.key, "trial": f.label, "reason": f.reason} for f in run.failures]


def _row_json(row: Any) -> dict[str, Any]:
    fields = dict(vars(row))
    for name in ("interval", "difference_interval"):
        fields[name] = [fields[name].low, fields[name].high] if fields[name] else None
    return fields


def _print_verdicts(method: catalog.Method, run: Run) -> None:
    table = Table(box=None, pad_edge=False, title_justify="left", title=Text(method.card.title))
    for column in ("claim", "reported", "measured", "verdict"):
        table.add_column(column)
    for claim in method.card.claims:
        v = run.verdicts[claim.id]
        table.add_row(
            Text(f"{claim.id} {claim.statement}"),
            Text(claim.reported),
            Text(v.measured),
            Text(v.status, style=VERDICT_STYLE[v.status]),
        )
    out.print(table)
    for name, v in run.verdicts.items():
        out.print(Text(f"{name}: {v.sentence}", style="dim"))
    stored = len(run.results) - (run.executed - len(run.failures))
    out.print(
        f"{run.executed} trials run, {stored} taken from the store, {run.seconds:.1f} s, "
        f"scale {run.results.scale.name}\n",
        style="dim",
    )
    if run.results.scale.name == "smoke":
        out.print(
            "A smoke run shows that everything works, in settings too small for the claims: "
            "whatever its verdicts say, decide by --scale cpu.\n"
        )


def _print_comparison(study: Any, rows: list[Any]) -> None:
    from practicum.study.compare import caveat
    from practicum.study.evidence import number

    if said := caveat(rows):
        out.print(Text(said))
    table = Table(box=None, pad_edge=False)
    for column in ("data", "measure", "arm", "mean [95 %]", "minus method", "the method is"):
        table.add_column(column)
    for r in rows:
        minus = f"{number(r.difference)} {r.difference_interval}" if r.difference_interval else ""
        where = f"{r.dataset} ({r.setting})" if r.setting else r.dataset
        cells = (
            where,
            study.measures[r.measure].label,
            r.arm,
            f"{number(r.mean)} {r.interval}",
            minus,
            r.standing,
        )
        table.add_row(*map(Text, cells))
    out.print(table)


def _print_failures(run: Run) -> None:
    for failure in run.failures[:10]:
        err.print(Text(f"failed: {failure.label} [{failure.key[:12]}]: {failure.reason}", "red"))
    if len(run.failures) > 10:
        err.print(Text(f"... and {len(run.failures) - 10} more", "red"))


@contextlib.contextmanager
def _running(name: str, quiet: bool) -> Iterator[Any]:
    """Progress while a study runs; Ctrl-C ends it with one plain line and exit status 130."""
    # What loky's thread and helper process say about an interrupted pool; they do clean up.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    threading.excepthook = _quiet_pool
    try:
        with _progress(name, quiet) as progress:
            yield progress
    except KeyboardInterrupt:
        err.print("interrupted; what had finished is stored, run the same command to go on")
        raise typer.Exit(130) from None


def _quiet_pool(args: threading.ExceptHookArgs) -> None:
    if not (args.thread and args.thread.name == "ExecutorManagerThread"):
        threading.__excepthook__(args)


class _progress:
    """A bar with the time left on a terminal, a plain line now and then elsewhere."""

    def __init__(self, name: str, quiet: bool) -> None:
        self.name, self.quiet, self.last = name, quiet, 0.0
        self.bar: Any = None

    def __enter__(self) -> Any:
        if self.quiet:
            return None
        if err.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            self.bar = Progress(
                "{task.description}",
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=err,
                transient=True,
            )
            self.task = self.bar.add_task(self.name, total=None)
            self.bar.start()
        return self.tell

    def tell(self, finished: int, total: int, failed: int) -> None:
        if self.bar:
            note = f" ({failed} failed)" if failed else ""
            self.bar.update(
                self.task, completed=finished, total=total, description=self.name + note
            )
            return
        import time

        due = time.monotonic() - self.last > 10
        if total and (due or finished == total):
            self.last = time.monotonic()
            err.print(
                f"{self.name}: {finished} of {total} trials" + (f", {failed} failed" * bool(failed))
            )

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Warnings about a person's data are plain lines; Python's own are for developers."""
    if issubclass(category, UserWarning) or "--debug" in sys.argv:
        err.print(Text(f"note: {message}", "yellow"))


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


def _in_options(hint: str | None, command: Any) -> str | None:
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
