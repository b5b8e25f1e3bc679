"""Linear equations with the mass matrix of a tree, by H = L^T D L without fill-in.

Featherstone 2005, "Efficient factorization of the joint-space inertia matrix for branched kinematic
trees", Int. J. Robotics Research 24(6). H[i, j] is zero unless one of the two is an ancestor of the
other; eliminating from the leaves to the root keeps exactly those zeros.

Row i is stored as its ancestors' elements from the root down, then the diagonal, so that the rows
of a body and of any of its ancestors start with the same columns. A factor stores the rows of L
left of the diagonal and the reciprocals of D on it.

`solve_tree` has one right-hand side. `solve_tree_columns` has many: the same substitutions on whole
rows of them, with the innermost loop over contiguous memory. `invert_tree` computes
H^-1 = W D^-1 W^T with W = L^-1, which has the zeros of L: the row of a body holds its ancestors
only, so that two bodies share as many terms as they share ancestors.

Derivatives. A factor is a handle, as in `tiburon.trace.primitives.spd`; d(H^-1) = -H^-1 dH H^-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tiburon.errors import ShapeError
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    Factorization,
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    SymmetricSolve,
    array_of,
    dot,
    numbers_of,
    shape_of,
    square_size,
)
from tiburon.trace.primitives.spd import INLINE_SIZE, inverted_pivot


class TreeLayout:
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

    def related(self) -> list[list[int]]:
        """For each row its ancestors and descendants, itself included."""
        found: list[set[int]] = [set() for _ in self.columns]
        for i, j in self.elements():
            found[i].add(j)
            found[j].add(i)
        return [sorted(row) for row in found]


class TreePrimitive(Primitive):
    """A primitive on matrices with the zeros of a tree.

    Attributes:
        layout: Where their elements are stored.
    """

    def __init__(self, name: str, parents: Sequence[int]) -> None:
        super().__init__(name, *[parent + 1 for parent in parents])
        self.layout = TreeLayout(parents)


class FactorTree(TreePrimitive, Factorization):
    """Factor: the stored elements of H to as many of L and 1/D; NaN if not positive definite."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("factor_tree", parents)
        self.argument_count = self.result_count = self.layout.stored

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Eliminate from the leaves to the root [Featherstone 2005, algorithm LTDL]."""
        layout = self.layout
        starts = m.table(layout.starts)
        # the row that each stored column belongs to
        rows = m.table([layout.starts[j] for _, j in layout.elements()])
        for place in m.loop(0, layout.stored):
            m.store(found, place, m.load(given, place))
        for k in m.loop(0, layout.size, down=True):
            start = m.lookup(starts, k)
            depth = m.lookup(starts, k + 1) - start - 1
            diagonal = start + depth
            expected = "a positive definite mass matrix; check masses and inertias"
            inverse = inverted_pivot(m, given, found, diagonal, expected)
            # from the nearest ancestor up: the elements above are then still those of D L
            for t in m.loop(0, depth, down=True):
                entry = m.mul(m.load(found, start + t), inverse)
                row = m.lookup(rows, start + t)
                for s in m.loop(0, t + 1, independent=True):
                    old = m.load(found, row + s)
                    m.store(found, row + s, m.sub_product(entry, m.load(found, start + s), old))
                m.store(found, start + t, entry)


class SolveTree(TreePrimitive, SymmetricSolve):
    """Solve: a factor and a vector to the solution."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("solve_tree", parents)
        self.stored, self.entries = self.layout.stored, self.layout.elements()
        self.result_count = self.layout.size
        self.argument_count = self.stored + self.result_count

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


class TreeFactor:
    """The factored mass matrix of a tree.

    Attributes:
        parents: Parent of each row, -1 for those without.
    """

    def __init__(self, parents: Sequence[int], numbers: Sequence[Any], inline: bool) -> None:
        """Store the values of the factor; see `factor_tree`."""
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
        return SolveTree(self.parents).solve_columns(self._numbers, "b", b, inline=self._inline)


def factor_tree(parents: Sequence[int], matrix: Any, *, inline: bool | None = None) -> TreeFactor:
    """Factor the mass matrix of a tree into L^T D L, keeping its zeros.

    A matrix that is not positive definite to working precision raises on floats; in native code it
    returns NaN, which the check of results reports.

    Args:
        parents: For each row (degree of freedom) its parent row, -1 for none; a parent comes
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
    return TreeFactor(parents, _factored(parents, matrix, size, spelled), spelled)


def _factored(parents: Sequence[int], matrix: Any, size: int, inline: bool) -> list[Any]:
    """Return the stored elements of the factor of a matrix."""
    primitive, flat = FactorTree(parents), numbers_of(matrix)
    stored = [flat[i * size + j] for i, j in primitive.layout.elements()]
    return primitive.apply(stored, inline=inline)


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


class InvertTree(TreePrimitive):
    """Invert: the values of a factor to all of H^-1, row by row."""

    def __init__(self, parents: Sequence[int]) -> None:
        super().__init__("invert_tree", parents)
        self.argument_count, self.result_count = self.layout.stored, self.layout.size**2

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Invert L row by row from the root, then add up the products of rows."""
        layout = self.layout
        n = layout.size
        starts = m.table(layout.starts)
        # the row that each stored column belongs to; the rows of two bodies start with the same
        # columns
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

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return -H^-1 dH H^-1."""
        n = self.layout.size
        zero = graph.const(0.0)
        change = [[zero] * n for _ in range(n)]
        for (i, j), entry in zip(self.layout.elements(), tangents, strict=True):
            change[i][j] = change[j][i] = entry
        product = self._between(graph, results, change)
        return [graph.neg(product[max(i, j)][min(i, j)]) for i in range(n) for j in range(n)]

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return -(H^-1 A H^-1) and its transpose, once on the diagonal; A holds the adjoints."""
        n = self.layout.size
        rows = [adjoints[i * n : (i + 1) * n] for i in range(n)]
        product = self._between(graph, results, rows)
        return [
            graph.neg(product[i][i] if i == j else graph.add(product[i][j], product[j][i]))
            for i, j in self.layout.elements()
        ]

    def _between(self, graph: Graph, results: Nodes, matrix: list[Nodes]) -> list[Nodes]:
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
        parents: For each row its parent row, -1 for none; a parent comes before its children.
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
    factor = _factored(parents, matrix, size, spelled)
    found = InvertTree(parents).apply(factor, inline=spelled)
    return array_of(found, (size, size))


UNROLLED_ELEMENTS = 200
"""Elements of a factor up to which each of its rows has code of its own."""


class SolveTreeColumns(TreePrimitive, SymmetricSolve):
    """Solve: a factor and the rows of a matrix to the rows of the solution."""

    def __init__(self, parents: Sequence[int], columns: int) -> None:
        # the name distinguishes forms, too
        super().__init__(f"solve_tree_{columns}_columns", parents)
        self.columns = columns
        self.stored, self.entries = self.layout.stored, self.layout.elements()
        self.result_count = self.layout.size * columns
        self.argument_count = self.stored + self.result_count

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Substitute with L^T from the leaves, divide by D, substitute with L from the root."""
        layout, width = self.layout, self.columns
        rows = (given, layout.stored)
        ends = m.table(layout.starts[1:])

        def inverse(i: Index) -> Number:
            end = layout.starts[i + 1] if isinstance(i, int) else m.lookup(ends, i)
            return m.load(given, end - 1)

        substitute_inward(m, layout, (given, 0), rows, (found, 0), width)
        substitute_outward(m, layout, (given, 0), rows, (found, 0), width, inverse)


Rows = tuple[Memory, int]
"""Rows of a matrix one after the other: memory, and the place of the first."""


def _after_inward(layout: TreeLayout, given: Rows, found: Rows, width: int) -> list[Rows]:
    """Return where each row is after `substitute_inward`: those of leaves do not change."""
    inner = {j for i, j in layout.elements() if i != j}
    copied = layout.stored > UNROLLED_ELEMENTS
    return [
        (rows[0], rows[1] + i * width)
        for i in range(layout.size)
        for rows in (found if copied or i in inner else given,)
    ]


def substitute_inward(
    m: Machine, layout: TreeLayout, factor: Rows, given: Rows, found: Rows, width: int
) -> None:
    """Write L^-T times a matrix, from the leaves to the root; `found` may be `given`.

    Args:
        m: The machine.
        layout: Layout of the factor.
        factor: Memory and place of the factor.
        given: The matrix.
        found: Receives the product; in short code without the rows of leaves, which are as given.
        width: Columns of the matrix.
    """
    (entries, at), (before, start), (after, first) = factor, given, found
    if layout.stored <= UNROLLED_ELEMENTS:
        # each row is written once: sums over descendants, in registers
        below: list[list[tuple[int, int]]] = [[] for _ in range(layout.size)]
        for place, (i, j) in enumerate(layout.elements()):
            if i != j:
                below[j].append((place, i))
        rows = _after_inward(layout, given, found, width)
        for j in range(layout.size - 1, -1, -1):
            terms = [(m.load(entries, at + place), rows[i]) for place, i in reversed(below[j])]
            if not terms:
                continue
            for k in m.loop(0, width, independent=True):
                total = m.load(before, k + (start + j * width))
                for entry, (memory, place) in terms:
                    total = m.sub_product(entry, m.load(memory, k + place), total)
                m.store(after, k + (first + j * width), total)
        return
    starts = m.table(layout.starts)
    # start of the row of each stored column in the result
    others = m.table([j * width for _, j in layout.elements()])
    if before is not after or start != first:
        for place in m.loop(0, layout.size * width):
            m.store(after, place + first, m.load(before, place + start))
    for i in m.loop(0, layout.size, down=True):
        for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
            entry, other = m.load(entries, place + at), m.lookup(others, place) + first
            for k in m.loop(0, width, independent=True):
                known, old = m.load(after, i * width + k + first), m.load(after, other + k)
                m.store(after, other + k, m.sub_product(entry, known, old))


def substitute_outward(
    m: Machine,
    layout: TreeLayout,
    factor: Rows,
    given: Rows,
    found: Rows,
    width: int,
    scale: Callable[[Index], Number],
) -> None:
    """Write L^-1 times a diagonal matrix times a matrix, from the root to the leaves.

    Args:
        m: The machine.
        layout: Layout of the factor.
        factor: Memory and place of the factor.
        given: What `substitute_inward` was given.
        found: What it has found; receives the product.
        width: Columns of the matrix.
        scale: Returns an element of the diagonal matrix.
    """
    (entries, at), (after, first) = factor, found
    if layout.stored <= UNROLLED_ELEMENTS:
        rows = _after_inward(layout, given, found, width)
        for i, columns in enumerate(layout.columns):
            terms = [
                (m.load(entries, at + layout.starts[i] + place), first + j * width)
                for place, j in enumerate(columns[:-1])
            ]
            factor_i, (memory, own) = scale(i), rows[i]
            for k in m.loop(0, width, independent=True):
                total = m.mul(m.load(memory, k + own), factor_i)
                for entry, other in terms:
                    total = m.sub_product(entry, m.load(after, k + other), total)
                m.store(after, k + (first + i * width), total)
        return
    starts = m.table(layout.starts)
    others = m.table([j * width for _, j in layout.elements()])
    for i in m.loop(0, layout.size):
        factor_i = scale(i)
        for k in m.loop(0, width, independent=True):
            place = i * width + k + first
            m.store(after, place, m.mul(m.load(after, place), factor_i))
        for place in m.loop(m.lookup(starts, i), m.lookup(starts, i + 1) - 1):
            entry, other = m.load(entries, place + at), m.lookup(others, place) + first
            for k in m.loop(0, width, independent=True):
                known, old = m.load(after, other + k), m.load(after, i * width + k + first)
                m.store(after, i * width + k + first, m.sub_product(entry, known, old))


def solve_tree_columns(parents: Sequence[int], matrix: Any, b: Any, *, inline: bool = False) -> Any:
    """Solve H X = B with the mass matrix of a tree.

    Args:
        parents: For each row its parent row, -1 for none; a parent comes before its children.
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
