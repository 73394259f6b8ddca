"""``practicum use cmi-test``: one test, many candidates, an image region, an example file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

LEVEL = 0.05
MOST_NAMED = 8


class _TestByDefault(TyperGroup):
    """``practicum use cmi-test FILE ...`` means the command ``test``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = args and (args[0] in self.commands or args[0].startswith("-"))
        if args and not known and (Path(args[0]).suffix or Path(args[0]).exists()):
            args = ["test", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_TestByDefault, no_args_is_help=True, add_completion=False)

SeedOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
PresetOption = Annotated[
    Literal["default", "paper"],
    typer.Option(help="paper: the published networks; needs PyTorch, about a minute at 400 rows."),
]
MissingOption = Annotated[
    Literal["refuse", "drop"], typer.Option(help="Rows with a missing value.")
]
RegressionOption = Annotated[
    Literal["smoother", "lasso", "boosting", "network"],
    typer.Option(help="Of Y on Z; boosting follows jumps and interactions."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Write a page (.html), or the numbers (.csv).", show_default=False),
]


@app.callback()
def root() -> None:
    """Does X help to predict the mean of Y once Z is known?

    A file alone is tested: practicum use cmi-test pay.csv --response wage --candidates degree
    """


@app.command("test")
def run_test(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, NPZ or JSON lines.")],
    response: Annotated[str, typer.Option(help="Column(s) Y, separated by commas.")],
    candidates: Annotated[
        str, typer.Option(help="Column(s) X, separated by commas; patterns such as region_*.")
    ],
    given: Annotated[
        str,
        typer.Option(
            help="Column(s) Z; 'rest': every other column, other candidates too; 'none': no Z."
        ),
    ] = "rest",
    ignore: Annotated[
        str, typer.Option(help="Column(s) to leave out, names of people say.", show_default=False)
    ] = "",
    joint: Annotated[
        bool, typer.Option("--joint", help="Test all candidates together, as one X.")
    ] = False,
    groups: Annotated[
        str | None, typer.Option(help="Column that says which rows belong together.")
    ] = None,
    missing: MissingOption = "refuse",
    regression: RegressionOption = "smoother",
    preset: PresetOption = "default",
    seed: SeedOption = 0,
    out: OutOption = None,
) -> None:
    """Test whether the candidates matter for the mean of the response, given the rest.

    Several candidates are tested one by one and adjusted for their number (Holm).

    Example: practicum use cmi-test test pay.csv --response wage --candidates degree --given age
    """
    from practicum.stats.cmi_test.importance import null_draws

    _refuse_output(out)
    roles = _Roles.of(data, response, candidates, given, ignore, groups)
    frame = _read(data, roles.used, missing)
    one = joint or len(roles.x) == 1
    together = " + ".join(roles.x)
    if len(roles.x) > 4:
        together = f"{candidates} ({len(roles.x)} columns)"
    plan = [(together, roles.x)] if one else [(name, [name]) for name in roles.x]
    options: dict[str, Any] = {"random_state": seed, "regression": regression}
    if preset == "paper":
        options["preset"] = preset
    if len(plan) > 1:
        options["n_boot"] = null_draws(len(plan))
    tests = []
    for label, columns in plan:
        rest = [c for c in roles.rest if c not in columns] if roles.z is None else roles.z
        if not rest and roles.z is None:
            raise InputError(
                f"{data}: no column is left for Z", "name it with --given, or say --given none"
            )
        fitted = _fit(data, label, frame, roles, columns, rest, options)
        tests.append(_Tested(label, fitted, rest))
    _report(tests, roles.y)
    if out:
        _write(tests, roles.y, out)


@app.command()
def image(
    data: Annotated[Path, typer.Argument(help="NPZ with arrays: images (n, H, W) and labels (n).")],
    box: Annotated[
        str | None, typer.Option(help="Rows and columns of the region: 2:6,2:6.")
    ] = None,
    tiles: Annotated[
        int | None, typer.Option(min=1, help="Test every tile of so many pixels a side instead.")
    ] = None,
    images: Annotated[str, typer.Option(help="Name of the array of images.")] = "images",
    labels: Annotated[str, typer.Option(help="Name of the array of labels or numbers.")] = "labels",
    rows: Annotated[int, typer.Option(min=60, help="A random sample of so many images.")] = 1000,
    seed: SeedOption = 0,
    out: OutOption = None,
) -> None:
    """Test whether a region of the image matters for the label, given the rest of the image.

    With --tiles every tile is tested, adjusted for their number (Holm); --out draws the map.

    Example: practicum use cmi-test image digits.npz --box 2:6,2:6
    """
    import numpy as np

    from practicum.stats.cmi_test.importance import null_draws

    _refuse_output(out)
    if (box is None) == (tiles is None):
        raise InputError("one of --box and --tiles is needed", "--box 2:6,2:6, or --tiles 2")
    pictures, outcome = _read_images(data, images, labels)
    chosen = np.random.default_rng(seed).permutation(len(pictures))[:rows]
    pictures, outcome = pictures[chosen].astype(float), outcome[chosen]
    if outcome.dtype.kind not in "fc":
        outcome = np.eye(int(outcome.max()) + 1)[outcome]
    if box is not None:
        boxes = {box: _box(box, pictures.shape[1:])}
    else:
        boxes = _tiles(data, tiles, pictures)
    options = {"random_state": seed, "n_boot": null_draws(len(boxes))}
    tests = [_test_box(data, pictures, outcome, text, boxes[text], options) for text in boxes]
    _report(tests, [labels])
    if out:
        drawn = {"Where the image matters": _importance_map(tests, list(boxes.values()))}
        _write(tests, [labels], out, drawn if tiles else None)


def _test_box(
    data: Path, pictures: Any, outcome: Any, label: str, inside: Any, options: dict[str, Any]
) -> _Tested:
    """X the pixels inside, Z those outside, constant ones left out."""
    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

    parts = {"box": pictures[:, inside], "rest": pictures[:, ~inside], "labels": outcome}
    parts = {name: part.reshape(len(part), -1) for name, part in parts.items()}
    parts = {name: part[:, part.std(axis=0) > 0] for name, part in parts.items()}
    for name, part in parts.items():
        if not part.shape[1]:
            raise InputError(f"{data}: nothing varies in the {name}", "choose another box or file")
    try:
        with _told_later():
            test = ConditionalMeanTest(**options).fit(parts["box"], parts["labels"], parts["rest"])
    except InputError as error:
        raise InputError(f"{data}, box {label}: {error.message}", error.hint) from error
    return _Tested(f"box {label}", test, ["the rest of the image"])


@app.command()
def example(
    out: Annotated[Path, typer.Argument(help="The CSV to write.")],
    design: Annotated[
        str, typer.Option(help="null, linear-sparse, linear-dense, even-sparse or even-dense.")
    ] = "even-sparse",
    rows: Annotated[int, typer.Option(min=60)] = 400,
    seed: SeedOption = 0,
) -> None:
    """Write a simulated table (y, x1 to x25, z1 to z25) to try the test on.

    Example: practicum use cmi-test example even.csv --design even-sparse
    """
    import numpy as np
    import pandas as pd

    from practicum.stats.cmi_test.simulate import GaussianDesign
    from practicum.study.report import write_atomically

    size = 0.2 if design.startswith("linear") else 0.5
    x, y, z = GaussianDesign(design, size).draw(rows, np.random.default_rng(seed))
    columns = ["y", *(f"x{k + 1}" for k in range(25)), *(f"z{k + 1}" for k in range(25))]
    frame = pd.DataFrame(np.hstack([y, x, z]), columns=columns)
    written = write_atomically(out, lambda path: frame.to_csv(path, index=False))
    typer.echo(f"Wrote {written}: {rows} rows of {design}.")
    options = "--response y --candidates 'x*' --given 'z*' --joint"
    typer.echo(f"Next: practicum use cmi-test {out} {options}")


# --- helpers -------------------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


@dataclass(frozen=True)
class _Roles:
    """Who is Y, X, Z and the groups; ``rest``: every column without another role."""

    y: list[str]
    x: list[str]
    z: list[str] | None
    groups: list[str]
    rest: list[str]

    @property
    def used(self) -> list[str]:
        """The columns to read, each once."""
        others = self.z if self.z is not None else [c for c in self.rest if c not in self.x]
        return [*self.y, *self.x, *others, *self.groups]

    @classmethod
    def of(
        cls, data: Path, response: str, candidates: str, given: str, ignore: str, groups: str | None
    ) -> _Roles:
        from practicum.stats.cmi_test.tables import column_names, pick_columns

        names = column_names(data)
        try:
            out = pick_columns(names, _split(ignore), option="--ignore") if ignore else []
            names = [name for name in names if name not in out]
            y = pick_columns(names, _split(response), option="--response")
            x = pick_columns(names, _split(candidates), y, "--candidates")
            group = pick_columns(names, [groups], [*y, *x], "--groups") if groups else []
            z = None
            if given == "none" and given not in names:
                z = []
            elif given != "rest":
                z = pick_columns(names, _split(given), [*y, *x, *group], "--given")
        except InputError as error:
            raise InputError(f"{data}: {error.message}", error.hint) from error
        return cls(y, x, z, group, [name for name in names if name not in (*y, *group)])


def _read(data: Path, used: list[str], missing: str) -> pd.DataFrame:
    """The table, its rows numbered as a person counts them."""
    import pandas as pd

    from practicum.stats.cmi_test.tables import line_numbers, read_table

    drop = missing == "drop"
    try:
        frame = read_table(data, used, numeric=False, missing="drop" if drop else "error")
    except InputError as error:
        hint = error.hint and error.hint.replace('missing="drop"', "--missing drop")
        raise InputError(error.message, hint) from error
    lines = line_numbers(data)
    if len(lines) == len(frame):  # as read_table itself names them
        return frame.set_index(pd.Index(lines, name="line"))
    name = "remaining row" if drop else "row"
    return frame.set_index(pd.RangeIndex(1, len(frame) + 1, name=name))


@contextmanager
def _told_later() -> Iterator[None]:
    """What the test warns of stands in its sentence and its notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _fit(
    data: Path,
    label: str,
    frame: pd.DataFrame,
    roles: _Roles,
    x: list[str],
    z: list[str],
    options: dict[str, Any],
) -> ConditionalMeanTest:
    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

    labels = frame[roles.groups[0]].to_numpy() if roles.groups else None
    try:
        with _told_later():
            return ConditionalMeanTest(**options).fit(
                frame[x], frame[roles.y], frame[z] if z else None, labels
            )
    except InputError as error:
        hint = error.hint
        if error.message.startswith(("X", "Y", "Z")):
            hint = "; ".join(filter(None, [hint, "--ignore leaves columns out"]))
        raise InputError(f"{data}, candidate {label}: {error.message}", hint) from error


class _Tested:
    """A finished test and what its parts are called."""

    def __init__(self, label: str, test: ConditionalMeanTest, rest: list[str]) -> None:
        self.label, self.result, self.effect = label, test.result_, test.effect()
        self.given = _words(rest) if len(rest) <= 4 else f"{len(rest)} other columns"
        self.given = self.given or "nothing else"
        self.adjusted = self.result.pvalue

    @property
    def empty(self) -> bool:
        """Whether there was nothing to test."""
        return bool(self.result.nothing_left)


def _report(tests: list[_Tested], y: list[str]) -> None:
    """Adjust the p-values and print everything."""
    import numpy as np

    from practicum.stats.cmi_test.importance import holm_adjust

    tested = [test for test in tests if not test.empty]
    for test, p in zip(tested, holm_adjust(np.array([t.result.pvalue for t in tested]))):
        test.adjusted = float(p)
    if len(tests) > 1:
        _table(tests)
    for sentence in _said(tests, ", ".join(y)):
        typer.echo(sentence)


def _said(tests: list[_Tested], y: str) -> Iterator[str]:
    """What the tests say, in sentences."""
    yield from _about_one(tests[0], y) if len(tests) == 1 else _about_many(tests, y)
    if any(t.adjusted > LEVEL and not t.empty for t in tests):
        yield "Only the mean is tested: effects on spread or tails are not looked for."


def _about_one(test: _Tested, y: str) -> Iterator[str]:
    r = test.result
    yield r.sentence(test.label, y, test.given)
    if not test.empty:
        rest = f"the rest explains {_share(r.r2_y_given_z)} of the variance of {y} out of sample; "
        left = "what is left" if test.given != "nothing else" else f"the variance of {y}"
        yield (
            f"  Effect: {rest if test.given != 'nothing else' else ''}{test.label} explains "
            f"{_share(test.effect)} of {left} (partial R²)."
        )
        yield f"  {r.size_sentence()}"
    for note in r.notes:
        yield f"  Note: {note}."


def _about_many(tests: list[_Tested], y: str) -> Iterator[str]:
    """What the table says in one sentence a group, and each note once."""
    yield (
        "Effect: share of the variance that the rest leaves (partial R²). Rest: share of the "
        f"variance of {y} that the rest explains, out of sample. Self-check: share of null data "
        f"sets made from these rows on which the test rejected at {LEVEL:.0%}."
    )
    empty = [t for t in tests if t.empty]
    unclear = [t for t in tests if not t.empty and not t.result.conclusive]
    decided = [t for t in tests if not t.empty and t.result.conclusive]
    found = [t.label for t in decided if t.adjusted <= LEVEL]
    others = [t.label for t in decided if t.adjusted > LEVEL]
    if found:
        still = "still helps" if len(found) == 1 else "each still help"
        yield (
            f"Knowing the rest, {_words(found)} {still} to predict the mean of {y} "
            f"(adjusted p at most {LEVEL})."
        )
    if others:
        yield (
            f"No evidence that, knowing the rest, {_words(others, 'or')} helps to predict the mean "
            f"of {y}; this is not evidence of the contrary."
        )
    for test in [*empty, *unclear]:
        yield test.result.sentence(test.label, y, test.given)
    notes: dict[str, list[str]] = {}
    for test in tests:
        for note in test.result.notes:
            notes.setdefault(note, []).append(test.label)
    for note, labels in notes.items():
        where = "" if len(labels) == len(tests) else f" ({_words(labels)})"
        yield f"Note{where}: {note}."


COLUMNS = ("candidate", "p", "p (Holm)", "effect", "rest", "self-check", "rows")


def _cells(test: _Tested) -> list[str]:
    """A test's line of the table."""
    r = test.result
    size = "" if r.size_check is None else f"{r.size_check:.0%}"
    p = [_p_words(value) for value in (r.pvalue, test.adjusted)]
    return [test.label, *p, _share(test.effect), _share(r.r2_y_given_z), size, str(r.n)]


def _table(tests: list[_Tested]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for test in tests:
        table.add_row(*_cells(test))
    Console(highlight=False, width=120).print(table)


def _share(value: float) -> str:
    """A share of variance in words; below zero nothing was found."""
    return f"{value:.1%}" if value > 0 else "none"


def _words(names: list[str], last: str = "and") -> str:
    """Names in a sentence; of many, the first few."""
    if not names:
        return ""
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _p_words(p: float) -> str:
    """Three digits, and never 0.000."""
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def _refuse_output(out: Path | None) -> None:
    """Before the work, not after it."""
    if out and (out.is_dir() or out.suffix.lower() not in (".html", ".htm", ".csv")):
        kind = "a folder" if out.is_dir() else "neither a page nor a table"
        raise InputError(f"--out {out} is {kind}", "name a file that ends in .html or .csv")


def _write(
    tests: list[_Tested], y: list[str], out: Path, drawn: dict[str, Any] | None = None
) -> None:
    """The numbers as a table; or a page that holds all that was said, and figures."""
    from practicum.study.report import write_atomically, write_figures

    if out.suffix.lower() == ".csv":
        frame = _frame(tests, y)
        written = write_atomically(out, lambda path: frame.to_csv(path, index=False))
        typer.echo(f"Wrote {written}: a row for each test.")
        return
    drawn = drawn or {}
    nulls = {} if drawn else _nulls(tests)  # none where there was nothing to test
    figures = {"What the test says": _page_table(tests, y)} | drawn | nulls
    written = write_figures(figures, out, f"cmi-test: {', '.join(y)}")
    what = " and the map" if drawn else " and the statistic beside its null distribution"
    typer.echo(f"Wrote {written}: the result{what if drawn or nulls else ''}.")


def _frame(tests: list[_Tested], y: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "response": ", ".join(y),
            "candidate": test.label,
            "given": test.given,
            "p": test.result.pvalue,
            "p_adjusted": test.adjusted,
            "effect": test.effect,
            "r2_given": test.result.r2_y_given_z,
            "size_check": test.result.size_check,
            "rows": test.result.n,
            "conclusive": test.result.conclusive,
            "notes": "; ".join(test.result.notes),
        }
        for test in tests
    )


def _page_table(tests: list[_Tested], y: list[str]) -> Any:
    """The table, what was said of it below."""
    from practicum.study.plots import new_figure

    said = " ".join(sentence.strip() for sentence in _said(tests, ", ".join(y)))
    figure = new_figure(said, height=90 + 30 * len(tests))
    figure.add_table(
        header={"values": COLUMNS, "align": "left"},
        cells={"values": list(zip(*map(_cells, tests))), "align": "left", "height": 28},
    )
    figure.update_layout(margin={"t": 10, "b": 10})
    return figure


def _nulls(tests: list[_Tested]) -> dict[str, Any]:
    """The statistic of each test beside its null."""
    from practicum.study.plots import new_figure

    figures = {}
    for test in tests:
        label, r = test.label, test.result
        if test.empty:
            continue
        figure = new_figure(
            f"Grey: {len(r.null)} draws of the statistic if {label} did not matter. Line: the "
            f"statistic of the data (p = {r.pvalue:.3g}).",
            x="statistic",
            y="draws",
        )
        figure.add_histogram(x=r.null, marker={"color": "#7F7F7F"}, nbinsx=60, showlegend=False)
        figure.add_vline(x=r.statistic, line={"color": "#0072B2", "width": 3})
        figures[f"{label}: the statistic and its null"] = figure
    return figures


def _importance_map(tests: list[_Tested], boxes: list[Any]) -> Any:
    """A heat map of the effect, a star where the adjusted p-value is small."""
    import numpy as np

    from practicum.study.plots import new_figure

    effect = np.full(boxes[0].shape[:2], np.nan)
    figure = new_figure(
        "Colour: share of the variance of the label that the rest of the image leaves and the tile "
        f"explains, out of sample, in percent. Star: adjusted p at most {LEVEL}. Blank: nothing "
        "varies there.",
        x="column",
        y="row",
        height=520,
    )
    for test, inside in zip(tests, boxes):
        rows, columns = np.nonzero(inside.reshape(*effect.shape, -1).any(axis=2))
        effect[rows, columns] = 100 * max(test.effect, 0.0)
        if test.adjusted <= LEVEL:
            figure.add_annotation(
                x=columns.mean(), y=rows.mean(), text="★", showarrow=False, font={"size": 18}
            )
    figure.add_heatmap(z=effect, colorscale="Blues", colorbar={"title": "%"}, xgap=1, ygap=1)
    figure.update_yaxes(autorange="reversed", scaleanchor="x", constrain="domain")
    figure.update_xaxes(constrain="domain")
    return figure


def _read_images(data: Path, images: str, labels: str) -> tuple[Any, Any]:
    import tokenize
    import zipfile
    import zlib

    import numpy as np

    # what a damaged archive makes of its directory, its headers and its contents
    headers = (OSError, ValueError, AttributeError, EOFError, SyntaxError, tokenize.TokenError)
    contents = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
    try:
        with np.load(data, allow_pickle=False) as archive:
            absent = [name for name in (images, labels) if name not in archive.files]
            if absent:
                raise InputError(
                    f"{data}: no array {absent[0]!r}", f"arrays: {', '.join(archive.files)}"
                )
            pictures, outcome = archive[images], archive[labels]
    except (*headers, *contents) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "damaged, or of another kind"
        raise InputError(
            f"{data}: cannot be read as NPZ ({reason})", "numpy.savez makes such a file"
        ) from error
    if pictures.ndim < 3 or outcome.ndim != 1 or len(pictures) != len(outcome) or not pictures.size:
        raise InputError(
            f"{data}: images of shape {pictures.shape}, labels of shape {outcome.shape}",
            "(n, height, width) and (n,) are expected",
        )
    if outcome.dtype.kind not in "biuf" or pictures.dtype.kind not in "biuf":
        raise InputError(f"{data}: images and labels must be numbers")
    if not (np.isfinite(pictures).all() and np.isfinite(outcome).all()):
        raise InputError(f"{data}: images or labels hold NaN or infinite values", "correct them")
    if outcome.dtype.kind in "biu" and (outcome.min() < 0 or outcome.max() > 999):
        raise InputError(f"{data}: labels from {outcome.min()} to {outcome.max()}", "0 to 999")
    return pictures, outcome


def _tiles(data: Path, side: int, pictures: Any) -> dict[str, Any]:
    """The tiles in which some pixel varies, by rows and columns."""
    height, width = pictures.shape[1:3]
    varies = pictures.std(axis=0) > 0
    found = {}
    for top in range(0, height, side):
        for left in range(0, width, side):
            bottom, right = min(top + side, height), min(left + side, width)
            text = f"{top}:{bottom},{left}:{right}"
            inside = _box(text, pictures.shape[1:])
            if (varies & inside).any():
                found[text] = inside
    if not found:
        raise InputError(f"{data}: nothing varies in the images")
    return found


def _box(text: str, shape: tuple[int, ...]) -> Any:
    import numpy as np

    inside = np.zeros(shape, dtype=bool)
    try:
        (top, bottom), (left, right) = (
            [int(end) for end in part.split(":")] for part in text.split(",")
        )
    except ValueError as error:
        raise InputError(f"--box {text!r}", "rows and columns as 2:6,2:6") from error
    if not (0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1]):
        raise InputError(f"--box {text!r} does not fit images of {shape[0]} x {shape[1]}")
    inside[top:bottom, left:right] = True
    if inside.all():
        raise InputError(f"--box {text!r} is the whole image", "leave something for Z")
    return inside
