"""Compact convex sets: Euclidean projection and linear minimisation, for many rows at once.

Every set knows a ``center`` and the ``radius`` of a ball around it that holds the set.  The
learners work in coordinates relative to the centre, which is what the theory's ``||x|| <= R`` asks
for; the methods that begin with an underscore use these coordinates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import Scalars, as_float, finite, positive, whole

UNBOUNDED = "the method needs a bounded set; give a radius, or finite lower and upper limits"
FAR = 1e5  # radii: how far down a gradient a point is moved to find the set's extreme point
SMALLEST, LARGEST = 1e-100, 1e100  # radii outside overflow or vanish when squared
TOLERANCE = 1e-9  # of the radius: what still counts as a point of the set


class Domain(ABC):
    r"""A compact convex set :math:`X \subset \mathbb{R}^d`.

    Parameters
    ----------
    center : (d,) array
        A point inside (or in the relative interior of) X.
    radius : float
        :math:`R \ge \max_{x \in X} \|x - \mathrm{center}\|`, in the unit of x.

    Raises
    ------
    InputError
        If the centre or the radius is not finite, or the radius is not positive, or so large or
        small that its square is not a number to work with.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(3).project(np.array([0.9, 0.4, 0.0])).round(12).tolist()
    [0.75, 0.25, 0.0]
    """

    def __init__(self, center: Any, radius: Any) -> None:
        self.center = np.atleast_1d(finite("center", center)).astype(np.float64)
        self.radius = positive("radius", radius, hint=UNBOUNDED)
        if not SMALLEST <= self.radius <= LARGEST:
            size = "large" if self.radius > 1 else "small"
            raise InputError(
                f"the set's radius is {self.radius:g}, too {size} to be squared",
                f"use units in which it lies between {SMALLEST:g} and {LARGEST:g}",
            )
        self.dim = len(self.center)
        self._at_origin = not self.center.any()

    @abstractmethod
    def _project(self, w: np.ndarray) -> np.ndarray:
        """Euclidean projection, relative to the centre; shape (..., d)."""

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        """``argmin <g, w>``, relative to the centre; the centre itself where g is zero.

        The projection of a far point: within ``R ||g|| / (2 FAR)`` of the minimum.
        """
        norm = np.sqrt(np.vecdot(g, g))[..., None]
        far = np.divide(g, norm, out=np.zeros_like(g), where=norm > 0) * (-FAR * self.radius)
        return np.where(norm > 0, self._project(far), 0.0)

    def _limits(self) -> tuple[np.ndarray, np.ndarray, float | None] | None:
        """Lower and upper limits and the fixed sum, for sets that these describe."""
        return None

    def project(self, z: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows d"]:
        """The closest point of the set, for every row."""
        return self._project(z - self.center) + self.center

    def linear_min(self, g: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows d"]:
        r"""A point of :math:`\arg\min_{x \in X} \langle g, x \rangle` for every row."""
        return self._linear_min(g) + self.center

    def excess(self, x: Float[np.ndarray, "*rows d"]) -> Scalars:
        """Distance of every row from the set."""
        return np.linalg.norm(x - self.project(x), axis=-1)

    def contains(self, x: Float[np.ndarray, "*rows d"]) -> np.ndarray | np.bool_:
        """Whether every row lies in the set, up to ``1e-9`` radii."""
        return self.excess(x) <= TOLERANCE * self.radius

    def absorb(self, x: np.ndarray) -> np.ndarray:
        """Relative to the centre."""
        return x if self._at_origin else x - self.center

    def release(self, w: np.ndarray) -> np.ndarray:
        """Back from coordinates relative to the centre."""
        return w + self.center

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim}, radius={self.radius:.6g})"


class Ball(Domain):
    r"""The Euclidean ball :math:`\|x - \mathrm{center}\| \le R`.

    Parameters
    ----------
    radius : float
    dim : int
    center : (d,) array or number

    Raises
    ------
    InputError
        If the radius is missing, zero, negative or infinite, or ``dim`` is not a whole number.

    Examples
    --------
    >>> import numpy as np
    >>> Ball(2.0, 2).project(np.array([3.0, 4.0])).round(12).tolist()
    [1.2, 1.6]
    """

    def __init__(self, radius: Any, dim: Any, center: Any = 0.0) -> None:
        super().__init__(_spread("center", finite("center", center), whole("dim", dim, 1)), radius)

    def _project(self, w: np.ndarray) -> np.ndarray:
        norm = np.sqrt(np.vecdot(w, w))
        return w * (self.radius / np.maximum(norm, self.radius))[..., None]

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        norm = np.sqrt(np.vecdot(g, g))[..., None]
        return np.divide(g, norm, out=np.zeros_like(g), where=norm > 0) * -self.radius


class Box(Domain):
    """The box ``lo <= x <= hi``, coordinate by coordinate; centre in the middle.

    Parameters
    ----------
    lo, hi : (d,) array or number
        Finite limits.
    dim : int, optional
        Needed when both limits are numbers.

    Raises
    ------
    InputError
        If a limit is infinite (the set must be bounded), ``lo > hi``, or the lengths disagree.

    Examples
    --------
    >>> import numpy as np
    >>> Box(0, 1, dim=2).project(np.array([-3.0, 0.5])).tolist()
    [0.0, 0.5]
    """

    def __init__(self, lo: Any, hi: Any, dim: Any = None) -> None:
        lo, hi = as_float("lo", lo), as_float("hi", hi)
        if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
            raise InputError("the box is not bounded", UNBOUNDED)
        length = max(lo.size, hi.size) if dim is None else whole("dim", dim, 1)
        lo, hi = _spread("lo", lo, length), _spread("hi", hi, length)
        if (lo > hi).any():
            j = int(np.argmax(lo > hi))
            raise InputError(f"box: lo is {lo[j]} and hi is {hi[j]} in coordinate {j}", "swap them")
        self.lo, self.hi = lo.astype(float), hi.astype(float)
        self._half = (self.hi - self.lo) / 2
        super().__init__((self.lo + self.hi) / 2, float(np.linalg.norm(self._half)))

    def _project(self, w: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(w, -self._half), self._half)

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        return -np.sign(g) * self._half

    def _limits(self) -> tuple[np.ndarray, np.ndarray, float | None]:
        return self.lo, self.hi, None


def _spread(name: str, value: np.ndarray, dim: int) -> np.ndarray:
    """One number, or one per coordinate, as (dim,)."""
    if value.shape not in ((), (1,), (dim,)):
        raise InputError(
            f"{name} has shape {value.shape}, expected ({dim},)",
            "give one number for all coordinates, or one for each",
        )
    return np.broadcast_to(value, (dim,))


def _simplex(z: np.ndarray, total: float) -> np.ndarray:
    """Rows of z onto ``{x >= 0, sum x = total}`` by sorting (Held, Wolfe & Crowder 1974)."""
    z = z - z.max(axis=-1, keepdims=True)  # far points would swamp the total
    u = np.sort(z, axis=-1)[..., ::-1]
    excess = np.cumsum(u, axis=-1) - total
    count = np.arange(1, z.shape[-1] + 1)
    k = (u * count > excess).sum(axis=-1, keepdims=True)
    k = np.maximum(k, 1)  # ties of the largest entry may lose the first comparison to rounding
    threshold = np.take_along_axis(excess, k - 1, axis=-1) / k
    return np.maximum(z - threshold, 0.0)


class Simplex(Domain):
    r"""The probability simplex :math:`\{x \ge 0, \sum_i x_i = \mathrm{total}\}`.

    The centre is uniform, :math:`R = \mathrm{total}\sqrt{1 - 1/d}`.

    Parameters
    ----------
    dim : int
        At least 2.
    total : float

    Raises
    ------
    InputError
        If ``dim < 2`` (a single point) or ``total <= 0``.

    Examples
    --------
    >>> import numpy as np
    >>> Simplex(2).project(np.array([5.0, 5.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: Any, total: Any = 1.0) -> None:
        if whole("dim", dim, 1) < 2:
            raise InputError(
                "a simplex of one coordinate is a single point: there is nothing to decide",
                "for one coordinate use ball:R (Ball) or box:LOW:HIGH (Box)",
            )
        self.total = positive("total", total)
        super().__init__(np.full(dim, total / dim), total * math.sqrt(1 - 1 / dim))

    def _project(self, w: np.ndarray) -> np.ndarray:
        # a constant added to every coordinate does not change the projection
        return _simplex(w, self.total) - self.center[0]

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        x = np.full(g.shape, -self.center[0])
        np.put_along_axis(x, g.argmin(axis=-1, keepdims=True), self.total - self.center[0], axis=-1)
        return np.where(g.any(axis=-1, keepdims=True), x, 0.0)

    def _limits(self) -> tuple[np.ndarray, np.ndarray, float | None]:
        return np.zeros(self.dim), np.full(self.dim, self.total), self.total


class CappedSimplex(Domain):
    r"""The capped simplex :math:`\{0 \le x \le \mathrm{cap}, \sum_i x_i = \mathrm{total}\}`.

    Caching k of d objects is ``CappedSimplex(d, cap=1, total=k)``.

    Parameters
    ----------
    dim : int
    cap : float
        Upper limit of every coordinate; ``cap * dim > total``.
    total : float

    Raises
    ------
    InputError
        If the set is empty or a single point.

    Examples
    --------
    >>> import numpy as np
    >>> CappedSimplex(3, cap=0.5).project(np.array([1.0, 0.2, 0.0])).round(12).tolist()
    [0.5, 0.35, 0.15]
    """

    def __init__(self, dim: Any, cap: Any, total: Any = 1.0) -> None:
        dim = whole("dim", dim, 1)
        self.cap, self.total = positive("cap", cap), positive("total", total)
        if self.cap * dim <= self.total:
            raise InputError(
                f"capped simplex: {dim} x {cap} does not exceed the total {total}",
                "raise the cap: the set is empty or a single point",
            )
        full = min(math.floor(self.total / self.cap), dim)
        rest = self.total - full * self.cap
        farthest = full * self.cap**2 + rest**2 - self.total**2 / dim
        super().__init__(np.full(dim, self.total / dim), math.sqrt(farthest))

    def _project(self, w: np.ndarray) -> np.ndarray:
        # the threshold lies within a cap below the first value that may be below the cap;
        # values farther away than that are 0 or the cap, whatever they are
        pivot = self.dim - 1 - math.floor(self.total / self.cap)
        w = w - np.sort(w, axis=-1)[..., pivot, None]
        w = np.clip(w, -2 * self.cap, 2 * self.cap)
        return np.clip(w - self._threshold(w), 0.0, self.cap) - self.center[0]

    def _threshold(self, w: np.ndarray) -> np.ndarray:
        """Where ``sum clip(w - t, 0, cap)``, piecewise linear in t, meets the total."""
        kinks = np.concatenate([w - self.cap, w], axis=-1)
        order = np.argsort(kinks, axis=-1, kind="stable")
        kinks = np.take_along_axis(kinks, order, axis=-1)
        active = np.cumsum(np.where(order < self.dim, 1.0, -1.0), axis=-1)
        drop = np.cumsum(active[..., :-1] * np.diff(kinks, axis=-1), axis=-1)
        mass = self.dim * self.cap - np.concatenate([np.zeros_like(drop[..., :1]), drop], axis=-1)
        k = (mass >= self.total).sum(axis=-1, keepdims=True) - 1
        slope = np.maximum(np.take_along_axis(active, k, axis=-1), 1.0)
        over = np.take_along_axis(mass, k, axis=-1) - self.total
        return np.take_along_axis(kinks, k, axis=-1) + over / slope

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        rank = g.argsort(axis=-1, kind="stable").argsort(axis=-1)
        x = np.clip(self.total - rank * self.cap, 0.0, self.cap) - self.center[0]
        return np.where(g.any(axis=-1, keepdims=True), x, 0.0)

    def _limits(self) -> tuple[np.ndarray, np.ndarray, float | None]:
        return np.zeros(self.dim), np.full(self.dim, self.cap), self.total


class L1Ball(Domain):
    r"""The cross-polytope :math:`\|x\|_1 \le R`: sparse decisions.

    Parameters
    ----------
    radius : float
    dim : int

    Raises
    ------
    InputError
        If the radius is missing, zero, negative or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> L1Ball(1.0, 3).project(np.array([2.0, -0.5, 0.0])).tolist()
    [1.0, 0.0, 0.0]
    """

    def __init__(self, radius: Any, dim: Any) -> None:
        super().__init__(np.zeros(whole("dim", dim, 1)), radius)

    def _project(self, w: np.ndarray) -> np.ndarray:
        size = np.abs(w)
        inside = size.sum(axis=-1, keepdims=True) <= self.radius
        return np.where(inside, w, np.sign(w) * _simplex(size, self.radius))

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        j = np.abs(g).argmax(axis=-1, keepdims=True)
        x = np.zeros(g.shape)
        steepest = np.take_along_axis(g, j, axis=-1)
        np.put_along_axis(x, j, -np.sign(steepest) * self.radius, axis=-1)
        return x


class Product(Domain):
    """A product of sets: the coordinates are shared out in the order given.

    Parameters
    ----------
    parts : sequence of Domain

    Raises
    ------
    InputError
        If there is no part.

    Examples
    --------
    >>> import numpy as np
    >>> X = Product([Box(0, 1, dim=1), Simplex(2)])
    >>> X.project(np.array([7.0, 2.0, 0.0])).tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(self, parts: Sequence[Domain]) -> None:
        if not parts:
            raise InputError("a product of no sets", "give at least one")
        self.parts = tuple(parts)
        self._cuts = np.cumsum([part.dim for part in self.parts])[:-1]
        radius = math.sqrt(sum(part.radius**2 for part in self.parts))
        super().__init__(np.concatenate([part.center for part in self.parts]), radius)

    def _each(self, name: str, w: np.ndarray) -> np.ndarray:
        pieces = np.split(w, self._cuts, axis=-1)
        return np.concatenate(
            [getattr(part, name)(piece) for part, piece in zip(self.parts, pieces)], axis=-1
        )

    def _project(self, w: np.ndarray) -> np.ndarray:
        return self._each("_project", w)

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        return self._each("_linear_min", g)


class Halfspaces(Domain):
    r"""A set cut by halfspaces or hyperplanes: :math:`\{x \in X : A x \le b, A_{eq} x = b_{eq}\}`.

    The projection maximises the dual one multiplier at a time, each by a bracketed root of
    :math:`\langle a, \mathrm{Proj}_X(z - \lambda a) \rangle = b` (one constraint: exact in a single
    pass), with Newton steps on all of them where several bind. The radius is an upper bound, that
    of the base set around the new centre. Linear minimisation is a linear program over boxes and
    simplices, else the projection of a far point.

    Parameters
    ----------
    base : Domain
    A : (m, d) array, optional
    b : (m,) array, optional
    A_eq, b_eq : arrays, optional
        Equalities, which make an affine slice of the base set.

    Raises
    ------
    InputError
        If the shapes disagree, a row of A is zero, or no point of the base set satisfies them.

    Examples
    --------
    >>> import numpy as np
    >>> X = Halfspaces(Box(0, 1, dim=2), A=[[1, 1]], b=[1])
    >>> X.project(np.array([1.0, 1.0])).round(9).tolist()
    [0.5, 0.5]
    """

    def __init__(
        self, base: Domain, A: Any = None, b: Any = None, *, A_eq: Any = None, b_eq: Any = None
    ) -> None:
        self.base = base
        rows = [_rows_of(base.dim, A, b, ""), _rows_of(base.dim, A_eq, b_eq, "_eq")]
        self.A = np.concatenate([r[0] for r in rows])
        self.b = np.concatenate([r[1] for r in rows])
        if not len(self.A):
            raise InputError("no halfspace given", "give A and b, or A_eq and b_eq")
        self._equality = np.arange(len(self.A)) >= len(rows[0][0])
        self._shift = np.zeros(base.dim)
        self._offset = self.b - self.A @ base.center
        center = self._project(np.zeros(base.dim))
        over = self.A @ center - self._offset
        excess = float(np.where(self._equality, np.abs(over), over).max())
        if excess > 1e-6 * base.radius:
            raise InputError(
                f"the halfspaces leave no point of {base!r} (closest: off by {excess:.3g})",
                "loosen b",
            )
        self._shift = center
        super().__init__(base.center + center, base.radius + float(np.linalg.norm(center)))

    def _project(self, w: np.ndarray) -> np.ndarray:
        z = w + self._shift  # relative to the base set's centre
        size = np.linalg.norm(z, axis=-1, keepdims=True)
        z = z * np.minimum(1.0, FAR * self.base.radius / np.maximum(size, 1e-300))
        if len(self.A) == 1:
            multiplier = self._root(z, self.A[0], self._offset[0], bool(self._equality[0]))
            return self.base._project(z - multiplier[..., None] * self.A[0]) - self._shift
        rows = [self._project_row(row) for row in z.reshape(-1, self.base.dim)]
        return np.reshape(rows, z.shape) - self._shift

    def _project_row(self, z: np.ndarray) -> np.ndarray:
        """Maximise the dual: Newton steps on all multipliers, and sweeps over single ones."""
        multipliers = np.zeros(len(self.A))
        limit = 1e-13 * (self.base.radius + np.abs(z).max())
        for step in range(200):
            x, over = self._primal(z, multipliers)
            if self._residual(over, multipliers) <= limit:
                break
            if step % 2 == 0:
                multipliers = self._newton(z, multipliers, over)
            else:
                multipliers = self._sweep(z, multipliers)
        return x

    def _sweep(self, z: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """Each multiplier at its best, one after the other."""
        for j, a in enumerate(self.A):
            rest = z - (multipliers @ self.A - multipliers[j] * a)
            multipliers[j] = self._root(rest, a, self._offset[j], bool(self._equality[j]))
        return multipliers

    def _primal(self, z: np.ndarray, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = self.base._project(z - multipliers @ self.A)
        return x, self.A @ x - self._offset

    def _residual(self, over: np.ndarray, multipliers: np.ndarray) -> float:
        """How far from optimal: outside a halfspace, or held back by one that is not touched."""
        tight = self._equality | (multipliers != 0)
        return float(np.where(tight, np.abs(over), np.maximum(over, 0)).max())

    def _newton(self, z: np.ndarray, multipliers: np.ndarray, over: np.ndarray) -> np.ndarray:
        """The best point along the Newton direction of the active cuts.

        Where the cuts contradict each other on the current face the dual is linear; the small
        ridge then makes the direction long, and the search along it finds the next face.
        """
        active = np.flatnonzero(self._equality | (multipliers + over > 0))
        step = 1e-6 * self.base.radius
        slopes = np.empty((len(active), len(active)))
        for i, j in enumerate(active):
            moved = multipliers.copy()
            moved[j] += step
            slopes[:, i] = (over - self._primal(z, moved)[1])[active] / step
        ridge = 1e-6 * np.eye(len(active))
        direction = np.zeros(len(self.A))
        direction[active] = np.linalg.solve((slopes + slopes.T) / 2 + ridge, over[active])
        best, best_value = multipliers, self._dual(z, multipliers)
        for share in 10.0 ** -np.arange(0, 7, 0.5):
            tried = multipliers + share * direction
            tried = np.where(self._equality, tried, np.maximum(tried, 0.0))
            value = self._dual(z, tried)
            if value > best_value:
                best, best_value = tried, value
        return best

    def _dual(self, z: np.ndarray, multipliers: np.ndarray) -> float:
        x, over = self._primal(z, multipliers)
        return float((x - z) @ (x - z) / 2 + multipliers @ over)

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        box = self.base._limits()
        if box is None:  # projected twice: the first time rounding may leave it just outside
            return self._project(super()._linear_min(g))
        rows = [self._program(row, *box) for row in g.reshape(-1, self.base.dim)]
        return np.reshape(rows, g.shape)

    def _program(self, g: np.ndarray, lo: np.ndarray, hi: np.ndarray, total: Any) -> np.ndarray:
        """The linear program over a box (whose coordinates may have a fixed sum) and the cuts."""
        from scipy.optimize import linprog

        if not g.any():
            return np.zeros_like(g)
        cut = ~self._equality
        A_eq, b_eq = self.A[self._equality], self.b[self._equality]
        if total is not None:
            A_eq, b_eq = np.vstack([A_eq, np.ones_like(g)]), np.append(b_eq, total)
        found = linprog(
            g / np.abs(g).max(),
            A_ub=self.A[cut] if cut.any() else None,
            b_ub=self.b[cut] if cut.any() else None,
            A_eq=A_eq if len(A_eq) else None,
            b_eq=b_eq if len(A_eq) else None,
            bounds=np.column_stack([lo, hi]),
        )
        # the solver's point is feasible to 1e-7; projecting it is exact
        return self._project(found.x - self.center)

    def _root(self, z: np.ndarray, a: np.ndarray, b: float, equality: bool) -> Scalars:
        """The multiplier at which the projection of ``z - multiplier * a`` meets the plane."""

        def over(t: Scalars) -> Scalars:
            return self.base._project(z - t[..., None] * a) @ a - b

        start = np.asarray(over(np.zeros(z.shape[:-1])))
        active = (start != 0) if equality else (start > 0)
        if not active.any():
            return np.zeros(z.shape[:-1])
        step = np.where(active, np.sign(start), 0.0) * (
            (np.abs(start) + self.base.radius) / (a @ a)
        )
        for _ in range(60):  # widen until the sign changes; it does unless the set is empty
            if (over(step) * start <= 0).all():
                break
            step = np.where(over(step) * start > 0, 2 * step, step)
        return _bracketed_root(over, np.zeros_like(step), step, start)


def _rows_of(dim: int, A: Any, b: Any, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    if A is None and b is None:
        return np.zeros((0, dim)), np.zeros(0)
    A, b = np.atleast_2d(finite(f"A{suffix}", A)), np.atleast_1d(finite(f"b{suffix}", b))
    if A.shape != (len(b), dim):
        raise InputError(
            f"A{suffix} has shape {A.shape} and b{suffix} {b.shape}, "
            f"expected ({len(b)}, {dim}) and ({len(b)},)"
        )
    size = np.linalg.norm(A, axis=1)
    if not size.all():
        raise InputError(f"row {int(np.argmin(size))} of A{suffix} is zero", "leave it out")
    return A / size[:, None], b / size


def _bracketed_root(
    f: Callable[[Scalars], Scalars], low: Scalars, high: Scalars, f_low: Scalars
) -> Scalars:
    """Rows of roots in [low, high] by the Illinois rule, with every third step a bisection."""
    f_high = np.asarray(f(high))
    for i in range(150):
        gap = f_low - f_high
        secant = low + (high - low) * np.divide(
            f_low, gap, out=np.full_like(gap, 0.5), where=gap != 0
        )
        middle = secant if i % 3 < 2 else (low + high) / 2
        value = np.asarray(f(middle))
        same = value * f_low > 0
        f_high = np.where(same, f_high / (2 if i % 3 < 2 else 1), value)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        f_low = np.where(same, value, f_low)
        if (np.abs(high - low) <= 1e-15 * (1 + np.abs(high))).all() or not value.any():
            break
    return middle


class Custom(Domain):
    """A set of one's own, given by its Euclidean projection.

    Parameters
    ----------
    project : callable (d,) -> (d,)
        The Euclidean projection of one point. It must be idempotent.
    center : (d,) array
        A point of the set.
    radius : float
        At least the largest distance of a point of the set from the centre.
    linear_min : callable (d,) -> (d,), optional
        A minimiser of ``<g, x>`` over the set; without it, the projection of a far point.

    Raises
    ------
    InputError
        If the radius is missing or infinite (the method needs a bounded set), the centre is not
        in the set, or projecting twice differs from projecting once.

    Examples
    --------
    >>> import numpy as np
    >>> X = Custom(lambda z: np.clip(z, 0, 1), center=[0.5, 0.5], radius=0.7072)
    >>> X.project(np.array([[2.0, 0.3], [-1.0, 0.0]])).tolist()
    [[1.0, 0.3], [0.0, 0.0]]
    """

    def __init__(
        self,
        project: Callable[[np.ndarray], np.ndarray],
        center: Any,
        radius: Any,
        linear_min: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        super().__init__(center, radius)
        self._user_project, self._user_linear_min = project, linear_min
        far = self.center + 3 * self.radius * np.eye(self.dim)[0]
        for name, point in (("center", self.center), ("projection of a projection", far)):
            once = point if name == "center" else self.project(point)
            if not np.allclose(self.project(once), once, rtol=0, atol=1e-6 * self.radius):
                raise InputError(f"project does not leave the {name} where it is", "check project")
        if np.linalg.norm(self.project(far) - self.center) > self.radius * (1 + 1e-9):
            raise InputError(
                f"project returns a point farther than radius={radius} from the centre",
                "give a larger radius, or a bounded set",
            )

    def _rowwise(self, f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        rows = x.reshape(-1, self.dim)
        out = [as_float("what project returns", f(row)) for row in rows]
        return (np.stack(out) if out else rows).reshape(x.shape) - self.center

    def _project(self, w: np.ndarray) -> np.ndarray:
        return self._rowwise(self._user_project, w + self.center)

    def _linear_min(self, g: np.ndarray) -> np.ndarray:
        if self._user_linear_min is None:
            return super()._linear_min(g)
        return self._rowwise(self._user_linear_min, g)


FORMS = "simplex, capped-simplex:CAP, ball:RADIUS, l1:RADIUS, box:LOW:HIGH"


def parse_domain(text: str, dim: int) -> Domain:
    """A set from its short form, as the command line takes it.

    Parameters
    ----------
    text : str
        ``simplex``, ``capped-simplex:CAP``, ``ball:RADIUS``, ``l1:RADIUS`` or ``box:LOW:HIGH``.
    dim : int

    Raises
    ------
    InputError
        If the form is unknown or a number is missing.

    Examples
    --------
    >>> parse_domain("ball:2", 3)
    Ball(dim=3, radius=2)
    """
    kind, *rest = text.strip().lower().split(":")
    try:
        numbers = [float(part) for part in rest]
    except ValueError:
        raise InputError(f"set {text!r}: {rest} are not numbers", f"use {FORMS}") from None
    makers: dict[str, tuple[int, Callable[..., Domain]]] = {
        "simplex": (0, lambda: Simplex(dim)),
        "capped-simplex": (1, lambda cap: CappedSimplex(dim, cap)),
        "ball": (1, lambda radius: Ball(radius, dim)),
        "l1": (1, lambda radius: L1Ball(radius, dim)),
        "box": (2, lambda lo, hi: Box(lo, hi, dim)),
    }
    if kind not in makers:
        raise InputError(f"set {text!r} is not known", f"use {FORMS}")
    wanted, make = makers[kind]
    if len(numbers) != wanted:
        raise InputError(
            f"set {text!r}: {kind} takes {wanted} numbers, {len(numbers)} given",
            f"use {FORMS}; {UNBOUNDED}",
        )
    return make(*numbers)
