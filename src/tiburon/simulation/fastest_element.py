"""Which element of a run is the fastest: for the advice about steps that are too long for it.

The rate of an element at a degree of freedom is |df/dv| / m, or the square root of |df/dq| / m,
with its generalized force f and the apparent inertia m of the degree of freedom. Both slopes are
differences on floats, at rest: states of a run that has exploded already would hide them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.element import AppliedForces, StateKinematics
from tiburon.actuation.joint_stops import apparent_joint_inertia
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arrays import Array, NDArray
from tiburon.errors import TiburonError
from tiburon.functions.assembly import resting_position
from tiburon.model import Model
from tiburon.simulation.control_calls import decide
from tiburon.simulation.system import System

STEP = 1e-6
"""Difference of positions and velocities [rad or m, rad/s or m/s]."""

MOST_PLACES = 12
"""Velocity variables that are looked at: each costs four evaluations of all elements."""

CONTROLLER = "the controller"
"""What the forces of a traced controller are named."""


class FastestElement(NamedTuple):
    """An element and its rate."""

    name: str
    """In words."""

    rate: float
    """Largest of its rates [1/s]."""


def fastest_element(system: System, place: int, time: float) -> FastestElement | None:
    """Return the element with the fastest rate at a joint and those that carry it; None without.

    Args:
        system: The system; contacts, whose steps are checked at the start, are left out.
        place: Velocity variable of the joint.
        time: Time [s].
    """
    model = system.model
    rates: dict[str, float] = {}
    try:
        inertia = apparent_joint_inertia(model)
        with np.errstate(all="ignore"):
            for k in _carrying(model, place):
                for name, rate in _rates(system, k, float(inertia[k]), time):
                    rates[name] = max(rate, rates.get(name, 0.0))
    except (TiburonError, ArithmeticError, ValueError, TypeError, RuntimeError, LookupError):
        # forces of users that are not evaluated on floats
        return None
    if not rates or not max(rates.values()) > 0.0:
        return None
    name = max(rates, key=lambda key: rates[key])
    return FastestElement(name, rates[name])


def _carrying(model: Model, place: int) -> list[int]:
    """Return velocity variables of a joint and of those that carry it, at most `MOST_PLACES`."""
    bodies = {body.name: body for body in model.bodies}
    slices = {body.name: model.slice(body.joint.name, of="v") for body in model.bodies}
    name = next((n for n, at in slices.items() if at.start <= place < at.stop), "")
    found = [place]
    while name in bodies:
        found += [k for k in range(slices[name].start, slices[name].stop) if k != place]
        name = bodies[name].parent
    return found[:MOST_PLACES]


def _rates(system: System, place: int, inertia: float, time: float) -> Iterator[tuple[str, float]]:
    """Yield the rate of each element at a velocity variable [1/s]."""
    rest = resting_position(system.model)
    unit = np.zeros(system.model.nv)
    unit[place] = STEP
    moved = (system.model.integrate(rest, step) for step in (-unit, unit))
    before, after = (_forces(system, q, 0.0 * unit, time) for q in moved)
    slow, fast = (_forces(system, rest, v, time) for v in (-unit, unit))
    for name in after:
        stiffness = abs(after[name][place] - before[name][place]) / (2.0 * STEP)
        damping = abs(fast[name][place] - slow[name][place]) / (2.0 * STEP)
        rate = max(damping / inertia, float(np.sqrt(stiffness / inertia)))
        yield name, rate if np.isfinite(rate) else 0.0


def _forces(
    system: System, q: NDArray[np.float64], v: NDArray[np.float64], time: float
) -> dict[str, Array]:
    """Return the generalized force of each element and of the controller [N or N m]."""
    model = system.model
    x = tuple(np.float64(value) for value in system.x0)
    u = np.zeros(system.drive_size)
    u[system.discrete] = system.z0
    held = tuple(np.float64(value) for value in u)
    position = JointVector([np.float64(value) for value in q])
    velocity = JointVector([np.float64(value) for value in v])
    here = system.setting(position, velocity, np.float64(time))
    kinematics = StateKinematics(here, position, velocity)
    found: dict[str, Array] = {}
    if system.control is not None and not system.held:
        commands, *_ = decide(system, position, velocity, x, held, np.float64(time))
        found[CONTROLLER] = np.array([float(value) for value in commands[: model.nv]])
    contexts: Any = system.contexts(
        kinematics, x, held, held[system.discrete.start :], np.float64(time), None
    )
    still = JointVector([0.0] * model.nv)
    for placed, now in contexts:
        element = placed.element
        if isinstance(element, ContactElement):
            continue
        one = AppliedForces((0.0,) * model.nv)
        action = element.act(now)
        one.take(model, element, action, len(action.rates))
        force = np.array([float(value) for value in one.force])
        if one.wrenches:
            pushed = one.added_to(here._replace(external=None), position).external
            balance = rnea(here.plan, position, still, still, (0.0, 0.0, 0.0), pushed)
            force = force - np.array([float(value) for value in balance])
        found[f"element {element.name!r}"] = force
    return found
