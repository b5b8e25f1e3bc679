"""The table of shape pairs, and the dimensions of shapes.

A new pair is a new file with one function, and its row here. The table holds each pair in one
order; `pair` exchanges the bodies for the other.
"""

from collections.abc import Callable
from typing import NamedTuple

from tiburon.contact.geometry.box_box import box_box, box_separation
from tiburon.contact.geometry.box_cylinder import box_cylinder
from tiburon.contact.geometry.box_ellipsoid import box_ellipsoid
from tiburon.contact.geometry.box_height_field import (
    box_height_field,
    box_smooth_height_field,
)
from tiburon.contact.geometry.box_plane import box_plane
from tiburon.contact.geometry.capsule_box import capsule_box
from tiburon.contact.geometry.capsule_capsule import capsule_capsule
from tiburon.contact.geometry.capsule_cylinder import capsule_cylinder
from tiburon.contact.geometry.capsule_ellipsoid import capsule_ellipsoid
from tiburon.contact.geometry.capsule_height_field import (
    capsule_height_field,
    capsule_smooth_height_field,
)
from tiburon.contact.geometry.capsule_plane import capsule_plane
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, exchanged
from tiburon.contact.geometry.cylinder_cylinder import cylinder_cylinder
from tiburon.contact.geometry.cylinder_ellipsoid import cylinder_ellipsoid
from tiburon.contact.geometry.cylinder_height_field import (
    cylinder_height_field,
    cylinder_smooth_height_field,
)
from tiburon.contact.geometry.cylinder_plane import cylinder_plane
from tiburon.contact.geometry.ellipsoid_ellipsoid import ellipsoid_ellipsoid
from tiburon.contact.geometry.ellipsoid_height_field import (
    ellipsoid_height_field,
    ellipsoid_smooth_height_field,
)
from tiburon.contact.geometry.ellipsoid_plane import ellipsoid_plane
from tiburon.contact.geometry.hull_hull import (
    HULL_HULL_POINTS,
    ROD_POINTS,
    ball_hull,
    hull_hull,
    rod_hull,
)
from tiburon.contact.geometry.hull_plane import HULL_POINTS, hull_plane
from tiburon.contact.geometry.located import LOCATED, POINTS, located_contacts
from tiburon.contact.geometry.sphere_box import sphere_box
from tiburon.contact.geometry.sphere_capsule import sphere_capsule
from tiburon.contact.geometry.sphere_cylinder import sphere_cylinder
from tiburon.contact.geometry.sphere_ellipsoid import sphere_ellipsoid
from tiburon.contact.geometry.sphere_height_field import (
    foot_height_field,
    foot_smooth_height_field,
    sphere_height_field,
    sphere_smooth_height_field,
)
from tiburon.contact.geometry.sphere_plane import sphere_plane
from tiburon.contact.geometry.sphere_sphere import sphere_sphere
from tiburon.errors import ModelError, OptionError, shown
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    PlaneShape,
    SphereShape,
)
from tiburon.spatial.vec3 import Scalar, Vec3, negate
from tiburon.trace.regions import function

PairFunction = Callable[..., tuple[ContactGeometry, ...]]
"""Geometry of all candidate contacts of two placed shapes; pairs with a height field also take the
`Reach` of their search."""


SeparationFunction = Callable[[Placed, Placed], tuple[Scalar, Vec3]]
"""Distance of two placed shapes or less [m], and its direction from the first to the second."""


class Pair(NamedTuple):
    """The narrow phase of two kinds of shapes."""

    function: PairFunction
    """Returns the candidate contacts of two placed shapes of these kinds."""

    points: int
    """Number of candidate contacts."""

    separation: SeparationFunction | None = None
    """Returns the distance of the shapes and its direction where the contacts of separated shapes
    do not give it; None where the smallest gap does."""


KINDS = (
    "sphere",
    "capsule",
    "box",
    "cylinder",
    "ellipsoid",
    "plane",
    "hull",
    "height field",
    "smooth height field",
    "foot",
    "ball",
    "rod",
)
"""Kinds of shapes; a contact point is a sphere of radius 0. A hull is that of a mesh, or a shape
that touches one; a ball is a sphere and a rod a capsule that do. A foot is a ball that touches
uneven ground in one point."""

HULLS = ("hull", "rod", "ball")
"""Kinds of polyhedra with a radius around them, whose vertices are in a table."""

PAIRS: dict[tuple[str, str], Pair] = {
    ("sphere", "plane"): Pair(sphere_plane, 1),
    ("sphere", "sphere"): Pair(sphere_sphere, 1),
    ("sphere", "capsule"): Pair(sphere_capsule, 1),
    ("sphere", "box"): Pair(sphere_box, 1),
    ("capsule", "plane"): Pair(capsule_plane, 2),
    ("capsule", "capsule"): Pair(function(capsule_capsule), 2),
    ("capsule", "box"): Pair(function(capsule_box), 3),
    ("box", "plane"): Pair(box_plane, 8),
    ("box", "box"): Pair(function(box_box), 8, function(box_separation)),
    ("cylinder", "plane"): Pair(cylinder_plane, 5),
    ("ellipsoid", "plane"): Pair(ellipsoid_plane, 1),
    ("hull", "plane"): Pair(hull_plane, HULL_POINTS),
    ("hull", "hull"): Pair(function(hull_hull), HULL_HULL_POINTS),
    ("rod", "hull"): Pair(function(rod_hull), ROD_POINTS),
    ("ball", "hull"): Pair(function(ball_hull), 1),
    ("sphere", "cylinder"): Pair(sphere_cylinder, 1),
    ("sphere", "ellipsoid"): Pair(function(sphere_ellipsoid), 1),
    ("ellipsoid", "ellipsoid"): Pair(function(ellipsoid_ellipsoid), 1),
    ("capsule", "ellipsoid"): Pair(function(capsule_ellipsoid), 1),
    ("box", "ellipsoid"): Pair(function(box_ellipsoid), 1),
    ("cylinder", "ellipsoid"): Pair(function(cylinder_ellipsoid), 1),
    ("capsule", "cylinder"): Pair(function(capsule_cylinder), 5),
    ("box", "cylinder"): Pair(function(box_cylinder), 8),
    ("cylinder", "cylinder"): Pair(function(cylinder_cylinder), 7),
    ("sphere", "height field"): Pair(function(sphere_height_field), 3),
    ("capsule", "height field"): Pair(function(capsule_height_field), 6),
    ("box", "height field"): Pair(function(box_height_field), 8),
    ("cylinder", "height field"): Pair(function(cylinder_height_field), 8),
    ("ellipsoid", "height field"): Pair(function(ellipsoid_height_field), 8),
    ("sphere", "smooth height field"): Pair(function(sphere_smooth_height_field), 3),
    ("foot", "height field"): Pair(function(foot_height_field), 1),
    ("foot", "smooth height field"): Pair(function(foot_smooth_height_field), 1),
    ("capsule", "smooth height field"): Pair(function(capsule_smooth_height_field), 4),
    ("box", "smooth height field"): Pair(function(box_smooth_height_field), 8),
    ("cylinder", "smooth height field"): Pair(function(cylinder_smooth_height_field), 8),
    ("ellipsoid", "smooth height field"): Pair(function(ellipsoid_smooth_height_field), 4),
}
"""Pairs of kinds with a narrow phase; long ones are regions, which code has once for all pairs."""


LOCATED_PAIR = Pair(function(located_contacts), POINTS)
"""Contacts that are located outside of compiled code, as those of meshes."""


def pair(first: str, second: str, element: str = "contact pair") -> Pair:
    """Return the narrow phase of two kinds of shapes, in this order.

    Args:
        first: Kind of the first shape.
        second: Kind of the second shape.
        element: Leads error messages, such as "contact of 'foot' and 'floor'".

    Raises:
        OptionError: If a kind does not exist.
        ModelError: If the pair has no narrow phase.
    """
    if first == second == LOCATED:
        return LOCATED_PAIR
    for argument, kind in (("first", first), ("second", second)):
        if kind not in KINDS:
            raise OptionError(argument, KINDS, kind)
    found = PAIRS.get((first, second))
    if found is not None:
        return found
    mirrored = MIRRORED.get((first, second))
    if mirrored is None:
        # as users know them
        own = ("foot", "rod", "ball")
        named = {kind: kind for kind in KINDS if kind not in own} | {"hull": "mesh"}
        partners = [
            name
            for kind, name in named.items()
            if (kind, second) in PAIRS or (second, kind) in PAIRS
        ]
        raise ModelError(
            f"{element}: no contact between {first} and {second}; cover the {first} by spheres or "
            f"capsules, leave the pair out, or use one of {', '.join(partners)} against the "
            f"{second}"
        )
    return mirrored


def _mirrored(known: Pair) -> Pair:
    """Return the narrow phase of a pair in the other order."""
    separation = known.separation

    def exchange(one: Placed, other: Placed) -> tuple[ContactGeometry, ...]:
        return tuple(exchanged(contact) for contact in known.function(other, one))

    def apart(one: Placed, other: Placed) -> tuple[Scalar, Vec3]:
        assert separation is not None
        gap, normal = separation(other, one)
        return gap, negate(normal)

    return Pair(exchange, known.points, None if separation is None else apart)


MIRRORED = {(b, a): _mirrored(known) for (a, b), known in PAIRS.items() if a != b}
"""The same pairs in the other order."""


def shape_kind(geometry: Geometry, element: str = "shape") -> str:
    """Return the kind of a geometry, one of `KINDS`.

    Raises:
        ModelError: If the geometry is a mesh.
    """
    return _described(geometry, element)[0]


def shape_size(geometry: Geometry, element: str = "shape") -> tuple[float, ...]:
    """Return the dimensions of a geometry as in `Placed.size` [m].

    Raises:
        ModelError: If the geometry is a mesh.
    """
    return _described(geometry, element)[1]


def _described(geometry: Geometry, element: str) -> tuple[str, tuple[float, ...]]:
    match geometry:
        case SphereShape(radius=r):
            return "sphere", (r,)
        case CapsuleShape(radius=r, length=length):
            return "capsule", (r, length)
        case CylinderShape(radius=r, length=length):
            return "cylinder", (r, length)
        case BoxShape(size=size):
            return "box", size
        case EllipsoidShape(radii=radii):
            return "ellipsoid", radii
        case PlaneShape():
            return "plane", ()
        case MeshShape(path=path):
            raise ModelError(
                f"{element}: contact needs a simple shape, got mesh {path!r}; cover it with "
                "tb.cover_mesh, or all meshes of a robot with tb.cover_meshes"
            )
    raise ModelError(f"{element}: expected a shape such as SphereShape(0.1), got {shown(geometry)}")
