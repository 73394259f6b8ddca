"""Policies from a log, as estimators: fit, act, look at beta and Q, go on online, save."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from practicum.data.offline import OfflineDataset, read_offline
from practicum.errors import InputError
from practicum.models.stacked import StackedMLP, keep_memory
from practicum.models.training import (
    Tensor,
    load_checkpoint,
    resolve_device,
    save_checkpoint,
    torch,
)
from practicum.rl.ssar.cloning import BehaviourCloning
from practicum.rl.ssar.cql import CQL
from practicum.rl.ssar.evaluation import Evaluation, evaluate
from practicum.rl.ssar.fqe import fitted_q_evaluation
from practicum.rl.ssar.iql import IQL, trust_by_advantage
from practicum.rl.ssar.learner import Learner, Sizes, train
from practicum.rl.ssar.online import finetune_online, kept_rows
from practicum.rl.ssar.regularizer import (
    Coefficient,
    Regularization,
    cosine_decay,
    linear_decay,
)
from practicum.rl.ssar.replay import Normalizer, Replay
from practicum.rl.ssar.td3bc import TD3BC
from practicum.rl.ssar.trust import TrustReport, trust

BETA0 = {"td3bc": 0.4, "cql": 10.0}
LOOKED_AT = 1024  # transitions on which history_ looks at Q and beta
TrustRule = str | Callable[[OfflineDataset], np.ndarray]


class BaseOfflineRL:
    """What all estimators of this package share.

    Parameters
    ----------
    steps : int
        Of gradient descent.
    hidden : tuple of int
        Widths of policies and critics.
    layer_norm : bool
        LayerNorm in the critics.
    gamma : float
        Discount.
    batch : int
    lr : float
        Adam's.
    tau : float
        Polyak rate of target networks.
    reward_scale : float
        Rewards are multiplied by it in training.
    seeds : int
        Policies trained side by side, from different first weights and batches.
    random_state : int
    device : {"auto", "cpu", "cuda", "mps"}

    Attributes
    ----------
    learner_ : Learner
        The stacked networks.
    history_ : dict of array (checkpoints, seeds)
        ``step`` (checkpoints,), ``q`` (mean over the log), ``return`` where there is an
        environment; of SSAR ``beta``, ``beta_low``, ``beta_high``, ``n``.
    trust_report_ : TrustReport or None
    """

    trust_report_: TrustReport | None = None

    def __init__(
        self,
        *,
        steps: int = 100_000,
        hidden: Sequence[int] = (256, 256),
        layer_norm: bool = True,
        gamma: float | int = 0.99,
        batch: int = 256,
        lr: float | int = 3e-4,
        tau: float | int = 0.005,
        reward_scale: float | int = 1.0,
        seeds: int = 1,
        random_state: int = 0,
        device: str = "cpu",
    ) -> None:
        for name, value in {"steps": steps, "batch": batch, "seeds": seeds}.items():
            if value < 1:
                raise InputError(f"{name}={value}: at least 1")
        if not 0 < gamma <= 1:
            raise InputError(f"gamma={gamma}: a discount in (0, 1]")
        if not reward_scale > 0:
            raise InputError(f"reward_scale={reward_scale}: a positive number")
        self.steps, self.hidden, self.layer_norm = steps, tuple(hidden), layer_norm
        self.gamma, self.batch, self.lr, self.tau = gamma, batch, lr, tau
        self.reward_scale, self.seeds, self.random_state = reward_scale, seeds, random_state
        self.device = device

    # ------------------------------------------------------------- training

    def fit(
        self,
        data: Any,
        eval_env: Any = None,
        eval_every: int = 5000,
        eval_episodes: int = 16,
        progress: Callable[[int, int], None] | None = None,
    ) -> BaseOfflineRL:
        """Learn from a log.

        Parameters
        ----------
        data : OfflineDataset, or whatever ``read_offline`` takes
            A path, a Minari id, a data frame, D4RL's dictionary, d3rlpy's data set.
        eval_env : str or simulator, optional
            Returns in it enter ``history_``; it does not change what is learned.
        eval_every : int
            Steps between two entries of ``history_``.
        eval_episodes : int
        progress : callable, optional
            Called with the step and the number of steps.

        Raises
        ------
        InputError
            The log cannot be used, or the environment does not fit it.
        """
        keep_memory()
        data = read_offline(data)
        self.data_ = data
        device = str(resolve_device(self.device))
        sizes = self._sizes(data.observations.shape[1], data.actions.shape[1], device)
        members = [self.random_state + k for k in range(self.seeds)]
        self.learner_ = self._learner(sizes, members)
        self.replay_ = self._replay(data, members, device)
        self._keep_scales()
        entries: list[dict[str, Any]] = []

        def look(step: int) -> None:
            entries.append({"step": step, **self._look(eval_env, eval_episodes)})
            if progress is not None:
                progress(step, self.steps)

        train(self.learner_, self.replay_, self.steps, every=eval_every, then=look)
        self.history_ = {key: np.stack([e[key] for e in entries]) for key in entries[0]}
        return self

    def _sizes(self, states: int, actions: int, device: str) -> Sizes:
        return Sizes(
            states=states,
            actions=actions,
            hidden=self.hidden,
            layer_norm=self.layer_norm,
            gamma=self.gamma,
            tau=self.tau,
            lr=self.lr,
            steps=self.steps,
            beta_hidden=tuple(getattr(self, "beta_hidden", (128, 128, 128))),
            device=device,
        )

    def _learner(self, sizes: Sizes, seeds: Sequence[int]) -> Learner:
        raise NotImplementedError

    def _trusted(self, data: OfflineDataset) -> TrustReport | None:
        """The trust rule's report, where the method has one."""
        return None

    def _replay(self, data: OfflineDataset, seeds: Sequence[int], device: str) -> Replay:
        self.trust_report_ = self._trusted(data)
        mask = self.trust_report_.trusted if self.trust_report_ is not None else None
        return Replay(
            [data],
            [0] * len(seeds),
            seeds,
            trusted=[mask] * len(seeds),
            batch=self.batch,
            reward_scale=self.reward_scale,
            device=device,
        )

    def _keep_scales(self) -> None:
        self.normalizer_ = self.replay_.normalizers[0]
        self.action_low_, self.action_high_ = self.data_.action_low, self.data_.action_high
        self.env_id_ = self.data_.env_id

    def _look(self, env: Any, episodes: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if env is not None:
            found["return"] = self.evaluate(env, episodes).mean
        rows = np.linspace(0, len(self.data_) - 1, LOOKED_AT).astype(int)
        states = self._states(self.data_.observations[rows])
        actions = torch.as_tensor(self.data_.actions[rows], device=self.learner_.device)
        if "critic" in self.learner_.networks():
            q = self.learner_.q(states, actions.expand(self.seeds, *actions.shape))
            found["q"] = q.mean(dim=1).cpu().numpy() / self.reward_scale
        coefficient = getattr(self.learner_, "coefficient", None)
        if coefficient is not None:
            beta = coefficient(states).cpu().numpy()
            found |= {"beta": beta.mean(axis=1), "beta_low": beta.min(axis=1)}
            found |= {"beta_high": beta.max(axis=1), "n": coefficient.n.cpu().numpy()}
        return found

    # ------------------------------------------------------------- acting

    def _states(self, obs: Any) -> Float[Tensor, "s n ds"]:
        """Raw observations (n, ds) as every member's normalised states."""
        rows = np.atleast_2d(np.asarray(obs, dtype=np.float32))
        self._check_width(rows, len(self.normalizer_.mean), "observations")
        states = torch.as_tensor(self.normalizer_(rows), device=self.learner_.device)
        return states.expand(self.learner_.members, *states.shape).contiguous()

    @staticmethod
    def _check_width(rows: np.ndarray, width: int, what: str) -> None:
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InputError(f"{what} of shape {rows.shape}; the log has {width} columns")
        if not np.isfinite(rows).all():
            row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise InputError(f"{what}: row {row} holds NaN or an infinite value")

    def _fitted(self, seed: int = 0) -> None:
        if not hasattr(self, "learner_"):
            raise InputError(f"this {type(self).__name__} is not fitted", "call fit(data) first")
        if not 0 <= seed < self.learner_.members:
            raise InputError(f"seed={seed}: there are {self.learner_.members} policies, from 0")

    def predict(
        self, obs: Float[np.ndarray, "*n ds"], seed: int = 0
    ) -> Float32[np.ndarray, "*n da"]:
        """Actions at observations, in the log's own units.

        Parameters
        ----------
        obs : array (n, ds), or one observation (ds,)
        seed : int
            Which of the policies acts.

        Raises
        ------
        InputError
            Not fitted, or the wrong number of columns.
        """
        self._fitted(seed)
        unit = self.learner_.act(self._states(obs))[seed].cpu().numpy()
        low, high = self.action_low_, self.action_high_
        actions = (low + (unit + 1) * (high - low) / 2).astype(np.float32)
        return actions if np.ndim(obs) > 1 else actions[0]

    def as_policy(self, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
        """One policy as a function from observation(s) to action(s), for a Gymnasium loop."""
        self._fitted(seed)
        return lambda obs: self.predict(obs, seed)

    def evaluate(self, env: Any, episodes: int = 20, seed: int = 0) -> Evaluation:
        """Returns of every policy in an environment, all at once.

        Parameters
        ----------
        env : str, simulator or callable
            A Gymnasium id, say.
        episodes : int
        seed : int
            Of the environment.

        Raises
        ------
        InputError
            Not fitted, or the environment's spaces are not the log's.
        """
        self._fitted()
        mean, std = self.normalizer_.mean, self.normalizer_.std

        def act(observations: Float32[np.ndarray, "s e ds"]) -> np.ndarray:
            states = ((observations - mean) / std).astype(np.float32)
            chosen = torch.as_tensor(states, device=self.learner_.device)
            return self.learner_.act(chosen).cpu().numpy()

        return evaluate(
            act, env, policies=self.learner_.members, episodes=episodes, seed=seed,
            data=self._bounds(),
        )  # fmt: skip

    def _bounds(self) -> OfflineDataset:
        """An empty log of these widths and bounds: what an environment is compared with."""
        ds, da = len(self.normalizer_.mean), len(self.action_low_)
        none, flags = np.zeros(0, np.float32), np.zeros(0, bool)
        return OfflineDataset(
            none.reshape(0, ds), none.reshape(0, da), none, none.reshape(0, ds), flags, flags,
            self.action_low_, self.action_high_, name="the log",
        )  # fmt: skip

    def estimate(
        self, data: OfflineDataset | None = None, steps: int | None = None
    ) -> Float[np.ndarray, "s"]:
        """Every policy's discounted return from first states, by fitted-Q evaluation on a log.

        An estimate, without an environment: no better than the log's cover of what the policy does.

        Parameters
        ----------
        data : OfflineDataset, optional
            The log it was fitted to, unless given.
        steps : int, optional
            Of training; two fifths of the policy's unless given.

        Raises
        ------
        InputError
            Not fitted, or no log.
        """
        self._fitted()
        data = self._log(data)
        seeds = self.learner_.seeds
        replay = Replay(
            [data], [0] * len(seeds), seeds, batch=self.batch, reward_scale=self.reward_scale,
            normalizers=[self.normalizer_], device=str(self.learner_.device),
        )  # fmt: skip
        first = data.observations[data.episodes[:, 0]]
        steps = steps or max(1, int(0.4 * self.steps))
        found = fitted_q_evaluation(self.learner_, replay, steps, [first] * len(seeds))
        return found / self.reward_scale

    def _log(self, data: OfflineDataset | None) -> OfflineDataset:
        data = data if data is not None else getattr(self, "data_", None)
        if data is None:
            raise InputError("a saved policy holds no log", "give the log as data=")
        return data

    # ------------------------------------------------------------- looking inside

    def q(
        self, obs: Float[np.ndarray, "n ds"], act: Float[np.ndarray, "n da"], seed: int = 0
    ) -> Float32[np.ndarray, "n"]:
        """The smaller of the twin critics' values, in units of the reward.

        Parameters
        ----------
        obs : array (n, ds)
        act : array (n, da)
            In the log's units.
        seed : int

        Raises
        ------
        InputError
            Not fitted, the wrong number of columns, or a method without critic.
        """
        self._fitted(seed)
        actions = np.atleast_2d(np.asarray(act, dtype=np.float32))
        self._check_width(actions, len(self.action_low_), "actions")
        low, high = self.action_low_, self.action_high_
        unit = np.clip(2 * (actions - low) / (high - low) - 1, -1, 1).astype(np.float32)
        chosen = torch.as_tensor(unit, device=self.learner_.device)
        values = self.learner_.q(
            self._states(obs), chosen.expand(self.learner_.members, *chosen.shape)
        )
        return values[seed].cpu().numpy() / np.float32(self.reward_scale)

    # ------------------------------------------------------------- files

    def _settings(self) -> dict[str, Any]:
        names = (
            "steps", "hidden", "layer_norm", "gamma", "batch", "lr", "tau", "reward_scale",
            "seeds", "random_state",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def save(self, path: str | Path) -> None:
        """Networks, scales and settings in one safetensors file (no log, no optimiser).

        Parameters
        ----------
        path : str or Path
            Written under another name first, then renamed.

        Raises
        ------
        InputError
            Not fitted, or the file cannot be written.
        """
        self._fitted()
        state = {
            f"{name}.{key}": tensor
            for name, net in self._networks().items()
            for key, tensor in net.state_dict().items()
        }
        scales = {
            "mean": self.normalizer_.mean, "std": self.normalizer_.std,
            "action_low": self.action_low_, "action_high": self.action_high_,
        }  # fmt: skip
        state |= {f"scale.{name}": torch.as_tensor(array) for name, array in scales.items()}
        config = {
            "class": type(self).__name__,
            "settings": self._settings(),
            "seeds": self.learner_.seeds,
            "env_id": self.env_id_,
            **self._extras(),
        }
        save_checkpoint(path, state, config)

    def _networks(self) -> dict[str, StackedMLP]:
        networks = dict(self.learner_.networks())
        coefficient = getattr(self.learner_, "coefficient", None)
        if coefficient is not None and coefficient.adaptive:
            networks["beta"] = coefficient.network
        return networks

    def _extras(self) -> dict[str, Any]:
        """What a file says besides, for a person who reads it."""
        report = self.trust_report_
        return {} if report is None else {"trust_rule": report.rule, "trust_share": report.share}

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Any:
        """The estimator that :meth:`save` wrote: it acts bit-identically.

        Parameters
        ----------
        path : str or Path
        device : str

        Raises
        ------
        InputError
            Missing, damaged, or another model.
        """
        state, config = load_checkpoint(path)
        kinds = {kind.__name__: kind for kind in (SSAR, Baseline)}
        kind = kinds.get(config.get("class", ""))
        if kind is None or not issubclass(kind, cls):
            raise InputError(f"{path} holds no {cls.__name__}", f"one of {', '.join(kinds)} is")
        try:
            return kind._restored(state, config, device)
        except (KeyError, RuntimeError, TypeError) as error:
            raise InputError(f"{path} is damaged: {error}") from error

    @classmethod
    def _restored(cls, state: dict[str, Tensor], config: dict[str, Any], device: str) -> Any:
        new = cls(**config["settings"], device=device)
        scale = {name: state[f"scale.{name}"].numpy() for name in
                 ("mean", "std", "action_low", "action_high")}  # fmt: skip
        new.normalizer_ = Normalizer(scale["mean"], scale["std"])
        new.action_low_, new.action_high_ = scale["action_low"], scale["action_high"]
        new.env_id_ = config["env_id"]
        place = str(resolve_device(device))
        sizes = new._sizes(len(scale["mean"]), len(scale["action_low"]), place)
        new.learner_ = new._learner(sizes, config["seeds"])
        for name, net in new._networks().items():
            start = f"{name}."
            own = {k.removeprefix(start): t for k, t in state.items() if k.startswith(start)}
            net.load_state_dict(own)
        return new


class SSAR(BaseOfflineRL):
    """Selective state-adaptive regularisation on TD3+BC or CQL (Luo et al., ICML 2025).

    The pull towards the log is as strong as a small network beta(s) says, and acts on the trusted
    part of the log only:

        beta <- argmin E[ I (log pi(a|s) - C_n(s)) beta(s) ],  beta(s) in (0, 1.5 beta0)

    With ``select=False, adaptive=False, restrict=False`` it *is* TD3+BC (alpha = 1/beta0) or CQL
    (alpha = beta0), with the same critics.

    Parameters
    ----------
    base : {"td3bc", "cql"}
        Policy constraint or value constraint.
    beta0 : float, optional
        Where beta starts: 0.4 for td3bc, 10 for cql unless given.
    select : bool
        Only trusted pairs teach beta.
    adaptive : bool
        beta is learned; else it stays beta0.
    restrict : bool
        Only trusted pairs are held to the log.
    n_start, n_end : float
        Edge of the policy in standard deviations, at first and at most.
    trust : {"auto", "traj", "iql", "all"} or callable
        ``auto`` and ``traj``: the better episodes by return (or those above ``ref_return``, or that
        end in success where the reward is sparse), see ``trust_trajectories``; ``iql``: actions
        with Q >= V; a callable gives a mask of transitions or episodes.
    ref_return : float, optional
        For ``traj``.
    beta_lr : float or "auto"
        ``auto`` keeps the published movement of beta in a shorter training.
    beta_hidden : tuple of int
    **others
        As for ``BaseOfflineRL``: steps, hidden, layer_norm, gamma, batch, lr, tau, reward_scale,
        seeds, random_state, device.

    Raises
    ------
    InputError
        An argument cannot be used.

    Examples
    --------
    >>> from practicum.rl.ssar import SSAR, pendulum_mix
    >>> log = pendulum_mix("mixed-20", rng=0)  # a fifth driven well, the rest at random
    >>> agent = SSAR(steps=50, hidden=(32, 32), seeds=2).fit(log)
    >>> agent.predict(log.observations[:3]).shape, agent.beta(log.observations[:3]).shape
    ((3, 1), (3,))
    >>> 0.05 < agent.trust_report_.share < 0.3
    True
    """

    def __init__(
        self,
        base: str = "td3bc",
        beta0: float | int | None = None,
        select: bool = True,
        adaptive: bool = True,
        restrict: bool = True,
        n_start: float | int = 1.0,
        n_end: float | int = 3.0,
        trust: TrustRule = "auto",
        ref_return: float | int | None = None,
        beta_lr: float | int | str = "auto",
        beta_hidden: Sequence[int] = (128, 128, 128),
        **others: Any,
    ) -> None:
        super().__init__(**others)
        if base not in BETA0:
            raise InputError(f"base={base!r}", "td3bc or cql is expected")
        if beta_lr != "auto" and not (isinstance(beta_lr, int | float) and beta_lr >= 0):
            raise InputError(f"beta_lr={beta_lr!r}: a rate or 'auto' is expected")
        self.base, self.beta0 = base, BETA0[base] if beta0 is None else beta0
        self.select, self.adaptive, self.restrict = select, adaptive, restrict
        self.n_start, self.n_end = n_start, n_end
        self.trust, self.ref_return = trust, ref_return
        self.beta_lr, self.beta_hidden = beta_lr, tuple(beta_hidden)
        self.rule = Regularization(self.beta0, adaptive, select, restrict, n_start, n_end)

    def _settings(self) -> dict[str, Any]:
        names = (
            "base", "beta0", "select", "adaptive", "restrict", "n_start", "n_end", "ref_return",
            "beta_lr", "beta_hidden",
        )  # fmt: skip
        own = {name: getattr(self, name) for name in names}
        rule = self.trust if isinstance(self.trust, str) else "auto"
        return super()._settings() | own | {"trust": rule}

    def _learner(self, sizes: Sizes, seeds: Sequence[int]) -> Learner:
        rules = [self.rule] * len(seeds)
        if self.base == "td3bc":
            return TD3BC(sizes, seeds, rules, beta_lr=self.beta_lr)
        return CQL(sizes, seeds, rules, beta_lr=self.beta_lr)

    def _trusted(self, data: OfflineDataset) -> TrustReport | None:
        if not (self.restrict or (self.adaptive and self.select)):
            return None
        if self.trust == "iql":
            return trust_by_advantage(
                data, steps=self.steps, hidden=self.hidden, gamma=self.gamma, batch=self.batch,
                seed=self.random_state, device=str(resolve_device(self.device)),
            )  # fmt: skip
        return trust(data, self.trust, ref_return=self.ref_return)

    def beta(self, obs: Float[np.ndarray, "n ds"], seed: int = 0) -> Float32[np.ndarray, "n"]:
        """How strongly the policy is held to the log at observations (where it is trusted).

        Parameters
        ----------
        obs : array (n, ds)
        seed : int

        Raises
        ------
        InputError
            Not fitted, or the wrong number of columns.
        """
        self._fitted(seed)
        return self._coefficient(self._states(obs))[seed].cpu().numpy()

    @property
    def _coefficient(self) -> Coefficient:
        return self.learner_.coefficient  # type: ignore[attr-defined]

    def finetune(
        self,
        env: Any,
        steps: int = 5000,
        decay_steps: int | None = None,
        buffer: str = "part",
        *,
        data: OfflineDataset | None = None,
        warmup: int | None = None,
        eval_every: int = 1000,
        eval_episodes: int = 16,
    ) -> SSAR:
        """Go on online: beta frozen, its weight decayed (linearly for td3bc, by a cosine for cql).

        Parameters
        ----------
        env : str, simulator or callable
        steps : int
            In the environment, of each policy.
        decay_steps : int, optional
            After which the pull to the log is gone; 1.6 times ``steps`` unless given (the
            published 400,000 of 250,000), negative for no decay.
        buffer : {"all", "half", "part", "none"}
            What of the log stays in the buffer: ``part`` is its 50 best episodes.
        data : OfflineDataset, optional
            The log; needed after :meth:`load`.
        warmup : int, optional
            First steps without updates; 2 % unless given.
        eval_every, eval_episodes : int
            Of ``online_history_`` (``step``, ``return``), which begins before the first step.

        Raises
        ------
        InputError
            Not fitted, no log, or the environment does not fit it.
        """
        self._fitted()
        if steps < 1:
            raise InputError(f"steps={steps}: at least 1")
        keep_memory()
        data, learner = self._log(data), self.learner_
        end = 1.6 * steps if decay_steps is None else decay_steps
        rule = linear_decay if self.base == "td3bc" else cosine_decay
        kept = kept_rows(data, buffer, np.random.default_rng(self.random_state))
        self.replay_ = Replay(
            [data], [0] * learner.members, learner.seeds,
            trusted=[self._mask(data)] * learner.members, batch=self.batch,
            reward_scale=self.reward_scale, normalizers=[self.normalizer_], room=steps,
            keep=[kept] * learner.members, device=str(learner.device),
        )  # fmt: skip
        entries: list[tuple[int, np.ndarray]] = []
        finetune_online(
            learner,
            self.replay_,
            env,
            steps,
            decays=[lambda step: rule(step, end)] * learner.members,
            seeds=[seed + 1 for seed in learner.seeds],
            warmup=steps // 50 if warmup is None else warmup,
            data=data,
            every=eval_every,
            then=lambda step: entries.append((step, self.evaluate(env, eval_episodes).mean)),
        )
        self.online_history_ = {
            "step": np.array([step for step, _ in entries]),
            "return": np.stack([found for _, found in entries]),
        }
        return self

    def _mask(self, data: OfflineDataset) -> np.ndarray | None:
        if self.trust_report_ is None or len(self.trust_report_.trusted) != len(data):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were shown when it was fitted
                self.trust_report_ = self._trusted(data)
        return None if self.trust_report_ is None else self.trust_report_.trusted


class Baseline(BaseOfflineRL):
    """What SSAR is compared with: cloning, and implicit Q-learning.

    TD3+BC and CQL are ``SSAR`` with its three switches off.

    Parameters
    ----------
    method : {"bc", "filtered-bc", "iql"}
        Clone everything; clone the trusted part; implicit Q-learning (expectile 0.7, inverse
        temperature 3).
    ref_return : float, optional
        For ``filtered-bc``: trust episodes above it, else the better ones by return.
    expectile, inverse_temperature : float
        Of ``iql``.
    **others
        As for ``BaseOfflineRL``.

    Raises
    ------
    InputError
        An argument cannot be used.

    Examples
    --------
    >>> from practicum.rl.ssar import pendulum_mix
    >>> log = pendulum_mix("mixed-20", rng=0)
    >>> Baseline("filtered-bc", steps=20, hidden=(16,)).fit(log).predict(log.observations[0]).shape
    (1,)
    """

    def __init__(
        self,
        method: str = "filtered-bc",
        ref_return: float | int | None = None,
        expectile: float = 0.7,
        inverse_temperature: float | int = 3.0,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        if method not in ("bc", "filtered-bc", "iql"):
            raise InputError(f"method={method!r}", "bc, filtered-bc or iql is expected")
        self.method, self.ref_return = method, ref_return
        self.expectile, self.inverse_temperature = expectile, inverse_temperature

    def _settings(self) -> dict[str, Any]:
        own = ("method", "ref_return", "expectile", "inverse_temperature")
        return super()._settings() | {name: getattr(self, name) for name in own}

    def _learner(self, sizes: Sizes, seeds: Sequence[int]) -> Learner:
        if self.method == "iql":
            n = len(seeds)
            return IQL(sizes, seeds, [self.expectile] * n, [self.inverse_temperature] * n)
        return BehaviourCloning(sizes, seeds)

    def _trusted(self, data: OfflineDataset) -> TrustReport | None:
        return trust(data, "traj", ref_return=self.ref_return) if self._filters else None

    @property
    def _filters(self) -> bool:
        return self.method == "filtered-bc"

    def _replay(self, data: OfflineDataset, seeds: Sequence[int], device: str) -> Replay:
        replay = super()._replay(data, seeds, device)
        if not self._filters:
            return replay
        # whole batches of trusted pairs, normalised as the whole log is
        return Replay(
            [data.subset(self.trust_report_.trusted)], [0] * len(seeds), seeds, batch=self.batch,
            reward_scale=self.reward_scale, normalizers=replay.normalizers, device=device,
        )  # fmt: skip
