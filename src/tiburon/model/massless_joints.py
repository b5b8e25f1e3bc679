"""Can every joint be moved by a finite force? Where not, forward dynamics would divide by zero.

Bodies without mass, point masses and thin rods are fine as long as something resists every joint.
Whether it does is seen by freeing the joints one after the other at one generic position, as the
articulated-body algorithm does (Featherstone 1987, section 6.4): the inertia d felt along each
freed direction must be positive.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.joints.elimination import eliminate_direction
from tiburon.model.plan import WORLD_BODY, Plan
from tiburon.spatial import ArticulatedInertia, Force

SINGULAR = 1e-12
"""Inertia along a joint, relative to that of everything it carries, that counts as none.

Rounding leaves about 1e-16; the thinnest shafts of real mechanisms stay above 1e-9.
"""


def needs_check(bodies: Sequence[Body]) -> bool:
    """Return whether some moving body lacks a positive definite inertia of its own."""
    return any(body.joint.nv > 0 and not body.inertia.is_definite for body in bodies)


def immovable_joints(plan: Plan) -> tuple[str, ...]:
    """Return the names of the joints that nothing resists, from the leaves inward."""
    # a fixed seed: any generic position tells, and the answer must not change from run to run
    rng = np.random.default_rng(20)
    position = _generic_position(plan, rng)
    freed = [body.inertia.articulated() for body in plan.bodies]
    carried = list(freed)
    found: list[str] = []
    for body in reversed(plan.bodies):
        inertia, felt = freed[body.index], carried[body.index]
        q = position[body.q]
        # a follower is not free by itself
        directions = () if body.joint.follows is not None else body.joint.subspace(q)
        armature = body.armature or (0.0,) * len(directions)
        for s, own in reversed(list(zip(directions, armature[: len(directions)], strict=True))):
            d, whole = s.dot(inertia.apply(s)) + own, s.dot(felt.apply(s)) + own
            if d <= SINGULAR * max(whole, _scale(felt, any(s.angular))):
                # what moves without resistance passes nothing on, as if it were locked
                found.append(body.joint.name)
                continue
            inertia, _, _ = eliminate_direction(inertia, Force.zero(), s, 0.0, own)
        if body.parent != WORLD_BODY:
            X = body.transform(q)
            freed[body.parent] = freed[body.parent] + X.inertia_to_parent(inertia)
            carried[body.parent] = carried[body.parent] + X.inertia_to_parent(felt)
    # a joint of several freedoms may be listed for each
    return tuple(dict.fromkeys(found))


def nothing_resists(plan: Plan, joint: str) -> ModelError:
    """Return the error about a joint that nothing resists."""
    body = next(body for body in plan.bodies if body.joint.name == joint)
    return ModelError(
        f"joint {joint!r}: something must resist its motion, got no inertia along one of its "
        f"directions from body {body.name!r} and what it carries; give the bodies mass away from "
        "the axis, or an inertia tensor, or the joint an armature",
        name=joint,
    )


def _generic_position(plan: Plan, rng: "np.random.Generator") -> list[float]:
    """Return a random position of all joints that have variables of their own."""
    position = [0.0] * plan.nq
    for body in plan.bodies:
        if body.joint.follows is None:
            position[body.q] = body.joint.random(rng)
    return position


def _scale(inertia: ArticulatedInertia, angular: bool) -> float:
    """Return the largest moment of inertia or mass along any coordinate axis."""
    xx, _, _, yy, _, zz = inertia.A if angular else inertia.M
    return float(max(xx, yy, zz))
