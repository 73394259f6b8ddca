"""The certificate itself: what it says at a level, for a share, in words and as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.federated.dkw_certificate.bands import as_number, check_levels

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"


def count(n_clients: int) -> str:
    """``1 client``, ``2 clients``."""
    return f"{n_clients} client{'s' * (n_clients != 1)}"


def at_most(bound: float, digits: int = 3) -> str:
    """A bound in few digits, rounded up: rounded to the nearest it might promise too much.

    Examples
    --------
    >>> at_most(36.61), at_most(0.2), at_most(100.0)
    ('36.7', '0.2', '100')
    """
    if not bound or not math.isfinite(bound):
        return f"{bound:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) + 1 - digits)
    return f"{math.ceil(bound / unit - 1e-6) * unit:.{digits}g}"


def at_least(bound: float, digits: int = 3) -> str:
    """A bound from below, rounded down.

    Examples
    --------
    >>> at_least(9.499), at_least(0.0)
    ('9.49', '0')
    """
    return "0" if bound == 0 else at_most(-bound, digits).lstrip("-")


@dataclass(frozen=True, eq=False)
class Certificate:
    """An upper bound on how many clients of a target network do badly, at every level.

    With chance at least ``1 - delta`` over the clients and samples that were seen, ``upper`` bounds
    ``P(risk >= level)`` at all levels at once, and ``mean_upper`` the mean risk, in every network
    within ``eps`` of the one the clients came from.

    Attributes
    ----------
    levels : array, shape (G,)
        Ascending, in risk units.
    upper : array, shape (G,)
        Bound in the target network.
    source : array, shape (G,)
        Bound in the source network (no shift).
    nominal : array, shape (G,)
        Share of the clients seen with a reported risk at or above the level.
    mean_upper : float
        Bound on the mean risk (infinite for losses without a bound).
    method, divergence : str
    eps, delta : float
    K : int
        Clients.
    lower : array, shape (G,), optional
        Lower bound, for two-sided bands.
    certified : bool
        False for an estimate from robust curves, which has no finite-sample proof.

    Examples
    --------
    >>> from practicum.federated.dkw_certificate import certify
    >>> rng = np.random.default_rng(0)
    >>> errors = rng.binomial(400, rng.beta(2, 12, 300)) / 400
    >>> seen = certify(errors, 400, eps=0.2, losses="01")
    >>> round(seen.at(0.3), 3), round(seen.quantile(0.2), 3), round(seen.mean_upper, 3)
    (0.38, 0.359, 0.28)
    >>> print(seen.sentence(0.3))
    With confidence 95 %, in every network within chi-square divergence 0.2 of the one seen, at most
    38 % of the clients have risk 0.3 or more, and the mean risk is at most 0.281 (300 clients).
    """

    levels: np.ndarray
    upper: np.ndarray
    source: np.ndarray
    nominal: np.ndarray
    mean_upper: float
    method: str
    divergence: str
    eps: float
    delta: float
    K: int
    lower: np.ndarray | None = None
    certified: bool = True

    def __eq__(self, other: object) -> bool:
        """Equal in every attribute; arrays are compared as a whole."""
        if not isinstance(other, Certificate):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return all(np.array_equal(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash((self.method, self.divergence, self.eps, self.delta, self.K, self.mean_upper))

    def __repr__(self) -> str:
        ball = "no shift" if self.divergence == "none" else f"{self.divergence} {self.eps:g}"
        words = f"{self.method}, {ball}, delta={self.delta:g}, K={self.K}"
        return f"Certificate({words}, {len(self.levels)} levels, mean_upper={self.mean_upper:.3g})"

    @property
    def bounded(self) -> bool:
        """Whether risks are known to lie in [0, 1]."""
        return math.isfinite(self.mean_upper)

    def _checked(self, level: float) -> float:
        value = as_number(level, "level")
        if math.isnan(value):
            raise InputError(f"level is {level}; a risk expected")
        if self.bounded:
            check_levels(np.array([value]))
        return value

    def at(self, level: float) -> float:
        """Bound on P(risk >= level): the one of the next lower level of the grid.

        Raises
        ------
        InputError
            Not a number, or a level that no risk in [0, 1] has (30 for 30 %): losses without an
            upper bound have a bound at any level.
        """
        place = int(np.searchsorted(self.levels, self._checked(level), "right")) - 1
        return float(self.upper[place]) if place >= 0 else 1.0

    def lower_at(self, level: float) -> float:
        """Lower bound on P(risk >= level): the one of the next higher level of the grid.

        Raises
        ------
        InputError
            As :meth:`at`.
        """
        level = self._checked(level)
        place = int(np.searchsorted(self.levels, level, "left"))
        reached = self.lower is not None and place < len(self.levels)
        return float(self.lower[place]) if reached else 0.0  # type: ignore[index]

    def quantile(self, prob: float) -> float:
        """The smallest level that at most a share ``prob`` of the clients is certified to reach.

        Infinite where no level of the grid is.
        """
        if not 0 <= prob <= 1:
            raise InputError(f"prob is {prob}; a share of the clients between 0 and 1 expected")
        reached = np.flatnonzero(self.upper <= prob)
        return float(self.levels[reached[0]]) if len(reached) else math.inf

    def to_frame(self) -> pd.DataFrame:
        """One row a level: level, upper, source, nominal (and lower)."""
        import pandas as pd

        columns = {
            "level": self.levels,
            "upper": self.upper,
            "source": self.source,
            "nominal": self.nominal,
        }
        if self.lower is not None:
            columns["lower"] = self.lower
        return pd.DataFrame(columns)

    @property
    def scope(self) -> str:
        """For which networks, and with what confidence."""
        lead = f"With confidence {100 * (1 - self.delta):g} %"
        if self.method == "program":
            lead = (
                "By the published program (not valid for many clients and rare events), with "
                f"confidence {100 * (1 - self.delta):g} %"
            )
        if not self.certified:
            lead = "As an estimate, not a certificate"
        if self.divergence == "none":
            return f"{lead}, among all clients of this network"
        ball = {
            "chi2": "chi-square divergence",
            "kl": "KL divergence",
            "wasserstein": "Wasserstein distance",
        }[self.divergence]
        return f"{lead}, in every network within {ball} {self.eps:g} of the one seen"

    def sentence(self, level: float) -> str:
        """The statement at one level, in words.

        Raises
        ------
        InputError
            As :meth:`at`.
        """
        mean = ""
        if math.isfinite(self.mean_upper):
            mean = f", and the mean risk is at most {at_most(self.mean_upper)}"
        return (
            f"{self.scope}, at most {at_most(100 * self.at(level))} % of the clients have risk "
            f"{level:g} or more{mean} ({count(self.K)})."
        )

    def plot(self, truth: Float[np.ndarray, " G"] | None = None) -> Figure:
        """Share of clients at or above each level: seen, bounded in the source, certified.

        ``truth`` is the target's true share at :attr:`levels`, where it is known.
        """
        import plotly.graph_objects as go

        figure = go.Figure()
        target = "target, certified" if self.certified else "target, estimated"
        curves = {
            target: (self.upper, ORANGE, None),
            "source, certified": (self.source, BLUE, "dot"),
            "clients seen": (self.nominal, GREY, None),
        }
        if self.divergence == "none":
            del curves["source, certified"]
            curves = {"bound": curves.pop(target), **curves}
        if self.lower is not None:
            curves["lower bound"] = (self.lower, ORANGE, None)
        if truth is not None:
            curves["target, true"] = (truth, GREEN, "dash")
        for name, (share, colour, dash) in curves.items():
            line = {"color": colour, "width": 2, "dash": dash, "shape": "vh"}
            figure.add_scatter(
                x=self.levels,
                y=share,
                name=name,
                mode="lines",
                line=line,
                # the room between what was seen and what is certified
                fill="tonexty" if name == "clients seen" else None,
                fillcolor="rgba(0,114,178,0.08)",
            )
        figure.update_layout(
            template="plotly_white", height=420, margin={"l": 60, "r": 20, "t": 40, "b": 55}
        )
        figure.update_xaxes(title="risk level")
        figure.update_yaxes(title="share of clients at or above it", range=[0, 1.02])
        return figure
