"""A wheel, a coin, a hoop: a disc that rolls on its rim and may lean."""

from typing import ClassVar

import numpy as np

from tiburon.errors import ModelError
from tiburon.model.numbers import number, unit_vector
from tiburon.model.surface_contact import FLAT, SurfaceContact, Touch, column
from tiburon.model.traced_closure import FrameMotion, FramePose
from tiburon.record import field, record
from tiburon.spatial import Vec3
from tiburon.spatial.vec3 import add, cross, dot, scale, subtract, vec3

__all__ = ["RollingDisc"]


@record
class RollingDisc(SurfaceContact):
    """A thin disc that rolls without slip on a plane and may tilt: it touches at its lowest point.

    Its center is the origin of the frame on the second place. The plane is the xy plane of the
    frame on the first. One height and two velocities are bound, along the way it heads and across;
    forces along these are the traction and the side force of a wheel. A disc that lies flat
    touches at no one point: that is refused.

    Example:
        ``RollingDisc("tire", "world", "wheel", radius=0.3, axis=(0, 1, 0))``
    """

    radius: float = field(default=1.0, kw_only=True)
    """From the center to the rim [m]."""

    axis: Vec3 = field(default=(0.0, 1.0, 0.0), kw_only=True)
    """Of the disc, in the frame on the second place; scaled to length 1."""

    kind: ClassVar[str] = "rolling disc"

    def __post_init__(self) -> None:
        SurfaceContact.__post_init__(self)
        element = f"loop {self.name!r}"
        radius = number(self.radius, element, "radius", self.name)
        if radius <= 0.0:
            raise ModelError(
                f"{element}: radius must be positive, got {radius:g} m", name=self.name
            )
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "axis", unit_vector(self.axis, element, "axis", self.name))

    @property
    def velocity_count(self) -> int:
        """Two: along the way it heads, and across."""
        return 2

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """What it forbids."""
        return ("offset along z", "slip along the heading", "slip across the heading")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the lowest point of the rim.

        With a the axis and z the normal, a x z points the way the disc heads, and the center is
        radius |a x z| above the plane; the lever is the disc's steepest way down.
        """
        from tiburon.trace.value import require

        z = column(plane, 2)
        x, y, w = self.axis
        a = add(
            add(scale(column(body, 0), x), scale(column(body, 1), y)), scale(column(body, 2), w)
        )
        heading = cross(a, z)
        square = dot(heading, heading)
        expected = f"loop {self.name!r}: its disc must stand on the rim, but lies flat on the plane"
        sine = np.sqrt(require(square >= FLAT, square, expected))
        heading = scale(heading, 1.0 / sine)
        down = cross(a, heading)
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(
            z,
            scale(down, self.radius),
            dot(z, apart) - self.radius * sine,
            (heading, cross(z, heading)),
        )
