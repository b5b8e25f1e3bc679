"""Motion near a state: linear equations in continuous time, or for one step of an integrator.

Symbols:
    x       [dq, v]: a step of position away from the state, and the velocity
    A, B    change of dx/dt (or of x one step later) with x and with the joint forces

Steps of position do not commute where joints turn about several axes. Seen from a body that turns
at w, a step d changes by d x w even at constant velocity: that is the upper left block of A.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.derivatives.dynamics import acceleration_derivatives
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.arguments import public
from tiburon.errors import ModelError, TraceError
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import record_under
from tiburon.model import Joint, Model
from tiburon.record import named_line
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.differentiation import push_forward
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.primitive import nodes_of
from tiburon.trace.program import Input, current_graph
from tiburon.trace.regions import function
from tiburon.trace.regions.region import as_value

__all__ = ["Linearization", "linearize", "movable_joints"]


class Linearization(NamedTuple):
    """Motion near a state, to first order."""

    A: NDArray[np.float64]
    """Change with x = [dq, v], shape (..., 2 nv, 2 nv)."""

    B: NDArray[np.float64]
    """Change with the joint forces, shape (..., 2 nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


def _derivatives(
    around: Setting,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    *time: Scalar,
) -> list[list[Scalar]]:
    """Return the accelerations, and their derivatives by q, v and tau, row by row."""
    q = JointVector(q)
    here = around.at(q, JointVector(v), *time)
    found = acceleration_derivatives(here, q, JointVector(v), JointVector(tau))
    return [list(scalars(x)) for x in found]


def movable_joints(model: Model) -> list[tuple[Joint, slice, slice]]:
    """Return the joints with freedoms of their own, and where their numbers stand.

    Raises:
        ModelError: If a joint's positions have more freedoms than its velocities.
    """
    found = []
    for joint in model.joints:
        if not joint.nv:
            continue
        if len(joint.step(joint.neutral(), (0.0,) * joint.nv)) != joint.nv:
            raise ModelError(
                f"joint {joint.name!r}: linearize needs positions with as many freedoms as "
                f"velocities, got a {joint.kind} joint, which reaches places that no step of "
                "velocity leads to; use forward_dynamics_derivatives",
                name=joint.name,
            )
        found.append((joint, model.slice(joint.name, of="q"), model.slice(joint.name, of="v")))
    return found


def _run_continuous(around: Setting, q: Scalars, rate: Scalars, tau: Scalars) -> Any:
    joints, n = movable_joints(around.model), around.model.nv
    _, by_q, by_v, by_tau = _derivatives(around, q, rate, tau)
    turning: list[list[Scalar]] = [[0.0] * n for _ in range(n)]
    for joint, _, j in joints:
        for k, unit in enumerate(np.eye(joint.nv).tolist(), start=j.start):
            for row, x in enumerate(joint.bracket(unit, rate[j]), start=j.start):
                turning[row][k] = x
    upper = [[*row, *ones] for row, ones in zip(turning, np.eye(n).tolist(), strict=True)]
    lower = [[*by_q[i * n : (i + 1) * n], *by_v[i * n : (i + 1) * n]] for i in range(n)]
    A = [x for row in (*upper, *lower) for x in row]
    return {
        "A": as_traced(A).reshape(2 * n, 2 * n),
        "B": as_traced([*(0.0,) * (n * n), *by_tau]).reshape(2 * n, n),
    }


def _run_step(around: Setting, q: Scalars, v: Scalars, tau: Scalars, dt: Scalars) -> Any:
    joints, n = movable_joints(around.model), around.model.nv
    manifold = Manifold(around.model)

    @function
    def columns(q: Scalars, v: Scalars, tau: Scalars, dt: Scalar, arrays: Any) -> Any:
        inside = around._replace(arrays=arrays, external=None)
        stages = _Stages(joints, tau, function(partial(_derivatives, inside)))
        time = around.now
        after = rk4_step(manifold, stages.acceleration, q, v, dt, *time)
        seeds = _seeds(joints, q, v, tau)
        return [stages.change(seed, *after) for seed in seeds]

    arrays = tuple(tuple(scalars(array)) for array in around.arrays)
    found = columns(tuple(q), tuple(v), tuple(tau), dt[0], arrays)
    whole = as_traced([x for column in found for x in column]).reshape(3 * n, 2 * n).T
    return {"A": whole[:, : 2 * n], "B": whole[:, 2 * n :]}


Seed = tuple[Sequence[Scalar], Sequence[Scalar]]
"""The numbers that change, and their rates."""


def _seeds(
    joints: Sequence[tuple[Joint, slice, slice]], q: Scalars, v: Scalars, tau: Scalars
) -> list[Seed]:
    """Return unit changes of x and tau."""
    seeds: list[Seed] = [
        (q[i], joint.position_rate(q[i], unit))
        for joint, i, _ in joints
        for unit in np.eye(joint.nv).tolist()
    ]
    return seeds + [((x,), (1.0,)) for x in (*v, *tau)]


class _Stages:
    """The accelerations that an integrator asks for, with their derivatives."""

    def __init__(
        self,
        joints: Sequence[tuple[Joint, slice, slice]],
        tau: Scalars,
        derivatives: Callable[..., list[list[Scalar]]],
    ) -> None:
        graph = current_graph()
        if graph is None:
            raise TraceError("linearize: a step is differentiated on its graph, trace it first")
        self._graph: Graph = graph
        self._joints = joints
        self._tau = tau
        self._derivatives = derivatives
        self._asked: list[tuple[Scalars, Scalars, list[list[Scalar]]]] = []

    def acceleration(self, q: Scalars, v: Scalars, *time: Scalar) -> Scalars:
        """Return the acceleration of a state, and remember how it changes."""
        found = self._derivatives(q, v, self._tau, *time)
        self._asked.append((q, v, found))
        return tuple(found[0])

    def change(self, seed: Seed, q: Scalars, v: Scalars) -> list[Scalar]:
        """Return how a state that was reached changes, as a step and a change of velocity."""
        graph = self._graph
        tangents = dict(zip(*(nodes_of(graph, part) for part in seed), strict=True))
        force = self._pushed(self._tau, tangents)
        for position, rate, found in self._asked:
            moved = self._velocity(position, self._pushed(position, tangents))
            changes = moved, self._pushed(rate, tangents), force
            for row, a in enumerate(found[0]):
                total: Scalar = 0.0
                for matrix, change in zip(found[1:], changes, strict=True):
                    entries = matrix[row * len(change) : (row + 1) * len(change)]
                    for entry, x in zip(entries, change, strict=True):
                        total = total + entry * x
                (node,) = nodes_of(graph, [a])
                (tangents[node],) = nodes_of(graph, [total])
                if graph.ops[node] == "result":
                    # what it comes from need not be differentiated: the derivative is known
                    tangents[graph.args[node][0]] = graph.const(0.0)
        return [*self._velocity(q, self._pushed(q, tangents)), *self._pushed(v, tangents)]

    def _pushed(self, values: Sequence[Scalar], tangents: dict[int, int]) -> list[Scalar]:
        graph = self._graph
        found = push_forward(graph, nodes_of(graph, values), tangents)
        return [as_value(graph, node) for node in found]

    def _velocity(self, q: Sequence[Scalar], rate: Sequence[Scalar]) -> list[Scalar]:
        """Return the step of position that goes with a change of its numbers."""
        return [x for joint, i, _ in self._joints for x in joint.velocity_of_rate(q[i], rate[i])]


_CONTINUOUS = dynamics_function("linearize", ("q", "v", "tau"), _run_continuous, of_trees=False)
_STEP = dynamics_function(
    "linearize_step", ("q", "v", "tau", Input("dt", ())), _run_step, of_trees=False
)


@public
@takes_conditions
def linearize(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    dt: ArrayLike | None = None,
    **conditions: Unpack[DynamicsCall],
) -> Linearization:
    """Linearize the motion of a robot about a state: dx/dt = A x + B dtau near it.

    x = [dq, v] has 2 nv numbers: dq is a step away from q, as `Model.integrate` takes it, so that
    quaternions need no special care. With a step dt, x of the next time is A x + B dtau for the
    step of `integrate_rk4` with joint forces held, differentiated exactly. One state or a batch;
    traced arrays inside a compiled function, one state at a time.

    With loops, x still has 2 nv numbers, of which those count that keep loops closed: J dq = 0 and
    J v + (dJ/dt) dq = 0 to first order, as two closed states near each other do. A keeps them so.
    In equilibrium its eigenvalues along directions that open loops are zero: gaps keep their rates.

    Args:
        model: The robot; its joints must have as many velocities as freedoms of position.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        dt: Length of a step [s], shape (...); None for continuous time.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        A, shape (..., 2 nv, 2 nv), and B, shape (..., 2 nv, nv).

    Raises:
        ModelError: If a joint rolls: its positions have more freedoms than its velocities.

    Example:
        ``A, B = tb.linearize(arm, q, v, tau, dt=0.01)``
    """
    kind, step = (_CONTINUOUS, ()) if dt is None else (_STEP, (dt,))
    return record_under(Linearization, conditions, kind, model, (q, v, tau, *step))
