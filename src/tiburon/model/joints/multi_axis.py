"""Joints with two or three axes: cylindrical, universal and planar.

The columns of a planar joint printed in Featherstone 1987, table 8-1, are constant and belong to no
choice of coordinates; here displacements are along axes of the joint frame, so that in body
coordinates the columns of the translations rotate with the angle (section 8.2.3).
"""

import copy
import math
from typing import ClassVar

import numpy as np

from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.model.joint_constraints import Measure, Offset, Tilt, all_axes
from tiburon.model.joints.axial import (
    across,
    aligned_axes,
    coordinate_of,
    cos_sin,
    normals,
    turn_about,
    unit_axis,
)
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import Matrix3, Vec3, snap
from tiburon.record import record
from tiburon.spatial import Factor, Motion, Scalars, Transform, Translation
from tiburon.spatial.vec3 import (
    IDENTITY3,
    ZERO3,
    add,
    cross,
    dot,
    scale,
    subtract,
    transpose_vector,
)


@public
@record(slots=False)
class Cylindrical(Joint):
    """A cylindrical joint: rotates by q[0] [rad] and translates by q[1] [m] on one axis.

    v = dq/dt; the joint force is the moment about the axis [N m] and the force along it [N].

    Example:
        ``Cylindrical("piston", axis=(1, 0, 0))``
    """

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit axis in joint axes, which equal body axes at zero position."""

    kind: ClassVar[str] = "cylindrical"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    q_parts = ("angle", "slide")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", unit_axis(self.axis, self.name))

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis)

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the joint axis, unless that is a coordinate axis already."""
        if coordinate_of(self.axis) is not None:
            return IDENTITY3, self
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", (0.0, 0.0, 1.0))
        return aligned_axes(self.axis, across(self.axis)), joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coaxial axes."""
        pair = normals(self.axis)
        return (*(Offset(normal) for normal in pair), *(Tilt(normal, self.axis) for normal in pair))

    def neutral(self) -> tuple[float, ...]:
        """Return zero angle and displacement."""
        return (0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return an angle between -pi and pi and a displacement between -1 and 1 m."""
        return (float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(-1.0, 1.0)))

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        angle, slide = q
        turn = turn_about(self.axis, *cos_sin(angle))
        return Transform((Translation(scale(self.axis, slide)), turn))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return line and free vector of the axis (Featherstone 1987, table 8-1)."""
        return (Motion(self.axis, ZERO3), Motion(ZERO3, self.axis))


PARALLEL_SINE = 1e-6
"""Sine of the angle between the axes below which they are parallel."""


@public
@record(slots=False)
class Universal(Joint):
    """A universal joint: rotates by q[0] about `axis`, then by q[1] about `second_axis`.

    `axis` is fixed in the joint frame, `second_axis` in the body. v = dq/dt [rad/s]; the joint
    force is the moment about each axis [N m].

    Example:
        ``Universal("cardan", axis=(1, 0, 0), second_axis=(0, 1, 0))``
    """

    axis: Vec3 = (1.0, 0.0, 0.0)
    """Unit axis of the first rotation, in joint axes."""

    second_axis: Vec3 = (0.0, 1.0, 0.0)
    """Unit axis of the second rotation, in body axes, which equal joint axes at zero position."""

    kind: ClassVar[str] = "universal"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    q_parts = ("first", "second")

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("axis", "second_axis"):
            object.__setattr__(self, field, unit_axis(getattr(self, field), self.name, field))
        sine = float(np.linalg.norm(np.cross(self.axis, self.second_axis)))
        if sine < PARALLEL_SINE:
            raise ModelError(
                f"joint {self.name!r}: axis and second_axis must have different directions, got "
                f"{list(self.axis)} and {list(self.second_axis)}; use Revolute for one axis",
                name=self.name,
            )

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis, *self.second_axis)

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the second axis, y normal to both."""
        if coordinate_of(self.axis) is not None and coordinate_of(self.second_axis) is not None:
            return IDENTITY3, self
        z, a = self.second_axis, self.axis
        along = dot(a, z)
        Q = aligned_axes(z, subtract(a, scale(z, along)))
        x, y, z_part = snap(transpose_vector(Q, a))
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", (x, y, z_part))
        object.__setattr__(joint, "second_axis", (0.0, 0.0, 1.0))
        return Q, joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident origins and constant angle between the axes."""
        bend = Tilt(self.axis, self.second_axis, dot(self.axis, self.second_axis))
        return (*all_axes(Offset), bend)

    def neutral(self) -> tuple[float, ...]:
        """Return zero angles."""
        return (0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return angles between -pi and pi."""
        first, second = rng.uniform(-math.pi, math.pi, 2).tolist()
        return (first, second)

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        return Transform((turn_about(self.axis, *cos_sin(q[0])), self._second(q)))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the first axis in body coordinates, and the second (1987, table 8-1)."""
        first = self._second(q).direction(self.axis)
        return (Motion(first, ZERO3), Motion(self.second_axis, ZERO3))

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return Sdot: in body coordinates, the first axis rotates backward about the second."""
        first = self._second(q).direction(self.axis)
        return (Motion(cross(first, scale(self.second_axis, v[1])), ZERO3), Motion.zero())

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return Sdot v: in body coordinates, the first axis rotates backward about the second."""
        first = self._second(q).direction(self.axis)
        return Motion(cross(scale(first, v[0]), scale(self.second_axis, v[1])), ZERO3)

    def bias_derivative(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v by position."""
        turned = cross(self._second(q).direction(self.axis), self.second_axis)
        change = scale(cross(turned, self.second_axis), v[0] * v[1])
        return (Motion.zero(), Motion(change, ZERO3))

    def _second(self, q: Scalars) -> Factor:
        return turn_about(self.second_axis, *cos_sin(q[1]))


@public
@record(slots=False)
class Planar(Joint):
    """A planar joint: translates by q[0], q[1] [m] in the plane and rotates by q[2] [rad].

    Displacements are along axes fixed in the joint frame: x and y if the normal is z, and for any
    other normal those that `in_plane` returns. v = dq/dt, in the same axes. The joint force is the
    force along these axes [N] and the moment about the normal through the body origin [N m].

    Example:
        ``Planar("table")``
    """

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit normal of the plane, in joint axes."""

    kind: ClassVar[str] = "planar"
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3
    q_parts = ("x", "y", "angle")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", unit_axis(self.axis, self.name))

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis)

    def in_plane(self) -> tuple[Vec3, Vec3]:
        """Return the unit directions of q[0] and q[1] in joint axes, right-handed with the normal.

        For a normal along a coordinate axis these are the next coordinate axes in the order x, y,
        z, the second one reversed if the normal is. Otherwise the first is along the normal's cross
        product with the coordinate axis farthest from it.
        """
        coordinate = coordinate_of(self.axis)
        if coordinate is not None:
            k, sign = coordinate
            return IDENTITY3[(k + 1) % 3], scale(IDENTITY3[(k + 2) % 3], sign)
        farthest = min(range(3), key=lambda i: abs(self.axis[i]))
        first = cross(self.axis, IDENTITY3[farthest])
        first = scale(first, 1.0 / math.dist(first, ZERO3))
        return first, cross(self.axis, first)

    def canonical(self) -> tuple[Matrix3, Joint]:
        """Return axes with z along the normal and x, y along the displacements."""
        if coordinate_of(self.axis) is not None:
            return IDENTITY3, self
        joint = copy.copy(self)
        object.__setattr__(joint, "axis", (0.0, 0.0, 1.0))
        return aligned_axes(self.axis, self.in_plane()[0]), joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of a point in the plane and parallel normals."""
        leans = (Tilt(direction, self.axis) for direction in self.in_plane())
        return (Offset(self.axis), *leans)

    def neutral(self) -> tuple[float, ...]:
        """Return zero displacement and angle."""
        return (0.0, 0.0, 0.0)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a position within 1 m and an angle between -pi and pi."""
        x, y = rng.uniform(-1.0, 1.0, 2).tolist()
        return (x, y, float(rng.uniform(-math.pi, math.pi)))

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        x, y = self.in_plane()
        return Transform((Translation(add(scale(x, q[0]), scale(y, q[1]))), self._turn(q)))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the translations in body coordinates, and the rotation about the body origin."""
        turn = self._turn(q)
        x, y = (turn.direction(axis) for axis in self.in_plane())
        return (Motion(ZERO3, x), Motion(ZERO3, y), Motion(self.axis, ZERO3))

    def subspace_rate(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return Sdot: in body coordinates, the translations rotate backward about the normal."""
        turn, rate = self._turn(q), scale(self.axis, v[2])
        x, y = (Motion(ZERO3, cross(turn.direction(axis), rate)) for axis in self.in_plane())
        return (x, y, Motion.zero())

    def bias(self, q: Scalars, v: Scalars) -> Motion:
        """Return Sdot v: in body coordinates, the translations rotate backward about the normal."""
        return Motion(ZERO3, cross(self._slide(q, v), scale(self.axis, v[2])))

    def bias_derivative(self, q: Scalars, v: Scalars) -> tuple[Motion, ...]:
        """Return the derivative of Sdot v by position."""
        change = cross(cross(self._slide(q, v), self.axis), scale(self.axis, v[2]))
        return (Motion.zero(), Motion.zero(), Motion(ZERO3, change))

    def _slide(self, q: Scalars, v: Scalars) -> Vec3:
        """Return the velocity in the plane, in body axes."""
        turn = self._turn(q)
        x, y = (turn.direction(axis) for axis in self.in_plane())
        return add(scale(x, v[0]), scale(y, v[1]))

    def _turn(self, q: Scalars) -> Factor:
        return turn_about(self.axis, *cos_sin(q[2]))
