"""Derivatives of inverse dynamics by differentiating what was traced.

The recursions of `dynamics_derivatives` know rigid bodies. What water does depends on position and
velocity in ways that no recursion lists, and users add inertias of their own; there the graph of
inverse dynamics is differentiated itself, one column at a time. Exact, and as short as this; the
code grows with freedoms times bodies.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tiburon.algorithms.derivatives.inverse_dynamics import Rows
from tiburon.algorithms.tape_calls import JointVector
from tiburon.model import Plan
from tiburon.spatial import Scalar
from tiburon.trace.forward import push_forward
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, current_graph, trace
from tiburon.trace.regions import function
from tiburon.trace.regions.region import as_value, float_node

__all__ = ["ForceChanges", "traced_changes"]


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
