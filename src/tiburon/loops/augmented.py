"""Forward dynamics with loops: joint accelerations and constraint forces from one sparse system.

    [ H  J^T ] [  vd     ]   [ tau - C ]
    [ J   0  ] [ -lambda ] = [ -bias   ]        (Featherstone 1987, eq. 9.17)

Elimination order
    Minimum degree (Tinney and Walker 1967) preserves sparsity: legs are eliminated before the body
    they carry, and the constraint forces of a leg's own loops right after its joints. A constraint
    is eliminated only once the joints before it give it a nonzero pivot, which configurations with
    closed loops show: parallel axes and concurrent links are a matter of closure, and pivots that
    look good at random joint positions vanish there. Large mechanisms, and those of which no closed
    configuration is found, use a safe order: a constraint waits for all joints it constrains and
    then loses its pivot only if it is redundant.

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
from tiburon.arrays import Array
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
from tiburon.spatial import Force, Scalar, Scalars, Vec3
from tiburon.trace.primitives.saddle import SaddleFactor, SaddlePattern
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import where_needed

MAX_PIVOTED_SIZE = 4096
"""nv times the number of constraints up to which the pivoted factorization is available."""

MIN_PIVOT = 1e-3
"""Pivot of a constraint, relative to its largest contribution, at which it may be eliminated."""

SPREADS = (0.0, 0.1, 0.3, 0.6)
"""Standard deviations of joints from the home pose [m or rad] at which orders are judged."""

MAX_CLOSING_STEPS = 8
"""Newton steps within which a configuration must close, or it is not used."""

CLOSED_RESIDUAL = 1e-10
"""Loop-closure error of configurations at which orders are judged [m or rad]."""

MIN_SAMPLE_RATIO = 1e-6
"""Relative singular value below which a constraint is redundant where orders are judged."""


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
        values = None if self.is_large else self._samples(model)
        order = _order(nv, count, entries, values)
        self.saddle = SaddlePattern(nv + count, count, entries, order)
        self.shortest: SaddlePattern | None = None
        if self.is_large:
            forces = [(n, n) for n in range(count)] + [(count + j, n) for n, j in self.bound]
            order = _order(count, nv, forces, None)
            self.shortest = SaddlePattern(nv + count, nv, forces, order)

    def _samples(self, model: Model) -> Array | None:
        """Return the entries at closed configurations, one row each; None if there are none.

        Configurations in which more constraints are redundant than elsewhere are left out: their
        pivots vanish in every order. Inertias are nominal: robots that differ in theirs share code.
        """
        nv, count, plan = model.nv, len(self.live), model.plan.with_nominal_inertias()
        row = np.array([n for n, _ in self.bound], int)
        column = np.array([j for _, j in self.bound], int)
        found = []
        for q, jacobian in closed_configurations(model):
            with taping(None):
                H = mass_elements(plan, JointVector(list(q)))
            mass = np.array([float(H[i * nv + j]) for i, j in self.mass])
            lengths = np.diag([1.0 / np.sqrt(float(H[j * nv + j])) for j in range(nv)])
            sizes = np.linalg.svd(jacobian @ lengths, compute_uv=False)
            rank = int(np.sum(sizes > MIN_SAMPLE_RATIO * sizes[0])) if count else 0
            found.append((rank, np.concatenate([mass, jacobian[row, column]])))
        most = max((rank for rank, _ in found), default=0)
        return np.array([x for rank, x in found if rank == most]) if found else None


@per_model
def loop_pattern(model: Model) -> LoopPattern:
    """Return the pattern of a robot with loops, computed once per model."""
    return LoopPattern(model)


Closed = tuple[tuple[float, ...], Array]
"""A configuration with closed loops, and the rows of J of the live constraints there."""


@per_model
def closed_configurations(model: Model) -> tuple[Closed, ...]:
    """Return the home pose and configurations around it, closed by Newton's method.

    Each comes with the rows of J of constraints that are not structurally zero.
    """
    rng = np.random.default_rng(11)
    home = np.array(model.poses.get("home", model.neutral()), float)
    # the farther ones close less often: then the starting point was out of reach
    starts = [model.integrate(home, spread * rng.standard_normal(model.nv)) for spread in SPREADS]
    found = [closed_from(model, start) for start in starts]
    return tuple(one for one in found if one is not None)


def closed_from(model: Model, q: Array, steps: int = MAX_CLOSING_STEPS) -> Closed | None:
    """Return the configuration in which Newton steps from another one close the loops, if any."""
    for _ in range(steps):
        jacobian, value = live_jacobian(model, q)
        if np.max(np.abs(value), initial=0.0) < CLOSED_RESIDUAL:
            return tuple(float(x) for x in q), jacobian
        step = np.linalg.lstsq(jacobian, -value, rcond=MIN_SAMPLE_RATIO)[0]
        largest = np.max(np.abs(step))
        if not np.isfinite(largest):
            return None
        q = model.integrate(np.array(q, float), step / max(1.0, largest))
    return None


def live_jacobian(model: Model, q: Sequence[float] | Array) -> tuple[Array, Array]:
    """Return Jacobian and value of the live constraints at a configuration."""
    live = [k for k, used in enumerate(jacobian_pattern(model)) if used]
    with taping(None):
        terms = constraints(model, model.plan, JointVector([float(x) for x in q]))
    jacobian = np.zeros((len(live), model.nv))
    for n, k in enumerate(live):
        for j, x in terms.jacobian[k].items():
            jacobian[n, j] = float(x)
    return jacobian, np.array([float(terms.value[k]) for k in live])


def _order(
    free: int, bound: int, entries: Sequence[tuple[int, int]], values: Array | None
) -> list[int]:
    """Return a minimum-degree elimination order in which constraints have nonzero pivots.

    Args:
        free: Number of joint variables.
        bound: Number of constraints.
        entries: Row and column of each entry.
        values: The entries, one row per configuration in which pivots must not vanish; None for
            an order in which constraints come after all joints they constrain.
    """
    size = free + bound
    safe = values is None
    columns = np.zeros((len(entries), 1)) if values is None else values.T
    rows: list[dict[int, Array]] = [{} for _ in range(size)]
    diagonal = np.zeros((size, columns.shape[1]))
    joints_of: list[set[int]] = [set() for _ in range(size)]
    for (i, j), x in zip(entries, columns, strict=True):
        if i == j:
            diagonal[i] = x
        else:
            rows[i][j] = rows[j][i] = x
            if i >= free:
                joints_of[i].add(j)
    # pivots are compared with the terms they are sums of, those of constraints also with their
    # squared length in the diagonal metric, as in the factorization
    formed = np.abs(diagonal)
    if not safe:
        for i in range(free, size):
            for j, x in rows[i].items():
                formed[i] += x * x / diagonal[j]

    def is_ready(k: int) -> bool:
        if safe:
            # after all its joints, a constraint has a zero pivot only if it is redundant
            return k < free or not joints_of[k] & left
        pivots = diagonal[k] if k < free else -diagonal[k]
        return bool(np.all(pivots > MIN_PIVOT * formed[k]) and np.all(formed[k] > 0.0))

    left = set(range(size))
    ready = {k for k in left if is_ready(k)}
    order: list[int] = []
    while left:
        # redundant constraints come last and are left out
        k = min(ready or left, key=lambda k: (len(rows[k]), k))
        left.remove(k)
        order.append(k)
        column = rows[k]
        for i in column:
            del rows[i][k]
        if k not in ready:
            continue
        ready.remove(k)
        inverse = 0.0 if safe else 1.0 / diagonal[k]
        items = list(column.items())
        for place, (i, x) in enumerate(items):
            scaled = x * inverse
            for j, y in items[:place]:
                old = rows[i].get(j)
                rows[i][j] = rows[j][i] = -scaled * y if old is None else old - scaled * y
            diagonal[i] -= scaled * x
            np.maximum(formed[i], np.abs(diagonal[i]), out=formed[i])
        for i in column:
            (ready.add if is_ready(i) else ready.discard)(i)
    return order


WELL_CONDITIONED = 1e-6
"""Squared sine of the angle between constraints above which the factorization without pivoting is
accurate enough: multipliers lose six of sixteen digits at this angle of 1e-3."""

MIN_SQUARED_LENGTH = 1e-10
"""Lower bound of the squared length of a constraint, relative to the longest, in the test for lost
pivots: a row that vanishes in a configuration is rounding error only."""

LOST_PIVOT = 1e-11
"""Squared sine below which large mechanisms drop a constraint, or the squared cut if larger."""

MIN_DIVISOR = 1e-300
"""Lower bound of lengths in divisions."""

MAX_INLINED_WORK = 15000
"""Multiplications of a factorization up to which it is inlined as straight-line code."""


def constrained_acceleration(
    model: Model,
    plan: Plan,
    terms: Constraints,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
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


class AugmentedSystem:
    """The augmented system in one configuration, factored without pivoting.

    Attributes:
        pattern: Its sparsity pattern.
        bound: Entries of J, in the order of the pattern.
        lost: Squared sine of the angle between constraints below which one is dropped.
        longest: Largest squared length of a constraint.
        factor: The factorization.
        is_doubtful: Whether the rank is uncertain, or accuracy was lost.
    """

    def __init__(self, model: Model, mass: Scalars, jacobian: Sequence[Row], cut: Scalar) -> None:
        """Factor; see `solve_augmented` for the arguments."""
        self.pattern = pattern = loop_pattern(model)
        live = pattern.live
        self.bound = [jacobian[live[n]][j] for n, j in pattern.bound]
        entries = [*mass, *self.bound]
        inline = pattern.saddle.work <= MAX_INLINED_WORK
        self.lost = np.maximum(LOST_PIVOT, cut * cut) if pattern.is_large else WELL_CONDITIONED
        short = np.maximum(
            MIN_SQUARED_LENGTH, np.minimum(1.0, (10.0 * cut) ** 2 / WELL_CONDITIONED)
        )
        lengths = _lengths(pattern, mass, self.bound)
        self.longest = _longest(lengths)
        sizes = [np.maximum(length, short * self.longest) for length in lengths]
        self.factor = SaddleFactor(pattern.saddle, entries, self.lost, inline=inline, sizes=sizes)
        # above ten times the cut, the rank is certain without pivoting
        certain = np.maximum(WELL_CONDITIONED, (10.0 * cut) ** 2)
        self.is_doubtful = self.factor.worst <= (self.lost if pattern.is_large else certain)


def solve_augmented(
    model: Model,
    plan: Plan,
    mass: Scalars,
    jacobian: Sequence[Row],
    free: Scalars,
    rhs: Scalars,
    cut: Scalar = MIN_CUT,
    *,
    pivoted: bool = False,
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
        pivoted: Whether to use the factorization with pivoting at once, where the mechanism is
            small enough for it.
    """
    pattern = loop_pattern(model)
    live, nv = pattern.live, plan.nv
    right = [rhs[k] for k in live]

    def solve_pivoted() -> tuple[Any, ...]:
        metric = TreeMetric(plan, mass)
        rows: list[Row] = [{j: jacobian[k][j] for j in jacobian[k]} for k in live]
        return solve_in_metric(metric, rows, free, right, cut)

    if pivoted and not pattern.is_large:
        vd, forces, rank, ratio = solve_pivoted()
        multipliers = scattered(forces, live, len(jacobian))
        return ConstrainedMotion(tuple(vd), multipliers, lambda: (rank, ratio))
    system = AugmentedSystem(model, mass, jacobian, cut)
    found = system.factor.solve([*free, *right])
    vd, forces = found[:nv], [-x for x in found[nv:]]

    def conditioning() -> tuple[Scalar, Scalar]:
        smallest = np.minimum(system.factor.least, system.longest)
        ratio = np.sqrt(np.maximum(smallest, MIN_DIVISOR) / np.maximum(system.longest, MIN_DIVISOR))
        if pattern.is_large:
            kept = system.factor.kept()
            rank = sum((np.where(np.abs(x) > 0.0, 1.0, 0.0) for x in kept), start=0.0)
            return rank, ratio
        known = (float(len(live)), ratio)
        # apart from accelerations: results that are not used are not computed
        rank, ratio = where_needed(system.is_doubtful, lambda: solve_pivoted()[2:], known)
        return rank, ratio

    if not pattern.is_large:
        vd, forces = where_needed(
            system.is_doubtful, lambda: solve_pivoted()[:2], (list(vd), forces)
        )
    else:
        forces = where_needed(
            system.is_doubtful,
            lambda: _shortest(pattern, system.bound, forces, nv, system.lost),
            forces,
        )
    return ConstrainedMotion(tuple(vd), scattered(forces, live, len(jacobian)), conditioning)


def _shortest(
    pattern: LoopPattern, bound: Scalars, forces: Scalars, nv: int, lost: Scalar
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

    def residual(found: Scalars) -> list[Scalar]:
        missed = [-x for x in found[:count]] + [0.0] * nv
        for (n, j), x in zip(pattern.bound, bound, strict=True):
            missed[n] = missed[n] - x * found[count + j]
            missed[count + j] = missed[count + j] + x * (forces[n] - found[n])
        return missed

    found = factor.solve(residual([0.0] * (count + nv)))
    # one step of iterative refinement, since the condition of J is squared
    found = [x + y for x, y in zip(found, factor.solve(residual(found)), strict=True)]
    return found[:count]


def _lengths(pattern: LoopPattern, mass: Scalars, bound: Scalars) -> list[Scalar]:
    """Return the squared length of each constraint in the diagonal metric: sum of J_j^2 / H_jj."""
    inverse = {j: 1.0 / x for (i, j), x in zip(pattern.mass, mass, strict=True) if i == j}
    lengths: list[Scalar] = [0.0] * len(pattern.live)
    for (n, j), x in zip(pattern.bound, bound, strict=True):
        lengths[n] = lengths[n] + x * x * inverse[j]
    return lengths


def _longest(lengths: Scalars) -> Scalar:
    """Return the largest of squared lengths, by pairwise comparison (short dependency chains)."""
    left = list(lengths) or [0.0]
    while len(left) > 1:
        odd = left[len(left) // 2 * 2 :]
        left = [np.maximum(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]
