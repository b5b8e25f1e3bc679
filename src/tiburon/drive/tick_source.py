"""The kernel of a tick: fixed steps in one native call."""

import hashlib
from typing import Any, NamedTuple

from tiburon.algorithms.tape_calls import scalars
from tiburon.record import record
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.step import MOST_STEPS, Stepping
from tiburon.simulation.system import ELEMENTS, System
from tiburon.spatial import Scalar
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import while_loop

__all__ = ["TickClock", "TickSource"]


class TickClock(NamedTuple):
    """The argument `clock` of a tick."""

    begin: Scalar
    """Simulated time at the start [s]."""

    dt: Scalar
    """Step [s]."""

    done: Scalar
    """Steps taken before."""

    count: Scalar
    """Steps per tick."""


@record(slots=False, eq=False)
class TickSource:
    """Source of the kernel of a tick: ``kernel(state, u, clock)`` returns the state after it."""

    system: System
    method: str

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_tick"

    @property
    def key(self) -> str:
        """Text that is equal if and only if the code is."""
        text = repr(("tick 1", self.method, self.system.key))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code again."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return the arguments of the kernel."""
        system, model = self.system, self.system.model
        return [
            Input("state", (model.nq + model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("clock", (len(TickClock._fields),)),
        ]

    def program(self) -> Program:
        """Trace the steps."""
        system, nq = self.system, self.system.model.nq

        def run(given: Any) -> Any:
            state, u = tuple(scalars(given["state"])), tuple(scalars(given["u"]))
            clock = TickClock(*scalars(given["clock"]))
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            step = Stepping(system, METHODS[self.method], p).step

            def following(now: Any) -> Any:
                taken, q, w = now
                time = clock.begin + (clock.done + taken) * clock.dt
                q, w, _ = step(q, w, (), u, clock.dt, time)
                return taken + 1.0, q, w

            start = (0.0, state[:nq], state[nq:])
            _, q, w = while_loop(lambda now: now[0] < clock.count, following, start, MOST_STEPS)[0]
            return [*q, *w]

        return system.trace(run, self.inputs(), self.name)
