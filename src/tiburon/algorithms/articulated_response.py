"""How a robot answers forces from rest: what every joint lets through.

Symbols (Featherstone 1987, chapters 6 and 9):
    X       map of motion from the parent's frame to the body's
    IA      articulated-body inertia of a body with all beyond it
    S, d    direction of a joint's freedom, and S^T IA S along it, those after it being free
    A       propagator: acceleration of a body per acceleration of its parent, its joint free
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiburon.algorithms.sweep import inward, outward
from tiburon.model import Plan, PlanBody
from tiburon.model.joints.joint import Carry
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform

__all__ = [
    "Direction",
    "Held",
    "ancestors",
    "articulated_inertias",
    "directions",
    "passed_on",
    "propagated",
]


class Held(NamedTuple):
    """A body with all beyond it, held by its joint."""

    X: Transform
    """Map of motion from the parent's frame to the body's."""

    IA: ArticulatedInertia
    """Inertia of the body with all beyond it, the joints beyond it free."""


class Direction(NamedTuple):
    """One direction of freedom, as the inertia beyond it answers."""

    u: Motion
    """Acceleration of the body along it, of either sign, in the body's own frame, while the
    directions after it give way."""

    softness: Scalar
    """1/d, the acceleration per joint force [1/kg or 1/(kg m^2)]."""


def articulated_inertias(plan: Plan, q: Sequence[Scalar]) -> tuple[Held, ...]:
    """Find the articulated-body inertia of every plan body (Featherstone 1987, eqs. 6.46-6.52).

    Args:
        plan: Layout of the model.
        q: Position [m or rad], nq scalars.
    """

    def transform(body: PlanBody, _: object) -> Transform:
        return body.transform(q[body.q])

    def release(
        body: PlanBody, IA: ArticulatedInertia, X: Transform
    ) -> tuple[Held, ArticulatedInertia]:
        Ia, *_ = _released(body, IA, q, Force.zero(), (0.0,) * body.joint.nv)
        return Held(X, IA), X.inertia_to_parent(Ia)

    transforms = outward(plan, transform, Transform.identity())
    alone = [body.felt.articulated() for body in plan.bodies]
    return inward(plan, release, alone, transforms)


def _released(
    body: PlanBody,
    IA: ArticulatedInertia,
    q: Sequence[Scalar],
    p: Force,
    tau: Sequence[Scalar],
) -> tuple[ArticulatedInertia, Force, Carry]:
    """Free a joint at rest."""
    return body.joint.release(q[body.q], IA, p, Motion.zero(), tau, body.armature)


def _giving_way(carry: Carry, place: int | None = None, rate: Scalar = 0.0) -> Carry:
    """Return what lets all directions give way, and one of them accelerate by itself."""
    return tuple(
        freed._replace(rate=rate if index == place else 0.0) for index, freed in enumerate(carry)
    )


def propagated(body: PlanBody, held: Held, q: Sequence[Scalar], a: Motion) -> Motion:
    """Return the acceleration of a body whose parent accelerates by a: A X a (eq. 9.39).

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
        a: Acceleration of the parent, in the parent's frame.
    """
    nothing = (0.0,) * body.joint.nv
    carry = _released(body, held.IA, q, Force.zero(), nothing)[2]
    return body.joint.accelerate(q[body.q], _giving_way(carry), held.X.motion(a), body.armature)[1]


def directions(body: PlanBody, held: Held, q: Sequence[Scalar]) -> tuple[Direction, ...]:
    """Return the directions of a joint: a body on it alone answers by sum u u^T / d.

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
    """
    joint, position = body.joint, q[body.q]
    found = []
    for k in range(joint.nv):
        unit = tuple(1.0 if index == k else 0.0 for index in range(joint.nv))
        carry = _released(body, held.IA, q, Force.zero(), unit)[2]
        # carries begin with the last direction, the first to be freed
        place = joint.nv - 1 - k
        pushed = _giving_way(carry, place, carry[place].rate)
        still, own = Motion.zero(), body.armature
        qdd, _ = joint.accelerate(position, pushed, still, own)
        _, u = joint.accelerate(position, _giving_way(carry, place, 1.0), still, own)
        found.append(Direction(u, qdd[k]))
    return tuple(found)


def passed_on(
    body: PlanBody, held: Held, q: Sequence[Scalar], f: Force
) -> tuple[tuple[Scalar, ...], Force]:
    """Return how a joint answers a force on its body, and what the parent feels of it.

    Args:
        body: The body.
        held: From `articulated_inertias`.
        q: Position of all joints, nq scalars.
        f: Force on the body, in its frame.

    Returns:
        u . f / d along each direction u of `directions`, and the force on the parent, in its frame.
    """
    nothing = (0.0,) * body.joint.nv
    _, p, carry = _released(body, held.IA, q, -f, nothing)
    return tuple(freed.rate for freed in reversed(carry)), held.X.force_to_parent(-p)


def ancestors(plan: Plan, body: int) -> frozenset[int]:
    """Return the indices of a plan body and all that carry it; nothing for the world."""
    found = set()
    while body != WORLD_BODY:
        found.add(body)
        body = plan.bodies[body].parent
    return frozenset(found)
