"""``practicum use optimistic-ftrl``: one method, or several side by side, on a recorded stream."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from practicum.data.streams import RecordedStream, read_stream, relatives_of
from practicum.errors import InputError

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
LevelOption = Annotated[float, typer.Option("--q", help="Level of the quantile loss.")]


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
    q: LevelOption = 0.5,
    moves: Annotated[int | None, typer.Option(help="Of the slow comparator; T^(1/3).")] = None,
    delay: Annotated[int, typer.Option(help="Rounds until a gradient arrives.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a row per round here (CSV).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a page of figures here.")] = None,
) -> None:
    """Play a recorded stream: regret, its terms, and what would lower it.

    Example: practicum use optimistic-ftrl run stream.csv --loss squared --set simplex

    Columns pred_1 .. pred_d, where there are any, hold recorded predictions of the next gradient
    and are used with --hints recorded.
    """
    from practicum.optimize.optimistic_ftrl.comparators import best_slow
    from practicum.optimize.optimistic_ftrl.domains import parse_domain
    from practicum.optimize.optimistic_ftrl.learners import OptFPRL
    from practicum.optimize.optimistic_ftrl.oco import run_oco

    recorded, losses = _read(stream, loss, target, time, q)
    made = parse_domain(domain, losses.dim)
    learner = OptFPRL(made, rule, path_length=path_length)
    told = _hints(recorded, hints)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = run_oco(learner, losses, told, delay=delay, timestamps=recorded.timestamps)
        fixed = done.against("best_fixed")
        slow = done.against(best_slow(losses, made, moves))
    T = losses.n_rounds
    typer.echo(
        f"{recorded.name}: {T} rounds, {losses.dim} coordinates ({', '.join(recorded.columns[:6])}"
        f"{', ...' if losses.dim > 6 else ''}), {loss.value} loss on {domain}, hints: {hints}."
    )
    typer.echo(f"Average loss of OptFPRL ({rule}): {done.losses.mean():.6g}.")
    for result in (fixed, slow, done):
        typer.echo(_regret_line(result))
    for result in (slow, done) if not delay else ():
        typer.echo(result.explain())
    if not delay and "paper" in done.bounds():
        bound = done.bounds()["paper"] / T
        typer.echo(f"The proved bound against the best in each round is {bound:.4g} a round.")
    for note in (*done.notes, *(str(w.message) for w in caught)):
        typer.echo(f"Note: {note}")
    _write(slow, out, plot, f"OptFPRL on {recorded.name}")


def _regret_line(result: Any) -> str:
    u = result.comparator
    certified = f" (known to within {u.gap / result.n_rounds:.2g})" if u.gap else ""
    moved = "" if u.moves < 0 else f", {u.moves} moves" if u.moves else ""
    return (
        f"Regret a round against the {u.name}: {result.average_regret:.6g}; that one loses "
        f"{u.losses.mean():.6g}{certified}{moved}."
    )


def _read(
    path: Path, loss: Loss, target: str | None, time: str | None, q: float
) -> tuple[RecordedStream, Any]:
    from practicum.optimize.optimistic_ftrl.losses import WITHOUT_TARGET, stream_of

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorded = read_stream(
            path,
            with_target=loss.value not in WITHOUT_TARGET,
            target=target,
            timestamp=time,
            min_rounds=3,
        )
    for warning in caught:
        typer.echo(f"Note: {warning.message}")
    losses = stream_of(recorded, loss.value, q)
    return (relatives_of(recorded) if loss is Loss.prices else recorded), losses


def _hints(recorded: RecordedStream, hints: str) -> Any:
    if hints != "recorded":
        return hints
    if recorded.hints is None:
        raise InputError(
            f"{recorded.name} has no columns pred_1, pred_2, ...",
            "add one per coordinate, or use --hints last",
        )
    return recorded.hints


def _write(result: Any, out: Path | None, plot: Path | None, title: str) -> None:
    from practicum.study.report import write_atomically, write_figures

    if out:
        frame = result.to_frame()
        written = write_atomically(out, lambda p: frame.to_csv(p, index=False))
        typer.echo(f"Actions: {written}")
    if plot:
        written = write_figures({title: result.plot()}, plot, title)
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
        str, typer.Option(help="Comma-separated: none, last, mean:W, 48, adversarial.")
    ] = "none,last",
    blocks: Annotated[
        int, typer.Option("--blocks", "--seeds", help="Contiguous parts, each run afresh.")
    ] = 1,
    target: TargetOption = None,
    time: TimeOption = None,
    q: LevelOption = 0.5,
    out: Annotated[Path | None, typer.Option(help="Write the table here (CSV).")] = None,
) -> None:
    """Several methods on the same stream, ranked, ties marked.

    Example: practicum use optimistic-ftrl compare costs.csv --set ball:2 --hints none,last,48
    """
    from practicum.optimize.optimistic_ftrl.arms import compare_learners
    from practicum.optimize.optimistic_ftrl.domains import parse_domain

    recorded, losses = _read(stream, loss, target, time, q)
    table = compare_learners(
        losses,
        parse_domain(domain, losses.dim),
        [a.strip() for a in arms.split(",")],
        [h.strip() for h in hints.split(",")],
        blocks=blocks,
        timestamps=recorded.timestamps,
    )
    for hint, part in table.groupby("hint", sort=False):
        typer.echo(f"Hints: {hint}. Regret a round against the best in each round.")
        for line in _ranking(part, blocks):
            typer.echo(line)
    if blocks == 1:
        typer.echo("One deterministic run each: no intervals (use --blocks 5).")
    if out:
        from practicum.study.report import write_atomically

        typer.echo(f"Table: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")


def _ranking(part: Any, blocks: int) -> list[str]:
    """Arms from best to worst; one whose paired difference from the best holds 0 is a tie."""
    from practicum.study.compare import bootstrap_interval

    wide = part.pivot(index="block", columns="arm", values="avg_regret")
    best = wide.mean().idxmin()
    lines = []
    for rank, arm in enumerate(wide.mean().sort_values().index, start=1):
        line = f"  {rank}. {arm:<14} {wide[arm].mean():.5g}"
        if blocks > 1:
            line += f" {bootstrap_interval(wide[arm])}"
            behind = bootstrap_interval(wide[arm] - wide[best])
            if arm != best and behind.low <= 0 <= behind.high:
                line += f"  (a tie with {best})"
        elif arm != best and np.isclose(wide[arm].mean(), wide[best].mean(), rtol=1e-9, atol=1e-12):
            line += f"  (equal to {best})"
        lines.append(line)
    return lines
