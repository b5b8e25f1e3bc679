"""Lookup tables that native code reads from memory, with any number of rows.

Parameters of a kernel are loaded one by one, which suits masses and gains but not a log of an hour.
A table stays in its array; code gets its address, finds the interval of x by bisection, and reads
the two rows around it. Rows may change without compiling, and each case may have its own table. The
two rows count as constants in derivatives; the derivative of linear interpolation in x is that of
its formula.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import DomainError, NonFiniteError, ShapeError
from tiburon.trace.primitives.primitive import ConstantPrimitive, Machine, Memory, address_of
from tiburon.trace.value import where

HANDLE = 3
"""Values that identify a table: address of its abscissas, address of its rows, row count."""

LEVELS = 8
"""Code is the same for tables that take up to this many halvings more."""

TableForm = tuple[int, int]
"""Properties of a table that code depends on: values per row, and bisection steps."""


def table_form(count: int, width: int) -> TableForm:
    """Return the form of a table from its rows and values per row."""
    return width, -(-count.bit_length() // LEVELS) * LEVELS


class Table:
    """Rows of values at increasing abscissas; immutable, compared by value.

    Read-only arrays are shared, others are copied.

    Callers of code with its `handle` must keep the table alive meanwhile.

    Attributes:
        places: Where each row holds, rising, shape (n,); not to be written.
        rows: Shape (n, width); not to be written.
    """

    __slots__ = ("__weakref__", "places", "rows")

    def __init__(self, places: ArrayLike, rows: ArrayLike) -> None:
        """Take a table.

        Args:
            places: Shape (n,), rising.
            rows: Shape (n, width), or (n,) for rows of one value.

        Raises:
            ShapeError: If there is not one row for each place.
            NonFiniteError: If a value is not finite.
            DomainError: If places do not rise.
        """
        x, y = _own(places), _own(rows)
        y = y[:, None] if y.ndim == 1 else y
        if x.ndim != 1 or y.ndim != 2 or len(x) != len(y) or not y.size:
            raise ShapeError("table", "one row or more, one per place", f"{y.shape} at {x.shape}")
        for what, numbers in (("places", x), ("rows", y)):
            bad = np.argwhere(~np.isfinite(numbers))
            if len(bad):
                first = tuple(bad[0].tolist())
                raise NonFiniteError(f"{what} of a table", first, float(numbers[first]))
        fall = np.flatnonzero(np.diff(x) <= 0.0)
        if len(fall):
            k = int(fall[0])
            raise DomainError("table", "rising places", f"{x[k + 1]:g} after {x[k]:g}")
        for numbers in (x, y):
            numbers.flags.writeable = False
        self.places = x
        self.rows = y

    def __len__(self) -> int:
        return len(self.places)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return np.array_equal(self.places, other.places) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.places.tobytes(), self.rows.tobytes()))

    @property
    def form(self) -> TableForm:
        """Properties that code depends on."""
        return table_form(*self.rows.shape)

    @property
    def handle(self) -> tuple[float, ...]:
        """Values that identify it in code, as long as it is alive."""
        return address_of(self.places), address_of(self.rows), float(len(self))


class TableOfTables(Table):
    """Tables by number, all of one form: row k is the handle of table k, which it keeps alive.

    Attributes:
        tables: The tables.
    """

    __slots__ = ("tables",)

    def __init__(self, tables: Sequence[Table]) -> None:
        """Take some tables."""
        self.tables = tuple(tables)
        super().__init__(np.arange(float(len(self.tables))), [t.handle for t in self.tables])


def _own(numbers: ArrayLike) -> NDArray[np.float64]:
    """Return values as a read-only array."""
    known = isinstance(numbers, np.ndarray) and numbers.dtype == np.float64
    if known and numbers.flags.c_contiguous and not numbers.flags.writeable:  # type: ignore[union-attr]
        return numbers  # type: ignore[return-value]
    return np.array(numbers, dtype=np.float64, order="C")


class TableRows(ConstantPrimitive):
    """Find the rows around a value.

    From a handle and x to: the last place at or before x, or the first of all; the place after it,
    or the last of all; the row of the former; and with `following` that of the latter.
    """

    def __init__(self, width: int, levels: int, *, following: bool = True) -> None:
        super().__init__("table_rows", width, levels, 1 + following)
        self.argument_count = HANDLE + 1
        self.result_count = 2 + (1 + following) * width

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether it may be unrolled in its caller; False, since it reads external memory."""
        return False

    def write(self, m: Machine, given: Memory, found: Memory) -> None:
        """Find the place by bisection, then read."""
        width, levels, row_count = self.form
        places, rows, count, x = (m.load(given, k) for k in range(HANDLE + 1))
        last = m.add(count, m.constant(-1.0))

        def capped(k: Any) -> Any:
            # NaN stays at the first row
            return m.choose(m.less(k, last), k, last)

        k = m.constant(0.0)
        for level in reversed(range(levels)):
            further = capped(m.add(k, m.constant(float(2**level))))
            k = m.choose(m.less_equal(m.fetch(places, further), x), further, k)
        after = capped(m.add(k, m.constant(1.0)))
        at = m.memory(1)
        for side, place in enumerate((k, after)):
            m.store(found, side, m.fetch(places, place))
            if side >= row_count:
                continue
            m.store(at, 0, m.mul(place, m.constant(float(width))))
            for j in m.loop(0, width):
                number = m.load(at, 0)
                m.store(found, j + (2 + side * width), m.fetch(rows, number))
                m.store(at, 0, m.add(number, m.constant(1.0)))


def read_rows(form: TableForm, handle: Sequence[Any], x: Any, *, line: bool) -> list[Any]:
    """Return the values of a table at x; on floats or traced values.

    Before the first row the first holds, after the last the last. The derivative by x is that of
    the line, in a row that of the line to the next.

    Args:
        form: `Table.form`.
        handle: `Table.handle`, or traced values in its place.
        x: Abscissa.
        line: Whether to interpolate linearly between rows; else each row holds up to the next.

    Returns:
        One value for each column.

    Raises:
        ShapeError: If the handle is not that of one table.
    """
    if len(handle) != HANDLE:
        # native code would read arbitrary memory
        raise ShapeError(
            "handle of a table",
            f"{HANDLE} numbers",
            len(handle),
            advice="list the table in `tables`, and hand over the numbers of this one alone",
        )
    width, levels = form
    found = TableRows(width, levels).apply([*handle, x])
    begin, end, row = found[0], found[1], found[2 : 2 + width]
    if not line:
        return row
    length = where(begin < end, end - begin, 1.0)
    share = np.minimum(np.maximum((x - begin) / length, 0.0), 1.0)
    following = found[2 + width :]
    return [a + share * (b - a) for a, b in zip(row, following, strict=True)]
