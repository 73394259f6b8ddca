"""``practicum use ssar``: look at a log, decide what to trust, fit, evaluate, see beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.errors import InputError
from practicum.rl.ssar.reading import Reading, own_log, reads_log
from practicum.study.command import Progress, notes, refuse_existing

if TYPE_CHECKING:
    from practicum.data.offline import OfflineDataset
    from practicum.rl.ssar.trust import TrustReport

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Learn to control from a log of mixed quality: trust its better part, and its states "
    "where the policy agrees with it.",
)

LOG_HELP = (
    "The log: NPZ, HDF5 (D4RL, d3rlpy), CSV, Parquet, a Minari id or folder; or a set of ours: "
    "pendulum:mixed-20, maze:mixed-20."
)
Log = Annotated[str, typer.Argument(help=LOG_HELP, show_default=False)]
Model = Annotated[Path, typer.Argument(help="What fit wrote.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]
Method = Annotated[
    Literal["auto", "traj", "iql", "all"],
    typer.Option(
        help="traj (auto): whole episodes by return or success; iql: single actions that are at "
        "least as good as the log's usual ones, by a critic trained first; all: everything.",
    ),
]
RefReturn = Annotated[
    float | None,
    typer.Option(
        help="Trust episodes that return more than this (sum of rewards).",
        show_default="where returns split best into two groups",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Plot = Annotated[
    Path | None, typer.Option(help="Write figures to this HTML file.", show_default=False)
]


# ------------------------------------------------------------- a log to begin with


@app.command()
def sample(
    name: Annotated[
        str,
        typer.Argument(
            help="expert, medium, mixed-20 or mixed-anti, of the pendulum; maze:mixed-20 of the "
            "maze."
        ),
    ] = "mixed-20",
    episodes: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    out: Annotated[Path, typer.Option(help="The log (NPZ).")] = Path("log.npz"),
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write a log to try things on: a pendulum driven well in a fifth of the episodes, say.

    Example: practicum use ssar sample mixed-20 --out log.npz
    """
    from practicum.study.report import write_atomically

    refuse_existing([out], overwrite, "--overwrite")
    if out.suffix.lower() != ".npz":
        raise InputError(f"--out {out}: an .npz file is written", "name it log.npz, say")
    data = own_log(name if ":" in name else f"pendulum:{name}", episodes, seed)
    with notes():
        written = write_atomically(out, data.to_npz)
    typer.echo(data.describe())
    typer.echo(f"Log: {written}")
    typer.echo(f"Next: practicum use ssar trust {written}")


# ------------------------------------------------------------- trust


@app.command()
@reads_log
def trust(
    log: Log,
    method: Method = "auto",
    ref_return: RefReturn = None,
    critic_steps: Annotated[
        int, typer.Option(min=1, help="Of the training of iql's critic.")
    ] = 10_000,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV, a row per episode: first row, steps, return, trusted steps.",
            show_default=False,
        ),
    ] = None,
    plot: Plot = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    *,
    reading: Reading,
) -> None:
    """Say which part of a log is trusted, and by which rule.

    Example: practicum use ssar trust log.npz --ref-return -500 --plot trust.html
    """
    from practicum.rl.ssar.trust import return_quantiles
    from practicum.study.report import write_atomically, write_figures

    refuse_existing([out, plot], overwrite, "--overwrite")
    with notes():
        data = reading.read(log)
        typer.echo(data.describe())
        report = _trust(data, method, ref_return, critic_steps, seed)
    typer.echo(report.describe())
    typer.echo(
        f"Returns of the {len(report.returns):,} episodes: {return_quantiles(report.returns)}"
    )
    if report.trusted_episodes.any() and not report.trusted_episodes.all():
        typer.echo(
            "Of the trusted ones alone: "
            + return_quantiles(report.returns[report.trusted_episodes])
        )
    if out is not None:
        frame = _episode_table(data, report)
        typer.echo(f"Episodes: {write_atomically(out, lambda p: frame.to_csv(p, index=False))}")
    if plot is not None:
        figures = {"Returns and trust": _return_figure(data, report)}
        typer.echo(f"Figure: {write_figures(figures, plot, f'What is trusted in {data.name}')}")


def _trust(
    data: OfflineDataset, method: str, ref_return: float | None, critic_steps: int, seed: int
) -> TrustReport:
    from practicum.rl.ssar import trust as rules

    if method == "iql":
        if ref_return is not None:
            raise InputError("--ref-return goes with --method traj; iql trusts single actions")
        from practicum.rl.ssar.iql import trust_by_advantage

        typer.echo(f"Training the critic that judges actions: {critic_steps:,} steps.", err=True)
        return trust_by_advantage(data, steps=critic_steps, hidden=(64, 64), seed=seed)
    if method == "all" and ref_return is not None:
        raise InputError("--ref-return goes with --method traj; all trusts everything")
    return rules.trust(data, method, ref_return=ref_return)


def _episode_table(data: OfflineDataset, report: TrustReport) -> Any:
    import numpy as np
    import pandas as pd

    starts = data.episodes[:, 0]
    ends = data.episodes[:, 1] - 1
    return pd.DataFrame(
        {
            "episode": np.arange(len(starts)),
            "first_row": starts,
            "steps": data.episode_lengths(),
            "return": report.returns,
            "ended_by_itself": data.terminals[ends],
            "trusted_steps": np.add.reduceat(report.trusted.astype(int), starts),
        }
    )


BINS = 40


def _return_figure(data: OfflineDataset, report: TrustReport) -> Any:
    """Histogram of the episodes' returns, trusted and not, with the cut."""
    import numpy as np
    import plotly.graph_objects as go

    from practicum.study.plots import PALETTE, new_figure

    returns, chosen = report.returns, report.trusted_episodes
    figure = new_figure(
        f"Returns of the {len(returns)} episodes of {data.name} (sum of rewards, undiscounted). "
        f"{int(chosen.sum())} hold trusted transitions: {report.rule}.",
        x="return of an episode",
        y="episodes",
        barmode="stack",
    )
    size = (float(np.ptp(returns)) or 1.0) / BINS
    # an edge lies on the cut, so that no bar is trusted in part by its return
    low = returns.min() if report.cut is None else report.cut
    edges = low + size * np.arange(
        np.floor((returns.min() - low) / size), np.ceil((returns.max() - low) / size) + 2
    )
    for name, mask, colour in (
        ("trusted", chosen, PALETTE[0]),
        ("not trusted", ~chosen, PALETTE[7]),
    ):
        counts, _ = np.histogram(returns[mask], edges)
        centres = (edges[:-1] + edges[1:]) / 2
        figure.add_trace(
            go.Bar(x=centres, y=counts, width=size, name=name, marker={"color": colour})
        )
    if report.cut is not None:
        figure.add_vline(
            x=report.cut,
            line={"color": PALETTE[1], "dash": "dash"},
            annotation={"text": f"cut {report.cut:,.4g}", "showarrow": False},
        )
    return figure


# ------------------------------------------------------------- fit and evaluate


@app.command()
@reads_log
def fit(
    log: Log,
    base: Annotated[
        Literal["td3bc", "cql"],
        typer.Option(help="What is held to the log: the policy (TD3+BC) or the values (CQL)."),
    ] = "td3bc",
    env: Annotated[
        str | None,
        typer.Option(
            help="Gymnasium id to try the policies in, or none.",
            show_default="the one the log names",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of gradient descent.")] = 10_000,
    seeds: Annotated[int, typer.Option(min=1, help="Policies trained side by side.")] = 5,
    trust: Method = "auto",
    ref_return: RefReturn = None,
    against: Annotated[
        str,
        typer.Option(
            help="Baselines trained on the same log with the same steps and seeds: bc, "
            "filtered-bc (clones the trusted part), td3bc or cql (no selection, fixed weight), "
            "iql; separated by commas, or none."
        ),
    ] = "filtered-bc",
    hidden: Annotated[int, typer.Option(min=1, help="Width of the two hidden layers.")] = 64,
    batch: Annotated[int, typer.Option(min=1, help="Transitions in a step.")] = 128,
    gamma: Annotated[float, typer.Option(help="Discount, in (0, 1].")] = 0.99,
    reward_scale: Annotated[
        float,
        typer.Option(help="Rewards are multiplied by it in training; 0: 1 / the largest."),
    ] = 0.0,
    beta0: Annotated[
        float | None,
        typer.Option(
            help="Weight of the pull to the log, where beta starts.",
            show_default="0.4 for td3bc, 10 for cql",
        ),
    ] = None,
    adaptive: Annotated[bool, typer.Option(help="Learn beta(s), or keep its start value.")] = True,
    episodes: Annotated[int, typer.Option(min=1, help="Of the evaluation, each policy.")] = 32,
    out: Annotated[Path, typer.Option(help="The policies (safetensors).")] = Path(
        "model.safetensors"
    ),
    plot: Plot = None,
    seed: Seed = 0,
    device: Device = "auto",
    overwrite: Overwrite = False,
    *,
    reading: Reading,
) -> None:
    """Learn policies from a log and say what they return, beside what else there is.

    LOG is NPZ, HDF5 (D4RL, d3rlpy), CSV, TSV, Parquet or JSONL (a row per step: obs_*, act_*,
    reward, terminal), a Minari id or folder, or pendulum:mixed-20.

    Example: practicum use ssar fit log.npz --env Pendulum-v1 --steps 10000 --out model.safetensors
    """
    from practicum.models.stacked import single_thread
    from practicum.rl.ssar.agent import SSAR
    from practicum.study.report import write_atomically, write_figures

    refuse_existing([out, plot], overwrite, "--overwrite")
    arms = _baselines(against, base)
    with notes():
        data = reading.read(log)
        typer.echo(data.describe())
        where = _environment(env, data)
        common = {
            "steps": steps,
            "hidden": (hidden, hidden),
            "batch": batch,
            "gamma": gamma,
            "reward_scale": reward_scale or 1 / max(float(abs(data.rewards).max()), 1e-6),
            "seeds": seeds,
            "random_state": seed,
            "device": _device(device),
        }
        rules = {"base": base, "beta0": beta0, "trust": trust, "ref_return": ref_return}
        agents = {
            f"SSAR on {BASES[base]}": SSAR(**rules, adaptive=adaptive, **common),
            **{arm: _baseline(arm, rules, common) for arm in arms},
        }
        typer.echo(
            f"Training: {', '.join(agents)}; {steps:,} steps, {seeds} seeds, two hidden layers of "
            f"{hidden}, discount {gamma:g}, rewards x {common['reward_scale']:.3g}."
        )
        with single_thread() if common["device"] == "cpu" else nullcontext():
            for name, agent in agents.items():
                # the method's curve is worth evaluations on the way; a baseline's end is enough
                curve = None if name in arms else where
                with Progress(f"steps of {name}", steps) as progress:
                    agent.fit(data, curve, max(1, steps // 10), progress=progress)
            ours = next(iter(agents.values()))
            if ours.trust_report_ is not None:
                typer.echo(ours.trust_report_.describe())
            _tell(agents, data, where, episodes, seed)
        typer.echo(_beta_line(ours, data))
        write_atomically(out, ours.save)
    typer.echo(
        f"Policies: {out} ({seeds} of them; practicum.rl.ssar.SSAR.load(...).predict(obs) acts)"
    )
    if plot is not None:
        figures = _curves(ours, where)
        typer.echo(f"Figures: {write_figures(figures, plot, f'SSAR on {data.name}')}")


@app.command()
def evaluate(
    model: Model,
    env: Annotated[
        str | None,
        typer.Option(help="Gymnasium id.", show_default="the one the log named"),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Of each policy.")] = 100,
    out: Annotated[
        Path | None,
        typer.Option(help="CSV, a row per policy and episode.", show_default=False),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Try saved policies in an environment, beside random actions.

    Example: practicum use ssar evaluate model.safetensors --env Pendulum-v1 --episodes 100
    """
    from practicum.models.stacked import single_thread
    from practicum.rl.ssar.evaluation import random_returns
    from practicum.study.report import write_atomically

    refuse_existing([out], overwrite, "--overwrite")
    agent = _load(model, device)
    where = env or agent.env_id_
    if where is None:
        raise InputError(f"{model}: its log named no environment", "name one with --env")
    with notes(), single_thread():
        result = agent.evaluate(where, episodes, seed)
        random = random_returns(where, episodes=episodes, seed=seed)
    steps = f"{result.lengths.min()}-{result.lengths.max()}"
    typer.echo(
        f"{model.name} in {result.env}: {len(result.mean)} policies, {episodes} episodes each "
        f"(the same starts, seed {seed}; {steps} steps)."
    )
    rows = [(f"policy {k}", [value]) for k, value in enumerate(result.mean)]
    if len(result.mean) > 1:
        rows = [("all policies", result.mean), *rows]
    typer.echo(_table([*rows, ("random actions", [random.mean()])], "return"))
    if result.terminated.any():
        typer.echo(f"{100 * result.terminated.mean():.0f} % of the episodes ended by themselves.")
    if out is not None:
        frame = _evaluation_table(result)
        typer.echo(f"Episodes: {write_atomically(out, lambda p: frame.to_csv(p, index=False))}")


def _evaluation_table(result: Any) -> Any:
    import numpy as np
    import pandas as pd

    policies, episodes = result.returns.shape
    return pd.DataFrame(
        {
            "policy": np.repeat(np.arange(policies), episodes),
            "episode": np.tile(np.arange(episodes), policies),
            "return": result.returns.ravel(),
            "steps": result.lengths.ravel(),
            "ended_by_itself": result.terminated.ravel(),
        }
    )


BASES = {"td3bc": "TD3+BC", "cql": "CQL"}
BASELINES = ("bc", "filtered-bc", "td3bc", "cql", "iql")


def _baselines(text: str, base: str) -> list[str]:
    from difflib import get_close_matches

    arms = [a.strip() for a in text.split(",") if a.strip() and a.strip() != "none"]
    for arm in arms:
        if arm not in BASELINES:
            near = get_close_matches(arm, BASELINES, n=1)
            raise InputError(
                f"--against {arm}: no such baseline",
                (f"did you mean {near[0]}? " if near else "") + f"there are {', '.join(BASELINES)}",
            )
    return arms


def _baseline(arm: str, rules: Mapping[str, Any], common: Mapping[str, Any]) -> Any:
    from practicum.rl.ssar.agent import SSAR, Baseline

    if arm in ("td3bc", "cql"):
        off = {"select": False, "adaptive": False, "restrict": False}
        return SSAR(base=arm, **off, **common)
    return Baseline(arm, ref_return=rules["ref_return"], **common)


def _environment(env: str | None, data: OfflineDataset) -> str | None:
    """Where policies are tried; whether it fits is seen before the training, not after it."""
    from practicum.rl.ssar.evaluation import open_batch

    if env == "none":
        return None
    where = env or data.env_id
    if where is None:
        typer.echo("No environment is named (--env): returns will be estimated from the log.")
        return None
    open_batch(where, 1, 1, data).close()
    return where


def _tell(
    agents: Mapping[str, Any], data: OfflineDataset, where: str | None, episodes: int, seed: int
) -> None:
    """What every arm returns, beside the log and random actions."""
    from practicum.rl.ssar.evaluation import random_returns

    ours = next(iter(agents.values()))
    report = ours.trust_report_
    chosen = report.trusted_episodes if report is not None and report.method == "traj" else None
    if where is None:
        what = f"discounted return ({ours.gamma:g}), estimated"
        rows = [(name, agent.estimate()) for name, agent in agents.items()]
        logged = _discounted(data, ours.gamma)
    else:
        what = f"return in {where}"
        rows = [
            (name, agent.evaluate(where, episodes, seed).mean) for name, agent in agents.items()
        ]
        logged = data.returns()
    others = [("the log, all episodes", [logged.mean()])]
    if chosen is not None and not chosen.all():
        others.append(("the log, episodes picked by return", [logged[chosen].mean()]))
    if where is not None:
        drawn = random_returns(where, episodes=episodes, seed=seed, data=data)
        others.append(("random actions", [drawn.mean()]))
    typer.echo(_table([*rows, *others], what))
    if where is not None and rows[0][1].mean() <= drawn.mean():
        typer.echo(f"{rows[0][0]} is no better than random actions: try more --steps.")
    if where is None:
        typer.echo(
            "These are estimates by fitted-Q evaluation on the log itself: where a policy leaves "
            "the log they may be far off. Try the policies before you rely on them."
        )
    _verdict(rows)


def _discounted(data: OfflineDataset, gamma: float) -> Any:
    import numpy as np

    age = np.arange(len(data)) - data.episodes[data.episode_of, 0]
    return np.add.reduceat(data.rewards * gamma**age, data.episodes[:, 0])


def _verdict(rows: Sequence[tuple[str, Any]]) -> None:
    """Whether the method is ahead of the best baseline, from the seeds' interval."""
    from practicum.study.evidence import bootstrap_interval, differences

    (name, ours), *others = rows
    if not others:
        return
    best, theirs = max(others, key=lambda row: row[1].mean())
    if len(ours) < 2:
        typer.echo("One seed says nothing of the spread: use --seeds 5.")
        return
    gap = differences(ours, theirs)
    interval = bootstrap_interval(gap)
    ahead = "may or may not be ahead of"
    if not interval.low <= 0 <= interval.high:
        ahead = "is ahead of" if interval.low > 0 else "is behind"
    typer.echo(
        f"{name} {ahead} {best}: difference {gap.mean():,.4g}, 95 % interval {interval} over "
        f"{len(gap)} seeds."
    )
    if not interval.low > 0:
        typer.echo(f"{best} is the simpler of the two.")


def _table(rows: Sequence[tuple[str, Any]], what: str) -> str:
    """Mean and interval over seeds, a line each."""
    import numpy as np

    from practicum.study.evidence import bootstrap_interval, number

    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  mean {what} [95 % interval over seeds]"]
    for name, values in rows:
        values = np.asarray(values, float)
        spread = f" {bootstrap_interval(values)}" if len(values) > 1 else ""
        lines.append(f"{name:{width}}  {number(values.mean())}{spread}")
    return "\n".join(lines)


def _beta_line(agent: Any, data: OfflineDataset) -> str:
    if not agent.adaptive:
        return f"beta is fixed at {agent.beta0:g}."
    history = agent.history_
    return (
        f"beta(s) started near {agent.beta0:g} and is now {history['beta'][-1].mean():.3g} on "
        f"average over the log ({history['beta_low'][-1].min():.3g} to "
        f"{history['beta_high'][-1].max():.3g}); the edge n went from {agent.n_start:g} to "
        f"{history['n'][-1].mean():.3g}."
    )


def _curves(agent: Any, where: str | None) -> dict[str, Any]:
    """Return, Q and beta over the training, each seed a line."""
    from practicum.study.plots import PALETTE, add_ribbon, new_figure

    history, figures = agent.history_, {}
    panels = {
        "return": ("Return", f"return in {where}", "Mean return of the policies"),
        "q": ("Q", "mean Q of the log's actions", "What the critics expect (units of the reward)"),
        "beta": ("beta", "mean beta(s)", "How strongly policies are held to the log"),
        "n": ("Edge n", "n, in standard deviations", "The edge by which beta is taught"),
    }
    for key, (title, axis, caption) in panels.items():
        if key in history:
            figure = new_figure(
                f"{caption} over the training: mean over {agent.seeds} seeds and its 95 % band.",
                x="step of training",
                y=axis,
            )
            add_ribbon(figure, history["step"], history[key].T, axis, PALETTE[0], showlegend=False)
            figures[title] = figure
    return figures


def _load(path: Path, device: str) -> Any:
    from practicum.data.offline import near_file
    from practicum.rl.ssar.agent import BaseOfflineRL

    if not path.is_file():
        raise InputError(f"{path}: there is no such file", near_file(path))
    place = _device(device)
    try:
        return BaseOfflineRL.load(path, place)
    except InputError:
        raise
    except (AttributeError, LookupError, ValueError) as error:
        # what a byte that has changed makes of the settings
        raise InputError(f"{path} is damaged ({error})", "fit the policies again") from error


def _device(name: str) -> str:
    from practicum.models.training import resolve_device

    return str(resolve_device(name))


# ------------------------------------------------------------- beta


@app.command()
@reads_log
def beta(
    model: Model,
    log: Log,
    out: Annotated[
        Path, typer.Option(help="CSV or Parquet by its name: a row for each of the log's.")
    ] = Path("beta.csv"),
    policy: Annotated[int, typer.Option(min=0, help="Which of the saved policies.")] = 0,
    plot: Plot = None,
    x: Annotated[int, typer.Option(min=0, help="Observation column of the map, across.")] = 0,
    y: Annotated[int, typer.Option(min=0, help="And up.")] = 1,
    device: Device = "auto",
    overwrite: Overwrite = False,
    *,
    reading: Reading,
) -> None:
    """Write beta(s), Q and the policy's distance for every row of a log.

    beta is large where the policy has left the log and is held back: there trust the critic less.
    LOG is read as by fit.

    Example: practicum use ssar beta model.safetensors log.npz --out beta.csv --plot beta.html
    """
    from practicum.study.report import write_atomically, write_figures

    refuse_existing([out, plot], overwrite, "--overwrite")
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"--out {out}: .csv or .parquet is written", "name it beta.csv, say")
    agent = _load(model, device)
    if not hasattr(agent, "beta"):
        raise InputError(f"{model} holds {agent.method}, which has no beta", "fit writes SSAR")
    with notes():
        data = reading.read(log, (agent.action_low_, agent.action_high_))
        frame = _beta_table(agent, data, policy)
    write = frame.to_csv if out.suffix.lower() == ".csv" else frame.to_parquet
    write_atomically(out, lambda p: write(p, index=False))
    typer.echo(_beta_summary(agent, frame, policy))
    typer.echo(f"Rows: {out} ({', '.join(frame.columns)})")
    if plot is not None:
        figures = _beta_figures(data, frame, x, y)
        typer.echo(f"Figures: {write_figures(figures, plot, f'beta on {data.name}')}")


def _beta_table(agent: Any, data: OfflineDataset, policy: int) -> Any:
    import numpy as np
    import pandas as pd

    from practicum.rl.ssar import trust as rules

    actions = data.from_unit(data.actions)
    chosen = agent.predict(data.observations, policy)
    wide = data.action_high - data.action_low
    frame = pd.DataFrame(
        {
            "row": np.arange(len(data)),
            "episode": data.episode_of,
            "beta": agent.beta(data.observations, policy),
            "q": agent.q(data.observations, actions, policy),
            # in units of actions in [-1, 1], as the method measures it
            "distance": (np.square(2 * (chosen - actions) / wide)).mean(axis=1),
        }
    )
    if agent.trust != "iql":  # its critic is not saved
        report = rules.trust(data, agent.trust, ref_return=agent.ref_return)
        frame["trusted"] = report.trusted
    return frame


def _beta_summary(agent: Any, frame: Any, policy: int) -> str:
    from scipy import stats

    beta, distance = frame["beta"], frame["distance"]
    text = (
        f"beta(s) of policy {policy} over {len(frame):,} rows: mean {beta.mean():.3g}, from "
        f"{beta.min():.3g} to {beta.max():.3g} (it started near {agent.beta0:g} and stays below "
        f"{1.5 * agent.beta0:g}). Q of the logged actions: mean {frame['q'].mean():,.4g}, in "
        f"units of the reward, discounted by {agent.gamma:g} a step. Mean squared distance of "
        f"policy and log {distance.mean():.3g} (actions in [-1, 1])."
    )
    if beta.nunique() == 1:
        return f"{text} beta is the same everywhere: this model was fitted with --no-adaptive."
    trusted = frame[frame["trusted"]] if "trusted" in frame else frame[:0]
    for what, rows in (("all rows", frame), ("trusted rows", trusted)):
        if rows["distance"].nunique() > 1:
            rank = stats.spearmanr(rows["beta"], rows["distance"]).statistic
            text += f" Rank correlation of beta and distance on {what}: {rank:.2f}."
    return text


SHOWN = 5000  # rows drawn at most


def _beta_figures(data: OfflineDataset, frame: Any, x: int, y: int) -> dict[str, Any]:
    import plotly.graph_objects as go

    from practicum.study.plots import PALETTE, new_figure

    width = data.observations.shape[1]
    for option, column in (("--x", x), ("--y", y)):
        if column >= width:
            raise InputError(f"{option} {column}: the log has observation columns 0 to {width - 1}")
    every = max(1, len(frame) // SHOWN)
    some, seen = frame[::every], data.observations[::every]
    place = new_figure(
        f"beta(s) over the states of {data.name} (one row in {every}): bright where the policy is "
        "held to the log, dark where it is let go.",
        x=f"observation column {x}",
        y=f"observation column {y}",
    )
    colour = {"color": some["beta"], "colorscale": "Viridis", "showscale": True, "size": 5}
    bar = {"colorbar": {"title": "beta"}}
    place.add_trace(go.Scattergl(x=seen[:, x], y=seen[:, y], mode="markers", marker=colour | bar))
    against = new_figure(
        "beta(s) against the squared distance between the policy's and the logged action "
        "(actions in [-1, 1]).",
        x="squared distance of policy and log",
        y="beta(s)",
    )
    marker = {"color": PALETTE[0], "size": 4, "opacity": 0.4}
    against.add_trace(
        go.Scattergl(x=some["distance"], y=some["beta"], mode="markers", marker=marker)
    )
    return {"Where beta is large": place, "beta and disagreement": against}


# ------------------------------------------------------------- build


@app.command()
def build(
    env: Annotated[
        str,
        typer.Argument(
            help="Any Gymnasium id with continuous actions: HalfCheetah-v5, Hopper-v5, "
            "Walker2d-v5, Pendulum-v1.",
            show_default=False,
        ),
    ],
    levels: Annotated[
        str, typer.Option(help="Stages to record, separated by commas.")
    ] = "random,medium,medium-replay,expert",
    steps: Annotated[int, typer.Option(min=2, help="Of training online.")] = 300_000,
    transitions: Annotated[int, typer.Option(min=1, help="Recorded of each stage.")] = 100_000,
    namespace: Annotated[
        str,
        typer.Option(help="The sets are called NAMESPACE/LEVEL-v0.", show_default="practicum/ENV"),
    ] = "",
    hidden: Annotated[int, typer.Option(min=1, help="Width of the two hidden layers.")] = 256,
    seed: Seed = 0,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace Minari sets that are there.")
    ] = False,
) -> None:
    """Make logs as D4RL's: train TD3 online and record four stages of it as Minari data sets.

    About 10 minutes for every 100,000 steps on one core. They lie in MINARI_DATASETS_PATH
    (default ~/.minari/datasets).

    Example: practicum use ssar build Hopper-v5 --steps 300000 --transitions 100000
    """
    from practicum.rl.ssar import builder

    wanted = [level.strip() for level in levels.split(",") if level.strip()]
    names = {level: f"{namespace or _plain(env)}/{level}-v0" for level in wanted}
    if not overwrite:  # before the training, not after it
        for name in names.values():
            builder.refuse_taken(name)
    warmup = min(10_000, max(1, steps // 10))
    settings = builder.OnlineSettings(
        steps=steps,
        warmup=warmup,
        transitions=transitions,
        check_every=max(1, min(5_000, steps // 20)),
        hidden=(hidden, hidden),
        seed=seed,
        device=_device(device),
    )
    typer.echo(f"{env}: {steps:,} steps of TD3, the first {warmup:,} at random.")
    with notes():
        made = builder.build(env, wanted, settings, _checks(steps))
    floor, best = _reference(made)
    for level, built in made.items():
        reference = (floor, best) if floor is not None and best > floor else None
        told = f"{level} of a TD3 training of {steps:,} steps (policy at step {built.step:,})"
        folder = builder.write_minari(
            built.data,
            names[level],
            algorithm="TD3",
            description=told,
            reference=reference,
            overwrite=overwrite,
        )
        typer.echo(f"{built.data.describe()}\n  Minari id {names[level]}: {folder}")
    first = next(iter(names.values()))
    typer.echo(f"Next: practicum use ssar trust {first}")


def _plain(env: str) -> str:
    """practicum/hopper of Hopper-v5."""
    import re

    name = re.sub(r"-v\d+$", "", env.removeprefix("gymnasium:"))
    return "practicum/" + re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def _reference(made: Mapping[str, Any]) -> tuple[float | None, float]:
    """Mean returns of the random and the best recorded policy."""
    means = {level: float(built.data.returns().mean()) for level, built in made.items()}
    return means.get("random"), max(means.values())


def _checks(steps: int) -> Any:
    def show(step: int, found: float) -> None:
        typer.echo(f"step {step:,} of {steps:,}: mean return {found:,.4g}", err=True)

    return show
