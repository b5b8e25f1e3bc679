"""Forward dynamics with loops: joint accelerations and constraint forces from one system.

    [ H  J^T ] [  vd     ]   [ tau - C ]
    [ J   0  ] [ -lambda ] = [ -bias   ]        (Featherstone 1987, eq. 9.17)

The whole system is factored with its zeros, legs before the body they carry (`elimination`). No
pivots are looked for; those of constraints tell by how much they lost. Eliminating joints first
squares the condition of J, so the result is taken only where no digit that matters is lost.
Elsewhere, near singular poses and where constraints repeat each other, D^-1/2 L^-T J^T with
H = L^T D L is factored with pivoting: the constraints in the metric of the mass matrix, nothing
squared. That decides the rank and gives the multipliers of least length (`factor_orthogonal`). It
runs for the cases that need it and for no other.

Mechanisms too large for it leave out constraints whose pivots are lost; accelerations are then
still right, and forces one choice of many. Of all that do the same to the joints, z = J^T lambda,
the shortest are those of a second sparse system,

    [ 1    J ] [ lambda ]   [ 0 ]
    [ J^T  0 ] [   w    ] = [ z ]

whose lost pivots are the freedoms that loops leave: its equations agree, whichever are left out.

Symbols: H, C mass matrix and bias force, J, bias as in `constraints`, lambda constraint forces.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.algorithms.joint_space import freedom_parents, joint_space_terms
from tiburon.loops.constraints import Constraints, Row
from tiburon.loops.elimination import LoopPattern, loop_pattern
from tiburon.loops.metric import CUT, ConstrainedMotion, rank_cut, solve_in_metric
from tiburon.model import Model, Plan
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.primitives.saddle import SaddleFactor
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import while_loop

__all__ = ["TreeMetric", "answer", "constrained_acceleration"]

SURE = 1e-6
"""Squared sine of the angle between constraints above which squaring their condition is harmless.

Multipliers lose six of sixteen digits at this angle of 1e-3; below it they would lose more.
"""

SHORT = 1e-10
"""Squared length of a constraint, relative to the longest, below which it is told as longer.

A row that vanishes in a pose is left with rounding, and sure of it; against this it is lost. Those
who cut off constraints at a length let the careful way decide from ten times that length on.
"""

LOST = 1e-11
"""Squared sine below which mechanisms too large for the careful way leave a constraint out; the
square of the cut where that is more."""

TINY = 1e-300
"""Stands for lengths of constraints that bind nothing: a division by it is a number."""

INLINED = 15000
"""Multiplications of a factor up to which they are spelled out: without tables to look up."""


class TreeMetric:
    """The mass matrix of a tree, factored: H = L^T D L."""

    def __init__(self, plan: Plan, elements: Sequence[Scalar]) -> None:
        """Factor.

        Args:
            plan: Layout of the model.
            elements: Those elements of H that a factorization along the tree reads.
        """
        parents = freedom_parents(plan)
        primitive = FactorTree(parents)
        # spelled out: its numbers are used one by one here, and derivatives of a call are those of
        # the factor as a whole
        numbers = primitive.apply(elements, inline=True)
        self._columns = primitive.layout.columns
        self._starts = primitive.layout.starts
        self._numbers = list(numbers)
        self.softness = [self._numbers[end - 1] for end in self._starts[1:]]
        """1/D, one per velocity variable."""

    def lowered(self, force: dict[int, Scalar]) -> dict[int, Scalar]:
        """Return L^-T times joint forces, by velocity variable; zeros are left out."""
        found = dict(force)
        for i in range(len(self._columns) - 1, -1, -1):
            if i not in found:
                continue
            for place, j in enumerate(self._columns[i][:-1], start=self._starts[i]):
                part = self._numbers[place] * found[i]
                found[j] = found[j] - part if j in found else -part
        return found

    def raised(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return L^-1 times a vector."""
        found: list[Scalar] = []
        for i, columns in enumerate(self._columns):
            total = x[i]
            for place, j in enumerate(columns[:-1], start=self._starts[i]):
                total = total - self._numbers[place] * found[j]
            found.append(total)
        return tuple(found)


def constrained_acceleration(
    model: Model,
    plan: Plan,
    held: Constraints,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
    least_cut: float = CUT,
) -> ConstrainedMotion:
    """Compute joint accelerations and constraint forces of a robot with loops.

    Args:
        model: The robot.
        plan: Its layout.
        held: Its constraints in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.
        least_cut: See `rank_cut`.

    Returns:
        Accelerations that keep every constraint that can be kept, and the forces that do it.
    """
    mass, C = joint_space_terms(plan, q, v, gravity, external)
    free = [tau[i] - C[i] for i in range(plan.nv)]
    cut = rank_cut(model, held.value, least_cut)
    return answer(model, plan, mass, held.jacobian, free, [-b for b in held.bias], cut)


def answer(
    model: Model,
    plan: Plan,
    mass: Sequence[Scalar],
    jacobian: Sequence[Row],
    free: Sequence[Scalar],
    wanted: Sequence[Scalar],
    cut: Scalar = CUT,
) -> ConstrainedMotion:
    """Solve the augmented system.

    Args:
        model: The robot.
        plan: Its layout.
        mass: Those elements of H that a factorization along the tree reads.
        jacobian: J, one row per constraint.
        free: Joint forces that act without constraints [N or N m], nv scalars.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint is redundant.
    """
    pattern = loop_pattern(model)
    live, nv = pattern.live, plan.nv
    bound = [jacobian[live[n]][j] for n, j in pattern.bound]
    right = [wanted[k] for k in live]
    careful = not pattern.is_large
    entries = [*mass, *bound]
    inline = pattern.saddle.work <= INLINED
    lost = SURE if careful else np.maximum(LOST, cut * cut)
    short = np.maximum(SHORT, np.minimum(1.0, (10.0 * cut) ** 2 / SURE))
    lengths = _lengths(pattern, mass, bound)
    longest = _longest(lengths)
    sizes = [np.maximum(length, short * longest) for length in lengths]
    factor = SaddleFactor(pattern.saddle, entries, lost, inline=inline, sizes=sizes)
    found = factor.solve([*free, *right])
    vd, forces = found[:nv], [-x for x in found[nv:]]
    rank: Scalar = float(len(live))
    smallest = np.minimum(factor.least, longest)
    ratio = np.sqrt(np.maximum(smallest, TINY) / np.maximum(longest, TINY))
    if careful:
        # pivots above ten times the cut need no pivoting to be told from those below it
        unsure = np.where(factor.worst > np.maximum(SURE, (10.0 * cut) ** 2), 0.0, 1.0)

        def carefully(one: Scalar) -> tuple[Any, ...]:
            # what the state takes no part in would be computed before the loop, needed or not
            metric = TreeMetric(plan, [one * x for x in mass])
            rows: list[Row] = [{} for _ in live]
            for (n, j), x in zip(pattern.bound, bound, strict=True):
                rows[n][j] = one * x
            return solve_in_metric(metric, rows, free, right, cut)

        def needed(state: Any) -> Any:
            return state[0] > 0.5

        # rank and ratio apart: where nobody asks for them they are not found, and they need not be
        # smooth, which what is differentiated must be
        start = (unsure, list(vd), forces, 1.0)
        _, vd, forces, _ = while_loop(
            needed, lambda s: (0.0, *carefully(s[-1])[:2], s[-1]), start, 1
        ).state
        told = (unsure, rank, ratio, 1.0)
        _, rank, ratio, _ = while_loop(
            needed, lambda s: (0.0, *carefully(s[-1])[2:], s[-1]), told, 1
        ).state
    else:
        rank = sum((np.where(np.abs(x) > 0.0, 1.0, 0.0) for x in factor.kept()), start=0.0)
        repeated = np.where(factor.worst > lost, 0.0, 1.0)
        _, forces = while_loop(
            lambda state: state[0] > 0.5,
            lambda state: (0.0, _shortest(pattern, bound, state[1], nv, lost)),
            (repeated, forces),
            1,
        ).state
    multipliers: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, forces, strict=True):
        multipliers[k] = force
    return ConstrainedMotion(tuple(vd), tuple(multipliers), rank, ratio)


def _shortest(
    pattern: LoopPattern,
    bound: Sequence[Scalar],
    forces: Sequence[Scalar],
    nv: int,
    lost: Scalar,
) -> list[Scalar]:
    """Return the shortest constraint forces that do to the joints what given ones do."""
    assert pattern.shortest is not None
    count = len(pattern.live)
    lengths: list[Scalar] = [0.0] * nv
    for (_, j), x in zip(pattern.bound, bound, strict=True):
        lengths[j] = lengths[j] + x * x
    longest = _longest(lengths)
    sizes = [np.maximum(length, SHORT * longest) for length in lengths]
    entries = [*[1.0] * count, *bound]
    factor = SaddleFactor(pattern.shortest, entries, lost, inline=False, sizes=sizes)

    def left(found: Sequence[Scalar]) -> list[Scalar]:
        """Return by how much the second system is missed."""
        missed = [-x for x in found[:count]] + [0.0] * nv
        for (n, j), x in zip(pattern.bound, bound, strict=True):
            missed[n] = missed[n] - x * found[count + j]
            missed[count + j] = missed[count + j] + x * (forces[n] - found[n])
        return missed

    found = factor.solve(left([0.0] * (count + nv)))
    # once more for what squaring the condition of J has cost
    found = [x + y for x, y in zip(found, factor.solve(left(found)), strict=True)]
    return found[:count]


def _lengths(pattern: LoopPattern, mass: Sequence[Scalar], bound: Sequence[Scalar]) -> list[Scalar]:
    """Return the squared lengths of constraints, each joint felt alone: J_j^2 / H_jj summed."""
    stiffness = {j: x for (i, j), x in zip(pattern.mass, mass, strict=True) if i == j}
    lengths: list[Scalar] = [0.0] * len(pattern.live)
    for (n, j), x in zip(pattern.bound, bound, strict=True):
        lengths[n] = lengths[n] + x * x / stiffness[j]
    return lengths


def _longest(lengths: Sequence[Scalar]) -> Scalar:
    """Return the largest of squared lengths."""
    # in pairs: of many, none waits for all before it
    left = list(lengths) or [0.0]
    while len(left) > 1:
        odd = left[len(left) // 2 * 2 :]
        left = [np.maximum(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]
