"""``practicum use fedgwc``: cluster a loss log, score a clustering, run a federation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.study.command import notes

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from plotly.graph_objects import Figure

    from practicum.federated.fedgwc.federations import Federation
    from practicum.federated.fedgwc.grouping import LossClusterer, SplitEvidence
    from practicum.federated.fedgwc.losses import LossLog

ENOUGH = 10  # rounds that a pair of clients must have shared

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def root() -> None:
    """Clusters of federated clients from their losses."""


@app.command()
def cluster(
    log: Annotated[Path, typer.Argument(help="Loss log: round,client,step,loss and perhaps n.")],
    estimator: Annotated[
        str, typer.Option(help="joint, centred, comovement, or ema (the published one).")
    ] = "joint",
    groups: Annotated[
        int, typer.Option(help="Number of groups; 0 lets the losses decide.", min=0)
    ] = 0,
    view: Annotated[
        str | None, typer.Option(help="For ema alone: column or row.", show_default="column")
    ] = None,
    min_co_samples: Annotated[
        int, typer.Option(help="Rounds the median pair of clients must share.", min=0)
    ] = 10,
    out: Annotated[Path | None, typer.Option(help="Write client,group as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write figures as one HTML page.")] = None,
) -> None:
    """Group the clients of a past federation by the losses it logged.

    Example: practicum use fedgwc cluster losses.csv --estimator joint --out groups.csv
    """
    import numpy as np
    import pandas as pd

    from practicum.errors import InputError
    from practicum.federated.fedgwc.grouping import LossClusterer
    from practicum.federated.fedgwc.losses import read_loss_log
    from practicum.study.report import write_atomically

    if view is not None and estimator != "ema":
        raise InputError(f"--view: {estimator} has none", "--estimator ema, or leave it out")
    settings = {
        "estimator": estimator,
        "view": view or "column",
        "min_co_samples": min_co_samples,
    }
    with notes():
        read = read_loss_log(log)
        model = free = LossClusterer(**settings).fit(read)
        if groups:
            model = LossClusterer(groups, **settings).fit(read)
    pairs = model.co_samples_[np.triu_indices(read.n_clients, 1)]
    print(
        f"{read.n_clients} clients, {read.n_rounds:,} rounds; the median pair of clients trained "
        f"together in {np.median(pairs):g} of them."
    )
    decision = _decision(
        free.n_clusters_, groups, float(np.median(pairs)), free.evidence_, read.published_can_split
    )
    print(decision)
    if model.n_clusters_ > 1:
        _print_members(model.names_, model.labels_)
    if out:
        table = pd.DataFrame({"client": model.names_, "group": model.labels_})
        print(f"Written: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")
    if plot:
        from practicum.study.report import write_figures

        pictures = _figures(read, model, decision)
        print(f"Written: {write_figures(pictures, plot, f'Clients of {log.name}')}")


def _decision(
    found: int, asked: int, together: float, evidence: SplitEvidence | None, can_split: bool = True
) -> str:
    """What the losses say by themselves, what that is worth, and what was asked for instead.

    ``evidence`` is None for the published rule, which ``can_split`` at K >= 2 m alone.
    """
    from practicum.federated.fedgwc.grouping import MIN_SHARE

    thin = together < ENOUGH
    if found > 1:
        words = f"The losses speak for {found} groups"
        words += f", but pairs that met {together:g} times are weak evidence." if thin else "."
    elif evidence is None and not can_split:
        words = (
            "The published rule cannot split so few clients, which says nothing about groups; try "
            "--estimator joint."
        )
    elif thin:
        words = "Too few rounds to tell groups from noise."
    elif evidence is None:
        words = "The published rule finds no groups here; try --estimator joint."
    elif evidence.reason == "unstable":
        words = (
            f"Undecided: {evidence.proposed} groups stand out, but the even and the odd rounds "
            f"group the clients differently (agreement {evidence.agreement:.2f}). More rounds "
            "would tell."
        )
    elif evidence.reason == "weak":
        words = (
            "The losses do not speak for groups: clients differ, but what stands out explains "
            f"{evidence.share:.0%} of it, and groups explain {MIN_SHARE:.0%} or more. Keep one "
            "model."
        )
    else:
        words = "The losses do not speak for groups: keep one model."
    if asked == 1:
        return f"{words} All clients are in one group because that was asked for."
    if asked and asked != found:
        return (
            f"{words} The {asked} groups below are there because they were asked for: any clients "
            "can be cut into so many."
        )
    return f"{words} --groups 2 looks all the same." if found == 1 else words


@app.command()
def score(
    counts: Annotated[Path, typer.Argument(help="client,class,count")],
    labels: Annotated[Path, typer.Argument(help="client,group")],
) -> None:
    """Grade a clustering of clients by the class imbalance of their data.

    Example: practicum use fedgwc score counts.csv groups.csv
    """
    from practicum.federated.fedgwc.scores import (
        read_class_counts,
        wasserstein_adjusted_davies_bouldin,
        wasserstein_adjusted_silhouette,
    )

    table, clients = read_class_counts(counts)
    groups = _groups_of(labels, clients)
    n_groups = len(set(groups))
    print(f"{len(clients)} clients, {table.shape[1]} classes, groups: {n_groups}.")
    if not 2 <= n_groups < len(clients):
        reason = "there is one" if n_groups == 1 else "every client is a group of its own"
        print(f"No score: groups are compared with each other, and {reason}.")
        return
    ranked = wasserstein_adjusted_silhouette(table, groups)
    aware = wasserstein_adjusted_silhouette(table, groups, ranked=False)
    bouldin = wasserstein_adjusted_davies_bouldin(table, groups)
    print(f"Wasserstein Adjusted Score {ranked:7.4f}  -1 to 1; high where the clients of a group")
    print(f"{'':36}hold their classes equally unevenly, whatever the classes")
    print(
        f"Label-aware score          {aware:7.4f}  -1 to 1; high where they hold the same classes"
    )
    print(f"Adjusted Davies-Bouldin    {bouldin:7.4f}  from 0; low where the first score is high")


@app.command()
def run(
    data: Annotated[
        str, typer.Option(help="fashion-mnist, digits, or a labelled table of yours.")
    ] = "fashion-mnist",
    client: Annotated[
        str | None, typer.Option(help="Table: column that says who holds a row.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Table: label column (the last).")] = None,
    group: Annotated[str | None, typer.Option(help="Table: true group of each client.")] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="Without a client column: conflict, two, mixed, domain, dirichlet or iid.",
            show_default="mixed",
        ),
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Without a client column.", min=4, show_default="24")
    ] = None,
    groups: Annotated[int, typer.Option(help="Groups to look for.", min=2)] = 2,
    fraction: Annotated[float, typer.Option(help="Share that trains in a round.")] = 0.25,
    rounds: Annotated[int, typer.Option(min=8)] = 400,
    learning_rate: Annotated[float, typer.Option(help="Of local SGD.")] = 0.05,
    arms: Annotated[str, typer.Option(help="Which to print, by commas.")] = (
        "fedavg,ifca,cfl,official,column,centred,joint"
    ),
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Write client, group and accuracies of the last seed.")
    ] = None,
    losses: Annotated[
        Path | None, typer.Option(help="Write the loss log of the last seed.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write figures of the last seed as one HTML page.")
    ] = None,
) -> None:
    """Train a federation here and compare ways to cluster it: your table, or one of a known kind.

    Example: practicum use fedgwc run --data sites.csv --client site --label y

    Example: practicum use fedgwc run --data digits --scenario conflict --rounds 200
    """
    from typing import get_args

    from practicum.data.clients import ImageSet
    from practicum.errors import InputError
    from practicum.federated.fedgwc.federations import (
        ImageFederation,
        TableFederation,
        table_clients,
    )
    from practicum.federated.fedgwc.study import FedGWCStudy
    from practicum.study.report import write_atomically

    if not 0 < fraction <= 1:
        raise InputError(f"--fraction is {fraction:g}; above 0, up to 1")
    wanted = [a.strip() for a in arms.split(",") if a.strip()]
    unknown = [a for a in wanted if a not in FedGWCStudy.arms]
    if unknown or not wanted:
        found = f"no arm {', '.join(unknown)}" if unknown else "--arms names no arm"
        raise InputError(found, f"there are {', '.join(FedGWCStudy.arms)}")
    bundled = data in get_args(ImageSet)
    if not bundled and not Path(data).exists():
        known = ", ".join(get_args(ImageSet))
        raise InputError(f"--data {data}: no such file", f"a table, or one of {known}")
    if bundled and (client or label or group):
        raise InputError(f"--client, --label and --group are for tables, not for {data}")
    dealt = [n for n, v in (("--scenario", scenario), ("--clients", clients)) if v is not None]
    if client and dealt:
        raise InputError(
            f"{' and '.join(dealt)}: column {client!r} says who holds a row already",
            "leave --client out to deal the rows to clients anew",
        )
    k = len(table_clients(data, label, client, group)) if client else clients or 24
    shared = {
        "scenario": scenario or "mixed",
        "clients": clients or 24,
        "per_round": max(3, round(fraction * k)),
        "rounds": rounds,
        "groups": groups,
        "learning_rate": learning_rate,
    }
    own: Federation = (
        ImageFederation(data, **shared)
        if bundled
        else TableFederation(data, label, client, group, **shared)
    )
    cells: dict[str, list[dict]] = {}
    for seed in range(seeds):
        print(f"training every arm, seed {seed + 1} of {seeds}", file=sys.stderr)
        measured, log = own.run_with_log(seed)
        for arm, cell in measured.items():
            cells.setdefault(arm, []).append(cell)
    if isinstance(own, TableFederation):
        chosen = "" if label else " (the last; choose with --label)"
        print(f"Label: column {own.label_column!r}{chosen}; from {', '.join(own.feature_columns)}.")
    _print_arms(own, cells, wanted, seeds)
    _print_groups(own, cells)
    if out:
        table = _client_table(own.names, cells)
        print(f"Written: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")
    if losses:
        log.names = own.names
        frame = log.to_frame()
        print(f"Written: {write_atomically(losses, lambda p: frame.to_csv(p, index=False))}")
    if plot:
        from practicum.study.report import write_figures

        pictures = _pictures_of_a_run(own, {arm: runs[-1] for arm, runs in cells.items()})
        print(f"Written: {write_figures(pictures, plot, f'Federation of {own.source}')}")


def _print_arms(
    own: Federation, cells: dict[str, list[dict]], wanted: list[str], seeds: int
) -> None:
    import numpy as np

    k, m = len(own.names), own.per_round
    print(
        f"{k} clients, {m} a round, {own.rounds} rounds, {seeds} seed{'s' * (seeds > 1)}; accuracy "
        "on each client's own test rows."
    )
    meetings = own.split_at * m * (m - 1) / (k * (k - 1))
    if meetings < 10:
        needed = int(np.ceil(10 * own.rounds / meetings))
        print(
            f"Too few rounds to trust groups: a pair of clients meets {meetings:.1f} times before "
            f"the split after round {own.split_at} of {own.rounds}; --rounds {needed} or a larger "
            "--fraction would do."
        )
    truth = any("ari" in cell for cell in cells["joint"])
    print(f"{'arm':12s} {'mean':>7s} {'worst':>7s}" + (f" {'ARI':>6s}" if truth else ""))
    for arm in wanted:
        mean, worst = (np.mean([c[k] for c in cells[arm]]) for k in ("accuracy", "worst"))
        found = [c.get("ari_split", c["ari"]) for c in cells[arm] if "ari" in c]
        ari = f" {np.mean(found):6.2f}" if found else f" {'-':>6s}" * truth
        print(f"{arm:12s} {mean:7.3f} {worst:7.3f}{ari}")
    if truth:
        print(
            "ARI: agreement of the groups that were trained with the true ones, 1 if they are "
            "found, 0 by chance."
        )


def _print_groups(own: Federation, cells: dict[str, list[dict]]) -> None:
    """What joint found on the last seed, and whether it is worth anything."""
    from sklearn.metrics import adjusted_rand_score

    joint, one = cells["joint"][-1], cells["fedavg"][-1]
    gain = joint["client_accuracy"] - one["client_accuracy"]
    print(
        f"\nThe groups of joint serve {int((gain > 0).sum())} clients better than one model and "
        f"{int((gain < 0).sum())} worse; {gain.mean():+.3f} on average."
    )
    if joint["n_own"] != own.groups:
        alone = "would not split" if joint["n_own"] == 1 else f"finds {joint['n_own']}"
        print(
            f"The {own.groups} groups are there because --groups asks for so many: left to itself, "
            f"joint {alone} (--losses FILE, then cluster FILE, says why)."
        )
    _print_members(own.names, joint["trained_labels"])
    agreement = adjusted_rand_score(joint["trained_labels"], joint["labels"])
    if agreement < 1 and joint["n_own"] > 1:
        print(
            "The rounds after the split say otherwise: from all of them joint would group the "
            f"clients differently (agreement {agreement:.2f}); --losses FILE, then cluster FILE, "
            "shows these groups. More rounds before the split would help."
        )


def _print_members(names: list, labels: np.ndarray) -> None:
    import numpy as np

    for group in np.unique(labels):
        inside = np.flatnonzero(labels == group)
        count = f"{len(inside)} client{'s' * (len(inside) != 1)}"
        print(f"Group {group} ({count}): {', '.join(str(names[i]) for i in inside)}")


def _client_table(names: list, cells: dict[str, list[dict]]) -> pd.DataFrame:
    import pandas as pd

    joint, one, alone = (cells[arm][-1] for arm in ("joint", "fedavg", "local"))
    return pd.DataFrame(
        {
            "client": names,
            "group": joint["trained_labels"],
            "accuracy_one_model": one["client_accuracy"],
            "accuracy_group_model": joint["client_accuracy"],
            "accuracy_alone": alone["client_accuracy"],
        }
    )


def _groups_of(path: Path, clients: list) -> np.ndarray:
    """The group of every client that has class counts, in their order."""
    import pandas as pd

    from practicum.data.table import read_table
    from practicum.errors import InputError

    frame = read_table(path, ["client", "group"], numeric=False)
    if frame["client"].duplicated().any():
        twice = frame.loc[frame["client"].duplicated(), "client"].iloc[0]
        raise InputError(f"{path}: client {twice} occurs twice", "one group for each client")
    group = frame.set_index("client")["group"]
    absent = [c for c in clients if c not in group.index]
    if absent:
        raise InputError(f"{path}: no group for the clients {absent[:5]}")
    return pd.factorize(group.loc[clients])[0]


def _pictures_of_a_run(own: Federation, cells: dict[str, dict]) -> dict[str, Figure]:
    """Who gains from joint's groups, and the tree of the published procedure."""
    from practicum.federated.fedgwc.tree_plot import draw_splits
    from practicum.study.plots import colours, new_figure, style

    joint, one, official = (cells[arm] for arm in ("joint", "fedavg", "official"))
    gains = new_figure(
        "Test accuracy of every client under one model (across) and under the model of the group "
        "that joint trained it in (up); above the dotted line the client gains.",
        x="accuracy, one model",
        y="accuracy, its group's model",
    )
    before, after, labels = (
        one["client_accuracy"],
        joint["client_accuracy"],
        joint["trained_labels"],
    )
    for group, colour in colours(map(str, sorted(set(labels.tolist())))).items():
        inside = labels == int(group)
        gains.add_scatter(
            x=before[inside],
            y=after[inside],
            text=[str(name) for name, here in zip(own.names, inside, strict=True) if here],
            mode="markers",
            name=f"group {group}",
            marker={"color": colour, "size": 9},
        )
    ends = [float(min(before.min(), after.min())), 1.0]
    gains.add_scatter(
        x=ends, y=ends, mode="lines", line={"dash": "dot", "color": "#7F7F7F"}, showlegend=False
    )
    *at, rounds = official["tree_at"].tolist()
    truth = official["groups"] if own.has_truth else None
    tree = draw_splits(at, official["tree_labels"], rounds, names=own.names, groups=truth)
    caption = (
        "Which clients share a model in which rounds, by the published procedure (official), which "
        "decides by itself. Grey clusters were split later; an uncut bar never split."
    )
    return {
        "Who gains, client by client": gains,
        "How the published procedure splits": style(tree, caption, height=tree.layout.height),
    }


def _figures(log: LossLog, model: LossClusterer, decision: str) -> dict[str, Figure]:
    return {
        "Interaction": _heat(model, decision),
        "Rewards": _rewards(log, model),
        "Rounds in common": _meetings(log, model),
    }


def _heat(model: LossClusterer, decision: str) -> Figure:
    """What the groups were read from, clients sorted by group."""
    import numpy as np

    from practicum.study.plots import new_figure

    order = np.argsort(model.labels_, kind="stable")
    names = [str(model.names_[i]) for i in order]
    matrix = model.affinity_[np.ix_(order, order)].astype(float)
    np.fill_diagonal(matrix, np.nan)
    figure = new_figure(
        "What the groups were read from, clients sorted by group: blocks along the diagonal are "
        f"groups. {decision.replace('below ', '').removesuffix(' --groups 2 looks all the same.')}",
        x="client",
        y="client",
        height=520,
    )
    published = model.estimator == "ema"  # an affinity has no meaningful zero
    colour = {"colorscale": "Blues"} if published else {"colorscale": "RdBu_r", "zmid": 0}
    figure.add_heatmap(z=matrix, x=names, y=names, **colour)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(type="category", showgrid=False, autorange="reversed")
    return figure


def _rewards(log: LossLog, model: LossClusterer) -> Figure:
    """Mean reward of each group over rounds."""
    import numpy as np
    import pandas as pd

    from practicum.study.plots import colours, new_figure

    figure = new_figure(
        "Gaussian reward (1: behaves like the average of the round's clients), mean of each "
        "group, smoothed over rounds.",
        x="rounds in the log",
        y="reward",
    )
    table = log.rewards()
    window = max(1, log.n_rounds // 20)
    for group, colour in colours(map(str, np.unique(model.labels_))).items():
        own = table[:, model.labels_ == int(group)]
        seen = np.isfinite(own)
        mean = pd.Series(np.where(seen, own, 0).sum(1) / np.maximum(seen.sum(1), 1))
        mean[seen.sum(1) == 0] = np.nan
        smooth = mean.rolling(window, min_periods=1).mean()
        figure.add_scatter(y=smooth, name=f"group {group}", line={"color": colour})
    return figure


def _meetings(log: LossLog, model: LossClusterer) -> Figure:
    """How often pairs of clients met."""
    import numpy as np

    from practicum.study.plots import PALETTE, new_figure

    figure = new_figure(
        "How often pairs of clients trained in the same round. Left of the line there is too "
        "little to tell groups from noise.",
        x="rounds in common",
        y="pairs",
    )
    pairs = model.co_samples_[np.triu_indices(log.n_clients, 1)]
    figure.add_histogram(x=pairs, nbinsx=40, marker={"color": PALETTE[0]})
    figure.add_vline(
        x=model.min_co_samples,
        line={"dash": "dash", "color": PALETTE[1]},
        annotation={"text": "not enough rounds"},
        annotation_position="top left",
    )
    figure.update_xaxes(rangemode="tozero")
    return figure
