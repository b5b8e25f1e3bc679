"""Parameters of robot and water that can be changed during the simulation, without compilation."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.surroundings import structure_around
from tiburon.argument_checks import is_number
from tiburon.errors import DomainError, ModelError, UnknownNameError, shown
from tiburon.model import Body, BodyFluid, Model, Water, World
from tiburon.model.currents import UniformCurrent
from tiburon.simulation.sensing import Sensing
from tiburon.simulation.system import System

AXES = ("x", "y", "z")

ZERO_CURRENT = 1e-12
"""Speed that replaces zero [m/s], so that code is generated for water with a current."""

ROUNDING = 1e-9
"""Relative difference of compiled-in lengths that counts as rounding."""


class TunableParameter(NamedTuple):
    """A parameter that can be changed."""

    name: str
    """Kind and element, such as "mass.vehicle" or "current.x"."""

    value: float
    """Current value."""

    unit: str
    least: float
    """Smallest valid value."""


def tunable_parameters(
    model: Model, world: World, factors: Mapping[str, float] | None = None
) -> tuple[TunableParameter, ...]:
    """Return all parameters that can be changed.

    Masses (the inertia tensor is scaled), volumes, drag (a factor on all drag and damping of a
    body), the current and density of the water, and gravity.
    """
    found = []
    for body in model.bodies:
        if body.inertia.mass > 0.0:
            found.append(TunableParameter(f"mass.{body.name}", body.inertia.mass, "kg", 1e-9))
    fluid = world.fluid
    if fluid is not None:
        for body in model.bodies:
            if body.fluid is not None and body.fluid.volume > 0.0:
                found.append(
                    TunableParameter(f"volume.{body.name}", body.fluid.volume, "m^3", 1e-12)
                )
            if body.fluid is not None and _has_drag(body.fluid):
                name = f"drag.{body.name}"
                found.append(TunableParameter(name, (factors or {}).get(name, 1.0), "1", 1e-9))
        if isinstance(fluid.motion, UniformCurrent):
            for axis, speed in zip(AXES, fluid.motion.speed, strict=True):
                shown = 0.0 if abs(speed) <= ZERO_CURRENT else speed
                found.append(TunableParameter(f"current.{axis}", shown, "m/s", -math.inf))
        if fluid.density > 0.0:
            found.append(TunableParameter("density", fluid.density, "kg/m^3", 1e-9))
    strength = math.hypot(*world.gravity)
    if strength > 0.0:
        found.append(TunableParameter("gravity", strength, "m/s^2", 1e-9))
    return tuple(found)


def edited(
    model: Model,
    world: World,
    changes: Mapping[str, float],
    factors: Mapping[str, float] | None = None,
) -> tuple[Model, World, dict[str, float]]:
    """Return robot and surroundings with other parameters.

    Args:
        model: The robot.
        world: Its surroundings.
        changes: Values by names as in `tunable_parameters`.
        factors: Current factors on drag: a new one replaces the old one.

    Returns:
        The robot, its surroundings, and all factors on drag.

    Raises:
        UnknownNameError: If there is no such parameter.
        DomainError: If a value is out of range.
    """
    known = {parameter.name: parameter for parameter in tunable_parameters(model, world, factors)}
    present = dict(factors or {})
    bodies: dict[str, Body] = {}
    for name, value in changes.items():
        parameter = known.get(name)
        if parameter is None:
            raise UnknownNameError("parameter to change", name, known)
        number = _finite(parameter, value)
        kind, _, place = name.partition(".")
        if kind in ("mass", "volume", "drag"):
            body = bodies.get(place) or model.body(place)
            before = present.get(name, 1.0)
            bodies[place] = _changed(body, kind, number / before if kind == "drag" else number)
            if kind == "drag":
                present[name] = number
        else:
            world = _changed_world(world, kind, place, number)
    if bodies:
        parts = model._parts._replace(bodies=tuple(bodies.get(b.name, b) for b in model.bodies))
        model = model._changed(parts, None)
    return model, world, present


def _finite(parameter: TunableParameter, value: Any) -> float:
    number = float(value) if is_number(value) else math.nan
    if not math.isfinite(number) or number < parameter.least:
        least = "a number" if parameter.least == -math.inf else f"a number above 0 {parameter.unit}"
        raise DomainError(parameter.name, least, shown(value))
    return number


def _has_drag(fluid: BodyFluid) -> bool:
    return (
        bool(fluid.drag) or fluid.linear_damping is not None or fluid.quadratic_damping is not None
    )


def _changed(body: Body, kind: str, value: float) -> Body:
    """Return a body with another mass, volume, or drag times a factor."""
    if kind == "mass":
        inertia = body.inertia
        scale = value / inertia.mass
        a, b, c, d, e, f = (scale * x for x in inertia.tensor)
        return replace(body, inertia=replace(inertia, mass=value, tensor=(a, b, c, d, e, f)))
    fluid = body.fluid
    assert fluid is not None
    if kind == "volume":
        return replace(body, fluid=replace(fluid, volume=value))
    scaled: dict[str, Any] = {"drag": tuple(_scaled_drag(part, value) for part in fluid.drag)}
    for name in ("linear_damping", "quadratic_damping"):
        matrix = getattr(fluid, name)
        if matrix is not None:
            scaled[name] = tuple(tuple(value * x for x in row) for row in matrix)
    return replace(body, fluid=replace(fluid, **scaled))


def _scaled_drag(part: Any, factor: float) -> Any:
    """Return drag with all its coefficients times a factor."""
    found = {}
    for name in ("side_coefficient", "coefficient"):
        if hasattr(part, name):
            found[name] = factor * getattr(part, name)
    for name in ("end_coefficients", "coefficients"):
        if hasattr(part, name):
            found[name] = tuple(factor * x for x in getattr(part, name))
    return replace(part, **found)


def _changed_world(world: World, kind: str, axis: str, value: float) -> World:
    """Return surroundings with another current, density or gravity."""
    if kind == "gravity":
        scale = value / math.hypot(*world.gravity)
        x, y, z = (scale * g for g in world.gravity)
        return replace(world, gravity=(x, y, z))
    fluid: Water | None = world.fluid
    if fluid is None:
        raise ModelError(f"{kind}: expected a robot in water, got one on land")
    if kind == "density":
        return replace(world, fluid=fluid.with_density(value))
    assert isinstance(fluid.motion, UniformCurrent)
    flow = list(fluid.motion.speed)
    flow[AXES.index(axis)] = value
    return ready_for_edits(
        replace(world, fluid=replace(fluid, current=(flow[0], flow[1], flow[2])))
    )


def ready_for_edits(world: World) -> World:
    """Return surroundings whose current has no zero component, see `ZERO_CURRENT`."""
    fluid = world.fluid
    if fluid is None or not isinstance(fluid.motion, UniformCurrent):
        return world
    x, y, z = (speed or ZERO_CURRENT for speed in fluid.motion.speed)
    return replace(world, fluid=replace(fluid, current=(x, y, z)))


def same_code(system: System, other: System) -> bool:
    """Return whether two systems share their code.

    They do if they differ in run-time parameters only. Lengths that differ by rounding, such as a
    center of buoyancy recomputed from another volume, count as equal.
    """
    if system.key == other.key:
        return True
    parts = [
        (s.model.structure_key(), structure_around(s.model, s.world), s.code.structure(s))
        for s in (system, other)
    ]
    sizes = [{k: np.shape(v) for k, v in s.parameters().items()} for s in (system, other)]
    return sizes[0] == sizes[1] and _close_to(*parts)


def exchange_sensing(sensing: Sensing, system: System, parameters: Mapping[str, Any]) -> None:
    """Exchange the parameters of the robot that sensors evaluate."""
    kernel = sensing.kernel.__self__
    sensing.system = system
    numbers = {k: v for k, v in parameters.items() if k in kernel.parameters}
    sensing.__dict__["kernel"] = kernel.with_parameters(**numbers)


def _close_to(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_close_to, one, other))
    return bool(one == other)
