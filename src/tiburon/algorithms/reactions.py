"""Joint reactions: the wrench of the actuator and that of the bearing.

Symbols (Featherstone 1987, section 7.4.2):
    f       force a joint transmits to its body, F tau + fr
    S       motion subspace of the joint
    F       force subspace of its actuators: unit wrenches; S^T F = 1 by default
    Qa      forces of the actuators, S^T F Qa = S^T f
    fr      reaction of the bearing, which does no work: S^T fr = 0
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.rnea import transmitted
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import scalars
from tiburon.algorithms.traversal import by_velocity, with_armature_force
from tiburon.model import Fixed
from tiburon.spatial import Force, Motion, Scalar, Scalars
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.orthogonal import factor_orthogonal
from tiburon.trace.primitives.spd import factor_spd
from tiburon.trace.value import require


def unit_forces(S: Sequence[Motion]) -> tuple[Force, ...]:
    """Return default unit wrenches of joint forces, with S^T F = 1, in the frame of S.

    S^T F = 1 does not determine F: couples are chosen for joints with several rotational axes,
    otherwise wrenches along S, as in the book for a screw joint (sec. 7.3).
    """
    turning = len(S) > 1 and all(any(_may_be_nonzero(x) for x in s.angular) for s in S)
    along = [Force(s.angular, ZERO3 if turning else s.linear) for s in S]
    if not along:
        return ()
    gram = as_traced([s.dot(f) for s in S for f in along]).reshape(len(S), len(S))
    # S^T along is symmetric; its inverse gives the dual basis of S
    weights = scalars(factor_spd(gram, inline=True).solve(np.eye(len(S))))
    found = []
    for column in range(len(S)):
        total = Force.zero()
        for row, direction in enumerate(along):
            total = total + direction * weights[row * len(S) + column]
        found.append(total)
    return tuple(found)


def _may_be_nonzero(x: Scalar) -> bool:
    """Return whether a value is traced, or a nonzero constant."""
    return not isinstance(x, float) or x != 0.0


def split(S: Sequence[Motion], f: Force, F: Sequence[Force] | None = None) -> tuple[Force, Force]:
    """Split the force a joint transmits (Featherstone 1987, eqs. 7.14 and 7.15).

    Args:
        S: Columns of the motion subspace.
        f: The wrench [N m, N], in the same frame.
        F: Unit wrenches of the joint's actuators; those of `unit_forces` by default.

    Returns:
        The wrench F Qa of the actuators, and that of the bearing.
    """
    tau = tuple(s.dot(f) for s in S)
    units, forces = (unit_forces(S), tau) if F is None else (F, _actuator_forces(S, F, tau))
    actuator = Force.zero()
    for unit, force in zip(units, forces, strict=True):
        actuator = actuator + unit * force
    return actuator, f - actuator


def _actuator_forces(S: Sequence[Motion], F: Sequence[Force], tau: Scalars) -> Scalars:
    """Solve S^T F Qa = tau for the Qa of least norm."""
    if not S:
        return (0.0,) * len(F)
    work = as_traced([s.dot(f) for s in S for f in F]).reshape(len(S), len(F))
    factor = factor_orthogonal(work)
    powered = factor.rank >= len(S)
    expected = "actuators that act on every degree of freedom of their joint in this configuration"
    return [require(powered, x, expected) for x in scalars(factor.solve(as_traced(list(tau))))]


def reactions_under(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars
) -> dict[str, Any]:
    """Compute the arrays of `JointReactions`, by name.

    Args:
        around: Surroundings in this state; loops are ignored.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        *lines: Unit wrenches of the actuators in the options.
    """
    model, plan = around.model, around.plan
    named_actuators = dict(around.options).get("actuators", ())
    named = dict(zip((name for name, _ in named_actuators), lines, strict=True))
    forces = transmitted(plan, q, v, vd, around.gravity, around.external)
    tau: list[tuple[Scalar, ...]] = []
    actuators: list[Scalar] = []
    bearings: list[Scalar] = []
    for body, f in zip(plan.bodies, forces, strict=True):
        # the user's joint and body frame, since results must not depend on plan frames
        joint = model.body(body.name).joint
        if isinstance(joint, Fixed):
            # welds whose pose is a run-time parameter are links of their own
            tau.append(())
            continue
        wrench = plan.frame(body.name).transform.force(f)
        units = named.get(joint.name)
        F = None
        if units is not None:
            F = [Force.from_array(units[k : k + 6]) for k in range(0, len(units), 6)]
        # a follower of ratio 0 has its axis, too: the gear holds it
        actuator, bearing = split(joint.own_subspace(q[body.q]), wrench, F)
        joint_force = tuple(s.dot(wrench) for s in joint.subspace(q[body.q]))
        tau.append(with_armature_force(body, joint_force, vd))
        actuators += actuator
        bearings += bearing
    shape = (len(actuators) // 6, 6)
    return {
        "tau": as_traced(list(by_velocity(plan, tau))),
        "actuator": as_traced(actuators).reshape(shape),
        "bearing": as_traced(bearings).reshape(shape),
    }
