"""The highest competing bid: its distribution function, density and slope, without sampling.

Values are one-dimensional, so expectations over them are sums over M quantile midpoints
v_k = F^-1((k - 1/2)/M).  Two ways from the bids at these nodes to the market:

* :class:`KernelMarket`: what the paper's kernel density estimates with samples, in expectation:
  bids are binned linearly, their distribution functions multiplied, and the weights convolved
  with a Gaussian kernel by FFT.
* :class:`QuantileMarket`: no kernel on bids.  The k-th smallest bid has G = (k - 1/2)/M exactly;
  density and slope follow from the slope of the bid function, by local polynomials over values.
  No bias where bids end, and everything is known relative to H, so that bids that win once in
  10^20 auctions still have a Newton step.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy import fft, sparse
from scipy.special import ndtr

from practicum.errors import InputError
from practicum.games.auction_bne.game import Game

FINE = 100  # grid points per bandwidth
CELLS = 512  # grids are multiples of this, so that their kernels can be kept
REACH = 8.0  # bandwidths at which the Gaussian is cut
HIGHEST = 2.0  # bid that is told from lower ones, in value ranges
TOP_STEP = 8  # grids end at multiples of 1/8, so that their kernels can be kept
CUBIC = 3
TINY = 1e-12


def quantile_nodes(game: Game, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Values v_k = F_t^-1(u_k) of every type, and u_k, the middles of ``nodes`` equal shares.

    With a reserve only the share of values above it bids; u_k then starts there.

    Parameters
    ----------
    game : Game
    nodes : int

    Returns
    -------
    (values, shares), arrays of shape (types, nodes)

    Raises
    ------
    Nothing.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> quantile_nodes(make_game("first_price", "uniform:0,1", 2), 4)[0].tolist()
    [[0.125, 0.375, 0.625, 0.875]]
    """
    middles = (np.arange(nodes) + 0.5) / nodes
    shares, values = [], []
    for prior in game.priors:
        start = float(prior.cdf(np.array(game.reserve)))
        shares.append(start + (1 - start) * middles)
        values.append(prior.ppf(shares[-1]))
    return np.array(values), np.array(shares)


class KernelMarket:
    """The expected kernel estimate of H, h and h', for one game at its quantile nodes.

    Parameters
    ----------
    game : Game, in units with values in [0, 1]
    shares : array, shape (types, M), from :func:`quantile_nodes`

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> values, shares = quantile_nodes(game, 512)
    >>> H, h, dh = KernelMarket(game, shares)(0.5 * values, bandwidth=0.02)
    >>> bool(abs(H[0, 255] - 0.5**2) < 0.01 and abs(h[0, 255] - 2.0) < 0.01)
    True
    """

    def __init__(self, game: Game, shares: Float[np.ndarray, "types m"]) -> None:
        self.game = game
        self.start = shares[:, 0] - (shares[:, 1] - shares[:, 0]) / 2  # share that does not bid
        self.opponents = np.stack([game.opponents(i) for i in range(len(game.priors))])

    def __call__(
        self, bids: Float[np.ndarray, "types m"], bandwidth: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """H, h and h' that each type meets at its own bids; three (types, M) arrays."""
        bids = np.minimum(bids, HIGHEST)  # early networks may bid far beyond every value
        top = max(1.0, np.ceil(bids.max() * TOP_STEP)) / TOP_STEP
        grid = 1 + CELLS * int(np.ceil(FINE * top / bandwidth / CELLS))
        step = top / (grid - 1)
        kernels, length = _kernels(grid, step, bandwidth)
        G = np.stack([_distribution(b, grid, step, s) for b, s in zip(bids, self.start)])
        H, h, dh = (np.empty_like(bids) for _ in range(3))
        for i, counts in enumerate(self.opponents):
            steps = np.prod(G ** counts[:, None], axis=0)
            none = np.prod(self.start**counts) if self.start.any() else 0.0
            weights = fft.rfft(np.diff(steps, prepend=none), length)
            smooth = fft.irfft(weights * kernels, length, axis=-1)[:, :grid]
            at = np.minimum(bids[i] / step, grid - 1.000001)
            cell = at.astype(int)
            part = at - cell
            table = np.stack([smooth[0] + steps, smooth[1], smooth[2]])
            found = table[:, cell] * (1 - part) + table[:, cell + 1] * part
            H[i], h[i], dh[i] = found
        return H, h, dh


def _distribution(bids: np.ndarray, grid: int, step: float, start: float) -> np.ndarray:
    """P(bid <= x) on the grid, of bids that are shared between their two neighbours on it."""
    at = bids / step
    cell = np.minimum(at.astype(int), grid - 2)
    part = at - cell
    mass = np.bincount(cell, 1 - part, grid)
    mass[1:] += np.bincount(cell, part, grid)[:-1]
    return start + (1 - start) * np.cumsum(mass) / len(bids)


@lru_cache(maxsize=64)
def _kernels(grid: int, step: float, bandwidth: float) -> tuple[np.ndarray, int]:
    """FFTs of (Phi - step function, phi, phi'), whose supports end within the padding."""
    reach = min(grid - 1, int(np.ceil(REACH * bandwidth / step)))
    length = fft.next_fast_len(grid + reach, real=True)
    offsets = np.arange(-reach, reach + 1)
    x = offsets * step / bandwidth
    density = np.exp(-0.5 * x**2) / (np.sqrt(2 * np.pi) * bandwidth)
    kernels = np.zeros((3, length))
    for row, kernel in zip(
        kernels, (ndtr(x) - (offsets >= 0), density, -x / bandwidth * density), strict=True
    ):
        row[offsets % length] = kernel
    return fft.rfft(kernels, axis=-1), length


class QuantileMarket:
    """H, h/H and h'/H without a kernel on bids, for one game at its quantile nodes.

    For the k-th smallest bid b_(k) of a type G = u_k, g = f(v_k) / beta'(v_k) and
    g' = (f'(v_k) - g beta''(v_k)) / beta'(v_k)^2, where beta is the bids sorted over the values:
    the increasing bid function under which the same bids are made as often.  With m_j opponents of
    type j, log H = sum_j m_j log G_j gives h/H and h'/H.

    Parameters
    ----------
    game : Game, in units with values in [0, 1]
    values, shares : arrays, shape (types, M), from :func:`quantile_nodes`
    window : float
        Share of the nodes that a local cubic is fitted to.

    Raises
    ------
    InputError
        Fewer than five nodes in a window.

    Examples
    --------
    >>> from practicum.games.auction_bne.game import make_game
    >>> game = make_game("first_price", "uniform:0,1", 3)
    >>> values, shares = quantile_nodes(game, 512)
    >>> H, rate, curve, _ = QuantileMarket(game, values, shares)(0.5 * values)
    >>> np.allclose([H[0, -1], rate[0, -1], curve[0, -1]],
    ...             [values[0, -1]**2, 4 / values[0, -1], 8 / values[0, -1]**2])
    True
    """

    def __init__(
        self,
        game: Game,
        values: Float[np.ndarray, "types m"],
        shares: Float[np.ndarray, "types m"],
        window: float = 0.06,
    ) -> None:
        half = round(window * values.shape[1] / 2)
        if half < 2:
            raise InputError(
                f"{values.shape[1]} nodes and window {window}: at least five nodes in a window"
            )
        self.shares = shares
        self.opponents = np.stack([game.opponents(i) for i in range(len(game.priors))])
        self.slopes = [derivative_operators(v, half) for v in values]
        self.density = np.stack([p.pdf(v) for p, v in zip(game.priors, values, strict=True)])
        self.density_slope = np.stack([D[0] @ f for D, f in zip(self.slopes, self.density)])

    def __call__(
        self, bids: Float[np.ndarray, "types m"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """H, h/H and h'/H that each type meets at its own bids, and by how much a bid exceeds the
        highest competing one; four (types, M) arrays."""
        order = np.argsort(bids, axis=1, kind="stable")
        ranked = np.take_along_axis(bids, order, axis=1)
        types = [self._type(j, own) for j, own in enumerate(ranked)]
        H, total, bend, excess = (np.zeros_like(bids) for _ in range(4))
        H += 1.0
        for i, counts in enumerate(self.opponents):
            tops = []
            for j in np.flatnonzero(counts):
                G, r, c = types[j][:3] if j == i else _at(ranked[i], ranked[j], types[j])
                H[i] *= G ** counts[j]
                total[i] += counts[j] * r
                bend[i] += counts[j] * c
                tops.append(types[j][3])
            excess[i] = np.maximum(0.0, ranked[i] - max(tops))
        back = np.argsort(order, axis=1, kind="stable")
        found = (H, total, bend + total**2, excess)
        return tuple(np.take_along_axis(x, back, axis=1) for x in found)

    def _type(self, j: int, bids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """G, g/G and (log G)'' of one type at its own sorted bids, and its highest bid."""
        first, second = (D @ bids for D in self.slopes[j])
        first = np.maximum(first, TINY)
        g = self.density[j] / first
        slope = (self.density_slope[j] - g * second) / first**2
        G = self.shares[j]
        rate = g / G
        # the last node stands for the share above it too: bids reach half a node further
        top = bids[-1] + (G[1] - G[0]) / 2 / max(g[-1], TINY)
        return G, rate, slope / G - rate**2, float(min(top, 2 * bids[-1] - bids[0] + TINY))


def _at(
    at: np.ndarray, bids: np.ndarray, other: tuple[np.ndarray, np.ndarray, np.ndarray, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Another type's G, g/G and (log G)'' at these bids: above its highest bid it always loses."""
    G, rate, curve, top = other
    beyond = at > top
    reach = np.interp(at, np.r_[bids, max(top, bids[-1] + TINY)], np.r_[G, 1.0])
    return (
        np.where(beyond, 1.0, reach),
        np.where(beyond, 0.0, np.interp(at, bids, rate)),
        np.where(beyond, 0.0, np.interp(at, bids, curve)),
    )


def derivative_operators(
    x: Float[np.ndarray, " m"], half: int, degree: int = CUBIC
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """First and second derivative at every node, as two sparse (M, M) matrices.

    A polynomial is fitted to the 2 ``half`` + 1 nearest nodes by rank (at the ends to the first
    and last ones): Savitzky and Golay's filter for unequal steps.  Exact for cubics, ends included.

    Parameters
    ----------
    x : increasing array, shape (M,)
    half : int
    degree : int

    Raises
    ------
    InputError
        Fewer nodes than a window holds.

    Examples
    --------
    >>> x = np.linspace(0, 1, 20) ** 2
    >>> first, second = derivative_operators(x, 3)
    >>> np.allclose(first @ x**3, 3 * x**2), np.allclose(second @ x**3, 6 * x)
    (True, True)
    """
    m, width = len(x), 2 * half + 1
    if width > m:
        raise InputError(f"{m} nodes; a window of {width} expected to fit")
    start = np.clip(np.arange(m) - half, 0, m - width)
    columns = start[:, None] + np.arange(width)
    offsets = x[columns] - x[:, None]
    span = np.abs(offsets).max(axis=1)
    # tricube weights fade out what is far, so that the estimate is smooth from node to node
    weight = (1 - np.abs(offsets / (1.001 * span[:, None])) ** 3) ** 3
    powers = (offsets / span[:, None])[:, :, None] ** np.arange(degree + 1)
    fit = np.linalg.pinv(powers * weight[:, :, None]) * weight[:, None, :]
    rows = np.repeat(np.arange(m), width)
    shape = (m, m)
    first = fit[:, 1] / span[:, None]
    second = 2 * fit[:, 2] / span[:, None] ** 2
    return tuple(
        sparse.csr_array((d.ravel(), (rows, columns.ravel())), shape=shape) for d in (first, second)
    )
