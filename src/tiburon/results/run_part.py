"""A part of a run: some of its times, some of its cases."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.errors import DomainError
from tiburon.results.run_header import RunHeader
from tiburon.results.run_rows import MemoryRows

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

__all__ = ["part_of"]


def part_of(run: "Trajectory", start: float | None, stop: float | None, case: Any) -> "Trajectory":
    """Return some times and cases of a run, in memory; `Trajectory.part` tells the arguments."""
    from tiburon.results.trajectory import Trajectory

    time = run.rows.read("time", 0, len(run))
    first = 0 if start is None else int(np.searchsorted(time, start, side="left"))
    last = len(time) if stop is None else int(np.searchsorted(time, stop, side="right"))
    if case is not None and not run.batch:
        raise DomainError("case", "None for a run of one robot", repr(case))
    header, outcomes = run.header, run.outcomes
    if case is not None:
        places = np.arange(int(np.prod(run.batch))).reshape(run.batch)
        try:
            places = places[case]
        except IndexError:
            raise DomainError("case", f"indices below {run.batch[0]}", repr(case)) from None
        header = RunHeader(
            header.model,
            header.world,
            places.shape,
            header.columns,
            header.setup,
            header.elements,
            {name: table[case] for name, table in header.case_parameters.items()},
            header.missing,
        )
        if outcomes:
            outcomes = tuple(outcomes[k] for k in np.ravel(places))
    arrays = {"time": time[first:last]}
    for column in header.columns:
        values = run.rows.read(column.key, first, last)
        arrays[column.key] = values if case is None else np.ascontiguousarray(values[:, case])
    begin, end = (time[first], time[last - 1]) if last > first else (0.0, -1.0)
    numbers = None if case is None else set(np.ravel(places).tolist())
    events = [
        event
        for event in run.events
        if begin <= event.time <= end and (numbers is None or event.case in numbers)
    ]
    return Trajectory(header, MemoryRows(arrays), outcomes, events)
