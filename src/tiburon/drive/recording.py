"""Recording of a real-time simulation as a run."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.drive.ticker import Row, Ticker
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import RunHeader
from tiburon.results.outcome import Outcome
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.recorder import Recorder, RowWriter
from tiburon.simulation.run import RunSetup
from tiburon.simulation.system import System

POLL_SECONDS = 0.05
"""Wall-clock time between two reads of new rows [s]."""


class Recording:
    """Records every n-th row of a ticker, on its own thread.

    The simulation does not wait for the disk: `end` marks the last row, and the thread writes up to
    it. Pilot, panel and commands are part of the run, so that it can be resumed.

    Attributes:
        store: Path of the Zarr directory; None for a recording in memory.
        missed: Rows overwritten in the ring buffer before they were read.
        reported: Whether `result` was called, which raises any error.
    """

    def __init__(
        self,
        system: System,
        ticker: Ticker,
        method: str,
        every: int,
        store: str | Path | None = None,
    ) -> None:
        """Start recording.

        Args:
            system: The system with its current parameters.
            ticker: Source of the rows.
            method: Name of the integrator.
            every: Steps between two rows.
            store: Path of a Zarr directory to write to; None keeps rows in memory.
        """
        self.system, self.ticker, self.every = system, ticker, every
        self.store = None if store is None else Path(store)
        self.missed = 0
        jump = ticker.pending_jump()
        first = ticker.latest() if jump is None else jump.row
        self._next = ticker.head - 1 if jump is None else jump.head
        self._last = first
        self._taken = 0
        # rows from before the posted state may still follow
        self._landing = None if jump is None else first.steps
        elements, dt, begin = system.elements, ticker.dt, first.time
        setup = RunSetup(system.model, system.world, elements, method, dt, begin, 0, every)
        setup = setup._replace(control=system.control)
        header = RunHeader(
            system.model,
            system.world,
            (),
            system.columns,
            setup.keywords(),
            elements=system.elements,
        )
        self._first = first.steps
        self._recorder = Recorder(header, store=store, start=self._checkpoint())
        self._writer = RowWriter(self._recorder, system, 1, {}, self._checkpoint)
        if jump is not None:
            self._write(first)
        self._end: tuple[int, str, str] | None = None
        self._ended = threading.Event()
        self._run: Trajectory | None = None
        self._problem: Exception | None = None
        self.reported = False
        self._thread = threading.Thread(target=self._work, name="tiburon-recording", daemon=True)
        self._thread.start()

    @property
    def failed(self) -> bool:
        """Whether rows could not be written; `result` raises the error."""
        return self._problem is not None

    def end(self, status: str = "finished", message: str = "") -> None:
        """End the recording with the current row, without waiting."""
        if self._end is None:
            self._end = (self.ticker.head, status, message)
            self._ended.set()

    def result(self) -> Trajectory:
        """Wait until all rows are written, and return the run.

        Raises:
            TiburonError: If they could not be written.
        """
        self.end()
        self._thread.join()
        self.reported = True
        if self._problem is not None:
            raise self._problem
        assert self._run is not None
        return self._run

    def _work(self) -> None:
        try:
            while not self._ended.wait(POLL_SECONDS):
                self._take(self.ticker.head)
            self._run = self._finish()
        except Exception as problem:
            # raised by `result`
            self._problem = problem

    def _take(self, end: int) -> None:
        """Read the new rows up to an index, exclusive."""
        rows, head, missed = self.ticker.rows(self._next)
        self.missed += missed
        count = max(0, len(rows) - (head - end))
        self._next = max(self._next, end)
        if missed:
            self._landing = None
        for numbers in rows[:count]:
            row = self.ticker.rows_of(numbers)
            if self._landing is not None:
                if row.steps not in (self._landing, self._landing + self.ticker.steps):
                    continue
                self._landing = None
            if (row.steps - self._first) % self.every == 0 and (
                row.steps > self._last.steps or not self._taken
            ):
                self._write(row)
        self._writer.hand_on(time.perf_counter())

    def _write(self, row: Row) -> None:
        self._writer.write(row.time, row.state[None], row.held[None])
        self._last, self._taken = row, self._taken + 1

    def _finish(self) -> Trajectory:
        """Read the last rows and return the run."""
        assert self._end is not None
        end, status, message = self._end
        self._take(end)
        self._writer.flush()
        row, model = self._last, self.system.model
        q, v, x = np.split(row.state, [model.nq, model.nq + model.nv])
        text = message or f"recording stopped at {row.time:.6g} s"
        if self.missed:
            text += f"; {self.missed} rows were missed"
        outcome = Outcome(status, row.time, text, q, v, x)
        return self._recorder.finish([outcome], [], self._checkpoint())

    def _checkpoint(self) -> Checkpoint:
        row = self._last
        arrays: dict[str, Any] = {"state": row.state[None], "held": row.held[None]}
        return Checkpoint(row.steps - self._first, row.time, arrays)
