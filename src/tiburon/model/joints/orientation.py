"""Orientations held as quaternions, as joints with three rotational freedoms share them."""

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

SHORTEST = 0.5
"""Length below which a quaternion is taken for a wrong slice, not for one that has drifted."""


def to_body_axes(quaternion: Quaternion, joint: str, order: str) -> Rotation:
    """Return the move from joint axes to body axes.

    Args:
        quaternion: From body to joint axes (w, x, y, z), of any length from `SHORTEST` on.
        joint: Name of the joint, for messages.
        order: Where the quaternion stands among the joint's numbers, in words.
    """
    square = quaternion_square(quaternion)
    expected = (
        f"a quaternion of joint {joint!r} with a length near 1, at least {SHORTEST} ({order})"
    )
    # guarding the square alone guards all that depends on the orientation
    R = quaternion_to_matrix(quaternion, require(square >= SHORTEST * SHORTEST, square, expected))
    return Rotation(R).inverse()


def random_quaternion(rng: "np.random.Generator") -> tuple[float, float, float, float]:
    """Return an orientation uniform over all rotations."""
    quaternion = rng.standard_normal(4)
    w, x, y, z = (quaternion / np.linalg.norm(quaternion)).tolist()
    return (w, x, y, z)


def angular_velocity_of_rate(quaternion: Quaternion, rate: Quaternion) -> Vec3:
    """Return the angular velocity, body axes [rad/s], at which a quaternion changes.

    The inverse of `quaternion_rate` (Featherstone 1987, eq. 8.1); changes of length do not count.
    """
    twice = 2.0 / quaternion_square(quaternion)
    _, x, y, z = quaternion_multiply(quaternion_conjugate(quaternion), rate)
    return (twice * x, twice * y, twice * z)
