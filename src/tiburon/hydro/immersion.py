"""A link of a robot under water: what its bodies' numbers come to in the frame of the plan.

Bodies on fixed joints move as one link, so in water that moves alike everywhere their added masses
and displaced volumes add. Shapes of drag stay apart: what a shape feels depends on the square of
the velocity where it is. In other water each body is an immersion of its own.

Places and directions are structure, compiled in; masses, volumes and coefficients are numbers that
a kernel takes at run time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.hydro.forces import added_mass_bias, damping_force, total_buoyancy
from tiburon.hydro.lift import PlacedFin, placed_fin
from tiburon.hydro.pressure_drag import ball_drag, cylinder_drag, face_drag
from tiburon.hydro.submersion import strip_share
from tiburon.model.body_fluid import (
    BodyFluid,
    BoxDrag,
    CylinderDrag,
    Drag,
    EllipsoidDrag,
    SphereDrag,
)
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_cross, scale

__all__ = ["Immersion", "Strips", "Surroundings", "added_to", "immersion_of"]

Vector = Sequence[Scalar] | NDArray[np.float64]
"""Three floats."""

ROUNDING = 1e-14
"""Parts of a unit vector or length below this are rounding of a turned frame, and zero."""


class Surroundings(NamedTuple):
    """What water does around one link, in the axes of its plan frame."""

    density: Scalar
    """[kg/m^3]."""

    w: Vec3
    """Angular velocity of the link [rad/s]."""

    v_r: Vec3
    """Velocity of the frame's origin relative to the fluid [m/s]."""

    a_fg: Vec3
    """Acceleration of the fluid less that of free fall [m/s^2]."""

    flow: Callable[[Vec3], Vec3] | None = None
    """By how much the fluid moves faster at a point of the link than where v_r was taken [m/s];
    None where it moves alike everywhere."""

    def relative(self, point: Vec3) -> Vec3:
        """Return the velocity of a point of the link relative to the fluid there [m/s]."""
        u = add_cross(self.v_r, self.w, point)
        return u if self.flow is None else add(u, scale(self.flow(point), -1.0))


class Strips(NamedTuple):
    """How cylinders, and sections of other solids, are cut for drag."""

    points: int = 4
    """Number of strips of a cylinder; the sources take four."""

    split: bool = False
    """Whether to cut where the flow across the cylinder is slowest, and take both parts."""

    @property
    def across(self) -> int:
        """Points along each axis of a section of a box or an ellipsoid, in water that varies."""
        return (self.points + 1) // 2


@record(slots=False)
class Waterline:
    """How deep the axis of a cylinder is along its length."""

    depth: Scalar
    """Of the first end below the surface [m]."""

    rise: Scalar
    """By how much that decreases per length of the axis."""

    reach: Scalar
    """How far above and below the axis the rim of a strip is [m]."""

    def share(self, s: Scalar) -> Scalar:
        """Return how much of the strip at a distance along the axis [m] is under water."""
        return strip_share((self.depth - s * self.rise) / self.reach)


@record(slots=False)
class PlacedDrag:
    """One shape on which drag acts, in a plan frame."""

    kind: str
    geometry: tuple[object, ...]
    """Places, directions and lengths."""

    numbers: tuple[Scalar, ...]
    """Areas times coefficients."""

    radius: float = 0.0
    """Of a cylinder [m]: how far its strips reach; only a surface asks for it."""

    waterline: Waterline | None = None
    """Where a surface cuts a cylinder; None where all of it is under water."""

    def force(self, around: Surroundings, strips: Strips) -> Force:
        """Return the drag, about the origin of the plan frame."""
        factors = [around.density * x for x in self.numbers]
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
    """Density that the matrices are stated for [kg/m^3]; None where they hold as they stand."""

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
    """A link under water, in its plan frame."""

    added: ArticulatedInertia
    """Added mass about the origin at the reference density [kg m^2, kg m, kg]."""

    volume: Scalar
    """Displaced [m^3]."""

    moment: Vec3
    """Volume times center of buoyancy [m^4]."""

    shapes: tuple[PlacedDrag, ...]
    dampings: tuple[Damping, ...]

    place: Vec3 = ZERO3
    """Center of buoyancy, where water is taken to act on the whole link [m]: structure."""

    fins: tuple[PlacedFin, ...] = ()

    constant_added: ArticulatedInertia | None = None
    """Added mass that does not depend on the density of the fluid; None where there is none."""

    reference: float | None = None
    """Density that `added` is stated for [kg/m^3]; None where it is that of the fluid at hand."""

    run_time: bool = False
    """Whether code takes every number at run time, zeros and `place` included."""

    def in_fluid(self, density: Scalar) -> "Immersion":
        """Return the link with the added mass and damping it has in a fluid of a density.

        Coefficients scale with density from the one that they are stated for, so that they vanish
        in a fluid of density zero.

        Args:
            density: Of the fluid [kg/m^3].
        """
        added = self.added
        if self.reference is not None:
            added = added * (density / self.reference)
        if self.constant_added is not None:
            added = added + self.constant_added
        dampings = tuple(damping.in_fluid(density) for damping in self.dampings)
        return replace(self, added=added, dampings=dampings, constant_added=None, reference=None)

    def force(self, around: Surroundings, strips: Strips) -> Force:
        """Return all that water does to the link beyond -I^A a', about the frame's origin.

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
            density: Of the water [kg/m^3].
            a_fg: Acceleration of the water less that of free fall, plan axes [m/s^2].
        """
        return total_buoyancy(density * self.volume, scale(self.moment, density), a_fg)

    def _scalars(self) -> Iterator[Scalar]:
        """Go through all numbers a kernel may take at run time, but for angles of fins."""
        yield from self.added
        yield from self.constant_added or ()
        yield self.volume
        yield from self.moment
        for shape in self.shapes:
            yield from shape.numbers
        for damping in self.dampings:
            for matrix in (damping.linear, damping.quadratic):
                for row in matrix or ():
                    yield from row
        for fin in self.fins:
            yield from fin.numbers
        if self.run_time:
            yield from self.place

    def _used(self) -> tuple[bool, ...]:
        """Which of `_scalars` a kernel takes at run time."""
        return tuple(self.run_time or x != 0.0 for x in self._scalars())

    def parameters(self) -> tuple[float, ...]:
        """Return the numbers a kernel takes at run time: those that are not zero.

        Angles of fins that can be turned come last, whatever they are.
        """
        angles = (fin.deflection for fin in self.fins if fin.deflection is not None)
        taken = zip(self._scalars(), self._used(), strict=True)
        return (*(x for x, used in taken if used), *angles)

    def with_parameters(self, numbers: Sequence[Scalar]) -> "Immersion":
        """Return the same link with other scalars in place of `numbers`."""
        given = iter(numbers)
        all_of = iter([next(given) if used else 0.0 for used in self._used()])

        def take(count: int) -> tuple[Scalar, ...]:
            return tuple(next(all_of) for _ in range(count))

        added = ArticulatedInertia.from_array(take(21))
        constant = self.constant_added and ArticulatedInertia.from_array(take(21))
        (volume,) = take(1)
        x, y, z = take(3)
        shapes = tuple(replace(s, numbers=take(len(s.numbers))) for s in self.shapes)
        dampings = tuple(
            replace(
                d,
                linear=d.linear and tuple(take(6) for _ in range(6)),
                quadratic=d.quadratic and tuple(take(6) for _ in range(6)),
            )
            for d in self.dampings
        )
        fins = [replace(fin, numbers=take(len(fin.numbers))) for fin in self.fins]
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
        """Return what compiled code depends on."""
        return (
            self._used(),
            tuple((s.kind, s.geometry, len(s.numbers)) for s in self.shapes),
            tuple(
                (d.transform, d.linear is None, d.quadratic is None, d.reference)
                for d in self.dampings
            ),
            self.constant_added is None,
            self.reference,
            None if self.run_time else self.place,
            tuple(replace(fin, numbers=(), deflection=fin.deflection is None) for fin in self.fins),
        )


def added_to(parts: Sequence[Immersion]) -> ArticulatedInertia | None:
    """Return the added mass of a link that water meets in parts; None where it meets none."""
    if not parts:
        return None
    total = parts[0].added
    for part in parts[1:]:
        total = total + part.added
    return total


def immersion_of(members: Sequence[tuple[BodyFluid, Transform]]) -> Immersion:
    """Gather bodies of one link.

    Args:
        members: Numbers of each body, with the map of motion from the plan frame to its own; at
            least one.
    """
    added = constant = ArticulatedInertia.zero()
    # coefficients of all bodies are brought to the density that the first of them states
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
    # what is rounding goes with the size of the body: small ones have small numbers
    clean, fixed = (
        ArticulatedInertia.from_array(_without_rounding(tuple(sum_of), 0.0))
        for sum_of in (added, constant)
    )
    # where nothing is displaced, water still meets the bodies where they say
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
    """Return what brings directions, and points, of a body into the plan frame."""

    def turned(direction: Vector) -> Vec3:
        return _vec(X.direction_to_parent((direction[0], direction[1], direction[2])))

    def moved(point: Vector) -> Vec3:
        return _vec(X.point_to_parent((point[0], point[1], point[2])))

    return turned, moved


def _placed(drag: Drag, X: Transform) -> Iterator[PlacedDrag]:
    """Bring a shape into the plan frame."""
    turned, moved = _into(X)
    if isinstance(drag, CylinderDrag):
        axis = turned(drag.axis)
        area = math.pi * drag.radius**2
        first, other = drag.end_coefficients
        # opposite faces that are alike need no choice between them
        ends = [0.5 * first * area] + ([0.5 * other * area] if other != first else [])
        numbers = (drag.side_coefficient * drag.radius, *ends)
        geometry = (axis, _sides(axis), moved(drag.start), drag.length, first == other)
        yield PlacedDrag("cylinder", geometry, numbers, drag.radius)
    elif isinstance(drag, SphereDrag):
        factor = 0.5 * drag.coefficient * math.pi * drag.radius**2
        yield PlacedDrag("ball", (moved(drag.center),), (factor,))
    else:
        yield _solid(drag, turned, moved)


def _solid(
    drag: BoxDrag | EllipsoidDrag,
    turned: Callable[[Vector], Vec3],
    moved: Callable[[Vector], Vec3],
) -> PlacedDrag:
    """Cut a solid in its three middle planes."""
    if isinstance(drag, BoxDrag):
        kind, share, halves = "box", 4.0, [0.5 * s for s in drag.size]
    else:
        kind, share, halves = "ellipsoid", math.pi, list(drag.radii)
    R, center = np.array(drag.pose.rotation), moved(drag.pose.translation)
    axes = [turned(R[:, k]) for k in range(3)]
    sections, numbers = [], []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        sections.append(((axes[k], axes[i], axes[j]), center, (halves[i], halves[j])))
        numbers.append(0.5 * drag.coefficients[k] * share * halves[i] * halves[j])
    return PlacedDrag(kind, tuple(sections), tuple(numbers))


def _sides(axis: Vec3) -> tuple[Vec3, Vec3]:
    """Return two unit vectors that complete an axis; coordinate axes where it is one."""
    a = np.array(axis)
    k = int(np.argmax(np.abs(a)))
    b = np.eye(3)[(k + 1) % 3]
    b = b - a * float(a @ b)
    b /= np.linalg.norm(b)
    return _vec(b), _vec(np.cross(a, b))


def _vec(values: Vector) -> Vec3:
    x, y, z = _without_rounding([float(v) for v in values], 1.0)
    return x, y, z


def _without_rounding(values: Sequence[Scalar], least: float) -> tuple[float, ...]:
    """Return numbers with those that only rounding made nonzero set to zero."""
    scale_of = max(least, *(abs(v) for v in values))
    return tuple(0.0 if abs(v) <= ROUNDING * scale_of else float(v) for v in values)
