"""``practicum use auction-bne``: solve an auction, compare methods, read values off bids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.errors import InputError
from practicum.study.command import notes

if TYPE_CHECKING:
    import pandas as pd

    from practicum.games.auction_bne.auction import AuctionBNE
    from practicum.games.auction_bne.game import Game

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Equilibrium bids of sealed-bid auctions, and what a deviation could still gain.",
)

MOST_BIDDERS = 1_000_000

Values = Annotated[
    str | None,
    typer.Argument(
        help="Table of values (CSV, Parquet, ...), FILE or FILE:COLUMN; or give --prior."
    ),
]
Format = Annotated[
    Literal["first-price", "second-price", "all-pay"],
    typer.Option("--format", help="Who pays what: the winner her bid, the second bid; all theirs."),
]
Bidders = Annotated[
    str, typer.Option(help="How many bid; with several types one number each: 2,3.")
]
PriorText = Annotated[
    str | None,
    typer.Option(
        help="uniform:LO,HI, beta:A,B[,LO,HI], normal:MU,SD,LO,HI or lognormal:MU,SIGMA,HI; "
        "several types separated by a semicolon."
    ),
]
Column = Annotated[
    str | None, typer.Option(help="Column of values.", show_default="the first numeric one")
]
Group = Annotated[str | None, typer.Option(help="Column that says which type a row belongs to.")]
Risk = Annotated[float, typer.Option(help="Exponent of utility, in (0, 1]; 1 is risk neutral.")]
Reserve = Annotated[float, typer.Option(help="Lowest bid that is accepted, in currency units.")]
Method = Annotated[
    Literal["auto", "closed_form", "abr", "utility_gradient", "smooth_market", "ode", "fictitious"],
    typer.Option(help="auto: the formula where there is one, else learned."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Of learned methods.", show_default="2000")]


@app.command()
def solve(
    values: Values = None,
    format: Format = "first-price",
    bidders: Bidders = "2",
    prior: PriorText = None,
    column: Column = None,
    group: Group = None,
    risk_aversion: Risk = 1.0,
    reserve: Reserve = 0.0,
    method: Method = "auto",
    steps: Steps = None,
    seed: Seed = 0,
    rows: Annotated[int, typer.Option(min=2, help="Rows of the printed table.")] = 11,
    out: Annotated[Path, typer.Option(help="CSV of the bids; a figure is written beside it.")] = (
        Path("equilibrium.csv")
    ),
) -> None:
    """Bids for every value, what they gain, and what a deviation could still gain.

    Example: practicum use auction-bne solve values.csv --format first-price --bidders 8
    """
    from practicum.study.report import write_atomically

    if out.suffix.lower() == ".html":
        raise InputError(
            f"--out {out} would hold the figure and the table", "name a .csv; the figure is beside"
        )
    auction, names = _auction(
        values, prior, column, group, bidders, format, risk_aversion, reserve, method, steps, seed
    )
    auction.fit()
    typer.echo(_what(auction, names, format))
    typer.echo(auction.note_)
    for i, name in enumerate(names):
        if len(names) > 1:
            typer.echo(f"\n{name}:")
        typer.echo(_readable(auction.table(rows, i)))
    typer.echo("\n" + "\n".join(_certificate(auction, names)))
    typer.echo(_revenue(auction))
    if said := _best_reserve(auction.game):
        typer.echo(said)
    table = _tables(auction, names, 101)
    written = write_atomically(out, lambda p: table.to_csv(p, index=False))
    page = _figure(auction, names, out.with_suffix(".html"), format)
    typer.echo(f"Written: {written}, {page}")


@app.command()
def values(
    bids: Annotated[str, typer.Argument(help="Table of bids, FILE or FILE:COLUMN.")],
    bidders: Annotated[
        int | None, typer.Option(help="Bidders per auction; needed.", show_default="none")
    ] = None,
    column: Column = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Currency units.", show_default="Silverman's rule")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV: bid and estimated value.")] = (
        Path("estimated-values.csv")
    ),
) -> None:
    """The private values behind recorded first-price bids (Guerre, Perrigne and Vuong 2000).

    Example: practicum use auction-bne values bids.csv --bidders 4
    """
    import numpy as np
    import pandas as pd

    from practicum.games.auction_bne.files import read_samples, split_column
    from practicum.games.auction_bne.structural import estimate_values
    from practicum.study.report import write_atomically

    if bidders is None:
        raise InputError(
            "--bidders is missing: how many bid in each auction?",
            "a bid says little about the value without the number of rivals: --bidders 4",
        )
    with notes(err=True):
        amounts = read_samples(bids, column)[""]
    path, _ = split_column(bids, column)
    try:
        found = estimate_values(amounts, bidders, bandwidth)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from None
    frame = pd.DataFrame({"bid": amounts, "value": found})
    written = write_atomically(out, lambda p: frame.to_csv(p, index=False))
    shade = 1 - np.median(amounts / np.maximum(found, 1e-300))
    typer.echo(
        f"{len(frame)} bids of auctions with {bidders} bidders. Median bid "
        f"{np.median(amounts):.4g}, median estimated value {np.median(found):.4g}: bidders shade "
        f"by {100 * shade:.3g} %."
    )
    typer.echo(
        "Assumes first price, one prior for all, risk neutrality, and bidders who play the "
        "equilibrium; the highest values are the least certain."
    )
    typer.echo(f"Written: {written}")
    typer.echo(f"Next: practicum use auction-bne solve {out}:value --bidders {bidders}")


@app.command()
def compare(
    values: Values = None,
    format: Format = "first-price",
    bidders: Annotated[str, typer.Option(help="Numbers of bidders.")] = "2,5,10",
    methods: Annotated[str, typer.Option(help="Methods, comma-separated.")] = (
        "closed_form,abr,utility_gradient,fictitious"
    ),
    prior: PriorText = None,
    column: Column = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of learned methods.")] = 3,
    steps: Steps = None,
    out: Annotated[Path, typer.Option(help="CSV file.")] = Path("methods.csv"),
) -> None:
    """Several methods on the same auction: error, what is left to gain, seconds.

    Example: practicum use auction-bne compare --prior uniform:0,1 --bidders 2,10
    --methods closed_form,abr,utility_gradient --seeds 3
    """
    import time

    import pandas as pd

    from practicum.study.report import write_atomically

    counts = _counts(bidders)
    rows = []
    for n in counts:
        for method in [m.strip() for m in methods.split(",") if m.strip()]:
            for seed in range(seeds if method in ("abr", "utility_gradient") else 1):
                auction, _ = _auction(
                    values, prior, column, None, str(n), format, 1.0, 0.0, method, steps, seed
                )
                start = time.perf_counter()
                auction.fit()
                seconds = time.perf_counter() - start
                gain = auction.exploitability()["ex_ante"].max()
                rows.append(
                    {
                        "format": format,
                        "n": n,
                        "method": method,
                        "seed": seed,
                        "l2": auction.distance_,
                        "exploitability": gain,
                        "seconds": seconds,
                    }
                )
    frame = pd.DataFrame(rows)
    shown = frame.groupby(["n", "method"], sort=False)[["l2", "exploitability", "seconds"]].mean()
    typer.echo(shown.to_string(float_format=lambda x: f"{x:.3g}"))
    typer.echo("l2 and exploitability in the units of the values; means over seeds.")
    written = write_atomically(out, lambda p: frame.to_csv(p, index=False))
    typer.echo(f"Written: {written}")


# --- what the commands share ---------------------------------------------------------------------


def _auction(
    values: str | None,
    prior: str | None,
    column: str | None,
    group: str | None,
    bidders: str,
    format: str,
    risk_aversion: float,
    reserve: float,
    method: str,
    steps: int | None,
    seed: int,
) -> tuple[AuctionBNE, list[str]]:
    from practicum.games.auction_bne.auction import AuctionBNE
    from practicum.games.auction_bne.files import prior_from_file, read_samples, split_column

    if (values is None) == (prior is None):
        raise InputError(
            "one source of values expected: a table, or --prior",
            "e.g. solve values.csv --bidders 8, or solve --prior uniform:0,100 --bidders 8",
        )
    with notes(err=True):
        if prior is not None:
            priors: list[Any] = [text.strip() for text in prior.split(";") if text.strip()]
            names = priors if len(priors) > 1 else [prior]
        else:
            found = read_samples(values, column, group)
            path, _ = split_column(values, column)
            priors = [prior_from_file(path, x, label) for label, x in found.items()]
            names = [label or str(path) for label in found]
        counts = _counts(bidders)
        return (
            AuctionBNE(
                format,
                priors,
                counts if len(counts) > 1 else counts[0],
                risk_aversion,
                reserve,
                method,
                random_state=seed,
                **({} if steps is None else {"steps": steps}),
            ),
            names,
        )


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        counts = []
    if not counts:
        raise InputError(f"--bidders {text!r}: whole numbers expected", "e.g. 8, or 2,3")
    if max(counts) > MOST_BIDDERS:
        raise InputError(f"--bidders {text!r}: at most {MOST_BIDDERS:,}")
    return counts


def _what(auction: AuctionBNE, names: list[str], format: str) -> str:
    game = auction.game
    who = "; ".join(
        f"{count} with values from {name} ({prior!r})"
        for name, prior, count in zip(names, game.priors, game.counts, strict=True)
    )
    extras = [f"risk aversion {game.risk_aversion:g}"] if game.risk_aversion < 1 else []
    extras += [f"reserve {game.reserve:g}"] if game.reserve else []
    more = f", {', '.join(extras)}" if extras else ""
    return f"{format.capitalize()} auction{more}; {game.n_bidders} bidders: {who}."


def _readable(table: pd.DataFrame) -> str:
    shown = table.rename(
        columns={
            "shading_percent": "shading %",
            "win_probability": "wins",
            "expected_gain": "expected gain",
        }
    ).map(lambda x: f"{x + 0.0:.4g}")
    return shown.replace({"bid": {"nan": "no bid"}, "shading %": {"nan": "-"}}).to_string(
        index=False
    )


def _certificate(auction: AuctionBNE, names: list[str]) -> list[str]:
    lines = []
    for name, row in zip(names, auction.exploitability().itertuples(), strict=True):
        who = f"{name}: the" if len(names) > 1 else "The"
        lines.append(
            f"{who} largest remaining gain from deviating is {row.interim:.3g} currency units (at "
            f"value {row.at_value:.4g}); no bid gains more than {row.certified:.3g} at any of 400 "
            f"values. On average {row.ex_ante:.3g}, {100 * row.relative:.2g} % of the expected "
            "gain."
        )
    if auction.game.risk_aversion < 1:
        lines.append("Gains of risk-averse bidders are differences of certainty equivalents.")
    return lines


def _revenue(auction: AuctionBNE) -> str:
    r = auction.revenue()
    sold = f", and is sold in {100 * r['sold']:.3g} % of auctions" if r["sold"] < 1 else ""
    return (
        f"The seller earns {r['revenue']:.4g} [{r['low']:.4g}, {r['high']:.4g}] on average; the "
        f"item goes to the highest value in {100 * r['efficiency']:.4g} % of the sales{sold}."
    )


def _best_reserve(game: Game) -> str:
    """What a seller would ask next, where revenue equivalence answers it."""
    from practicum.games.auction_bne.closed_forms import optimal_reserve

    truthful = game.mechanism == "second_price"
    neutral = game.mechanism == "first_price" and game.risk_aversion == 1
    if not (game.symmetric and (truthful or neutral)):
        return ""
    reserve, revenue = optimal_reserve(game.priors[0], game.n_bidders)
    if reserve <= game.priors[0].support[0]:
        return f"No reserve earns more than none: {revenue:.4g} on average."
    return f"The reserve that earns most is {reserve:.4g}: {revenue:.4g} on average."


def _tables(auction: AuctionBNE, names: list[str], rows: int) -> pd.DataFrame:
    import pandas as pd

    parts = [auction.table(rows, i) for i in range(len(names))]
    if len(names) > 1:
        for name, part in zip(names, parts, strict=True):
            part.insert(0, "type", name)
    return pd.concat(parts, ignore_index=True)


def _figure(auction: AuctionBNE, names: list[str], path: Path, format: str) -> Path:
    from practicum.study.plots import style
    from practicum.study.report import write_figures

    figure = style(
        auction.plot(names),
        "Bids over values: solid; the best response to the others, dotted, should lie on it; the "
        "closed form, dashed, where there is one. The thin line is bidding one's value.",
    )
    return write_figures({"Equilibrium bids": figure}, path, f"{format.capitalize()} auction")
