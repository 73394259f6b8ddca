r"""Robust-risk curves: what each client's risk becomes when its own data may move.

Client k answers ``QV_k(rho) = sup {R(P') : W_c(P', P_k) <= rho}``, with transport cost ``c(z, z')
= |z - z'|^2``, on a grid of rho: a handful of numbers, no data and no gradients. The server spends
a mean budget over clients where it hurts most. The local queries are estimates (finite samples, a
gradient ascent for networks), so what the server computes from them is one too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.errors import InputError, MissingExtra
from practicum.federated.dkw_certificate.bands import as_numbers

CurveLoss = Literal["xent", "01"]
N_GAMMAS = 16
CHUNK = 8192  # perturbed samples in one batch


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class RobustCurves:
    r"""One nondecreasing curve a client, replaced by its concave envelope.

    Beyond the grid a curve goes on with its last slope up to 1, which no concave curve exceeds.

    Attributes
    ----------
    rhos : array, shape (R,)
        Ascending from 0, in the unit of the transport cost.
    values : array, shape (K, R)
    clients : tuple of str
        Names for messages.

    Examples
    --------
    >>> curves = RobustCurves.of([0.0, 0.1, 0.2], [[0.1, 0.3, 0.4], [0.2, 0.2, 0.5]])
    >>> curves.values.tolist()  # the second is lifted to its envelope
    [[0.1, 0.3, 0.4], [0.2, 0.35, 0.5]]
    """

    rhos: np.ndarray
    values: np.ndarray
    clients: tuple[str, ...]

    @classmethod
    def of(
        cls,
        rhos: Real[np.ndarray, " R"] | Sequence[float | int],
        values: Real[np.ndarray, "K R"] | Sequence[Sequence[float | int]],
        clients: Sequence[str] | None = None,
    ) -> RobustCurves:
        """Check the curves and take their concave envelopes.

        Raises
        ------
        InputError
            Shapes that do not fit, a grid that does not ascend from 0, or a curve that decreases or
            leaves [0, 1]; the client is named.
        """
        grid, curves = as_numbers(rhos, "rhos"), as_numbers(values, "curves")
        if curves.ndim != 2 or grid.shape != curves.shape[1:] or len(grid) < 2 or not len(curves):
            raise InputError(
                f"curves of shape {curves.shape} on a grid of shape {grid.shape}",
                "one row a client and one column a rho expected, at least two",
            )
        if grid[0] != 0 or not (np.diff(grid) > 0).all():
            raise InputError(
                f"rho runs over {grid.tolist()}", "it must ascend from 0, the nominal risk"
            )
        names = tuple(map(str, clients if clients is not None else range(len(curves))))
        outside = ~((curves >= 0) & (curves <= 1)).all(axis=1)
        falling = (np.diff(curves, axis=1) < -1e-9).any(axis=1)
        for bad, why in ((outside, "leaves [0, 1]"), (falling, "decreases in rho")):
            if bad.any():
                who = ", ".join(names[k] for k in np.flatnonzero(bad)[:10])
                raise InputError(
                    f"the robust curve {why} for client {who} ({int(bad.sum())} in all)",
                    "a larger rho allows more: a correct curve lies in [0, 1] and never falls",
                )
        return cls(grid, np.stack([_envelope(grid, c) for c in curves]), names)

    def starts_below(self, risks: Float[np.ndarray, " K"]) -> list[str]:
        """Clients whose curve at rho = 0 lies below the risk they reported."""
        return [self.clients[k] for k in np.flatnonzero(self.values[:, 0] < risks - 1e-6)]

    def _extended(self) -> tuple[Float[np.ndarray, "K S"], Float[np.ndarray, "K S"]]:
        """Lengths and slopes of the linear pieces, the last one reaching up to 1."""
        length = np.diff(self.rhos)[None].repeat(len(self.values), axis=0)
        slope = np.diff(self.values, axis=1) / length
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(slope[:, -1] > 0, (1 - self.values[:, -1]) / slope[:, -1], 0.0)
        return np.column_stack([length, more]), np.column_stack([slope, slope[:, -1]])


def _envelope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smallest concave function above the points, at the points."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return np.maximum(np.interp(x, x[hull], y[hull]), y)


def robust_mean(curves: RobustCurves, budget: float) -> float:
    r"""The largest mean risk when clients' data move by ``budget`` on average.

    ``max mean_k QV_k(rho_k)`` over ``rho_k >= 0`` with ``mean(rho_k) <= budget``: the linear pieces
    of all curves are taken in the order of their slopes (the exact optimum, equal to the dual
    ``min_gamma gamma budget + mean_k max_rho [QV_k(rho) - gamma rho]``).

    Parameters
    ----------
    curves : RobustCurves
    budget : float
        In the unit of rho.

    Raises
    ------
    InputError
        The budget is negative.

    Examples
    --------
    >>> curves = RobustCurves.of([0.0, 0.1, 0.2], [[0.1, 0.3, 0.4], [0.2, 0.25, 0.3]])
    >>> round(robust_mean(curves, 0.05), 6)  # all of it goes to the first client
    0.25
    """
    if not budget >= 0:
        raise InputError(f"budget is {budget}; a mean distance of at least 0 expected")
    length, slope = (a.ravel() for a in curves._extended())
    order = np.argsort(-slope, kind="stable")
    share, gain = length[order] / len(curves.values), slope[order]
    spent = np.minimum(share, np.maximum(budget - (np.cumsum(share) - share), 0.0))
    return float(min(1.0, curves.values[:, 0].mean() + spent @ gain))


def robust_tail(
    curves: RobustCurves, levels: Float[np.ndarray, " G"], budget: float
) -> Float[np.ndarray, " G"]:
    r"""The largest share of clients at or above each level for a mean budget.

    Client k costs ``min {rho : QV_k(rho) >= level}``; the cheapest are bought first, the last one
    in part.

    Parameters
    ----------
    curves : RobustCurves
    levels : array, shape (G,)
    budget : float

    Raises
    ------
    InputError
        The budget is negative.

    Examples
    --------
    >>> curves = RobustCurves.of([0.0, 0.1, 0.2], [[0.1, 0.3, 0.4], [0.2, 0.25, 0.3]])
    >>> robust_tail(curves, np.array([0.2, 0.3]), 0.05).round(6)
    array([1. , 0.5])
    """
    if not budget >= 0:
        raise InputError(f"budget is {budget}; a mean distance of at least 0 expected")
    length, slope = curves._extended()
    cost = np.empty((len(levels), len(length)))
    for k, (steps, slopes) in enumerate(zip(length, slope, strict=True)):
        value = curves.values[k, 0] + np.concatenate([[0.0], np.cumsum(steps * slopes)])
        rho = np.concatenate([[0.0], np.cumsum(steps)])
        rising = np.concatenate([[True], slopes * steps > 0])  # flat pieces lie at the end
        value, rho = value[rising], rho[rising]
        # a last slope that should end at 1 may end a rounding error below it
        reached = np.where(levels <= value[-1] + 1e-12, rho[-1], math.inf)
        cost[:, k] = np.minimum(np.interp(levels, value, rho, right=math.inf), reached)
    cost.sort(axis=1)
    paid = np.cumsum(cost, axis=1) / len(length)
    full = (paid <= budget).sum(axis=1)
    last = np.minimum(full, len(length) - 1)
    rows = np.arange(len(levels))
    before = np.where(full > 0, paid[rows, full - 1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(full < len(length), (budget - before) / cost[rows, last], 0.0)
    return np.minimum(1.0, full / len(length) + np.clip(part, 0, 1 / len(length)))


# --- local queries -------------------------------------------------------------------------------


def local_robust_curve(
    model: Any,
    X: Real[np.ndarray, "n *d"],
    y: Int[np.ndarray, " n"],
    rhos: Real[np.ndarray, " R"] | Sequence[float | int],
    loss: CurveLoss = "xent",
    steps: int = 15,
) -> Float[np.ndarray, " R"]:
    r"""A client's robust-risk curve ``QV(rho)``, for transport cost ``|z - z'|^2`` of the inputs.

    * ``"xent"``: ``QV(rho) = min_gamma gamma rho + mean_i phi_gamma(z_i)`` with ``phi_gamma(z) =
      max_z' loss(z') - gamma |z' - z|^2`` by gradient ascent (step 1 / (2 gamma), best iterate
      kept), in nats: unbounded, so divide by a bound before a certificate is asked for.
    * ``"01"``: the share of samples that a mean budget rho can push over the decision boundary, the
      closest first. For a linear model the squared distances ``(margin / |w_y - w_j|)^2`` are
      exact. For a network they are the smallest that the ascent finds: the curve is then an
      estimate from below.

    Parameters
    ----------
    model : torch.nn.Module, or a fitted scikit-learn linear classifier
        A module maps a batch of inputs to one logit a class.
    X : array, shape (n, ...)
        The client's inputs.
    y : int array, shape (n,)
        Class numbers (scikit-learn: entries of ``model.classes_``).
    rhos : array, shape (R,)
        Budgets, at least 0.
    loss : {"xent", "01"}
    steps : int
        Steps of the ascent.

    Returns
    -------
    array, shape (R,), nondecreasing and concave; at rho = 0 the mean loss on the sample

    Raises
    ------
    InputError
        Negative budgets, samples and labels that do not fit, or a model of another kind.
    MissingExtra
        PyTorch is needed and not installed.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = LogisticRegression(C=1e4).fit(X, [0, 0, 1, 1])
    >>> local_robust_curve(model, X, np.array([0, 0, 1, 1]), [0, 0.25, 0.5], "01").round(2)
    array([0.  , 0.25, 0.5 ])
    """
    budgets = np.asarray(rhos, dtype=float)
    if not (budgets >= 0).all():
        raise InputError(f"rhos reach down to {budgets.min():g}; budgets of at least 0 expected")
    if len(X) != len(y) or not len(y):
        raise InputError(f"{len(X)} inputs and {len(y)} labels; as many expected, at least one")
    if loss not in get_args(CurveLoss):
        raise InputError(f"no loss {loss!r}", f"there are {', '.join(get_args(CurveLoss))}")
    linear = hasattr(model, "coef_") and hasattr(model, "classes_")
    if linear:
        weights, bias, y = _linear_parts(model, X, y)
        if loss == "01":
            return _push_over(_linear_distances(weights, bias, X, y), budgets)
    torch = _torch()
    if linear:
        module = _as_module(torch, weights, bias)
    elif isinstance(model, torch.nn.Module):
        module = model
    else:
        raise InputError(
            f"model is a {type(model).__name__}",
            "a torch module or a fitted scikit-learn linear classifier expected",
        )
    was_training = module.training
    module.eval()
    try:
        ascent = _Ascent(torch, module, X, y, steps)
        if loss == "01":
            return _push_over(ascent.distances(budgets), budgets)
        return ascent.curve(budgets)
    finally:
        module.train(was_training)


def _push_over(distances: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """Share of samples that a mean budget reaches, the closest first, the last in part."""
    d = np.sort(distances)
    d = d[np.isfinite(d)]
    n = len(distances)
    free = int((d == 0).sum())
    spent = np.concatenate([[0.0], np.cumsum(d[free:]) / n])
    share = np.arange(free, len(d) + 1) / n
    return np.interp(budgets, spent, share)


def _linear_parts(
    model: Any, X: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One weight vector and bias a class, and labels as class numbers."""
    weights, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if X.ndim != 2 or X.shape[1] != weights.shape[1]:
        raise InputError(
            f"X has shape {X.shape}; (n, {weights.shape[1]}) expected by {type(model).__name__}"
        )
    classes = list(model.classes_)
    unknown = sorted(set(np.asarray(y).tolist()) - set(classes))
    if unknown:
        raise InputError(f"labels {unknown[:5]} are no classes of the model", f"it has {classes}")
    if len(weights) == 1:  # two classes: the logit of the second, zero for the first
        weights = np.concatenate([np.zeros_like(weights), weights])
        bias = np.concatenate([[0.0], bias])
    return weights, bias, np.array([classes.index(label) for label in np.asarray(y).tolist()])


def _linear_distances(
    weights: np.ndarray, bias: np.ndarray, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Squared distance of each sample to the nearest half-space of another class."""
    logits = X @ weights.T + bias
    margin = logits[np.arange(len(y)), y][:, None] - logits
    apart = np.linalg.norm(weights[y][:, None] - weights[None], axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(margin > 0, (margin / apart) ** 2, 0.0)
    distance[np.arange(len(y)), y] = math.inf
    return distance.min(axis=1)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            "robust curves of networks need PyTorch",
            "install it with: pip install 'practicum[torch]'",
        ) from error
    return torch


def _as_module(torch: Any, weights: np.ndarray, bias: np.ndarray) -> Any:
    module = torch.nn.Linear(weights.shape[1], len(weights), dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(weights))
        module.bias.copy_(torch.as_tensor(bias))
    return module


class _Ascent:
    """Gradient ascent on ``objective(z') - gamma |z' - z|^2`` for many gammas in one batch."""

    def __init__(self, torch: Any, module: Any, X: np.ndarray, y: np.ndarray, steps: int) -> None:
        first = next(module.parameters(), torch.zeros(1))
        self.torch, self.module, self.steps = torch, module, steps
        self.x = torch.as_tensor(X, dtype=first.dtype, device=first.device)
        self.y = torch.as_tensor(np.asarray(y), dtype=torch.long, device=first.device)

    def xent(self, z: Any, y: Any) -> Any:
        return self.torch.nn.functional.cross_entropy(self.module(z), y, reduction="none")

    def margin(self, z: Any, y: Any) -> Any:
        """Best other logit minus the own: at least 0 where the sample is misclassified."""
        logits = self.module(z)
        own = logits.gather(1, y[:, None])[:, 0]
        hidden = logits.scatter(1, y[:, None], -math.inf)
        return hidden.max(1).values - own

    def gradient(self, objective: Any, z: Any, y: Any) -> tuple[Any, Any]:
        z = z.detach().requires_grad_(True)
        value = objective(z, y)
        (grad,) = self.torch.autograd.grad(value.sum(), z)
        return value.detach(), grad

    def gammas(self, objective: Any, budgets: np.ndarray) -> np.ndarray:
        """Around ``sqrt(mean |grad|^2 / rho) / 2``, the price of a small budget rho."""
        _, grad = self.gradient(objective, self.x, self.y)
        size = float((grad**2).flatten(1).sum(1).mean()) or 1.0
        some = budgets[budgets > 0]
        low, high = (some.min(), some.max()) if len(some) else (1.0, 1.0)
        return np.geomspace(
            0.5 * math.sqrt(size / high) / 16, 0.5 * math.sqrt(size / low) * 8, N_GAMMAS
        )

    def batches(self, gammas: np.ndarray) -> Any:
        """(rows of the sample, z, y, gamma) with every gamma beside every sample."""
        rows = max(1, CHUNK // len(gammas))
        for start in range(0, len(self.x), rows):
            part = slice(start, start + rows)
            x, y = self.x[part], self.y[part]
            gamma = self.torch.as_tensor(gammas, dtype=x.dtype, device=x.device)
            yield (
                part,
                x.repeat(len(gammas), *[1] * (x.dim() - 1)),
                y.repeat(len(gammas)),
                gamma.repeat_interleave(len(x)),
            )

    def path(self, objective: Any, x: Any, y: Any, gamma: Any) -> Any:
        """Yield (objective, squared distance, z) along the ascent, the start first."""
        scale = (2 * gamma).reshape(-1, *[1] * (x.dim() - 1))
        z = x
        for step in range(self.steps + 1):
            value, grad = self.gradient(objective, z, y)
            yield value, ((z - x) ** 2).flatten(1).sum(1), z
            if step < self.steps:
                # half a step towards the fixed point z = x + grad / (2 gamma) does not oscillate
                z = z + 0.5 * (grad - scale * (z - x)) / scale

    def curve(self, budgets: np.ndarray) -> np.ndarray:
        torch = self.torch
        gammas = self.gammas(self.xent, budgets)
        total = np.zeros(len(gammas))
        for _, x, y, gamma in self.batches(gammas):
            best = torch.full_like(gamma, -math.inf)
            for value, distance, _ in self.path(self.xent, x, y, gamma):
                best = torch.maximum(best, value - gamma * distance)
            total += best.double().reshape(len(gammas), -1).sum(1).cpu().numpy()
        with torch.no_grad():
            nominal = float(self.xent(self.x, self.y).double().mean())
        phi = total / len(self.x)
        robust = (budgets[:, None] * gammas + phi).min(axis=1)
        return np.where(budgets == 0, nominal, np.maximum(robust, nominal))

    def distances(self, budgets: np.ndarray) -> np.ndarray:
        """Smallest squared distance to a misclassified point that the ascent finds."""
        torch = self.torch
        gammas = self.gammas(self.margin, budgets)
        found = []
        for _, x, y, gamma in self.batches(gammas):
            closest, where = torch.full_like(gamma, math.inf), x.clone()
            for value, distance, z in self.path(self.margin, x, y, gamma):
                better = (value >= 0) & (distance < closest)
                closest = torch.where(better, distance, closest)
                where[better] = z[better]
            found.append(self._walk_back(x, y, where, closest).reshape(len(gammas), -1).amin(0))
        return torch.cat(found).double().cpu().numpy()

    def _walk_back(self, x: Any, y: Any, z: Any, closest: Any) -> Any:
        """Halve the segment from the sample to its misclassified neighbour."""
        torch = self.torch
        low, high = torch.zeros_like(closest), torch.ones_like(closest)
        with torch.no_grad():
            for _ in range(12):
                middle = 0.5 * (low + high)
                at = x + middle.reshape(-1, *[1] * (x.dim() - 1)) * (z - x)
                wrong = self.margin(at, y) >= 0
                low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
        return torch.where(torch.isfinite(closest), closest * high**2, closest)
