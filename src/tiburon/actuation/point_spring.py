"""Springs and dampers between two points, and the line of action they share with cylinders.

Springs that steps do not resolve act at their ends, as soft loops do: their mean tensions over the
last step act as constants at the stages of the integrator, and the end of the step corrects them
(`tiburon.simulation.soft_loops`).
"""

from collections.abc import Collection, Hashable
from typing import ClassVar, NamedTuple

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.algorithms.kinematics import WORLD_PLACE, Place, body_places, jacobian_columns
from tiburon.model import Model, Plan
from tiburon.model.attachments import Spring
from tiburon.model.plan import WORLD_BODY
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars, Vec3
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


def length_and_row(
    plan: Plan, q: Scalars, spring: Spring, places: tuple[Place, ...]
) -> tuple[Scalar, dict[int, Scalar]]:
    """Return the length of a spring [m] and its rate per velocity variable.

    Args:
        plan: Layout of the robot.
        q: Configuration [m or rad].
        spring: The spring.
        places: Poses of all plan bodies.
    """
    points, moving = [], []
    for name, arm in ((spring.first, spring.first_point), (spring.second, spring.second_point)):
        frame = plan.frame(name)
        carrier = WORLD_PLACE if frame.body == WORLD_BODY else places[frame.body]
        place = carrier.moved(frame.transform)
        point = add(place.p, matrix_vector(place.R, arm))
        points.append(point)
        moving.append(jacobian_columns(plan, q, places, frame.body, point))
    along = subtract(points[1], points[0])
    length = np.sqrt(dot(along, along))
    direction = scale(along, 1.0 / np.maximum(length, MIN_DISTANCE))
    row: dict[int, Scalar] = {}
    for columns, sign in zip(moving, (-1.0, 1.0), strict=True):
        for i, column in columns.items():
            row[i] = row.get(i, 0.0) + sign * dot(direction, column.linear)
    return length, row


@record
class StiffSprings(Element):
    """Springs between points whose tensions over the last step are its discrete states."""

    name: str
    """Unique among the elements of a run."""

    springs: tuple[Spring, ...]
    """The springs."""

    rates: tuple[float, ...]
    """Fastest rate of each [1/s]."""

    states_last: ClassVar[bool] = True

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the mean tensions [N]."""
        return tuple(f"{spring.name}.mean_tension" for spring in self.springs)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return length [m], tension [N] and stored energy [J] of each."""
        words = ("length", "tension", "energy")
        return tuple(f"{spring.name}.{word}" for spring in self.springs for word in words)

    def parameters(self) -> tuple[float, ...]:
        """Return rate, stiffness, damping and rest length of each."""
        rows = zip(self.rates, self.springs, strict=True)
        return tuple(x for z, s in rows for x in (z, s.stiffness, s.damping, s.rest_length))

    def structure(self) -> Hashable:
        """Return the end points."""
        return tuple((s.first, s.first_point, s.second, s.second_point) for s in self.springs)

    def check(self, model: Model) -> None:
        """Raise an error if there is no such body or frame."""
        for spring in self.springs:
            for end in (spring.first, spring.second):
                model.plan.frame(end)

    def act(self, now: ElementContext) -> Action:
        """Return the joint forces of the tensions over the last step."""
        total: list[Scalar] = [0.0] * now.model.nv
        outputs: dict[str, Scalar] = {}
        places = now.kinematics.places
        for k, (spring, tension) in enumerate(zip(self.springs, now.z, strict=True)):
            length, row = length_and_row(now.plan, now.q, spring, places)
            stretch = length - now.p[4 * k + 3]
            for i, entry in row.items():
                total[i] = total[i] - entry * tension
            outputs[f"{spring.name}.length"] = length
            outputs[f"{spring.name}.tension"] = tension
            outputs[f"{spring.name}.energy"] = 0.5 * now.p[4 * k + 1] * stretch * stretch
        return Action(tuple(total), outputs=outputs)

    def stretched(
        self, plan: Plan, q: Scalars, v: Scalars, p: Scalars
    ) -> list[tuple[Scalar, Scalar, dict[int, Scalar]]]:
        """Return how far each is stretched [m], at which rate [m/s], and the row of the rate."""
        places, found = body_places(plan, q), []
        for k, spring in enumerate(self.springs):
            length, row = length_and_row(plan, q, spring, places)
            rate: Scalar = 0.0
            for i, entry in row.items():
                rate = rate + entry * v[i]
            found.append((length - p[4 * k + 3], rate, row))
        return found

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return the states that the end of the step has given already."""
        return now.z


def spring_rates(
    model: Model, springs: Collection[Spring], positions: np.ndarray, masses: np.ndarray
) -> dict[str, float]:
    """Return the fastest rate of springs in some configurations [1/s], by name.

    Args:
        model: The robot.
        springs: The springs.
        positions: Configurations [m or rad], shape (..., nq).
        masses: Mass matrices there, shape (..., nv, nv); singular ones are left out.
    """
    found = dict.fromkeys((spring.name for spring in springs), 0.0)
    for q, M in zip(positions, masses, strict=True):
        place = tuple(map(float, q))
        try:
            places, inverse = body_places(model.plan, place), np.linalg.inv(M)
        except np.linalg.LinAlgError:
            continue
        for spring in springs:
            row = length_and_row(model.plan, place, spring, places)[1]
            J = np.array([float(row.get(i, 0.0)) for i in range(model.nv)])
            mobility = max(float(J @ inverse @ J), 0.0)
            rate = max(np.sqrt(spring.stiffness * mobility), spring.damping * mobility)
            if np.isfinite(rate):
                found[spring.name] = max(found[spring.name], float(rate))
    return found


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
