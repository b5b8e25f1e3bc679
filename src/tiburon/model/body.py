"""Bodies, their shapes, frames and contact points."""

from typing import TypeAlias

from tiburon.errors import ModelError, OptionError, shown
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.contact_kinds import ContactBits, ContactMaterial, checked_bits
from tiburon.model.inertia import Inertia
from tiburon.model.joints.joint import Joint
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, check_name, convert, finite_array, number, vec3
from tiburon.record import field, record

ROLES = ("both", "visual", "collision")
"""Roles of a shape."""


@record
class BoxShape:
    """A box centered at the origin."""

    size: Vec3
    """Edge lengths along x, y, z [m]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _positive3(self.size, "box", "size"))


@record
class SphereShape:
    """A sphere centered at the origin.

    Example:
        ``tb.Shape(tb.SphereShape(0.1))``
    """

    radius: float
    """Radius [m]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _positive(self.radius, "sphere", "radius"))


@record
class CylinderShape:
    """A cylinder along z, centered at the origin.

    Example:
        ``tb.Shape(tb.CylinderShape(radius=0.05, length=0.4))``
    """

    radius: float
    """Radius [m]."""

    length: float
    """Length along z [m]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _positive(self.radius, "cylinder", "radius"))
        object.__setattr__(self, "length", _positive(self.length, "cylinder", "length"))


@record
class CapsuleShape:
    """A cylinder along z with hemispherical ends, centered at the origin."""

    radius: float
    """Radius [m]."""

    length: float
    """Length of the cylinder between the centers of the hemispheres [m]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _positive(self.radius, "capsule", "radius"))
        length = number(self.length, "capsule", "length", least=0.0)
        object.__setattr__(self, "length", length)


@record
class EllipsoidShape:
    """An ellipsoid centered at the origin."""

    radii: Vec3
    """Half axes along x, y, z [m]."""

    def __post_init__(self) -> None:
        convert(self, _positive3, "ellipsoid", "radii")


@record
class PlaneShape:
    """The infinite plane z = 0, solid below."""


@record
class MeshShape:
    """A mesh in a file."""

    path: str
    """Path of the file."""

    scale: Vec3 = (1.0, 1.0, 1.0)
    """Factors along x, y, z; a negative one mirrors."""

    convex: bool = False
    """Whether its convex hull touches, as in MJCF, instead of its surface; also that of a mesh that
    is convex to 1e-3 of its size."""

    def __post_init__(self) -> None:
        given: object = self.path
        if not isinstance(given, str) or not given:
            raise ModelError(f"mesh: path must be a non-empty string, got {shown(given)}")
        object.__setattr__(self, "scale", vec3(self.scale, f"mesh {given!r}", "scale"))
        if not all(self.scale):
            raise ModelError(
                f"mesh {given!r}: scale must not be zero, got {self.scale}; use 1 to keep a size"
            )
        is_flag: object = self.convex
        if not isinstance(is_flag, bool):
            raise ModelError(
                f"mesh {given!r}: convex must be True or False, got {shown(is_flag)}; True stands "
                "for the convex hull"
            )


Geometry: TypeAlias = (
    BoxShape | SphereShape | CylinderShape | CapsuleShape | EllipsoidShape | PlaneShape | MeshShape
)


@record
class Shape:
    """A geometry placed on a body; immutable, compares by value.

    Example:
        ``Body("foot", joint=Fixed("weld"), shapes=(Shape(SphereShape(0.02), role="collision"),))``
    """

    geometry: Geometry
    """The geometry."""

    pose: Pose = field(default_factory=Pose)
    """The geometry's own axes in body axes."""

    role: str = "both"
    """Role: "visual", "collision" or "both"."""

    color: tuple[float, float, float, float] | None = None
    """Red, green, blue and opacity, each between 0 and 1."""

    name: str = ""
    """A name, where it has one; need not be unique."""

    material: ContactMaterial | None = None
    """Friction and restitution; those of the other surface where None."""

    contact_bits: ContactBits | None = None
    """Bits of what it is and of what it touches, as MuJoCo's contype and conaffinity: two shapes
    touch if the first of one and the second of the other have a bit in common. None touches all."""

    def __post_init__(self) -> None:
        element = f"shape {self.name!r}" if self.name else "shape"
        parts: list[tuple[str, object, object]] = [
            ("geometry", self.geometry, Geometry),
            ("pose", self.pose, Pose),
            ("name", self.name, str),
            ("material", self.material, ContactMaterial | None),
        ]
        for quantity, given, kind in parts:
            if not isinstance(given, kind):  # type: ignore[arg-type]
                expected = {"geometry": "such as BoxShape((1, 1, 1))", "pose": "a Pose"}
                raise ModelError(
                    f"{element}: {quantity} must be {expected.get(quantity, 'a string')}, "
                    f"got {shown(given)}"
                )
        if self.role not in ROLES:
            raise OptionError("role", ROLES, self.role)
        if self.color is not None:
            r, g, b, a = finite_array(self.color, (4,), element, "color").tolist()
            if not all(0.0 <= x <= 1.0 for x in (r, g, b, a)):
                raise ModelError(
                    f"{element}: color must be four numbers between 0 and 1, got {self.color}; "
                    "divide 8-bit values by 255"
                )
            object.__setattr__(self, "color", (r, g, b, a))
        if self.contact_bits is not None:
            object.__setattr__(self, "contact_bits", checked_bits(self.contact_bits, element))


def _positive(value: object, element: str, quantity: str) -> float:
    x = number(value, element, quantity)
    if x <= 0.0:
        raise ModelError(f"{element}: {quantity} must be positive, got {x:g} m; give a length")
    return x


def _positive3(value: Vec3, element: str, quantity: str) -> Vec3:
    x, y, z = vec3(value, element, quantity)
    if min(x, y, z) <= 0.0:
        raise ModelError(
            f"{element}: {quantity} must be positive, got ({x:g}, {y:g}, {z:g}) m; give lengths"
        )
    return (x, y, z)


WORLD = "world"
"""Name of the inertial frame, parent of every root body."""


@record
class Body:
    """A rigid body and the joint that connects it to its parent; immutable, compares by value.

    The body defines a frame of the same name, in which its inertia and attachments are given.

    Example:
        ``tb.Body("rod", joint=tb.Revolute("hinge"), inertia=tb.Inertia.point(1.0, (0, 0, -0.5)))``
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

    gravity_compensation: float = field(default=0.0, kw_only=True)
    """Part of its weight that is compensated by a force on its center of mass, as by a spring
    balance: 1 for all of it. Data only: dynamics functions do not add this force, simulations do
    with the other passive forces."""

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
        part = number(self.gravity_compensation, element, "gravity_compensation")
        object.__setattr__(self, "gravity_compensation", part)
        check_fluid(self.name, self.fluid)


def check_fluid(body: str, fluid: object) -> None:
    """Raise unless a value can be the hydrodynamic coefficients of a body."""
    if fluid is not None and not isinstance(fluid, BodyFluid):
        raise ModelError(
            f"body {body!r}: fluid must be a BodyFluid, "
            f"got {shown(fluid)}; write BodyFluid(volume=...)",
            name=body,
        )


@record
class Frame:
    """A named frame on a body, such as a tool, sensor or foot; immutable, compares by value.

    Example:
        ``tb.Frame("tool", "hand", tb.Pose(translation=(0, 0, 0.1)))``
    """

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
class ContactPair:
    """Whether two bodies of a model touch, and how; immutable, compares by value.

    Without pairs, bodies of different trees touch each other and the ground; links of one tree do
    not touch each other.
    """

    first: str
    """Name of a body."""

    second: str
    """Name of another body, or "world" for the ground."""

    touches: bool = True
    """Whether they touch; False leaves the pair out."""

    material: ContactMaterial | None = None
    """Friction and restitution between them, instead of those of their surfaces."""

    def __post_init__(self) -> None:
        check_name(self.first, "contact pair: first")
        check_name(self.second, "contact pair: second")
        element = f"contact pair {self.name!r}"
        if self.first == self.second:
            raise ModelError(
                f"{element}: expected two bodies, got {self.first!r} twice; name another body"
            )
        if not isinstance(self.touches, bool):
            raise ModelError(f"{element}: touches must be True or False, got {shown(self.touches)}")
        if not isinstance(self.material, ContactMaterial | None):
            raise ModelError(
                f"{element}: material must be a ContactMaterial, got {shown(self.material)}; write "
                "ContactMaterial(static_friction=0.8)"
            )

    @property
    def name(self) -> str:
        """Both names, for messages."""
        return f"{self.first}/{self.second}"


@record
class ContactPoint:
    """A point or ball of a body that may touch the ground; immutable, compares by value."""

    name: str
    """Unique among the contact points of a model."""

    body: str
    """Name of the body or frame it is fixed to."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Position in axes of that body or frame [m]."""

    radius: float = 0.0
    """Radius of the contact sphere around it [m]; 0 for a point."""

    material: ContactMaterial | None = None
    """Friction and restitution; those of the ground where None."""

    def __post_init__(self) -> None:
        check_name(self.name, "contact")
        element = f"contact {self.name!r}"
        check_name(self.body, f"{element}: body")
        convert(self, vec3, element, "position", name=self.name)
        convert(self, number, element, "radius", name=self.name, least=0.0)
        if not isinstance(self.material, ContactMaterial | None):
            raise ModelError(
                f"{element}: material must be a ContactMaterial, got {shown(self.material)}; write "
                "ContactMaterial(static_friction=0.8)",
                name=self.name,
            )
