"""Kinetic and potential energy.

Symbols:
    X       map of motion from the parent's frame to the body's
    vel     spatial velocity of a body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.functions.keywords import WorldCall, takes_conditions
from tiburon.functions.library import INERTIA, LibraryFunction, Options, call_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.spatial.vec3 import scale, subtract
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import Link, WaterAround

__all__ = ["kinetic", "kinetic_energy", "potential", "potential_energy"]


class _Moving(NamedTuple):
    """Velocity of a body, and twice its kinetic energy."""

    vel: Motion
    twice: Scalar


def kinetic(
    plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], water: "WaterAround | None" = None
) -> Scalar:
    """Compute the kinetic energy, the sum of 1/2 vel . I vel (Featherstone 1987, sec. 3.9).

    Armatures add 1/2 times the square of their joint's velocity. Water adds 1/2 vel . I^A vel with
    velocities relative to it (Newman 1977, sec. 4.14): the energy of what bodies set in motion.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        water: The water around the robot; none by default.

    Returns:
        Kinetic energy [J].
    """
    drifts: Sequence[tuple[Motion, ...]] = ((),) * len(plan.bodies)
    links: Sequence[Link] = ((),) * len(plan.bodies)
    if water is not None:
        from tiburon.algorithms.water.fluid import relative_motions

        drifts, links = relative_motions(plan, q, v, water), water.links

    def visit(body: PlanBody, parent: _Moving, drifts: tuple[Motion, ...], link: "Link") -> _Moving:
        vJ = body.joint.velocity(q[body.q], v[body.v])
        vel = body.transform(q[body.q]).motion(parent.vel) + vJ
        twice = vel.dot(body.inertia.apply(vel))
        for drift, part in zip(drifts, link, strict=True):
            twice = twice + drift.dot(part.added.apply(drift))
        for own, rate in zip(body.armature or (), v[body.v], strict=False):
            twice = twice + own * rate * rate
        return _Moving(vel, twice)

    twice: Scalar = 0.0
    for moving in outward(plan, visit, _Moving(Motion.zero(), 0.0), drifts, links):
        twice = twice + moving.twice
    return 0.5 * twice


def potential(
    plan: Plan, q: Sequence[Scalar], gravity: Vec3, water: "WaterAround | None" = None
) -> Scalar:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Water that a body displaces is lifted when the body sinks: to the surface where there is one,
    else to the height of the world origin.

    Bodies fixed to the world are left out, since their share never changes.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        water: The water around the robot; none by default.

    Returns:
        Potential energy [J].
    """
    density: Scalar = 0.0 if water is None else water.density

    def lifted(body: PlanBody, _: Scalar, place: Place, link: "Link") -> Scalar:
        m, h = body.inertia.mass, body.inertia.h
        displaced: Scalar = 0.0
        for part in link:
            displaced = displaced + density * part.volume
            h = subtract(h, scale(part.moment, density))
        m = m - displaced
        hx, hy, hz = h
        x, y, z = (
            m * p + row[0] * hx + row[1] * hy + row[2] * hz
            for row, p in zip(place.R, place.p, strict=True)
        )
        if water is not None and water.floating is not None:
            # a body takes the place of water that rises to the surface
            z = z + displaced * water.floating.surface
        return gravity[0] * x + gravity[1] * y + gravity[2] * z

    # U = -g . (sum of m times the center of mass)
    total: Scalar = 0.0
    links = ((),) * len(plan.bodies) if water is None else water.links
    for share in outward(plan, lifted, 0.0, body_places(plan, q), links):
        total = total - share
    return total


def _position(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _state(model: Model, options: Options) -> list[Input]:
    return [*_position(model, options), Input("v", (model.nv,), described=model.describe_v())]


def _run_kinetic(model: Model, world: World | None, options: Options, q: Any, v: Any) -> Any:
    position = scalars(q)
    plan, _, water = surroundings_at(model, world, position)
    return kinetic(plan, position, scalars(v), water)


def _run_potential(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, gravity, water = surroundings_at(model, world, position)
    return potential(plan, position, gravity, water)


_KINETIC = LibraryFunction("kinetic_energy", _state, _run_kinetic, parameters=(INERTIA,))
_POTENTIAL = LibraryFunction("potential_energy", _position, _run_potential)


@public
@takes_conditions
def kinetic_energy(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    **options: Unpack[WorldCall],
) -> np.float64 | NDArray[np.float64]:
    """Compute the kinetic energy.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        **options: `time`; `world` and `fluid`: the energy that bodies give it counts; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Kinetic energy [J], one number per state.
    """
    return _number(call_under(options, _KINETIC, model, (q, v)), options)


@public
@takes_conditions
def potential_energy(
    model: Model,
    q: ArrayLike,
    **options: Unpack[WorldCall],
) -> np.float64 | NDArray[np.float64]:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time. Bodies fixed to the world are left out, since their share never changes.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        **options: `time`; `world` and `fluid`, which lifts what it is displaced by; `out` and
            `errors`: see `Conditions` and `Delivery`.

    Returns:
        Potential energy [J], one number per state.
    """
    return _number(call_under(options, _POTENTIAL, model, (q,)), options)


def _number(result: Any, options: WorldCall) -> np.float64 | NDArray[np.float64]:
    """Return a number for one state, where kernels give an array without dimensions."""
    number: np.float64 | NDArray[np.float64] = result
    if isinstance(result, np.ndarray) and options.get("out") is None:
        number = result[()]
    return number
