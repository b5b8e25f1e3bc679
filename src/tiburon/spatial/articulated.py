"""Articulated-body inertia: any symmetric 6x6 inertia, stored as its 21 distinct elements.

    I = [ A    B ]      A rotational inertia about the origin, symmetric [kg m^2]
        [ B^T  M ]      B coupling [kg m], M mass block, symmetric [kg]

The inertia of a body that has others hanging on it has this form but no center of mass
(Featherstone 1987, sec. 3.6), and so has the added mass of a body in a fluid (McMillan 1994,
sec. 6.2.2). Symbols of the articulated-body algorithm: U = I S, D = S^T U.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from tiburon.arrays import NDArray
from tiburon.errors import DomainError
from tiburon.record import record
from tiburon.spatial.vec3 import (
    ZERO3,
    Mat3,
    Scalar,
    Sym3,
    Vec3,
    add,
    add_cross,
    add_matrix_vector,
    add_symmetric_vector,
    pack,
    rotate_general,
    rotate_general_planar,
    rotate_symmetric,
    rotate_symmetric_planar,
    symmetric_matrix,
    transpose,
    unpack,
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
    def from_rows(cls, rows: Sequence[Sequence[Scalar]]) -> "ArticulatedInertia":
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
    def from_array(cls, values: Sequence[Scalar] | NDArray[Any]) -> "ArticulatedInertia":
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


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    """Return the sum of products of the leading entries both lists have."""
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=False):
        total = total + x * y
    return total
