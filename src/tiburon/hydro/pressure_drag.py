"""Pressure drag of cylinders (by strips), spheres, flat sections, boxes and ellipsoids.

Symbols (McMillan 1994, eqs. 6.22-6.30; McMillan, Orin and McGhee 1995, eqs. 17-22):
    w       angular velocity of the body
    v^r     velocity of its origin relative to the fluid
    u       velocity of a point relative to the fluid; u_n its part normal to the surface
    g, x    weights and places of Gauss quadrature on [0, 1]

Every element of area feels -1/2 rho C |u_n| u_n dA. Skin friction, lift and vortex shedding are
left out.

Flat sections:
    u       velocity along the normal of a section, relative to the fluid
    a, b    coordinates in the section by its half sizes; the section is the square |a|, |b| <= 1 or
            the disk a^2 + b^2 <= 1
    c, p, q  u = c + p a + q b: in a uniform flow u is linear over the section
    mean    over the area of the section

In a uniform flow the mean and first moments of |u| u have closed forms, also where u changes sign.
Elsewhere the closed form of the linear fit to u is corrected by Gauss quadrature of the remainder,
so that the result converges with the number of points and is exact where the flow is linear.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add, add_cross, cross, dot, scale

__all__ = ["ball_drag", "cylinder_drag", "face_drag", "face_points", "gauss_points", "speed"]

TINY = 1e-200
"""Square of a speed that nothing can feel; it keeps the derivative of a length finite at rest."""


def speed(*components: Scalar) -> Scalar:
    """Return the length of a velocity; its derivative at rest is zero.

    Squares of speeds stay far from the ends of the number range, so the sum needs no scaling, and a
    tiny number in it is lost against the square of any speed above 1e-92 m/s.
    """
    total: Scalar = TINY
    for component in components:
        total = total + component * component
    return np.sqrt(total)


@cache
def gauss_points(count: int) -> tuple[tuple[float, float], ...]:
    """Return places on [0, 1] and weights of Gauss-Legendre quadrature, exact to degree 2n - 1."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return tuple(
        (0.5 + 0.5 * float(x), 0.5 * float(g)) for x, g in zip(places, weights, strict=True)
    )


def cylinder_drag(
    w: Vec3,
    u: Callable[[Vec3], Vec3],
    *,
    axis: Vec3,
    sides: tuple[Vec3, Vec3],
    start: Vec3,
    length: Scalar,
    side_factor: Scalar,
    end_factors: tuple[Scalar, Scalar],
    points: int,
    uniform: bool,
    split: bool,
    wet: Callable[[Scalar], Scalar] | None = None,
) -> Force:
    """Return the drag of a cylinder, about the body origin in body axes.

    Strips across the axis feel the flow normal to it; a face that meets the water feels the flow
    along the axis at its center (1995, eqs. 20-22, for an axis anywhere in the body).

    Args:
        w: Angular velocity, body axes [rad/s].
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        axis: Unit vector along the cylinder.
        sides: Two unit vectors that make a right-handed set with the axis before them.
        start: Center of the first face [m].
        length: Distance to the other face [m].
        side_factor: rho C r of the side [kg/m^2].
        end_factors: 1/2 rho C pi r^2 of the first and of the other face [kg/m].
        points: Number of strips.
        uniform: Whether the fluid moves alike along the cylinder.
        split: Whether to cut the cylinder where the flow across it is slowest, for twice the
            strips: exact then where it changes sign. In a fluid that varies, the place follows
            from the flow at the two ends.
        wet: Share of a strip that is under water, by its distance from the first face [m]; None
            where all of them are.
    """
    b, c = sides
    u_0 = u(start)
    # where the fluid moves alike, the flow across the axis is linear along it
    u_b, u_c, w_b, w_c = dot(b, u_0), dot(c, u_0), dot(b, w), dot(c, w)
    u_1 = u_0 if uniform else u(add(start, scale(axis, length)))
    spans: Sequence[tuple[Scalar, Scalar]] = ((0.0, length),)
    # in visits that bodies of a large model share, the length is a traced value
    if split and not (isinstance(length, float) and length <= 0.0):
        # the cut lies at s = -(u . u') / |u'|^2; without a slope any place will do
        rate_b, rate_c = w_c, -w_b
        if not uniform:
            rate_b = (dot(b, u_1) - u_b) * (1.0 / length)
            rate_c = (dot(c, u_1) - u_c) * (1.0 / length)
        slope = rate_b * rate_b + rate_c * rate_c
        cut = -(u_b * rate_b + u_c * rate_c) / np.where(slope > 0.0, slope, 1.0)
        cut = np.minimum(np.maximum(cut, 0.0), length)
        spans = ((0.0, cut), (cut, length - cut))
    total: list[Scalar] = [0.0, 0.0, 0.0, 0.0]
    for begin, span in spans:
        for place, weight in gauss_points(points):
            s = begin + place * span
            if uniform:
                n_b, n_c = u_b + s * w_c, u_c - s * w_b
            else:
                here = u(add(start, scale(axis, s)))
                n_b, n_c = dot(b, here), dot(c, here)
            felt = (weight * span) * speed(n_b, n_c)
            if wet is not None:
                felt = felt * wet(s)
            f_b, f_c = felt * n_b, felt * n_c
            for k, part in enumerate((f_b, f_c, s * f_b, s * f_c)):
                total[k] = total[k] + part
    F_b, F_c, N_b, N_c = (side_factor * x for x in total)
    first, other = end_factors
    if wet is not None:
        first, other = first * wet(0.0), other * wet(length)
    u_a = dot(axis, u_0)
    # a face that leads meets the water, each with the flow where it is
    if uniform:
        end = first if first is other else np.where(u_a > 0.0, other, first)
        F_a = end * np.abs(u_a) * u_a
    else:
        back, ahead = np.minimum(u_a, 0.0), np.maximum(dot(axis, u_1), 0.0)
        F_a = other * ahead * ahead - first * back * back
    force = add(scale(axis, -F_a), add(scale(b, -F_b), scale(c, -F_c)))
    # s axis x (F_b b + F_c c) = s F_b c - s F_c b
    moment = add(scale(c, -N_b), scale(b, N_c))
    return Force(add_cross(moment, start, force), force)


def ball_drag(u: Callable[[Vec3], Vec3], *, center: Vec3, factor: Scalar) -> Force:
    """Return the drag of a ball, along the flow at its center.

    Args:
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        center: Of the ball, body axes [m].
        factor: 1/2 rho C pi r^2 [kg/m].
    """
    here = u(center)
    f = scale(here, -factor * speed(*here))
    return Force(cross(center, f), f)


EDGE = 1e-12
"""How close to 1 an arc cosine is taken: its slope is unbounded there. What it multiplies vanishes
with the power 7/2 of the distance."""

LEAST = 1e-100
"""Slopes below this are zero [m/s]."""

Moments = tuple[Scalar, Scalar, Scalar]
"""Mean of |u| u, of a |u| u and of b |u| u."""


def face_drag(
    w: Vec3,
    u: Callable[[Vec3], Vec3],
    *,
    disk: bool,
    axes: tuple[Vec3, Vec3, Vec3],
    center: Vec3,
    halves: tuple[float, float],
    factor: Scalar,
    points: int,
    uniform: bool,
) -> Force:
    """Return the drag of a rectangle or an ellipse on the flow along its normal.

    Args:
        w: Angular velocity, body axes [rad/s].
        u: Velocity relative to the fluid of a point of the body, body axes [m/s].
        disk: Whether it is an ellipse; a rectangle otherwise.
        axes: Right-handed unit vectors: the normal, and the two axes of the section.
        center: Of the section, body axes [m].
        halves: Half sizes along its two axes [m].
        factor: 1/2 rho C A of the whole section [kg/m].
        points: Number of quadrature points along each axis, where the fluid varies.
        uniform: Whether the fluid moves alike over the section.
    """
    normal, along_a, along_b = axes
    half_a, half_b = halves
    moments = _disk if disk else _square
    # n . (w x e_a) = -w . e_b and n . (w x e_b) = w . e_a
    p, q = -half_a * dot(along_b, w), half_b * dot(along_a, w)
    if uniform:
        mean, mean_a, mean_b = moments(dot(normal, u(center)), p, q)
    else:
        samples = []
        for a, b, weight in face_points(points, disk):
            place = add(center, add(scale(along_a, a * half_a), scale(along_b, b * half_b)))
            samples.append((a, b, weight, dot(normal, u(place))))
        mean, mean_a, mean_b = _varying(moments, p, q, samples)
    force = scale(normal, -factor * mean)
    # e_a x n = -e_b and e_b x n = e_a
    couple = add(
        scale(along_b, factor * half_a * mean_a), scale(along_a, -factor * half_b * mean_b)
    )
    return Force(add_cross(couple, center, force), force)


@cache
def face_points(count: int, disk: bool) -> tuple[tuple[float, float, float], ...]:
    """Return places (a, b) and weights, of sum 1, of count x count points.

    They integrate polynomials of degree 2 count - 1 exactly: products of Gauss-Legendre points on
    the square; on the disk Gauss-Chebyshev points of the second kind along a, with Gauss-Legendre
    points on their chords.
    """

    def rows() -> Iterator[tuple[float, float, float]]:
        if not disk:
            for x, g in gauss_points(count):
                yield 2.0 * x - 1.0, g, 1.0
            return
        for k in range(1, count + 1):
            turn = k * math.pi / (count + 1)
            yield math.cos(turn), 2.0 / (count + 1) * math.sin(turn) ** 2, math.sin(turn)

    return tuple(
        (a, (2.0 * y - 1.0) * chord, weight * g)
        for a, weight, chord in rows()
        for y, g in gauss_points(count)
    )


def _varying(
    moments: Callable[[Scalar, Scalar, Scalar], Moments],
    p: Scalar,
    q: Scalar,
    samples: list[tuple[float, float, float, Scalar]],
) -> Moments:
    """Return the moments of a flow that is known at points (a, b, weight, u)."""
    # the flow's own part, without that of turning; a, b and 1 are orthogonal over the points
    own = [value - a * p - b * q for a, b, _, value in samples]
    c: Scalar = 0.0
    for (_, _, weight, _), x in zip(samples, own, strict=True):
        c = c + weight * x
    if len(samples) == 1:
        return moments(c, p, q)
    squares = [sum(weight * place[k] ** 2 for *place, weight, _ in samples) for k in range(2)]
    for (a, b, weight, _), x in zip(samples, own, strict=True):
        p = p + (weight * a / squares[0]) * x
        q = q + (weight * b / squares[1]) * x
    mean, mean_a, mean_b = moments(c, p, q)
    for a, b, weight, value in samples:
        fit = c + a * p + b * q
        rest = weight * (np.abs(value) * value - np.abs(fit) * fit)
        mean, mean_a, mean_b = mean + rest, mean_a + a * rest, mean_b + b * rest
    return mean, mean_a, mean_b


def _square(c: Scalar, p: Scalar, q: Scalar) -> Moments:
    """Return the moments over the square.

    For c, p, q >= 0 and p >= q, u is negative where it is below zero near the corner (-1, -1), at
    which it is -d; e is what is left of d at the corner (-1, 1). The integral of u^2 over that part
    is (d^4 - e^4) / (12 p q), those of (1 + a) u^2 and (1 + b) u^2 are alike. Differences are
    written as products with m = (d - e) / q, which is at most 2, so that no small q is harmful.
    """
    turn_c, turn_p, turn_q = (np.where(x < 0.0, -1.0, 1.0) for x in (c, p, q))
    c, p, q = turn_c * c, turn_p * p, turn_q * q
    ordered = p >= q
    p, q = np.where(ordered, p, q), np.where(ordered, q, p)
    d = np.maximum(p + q - c, 0.0)
    e = np.maximum(d - 2.0 * q, 0.0)
    level = q <= LEAST
    m = np.where(level, 2.0, np.minimum(d / np.where(level, 1.0, q), 2.0))
    by_p = 1.0 / np.maximum(p, LEAST)
    dd, de, ee = d * d, d * e, e * e
    m = m * by_p
    negative = (0.5 / 12.0) * m * ((dd + ee) * (d + e))
    beyond_p = (0.5 / 60.0) * m * by_p * (dd * (dd + de + ee) + ee * (de + ee))
    beyond_q = (0.5 / 60.0) * m * m * p * (dd * (d + 2.0 * e) + ee * (3.0 * d + 4.0 * e))
    mean = c * c + (p * p + q * q) * (1.0 / 3.0) - negative
    mean_p = (2.0 / 3.0) * c * p + (negative - beyond_p)
    mean_q = (2.0 / 3.0) * c * q + (negative - beyond_q)
    mean_a, mean_b = np.where(ordered, mean_p, mean_q), np.where(ordered, mean_q, mean_p)
    return turn_c * mean, turn_p * mean_a, turn_q * mean_b


def _disk(c: Scalar, p: Scalar, q: Scalar) -> Moments:
    """Return the moments over the disk.

    Along its gradient, u = c + g x with chords of length 2 sqrt(1 - x^2); with c >= 0 it is
    negative beyond x = -t, t = c / g.
    """
    turn = np.where(c < 0.0, -1.0, 1.0)
    c = turn * c
    g = speed(p, q)
    t = np.minimum(c / g, 1.0 - EDGE)
    square = t * t
    s, arc = np.sqrt(1.0 - square), np.arccos(t)
    negative = (square + 0.25) * arc - s * t * (13.0 / 12.0 + square * (1.0 / 6.0))
    slope = s * (4.0 / 15.0 + square * (0.3 - square * (1.0 / 15.0))) - 0.5 * t * arc
    mean = c * c + g * g * (0.25 - (2.0 / math.pi) * negative)
    # the moment along the gradient, by g
    along = 0.5 * c + (2.0 / math.pi) * g * slope
    return turn * mean, along * p, along * q
