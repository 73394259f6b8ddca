"""``practicum use model-collapse``: run the generations, or price synthetic items, on a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="What happens to a generative model trained on what its ancestors wrote.",
)

Data = Annotated[
    Path, typer.Argument(help="A table (CSV, TSV, Parquet, NPY, NPZ, JSONL) or UTF-8 text.")
]
Model = Annotated[
    Literal["auto", "kde", "gaussian", "mixture", "ngram"],
    typer.Option(help="kde, gaussian or mixture for a table, ngram for text."),
]
Bandwidth = Annotated[
    float | None,
    typer.Option(help="Of the KDE, in standard deviations.", show_default="Scott's rule"),
]
Columns = Annotated[
    str | None, typer.Option(help="Columns, comma-separated.", show_default="all numeric")
]
Field = Annotated[str, typer.Option(help="Field of JSON lines that holds the text.")]
Items = Annotated[
    int | None,
    typer.Option(min=8, help="Use at most so many.", show_default="1000 rows, 200 documents"),
]
Seeds = Annotated[int, typer.Option(min=1, help="Independent runs.")]


@app.command()
def run(
    data: Data,
    model: Model = "auto",
    workflow: Annotated[
        Literal["all", "replace", "accumulate", "accumulate-subsample", "accumulate-synthetic"],
        typer.Option(help="What each generation is trained on; all: the first three."),
    ] = "all",
    generations: Annotated[int, typer.Option(min=1, help="Number of fits.")] = 20,
    seeds: Seeds = 10,
    bandwidth: Bandwidth = None,
    columns: Columns = None,
    field: Field = "text",
    items: Items = None,
    real_fraction: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of real items in every training set (not for accumulate)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="JSON file; a figure is written beside it.")] = Path(
        "model-collapse.json"
    ),
) -> None:
    """Run the generations and say whether the model collapses.

    Example: practicum use model-collapse run data.csv --model kde --bandwidth 0.3
    --workflow all --generations 30 --seeds 20 --out run.json
    """
    from practicum.generative.model_collapse.files import load_items, model_for
    from practicum.generative.model_collapse.generations import run_generations
    from practicum.study.report import write_atomically, write_figures

    with _notes():
        loaded = load_items(data, _names(columns), field, items)
        result = run_generations(
            loaded,
            model_for(loaded, model, bandwidth, data.name),
            workflow,
            generations,
            seeds=range(seeds),
            real_fraction=real_fraction,
        )
    written = write_atomically(out, lambda p: p.write_text(result.to_json(), encoding="utf-8"))
    figures = {"Loss over the generations": result.plot()}
    page = write_figures(figures, out.with_suffix(".html"), f"Model collapse on {data.name}")
    for verdict in result.verdict().values():
        typer.echo(verdict.sentence)
    typer.echo(f"Written: {written}, {page}")


@app.command()
def value(
    data: Data,
    real: Annotated[str, typer.Option(help="Numbers of real items, comma-separated.")] = "10,50",
    synth: Annotated[str, typer.Option(help="Numbers of synthetic items.")] = "0,50,200",
    model: Model = "auto",
    seeds: Seeds = 10,
    bandwidth: Bandwidth = None,
    columns: Columns = None,
    field: Field = "text",
    items: Items = None,
    out: Annotated[Path, typer.Option(help="JSON file; a figure is written beside it.")] = Path(
        "synthetic-value.json"
    ),
) -> None:
    """Say what synthetic items are worth beside so many real ones.

    Example: practicum use model-collapse value data.csv --real 50,100 --synth 0,200,1000
    """
    import json

    from practicum.generative.model_collapse.figures import value_map
    from practicum.generative.model_collapse.files import load_items, model_for
    from practicum.generative.model_collapse.value import synthetic_gain, value_of_synthetic
    from practicum.study.report import write_atomically, write_figures

    sizes = sorted({0, *_numbers(synth, "--synth")})
    with _notes():
        loaded = load_items(data, _names(columns), field, items)
        chosen = model_for(loaded, model, bandwidth, data.name)
        frame = value_of_synthetic(
            loaded, chosen, _numbers(real, "--real"), sizes, seeds=range(seeds)
        )
    gain = synthetic_gain(frame)
    text = json.dumps(
        {"losses": frame.to_dict("records"), "gain": gain.to_dict("records")}, indent=1
    )
    written = write_atomically(out, lambda p: p.write_text(text, encoding="utf-8"))
    figures = {"What synthetic items are worth": value_map(gain)}
    page = write_figures(figures, out.with_suffix(".html"), f"Synthetic items beside {data.name}")
    for row in gain.loc[gain.groupby("R")["gain"].idxmax()].itertuples():
        typer.echo(row.sentence)
    typer.echo(f"Written: {written}, {page}")


@contextmanager
def _notes() -> Iterator[None]:
    """Warnings as one plain line each, said once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(w.message) for w in caught):
        typer.echo(f"note: {message}", err=True)


def _names(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None


def _numbers(text: str, option: str) -> list[int]:
    from practicum.errors import InputError

    try:
        return sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise InputError(f"{option} {text!r}: expected whole numbers, comma-separated") from None
