"""How a robot answers forces from rest: what every joint lets through.

Symbols (Featherstone 1987, chapters 6 and 9):
    IA      articulated-body inertia of a body with all beyond it
    S, d    direction of a joint's freedom, and S^T IA S along it
    u       acceleration of a body when one direction accelerates by 1 and the directions after it,
            free, give way
    A       propagator: acceleration of a body per acceleration of its parent, its joint free
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.joint import Carry
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform

__all__ = ["Direction", "Freed", "all_ancestors", "ancestors", "freed_joints", "propagated"]


class Direction(NamedTuple):
    """One direction of freedom, as the inertia beyond it answers."""

    u: Motion
    """Acceleration of the body along it, of either sign, in the body's own frame."""

    softness: Scalar
    """1/d, the acceleration per joint force [1/kg or 1/(kg m^2)]."""


class Freed(NamedTuple):
    """A body whose joint is free."""

    X: Transform
    """Map of motion from the parent's frame to the body's."""

    rigid: Carry
    """What `Joint.accelerate` needs to let the joint give way, with no force of its own."""

    directions: tuple[Direction, ...]
    """One per velocity variable of the joint."""


def freed_joints(plan: Plan, q: Sequence[Scalar]) -> tuple[Freed, ...]:
    """Find how every joint answers (Featherstone 1987, eqs. 6.46-6.52).

    The directions are the factors of the inverse mass matrix: M^-1 = sum u u^T / d in joint space,
    so that responses are sums of squares, and ranks can be read from the factors.

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.

    Returns:
        One answer per plan body.
    """

    def transform(body: PlanBody, _: object) -> Transform:
        return body.transform(q[body.q])

    def release(
        body: PlanBody, IA: ArticulatedInertia, X: Transform
    ) -> tuple[Freed, ArticulatedInertia]:
        joint, position = body.joint, q[body.q]
        nothing = Force.zero(), Motion.zero()
        Ia, _, carry = joint.release(position, IA, *nothing, (0.0,) * joint.nv)
        # without forces every rate is zero: what is left says how the directions give way
        rigid = tuple(freed._replace(rate=0.0) for freed in carry)
        directions = []
        for k in range(joint.nv):
            unit = tuple(1.0 if index == k else 0.0 for index in range(joint.nv))
            # carries begin with the last direction, the first to be freed
            place = joint.nv - 1 - k
            pushed = joint.release(position, IA, *nothing, unit)[2][place].rate
            qdd, _ = joint.accelerate(position, driven(rigid, place, pushed), Motion.zero())
            _, u = joint.accelerate(position, driven(rigid, place, 1.0), Motion.zero())
            directions.append(Direction(u, qdd[k]))
        return Freed(X, rigid, tuple(directions)), X.inertia_to_parent(Ia)

    def driven(rigid: Carry, place: int, rate: Scalar) -> Carry:
        """Return what lets one direction accelerate by itself and the others give way."""
        return (*rigid[:place], rigid[place]._replace(rate=rate), *rigid[place + 1 :])

    transforms = outward(plan, transform, Transform.identity())
    alone = [body.inertia.articulated() for body in plan.bodies]
    return inward(plan, release, alone, transforms)


def propagated(body: PlanBody, freed: Freed, q: Sequence[Scalar], a: Motion) -> Motion:
    """Return the acceleration of a body whose parent accelerates by a: A X a (eq. 9.39).

    Args:
        body: The body.
        freed: Its answer.
        q: Position of all joints, nq scalars.
        a: Acceleration of the parent, in the parent's frame.
    """
    return body.joint.accelerate(q[body.q], freed.rigid, freed.X.motion(a))[1]


def ancestors(plan: Plan, body: int) -> frozenset[int]:
    """Return the indices of a plan body and all that carry it; nothing for the world."""
    found = set()
    while body != WORLD_BODY:
        found.add(body)
        body = plan.bodies[body].parent
    return frozenset(found)


def all_ancestors(plan: Plan, bodies: Iterable[int]) -> frozenset[int]:
    """Return the indices of some plan bodies and all that carry any of them."""
    return frozenset().union(*(ancestors(plan, body) for body in bodies))
