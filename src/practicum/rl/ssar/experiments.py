"""Arms side by side: every arm and seed of one family of algorithms trained as one stack."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from practicum.data.offline import OfflineDataset, read_offline
from practicum.errors import InputError
from practicum.models.stacked import keep_memory
from practicum.models.training import torch
from practicum.rl.ssar.cloning import BehaviourCloning
from practicum.rl.ssar.cql import CQL
from practicum.rl.ssar.evaluation import evaluate
from practicum.rl.ssar.fqe import fitted_q_evaluation
from practicum.rl.ssar.iql import IQL
from practicum.rl.ssar.learner import Learner, Sizes, policy_of, train
from practicum.rl.ssar.regularizer import Regularization
from practicum.rl.ssar.replay import Normalizer, Replay
from practicum.rl.ssar.td3bc import TD3BC
from practicum.rl.ssar.trust import trust_trajectories

ALPHAS = (1.0, 2.5, 10.0, 40.0)  # of TD3+BC; 2.5 is the published one
# of CQL. Its published 10 belongs to critics in the hundreds: the penalty grows with Q, the squared
# error with Q^2, and the scaled rewards of Setting make critics of some ten
CQL_ALPHAS = (0.03, 0.3)
EXPECTILES = (0.7, 0.9)  # of IQL; 0.7 is the published one for locomotion
LAST = 5  # checkpoints over which a return is averaged
LOOKED_AT = 512  # transitions on which Q and beta are looked at
SCATTER = 128  # of them that a scatter plot shows
FQE_STEPS = 0.4  # of the training's


def _plain(beta0: float) -> Regularization:
    return Regularization(beta0, adaptive=False, select=False, restrict=False)


def _parts(beta0: float) -> dict[str, Regularization]:
    return {
        "full": Regularization(beta0),
        "selection": Regularization(beta0, adaptive=False),
        "adaptive": Regularization(beta0, select=False, restrict=False),
    }


TD3_BETA0 = 1 / 2.5
CQL_BETA0 = 0.3
FAMILIES: dict[str, dict[str, list[Any]]] = {
    "td3": {
        "ssar-td3bc": [_parts(TD3_BETA0)["full"]],
        "td3bc": [_plain(TD3_BETA0)],
        "td3bc-tuned": [_plain(1 / alpha) for alpha in ALPHAS],
        "selection-only": [_parts(TD3_BETA0)["selection"]],
        "adaptive-only": [_parts(TD3_BETA0)["adaptive"]],
    },
    "cql": {
        "ssar-cql": [_parts(CQL_BETA0)["full"]],
        "cql": [_plain(CQL_BETA0)],
        "cql-tuned": [_plain(alpha) for alpha in CQL_ALPHAS],
    },
    "plain": {"td3bc-no-layernorm": [_plain(1 / alpha) for alpha in (2.5, 40.0)]},
    "iql": {"iql": EXPECTILES[:1], "iql-tuned": list(EXPECTILES)},
    "bc": {"bc": [False], "filtered-bc": [True]},
}


def family_of(arm: str) -> str:
    """The stack an arm is trained in: td3, plain (its critics without LayerNorm), cql, iql or bc.

    Parameters
    ----------
    arm : str

    Raises
    ------
    InputError
        There is no such arm.

    Examples
    --------
    >>> family_of("filtered-bc")
    'bc'
    """
    for family, arms in FAMILIES.items():
        if arm in arms:
            return family
    known = ", ".join(arm for arms in FAMILIES.values() for arm in arms)
    raise InputError(f"there is no arm {arm!r}", f"arms: {known}")


@dataclass(frozen=True)
class Setting:
    """Sizes of a training and of its evaluation, the same for every arm.

    Parameters
    ----------
    steps : int
        Of gradient descent.
    hidden : int
        Width of the two hidden layers of policies and critics, and of the coefficient network.
    batch : int
    gamma, tau, lr : float
        Discount, Polyak rate, Adam's rate.
    reward_scale : float
        Rewards are multiplied by it.
    n_actions : int
        CQL's, from each of its three proposals.
    cql_steps, cql_batch : int
        Of CQL, whose step costs some ten times as much.
    temperature : float
        CQL's at first, in units of the scaled reward.
    checkpoints : int
        Evaluations, at even distances; the last five are averaged.
    episodes : int
        Of each evaluation; a multiple of 16, see ``practicum.models.stacked``.
    layer_norm : bool
        In all critics.

    Examples
    --------
    >>> Setting(steps=1000).checkpoints
    20
    """

    steps: int = 10_000
    hidden: int = 64
    batch: int = 128
    gamma: float = 0.97
    tau: float = 0.01
    lr: float = 3e-4
    reward_scale: float = 0.1
    n_actions: int = 4
    cql_steps: int = 4000
    cql_batch: int = 64
    temperature: float = 0.1
    checkpoints: int = 20
    episodes: int = 16
    layer_norm: bool = True
    device: str = "cpu"

    def of_family(self, family: str) -> Setting:
        """With the steps and the batch that the family takes."""
        if family == "plain":
            return replace(self, layer_norm=False)
        if family != "cql":
            return self
        return replace(self, steps=self.cql_steps, batch=self.cql_batch)

    def sizes(self, data: OfflineDataset) -> Sizes:
        """What the members of a stack share."""
        wide = (self.hidden, self.hidden)
        return Sizes(
            states=data.observations.shape[1],
            actions=data.actions.shape[1],
            hidden=wide,
            layer_norm=self.layer_norm,
            gamma=self.gamma,
            tau=self.tau,
            lr=self.lr,
            steps=self.steps,
            beta_hidden=wide,
            device=self.device,
        )


@dataclass(frozen=True, eq=False)
class Job:
    """An arm to be trained on a data set with a seed.

    Parameters
    ----------
    arm : str
    data : OfflineDataset
    seed : int
        Jobs with one seed and one data set are paired: first weights, batches, noise.
    trusted : bool array (n,), optional
        Unless given, by ``practicum.rl.ssar.trust_trajectories``.
    """

    arm: str
    data: OfflineDataset
    seed: int
    trusted: Bool[np.ndarray, "_"] | None = None


class Member(NamedTuple):
    """One network set of a stack: its data set's index, its seed, and its rule."""

    data: int
    seed: int
    rule: Any


@dataclass(eq=False)
class Stack:
    """Jobs of one family, trained together.

    Attributes
    ----------
    learner : Learner
    replay : Replay
    members : list of Member
    of_job : list of list of int
        The members that belong to each job: one, or several settings to choose from.
    """

    learner: Learner
    replay: Replay
    members: list[Member]
    of_job: list[list[int]]
    datasets: list[OfflineDataset]
    trusted: list[Bool[np.ndarray, "_"]]


def build_stack(jobs: Sequence[Job], setting: Setting) -> Stack:
    """The members of some jobs of one family; jobs that share a member share its training.

    Parameters
    ----------
    jobs : sequence of Job
    setting : Setting

    Raises
    ------
    InputError
        The jobs are of several families.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> data = pendulum_mix("mixed-20", rng=0)
    >>> jobs = [Job("td3bc", data, seed=0), Job("td3bc-tuned", data, seed=0)]
    >>> build_stack(jobs, Setting(hidden=16)).of_job
    [[0], [1, 0, 2, 3]]
    """
    families = {family_of(job.arm) for job in jobs}
    if len(families) != 1:
        raise InputError(f"arms of several families in one stack: {', '.join(sorted(families))}")
    family = families.pop()
    datasets = list({id(job.data): job.data for job in jobs}.values())
    where = {id(data): k for k, data in enumerate(datasets)}
    trusted = [_trusted(next(j for j in jobs if j.data is data)) for data in datasets]
    members: dict[Member, int] = {}
    of_job = []
    for job in jobs:
        wanted = [Member(where[id(job.data)], job.seed, r) for r in FAMILIES[family][job.arm]]
        of_job.append([members.setdefault(m, len(members)) for m in wanted])
    every = list(members)
    learner = _learner(family, every, setting.of_family(family).sizes(datasets[0]), setting)
    replay = _replay(family, every, datasets, trusted, setting.of_family(family))
    return Stack(learner, replay, every, of_job, datasets, trusted)


def _trusted(job: Job) -> Bool[np.ndarray, "_"]:
    if job.trusted is not None:
        return job.trusted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few or all episodes; the commands show them
        return trust_trajectories(job.data).trusted


def _learner(family: str, members: Sequence[Member], sizes: Sizes, setting: Setting) -> Learner:
    seeds, rules = [m.seed for m in members], [m.rule for m in members]
    if family in ("td3", "plain"):
        return TD3BC(sizes, seeds, rules)
    if family == "cql":
        return CQL(
            sizes, seeds, rules, n_actions=setting.n_actions, temperature=setting.temperature
        )
    if family == "iql":
        return IQL(sizes, seeds, rules)
    return BehaviourCloning(sizes, seeds)


def _replay(
    family: str,
    members: Sequence[Member],
    datasets: Sequence[OfflineDataset],
    trusted: Sequence[Bool[np.ndarray, "_"]],
    setting: Setting,
) -> Replay:
    sets, of, masks = list(datasets), [m.data for m in members], None
    scales = [Normalizer.of(data.observations) for data in datasets]
    if family == "bc":  # filtered: whole batches from the trusted part, normalised as the log is
        sets += [data.subset(mask) for data, mask in zip(datasets, trusted, strict=True)]
        scales += scales
        of = [m.data + len(datasets) * bool(m.rule) for m in members]
    else:
        masks = [trusted[m.data] for m in members]
    return Replay(
        sets,
        of,
        [m.seed for m in members],
        trusted=masks,
        batch=setting.batch,
        reward_scale=setting.reward_scale,
        normalizers=scales,
        device=setting.device,
    )


def run_jobs(jobs: Sequence[Job], setting: Setting, env: Any = None) -> list[dict[str, Any]]:
    """Train and evaluate jobs of one family; one set of numbers and curves for each job.

    Parameters
    ----------
    jobs : sequence of Job
    setting : Setting
    env : str or simulator, optional
        As for ``practicum.rl.ssar.evaluate``. Without one, returns are estimated from the log
        by fitted-Q evaluation.

    Returns
    -------
    list of dict
        ``return`` (mean over the last five checkpoints; of a tuned arm, the best setting's, chosen
        by other episodes), ``return_last``, curves over checkpoints (``returns``, ``q``,
        ``beta``, ``beta_low``, ``beta_high``, ``n``), ``beta_rank`` (Spearman's correlation of
        beta(s) with the squared distance of policy and data on trusted pairs), and ``estimate``
        where there is no environment.

    Raises
    ------
    InputError
        The jobs are of several families, or the environment does not fit the data.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import Pendulum, pendulum_mix
    >>> data = pendulum_mix("mixed-20", rng=0)
    >>> setting = Setting(steps=20, hidden=16, checkpoints=2)
    >>> done = run_jobs([Job("bc", data, 0), Job("filtered-bc", data, 0)], setting, Pendulum(50))
    >>> done[0]["returns"].shape
    (2,)
    """
    keep_memory()
    stack = build_stack(jobs, setting)
    own = setting.of_family(family_of(jobs[0].arm))
    seen: list[dict[str, np.ndarray]] = []

    def look(step: int) -> None:
        seen.append(_look(stack, own, env, checkpoint=len(seen)))

    train(
        stack.learner,
        stack.replay,
        own.steps,
        every=max(1, own.steps // own.checkpoints),
        then=look,
    )
    curves = {name: np.stack([s[name] for s in seen]) for name in seen[0]}
    if env is None:
        curves["estimate"] = _estimate(stack, own)[None]
    return [_of_job(stack, k, curves) for k in range(len(jobs))]


def _look(stack: Stack, setting: Setting, env: Any, checkpoint: int) -> dict[str, np.ndarray]:
    """Returns, Q, beta and n of every member."""
    learner, found = stack.learner, {}
    if env is not None:
        found["returns"] = evaluate(
            policy_of(learner, stack.replay),
            env,
            policies=learner.members,
            episodes=setting.episodes,
            seed=checkpoint,
            data=stack.datasets[0],
        ).mean
    states, actions, _ = _looked_at(stack)
    if "critic" in learner.networks():
        q = learner.q(states, actions).mean(dim=1).cpu().numpy()
        found["q"] = q / setting.reward_scale
    coefficient = getattr(learner, "coefficient", None)
    if coefficient is not None:
        beta = coefficient(states).cpu().numpy()
        found |= {"beta": beta.mean(axis=1), "beta_low": beta.min(axis=1)}
        found |= {"beta_high": beta.max(axis=1), "n": coefficient.n.cpu().numpy()}
    return found


def _looked_at(stack: Stack) -> tuple[torch.Tensor, torch.Tensor, list[Int[np.ndarray, "_"]]]:
    """Trusted pairs of each member's data, evenly spaced: states, actions and their rows."""
    states, actions, rows = [], [], []
    for member, of in zip(stack.members, stack.replay.of, strict=True):
        data = stack.datasets[member.data]
        there = np.flatnonzero(stack.trusted[member.data])
        chosen = there[np.linspace(0, len(there) - 1, LOOKED_AT).astype(int)]
        states.append(stack.replay.normalizers[of](data.observations[chosen]))
        actions.append(data.actions[chosen])
        rows.append(chosen)
    place = stack.learner.device
    together = (torch.as_tensor(np.stack(t), device=place) for t in (states, actions))
    return *together, rows


def _estimate(stack: Stack, setting: Setting) -> Float[np.ndarray, "s"]:
    """Fitted-Q evaluation of every member, in units of the reward."""
    steps = max(1, int(FQE_STEPS * setting.steps))
    replay = _replay("td3", stack.members, stack.datasets, stack.trusted, setting)
    first = [d.observations[d.episodes[:, 0]] for d in stack.datasets]
    starts = [first[m.data] for m in stack.members]
    found = fitted_q_evaluation(stack.learner, replay, steps, starts)
    return found / setting.reward_scale


def _of_job(stack: Stack, k: int, curves: dict[str, np.ndarray]) -> dict[str, Any]:
    """A job's numbers; of several settings the best by the checkpoints before the last five."""
    members, out = stack.of_job[k], {}
    key = "returns" if "returns" in curves else "estimate"
    values = curves[key][:, members]
    chosen = 0
    if len(members) > 1:
        tuning = values[-2 * LAST : -LAST] if len(values) > LAST else values
        chosen = int(tuning.mean(axis=0).argmax())
        out["by_setting"] = values[-LAST:].mean(axis=0)
        out["chosen"] = chosen
    member = members[chosen]
    if key == "returns":
        out["return"] = float(values[-LAST:, chosen].mean())
        out["return_last"] = float(values[-1, chosen])
    else:
        out["estimate"] = float(values[-1, chosen])
    out |= {name: curve[:, member] for name, curve in curves.items() if name != "estimate"}
    coefficient = getattr(stack.learner, "coefficient", None)
    if coefficient is not None and member in coefficient.adaptive:
        out |= _disagreement(stack, member)
    return out


def _disagreement(stack: Stack, member: int) -> dict[str, Any]:
    """beta(s) beside the squared distance of policy and data, on trusted pairs."""
    states, actions, rows = _looked_at(stack)
    off = (stack.learner.act(states) - actions).square().mean(dim=-1)[member].cpu().numpy()
    beta = stack.learner.coefficient(states)[member].cpu().numpy()
    rank = stats.spearmanr(beta, off).statistic if np.ptp(beta) and np.ptp(off) else 0.0
    every = slice(None, None, LOOKED_AT // SCATTER)
    where = stack.datasets[stack.members[member].data].observations[rows[member]][every]
    return {
        "beta_rank": float(rank),
        "scatter_beta": beta[every],
        "scatter_off": off[every],
        "scatter_states": where,
    }


def compare_arms(
    data: Any,
    arms: Sequence[str] = ("bc", "filtered-bc", "td3bc", "iql", "ssar-td3bc"),
    *,
    seeds: int = 5,
    setting: Setting | None = None,
    env: Any = None,
    trusted: Bool[np.ndarray, "_"] | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Several arms on one log, every family's arms and seeds trained as one stack.

    Parameters
    ----------
    data : OfflineDataset, or whatever ``read_offline`` takes
    arms : sequence of str
        Keys of ``practicum.rl.ssar.experiments.FAMILIES``' families.
    seeds : int
    setting : Setting, optional
    env : str or simulator, optional
        To evaluate in; without one, returns are estimated by fitted-Q evaluation.
    trusted : bool array (n,), optional
    progress : callable, optional
        Told each family's name before it is trained.

    Returns
    -------
    dict of arm to a list of dicts, one for each seed, as :func:`run_jobs` gives them

    Raises
    ------
    InputError
        An arm is not known, or the environment does not fit the data.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import Pendulum, pendulum_mix
    >>> data, tiny = pendulum_mix("mixed-20", rng=0), Setting(steps=10, hidden=16, checkpoints=1)
    >>> done = compare_arms(data, ["bc", "td3bc"], seeds=2, setting=tiny, env=Pendulum(20))
    >>> {arm: len(runs) for arm, runs in done.items()}
    {'bc': 2, 'td3bc': 2}
    """
    data, setting = read_offline(data), setting or Setting()
    families: dict[str, list[str]] = {}
    for arm in arms:
        families.setdefault(family_of(arm), []).append(arm)
    out: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    for family, members in families.items():
        if progress is not None:
            progress(family)
        jobs = [Job(arm, data, seed, trusted) for arm in members for seed in range(seeds)]
        for job, numbers in zip(jobs, run_jobs(jobs, setting, env), strict=True):
            out[job.arm].append(numbers)
    return out
