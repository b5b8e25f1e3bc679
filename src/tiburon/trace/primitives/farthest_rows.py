"""Support points: of a range of points in memory, those farthest out, and the face below them.

The points stay in their array; code gets its address. They may change without compiling, and each
case may have its own. Points count as constants in derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory

MAX_POINTS = 65536
"""Points of a range at most."""

BLOCK = 8
"""Points that are compared abreast."""

HEIGHT_ROUNDING = 1e-12
"""Height added to those of points above a line or another point [m]: points that are close to it do
not decide by rounding."""


class FarthestRows(ConstantPrimitive):
    """Find the points that are farthest out.

    From the address of an array of rows (x, y, z), the first row and the number of rows of a
    range, and directions (all x, all y, all z) to x, y, z and the row of one point per direction:
    the first of those that are equally far.
    """

    def __init__(self, directions: int) -> None:
        super().__init__("farthest_rows", directions)
        self.argument_count = 3 + 3 * directions
        self.result_count = 4 * directions

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it reads external memory."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Compare all points of the range in all directions."""
        (directions,) = self.form
        points = _Points(m, given)
        point = m.memory(4)
        farthest, rows = m.memory(directions), m.memory(directions)
        for k in m.loop(0, directions):
            m.store(farthest, k, m.constant(-1e300))
            m.store(rows, k, points.first)
        for row in points.rows():
            for axis in range(3):
                m.store(point, axis, points.coordinate(row, axis))
            m.store(point, 3, row)
            for k in m.abreast(directions):
                distance = m.mul(m.load(given, k + 3), m.load(point, 0))
                for axis in (1, 2):
                    component = m.load(given, k + (3 + axis * directions))
                    distance = m.add_product(component, m.load(point, axis), distance)
                before = m.load(farthest, k)
                is_farther = m.less(before, distance)
                m.store(farthest, k, m.choose(is_farther, distance, before))
                m.store(rows, k, m.choose(is_farther, m.load(point, 3), m.load(rows, k)))
        for k in range(directions):
            row = m.load(rows, k)
            for axis in range(3):
                m.store(found, 4 * k + axis, points.coordinate(row, axis))
            m.store(found, 4 * k + 3, row)


class SlopeBelow(ConstantPrimitive):
    """Find the face of a convex hull on which points come to lie that turn about the lowest.

    From the address, first row and number of rows, and three perpendicular directions (along,
    across, up) to the slopes of that face along the first two. The lowest point is a corner of the
    face, the point that is least steep above it another one, and the point of least angle above the
    line through both is the third.
    """

    def __init__(self) -> None:
        super().__init__("slope_below")
        self.argument_count = 3 + 9
        self.result_count = 2

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it reads external memory."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Pass over all points of the range three times, a block of them abreast."""
        points = _Points(m, given)
        # of the best points so far: two numbers to compare, and the row
        best = [m.memory(BLOCK) for _ in range(3)]
        # the lowest point along, across and up, negated; from there to the next one on the plane,
        # with the rise per square meter
        lowest, line = m.memory(3), m.memory(3)

        def search(measure: Any, is_better: Any, worst: tuple[float, float]) -> Any:
            """Return the row of the best point by two numbers of each."""
            for k in m.loop(0, BLOCK):
                start = (*map(m.constant, worst), points.first)
                for memory, value in zip(best, start, strict=True):
                    m.store(memory, k, value)
            for block in points.blocks():
                for k in m.abreast(BLOCK):
                    found = measure([m.load(memory, k) for memory in block[:3]])
                    keep(k, (*found, m.load(block[3], k)), is_better)
            for k in range(1, BLOCK):
                keep(0, tuple(m.load(memory, k) for memory in best), is_better)
            return m.load(best[2], 0)

        def keep(k: Any, found: tuple[Any, ...], is_better: Any) -> None:
            before = [m.load(memory, k) for memory in best]
            better = is_better(found, before)
            for memory, new, old in zip(best, found, before, strict=True):
                m.store(memory, k, m.choose(better, new, old))

        def seen(point: list[Any]) -> list[Any]:
            """Return a point along, across and up, from the lowest one."""
            found = []
            for k in range(3):
                number = m.load(lowest, k)
                for axis in (2, 1, 0):
                    number = m.add_product(m.load(given, 3 + 3 * k + axis), point[axis], number)
                found.append(number)
            return found

        def at(row: Any) -> list[Any]:
            return seen([points.coordinate(row, axis) for axis in range(3)])

        def is_lower(one: Any, other: Any) -> Any:
            return m.less(one[0], other[0])

        def is_flatter(one: Any, other: Any) -> Any:
            """Return whether a height per distance is less than another, all squared."""
            return m.less(m.mul(one[0], other[1]), m.mul(other[0], one[1]))

        def squared(height: Any) -> Any:
            high = m.add(height, m.constant(HEIGHT_ROUNDING))
            return m.mul(high, high)

        def inverse(square: Any) -> Any:
            zero, one = m.constant(0.0), m.constant(1.0)
            exists = m.less(zero, square)
            return m.choose(exists, m.div(one, m.choose(exists, square, one)), zero)

        def above_lowest(point: list[Any]) -> tuple[Any, Any]:
            x, y, height = seen(point)
            return squared(height), m.add_product(x, x, m.mul(y, y))

        def beside(point: list[Any]) -> tuple[Any, Any]:
            """Return the height of a point above the line, and its distance times the length."""
            x, y, height = seen(point)
            dx, dy, rise = (m.load(line, k) for k in range(3))
            along = m.add_product(dx, x, m.mul(dy, y))
            return m.sub_product(rise, along, height), m.sub_product(dy, x, m.mul(dx, y))

        def above_line(point: list[Any]) -> tuple[Any, Any]:
            height, away = beside(point)
            return squared(height), m.mul(away, away)

        for k in m.loop(0, 3):
            m.store(lowest, k, m.constant(0.0))
        row = search(lambda point: (seen(point)[2], m.constant(0.0)), is_lower, (1e300, 0.0))
        for k, number in enumerate(at(row)):
            m.store(lowest, k, m.sub_product(m.constant(1.0), number, m.constant(0.0)))
        dx, dy, rise = at(search(above_lowest, is_flatter, (1.0, 0.0)))
        rise = m.mul(rise, inverse(m.add_product(dx, dx, m.mul(dy, dy))))
        for k, number in enumerate((dx, dy, rise)):
            m.store(line, k, number)
        row = search(above_line, is_flatter, (1.0, 0.0))
        height, away = beside([points.coordinate(row, axis) for axis in range(3)])
        across = m.mul(m.mul(height, away), inverse(m.mul(away, away)))
        m.store(found, 0, m.sub_product(across, dy, m.mul(rise, dx)))
        m.store(found, 1, m.add_product(across, dx, m.mul(rise, dy)))


class _Points:
    """A range of points in memory: its address, first row and number of rows are given first."""

    def __init__(self, m: Machine, given: Memory) -> None:
        self._m = m
        self._address, self.first, self._count = (m.load(given, k) for k in range(3))
        self._last = m.add(m.add(self.first, self._count), m.constant(-1.0))

    def coordinate(self, row: Any, axis: int) -> Any:
        """Return x, y or z of a point."""
        m = self._m
        place = m.add_product(row, m.constant(3.0), m.constant(float(axis)))
        return m.fetch(self._address, place)

    def rows(self) -> Iterator[Any]:
        """Loop over the rows; cases with fewer points see their last one again."""
        m = self._m
        for i in m.loop(0, m.largest(self._count, MAX_POINTS)):
            yield self._row(m.number(i))

    def blocks(self) -> Iterator[list[Memory]]:
        """Loop over blocks of points: x, y, z and rows; the last point fills up the last block."""
        m = self._m
        block = [m.memory(BLOCK) for _ in range(4)]
        share = m.constant(1.0 / BLOCK)
        count = m.add_product(self._count, share, m.constant(1.0 - 1.0 / BLOCK))
        for i in m.loop(0, m.largest(count, MAX_POINTS // BLOCK)):
            start = m.mul(m.number(i), m.constant(float(BLOCK)))
            for k in range(BLOCK):
                row = self._row(m.add(start, m.constant(float(k))))
                for axis in range(3):
                    m.store(block[axis], k, self.coordinate(row, axis))
                m.store(block[3], k, row)
            yield block

    def _row(self, number: Any) -> Any:
        m = self._m
        row = m.add(self.first, number)
        return m.choose(m.less(row, self._last), row, self._last)


def farthest_rows(
    span: Sequence[Any], directions: Sequence[Sequence[Any]]
) -> list[tuple[Any, Any, Any, Any]]:
    """Return the points farthest out in some directions; on floats or traced values.

    Args:
        span: Address from `address_of` of an array of shape (n, 3), and the first row and the
            number of rows of the range in it. The caller holds the array.
        directions: Vectors (x, y, z).

    Returns:
        x, y, z and the row of a point for each direction.
    """
    address, first, count = span
    flat = [direction[axis] for axis in range(3) for direction in directions]
    found = FarthestRows(len(directions)).apply([address, first, count, *flat])
    return [tuple(found[4 * k : 4 * k + 4]) for k in range(len(directions))]


def slope_below(span: Sequence[Any], axes: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Return the slopes of the face on which points come to lie; on floats or traced values.

    Args:
        span: As for `farthest_rows`.
        axes: Unit vectors along, across and up, perpendicular to each other.

    Returns:
        Rise of the face per length along the first and the second axis.
    """
    x, y = SlopeBelow().apply([*span, *(number for axis in axes for number in axis)])
    return x, y
