r"""Global optimum with a certificate, in the plane and in space, by branch and bound.

Write ``h(P) = max_G <P, M_G>`` with ``M_G = Y^T G^T X`` over all plans G, so that
``PW^2 = sum p|x|^2 + sum q|y|^2 - 2 h*`` with ``h* = max_P h(P)``. As a maximum of linear
functions, h is convex and positively homogeneous: it is the support function of the convex hull
of the matrices M_G. Evaluating it costs one exact transport.

**Plane** (:func:`planar_optimum`). The matrices of one determinant are
``P(t) = [[cos t, sin t], [-sin t, cos t]]`` (times a fixed mirror), so that
``<P(t), M> = a cos t + b sin t`` with ``(a, b) = (M00 + M11, M01 - M10)``. Restricted to them,
h is the support function of a convex polygon K of points (a, b), and h* is the largest norm of
a point of K (or of the other determinant's polygon). Every evaluation yields a vertex of K (a
lower bound on h*) and a line that K does not cross. For neighbouring angles ``s < t < s + pi``,
every direction between them is a non-negative combination of the two, so sublinearity gives
``h(u) <= <v, u>`` there, with v the point where the two lines cross. Hence h is at most ``|v|``
on the arc if v points into it, and at most ``max(h(s), h(t))`` otherwise. The arc with the largest
bound is cut at the direction of v, until no bound exceeds the best vertex by more than asked. K
has finitely many vertices, so the search ends even when a gap of zero is asked for. Equal
values at both ends give ``|v| = h / cos((t - s) / 2)``, the bound of an evenly spaced cover: such
a cover is the first step of this search, refined only where it matters.

**Space** (:func:`spatial_optimum`). Let ``P = P* R`` with P* optimal and R a rotation by
``delta <= pi/2`` about an axis a, and let M* come from an optimal plan at P*. By the Procrustes
condition ``S = P*^T M*`` is symmetric with eigenvalues ``s1 >= s2 >= |s3|``, and
``h(P) >= <P* R, M*> = <R, S> = cos(delta) tr S + (1 - cos(delta)) a^T S a`` with ``tr S = h*``.
If P* is the best of O(3), s3 >= 0, hence ``h(P) >= cos(delta) h*``. If it is the best of SO(3)
only, ``a^T S a >= s3 >= -s2 >= -h*`` (as ``h* = s1 + s2 + s3 >= s1 >= s2``), hence
``h(P) >= (2 cos(delta) - 1) h*``. So a cell of matrices within delta of its centre can hold the
optimum only if ``h(centre) / factor(delta)`` reaches the best value found. Cells are cubes of
rotation vectors; ``angle(exp(u), exp(v)) <= |u - v|`` (Hartley and Kahl, IJCV 2009), so a cube of
half-width w has radius ``sqrt(3) w``.

In both, the certified gap is ``2 (upper bound on h* - h found)``, in squared coordinate units.
"""

from __future__ import annotations

import heapq
import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from practicum.errors import InputError
from practicum.stats.procrustes_wasserstein.initialisations import distinct, planar_rotation
from practicum.stats.procrustes_wasserstein.transport import Transport, procrustes

ROUNDING = 1e-13  # relative error granted to an evaluation of h
CLOSE = 0.005  # squared distances within 0.5 % may still change places when alternated to the end
CANDIDATES = 8


class Optimum(NamedTuple):
    """Best matrices found, best first, and an upper bound on the correlation h*."""

    candidates: Float[np.ndarray, "c d d"]
    upper: float  # squared coordinate units
    evaluations: int


def global_optimum(
    transport: Transport,
    group: str,
    *,
    relative_gap: float,
    max_evaluations: int,
    start: Float[np.ndarray, "c d d"],
) -> Optimum:
    """Dispatch on the dimension; d = 1 has two matrices and needs no search.

    Parameters
    ----------
    transport : Transport
    group : "O" or "SO"
    relative_gap : float
        Stop when the certified gap is below this share of the squared distance.
    max_evaluations : int
        Exact transports to spend at most; the gap reached by then is reported.
    start : (c, d, d) array
        Matrices evaluated first: a good one makes the search short.

    Raises
    ------
    InputError
        If d > 3.
    """
    d = transport.x.dimension
    if d == 1:
        both = np.array([[[1.0]], [[-1.0]]])[: 1 if group == "SO" else 2]
        values = [float(transport.cross(transport.plan(P))[0, 0] * P[0, 0]) for P in both]
        return Optimum(both[np.argsort(values)[::-1]], max(values), len(values))
    search = {2: planar_optimum, 3: spatial_optimum}.get(d)
    if search is None:
        raise InputError(
            f"init='global' certifies clouds of dimension 1 to 3, these have {d}",
            "use init='auto' with effort=2",
        )
    return search(
        transport,
        group,
        relative_gap=relative_gap,
        max_evaluations=max_evaluations,
        start=start,
    )


class _Search:
    """What both searches share: evaluations of h, the best vertices, and the stopping rule."""

    def __init__(self, transport: Transport, group: str, relative_gap: float) -> None:
        self.transport, self.group, self.relative_gap = transport, group, relative_gap
        self.total = transport.x.moment + transport.y.moment
        self.evaluations = 0
        self.best = 0.0  # h* >= 0: the product plan has correlation zero
        self._values: list[float] = []
        self._improved: list[np.ndarray] = []

    def evaluate(self, P: Float[np.ndarray, "d d"]) -> float:
        """``h(P)``; the Procrustes step of its matrix M is kept as a candidate."""
        cross = self.transport.cross(self.transport.plan(P))
        improved, signed = procrustes(cross, self.group)
        value = float(signed.sum())
        self.evaluations += 1
        self.best = max(self.best, value)
        self._values.append(value)
        self._improved.append(improved)
        return float(np.sum(P * cross))

    def target(self) -> float:
        """Upper bounds on h at or below this need no further search."""
        squared = max(self.total - 2.0 * self.best, 0.0)
        return self.best + 0.5 * self.relative_gap * squared + ROUNDING * self.total

    def optimum(self, upper: float) -> Optimum:
        """Distinct candidates that may still win, best first, and the bound widened by rounding."""
        values = np.array(self._values)
        squared = self.total - 2.0 * values
        close = squared <= (1.0 + CLOSE) * squared.min() + 1e-9 * self.total
        candidates, _ = distinct(np.array(self._improved)[close], values[close], CANDIDATES)
        upper = max(upper, self.best) + ROUNDING * self.total
        return Optimum(candidates, upper, self.evaluations)


class _Ray(NamedTuple):
    """One evaluated direction: its angle and the value of the support function there."""

    angle: float
    value: float


def planar_optimum(
    transport: Transport,
    group: str,
    *,
    relative_gap: float,
    max_evaluations: int,
    start: Float[np.ndarray, "c 2 2"],
) -> Optimum:
    """Exact or near-exact planar optimum; see the module docstring for the bound."""
    search = _Search(transport, group, relative_gap)
    for P in start:
        search.evaluate(P)
    mirrors = [np.eye(2)] if group == "SO" else [np.eye(2), np.diag([1.0, -1.0])]
    arcs = _Arcs(search)
    for mirror in mirrors:
        arcs.add(mirror, np.arange(9) * np.pi / 4)
    arcs.refine(max_evaluations)
    return search.optimum(arcs.bound)


def planar_neighbourhood(
    transport: Transport, P: Float[np.ndarray, "2 2"], *, half_width: float, max_evaluations: int
) -> Optimum:
    """The same search within ``half_width`` radians of P.

    Outlines have a local optimum for every shift by one point: alternation cannot leave it, a
    search over a few degrees can.
    """
    search = _Search(transport, "O", relative_gap=1e-3)
    arcs = _Arcs(search)
    arcs.add(P, np.array([-half_width, 0.0, half_width]))
    arcs.refine(max_evaluations)
    return search.optimum(arcs.bound)


class _Arcs:
    """Arcs of directions that may still hold the optimum, the one with the largest bound first."""

    def __init__(self, search: _Search) -> None:
        self.search = search
        self._heap: list[tuple[float, int, _Ray, _Ray, np.ndarray]] = []
        self._ticket = itertools.count()  # equal bounds leave the heap in the order they came

    @property
    def bound(self) -> float:
        """No direction of any arc has a larger correlation."""
        return -self._heap[0][0]

    def add(self, origin: Float[np.ndarray, "2 2"], angles: Float[np.ndarray, " k"]) -> None:
        """Evaluate ``origin @ P(angle)`` at every angle, and keep the arcs in between."""
        rays = [self._ray(origin, float(angle)) for angle in angles]
        for left, right in itertools.pairwise(rays):
            self._push(origin, left, right)

    def refine(self, max_evaluations: int) -> None:
        """Cut the most promising arc until none can win, or the evaluations are spent."""
        search = self.search
        while self.bound > search.target() and search.evaluations < max_evaluations:
            _, _, left, right, origin = heapq.heappop(self._heap)
            middle = self._ray(origin, _arc_bound(left, right)[1])
            self._push(origin, left, middle)
            self._push(origin, middle, right)

    def _ray(self, origin: np.ndarray, angle: float) -> _Ray:
        return _Ray(angle, self.search.evaluate(origin @ planar_rotation(angle)))

    def _push(self, origin: np.ndarray, left: _Ray, right: _Ray) -> None:
        bound, _ = _arc_bound(left, right)
        heapq.heappush(self._heap, (-bound, next(self._ticket), left, right, origin))


def _arc_bound(left: _Ray, right: _Ray) -> tuple[float, float]:
    """Upper bound of the support function between two rays, and the angle where it is attained."""
    width = right.angle - left.angle
    # In the frame of the left ray the crossing point is (h_left, tangent).
    tangent = (right.value - left.value * np.cos(width)) / np.sin(width)
    offset = float(np.arctan2(tangent, left.value))
    if 0.0 < offset < width:
        return float(np.hypot(left.value, tangent)), left.angle + offset
    return max(left.value, right.value), left.angle + 0.5 * width


def spatial_optimum(
    transport: Transport,
    group: str,
    *,
    relative_gap: float,
    max_evaluations: int,
    start: Float[np.ndarray, "c 3 3"],
) -> Optimum:
    """Branch and bound over cubes of rotation vectors; see the module docstring for the bound."""
    search = _Search(transport, group, relative_gap)
    for P in start:
        search.evaluate(P)
    mirrors = [np.eye(3)] if group == "SO" else [np.eye(3), np.diag([1.0, 1.0, -1.0])]
    cells: list[tuple[float, int, np.ndarray, float, int]] = []
    ticket = itertools.count()

    def add(centre: np.ndarray, half_width: float, component: int, parent: float) -> None:
        turn = Rotation.from_rotvec(centre).as_matrix()
        value = search.evaluate(mirrors[component] @ turn)
        factor = _cell_factor(np.sqrt(3.0) * half_width, group)
        bound = min(parent, max(value, 0.0) / factor if factor > 0 else np.inf)
        heapq.heappush(cells, (-bound, next(ticket), centre, half_width, component))

    half_width = np.pi / 8
    for centre in _cube_centres(8, half_width):
        for component in range(len(mirrors)):
            add(centre, half_width, component, parent=np.inf)
    while -cells[0][0] > search.target() and search.evaluations + 8 <= max_evaluations:
        negative_bound, _, centre, half_width, component = heapq.heappop(cells)
        for corner in _cube_centres(2, half_width / 2):
            if np.linalg.norm(centre + corner) - np.sqrt(3.0) * half_width / 2 <= np.pi:
                add(centre + corner, half_width / 2, component, parent=-negative_bound)
    return search.optimum(upper=-cells[0][0])


def _cell_factor(delta: float, group: str) -> float:
    """Share of h* that is guaranteed within ``delta`` of the optimum."""
    cosine = float(np.cos(min(delta, np.pi / 2)))
    return cosine if group == "O" else 2.0 * cosine - 1.0


def _cube_centres(per_side: int, half_width: float) -> Float[np.ndarray, "c 3"]:
    """Centres of a grid of cubes around the origin, those that meet the ball of radius pi."""
    ticks = (2 * np.arange(per_side) - per_side + 1) * half_width
    centres = np.stack(np.meshgrid(ticks, ticks, ticks, indexing="ij"), -1).reshape(-1, 3)
    nearest = np.linalg.norm((np.abs(centres) - half_width).clip(min=0.0), axis=1)
    return centres[nearest <= np.pi]
