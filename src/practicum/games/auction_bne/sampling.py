"""The published estimators, by Monte Carlo: kernel density of sampled market prices, softmax.

Every step draws fresh value profiles of all bidders, the price each bidder faces (the highest bid
of the others), and ``own_samples`` values of every bidder at which the gradient is taken; the mean
is over all bidders and samples.  Costs n x own x market kernel evaluations a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logsumexp, ndtr
from threadpoolctl import threadpool_limits

from practicum.errors import InputError
from practicum.games.auction_bne.game import Game
from practicum.games.auction_bne.learning import (
    Learned,
    Recorder,
    Settings,
    descend,
    switched_direction,
)
from practicum.games.auction_bne.market import quantile_nodes
from practicum.games.auction_bne.networks import BidNetworks
from practicum.games.auction_bne.utilities import money, utility_slopes

KERNELS = ("gaussian", "exponential")


def kernel_sums(
    bids: Float[np.ndarray, " a"],
    prices: Float[np.ndarray, " s"],
    bandwidth: float,
    kernel: str = "gaussian",
) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " a"], Float[np.ndarray, " a"]]:
    """H, h and h' at bids from sampled market prices, as the official code computes them.

    Gaussian: means of Phi(x/h0), phi(x/h0)/h0 and -(x/h0^2) phi(x/h0)/h0 over x = b - m_j.
    Exponential: the empirical step, exp(-|x|/h0)/(2 h0) and -sign(x) exp(-|x|/h0)/(2 h0^2).

    Parameters
    ----------
    bids : array, shape (a,)
    prices : array, shape (s,)
    bandwidth : float, h0
    kernel : {"gaussian", "exponential"}

    Raises
    ------
    InputError
        Unknown kernel.

    Examples
    --------
    >>> H, h, dh = kernel_sums(np.array([0.5]), np.linspace(0, 1, 1001), 0.05)
    >>> bool(abs(H[0] - 0.5) < 1e-6 and abs(h[0] - 1) < 1e-2 and abs(dh[0]) < 1e-6)
    True
    """
    if kernel not in KERNELS:
        raise InputError(f"kernel {kernel!r}: use {', '.join(KERNELS)}")
    x = (bids[:, None] - prices[None, :]) / bandwidth
    if kernel == "gaussian":
        density = np.exp(-0.5 * x * x) / (np.sqrt(2 * np.pi) * bandwidth)
        steps, slope = ndtr(x), x * density
    else:
        density = np.exp(-np.abs(x)) / (2 * bandwidth)
        steps, slope = (x >= 0).astype(x.dtype), np.sign(x) * density
    return steps.mean(axis=1), density.mean(axis=1), -slope.mean(axis=1) / bandwidth


def softmax_slopes(
    mechanism: str,
    rho: float,
    v: Float[np.ndarray, " a"],
    b: Float[np.ndarray, " a"],
    opponents: Float[np.ndarray, "rivals s"],
    temperature: float,
) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " a"]]:
    """u' and u'' when the item is shared by a softmax of bids (Kohring et al. 2023).

    The share is s = sigmoid(b/lambda - log sum_j exp(b_j/lambda)), with s' = s (1-s)/lambda and
    s'' = s' (1-2s)/lambda in closed form: no automatic differentiation, and a cost without n.

    Parameters
    ----------
    mechanism, rho : of the game
    v, b : arrays, shape (a,)
    opponents : array, shape (n-1, s)
        Sampled bids of the others.
    temperature : float, lambda

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> rivals = np.random.default_rng(0).random((1, 4000)) / 2
    >>> v, b = np.array([0.8]), np.array([0.4])
    >>> slope, _ = softmax_slopes("first_price", 1.0, v, b, rivals, 0.02)
    >>> bool(abs(slope[0]) < 0.1)  # bidding half the value is the equilibrium of two
    True
    """
    total = logsumexp(opponents / temperature, axis=0)
    s = expit(b[:, None] / temperature - total[None, :])
    first = s * (1 - s)  # times lambda
    if mechanism != "second_price":
        slope = first.mean(axis=1)
        bend = slope - 2 * np.einsum("as,as->a", first, s) / len(total)
        market = s.mean(axis=1), slope / temperature, bend / temperature**2
        return utility_slopes(mechanism, rho, v, b, *market)
    first *= money(v[:, None] - opponents.max(axis=0)[None, :], rho)
    slope = first.mean(axis=1)
    bend = slope - 2 * np.einsum("as,as->a", first, s) / len(total)
    return slope / temperature, bend / temperature**2


def learn_by_sampling(
    game: Game,
    settings: Settings,
    rngs: Sequence[np.random.Generator],
    *,
    lrs: Sequence[float] | None = None,
    reference: Float[np.ndarray, "types m"] | None = None,
    record_every: int = 10,
    keep_bids: bool = False,
) -> Learned:
    """:func:`learn` by the published sampling estimators, one seed after the other.

    Parameters
    ----------
    game, settings, rngs, lrs, reference, record_every, keep_bids : as for ``learn``

    Raises
    ------
    InputError
        A reserve: the published estimators have no form for it.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> settings = Settings(gradient="kde_mc", optimizer="sgd", lr=0.05, bandwidth=0.05, steps=60,
    ...                     nodes=64, market_samples=500, own_samples=64)
    >>> game = make_game("first_price", "uniform:0,1", 2)
    >>> reference = quantile_nodes(game, 64)[0] / 2
    >>> done = learn_by_sampling(game, settings, [np.random.default_rng(0)], reference=reference)
    >>> bool(done.l2[0, 0, -1] < done.l2[0, 0, 0] / 2)
    True
    """
    if game.reserve:
        raise InputError(
            f"gradient {settings.gradient} has no form for a reserve",
            'use gradient="exact" or "quadrature"',
        )
    settings = settings.for_game(game)
    rates = [settings.lr] * len(rngs) if lrs is None else list(lrs)
    with threadpool_limits(1, "blas"):
        runs = [
            _one_seed(game, settings, rng, rate, reference, record_every, keep_bids)
            for rng, rate in zip(rngs, rates, strict=True)
        ]
    return Learned.join(runs)


def _one_seed(
    game: Game,
    settings: Settings,
    rng: np.random.Generator,
    rate: float,
    reference: np.ndarray | None,
    every: int,
    keep_bids: bool,
) -> Learned:
    values, _ = quantile_nodes(game, settings.nodes)
    # drawn as the quadrature draws them, so that both start from the same weights
    stack = BidNetworks([rng] * len(values), settings.hidden, settings.activation)
    networks = [stack.pick([t]) for t in range(len(values))]
    log = Recorder(reference, every, settings.steps, keep_bids)
    estimate = _kernel_direction if settings.gradient == "kde_mc" else _softmax_direction
    newton = 0.0
    for step in range(settings.steps + 1):
        if step % every == 0 or step == settings.steps:
            bids = np.stack([net.forward(v[None])[0] for net, v in zip(networks, values)])
            log(step, bids[None], np.array([newton]))
        if step == settings.steps:
            break
        moves, newton = estimate(game, settings, step, networks, rng)
        for net, move in zip(networks, moves, strict=True):
            descend(net, settings, step, move, np.array([rate]))
    return log.finish(BidNetworks.join(networks), values, bids[None])


def _draw(
    game: Game, networks: Sequence[BidNetworks], rng: np.random.Generator, size: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Values and bids of every bidder, one (bidders, size) array a type."""
    values = [p.sample(rng, (c, size)) for p, c in zip(game.priors, game.counts, strict=True)]
    bids = [
        net.forward(v.reshape(1, -1)).reshape(v.shape)
        for net, v in zip(networks, values, strict=True)
    ]
    return values, bids


def _kernel_direction(
    game: Game,
    settings: Settings,
    step: int,
    networks: Sequence[BidNetworks],
    rng: np.random.Generator,
) -> tuple[list[np.ndarray], float]:
    others = np.concatenate(_draw(game, networks, rng, settings.market_samples)[1])
    ranked = np.sort(others, axis=0)[-2:]
    values, bids = _draw(game, networks, rng, settings.own_samples)
    moves, newton, bidder = [], [], 0
    for v, b in zip(values, bids, strict=True):
        D = np.empty_like(b)
        for k in range(len(b)):
            # the highest of the others: the second highest bid where one's own is the highest
            price = np.where(others[bidder] == ranked[1], ranked[0], ranked[1])
            market = kernel_sums(b[k], price, settings.bandwidth_at(step))
            u = utility_slopes(game.mechanism, game.risk_aversion, v[k], b[k], *market)
            D[k], share = switched_direction(settings, step, *u)
            newton.append(share)
            bidder += 1
        moves.append(D.reshape(1, -1) / (game.n_bidders * settings.own_samples))
    return moves, float(np.mean(newton))


def _softmax_direction(
    game: Game,
    settings: Settings,
    step: int,
    networks: Sequence[BidNetworks],
    rng: np.random.Generator,
) -> tuple[list[np.ndarray], float]:
    """Bidders of a type share their rivals' sample: the expectation is the same for all.

    Rivals' bids are read off one network call on the nodes: a network of one input is piecewise
    linear anyway.
    """
    grids = quantile_nodes(game, settings.nodes)[0]
    bids = []
    for prior, count, net, grid in zip(game.priors, game.counts, networks, grids, strict=True):
        v = prior.sample(rng, (count, settings.market_samples))
        bids.append(np.interp(v, grid, net.forward(grid[None])[0]))
    moves, newton = [], []
    for i, (prior, net) in enumerate(zip(game.priors, networks, strict=True)):
        rivals = np.concatenate([b[1:] if j == i else b for j, b in enumerate(bids)])
        v = prior.sample(rng, settings.own_samples)
        b = net.forward(v[None])[0]
        u = softmax_slopes(game.mechanism, game.risk_aversion, v, b, rivals, settings.temperature)
        D, share = switched_direction(settings, step, *u)
        newton.append(share)
        moves.append(D[None] * game.counts[i] / (game.n_bidders * settings.own_samples))
    return moves, float(np.mean(newton))
