"""``practicum use fedgwc``: cluster a loss log, score a clustering, run a federation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np

    from practicum.federated.fedgwc.grouping import LossClusterer
    from practicum.federated.fedgwc.losses import LossLog

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
    view: Annotated[str, typer.Option(help="For ema: column or row.")] = "column",
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

    from practicum.federated.fedgwc.grouping import LossClusterer
    from practicum.federated.fedgwc.losses import read_loss_log
    from practicum.study.report import write_atomically

    read = read_loss_log(log)
    model = LossClusterer(
        groups or None, estimator=estimator, view=view, min_co_samples=min_co_samples
    ).fit(read)
    pairs = model.co_samples_[np.triu_indices(read.n_clients, 1)]
    print(
        f"{read.n_clients} clients, {read.n_rounds:,} rounds; the median pair of clients trained "
        f"together in {np.median(pairs):g} of them."
    )
    if model.n_clusters_ == 1:
        print("The losses do not speak for groups: keep one model.")
    for group in np.unique(model.labels_):
        named = [str(n) for n, g in zip(model.names_, model.labels_, strict=True) if g == group]
        print(f"Group {group} ({len(named)} clients): {', '.join(named)}")
    if out:
        table = pd.DataFrame({"client": model.names_, "group": model.labels_})
        print(f"Written: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")
    if plot:
        from practicum.study.report import write_figures

        print(f"Written: {write_figures(_figures(read, model), plot, f'Clients of {log.name}')}")


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
    ranked = wasserstein_adjusted_silhouette(table, groups)
    aware = wasserstein_adjusted_silhouette(table, groups, ranked=False)
    bouldin = wasserstein_adjusted_davies_bouldin(table, groups)
    print(f"{len(clients)} clients, {table.shape[1]} classes, {len(set(groups))} groups.")
    print(f"Wasserstein Adjusted Score {ranked:.4f} (-1 to 1, higher is better): groups are alike")
    print("  in how unevenly their clients hold the classes, whatever the classes are.")
    print(f"Label-aware score          {aware:.4f}: the same, but which classes they hold counts.")
    print(f"Adjusted Davies-Bouldin    {bouldin:.4f} (lower is better).")


@app.command()
def run(
    data: Annotated[str, typer.Option(help="fashion-mnist or digits.")] = "fashion-mnist",
    scenario: Annotated[
        str, typer.Option(help="conflict, two, mixed, domain, dirichlet or iid.")
    ] = "mixed",
    clients: Annotated[int, typer.Option(min=4)] = 24,
    fraction: Annotated[float, typer.Option(help="Share that trains in a round.")] = 0.25,
    rounds: Annotated[int, typer.Option(min=8)] = 400,
    arms: Annotated[str, typer.Option(help="Which to print, by commas.")] = (
        "fedavg,ifca,cfl,official,column,centred,joint"
    ),
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    losses: Annotated[
        Path | None, typer.Option(help="Write the loss log of the last seed.")
    ] = None,
) -> None:
    """Simulate a federation of a known kind and compare ways to cluster it.

    Example: practicum use fedgwc run --data digits --scenario conflict --rounds 200
    """
    import numpy as np

    from practicum.data.clients import client_data, load_images, partition
    from practicum.errors import InputError
    from practicum.federated.fedgwc.experiments import Settings, measure, run_all
    from practicum.federated.fedgwc.training import LocalSGD
    from practicum.study.report import write_atomically

    images = load_images(data)
    per_client, test = (300, 100) if data == "fashion-mnist" else (90, 30)
    settings = Settings.of(
        rounds=rounds,
        split_at=rounds // 4,
        per_round=max(3, round(fraction * clients)),
        n_clients=clients,
    )
    cells: dict[str, list[dict]] = {}
    for seed in range(seeds):
        plan = partition(
            images.labels, clients, scenario, n_per_client=per_client, replace=True, seed=seed
        )
        held = client_data(images, plan, test)
        options = {"batch_size": 64 if data == "fashion-mnist" else 16, "seed": seed}
        outcomes, log = run_all(
            lambda mu: LocalSGD(held, proximal=mu, **options),  # noqa: B023 - used at once
            held.groups,
            settings,
            seed,
        )
        truth = len(np.unique(held.groups)) > 1
        for arm, cell in measure(outcomes, held, log, truth=truth).items():
            cells.setdefault(arm, []).append(cell)
    wanted = [a.strip() for a in arms.split(",") if a.strip()]
    unknown = [a for a in wanted if a not in cells]
    if unknown:
        raise InputError(f"no arm {', '.join(unknown)}", f"there are {', '.join(sorted(cells))}")
    print(f"{clients} clients, {settings.per_round} a round, {rounds} rounds, {seeds} seeds.")
    print(f"{'arm':12s} {'accuracy':>9s} {'worst':>7s} {'ARI':>6s}")
    for arm in wanted:
        mean = {k: np.mean([c[k] for c in cells[arm]]) for k in ("accuracy", "worst")}
        found = [c["ari"] for c in cells[arm] if "ari" in c]
        ari = f"{np.mean(found):6.2f}" if found else "     -"
        print(f"{arm:12s} {mean['accuracy']:9.3f} {mean['worst']:7.3f} {ari}")
    if losses:
        frame = log.to_frame()
        print(f"Written: {write_atomically(losses, lambda p: frame.to_csv(p, index=False))}")


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


def _figures(log: LossLog, model: LossClusterer) -> dict:
    """The matrix by group, rewards over rounds, and how often pairs met."""
    import numpy as np
    import pandas as pd

    from practicum.study.plots import colours, new_figure

    order = np.argsort(model.labels_, kind="stable")
    names = [str(model.names_[i]) for i in order]
    matrix = model.affinity_[np.ix_(order, order)].astype(float)
    np.fill_diagonal(matrix, np.nan)
    heat = new_figure(
        "What the groups were read from, clients sorted by group: blocks along the diagonal are "
        "groups.",
        x="client",
        y="client",
        height=520,
    )
    heat.add_heatmap(z=matrix, x=names, y=names, colorscale="RdBu_r", zmid=0)
    heat.update_xaxes(type="category")
    heat.update_yaxes(type="category", autorange="reversed")

    rewards = new_figure(
        "Gaussian reward (1: behaves like the average of the round's clients), mean of each "
        "group, smoothed over rounds.",
        x="round",
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
        rewards.add_scatter(y=smooth, name=f"group {group}", line={"color": colour})

    met = new_figure(
        "How often pairs of clients trained in the same round. Left of the line there is too "
        "little to tell groups from noise.",
        x="rounds in common",
        y="pairs",
    )
    met.add_histogram(x=model.co_samples_[np.triu_indices(log.n_clients, 1)], nbinsx=40)
    met.add_vline(
        x=model.min_co_samples, line={"dash": "dash"}, annotation_text="not enough rounds"
    )
    return {"Interaction": heat, "Rewards": rewards, "Rounds in common": met}
