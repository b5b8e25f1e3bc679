"""Pressure drag of cylinders, cut into strips, and of balls.

Symbols (McMillan 1994, eqs. 6.22-6.30; McMillan, Orin and McGhee 1995, eqs. 17-22):
    w       angular velocity of the body
    v^r     velocity of its origin relative to the fluid
    u       velocity of a point relative to the fluid; u_n its part normal to the surface
    g, x    weights and places of Gauss quadrature on [0, 1]

Every element of area feels -1/2 rho C |u_n| u_n dA. Friction along the surface, lift and vortex
shedding are left out.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tiburon.spatial import Force, Scalar, Vec3
from tiburon.spatial.vec3 import add, add_cross, cross, dot, scale

__all__ = ["ball_drag", "cylinder_drag", "gauss_points", "speed"]

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
    length: float,
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
    if split and length > 0.0:
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
