"""Constraints beyond the tree: loop closures and joint couplings."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.user_joint import joint_graph
from tiburon.model.pose import Pose
from tiburon.model.traced_closure import TracedClosure, closure_program, seen_joints
from tiburon.model.value_checks import check_name, check_places, finite_array
from tiburon.record import field, record
from tiburon.trace.declared import is_declared


@record
class LoopClosure:
    """A joint that closes a loop; immutable, compares by value.

    The joint defines how the second frame may move relative to the first. Its pose places the joint
    frame in the first body or frame; `second_pose` places the moved frame in the second.

    Example:
        ``LoopClosure("pin", "coupler tip", "rocker tip", Revolute("pin joint", (0, 0, 1)))``
    """

    name: str
    """Unique among the closures of a model."""

    first: str
    """Name of a body or frame, or "world"."""

    second: str
    """Name of another body or frame, or "world"."""

    joint: Joint
    """Motion of the second relative to the first; its pose is in axes of the first."""

    second_pose: Pose = field(default_factory=Pose)
    """The frame moved by the joint, in axes of the second."""

    def __post_init__(self) -> None:
        check_places(self.name, self.first, self.second)
        element = f"loop {self.name!r}"
        joint: object = self.joint
        if not isinstance(joint, Joint) or joint.depends_on_time or joint.follows is not None:
            raise ModelError(
                f"{element}: joint must be a joint such as Revolute, neither driven nor "
                f"coupled, got {shown(joint)}",
                name=self.name,
            )
        pose: object = self.second_pose
        if not isinstance(pose, Pose):
            raise ModelError(
                f"{element}: second_pose must be a Pose, got {shown(pose)}; write "
                "Pose(translation=(x, y, z))",
                name=self.name,
            )


@record
class JointCoupling:
    """A constraint between the positions of two joints; immutable, compares by value.

    position of `joint` = c0 + c1 x + c2 x^2 + ..., x being the position of `leader`. For a linear
    relation, a `Coupled` joint is equivalent and needs no constraint.
    """

    name: str
    """Unique among the closures of a model."""

    joint: str
    """Name of the constrained joint, with one degree of freedom."""

    leader: str | None = None
    """Name of the leading joint, with one degree of freedom; None for a constant position."""

    coefficients: tuple[float, ...] = (0.0, 1.0)
    """c0, c1, ... [m or rad per power of the leader's unit]."""

    def __post_init__(self) -> None:
        check_name(self.name, "loop")
        element = f"loop {self.name!r}"
        check_name(self.joint, f"{element}: joint")
        if self.leader is not None:
            check_name(self.leader, f"{element}: leader")
        if self.joint == self.leader:
            raise ModelError(
                f"{element}: must couple two different joints, got {self.joint!r} twice",
                name=self.name,
            )
        count = max(1, np.size(self.coefficients))
        numbers = finite_array(self.coefficients, (count,), element, "coefficients", self.name)
        object.__setattr__(self, "coefficients", tuple(numbers.tolist()))
        if self.leader is None and len(self.coefficients) != 1:
            raise ModelError(
                f"{element}: a coupling without a leader has one coefficient, its position, got "
                f"{len(self.coefficients)}; name the leader or leave the others out",
                name=self.name,
            )


Closure: TypeAlias = LoopClosure | JointCoupling | TracedClosure


def joints_of(loop: Closure) -> tuple[str, ...]:
    """Return the names of the joints whose variables a closure constrains."""
    if isinstance(loop, JointCoupling):
        return (loop.joint,) if loop.leader is None else (loop.joint, loop.leader)
    return () if isinstance(loop, LoopClosure) else loop.seen_joints


def places_of(loop: Closure) -> tuple[str, ...]:
    """Return the names of the bodies and frames that a closure connects."""
    if isinstance(loop, LoopClosure):
        return (loop.first, loop.second)
    return () if isinstance(loop, JointCoupling) else tuple(name for name, _ in loop.ends)


def structure_of(loop: Closure, joints: Mapping[str, Joint]) -> object:
    """Return what compiled code depends on, as data or as graphs of user code.

    Args:
        loop: A closure.
        joints: Joints of the model by name.
    """
    if isinstance(loop, LoopClosure):
        joint = loop.joint
        how: object = joint if is_declared(joint) else (joint.pose, joint_graph(joint))
        return (loop.name, loop.first, loop.second, how, loop.second_pose)
    if isinstance(loop, JointCoupling):
        return (loop.name, loop.joint, loop.leader, loop.coefficients)
    if is_declared(loop):
        return loop
    found = closure_program(loop, seen_joints(loop, joints))
    counts = (loop.position_count, loop.velocity_count)
    return (loop.name, loop.ends, loop.seen_joints, counts, found.program.key)
