"""The end of a step in which springs and dampers across loops act.

Symbols:
    h           length of the step [s]
    c, J        constraint residual and its Jacobian
    f, S        constraint force in the mean state of the step, and how it decreases with the rate
                of the residual at the end of the step
    f_0         constraint force of the last step, which acted at the stages
    H           mass matrix

    v = v1 + H^-1 J^T p,  with  J (v - v1) + p / (h S) = (f - f_0) / S
    f = -k c_m - d cd_m,  with  cd_m = cd_0 + theta (cd_1 - cd_0),  c_m = c_0 + theta h cd_m
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.joint_laws import RESOLVED_RATE, end_weight
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arrays import Array, NDArray
from tiburon.contact.rigid import compliance_of
from tiburon.functions.closed_loops import loop_jacobian
from tiburon.functions.dynamics import mass_matrix
from tiburon.loops.constraints import constraints
from tiburon.loops.metric import MIN_CUT
from tiburon.loops.stabilization import Penalty
from tiburon.model import Model
from tiburon.simulation.step_end import SHORTEST_STEP
from tiburon.spatial import Scalar, Scalars

if TYPE_CHECKING:
    from tiburon.simulation.system import System


def end_with_soft_loops(
    system: "System",
    manifold: Any,
    start: tuple[Scalars, Scalars],
    after: tuple[Scalars, Scalars],
    u: Scalars,
    h: Scalar,
    time: Scalar,
    p: Scalars,
) -> tuple[Scalars, Scalars, Scalars]:
    """Return configuration, velocities with inner states, and held values at the end of a step.

    Args:
        system: The robot, with springs across loops.
        manifold: Its positions.
        start: Configuration and velocities with inner states at the start of the step.
        after: The same at its end, under the constraint forces of the last step.
        u: Held values.
        h: Length of the step [s].
        time: Time at its start [s].
        p: Run-time parameters of the elements.
    """
    placed = system.find(SoftLoops)
    assert placed is not None
    at_z, at_p = placed.z, placed.p
    method = system.loops
    assert isinstance(method, Penalty)
    model, (q, w), (q1, w1) = system.model, start, after
    nv, h = model.nv, np.maximum(h, SHORTEST_STEP)
    v, last = w[:nv], u[system.discrete][at_z]
    ahead = manifold.displaced(q, v, h)
    v1 = manifold.reexpress(w1[:nv], q1, ahead)
    before = constraints(model, system.plan_at(q, v, time), JointVector(q), JointVector(v))
    plan = system.plan_at(ahead, v, time + h)
    there = constraints(model, plan, JointVector(ahead), JointVector(v1))
    k, d = method.stiffness, method.own_damping
    forces, slopes, softness, rates = [], [], [], []
    rows = zip(p[at_p], before.value, before.rate, there.rate, last, strict=True)
    for fastest, value, rate, end, held in rows:
        part = end_weight(fastest * h)
        mean = rate + part * (end - rate)
        force = -k * (value + part * h * mean) - d * mean
        slope = part * d + part * part * h * k
        forces.append(force)
        slopes.append(slope)
        softness.append(1.0 / (h * slope))
        rates.append((force - held) / slope)
    jacobian = there.jacobian
    compliance = compliance_of(plan, ahead, (), jacobian, MIN_CUT, softness=softness)
    assert compliance.closing is not None
    change = compliance.closing(rates)
    z = []
    for row, force, slope in zip(jacobian, forces, slopes, strict=True):
        moved: Scalar = 0.0
        for i, x in row.items():
            moved = moved + x * change[i]
        z.append(force - slope * moved)
    shift = manifold.reexpress(tuple(0.5 * x for x in change), ahead, q1)
    q_after = manifold.normalize(manifold.displaced(q1, shift, h))
    v_after = tuple(a + b for a, b in zip(v1, change, strict=True))
    back = manifold.reexpress(v_after, ahead, q_after)
    held_after = list(u[system.discrete])
    held_after[at_z] = z
    return q_after, (*back, *w1[nv:]), (*u[: system.discrete.start], *held_after)


def soft_loops(model: Model, method: Penalty, q: Array, dt: float) -> SoftLoops | None:
    """Return the springs across loops if steps do not resolve them, else None.

    Args:
        model: The robot.
        method: The springs and dampers.
        q: The configuration in which their rates are looked at [m or rad], shape (nq,).
        dt: Length of the steps [s].
    """
    J, L = loops_and_inertia(model, q)
    A = np.linalg.solve(L, J.T)
    if method.rate(float(np.linalg.norm(A, 2) ** 2)) * dt < RESOLVED_RATE:
        return None
    return SoftLoops("soft_loops", tuple(method.rate(float(a @ a)) for a in A.T))


def loops_and_inertia(
    model: Model, q: Array, **now: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the Jacobian of all loops, and the Cholesky factor of the mass matrix of the tree."""
    J = np.asarray(loop_jacobian(model, q, **now))
    return J, np.linalg.cholesky(np.asarray(mass_matrix(model.without_loops(), q, **now)))
