"""Cells of the tables of Nahon 1991: what is published, what we find, and the verdict."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tiburon.arrays import ArrayLike

__all__ = [
    "DERIVED",
    "LOST",
    "PUBLISHED",
    "SURROGATE",
    "TIMING",
    "Cell",
    "NahonTable",
    "claim",
    "lost",
    "number",
    "shown",
    "timing",
]

PUBLISHED, DERIVED, SURROGATE = "published", "derived", "surrogate"
"""Origin of a reference: printed in the source; recomputed from its data; from data of ours in the
place of lost ones."""

TIMING, LOST = "timing", "lost"
"""Not judged: ratios of times, and what the source lost."""


class Cell(NamedTuple):
    """One value beside ours."""

    quantity: str
    published: str
    ours: str
    kind: str
    """One of the kinds above."""

    good: bool | None
    """Whether ours agrees; None where it is not judged."""

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.good is None:
            return "lost" if self.kind == LOST else f"not judged ({self.kind})"
        mark = "" if self.kind == PUBLISHED else f" ({self.kind})"
        return ("agrees" if self.good else "DIFFERS") + mark


class NahonTable(NamedTuple):
    """Cells of one table or example."""

    name: str
    """Such as "E9, table 6.1"."""

    title: str
    cells: tuple[Cell, ...]
    remarks: tuple[str, ...] = ()


def number(
    quantity: str, published: ArrayLike, ours: ArrayLike, allowed: float, kind: str = PUBLISHED
) -> Cell:
    """Return a cell of numbers that agree within a tolerance, infinite ones only with each other.

    Args:
        quantity: What it is, with its unit.
        published: Reference.
        ours: Our value.
        allowed: Largest difference: half of the last printed digit, as a rule.
        kind: Origin of the reference.
    """
    theirs, found = np.atleast_1d(published).astype(float), np.atleast_1d(ours).astype(float)
    same = theirs.shape == found.shape
    if same:
        finite = np.isfinite(theirs)
        same = bool(
            np.array_equal(theirs[~finite], found[~finite])
            and np.all(np.abs(theirs[finite] - found[finite]) <= allowed)
        )
    digits = max(0, int(np.ceil(-np.log10(2.0 * allowed)))) if allowed > 0.0 else 0
    return Cell(quantity, _text(theirs, digits), _text(found, digits), kind, same)


def _text(values: Iterable[float], digits: int) -> str:
    # without trailing zeros and without -0
    return " ".join(f"{round(float(x), digits) + 0.0:.10g}" for x in values)


def claim(quantity: str, published: str, ours: str, good: bool, kind: str = PUBLISHED) -> Cell:
    """Return a cell of a statement."""
    return Cell(quantity, published, ours, kind, good)


def timing(quantity: str, published: float, ours: float) -> Cell:
    """Return a ratio of times, which is not judged."""
    return Cell(quantity, f"{published:.3g}", f"{ours:.3g}", TIMING, None)


def shown(quantity: str, published: str, ours: str) -> Cell:
    """Return a value that lost data decide, which is therefore not judged."""
    return Cell(quantity, published, ours, SURROGATE, None)


def lost(quantity: str, instead: str) -> Cell:
    """Return what the source lost, and what stands for it here."""
    return Cell(quantity, "lost", instead, LOST, None)
