"""Which part of a log to trust: the episodes with high returns.

The pull towards the data is applied, and its strength learned, on the trusted transitions D^ only.
Here a whole episode is trusted or not, by its return; the other rule of the paper, by the advantage
of single actions (``iql``), needs a trained critic.

>>> import numpy as np
>>> from practicum.rl.ssar.pendulum import pendulum_mix
>>> report = trust_trajectories(pendulum_mix("mixed-20", rng=np.random.default_rng(0)))
>>> int(report.trusted_episodes.sum()), report.cut < 0
(21, True)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError

SHARE, AT_LEAST = 0.1, 10  # the least that is trusted: a tenth, ten episodes
FEW = 5  # episodes below which the trusted part says little
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class TrustReport:
    """What is trusted, and by which rule.

    Attributes
    ----------
    method : str
    trusted : bool, shape (n,)
        Per transition.
    returns : shape (e,)
        Of every episode.
    trusted_episodes : bool, shape (e,)
        Episodes of which at least one transition is trusted.
    cut : float or None
        The lowest trusted return, where the rule is one of returns.
    rule : str
        The rule in words.
    notes : tuple of str
        What looks odd.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> report = trust_trajectories(pendulum_mix("mixed-20", rng=0), ref_return=-500)
    >>> print(report.describe())
    Trusted: 4,000 of 20,000 transitions (20 %) in 20 of 100 episodes: return above -500. ...
    """

    method: str
    trusted: Bool[np.ndarray, "n"]
    returns: Float[np.ndarray, "e"]
    trusted_episodes: Bool[np.ndarray, "e"]
    cut: float | None
    rule: str
    notes: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share of transitions that are trusted."""
        return float(self.trusted.mean())

    def describe(self) -> str:
        """How much is trusted, why, and what trusted episodes return beside the others."""
        n, e = len(self.trusted), len(self.returns)
        some = int(self.trusted_episodes.sum())
        text = (
            f"Trusted: {int(self.trusted.sum()):,} of {n:,} transitions ({100 * self.share:.0f} %) "
            f"in {some:,} of {e:,} episodes: {self.rule}."
        )
        if 0 < some < e:
            inside = self.returns[self.trusted_episodes].mean()
            outside = self.returns[~self.trusted_episodes].mean()
            text += (
                f" Mean return of the trusted episodes {inside:,.4g}, of the others {outside:,.4g}."
            )
        return text


def return_quantiles(returns: Float[np.ndarray, "e"]) -> str:
    """Quantiles of the episodes' returns, as one line.

    Parameters
    ----------
    returns : shape (e,)

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> return_quantiles(np.arange(101.0))
    'lowest 0, 10 % 10, 25 % 25, 50 % 50, 75 % 75, 90 % 90, highest 100'
    """
    names = ["lowest", *(f"{100 * q:.0f} %" for q in QUANTILES[1:-1]), "highest"]
    values = np.quantile(returns, QUANTILES)
    return ", ".join(f"{name} {value:,.4g}" for name, value in zip(names, values, strict=True))


def natural_cut(returns: Float[np.ndarray, "e"]) -> float:
    """The lowest return of the better group, where returns split best into two (Otsu 1979).

    The split that leaves the least variance within the groups; the better group has at least a
    tenth of the episodes, and at least ten. Of a log of good and bad drivers it takes the good
    ones, of a log by one hand the better part: a fixed tenth would take, of many equally good
    episodes, those with a lucky start.

    Parameters
    ----------
    returns : shape (e,)

    Returns
    -------
    float
        One of the returns; episodes that reach it are the better group.

    Examples
    --------
    >>> natural_cut(np.concatenate([np.linspace(-1200, -1000, 80), np.linspace(-200, -100, 20)]))
    -200.0
    """
    ordered = np.sort(returns)
    n = len(ordered)
    least = min(n, max(math.ceil(SHARE * n), AT_LEAST))
    below = np.arange(1, n - least + 1)  # episodes left out
    if below.size == 0:
        return float(ordered[0])
    sums = np.cumsum(ordered)
    lower, upper = sums[below - 1] / below, (sums[-1] - sums[below - 1]) / (n - below)
    between = below * (n - below) * (upper - lower) ** 2
    return float(ordered[below[between.argmax()]])


def is_sparse(data: OfflineDataset) -> bool:
    """Whether the reward is one of success: two values, and rarely the higher one.

    Parameters
    ----------
    data : OfflineDataset

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.rl.ssar.pointmaze import pointmaze_mix
    >>> is_sparse(pointmaze_mix("mixed-20", rng=0))
    True
    """
    low, high = data.rewards.min(), data.rewards.max()
    two = bool(np.all((data.rewards == low) | (data.rewards == high)))
    return two and low < high and float(np.mean(data.rewards == high)) < 0.1


def trust_trajectories(
    data: OfflineDataset, ref_return: float | int | None = None, *, sparse: bool | None = None
) -> TrustReport:
    """Trust whole episodes, by their return or by their success.

    Dense reward: an episode is trusted iff its return is above ``ref_return``; without one, iff it
    is on the better side of :func:`natural_cut`.  Sparse reward: iff its last reward is not
    the smallest reward of the data.

    Parameters
    ----------
    data : OfflineDataset
    ref_return : float, optional
        In the units of the rewards, undiscounted.  Given, the reward is taken as dense.
    sparse : bool, optional
        Whether the reward is one of success; told from the rewards (:func:`is_sparse`) by default.

    Returns
    -------
    TrustReport

    Raises
    ------
    InputError
        Nothing is trusted: ``ref_return`` is not below the best return (the quantiles are
        listed), or no episode ends in success.

    Warns
    -----
    UserWarning
        Fewer than 5 episodes are trusted, or all are (selection is off).

    Examples
    --------
    >>> from practicum.rl.ssar.pointmaze import pointmaze_mix
    >>> report = trust_trajectories(pointmaze_mix("mixed-20", rng=0))
    >>> print(report.rule)
    it ends in success (its last reward is above 0)
    """
    returns = data.returns()
    if sparse is None:
        sparse = ref_return is None and is_sparse(data)
    if sparse:
        floor = float(data.rewards.min())
        chosen = data.rewards[data.episodes[:, 1] - 1] > floor
        rule, cut = f"it ends in success (its last reward is above {floor:g})", None
    elif ref_return is not None:
        chosen, cut = returns > ref_return, float(ref_return)
        rule = f"return above {ref_return:,.6g}"
    else:
        cut = natural_cut(returns)
        chosen = returns >= cut
        rule = (
            f"return of {cut:,.6g} or more, where the returns split best into two groups (never "
            f"fewer than a tenth of the episodes, nor than {AT_LEAST})"
        )
    if not chosen.any():
        raise _nothing_trusted(data, returns, ref_return)
    notes = _oddities(chosen, returns)
    for note in notes:
        warnings.warn(f"{data.name}: {note}", UserWarning, stacklevel=2)
    return TrustReport("traj", chosen[data.episode_of], returns, chosen, cut, rule, notes)


def _nothing_trusted(
    data: OfflineDataset, returns: Float[np.ndarray, "e"], ref_return: float | int | None
) -> InputError:
    if ref_return is None:
        return InputError(
            f"{data.name}: no episode ends with more than the smallest reward "
            f"({data.rewards.min():g}): there is no success to trust",
            "log some successes, or trust by return with ref_return (--ref-return)",
        )
    return InputError(
        f"{data.name}: ref_return={ref_return:g} is not below the best return "
        f"({returns.max():,.6g}): nothing would be trusted",
        f"returns of episodes: {return_quantiles(returns)}",
    )


def _oddities(chosen: Bool[np.ndarray, "e"], returns: Float[np.ndarray, "e"]) -> tuple[str, ...]:
    if chosen.all():
        return (
            f"all {len(chosen)} episodes are trusted: selection is off (returns: "
            f"{return_quantiles(returns)})",
        )
    if chosen.sum() < FEW:
        return (
            f"only {int(chosen.sum())} of {len(chosen)} episodes are trusted: too few to say much "
            "(a lower ref_return trusts more)",
        )
    return ()


def trust(
    data: OfflineDataset,
    method: str | Callable[[OfflineDataset], np.ndarray] | np.ndarray = "auto",
    *,
    ref_return: float | int | None = None,
    sparse: bool | None = None,
) -> TrustReport:
    """Trust by a rule of this module, by one's own, or by a given mask.

    Parameters
    ----------
    data : OfflineDataset
    method : {"auto", "traj", "all"}, callable or bool array
        ``auto`` and ``traj``: :func:`trust_trajectories`; ``all``: every transition; a callable
        takes the data and gives a mask of its transitions (n,) or of its episodes (e,).
    ref_return, sparse
        As for :func:`trust_trajectories`.

    Returns
    -------
    TrustReport

    Raises
    ------
    InputError
        The method is not known, the mask has another shape, or nothing is trusted.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> data = pendulum_mix("mixed-20", rng=0)
    >>> trust(data, lambda d: d.returns() > -300).share
    0.19
    """
    if isinstance(method, str):
        if method in ("auto", "traj"):
            return trust_trajectories(data, ref_return, sparse=sparse)
        if method == "all":
            mask, rule = np.ones(len(data), bool), "all of them"
        else:
            raise InputError(
                f"trust method {method!r} is not known", "use auto, traj, iql, all, or a callable"
            )
    else:
        mask = np.asarray(method(data) if callable(method) else method)
        rule = f"chosen by {getattr(method, '__name__', 'a given mask')}"
    return report_of_mask(data, mask, method if isinstance(method, str) else "own", rule)


def report_of_mask(data: OfflineDataset, mask: np.ndarray, method: str, rule: str) -> TrustReport:
    """A report of a mask that was made elsewhere.

    Parameters
    ----------
    data : OfflineDataset
    mask : bool, shape (n,) for transitions or (e,) for episodes
    method : str
    rule : str
        In words, to follow "transitions are trusted: ".

    Raises
    ------
    InputError
        The mask is not boolean, has another shape, or trusts nothing.

    Warns
    -----
    UserWarning
        Fewer than 5 episodes hold a trusted transition.

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> data = pendulum_mix("expert", 10, rng=0)
    >>> report_of_mask(data, np.arange(2000) < 500, "own", "the first 500").trusted_episodes.sum()
    np.int64(3)
    """
    episodes = len(data.episodes)
    if mask.dtype != bool or mask.shape not in ((len(data),), (episodes,)):
        raise InputError(
            f"{data.name}: the trust mask has shape {mask.shape} and holds {mask.dtype}",
            f"expected booleans, ({len(data)},) for transitions or ({episodes},) for episodes",
        )
    trusted = mask if len(mask) == len(data) else mask[data.episode_of]
    if not trusted.any():
        raise InputError(f"{data.name}: nothing is trusted by the rule {rule!r}")
    some = np.logical_or.reduceat(trusted, data.episodes[:, 0])
    notes = _oddities(some, data.returns()) if method != "iql" and not trusted.all() else ()
    for note in notes:
        warnings.warn(f"{data.name}: {note}", UserWarning, stacklevel=2)
    return TrustReport(method, trusted, data.returns(), some, None, rule, notes)
