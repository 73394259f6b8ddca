"""``practicum use optimistic-ftrl``: one method, or several side by side, on a recorded stream."""

from __future__ import annotations

import math
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from practicum.data.streams import RecordedStream, read_stream, relatives_of
from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(no_args_is_help=True, add_completion=False)


class Loss(StrEnum):
    """What a row of the stream is."""

    linear = "linear"
    squared = "squared"
    absolute = "absolute"
    quantile = "quantile"
    logistic = "logistic"
    log_wealth = "log-wealth"
    prices = "prices"


StreamArgument = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, NPY or JSONL stream.")]
LossOption = Annotated[
    Loss,
    typer.Option(
        "--loss",
        help="linear: rows are costs; prices, or log-wealth of price relatives; "
        "else one column is a target.",
    ),
]
SetOption = Annotated[
    str,
    typer.Option(
        "--set", "--domain", help="simplex, ball:R, box:LOW:HIGH, l1:R, capped-simplex:CAP."
    ),
]
TargetOption = Annotated[str | None, typer.Option(help="Target column; the last one without.")]
TimeOption = Annotated[str | None, typer.Option("--time", help="Column of times.")]
LevelOption = Annotated[float | None, typer.Option("--q", help="Level of the quantile loss; 0.5.")]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated columns to use (with the target); all numeric ones without."
    ),
]

LOSS_WORDS = {
    "linear": "the linear loss (each row holds the costs of its round)",
    "squared": "half the squared error",
    "absolute": "the absolute error",
    "quantile": "the pinball loss",
    "logistic": "the logistic loss",
    "log-wealth": "minus the log of the wealth's growth",
    "prices": "minus the log of the wealth's growth",
}
TABLES = (".csv", ".parquet")
PAGES, PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")


@app.callback()
def root() -> None:
    """Decisions under changing costs, with forecasts of uncertain quality."""


@app.command()
def run(
    stream: StreamArgument,
    loss: LossOption = Loss.linear,
    domain: SetOption = "simplex",
    hints: Annotated[
        str, typer.Option(help="none, last, mean:WINDOW, rounds back (48), 7D, or recorded.")
    ] = "none",
    rule: Annotated[
        str, typer.Option(help="recursive, et, observed_path, or known_path with --path-length.")
    ] = "recursive",
    path_length: Annotated[float | None, typer.Option(help="For the rule known_path.")] = None,
    target: TargetOption = None,
    time: TimeOption = None,
    columns: ColumnsOption = None,
    q: LevelOption = None,
    moves: Annotated[int | None, typer.Option(help="Of the slow comparator; T^(1/3).")] = None,
    delay: Annotated[int, typer.Option(help="Rounds until a gradient arrives.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A row per round as .csv or .parquet.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Figures: .html opens anywhere; .png, .svg, .pdf need Kaleido."),
    ] = None,
) -> None:
    """Play a recorded stream: regret, its terms, and what would lower it.

    Example: practicum use optimistic-ftrl run stream.csv --loss squared --set simplex

    Columns pred_1 .. pred_d (or pred_NAME of each column), where there are any, hold recorded
    predictions of the next gradient and are used with --hints recorded.
    """
    from practicum.optimize.optimistic_ftrl.arms import told_hints
    from practicum.optimize.optimistic_ftrl.comparators import best_slow
    from practicum.optimize.optimistic_ftrl.learners import OptFPRL
    from practicum.optimize.optimistic_ftrl.oco import run_oco

    _refuse_kinds(out, plot)
    if path_length is not None and rule != "known_path":
        raise InputError(
            f"--path-length does nothing with the rule {rule}", "use --rule known_path"
        )
    recorded, losses = _read(stream, loss, target, time, columns, q)
    made = _set(domain, recorded, losses)
    learner = OptFPRL(made, rule, path_length=path_length)
    told = told_hints(hints, losses, recorded.hints)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = run_oco(learner, losses, told, delay=delay, timestamps=recorded.timestamps)
        fixed = done.against("best_fixed")
        slow = done.against(best_slow(losses, made, moves))
    _describe(recorded, loss, domain, hints)
    typer.echo(f"Average loss of OptFPRL ({rule}): {done.losses.mean():.6g}.")
    for result in (fixed, slow, done):
        typer.echo(_regret_line(result))
    _account(slow, done)
    for note in (*done.notes, *(str(w.message) for w in caught)):
        typer.echo(f"Note: {note}")
    _write(_actions(recorded, fixed, slow, done), "Actions", out)
    _draw(slow, plot, f"OptFPRL on {recorded.name}")


def _describe(recorded: RecordedStream, loss: Loss, domain: str, hints: str) -> None:
    """What the file was taken for."""
    T, d = recorded.values.shape
    names = ", ".join(recorded.columns[:6]) + ", ..." * (d > 6)
    goal = f", target: {recorded.target_name}" if recorded.target_name else ""
    typer.echo(
        f"{recorded.name}: {T} rounds, {d} coordinate{'s' * (d != 1)} ({names}){goal}. "
        f"Loss: {LOSS_WORDS[loss]}, on {domain}; hints: {hints}."
    )
    if loss is Loss.linear and (recorded.values > 0).all():
        typer.echo("Note: the rows are taken as costs; if they are prices, say --loss prices.")


def _account(slow: Any, done: Any) -> None:
    """The parts of the regret, and what is proved about it."""
    if done.delay:
        typer.echo(
            f"Gradients arrive {done.delay} round{'s' * (done.delay != 1)} late: no bound is "
            "proved, and the parts of the regret are not known."
        )
        return
    for result in (slow, done):
        typer.echo(result.explain())
    if "paper" in done.bounds():
        bound, most = done.bounds()["paper"] / done.n_rounds, done.largest_regret / done.n_rounds
        void = f"; no player can lose more than {most:.4g} on these gradients: it is void here"
        empty = void if bound >= most else ""
        typer.echo(
            f"The proved bound on the regret a round against the {done.comparator.name} "
            f"is {bound:.4g}{empty}."
        )


def _regret_line(result: Any) -> str:
    u = result.comparator
    certified = f" (known to within {u.gap / result.n_rounds:.2g})" if u.gap else ""
    moved = "" if u.moves < 0 else f", {u.moves} move{'s' * (u.moves != 1)}" if u.moves else ""
    return (
        f"Regret a round against the {u.name}: {result.average_regret:.6g}; that one loses "
        f"{u.losses.mean():.6g}{certified}{moved}."
    )


def _read(
    path: Path,
    loss: Loss,
    target: str | None,
    time: str | None,
    columns: str | None,
    q: float | None,
) -> tuple[RecordedStream, Any]:
    from practicum.optimize.optimistic_ftrl.losses import WITHOUT_TARGET, stream_of

    if target is not None and loss.value in WITHOUT_TARGET:
        raise InputError(f"--target does nothing with --loss {loss}", "use --loss squared, ...")
    if q is not None and loss is not Loss.quantile:
        raise InputError(f"--q does nothing with --loss {loss}", "use --loss quantile")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorded = read_stream(
            path,
            with_target=loss.value not in WITHOUT_TARGET,
            target=target,
            timestamp=time,
            columns=[c.strip() for c in columns.split(",")] if columns else None,
            min_rounds=3,
        )
    for warning in caught:
        typer.echo(f"Note: {warning.message}")
    losses = stream_of(recorded, loss.value, 0.5 if q is None else q)
    return (relatives_of(recorded) if loss is Loss.prices else recorded), losses


def _set(text: str, recorded: RecordedStream, losses: Any) -> Any:
    from practicum.optimize.optimistic_ftrl.domains import parse_domain

    try:
        made = parse_domain(text, losses.dim)
        losses.check(made)
    except InputError as error:
        shown = ", ".join(recorded.columns[:4]) + ", ..." * (len(recorded.columns) > 4)
        raise InputError(f"{recorded.name} ({shown}): {error.message}", error.hint) from error
    return made


def _refuse_kinds(out: Path | None, plot: Path | None = None) -> None:
    """Before any work: files whose kind is not written."""
    for path, kinds in ((out, TABLES), (plot, (*PAGES, *PICTURES))):
        if path and path.suffix.lower() not in kinds:
            raise InputError(
                f"{path}: files ending in {path.suffix or 'nothing'!r} are not written here",
                "name a file that ends in " + ", ".join(kinds),
            )


def _actions(recorded: RecordedStream, fixed: Any, slow: Any, done: Any) -> pd.DataFrame:
    """One row a round: the action by column, and the regret against each comparator so far."""
    names = {f"x_{j}": f"x_{name}" for j, name in enumerate(recorded.columns, start=1)}
    frame = done.to_frame().drop(columns=["comparator_loss", "regret"]).rename(columns=names)
    against = {"best_fixed": fixed, "slow": slow, "best_in_each_round": done}
    for name, result in against.items():
        frame[f"loss_{name}"] = result.comparator.losses
    for name, result in against.items():
        frame[f"cumulative_regret_{name}"] = result.regret
    return frame


def _write(frame: pd.DataFrame, what: str, out: Path | None) -> None:
    from practicum.study.report import write_atomically

    if out:
        as_csv = out.suffix.lower() == ".csv"
        write = frame.to_csv if as_csv else frame.to_parquet
        typer.echo(f"{what}: {write_atomically(out, lambda p: write(p, index=False))}")


def _draw(result: Any, plot: Path | None, title: str) -> None:
    from practicum.study.report import write_atomically, write_figures

    if plot is None:
        return
    figure = result.plot()
    if plot.suffix.lower() in PAGES:
        typer.echo(f"Figures: {write_figures({title: figure}, plot, title)}")
        return
    try:
        written = write_atomically(plot, lambda p: figure.write_image(p, width=900, scale=2))
    except InputError:
        raise
    except Exception as error:  # Kaleido is missing, or it finds no browser
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"{plot}: this machine cannot draw it ({reason})", "name a file that ends in .html"
        ) from error
    typer.echo(f"Figures: {written}")


@app.command()
def compare(
    stream: StreamArgument,
    loss: LossOption = Loss.linear,
    domain: SetOption = "simplex",
    arms: Annotated[
        str, typer.Option(help="Comma-separated; also ogd-tuned, adaftrl, hedge, centre, ...")
    ] = "recursive,et,ftrl,ogd,optogd,ader,greedy",
    hints: Annotated[
        str,
        typer.Option(help="Comma-separated: none, last, mean:W, 48, 7D, recorded, adversarial."),
    ] = "none,last",
    blocks: Annotated[
        int, typer.Option("--blocks", "--seeds", help="Contiguous parts, each run afresh.")
    ] = 1,
    target: TargetOption = None,
    time: TimeOption = None,
    columns: ColumnsOption = None,
    q: LevelOption = None,
    out: Annotated[Path | None, typer.Option(help="The table as .csv or .parquet.")] = None,
) -> None:
    """Several methods on the same stream, ranked, ties marked.

    Example: practicum use optimistic-ftrl compare costs.csv --set ball:2 --hints none,last,48
    """
    from practicum.optimize.optimistic_ftrl.arms import compare_learners

    _refuse_kinds(out)
    wanted, told = (
        list(dict.fromkeys(v.strip() for v in text.split(",") if v.strip()))
        for text in (arms, hints)
    )
    recorded, losses = _read(stream, loss, target, time, columns, q)
    table = compare_learners(
        losses,
        _set(domain, recorded, losses),
        wanted,
        told,
        blocks=blocks,
        timestamps=recorded.timestamps,
        recorded=recorded.hints,
    )
    _describe(recorded, loss, domain, hints)
    for arm in sorted(set(wanted) - set(table["arm"])):
        typer.echo(f"Note: {arm} is left out, it cannot work on {domain}.")
    for hint, part in table.groupby("hint", sort=False):
        typer.echo(f"Hints: {hint}. Regret a round against the best in each round.")
        for line in _ranking(part, blocks):
            typer.echo(line)
    if blocks == 1:
        typer.echo("One deterministic run each: no intervals (use --blocks 5).")
    else:
        typer.echo("A tie: the 95 % interval of the paired differences from the best holds 0.")
    _write(table, "Table", out)


def _ranking(part: Any, blocks: int) -> list[str]:
    """Arms from best to worst; one whose paired difference from the best holds 0 is a tie."""
    from practicum.study.evidence import bootstrap_interval, differences

    wide = part.pivot(index="block", columns="arm", values="avg_regret")
    best = wide.mean().idxmin()
    lines = []
    for rank, arm in enumerate(wide.mean().sort_values().index, start=1):
        line = f"  {rank}. {arm:<14} {wide[arm].mean():.5g}"
        if blocks > 1:
            # a regret of 0 or 1 in every block is a number, not the answer no or yes
            line += f" {bootstrap_interval(wide[arm], bounds=(0.0, math.inf))}"
            behind = bootstrap_interval(differences(wide[arm], wide[best]))
            if arm != best and behind.low <= 0 <= behind.high:
                line += f"  (a tie with {best})"
        elif arm != best and np.isclose(wide[arm].mean(), wide[best].mean(), rtol=1e-9, atol=1e-12):
            line += f"  (equal to {best})"
        lines.append(line)
    return lines
