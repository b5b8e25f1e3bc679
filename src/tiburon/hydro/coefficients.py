"""Hydrodynamic coefficients from geometry: volume, center of buoyancy, added mass, drag.

Each coefficient has a quality: exact (potential flow or geometry), computed (potential flow around
the panels of a mesh, with an error estimate), fitted (to tables of measured or computed values,
cited here), or guessed (the nearest known shape).

Tables: DNV-RP-H103 (2011), appendix A, tables A-2: added mass of circular cylinders across their
axis, of rectangular plates, and of square prisms along theirs. Drag coefficients: Hoerner,
Fluid-Dynamic Drag (1965), chapters 3; below the critical Reynolds number.

Ellipsoid symbols (Lamb, Hydrodynamics, 6th ed. 1932, arts. 114 and 115; Newman 1977, sec. 4.15):
    a, b, c                 semi-axes
    alpha, beta, gamma      abc times the integral of dl / ((a^2 + l) Delta) from 0 on, and so on
    R_D                     Carlson's symmetric elliptic integral of the second kind

    alpha = 2/3 abc R_D(b^2, c^2, a^2); alpha + beta + gamma = 2
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, shown
from tiburon.model import Body, Model
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


def lamb_coefficients(radii: Vec3) -> Vec3:
    """Return alpha, beta and gamma of an ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
    """
    if not all(math.isfinite(r) and r > 0.0 for r in radii):
        raise DomainError("radii", "three positive lengths [m]", f"{radii}")
    a, b, c = radii
    factor = 2.0 / 3.0 * a * b * c
    x, y, z = a * a, b * b, c * c
    return factor * carlson_rd(y, z, x), factor * carlson_rd(z, x, y), factor * carlson_rd(x, y, z)


def ellipsoid_added_mass(radii: Vec3, density: float) -> tuple[Vec3, Vec3]:
    """Return the added moments of inertia and added masses of a deeply immersed ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
        density: Density of the fluid [kg/m^3].

    Returns:
        Added moments about x, y, z through the center [kg m^2], and added masses along them [kg].
    """
    a, b, c = radii
    displaced = density * 4.0 / 3.0 * math.pi * a * b * c
    alpha, beta, gamma = lamb_coefficients(radii)
    masses = tuple(displaced * k / (2.0 - k) for k in (alpha, beta, gamma))
    moments = tuple(
        displaced / 5.0 * _added_moment(p, q, p_share, q_share)
        for p, q, p_share, q_share in (
            (b, c, beta, gamma),
            (c, a, gamma, alpha),
            (a, b, alpha, beta),
        )
    )
    return (moments[0], moments[1], moments[2]), (masses[0], masses[1], masses[2])


def _added_moment(p: float, q: float, p_share: float, q_share: float) -> float:
    """Return the added moment about the third axis by a fifth of the displaced mass (art. 115)."""
    difference, total = p * p - q * q, p * p + q * q
    # rotation about a symmetry axis moves no water; near it cancellation destroys the difference
    # of shares, while the result is of second order in the difference of axes
    if abs(difference) <= 1e-9 * total:
        return 0.0
    spread = q_share - p_share
    return difference * difference * spread / (2.0 * difference - total * spread)


def carlson_rd(x: float, y: float, z: float) -> float:
    """Return R_D(x, y, z) by duplication (Carlson 1979, Numer. Math. 33, algorithm 4).

    Args:
        x: Nonnegative.
        y: Nonnegative; not zero together with x.
        z: Positive.
    """
    total, power = 0.0, 1.0
    mean = (x + y + 3.0 * z) / 5.0
    # the error of the series is of sixth order in the relative spread, which each step quarters
    while max(abs(mean - x), abs(mean - y), abs(mean - z)) > 1e-3 * mean:
        root = math.sqrt(x * y) + math.sqrt(y * z) + math.sqrt(z * x)
        total += power / (math.sqrt(z) * (z + root))
        power *= 0.25
        x, y, z = 0.25 * (x + root), 0.25 * (y + root), 0.25 * (z + root)
        mean = (x + y + 3.0 * z) / 5.0
    X, Y = (mean - x) / mean, (mean - y) / mean
    Z = -(X + Y) / 3.0
    E2, E3 = X * Y - 6.0 * Z * Z, (3.0 * X * Y - 8.0 * Z * Z) * Z
    E4, E5 = 3.0 * (X * Y - Z * Z) * Z * Z, X * Y * Z**3
    series = (
        1.0
        - 3.0 * E2 / 14.0
        + E3 / 6.0
        + 9.0 * E2 * E2 / 88.0
        - 3.0 * E4 / 22.0
        - 9.0 * E2 * E3 / 52.0
        + 3.0 * E5 / 26.0
    )
    return 3.0 * total + power * series / (mean * math.sqrt(mean))


QUALITIES = ("exact", "computed", "fitted", "guessed")
"""From best to worst."""

CYLINDER_LENGTHS = (0.0, 1.2, 2.5, 5.0, 9.0, 1e3)
"""Length / diameter of a cylinder, for the next table."""

CYLINDER_ACROSS = (0.0, 0.62, 0.78, 0.90, 0.96, 1.0)
"""Added mass across the axis / displaced mass: zero for a disk, one for an infinite cylinder."""

PLATE_RATIOS = (1.0, 1.25, 1.59, 2.0, 2.5, 3.17, 4.0, 5.0, 6.25, 8.0, 10.0, 1e3)
"""Longer / shorter side of a rectangular plate, for the next table."""

PLATE_ACROSS = (*(0.579, 0.642, 0.704, 0.757, 0.801, 0.840, 0.872, 0.897, 0.917, 0.934, 0.947), 1.0)
"""Added mass across a plate / mass of water in the cylinder about its longer side."""

PRISM_LENGTHS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0)
"""Length / side of a square prism, for the next table."""

PRISM_ALONG = (0.579 * math.pi / 4.0, 0.68, 0.72, 0.72, 0.76, 0.75, 0.78, 0.77, 0.80)
"""Added mass along the prism / mass of water in a cube of its side; a plate at length zero."""

SPHERE_DRAG, CYLINDER_SIDE_DRAG, CYLINDER_END_DRAG, BOX_DRAG = 0.47, 1.1, 0.85, 1.1
"""Drag coefficients below the critical Reynolds number."""


class _Solid(NamedTuple):
    """Hydrodynamic coefficients of a solid about its centroid, in its own axes."""

    volume: float
    moments: Vec3
    """Added moments of inertia [kg m^2]."""

    masses: Vec3
    """Added masses [kg]."""

    added_quality: str
    drag: tuple[Drag, ...]
    drag_quality: str

    @property
    def rotational_quality(self) -> str:
        """Quality of the added moments: tables contain translation only."""
        return "guessed" if self.added_quality == "fitted" else self.added_quality


class _Part(NamedTuple):
    """Hydrodynamic coefficients of one shape in its own axes, about its own origin."""

    volume: float
    center: NDArray[np.float64]
    added: NDArray[np.float64]
    drag: tuple[Drag, ...]
    quality: dict[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class HydrodynamicEstimate:
    """Hydrodynamic coefficients of a body, with their quality."""

    fluid: BodyFluid
    """The coefficients."""

    quality: dict[str, str] = field(default_factory=dict)
    """By coefficient ("volume", "added_mass", "added_moments", "drag"): "exact", "computed",
    "fitted" or "guessed"."""

    remarks: tuple[str, ...] = ()
    """Methods, error estimates and corrections of meshes, in sentences."""


@public
def estimate_hydrodynamics(
    shapes: Sequence[Shape] | Shape, density: float = 1025.0, *, panels: int = 1000
) -> HydrodynamicEstimate:
    """Estimate the hydrodynamic coefficients of a body of simple shapes or watertight meshes.

    Shapes are treated as separate: where they overlap or shield each other, the sum is too large,
    and the quality is "guessed".

    Args:
        shapes: One or several, in body axes; preferably collision shapes, otherwise visual
            ones.
        density: Density of the water [kg/m^3], positive: the reference density of the estimate.
        panels: Number of panels for the added mass of a mesh, 20 to 4000.

    Raises:
        ModelError: If a shape is not supported, or a mesh is not watertight.
    """
    density = positive_density(density, "hydrodynamic coefficients")
    shapes = (shapes,) if isinstance(shapes, Shape) else tuple(shapes)
    if not shapes:
        raise ModelError(
            "hydrodynamic coefficients: expected at least one shape, got none; add shapes=(...)"
        )
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise ModelError(
                f"hydrodynamic coefficients: expected shapes, got {shown(shape)}; write Shape(...)"
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
        added_mass=matrix6(0.5 * (total + total.T), "hydrodynamic coefficients", "added_mass"),
        drag=tuple(drag),
        reference_density=density,
    )
    return HydrodynamicEstimate(fluid, quality, tuple(remarks))


def _part(geometry: Geometry, density: float, panels: int) -> _Part:
    """Return the hydrodynamic coefficients of one shape in its own axes."""
    if isinstance(geometry, MeshShape):
        # imported on use: most robots have no meshes
        from tiburon.hydro.panels import mesh_hydrodynamics

        mesh = mesh_hydrodynamics(geometry, density, (BOX_DRAG, SPHERE_DRAG), panels)
        quality = {
            "volume": mesh.volume_quality,
            "added_mass": mesh.added_quality,
            "added_moments": mesh.rotational_quality,
            "drag": "guessed",
        }
        center, drag = np.array(mesh.center), (mesh.drag,)
        return _Part(mesh.volume, center, mesh.added, drag, quality, (mesh.remark,))
    solid = _solid(geometry, density)
    quality = {
        "added_mass": solid.added_quality,
        "added_moments": solid.rotational_quality,
        "drag": solid.drag_quality,
    }
    added = np.diag([*solid.moments, *solid.masses])
    return _Part(solid.volume, np.zeros(3), added, solid.drag, quality)


def velocity_shift(offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix from the velocity of a point to that at an offset [m], shape (6, 6)."""
    x, y, z = offset
    shift = np.eye(6)
    shift[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    return shift


def _about_origin(
    added: NDArray[np.float64], R: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Transform the added mass of a solid at a pose to the body origin, angular rows first."""
    to_middle = velocity_shift(p)
    both = np.zeros((6, 6))
    both[:3, :3] = both[3:, 3:] = R
    result: NDArray[np.float64] = to_middle.T @ both @ added @ both.T @ to_middle
    return result


def _placed(drag: Drag, pose: Pose) -> Drag:
    """Transform a drag shape from its own axes into body axes."""
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
        "hydrodynamic coefficients: expected a box, sphere, cylinder, capsule, ellipsoid or mesh, "
        f"got {geometry!r}; use a simple shape, or set the coefficients of the body"
    )


def _cylinder(r: float, length: float, density: float) -> _Solid:
    """Estimate a cylinder along z: tables across the axis, a disk along it."""
    volume = math.pi * r * r * length
    share = float(np.interp(length / (2 * r), CYLINDER_LENGTHS, CYLINDER_ACROSS))
    across = share * density * volume
    # added mass of a disk (Lamb, art. 102); that of a longer body is little larger
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
    """Estimate a capsule along z as the spheroid of its length and volume."""
    volume = math.pi * r * r * length + 4.0 / 3.0 * math.pi * r**3
    half = 0.5 * length + r
    # the spheroid of the same length and volume
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
    """Estimate a box: tables of square prisms and plates; added moments of its ellipsoid."""
    masses = []
    for k in range(3):
        sides = sorted((size[(k + 1) % 3], size[(k + 2) % 3]))
        side = math.sqrt(sides[0] * sides[1])
        along = float(np.interp(size[k] / side, PRISM_LENGTHS, PRISM_ALONG)) * side**3
        # a long face has less added mass than a square one of its area
        ratio = sides[1] / sides[0]
        plate = float(np.interp(ratio, PLATE_RATIOS, PLATE_ACROSS)) / math.sqrt(ratio)
        masses.append(density * along * plate / PLATE_ACROSS[0])
    # the ellipsoid of the same proportions and volume
    a, b, c = (0.5 * s * (6.0 / math.pi) ** (1.0 / 3.0) for s in size)
    moments, _ = ellipsoid_added_mass((a, b, c), density)
    drag = BoxDrag(size, (BOX_DRAG,) * 3)
    volume = size[0] * size[1] * size[2]
    return _Solid(volume, moments, (masses[0], masses[1], masses[2]), "fitted", (drag,), "fitted")


@dataclass(frozen=True)
class BodyHydrodynamics:
    """Result of the estimation for one body."""

    body: str
    """Name of the body."""

    fluid: BodyFluid | None
    """Its coefficients; None if it has none."""

    quality: dict[str, str] = field(default_factory=dict)
    """By coefficient ("volume", "added_mass", "added_moments", "drag"): "exact", "computed",
    "fitted" or "guessed"; empty if nothing was estimated."""

    reason: str = ""
    """Why nothing was estimated, otherwise empty."""

    remark: str = ""
    """Methods, error estimates and corrections of meshes."""


@public
def add_hydrodynamics(
    model: Model, density: float = 1025.0, *, overwrite: bool = False, panels: int = 1000
) -> Model:
    """Return the robot with hydrodynamic coefficients of every body, estimated from its shapes.

    Collision shapes are used where a body has any, otherwise visual ones. Bodies without shapes, or
    with meshes that are not watertight, are not changed. `hydrodynamics_report` gives the quality
    of each coefficient, and the reason where there is none.

    Args:
        model: The robot.
        density: Density of the water [kg/m^3], positive: the reference density of the estimates.
        overwrite: Whether to replace coefficients that bodies already have.
        panels: Number of panels for the added mass of a mesh, 20 to 4000.

    Raises:
        ModelError: If no body has coefficients afterwards.

    Example:
        ``wet = tb.add_hydrodynamics(tb.load("arm.urdf"))``
    """
    report = hydrodynamics_report(model, density, overwrite=overwrite, panels=panels)
    return with_estimates(model, report)


@public
def hydrodynamics_report(
    model: Model, density: float = 1025.0, *, overwrite: bool = False, panels: int = 1000
) -> tuple[BodyHydrodynamics, ...]:
    """Estimate hydrodynamic coefficients as `add_hydrodynamics`; return them with their quality.

    Args:
        model: The robot.
        density: Density of the water [kg/m^3], positive: the reference density of the estimates.
        overwrite: Whether to estimate bodies that have coefficients already.
        panels: Number of panels for the added mass of a mesh, 20 to 4000.

    Returns:
        Result for each body, in the order of the model.

    Raises:
        ModelError: If no body has coefficients.
    """
    density = positive_density(density, "hydrodynamic coefficients")
    found = tuple(_estimate_body(body, density, overwrite, panels) for body in model.bodies)
    if not any(entry.fluid for entry in found):
        reasons = "; ".join(f"{entry.body!r}: {entry.reason}" for entry in found[:4])
        raise ModelError(
            f"model {model.name!r}: no body has a shape with known hydrodynamic coefficients "
            f"({reasons}{'; ...' if len(found) > 4 else ''}); add boxes, spheres, cylinders, "
            "capsules, ellipsoids or watertight meshes, or fluid=BodyFluid(...)"
        )
    return found


def with_estimates(model: Model, report: Sequence[BodyHydrodynamics]) -> Model:
    """Return the robot with the coefficients that a report estimated; others are kept."""
    return model.with_fluids({entry.body: entry.fluid for entry in report if entry.quality})


def _estimate_body(body: Body, density: float, overwrite: bool, panels: int) -> BodyHydrodynamics:
    if body.fluid is not None and not overwrite:
        return BodyHydrodynamics(body.name, body.fluid, reason="has coefficients already")
    # collision shapes are simpler
    shapes = tuple(shape for shape in body.shapes if shape.role != "visual") or body.shapes
    if not shapes:
        return BodyHydrodynamics(body.name, body.fluid, reason="has no shape")
    try:
        estimate = estimate_hydrodynamics(shapes, density, panels=panels)
    except ModelError as error:
        return BodyHydrodynamics(
            body.name, body.fluid, reason=str(error).removeprefix("hydrodynamic coefficients: ")
        )
    remark = "; ".join(estimate.remarks)
    fluid = estimate.fluid
    if body.fluid is not None:
        # shapes do not determine fins: keep those of the body
        fluid = replace(fluid, fins=body.fluid.fins)
    return BodyHydrodynamics(body.name, fluid, estimate.quality, remark=remark)
