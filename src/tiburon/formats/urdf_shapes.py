"""Visual and collision geometry of URDF files."""

from collections.abc import Mapping
from typing import TypeAlias

from tiburon.errors import ModelError
from tiburon.formats.lenient import Findings
from tiburon.formats.limits import Budget
from tiburon.formats.mesh_paths import MeshPaths
from tiburon.formats.urdf_joints import read_origin
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    MeshShape,
    Shape,
    SphereShape,
)

Color: TypeAlias = tuple[float, float, float, float]


def read_colors(robot: XmlElement, findings: Findings) -> dict[str, Color]:
    """Return the colors of all named materials, wherever they are defined."""
    colors: dict[str, Color] = {}
    visuals = (v for link in robot.all("link") for v in link.all("visual"))
    for holder in (robot, *visuals):
        for material in holder.all("material"):
            color = _read_color(material, findings)
            name = material.attributes.get("name", "")
            if color is not None and name:
                colors.setdefault(name, color)
    return colors


def read_shapes(
    link: XmlElement,
    colors: Mapping[str, Color],
    meshes: MeshPaths,
    budget: Budget,
    findings: Findings,
) -> tuple[Shape, ...]:
    """Return the shapes of a link in the order of the file.

    Args:
        link: The <link>.
        colors: Colors by the name of the material.
        meshes: Finds mesh files.
        budget: Clock.
        findings: Collects what could not be taken over.
    """
    shapes: list[Shape] = []
    for element in link.children:
        if element.tag not in ("visual", "collision"):
            continue
        budget.check_time()
        holder = element.find("geometry")
        if holder is None or not holder.children:
            findings.add(f"{link.describe()}: a {element.tag} without geometry", element.line)
            continue
        name = element.attributes.get("name", "")
        color = _color_of(element, colors, findings) if element.tag == "visual" else None
        pose = read_origin(element)
        solid = holder.children[0]
        path = meshes.find(solid.attribute("filename"), solid) if solid.tag == "mesh" else ""
        try:
            geometry = _read_geometry(solid, path)
            if geometry is None:
                findings.add(
                    f"{link.describe()}: the geometry <{solid.tag}> is not known and was left out",
                    solid.line,
                )
                continue
            shapes.append(Shape(geometry, pose, element.tag, color, name))
        except ModelError as error:
            # what a robot looks like must not keep it from moving
            if error.__class__ is not ModelError:
                raise
            findings.add(f"{link.describe()}: {error}; the shape was left out", solid.line)
    return tuple(shapes)


def _read_geometry(solid: XmlElement, path: str) -> Geometry | None:
    """Return a geometry, or None if it is of no known kind."""
    if solid.tag == "mesh":
        scale = solid.numbers("scale", 3)
        return MeshShape(path) if scale is None else MeshShape(path, (scale[0], scale[1], scale[2]))
    if solid.tag == "box":
        x, y, z = solid.parse(solid.attribute("size"), 3, "size")
        return BoxShape((x, y, z))
    if solid.tag == "sphere":
        return SphereShape(solid.number("radius"))
    if solid.tag in ("cylinder", "capsule"):
        kind = CylinderShape if solid.tag == "cylinder" else CapsuleShape
        return kind(solid.number("radius"), solid.number("length"))
    return None


def _color_of(visual: XmlElement, colors: Mapping[str, Color], findings: Findings) -> Color | None:
    material = visual.find("material")
    if material is None:
        return None
    own = material.find("color")
    if own is not None:
        return _read_color(material, findings)
    return colors.get(material.attributes.get("name", ""))


def _read_color(material: XmlElement, findings: Findings) -> Color | None:
    """Return the color of a material, each part brought between 0 and 1."""
    element = material.find("color")
    numbers = None if element is None else element.numbers("rgba", 4)
    if numbers is None:
        return None
    if all(0.0 <= x <= 1.0 for x in numbers):
        r, g, b, a = numbers
    else:
        findings.add(
            f"{material.describe()}: colors must lie between 0 and 1, got {numbers}; they were "
            "brought there",
            material.line,
        )
        r, g, b, a = (min(max(x, 0.0), 1.0) for x in numbers)
    return (r, g, b, a)
