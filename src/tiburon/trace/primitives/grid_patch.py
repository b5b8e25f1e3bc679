"""Square patches of a grid of floats that native code reads from memory by index.

The grid stays in its array; code gets its address. Elements may change without compiling, and each
case may have its own grid. Elements count as constants in derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tiburon.errors import ShapeError
from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory

GRID_HANDLE = 3
"""Values that identify a grid: address of its elements, row count, column count."""


class GridPatch(ConstantPrimitive):
    """Read a square patch of a grid.

    From a handle and the first row and column (whole numbers as floats) to the elements, row by
    row. Indices beyond the grid read the nearest element of its border.
    """

    def __init__(self, side: int) -> None:
        super().__init__("grid_patch", side)
        self.argument_count = GRID_HANDLE + 2
        self.result_count = side**2

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it reads external memory."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Clamp each index to the grid, then read."""
        side = self.form[0]
        address, rows, columns, row, column = (m.load(given, k) for k in range(GRID_HANDLE + 2))
        zero = m.constant(0.0)

        def clamped(first: Any, k: int, count: Any) -> Any:
            last = m.add(count, m.constant(-1.0))
            index = m.add(first, m.constant(float(k)))
            # NaN becomes an index of the grid, too
            index = m.choose(m.less(index, last), index, last)
            return m.choose(m.less(zero, index), index, zero)

        along = [clamped(column, k, columns) for k in range(side)]
        for i in range(side):
            start = m.mul(clamped(row, i, rows), columns)
            for j in range(side):
                m.store(found, side * i + j, m.fetch(address, m.add(start, along[j])))


def read_patch(side: int, handle: Sequence[Any], row: Any, column: Any) -> list[list[Any]]:
    """Return a square patch of a grid; on floats or traced values.

    Args:
        side: Rows and columns of the patch.
        handle: Address from `address_of`, row count and column count. The caller holds the grid.
        row: First row, a whole number; may be beyond the grid, whose border elements continue.
        column: First column, likewise.

    Raises:
        ShapeError: If the handle is not that of one grid.
    """
    if len(handle) != GRID_HANDLE:
        # native code would read arbitrary memory
        raise ShapeError("handle of a grid", f"{GRID_HANDLE} numbers", len(handle))
    found = GridPatch(side).apply([*handle, row, column])
    return [found[side * i : side * (i + 1)] for i in range(side)]
