"""The methods of forward dynamics with loops, behind one interface, and the default choice.

"augmented" (`augmented`)
    The reference: solves the sparse system of motion and constraints, with a rank decision where
    one is needed.

"handles"
    Articulated bodies, without a mass matrix; the cost is linear in the number of bodies and
    quadratic in the number of constraints. A loop acts on two links, its handles. Featherstone
    (1987, section 9.5) collects the coupling of handles in inverse inertias Phi_ij and forms
    R^T Phi R (eqs. 9.21, 9.27), which squares the condition number. Summed over the joints from the
    world outward, Phi_ij = sum A u u^T A^T / d, so each joint's share is already a factor:

        R_k^T Phi R_l = sum over joints of g_k g_l,     g_k = S^T f_k / sqrt(d)

    with f_k the force that a unit force of constraint k transmits to a joint. The matrix of all g
    is D^-1/2 L^-T J^T of `augmented`; rank decision and least-norm multipliers are the same.

"proximal"
    Compliant constraints whose compliance is iterated away; decides no rank:

        [ H   J^T ] [  vd       ]   [ tau - C             ]
        [ J  -mu  ] [ -lambda_n ] = [ rhs + mu lambda_m    ],    m = n - 1

    Each iteration solves a nonsingular system; the remaining residual is mu times the last change
    of the forces. From zero, the forces converge to those of least norm (Parikh and Boyd 2014,
    Proximal Algorithms, section 4.1; Carpentier, Budhiraja and Mansard 2021). States so near a
    singular configuration that the iteration does not converge are refused.

"star" (`star_dynamics`)
    Arms that meet in a reference member: each arm alone, then one small system for the member.

"denoc" (`denoc`)
    A platform on legs: each leg projects its passive joints out, one system for the motors.

The default is "handles" where the mass matrix of the tree alone is predicted to cost more (long
chains with few loops, rings of some tens of links). Otherwise it is "star" for a star of several
arms none of which is singular in every pose, and "augmented" for everything else. Both solve the
same equations with nearly the same number of operations; what an arm computes alone has few values
at a time, and robots beyond 16 links keep straight-line code.

Symbols: H, C mass matrix and bias force, J constraint Jacobian, lambda constraint forces, mu
compliance of a constraint.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.bias import bias
from tiburon.algorithms.cost import LOOP_FACTOR, articulated_cost, composite_cost
from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.tape_calls import JointVector
from tiburon.algorithms.traversal import ancestors
from tiburon.loops.augmented import MAX_INLINED_WORK, constrained_acceleration, loop_pattern
from tiburon.loops.constraints import (
    Constraints,
    Row,
    Switches,
    constraints,
    jacobian_pattern,
    switched,
)
from tiburon.loops.denoc import denoc_motion
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.metric import (
    MIN_CUT,
    ConstrainedMotion,
    articulated_metric,
    max_abs,
    rank_cut,
    scattered,
    solve_in_metric,
)
from tiburon.loops.star import suits_star
from tiburon.loops.star_dynamics import star_motion
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern
from tiburon.trace.regions import while_loop
from tiburon.trace.value import require


def solve_by_handles(
    model: Model,
    plan: Plan,
    q: Scalars,
    jacobian: Sequence[Row],
    free: Scalars,
    rhs: Scalars,
    cut: Scalar = MIN_CUT,
) -> ConstrainedMotion:
    """Solve for constrained accelerations with articulated bodies (method "handles").

    Args:
        model: The robot.
        plan: Its layout.
        q: Configuration [m or rad], nq scalars.
        jacobian: J, one row per constraint.
        free: tau - C, joint forces without constraints [N or N m], nv scalars.
        rhs: Right-hand side of J vd = rhs [m/s^2 or rad/s^2].
        cut: Relative singular value below which a constraint is redundant.
    """
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    metric = articulated_metric(plan, JointVector(q))
    vd, forces, rank, ratio = solve_in_metric(
        metric, [jacobian[k] for k in live], free, [rhs[k] for k in live], cut
    )
    multipliers = scattered(forces, live, len(jacobian))
    return ConstrainedMotion(tuple(vd), multipliers, lambda: (rank, ratio))


RELATIVE_COMPLIANCE = 1e-8
"""mu relative to the largest constraint compliance: at a singular value ratio of 1e-3 each
iteration gains two digits. Off the manifold mu grows with the residual, like the rank cut."""

RESIDUAL_TOLERANCE = 1e-12
"""Residual, relative to the right-hand side, at which the iteration ends; off the manifold it is
the constraint residual, by which redundant constraints disagree."""

MAX_ITERATIONS = 50
"""Iteration limit: enough for singular value ratios above about 1e-4."""

UNCONVERGED = (
    f"proximal iterations that converge within {MAX_ITERATIONS}: the mechanism is in or near a "
    "singular configuration, or its loops are open; leave method out, or use 'augmented'"
)
"""Expectation that a state violates near a singular configuration."""


def _compliant_pattern(model: Model) -> SaddlePattern:
    """Return the pattern of the system with compliant constraints."""
    saddle = loop_pattern(model).saddle
    softness = [(k, k) for k in range(saddle.size - saddle.bound, saddle.size)]
    return SaddlePattern(saddle.size, saddle.bound, [*saddle.entries, *softness], saddle.order)


def solve_proximal(
    model: Model,
    mass: Scalars,
    jacobian: Sequence[Row],
    free: Scalars,
    rhs: Scalars,
    value: Scalars = (),
) -> ConstrainedMotion:
    """Solve the augmented system by proximal iterations; the rank is not determined (-1).

    Across a singular value s an iteration leaves mu / (mu + s^2) of the error, of accelerations as
    of the residual: a residual that is small but has not converged hides large errors. Iterations
    that have not converged are refused; their rate yields the ratio of the slowest singular value.

    Args:
        model: The robot.
        mass: Elements of H in the order of the tree factorization.
        jacobian: J, one row per constraint.
        free: tau - C, joint forces without constraints [N or N m], nv scalars.
        rhs: Right-hand side of J vd = rhs [m/s^2 or rad/s^2].
        value: Constraint residual [m or rad]; zero by default.
    """
    pattern, nv = loop_pattern(model), len(free)
    live = pattern.live
    bound = [jacobian[live[n]][j] for n, j in pattern.bound]
    right = [rhs[k] for k in live]
    off = rank_cut(model, value, 0.0)
    relative = np.maximum(RELATIVE_COMPLIANCE, off)
    mu = relative * _largest_compliance(pattern.mass, mass, pattern.bound, bound, len(live))
    compliant = _compliant_pattern(model)
    factor = SaddleFactor(
        compliant,
        [*mass, *bound, *[-mu for _ in live]],
        0.0,
        inline=compliant.work <= MAX_INLINED_WORK,
    )
    enough = np.maximum(RESIDUAL_TOLERANCE, off) * (1.0 + max_abs(right))

    def unfinished(state: Any) -> Any:
        return state[2] > enough

    def iterate(state: Any) -> Any:
        _, forces, last, _ = state
        found = factor.solve([*free, *(w + mu * f for w, f in zip(right, forces, strict=True))])
        new = [-x for x in found[nv:]]
        change = [mu * (x - y) for x, y in zip(new, forces, strict=True)]
        return found[:nv], new, max_abs(change), last

    start = ([0.0] * nv, [0.0] * len(live), 2.0 * enough, 0.0)
    ran = while_loop(unfinished, iterate, start, MAX_ITERATIONS)
    vd, forces, residual, before = ran.state
    vd = [require(residual <= enough, x, UNCONVERGED) for x in vd]
    # of one pass, which has no rate, nothing was left
    left = np.where(ran.count > 1.5, residual / np.maximum(before, enough), 0.0)
    ratio = np.sqrt(np.minimum(relative * (1.0 / np.maximum(left, relative) - 1.0), 1.0))
    multipliers = scattered(forces, live, len(jacobian))
    return ConstrainedMotion(tuple(vd), multipliers, lambda: (-1.0, ratio), iterations=ran.count)


def _largest_compliance(
    places: Sequence[tuple[int, int]],
    mass: Scalars,
    bound_places: Sequence[tuple[int, int]],
    bound: Scalars,
    count: int,
) -> Scalar:
    """Return the largest J_k D^-1 J_k^T with D the diagonal of H: the largest compliance."""
    diagonal = {i: x for (i, j), x in zip(places, mass, strict=True) if i == j}
    totals: list[Scalar] = [0.0] * count
    for (n, j), x in zip(bound_places, bound, strict=True):
        totals[n] = totals[n] + x * x / diagonal[j]
    return max_abs(totals)


PUSH_OPERATIONS = 60.0
"""Operations per constraint and body on its path to the world."""

FACTOR_OPERATIONS = 6.0
"""Operations of the orthogonal factorization per entry and column."""

BIAS_FRACTION = 0.5
"""Cost of bias forces and last pass, relative to the articulated inertias."""


State = tuple[Scalars, Scalars, Scalars]
"""Configuration [m or rad], velocity [m/s or rad/s] and joint force [N or N m]."""


def _augmented(
    around: Setting, terms: Constraints, state: State, min_cut: float
) -> ConstrainedMotion:
    return constrained_acceleration(
        around.model, around.plan, terms, *state, around.gravity, around.external, min_cut
    )


def _handles(
    around: Setting, terms: Constraints, state: State, min_cut: float
) -> ConstrainedMotion:
    (q, v, tau), plan = state, around.plan
    C = bias(plan, JointVector(q), JointVector(v), around.gravity, around.external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    cut = rank_cut(around.model, terms.value, min_cut)
    return solve_by_handles(
        around.model, plan, q, terms.jacobian, free, [-b for b in terms.bias], cut
    )


def _proximal(around: Setting, terms: Constraints, state: State, _: float) -> ConstrainedMotion:
    q, v, tau = state
    mass, C = joint_space_terms(around.plan, q, v, around.gravity, around.external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    rhs = [-b for b in terms.bias]
    return solve_proximal(around.model, mass, terms.jacobian, free, rhs, terms.value)


METHODS: dict[str, Callable[..., ConstrainedMotion]] = {
    "augmented": _augmented,
    "handles": _handles,
    "proximal": _proximal,
}
"""Methods for all mechanisms, by name; arguments: setting, constraints of the state, state,
smallest rank cut. "star" is in `star_dynamics`: it computes the constraints of each arm by itself.
"denoc" is in `denoc`, for platforms on legs."""


def cheaper_loop_method(model: Model) -> str:
    """Return the default method: the cheaper one by predicted operations."""
    plan = model.plan
    if plan.has_couplings:
        return "star" if suits_star(model) else "augmented"
    live = [used for used in jacobian_pattern(model) if used]
    of = [body.index for body in plan.bodies for _ in range(body.v.start, body.v.stop)]
    pushes = sum(len(set[int]().union(*(ancestors(plan, of[i]) for i in used))) for used in live)
    handles = (
        (1.0 + BIAS_FRACTION) * articulated_cost(plan)
        + PUSH_OPERATIONS * pushes
        + LOOP_FACTOR * FACTOR_OPERATIONS * plan.nv * len(live) ** 2
    )
    if handles < composite_cost(plan):
        return "handles"
    return "star" if suits_star(model) else "augmented"


def constrained_motion(
    around: Setting,
    *state: Scalars,
    switches: Switches | None = None,
    min_cut: float = MIN_CUT,
    baumgarte: LoopMethod | None = None,
) -> ConstrainedMotion:
    """Compute accelerations and constraint forces of a robot with loops.

    Args:
        around: Surroundings in this state; its option "method" names one of `METHODS`, "star" or
            "denoc".
        state: Configuration, velocity and joint force.
        switches: Which loops are closed; all by default.
        min_cut: Smallest rank cut; see `rank_cut`.
        baumgarte: Correction of accelerations by which residuals decay; none by default.

    Raises:
        ModelError: If "star" or "denoc" is asked for a mechanism that is none.
    """
    q, v, tau = state
    options = dict(around.options)
    method = options.get("method") or cheaper_loop_method(around.model)
    if method == "star" and switches is None:
        return star_motion(
            around,
            q,
            v,
            tau,
            min_cut=min_cut,
            baumgarte=baumgarte,
            redundant_forces=options.get("redundant_forces", "shortest"),
        )
    if method == "star":
        # arms would change with every switch
        method = "augmented"
    terms = switched(constraints(around.model, around.plan, q, v), switches)
    if baumgarte is not None:
        terms = baumgarte.corrected(terms)
    if method == "denoc":
        return denoc_motion(around, terms, q, v, tau)
    return METHODS[method](around, terms, (q, v, tau), min_cut)


def residual(terms: Constraints, vd: Scalars) -> Scalar:
    """Compute max |J vd + bias|, the violation on acceleration level [m/s^2 or rad/s^2]."""
    found: Scalar = 0.0
    for row, b in zip(terms.jacobian, terms.bias, strict=True):
        found = np.maximum(found, np.abs(sum((x * vd[i] for i, x in row.items()), start=b)))
    return found
