"""Projection of configurations and velocities onto the constraint manifold.

Integrator steps keep loops closed up to their truncation error. Newton steps in the metric of the
mass matrix close them again with the correction of least kinetic energy. Velocities are projected
in the same metric: an impulse of the constraint forces removes the part that violates the
constraints. There are no gains to tune.

Symbols: J constraint Jacobian, H mass matrix, e values of the constraints.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.augmented import answer, loop_pattern
from tiburon.loops.constraints import Row, Switches, constraints, switched
from tiburon.loops.methods import cheaper_loop_method, solve_by_handles
from tiburon.loops.metric import LARGEST_CUT, ConstrainedMotion, largest, rank_cut
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar
from tiburon.trace.regions import while_loop

__all__ = [
    "CLOSURE_TOLERANCE",
    "MAX_RESIDUAL",
    "Projected",
    "projected_configuration",
    "projected_velocity",
]

CLOSURE_TOLERANCE = 1e-12
"""Gap at which a loop counts as closed [m or rad]: some rounding errors of meters and radians."""

MAX_RESIDUAL = 1e-8
"""Gap of a loop that no step of a run may leave [m or rad]; ordinary steps leave 1e-12."""

LONGEST = 1.0
"""Largest change of a joint in one Newton step [m or rad]."""

MOST_STEPS = 10
"""Newton steps of one projection; from the error of an integrator's step one or two do."""

CUT = LARGEST_CUT
"""Singular value s, relative to the largest, below which a projection leaves a direction alone.

Rounding e moves a position by e / s along that direction, which turns the velocities that loops
allow by e / s^2: 1e-7 at this s, and less than what a step leaves there without any projection.
"""


class Projected(NamedTuple):
    """A position brought back onto the loops."""

    q: tuple[Scalar, ...]
    steps: Scalar
    """Newton steps it took."""
    gap: Scalar
    """Largest value of a constraint that is left [m or rad]."""


def projected_configuration(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    *,
    least_steps: int = 0,
    switches: Switches | None = None,
    tolerance: float = 0.0,
) -> Projected:
    """Move a position onto the loops by Newton steps of least kinetic energy.

    Args:
        model: The robot.
        plan: Its layout.
        q: Position near the loops [m or rad], nq scalars.
        least_steps: Newton steps to take in any case: one leaves nothing but rounding of a gap that
            counts as closed, which near singular configurations is still a change of direction.
        switches: Which loops are closed; all by default.
        tolerance: Relative singular value below which constraints are redundant; they may then
            disagree, and steps also end where they change nothing.

    Returns:
        The position, with the remaining residual; it may be far off where `q` was.
    """

    def far(state: Any) -> Any:
        _, gap, taken, *step = state
        going = gap > CLOSURE_TOLERANCE
        if tolerance:
            going = going & (step[0] > CLOSURE_TOLERANCE)
        return going | (taken < least_steps) if least_steps else going

    def newton(state: Any) -> Any:
        position, _, taken, *_ = state
        position = JointVector(position)
        held = switched(constraints(model, plan, position), switches)
        cut = rank_cut(model, held.value, max(CUT, tolerance))
        step = _least_motion(model, plan, position, held.jacobian, [-e for e in held.value], cut).vd
        # where loops cannot close, Newton steps know no measure
        part = 1.0 / np.maximum(1.0, largest(step) / LONGEST)
        moved = JointVector(_moved(model, position, [part * x for x in step]))
        after = (tuple(moved), gap_of(moved), taken + 1.0)
        return (*after, largest(step)) if tolerance else after

    def gap_of(position: Sequence[Scalar]) -> Scalar:
        return largest(switched(constraints(model, plan, position), switches).value)

    q = JointVector(q)
    start: tuple[Any, ...] = (tuple(q), gap_of(q), 0.0)
    if tolerance:
        start = (*start, LONGEST)
    found = while_loop(far, newton, start, MOST_STEPS)
    position, gap = found.state[:2]
    return Projected(tuple(position), found.count, gap)


def projected_velocity(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    *,
    switches: Switches | None = None,
    tolerance: float = 0.0,
) -> tuple[Scalar, ...]:
    """Take out of a joint velocity what would open loops.

    Args:
        model: The robot.
        plan: Its layout.
        q: Position with closed loops [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        switches: Which loops are closed; all by default.
        tolerance: Relative singular value below which constraints are redundant.

    Returns:
        The nearest velocity in the metric of the mass matrix that keeps loops closed.
    """
    q, v = JointVector(q), JointVector(v)
    held = switched(constraints(model, plan, q, v), switches)
    cut = rank_cut(model, held.value, max(CUT, tolerance))
    change = _least_motion(model, plan, q, held.jacobian, [-rate for rate in held.rate], cut).vd
    return tuple(x + y for x, y in zip(v, change, strict=True))


def _least_motion(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    rows: Sequence[Row],
    wanted: Sequence[Scalar],
    cut: Scalar,
) -> ConstrainedMotion:
    """Return the motion of least kinetic energy with given rates of the constraints."""
    free = [0.0] * plan.nv
    if cheaper_loop_method(model) == "handles":
        return solve_by_handles(model, plan, q, rows, free, wanted, cut=cut)
    mass = chosen_mass_elements(plan, q, loop_pattern(model).mass)
    return answer(model, plan, mass, rows, free, wanted, cut=cut)


def _moved(model: Model, q: Sequence[Scalar], step: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return a position after a step of velocity, quaternions of length 1."""
    found: list[Scalar] = []
    for joint in model.joints:
        if joint.nq:
            own, change = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
            moved = joint.integrate(q[own], step[change])
            found.extend(joint.normalize(moved))
    return tuple(found)
