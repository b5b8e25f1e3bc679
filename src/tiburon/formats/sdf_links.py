"""Links of SDF files: mass, added mass, shapes."""

import math
from collections.abc import Callable

import numpy as np

from tiburon.errors import ModelError
from tiburon.formats.findings import Findings
from tiburon.formats.limits import Budget
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.sdf_frames import read_pose
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.added_mass import added_mass_from
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.inertia import Inertia
from tiburon.model.pose import Pose
from tiburon.model.shape import (
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
