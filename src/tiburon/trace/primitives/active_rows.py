"""Rows of a table that are active: found, evaluated and written back at a cost of their number.

A robot has hundreds of points that may touch, of which a few do. `ActiveRows` finds the active ones
and gives each a slot; `EachActive` evaluates a function for the slots that are used, which reads
the rows of its slot from tables; `SpreadRows` writes what slots hold back to their rows. Code does
not grow with the number of rows or slots, and time grows with the slots that are used. In a batch
each case has rows of its own; cases of one vector wait for the one with the most.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tiburon.errors import TraceError
from tiburon.trace.graph import Graph, Nodes, mix, text_key
from tiburon.trace.lower import Instruction, lower
from tiburon.trace.primitives.primitive import (
    ConstantPrimitive,
    Index,
    Machine,
    Memory,
    Number,
    Primitive,
    Truth,
    is_zero_row,
)

UNUSED = -1.0
"""Row of a slot that is not used."""

UNROLLED = 8
"""Rows that are copied or filled in one pass of a loop."""

MOST_HALVINGS = 40
"""Most often that the limit of active rows is halved."""

SLOT, ROW = -2, -1
"""What number the row of a table has: that of the slot, or that of the row in it. Others are the
place of a value that was read before, whose whole number it is."""


class ActiveRows(ConstantPrimitive):
    """Give active rows slots, in order.

    Arguments: a number of each row; the limit up to which rows are active, as those are that are
    not a number; the least limit. Where slots do not suffice, the limit is halved until they do or
    it is the least one. Results: the row of each slot, `UNUSED` for the others; the slots that are
    used; the rows that are active, which may be more.

    Attributes:
        rows: Number of rows.
        slots: Number of slots.
    """

    def __init__(self, rows: int, slots: int) -> None:
        super().__init__("active_rows", rows, slots)
        self.rows, self.slots = rows, slots
        self.argument_count = rows + 2
        self.result_count = slots + 2

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it computes indices."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Write each row to the next free slot, which it keeps if it is active."""
        slots, full = self.slots, m.constant(float(self.slots))
        one, half = m.constant(1.0), m.constant(0.5)
        least, bound = m.load(given, self.rows + 1), m.memory(2)
        m.store(bound, 0, m.load(given, self.rows))
        m.store(bound, 1, m.constant(1.0))
        for _ in m.iterate(MOST_HALVINGS, lambda: m.less(half, m.load(bound, 1))):
            limit, total = m.load(bound, 0), m.memory(1)
            m.store(total, 0, m.constant(0.0))
            for row in m.loop(0, self.rows):
                idle = m.choose(m.less(limit, m.load(given, row)), m.constant(0.0), one)
                m.store(total, 0, m.add(m.load(total, 0), idle))
            again = m.both(m.less(full, m.load(total, 0)), m.less(least, limit))
            lower = m.mul(half, limit)
            lower = m.choose(m.less(lower, least), least, lower)
            m.store(bound, 0, m.choose(again, lower, limit))
            m.store(bound, 1, m.choose(again, one, m.constant(0.0)))
        limit = m.load(bound, 0)
        places, counts = m.memory(slots + 1), m.memory(2)
        for k in range(2):
            m.store(counts, k, m.constant(0.0))
        for s in m.loop(0, slots + 1):
            m.store(places, s, m.constant(UNUSED))
        for row in m.loop(0, self.rows):
            # what is not a number is not beyond the limit
            idle = m.choose(m.less(limit, m.load(given, row)), one, m.constant(0.0))
            some = m.less(idle, half)
            for _ in m.iterate(1, lambda some=some: some):  # type: ignore[misc]
                used, total = m.load(counts, 0), m.load(counts, 1)
                place = m.index(used)
                # the last place is for rows that have no slot
                m.store(places, place, m.choose(some, m.number(row), m.load(places, place)))
                free = m.both(some, m.less(used, full))
                m.store(counts, 0, m.choose(free, m.add(used, one), used))
                m.store(counts, 1, m.choose(some, m.add(total, one), total))
        for s in m.loop(0, slots):
            m.store(found, s, m.load(places, s))
        for k in range(2):
            m.store(found, slots + k, m.load(counts, k))


def active_rows(
    keys: Sequence[Any], limit: Any, least: Any, slots: int
) -> tuple[list[Any], Any, Any]:
    """Return the row of each slot, the slots that are used, and the rows that are active."""
    *places, count, total = ActiveRows(len(keys), slots).apply([*keys, limit, least])
    return places, count, total


class PickedRows(Primitive):
    """Read the rows of slots: the row of each slot, then the table; zeros for slots not used."""

    def __init__(self, rows: int, slots: int, width: int) -> None:
        super().__init__("picked_rows", rows, slots, width)
        self.rows, self.slots, self.width = rows, slots, width
        self.argument_count = slots + rows * width
        self.result_count = slots * width

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it computes indices."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Copy each row."""
        for s in m.loop(0, self.slots):
            used, place = _row_of(m, m.load(given, s))
            for j in range(self.width):
                value = m.load(given, place * self.width + (self.slots + j))
                m.store(found, s * self.width + j, m.choose(used, value, m.constant(0.0)))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the rows of the tangents."""
        if is_zero_row(graph, tangents[self.slots :]):
            return [graph.const(0.0)] * self.result_count
        return graph.call(self, [*args[: self.slots], *tangents[self.slots :]])

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints in their rows."""
        zeros = [graph.const(0.0)] * self.argument_count
        if is_zero_row(graph, adjoints):
            return zeros
        spread = SpreadRows(self.rows, self.slots, self.width)
        given = [*args[: self.slots], *adjoints, *zeros[self.slots :]]
        return [*zeros[: self.slots], *graph.call(spread, given)]


def picked_rows(places: Sequence[Any], table: Sequence[Any], width: int) -> list[list[Any]]:
    """Return the row of each slot of a table, zeros for slots that are not used."""
    slots = len(places)
    found = PickedRows(len(table) // width, slots, width).apply([*places, *table])
    return [found[k * width : (k + 1) * width] for k in range(slots)]


def spread_rows(
    places: Sequence[Any], slots: Sequence[Sequence[Any]], table: Sequence[Any]
) -> list[Any]:
    """Return a table with the rows of slots in the places of what it held."""
    width = len(slots[0])
    values = [x for row in slots for x in row]
    spread = SpreadRows(len(table) // width, len(places), width)
    return spread.apply([*places, *values, *table])


class SpreadRows(Primitive):
    """Write slots to their rows: the row of each slot, what slots hold, and the table before."""

    def __init__(self, rows: int, slots: int, width: int) -> None:
        super().__init__("spread_rows", rows, slots, width)
        self.rows, self.slots, self.width = rows, slots, width
        self.argument_count = slots + (slots + rows) * width
        self.result_count = rows * width

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it computes indices."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Copy the table, then each slot."""
        first = self.slots + self.slots * self.width
        for k in _each(m, 0, self.result_count):
            m.store(found, k, m.load(given, k + first))
        for s in m.loop(0, self.slots):
            used, place = _row_of(m, m.load(given, s))
            for _ in m.iterate(1, lambda used=used: used):  # type: ignore[misc]
                for j in range(self.width):
                    at = place * self.width + j
                    value = m.load(given, s * self.width + (self.slots + j))
                    m.store(found, at, m.choose(used, value, m.load(found, at)))

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the same of the tangents."""
        if is_zero_row(graph, tangents[self.slots :]):
            return [graph.const(0.0)] * self.result_count
        return graph.call(self, [*args[: self.slots], *tangents[self.slots :]])

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of slots, and of the table but for their rows."""
        zeros = [graph.const(0.0)] * self.argument_count
        if is_zero_row(graph, adjoints):
            return zeros
        places, size = args[: self.slots], self.slots * self.width
        picked = PickedRows(self.rows, self.slots, self.width)
        own = graph.call(picked, [*places, *adjoints])
        left = graph.call(self, [*places, *zeros[:size], *adjoints])
        return [*zeros[: self.slots], *own, *left]


def _each(m: Machine, first: int, count: int) -> Iterator[Index]:
    """Write the body of a `for` for consecutive indices, some of them in each pass of a loop."""
    whole = count // UNROLLED
    for part in m.loop(0, whole):
        for k in range(UNROLLED):
            yield part * UNROLLED + (first + k)
    yield from m.loop(first + whole * UNROLLED, first + count)


def _row_of(m: Machine, row: Number) -> tuple[Truth, Index]:
    """Return whether a slot is used, and its row; the first one if it is not."""
    used = m.less(m.constant(0.5 * UNUSED), row)
    return used, m.index(m.choose(used, row, m.constant(0.0)))


class RowTable(NamedTuple):
    """Rows of numbers that `EachActive` reads."""

    rows: int
    """Number of rows."""

    width: int
    """Numbers of each."""

    source: int = ROW
    """What number the row of a slot has: `SLOT`, `ROW`, or the place of a value read before."""


class EachActive(Primitive):
    """Evaluate a function for the slots that are used.

    Arguments: the slots that are used; the row of each slot; values that all slots share; the
    tables, row by row. Results: for each group of results those of all slots, slot by slot. Slots
    that are not used have the results that are given for them.

    Attributes:
        slots: Number of slots.
        graph: Graph of the function, without calls of other functions.
        inputs: Its nodes for the shared values, then for a row of each table.
        roots: Its nodes for the results.
        shared: Number of shared values.
        tables: The tables.
        groups: Sizes of the groups of results.
        idle: Results of slots that are not used.
    """

    def __init__(
        self,
        slots: int,
        graph: Graph,
        inputs: Sequence[int],
        roots: Sequence[int],
        shared: int,
        tables: Sequence[RowTable],
        groups: Sequence[int],
        idle: Sequence[float],
    ) -> None:
        self.slots, self.graph, self.shared = slots, graph, shared
        self.inputs, self.roots = tuple(inputs), tuple(roots)
        self.tables, self.groups, self.idle = tuple(tables), tuple(groups), tuple(idle)
        form = [slots, shared, len(self.groups), *self.groups, len(self.tables)]
        form += [x - SLOT for table in self.tables for x in table]
        super().__init__("each_active", *form)
        keys = [graph.keys[node] for node in self.inputs]
        idle_key = text_key(repr(self.idle))
        self.key = mix(self.key, idle_key, len(keys), *keys, graph.key(self.roots))
        sizes = [table.rows * table.width for table in self.tables]
        first = 1 + slots + shared
        self._starts = list(itertools.accumulate(sizes, initial=first))
        self.argument_count = self._starts[-1]
        self.result_count = slots * sum(self.groups)

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it computes indices."""
        return False

    def _results(self) -> list[tuple[int, int, int]]:
        """Return for each result the place of its first slot, the step to the next, and itself."""
        found, first, number = [], 0, 0
        for size in self.groups:
            for k in range(size):
                found.append((first + k, size, number + k))
            first, number = first + size * self.slots, number + size
        return found

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Evaluate the function for each slot up to the last that is used."""
        results = self._results()
        start, number = 0, 0
        for size in self.groups:
            own = self.idle[number : number + size]
            if len(set(own)) == 1:
                for k in _each(m, start, size * self.slots):
                    m.store(found, k, m.constant(own[0]))
            else:
                for s in m.loop(0, self.slots):
                    for k, value in enumerate(own):
                        m.store(found, s * size + (start + k), m.constant(value))
            start, number = start + size * self.slots, number + size
        instructions = lower(self.graph, self.roots, "depth_first")
        count = m.load(given, 0)
        for s in m.loop(0, m.largest(count, self.slots)):
            used, row = _row_of(m, m.load(given, s + 1))
            places: list[Any] = [(given, k + 1 + self.slots) for k in range(self.shared)]
            for table, first in zip(self.tables, self._starts, strict=False):
                at = s if table.source == SLOT else row
                if table.source >= 0:
                    memory, place = places[self.shared + table.source]
                    at = m.index(m.load(memory, place))
                places += [(given, at * table.width + (first + k)) for k in range(table.width)]
            values = _evaluated(m, instructions, self._read(places))
            for first, size, number in results:
                value = values[self.roots[number]]
                value = m.choose(used, value, m.constant(self.idle[number]))
                m.store(found, s * size + first, value)

    def _read(self, places: Sequence[tuple[Memory, Index]]) -> dict[Any, tuple[Memory, Index]]:
        """Return where inputs of the function are, by their payloads."""
        payloads = [self.graph.payloads[node] for node in self.inputs]
        return dict(zip(payloads, places, strict=True))

    @functools.cached_property
    def _body(self) -> Any:
        from tiburon.trace.regions import FunctionRegion

        return FunctionRegion(self.name, self.graph, self.inputs, self.roots)

    def _picked(self, graph: Graph, rows: Nodes, given: Nodes, args: Nodes) -> list[Nodes]:
        """Return shared values and rows of tables of each slot.

        Args:
            graph: Receives calls.
            rows: The row of each slot.
            given: Values in the places of the arguments.
            args: The arguments, which rows that are read before are taken from.
        """
        shared = list(given[1 + self.slots : 1 + self.slots + self.shared])
        found: list[Nodes] = [list(shared) for _ in range(self.slots)]
        known: list[Nodes] = [[] for _ in range(self.slots)]
        for table, first in zip(self.tables, self._starts, strict=False):
            at = list(rows)
            if table.source == SLOT:
                at = [graph.const(float(s)) for s in range(self.slots)]
            elif table.source >= 0:
                at = [own[table.source] for own in known]
            picked = PickedRows(table.rows, self.slots, table.width)
            size = table.rows * table.width
            for values, into in ((given, found), (args, known)):
                part = list(values[first : first + size])
                some = [graph.const(0.0)] * (self.slots * table.width)
                if not is_zero_row(graph, part):
                    some = graph.call(picked, [*at, *part])
                for s in range(self.slots):
                    into[s] += some[s * table.width : (s + 1) * table.width]
        return found

    def tangent(self, graph: Graph, args: Nodes, results: Nodes, tangents: Nodes) -> Nodes:
        """Return the tangents of the results, slot by slot."""
        rows = list(args[1 : 1 + self.slots])
        given = self._picked(graph, rows, args, args)
        moved = self._picked(graph, rows, tangents, args)
        found = [graph.const(0.0)] * self.result_count
        for s in range(self.slots):
            own = [results[first + s * size] for first, size, _ in self._results()]
            changes = self._body.tangent(graph, given[s], own, moved[s])
            used = self._is_used(graph, rows[s])
            for (first, size, number), change in zip(self._results(), changes, strict=True):
                del number
                found[first + s * size] = graph.where(used, change, graph.const(0.0))
        return found

    def adjoint(self, graph: Graph, args: Nodes, results: Nodes, adjoints: Nodes) -> Nodes:
        """Return the adjoints of the arguments, summed over the slots."""
        rows, zero = list(args[1 : 1 + self.slots]), graph.const(0.0)
        given = self._picked(graph, rows, args, args)
        found = [zero] * self.argument_count
        parts: list[Nodes] = []
        for s in range(self.slots):
            places = [first + s * size for first, size, _ in self._results()]
            used = self._is_used(graph, rows[s])
            weights = [graph.where(used, adjoints[k], zero) for k in places]
            own = self._body.adjoint(graph, given[s], [results[k] for k in places], weights)
            parts.append([graph.where(used, x, zero) for x in own])
        for k in range(self.shared):
            for part in parts:
                at = 1 + self.slots + k
                found[at] = graph.add(found[at], part[k])
        place = self.shared
        for table, first in zip(self.tables, self._starts, strict=False):
            # rows that several slots read have the sum: one slot at a time
            total = [zero] * (table.rows * table.width)
            for s, part in enumerate(parts):
                own = part[place : place + table.width]
                if is_zero_row(graph, own):
                    continue
                at = rows[s]
                if table.source == SLOT:
                    at = graph.const(float(s))
                elif table.source >= 0:
                    at = given[s][self.shared + table.source]
                spread = SpreadRows(table.rows, 1, table.width)
                more = graph.call(spread, [at, *own, *[zero] * len(total)])
                total = [graph.add(a, b) for a, b in zip(total, more, strict=True)]
            found[first : first + len(total)] = total
            place += table.width
        return found

    @staticmethod
    def _is_used(graph: Graph, row: int) -> int:
        return graph.compare("less", graph.const(0.5 * UNUSED), row)


def each_active(
    places: Sequence[Any],
    count: Any,
    body: Callable[..., Sequence[Sequence[Any]]],
    shared: Sequence[Any],
    tables: Sequence[tuple[RowTable, Sequence[Any]]],
    idle: Sequence[Sequence[float]],
) -> list[list[Any]]:
    """Evaluate a function for the slots that are used.

    Args:
        places: The row of each slot, as `active_rows` gives it.
        count: The slots that are used.
        body: Takes the shared values, then the row of each table as a list; returns groups of
            scalars. It calls no other traced functions.
        shared: Values that all slots share.
        tables: Forms and values of the tables.
        idle: Results of slots that are not used, in groups.

    Returns:
        For each group the results of all slots, one after the other.
    """
    from tiburon.trace.regions import trace_body

    widths = [len(shared), *(table.width for table, _ in tables)]

    def run(*given: list[Any]) -> Any:
        return [x for group in body(*given) for x in group]

    graph, inputs, results = trace_body(None, widths, run)
    nodes = [value.node for some in inputs for value in some]
    from tiburon.trace.regions import float_node

    roots = [float_node(graph, x) for x in results]
    groups = [len(group) for group in idle]
    rest = [x for group in idle for x in group]
    forms = [table for table, _ in tables]
    primitive = EachActive(len(places), graph, nodes, roots, len(shared), forms, groups, rest)
    values = [x for _, some in tables for x in some]
    found = primitive.apply([count, *places, *shared, *values])
    sizes = [len(places) * size for size in groups]
    ends = list(itertools.accumulate(sizes, initial=0))
    return [list(found[a:b]) for a, b in itertools.pairwise(ends)]


def _evaluated(
    m: Machine, instructions: Sequence[Instruction], inputs: dict[Any, tuple[Memory, Index]]
) -> dict[int, Any]:
    """Write lowered arithmetic in the words of a machine; return the values by number."""
    values: dict[int, Any] = {}
    results: dict[int, list[Any]] = {}
    for instruction in instructions:
        op, number = instruction.op, instruction.target
        if op == "input":
            values[number] = m.load(*inputs[instruction.payload])
        elif op == "const":
            values[number] = m.constant(instruction.payload)
        elif op == "truth":
            ends = (0.0, 1.0) if instruction.payload else (1.0, 0.0)
            values[number] = m.less(*(m.constant(x) for x in ends))
        elif op == "call" and isinstance(instruction.payload, Primitive):
            callee = instruction.payload
            found: list[Any] = [None] * callee.result_count
            callee.write(m, [values[a] for a in instruction.args], found)
            results[number] = found
        elif op == "result":
            values[number] = results[instruction.args[0]][instruction.payload]
        elif op in _WORDS:
            values[number] = _WORDS[op](m, *[values[a] for a in instruction.args])
        else:
            raise TraceError(f"each_active: operation {op!r} is not arithmetic of one slot")
    return values


def _negative(m: Machine, a: Number) -> Number:
    return m.mul(a, m.constant(-1.0))


def _opposite(m: Machine, p: Truth) -> Truth:
    return m.less(m.choose(p, m.constant(1.0), m.constant(0.0)), m.constant(0.5))


def _extreme(m: Machine, first: Truth, a: Number, b: Number) -> Number:
    """Return a where it comes first or is not a number, else b."""
    return m.choose(m.either(first, _opposite(m, m.less_equal(a, a))), a, b)


_WORDS: dict[str, Callable[..., Any]] = {
    "add": lambda m, a, b: m.add(a, b),
    "sub": lambda m, a, b: m.add(a, _negative(m, b)),
    "mul": lambda m, a, b: m.mul(a, b),
    "div": lambda m, a, b: m.div(a, b),
    "neg": _negative,
    "fused_add": lambda m, a, b, c: m.add_product(a, b, c),
    "fused_sub": lambda m, a, b, c: m.add_product(a, b, _negative(m, c)),
    "fused_negative_add": lambda m, a, b, c: m.sub_product(a, b, c),
    "reciprocal": lambda m, a: m.div(m.constant(1.0), a),
    "copy": lambda m, a: a,
    "abs": lambda m, a: m.choose(m.less(a, m.constant(0.0)), _negative(m, a), a),
    "sqrt": lambda m, a: m.sqrt(a),
    "min": lambda m, a, b: _extreme(m, m.less(a, b), a, b),
    "max": lambda m, a, b: _extreme(m, m.less(b, a), a, b),
    "less": lambda m, a, b: m.less(a, b),
    "less_equal": lambda m, a, b: m.less_equal(a, b),
    "equal": lambda m, a, b: m.both(m.less_equal(a, b), m.less_equal(b, a)),
    "and": lambda m, a, b: m.both(a, b),
    "or": lambda m, a, b: m.either(a, b),
    "not": _opposite,
    "where": lambda m, c, a, b: m.choose(c, a, b),
}
"""Operations of lowered graphs in the words of machines."""
