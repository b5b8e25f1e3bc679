"""Derivatives of forward dynamics with respect to inertial parameters, by reverse mode.

Symbols:
    H       mass matrix
    Y       joint forces per inertial parameter at given accelerations

From H vd + C = tau at constant tau: d vd = -H^-1 Y. Y is the derivative of the graph of inverse
dynamics, with one reverse sweep per joint force.
"""

from typing import Any

from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import crba
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.errors import TraceError
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import pull_back
from tiburon.trace.primitives.primitive import nodes_of
from tiburon.trace.primitives.tree import solve_tree, solve_tree_columns
from tiburon.trace.program import current_graph
from tiburon.trace.regions import as_value, function


def forces_per_parameter(around: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    """Compute Y, one row per velocity variable, one column per inertial parameter.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    plan, gravity = around.plan, around.gravity

    @function
    def slopes(parameters: Scalars, q: Scalars, v: Scalars, vd: Scalars) -> list[Scalar]:
        graph = current_graph()
        if graph is None:
            raise TraceError("inertia_derivatives: differentiates a graph, trace it first")
        changing = plan.with_parameters(parameters)
        state = JointVector(q), JointVector(v), JointVector(vd)
        # external forces do not depend on inertias
        roots = nodes_of(graph, rnea(changing, *state, gravity))
        leaves, one = nodes_of(graph, parameters), graph.const(1.0)
        live = graph.live(roots)
        rows = [pull_back(graph, [root], [one], leaves, live=live) for root in roots]
        return [as_value(graph, node) for row in rows for node in row]

    found = slopes(tuple(plan.parameters), tuple(q), tuple(v), tuple(vd))
    return as_traced(found).reshape(plan.nv, -1)


def derivatives_by_inertia(around: Setting, position: Scalars, rate: Scalars, tau: Scalars) -> Any:
    """Compute joint accelerations and their derivatives with respect to inertial parameters."""
    plan, gravity = around.plan, around.gravity
    C = bias(plan, position, rate, gravity, around.external)
    n = plan.nv
    parents = expanded_parents(plan)
    H = as_traced([x for row in crba(plan, position) for x in row]).reshape(n, n)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    vd = solve_tree(parents, H, as_traced(free))
    Y = forces_per_parameter(around, position, rate, scalars(vd))
    return {"vd": vd, "by_inertia": solve_tree_columns(parents, H, -Y)}
