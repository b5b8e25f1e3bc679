"""Rigid-body inertia, stored as its ten parameters.

    I = [ Ibar    h x ]      m mass [kg], h = m c first mass moment [kg m], c center of mass,
        [ (h x)^T m 1 ]      Ibar rotational inertia about the frame's origin [kg m^2]

(McMillan 1994, eq. 1.7; Featherstone 1987, eqs. 3.3 and 3.4 in the order angular first.)
Symbols: w, v angular and linear velocity; c, s cosine and sine; r a displacement.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.arrays import NDArray
from tiburon.errors import ShapeError
from tiburon.record import record
from tiburon.spatial.articulated import ArticulatedInertia
from tiburon.spatial.vec3 import (
    ZERO3,
    Mat3,
    Scalar,
    Sym3,
    Vec3,
    add,
    add_cross,
    add_matrix_vector,
    cross,
    matrix_vector,
    pack,
    rotate_symmetric,
    rotate_symmetric_planar,
    rotate_vector_planar,
    scale,
    skew,
    symmetric_matrix,
    symmetric_vector,
    transpose,
    unpack,
    vec3,
)
from tiburon.spatial.vectors import Force, Motion


@record
class RigidInertia:
    """Inertia of a rigid body about the origin of a frame, in its axes."""

    mass: Scalar
    """Mass m [kg]."""

    h: Vec3
    """First mass moment m c, frame axes [kg m]."""

    Ibar: Sym3
    """Rotational inertia about the frame's origin, entries xx, xy, xz, yy, yz, zz [kg m^2]."""

    @classmethod
    def zero(cls) -> "RigidInertia":
        """Return the inertia of nothing."""
        return cls(0.0, ZERO3, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))

    @classmethod
    def from_mass(
        cls, mass: Scalar, com: Sequence[Scalar], inertia_about_com: Any
    ) -> "RigidInertia":
        """Build from the mass, the center of mass and the inertia about it.

        Args:
            mass: Mass [kg].
            com: Center of mass, frame axes [m], shape (3,).
            inertia_about_com: Rotational inertia about the center of mass, frame axes [kg m^2]:
                a 3x3 matrix (its upper part is read), six elements xx, xy, xz, yy, yz, zz, or the
                three elements of a diagonal.
        """
        c = vec3(com, "com")
        about_com = cls(mass, ZERO3, _symmetric(inertia_about_com))
        return about_com.shifted(c)

    @classmethod
    def from_array(cls, values: Sequence[Scalar] | NDArray[Any]) -> "RigidInertia":
        """Build from ten parameters m, h, Ibar (xx, xy, xz, yy, yz, zz)."""
        m, hx, hy, hz, xx, xy, xz, yy, yz, zz = unpack(values, (10,), "rigid inertia")
        return cls(m, (hx, hy, hz), (xx, xy, xz, yy, yz, zz))

    @property
    def array(self) -> NDArray[Any]:
        """The ten parameters m, h, Ibar (xx, xy, xz, yy, yz, zz) as an array, shape (10,)."""
        return pack(self, (10,))

    def __iter__(self) -> Iterator[Scalar]:
        """Iterate over the ten parameters m, h, Ibar."""
        yield self.mass
        yield from self.h
        yield from self.Ibar

    def __add__(self, other: "RigidInertia") -> "RigidInertia":
        """Return the inertia of both bodies as one (Featherstone 1987, eq. 3.8)."""
        if not isinstance(other, RigidInertia):
            return NotImplemented
        a, b = self.Ibar, other.Ibar
        return RigidInertia(
            self.mass + other.mass,
            add(self.h, other.h),
            (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]),
        )

    def __neg__(self) -> "RigidInertia":
        return self * -1.0

    def __sub__(self, other: "RigidInertia") -> "RigidInertia":
        """Return the inertia without that of a part of the body."""
        if not isinstance(other, RigidInertia):
            return NotImplemented
        return self + (-other)

    def __mul__(self, factor: Scalar) -> "RigidInertia":
        """Return the inertia of the same body with its density scaled."""
        return RigidInertia.from_array([x * factor for x in self])

    __rmul__ = __mul__

    @property
    def com(self) -> Vec3:
        """Center of mass, frame axes [m]; the mass must not be zero."""
        return (self.h[0] / self.mass, self.h[1] / self.mass, self.h[2] / self.mass)

    @property
    def inertia_about_com(self) -> Sym3:
        """Rotational inertia about the center of mass, frame axes [kg m^2]."""
        c = self.com
        return self.shifted((-c[0], -c[1], -c[2])).Ibar

    def articulated(self) -> ArticulatedInertia:
        """Return the same inertia with 21 elements."""
        m = self.mass
        return ArticulatedInertia(self.Ibar, skew(self.h), (m, 0.0, 0.0, m, 0.0, m))

    def matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix."""
        return self.articulated().matrix()

    def apply(self, motion: Motion) -> Force:
        """Return I m: the momentum of a velocity, the force of an acceleration (eq. 3.2)."""
        w, v = motion.angular, motion.linear
        return Force(
            add_cross(symmetric_vector(self.Ibar, w), self.h, v),
            add_cross(scale(v, self.mass), w, self.h),
        )

    def bias(self, velocity: Motion) -> Force:
        """Return v x* I v: the force that keeps a body at constant spatial velocity.

        Featherstone 1987, eqs. 3.10 and 3.11. Written out, the products of v with itself cancel
        and moment = w x Ibar w + h x y, force = m y + w x (w x h) with y = w x v: 42
        multiplications and 27 additions, three additions fewer than in two steps.
        """
        w = velocity.angular
        y = cross(w, velocity.linear)
        return Force(
            add_cross(cross(w, symmetric_vector(self.Ibar, w)), self.h, y),
            add_cross(scale(y, self.mass), w, cross(w, self.h)),
        )

    def gyroscopic_force(self, w: Vec3) -> Force:
        """Return the force that keeps a body rotating while its point at the origin is at rest.

        [w x Ibar w; w x (w x h)] (McMillan 1994, sec. 7.2.1, with the opposite sign): the force
        at zero classical acceleration. Costs 27 multiplications and 15 additions.

        Args:
            w: Angular velocity, frame axes [rad/s].
        """
        return Force(cross(w, symmetric_vector(self.Ibar, w)), cross(w, cross(w, self.h)))

    def rate_of_momentum(self, Omega: Mat3, acceleration: Vec3) -> Force:
        """Return the force a body needs for a given motion: I a + v x* I v (eq. 3.11).

        In classical terms: force = m a + Omega h and moment = u + h x a, where u = Ibar wd +
        w x Ibar w depends on Omega alone (McMillan 1994, eqs. B.11-B.18, after He and Goldenberg).
        Ixy, Ixz and Iyz are entries of the tensor, not products of inertia. Costs 33
        multiplications and 30 additions, and 1 and 5 for terms of the body alone.

        Args:
            Omega: Acceleration per position due to rotation, from `rate_matrix` [1/s^2].
            acceleration: Classical acceleration of the body point at the origin, frame axes
                [m/s^2].
        """
        xx, xy, xz, yy, yz, zz = self.Ibar
        (Oxx, Oxy, Oxz), (Oyx, Oyy, Oyz), (Ozx, Ozy, Ozz) = Omega
        half = 0.5 * (xx + yy + zz)
        x, y, z = xx - half, yy - half, zz - half
        u = (
            xz * Oyx - xy * Ozx + yz * (Oyy - Ozz) + z * Oyz - y * Ozy,
            xy * Ozy - yz * Oxy + xz * (Ozz - Oxx) + x * Ozx - z * Oxz,
            yz * Oxz - xz * Oyz + xy * (Oxx - Oyy) + y * Oxy - x * Oyx,
        )
        return Force(
            add_cross(u, self.h, acceleration),
            add_matrix_vector(scale(acceleration, self.mass), Omega, self.h),
        )

    def kinetic_energy(self, velocity: Motion) -> Scalar:
        """Return 1/2 v . I v [J] (Featherstone 1987, sec. 3.9, example 2)."""
        return 0.5 * velocity.dot(self.apply(velocity))

    def rate(self, velocity: Motion) -> ArticulatedInertia:
        """Return dI/dt = v x* I - I v x, the inertia of a moving body seen from a fixed frame.

        Featherstone 1987, eq. 3.7.
        """
        w, v = velocity.angular, velocity.linear
        wI = _skew_product(w, symmetric_matrix(self.Ibar))
        # h moves with the body: hdot = w x h + m v; the mass stays
        hdot = add_cross(scale(v, self.mass), w, self.h)
        vh = _skew_product(v, skew(self.h))
        Idot = tuple(
            wI[i][j] + wI[j][i] - vh[i][j] - vh[j][i]
            for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        )
        zero = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        return ArticulatedInertia(Idot, skew(hdot), zero)

    def solve(self, force: Force) -> Motion:
        """Return the motion m with I m = force, through the center of mass (eq. 3.14)."""
        c = self.com
        about_com = add_cross(force.moment, force.force, c)
        w = matrix_vector(self._inverse_about_com(), about_com)
        m = self.mass
        at_com = (force.force[0] / m, force.force[1] / m, force.force[2] / m)
        return Motion(w, add_cross(at_com, c, w))

    def inverse(self) -> NDArray[Any]:
        """Return the inverse inertia Phi, shape (6, 6), which maps ``[n; f]`` to ``[w; v]``.

        Featherstone 1987, eq. 3.14, in the order angular first. With c the center of mass and J
        the inverse of the inertia about it: Phi = [J, -J (c x); c x J, 1/m - c x J c x].
        """
        c, J, m = self.com, self._inverse_about_com(), self.mass
        cJ = _skew_product(c, J)
        # J is symmetric: -J (c x) is the transpose of c x J
        JcT = transpose(cJ)
        cJc = _skew_product(c, JcT)
        lower = tuple(
            (*cJ[i], *(cJc[i][j] + (1.0 / m if i == j else 0.0) for j in range(3)))
            for i in range(3)
        )
        upper = tuple((*J[i], *JcT[i]) for i in range(3))
        return pack((x for row in upper + lower for x in row), (6, 6))

    def _inverse_about_com(self) -> Mat3:
        """Return the inverse of the inertia about the center of mass, by cofactors."""
        xx, xy, xz, yy, yz, zz = self.inertia_about_com
        a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        det = xx * a + xy * b + xz * c
        d, e, f = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
        return symmetric_matrix((a / det, b / det, c / det, d / det, e / det, f / det))

    def rotated_about_axis(self, k: int, c: Scalar, s: Scalar) -> "RigidInertia":
        """Return the inertia of the body turned about coordinate axis k."""
        return RigidInertia(
            self.mass,
            rotate_vector_planar(k, c, s, self.h),
            rotate_symmetric_planar(k, c, s, self.Ibar),
        )

    def rotated(self, R: Mat3) -> "RigidInertia":
        """Return the inertia of the body turned by a rotation matrix."""
        return RigidInertia(self.mass, matrix_vector(R, self.h), rotate_symmetric(R, self.Ibar))

    def shifted(self, r: Vec3) -> "RigidInertia":
        """Return the inertia of the body moved by r, about the same origin.

        h' = h + m r and, with h and h' gathered, Ibar'_xx = Ibar_xx + r_y (h_y + h'_y) +
        r_z (h_z + h'_z), Ibar'_xy = Ibar_xy - r_x h_y - r_y h'_x (the parallel-axis rule of
        McMillan 1994, eqs. A.38 and A.41).
        """
        (x, y, z), h = r, self.h
        H = (h[0] + self.mass * x, h[1] + self.mass * y, h[2] + self.mass * z)
        xx, xy, xz, yy, yz, zz = self.Ibar
        tx, ty, tz = x * (h[0] + H[0]), y * (h[1] + H[1]), z * (h[2] + H[2])
        return RigidInertia(
            self.mass,
            H,
            (
                xx + ty + tz,
                xy - x * h[1] - y * H[0],
                xz - x * h[2] - z * H[0],
                yy + tx + tz,
                yz - y * h[2] - z * H[1],
                zz + tx + ty,
            ),
        )


def _column(m: Mat3, j: int) -> Vec3:
    """Return column j of a 3x3 matrix."""
    return (m[0][j], m[1][j], m[2][j])


def _skew_product(a: Vec3, m: Mat3) -> Mat3:
    """Return (a x) M: the cross product with every column."""
    x, y, z = (cross(a, _column(m, j)) for j in range(3))
    return ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2]))


def _symmetric(values: Any) -> Sym3:
    """Read a symmetric 3x3 matrix given in full, by its six elements or by its diagonal."""
    rows = tuple(values)
    if len(rows) == 6:
        return (rows[0], rows[1], rows[2], rows[3], rows[4], rows[5])
    if len(rows) != 3:
        raise ShapeError("inertia", "(3, 3), (6,) or (3,)", (len(rows),))
    if all(getattr(row, "shape", None) == () or isinstance(row, float | int) for row in rows):
        return (rows[0], 0.0, 0.0, rows[1], 0.0, rows[2])
    full = unpack(values, (3, 3), "inertia")
    return (full[0], full[1], full[2], full[4], full[5], full[8])
