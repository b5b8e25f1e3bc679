"""Hydrodynamic properties of one link: added mass, buoyancy, damping and drag in its frame.

Bodies on fixed joints move as one link, so in uniform flow their added masses and displaced
volumes add. Drag shapes stay separate: their force depends on the square of the local velocity. In
non-uniform flow each body is an immersion of its own.

Positions and directions are structure and compiled in; masses, volumes and coefficients are run-
time parameters of a kernel.

Symbols of links cut by a free surface (`under_surface`):
    Phi     submerged fraction of the link's volume
    n       the upward direction, link axes
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.hydro.forces import (
    PlacedFin,
    added_mass_bias,
    ball_drag,
    cylinder_drag,
    damping_force,
    face_drag,
    placed_fin,
    total_buoyancy,
)
from tiburon.hydro.submersion import Hull, strip_share
from tiburon.model.body_fluid import (
    BodyFluid,
    BoxDrag,
    CylinderDrag,
    Drag,
    EllipsoidDrag,
    SphereDrag,
)
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_cross, dot, scale, subtract

Vector = Scalars | NDArray[np.float64]
"""Three floats."""

ROUNDING = 1e-14
"""Components of a unit vector or length below this are rounding errors of a rotation, and zero."""


class Surroundings(NamedTuple):
    """Motion of one link relative to the water around it, in the axes of its plan frame."""

    density: Scalar
    """Density of the water [kg/m^3]."""

    w: Vec3
    """Angular velocity of the link [rad/s]."""

    v_r: Vec3
    """Velocity of the frame's origin relative to the fluid [m/s]."""

    a_fg: Vec3
    """Acceleration of the fluid less that of free fall [m/s^2]."""

    flow: Callable[[Vec3], Vec3] | None = None
    """Velocity of the fluid at a point of the link relative to that in `v_r` [m/s]; None in uniform
    flow."""

    def relative(self, point: Vec3) -> Vec3:
        """Return the velocity of a point of the link relative to the fluid there [m/s]."""
        u = add_cross(self.v_r, self.w, point)
        return u if self.flow is None else add(u, scale(self.flow(point), -1.0))


class Strips(NamedTuple):
    """Discretization of cylinders, and of sections of other solids, for drag."""

    points: int = 4
    """Number of strips of a cylinder; the sources use four."""

    split: bool = False
    """Whether to split the cylinder where the cross flow is slowest, with strips on both parts."""

    @property
    def across(self) -> int:
        """Points along each axis of a section of a box or an ellipsoid, in non-uniform flow."""
        return (self.points + 1) // 2


@record(slots=False)
class Waterline:
    """Depth of the axis of a cylinder along its length."""

    depth: Scalar
    """Depth of the first end [m]."""

    rise: Scalar
    """Decrease of depth per length of the axis."""

    reach: Scalar
    """Height of the rim of a strip above and below the axis [m]."""

    def share(self, s: Scalar) -> Scalar:
        """Return the submerged fraction of the strip at a distance along the axis [m]."""
        return strip_share((self.depth - s * self.rise) / self.reach)


@record(slots=False)
class PlacedDrag:
    """One drag shape, in a plan frame."""

    kind: str
    geometry: tuple[object, ...]
    """Points, directions and lengths."""

    coefficients: tuple[Scalar, ...]
    """Areas times coefficients."""

    radius: float = 0.0
    """Radius of a cylinder [m]; used only with a free surface."""

    waterline: Waterline | None = None
    """Where a free surface cuts a cylinder; None if it is submerged."""

    def force(self, around: Surroundings, strips: Strips) -> Force:
        """Return the drag, about the origin of the plan frame."""
        factors = [around.density * x for x in self.coefficients]
        geometry: tuple = self.geometry  # type: ignore[type-arg]
        if self.kind == "cylinder":
            axis, sides, start, length, same_ends = geometry
            return cylinder_drag(
                around.w,
                around.relative,
                axis=axis,
                sides=sides,
                start=start,
                length=length,
                side_factor=factors[0],
                end_factors=(factors[1], factors[1 if same_ends else 2]),
                points=strips.points,
                uniform=around.flow is None,
                split=strips.split,
                wet=None if self.waterline is None else self.waterline.share,
            )
        if self.kind == "ball":
            return ball_drag(around.relative, center=geometry[0], factor=factors[0])
        total = Force.zero()
        for (axes, center, halves), factor in zip(geometry, factors, strict=True):
            total = total + face_drag(
                around.w,
                around.relative,
                disk=self.kind == "ellipsoid",
                axes=axes,
                center=center,
                halves=halves,
                factor=factor,
                points=strips.across,
                uniform=around.flow is None,
            )
        return total


@record(slots=False)
class Damping:
    """Lumped damping of one body, in its own frame."""

    transform: Transform
    """Map of motion from the plan frame to the body's."""

    linear: tuple[tuple[Scalar, ...], ...] | None
    quadratic: tuple[tuple[Scalar, ...], ...] | None

    reference: float | None = None
    """Reference density of the matrices [kg/m^3]; None if they do not scale with density."""

    def in_fluid(self, density: Scalar) -> "Damping":
        """Return the damping in a fluid of a density [kg/m^3]."""
        if self.reference is None:
            return self
        return replace(self.scaled(density / self.reference), reference=None)

    def scaled(self, factor: Scalar) -> "Damping":
        """Return the damping times a factor."""

        def times(
            matrix: tuple[tuple[Scalar, ...], ...] | None,
        ) -> tuple[tuple[Scalar, ...], ...] | None:
            return matrix and tuple(tuple(factor * x for x in row) for row in matrix)

        return replace(self, linear=times(self.linear), quadratic=times(self.quadratic))


@record(slots=False)
class Immersion:
    """Hydrodynamic properties of a submerged link, in its plan frame."""

    added: ArticulatedInertia
    """Added mass about the origin at the reference density [kg m^2, kg m, kg]."""

    volume: Scalar
    """Displaced volume [m^3]."""

    moment: Vec3
    """Volume times center of buoyancy [m^4]."""

    shapes: tuple[PlacedDrag, ...]
    dampings: tuple[Damping, ...]

    place: Vec3 = ZERO3
    """Center of buoyancy, where the flow of the whole link is evaluated [m]: structure."""

    fins: tuple[PlacedFin, ...] = ()

    constant_added: ArticulatedInertia | None = None
    """Added mass that does not scale with density; None if there is none."""

    reference: float | None = None
    """Reference density of `added` [kg/m^3]; None if `added` is already at the fluid's density."""

    run_time: bool = False
    """Whether all coefficients, including zeros and `place`, are run-time parameters."""

    def in_fluid(self, density: Scalar) -> "Immersion":
        """Return the link with added mass and damping scaled to the density of a fluid.

        Coefficients with a reference density are proportional to density and vanish at zero.

        Args:
            density: Density of the fluid [kg/m^3].
        """
        added = self.added
        if self.reference is not None:
            added = added * (density / self.reference)
        if self.constant_added is not None:
            added = added + self.constant_added
        dampings = tuple(damping.in_fluid(density) for damping in self.dampings)
        return replace(self, added=added, dampings=dampings, constant_added=None, reference=None)

    def force(self, around: Surroundings, strips: Strips) -> Force:
        """Return the hydrodynamic force beyond -I^A a', about the frame's origin.

        The sum f^D + f^TB + beta^A (McMillan 1994, eq. 7.45; 1995, eq. 31).
        """
        total = added_mass_bias(self.added, around.w, around.v_r, around.a_fg)
        total = total + self.buoyancy(around.density, around.a_fg)
        for shape in self.shapes:
            total = total + shape.force(around, strips)
        for damping in self.dampings:
            relative = damping.transform.motion(Motion(around.w, around.v_r))
            f = damping_force(relative, damping.linear, damping.quadratic)
            total = total + damping.transform.force_to_parent(f)
        for fin in self.fins:
            total = total + fin.force(around.density, around.relative)
        return total

    def buoyancy(self, density: Scalar, a_fg: Vec3) -> Force:
        """Return total buoyancy alone, about the frame's origin.

        Args:
            density: Density of the water [kg/m^3].
            a_fg: Acceleration of the water less that of free fall, plan axes [m/s^2].
        """
        return total_buoyancy(density * self.volume, scale(self.moment, density), a_fg)

    def _scalars(self) -> Iterator[Scalar]:
        """Yield all scalars that may be run-time parameters, except deflections of fins."""
        yield from self.added
        yield from self.constant_added or ()
        yield self.volume
        yield from self.moment
        for shape in self.shapes:
            yield from shape.coefficients
        for damping in self.dampings:
            for matrix in (damping.linear, damping.quadratic):
                for row in matrix or ():
                    yield from row
        for fin in self.fins:
            yield from fin.coefficients
        if self.run_time:
            yield from self.place

    def _used(self) -> tuple[bool, ...]:
        """Return which of `_scalars` are run-time parameters."""
        return tuple(self.run_time or x != 0.0 for x in self._scalars())

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: all nonzero coefficients.

        Deflections of movable fins follow last, zero or not.
        """
        angles = (fin.deflection for fin in self.fins if fin.deflection is not None)
        scalars = zip(self._scalars(), self._used(), strict=True)
        return (*(x for x, used in scalars if used), *angles)

    def with_parameters(self, parameters: Scalars) -> "Immersion":
        """Return the same link with other run-time parameters."""
        given = iter(parameters)
        scalars = iter([next(given) if used else 0.0 for used in self._used()])

        def take(count: int) -> tuple[Scalar, ...]:
            return tuple(next(scalars) for _ in range(count))

        added = ArticulatedInertia.from_array(take(21))
        constant = self.constant_added and ArticulatedInertia.from_array(take(21))
        (volume,) = take(1)
        x, y, z = take(3)
        shapes = tuple(replace(s, coefficients=take(len(s.coefficients))) for s in self.shapes)
        dampings = tuple(
            replace(
                d,
                linear=d.linear and tuple(take(6) for _ in range(6)),
                quadratic=d.quadratic and tuple(take(6) for _ in range(6)),
            )
            for d in self.dampings
        )
        fins = [replace(fin, coefficients=take(len(fin.coefficients))) for fin in self.fins]
        fins = [
            fin if fin.deflection is None else replace(fin, deflection=next(given)) for fin in fins
        ]
        place = self.place
        if self.run_time:
            a, b, c = take(3)
            place = (a, b, c)
        return replace(
            self,
            added=added,
            constant_added=constant,
            volume=volume,
            moment=(x, y, z),
            place=place,
            shapes=shapes,
            dampings=dampings,
            fins=tuple(fins),
        )

    def structure(self) -> tuple[object, ...]:
        """Return the data that compiled code depends on."""
        return (
            self._used(),
            tuple((s.kind, s.geometry, len(s.coefficients)) for s in self.shapes),
            tuple(
                (d.transform, d.linear is None, d.quadratic is None, d.reference)
                for d in self.dampings
            ),
            self.constant_added is None,
            self.reference,
            None if self.run_time else self.place,
            tuple(
                replace(fin, coefficients=(), deflection=fin.deflection is None)
                for fin in self.fins
            ),
        )


def added_to(parts: Sequence[Immersion]) -> ArticulatedInertia | None:
    """Return the added mass of a link from its immersed parts; None if there are none."""
    if not parts:
        return None
    total = parts[0].added
    for part in parts[1:]:
        total = total + part.added
    return total


def immersion_of(members: Sequence[tuple[BodyFluid, Transform]]) -> Immersion:
    """Combine the bodies of one link.

    Args:
        members: Coefficients of each body, with the map of motion from the plan frame to its own;
            at least one.
    """
    added = constant = ArticulatedInertia.zero()
    # coefficients of all bodies are scaled to the first reference density
    stated = (f.reference_density for f, _ in members if f.added_mass is not None)
    reference = next((density for density in stated if density is not None), None)
    volume, moment, middle = 0.0, ZERO3, ZERO3
    shapes: list[PlacedDrag] = []
    dampings: list[Damping] = []
    fins: list[PlacedFin] = []
    for fluid, X in members:
        if fluid.added_mass is not None:
            own = X.inertia_to_parent(ArticulatedInertia.from_matrix(fluid.added_mass))
            if fluid.reference_density is None or reference is None:
                constant = constant + own
            else:
                added = added + own * (reference / fluid.reference_density)
        volume += fluid.volume
        center = X.point_to_parent(fluid.center_of_buoyancy)
        moment = add(moment, scale(center, fluid.volume))
        middle = add(middle, scale(center, 1.0 / len(members)))
        shapes.extend(placed for drag in fluid.drag for placed in _placed(drag, X))
        fins.extend(placed_fin(fin, *_into(X)) for fin in fluid.fins)
        if fluid.linear_damping is not None or fluid.quadratic_damping is not None:
            matrices = (fluid.linear_damping, fluid.quadratic_damping)
            dampings.append(Damping(X, *matrices, fluid.reference_density))
    # rounding errors are relative to the largest entry
    clean, fixed = (
        ArticulatedInertia.from_array(_without_rounding(tuple(sum_of), 0.0))
        for sum_of in (added, constant)
    )
    # without displaced volume, use the mean of the centers of buoyancy
    place = _vec(scale(moment, 1.0 / volume) if volume else middle)
    x, y, z = _without_rounding(moment, volume)
    return Immersion(
        clean,
        volume,
        (x, y, z),
        tuple(shapes),
        tuple(dampings),
        place,
        tuple(fins),
        fixed if any(fixed) else None,
        reference,
    )


def _into(X: Transform) -> tuple[Callable[[Vector], Vec3], Callable[[Vector], Vec3]]:
    """Return functions that map directions and points of a body into the plan frame."""

    def turned(direction: Vector) -> Vec3:
        return _vec(X.direction_to_parent((direction[0], direction[1], direction[2])))

    def moved(point: Vector) -> Vec3:
        return _vec(X.point_to_parent((point[0], point[1], point[2])))

    return turned, moved


def _placed(drag: Drag, X: Transform) -> Iterator[PlacedDrag]:
    """Map a drag shape into the plan frame."""
    turned, moved = _into(X)
    if isinstance(drag, CylinderDrag):
        axis = turned(drag.axis)
        area = math.pi * drag.radius**2
        first, other = drag.end_coefficients
        # equal end coefficients need no case distinction
        ends = [0.5 * first * area] + ([0.5 * other * area] if other != first else [])
        coefficients = (drag.side_coefficient * drag.radius, *ends)
        geometry = (axis, _sides(axis), moved(drag.start), drag.length, first == other)
        yield PlacedDrag("cylinder", geometry, coefficients, drag.radius)
    elif isinstance(drag, SphereDrag):
        factor = 0.5 * drag.coefficient * math.pi * drag.radius**2
        yield PlacedDrag("ball", (moved(drag.center),), (factor,))
    else:
        yield _solid(drag, turned, moved)


def _solid(
    drag: BoxDrag | EllipsoidDrag, turned: Callable[[Vector], Vec3], moved: Callable[[Vector], Vec3]
) -> PlacedDrag:
    """Return the drag sections of a solid in its three midplanes."""
    if isinstance(drag, BoxDrag):
        kind, share, halves = "box", 4.0, [0.5 * s for s in drag.size]
    else:
        kind, share, halves = "ellipsoid", math.pi, list(drag.radii)
    R, center = np.array(drag.pose.rotation), moved(drag.pose.translation)
    axes = [turned(R[:, k]) for k in range(3)]
    sections, coefficients = [], []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        sections.append(((axes[k], axes[i], axes[j]), center, (halves[i], halves[j])))
        coefficients.append(0.5 * drag.coefficients[k] * share * halves[i] * halves[j])
    return PlacedDrag(kind, tuple(sections), tuple(coefficients))


def _sides(axis: Vec3) -> tuple[Vec3, Vec3]:
    """Complete an axis to an orthonormal set; coordinate axes give coordinate axes."""
    a = np.array(axis)
    k = int(np.argmax(np.abs(a)))
    b = np.eye(3)[(k + 1) % 3]
    b = b - a * float(a @ b)
    b /= np.linalg.norm(b)
    return _vec(b), _vec(np.cross(a, b))


def _vec(values: Vector) -> Vec3:
    x, y, z = _without_rounding([float(v) for v in values], 1.0)
    return x, y, z


def _without_rounding(values: Scalars, least: float) -> tuple[float, ...]:
    """Set values to zero that are rounding errors."""
    scale_of = max(least, *(abs(v) for v in values))
    return tuple(0.0 if abs(v) <= ROUNDING * scale_of else float(v) for v in values)


MIN_TILT = 2e-3
"""Smallest height of the rim of a strip, relative to its radius: smooths upright cylinders."""


def under_surface(link: Immersion, hulls: Sequence[Hull], up: Vec3, depth: Scalar) -> Immersion:
    """Return the submerged part of a link below a free surface.

    Volume and center of buoyancy are those of the submerged part. The hulls are scaled to the
    volume of the link and translated so that their centroid is its center of buoyancy: they remain
    a solid, and buoyancy remains the gradient of an energy. Added mass and lumped drag are
    proportional to Phi, strips to their own submerged fractions.

    Args:
        link: The fully submerged link.
        hulls: Solids that the link consists of.
        up: Upward unit vector, link axes.
        depth: Depth of the link's origin [m].
    """
    volume = sum(hull.volume for hull in hulls)
    weights = [hull.volume / volume for hull in hulls]
    middle = ZERO3
    for hull, weight in zip(hulls, weights, strict=True):
        middle = add(middle, scale(hull.center, weight))
    # a link without displaced volume has no center of buoyancy and does not translate its hulls
    displaced = link.volume
    moved = subtract(link.moment, scale(middle, displaced))
    moved = scale(moved, 1.0 / np.where(displaced > 0.0, displaced, 1.0))
    phi: Scalar = 0.0
    moment = ZERO3
    for hull, weight in zip(hulls, weights, strict=True):
        center = add(hull.center, moved)
        part = replace(hull, center=center).submerged(up, depth)
        phi = phi + weight * part.share
        moment = add(moment, scale(add(scale(center, part.share), part.offset), weight))
    return replace(
        link,
        added=link.added * phi,
        volume=displaced * phi,
        moment=scale(moment, displaced),
        shapes=tuple(_cut(shape, phi, up, depth) for shape in link.shapes),
        dampings=tuple(damping.scaled(phi) for damping in link.dampings),
        fins=tuple(
            replace(fin, coefficients=tuple(phi * x for x in fin.coefficients)) for fin in link.fins
        ),
    )


def _cut(shape: PlacedDrag, phi: Scalar, up: Vec3, depth: Scalar) -> PlacedDrag:
    """Return the submerged part of a drag shape."""
    if shape.kind != "cylinder":
        return replace(shape, coefficients=tuple(phi * x for x in shape.coefficients))
    axis, sides, start, *_ = shape.geometry
    rise = dot(up, axis)  # type: ignore[arg-type]
    # the rim of a strip is a circle across the axis
    b, c = (dot(up, side) for side in sides)  # type: ignore[attr-defined]
    reach = shape.radius * np.sqrt(b * b + c * c + MIN_TILT * MIN_TILT)
    first = depth - dot(up, start)  # type: ignore[arg-type]
    return replace(shape, waterline=Waterline(first, rise, reach))
