"""Recorders of runs: rows in memory, or in a store on disk during the run."""

import time as wall
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.arrays import Array, NDArray
from tiburon.errors import RunFileError, ShapeError
from tiburon.native.result_memory import allocate_results
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import RunHeader
from tiburon.results.quantities import check_names
from tiburon.results.rows import ConstantRows, MemoryRows, Rows
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.recorded_run import RecordedSystem
from tiburon.simulation.run_parameters import bind_parameters
from tiburon.simulation.step import command_kernel
from tiburon.simulation.system import System

if TYPE_CHECKING:
    from tiburon.results.store import RunStore

FLUSH_SECONDS = 5.0
"""Wall-clock time after which a chunk that is not full is written to disk [s]."""

FIRST_BLOCK = 1024
"""Rows of the first block where their number is not known; each next one grows by half."""


class Room(NamedTuple):
    """Memory for rows that the run writes itself."""

    size: int
    """How many fit."""

    views: Mapping[str, Array]
    """By key, shape (size, *batch, *width)."""


class Recorder:
    """Collects the rows of a run and returns them as a `Trajectory`.

    In memory, rows are in arrays of their final size if their number is known; else in blocks that
    are joined at the end, one column after the other. With a store, only one chunk of rows is in
    memory; it is written together with a checkpoint, so that a killed run can be read, and resumed
    to the same bits.
    """

    def __init__(
        self,
        header: RunHeader,
        *,
        rows: int | None = None,
        store: str | Path | None = None,
        start: Checkpoint | None = None,
    ) -> None:
        """Prepare for rows.

        Args:
            header: Header of the run.
            rows: Number of rows if known; fewer may follow.
            store: Path of a Zarr directory to write to; None keeps rows in memory.
            start: Initial checkpoint, for stores that end before their first rows are on disk.
        """
        wanted = header.setup.get("record")
        if wanted:
            outputs = [n for element in header.elements for n in element.output_names(header.model)]
            check_names(
                wanted, [*(column.name for column in header.columns), *outputs], header.elements
            )
        self.header = header
        self.count = 0
        """Rows taken so far."""
        self._sink: _Memory | _Stream
        if store is None:
            self._sink = _Memory(header, rows)
        else:
            from tiburon.results.store import RunStore

            self._sink = _Stream(header, RunStore.create(store, header, rows, start))

    @classmethod
    def continued(
        cls, run: Trajectory, header: RunHeader, keep: int, rows: int | None, checkpoint: Checkpoint
    ) -> "Recorder":
        """Return a recorder that continues after the first `keep` rows of an earlier run."""
        if keep > len(run):
            raise ShapeError("rows to keep", f"at most {len(run)}", keep)
        found = cls.__new__(cls)
        found.header = header
        found.count = keep
        if run.store is None:
            found._sink = _Memory(header, rows)
            columns = {column.key: run.rows.read(column.key, 0, keep) for column in header.columns}
            found._copy(run.rows.read("time", 0, keep), columns, None)
        else:
            run.store.reopen(header, rows, keep, checkpoint)
            found._sink = _Stream(header, run.store, keep)
        return found

    def append(
        self, time: Array, columns: Mapping[str, Array], checkpoint: Callable[[], Checkpoint] | None
    ) -> None:
        """Append rows.

        Args:
            time: Times [s], shape (n,).
            columns: Values by key, shape (n, *batch, *width).
            checkpoint: Returns the checkpoint after the last of these rows; called when rows are
                written to disk. None if more rows belong to the present state.

        Raises:
            ShapeError: If a column is missing or has another shape.
            RunFileError: If the disk is full; rows written before stay readable.
        """
        for column in self.header.columns:
            expected = (len(time), *self.header.shape(column))
            given = np.shape(columns.get(column.key, ()))
            if given != expected:
                raise ShapeError(f"recorded {column.name}", expected, given)
        self._copy(time, columns, checkpoint)
        self.count += len(time)

    def _copy(
        self, time: Array, columns: Mapping[str, Array], checkpoint: Callable[[], Checkpoint] | None
    ) -> None:
        """Copy rows, with the checkpoint after the last of them."""
        done, count = 0, len(time)
        while done < count:
            room = self._sink.room(count - done)
            here = slice(done, done + room.size)
            for key, view in room.views.items():
                view[...] = columns[key][here]
            done += room.size
            self._sink.took(time[here], {}, checkpoint if done == count else None)

    def pick(self, key: str, rows: NDArray[np.intp]) -> Array:
        """Return recorded rows of a column by their numbers, shape (n, *batch, *width)."""
        return np.stack([self._sink.row(key, int(row)) for row in rows])

    def room(self, count: int) -> Room:
        """Return memory for up to `count` rows, at least one; call `took` after writing."""
        return self._sink.room(count)

    def took(
        self, time: Array, steady: Mapping[str, Array], checkpoint: Callable[[], Checkpoint] | None
    ) -> None:
        """Append rows that were written into memory from `room`.

        Args:
            time: Times [s], shape (n,).
            steady: Columns that are equal in all of these rows, by key, shape (cases, *width);
                kept, not copied.
            checkpoint: As in `append`.
        """
        self._sink.took(time, steady, checkpoint)
        self.count += len(time)

    def finish(
        self, outcomes: Sequence[Any], events: Sequence[Any], checkpoint: Checkpoint
    ) -> Trajectory:
        """Write the remaining rows, and return the run with its outcomes, events and checkpoint."""
        rows = self._sink.finish(outcomes, events, checkpoint)
        store = self._sink.store if isinstance(self._sink, _Stream) else None
        system = RecordedSystem(self.header, "run" if store is None else store.path)
        return Trajectory(self.header, rows, outcomes, events, checkpoint, store, system)

    def release(self) -> None:
        """Let others record into the store, if there is one: the run ended in an error."""
        if isinstance(self._sink, _Stream):
            self._sink.store.release()


class _Memory:
    """Rows in memory."""

    def __init__(self, header: RunHeader, rows: int | None) -> None:
        self._shapes = {"time": (), **{c.key: header.shape(c) for c in header.columns}}
        first = self._block(FIRST_BLOCK) if rows is None else self._block(rows, allocate_results)
        self._blocks = [first]
        # of the last block only; those before it are full
        self._used = 0
        self._steady: list[ConstantRows] = []

    def _block(
        self, rows: int, allocate: Callable[[tuple[int, ...]], Array] = np.empty
    ) -> dict[str, Array]:
        """Return memory for rows; blocks that are joined later would only fill the pool."""
        return {key: allocate((rows, *shape)) for key, shape in self._shapes.items()}

    def room(self, count: int) -> Room:
        block = self._blocks[-1]
        if count and self._used == len(block["time"]):
            block = self._block(max(len(block["time"]) * 3 // 2, count))
            self._blocks.append(block)
            self._used = 0
        here = slice(self._used, min(self._used + count, len(block["time"])))
        views = {key: array[here] for key, array in block.items() if key != "time"}
        return Room(len(block["time"][here]), views)

    def took(self, time: Array, steady: Mapping[str, Array], checkpoint: object) -> None:
        start, self._used = self._used, self._used + len(time)
        block = self._blocks[-1]
        block["time"][start : self._used] = time
        for key, row in steady.items():
            last = self._steady[-1] if self._steady else None
            same = last is not None and last.row is row and last.array is block[key]
            if last is not None and same and last.stop == start:
                last.stop = self._used
            else:
                self._steady.append(ConstantRows(key, block[key], start, self._used, row))

    def row(self, key: str, row: int) -> Array:
        for block in self._blocks[:-1]:
            if row < len(block[key]):
                return np.asarray(block[key][row])
            row -= len(block[key])
        return np.asarray(self._blocks[-1][key][row])

    def finish(self, outcomes: object, events: object, checkpoint: object) -> Rows:
        if len(self._blocks) > 1:
            for steady in self._steady:
                steady.fill()
            self._steady = []
        arrays = {}
        for key in self._shapes:
            # one column after the other, and its blocks go before the next is joined
            parts = [block.pop(key) for block in self._blocks]
            parts[-1] = parts[-1][: self._used]
            arrays[key] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            del parts
        return MemoryRows(arrays, self._steady)


class _Stream:
    """Rows that go to disk chunk by chunk."""

    def __init__(self, header: RunHeader, store: "RunStore", keep: int = 0) -> None:
        self.store = store
        self._size = store.chunk_rows
        self._buffer = {
            "time": np.empty(self._size),
            **{c.key: np.empty((self._size, *header.shape(c))) for c in header.columns},
        }
        # the buffer holds the chunk that begins at this row
        self._start = keep - keep % self._size
        self._used = keep - self._start
        with self._released_on_error():
            for key, array in self._buffer.items():
                array[: self._used] = store.read(key, self._start, keep)
        self._flushed = wall.perf_counter()
        self._due = False
        # whether the buffer holds what the disk does not
        self._changed = False

    def room(self, count: int) -> Room:
        if count and self._used == self._size:
            self._write()
            self._start += self._size
            self._used = 0
        here = slice(self._used, min(self._used + count, self._size))
        views = {key: array[here] for key, array in self._buffer.items() if key != "time"}
        return Room(here.stop - here.start, views)

    def took(
        self, time: Array, steady: Mapping[str, Array], checkpoint: Callable[[], Checkpoint] | None
    ) -> None:
        here = slice(self._used, self._used + len(time))
        self._buffer["time"][here] = time
        for key, row in steady.items():
            self._buffer[key][here] = row.reshape(self._buffer[key].shape[1:])
        self._used += len(time)
        self._changed = True
        self._hand_to_disk(checkpoint)

    def _hand_to_disk(self, checkpoint: Callable[[], Checkpoint] | None) -> None:
        """Write the chunk and a checkpoint if it is full, or was begun long ago."""
        self._due = self._due or self._used == self._size
        self._due = self._due or wall.perf_counter() - self._flushed >= FLUSH_SECONDS
        if self._due and checkpoint is not None:
            self._write()
            with self._released_on_error():
                self.store.commit(self._start + self._used, checkpoint())
            self._flushed, self._due = wall.perf_counter(), False

    def _write(self) -> None:
        if not self._changed:
            return
        chunk = self._buffer
        if self._used < self._size:
            # rows to come are NaN on disk; here a run may be writing them
            chunk = {key: array.copy() for key, array in chunk.items()}
            for array in chunk.values():
                array[self._used :] = np.nan
        with self._released_on_error():
            self.store.write(self._start, chunk, self._used)
        self._changed = False

    @contextmanager
    def _released_on_error(self) -> Iterator[None]:
        """Release the store of a run that cannot be written."""
        try:
            yield
        except RunFileError:
            self.store.release()
            raise

    def row(self, key: str, row: int) -> Array:
        if row >= self._start:
            return np.asarray(self._buffer[key][row - self._start])
        return np.asarray(self.store.read(key, row, row + 1)[0])

    def finish(
        self, outcomes: Sequence[Any], events: Sequence[Any], checkpoint: Checkpoint
    ) -> Rows:
        self._write()
        try:
            self.store.finish(self._start + self._used, checkpoint, outcomes, events)
        finally:
            self.store.release()
        return self.store


# rows on their way from a run to its recorder


SENSED = "sensed"
"""Key of the column that holds what sensors read."""

GATHERED_BYTES, MOST_GATHERED = 1_000_000, 512
"""Size and number of rows that are handed on in one portion, about."""

MAX_ROW_DELAY = 1.0
"""Wall-clock time after which rows are handed on though they are few."""


class RowWriter:
    """Hands rows to a recorder: steps write them in their place, or they are gathered."""

    def __init__(
        self,
        recorder: Recorder,
        system: System,
        cases: int,
        parameters: Mapping[str, Any],
        checkpoint: Callable[[], Checkpoint],
    ) -> None:
        """Prepare for rows.

        Args:
            recorder: Recorder that takes the rows.
            system: The system.
            cases: Number of cases; 1 for one robot.
            parameters: Run-time parameters that replace those of model, world and elements.
            checkpoint: Returns the checkpoint after the rows written so far.
        """
        self._recorder, self._system, self._cases = recorder, system, cases
        self._checkpoint = checkpoint
        self._commands = len(system.command_names)
        self._gathered: list[tuple[Any, ...]] = []
        # whether rows of the recorder wait for a checkpoint
        self._waiting = False
        self.last_time = np.nan
        """Time of the last row that was written [s]."""
        self._handed = wall.perf_counter()
        self._observe: Any = None
        self._rows: dict[str, Array] = {}
        if system.control is not None and not system.held:
            self._observe, self._rows = bind_parameters(command_kernel(system), parameters, cases)
        self.observes = self._observe is not None
        """Whether commands are computed from the rows: those of a controller at every stage."""

    def write(self, time: float, state: Array, held: Array, sensed: Array | None = None) -> None:
        """Write one row of all cases: time [s], states, held values, sensor readings.

        Rows are gathered, to be handed on in portions.
        """
        row: tuple[Any, ...] = (time, state.copy(), held.copy())
        self._gathered.append(row if sensed is None else (*row, sensed.copy()))
        self.last_time = time
        count = len(self._gathered)
        if count == MOST_GATHERED or count * (state.nbytes + held.nbytes) >= GATHERED_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        """Hand gathered rows to the recorder."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        times, states, held, *sensed = map(np.array, zip(*gathered, strict=True))
        done, count = 0, len(times)
        while done < count:
            room = self.room(count - done)
            here, place = slice(done, done + room.size), 0
            for name in ("q", "v", "x"):
                if name in room.views:
                    view = room.views[name]
                    view[:] = states[here, :, place : place + view.shape[-1]]
                    place += view.shape[-1]
            readings = sensed[0][here] if sensed else None
            self.complete(room, 0, room.size, times[here], held[here], readings)
            # the run may be ahead of its rows here: a checkpoint would skip those to come
            self.wrote(times[here], None, whole=False)
            self._waiting = True
            done += room.size

    def room(self, count: int) -> Room:
        """Return memory for up to `count` rows of native code, cases in one dimension."""
        self._hand_over()
        found = self._recorder.room(count)
        views = {
            key: view.reshape(found.size, self._cases, view.shape[-1])
            for key, view in found.views.items()
        }
        return Room(found.size, views)

    def complete(
        self,
        room: Room,
        first: int,
        last: int,
        times: Array,
        held: Array | None,
        sensed: Array | None,
    ) -> None:
        """Write what belongs to the states of rows from `first` to `last`.

        Args:
            room: The rows, with states in their place.
            first: First row.
            last: Row after the last.
            times: Their times [s]; read only where commands are computed from the rows.
            held: Held values of all rows, or of each; None if their commands are handed on apart.
            sensed: Readings of sensors, of all these rows or of each.
        """
        views, rows = room.views, slice(first, last)
        if held is not None and "u" in views:
            if self._observe is None:
                views["u"][rows] = held[..., : self._commands]
            else:
                state = [views[key][rows] for key in ("q", "v", "x") if key in views]
                u = np.ascontiguousarray(held[..., : self._system.drive_size])
                given = np.concatenate(state, axis=-1), u, times[:, None]
                views["u"][rows] = self._observe(*given, errors="flag", **self._rows)[0]
        if held is not None and "z" in views:
            views["z"][rows] = held[..., self._system.discrete]
        if sensed is not None:
            views[SENSED][rows] = sensed

    def wrote(self, times: Array, lasting: Array | None, *, whole: bool) -> None:
        """Hand on rows that were written into memory from `room`.

        Args:
            times: Times [s], shape (rows,).
            lasting: Commands that are equal in all these rows, shape (cases, commands), kept, not
                copied; None if each row has its own already.
            whole: Whether the run can be resumed after these rows: none before the present step is
                missing.
        """
        self.last_time = float(times[-1])
        steady = {} if lasting is None or not lasting.size else {"u": lasting}
        self._recorder.took(times, steady, self._checkpoint if whole else None)
        if whole:
            # rows without a checkpoint do not reach the disk: request some with one in time
            self._handed = wall.perf_counter()

    def hand_on(self, now: float) -> None:
        """Hand rows to the recorder if there are many, or after some time.

        All rows before the present step are written when this is called, so that the run can be
        resumed from there. `now` is the wall-clock time of `time.perf_counter` [s].
        """
        if self._waiting or (self._gathered and self.is_due(now)):
            self.flush()

    def is_due(self, now: float) -> bool:
        """Return whether rows were handed on long ago."""
        return now - self._handed > MAX_ROW_DELAY

    def flush(self) -> None:
        """Hand on what is there, with a checkpoint."""
        self._hand_over()
        if self._waiting:
            self._recorder.took(np.zeros(0), {}, self._checkpoint)
            self._waiting = False
        self._handed = wall.perf_counter()
