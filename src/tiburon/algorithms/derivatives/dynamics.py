"""Derivatives of inverse and forward dynamics for users.

Symbols:
    H       mass matrix
    ID      inverse dynamics, tau = ID(q, v, vd)

ID(q, v, FD(q, v, tau)) = tau for all states, so that forward dynamics FD has the derivatives
-H^-1 dID by position and velocity, and H^-1 by joint force (Carpentier and Mansard 2018,
"Analytical derivatives of rigid body dynamics algorithms", Robotics: Science and Systems).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.bias import bias as bias_of
from tiburon.algorithms.closed_form import closed_form
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.crba import composite_products, mass_elements
from tiburon.algorithms.derivatives.inverse_dynamics import (
    ForceVectors,
    Rows,
    Turning,
    force_matrices,
    force_vectors,
    no_turning,
    state_terms,
)
from tiburon.algorithms.joint_space import freedom_parents
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.pair_products import Vectors, before_products
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import Options, record_under
from tiburon.model import Model, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.record import named_line
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import IDENTITY3, cross, matrix_vector, transpose
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.interpret import interpret
from tiburon.trace.primitives.tree import invert_tree, solve_tree, solve_tree_columns
from tiburon.trace.program import Input, current_graph, trace
from tiburon.trace.regions import function
from tiburon.trace.regions.region import as_value, float_node

__all__ = [
    "ForwardDynamicsDerivatives",
    "InverseDynamicsDerivatives",
    "acceleration_derivatives",
    "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives",
]


class ForceChanges(NamedTuple):
    """Joint forces and how they change."""

    tau: tuple[Scalar, ...]
    by_q: Rows
    """By steps of position, column k for a step along velocity variable k."""

    by_v: Rows


def traced_changes(
    plan: Plan,
    forces: Callable[[JointVector, JointVector, JointVector], Sequence[Scalar]],
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    vd: Sequence[Scalar],
) -> ForceChanges:
    """Compute joint forces and their derivatives by position and velocity.

    Args:
        plan: Layout of the model.
        forces: Gives joint forces, nv scalars, for position, velocity and acceleration.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    n = plan.nv

    def everything(q: Sequence[Scalar], v: Sequence[Scalar], vd: Sequence[Scalar]) -> list[Any]:
        position, rate, change = JointVector(q), JointVector(v), JointVector(vd)
        tau = list(forces(position, rate, change))
        return [*tau, *_columns(plan, tau, position, rate)]

    if current_graph() is None:
        inputs = [Input("q", (plan.nq,)), Input("v", (n,)), Input("vd", (n,))]
        program = trace(lambda *x: everything(*(y.tolist() for y in x)), inputs)
        found = interpret(program, [list(q), list(v), list(vd)]).tolist()
    else:
        # a function of its own: its arguments are then no part of any other computation
        found = function(everything)(list(q), list(v), list(vd))
    columns = [found[(k + 1) * n : (k + 2) * n] for k in range(2 * n)]
    by_q = tuple(tuple(columns[k][i] for k in range(n)) for i in range(n))
    by_v = tuple(tuple(columns[n + k][i] for k in range(n)) for i in range(n))
    return ForceChanges(tuple(found[:n]), by_q, by_v)


def _columns(
    plan: Plan, tau: Sequence[Scalar], q: Sequence[Scalar], v: Sequence[Scalar]
) -> list[Any]:
    """Return the change of joint forces with each step of position, then with each velocity."""
    graph = current_graph()
    assert graph is not None
    roots = [float_node(graph, x) for x in tau]
    live = graph.live(roots)
    found: list[Any] = []
    for seeds in (*_steps(plan, q), *({rate: 1.0} for rate in v)):
        tangents = {float_node(graph, x): float_node(graph, t) for x, t in seeds.items()}
        found += [as_value(graph, node) for node in push_forward(graph, roots, tangents, live=live)]
    return found


def _steps(plan: Plan, q: Sequence[Scalar]) -> list[dict[Any, Scalar]]:
    """Return how positions change with a step along each velocity variable."""
    found = []
    for body in plan.bodies:
        joint = body.joint
        # a joint that follows another has no variables of its own
        for k in range(joint.nv if joint.follows is None else 0):
            unit = [1.0 if i == k else 0.0 for i in range(joint.nv)]
            rates = joint.position_rate(q[body.q], unit)
            found.append(dict(zip(q[body.q], rates, strict=True)))
    return found


Array = NDArray[np.float64]

INLINE_FREEDOMS = 12
"""Freedoms up to which equations with the mass matrix are solved in straight code."""


class InverseDynamicsDerivatives(NamedTuple):
    """Joint forces and how they change, for one state or a batch."""

    tau: Array
    """Joint force [N or N m], shape (..., nv)."""

    by_q: Array
    """By steps of position, column k for a step along velocity variable k, shape (..., nv, nv)."""

    by_v: Array
    """By velocities, shape (..., nv, nv)."""

    by_vd: Array
    """By accelerations: the mass matrix where no loops are closed, shape (..., nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class ForwardDynamicsDerivatives(NamedTuple):
    """Joint accelerations and how they change, for one state or a batch."""

    vd: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    by_q: Array
    """By steps of position, column k for a step along velocity variable k, shape (..., nv, nv)."""

    by_v: Array
    """By velocities, shape (..., nv, nv)."""

    by_tau: Array
    """By joint forces: the inverse mass matrix where no loops are closed, shape (..., nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


def acceleration_derivatives(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], tau: Sequence[Scalar]
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute accelerations and their derivatives.

    Args:
        around: What acts in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.

    Returns:
        vd, nv scalars, and its derivatives by position, velocity and force, each an array of shape
        (nv, nv).
    """
    if around.model.loops:
        closed = closed_form("acceleration_derivatives")
        assert closed is not None
        result: tuple[tuple[Scalar, ...], Any, Any, Any] = closed(around, q, v, tau)
        return result
    n, parents = around.plan.nv, freedom_parents(around.plan)
    inline = n <= INLINE_FREEDOMS
    bias, mass = _resting(around, q, v)
    H = as_traced(mass).reshape(n, n)
    free = [force - held for force, held in zip(tau, bias, strict=True)]
    vd = scalars(solve_tree(parents, H, as_traced(free), inline=inline))
    by_q, by_v = (as_traced(part).reshape(n, n) for part in _opposing(around, q, v, vd))
    inverse = invert_tree(parents, H, inline=inline)
    if inline and parents == tuple(range(-1, n - 1)):
        # a chain has no zeros to save; products wait for each other less than substitutions do
        return tuple(vd), inverse @ by_q, inverse @ by_v, inverse
    by_q, by_v = (solve_tree_columns(parents, H, part, inline=inline) for part in (by_q, by_v))
    return tuple(vd), by_q, by_v, inverse


def _resting(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar]
) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
    """Return bias force and mass matrix, row by row."""
    plan, gravity, external = around.plan, around.gravity, around.external
    if not around.is_rigid:

        @before_products(plan)
        def bias_force(*state: Any) -> tuple[Scalar, ...]:
            position, rate = map(JointVector, state)
            here = around.at(position, rate, *around.now)
            return bias_of(plan, position, rate, gravity, here.external)

        return bias_force(list(q), list(v)), mass_elements(plan, q)
    turning = turning_forces(plan, q, around.options, around.arrays)

    @before_products(plan)
    def vectors(*state: Any) -> tuple[tuple[Scalar, ...], Vectors, Vectors]:
        position, rate = map(JointVector, state)
        terms = state_terms(plan, position, rate, gravity, external, turning)
        return terms.bias, terms.S, terms.inertial

    bias, S, inertial = vectors(list(q), list(v))
    return bias, composite_products(plan, S, inertial)


def _opposing(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], vd: Sequence[Scalar]
) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
    """Return the joint forces that oppose each change of position and of velocity, row by row."""
    plan = around.plan
    if not around.is_rigid:

        @before_products(plan)
        def changes_by_graph(*state: Any) -> list[list[Scalar]]:
            changes = _traced_changes(around, *map(JointVector, state))
            return [[-x for row in rows for x in row] for rows in (changes.by_q, changes.by_v)]

        by_q, by_v = changes_by_graph(list(q), list(v), list(vd))
        return by_q, by_v
    turning = turning_forces(plan, q, around.options, around.arrays)

    @before_products(plan)
    def vectors(*state: Any) -> ForceVectors:
        position, rate, change = map(JointVector, state)
        terms = state_terms(plan, position, rate, around.gravity, around.external, turning)
        return force_vectors(plan, position, rate, change, terms, opposite=True)

    return force_matrices(plan, vectors(list(q), list(v), list(vd)))


def _traced_changes(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], vd: Sequence[Scalar]
) -> ForceChanges:
    """Differentiate inverse dynamics with all that acts, water included, as it was traced."""

    def forces(q: JointVector, v: JointVector, vd: JointVector) -> Sequence[Scalar]:
        here = around.at(q, v, *around.now)
        return rnea(here.plan, q, v, vd, here.gravity, here.external)

    return traced_changes(around.plan, forces, q, v, vd)


def turning_forces(
    plan: Plan, q: Sequence[Scalar], options: Options, wrenches: Sequence[Any]
) -> tuple[Turning, ...] | None:
    """Return how forces from outside turn back when their bodies turn.

    A force given in axes of its frame turns with its body, which is no change seen from there. One
    given in world axes keeps its direction: seen from the body, a small turn w changes moment n and
    force f at the frame's origin by -w x n and -w x f. What is transmitted changes by the opposite.

    Returns:
        For each plan body the change of what it needs, per unit turn about its axes; None if
        nothing turns.
    """
    choices = dict(options)
    names = choices.get("external_force", ())
    if not names or choices.get("external_axes") != "world":
        return None
    total = [no_turning() for _ in plan.bodies]
    places = frame_places(plan, q, names)
    for name, place, wrench in zip(names, places, wrenches, strict=True):
        frame = plan.frame(name)
        if frame.body == WORLD_BODY:
            continue
        given, R = Force.from_array(tuple(scalars(wrench))), transpose(place.R)
        n, f = matrix_vector(R, given.moment), matrix_vector(R, given.force)
        X = frame.transform
        columns = []
        for axis, known in zip(IDENTITY3, total[frame.body], strict=True):
            w = X.direction(axis)
            columns.append(known + X.force_to_parent(Force(cross(w, n), cross(w, f))))
        total[frame.body] = (columns[0], columns[1], columns[2])
    return tuple(total)


def _array(rows: Sequence[Sequence[Scalar]], n: int) -> Any:
    return as_traced([x for row in rows for x in row]).reshape(n, n)


def _run_inverse(
    around: Setting, position: Sequence[Scalar], rate: Sequence[Scalar], change: Sequence[Scalar]
) -> Any:
    plan, n = around.plan, around.plan.nv
    if not around.is_rigid:
        changes = _traced_changes(around, position, rate, change)
        return {
            "tau": as_traced(list(changes.tau)),
            "by_q": _array(changes.by_q, n),
            "by_v": _array(changes.by_v, n),
            "by_vd": as_traced(mass_elements(plan, position)).reshape(n, n),
        }
    turning = turning_forces(plan, position, around.options, around.arrays)

    @before_products(plan)
    def vectors(*state: Any) -> tuple[ForceVectors, Vectors]:
        position, rate, change = map(JointVector, state)
        terms = state_terms(plan, position, rate, around.gravity, around.external, turning)
        return force_vectors(plan, position, rate, change, terms), terms.inertial

    found, inertial = vectors(list(position), list(rate), list(change))
    by_q, by_v = force_matrices(plan, found)
    return {
        "tau": as_traced(list(found.tau)),
        "by_q": as_traced(by_q).reshape(n, n),
        "by_v": as_traced(by_v).reshape(n, n),
        "by_vd": as_traced(composite_products(plan, found.S, inertial)).reshape(n, n),
    }


def _run_forward(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], tau: Sequence[Scalar]
) -> Any:
    vd, by_q, by_v, by_tau = acceleration_derivatives(around, q, v, tau)
    return {"vd": as_traced(list(vd)), "by_q": by_q, "by_v": by_v, "by_tau": by_tau}


_INVERSE = dynamics_function("inverse_dynamics_derivatives", ("q", "v", "vd"), _run_inverse)
_FORWARD = dynamics_function(
    "forward_dynamics_derivatives", ("q", "v", "tau"), _run_forward, of_trees=False
)


@public
@takes_conditions
def inverse_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> InverseDynamicsDerivatives:
    """Compute joint forces and how they change with position, velocity and acceleration.

    Positions change by steps, as `Model.integrate` takes them: the derivative by q has one column
    per velocity variable, also where q holds a quaternion. Forces from outside are held constant,
    in the axes in which they are given. With loops, forces are those of the robot's own actuators,
    the shortest that do; derivatives hold for changes that keep loops closed. One state or a batch;
    traced arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint force, and its derivatives by q, v and vd.
    """
    return record_under(InverseDynamicsDerivatives, conditions, _INVERSE, model, (q, v, vd))


@public
@takes_conditions
def forward_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> ForwardDynamicsDerivatives:
    """Compute joint accelerations and how they change with position, velocity and joint force.

    Positions change by steps, as `Model.integrate` takes them: the derivative by q has one column
    per velocity variable, also where q holds a quaternion. Forces from outside are held constant,
    in the axes in which they are given. With loops, positions may step off them as well: gaps and
    their rates then stay as they are. One state or a batch; traced arrays inside a compiled
    function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint acceleration, and its derivatives by q, v and tau.

    Example:
        ``vd, by_q, by_v, by_tau = tb.forward_dynamics_derivatives(arm, q, v, tau)``
    """
    return record_under(ForwardDynamicsDerivatives, conditions, _FORWARD, model, (q, v, tau))
