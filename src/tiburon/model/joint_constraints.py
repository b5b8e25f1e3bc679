"""Constraints of joints that close loops: scalar residuals that vanish in a closed loop.

A joint that closes a loop allows its degrees of freedom and constrains the rest. Each constraint is
a scalar measure of the second frame in the first, with its value, its constraint wrench, and its
second derivative without joint accelerations.

Symbols (Featherstone 1987, section 9.2, all in axes of the first frame F1):
    R, p        axes and origin of the second frame F2 in F1
    w, pd       angular velocity of F2 in F1, velocity of its origin as F1 sees it
    wd, pdd     their rates without joint accelerations
    n, f        wrench at the origin of F2 whose power is the rate of the measure: a column of
                R = S_perp
"""

from typing import NamedTuple, Protocol

import numpy as np

from tiburon.record import record
from tiburon.spatial import Mat3, Scalar, Vec3
from tiburon.spatial.vec3 import IDENTITY3, ZERO3, cross, dot, matrix_vector, scale

HALF_TURN_TOLERANCE = 1e-12
"""Keeps the rotation measure finite at half a turn, where its direction is undefined."""


class RelativeMotion(NamedTuple):
    """Pose and motion of one frame relative to another, in axes of that other frame."""

    R: Mat3
    p: Vec3
    w: Vec3 = ZERO3
    pd: Vec3 = ZERO3
    wd: Vec3 = ZERO3
    """Rate of w without joint accelerations [rad/s^2]."""
    pdd: Vec3 = ZERO3
    """Rate of pd without joint accelerations [m/s^2]."""


class Wrench(NamedTuple):
    """Moment and force at the origin of the second frame, in axes of the first."""

    n: Vec3
    f: Vec3


class Measure(Protocol):
    """One scalar constraint of a loop."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the residual [m or rad]."""

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return the wrench whose power is the rate of the measure."""

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the second derivative without joint accelerations [m/s^2 or rad/s^2]."""


@record
class Offset:
    """Distance of the second origin from the first along an axis of the first frame [m]."""

    axis: Vec3
    distance: float = 0.0
    """Distance while the loop is closed [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the residual distance."""
        return dot(self.axis, at.p) - self.distance

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force along the axis."""
        return Wrench(ZERO3, self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the acceleration along the axis."""
        return dot(self.axis, at.pdd)


@record
class Tilt:
    """Misalignment of a direction of the second frame with one of the first [rad, where small].

    The cosine between `along`, fixed in the first frame, and `carried`, fixed in the second, less
    that of the closed loop.
    """

    along: Vec3
    carried: Vec3
    cosine: float = 0.0

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the residual cosine."""
        return dot(self.along, matrix_vector(at.R, self.carried)) - self.cosine

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return the couple about the normal of both directions."""
        return Wrench(cross(matrix_vector(at.R, self.carried), self.along), ZERO3)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return along . (wd x c + w x (w x c)), c being the carried direction."""
        c = matrix_vector(at.R, self.carried)
        lever = cross(c, self.along)
        return dot(at.wd, lever) + dot(self.along, cross(at.w, cross(at.w, c)))


@record
class Turn:
    """Angle about an axis of the first frame, where no rotation is allowed [rad].

    Twice the vector part of the quaternion: the angle itself for small angles, and without a second
    zero at half a turn.
    """

    axis: Vec3

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the rotation about the axis."""
        (a, b, c), (d, e, f), (g, h, i) = at.R
        twice_w = np.sqrt(np.maximum(1.0 + a + e + i, HALF_TURN_TOLERANCE))
        return dot(self.axis, (h - f, c - g, d - b)) / twice_w

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit couple about the axis; exact at zero rotation."""
        return Wrench(self.axis, ZERO3)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the angular acceleration about the axis."""
        return dot(self.axis, at.wd)


@record
class Advance:
    """Residual of a screw thread [m]: displacement less pitch times angle.

    The number of turns follows from the displacement, so any number is allowed.
    """

    axis: Vec3
    across: Vec3
    """A direction normal to the axis."""
    pitch: float
    lead: float = 0.0
    """Displacement at zero angle [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the residual along the axis; also zero half a turn off, like the sine."""
        c = matrix_vector(at.R, self.across)
        cosine, sine = dot(self.across, c), dot(cross(self.axis, self.across), c)
        turn = (dot(self.axis, at.p) - self.lead) / self.pitch
        return self.pitch * (np.sin(turn) * cosine - np.cos(turn) * sine)

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force along the axis with the corresponding moment of the thread."""
        return Wrench(scale(self.axis, -self.pitch), self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the acceleration along the axis less that of the thread."""
        return dot(self.axis, at.pdd) - self.pitch * dot(self.axis, at.wd)


@record
class Slip:
    """Slip velocity of a contact point along an axis of the first frame [m/s].

    Rolling is non-holonomic (Featherstone 1987, section 7.4.4): it has no position residual.
    """

    axis: Vec3
    lever: Vec3
    """From the second origin to the point of contact, in axes of the first frame [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return zero: rolling can reach any position."""
        return 0.0

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force at the point of contact, with its moment about the origin."""
        return Wrench(cross(self.lever, self.axis), self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the rate of slip; axis and lever are fixed in the first frame."""
        return dot(self.axis, at.pdd) + dot(cross(self.lever, self.axis), at.wd)


def all_axes(kind: type[Offset] | type[Turn]) -> tuple[Measure, ...]:
    """Return constraints of one type along all three axes."""
    return tuple(kind(axis) for axis in IDENTITY3)
