"""The edge of a skate, a knife or a sleigh: it goes where it points."""

from typing import ClassVar

import numpy as np

from tiburon.model.surface_contact import FLAT, SurfaceContact, Touch, column
from tiburon.model.traced_closure import FrameMotion, FramePose
from tiburon.record import record
from tiburon.spatial.vec3 import ZERO3, cross, dot, scale, subtract, vec3

__all__ = ["Blade"]


@record
class Blade(SurfaceContact):
    """An edge that touches a plane at one point and does not slip sideways there.

    The point is the origin of the frame on the second place, the edge its x axis; it may glide
    along the edge, turn about the normal, lean and pitch. The plane is the xy plane of the frame on
    the first. One height and one velocity are bound; in robots that move in the plane anyway the
    height binds nothing. An edge that stands on end has no direction: that is refused.

    Example:
        Chaplygin's sleigh: ``Blade("runner", "world", "sleigh")`` on a body with a planar joint
    """

    kind: ClassVar[str] = "blade"

    @property
    def velocity_count(self) -> int:
        """One: sideways."""
        return 1

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """What it forbids."""
        return ("offset along z", "slip across the edge")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the body frame's origin, sideways in the plane."""
        from tiburon.trace.value import require

        normal, edge = column(plane, 2), column(body, 0)
        across = cross(normal, edge)
        square = dot(across, across)
        expected = f"loop {self.name!r}: its edge must point along the plane, but stands on end"
        sine = np.sqrt(require(square >= FLAT, square, expected))
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(normal, ZERO3, dot(normal, apart), (scale(across, 1.0 / sine),))
