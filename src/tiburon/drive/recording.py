"""A stretch of driving as a run: rows of the ring, handed to the recorder of runs."""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.drive.ticker import Ticker
from tiburon.simulation.course import RunSetup
from tiburon.simulation.outcome import Outcome
from tiburon.simulation.recorder import Recorder
from tiburon.simulation.row_writer import RowWriter
from tiburon.simulation.run_header import Checkpoint, RunHeader, state_columns
from tiburon.simulation.system import System
from tiburon.simulation.trajectory import Trajectory

__all__ = ["Recording"]


class Recording:
    """Takes every so many-th row of a ticker, from now on.

    The pilot, the panel and the commands are part of the run: it can be gone on with.
    """

    def __init__(
        self,
        system: System,
        ticker: Ticker,
        method: str,
        every: int,
        store: str | Path | None = None,
    ) -> None:
        """Prepare for rows.

        Args:
            system: What moves, with the numbers it has now.
            ticker: Where rows come from.
            method: Name of the integrator.
            every: Steps between two rows.
            store: Path of a Zarr directory to write to; None keeps rows in memory.
        """
        self.system, self.ticker, self.every = system, ticker, every
        self.missed = 0
        """Rows that came and went before they were taken."""
        self._lock = threading.Lock()
        first = ticker.latest()
        self._next = ticker.head - 1
        self._last = first
        self._taken = 0
        setup = RunSetup(
            model=system.model,
            world=system.world,
            elements=system.elements,
            control=system.control,
            hold=None,
            method=method,
            adaptive=False,
            rtol=1e-6,
            atol=1e-8,
            dt=ticker.dt,
            begin=first.time,
            steps=0,
            record_every=every,
            record=(),
            sensors=(),
            events=(),
            parameters={},
            threads=None,
        )
        columns = state_columns(system.model, system.x_names, system.command_names)
        header = RunHeader(
            system.model,
            system.world,
            (),
            columns,
            setup.keywords(),
            elements=system.elements,
        )
        self._first = first.steps
        self._recorder = Recorder(header, store=store, start=self._checkpoint())
        self._writer = RowWriter(
            self._recorder, system, 1, system.drive_size, 0, {}, self._checkpoint
        )

    def take(self) -> None:
        """Take the rows that have come since."""
        with self._lock:
            rows, self._next, missed = self.ticker.rows(self._next)
            self.missed += missed
            for numbers in rows:
                row = self.ticker.rows_of(numbers)
                if (row.steps - self._first) % self.every or (
                    row.steps <= self._last.steps and self._taken
                ):
                    continue
                self._writer.write(row.time, row.state[None], row.held[None])
                self._last, self._taken = row, self._taken + 1
            self._writer.hand_on()

    def finish(self, status: str = "finished", message: str = "") -> Trajectory:
        """Take the last rows and return the run.

        Args:
            status: How it ended, as `Outcome` has it.
            message: The same in words.
        """
        self.take()
        with self._lock:
            self._writer.flush()
            row, model = self._last, self.system.model
            q, v, x = np.split(row.state, [model.nq, model.nq + model.nv])
            said = message or f"recording stopped at {row.time:.6g} s"
            if self.missed:
                said += f"; {self.missed} rows were missed"
            outcome = Outcome(status, row.time, said, q, v, x)
            return self._recorder.finish([outcome], [], self._checkpoint())

    def _checkpoint(self) -> Checkpoint:
        row = self._last
        arrays: dict[str, Any] = {"state": row.state[None], "held": row.held[None]}
        return Checkpoint(row.steps - self._first, row.time, arrays)
