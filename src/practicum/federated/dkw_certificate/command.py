"""``practicum use dkw-certificate``: certificates for a person's own clients."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from practicum.data.risks import ClientRisks, read_curves, read_risks
from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import (
    DECIMALS,
    Losses,
    dkw_half_width,
    dkw_quantile,
    rounded_to,
)
from practicum.federated.dkw_certificate.certificate import Certificate, at_least, at_most, count
from practicum.federated.dkw_certificate.certification import (
    Divergence,
    Few,
    Method,
    affordable_shift,
    certify,
    dkw_band,
)
from practicum.federated.dkw_certificate.fleets import ModelName, image_fleet
from practicum.federated.dkw_certificate.robust_curves import RobustCurves
from practicum.federated.dkw_certificate.shift import estimate_shift
from practicum.federated.dkw_certificate.worst_case import FDivergence
from practicum.study.command import notes
from practicum.study.plots import add_ribbon, colours, new_figure, style
from practicum.study.report import write_atomically, write_figures

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Bounds on how many clients of a network you have not seen will do badly.",
)

ASSUMPTIONS = (
    "This holds if the clients are independent draws (shards of one data set are not), and if eps "
    "was not chosen by looking at the network to be certified."
)

LEVELS = (0.1, 0.2, 0.3, 0.5)
DEFAULT_LEVEL = 0.3
TABLES = (".csv", ".parquet", ".json")
PICTURES = (".html", ".htm", ".png", ".svg", ".pdf")

File = Annotated[Path, typer.Argument(help="CSV, Parquet, JSON, JSONL, NPY or NPZ.")]
Column = Annotated[
    str | None,
    typer.Option(help="Column of the risks.", show_default="error, loss or accuracy"),
]
NColumn = Annotated[
    str | None, typer.Option(help="Column of the samples per client.", show_default="n, if there")
]
ClientColumn = Annotated[
    str | None, typer.Option(help="Column of the names.", show_default="client, if there")
]
Percent = Annotated[bool, typer.Option("--percent", help="The numbers run from 0 to 100.")]
Delta = Annotated[float, typer.Option(help="Chance of failure.")]
Level = Annotated[
    list[float] | None,
    typer.Option(
        help="Risk level to report (repeatable); in percent with --percent.",
        show_default="0.1, 0.2, 0.3, 0.5; unbounded: quantiles of what was seen",
    ),
]
LossKind = Annotated[
    Losses | None,
    typer.Option(help="What a risk is a mean of.", show_default="01 for error and accuracy"),
]
FewOption = Annotated[Few, typer.Option(help="Clients whose few samples say nothing.")]
Plot = Annotated[
    Path | None, typer.Option(help="Picture: .html opens anywhere; .png, .svg, .pdf need Kaleido.")
]
Out = Annotated[Path | None, typer.Option(help="The certificate as .csv, .parquet or .json.")]


@app.command("certify")
def certify_command(
    file: File,
    eps: Annotated[float, typer.Option(help="Radius of the ball of networks.")],
    divergence: Annotated[Divergence, typer.Option(help="Distance between networks.")] = "chi2",
    delta: Delta = 0.05,
    level: Level = None,
    column: Column = None,
    n_column: NColumn = None,
    client_column: ClientColumn = None,
    percent: Percent = False,
    unbounded: Annotated[
        bool, typer.Option("--unbounded", help="Losses without an upper bound: the tail alone.")
    ] = False,
    losses: LossKind = None,
    few: FewOption = "refuse",
    method: Annotated[Method, typer.Option(help="program is the published one.")] = "exact",
    lipschitz: Annotated[
        float | None, typer.Option(help="Wasserstein: risk per unit of distance.")
    ] = None,
    curves: Annotated[
        Path | None, typer.Option(help="Wasserstein: robust curves, columns client, rho, value.")
    ] = None,
    plot: Plot = None,
    out: Out = None,
) -> None:
    """Bound the clients' risk in every network within a distance of the one seen.

    Example: practicum use dkw-certificate certify risks.csv --column error --n-column n
    --divergence kl --eps 0.2 --delta 0.05 --level 0.3 --plot cert.html
    """
    _check_files(plot, out)
    _check_wasserstein(divergence, lipschitz, curves)
    found = read_risks(
        file,
        column=column,
        n_column=n_column,
        client_column=client_column,
        percent=percent,
        unbounded=unbounded,
    )
    levels = _levels(level, percent, found.risks if unbounded else None)
    kind = losses or _loss_kind(found)
    sizes = None if unbounded else found.n
    used = [*_used(found, kind, method, unbounded), *_percent_note(level, percent)]
    print("\n".join(used))
    with notes(), _in_words_of_the_command_line(file, found):
        certificate = certify(
            found.risks,
            sizes,
            eps=eps,
            divergence=divergence,
            delta=delta,
            method=method,
            lipschitz=lipschitz,
            curves=_own_curves(curves, found) if curves else None,
            losses=kind,
            few=few,
            unbounded=unbounded,
            clients=found.labels,
        )
    _report(certificate, levels)
    print(ASSUMPTIONS)
    about = {
        "about": "the true risks" if sizes is not None else "the reported numbers",
        "column": found.column,
        "notes": used,
    }
    if out:
        # with finite samples the reported numbers are not the risks themselves
        proven = certificate.certified and not (unbounded and found.n is not None)
        _write(certificate, levels, out, {"certified": proven, **about})
    if plot:
        _draw({"Certificate": _picture(certificate)}, plot, f"Certificate from {file.name}")


@app.command()
def band(
    file: File,
    delta: Delta = 0.05,
    level: Level = None,
    column: Column = None,
    percent: Percent = False,
    prob: Annotated[
        float | None, typer.Option(help="Also bound this quantile of the clients' risks.")
    ] = None,
    plot: Plot = None,
    out: Out = None,
) -> None:
    """The DKW band: new clients of the same network, no shift.

    Example: practicum use dkw-certificate band risks.csv --prob 0.8
    """
    _check_files(plot, out)
    if prob is not None and not 0 < prob < 1:
        raise InputError(
            f"--prob is {prob:g}; between 0 and 1 expected", "--prob 0.8 is the 80 % quantile"
        )
    found = read_risks(file, column=column, percent=percent)
    levels = _levels(level, percent)
    used = [_direction(found), "The band is about the numbers as they are reported."]
    if found.n is not None:
        used.append(f"Sample sizes: column {found.n_column!r} is not used; see certify.")
    print("\n".join(used + _percent_note(level, percent)))
    with notes(), _in_words_of_the_command_line(file, found):
        certificate = dkw_band(found.risks, delta)
    width = dkw_half_width(len(found.risks), delta)
    print(f"{count(len(found.risks))}: the band is {width:.4f} wide on either side.")
    _report_band(certificate, levels)
    if prob is not None:
        low, high = dkw_quantile(found.risks, prob, delta)
        ends = "unbounded below" if low == -math.inf else f"{low:.4g}"
        ends += " to " + ("unbounded above" if high == math.inf else f"{high:.4g}")
        print(f"The {prob:g} quantile of the clients' reported risks: {ends}.")
    if out:
        about = {"about": "the reported numbers", "column": found.column, "notes": used}
        _write(certificate, levels, out, {"certified": True, **about})
    if plot:
        _draw({"Band": _picture(certificate)}, plot, f"DKW band from {file.name}")


@app.command()
def afford(
    file: File,
    level: Annotated[
        float | None,
        typer.Option(
            help="The risk that is too much; in percent with --percent.", show_default="0.3"
        ),
    ] = None,
    share: Annotated[float, typer.Option(help="Share of clients that may reach it.")] = 0.1,
    divergence: Annotated[FDivergence, typer.Option(help="Distance between networks.")] = "chi2",
    delta: Delta = 0.05,
    column: Column = None,
    n_column: NColumn = None,
    percent: Percent = False,
    losses: LossKind = None,
    few: FewOption = "refuse",
    plot: Plot = None,
) -> None:
    """How much shift you can afford: the largest radius that still keeps the promise.

    Example: practicum use dkw-certificate afford risks.csv --level 0.3 --share 0.1 --plot a.html
    """
    _check_files(plot)
    found = read_risks(file, column=column, n_column=n_column, percent=percent)
    asked = None if level is None else [level]
    risk = _levels(asked, percent)[0] if asked else DEFAULT_LEVEL
    kind = losses or _loss_kind(found)
    print("\n".join([*_used(found, kind, "exact", False), *_percent_note(asked, percent)]))
    options: dict[str, Any] = {"delta": delta, "losses": kind, "few": few}
    options["clients"] = found.labels
    with notes(), _in_words_of_the_command_line(file, found):
        largest = affordable_shift(
            found.risks, found.n, level=risk, share=share, divergence=divergence, **options
        )[0]
    if largest == 0:
        print(
            f"No shift can be afforded: that at most {100 * share:g} % of the clients have risk "
            f"{risk:g} or more cannot be certified even for this network, with "
            f"{count(len(found.risks))}."
        )
    else:
        print(
            f"In every network within {divergence} {at_least(largest, 4)} of this one, at most "
            f"{100 * share:g} % of the clients have risk {risk:g} or more (confidence "
            f"{100 * (1 - delta):g} %)."
        )
    if plot:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            figures = {
                "How much shift can I afford?": _afford_figure(found, divergence, risk, options),
                "What is certified as the radius grows": _radius_figure(found, divergence, options),
            }
        _draw(figures, plot, f"Affordable shift from {file.name}")


@app.command()
def shift(
    source: File,
    target: Annotated[Path, typer.Argument(help="The same column for another network.")],
    divergence: Annotated[FDivergence, typer.Option(help="Distance between networks.")] = "chi2",
    bins: Annotated[int, typer.Option(help="Bins of the histograms.")] = 10,
    column: Column = None,
    percent: Percent = False,
) -> None:
    """How far apart two networks look: a diagnostic, not a certificate.

    Example: practicum use dkw-certificate shift last_year.csv this_year.csv --divergence kl
    """
    files = source, target
    read = [read_risks(f, column=column, percent=percent) for f in files]
    both = [found.risks for found in read]
    eps = estimate_shift(both[0], both[1], divergence, bins)
    for file, found in zip(files, read, strict=True):
        print(f"{file}: {_direction(found)}")
    print(
        f"{divergence} about {eps:.3g} between {len(both[0])} and {count(len(both[1]))}, in "
        f"{bins} bins. A diagnostic: it has no confidence level, and coarser bins make it smaller. "
        "Do not certify the second network with a radius estimated from it."
    )


@app.command()
def simulate(
    data: Annotated[
        Literal["fashion-mnist", "digits", "cifar10"], typer.Option(help="Images.")
    ] = "digits",
    model: Annotated[ModelName, typer.Option(help="The classifier that is certified.")] = "linear",
    clients: Annotated[int, typer.Option(min=1, help="Clients seen.")] = 500,
    samples: Annotated[int, typer.Option(min=1, help="Samples per client.")] = 300,
    divergence: Annotated[FDivergence, typer.Option(help="Distance between networks.")] = "chi2",
    delta: Delta = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of the model and the clients.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Your CIFAR-10.")] = None,
    plot: Plot = None,
) -> None:
    """A network with a known truth: 20 % badly served clients become 50 % in the target.

    Example: practicum use dkw-certificate simulate --data fashion-mnist --clients 500 --seed 0
    """
    _check_files(plot)
    fleet = image_fleet(data, model=model, seed=seed, folder=folder)
    errors, sizes = fleet.draw(samples, n_clients=clients, rng=np.random.default_rng(seed))
    eps = fleet.radius(divergence)
    with notes():
        certificate = certify(
            errors, sizes, eps=eps, divergence=divergence, delta=delta, losses="01", few="keep"
        )
    print(
        f"{data}, {model}: {clients} clients with {samples} samples each; the target lies within "
        f"{divergence} {eps:.4g}."
    )
    print("level   seen   source, true   target, true   target, certified")
    for level in (0.1, 0.2, 0.3, 0.4, 0.5):
        seen, source = (errors >= level).mean(), fleet.tail([level])[0]
        target, bound = fleet.target_tail([level])[0], certificate.at(level)
        print(f"{level:5g}  {seen:5.3f}  {source:13.3f}  {target:13.3f}  {bound:18.3f}")
    if plot:
        figure = _picture(certificate, fleet.target_tail(certificate.levels))
        _draw({"Certificate and truth": figure}, plot, f"Simulated {data}")


# --- what was asked for --------------------------------------------------------------------------


def _check_files(plot: Path | None, out: Path | None = None) -> None:
    """Names that nothing can be written to are refused before the work."""
    if out is not None and out.suffix.lower() not in TABLES:
        raise InputError(f"--out {out}: written are {', '.join(TABLES)}")
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InputError(f"--plot {plot}: pictures are {', '.join(PICTURES)}")


def _check_wasserstein(divergence: str, lipschitz: float | None, curves: Path | None) -> None:
    given = [n for n, v in (("--lipschitz", lipschitz), ("--curves", curves)) if v is not None]
    if divergence != "wasserstein" and given:
        raise InputError(
            f"{' and '.join(given)}: only with Wasserstein distance", "say --divergence wasserstein"
        )
    if divergence == "wasserstein" and len(given) != 1:
        raise InputError(
            "--divergence wasserstein needs one of two more options, not both",
            "--lipschitz L: how much the risk can change per unit of distance; --curves FILE: the "
            "clients' robust curves, with columns client, rho and value",
        )


def _levels(
    asked: list[float] | None, percent: bool, unbounded: np.ndarray | None = None
) -> list[float]:
    """Risk levels as fractions, checked; the usual ones where none are named.

    Of losses without an upper bound (``unbounded``: those that were seen) no level is usual: the
    losses that half, a quarter, a tenth and a twentieth of the clients seen reach, rounded.
    """
    if not asked and unbounded is not None:
        reached = np.quantile(unbounded, [0.5, 0.75, 0.9, 0.95])
        return list(dict.fromkeys(float(f"{level:.2g}") for level in reached))
    if not asked:
        return list(LEVELS)
    top = math.inf if unbounded is not None else 100.0 if percent else 1.0
    low = -math.inf if unbounded is not None else 0.0
    for level in asked:
        if not (low <= level <= top and math.isfinite(level)):
            ends = "0 to 100, in percent like the file," if percent else "0 to 1"
            hint = "a number expected" if unbounded is not None else f"{ends} expected"
            if 1 < level <= 100 and not percent:
                hint += f"; {level:g} % is --level {level / 100:g}"
            raise InputError(f"--level is {level:g}; it is no risk", hint)
    return [level / 100 if percent else level for level in asked]


def _percent_note(asked: list[float] | None, percent: bool) -> list[str]:
    if not percent or not asked:
        return []
    read = ", ".join(f"{level:g} % is risk {level / 100:g}" for level in asked)
    return [f"Levels are percentages, like the file: {read}."]


def _loss_kind(found: ClientRisks) -> Losses:
    return "01" if found.is_error_rate and found.n is not None else "bounded"


def _direction(found: ClientRisks) -> str:
    """Which column the risks are, which way round, and which others they might have been."""
    words = f"risk = {'1 - ' * found.inverted}column {found.column!r}"
    if found.passed_over:
        others = " or ".join(map(repr, found.passed_over))
        words += f", not column {others} (choose with --column)"
    return words + "."


def _used(found: ClientRisks, kind: Losses, method: str, unbounded: bool) -> list[str]:
    """What of the file the certificate rests on, a line each."""
    if unbounded:
        lines = [_direction(found), "The certificate is about the losses as they are reported."]
        if found.n is not None:
            lines.append(
                f"Sample sizes: column {found.n_column!r} is not used, as what n samples say about "
                "an unbounded mean has no limit."
            )
        return lines
    if found.n is None:
        return [
            _direction(found),
            "No column of sample sizes (name it with --n-column): the risks are taken as exact.",
        ]
    sizes = f"; n = column {found.n_column!r}"
    if method != "exact":
        return [_direction(found)[:-1] + sizes + "."]
    meaning = {"01": "shares of wrong answers", "bounded": "means of losses in [0, 1]"}[kind]
    lines = [f"{_direction(found)[:-1]}{sizes}; the risks are {meaning} (--losses {kind})."]
    decimals = rounded_to(found.risks, found.n) if kind == "01" else None
    if decimals is not None and decimals < DECIMALS:
        lines.append(
            f"The rates were rounded to {decimals} decimal{'s' * (decimals != 1)}: each counts as "
            "the largest share of n that rounds to it."
        )
    return lines


# --- helpers -------------------------------------------------------------------------------------


@contextmanager
def _in_words_of_the_command_line(file: Path, found: ClientRisks) -> Iterator[None]:
    """Errors name the file and column or the option; ``few="keep"`` becomes ``--few keep``."""
    try:
        yield
    except InputError as error:
        message, hint = error.message, error.hint or ""
        if re.match(r"(eps|delta|share|lipschitz) is ", message):
            message = f"--{message}"
        elif str(file) not in message and "program" not in message:
            message = f"{file}, column {found.column!r}: {message}"
        hint = re.sub(r"\b(few|losses|method|delta)=[\"']?([\w.]+)[\"']?", r"--\1 \2", hint)
        raise InputError(message, hint or None) from None


def _own_curves(path: Path, found: ClientRisks) -> RobustCurves:
    """The curves in the order of the risks."""
    rhos, values, names = read_curves(path)
    place = {name: k for k, name in enumerate(names)}
    absent = [label for c, label in zip(found.clients, found.labels, strict=True) if c not in place]
    if absent:
        raise InputError(
            f"{path}: no curve for {', '.join(absent[:10])}",
            None if found.named else "name the column of the clients with --client-column",
        )
    return RobustCurves.of(rhos, values[[place[c] for c in found.clients]], found.clients)


def _report(certificate: Certificate, levels: list[float]) -> None:
    print(f"{certificate.scope} ({count(certificate.K)}):")
    for level in sorted(levels):
        share = at_most(100 * certificate.at(level))
        print(f"  at most {share} % of the clients have risk {level:g} or more")
    for prob in (0.05, 0.1, 0.25):
        risk = certificate.quantile(prob)
        if math.isfinite(risk):
            print(f"  at most {100 * prob:g} % of the clients have risk {at_most(risk)} or more")
    if math.isfinite(certificate.mean_upper):
        print(f"  the mean risk is at most {at_most(certificate.mean_upper)}")


def _report_band(certificate: Certificate, levels: list[float]) -> None:
    """Both sides, as the band holds on both."""
    print(f"{certificate.scope}:")
    for level in sorted(levels):
        low = at_least(100 * certificate.lower_at(level))
        high = at_most(100 * certificate.at(level))
        print(f"  between {low} % and {high} % of the clients report risk {level:g} or more")
    print(f"  the mean of what is reported is at most {at_most(certificate.mean_upper)}")


def _write(certificate: Certificate, levels: list[float], out: Path, about: dict[str, Any]) -> None:
    writers = {
        ".csv": lambda p: certificate.to_frame().to_csv(p, index=False),
        ".parquet": lambda p: certificate.to_frame().to_parquet(p, index=False),
        ".json": lambda p: p.write_text(_as_json(certificate, levels, about), encoding="utf-8"),
    }
    print(f"Written: {write_atomically(out, writers[out.suffix.lower()])}")


def _as_json(certificate: Certificate, levels: list[float], about: dict[str, Any]) -> str:
    mean, finite = certificate.mean_upper, math.isfinite(certificate.mean_upper)
    return json.dumps(
        {
            **about,
            "method": certificate.method,
            "divergence": certificate.divergence,
            "eps": certificate.eps,
            "delta": certificate.delta,
            "clients": certificate.K,
            "mean_upper": mean if finite else None,
            "share_at_or_above": {f"{level:g}": certificate.at(level) for level in levels},
            "assumptions": ASSUMPTIONS,
        },
        indent=2,
        ensure_ascii=False,
    )


def _picture(certificate: Certificate, truth: np.ndarray | None = None) -> Any:
    words = "certificate" if certificate.certified else "estimate (not a certificate)"
    return style(
        certificate.plot(truth),
        f"Share of the {certificate.K} clients at or above each risk level, as seen, and its "
        f"{words} with confidence {100 * (1 - certificate.delta):g} %. The room between the curves "
        "is the price of having seen some clients, on some samples, and of the shift.",
    )


def _afford_figure(found: Any, divergence: FDivergence, level: float, options: dict) -> Any:
    levels, shares = np.linspace(0.01, 1, 100), (0.01, 0.05, 0.1, 0.2, 0.4)
    figure = new_figure(
        "The largest radius at which at most this share of the clients reaches the risk level on "
        "the horizontal axis. Where a curve has not begun, not even this network can be certified.",
        x="risk level",
        y=f"affordable radius ({divergence})",
        log_y=True,
    )
    palette = colours(shares)
    for share in shares:
        eps = affordable_shift(
            found.risks, found.n, level=levels, share=share, divergence=divergence, **options
        )
        line = {"color": palette[share], "width": 2}
        figure.add_scatter(
            x=levels, y=np.where(eps > 0, eps, np.nan), name=f"{share:.0%} of clients", line=line
        )
    figure.add_vline(x=level, line={"dash": "dot", "color": "#7F7F7F"})
    figure.update_yaxes(range=[-3, 1])
    return figure


def _radius_figure(found: Any, divergence: FDivergence, options: dict) -> Any:
    radii, probs = np.concatenate([[0], np.geomspace(0.005, 2, 30)]), (0.05, 0.1, 0.25, 0.5)
    figure = new_figure(
        "The risk level that at most this share of the clients reaches, in every network within "
        "the radius. A curve that stops cannot be certified further.",
        x=f"radius ({divergence})",
        y="certified risk level",
    )
    palette = colours(probs)
    certificates = [
        certify(found.risks, found.n, eps=float(e), divergence=divergence, **options) for e in radii
    ]
    for prob in probs:
        reached = np.array([[c.quantile(prob) for c in certificates]])
        reached[~np.isfinite(reached)] = np.nan
        add_ribbon(figure, radii, reached, f"{prob:.0%} of clients", palette[prob])
    return figure


def _draw(figures: dict[str, Any], path: Path, title: str) -> None:
    """Write the figures (.html) or the first of them, and say where."""
    if path.suffix.lower() in (".html", ".htm"):
        print(f"Written: {write_figures(figures, path, title)}")
        return
    figure = next(iter(figures.values()))
    figure.update_layout(paper_bgcolor="white", plot_bgcolor="white")
    try:
        written = write_atomically(
            path, lambda p: figure.write_image(p, width=900, height=500, scale=2)
        )
    except InputError:
        raise
    except Exception as error:  # Kaleido is missing, or it finds no browser
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"{path}: this machine cannot draw it ({reason})", "name a file that ends in .html"
        ) from error
    print(f"Written: {written}")
