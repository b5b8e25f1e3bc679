"""Forward dynamics with loops: joint accelerations and constraint forces from one system.

    [ H  J^T ] [  vd     ]   [ tau - C ]
    [ J   0  ] [ -lambda ] = [ -bias   ]        (Featherstone 1987, eq. 9.17)

The mass matrix is factored along the tree, H = L^T D L, and the rows of J are brought into its
metric: B = L^-T J^T. Then (B^T D^-1 B) lambda = right, a matrix with the zeros between loops that
do not touch; it is small, and fast to factor. It squares the condition of J, so this way is taken
only where its pivots say that no digit that matters is lost. Elsewhere, near singular poses and
where constraints repeat each other, D^-1/2 B itself is factored with pivoting, which decides the
rank and gives the multipliers of least length (`factor_orthogonal`). That code runs for the cases
that need it and for no other.

Symbols: H, C mass matrix and bias force, J, bias as in `constraints`, lambda constraint forces.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.joint_space import freedom_parents, joint_space_terms
from tiburon.loops.constraints import Constraints
from tiburon.loops.sparse import elimination_order, factor_symmetric
from tiburon.model import Plan
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.array import as_traced
from tiburon.trace.primitives import factor_orthogonal
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree
from tiburon.trace.regions import while_loop

__all__ = ["ConstrainedMotion", "TreeMetric", "answer", "constrained_acceleration"]

SURE = 1e-6
"""Squared sine of the angle between constraints above which squaring their condition is harmless.

Multipliers lose six of sixteen digits at this angle of 1e-3; below it they would lose more.
"""

CUT = 1e-10
"""Length, relative to the longest, below which a constraint counts as repeating others."""


class ConstrainedMotion(NamedTuple):
    """How a robot with loops answers its forces."""

    vd: tuple[Scalar, ...]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    multipliers: tuple[Scalar, ...]
    """Constraint force along each constraint [N or N m]; the shortest where several will do."""

    rank: Scalar
    """Number of independent constraints."""

    ratio: Scalar
    """Smallest over largest singular value, estimated, of the independent constraints."""


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
        numbers = primitive.apply(elements, inline=plan.nv <= 4 * INLINE_SIZE)
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
    plan: Plan,
    held: Constraints,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> ConstrainedMotion:
    """Compute joint accelerations and constraint forces of a robot with loops.

    Args:
        plan: Layout of the model.
        held: Its constraints in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Accelerations that keep every constraint that can be kept, and the forces that do it.
    """
    elements, C = joint_space_terms(plan, q, v, gravity, external)
    metric = TreeMetric(plan, elements)
    free = {i: tau[i] - C[i] for i in range(plan.nv)}
    return answer(metric, held.jacobian, metric.lowered(free), [-b for b in held.bias])


def answer(
    metric: TreeMetric,
    jacobian: Sequence[dict[int, Scalar]],
    free: dict[int, Scalar],
    wanted: Sequence[Scalar],
    cut: float = CUT,
) -> ConstrainedMotion:
    """Solve the augmented system.

    Args:
        metric: The mass matrix.
        jacobian: J, one row per constraint.
        free: L^-T times the joint forces that act without constraints.
        wanted: J vd: what the constraints ask of the accelerations.
        cut: Length, relative to the longest, below which a constraint counts as repeating others.
    """
    size, d = len(metric.softness), metric.softness
    # a row without entries asks for nothing and takes no force
    live = [k for k, row in enumerate(jacobian) if row]
    rows = [metric.lowered(jacobian[k]) for k in live]
    soft = [{i: x * d[i] for i, x in row.items()} for row in rows]
    right = [
        wanted[k] - sum((x * free[i] for i, x in row.items()), start=0.0)
        for k, row in zip(live, soft, strict=True)
    ]
    entries, neighbors = _gram(rows, soft)
    factor = factor_symmetric(elimination_order(neighbors), entries, SURE)
    multipliers: Sequence[Scalar] = factor.solve(right)
    count = float(len(rows))
    unsure = np.where(factor.worst > SURE, 0.0, 1.0)
    ratio = np.sqrt(np.maximum(factor.worst, 0.0))

    def carefully(state: Any) -> Any:
        # what the state takes no part in would be computed before the loop, needed or not
        one = state[-1]
        roots = [one * np.sqrt(x) for x in d]
        G = [[row[i] * roots[i] if i in row else 0.0 for row in rows] for i in range(size)]
        found = factor_orthogonal(as_traced(G), cut=cut)
        pushed = found.solve_transpose(as_traced(right))
        return (0.0, list(found.solve(pushed)), found.rank, found.ratio, one)

    start = (unsure, list(multipliers), count, ratio, 1.0)
    last = while_loop(lambda s: s[0] > 0.5, carefully, start, 1).state
    _, multipliers, rank, ratio, _ = last
    total = [free[i] * d[i] for i in range(size)]
    for row, force in zip(soft, multipliers, strict=True):
        for i, x in row.items():
            total[i] = total[i] + x * force
    forces: list[Scalar] = [0.0] * len(jacobian)
    for k, force in zip(live, multipliers, strict=True):
        forces[k] = force
    return ConstrainedMotion(metric.raised(total), tuple(forces), rank, ratio)


def _gram(
    rows: Sequence[dict[int, Scalar]], soft: Sequence[dict[int, Scalar]]
) -> tuple[dict[tuple[int, int], Scalar], list[set[int]]]:
    """Return B^T D^-1 B, its entries that are not structurally zero, and who meets whom."""
    entries: dict[tuple[int, int], Scalar] = {}
    neighbors: list[set[int]] = [set() for _ in rows]
    for k, row in enumerate(rows):
        for m in range(k + 1):
            common = sorted(row.keys() & soft[m].keys())
            if not common:
                continue
            entries[k, m] = sum((row[i] * soft[m][i] for i in common), start=0.0)
            neighbors[k].add(m)
            neighbors[m].add(k)
    return entries, neighbors
