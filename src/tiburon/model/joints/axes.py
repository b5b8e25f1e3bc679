"""Joint axes: validation, and the cheapest rotation factor for each axis."""

import math
import warnings

import numpy as np

from tiburon.arguments import caller_level
from tiburon.arrays import ArrayLike
from tiburon.errors import ModelError, ModelWarning
from tiburon.model.value_checks import SNAP, UNIT_ROUNDING, Matrix3, Vec3, snap, vec3
from tiburon.spatial import AxisRotation, Factor, Mat3, Rotation, Scalar
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross, scale, transpose

LENGTH_TOLERANCE = 1e-3
"""Axes whose length differs from 1 by at most this are normalized, with a warning."""

LENGTH_ROUNDING = 1e-9
"""Differences from length 1 up to this are rounding of printed digits, and normalized silently."""

_QUARTER = 0.5 * math.pi


def unit_axis(axis: ArrayLike, joint: str, quantity: str = "axis") -> Vec3:
    """Return a normalized axis, or raise.

    Args:
        axis: Three components.
        joint: Name of the joint, for messages.
        quantity: Name of the axis
            in messages.

    Raises:
        ModelError: If the length is not near 1.
    """
    given = vec3(axis, f"joint {joint!r}", quantity, joint)
    length = math.hypot(*given)
    error = abs(length - 1.0)
    if error > LENGTH_TOLERANCE:
        raise ModelError(
            f"joint {joint!r}: {quantity} must have length 1 within {LENGTH_TOLERANCE:g}, "
            f"got {length:.6g} (norm of {list(given)}); divide it by its length",
            name=joint,
        )
    if error > LENGTH_ROUNDING:
        warnings.warn(
            f"joint {joint!r}: {quantity} has length {length:.6g} (norm of {list(given)}) instead "
            "of 1 and was normalized; write more digits to silence this",
            ModelWarning,
            stacklevel=caller_level(),
        )
    if error <= UNIT_ROUNDING:
        # normalized before: another division would change bits
        length = 1.0
    x, y, z = snap([a / length for a in given])
    return (x, y, z)


def coordinate_of(axis: Vec3) -> tuple[int, float] | None:
    """Return index and sign of the coordinate axis a unit axis lies on, if it does."""
    used = [index for index, x in enumerate(axis) if x != 0.0]
    return (used[0], axis[used[0]]) if len(used) == 1 else None


def cos_sin(angle: Scalar, offset: float = 0.0) -> tuple[Scalar, Scalar]:
    """Return cosine and sine of angle + offset [rad]; quarter turns of the offset are exact."""
    quarters = round(offset / _QUARTER)
    rest = offset - quarters * _QUARTER
    if abs(rest) > SNAP:
        angle = angle + rest
    c, s = np.cos(angle), np.sin(angle)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]


def turn_about(axis: Vec3, c: Scalar, s: Scalar) -> Factor:
    """Return the transform to axes rotated right-handed about a unit axis, from cosine and sine."""
    coordinate = coordinate_of(axis)
    if coordinate is not None:
        k, sign = coordinate
        return AxisRotation(k, c, sign * s)
    return Rotation(_turned_axes(axis, c, s))


def _turned_axes(axis: Vec3, c: Scalar, s: Scalar) -> Mat3:
    """Return the matrix from joint to body axes, E = c 1 + (1 - c) a a^T - s [a x] (Rodrigues)."""
    x, y, z = axis
    t = 1.0 - c
    tx, ty, tz = t * x, t * y, t * z
    sx, sy, sz = s * x, s * y, s * z
    xy, xz, yz = tx * y, tx * z, ty * z
    return (
        (c + tx * x, xy + sz, xz - sy),
        (xy - sz, c + ty * y, yz + sx),
        (xz + sy, yz - sx, c + tz * z),
    )


def aligned_axes(z: Vec3, x: Vec3) -> Matrix3:
    """Return the rotation with columns x normalized, z cross x, and the unit vector z.

    Args:
        z: Unit vector.
        x: Any non-zero vector normal to z.
    """
    x = scale(x, 1.0 / math.dist(x, ZERO3))
    entries = snap(entry for row in transpose((x, cross(z, x), z)) for entry in row)
    return (entries[0:3], entries[3:6], entries[6:9])  # type: ignore[return-value]


def normals(axis: Vec3) -> tuple[Vec3, Vec3]:
    """Return two orthonormal vectors normal to a unit axis."""
    first = across(axis)
    first = scale(first, 1.0 / math.dist(first, ZERO3))
    return first, cross(axis, first)


def across(axis: Vec3) -> Vec3:
    """Return a vector normal to a unit axis, of length well above zero."""
    farthest = min(range(3), key=lambda i: abs(axis[i]))
    return cross(IDENTITY3[farthest], axis)
