"""Khan 2002, "Distributed Dynamics of Systems with Closed Kinematic Chains".

Its planar 3-RRR manipulator by three formulations: springs across the loops, orthogonal complements
of the loop closures, the decoupled natural orthogonal complement. Almost all results of the source
are figures, which are lost; what survives are data, gains, which runs fail, and three counts.
References are printed in the source, or derived from its data by formulations that share no code
with this package. Errors of runs without feedback are not judged: the motion is unstable.
"""

from collections.abc import Iterable

from tiburon.reproduce.cells import CellTable, chosen_names

PARTS = (
    "data",
    "equations",
    "torques",
    "inertia",
    "drop",
    "penalty",
    "complement",
    "embedding",
    "denoc",
    "distributed",
    "growth",
    "feedback",
    "table-5.1",
)
"""Names of the tables."""


def khan_tables(parts: Iterable[str] = ()) -> tuple[CellTable, ...]:
    """Return some tables in order; all by default.

    Args:
        parts: Names such as "torques".

    Raises:
        UnknownNameError: If there is no such table.
    """
    wanted = chosen_names(parts, PARTS, "table")
    from tiburon.reproduce.khan_distributed import DISTRIBUTED
    from tiburon.reproduce.khan_methods import METHODS
    from tiburon.reproduce.khan_tables import TABLES

    known = {**TABLES, **METHODS, **DISTRIBUTED}
    return tuple(known[name]() for name in wanted)


def khan_page(tables: Iterable[CellTable]) -> str:
    """Return one HTML page with tables and all figures."""
    from tiburon.reproduce.cell_page import cell_page
    from tiburon.reproduce.khan_figures import figures

    return cell_page(
        "Khan 2002",
        "Distributed dynamics of systems with closed kinematic chains: the planar 3-RRR "
        "manipulator by three formulations, as published, as corrected, and as computed here.",
        tuple(tables),
        figures(),
    )
