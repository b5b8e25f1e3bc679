"""Rows on their way from a run to its recorder: gathered, completed and named."""

import time as wall
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.tape_calls import scalars
from tiburon.results.run_header import Checkpoint
from tiburon.simulation.recorder import Recorder, Room
from tiburon.simulation.stepper import bind_parameters
from tiburon.simulation.system import System
from tiburon.trace.program import Input

__all__ = ["SENSED", "RowWriter"]

Array = NDArray[np.float64]

SENSED = "sensed"
"""Key of the column that holds what sensors say."""

GATHERED_BYTES = 1_000_000
"""Rows are handed on in portions of about this size."""

MOST_GATHERED = 512

HAND_ON_SECONDS = 1.0
"""Wall time after which rows are handed on though they are few."""


class RowWriter:
    """Gathers rows and hands them to a recorder in portions."""

    def __init__(
        self,
        recorder: Recorder,
        system: System,
        cases: int,
        carried: int,
        channels: int,
        parameters: Mapping[str, Any],
        checkpoint: Callable[[], Checkpoint],
    ) -> None:
        """Make room for a portion.

        Args:
            recorder: Where rows go.
            system: What moves.
            cases: Number of cases; 1 for one robot.
            carried: Numbers that a run carries beside its state.
            channels: Numbers that sensors say.
            parameters: Run-time numbers that replace those of model, world and elements.
            checkpoint: Gives all it takes to go on after the rows written so far.
        """
        self._recorder, self._system = recorder, system
        self._checkpoint = checkpoint
        self._batch = recorder.header.batch
        model = system.model
        self._ends = list(accumulate([model.nq, model.nv, system.nx]))
        row = self._ends[-1] + carried + channels
        size = max(1, min(MOST_GATHERED, GATHERED_BYTES // (8 * row * cases)))
        self._time = np.empty(size)
        self._state = np.empty((size, cases, self._ends[-1]))
        self._held = np.empty((size, cases, carried))
        self._sensed = np.empty((size, cases, channels))
        self._used = 0
        self.last_time = np.nan
        """Time of the last row that was written [s]."""
        self._handed = wall.perf_counter()
        # what is held and the commands among it, as long as they are the same
        self._lasting: tuple[Array | None, Array] = (None, np.empty((cases, 0)))
        self._observe: Any = None
        self._rows: dict[str, Array] = {}
        if system.control is not None and not system.held:
            self._observe, self._rows = _observing(system, parameters, cases)

    def write(self, time: float, state: Array, held: Array, sensed: Array | None = None) -> None:
        """Take one row.

        Args:
            time: When [s].
            state: (*q, *v, *x), shape (cases, numbers).
            held: What is carried from then on, shape (cases, numbers).
            sensed: What sensors said last, shape (cases, channels); None where there is no sensor.
        """
        place = self._used
        self._time[place] = self.last_time = time
        if len(self._time) == 1:
            # a large batch: its rows are handed on as they are
            self._state, self._held = state[None], held[None]
        else:
            self._state[place] = state
            self._held[place] = held
        if sensed is not None:
            self._sensed[place] = sensed
        self._used = place + 1
        if self._used == len(self._time):
            # the run may be ahead of its rows here: a checkpoint would skip those to come
            self._hand_over(None)

    def write_many(
        self, times: Array, states: Array, held: Array, sensed: Array | None = None
    ) -> None:
        """Take several rows.

        Args:
            times: When [s], shape (rows,).
            states: (*q, *v, *x), shape (rows, cases, numbers).
            held: What is carried from then on, shape (rows, cases, numbers).
            sensed: What sensors say all the while, shape (cases, channels).
        """
        start, count = 0, len(times)
        while start < count:
            place = self._used
            size = min(len(self._time) - place, count - start)
            here, there = slice(place, place + size), slice(start, start + size)
            self._time[here], self._state[here] = times[there], states[there]
            self._held[here] = held[there]
            if sensed is not None:
                self._sensed[here] = sensed
            self._used += size
            start += size
            if self._used == len(self._time):
                self._hand_over(None)
        self.last_time = float(times[-1])

    def hand_on(self) -> None:
        """Hand on what is there if that is much, or was long ago.

        To be called where all rows before the present step are written: the run may be gone on
        with from there.
        """
        long_ago = wall.perf_counter() - self._handed > HAND_ON_SECONDS
        if self._used > len(self._time) // 2 or (self._used and long_ago):
            self.flush()

    def room(self, count: int) -> Room:
        """Return where the next rows go that native code writes itself.

        Args:
            count: How many at most.

        Returns:
            Room for some of them, with the cases as one dimension. Rows that were gathered are
            handed on before: those to come follow them.
        """
        if self._used:
            self.flush()
        found = self._recorder.room(count)
        cases = self._held.shape[1]
        views = {
            key: view.reshape(found.size, cases, view.shape[-1])
            for key, view in found.views.items()
        }
        return Room(found.size, views)

    def wrote(
        self, room: Room, times: Array, held: Array, sensed: Array | None = None, *, whole: bool
    ) -> None:
        """Take rows whose states are in their room already.

        Args:
            room: Where they are, the first rows of it.
            times: When [s], shape (rows,).
            held: What is held all the while, shape (cases, numbers).
            sensed: What sensors say all the while, shape (cases, channels).
            whole: Whether these are all rows up to the present step.
        """
        steady: dict[str, Array] = {}
        if self._observe is not None:
            parts = [room.views[key][: len(times)] for key in ("q", "v", "x") if key in room.views]
            state, u = np.concatenate(parts, axis=-1), held[:, : self._system.drive_size]
            found, _ = self._observe(state, u, times[:, None], errors="flag", **self._rows)
            room.views["u"][: len(times)] = found
        else:
            if self._lasting[0] is not held:
                # whoever changes what is held makes it anew
                self._lasting = held, held[:, : len(self._system.command_names)]
            steady["u"] = self._lasting[1]
        if sensed is not None:
            steady[SENSED] = sensed.copy()
        self.last_time = float(times[-1])
        self._recorder.took(times, steady, self._checkpoint if whole else None)

    def flush(self) -> None:
        """Hand on what is there."""
        self._hand_over(self._checkpoint)
        self._handed = wall.perf_counter()

    def _hand_over(self, checkpoint: Callable[[], Checkpoint] | None) -> None:
        count, self._used = self._used, 0
        if not count:
            return
        q, v, x = self._ends
        state, time = self._state[:count], self._time[:count]
        u = self._held[:count, :, : len(self._system.command_names)]
        if self._observe is not None:
            held = np.ascontiguousarray(self._held[:count, :, : self._system.drive_size])
            u, _ = self._observe(state, held, time[:, None], errors="flag", **self._rows)
        named = {"q": state[..., :q], "v": state[..., q:v], "x": state[..., v:x], "u": u}
        named[SENSED] = self._sensed[:count]
        wanted = {column.key for column in self._recorder.header.columns}
        columns = {
            key: array.reshape(count, *self._batch, array.shape[-1])
            for key, array in named.items()
            if key in wanted
        }
        self._recorder.append(time, columns, checkpoint)


def _observing(system: System, parameters: Mapping[str, Any], cases: int) -> Any:
    """Return a kernel that gives the commands of a traced controller for (state, held, time)."""
    from tiburon.native.kernel import ProgramSource, make_kernel

    nq = system.model.nq

    def run(given: Any) -> Any:
        state, u = scalars(given["state"]), scalars(given["u"])
        return list(system.commands_at(state[:nq], state[nq:], u, given["time"]))

    inputs = [
        Input("state", (nq + system.model.nv + system.nx,)),
        Input("u", (system.drive_size,)),
        Input("time", ()),
    ]
    program = system.trace(run, inputs, "commands")
    kernel = make_kernel(ProgramSource(program), system.parameters())
    return bind_parameters(kernel, parameters, cases)
