"""``practicum use procrustes-wasserstein``: distances, mean shapes, distance matrices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.errors import InputError
from practicum.study.command import Progress

if TYPE_CHECKING:
    import numpy as np

    from practicum.data.points import PointCloud
    from practicum.stats.procrustes_wasserstein.distance import PWResult

app = typer.Typer(
    no_args_is_help=True,
    help="Compare and average point clouds up to rotation and reflection.",
)

NO_TURN = 1e-3  # radians
OPTIONS = {  # what the library says, and what a person types here
    "sample='vertices' (--vertices)": "--vertices",
    "use scale=False": "leave --scale out",
    "scale=True": "--scale",
    "group='SO'": "--group SO",
    "init='global'": "--init global",
    "init='auto' with effort=2": "--init auto --effort 2",
    "init='gw'": "--init gw",
    "weight_column": "--weights",
    "n_support=": "--support ",
}

Files = Annotated[list[Path], typer.Argument(help="Cloud or mesh files, or one folder of them.")]
Init = Annotated[
    Literal["auto", "global", "pca", "gw", "fiedler", "identity", "random"],
    typer.Option(help="Where the search starts; global certifies the optimum (1 to 3 dimensions)."),
]
Group = Annotated[
    Literal["O", "SO"], typer.Option(help="O allows reflections; SO keeps left and right apart.")
]
Points = Annotated[
    int | None,
    typer.Option(
        min=1, help="Points per cloud, at most.", show_default="all; 500 drawn from a mesh"
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
Vertices = Annotated[
    bool, typer.Option("--vertices", help="Take a mesh's vertices instead of its surface.")
]
Weights = Annotated[
    str | None, typer.Option(help="Column of a table that holds weights (name or number).")
]
Effort = Annotated[int, typer.Option(min=0, max=2, help="0 is quick; 2 looks hardest.")]
Plot = Annotated[Path | None, typer.Option(help="Write a figure to this HTML file.")]


@app.command()
def distance(
    first: Annotated[Path, typer.Argument(help="Cloud or mesh X.")],
    second: Annotated[Path, typer.Argument(help="Cloud or mesh Y: the one that is turned.")],
    init: Init = "auto",
    group: Group = "O",
    points: Points = None,
    seed: Seed = 0,
    effort: Effort = 0,
    scale: Annotated[
        bool, typer.Option("--scale", help="Divide both by their radius first.")
    ] = False,
    vertices: Vertices = False,
    weights: Weights = None,
    out: Annotated[
        Path | None, typer.Option(help="Write Y laid over X (.ply, .csv, .xyz, .npy).")
    ] = None,
    plot: Plot = None,
) -> None:
    """Distance, rotation and overlay of two shapes.

    Example: practicum use procrustes-wasserstein distance a.ply b.ply --init auto --group SO
    --points 500 --seed 0
    """
    from practicum.data.points import read_points
    from practicum.stats.procrustes_wasserstein import procrustes_wasserstein

    with _options_in_errors():
        x, y = (read_points(f, points, seed, weights, _sample(vertices)) for f in (first, second))
    _tell_notes([x, y])
    if x.points.shape[1] != y.points.shape[1]:
        raise InputError(
            f"{first} has {x.points.shape[1]} coordinates per point, "
            f"{second} has {y.points.shape[1]}",
            "compare clouds of the same dimension",
        )
    with _options_in_errors(), _warnings_as_sentences():
        result = procrustes_wasserstein(
            x, y, init=init, group=group, scale=scale, effort=effort, random_state=seed
        )
    for sentence in _report(result, first.name, second.name, group, scale):
        typer.echo(sentence)
    if out is not None:
        _write_cloud(out, result.transform(y.points), y.weights)
    if plot is not None:
        _write_plot(plot, _overlay(x, y, result), f"{second.name} over {first.name}")


@app.command()
def barycenter(
    files: Files,
    support: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Points of the mean shape.",
            show_default="those of the medoid",
        ),
    ] = None,
    init: Init = "auto",
    group: Group = "O",
    points: Points = None,
    seed: Seed = 0,
    scale: Annotated[
        bool, typer.Option("--scale", help="Divide every cloud by its radius first.")
    ] = False,
    vertices: Vertices = False,
    weights: Weights = None,
    out: Annotated[Path, typer.Option(help="The mean shape (.ply, .csv, .xyz, .npy).")] = Path(
        "barycenter.csv"
    ),
    plot: Plot = None,
) -> None:
    """Mean shape of several clouds, as a cloud in the pose of the first.

    Example: practicum use procrustes-wasserstein barycenter shapes/*.ply --support 256
    --out mean.ply --plot fit.html
    """
    from practicum.stats.procrustes_wasserstein import PWBarycenter

    clouds = _read(files, points, seed, weights, vertices)
    if scale:
        clouds = [_of_radius_one(cloud) for cloud in clouds]
    fitted = PWBarycenter(n_support=support, init=init, group=group, random_state=seed)
    with _options_in_errors(), _warnings_as_sentences():
        fitted.fit(clouds)
    rounds = f"{fitted.n_iter_} round{'s' if fitted.n_iter_ != 1 else ''}"
    typer.echo(
        f"Barycenter of {len(clouds)} clouds with {len(fitted.support_)} points, after {rounds} "
        f"from {clouds[fitted.medoid_].name}."
    )
    typer.echo(
        f"Mean squared distance to the inputs: {fitted.objective_[-1]:.6g} "
        f"({fitted.objective_[0]:.6g} at the start)."
    )
    far, near = int(fitted.distances_.argmax()), int(fitted.distances_.argmin())
    typer.echo(
        f"Nearest to it: {clouds[near].name}, {fitted.distances_[near]:.6g}; farthest: "
        f"{clouds[far].name}, {fitted.distances_[far]:.6g}."
    )
    if scale:
        typer.echo("Every cloud was divided by its radius: the mean shape is in these units.")
    _write_cloud(out, fitted.support_, None if _equal(fitted.weights_) else fitted.weights_)
    if plot is not None:
        _write_plot(plot, _fit(fitted, clouds), f"Barycenter of {len(clouds)} clouds")


@app.command()
def matrix(
    files: Files,
    init: Init = "auto",
    group: Group = "O",
    points: Points = None,
    seed: Seed = 0,
    effort: Effort = 0,
    scale: Annotated[
        bool, typer.Option("--scale", help="Divide every cloud by its radius first.")
    ] = False,
    vertices: Vertices = False,
    weights: Weights = None,
    jobs: Annotated[int, typer.Option(min=-1, max=1024, help="Processes; -1 for all cores.")] = 1,
    out: Annotated[Path, typer.Option(help="CSV file of the distances.")] = Path("distances.csv"),
) -> None:
    """All distances between the clouds of a folder, as a CSV table.

    Example: practicum use procrustes-wasserstein matrix shapes --out D.csv --jobs 2
    """
    import numpy as np

    from practicum.stats.procrustes_wasserstein import pw_pairwise

    if jobs == 0:
        raise InputError("--jobs is 0: nobody would do the work", "1 or more, or -1 for all cores")
    clouds = _read(files, points, seed, weights, vertices)
    with (
        _options_in_errors(),
        _warnings_as_sentences(),
        Progress("pairs of clouds") as progress,
    ):
        table = pw_pairwise(
            clouds,
            n_jobs=jobs,
            init=init,
            group=group,
            scale=scale,
            effort=effort,
            random_state=seed,
            progress=progress,
        )
    names = [f"{c.label}/{c.name}" if c.label else c.name for c in clouds]
    _write_table(out, names, table)
    apart = table + np.diag(np.full(len(table), np.inf))
    i, j = np.unravel_index(apart.argmin(), table.shape)
    typer.echo(f"{len(clouds)} clouds, {len(clouds) * (len(clouds) - 1) // 2} distances: {out}")
    typer.echo(f"Nearest: {names[i]} and {names[j]}, {table[i, j]:.6g}.")
    medoid = int((table**2).sum(axis=1).argmin())
    typer.echo(f"In the middle of all: {names[medoid]}.")


# --- reading -------------------------------------------------------------------------------------


def _sample(vertices: bool) -> str:
    return "vertices" if vertices else "surface"


def _read(
    files: list[Path], points: int | None, seed: int, weights: str | None, vertices: bool
) -> list[PointCloud]:
    from practicum.data.points import read_clouds
    from practicum.errors import InputError

    source = files[0] if len(files) == 1 and files[0].is_dir() else files
    with _options_in_errors():
        clouds = read_clouds(
            source,
            n_points=points,
            random_state=seed,
            weight_column=weights,
            sample=_sample(vertices),
        )
    if len(clouds) < 2:
        raise InputError(
            f"{files[0]}: one cloud, at least two are needed", "name several files, or a folder"
        )
    _tell_notes(clouds)
    return clouds


def _tell_notes(clouds: list[PointCloud]) -> None:
    notes = [cloud.note for cloud in clouds if cloud.note]
    for note in notes[:3]:
        typer.echo(f"{note}.")
    if len(notes) > 3:
        typer.echo(f"... and so on for {len(notes) - 3} more.")


def _of_radius_one(cloud: PointCloud) -> PointCloud:
    """What ``--scale`` does to each cloud of a distance, for a mean of them."""
    from dataclasses import replace

    from practicum.stats.procrustes_wasserstein.measures import as_measure

    radius = as_measure(cloud.points, cloud.weights, name=cloud.name).radius
    if radius == 0:
        raise InputError(
            f"{cloud.name} has radius 0 (all points equal), so --scale has nothing to scale",
            "leave --scale or this cloud out",
        )
    return replace(cloud, points=cloud.points / radius)


# --- telling -------------------------------------------------------------------------------------


def _report(result: PWResult, x: str, y: str, group: str, scaled: bool) -> Iterator[str]:
    unit = "root-mean-square radii" if scaled else "the unit of the coordinates"
    value = f"{result.distance:.6g} (squared {result.squared:.6g})"
    yield f"PW distance of {x} and {y}: {value}, in {unit}."
    yield f"{y} lies over {x} after {_turn(result)} and a shift by {_row(result.translation)}."
    if result.gap is not None:
        lowest = max(result.squared - result.gap, 0.0) ** 0.5
        yield f"Certified: no pose brings the distance below {lowest:.6g}."
    else:
        yield "Not certified: --init global bounds how much a better pose could gain."
    for note in result.notes:
        if not note.startswith("certified"):
            yield f"Note: {_as_option(note)}."
    if group == "O" and not result.reflected and len(result.P) == 3:
        yield "Reflections were allowed; if left and right differ, use --group SO."


def _turn(result: PWResult) -> str:
    """The orthogonal matrix in words."""
    import numpy as np
    from scipy.spatial.transform import Rotation

    P, d = result.P, len(result.P)
    mirrored = result.reflected
    if d == 1:
        return "a reflection" if mirrored else "no turn"
    if d == 2:
        if mirrored:
            axis = np.degrees(np.arctan2(P[0, 1], P[0, 0])) / 2
            return f"a reflection in the line at {axis % 180:.1f} degrees"
        return f"a turn by {np.degrees(np.arctan2(P[0, 1], P[0, 0])):.1f} degrees"
    if d == 3:
        vector = Rotation.from_matrix((-P if mirrored else P).T).as_rotvec()
        angle = float(np.linalg.norm(vector))
        words = "no turn"
        if angle > NO_TURN:
            words = f"a turn by {np.degrees(angle):.1f} degrees about {_row(vector / angle)}"
        return f"{words} and a reflection in the origin" if mirrored else words
    return f"an orthogonal map in {d} dimensions"


def _as_option(text: str) -> str:
    """What the library calls an argument is an option here."""
    for words, option in OPTIONS.items():
        text = text.replace(words, option)
    return text


@contextmanager
def _options_in_errors() -> Iterator[None]:
    """Messages and hints of the library, in the words of the command line."""
    from practicum.errors import PracticumError

    try:
        yield
    except PracticumError as error:
        hint = None if error.hint is None else _as_option(error.hint)
        raise type(error)(_as_option(error.message), hint) from error


def _row(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values.round(12) + 0.0) + ")"


def _equal(weights: np.ndarray) -> bool:
    return bool(weights.max() - weights.min() < 1e-12)


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning):
        typer.echo(f"Warning: {_as_option(text)}.", err=True)


# --- writing -------------------------------------------------------------------------------------


def _write_cloud(path: Path, points: np.ndarray, weights: np.ndarray | None) -> None:
    from practicum.data.points import write_points
    from practicum.study.report import write_atomically

    typer.echo(f"Written: {write_atomically(path, lambda p: write_points(p, points, weights))}")


def _write_table(path: Path, names: list[str], table: np.ndarray) -> None:
    import pandas as pd

    from practicum.study.report import write_atomically

    frame = pd.DataFrame(table, index=names, columns=names)
    write_atomically(path, lambda p: frame.to_csv(p, float_format="%.8g", index_label="cloud"))


def _overlay(x: PointCloud, y: PointCloud, result: PWResult) -> Any:
    from practicum.stats.procrustes_wasserstein.figures import overlay
    from practicum.study.plots import style

    plan = result.plan.tocoo()
    figure = overlay(
        x.points, y.points, result.transform(y.points), (plan.row, plan.col), (x.name, y.name)
    )
    return style(
        figure, "Left, as they came; right, after alignment. Segments join matched points."
    )


def _fit(fitted: Any, clouds: list[PointCloud]) -> Any:
    from practicum.stats.procrustes_wasserstein.figures import barycenter_overlay
    from practicum.study.plots import style

    figure = barycenter_overlay(fitted.support_, fitted.transform(clouds))
    return style(figure, "The barycenter over the aligned inputs, centred.")


def _write_plot(path: Path, figure: Any, title: str) -> None:
    from practicum.study.report import write_figures

    typer.echo(f"Written: {write_figures({title: figure}, path, title)}")
