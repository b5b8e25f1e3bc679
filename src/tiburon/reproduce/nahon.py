"""Nahon 1991, "Optimization of Force Distribution in Redundantly-Actuated Robotic Systems".

Every table and worked example whose data survive: tables 5.1, 6.1 to 6.7 and 7.1, examples E1 to
E16. References are of three kinds: printed in the source; derived from its data, where it prints
only a curve; and surrogate, where a figure with data is lost and data of ours stand for it. Times
are ratios within one run, beside those of the source, and are not judged.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tiburon.errors import UnknownNameError
from tiburon.reproduce.nahon_cells import Cell, NahonTable

__all__ = ["EXAMPLES", "count_cells", "nahon_tables"]


EXAMPLES = tuple(f"E{k}" for k in range(1, 17))
"""Names of the examples."""


def nahon_tables(examples: Iterable[str] = ()) -> tuple[NahonTable, ...]:
    """Return the tables of some examples in order; of all by default.

    Args:
        examples: Such as "E9".

    Raises:
        UnknownNameError: If there is no such example.
    """
    wanted = tuple(name.upper() for name in examples) or EXAMPLES
    for name in wanted:
        if name not in EXAMPLES:
            raise UnknownNameError("example", name, EXAMPLES)
    from tiburon.reproduce.nahon_solvers import SOLVERS
    from tiburon.reproduce.nahon_structure import STRUCTURE
    from tiburon.reproduce.nahon_tasks import TASKS

    known: dict[str, Callable[[], Any]] = {**STRUCTURE, **SOLVERS, **TASKS}
    found: list[NahonTable] = []
    for name in EXAMPLES:
        if name in wanted:
            tables = known[name]()
            found += [tables] if isinstance(tables, NahonTable) else tables
    return tuple(found)


def count_cells(tables: Iterable[NahonTable]) -> tuple[int, int, int]:
    """Return how many cells are judged, how many of these agree, and how many are not judged."""
    cells: list[Cell] = [cell for table in tables for cell in table.cells]
    judged = [cell for cell in cells if cell.good is not None]
    return len(judged), sum(bool(cell.good) for cell in judged), len(cells) - len(judged)
