"""`RowProducts`: a large sparse matrix of scalar products.

Mass matrices, Coriolis matrices and derivatives of dynamics have an entry for each pair of a joint
and one of its ancestors, and each entry is the product of two short vectors. As a primitive, such a
matrix is one node with as many results as it has entries; inlined, it would be a node per product.

Vectors are arrays with one row per component, so that a row of the result reads contiguous memory.
A row of the result consists of runs of adjacent columns; each run has a kind, which determines the
arrays that are multiplied.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiburon.trace.count import OperationCount
from tiburon.trace.graph import Graph, Nodes
from tiburon.trace.primitives.primitive import (
    UNROLLED_OPERATIONS,
    Machine,
    Memory,
    Primitive,
    is_zero_row,
)

ZERO = -1
"""Kind of pieces whose entries are 0."""

Kind = Sequence[tuple[int, int]]
"""Pairs of arrays, of the row and of the column; their products add up."""


class Piece(NamedTuple):
    """Neighboring entries of one row."""

    row: int
    """Place of the row's vectors in their arrays."""

    start: int
    """Place of the first column's vectors in their arrays."""

    stop: int
    """Place behind the last."""

    kind: int
    """Which of the kinds, or `ZERO`."""

    place: int
    """Place of the first entry among the results."""


class RowProducts(Primitive):
    """Multiply: arrays of vectors to the entries of all pieces.

    Attributes:
        sizes: Components and vectors of each array.
        kinds: Arrays that are multiplied, for each kind of entry.
        pieces: Which entries there are; together they fill the results.
    """

    def __init__(
        self, sizes: Sequence[tuple[int, int]], kinds: Sequence[Kind], pieces: Sequence[Piece]
    ) -> None:
        self.sizes = tuple(sizes)
        self.kinds = tuple(tuple(kind) for kind in kinds)
        self.pieces = tuple(pieces)
        self._offsets = [0]
        for width, count in self.sizes:
            self._offsets.append(self._offsets[-1] + width * count)
        form = [len(self.sizes), *(x for size in self.sizes for x in size), len(self.kinds)]
        for kind in self.kinds:
            form += [len(kind), *(x for pair in kind for x in pair)]
        # the integers of a form are not negative
        form += [x + 1 for piece in self.pieces for x in piece]
        super().__init__("row_products", *form)
        self.argument_count = self._offsets[-1]
        self.result_count = sum(piece.stop - piece.start for piece in self.pieces)

    def _terms(self, kind: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets of the factors of each product: component of the row, of the column."""
        for a, b in self.kinds[kind]:
            for k in range(min(self.sizes[a][0], self.sizes[b][0])):
                yield (
                    self._offsets[a] + k * self.sizes[a][1],
                    self._offsets[b] + k * self.sizes[b][1],
                )

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Fill the pieces of each kind in turn."""
        for kind in range(ZERO, len(self.kinds)):
            own = [piece for piece in self.pieces if piece.kind == kind]
            if not own:
                continue
            starts, stops = m.table([x.start for x in own]), m.table([x.stop for x in own])
            rows = m.table([x.row for x in own])
            shifts = m.table([x.place - x.start for x in own])
            terms = list(self._terms(kind)) if kind != ZERO else []
            for number in m.loop(0, len(own)):
                row, shift = m.lookup(rows, number), m.lookup(shifts, number)
                factors = [m.load(given, row + a) for a, _ in terms]
                start, stop = m.lookup(starts, number), m.lookup(stops, number)
                for column in m.loop(start, stop, independent=True):
                    total = m.constant(0.0) if not terms else None
                    for factor, (_, b) in zip(factors, terms, strict=True):
                        other = m.load(given, column + b)
                        if total is None:
                            total = m.mul(factor, other)
                        else:
                            total = m.add_product(factor, other, total)
                    m.store(found, column + shift, total)

    def count(self) -> OperationCount:
        """Count the operations: one product per component, and the sums between them."""
        multiplications = additions = 0
        lengths = [len(list(self._terms(kind))) for kind in range(len(self.kinds))]
        for piece in self.pieces:
            if piece.kind != ZERO:
                entries = piece.stop - piece.start
                multiplications += entries * lengths[piece.kind]
                additions += entries * (lengths[piece.kind] - 1)
        return OperationCount(multiplications=multiplications, additions=additions)

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it takes at most `UNROLLED_OPERATIONS`, zeros counting as one each."""
        return self.count().total + self.result_count <= UNROLLED_OPERATIONS

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the products of changed with unchanged vectors, in one call."""
        sizes, numbers = list(self.sizes), list(args)
        changed: dict[int, int] = {}
        for array, size in enumerate(self.sizes):
            change = tangents[self._offsets[array] : self._offsets[array + 1]]
            if not is_zero_row(graph, change):
                changed[array] = len(sizes)
                sizes.append(size)
                numbers += change
        if not changed:
            return [graph.const(0.0)] * self.result_count
        kinds: list[Kind] = []
        new_kind = {ZERO: ZERO}
        for number, kind in enumerate(self.kinds):
            pairs = [(changed[a], b) for a, b in kind if a in changed]
            pairs += [(a, changed[b]) for a, b in kind if b in changed]
            new_kind[number] = len(kinds) if pairs else ZERO
            if pairs:
                kinds.append(pairs)
        pieces = [piece._replace(kind=new_kind[piece.kind]) for piece in self.pieces]
        return graph.call(RowProducts(sizes, kinds, pieces), numbers)

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return for each vector the sum of its partners, weighted by the entries' adjoints."""
        found = [graph.const(0.0)] * len(args)
        for piece in self.pieces:
            if piece.kind == ZERO:
                continue
            for a, b in self._terms(piece.kind):
                left = a + piece.row
                for k in range(piece.stop - piece.start):
                    weight, right = adjoints[piece.place + k], b + piece.start + k
                    found[left] = graph.add(found[left], graph.mul(weight, args[right]))
                    found[right] = graph.add(found[right], graph.mul(weight, args[left]))
        return found
