"""What the certificate promises, tested on networks whose truth is known.

Six settings, by data set:

* ``beta``: risks of clients follow Beta(2, 6); the truth is the worst network in the ball (C2, C3);
* ``fashion-mnist`` or ``digits``: a trained classifier, mild and severe clients, 80 : 20 in the
  source and 50 : 50 in the target (C2);
* ``same network``: Beta(2, 6), no shift (C1);
* ``rare event``: one level, n infinite, K up to a million (C4);
* ``samples``: 1000 clients, 50 to 20,000 samples each (C5);
* ``messages``: clients of a Flower run, their replies counted (C6).
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from practicum.data.clients import DEBIAN_FOLDER, digits
from practicum.data.kinds import UserData
from practicum.data.risks import (
    RISK_COLUMNS,
    ClientRisks,
    find_column,
    read_risk_frame,
    read_risks,
    risk_like_columns,
)
from practicum.data.table import read_table
from practicum.errors import InputError, PracticumError
from practicum.federated.dkw_certificate.certification import certify, dkw_band
from practicum.federated.dkw_certificate.fleets import (
    Fleet,
    beta_fleet,
    image_fleet,
    record_fleet,
)
from practicum.federated.dkw_certificate.robust_curves import local_robust_curve
from practicum.federated.dkw_certificate.worst_case import transport_tail, worst_case_tail
from practicum.study import (
    Arm,
    Measure,
    Metrics,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    binomial_interval,
    less_than,
    needs_more,
    never,
    rate,
)
from practicum.study.plots import add_ribbon, colours, new_figure, translucent

if TYPE_CHECKING:
    import pandas as pd

DELTA = 0.05
EPS = 0.2
LEVELS = np.arange(1001) / 1000
SHOWN = 10  # every tenth level is kept for the figures
MEMBERS = 200  # clients of each kind that are made of a person's records
FEWEST = 5  # clients of a person's own that can be compared
CLIENTS = (50, 200, 1000)
SAMPLES = (50, 100, 200, 500, 1000, 2000, 5000, 20_000)
RHOS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
VALID = ("exact", "union", "program")  # the arms that claim to hold for the whole ball

Shift = Literal["chi2", "kl", "wasserstein"]


# --- the arms ------------------------------------------------------------------------------------


def upper_bound(
    arm: str,
    errors: np.ndarray,
    sizes: np.ndarray | None,
    eps: float,
    divergence: str,
    delta: float = DELTA,
    levels: np.ndarray = LEVELS,
) -> np.ndarray:
    """What an arm says P(R >= level) is at most, shape (G,)."""
    if arm in VALID:
        lipschitz = 1.0 if divergence == "wasserstein" else None
        return certify(
            errors,
            sizes,
            eps=eps,
            divergence=divergence,
            delta=delta,
            method=arm,
            levels=levels,
            lipschitz=lipschitz,
            losses="bounded" if sizes is None else "01",
            few="keep",
        ).upper
    if arm == "vanilla":
        return dkw_band(errors, delta, "upper", levels=levels).upper
    if arm == "gaussian":
        return stats.norm.sf(levels, errors.mean(), max(errors.std(ddof=1), 1e-9))
    share = 1 - np.searchsorted(np.sort(errors), levels, "left") / len(errors)
    if arm == "bootstrap":  # resampling clients gives Binomial(K, share) / K exactly
        return stats.binom.ppf(1 - delta, len(errors), share) / len(errors)
    if divergence == "wasserstein":
        return transport_tail(errors, levels, eps)
    return worst_case_tail(np.clip(share, 0, 1), eps, divergence)


def against_truth(upper: np.ndarray, truth: np.ndarray, delta: float) -> dict[str, float]:
    """Width, shortfall and their sum as an interval score (Gneiting and Raftery, 2007)."""
    excess = upper - truth
    short = np.maximum(-excess, 0.0)
    return {
        "score": float(np.maximum(excess, 0.0).mean() + short.mean() / delta),
        "violated": float(short.max() > 1e-9),
        "gap": float(excess.mean()),
        "certified": float((upper < 1 - 1e-9).mean()),
    }


# --- the networks --------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _network(dataset: str, seed: int, members: int) -> Fleet:
    """The data sets of the study that have clients; cached, as many trials share one."""
    if dataset == "cifar10":
        folder = os.environ.get("PRACTICUM_DATA", ".")
        return image_fleet(dataset, model="cnn", n_clients=members, seed=seed, folder=folder)
    if dataset in ("fashion-mnist", "digits"):
        return image_fleet(dataset, model="mlp", n_clients=members, seed=seed)
    return beta_fleet()


@lru_cache(maxsize=8)
def _own_risks(
    path: Path, stamp: str, column: str | None, n_column: str | None, percent: bool
) -> ClientRisks:
    """The person's risks; ``stamp`` is the file's fingerprint, so that a new file is read anew."""
    return read_risks(path, column=column, n_column=n_column, percent=percent)


@lru_cache(maxsize=8)
def _own_records(path: Path, stamp: str, target: str | None, seed: int) -> Fleet:
    """Clients made of the person's records."""
    try:
        frame = read_table(path, numeric=False)
        return record_fleet(frame, target, n_clients=MEMBERS, seed=seed)
    except InputError as error:
        named = str(path) in error.message
        message = error.message if named else f"{path}: {error.message}"
        raise InputError(message, error.hint) from None


def _own_clients(
    path: Path, stamp: str, column: str | None, n_column: str | None, percent: bool
) -> Fleet:
    """The person's clients as the whole network, from which clients are drawn."""
    risks = _own_risks(path, stamp, column, n_column, percent).risks
    return Fleet(path.stem, (risks,), (1.0,), (1.0,))


NETWORKS = {"study": _network, "records": _own_records, "clients": _own_clients}


@lru_cache(maxsize=64)
def _worst(network: tuple, eps: float, divergence: str) -> np.ndarray:
    """The worst tail in the ball around a network, at :data:`LEVELS`."""
    kind, *key = network
    return NETWORKS[kind](*key).worst_tail(LEVELS, eps, divergence)


# --- one cell of the grid ------------------------------------------------------------------------


def _repeat(
    trial: Trial,
    network: tuple,
    draw: tuple[int, int | None],
    ball: tuple[float, str, float],
) -> Metrics:
    """Draw clients many times, bound, compare with the worst network of the ball."""
    kind, *key = network
    fleet, truth = NETWORKS[kind](*key), _worst(network, *ball[:2])
    rng, rows, uppers = trial.rng(), [], []
    target = fleet.target_tail(LEVELS)  # equal to the source where there is one kind
    for _ in range(trial["runs"]):
        errors, sizes = fleet.draw(draw[1], n_clients=draw[0], rng=rng)
        upper = upper_bound(trial.arm, errors, sizes, *ball)
        below_target = float((target - upper).max() > 1e-9)
        rows.append({**against_truth(upper, truth, ball[2]), "target_violated": below_target})
        uppers.append(upper[::SHOWN])
    means = {name: float(np.mean([r[name] for r in rows])) for name in rows[0]}
    curves = {"upper": np.mean(uppers, axis=0), "truth": truth[::SHOWN], "target": target[::SHOWN]}
    return {**means, **curves, "source": fleet.tail(LEVELS[::SHOWN])}


def _run_ball(trial: Trial) -> Metrics:
    members = dict(trial.params).get("members", 0)
    # the Beta law has no seed: one network for all
    network = ("study", trial.dataset, trial.seed if members else 0, members)
    draw = (trial["clients"], trial["n"] or None)
    return _repeat(trial, network, draw, (trial["eps"], trial["divergence"], DELTA))


def _run_same(trial: Trial) -> Metrics:
    """Does the law of all clients, or the share among the unseen, leave the band anywhere?

    Looked at on both sides of every client, where the steps are.
    """
    fleet, rng, half = beta_fleet(), trial.rng(), trial["clients"]
    violated, unseen = [], []
    for _ in range(trial["runs"]):
        seen, _ = fleet.draw(None, n_clients=half, rng=rng)
        other, _ = fleet.draw(None, n_clients=half, rng=rng)
        steps = np.unique(seen)
        levels = np.unique(np.concatenate([steps, np.nextafter(steps, 2.0)]))
        if trial.arm == "vanilla":
            band = dkw_band(seen, DELTA, levels=levels)
            low, high = band.lower, band.upper
        else:
            share = 1 - np.searchsorted(np.sort(seen), levels, "left") / half
            low, high = stats.binom.ppf([[DELTA / 2], [1 - DELTA / 2]], half, share) / half
        for found, truth in (
            (violated, fleet.tail(levels)),
            (unseen, 1 - np.searchsorted(np.sort(other), levels, "left") / half),
        ):
            found.append(bool(((truth > high + 1e-9) | (truth < low - 1e-9)).any()))
    return {"violated": float(np.mean(violated)), "unseen_outside": float(np.mean(unseen))}


def _run_rare(trial: Trial) -> Metrics:
    """A share p of the clients has risk 0.5, the rest 0.1; the bound at level 0.3."""
    shift, level, rng = trial["divergence"], np.array([0.3]), trial.rng()
    upper = []
    for count in rng.binomial(trial["clients"], trial["p"], size=trial["runs"]):
        risks = np.full(trial["clients"], 0.1)
        risks[:count] = 0.5
        upper.append(upper_bound(trial.arm, risks, None, EPS, shift, levels=level)[0])
    truth = float(worst_case_tail(trial["p"], EPS, shift))
    below = float(np.mean(np.array(upper) < truth))
    return {"gap": np.mean(upper) - truth, "violated": below, "upper": np.mean(upper)}


def _run_samples(trial: Trial) -> Metrics:
    """The same clients with their exact risks and with estimates from n samples."""
    rng = trial.rng()
    risks, _ = beta_fleet().draw(None, n_clients=trial["clients"], rng=rng)
    errors = rng.binomial(trial["n"], risks) / trial["n"]
    sizes = np.full(len(risks), trial["n"])
    known = upper_bound(trial.arm, risks, None, trial["eps"], trial["divergence"])
    estimated = upper_bound(trial.arm, errors, sizes, trial["eps"], trial["divergence"])
    return {"excess": float((estimated - known).mean())}


def _run_messages(trial: Trial) -> Metrics:
    """Evaluate a linear model by Flower messages, and count every number in the replies."""
    from practicum.federated._flower import ArrayRecord, ClientApp, run_in_process  # isort: skip
    from flwr.app import Array

    from practicum.federated.dkw_certificate.flower import CertifyStrategy, evaluation_reply

    images, rng = digits(), trial.rng()
    rows = rng.integers(len(images.labels), size=(trial["clients"], 100))
    weights = rng.standard_normal((10, images.flat.shape[1]))
    app, received = ClientApp(), []

    @app.evaluate()
    def evaluate(message: Any, context: Any) -> Any:
        own = rows[int(context.node_config["partition-id"])]
        model = SimpleNamespace(
            coef_=message.content["arrays"]["coef"].numpy(),
            intercept_=np.zeros(10),
            classes_=np.arange(10),
        )
        x, y = images.flat[own].astype(float), images.labels[own]
        error = float(((x @ model.coef_.T).argmax(1) != y).mean())
        curve = local_robust_curve(model, x, y, RHOS, "01") if with_curve else None
        return evaluation_reply(message, error, len(own), curve=curve)

    class Counting(CertifyStrategy):
        """Looks at everything that arrives at the server."""

        def aggregate_evaluate(self, server_round: int, replies: Any) -> Any:
            received.extend(reply.content for reply in replies)
            return super().aggregate_evaluate(server_round, replies)

    with_curve = trial["answer"] == "curve"
    asked = {"curve_key": "curve", "rhos": RHOS} if with_curve else {}
    logging.getLogger("flwr").setLevel(logging.ERROR)  # it warns that nothing is trained
    strategy = Counting(eps=EPS, fraction_train=0.0, **asked)
    arrays = ArrayRecord({"coef": Array(weights)})
    run_in_process(strategy, app, trial["clients"], arrays, num_rounds=1, timeout=60.0)
    counts = np.array([_numbers_in(content) for content in received])
    declared = 2 + (len(RHOS) if with_curve else 0)
    return {
        "numbers": float(counts.mean()),
        "undeclared": float((counts > declared).sum()),
        "replies": float(len(counts)),
        "certified_mean": strategy.certificate.mean_upper,
    }


def _numbers_in(content: Any) -> int:
    """Every number that a message carries, whatever kind of record it is in."""
    total = 0
    for record in content.values():
        for value in record.values():
            if hasattr(value, "numpy"):
                total += value.numpy().size
            else:
                total += len(value) if isinstance(value, list | tuple | bytes | str) else 1
    return total


# --- the claims ----------------------------------------------------------------------------------


# delta and two standard errors of a rate over a thousand draws, fixed before any run
ALLOWED = DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / 1000)


def _total(results: Results, metric: str, per: str = "runs") -> tuple[int, int]:
    """How many draws there were, and in how many the metric's event occurred."""
    frame = results.frame
    if metric not in frame or per not in frame:
        return 0, 0
    return round(float((frame[metric] * frame[per]).sum())), round(float(frame[per].sum()))


def claim_same_network(results: Results) -> Verdict:
    """C1. Refuted by a violation rate above 0.05 + 2 s.e."""
    hits, n = _total(results.where(dataset="same network", arm="vanilla"), "violated")
    if n == 0:
        return needs_more("No draw of an unshifted network has finished.")
    verdict = rate(
        hits,
        n,
        high=ALLOWED,
        what="the share of draws in which the law of all clients leaves the DKW band",
    )
    other, m = _total(results.where(dataset="same network", arm="bootstrap"), "violated")
    outside, _ = _total(results.where(dataset="same network", arm="vanilla"), "unseen_outside")
    note = (
        f" A pointwise bootstrap band is left in {other} of {m}. The share among 500 unseen "
        f"clients, which has chance errors of its own, leaves the band in {outside} of {n}."
    )
    return replace(verdict, sentence=verdict.sentence + note)


def _settings(results: Results) -> Iterable[tuple[str, Results]]:
    """Every (network, distance, K, n) that is compared with the worst of a ball, and its name."""
    part = _ball_cells(results)
    if "violated" not in part.frame:
        return
    columns = [c for c in ("dataset", "divergence", "clients", "n") if c in part.frame]
    for row in part.frame[columns].drop_duplicates().to_dict("records"):
        words = [str(row[c]) for c in ("dataset", "divergence") if c in row]
        words += [f"K={row['clients']:g}", f"n={row['n'] or np.inf:g}"] if "n" in row else []
        yield ", ".join(words), part.where(**{str(k): v for k, v in row.items()})


def _worst_rate(results: Results, arm: str) -> Verdict:
    """The violation rate of an arm in the setting where it is highest."""
    rates = []
    for name, part in _settings(results.where(arm=arm)):
        hits, n = _total(part, "violated")
        rates.append((hits / n, hits, n, name))
    if not rates:
        return needs_more(f"No draw of {arm} has finished.")
    _, hits, n, name = max(rates)
    what = f"the violation rate of {arm} in its worst of {len(rates)} settings ({name})"
    return rate(hits, n, high=ALLOWED, what=what)


def claim_ball(results: Results) -> Verdict:
    """C2, closed forms. Refuted by a violation rate above delta (+ 2 s.e.) in any setting."""
    verdict = all_of(*(_worst_rate(results, arm) for arm in ("exact", "union")))
    notes = []
    for arm in ("vanilla", "plug-in", "bootstrap", "gaussian"):
        totals = [_total(part, "violated") for _, part in _settings(results.where(arm=arm))]
        shares = [hits / n for hits, n in totals]
        if shares:
            notes.append(f"{arm} {min(shares):.0%} to {max(shares):.0%}")
    note = f" Violations of the arms without shift or band: {'; '.join(notes)}." if notes else ""
    images = results.where(arm="exact", dataset=["fashion-mnist", "digits", "cifar10"])
    hits, n = _total(images, "target_violated")
    note += f" The 50 : 50 target of the images lay above the bound in {hits} of {n}." if n else ""
    return replace(verdict, sentence=verdict.sentence + note)


def claim_program_ball(results: Results) -> Verdict:
    """C2, the published program, by the same rule."""
    return _worst_rate(results, "program")


def claim_useful(results: Results) -> Verdict:
    """C3. Refuted if the exact form is not tighter than the program, or the gap does not shrink."""
    part = results.where(dataset="beta", n=1000)
    parts = []
    for k in CLIENTS:
        pair = part.where(divergence="chi2", clients=k).paired("gap", "exact", "program")
        parts.append(less_than(*pair, what=f"chi-square, K={k}: the program's gap minus ours"))
    for divergence in ("chi2", "kl"):
        own = part.where(divergence=divergence, arm="exact")
        for few, many in ((50, 200), (200, 1000)):
            a, b = (own.values("gap", clients=k).to_numpy() for k in (few, many))
            m = min(len(a), len(b))
            parts.append(
                at_least(a[:m] - b[:m], 0.0, f"{divergence}: gap at K={few} minus at K={many}")
            )
    gaps = {
        (d, k, a): part.values("gap", divergence=d, clients=k, arm=a).mean()
        for d in ("chi2", "kl")
        for k in CLIENTS
        for a in VALID
    }
    table = "; ".join(
        f"{d} {a} " + "/".join(f"{gaps[d, k, a]:.2f}" for k in CLIENTS)
        for d in ("chi2", "kl")
        for a in VALID
    )
    return all_of(*parts, sentence=f"Mean gap at n=1000, K=50/200/1000: {table}.")


def _log_slopes(part: Results, metric: str, x: str, at_least_x: float = 0.0) -> np.ndarray:
    """Slope of log metric on log x, one a seed."""
    frame = part.frame
    if metric not in frame or x not in frame:
        return np.empty(0)
    frame = frame[(frame[x] >= at_least_x) & (frame[metric] > 0)]
    fits = [
        np.polyfit(np.log(g[x].astype(float)), np.log(g[metric].astype(float)), 1)[0]
        for _, g in frame.groupby("seed")
        if g[x].nunique() > 2
    ]
    return np.array(fits)


def claim_optimal(results: Results) -> Verdict:
    """C4, closed form. Refuted if the bound does not tend to the worst case, or falls below it."""
    part = results.where(dataset="rare event", arm="exact")
    if not len(part):
        return needs_more("No rare event has been bounded.")
    parts = []
    for divergence in ("chi2", "kl"):
        for p in (0.01, 0.1):
            cell = part.where(divergence=divergence, p=p)
            slopes = _log_slopes(cell, "gap", "clients", 1000.0)
            parts.append(at_most(slopes, -0.4, f"{divergence}, p={p}: slope of log gap on log K"))
    last = part.values("gap", clients=1_000_000)
    parts.insert(0, at_most(last, 0.01, "bound minus worst case at K=1,000,000"))
    hits, n = _total(part, "violated")
    parts.append(rate(hits, n, high=ALLOWED, what="the share of bounds below the worst case"))
    return all_of(*parts)


def claim_program_optimal(results: Results) -> Verdict:
    """C4, the published program. Refuted by a bound below the worst case."""
    part = results.where(dataset="rare event", arm="program")
    if not len(part):
        return needs_more("No rare event has been bounded by the program.")
    verdict = never(
        *_total(part, "violated"),
        "the published program's bound is at least the worst case of the ball",
    )
    if verdict.status == "not reproduced":
        at = {
            (d, k): (
                part.values("upper", divergence=d, clients=k, p=0.01).mean(),
                float(worst_case_tail(0.01, EPS, d)),
            )
            for d, k in (("kl", 10_000), ("kl", 1_000_000), ("chi2", 1_000_000))
        }
        shown = ", ".join(
            f"{d} K={k:,}: {u:.3f} < {t:.3f}" for (d, k), (u, t) in at.items() if u < t
        )
        note = f" Not reproduced for the published code at large K: at p = 0.01, {shown}."
        verdict = replace(verdict, sentence=verdict.sentence + note)
    return verdict


def claim_samples(results: Results) -> Verdict:
    """C5. Refuted by a slope that differs from -1/2 by more than 0.15."""
    part = results.where(dataset="samples")
    words = "slope of the log excess width on log n"
    return all_of(
        *(
            between(_log_slopes(part.where(arm=a), "excess", "n"), -0.65, -0.35, f"{a}: {words}")
            for a in ("exact", "program")
        )
    )


def claim_private(results: Results) -> Verdict:
    """C6. Refuted by a reply with more numbers than declared."""
    part = results.where(dataset="messages", arm="exact")
    n = int(part.values("replies").sum())
    if n == 0:
        return needs_more("No Flower message has been counted.")
    verdict = never(
        int(part.values("undeclared").sum()), n, "a reply carries only what is declared"
    )
    counts = [part.values("numbers", answer=a).mean() for a in ("risk", "curve")]
    note = (
        f" Numbers per client: {counts[0]:.3g} (risk, examples); with a robust curve "
        f"{counts[1]:.3g}."
    )
    return replace(verdict, sentence=verdict.sentence + note)


# --- the figures ---------------------------------------------------------------------------------


def _violations(results: Results) -> go.Figure | None:
    """Violation rates of all arms in every setting, the highest with its interval."""
    palette = colours(CertificateStudy.arms)
    figure = new_figure(
        "Share of draws in which the worst network of the ball has, at some level, more bad "
        "clients than the bound says: one small dot a setting (data, K, n, distance), and the "
        f"highest with its exact 95 % interval. Dashed: δ = {DELTA}; what is promised lies left "
        "of it.",
        x="share of draws with the truth above the bound",
        height=160 + 30 * len(palette),
    )
    for arm, about in CertificateStudy.arms.items():
        totals = {name: _total(p, "violated") for name, p in _settings(results.where(arm=arm))}
        if not totals:
            continue
        rates = {name: hits / n for name, (hits, n) in totals.items()}
        worst = max(rates, key=rates.__getitem__)
        interval = binomial_interval(*totals[worst])
        ends = [interval.high - rates[worst]], [rates[worst] - interval.low]
        error = {"type": "data", "symmetric": False, "array": ends[0], "arrayminus": ends[1]}
        for names, size, bars in ((list(rates), 6, None), ([worst], 12, error)):
            figure.add_scatter(
                x=[rates[name] for name in names],
                y=[arm] * len(names),
                text=names,
                mode="markers",
                name=about.about,
                showlegend=False,
                marker={"color": translucent(palette[arm], 0.5 if bars is None else 1.0)}
                | {"size": size},
                error_x=bars,
            )
    if not figure.data:
        return None
    figure.add_vline(x=DELTA, line={"dash": "dash", "color": "#7F7F7F"})
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_yaxes(autorange="reversed")
    return figure


def _ball_cells(results: Results) -> Results:
    """Trials that compare with the worst of a ball: the study's, or a person's own."""
    other = {"same network", "rare event", "samples", "messages"}
    kept = [o for o in results.outcomes if o.trial.dataset not in other]
    return Results(kept, results.scale)


def _curves(results: Results) -> go.Figure | None:
    """Bounds and truth against the level, on the network nearest to a person's."""
    part = _ball_cells(results)
    names = [d for d in part.frame["dataset"].unique() if d != "beta"] if len(part) else []
    part = (
        part.where(dataset=names[0]) if names else part.where(dataset="beta", clients=200, n=1000)
    )
    if "divergence" in part.frame:
        part = part.where(divergence="chi2")
    if not len(part):
        return None
    where = names[0] if names else "Beta(2, 6) risks, K=200, n=1000"
    palette, x = colours(CertificateStudy.arms), LEVELS[::SHOWN]
    figure = new_figure(
        f"{where}: at most this share of clients has a risk at or above the level, says each arm "
        "(mean over draws, band over seeds). Thick grey: the worst network of the ball; a bound "
        "below it is broken. Dotted: the network that was sampled.",
        x="risk level",
        y="share of clients at or above it",
        height=480,
    )
    for arm in CertificateStudy.arms:
        curves = part.where(arm=arm).curves("upper")
        if len(curves):
            add_ribbon(figure, x, curves, arm, palette[arm])
    for name, curve, dash in (("worst in the ball", "truth", None), ("source", "source", "dot")):
        lines = part.curves(curve)
        line = {"color": "#555555", "width": 2.5, "dash": dash}
        figure.add_scatter(x=x, y=lines.mean(0), name=name, mode="lines", line=line)
    figure.update_yaxes(range=[0, 1.02])
    return figure


def _gaps(results: Results) -> go.Figure | None:
    """Gap against K at n = 1000, of the arms that claim to hold."""
    part = results.where(dataset="beta", n=1000)
    if not len(part):
        return None
    palette = colours(CertificateStudy.arms)
    figure = new_figure(
        "Bound minus truth (worst of the ball), mean over levels, Beta(2, 6) risks estimated from "
        "1000 samples each. Solid: chi-square 0.2, dashed: KL 0.2; means and 95 % intervals over "
        "seeds. Lower is better; shown are the arms that claim to hold.",
        x="clients K",
        y="mean gap",
        log_x=True,
    )
    for arm in VALID:
        for divergence, dash in (("chi2", None), ("kl", "dash")):
            cell = part.where(arm=arm, divergence=divergence)
            _add_points(figure, cell, "clients", "gap", f"{arm}, {divergence}", palette[arm], dash)
    return figure if figure.data else None


def _rare(results: Results) -> go.Figure | None:
    """Bound against K for a rare event, beside the exact worst case."""
    part = results.where(dataset="rare event", divergence="kl", p=0.01)
    if not len(part):
        return None
    palette = colours(CertificateStudy.arms)
    figure = new_figure(
        "One client in a hundred exceeds the level; the bound on that share in a KL ball of radius "
        "0.2 against the number of clients. Dashed: the exact worst case. Ours comes down to it; "
        "the published program caps the weights and ends below it.",
        x="clients K",
        y="bound on the share",
        log_x=True,
        log_y=True,
    )
    for arm in ("exact", "program", "plug-in"):
        _add_points(figure, part.where(arm=arm), "clients", "upper", arm, palette[arm], None)
    if not figure.data:
        return None
    truth = float(worst_case_tail(0.01, EPS, "kl"))
    figure.add_hline(y=truth, line={"dash": "dash", "color": "#7F7F7F"})
    return figure


def _sample_cost(results: Results) -> go.Figure | None:
    """Excess width against n."""
    part = results.where(dataset="samples")
    if not len(part):
        return None
    palette = colours(CertificateStudy.arms)
    figure = new_figure(
        "What is added to the bound because each of 1000 clients knows its risk from n samples "
        "only (mean over levels; chi-square 0.2). A straight line of slope -1/2 is the rate n to "
        "the power -1/2.",
        x="samples per client n",
        y="excess width",
        log_x=True,
        log_y=True,
    )
    for arm in VALID:
        _add_points(figure, part.where(arm=arm), "n", "excess", arm, palette[arm], None)
    return figure if figure.data else None


def _add_points(
    figure: go.Figure, part: Results, x: str, y: str, name: str, colour: str, dash: str | None
) -> None:
    """Means over seeds with 95 % intervals, joined by a line."""
    if not len(part) or y not in part.frame:
        return
    rows = part.frame.dropna(subset=[y]).groupby(x)[y].agg(["mean", "sem", "count"])
    half = stats.t.ppf(0.975, np.maximum(rows["count"] - 1, 1)) * rows["sem"].fillna(0)
    figure.add_scatter(
        x=rows.index,
        y=rows["mean"],
        name=name,
        mode="lines+markers",
        line={"color": colour, "dash": dash},
        error_y={"type": "data", "array": half},
    )


class CertificateStudy(Study):
    """Certificates against today's practice, on networks with a known truth."""

    slug = "dkw-certificate"
    arms: ClassVar = {
        "exact": Arm("method", "closed-form worst case on a bound that shares delta with nothing"),
        "program": Arm("baseline", "the published convex program, as coded"),
        "vanilla": Arm("baseline", "DKW upper band of the network seen; no shift"),
        "plug-in": Arm("baseline", "worst case of the empirical law; no band (DRO)"),
        "bootstrap": Arm("baseline", "95 % bootstrap limit of the share at each level; no shift"),
        "gaussian": Arm("cheap", "tail of a normal law with the mean and std over clients"),
        "union": Arm("control", "ours with a union over clients and a band of constant width"),
    }
    measures: ClassVar = {
        "score": Measure(
            "bound score (excess over the truth, shortfall times 1/δ)",
            "lower",
            bounds=(0.0, math.inf),
        ),
        "violated": Measure(
            "share of draws with the truth above the bound", "lower", bounds=(0.0, 1.0)
        ),
    }

    claims: ClassVar = {
        "C1": claim_same_network,
        "C2a": claim_ball,
        "C2b": claim_program_ball,
        "C3": claim_useful,
        "C4a": claim_optimal,
        "C4b": claim_program_optimal,
        "C5": claim_samples,
        "C6": claim_private,
    }

    def __init__(
        self,
        eps: float = EPS,
        divergence: str = "chi2",
        delta: float = DELTA,
        columns: tuple[str | None, str | None, bool] = (None, None, False),
        target: str | None = None,
        n_clients: int = 200,
        n_samples: int = 300,
        records: bool = False,
    ) -> None:
        self.eps, self.divergence, self.delta = eps, divergence, delta
        self.columns, self.target, self.records = columns, target, records
        self.n_clients, self.n_samples = n_clients, n_samples

    # --- the grid --------------------------------------------------------------------------------

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """See the module's page for the settings."""
        seeds = scale.seeds(smoke=5, cpu=10, paper=10)
        if self.source is not None:
            runs = scale.pick(smoke=5, cpu=50, paper=200)
            about = self._network_in_words()
            for seed in seeds:
                for arm in self._arms_for(self.divergence):
                    yield self.trial(self.source.name, arm, seed, runs=runs, network=about)
            return
        for seed in seeds:
            yield from self._ball(seed, scale)
            yield from self._others(seed, scale)

    def _network_in_words(self) -> str:
        """What a person's file was taken for, shown with the results."""
        if self.records:
            return f"rows spread over clients, logistic regression for {self.target!r}"
        path, stamp = self.source.path, self.source.fingerprint
        found = _own_risks(path, stamp, *self.columns)
        sizes = f", n from column {found.n_column!r}" if found.n_column else ""
        return f"risks {'1 - ' * found.inverted}column {found.column!r}{sizes}"

    def _ball(self, seed: int, scale: Scale) -> Iterable[Trial]:
        for divergence in ("chi2", "kl", "wasserstein"):
            radius = EPS if divergence != "wasserstein" else 0.05
            for arm in self._arms_for(divergence):
                for k in CLIENTS:
                    for n in (0, 1000):
                        # exact risks come closest to the promised rate, and need more draws
                        close = arm in ("exact", "union") and n == 0
                        runs = scale.pick(smoke=4, cpu=400 if close else 100, paper=1000)
                        yield self.trial(
                            "beta",
                            arm,
                            seed,
                            clients=k,
                            n=n,
                            divergence=divergence,
                            eps=radius,
                            runs=runs,
                        )
        dataset = scale.pick(smoke="digits", cpu=_images(), paper="cifar10")
        members = scale.pick(smoke=40, cpu=500, paper=1000)
        # the radii of the target's 50 : 50 mix, rounded up
        for divergence, radius in (("chi2", 0.5625), ("kl", 0.22315)):
            for arm in self._arms_for(divergence):
                yield self.trial(
                    dataset,
                    arm,
                    seed,
                    clients=500,
                    n=scale.pick(smoke=300, cpu=300, paper=1000),
                    divergence=divergence,
                    eps=radius,
                    runs=scale.pick(smoke=2, cpu=20, paper=100),
                    members=members,
                )

    def _others(self, seed: int, scale: Scale) -> Iterable[Trial]:
        for arm in ("vanilla", "bootstrap"):
            runs = scale.pick(smoke=100, cpu=1000, paper=1000)
            yield self.trial("same network", arm, seed, clients=500, runs=runs)
        for arm in ("exact", "program", "plug-in"):
            for divergence in ("chi2", "kl"):
                for p in (0.01, 0.1):
                    for k in (100, 1000, 10_000, 100_000, 1_000_000):
                        runs = min(
                            20, scale.pick(smoke=100_000, cpu=2_000_000, paper=2_000_000) // k
                        )
                        yield self.trial(
                            "rare event",
                            arm,
                            seed,
                            clients=k,
                            p=p,
                            divergence=divergence,
                            runs=max(1, runs),
                        )
        for arm in VALID:
            for n in SAMPLES:
                yield self.trial(
                    "samples", arm, seed, clients=1000, n=n, divergence="chi2", eps=EPS
                )
        for answer in ("risk", "curve"):
            clients = scale.pick(smoke=20, cpu=100, paper=500)
            yield self.trial("messages", "exact", seed, clients=clients, answer=answer)

    def _arms_for(self, divergence: str) -> list[str]:
        return [a for a in self.arms if a != "program" or divergence != "wasserstein"]

    def group(self, trial: Trial) -> Hashable | None:
        """All that share a network, so that it is made once."""
        return (trial.dataset, trial.seed)

    # --- one cell --------------------------------------------------------------------------------

    def run(self, trial: Trial) -> Metrics:
        """Draw clients, bound, compare with the truth."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few clients: that is what is studied
            if self.source is not None:
                return self._run_own(trial)
            special = {
                "same network": _run_same,
                "rare event": _run_rare,
                "samples": _run_samples,
                "messages": _run_messages,
            }
            if trial.dataset in special:
                return special[trial.dataset](trial)
            return _run_ball(trial)

    def _run_own(self, trial: Trial) -> Metrics:
        path, stamp = self.source.path, self.source.fingerprint
        if self.records:
            network: tuple = ("records", path, stamp, self.target, trial.seed)
            draw: tuple[int, int | None] = (self.n_clients, self.n_samples)
        else:
            network = ("clients", path, stamp, *self.columns)
            found = _own_risks(*network[1:])
            draw = len(found.risks), None if found.n is None else int(np.median(found.n))
        return _repeat(trial, network, draw, (self.eps, self.divergence, self.delta))

    # --- what follows ----------------------------------------------------------------------------

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """What can be drawn from these results."""
        made = {
            "How often is the truth above the bound?": _violations(results),
            "Bound and truth": _curves(results),
            "How far above the truth?": _gaps(results),
            "Many clients, rare event": _rare(results),
            "What finite samples cost": _sample_cost(results),
        }
        return {title: figure for title, figure in made.items() if figure is not None}

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        column: Annotated[str | None, "column of the risks (error, loss, accuracy)"] = None,
        n_column: Annotated[str | None, "column of the samples per client"] = None,
        percent: Annotated[bool, "the numbers run from 0 to 100"] = False,
        eps: Annotated[float, "radius of the ball of networks"] = EPS,
        divergence: Annotated[Shift, "distance between networks"] = "chi2",
        delta: Annotated[float, "chance of failure"] = DELTA,
        target: Annotated[str | None, "of a table of records: the column to predict"] = None,
        n_clients: Annotated[int, "of a table of records: clients drawn"] = 200,
        n_samples: Annotated[int, "of a table of records: samples per client"] = 300,
    ) -> CertificateStudy:
        """Your clients, or clients made of your records, as the network that is sampled."""
        path, columns = source.path, (column, n_column, percent)
        frame = _risk_frame_or_none(path)
        records = column is None and (frame is None or find_column(frame, RISK_COLUMNS) is None)
        if records:
            if frame is not None:
                target = _announced_target(path, frame, target)
            _own_records(path, source.fingerprint, target, 0)
        own = [0.0] if records else _own_risks(path, source.fingerprint, *columns).risks
        if not records and len(own) < FEWEST:
            raise InputError(f"{path}: {len(own)} clients; at least {FEWEST} are needed")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            upper_bound("exact", np.asarray(own), None, eps, divergence, delta)
        return cls(eps, divergence, delta, columns, target, n_clients, n_samples, records)


def _announced_target(path: Path, frame: pd.DataFrame, target: str | None) -> str:
    """The column that a model of the records predicts; said, as risks may have been meant."""
    likely = risk_like_columns(frame)
    if target is None and likely:
        raise InputError(
            f"{path} has no column error, loss or accuracy, but {', '.join(map(repr, likely))}",
            f"one risk a client: -o column={likely[0]!r} (and -o n_column=...); records, of which "
            "clients are made: -o target=COLUMN to predict",
        )
    target = target or str(frame.columns[-1])
    warnings.warn(
        f"{path} has no column error, loss or accuracy: its rows are spread over simulated "
        f"clients, and the errors of a logistic regression for {target!r} are certified (one risk "
        "a client: -o column=NAME; another target: -o target=NAME)",
        UserWarning,
        stacklevel=3,
    )
    return target


def _risk_frame_or_none(path: Path) -> Any:
    try:
        return read_risk_frame(path)
    except PracticumError:
        return None  # the reader of records says what is wrong


def _images() -> str:
    """Fashion-MNIST where it is installed, else the digits of scikit-learn."""
    return "fashion-mnist" if DEBIAN_FOLDER.is_dir() else "digits"
