"""Center of mass of the robot, and how it moves.

Symbols:
    R, p    axes and origin of a body in the world
    m, h    mass and first mass moment of a body
    c       center of mass of all moving bodies, in the world
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.kinematics import Place, body_places
from tiburon.algorithms.momentum_sweep import momentum_columns, total_momentum
from tiburon.algorithms.surroundings import plan_and_gravity
from tiburon.algorithms.sweep import outward
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.functions.keywords import MODEL_CALL, ModelCall, takes_conditions
from tiburon.functions.library import INERTIA, LibraryFunction, Options, call_under
from tiburon.model import Model, Plan, PlanBody, World
from tiburon.spatial import RigidInertia, Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_matrix_vector, scale
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["MassPoint", "center_of_mass", "center_of_mass_jacobian", "mass_point"]


class MassPoint(NamedTuple):
    """All moving mass as one point."""

    mass: Scalar
    """Mass of all bodies that move [kg]."""

    c: Vec3
    """Their center of mass, world axes [m]."""


def mass_point(plan: Plan, q: Sequence[Scalar]) -> MassPoint:
    """Find the center of mass: the sum of m p + R h over the sum of m (Featherstone 1987, 3.2).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.

    Returns:
        Mass and center of all bodies that move.

    Raises:
        ModelError: If nothing moves.
    """

    def moment(body: PlanBody, _: Vec3, place: Place) -> Vec3:
        return add_matrix_vector(scale(place.p, body.inertia.mass), place.R, body.inertia.h)

    if not plan.bodies:
        raise ModelError(
            f"model {plan.name!r}: expected bodies that move, got none; what is fixed to the world "
            "has no part in the center of mass"
        )
    mass: Scalar = 0.0
    total = ZERO3
    for body, h in zip(
        plan.bodies, outward(plan, moment, ZERO3, body_places(plan, q)), strict=True
    ):
        mass = mass + body.inertia.mass
        total = add(total, h)
    x, y, z = total
    return MassPoint(mass, (x / mass, y / mass, z / mass))


def mass_velocity(plan: Plan, q: Sequence[Scalar], v: Sequence[Scalar], mass: Scalar) -> Vec3:
    """Return the velocity of the center of mass, world axes [m/s]: linear momentum over mass."""
    x, y, z = total_momentum(plan, q, v).force
    return (x / mass, y / mass, z / mass)


def _inputs(model: Model, options: Options) -> list[Input]:
    return [Input("q", (model.nq,), described=model.describe_q())]


def _run_center(model: Model, world: World | None, options: Options, q: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    return as_traced(list(mass_point(plan, scalars(q)).c))


def _run_jacobian(model: Model, world: World | None, options: Options, q: Any) -> Any:
    plan, _ = plan_and_gravity(model, world)
    columns, total = momentum_columns(plan, scalars(q), [body.inertia for body in plan.bodies])
    assert isinstance(total, RigidInertia)
    rows = [column.force[axis] / total.mass for axis in range(3) for column in columns]
    return as_traced(rows).reshape(3, model.nv)


_CENTER = LibraryFunction(
    "center_of_mass", _inputs, _run_center, parameters=(INERTIA,), keywords=MODEL_CALL
)
_JACOBIAN = LibraryFunction(
    "center_of_mass_jacobian",
    _inputs,
    _run_jacobian,
    parameters=(INERTIA,),
    keywords=MODEL_CALL,
)


@public
@takes_conditions
def center_of_mass(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> NDArray[np.float64]:
    """Find the center of mass of all bodies that move.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time. Bodies fixed to the world are left out.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Center of mass, world axes [m], shape (..., 3).
    """
    answer: NDArray[np.float64] = call_under(options, _CENTER, model, (q,))
    return answer


@public
@takes_conditions
def center_of_mass_jacobian(
    model: Model, q: ArrayLike, **options: Unpack[ModelCall]
) -> NDArray[np.float64]:
    """Compute the Jacobian of the center of mass: its velocity is J v.

    One state or a batch. Inside a function given to `tiburon.compile` q may be traced, one state at
    a time. Bodies fixed to the world are left out.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Jacobian, rows in world axes [m, or 1 for lengths], shape (..., 3, nv).
    """
    answer: NDArray[np.float64] = call_under(options, _JACOBIAN, model, (q,))
    return answer
