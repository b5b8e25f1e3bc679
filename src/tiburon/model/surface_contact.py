"""What touches a plane at one point and binds velocities there: blades and rolling discs.

The plane is the xy plane of a frame on the first place, its z axis the normal on the side of the
body. Both places may move. A height binds positions; directions in the plane bind the velocity of
the body's material at the point of contact, against the plane's (Featherstone 1987, section 7.4.4).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, Self

from tiburon.errors import ModelError, shown
from tiburon.model.body import WORLD
from tiburon.model.joints.joint import Joint
from tiburon.model.numbers import check_places
from tiburon.model.pose import Pose
from tiburon.model.traced_closure import FrameMotion, FramePose, TracedClosure
from tiburon.record import field, record
from tiburon.spatial import Scalar, Vec3
from tiburon.spatial.vec3 import add, cross, dot, subtract, vec3

__all__ = ["SurfaceContact", "Touch", "column", "slip"]

FLAT = 1e-6
"""Squared sine between a direction and the normal below which the plane gives it no direction."""


class Touch(NamedTuple):
    """Where and how a body touches a plane, world axes."""

    normal: Vec3
    """Of the plane, toward the body."""

    lever: Vec3
    """From the origin of the body's frame to the point of contact [m]."""

    height: Scalar
    """How far the point of contact is above the plane [m]."""

    directions: tuple[Vec3, ...]
    """In the plane, along which there is no slip."""


@record
class SurfaceContact(TracedClosure):
    """A body that touches a plane at one point without slip along some directions."""

    name: str
    """Unique among the closures of a model."""

    first: str
    """Name of a body or frame, or "world": it bears the plane."""

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
        """Return where and how the body touches the plane."""

    @property
    def ends(self) -> tuple[tuple[str, Pose], ...]:
        """The plane, and the frame that touches it."""
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
        """Return the height of the point of contact [m]."""
        return (self.touch(*seen).height,)

    def velocity_residuals(self, *seen: Any) -> Sequence[Any]:
        """Return how fast the point of contact slips along each direction [m/s]."""
        plane, body = seen
        touch = self.touch(plane, body)
        against = slip(plane, body, touch.lever)
        return tuple(dot(direction, against) for direction in touch.directions)

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Accept any joints: none is looked at."""

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
    """Return the velocity of a body's material at a point, against the plane's there [m/s].

    Args:
        plane: Moves with the plane.
        body: Moves with the body.
        lever: From the origin of the body's frame to the point, world axes [m].
    """
    apart = add(subtract(vec3(body.p, "p"), vec3(plane.p, "p")), lever)
    of_body = add(vec3(body.v, "v"), cross(vec3(body.w, "w"), lever))
    of_plane = add(vec3(plane.v, "v"), cross(vec3(plane.w, "w"), apart))
    return subtract(of_body, of_plane)
