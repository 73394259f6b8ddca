"""``practicum use discrete-markov``: fit a binary table, draw from the model, fill in holes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from practicum.study.command import Progress, notes

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from practicum.generative.discrete_markov.dmpm import DMPM

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Learn a binary table: draw new rows, fill in missing bits, rate rows.",
)

Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, NPY, NPZ or JSONL of bits.")]
Model = Annotated[Path, typer.Argument(help="What fit wrote.")]
Calls = Annotated[int, typer.Option("--nfe", min=1, help="Calls of the network.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]


@app.command()
def fit(
    table: Table,
    out: Annotated[Path, typer.Option(help="The model (safetensors).")] = Path("model.safetensors"),
    cut: Annotated[
        bool,
        typer.Option(
            "--cut",
            help="Turn columns of more levels into yes/no questions: numbers above the median, "
            "one question a level for words.",
        ),
    ] = False,
    steps: Annotated[int, typer.Option(min=1, help="Of training.")] = 4000,
    hidden: Annotated[int, typer.Option(min=1, help="Width of the network.")] = 128,
    layers: Annotated[int, typer.Option(min=1, help="Hidden layers.")] = 3,
    holdout: Annotated[float, typer.Option(help="Share of rows kept to rate the model.")] = 0.1,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train a model and say how well it knows rows it has not seen.

    Example: practicum use discrete-markov fit votes.csv --steps 4000 --out votes.safetensors
    """
    import numpy as np

    from practicum.errors import InputError
    from practicum.generative.discrete_markov.bits import BitTable, cut_table
    from practicum.generative.discrete_markov.dmpm import DMPM

    if not 0 <= holdout < 1:
        raise InputError(f"--holdout {holdout}: a share in [0, 1)")
    if out.is_dir():
        raise InputError(f"--out {out} is a folder", "name a file in it")
    out.parent.mkdir(parents=True, exist_ok=True)  # before the training, not after it
    with notes():
        frame = _read(table)
        if frame.isna().to_numpy().any():
            raise InputError(
                f"{table} has {int(frame.isna().any(axis=1).sum())} rows with empty cells",
                "fit complete rows, then fill the others with: impute",
            )
        frame = cut_table(frame) if cut else frame
        levels = BitTable.of(frame, table.name)
        bits = levels.encode(frame) == 1
        order = np.random.default_rng(seed).permutation(len(bits))
        kept = int(holdout * len(bits))
        train, test = bits[order[kept:]], bits[order[:kept]]
        if len(train) < 2:
            raise InputError(f"{table}: {len(train)} rows are left to learn from")
        model = DMPM(hidden=hidden, layers=layers, steps=steps, random_state=seed, device=device)
        with Progress("steps", steps) as progress:
            model.fit(train, progress=lambda i, loss: progress(i + 1, note=f"loss {loss:.3f}"))
        model.table_ = levels
        model.save(out)
    typer.echo(f"{table.name}: {len(train)} rows of {bits.shape[1]} bits learned in {steps} steps.")
    if kept < 5:
        typer.echo(f"Too few rows ({kept} held out) to say how good the model is.")
    else:
        for sentence in _rated(model, train, test, seed):
            typer.echo(sentence)
    typer.echo(f"Model: {out}")


@app.command()
def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", min=1, help="Rows.")] = 1000,
    nfe: Calls = 32,
    sampler: Annotated[
        Literal["bridge", "frozen", "renoise", "euler"], typer.Option(help="How a step is taken.")
    ] = "bridge",
    out: Annotated[Path, typer.Option(help="CSV of the rows.")] = Path("samples.csv"),
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Draw rows, in the columns and levels of the table that was fitted.

    Example: practicum use discrete-markov sample votes.safetensors -n 1000 --nfe 16 --out s.csv
    """
    from practicum.study.report import write_atomically

    fitted = _load(model, device)
    frame = fitted.sample_frame(n, steps=nfe, sampler=sampler, random_state=seed)
    written = write_atomically(out, lambda p: frame.to_csv(p, index=False))
    typer.echo(f"{n} rows, {nfe} calls of the network ({sampler} steps): {written}")


@app.command()
def impute(
    model: Model,
    table: Table,
    draws: Annotated[int, typer.Option(min=1, help="Fillings of each row.")] = 20,
    nfe: Calls = 32,
    rounds: Annotated[
        int, typer.Option(min=1, help="Repeats of each step: more, and bits agree better.")
    ] = 8,
    out: Annotated[Path, typer.Option(help="CSV, a row for each filling.")] = Path("imputed.csv"),
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Fill in the empty cells, several times over (multiple imputation).

    Example: practicum use discrete-markov impute votes.safetensors holes.csv --draws 20
    """
    import numpy as np
    import pandas as pd

    from practicum.study.report import write_atomically

    fitted = _load(model, device)
    frame = _read(table)
    known = _encode(fitted, frame, table)
    holes = np.isnan(known)
    if not holes.any():
        typer.echo(f"{table.name} has no empty cells.")
        return
    filled = fitted.impute(known, draws, nfe, rounds, random_state=seed)
    parts = []
    for k, bits in enumerate(filled, start=1):
        part = fitted.table_.decode(bits)
        part.insert(0, "row", np.arange(1, len(part) + 1))
        part.insert(0, "draw", k)
        parts.append(part)
    every = pd.concat(parts, ignore_index=True)
    written = write_atomically(out, lambda p: every.to_csv(p, index=False))
    share = filled.mean(axis=0)[holes]
    sure = float(np.mean((share < 0.1) | (share > 0.9)))
    typer.echo(
        f"{int(holes.sum())} empty cells in {int(holes.any(axis=1).sum())} of {len(frame)} rows, "
        f"{draws} fillings each; in {100 * sure:.0f} % of the cells at least 9 of 10 agree."
    )
    typer.echo(f"Conditioning on the known cells is approximate ({rounds} rounds a step).")
    typer.echo(f"Fillings: {written}")


@app.command()
def rate(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="CSV of the bounds.")] = Path("rated.csv"),
    device: Device = "auto",
) -> None:
    """Bound each row's log-likelihood from below: the least likely rows are odd ones.

    Example: practicum use discrete-markov rate votes.safetensors new.csv
    """
    from practicum.study.report import write_atomically

    fitted = _load(model, device)
    frame = _read(table)
    bounds = fitted.log_likelihood_bound(_encode(fitted, frame, table))
    rated = frame.assign(log_likelihood_bound=bounds)
    written = write_atomically(out, lambda p: rated.to_csv(p, index=False))
    odd = ", ".join(str(i + 1) for i in bounds.argsort(kind="stable")[:5])
    typer.echo(f"Mean {bounds.mean():.2f} nats a row; the least likely rows are {odd}.")
    typer.echo(f"Bounds: {written}")


def _rated(model: DMPM, train: np.ndarray, test: np.ndarray, seed: int) -> Iterator[str]:
    """What the model knows of rows it has not seen, beside models fitted in seconds."""
    import numpy as np

    from practicum.generative.discrete_markov.baselines import (
        BernoulliMixture,
        ChowLiuTree,
        IndependentBits,
    )

    plain = IndependentBits().fit(train)
    mixture = BernoulliMixture(rng=np.random.default_rng(seed)).fit(train)
    rows = {
        f"a mixture of {mixture.n_components_} types": mixture.log_likelihood(test),
        "a Chow-Liu tree": ChowLiuTree().fit(train).log_likelihood(test),
    }
    ours, marginal = model.log_likelihood_bound(test), plain.log_likelihood(test)
    shown = "; ".join(f"{name} {values.mean():.2f}" for name, values in rows.items())
    yield (
        f"Log-likelihood of {len(test)} rows held out, in nats a row: at least {ours.mean():.2f}; "
        f"{shown}; independent bits {marginal.mean():.2f}."
    )
    low, high = _interval(ours - marginal)
    ahead = f"{(ours - marginal).mean():+.2f} [{low:+.2f}, {high:+.2f}] nats a row"
    best = max(rows, key=lambda name: rows[name].mean())
    if low <= 0:
        known = train[: 20 * len(test)]
        gained = model.log_likelihood_bound(known) - plain.log_likelihood(known)
        by_heart = gained.mean() > max(high, 0)
        sure = "knows less than" if high < 0 else "is not surely ahead of"
        yield f"The model {sure} the marginals ({ahead}): " + (
            f"it has learned its own rows by heart ({gained.mean():+.2f} on those). Fewer --steps, "
            "a smaller --hidden, or more rows."
            if by_heart
            else "more --steps, or more rows."
        )
    elif _interval(ours - rows[best])[0] <= 0:
        yield (
            f"Ahead of independent bits by {ahead}, not surely ahead of {best}: that may be all "
            "you need (ours is a lower bound)."
        )
    else:
        yield f"Ahead of independent bits by {ahead}, and ahead of {best}."


def _interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % for the mean over rows, Student's t."""
    import numpy as np
    from scipy.special import stdtrit

    n = len(differences)
    half = stdtrit(n - 1, 0.975) * differences.std(ddof=1) / np.sqrt(n)
    return float(differences.mean() - half), float(differences.mean() + half)


def _read(path: Path) -> pd.DataFrame:
    from practicum.data.table import read_table

    return read_table(path, numeric=False, missing="keep")


def _encode(fitted: DMPM, frame: pd.DataFrame, table: Path) -> np.ndarray:
    """The table as the model's bits; questions of --cut are asked again."""
    from practicum.errors import InputError
    from practicum.generative.discrete_markov.bits import ask

    if fitted.table_ is None:
        raise InputError("the model was fitted to an array", "use DMPM.load(...) in Python")
    try:
        return fitted.table_.encode(ask(frame, fitted.table_.names))
    except InputError as error:
        hint = error.hint or "the model takes the columns and levels it was fitted to"
        raise InputError(f"{table.name}: {error.message}", hint) from error


def _load(path: Path, device: str) -> DMPM:
    from practicum.errors import InputError
    from practicum.generative.discrete_markov.dmpm import DMPM

    place = _device(device)
    try:
        return DMPM.load(path, place)
    except InputError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # what a byte that has changed makes of the settings or of the network's shapes
        raise InputError(f"{path} is damaged ({error})", "fit the model again") from error


def _device(name: str) -> str:
    from practicum.models.training import resolve_device

    return str(resolve_device(name))
