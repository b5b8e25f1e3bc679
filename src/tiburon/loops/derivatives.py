"""Derivatives of forward and inverse dynamics with loops.

Forward dynamics
    Differentiating the equations of motion and constraints (Featherstone 1987, eq. 9.17) with
    accelerations and constraint forces held constant gives equations with the same matrix:

        [ H  J^T ] [  dvd     ]   [ dtau - d(ID - J^T lambda) ]
        [ J   0  ] [ -dlambda ] = [ -d(J vd + bias)           ]

    ID is inverse dynamics of the tree, including water and external forces. The right-hand sides
    are forward-mode derivatives of the traced graph: one function, called once per direction.
    Positions may leave the constraint manifold; accelerations then keep the residual constant.

Inverse dynamics
    The least-norm forces u of a motion are u = E^T z with J z = 0, so that

        [ E E^T  J^T ] [   z    ]   [ Q ]
        [ J       0  ] [ lambda ] = [ 0 ]

    Differentiating with lambda and z held constant beside J gives equations with the same matrix
    (Golub and Pereyra 1973, for constant rank):

        w = d(Q - J^T lambda),   g = -E^T J^+ d(J z),   du = g + (P E)^+ P (w - E g)

    P E du = P w is forward dynamics; g rotates u so that it keeps least norm, and vanishes for as
    many actuators as degrees of freedom. Where the actuators cannot realize every nearby motion, du
    is correct for those that they can.

Symbols: H mass matrix, J constraint Jacobian, lambda constraint forces; E, P, Q as in `inverse`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.derivatives.inertia import forces_per_parameter
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.loops.augmented import loop_pattern, solve_augmented
from tiburon.loops.constraints import Constraints, constraints
from tiburon.loops.inverse import ForceDistribution, distribute_forces
from tiburon.loops.methods import constrained_motion
from tiburon.loops.metric import MIN_CUT, rank_cut
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, current_graph, trace
from tiburon.trace.regions import as_value, float_node, for_each, function


def constrained_derivatives(
    around: Setting, q: Scalars, v: Scalars, tau: Scalars
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute accelerations and their derivatives, as `tree_acceleration_derivatives` for trees."""
    n = around.plan.nv
    if current_graph() is None:
        return on_floats(constrained_derivatives, around, q, v, tau)
    found = constrained_motion(around, q, v, tau)
    vd, forces = tuple(found.vd), tuple(found.multipliers)
    solved = constrained_solver(around, q, constraints(around.model, around.plan, q, v))

    @function
    def along(
        q: Scalars, v: Scalars, vd: Scalars, forces: Scalars, step: Scalars, change: Scalars
    ) -> list[Scalar]:
        # the arguments are leaves of the graph of this function
        position, rate, acceleration = JointVector(q), JointVector(v), JointVector(vd)
        here = around.at(position, rate, *around.now)
        needed = rnea(here.plan, position, rate, acceleration, here.gravity, here.external)
        terms = constraints(around.model, here.plan, position, rate)
        left = add_constraints([-x for x in needed], terms, acceleration, forces)
        return directional_derivative(around, left, position, v, step, change)

    state = (tuple(q), tuple(v), vd, forces)

    def by_state(index: Scalar) -> Scalars:
        direction = unit_vector(index, 2 * n)
        rate = along(*state, direction[:n], direction[n:])
        return solved(tuple(rate[:n]), tuple(rate[n:]))

    def by_force(index: Scalar) -> Scalars:
        return solved(unit_vector(index, n), (0.0,) * len(forces))

    return vd, *square_matrices([*for_each(2 * n, by_state), *for_each(n, by_force)])


def unit_vector(index: Scalar, size: int) -> tuple[Scalar, ...]:
    """Return the unit vector along a traced index."""
    return tuple(np.where(index == float(k), 1.0, 0.0) for k in range(size))


def square_matrices(columns: Sequence[Scalars]) -> tuple[Any, Any, Any]:
    """Return three square matrices side by side, given by their columns."""
    n = len(columns) // 3
    flat = as_traced([column[i] for i in range(n) for column in columns])
    by = flat.reshape(n, 3, n)
    return by[:, 0], by[:, 1], by[:, 2]


def constrained_solver(
    around: Setting, q: Scalars, terms: Constraints, min_cut: float = MIN_CUT
) -> Callable[[Scalars, Scalars], tuple[Scalar, ...]]:
    """Return a traced function that solves the augmented system: (tau - C, J vd) to vd.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        terms: The constraints in this state.
        min_cut: Smallest rank cut; see `rank_cut`.
    """
    model, plan, n = around.model, around.plan, around.plan.nv
    H = mass_elements(plan, q)
    mass = [H[i * n + j] for i, j in loop_pattern(model).mass]
    rows, cut = terms.jacobian, rank_cut(model, terms.value, min_cut)

    @function
    def solved(free: Scalars, rhs: Scalars) -> tuple[Scalar, ...]:
        return solve_augmented(model, plan, mass, rows, list(free), list(rhs), cut).vd

    return solved


def add_constraints(
    left: list[Scalar], terms: Constraints, vd: Scalars, forces: Scalars
) -> list[Scalar]:
    """Return joint forces [N or N m] with J^T lambda added, followed by -(J vd + bias)."""
    found = list(left)
    opening: list[Scalar] = []
    for row, force, bias in zip(terms.jacobian, forces, terms.bias, strict=True):
        total = -bias
        for i, x in row.items():
            found[i] = found[i] + x * force
            total = total - x * vd[i]
        opening.append(total)
    return [*found, *opening]


def constrained_derivatives_by_inertia(
    around: Setting, q: Scalars, v: Scalars, tau: Scalars
) -> dict[str, Any]:
    """Compute accelerations and their derivatives with respect to inertial parameters, by name."""
    n = around.plan.nv
    vd = tuple(constrained_motion(around, q, v, tau).vd)
    Y = [scalars(column) for column in forces_per_parameter(around, q, v, vd).T]
    terms = constraints(around.model, around.plan, q, v)
    solved, closed = constrained_solver(around, q, terms), (0.0,) * len(terms.value)

    def row(index: Scalar) -> Scalars:
        # the map from joint forces to accelerations is symmetric: its columns are its rows
        mobility = solved(unit_vector(index, n), closed)
        return [-sum_of_products(mobility, column) for column in Y]

    by_inertia = as_traced([x for part in for_each(n, row) for x in part]).reshape(n, len(Y))
    return {"vd": as_traced(list(vd)), "by_inertia": by_inertia}


def sum_of_products(a: Scalars, b: Scalars) -> Scalar:
    """Return the sum of the products of corresponding scalars."""
    return sum((x * y for x, y in zip(a, b, strict=True)), start=0.0)


def directional_derivative(
    around: Setting, roots: Scalars, q: JointVector, v: Scalars, step: Scalars, change: Scalars
) -> list[Scalar]:
    """Differentiate traced scalars along a step of configuration and a change of velocity."""
    graph = current_graph()
    assert graph is not None
    tangents: dict[int, int] = {}
    for body in around.plan.bodies:
        joint = body.joint
        # a coupled joint has no variables of its own
        if joint.follows is None and joint.nv:
            rates = joint.position_rate(q[body.q], tuple(step[body.v]))
            for x, rate in zip(q[body.q], rates, strict=True):
                tangents[float_node(graph, x)] = float_node(graph, rate)
    for x, rate in zip(v, change, strict=True):
        tangents[float_node(graph, x)] = float_node(graph, rate)
    found = push_forward(graph, [float_node(graph, x) for x in roots], tangents)
    return [as_value(graph, node) for node in found]


def on_floats(
    form: Callable[..., tuple[tuple[Scalar, ...], Any, Any, Any]], around: Setting, *state: Scalars
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Trace derivatives, which need a graph, and evaluate them on floats.

    `form(around, *state)` returns nv scalars and three derivatives.
    """
    plan, n = around.plan, around.plan.nv

    def run(*given: Any) -> Any:
        values, *by = form(around, *(JointVector(part.tolist()) for part in given))
        return [*values, *(x for part in by for x in part.reshape(-1).tolist())]

    program = trace(run, [Input("q", (plan.nq,)), Input("v", (n,)), Input("given", (n,))])
    found = np.asarray(interpret(program, [list(part) for part in state]))
    by_q, by_v, by_given = found[n:].reshape(3, n, n)
    return tuple(found[:n].tolist()), by_q, by_v, by_given


# -- inverse dynamics ------------------------------------------------------------------------------


def actuated_derivatives(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute the forces of the robot's own actuators for a motion, and their derivatives.

    Args:
        around: Surroundings in this state.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.

    Returns:
        tau, nv scalars, zero at joints without actuator, and its derivatives with respect to
        configuration (tangent vectors), velocity and acceleration, each of shape (nv, nv).
    """
    if current_graph() is None:
        return on_floats(actuated_derivatives, around, q, v, vd)
    model, plan, n = around.model, around.plan, around.plan.nv
    actuators = model.actuated_joint_names
    terms = constraints(model, plan, q, v)
    distribution = ForceDistribution(model, terms, actuators)
    needed = rnea(plan, q, v, vd, around.gravity, around.external)
    tau, multipliers = distribute_forces(model, terms, needed, vd, actuators, distribution)
    own = distribution.actuator_forces(needed)
    z = list(distribution.reach.solve_transpose(as_traced(own or [0.0])))

    @function
    def solved(w: Scalars, opening: Scalars) -> list[Scalar]:
        back = list(distribution.loops.solve(as_traced(list(opening) or [0.0])))
        g = distribution.joint_forces([-back[i] for i in distribution.driven])
        rest = distribution.joint_forces(
            distribution.actuator_forces([x - y for x, y in zip(w, g, strict=True)])
        )
        return [x + y for x, y in zip(g, rest, strict=True)]

    @function
    def along(
        q: Scalars,
        v: Scalars,
        vd: Scalars,
        forces: Scalars,
        z: Scalars,
        step: Scalars,
        change: Scalars,
    ) -> list[Scalar]:
        # the arguments are leaves of the graph of this function
        position, rate = JointVector(q), JointVector(v)
        here = around.at(position, rate, *around.now)
        rows = constraints(model, here.plan, position, rate).jacobian
        left = list(rnea(here.plan, position, rate, JointVector(vd), here.gravity, here.external))
        opening: list[Scalar] = []
        for k in distribution.live:
            total: Scalar = 0.0
            for i, x in rows[k].items():
                left[i] = left[i] - x * forces[k]
                total = total + x * z[i]
            opening.append(total)
        return directional_derivative(around, [*left, *opening], position, v, step, change)

    state = (tuple(q), tuple(v), tuple(vd), tuple(multipliers), tuple(z))
    closed = (0.0,) * len(distribution.live)

    def by_state(index: Scalar) -> Scalars:
        direction = unit_vector(index, 2 * n)
        rate = along(*state, direction[:n], direction[n:])
        return tuple(solved(tuple(rate[:n]), tuple(rate[n:])))

    def by_acceleration(index: Scalar) -> Scalars:
        # H times a unit acceleration: inverse dynamics at rest, without gravity
        unit = JointVector(unit_vector(index, n))
        force = rnea(plan, q, JointVector([0.0] * n), unit, (0.0, 0.0, 0.0))
        return tuple(solved(tuple(force), closed))

    columns = [*for_each(2 * n, by_state), *for_each(n, by_acceleration)]
    return tuple(tau), *square_matrices(columns)
