"""Online learners of one small shape: ``x = learner.predict(hint)``, then ``learner.update(grad)``.

``OptFPRL`` is the method; the others are what it is compared with.  With ``n_runs=B`` a learner
advances B independent runs at once: actions, hints and gradients then have the shape (B, d).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import (
    Scalars,
    as_float,
    as_rows,
    positive,
    refuse_non_finite,
)
from practicum.optimize.optimistic_ftrl.domains import Domain, Simplex
from practicum.optimize.optimistic_ftrl.geometry import Entropy, Euclidean
from practicum.optimize.optimistic_ftrl.hints import check_hint

RULES = ("recursive", "et", "known_path", "observed_path", "constant")


def _size2(v: np.ndarray) -> Any:
    """Squared Euclidean norm of every row."""
    return np.vecdot(v, v)


class OnlineLearner(ABC):
    r"""The protocol of a round, shared by every learner here.

    .. code-block:: text

        x = learner.predict(hint)      # fixes x_t before anything of round t is seen
        learner.update(gradient)       # a subgradient of f_t at x_t

    The hint of the coming round may also be handed over early: ``update(gradient, hint)``.

    Parameters
    ----------
    domain : Domain
    n_runs : int, optional
        Independent runs advanced together; actions are then (n_runs, d).

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, OGD
    >>> learner = OGD(Ball(1.0, 2))
    >>> learner.predict().tolist()
    [0.0, 0.0]
    >>> learner.update(np.array([1.0, 0.0]))
    >>> learner.predict().round(3).tolist()
    [-1.0, 0.0]
    """

    def __init__(self, domain: Domain, n_runs: int | None = None) -> None:
        if not isinstance(domain, Domain):
            raise InputError(
                f"domain is {type(domain).__name__}, a Domain is expected",
                "use Ball, Box, Simplex, L1Ball, Product, Halfspaces or Custom",
            )
        if n_runs is not None and n_runs < 1:
            raise InputError(f"n_runs is {n_runs}", "give at least 1")
        self.domain, self.n_runs = domain, n_runs
        self.batch = () if n_runs is None else (n_runs,)
        self.shape = (*self.batch, domain.dim)
        self._zero = np.zeros(self.shape)
        self.restart()

    def __repr__(self) -> str:
        rule = f", {self.rule!r}" if hasattr(self, "rule") else ""
        runs = "" if self.n_runs is None else f", n_runs={self.n_runs}"
        return f"{type(self).__name__}({self.domain!r}{rule}{runs})"

    def restart(self) -> None:
        """Forget everything: the next round is the first."""
        self.t_ = 0
        self._w = self._zero
        self._hint = self._zero
        self._early_hint: Any = None
        self._awaiting = False
        self._begin()

    def predict(self, hint: Any = None) -> np.ndarray:
        """The action x_t of the coming round, shape (d,) or (n_runs, d).

        Parameters
        ----------
        hint : array of the same shape, or (d,) for all runs, optional
            The predicted gradient of the coming round.

        Raises
        ------
        InputError
            If the last round has not been updated yet, or the hint is NaN or of another length.
        """
        if self._awaiting:
            raise InputError(
                "predict was called twice without update",
                "each round is predict, then update with the gradient at that action",
            )
        hint = self._early_hint if hint is None else hint
        if hint is None:
            self._hint = self._zero
        else:
            self._hint = check_hint(hint, self.shape)
            if not math.isfinite(self._hint.sum()):
                refuse_non_finite(f"hint of round {self.t_ + 1}", self._hint)
        self._w = self._play(self._hint)
        self._awaiting, self._early_hint = True, None
        return self.domain.release(self._w)

    def update(self, grad: Any, hint: Any = None) -> None:
        """Take in the gradient at the action just played.

        Parameters
        ----------
        grad : array of the shape of the action
        hint : array, optional
            The predicted gradient of the next round, if it is known already.

        Raises
        ------
        InputError
            If no action awaits a gradient, or the gradient is NaN or of another length.
        """
        if not self._awaiting:
            raise InputError(
                "update was called before predict",
                "each round is predict, then update with the gradient at that action",
            )
        grad = as_rows("gradient", grad, self.shape)
        if not math.isfinite(grad.sum()):
            refuse_non_finite(f"gradient of round {self.t_ + 1}", grad)
        self._observe(grad)
        self.t_ += 1
        self._awaiting, self._early_hint = False, hint

    @property
    def x_(self) -> np.ndarray:
        """The last action played."""
        return self.domain.release(self._w)

    def _begin(self) -> None:  # noqa: B027 - a learner may have no state
        """Set the state of a fresh learner."""

    @abstractmethod
    def _play(self, hint: np.ndarray) -> np.ndarray:
        """The action relative to the centre."""

    @abstractmethod
    def _observe(self, grad: np.ndarray) -> None:
        """Learn from the gradient at ``self._w``, predicted as ``self._hint``."""


class OptFPRL(OnlineLearner):
    r"""Optimistic Follow the Pruned Leader (Mhaisen & Iosifidis, ICML 2025).

    With :math:`x` relative to the set's centre, predictions :math:`\tilde g_t` and errors
    :math:`e_t = g_t - \tilde g_t`,

    .. math::

        x_{t+1} = \arg\min_{x \in X} \langle p_{1:t} + \tilde g_{t+1}, x \rangle
                  + \tfrac{\sigma_{1:t}}{2} \|x\|^2, \qquad
        p_{1:t} = e_t - \sigma_{1:t-1} x_t .

    The second equation is the pruned history in closed form: cancelling, with a normal-cone
    vector, the part of the past that only pushed the unconstrained minimiser further out of X
    leaves the smallest state that still plays :math:`x_t`. So memory and time are O(d) a round.

    Parameters
    ----------
    domain : Domain
    rule : {"recursive", "et", "known_path", "observed_path", "constant"}
        How the regularisation :math:`\sigma_{1:t}` grows, with R the radius of the domain and
        :math:`E_t = \sum_{i \le t} \|e_i\|^2`:

        * ``recursive``: :math:`\sum_i \delta_i / (8 R^2)`, from the measured cost
          :math:`\delta_i` of each prediction error (Theorem 3.4). Nothing to tune; the default.
        * ``et``: :math:`\sqrt{E_t} / (4R)` (Theorem 3.1).
        * ``known_path``: :math:`\kappa \sqrt{E_t}` with
          :math:`\kappa = \min(1/(4R), \sqrt{\sqrt 2 / (R^2/2 + R P_T)})` for a comparator whose
          path length :math:`P_T` is known (Theorem 3.2).
        * ``observed_path``: the same with the path of the per-round minimisers seen so far.
        * ``constant``: ``sigma``.
    path_length : float, optional
        P_T, for ``known_path``.
    sigma : float, optional
        For ``constant``. Without hints this is online gradient descent with step 1/sigma.
    prune : float in [0, 1]
        1 prunes, 0 never does (lazy FTRL, dual averaging), in between interpolates the states.
    geometry : {"euclidean", "entropy"}
        The regulariser. ``entropy`` (simplex only) turns the update into (optimistic) Hedge;
        rules ``recursive`` (AdaHedge), ``et`` and ``constant``. No dynamic bound is claimed for it.
    variant : {"paper", "official_code"}
        ``official_code`` does what the published program does on a ball: a stale pruning vector is
        added again in every round in which the minimiser is inside. For reproduction only.
    n_runs : int, optional
        Independent runs advanced together.

    Attributes
    ----------
    x_ : (d,) array, the last action
    sigma_ : float or (n_runs,), the regularisation :math:`\sigma_{1:t}`
    E_ : float or (n_runs,), :math:`E_t`
    gap_ : float or (n_runs,), :math:`\sum_i \delta_i` (kept by ``recursive`` only)
    state_norm_ : float or (n_runs,), :math:`\|p_{1:t}\|`
    n_pruned_ : int or (n_runs,), rounds whose unconstrained minimiser was outside the set

    Raises
    ------
    InputError
        If the rule, geometry or variant is unknown or lacks its number.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball, OptFPRL
    >>> learner = OptFPRL(Ball(1.0, 2))
    >>> for t in range(200):                    # the cost flips sign after 100 rounds
    ...     x = learner.predict()
    ...     learner.update(np.array([1.0, 0.0]) * (-1 if t < 100 else 1))
    >>> learner.x_.tolist()
    [-1.0, 0.0]
    """

    def __init__(
        self,
        domain: Domain,
        rule: str = "recursive",
        *,
        path_length: Any = None,
        sigma: Any = None,
        prune: Any = 1.0,
        geometry: str = "euclidean",
        variant: str = "paper",
        n_runs: int | None = None,
    ) -> None:
        if rule not in RULES:
            raise InputError(f"rule {rule!r} is not known", f"use {', '.join(RULES)}")
        if not 0 <= prune <= 1:
            raise InputError(f"prune is {prune}", "give a number from 0 (never) to 1 (always)")
        if rule == "constant":
            sigma = positive("sigma", sigma, hint='rule="constant" needs sigma=..., positive')
        if rule == "known_path":
            path_length = _path(path_length)
        if variant not in ("paper", "official_code"):
            raise InputError(f"variant {variant!r} is not known", "use paper or official_code")
        self.rule, self.prune, self.variant = rule, float(prune), variant
        self.path_length, self.sigma = path_length, sigma
        self.geometry = _geometry(geometry, domain, rule)
        super().__init__(domain, n_runs)

    def _begin(self) -> None:
        zero = np.zeros(self.batch)
        self._p = self._zero
        self.E_, self.gap_, self.n_pruned_ = zero, zero, zero.astype(int)
        self.sigma_ = zero + (self.sigma if self.rule == "constant" else 0.0)
        self._path, self._target = zero, None
        self._steady = self.rule == "constant"  # every run has sigma > 0
        if self.variant == "official_code":
            from practicum.optimize.optimistic_ftrl import official

            official.begin(self)

    def _play(self, hint: np.ndarray) -> np.ndarray:
        if self.variant == "official_code":
            from practicum.optimize.optimistic_ftrl import official

            return official.play(self, hint)
        w, outside = self.geometry.argmin(self._p + hint, self.sigma_, self._steady)
        self.n_pruned_ = self.n_pruned_ + outside
        return w

    def _observe(self, grad: np.ndarray) -> None:
        if self.variant == "official_code":
            from practicum.optimize.optimistic_ftrl import official

            return official.observe(self, grad)
        error = grad - self._hint
        self._p, gap = self.geometry.absorb(self, grad, error)
        self.E_ = self.E_ + self.geometry.size2(error)
        self.gap_ = self.gap_ if gap is None else self.gap_ + gap
        if self.rule != "constant":
            self.sigma_ = self._next_sigma(grad)
            self._steady = self._steady or bool((self.sigma_ > 0).all())

    def _next_sigma(self, grad: np.ndarray) -> Any:
        if self.rule == "recursive":
            return self.gap_ / self.geometry.gap_scale
        if self.rule == "observed_path":
            self._walk(grad)
            kappa = path_kappa(self.domain.radius, self._path)
            return np.maximum(self.sigma_, kappa * np.sqrt(self.E_))
        if self.rule == "known_path":
            return path_kappa(self.domain.radius, self.path_length) * np.sqrt(self.E_)
        return np.sqrt(self.E_) * self.geometry.error_scale

    def _walk(self, grad: np.ndarray) -> None:
        """Add to the path the step between the minimisers of the last two gradients."""
        target = self.domain._linear_min(grad)
        if self._target is not None:
            self._path = self._path + np.linalg.norm(target - self._target, axis=-1)
        self._target = target

    @property
    def state_norm_(self) -> Any:
        """Norm of the pruned state ``p_{1:t}``: at most ``R sigma_{1:t-1} + ||e_t||``."""
        return np.linalg.norm(self._p, axis=-1)

    def bound(self, path_length: Any, error_path: Any = 0.0) -> Any:
        r"""The proved bound on the dynamic regret so far, against a comparator of this path.

        Parameters
        ----------
        path_length : float
            :math:`P_t = \sum \|u_{i+1} - u_i\|`.
        error_path : float
            :math:`H_t = \sum \|e_i\| \|u_{i+1} - u_i\|`; at most ``max error x path_length``.

        Returns
        -------
        float or (n_runs,) array
            For ``recursive`` the weights of the path are bounded by the last one.

        Raises
        ------
        InputError
            If no bound is proved for these settings.
        """
        if self.prune < 1 or self.variant != "paper" or self.geometry.name != "euclidean":
            raise InputError("no dynamic bound is proved for these settings", "use prune=1")
        R, P, root = self.domain.radius, path_length, np.sqrt(self.E_)
        if self.rule == "recursive":
            return 1.0625 * self.gap_ + self.gap_ * P / (4 * R) + error_path
        if self.rule == "et":
            return (5.8 * R + P / 2) * root + error_path
        if self.rule == "known_path":
            kappa = path_kappa(R, self.path_length)
            slope = math.sqrt(2) / kappa + kappa * (R**2 / 2 + R * P)
            return slope * root + error_path
        raise InputError(f"no bound in closed form for rule {self.rule!r}", "see OCOResult.terms()")


def path_kappa(radius: Any, path_length: Any) -> Any:
    r"""Best ``sigma / sqrt(E)`` for a path length, at most ``1/(4R)``.

    It minimises :math:`\sqrt 2/\kappa + \kappa (R^2/2 + R P)`, the sum of the cost of prediction
    errors and of the regulariser, under the condition the first of the two needs.

    Parameters
    ----------
    radius : float
    path_length : float or array
        At least 0.

    Raises
    ------
    InputError
        If the radius is not positive, or the path length negative.

    Examples
    --------
    >>> path_kappa(2.0, 0.0)
    0.125
    """
    if not radius > 0:
        raise InputError(f"radius is {radius}, a positive number is expected", "give radius > 0")
    if not np.all(np.asarray(path_length) >= 0):
        raise InputError(f"path_length is {path_length}, a length is expected", "give 0 or more")
    best = np.sqrt(math.sqrt(2) / (radius**2 / 2 + radius * np.asarray(path_length)))
    kappa = np.minimum(1 / (4 * radius), best)
    return float(kappa) if np.ndim(kappa) == 0 else kappa


def _path(path_length: Any) -> float:
    try:
        value = float(path_length)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(
            f'rule="known_path" got path_length={path_length!r}, a number >= 0 is expected',
            'give the comparator\'s path length, or use rule="observed_path" or rule="recursive"',
        )
    return value


def _geometry(name: str, domain: Domain, rule: str) -> Any:
    if name == "euclidean":
        return Euclidean(domain)
    if name == "entropy":
        if "path" in rule:
            raise InputError(f"rule {rule!r} needs the Euclidean geometry", 'use rule="recursive"')
        return Entropy(domain)
    raise InputError(f"geometry {name!r} is not known", "use euclidean or entropy")


class FTRL(OptFPRL):
    r"""Lazy optimistic FTRL (dual averaging): the same update without pruning.

    :math:`x_{t+1} = \mathrm{Proj}_X(-(\sum_{i \le t} g_i + \tilde g_{t+1}) / \sigma_{1:t})`. With
    ``rule="recursive"`` it is AdaFTRL (Orabona & Pál 2018).

    Parameters
    ----------
    domain : Domain
    rule : str
        As for :class:`OptFPRL`.
    **settings
        As for :class:`OptFPRL`, without ``prune``.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> FTRL(Ball(1.0, 2)).prune
    0.0
    """

    def __init__(self, domain: Domain, rule: str = "et", **settings: Any) -> None:
        super().__init__(domain, rule, prune=0.0, **settings)


class OGD(OnlineLearner):
    r"""Projected online gradient descent, scale-free (Orabona & Pál 2018) or with a fixed step.

    :math:`x_{t+1} = \mathrm{Proj}_X(x_t - \eta_t g_t)`,
    :math:`\eta_t = 2R / \sqrt{2 \sum_{i \le t} \|g_i\|^2}`.

    Parameters
    ----------
    domain : Domain
    step : float, optional
        A fixed step instead.
    multiplier : float or (n_runs,) array
        Times the scale-free step.
    n_runs : int, optional

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Box
    >>> OGD(Box(-1, 1, dim=3), step=0.1).predict().tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        domain: Domain,
        step: Any = None,
        *,
        multiplier: Any = 1.0,
        n_runs: int | None = None,
    ) -> None:
        self.step = None if step is None else positive("step", step)
        self.multiplier = as_float("multiplier", multiplier)
        super().__init__(domain, n_runs)

    def _begin(self) -> None:
        self._sum = np.zeros(self.batch)
        self._next = self._zero

    def _play(self, hint: np.ndarray) -> np.ndarray:
        return self._next

    def _observe(self, grad: np.ndarray) -> None:
        if self.step is not None:
            self._next = self.domain._project(self._w - self.step * grad)
            return
        self._sum = self._sum + _size2(grad)
        step = _scale_free(self.domain.radius, self._sum) * self.multiplier
        self._next = self.domain._project(self._w - step[..., None] * grad)


def _scale_free(radius: float, total: Scalars) -> np.ndarray:
    """``2R / sqrt(2 total)``, and 0 while nothing but zeros has been seen."""
    total = np.asarray(total)
    root = np.sqrt(2 * total)
    return np.divide(2 * radius, root, out=np.zeros_like(root), where=root > 0)


class OptimisticOGD(OnlineLearner):
    r"""Optimistic online gradient descent with two sequences (Rakhlin & Sridharan 2013).

    :math:`y_{t+1} = \mathrm{Proj}(y_t - \eta_t g_t)`,
    :math:`x_{t+1} = \mathrm{Proj}(y_{t+1} - \eta_t \tilde g_{t+1})`,
    :math:`\eta_t = 2R / (\sqrt{2 E_t} + 2)`.

    Parameters
    ----------
    domain : Domain
    order : {"textbook", "official_code"}
        The published program adds the hint to ``y_t``, one step stale, plays the centre first and
        begins at the best answer to the first gradient.
    n_runs : int, optional

    Raises
    ------
    InputError
        If the order is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> OptimisticOGD(Ball(2.0, 1)).predict(hint=np.array([5.0])).tolist()
    [-2.0]
    """

    def __init__(
        self, domain: Domain, order: str = "textbook", *, n_runs: int | None = None
    ) -> None:
        if order not in ("textbook", "official_code"):
            raise InputError(f"order {order!r} is not known", "use textbook or official_code")
        self.order = order
        super().__init__(domain, n_runs)

    def _begin(self) -> None:
        self._y, self._stale = self._zero, self._zero
        self._errors = np.zeros(self.batch)

    def _play(self, hint: np.ndarray) -> np.ndarray:
        if self.order == "official_code":
            step = self._step() if self.t_ > 1 else np.zeros(self.batch)
            return self.domain._project(self._stale - step[..., None] * hint)
        if self.t_ == 0:  # no step size yet: the best answer to the hint, as OptFPRL's
            return self.domain._linear_min(hint)
        return self.domain._project(self._y - self._step()[..., None] * hint)

    def _step(self) -> Scalars:
        return 2 * self.domain.radius / (np.sqrt(2 * self._errors) + 2)

    def _observe(self, grad: np.ndarray) -> None:
        self._errors = np.asarray(self._errors + _size2(grad - self._hint))
        if self.order == "official_code" and self.t_ == 0:
            self._y = self._stale = self.domain._linear_min(grad)
            return
        self._stale = self._y
        self._y = self.domain._project(self._y - self._step()[..., None] * grad)


class Hedge(OnlineLearner):
    r"""Exponential weights on the simplex.

    :math:`x_t \propto \exp(-\eta (\sum_{i<t} g_i + \tilde g_t))`, with a fixed rate or AdaHedge's
    (de Rooij et al. 2014): :math:`1/\eta_t` is the sum of the mixability gaps over ``ln d``.

    Parameters
    ----------
    domain : Simplex
        With total 1.
    rate : float, optional
        A fixed :math:`\eta`; AdaHedge without.
    optimistic : bool
        Whether hints are used.
    n_runs : int, optional

    Raises
    ------
    InputError
        If the domain is not the probability simplex.

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Simplex
    >>> learner = Hedge(Simplex(2), rate=np.log(2))
    >>> _ = learner.predict()
    >>> learner.update(np.array([1.0, 0.0]))
    >>> learner.predict().round(12).tolist()
    [0.333333333333, 0.666666666667]
    """

    def __init__(
        self,
        domain: Domain,
        rate: Any = None,
        *,
        optimistic: bool = False,
        n_runs: int | None = None,
    ) -> None:
        if not isinstance(domain, Simplex) or domain.total != 1:
            raise InputError(f"Hedge needs the probability simplex, not {domain!r}", "use OGD")
        self.rate = None if rate is None else positive("rate", rate)
        self.optimistic = optimistic
        super().__init__(domain, n_runs)

    def _begin(self) -> None:
        self._loss = self._zero
        self._mix = np.zeros(self.batch)

    def _play(self, hint: np.ndarray) -> np.ndarray:
        score = self._loss + (hint if self.optimistic else 0.0)
        score = score - score.min(axis=-1, keepdims=True)
        rate = self._rate()[..., None]
        # an infinite rate follows the leader; a tie keeps its weight on all leaders
        with np.errstate(invalid="ignore"):
            weight = np.exp(np.where(score > 0, -rate * score, 0.0))
        return weight / weight.sum(axis=-1, keepdims=True) - self.domain.center

    def _rate(self) -> Scalars:
        if self.rate is not None:
            return np.full(self.batch, self.rate)
        with np.errstate(divide="ignore"):
            return math.log(self.domain.dim) / np.asarray(self._mix)

    def _observe(self, grad: np.ndarray) -> None:
        total = self._loss + grad
        if self.rate is None:
            surprise = grad - self._hint if self.optimistic else grad
            x = self._w + self.domain.center
            # at an infinite rate the mixed loss is that of the leader
            behind = np.vecdot(total - total.min(axis=-1, keepdims=True), x)
            sigma = 1 / self._rate()
            self._mix = self._mix + np.where(sigma > 0, mix_gap(surprise, x, sigma), behind)
        self._loss = total


def mix_gap(error: np.ndarray, x: np.ndarray, sigma: Any) -> Any:
    r""":math:`\langle e, x\rangle + \sigma \ln \sum_i x_i e^{-e_i/\sigma}` for :math:`\sigma > 0`.

    Parameters
    ----------
    error, x : (..., d) arrays
    sigma : (...) array

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> float(mix_gap(np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array(1e-9)).round(6))
    0.5
    """
    sigma = np.asarray(sigma)
    played = x > 0
    least = np.where(played, error, np.inf).min(axis=-1)
    over = np.where(played, error - least[..., None], 0.0)
    rate = np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > 0)
    mean = np.log((x * np.exp(-over * rate[..., None])).sum(axis=-1))
    return np.maximum(np.vecdot(over, x) + sigma * mean, 0.0)


class Ader(OnlineLearner):
    r"""Hedge over copies of OGD with a geometric grid of steps (Zhang, Lu & Zhou 2018).

    :math:`N = \lceil \tfrac12 \log_2(1 + T/2) \rceil + 1` copies with steps
    :math:`\eta_i = 2^{i-1} \tfrac{2R}{G} \sqrt{7/(8T)}`, weighted by their linearised losses.
    It must be told the horizon T and the largest gradient G.

    Parameters
    ----------
    domain : Domain
    horizon : int
    grad_bound : float
    n_runs : int, optional

    Raises
    ------
    InputError
        If the horizon or the bound is missing or not positive.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Ball
    >>> len(Ader(Ball(1.0, 2), horizon=1000, grad_bound=1.0).steps)
    6
    """

    def __init__(
        self, domain: Domain, horizon: Any, grad_bound: Any, *, n_runs: int | None = None
    ) -> None:
        T = positive("horizon", horizon, hint="Ader must be told the number of rounds")
        G = positive("grad_bound", grad_bound, hint="Ader must be told the largest gradient norm")
        n_copies = math.ceil(0.5 * math.log2(1 + T / 2)) + 1
        first = 2 * domain.radius / G * math.sqrt(7 / (8 * T))
        self.steps = first * 2.0 ** np.arange(n_copies)
        self.hedge_rate = math.sqrt(2 / (T * (2 * domain.radius * G) ** 2))
        i = np.arange(1, n_copies + 1)
        self._prior = np.log((1 + 1 / n_copies) / (i * (i + 1)))
        super().__init__(domain, n_runs)

    def _begin(self) -> None:
        self._copies = np.zeros((*self.batch, len(self.steps), self.domain.dim))
        self._score = np.broadcast_to(self._prior, (*self.batch, len(self.steps)))

    def _play(self, hint: np.ndarray) -> np.ndarray:
        weight = np.exp(self._score - self._score.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        return (weight[..., None] * self._copies).sum(axis=-2)

    def _observe(self, grad: np.ndarray) -> None:
        away = self._copies - self._w[..., None, :]
        self._score = self._score - self.hedge_rate * np.vecdot(grad[..., None, :], away)
        moved = self._copies - self.steps[:, None] * grad[..., None, :]
        self._copies = self.domain._project(moved)


class Greedy(OnlineLearner):
    r"""Trust the hint: :math:`x_t \in \arg\min_X \langle \tilde g_t, x \rangle`; unhedged.

    Without a hint the last gradient takes its place ("persistence").

    Parameters
    ----------
    domain : Domain
    n_runs : int, optional

    Examples
    --------
    >>> import numpy as np
    >>> from practicum.optimize.optimistic_ftrl import Simplex
    >>> Greedy(Simplex(2)).predict(hint=np.array([1.0, 0.0])).tolist()
    [0.0, 1.0]
    """

    def _begin(self) -> None:
        self._last = self._zero

    def _play(self, hint: np.ndarray) -> np.ndarray:
        told = hint.any(axis=-1, keepdims=True)
        return self.domain._linear_min(np.where(told, hint, self._last))

    def _observe(self, grad: np.ndarray) -> None:
        self._last = grad


class Fixed(OnlineLearner):
    """Always the same action: the set's centre (uniform weights on the simplex), or one given.

    Parameters
    ----------
    domain : Domain
    action : (d,) array, optional
    n_runs : int, optional

    Raises
    ------
    InputError
        If the action is not in the set.

    Examples
    --------
    >>> from practicum.optimize.optimistic_ftrl import Simplex
    >>> Fixed(Simplex(4)).predict().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, domain: Domain, action: Any = None, *, n_runs: int | None = None) -> None:
        self.action = None
        if action is not None:
            self.action = as_rows("action", action, (domain.dim,))
            if not domain.contains(self.action):
                raise InputError(
                    f"action is outside the set, by {float(domain.excess(self.action)):.3g}",
                    "project it first: domain.project(action)",
                )
        super().__init__(domain, n_runs)

    def _play(self, hint: np.ndarray) -> np.ndarray:
        if self.action is None:
            return self._zero
        return np.broadcast_to(self.domain.absorb(self.action), self.shape)

    def _observe(self, grad: np.ndarray) -> None:
        pass
