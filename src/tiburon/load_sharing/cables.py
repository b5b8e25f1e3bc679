"""Tensions of cable robots: which wrenches they can balance, and a closed form in the middle.

Symbols:
    A       structure matrix: wrench of unit tensions, one column per cable
    t       tensions, between a smallest and a largest one
    w       wrench that the cables give, w = A t
    Z       available wrenches, the image of the box of tensions: a zonotope
    c, d    normal and offset of a facet of Z, c . w <= d

Hyperplane shifting finds Z (Bouchard, Moore and Gosselin 2010, "On the Ability of a Cable-Driven
Robot to Generate a Prescribed Set of Wrenches", J. Mechanisms Robotics 2; Gouttefarde and Krut
2010): d - 1 columns of A span a hyperplane with normal c; shifting it along c until all other
cables pull with their largest tension where that helps, and with their smallest where it does not,
gives the two facets that are parallel to it.

The closed form (Pott, Bruckmann and Mikelsons 2009, "Closed-form force distribution for parallel
wire robots") shifts mean tensions t_m by the least change: t = t_m + A^+ (w - A t_m). It is
continuous and fast; near the border of Z it leaves the limits though there are tensions within.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array

RANK_TOLERANCE = 1e-9
"""Singular value relative to the largest below which columns of A depend on each other."""

SAME_NORMAL = 1e-9
"""Difference of unit normals up to which facets are the same."""


class WrenchPolytope(NamedTuple):
    """Wrenches that cables can give: c . w <= d for all facets."""

    normals: Array
    """c, unit vectors over the weighted components of a wrench, shape (facets, d)."""

    offsets: Array
    """d, shape (facets,)."""

    def margin(self, wrench: Array) -> Array:
        """Return the distance of wrenches from the nearest facet; negative outside.

        Args:
            wrench: Wrenches in the units of A, shape (..., d).
        """
        return np.asarray((self.offsets - np.asarray(wrench) @ self.normals.T).min(axis=-1))


def wrench_polytope(A: Array, low: Array, high: Array) -> WrenchPolytope:
    """Return the available wrenches by hyperplane shifting.

    Args:
        A: Structure matrix, shape (d, cables), of rank d.
        low: Smallest tension of each cable [N].
        high: Largest tension of each cable [N].
    """
    d, count = A.shape
    size = float(np.abs(A).max(initial=0.0)) or 1.0
    faces: list[tuple[Array, float]] = []
    for chosen in combinations(range(count), d - 1):
        U, sizes, _ = np.linalg.svd(A[:, list(chosen)], full_matrices=True)
        if sizes.min(initial=np.inf) <= RANK_TOLERANCE * size:
            # these cables span no hyperplane
            continue
        c = U[:, -1]
        along = c @ A
        along[list(chosen)] = 0.0
        for sign in (1.0, -1.0):
            normal = sign * c
            most = float(np.where(sign * along > 0.0, high, low) @ (sign * along))
            faces.append((normal, most))
    return _distinct(faces, d)


def _distinct(faces: Sequence[tuple[Array, float]], d: int) -> WrenchPolytope:
    """Return each facet once: dependent cables give it several times."""
    kept: dict[tuple[int, ...], tuple[Array, float]] = {}
    for normal, offset in faces:
        kept.setdefault(
            tuple(np.round(normal / SAME_NORMAL / 10.0).astype(int).tolist()), (normal, offset)
        )
    if not kept:
        return WrenchPolytope(np.zeros((0, d)), np.zeros(0))
    normals, offsets = zip(*kept.values(), strict=True)
    return WrenchPolytope(np.array(normals), np.array(offsets))


def closed_form_tensions(A: Array, wrench: Array, low: Array, high: Array) -> Array:
    """Return the tensions nearest to the mean ones that give a wrench; limits are not imposed.

    Args:
        A: Structure matrix, shape (d, cables).
        wrench: Wrench that the cables must give, shape (..., d).
        low: Smallest tension of each cable [N].
        high: Largest tension of each cable [N]; finite.
    """
    mean = 0.5 * (low + high)
    change = (np.asarray(wrench) - A @ mean) @ np.linalg.pinv(A).T
    return np.asarray(mean + change)
