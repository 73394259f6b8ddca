"""Every command on damaged files and odd options: a result, or one line that says what is wrong.

No traceback, no hang, no half-written file, no memory out of proportion.  The corpus is fixed: the
valid lines are in :mod:`commands`, the damaged copies come from :mod:`mutations` with fixed seeds.
``PRACTICUM_FUZZ_EACH=60`` damages every file so many times, to explore.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from practicum import catalog
from practicum.data.kinds import UserData
from practicum.errors import PracticumError
from practicum.study.compare import options_of, study_on

sys.path.insert(0, str(Path(__file__).parent))

import commands as table
import mutations

STRIDE = 4  # the suite runs every fourth mutant, -m slow the others

COSTLY = ("llm-bp run", "ssar fit", "fedgwc run")  # a third of a second each

_GIVEN: dict[str, Path] = {}


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """``given(slug)``: the method's files, made once; read, never written."""

    def files(slug):
        if slug not in _GIVEN:
            folder = tmp_path_factory.mktemp(slug) / "given"
            folder.mkdir()
            table.FILES[slug](folder)
            _GIVEN[slug] = folder
        return _GIVEN[slug]

    return files


def work(given, folder, prepare=None):
    """A fresh copy of the files."""
    target = folder / "work"
    shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(folder / "home", ignore_errors=True)
    shutil.copytree(given, target)
    if prepare:
        prepare(target)
    return target


def attempt(mutant, given, folder):
    target = work(given, folder, mutant.prepare)
    before = table.listing(target)
    done = table.run(list(mutant.words), target)
    found = table.complaints(done, before, table.listing(target), mutant.words)
    return [f"{mutant.id}: {complaint}" for complaint in found]


LINES = [
    pytest.param(slug, k, id=command.id, marks=pytest.mark.xdist_group(slug))
    for slug in table.FILES
    for k, command in enumerate(table.commands(slug))
]


QUICK = [p for p in LINES if not table.commands(p.values[0])[p.values[1]].slow]


def share(command, given):
    """The mutants that the suite affords."""
    quick = [m for m in table.mutants(command, given) if not m.slow]
    stride = STRIDE * (4 if command.id in COSTLY else 1)
    return [m for k, m in enumerate(quick) if k % stride == 0]


@pytest.mark.parametrize(("slug", "k"), QUICK)
def test_the_line_is_valid(slug, k, given, tmp_path):
    """Else its mutants would all be refused for one reason."""
    command = table.commands(slug)[k]
    done = table.run(command.line, work(given(slug), tmp_path))
    assert done.code == 0, done.err + done.crash


@pytest.mark.parametrize(("slug", "k"), LINES)
def test_mutants(slug, k, given, tmp_path):
    command = table.commands(slug)[k]
    wrong = [c for m in share(command, given(slug)) for c in attempt(m, given(slug), tmp_path)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("slug", "k"), LINES)
def test_all_mutants(slug, k, given, tmp_path):
    command = table.commands(slug)[k]
    done = {m.id for m in share(command, given(slug))}
    rest = [m for m in table.mutants(command, given(slug)) if m.id not in done]
    wrong = [c for m in rest for c in attempt(m, given(slug), tmp_path)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("slug", "k"), [p for p in LINES if p not in QUICK])
def test_the_slow_line_is_valid(slug, k, given, tmp_path):
    done = table.run(table.commands(slug)[k].line, work(given(slug), tmp_path))
    assert done.code == 0, done.err + done.crash


# --- what fell once ------------------------------------------------------------------------------

ONCE = {
    # traceback: a number or a word that a library refuses in its own words
    "a seed below zero": ("dkw-certificate", "use dkw-certificate simulate --seed -1", "--seed"),
    "a seed below zero, shapes": (
        "procrustes-wasserstein",
        "use procrustes-wasserstein barycenter shapes --seed -1",
        "--seed",
    ),
    "a seed below zero, sheet": (
        "llm-bp",
        "use llm-bp sheet --nodes nodes.csv --edges edges.csv --out s.csv --seed -1",
        "--seed",
    ),
    "a seed below zero, auctions": (
        "auction-bne",
        "use auction-bne solve values.csv --seed -1",
        "--seed",
    ),
    "nobody to do the work": (
        "procrustes-wasserstein",
        "use procrustes-wasserstein matrix shapes --jobs 0",
        "--jobs is 0",
    ),
    "negative shots": ("llm-bp", "use llm-bp compare --shots -1", "--shots -1"),
    "hints that are no time": (
        "optimistic-ftrl",
        "use optimistic-ftrl run costs.csv --columns a,b --hints nan",
        "hints 'nan' are not known",
    ),
    "a superscript as a window": (
        "optimistic-ftrl",
        "use optimistic-ftrl compare costs.csv --columns a,b --hints mean:²",
        "hints 'mean:²' are not known",
    ),
    "a superscript as a number of tasks": (
        "agent-resilience",
        "use agent-resilience critical --tasks arithmetic:²",
        "'²' is no number",
    ),
    "a million jobs": (
        "dkw-certificate",
        "verify dkw-certificate --scale smoke --jobs 99999999",
        "--jobs",
    ),
    # traceback: an option that names nothing
    "no methods": (
        "auction-bne",
        "use auction-bne compare values.csv --methods ,",
        "--methods is empty",
    ),
    "no arms": ("llm-bp", "use llm-bp compare --arms ''", "--arms is empty"),
    "no synthetic items": (
        "model-collapse",
        "use model-collapse value data.csv --synth 0",
        "no synthetic items",
    ),
    "no levels": ("ssar", "use ssar build Pendulum-v1 --levels ''", "--levels is empty"),
    "no box": ("cmi-test", "use cmi-test image digits.npz --box ''", "--box is empty"),
    "no model, and SmolLM2 was asked": (
        "agent-resilience",
        "use agent-resilience critical --tasks arithmetic:1 --model ''",
        "--model is empty",
    ),
    # traceback or memory: integers beyond every array
    "rows of 30 digits": (
        "cmi-test",
        f"use cmi-test example e.csv --rows {table.HUGE}",
        "31 digits",
    ),
    "a table of a terabyte": (
        "cmi-test",
        "use cmi-test example e.csv --rows 4000000000",
        "more memory than there is",
    ),
    "a network of a terabyte": (
        "discrete-markov",
        "use discrete-markov fit votes.csv --hidden 4000000000 --steps 1 --device cpu",
        "more memory than there is",
    ),
    "a list of a billion seeds": (
        "agent-resilience",
        "use agent-resilience run --tasks arithmetic:1 --seeds 1000000000",
        "--seeds is 1,000,000,000",
    ),
    "a support that grew until memory ended": (
        "procrustes-wasserstein",
        "use procrustes-wasserstein barycenter shapes --support 2000000000",
        "--support",
    ),
    "bidders of 30 digits": (
        "auction-bne",
        f"use auction-bne solve values.csv --bidders {table.HUGE}",
        "--bidders",
    ),
    "synthetic items of 30 digits": (
        "model-collapse",
        f"use model-collapse value data.csv --synth {table.HUGE}",
        "--synth",
    ),
    # one output written before the other was refused
    "a plot that is a folder": (
        "fedgwc",
        "use fedgwc cluster losses.csv --min-co-samples 1 --out g.csv --plot .",
        "is a folder",
    ),
    "a plot below a file": (
        "dkw-certificate",
        "use dkw-certificate band risks.csv --out b.csv --plot risks.csv/p.html",
        "cannot be written (Not a directory)",
    ),
    "a name too long": (
        "llm-bp",
        f"use llm-bp sheet --nodes nodes.csv --edges edges.csv --out {'x' * 300}.csv",
        "too long",
    ),
    "two outputs of one name": (
        "optimistic-ftrl",
        "use optimistic-ftrl run costs.csv --columns a,b --out o.html --plot ./o.html",
        "name one file",
    ),
    "a figure in the place of the numbers": (
        "model-collapse",
        "use model-collapse run data.csv --out r.html",
        "would hold the figure and the numbers",
    ),
    "an output that is a device, replaced by a file": (
        "cmi-test",
        "use cmi-test example /dev/full",
        "a pipe or a device",
    ),
    # said nothing, and did something else
    "an address without a cluster": (
        "dkw-certificate",
        "verify dkw-certificate --scale smoke --address here:1",
        "--engine ray",
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_fell_once(name, given, tmp_path):
    slug, line, said = ONCE[name]
    target = work(given(slug), tmp_path)
    before = table.listing(target)
    done = table.run(line, target)
    assert not done.crash, done.crash
    assert done.code == 2
    assert said in " ".join(done.err.split()), done.err
    assert table.listing(target) == before


DAMAGED = {
    "an archive cut short": (
        "cmi-test",
        "use cmi-test image digits.npz --box 0:2,0:2",
        "digits.npz",
        lambda data: data[: len(data) // 2],
        "cannot be read as NPZ",
    ),
    "an empty archive, and nothing was said": (
        "cmi-test",
        "use cmi-test image digits.npz --box 0:2,0:2",
        "digits.npz",
        lambda data: b"",
        "cannot be read as NPZ",
    ),
    "a byte of a model's settings": (
        "discrete-markov",
        "use discrete-markov sample model.safetensors",
        "model.safetensors",
        lambda data: data.replace(b"time_law", b"tim%_law"),
        "is damaged",
    ),
    "a quote of a model's settings": (
        "ssar",
        "use ssar beta model.safetensors log.npz --force",
        "model.safetensors",
        lambda data: data.replace(rb"\"settings\"", rb"\"settings\x01", 1),
        "model.safetensors",
    ),
    "counts of a run that are lists": (
        "agent-resilience",
        "use agent-resilience report r.json",
        "r.json",
        lambda data: data.replace(b'"touched": 0', b'"touched": []'),
        "touched",
    ),
    "half a character": (
        "agent-resilience",
        "use agent-resilience inject trace.jsonl --faulty coder",
        "trace.jsonl",
        lambda data: data.replace(b"x = 1", rb"x = \ud800"),
        "half a character",
    ),
    "answers of a report that are lists": (
        "abstract-reasoning",
        "use abstract-reasoning compare one.json two.json",
        "one.json",
        lambda data: data.replace(b'"task": "ec/var_set"', b'"task": [[1], [1, 2]]'),
        "items, 0, task",
    ),
    "a report nested without end": (
        "abstract-reasoning",
        "use abstract-reasoning compare one.json two.json",
        "one.json",
        lambda data: b"[" * 100_000,
        "nested too deeply",
    ),
    "a cell of a thousand words, repeated": (
        "cmi-test",
        "use cmi-test test pay.csv --response wage --candidates degree",
        "pay.csv",
        lambda data: data.replace(b"none", b"x" * 100_000).replace(b"school", b"x" * 100_000),
        "…",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_that_fell_once(name, given, tmp_path):
    slug, line, file, damage, said = DAMAGED[name]
    target = work(given(slug), tmp_path)
    path = target / file
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    done = table.run(line, target)
    assert not done.crash, done.crash
    assert done.code == 2
    (error,) = (one for one in done.err.splitlines() if one.startswith("error: "))
    assert said in error
    assert len(error) < 700


@pytest.mark.parametrize("slug", table.FILES)
def test_a_pipe_is_not_waited_for(slug, given, tmp_path):
    """Each method's first file as a pipe that nobody writes to."""
    command = table.commands(slug)[0]
    files = [w for w in command.words[3:] if (given(slug) / w).is_file()]
    if not files:  # it starts from a set of its own
        command = table.commands(slug)[1]
        files = [w for w in command.words[3:] if (given(slug) / w).exists()]
    target = work(given(slug), tmp_path, table._pipe(files[0]))
    done = table.run(command.line, target, seconds=20)
    assert done.code == 2, done.crash
    assert "is a pipe or a device" in done.err


# --- options of a comparison ---------------------------------------------------------------------

VALUES = ("", "nonsense", "nan", "inf", "-1", "0", "1e308", table.HUGE, "a,a", "²", "x" * 10_000)


@pytest.mark.parametrize("slug", table.FILES)
def test_odd_options_of_a_comparison(slug, given, tmp_path, monkeypatch):
    """A study, or a refusal; before any trial is run."""
    cls = catalog.get(slug).load_study()
    monkeypatch.chdir(work(given(slug), tmp_path))
    source = UserData.of([Path(table.COMPARED[slug])])
    for name in [*options_of(cls), "nonsense"]:
        for value in VALUES:
            with contextlib.suppress(PracticumError), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                study_on(cls, source, {name: value})


# --- stores --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The bytes of a store with one verification in it."""
    folder = tmp_path_factory.mktemp("store")
    line = "verify dkw-certificate --scale smoke --seeds 1 --jobs 1 -q --store results.sqlite"
    done = table.run(line, folder)
    assert done.code == 0, done.err + done.crash
    return (folder / "results.sqlite").read_bytes()


def damaged_stores(data):
    yield "empty", b""
    yield "a picture", table.PNG
    yield "a sentence", b"Once there was a store.\n"
    yield "zeros", bytes(4096)
    yield "a folder", None
    yield "half", data[: len(data) // 2]
    yield "its first pages", data[:5000]
    for k, (name, content) in enumerate(mutations.mutants(data, seed=0, n=8)):
        yield f"{name} {k}", content


@pytest.mark.parametrize(
    "line",
    [
        "report dkw-certificate --markdown m.md --csv t.csv --parquet t.parquet",
        "doctor",
        pytest.param(
            "verify dkw-certificate --scale smoke --seeds 1 --jobs 1 -q", marks=pytest.mark.slow
        ),
    ],
)
def test_damaged_stores(line, store, tmp_path):
    wrong = []
    for name, content in damaged_stores(store):
        folder = tmp_path / "work"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        table._put("results.sqlite", content)(folder)
        done = table.run(f"{line} --store results.sqlite", folder)
        after = {n: v for n, v in table.listing(folder).items() if "sqlite" not in n}
        wrong += [f"{name}: {c}" for c in table.complaints(done, {}, after, tuple(line.split()))]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("command", ["report", "doctor", "verify dkw-certificate --scale smoke -q"])
@pytest.mark.parametrize(
    "store",
    ["", " ", "mysql://x/y", "postgresql://nobody@127.0.0.1:1/none", "://", "sqlite:////",
     "postgresql://u:p@[::1", "/proc/x.sqlite", "file.txt/x.sqlite", "x" * 300],
)  # fmt: skip
def test_stores_that_are_none(command, store, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "file.txt").write_text("mine")
    done = table.run([*command.split(), "--store", store], folder)
    assert not done.crash, done.crash
    assert done.code == 2 or command == "doctor"
    assert "u:p@" not in done.err, "a password was printed"


@pytest.mark.parametrize(
    "line",
    ["report nope", "report --out ''", "report --scale paper", "verify", "verify nope",
     "verify nope nope", "verify dkw-certificate --seeds 0", "list --for nowhere.csv",
     "list --for ''", "list --field nope", "show nope", "show ''", "use nope", "use cmi-test nope",
     "use cmi-test test", "compare nope --data x", "compare dkw-certificate", "nope",
     "compare dkw-certificate --data ''", "compare dkw-certificate --data nowhere.csv",
     "serve --root nowhere --no-browser", "serve --port 99999999 --no-browser"],
)  # fmt: skip
def test_words_that_lead_nowhere(line, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    done = table.run(line, folder)
    assert done.code == 2, done.crash
    assert not table.complaints(done, {}, table.listing(folder), tuple(line.split()))


# --- as a person runs it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("use cmi-test example even.csv --rows 60", 0, ""),
        ("use cmi-test example even.csv --rows 4000000000", 2, "error: this needs more memory"),
        ("use cmi-test test pipe.csv --response y --candidates x", 2, "is a pipe or a device"),
        ("use cmi-test example folder", 2, "error: OUT folder: cannot be written (it is a folder)"),
        ("use auction-bne values bids.csv --bidders 1e308", 2, "Invalid value for '--bidders'"),
    ],
)
def test_exit_status_and_stderr(line, code, said, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    # a limit of the process, so that a machine of a terabyte refuses too
    limited = ["prlimit", "--as=16000000000", sys.executable] if shutil.which("prlimit") else None
    done = subprocess.run(
        [*(limited or [sys.executable]), "-m", "practicum", *line.split()],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
