"""`invert_tree`: the inverse of a tree's mass matrix, from its factors H = L^T D L.

H^-1 = W D^-1 W^T with W = L^-1, which has the zeros of L: the row of a body holds its ancestors
only (Featherstone 2005, cited in `tiburon.trace.primitives.tree`). Two bodies therefore share as
many terms as they share ancestors.

Derivative. A factor is a handle, as in `tiburon.trace.primitives.spd`: d(H^-1) = -H^-1 dH H^-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.trace.graph import Graph
from tiburon.trace.primitives.machine import Machine, Memory
from tiburon.trace.primitives.primitive import array_of, dot, numbers_of, square_size
from tiburon.trace.primitives.spd import INLINE_SIZE
from tiburon.trace.primitives.tree import FactorTree, TreePrimitive

__all__ = ["InvertTree", "invert_tree"]


class InvertTree(TreePrimitive):
    """Invert: the numbers of a factor to all of H^-1, row by row."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("invert_tree", parents)

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.layout.stored

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return self.layout.size**2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Invert L row by row from the root, then add up the products of rows."""
        layout = self.layout
        n = layout.size
        starts = m.table(layout.starts)
        # the row that each stored column belongs to; the rows of two bodies begin alike
        rows = m.table([layout.starts[j] for _, j in layout.elements()])
        diagonals = m.table([layout.starts[j + 1] - 1 for _, j in layout.elements()])
        W, V = m.memory(layout.stored), m.memory(layout.stored)
        zero, one = m.constant(0.0), m.constant(1.0)
        for i in m.loop(0, n):
            start = m.lookup(starts, i)
            depth = m.lookup(starts, i + 1) - start - 1
            for s in m.loop(0, depth):
                m.store(W, start + s, zero)
            m.store(W, start + depth, one)
            for t in m.loop(0, depth):
                entry = m.load(given, start + t)
                row = m.lookup(rows, start + t)
                for s in m.loop(0, t + 1, independent=True):
                    old = m.load(W, start + s)
                    m.store(W, start + s, m.sub_product(entry, m.load(W, row + s), old))
        for place in m.loop(0, layout.stored):
            inverse = m.load(given, m.lookup(diagonals, place))
            m.store(V, place, m.mul(m.load(W, place), inverse))
        shared = m.table(self._shared())
        for i in m.loop(0, n):
            start = m.lookup(starts, i)
            for j in m.loop(0, i + 1):
                place = i * n + j
                other = m.lookup(starts, j)
                m.store(found, place, zero)
                for s in m.loop(0, m.lookup(shared, place)):
                    old = m.load(found, place)
                    product = m.load(V, start + s), m.load(W, other + s)
                    m.store(found, place, m.add_product(*product, old))
                m.store(found, j * n + i, m.load(found, place))

    def _shared(self) -> list[int]:
        """Return how many rows each pair of rows hangs on in common, itself included."""
        paths, n = self.layout.columns, self.layout.size
        shared = [0] * (n * n)
        for i, path in enumerate(paths):
            if len(path) > 1:
                # as many as the row it hangs on, whose counts are known already
                above = path[-2] * n
                shared[i * n : i * n + i] = shared[above : above + i]
            for j in range(i):
                shared[j * n + i] = shared[i * n + j]
            shared[i * n + i] = len(path)
        return shared

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return -H^-1 dH H^-1."""
        n = self.layout.size
        zero = graph.const(0.0)
        change = [[zero] * n for _ in range(n)]
        for (i, j), entry in zip(self.layout.elements(), tangents, strict=True):
            change[i][j] = change[j][i] = entry
        product = self._between(graph, results, change)
        return [graph.neg(product[max(i, j)][min(i, j)]) for i in range(n) for j in range(n)]

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return -(H^-1 A H^-1) and its transpose, once on the diagonal; A holds the adjoints."""
        n = self.layout.size
        rows = [adjoints[i * n : (i + 1) * n] for i in range(n)]
        product = self._between(graph, results, rows)
        return [
            graph.neg(product[i][i] if i == j else graph.add(product[i][j], product[j][i]))
            for i, j in self.layout.elements()
        ]

    def _between(
        self, graph: Graph, results: list[int], matrix: list[list[int]]
    ) -> list[list[int]]:
        """Return H^-1 matrix H^-1."""
        n = self.layout.size
        inverse = [results[i * n : (i + 1) * n] for i in range(n)]
        right = [
            [dot(graph, [(matrix[i][k], inverse[k][j]) for k in range(n)]) for j in range(n)]
            for i in range(n)
        ]
        return [
            [dot(graph, [(inverse[i][k], right[k][j]) for k in range(n)]) for j in range(n)]
            for i in range(n)
        ]


def invert_tree(parents: Sequence[int], matrix: Any, *, inline: bool | None = None) -> Any:
    """Invert the mass matrix of a tree.

    Args:
        parents: For each row the row it hangs on, -1 for none; a parent comes before its children.
        matrix: H, shape (n, n); only elements of a row and its ancestors are read, lower triangle.
        inline: Whether to spell the operations out in the graph instead of calling; by default up
            to n = 6.

    Returns:
        The inverse, shape (n, n), symmetric in bits.

    Raises:
        ShapeError: If the matrix is not square.
        DomainError: If the matrix is not positive definite, on floats.
    """
    size = square_size("matrix", matrix)
    spelled = size <= INLINE_SIZE if inline is None else inline
    factor = FactorTree(parents)
    flat = numbers_of(matrix)
    stored = [flat[i * size + j] for i, j in factor.layout.elements()]
    found = InvertTree(parents).apply(factor.apply(stored, inline=spelled), inline=spelled)
    return array_of(found, (size, size))
