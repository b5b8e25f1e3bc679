"""Values that follow a table in time."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import choice, is_numeric, refuse_unusable
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError
from tiburon.model.value_checks import finite_array
from tiburon.record import record
from tiburon.spatial import Scalar
from tiburon.trace.primitives.table_rows import HANDLE, Table, read_rows, table_form

__all__ = [
    "BETWEEN",
    "MOST_PARAMETER_ROWS",
    "Column",
    "Rows",
    "TimeTable",
    "Times",
    "checked_table",
    "read_short_table",
]

Array = NDArray[np.float64]

BETWEEN = ("line", "hold")
"""What happens between two rows: a straight line, or the earlier row until the next."""

MOST_PARAMETER_ROWS = 32
"""Rows up to which times and values of a table are run-time parameters, which may differ from case
to case. Longer tables are data beside the code, shared by all cases: each row of a short table
costs time in every step."""


@record(eq=False)
class Column:
    """Times or rows of a long table: numbers that nobody changes, compared by value."""

    values: Array
    """Shape (n,) or (n, width)."""

    @classmethod
    def of(cls, numbers: ArrayLike) -> "Column":
        """Return numbers as a column of their own."""
        refuse_unusable("table", numbers)
        found = np.array(numbers, dtype=np.float64, order="C")
        found.flags.writeable = False
        return cls(found)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the numbers, for functions of NumPy."""
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Column):
            return NotImplemented
        return np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def __repr__(self) -> str:
        return f"Column(shape {self.values.shape})"


Rows = tuple[tuple[float, ...], ...] | Column
Times = tuple[float, ...] | Column


def checked_table(
    times: ArrayLike,
    rows: ArrayLike,
    width: int | None,
    between: str,
    element: str,
    name: str,
    argument: str = "rows",
) -> tuple[Times, Rows]:
    """Return times and rows of a table as numbers: tuples of short ones, columns of long ones.

    Args:
        times: Rising [s], shape (n,).
        rows: One row for each time, shape (n, width), or (n,) for rows of one number.
        width: How many numbers a row has; any number if None.
        between: One of `BETWEEN`.
        element: Leads messages.
        name: Of the element, for the error's attribute.
        argument: What messages call the rows.
    """
    choice("between", between, BETWEEN)
    count = np.size(times)
    if not count:
        raise ModelError(
            f"{element}: times must be one or more, got none; leave the element out",
            name=name,
        )
    when = finite_array(times, (count,), element, "times", name)
    fall = np.flatnonzero(np.diff(when) <= 0.0)
    if len(fall):
        k = int(fall[0])
        raise ModelError(
            f"{element}: times must rise, got {when[k + 1]:g} s after {when[k]:g} s (row {k + 1}); "
            "sort the rows",
            name=name,
        )
    shape = np.shape(rows) if is_numeric(rows) else (count, width or 1)
    given = finite_array(rows, shape, element, argument, name)
    given = given.reshape(-1, 1) if given.ndim == 1 and width in (None, 1) else given
    expected = given.shape[-1] if width is None and given.ndim == 2 else width or 1
    checked = finite_array(given, (count, expected), element, argument, name)
    if count > MOST_PARAMETER_ROWS:
        return Column.of(when), Column.of(checked)
    return tuple(when.tolist()), tuple(map(tuple, checked.tolist()))


class TimeTable:
    """How an element reads its table: among its run-time parameters, or in the data beside code."""

    def __init__(self, times: Times, rows: Rows, between: str) -> None:
        """Take what `checked_table` returned."""
        self._times, self._rows, self._between = times, rows, between

    @property
    def _is_long(self) -> bool:
        return isinstance(self._times, Column)

    @property
    def width(self) -> int:
        """Numbers per row."""
        return len(self._rows[0])

    def numbers(self) -> tuple[float, ...]:
        """Return run-time parameters: times, then rows, of short tables."""
        if self._is_long:
            return ()
        assert isinstance(self._times, tuple)
        return (*self._times, *(x for row in self._rows for x in row))

    def tables(self) -> tuple[Table, ...]:
        """Return data beside code, of long tables."""
        return (Table(self._times, self._rows),) if self._is_long else ()

    def structure(self) -> tuple[Any, ...]:
        """Return what code depends on."""
        if self._is_long:
            return ("long", *self._form, self._between)
        return (len(self._times), self.width, self._between)

    @property
    def _form(self) -> tuple[int, int]:
        return table_form(len(self._times), self.width)

    def at(
        self, time: Scalar, numbers: Sequence[Scalar], handle: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """Return the row at a time.

        Args:
            time: When [s].
            numbers: What stands for `numbers` in this run.
            handle: What stands for the handle of the table, `HANDLE` numbers; none of short ones.
        """
        line = self._between == "line"
        if self._is_long:
            return tuple(read_rows(self._form, handle[:HANDLE], time, line=line))
        count, width = len(self._times), self.width
        rows: list[Sequence[Scalar]] = [
            numbers[count + width * k : count + width * (k + 1)] for k in range(count)
        ]
        return read_short_table(numbers[:count], rows, self._between, time)


def read_short_table(
    times: Sequence[Scalar], rows: Sequence[Sequence[Scalar]], between: str, time: Scalar
) -> tuple[Scalar, ...]:
    """Return the numbers at a time; before the first row the first, after the last row the last.

    Args:
        times: When each row holds [s].
        rows: As many.
        between: One of `BETWEEN`.
        time: When [s].
    """
    found = list(rows[0])
    for k in range(len(times) - 1):
        begin, end = times[k], times[k + 1]
        if between == "line":
            share = np.minimum(np.maximum((time - begin) / (end - begin), 0.0), 1.0)
        else:
            share = np.where(time >= end, 1.0, 0.0)
        for j, (a, b) in enumerate(zip(rows[k], rows[k + 1], strict=True)):
            found[j] = found[j] + share * (b - a)
    return tuple(found)
