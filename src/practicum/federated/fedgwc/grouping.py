"""Groups of clients: from an interaction matrix, and from a loss log in one step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.linalg import eigvalsh
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import adjusted_rand_score, davies_bouldin_score
from sklearn.utils import check_random_state

from practicum.errors import InputError
from practicum.federated.fedgwc.interaction import (
    comovement,
    joint_interaction,
    perception_affinity,
    published_interaction,
    reward_interaction,
)
from practicum.federated.fedgwc.losses import LossLog, as_loss_log

ESTIMATORS = ("joint", "centred", "comovement", "ema")
VIEWS = ("column", "row")
MIN_SHARE = 0.42
MIN_AGREEMENT = 0.5


def check_options(
    estimator: str, view: str, gamma: float, max_clusters: int, min_co_samples: int
) -> None:
    """What a run would otherwise stumble over when it first tries to split, hours later.

    Raises
    ------
    InputError
        An unknown estimator or view, or a number out of range.
    """
    if estimator not in ESTIMATORS:
        raise InputError(f"no estimator {estimator!r}", f"there are {', '.join(ESTIMATORS)}")
    if view not in VIEWS:
        raise InputError(f"view is {view!r}", "use 'column' or 'row'")
    if not gamma > 0:
        raise InputError(f"gamma is {gamma}; a kernel width is positive")
    for name, value, least in (
        ("max_clusters", max_clusters, 1),
        ("min_co_samples", min_co_samples, 0),
    ):
        if not value >= least:
            raise InputError(f"{name} is {value}; at least {least} expected")


# --- the published way ---------------------------------------------------------------------------


def spectral_groups(
    affinity: Float[np.ndarray, "K K"], n_groups: int, seed: int = 0
) -> Int[np.ndarray, " K"]:
    """Spectral clustering of an affinity with the pivoted-QR labelling, as in the official code.

    Raises
    ------
    InputError
        ``n_groups`` is not between 1 and K.

    Examples
    --------
    >>> spectral_groups(np.kron(np.eye(2), np.ones((3, 3))) + 0.01, 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    _check_number(n_groups, len(affinity))
    if n_groups == 1:
        return np.zeros(len(affinity), dtype=int)
    model = SpectralClustering(
        n_clusters=n_groups,
        n_components=n_groups,
        affinity="precomputed",
        assign_labels="cluster_qr",
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        return first_member_order(model.fit_predict(affinity))


def published_split(
    affinity: Float[np.ndarray, "K K"], per_round: int, max_clusters: int = 5, seed: int = 0
) -> Int[np.ndarray, " K"]:
    """The official rule for a split: the smallest Davies-Bouldin score, if it is below 1.

    Tries 2 .. min(floor(K/m) + 1, ``max_clusters``) - 1 groups (the upper limit is exclusive: with
    K = 100 and m = 10 at most four) and scores each on a spectral embedding.

    Parameters
    ----------
    affinity : array, shape (K, K)
        From :func:`~practicum.federated.fedgwc.interaction.perception_affinity`.
    per_round : int
        m.
    max_clusters : int

    Returns
    -------
    int array, shape (K,); all 0 where the cluster stays whole

    Raises
    ------
    InputError
        ``per_round`` is below 1.

    Examples
    --------
    >>> published_split(np.kron(np.eye(2), np.ones((6, 6))) + 0.01 - np.eye(12), 3).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    if per_round < 1:
        raise InputError(f"per_round is {per_round}; at least 1 expected")
    best, labels = 1.0, np.zeros(len(affinity), dtype=int)
    for n_groups in range(2, min(len(affinity) // per_round + 1, max_clusters)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Graph is not fully connected")
            embedding = SpectralEmbedding(
                n_components=n_groups, affinity="precomputed", random_state=seed
            ).fit_transform(affinity)
        tried = spectral_groups(affinity, n_groups, seed)
        if len(np.unique(tried)) < 2:
            continue
        score = davies_bouldin_score(embedding, tried)
        if score < best:
            best, labels = score, tried
    return labels


# --- ours ----------------------------------------------------------------------------------------


def interaction_groups(
    interaction: Float[np.ndarray, "K K"], n_groups: int, seed: int = 0
) -> Int[np.ndarray, " K"]:
    """Groups with large interaction inside and small between.

    Leading eigenvectors give the start (two groups: the signs of the first; more: k-means of the
    first n_groups - 1); then the client that gains most moves to the group with which its mean
    interaction is largest, until none gains. Groups are numbered by their first member.

    Parameters
    ----------
    interaction : array, shape (K, K), symmetric
        From :func:`~practicum.federated.fedgwc.interaction.centred_interaction` and its kin.
    n_groups : int

    Returns
    -------
    int array, shape (K,)

    Raises
    ------
    InputError
        ``n_groups`` is not between 1 and K, or the matrix is not finite.

    Examples
    --------
    >>> blocks = np.kron(np.eye(2), np.ones((3, 3))) - 0.5
    >>> interaction_groups(blocks, 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    _check_number(n_groups, len(interaction))
    if not np.isfinite(interaction).all():
        raise InputError("the interaction matrix holds numbers that are not finite")
    if n_groups == 1:
        return np.zeros(len(interaction), dtype=int)
    values, vectors = np.linalg.eigh(interaction)
    if n_groups == 2:
        labels = (vectors[:, -1] > 0).astype(int)
    else:
        leading = slice(-(n_groups - 1), None)
        points = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0))
        labels = KMeans(n_groups, n_init=10, random_state=seed).fit_predict(points).astype(int)
    return first_member_order(_refined(interaction, labels, n_groups))


def _refined(interaction: np.ndarray, labels: np.ndarray, n_groups: int) -> np.ndarray:
    """Single moves while one gains; a group never loses its last member."""
    labels = labels.copy()
    everyone = np.arange(len(labels))
    for _ in range(10 * len(labels)):
        member = np.eye(n_groups)[labels]
        others = np.maximum(member.sum(0) - member, 1)
        mean = interaction @ member / others
        gain = mean - mean[everyone, labels][:, None]
        gain[member.sum(0)[labels] == 1] = 0
        who, where = np.unravel_index(gain.argmax(), gain.shape)
        if gain[who, where] <= 1e-12:
            break
        labels[who] = where
    return labels


def count_groups(
    interaction: Float[np.ndarray, "K K"],
    rng: np.random.Generator,
    *,
    min_share: float = MIN_SHARE,
    n_flips: int = 100,
    level: float = 0.95,
    max_groups: int = 5,
) -> int:
    """How many groups an interaction matrix speaks for.

    An eigenvalue counts when it exceeds the ``level`` quantile of the largest one under random
    signs of the entries (no groups, the same noise). That alone is too eager: clients with equal
    data still differ in difficulty, and the test finds it. So the counted eigenvalues must also
    explain ``min_share`` of the squared matrix; groups do, differences in difficulty do not.

    Parameters
    ----------
    interaction : array, shape (K, K), symmetric
    rng : numpy.random.Generator
    min_share : float
        0.42 separated federations with groups from IID ones in our simulations (K = 24; IID stayed
        below 0.39, groups above 0.47).
    n_flips : int
    level : float
    max_groups : int

    Returns
    -------
    int, 1 (do not split) to ``max_groups``

    Raises
    ------
    InputError
        The matrix is not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(20, 20)); noise = (noise + noise.T) / 2
    >>> count_groups(noise, rng)
    1
    >>> count_groups(np.kron(np.eye(2), np.ones((10, 10))) - 0.5 + 0.2 * noise, rng)
    2
    """
    if not np.isfinite(interaction).all():
        raise InputError("the interaction matrix holds numbers that are not finite")
    counted, share = _counted(interaction, rng, n_flips, level)
    return min(1 + counted, max_groups) if share >= min_share else 1


def _counted(
    interaction: np.ndarray, rng: np.random.Generator, n_flips: int = 100, level: float = 0.95
) -> tuple[int, float]:
    """Eigenvalues above those of noise, and their share of the squared matrix."""
    values = np.linalg.eigvalsh(interaction)[::-1]
    edge = np.quantile([_flipped_edge(interaction, rng) for _ in range(n_flips)], level)
    counted = int((values > edge).sum())
    total = float((interaction**2).sum())
    return counted, float((values[:counted] ** 2).sum()) / total if total > 0 else 0.0


def _flipped_edge(interaction: np.ndarray, rng: np.random.Generator) -> float:
    """Largest eigenvalue with random signs."""
    upper = np.triu(rng.choice([-1.0, 1.0], interaction.shape) * interaction, 1)
    last = len(interaction) - 1
    return float(eigvalsh(upper + upper.T, subset_by_index=[last, last])[0])


def first_member_order(labels: Int[np.ndarray, " K"]) -> Int[np.ndarray, " K"]:
    """The same grouping, groups numbered in the order of their first members."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _check_number(n_groups: object, n_clients: int) -> None:
    if not isinstance(n_groups, Integral) or not 1 <= n_groups <= n_clients:
        raise InputError(f"{n_groups} groups of {n_clients} clients; 1 to {n_clients} expected")


# --- a log in, groups out ------------------------------------------------------------------------


def interaction_of(
    log: LossLog, estimator: str = "joint", view: str = "column", gamma: float = 0.1
) -> Float[np.ndarray, "K K"]:
    """The matrix in which an estimator looks for groups.

    Parameters
    ----------
    log : LossLog
    estimator : {"joint", "centred", "comovement", "ema"}
        Ours from rewards and co-movement together, from rewards alone, from co-movement alone; or
        the affinity of the published moving average.
    view, gamma
        For ``"ema"`` only, see :func:`~practicum.federated.fedgwc.interaction.perception_affinity`.

    Raises
    ------
    InputError
        An unknown estimator.

    Examples
    --------
    >>> log = LossLog(3)
    >>> log.add(0, np.arange(3), np.array([[1.0], [1.0], [2.0]]))
    >>> interaction_of(log, "ema").shape
    (3, 3)
    """
    ours = {
        "joint": joint_interaction,
        "centred": reward_interaction,
        "comovement": comovement,
    }
    if estimator in ours:
        return ours[estimator](log)
    if estimator == "ema":
        return perception_affinity(published_interaction(log), gamma, view)
    raise InputError(f"no estimator {estimator!r}", f"there are {', '.join(ESTIMATORS)}")


@dataclass(frozen=True, eq=False)
class SplitEvidence:
    """What a log says about groups of its clients, and why.

    Attributes
    ----------
    labels : int array, shape (K,)
        Groups; all 0 where the clients stay together.
    proposed : int
        Groups that the eigenvalues above those of noise propose.
    share : float
        Of the squared matrix, what these eigenvalues explain.
    agreement : float
        Adjusted Rand index between the groups of the even and of the odd rounds; NaN where it was
        not looked at.
    reason : {"groups", "noise", "weak", "unstable"}
        Groups are found; nothing stands out; what stands out explains too little (clients differ,
        but not in groups); the two halves of the rounds disagree.

    Examples
    --------
    >>> rng, log = np.random.default_rng(0), LossLog(8)
    >>> side = np.repeat([1.0, -1.0], 4)
    >>> for t in range(80):
    ...     losses = np.exp(side * rng.normal() + 0.1 * rng.normal(size=8))
    ...     log.add(t, np.arange(8), losses[:, None])
    >>> found = split_evidence(log)
    >>> found.reason, found.proposed, found.agreement, found.labels.tolist()
    ('groups', 2, 1.0, [0, 0, 0, 0, 1, 1, 1, 1])
    """

    labels: np.ndarray
    proposed: int
    share: float
    agreement: float
    reason: str


def split_evidence(
    log: LossLog,
    estimator: str = "joint",
    *,
    seed: int = 0,
    max_groups: int = 5,
    min_agreement: float = MIN_AGREEMENT,
) -> SplitEvidence:
    """Groups of the clients of a log, their number decided by the losses, and why so many.

    :func:`count_groups` proposes a number; the split stands if the even and the odd rounds, each by
    itself, lead to groups that agree. In a small federation noise alone passes the first test now
    and then; it does not repeat.

    Parameters
    ----------
    log : LossLog
    estimator : {"joint", "centred", "comovement"}
    seed : int
    max_groups : int
    min_agreement : float
        Adjusted Rand index between the groups of the two halves.

    Raises
    ------
    InputError
        An unknown estimator.

    Examples
    --------
    >>> rng, log = np.random.default_rng(0), LossLog(8)
    >>> for t in range(80):
    ...     log.add(t, np.arange(8), np.exp(rng.normal(size=(8, 2))))
    >>> split_evidence(log).reason
    'noise'
    """
    matrix = interaction_of(log, estimator)
    if not np.isfinite(matrix).all():
        raise InputError("the interaction matrix holds numbers that are not finite")
    counted, share = _counted(matrix, np.random.default_rng([seed, log.n_rounds]))
    n_groups, agreement = min(1 + counted, max_groups), math.nan
    reason = "noise" if counted == 0 else "weak" if share < MIN_SHARE else "groups"
    if reason == "groups" and n_groups > 1:
        halves = [log.take(range(start, log.n_rounds, 2)) for start in (0, 1)]
        found = [interaction_groups(interaction_of(h, estimator), n_groups, seed) for h in halves]
        agreement = float(adjusted_rand_score(*found))
        reason = "groups" if agreement >= min_agreement else "unstable"
    labels = interaction_groups(matrix, n_groups if reason == "groups" else 1, seed)
    return SplitEvidence(labels, 1 + counted, share, agreement, reason)


def split_by_losses(
    log: LossLog,
    estimator: str = "joint",
    *,
    seed: int = 0,
    max_groups: int = 5,
    min_agreement: float = MIN_AGREEMENT,
) -> Int[np.ndarray, " K"]:
    """The groups of :func:`split_evidence`.

    Parameters
    ----------
    log, estimator, seed, max_groups, min_agreement
        As there.

    Returns
    -------
    int array, shape (K,); all 0 where the clients stay together

    Raises
    ------
    InputError
        An unknown estimator.

    Examples
    --------
    >>> rng, log = np.random.default_rng(0), LossLog(8)
    >>> for t in range(80):
    ...     log.add(t, np.arange(8), np.exp(rng.normal(size=(8, 2))))
    >>> split_by_losses(log).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0]
    """
    options = {"seed": seed, "max_groups": max_groups, "min_agreement": min_agreement}
    return split_evidence(log, estimator, **options).labels


def _seed_of(random_state: object) -> int:
    """An integer seed from scikit-learn's three kinds of ``random_state``."""
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}; at least 0 expected")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


class LossClusterer(ClusterMixin, BaseEstimator):
    """Groups the clients of a federation from a log of the losses they reported.

    Needs no model, no data and no new round: only ``round, client, step, loss``.

    Parameters
    ----------
    n_clusters : int, optional
        How many groups; by default the losses decide (:func:`split_by_losses`, or the published
        Davies-Bouldin rule for ``estimator="ema"``).
    estimator : {"joint", "centred", "comovement", "ema"}
        ``joint`` is the most reliable in our study; ``ema`` with ``view="column"`` is the official
        code's.
    view : {"column", "row"}
    gamma : float
        Both of ``estimator="ema"`` alone.
    max_clusters : int
        Most groups where their number is left open (the published rule stops one before it).
    min_co_samples : int
        Refuse to split while the median pair of clients has fewer rounds in common.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : int array, shape (K,)
        Groups, in the order of ``names_``.
    names_ : list
        The clients.
    affinity_ : array, shape (K, K)
        The matrix the groups were read from.
    co_samples_ : int array, shape (K, K)
        Rounds in common.
    n_clusters_ : int
    evidence_ : SplitEvidence or None
        Why so many groups; None where their number was given, and for ``estimator="ema"``.

    Examples
    --------
    >>> rng, rows = np.random.default_rng(0), []
    >>> for t in range(300):
    ...     wave = 0.3 * rng.normal()
    ...     for c in rng.choice(12, 6, replace=False).tolist():
    ...         loss = 1 + (wave if c < 6 else -wave) + 0.1 * rng.normal()
    ...         rows.append((t, c, 0, abs(loss)))
    >>> log = pd.DataFrame(rows, columns=["round", "client", "step", "loss"])
    >>> LossClusterer().fit_predict(log).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        estimator: str = "joint",
        view: str = "column",
        gamma: float = 0.1,
        max_clusters: int = 5,
        min_co_samples: int = 10,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.estimator = estimator
        self.view = view
        self.gamma = gamma
        self.max_clusters = max_clusters
        self.min_co_samples = min_co_samples
        self.random_state = random_state

    def fit(self, log: pd.DataFrame | LossLog | Mapping | list, y: object = None) -> LossClusterer:
        """Find the groups.

        Parameters
        ----------
        log : pandas.DataFrame (or what makes one) or LossLog
            Columns ``round, client, step, loss`` and perhaps ``n``.
        y : ignored

        Raises
        ------
        InputError
            The log is unusable (:func:`~practicum.federated.fedgwc.losses.as_loss_log`), or has too
            few rounds: the message says how many are needed. A parameter is out of range.

        Warns
        -----
        UserWarning
            Pairs of clients that were never sampled together; or fewer than 2 m clients, which the
            published rule never splits.
        """
        check_options(self.estimator, self.view, self.gamma, self.max_clusters, self.min_co_samples)
        log = log if isinstance(log, LossLog) else as_loss_log(log)
        if self.n_clusters is not None:
            _check_number(self.n_clusters, log.n_clients)
        self.names_ = log.names
        self.co_samples_ = log.co_samples()
        _refuse_too_few_rounds(log, self.co_samples_, self.min_co_samples)
        self.affinity_ = interaction_of(log, self.estimator, self.view, self.gamma)
        self.evidence_, seed = None, _seed_of(self.random_state)
        if self.estimator == "ema":
            self.labels_ = self._published(log, seed)
        elif self.n_clusters is not None:
            self.labels_ = interaction_groups(self.affinity_, self.n_clusters, seed)
        else:
            self.evidence_ = split_evidence(
                log, self.estimator, seed=seed, max_groups=self.max_clusters
            )
            self.labels_ = self.evidence_.labels
        self.n_clusters_ = len(np.unique(self.labels_))
        return self

    def _published(self, log: LossLog, seed: int) -> np.ndarray:
        if self.n_clusters is not None:
            return spectral_groups(self.affinity_, self.n_clusters, seed)
        if not log.published_can_split:
            warnings.warn(
                f"{log.n_clients} clients, {log.per_round} a round: the published rule splits "
                "nothing below 2 m clients",
                UserWarning,
                stacklevel=3,
            )
        return published_split(self.affinity_, log.per_round, self.max_clusters, seed)


def _refuse_too_few_rounds(log: LossLog, co_samples: np.ndarray, minimum: int) -> None:
    pairs = np.triu_indices(len(co_samples), 1)
    counts = co_samples[pairs]
    median = float(np.median(counts))
    if median < minimum:
        needed = int(np.ceil(log.n_rounds * minimum / (median or max(counts.mean(), 0.5))))
        raise InputError(
            f"the median pair of clients was sampled together in {median:g} of {log.n_rounds} "
            f"rounds; at least {minimum} are needed to tell groups from noise",
            f"about {needed:,} rounds of this kind would do, or more clients a round; "
            "min_co_samples lowers the bar",
        )
    never = np.flatnonzero(counts == 0)
    if len(never):
        named = [f"{log.names[pairs[0][i]]}-{log.names[pairs[1][i]]}" for i in never[:5]]
        warnings.warn(
            f"{len(never)} pairs of clients were never sampled together: {', '.join(named)}"
            f"{' ...' if len(never) > 5 else ''}; they are grouped by their other pairs",
            UserWarning,
            stacklevel=3,
        )
