"""Joints tied to another: gears, mimic joints, motor rotors.

A follower moves by ratio times the leader's position. It adds a body but no variable: the leader's
q, v and joint force stand for both, and dynamics is that of the tied mechanism, exactly: mass
matrix and joint forces are reduced by the constant matrix G of the ties, H = G^T H' G and
tau = G^T tau'. A rotor that spins in its housing is such a follower; the moments by which its spin
resists turning the housing (gyroscopic) come out by themselves.
"""

import copy
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.joints.axes import across, aligned_axes
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.joints.joint import Joint, refuse_own_data
from tiburon.model.joints.revolute import Revolute
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix3, check_name, finite_array
from tiburon.record import field, record
from tiburon.spatial import Motion, Scalar, Transform
from tiburon.spatial.vec3 import IDENTITY3


@record(slots=False)
class Coupled(Joint):
    """A hinge, slide or screw whose position is ratio times that of another joint, plus an offset.

    It has no variables of its own: its methods take the leader's.

    Example:
        A gripper whose second finger mirrors the first, and the rotor of an elbow's motor::

            Coupled("right", Prismatic("right_slide", (1, 0, 0)), leader="left", ratio=-1)
            Coupled("rotor", Revolute("spin"), leader="elbow", ratio=100)
    """

    moves: AxialJoint = field(default_factory=lambda: Revolute("turn"))
    """How the follower moves: a joint of one freedom without a pose of its own."""

    leader: str = ""
    """Name of the joint it follows, which has one freedom."""

    ratio: float = 1.0
    """Follower's motion per leader's [rad/rad, m/rad, ...]."""

    offset: float = 0.0
    """Follower's position where the leader's is zero [rad or m]."""

    kind: ClassVar[str] = "coupled"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        element = f"joint {self.name!r}"
        given: object = self.moves
        if not isinstance(given, AxialJoint) or given.pose != Pose():
            raise ModelError(
                f"{element}: moves must be a revolute, prismatic or screw joint without a pose "
                f"of its own, got {shown(given)}; give the pose to the coupled joint",
                name=self.name,
            )
        refuse_own_data(self, given)
        check_name(self.leader, f"{element}: leader")
        for number in ("ratio", "offset"):
            value = finite_array(getattr(self, number), (), element, number, self.name)
            object.__setattr__(self, number, float(value))

    @property
    def follows(self) -> str | None:
        """Name of the joint whose variables move this one."""
        return self.leader

    @property
    def is_rigid(self) -> bool:
        """Whether the body never moves in its parent: it does move."""
        return False

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, self.moves.structure(), self.leader, self.ratio, self.offset)

    def numbers(self) -> tuple[float, ...]:
        """Return ratio and offset, and those of the motion."""
        moves, own = self.moves.without_offset()
        return (self.ratio, self.offset + sum(own), *moves.numbers())

    def with_numbers(self, numbers: Sequence[Scalar]) -> Self:
        """Return a follower with other numbers, of no leader in particular.

        Who leads shows in the variables that a follower is handed.
        """
        ratio, offset, *others = numbers
        moves, _ = self.moves.without_offset()
        joint = copy.copy(self)
        object.__setattr__(joint, "ratio", ratio)
        object.__setattr__(joint, "offset", offset)
        object.__setattr__(joint, "leader", "")
        object.__setattr__(joint, "moves", moves.with_numbers(others))
        return joint

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the follower's, unless it lies on a coordinate axis already."""
        moves = self.moves
        if moves.coordinate() is not None:
            return IDENTITY3, self
        joint = copy.copy(self)
        object.__setattr__(joint, "moves", moves.rebased((0.0, 0.0, 1.0), moves.offset))
        return aligned_axes(moves.axis, across(moves.axis)), joint

    def neutral(self) -> tuple[float, ...]:
        """Return no number: it has no variables of its own."""
        return ()

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return no number."""
        return ()

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame, at the leader's q."""
        return self.moves.transform(self._own(q))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the motion per unit velocity of the leader."""
        return tuple(S * self.ratio for S in self.moves.subspace(self._own(q)))

    def subspace_rate(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the columns of Sdot: zero."""
        return (Motion.zero(),)

    def _own(self, q: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Return the follower's position for the leader's."""
        (leading,) = q
        return (self.ratio * leading + self.offset,)
