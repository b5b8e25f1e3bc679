"""Motion and force vectors of spatial (6-D) algebra; spatial and classical accelerations.

Both keep the angular part first: motion ``[omega; v]``, force ``[n; f]`` (McMillan 1994,
eqs. 1.1-1.3). Featherstone 1987 writes forces the other way round, ``[f; n]``, which lets one
transform and one cross operator serve both kinds; here the kinds are distinct types, so that a
force can never be added to a motion by mistake.

The spatial acceleration of a body is the rate of its spatial velocity seen from a fixed frame;
its linear part follows the stream of body points through the origin. The classical acceleration is
that of the one body point at the origin. They differ by omega x v (Featherstone 1987, sec. 2.7,
eq. 2.29): a body in steady rotation about a fixed axis has no spatial acceleration.

Most algorithms use spatial accelerations. Those optimized for speed use classical ones, which need
no velocity of a point: the rotation of a body contributes to the acceleration of its points a
matrix times their position (`rate_matrix`, `centripetal_matrix`).

Symbols: m, v motion; f force; ``x`` the motion cross product, ``x*`` its dual for forces.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from tiburon.arrays import NDArray
from tiburon.record import record
from tiburon.spatial.vec3 import (
    ZERO3,
    Mat3,
    Scalar,
    Scalars,
    Sym3,
    Vec3,
    add,
    add_cross,
    cross,
    dot,
    negate,
    pack,
    scale,
    skew,
    subtract,
    unpack,
    vec3,
)


@record
class Motion:
    """A velocity, acceleration, displacement or joint axis: ``[omega; v]``.

    The linear part belongs to the body point at the origin of the frame, so it changes with the
    origin: v_O = v_P + OP x omega (Featherstone 1987, eq. 2.1).
    """

    angular: Vec3
    """Angular part, frame axes [rad/s for a velocity], three scalars."""

    linear: Vec3
    """Linear part of the body point at the frame's origin, frame axes [m/s for a velocity]."""

    # NumPy scalars on the left of * defer to this class
    __array_ufunc__: ClassVar[None] = None

    @classmethod
    def zero(cls) -> "Motion":
        """Return the motion of a body at rest."""
        return cls(ZERO3, ZERO3)

    @classmethod
    def from_array(cls, values: Scalars | NDArray[Any]) -> "Motion":
        """Build from six elements ``[omega; v]``."""
        a, b, c, d, e, f = unpack(values, (6,), "motion")
        return cls((a, b, c), (d, e, f))

    @property
    def array(self) -> NDArray[Any]:
        """The six elements ``[omega; v]`` as an array, shape (6,)."""
        return pack(self, (6,))

    def __iter__(self) -> Iterator[Scalar]:
        """Iterate over the six elements, angular first."""
        yield from self.angular
        yield from self.linear

    def __add__(self, other: "Motion") -> "Motion":
        if not isinstance(other, Motion):
            return NotImplemented
        return Motion(add(self.angular, other.angular), add(self.linear, other.linear))

    def __sub__(self, other: "Motion") -> "Motion":
        if not isinstance(other, Motion):
            return NotImplemented
        return Motion(subtract(self.angular, other.angular), subtract(self.linear, other.linear))

    def __neg__(self) -> "Motion":
        return Motion(negate(self.angular), negate(self.linear))

    def __mul__(self, factor: Scalar) -> "Motion":
        if isinstance(factor, Motion | Force):
            return NotImplemented
        return Motion(scale(self.angular, factor), scale(self.linear, factor))

    __rmul__ = __mul__

    def dot(self, force: "Force") -> Scalar:
        """Return the scalar product with a force, such as the power [W] of a force on a body.

        Defined between a motion and a force only, and independent of the frame (Featherstone
        1987, eq. 3.17).
        """
        (x, y, z), (a, b, c) = self.linear, force.force
        return dot(self.angular, force.moment) + x * a + y * b + z * c

    def cross(self, other: "Motion") -> "Motion":
        """Return ``self x other``, the rate of a motion vector carried along by this velocity.

        Featherstone 1987, eqs. 2.24 and 2.27.
        """
        return Motion(
            cross(self.angular, other.angular),
            add_cross(cross(self.angular, other.linear), self.linear, other.angular),
        )

    def cross_force(self, force: "Force") -> "Force":
        """Return ``self x* force``, the rate of a force vector carried along by this velocity.

        Featherstone 1987, eqs. 2.24 and 2.27, in the order moment first.
        """
        return Force(
            add_cross(cross(self.angular, force.moment), self.linear, force.force),
            cross(self.angular, force.force),
        )

    def cross_matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix of ``self x`` on motions (Featherstone 1987, eq. 2.24)."""
        omega, v = skew(self.angular), skew(self.linear)
        zero = (ZERO3, ZERO3, ZERO3)
        return _blocks(omega, zero, v, omega)

    def cross_force_matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix of ``self x*`` on forces: minus the transpose of the other."""
        omega, v = skew(self.angular), skew(self.linear)
        zero = (ZERO3, ZERO3, ZERO3)
        return _blocks(omega, v, zero, omega)

    def at_point(self, point: Scalars) -> Vec3:
        """Return the linear velocity [m/s] of the body point at a position [m], frame axes.

        The same map applies to the displacement of a point by a small displacement of the body. It
        does not apply to a point's acceleration: see :mod:`tiburon.spatial.vectors`.
        """
        return add_cross(self.linear, self.angular, vec3(point, "point"))


@record
class Force:
    """A force, momentum or impulse: ``[n; f]``, the moment about the origin and the force."""

    moment: Vec3
    """Moment about the frame's origin, frame axes [N m for a force], three scalars."""

    force: Vec3
    """Linear force, frame axes [N], three scalars."""

    # NumPy scalars on the left of * defer to this class
    __array_ufunc__: ClassVar[None] = None

    @classmethod
    def zero(cls) -> "Force":
        """Return the zero force."""
        return cls(ZERO3, ZERO3)

    @classmethod
    def at_point(cls, force: Scalars, point: Scalars, couple: Scalars = ZERO3) -> "Force":
        """Build from a force along a line through a point, and a couple.

        Featherstone 1987, sec. 2.3.3.

        Args:
            force: Force, frame axes [N], shape (3,).
            point: Any point of its line of action, frame axes [m], shape (3,).
            couple: Free moment, frame axes [N m], shape (3,).
        """
        f = vec3(force, "force")
        return cls(add_cross(vec3(couple, "couple"), vec3(point, "point"), f), f)

    @classmethod
    def from_array(cls, values: Scalars | NDArray[Any]) -> "Force":
        """Build from six elements ``[n; f]``."""
        a, b, c, d, e, f = unpack(values, (6,), "force")
        return cls((a, b, c), (d, e, f))

    @property
    def array(self) -> NDArray[Any]:
        """The six elements ``[n; f]`` as an array, shape (6,)."""
        return pack(self, (6,))

    def __iter__(self) -> Iterator[Scalar]:
        """Iterate over the six elements, moment first."""
        yield from self.moment
        yield from self.force

    def __add__(self, other: "Force") -> "Force":
        if not isinstance(other, Force):
            return NotImplemented
        return Force(add(self.moment, other.moment), add(self.force, other.force))

    def __sub__(self, other: "Force") -> "Force":
        if not isinstance(other, Force):
            return NotImplemented
        return Force(subtract(self.moment, other.moment), subtract(self.force, other.force))

    def __neg__(self) -> "Force":
        return Force(negate(self.moment), negate(self.force))

    def __mul__(self, factor: Scalar) -> "Force":
        if isinstance(factor, Motion | Force):
            return NotImplemented
        return Force(scale(self.moment, factor), scale(self.force, factor))

    __rmul__ = __mul__

    def dot(self, motion: Motion) -> Scalar:
        """Return the scalar product with a motion, such as the power [W] (eq. 3.17)."""
        return motion.dot(self)


def _blocks(
    upper_left: Sequence[Vec3],
    upper_right: Sequence[Vec3],
    lower_left: Sequence[Vec3],
    lower_right: Sequence[Vec3],
) -> NDArray[Any]:
    """Join four 3x3 blocks into one 6x6 array."""
    upper = [x for a, b in zip(upper_left, upper_right, strict=True) for x in (*a, *b)]
    lower = [x for a, b in zip(lower_left, lower_right, strict=True) for x in (*a, *b)]
    return pack(upper + lower, (6, 6))


def spatial_to_classical(acceleration: Motion, velocity: Motion) -> Motion:
    """Return the classical acceleration of the body point at the frame's origin.

    Args:
        acceleration: Spatial acceleration [rad/s^2, m/s^2], frame axes.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    linear = add_cross(acceleration.linear, velocity.angular, velocity.linear)
    return Motion(acceleration.angular, linear)


def classical_to_spatial(acceleration: Motion, velocity: Motion) -> Motion:
    """Return the spatial acceleration, given the classical one of the point at the origin.

    Args:
        acceleration: Angular acceleration and that of the body point at the frame's origin
            [rad/s^2, m/s^2], frame axes.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    linear = add_cross(acceleration.linear, velocity.linear, velocity.angular)
    return Motion(acceleration.angular, linear)


def classical_acceleration_at(point: Scalars, acceleration: Motion, velocity: Motion) -> Vec3:
    """Return the classical acceleration [m/s^2] of a body point, frame axes.

    Args:
        point: Position of the body point, frame axes [m], shape (3,).
        acceleration: Spatial acceleration [rad/s^2, m/s^2], same frame.
        velocity: Spatial velocity [rad/s, m/s], same frame.
    """
    p = vec3(point, "point")
    # spatial acceleration at the point, plus omega x v for the motion of the point
    return add_cross(acceleration.at_point(p), velocity.angular, velocity.at_point(p))


def spatial_acceleration_from_point(
    point: Scalars,
    point_velocity: Scalars,
    point_acceleration: Scalars,
    omega: Scalars,
    omega_dot: Scalars,
) -> Motion:
    """Return the spatial acceleration of a body from the classical motion of one of its points.

    a_O = [omega_dot; rddot + rdot x omega + r x omega_dot] (Featherstone 1987, eq. 2.29).

    Args:
        point: Position r of the body point, frame axes [m], shape (3,).
        point_velocity: Its velocity [m/s], shape (3,).
        point_acceleration: Its classical acceleration [m/s^2], shape (3,).
        omega: Angular velocity of the body [rad/s], shape (3,).
        omega_dot: Angular acceleration of the body [rad/s^2], shape (3,).
    """
    r, rd, rdd = vec3(point), vec3(point_velocity), vec3(point_acceleration)
    w, wd = vec3(omega), vec3(omega_dot)
    return Motion(wd, add_cross(add_cross(rdd, rd, w), r, wd))


def centripetal_matrix(w: Vec3) -> Sym3:
    """Return w~ w~, which maps the position of a body point to its centripetal acceleration.

    Symmetric, entries xx, xy, xz, yy, yz, zz [1/s^2]. Costs 6 multiplications and 3 additions.

    Args:
        w: Angular velocity, frame axes [rad/s].
    """
    x, y, z = w
    xx, yy, zz = x * x, y * y, z * z
    return (-(yy + zz), x * y, x * z, -(xx + zz), y * z, -(xx + yy))


def rate_matrix(w: Vec3, wd: Vec3) -> Mat3:
    """Return Omega = wd~ + w~ w~, which maps positions of body points to accelerations.

    The classical acceleration of the body point at r is that of the origin plus Omega r (McMillan
    1994, eq. B.9). Costs 6 multiplications and 9 additions.

    Args:
        w: Angular velocity, frame axes [rad/s].
        wd: Angular acceleration, same axes [rad/s^2].

    Returns:
        Rows of Omega [1/s^2].
    """
    xx, xy, xz, yy, yz, zz = centripetal_matrix(w)
    a, b, c = wd
    return ((xx, xy - c, xz + b), (xy + c, yy, yz - a), (xz - b, yz + a, zz))
