"""How much of half a ball is under a level surface.

Symbols, lengths by the radius:
    c, s    cosine and sine of the angle between the upward direction and the axis of the half ball,
            which is the part of the ball on the positive side of its axis
    t       depth of the ball's center below the surface
    V       volume under water
    M_n     moment of that part along the upward direction
    M_e     along the direction square to it in which the axis rises

Cut into disks parallel to the surface, the half ball at height t is what a disk of the radius
sqrt(1 - t^2) has beyond a chord at the distance -t c / s from its middle. Area and moment of such a
part of a disk have closed forms, and so have their integrals over t.
"""

import math

import numpy as np

from tiburon.spatial import Scalar

__all__ = ["cosine_from", "half_ball", "sine_between"]

FLOOR = 1e-60
"""Least square of a cosine: it keeps slopes finite at the ends of an arc sine."""


def cosine_from(square: Scalar) -> Scalar:
    """Return the root of the square of a cosine."""
    return np.sqrt(np.maximum(square, FLOOR))


def sine_between(t: Scalar) -> tuple[Scalar, Scalar]:
    """Return a sine, held between -1 and 1, and its cosine."""
    t = np.minimum(np.maximum(t, -1.0), 1.0)
    return t, cosine_from((1.0 - t) * (1.0 + t))


def half_ball(t: Scalar, s: Scalar, c: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the volume of the part under water, and its moments, for a ball of radius 1.

    Args:
        t: Depth of the ball's center below the surface; beyond -1 and 1 the ends hold.
        s: Sine of the angle between the upward direction and the axis; at least 1e-100.
        c: Cosine of that angle.

    Returns:
        Volume; moment along the direction square to the axis to which the upward one leans, by s;
        moment along the axis; both about the ball's center.
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
    # by s
    M_e = (1.0 / 12.0) * (x * (5.0 - 2.0 * x * x) * root + 3.0 * arc + 1.5 * math.pi)
    # where the chord misses the disk, slices are whole disks or nothing
    whole = np.where(t * c > 0.0, math.pi, 0.0)
    ends = np.abs(t) >= s
    V = np.where(ends, slices * whole + np.where(c < 0.0, 2.0 / 3.0 * math.pi, 0.0), V)
    above = np.where(t > 0.0, 0.25 * math.pi, 0.0)
    M_n = np.where(ends, above * c - 0.25 * out * out * whole, M_n)
    M_e = np.where(ends, above, M_e)
    return V, M_n - c * M_e, c * M_n + s * s * M_e
