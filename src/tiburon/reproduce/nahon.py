"""Nahon 1991, "Optimization of Force Distribution in Redundantly-Actuated Robotic Systems".

Every table and worked example whose data survive: tables 5.1, 6.1 to 6.7 and 7.1, examples E1 to
E16, and three studies of what the source leaves to later work, S1 to S3. References are of three
kinds: printed in the source; derived, where it prints only a curve; and surrogate, where a figure
with data is lost and data of ours stand for it. Times are ratios within one run, beside those of
the source, and are not judged.
"""

from collections.abc import Iterable
from typing import Any

from tiburon.reproduce.cells import CellTable, chosen_names

EXAMPLES = (*(f"E{k}" for k in range(1, 17)), "S1", "S2", "S3")
"""Names of the examples, and of studies beyond the source."""


def nahon_tables(examples: Iterable[str] = ()) -> tuple[CellTable, ...]:
    """Return the tables of some examples in order; of all by default.

    Args:
        examples: Such as "E9".

    Raises:
        UnknownNameError: If there is no such example.
    """
    wanted = chosen_names((name.upper() for name in examples), EXAMPLES, "example")
    from tiburon.reproduce.nahon_solvers import SOLVERS
    from tiburon.reproduce.nahon_structure import STRUCTURE
    from tiburon.reproduce.nahon_studies import STUDIES
    from tiburon.reproduce.nahon_tasks import TASKS

    known: dict[str, Any] = {**STRUCTURE, **SOLVERS, **TASKS, **STUDIES}
    makers = (known[name] if isinstance(known[name], tuple) else (known[name],) for name in wanted)
    return tuple(make() for each in makers for make in each)
