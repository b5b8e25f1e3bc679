"""Numbers that change with time as a table says."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from tiburon.errors import ModelError, OptionError
from tiburon.model.numbers import finite_array
from tiburon.spatial import Scalar

__all__ = ["BETWEEN", "MOST_ROWS", "Rows", "checked_table", "read_table"]

Rows = tuple[tuple[float, ...], ...]

BETWEEN = ("line", "hold")
"""What happens between two rows: a straight line, or the earlier row until the next."""

MOST_ROWS = 500
"""Rows of a table; each costs time in every step."""


def checked_table(
    times: ArrayLike, rows: ArrayLike, width: int | None, between: str, element: str, name: str
) -> tuple[tuple[float, ...], Rows]:
    """Return times and rows of a table as numbers.

    Args:
        times: Rising [s], shape (n,).
        rows: One row for each time, shape (n, width), or (n,) for rows of one number.
        width: How many numbers a row has; any number if None.
        between: One of `BETWEEN`.
        element: Leads messages.
        name: Of the element, for the error's attribute.
    """
    if between not in BETWEEN:
        raise OptionError("between", BETWEEN, between)
    count = np.size(times)
    if not 1 <= count <= MOST_ROWS:
        raise ModelError(
            f"{element}: a table must have 1 to {MOST_ROWS} rows, got {count}; thin it out, or "
            "give what a longer log holds through a control function",
            name=name,
        )
    when = tuple(finite_array(times, (count,), element, "times", name).tolist())
    if not all(a < b for a, b in pairwise(when)):
        raise ModelError(f"{element}: times must rise, got {when}; sort the rows", name=name)
    given = np.asarray(rows, dtype=np.float64)
    given = given.reshape(-1, 1) if given.ndim == 1 and width in (None, 1) else given
    expected = given.shape[-1] if width is None and given.ndim == 2 else width or 1
    checked = finite_array(given, (count, expected), element, "rows", name)
    return when, tuple(map(tuple, checked.tolist()))


def read_table(
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
