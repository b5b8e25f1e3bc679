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
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.loops.augmented import AugmentedSystem, loop_pattern, solve_augmented
from tiburon.loops.constraints import (
    Constraints,
    Row,
    Switches,
    constraint_values,
    constraints,
    jacobian_pattern,
    switched,
)
from tiburon.loops.methods import cheaper_loop_method, solve_by_handles
from tiburon.loops.metric import MAX_CUT, TreeMetric, max_abs, rank_cut, solve_in_metric
from tiburon.loops.star_projection import projected_star
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import function, where_needed, while_loop
from tiburon.trace.value import require

CLOSURE_TOLERANCE = 1e-12
"""Loop-closure error of a closed loop [m or rad]: some rounding errors of meters and radians."""

START_TOLERANCE = 1e-6
"""Loop-closure error up to which a state counts as closed [m or rad]: files have six digits. Its
rate may be as large, relative to 1 and the largest velocity."""

OPEN_STATE = (
    f"a state with closed loops, to {START_TOLERANCE:g} m or rad, and a velocity that keeps them "
    "closed; see project_configuration and project_velocity, or pass closure=False"
)
"""Expectation that a state with open loops violates."""

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


def closure_of(around: Setting, q: Scalars, v: Scalars = ()) -> tuple[Scalar, Scalar]:
    """Return the largest constraint residual [m or rad], and its rate [m/s or rad/s].

    Where an algorithm has computed the constraints already, this adds few operations: equal ones
    are one.

    Args:
        around: The robot in its surroundings.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars; none for a rate of zero.
    """
    terms = constraint_values(around.model, around.plan, q, v or None)
    return max_abs(terms.value), max_abs(terms.rate)


def require_closed(results: Any, closure: tuple[Scalar, Scalar], v: Scalars) -> Any:
    """Return results that fail unless loops are closed, and the velocity keeps them so.

    Args:
        results: An array, or a dict of arrays of which the first one fails.
        closure: From `closure_of`.
        v: Joint velocity [m/s or rad/s].
    """
    if isinstance(results, dict):
        first, *_ = results
        return {**results, first: require_closed(results[first], closure, v)}
    residual, rate = closure
    closed = residual <= START_TOLERANCE
    if v:
        closed = closed & (rate <= START_TOLERANCE * (1.0 + max_abs(v)))
    array = as_traced(results)
    held = [require(closed, x, OPEN_STATE) for x in scalars(array)]
    return as_traced(held).reshape(array.shape)


class Projected(NamedTuple):
    """A configuration projected onto the constraint manifold."""

    q: tuple[Scalar, ...]
    steps: Scalar
    """Number of Newton steps."""
    residual: Scalar
    """Largest remaining constraint residual [m or rad]."""


def projected_configuration(model: Model, plan: Plan, q: Scalars) -> Projected:
    """Project a configuration onto the constraint manifold by Newton steps in the metric of H.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration near the manifold [m or rad], nq scalars.

    Returns:
        The configuration, with the remaining residual.
    """

    def unfinished(state: Any) -> Any:
        return state[1] > CLOSURE_TOLERANCE

    def newton(state: Any) -> Any:
        position, _, taken = state
        position = JointVector(position)
        terms = constraints(model, plan, position)
        cut = rank_cut(model, terms.value, PROJECTION_CUT)
        (step,) = _least_motions(model, plan, position, terms.jacobian, [terms.value], cut)
        moved = JointVector(_limited_move(model, position, step))
        return tuple(moved), residual_of(moved), taken + 1.0

    def residual_of(position: Scalars) -> Scalar:
        return max_abs(constraint_values(model, plan, position).value)

    q = JointVector(q)
    start = (tuple(q), residual_of(q), 0.0)
    found = while_loop(unfinished, newton, start, MAX_NEWTON_STEPS)
    position, residual, _ = found.state
    return Projected(tuple(position), found.count, residual)


HELD_FRACTION = 1e-9
"""Largest rate of constraints with held joints, relative to 1 and the velocities."""


def projected_velocity(
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars,
    *,
    tolerance: float = 0.0,
    hold: Sequence[int] = (),
) -> tuple[Scalar, ...]:
    """Project a joint velocity onto J v = 0 in the metric of the mass matrix.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tolerance: Relative singular value below which constraints are redundant.
        hold: Velocity variables that keep their values exactly; a case in which loops then cannot
            stay closed fails.
    """
    q, v = JointVector(q), JointVector(v)
    terms = constraints(model, plan, q, v)
    still = (0.0,) * len(terms.rate)
    return _corrected(model, plan, q, v, terms, still, list(terms.rate), tolerance, hold)


def projected_acceleration(
    model: Model, plan: Plan, q: Scalars, v: Scalars, vd: Scalars, *, hold: Sequence[int] = ()
) -> tuple[Scalar, ...]:
    """Project a joint acceleration onto J vd + dJ/dt v = 0 in the metric of the mass matrix.

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration with closed loops [m or rad], nq scalars.
        v: Joint velocity that keeps them closed [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        hold: Velocity variables that keep their accelerations exactly, as in `projected_velocity`.
    """
    q, v, vd = JointVector(q), JointVector(v), JointVector(vd)
    terms = constraints(model, plan, q, v)
    misses = row_sums(terms.jacobian, vd, terms.bias)
    return _corrected(model, plan, q, vd, terms, terms.bias, misses, 0.0, hold)


def row_sums(rows: Sequence[Row], x: Scalars, start: Scalars) -> list[Scalar]:
    """Return J x plus a start."""
    pairs = zip(rows, start, strict=True)
    return [sum((y * x[i] for i, y in row.items()), start=first) for row, first in pairs]


def _corrected(
    model: Model,
    plan: Plan,
    q: JointVector,
    x: JointVector,
    terms: Constraints,
    bias: Scalars,
    misses: Scalars,
    tolerance: float,
    hold: Sequence[int],
) -> tuple[Scalar, ...]:
    """Return rates x with J x + bias = 0, changed as little as the mass matrix measures."""
    cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
    (change,) = _least_motions(model, plan, q, terms.jacobian, [misses], cut, hold)
    found = [y + dy for y, dy in zip(x, change, strict=True)]
    if hold:
        size = 1.0 + max_abs([*x, *bias])
        left = max_abs(row_sums(terms.jacobian, found, bias))
        able = left <= np.maximum(HELD_FRACTION, cut) * size
        expected = "held velocities that keep loops closed; hold fewer joints, or others"
        kept = [x[i] if i in hold else y for i, y in enumerate(found)]
        found = [require(able, y, expected) for y in kept]
    return tuple(found)


def projected_state(
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars,
    *,
    switches: Switches | None = None,
    tolerance: float = 0.0,
    hold: Sequence[int] = (),
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...], Scalar]:
    """Project configuration and velocity onto the constraint manifold after an integrator step.

    The truncation error of a step is so small that one factorization, at the given configuration,
    serves one Newton step and the velocity. Where that does not suffice, or the rank is uncertain,
    Newton steps are repeated, each with a factorization of its own.

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
    method = cheaper_loop_method(model)
    once = switches is None and not hold and method != "handles"

    def general() -> tuple[list[Scalar], list[Scalar], Scalar]:
        return _projected_repeatedly(model, plan, q, v, switches, tolerance, hold, pivoted=once)

    if once:
        by_one_factor = _projected_star if method == "star" else _projected_once
        failed, state = by_one_factor(model, plan, q, v, tolerance)
        found = where_needed(failed, general, state)
    else:
        found = general()
    return tuple(found[0]), tuple(found[1]), found[2]


def _projected_once(
    model: Model, plan: Plan, q: Scalars, v: Scalars, tolerance: float
) -> tuple[Any, tuple[list[Scalar], list[Scalar], Scalar]]:
    """Project with one factorization; return whether this failed, and the state."""
    q, v = JointVector(q), JointVector(v)
    terms = constraints(model, plan, q)
    cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
    mass = chosen_mass_elements(plan, q, loop_pattern(model).mass)
    system = AugmentedSystem(model, mass, terms.jacobian, cut)

    def least_motion(rhs: Scalars) -> list[Scalar]:
        right = [-rhs[k] for k in system.pattern.live]
        return system.factor.solve([*[0.0] * plan.nv, *right])[: plan.nv]

    step = least_motion(terms.value)
    moved = JointVector(moved_configuration(model, q, step))
    after = constraint_values(model, plan, moved, v)
    residual = max_abs(after.value)
    change = least_motion(after.rate)
    velocity = [x + y for x, y in zip(v, change, strict=True)]
    # J moves by about the step, so this is the velocity that remains across constraints
    missed = max_abs(step) * max_abs(change)
    failed = system.is_doubtful | (residual > CLOSURE_TOLERANCE) | (missed > CLOSURE_TOLERANCE)
    return failed, (list(moved), velocity, residual)


def _projected_star(
    model: Model, plan: Plan, q: Scalars, v: Scalars, tolerance: float
) -> tuple[Any, tuple[list[Scalar], list[Scalar], Scalar]]:
    """Project a star with one factorization; return whether this failed, and the state."""
    found = projected_star(model, plan, q, v, max(PROJECTION_CUT, tolerance))
    failed = (
        (found.is_doubtful > 0.0)
        | (found.residual > CLOSURE_TOLERANCE)
        | (found.missed > CLOSURE_TOLERANCE)
    )
    return failed, (found.q, found.v, found.residual)


def _projected_repeatedly(
    model: Model,
    plan: Plan,
    q: Scalars,
    v: Scalars,
    switches: Switches | None,
    tolerance: float,
    hold: Sequence[int],
    pivoted: bool,
) -> tuple[list[Scalar], list[Scalar], Scalar]:
    """Project as `projected_configuration` does, with at least one step, and then the velocity.

    Each configuration is evaluated once: one traced function returns its residual, the Newton step
    from it and the change of velocity there.
    """

    @function
    def corrections(position: Scalars, velocity: Scalars) -> Any:
        position, velocity = JointVector(position), JointVector(velocity)
        terms = switched(constraints(model, plan, position, velocity), switches)
        cut = rank_cut(model, terms.value, max(PROJECTION_CUT, tolerance))
        step, change = _least_motions(
            model, plan, position, terms.jacobian, (terms.value, terms.rate), cut, hold, pivoted
        )
        return max_abs(terms.value), step, change

    def unfinished(state: Any) -> Any:
        _, residual, _, _, taken, *size = state
        going = residual > CLOSURE_TOLERANCE
        if tolerance:
            going = going & (size[0] > CLOSURE_TOLERANCE)
        return going | (taken < 1.0)

    def newton(state: Any) -> Any:
        position, _, step, _, taken, *_ = state
        moved = list(_limited_move(model, position, step))
        after = (moved, *corrections(moved, list(v)), taken + 1.0)
        return (*after, max_abs(step)) if tolerance else after

    start: tuple[Any, ...] = (list(q), *corrections(list(q), list(v)), 0.0)
    if tolerance:
        start = (*start, MAX_NEWTON_STEP)
    position, residual, _, change, *_ = while_loop(
        unfinished, newton, start, MAX_NEWTON_STEPS
    ).state
    return list(position), [x + y for x, y in zip(v, change, strict=True)], residual


def _least_motions(
    model: Model,
    plan: Plan,
    q: Scalars,
    rows: Sequence[Row],
    errors: Sequence[Scalars],
    cut: Scalar,
    hold: Sequence[int] = (),
    pivoted: bool = False,
) -> list[list[Scalar]]:
    """Solve J x = -e for the x of least kinetic energy, for each e of `errors`.

    x is zero where variables are held. `pivoted` selects the factorization with pivoting: shorter
    code for a case that is rare.
    """
    free, rights = [0.0] * plan.nv, [[-error for error in one] for one in errors]
    if hold:
        live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
        held: list[Row] = [{i: 1.0} for i in hold]
        elements = FactorTree(expanded_parents(plan)).layout.elements()
        metric = TreeMetric(plan, chosen_mass_elements(plan, q, elements))
        rows = [*(rows[k] for k in live), *held]
        rights = [[*(right[k] for k in live), *[0.0] * len(hold)] for right in rights]
        return [list(solve_in_metric(metric, rows, free, right, cut)[0]) for right in rights]
    if cheaper_loop_method(model) == "handles":
        return [
            list(solve_by_handles(model, plan, q, rows, free, right, cut=cut).vd)
            for right in rights
        ]
    mass = chosen_mass_elements(plan, q, loop_pattern(model).mass)
    return [
        list(solve_augmented(model, plan, mass, rows, free, right, cut, pivoted=pivoted).vd)
        for right in rights
    ]


def _limited_move(model: Model, q: Scalars, step: Scalars) -> tuple[Scalar, ...]:
    """Take a Newton step, limited for loops that cannot close."""
    part = 1.0 / np.maximum(1.0, max_abs(step) / MAX_NEWTON_STEP)
    return moved_configuration(model, q, [part * x for x in step])


def moved_configuration(model: Model, q: Scalars, step: Scalars) -> tuple[Scalar, ...]:
    """Integrate a configuration by a velocity step; quaternions are normalized."""
    found: list[Scalar] = []
    for joint in model.joints:
        if joint.nq:
            own, change = model.slice(joint.name, of="q"), model.slice(joint.name, of="v")
            moved = joint.integrate(q[own], step[change])
            found.extend(joint.normalize(moved))
    return tuple(found)
