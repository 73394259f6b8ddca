"""How the command line speaks: the two streams, progress, tables of verdicts, JSON for machines."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from practicum import catalog

if TYPE_CHECKING:
    from practicum.study.runner import Run

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


def print_json(value: Any) -> None:
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


def run_json(method: catalog.Method, run: Run) -> dict[str, Any]:
    claims = {c.id: c for c in method.card.claims}
    return {
        "slug": method.slug,
        "scale": run.results.scale.name,
        "trials": len(run.results),
        "executed": run.executed,
        "seconds": round(run.seconds, 2),
        "failures": failures_json(run),
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


def failures_json(run: Run) -> list[dict[str, str]]:
    return [{"key": f.key, "trial": f.label, "reason": f.reason} for f in run.failures]


def row_json(row: Any) -> dict[str, Any]:
    fields = dict(vars(row))
    for name in ("interval", "difference_interval"):
        fields[name] = [fields[name].low, fields[name].high] if fields[name] else None
    return fields


def print_verdicts(method: catalog.Method, run: Run) -> None:
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
        out.print(Text(f"{name}: " + v.sentence.replace("\n", "\n    "), style="dim"))
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


def print_comparison(study: Any, rows: list[Any], setting: str) -> None:
    from practicum.study.compare import caveat
    from practicum.study.evidence import number

    if said := caveat(rows):
        out.print(Text(said))
    if setting:
        out.print(Text(f"All with {setting}."))
    several = len({(r.dataset, r.setting) for r in rows}) > 1
    for (dataset, within, name), part in itertools.groupby(
        rows, key=lambda r: (r.dataset, r.setting, r.measure)
    ):
        measure = study.measures[name]
        where = f" on {dataset}" + f" ({within})" * bool(within) if several else ""
        unit = f" ({measure.unit})" if measure.unit else ""
        table = Table(box=None, pad_edge=False, title_justify="left")
        table.title = Text(f"{measure.label}{unit}{where}: {measure.better} is better")
        for column in ("arm", "mean [95 %]", "minus method", "the method is"):
            table.add_column(column)
        for r in part:
            apart = r.difference_interval
            minus = f"{number(r.difference)} {apart}" if apart else ""
            cells = r.arm, f"{number(r.mean)} {r.interval}", minus, r.standing
            table.add_row(*map(Text, cells))
        out.print(table)
        out.print()


def print_failures(run: Run) -> None:
    for failure in run.failures[:10]:
        err.print(Text(f"failed: {failure.label} [{failure.key[:12]}]: {failure.reason}", "red"))
    if len(run.failures) > 10:
        err.print(Text(f"... and {len(run.failures) - 10} more", "red"))


@contextlib.contextmanager
def running(name: str, quiet: bool) -> Iterator[Any]:
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
