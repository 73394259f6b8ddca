"""From one risk per client to a statement about a network that nobody has seen.

:func:`certify` for a network within a given distance, :func:`dkw_band` for new clients of the same
network, :func:`affordable_shift` for the reverse question.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import (
    Band,
    Losses,
    Side,
    as_number,
    as_numbers,
    check_delta,
    check_levels,
    count_errors,
    dkw_half_width,
    tail_upper,
)
from practicum.federated.dkw_certificate.certificate import Certificate
from practicum.federated.dkw_certificate.program import program_bound, program_slack
from practicum.federated.dkw_certificate.robust_curves import (
    RobustCurves,
    robust_mean,
    robust_tail,
)
from practicum.federated.dkw_certificate.source import SourceTail, source_tail, union_tail
from practicum.federated.dkw_certificate.worst_case import (
    FDivergence,
    check_radius,
    radius_to_reach,
    transport_tail,
    worst_case_mean,
    worst_case_tail,
)

Divergence = Literal["chi2", "kl", "wasserstein"]
Method = Literal["exact", "union", "program"]
Few = Literal["refuse", "drop", "keep"]
Risks = Real[np.ndarray, " K"] | Sequence[float | int]
Sizes = Int[np.ndarray, " K"] | Sequence[int] | int
Levels = Real[np.ndarray, " G"] | Sequence[float | int]

FEW_CLIENTS = 50
MOST_SAMPLES = 2**53  # whole numbers beyond are no longer exact
LARGEST_RADIUS = 10.0  # beyond, a percentage was meant


class _Clients(NamedTuple):
    """Checked input."""

    risks: np.ndarray
    n: np.ndarray | None
    names: list[str]
    top: float  # the largest risk there can be


def _check_risks(risks: object, unbounded: bool) -> np.ndarray:
    r = as_numbers(risks, "risks")
    if r.ndim != 1 or not len(r):
        raise InputError(f"risks have shape {r.shape}; one number a client expected")
    bad = np.flatnonzero(~np.isfinite(r))
    if len(bad):
        names = ", ".join(map(str, bad[:10]))
        raise InputError(
            f"risks: {len(bad)} of {len(r)} clients have no number (clients {names})",
            "leave them out only if that has nothing to do with how well they do",
        )
    if unbounded:
        return r
    if r.max() > 1:
        raise InputError(
            f"risks reach {r.max():g}; between 0 and 1 expected",
            "percentages: divide by 100 (--percent on the command line). Losses without an upper "
            "bound, such as cross-entropy: only the tail can be certified, with n=None and "
            "unbounded=True, as neither a mean nor its estimate from n samples has a finite limit",
        )
    if r.min() < 0:
        raise InputError(f"risks reach down to {r.min():g}; between 0 and 1 expected")
    return r


def _check_names(clients: Sequence[str] | None, n_clients: int) -> list[str]:
    if clients is None:
        return [f"client {k}" for k in range(n_clients)]
    if len(clients) != n_clients:
        raise InputError(f"{len(clients)} names for {n_clients} clients")
    return list(map(str, clients))


def _check_sizes(n: object, names: list[str]) -> np.ndarray:
    sizes = as_numbers(n, "n")
    sizes = np.full(len(names), sizes) if sizes.ndim == 0 else sizes
    if sizes.shape != (len(names),):
        raise InputError(f"n has shape {sizes.shape}; one number for each of {len(names)} clients")
    whole = (sizes == np.rint(sizes)) & (sizes >= 1) & (sizes <= MOST_SAMPLES)
    if not whole.all():
        k = int(np.argmin(whole))
        raise InputError(f"n of {names[k]} is {sizes[k]:g}; a whole number of samples expected")
    return sizes.astype(np.int64)


def _clients(
    risks: object,
    n: object,
    delta: float,
    few: str,
    unbounded: bool,
    clients: Sequence[str] | None = None,
) -> _Clients:
    if few not in get_args(Few):
        raise InputError(f"no few={few!r}", f"there are {', '.join(get_args(Few))}")
    r = _check_risks(risks, unbounded)
    names = _check_names(clients, len(r))
    if unbounded and n is not None:
        raise InputError(
            "n is given for losses without an upper bound",
            "what n samples say about an unbounded mean has no limit: leave n out, and the "
            "certificate is about the reported numbers",
        )
    sizes = None if n is None else _check_sizes(n, names)
    if sizes is not None:
        kept = _kept(sizes, delta, few, names)
        r, sizes, names = r[kept], sizes[kept], [names[k] for k in kept]
    return _Clients(r, sizes, names, math.inf if unbounded else 1.0)


def _kept(sizes: np.ndarray, delta: float, few: str, names: list[str]) -> np.ndarray:
    """Those whose sample says something in Hoeffding's inequality over all; or everybody."""
    tiny = np.sqrt(math.log(len(sizes) / delta) / (2 * sizes)) >= 1
    if not tiny.any() or few == "keep":
        return np.arange(len(sizes))
    if few == "drop" and not tiny.all():
        return np.flatnonzero(~tiny)
    listed = ", ".join(f"{names[k]} (n={sizes[k]})" for k in np.flatnonzero(tiny)[:10])
    hint = 'few="keep" counts them as they are (valid, wider)'
    if not tiny.all():
        hint += (
            '; few="drop" leaves them out (valid only if sample size and risk have nothing to do '
            "with each other)"
        )
    raise InputError(
        f"{tiny.sum()} of {len(sizes)} clients have too few samples to say anything: {listed}", hint
    )


def _warn_if_few(n_clients: int, delta: float, least: float) -> None:
    """``least``: the bound where no client seen exceeds a level, without any shift."""
    if n_clients < FEW_CLIENTS:
        width = min(1.0, dkw_half_width(n_clients, delta))
        warnings.warn(
            f"half-width {width:.2f} at K={n_clients}; no share of clients below "
            f"{min(1.0, least):.2f} can be certified",
            UserWarning,
            stacklevel=3,
        )


def _grid(levels: object, r: np.ndarray, top: float) -> np.ndarray:
    bounded = math.isfinite(top)
    if levels is None and bounded:
        # k / 1000, so that the level 0.205 is the number a client with 41 errors in 200 reports
        return np.arange(1001) / 1000
    if levels is None:
        # losses may lie below 0; beyond the last level lies nobody who was seen
        low, high = min(0.0, float(r.min())), float(r.max())
        grid = np.unique(low + np.arange(1001) / 1000 * (high - low))
        grid[-1] = high
        return np.append(grid, np.nextafter(high, math.inf))
    grid = as_numbers(levels, "levels")
    ascending = grid.ndim == 1 and len(grid) and (np.diff(grid) > 0).all()
    if not ascending or not np.isfinite(grid).all():
        raise InputError("levels must be a list of ascending numbers")
    if bounded:
        check_levels(grid)
    return grid


def _share_at_least(r: np.ndarray, levels: np.ndarray) -> np.ndarray:
    return 1 - np.searchsorted(np.sort(r), levels, "left") / len(r)


def dkw_band(
    risks: Risks,
    delta: float = 0.05,
    side: Side = "two",
    *,
    levels: Levels | None = None,
) -> Certificate:
    """The Dvoretzky-Kiefer-Wolfowitz band: new clients of the same network.

    ``|F_hat - F| <= eta`` at every level with chance 1 - delta; see :func:`bands.dkw_half_width`.
    The risks are taken as they are reported: the band is about the law of the reported numbers.

    Parameters
    ----------
    risks : array, shape (K,), in [0, 1]
    delta : float
    side : {"two", "upper", "lower"}
    levels : array, shape (G,), optional
        In [0, 1], ascending; thousandths by default.

    Returns
    -------
    Certificate with ``divergence="none"`` (and ``lower``, unless the side is "upper")

    Raises
    ------
    InputError
        Risks outside [0, 1] or missing, delta out of range.

    Examples
    --------
    >>> band = dkw_band(np.linspace(0, 0.499, 500), levels=[0.1, 0.25])
    >>> band.upper.round(4), band.lower.round(4)
    (array([0.8607, 0.5607]), array([0.7393, 0.4393]))
    """
    if side not in get_args(Side):
        raise InputError(f"no side {side!r}", f"there are {', '.join(get_args(Side))}")
    r = _clients(risks, None, check_delta(as_number(delta, "delta")), "keep", False).risks
    eta = dkw_half_width(len(r), delta, side)
    _warn_if_few(len(r), delta, eta)
    grid = _grid(levels, r, 1.0)
    nominal = _share_at_least(r, grid)
    upper = np.minimum(1.0, nominal + eta) if side != "lower" else np.ones_like(nominal)
    lower = np.maximum(0.0, nominal - eta) if side != "upper" else None
    # the smallest eta of the law moved to 1
    removed = np.clip(eta - np.arange(len(r)) / len(r), 0, 1 / len(r))
    mean = float(np.sort(r) @ (1 / len(r) - removed) + eta) if side != "lower" else 1.0
    return Certificate(
        grid, upper, upper, nominal, min(1.0, mean), "dkw", "none", 0.0, delta, len(r), lower
    )


def certify(
    risks: Risks,
    n: Sizes | None = None,
    *,
    eps: float,
    divergence: Divergence = "chi2",
    delta: float = 0.05,
    method: Method = "exact",
    levels: Levels | None = None,
    lipschitz: float | None = None,
    curves: RobustCurves | None = None,
    losses: Losses = "bounded",
    band: Band | None = None,
    few: Few = "refuse",
    unbounded: bool = False,
    clients: Sequence[str] | None = None,
) -> Certificate:
    r"""Bound the risk of clients in every network within ``eps`` of the one seen.

    The share at or above each level in the source network is bounded first (:mod:`source`), then
    the worst that the ball can make of it: in closed form for f-divergences
    (:func:`worst_case_tail`), by a fractional knapsack for Wasserstein distance
    (:func:`transport_tail`). Both are exact, so what is lost is only what chance requires.

    The clients must be independent draws of (data distribution, sample size), and ``eps`` must not
    have been chosen with the target's risks. Shards of one data set are no independent draws, which
    no computation can notice.

    Parameters
    ----------
    risks : array, shape (K,), in [0, 1]
        Each client's error rate or bounded mean loss.
    n : int or int array, shape (K,), optional
        Samples behind each risk; without it the risks are taken as exact.
    eps : float
        Radius. chi-square: ``E (dmu'/dmu - 1)^2``; KL in nats; Wasserstein in the unit of the
        distance between clients.
    divergence : {"chi2", "kl", "wasserstein"}
    delta : float
        Chance of failure.
    method : {"exact", "union", "program"}
        ``exact`` shares delta with nothing; ``union`` pays for a union over clients (its sample
        sizes may be fixed by hand); ``program`` is the published one, which is *not* valid for
        large K (see :mod:`program`).
    levels : array, shape (G,), optional
        In [0, 1] (``unbounded``: any), ascending; by default thousandths, of the range of the
        losses that were seen if they are ``unbounded``.
    lipschitz : float, optional
        Wasserstein: L with ``|R(P) - R(P')| <= L W(P, P')``.
    curves : RobustCurves, optional
        Wasserstein: the clients' own robust curves instead of a constant. The result is an
        estimate, not a certificate.
    losses : {"bounded", "01"}
        What the risk is a mean of: any losses in [0, 1], or errors (tighter).
    band : {"tail", "dkw"}, optional
        See :func:`bands.tail_upper`; "tail" by default, "dkw" for ``union``.
    few : {"refuse", "drop", "keep"}
        Clients with so few samples that they say nothing.
    unbounded : bool
        Losses without an upper bound: the tail alone, with n=None.
    clients : sequence of str, optional
        Names for messages.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        Risks outside [0, 1] (percentages, unbounded losses), missing numbers, error rates that are
        no shares of n, levels outside [0, 1] or not ascending, an eps that is negative, infinite or
        a percentage, delta outside (0, 1/2],
        an unknown divergence or method, arguments that do not belong to them, or curves that start
        below the risks.

    Warns
    -----
    UserWarning
        Fewer than 50 clients.

    Examples
    --------
    >>> errors = np.array([0.1] * 160 + [0.4] * 40)
    >>> certify(errors, eps=0.2, levels=[0.05, 0.3, 0.5]).upper.round(3)
    array([1.   , 0.494, 0.098])
    >>> moved = certify(errors, eps=0.05, divergence="wasserstein", lipschitz=1.0, levels=[0.3])
    >>> moved.upper.round(3)
    array([0.541])
    """
    eps, delta = as_number(eps, "eps"), as_number(delta, "delta")
    _check_request(eps, divergence, delta, method, lipschitz, curves)
    r, sizes, names, top = _clients(risks, n, delta, few, unbounded, clients)
    if method == "exact" and losses == "01" and sizes is not None:
        count_errors(r, sizes, names)
    band = band or ("dkw" if method == "union" or curves is not None else "tail")
    _warn_if_few(len(r), delta, float(tail_upper(np.array([0]), len(r), delta, band)[0]))
    grid = _grid(levels, r, top)
    common = {
        "nominal": _share_at_least(r, grid),
        "eps": float(eps),
        "delta": float(delta),
        "K": len(r),
        "method": method,
        "divergence": divergence,
    }
    if method == "program":
        return _published(r, sizes, grid, divergence, top, common)
    if curves is not None:
        return _estimate_from_curves(r, grid, curves, common)
    if method == "union":
        tail = union_tail(r, sizes, delta, band)
    else:
        tail = source_tail(r, sizes, delta, losses, band)
    source = tail(grid)
    if divergence == "wasserstein":
        # where losses have no top, who lies beyond all that were seen reaches every level
        values, mass = tail.law(max(grid[-1], r.max()) if unbounded else top)
        budget = float(lipschitz or 0.0) * eps
        upper = transport_tail(values, grid, budget, mass)
        mean = math.inf if unbounded else min(top, float(values @ mass) + budget)
    else:
        upper = worst_case_tail(source, eps, divergence)
        mean = math.inf if unbounded else _mean(tail, eps, divergence)
    return Certificate(grid, upper, source, mean_upper=mean, **common)


def _mean(tail: SourceTail, eps: float, divergence: FDivergence) -> float:
    values, mass = tail.law()
    return worst_case_mean(values, np.maximum(mass, 0.0), eps=eps, divergence=divergence)


def _check_request(
    eps: float,
    divergence: str,
    delta: float,
    method: str,
    lipschitz: float | None,
    curves: RobustCurves | None,
) -> None:
    if divergence not in get_args(Divergence):
        raise InputError(
            f"no divergence {divergence!r}", f"there are {', '.join(get_args(Divergence))}"
        )
    if method not in get_args(Method):
        raise InputError(f"no method {method!r}", f"there are {', '.join(get_args(Method))}")
    if check_radius(eps) == math.inf:
        raise InputError("eps is inf; a finite radius expected", "0.1 to 1 where networks differ")
    if eps > LARGEST_RADIUS and divergence != "wasserstein":
        raise InputError(
            f"eps is {eps:g}; a radius, not a percentage: 0.1 to 1 for networks that differ",
            f"did you mean {eps / 100:g}?",
        )
    check_delta(delta, 0.5 + 1e-12)
    if divergence != "wasserstein":
        if lipschitz is not None or curves is not None:
            raise InputError("lipschitz and curves belong to divergence='wasserstein'")
        return
    if method == "program":
        raise InputError("the published program is for f-divergences", "use method='exact'")
    if (lipschitz is None) == (curves is None):
        raise InputError(
            "divergence='wasserstein' needs either lipschitz or curves",
            "lipschitz: how much the risk can change per unit of distance; curves: RobustCurves",
        )
    if lipschitz is not None and not 0 <= lipschitz < math.inf:
        raise InputError(f"lipschitz is {lipschitz}; a finite number of at least 0 expected")


def _published(
    r: np.ndarray,
    sizes: np.ndarray | None,
    grid: np.ndarray,
    divergence: FDivergence,
    top: float,
    common: dict,
) -> Certificate:
    """Method B: no bound on the mean is published; the tail is summed up instead."""
    eps, delta = common["eps"], common["delta"]
    limits = r if sizes is None else r + program_slack(sizes, delta)
    source = _share_at_least(limits, grid)
    steps = np.unique(np.minimum(limits, top))
    shares = np.concatenate([source, _share_at_least(limits, steps), [0.0]])
    bounds = program_bound(shares, eps, len(r), delta, divergence)
    upper, tail, beyond = bounds[: len(grid)], bounds[len(grid) : -1], bounds[-1]
    mean = math.inf
    if math.isfinite(top):
        mean = min(1.0, float(np.diff(steps, prepend=0.0) @ tail + (1 - steps[-1]) * beyond))
    return Certificate(grid, upper, source, mean_upper=mean, **common)


def _estimate_from_curves(
    r: np.ndarray, grid: np.ndarray, curves: RobustCurves, common: dict
) -> Certificate:
    """Mode E2: the half-width is added, but the curves themselves are estimates."""
    if len(curves.values) != len(r):
        raise InputError(f"{len(curves.values)} robust curves for {len(r)} clients")
    below = curves.starts_below(r)
    if below:
        raise InputError(
            f"the robust curve of client {', '.join(below[:10])} starts below its nominal risk",
            "at rho = 0 a curve is the risk itself",
        )
    eta = dkw_half_width(len(r), common["delta"], "upper")
    upper = np.minimum(1.0, robust_tail(curves, grid, common["eps"]) + eta)
    source = np.minimum(1.0, common["nominal"] + eta)
    mean = min(1.0, robust_mean(curves, common["eps"]) + eta)
    common = {**common, "method": "curves"}
    return Certificate(grid, upper, source, mean_upper=mean, certified=False, **common)


def affordable_shift(
    risks: Risks,
    n: Sizes | None = None,
    *,
    level: Float[np.ndarray, " G"] | Sequence[float | int] | float,
    share: float,
    divergence: FDivergence = "chi2",
    delta: float = 0.05,
    losses: Losses = "bounded",
    band: Band = "tail",
    few: Few = "refuse",
    clients: Sequence[str] | None = None,
) -> Float[np.ndarray, " G"]:
    r"""How much shift can be afforded: the largest eps that still certifies a share.

    ``sup {eps : P_mu'(R >= level) <= share for all mu' within eps}``, from the same bound as
    :func:`certify`. All levels, shares and radii hold at once, so the answer may be chosen freely.

    Parameters
    ----------
    risks, n, delta, losses, band, few, clients
        As in :func:`certify`.
    level : float or array, shape (G,)
        The risk that is too much, in [0, 1].
    share : float
        The share of clients that may reach it, in (0, 1).
    divergence : {"chi2", "kl"}

    Returns
    -------
    array, shape (G,)
        0 where not even the source network can be certified.

    Raises
    ------
    InputError
        ``share`` outside (0, 1), ``level`` outside [0, 1], or as in :func:`certify`.

    Examples
    --------
    >>> errors = np.array([0.1] * 160 + [0.4] * 40)
    >>> affordable_shift(errors, level=[0.3, 0.5], share=0.4).round(3)
    array([0.058, 5.44 ])
    >>> certify(errors, eps=0.058, levels=[0.3]).upper.round(3)
    array([0.4])
    """
    delta, share = as_number(delta, "delta"), as_number(share, "share")
    if not 0 < share < 1:
        raise InputError(f"share is {share}; a share of the clients between 0 and 1 expected")
    check_delta(delta, 0.5 + 1e-12)
    levels = np.atleast_1d(as_numbers(level, "level"))
    check_levels(levels)
    r, sizes, names, _ = _clients(risks, n, delta, few, False, clients)
    if losses == "01" and sizes is not None:
        count_errors(r, sizes, names)
    _warn_if_few(len(r), delta, float(tail_upper(np.array([0]), len(r), delta, band)[0]))
    p = source_tail(r, sizes, delta, losses, band)(levels)
    return radius_to_reach(p, np.full_like(p, share), divergence)
