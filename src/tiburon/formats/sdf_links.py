"""Links of SDF files: mass, added mass, shapes, and inertia computed from collision shapes."""

import math
from collections.abc import Callable

import numpy as np

from tiburon.errors import ModelError
from tiburon.formats.lenient import Findings
from tiburon.formats.limits import Budget
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.sdf_frames import read_pose
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    PlaneShape,
    Shape,
    SphereShape,
)
from tiburon.model.body_fluid import BodyFluid, added_mass_from
from tiburon.model.inertia import Inertia
from tiburon.model.pose import Pose

ADDED_MASS = (
    *("xx", "xy", "xz", "xp", "xq", "xr"),
    *("yy", "yz", "yp", "yq", "yr"),
    *("zz", "zp", "zq", "zr"),
    *("pp", "pq", "pr"),
    *("qq", "qr"),
    "rr",
)
"""Entries of <fluid_added_mass>, the upper triangle row by row, linear motion (x, y, z) before
turning (p, q, r)."""


def value_of(element: XmlElement | None, tag: str, default: float) -> float:
    """Return the number inside a child element, or the format's default."""
    child = None if element is None else element.find(tag)
    if child is None or not child.text.strip():
        return default
    (value,) = child.parse(child.text, 1, tag)
    return value


def read_inertia(link: XmlElement, findings: Findings) -> Inertia:
    """Return the inertia of a link in link axes; 1 kg and 1 kg m^2 where it says nothing.

    That is the format's own default, and what simulators take.
    """
    inertial = link.find("inertial")
    if inertial is None:
        findings.add(
            f"{link.describe()}: no <inertial>, so the format's default of 1 kg and 1 kg m^2 holds",
            link.line,
        )
    entries = None if inertial is None else inertial.find("inertia")
    xx, yy, zz = (value_of(entries, tag, 1.0) for tag in ("ixx", "iyy", "izz"))
    xy, xz, yz = (value_of(entries, tag, 0.0) for tag in ("ixy", "ixz", "iyz"))
    inertia = Inertia(value_of(inertial, "mass", 1.0), tensor=(xx, xy, xz, yy, yz, zz))
    pose = read_pose(inertial)
    return inertia if pose == Pose() else inertia.moved(pose)


def is_automatic(link: XmlElement) -> bool:
    """Return whether a link's inertia is left to be computed from its collision shapes."""
    inertial = link.find("inertial")
    return inertial is not None and inertial.attributes.get("auto", "").strip() in ("true", "1")


def read_fluid(link: XmlElement) -> BodyFluid | None:
    """Return the added mass of a link, if it has any.

    The file gives 21 numbers in the axes of the inertial frame, about the center of mass, linear
    motion first; `added_mass_from` brings them to our order and about the link's origin.
    """
    inertial = link.find("inertial")
    added = None if inertial is None else inertial.find("fluid_added_mass")
    if added is None:
        return None
    numbers = [value_of(added, tag, 0.0) for tag in ADDED_MASS]
    if not any(numbers):
        return None
    pose = read_pose(inertial)
    try:
        matrix = added_mass_from(numbers, order="linear-first")
        # inertial axes to link axes, for turning and linear motion alike
        R = np.kron(np.eye(2), np.array(pose.rotation))
        matrix = added_mass_from(R @ matrix @ R.T, about=pose.translation, symmetrize=True)
        rows = tuple(map(tuple, matrix.tolist()))
        # the file names no density: simulators take the matrix as it stands in any fluid
        return BodyFluid(added_mass=rows, reference_density=None)
    except ModelError as error:
        added.blame(error)


def read_shapes(
    link: XmlElement,
    meshes: MeshPaths,
    place: Callable[[XmlElement], Pose],
    budget: Budget,
    findings: Findings,
) -> tuple[Shape, ...]:
    """Return the shapes of a link in the order of the file.

    Args:
        link: The <link>.
        meshes: Finds mesh files.
        place: Gives the pose of a <visual> or <collision> in the link.
        budget: Clock.
        findings: Collects what could not be taken over.
    """
    shapes: list[Shape] = []
    for element in link.children:
        if element.tag not in ("visual", "collision"):
            continue
        budget.check_time()
        holder = element.find("geometry")
        solid = holder.children[0] if holder is not None and holder.children else None
        if solid is None or solid.tag == "empty":
            continue
        path = ""
        if solid.tag == "mesh":
            path = meshes.find(solid.need("uri").text.strip(), solid)
        pose = place(element)
        if solid.tag == "plane":
            pose = pose @ _upright(_vector(solid, "normal", "0 0 1"), solid)
        name = element.attributes.get("name", "")
        try:
            geometry = _read_geometry(solid, path)
            if geometry is None:
                findings.add(
                    f"{link.describe()}: the geometry <{solid.tag}> is not known and was left out",
                    solid.line,
                )
                continue
            color = _read_color(element) if element.tag == "visual" else None
            shapes.append(Shape(geometry, pose, element.tag, color, name))
        except ModelError as error:
            if error.__class__ is not ModelError:
                raise
            findings.add(f"{link.describe()}: {error}; the shape was left out", solid.line)
    return tuple(shapes)


def _vector(element: XmlElement, tag: str, default: str) -> tuple[float, float, float]:
    child = element.find(tag)
    text = default if child is None or not child.text.strip() else child.text
    x, y, z = (child or element).parse(text, 3, tag)
    return (x, y, z)


def _upright(normal: tuple[float, float, float], solid: XmlElement) -> Pose:
    """Return the turn that brings z to a normal of any length but zero."""
    x, y, z = normal
    if not any(normal):
        solid.fail("normal must have a direction, got 0 0 0; say which way the plane faces")
    across = math.hypot(x, y)
    if across == 0.0:
        return Pose() if z >= 0.0 else Pose.from_axis_angle((1.0, 0.0, 0.0), math.pi)
    return Pose.from_axis_angle((-y, x, 0.0), math.atan2(across, z))


def _read_geometry(solid: XmlElement, path: str) -> Geometry | None:
    """Return a geometry, or None if it is of no known kind."""
    if solid.tag == "mesh":
        return MeshShape(path, _vector(solid, "scale", "1 1 1"))
    if solid.tag == "box":
        return BoxShape(_vector(solid, "size", "1 1 1"))
    if solid.tag == "ellipsoid":
        return EllipsoidShape(_vector(solid, "radii", "1 1 1"))
    if solid.tag == "plane":
        return PlaneShape()
    if solid.tag == "sphere":
        return SphereShape(value_of(solid, "radius", 1.0))
    if solid.tag in ("cylinder", "capsule"):
        kind = CylinderShape if solid.tag == "cylinder" else CapsuleShape
        return kind(value_of(solid, "radius", 1.0), value_of(solid, "length", 1.0))
    return None


def _read_color(visual: XmlElement) -> tuple[float, float, float, float] | None:
    """Return the color of a visual: its diffuse, else its ambient one."""
    material = visual.find("material")
    if material is None:
        return None
    for tag in ("diffuse", "ambient"):
        child = material.find(tag)
        if child is not None and child.text.strip():
            numbers = child.text.split()
            text = child.text if len(numbers) != 3 else f"{child.text} 1"
            r, g, b, a = (min(max(x, 0.0), 1.0) for x in child.parse(text, 4, tag))
            return (r, g, b, a)
    return None


WATER = 1000.0
"""Density where the file gives none [kg/m^3]: that of water, the format's own default."""


def solid_inertia(link: XmlElement, shapes: tuple[Shape, ...], findings: Findings) -> Inertia:
    """Return the inertia of a link's collision shapes, each solid and of one density.

    Shapes count where they overlap, too, as the format means it. The density of a collision comes
    before that of the link.

    Args:
        link: The <link>, whose <inertial> is automatic.
        shapes: Its shapes in the order of the file.
        findings: Collects what has no volume to count.
    """
    common = value_of(link.find("inertial"), "density", WATER)
    given = {
        collision.attributes.get("name", ""): value_of(collision, "density", common)
        for collision in link.all("collision")
    }
    parts: list[Inertia] = []
    for shape in shapes:
        if shape.role != "collision":
            continue
        solid = _solid(shape.geometry, given[shape.name])
        if solid is None:
            kind = type(shape.geometry).__name__.removesuffix("Shape").lower()
            findings.add(
                f"{link.describe()}: the volume of its {kind} is not known and counts nothing in "
                "its inertia",
                link.line,
            )
            continue
        parts.append(solid.moved(shape.pose))
    return joined(parts)


def joined(parts: list[Inertia]) -> Inertia:
    """Return the inertia of rigid parts together, all given in the same axes."""
    mass = sum(part.mass for part in parts)
    if mass == 0.0:
        return Inertia()
    com = np.sum([part.mass * np.array(part.com) for part in parts], axis=0) / mass
    total = np.zeros((3, 3))
    for part in parts:
        r = np.array(part.com) - com
        # the theorem of parallel axes
        total += part.matrix + part.mass * (r @ r * np.eye(3) - np.outer(r, r))
    xx, xy, xz, yy, yz, zz = total[np.triu_indices(3)].tolist()
    x, y, z = com.tolist()
    return Inertia(mass, (x, y, z), (xx, xy, xz, yy, yz, zz))


def _solid(geometry: Geometry, density: float) -> Inertia | None:
    """Return the inertia of a solid about its own origin; None if it has no known volume."""
    if isinstance(geometry, BoxShape):
        x, y, z = geometry.size
        return Inertia.box(density * x * y * z, geometry.size)
    if isinstance(geometry, SphereShape):
        r = geometry.radius
        return Inertia.sphere(density * 4.0 / 3.0 * math.pi * r**3, r)
    if isinstance(geometry, EllipsoidShape):
        a, b, c = geometry.radii
        m = density * 4.0 / 3.0 * math.pi * a * b * c
        xx, yy, zz = (0.2 * m * (p * p + q * q) for p, q in ((b, c), (a, c), (a, b)))
        return Inertia(m, tensor=(xx, 0.0, 0.0, yy, 0.0, zz))
    if isinstance(geometry, CylinderShape):
        r, length = geometry.radius, geometry.length
        return Inertia.cylinder(density * math.pi * r * r * length, r, length)
    if isinstance(geometry, CapsuleShape):
        return _capsule(geometry.radius, geometry.length, density)
    return None


def _capsule(r: float, length: float, density: float) -> Inertia:
    """Return the inertia of a cylinder with half balls on its ends."""
    tube = Inertia.cylinder(density * math.pi * r * r * length, r, length) if length else Inertia()
    ball = density * 4.0 / 3.0 * math.pi * r**3
    # a half ball: 2/5 m r^2 about the axis; its center of mass 3/8 r above its flat side
    reach = 0.5 * length
    across = ball * (0.4 * r * r + 0.75 * r * reach + reach * reach)
    along = 0.4 * ball * r * r
    xx, _, _, yy, _, zz = tube.tensor
    return Inertia(tube.mass + ball, tensor=(xx + across, 0.0, 0.0, yy + across, 0.0, zz + along))
