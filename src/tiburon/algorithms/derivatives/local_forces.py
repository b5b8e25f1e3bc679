"""Derivatives of local forces on bodies: hydrodynamic forces, added mass and given inertias.

Beyond its rigid part, the required force of such a body depends on its own pose, velocity and
acceleration only:

    F(pose, vel, acc) = A(pose) a - f(pose, vel)

with A the added mass, a the classical acceleration and f the hydrodynamic force. This function is
differentiated in forward mode; the recursion of `inverse_dynamics` propagates the result, so that
code size grows with the number of bodies, not with that of pairs of bodies and joints.

Symbols (as in `tiburon.algorithms.derivatives.inverse_dynamics`):
    A       change of F with the acceleration
    B       change of F with a velocity m that also changes the acceleration, by m x vel
    K       change of F with a small displacement of the body, in body axes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.algorithms.kinematics import Place as Pose
from tiburon.algorithms.kinematics import body_places
from tiburon.algorithms.root_frame import Place
from tiburon.algorithms.setting import BodyInertias, Setting, force_of_inertia, inertias_by_body
from tiburon.algorithms.traversal import each
from tiburon.hydro.immersion import added_to
from tiburon.model import PlanBody
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, Motion, Scalar, Scalars
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    add_cross,
    cross,
    matrix_vector,
    negate,
    subtract,
    transpose_vector,
)
from tiburon.trace.derivative import values_and_tangents


@record
class Matrix6:
    """A linear map from motions to forces: one force per component of a motion."""

    columns: tuple[Force, ...]

    @classmethod
    def zero(cls) -> Matrix6:
        """Return zero."""
        return cls((Force.zero(),) * 6)

    def __add__(self, other: Matrix6) -> Matrix6:
        return Matrix6(tuple(a + b for a, b in zip(self.columns, other.columns, strict=True)))

    def apply(self, m: Motion) -> Force:
        """Return the force of a motion."""
        return _combined(self.columns, tuple(m))

    def apply_transpose(self, m: Motion) -> tuple[Scalar, ...]:
        """Return the transpose of the map, applied to a motion: six scalars."""
        return tuple(m.dot(column) for column in self.columns)

    def moved(self, place: Place) -> Matrix6:
        """Transform the map from body axes to the common frame."""
        angular, linear = self.columns[:3], self.columns[3:]
        # a unit motion along a common axis, in body axes
        turns = [place.force(_combined(angular, row)) for row in place.R]
        shifts = [place.force(_combined(linear, row)) for row in place.R]
        # a rotation about the common origin also translates the body
        turns = [
            turn + _combined(shifts, negate(cross(place.o, axis)))
            for turn, axis in zip(turns, IDENTITY3, strict=True)
        ]
        return Matrix6((*turns, *shifts))


def _combined(forces: Sequence[Force], weights: Scalars) -> Force:
    """Return the sum of forces times weights."""
    total = Force.zero()
    for force, weight in zip(forces, weights, strict=True):
        total = total + force * weight
    return total


@record
class LocalForce:
    """Required force of a body beyond its rigid part, in the common frame; they add."""

    F: Force
    A: ArticulatedInertia
    B: Matrix6
    K: Matrix6

    @classmethod
    def zero(cls) -> LocalForce:
        """Return zero."""
        return cls(Force.zero(), ArticulatedInertia.zero(), Matrix6.zero(), Matrix6.zero())

    def __add__(self, other: LocalForce) -> LocalForce:
        return LocalForce(self.F + other.F, self.A + other.A, self.B + other.B, self.K + other.K)


def local_forces(
    around: Setting,
    q: Scalars,
    places: Sequence[Place],
    velocities: Sequence[Motion],
    accelerations: Sequence[Motion],
) -> tuple[LocalForce, ...]:
    """Differentiate the force on each body with respect to its pose, velocity and acceleration.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        places: Pose of each body in the common frame.
        velocities: Of each body, in the common frame.
        accelerations: Spatial accelerations minus gravity, in the common frame.
    """
    plan, water = around.plan, around.water
    floating = None if water is None else water.floating
    nothing: tuple[Any, ...] = ((),) * len(plan.bodies)
    links, hulls = nothing, nothing
    if floating is not None:
        links, hulls = floating.links, floating.hulls
    elif water is not None:
        links = water.links
    inertias = inertias_by_body(plan, around.options, around.arrays)

    def differentiate(
        body: PlanBody,
        pose: Pose,
        place: Place,
        vel: Motion,
        acc: Motion,
        link: Any,
        solids: Any,
        given: BodyInertias,
    ) -> LocalForce:
        if body.added is None and not link:
            return LocalForce.zero()
        added = ArticulatedInertia.zero() if body.added is None else body.added

        def force(pose: Pose, vel: Motion, acc: Motion) -> Force:
            A, met = added, link
            if floating is not None:
                from tiburon.algorithms.water.floating import submerged_link

                met = submerged_link(pose, link, solids, floating.surface)
                A = added_to(met) or ArticulatedInertia.zero()
                for X, inertia in given:
                    A = A + X.inertia_to_parent(inertia)
            a = add_cross(acc.linear, vel.angular, vel.linear)
            F = A.apply(Motion(acc.angular, a))
            if water is not None:
                from tiburon.algorithms.water.fluid import force_on_link

                F = F - force_on_link(vel, pose, met, around.gravity, water)
            g = transpose_vector(pose.R, around.gravity)
            for X, inertia in given:
                F = F - force_of_inertia(X, inertia, vel.angular, g)
            return F

        found = _differentiated(force, pose, _seen(place, vel), _seen(place, acc))
        F, by_pose, by_velocity = found
        return LocalForce(
            place.force(F),
            added.rotated(place.R).shifted(place.o),
            by_velocity.moved(place),
            by_pose.moved(place),
        )

    poses = body_places(plan, q)
    every = range(len(plan.bodies))
    return each(
        plan, differentiate, every, poses, places, velocities, accelerations, links, hulls, inertias
    )


def _seen(place: Place, m: Motion) -> Motion:
    """Transform a motion from the common frame to body coordinates."""
    linear = subtract(m.linear, cross(place.o, m.angular))
    return Motion(transpose_vector(place.R, m.angular), transpose_vector(place.R, linear))


def _differentiated(
    force: Callable[[Pose, Motion, Motion], Force], pose: Pose, vel: Motion, acc: Motion
) -> tuple[Force, Matrix6, Matrix6]:
    """Return a force and its derivatives K and B, all in body coordinates."""

    def call(given: list[Any]) -> tuple[tuple[Scalar, ...], list[list[Any]]]:
        rows = [tuple(given[k : k + 3]) for k in range(0, 24, 3)]
        R: Any = (rows[0], rows[1], rows[2])
        p: Any = rows[3]
        velocity = Motion.from_array(given[12:18])
        acceleration = Motion.from_array(given[18:24])
        none = [0.0] * 12
        directions: list[list[Any]] = []
        for axis in IDENTITY3:
            # R changes by R (axis x)
            directions.append([*(x for row in R for x in cross(row, axis)), *ZERO3, *none])
        directions += [[*(0.0,) * 9, *matrix_vector(R, axis), *none] for axis in IDENTITY3]
        for k in range(6):
            unit = Motion.from_array([float(i == k) for i in range(6)])
            directions.append([*none, *unit, *unit.cross(velocity)])
        return tuple(force(Pose(R, p), velocity, acceleration)), directions

    arguments = [*(x for row in pose.R for x in row), *pose.p, *vel, *acc]
    F, tangents = values_and_tangents(call, arguments)
    columns = [Force.from_array(tangent) for tangent in tangents]
    return Force.from_array(F), Matrix6(tuple(columns[:6])), Matrix6(tuple(columns[6:]))
