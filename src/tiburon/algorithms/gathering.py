"""From numbers per body to numbers per velocity variable.

Joints that follow another share its variables: what is felt at each of them adds up, which is the
product with the transpose of the matrix that ties them (G^T tau).
"""

from collections.abc import Sequence

from tiburon.model import Plan
from tiburon.spatial import Scalar

__all__ = ["by_velocity", "with_armature"]


def by_velocity(plan: Plan, parts: Sequence[Sequence[Scalar]]) -> tuple[Scalar, ...]:
    """Put the numbers of all joints in the order of v; those of joints that share one add up.

    Args:
        plan: Layout of the model.
        parts: For each plan body, one number per velocity variable of its joint.

    Returns:
        nv scalars.
    """
    if not plan.has_couplings:
        return tuple(x for part in parts for x in part)
    total: list[Scalar] = [0.0] * plan.nv
    for body, part in zip(plan.bodies, parts, strict=True):
        for place, x in enumerate(part, start=body.v.start):
            total[place] = total[place] + x
    return tuple(total)


def with_armature(plan: Plan, H: Sequence[Sequence[Scalar]]) -> tuple[tuple[Scalar, ...], ...]:
    """Add what joints feel beyond the bodies they move to the diagonal of the mass matrix.

    Args:
        plan: Layout of the model.
        H: Rows of the mass matrix of the bodies, nv times nv scalars.
    """
    rows = [list(row) for row in H]
    for body in plan.bodies:
        for k, own in enumerate(body.armature or (), start=body.v.start):
            rows[k][k] = rows[k][k] + own
    return tuple(map(tuple, rows))
