"""The Jacobian of all cycles, joints that close loops included, and what its nullity tells.

Rates of all joints around a cycle add up to nothing: J_c' qd' = 0 (Nahon 1991, eqs. 3.32 to 3.34).
Locking the joints that have motors leaves the columns of the others, J_u: its nullity is the
freedom that motors cannot hold, and its condition kappa(J_u) how well they hold the rest
(eqs. 3.45 to 3.52).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.loops.constraints import Row, constraint_names, constraints
from tiburon.loops.topology import Topology
from tiburon.loops.topology_screws import about, joint_screws
from tiburon.model import LoopClosure, Model
from tiburon.model.body import WORLD

__all__ = ["RANK", "CycleJacobian", "condition", "cycle_jacobian", "rank_of"]

Array = NDArray[np.float64]

RANK = 1e-9
"""Singular value, relative to the largest, below which rows of a Jacobian count as dependent.

Positions closed to 1e-12 with arms of meters leave errors of some 1e-12; `rank_cut` raises it where
loops are open by more.
"""


class CycleJacobian(NamedTuple):
    """J_c' and whose columns it has."""

    matrix: Array
    """Six rows per cycle, angular part first, world axes, then one per tie between joints and one
    per residual that a function tells; shape (rows, columns)."""

    names: tuple[str, ...]
    """The joint each column belongs to; the loop where a joint closes one."""


def cycle_jacobian(model: Model, shape: Topology, q: Array, length: float = 1.0) -> CycleJacobian:
    """Build the Jacobian of all cycles.

    Args:
        model: The robot.
        shape: Its topology.
        q: Position with closed loops [m or rad], shape (nq,).
        length: Unit of length of the rows [m]: kappa depends on it.
    """
    at = joint_screws(model, q)
    names = [""] * at.size
    for line in shape.joints:
        for variable in at.of[line.name].variables:
            # a follower has its leader's variables, which come first
            names[variable] = names[variable] or line.name
    point = np.array(at.places[_reference(shape)].p, dtype=np.float64)
    ties = _tie_rows(model, q)
    matrix = np.zeros((6 * len(shape.cycles) + len(ties), at.size))
    for number, cycle in enumerate(shape.cycles):
        rows = slice(6 * number, 6 * number + 6)
        for name, sense in cycle:
            columns, variables = at.of[name]
            moved = about(columns, point)
            moved[3:] /= length
            for k, variable in enumerate(variables):
                matrix[rows, variable] += sense * moved[:, k]
    for number, row in enumerate(ties, start=6 * len(shape.cycles)):
        for variable, slope in row.items():
            matrix[number, variable] = slope
    # joints that bind nothing inside a cycle have no part in it
    idle = {line.name for line in shape.joints if line.is_placeholder}
    kept = [k for k, name in enumerate(names) if name not in idle]
    return CycleJacobian(matrix[:, kept], tuple(names[k] for k in kept))


def _tie_rows(model: Model, q: Array) -> list[Row]:
    """Return the constraints that no joint brings: ties of joints, and what functions tell."""
    joined = {loop.name for loop in model.loops if isinstance(loop, LoopClosure)}
    rows = constraints(model, model.plan, [float(x) for x in q]).jacobian
    names = (name.rpartition(".")[0] for name in constraint_names(model))
    return [row for row, name in zip(rows, names, strict=True) if name not in joined]


def _reference(shape: Topology) -> str:
    """Return the body whose origin rates are told at: the pole that moves, if there is one."""
    return next((pole for pole in reversed(shape.poles) if pole != WORLD), WORLD)


def rank_of(matrix: Array, cut: float = RANK) -> int:
    """Return the number of independent rows or columns.

    Args:
        matrix: Shape (rows, columns).
        cut: Singular value, relative to the largest, below which they are dependent.
    """
    if not matrix.size:
        return 0
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.count_nonzero(sizes > cut * sizes[0])) if sizes[0] > 0.0 else 0


def condition(matrix: Array, cut: float = RANK) -> Array:
    """Return largest over smallest singular value of matrices, infinite where columns depend.

    Args:
        matrix: Shape (..., rows, columns).
        cut: As in `rank_of`.

    Returns:
        Shape (...); 1 where there are no columns.
    """
    rows, columns = matrix.shape[-2:]
    if columns == 0:
        return np.ones(matrix.shape[:-2])
    if rows < columns:
        return np.full(matrix.shape[:-2], np.inf)
    sizes = np.linalg.svd(matrix, compute_uv=False)
    lost = sizes[..., -1] <= cut * sizes[..., 0]
    return np.where(lost, np.inf, sizes[..., 0] / np.where(lost, 1.0, sizes[..., -1]))
