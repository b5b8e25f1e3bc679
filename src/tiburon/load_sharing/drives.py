"""Thrusters and cables as unknowns of load sharing: forces along lines, within limits of their own.

A cable pulls its two ends toward each other, a thruster pushes its body along its direction. Their
forces are components of x beside those of contacts and loops.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, jacobian_columns
from tiburon.algorithms.tape_calls import JointVector
from tiburon.contact.rows import ContactRow
from tiburon.hydro.thrust import thrust_range
from tiburon.load_sharing.sites import Wrenches, opposed
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.record import record
from tiburon.spatial import Scalars, Vec3
from tiburon.spatial.vec3 import (
    add,
    add_matrix_vector,
    cross,
    dot,
    matrix_vector,
    negate,
    scale,
    subtract,
)

CABLE, THRUSTER = "tension", "thrust"
"""What the force of a drive is."""

MIN_CABLE_LENGTH = 1e-9
"""Length of a cable below which its direction fades to zero [m]."""


@record
class Drive:
    """A thruster or cable; its limits are run-time data."""

    name: str
    """Name of the thruster or cable."""

    kind: str
    """`CABLE` or `THRUSTER`."""

    first: str
    """Body or frame of the thruster, or of the first end of the cable."""

    first_point: FloatVec3
    """In axes of that frame [m]."""

    second: str | None = None
    """Body or frame of the second end of a cable."""

    second_point: FloatVec3 = (0.0, 0.0, 0.0)
    """In axes of that frame [m]."""

    direction: FloatVec3 = (1.0, 0.0, 0.0)
    """Direction of the force of a thruster, in axes of its frame."""

    torque_ratio: float = 0.0
    """Reaction torque of a thruster about its direction, per thrust [m]."""

    limits: tuple[float, float] = (-np.inf, np.inf)
    """Smallest and largest force [N]."""

    def form(self) -> Self:
        """Return the same drive without the values of its limits: what code depends on."""
        low, high = self.limits
        finite = (0.0 if np.isfinite(low) else low, 0.0 if np.isfinite(high) else high)
        return replace(self, limits=finite)


def drives_of(model: Model) -> tuple[Drive, ...]:
    """Return the thrusters and cables of a robot."""
    found = [
        Drive(
            thruster.name,
            THRUSTER,
            thruster.body,
            thruster.position,
            direction=thruster.direction,
            torque_ratio=thruster.torque_ratio,
            limits=thrust_range(thruster),
        )
        for thruster in model.thrusters
    ]
    found += [
        Drive(
            cable.name,
            CABLE,
            cable.first,
            cable.first_point,
            cable.second,
            cable.second_point,
            limits=cable.tension_limits,
        )
        for cable in model.cables
    ]
    return tuple(found)


class DriveRow(NamedTuple):
    """A thruster or cable in one configuration."""

    row: ContactRow
    """Generalized force of a unit force, by velocity variable."""

    wrenches: Wrenches
    """Wrenches of a unit force on plan bodies."""


def drive_row(plan: Plan, q: Scalars, places: Sequence[Place], drive: Drive) -> DriveRow:
    """Return a thruster or cable in one configuration.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        places: Poses of all plan bodies.
        drive: The thruster or cable.
    """
    first, place = _carried(plan, places, drive.first)
    start = add_matrix_vector(place.p, place.R, drive.first_point)
    if drive.second is None:
        along = matrix_vector(place.R, drive.direction)
        turning = scale(along, drive.torque_ratio)
        columns = jacobian_columns(plan, JointVector(q), places, first, start)
        row = {
            i: dot(along, column.linear) + dot(turning, column.angular)
            for i, column in columns.items()
        }
        moment = add(cross(start, along), turning)
        return DriveRow(row, [(first, moment, along)] if first != WORLD_BODY else [])
    second, other = _carried(plan, places, drive.second)
    end = add_matrix_vector(other.p, other.R, drive.second_point)
    span = subtract(end, start)
    along = scale(span, 1.0 / np.maximum(np.sqrt(dot(span, span)), MIN_CABLE_LENGTH))
    pulled: ContactRow = {}
    for body, point, force in ((first, start, along), (second, end, negate(along))):
        for i, column in jacobian_columns(plan, JointVector(q), places, body, point).items():
            part = dot(force, column.linear)
            pulled[i] = pulled[i] + part if i in pulled else part
    pull: Vec3 = negate(along)
    return DriveRow(pulled, opposed((first, second), cross(start, pull), pull))


def _carried(plan: Plan, places: Sequence[Place], name: str) -> tuple[int, Place]:
    """Return the plan body of a frame, and the pose of the frame in the world."""
    frame = plan.frame(name)
    carrier = WORLD_PLACE if frame.body == WORLD_BODY else places[frame.body]
    return frame.body, carrier.moved(frame.transform)
