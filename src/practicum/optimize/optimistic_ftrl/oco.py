"""Run a learner on a stream of losses and account for its regret, term by term."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import refuse_non_finite, whole
from practicum.optimize.optimistic_ftrl.comparators import Comparator, as_comparator
from practicum.optimize.optimistic_ftrl.hints import (
    Callback,
    Past,
    Recorded,
    as_predictor,
    check_timestamps,
    warn_leak,
)
from practicum.optimize.optimistic_ftrl.learners import OnlineLearner, OptFPRL
from practicum.optimize.optimistic_ftrl.losses import LinearCosts, Losses, as_losses

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

SCALE_CHANGE = 100.0  # gradients that shrink this much leave "et" with an outdated sigma

TERMS = {
    "errors": "what the prediction errors cost (sum of delta_t)",
    "size": "the price of the comparator's distance from the centre, sigma/2 ||u_T||^2",
    "path": "the price of the comparator's moves, sum <p_{1:t}, u_{t+1} - u_t>",
    "slack": "by how much these three overstate the regret (negative)",
}


def _total(values: np.ndarray) -> Any:
    """Sum over the rounds; to the bit the same for a run alone and among others."""
    return np.ascontiguousarray(np.moveaxis(values, 0, -1)).sum(axis=-1)


@dataclass(frozen=True)
class OCOResult:
    r"""What happened on a stream, and what it cost against a comparator.

    Attributes
    ----------
    actions : (T, ..., d) array, x_1 .. x_T
    losses : (T, ...) array, f_t(x_t)
    gradients, hints : (T, ..., d) arrays
    comparator : Comparator, the sequence u and its losses
    sigma : (T, ...) array, the regularisation each action was chosen with (NaN for learners
        without one)
    states : (T, ..., d) array, p_{1:t} after each round (empty for learners without one)
    prunes : (T, ...) array of bool, whether the free minimiser lay outside the set
    learner : OnlineLearner, in its final state
    delay : int, rounds until a gradient arrived
    notes : tuple of str, plain sentences about what to watch out for

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball, OptFPRL, run_oco
    >>> done = run_oco(OptFPRL(Ball(1.0, 1)), [[1.0], [1.0], [-1.0]])
    >>> done.regret.round(6).tolist(), sorted(done.terms())
    ([1.0, 1.0, 3.0], ['errors', 'path', 'size', 'slack'])
    """

    actions: np.ndarray
    losses: np.ndarray
    gradients: np.ndarray
    hints: np.ndarray
    comparator: Comparator
    sigma: np.ndarray
    states: np.ndarray
    prunes: np.ndarray
    learner: OnlineLearner
    stream: Losses
    delay: int = 0
    timestamps: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    _others: dict[str, Comparator] = field(default_factory=dict, repr=False)

    @property
    def n_rounds(self) -> int:
        """T."""
        return len(self.losses)

    @property
    def regret(self) -> np.ndarray:
        """Dynamic regret after each round, shape (T, ...)."""
        return np.cumsum(self.losses - self.comparator.losses, axis=0)

    @property
    def average_regret(self) -> Any:
        """``R_T / T``."""
        value = self.regret[-1] / self.n_rounds
        return float(value) if np.ndim(value) == 0 else value

    @property
    def errors(self) -> np.ndarray:
        """``||g_t - hint_t||``, shape (T, ...)."""
        return np.linalg.norm(self.gradients - self.hints, axis=-1)

    @property
    def E(self) -> Any:
        """Sum of squared prediction errors."""
        return _total(self.errors**2)

    @property
    def path_length(self) -> Any:
        """``P_T`` of the comparator."""
        return self.comparator.path_length

    @property
    def error_path(self) -> Any:
        """``H_T``: sum of error times the comparator's next step."""
        return _total(self.errors[:-1] * self.comparator.steps)

    def against(self, comparator: Any) -> OCOResult:
        """The same run measured against another comparator.

        Parameters
        ----------
        comparator : as for :func:`run_oco`
        """
        from dataclasses import replace

        if isinstance(comparator, str) and comparator in self._others:
            return replace(self, comparator=self._others[comparator])
        made = as_comparator(comparator, self.stream, self.learner.domain)
        if isinstance(comparator, str):
            self._others[comparator] = made
        return replace(self, comparator=made)

    def gaps(self) -> np.ndarray:
        r""":math:`\delta_t`: what each round's prediction error cost, shape (T, ...).

        :math:`\delta_t = h(x_t) - \min_X h`,
        :math:`h(x) = \langle p_{1:t}, x\rangle + \tfrac{\sigma_{1:t-1}}{2}\|x\|^2`.

        Raises
        ------
        InputError
            For learners without a regularised state (OGD, Hedge, ...).
        """
        learner = self._regularised()
        w = learner.domain.absorb(self.actions)
        change = self.states + self.sigma[..., None] * w
        return learner.geometry.gap(change, w, self.sigma, bool((self.sigma > 0).all()))

    def _regularised(self) -> OptFPRL:
        learner = self.learner
        known = isinstance(learner, OptFPRL) and learner.variant == "paper"
        if not known or learner.geometry.name != "euclidean":
            raise InputError(
                f"{type(learner).__name__} keeps no regularised state to account for",
                "the terms of the regret are known for OptFPRL and FTRL (Euclidean)",
            )
        if self.delay:
            raise InputError("late gradients: the terms and bounds are not known", "use delay=0")
        return learner

    def terms(self) -> dict[str, Any]:
        r"""Which part of the regret comes from what; the parts add up to the linearised regret.

        .. math::

            \sum_t \langle g_t, x_t - u_t \rangle = \underbrace{\sum_t \delta_t}_{errors}
              + \underbrace{\tfrac{\sigma_{1:T}}{2} \|u_T\|^2}_{size}
              + \underbrace{\sum_{t<T} \langle p_{1:t}, u_{t+1} - u_t \rangle}_{path} + slack

        with a slack that is never positive. A large ``path`` says that the state held too much of
        the past when the comparator moved; large ``errors`` say that better predictions would pay.

        Raises
        ------
        InputError
            For learners without a regularised state.
        """
        learner = self._regularised()
        u = learner.domain.absorb(self.comparator.points)
        path = _total(np.vecdot(self.states[:-1], np.diff(u, axis=0)))
        parts = {
            "errors": _total(self.gaps()),
            "size": np.asarray(learner.sigma_) / 2 * np.vecdot(u[-1], u[-1]),
            "path": path,
        }
        linear = _total(np.vecdot(self.gradients, self.actions - self.comparator.points))
        parts["slack"] = linear - sum(parts.values())
        if self.losses.ndim == 1:
            return {name: float(value) for name, value in parts.items()}
        return parts

    def bounds(self) -> dict[str, Any]:
        """Proved bounds on the regret against this comparator, by name.

        ``paper``: the theorem of the rule in use (absent where none is proved); ``log``: the
        sharper one that the recorded run itself gives, errors + size + path with ``||p_{1:t}||``.

        Raises
        ------
        InputError
            For learners without a regularised state.
        """
        learner = self._regularised()
        parts, R = self.terms(), learner.domain.radius
        steps = self.comparator.steps
        norms = np.linalg.norm(self.states[:-1], axis=-1)
        found = {"log": parts["errors"] + parts["size"] + _total(norms * steps)}
        if learner.prune == 1 and learner.rule == "recursive":
            gaps = self.gaps()
            path = _total(np.cumsum(gaps, axis=0)[:-1] * steps)
            found["paper"] = 1.0625 * _total(gaps) + path / (4 * R) + self.error_path
        elif learner.prune == 1 and learner.rule in ("et", "known_path"):
            found["paper"] = learner.bound(self.path_length, self.error_path)
        if self.losses.ndim == 1:
            return {name: float(value) for name, value in found.items()}
        return found

    def explain(self) -> str:
        """One plain paragraph: the regret, its parts, and what would lower the largest."""
        P = np.max(self.path_length)
        start = (
            f"Average regret {np.mean(self.average_regret):.4g} a round over {self.n_rounds} "
            f"rounds against the {self.comparator.name} (path length {P:.4g})."
        )
        try:
            parts = {k: float(np.mean(v)) / self.n_rounds for k, v in self.terms().items()}
        except InputError:
            return start
        shown = ", ".join(f"{name} {value:.4g}" for name, value in parts.items())
        linear = isinstance(self.stream, LinearCosts)
        what = "the regret" if linear else "the linearised regret, which is at least the regret"
        account = f"{start} Its parts a round ({shown}) add up to {what}"
        visible = 1e-9 * float(np.mean(np.abs(self.losses)))
        if not np.mean(self.average_regret) > visible:
            return f"{account}; there is nothing to lower."
        largest = max(TERMS, key=lambda name: parts[name] if name != "slack" else -np.inf)
        advice = {
            "errors": "better predictions would lower it",
            "size": "a smaller set around likely decisions would lower it",
            "path": "the comparator moves a lot: less regularisation, or a slower comparator",
        }[largest]
        return f"{account}; the largest is {largest}: {advice}."

    @property
    def largest_regret(self) -> Any:
        """What the linearised regret of no player could exceed: a bound above it says nothing."""
        low, high = (self.learner.domain.linear_min(s * self.gradients) for s in (1.0, -1.0))
        return _total(np.vecdot(self.gradients, high - low))

    def to_frame(self) -> pd.DataFrame:
        """One row a round: time, actions, loss, regret, error, sigma, whether pruned.

        Raises
        ------
        InputError
            For parallel runs.
        """
        import pandas as pd

        if self.losses.ndim != 1:
            raise InputError("parallel runs do not fit one table", "index the arrays instead")
        d = self.actions.shape[-1]
        frame = pd.DataFrame(self.actions, columns=[f"x_{j + 1}" for j in range(d)])
        frame.insert(0, "round", np.arange(1, self.n_rounds + 1))
        if self.timestamps is not None:
            frame.insert(1, "time", self.timestamps)
        return frame.assign(
            loss=self.losses,
            comparator_loss=self.comparator.losses,
            regret=self.regret,
            error=self.errors,
            sigma=self.sigma,
            pruned=self.prunes,
        )

    def plot(self) -> Figure:
        """Average regret over time, and the curves that explain it."""
        from practicum.optimize.optimistic_ftrl.figures import result_figure

        return result_figure(self)


def run_oco(
    learner: Any,
    losses: Any,
    hints: Any = "none",
    comparators: Any = "per_round",
    *,
    delay: Any = 0,
    timestamps: Any = None,
    warmup: Any = None,
) -> OCOResult:
    r"""Play a learner through a stream: hint, action, loss, gradient, round by round.

    The hint of a round is computed from the past alone, before the action is fixed; the loss is
    looked at only afterwards.

    Parameters
    ----------
    learner : OnlineLearner
        It is restarted first.
    losses : Losses, or (T, d) array of linear costs; (T, B, d) or (T, d) for ``n_runs=B``
    hints : str, int, array, Predictor, callable or scikit-learn regressor
        See :func:`as_predictor`: ``"none"``, ``"last"``, ``"mean:10"``, ``48``, recorded (T, d).
    comparators : {"per_round", "best_fixed", "slow"} or (T, d) array
    delay : int
        Rounds until a gradient arrives. Until the first one does nothing is learnt; no bound is
        claimed.
    timestamps : (T,) array, optional
        Increasing; for seasonal hints by period.
    warmup : (n, d) array, optional
        Gradients from before the first round, for seasonal hints.

    Returns
    -------
    OCOResult

    Raises
    ------
    InputError
        If the learner is none, shapes disagree, a number is NaN or infinite (naming the round), a
        loss is not finite on the set, a comparator leaves the set, or timestamps do not increase.

    Warns
    -----
    UserWarning
        If recorded hints equal the gradients they predict.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, OptFPRL, run_oco
    >>> week = np.random.default_rng(0).normal(size=(7, 2))
    >>> costs = np.tile(week, (50, 1))
    >>> blind = run_oco(OptFPRL(Ball(1.0, 2)), costs)
    >>> told = run_oco(OptFPRL(Ball(1.0, 2)), costs, hints=7)
    >>> bool(told.average_regret < 0.5 * blind.average_regret)
    True
    """
    stream = as_losses(losses)
    if not isinstance(learner, OnlineLearner):
        raise InputError(
            f"the learner is {type(learner).__name__}, an OnlineLearner is expected",
            'make one, for example OptFPRL(Ball(1.0, 2)) or make_arm("recursive", domain)',
        )
    delay = whole("delay", delay, 0)
    _check_stream(learner, stream, delay)
    if timestamps is not None:
        timestamps = check_timestamps(timestamps)
    predictor = as_predictor(hints, timestamps, warmup)
    comparator = as_comparator(comparators, stream, learner.domain)
    learner.restart()
    predictor.begin(stream.n_rounds, learner.shape)
    log = _play(learner, stream, predictor, delay)
    if isinstance(predictor, Recorded | Callback):
        warn_leak(log["hints"], log["gradients"])
    notes = _notes(learner, log["gradients"])
    if comparator.points.ndim < log["actions"].ndim:  # one comparator for all parallel runs
        comparator = as_comparator(
            np.broadcast_to(comparator.points[:, None], log["actions"].shape),
            stream,
            learner.domain,
        )
    named = {comparators: comparator} if isinstance(comparators, str) else {}
    return OCOResult(
        **log,
        comparator=comparator,
        learner=learner,
        stream=stream,
        delay=delay,
        timestamps=timestamps,
        notes=notes,
        _others=named,
    )


def _check_stream(learner: OnlineLearner, stream: Losses, delay: int) -> None:
    if stream.dim != learner.domain.dim:
        raise InputError(
            f"the stream has {stream.dim} coordinates, the set {learner.domain.dim}",
            "make the set with the stream's dimension",
        )
    runs = getattr(stream, "costs", np.empty((0, 0)))
    if runs.ndim == 3 and runs.shape[1] != learner.n_runs:
        raise InputError(
            f"the costs hold {runs.shape[1]} parallel streams, the learner n_runs={learner.n_runs}",
            f"make the learner with n_runs={runs.shape[1]}",
        )
    stream.check(learner.domain)
    if delay >= stream.n_rounds:
        raise InputError(f"delay {delay} with {stream.n_rounds} rounds", "give 0 <= delay < rounds")


def _play(learner: OnlineLearner, stream: Losses, predictor: Any, delay: int) -> dict[str, Any]:
    T, shape, batch = stream.n_rounds, learner.shape, learner.batch
    actions, gradients, hints = (np.zeros((T, *shape)) for _ in range(3))
    losses, sigma = np.zeros((T, *batch)), np.full((T, *batch), np.nan)
    regularised = isinstance(learner, OptFPRL)
    states = np.zeros((T, *shape)) if regularised else np.zeros((0, *shape))
    pruned = np.zeros((T, *batch), dtype=int)
    for t in range(T):
        past = Past(_frozen(gradients[: max(t - delay, 0)]), _frozen(actions[:t]))
        hint = predictor(past)
        if regularised:
            sigma[t] = learner.sigma_
        actions[t] = learner.predict(hint)
        hints[t] = learner._hint
        losses[t] = stream.value(t, actions[t])
        gradients[t] = stream.gradient(t, actions[t])
        # until the first late gradient arrives the hint stands in for it: nothing is learnt
        learner.update(gradients[t - delay] if t >= delay else hints[t])
        if regularised:
            states[t], pruned[t] = learner._p, learner.n_pruned_
    prunes = np.diff(pruned, axis=0, prepend=np.zeros((1, *batch), dtype=int)) > 0
    return {
        "actions": actions,
        "losses": losses,
        "gradients": gradients,
        "hints": hints,
        "sigma": sigma,
        "states": states,
        "prunes": prunes,
    }


def _frozen(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _notes(learner: OnlineLearner, gradients: np.ndarray) -> tuple[str, ...]:
    """What a user should know about this run, in plain sentences."""
    notes = []
    size = np.linalg.norm(gradients, axis=-1)
    if not size.any():
        notes.append("All gradients are zero: the learner stayed at the centre of the set.")
    quarter = max(len(size) // 4, 1)
    early, late = size[:quarter].max(), size[-quarter:].max()
    accumulates = isinstance(learner, OptFPRL) and learner.rule != "constant"
    if accumulates and early > SCALE_CHANGE * late:
        notes.append(
            f"The gradients shrink {early / max(late, 1e-300):.3g}-fold along the stream; "
            "sigma never falls, so the early scale rules the late steps. Call restart() where the "
            "scale changes."
        )
    return tuple(notes)


@dataclass(frozen=True)
class ParallelResult:
    """Totals of many runs advanced together.

    Attributes
    ----------
    loss : (B,) array, total loss of each run
    fixed_loss : (B,) array, total loss of each run's best fixed action
    actions : (B, d) array, the last actions
    n_rounds : int

    Examples
    --------
    >>> done = ParallelResult(np.array([2.0]), np.array([1.5]), np.zeros((1, 2)), 10)
    >>> done.fixed_regret.tolist()
    [0.5]
    """

    loss: np.ndarray
    fixed_loss: np.ndarray
    actions: np.ndarray
    n_rounds: int

    @property
    def fixed_regret(self) -> np.ndarray:
        """Regret of each run against its best fixed action, shape (B,)."""
        return self.loss - self.fixed_loss


def run_parallel(
    learner: OnlineLearner,
    costs: np.ndarray | Callable[[int], np.ndarray],
    hints: str | np.ndarray | Callable[[int], np.ndarray] = "none",
    *,
    n_rounds: int | None = None,
) -> ParallelResult:
    """Advance thousands of learners on linear costs, keeping totals only.

    Cost per round: O(B d) plus one projection call; about a dozen passes over a (B, d) array.

    Parameters
    ----------
    learner : OnlineLearner
        Made with ``n_runs=B``; it goes on from where it is.
    costs : (T, B, d) or (T, d) array, or function of t giving (B, d)
    hints : {"none", "last"}, array, or function of t
        A function is asked for round t before the costs of that round are.
    n_rounds : int, optional
        T, when ``costs`` is a function.

    Raises
    ------
    InputError
        If the learner has no ``n_runs``, T is not known, or a cost is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import OptFPRL, Simplex, run_parallel
    >>> costs = np.random.default_rng(0).random((50, 1000, 3))
    >>> done = run_parallel(OptFPRL(Simplex(3), n_runs=1000), costs)
    >>> done.fixed_regret.shape
    (1000,)
    """
    if learner.n_runs is None:
        raise InputError("run_parallel needs a learner of many runs", "make it with n_runs=B")
    if callable(costs) and n_rounds is None:
        raise InputError("costs are a function: how many rounds?", "give n_rounds=...")
    T = n_rounds if n_rounds is not None else len(costs)
    cost_of = costs if callable(costs) else costs.__getitem__
    loss, total = np.zeros(learner.batch), np.zeros(learner.shape)
    last: np.ndarray | None = None
    for t in range(T):
        hint = _parallel_hint(hints, t, last)
        x = learner.predict(hint)
        cost = np.broadcast_to(np.asarray(cost_of(t), dtype=np.float64), learner.shape)
        learner.update(cost)
        loss += np.vecdot(cost, x)
        total += cost
        last = cost
    if not math.isfinite(loss.sum()):
        refuse_non_finite("total loss", loss)
    fixed = np.vecdot(total, learner.domain.linear_min(total))
    return ParallelResult(loss, fixed, learner.x_, T)


def _parallel_hint(hints: Any, t: int, last: np.ndarray | None) -> np.ndarray | None:
    if isinstance(hints, str):
        if hints not in ("none", "last"):
            raise InputError(f"hints {hints!r}", 'use "none", "last", an array or a function of t')
        return last if hints == "last" else None
    return hints(t) if callable(hints) else hints[t]
