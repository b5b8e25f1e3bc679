"""Linear equations in velocities that contacts couple: d 1 + sum B^T W B over groups of contacts.

Two velocities are coupled only where a group of contacts has both in its support. Columns are
eliminated by least degree: for robots on the ground, whose supports are paths to the root, that
creates no further entries. The upper triangle is stored by rows in the order of elimination, each
with its diagonal first; a factor holds reciprocals of the pivots there. The lower triangle of a
matrix that is not symmetric is stored as the upper one of its transpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tiburon.trace.primitives.contact_layout import ContactLayout
from tiburon.trace.primitives.primitive import Index, Machine, Memory, Number

if TYPE_CHECKING:
    from tiburon.trace.primitives.friction import Group, Row, Visit

BLOCK = 8
"""Entries of a row that one vector holds, where one case is computed."""


def elimination(size: int, supports: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return the order of elimination, and for each column those coupled to it that come later.

    Args:
        size: Number of columns.
        supports: Sets of columns that are coupled to each other.

    Returns:
        The columns in order; for each place in that order the later places, ascending.
    """
    coupled = [set[int]() for _ in range(size)]
    for support in supports:
        for i in support:
            coupled[i].update(support)
    for i, others in enumerate(coupled):
        others.discard(i)
    left = set(range(size))
    order: list[int] = []
    after: list[set[int]] = []
    while left:
        # of equal degrees the last column first: leaves before their ancestors
        k = min(left, key=lambda i: (len(coupled[i]), -i))
        left.discard(k)
        order.append(k)
        after.append(coupled[k])
        for i in coupled[k]:
            coupled[i] |= coupled[k]
            coupled[i] -= {i, k}
    place = {column: k for k, column in enumerate(order)}
    return order, [sorted(place[i] for i in others) for others in after]


def _in_runs(places: Sequence[int], lengths: Sequence[int]) -> bool:
    """Return whether places are runs of some lengths, in each of which they follow each other."""
    starts = itertools.accumulate(lengths, initial=0)
    return all(
        places[start + k] == places[start] + k
        for start, length in zip(starts, lengths, strict=False)
        for k in range(length)
    )


class SparseSystem:
    """Write assembly, elimination and substitution."""

    _is_symmetric = True
    _parts = 1
    """Triangles that are stored."""

    def __init__(self, m: Machine, layout: ContactLayout, size: int) -> None:
        """Take memory for the matrix, and tables of its structure.

        Args:
            m: The machine.
            layout: Which columns groups of contacts couple.
            size: Number of columns.
        """
        from tiburon.trace.primitives.friction import Row

        self.m, self.size = m, size
        order, after = elimination(size, [group.support for group in layout.groups])
        place = {column: k for k, column in enumerate(order)}
        starts = list(itertools.accumulate((len(x) + 1 for x in after), initial=0))
        where = {
            (k, i): starts[k] + 1 + number
            for k, others in enumerate(after)
            for number, i in enumerate(others)
        }
        where |= {(k, k): starts[k] for k in range(size)}
        self._stored = starts[-1]
        self._order = m.table(order)
        self._starts = m.table(starts)
        # the column of each entry, and where its row of updates begins
        self._columns = m.table([order[i] for k, x in enumerate(after) for i in (k, *x)])
        updates: list[int] = []
        targets: list[int] = []
        for others in after:
            updates.append(0)
            for number, i in enumerate(others):
                updates.append(len(targets))
                targets += [where[i, j] for j in others[number:]]
        # for trees the entries that a row updates follow each other
        self._in_runs = _in_runs(targets, [len(x) - k for x in after for k in range(len(x))])
        if self._in_runs:
            updates = [targets[k] if targets else 0 for k in updates]
        self._updates = m.table(updates)
        self._targets = m.table([*targets, 0])
        # where the product of two columns of a group goes, in the order of elimination
        products: list[int] = []
        sorted_places: list[int] = []
        first: list[int] = []
        slots = len(layout.groups) - layout.slots
        self._own_columns, shifts = 0, [0] * len(layout.groups)
        for number, group in enumerate(layout.groups):
            places = sorted((place[column], at) for at, column in enumerate(group.support))
            if number > slots and layout.slots:
                # slots have the same columns, but for their own, which are eliminated first
                first.append(first[slots])
                if layout.own_columns:
                    sorted_places += [at for _, at in places]
                    before = layout.groups[slots].support
                    own = [
                        starts[place[i]] - starts[place[j]]
                        for i, j in zip(group.support, before, strict=True)
                        if i != j
                    ]
                    self._own_columns = max(self._own_columns, len(own))
                    shifts[number] = own[0] if own else 0
                continue
            first.append(len(products))
            sorted_places += [at for _, at in places]
            products += [where.get((a, b), 0) for a, _ in places for b, _ in places]
        lengths = [len(group.support) for group in layout.groups]
        if layout.slots:
            lengths = lengths[: slots + 1]
        # where targets of the products in a row follow each other: of groups, and of slots
        pairs = list(zip(first, lengths, strict=False))
        self._product_runs = [
            _in_runs(
                [products[at + i * n + j] for at, n in own for i in range(n) for j in range(i, n)],
                [n - i for _, n in own for i in range(n)],
            )
            for own in (pairs[:slots], pairs[slots:])
        ]
        self._products, self._first = m.table(products), m.table(first)
        self._shifts = m.table(shifts) if self._own_columns else None
        self._sorted = m.table(sorted_places)
        self._matrix = m.memory(self._stored)
        longest = max(len(group.support) for group in layout.groups)
        rows = max(group.rows for group in layout.groups)
        self._law = Row(m.memory(rows * rows))
        self._pulled = [Row(m.memory(rows * longest)) for _ in range(self._parts)]

    def clear(self, diagonal: Number) -> None:
        """Set the matrix to a multiple of 1."""
        m = self.m
        for place in m.loop(0, self._stored, independent=True):
            m.store(self._matrix, place, m.constant(0.0))
        for k in m.loop(0, self.size):
            m.store(self._matrix, m.lookup(self._starts, k), diagonal)

    def begin_group(self, group: Group) -> None:
        """Set W of a group to zero."""
        for place in range(group.rows * group.rows):
            self._law.store(self.m, place, self.m.constant(0.0))

    def add_law(self, visit: Visit, law: Sequence[Sequence[Number | None]]) -> None:
        """Add E^T law E of a contact to W; None stands for zero."""
        m, rows = self.m, visit.rows()
        size = visit.group.rows
        for j in range(size):
            # law E, column j
            pulled = []
            for line in law:
                total = None
                for x, row in zip(line, rows, strict=True):
                    if x is not None and row[j] is not None:
                        total = (
                            m.mul(x, row[j]) if total is None else m.add_product(x, row[j], total)
                        )
                pulled.append(total)
            for i in range(j + 1 if self._is_symmetric else size):
                place = i * size + j
                total = self._law.load(m, place)
                for row, x in zip(rows, pulled, strict=True):
                    if row[i] is not None and x is not None:
                        total = m.add_product(row[i], x, total)
                self._law.store(m, place, total)

    def end_group(self, group: Group) -> None:
        """Add B^T W B of a group."""
        m, size = self.m, group.rows
        W = [
            [self._law.load(m, min(i, j) * size + max(i, j)) for j in range(size)]
            for i in range(size)
        ]
        self._add_products(group, [(W, self._matrix)])

    def _add_products(self, group: Group, parts: list[tuple[list[list[Number]], Memory]]) -> None:
        """Add the upper triangles of B^T W B."""
        from tiburon.trace.primitives.friction import length_square

        m, size, length, in_slots = self.m, group.rows, group.length, group.run.in_slots
        # W B, columns in the order of elimination
        for j in m.loop(0, length):
            at = m.lookup(self._sorted, group.offset + j)
            column = [group.entry(row, at) for row in range(size)]
            for (W, _), pulled in zip(parts, self._pulled, strict=True):
                for i in range(size):
                    total = m.mul(W[i][0], column[0])
                    for x, y in zip(W[i][1:], column[1:], strict=True):
                        total = m.add_product(x, y, total)
                    pulled.store(m, j + i * length, total)
        own = self._own_columns if in_slots else 0
        if own:
            shift = m.lookup(self._shifts, group.number)
            for i in m.loop(0, own):
                self._add_row(group, i, self._column(group, i), parts, shift)
        for i in m.loop(own, length):
            column = self._column(group, i)
            if not in_slots:
                self._add_row(group, i, column, parts)
                continue
            # few joints move the bodies of a slot
            moves = m.less(m.constant(0.0), length_square(m, column))
            for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                self._add_row(group, i, column, parts)

    def _column(self, group: Group, i: Index) -> list[Number]:
        """Return a column of B, in the order of elimination."""
        at = self.m.lookup(self._sorted, group.offset + i)
        return [group.entry(row, at) for row in range(group.rows)]

    def _add_row(
        self,
        group: Group,
        i: Index,
        column: list[Number],
        parts: list[Any],
        shift: Index | None = None,
    ) -> None:
        """Add the products of a column of B with those from it on.

        Those of columns of its own, which a slot has at a shift from the first one.
        """
        m, length = self.m, group.length
        place = m.lookup(self._first, group.number) + i * length
        follows = self._product_runs[1 if group.run.in_slots else 0]
        start = m.lookup(self._products, place + i) - i
        for j in m.loop(i, length, independent=follows):
            target = start + j if follows else m.lookup(self._products, place + j)
            if shift is not None:
                target = target + shift
            for (_, matrix), pulled in zip(parts, self._pulled, strict=True):
                total = m.load(matrix, target)
                for row, x in enumerate(column):
                    total = m.add_product(x, pulled.load(m, j + row * length), total)
                m.store(matrix, target, total)

    def factor(self) -> None:
        """Eliminate all columns."""
        m, one = self.m, self.m.constant(1.0)
        for k in m.loop(0, self.size):
            start, end = m.lookup(self._starts, k), m.lookup(self._starts, k + 1)
            inverse = m.div(one, m.load(self._matrix, start))
            m.store(self._matrix, start, inverse)
            for place in m.loop(start + 1, end):
                factor = m.mul(m.load(self._matrix, place), inverse)
                shift = m.lookup(self._updates, place) - place
                for other in m.loop(place, end, independent=self._in_runs):
                    target = other + shift
                    if not self._in_runs:
                        target = m.lookup(self._targets, target)
                    old = m.load(self._matrix, target)
                    upper = m.load(self._matrix, other)
                    m.store(self._matrix, target, m.sub_product(factor, upper, old))

    def solve(self, x: Row) -> None:
        """Replace a right-hand side by the solution, after `factor`."""
        self._substitute(x, self._matrix)

    def _substitute(self, x: Row, lower: Memory) -> None:
        """Substitute forward, by the transpose of a matrix, and back."""
        m = self.m
        for k in m.loop(0, self.size):
            start, end = m.lookup(self._starts, k), m.lookup(self._starts, k + 1)
            here = m.mul(m.load(self._matrix, start), x.load(m, m.lookup(self._order, k)))
            for place in m.loop(start + 1, end):
                column = m.lookup(self._columns, place)
                entry = m.load(lower, place)
                x.store(m, column, m.sub_product(entry, here, x.load(m, column)))
        total = m.memory(1)
        for k in m.loop(0, self.size, down=True):
            start, end = m.lookup(self._starts, k), m.lookup(self._starts, k + 1)
            column = m.lookup(self._order, k)
            m.store(total, 0, x.load(m, column))
            for place in m.loop(start + 1, end):
                known = x.load(m, m.lookup(self._columns, place))
                entry = m.load(self._matrix, place)
                m.store(total, 0, m.sub_product(entry, known, m.load(total, 0)))
            x.store(m, column, m.mul(m.load(total, 0), m.load(self._matrix, start)))


class UnsymmetricSystem(SparseSystem):
    """The same for matrices W that are not symmetric. Columns are not exchanged."""

    _is_symmetric = False
    _parts = 2

    def __init__(self, m: Machine, layout: ContactLayout, size: int) -> None:
        """Take memory for the matrix, and tables of its structure."""
        super().__init__(m, layout, size)
        self._lower = m.memory(self._stored)

    def clear(self, diagonal: Number) -> None:
        """Set the matrix to a multiple of 1."""
        super().clear(diagonal)
        m = self.m
        for place in m.loop(0, self._stored, independent=True):
            m.store(self._lower, place, m.load(self._matrix, place))

    def end_group(self, group: Group) -> None:
        """Add B^T W B of a group."""
        m, size = self.m, group.rows
        W = [[self._law.load(m, i * size + j) for j in range(size)] for i in range(size)]
        turned = [list(row) for row in zip(*W, strict=True)]
        self._add_products(group, [(W, self._matrix), (turned, self._lower)])

    def factor(self) -> None:
        """Eliminate all columns."""
        m, one = self.m, self.m.constant(1.0)
        pair = (self._matrix, self._lower)
        for k in m.loop(0, self.size):
            start, end = m.lookup(self._starts, k), m.lookup(self._starts, k + 1)
            inverse = m.div(one, m.load(self._matrix, start))
            m.store(self._matrix, start, inverse)
            for place in m.loop(start + 1, end):
                upper, lower = (m.mul(m.load(part, place), inverse) for part in pair)
                # contacts couple few of the velocities
                coupled = m.less(m.constant(0.0), m.add_product(upper, upper, m.mul(lower, lower)))
                for _ in m.iterate(1, lambda coupled=coupled: coupled):  # type: ignore[misc]
                    shift = m.lookup(self._updates, place) - place
                    for other in m.loop(place, end, independent=self._in_runs):
                        target = other + shift
                        if not self._in_runs:
                            target = m.lookup(self._targets, target)
                        for part, factor in ((self._matrix, lower), (self._lower, upper)):
                            old, known = m.load(part, target), m.load(part, other)
                            m.store(part, target, m.sub_product(factor, known, old))

    def solve(self, x: Row) -> None:
        """Replace a right-hand side by the solution, after `factor`."""
        self._substitute(x, self._lower)


class BlockedSystem(SparseSystem):
    """The same as `UnsymmetricSystem`, bit for bit, in the vectors of one case.

    Rows of both triangles are as long as the matrix, in blocks of the width of vectors; what is
    before the diagonal has no meaning.
    """

    _is_symmetric = False

    def __init__(self, m: Machine, layout: ContactLayout, size: int) -> None:
        """Take memory for the matrix, and tables of its structure."""
        from tiburon.trace.primitives.friction import Row

        self.m, self.size = m, size
        order, after = elimination(size, [group.support for group in layout.groups])
        place = {column: k for k, column in enumerate(order)}
        self._blocks = -(-size // BLOCK)
        self._stride = BLOCK * self._blocks
        self._order = m.table(order)
        self._starts = m.table(list(itertools.accumulate(map(len, after), initial=0)))
        self._after = m.table([*(i for x in after for i in x), 0])
        self._block = m.table([k // BLOCK for k in range(size)])
        groups = layout.groups
        if layout.slots and not layout.own_columns:
            groups = groups[: len(groups) - layout.slots + 1]
        self._places = m.table([place[column] for group in groups for column in group.support])
        # slots, whose columns follow each other in the order of elimination, start at the first
        self._slot: int | None = None
        if layout.slots and not layout.own_columns:
            slot = [place[column] for column in groups[-1].support]
            if slot == list(range(slot[0], slot[0] + len(slot))):
                self._slot = slot[0]
        rows = max(group.rows for group in layout.groups)
        self._matrix, self._lower = (m.memory(size * self._stride) for _ in range(2))
        self._law, self._entries = Row(m.memory(rows * rows)), m.memory(rows)
        self._pulled, self._in_slots = (
            [m.memory(rows * self._stride) for _ in range(2)] for _ in range(2)
        )

    def clear(self, diagonal: Number) -> None:
        """Set the matrix to a multiple of 1."""
        m = self.m
        for part in (self._matrix, self._lower):
            self._clear(part, self.size)
            for k in m.loop(0, self.size):
                m.store(part, k * (self._stride + 1), diagonal)
        if self._slot is not None:
            for part in self._in_slots:
                self._clear(part, 3)

    def _clear(self, memory: Memory, rows: int) -> None:
        for block in self.m.loop(0, rows * self._blocks):
            for j in self.m.abreast(BLOCK):
                self.m.store(memory, j + block * BLOCK, self.m.constant(0.0))

    def end_group(self, group: Group) -> None:
        """Add B^T W B of a group."""
        from tiburon.trace.primitives.friction import length_square

        m, length = self.m, group.length
        parts, first = self._pulled, None
        if group.run.in_slots and self._slot is not None:
            parts, first = self._in_slots, self._slot
            for j in m.abreast(length):
                self._pull(group, j, j + first, parts)
        else:
            for part in parts:
                self._clear(part, group.rows)
            for j in m.loop(0, length):
                self._pull(group, j, m.lookup(self._places, group.offset + j), parts)
        for i in m.loop(0, length):
            column = [group.entry(row, i) for row in range(group.rows)]
            # few joints move the bodies of a point
            moves = m.less(m.constant(0.0), length_square(m, column))
            for _ in m.iterate(1, lambda moves=moves: moves):  # type: ignore[misc]
                place = i + first if first is not None else m.lookup(self._places, group.offset + i)
                for row, x in enumerate(column):
                    m.store(self._entries, row, x)
                self._add_to_row(place, group.rows, parts)

    def _pull(self, group: Group, j: Index, place: Index, parts: Sequence[Memory]) -> None:
        """Write a column of W B, and of W^T B."""
        m, size = self.m, group.rows
        column = [group.entry(row, j) for row in range(size)]
        law = [self._law.load(m, k) for k in range(size * size)]
        for part, (across, along) in zip(parts, ((1, size), (size, 1)), strict=True):
            for i in range(size):
                total = m.mul(law[i * along], column[0])
                for k in range(1, size):
                    total = m.add_product(law[i * along + k * across], column[k], total)
                m.store(part, place + i * self._stride, total)

    def _add_to_row(self, place: Index, rows: int, parts: Sequence[Memory]) -> None:
        """Add the products of a column of B with those from it on."""
        m, start = self.m, place * self._stride
        for block in m.loop(m.lookup(self._block, place), self._blocks):
            for j in m.abreast(BLOCK):
                at = j + block * BLOCK
                for memory, pulled in zip((self._matrix, self._lower), parts, strict=True):
                    total = m.load(memory, at + start)
                    for row in range(rows):
                        x = m.load(self._entries, row)
                        total = m.add_product(x, m.load(pulled, at + row * self._stride), total)
                    m.store(memory, at + start, total)

    def factor(self) -> None:
        """Eliminate all columns."""
        m, one, stride = self.m, self.m.constant(1.0), self._stride
        for k in m.loop(0, self.size):
            row = k * stride
            inverse = m.div(one, m.load(self._matrix, row + k))
            m.store(self._matrix, row + k, inverse)
            for number in m.loop(m.lookup(self._starts, k), m.lookup(self._starts, k + 1)):
                i = m.lookup(self._after, number)
                upper, lower = (
                    m.mul(m.load(part, row + i), inverse) for part in (self._matrix, self._lower)
                )
                # contacts couple few of the velocities
                coupled = m.less(m.constant(0.0), m.add_product(upper, upper, m.mul(lower, lower)))
                for _ in m.iterate(1, lambda coupled=coupled: coupled):  # type: ignore[misc]
                    m.store(self._entries, 0, lower)
                    m.store(self._entries, 1, upper)
                    self._subtract_row(i, i * stride, row)

    def _subtract_row(self, place: Index, start: Index, row: Index) -> None:
        """Subtract multiples of the row of a column from another one, from its diagonal on."""
        m = self.m
        for block in m.loop(m.lookup(self._block, place), self._blocks):
            for j in m.abreast(BLOCK):
                at = j + block * BLOCK
                for number, memory in enumerate((self._matrix, self._lower)):
                    factor, known = m.load(self._entries, number), m.load(memory, at + row)
                    old = m.load(memory, at + start)
                    m.store(memory, at + start, m.sub_product(factor, known, old))

    def solve(self, x: Row) -> None:
        """Replace a right-hand side by the solution, after `factor`."""
        m, stride = self.m, self._stride
        for k in m.loop(0, self.size):
            row = k * stride
            here = m.mul(m.load(self._matrix, row + k), x.load(m, m.lookup(self._order, k)))
            for number in m.loop(m.lookup(self._starts, k), m.lookup(self._starts, k + 1)):
                i = m.lookup(self._after, number)
                column = m.lookup(self._order, i)
                entry = m.load(self._lower, row + i)
                x.store(m, column, m.sub_product(entry, here, x.load(m, column)))
        total = m.memory(1)
        for k in m.loop(0, self.size, down=True):
            row, column = k * stride, m.lookup(self._order, k)
            m.store(total, 0, x.load(m, column))
            for number in m.loop(m.lookup(self._starts, k), m.lookup(self._starts, k + 1)):
                i = m.lookup(self._after, number)
                known, entry = x.load(m, m.lookup(self._order, i)), m.load(self._matrix, row + i)
                m.store(total, 0, m.sub_product(entry, known, m.load(total, 0)))
            x.store(m, column, m.mul(m.load(total, 0), m.load(self._matrix, row + k)))
