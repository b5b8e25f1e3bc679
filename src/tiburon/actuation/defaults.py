"""What a robot's own data says about the forces at its joints and on its bodies."""

from collections.abc import Iterable

from tiburon.actuation.cylinder_drive import CylinderDrive
from tiburon.actuation.element import Element
from tiburon.actuation.force_drive import ForceDrive
from tiburon.actuation.joint_access import per_degree_of_freedom
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops, felt_inertia
from tiburon.actuation.motor_drive import MotorDrive
from tiburon.actuation.passive import FRICTION_SPEED, PassiveJoints
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.stick_slip import StickSlip
from tiburon.actuation.thruster_drive import ThrusterDrive
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model import Actuator, Coupled, Model, Thruster, World
from tiburon.model.hydraulic_cylinder import HydraulicCylinder
from tiburon.model.spring import Spring

__all__ = ["PASSIVES", "as_elements", "elements_of"]

PASSIVES = (True, False, "stick_slip")
"""What may be said about passive forces."""


@public
def elements_of(
    model: Model,
    world: World | None = None,
    *,
    passive: bool | str = True,
    limits: bool = True,
    friction_speed: float = FRICTION_SPEED,
    stop_frequency: float = STOP_FREQUENCY,
) -> tuple[Element, ...]:
    """Return what acts on a robot by its own data: motors, thrusters, friction, springs, stops.

    Args:
        model: The robot.
        world: Surroundings; thrusters push with or without water around them.
        passive: Whether joints have their friction and springs (`JointPassive`), and `Spring`s
            between points pull. True: Coulomb friction turns around over `friction_speed`, and
            joints under load creep. "stick_slip": they rest, at the price of a state each.
        limits: Whether joints stop where their `JointLimits` say.
        friction_speed: Speed over which smooth friction turns around [rad/s or m/s].
        stop_frequency: Stiffness of stops: how fast what a joint moves would swing there [rad/s].

    Returns:
        Actuators first, in the order of `model.actuators`, then thrusters, cylinders, springs,
        passive forces, stops.
    """
    if passive not in PASSIVES:
        raise OptionError("passive", PASSIVES, passive)
    found = list(as_elements((*model.actuators, *model.thrusters, *model.cylinders)))
    if passive:
        found += as_elements(model.springs)
        smooth = passive != "stick_slip"
        own = PassiveJoints.of(model, friction_speed=friction_speed, coulomb=smooth)
        found += [] if own is None else [own]
        found += [] if smooth else _stick_slips(model)
    if limits:
        stops = JointStops.of(model, frequency=positive("stop_frequency", stop_frequency, "rad/s"))
        found += [] if stops is None else [stops]
    return tuple(found)


def as_elements(parts: Iterable[object]) -> tuple[Element, ...]:
    """Return elements for parts of robots: springs, cylinders, actuators, thrusters.

    Elements among them are returned as they are.

    Raises:
        ModelError: If these are no parts, or one stands alone instead of in a list.
    """
    given: object = parts
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ModelError(f"forces: expected a list, got {shown(given)}; write forces=[...]")
    return tuple(_as_element(part) for part in parts)


def _as_element(part: object) -> Element:
    if isinstance(part, Element):
        return part
    if isinstance(part, Actuator):
        ideal = part.motor is None
        return ForceDrive(part.name, part) if ideal else MotorDrive(part.name, part)
    if isinstance(part, Thruster):
        return ThrusterDrive(part.name, part)
    if isinstance(part, Spring):
        return PointSpring(part.name, part)
    if isinstance(part, HydraulicCylinder):
        return CylinderDrive(part.name, part)
    raise ModelError(
        f"forces: expected an element, a Spring, a HydraulicCylinder, an Actuator or a Thruster, "
        f"got {shown(part)}; wrap functions in ForceFunction(name, function)"
    )


STICK_FREQUENCY = 300.0
"""How fast what a joint moves may swing on its bristles, by default [rad/s]."""


def _stick_slips(model: Model) -> list[Element]:
    """Return friction that holds for all joints with Coulomb friction, as stiff as they allow."""
    found: list[Element] = []
    for joint in model.joints:
        if joint.passive is None or joint.dof == 0:
            continue
        inertia = felt_inertia(model)[model.slice(joint.name, of="v")]
        ratio = joint.ratio if isinstance(joint, Coupled) else 1.0
        for k, f in enumerate(per_degree_of_freedom(joint.passive.friction, joint)):
            if f == 0.0:
                continue
            m = float(inertia[k]) / (ratio * ratio)
            bend = f / (m * STICK_FREQUENCY * STICK_FREQUENCY)
            name = f"{joint.name}.friction" if joint.dof == 1 else None
            found.append(
                StickSlip(
                    name or f"{joint.name}.friction_{k}",
                    joint.name,
                    f,
                    bend=bend,
                    relaxation=1.0 / STICK_FREQUENCY,
                    slip_time=1.0 / STICK_FREQUENCY,
                    freedom=k,
                )
            )
    return found
