"""`solve_tree`: linear equations with the mass matrix of a tree, by H = L^T D L without fill-in.

Featherstone 2005, "Efficient factorization of the joint-space inertia matrix for branched kinematic
trees", Int. J. Robotics Research 24(6). H[i, j] is zero unless one of the two is an ancestor of the
other; eliminating from the leaves to the root keeps exactly those zeros.

Row i is stored as its ancestors' elements from the root down, then the diagonal, so that the rows
of a body and of any of its ancestors begin with the same columns. A factor keeps the rows of L left
of the diagonal and the reciprocals of D on it. For derivatives a factor is a handle, as in
`tiburon.trace.primitives.spd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph
from tiburon.trace.primitives.machine import Machine, Memory
from tiburon.trace.primitives.primitive import (
    Factorization,
    Primitive,
    is_zero_row,
    numbers_of,
    right_hand_sides,
    solve_columns,
    square_size,
)
from tiburon.trace.primitives.spd import INLINE_SIZE, LOST_PIVOT

__all__ = [
    "FactorTree",
    "SolveTree",
    "TreeFactor",
    "TreePrimitive",
    "factor_tree",
    "solve_tree",
]


class _Layout:
    """Where the elements of a tree's matrix are stored.

    Attributes:
        columns: For each row its columns, root first, the diagonal last.
        starts: Place of the first element of each row; one more entry for the end.
    """

    def __init__(self, parents: Sequence[int]) -> None:
        self.columns: list[list[int]] = []
        self.starts = [0]
        for i, parent in enumerate(parents):
            above = self.columns[parent] if parent >= 0 else []
            self.columns.append([*above, i])
            self.starts.append(self.starts[-1] + len(above) + 1)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.columns)

    @property
    def stored(self) -> int:
        """Number of stored elements."""
        return self.starts[-1]

    def elements(self) -> list[tuple[int, int]]:
        """Row and column of each stored element, in order."""
        return [(i, j) for i, row in enumerate(self.columns) for j in row]


class TreePrimitive(Primitive):
    """A primitive on matrices with the zeros of a tree.

    Attributes:
        layout: Where their elements are stored.
    """

    def __init__(self, name: str, parents: Sequence[int]) -> None:
        super().__init__(name, *[parent + 1 for parent in parents])
        self.layout = _Layout(parents)


class FactorTree(TreePrimitive, Factorization):
    """Factor: the stored elements of H to as many of L and 1/D; NaN if not positive definite."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("factor_tree", parents)

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.layout.stored

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return self.layout.stored

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Eliminate from the leaves to the root [Featherstone 2005, algorithm LTDL]."""
        layout = self.layout
        starts = m.table(layout.starts)
        # the row that each stored column belongs to
        rows = m.table([layout.starts[j] for _, j in layout.elements()])
        one, lost = m.constant(1.0), m.constant(LOST_PIVOT)
        for place in m.loop(0, layout.stored):
            m.store(found, place, m.load(given, place))
        for k in m.loop(0, layout.size, down=True):
            start = m.lookup(starts, k)
            depth = m.lookup(starts, k + 1) - start - 1
            diagonal = start + depth
            pivot = m.load(found, diagonal)
            positive = m.less(m.mul(lost, m.load(given, diagonal)), pivot)
            pivot = m.require(
                positive, pivot, "a positive definite mass matrix; check masses and inertias"
            )
            inverse = m.div(one, pivot)
            m.store(found, diagonal, inverse)
            # from the nearest ancestor up: the elements above are then still those of D L
            for t in m.loop(0, depth, down=True):
                entry = m.mul(m.load(found, start + t), inverse)
                row = m.lookup(rows, start + t)
                for s in m.loop(0, t + 1, independent=True):
                    old = m.load(found, row + s)
                    m.store(found, row + s, m.sub_product(entry, m.load(found, start + s), old))
                m.store(found, start + t, entry)


class SolveTree(TreePrimitive):
    """Solve: a factor and a vector to the solution."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("solve_tree", parents)

    @property
    def argument_count(self) -> int:
        """Number of floats it takes."""
        return self.layout.stored + self.layout.size

    @property
    def result_count(self) -> int:
        """Number of floats it gives."""
        return self.layout.size

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Substitute with L^T from the leaves, divide by D, substitute with L from the root."""
        layout = self.layout
        n = layout.size
        starts = m.table(layout.starts)
        columns = m.table([j for _, j in layout.elements()])
        for i in m.loop(0, n):
            m.store(found, i, m.load(given, layout.stored + i))
        for i in m.loop(0, n, down=True):
            known = m.load(found, i)
            for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
                j = m.lookup(columns, place)
                old = m.load(found, j)
                m.store(found, j, m.sub_product(m.load(given, place), known, old))
        for i in m.loop(0, n):
            inverse = m.load(given, m.lookup(starts, i + 1) - 1)
            m.store(found, i, m.mul(m.load(found, i), inverse))
        for i in m.loop(0, n):
            for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
                known = m.load(found, m.lookup(columns, place))
                old = m.load(found, i)
                m.store(found, i, m.sub_product(m.load(given, place), known, old))

    def tangent(
        self, graph: Graph, args: list[int], results: list[int], tangents: list[int]
    ) -> list[int]:
        """Return dx = H^-1 (db - dH x)."""
        stored = self.layout.stored
        right = list(tangents[stored:])
        for (i, j), change in zip(self.layout.elements(), tangents[:stored], strict=True):
            right[i] = graph.sub(right[i], graph.mul(change, results[j]))
            if i != j:
                right[j] = graph.sub(right[j], graph.mul(change, results[i]))
        return self._again(graph, args, right)

    def adjoint(
        self, graph: Graph, args: list[int], results: list[int], adjoints: list[int]
    ) -> list[int]:
        """Return w = H^-1 xbar for b and -(w x^T + x w^T) for H, once on the diagonal."""
        w, x = self._again(graph, args, adjoints), results
        matrix = []
        for i, j in self.layout.elements():
            part = graph.mul(w[i], x[j])
            if i != j:
                part = graph.add(part, graph.mul(w[j], x[i]))
            matrix.append(graph.neg(part))
        return [*matrix, *w]

    def _again(self, graph: Graph, args: list[int], right: list[int]) -> list[int]:
        if is_zero_row(graph, right):
            return right
        return graph.call(self, [*args[: self.layout.stored], *right])


class TreeFactor:
    """The factored mass matrix of a tree.

    Attributes:
        parents: Parent of each row, -1 for those without.
    """

    def __init__(self, parents: Sequence[int], numbers: Sequence[Any], inline: bool) -> None:
        """Keep the numbers of the factor; see `factor_tree`."""
        self.parents = tuple(parents)
        self._numbers = list(numbers)
        self._inline = inline

    def solve(self, b: Any) -> Any:
        """Solve H x = b.

        Args:
            b: Right-hand sides, shape (n,) or (n, columns).

        Returns:
            The solution, shape of b.
        """
        size = len(self.parents)
        shape, columns = right_hand_sides("b", size, b)
        primitive = SolveTree(self.parents)
        return solve_columns(
            shape,
            size,
            columns,
            lambda column: primitive.apply([*self._numbers, *column], inline=self._inline),
        )


def factor_tree(parents: Sequence[int], matrix: Any, *, inline: bool | None = None) -> TreeFactor:
    """Factor the mass matrix of a tree into L^T D L, keeping its zeros.

    A matrix that is not positive definite to working precision raises on floats; in native code it
    gives NaN, which the border check reports.

    Args:
        parents: For each row (degree of freedom) the row it hangs on, -1 for none; a parent comes
            before its children. A joint with several degrees of freedom is a chain of rows.
        matrix: H, shape (n, n); only elements of a row and its ancestors are read, lower triangle.
        inline: Whether to spell the operations out in the graph instead of calling; by default up
            to n = 6.

    Returns:
        The factor, which solves.

    Raises:
        ShapeError: If matrix and parents do not fit.
        DomainError: If the matrix is not positive definite, on floats.
    """
    size = square_size("matrix", matrix)
    if len(parents) != size:
        raise ShapeError("parents", f"{size} (rows of the matrix)", len(parents))
    for row, parent in enumerate(parents):
        if not -1 <= parent < row:
            raise ShapeError(
                "parents", f"-1 or a row before {row} at place {row}", parent, advice="sort rows"
            )
    spelled = size <= INLINE_SIZE if inline is None else inline
    primitive = FactorTree(parents)
    flat = numbers_of(matrix)
    stored = [flat[i * size + j] for i, j in primitive.layout.elements()]
    return TreeFactor(parents, primitive.apply(stored, inline=spelled), spelled)


def solve_tree(parents: Sequence[int], matrix: Any, b: Any, *, inline: bool | None = None) -> Any:
    """Solve H x = b with the mass matrix of a tree.

    Args:
        parents: For each row the row it hangs on, -1 for none.
        matrix: H, shape (n, n); only elements of a row and its ancestors are read, lower triangle.
        b: Right-hand sides, shape (n,) or (n, columns).
        inline: See `factor_tree`.

    Returns:
        The solution x, shape of b.

    Raises:
        ShapeError: If the shapes do not fit.
        DomainError: If the matrix is not positive definite, on floats.
    """
    return factor_tree(parents, matrix, inline=inline).solve(b)
