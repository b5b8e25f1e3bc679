"""Springs and dampers across loops, and between points, at the end of a step (`step_end.py`).

Symbols:
    h           length of the step [s]
    c, J        constraint residual, or how far a spring is stretched, and its Jacobian
    f, S        constraint force in the mean state of the step, and how it decreases with the rate
                of the residual at the end of the step
    f_0         constraint force of the last step, which acted at the stages
    H           mass matrix

    v = v1 + H^-1 J^T p,  with  J (v - v1) + p / (h S) = (f - f_0) / S
    f = -k c_m - d cd_m,  with  cd_m = cd_0 + theta (cd_1 - cd_0),  c_m = c_0 + theta h cd_m
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.joint_laws import RESOLVED_RATE, end_weight, sampled_positions
from tiburon.actuation.point_spring import StiffSprings
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arrays import Array, NDArray
from tiburon.contact.rows import ContactRow
from tiburon.functions.assembly import resting_position
from tiburon.functions.closed_loops import loop_jacobian
from tiburon.functions.dynamics import mass_matrix
from tiburon.loops.constraints import constraints
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.stabilization import Penalty
from tiburon.model import Model, Plan
from tiburon.model.model import per_model
from tiburon.simulation.integrator_step import IntegratorStep
from tiburon.spatial import Scalar, Scalars


class SoftTerms(NamedTuple):
    """Springs and dampers at the end of a step, an entry per constraint, then per spring."""

    jacobian: Sequence[ContactRow]
    """J."""

    forces: list[Scalar]
    """f, if the velocity at the end stayed [N or N m]."""

    slopes: list[Scalar]
    """S."""

    softness: list[Scalar]
    """Velocity that each lets pass per impulse."""

    rates: list[Scalar]
    """Right-hand side of the equations of the change of velocity."""

    def forces_after(self, change: Scalars) -> list[Scalar]:
        """Return the mean forces of the step, for a change of the velocity at its end."""
        found = []
        for row, force, slope in zip(self.jacobian, self.forces, self.slopes, strict=True):
            moved: Scalar = 0.0
            for i, x in row.items():
                moved = moved + x * change[i]
            found.append(force - slope * moved)
        return found


def soft_terms(step: IntegratorStep, plan: Plan, v1: Scalars) -> SoftTerms | None:
    """Return the springs and dampers of a step; None where the system has none that act at its end.

    Args:
        step: The step, taken with the constraint forces of the last one.
        plan: Layout of the robot at its end.
        v1: Joint velocity there, with that of prescribed joints [m/s or rad/s].
    """
    h, rows = step.h, [*_across_loops(step, plan, v1), *_between_points(step, plan, v1)]
    if not rows:
        return None
    found = SoftTerms([row.jacobian for row in rows], [], [], [], [])
    for _, fastest, value, rate, ahead, held, k, d in rows:
        part = end_weight(fastest * h)
        mean = rate + part * (ahead - rate)
        force = -k * (value + part * h * mean) - d * mean
        slope = part * d + part * part * h * k
        found.forces.append(force)
        found.slopes.append(slope)
        found.softness.append(1.0 / (h * slope))
        found.rates.append((force - held) / slope)
    return found


class _SoftRow(NamedTuple):
    """A spring and damper in a step."""

    jacobian: ContactRow
    fastest: Scalar
    value: Scalar
    rate: Scalar
    ahead: Scalar
    """Its rate at the end of the step."""

    held: Scalar
    """Its force in the last step."""

    k: Scalar
    d: Scalar


def _across_loops(step: IntegratorStep, plan: Plan, v1: Scalars) -> Iterator[_SoftRow]:
    """Yield the rows of constraints; arguments as of `soft_terms`."""
    system, q, v, q1 = step.system, step.start[0], step.v, step.after[0]
    placed, method = system.find(SoftLoops), system.held_loops.method
    if placed is None:
        return
    earlier = system.plan_at(q, v, step.time)
    before = constraints(system.model, earlier, JointVector(q), JointVector(v))
    there = constraints(system.model, plan, JointVector(q1), JointVector(v1))
    rows = zip(
        there.jacobian,
        step.p[placed.p],
        before.value,
        before.rate,
        there.rate,
        step.z[placed.z],
        method.gains(len(before.value)),
        strict=True,
    )
    for row, z, value, rate, ahead, held, (k, d) in rows:
        yield _SoftRow(row, z, value, rate, ahead, held, k, d)


def _between_points(step: IntegratorStep, plan: Plan, v1: Scalars) -> Iterator[_SoftRow]:
    """Yield the rows of springs, whose force is against the tension; arguments as before."""
    placed = step.system.find(StiffSprings)
    if placed is None:
        return
    start, own = (step.start[0], step.v), step.p[placed.p]
    before = placed.element.stretched(step.system.plan_at(*start, step.time), *start, own)
    there = placed.element.stretched(plan, step.after[0], v1, own)
    tensions = step.z[placed.z]
    for i, (first, last, tension) in enumerate(zip(before, there, tensions, strict=True)):
        z, k, d, _ = own[4 * i : 4 * i + 4]
        yield _SoftRow(last[2], z, first[0], first[1], last[1], -tension, k, d)


TIME_CONSTANT, IMPEDANCE = 0.02, 0.95
"""Time in which MuJoCo lets equalities close where files state no other [s], and which share of the
constraint force of closed loops they then have: solref and solimp."""


HEAVY = 0.1
"""Share of configurations in which a constraint moves more mass than its spring is made for."""

SINGULAR_SHARE = 1e-3
"""Share of the fastest rate of a constraint below which a configuration is singular to it."""


def may_be_soft(model: Model) -> bool:
    """Return whether all loops are equalities of a file that are soft there."""
    return bool(model.loops) and all(getattr(x, "may_start_open", False) for x in model.loops)


def soft_springs(model: Model) -> Penalty:
    """Return springs and dampers as those of MuJoCo's equalities.

    At rest these leave a residual of (1 - d) / d tau^2 a, with the time constant tau, the impedance
    d and the acceleration a that the constraint would have without force.

    Their masses are almost the largest of many configurations: in some they move light links only,
    in singular ones nothing.
    """
    mobility = np.array([(np.linalg.solve(L, J.T) ** 2).sum(axis=0) for J, L in _sampled(model)])
    usual = np.median(mobility, axis=0)
    mobility = np.quantile(np.where(mobility > 0.0, mobility, usual), HEAVY, axis=0)
    masses = 1.0 / np.where(mobility > 0.0, mobility, 1.0)
    stiff = masses * IMPEDANCE / (1.0 - IMPEDANCE)
    stiffness, damping = stiff / TIME_CONSTANT**2, 2.0 * stiff / TIME_CONSTANT
    return Penalty(tuple(stiffness.tolist()), tuple(damping.tolist()))


@per_model
def _sampled(model: Model) -> list[tuple[Array, Array]]:
    """Return `loops_and_inertia` in configurations in which loops are looked at, at rest first."""
    positions = [resting_position(model), *sampled_positions(model)]
    return [loops_and_inertia(model, q) for q in positions]


def soft_loops(model: Model, method: LoopMethod, dt: float) -> SoftLoops | None:
    """Return the springs across loops if steps do not resolve them, else None.

    Args:
        model: The robot.
        method: The springs and dampers.
        dt: Length of the steps [s].
    """
    J, L = loops_and_inertia(model, resting_position(model))
    gains = method.gains(len(J))
    if float(np.abs(method.roots(J, L)).max()) * dt < RESOLVED_RATE:
        return None
    rates = []
    for J, L in _sampled(model):
        alone = [Penalty(k, d).roots(row[None], L) for row, (k, d) in zip(J, gains, strict=True)]
        rates.append([np.abs(found).max() for found in alone])
    # a singular configuration says nothing of the others
    resting, fastest = np.array(rates[0]), np.max(rates, axis=0)
    found = np.where(resting < SINGULAR_SHARE * fastest, fastest, resting)
    return SoftLoops("soft_loops", tuple(found.tolist()))


def loops_and_inertia(
    model: Model, q: Array, **now: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the Jacobian of all loops, and the Cholesky factor of the mass matrix of the tree."""
    J = np.asarray(loop_jacobian(model, q, **now))
    return J, np.linalg.cholesky(np.asarray(mass_matrix(_tree(model), q, **now)))


@per_model
def _tree(model: Model) -> Model:
    return model.without_loops()
