"""Procrustes-Wasserstein: compare and average point clouds up to rotation and reflection.

**What.** The Procrustes-Wasserstein distance (Adamo, Corneli, Vuillien and Vila, "An in depth look
at the Procrustes-Wasserstein distance: properties and barycenters", ICML 2025, arXiv
2507.00894) is the Wasserstein-2 distance minimised over the orthogonal group,

    PW(X, Y)^2 = min over P in O(d), plans G of  sum_ij G_ij |x_i - y_j P|^2,

for weighted point clouds that have been centred. One call returns the distance, the rotation
that lays Y over X, and a point-to-point plan; no correspondence is needed and sizes may differ.
It is a metric on shapes: zero exactly for rotated, reflected, shuffled copies.

**When.** Bones, cell outlines, hand poses, molecules, tissue slices, digits: anything given as
coordinates whose pose carries no meaning. Two things people do today are to align by hand and
compare (wrong whenever the pose is wrong), or to use Gromov-Wasserstein (pose-free, slower, and
its average is a distance matrix instead of a shape). If left and right differ, pass
``group="SO"``: the default allows mirror images.

**How well.** The problem is not convex and Algorithm 1 of the paper is a local search: where it
starts decides what it returns. ``init="auto"`` screens a cover of rotations on small equal-mass
copies of both clouds and finishes the best few exactly; ``effort=1`` looks harder;
``init="global"`` returns a certified gap to the true minimum (as small as asked for in the plane,
a rough bound in space).

**Names.**

=============================  ====================================================================
``procrustes_wasserstein``     distance, rotation and plan of two clouds, as a ``PWResult``
``pw_pairwise``                all distances of a collection, or from one to another, in parallel
``PWBarycenter``               the mean shape of a collection, a scikit-learn estimator
=============================  ====================================================================

**Example.** A scalene triangle, and the same triangle turned, shuffled and shifted:

>>> import numpy as np
>>> from practicum.stats.procrustes_wasserstein import procrustes_wasserstein
>>> triangle = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
>>> angle = 0.7
>>> turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
>>> other = (triangle @ turn)[[2, 0, 1]] + [10.0, -3.0]
>>> result = procrustes_wasserstein(triangle, other)
>>> bool(result.distance < 1e-6), np.allclose(result.P, turn.T)
(True, True)

Its mirror image is the same shape with reflections, and another one without:

>>> mirrored = triangle * [1.0, -1.0]
>>> with_mirror = procrustes_wasserstein(triangle, mirrored)
>>> without = procrustes_wasserstein(triangle, mirrored, group="SO")
>>> bool(with_mirror.distance < 1e-6), round(without.distance, 3)
(True, 0.099)

**Cost.** One exact transport per iteration: about 1 ms at n = 200 and growing like n^2.5; a
distance takes five to fifteen of them. Clouds of equal size and weights use SciPy's assignment
solver; others need POT (``pip install 'practicum[transport]'``). Costs above 200 MB are refused:
subsample first. Set ``OMP_NUM_THREADS=1``: the matrices are too small for BLAS threads.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "barycenter": ["PWBarycenter"],
        "distance": ["PWResult", "Start", "procrustes_wasserstein"],
        "pairwise": ["pw_pairwise"],
    },
)
