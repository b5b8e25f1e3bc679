"""`solve_tree_columns`: many right-hand sides with the mass matrix of a tree, in one call.

The same substitutions as in `tiburon.trace.primitives.tree`, on whole rows of the right-hand sides:
the factor is handed over once, and the innermost loop runs over neighbors in memory.

Derivative. A factor is a handle, as in `tiburon.trace.primitives.spd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.machine import Machine, Memory
from tiburon.trace.primitives.primitive import (
    array_of,
    dot,
    is_zero_row,
    numbers_of,
    shape_of,
    square_size,
)
from tiburon.trace.primitives.tree import FactorTree, TreePrimitive

__all__ = ["SolveTreeColumns", "solve_tree_columns"]


class SolveTreeColumns(TreePrimitive):
    """Solve: a factor and the rows of a matrix to the rows of the solution."""

    def __init__(self, parents: Sequence[int], columns: int) -> None:
        # the name tells forms apart, too
        super().__init__(f"solve_tree_{columns}_columns", parents)
        self.columns = columns

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.layout.stored + self.result_count

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return self.layout.size * self.columns

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Substitute with L^T from the leaves, divide by D, substitute with L from the root."""
        layout, width = self.layout, self.columns
        n = layout.size
        starts = m.table(layout.starts)
        # where the row of each stored column begins in the result
        others = m.table([j * width for _, j in layout.elements()])
        for place in m.loop(0, n * width):
            m.store(found, place, m.load(given, layout.stored + place))
        for i in m.loop(0, n, down=True):
            for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
                entry, other = m.load(given, place), m.lookup(others, place)
                for k in m.loop(0, width, independent=True):
                    known, old = m.load(found, i * width + k), m.load(found, other + k)
                    m.store(found, other + k, m.sub_product(entry, known, old))
        for i in m.loop(0, n):
            inverse = m.load(given, m.lookup(starts, i + 1) - 1)
            for k in m.loop(0, width, independent=True):
                m.store(found, i * width + k, m.mul(m.load(found, i * width + k), inverse))
            for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
                entry, other = m.load(given, place), m.lookup(others, place)
                for k in m.loop(0, width, independent=True):
                    known, old = m.load(found, other + k), m.load(found, i * width + k)
                    m.store(found, i * width + k, m.sub_product(entry, known, old))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return dX = H^-1 (dB - dH X)."""
        stored, width = self.layout.stored, self.columns
        right = list(tangents[stored:])
        for (i, j), change in zip(self.layout.elements(), tangents[:stored], strict=True):
            for k in range(width):
                a, b = i * width + k, j * width + k
                right[a] = graph.sub(right[a], graph.mul(change, results[b]))
                if i != j:
                    right[b] = graph.sub(right[b], graph.mul(change, results[a]))
        return self._again(graph, args, right)

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return W = H^-1 Xbar for B and -(W X^T + X W^T) for H, once on the diagonal."""
        w, x = self._again(graph, args, adjoints), results
        width = self.columns
        matrix = []
        for i, j in self.layout.elements():
            rows = range(i * width, (i + 1) * width), range(j * width, (j + 1) * width)
            terms = [(w[a], x[b]) for a, b in zip(*rows, strict=True)]
            if i != j:
                terms += [(w[b], x[a]) for a, b in zip(*rows, strict=True)]
            matrix.append(graph.neg(dot(graph, terms)))
        return [*matrix, *w]

    def _again(self, graph: Graph, args: list[int], right: list[int]) -> list[int]:
        if is_zero_row(graph, right):
            return right
        return graph.call(self, [*args[: self.layout.stored], *right])


def solve_tree_columns(parents: Sequence[int], matrix: Any, b: Any, *, inline: bool = False) -> Any:
    """Solve H X = B with the mass matrix of a tree.

    Args:
        parents: For each row the row it hangs on, -1 for none; a parent comes before its children.
        matrix: H, shape (n, n); only elements of a row and its ancestors are read, lower triangle.
        b: Right-hand sides, shape (n, columns).
        inline: Whether to spell the operations out in the graph instead of calling.

    Returns:
        The solution X, shape (n, columns).

    Raises:
        ShapeError: If the shapes do not fit.
        DomainError: If the matrix is not positive definite, on floats.
    """
    size, shape = square_size("matrix", matrix), shape_of(b)
    if len(shape) != 2 or shape[0] != size:
        raise ShapeError("b", f"({size}, columns)", shape)
    factor = FactorTree(parents)
    flat = numbers_of(matrix)
    stored = [flat[i * size + j] for i, j in factor.layout.elements()]
    numbers = factor.apply(stored, inline=inline)
    solve = SolveTreeColumns(parents, shape[1])
    return array_of(solve.apply([*numbers, *numbers_of(b)], inline=inline), shape)
