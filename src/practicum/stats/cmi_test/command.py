"""``practicum use cmi-test``: one test, many candidates, an image region, an example file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

app = typer.Typer(no_args_is_help=True, add_completion=False)

SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
PresetOption = Annotated[
    Literal["default", "paper"],
    typer.Option(help="paper: the published networks; needs PyTorch, about a minute at 400 rows."),
]
MissingOption = Annotated[
    Literal["refuse", "drop"], typer.Option(help="Rows with a missing value.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Write figures to this HTML file.", show_default=False)
]


@app.callback()
def root() -> None:
    """Does X help to predict the mean of Y once Z is known?"""


@app.command("test")
def run_test(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, NPZ or JSON lines.")],
    response: Annotated[str, typer.Option(help="Column(s) Y, separated by commas.")],
    candidates: Annotated[
        str, typer.Option(help="Column(s) X, separated by commas; patterns such as region_*.")
    ],
    given: Annotated[
        str, typer.Option(help="Column(s) Z; 'rest': every other column, other candidates too.")
    ] = "rest",
    joint: Annotated[
        bool, typer.Option("--joint", help="Test all candidates together, as one X.")
    ] = False,
    groups: Annotated[
        str | None, typer.Option(help="Column that says which rows belong together.")
    ] = None,
    missing: MissingOption = "refuse",
    preset: PresetOption = "default",
    seed: SeedOption = 0,
    out: OutOption = None,
) -> None:
    """Test whether the candidates matter for the mean of the response, given the rest.

    Several candidates are tested one by one and adjusted for their number (Holm).

    Example: practicum use cmi-test test pay.csv --response wage --candidates degree --given age
    """
    from practicum.stats.cmi_test.tables import column_names, pick_columns, read_table

    names = column_names(data)
    try:
        y = pick_columns(names, _split(response), option="--response")
        x = pick_columns(names, _split(candidates), y, "--candidates")
        extra = [groups] if groups else []
        if groups:
            pick_columns(names, extra, [*y, *x], "--groups")
        z = None
        if given != "rest":
            z = pick_columns(names, _split(given), [*y, *x, *extra], "--given")
    except InputError as error:
        raise InputError(f"{data}: {error.message}", error.hint) from error
    used = [*y, *x, *extra, *(z or [c for c in names if c not in (*y, *x, *extra)])]
    frame = read_table(data, used, numeric=False, missing="drop" if missing == "drop" else "error")
    options = {"random_state": seed, "preset": None if preset == "default" else preset}
    plan = [(", ".join(x), x)] if joint or len(x) == 1 else [(name, [name]) for name in x]
    tests = []
    for label, columns in plan:
        rest = z or [c for c in frame.columns if c not in (*y, *columns, *extra)]
        if not rest:
            raise InputError(f"{data}: no column is left for Z", "name it with --given")
        tests.append((label, _fit(data, label, frame, y, columns, rest, groups, options), rest))
    _report(tests, y)
    if out:
        _draw(tests, y, out)


@app.command()
def image(
    data: Annotated[Path, typer.Argument(help="NPZ with arrays: images (n, H, W) and labels (n).")],
    box: Annotated[str, typer.Option(help="Rows and columns of the region: 2:6,2:6.")],
    images: Annotated[str, typer.Option(help="Name of the array of images.")] = "images",
    labels: Annotated[str, typer.Option(help="Name of the array of labels or numbers.")] = "labels",
    rows: Annotated[int, typer.Option(min=60, help="A random sample of so many images.")] = 1000,
    seed: SeedOption = 0,
) -> None:
    """Test whether a region of the image matters for the label, given the rest of the image.

    Example: practicum use cmi-test image digits.npz --box 2:6,2:6
    """
    import numpy as np

    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

    pictures, outcome = _read_images(data, images, labels)
    inside = _box(box, pictures.shape[1:])
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(pictures))[:rows]
    pictures, outcome = pictures[chosen].astype(float), outcome[chosen]
    if outcome.dtype.kind not in "fc":
        outcome = np.eye(int(outcome.max()) + 1)[outcome]
    parts = {"box": pictures[:, inside], "rest": pictures[:, ~inside], "labels": outcome}
    parts = {name: part.reshape(len(chosen), -1) for name, part in parts.items()}
    parts = {name: part[:, part.std(axis=0) > 0] for name, part in parts.items()}
    for name, part in parts.items():
        if not part.shape[1]:
            raise InputError(f"{data}: the {name} is constant in every image", "choose another box")
    fitted = ConditionalMeanTest(random_state=seed).fit(
        parts["box"], parts["labels"], parts["rest"]
    )
    _report([(f"box {box}", fitted, ["the rest of the image"])], [labels])


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
    typer.echo(str(write_atomically(out, lambda path: frame.to_csv(path, index=False))))
    options = "--response y --candidates 'x*' --given 'z*' --joint"
    typer.echo(f"Next: practicum use cmi-test test {out} {options}")


# --- helpers -------------------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _fit(
    data: Path,
    label: str,
    frame: pd.DataFrame,
    y: list[str],
    x: list[str],
    z: list[str],
    groups: str | None,
    options: dict[str, Any],
) -> ConditionalMeanTest:
    from practicum.stats.cmi_test.conditional_mean import ConditionalMeanTest

    labels = frame[groups].to_numpy() if groups else None
    try:
        return ConditionalMeanTest(**options).fit(frame[x], frame[y], frame[z], labels)
    except InputError as error:
        raise InputError(f"{data}, candidate {label}: {error.message}", error.hint) from error


Tests = list[tuple[str, "ConditionalMeanTest", list[str]]]


def _report(tests: Tests, y: list[str]) -> None:
    """Sentences, and a table when there are several."""
    import numpy as np

    from practicum.stats.cmi_test.conditional_mean import holm_adjust

    adjusted = holm_adjust(np.array([t.pvalue_ for _, t, _ in tests]))
    outcome = ", ".join(y)
    if len(tests) > 1:
        _table(tests, adjusted)
    for (label, fitted, rest), p in zip(tests, adjusted):
        given = ", ".join(rest) if len(rest) <= 4 else f"{len(rest)} other columns"
        typer.echo(fitted.result_.sentence(label, outcome, given, adjusted=float(p)))
        effect = fitted.effect()
        amount = f"{effect:.1%} of" if effect > 0 else "none of"
        typer.echo(
            f"  Effect: {label} explains {amount} the variance the rest leaves (partial R²)."
        )
        typer.echo(f"  {fitted.result_.size_sentence()}")
        for note in fitted.result_.notes:
            typer.echo(f"  Note: {note}.")


def _table(tests: Tests, adjusted: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("candidate", "p", "p (Holm)", "effect", "self-check", "rows"):
        table.add_column(column)
    for (label, fitted, _), p in zip(tests, adjusted):
        r = fitted.result_
        size = "" if r.size_check is None else f"{r.size_check:.1%}"
        effect = f"{max(fitted.effect(), 0.0):.1%}"
        table.add_row(label, f"{r.pvalue:.3g}", f"{p:.3g}", effect, size, str(r.n))
    Console(highlight=False, width=120).print(table)


def _draw(tests: Tests, y: list[str], out: Path) -> None:
    from practicum.study.plots import new_figure
    from practicum.study.report import write_figures

    figures = {}
    for label, fitted, _ in tests:
        r = fitted.result_
        figure = new_figure(
            f"Grey: {len(r.null)} draws of the statistic if {label} did not matter. Line: the "
            f"statistic of the data (p = {r.pvalue:.3g}).",
            x="statistic",
            y="draws",
        )
        figure.add_histogram(x=r.null, marker={"color": "#7F7F7F"}, nbinsx=60, showlegend=False)
        figure.add_vline(x=r.statistic, line={"color": "#0072B2", "width": 3})
        figures[f"{label}: the statistic and its null"] = figure
    typer.echo(str(write_figures(figures, out, f"cmi-test: {', '.join(y)}")))


def _read_images(data: Path, images: str, labels: str) -> tuple[Any, Any]:
    import numpy as np

    try:
        with np.load(data, allow_pickle=False) as archive:
            absent = [name for name in (images, labels) if name not in archive.files]
            if absent:
                raise InputError(
                    f"{data}: no array {absent[0]!r}", f"arrays: {', '.join(archive.files)}"
                )
            pictures, outcome = archive[images], archive[labels]
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{data}: cannot be read as NPZ", "numpy.savez makes such a file"
        ) from error
    if pictures.ndim < 3 or outcome.ndim != 1 or len(pictures) != len(outcome):
        raise InputError(
            f"{data}: images of shape {pictures.shape}, labels of shape {outcome.shape}",
            "(n, height, width) and (n,) are expected",
        )
    if outcome.dtype.kind not in "biuf" or pictures.dtype.kind not in "biuf":
        raise InputError(f"{data}: images and labels must be numbers")
    if outcome.dtype.kind in "biu" and (outcome.min() < 0 or outcome.max() > 999):
        raise InputError(f"{data}: labels from {outcome.min()} to {outcome.max()}", "0 to 999")
    return pictures, outcome


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
