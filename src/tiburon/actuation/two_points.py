"""The line between two points of a robot, along which springs and cylinders pull."""

from typing import NamedTuple

import numpy as np

from tiburon.actuation.element import ElementContext
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, dot, matrix_vector, scale, subtract, transpose

__all__ = ["Line", "line_between"]

LEAST_DISTANCE = 1e-12
"""Length below which a line points nowhere [m]; there its direction fades instead of failing."""


class Line(NamedTuple):
    """Where two points are and how their distance changes."""

    length: Scalar
    """Distance of the points [m]."""

    rate: Scalar
    """How fast it grows [m/s]."""

    first: str
    second: str
    first_arm: FloatVec3
    second_arm: FloatVec3
    first_direction: Vec3
    """From the first to the second point, axes of the first frame."""

    second_direction: Vec3
    """The same in axes of the second frame."""

    def pulled(self, tension: Scalar) -> dict[str, tuple[Scalar, ...]]:
        """Return the wrenches of a tension that pulls the points together [N].

        By frame name, [n; f] at the frame's origin in its own axes [N m, N].
        """
        f = scale(self.first_direction, tension)
        g = scale(self.second_direction, -tension)
        ends = (
            (self.first, (*cross(self.first_arm, f), *f)),
            (self.second, (*cross(self.second_arm, g), *g)),
        )
        return dict(ends)


def line_between(
    now: ElementContext, first: str, first_arm: FloatVec3, second: str, second_arm: FloatVec3
) -> Line:
    """Find the line between a point of one frame and a point of another.

    Args:
        now: The robot in a state.
        first: Name of a body or frame.
        first_arm: The point in its axes [m].
        second: Name of another one.
        second_arm: The point in its axes [m].
    """
    ends = []
    for name, arm in ((first, first_arm), (second, second_arm)):
        place, motion = now.frame_pose(name), now.frame_velocity(name)
        point = add(place.p, matrix_vector(place.R, arm))
        ends.append((place.R, point, matrix_vector(place.R, motion.at_point(arm))))
    (R1, p1, v1), (R2, p2, v2) = ends
    along = subtract(p2, p1)
    length = np.sqrt(dot(along, along))
    direction = scale(along, 1.0 / np.maximum(length, LEAST_DISTANCE))
    return Line(
        length,
        dot(direction, subtract(v2, v1)),
        first,
        second,
        first_arm,
        second_arm,
        matrix_vector(transpose(R1), direction),
        matrix_vector(transpose(R2), direction),
    )
