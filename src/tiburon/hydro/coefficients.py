"""Hydrodynamic coefficients from geometry: volume, center of buoyancy, added mass, drag.

Each coefficient has a quality: exact (potential flow or geometry), computed (potential flow around
the panels of a mesh, with an error estimate; volumes of overlapping shapes by sampling), fitted (to
tables of measured or computed values), or guessed (the nearest known shape).

Added mass of boxes, cylinders and capsules is interpolated in `shape_tables.py`, which panels
filled. Drag coefficients: Hoerner, Fluid-Dynamic Drag (1965), chapters 3; below the critical
Reynolds number.

Ellipsoid symbols (Lamb, Hydrodynamics, 6th ed. 1932, arts. 114 and 115; Newman 1977, sec. 4.15):
    a, b, c                 semi-axes
    alpha, beta, gamma      abc times the integral of dl / ((a^2 + l) Delta) from 0 on, and so on
    R_D                     Carlson's symmetric elliptic integral of the second kind

    alpha = 2/3 abc R_D(b^2, c^2, a^2); alpha + beta + gamma = 2
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from tiburon.arguments import caller_level, public
from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ModelError, ModelWarning, shown
from tiburon.hydro.shape_tables import BOXES, CAPSULES, CYLINDERS
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
from tiburon.model.model_warnings import (
    bodies_of_added_mass_alone,
    dry_bodies,
    half_size,
)
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, matrix6, positive_density
from tiburon.spatial import ArticulatedInertia

if TYPE_CHECKING:
    from tiburon.hydro.mesh import Mesh

SimpleShape: TypeAlias = BoxShape | SphereShape | CylinderShape | CapsuleShape | EllipsoidShape


def lamb_coefficients(radii: Vec3) -> Vec3:
    """Return alpha, beta and gamma of an ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
    """
    if not all(math.isfinite(r) and r > 0.0 for r in radii):
        raise DomainError("radii", "three positive lengths [m]", f"{radii}")
    a, b, c = radii
    factor = 2.0 / 3.0 * _product(radii)
    x, y, z = a * a, b * b, c * c
    return factor * carlson_rd(y, z, x), factor * carlson_rd(z, x, y), factor * carlson_rd(x, y, z)


def _product(lengths: Vec3) -> float:
    """Return the product of three lengths, with the same bits in any order."""
    return math.prod(sorted(lengths))


def ellipsoid_added_mass(radii: Vec3, density: float) -> tuple[Vec3, Vec3]:
    """Return the added moments of inertia and added masses of a deeply immersed ellipsoid.

    Args:
        radii: Semi-axes along x, y, z [m].
        density: Density of the fluid [kg/m^3].

    Returns:
        Added moments about x, y, z through the center [kg m^2], and added masses along them [kg].
    """
    a, b, c = radii
    displaced = density * 4.0 / 3.0 * math.pi * _product(radii)
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
    # symmetric in x and y to the bit: axes of equal length have equal coefficients
    x, y = min(x, y), max(x, y)
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

BOX_RATIOS = (1.0, 1.4, 2.0, 2.8, 4.0, 8.0, 16.0), (1.0, 1.4, 2.0, 2.8, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Longest / middle side, and middle / shortest side of a box, for rows of `BOXES`."""

CYLINDER_LENGTHS = (
    *(0.03125, 0.0625, 0.125, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0, 16.0, 32.0),
)
"""Length / diameter of a cylinder, for rows of `CYLINDERS`."""

CAPSULE_LENGTHS = (0.125, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Length of the straight part / diameter of a capsule, for rows of `CAPSULES`."""

SPHERE_DRAG, CYLINDER_SIDE_DRAG, CYLINDER_END_DRAG, BOX_DRAG = 0.47, 1.1, 0.85, 1.1
"""Drag coefficients below the critical Reynolds number."""


class _Solid(NamedTuple):
    """Hydrodynamic coefficients of a solid about its centroid, in its own axes."""

    volume: float
    moments: NDArray[np.float64] | Vec3
    """Added moments of inertia [kg m^2], shape (3,)."""

    masses: NDArray[np.float64] | Vec3
    """Added masses [kg], shape (3,)."""

    added_quality: str
    drag: tuple[Drag, ...]
    drag_quality: str


class _Part(NamedTuple):
    """Hydrodynamic coefficients of one shape in its own axes, about its own origin."""

    volume: float
    center: NDArray[np.float64]
    added: NDArray[np.float64]
    drag: tuple[Drag, ...]
    quality: dict[str, str]
    solid: "SimpleShape | Mesh"
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

    Volume that several shapes share counts once: for the largest of them. Added mass and drag of a
    shape are reduced by the part of its volume that lies in larger ones, and a remark says so.
    Otherwise shapes are treated as separate: where they shield each other, added mass and drag are
    too large, and their quality is "guessed".

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
    parts = [_part(shape.geometry, density, panels) for shape in shapes]
    own = own_parts([part.solid for part in parts], [shape.pose for shape in shapes])
    added = ArticulatedInertia.zero()
    volume, moment = 0.0, np.zeros(3)
    drag: list[Drag] = []
    quality = dict.fromkeys(("volume", "added_mass", "added_moments", "drag"), "exact")
    remarks: list[str] = []
    for k, (shape, part, (share, center)) in enumerate(zip(shapes, parts, own, strict=True)):
        remarks.extend(part.remarks)
        if share < 1.0:
            remarks.append(
                f"shape {k + 1} of {len(shapes)} ({type(shape.geometry).__name__}): about "
                f"{100.0 * (1.0 - share):.2g} % of its volume lies in larger shapes and counts once"
            )
            quality["volume"] = max(quality["volume"], "computed", key=QUALITIES.index)
        if share == 0.0:
            continue
        R, p = np.array(shape.pose.rotation), np.array(shape.pose.translation)
        own_mass = ArticulatedInertia.from_rows((share * part.added).tolist())
        # by components: what symmetry makes equal is equal to the bit
        added = added + shape.pose.transform.inertia_to_parent(own_mass)
        volume += share * part.volume
        center = part.center if center is None else center
        moment += share * part.volume * (R @ center + p)
        drag.extend(_placed(_weakened(d, share), shape.pose) for d in part.drag)
        for name, found in part.quality.items():
            quality[name] = max(quality[name], found, key=QUALITIES.index)
    if len(shapes) > 1:
        quality |= dict.fromkeys(("added_mass", "added_moments", "drag"), "guessed")
    fluid = BodyFluid(
        volume=volume,
        center_of_buoyancy=tuple((moment / volume).tolist()),
        added_mass=matrix6(added.rows(), "hydrodynamic coefficients", "added_mass"),
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
        return _Part(mesh.volume, center, mesh.added, drag, quality, mesh.solid, (mesh.remark,))
    solid = _solid(geometry, density)
    quality = {
        "added_mass": solid.added_quality,
        "added_moments": solid.added_quality,
        "drag": solid.drag_quality,
    }
    added = np.diag([*solid.moments, *solid.masses])
    # _solid refuses all other shapes
    simple = cast("SimpleShape", geometry)
    return _Part(solid.volume, np.zeros(3), added, solid.drag, quality, simple)


def velocity_shift(offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix from the velocity of a point to that at an offset [m], shape (6, 6)."""
    x, y, z = offset
    shift = np.eye(6)
    shift[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    return shift


def _placed(drag: Drag, pose: Pose) -> Drag:
    """Transform a drag shape from its own axes into body axes."""
    R, p = np.array(pose.rotation), np.array(pose.translation)
    if isinstance(drag, SphereDrag):
        return replace(drag, center=tuple((R @ drag.center + p).tolist()))
    if isinstance(drag, CylinderDrag):
        start, axis = R @ drag.start + p, R @ drag.axis
        return replace(drag, start=tuple(start.tolist()), axis=tuple(axis.tolist()))
    return replace(drag, pose=pose @ drag.pose)


def _weakened(drag: Drag, share: float) -> Drag:
    """Return a drag shape whose coefficients are multiplied by a share."""
    if share == 1.0:
        return drag
    if isinstance(drag, SphereDrag):
        return replace(drag, coefficient=share * drag.coefficient)
    if isinstance(drag, CylinderDrag):
        first, second = drag.end_coefficients
        ends = (share * first, share * second)
        side = share * drag.side_coefficient
        return replace(drag, side_coefficient=side, end_coefficients=ends)
    x, y, z = drag.coefficients
    return replace(drag, coefficients=(share * x, share * y, share * z))


SAMPLES = 8192
"""Points in the bounding box of a shape that may overlap others: errors of shares are 0.3 %."""


def own_parts(
    solids: "Sequence[SimpleShape | Mesh]", poses: Sequence[Pose]
) -> list[tuple[float, NDArray[np.float64] | None]]:
    """Return the share of each solid's volume that lies in no larger one.

    Of equal solids the first counts. Shares are one, exactly, where nothing overlaps.

    Returns:
        Per solid: share, and the centroid of that part in the solid's axes [m], shape (3,); None
        for the whole solid.
    """
    whole: list[tuple[float, NDArray[np.float64] | None]] = [(1.0, None)] * len(solids)
    if len(solids) == 1:
        return whole
    middles, halves, radii = zip(*(_bounding_box(solid) for solid in solids), strict=True)
    frames = [(np.array(pose.rotation), np.array(pose.translation)) for pose in poses]
    centers = [R @ middle + p for (R, p), middle in zip(frames, middles, strict=True)]
    volumes = [_volume(solid) for solid in solids]
    order = sorted(range(len(solids)), key=lambda k: -volumes[k])
    for rank, k in enumerate(order):
        near = [j for j in order[:rank] if math.dist(centers[j], centers[k]) < radii[j] + radii[k]]
        if not near:
            continue
        points = middles[k] + halves[k] * (2.0 * _low_discrepancy(SAMPLES) - 1.0)
        points = points[_contains(solids[k], points)]
        R, p = frames[k]
        free = np.ones(len(points), dtype=bool)
        for j in near:
            S, o = frames[j]
            free[free] = ~_contains(solids[j], (points[free] @ R.T + p - o) @ S)
        if not free.all():
            center = points[free].mean(axis=0) if free.any() else None
            whole[k] = (float(free.mean()), center)
    return whole


def _low_discrepancy(count: int) -> NDArray[np.float64]:
    """Return points of the unit cube, shape (count, 3), by the plastic number's sequence.

    Additive recurrence with the powers of the root of x^4 = x + 1 (Roberts 2018).
    """
    root = 1.2207440846057596
    steps = np.array([root**-1, root**-2, root**-3])
    points: NDArray[np.float64] = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    return points


def _bounding_box(
    solid: "SimpleShape | Mesh",
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return center and half sides of the box about a solid, and its radius about there [m]."""
    if isinstance(solid, SimpleShape):
        half = np.array(half_size(solid))
        return np.zeros(3), half, float(np.linalg.norm(half))
    low, high = solid.vertices.min(axis=0), solid.vertices.max(axis=0)
    middle = 0.5 * (low + high)
    return middle, 0.5 * (high - low), float(np.linalg.norm(solid.vertices - middle, axis=1).max())


def _volume(solid: "SimpleShape | Mesh") -> float:
    if isinstance(solid, SimpleShape):
        return _solid(solid, 1.0).volume
    return solid.volume


def _contains(solid: "SimpleShape | Mesh", points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points lie inside a solid, in its own axes."""
    inside: Any
    match solid:
        case BoxShape(size):
            inside = (np.abs(points) < 0.5 * np.array(size)).all(axis=1)
        case SphereShape(r):
            inside = (points * points).sum(axis=1) < r * r
        case EllipsoidShape(radii):
            inside = ((points / np.array(radii)) ** 2).sum(axis=1) < 1.0
        case CylinderShape(r, length):
            inside = (np.hypot(points[:, 0], points[:, 1]) < r) & (
                np.abs(points[:, 2]) < 0.5 * length
            )
        case CapsuleShape(r, length):
            beyond = np.maximum(np.abs(points[:, 2]) - 0.5 * length, 0.0)
            inside = points[:, 0] ** 2 + points[:, 1] ** 2 + beyond**2 < r * r
        case _:
            from tiburon.hydro.mesh import windings

            inside = windings(points, solid.vertices, solid.faces) != 0
    found: NDArray[np.bool_] = inside
    return found


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


def cylinder_scales(r: float, length: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the units of added moments and masses of a cylinder along z, for unit density.

    Moments: the sum of their limits, a disk (Lamb, art. 108) and strips of a long cylinder. Masses:
    the inscribed spheroid. Ratios to them are near one for all proportions.
    """
    turning = 16.0 / 45.0 * r**5 + math.pi * r * r * length**3 / 12.0
    _, masses = ellipsoid_added_mass((r, r, 0.5 * length), 1.0)
    return np.array([turning, turning, 1.0]), np.array(masses)


def capsule_scales(r: float, length: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the units of added moments and masses of a capsule along z, for unit density.

    They are those of the spheroid of its length and volume.
    """
    half = 0.5 * length + r
    volume = math.pi * r * r * length + 4.0 / 3.0 * math.pi * r**3
    wide = math.sqrt(volume / (4.0 / 3.0 * math.pi * half))
    moments, masses = ellipsoid_added_mass((wide, wide, half), 1.0)
    return np.array(moments), np.array(masses)


def box_scales(size: Vec3) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the units of added moments and masses of a box, for unit density.

    They are those of the inscribed ellipsoid, which has the limits of thin plates; to moments, zero
    for a sphere, a fifth of the displaced water's is added.
    """
    a, b, c = size
    moments, masses = ellipsoid_added_mass((0.5 * a, 0.5 * b, 0.5 * c), 1.0)
    displaced = np.array([b * b + c * c, c * c + a * a, a * a + b * b]) * (_product(size) / 12.0)
    return np.array(moments) + 0.2 * displaced, np.array(masses)


def _cylinder(r: float, length: float, density: float) -> _Solid:
    """Estimate a cylinder along z from the table of its proportions.

    Ends of longer ones than the table has push as much water as those of its longest; so do those
    of capsules and boxes.
    """
    ratio = length / (2.0 * r)
    # across disks the ellipsoid does not have the limit
    powers = () if ratio > 1.0 else (1,)
    factors = _interpolated(CYLINDERS, (CYLINDER_LENGTHS,), (ratio,), (powers,))
    turning, across, along = factors.tolist()
    # the disk is the limit of both
    turning, along = _toward_one((turning, along), ratio / CYLINDER_LENGTHS[0])
    moments, masses = cylinder_scales(r, length)
    masses *= (across, across, along)
    if ratio > CYLINDER_LENGTHS[-1]:
        masses[2] = _cylinder(r, 2.0 * r * CYLINDER_LENGTHS[-1], 1.0).masses[2]
    drag = CylinderDrag(
        r,
        length,
        start=(0.0, 0.0, -0.5 * length),
        axis=(0.0, 0.0, 1.0),
        side_coefficient=CYLINDER_SIDE_DRAG,
        end_coefficients=(CYLINDER_END_DRAG, CYLINDER_END_DRAG),
    )
    return _Solid(
        math.pi * r * r * length,
        density * moments * (turning, turning, 0.0),
        density * masses,
        "fitted" if _within(CYLINDER_LENGTHS, ratio) else "guessed",
        (drag,),
        "fitted",
    )


def _capsule(r: float, length: float, density: float) -> _Solid:
    """Estimate a capsule along z from the table of its proportions; a sphere at length zero."""
    ratio = length / (2.0 * r)
    factors = _interpolated(CAPSULES, (CAPSULE_LENGTHS,), (ratio,), ((),))
    turning, across, along = factors.tolist()
    # the spheroid becomes the sphere that the capsule becomes
    across, along = _toward_one((across, along), ratio / CAPSULE_LENGTHS[0])
    moments, masses = capsule_scales(r, length)
    masses *= (across, across, along)
    if ratio > CAPSULE_LENGTHS[-1]:
        masses[2] = _capsule(r, 2.0 * r * CAPSULE_LENGTHS[-1], 1.0).masses[2]
    half = 0.5 * length + r
    drag = CylinderDrag(
        r,
        2.0 * half,
        start=(0.0, 0.0, -half),
        axis=(0.0, 0.0, 1.0),
        side_coefficient=CYLINDER_SIDE_DRAG,
        end_coefficients=(0.5 * SPHERE_DRAG, 0.5 * SPHERE_DRAG),
    )
    within = ratio <= CAPSULE_LENGTHS[-1]
    return _Solid(
        math.pi * r * r * length + 4.0 / 3.0 * math.pi * r**3,
        density * moments * (turning, turning, 0.0),
        density * masses,
        "exact" if length == 0.0 else "fitted" if within else "guessed",
        (drag,),
        "guessed",
    )


def _box(size: Vec3, density: float) -> _Solid:
    """Estimate a box from the table of its proportions."""
    order = sorted(range(3), key=lambda k: -size[k])
    a, b, c = (size[k] for k in order)
    ratios = (a / b, b / c)
    factors = np.empty(6)
    places = [*order, *(3 + k for k in order)]
    # along both sides of plates and about their normal the ellipsoid does not have the limit
    powers = ((), (2, 3, 4))
    factors[places] = _interpolated(BOXES, BOX_RATIOS, ratios, powers)
    moments, masses = box_scales(size)
    masses *= factors[3:]
    if ratios[0] > BOX_RATIOS[0][-1]:
        longest = BOX_RATIOS[0][-1] * b
        x, y, z = (longest if k == order[0] else side for k, side in enumerate(size))
        masses[order[0]] = _box((x, y, z), 1.0).masses[order[0]]
    return _Solid(
        a * b * c,
        density * moments * factors[:3],
        density * masses,
        "fitted" if all(map(_within, BOX_RATIOS, ratios)) else "guessed",
        (BoxDrag(size, (BOX_DRAG,) * 3),),
        "fitted",
    )


def _within(knots: Sequence[float], ratio: float) -> bool:
    """Return whether a table covers a ratio."""
    return knots[0] * (1.0 - 1e-9) <= ratio <= knots[-1] * (1.0 + 1e-9)


def _toward_one(factors: Sequence[float], share: float) -> list[float]:
    """Blend factors to one below the first row of a table, where a limit is known.

    Args:
        factors: At the first row.
        share: Ratio over that of the first row; above one factors are returned as they are.
    """
    return [1.0 + min(share, 1.0) * (factor - 1.0) for factor in factors]


def _interpolated(
    rows: Sequence[Sequence[float]],
    knots: Sequence[Sequence[float]],
    ratios: Sequence[float],
    powers: Sequence[Sequence[int]],
) -> NDArray[np.float64]:
    """Interpolate the logarithms of a table by cubics in the logarithms of ratios.

    Above the last knot differences from a limit are taken as proportional to thickness over length;
    below the first one its row applies.

    Args:
        rows: Table with one row per combination of knots, the last ratio fastest; positive.
        knots: Rising values of each ratio.
        ratios: Where.
        powers: For each ratio, columns without a limit, which follow a power of it beyond the ends.

    Returns:
        One value per column.
    """
    table = np.log(rows).reshape(*map(len, knots), -1)
    for values, ratio, columns in zip(knots, ratios, powers, strict=True):
        inside, nodes = min(max(ratio, values[0]), values[-1]), np.log(values)
        x = math.log(inside)
        first = min(max(int(np.searchsorted(nodes, x)) - 2, 0), len(nodes) - 4)
        near = nodes[first : first + 4]
        weights = [
            math.prod((x - other) / (node - other) for other in near if other != node)
            for node in near
        ]
        found = np.tensordot(weights, table[first : first + 4], 1)
        two = slice(-1, -3, -1) if ratio > values[-1] else slice(0, 2)
        (end, next_to_it), (a, b) = table[two], nodes[two]
        if ratio > values[-1]:
            outer, inner = np.exp(end), np.exp(next_to_it)
            found = np.log(outer + (outer - inner) * (1.0 - inside / ratio) / math.expm1(a - b))
        if columns and ratio != inside:
            straight = end + (end - next_to_it) * ((math.log(ratio) - a) / (a - b))
            found[..., list(columns)] = straight[..., list(columns)]
        table = found
    return np.exp(table)


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


MAX_LISTED = 12
"""Most dry bodies that a warning names."""


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

    Warns:
        ModelWarning: If bodies with mass or shapes stay without coefficients; it names them, with
            the reason.

    Example:
        ``wet = tb.add_hydrodynamics(tb.load("arm.urdf"))``
    """
    report = hydrodynamics_report(model, density, overwrite=overwrite, panels=panels)
    wet = with_estimates(model, report)
    reasons = {entry.body: entry.reason for entry in report}
    dry = [f"{name!r} ({reasons[name]})" for name in dry_bodies(wet)]
    dry += [
        f"{name!r} (keeps its added mass alone; pass overwrite=True)"
        for name in bodies_of_added_mass_alone(wet)
    ]
    if dry:
        more = f"; and {len(dry) - MAX_LISTED} more" if len(dry) > MAX_LISTED else ""
        warnings.warn(
            f"model {model.name!r}: no buoyancy or drag for {len(dry)} of {len(model.bodies)} "
            f"bodies: {'; '.join(dry[:MAX_LISTED])}{more}; add a simple shape or a watertight "
            "mesh, or fluid=BodyFluid(...)",
            ModelWarning,
            stacklevel=caller_level(),
        )
    return wet


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
