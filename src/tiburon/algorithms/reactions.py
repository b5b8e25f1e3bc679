"""What joints carry: the wrench of the actuator and that of the bearing.

Symbols (Featherstone 1987, section 7.4.2):
    f       force a joint transmits to its body, F tau + fr
    S       motion sub-space of the joint
    F       force sub-space of its actuator: wrenches of unit joint forces, S^T F = 1
    fr      reaction of the bearing, which does no work: S^T fr = 0
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.conditions import (
    Conditions,
    Setting,
    dynamics_function,
    record_under,
    takes_conditions,
)
from tiburon.algorithms.gathering import by_velocity
from tiburon.algorithms.library import scalars
from tiburon.algorithms.rnea import transmitted
from tiburon.model import Model
from tiburon.spatial import Force, Motion, Scalar
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.spd import factor_spd

__all__ = ["JointReactions", "joint_reactions", "split", "unit_forces"]

Scalars = Sequence[Scalar]


class JointReactions(NamedTuple):
    """What every joint that moves carries, in the order of `model.joint_names`.

    Wrenches are [n; f] in axes of the body that the joint holds, about its origin: what acts on the
    body; the opposite acts on its parent.
    """

    tau: NDArray[np.float64]
    """Joint force [N or N m], shape (..., nv), with what accelerates armatures."""

    actuator: NDArray[np.float64]
    """Wrench of the actuator on the body [N m, N], shape (..., joints, 6)."""

    bearing: NDArray[np.float64]
    """Wrench of the bearing [N m, N], shape (..., joints, 6)."""


def unit_forces(S: Sequence[Motion]) -> tuple[Force, ...]:
    """Return the wrenches that unit joint forces are taken to be, with S^T F = 1.

    Work alone does not tell: any wrench that does none may be added. Where every one of several
    freedoms turns the body, they are couples. Otherwise they lie along S, as in the book for a
    screw, whose unit force is shared between its axis' couple and force (sec. 7.3).

    Args:
        S: Columns of the motion sub-space, in any frame.

    Returns:
        One wrench per column, in the same frame.
    """
    turning = len(S) > 1 and all(any(_maybe(x) for x in s.angular) for s in S)
    along = [Force(s.angular, ZERO3 if turning else s.linear) for s in S]
    if not along:
        return ()
    gram = as_traced([s.dot(f) for s in S for f in along]).reshape(len(S), len(S))
    # S^T along is symmetric; its inverse turns the directions into duals of S
    weights = scalars(factor_spd(gram, inline=True).solve(np.eye(len(S))))
    found = []
    for column in range(len(S)):
        total = Force.zero()
        for row, direction in enumerate(along):
            total = total + direction * weights[row * len(S) + column]
        found.append(total)
    return tuple(found)


def _maybe(x: Scalar) -> bool:
    """Tell whether a number may be other than zero: a constant that is not, or a traced one."""
    return not isinstance(x, float) or x != 0.0


def split(S: Sequence[Motion], f: Force) -> tuple[tuple[Scalar, ...], Force, Force]:
    """Split the force a joint transmits (Featherstone 1987, eqs. 7.14 and 7.15 for S^T F = 1).

    Args:
        S: Columns of the motion sub-space.
        f: The force [N m, N], in the same frame.

    Returns:
        Joint forces S^T f, the wrench F S^T f of the actuator, and that of the bearing.
    """
    tau = tuple(s.dot(f) for s in S)
    actuator = Force.zero()
    for unit, force in zip(unit_forces(S), tau, strict=True):
        actuator = actuator + unit * force
    return tau, actuator, f - actuator


def _run(around: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    model, plan = around.model, around.plan
    forces = transmitted(plan, q, v, vd, around.gravity, around.external)
    tau: list[tuple[Scalar, ...]] = []
    actuators: list[Scalar] = []
    bearings: list[Scalar] = []
    for body, f in zip(plan.bodies, forces, strict=True):
        # the user's own joint and body frame: what is reported must not depend on plan frames
        S = model.body(body.name).joint.subspace(q[body.q])
        felt = plan.frame(body.name).transform.force(f)
        joint_force, actuator, bearing = split(S, felt)
        if body.armature is not None:
            shares = zip(joint_force, body.armature, vd[body.v], strict=True)
            joint_force = tuple(force + own * rate for force, own, rate in shares)
        tau.append(joint_force)
        actuators += actuator
        bearings += bearing
    shape = (len(plan.bodies), 6)
    return {
        "tau": as_traced(list(by_velocity(plan, tau))),
        "actuator": as_traced(actuators).reshape(shape),
        "bearing": as_traced(bearings).reshape(shape),
    }


_FUNCTION = dynamics_function("joint_reactions", ("q", "v", "vd"), _run)


@takes_conditions
def joint_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    **conditions: Unpack[Conditions],
) -> JointReactions:
    """Compute what every joint carries, split into the wrenches of its actuator and its bearing.

    The actuator's wrench is what the joint force stands for: a couple about the axis of a hinge, a
    force along a slide. The bearing carries the rest and does no work. One state or a batch; traced
    arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`.

    Returns:
        Joint forces, actuator wrenches and bearing wrenches of all joints that move, in the order
        of `model.joint_names`; fixed joints are left out, their bodies being one with their parent.
    """
    return JointReactions(*record_under(conditions, _FUNCTION, model, (q, v, vd)))
