"""Water numbers of simple shapes: volume, center of buoyancy, added mass, drag.

Each number says how good it is: exact (potential flow or geometry), computed (potential flow around
the panels of a mesh, with its error told), fitted (to tables of measured or computed values, named
here), or guessed (the nearest shape that is known).

Tables: DNV-RP-H103 (2011), appendix A, tables A-2: added mass of circular cylinders across their
axis, of rectangular plates, and of square prisms along theirs. Drag coefficients: Hoerner,
Fluid-Dynamic Drag (1965), chapters 3; below the critical Reynolds number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import ModelError, shown
from tiburon.hydro.ellipsoid import ellipsoid_added_mass
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    Shape,
    SphereShape,
)
from tiburon.model.body_fluid import (
    BodyFluid,
    BoxDrag,
    CylinderDrag,
    Drag,
    EllipsoidDrag,
    SphereDrag,
)
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, matrix6, positive_density

__all__ = ["HydrodynamicEstimate", "estimate_hydrodynamics"]

QUALITIES = ("exact", "computed", "fitted", "guessed")
"""From the best to the worst."""

CYLINDER_LENGTHS = (0.0, 1.2, 2.5, 5.0, 9.0, 1e3)
"""Length of a cylinder by its diameter, for the next table."""

CYLINDER_ACROSS = (0.0, 0.62, 0.78, 0.90, 0.96, 1.0)
"""Added mass across the axis by the mass displaced; nothing for a disk, one without end."""

PLATE_RATIOS = (1.0, 1.25, 1.59, 2.0, 2.5, 3.17, 4.0, 5.0, 6.25, 8.0, 10.0, 1e3)
"""Longer by shorter side of a rectangular plate, for the next table."""

PLATE_ACROSS = (
    *(0.579, 0.642, 0.704, 0.757, 0.801, 0.840, 0.872, 0.897, 0.917, 0.934, 0.947),
    1.0,
)
"""Added mass across a plate by that of water in a cylinder around its longer side."""

PRISM_LENGTHS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0)
"""Length of a square prism by its side, for the next table."""

PRISM_ALONG = (0.579 * math.pi / 4.0, 0.68, 0.72, 0.72, 0.76, 0.75, 0.78, 0.77, 0.80)
"""Added mass along the prism by that of water in a cube of its side; a plate without length."""

SPHERE_DRAG, CYLINDER_SIDE_DRAG, CYLINDER_END_DRAG, BOX_DRAG = 0.47, 1.1, 0.85, 1.1
"""Drag coefficients below the critical Reynolds number."""


class _Solid(NamedTuple):
    """Water numbers of a solid around its own middle, along its own axes."""

    volume: float
    moments: Vec3
    """Added moments of inertia [kg m^2]."""

    masses: Vec3
    """Added masses [kg]."""

    added_quality: str
    drag: tuple[Drag, ...]
    drag_quality: str

    @property
    def turning_quality(self) -> str:
        """How good the added moments are: tables are of straight motion only."""
        return "guessed" if self.added_quality == "fitted" else self.added_quality


class _Part(NamedTuple):
    """Water numbers of one shape in its own axes, about its own origin."""

    volume: float
    center: NDArray[np.float64]
    added: NDArray[np.float64]
    drag: tuple[Drag, ...]
    quality: dict[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class HydrodynamicEstimate:
    """Water numbers of a body, and how good they are."""

    fluid: BodyFluid
    """The numbers."""

    quality: dict[str, str] = field(default_factory=dict)
    """By name of the number ("volume", "added_mass", "added_moments", "drag"): "exact", "computed",
    "fitted" or "guessed"."""

    remarks: tuple[str, ...] = ()
    """How numbers of meshes came about, and what had to be mended, in sentences."""


@public
def estimate_hydrodynamics(
    shapes: Sequence[Shape] | Shape, density: float = 1025.0, *, panels: int = 1000
) -> HydrodynamicEstimate:
    """Find the water numbers of a body made of simple shapes, or of watertight meshes.

    Shapes are taken to be apart: where they overlap, or shield each other, the sum is too large and
    the quality drops to "guessed".

    Args:
        shapes: One or several, in body axes; collision shapes where there are any, else visual
            ones.
        density: Of the water [kg/m^3], positive: the reference density of the estimate.
        panels: How many to use for the added mass of a mesh, 20 to 4000.

    Raises:
        ModelError: If a shape has no volume that is known here, or a mesh is not watertight.
    """
    density = positive_density(density, "water numbers")
    shapes = (shapes,) if isinstance(shapes, Shape) else tuple(shapes)
    if not shapes:
        raise ModelError("water numbers: expected at least one shape, got none; add shapes=(...)")
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise ModelError(
                f"water numbers: expected shapes, got {shown(shape)}; write Shape(...)"
            )
    total = np.zeros((6, 6))
    volume, moment = 0.0, np.zeros(3)
    drag: list[Drag] = []
    quality = dict.fromkeys(("volume", "added_mass", "added_moments", "drag"), "exact")
    remarks: list[str] = []
    for shape in shapes:
        R, p = np.array(shape.pose.rotation), np.array(shape.pose.translation)
        part = _part(shape.geometry, density, panels)
        total += _about_origin(part.added, R, p)
        volume += part.volume
        moment += part.volume * (R @ part.center + p)
        drag.extend(_placed(d, shape.pose) for d in part.drag)
        remarks.extend(part.remarks)
        for name, found in part.quality.items():
            quality[name] = max(quality[name], found, key=QUALITIES.index)
    if len(shapes) > 1:
        quality = dict.fromkeys(quality, "guessed")
    fluid = BodyFluid(
        volume=volume,
        center_of_buoyancy=tuple((moment / volume).tolist()),
        added_mass=matrix6(0.5 * (total + total.T), "water numbers", "added_mass"),
        drag=tuple(drag),
        reference_density=density,
    )
    return HydrodynamicEstimate(fluid, quality, tuple(remarks))


def _part(geometry: Geometry, density: float, panels: int) -> _Part:
    """Return the water numbers of one shape in its own axes."""
    if isinstance(geometry, MeshShape):
        # most robots have none, and panels need more modules than all other shapes
        from tiburon.hydro.mesh_coefficients import mesh_water

        mesh = mesh_water(geometry, density, (BOX_DRAG, SPHERE_DRAG), panels)
        quality = {
            "volume": mesh.volume_quality,
            "added_mass": mesh.added_quality,
            "added_moments": mesh.turning_quality,
            "drag": "guessed",
        }
        center, drag = np.array(mesh.center), (mesh.drag,)
        return _Part(mesh.volume, center, mesh.added, drag, quality, (mesh.remark,))
    solid = _solid(geometry, density)
    quality = {
        "added_mass": solid.added_quality,
        "added_moments": solid.turning_quality,
        "drag": solid.drag_quality,
    }
    added = np.diag([*solid.moments, *solid.masses])
    return _Part(solid.volume, np.zeros(3), added, solid.drag, quality)


def _about_origin(
    added: NDArray[np.float64], R: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the added mass of a solid at a place, angular first, about the body origin."""
    x, y, z = p
    to_middle = np.eye(6)
    to_middle[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    both = np.zeros((6, 6))
    both[:3, :3] = both[3:, 3:] = R
    result: NDArray[np.float64] = to_middle.T @ both @ added @ both.T @ to_middle
    return result


def _placed(drag: Drag, pose: Pose) -> Drag:
    """Move a shape of drag from its own axes into body axes."""
    R, p = np.array(pose.rotation), np.array(pose.translation)
    if isinstance(drag, SphereDrag):
        return replace(drag, center=tuple((R @ drag.center + p).tolist()))
    if isinstance(drag, CylinderDrag):
        start, axis = R @ drag.start + p, R @ drag.axis
        return replace(drag, start=tuple(start.tolist()), axis=tuple(axis.tolist()))
    return replace(drag, pose=pose @ drag.pose)


def _solid(geometry: Geometry, density: float) -> _Solid:
    if isinstance(geometry, SphereShape):
        r = geometry.radius
        moments, masses = ellipsoid_added_mass((r, r, r), density)
        drag = SphereDrag(r, SPHERE_DRAG)
        return _Solid(4 / 3 * math.pi * r**3, moments, masses, "exact", (drag,), "fitted")
    if isinstance(geometry, EllipsoidShape):
        a, b, c = geometry.radii
        moments, masses = ellipsoid_added_mass((a, b, c), density)
        coefficients = (SPHERE_DRAG,) * 3
        shape = EllipsoidDrag((a, b, c), coefficients)
        quality = "fitted" if max(a, b, c) < 1.5 * min(a, b, c) else "guessed"
        return _Solid(4 / 3 * math.pi * a * b * c, moments, masses, "exact", (shape,), quality)
    if isinstance(geometry, CylinderShape):
        return _cylinder(geometry.radius, geometry.length, density)
    if isinstance(geometry, CapsuleShape):
        return _capsule(geometry.radius, geometry.length, density)
    if isinstance(geometry, BoxShape):
        return _box(geometry.size, density)
    raise ModelError(
        "water numbers: expected a box, ball, cylinder, capsule, ellipsoid or mesh, got "
        f"{geometry!r}; give the body a simple shape, or its water numbers"
    )


def _cylinder(r: float, length: float, density: float) -> _Solid:
    """A cylinder along z: tables across the axis, a disk along it."""
    volume = math.pi * r * r * length
    share = float(np.interp(length / (2 * r), CYLINDER_LENGTHS, CYLINDER_ACROSS))
    across = share * density * volume
    # the water before and behind a disk (Lamb, art. 102); a longer body carries hardly more
    along = 8.0 / 3.0 * density * r**3
    # strips for the side, the disk for the ends
    turning = across * length**2 / 12.0 + 16.0 / 45.0 * density * r**5
    drag = CylinderDrag(
        r,
        length,
        start=(0.0, 0.0, -0.5 * length),
        axis=(0.0, 0.0, 1.0),
        side_coefficient=CYLINDER_SIDE_DRAG,
        end_coefficients=(CYLINDER_END_DRAG, CYLINDER_END_DRAG),
    )
    moments, masses = (turning, turning, 0.0), (across, across, along)
    return _Solid(volume, moments, masses, "fitted", (drag,), "fitted")


def _capsule(r: float, length: float, density: float) -> _Solid:
    """A capsule along z, taken as the spheroid of its length and volume."""
    volume = math.pi * r * r * length + 4.0 / 3.0 * math.pi * r**3
    half = 0.5 * length + r
    # the spheroid that is as long and displaces as much
    wide = math.sqrt(volume / (4.0 / 3.0 * math.pi * half))
    moments, masses = ellipsoid_added_mass((wide, wide, half), density)
    drag = CylinderDrag(
        r,
        2.0 * half,
        start=(0.0, 0.0, -half),
        axis=(0.0, 0.0, 1.0),
        side_coefficient=CYLINDER_SIDE_DRAG,
        end_coefficients=(0.5 * SPHERE_DRAG, 0.5 * SPHERE_DRAG),
    )
    quality = "exact" if length == 0.0 else "guessed"
    return _Solid(volume, moments, masses, quality, (drag,), "guessed")


def _box(size: Vec3, density: float) -> _Solid:
    """A box: tables of square prisms and plates along its axes; turning as its ellipsoid."""
    masses = []
    for k in range(3):
        sides = sorted((size[(k + 1) % 3], size[(k + 2) % 3]))
        side = math.sqrt(sides[0] * sides[1])
        along = float(np.interp(size[k] / side, PRISM_LENGTHS, PRISM_ALONG)) * side**3
        # a long face carries less water than a square one of its area
        ratio = sides[1] / sides[0]
        plate = float(np.interp(ratio, PLATE_RATIOS, PLATE_ACROSS)) / math.sqrt(ratio)
        masses.append(density * along * plate / PLATE_ACROSS[0])
    # the ellipsoid of the same proportions and volume
    a, b, c = (0.5 * s * (6.0 / math.pi) ** (1.0 / 3.0) for s in size)
    moments, _ = ellipsoid_added_mass((a, b, c), density)
    drag = BoxDrag(size, (BOX_DRAG,) * 3)
    volume = size[0] * size[1] * size[2]
    return _Solid(volume, moments, (masses[0], masses[1], masses[2]), "fitted", (drag,), "fitted")
