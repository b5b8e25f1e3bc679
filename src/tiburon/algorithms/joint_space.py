"""Forward dynamics by the mass matrix, with a sparse factorization along the tree.

Symbols (Featherstone 1987, chapter 5; 2005):
    H       mass matrix, H = L^T D L with L as sparse as H
    C       bias force
"""

from collections.abc import Sequence

import numpy as np

from tiburon.algorithms.bias import bias
from tiburon.algorithms.crba import chosen_mass_elements
from tiburon.algorithms.pair_products import before_products
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar, Scalars, Vec3
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, InvertTree, SolveTree


def expanded_parents(plan: Plan) -> tuple[int, ...]:
    """Return the expanded parent array: the parent of each velocity variable, or -1.

    A joint with several degrees of freedom is a chain of variables (Featherstone 2005). With
    coupled joints, which connect branches, all variables form one chain: H is dense.
    """
    if plan.has_couplings:
        return tuple(range(-1, plan.nv - 1))
    parents: list[int] = []
    # the variable that carries the children of each body
    last: list[int] = []
    for body in plan.bodies:
        above = -1 if body.parent == WORLD_BODY else last[body.parent]
        for row in range(body.v.start, body.v.stop):
            parents.append(above)
            above = row
        last.append(above)
    return tuple(parents)


def remaining_parents(parents: Sequence[int], rows: Sequence[int]) -> tuple[int, ...]:
    """Return the parents of some variables: the nearest ancestor among them, or -1.

    Args:
        parents: The expanded parent array.
        rows: The variables.
    """
    place = {row: number for number, row in enumerate(rows)}
    found = []
    for row in rows:
        above = parents[row]
        while above >= 0 and above not in place:
            above = parents[above]
        found.append(place.get(above, -1))
    return tuple(found)


def forward_by_mass_matrix(
    plan: Plan,
    q: Scalars,
    v: Scalars,
    tau: Scalars,
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute forward dynamics by solving H vd = tau - C; arguments and result as for `aba`.

    Featherstone 1987, eq. 5.6, with the composite-rigid-body H (5.11-5.14) and C = ID(q, v, 0)
    (5.3); the factors L^T D L preserve the zeros between branches.
    """
    matrix, C = joint_space_terms(plan, q, v, gravity, external)
    right = [force - c for force, c in zip(tau, C, strict=True)]
    parents, inline = expanded_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    return tuple(SolveTree(parents).apply([*factor, *right], inline=inline))


def joint_space_terms(
    plan: Plan, q: Scalars, v: Scalars, gravity: Vec3, external: Sequence[Force] | None = None
) -> tuple[Scalars, Scalars]:
    """Compute the elements of H in the order of the tree factorization, and C."""
    elements = FactorTree(expanded_parents(plan)).layout.elements()

    @before_products(plan)
    def bias_force(q: Scalars, v: Scalars) -> list[Scalar]:
        return list(bias(plan, JointVector(q), JointVector(v), gravity, external))

    return chosen_mass_elements(plan, q, elements), bias_force(list(q), list(v))


def inverse_mass_elements(plan: Plan, q: Scalars) -> Scalars:
    """Compute the inverse of the mass matrix, nv times nv scalars row by row."""
    matrix, _ = joint_space_terms(plan, q, scalars(np.zeros(plan.nv)), (0.0, 0.0, 0.0))
    parents, inline = expanded_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    return InvertTree(parents).apply(factor, inline=inline)
