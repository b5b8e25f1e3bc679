"""Forward dynamics with loops: joint accelerations and constraint forces from one sparse system.

    [ H  J^T ] [  vd     ]   [ tau - C ]
    [ J   0  ] [ -lambda ] = [ -bias   ]        (Featherstone 1987, eq. 9.17)

Elimination order
    Minimum degree (Tinney and Walker 1967) preserves sparsity: legs are eliminated before the body
    they carry, and the constraint forces of a leg's own loops right after its joints. A constraint
    is eliminated only once the joints before it give it a nonzero pivot, which a generic
    configuration shows. Large mechanisms use a safe order: a constraint waits for all joints it
    constrains and then loses its pivot only if it is redundant.

Factorization
    The sparse factorization does not pivot; the pivots of the constraints show how much accuracy
    was lost. Eliminating joints first squares the condition number of J, so the result is used
    only where that is harmless. Elsewhere, near singular configurations and for redundant
    constraints, D^-1/2 L^-T J^T with H = L^T D L is factored with pivoting (`metric`), which
    determines the rank and yields the multipliers of least norm. This branch runs only for the
    cases that need it.

Large mechanisms
    Constraints with lost pivots are left out; accelerations are still correct, and the multipliers
    are one choice of many. Those of least norm with the same joint forces z = J^T lambda solve

        [ 1    J ] [ lambda ]   [ 0 ]
        [ J^T  0 ] [   w    ] = [ z ]

    whose lost pivots are the remaining degrees of freedom; the system is consistent whichever are
    left out.

Symbols: H, C mass matrix and bias force, J, bias as in `constraints`, lambda constraint forces.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.crba import mass_elements
from tiburon.algorithms.joint_space import expanded_parents, joint_space_terms
from tiburon.algorithms.tape_calls import JointVector, taping
from tiburon.loops.constraints import Constraints, Row, constraints, jacobian_pattern
from tiburon.loops.metric import (
    MIN_CUT,
    ConstrainedMotion,
    TreeMetric,
    rank_cut,
    scattered,
    solve_in_metric,
)
from tiburon.model import Model, Plan
from tiburon.model.model import per_model
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import while_loop

__all__ = ["LoopPattern", "constrained_acceleration", "loop_pattern", "solve_augmented"]


MAX_PIVOTED_SIZE = 4096
"""nv times the number of constraints up to which the pivoted factorization is available."""

MIN_PIVOT = 1e-3
"""Pivot of a constraint, relative to its largest contribution, at which it may be eliminated."""


class LoopPattern:
    """Sparsity pattern and elimination order of the augmented system of a robot with loops.

    Attributes:
        saddle: The pattern of [[H, J^T], [J, 0]]; unknowns are joint accelerations, then negative
            multipliers of live constraints.
        live: Indices of constraints whose row of J is not structurally zero.
        mass: Row and column of each stored entry of H.
        is_large: Whether the mechanism is too large for the pivoted factorization.
        shortest: For large ones, the pattern of [[1, J], [J^T, 0]]; unknowns are the multipliers of
            live constraints, then one unknown per joint acceleration.
    """

    def __init__(self, model: Model) -> None:
        """Compute pattern and elimination order."""
        nv, used = model.nv, jacobian_pattern(model)
        self.live = tuple(k for k, columns in enumerate(used) if columns)
        self.mass = tuple(FactorTree(expanded_parents(model.plan)).layout.elements())
        self.bound = tuple((n, j) for n, k in enumerate(self.live) for j in sorted(used[k]))
        entries = [*self.mass, *((nv + n, j) for n, j in self.bound)]
        count = len(self.live)
        self.is_large = nv * count > MAX_PIVOTED_SIZE
        values = self._sample(model)
        order = _order(nv, count, entries, values, safe=self.is_large)
        self.saddle = SaddlePattern(nv + count, count, entries, order)
        self.shortest: SaddlePattern | None = None
        if self.is_large:
            forces = [(n, n) for n in range(count)] + [(count + j, n) for n, j in self.bound]
            sizes = [1.0] * count + values[len(self.mass) :]
            order = _order(count, nv, forces, sizes, safe=True)
            self.shortest = SaddlePattern(nv + count, nv, forces, order)

    def _sample(self, model: Model) -> list[float]:
        """Return the entries at a generic configuration."""
        rng = np.random.default_rng(11)
        q = JointVector([x for joint in model.joints for x in joint.random(rng)])
        with taping(None):
            H = mass_elements(model.plan, q)
            rows = constraints(model, model.plan, q).jacobian
        mass = [float(H[i * model.nv + j]) for i, j in self.mass]
        return [*mass, *(float(rows[self.live[n]][j]) for n, j in self.bound)]


@per_model
def loop_pattern(model: Model) -> LoopPattern:
    """Return the pattern of a robot with loops, computed once per model."""
    return LoopPattern(model)


def _order(
    free: int,
    bound: int,
    entries: Sequence[tuple[int, int]],
    values: Sequence[float],
    *,
    safe: bool,
) -> list[int]:
    """Return a minimum-degree elimination order in which constraints have nonzero pivots.

    Args:
        free: Number of joint variables.
        bound: Number of constraints.
        entries: Row and column of each entry.
        values: The entries at a generic configuration.
        safe: Whether constraints come after all joints they constrain; values are then not used.
    """
    size = free + bound
    rows: list[dict[int, float]] = [{} for _ in range(size)]
    diagonal, formed = [0.0] * size, [0.0] * size
    joints_of: list[set[int]] = [set() for _ in range(size)]
    for (i, j), x in zip(entries, values, strict=True):
        if i == j:
            diagonal[i] = formed[i] = x
        else:
            rows[i][j] = rows[j][i] = x
            if safe and i >= free:
                joints_of[i].add(j)
    left = set(range(size))
    order: list[int] = []
    while left:
        if safe:
            # after all its joints, a constraint has a zero pivot only if it is redundant
            ready = [k for k in left if k < free or not joints_of[k] & left]
        else:
            ready = [k for k in left if k < free or -diagonal[k] > MIN_PIVOT * formed[k] > 0.0]
        # redundant constraints come last and are left out
        k = min(ready or left, key=lambda k: (len(rows[k]), k))
        left.remove(k)
        order.append(k)
        column = rows[k]
        for i in column:
            del rows[i][k]
        if not ready:
            continue
        inverse = 0.0 if safe else 1.0 / diagonal[k]
        for i, x in column.items():
            for j, y in column.items():
                if j < i:
                    change = x * y * inverse
                    rows[i][j] = rows[j][i] = rows[i].get(j, 0.0) - change
            diagonal[i] -= x * x * inverse
            formed[i] = max(formed[i], abs(diagonal[i]))
    return order


WELL_CONDITIONED = 1e-6
"""Squared sine of the angle between constraints above which the factorization without pivoting is
accurate enough: multipliers lose six of sixteen digits at this angle of 1e-3."""

MIN_SQUARED_LENGTH = 1e-10
"""Lower bound of the squared length of a constraint, relative to the longest, in the test for lost
pivots: a row that vanishes in a configuration is rounding error only."""

LOST_PIVOT = 1e-11
"""Squared sine below which large mechanisms drop a constraint, or the squared cut if larger."""

TINY = 1e-300
"""Lower bound of lengths in divisions."""

MAX_INLINED_WORK = 15000
"""Multiplications of a factorization up to which it is inlined as straight-line code."""


def constrained_acceleration(
    model: Model,
    plan: Plan,
    terms: Constraints,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    min_cut: float = MIN_CUT,
) -> ConstrainedMotion:
    """Compute joint accelerations and constraint forces of a robot with loops.

    Args:
        model: The robot.
        plan: Its layout.
        terms: Its constraints in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Gravitational acceleration, world axes [m/s^2].
        external: External wrench on each body, in its plan frame [N m, N]; none by default.
        min_cut: Smallest rank cut; see `rank_cut`.
    """
    mass, C = joint_space_terms(plan, q, v, gravity, external)
    free = [tau[i] - C[i] for i in range(plan.nv)]
    cut = rank_cut(model, terms.value, min_cut)
    return solve_augmented(model, plan, mass, terms.jacobian, free, [-b for b in terms.bias], cut)


def solve_augmented(
    model: Model,
    plan: Plan,
    mass: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    rhs: Sequence[Scalar],
    cut: Scalar = MIN_CUT,
) -> ConstrainedMotion:
    """Solve the augmented system (Featherstone 1987, eq. 9.17).

    Args:
        model: The robot.
        plan: Its layout.
        mass: Elements of H in the order of the tree factorization.
        jacobian: J, one row per constraint.
        free: tau - C, joint forces without constraints [N or N m], nv scalars.
        rhs: Right-hand side of J vd = rhs [m/s^2 or rad/s^2].
        cut: Relative singular value below which a constraint is redundant.
    """
    pattern = loop_pattern(model)
    live, nv = pattern.live, plan.nv
    bound = [jacobian[live[n]][j] for n, j in pattern.bound]
    right = [rhs[k] for k in live]
    pivoted = not pattern.is_large
    entries = [*mass, *bound]
    inline = pattern.saddle.work <= MAX_INLINED_WORK
    lost = WELL_CONDITIONED if pivoted else np.maximum(LOST_PIVOT, cut * cut)
    short = np.maximum(MIN_SQUARED_LENGTH, np.minimum(1.0, (10.0 * cut) ** 2 / WELL_CONDITIONED))
    lengths = _lengths(pattern, mass, bound)
    longest = _longest(lengths)
    sizes = [np.maximum(length, short * longest) for length in lengths]
    factor = SaddleFactor(pattern.saddle, entries, lost, inline=inline, sizes=sizes)
    found = factor.solve([*free, *right])
    vd, forces = found[:nv], [-x for x in found[nv:]]
    rank: Scalar = float(len(live))
    smallest = np.minimum(factor.least, longest)
    ratio = np.sqrt(np.maximum(smallest, TINY) / np.maximum(longest, TINY))
    if pivoted:
        # above ten times the cut, the rank is certain without pivoting
        unsure = np.where(factor.worst > np.maximum(WELL_CONDITIONED, (10.0 * cut) ** 2), 0.0, 1.0)

        def solve_pivoted(one: Scalar) -> tuple[Any, ...]:
            # multiplied by a loop variable, so that nothing is computed before the branch is taken
            metric = TreeMetric(plan, [one * x for x in mass])
            rows: list[Row] = [{} for _ in live]
            for (n, j), x in zip(pattern.bound, bound, strict=True):
                rows[n][j] = one * x
            return solve_in_metric(metric, rows, free, right, cut)

        def needed(state: Any) -> Any:
            return state[0] > 0.5

        # rank and ratio in a loop of their own: unused results are not computed, and only the
        # first loop must be differentiable
        start = (unsure, list(vd), forces, 1.0)
        _, vd, forces, _ = while_loop(
            needed, lambda s: (0.0, *solve_pivoted(s[-1])[:2], s[-1]), start, 1
        ).state
        start_rank = (unsure, rank, ratio, 1.0)
        _, rank, ratio, _ = while_loop(
            needed, lambda s: (0.0, *solve_pivoted(s[-1])[2:], s[-1]), start_rank, 1
        ).state
    else:
        rank = sum((np.where(np.abs(x) > 0.0, 1.0, 0.0) for x in factor.kept()), start=0.0)
        redundant = np.where(factor.worst > lost, 0.0, 1.0)
        _, forces = while_loop(
            lambda state: state[0] > 0.5,
            lambda state: (0.0, _shortest(pattern, bound, state[1], nv, lost)),
            (redundant, forces),
            1,
        ).state
    return ConstrainedMotion(tuple(vd), scattered(forces, live, len(jacobian)), rank, ratio)


def _shortest(
    pattern: LoopPattern,
    bound: Sequence[Scalar],
    forces: Sequence[Scalar],
    nv: int,
    lost: Scalar,
) -> list[Scalar]:
    """Compute the multipliers of least norm with the same joint forces J^T lambda."""
    assert pattern.shortest is not None
    count = len(pattern.live)
    lengths: list[Scalar] = [0.0] * nv
    for (_, j), x in zip(pattern.bound, bound, strict=True):
        lengths[j] = lengths[j] + x * x
    longest = _longest(lengths)
    sizes = [np.maximum(length, MIN_SQUARED_LENGTH * longest) for length in lengths]
    entries = [*[1.0] * count, *bound]
    factor = SaddleFactor(pattern.shortest, entries, lost, inline=False, sizes=sizes)

    def residual(found: Sequence[Scalar]) -> list[Scalar]:
        missed = [-x for x in found[:count]] + [0.0] * nv
        for (n, j), x in zip(pattern.bound, bound, strict=True):
            missed[n] = missed[n] - x * found[count + j]
            missed[count + j] = missed[count + j] + x * (forces[n] - found[n])
        return missed

    found = factor.solve(residual([0.0] * (count + nv)))
    # one step of iterative refinement, since the condition of J is squared
    found = [x + y for x, y in zip(found, factor.solve(residual(found)), strict=True)]
    return found[:count]


def _lengths(pattern: LoopPattern, mass: Sequence[Scalar], bound: Sequence[Scalar]) -> list[Scalar]:
    """Return the squared length of each constraint in the diagonal metric: sum of J_j^2 / H_jj."""
    diagonal = {j: x for (i, j), x in zip(pattern.mass, mass, strict=True) if i == j}
    lengths: list[Scalar] = [0.0] * len(pattern.live)
    for (n, j), x in zip(pattern.bound, bound, strict=True):
        lengths[n] = lengths[n] + x * x / diagonal[j]
    return lengths


def _longest(lengths: Sequence[Scalar]) -> Scalar:
    """Return the largest of squared lengths, by pairwise comparison (short dependency chains)."""
    left = list(lengths) or [0.0]
    while len(left) > 1:
        odd = left[len(left) // 2 * 2 :]
        left = [np.maximum(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]
