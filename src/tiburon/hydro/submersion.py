"""Submerged volume and centroid of solids below a level surface, in closed form.

Symbols:
    u_i     coordinates in the solid divided by its half sizes, between -1 and 1
    w_i     height of its half sizes: a point is at height sum of w_i u_i above the center
    h       depth of the solid's center below the surface
    share   submerged fraction of the volume, where sum w_i u_i <= h
    mean_i  integral of u_i over that part, divided by the volume of the solid

Share and means are the gradient of one function, the mean E of max(h - sum w_i u_i, 0) over the
solid: share = dE/dh and mean_i = -dE/dw_i. Buoyancy computed from them is therefore the exact
gradient of the potential energy. No formula divides by a height that may vanish: level and upright
solids, where textbook formulas are 0/0, are as accurate as any others.

Hemispheres, lengths divided by the radius:
    c, s    cosine and sine of the angle between the upward direction and the axis of the
            hemisphere, which is the half of the ball on the positive side of its axis
    t       depth of the ball's center below the surface
    V       submerged volume
    M_n     moment of that part along the upward direction
    M_e     along the horizontal direction in which the axis rises

Cut into disks parallel to the surface, the hemisphere at height t is the part of a disk of radius
sqrt(1 - t^2) beyond a chord at the distance -t c / s from its center. Area and moment of such a
segment have closed forms, and so have their integrals over t.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiburon.hydro.forces import gauss_points, speed
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Shape,
    SphereShape,
)
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, dot, scale
from tiburon.trace.regions import function

MIN_HEIGHT = 1e-100
"""Heights below this count as zero [m]."""

LEVEL_SLOPE = 0.004
"""Ratio of the rises of axis and rim below which a cylinder is integrated by quadrature in the
angle of the waterline, which is exact to rounding there; the closed form loses digits with the
square of that ratio."""

QUADRATURE_POINTS = 6
"""Number of quadrature points, in pairs, over an angle of at most 0.13 rad."""

ShareAndMeans = tuple[Scalar, list[Scalar]]
"""The submerged fraction, and the means."""


def _ellipsoid(h: Scalar, w: Scalars, halves: Vec3) -> ShareAndMeans:
    """Integrate an ellipsoid: the submerged part is a scaled spherical cap."""
    k = np.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    t = np.minimum(np.maximum(h / k, -1.0), 1.0)
    share = 0.25 * (1.0 + t) * (1.0 + t) * (2.0 - t)
    out = 1.0 - t * t
    mean = -0.1875 * out * out / k
    return share, [mean * x for x in w]


def _box(h: Scalar, w: Scalars, halves: Vec3) -> ShareAndMeans:
    """Integrate a box with a submerged corner, or with four submerged edges.

    The solid is mirrored so that at most half of it is submerged and its lowest corner is at
    (-1, -1, -1), with heights p_0 >= p_1 >= p_2 >= 0. That corner is at the depth d; e_i are the
    depths of its neighbors. Where four parallel edges are cut, the submerged part is a prism with a
    slanted top; otherwise it is a tetrahedron less smaller ones at submerged corners. Quotients by
    p_2 are at most 2.
    """
    turns = [np.where(x < 0.0, -1.0, 1.0) for x in w]
    p, restore = _descending([turn * x for turn, x in zip(turns, w, strict=True)])
    up = np.where(h > 0.0, -1.0, 1.0)
    half = np.minimum(up * h, 0.0)
    total = p[0] + p[1] + p[2]
    d = np.maximum(half + total, 0.0)
    by_0, by_1, by_2 = (1.0 / np.maximum(x, MIN_HEIGHT) for x in p)
    # four submerged edges
    draft = 0.5 * (half + p[0]) * by_0
    side = (p[1] * p[1] + p[2] * p[2]) * by_0 * by_0
    prism = (
        draft,
        [
            draft * draft + side * (1.0 / 12.0) - draft,
            *(p[k] * by_0 * (-1.0 / 6.0) for k in (1, 2)),
        ],
    )
    # a submerged corner, and the depths of its neighbors
    low = np.minimum(d, 2.0 * (p[1] + p[2]))
    e_2 = np.maximum(low - 2.0 * p[2], 0.0)
    e_1 = np.maximum(low - 2.0 * p[1], 0.0)
    e_0 = np.maximum(low - 2.0 * p[0], 0.0)
    flat = p[2] <= MIN_HEIGHT
    m, r_1, r_0 = (
        np.where(flat, limit, np.minimum(x * by_2, 2.0))
        for x, limit in ((low, 2.0), (e_1, 0.0), (e_0, 0.0))
    )
    ll, le, ee = low * low, low * e_2, e_2 * e_2
    e_11, e_00 = e_1 * e_1, e_0 * e_0
    base = by_0 * by_1 * (1.0 / 48.0)
    share = base * (m * (ll + le + ee) - r_1 * e_11 - r_0 * e_00)
    fourth = m * (ll + ee) * (low + e_2) - r_1 * e_11 * e_1 - r_0 * e_00 * e_0
    across = m * m * (ll + 2.0 * le + 3.0 * ee) - r_1 * r_1 * e_11 - r_0 * r_0 * e_00
    beyond = (
        base * (0.25 * by_0 * fourth - 2.0 * r_0 * e_00),
        base * (0.25 * by_1 * fourth - 2.0 * r_1 * e_11),
        base * 0.25 * across,
    )
    corner = share, [x - share for x in beyond]
    edges = d >= 2.0 * (p[1] + p[2])
    part = np.where(edges, prism[0], corner[0])
    means = [np.where(edges, x, y) for x, y in zip(prism[1], corner[1], strict=True)]
    out = np.abs(h) >= total
    part = np.where(out, 0.0, part)
    share = np.where(up < 0.0, 1.0 - part, part)
    return share, [
        np.where(out, 0.0, turn * x) for turn, x in zip(turns, restore(means), strict=True)
    ]


def _descending(values: Scalars) -> tuple[list[Scalar], Callable[[Scalars], list[Scalar]]]:
    """Sort three scalars in descending order; also return the inverse permutation."""
    p, swaps = list(values), []
    for i, j in ((0, 1), (1, 2), (0, 1)):
        swap = p[i] < p[j]
        p[i], p[j] = np.where(swap, p[j], p[i]), np.where(swap, p[i], p[j])
        swaps.append((i, j, swap))

    def restore(others: Scalars) -> list[Scalar]:
        x = list(others)
        for i, j, swap in reversed(swaps):
            x[i], x[j] = np.where(swap, x[j], x[i]), np.where(swap, x[i], x[j])
        return x

    return p, restore


def _cylinder(h: Scalar, w: Scalars, halves: Vec3) -> ShareAndMeans:
    """Integrate disks across the axis, each with its own waterline.

    The axis rises by p over half its length, and a rim by R over its radius; a disk is cut at tau
    of its radius, tau falling from b at the lower end to a at the upper one.
    """
    turn = np.where(w[2] < 0.0, -1.0, 1.0)
    p, R = turn * w[2], speed(w[0], w[1])
    share, along, across = _cut_disks(p, R, h)
    total = p + R
    out = np.abs(h) >= total
    share = np.where(out, np.where(h > 0.0, 1.0, 0.0), share)
    along, across = (np.where(out, 0.0, x) for x in (along, across))
    return share, [across * w[0], across * w[1], turn * along]


@function
def _cut_disks(p: Scalar, R: Scalar, h: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the share, the mean along the axis, and the mean across it divided by R.

    A traced function of its own: inlined for each cylinder and differentiated in each velocity, it
    would dominate compile time.
    """
    level = p < LEVEL_SLOPE * R
    gentle = _level_cylinder(np.where(level, p, 0.0), np.where(level, R, 1.0), h)
    steep = _steep_cylinder(np.where(level, R, p), R, h)
    share, along, across = (np.where(level, x, y) for x, y in zip(gentle, steep, strict=True))
    return share, along, across


def _steep_cylinder(p: Scalar, R: Scalar, h: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the same as `_cut_disks` in closed form."""
    low_1, low_2, low_3 = _disk_integrals(h - p, R)
    high_1, high_2, high_3 = _disk_integrals(h + p, R)
    by_p = 0.5 / p
    share = (high_1 - low_1) * by_p
    along = ((high_2 - low_2) * by_p - 0.5 * (high_1 + low_1)) * (2.0 * by_p)
    return share, along, (high_3 - low_3) * by_p


def _level_cylinder(p: Scalar, R: Scalar, h: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the same by quadrature in the angle of the waterline, sin(theta) = tau.

    The fraction mu of the length is submerged and nu is dry. All terms have a limit at p = 0:
    lengths along the axis grow with 1 / p, and the angle between its ends decreases with p.
    """
    by_p = 0.5 / np.maximum(p, MIN_HEIGHT)
    mu, nu = (np.minimum(np.maximum((x + p - R) * by_p, 0.0), 1.0) for x in (h, -h))
    cut = np.maximum(1.0 - mu - nu, 0.0)
    # b - a, 1 - b and 1 + a without cancellation
    width, above, below = 2.0 * p * cut / R, *(np.maximum(1.0 - (p + x) / R, 0.0) for x in (h, -h))
    total = cosine_from(below * (above + width)) + cosine_from(above * (below + width))
    # the angle theta runs over middle +- half: tan(half) = (sin b - sin a) / (cos b + cos a)
    rate = 2.0 * cut / total
    tangent = rate * (p / R)
    span = rate * _arctan_ratio(tangent)
    half, middle = span * (p / R), np.arctan2(below - above, total)
    secant = np.sqrt(1.0 + tangent * tangent)
    sine, cosine = 0.5 * (below - above) * secant, 0.5 * total * secant
    # coordinate along the axis at the middle angle
    z_middle = mu - nu - rate * tangent * sine / (secant * (1.0 + secant))
    share, along, across = mu, -mu * (1.0 - mu), 0.0
    for place, weight in gauss_points(QUADRATURE_POINTS)[QUADRATURE_POINTS // 2 :]:
        beta = (2.0 * place - 1.0) * half
        sinc, rest = _small_angle(beta * beta)
        move, small_sine = (2.0 * place - 1.0) * span, beta * sinc
        small_cosine = 1.0 - beta * beta * rest
        for side in (1.0, -1.0):
            tau = sine * small_cosine + side * (cosine * small_sine)
            s = cosine * small_cosine - side * (sine * small_sine)
            z = z_middle - move * (side * (cosine * sinc) - sine * (beta * rest))
            disk = 0.5 + (middle + side * beta + tau * s) * (1.0 / math.pi)
            length = weight * span * s
            share = share + length * disk
            along = along + length * disk * z
            across = across - length * (s * s * s) * (2.0 / (3.0 * math.pi))
    return share, along, across / R


def _capsule(h: Scalar, w: Scalars, halves: Vec3) -> ShareAndMeans:
    """Integrate a cylinder and two hemispheres at its ends, each with its own depth."""
    r, _, half = halves
    a = half - r
    c = w[2] / half
    volumes = (2.0 * math.pi * r * r * a, r * r * r)
    round_part, means = _cylinder(h, (w[0], w[1], a * c), (r, r, a))
    total = volumes[0] * round_part
    side, along = volumes[0] * r, volumes[0] * a * means[2]
    across = [side * means[0], side * means[1]]
    lean = speed(w[0], w[1]) / r
    for end in (1.0, -1.0):
        V, lateral, axial = hemisphere((h - end * a * c) / r, lean, end * c)
        total = total + volumes[1] * V
        along = along + end * volumes[1] * (a * V + r * axial)
        across = [x + volumes[1] * lateral * y for x, y in zip(across, w, strict=False)]
    whole = volumes[0] + 4.0 / 3.0 * math.pi * volumes[1]
    reach = np.abs(a * c) + r
    out = np.abs(h) >= reach
    share = np.where(out, np.where(h > 0.0, 1.0, 0.0), total / whole)
    moments = (across[0] / r, across[1] / r, along / half)
    return share, [np.where(out, 0.0, moment / whole) for moment in moments]


SOLIDS = {"ellipsoid": _ellipsoid, "box": _box, "cylinder": _cylinder, "capsule": _capsule}
"""Functions of h, the w_i and the half sizes, by kind of solid."""


def _disk_integrals(y: Scalar, R: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return integrals over y of a disk's share below y / R, of that, and of its moment / R."""
    t, s = sine_between(y / R)
    arc, beyond = np.arctan2(t, s), np.maximum(y - R, 0.0)
    cube = s * s * s
    first = 0.5 * t + (t * arc + s - cube * (1.0 / 3.0)) * (1.0 / math.pi)
    second = (0.5 * t * t + 0.125) * arc + 0.625 * t * s - t * cube * (1.0 / 12.0)
    second = 0.25 * t * t + second * (1.0 / math.pi) + 0.0625
    moment = (t * s * (0.625 - 0.25 * t * t) + 0.375 * arc) * (-2.0 / (3.0 * math.pi))
    return R * first + beyond, R * R * second + beyond * (R + 0.5 * beyond), moment


def _arctan_ratio(x: Scalar) -> Scalar:
    """Return arctan(x) / x for x up to 0.07."""
    square, total = x * x, 0.0
    for k in range(5, -1, -1):
        total = total * square + (-1.0) ** k / (2.0 * k + 1.0)
    return total


def _small_angle(square: Scalar) -> tuple[Scalar, Scalar]:
    """Return sin(x) / x and (1 - cos(x)) / x^2 from x^2, for x up to 0.07."""
    sinc, rest = 0.0, 0.0
    for k in range(3, -1, -1):
        sinc = sinc * square + (-1.0) ** k / math.factorial(2 * k + 1)
        rest = rest * square + (-1.0) ** k / math.factorial(2 * k + 2)
    return sinc, rest


MIN_COSINE_SQUARE = 1e-60
"""Smallest square of a cosine: keeps derivatives finite at the ends of an arc sine."""


def cosine_from(square: Scalar) -> Scalar:
    """Return a cosine from its square."""
    return np.sqrt(np.maximum(square, MIN_COSINE_SQUARE))


def sine_between(t: Scalar) -> tuple[Scalar, Scalar]:
    """Return a sine clamped to [-1, 1], and its cosine."""
    t = np.minimum(np.maximum(t, -1.0), 1.0)
    return t, cosine_from((1.0 - t) * (1.0 + t))


def hemisphere(t: Scalar, s: Scalar, c: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the submerged volume of a unit hemisphere, and its moments.

    Args:
        t: Depth of the ball's center below the surface, clamped to [-1, 1].
        s: Sine of the angle between the upward direction and the axis, at least 1e-100.
        c: Cosine of that angle.

    Returns:
        Volume; moment perpendicular to the axis toward the upward direction, divided by s; moment
        along the axis; both about the ball's center.
    """
    t = np.minimum(np.maximum(t, -1.0), 1.0)
    x, root = sine_between(t / s)
    out = 1.0 - t * t
    beyond = 0.5 * math.pi + np.arctan2(x * c, root)
    arc, q = np.arctan2(x, root), s * root
    slices = t - t * t * t * (1.0 / 3.0)
    V = slices * beyond + (2.0 / 3.0) * np.arctan2(q, c) + c * q * (1.0 - root * root) * (1.0 / 3.0)
    M_n = (
        -0.25 * out * out * beyond
        + 0.25 * c * (arc - 0.5 * s * s * (arc - x * root))
        + 0.125 * c * s * s * (arc - x * root * (1.0 - 2.0 * x * x))
        + 0.125 * math.pi * c
    )
    # divided by s
    M_e = (1.0 / 12.0) * (x * (5.0 - 2.0 * x * x) * root + 3.0 * arc + 1.5 * math.pi)
    # where the chord misses the disk, slices are complete disks or empty
    whole = np.where(t * c > 0.0, math.pi, 0.0)
    ends = np.abs(t) >= s
    V = np.where(ends, slices * whole + np.where(c < 0.0, 2.0 / 3.0 * math.pi, 0.0), V)
    above = np.where(t > 0.0, 0.25 * math.pi, 0.0)
    M_n = np.where(ends, above * c - 0.25 * out * out * whole, M_n)
    M_e = np.where(ends, above, M_e)
    return V, M_n - c * M_e, c * M_n + s * s * M_e


CLOSED_FORM_SHAPES = (SphereShape, EllipsoidShape, BoxShape, CylinderShape, CapsuleShape)
"""Geometries with closed forms."""

_SLOPE = 2.0 / math.pi
_CUBIC = 1.25 - 2.0 * _SLOPE


class Submerged(NamedTuple):
    """The submerged part of a solid."""

    share: Scalar
    """Fraction of the volume, between 0 and 1."""

    offset: Vec3
    """From the solid's centroid to that of the part, times the share, link axes [m]."""


@record
class Hull:
    """A simple solid in the frame of its link, for the submerged part of the link."""

    kind: str
    """ "ellipsoid", "box", "cylinder" or "capsule"; the last two along their third axis."""

    center: Vec3
    """Centroid [m]."""

    axes: tuple[Vec3, Vec3, Vec3]
    """Unit vectors."""

    halves: Vec3
    """Half sizes along the axes [m]."""

    @property
    def volume(self) -> Scalar:
        """Volume [m^3]."""
        a, b, c = self.halves
        if self.kind == "capsule":
            return 2.0 * math.pi * a * a * (c - a * (1.0 / 3.0))
        factors = {"ellipsoid": 4.0 / 3.0 * math.pi, "cylinder": 2.0 * math.pi, "box": 8.0}
        return factors[self.kind] * (a * b * c)

    def submerged(self, up: Vec3, depth: Scalar) -> Submerged:
        """Return the submerged part.

        Args:
            up: Upward unit vector, link axes.
            depth: Depth of the link's origin [m].
        """
        h = depth - dot(up, self.center)
        w = [half * dot(up, axis) for half, axis in zip(self.halves, self.axes, strict=True)]
        share, means = SOLIDS[self.kind](h, w, self.halves)
        offset = ZERO3
        for axis, half, mean in zip(self.axes, self.halves, means, strict=True):
            offset = add(offset, scale(axis, half * mean))
        return Submerged(share, offset)


def hull_of(shape: Shape, X: Transform) -> Hull | None:
    """Return a shape of a body as a hull of its link; None if it is not a simple solid.

    Args:
        shape: Shape in body axes.
        X: Map of motion from the link's frame to the body's.
    """
    geometry = shape.geometry
    if isinstance(geometry, SphereShape):
        kind, halves = "ellipsoid", (geometry.radius,) * 3
    elif isinstance(geometry, EllipsoidShape):
        kind, halves = "ellipsoid", geometry.radii
    elif isinstance(geometry, BoxShape):
        x, y, z = geometry.size
        kind, halves = "box", (0.5 * x, 0.5 * y, 0.5 * z)
    elif isinstance(geometry, CylinderShape):
        kind, halves = "cylinder", (geometry.radius, geometry.radius, 0.5 * geometry.length)
    elif isinstance(geometry, CapsuleShape):
        r = geometry.radius
        kind, halves = "capsule", (r, r, 0.5 * geometry.length + r)
    else:
        return None
    R = np.array(shape.pose.rotation)
    axes = [_clean(X.direction_to_parent(tuple(R[:, k].tolist()))) for k in range(3)]
    center = _clean(X.point_to_parent(shape.pose.translation))
    return Hull(kind, center, (axes[0], axes[1], axes[2]), halves)


def _clean(values: Vec3) -> Vec3:
    """Set components to zero that are rounding errors of a rotation."""
    x, y, z = (0.0 if abs(value) < 1e-14 else float(value) for value in values)
    return x, y, z


def is_simple(shape: Shape) -> bool:
    """Return whether a shape is a solid with a closed form."""
    return isinstance(shape.geometry, CLOSED_FORM_SHAPES)


def strip_share(tau: Scalar) -> Scalar:
    """Return the area fraction of a disk below a line at tau, from -1 (bottom) to 1 (top).

    A polynomial with the exact value and slope at the center and at the rim, and an error of at
    most 0.013 in between: the drag of a partially submerged strip is not known better.
    """
    t = np.minimum(np.maximum(tau, -1.0), 1.0)
    square = t * t
    return 0.5 + t * (_SLOPE + square * (_CUBIC + square * (0.5 - _SLOPE - _CUBIC)))
