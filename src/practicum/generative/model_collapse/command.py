"""``practicum use model-collapse``: run the generations, or price synthetic items, on a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.study.command import Progress, notes

if TYPE_CHECKING:
    import pandas as pd

    from practicum.generative.model_collapse.models import GenerativeModel

MOST_ITEMS = 10_000_000
SAME_SPREAD = 0.05  # a change of a standard deviation that is not worth a sentence

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
    from practicum.errors import InputError
    from practicum.generative.model_collapse.files import load_items, model_for
    from practicum.generative.model_collapse.generations import run_generations
    from practicum.generative.model_collapse.workflows import WORKFLOWS
    from practicum.study.report import write_atomically, write_figures

    _refuse_page(out)
    if real_fraction is not None and workflow in ("all", "accumulate", "accumulate-synthetic"):
        raise InputError(
            f"--real-fraction does not apply to --workflow {workflow}: what accumulates has a "
            "share of its own",
            "use --workflow replace or --workflow accumulate-subsample",
        )
    spread = _Spread(generations)
    with notes(err=True):
        loaded = load_items(data, _names(columns), field, items)
        chosen = model_for(loaded, model, bandwidth, data.name)
        _say_what(data, _names(columns), loaded, model, chosen)
        fits = seeds * generations * (len(WORKFLOWS) if workflow == "all" else 1)
        with Progress("fits", fits) as progress:

            def note(name: str, seed: int, generation: int, train: Any) -> None:
                progress()
                if not isinstance(loaded, list):
                    spread.note(name, seed, generation, train)

            result = run_generations(
                loaded,
                chosen,
                workflow,
                generations,
                seeds=range(seeds),
                real_fraction=real_fraction,
                callback=note,
            )
    written = write_atomically(out, lambda p: p.write_text(result.to_json(), encoding="utf-8"))
    figures = {"Loss over the generations": result.plot()}
    page = write_figures(figures, out.with_suffix(".html"), f"Model collapse on {data.name}")
    for verdict in result.verdict().values():
        typer.echo(verdict.sentence)
    for sentence in spread.sentences(result.verdict(), chosen):
        typer.echo(sentence)
    typer.echo(f"Written: {written}, {page}")


@app.command()
def value(
    data: Data,
    real: Annotated[str, typer.Option(help="Numbers of real items, comma-separated.")] = "10,50",
    synth: Annotated[str, typer.Option(help="Numbers of synthetic items.")] = "0,50,200",
    generator: Annotated[
        Literal["largest", "own"],
        typer.Option(
            help="Who writes: a generator fitted on the largest --real, as in the paper, or for "
            "each number on its own real items, as when you make them yourself."
        ),
    ] = "largest",
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

    from practicum.errors import InputError
    from practicum.generative.model_collapse.figures import value_map
    from practicum.generative.model_collapse.files import load_items, model_for
    from practicum.generative.model_collapse.results import plain_numbers
    from practicum.generative.model_collapse.value import synthetic_gain
    from practicum.study.report import write_atomically, write_figures

    _refuse_page(out)
    reals, synths = _numbers(real, "--real", least=1), _numbers(synth, "--synth", least=0)
    if not reals:
        raise InputError("--real holds no number", "e.g. 10,50")
    if set(synths) <= {0}:
        raise InputError(f"--synth {synth!r}: no synthetic items to price", "e.g. 0,50,200")
    with notes(err=True):
        loaded = load_items(data, _names(columns), field, items)
        chosen = model_for(loaded, model, bandwidth, data.name)
        _say_what(data, _names(columns), loaded, model, chosen)
        frame = _priced(loaded, chosen, reals, [0, *synths], range(seeds), generator)
    gain = synthetic_gain(frame)
    sizes = sorted(set(frame["R"].tolist()))
    fitted = {R: R if generator == "own" else sizes[-1] for R in sizes}
    content = {
        "generator": [{"R": R, "fitted_on": n} for R, n in fitted.items()],
        "losses": frame.to_dict("records"),
        "gain": gain.to_dict("records"),
    }
    text = json.dumps(plain_numbers(content), indent=1, allow_nan=False)
    written = write_atomically(out, lambda p: p.write_text(text, encoding="utf-8"))
    figures = {"What synthetic items are worth": value_map(gain)}
    page = write_figures(figures, out.with_suffix(".html"), f"Synthetic items beside {data.name}")
    typer.echo(_who_wrote(fitted))
    for row in gain.loc[gain.groupby("R")["gain"].idxmax()].itertuples():
        typer.echo(row.sentence)
    typer.echo(f"Written: {written}, {page}")


# --- synthetic items -----------------------------------------------------------------------------


def _priced(
    items: Any, model: Any, real: list[int], synth: list[int], seeds: range, generator: str
) -> pd.DataFrame:
    """Losses for every R and F, by one generator or by one for each R."""
    import pandas as pd

    from practicum.errors import InputError
    from practicum.generative.model_collapse.items import items_per_generation
    from practicum.generative.model_collapse.value import value_of_synthetic

    most = items_per_generation(None, items, None, test_size=0.25)
    if real[-1] > most:
        raise InputError(
            f"--real {real[-1]:,}: of the {len(items):,} real items {most:,} are left for training,"
            " the others are held out to measure the loss",
            "use a smaller number, or more items (--items, where the file holds more)",
        )
    if generator == "largest":
        return value_of_synthetic(items, model, real, synth, seeds=seeds)
    # the split of a seed does not depend on R: the frames are paired and can be stacked
    parts = [value_of_synthetic(items, model, [R], synth, seeds=seeds) for R in real]
    return pd.concat(parts, ignore_index=True)


def _who_wrote(fitted: dict[int, int]) -> str:
    most = max(fitted.values())
    if all(n == R for R, n in fitted.items()):
        return "Each generator was fitted on the same real items as its learner."
    fewer = ", ".join(f"{R:,}" for R, n in fitted.items() if n > R)
    return (
        f"The generator was fitted on {most:,} real items, the largest --real, as in the paper: "
        f"beside {fewer} its items carry what it knows of real ones the learner never saw. "
        "--generator own fits it on the learner's own."
    )


# --- telling -------------------------------------------------------------------------------------


def _say_what(
    data: Path, columns: list[str] | None, items: Any, asked: str, model: GenerativeModel
) -> None:
    """What was read, which model was taken, what its loss is."""
    from practicum.data.table import read_table
    from practicum.errors import listed

    if isinstance(items, list):
        length = sum(map(len, items)) / len(items)
        typer.echo(f"Read: {len(items):,} documents of {length:,.0f} characters of {data.name}.")
    else:
        frame = read_table(data, columns)  # the names, which items no longer hold
        names = frame.columns[frame.nunique() > 1]
        drawn = "" if len(items) == len(frame) else f" of {len(frame):,}"
        typer.echo(
            f"Read: {len(items):,}{drawn} rows of {data.name}, {len(names)} "
            f"{'column' if len(names) == 1 else 'columns'} ({listed(names)}), each standardised to "
            "mean 0 and standard deviation 1."
        )
    of = "density of a held-out real row"
    if isinstance(items, list):
        of = "probability of a character of held-out real documents"
    typer.echo(
        f"Model: {_model_words(model)}{', by auto' if asked == 'auto' else ''}. Its loss is minus "
        f"the log {of}, in nats: lower is better."
    )


def _model_words(model: Any) -> str:
    kind = type(model).__name__
    if kind == "KDEModel":
        return f"kde, a kernel density estimate of bandwidth {model.bandwidth:.3g}"
    if kind == "NGramLM":
        return f"ngram, a character model of order {model.order}"
    return {"GaussianModel": "gaussian, one mean and covariance"}.get(
        kind, "mixture, a few Gaussians"
    )


class _Spread:
    """Standard deviations of what each generation is trained on, from first to last.

    A loss that rises does not say how: a Gaussian draws together, a KDE spreads.
    """

    def __init__(self, generations: int) -> None:
        self.ends = (1, generations)
        self.seen: dict[tuple[str, int], list[float]] = {}

    def note(self, workflow: str, seed: int, generation: int, items: Any) -> None:
        if generation in self.ends:
            self.seen.setdefault((workflow, generation), []).append(items.std(axis=0).mean())

    def sentences(self, verdicts: Mapping[str, Any], model: Any) -> Iterator[str]:
        first, last = self.ends
        if not self.seen or first == last:
            return
        spread = {w: sum(self.seen[w, last]) / sum(self.seen[w, first]) for w in verdicts}
        values = ", ".join(f"{w} {s:.3g}" for w, s in spread.items())
        yield f"Spread of the rows generation {last} learns from, real rows having 1: {values}."
        rising = [w for w, verdict in verdicts.items() if verdict.low > 0]
        if wider := [w for w in rising if spread[w] > 1 + SAME_SPREAD]:
            why = ""
            if type(model).__name__ == "KDEModel":
                why = ": each generation of a KDE adds the width of its kernel"
            yield f"There the loss rises as the rows spread out ({', '.join(wider)}){why}."
        if closer := [w for w in rising if spread[w] < 1 - SAME_SPREAD]:
            yield f"There the loss rises as the rows draw together ({', '.join(closer)})."


# --- small things --------------------------------------------------------------------------------


def _refuse_page(out: Path) -> None:
    """The figure, written beside, would take the place of the numbers."""
    from practicum.errors import InputError

    if out.suffix.lower() == ".html":
        raise InputError(
            f"--out {out} would hold the figure and the numbers",
            "name a .json; the figure is beside it",
        )


def _names(text: str | None) -> list[str] | None:
    if not text:
        return None
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _numbers(text: str, option: str, least: int) -> list[int]:
    from practicum.errors import InputError

    try:
        found = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise InputError(f"{option} {text!r}: expected whole numbers, comma-separated") from None
    if found and not (least <= found[0] and found[-1] <= MOST_ITEMS):
        raise InputError(f"{option} {text!r}: expected numbers from {least} to {MOST_ITEMS:,}")
    return found
