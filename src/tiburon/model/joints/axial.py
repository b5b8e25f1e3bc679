"""Joints with one degree of freedom on a fixed axis: revolute, prismatic and screw."""

import copy
import math
import warnings
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from tiburon.arguments import caller_level, public
from tiburon.arrays import ArrayLike
from tiburon.errors import ModelError, ModelWarning
from tiburon.model.joint_constraints import Advance, Measure, Offset, Tilt, Turn, all_axes
from tiburon.model.joints.joint import Joint
from tiburon.model.value_checks import (
    SNAP_TOLERANCE,
    UNIT_ROUNDING,
    Matrix3,
    Vec3,
    finite_array,
    number,
    snap,
    vec3,
)
from tiburon.record import record
from tiburon.spatial import (
    AxisRotation,
    Factor,
    Force,
    Mat3,
    Motion,
    Rotation,
    Scalar,
    Scalars,
    Transform,
    Translation,
    screw_unit_force,
)
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross, scale, transpose

LENGTH_TOLERANCE = 1e-3
"""Axes whose length differs from 1 by at most this are normalized, with a warning."""

LENGTH_ROUNDING = 1e-9
"""Differences from length 1 up to this are rounding of printed digits, and normalized silently."""

_QUARTER = 0.5 * math.pi


def unit_axis(axis: ArrayLike, joint: str, quantity: str = "axis") -> Vec3:
    """Return a normalized axis, or raise.

    Raises:
        ModelError: If the length is not near 1.
    """
    given = vec3(axis, f"joint {joint!r}", quantity, joint)
    length = math.hypot(*given)
    error = abs(length - 1.0)
    if error > LENGTH_TOLERANCE:
        raise ModelError(
            f"joint {joint!r}: {quantity} must have length 1 within {LENGTH_TOLERANCE:g}, "
            f"got {length:.6g} (norm of {list(given)}); divide it by its length",
            name=joint,
        )
    if error > LENGTH_ROUNDING:
        warnings.warn(
            f"joint {joint!r}: {quantity} has length {length:.6g} (norm of {list(given)}) instead "
            "of 1 and was normalized; write more digits to silence this",
            ModelWarning,
            stacklevel=caller_level(),
        )
    if error <= UNIT_ROUNDING:
        # normalized before: another division would change bits
        length = 1.0
    x, y, z = snap([a / length for a in given])
    return (x, y, z)


def coordinate_of(axis: Vec3) -> tuple[int, float] | None:
    """Return index and sign of the coordinate axis a unit axis lies on, if it does."""
    used = [index for index, x in enumerate(axis) if x != 0.0]
    return (used[0], axis[used[0]]) if len(used) == 1 else None


def cos_sin(*angles: Scalar, offset: float | tuple[Scalar, Scalar] = 0.0) -> tuple[Scalar, Scalar]:
    """Return cosine and sine of a sum of angles [rad]; quarter turns of the offset are exact.

    The sum is not formed: rounding of a large angle would be an error of its sine, 2e-9 at 1e7 rad.

    Args:
        angles: The angles [rad].
        offset: One more angle [rad], or its cosine and sine, which may be traced.
    """
    c, s = np.cos(angles[0]), np.sin(angles[0])
    for angle in angles[1:]:
        c, s = turned_further(c, s, np.cos(angle), np.sin(angle))
    if isinstance(offset, tuple):
        return turned_further(c, s, *offset)
    quarters = round(offset / _QUARTER)
    if abs(offset - quarters * _QUARTER) > SNAP_TOLERANCE:
        return turned_further(c, s, math.cos(offset), math.sin(offset))
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]


def turned_further(c: Scalar, s: Scalar, C: Scalar, S: Scalar) -> tuple[Scalar, Scalar]:
    """Return cosine and sine of the sum of two angles from those of both."""
    return c * C - s * S, s * C + c * S


def sum_of_angles(*angles: float) -> float:
    """Return the sum of angles [rad] less whole turns of each: large ones do not round others."""
    return sum(x if abs(x) <= math.pi else math.atan2(math.sin(x), math.cos(x)) for x in angles)


def turn_about(axis: Vec3, c: Scalar, s: Scalar) -> Factor:
    """Return the transform to axes rotated right-handed about a unit axis, from cosine and sine."""
    coordinate = coordinate_of(axis)
    if coordinate is not None:
        k, sign = coordinate
        return AxisRotation(k, c, sign * s)
    return Rotation(_turned_axes(axis, c, s))


def _turned_axes(axis: Vec3, c: Scalar, s: Scalar) -> Mat3:
    """Return the matrix from joint to body axes, E = c 1 + (1 - c) a a^T - s [a x] (Rodrigues)."""
    x, y, z = axis
    t = 1.0 - c
    tx, ty, tz = t * x, t * y, t * z
    sx, sy, sz = s * x, s * y, s * z
    xy, xz, yz = tx * y, tx * z, ty * z
    return (
        (c + tx * x, xy + sz, xz - sy),
        (xy - sz, c + ty * y, yz + sx),
        (xz + sy, yz - sx, c + tz * z),
    )


def aligned_axes(z: Vec3, x: Vec3) -> Matrix3:
    """Return the rotation with columns x normalized, z cross x, and the unit vector z.

    Args:
        z: Unit vector.
        x: Any non-zero vector normal to z.
    """
    x = scale(x, 1.0 / math.dist(x, ZERO3))
    entries = snap(entry for row in transpose((x, cross(z, x), z)) for entry in row)
    return (entries[0:3], entries[3:6], entries[6:9])  # type: ignore[return-value]


def normals(axis: Vec3) -> tuple[Vec3, Vec3]:
    """Return two orthonormal vectors normal to a unit axis."""
    first = across(axis)
    first = scale(first, 1.0 / math.dist(first, ZERO3))
    return first, cross(axis, first)


def across(axis: Vec3) -> Vec3:
    """Return a vector normal to a unit axis, of length well above zero."""
    farthest = min(range(3), key=lambda i: abs(axis[i]))
    return cross(IDENTITY3[farthest], axis)


@public
@record(slots=False)
class AxialJoint(Joint):
    """A joint with one degree of freedom and a fixed axis through the joint frame's origin."""

    axis: Vec3 = (0.0, 0.0, 1.0)
    """Unit axis in joint axes, which equal body axes at zero position."""

    offset: float = 0.0
    """Offset added to q: position of the body at q = 0 [rad or m]."""

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1
    reach: ClassVar[float] = math.pi

    _turns: ClassVar[bool] = False
    """Whether the offset is an angle, which code reads as cosine and sine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", unit_axis(self.axis, self.name))
        offset = number(self.offset, f"joint {self.name!r}", "offset", self.name)
        object.__setattr__(self, "offset", offset)

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (self.kind, *self.axis, self.offset)

    def random(self, rng: "np.random.Generator") -> tuple[float, ...]:
        """Return a position within `reach` [rad or m]."""
        return (float(rng.uniform(-self.reach, self.reach)),)

    def without_offset(self) -> tuple[Joint, tuple[float, ...]]:
        """Return the joint without its offset, and the offset."""
        if not self._has_offset():
            return self, ()
        numbers = cos_sin(0.0, offset=self.offset) if self._turns else (self.offset,)
        return self.rebased(self.axis, 0.0), tuple(map(float, numbers))

    def no_offset(self) -> tuple[float, ...]:
        """Return cosine and sine of zero if the joint turns, else (0,)."""
        return (1.0, 0.0) if self._turns else (0.0,)

    def with_offset(self, offset: Scalars) -> Joint:
        """Return the joint, which has none, with an offset."""
        value: object = 0.0
        if offset:
            value = tuple(offset) if self._turns else offset[0]
        return self._with_raw_offset(value)

    def offset_and(self, more: float) -> float:
        """Return the sum of its offset and another [rad or m], angles less whole turns."""
        return sum_of_angles(self.offset, more) if self._turns else self.offset + more

    def moved_further(self, offset: float) -> Self:
        """Return the joint with a larger offset [rad or m]."""
        return self._with_raw_offset(self.offset_and(offset))

    def _with_raw_offset(self, value: object) -> Self:
        joint = copy.copy(self)
        for x in value if isinstance(value, tuple) else (value,):
            if isinstance(x, float):
                # others are traced
                number(x, f"joint {self.name!r}", "offset", self.name)
        object.__setattr__(joint, "offset", value)
        return joint

    def _has_offset(self) -> bool:
        """Return whether an offset is added; a traced one is."""
        offset: object = self.offset
        return not isinstance(offset, float) or offset != 0.0

    def neutral(self) -> tuple[float, ...]:
        """Return (0,)."""
        return (0.0,)

    def coordinate(self) -> tuple[int, float] | None:
        """Return index and sign of the coordinate axis the joint axis lies on, if it does."""
        return coordinate_of(self.axis)

    def rebased(self, axis: Vec3, offset: float) -> Self:
        """Return the same joint in other frames, with another axis and offset.

        Args:
            axis: Unit axis in the new joint axes; not checked again.
            offset: Position of the new body frame at q = 0 [rad or m].
        """
        joint = copy.copy(self)
        axis = vec3(axis, f"joint {self.name!r}", "axis", self.name)
        offset = number(offset, f"joint {self.name!r}", "offset", self.name)
        object.__setattr__(joint, "axis", axis)
        object.__setattr__(joint, "offset", offset)
        return joint

    def _along(self, rate: float) -> Vec3:
        x, y, z = self.axis
        return (x * rate, y * rate, z * rate)

    def _first(self, q: Sequence[float]) -> float:
        (value,) = q
        return value


@public
@record(slots=False)
class Revolute(AxialJoint):
    """A revolute joint: the body rotates right-handed about the axis by q + offset [rad].

    Example:
        ``Revolute("elbow", axis=(0, 1, 0), pose=Pose(translation=(0, 0, 0.3)))``
    """

    kind: ClassVar[str] = "revolute"
    _turns: ClassVar[bool] = True

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coincident origins and parallel axes."""
        leans = (Tilt(normal, self.axis) for normal in normals(self.axis))
        return (*all_axes(Offset), *leans)

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        return Transform((turn_about(self.axis, *cos_sin(*q, offset=self.offset)),))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the line vector of the axis (Featherstone 1987, section 2.3.2)."""
        return (Motion(self.axis, (0.0, 0.0, 0.0)),)

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return the velocity of the body relative to its parent."""
        return Motion(self._along(self._first(v)), (0.0, 0.0, 0.0))


@public
@record(slots=False)
class Prismatic(AxialJoint):
    """A prismatic joint: the body translates along the axis by q + offset [m].

    Example:
        ``Prismatic("rail", axis=(1, 0, 0))``
    """

    kind: ClassVar[str] = "prismatic"
    reach: ClassVar[float] = 1.0

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of equal orientation and origins on the axis."""
        return (*all_axes(Turn), *(Offset(normal) for normal in normals(self.axis)))

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        (distance,) = q
        if self._has_offset():
            distance = distance + self.offset
        return Transform((Translation(self._along(distance)),))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the free vector of the axis (Featherstone 1987, section 2.3.2)."""
        return (Motion((0.0, 0.0, 0.0), self.axis),)

    def motion(self, q: Scalars, v: Scalars) -> Motion:
        """Return the velocity of the body relative to its parent."""
        return Motion((0.0, 0.0, 0.0), self._along(self._first(v)))


@public
@record(slots=False)
class Screw(AxialJoint):
    """A screw joint: rotates by q + offset [rad], translates by pitch times that plus `lead` [m].

    The joint force is the couple about the axis that does the same work [N m].

    Example:
        A thread that advances 5 mm per turn: ``Screw("spindle", pitch=0.005 / (2 * math.pi))``
    """

    pitch: float = 0.0
    """Pitch, positive for a right-handed thread [m/rad]."""

    lead: float = 0.0
    """Displacement along the axis where q + offset is zero [m]."""

    kind: ClassVar[str] = "screw"
    _turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("pitch", "lead"):
            value = finite_array(getattr(self, field), (), f"joint {self.name!r}", field, self.name)
            object.__setattr__(self, field, float(value))

    def structure(self) -> tuple[object, ...]:
        """Return what compiled code depends on."""
        return (*super().structure(), self.pitch, self.lead)

    def parameters(self) -> tuple[float, ...]:
        """Return pitch and lead."""
        return (self.pitch, self.lead)

    def with_parameters(self, numbers: Scalars) -> Self:
        """Return a joint with another pitch and lead."""
        joint = copy.copy(self)
        for field, value in zip(("pitch", "lead"), numbers, strict=True):
            object.__setattr__(joint, field, value)
        return joint

    def loop_constraints(self) -> tuple[Measure, ...]:
        """Return the constraints of coaxial axes and the thread."""
        first, second = normals(self.axis)
        advance: Measure = Offset(self.axis, self.lead)
        if self.pitch != 0.0:
            advance = Advance(self.axis, first, self.pitch, self.lead)
        leans = (Tilt(normal, self.axis) for normal in (first, second))
        return (Offset(first), Offset(second), *leans, advance)

    def transform(self, q: Scalars) -> Transform:
        """Return the map of motion from the joint frame to the body frame."""
        lead = self.lead
        if isinstance(self.offset, float):
            # else the lead has it (`without_offset`)
            lead = self.pitch * self.offset + lead
        slide = self.pitch * sum(q[1:], q[0]) + lead
        turn = turn_about(self.axis, *cos_sin(*q, offset=self.offset))
        return Transform((Translation(self._along(slide)), turn))

    def subspace(self, q: Scalars) -> tuple[Motion, ...]:
        """Return the screw of the axis (Featherstone 1987, section 7.3)."""
        return (Motion(self.axis, self._along(self.pitch)),)

    def unit_force(self) -> Force:
        """Return the wrench along the screw that does unit work on the unit motion (sec. 7.3).

        Force along the axis and couple about it in the proportion of the screw, in body
        coordinates.
        """
        return screw_unit_force(self.axis, self.pitch)

    def moved_further(self, offset: float) -> Self:
        """Return the joint with a larger offset [rad]; the displacement is that of all turns."""
        joint = super().moved_further(offset)
        turns = self.offset + offset - joint.offset
        object.__setattr__(joint, "lead", self.lead + self.pitch * turns)
        return joint

    def rebased(self, axis: Vec3, offset: float) -> Self:
        """Return the same joint in other frames; the displacement is unchanged."""
        joint = super().rebased(axis, offset)
        object.__setattr__(joint, "lead", self.lead - self.pitch * (offset - self.offset))
        return joint
