"""Bodies, frames and contact points of a robot."""

from tiburon.errors import ModelError, shown
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.inertia import Inertia
from tiburon.model.joints.joint import Joint
from tiburon.model.pose import Pose
from tiburon.model.shape import Shape
from tiburon.model.value_checks import Vec3, check_name, number, vec3
from tiburon.record import field, record

WORLD = "world"
"""Name of the inertial frame, parent of every root body."""


@record
class Body:
    """A rigid body and the joint that connects it to its parent; immutable, compares by value.

    The body defines a frame of the same name, in which its inertia and attachments are given.
    """

    name: str
    """Unique among bodies and frames."""

    parent: str = WORLD
    """Name of the body that carries the joint, or "world"."""

    joint: Joint = field(kw_only=True)
    """Motion of the body relative to its parent."""

    inertia: Inertia = field(default_factory=Inertia, kw_only=True)
    """Mass, center of mass and inertia tensor in body axes; massless by default."""

    shapes: tuple[Shape, ...] = field(default=(), kw_only=True)
    """Visual and collision shapes."""

    fluid: BodyFluid | None = field(default=None, kw_only=True)
    """Hydrodynamic coefficients; None if water does not act on it."""

    def __post_init__(self) -> None:
        check_name(self.name, "body")
        element = f"body {self.name!r}"
        if self.name == WORLD:
            raise ModelError(
                f"{element}: this name is reserved for the world frame; choose another",
                name=self.name,
            )
        if not isinstance(self.parent, str):
            raise ModelError(
                f"{element}: parent must be the name of a body, got {shown(self.parent)}; "
                "pass the name itself",
                name=self.name,
            )
        if not isinstance(self.joint, Joint):
            raise ModelError(
                f"{element}: joint must be a joint such as Revolute or Fixed, "
                f"got {shown(self.joint)}",
                name=self.name,
            )
        if not isinstance(self.inertia, Inertia):
            raise ModelError(
                f"{element}: inertia must be an Inertia, got {shown(self.inertia)}; "
                "write Inertia(mass=..., com=..., tensor=...)",
                name=self.name,
            )
        self.inertia.check(self.name)
        shapes: object = self.shapes
        if not isinstance(shapes, (tuple, list)) or not all(isinstance(s, Shape) for s in shapes):
            raise ModelError(
                f"{element}: shapes must be a tuple of Shape, got {shown(shapes)}; write "
                "(Shape(BoxShape((x, y, z))),)",
                name=self.name,
            )
        object.__setattr__(self, "shapes", tuple(shapes))
        fluid: object = self.fluid
        if fluid is not None and not isinstance(fluid, BodyFluid):
            raise ModelError(
                f"{element}: fluid must be a BodyFluid, "
                f"got {shown(fluid)}; write BodyFluid(volume=...)",
                name=self.name,
            )


@record
class Frame:
    """A named frame on a body, such as a tool, sensor or foot; immutable, compares by value."""

    name: str
    """Unique among bodies and frames."""

    body: str
    """Name of the body it is fixed to, or "world"."""

    pose: Pose = field(default_factory=Pose)
    """The frame in body axes."""

    def __post_init__(self) -> None:
        check_name(self.name, "frame")
        element = f"frame {self.name!r}"
        if not isinstance(self.body, str):
            raise ModelError(
                f"{element}: body must be the name of a body, got {shown(self.body)}; "
                "pass the name itself",
                name=self.name,
            )
        if not isinstance(self.pose, Pose):
            raise ModelError(
                f"{element}: pose must be a Pose, got {shown(self.pose)}; "
                "write Pose(translation=(x, y, z)) or Pose.from_rpy(...)",
                name=self.name,
            )


@record
class ContactPoint:
    """A point of a body that may touch its environment; immutable, compares by value.

    Data only: no contact law acts yet.
    """

    name: str
    """Unique among the contact points of a model."""

    body: str
    """Name of the body or frame it is fixed to."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Position in axes of that body or frame [m]."""

    radius: float = 0.0
    """Radius of the contact sphere around it [m]; 0 for a point."""

    def __post_init__(self) -> None:
        check_name(self.name, "contact")
        element = f"contact {self.name!r}"
        check_name(self.body, f"{element}: body")
        object.__setattr__(self, "position", vec3(self.position, element, "position", self.name))
        radius = number(self.radius, element, "radius", self.name, least=0.0)
        object.__setattr__(self, "radius", radius)
