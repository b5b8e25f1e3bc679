"""Default force elements of a robot, from its own data."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tiburon.actuation.compliant_contact import CompliantContact
from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.cylinder_drive import CylinderDrive
from tiburon.actuation.element import Element
from tiburon.actuation.exact_contact import ExactContact
from tiburon.actuation.force_drive import ForceDrive
from tiburon.actuation.joint_access import per_degree_of_freedom
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops, apparent_joint_inertia
from tiburon.actuation.motor_drive import MotorDrive
from tiburon.actuation.passive import FRICTION_SPEED, PassiveJoints
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.rigid_contact import RigidContact
from tiburon.actuation.stick_slip import StickSlip
from tiburon.actuation.thruster_drive import ThrusterDrive
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.contact.compliant import ContactLaw
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model import Actuator, Coupled, Model, Thruster, World
from tiburon.model.attachments import HydraulicCylinder, Spring

__all__ = ["CONTACTS", "PASSIVES", "as_elements", "contact_elements", "elements_of"]

PASSIVES = (True, False, "stick_slip")
"""Options for passive forces."""

CONTACTS = ("rigid", "compliant", "exact", False)
"""Models of contact; None chooses by the ground."""

RIGID_LAWS = ("coulomb",)
"""Laws of friction of rigid contact."""


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
    """Return the force elements of a robot: actuators, thrusters, friction, springs, stops.

    Args:
        model: The robot.
        world: Surroundings; not used, since thrusters act with or without water.
        passive: Whether joint friction and springs (`JointPassive`) and `Spring`s act. True: smooth
            Coulomb friction, with creep under load. "stick_slip": stiction, with one state per
            degree of freedom.
        limits: Whether joints have stops at their `JointLimits`.
        friction_speed: Speed over which smooth friction changes sign [rad/s or m/s].
        stop_frequency: Natural frequency of the moved inertia on its stop [rad/s].

    Returns:
        Actuators, thrusters, cylinders, springs, passive forces, stops, each in model order.
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
    """Convert springs, cylinders, actuators and thrusters to elements; elements stay unchanged.

    Raises:
        ModelError: If a part cannot be converted, or `parts` is not a list.
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


def contact_elements(
    model: Model,
    world: World,
    contact: str | bool | None,
    pairs: Sequence[tuple[str, str]] | None = None,
    law: ContactLaw | str | None = None,
) -> tuple[Element, ...]:
    """Return the contacts of a robot with its world as elements.

    Args:
        model: The robot.
        world: Its surroundings.
        contact: "rigid", "compliant", "exact", False for none, or None where there is ground and
            something of the robot can touch it, or where pairs are named: compliant if the ground
            has a stiffness, else rigid.
        pairs: Names of two bodies each that may touch, "world" for the ground.
        law: "coulomb" of rigid contact, or a function of compliant contact; their own by default.

    Raises:
        OptionError: If there is no such model or law of contact.
        ModelError: If nothing can touch where contact is asked for.
    """
    if not (contact is None or contact is False or isinstance(contact, str)) or (
        isinstance(contact, str) and contact not in CONTACTS
    ):
        raise OptionError("contact", CONTACTS, contact)
    if contact is False:
        for name, given in (("contact_pairs", pairs), ("contact_law", law)):
            if given is not None:
                raise ModelError(f"{name}: expected a model of contact with it, got contact=False")
        return ()
    ground = world.ground
    if contact is None and ground is None and pairs is None:
        if law is not None:
            raise ModelError(
                "contact_law: expected contact with it, got a world without ground; give the world "
                "a Ground, or contact_pairs"
            )
        return ()
    compliant = contact == "compliant"
    if contact is None:
        compliant = ground is not None and ground.normal_stiffness > 0.0
    found: ContactElement | None
    if compliant:
        if law is not None and not callable(law):
            raise OptionError("contact_law with compliant contact", ("a function", None), law)
        found = CompliantContact.of(model, world, pairs)
        found = None if found is None else replace(found, law=law)
    else:
        if not (law is None or (isinstance(law, str) and law in RIGID_LAWS)):
            raise OptionError("contact_law with rigid contact", RIGID_LAWS, law)
        kind = ExactContact if contact == "exact" else RigidContact
        found = kind.of(model, world, pairs)
    if found is None and contact is not None:
        raise ModelError(
            f"model {model.name!r}: contact={contact!r} needs shapes that may touch, got none; "
            "give the world a Ground, and the robot contact points or collision shapes"
        )
    return () if found is None else (found,)


STICK_FREQUENCY = 300.0
"""Default natural frequency of the moved inertia on the bristles [rad/s]."""


def _stick_slips(model: Model) -> list[Element]:
    """Return stick-slip elements of all joints with Coulomb friction, scaled by inertia."""
    found: list[Element] = []
    inertias = apparent_joint_inertia(model)
    for joint in model.joints:
        if joint.passive is None or joint.dof == 0:
            continue
        inertia = inertias[model.slice(joint.name, of="v")]
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
                    dof_index=k,
                )
            )
    return found
