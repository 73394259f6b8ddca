"""A stored run as what people look at: verdicts, a comparison, figures, a report, a table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from practicum import catalog
from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.study.compare import Row, caveat, comparison, sentence, shared_setting, study_on
from practicum.study.evidence import Verdict
from practicum.study.fingerprint import code_fingerprint
from practicum.study.report import Section, export_tidy, write_comparison, write_html
from practicum.study.results import Results
from practicum.study.spec import Scale, Study
from practicum.web.files import Files
from practicum.web.ledger import Ledger, Run


@dataclass(frozen=True)
class Comparison:
    """The arms beside each other, and what that says in one sentence."""

    study: Study
    rows: list[Row]
    sentence: str
    caveat: str
    setting: str


class Outcomes:
    """Reads runs back from the store with the study that made them."""

    def __init__(self, ledger: Ledger, files: Files) -> None:
        self.ledger = ledger
        self.files = files
        # a finished run does not change; a few are kept, because they may be large
        self._kept = lru_cache(maxsize=4)(self._section)
        self._compared = lru_cache(maxsize=32)(self._comparison)

    def verdicts(self, run_id: int) -> dict[str, Verdict]:
        """The verdicts as they were judged when the run ended."""
        return self.ledger.store.verdicts_of(run_id)

    def section(self, run: Run) -> Section:
        """The run with its study and its finished trials.

        Raises
        ------
        PracticumError
            The method or what it needs is not installed, or the person's file is gone.
        """
        return self._kept(run.id) if run.status == "done" else self._section(run.id)

    def numbers(self, run: Run) -> Section:
        """The run for its stored numbers alone: the person's file may be gone or out of reach."""
        try:
            return self.section(run)
        except InputError:
            study = catalog.get(run.slug).load_study()()
            return self._read(run, study)

    def _section(self, run_id: int) -> Section:
        run = self.ledger.run(run_id)
        assert run is not None
        return self._read(run, self._study(catalog.get(run.slug).load_study(), run))

    def _read(self, run: Run, study: Study) -> Section:
        store = self.ledger.store
        results = Results(store.load(store.keys_of(run.id)), Scale(run.scale))  # type: ignore[arg-type]
        return Section(
            catalog.get(run.slug).card,
            study,
            results,
            self.verdicts(run.id),
            dict(run.environment),
            run.ended or run.started,
            store.failures_of(run.id),
            self.stale(run),
        )

    def _study(self, cls: type[Study], run: Run) -> Study:
        if run.kind != "compare":
            return cls()
        for path in run.data:
            if not self.files.allows(Path(os.path.realpath(path))):
                raise InputError(
                    f"{path}: outside the folders that this page may read",
                    "the trials below are in the store; to see the comparison, start the server "
                    "with --root",
                )
        return study_on(cls, UserData.of(run.data), run.chosen)

    def comparison(self, run: Run) -> Comparison:
        """Every arm against the method, on what has finished."""
        return self._compared(run.id) if run.status == "done" else self._comparison(run.id)

    def _comparison(self, run_id: int) -> Comparison:
        run = self.ledger.run(run_id)
        assert run is not None
        section = self.section(run)
        rows = comparison(section.study, section.results)
        return Comparison(
            section.study,
            rows,
            sentence(section.study, rows),
            caveat(rows),
            shared_setting(section.results),
        )

    def figures(self, run: Run) -> list[dict[str, Any]]:
        """The study's figures as JSON for the browser."""
        section = self.section(run)
        made = section.study.figures(section.results) if len(section.results) else {}
        return [plotted(title, figure) for title, figure in made.items()]

    def stale(self, run: Run) -> bool:
        """Whether the method's code has changed since the run."""
        return run.environment.get("code") != code_of(run.slug)

    def data_changed(self, run: Run) -> list[str]:
        """Files of a comparison that are gone, or were written after it began."""
        import datetime as dt

        began = dt.datetime.fromisoformat(run.started).timestamp()
        changed = []
        for path in run.data:
            try:
                changed += [path] * (os.path.getmtime(path) > began + 1)
            except OSError:
                changed.append(path)
        return changed

    def as_html(self, run: Run) -> bytes:
        """One self-contained file, for whoever has no server."""
        section = self.section(run)
        if run.kind == "compare":
            return _written(".html", lambda path: write_comparison(section, path))
        return _written(".html", lambda path: write_html([section], path))

    def as_csv(self, run: Run) -> bytes:
        """Every trial and metric in long form."""
        section = self.section(run)
        return _written(".csv", lambda path: export_tidy([section], path))


def plotted(title: str, figure: Any) -> dict[str, Any]:
    """A figure as the page's script draws it."""
    meta = figure.layout.meta or {}
    return {
        "title": title,
        "json": figure.to_json().replace("<", "\\u003c"),  # nothing in it can end the script
        "caption": meta.get("caption", ""),
        "height": figure.layout.height or 420,
    }


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Names whose values differ, nested ones with dots; the process always does."""
    first, second = dict(_flat(a)), dict(_flat(b))
    names = sorted((set(first) | set(second)) - {"pid"})
    pairs = [(name, first.get(name, "none"), second.get(name, "none")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}.")
        else:
            found.append((before + name, str(value)))
    return found


def code_of(slug: str) -> str:
    """The fingerprint of a method's code as it is on disk now."""
    folder = catalog.get(slug).folder
    root = folder
    while (root.parent / "__init__.py").exists():
        root = root.parent
    newest = max(path.stat().st_mtime_ns for path in root.rglob("*.py"))
    return _code(folder, newest)


@lru_cache(maxsize=256)
def _code(folder: Path, _newest: int) -> str:
    return code_fingerprint(folder)


def _written(suffix: str, write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"export{suffix}"
        write(path)
        return path.read_bytes()
