"""How accelerations change with masses and inertias, by the derivative of the traced graph.

Symbols:
    H       mass matrix
    Y       joint forces per inertial number at given accelerations, which do not depend on them

From H vd + C = tau at constant tau: d vd = -H^-1 Y. Y comes from the graph of inverse dynamics, one
sweep back from each joint force.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.bias import bias
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.crba import crba
from tiburon.algorithms.joint_space import freedom_parents
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.errors import ModelError, TraceError
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import record_under
from tiburon.model import Model
from tiburon.record import named_line
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import pull_back
from tiburon.trace.primitives.primitive import nodes_of
from tiburon.trace.primitives.tree import solve_tree, solve_tree_columns
from tiburon.trace.program import current_graph
from tiburon.trace.regions import function
from tiburon.trace.regions.region import as_value

__all__ = ["InertiaDerivatives", "forces_per_number", "inertia_derivatives"]


class InertiaDerivatives(NamedTuple):
    """Joint accelerations and how they change with inertial numbers, for one state or a batch."""

    vd: NDArray[np.float64]
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    by_inertia: NDArray[np.float64]
    """By the numbers that `Model.parameter_names` lists, shape (..., nv, number of them)."""

    def __repr__(self) -> str:
        return named_line(self)


def forces_per_number(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], vd: Sequence[Scalar]
) -> Any:
    """Find Y, one row per velocity variable, one column per inertial number.

    Args:
        around: What acts in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    plan, gravity = around.plan, around.gravity

    @function
    def slopes(
        numbers: Sequence[Scalar],
        q: Sequence[Scalar],
        v: Sequence[Scalar],
        vd: Sequence[Scalar],
    ) -> list[Scalar]:
        graph = current_graph()
        if graph is None:
            raise TraceError("inertia_derivatives: differentiates a graph, trace it first")
        changing = plan.with_parameters(numbers)
        state = JointVector(q), JointVector(v), JointVector(vd)
        # forces from outside do not depend on inertias
        roots = nodes_of(graph, rnea(changing, *state, gravity))
        leaves, one = nodes_of(graph, numbers), graph.const(1.0)
        live = graph.live(roots)
        rows = [pull_back(graph, [root], [one], leaves, live=live) for root in roots]
        return [as_value(graph, node) for row in rows for node in row]

    found = slopes(tuple(plan.parameters), tuple(q), tuple(v), tuple(vd))
    return as_traced(found).reshape(plan.nv, -1)


def _run(
    around: Setting, position: Sequence[Scalar], rate: Sequence[Scalar], tau: Sequence[Scalar]
) -> Any:
    plan, gravity = around.plan, around.gravity
    held = bias(plan, position, rate, gravity, around.external)
    n = plan.nv
    parents = freedom_parents(plan)
    H = as_traced([x for row in crba(plan, position) for x in row]).reshape(n, n)
    free = [force - c for force, c in zip(tau, held, strict=True)]
    vd = solve_tree(parents, H, as_traced(free))
    Y = forces_per_number(around, position, rate, scalars(vd))
    return {"vd": vd, "by_inertia": solve_tree_columns(parents, H, -Y)}


_FUNCTION = dynamics_function("inertia_derivatives", ("q", "v", "tau"), _run)


@public
@takes_conditions
def inertia_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> InertiaDerivatives:
    """Compute joint accelerations and how they change with masses and inertias.

    The numbers are those of `Model.parameters`, in the order of `Model.parameter_names`: mass,
    first moments and inertia of each link about the origin of its plan frame. One state or a batch;
    traced arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`. No `parameters`: those of bodies would add columns.

    Returns:
        Joint acceleration, and its derivative by the inertial numbers.

    Raises:
        ModelError: If there are `parameters`.
    """
    if conditions.get("parameters") is not None:
        raise ModelError(
            f"inertia_derivatives of model {model.name!r}: expected no parameters=, because its "
            "columns are those of model.parameter_names, got some; build a model with these numbers"
        )
    return record_under(InertiaDerivatives, conditions, _FUNCTION, model, (q, v, tau))
