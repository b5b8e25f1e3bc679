"""Quaternion orientations of joints with three rotational degrees of freedom."""

import numpy as np

from tiburon.spatial import (
    Quaternion,
    Rotation,
    Vec3,
    quaternion_conjugate,
    quaternion_multiply,
    quaternion_square,
    quaternion_to_matrix,
)
from tiburon.trace.value import require

MIN_QUATERNION_LENGTH = 0.5
"""Length below which a quaternion is rejected as a wrong slice rather than drift."""


def to_body_axes(quaternion: Quaternion, joint: str, order: str) -> Rotation:
    """Return the transform from joint axes to body axes.

    Args:
        quaternion: From body to joint axes (w, x, y, z), of any length from `MIN_QUATERNION_LENGTH`
            on.
        joint: Name of the joint, for messages.
        order: Description of the layout of the joint's variables.
    """
    square = quaternion_square(quaternion)
    expected = (
        f"a quaternion of joint {joint!r} with a length near 1, at least {MIN_QUATERNION_LENGTH} "
        f"({order})"
    )
    # everything that depends on the orientation uses this square
    R = quaternion_to_matrix(
        quaternion,
        require(square >= MIN_QUATERNION_LENGTH * MIN_QUATERNION_LENGTH, square, expected),
    )
    return Rotation(R).inverse()


def random_quaternion(rng: "np.random.Generator") -> tuple[float, float, float, float]:
    """Return a uniformly random orientation."""
    quaternion = rng.standard_normal(4)
    w, x, y, z = (quaternion / np.linalg.norm(quaternion)).tolist()
    return (w, x, y, z)


def angular_velocity_of_rate(quaternion: Quaternion, rate: Quaternion) -> Vec3:
    """Return the angular velocity, body axes [rad/s], at which a quaternion changes.

    The inverse of `quaternion_rate` (Featherstone 1987, eq. 8.1); changes of length are ignored.
    """
    twice = 2.0 / quaternion_square(quaternion)
    _, x, y, z = quaternion_multiply(quaternion_conjugate(quaternion), rate)
    return (twice * x, twice * y, twice * z)
