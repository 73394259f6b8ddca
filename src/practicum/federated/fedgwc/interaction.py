"""How clients interact, read from their losses: the published matrix, and estimators of our own.

All take the loss reports of a :class:`~practicum.federated.fedgwc.losses.LossLog` (or the rewards
made of them) and give a K x K matrix. :mod:`.grouping` finds groups in it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.errors import InputError
from practicum.federated.fedgwc.losses import LossLog


class PublishedInteraction:
    r"""The interaction matrix of the official code, an exponential moving average.

    Starts at :math:`1/K^2`; after a round with the sampled clients :math:`\mathcal P_t`, for all
    :math:`i, j \in \mathcal P_t` (the diagonal included),

    .. math:: W_{ij} \leftarrow (1-\alpha) W_{ij}
              + \alpha\,\omega_i / \textstyle\sum_{k \in \mathcal P_t} \omega_k .

    The mean squared change is smoothed with the same rate; a split is tried once it has stayed
    below ``eps`` for ``patience`` rounds.

    Parameters
    ----------
    n_clients : int
        K.
    per_round : int
        m, the clients sampled a round; the rate is m / K, the patience round(K / m).
    eps : float
        When the matrix counts as settled.

    Attributes
    ----------
    matrix : numpy.ndarray, shape (K, K)
    change : float
        Smoothed mean squared change, 1 at the start.
    calm : int
        Rounds in a row with ``change < eps``.

    Examples
    --------
    >>> interaction = PublishedInteraction(4, 3)
    >>> interaction.update(np.array([0, 1, 3]), np.array([0.5, 0.3, 0.2]))
    >>> interaction.matrix[0].round(4).tolist()
    [0.3906, 0.3906, 0.0625, 0.3906]
    """

    def __init__(self, n_clients: int, per_round: int, eps: float = 1e-5) -> None:
        if per_round < 3:
            raise InputError(
                f"per_round is {per_round}; Gaussian rewards need at least 3 clients a round",
                "sample more clients a round",
            )
        self.matrix = np.full((n_clients, n_clients), 1 / n_clients**2)
        self.rate = min(1.0, per_round / n_clients)
        self.patience = round(n_clients / per_round)
        self.eps = eps
        self.change = 1.0
        self.calm = 0

    def update(self, clients: Int[np.ndarray, " m"], rewards: Float[np.ndarray, " m"]) -> None:
        """Take in one round."""
        share = self.rate / rewards.sum() * rewards
        if len(clients) == len(self.matrix):
            mean_square = self._update_all(share[np.argsort(clients)])
        else:
            mean_square = self._update_block(clients, share)
        self.change = (1 - self.rate) * self.change + self.rate * mean_square
        self.calm = self.calm + 1 if self.change < self.eps else 0

    def _update_block(self, clients: np.ndarray, share: np.ndarray) -> float:
        # flat positions: twice as fast as indexing rows and columns
        block = (clients[:, None] * len(self.matrix) + clients).ravel()
        entries = self.matrix.reshape(-1)
        before = entries[block]
        step = np.repeat(share, len(clients)) - self.rate * before
        entries[block] = before + step
        return float(step @ step) / len(step)

    def _update_all(self, share: np.ndarray) -> float:
        step = self.matrix * -self.rate
        step += share[:, None]
        self.matrix += step
        return float(np.vdot(step, step)) / step.size

    @property
    def settled(self) -> bool:
        """Whether the official code would try to split now."""
        return self.calm == self.patience

    def of(self, members: Int[np.ndarray, " k"], per_round: int) -> PublishedInteraction:
        """What a new cluster inherits: its block of the matrix, with the counters started anew."""
        child = PublishedInteraction(len(members), per_round, self.eps)
        # contiguous, for updates write through a flat view
        child.matrix = np.ascontiguousarray(self.matrix[np.ix_(members, members)])
        return child


def published_interaction(log: LossLog, per_round: int | None = None) -> Float[np.ndarray, "K K"]:
    """:class:`PublishedInteraction` after all rounds of a log.

    Parameters
    ----------
    log : LossLog
    per_round : int, optional
        m; by default the median number of clients that reported in a round.

    Returns
    -------
    array, shape (K, K)

    Raises
    ------
    InputError
        Fewer than 3 clients a round.

    Examples
    --------
    >>> log = LossLog(3)
    >>> log.add(0, np.arange(3), np.array([[1.0], [1.0], [2.0]]))
    >>> published_interaction(log).round(3).tolist()
    [[0.404, 0.404, 0.404], [0.404, 0.404, 0.404], [0.191, 0.191, 0.191]]
    """
    if not log.n_rounds:
        raise InputError("no round has finite losses: training diverged", "lower the learning rate")
    m = log.per_round if per_round is None else per_round
    interaction = PublishedInteraction(log.n_clients, m)
    for rewards in log.rewards():
        clients = np.flatnonzero(np.isfinite(rewards))
        if len(clients):
            interaction.update(clients, rewards[clients])
    return interaction.matrix


def perception_affinity(
    interaction: Float[np.ndarray, "K K"],
    gamma: float = 0.1,
    view: str = "column",
    scale: bool = True,
) -> Float[np.ndarray, "K K"]:
    r"""Affinity of clients by their interaction with everybody else ("perception vectors").

    .. math:: A_{ij} = \exp\Big(-\gamma \sum_{l \ne i,j} (x_{il} - x_{jl})^2\Big), \quad A_{ii} = 0

    with :math:`x_i` the i-th column (``view="column"``: how l did when sampled with i; official
    code) or row (``view="row"``: how i did when sampled with l; our reading of the text) of the
    matrix. In the column view the level of l's own reward cancels between i and j; in the row view
    it does not, and clients are told apart by their own level instead.

    All K^2 pairs come from one matrix product, after which the two excluded terms of each pair are
    taken out: O(K^3) floating point operations in BLAS and O(K^2) memory.

    Parameters
    ----------
    interaction : array, shape (K, K)
    gamma : float
        Width of the kernel (0.1 in the published configuration).
    view : {"column", "row"}
    scale : bool
        Min-max scale the matrix to [0, 1] first, as the official code does.

    Returns
    -------
    array, shape (K, K), symmetric, zero diagonal

    Raises
    ------
    InputError
        Not a square matrix of finite numbers, an unknown view, or gamma not positive.

    Examples
    --------
    >>> blocks = np.kron(np.eye(2), np.ones((3, 3)))
    >>> A = perception_affinity(blocks, gamma=1.0)
    >>> A[0].round(3).tolist()
    [0.0, 1.0, 1.0, 0.018, 0.018, 0.018]
    """
    x = np.asarray(interaction, dtype=float)
    if x.ndim != 2 or x.shape[0] != x.shape[1] or not np.isfinite(x).all():
        raise InputError(f"an interaction matrix is square and finite; found shape {x.shape}")
    if view not in ("column", "row"):
        raise InputError(f"view is {view!r}", "use 'column' or 'row'")
    if not gamma > 0:
        raise InputError(f"gamma is {gamma}; a kernel width is positive")
    if view == "column":
        x = x.T
    if scale:
        x = (x - x.min()) / max(np.ptp(x), 1e-8)
    squared = np.einsum("il,il->i", x, x)
    affinity = x @ x.T  # exactly this form lets NumPy use the symmetric product, half the work
    affinity *= -2
    affinity += squared[:, None]
    affinity += squared[None, :]
    excluded = np.diag(x)[:, None] - x.T  # of the pair (i, j): entry i; its transpose: entry j
    excluded *= excluded
    affinity -= excluded
    affinity -= excluded.T
    np.maximum(affinity, 0, out=affinity)
    affinity *= -gamma
    np.exp(affinity, out=affinity)
    np.fill_diagonal(affinity, 0)
    return affinity


# --- our estimators ------------------------------------------------------------------------------


def pair_means(
    values: Float[np.ndarray, "T K"],
) -> tuple[Float[np.ndarray, "K K"], Int[np.ndarray, "K K"]]:
    """Mean of client i's value over the rounds in which i and j were both sampled.

    An unbiased mean with error 1/sqrt(count), where the published average with a constant rate has
    a noise floor of sd sqrt(rate / (2 - rate)) however many rounds there are.

    Parameters
    ----------
    values : array, shape (T, K)
        One number for each client and round, NaN where it was not sampled.

    Returns
    -------
    means : array, shape (K, K), 0 where the pair was never sampled together
    counts : int array, shape (K, K)

    Raises
    ------
    Nothing: pairs without a common round have the count 0.

    Examples
    --------
    >>> means, counts = pair_means(np.array([[1.0, 2.0, np.nan], [3.0, np.nan, 5.0]]))
    >>> means[0].tolist(), counts[0].tolist()
    ([2.0, 1.0, 3.0], [2, 1, 1])
    """
    seen = np.isfinite(values).astype(float)
    counts = seen.T @ seen
    sums = np.where(seen > 0, values, 0.0).T @ seen
    return sums / np.maximum(counts, 1), counts.astype(int)


def centred_interaction(
    means: Float[np.ndarray, "K K"], counts: Real[np.ndarray, "K K"]
) -> Float[np.ndarray, "K K"]:
    r"""What is left of pair means without the level of either partner.

    Fits :math:`\frac{1}{2}(M_{ij} + M_{ji}) \approx a_i + a_j` off the diagonal by least squares
    with the counts as weights, and returns the residual; pairs that were never sampled together are
    0, and so is the diagonal.

    Parameters
    ----------
    means, counts : arrays, shape (K, K)
        As from :func:`pair_means`.

    Returns
    -------
    array, shape (K, K), symmetric

    Raises
    ------
    InputError
        Not two square matrices of one shape.

    Examples
    --------
    >>> level = np.array([1.0, 2.0, 3.0, 4.0])
    >>> means = level[:, None] + 0.1 * np.kron(np.eye(2), np.ones((2, 2)))
    >>> centred_interaction(means, np.ones((4, 4))).round(3)[0].tolist()
    [0.0, 0.067, -0.033, -0.033]
    """
    means, weights = np.asarray(means, dtype=float), np.array(counts, dtype=float)
    if means.shape != weights.shape or means.ndim != 2 or means.shape[0] != means.shape[1]:
        raise InputError(f"means of shape {means.shape} and counts of shape {weights.shape}")
    np.fill_diagonal(weights, 0)
    both = np.where(weights > 0, (means + means.T) / 2, 0.0)
    normal = weights + np.diag(weights.sum(1))
    level = np.linalg.lstsq(normal, (weights * both).sum(1), rcond=None)[0]
    return np.where(weights > 0, both - level[:, None] - level[None, :], 0.0)


def standardise(values: Float[np.ndarray, "T K"]) -> Float[np.ndarray, "T K"]:
    """Each client's values minus their mean, over their standard deviation.

    Raises
    ------
    Nothing: a client whose values never change becomes 0.

    Examples
    --------
    >>> standardise(np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]]))[:, 0].tolist()
    [-1.0, 1.0, nan]
    """
    seen = np.isfinite(values)
    n = np.maximum(seen.sum(0), 1)
    centred = values - np.where(seen, values, 0).sum(0) / n
    sd = np.sqrt(np.where(seen, centred**2, 0).sum(0) / n)
    return np.divide(centred, sd, out=np.where(seen, 0.0, np.nan), where=seen & (sd > 0))


def reward_interaction(log: LossLog) -> Float[np.ndarray, "K K"]:
    """Our "centred" estimator: does i do better than usual, or worse, in company of j?

    Each client's rewards are standardised (so that no client's noise dominates), averaged over the
    rounds with each partner, and freed of both partners' levels.

    Parameters
    ----------
    log : LossLog

    Returns
    -------
    array, shape (K, K), symmetric, zero diagonal; no unit

    Raises
    ------
    Nothing: the log has been checked.

    Examples
    --------
    >>> log = LossLog(3)
    >>> log.add(0, np.arange(3), np.array([[1.0], [1.0], [2.0]]))
    >>> reward_interaction(log).shape
    (3, 3)
    """
    return centred_interaction(*pair_means(standardise(log.rewards())))


def comovement(log: LossLog) -> Float[np.ndarray, "K K"]:
    r"""Correlation of two clients' losses over the rounds in which both were sampled.

    Where groups pull the common model in different directions, the model of each round favours the
    groups that were sampled just before: losses within a group rise and fall together, losses of
    rival groups against each other. This effect is of order one, where the effect of one partner on
    a reward is of order 1/m.

    The log of the losses is freed of a round effect and of each client's own trend (a quadratic in
    log time), standardised, multiplied pair by pair, averaged, and freed of levels. Losses that go
    below zero (log densities) have no log, and are taken as they are.

    Parameters
    ----------
    log : LossLog

    Returns
    -------
    array, shape (K, K), symmetric, zero diagonal; no unit

    Raises
    ------
    Nothing: the log has been checked.

    Examples
    --------
    >>> log, rng = LossLog(6), np.random.default_rng(0)
    >>> for t in range(60):
    ...     wave = np.repeat([1.0, -1.0], 3) * rng.normal()
    ...     log.add(t, np.arange(6), np.exp(wave + 0.5 * rng.normal(size=6))[:, None])
    >>> (comovement(log)[0] > 0).tolist()
    [False, True, True, False, False, False]
    """
    losses = log.mean_losses()
    if not (losses < 0).any():
        losses = np.log(np.maximum(losses, 1e-12))
    values = standardise(_detrended(losses))
    seen = np.isfinite(values)
    filled = np.where(seen, values, 0.0)
    counts = seen.T.astype(float) @ seen.astype(float)
    return centred_interaction(filled.T @ filled / np.maximum(counts, 1), counts)


def _detrended(values: np.ndarray, sweeps: int = 5) -> np.ndarray:
    """Residual of a round effect and a quadratic in log time for each client, by backfitting."""
    seen = np.isfinite(values)
    rest = np.where(seen, values, 0.0)
    time = np.log1p(np.arange(len(values))) / np.log1p(len(values))
    basis = np.stack([np.ones_like(time), time, time**2], axis=1)
    own = [np.linalg.qr(basis[rows])[0] for rows in seen.T]
    for _ in range(sweeps):
        rest -= np.where(seen, (rest.sum(1) / np.maximum(seen.sum(1), 1))[:, None], 0)
        for k, q in enumerate(own):
            rest[seen[:, k], k] -= q @ (q.T @ rest[seen[:, k], k])
    return np.where(seen, rest, np.nan)


def joint_interaction(log: LossLog) -> Float[np.ndarray, "K K"]:
    """Rewards and co-movement together, each in units of its own noise.

    The unit is the Frobenius norm, which for a matrix without groups is what its largest eigenvalue
    is proportional to.

    Parameters
    ----------
    log : LossLog

    Returns
    -------
    array, shape (K, K), symmetric, zero diagonal; no unit

    Raises
    ------
    Nothing: the log has been checked.

    Examples
    --------
    >>> log = LossLog(3)
    >>> log.add(0, np.arange(3), np.array([[1.0], [1.0], [2.0]]))
    >>> joint_interaction(log).shape
    (3, 3)
    """
    parts = (reward_interaction(log), comovement(log))
    return sum(part / max(np.linalg.norm(part), 1e-12) for part in parts)
