"""Default force elements of a robot, from its own data."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.actuation.actuator_drive import ForceDrive, MotorDrive
from tiburon.actuation.cable_drive import CableDrive
from tiburon.actuation.compliant_contact import CompliantContact
from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.cylinder_drive import CylinderDrive
from tiburon.actuation.element import Element, per_degree_of_freedom
from tiburon.actuation.exact_contact import ExactContact
from tiburon.actuation.gravity_compensation import GravityCompensation
from tiburon.actuation.joint_laws import (
    PASSIVE,
    STOP,
    JointLaws,
    LawChoice,
    chosen_joints,
    ended_servos,
    resolved_joints,
    rubbing_joints,
)
from tiburon.actuation.joint_stops import STOP_FREQUENCY, JointStops, apparent_joint_inertia
from tiburon.actuation.passive import FRICTION_SPEED, passive_elements
from tiburon.actuation.point_spring import PointSpring
from tiburon.actuation.rigid_contact import LAWS, RigidContact
from tiburon.actuation.servo_drive import ServoDrive
from tiburon.actuation.stick_slip import STICK_FREQUENCY, StickSlip
from tiburon.actuation.thruster_drive import ThrusterDrive
from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.contact.candidates import acts_by_default, refuse_meshes
from tiburon.contact.compliant import ContactLaw
from tiburon.contact.rigid import TOLERANCE
from tiburon.errors import DomainError, ModelError, OptionError, shown
from tiburon.model import Actuator, Coupled, Model, Thruster, World
from tiburon.model.attachments import Cable, HydraulicCylinder, Spring
from tiburon.trace.primitives.friction_newton import MOST_COLUMNS

PASSIVES = (True, False, "stick_slip")
"""Options for passive forces."""

CONTACTS = ("rigid", "compliant", "exact", False)
"""Models of contact; None chooses by the ground."""

LEAST_TOLERANCE, MOST_TOLERANCE = 1e-13, 1e-3
"""Tolerances of contact impulses: rounding limits them, and with coarser ones contacts slide."""


@public
def elements_of(
    model: Model,
    *,
    passive: bool | str = True,
    limits: bool = True,
    friction_speed: float = FRICTION_SPEED,
    stop_frequency: float = STOP_FREQUENCY,
    laws: Sequence[LawChoice] = (),
) -> tuple[Element, ...]:
    """Return the force elements of a robot: actuators, thrusters, friction, springs, stops.

    Args:
        model: The robot.
        passive: Whether friction and springs of joints (`JointPassive`) and springs between frames
            (`Spring`) act. True: smooth Coulomb friction, with creep under load. "stick_slip":
            stiction, with one state per degree of freedom.
        limits: Whether joints have stops at their `JointLimits`.
        friction_speed: Speed over which smooth friction changes sign [rad/s or m/s].
        stop_frequency: Natural frequency of the moved inertia on its stop [rad/s].
        laws: Friction, damping, springs and stops of joints that act at the ends of steps, as
            `unresolved_laws` chooses them.

    Returns:
        Actuators, thrusters, cylinders, cables, springs, passive forces, stops, each in order; last
        the laws at the ends of steps.
    """
    check_passive(passive)
    found = list(as_elements((*model.actuators, *model.thrusters, *model.cylinders, *model.cables)))
    servos = ended_servos(laws)
    found = [
        replace(one, at_ends=True) if isinstance(one, ServoDrive) and one.name in servos else one
        for one in found
    ]
    if passive:
        smooth = passive != "stick_slip"
        ended = chosen_joints(laws, PASSIVE)
        found += passive_elements(
            model,
            friction_speed=friction_speed,
            coulomb=smooth,
            at_ends=ended,
            resolved=resolved_joints(model, laws),
        )
        found += [] if smooth else _stick_slips(model, rubbing_joints(laws))
        balance = GravityCompensation.of(model)
        found += [] if balance is None else [balance]
    if limits:
        frequency = positive("stop_frequency", stop_frequency, "rad/s")
        stops = JointStops.of(model, frequency=frequency, at_ends=chosen_joints(laws, STOP))
        found += [] if stops is None else [stops]
    last = JointLaws.of(model, laws) if laws else None
    return tuple(found) if last is None else (*found, last)


def check_passive(passive: object) -> None:
    """Raise OptionError unless `passive` is an option of passive forces."""
    known = isinstance(passive, (bool, np.bool_, str)) and passive in PASSIVES
    if not known:
        raise OptionError("passive", PASSIVES, passive)


def as_elements(parts: Iterable[object]) -> tuple[Element, ...]:
    """Convert springs, cables, cylinders, actuators and thrusters to elements; elements stay.

    Raises:
        ModelError: If a part cannot be converted, or `parts` is not a list.
    """
    given: object = parts
    if type(given) is not tuple and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise ModelError(f"forces: expected a list, got {shown(given)}; write forces=[...]")
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
    raise ModelError(
        f"forces: expected an element, a Spring, a HydraulicCylinder, a Cable, an Actuator or "
        f"a Thruster, got {shown(part)}; wrap functions in ForceFunction(name, function)"
    )


def _tolerance(tolerance: Any) -> float:
    """Return the residual of contact impulses.

    Raises:
        DomainError: If it cannot be reached, or is not a tolerance.
    """
    if tolerance is None:
        return TOLERANCE
    try:
        found = math.nan if isinstance(tolerance, (str, bool)) else float(tolerance)
    except (TypeError, ValueError):
        found = math.nan
    if not LEAST_TOLERANCE <= found <= MOST_TOLERANCE:
        raise DomainError(
            "contact_tolerance",
            f"a value from {LEAST_TOLERANCE:g} to {MOST_TOLERANCE:g}",
            f"{tolerance!r}" if found != found else f"{found:g}",
            advice="leave it out for 1e-8 of the largest impulse",
        )
    return found


def contact_elements(
    model: Model,
    world: World,
    contact: str | bool | None,
    pairs: Sequence[tuple[str, str]] | None = None,
    law: ContactLaw | str | None = None,
    tolerance: float | None = None,
) -> tuple[Element, ...]:
    """Return the contacts of a robot with its world as elements.

    Args:
        model: The robot.
        world: Its surroundings.
        contact: "rigid", "compliant", "exact", False for none, or None where there is ground and
            something of the robot can touch it, or where pairs are named, here or by the robot:
            compliant if the ground has a stiffness, else rigid.
        pairs: Names of two bodies each that may touch, "world" for the ground.
        law: "coulomb" or "convex" of rigid contact, or a function of compliant contact; their own
            by default.
        tolerance: Residual of the impulses of rigid contact, relative to the largest impulse.

    Raises:
        OptionError: If there is no such model or law of contact.
        ModelError: If nothing can touch where contact is requested.
    """
    if not (contact is None or contact is False or isinstance(contact, str)) or (
        isinstance(contact, str) and contact not in CONTACTS
    ):
        raise OptionError("contact", CONTACTS, contact)
    if contact is False:
        for name, given in (
            ("contact_pairs", pairs),
            ("contact_law", law),
            ("contact_tolerance", tolerance),
        ):
            if given is not None:
                raise ModelError(f"{name}: expected a model of contact with it, got contact=False")
        return ()
    ground = world.ground
    if contact is None and not acts_by_default(model, world, pairs):
        for name, given in (("contact_law", law), ("contact_tolerance", tolerance)):
            if given is not None:
                raise ModelError(
                    f"{name}: expected contact with it, got a world without ground; give the world "
                    "a Ground, or contact_pairs, here or in the Model"
                )
        return ()
    compliant = contact == "compliant"
    if contact is None:
        compliant = ground is not None and ground.normal_stiffness > 0.0
    found: ContactElement | None
    if compliant:
        if law is not None and not callable(law):
            raise OptionError("contact_law with compliant contact", ("a function", None), law)
        if tolerance is not None:
            raise ModelError(
                "contact_tolerance: expected rigid contact with it, got compliant; leave it out"
            )
        found = CompliantContact.of(model, world, pairs)
        found = None if found is None else replace(found, law=law)
    else:
        if not (law is None or (isinstance(law, str) and law in LAWS)):
            raise OptionError("contact_law with rigid contact", LAWS, law)
        enough = _tolerance(tolerance)
        if contact == "exact":
            for name, given in (("contact_law", law), ("contact_tolerance", tolerance)):
                if given not in (None, "coulomb"):
                    raise ModelError(
                        f"{name}: expected contact='rigid' with it, got 'exact'; leave it out"
                    )
            found = ExactContact.of(model, world, pairs)
        else:
            rigid = RigidContact.of(model, world, pairs)
            found = rigid
            if rigid is not None:
                named = LAWS[0] if law is None else str(law)
                found = replace(rigid, law=named, tolerance=enough)
                if named == "convex" and model.nv > MOST_COLUMNS:
                    raise ModelError(
                        f"contact_law: 'convex' is solved for up to {MOST_COLUMNS} velocities, got "
                        f"{model.nv} of model {model.name!r}; use 'coulomb'"
                    )
    if found is None and contact is not None:
        raise ModelError(
            f"model {model.name!r}: contact={contact!r} needs shapes that may touch, got none; "
            "give the world a Ground, and the robot contact points or collision shapes"
        )
    if found is not None and not isinstance(found, RigidContact):
        kind = "compliant" if isinstance(found, CompliantContact) else "exact"
        refuse_meshes(found.candidates, f"contact={kind!r}", hulls=True)
    return () if found is None else (found,)


def _stick_slips(model: Model, at_ends: Collection[str]) -> list[Element]:
    """Return stick-slip elements of joints with Coulomb friction, scaled by inertia.

    Joints whose friction acts at the ends of steps stick anyway.
    """
    found: list[Element] = []
    inertias = apparent_joint_inertia(model)
    for joint in model.joints:
        if joint.passive is None or joint.dof == 0 or joint.name in at_ends:
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
