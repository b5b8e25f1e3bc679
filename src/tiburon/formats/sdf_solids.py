"""Inertia from the collision shapes of a link, where an SDF file leaves it to be computed."""

import math

import numpy as np

from tiburon.formats.findings import Findings
from tiburon.formats.sdf_links import value_of
from tiburon.formats.xml_tree import XmlElement
from tiburon.model.inertia import Inertia
from tiburon.model.shape import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    Shape,
    SphereShape,
)

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
