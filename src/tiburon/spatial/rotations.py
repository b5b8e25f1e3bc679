"""Rotation matrices, quaternions, axis and angle, roll-pitch-yaw; exponential and logarithm.

A rotation matrix R here is body-to-world (its columns are the body's axes in world axes), as rows
of scalars. A quaternion is (w, x, y, z), body-to-world. Both are plain tuples; ``numpy.array``
converts them to arrays. All functions but :func:`matrix_to_roll_pitch_yaw` accept floats and traced
values.

A rotation vector phi is axis times angle [rad]. The formulas of exponential and logarithm divide by
the angle; near zero a series takes over. Both are evaluated and one is selected, the unselected one
at a harmless angle, so that floats and traced values, and derivatives through either, stay finite.

Symbols: q quaternion, R rotation matrix, c and s cosine and sine; phi rotation vector, theta its
length, V left Jacobian of the rotation.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tiburon.arrays import NDArray
from tiburon.spatial.vec3 import (
    IDENTITY3,
    Mat3,
    Scalar,
    Scalars,
    Vec3,
    add,
    add_cross,
    cross,
    dot,
    scale,
    unpack,
    vec3,
)

Quaternion: TypeAlias = tuple[Scalar, Scalar, Scalar, Scalar]
"""Components w, x, y, z."""

GIMBAL_COSINE = 1e-12
"""Cosine of the pitch below which roll and yaw are not unique (gimbal lock).

Rounding of a unit column leaves about 1e-16 where the exact value is zero.
"""


def select(condition: Any, yes: Scalar, no: Scalar) -> Scalar:
    """Return one of two scalars without branching; both are evaluated."""
    # the product turns NumPy's zero-dimensional array into a scalar and is dropped when traced
    chosen: Any = np.where(condition, yes, no)
    return chosen * 1.0


def _quaternion(values: Scalars) -> Quaternion:
    """Return four scalars as a tuple, after checking that there are four."""
    w, x, y, z = unpack(values, (4,), "quaternion")
    return (w, x, y, z)


def quaternion_square(q: Scalars) -> Scalar:
    """Return the squared length of a quaternion."""
    w, x, y, z = _quaternion(q)
    return w * w + x * x + y * y + z * z


def quaternion_to_matrix(q: Scalars, square: Scalar | None = None) -> Mat3:
    """Return the rotation matrix of a quaternion of any length but zero.

    Scale-free: R belongs to q / |q|, by one division and no square root, so that a quaternion that
    has drifted from unit length still yields a rotation (Featherstone 1987, eq. 8.2, for |q| = 1
    and transposed).

    Args:
        q: Quaternion (w, x, y, z), shape (4,).
        square: Its squared length, where the caller has it, checked or guarded.

    Returns:
        Rows of the matrix body-to-world, shape (3, 3).
    """
    w, x, y, z = _quaternion(q)
    s = 2.0 / (quaternion_square((w, x, y, z)) if square is None else square)
    sx, sy, sz = s * x, s * y, s * z
    xx, yy, zz = x * sx, y * sy, z * sz
    xy, xz, yz = x * sy, x * sz, y * sz
    wx, wy, wz = w * sx, w * sy, w * sz
    return (
        (1.0 - (yy + zz), xy - wz, xz + wy),
        (xy + wz, 1.0 - (xx + zz), yz - wx),
        (xz - wy, yz + wx, 1.0 - (xx + yy)),
    )


def matrix_to_quaternion(R: Any) -> Quaternion:
    """Return the unit quaternion (w, x, y, z) of a rotation matrix, with w >= 0.

    Four formulas exist, each dividing by another component; the one with the largest divisor is
    taken, which is never smaller than 1/2 (Shepperd 1978).

    Args:
        R: Rotation matrix body-to-world, shape (3, 3).
    """
    a, b, c, d, e, f, g, h, i = unpack(R, (3, 3), "R")
    # 4 w^2, 4 x^2, 4 y^2, 4 z^2: the largest is at least 1
    squares = (1.0 + a + e + i, 1.0 + a - e - i, 1.0 - a + e - i, 1.0 - a - e + i)
    wx, wy, wz = h - f, c - g, d - b
    xy, xz, yz = b + d, c + g, f + h
    candidates = (
        (squares[0], wx, wy, wz),
        (wx, squares[1], xy, xz),
        (wy, xy, squares[2], yz),
        (wz, xz, yz, squares[3]),
    )
    best, largest = candidates[0], squares[0]
    for candidate, square in zip(candidates[1:], squares[1:], strict=True):
        better = square > largest
        best = tuple(select(better, new, old) for new, old in zip(candidate, best, strict=True))
        largest = select(better, square, largest)
    # a quaternion and its negative are one rotation: keep w >= 0
    scale = select(best[0] < 0.0, -0.5, 0.5) / np.sqrt(largest)
    return (best[0] * scale, best[1] * scale, best[2] * scale, best[3] * scale)


def quaternion_multiply(p: Scalars, q: Scalars) -> Quaternion:
    """Return the product p q: the rotation q followed by p."""
    a, b, c, d = _quaternion(p)
    w, x, y, z = _quaternion(q)
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def quaternion_conjugate(q: Scalars) -> Quaternion:
    """Return the conjugate: for unit length, the inverse rotation."""
    w, x, y, z = _quaternion(q)
    return (w, -x, -y, -z)


def quaternion_normalize(q: Scalars) -> Quaternion:
    """Return q / |q|."""
    w, x, y, z = _quaternion(q)
    length = np.sqrt(quaternion_square((w, x, y, z)))
    return (w / length, x / length, y / length, z / length)


def quaternion_rotate(q: Scalars, a: Scalars) -> Vec3:
    """Return a vector given in body axes in world axes; q need not have unit length."""
    (x, y, z), R = vec3(a), quaternion_to_matrix(q)
    return (
        R[0][0] * x + R[0][1] * y + R[0][2] * z,
        R[1][0] * x + R[1][1] * y + R[1][2] * z,
        R[2][0] * x + R[2][1] * y + R[2][2] * z,
    )


def quaternion_rate(q: Scalars, omega: Scalars) -> Quaternion:
    """Return dq/dt = q omega / 2 (Featherstone 1987, eq. 8.1).

    Args:
        q: Quaternion (w, x, y, z), body-to-world, shape (4,).
        omega: Angular velocity, body axes [rad/s], shape (3,).
    """
    x, y, z = vec3(omega, "omega")
    return quaternion_multiply(q, (0.0, 0.5 * x, 0.5 * y, 0.5 * z))


def axis_rotation_matrix(axis: int, angle: Scalar) -> Mat3:
    """Return the turn by an angle [rad] about coordinate axis 0, 1, 2 = x, y, z."""
    unit = IDENTITY3[axis]
    return axis_angle_to_matrix(unit, angle)


def axis_angle_to_matrix(axis: Scalars, angle: Scalar) -> Mat3:
    """Return the turn by an angle about a unit axis (Rodrigues' formula).

    Args:
        axis: Unit vector, shape (3,).
        angle: Angle [rad].
    """
    x, y, z = vec3(axis, "axis")
    c, s = np.cos(angle), np.sin(angle)
    t = 1.0 - c
    tx, ty, tz = t * x, t * y, t * z
    xy, xz, yz = tx * y, tx * z, ty * z
    sx, sy, sz = s * x, s * y, s * z
    return (
        (c + tx * x, xy - sz, xz + sy),
        (xy + sz, c + ty * y, yz - sx),
        (xz - sy, yz + sx, c + tz * z),
    )


def axis_angle_to_quaternion(axis: Scalars, angle: Scalar) -> Quaternion:
    """Return the unit quaternion of a turn by an angle [rad] about a unit axis, shape (3,)."""
    x, y, z = vec3(axis, "axis")
    c, s = np.cos(0.5 * angle), np.sin(0.5 * angle)
    return (c, s * x, s * y, s * z)


def roll_pitch_yaw_to_quaternion(roll: Scalar, pitch: Scalar, yaw: Scalar) -> Quaternion:
    """Return the unit quaternion of Rz(yaw) Ry(pitch) Rx(roll), angles in radians."""
    x, y, z = (
        axis_angle_to_quaternion(unit, angle)
        for unit, angle in zip(IDENTITY3, (roll, pitch, yaw), strict=True)
    )
    return quaternion_multiply(z, quaternion_multiply(y, x))


def quaternion_to_roll_pitch_yaw(quaternion: Any) -> NDArray[Any]:
    """Return roll, pitch and yaw [rad] of quaternions (w, x, y, z) of any length.

    Yaw about z first, then pitch about y, then roll about x; roll is zero at pitch +-pi/2.

    Args:
        quaternion: Rotations body-to-world, shape (..., 4).

    Returns:
        Angles, shape (..., 3).
    """
    R = quaternion_to_matrix(tuple(np.moveaxis(np.asarray(quaternion, dtype=np.float64), -1, 0)))
    horizontal = np.hypot(R[0][0], R[1][0])
    upright = horizontal < GIMBAL_COSINE
    roll = np.where(upright, 0.0, np.arctan2(R[2][1], R[2][2]))
    yaw = np.where(upright, np.arctan2(-R[0][1], R[1][1]), np.arctan2(R[1][0], R[0][0]))
    return np.stack([roll, np.arctan2(-R[2][0], horizontal), yaw], axis=-1)


def linear_invariants(Q: Mat3) -> tuple[Vec3, Scalar]:
    """Return the linear invariants vect Q = e sin phi and q0 = cos phi of a rotation matrix.

    They are polynomial in the matrix and smooth everywhere (Nahon 1991, sec. 3.2).

    Args:
        Q: Rows of the rotation matrix.
    """
    (a, b, c), (d, e, f), (g, h, i) = Q
    return (0.5 * (h - f), 0.5 * (c - g), 0.5 * (d - b)), 0.5 * (a + e + i - 1.0)


def linear_invariant_rates(Q: Mat3) -> tuple[Vec3, Vec3, Vec3, Vec3]:
    """Return the rows of H: the rates of the four linear invariants per angular velocity.

    ::

        d/dt [vect Q; q0] = H omega,    H = [ (tr(Q) 1 - Q) / 2 ]
                                            [    -vect(Q)^T     ]

    This corrects the printed eq. 3.20b of Nahon 1991, which lacks the factor 1/2 and the minus
    sign.

    Args:
        Q: Rows of the rotation matrix, which turns with omega in the axes it maps to.
    """
    (a, b, c), (d, e, f), (g, h, i) = Q
    (x, y, z), _ = linear_invariants(Q)
    return (
        (0.5 * (e + i), -0.5 * b, -0.5 * c),
        (-0.5 * d, 0.5 * (a + i), -0.5 * f),
        (-0.5 * g, -0.5 * h, 0.5 * (a + e)),
        (-x, -y, -z),
    )


def turn_error(Q: Any) -> tuple[Vec3, Scalar]:
    """Return a corrective rotation for a rotation error Q, and the size of the error.

    The correction is vect Q. With f = [vect Q; q0 - 1], the error of Q from the identity, both the
    least-squares solution of H omega = f and the gradient H^T f are vect Q, so that no
    factorization of H is needed. It vanishes towards half a turn, where it determines no axis;
    beyond a quarter turn the Euler parameters 2 e sin(phi/2) replace it.

    Args:
        Q: Rows of the rotation matrix.

    Returns:
        The correction, along e [rad for small angles], and |f|^2 = (2 sin(phi/2))^2.
    """
    (x, y, z), q0 = linear_invariants(Q)
    square = x * x + y * y + z * z + (1.0 - q0) * (1.0 - q0)
    _, a, b, c = matrix_to_quaternion(Q)
    far = q0 < 0.0
    turn = (select(far, 2.0 * a, x), select(far, 2.0 * b, y), select(far, 2.0 * c, z))
    return turn, square


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


def quaternion_exp(phi: Scalars) -> Quaternion:
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


def quaternion_log(q: Scalars) -> Vec3:
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


def rotation_vector_to_matrix(phi: Scalars) -> Mat3:
    """Return the rotation matrix of a rotation vector [rad], shape (3,)."""
    return quaternion_to_matrix(quaternion_exp(phi))


def matrix_to_rotation_vector(R: Any) -> Vec3:
    """Return the rotation vector [rad] of a rotation matrix, shape (3, 3); angle within pi."""
    return quaternion_log(matrix_to_quaternion(R))


def left_jacobian_product(phi: Scalars, a: Scalars) -> Vec3:
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
        theta2, lambda t: (t - np.sin(t)) / (t * t * t), (1 / 6, -1 / 120, 1 / 5040, -1 / 362880)
    )
    # b + k1 (p x b) + k2 p x (p x b)
    c = cross(p, b)
    return add(add_cross(b, scale(p, k2), c), scale(c, k1))


def left_jacobian_inverse_product(phi: Scalars, a: Scalars) -> Vec3:
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
