"""Water for users: thrusters, fins, the form of marine control, flow around cylinders.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import surroundings
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, ShapeError
from tiburon.functions.keywords import DELIVERY, MODEL_CALL, Delivery, ModelCall, WorldCall
from tiburon.functions.library import (
    Inputs,
    LibraryFunction,
    front_door,
    inputs_of,
    library_function,
)
from tiburon.model import CylinderDrag, Fin, Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.model.plan import WORLD_BODY
from tiburon.record import named_line
from tiburon.spatial import Motion, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

REGIMES = (
    (250.0, "laminar"),
    (2e5, "subcritical"),
    (3.5e6, "critical"),
    (math.inf, "supercritical"),
)
"""Upper ends of Reynolds numbers, and what the flow around a smooth cylinder is called there."""


# -- thrusters ------------------------------------------------------------------------------------


def _per_thruster(name: str, model: Model) -> Input:
    """Return an array with one value per thruster."""
    count = len(model.thrusters)
    if count == 0:
        raise ModelError(
            f"model {model.name!r}: expected a robot with thrusters, got none; give it "
            "thrusters=(Thruster(...), ...)"
        )
    described = f"{count} (one per thruster: {', '.join(t.name for t in model.thrusters[:4])}"
    described += ", ...)" if count > 4 else ")"
    return Input(name, (count,), described=described)


def _inputs(name: str) -> Inputs:
    def inputs(model: Model, options: Options) -> list[Input]:
        return [*inputs_of("q")(model, options), _per_thruster(name, model)]

    return inputs


def _lag_inputs(model: Model, options: Options) -> list[Input]:
    return [_per_thruster("thrust", model), _per_thruster("commands", model), Input("dt", ())]


def _thrusters(model: Model) -> Options:
    """Return what code depends on beside the layout: thrusters are compiled in."""
    return (("thrusters", model.thrusters),)


@library_function("thruster_force", _inputs("commands"), parameters=(), keywords=MODEL_CALL)
def _of_commands(setting: Setting, q: Scalars, commands: Scalars) -> Any:
    from tiburon.algorithms.water.thrusters import thrusts

    return _of_thrust(setting, q, thrusts(setting.model.thrusters, commands))


def _of_thrust(setting: Setting, q: Scalars, thrust: Scalars) -> Any:
    from tiburon.algorithms.water.thrusters import thruster_joint_forces

    return as_traced(list(thruster_joint_forces(setting.model, setting.plan, q, thrust)))


@library_function("thrust_after", _lag_inputs, parameters=(), keywords=DELIVERY)
def _lag(setting: Setting, thrust: Scalars, commands: Scalars, dt: Scalars) -> Any:
    from tiburon.algorithms.water.thrusters import thrusts

    thrusters = setting.model.thrusters
    later = []
    for thruster, f, steady in zip(thrusters, thrust, thrusts(thrusters, commands), strict=True):
        T = thruster.time_constant
        later.append(steady + (f - steady) * np.exp(-dt[0] / T) if T > 0.0 else steady)
    return as_traced(later)


_OF_THRUST: LibraryFunction[Array] = LibraryFunction(
    "thruster_force_of_thrust", _inputs("thrust"), _of_thrust, parameters=(), keywords=MODEL_CALL
)


@front_door(_of_commands)
def thruster_force(
    model: Model, q: ArrayLike, commands: ArrayLike, **options: Unpack[ModelCall]
) -> Array:
    """Compute the joint forces of all thrusters at their commands.

    Add them to the forces of motors: ``tau = tb.thruster_force(rov, q, u) + motors``.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        commands: One per thruster, in the order of `model.thrusters` and the unit of their curves,
            shape (..., thrusters).

    Returns:
        Joint force of steady thrust, without the lag of propellers [N or N m], shape (..., nv).
    """
    return _of_commands.request(model, (q, commands), options, _thrusters(model))


@front_door(_OF_THRUST)
def thruster_force_of_thrust(
    model: Model, q: ArrayLike, thrust: ArrayLike, **options: Unpack[ModelCall]
) -> Array:
    """Compute the joint forces of thrusters whose thrusts are known.

    Where propellers lag, the thrust is a state, which `thrust_after` moves on.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        thrust: One per thruster, along its direction [N], shape (..., thrusters).

    Returns:
        Joint force [N or N m], shape (..., nv); linear in the thrusts.
    """
    return _OF_THRUST.request(model, (q, thrust), options, _thrusters(model))


@front_door(_lag)
def thrust_after(
    model: Model,
    thrust: ArrayLike,
    commands: ArrayLike,
    dt: ArrayLike,
    **delivery: Unpack[Delivery],
) -> Array:
    """Compute what thrusts become while commands are held: they follow with a lag of first order.

    d thrust / dt = (steady thrust - thrust) / `time_constant`, solved exactly, so that no step is
    too long. A thruster whose time constant is zero follows at once.

    Args:
        thrust: Now, one per thruster [N], shape (..., thrusters).
        commands: Held meanwhile, in the unit of the curves, shape (..., thrusters).
        dt: Time step [s], shape (...).

    Returns:
        Thrust after that time [N], shape (..., thrusters).

    Example:
        ``thrust = tb.thrust_after(rov, thrust, u, 0.01)``, then
        ``tau = tb.thruster_force_of_thrust(rov, q, thrust)``
    """
    return _lag.request(model, (thrust, commands, dt), delivery, _thrusters(model))


# -- fins -----------------------------------------------------------------------------------------


@public
def steerable_fins(model: Model) -> tuple[tuple[str, Fin], ...]:
    """Return the fins that can be turned, those whose `deflection` is a float.

    Args:
        model: The robot.

    Returns:
        Name of the body and fin, in the order of bodies, and of the fins of each.
    """
    from tiburon.algorithms.water.fins import movable_fins

    return movable_fins(model)


def _fin_inputs(model: Model, options: Options) -> Sequence[Input]:
    fins = steerable_fins(model)
    if not fins:
        raise ModelError(
            f"model {model.name!r}: expected fins that can be turned, got none; give a body "
            "BodyFluid(fins=(Fin(..., deflection=0.0), ...))"
        )
    listed = ", ".join(fin.name or f"of {body}" for body, fin in fins[:4])
    described = f"{len(fins)} (one per fin that can be turned: {listed}"
    described += ", ...)" if len(fins) > 4 else ")"
    angles = Input("deflections", (len(fins),), described=described)
    return inputs_of("q", "v", angles)(model, options)


@library_function("fin_force", _fin_inputs)
def _fins(setting: Setting, q: Scalars, v: Scalars, deflections: Scalars) -> Any:
    from tiburon.algorithms.water.fins import fin_joint_forces

    return as_traced(list(fin_joint_forces(setting, q, v, deflections)))


@front_door(_fins)
def fin_force(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    deflections: ArrayLike,
    fluid: Water | Sequence[Water] | None = None,
    *,
    world: World | None = None,
    time: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    **delivery: Unpack[Delivery],
) -> Array:
    """Compute the joint forces that turning fins adds to those at the angles the model has.

    Added to the joint forces that dynamics takes, they give the motion with fins at these angles:
    dynamics in the same water already holds the rest of what fins do.

    Args:
        q, v: Configuration and joint velocity.
        deflections: Angles about their spans [rad], shape (..., fins), in the order of
            `steerable_fins`.
        fluid: The water it is in.
        world: Surroundings, in place of `fluid`.
        time: When [s], shape (...), where the water changes; zero by default.
        parameters: Values by name in place of those of robot and water, one or one per case.

    Returns:
        Joint force [N or N m], shape (..., nv).

    Raises:
        ModelError: If there is no water, or no fin can be turned.

    Example:
        ``tau = tb.fin_force(auv, q, v, [0.1, -0.1], tb.Water(1025.0))``
    """
    conditions: WorldCall = {
        "world": world,
        "fluid": fluid,
        "time": time,
        "parameters": parameters,
        **delivery,
    }
    # code depends on the link on which each fin is
    links = tuple(model.plan.frame(body).body for body, _ in steerable_fins(model))
    return _fins.request(model, (q, v, deflections), conditions, (("links of fins", links),))


# -- the form of marine control -------------------------------------------------------------------


class FossenForm(NamedTuple):
    """Terms of M vd + C v + D v + g = tau, for one state or a batch, in the order of our v."""

    M: Array
    """Mass matrix with added mass [kg, kg m or kg m^2], shape (..., nv, nv)."""

    C: Array
    """Coriolis matrix, joint force per velocity, shape (..., nv, nv)."""

    D: Array
    """Damping matrix, joint force per velocity, shape (..., nv, nv)."""

    g: Array
    """Weight less buoyancy, as joint force [N or N m], shape (..., nv)."""

    v: Array
    """Velocity relative to the water [m/s or rad/s], shape (..., nv)."""

    drift: Array
    """What the rate of that velocity lacks to `vd`: the rate is vd - drift, shape (..., nv)."""

    def __repr__(self) -> str:
        return named_line(self)


@library_function("fossen_form", ("q", "v"), make=FossenForm, trees_only=True)
def _fossen(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.water.fossen_form import marine_terms

    return marine_terms(setting, q, v)


@front_door(_fossen)
def fossen_form(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    fluid: Water | Sequence[Water] | None = None,
    *,
    world: World | None = None,
    time: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    **delivery: Unpack[Delivery],
) -> FossenForm:
    """Compute the terms of M vd + C v + D v + g = tau, the equation of motion of marine control.

    Velocities in it are relative to the water: ``form.M @ (vd - form.drift) + form.C @ form.v +
    form.D @ form.v + form.g`` is the joint force `tau` of inverse dynamics. dM/dt - 2 C is
    skew-symmetric, as passivity-based control requires, and D v is the whole drag and lift. At a
    free surface M uses the submerged fractions at q, and its rate is taken at constant fractions,
    since slamming is not modeled. Rows and columns have the angular part first;
    `matrix_to_fossen` converts 6x6 blocks to marine order and axes.

    Args:
        q, v: Configuration and joint velocity.
        fluid: The surrounding water, with a uniform current; on land by default.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 by default.
        time: When [s], shape (...), where the water changes; zero by default.
        parameters: Values by name in place of those of robot and water, one or one per case.

    Returns:
        M, C, D, g, the velocity relative to the water, and how its rate differs from vd.

    Raises:
        ModelError: If the water moves differently in different places, or carries a robot that
            does not float: then no velocity relative to the water stands in v.

    Example:
        ``M, C, D, g = tb.fossen_form(rov, rov.neutral(), np.zeros(rov.nv), sea)[:4]``
    """
    conditions: WorldCall = {
        "world": world,
        "fluid": fluid,
        "time": time,
        "parameters": parameters,
        **delivery,
    }
    return _fossen.request(model, (q, v), conditions)


# -- flow around cylinders ------------------------------------------------------------------------


@dataclass(frozen=True)
class CylinderFlow:
    """The flow across one cylinder of a robot, at its middle."""

    body: str
    """Name of the body it belongs to."""

    index: int
    """Which of the body's shapes of drag it is, from 0."""

    speed: float
    """Of the flow across its axis [m/s]."""

    reynolds: float
    """Speed times diameter by kinematic viscosity."""

    regime: str
    """ "laminar", "subcritical", "critical" or "supercritical"; in the critical one, the drag
    crisis, coefficients fall by half or more."""

    shedding_frequency: float
    """At which vortices leave it [Hz], by Strouhal number 0.198 (1 - 19.7 / Re); zero below
    Re = 250, where the formula ends."""


@public
def cylinder_flows(
    model: Model, q: ArrayLike, v: ArrayLike, fluid: Water, *, time: float = 0.0
) -> tuple[CylinderFlow, ...]:
    """Compute the flow regime of every cylinder with drag.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,).
        fluid: The water, with its viscosity.
        time: When [s].

    Returns:
        One entry per cylinder, in the order of the bodies. Bodies fixed to the world are left out.

    Raises:
        ModelError: If the water has no viscosity or density, or the robot nothing that water meets.

    Example:
        ``tb.cylinder_flows(rov, q, v, tb.Water(1025.0, (0.5, 0, 0), viscosity=1.1e-3))``
    """
    from tiburon.algorithms.water.fluid import relative_motions

    fluid.refuse_cases("cylinder_flows")
    if fluid.viscosity <= 0.0 or fluid.density <= 0.0:
        raise ModelError(
            f"fluid: Reynolds numbers need viscosity and density, got {fluid.viscosity:g} Pa s and "
            f"{fluid.density:g} kg/m^3; sea water at 15 degrees has Water(1025.0, viscosity=1.2e-3)"
        )
    position = _one_case(q, model.nq, "q", model.describe_q())
    rate = _one_case(v, model.nv, "v", model.describe_v())
    plan, _, water = surroundings(model, World(fluid=fluid))
    assert water is not None
    around = water._replace(time=time)
    motions = relative_motions(plan.at(time), position.tolist(), rate.tolist(), around)
    found = []
    # bodies of one link meet the water as one, or one after the other in the order of the model
    met = [cycle(parts) for parts in motions]
    for body in model.bodies:
        frame = plan.frame(body.name)
        if body.fluid is None or frame.body == WORLD_BODY:
            continue
        motion = frame.transform.motion(next(met[frame.body]))
        for index, drag in enumerate(body.fluid.drag):
            if isinstance(drag, CylinderDrag):
                found.append(_flow(body.name, index, drag, motion, fluid))
    return tuple(found)


def _one_case(values: ArrayLike, size: int, argument: str, expected: str) -> Array:
    """Return the values of one state."""
    array = as_batch(values, size, argument, expected)
    if array.ndim != 1:
        raise ShapeError(argument, expected, array.shape, advice="this report takes one state")
    return array


def _flow(body: str, index: int, drag: CylinderDrag, motion: Motion, fluid: Water) -> CylinderFlow:
    """Return the flow across the middle of one cylinder of a body."""
    axis = np.array(drag.axis)
    middle = np.array(drag.start) + 0.5 * drag.length * axis
    w, u = (np.array(part, dtype=float) for part in (motion.angular, motion.linear))
    u = u + np.cross(w, middle)
    speed = float(np.linalg.norm(u - axis * (axis @ u)))
    diameter = 2.0 * drag.radius
    reynolds = fluid.density * speed * diameter / fluid.viscosity
    regime = next(name for end, name in REGIMES if reynolds < end)
    shedding = 0.0
    if regime != "laminar":
        shedding = 0.198 * (1.0 - 19.7 / reynolds) * speed / diameter
    return CylinderFlow(body, index, speed, reynolds, regime, shedding)
