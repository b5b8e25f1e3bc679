"""Contacts at one point of a plane that constrain velocities: blades and rolling discs.

The plane is the xy plane of a frame on the first body; its z axis is the normal on the side of the
second. Both bodies may move. The height above the plane is a holonomic constraint; directions in
the plane are non-holonomic constraints on the velocity of the body's material point at the contact,
relative to the plane (Featherstone 1987, section 7.4.4).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tiburon.errors import ModelError, shown
from tiburon.model.body import WORLD
from tiburon.model.joints.joint import Joint
from tiburon.model.pose import Pose
from tiburon.model.traced_closure import FrameMotion, FramePose, TracedClosure
from tiburon.model.value_checks import check_places, number, unit_vector
from tiburon.record import field, record
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import ZERO3, add, cross, dot, scale, subtract, vec3

__all__ = ["Blade", "RollingDisc", "SurfaceContact", "Touch", "column", "slip"]

MIN_SQUARED_SINE = 1e-6
"""Squared sine between a direction and the normal below which its projection is undefined."""


class Touch(NamedTuple):
    """Contact of a body with a plane, world axes."""

    normal: Vec3
    """Normal of the plane, toward the body."""

    lever: Vec3
    """Vector from the origin of the body's frame to the contact point [m]."""

    height: Scalar
    """Height of the contact point above the plane [m]."""

    directions: tuple[Vec3, ...]
    """Directions in the plane without slip."""


@record
class SurfaceContact(TracedClosure):
    """A body that touches a plane at one point without slip along some directions."""

    name: str
    """Unique among the closures of a model."""

    first: str
    """Name of a body or frame, or "world", that carries the plane."""

    second: str
    """Name of the body or frame that touches it."""

    pose: Pose = field(default_factory=Pose, kw_only=True)
    """The frame whose xy plane is touched, in axes of the first."""

    second_pose: Pose = field(default_factory=Pose, kw_only=True)
    """The frame that touches, in axes of the second."""

    def __post_init__(self) -> None:
        check_places(self.name, self.first, self.second)
        element = f"loop {self.name!r}"
        for quantity in ("pose", "second_pose"):
            given = getattr(self, quantity)
            if not isinstance(given, Pose):
                raise ModelError(
                    f"{element}: {quantity} must be a Pose, got {shown(given)}; write "
                    "Pose(translation=(x, y, z))",
                    name=self.name,
                )

    @abstractmethod
    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact of the body with the plane."""

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """The plane, and the frame in contact with it."""
        return ((self.first, self.pose), (self.second, self.second_pose))

    @property
    def seen_joints(self) -> tuple[str, ...]:
        """No joints."""
        return ()

    @property
    def position_count(self) -> int:
        """One: the height."""
        return 1

    def position_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the height of the contact point [m]."""
        return (self.touch(*seen).height,)

    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return the slip velocity of the contact point along each direction [m/s]."""
        plane, body = seen
        touch = self.touch(plane, body)
        against = slip(plane, body, touch.lever)
        return tuple(dot(direction, against) for direction in touch.directions)

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Accept any joints: none is used."""

    def renamed(self, prefix: str) -> Self:
        """Return the closure with a prefix before all names but the world's."""
        first, second = (x if x == WORLD else prefix + x for x in (self.first, self.second))
        return self._with(name=prefix + self.name, first=first, second=second)

    def moved(self, ends: Sequence[tuple[str, Pose]]) -> Self:
        """Return the closure with other ends."""
        (first, pose), (second, second_pose) = ends
        return self._with(first=first, pose=pose, second=second, second_pose=second_pose)

    def _with(self, **values: Any) -> Self:
        return type(self)(**{item.name: getattr(self, item.name) for item in fields(self)} | values)


def column(frame: FramePose | FrameMotion, k: int) -> Vec3:
    """Return an axis of a frame in world axes."""
    return (frame.R[0, k], frame.R[1, k], frame.R[2, k])


def slip(plane: FrameMotion, body: FrameMotion, lever: Vec3) -> Vec3:
    """Return the velocity of a body's material point relative to the plane [m/s].

    Args:
        plane: Moves with the plane.
        body: Moves with the body.
        lever: From the origin of the body's frame to the point, world axes [m].
    """
    apart = add(subtract(vec3(body.p, "p"), vec3(plane.p, "p")), lever)
    of_body = add(vec3(body.v, "v"), cross(vec3(body.w, "w"), lever))
    of_plane = add(vec3(plane.v, "v"), cross(vec3(plane.w, "w"), apart))
    return subtract(of_body, of_plane)


@record
class Blade(SurfaceContact):
    """An edge that touches a plane at one point and does not slip sideways there.

    The point is the origin of the second frame, the edge its x axis; it may slide along the edge,
    yaw, roll and pitch. The plane is the xy plane of the first frame. The height and one velocity
    are constrained; in planar robots the height constraint is redundant. An edge normal to the
    plane has no heading and raises an error.

    Example:
        Chaplygin's sleigh: ``Blade("runner", "world", "sleigh")`` on a body with a planar joint
    """

    kind: ClassVar[str] = "blade"

    @property
    def velocity_count(self) -> int:
        """One: lateral."""
        return 1

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        return ("offset along z", "slip across the edge")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the body frame's origin, with the lateral direction."""
        from tiburon.trace.value import require

        normal, edge = column(plane, 2), column(body, 0)
        across = cross(normal, edge)
        square = dot(across, across)
        expected = f"loop {self.name!r}: its edge must lie along the plane, but is normal to it"
        sine = np.sqrt(require(square >= MIN_SQUARED_SINE, square, expected))
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(normal, ZERO3, dot(normal, apart), (scale(across, 1.0 / sine),))


@record
class RollingDisc(SurfaceContact):
    """A thin disc that rolls without slip on a plane and may tilt; contact is at its lowest point.

    Its center is the origin of the second frame. The plane is the xy plane of the first frame. The
    height and two velocities are constrained, longitudinal and lateral; their forces are the
    traction and the lateral force of a wheel. A disc that lies flat has no unique contact point and
    raises an error.

    Example:
        ``RollingDisc("tire", "world", "wheel", radius=0.3, axis=(0, 1, 0))``
    """

    radius: float = field(default=1.0, kw_only=True)
    """Radius [m]."""

    axis: Vec3 = field(default=(0.0, 1.0, 0.0), kw_only=True)
    """Axis of the disc, in the second frame; normalized."""

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
        """Two: longitudinal and lateral."""
        return 2

    @property
    def constraint_labels(self) -> tuple[str, ...]:
        """Labels of the constraints."""
        return ("offset along z", "slip along the heading", "slip across the heading")

    def touch(self, plane: FramePose | FrameMotion, body: FramePose | FrameMotion) -> Touch:
        """Return the contact at the lowest point of the rim.

        With a the axis and z the normal, a x z is the heading of the disc, and the center is radius
        |a x z| above the plane; the lever is the direction of steepest descent in the disc.
        """
        from tiburon.trace.value import require

        z = column(plane, 2)
        x, y, w = self.axis
        a = add(
            add(scale(column(body, 0), x), scale(column(body, 1), y)), scale(column(body, 2), w)
        )
        heading = cross(a, z)
        square = dot(heading, heading)
        expected = f"loop {self.name!r}: its disc must roll on its rim, but lies flat on the plane"
        sine = np.sqrt(require(square >= MIN_SQUARED_SINE, square, expected))
        heading = scale(heading, 1.0 / sine)
        down = cross(a, heading)
        apart = subtract(vec3(body.p, "p"), vec3(plane.p, "p"))
        return Touch(
            z,
            scale(down, self.radius),
            dot(z, apart) - self.radius * sine,
            (heading, cross(z, heading)),
        )
