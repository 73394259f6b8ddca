"""What a person reads: whole, self-contained, safe from what it quotes, and never half a file."""

import json
import math
import os
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import sqlalchemy as sa
from lab_study import Lab
from practicum_toy.study import Coin

from practicum import catalog
from practicum.errors import InputError
from practicum.study import report
from practicum.study.evidence import Verdict, all_of
from practicum.study.plots import new_figure
from practicum.study.report import (
    Section,
    export_tidy,
    stored_section,
    write_comparison,
    write_figures,
    write_html,
    write_markdown,
)
from practicum.study.results import Results
from practicum.study.runner import describe_environment, run_study
from practicum.study.spec import Outcome, Scale, Trial

CARD = catalog.get("coin").card


class Page(HTMLParser):
    """What a browser sees: links, scripts, text outside of scripts and styles."""

    def __init__(self, path):
        super().__init__()
        self.links, self.scripts, self.tags, self.text, self.stack = [], [], [], "", []
        self.raw = path.read_text(encoding="utf-8")
        self.feed(self.raw)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.links += [v for k, v in attributes if k in ("src", "href", "srcset", "data", "action")]
        if tag in ("script", "style"):
            self.stack.append(tag)
        if tag == "script":
            self.scripts.append([dict(attributes).get("type"), ""])

    def handle_endtag(self, tag):
        if self.stack and tag == self.stack[-1]:
            self.stack.pop()

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1][1] += data
        elif not self.stack:
            self.text += data

    @property
    def figures(self):
        return [json.loads(text) for kind, text in self.scripts if kind == "application/json"]

    def badges(self):
        return [a["class"] for tag, a in self.tags if "badge" in (a.get("class") or "")]


@pytest.fixture
def section(sqlite_store):
    run_study(Coin(), Scale("smoke"), sqlite_store)
    return stored_section(CARD, Coin(), sqlite_store)


def made(outcomes, study=None, verdicts=None, **changes):
    """A section written by hand."""
    results = Results(outcomes, Scale("smoke"))
    values = {
        "card": CARD,
        "study": study or Coin(),
        "results": results,
        "verdicts": verdicts or {},
    }
    environment = describe_environment()
    return Section(**{**values, "environment": environment, "finished": "2025-01-01", **changes})


def outcome(seed=0, metrics=None, **params):
    return Outcome(
        Trial("coin", "d", "estimate", seed, tuple(params.items())), metrics or {"m": 1.0}
    )


def leftovers(folder):
    return [
        p.name for p in folder.iterdir() if p.name != "results.sqlite" and "sqlite" not in p.name
    ]


# --- the page ------------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_outside(section, tmp_path):
    page = Page(write_html([section, section], tmp_path / "r.html"))
    assert all(link.startswith("#") for link in page.links)
    assert [tag for tag, _ in page.tags if tag in ("link", "iframe", "img", "object", "base")] == []
    style = page.raw[page.raw.index("<style>") : page.raw.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_plotly_is_there_once_however_many_figures(section, tmp_path):
    page = Page(write_html([section, section], tmp_path / "r.html"))
    assert len(page.figures) == 2
    large = [text for _, text in page.scripts if len(text) > 1_000_000]
    assert len(large) == 1
    assert "plotly.js v" in large[0][:2000]


def test_a_caption_cannot_end_its_script(section, tmp_path):
    """The toy's caption holds ``</script>``."""
    page = Page(write_html([section], tmp_path / "r.html"))
    caption = page.figures[0]["layout"]["meta"]["caption"]
    assert caption == "Absolute error </script> by arm."
    assert caption in page.text


@pytest.mark.parametrize("text", ["<!--<script>", "<!-- <script> </script>", "\u2028 & < > \" '"])
def test_nothing_in_a_figure_can_break_the_page(tmp_path, text):
    """``<!--<script`` keeps a browser from ever seeing the end of a script element."""
    figure = new_figure(text, x=text)
    file = write_figures({text: figure}, tmp_path / "f.html", text)
    page = Page(file)
    assert page.figures[0]["layout"]["meta"]["caption"] == text
    data = page.raw[page.raw.index('<script type="application/json">') :]
    inside = data[len('<script type="application/json">') : data.index("</script>")]
    assert "<!--" not in inside
    assert "<script" not in inside


@pytest.mark.parametrize("where", ["statement", "reported", "summary", "sentence", "reason"])
def test_words_are_text_not_markup(section, tmp_path, where):
    bad = '<img src=x onerror="alert(1)">'
    if where in ("statement", "reported"):
        claims = [c.model_copy(update={where: bad}) for c in CARD.claims]
        section.card = CARD.model_copy(update={"claims": claims})
    elif where == "summary":
        section.card = CARD.model_copy(update={"summary": bad})
    elif where == "sentence":
        section.verdicts["C1"] = Verdict("partly", bad)
    else:
        section.failures = [type("Row", (), {"label": bad, "reason": bad, "key": ""})()]
    page = Page(write_html([section, section], tmp_path / "r.html"))
    assert "img" not in [tag for tag, _ in page.tags]
    assert bad in page.text or where == "reported"


def test_every_claim_has_its_verdict(section, tmp_path):
    section.verdicts = {"C1": Verdict("not reproduced", "It was tails.")}
    page = Page(write_html([section], tmp_path / "r.html"))
    assert page.badges() == ["badge not-reproduced", "badge not-run"]
    for claim in CARD.claims:
        assert claim.statement in page.text
        assert claim.reported in page.text
    assert "It was tails." in page.text


@pytest.mark.parametrize(
    "status", ["reproduced", "partly", "not reproduced", "inconclusive", "needs more"]
)
def test_every_verdict_has_a_style(section, tmp_path, status):
    section.verdicts = {"C1": Verdict(status, "."), "C2": Verdict(status, ".")}
    page = Page(write_html([section], tmp_path / "r.html"))
    name = status.replace(" ", "-")
    assert page.badges() == [f"badge {name}"] * 2
    assert f".{name}" in page.raw[: page.raw.index("</style>")]


def test_a_smaller_scale_is_said(section, tmp_path):
    assert "smaller than the paper" in Page(write_html([section], tmp_path / "r.html")).text


def test_failures_are_shown(section, tmp_path):
    section.failures = [type("Row", (), {"label": "coin/half/seed 3", "reason": "Oops: x"})()]
    text = Page(write_html([section], tmp_path / "r.html")).text
    assert "1 trials failed" in text
    assert "coin/half/seed 3: Oops: x" in text


def test_a_section_without_trials_is_a_page_all_the_same(tmp_path):
    page = Page(write_html([made([])], tmp_path / "r.html"))
    assert page.figures == []
    assert CARD.title in page.text


def test_figures_alone(tmp_path):
    page = Page(
        write_figures({"One": new_figure("c."), "Two": go.Figure()}, tmp_path / "f.html", "T")
    )
    assert len(page.figures) == 2
    assert "c." in page.text


# --- stale ---------------------------------------------------------------------------------------


@pytest.fixture
def stale(sqlite_store):
    """A verification that ran with other code."""
    run_study(Coin(), Scale("smoke"), sqlite_store)
    with sqlite_store.engine.begin() as db:
        old = json.dumps({**describe_environment(), "code": "0" * 16})
        db.execute(sa.text("UPDATE runs SET environment = :old"), {"old": old})
    return stored_section(CARD, Coin(), sqlite_store)


def test_results_of_todays_code_are_not_stale(section, tmp_path):
    assert not section.stale
    assert "has changed since" not in Page(write_html([section], tmp_path / "r.html")).text


def test_results_of_other_code_are_flagged_on_the_page(stale, tmp_path):
    assert stale.stale
    assert "code has changed since" in Page(write_html([stale], tmp_path / "r.html")).text


def test_results_of_other_code_are_flagged_in_the_table(stale, tmp_path):
    text = write_markdown([stale], tmp_path / "R.md").read_text()
    assert "changed since" in text


# --- from the store ------------------------------------------------------------------------------


def test_what_was_not_run_has_no_section(sqlite_store):
    assert stored_section(CARD, Coin(), sqlite_store) is None


def test_the_newest_run_of_a_scale_is_read(sqlite_store):
    run_study(Coin(), Scale("cpu", 7), sqlite_store)
    run_study(Coin(), Scale("smoke"), sqlite_store)
    assert len(stored_section(CARD, Coin(), sqlite_store).results) == 24
    assert len(stored_section(CARD, Coin(), sqlite_store, "cpu").results) == 28
    assert stored_section(CARD, Coin(), sqlite_store, "paper") is None


def test_a_stored_section_says_what_the_run_said(sqlite_store):
    run = run_study(Coin(), Scale("smoke"), sqlite_store)
    section = stored_section(CARD, Coin(), sqlite_store)
    assert section.verdicts == run.verdicts
    assert sum(section.counts.values()) == 2
    assert np.__version__ in section.machine


# --- comparisons ---------------------------------------------------------------------------------


def test_a_comparison_names_every_arm_and_who_is_ahead(section, tmp_path):
    page = Page(write_comparison(section, tmp_path / "c.html"))
    for name, arm in Coin.arms.items():
        assert name in page.text
        assert arm.about in page.text
    assert "is ahead of" in page.text
    assert "reported" not in page.text.split("How it was run")[0]


# --- never half a file ---------------------------------------------------------------------------


def no_permission(folder):
    """A folder that not even root can write to: there is a file in its place."""
    (folder / "wall").write_text("x")
    return folder / "wall" / "r.html"


@pytest.mark.parametrize(
    "write",
    [
        lambda s, p: write_html([s], p),
        lambda s, p: write_markdown([s], p),
        lambda s, p: export_tidy([s], p, "csv"),
        lambda s, p: export_tidy([s], p, "parquet"),
        write_comparison,
    ],
    ids=["html", "markdown", "csv", "parquet", "comparison"],
)
class TestWriting:
    def test_a_folder_that_cannot_be_written(self, section, tmp_path, write):
        path = no_permission(tmp_path)
        with pytest.raises(InputError, match="cannot be written"):
            write(section, path)
        assert leftovers(tmp_path) == ["wall"]

    def test_a_folder_in_the_place_of_the_file(self, section, tmp_path, write):
        for suffix in (".html", ".csv", ".parquet"):
            (tmp_path / "out" / f"r{suffix}" / "full").mkdir(parents=True)
        with pytest.raises(InputError, match="cannot be written"):
            write(section, tmp_path / "out" / "r.html")
        assert sorted(leftovers(tmp_path / "out")) == ["r.csv", "r.html", "r.parquet"]

    def test_new_folders_are_made_and_the_file_replaced(self, section, tmp_path, write):
        path = tmp_path / "new" / "folder" / "r.html"
        first = write(section, path)
        assert write(section, path) == first
        assert leftovers(path.parent) == [first.name]

    def test_others_may_read_it_as_any_file(self, section, tmp_path, write):
        before = os.umask(0o027)
        try:
            path = write(section, tmp_path / "r.html")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o640


def test_a_figure_that_raises_leaves_the_old_report(section, tmp_path):
    class Broken(Coin):
        def figures(self, results):
            raise RuntimeError("no such column")

    path = write_html([section], tmp_path / "r.html")
    before = path.read_bytes()
    section.study = Broken()
    with pytest.raises(RuntimeError):
        write_html([section], path)
    assert path.read_bytes() == before
    assert leftovers(tmp_path) == ["r.html"]


def test_an_error_in_the_middle_of_writing_leaves_nothing(tmp_path):
    def write(path):
        path.write_text("half")
        raise RuntimeError("disk gone")

    with pytest.raises(RuntimeError):
        report.write_atomically(tmp_path / "r.html", write)
    assert leftovers(tmp_path) == []


# --- the table -----------------------------------------------------------------------------------


def rows(path):
    return [line for line in path.read_text().splitlines() if line.startswith("| C")]


def test_the_table_has_one_row_a_claim(section, tmp_path):
    table = rows(write_markdown([section], tmp_path / "R.md"))
    assert len(table) == 2
    assert table[0].startswith("| C1: the coin falls heads more often than not | 70 % | 0.693 [")
    assert "**reproduced**" in table[0]


@pytest.mark.parametrize("text", ["a | b", "one\n\ntwo", "Could not be judged (KeyError: 'a\nb')."])
def test_no_words_can_break_the_table(section, tmp_path, text):
    section.verdicts = {"C1": Verdict("partly", text), "C2": Verdict("partly", text)}
    table = rows(write_markdown([section], tmp_path / "R.md"))
    assert len(table) == 2
    for row in table:
        assert row.endswith("|")
        assert row.replace("\\|", "").count("|") == 5


def test_the_evidence_stands_below_the_table_part_by_part(section, tmp_path):
    parts = Verdict("reproduced", "It holds."), Verdict("not reproduced", "It does not.")
    section.verdicts = {"C1": all_of(*parts, sentence="Of two."), "C2": Verdict("partly", "Alone.")}
    text = write_markdown([section], tmp_path / "R.md").read_text()
    assert "* **C1** Of two.\n  * ✓ It holds.\n  * ✗ It does not.\n* **C2** Alone.\n" in text
    section.verdicts = {"C1": all_of(*parts)}
    text = write_markdown([section], tmp_path / "R.md").read_text()
    assert "* **C1**\n  * ✓ It holds.\n  * ✗ It does not.\n" in text


def test_the_table_says_when_and_where(section, tmp_path):
    text = write_markdown([section], tmp_path / "R.md").read_text()
    assert "Scale `smoke`, 24 trials" in text
    assert f"numpy {np.__version__}" in text


# --- tidy exports --------------------------------------------------------------------------------


def read(path, form):
    if form == "csv":
        table = pd.read_csv(path, dtype={"value": str})
        return table.assign(value=table.value.map(float))
    return pd.read_parquet(path)


@pytest.fixture(params=["csv", "parquet"])
def export(request, tmp_path):
    def export(*sections):
        return read(export_tidy(sections, tmp_path / "out.txt", request.param), request.param)

    return export


def test_an_export_holds_every_number_exactly(section, export):
    table = export(section)
    assert list(table.columns[:5]) == ["slug", "scale", "dataset", "arm", "seed"]
    assert set(table.slug) == {"coin"}
    assert set(table.scale) == {"smoke"}
    wide = table[table.metric == "error"].set_index(["arm", "seed"]).value
    for o in section.results.outcomes:
        assert wide[o.trial.arm, o.trial.seed] == o.metrics["error"]
    assert len(table) == 24 * 3  # error, heads, seconds
    assert set(table.flips) == {50}


def test_an_export_keeps_awkward_numbers(export):
    numbers = {"a": 0.1 + 0.2, "b": 5e-324, "c": math.inf, "d": -math.inf, "e": 1 / 3}
    table = export(made([outcome(metrics=numbers)])).set_index("metric").value
    assert {k: table[k] for k in numbers} == numbers


def test_an_export_of_several_studies_is_one_table(section, export):
    other = made([outcome(noise=0.5)])
    table = export(section, other)
    assert len(table) == 24 * 3 + 2
    assert table.noise.notna().sum() == 2


def test_an_export_of_nothing_but_failures_is_a_table_without_rows(section, export):
    assert len(export(section, made([]))) == 24 * 3


def test_a_setting_may_be_a_number_here_and_a_word_there(export):
    table = export(made([outcome(0, size=5), outcome(1, size="all")]))
    assert len(table) == 4


@pytest.mark.parametrize("name", ["scale", "slug", "value", "metric"])
def test_a_setting_may_have_any_name(export, name):
    table = export(made([outcome(**{name: 7})]))
    assert len(table) == 2
    assert table.eq(7).to_numpy().any() or table.eq("7").to_numpy().any()


def test_a_lab_without_figures_is_reported_without_them(sqlite_store, tmp_path):
    run = run_study(Lab(tmp_path / "log"), Scale("smoke"), sqlite_store)
    section = made([], study=Lab(tmp_path / "log"), results=run.results, verdicts=run.verdicts)
    assert Page(write_html([section], tmp_path / "r.html")).figures == []
