"""`singular_values`: singular values of a small matrix, without vectors.

They are square roots of the eigenvalues of the smaller Gram matrix, which reflections of
Householder make tridiagonal (Golub and Van Loan 2013, Matrix Computations, section 8.3.1); on it
the iteration of Pal, Walker and Kahan works without square roots (Parlett 1998, The Symmetric
Eigenvalue Problem, section 8.15; LAPACK's dsterf). All cases of a vector deflate the same rows, so
that many matrices are computed side by side. Squares lose digits: relative errors are about
1e-15 (largest / value)^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiburon.errors import TraceError
from tiburon.trace.array import TracedArray, as_traced
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    numbers_of,
)

MOST_SWEEPS = 30
"""Sweeps of one eigenvalue after which a case is given up: its value is then NaN."""


NEGLIGIBLE = 2.0**-54
"""Elements of the Gram matrix, relative to its trace, that are dropped."""

LEAST_DIVISOR = 1e-290
"""Smaller numbers are taken for zero: their inverse may overflow."""


class SingularValues(Primitive):
    """Find: elements of a matrix, row by row, to its singular values, in no order."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__("singular_values", rows, columns)
        self.rows, self.columns = rows, columns
        self.argument_count = rows * columns
        self.result_count = min(rows, columns)

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Square, make tridiagonal, then find the eigenvalues one by one."""
        n = self.result_count
        squares = m.memory(n * n)
        self._square(m, given, squares)
        trace = m.memory(1)
        m.store(trace, 0, m.constant(0.0))
        for i in m.loop(0, n):
            m.store(trace, 0, m.add(m.load(trace, 0), m.load(squares, i * n + i)))
        small = m.mul(m.constant(NEGLIGIBLE), m.load(trace, 0))
        least = m.mul(small, small)
        # squares of the elements beside the diagonal; the last stays 0
        beside = m.memory(n)
        _tridiagonalize(m, squares, found, beside, n, least)
        _find_eigenvalues(m, found, beside, n, least)
        zero = m.constant(0.0)
        for i in m.loop(0, n):
            value = m.load(found, i)
            m.store(found, i, m.sqrt(m.choose(m.less(value, zero), zero, value)))

    def _square(self, m: Machine, given: Memory, squares: Memory) -> None:
        """Write the lower triangle of the smaller Gram matrix."""
        n, length = self.result_count, self.rows + self.columns - self.result_count
        by_rows = self.rows <= self.columns
        step, stride = (self.columns, 1) if by_rows else (1, self.columns)
        # sums of a row grow side by side: none waits for the one before
        for i in m.loop(0, n):
            for j in m.loop(0, i + 1):
                m.store(squares, i * n + j, m.constant(0.0))
            for k in m.loop(0, length):
                a = m.load(given, i * step + k * stride)
                for j in m.loop(0, i + 1):
                    b = m.load(given, j * step + k * stride)
                    m.store(squares, i * n + j, m.add_product(a, b, m.load(squares, i * n + j)))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Refuse: equal values have no derivatives."""
        raise TraceError("singular_values has no derivatives")

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Refuse: equal values have no derivatives."""
        raise TraceError("singular_values has no derivatives")


def _tridiagonalize(
    m: Machine, a: Memory, diagonal: Memory, beside: Memory, n: int, least: Number
) -> None:
    """Reflect row by row, from the last; only the lower triangle is read and written.

    Rows whose squares are below the least are not reflected: in matrices of low rank they are
    roundings of roundings, down to numbers without inverse.
    """
    zero, one, half = m.constant(0.0), m.constant(1.0), m.constant(0.5)
    product, rest = m.memory(n), m.memory(1)
    m.store(beside, n - 1, zero)
    for i in m.loop(1, n, down=True):
        last = i - 1
        m.store(rest, 0, zero)
        for k in m.loop(0, last):
            value = m.load(a, i * n + k)
            m.store(rest, 0, m.add_product(value, value, m.load(rest, 0)))
        f = m.load(a, i * n + last)
        length2 = m.add_product(f, f, m.load(rest, 0))
        m.store(beside, last, length2)
        m.store(diagonal, i, m.load(a, i * n + i))
        # v = row - g e, with g against the sign of f; h = v^2 / 2
        flat = m.less_equal(m.load(rest, 0), least)
        length = m.sqrt(length2)
        g = m.choose(m.less(f, zero), length, m.sub_product(one, length, zero))
        h = m.sub_product(f, g, length2)
        inverse = m.div(m.choose(flat, zero, one), m.choose(flat, one, h))
        m.store(a, i * n + last, m.sub_product(one, g, f))
        for j in m.loop(0, i):
            m.store(product, j, zero)
        for j in m.loop(0, i):
            vj = m.load(a, i * n + j)
            for k in m.loop(0, j + 1):
                entry = m.load(a, j * n + k)
                m.store(product, k, m.add_product(entry, vj, m.load(product, k)))
            for k in m.loop(j + 1, i):
                entry = m.load(a, k * n + j)
                m.store(product, k, m.add_product(entry, vj, m.load(product, k)))
        m.store(rest, 0, zero)
        for j in m.loop(0, i):
            value = m.mul(m.load(product, j), inverse)
            m.store(product, j, value)
            m.store(rest, 0, m.add_product(value, m.load(a, i * n + j), m.load(rest, 0)))
        part = m.mul(m.mul(half, m.load(rest, 0)), inverse)
        for j in m.loop(0, i):
            vj = m.load(a, i * n + j)
            qj = m.sub_product(part, vj, m.load(product, j))
            m.store(product, j, qj)
            for k in m.loop(0, j + 1):
                vk, qk = m.load(a, i * n + k), m.load(product, k)
                old = m.load(a, j * n + k)
                m.store(a, j * n + k, m.sub_product(qj, vk, m.sub_product(vj, qk, old)))
    m.store(diagonal, 0, m.load(a, 0))


def _find_eigenvalues(m: Machine, d: Memory, b: Memory, n: int, least: Number) -> None:
    """Iterate on the diagonal and the squares beside it until these are below the least."""
    before = m.memory(4)
    for l in m.loop(0, n - 1):

        def going(l: Index = l) -> Truth:
            return m.less(least, m.load(b, l))

        for _ in m.iterate(MOST_SWEEPS, going):
            _sweep(m, d, b, before, l, n, going())
        nan = m.constant(float("nan"))
        m.store(d, l, m.choose(going(), nan, m.load(d, l)))


def _sweep(
    m: Machine, d: Memory, b: Memory, before: Memory, l: Index, n: int, active: Truth
) -> None:
    """Sweep from the end up to row l, with the shift of Wilkinson there.

    `before` has c, s, gamma and p of the row before.
    """
    zero, one, two = m.constant(0.0), m.constant(1.0), m.constant(2.0)

    def put(memory: Memory, place: Index, value: Number) -> None:
        m.store(memory, place, m.choose(active, value, m.load(memory, place)))

    def minus(x: Number, y: Number) -> Number:
        return m.sub_product(one, y, x)

    first = m.load(d, l)
    root = m.sqrt(m.load(b, l))
    # cases that are done must not divide by zero
    safe = m.choose(m.less(zero, root), root, one)
    slope = m.div(minus(m.load(d, l + 1), first), m.mul(two, safe))
    length = m.sqrt(m.add_product(slope, slope, one))
    signed = m.choose(m.less(slope, zero), minus(zero, length), length)
    shift = minus(first, m.div(root, m.add(slope, signed)))
    start = minus(m.load(d, n - 1), shift)
    for place, value in enumerate((one, zero, start, m.mul(start, start))):
        m.store(before, place, value)
    for i in m.loop(l, n - 1, down=True):
        c0, s0, gamma0, p0 = (m.load(before, place) for place in range(4))
        beside = m.load(b, i)
        r = m.add(p0, beside)
        # the element below the last row is not one: it stays 0 since s is
        put(b, i + 1, m.mul(s0, r))
        empty = m.less(r, m.constant(LEAST_DIVISOR))
        inverse = m.div(m.choose(empty, zero, one), m.choose(empty, one, r))
        c = m.choose(empty, one, m.mul(p0, inverse))
        s = m.mul(beside, inverse)
        alpha = m.load(d, i)
        gamma = m.sub_product(s, gamma0, m.mul(c, minus(alpha, shift)))
        put(d, i + 1, m.add(gamma0, minus(alpha, gamma)))
        still = m.less(zero, c)
        square = m.div(m.mul(gamma, gamma), m.choose(still, c, one))
        p = m.choose(still, square, m.mul(c0, beside))
        for place, value in enumerate((c, s, gamma, p)):
            m.store(before, place, value)
    _, s, gamma, p = (m.load(before, place) for place in range(4))
    put(b, l, m.mul(s, p))
    put(d, l, m.add(shift, gamma))


def singular_values(matrix: Any) -> TracedArray:
    """Return the singular values of a traced matrix, shape (least of rows and columns,), unsorted.

    A value that does not converge is NaN, and where the smallest is below 1e-4 of the largest, a
    singular value decomposition is more accurate.

    Args:
        matrix: Shape (rows, columns), neither 0.
    """
    rows, columns = np.shape(matrix)
    own = SingularValues(rows, columns)
    return as_traced(own.apply(numbers_of(matrix)))
