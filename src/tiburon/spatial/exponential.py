"""Exponential and logarithm of rotations and of rigid motions, safe at zero and at half turns.

A rotation vector phi is axis times angle [rad]. The formulas divide by the angle; near zero a
series takes over. Both are evaluated and one is selected, the unselected one at a harmless angle,
so that floats and traced values, and derivatives through either, stay finite.

Symbols: phi rotation vector, theta its length, V left Jacobian of the rotation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.spatial.rotations import (
    Quaternion,
    matrix_to_quaternion,
    quaternion_to_matrix,
    select,
)
from tiburon.spatial.vec3 import (
    Mat3,
    Scalar,
    Vec3,
    add,
    add_cross,
    cross,
    dot,
    scale,
    unpack,
    vec3,
)

__all__ = [
    "left_jacobian",
    "left_jacobian_inverse_product",
    "left_jacobian_product",
    "matrix_to_rotation_vector",
    "quaternion_exp",
    "quaternion_log",
    "rotation_vector_to_matrix",
]

# squared angle below which the series are used: their first neglected terms are then below 1e-17
_SMALL = 1e-4


def _near_zero(
    theta2: Scalar, closed_form: Callable[[Scalar], Scalar], series: Sequence[float]
) -> Scalar:
    """Evaluate an even function of the angle by a closed form, or by a series near zero.

    Args:
        theta2: Squared angle [rad^2].
        closed_form: The function of the angle, valid away from zero.
        series: Its coefficients in powers of the squared angle.
    """
    small = theta2 < _SMALL
    total: Scalar = series[-1]
    for coefficient in reversed(series[:-1]):
        total = coefficient + theta2 * total
    return select(small, total, closed_form(np.sqrt(select(small, 1.0, theta2))))


def quaternion_exp(phi: Sequence[Scalar]) -> Quaternion:
    """Return the unit quaternion of a rotation vector.

    With phi = omega dt, ``quaternion_multiply(q, quaternion_exp(phi))`` is the exact orientation
    after turning for dt at the constant body-axes angular velocity omega.

    Args:
        phi: Rotation vector [rad], shape (3,).
    """
    x, y, z = vec3(phi, "phi")
    theta2 = x * x + y * y + z * z
    w = _near_zero(theta2, lambda t: np.cos(0.5 * t), (1.0, -1 / 8, 1 / 384, -1 / 46080))
    k = _near_zero(theta2, lambda t: np.sin(0.5 * t) / t, (1 / 2, -1 / 48, 1 / 3840, -1 / 645120))
    return (w, k * x, k * y, k * z)


def quaternion_log(q: Sequence[Scalar]) -> Vec3:
    """Return the rotation vector of a quaternion of any length but zero, angle within pi.

    Args:
        q: Quaternion (w, x, y, z), shape (4,).
    """
    w, x, y, z = unpack(q, (4,), "quaternion")
    # q and -q are one rotation; the one with w >= 0 is the shorter way
    sign = select(w < 0.0, -1.0, 1.0)
    w = w * sign
    n2 = x * x + y * y + z * z
    # the ratio n / w decides, not n: a quaternion has no scale here
    small = n2 < _SMALL * 0.25 * (w * w)
    n = np.sqrt(select(small, 1.0, n2))
    ratio2 = n2 / select(small, w * w, 1.0)
    near = 2.0 - ratio2 * (2 / 3 - ratio2 * (2 / 5 - ratio2 * (2 / 7)))
    k = select(small, near / select(small, w, 1.0), 2.0 * np.arctan2(n, w) / n) * sign
    return (k * x, k * y, k * z)


def rotation_vector_to_matrix(phi: Sequence[Scalar]) -> Mat3:
    """Return the rotation matrix of a rotation vector [rad], shape (3,)."""
    return quaternion_to_matrix(quaternion_exp(phi))


def matrix_to_rotation_vector(R: Any) -> Vec3:
    """Return the rotation vector [rad] of a rotation matrix, shape (3, 3); angle within pi."""
    return quaternion_log(matrix_to_quaternion(R))


def left_jacobian_product(phi: Sequence[Scalar], a: Sequence[Scalar]) -> Vec3:
    """Return V(phi) a: the displacement of a body that rotates by phi and moves by a in body axes.

    With constant body-axes velocity [omega; v] for a time dt, the origin moves by
    R V(omega dt) v dt, R the orientation at the start. V = 1 + (1 - cos)/theta^2 (phi x) +
    (theta - sin)/theta^3 (phi x)^2.

    Args:
        phi: Rotation vector [rad], shape (3,).
        a: Displacement, axes of the start [m], shape (3,).
    """
    p, b = vec3(phi, "phi"), vec3(a, "a")
    theta2 = dot(p, p)
    # 1 - cos = 2 sin^2(theta / 2) keeps its digits
    k1 = _near_zero(
        theta2,
        lambda t: 2.0 * (np.sin(0.5 * t) / t) * (np.sin(0.5 * t) / t),
        (1 / 2, -1 / 24, 1 / 720, -1 / 40320),
    )
    k2 = _near_zero(
        theta2,
        lambda t: (t - np.sin(t)) / (t * t * t),
        (1 / 6, -1 / 120, 1 / 5040, -1 / 362880),
    )
    # b + k1 (p x b) + k2 p x (p x b)
    c = cross(p, b)
    return add(add_cross(b, scale(p, k2), c), scale(c, k1))


def left_jacobian_inverse_product(phi: Sequence[Scalar], a: Sequence[Scalar]) -> Vec3:
    """Return V(phi)^-1 a, for angles below a full turn.

    V^-1 = 1 - (phi x)/2 + (1 - (theta/2) cot(theta/2))/theta^2 (phi x)^2.

    Args:
        phi: Rotation vector [rad], shape (3,), length below 2 pi.
        a: Displacement, axes of the start [m], shape (3,).
    """
    p, b = vec3(phi, "phi"), vec3(a, "a")
    k = _near_zero(
        dot(p, p),
        lambda t: (1.0 - 0.5 * t * np.cos(0.5 * t) / np.sin(0.5 * t)) / (t * t),
        (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600),
    )
    c = cross(p, b)
    return add(add_cross(b, scale(p, k), c), scale(c, -0.5))


def left_jacobian(phi: Sequence[Scalar]) -> Mat3:
    """Return the matrix V(phi) of :func:`left_jacobian_product`, as rows."""
    x, y, z = (left_jacobian_product(phi, unit) for unit in np.eye(3).tolist())
    return ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2]))
