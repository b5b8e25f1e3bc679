"""Forward dynamics in joint space: mass matrix, factored without filling in its zeros.

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
from tiburon.spatial import Force, Scalar, Vec3
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, InvertTree, SolveTree

__all__ = [
    "expanded_parents",
    "forward_by_mass_matrix",
    "inverse_mass_elements",
    "joint_space_terms",
]


def expanded_parents(plan: Plan) -> tuple[int, ...]:
    """Return, for each velocity variable, the one it hangs on in the tree; -1 for none.

    A joint of several freedoms is a chain of them, carried by the last freedom of its parent.
    Joints that follow another tie branches together: then every variable may couple with every
    other.
    """
    if plan.has_couplings:
        return tuple(range(-1, plan.nv - 1))
    hangs_on: list[int] = []
    # the variable that carries the children of each body
    last: list[int] = []
    for body in plan.bodies:
        above = -1 if body.parent == WORLD_BODY else last[body.parent]
        for row in range(body.v.start, body.v.stop):
            hangs_on.append(above)
            above = row
        last.append(above)
    return tuple(hangs_on)


def forward_by_mass_matrix(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    tau: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Scalar, ...]:
    """Compute the joint accelerations that given joint forces produce: H vd = tau - C.

    Featherstone 1987, eq. 5.6, with the composite-rigid-body H (5.11-5.14) and C = ID(q, v, 0)
    (5.3); solved by the factors L^T D L, which keep the zeros between branches.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
        gravity: Acceleration of free fall, world axes [m/s^2].
        external: Force on each body from outside, in its plan frame [N m, N]; none by default.

    Returns:
        Joint acceleration [m/s^2 or rad/s^2], nv scalars.
    """
    matrix, C = joint_space_terms(plan, q, v, gravity, external)
    right = [force - c for force, c in zip(tau, C, strict=True)]
    parents, inline = expanded_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    return tuple(SolveTree(parents).apply([*factor, *right], inline=inline))


def joint_space_terms(
    plan: Plan,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    gravity: Vec3,
    external: Sequence[Force] | None = None,
) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
    """Return the elements of H that a factorization along the tree reads, and C."""
    elements = FactorTree(expanded_parents(plan)).layout.elements()

    @before_products(plan)
    def held(q: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        return list(bias(plan, JointVector(q), JointVector(v), gravity, external))

    return chosen_mass_elements(plan, q, elements), held(list(q), list(v))


def inverse_mass_elements(plan: Plan, q: Sequence[Scalar]) -> Sequence[Scalar]:
    """Compute the inverse of the mass matrix, nv times nv scalars row by row."""
    matrix, _ = joint_space_terms(plan, q, scalars(np.zeros(plan.nv)), (0.0, 0.0, 0.0))
    parents, inline = expanded_parents(plan), plan.nv <= INLINE_SIZE
    factor = FactorTree(parents).apply(matrix, inline=inline)
    return InvertTree(parents).apply(factor, inline=inline)
