"""Kinetic and potential energy.

Symbols:
    X       map of motion from the parent's frame to the body's
    vel     spatial velocity of a body
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.binding import plan_and_gravity
from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.library import INERTIA, LibraryFunction, Options, call, scalars
from tiburon.algorithms.sweep import outward
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.spatial import Motion, Scalar, Vec3
from tiburon.trace.program import Input

__all__ = ["kinetic", "kinetic_energy", "potential", "potential_energy"]


class _Moving(NamedTuple):
    """Velocity of a body, and twice its kinetic energy."""

    vel: Motion
    twice: Scalar


def kinetic(plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar]) -> Scalar:
    """Compute the kinetic energy, the sum of 1/2 vel . I vel (Featherstone 1987, sec. 3.9).

    Armatures add 1/2 times the square of their joint's velocity.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.

    Returns:
        Kinetic energy [J].
    """

    def visit(body: PlanBody, parent: _Moving) -> _Moving:
        vJ = body.joint.velocity(q[body.q], v[body.v])
        vel = body.transform(q[body.q]).motion(parent.vel) + vJ
        twice = vel.dot(body.inertia.apply(vel))
        for own, rate in zip(body.armature or (), v[body.v], strict=False):
            twice = twice + own * rate * rate
        return _Moving(vel, twice)

    twice: Scalar = 0.0
    for moving in outward(plan, visit, _Moving(Motion.zero(), 0.0)):
        twice = twice + moving.twice
    return 0.5 * twice


def potential(plan: Plan, q: Sequence[Scalar], gravity: Vec3) -> Scalar:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    Bodies fixed to the world are left out, since their share never changes.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].

    Returns:
        Potential energy [J].
    """

    def lifted(body: PlanBody, _: Scalar, place: Place) -> Scalar:
        m, (hx, hy, hz) = body.inertia.mass, body.inertia.h
        x, y, z = (
            m * p + row[0] * hx + row[1] * hy + row[2] * hz
            for row, p in zip(place.R, place.p, strict=True)
        )
        return gravity[0] * x + gravity[1] * y + gravity[2] * z

    # U = -g . (sum of m times the center of mass)
    total: Scalar = 0.0
    for share in outward(plan, lifted, 0.0, body_places(plan, q)):
        total = total - share
    return total


def _position(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _state(model: Model, options: Options) -> list[Input]:
    return [*_position(model, options), Input("v", (model.nv,), described=model.describe_v())]


def _run_kinetic(model: Model, world: World | None, options: Options, q: Any, v: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    return kinetic(plan, scalars(q), scalars(v))


def _run_potential(model: Model, world: World | None, options: Options, q: Any) -> Any:
    plan, gravity = plan_and_gravity(model, world)
    return potential(plan, scalars(q), gravity)


_KINETIC = LibraryFunction("kinetic_energy", _state, _run_kinetic, parameters=(INERTIA,))
_POTENTIAL = LibraryFunction("potential_energy", _position, _run_potential)


def kinetic_energy(
    model: Model, q: ArrayLike, v: ArrayLike, *, time: ArrayLike | None = None
) -> np.float64 | NDArray[np.float64]:
    """Compute the kinetic energy.

    One state or a batch. Inside a function given to `tiburon.compile` the arrays may be traced, one
    state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Kinetic energy [J], one number per state.
    """
    return _number(call(_KINETIC, model, (q, v), time=time))


def potential_energy(
    model: Model, q: ArrayLike, *, world: World | None = None, time: ArrayLike | None = None
) -> np.float64 | NDArray[np.float64]:
    """Compute the potential energy in gravity, zero for mass at the world origin.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time. Bodies fixed to the world are left out, since their share never changes.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 by default.
        time: When [s], shape (...), where `Driven` joints move by themselves; zero by default.

    Returns:
        Potential energy [J], one number per state.
    """
    return _number(call(_POTENTIAL, model, (q,), world, time=time))


def _number(result: Any) -> np.float64 | NDArray[np.float64]:
    """Return a number for one state, where kernels give an array without dimensions."""
    number: np.float64 | NDArray[np.float64]
    number = result[()] if isinstance(result, np.ndarray) else result
    return number
