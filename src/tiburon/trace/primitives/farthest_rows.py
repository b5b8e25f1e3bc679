"""Support points: of a range of points in memory, those farthest out in given directions.

The points stay in their array; code gets its address. They may change without compiling, and each
case may have its own. Points count as constants in derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory

MAX_POINTS = 65536
"""Points of a range at most."""


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
        address, first, count = (m.load(given, k) for k in range(3))
        last = m.add(m.add(first, count), m.constant(-1.0))
        # x, y, z and row of the present point
        point = m.memory(4)
        farthest, rows = m.memory(directions), m.memory(directions)
        for k in m.loop(0, directions):
            m.store(farthest, k, m.constant(-1e300))
            m.store(rows, k, first)

        def fetch(row: Any, axis: int) -> Any:
            place = m.add_product(row, m.constant(3.0), m.constant(float(axis)))
            return m.fetch(address, place)

        for i in m.loop(0, m.largest(count, MAX_POINTS)):
            row = m.add(first, m.number(i))
            # cases with fewer points compare their last one again
            row = m.choose(m.less(row, last), row, last)
            for axis in range(3):
                m.store(point, axis, fetch(row, axis))
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
                m.store(found, 4 * k + axis, fetch(row, axis))
            m.store(found, 4 * k + 3, row)


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
