"""The study: four kinds of federations, fourteen ways to cluster or not, and three small checks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from plotly.subplots import make_subplots

from practicum.data import clients as fed
from practicum.federated.fedgwc.checks import message_bytes, reward_convergence, score_ranking
from practicum.federated.fedgwc.experiments import Settings, loss_based, measure, run_all
from practicum.federated.fedgwc.federations import TableFederation
from practicum.federated.fedgwc.owndata import LogComparison, is_loss_log
from practicum.federated.fedgwc.training import LocalSGD, Trainer
from practicum.federated.fedgwc.tree_plot import split_traces
from practicum.study import (
    Arm,
    Measure,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    greater_than,
    needs_more,
    never,
)
from practicum.study.evidence import Sample, bootstrap_interval, differences, number
from practicum.study.plots import add_ribbon, colours, new_figure, style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from practicum.data.kinds import UserData

SCENARIOS = {
    "conflict": "contradictory labels",
    "two": "disjoint classes",
    "mixed": "IID and skewed",
    "domain": "clean and noisy",
}
REWARDS, MESSAGES, SCORES = "rewards", "messages", "scores"
LOSS_BASED = tuple(loss_based(2, 0))
ROLES = "Orange: from losses, ours and published; blue: baselines; green: cheap; grey: controls."
MIN_SEEDS = 5  # of an interval that may refute

MEASURES = {
    "ari": Measure(
        "adjusted Rand index with the true groups, all rounds", "higher", bounds=(-0.5, 1.0)
    ),
    "stability": Measure(
        "adjusted Rand index between halves of the rounds", "higher", bounds=(-0.5, 1.0)
    ),
    "accuracy": Measure("accuracy, mean over clients", "higher", bounds=(0.0, 1.0)),
    "worst": Measure("accuracy of the worst client", "higher", bounds=(0.0, 1.0)),
    "was": Measure("Wasserstein Adjusted Score", "higher", bounds=(-1.0, 1.0)),
}


class FedGWCStudy(Study):
    """Clusters of clients from their losses, against what else finds them."""

    slug = "fedgwc"
    arms: ClassVar[Mapping[str, Arm]] = {
        "joint": Arm("method", "ours: rewards and co-movement of the losses, 2 groups"),
        "centred": Arm("method", "ours: rewards alone, both partners' levels removed, 2 groups"),
        "official": Arm("method", "published procedure: moving average, DB rule, recursion"),
        "column": Arm("method", "published affinity (as coded), 2 groups given"),
        "row": Arm("method", "the affinity in our reading of the text, 2 groups given"),
        "fedavg": Arm("baseline", "one global model"),
        "fedprox": Arm("baseline", "one global model, proximal local training (mu = 0.1)"),
        "ifca": Arm("baseline", "2 models; every client picks the one with the smaller loss"),
        "cfl": Arm("baseline", "split by update directions; every client in every round"),
        "trajectory": Arm("cheap", "k-means of loss trajectories, 20 windows"),
        "descent": Arm("cheap", "k-means of how the loss falls within a round"),
        "local": Arm("cheap", "every client alone"),
        "oracle": Arm("control", "the true groups, split at the same round"),
        "shuffled": Arm("control", "the groups of joint, dealt out to random clients"),
    }
    measures = MEASURES

    def __init__(self, own: LogComparison | TableFederation | None = None) -> None:
        self.own = own
        if isinstance(own, LogComparison):
            wanted = ("ari", "stability") if own.has_truth else ("stability",)
        elif own is not None:
            rest = ("accuracy", "worst", "was")
            wanted = ("ari", *rest) if own.has_truth else rest
        else:
            wanted = tuple(MEASURES)
        self.measures = {name: MEASURES[name] for name in wanted}

    # --- the grid ---

    def trials(self, scale: Scale) -> Iterator[Trial]:
        """Scenarios x arms x seeds, and the three checks."""
        if self.own is not None:
            yield from self._own_trials(scale)
            return
        scenarios = ("conflict", "mixed") if scale.name == "smoke" else SCENARIOS
        for seed in scale.seeds(smoke=2, cpu=10, paper=5):
            for scenario in scenarios:
                for arm in self.arms:
                    yield self.trial(scenario, arm, seed, **_sizes(scale))
            rounds = scale.pick(smoke=4096, cpu=4096, paper=16384)
            for arm in ("centred", "column"):
                yield self.trial(REWARDS, arm, seed, clients=24, per_round=6, rounds=rounds)
            for arm in ("joint", "fedavg", "ifca"):
                yield self.trial(MESSAGES, arm, seed, clients=6)
            n = scale.pick(smoke=80, cpu=1000, paper=1000)
            images = "digits" if scale.name == "smoke" else _pool_here()
            yield self.trial(SCORES, "joint", seed, clients=24, partitions=n, images=images)

    def _own_trials(self, scale: Scale) -> Iterator[Trial]:
        arms = LOSS_BASED if isinstance(self.own, LogComparison) else self.arms
        for seed in scale.seeds(smoke=2, cpu=10, paper=10):
            for arm in arms:
                name = self.source.name if self.source else "data"
                yield self.trial(name, arm, seed, **self._about())

    def _about(self) -> dict[str, str]:
        """What a person's table was taken for, shown with the results."""
        if not isinstance(self.own, TableFederation):
            return {}
        who = self.own.client or f"rows dealt out, {self.own.scenario}"
        return {"label": self.own.label_column, "clients": who}

    def group(self, trial: Trial) -> Hashable | None:
        """The arms of one federation share its draws and its unclustered phase."""
        if trial.dataset in (REWARDS, MESSAGES, SCORES) or isinstance(self.own, LogComparison):
            return None
        return (trial.dataset, trial.seed, trial.params)

    def run(self, trial: Trial) -> Mapping[str, Any]:
        """One arm of a federation (all are computed together and kept), or one check."""
        if isinstance(self.own, LogComparison):
            return self.own.run(trial.arm, trial.seed, trial.rng())
        data, training = (int(trial.rng(s).integers(2**31)) for s in ("data", "training"))
        if self.own is not None:
            return _own_table(self.own, data)[trial.arm]
        if trial.dataset == REWARDS:
            size = (trial["clients"], trial["per_round"], trial["rounds"])
            return reward_convergence(*size, trial.rng(), moving=trial.arm == "column")
        if trial.dataset == MESSAGES:
            way = {"joint": "fedgwc"}.get(trial.arm, trial.arm)
            return message_bytes(way, trial["clients"], data)
        if trial.dataset == SCORES:
            images = fed.load_images(trial["images"])
            plan = fed.partition(images.labels, trial["clients"], replace=True, seed=data)
            counts = fed.label_counts(images.labels[plan.index], images.n_classes)
            return score_ranking(counts, trial["partitions"], trial.rng())
        return _scenario(trial.dataset, data, training, trial.params)[trial.arm]

    # --- claims: thresholds are those of the specification, written before the run ---

    claims: ClassVar[Mapping[str, Callable[[Results], Verdict]]] = {
        "C1": lambda r: _claim_rewards(r),
        "C2": lambda r: _claim_groups(r),
        "C2b": lambda r: _exact(r, "centred", ("conflict",)),
        "C2c": lambda r: _claim_joint(r),
        "C3": lambda r: _claim_ifca(r),
        "C4": lambda r: _claim_accuracy(r),
        "C5": lambda r: _claim_bytes(r),
        "C6": lambda r: _claim_scores(r),
    }

    def figures(self, results: Results) -> Mapping[str, Figure]:
        """Agreement, accuracy, what rounds buy, the matrices, and the checks."""
        if len(results) == 0:
            return {}
        made = {
            "Who finds the groups": _by_arm(
                results,
                self.arms,
                "ari",
                "Adjusted Rand index with the true groups (1: found, 0: chance), mean and 95 % "
                "interval over seeds. Two groups are given to every arm but official, which "
                f"decides by itself. {ROLES}",
            ),
            "How many rounds it takes": _over_rounds(results),
            "How the published procedure splits": _trees(results),
            "What cluster models are worth": _by_arm(
                results,
                self.arms,
                "accuracy",
                "Test accuracy, mean over clients, minus that of one global model (fedavg) on the "
                "same draws and the same number of client updates; 95 % interval over seeds. The "
                f"oracle is told the true groups, shuffled deals joint's out at random. {ROLES}",
                against="fedavg",
            ),
            "Who gains, client by client": _clients(results),
            "The same losses, two matrices": _matrices(results),
            "Do two halves of the rounds agree?": _by_arm(
                results,
                self.arms,
                "stability",
                "Adjusted Rand index between the groups found in two random halves of the rounds, "
                "mean and 95 % interval over random halves. High stability does not make groups "
                "useful, low stability makes them noise.",
            ),
            "Does the estimate of a reward converge?": _convergence(results),
            "What the Wasserstein Adjusted Score orders": _score_scatter(results),
        }
        return {title: figure for title, figure in made.items() if figure is not None}

    # --- a person's own data ---

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        label: Annotated[str | None, "label column of a data table (default: the last)"] = None,
        client: Annotated[
            str | None, "column that says who holds a row (else they are dealt)"
        ] = None,
        group: Annotated[str | None, "column with the true group of each client"] = None,
        scenario: Annotated[str, "how rows are dealt without a client column"] = "mixed",
        clients: Annotated[int, "clients that rows are dealt to"] = 12,
        per_round: Annotated[int, "clients that train in a round, at least 3"] = 4,
        rounds: Annotated[int, "rounds of training on a data table"] = 200,
        groups: Annotated[int, "how many groups to look for"] = 2,
        learning_rate: Annotated[float, "of local SGD on a data table"] = 0.05,
    ) -> FedGWCStudy:
        """A loss log (``round,client,step,loss``), or a labelled table to train on."""
        path = str(source.path)
        if is_loss_log(path):
            return cls(LogComparison(path, groups, group))
        return cls(
            TableFederation(
                path,
                label,
                client,
                group,
                scenario=scenario,
                clients=clients,
                per_round=per_round,
                rounds=rounds,
                groups=groups,
                learning_rate=learning_rate,
            )
        )


# --- federations ---------------------------------------------------------------------------------


def _pool_here() -> str:
    """Fashion-MNIST where it is installed, the digits elsewhere."""
    return "fashion-mnist" if fed.DEBIAN_FOLDER.is_dir() else "digits"


def _sizes(scale: Scale) -> dict[str, Any]:
    """Everything that changes the numbers of a scenario."""
    pool = scale.pick(smoke="digits", cpu=_pool_here(), paper="cifar-100")
    few = pool == "digits"
    return {
        "images": pool,
        "clients": scale.pick(smoke=12, cpu=24, paper=100),
        "per_round": scale.pick(smoke=4, cpu=6, paper=10),
        "rounds": scale.pick(smoke=160, cpu=1200, paper=10_000),
        "split_at": scale.pick(smoke=80, cpu=300, paper=3000),
        "train": scale.pick(smoke=80, cpu=60 if few else 200, paper=500),
        "test": scale.pick(smoke=40, cpu=30 if few else 100, paper=100),
        "steps": scale.pick(smoke=8, cpu=8, paper=7),
        "batch": scale.pick(smoke=16, cpu=32 if few else 64, paper=64),
        "rate": scale.pick(smoke=0.1, cpu=0.05, paper=0.01),
    }


@lru_cache(maxsize=2)
def _scenario(
    kind: str, data_seed: int, seed: int, params: tuple[tuple[str, Any], ...]
) -> dict[str, dict[str, Any]]:
    """Metrics of every arm on one federation."""
    size = dict(params)
    images = fed.cifar100() if size["images"] == "cifar-100" else fed.load_images(size["images"])
    plan = fed.partition(
        images.labels,
        size["clients"],
        kind,
        n_per_client=size["train"] + size["test"],
        replace=size["images"] == "digits",
        seed=data_seed,
    )
    data = fed.client_data(images, plan, size["test"])
    settings = Settings.of(
        rounds=size["rounds"],
        split_at=size["split_at"],
        per_round=size["per_round"],
        n_clients=size["clients"],
    )
    outcomes, log = run_all(_trainers(data, size, seed), data.groups, settings, seed)
    return measure(outcomes, data, log, truth=True)


def _trainers(
    data: fed.ClientData, size: Mapping[str, Any], seed: int
) -> Callable[[float], Trainer]:
    """Trainers of this size by their proximal penalty."""
    shared = {
        "steps": size["steps"],
        "batch_size": size["batch"],
        "learning_rate": size["rate"],
        "seed": seed,
    }
    if size["images"] == "cifar-100":
        from practicum.federated.fedgwc.cnn import LocalCNN

        return lambda proximal: LocalCNN(data, proximal=proximal, **shared)
    return lambda proximal: LocalSGD(data, proximal=proximal, **shared)


@lru_cache(maxsize=2)
def _own_table(own: TableFederation, seed: int) -> dict[str, dict[str, Any]]:
    return own.run(seed)


# --- claims --------------------------------------------------------------------------------------


def _scenarios_in(results: Results) -> list[str]:
    return [s for s in SCENARIOS if results.has(dataset=s)]


def _federations_in(results: Results) -> list[str]:
    """The scenarios, or a person's own data."""
    own = [d for d in results.frame["dataset"].unique() if d not in (REWARDS, MESSAGES, SCORES)]
    return [s for s in SCENARIOS if s in own] + [d for d in own if d not in SCENARIOS]


def _mean_words(results: Results, metric: str, scenario: str, arms: tuple[str, ...]) -> str:
    parts = []
    for arm in arms:
        values = results.values(metric, arm=arm, dataset=scenario)
        if len(values):
            parts.append(f"{arm} {number(values.mean())}")
    return ", ".join(parts)


def _claim_rewards(results: Results) -> Verdict:
    slope = results.values("slope", dataset=REWARDS, arm="centred")
    ratio = results.values("floor_ratio", dataset=REWARDS, arm="column")
    late = results.values("slope", dataset=REWARDS, arm="column")
    if slope.empty or ratio.empty:
        return needs_more("No convergence run has finished.")
    note = (
        f"The published average with its constant rate stops improving (late slope "
        f"{number(late.mean())}): more rounds do not sharpen it."
    )
    return all_of(
        between(slope, -0.6, -0.4, "the slope of log error against log rounds (running mean)"),
        between(ratio, 0.9, 1.1, "the moving average's error over its predicted floor"),
        sentence=note,
    )


def _claim_groups(results: Results) -> Verdict:
    """Refuted, as the specification says, if the interval includes 0 on every scenario."""
    parts = []
    for scenario in _scenarios_in(results):
        values = results.values("ari", dataset=scenario, arm="column")
        if values.empty:
            continue
        also = _mean_words(results, "ari", scenario, ("official", "row", "trajectory"))
        verdict = at_least(values, 0.0, f"{scenario}: the published affinity's ARI")
        if verdict.status == "inconclusive" and len(values) >= MIN_SEEDS:
            # not told from chance is what refutes here, not a lack of seeds
            verdict = replace(verdict, status="not reproduced", p=None, seeds_needed=None)
        parts.append(replace(verdict, sentence=f"{verdict.sentence} ({also})"))
    return all_of(*parts) if parts else needs_more("No federation has finished.")


def _exact(results: Results, arm: str, scenarios: tuple[str, ...]) -> Verdict:
    values = np.concatenate(
        [np.zeros(0), *(results.values("ari", arm=arm, dataset=s) for s in scenarios)]
    )
    what = f"{arm} finds the groups of {' and '.join(scenarios)} exactly"
    if not len(values):
        return needs_more(f"{what}: no federation has finished.")
    verdict = never(int((values < 1 - 1e-12).sum()), len(values), what)
    # what is shown beside the reported value is the index, not the count of failures
    interval = bootstrap_interval(values) if len(values) >= MIN_SEEDS else None
    return replace(verdict, estimate=float(values.mean()), interval=interval)


def _claim_joint(results: Results) -> Verdict:
    exact = tuple(s for s in ("conflict", "two") if results.has(dataset=s))
    parts = [_exact(results, "joint", exact or ("conflict",))]
    ours, theirs = results.paired("ari", "joint", "column", dataset="mixed")
    if len(ours):
        what = "mixed: ARI of joint above that of the published affinity"
        parts.append(greater_than(ours, theirs, what=what))
    return all_of(*parts)


def _claim_ifca(results: Results) -> Verdict:
    parts = []
    for scenario in _scenarios_in(results):
        ours, theirs = results.paired("ari", "column", "ifca", dataset=scenario)
        if len(ours):
            means = f"({_mean_words(results, 'ari', scenario, ('column', 'ifca', 'joint'))})"
            verdict = greater_than(ours, theirs, what=f"{scenario}: ARI above IFCA's")
            parts.append(replace(verdict, sentence=f"{verdict.sentence} {means}"))
    ours, theirs = results.paired("was", "column", "ifca", dataset="mixed")
    if len(ours):
        parts.append(greater_than(ours, theirs, what="mixed: Wasserstein Adjusted Score above"))
    return all_of(*parts) if parts else needs_more("No pair of runs has finished.")


def _claim_accuracy(results: Results) -> Verdict:
    """Judged where the true groups help: nothing is to be gained from finding them elsewhere."""
    parts, skipped, helps = [], [], {}
    for scenario in _scenarios_in(results):
        best, one = results.paired("accuracy", "oracle", "fedavg", dataset=scenario)
        ours, common = results.paired("accuracy", "column", "fedavg", dataset=scenario)
        if best.empty or ours.empty:
            continue
        helps[scenario] = greater_than(best, one)
        if helps[scenario].status != "reproduced":
            skipped.append(f"{scenario} (oracle minus fedavg {helps[scenario].interval})")
            continue
        arms = ("fedavg", "column", "official", "joint", "oracle", "ifca", "cfl", "local")
        means = f"({_mean_words(results, 'accuracy', scenario, arms)})"
        verdict = greater_than(ours, common, what=f"{scenario}: accuracy of column above fedavg")
        parts.append(replace(verdict, sentence=f"{verdict.sentence} {means}"))
    if not parts:
        return _nothing_to_gain(helps, skipped)
    note = ""
    if skipped:
        note = f"Not counted, since the true groups are not seen to help: {'; '.join(skipped)}."
    return all_of(*parts, sentence=note)


def _nothing_to_gain(helps: Mapping[str, Verdict], skipped: list[str]) -> Verdict:
    """No scenario to judge C4 in: for want of seeds, or because true groups help in none."""
    if not helps:
        return needs_more("No federation has finished.")
    words = f"The true groups are not seen to help: {'; '.join(skipped)}."
    if all(verdict.status == "not reproduced" for verdict in helps.values()):
        return needs_more(f"{words} It takes data whose true groups do.")
    needed = {s: v.seeds_needed for s, v in helps.items() if v.seeds_needed}
    first = min(needed, key=needed.__getitem__, default=None)
    if first is None:
        return Verdict("inconclusive", f"{words} More seeds would tell.")
    tell = f"About {needed[first]:,} seeds would tell for {first}."
    return Verdict("inconclusive", f"{words} {tell}", seeds_needed=needed[first])


def _claim_bytes(results: Results) -> Verdict:
    ours, theirs = results.paired("bytes", "joint", "fedavg", dataset=MESSAGES)
    if ours.empty:
        return needs_more("No message has been counted.")
    extra = 100 * (ours / theirs - 1)
    ifca, base = results.paired("bytes", "ifca", "fedavg", dataset=MESSAGES)
    note = f"(IFCA with 2 models: {number(100 * (ifca / base - 1).mean())} %)" if len(ifca) else ""
    verdict = at_most(extra, 1.0, "bytes for each client and round above FedAvg's, in per cent,")
    return replace(verdict, sentence=f"{verdict.sentence} {note}")


def _claim_scores(results: Results) -> Verdict:
    part = results.where(dataset=SCORES)
    fixed, free = part.values("spearman_fixed"), part.values("spearman_any")
    if fixed.empty:
        return needs_more("No partition has been scored.")
    changed, checked = part.values("changed").sum(), part.values("checked").sum()
    return all_of(
        at_least(fixed, 0.8, "Spearman among clusterings of one number of clusters"),
        at_least(free, 0.8, "Spearman among clusterings of 2 to 5 clusters"),
        never(int(changed), int(checked), "the score ignores what a client's classes are called"),
    )


# --- figures -------------------------------------------------------------------------------------


def _by_arm(
    results: Results,
    arms: Mapping[str, Arm],
    metric: str,
    caption: str,
    against: str | None = None,
) -> Figure | None:
    """One panel a data set: a dot and an interval for every arm that has the metric."""
    panels = {}
    for name in _federations_in(results):
        rows = {}
        for arm in arms:
            values = results.values(metric, arm=arm, dataset=name)
            if against is not None:
                ours, base = results.paired(metric, arm, against, dataset=name)
                values = differences(ours, base) if len(ours) else ours
            if len(values) and arm != against:
                rows[arm] = np.asarray(values, dtype=float)
        if rows:
            panels[name] = rows
    if not panels:
        return None
    titles = [f"{n}: {SCENARIOS[n]}" if n in SCENARIOS else n for n in panels]
    figure = make_subplots(1, len(panels), subplot_titles=titles, shared_yaxes=True)
    order = [a for a in arms if any(a in rows for rows in panels.values())][::-1]
    palette = {"method": "#D55E00", "baseline": "#0072B2", "cheap": "#009E73", "control": "#7F7F7F"}
    for column, rows in enumerate(panels.values(), start=1):
        for arm in [a for a in order if a in rows]:
            _dot(figure, arm, rows[arm], palette[arms[arm].role], column)
        name = {"ari": "adjusted Rand index", "stability": "adjusted Rand index"}.get(
            metric, metric
        )
        title = f"{name} − {against}" if against else name
        figure.update_xaxes(title={"text": title, "font": {"size": 12}}, row=1, col=column)
    figure.update_yaxes(categoryorder="array", categoryarray=order)
    return _panels(figure, caption, height=140 + 30 * len(order))


def _panels(figure: Figure, caption: str, height: int) -> Figure:
    """The house style for panels side by side: small titles, and the legend above them."""
    style(figure, caption, height=height)
    if any(trace.showlegend is not False for trace in figure.data):
        figure.update_layout(margin={"t": 70}, legend={"y": 1.0 + 36 / (height - 125)})
    for note in figure.layout.annotations:
        note.font.size = 12
    return figure


def _dot(figure: Figure, arm: str, values: np.ndarray, colour: str, column: int) -> None:
    interval = Sample(values).interval()
    low, high = interval.low, interval.high
    error = None
    if np.isfinite([low, high]).all():
        error = {
            "type": "data",
            "symmetric": False,
            "array": [high - values.mean()],
            "arrayminus": [values.mean() - low],
        }
    figure.add_scatter(
        x=[values.mean()],
        y=[arm],
        error_x=error,
        mode="markers",
        marker={"color": colour, "size": 9},
        showlegend=False,
        hovertemplate=f"{arm}: %{{x:.3f}}, {len(values)} seeds<extra></extra>",
        row=1,
        col=column,
    )


def _over_rounds(results: Results) -> Figure | None:
    scenarios = [s for s in _scenarios_in(results) if results.curves("ari_path", dataset=s).size]
    if not scenarios:
        return None
    titles = [f"{s}: {SCENARIOS[s]}" for s in scenarios]
    figure = make_subplots(1, len(scenarios), subplot_titles=titles, shared_yaxes=True)
    palette = colours(LOSS_BASED)
    for column, scenario in enumerate(scenarios, start=1):
        for arm in LOSS_BASED:
            paths = results.curves("ari_path", dataset=scenario, arm=arm)
            if paths.size:
                rounds = results.curves("rounds_path", dataset=scenario, arm=arm)[0]
                where = {"row": 1, "col": column}
                first = column == 1
                add_ribbon(figure, rounds, paths, arm, palette[arm], where=where, showlegend=first)
                figure.update_xaxes(tickvals=rounds, **where)
        figure.update_xaxes(title="rounds", type="log", row=1, col=column)
    figure.update_yaxes(title="adjusted Rand index", row=1, col=1)
    return _panels(
        figure,
        "Agreement of loss-based groupings with the true groups against rounds of training, mean "
        "and 95 % band over seeds. Co-movement (in joint) needs a fraction of the rounds that "
        "rewards alone need.",
        height=430,
    )


def _trees(results: Results) -> Figure | None:
    """Clusters over rounds, of the first seed; one panel a federation."""
    cells = {}
    for name in _federations_in(results):
        official = results.where(dataset=name, arm="official").outcomes
        if official and "tree_at" in official[0].curves:
            cells[name] = official[0].curves
    if not cells:
        return None
    figure = make_subplots(1, len(cells), subplot_titles=list(cells))
    truth = any("ari_path" in o.curves for o in results.where(arm="joint").outcomes)
    for column, cell in enumerate(cells.values(), start=1):
        *at, rounds = cell["tree_at"].astype(int).tolist()
        groups = cell["groups"].astype(int) if truth else None
        for trace in split_traces(at, cell["tree_labels"].astype(int), rounds, groups=groups):
            first = column == 1 and trace.legendgroup is not None
            figure.add_trace(trace.update(showlegend=first), row=1, col=column)
        figure.update_xaxes(title="round", showgrid=False, row=1, col=column)
    figure.update_yaxes(showgrid=False, showticklabels=False, zeroline=False)
    figure.update_yaxes(title="clients", row=1, col=1)
    return _panels(
        figure,
        "One federation each: which clients share a model in which rounds, by the published "
        "procedure that decides by itself. Grey clusters were split later; dots are true groups, "
        "where they are known. An uncut bar: it never split.",
        height=380,
    )


def _clients(results: Results) -> Figure | None:
    """Every client's accuracy under one model and under its cluster's, one panel a scenario."""
    panels = {}
    for scenario in _scenarios_in(results):
        before = {o.trial.seed: o for o in results.where(dataset=scenario, arm="fedavg").outcomes}
        after = {o.trial.seed: o for o in results.where(dataset=scenario, arm="joint").outcomes}
        seeds = sorted(before.keys() & after.keys())
        if seeds:
            panels[scenario] = [(before[s].curves, after[s].curves) for s in seeds]
    if not panels:
        return None
    titles = [f"{s}: {SCENARIOS[s]}" for s in panels]
    figure = make_subplots(1, len(panels), subplot_titles=titles)
    for column, pairs in enumerate(panels.values(), start=1):
        one, own, group = (
            np.concatenate([pair[side][key] for pair in pairs])
            for side, key in ((0, "client_accuracy"), (1, "client_accuracy"), (0, "groups"))
        )
        for g, colour in colours(map(str, np.unique(group).astype(int))).items():
            figure.add_scatter(
                x=one[group == int(g)],
                y=own[group == int(g)],
                mode="markers",
                marker={"color": colour, "size": 5, "opacity": 0.5},
                name=f"true group {g}",
                legendgroup=g,
                showlegend=column == 1,
                row=1,
                col=column,
            )
        ends = [float(min(one.min(), own.min())), 1.0]
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            line={"dash": "dot", "color": "#7F7F7F"},
            showlegend=False,
            row=1,
            col=column,
        )
        figure.update_xaxes(title="accuracy, one model", row=1, col=column)
    figure.update_yaxes(title="accuracy, its cluster's model", row=1, col=1)
    return _panels(
        figure,
        "Test accuracy of every client of every seed under one global model (across) and under the "
        "model of the cluster that joint put it in (up); above the dotted line the client gains.",
        height=380,
    )


def _matrices(results: Results) -> Figure | None:
    """Published affinity and joint interaction of one federation, clients sorted by true group."""
    for scenario in _scenarios_in(results):
        shown = {
            arm: outcome
            for arm in ("column", "joint")
            for outcome in results.where(dataset=scenario, arm=arm).outcomes[:1]
            if "matrix" in outcome.curves
        }
        if len(shown) == 2:
            break
    else:
        return None
    titles = ["published affinity", "joint interaction (ours)"]
    figure = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.12)
    for column, (arm, outcome) in enumerate(shown.items(), start=1):
        order = np.argsort(outcome.curves["groups"], kind="stable")
        matrix = outcome.curves["matrix"][np.ix_(order, order)].astype(float)
        np.fill_diagonal(matrix, np.nan)
        bounds = {"zmid": 0, "colorscale": "RdBu_r"} if arm == "joint" else {"colorscale": "Blues"}
        bar = {"x": 0.44 if column == 1 else 1.0, "len": 0.9, "thickness": 12}
        figure.add_heatmap(z=matrix, colorbar=bar, row=1, col=column, **bounds)
        figure.update_xaxes(title="client, sorted by true group", row=1, col=column)
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(autorange="reversed", showgrid=False, zeroline=False)
    figure.update_yaxes(title="client", row=1, col=1)
    style(
        figure,
        f"One federation ({scenario}), the same losses: groups are blocks along the diagonal. The "
        "published affinity is dominated by clients that are far from everybody.",
        height=460,
    )
    return figure


def _convergence(results: Results) -> Figure | None:
    part = results.where(dataset=REWARDS)
    if not len(part):
        return None
    figure = new_figure(
        "Root mean square error of a pair's estimated reward against rounds, where the truth is "
        "known; mean and 95 % band over seeds. The mean keeps improving as 1/sqrt(rounds); the "
        "published average stops at its noise floor (dashed).",
        x="rounds",
        y="error",
        log_x=True,
        log_y=True,
    )
    names = {"column": "published moving average", "centred": "mean over common rounds"}
    for (arm, name), colour in zip(names.items(), ("#0072B2", "#D55E00"), strict=True):
        errors = part.curves("error", arm=arm)
        if errors.size:
            rounds = part.curves("at_round", arm=arm)[0]
            add_ribbon(figure, rounds, errors, name, colour)
            figure.update_xaxes(tickvals=rounds)
    figure.update_yaxes(tickvals=[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
    floor = part.values("floor")
    if len(floor):
        figure.add_hline(y=float(floor.mean()), line={"dash": "dash", "color": "#0072B2"})
    return figure


def _score_scatter(results: Results) -> Figure | None:
    outcomes = results.where(dataset=SCORES).outcomes[:1]
    if not outcomes:
        return None
    curves = outcomes[0].curves
    figure = new_figure(
        "Partitions of one federation, from sorted by imbalance to random: within a number of "
        "clusters the score orders them by the variance of sorted class frequencies; across "
        "numbers of clusters it does not.",
        x="within-cluster variance of sorted class frequencies",
        y="Wasserstein Adjusted Score",
    )
    for k, colour in colours(map(str, range(2, 6))).items():
        chosen = curves["n_groups"] == int(k)
        figure.add_scatter(
            x=curves["variance"][chosen],
            y=curves["score"][chosen],
            mode="markers",
            name=f"{k} clusters",
            marker={"color": colour, "size": 5, "opacity": 0.6},
        )
    return figure
