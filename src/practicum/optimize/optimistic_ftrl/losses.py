"""Streams of convex losses: one function a round, with its gradient.

A stream answers ``value(t, x)`` and ``gradient(t, x)`` for any number of points ``x`` at once
(shape ``(..., d)``), and knows where each round's loss is smallest over a set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from practicum.data.streams import RecordedStream, relatives_of
from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import Scalars, finite, moderate
from practicum.optimize.optimistic_ftrl.domains import Domain

WITHOUT_TARGET = ("linear", "log-wealth", "prices")
MARGIN_LOSSES = ("squared", "absolute", "quantile", "logistic")


class Losses(ABC):
    """A stream of T convex losses on d coordinates.

    Parameters
    ----------
    n_rounds : int
    dim : int

    Examples
    --------
    >>> import numpy as np
    >>> stream = LinearCosts(np.array([[1.0, -1.0], [0.0, 2.0]]))
    >>> stream.n_rounds, stream.dim, float(stream.value(0, np.array([0.5, 0.5])))
    (2, 2, 0.0)
    """

    def __init__(self, n_rounds: int, dim: int) -> None:
        self.n_rounds, self.dim = n_rounds, dim

    @abstractmethod
    def value(self, t: int, x: np.ndarray) -> Scalars:
        """``f_t(x)``, shape (...)."""

    @abstractmethod
    def gradient(self, t: int, x: np.ndarray) -> np.ndarray:
        """A subgradient of ``f_t`` at x, shape (..., d)."""

    @abstractmethod
    def minimizers(self, domain: Domain) -> np.ndarray:
        """A minimiser of every round's loss over the set, shape (T, ..., d)."""

    def check(self, domain: Domain) -> None:  # noqa: B027 - most losses are finite everywhere
        """Refuse a set on which a loss is not finite."""

    def part(self, start: int, stop: int) -> Losses:
        """Rounds ``start`` to ``stop - 1`` as a stream of their own."""
        raise InputError(f"{type(self).__name__} cannot be cut into parts", "use one block")

    def values(self, x: np.ndarray) -> np.ndarray:
        """``f_t(x_t)`` along a sequence of points, shape (T, ...)."""
        return np.stack([self.value(t, x[t]) for t in range(self.n_rounds)])


class LinearCosts(Losses):
    r"""Linear costs :math:`f_t(x) = \langle c_t, x \rangle`.

    Parameters
    ----------
    costs : (T, d) array, or (T, B, d) for B parallel streams

    Raises
    ------
    InputError
        If there is no round, or a cost is NaN, infinite or beyond 1e100.

    Examples
    --------
    >>> import numpy as np
    >>> LinearCosts(np.ones((3, 2))).gradient(1, np.zeros(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, costs: Any) -> None:
        self.costs = moderate("costs", costs)
        if self.costs.ndim not in (2, 3) or 0 in self.costs.shape:
            raise InputError(
                f"costs have shape {self.costs.shape}, expected (rounds, coordinates)",
                "one row per round, one column per coordinate",
            )
        super().__init__(len(self.costs), self.costs.shape[-1])

    def value(self, t: int, x: np.ndarray) -> Scalars:
        return np.vecdot(self.costs[t], x)

    def gradient(self, t: int, x: np.ndarray) -> np.ndarray:
        return self.costs[t]

    def minimizers(self, domain: Domain) -> np.ndarray:
        return domain.linear_min(self.costs)

    def part(self, start: int, stop: int) -> LinearCosts:
        return LinearCosts(self.costs[start:stop])

    def values(self, x: np.ndarray) -> np.ndarray:
        return np.vecdot(self.costs, x)


class RegressionLosses(Losses):
    r"""Losses of a linear prediction, :math:`f_t(x) = \ell(\langle a_t, x \rangle, y_t)`.

    ``squared``: half the squared error; ``absolute``; ``quantile``: the pinball loss at level q;
    ``logistic``: ``log(1 + exp(-y a'x))`` with y in {-1, 1} or {0, 1}.

    Parameters
    ----------
    features : (T, d) array
    target : (T,) array
    loss : {"squared", "absolute", "quantile", "logistic"}
    q : float in (0, 1)
        Level of the pinball loss.

    Raises
    ------
    InputError
        If the lengths differ, a cell is NaN or infinite, the loss is unknown, or the target of
        ``logistic`` is not binary.

    Examples
    --------
    >>> import numpy as np
    >>> stream = RegressionLosses(np.array([[1.0, 2.0]]), np.array([1.0]), "squared")
    >>> float(stream.value(0, np.array([1.0, 1.0])))
    2.0
    """

    def __init__(self, features: Any, target: Any, loss: str = "squared", q: float = 0.5) -> None:
        self.features = moderate("features", features)
        self.target = moderate("target", target)
        if self.features.ndim != 2 or 0 in self.features.shape:
            raise InputError(f"features have shape {self.features.shape}, expected (rounds, d)")
        if self.target.shape != (len(self.features),):
            raise InputError(
                f"target has shape {self.target.shape}, expected ({len(self.features)},)",
                "one target per row of features",
            )
        if loss not in MARGIN_LOSSES:
            raise InputError(f"loss {loss!r} is not known", f"use {', '.join(MARGIN_LOSSES)}")
        if not 0 < q < 1:
            raise InputError(f"q is {q}, a level between 0 and 1 is expected")
        self.loss, self.q = loss, q
        if loss == "logistic":
            self.target = _signs(self.target)
        super().__init__(*self.features.shape)

    def link_value(self, margin: Scalars, y: Scalars) -> Scalars:
        """The loss as a function of the linear prediction."""
        r = margin - y
        if self.loss == "squared":
            return r**2 / 2
        if self.loss == "absolute":
            return np.abs(r)
        if self.loss == "quantile":
            return np.maximum(-self.q * r, (1 - self.q) * r)
        return np.logaddexp(0.0, -y * margin)

    def link_slope(self, margin: Scalars, y: Scalars) -> Scalars:
        """Its derivative (a subgradient; 0 at a kink)."""
        r = margin - y
        if self.loss == "squared":
            return r
        if self.loss == "absolute":
            return np.sign(r)
        if self.loss == "quantile":
            return np.where(r > 0, 1 - self.q, np.where(r < 0, -self.q, 0.0))
        return -y * np.exp(-np.logaddexp(0.0, y * margin))

    def value(self, t: int, x: np.ndarray) -> Scalars:
        return self.link_value(np.vecdot(self.features[t], x), self.target[t])

    def gradient(self, t: int, x: np.ndarray) -> np.ndarray:
        slope = self.link_slope(np.vecdot(self.features[t], x), self.target[t])
        return np.asarray(slope)[..., None] * self.features[t]

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.link_value(np.vecdot(self.features, x), self.target)

    def part(self, start: int, stop: int) -> RegressionLosses:
        rows = slice(start, stop)
        return RegressionLosses(self.features[rows], self.target[rows], self.loss, self.q)

    def minimizers(self, domain: Domain) -> np.ndarray:
        # the loss depends on the prediction alone, which moves between these two extreme points
        low, high = domain.linear_min(self.features), domain.linear_min(-self.features)
        if self.loss == "logistic":
            return np.where(self.target[:, None] > 0, high, low)
        from_low = np.vecdot(self.features, low)
        span = np.vecdot(self.features, high) - from_low
        share = np.divide(self.target - from_low, span, out=np.full_like(span, 0.5), where=span > 0)
        return low + np.clip(share, 0.0, 1.0)[:, None] * (high - low)


def _signs(target: np.ndarray) -> np.ndarray:
    values = np.unique(target)
    if set(values.tolist()) <= {0.0, 1.0}:
        return 2 * target - 1
    if set(values.tolist()) <= {-1.0, 1.0}:
        return target
    shown = ", ".join(f"{v:g}" for v in values[:4])
    raise InputError(
        f"logistic loss: the target holds {shown}{', ...' if len(values) > 4 else ''}",
        "code the two classes as 0 and 1, or -1 and 1",
    )


class LogWealth(Losses):
    r"""Portfolio losses :math:`f_t(x) = -\log \langle r_t, x \rangle` on the simplex.

    Parameters
    ----------
    relatives : (T, d) array
        Price relatives: the price at the end of the period over that at its beginning, > 0.

    Raises
    ------
    InputError
        If a relative is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> float(LogWealth(np.array([[1.0, 1.0]])).value(0, np.array([0.5, 0.5])))
    -0.0
    """

    def __init__(self, relatives: Any) -> None:
        self.relatives = moderate("price relatives", relatives)
        if self.relatives.ndim != 2 or 0 in self.relatives.shape:
            raise InputError(f"price relatives have shape {self.relatives.shape}, expected (T, d)")
        bad = np.argwhere(self.relatives <= 0)
        if len(bad):
            t, j = (int(i) for i in bad[0])
            raise InputError(
                f"price relatives: {self.relatives[t, j]} in row {t + 1}, column {j + 1}",
                "give price_t / price_(t-1), which is positive",
            )
        super().__init__(*self.relatives.shape)

    def value(self, t: int, x: np.ndarray) -> Scalars:
        return -np.log(np.vecdot(self.relatives[t], x))

    def gradient(self, t: int, x: np.ndarray) -> np.ndarray:
        wealth = np.asarray(np.vecdot(self.relatives[t], x))
        return -self.relatives[t] / wealth[..., None]

    def values(self, x: np.ndarray) -> np.ndarray:
        return -np.log(np.vecdot(self.relatives, x))

    def minimizers(self, domain: Domain) -> np.ndarray:
        return domain.linear_min(-self.relatives)

    def check(self, domain: Domain) -> None:
        if domain.dim != self.dim:
            return  # said elsewhere
        least = np.vecdot(self.relatives, domain.linear_min(self.relatives))
        if not (least > 0).all():
            t = int(np.argmin(least > 0))
            raise InputError(
                f"the set {domain!r} holds decisions that leave a wealth of {least[t]:.3g} in "
                f"round {t + 1}, whose log is not finite",
                "use the set simplex, or capped-simplex:CAP",
            )

    def part(self, start: int, stop: int) -> LogWealth:
        return LogWealth(self.relatives[start:stop])


class CustomLosses(Losses):
    """Losses given by two functions of one's own.

    Parameters
    ----------
    value : callable (t, x) -> float
    gradient : callable (t, x) -> (d,) array
        A subgradient at x. It is asked for only after x_t is fixed, so it may depend on x_t.
    n_rounds, dim : int
    minimizers : (T, d) array, optional
        Per-round minimisers, where the per-round comparator is wanted.

    Examples
    --------
    >>> import numpy as np
    >>> f = CustomLosses(lambda t, x: abs(x[0] - t), lambda t, x: np.sign(x - t), 3, 1)
    >>> float(f.value(2, np.array([0.0])))
    2.0
    """

    def __init__(
        self,
        value: Callable[[int, np.ndarray], Any],
        gradient: Callable[[int, np.ndarray], Any],
        n_rounds: int,
        dim: int,
        minimizers: Any = None,
    ) -> None:
        super().__init__(n_rounds, dim)
        self._value, self._gradient = value, gradient
        self._minimizers = None if minimizers is None else finite("minimizers", minimizers)

    def value(self, t: int, x: np.ndarray) -> Any:
        return self._value(t, x)

    def gradient(self, t: int, x: np.ndarray) -> Any:
        return self._gradient(t, x)

    def minimizers(self, domain: Domain) -> np.ndarray:
        if self._minimizers is None:
            raise InputError(
                "these losses do not say where each round is smallest",
                'give minimizers=..., or comparators="best_fixed" or your own sequence',
            )
        return self._minimizers


def as_losses(losses: Any) -> Losses:
    """A stream of losses as it is, or an array as linear costs.

    Parameters
    ----------
    losses : Losses or (T, d) or (T, B, d) array

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> as_losses([[1.0, 2.0]]).n_rounds
    1
    """
    return losses if isinstance(losses, Losses) else LinearCosts(losses)


def stream_of(recorded: RecordedStream, loss: str, q: float = 0.5) -> Losses:
    """The losses of a person's stream.

    Parameters
    ----------
    recorded : RecordedStream
    loss : str
        ``linear``, ``log-wealth`` (rows are price relatives), ``prices`` (log-wealth of prices),
        or a regression loss.
    q : float
        Level of the quantile loss.

    Raises
    ------
    InputError
        If the rows are called price relatives and look like prices.

    Examples
    --------
    >>> stream_of(RecordedStream("p.csv", ("a",), np.array([[100.0], [110.0]])), "prices").n_rounds
    1
    """
    if loss == "linear":
        return LinearCosts(recorded.values)
    if loss == "prices":
        return LogWealth(relatives_of(recorded).values)
    if loss == "log-wealth":
        middle = float(np.median(recorded.values))
        if not 0.2 < middle < 5:
            raise InputError(
                f"{recorded.name}: the median is {middle:g}, price relatives lie around 1",
                "if the rows are prices, say loss prices",
            )
        return LogWealth(recorded.values)
    return RegressionLosses(recorded.values, recorded.target, loss, q)
