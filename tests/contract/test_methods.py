"""What every method must have. A new method is held to this by having a card."""

import doctest
import importlib
import inspect
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

from practicum import catalog
from practicum.data.kinds import UserData
from practicum.study import Results, Scale, Store, run_study
from practicum.study.compare import comparison, options_of, sentence, study_on
from practicum.study.report import Section, write_comparison, write_html
from practicum.study.runner import judge

METHODS = {m.slug: m for m in catalog._built_in()}
REPO = Path(__file__).parents[2]


@pytest.fixture(params=METHODS, scope="module")
def method(request):
    return METHODS[request.param]


@pytest.fixture(scope="module")
def smoke(method, tmp_path_factory):
    """The method's smoke study, run once."""
    study = method.load_study()()
    with Store(tmp_path_factory.mktemp("contract") / "store.sqlite") as store:
        yield study, run_study(study, Scale("smoke"), store), store


def public_names(method):
    module = importlib.import_module(method.module)
    return {name: getattr(module, name) for name in module.__all__}


# --- files ---------------------------------------------------------------------------------------


def test_the_five_files_are_there(method):
    for name in ("card.toml", "__init__.py", "study.py", "command.py"):
        assert (method.folder / name).is_file(), f"{method.slug} lacks {name}"
    rest = {p.name for p in method.folder.glob("*.py")} - {"__init__.py", "study.py", "command.py"}
    assert rest, f"{method.slug} lacks a module for its algorithm"


def test_folder_and_slug_agree(method):
    assert method.folder.name == method.slug.replace("-", "_")
    assert method.folder.parent.name == method.card.field


def test_tests_bad_input_tests_and_a_benchmark_exist(method):
    name = method.folder.name
    tests = list((REPO / "tests" / method.card.field).rglob("test_*.py"))
    tests = [t for t in tests if method.module in t.read_text()]
    assert tests, f"no test imports {method.module}"
    assert any(
        "bad_input" in t.name or re.search(r"def test_\w*(bad_input|refuse)", t.read_text())
        for t in tests
    ), "no test of bad input"
    assert (REPO / "benchmarks" / f"bench_{name}.py").is_file()


def test_the_algorithm_knows_no_study(method):
    """The reusable API is importable and useful alone."""
    for path in method.folder.glob("*.py"):
        if path.name not in ("study.py", "command.py"):
            assert "practicum.study" not in path.read_text(), path.name


# --- names and docstrings ------------------------------------------------------------------------


def test_the_package_says_what_when_and_how(method):
    doc = importlib.import_module(method.module).__doc__ or ""
    assert len(doc.splitlines()) >= 15, "a newcomer's page"
    assert ">>>" in doc, "an example"


def test_public_names_are_documented(method):
    for name, thing in public_names(method).items():
        if not callable(thing):
            continue
        doc = inspect.getdoc(thing) or ""
        assert doc, f"{name} has no docstring"
        assert ">>>" in doc, f"{name} has no example"
        target = thing.__init__ if inspect.isclass(thing) else thing
        takes = [
            p for p in inspect.signature(target).parameters if p not in ("self", "args", "kwargs")
        ]
        result = inspect.isclass(thing) and "Attributes" in doc  # what a function returns
        if takes and not result:
            assert "Parameters" in doc, f"{name} does not describe its parameters"
        if takes and not inspect.isclass(thing):
            assert "Raises" in doc or "Warns" in doc, f"{name} does not say what it raises"


def test_documented_examples_run(method):
    modules = [method.module] + [
        f"{method.module}.{p.stem}"
        for p in method.folder.glob("*.py")
        if p.stem not in ("__init__", "command")
    ]
    attempted = 0
    for name in modules:
        done = doctest.testmod(
            importlib.import_module(name),
            optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
        )
        assert done.failed == 0, name
        attempted += done.attempted
    assert attempted > 0


# --- the study -----------------------------------------------------------------------------------


def test_claims_of_the_card_and_of_the_study_agree(method):
    assert set(method.load_study().claims) == {c.id for c in method.card.claims}


def test_arms_have_the_roles_a_comparison_needs(method):
    arms = method.load_study().arms
    roles = [a.role for a in arms.values()]
    assert roles[0] == "method", "the method is the first arm"
    assert {"method", "baseline", "cheap"} <= set(roles)
    assert all(a.about for a in arms.values())


def test_the_grid_is_fixed_and_every_scale_has_one(method):
    study = method.load_study()()
    for name in ("smoke", "cpu", "paper"):
        grid = list(study.trials(Scale(name)))
        assert grid == list(study.trials(Scale(name)))
        assert len(set(grid)) == len(grid)
        assert {t.arm for t in grid} <= set(study.arms)
    few, many = (len(list(study.trials(Scale("smoke", n)))) for n in (1, 3))
    assert few < many, "--seeds has no effect"


def test_the_smoke_study_finishes_and_every_claim_is_judged(method, smoke):
    study, run, store = smoke
    assert run.failures == []
    assert set(run.verdicts) == {c.id for c in method.card.claims}
    for claim, verdict in run.verdicts.items():
        assert not verdict.sentence.startswith("Could not be judged"), (claim, verdict.sentence)
    assert run_study(study, Scale("smoke"), store).executed == 0


def test_a_claim_can_fail(smoke):
    """Judged on results with the arms' numbers exchanged, some verdict must change."""
    study, run, _ = smoke
    arms = list(study.arms)
    swapped = []
    for o in run.results.outcomes:
        other = arms[(arms.index(o.trial.arm) + 1) % len(arms)]
        trial = type(o.trial)(o.trial.slug, o.trial.dataset, other, o.trial.seed, o.trial.params)
        swapped.append(type(o)(trial, o.metrics, o.curves, o.seconds))
    changed = judge(study, Results(swapped, run.results.scale))
    assert {k: v.status for k, v in changed.items()} != {
        k: v.status for k, v in run.verdicts.items()
    }


def test_trials_do_not_depend_on_their_group(smoke):
    """A resumed run hands over only what is missing: the numbers must be the same, to the bit."""
    study, run, _ = smoke
    stored = {o.trial: o for o in run.results.outcomes}
    by_group = {}
    for trial in stored:
        by_group.setdefault((study.group(trial), trial.arm, trial.dataset), trial)
    for trial in list(by_group.values())[::3][:6]:
        if study.group(trial) is None:
            continue
        alone = study.run(trial)
        for name, value in {**stored[trial].metrics, **stored[trial].curves}.items():
            if not name.endswith("seconds"):
                np.testing.assert_array_equal(np.asarray(alone[name]), value, err_msg=name)


def test_figures_have_captions_and_survive_partial_results(method, smoke, tmp_path):
    study, run, _ = smoke
    figures = study.figures(run.results)
    assert figures
    for title, figure in figures.items():
        assert figure.data, f"{title} is empty"
        assert (figure.layout.meta or {}).get("caption"), f"{title} has no caption"
    outcomes = run.results.outcomes
    for part in (
        [],
        outcomes[:1],
        outcomes[::2],
        [o for o in outcomes if o.trial.arm != next(iter(study.arms))],
    ):
        partial = Results(part, run.results.scale)
        study.figures(partial)
        judge(study, partial)
    section = Section(
        method.card, study, run.results, run.verdicts,
        {"system": "", "cores": 1, "python": "", "engine": "local", "jobs": 1}, "2026-01-01",
    )  # fmt: skip
    html = write_html([section], tmp_path / "report.html").read_text()
    for claim in method.card.claims:
        assert claim.id in html


# --- on a person's files -------------------------------------------------------------------------


def test_compare_runs_on_a_file_of_every_kind_it_accepts(method, sample, tmp_path):
    cls = method.load_study()
    assert all(o.about for o in options_of(cls).values()), "an option without explanation"
    for kind in method.card.accepts:
        study = study_on(cls, UserData.of([sample(kind)]), {})
        with Store(tmp_path / f"{kind}.sqlite") as store:
            run = run_study(study, Scale("smoke", 2), store, kind="compare")
        assert run.failures == []
        rows = comparison(study, run.results)
        assert {r.arm for r in rows} >= {
            a for a, arm in study.arms.items() if arm.role != "control"
        }
        assert sentence(study, rows)
        section = Section(
            method.card, study, run.results, {},
            {"system": "", "cores": 1, "python": "", "engine": "local", "jobs": 1}, "2026-01-01",
        )  # fmt: skip
        assert write_comparison(section, tmp_path / "c.html").stat().st_size > 1_000_000


BAD = {
    "empty.csv": b"",
    "nan.csv": b"x,y\n1,2\n3,nan\n5,6\n7,8\n",
    "words.csv": b"x,y\na,b\nc,d\n",
    "junk.csv": bytes(range(256)) * 8,
    "one_row.csv": b"x,y\n1,2\n",
    "cut.npy": b"\x93NUMPY\x01\x00",
    "empty.ply": b"ply\nformat ascii 1.0\nelement vertex 0\nend_header\n",
    "latin.txt": "é".encode("latin1") * 100,
}


@pytest.mark.parametrize("name", BAD)
def test_compare_refuses_bad_input_in_one_line(method, name, tmp_path, practicum):
    path = tmp_path / name
    path.write_bytes(BAD[name])
    done = practicum("compare", method.slug, "--data", path, "--scale", "smoke", "-q", code=2)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, done.stderr
    assert name in errors[0], errors[0]


# --- the command ---------------------------------------------------------------------------------


def test_every_command_shows_an_example(method):
    group = typer.main.get_command(method.load_command())
    commands = getattr(group, "commands", {"": group})
    for name, command in commands.items():
        text = " ".join((command.help or "").split())
        wanted = f"practicum use {method.slug} {name}".strip()
        assert wanted in text, f"{name}: no example in --help"
        assert shlex.split(text[text.index(wanted) :])


def test_use_help_works_from_the_command_line(method, practicum):
    assert "Usage" in practicum("use", method.slug, "--help").stdout
