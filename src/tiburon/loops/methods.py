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
        [ J  -mu  ] [ -lambda_n ] = [ wanted + mu lambda_m ],    m = n - 1

    Each iteration solves a nonsingular system; the remaining residual is mu times the last change
    of the forces. From zero, the forces converge to those of least norm (Parikh and Boyd 2014,
    Proximal Algorithms, section 4.1; Carpentier, Budhiraja and Mansard 2021). Suited to forces that
    vary continuously through singular configurations, at the accuracy of the residual.

The default is "handles" where the mass matrix of the tree alone is predicted to cost more (long
chains with few loops, rings of some tens of links), otherwise "augmented".

Symbols: H, C mass matrix and bias force, J constraint Jacobian, lambda constraint forces, mu
compliance of a constraint.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tiburon.algorithms.bias import bias
from tiburon.algorithms.cost import LOOP_FACTOR, articulated_cost, composite_cost
from tiburon.algorithms.joint_space import joint_space_terms
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.sweep import ancestors
from tiburon.algorithms.tape_calls import JointVector
from tiburon.loops.augmented import MOST_INLINED_WORK, constrained_acceleration, loop_pattern
from tiburon.loops.constraints import (
    Constraints,
    Row,
    Switches,
    constraints,
    jacobian_pattern,
    switched,
)
from tiburon.loops.metric import (
    CUT,
    ConstrainedMotion,
    articulated_metric,
    largest,
    rank_cut,
    solve_in_metric,
)
from tiburon.model import Model, Plan
from tiburon.spatial import Scalar
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern
from tiburon.trace.regions import while_loop

__all__ = [
    "METHODS",
    "cheaper_loop_method",
    "constrained_motion",
    "residual",
    "solve_by_handles",
    "solve_proximal",
]


def solve_by_handles(
    model: Model,
    plan: Plan,
    q: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    cut: Scalar = CUT,
) -> ConstrainedMotion:
    """Solve for the accelerations that given joint forces and constraints make.

    Args:
        model: The robot.
        plan: Its layout.
        q: Position [m or rad], nq scalars.
        jacobian: J, one row per constraint.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint is redundant.
    """
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    metric = articulated_metric(plan, JointVector(q))
    vd, forces, rank, ratio = solve_in_metric(
        metric, [jacobian[k] for k in live], free, [wanted[k] for k in live], cut
    )
    multipliers: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, forces, strict=True):
        multipliers[k] = force
    return ConstrainedMotion(tuple(vd), tuple(multipliers), rank, ratio)


RELATIVE_COMPLIANCE = 1e-8
"""mu relative to the softest constraint: a singular value ratio of 1e-3 gains two digits a pass.

Off the manifold by d, a redundant constraint has a ratio of about d, and a mu of some d lets it go.
"""

RESIDUAL_TOLERANCE = 1e-12
"""Acceleration, relative to what is wanted of the constraints, at which they count as kept; off the
manifold redundant ones disagree by as much as that is."""

MOST_ITERATIONS = 50
"""Beyond these the residual reports that the constraints are not satisfied."""


@lru_cache(maxsize=64)
def _compliant_pattern(model: Model) -> SaddlePattern:
    """Return the pattern of the system with constraints that give way."""
    saddle = loop_pattern(model).saddle
    softness = [(k, k) for k in range(saddle.size - saddle.bound, saddle.size)]
    return SaddlePattern(saddle.size, saddle.bound, [*saddle.entries, *softness], saddle.order)


def solve_proximal(
    model: Model,
    mass: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    value: Sequence[Scalar] = (),
) -> ConstrainedMotion:
    """Solve the augmented system by proximal iterations.

    Args:
        model: The robot.
        mass: Those elements of H that a factorization along the tree reads.
        jacobian: J, one row per constraint.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        value: Constraint values [m or rad]; on the manifold by default.

    Returns:
        Accelerations, forces and passes; no rank (-1).
    """
    pattern, nv = loop_pattern(model), len(free)
    live = pattern.live
    bound = [jacobian[live[n]][j] for n, j in pattern.bound]
    right = [wanted[k] for k in live]
    off = rank_cut(model, value, 0.0)
    mu = np.maximum(RELATIVE_COMPLIANCE, off) * _softest(
        pattern.mass, mass, pattern.bound, bound, len(live)
    )
    giving = _compliant_pattern(model)
    factor = SaddleFactor(
        giving,
        [*mass, *bound, *[-mu for _ in live]],
        0.0,
        inline=giving.work <= MOST_INLINED_WORK,
    )
    enough = np.maximum(RESIDUAL_TOLERANCE, off) * (1.0 + largest(right))

    def pulling(state: Any) -> Any:
        return state[2] > enough

    def again(state: Any) -> Any:
        _, forces, _ = state
        found = factor.solve([*free, *(w + mu * f for w, f in zip(right, forces, strict=True))])
        new = [-x for x in found[nv:]]
        change = [mu * (x - y) for x, y in zip(new, forces, strict=True)]
        return found[:nv], new, largest(change)

    start = ([0.0] * nv, [0.0] * len(live), 2.0 * enough)
    ran = while_loop(pulling, again, start, MOST_ITERATIONS)
    vd, forces, _ = ran.state
    multipliers: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, forces, strict=True):
        multipliers[k] = force
    ratio = np.sqrt(np.maximum(factor.worst, 0.0))
    return ConstrainedMotion(tuple(vd), tuple(multipliers), -1.0, ratio, iterations=ran.count)


def _softest(
    places: Sequence[tuple[int, int]],
    mass: Sequence[Scalar],
    bound_places: Sequence[tuple[int, int]],
    bound: Sequence[Scalar],
    count: int,
) -> Scalar:
    """Return the largest J_k D^-1 J_k^T, D the diagonal of H: what forces do at most, roughly."""
    diagonal = {i: x for (i, j), x in zip(places, mass, strict=True) if i == j}
    totals: list[Scalar] = [0.0] * count
    for (n, j), x in zip(bound_places, bound, strict=True):
        totals[n] = totals[n] + x * x / diagonal[j]
    return largest(totals)


PUSH_OPERATIONS = 60.0
"""Operations of one constraint at one body on its way to the world."""

FACTOR_OPERATIONS = 6.0
"""Operations of an orthogonal factorization per entry and column."""

BIAS_SHARE = 0.5
"""What bias forces and the last pass cost, relative to articulated inertias."""


State = tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]]
"""Position [m or rad], velocity [m/s or rad/s] and joint force [N or N m]."""


def _augmented(
    around: Setting, held: Constraints, state: State, least_cut: float
) -> ConstrainedMotion:
    return constrained_acceleration(
        around.model, around.plan, held, *state, around.gravity, around.external, least_cut
    )


def _handles(
    around: Setting, held: Constraints, state: State, least_cut: float
) -> ConstrainedMotion:
    (q, v, tau), plan = state, around.plan
    C = bias(plan, JointVector(q), JointVector(v), around.gravity, around.external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    cut = rank_cut(around.model, held.value, least_cut)
    return solve_by_handles(
        around.model, plan, q, held.jacobian, free, [-b for b in held.bias], cut
    )


def _proximal(around: Setting, held: Constraints, state: State, _: float) -> ConstrainedMotion:
    q, v, tau = state
    mass, C = joint_space_terms(around.plan, q, v, around.gravity, around.external)
    free = [force - c for force, c in zip(tau, C, strict=True)]
    wanted = [-b for b in held.bias]
    return solve_proximal(around.model, mass, held.jacobian, free, wanted, held.value)


METHODS: dict[str, Callable[..., ConstrainedMotion]] = {
    "augmented": _augmented,
    "handles": _handles,
    "proximal": _proximal,
}
"""By name; each takes a setting, the constraints of a state, the state, and the least rank cut."""


@lru_cache(maxsize=256)
def cheaper_loop_method(model: Model) -> str:
    """Return the method that is taken unasked: see the head of this file."""
    plan = model.plan
    if plan.has_couplings:
        return "augmented"
    live = [used for used in jacobian_pattern(model) if used]
    of = [body.index for body in plan.bodies for _ in range(body.v.start, body.v.stop)]
    pushes = sum(len(set[int]().union(*(ancestors(plan, of[i]) for i in used))) for used in live)
    handles = (
        (1.0 + BIAS_SHARE) * articulated_cost(plan)
        + PUSH_OPERATIONS * pushes
        + LOOP_FACTOR * FACTOR_OPERATIONS * plan.nv * len(live) ** 2
    )
    return "handles" if handles < composite_cost(plan) else "augmented"


def constrained_motion(
    around: Setting,
    *state: Sequence[Scalar],
    switches: Switches | None = None,
    least_cut: float = CUT,
) -> ConstrainedMotion:
    """Return how a robot with loops answers joint forces under conditions.

    Args:
        around: The conditions; its option "method" names one of `METHODS`.
        state: Position, velocity and joint force.
        switches: Which loops are closed; all by default.
        least_cut: Relative length below which constraints are redundant on the manifold, where a
            method decides the rank; see `rank_cut`.
    """
    q, v, tau = state
    held = switched(constraints(around.model, around.plan, q, v), switches)
    method = dict(around.options).get("method") or cheaper_loop_method(around.model)
    return METHODS[method](around, held, (q, v, tau), least_cut)


def residual(held: Constraints, vd: Sequence[Scalar]) -> Scalar:
    """Return the largest acceleration at which constraints are left [m/s^2 or rad/s^2].

    Args:
        held: Constraints of the state.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    found: Scalar = 0.0
    for row, b in zip(held.jacobian, held.bias, strict=True):
        left = sum((x * vd[i] for i, x in row.items()), start=b)
        found = np.maximum(found, np.abs(left))
    return found
