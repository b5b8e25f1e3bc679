"""Forward dynamics in joint space: mass matrix, factored without filling in its zeros.

Symbols (Featherstone 1987, chapter 5; 2005):
    H       mass matrix, H = L^T D L with L as sparse as H
    C       bias force
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.bias import bias
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.pair_products import before_products
from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.functions.keywords import (
    DELIVERY,
    Delivery,
    DynamicsCall,
    WorldCall,
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
from tiburon.model import Model, Plan, World
from tiburon.model.plan import WORLD_BODY
from tiburon.record import record
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, InvertTree, SolveTree
from tiburon.trace.program import Input

__all__ = [
    "PreparedDynamics",
    "forward_by_mass_matrix",
    "freedom_parents",
    "inverse_mass_matrix",
    "joint_space_terms",
    "prepare_dynamics",
]


def freedom_parents(plan: Plan) -> tuple[int, ...]:
    """Return, for each velocity variable, the one it hangs on in the tree; -1 for none.

    A joint of several freedoms is a chain of them, carried by the last freedom of its parent.
    Joints that follow another tie branches together: then every variable may couple with every
    other.
    """
    if plan.has_couplings:
        return tuple(range(-1, plan.nv - 1))
    hangs_on: list[int] = []
    # the variable that carries the children of each body
    last: list[int] = []
    for body in plan.bodies:
        above = -1 if body.parent == WORLD_BODY else last[body.parent]
        for row in range(body.v.start, body.v.stop):
            hangs_on.append(above)
            above = row
        last.append(above)
    return tuple(hangs_on)


def forward_by_mass_matrix(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute the joint accelerations that given joint forces produce: H vd = tau - C.

    Featherstone 1987, eq. 5.6, with the composite-rigid-body H (5.11-5.14) and C = ID(q, v, 0)
    (5.3); solved by the factors L^T D L, which keep the zeros between branches.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    matrix, C = joint_space_terms(plan, q, v, gravity, external)
    right = [force - c for force, c in zip(tau, C, strict=True)]
    parents, inline = freedom_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    return tuple(SolveTree(parents).apply([*factor, *right], inline=inline))


def joint_space_terms(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
    """Return the elements of H that a factorization along the tree reads, and C."""
    elements = FactorTree(freedom_parents(plan)).layout.elements()

    @before_products(plan)
    def held(q: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        return list(bias(plan, JointVector(q), JointVector(v), gravity, external))

    return chosen_mass_elements(plan, q, elements), held(list(q), list(v))


# -- the inverse ----------------------------------------------------------------------------------


def _run_inverse(model: Model, world: World | None, options: Options, q: Any) -> Any:
    position = scalars(q)
    plan, _, _ = surroundings_at(model, world, position)
    matrix, _ = joint_space_terms(plan, position, scalars(np.zeros(plan.nv)), (0.0, 0.0, 0.0))
    parents, inline = freedom_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    inverse = InvertTree(parents).apply(factor, inline=inline)
    return as_traced(inverse).reshape(plan.nv, plan.nv)


_INVERSE = LibraryFunction(
    "inverse_mass_matrix", inputs_of("q"), _run_inverse, parameters=(INERTIA,), of_trees=True
)


@public
@takes_conditions
def inverse_mass_matrix(
    model: Model, q: ArrayLike, **options: Unpack[WorldCall]
) -> NDArray[np.float64]:
    """Compute the inverse of the mass matrix: joint accelerations per joint force.

    One state or a batch; traced arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        **options: `time`; `world` and `fluid`, whose added mass counts; `out` and `errors`: see
            `Conditions` and `Delivery`.

    Returns:
        Inverse mass matrix, symmetric, in the order of v [1/kg, 1/(kg m) or 1/(kg m^2)], shape
        (..., nv, nv).
    """
    answer: NDArray[np.float64] = call_under(options, _INVERSE, model, (q,))
    return answer


# -- one factorization for many forces ------------------------------------------------------------


def _run_prepare(around: Setting, q: Sequence[Scalar], v: Sequence[Scalar]) -> Any:
    plan = around.plan
    matrix, C = joint_space_terms(plan, q, v, around.gravity, around.external)
    factor = FactorTree(freedom_parents(plan)).apply(matrix)
    return {"factor": as_traced(factor), "bias": as_traced(list(C))}


def _finish_inputs(model: Model, options: Options) -> list[Input]:
    stored = FactorTree(freedom_parents(model.plan)).result_count
    return [Input("factor", (stored,)), *inputs_of("bias", "tau")(model, options)]


def _run_finish(
    model: Model, world: World | None, options: Options, factor: Any, bias: Any, tau: Any
) -> Any:
    right = [force - c for force, c in zip(scalars(tau), scalars(bias), strict=True)]
    solve = SolveTree(freedom_parents(model.plan))
    return as_traced(solve.apply([*scalars(factor), *right]))


_PREPARE = dynamics_function("prepare_dynamics", ("q", "v"), _run_prepare)
_FINISH = LibraryFunction(
    "prepared_dynamics", _finish_inputs, _run_finish, parameters=(), keywords=DELIVERY
)


@record
class PreparedDynamics:
    """Factored mass matrix and bias force of one state or a batch, ready for many joint forces."""

    model: Model
    """The robot."""

    factor: NDArray[np.float64]
    """Numbers of L and 1/D, row by row of the tree's sparse matrix, shape (..., stored)."""

    bias: NDArray[np.float64]
    """Bias force C [N or N m], shape (..., nv)."""

    @takes_conditions
    def accelerations(self, tau: ArrayLike, **delivery: Unpack[Delivery]) -> NDArray[np.float64]:
        """Return the joint accelerations that joint forces produce in this state.

        Args:
            tau: Joint force [N or N m], shape (..., nv); broadcasts with the prepared states.
            **delivery: `out` and `errors`, the keywords of `Delivery`.

        Returns:
            Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        """
        answer: NDArray[np.float64]
        answer = call_under(delivery, _FINISH, self.model, (self.factor, self.bias, tau))
        return answer


@public
@takes_conditions
def prepare_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> PreparedDynamics:
    """Factor the equation of motion once, to solve it for many joint forces.

    Where joint forces change much faster than the robot moves, as under a stiff controller, the
    result may serve several time steps (Featherstone 1987, sec. 5.2); the error grows in proportion
    to the time since it was made. One state or a batch.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        What ``prepared.accelerations(tau)`` needs.

    Example:
        ``prepared = prepare_dynamics(arm, q, v); vd = prepared.accelerations(tau)``
    """
    make = partial(PreparedDynamics, model)
    return record_under(make, conditions, _PREPARE, model, (q, v))
