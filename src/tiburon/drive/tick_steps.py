"""Steps of one robot in memory of its own: what ticks and forecasts are made of.

They are the steps of runs, by the same kernel in the same native loop. Parameters, commands and
state stand one after the other in one array, which the tick loop reads and writes.
"""

from typing import Any

import numpy as np

from tiburon.arrays import Array
from tiburon.simulation.step import Clock, StepSource
from tiburon.simulation.step_plan import DONE, BoundStep, StepTable
from tiburon.simulation.system import System

MANY_STEPS = 10**9
"""Steps of which ticks take optimized code from the first on."""


class TickSteps(StepTable):
    """Steps of one robot, one after the other.

    Attributes:
        values: Parameters, commands, then the state.
        numbers: Parameters and commands, a view.
        commands: Commands, a view.
        parts: Parameters by name, views of their shapes.
        state: (*z, *q, *v, *x), with discrete states of elements, then the steps taken since the
            start; a view.
        begin: What the first step of a call begins with: (*u, *q, *v, *x) where steps pass held
            values on, else (*q, *v, *x); a view.
        work: Where it reads a copy of that.
    """

    clocks: Array

    def __init__(self, system: System, method: str, begin: float, dt: float, most: int) -> None:
        """Compile the step, or load it from the cache.

        Args:
            system: The robot; its controller is evaluated at every stage.
            method: Name of the integrator.
            begin: Time at the start [s].
            dt: Length of a step [s].
            most: Steps of a call at most.
        """
        self.step = step = BoundStep(StepSource(system, method), {}, None, MANY_STEPS)
        clocks = np.tile(Clock(begin, dt, dt, 0.0)[: step.widths["clock"]], (most, 1))
        first = ("u",) if "u" in step.chained else ()
        order = {name: step.chained[name] for name in (*first, *step.chained)}
        super().__init__(order, None, clocks, 2)
        known = step.kernel.parameters
        count, size = sum(values.size for values in known.values()), system.drive_size
        asked = system.discrete.start
        state = system.model.nq + system.model.nv + system.nx
        self.values = np.zeros(count + size + state + 1)
        self.numbers = self.values[: count + asked]
        self.commands = self.numbers[count:]
        self.state = self.values[count + asked :]
        self.begin = self.values[count + (0 if first else size) : -1]
        self.parts: dict[str, Any] = {}
        place = 0
        for name, values in known.items():
            part, place = self.values[place:][: values.size], place + values.size
            part[:] = values.reshape(-1)
            self.parts[name] = part.reshape(values.shape)
        self._skipped, self.work = asked if first else 0, self._flat(1)
        # what the last of two steps writes is what the first reads
        shared = {**self.parts, **({} if first or not size else {"u": self.values[count:][:size]})}
        self.listed(step)
        table = self.link(step, self.buffers[1], self.buffers[1], shared)
        self.job = step.loop.job(table, MANY_STEPS, batch=False)

    def _flat(self, turn: int) -> Array:
        """Return a whole buffer."""
        size = len(self.begin)
        return self._memory[turn * size :][:size]

    def after(self, count: int) -> Array:
        """Return where the state is after some steps, without their number: a view of a buffer."""
        return self._flat((count - 1) % 2)[self._skipped :]

    def advance(self, count: int) -> bool:
        """Take some steps; return False if a value is not finite: the state is as before then."""
        self.clocks[:count, DONE] = self.state[-1] + np.arange(count)
        self.work[:] = self.begin
        if self.step.loop.run_one(self.job, 0, count) < count:
            return False
        self.state[:-1] = self.after(count)
        self.state[-1] += count
        return True
