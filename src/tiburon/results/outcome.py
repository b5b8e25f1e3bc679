"""How runs end: what happened, when, where, and the last good state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tiburon.record import record

__all__ = ["RUNNING", "STATUSES", "WELL", "CommonEnd", "Outcome", "Outcomes", "statuses_of"]

Array = NDArray[np.float64]

STATUSES = ("finished", "event", "diverged", "interrupted", "budget", "zeno", "killed")
"""All there are: reached the end; ended by a terminal event; diverged; stopped by the user; out of
wall time; stopped by events that happen without end (Zeno behavior); its process ended without
finishing it, which only a loaded run can have."""

RUNNING = "running"
"""Status of a loaded run that another process still records."""

WELL = ("finished", "event")
"""Those with which a run got as far as was asked."""


@record(eq=False)
class Outcome:
    """How the run of one case ended."""

    status: str
    """One of `STATUSES`."""

    time: float
    """Time of the last good state [s]."""

    message: str
    """The same in a sentence."""

    q: Array
    """Position in the last good state [m or rad], shape (nq,)."""

    v: Array
    """Joint velocity in the last good state [m/s or rad/s], shape (nv,)."""

    x: Array
    """Inner states in the last good state, shape (nx,)."""

    event: str | None = None
    """Name of the event that ended it, or that happens without end."""

    body: str | None = None
    """Body whose motion diverged first; None for inner states, and where nothing diverged."""

    quantity: str | None = None
    """What diverged first: a position, velocity or inner state by name."""

    @property
    def ok(self) -> bool:
        """Whether the run got as far as was asked: to its end, or to an event."""
        return self.status in WELL

    @property
    def state(self) -> dict[str, Any]:
        """The last good state by name: time [s], q, v, x."""
        return {"time": self.time, "q": self.q, "v": self.v, "x": self.x}

    def __str__(self) -> str:
        return self.message


class CommonEnd(NamedTuple):
    """How all cases ended that nothing else is known of: together, at one time."""

    status: str
    time: float
    message: str

    states: Array
    """(*q, *v, *x) of all cases, shape (cases, numbers)."""

    ends: tuple[int, int]
    """Where q and v end in a state."""


class Outcomes(Sequence[Outcome]):
    """The outcomes of all cases; most of a batch ended together and are made when looked at."""

    def __init__(self, count: int, known: Mapping[int, Outcome], others: CommonEnd | None) -> None:
        """Put outcomes together.

        Args:
            count: Number of cases.
            known: Outcomes by case.
            others: How all other cases ended; None where there is no other.
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
        # counts from the end where it is negative, and refuses what is out of range
        case = range(self._count)[case]
        found = self._known.get(case)
        if found is None:
            assert self._others is not None
            status, time, message, states, (q, v) = self._others
            row = states[case].copy()
            found = Outcome(status, time, message, row[:q], row[q:v], row[v:])
            self._known[case] = found
        return found

    def add(self, case: int, words: str) -> None:
        """Add words to the message of a case."""
        found = self[case]
        self._known[case] = replace(found, message=found.message + words)

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def statuses(self) -> list[str]:
        """The status of each case."""
        words = [] if self._others is None else [self._others.status] * self._count
        words = words or [""] * self._count
        for case, outcome in self._known.items():
            words[case] = outcome.status
        return words


def statuses_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the status of each case."""
    if isinstance(outcomes, Outcomes):
        return outcomes.statuses
    return [outcome.status for outcome in outcomes]
