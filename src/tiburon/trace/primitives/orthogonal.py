"""Linear equations of any shape and rank, by an orthogonal factorization with pivoting.

A = Q T Z^T with orthonormal columns in Q and Z and a lower triangle T of the size of the rank.
First A = Q R by modified Gram-Schmidt with column pivoting, each pivot column orthogonalized once
more (Daniel, Gragg, Kaufman and Stewart 1976); then R = T Z^T, each row orthogonalized twice. This
is Stewart's pivoted QLP decomposition (1999), whose diagonal tracks the singular values. Columns
that remain smaller than the cut times the first pivot count as dependent and are left out. The cut
is an argument: the accuracy of a matrix may differ from case to case.

The solution x = Z T^-1 Q^T b is the least-squares solution of smallest length. Nothing is squared,
so the error grows with the condition number of A, not with its square.

Derivatives. A factor is a handle whose tangent and adjoint are, by convention, those of the matrix.
Cut, rank and ratio count as constants. The derivatives of the pseudo-inverse P = A^+ and of the two
projections, at constant rank, are (Golub and Pereyra 1973)

    dP     = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P
    d(A P) = (1 - A P) dA P + transpose
    d(P A) = P dA (1 - P A) + transpose
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    Factorization,
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    dot,
    is_zero_row,
    numbers_of,
    right_hand_sides,
    shape_of,
    solve_columns,
)


class FactorOrthogonal(Factorization):
    """Factor: the elements of A by rows, then the cut, to Q, T, Z^T, rank and ratio.

    With k = min(rows, columns): Q by rows (rows x k), T by rows (k x k, reciprocals on the
    diagonal), Z^T by rows (k x columns). Beyond the rank all three are zero.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__("factor_orthogonal", rows, columns)
        self.rows, self.columns = rows, columns
        self.small = min(rows, columns)
        self.argument_count = rows * columns + 1
        self.result_count = factor_size(rows, columns) + 2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Orthogonalize columns, largest first, until the rest is negligible; then rows.

        The pivot is marked by a row of zeros with a single one, and used by multiplying with it:
        cases that differ in their pivots then still do the same in the lanes of one vector.
        """
        rows, columns, small = self.rows, self.columns, self.small
        zero, one = m.constant(0.0), m.constant(1.0)
        rest, squares = m.memory(rows * columns), m.memory(columns)
        column, upper = m.memory(rows), m.memory(small * columns)
        chosen = m.memory(columns)
        fill(m, found, self.result_count)
        fill(m, upper, small * columns)
        fill(m, squares, columns)
        for i in m.loop(0, rows):
            for j in m.loop(0, columns):
                value = m.load(given, i * columns + j)
                m.store(rest, i * columns + j, value)
                m.store(squares, j, m.add_product(value, value, m.load(squares, j)))
        cut = m.load(given, rows * columns)
        rank, largest, stopped = m.memory(1), m.memory(1), m.memory(1)
        for counter in (rank, largest, stopped):
            m.store(counter, 0, zero)

        for k in m.loop(0, small):
            mark_largest(m, squares, chosen, columns)
            fill(m, column, rows)
            for i in m.loop(0, rows):
                for j in m.loop(0, columns):
                    value = m.load(rest, i * columns + j)
                    old = m.load(column, i)
                    m.store(column, i, m.add_product(m.load(chosen, j), value, old))
            self._orthogonalize_again(m, found, column, upper, chosen, k)
            length = m.sqrt(squared_length(m, column, rows))
            first = m.choose(m.less(m.load(largest, 0), length), length, m.load(largest, 0))
            m.store(largest, 0, first)
            # this form of the comparison propagates NaN to the result
            negligible = m.less_equal(length, m.mul(cut, first))
            negligible = m.either(negligible, m.less(zero, m.load(stopped, 0)))
            m.store(stopped, 0, m.choose(negligible, one, zero))
            kept = m.choose(negligible, zero, one)
            inverse = m.div(kept, m.choose(negligible, one, length))
            m.store(rank, 0, m.add(m.load(rank, 0), kept))
            for i in m.loop(0, rows):
                m.store(found, i * small + k, m.mul(m.load(column, i), inverse))
            self._project_rest(m, found, rest, squares, upper, chosen, k)

        self._orthogonalize_rows(m, found, upper)
        self._finish(m, found, m.load(rank, 0))

    def _orthogonalize_again(
        self, m: Machine, q: Memory, column: Memory, upper: Memory, chosen: Memory, k: Index
    ) -> None:
        """Orthogonalize the pivot column once more against the k columns before it."""
        rows, columns, small = self.rows, self.columns, self.small
        parts = m.memory(small)
        for j in m.loop(0, k):
            m.store(parts, j, m.constant(0.0))
        # sums run side by side, not one after the other: no step waits for the last
        for i in m.loop(0, rows):
            value = m.load(column, i)
            for j in m.loop(0, k):
                part = m.load(parts, j)
                m.store(parts, j, m.add_product(m.load(q, i * small + j), value, part))
        for j in m.loop(0, k):
            part = m.load(parts, j)
            for i in m.loop(0, rows):
                old = m.load(column, i)
                m.store(column, i, m.sub_product(part, m.load(q, i * small + j), old))
            for c in m.loop(0, columns):
                place = j * columns + c
                old = m.load(upper, place)
                m.store(upper, place, m.add_product(m.load(chosen, c), part, old))

    def _project_rest(
        self,
        m: Machine,
        q: Memory,
        rest: Memory,
        squares: Memory,
        upper: Memory,
        chosen: Memory,
        k: Index,
    ) -> None:
        """Orthogonalize all remaining columns against column k of Q, and update their norms."""
        rows, columns, small = self.rows, self.columns, self.small
        start = k * columns
        for i in m.loop(0, rows):
            direction = m.load(q, i * small + k)
            for j in m.loop(0, columns):
                part = m.load(upper, start + j)
                value = m.load(rest, i * columns + j)
                m.store(upper, start + j, m.add_product(direction, value, part))
        # from here on the mark is 0 for the pivot column, which is used up, and 1 for all others
        for j in m.loop(0, columns):
            mark = m.load(chosen, j)
            m.store(chosen, j, m.sub_product(mark, mark, m.constant(1.0)))
        fill(m, squares, columns)
        for i in m.loop(0, rows):
            direction = m.load(q, i * small + k)
            for j in m.loop(0, columns):
                place = i * columns + j
                left = m.sub_product(direction, m.load(upper, start + j), m.load(rest, place))
                left = m.mul(left, m.load(chosen, j))
                m.store(rest, place, left)
                m.store(squares, j, m.add_product(left, left, m.load(squares, j)))

    def _orthogonalize_rows(self, m: Machine, found: Memory, upper: Memory) -> None:
        """Turn R into T Z^T, each row orthogonalized twice; zero rows stay zero."""
        columns, small = self.columns, self.small
        triangle, right = self._triangle, self._right
        zero, one = m.constant(0.0), m.constant(1.0)
        row, parts = m.memory(columns), m.memory(small)
        for k in m.loop(0, small):
            for c in m.loop(0, columns):
                m.store(row, c, m.load(upper, k * columns + c))
            for _ in m.loop(0, 2):
                for j in m.loop(0, k):
                    m.store(parts, j, zero)
                for c in m.loop(0, columns):
                    value = m.load(row, c)
                    for j in m.loop(0, k):
                        entry = m.load(found, j * columns + c + right)
                        m.store(parts, j, m.add_product(entry, value, m.load(parts, j)))
                for j in m.loop(0, k):
                    part = m.load(parts, j)
                    for c in m.loop(0, columns):
                        entry = m.load(found, j * columns + c + right)
                        m.store(row, c, m.sub_product(part, entry, m.load(row, c)))
                    place = k * small + j + triangle
                    m.store(found, place, m.add(m.load(found, place), part))
            length = m.sqrt(squared_length(m, row, columns))
            empty = m.less_equal(length, zero)
            inverse = m.div(m.choose(empty, zero, one), m.choose(empty, one, length))
            m.store(found, k * small + k + triangle, inverse)
            for c in m.loop(0, columns):
                m.store(found, k * columns + c + right, m.mul(m.load(row, c), inverse))

    @property
    def _triangle(self) -> int:
        """Place of T in the results."""
        return self.rows * self.small

    @property
    def _right(self) -> int:
        """Place of Z^T in the results."""
        return self._triangle + self.small * self.small

    def _finish(self, m: Machine, found: Memory, rank: Number) -> None:
        """Return rank and ratio: smallest over largest diagonal element of T within the rank."""
        small = self.small
        zero, one = m.constant(0.0), m.constant(1.0)
        triangle, end = self._triangle, self._right + small * self.columns
        high, low, number = m.memory(1), m.memory(1), m.memory(1)
        m.store(high, 0, zero)
        m.store(low, 0, m.constant(float("inf")))
        m.store(number, 0, zero)
        for k in m.loop(0, small):
            inverse = m.load(found, k * small + k + triangle)
            within = m.less(m.load(number, 0), rank)
            large, little = m.load(high, 0), m.load(low, 0)
            larger = m.choose(m.less(large, inverse), inverse, large)
            smaller = m.choose(m.less(inverse, little), inverse, little)
            m.store(high, 0, m.choose(within, larger, large))
            m.store(low, 0, m.choose(within, smaller, little))
            m.store(number, 0, m.add(m.load(number, 0), one))
        some = m.less(zero, m.load(high, 0))
        divisor = m.choose(some, m.load(high, 0), one)
        m.store(found, end, rank)
        m.store(found, end + 1, m.div(m.choose(some, m.load(low, 0), zero), divisor))

    @property
    def matrix_size(self) -> int:
        """Number of elements of A."""
        return self.rows * self.columns


def factor_size(rows: int, columns: int) -> int:
    """Return the number of elements of Q, T and Z together."""
    small = min(rows, columns)
    return rows * small + small * small + small * columns


def fill(m: Machine, memory: Memory, size: int) -> None:
    """Set the first elements to zero."""
    for place in m.loop(0, size):
        m.store(memory, place, m.constant(0.0))


def mark_largest(m: Machine, values: Memory, marks: Memory, size: int) -> None:
    """Set the mark of the largest value (the first of equal ones) to 1 and all others to 0."""
    zero, one, half = m.constant(0.0), m.constant(1.0), m.constant(0.5)
    best, best_number, number = m.memory(1), m.memory(1), m.memory(1)
    m.store(best, 0, m.constant(-1.0))
    m.store(best_number, 0, zero)
    m.store(number, 0, zero)
    for j in m.loop(0, size):
        value = m.load(values, j)
        larger = m.less(m.load(best, 0), value)
        m.store(best, 0, m.choose(larger, value, m.load(best, 0)))
        chosen = m.choose(larger, m.load(number, 0), m.load(best_number, 0))
        m.store(best_number, 0, chosen)
        m.store(marks, j, m.load(number, 0))
        m.store(number, 0, m.add(m.load(number, 0), one))
    # marks are integers held as floats: compare with a tolerance of a half
    for j in m.loop(0, size):
        distance = m.sub_product(one, m.load(best_number, 0), m.load(marks, j))
        below = m.less(distance, half)
        above = m.less(m.sub_product(one, distance, zero), half)
        m.store(marks, j, m.choose(below, m.choose(above, one, zero), zero))


def squared_length(m: Machine, vector: Memory, size: int) -> Number:
    """Return the sum of the squares of the first elements."""
    total = m.memory(1)
    m.store(total, 0, m.constant(0.0))
    for i in m.loop(0, size):
        value = m.load(vector, i)
        m.store(total, 0, m.add_product(value, value, m.load(total, 0)))
    return m.load(total, 0)


_NAMES = {"P": "solve", "T": "solve_transpose", "R": "project_range", "W": "project_rows"}

# each term: sign, factors on the left, whether dA is transposed, factors on the right;
# P = A^+, T = A^+ transposed, r = 1 - A A^+, w = 1 - A^+ A, applied from right to left
_CHANGES: dict[str, tuple[tuple[int, str, bool, str], ...]] = {
    "P": ((-1, "P", False, "P"), (1, "PT", True, "r"), (1, "w", True, "TP")),
    "T": ((-1, "T", True, "T"), (1, "r", False, "PT"), (1, "TP", False, "w")),
    "R": ((1, "r", False, "P"), (1, "T", True, "r")),
    "W": ((1, "P", False, "w"), (1, "w", True, "T")),
}
_TRANSPOSED = {"P": "T", "T": "P", "R": "R", "W": "W", "r": "r", "w": "w"}


class ApplyOrthogonal(Primitive):
    """Apply a factor to vectors, given and returned one after the other.

    Attributes:
        mode: "P" for A^+ b, "T" for its transpose, "R" for A A^+ b, "W" for A^+ A c.
        vectors: Their number.
    """

    def __init__(self, rows: int, columns: int, mode: str, vectors: int = 1) -> None:
        super().__init__(f"orthogonal_{_NAMES[mode]}", rows, columns, vectors)
        self.rows, self.columns, self.mode, self.vectors = rows, columns, mode, vectors
        self.small = min(rows, columns)
        self.factor_size = factor_size(rows, columns)
        # lengths of a vector it is applied to, and of its image
        self.length = rows if mode in "PR" else columns
        self.image_length = columns if mode in "PW" else rows
        self.argument_count = self.factor_size + vectors * self.length
        self.result_count = vectors * self.image_length

    def _place(self, in_range: bool, i: Index, k: Index) -> Index:
        """Place of element i of column k of Q or of Z."""
        if in_range:
            return i * self.small + k
        return k * self.columns + i + self.small * (self.rows + self.small)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Transform to coordinates of Q or Z, solve with the triangle, transform back by Z or Q."""
        y = m.memory(self.small)
        for vector in m.loop(0, self.vectors):
            self._write_vector(m, given, found, y, vector)

    def _write_vector(
        self, m: Machine, given: Memory, found: Memory, y: Memory, vector: Index
    ) -> None:
        small, mode, zero = self.small, self.mode, m.constant(0.0)
        triangle = self.rows * small
        first, image = vector * self.length + self.factor_size, vector * self.image_length
        for k in m.loop(0, small):
            m.store(y, k, zero)
        for i in m.loop(0, self.length):
            value = m.load(given, first + i)
            for k in m.loop(0, small):
                entry = m.load(given, self._place(mode in "PR", i, k))
                m.store(y, k, m.add_product(entry, value, m.load(y, k)))
        if mode == "P":
            for k in m.loop(0, small):
                known = m.mul(m.load(y, k), m.load(given, k * small + k + triangle))
                m.store(y, k, known)
                for i in m.loop(k + 1, small):
                    entry = m.load(given, i * small + k + triangle)
                    m.store(y, i, m.sub_product(entry, known, m.load(y, i)))
        elif mode == "T":
            for k in m.loop(0, small, down=True):
                known = m.mul(m.load(y, k), m.load(given, k * small + k + triangle))
                m.store(y, k, known)
                for i in m.loop(0, k):
                    entry = m.load(given, k * small + i + triangle)
                    m.store(y, i, m.sub_product(entry, known, m.load(y, i)))
        for i in m.loop(0, self.image_length):
            m.store(found, image + i, zero)
        for k in m.loop(0, small):
            value = m.load(y, k)
            for i in m.loop(0, self.image_length):
                entry = m.load(given, self._place(mode in "TR", i, k))
                m.store(found, image + i, m.add_product(entry, value, m.load(found, image + i)))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the operator times the vectors' tangents plus its own change times the vectors."""
        factor, vectors = args[: self.factor_size], _split(args[self.factor_size :], self.length)
        given = _split(tangents[self.factor_size :], self.length)
        total = self._applied(graph, factor, self.mode, given)
        change = tangents[: self.rows * self.columns]
        for sign, after, transposed, before in _CHANGES[self.mode]:
            inner = self._applied(graph, factor, before, vectors)
            moved = [self._times(graph, change, x, transposed) for x in inner]
            part = self._applied(graph, factor, after, moved)
            combine = graph.add if sign > 0 else graph.sub
            total = [
                [combine(a, b) for a, b in zip(*pair, strict=True)]
                for pair in zip(total, part, strict=True)
            ]
        return [x for image in total for x in image]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of matrix (in place of the factor) and vectors."""
        factor, vectors = args[: self.factor_size], _split(args[self.factor_size :], self.length)
        images = _split(adjoints, self.image_length)
        zero = graph.const(0.0)
        matrix = [zero] * (self.rows * self.columns)
        for sign, after, transposed, before in _CHANGES[self.mode]:
            mirrored = "".join(_TRANSPOSED[op] for op in reversed(after))
            lefts = self._applied(graph, factor, mirrored, images)
            rights = self._applied(graph, factor, before, vectors)
            if transposed:
                lefts, rights = rights, lefts
            combine = graph.add if sign > 0 else graph.sub
            for left, right in zip(lefts, rights, strict=True):
                for i in range(self.rows):
                    for j in range(self.columns):
                        place = i * self.columns + j
                        matrix[place] = combine(matrix[place], graph.mul(left[i], right[j]))
        padding = [zero] * (self.factor_size - len(matrix))
        back = self._applied(graph, factor, _TRANSPOSED[self.mode], images)
        return [*matrix, *padding, *(x for vector in back for x in vector)]

    def _applied(
        self, graph: Graph, factor: Nodes, operators: str, vectors: Sequence[Nodes]
    ) -> list[Nodes]:
        """Apply operators to vectors, the last one first."""
        found = [list(vector) for vector in vectors]
        for operator in reversed(operators):
            projection = operator.upper() if operator in "rw" else operator
            some = [k for k, vector in enumerate(found) if not is_zero_row(graph, vector)]
            callee = ApplyOrthogonal(self.rows, self.columns, projection, max(len(some), 1))
            images = [[graph.const(0.0)] * callee.image_length for _ in found]
            if some:
                given = [x for k in some for x in found[k]]
                nonzero = _split(graph.call(callee, [*factor, *given]), callee.image_length)
                for k, image in zip(some, nonzero, strict=True):
                    images[k] = image
            if operator in "rw":
                images = [
                    [graph.sub(a, b) for a, b in zip(*pair, strict=True)]
                    for pair in zip(found, images, strict=True)
                ]
            found = images
        return found

    def _times(self, graph: Graph, change: Nodes, vector: Nodes, transposed: bool) -> Nodes:
        rows, columns = self.rows, self.columns
        if transposed:
            return [
                dot(graph, [(change[i * columns + j], vector[i]) for i in range(rows)])
                for j in range(columns)
            ]
        return [
            dot(graph, [(change[i * columns + j], vector[j]) for j in range(columns)])
            for i in range(rows)
        ]


def _split(values: Sequence[Any], length: int) -> list[list[Any]]:
    """Return vectors that are given one after the other."""
    return [list(values[start : start + length]) for start in range(0, len(values), length)]


SMALLEST_SQUARE = 1e-300
"""Square of a length that is zero: elements have magnitudes above 1e-150."""

RANK_CUT = 1e-10
"""Columns whose independent part is shorter than this times the longest column are dependent."""


class OrthogonalFactor:
    """A factored matrix of any shape and rank.

    Attributes:
        shape: Rows and columns of the matrix A.
        rank: Its rank at the cut, a float or traced value; constant in derivatives.
        ratio: Estimate of the smallest kept over the largest singular value (0 for a zero
            matrix): a measure of the distance to rank deficiency. Constant in derivatives, too.
    """

    def __init__(self, shape: tuple[int, int], numbers: Sequence[Any]) -> None:
        """Store the values of the factor; see `factor_orthogonal`."""
        self.shape = shape
        self.rank = numbers[-2]
        self.ratio = numbers[-1]
        self._numbers = list(numbers[:-2])

    def solve(self, b: Any) -> Any:
        """Return A^+ b: of all x with the smallest |A x - b|, the shortest.

        Args:
            b: Right-hand sides, shape (rows,) or (rows, more).

        Returns:
            Shape (columns,) or (columns, more).
        """
        return self._apply("P", b)

    def solve_transpose(self, c: Any) -> Any:
        """Return A^+T c: of all y with the smallest |A^T y - c|, the shortest.

        Args:
            c: Right-hand sides, shape (columns,) or (columns, more).

        Returns:
            Shape (rows,) or (rows, more).
        """
        return self._apply("T", c)

    def project_range(self, b: Any) -> Any:
        """Return A A^+ b: the part of b that A can produce, shape of b."""
        return self._apply("R", b)

    def project_rows(self, x: Any) -> Any:
        """Return A^+ A x: the part of x that A can see, shape of x."""
        return self._apply("W", x)

    def _apply(self, mode: str, vectors: Any) -> Any:
        one = ApplyOrthogonal(*self.shape, mode)
        shape, columns = right_hand_sides("vector", one.length, vectors)

        def solve(some: Sequence[Sequence[Any]]) -> list[list[Any]]:
            primitive = ApplyOrthogonal(*self.shape, mode, len(some))
            found = primitive.apply([*self._numbers, *(x for column in some for x in column)])
            return _split(found, primitive.image_length)

        return solve_columns(shape, one.image_length, columns, solve)


class LeastSquares(NamedTuple):
    """A least-squares solution and how sure it is."""

    x: Any
    """The solution, shape (columns,) or (columns, more)."""
    rank: Any
    """Rank of the matrix at the cut."""
    ratio: Any
    """Estimate of the smallest kept over the largest singular value."""


def factor_orthogonal(matrix: Any, *, cut: Any = RANK_CUT, floor: Any = 0.0) -> OrthogonalFactor:
    """Factor a matrix of any shape and rank.

    Works on lengths, not on their squares, so the rank decision uses the full precision of the
    elements. These must have magnitudes between about 1e-150 and 1e150, or be zero.

    Args:
        matrix: A, shape (rows, columns).
        cut: Columns whose independent part is at most this times the longest count as dependent.
        floor: Length at which they count as zero, whatever the longest is: the error of the
            elements, if they are differences (projections) that may all vanish.

    Returns:
        The factor, which solves and projects.

    Raises:
        ShapeError: If it is not a matrix, or empty.
    """
    shape = shape_of(matrix)
    if len(shape) != 2 or 0 in shape:
        raise ShapeError("matrix", "(rows, columns), both at least 1", shape)
    rows, columns = shape
    numbers = numbers_of(matrix)
    if not (isinstance(floor, float) and floor == 0.0):
        squares = [sum(x * x for x in numbers[j::columns]) for j in range(columns)]
        longest = functools.reduce(np.maximum, squares)
        cut = np.maximum(cut, floor / np.sqrt(np.maximum(longest, SMALLEST_SQUARE)))
    return OrthogonalFactor((rows, columns), FactorOrthogonal(rows, columns).apply([*numbers, cut]))


def solve_least_squares(matrix: Any, b: Any, *, cut: Any = RANK_CUT) -> LeastSquares:
    """Solve A x = b in the least-squares sense; of several solutions, return the shortest.

    Args:
        matrix: A, shape (rows, columns).
        b: Right-hand sides, shape (rows,) or (rows, more).
        cut: See `factor_orthogonal`.

    Returns:
        Solution, rank and ratio.

    Raises:
        ShapeError: If the shapes do not fit.
    """
    factor = factor_orthogonal(matrix, cut=cut)
    return LeastSquares(factor.solve(b), factor.rank, factor.ratio)
