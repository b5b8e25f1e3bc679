"""Line vectors, free vectors, screws and the axes of joints.

Every spatial vector is the sum of a line vector (a turn about an axis, a force along a line) and
a free vector (a pure translation, a couple). Taken parallel, the two make a screw with an axis and
a pitch, which no change of frame alters (Featherstone 1987, sec. 2.3.1).

Symbols: a the direction part that names the line (angular of a motion, force of a force), a_O the
other part, rho the pitch.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from tiburon.record import record
from tiburon.spatial.vec3 import (
    ZERO3,
    Scalar,
    Vec3,
    add_cross,
    cross,
    dot,
    scale,
    subtract,
    vec3,
)
from tiburon.spatial.vectors import Force, Motion

__all__ = [
    "Screw",
    "decompose",
    "free_motion",
    "line_motion",
    "prismatic_axis",
    "revolute_axis",
    "screw_axis",
    "screw_unit_force",
]

SpatialVector = TypeVar("SpatialVector", Motion, Force)


@record
class Screw(Generic[SpatialVector]):
    """A spatial vector taken apart into a line vector and a parallel free vector."""

    line: SpatialVector
    """The part along the screw axis: a pure rotation, or a pure force."""

    free: SpatialVector
    """The parallel rest: a pure translation, or a couple."""

    pitch: Scalar
    """Free part per line part: m/rad for a motion, m for a force."""

    point: Vec3
    """Point of the screw axis nearest the origin, frame axes [m]."""


def decompose(vector: SpatialVector) -> Screw[SpatialVector]:
    """Take a spatial vector apart: a = [a; a_O - rho a] + [0; rho a], rho = a . a_O / a . a.

    Featherstone 1987, sec. 2.3.1.

    Args:
        vector: A motion with nonzero angular part, or a force with nonzero linear part.
    """
    a, a_O = _line_and_free(vector)
    square = dot(a, a)
    rho = dot(a, a_O) / square
    moment = subtract(a_O, scale(a, rho))
    point = cross(a, moment)
    return Screw(
        line=_join(vector, a, moment),
        free=_join(vector, ZERO3, scale(a, rho)),
        pitch=rho,
        point=(point[0] / square, point[1] / square, point[2] / square),
    )


def _line_and_free(vector: SpatialVector) -> tuple[Vec3, Vec3]:
    """Return the part that names the line, and the other one."""
    if isinstance(vector, Motion):
        return vector.angular, vector.linear
    return vector.force, vector.moment


def _join(kind: SpatialVector, line: Vec3, free: Vec3) -> SpatialVector:
    """Build a vector of the same kind from its line and free parts."""
    if isinstance(kind, Motion):
        return Motion(line, free)
    return Force(free, line)


def line_motion(omega: Sequence[Scalar], point: Sequence[Scalar], pitch: Scalar = 0.0) -> Motion:
    """Return the motion of turning about a line, and sliding along it by pitch per radian.

    Args:
        omega: Angular velocity, frame axes [rad/s], shape (3,).
        point: Any point of the line, frame axes [m], shape (3,).
        pitch: Slide along the line per turn [m/rad].
    """
    w = vec3(omega, "omega")
    # the body point at the origin moves as if tied to the line: v_O = r x omega
    return Motion(w, add_cross(scale(w, pitch), vec3(point, "point"), w))


def free_motion(velocity: Sequence[Scalar]) -> Motion:
    """Return the motion of pure translation, velocity in frame axes [m/s], shape (3,)."""
    return Motion(ZERO3, vec3(velocity, "velocity"))


def revolute_axis(axis: Sequence[Scalar], point: Sequence[Scalar] = ZERO3) -> Motion:
    """Return the axis of a revolute joint: a unit line vector (Featherstone 1987, sec. 2.3.2).

    Args:
        axis: Unit vector, frame axes, shape (3,).
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    return line_motion(axis, point)


def prismatic_axis(axis: Sequence[Scalar]) -> Motion:
    """Return the axis of a prismatic joint: a unit free vector (sec. 2.3.2), shape (3,)."""
    return free_motion(axis)


def screw_axis(axis: Sequence[Scalar], pitch: Scalar, point: Sequence[Scalar] = ZERO3) -> Motion:
    """Return the axis of a screw joint: a unit line vector plus pitch times the parallel free one.

    Args:
        axis: Unit vector, frame axes, shape (3,).
        pitch: Slide per turn [m/rad].
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    return line_motion(axis, point, pitch)


def screw_unit_force(
    axis: Sequence[Scalar], pitch: Scalar, point: Sequence[Scalar] = ZERO3
) -> Force:
    """Return the force along a screw axis that does unit work on the unit screw motion.

    A force rho / (1 + rho^2) along the axis and a couple 1 / (1 + rho^2) about it (Featherstone
    1987, sec. 7.3).

    Args:
        axis: Unit vector, frame axes, shape (3,).
        pitch: Slide per turn rho [m/rad].
        point: Any point of the axis, frame axes [m], shape (3,).
    """
    n = vec3(axis, "axis")
    share = 1.0 / (1.0 + pitch * pitch)
    return Force.at_point(scale(n, pitch * share), point, couple=scale(n, share))
