"""A point cloud as a probability measure: validated, centred, and summarised once.

Everything that depends on one cloud alone (its mean, its principal axes, its coarse copies)
is computed here and kept, so that a matrix of distances pays for it once per cloud and not
once per pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from practicum.data.points import check_points, check_weights
from practicum.errors import InputError

LARGEST, SMALLEST = 1e100, 1e-100


@dataclass(frozen=True, eq=False)
class Measure:
    """A centred probability measure ``sum_i p_i delta(x_i)`` (the paper's mu_X).

    Attributes
    ----------
    points : (n, d) float64
        Coordinates minus ``mean``; points of zero weight are not among them.
    weights : (n,) float64
        Positive, summing to one.
    mean : (d,) float64
        What was subtracted: the weighted mean, or zeros when centring was switched off.
    kept : (n,) int
        Row of each point in the array that came in.
    size : int
        Number of rows that came in.
    name : str
        How messages call it.
    """

    points: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " d"]
    kept: Int[np.ndarray, " n"]
    size: int
    name: str = "X"
    _blocks: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        """Number of points that carry weight."""
        return len(self.points)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return self.points.shape[1]

    @cached_property
    def moment(self) -> float:
        """``sum_i p_i |x_i|^2``, in squared coordinate units."""
        return float(self.weights @ np.einsum("nd,nd->n", self.points, self.points))

    @property
    def radius(self) -> float:
        """Root-mean-square radius, in coordinate units."""
        return float(np.sqrt(self.moment))

    @cached_property
    def uniform(self) -> bool:
        """Whether all weights are equal (to rounding)."""
        return bool(np.ptp(self.weights) <= 1e-12 * self.weights.max())

    @cached_property
    def _principal(self) -> tuple[np.ndarray, np.ndarray]:
        covariance = (self.points * self.weights[:, None]).T @ self.points
        values, vectors = np.linalg.eigh(covariance)
        return values[::-1].clip(min=0.0), np.ascontiguousarray(vectors[:, ::-1])

    @property
    def variances(self) -> Float[np.ndarray, " d"]:
        """Variances along the principal axes, largest first."""
        return self._principal[0]

    @property
    def axes(self) -> Float[np.ndarray, "d d"]:
        """Principal axes in the columns, in the order of :attr:`variances`."""
        return self._principal[1]

    def blocks(self, k: int) -> Float[np.ndarray, "k d"]:
        """``k`` atoms of equal mass that summarise the measure (see :func:`equal_mass_blocks`)."""
        if k not in self._blocks:
            for count, atoms in _block_levels(self.points, self.weights, k):
                self._blocks.setdefault(count, atoms)
        return self._blocks[k]

    def divided_by(self, factor: float) -> Measure:
        """The same measure with every coordinate divided by ``factor``."""
        return Measure(
            self.points / factor, self.weights, self.mean, self.kept, self.size, self.name
        )


def as_measure(
    cloud: Any,
    weights: Any = None,
    *,
    center: bool = True,
    name: str = "X",
) -> Measure:
    """Validate a cloud and make a centred :class:`Measure` of it.

    Parameters
    ----------
    cloud : (n, d) array-like, torch tensor, object with ``points`` and ``weights``, or Measure
        Coordinates, one point a row, in any unit. Integers and half precision become float64.
    weights : (n,) array-like, optional
        Non-negative and summing to one; equal weights by default.
    center : bool
        Subtract the weighted mean.
    name : str
        The argument's name, for messages.

    Raises
    ------
    InputError
        For anything but a finite (n, d) array with a probability vector beside it, and for
        coordinates whose squares a float does not hold (beyond 1e100, or all below 1e-100).

    Examples
    --------
    >>> measure = as_measure([[0, 0], [2, 0]])
    >>> measure.points.tolist(), measure.moment
    ([[-1.0, 0.0], [1.0, 0.0]], 1.0)
    """
    if isinstance(cloud, Measure):
        return cloud
    if np.ma.is_masked(cloud):
        raise InputError(
            f"{name} has masked coordinates", "drop those rows: every point needs all coordinates"
        )
    if hasattr(cloud, "points") and hasattr(cloud, "weights"):
        weights = cloud.weights if weights is None else weights
        cloud = cloud.points
    points = check_points(to_host(cloud), name)
    _check_range(points, name)
    size = len(points)
    if weights is None:
        probabilities = np.full(size, 1.0 / size)
    else:
        probabilities = check_weights(to_host(weights), size, name)
    kept = np.flatnonzero(probabilities > 0)
    points, probabilities = points[kept], probabilities[kept]
    mean = np.zeros(points.shape[1])
    for _ in range(2 if center else 0):  # the second time takes the rounding of the first
        offset = probabilities @ points
        points, mean = points - offset, mean + offset
    return Measure(points, probabilities, mean, kept, size, name)


def _check_range(points: Float[np.ndarray, "n d"], name: str) -> None:
    """Squared distances are compared and divided: they must neither overflow nor vanish."""
    size = float(np.abs(points).max())
    if size > LARGEST or 0 < size < SMALLEST:
        found = "reaches" if size > LARGEST else "stays within"
        raise InputError(
            f"{name} {found} {size:.3g}, whose square a float does not hold",
            "measure all clouds in another unit: divide them by one number",
        )


def to_host(values: Any) -> Any:
    """A torch tensor, possibly on a GPU and with a gradient, as an array; others as they are."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def equal_mass_blocks(
    points: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], k: int
) -> Float[np.ndarray, "k d"]:
    """Summarise a measure by ``k`` atoms of mass ``1/k`` each: the centroids of a k-d split.

    Every block is halved across its own longest principal axis until ``k`` blocks of equal
    mass are left; a point on a cut gives part of its mass to either side. The split follows
    the cloud when the cloud is rotated, and equal masses turn any pair of clouds, whatever
    their sizes and weights, into an assignment problem.

    Parameters
    ----------
    points : (n, d) float array, coordinate units
    weights : (n,) float array, a probability vector
    k : int
        Number of atoms, at least one.

    Returns
    -------
    (k, d) float array, coordinate units; its mean is the mean of the measure.

    Examples
    --------
    >>> line = np.arange(4.0)[:, None]
    >>> sorted(equal_mass_blocks(line, np.full(4, 0.25), 2).ravel().tolist())
    [0.5, 2.5]
    """
    return list(_block_levels(points, weights, k))[-1][1]


def _block_levels(
    points: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], k: int
) -> Iterator[tuple[int, Float[np.ndarray, "b d"]]]:
    """The summaries met on the way to ``k`` atoms (16, 32, ... for a power of two), then that."""
    members, mass, atoms = points[None], weights[None], np.array([k])
    while True:
        if atoms.min() == atoms.max():
            centroids = np.einsum("bl,bld->bd", mass, members)
            yield len(atoms), centroids / mass.sum(axis=1, keepdims=True)
        if atoms.max() == 1:
            return
        members, mass, atoms = _halve(members, mass, atoms)


def _halve(
    members: Float[np.ndarray, "b l d"],
    mass: Float[np.ndarray, "b l"],
    atoms: Int[np.ndarray, " b"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split every block that stands for two atoms or more in two (all blocks at once)."""
    total = mass.sum(axis=1, keepdims=True)
    offsets = members - (np.einsum("bl,bld->bd", mass, members) / total)[:, None]
    spread = np.einsum("bl,bld,ble->bde", mass, offsets, offsets)
    axis = np.linalg.eigh(spread)[1][:, :, -1]
    position = np.where(mass > 0, np.einsum("bld,bd->bl", offsets, axis), np.inf)
    order = np.argsort(position, axis=1, kind="stable")
    mass = np.take_along_axis(mass, order, axis=1)
    members = np.take_along_axis(members, order[:, :, None], axis=1)

    left_atoms = np.maximum(atoms // 2, 1)
    quota = total * (left_atoms / atoms)[:, None]
    before = np.cumsum(mass, axis=1) - mass
    left = np.clip(quota - before, 0.0, mass)
    left[left < 1e-12 * total] = 0.0  # no slivers from rounding
    right = mass - left
    right[right < 1e-12 * total] = 0.0

    divided = atoms > 1
    halves = [_packed(members, left), _packed(members[divided], right[divided])]
    width = max(half[1].shape[1] for half in halves)
    padded = [_padded(m, w, width) for m, w in halves]
    return (
        np.concatenate([m for m, _ in padded]),
        np.concatenate([w for _, w in padded]),
        np.concatenate([left_atoms, (atoms - left_atoms)[divided]]),
    )


def _packed(members: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift each row's (contiguous) positive masses to the front and cut the empty tail."""
    start = (mass > 0).argmax(axis=1)
    width = int((mass > 0).sum(axis=1).max())
    index = start[:, None] + np.arange(width)
    inside = index < mass.shape[1]
    index = np.minimum(index, mass.shape[1] - 1)
    packed = np.where(inside, np.take_along_axis(mass, index, axis=1), 0.0)
    return np.take_along_axis(members, index[:, :, None], axis=1), packed


def _padded(members: np.ndarray, mass: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    missing = width - mass.shape[1]
    if missing == 0:
        return members, mass
    return (
        np.pad(members, ((0, 0), (0, missing), (0, 0))),
        np.pad(mass, ((0, 0), (0, missing))),
    )
