"""Collision of two free bodies at one point without friction (Featherstone 1987, section 9.9.1).

    gamma = -(1 + e) n (v_2 - v_1) / (n (I_1^-1 + I_2^-1) n)                       (9.69)

The impulse gamma n acts on the second body, -gamma n on the first. Spatial vectors have the angular
part first, about the origin of the world, in world axes. A wall has infinite inertia: zero inverse.
"""

from typing import NamedTuple

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, ShapeError
from tiburon.model.inertia import Inertia

Array = NDArray[np.float64]


class TwoBodyCollision(NamedTuple):
    """What a collision of two bodies does."""

    first: Array
    """Velocity of the first body after it [rad/s, m/s], shape (6,)."""

    second: Array
    """Velocity of the second body after it [rad/s, m/s], shape (6,)."""

    impulse: float
    """Normal impulse on the second body [N s]; 0 if the bodies separate."""

    energy_change: float
    """Change of the kinetic energy [J]; 0 for e = 1."""


def inverse_spatial_inertia(inertia: Inertia) -> Array:
    """Return the inverse of the spatial inertia of a body about the origin (3.14), shape (6, 6).

    Args:
        inertia: Mass, center of mass from the origin and tensor, world axes.

    Raises:
        DomainError: If the mass or the tensor is singular.
    """
    xx, xy, xz, yy, yz, zz = inertia.tensor
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if not inertia.mass > 0.0 or not np.linalg.eigvalsh(tensor)[0] > 0.0:
        raise DomainError(
            "inertia",
            "positive mass and moments of inertia",
            f"{inertia}",
            advice="give the body both",
        )
    x, y, z = inertia.com
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    rotational = np.linalg.inv(tensor)
    return np.block(
        [
            [rotational, -rotational @ skew],
            [skew @ rotational, np.eye(3) / inertia.mass - skew @ rotational @ skew],
        ]
    )


def collide_two_bodies(
    first_inverse: ArrayLike,
    first_velocity: ArrayLike,
    second_inverse: ArrayLike,
    second_velocity: ArrayLike,
    point: ArrayLike,
    normal: ArrayLike,
    restitution: float,
) -> TwoBodyCollision:
    """Compute the collision of two free bodies (9.64-9.69).

    Args:
        first_inverse: Inverse spatial inertia of the first body, shape (6, 6); zero for a wall.
        first_velocity: Its velocity before [rad/s, m/s], shape (6,).
        second_inverse: Inverse spatial inertia of the second body, shape (6, 6).
        second_velocity: Its velocity before [rad/s, m/s], shape (6,).
        point: Where they touch, world axes [m], shape (3,).
        normal: Unit normal from the first to the second body, world axes, shape (3,).
        restitution: Coefficient of restitution, 0 to 1.

    Raises:
        ShapeError: If an array has the wrong shape.
        DomainError: If both bodies are walls, or restitution is not between 0 and 1.
    """
    shapes = ((6, 6), (6,), (6, 6), (6,), (3,), (3,))
    names = (
        "first_inverse",
        "first_velocity",
        "second_inverse",
        "second_velocity",
        "point",
        "normal",
    )
    given = (first_inverse, first_velocity, second_inverse, second_velocity, point, normal)
    arrays = [np.asarray(x, dtype=np.float64) for x in given]
    for name, shape, array in zip(names, shapes, arrays, strict=True):
        if array.shape != shape:
            raise ShapeError(name, shape, array.shape)
    if not 0.0 <= restitution <= 1.0:
        raise DomainError("restitution", "a number from 0 to 1", f"{restitution:g}")
    phi_1, v_1, phi_2, v_2, x, direction = arrays
    n = np.concatenate([np.cross(x, direction), direction])
    inverse = float(n @ (phi_1 + phi_2) @ n)
    if not inverse > 0.0:
        raise DomainError("inertia", "a body that can move", "two walls")
    approach = float(n @ (v_2 - v_1))
    impulse = -(1.0 + restitution) * approach / inverse if approach < 0.0 else 0.0
    return TwoBodyCollision(
        v_1 - impulse * (phi_1 @ n),
        v_2 + impulse * (phi_2 @ n),
        impulse,
        # mean of the velocities before and after times the impulse
        impulse * (approach + 0.5 * impulse * inverse),
    )
