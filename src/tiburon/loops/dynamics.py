"""What loops do, for users: gaps, Jacobian, accelerations with constraint forces, projections."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.forward import method_options
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.functions.keywords import (
    MODEL_CALL,
    TIMED_CALL,
    DynamicsCall,
    ModelCall,
    TimedCall,
    takes_conditions,
)
from tiburon.functions.library import (
    INERTIA,
    LibraryFunction,
    Options,
    call_under,
    inputs_of,
    record_under,
)
from tiburon.loops.constraints import constraint_count, constraints
from tiburon.loops.methods import constrained_motion, residual
from tiburon.loops.projection import close_position, close_velocity
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced

__all__ = [
    "LoopDynamics",
    "constraint_residual",
    "loop_dynamics",
    "loop_jacobian",
    "project_configuration",
    "project_velocity",
]

Array = NDArray[np.float64]


@record(eq=False)
class LoopDynamics:
    """How a robot with loops answers its forces, one state or a batch."""

    acceleration: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    constraint_force: Array
    """Force or moment along each constraint, in the order of `constraint_names` [N or N m], shape
    (..., constraints); where constraints are redundant, the shortest of all that do."""

    rank: Array
    """Number of independent constraints, shape (...); -1 from "proximal", which decides none."""

    ratio: Array
    """Smallest over largest singular value of the independent constraints in the metric of the mass
    matrix, estimated, shape (...): near zero the robot is near a singular configuration."""

    iterations: Array
    """Passes of "proximal", shape (...); 0 from methods that solve directly."""

    residual: Array
    """Largest acceleration at which a constraint is left [m/s^2 or rad/s^2], shape (...)."""


@record(eq=False)
class ProjectedConfiguration:
    """Positions brought back onto the loops."""

    q: Array
    """Position [m or rad], shape (..., nq)."""

    steps: Array
    """Newton steps it took, shape (...)."""

    gap: Array
    """Largest remaining constraint residual [m or rad], shape (...)."""


def _need_loops(model: Model, function: str) -> None:
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: {function} is for robots with loops, got none; give it "
            "loops=(LoopClosure(...), ...)"
        )


def _run_motion(around: Setting, *state: Sequence[Scalar]) -> Any:
    _need_loops(around.model, "loop_dynamics")
    found = constrained_motion(around, *state)
    held = constraints(around.model, around.plan, *state[:2])
    return {
        "acceleration": as_traced(list(found.vd)),
        "constraint_force": as_traced(list(found.multipliers)),
        "rank": as_traced(found.rank),
        "ratio": as_traced(found.ratio),
        "iterations": as_traced(found.iterations),
        "residual": as_traced(residual(held, found.vd)),
    }


def _run_gaps(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    return as_traced(list(constraints(model, plan, position).value))


def _run_jacobian(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    rows = constraints(model, plan, position).jacobian
    dense = [row.get(i, 0.0) for row in rows for i in range(model.nv)]
    return as_traced(dense).reshape(constraint_count(model), model.nv)


def _run_close(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    found = close_position(model, plan, position)
    return {
        "q": as_traced(list(found.q)),
        "steps": as_traced(found.steps),
        "gap": as_traced(found.gap),
    }


def _run_keep(model: Model, world: World | None, options: Options, q: Any, v: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    return as_traced(list(close_velocity(model, plan, position, scalars(v))))


_MOTION = dynamics_function("loop_dynamics", ("q", "v", "tau"), _run_motion, of_trees=False)
_GAPS = LibraryFunction(
    "constraint_residual", inputs_of("q"), _run_gaps, parameters=(), keywords=TIMED_CALL
)
_JACOBIAN = LibraryFunction(
    "loop_jacobian", inputs_of("q"), _run_jacobian, parameters=(), keywords=TIMED_CALL
)
_CLOSE = LibraryFunction(
    "project_configuration", inputs_of("q"), _run_close, parameters=(INERTIA,), keywords=MODEL_CALL
)
_KEEP = LibraryFunction(
    "project_velocity",
    inputs_of("q", "v"),
    _run_keep,
    parameters=(INERTIA,),
    keywords=MODEL_CALL,
)


@public
@takes_conditions
def loop_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    method: str | None = None,
    **conditions: Unpack[DynamicsCall],
) -> LoopDynamics:
    """Compute joint accelerations of a robot with loops, and the forces that keep them closed.

    The state should keep the loops closed, see `project_configuration` and `project_velocity`;
    where it does not, accelerations leave the constraint residual and its rate as they are.
    `forward_dynamics` returns the accelerations alone. One state or a batch; traced arrays inside a
    compiled function.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        method: "augmented" for the sparse system of motion and constraints together, the reference;
            "handles" for articulated bodies, without a mass matrix; "proximal" for iterations that
            decide no rank. By default "handles" where the mass matrix of the tree alone is
            predicted to cost more, as in rings of many links, and "augmented" everywhere else.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Example:
        ``tb.loop_dynamics(stewart, q, v, tau).constraint_force``
    """
    options = method_options(method, model)
    return record_under(LoopDynamics, conditions, _MOTION, model, (q, v, tau), options)


@public
@takes_conditions
def constraint_residual(model: Model, q: ArrayLike, **options: Unpack[TimedCall]) -> Array:
    """Measure how far loops are from closed, one number per constraint [m or rad].

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Shape (..., constraints), in the order of `constraint_names`.
    """
    _need_loops(model, "constraint_residual")
    answer: Array = call_under(options, _GAPS, model, (q,))
    return answer


@public
@takes_conditions
def loop_jacobian(model: Model, q: ArrayLike, **options: Unpack[TimedCall]) -> Array:
    """Compute the Jacobian of all loops: the rates of `constraint_residual` are J v.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        Shape (..., constraints, nv); transposed, it maps constraint forces to joint forces.
    """
    _need_loops(model, "loop_jacobian")
    answer: Array = call_under(options, _JACOBIAN, model, (q,))
    return answer


@public
@takes_conditions
def project_configuration(
    model: Model, q: ArrayLike, **options: Unpack[ModelCall]
) -> ProjectedConfiguration:
    """Move a position that is nearly on the loops onto them, by at most ten Newton steps.

    Args:
        model: The robot; it has loops.
        q: Position [m or rad], shape (..., nq).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        The nearest position in the metric of the mass matrix, and the remaining residual: nothing
        raises where loops stay open, see `gap`. For rough guesses take `assemble`.
    """
    _need_loops(model, "project_configuration")
    return record_under(ProjectedConfiguration, options, _CLOSE, model, (q,))


@public
@takes_conditions
def project_velocity(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[ModelCall]
) -> Array:
    """Take out of a joint velocity what would open loops.

    Args:
        model: The robot; it has loops.
        q: Position with closed loops [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        **options: `time`, `out` and `errors`: see `Conditions` and `Delivery`.

    Returns:
        The nearest velocity in the metric of the mass matrix, shape (..., nv).
    """
    _need_loops(model, "project_velocity")
    answer: Array = call_under(options, _KEEP, model, (q, v))
    return answer
