"""Cells of tables of a source: a reference and where it comes from, ours, and the verdict."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import NamedTuple, ParamSpec

import numpy as np

from tiburon.arrays import ArrayLike
from tiburon.errors import DomainError, UnknownNameError
from tiburon.reproduce.published import Cost

P = ParamSpec("P")

PRINTED, DERIVED, SURROGATE = "printed", "derived from print", "surrogate"
INDEPENDENT, PRINT_CHECK, CORRECTED = "independent", "print itself", "corrected print"

KINDS = (PRINTED, DERIVED, SURROGATE, INDEPENDENT, PRINT_CHECK)
"""Origins of references."""

BASES: Mapping[str, str] = {
    PRINTED: "a value or statement of the source, and our result from its data",
    CORRECTED: "the source is wrong there, for the reason that is given; ours is judged by the "
    "corrected value",
    DERIVED: "recomputed from printed data or formulas, without the code that is compared",
    SURROGATE: "data of ours stand for lost ones: the reference is a printed value or statement "
    "that they should give, or was computed from them without the code that is compared",
    INDEPENDENT: "a closed form, an identity or another formulation; the source has no value",
    PRINT_CHECK: "both sides are printed: says whether the source is consistent, nothing of ours",
}
"""What cells are judged by, counted apart, and what that means."""

NO_REFERENCE = "-"

TIME, LOST_DATA, MEASURED, LOST = "time", "lost data", "measured", "lost"
"""Why a cell is not judged: a time of another machine; a value that lost data decide; a measure of
ours beside a word or a value that is no reference for it; something that the source lost."""


class Cell(NamedTuple):
    """A reference beside our value."""

    quantity: str
    reference: str
    ours: str
    kind: str
    """Origin of the reference, one of `KINDS`; empty without a reference."""

    good: bool | None
    """Whether ours agrees; None where it is not judged."""

    corrected: str = ""
    """The reference after a correction, by which ours is judged; empty without one."""

    reason: str = ""
    """Why it is corrected, or why it is not judged."""

    word: str = ""
    """Verdict of a good cell other than "agrees", such as "fewer"."""

    @property
    def basis(self) -> str:
        """What it is judged by, one of `BASES`: not by the print where that is corrected."""
        return CORRECTED if self.corrected and self.kind != PRINT_CHECK else self.kind

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.good is None:
            return "lost in the scan" if self.reason == LOST else f"not judged ({self.reason})"
        usual = "consistent" if self.kind == PRINT_CHECK else "agrees"
        word = (self.word or usual) if self.good else "DIFFERS"
        return f"{word} (corrected)" if self.corrected else word


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


class CellCounts(NamedTuple):
    """Verdicts of cells, by what they are judged by."""

    judged: Mapping[str, int]
    """Judged cells by basis."""

    good: Mapping[str, int]
    """Those that agree, by basis."""

    words: Mapping[str, int]
    """Good cells whose verdict is another word than "agrees", such as "fewer"."""

    unjudged: int

    @property
    def differing(self) -> int:
        """How many judged cells differ."""
        return sum(self.judged.values()) - sum(self.good.values())

    @property
    def summary(self) -> str:
        """One clause per basis, such as "12 of 12 printed"; differing and unjudged cells."""
        kinds = [f"{self.good[k]} of {self.judged[k]} {k}" for k in BASES if self.judged[k]]
        words = [f"{count} {word}" for word, count in self.words.items()]
        agree = ", ".join(kinds) or "none judged"
        of_these = f" ({', '.join(words)})" if words else ""
        return f"agree: {agree}{of_these}; {self.differing} differ, {self.unjudged} not judged"


def count_cells(tables: Iterable[CellTable]) -> CellCounts:
    """Return how many cells are judged and agree, by what they are judged by."""
    cells: list[Cell] = [cell for table in tables for cell in table.cells]
    judged = [cell for cell in cells if cell.good is not None]
    words: dict[str, int] = {}
    for cell in judged:
        if cell.good and cell.word:
            words[cell.word] = words.get(cell.word, 0) + 1
    return CellCounts(
        {basis: sum(cell.basis == basis for cell in judged) for basis in BASES},
        {basis: sum(cell.basis == basis and bool(cell.good) for cell in judged) for basis in BASES},
        words,
        len(cells) - len(judged),
    )


def _judged(cell: Cell) -> Cell:
    """Return a judged cell after a check that there is something to judge it by.

    Raises:
        DomainError: If there is no reference, or its origin is not known.
    """
    if cell.reference.strip() in ("", NO_REFERENCE):
        raise DomainError(
            "reference", "one to judge by", repr(cell.reference), advice="use measured()"
        )
    if cell.kind not in KINDS:
        raise DomainError("kind", f"one of {', '.join(KINDS)}", repr(cell.kind))
    return cell


def number(
    quantity: str,
    reference: ArrayLike,
    ours: ArrayLike,
    allowed: float,
    kind: str = PRINTED,
    *,
    corrected: ArrayLike | None = None,
    reason: str = "",
) -> Cell:
    """Return a cell of numbers that agree within a tolerance, infinite ones only with each other.

    Args:
        quantity: What it is, with its unit.
        reference: What ours is compared with.
        ours: Our value.
        allowed: Largest difference: half of the last printed digit, as a rule.
        kind: Origin of the reference.
        corrected: Reference instead of the given value.
        reason: Why that is corrected.
    """
    right = reference if corrected is None else corrected
    theirs, found = np.atleast_1d(right).astype(float), np.atleast_1d(ours).astype(float)
    same = theirs.shape == found.shape
    if same:
        finite = np.isfinite(theirs)
        same = bool(
            np.array_equal(theirs[~finite], found[~finite])
            and np.all(np.abs(theirs[finite] - found[finite]) <= allowed)
        )
    digits = max(0, int(np.ceil(-np.log10(2.0 * allowed)))) if allowed > 0.0 else 0
    printed = _text(np.atleast_1d(reference).astype(float), digits)
    after = "" if corrected is None else _text(theirs, digits)
    return _judged(Cell(quantity, printed, _text(found, digits), kind, same, after, reason))


def _text(values: Iterable[float], digits: int) -> str:
    # without trailing zeros and without -0
    return " ".join(f"{round(float(x), digits) + 0.0:.{max(10, digits + 4)}g}" for x in values)


def claim(
    quantity: str,
    reference: str,
    ours: str,
    good: bool,
    kind: str = PRINTED,
    *,
    corrected: str = "",
    reason: str = "",
) -> Cell:
    """Return a cell of a statement."""
    # NumPy's verdicts too are True or False
    return _judged(Cell(quantity, reference, ours, kind, bool(good), corrected, reason))


def operations(
    quantity: str,
    reference: Cost,
    ours: Cost,
    kind: str = PRINTED,
    unit: str = "operations",
) -> Cell:
    """Return an operation count, which is good if its sum is not above that of the reference.

    The verdict is "agrees" for equal counts, "fewer" if neither multiplications nor additions are
    more, and "fewer in sum" or "equal in sum" if one of them is.

    Args:
        quantity: What is counted.
        reference: What ours is compared with.
        ours: Our count.
        kind: Origin of the reference.
        unit: "operations", or what is counted as multiplications and alone.
    """
    excess = ours.total - reference.total
    more = ours.multiplications > reference.multiplications or ours.additions > reference.additions
    word = ""
    if ours != reference and excess <= 0:
        word = ("fewer" if excess else "equal") + (" in sum" if more else "")
    by = f", above by {excess}" if excess > 0 else f", below by {-excess}" if excess < 0 else ""
    theirs, found = (
        str(cost if unit == "operations" else cost.multiplications) for cost in (reference, ours)
    )
    return _judged(Cell(quantity, theirs, found + by, kind, excess <= 0, word=word))


def print_check(
    quantity: str,
    printed: ArrayLike,
    found: ArrayLike,
    allowed: float,
    *,
    corrected: ArrayLike | None = None,
    reason: str = "",
) -> Cell:
    """Return whether printed values follow from other printed values; arguments as of `number`."""
    return number(
        quantity, printed, found, allowed, PRINT_CHECK, corrected=corrected, reason=reason
    )


def timing(quantity: str, reference: float, ours: float) -> Cell:
    """Return a time or a ratio of times of the source, which is not judged."""
    return Cell(quantity, f"{reference:.3g}", f"{ours:.3g}", PRINTED, None, reason=TIME)


def shown(quantity: str, reference: str, ours: str) -> Cell:
    """Return a printed value that lost data decide, which is therefore not judged."""
    return Cell(quantity, reference, ours, PRINTED, None, reason=LOST_DATA)


def measured(quantity: str, reference: str, ours: str, kind: str = PRINTED) -> Cell:
    """Return a value of ours that no reference judges, beside a word or a value of the source."""
    origin = "" if reference == NO_REFERENCE else kind
    return Cell(quantity, reference, ours, origin, None, reason=MEASURED)


def lost(quantity: str, instead: str) -> Cell:
    """Return what the source lost, and what stands for it here."""
    return Cell(quantity, NO_REFERENCE, instead, "", None, reason=LOST)


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


HEAD = ("", "reference", "its origin", "corrected", "ours", "verdict")
"""Columns of a printed table."""


def cell_rows(cells: Iterable[Cell]) -> list[tuple[str, str, str, str, str, str]]:
    """Return the texts of the columns of `HEAD`."""
    return [(c.quantity, c.reference, c.kind, c.corrected, c.ours, c.verdict) for c in cells]
