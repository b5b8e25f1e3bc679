"""What a joint forbids: the measures that vanish while a loop stays closed.

A joint that closes a loop allows its freedoms and forbids the rest. What it forbids is told by
scalar measures of the second frame in the first; each knows its value, the wrench that pushes
against it, and what is left of its second rate when nothing accelerates.

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

__all__ = [
    "Advance",
    "Measure",
    "Offset",
    "RelativeMotion",
    "Slip",
    "Tilt",
    "Turn",
    "Wrench",
    "all_axes",
]

HALF_TURN = 1e-12
"""Keeps the measure of a turn finite at half a turn, where its direction is not known."""


class RelativeMotion(NamedTuple):
    """How one frame lies and moves in another, in axes of that other frame."""

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
    """One thing that vanishes while a loop is closed."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return how far it is from vanishing [m or rad]."""

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return the wrench whose power is the rate of the measure."""

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the second rate without joint accelerations [m/s^2 or rad/s^2]."""


@record
class Offset:
    """Distance of the second origin from the first along an axis of the first frame [m]."""

    axis: Vec3
    distance: float = 0.0
    """Distance while the loop is closed [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the distance that should not be."""
        return dot(self.axis, at.p) - self.distance

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force along the axis."""
        return Wrench(ZERO3, self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the acceleration along the axis."""
        return dot(self.axis, at.pdd)


@record
class Tilt:
    """How far a direction of the second frame leans along one of the first [rad, where small].

    The cosine between `along`, fixed in the first frame, and `carried`, fixed in the second, less
    that of the closed loop.
    """

    along: Vec3
    carried: Vec3
    cosine: float = 0.0

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the cosine that should not be."""
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
    """Angle about an axis of the first frame, where no turn is allowed [rad].

    Twice the vector part of the quaternion: the angle itself while it is small, and without a
    second zero at half a turn.
    """

    axis: Vec3

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the turn about the axis."""
        (a, b, c), (d, e, f), (g, h, i) = at.R
        twice_w = np.sqrt(np.maximum(1.0 + a + e + i, HALF_TURN))
        return dot(self.axis, (h - f, c - g, d - b)) / twice_w

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit couple about the axis; exact where the turn is zero."""
        return Wrench(self.axis, ZERO3)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the angular acceleration about the axis."""
        return dot(self.axis, at.wd)


@record
class Advance:
    """How far a nut is from where its thread puts it [m]: slide less pitch times turn.

    Turns are counted from the slide, so that any number of them fits.
    """

    axis: Vec3
    across: Vec3
    """A direction normal to the axis."""
    pitch: float
    lead: float = 0.0
    """Slide where the turn is zero [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return the gap along the axis; zero also half a turn off, as the sine is."""
        c = matrix_vector(at.R, self.across)
        cosine, sine = dot(self.across, c), dot(cross(self.axis, self.across), c)
        turn = (dot(self.axis, at.p) - self.lead) / self.pitch
        return self.pitch * (np.sin(turn) * cosine - np.cos(turn) * sine)

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force along the axis with the moment the thread turns it into."""
        return Wrench(scale(self.axis, -self.pitch), self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the acceleration along the axis less what the thread asks for."""
        return dot(self.axis, at.pdd) - self.pitch * dot(self.axis, at.wd)


@record
class Slip:
    """How fast a point of contact slides along an axis of the first frame [m/s]: no position.

    Rolling binds velocities alone (Featherstone 1987, section 7.4.4), so that there is no gap to
    close, only a velocity that vanishes.
    """

    axis: Vec3
    lever: Vec3
    """From the second origin to the point of contact, in axes of the first frame [m]."""

    def value(self, at: RelativeMotion) -> Scalar:
        """Return no gap: any place can be reached by rolling."""
        return 0.0

    def wrench(self, at: RelativeMotion) -> Wrench:
        """Return a unit force at the point of contact, with its moment about the origin."""
        return Wrench(cross(self.lever, self.axis), self.axis)

    def bias(self, at: RelativeMotion) -> Scalar:
        """Return the rate of slip: axis and lever stand still in the first frame."""
        return dot(self.axis, at.pdd) + dot(cross(self.lever, self.axis), at.wd)


def all_axes(kind: type[Offset] | type[Turn]) -> tuple[Measure, ...]:
    """Return measures of one kind along all three axes."""
    return tuple(kind(axis) for axis in IDENTITY3)
