"""Default force elements of a robot, from its own data."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tiburon.actuation.actuator_drive import ForceDrive, MotorDrive
from tiburon.actuation.cable_drive import CableDrive
from tiburon.actuation.contact_models import ContactModel
from tiburon.actuation.cylinder_drive import CylinderDrive
from tiburon.actuation.element import Element
from tiburon.actuation.free_armature import FreeArmature
from tiburon.actuation.gravity_compensation import GravityCompensation
from tiburon.actuation.joint_laws import (
    FRICTION,
    PASSIVE,
    STOP,
    JointLaws,
    LawChoice,
    chosen_joints,
    ended_actuators,
    resolved_joints,
    stiff_springs,
)
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops
from tiburon.actuation.passive import FRICTION_SPEED, passive_elements
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.servo_drive import ServoDrive
from tiburon.actuation.thruster_drive import ThrusterDrive
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model import Actuator, Model, Thruster
from tiburon.model.attachments import Cable, HydraulicCylinder, Spring


@public
def elements_of(
    model: Model,
    *,
    friction_speed: float = FRICTION_SPEED,
    stop_frequency: float = STOP_FREQUENCY,
    laws: Sequence[LawChoice] = (),
) -> tuple[Element, ...]:
    """Return the force elements of a robot: actuators, thrusters, friction, springs, stops.

    Args:
        model: The robot.
        friction_speed: Speed over which smooth friction changes sign [rad/s or m/s].
        stop_frequency: Natural frequency of the moved inertia on its stop [rad/s].
        laws: Friction, damping, springs and stops of joints that act at the ends of steps, as
            `ended_laws` chooses them.

    Returns:
        Actuators, thrusters, cylinders, cables, springs, passive forces, stops, each in order; last
        the laws at the ends of steps.
    """
    found = list(as_elements((*model.actuators, *model.thrusters, *model.cylinders, *model.cables)))
    ended = ended_actuators(laws)
    found = [
        replace(one, at_ends=True)
        if isinstance(one, (ServoDrive, MotorDrive)) and one.name in ended
        else one
        for one in found
    ]
    springs = stiff_springs(model, laws)
    found += passive_elements(
        model,
        friction_speed=friction_speed,
        at_ends=chosen_joints(laws, PASSIVE),
        resolved=resolved_joints(model, laws),
        coulomb=not any(one.law == FRICTION for one in laws),
        stiff=() if springs is None else [spring.name for spring in springs.springs],
    )
    frequency = positive("stop_frequency", stop_frequency, "rad/s")
    stops = JointStops.of(model, frequency=frequency, at_ends=chosen_joints(laws, STOP))
    others = (GravityCompensation.of(model), FreeArmature.of(model), stops)
    found += [part for part in others if part is not None]
    last = JointLaws.of(model, laws) if laws else None
    return (*found, *(part for part in (springs, last) if part is not None))


def as_elements(parts: Iterable[object]) -> tuple[Element, ...]:
    """Convert springs, cables, cylinders, actuators and thrusters to elements; elements stay.

    Raises:
        ModelError: If a part cannot be converted, or `parts` is not a list.
    """
    given: object = parts
    if type(given) is not tuple and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise ModelError(f"elements: expected a list, got {shown(given)}; write elements=[...]")
    return tuple(map(_as_element, parts))


def _as_element(part: object) -> Element:
    if isinstance(part, Element):
        return part
    if isinstance(part, Actuator):
        if part.servo is not None:
            return ServoDrive(part.name, part)
        return (MotorDrive if part.takes_voltage else ForceDrive)(part.name, part)
    if isinstance(part, Thruster):
        return ThrusterDrive(part.name, part)
    if isinstance(part, Spring):
        return PointSpring(part.name, part)
    if isinstance(part, HydraulicCylinder):
        return CylinderDrive(part.name, part)
    if isinstance(part, Cable):
        return CableDrive(part.name, part)
    if isinstance(part, ContactModel):
        name = type(part).__name__
        raise ModelError(f"elements: expected no model of contact; write contact=tb.{name}(...)")
    raise ModelError(
        f"elements: expected an element, a Spring, a HydraulicCylinder, a Cable, an Actuator or "
        f"a Thruster, got {shown(part)}; wrap functions in ForceFunction(name, function)"
    )
