"""Base of revolute, prismatic and screw joints: one degree of freedom on a fixed axis."""

import copy
from collections.abc import Sequence
from typing import ClassVar, Self

from tiburon.model.joints.axes import coordinate_of, unit_axis
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import Vec3, number
from tiburon.record import record


@record(slots=False)
class AxialJoint(Joint):
    """A joint with one degree of freedom and a fixed axis through the joint frame's origin."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit axis in joint axes, which equal body axes at zero position."""

    offset: float = 0.0
    """Offset added to q: position of the body at q = 0 [rad or m]."""

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", unit_axis(self.axis, self.name))
        offset = number(self.offset, f"joint {self.name!r}", "offset", self.name)
        object.__setattr__(self, "offset", offset)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis, self.offset)

    def without_offset(self) -> tuple[Joint, tuple[float, ...]]:
        """Return the joint without its offset, and the offset."""
        if self.offset == 0.0:
            return self, ()
        joint = copy.copy(self)
        object.__setattr__(joint, "offset", 0.0)
        return joint, (self.offset,)

    def no_offset(self) -> tuple[float, ...]:
        """Return (0,)."""
        return (0.0,)

    def neutral(self) -> tuple[float, ...]:
        """Return (0,)."""
        return (0.0,)

    def coordinate(self) -> tuple[int, float] | None:
        """Return index and sign of the coordinate axis the joint axis lies on, if it does."""
        return coordinate_of(self.axis)

    def rebased(self, axis: Vec3, offset: float) -> Self:
        """Return the same joint in other frames, with another axis and offset.

        Args:
            axis: Unit axis in the new joint axes; not checked again.
            offset: Position of the new body frame at q = 0 [rad or m].
        """
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", axis)
        object.__setattr__(joint, "offset", offset)
        return joint

    def _along(self, rate: float) -> Vec3:
        x, y, z = self.axis
        return (x * rate, y * rate, z * rate)

    def _first(self, q: Sequence[float]) -> float:
        (value,) = q
        return value
