"""What joints carry: the wrench of the actuator and that of the bearing.

Symbols (Featherstone 1987, section 7.4.2):
    f       force a joint transmits to its body, F tau + fr
    S       motion sub-space of the joint
    F       force sub-space of its actuators: wrenches of unit force; S^T F = 1 where none are named
    Qa      forces of the actuators, S^T F Qa = S^T f
    fr      reaction of the bearing, which does no work: S^T fr = 0
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.rnea import transmitted
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.sweep import by_velocity
from tiburon.algorithms.tape_calls import scalars
from tiburon.spatial import Force, Motion, Scalar
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.value import require

__all__ = ["reactions_under", "split", "unit_forces"]

Scalars = Sequence[Scalar]


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


def split(
    S: Sequence[Motion], f: Force, F: Sequence[Force] | None = None
) -> tuple[tuple[Scalar, ...], Force, Force]:
    """Split the force a joint transmits (Featherstone 1987, eqs. 7.14 and 7.15).

    Args:
        S: Columns of the motion sub-space.
        f: The force [N m, N], in the same frame.
        F: Wrenches of unit forces of the joint's actuators; those of `unit_forces` by default.

    Returns:
        Joint forces S^T f, the wrench F Qa of the actuators, and that of the bearing.
    """
    tau = tuple(s.dot(f) for s in S)
    units, forces = (unit_forces(S), tau) if F is None else (F, _actuator_forces(S, F, tau))
    actuator = Force.zero()
    for unit, force in zip(units, forces, strict=True):
        actuator = actuator + unit * force
    return tau, actuator, f - actuator


def _actuator_forces(S: Sequence[Motion], F: Sequence[Force], tau: Scalars) -> Scalars:
    """Solve S^T F Qa = tau; of more actuators than freedoms, take those of least squares."""
    if not S:
        return (0.0,) * len(F)
    work = as_traced([s.dot(f) for s in S for f in F]).reshape(len(S), len(F))
    factor = factor_orthogonal(work)
    powered = factor.rank >= len(S)
    expected = "actuators that work on every freedom of their joint in this position"
    return [require(powered, x, expected) for x in scalars(factor.solve(as_traced(list(tau))))]


def reactions_under(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars
) -> dict[str, Any]:
    """Return the arrays of `JointReactions` by name.

    Args:
        around: What acts in this state; loops count as open.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        *lines: Wrenches of the actuators that the options name.
    """
    model, plan = around.model, around.plan
    named_actuators = dict(around.options).get("actuators", ())
    named = dict(zip((name for name, _ in named_actuators), lines, strict=True))
    forces = transmitted(plan, q, v, vd, around.gravity, around.external)
    tau: list[tuple[Scalar, ...]] = []
    actuators: list[Scalar] = []
    bearings: list[Scalar] = []
    for body, f in zip(plan.bodies, forces, strict=True):
        # the user's own joint and body frame: what is reported must not depend on plan frames
        joint = model.body(body.name).joint
        S = joint.subspace(q[body.q])
        felt = plan.frame(body.name).transform.force(f)
        numbers = named.get(joint.name)
        F = None
        if numbers is not None:
            F = [Force.from_array(numbers[k : k + 6]) for k in range(0, len(numbers), 6)]
        joint_force, actuator, bearing = split(S, felt, F)
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
