"""Springs and dampers between two points, and the line of action they share with cylinders."""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.model import Model
from tiburon.model.attachments import Spring
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.record import record
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, dot, matrix_vector, scale, subtract, transpose

MIN_DISTANCE = 1e-12
"""Distance below which the direction of a line fades to zero [m], to avoid a division by zero."""


class Line(NamedTuple):
    """Line of action between two points, and its rate of change."""

    length: Scalar
    """Distance of the points [m]."""

    rate: Scalar
    """Time derivative of the distance [m/s]."""

    first: str
    second: str
    first_arm: FloatVec3
    second_arm: FloatVec3
    first_direction: Vec3
    """From the first to the second point, axes of the first frame."""

    second_direction: Vec3
    """The same in axes of the second frame."""

    def pulled(self, tension: Scalar) -> dict[str, tuple[Scalar, ...]]:
        """Return the wrenches of a tension [N], by frame name: [n; f] at its origin [N m, N]."""
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
    """Compute the line between two points, each given in the axes of a body or frame [m]."""
    ends = []
    for name, arm in ((first, first_arm), (second, second_arm)):
        place, motion = now.frame_pose(name), now.frame_velocity(name)
        point = add(place.p, matrix_vector(place.R, arm))
        ends.append((place.R, point, matrix_vector(place.R, motion.at_point(arm))))
    (R1, p1, v1), (R2, p2, v2) = ends
    along = subtract(p2, p1)
    length = np.sqrt(dot(along, along))
    direction = scale(along, 1.0 / np.maximum(length, MIN_DISTANCE))
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


@record
class PointSpring(Element):
    """Force element of a `Spring`; stiffness, damping and rest length are run-time parameters."""

    name: str
    """Unique among the elements of a run."""

    spring: Spring
    """Data of the spring."""

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return length [m], tension [N] and stored energy [J]."""
        return tuple(f"{self.name}.{word}" for word in ("length", "tension", "energy"))

    def parameters(self) -> tuple[float, ...]:
        """Return stiffness, damping and rest length."""
        return (self.spring.stiffness, self.spring.damping, self.spring.rest_length)

    def structure(self) -> Hashable:
        """Return its end points, and whether it is a rope."""
        s = self.spring
        return (s.first, s.first_point, s.second, s.second_point, s.rope)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        for end in (self.spring.first, self.spring.second):
            model.plan.frame(end)

    def act(self, now: ElementContext) -> Action:
        """Compute the wrenches on both ends."""
        s = self.spring
        k, c, rest = now.p
        line = line_between(now, s.first, s.first_point, s.second, s.second_point)
        stretch = line.length - rest
        tension = k * stretch + c * line.rate
        if s.rope:
            # slack below the rest length; the tension is never negative
            stretch = np.maximum(stretch, 0.0)
            tension = np.where(stretch > 0.0, np.maximum(tension, 0.0), 0.0)
        outputs = {
            f"{self.name}.length": line.length,
            f"{self.name}.tension": tension,
            f"{self.name}.energy": 0.5 * k * stretch * stretch,
        }
        return Action(wrenches=line.pulled(tension), outputs=outputs)
