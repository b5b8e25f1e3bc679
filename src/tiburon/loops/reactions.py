"""Joint reactions of robots with loops, at joints of the tree and at joints that close loops.

The constraint forces of loops act on the bodies they connect; with these among the external forces
the robot is a tree (Featherstone 1987, sections 7.4.2 and 9.2). For redundant constraints the
distribution is statically indeterminate; the forces of least norm are returned.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.closed_form import has_closed_form
from tiburon.algorithms.conditions import Setting, dynamics_function
from tiburon.algorithms.kinematics import body_places
from tiburon.algorithms.reactions import reactions_under
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.functions.keywords import DynamicsCall, takes_conditions
from tiburon.functions.library import record_under
from tiburon.loops.constraints import carried_by, constraint_names, traced_wrenches
from tiburon.loops.inverse import shared_forces
from tiburon.loops.methods import constrained_motion
from tiburon.model import JointCoupling, LoopClosure, Model
from tiburon.record import record
from tiburon.spatial import Force, Scalar
from tiburon.trace.array import as_traced

__all__ = ["LoopReactions", "loop_reactions"]

Array = NDArray[np.float64]
Scalars = Sequence[Scalar]


@record(eq=False)
class LoopReactions:
    """What all joints of a robot with loops carry, one state or a batch.

    Wrenches are [n; f] [N m, N].
    """

    acceleration: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    actuator: Array
    """Wrench of the joint force on each body that a joint holds, in axes of the body about its
    origin, in the order of `model.joint_names`, shape (..., joints, 6)."""

    bearing: Array
    """Wrench of the bearing on it, likewise, shape (..., joints, 6)."""

    loop: Array
    """Wrench of each joint that closes a loop on its second place, at the frame that the joint
    moves and in its axes, in the order of `model.loops`, others left out, shape (..., loops, 6).
    """


def _split(
    around: Setting, q: Scalars, v: Scalars, vd: Scalars, multipliers: Scalars, lines: Scalars
) -> tuple[Any, list[Scalar]]:
    """Return what joints of the tree carry, and the wrenches of the joints that close loops.

    Args:
        around: What acts in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        vd: Joint acceleration [m/s^2 or rad/s^2], nv scalars.
        multipliers: Force along each constraint [N or N m].
        lines: Actuators of joints, as `joint_reactions` takes them.
    """
    model, plan = around.model, around.plan
    places = body_places(plan, q)
    outside = around.external
    felt = [Force.zero() for _ in plan.bodies] if outside is None else list(outside)
    wrenches: list[Scalar] = []
    names = [name.rpartition(".")[0] for name in constraint_names(model)]
    for loop in model.loops:
        if isinstance(loop, JointCoupling):
            # a gear works along joints: what it does is part of their joint forces
            continue
        own = [x for x, name in zip(multipliers, names, strict=True) if name == loop.name]
        if isinstance(loop, LoopClosure):
            carried = carried_by(loop, plan, places, own)
            wrenches += tuple(carried.wrench)
            on_bodies = carried.on_bodies
        else:
            on_bodies = traced_wrenches(loop, model, plan, q, places, own)
        for body, force in on_bodies:
            felt[body] = felt[body] + force
    return reactions_under(around._replace(external=tuple(felt)), q, v, vd, *lines), wrenches


@has_closed_form("joint_reactions")
def _reactions(around: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars) -> Any:
    found = shared_forces(around, q, v, vd, around.model.actuated_joint_names)
    return _split(around, q, v, vd, found.multipliers, lines)[0]


def _run(around: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    found = constrained_motion(around, q, v, tau)
    split, wrenches = _split(around, q, v, found.vd, found.multipliers, ())
    count = sum(isinstance(loop, LoopClosure) for loop in around.model.loops)
    return {
        "acceleration": as_traced(list(found.vd)),
        "actuator": split["actuator"],
        "bearing": split["bearing"],
        "loop": as_traced(wrenches).reshape(count, 6),
    }


_FUNCTION = dynamics_function("loop_reactions", ("q", "v", "tau"), _run, of_trees=False)


@public
@takes_conditions
def loop_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    **conditions: Unpack[DynamicsCall],
) -> LoopReactions:
    """Compute what every joint of a robot with loops carries, cut joints like all others.

    One state or a batch; traced arrays inside a compiled function. `joint_reactions` answers the
    same for a given motion and the robot's own actuators.

    Args:
        model: The robot; it has loops.
        q: Position with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Raises:
        ModelError: If the robot has no loops.

    Example:
        ``tb.loop_reactions(four_bar, q, v, tau).loop[0]``
    """
    if all(isinstance(loop, JointCoupling) for loop in model.loops):
        raise ModelError(
            f"model {model.name!r}: loop_reactions is for robots with joints that close loops, got "
            "none; take joint_reactions"
        )
    return record_under(LoopReactions, conditions, _FUNCTION, model, (q, v, tau))
