"""Outcomes of runs (status, time, last valid state) and records of events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, overload

import numpy as np

from tiburon.arrays import Array
from tiburon.notebook import notebook_table
from tiburon.record import record

STATUSES = ("finished", "event", "diverged", "interrupted", "budget", "zeno", "killed", "lost")
"""Statuses of runs: reached the planned end; ended by a terminal event; diverged; stopped by the
user; exceeded its wall-clock budget; stopped by infinitely many events in finite time (Zeno
behavior); its process ended without finishing it, which only a loaded run can have; a process that
computed parts of the robot did not answer."""

RUNNING = "running"
"""Status of a loaded run that another process still records."""

SUCCESSFUL = ("finished", "event")
"""Statuses of runs that reached their planned end or a terminal event."""


@record(eq=False)
class EventRecord:
    """One occurrence of an event."""

    name: str
    """Name of the event."""

    time: float
    """Time of the event [s]."""

    case: int
    """Case of a batch, counted in C order; 0 for one robot."""

    q: Array
    """Configuration at the event [m or rad], shape (nq,), before any action."""

    v: Array
    """Joint velocity at the event [m/s or rad/s], shape (nv,), before any action."""

    x: Array
    """Internal states at the event, shape (nx,), before any action."""


@record(eq=False)
class Outcome:
    """How the run of one case ended."""

    status: str
    """One of `STATUSES`."""

    time: float
    """Time of the last valid state [s]."""

    message: str
    """The outcome as a sentence."""

    q: Array
    """Configuration in the last valid state [m or rad], shape (nq,)."""

    v: Array
    """Joint velocity in the last valid state [m/s or rad/s], shape (nv,)."""

    x: Array
    """Internal states in the last valid state, shape (nx,)."""

    event: str | None = None
    """Name of the event that ended the run, or that recurs infinitely often."""

    body: str | None = None
    """Body whose motion diverged first; None for internal states, and where nothing diverged."""

    quantity: str | None = None
    """Name of the coordinate, velocity or internal state that diverged first."""

    note: str = ""
    """What a run reports beside its end, such as a penetration; a part of `message`."""

    @property
    def ok(self) -> bool:
        """Whether the run reached its planned end or a terminal event."""
        return self.status in SUCCESSFUL

    @property
    def state(self) -> dict[str, Any]:
        """The last valid state by name: time [s], q, v, x."""
        return {"time": self.time, "q": self.q, "v": self.v, "x": self.x}

    def __str__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        """Return a table of the outcome, for notebooks."""
        rows = [("status", self.status), ("time [s]", f"{self.time:.6g}")]
        named = (("event", self.event), ("body", self.body), ("quantity", self.quantity))
        rows += [(name, text) for name, text in named if text is not None]
        return notebook_table("Outcome", rows, note=self.message)


class SharedOutcome(NamedTuple):
    """Outcome of all cases of a batch that ended together, at one time."""

    status: str
    time: float
    message: str

    states: Array
    """(*q, *v, *x) of all cases, shape (cases, nq + nv + nx)."""

    ends: tuple[int, int]
    """Indices at which q and v end in a state."""


class Outcomes(Sequence[Outcome]):
    """Outcomes of all cases; those of cases that ended together are built when accessed."""

    def __init__(
        self, count: int, known: Mapping[int, Outcome], others: SharedOutcome | None
    ) -> None:
        """Combine outcomes.

        Args:
            count: Number of cases.
            known: Outcomes by case.
            others: Outcome of all other cases; None where there are none.
        """
        self._count, self._known, self._others = count, dict(known), others

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, case: int) -> Outcome: ...

    @overload
    def __getitem__(self, case: slice) -> tuple[Outcome, ...]: ...

    def __getitem__(self, case: int | slice) -> Outcome | tuple[Outcome, ...]:
        if isinstance(case, slice):
            return tuple(self[k] for k in range(self._count)[case])
        # normalizes negative indices, and raises IndexError out of range
        case = range(self._count)[case]
        found = self._known.get(case)
        if found is None:
            assert self._others is not None
            status, time, message, states, (q, v) = self._others
            row = states[case].copy()
            found = Outcome(status, time, message, row[:q], row[q:v], row[v:])
            self._known[case] = found
        return found

    def add(self, case: int, text: str) -> None:
        """Append text to the message of a case."""
        found = self[case]
        self._known[case] = replace(found, message=found.message + text, note=found.note + text)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _repr_html_(self) -> str:
        """Return how many cases ended how, with the first of each kind, for notebooks."""
        statuses, times = self.statuses, self.times
        first = {status: case for case, status in reversed(list(enumerate(statuses)))}
        rows = (
            (status, statuses.count(status), case, f"{times[case]:.6g}", self[case].message)
            for status, case in sorted(first.items())
        )
        head = ("status", "cases", "first case", "its time [s]", "message")
        return notebook_table(f"Outcomes of {len(self)} cases", rows, head)

    @property
    def statuses(self) -> list[str]:
        """Status of each case."""
        found = ["" if self._others is None else self._others.status] * self._count
        for case, outcome in self._known.items():
            found[case] = outcome.status
        return found

    @property
    def times(self) -> Array:
        """Time of the last valid state of each case [s], shape (cases,)."""
        found = np.full(self._count, 0.0 if self._others is None else self._others.time)
        for case, outcome in self._known.items():
            found[case] = outcome.time
        return found


def statuses_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the status of each case."""
    if isinstance(outcomes, Outcomes):
        return outcomes.statuses
    return [outcome.status for outcome in outcomes]


def notes_of(outcomes: Iterable[Outcome]) -> dict[int, str]:
    """Return what cases report beside their end, by case."""
    found = outcomes._known.items() if isinstance(outcomes, Outcomes) else enumerate(outcomes)
    return {case: outcome.note for case, outcome in found if outcome.note}
