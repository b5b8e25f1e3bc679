"""Rigid-body inertia, stored as ten parameters, and articulated-body inertia, as 21 elements.

    I = [ Ibar    h x ]      m mass [kg], h = m c first mass moment [kg m], c center of mass,
        [ (h x)^T m 1 ]      Ibar rotational inertia about the frame's origin [kg m^2]

(McMillan 1994, eq. 1.7; Featherstone 1987, eqs. 3.3 and 3.4 in the order angular first.)

    I = [ A    B ]      A rotational inertia about the origin, symmetric [kg m^2]
        [ B^T  M ]      B coupling [kg m], M mass block, symmetric [kg]

An articulated body, with others attached to it, has an inertia of the second form but no center of
mass (Featherstone 1987, sec. 3.6), and so has the added mass of a body in a fluid (McMillan 1994,
sec. 6.2.2).

Symbols: w, v angular and linear velocity; c, s cosine and sine; r a displacement; U = I S,
D = S^T U in the articulated-body algorithm.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from tiburon.arrays import NDArray
from tiburon.errors import DomainError, ShapeError
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
    add_matrix_vector,
    add_symmetric_vector,
    cross,
    matrix_vector,
    pack,
    rotate_general,
    rotate_general_planar,
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

_ZERO6: Sym3 = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@runtime_checkable
class ConvertibleInertia(Protocol):
    """An inertia that can be expanded to 21 elements."""

    def articulated(self) -> "ArticulatedInertia":
        """Return the same inertia with 21 elements."""
        ...


@record
class ArticulatedInertia:
    """A symmetric 6x6 inertia about the origin of a frame, in its axes."""

    A: Sym3
    """Rotational block, entries xx, xy, xz, yy, yz, zz [kg m^2]."""

    B: Mat3
    """Coupling block, rows [kg m]; for a rigid body the skew matrix of the first mass moment."""

    M: Sym3
    """Mass block, entries xx, xy, xz, yy, yz, zz [kg]."""

    @classmethod
    def zero(cls) -> "ArticulatedInertia":
        """Return the inertia of nothing."""
        return cls(_ZERO6, (ZERO3, ZERO3, ZERO3), _ZERO6)

    @classmethod
    def from_matrix(cls, matrix: Any, tolerance: float = 1e-9) -> "ArticulatedInertia":
        """Build from a symmetric 6x6 matrix of floats, angular rows first.

        Args:
            matrix: Inertia about the origin [kg m^2, kg m, kg], shape (6, 6).
            tolerance: Largest accepted asymmetry, relative to the largest entry; it is averaged
                out.

        Raises:
            ShapeError: The matrix is not 6x6.
            DomainError: The matrix is not symmetric.
        """
        values = unpack(matrix, (6, 6), "inertia matrix")
        rows = [values[6 * i : 6 * i + 6] for i in range(6)]
        pairs = [(i, j) for i in range(6) for j in range(i)]
        asymmetry, i, j = max((abs(rows[i][j] - rows[j][i]), i, j) for i, j in pairs)
        if asymmetry > tolerance * max(abs(x) for x in values):
            raise DomainError(
                "inertia matrix",
                "a symmetric matrix",
                f"{rows[i][j]} at ({i}, {j}) but {rows[j][i]} at ({j}, {i})",
                advice="pass (m + m.T) / 2 if the difference is rounding",
            )
        return cls.from_rows([[(rows[i][j] + rows[j][i]) / 2 for j in range(6)] for i in range(6)])

    @classmethod
    def from_rows(cls, rows: Sequence[Scalars]) -> "ArticulatedInertia":
        """Build from the rows of a 6x6 matrix known to be symmetric; only its upper part is read.

        Works for traced values, which cannot be compared.
        """
        a, b, c, d, e, f = rows
        return cls(
            (a[0], a[1], a[2], b[1], b[2], c[2]),
            ((a[3], a[4], a[5]), (b[3], b[4], b[5]), (c[3], c[4], c[5])),
            (d[3], d[4], d[5], e[4], e[5], f[5]),
        )

    def articulated(self) -> "ArticulatedInertia":
        """Return the same inertia with 21 elements: itself."""
        return self

    def rows(self) -> tuple[tuple[Scalar, ...], ...]:
        """Return the six rows of six scalars."""
        A, M, BT = symmetric_matrix(self.A), symmetric_matrix(self.M), transpose(self.B)
        upper = (A[0] + self.B[0], A[1] + self.B[1], A[2] + self.B[2])
        lower = (BT[0] + M[0], BT[1] + M[1], BT[2] + M[2])
        return upper + lower

    def matrix(self) -> NDArray[Any]:
        """Return the 6x6 matrix."""
        return pack((x for row in self.rows() for x in row), (6, 6))

    @property
    def array(self) -> NDArray[Any]:
        """The 21 elements A, B (by rows), M as an array, shape (21,)."""
        return pack(self, (21,))

    @classmethod
    def from_array(cls, values: Scalars | NDArray[Any]) -> "ArticulatedInertia":
        """Build from the 21 elements A, B (by rows), M."""
        x = unpack(values, (21,), "articulated inertia")
        B = ((x[6], x[7], x[8]), (x[9], x[10], x[11]), (x[12], x[13], x[14]))
        return cls((x[0], x[1], x[2], x[3], x[4], x[5]), B, (x[15], x[16], x[17], *x[18:21]))

    def __iter__(self) -> Iterator[Scalar]:
        """Iterate over the 21 elements A, B (by rows), M."""
        yield from self.A
        for row in self.B:
            yield from row
        yield from self.M

    def __add__(self, other: ConvertibleInertia) -> "ArticulatedInertia":
        """Return the inertia of both bodies moving as one (Featherstone 1987, eq. 3.8)."""
        if not isinstance(other, ConvertibleInertia):
            return NotImplemented
        o = other.articulated()
        return ArticulatedInertia(
            _add6(self.A, o.A),
            (add(self.B[0], o.B[0]), add(self.B[1], o.B[1]), add(self.B[2], o.B[2])),
            _add6(self.M, o.M),
        )

    __radd__ = __add__

    def __neg__(self) -> "ArticulatedInertia":
        return self * -1.0

    def __sub__(self, other: ConvertibleInertia) -> "ArticulatedInertia":
        if not isinstance(other, ConvertibleInertia):
            return NotImplemented
        return self + (-other.articulated())

    def __mul__(self, factor: Scalar) -> "ArticulatedInertia":
        return ArticulatedInertia.from_array([x * factor for x in self])

    __rmul__ = __mul__

    def apply(self, motion: Motion, start: Force | None = None) -> Force:
        """Return I m: the momentum of a velocity, the force of an acceleration.

        Args:
            motion: Spatial motion vector.
            start: A force to add it to; the sum then runs on from there.
        """
        w, v = motion.angular, motion.linear
        moment, force = (ZERO3, ZERO3) if start is None else (start.moment, start.force)
        return Force(
            add_matrix_vector(add_symmetric_vector(moment, self.A, w), self.B, v),
            add_symmetric_vector(add_matrix_vector(force, transpose(self.B), w), self.M, v),
        )

    def kinetic_energy(self, velocity: Motion) -> Scalar:
        """Return 1/2 v . I v [J] (Featherstone 1987, sec. 3.9, example 2)."""
        return 0.5 * velocity.dot(self.apply(velocity))

    def column(self, index: int) -> Force:
        """Return one column of the matrix: I s for the unit motion s of a coordinate axis.

        Args:
            index: 0, 1, 2 for a rotation about x, y, z; 3, 4, 5 for a translation along them.
        """
        # the matrix is symmetric: its rows are its columns
        row = self.rows()[index]
        return Force((row[0], row[1], row[2]), (row[3], row[4], row[5]))

    def reduce(self, U: Force, D: Scalar) -> "ArticulatedInertia":
        """Return I - U U^T / D: the inertia of a body felt across a one-DoF joint.

        Featherstone 1987, eqs. 6.47-6.52. With U = I s and D = s . U for a coordinate axis s, one
        row and column of the result vanish; folding finds those zeros, because the entries of U are
        those of I and U_i / D * D folds to U_i.
        """
        W = Force(
            (U.moment[0] / D, U.moment[1] / D, U.moment[2] / D),
            (U.force[0] / D, U.force[1] / D, U.force[2] / D),
        )
        return self.subtract_products((U,), (W,))

    def subtract_products(self, U: Sequence[Force], W: Sequence[Force]) -> "ArticulatedInertia":
        """Return I - sum_r W_r U_r^T, known to be symmetric.

        With W = U D^-1, D = S^T U, this is the multi-DoF form of :meth:`reduce` (Featherstone
        1987, eq. 7.19).
        """
        A, B, M = self.A, self.B, self.M
        for u, w in zip(U, W, strict=True):
            A = _subtract_upper(A, w.moment, u.moment)
            B = (
                _subtract_row(B[0], w.moment[0], u.force),
                _subtract_row(B[1], w.moment[1], u.force),
                _subtract_row(B[2], w.moment[2], u.force),
            )
            M = _subtract_upper(M, w.force, u.force)
        return ArticulatedInertia(A, B, M)

    def rotated_about_axis(self, k: int, c: Scalar, s: Scalar) -> "ArticulatedInertia":
        """Return the inertia of the body turned about coordinate axis k: two kinds of 3x3 kernel.

        Costs 28 multiplications and 26 additions (McMillan 1994, Table 21, A-D: 30 and 29).
        """
        return ArticulatedInertia(
            rotate_symmetric_planar(k, c, s, self.A),
            rotate_general_planar(k, c, s, self.B),
            rotate_symmetric_planar(k, c, s, self.M),
        )

    def rotated(self, R: Mat3) -> "ArticulatedInertia":
        """Return the inertia of the body turned by a rotation matrix."""
        return ArticulatedInertia(
            rotate_symmetric(R, self.A), rotate_general(R, self.B), rotate_symmetric(R, self.M)
        )

    def shifted(self, r: Vec3) -> "ArticulatedInertia":
        """Return the inertia of the body moved by r, about the same origin.

        B' = B + r x M and A' = A + r x B^T - B' (r x) (Featherstone 1987, Table 8-3, for the way
        back). Only the upper part of A' is formed, with B and B' gathered where r multiplies both.
        """
        A, B, M = self.A, self.B, symmetric_matrix(self.M)
        # r x takes the columns of M, which are its rows
        BT = transpose(B)
        C = transpose(
            (add_cross(BT[0], r, M[0]), add_cross(BT[1], r, M[1]), add_cross(BT[2], r, M[2]))
        )
        x, y, z = r
        return ArticulatedInertia(
            (
                A[0] + y * (B[0][2] + C[0][2]) - z * (B[0][1] + C[0][1]),
                A[1] + z * (C[0][0] - B[1][1]) + y * B[1][2] - x * C[0][2],
                A[2] + y * (B[2][2] - C[0][0]) - z * B[2][1] + x * C[0][1],
                A[3] + z * (B[1][0] + C[1][0]) - x * (B[1][2] + C[1][2]),
                A[4] + x * (C[1][1] - B[2][2]) + z * B[2][0] - y * C[1][0],
                A[5] + x * (B[2][1] + C[2][1]) - y * (B[2][0] + C[2][0]),
            ),
            C,
            self.M,
        )

    def solve(self, force: Force) -> Motion:
        """Return the motion m with I m = force, by root-free Cholesky (L D L^T) factors.

        The inertia must be positive definite; no pivoting is done, so traced values pass.
        """
        I = self.rows()
        L: list[list[Scalar]] = [[] for _ in range(6)]
        D: list[Scalar] = []
        y: list[Scalar] = []
        for i in range(6):
            # row i of L D first, then of L
            LD: list[Scalar] = []
            for j in range(i):
                LD.append(I[i][j] - _dot(LD, L[j]))
            L[i] = [a / d for a, d in zip(LD, D, strict=True)]
            D.append(I[i][i] - _dot(LD, L[i]))
        for i, b in enumerate(force):
            y.append(b - _dot(L[i], y))
        x = [a / d for a, d in zip(y, D, strict=True)]
        for i in reversed(range(6)):
            for j in range(i + 1, 6):
                x[i] = x[i] - L[j][i] * x[j]
        return Motion((x[0], x[1], x[2]), (x[3], x[4], x[5]))


def _add6(a: Sym3, b: Sym3) -> Sym3:
    """Add two symmetric matrices."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])


def _subtract_upper(k: Sym3, w: Vec3, u: Vec3) -> Sym3:
    """Return K - w u^T, known to be symmetric, from its upper part."""
    return (
        k[0] - w[0] * u[0],
        k[1] - w[0] * u[1],
        k[2] - w[0] * u[2],
        k[3] - w[1] * u[1],
        k[4] - w[1] * u[2],
        k[5] - w[2] * u[2],
    )


def _subtract_row(row: Vec3, w: Scalar, u: Vec3) -> Vec3:
    """Return one row of B - w u^T."""
    return (row[0] - w * u[0], row[1] - w * u[1], row[2] - w * u[2])


def _dot(a: Scalars, b: Scalars) -> Scalar:
    """Return the sum of products of the leading entries both lists have."""
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=False):
        total = total + x * y
    return total


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
    def from_mass(cls, mass: Scalar, com: Scalars, inertia_about_com: Any) -> "RigidInertia":
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
    def from_array(cls, values: Scalars | NDArray[Any]) -> "RigidInertia":
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
