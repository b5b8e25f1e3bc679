"""McMillan 1994, "Computational Dynamics for Robotic Systems on Land and Under Water", Part I.

Chapters 2 to 4: arms that hold one load. Counts are compared by the rules of the source, and ours
must not exceed them; accelerations are compared with those of the sparse system of motion and
constraints. The source has no model data: the lift runs on those of the zoo, and its errors are
shown, not judged.
"""

from collections.abc import Iterable

from tiburon.reproduce.cells import CellTable, chosen_names

BLOCK_TABLES = ("table-3", "table-4", "table-5", "table-6")
"""Tables of tasks over chains and points."""

PARTS = (
    "table-1",
    "table-2",
    "kernels",
    "crossover",
    "dual-arm",
    "star",
    "singular",
    "lift",
    *BLOCK_TABLES,
)
"""Names of the tables."""


def mcmillan_tables(parts: Iterable[str] = ()) -> tuple[CellTable, ...]:
    """Return some tables in order; all by default.

    Args:
        parts: Names such as "table-2".

    Raises:
        UnknownNameError: If there is no such table.
    """
    wanted = chosen_names(parts, PARTS, "table")
    from tiburon.reproduce import mcmillan_blocks, mcmillan_tables

    tables = {**mcmillan_tables.TABLES, **mcmillan_blocks.TABLES}
    return tuple(tables[name]() for name in wanted)


def mcmillan_page(tables: Iterable[CellTable]) -> str:
    """Return one HTML page with tables and figures."""
    from tiburon.reproduce.cell_page import cell_page
    from tiburon.reproduce.mcmillan_figures import figures

    return cell_page(
        "McMillan 1994, part I",
        "Arms that hold one load: operation counts, accelerations and a lift, as published, as "
        "corrected, and as computed here.",
        tuple(tables),
        figures(),
    )
