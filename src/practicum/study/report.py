"""What a person reads: one self-contained HTML file, ``RESULTS.md``, tidy exports."""

from __future__ import annotations

import datetime as dt
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from practicum.errors import InputError
from practicum.study.compare import Row, caveat, comparison, sentence, shared_setting
from practicum.study.evidence import MARKS, Verdict, number
from practicum.study.results import Results
from practicum.study.runner import judge, study_code
from practicum.study.spec import Scale, Study
from practicum.study.store import Store

if TYPE_CHECKING:
    from practicum.catalog import Card


@dataclass
class Section:
    """One method in a report: its card, what was run, and what came of it."""

    card: Card
    study: Study
    results: Results
    verdicts: dict[str, Verdict]
    environment: dict[str, Any]
    finished: str
    failures: list[Any] = field(default_factory=list)
    stale: bool = False

    @property
    def counts(self) -> Counter[str]:
        """How many claims have which verdict."""
        return Counter(v.status for v in self.verdicts.values())

    @property
    def machine(self) -> str:
        """One line: system, cores, versions."""
        e = self.environment
        packages = ", ".join(f"{k} {v}" for k, v in e.get("packages", {}).items())
        return f"{e['system']}, {e['cores']} cores, Python {e['python']}, {packages}"


def stored_section(
    card: Card, study: Study, store: Store, scale: str | None = None
) -> Section | None:
    """The newest finished verification of a method, read from the store.

    The claims are judged anew by the code of today; trials that an earlier version of the code
    computed are shown, and marked as such.
    """
    row = store.latest_run(card.slug, "verify", scale)
    if row is None:
        return None
    results = Results(store.load(store.keys_of(row.id)), Scale(row.scale))
    environment = json.loads(row.environment)
    return Section(
        card,
        study,
        results,
        judge(study, results),
        environment,
        row.ended or row.started,
        store.failures_of(row.id),
        environment.get("code") != study_code(study),
    )


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Write under a temporary name beside ``path``, then rename: never half a file.

    Raises
    ------
    InputError
        The folder cannot be written, or a device or a pipe has this name.
    """
    path = path.expanduser()
    if path.exists() and not (path.is_file() or path.is_dir()):
        # the renaming would put a file in the place of /dev/null
        raise InputError(f"{path}: cannot be written (a device or a pipe)", "name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
        )
        os.close(handle)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror})", "name another file with --out"
        ) from error
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_html(sections: Sequence[Section], path: Path) -> Path:
    """The report of one or several verifications: offline, on a phone, light and dark."""
    parts = [
        {"section": s, "figures": _figures(s.study, s.results), "rows": [], "sentence": ""}
        for s in sections
    ]
    return _render(path, title="Practicum report", parts=parts, kind="verify")


def write_comparison(section: Section, path: Path) -> Path:
    """The report of a comparison on a person's data."""
    rows = comparison(section.study, section.results)
    part = {
        "section": section,
        "figures": _figures(section.study, section.results),
        "rows": rows,
        "sentence": sentence(section.study, rows),
        "caveat": caveat(rows),
        "setting": shared_setting(section.results),
    }
    name = section.study.source.name if section.study.source else ""
    return _render(path, title=f"{section.card.title} on {name}", parts=[part], kind="compare")


def write_figures(figures: dict[str, Any], path: Path, title: str) -> Path:
    """Figures alone on one page (``practicum use ... --plot``)."""
    parts = [{"section": None, "figures": _plotly_json(figures), "rows": [], "sentence": ""}]
    return _render(path, title=title, parts=parts, kind="figures")


def _figures(study: Study, results: Results) -> list[dict[str, str]]:
    return _plotly_json(study.figures(results)) if len(results) else []


def _plotly_json(figures: Any) -> list[dict[str, str]]:
    made = []
    for title, figure in figures.items():
        meta = figure.layout.meta or {}
        text = figure.to_json().replace("<", "\\u003c")  # no tag can begin or end in it
        made.append(
            {
                "title": title,
                "json": text,
                "caption": meta.get("caption", ""),
                "height": figure.layout.height or 420,
            }
        )
    return made


def _render(path: Path, *, title: str, parts: list[dict[str, Any]], kind: str) -> Path:
    from jinja2 import Environment, PackageLoader
    from plotly.offline import get_plotlyjs

    env = Environment(
        loader=PackageLoader("practicum.study"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["number"] = number
    html = env.get_template("report.html.j2").render(
        title=title, parts=parts, kind=kind, plotly=get_plotlyjs(), date=_today()
    )
    return write_atomically(path, lambda p: p.write_text(html, encoding="utf-8"))


def _today() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def write_markdown(sections: Sequence[Section], path: Path) -> Path:
    """``RESULTS.md``: every claim, reported, measured and verdict, with date and machine."""
    lines = [
        "# Results",
        "",
        "Generated by `practicum report --markdown RESULTS.md`; do not edit. "
        "*Reported* is what the paper says, *measured* what ran here (mean and 95 % interval), "
        "the verdict follows from the interval and a threshold fixed before the run.",
    ]
    for s in sections:
        n = len(s.results)
        lines += [
            "",
            f"## {s.card.title} (`{s.card.slug}`)",
            "",
            f"{s.card.paper.title}. {', '.join(s.card.paper.authors)}. {s.card.paper.venue}.",
            "",
            f"Scale `{s.results.scale.name}`, {n:,} trials, {s.finished[:10]}; {s.machine}.",
            "",
            "| claim | reported | measured | verdict |",
            "|---|---|---|---|",
        ]
        for claim in s.card.claims:
            v = s.verdicts.get(claim.id)
            cells = [
                f"{claim.id}: {claim.statement}",
                claim.reported,
                v.measured if v else "",
                f"**{v.status}**" if v else "not run",
            ]
            lines.append(
                "| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in cells) + " |"
            )
        lines += ["", *_evidence(s)]
        if s.stale:
            lines += ["", "The method's code has changed since these trials ran."]
        if s.failures:
            lines += ["", f"{len(s.failures)} trials failed; the first: {s.failures[0].reason}"]
    text = "\n".join(lines) + "\n"
    return write_atomically(path, lambda p: p.write_text(text, encoding="utf-8"))


def _evidence(section: Section) -> list[str]:
    """What each verdict rests on: a list, with the parts of a claim below it."""
    lines = []
    for claim in section.card.claims:
        if v := section.verdicts.get(claim.id):
            told = [" ".join(line.split()) for line in v.sentence.splitlines() if line.strip()]
            if told and (len(told) == 1 or told[0][0] not in MARKS.values()):
                lines.append(f"* **{claim.id}** {told.pop(0)}")
            else:  # parts alone
                lines.append(f"* **{claim.id}**")
            lines += [f"  * {line}" for line in told]
    return lines


def export_tidy(
    sections: Sequence[Section], path: Path, form: Literal["csv", "parquet"] = "csv"
) -> Path:
    """All trials in long form (slug, dataset, arm, seed, parameters, metric, value)."""
    frames = [
        s.results.tidy().assign(slug=s.card.slug, scale=s.results.scale.name) for s in sections
    ]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    lead = [c for c in ("slug", "scale", "dataset", "arm", "seed") if c in table]
    table = table[lead + [c for c in table if c not in lead]]
    if form == "parquet":
        return write_atomically(path, lambda p: table.to_parquet(p, index=False))
    return write_atomically(path, lambda p: table.to_csv(p, index=False))


__all__ = [
    "Row",
    "Section",
    "export_tidy",
    "stored_section",
    "write_atomically",
    "write_comparison",
    "write_figures",
    "write_html",
    "write_markdown",
]
