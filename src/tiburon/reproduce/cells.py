"""Cells of tables of a source: what is published, what we find, and the verdict."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import NamedTuple, ParamSpec

import numpy as np

from tiburon.arrays import ArrayLike
from tiburon.errors import UnknownNameError

P = ParamSpec("P")

PUBLISHED, DERIVED, SURROGATE = "published", "derived", "surrogate"
"""Origin of a reference: printed in the source; recomputed from its data; from data of ours in the
place of lost ones."""

TIMING, LOST, MEASURED = "timing", "lost", "measured"
"""Not judged: ratios of times, what the source lost, and what the source does not measure."""


class Cell(NamedTuple):
    """One value beside ours."""

    quantity: str
    published: str
    ours: str
    kind: str
    """One of the kinds above."""

    good: bool | None
    """Whether ours agrees; None where it is not judged."""

    corrected: str = ""
    """The published value after a correction, which is then the reference; empty without one."""

    reason: str = ""
    """Why it is corrected."""

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.good is None:
            return "lost in the scan" if self.kind == LOST else f"not judged ({self.kind})"
        marks = [] if self.kind == PUBLISHED else [self.kind]
        marks += ["corrected"] if self.corrected else []
        mark = f" ({', '.join(marks)})" if marks else ""
        return ("agrees" if self.good else "DIFFERS") + mark


class CellTable(NamedTuple):
    """Cells of one table or example."""

    name: str
    """Such as "E9, table 6.1"."""

    title: str
    cells: tuple[Cell, ...]
    remarks: tuple[str, ...] = ()


Cells = Iterator[Cell | str]
"""Cells of a table, and remarks on it."""


def cell_table(name: str, title: str) -> Callable[[Callable[P, Cells]], Callable[P, CellTable]]:
    """Make a function that yields cells and remarks return the table of them."""

    def decorate(cells: Callable[P, Cells]) -> Callable[P, CellTable]:
        @wraps(cells)
        def table(*args: P.args, **kwargs: P.kwargs) -> CellTable:
            found = list(cells(*args, **kwargs))
            remarks = tuple(x for x in found if isinstance(x, str))
            return CellTable(name, title, tuple(x for x in found if isinstance(x, Cell)), remarks)

        return table

    return decorate


def count_cells(tables: Iterable[CellTable]) -> tuple[int, int, int]:
    """Return how many cells are judged, how many of these agree, and how many are not judged."""
    cells: list[Cell] = [cell for table in tables for cell in table.cells]
    judged = [cell for cell in cells if cell.good is not None]
    return len(judged), sum(bool(cell.good) for cell in judged), len(cells) - len(judged)


def number(
    quantity: str,
    published: ArrayLike,
    ours: ArrayLike,
    allowed: float,
    kind: str = PUBLISHED,
    *,
    corrected: ArrayLike | None = None,
    reason: str = "",
) -> Cell:
    """Return a cell of numbers that agree within a tolerance, infinite ones only with each other.

    Args:
        quantity: What it is, with its unit.
        published: Reference.
        ours: Our value.
        allowed: Largest difference: half of the last printed digit, as a rule.
        kind: Origin of the reference.
        corrected: Reference instead of the published value.
        reason: Why that is corrected.
    """
    reference = published if corrected is None else corrected
    theirs, found = np.atleast_1d(reference).astype(float), np.atleast_1d(ours).astype(float)
    same = theirs.shape == found.shape
    if same:
        finite = np.isfinite(theirs)
        same = bool(
            np.array_equal(theirs[~finite], found[~finite])
            and np.all(np.abs(theirs[finite] - found[finite]) <= allowed)
        )
    digits = max(0, int(np.ceil(-np.log10(2.0 * allowed)))) if allowed > 0.0 else 0
    printed = _text(np.atleast_1d(published).astype(float), digits)
    right = "" if corrected is None else _text(theirs, digits)
    return Cell(quantity, printed, _text(found, digits), kind, same, right, reason)


def _text(values: Iterable[float], digits: int) -> str:
    # without trailing zeros and without -0
    return " ".join(f"{round(float(x), digits) + 0.0:.{max(10, digits + 4)}g}" for x in values)


def claim(
    quantity: str,
    published: str,
    ours: str,
    good: bool,
    kind: str = PUBLISHED,
    *,
    corrected: str = "",
    reason: str = "",
) -> Cell:
    """Return a cell of a statement."""
    # NumPy's verdicts too are True or False
    return Cell(quantity, published, ours, kind, bool(good), corrected, reason)


def timing(quantity: str, published: float, ours: float) -> Cell:
    """Return a ratio of times, which is not judged."""
    return Cell(quantity, f"{published:.3g}", f"{ours:.3g}", TIMING, None)


def shown(quantity: str, published: str, ours: str) -> Cell:
    """Return a value that lost data decide, which is therefore not judged."""
    return Cell(quantity, published, ours, SURROGATE, None)


def measured(quantity: str, published: str, ours: str) -> Cell:
    """Return a value of ours beside a word of the source, which cannot be judged."""
    return Cell(quantity, published, ours, MEASURED, None)


def lost(quantity: str, instead: str) -> Cell:
    """Return what the source lost, and what stands for it here."""
    return Cell(quantity, "lost", instead, LOST, None)


def chosen_names(given: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the given names in the order of the known ones; all if none is given.

    Raises:
        UnknownNameError: If a name is not known.
    """
    wanted = set(given) or set(known)
    for name in wanted:
        if name not in known:
            raise UnknownNameError(what, name, known)
    return tuple(name for name in known if name in wanted)


def chosen_tables(
    makers: Mapping[str, Callable[[], CellTable]], names: Iterable[str] = (), what: str = "table"
) -> tuple[CellTable, ...]:
    """Return some tables in order; all by default.

    Raises:
        UnknownNameError: If there is no such table.
    """
    return tuple(makers[name]() for name in chosen_names(names, tuple(makers), what))
