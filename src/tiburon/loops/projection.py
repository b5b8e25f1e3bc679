"""Projection of configurations and velocities onto the constraint manifold.

Integrator steps keep loops closed up to their truncation error. Newton steps in the metric of the
mass matrix close them again with the correction of least kinetic energy. Velocities are projected
in the same metric: an impulse of the constraint forces removes the part that violates the
constraints. There are no gains to tune.

Symbols: J constraint Jacobian, H mass matrix, e constraint residual.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.augmented import AugmentedSystem, loop_pattern, solve_augmented
from tiburon.loops.constraints import (
    Row,
    Switches,
    constraints,
    jacobian_pattern,
    switched,
)
from tiburon.loops.methods import cheaper_loop_method, solve_by_handles
from tiburon.loops.metric import (
    MAX_CUT,
    ConstrainedMotion,
    TreeMetric,
    max_abs,
    rank_cut,
    solve_in_metric,
)
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import where_needed, while_loop

__all__ = [
    "CLOSURE_TOLERANCE",
    "MAX_RESIDUAL",
    "Projected",
    "moved_configuration",
    "projected_configuration",
    "projected_state",
    "projected_velocity",
]

CLOSURE_TOLERANCE = 1e-12
"""Loop-closure error of a closed loop [m or rad]: some rounding errors of meters and radians."""

MAX_RESIDUAL = 1e-8
"""Largest loop-closure error after a step of a run [m or rad]; usually it is 1e-12."""

MAX_NEWTON_STEP = 1.0
"""Largest change of a joint in one Newton step [m or rad]."""

MAX_NEWTON_STEPS = 10
"""Newton steps of one projection; after an integrator step one or two suffice."""

PROJECTION_CUT = MAX_CUT
"""Relative singular value s below which a projection ignores a direction.

A rounding error e displaces the configuration by e / s along it, and rotates the permitted
velocities by e / s^2: 1e-7 at this s, less than the error of a step without projection.
"""


class Projected(NamedTuple):
    """A configuration projected onto the constraint manifold."""

    q: tuple[Scalar, ...]
    steps: Scalar
    """Number of Newton steps."""
    residual: Scalar
    """Largest remaining constraint residual [m or rad]."""


def projected_configuration(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    *,
    least_steps: int = 0,
    switches: Switches | None = None,
    tolerance: float = 0.0,
    pivoted: bool = False,
    hold: Sequence[int] = (),
) -> Projected:
    """Project a configuration onto the constraint manifold by Newton steps in the metric of H.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration near the manifold [m or rad], nq scalars.
        least_steps: Smallest number of Newton steps; one reduces a residual below the tolerance to
            rounding, which matters near singular configurations.
        switches: Which loops are closed; all by default.
        tolerance: Relative singular value below which constraints are redundant; these may be
            inconsistent, and the iteration also ends at steps of zero length.
        pivoted: Whether all factorizations pivot: shorter code for a case that is rare.
        hold: Velocity variables that do not move.

    Returns:
        The configuration, with the remaining residual.
    """

    def unfinished(state: Any) -> Any:
        _, residual, taken, *step = state
        going = residual > CLOSURE_TOLERANCE
        if tolerance:
            going = going & (step[0] > CLOSURE_TOLERANCE)
        return going | (taken < least_steps) if least_steps else going

    def newton(state: Any) -> Any:
        position, _, taken, *_ = state
        position = JointVector(position)
        terms = switched(constraints(model, plan, position), switches)
        cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
        step = _least_motion(
            model, plan, position, terms.jacobian, [-e for e in terms.value], cut, pivoted, hold
        ).vd
        # limit the step, for loops that cannot close
        part = 1.0 / np.maximum(1.0, max_abs(step) / MAX_NEWTON_STEP)
        moved = JointVector(moved_configuration(model, position, [part * x for x in step]))
        after = (tuple(moved), residual_of(moved), taken + 1.0)
        return (*after, max_abs(step)) if tolerance else after

    def residual_of(position: Sequence[Scalar]) -> Scalar:
        return max_abs(switched(constraints(model, plan, position), switches).value)

    q = JointVector(q)
    start: tuple[Any, ...] = (tuple(q), residual_of(q), 0.0)
    if tolerance:
        start = (*start, MAX_NEWTON_STEP)
    found = while_loop(unfinished, newton, start, MAX_NEWTON_STEPS)
    position, residual = found.state[:2]
    return Projected(tuple(position), found.count, residual)


def projected_velocity(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    *,
    switches: Switches | None = None,
    tolerance: float = 0.0,
    pivoted: bool = False,
    hold: Sequence[int] = (),
) -> tuple[Scalar, ...]:
    """Project a joint velocity onto J v = 0 in the metric of the mass matrix.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        switches: Which loops are closed; all by default.
        tolerance: Relative singular value below which constraints are redundant.
        pivoted: Whether all factorizations pivot.
        hold: Velocity variables that keep their values.
    """
    q, v = JointVector(q), JointVector(v)
    terms = switched(constraints(model, plan, q, v), switches)
    cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
    right = [-rate for rate in terms.rate]
    change = _least_motion(model, plan, q, terms.jacobian, right, cut, pivoted, hold).vd
    return tuple(x + y for x, y in zip(v, change, strict=True))


def projected_state(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    *,
    switches: Switches | None = None,
    tolerance: float = 0.0,
    hold: Sequence[int] = (),
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...], Scalar]:
    """Project configuration and velocity onto the constraint manifold after an integrator step.

    The truncation error of a step is so small that one factorization, at the given configuration,
    serves one Newton step and the velocity. Where that does not suffice, or the rank is uncertain,
    both are projected as by `projected_configuration` and `projected_velocity`.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration near the manifold [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        switches: Which loops are closed; all by default.
        tolerance: Relative singular value below which constraints are redundant.
        hold: Velocity variables that neither move nor change.

    Returns:
        Configuration, velocity and the largest remaining loop-closure error [m or rad].
    """
    once = switches is None and not hold and cheaper_loop_method(model) != "handles"

    def general() -> tuple[list[Scalar], list[Scalar], Scalar]:
        how: Any = {"switches": switches, "tolerance": tolerance, "pivoted": once, "hold": hold}
        closed = projected_configuration(model, plan, q, least_steps=1, **how)
        velocity = projected_velocity(model, plan, closed.q, v, **how)
        return list(closed.q), list(velocity), closed.residual

    if once:
        failed, state = _projected_once(model, plan, q, v, tolerance)
        found = where_needed(failed, general, state)
    else:
        found = general()
    return tuple(found[0]), tuple(found[1]), found[2]


def _projected_once(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tolerance: float,
) -> tuple[Any, tuple[list[Scalar], list[Scalar], Scalar]]:
    """Project with one factorization; return whether this failed, and the state."""
    q, v = JointVector(q), JointVector(v)
    terms = constraints(model, plan, q)
    cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
    mass = chosen_mass_elements(plan, q, loop_pattern(model).mass)
    system = AugmentedSystem(model, mass, terms.jacobian, cut)

    def least_motion(rhs: Sequence[Scalar]) -> list[Scalar]:
        right = [-rhs[k] for k in system.pattern.live]
        return system.factor.solve([*[0.0] * plan.nv, *right])[: plan.nv]

    step = least_motion(terms.value)
    moved = JointVector(moved_configuration(model, q, step))
    after = constraints(model, plan, moved, v)
    residual = max_abs(after.value)
    change = least_motion(after.rate)
    velocity = [x + y for x, y in zip(v, change, strict=True)]
    # J moves by about the step, so this is the velocity that remains across constraints
    missed = max_abs(step) * max_abs(change)
    failed = system.is_doubtful | (residual > CLOSURE_TOLERANCE) | (missed > CLOSURE_TOLERANCE)
    return failed, (list(moved), velocity, residual)


def _least_motion(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    rows: Sequence[Row],
    rhs: Sequence[Scalar],
    cut: Scalar,
    pivoted: bool,
    hold: Sequence[int] = (),
) -> ConstrainedMotion:
    """Solve J x = rhs for the x of least kinetic energy, x being zero where variables are held."""
    free = [0.0] * plan.nv
    if hold:
        live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        held: list[Row] = [{i: 1.0} for i in hold]
        elements = FactorTree(expanded_parents(plan)).layout.elements()
        metric = TreeMetric(plan, chosen_mass_elements(plan, q, elements))
        right = [*(rhs[k] for k in live), *[0.0] * len(hold)]
        found = solve_in_metric(metric, [*(rows[k] for k in live), *held], free, right, cut)
        return ConstrainedMotion(tuple(found[0]), tuple(found[1][: len(live)]), *found[2:])
    if cheaper_loop_method(model) == "handles":
        return solve_by_handles(model, plan, q, rows, free, rhs, cut=cut)
    mass = chosen_mass_elements(plan, q, loop_pattern(model).mass)
    return solve_augmented(model, plan, mass, rows, free, rhs, cut=cut, pivoted=pivoted)


def moved_configuration(
    model: Model, q: Sequence[Scalar], step: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """Integrate a configuration by a velocity step; quaternions are normalized."""
    found: list[Scalar] = []
    for joint in model.joints:
        if joint.nq:
            own, change = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
            moved = joint.integrate(q[own], step[change])
            found.extend(joint.normalize(moved))
    return tuple(found)
