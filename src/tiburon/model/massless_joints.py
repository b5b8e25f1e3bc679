"""Joints without inertia, for which forward dynamics would divide by zero.

Massless bodies, point masses and thin rods are allowed as long as the inertia at every joint is
positive. The check runs the articulated-body recursion (Featherstone 1987, section 6.4) at one
generic configuration: the inertia d along each joint direction must be positive.
"""

from collections.abc import Sequence

import numpy as np

from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.joints.elimination import eliminate_direction
from tiburon.model.plan import WORLD_BODY, Plan
from tiburon.spatial import ArticulatedInertia, Force

INERTIA_TOLERANCE = 1e-12
"""Inertia along a joint, relative to that of everything it carries, that counts as zero.

Rounding leaves about 1e-16; the thinnest shafts of real mechanisms stay above 1e-9.
"""


def needs_check(bodies: Sequence[Body]) -> bool:
    """Return whether some moving body lacks a positive definite inertia of its own."""
    return any(body.joint.nv > 0 and not body.inertia.is_definite for body in bodies)


def immovable_joints(plan: Plan) -> tuple[str, ...]:
    """Return the names of the joints without inertia, from the leaves inward."""
    # a fixed seed: any generic configuration will do, and the result must be reproducible
    rng = np.random.default_rng(20)
    position = _generic_position(plan, rng)
    freed = [body.inertia.articulated() for body in plan.bodies]
    carried = list(freed)
    found: list[str] = []
    for body in reversed(plan.bodies):
        inertia, felt = freed[body.index], carried[body.index]
        q = position[body.q]
        # coupled joints have no variable of their own
        directions = () if body.joint.follows is not None else body.joint.subspace(q)
        armature = body.armature or (0.0,) * len(directions)
        for s, own in reversed(list(zip(directions, armature[: len(directions)], strict=True))):
            d, whole = s.dot(inertia.apply(s)) + own, s.dot(felt.apply(s)) + own
            if d <= INERTIA_TOLERANCE * max(whole, _scale(felt, any(s.angular))):
                # a joint without inertia is treated as locked
                found.append(body.joint.name)
                continue
            inertia, _, _ = eliminate_direction(inertia, Force.zero(), s, 0.0, own)
        if body.parent != WORLD_BODY:
            X = body.transform(q)
            freed[body.parent] = freed[body.parent] + X.inertia_to_parent(inertia)
            carried[body.parent] = carried[body.parent] + X.inertia_to_parent(felt)
    # a joint with several degrees of freedom may be listed for each
    return tuple(dict.fromkeys(found))


def nothing_resists(plan: Plan, joint: str) -> ModelError:
    """Return the error about a joint without inertia."""
    body = next(body for body in plan.bodies if body.joint.name == joint)
    return ModelError(
        f"joint {joint!r}: its inertia must be positive, got none along one of its directions "
        f"from body {body.name!r} and everything it carries; give the bodies mass away from "
        "the axis, or an inertia tensor, or the joint an armature",
        name=joint,
    )


def _generic_position(plan: Plan, rng: "np.random.Generator") -> list[float]:
    """Return a random position of all joints that have variables."""
    position = [0.0] * plan.nq
    for body in plan.bodies:
        if body.joint.follows is None:
            position[body.q] = body.joint.random(rng)
    return position


def _scale(inertia: ArticulatedInertia, angular: bool) -> float:
    """Return the largest moment of inertia or mass along any coordinate axis."""
    xx, _, _, yy, _, zz = inertia.A if angular else inertia.M
    return float(max(xx, yy, zz))
