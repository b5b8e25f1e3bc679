"""Prismatic joint: translation along an axis."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tiburon.model.joint_constraints import Measure, Offset, Turn, all_axes
from tiburon.model.joints.axes import normals
from tiburon.model.joints.axial import AxialJoint
from tiburon.record import record
from tiburon.spatial import Motion, Scalar, Transform, Translation


@record(slots=False)
class Prismatic(AxialJoint):
    """A prismatic joint: the body translates along the axis by q + offset [m].

    Example:
        ``Prismatic("rail", axis=(1, 0, 0))``
    """

    kind: ClassVar[str] = "prismatic"

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of equal orientation and origins on the axis."""
        return (*all_axes(Turn), *(Offset(normal) for normal in normals(self.axis)))

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a displacement between -1 and 1 m."""
        return (float(rng.uniform(-1.0, 1.0)),)

    def transform(self, q: Sequence[Scalar]) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        (distance,) = q
        if self.offset != 0.0:
            distance = distance + self.offset
        return Transform((Translation(self._along(distance)),))

    def subspace(self, q: Sequence[Scalar]) -> tuple[Motion, ...]:
        """Return the free vector of the axis (Featherstone 1987, section 2.3.2)."""
        return (Motion((0.0, 0.0, 0.0), self.axis),)

    def motion(self, q: Sequence[Scalar], v: Sequence[Scalar]) -> Motion:
        """Return the velocity of the body relative to its parent."""
        return Motion((0.0, 0.0, 0.0), self._along(self._first(v)))
