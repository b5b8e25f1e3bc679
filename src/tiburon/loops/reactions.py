"""Joint reactions of robots with loops, at joints of the tree and at joints that close loops.

The constraint forces of loops act on the bodies they connect; with these among the external forces
the robot is a tree (Featherstone 1987, sections 7.4.2 and 9.2). For redundant constraints the
distribution is statically indeterminate; the forces of least norm are returned.
"""

from typing import Any

from tiburon.algorithms.kinematics import body_places
from tiburon.algorithms.reactions import reactions_under
from tiburon.algorithms.setting import Setting
from tiburon.loops.constraints import constraint_names, loop_joint_load, traced_wrenches
from tiburon.loops.inverse import actuated_forces
from tiburon.loops.methods import constrained_motion
from tiburon.model import JointCoupling, LoopClosure
from tiburon.spatial import Force, Scalar, Scalars
from tiburon.trace.array import as_traced


def opened(
    around: Setting, q: Scalars, multipliers: Scalars
) -> tuple[tuple[Force, ...], list[Scalar]]:
    """Return external forces on plan bodies with those of loops, and wrenches of closing joints.

    `multipliers` are the forces along the constraints [N or N m].
    """
    model, plan = around.model, around.plan
    places = body_places(plan, q)
    external = list(around.external or (Force.zero() for _ in plan.bodies))
    wrenches: list[Scalar] = []
    names = [name.rpartition(".")[0] for name in constraint_names(model)]
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            # a coupling acts along joints, as part of their joint forces
            continue
        own = [x for x, name in zip(multipliers, names, strict=True) if name == loop.name]
        if isinstance(loop, LoopClosure):
            carried = loop_joint_load(loop, plan, places, own)
            wrenches += tuple(carried.wrench)
            on_bodies = carried.on_bodies
        else:
            on_bodies = traced_wrenches(loop, model, plan, q, places, own)
        for body, force in on_bodies:
            external[body] = external[body] + force
    return tuple(external), wrenches


def actuated_reactions(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars
) -> dict[str, Any]:
    """Return the arrays of `JointReactions` by name, for the robot's own actuators."""
    found = actuated_forces(around, q, v, vd, around.model.actuated_joint_names)
    external, _ = opened(around, q, found.multipliers)
    return reactions_under(around._replace(external=external), q, v, vd, *lines)


def constrained_reactions(around: Setting, q: Scalars, v: Scalars, tau: Scalars) -> dict[str, Any]:
    """Return the arrays of `LoopReactions` by name."""
    found = constrained_motion(around, q, v, tau)
    external, wrenches = opened(around, q, found.multipliers)
    split = reactions_under(around._replace(external=external), q, v, found.vd)
    count = sum(isinstance(loop, LoopClosure) for loop in around.model.loops)
    return {
        "acceleration": as_traced(list(found.vd)),
        "actuator": split["actuator"],
        "bearing": split["bearing"],
        "loop": as_traced(wrenches).reshape(count, 6),
    }
