"""Screw joint: rotation about an axis with proportional translation along it."""

import copy
import math
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from tiburon.model.joint_constraints import Advance, Measure, Offset, Tilt
from tiburon.model.joints.axes import cos_sin, normals, turn_about
from tiburon.model.joints.axial import AxialJoint
from tiburon.model.value_checks import Vec3, finite_array
from tiburon.record import record
from tiburon.spatial import Force, Motion, Scalar, Transform, Translation, screw_unit_force


@record(slots=False)
class Screw(AxialJoint):
    """A screw joint: rotates by q + offset [rad], translates by pitch times that plus `lead` [m].

    The joint force is the couple about the axis that does the same work [N m].

    Example:
        A thread that advances 5 mm per turn: ``Screw("spindle", pitch=0.005 / (2 * math.pi))``
    """

    pitch: float = 0.0
    """Pitch, positive for a right-handed thread [m/rad]."""

    lead: float = 0.0
    """Displacement along the axis where q + offset is zero [m]."""

    kind: ClassVar[str] = "screw"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("pitch", "lead"):
            value = finite_array(getattr(self, field), (), f"joint {self.name!r}", field, self.name)
            object.__setattr__(self, field, float(value))

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (*super().structure(), self.pitch, self.lead)

    def parameters(self) -> tuple[float, ...]:
        """Return pitch and lead."""
        return (self.pitch, self.lead)

    def with_parameters(self, numbers: Sequence[Scalar]) -> Self:
        """Return a joint with another pitch and lead."""
        joint = copy.copy(self)
        for field, value in zip(("pitch", "lead"), numbers, strict=True):
            object.__setattr__(joint, field, value)
        return joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coaxial axes and the thread."""
        first, second = normals(self.axis)
        advance: Measure = Offset(self.axis, self.lead)
        if self.pitch != 0.0:
            advance = Advance(self.axis, first, self.pitch, self.lead)
        leans = (Tilt(normal, self.axis) for normal in (first, second))
        return (Offset(first), Offset(second), *leans, advance)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an angle between -pi and pi."""
        return (float(rng.uniform(-math.pi, math.pi)),)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        (angle,) = q
        slide = self.pitch * angle + (self.pitch * self.offset + self.lead)
        turn = turn_about(self.axis, *cos_sin(angle, self.offset))
        return Transform((Translation(self._along(slide)), turn))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the screw of the axis (Featherstone 1987, section 7.3)."""
        return (Motion(self.axis, self._along(self.pitch)),)

    def unit_force(self) -> Force:
        """Return the wrench along the screw that does unit work on the unit motion (sec. 7.3).

        Force along the axis and couple about it in the proportion of the screw, in body
        coordinates.
        """
        return screw_unit_force(self.axis, self.pitch)

    def rebased(self, axis: Vec3, offset: float) -> Self:
        """Return the same joint in other frames; the displacement is unchanged."""
        joint = super().rebased(axis, offset)
        object.__setattr__(joint, "lead", self.lead - self.pitch * (offset - self.offset))
        return joint
