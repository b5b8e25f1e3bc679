"""3-D vectors, symmetric and general 3x3 matrices as plain tuples of scalars.

A scalar is a float or a traced value; every function here uses only ``+ - *`` so that both run
through the same lines. Zeros and ones among the entries cost nothing once traced: the formulas
stay general and folding removes known terms. Sums continue from a start value (``add_cross``,
``add_matrix_vector``) rather than adding two finished halves: each product is then added to a sum,
and the pair becomes one fused multiply-add.

A symmetric matrix stores its six distinct elements once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arrays import NDArray
from tiburon.errors import ShapeError

Scalar: TypeAlias = Any
"""A float or a traced value; Any, because this package does not import `tiburon.trace`."""

Scalars: TypeAlias = Sequence[Scalar]

Vec3: TypeAlias = tuple[Scalar, Scalar, Scalar]
Mat3: TypeAlias = tuple[Vec3, Vec3, Vec3]
"""Rows of a 3x3 matrix."""

Sym3: TypeAlias = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]
"""Distinct entries xx, xy, xz, yy, yz, zz of a symmetric 3x3 matrix."""

ZERO3: Vec3 = (0.0, 0.0, 0.0)
IDENTITY3: Mat3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

# place of entry (i, j) among the six distinct ones
_PLACE = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


def pack(values: Iterable[Scalar], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return scalars as one array: float64 for floats, a traced array if any value is traced."""
    values = tuple(values)
    if all(isinstance(value, (float, int)) for value in values):
        return np.array(values, dtype=np.float64).reshape(shape)
    return np.stack(values).reshape(shape)


def unpack(array: Any, shape: tuple[int, ...], argument: str) -> tuple[Any, ...]:
    """Return the scalars of an array or nested sequence in row order, after checking its shape.

    Raises:
        ShapeError: The array does not have the given shape.
    """
    if isinstance(array, np.ndarray):
        refuse_unusable(argument, array)
        if array.shape != shape:
            raise ShapeError(argument, shape, array.shape)
        if array.dtype != object:
            # Python floats are several times faster than NumPy scalars in scalar code
            return tuple(array.ravel().tolist())
        return tuple(array[index] for index in np.ndindex(*shape))
    rows = tuple(array)
    if len(rows) != shape[0]:
        raise ShapeError(argument, shape, (len(rows),))
    if len(shape) == 1:
        return rows
    return tuple(value for row in rows for value in unpack(row, shape[1:], f"row of {argument}"))


def vec3(values: Scalars, argument: str = "vector") -> Vec3:
    """Return three scalars as a tuple, after checking that there are three."""
    x, y, z = unpack(values, (3,), argument)
    return (x, y, z)


def add(a: Vec3, b: Vec3) -> Vec3:
    """Return a + b."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def subtract(a: Vec3, b: Vec3) -> Vec3:
    """Return a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def negate(a: Vec3) -> Vec3:
    """Return -a."""
    return (-a[0], -a[1], -a[2])


def scale(a: Vec3, factor: Scalar) -> Vec3:
    """Return a times a scalar."""
    return (a[0] * factor, a[1] * factor, a[2] * factor)


def dot(a: Vec3, b: Vec3) -> Scalar:
    """Return the scalar product a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vec3, b: Vec3) -> Vec3:
    """Return a x b (Featherstone 1987, eq. 2.8)."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def add_cross(start: Vec3, a: Vec3, b: Vec3) -> Vec3:
    """Return start + a x b."""
    return (
        start[0] + a[1] * b[2] - a[2] * b[1],
        start[1] + a[2] * b[0] - a[0] * b[2],
        start[2] + a[0] * b[1] - a[1] * b[0],
    )


def skew(a: Vec3) -> Mat3:
    """Return the matrix of a x (Featherstone 1987, eq. 2.8)."""
    return ((0.0, -a[2], a[1]), (a[2], 0.0, -a[0]), (-a[1], a[0], 0.0))


def transpose(m: Mat3) -> Mat3:
    """Return the transpose of a 3x3 matrix."""
    (a, b, c), (d, e, f), (g, h, i) = m
    return ((a, d, g), (b, e, h), (c, f, i))


def matrix_vector(m: Mat3, a: Vec3) -> Vec3:
    """Return m a."""
    return (dot(m[0], a), dot(m[1], a), dot(m[2], a))


def transpose_vector(m: Mat3, a: Vec3) -> Vec3:
    """Return m^T a."""
    return matrix_vector(transpose(m), a)


def add_matrix_vector(start: Vec3, m: Mat3, a: Vec3) -> Vec3:
    """Return start + m a."""
    x, y, z = a
    (m00, m01, m02), (m10, m11, m12), (m20, m21, m22) = m
    return (
        start[0] + m00 * x + m01 * y + m02 * z,
        start[1] + m10 * x + m11 * y + m12 * z,
        start[2] + m20 * x + m21 * y + m22 * z,
    )


def matrix_product(a: Mat3, b: Mat3) -> Mat3:
    """Return the product a b."""
    x, y, z = transpose(b)
    return (
        (dot(a[0], x), dot(a[0], y), dot(a[0], z)),
        (dot(a[1], x), dot(a[1], y), dot(a[1], z)),
        (dot(a[2], x), dot(a[2], y), dot(a[2], z)),
    )


def symmetric_matrix(k: Sym3) -> Mat3:
    """Return all nine entries of a symmetric matrix."""
    xx, xy, xz, yy, yz, zz = k
    return ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))


def symmetric_vector(k: Sym3, a: Vec3) -> Vec3:
    """Return K a for a symmetric matrix."""
    xx, xy, xz, yy, yz, zz = k
    x, y, z = a
    return (xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z)


def add_symmetric_vector(start: Vec3, k: Sym3, a: Vec3) -> Vec3:
    """Return start + K a for a symmetric matrix."""
    return add_matrix_vector(start, symmetric_matrix(k), a)


def rotate_symmetric(r: Mat3, k: Sym3) -> Sym3:
    """Return R K R^T for a symmetric matrix and a rotation R.

    A rotation preserves the trace, which determines the last entry: 33 multiplications and 26
    additions instead of 45 and 30.
    """
    p, q = symmetric_vector(k, r[0]), symmetric_vector(k, r[1])
    xx, yy = dot(p, r[0]), dot(q, r[1])
    # an axis that stays a coordinate axis only renames its entry
    renames = all(isinstance(x, float) and x in (0.0, 1.0, -1.0) for x in r[2])
    zz = dot(symmetric_vector(k, r[2]), r[2]) if renames else k[0] + k[3] + k[5] - xx - yy
    return (xx, dot(p, r[1]), dot(p, r[2]), yy, dot(q, r[2]), zz)


def rotate_general(r: Mat3, b: Mat3) -> Mat3:
    """Return R B R^T for 3x3 matrices."""
    return matrix_product(matrix_product(r, b), transpose(r))


def _arrange(k: int, along: Any, first: Any, second: Any) -> tuple[Any, Any, Any]:
    """Order the entries of axis k and of the two axes that follow it cyclically as x, y, z."""
    if k == 0:
        return (along, first, second)
    if k == 1:
        return (second, along, first)
    return (first, second, along)


def rotate_vector_planar(k: int, c: Scalar, s: Scalar, a: Vec3) -> Vec3:
    """Turn a vector by the angle with cosine c and sine s about coordinate axis k.

    Costs 4 multiplications and 2 additions (McMillan 1994, eq. A.9, with the opposite sign of s:
    here the vector turns, there the axes do).
    """
    i, j = (k + 1) % 3, (k + 2) % 3
    return _arrange(k, a[k], c * a[i] - s * a[j], s * a[i] + c * a[j])


def rotate_symmetric_planar(k: int, c: Scalar, s: Scalar, m: Sym3) -> Sym3:
    """Return R M R^T, R the rotation about coordinate axis k, M symmetric.

    With h = M_ii - M_jj and x = s h + 2 c M_ij, the turned 2x2 block is M_ii - s x, M_jj + s x and
    c x - M_ij. Costs 8 multiplications and 7 additions, and one addition for 2 c that all
    congruences by the same rotation share; McMillan 1994, app. A.4, needs 10 and 10 (8 and 7 if
    the angle is constant).
    """
    i, j = (k + 1) % 3, (k + 2) % 3
    ii, ij, jj = m[_PLACE[i][i]], m[_PLACE[i][j]], m[_PLACE[j][j]]
    x = s * (ii - jj) + (c + c) * ij
    sx = s * x
    ik, jk = m[_PLACE[i][k]], m[_PLACE[j][k]]
    # the entries that couple the block to the axis turn like a vector
    new_ik, new_jk = c * ik - s * jk, s * ik + c * jk
    new_ij = c * x - ij
    new_ii, new_jj, kk = ii - sx, jj + sx, m[_PLACE[k][k]]
    xx, yy, zz = _arrange(k, kk, new_ii, new_jj)
    # an off-diagonal entry is named by the axis it lacks: xy lacks z, xz lacks y, yz lacks x
    yz, xz, xy = _arrange(k, new_ij, new_jk, new_ik)
    return (xx, xy, xz, yy, yz, zz)


def rotate_general_planar(k: int, c: Scalar, s: Scalar, b: Mat3) -> Mat3:
    """Return R B R^T, R the rotation about coordinate axis k, B any 3x3 matrix.

    The sum of the off-diagonal entries of the turned 2x2 block and the difference of its diagonal
    ones rotate by twice the angle, the other two combinations are invariant: 12 multiplications and
    11 additions; McMillan 1994, app. A.4, needs 14 and 12 (12 and 12 if the angle is constant).
    """
    i, j = (k + 1) % 3, (k + 2) % 3
    bi, bj, bk = b[i], b[j], b[k]
    x = s * (bi[i] - bj[j]) + c * (bi[j] + bj[i])
    sx, cx = s * x, c * x
    row_i = _arrange(k, c * bi[k] - s * bj[k], bi[i] - sx, cx - bj[i])
    row_j = _arrange(k, s * bi[k] + c * bj[k], cx - bi[j], bj[j] + sx)
    row_k = _arrange(k, bk[k], c * bk[i] - s * bk[j], s * bk[i] + c * bk[j])
    return _arrange(k, row_k, row_i, row_j)
