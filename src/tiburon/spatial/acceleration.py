"""Spatial and classical accelerations, and conversion between them.

The spatial acceleration of a body is the rate of its spatial velocity seen from a fixed frame;
its linear part follows the stream of body points through the origin. The classical acceleration is
that of the one body point at the origin. They differ by omega x v (Featherstone 1987, sec. 2.7,
eq. 2.29): a body in steady rotation about a fixed axis has no spatial acceleration.

Most algorithms use spatial accelerations. Those optimized for speed use classical ones, which need
no velocity of a point: the rotation of a body contributes to the acceleration of its points a
matrix times their position (`rate_matrix`, `centripetal_matrix`).
"""

from collections.abc import Sequence

from tiburon.spatial.vec3 import Mat3, Scalar, Sym3, Vec3, add_cross, vec3
from tiburon.spatial.vectors import Motion

__all__ = [
    "centripetal_matrix",
    "classical_acceleration_at",
    "classical_to_spatial",
    "rate_matrix",
    "spatial_acceleration_from_point",
    "spatial_to_classical",
]


def spatial_to_classical(acceleration: Motion, velocity: Motion) -> Motion:
    """Return the classical acceleration of the body point at the frame's origin.

    Args:
        acceleration: Spatial acceleration [rad/s^2, m/s^2], frame axes.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    linear = add_cross(acceleration.linear, velocity.angular, velocity.linear)
    return Motion(acceleration.angular, linear)


def classical_to_spatial(acceleration: Motion, velocity: Motion) -> Motion:
    """Return the spatial acceleration, given the classical one of the point at the origin.

    Args:
        acceleration: Angular acceleration and that of the body point at the frame's origin
            [rad/s^2, m/s^2], frame axes.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    linear = add_cross(acceleration.linear, velocity.linear, velocity.angular)
    return Motion(acceleration.angular, linear)


def classical_acceleration_at(
    point: Sequence[Scalar], acceleration: Motion, velocity: Motion
) -> Vec3:
    """Return the classical acceleration [m/s^2] of a body point, frame axes.

    Args:
        point: Position of the body point, frame axes [m], shape (3,).
        acceleration: Spatial acceleration [rad/s^2, m/s^2], same frame.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    p = vec3(point, "point")
    # spatial acceleration at the point, plus omega x v for the motion of the point
    return add_cross(acceleration.at_point(p), velocity.angular, velocity.at_point(p))


def spatial_acceleration_from_point(
    point: Sequence[Scalar],
    point_velocity: Sequence[Scalar],
    point_acceleration: Sequence[Scalar],
    omega: Sequence[Scalar],
    omega_dot: Sequence[Scalar],
) -> Motion:
    """Return the spatial acceleration of a body from the classical motion of one of its points.

    a_O = [omega_dot; rddot + rdot x omega + r x omega_dot] (Featherstone 1987, eq. 2.29).

    Args:
        point: Position r of the body point, frame axes [m], shape (3,).
        point_velocity: Its velocity [m/s], shape (3,).
        point_acceleration: Its classical acceleration [m/s^2], shape (3,).
        omega: Angular velocity of the body [rad/s], shape (3,).
        omega_dot: Angular acceleration of the body [rad/s^2], shape (3,).
    """
    r, rd, rdd = vec3(point), vec3(point_velocity), vec3(point_acceleration)
    w, wd = vec3(omega), vec3(omega_dot)
    return Motion(wd, add_cross(add_cross(rdd, rd, w), r, wd))


def centripetal_matrix(w: Vec3) -> Sym3:
    """Return w~ w~, which maps the position of a body point to its centripetal acceleration.

    Symmetric, entries xx, xy, xz, yy, yz, zz [1/s^2]. Costs 6 multiplications and 3 additions.

    Args:
        w: Angular velocity, frame axes [rad/s].
    """
    x, y, z = w
    xx, yy, zz = x * x, y * y, z * z
    return (-(yy + zz), x * y, x * z, -(xx + zz), y * z, -(xx + yy))


def rate_matrix(w: Vec3, wd: Vec3) -> Mat3:
    """Return Omega = wd~ + w~ w~, which maps positions of body points to accelerations.

    The classical acceleration of the body point at r is that of the origin plus Omega r (McMillan
    1994, eq. B.9). Costs 6 multiplications and 9 additions.

    Args:
        w: Angular velocity, frame axes [rad/s].
        wd: Angular acceleration, same axes [rad/s^2].

    Returns:
        Rows of Omega [1/s^2].
    """
    xx, xy, xz, yy, yz, zz = centripetal_matrix(w)
    a, b, c = wd
    return ((xx, xy - c, xz + b), (xy + c, yy, yz - a), (xz - b, yz + a, zz))
