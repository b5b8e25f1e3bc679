"""Branch-free vector operations of the narrow phase: selection, safe directions, clamping.

All of them take floats and traced values. Both branches of a selection are computed, so that
divisors and arguments of roots are kept away from zero in the branch that is not taken.
"""

from typing import Any

from tiburon.spatial.vec3 import Mat3, Scalar, Vec3, add, dot, scale
from tiburon.trace.value import binary, unary, where

SMALLEST_SQUARE = 1e-290
"""Squared lengths up to this count as zero [m^2]: a length of 1e-145 m has lost its direction."""

RELIABLE_SQUARE = 0.25
"""Least square of the part of a direction across an axis: below, rounding decides it."""


def select(condition: Scalar, a: Any, b: Any) -> Any:
    """Return a where the condition holds, else b; scalars or equal nestings of tuples."""
    if not isinstance(a, tuple):
        return where(condition, a, b)
    parts = [select(condition, x, y) for x, y in zip(a, b, strict=True)]
    return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """Return the smaller scalar."""
    return binary("min", a, b)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """Return the larger scalar."""
    return binary("max", a, b)


def clamp(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Return x moved into the interval from low to high."""
    return minimum(maximum(x, low), high)


def sign(x: Scalar) -> Scalar:
    """Return 1 for x >= 0, else -1."""
    return where(x >= 0.0, 1.0, -1.0)


def root(x: Scalar) -> Scalar:
    """Return the square root of x, and 0 with derivative 0 where x is not positive."""
    positive = x > 0.0
    return where(positive, unary("sqrt", where(positive, x, 1.0)), 0.0)


def unit(a: Vec3, fallback: Vec3) -> tuple[Vec3, Scalar]:
    """Return the direction and length of a vector; the fallback and 0 for a zero vector."""
    square = dot(a, a)
    positive = square > SMALLEST_SQUARE
    length = unary("sqrt", where(positive, square, 1.0))
    direction = select(positive, scale(a, 1.0 / length), fallback)
    return direction, where(positive, length, 0.0)


def unit_across(a: Vec3, u: Vec3, fallback: Vec3) -> tuple[Vec3, Scalar]:
    """Return direction and length of the part of a vector across a unit vector u.

    The fallback, which is perpendicular to u, and 0 where a is along u up to rounding: what is left
    of it then has any direction, that of u included.
    """
    direction, length = unit(add(a, scale(u, -dot(u, a))), fallback)
    across = add(direction, scale(u, -dot(u, direction)))
    square = dot(across, across)
    reliable = square > RELIABLE_SQUARE
    factor = 1.0 / unary("sqrt", where(reliable, square, 1.0))
    return select(reliable, scale(across, factor), fallback), where(reliable, length, 0.0)


def perpendicular(a: Vec3) -> Vec3:
    """Return a unit vector perpendicular to a unit vector (Duff et al. 2017)."""
    x, y, z = a
    s = sign(z)
    c = -1.0 / (s + z)
    return (1.0 + s * x * x * c, s * x * y * c, -s * x)


def outer(a: Vec3, b: Vec3) -> Mat3:
    """Return a b^T."""
    return (scale(b, a[0]), scale(b, a[1]), scale(b, a[2]))


def scale_matrix(m: Mat3, factor: Scalar) -> Mat3:
    """Return a matrix times a scalar."""
    return (scale(m[0], factor), scale(m[1], factor), scale(m[2], factor))


def add_matrices(a: Mat3, b: Mat3) -> Mat3:
    """Return a + b."""
    (p, q, r), (s, t, u) = a, b
    return (
        (p[0] + s[0], p[1] + s[1], p[2] + s[2]),
        (q[0] + t[0], q[1] + t[1], q[2] + t[2]),
        (r[0] + u[0], r[1] + u[1], r[2] + u[2]),
    )
