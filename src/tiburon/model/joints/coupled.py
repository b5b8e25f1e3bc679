"""Coupled joints: gears, mimic joints, motor rotors.

A follower moves by ratio times the leader's position. It adds a body but no variable: the leader's
q, v and joint force apply to both, and the dynamics is exactly that of the coupled mechanism: mass
matrix and joint forces are reduced by the constant matrix G of the couplings, H = G^T H' G and tau
= G^T tau'. A rotor in its housing is such a follower; its gyroscopic moments are included.
"""

import copy
import math
from typing import Any, ClassVar, Self

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError, shown
from tiburon.model.joints.axial import AxialJoint, Revolute, across, aligned_axes
from tiburon.model.joints.joint import Joint, refuse_own_data
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Matrix3, check_name, finite_array
from tiburon.record import field, record
from tiburon.spatial import Motion, Scalar, Scalars, Transform
from tiburon.spatial.vec3 import IDENTITY3
from tiburon.trace.declared import is_declared

COARSE_BITS = 26
"""Bits of the first part of a ratio: its product with a position in whole units is exact."""


def ratio_parts(ratio: float) -> tuple[float, float] | None:
    """Return a ratio as a sum of a coarse and a fine number; None if all its products are exact.

    Rounding of a large angle would be an error of its sine, 2e-9 at 1e7 rad.
    """
    mantissa, exponent = math.frexp(ratio)
    if abs(mantissa) in (0.0, 0.5):
        return None
    coarse = math.ldexp(round(math.ldexp(mantissa, COARSE_BITS)), exponent - COARSE_BITS)
    return coarse, ratio - coarse


@public
@record(slots=False)
class Coupled(Joint):
    """A single-axis joint at ratio times the position of its leader, plus an offset.

    It has no variables of its own: its methods take the leader's.

    Example:
        A gripper whose second finger mirrors the first, and the rotor of an elbow's motor::

            Coupled("right", Prismatic("right_slide", (1, 0, 0)), leader="left", ratio=-1)
            Coupled("rotor", Revolute("spin"), leader="elbow", ratio=100)
    """

    moves: AxialJoint = field(default_factory=lambda: Revolute("turn"))
    """Motion of the follower: a joint with one degree of freedom, without a pose."""

    leader: str = ""
    """Name of the leading joint, with one degree of freedom."""

    ratio: float = 1.0
    """Gear ratio: follower's motion per leader's [rad/rad, m/rad, ...]."""

    offset: float = 0.0
    """Follower's position where the leader's is zero [rad or m]."""

    kind: ClassVar[str] = "coupled"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    _ratio_parts: ClassVar[Any] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        element = f"joint {self.name!r}"
        given: object = self.moves
        if not isinstance(given, AxialJoint) or given.pose != Pose():
            raise ModelError(
                f"{element}: moves must be a revolute, prismatic or screw joint without a pose, "
                f"got {shown(given)}; give the pose to the coupled joint",
                name=self.name,
            )
        refuse_own_data(self, given)
        check_name(self.leader, f"{element}: leader")
        for number in ("ratio", "offset"):
            value = finite_array(getattr(self, number), (), element, number, self.name)
            object.__setattr__(self, number, float(value))
        if self.moves._turns:
            object.__setattr__(self, "_ratio_parts", ratio_parts(self.ratio))

    @property
    def follows(self) -> str | None:
        """Name of the joint whose variables move this one."""
        return self.leader

    @property
    def is_rigid(self) -> bool:
        """False: the body moves in its parent."""
        return False

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, self.moves.structure(), self.leader, self.ratio, self.offset)

    def parameters(self) -> tuple[float, ...]:
        """Return ratio and offset, and those of the motion."""
        moves, own = self._whole.without_offset()
        numbers = (*(own or moves.no_offset()), *moves.parameters())
        return (self.ratio, *(self._ratio_parts or ()), *numbers)

    def with_parameters(self, numbers: Scalars) -> Self:
        """Return a follower with other parameters, without a particular leader.

        The caller passes the variables of its leader.
        """
        moves, _ = self._whole.without_offset()
        parts, count = len(self._ratio_parts or ()), len(moves.no_offset())
        first, last = 1 + parts, 1 + parts + count
        own, others = numbers[first:last], numbers[last:]
        joint = copy.copy(self)
        object.__setattr__(joint, "ratio", numbers[0])
        object.__setattr__(joint, "_ratio_parts", tuple(numbers[1:first]) or None)
        object.__setattr__(joint, "offset", 0.0)
        object.__setattr__(joint, "leader", "")
        object.__setattr__(joint, "moves", moves.with_parameters(others).with_offset(own))
        return joint

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the follower's axis, unless it is a coordinate axis."""
        moves = self.moves
        if moves.coordinate() is not None:
            return IDENTITY3, self
        joint = copy.copy(self)
        object.__setattr__(joint, "moves", moves.rebased((0.0, 0.0, 1.0), moves.offset))
        return aligned_axes(moves.axis, across(moves.axis)), joint

    def neutral(self) -> tuple[float, ...]:
        """Return an empty tuple: it has no variables."""
        return ()

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an empty tuple."""
        return ()

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame, at the leader's q."""
        if not is_declared(type(self.moves)):
            # a motion of the user's own may not read its offset
            return self.moves.transform(self._own(q))
        return self._whole.transform(self._turned(q))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the motion per unit velocity of the leader."""
        return tuple(S * self.ratio for S in self.moves.subspace(self._own(q)))

    def own_subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the motion per unit velocity of the follower itself, whatever the ratio."""
        return self.moves.subspace(self._own(q))

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the columns of Sdot: zero."""
        return (Motion.zero(),)

    @property
    def _whole(self) -> AxialJoint:
        """The motion with both offsets; a large position does not round a small offset."""
        return self.moves.moved_further(self.offset) if self.offset else self.moves

    def _turned(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return summands of ratio times the leader's position, the first one exact."""
        (leading,) = q
        if self._ratio_parts is None:
            return (self.ratio * leading,)
        coarse, fine = self._ratio_parts
        whole = np.floor(leading)
        return (coarse * whole, fine * whole + self.ratio * (leading - whole))

    def _own(self, q: Scalars) -> tuple[Scalar, ...]:
        """Return the follower's position for the leader's."""
        (leading,) = q
        return (self.ratio * leading + self.offset,)
