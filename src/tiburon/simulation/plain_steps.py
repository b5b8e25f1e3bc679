"""Steps with nothing to look for on the way: rows are written by native code where they stay.

One robot or a batch, as long as nothing happens between two rows but steps: a native loop takes
all steps of a stretch and writes each recorded state straight into the recorder's arrays. Whatever
else a run can have takes the general way of `conduct`, with the same bits.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiburon.native.interpreted import native_code_wanted
from tiburon.native.row_loop import Calls, RowLoop, address_of
from tiburon.simulation.fixed_run import FixedRun
from tiburon.simulation.recent_systems import known_step
from tiburon.simulation.recorder import Room, RowWriter
from tiburon.simulation.run_parameters import bind_parameters
from tiburon.simulation.step_source import NOW

if TYPE_CHECKING:
    from tiburon.simulation.run import Course, Run

__all__ = ["PlainSteps"]

Array = NDArray[np.float64]

DONE = NOW.index("done")

FIRST_SECONDS = 0.002
"""Wall time that the first native call may take, by a guess of its pace [s]."""

MOST_STEPS = 65_536
"""Steps of one native call at most: each has a row in its table of addresses."""

NOBODY = np.arange(0)
ORDINALS = np.arange(MOST_STEPS + 1)


class PlainSteps:
    """Takes the steps of a run natively, row by row into its recorder.

    Attributes:
        again: Number of steps from which on this way may be tried: before, numbers leave their
            range, and the general way finds out whose.
        first_steps: Steps that are likely to take a small part of the time of a native call.
    """

    def __init__(self, run: FixedRun, course: "Course", writer: RowWriter) -> None:
        """Compile the step, or find it compiled."""
        self._run, self._course, self._writer = run, course, writer
        system, model = run.system, run.system.model
        cases = None if course.one else len(run.state)
        kernel, self._rows = bind_parameters(
            known_step(system, run.method), course.parameters, cases
        )
        self._own = kernel.__self__  # type: ignore[attr-defined]
        self._loop: RowLoop = self._own.row_loop()
        widths = {"q": model.nq, "v": model.nv, "x": system.nx}
        self._widths = {key: width for key, width in widths.items() if width}
        # where a stretch starts, and two that steps between rows take turns with
        self._buffers: list[dict[str, Array]] = [{}, {}, {}]
        self._reached: tuple[Array, Mapping[str, Array]] | None = None
        # what all steps read alike, where it lies, and for which commands it does
        self._pointed: dict[str, Array] = {}
        self._line = np.zeros(self._loop.width, dtype=np.int64)
        self._line_for: Array | None = None
        self.again = 0
        self.pending = False
        """Whether the row of the step that was reached is yet to be written."""
        pace = self._loop.guess_seconds(cases)
        self.first_steps = max(1, int(FIRST_SECONDS / pace))

    @classmethod
    def of(cls, run: "Run", course: "Course", writer: RowWriter) -> "PlainSteps | None":
        """Return this way of taking steps, None where a run is not as plain."""
        if not isinstance(run, FixedRun) or run.events is not None:
            return None
        system = run.system
        more = system.held or run.stepper.carried != len(system.commands)
        lone_control = course.one and course.control is not None
        # positions tell where rows lie; a robot without any has inner states only
        if more or lone_control or not system.model.nq or not native_code_wanted():
            return None
        return cls(run, course, writer)

    def advance(self, end: int, *, mark: bool, waiting: bool) -> bool:
        """Take steps and write the rows on the way.

        Args:
            end: Steps, counted from the start of the run, up to which to go at most.
            mark: Whether the row of the present step is yet to be written: it is, in any case.
            waiting: Whether the row at the end must wait, for commands at its time are yet to come.

        Returns:
            Whether any step was taken.
        """
        run, course = self._run, self._course
        done, every = run.done, course.record_every
        if done < self.again or not (run.all_running or 2 * len(run.running) > len(run.state)):
            if mark:
                self.write_here()
            return False
        end = min(end, done + MOST_STEPS)
        # steps whose rows are written: the present one first, if it is yet to be
        marks = np.arange(done if mark else done - done % every + every, end + 1, every)
        if end == course.steps and end % every:
            marks = np.append(marks, end)
        room = self._writer.room(len(marks))
        if mark and room.size == 1 < len(marks):
            self.write_here()
            return self.advance(end, mark=False, waiting=waiting)
        if room.size < len(marks):
            marks = marks[: room.size]
            end = int(marks[-1])
        if mark:
            self._put(room)
        total = end - done
        good = self._take(self._calls(room, marks, total))
        if good < total:
            self.again = done + good + 1
            # what lies between rows is overwritten by blocks of cases that went on
            marks = marks[marks <= done + good]
            end = int(marks[-1]) if len(marks) else done
        if end > done:
            self._arrive(room, marks, end)
        else:
            self._reached = None
        # at the end of a stretch without steps, the present row does not wait any more
        last_waits = waiting and end > done and len(marks) > 0 and int(marks[-1]) == end
        self.pending = last_waits
        self._write(room, marks[: len(marks) - last_waits])
        return end > done

    def write_here(self) -> None:
        """Write the row of the present step."""
        room = self._writer.room(1)
        self._put(room)
        self.pending = False
        self._write(room, np.array([self._run.done]))

    def _put(self, room: Room) -> None:
        """Put the present states into the first row."""
        state, place, dead = self._run.state, 0, self._dead()
        for key, width in self._widths.items():
            row = room.views[key][0]
            row[:] = state[:, place : place + width]
            row[dead] = np.nan
            place += width
        if not len(dead):
            self._reached = state, {key: room.views[key][0] for key in self._widths}

    # one native call

    def _calls(self, room: Room, marks: NDArray[np.intp], total: int) -> Calls:
        """Return the addresses that each step reads and writes.

        Args:
            room: Where recorded states go.
            marks: Which steps are recorded; that where the stretch starts may be among them.
            total: How many steps there are.
        """
        run, course, loop = self._run, self._course, self._loop
        every, skipped = course.record_every, int(len(marks) > 0 and marks[0] == run.done)
        first = {
            key: address_of(room.views[key]) + skipped * room.views[key].strides[0]
            for key in self._widths
        }
        start = {key: address_of(part) for key, part in self._start(first["q"]).items()}
        if run.held is not self._line_for:
            self._point()
        # steps from row to row are alike, if rows follow where the stretch starts
        alike = (len(marks) - skipped) * every == total and all(
            start[key] + room.views[key].strides[0] == first[key] for key in first
        )
        period = every if alike else total
        table = np.empty((period, loop.width), dtype=np.int64)
        table[:] = self._line
        rises = np.zeros((period, loop.width), dtype=np.int64)
        for place, key in enumerate(self._widths):
            out, given = loop.inputs + place, loop.names.index(key)
            stride = room.views[key].strides[0]
            if every > 1:
                table[0::2, out] = address_of(self._buffer(1)[key])
                table[1::2, out] = address_of(self._buffer(2)[key])
            if alike:
                table[-1, out] = first[key]
                rises[-1, out] = rises[0, given] = stride
            else:
                rows = marks[skipped:] - (run.done + 1)
                table[rows, out] = ORDINALS[: len(rows)] * stride + first[key]
            table[0, given] = start[key]
            table[1:, given] = table[:-1, out]
        now, place = np.empty((total, len(NOW))), loop.names.index("now")
        now[:] = (course.begin, course.dt, course.dt, run.done)
        now[:, DONE] += ORDINALS[:total]
        table[:, place] = ORDINALS[:period] * now.strides[0] + address_of(now)
        rises[:, place] = period * now.strides[0]
        # all that is pointed to lives until the call is over
        self._now = now
        return Calls(table, rises, total)

    def _point(self) -> None:
        """Find out where all lies that steps read alike."""
        self._pointed = {**self._numbers(), "u": self._held()}
        for name, values in self._pointed.items():
            self._line[self._loop.names.index(name)] = address_of(values)
        # with cases that have ended it is made for one stretch
        self._line_for = self._run.held if self._run.all_running else None

    def _take(self, calls: Calls) -> int:
        """Run the native loop; return how many steps went well for all cases."""
        if self._course.one:
            return self._loop.run_one(calls)
        widths = {
            name: values.shape[-1] for name, values in self._pointed.items() if values.ndim > 1
        }
        widths |= self._widths
        strides = [widths.get(name, 0) for name in self._loop.names]
        table_of_strides = np.array(strides, dtype=np.int64)
        run = self._run
        return self._loop.run_many(calls, table_of_strides, len(run.state), run.threads)

    def _start(self, first: int) -> Mapping[str, Array]:
        """Return where the cases are, an array for each part of the state.

        Args:
            first: Address to which the first row of positions will be written.
        """
        run = self._run
        if self._reached is not None and self._reached[0] is run.state:
            start = self._reached[1]
            # where a store has one row a chunk, the next row takes the place of the last
            if first != address_of(start["q"]):
                return start
        state, dead = run.state, self._dead()
        if len(dead):
            # ended cases take the steps of one that goes on, and nobody looks at them
            state = state.copy()
            state[dead] = state[run.running[0]]
        start, place = self._buffer(0), 0
        for key, width in self._widths.items():
            start[key][:] = state[:, place : place + width]
            place += width
        return start

    def _held(self) -> Array:
        """Return what is held: one row for all cases, or one for each."""
        run = self._run
        held, dead = run.held, self._dead()
        if len(dead):
            held = held.copy()
            held[dead] = held[run.running[0]]
        if len(held) == 1 or (held == held[0]).all():
            return np.ascontiguousarray(held[0])
        return np.ascontiguousarray(held)

    def _numbers(self) -> dict[str, Array]:
        """Return the run-time numbers by name."""
        dead = self._dead()
        found: dict[str, Array] = dict(self._own.parameters)
        for name, rows in self._rows.items():
            found[name] = rows
            if len(dead):
                found[name] = rows.copy()
                found[name][dead] = rows[self._run.running[0]]
        return found

    def _dead(self) -> NDArray[np.intp]:
        """Return the numbers of the cases that have ended."""
        run = self._run
        return NOBODY if run.all_running else np.setdiff1d(np.arange(len(run.state)), run.running)

    # after it

    def _arrive(self, room: Room, marks: NDArray[np.intp], end: int) -> None:
        """Put the run where the native loop has taken it."""
        run = self._run
        dead = self._dead()
        if len(marks) and int(marks[-1]) == end:
            reached = {key: room.views[key][len(marks) - 1] for key in self._widths}
        else:
            # the last step went into one of the two: it is where the next stretch starts
            place = 1 + (end - run.done - 1) % 2
            self._buffers[0], self._buffers[place] = self._buffers[place], self._buffers[0]
            reached = self._buffers[0]
        state = np.concatenate([reached[key] for key in self._widths], axis=-1)
        if len(dead):
            state[dead] = run.state[dead]
            for key in self._widths:
                room.views[key][: len(marks), dead] = np.nan
        run.state, run.done = state, end
        self._reached = None if len(dead) else (state, reached)

    def _write(self, room: Room, marks: NDArray[np.intp]) -> None:
        """Tell the recorder of rows that are there."""
        if len(marks):
            course = self._course
            sensed = None
            if course.sensing is not None:
                sensed = course.sensing.row.reshape(len(self._run.state), -1)
            times: Array = course.begin + marks.astype(np.float64) * course.dt
            self._writer.wrote(room, times, self._run.held, sensed, whole=not self.pending)

    def _buffer(self, number: int) -> dict[str, Array]:
        """Return one of the three buffers, made when first needed."""
        found = self._buffers[number]
        if not found:
            cases = len(self._run.state)
            found.update({key: np.empty((cases, width)) for key, width in self._widths.items()})
        return found
