"""Learn bid functions by gradient self-play: many seeds and step sizes in one process.

Directions D of descent, per value (Huang et al. 2025; theta <- theta - lr E[D grad_theta beta]):

* ``utility_gradient`` (UG): D = -u', ascent of the interim utility.  The curvature at the
  equilibrium is like v^(n-2), so low values hardly move when many compete.
* ``abr``: the gradient of half the best response distance, (beta - BR)^2 / 2, with Newton's
  estimate BR = b - u'/u'': D = u'/u''.  ``u'`` and ``u''`` shrink together: no dependence on n.
  As published it is taken after ``warmup`` steps where u'' < -second_cond and |u'| < first_cond,
  and UG elsewhere.

``gradient="exact"`` (ours) reads the market from :class:`QuantileMarket` and applies Newton's
method to the first-order condition in the form v = b + rho H/h (second price: v = b), not to
u' = 0: the same root, the same rate near it, one step for linear bid functions, and no division by
a curvature that vanishes or changes sign.  It is taken everywhere, from the first step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from practicum.errors import InputError
from practicum.games.auction_bne.game import Game
from practicum.games.auction_bne.market import KernelMarket, QuantileMarket, quantile_nodes
from practicum.games.auction_bne.networks import BidNetworks
from practicum.games.auction_bne.priors import Array, Number
from practicum.games.auction_bne.utilities import utility_slopes

METHODS = ("abr", "utility_gradient")
GRADIENTS = ("exact", "quadrature", "kde_mc", "smooth")
OPTIMIZERS = ("adam", "sgd")
TRUST = 0.5  # of the value range: the longest Newton step
LEAST_SLOPE = 0.5  # of the first-order condition in b; it is at least 1 where H is log-concave
NEVER = 1e-12  # h/H of a bid that no competing bid is near
RAMP = 20  # steps over which Adam's rate rises, while its averages settle
START_BANDWIDTH = 0.05
WIDEST = 0.2
BLOCK = 2048  # nodes of all members that are trained together


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes
    ----------
    method : {"abr", "utility_gradient"}
    gradient : {"exact", "quadrature", "kde_mc", "smooth"}
        Where the market comes from: no kernel (ours), the expected kernel estimate, the paper's
        samples, or a softmax over sampled bids (the smoothed market of Kohring et al. 2023).
    nodes : int, quantile midpoints of the quadrature
    window : float or "auto"
        Share of the nodes in a local fit of ``exact``; "auto": 0.4 for two bidders, 0.3 for three,
        then 0.1.
    bandwidth : float or "auto"
        Of the kernel, a share of the value range; "auto" starts at 0.05 and halves it at 50 % and
        75 % of the steps.
    hidden, activation : the networks
    optimizer : {"adam", "sgd"}
        Adam with a cosine decay to zero, or the paper's plain steps.
    lr : float or "auto"
        Step size; "auto" (Adam's): 0.0015 for two bidders, 0.003 up to four, then 0.01.
    steps, warmup, first_cond, second_cond : as in the module's text
    temperature : float, of the softmax of ``smooth``, a share of the value range
    market_samples, own_samples : of ``kde_mc`` and ``smooth``, per step

    Examples
    --------
    >>> PUBLISHED.lr, PUBLISHED.optimizer, Settings().optimizer
    (0.05, 'sgd', 'adam')
    """

    method: str = "abr"
    gradient: str = "exact"
    nodes: int = 256
    window: Number | str = "auto"
    bandwidth: Number | str = "auto"
    hidden: tuple[int, ...] = (32, 32)
    activation: str = "abs"
    optimizer: str = "adam"
    lr: Number | str = "auto"
    steps: int = 2000
    warmup: int = 200
    first_cond: Number = 0.01
    second_cond: Number = 1e-8
    temperature: Number = 0.05
    market_samples: int = 10_000
    own_samples: int = 256

    def bandwidth_at(self, step: int) -> float:
        """The kernel's bandwidth in this step (from 0)."""
        if self.bandwidth != "auto":
            return float(self.bandwidth)
        halvings = int(step >= self.steps / 2) + int(step >= 3 * self.steps / 4)
        return START_BANDWIDTH / 2**halvings

    def check(self) -> Settings:
        """These settings, or an error that names what is wrong."""
        for name, value, known in (
            ("method", self.method, METHODS),
            ("gradient", self.gradient, GRADIENTS),
            ("optimizer", self.optimizer, OPTIMIZERS),
        ):
            if value not in known:
                raise InputError(f"{name} {value!r} is not known", f"use {', '.join(known)}")
        _check_bandwidth(self.bandwidth)
        for name in (
            "lr", "steps", "nodes", "window", "first_cond", "second_cond", "temperature",
            "market_samples", "own_samples",
        ):  # fmt: skip
            value = getattr(self, name)
            if value != "auto" and not (isinstance(value, int | float) and value > 0):
                raise InputError(f"{name} is {value!r}; a positive number expected")
        return self

    def for_game(self, game: Game) -> Settings:
        """Checked, with "auto" filled in.

        With n bidders the best response reacts to the slope of the others' bids 1/(n-1) times as
        strongly; few bidders need a wider fit and smaller steps to settle.
        """
        self.check()
        n = game.n_bidders
        # chosen on seeds 1000 to 1009 of uniform, Beta(2,5), eBay and asymmetric auctions
        window = {2: 0.4, 3: 0.3}.get(n, 0.1) if self.window == "auto" else self.window
        lr = {2: 0.0015, 3: 0.003, 4: 0.003}.get(n, 0.01) if self.lr == "auto" else self.lr
        if self.gradient == "exact" and window * self.nodes < 5:
            raise InputError(
                f"{self.nodes} nodes and window {window}: at least five nodes in a fit"
            )
        if self.gradient == "exact" and game.mechanism == "all_pay":
            raise InputError(
                "gradient exact has no form for all_pay",
                'use gradient="quadrature", or method="closed_form" for bidders of one type',
            )
        return replace(self, window=window, lr=lr)


PUBLISHED = Settings(
    gradient="quadrature", nodes=512, bandwidth=0.05, optimizer="sgd", lr=0.05, steps=2000
)


def _check_bandwidth(bandwidth: Number | str) -> None:
    if bandwidth == "auto":
        return
    if isinstance(bandwidth, str):
        raise InputError(f"bandwidth {bandwidth!r}: a number, or auto")
    if not 0 < bandwidth <= WIDEST:
        raise InputError(
            f"bandwidth is {bandwidth:g} of the value range; more than 0 and at most {WIDEST:g} "
            "expected",
            "a wider kernel blurs the whole auction; 0.05 is usual, auto chooses",
        )


@dataclass
class Learned:
    """What learning left behind, in units with values in [0, 1].

    Attributes
    ----------
    networks : BidNetworks, members are seeds x types
    values : array, shape (types, M), the nodes
    bids : array, shape (seeds, types, M), at the nodes
    steps : int array, shape (records,)
    l2 : array, shape (seeds, types, records), root mean squared error against the reference
    newton : array, shape (seeds, records), share of the values with a Newton step
    seconds : array, shape (records,), since the start, for all seeds together
    snapshots : list of arrays, shape (seeds, types, M), bids at every record where asked for

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> done = learn(game, Settings(steps=20), [np.random.default_rng(s) for s in range(4)])
    >>> done.bids.shape, done.steps.tolist()
    ((4, 1, 256), [0, 10, 20])
    """

    networks: BidNetworks
    values: np.ndarray
    bids: np.ndarray
    steps: np.ndarray
    l2: np.ndarray
    newton: np.ndarray
    seconds: np.ndarray
    snapshots: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def join(cls, parts: Sequence[Learned]) -> Learned:
        """Several runs of the same settings, seeds one after the other."""
        return cls(
            BidNetworks.join([p.networks for p in parts]),
            parts[0].values,
            np.concatenate([p.bids for p in parts]),
            parts[0].steps,
            np.concatenate([p.l2 for p in parts]),
            np.concatenate([p.newton for p in parts]),
            np.sum([p.seconds for p in parts], axis=0),
            [np.concatenate(s) for s in zip(*(p.snapshots for p in parts), strict=True)],
        )


Direction = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def learn(
    game: Game,
    settings: Settings,
    rngs: Sequence[np.random.Generator],
    *,
    lrs: Sequence[float] | None = None,
    reference: Float[np.ndarray, "types m"] | None = None,
    record_every: int = 10,
    keep_bids: bool = False,
) -> Learned:
    """Train one network a type, for every generator at once.

    Parameters
    ----------
    game : Game, in units with values in [0, 1] (:meth:`Game.unit`)
    settings : Settings
    rngs : sequence of generators
        One a seed; a seed's numbers do not depend on the others.
    lrs : sequence of float, optional
        A step size for each seed, instead of ``settings.lr``.
    reference : array, shape (types, M), optional
        Equilibrium bids at the nodes, to measure the error against while learning.
    record_every : int
    keep_bids : bool
        Keep the bids at the nodes at every record.

    Raises
    ------
    InputError
        Settings that are not known or out of range.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> settings = Settings(steps=200, nodes=128)
    >>> values, _ = quantile_nodes(game, 128)
    >>> done = learn(game, settings, [np.random.default_rng(0)], reference=values * 2 / 3)
    >>> bool(done.l2[0, 0, -1] < 0.02)
    True
    """
    settings = settings.for_game(game)
    if settings.gradient in ("kde_mc", "smooth"):
        from practicum.games.auction_bne.sampling import learn_by_sampling

        return learn_by_sampling(
            game,
            settings,
            rngs,
            lrs=lrs,
            reference=reference,
            record_every=record_every,
            keep_bids=keep_bids,
        )
    # blocks whose activations stay in the cache; a seed's numbers do not depend on its block
    block = max(1, BLOCK // (len(game.priors) * settings.nodes))
    rates = np.full(len(rngs), settings.lr) if lrs is None else np.asarray(lrs, dtype=float)
    with threadpool_limits(1, "blas"):  # matrices are small: threads only wait for each other
        parts = [
            _learn_block(
                game,
                settings,
                rngs[k : k + block],
                rates[k : k + block],
                reference,
                record_every,
                keep_bids,
            )
            for k in range(0, len(rngs), block)
        ]
    return parts[0] if len(parts) == 1 else Learned.join(parts)


def _learn_block(
    game: Game,
    settings: Settings,
    rngs: Sequence[np.random.Generator],
    rates: np.ndarray,
    reference: np.ndarray | None,
    record_every: int,
    keep_bids: bool,
) -> Learned:
    values, shares = quantile_nodes(game, settings.nodes)
    seeds, types = len(rngs), len(game.priors)
    networks = BidNetworks(
        [r for r in rngs for _ in range(types)], settings.hidden, settings.activation
    )
    inputs, rates = np.tile(values, (seeds, 1)), np.repeat(rates, types)
    direction = _directions(game, settings, values, shares)
    # as published: the mean is over all bidders, so a type moves by its share of them
    weight = np.array(game.counts) / game.n_bidders / settings.nodes
    log = Recorder(reference, record_every, settings.steps, keep_bids)
    for step in range(settings.steps + 1):
        # nobody who bids bids less than the reserve
        bids = networks.forward(inputs).reshape(seeds, types, -1) + game.reserve
        D, newton = direction(step, bids)
        log(step, bids, newton)
        if step < settings.steps:
            move = (D * weight[:, None]).reshape(seeds * types, -1)
            descend(networks, settings, step, move, rates)
    return log.finish(networks, values, bids)


def descend(
    networks: BidNetworks, settings: Settings, step: int, move: Array, rates: Array
) -> None:
    """One step of the settings' optimiser.

    Parameters
    ----------
    networks : BidNetworks, after a forward pass
    settings : Settings
    step : int, from 0
    move : array, shape (members, m), what each bid's direction weighs
    rates : array, shape (members,)

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> nets = BidNetworks([np.random.default_rng(3)])
    >>> before = nets.forward(np.array([[0.5]]))
    >>> descend(nets, PUBLISHED, 0, np.array([[1.0]]), np.array([0.01]))
    >>> bool(nets.forward(np.array([[0.5]])) < before)
    True
    """
    if settings.optimizer == "adam":
        decay = (1 + np.cos(np.pi * step / settings.steps)) / 2
        networks.adam_step(move, rates * decay * min(1.0, (step + 1) / RAMP))
    else:
        networks.step(move, rates)


def _directions(
    game: Game, settings: Settings, values: np.ndarray, shares: np.ndarray
) -> Direction:
    exact = settings.gradient == "exact"
    if exact:
        quantile = QuantileMarket(game, values, shares, settings.window)
    else:
        kernel = KernelMarket(game, shares)

    def direction(step: int, bids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        D, newton = np.empty_like(bids), np.empty(len(bids))
        for s, own in enumerate(bids):
            if exact:
                D[s], newton[s] = _exact_direction(game, settings, values, own, quantile(own))
            else:
                market = kernel(own, settings.bandwidth_at(step))
                u = utility_slopes(game.mechanism, game.risk_aversion, values, own, *market)
                D[s], newton[s] = switched_direction(settings, step, *u)
        return D, newton

    return direction


def switched_direction(
    settings: Settings, step: int, slope: Array, curvature: Array
) -> tuple[Array, float]:
    """The published rule: Newton where it is safe and the warm-up is over, else ascent.

    Parameters
    ----------
    settings : Settings
    step : int, from 0
    slope, curvature : u' and u'', arrays of one shape

    Returns
    -------
    (D, share of values with a Newton step)

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> settings = Settings(first_cond=1.0)
    >>> D, share = switched_direction(settings, 500, np.array([0.64]), np.array([-3.2]))
    >>> D.round(6).tolist(), share
    ([-0.2], 1.0)
    """
    if settings.method == "utility_gradient" or step < settings.warmup:
        return -slope, 0.0
    newton = (curvature < -settings.second_cond) & (np.abs(slope) < settings.first_cond)
    D = np.where(newton, slope / np.where(newton, curvature, 1.0), -slope)
    return D, float(newton.mean())


def _exact_direction(
    game: Game,
    settings: Settings,
    v: np.ndarray,
    b: np.ndarray,
    market: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> tuple[np.ndarray, float]:
    """Newton's step on the first-order condition, or the plain gradient, from H, h/H and h'/H."""
    if settings.method == "utility_gradient":
        H, rate, curve, _ = market
        slope, _ = utility_slopes(game.mechanism, game.risk_aversion, v, b, H, H * rate, H * curve)
        return -slope, 0.0
    _, rate, curve, excess = market
    gap, slope = first_order_gap(game.mechanism, game.risk_aversion, v, b, rate, curve)
    # who outbids everybody for sure does best by the highest competing bid
    step = np.where(excess > 0, -excess, gap / np.maximum(-slope, LEAST_SLOPE))
    return -np.clip(step, -TRUST, TRUST), float((np.abs(step) < TRUST).mean())


def first_order_gap(
    mechanism: str, rho: float, v: Array, b: Array, rate: Array, curve: Array
) -> tuple[Array, Array]:
    """v - b - rho H/h, zero where the bid is a best response, and its slope in b.

    First price with utility (v - b)^rho: u' = 0 exactly where v = b + rho H/h (Guerre, Perrigne and
    Vuong 2000 read values off bids this way); the slope is -1 - rho (1 - H h'/h^2).  Second price:
    v - b, whatever the others do.

    Parameters
    ----------
    mechanism : {"first_price", "second_price"}
    rho : float
    v, b : arrays of one shape
    rate, curve : arrays of the same shape
        h/H and h'/H at b.

    Raises
    ------
    InputError
        The format has no such condition (all pay).

    Examples
    --------
    Three uniform bidders, the others bid v/2, so H = (2b)^2; v=0.9, b=0.3: one step is b = 0.6

    >>> v, b, rate, curve = map(np.array, (0.9, 0.3, 2 / 0.3, 2 / 0.09))
    >>> gap, slope = first_order_gap("first_price", 1.0, v, b, rate, curve)
    >>> round(float(0.3 - gap / slope), 6)
    0.6
    """
    if mechanism == "second_price":
        return v - b, -np.ones_like(b)
    if mechanism != "first_price":
        raise InputError(f"gradient exact has no form for {mechanism}", 'use gradient="quadrature"')
    inverse = 1 / np.maximum(rate, NEVER)
    return v - b - rho * inverse, -1 - rho * (1 - curve * inverse**2)


class Recorder:
    """Errors, shares and seconds every so many steps.

    Parameters
    ----------
    reference : array, shape (types, M), or None
    every, steps : int
    keep_bids : bool

    Examples
    --------
    >>> log = Recorder(np.zeros((1, 2)), 10, 10, False)
    >>> log(0, np.ones((1, 1, 2)), np.zeros(1))
    >>> log.l2[0].tolist()
    [[1.0]]
    """

    def __init__(
        self, reference: Array | None, every: int, steps: int, keep_bids: bool = False
    ) -> None:
        self.reference, self.every, self.last, self.keep = reference, every, steps, keep_bids
        self.start = time.perf_counter()
        self.steps: list[int] = []
        self.l2: list[np.ndarray] = []
        self.newton: list[np.ndarray] = []
        self.seconds: list[float] = []
        self.snapshots: list[np.ndarray] = []

    def __call__(self, step: int, bids: Array, newton: Array) -> None:
        """Note this step if its turn has come."""
        if step % self.every and step != self.last:
            return
        self.steps.append(step)
        self.newton.append(np.array(newton))
        self.seconds.append(time.perf_counter() - self.start)
        if self.reference is None:
            self.l2.append(np.full(bids.shape[:2], np.nan))
        else:
            self.l2.append(np.sqrt(((bids - self.reference) ** 2).mean(axis=-1)))
        if self.keep:
            self.snapshots.append(bids.copy())

    def finish(self, networks: BidNetworks, values: Array, bids: Array) -> Learned:
        """Everything noted, as arrays."""
        return Learned(
            networks,
            values,
            bids,
            np.array(self.steps),
            np.stack(self.l2, axis=-1),
            np.stack(self.newton, axis=-1),
            np.array(self.seconds),
            self.snapshots,
        )
