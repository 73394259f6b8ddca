"""The command line as a person meets it: by what it prints and returns.

Most tests call ``main`` in this process (``cli``), where an unexpected error fails the test as its
traceback would; what depends on pipes, terminals, shells and imports runs in a process of its own.
"""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
import typer

from practicum import catalog
from practicum.cli import main
from practicum.cli.guard import in_options
from practicum.errors import MissingExtra
from practicum.study.compare import Option, _as_options

HEAVY = ("numpy", "scipy", "pandas", "sklearn", "torch", "plotly", "sqlalchemy", "joblib")
SCRIPT = Path(sys.executable).with_name("practicum")


def strict(text):
    """JSON as every program reads it: without NaN and Infinity."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def refused(done):
    """The one error line and the hint of an expected failure."""
    lines = [re.sub(r"[│╭╮╰╯─]", "", line).strip() for line in done.stderr.splitlines()]
    errors = [line for line in lines if line.startswith("error: ")]
    hints = [line for line in lines if line.startswith("hint: ")]
    assert len(errors) == 1, done.stderr
    assert len(hints) <= 1
    assert done.stdout == ""
    return errors[0], hints[0] if hints else ""


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run the command line in this process: ``cli("list", "--json")``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0, env=None):
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["practicum", *map(str, arguments)])
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as caught:
                main()
        out, err = capsys.readouterr()
        assert (caught.value.code or 0) == code, f"exit {caught.value.code}\n{out}\n{err}"
        return SimpleNamespace(stdout=out, stderr=err)

    return run


@pytest.fixture
def table(tmp_path):
    (tmp_path / "mine.csv").write_text("x,y\n1,2\n3,4\n")
    return tmp_path / "mine.csv"


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A second third-party method whose parts are given; the environment that sees it."""

    def write(card_changes=(), **files):
        root = tmp_path / "site"
        folder = root / "practicum_extra"
        folder.mkdir(parents=True)
        toy = Path(__file__).parent / "toy"
        card = (toy / "practicum_toy" / "card.toml").read_text()
        for old, new in (('slug = "coin"', 'slug = "extra"'), *card_changes):
            card = card.replace(old, new)
        (folder / "card.toml").write_text(card)
        (folder / "__init__.py").touch()
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        info = root / "practicum_extra-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: practicum-extra\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text("[practicum.methods]\nextra = practicum_extra\n")
        monkeypatch.syspath_prepend(str(root))
        return {"PYTHONPATH": f"{root}{os.pathsep}{toy}"}

    yield write
    for name in [n for n in sys.modules if n.startswith("practicum_extra")]:
        del sys.modules[name]


# --- list and show -------------------------------------------------------------------------------


def test_list(cli):
    out = cli("list").stdout
    assert re.search(r"^coin +stats +table +Estimates the bias of a coin", out, re.M)


def test_list_as_json(cli):
    methods = strict(cli("list", "--json").stdout)
    coin = next(m for m in methods if m["slug"] == "coin")
    assert coin["accepts"] == ["table"]
    assert set(coin) == {"slug", "title", "field", "summary", "accepts"}


def test_list_of_one_field(cli):
    methods = strict(cli("list", "--json", "--field", "stats").stdout)
    assert {m["field"] for m in methods} == {"stats"}
    assert strict(cli("list", "--json", "--field", "games").stdout) == [
        m for m in strict(cli("list", "--json").stdout) if m["field"] == "games"
    ]


def test_list_for_a_file(cli, table):
    out = cli("list", "--for", table).stdout
    assert "a table of 2 columns, 2 of them numeric" in out
    assert "coin" in out
    assert "Next: practicum show" in out


def test_list_for_a_folder(cli, table):
    assert "a folder of" in cli("list", "--for", table.parent).stdout


@pytest.mark.parametrize("name", ["x[bold].csv", "a[/b].csv", "[red]y[/red].csv"])
def test_brackets_in_a_file_name_are_no_markup(cli, tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x,y\n1,2\n")
    assert name in cli("list", "--for", name).stdout


def test_brackets_in_a_card_are_no_markup(cli, plugin):
    env = plugin([("the coin falls heads", "the [mean] of [/all] coins falls heads")])
    assert "the [mean] of [/all] coins" in cli("show", "extra", env=env).stdout


def test_show(cli):
    out = cli("show", "coin").stdout
    for words in ("Biased coin", "On coins. A. Author.", "you test Practicum itself", "C1", "70 %"):
        assert words in out


def test_show_as_json(cli):
    card = strict(cli("show", "coin", "--json").stdout)
    assert [c["id"] for c in card["claims"]] == ["C1", "C2"]
    assert card["paper"]["authors"] == ["A. Author"]


@pytest.mark.parametrize("arguments", [["list"], ["show", "coin"], ["list", "--for", "mine.csv"]])
def test_looking_around_imports_nothing_heavy(environment, table, arguments):
    code = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules))))\n"
        f"sys.argv = ['practicum', *{arguments!r}]\n"
        "from practicum.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=table.parent,
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_version(cli):
    assert re.fullmatch(r"practicum \d+\.\d+\S*\n", cli("--version").stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show"],
        ["verify"],
        ["compare"],
        ["report"],
        ["serve"],
        ["doctor"],
        ["use"],
        ["use", "coin"],
    ],
    ids=" ".join,
)
def test_help(cli, arguments):
    out = cli(*arguments, "--help").stdout
    assert "Usage: " in out
    assert arguments[0] == "use" or f"Example: practicum {arguments[0]}" in out


def test_help_lists_the_commands(cli):
    out = cli("--help").stdout
    for name in ("list", "show", "use", "compare", "verify", "report", "serve", "doctor"):
        assert name in out


def test_use(cli):
    assert cli("use", "coin", "flip", 7, 10).stdout == "0.7\n"
    assert "Biased coin" in cli("use", "--help").stdout


# --- verify, compare, report, doctor -------------------------------------------------------------


@pytest.fixture
def verified(cli):
    return cli("verify", "coin", "--scale", "smoke", "--jobs", 1)


def test_verify(verified):
    assert re.search(
        r"^C1 the coin falls heads .* 70 % .* 0\.693 \[.* reproduced", verified.stdout, re.M
    )
    assert "decide by --scale cpu" in " ".join(verified.stdout.split())
    assert "24 trials run, 0 taken from the store" in verified.stdout
    assert "scale smoke" in verified.stdout


def test_verify_again_runs_nothing(verified, cli):
    again = cli("verify", "coin", "--scale", "smoke", "--jobs", 1)
    assert "0 trials run, 24 taken from the store" in again.stdout


def test_verify_as_json(cli):
    (run,) = strict(cli("verify", "coin", "--scale", "smoke", "-j", 1, "--json").stdout)
    assert (run["slug"], run["trials"], run["executed"], run["failures"]) == ("coin", 24, 24, [])
    claim = run["claims"][0]
    assert claim["verdict"] == "reproduced"
    assert claim["interval"][0] < claim["estimate"] < claim["interval"][1]
    assert claim["reported"] == "70 %"


@pytest.mark.parametrize("output", [("--out", "mine.csv"), ("--out=./mine.csv",)])
@pytest.mark.parametrize("data", [("--data", "mine.csv"), ("--data=mine.csv",)])
def test_an_input_is_never_overwritten(cli, table, data, output):
    before = table.read_bytes()
    error, hint = refused(cli("compare", "coin", *data, *output, code=2))
    assert "mine.csv is read and would be overwritten" in error
    assert "another output" in hint
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("auction-bne solve equilibrium.csv --bidders 3", "equilibrium.csv"),  # the default
        ("auction-bne solve equilibrium.csv:bid --bidders 3", "equilibrium.csv"),
        ("auction-bne values estimated-values.csv --bidders 3", "estimated-values.csv"),
        ("procrustes-wasserstein matrix distances.csv clouds/s0.csv", "distances.csv"),
        ("procrustes-wasserstein matrix clouds --out clouds/s0.csv", "clouds/s0.csv"),
        ("procrustes-wasserstein matrix clouds --out link.csv", "link.csv"),
        ("procrustes-wasserstein matrix . --out clouds/s0.csv", "clouds/s0.csv"),
    ],
)
def test_an_output_that_is_read_is_refused_default_or_not(cli, tmp_path, line, lost):
    (tmp_path / "clouds").mkdir()
    for name in ("equilibrium.csv", "estimated-values.csv", "distances.csv", "clouds/s0.csv"):
        (tmp_path / name).write_text("bid\n1\n2\n3\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "clouds" / "s0.csv")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.csv")}
    error, hint = refused(cli("use", *line.split(), code=2))
    assert error.startswith(f"error: {lost} is ")
    assert error.endswith("would be overwritten")
    assert hint == "hint: name another output with --out"
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.csv")} == before


def test_an_output_beside_what_is_read_is_written(cli, tmp_path):
    """A new file in the folder, an old one elsewhere, and a column of the output's name."""
    (tmp_path / "clouds").mkdir()
    for i, cloud in enumerate(("x,y\n0,0\n1,0\n0,2\n", "x,y\n0,0\n2,0\n0,2\n")):
        (tmp_path / "clouds" / f"s{i}.csv").write_text(cloud)
    (tmp_path / "old.csv").touch()
    for name in ("clouds/new.csv", "old.csv"):
        cli("use", "procrustes-wasserstein", "matrix", "clouds", "--out", name)
        assert (tmp_path / name).stat().st_size
        (tmp_path / "clouds" / "new.csv").unlink(missing_ok=True)


def test_a_default_and_a_given_output_of_one_name(cli, tmp_path):
    (tmp_path / "data.csv").write_text("x\n1\n2\n")
    line = "use procrustes-wasserstein barycenter data.csv data.csv --plot ./barycenter.csv"
    assert "name one file" in refused(cli(*line.split(), code=2))[0]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("model-collapse run holes.csv", "or remove the incomplete rows first"),
        ("cmi-test test holes.csv --response y --candidates x --given z", "--missing drop"),
    ],
)
def test_a_hint_names_what_the_command_has(cli, tmp_path, line, hint):
    rows = "\n".join(f"{i},{i % 7},{i % 5}" for i in range(40))
    (tmp_path / "holes.csv").write_text(f"x,y,z\n,1,2\n{rows}\n")
    hinted = refused(cli("use", *line.split(), code=2))[1]
    assert hint in hinted
    assert "missing=" not in hinted


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ('drop the rows with missing="drop"', "drop the rows with --missing drop"),
        ("use init='global', or fewer", "use --init global, or fewer"),
        ("use init='else'", "use init='else'"),  # no choice of it
        ("name more in my_columns=...", "name more in --my-columns ..."),
        ('my_columns="a b"', "--my-columns 'a b'"),
        ("with --my-columns (my_columns=...)", "with --my-columns (my_columns=...)"),
        ("jumps=True starts one, jumps=False none", "--jumps starts one, --no-jumps none"),
        ("pass other=3 or pandas==2.1", "pass other=3 or pandas==2.1"),
        (None, None),
    ],
)
def test_arguments_of_python_in_hints_are_options(python, said):
    app = typer.Typer()

    @app.command()
    def command(
        missing: Literal["refuse", "drop"] = "refuse",
        init: Literal["auto", "global"] = "auto",
        my_columns: str = "",
        jumps: bool = False,
    ):
        pass

    assert in_options(python, typer.main.get_command(app)) == said


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ('drop the rows with missing="drop"', "drop the rows with -o missing=drop"),
        ("choose with columns=...", "choose with -o columns=..."),
        ("name them with --columns (columns=...)", "name them with -o columns=..."),
        ("name them with --columns a,b", "name them with -o columns=a,b"),
        ("name them with -o columns=a", "name them with -o columns=a"),
        ("steps=many of other=3", "steps=many of other=3"),  # not a number; no such option
        (None, None),
    ],
)
def test_arguments_of_python_in_hints_are_options_of_a_comparison(python, said):
    known = {
        "missing": Option("missing", Literal["refuse", "drop"], "refuse", ""),
        "columns": Option("columns", str, "", ""),
        "steps": Option("steps", int, 1, ""),
    }
    assert _as_options(python, known) == said


def test_a_comparison_that_cannot_drop_rows_says_what_else_to_do():
    hint = 'impute them, or drop the rows with missing="drop"'
    assert _as_options(hint, {}) == "impute them, or remove the incomplete rows first"


def test_verify_all_goes_on_past_a_method_whose_packages_are_missing(cli, monkeypatch):
    def missing():
        raise MissingExtra("lacking needs nosuch", "pip install 'practicum[nosuch]'")

    coin = catalog.get("coin")
    lacking = SimpleNamespace(slug="lacking", load_study=missing)
    monkeypatch.setattr(catalog, "methods", lambda: {"lacking": lacking, "coin": coin})
    done = cli("verify", "--all", "--scale", "smoke", "--jobs", 1)
    assert "skipped lacking: lacking needs nosuch (pip install 'practicum[nosuch]')" in done.stderr
    assert "C1 the coin falls heads" in done.stdout


def test_json_of_an_interval_without_ends_is_json(cli):
    """One seed: the interval is the whole line, and Infinity is not JSON."""
    done = cli("verify", "coin", "--scale", "smoke", "-j", 1, "--seeds", 1, "--json")
    assert strict(done.stdout)[0]["claims"][0]["verdict"] == "inconclusive"


def test_a_failed_trial_is_exit_1(cli):
    env = {"COIN_FAILS": "half3"}
    done = cli("verify", "coin", "--scale", "smoke", "-j", 1, env=env, code=1)
    assert "failed: coin/half/seed 3 (flips=50)" in done.stderr
    assert "the coin rolled under the table" in done.stderr
    assert "24 trials run" in done.stdout
    (run,) = strict(cli("verify", "coin", "--scale", "smoke", "-j", 1, "--json").stdout)
    assert (run["executed"], run["failures"]) == (1, [])


def test_a_failed_trial_in_json(cli):
    env = {"COIN_FAILS": "half3"}
    done = cli("verify", "coin", "--scale", "smoke", "-j", 1, "--json", env=env, code=1)
    (failure,) = strict(done.stdout)[0]["failures"]
    assert failure["trial"] == "coin/half/seed 3 (flips=50)"
    assert failure["reason"] == "InputError: the coin rolled under the table"


def test_fresh(verified, cli):
    done = cli("verify", "coin", "--scale", "smoke", "-j", 1, "--fresh")
    assert "24 trials run, 0 taken from the store" in done.stdout


def test_compare(cli, table, tmp_path):
    done = cli("compare", "coin", "--data", table, "--scale", "smoke", "-j", 1)
    assert "is ahead of" in done.stdout
    assert "Report: comparison.html" in done.stdout
    assert "Biased coin on mine" in (tmp_path / "comparison.html").read_text()


def test_compare_as_json(cli, table):
    done = cli(
        "compare",
        "coin",
        "--data",
        table,
        "--scale",
        "smoke",
        "-j",
        1,
        "--json",
        "-o",
        "chance=0.6",
    )
    result = strict(done.stdout)
    assert result["slug"] == "coin"
    assert {r["arm"] for r in result["rows"]} == {"estimate", "half", "first flip", "fair coin"}
    assert result["report"] == "comparison.html"
    assert result["failures"] == []


def test_a_comparison_with_other_options_is_another_comparison(cli, table):
    options = ("--data", table, "--scale", "smoke", "-j", 1, "--json")
    first = strict(cli("compare", "coin", *options).stdout)
    other = strict(cli("compare", "coin", *options, "-o", "chance=0.9").stdout)
    assert first["rows"][0]["mean"] != other["rows"][0]["mean"]
    assert strict(cli("compare", "coin", *options).stdout)["rows"] == first["rows"]


def test_report(verified, cli, tmp_path):
    done = cli("report", "coin", "--markdown", "R.md", "--csv", "t.csv", "--parquet", "t.parquet")
    assert done.stdout.splitlines() == ["R.md", "t.csv", "t.parquet", "report.html"]
    assert all((tmp_path / name).stat().st_size for name in done.stdout.splitlines())


def test_an_export_keeps_its_name_and_gets_an_ending_where_it_has_none(verified, cli):
    done = cli("report", "coin", "--csv", "t.txt", "--parquet", "t")
    assert done.stdout.splitlines() == ["t.txt", "t.parquet", "report.html"]


def test_a_report_of_everything_needs_only_what_was_verified(verified, cli, plugin):
    """A method that was never run, and whose package is not installed, is not in the way."""
    env = plugin([("accepts", 'extras = ["torch"]\naccepts')], study="import nowhere_to_be_found")
    assert cli("report", env=env).stdout.splitlines() == ["report.html"]


def test_doctor(cli, tmp_path):
    out = cli("doctor").stdout
    assert str(tmp_path / "store.sqlite") in out
    assert "cores" in out


def test_doctor_as_json(cli):
    facts = strict(cli("doctor", "--json").stdout)
    assert facts["practicum"]["methods"].isdigit()
    assert "0 trials" in facts["store"]["results"]


def test_doctor_survives_a_store_that_is_not_there(cli):
    facts = strict(cli("doctor", "--json", "--store", "postgresql://127.0.0.1:1/x").stdout)
    assert facts["store"]["results"].startswith("missing")


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["show", "coni"], "there is no method 'coni'", "coin"),
        (["verify", "coni"], "there is no method 'coni'", "coin"),
        (["compare", "coni", "--data", "mine.csv"], "there is no method 'coni'", "coin"),
        (["report", "coni"], "there is no method 'coni'", "coin"),
        (["use", "coni"], "there is no method 'coni'", "coin"),
        (["list", "--field", "sports"], "there is no field 'sports'", "stats"),
        (["list", "--for", "nowhere.csv"], "nowhere.csv: there is no such file", ""),
        (["list", "--for", "empty.csv"], "empty.csv: the file is empty", ""),
        (["list", "--for", "junk.bin"], "junk.bin: neither text", "known kinds"),
        (["compare", "coin", "--data", "nowhere.csv"], "nowhere.csv: there is no such file", ""),
        (["compare", "coin", "--data", "."], "", ""),
        (["compare", "coin", "--data", "junk.bin"], "junk.bin", ""),
        (["compare", "coin", "--data", "mine.csv", "--data", "junk.bin"], "one file expected", ""),
        (["compare", "coin", "--data", "mine.csv", "-o", "x=1"], "no option 'x'", "chance"),
        (["compare", "coin", "--data", "mine.csv", "-o", "chance"], "NAME=VALUE", "chance"),
        (["compare", "coin", "--data", "mine.csv", "-o", "chance=much"], "chance=much", "heads"),
        (["verify"], "no method named", "practicum verify"),
        (["report"], "nothing to report", "practicum verify"),
        (["verify", "coin", "--store", "mine.csv"], "mine.csv", "--store"),
        (["verify", "coin", "--store", "."], "cannot open", "--store"),
        (["verify", "coin", "--store", "mysql://me@host/x"], "mysql", "--store"),
        (["verify", "coin", "--store", "postgresql://h:port/x"], "", "--store"),
        (["verify", "coin", "--store", "postgresql://127.0.0.1:1/x"], "127.0.0.1", "--store"),
        (["verify", "coin", "--store", "mine.csv/x.sqlite"], "mine.csv", "--store"),
        (["use", "coin", "flip", "7", "0"], "flips is 0, at least one is needed", "flip the coin"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_a_hint(cli, table, arguments, error, hint):
    (table.parent / "empty.csv").touch()
    (table.parent / "junk.bin").write_bytes(b"\x80\x00\xff" * 100)
    said, hinted = refused(cli(*arguments, code=2))
    assert error in said
    assert hint in hinted
    assert bool(hint) <= bool(hinted)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense"], "nonsense"),
        (["list", "--colour"], "--colour"),
        (["verify", "coin", "--scale", "huge"], "huge"),
        (["verify", "coin", "--seeds", "0"], "--seeds"),
        (["verify", "coin", "--seeds", "few"], "few"),
        (["verify", "coin", "--jobs", "-1"], "--jobs"),
        (["verify", "coin", "--engine", "spark"], "spark"),
        (["compare", "coin"], "--data"),
        (["show"], "slug"),
        (["use", "coin", "flip", "x", "1"], "HEADS"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_named(cli, arguments, named):
    done = cli(*arguments, code=2)
    assert named.lower() in done.stderr.lower()
    assert "--help" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("out", ["/proc/nowhere/r.html", "mine.csv/r.html", "folder"])
def test_a_report_that_cannot_be_written(verified, cli, table, out):
    (table.parent / "folder").mkdir()
    error, _ = refused(cli("report", "coin", "--out", out, code=2))
    assert f"{out}: cannot be written" in error
    assert list((table.parent / "folder").iterdir()) == []


def test_a_comparison_that_cannot_be_written(cli, table):
    done = cli(
        "compare", "coin", "--data", table, "--scale", "smoke", "-j", 1, "-q",
        "--out", "/proc/nowhere/c.html", code=2,
    )  # fmt: skip
    assert "cannot be written" in refused(done)[0]


def test_a_mistake_in_a_process_of_its_own(practicum):
    error, hint = refused(practicum("show", "coni", code=2))
    assert error == "error: there is no method 'coni'"
    assert hint == "hint: did you mean coin?"


def test_debug_shows_the_traceback(environment, tmp_path):
    command = [sys.executable, "-m", "practicum", "--debug", "show", "coni"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "UnknownMethod" in done.stderr


def test_a_broken_card_of_another_is_named(cli, plugin):
    env = plugin([('field = "stats"', 'field = "sports"')])
    error, _ = refused(cli("list", env=env, code=2))
    assert "practicum_extra" in error
    assert "sports" in error


def test_a_missing_package_is_answered_with_the_line_that_installs_it(cli, plugin):
    env = plugin(
        [("accepts", 'extras = ["torch"]\naccepts')],
        study="import nowhere_to_be_found",
        command="import nowhere_to_be_found",
    )
    for arguments in (["verify", "extra"], ["use", "extra", "--help"]):
        error, hint = refused(cli(*arguments, env=env, code=2))
        assert "extra needs the package 'nowhere_to_be_found'" in error
        assert hint == "hint: install it with: pip install 'practicum[torch]'"


# --- terminals, pipes, shells --------------------------------------------------------------------


def test_progress_is_plain_lines_where_there_is_no_terminal(practicum):
    verified = practicum("verify", "coin", "--scale", "smoke", "--jobs", 1)
    assert verified.stderr.splitlines()[-1] == "coin: 24 of 24 trials"
    assert "\x1b" not in verified.stdout + verified.stderr
    assert "\r" not in verified.stderr


@pytest.mark.parametrize("option", ["--quiet", "-q", "--json"])
def test_quiet_is_quiet(cli, option):
    assert cli("verify", "coin", "--scale", "smoke", "-j", 1, option).stderr == ""


def test_progress_is_a_bar_on_a_terminal(environment, tmp_path):
    ours, theirs = pty.openpty()
    env = {**environment, "COIN_SECONDS": "0.03", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "practicum", "verify", "coin", "--scale", "smoke", "-j", "1"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        cwd=tmp_path,
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the terminal closes with the process
        while select.select([ours], [], [], 60)[0] and (part := os.read(ours, 65536)):
            seen += part
    os.close(ours)
    assert process.wait(60) == 0
    text = seen.decode()
    assert "━" in text
    assert re.search(r"\b1?\d/24\b", text)
    assert "\x1b[" in text
    assert "of 24 trials" not in text
    assert "reproduced" in text


def test_a_reader_that_leaves_early(environment, plugin):
    """``practicum list | head -1``"""
    env = {**environment, **plugin([("Estimates the bias", "very long " * 20_000)])}
    process = subprocess.Popen(
        [sys.executable, "-m", "practicum", "list", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read().decode()
    assert process.wait(60) in (0, 141)
    assert err == ""


def test_list_into_head(environment):
    command = f"set -o pipefail; {sys.executable} -m practicum list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("method")


@pytest.mark.parametrize("arguments", [["show", "coin"], ["show", "coin", "--json"], ["list"]])
def test_a_terminal_without_unicode(practicum, plugin, arguments):
    env = plugin([("On coins", "Über σ-Münzen")])
    arguments = [a.replace("coin", "extra") for a in arguments]
    assert practicum(*arguments, env={**env, "PYTHONIOENCODING": "ascii"}).stdout


def completions(environment, words, env=None, shell="bash"):
    typed = {
        "bash": {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": words},
        "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [SCRIPT],
        capture_output=True,
        text=True,
        env={**environment, **typed, "_PRACTICUM_COMPLETE": f"complete_{shell}", **(env or {})},
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_in_other_shells(environment, shell):
    assert "coin" in completions(environment, "practicum use co", shell=shell)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("practicum ", "verify"),
        ("practicum ver", "verify"),
        ("practicum use ", "coin"),
        ("practicum use co", "coin"),
        ("practicum use coin ", "flip"),
        ("practicum verify coin --sc", "--scale"),
        ("practicum verify coin --scale ", "smoke"),
    ],
)
def test_completion(environment, words, expected):
    assert expected in completions(environment, words)


def test_completion_of_an_unknown_method_is_silent(environment):
    assert "coni" not in completions(environment, "practicum use coni ")


def test_completion_of_methods_imports_none_of_them(environment, plugin):
    """One method that cannot be imported does not take the others away."""
    env = plugin(command="import nowhere_to_be_found")
    assert completions(environment, "practicum use ", env=env).split() == sorted_slugs(
        environment, env
    )


def sorted_slugs(environment, env):
    done = subprocess.run(
        [SCRIPT, "list", "--json"], capture_output=True, text=True, env={**environment, **env}
    )
    return [m["slug"] for m in json.loads(done.stdout)]


def test_completion_can_be_installed(environment):
    done = subprocess.run(
        [SCRIPT],
        capture_output=True,
        text=True,
        env={**environment, "_PRACTICUM_COMPLETE": "source_bash"},
    )
    assert "complete -o default -F _practicum_completion practicum" in done.stdout
