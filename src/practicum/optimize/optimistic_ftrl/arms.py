"""Learners by name, ready for a stream, and a side-by-side run of several of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.comparators import best_fixed, per_round
from practicum.optimize.optimistic_ftrl.domains import Ball, Domain, Simplex
from practicum.optimize.optimistic_ftrl.learners import (
    FTRL,
    OGD,
    Ader,
    Fixed,
    Greedy,
    Hedge,
    OnlineLearner,
    OptFPRL,
    OptimisticOGD,
)
from practicum.optimize.optimistic_ftrl.losses import LinearCosts, Losses, as_losses
from practicum.optimize.optimistic_ftrl.oco import OCOResult, run_oco, run_parallel

if TYPE_CHECKING:
    import pandas as pd

MULTIPLIERS = 2.0 ** np.arange(-3, 9)  # of OGD's step, for the best in hindsight


@dataclass(frozen=True)
class Facts:
    """What some learners must be told about a stream in advance, and others do without.

    Attributes
    ----------
    horizon : int, number of rounds
    grad_bound : float, largest gradient norm
    path_length : float, of the comparator
    """

    horizon: int = 1
    grad_bound: float = 1.0
    path_length: float = 0.0


def make_arm(
    name: str, domain: Domain, facts: Facts = Facts(), n_runs: int | None = None
) -> OnlineLearner:
    """A fresh learner by name.

    Parameters
    ----------
    name : str
        ``recursive``, ``et``, ``known-path``, ``observed-path``, ``official-code`` (the method);
        ``ftrl``, ``adaftrl``, ``ogd``, ``optogd``, ``ader``, ``hedge``, ``greedy``, ``centre``.
    domain : Domain
    facts : Facts
        Used by ``ader`` and ``known-path`` only.
    n_runs : int, optional

    Raises
    ------
    InputError
        If the name is unknown, or the learner cannot work on the domain.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> make_arm("ftrl", Ball(1.0, 2)).rule
    'et'
    """
    makers = {
        "recursive": lambda: OptFPRL(domain, "recursive", n_runs=n_runs),
        "et": lambda: OptFPRL(domain, "et", n_runs=n_runs),
        "known-path": lambda: OptFPRL(
            domain, "known_path", path_length=facts.path_length, n_runs=n_runs
        ),
        "observed-path": lambda: OptFPRL(domain, "observed_path", n_runs=n_runs),
        "official-code": lambda: OptFPRL(domain, "et", variant="official_code", n_runs=n_runs),
        "ftrl": lambda: FTRL(domain, "et", n_runs=n_runs),
        "adaftrl": lambda: FTRL(domain, "recursive", n_runs=n_runs),
        "ogd": lambda: OGD(domain, n_runs=n_runs),
        "optogd": lambda: OptimisticOGD(domain, n_runs=n_runs),
        "ader": lambda: Ader(domain, facts.horizon, facts.grad_bound, n_runs=n_runs),
        "hedge": lambda: Hedge(domain, optimistic=True, n_runs=n_runs),
        "greedy": lambda: Greedy(domain, n_runs=n_runs),
        "centre": lambda: Fixed(domain, n_runs=n_runs),
    }
    if name not in makers:
        raise InputError(f"arm {name!r} is not known", f"there are {', '.join(makers)}, ogd-tuned")
    return makers[name]()


def facts_of(stream: Losses, domain: Domain) -> Facts:
    """What can be known about a stream in hindsight only: a favour to those who need it.

    Parameters
    ----------
    stream : Losses
    domain : Domain

    Raises
    ------
    InputError
        If the losses do not know their minimisers.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball, LinearCosts
    >>> facts_of(LinearCosts([[3.0, 4.0], [0.0, 1.0]]), Ball(1.0, 2)).grad_bound
    5.0
    """
    u = per_round(stream, domain)
    edge = (
        domain.center if u.points.ndim == 2 else np.broadcast_to(domain.center, u.points[0].shape)
    )
    norms = [
        np.linalg.norm(stream.gradient(t, edge), axis=-1).max() for t in range(stream.n_rounds)
    ]
    largest = float(max(norms))
    return Facts(stream.n_rounds, largest or 1.0, float(np.max(u.path_length)))


def run_arm(
    name: str,
    domain: Domain,
    stream: Losses,
    hints: Any = "none",
    *,
    facts: Facts | None = None,
    n_runs: int | None = None,
    comparators: Any = "per_round",
    **settings: Any,
) -> OCOResult:
    """Run an arm by name; ``ogd-tuned`` is OGD with the best multiple of its step in hindsight.

    Parameters
    ----------
    name : str
        See :func:`make_arm`.
    domain : Domain
    stream : Losses
    hints, comparators, **settings
        As for :func:`run_oco`.
    facts : Facts, optional
        Measured where needed.
    n_runs : int, optional

    Raises
    ------
    InputError
        As :func:`make_arm` and :func:`run_oco`.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, LinearCosts
    >>> costs = np.where(np.arange(100) % 20 < 10, 1.0, -1.0)[:, None]
    >>> ogd, tuned = (run_arm(a, Ball(1.0, 1), LinearCosts(costs)) for a in ("ogd", "ogd-tuned"))
    >>> bool(tuned.average_regret <= ogd.average_regret)
    True
    """
    if name in ("ader", "known-path") and facts is None:
        facts = facts_of(stream, domain)
    if name != "ogd-tuned":
        learner = make_arm(name, domain, facts or Facts(), n_runs)
        return run_oco(learner, stream, hints, comparators, **settings)
    losses = _tuning_losses(domain, stream, n_runs)
    best = MULTIPLIERS[losses.argmin(axis=0)]
    return run_oco(OGD(domain, multiplier=best, n_runs=n_runs), stream, "none", comparators)


def _tuning_losses(domain: Domain, stream: Losses, n_runs: int | None) -> np.ndarray:
    """Total loss of OGD by multiplier (and run), shape (multipliers,) or (multipliers, n_runs)."""
    if not isinstance(stream, LinearCosts):
        tried = [OGD(domain, multiplier=m, n_runs=n_runs) for m in MULTIPLIERS]
        return np.stack([run_oco(a, stream, "none", "none").losses.sum(axis=0) for a in tried])
    costs = stream.costs if stream.costs.ndim == 3 else stream.costs[:, None]
    B, k = n_runs or 1, len(MULTIPLIERS)
    learner = OGD(domain, multiplier=np.repeat(MULTIPLIERS, B), n_runs=k * B)

    def every(t: int) -> np.ndarray:
        return np.broadcast_to(costs[t], (k, B, domain.dim)).reshape(k * B, domain.dim)

    loss = run_parallel(learner, every, n_rounds=stream.n_rounds).loss.reshape(k, B)
    return loss if n_runs else loss[:, 0]


def compare_learners(
    losses: Any,
    domain: Domain,
    arms: str | Sequence[str] = ("recursive", "et", "ftrl", "ogd", "optogd", "ader", "greedy"),
    hints: str | Sequence[Any] = ("none",),
    *,
    blocks: int = 1,
    timestamps: Any = None,
    recorded: Any = None,
) -> pd.DataFrame:
    """Several learners on the same stream, side by side.

    Parameters
    ----------
    losses : Losses or (T, d) array of linear costs
    domain : Domain
    arms : str or sequence of str
        See :func:`make_arm`; also ``ogd-tuned``. What cannot work on the set is left
        out: :func:`working_on`.
    hints : str or sequence
        Each as for :func:`run_oco`; ``"adversarial"`` is minus the next gradient (linear costs),
        ``"recorded"`` what is given as ``recorded``.
    blocks : int
        Cut the stream into this many parts, each run afresh: replicates for an interval. With 1
        the result is one deterministic number.
    timestamps : (T,) array, optional
    recorded : (T, d) array, optional
        Recorded predictions of the next gradient, cut into the same blocks.

    Returns
    -------
    pandas.DataFrame
        ``arm, hint, block, T, avg_regret, fixed_regret, avg_loss, path_length, E_T, bound,
        seconds``; regrets are per round, the bound is the paper's on R_T / T (NaN where none is
        proved).

    Raises
    ------
    InputError
        As :func:`run_arm`; or if no arm is left, a block would be shorter than two rounds, or the
        hints are not to be had.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> costs = np.random.default_rng(0).normal(size=(200, 2))
    >>> table = compare_learners(costs, Ball(1.0, 2), arms=["recursive", "ogd"], blocks=2)
    >>> len(table), sorted(table["block"].unique().tolist())
    (4, [0, 1])
    """
    import pandas as pd

    stream = as_losses(losses)
    stream.check(domain)
    arms, hints = ([v] if isinstance(v, str) else list(v) for v in (arms, hints))
    arms = working_on(arms, domain)
    for hint in hints:
        told_hints(hint, stream, recorded)
    rows = []
    for block, part in enumerate(split_stream(stream, blocks)):
        facts, fixed = facts_of(part, domain), best_fixed(part, domain)
        times, known = (
            None if rows is None else np.array_split(rows, blocks)[block]
            for rows in (timestamps, recorded)
        )
        for hint in hints:
            told = told_hints(hint, part, known)
            for arm in arms:
                start = time.perf_counter()
                done = run_arm(arm, domain, part, told, facts=facts, timestamps=times)
                seconds = time.perf_counter() - start
                rows.append(_row(arm, hint, block, done, fixed.losses, seconds))
    return pd.DataFrame(rows)


def told_hints(hint: Any, stream: Losses, recorded: np.ndarray | None = None) -> Any:
    """Hints as :func:`run_oco` takes them, from the two words that need the stream's data.

    Parameters
    ----------
    hint : as for :func:`run_oco`, or ``"adversarial"`` or ``"recorded"``
    stream : Losses
        What is played; ``"adversarial"`` is minus its next gradient.
    recorded : (T, d) array, optional
        For ``"recorded"``.

    Raises
    ------
    InputError
        If the stream has no linear costs for ``"adversarial"``, or nothing was recorded.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import LinearCosts
    >>> told_hints("adversarial", LinearCosts([[1.0], [-2.0]])).tolist()
    [[-1.0], [2.0]]
    """
    if not isinstance(hint, str) or hint not in ("adversarial", "recorded"):
        return hint
    if hint == "adversarial":
        if not isinstance(stream, LinearCosts):
            raise InputError("adversarial hints need linear costs", "leave them out")
        return -stream.costs
    if recorded is None:
        raise InputError(
            "no hints are recorded: there are no columns pred_1, pred_2, ...",
            "add one per coordinate (recorded=... in Python), or use hints=last",
        )
    return recorded


def working_on(arms: Sequence[str], domain: Domain) -> list[str]:
    """The arms that can work on a set: Hedge needs the simplex, the published program a ball.

    Parameters
    ----------
    arms : sequence of str
    domain : Domain

    Raises
    ------
    InputError
        If none is left.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> working_on(["ogd", "hedge"], Ball(1.0, 2))
    ['ogd']
    """
    needs: dict[str, type[Domain]] = {"hedge": Simplex, "official-code": Ball}
    able = [arm for arm in arms if isinstance(domain, needs.get(arm, Domain))]
    if not able:
        raise InputError(
            f"no arm is left to run of {', '.join(arms) or 'none'}: hedge needs the simplex, "
            f"official-code a ball, not {domain!r}",
            "use another set, or name other arms",
        )
    return able


def split_stream(stream: Losses, blocks: int) -> list[Losses]:
    """Contiguous parts of a stream, as equal as can be.

    Parameters
    ----------
    stream : Losses
    blocks : int

    Raises
    ------
    InputError
        If a part would be shorter than two rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import LinearCosts
    >>> [part.n_rounds for part in split_stream(LinearCosts(np.ones((5, 1))), 2)]
    [3, 2]
    """
    if not 1 <= blocks <= stream.n_rounds // 2:
        raise InputError(
            f"{blocks} blocks of {stream.n_rounds} rounds", "give 1 to half as many as rounds"
        )
    cuts = np.array_split(np.arange(stream.n_rounds), blocks)
    return [stream.part(int(rows[0]), int(rows[-1]) + 1) for rows in cuts]


def _row(
    arm: str, hint: Any, block: int, done: OCOResult, fixed: np.ndarray, seconds: float
) -> dict[str, Any]:
    try:
        bound = done.bounds().get("paper", np.nan)
    except InputError:
        bound = np.nan
    T = done.n_rounds
    return {
        "arm": arm,
        "hint": hint if isinstance(hint, str | int) else type(hint).__name__,
        "block": block,
        "T": T,
        "avg_regret": done.average_regret,
        "fixed_regret": float((done.losses - fixed).mean()),
        "avg_loss": float(done.losses.mean()),
        "path_length": done.path_length,
        "E_T": float(done.E),
        "bound": bound / T,
        "seconds": seconds,
    }
