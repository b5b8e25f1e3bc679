"""Inverse dynamics with loops: which actuators must push how hard, and what the loops carry.

The tree needs joint forces Q for a motion. Loops carry what they can, J^T lambda; actuators must do
the rest. Only work along motions that loops allow counts: with P the projector on those,

    P E u = P Q,        J^T lambda = Q - E u        (Featherstone 1987, eq. 9.17)

E spreading the forces u of the actuated joints over all joints. Of all u, the shortest; of all
lambda, the shortest (redundant actuation: Nahon 1991, section 3.5).

Symbols: Q joint forces of the tree, J Jacobian of the constraints, E selection of actuated joints.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.keywords import DynamicsCall, takes_conditions
from tiburon.algorithms.library import Options, record_under
from tiburon.algorithms.rnea import rnea
from tiburon.arguments import public
from tiburon.errors import DomainError, ModelError
from tiburon.loops.constraints import Constraints, constraints, entries_in_use
from tiburon.loops.metric import largest, rank_cut
from tiburon.model import Model
from tiburon.record import named_line, record
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal
from tiburon.trace.value import require

__all__ = [
    "ActuatedForces",
    "LoopForces",
    "Sharing",
    "forces",
    "loop_inverse_dynamics",
    "shared_forces",
]

Array = NDArray[np.float64]

UNDRIVEN = 1e-7
"""Joint force, relative to all of them, that actuators and loops may leave unmade."""

OPENING = 1e-6
"""Rate, relative to the accelerations, at which a motion may open loops."""


@record(eq=False)
class LoopForces:
    """What makes a robot with loops move as wanted, one state or a batch."""

    tau: Array
    """Joint force [N or N m], shape (..., nv); zero where no actuator is."""

    constraint_force: Array
    """Force or moment along each constraint [N or N m], shape (..., constraints)."""


class ActuatedForces(NamedTuple):
    """What makes a motion in one state."""

    tau: list[Scalar]
    """Joint force [N or N m], nv scalars; zero where no actuator is."""

    multipliers: list[Scalar]
    """Force along each constraint [N or N m]."""

    def __repr__(self) -> str:
        return named_line(self)


class Sharing:
    """How actuators and loops of a robot share joint forces in one position.

    Attributes:
        live: Constraints that can bind anything, by number.
        driven: Velocity variables of the actuators.
        loops: J of the live constraints, factored.
        reach: P E, factored.
        cut: Relative length below which rows of J and columns of P E are dependent.
    """

    def __init__(self, model: Model, held: Constraints, actuators: Sequence[str]) -> None:
        """Factor.

        Args:
            model: The robot.
            held: Its constraints in this position.
            actuators: Names of the joints that are driven.
        """
        nv = model.nv
        self.live = [k for k, used in enumerate(entries_in_use(model)) if used]
        self.driven = [int(i) for i in model.indices(actuators, of="v")]
        rows = [[held.jacobian[k].get(i, 0.0) for i in range(nv)] for k in self.live]
        self.cut = rank_cut(model, held.value)
        # a row of zeros stands for loops that bind nothing
        self.loops = factor_orthogonal(as_traced(rows or [[0.0] * nv]), cut=self.cut)
        columns = [
            self.allowed([1.0 if i == place else 0.0 for i in range(nv)]) for place in self.driven
        ]
        # off the manifold P is off by as much
        matrix = as_traced([list(row) for row in zip(*columns, strict=True)])
        self.reach = factor_orthogonal(matrix, cut=self.cut)

    def allowed(self, force: Sequence[Scalar]) -> list[Scalar]:
        """Return the part of a joint force that works on motions the loops allow."""
        kept = self.loops.project_rows(as_traced(list(force)))
        return [f - x for f, x in zip(force, kept, strict=True)]

    def shares(self, needed: Sequence[Scalar]) -> list[Scalar]:
        """Return the shortest forces of the actuators that do what loops leave to do."""
        return list(self.reach.solve(as_traced(self.allowed(needed))))

    def spread(self, forces: Sequence[Scalar]) -> list[Scalar]:
        """Return forces of the actuators as joint forces."""
        found: list[Scalar] = [0.0] * self.loops.shape[1]
        for place, force in zip(self.driven, forces, strict=True):
            found[place] = force
        return found


def forces(
    model: Model,
    held: Constraints,
    needed: Sequence[Scalar],
    vd: Sequence[Scalar],
    actuators: Sequence[str],
    sharing: Sharing | None = None,
) -> ActuatedForces:
    """Share the joint forces that a motion needs between actuators and loops.

    Args:
        model: The robot.
        held: Its constraints in this state.
        needed: Joint forces of the tree for this motion [N or N m], nv scalars.
        vd: Joint accelerations of the motion [m/s^2 or rad/s^2], nv scalars.
        actuators: Names of the joints that are driven.
        sharing: Of this position and these actuators, where it is known.
    """
    among = sharing or Sharing(model, held, actuators)
    opening = [
        sum((x * vd[i] for i, x in held.jacobian[k].items()), start=held.bias[k])
        for k in among.live
    ]
    tau = among.spread(among.shares(needed))
    rest = [f - t for f, t in zip(needed, tau, strict=True)]
    carried = list(among.loops.solve_transpose(as_traced(rest)))
    undone = among.allowed(rest)
    # off the manifold redundant constraints disagree, and P is off, by as much as the cut
    possible = largest(undone) <= np.maximum(UNDRIVEN, among.cut) * (1.0 + largest(needed))
    steady = largest(opening) <= np.maximum(OPENING, among.cut) * (
        1.0 + largest(vd) + largest(held.bias)
    )
    message = (
        f"actuators that can drive this motion; {', '.join(actuators[:4])} cannot: name others"
    )
    tau = [
        require(steady, require(possible, t, message), "v and vd that keep loops closed")
        for t in tau
    ]
    multipliers: list[Scalar] = [0.0] * len(held.value)
    for k, force in zip(among.live, carried[: len(among.live)], strict=True):
        multipliers[k] = force
    return ActuatedForces(tau, multipliers)


def shared_forces(
    around: Setting, q: Any, v: Any, vd: Any, actuators: Sequence[str]
) -> ActuatedForces:
    """Return what actuators and loops do for a motion under conditions."""
    held = constraints(around.model, around.plan, q, v)
    needed = rnea(around.plan, q, v, vd, around.gravity, around.external)
    return forces(around.model, held, needed, vd, actuators)


@has_closed_form("inverse_dynamics")
def _inverse(around: Setting, q: Any, v: Any, vd: Any) -> Any:
    names = around.model.actuated_joint_names
    return as_traced(shared_forces(around, q, v, vd, names).tau)


def _run(around: Setting, q: Any, v: Any, vd: Any) -> Any:
    chosen = dict(around.options).get("actuators", around.model.actuated_joint_names)
    found = shared_forces(around, q, v, vd, chosen)
    return {"tau": as_traced(found.tau), "constraint_force": as_traced(found.multipliers)}


_FUNCTION = dynamics_function("loop_inverse_dynamics", ("q", "v", "vd"), _run, of_trees=False)


@public
@takes_conditions
def loop_inverse_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    actuators: str | Iterable[str] | None = None,
    **conditions: Unpack[DynamicsCall],
) -> LoopForces:
    """Compute the forces of chosen actuators that make a robot with loops move as wanted.

    Where actuators are more than the motion needs, their forces are those of least sum of squares.
    One state or a batch; traced arrays inside a compiled function.

    Args:
        model: The robot; it has loops.
        q: Position with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration that keeps them closed [m/s^2 or rad/s^2], shape (..., nv).
        actuators: Names of the joints that are driven; by default those that have motors.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Raises:
        ModelError: If the robot has no loops, or no such joint.
        DomainError: If these actuators cannot make the motion, or it would open loops.

    Example:
        ``tb.loop_inverse_dynamics(stewart, q, v, vd).tau``
    """
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: loop_inverse_dynamics is for robots with loops, got none; take "
            "inverse_dynamics"
        )
    options: Options = ()
    if actuators is not None:
        names = (actuators,) if isinstance(actuators, str) else tuple(actuators)
        if not names:
            raise DomainError("actuators", "one joint or more", "none")
        for name in names:
            model.joint(name)
        options = (("actuators", names),)
    return record_under(LoopForces, conditions, _FUNCTION, model, (q, v, vd), options)
