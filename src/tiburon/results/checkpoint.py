"""Checkpoints: the state from which a run is resumed, and the file that holds it in a store."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tiburon.errors import DomainError, RunFileError
from tiburon.record import field, record
from tiburon.regular_file import read_arrays
from tiburon.results.encoding import check_type, decode, encode, first_line
from tiburon.results.outcome import RUNNING, EventRecord, Outcome, Outcomes, SharedOutcome

PROGRESS_BYTES = 2**31
"""Largest checkpoint file, with the states and outcomes of all cases [bytes]."""

NOTES = "notes"
"""Name of the JSON text among the arrays of a checkpoint file."""

ARRAY_PREFIX = "array."
"""Prefix of the names of a checkpoint's arrays."""


@record(eq=False)
class Checkpoint:
    """State from which a run is resumed, bitwise identical to an uninterrupted run."""

    step: int
    """Steps taken since the start of the run; for adaptive methods, recording intervals."""

    time: float
    """Time [s]."""

    arrays: Mapping[str, Any]
    """Arrays by name: "state", "held", and the memory of the integrator; any shapes."""

    notes: Mapping[str, Any] = field(default_factory=dict)
    """Everything else as plain data: numbers, texts, lists and dictionaries of these."""

    def __post_init__(self) -> None:
        # copies: the run continues while its checkpoint is written
        arrays = {}
        for name, value in self.arrays.items():
            own = value
            if not isinstance(value, np.ndarray) or value.base is not None or value.flags.writeable:
                own = np.array(value)
            arrays[name] = own
            if own.dtype.hasobject:
                raise DomainError(
                    f"checkpoint, {name}", "an array of numbers", f"dtype {own.dtype}"
                )
        object.__setattr__(self, "arrays", arrays)


class Progress(NamedTuple):
    """Progress of a run: content of the checkpoint file of a store."""

    rows: int
    """Number of valid rows."""

    checkpoint: Checkpoint | None
    """State after these rows; None before the first."""

    outcomes: tuple[Any, ...]
    """Outcome of each case; empty while the run continues."""

    events: tuple[Any, ...]
    """Events that occurred; empty while the run continues."""

    finished: bool
    """Whether the run ended regularly: as planned, by an event, or stopped on request."""

    def as_loaded(
        self, writer: str | None, cases: int, nq: int, nv: int
    ) -> "tuple[Sequence[Any], Sequence[Any]]":
        """Return outcomes and events of a loaded run; "killed" or "running" if it did not end.

        Args:
            writer: Description of the process that records into the store; None if none does.
            cases: Number of cases.
            nq: Size of a configuration.
            nv: Size of a velocity.
        """
        state = self.checkpoint
        notes: Mapping[str, Any] = {} if state is None else state.notes
        known = {_index("case", case): Outcome(*fields) for case, fields in notes.get("ended", ())}
        events = [EventRecord(*fields) for fields in notes.get("events", ())]
        for outcome in known.values():
            _check_outcome(outcome)
        for event in events:
            _check_event(event)
        if any(case >= cases for case in known):
            raise ValueError(f"cases that ended must be below {cases}, got {max(known)}")
        _index("asked", notes.get("asked", 0))
        if self.finished or self.outcomes:
            return self.outcomes, self.events
        time = math.nan if state is None else state.time
        states = np.full((cases, nq + nv), np.nan)
        given = None if state is None else state.arrays.get("state")
        if given is not None and given.ndim == 2 and given.shape[0] == cases:
            states = given if given.shape[1] >= nq + nv else states
        after = "before it began" if state is None else f"after {time:.6g} s"
        if writer is None:
            status = "killed"
            message = (
                f"killed {after}: the process that ran it ended without finishing it; "
                "resume() continues from there"
            )
        else:
            status = RUNNING
            message = f"{writer} records it; {time:.6g} s are on disk"
        others = SharedOutcome(status, time, message, states, (nq, nq + nv))
        return Outcomes(cases, known, others), events


def progress_to_bytes(progress: Progress, run: str = "") -> bytes:
    """Return the content of a checkpoint file; `run` is the identity of its run."""
    state = progress.checkpoint
    notes: dict[str, Any] = {
        "run": run,
        "rows": progress.rows,
        "finished": progress.finished,
        "outcomes": encode(progress.outcomes),
        "events": encode(progress.events),
    }
    arrays: dict[str, Any] = {}
    if state is not None:
        notes["checkpoint"] = {
            "step": int(state.step),
            "time": float(state.time),
            "notes": encode(state.notes),
        }
        arrays = {ARRAY_PREFIX + name: value for name, value in state.arrays.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **{NOTES: np.array(json.dumps(notes)), **arrays})
    return buffer.getvalue()


def read_progress(path: Path, stream: IO[bytes], run: str = "") -> Progress:
    """Read a checkpoint file.

    Args:
        path: Path of the run, for messages.
        stream: The file.
        run: Identity of the run; empty if it has none.

    Raises:
        RunFileError: If it is damaged, or of another run.
    """
    try:
        arrays, _ = read_arrays(stream, PROGRESS_BYTES)
        notes = json.loads(str(arrays.pop(NOTES)))
        if notes.get("run", "") != run:
            raise ValueError("it is that of another run")
        checkpoint = None
        if "checkpoint" in notes:
            given = notes["checkpoint"]
            checkpoint = Checkpoint(
                _index("step", given["step"]),
                _finite("time", given["time"]),
                {name.removeprefix(ARRAY_PREFIX): array for name, array in arrays.items()},
                check_type("notes", decode(given["notes"]), dict),
            )
        outcomes = check_type("outcomes", decode(notes["outcomes"]), tuple)
        events = check_type("events", decode(notes["events"]), tuple)
        for outcome in outcomes:
            _check_outcome(outcome)
        for event in events:
            _check_event(event)
        rows = _index("rows", notes["rows"])
        finished = check_type("finished", notes["finished"], bool)
        return Progress(rows, checkpoint, outcomes, events, finished)
    except Exception as error:
        # damaged files raise anything
        raise RunFileError(
            path, f"its checkpoint is damaged ({first_line(error)}); restore the file from a copy"
        ) from error


def _index(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} must be a whole number, got {str(value)[:40]!r}")
    return value


def _finite(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {str(value)[:40]!r}")
    return float(value)


def _check_outcome(outcome: Any) -> None:
    """Raise `ValueError` if a value is not an outcome, or one of its fields has another type."""
    check_type("outcome", outcome, Outcome)
    check_type("status", outcome.status, str)
    check_type("time", outcome.time, float)
    check_type("message", outcome.message, str)
    for part in (outcome.q, outcome.v, outcome.x):
        check_type("state", part, np.ndarray)
    for name in ("event", "body", "quantity"):
        check_type(name, getattr(outcome, name), str, type(None))


def _check_event(event: Any) -> None:
    """Raise `ValueError` if a value is not the record of an event."""
    check_type("event", event, EventRecord)
    check_type("name", event.name, str)
    _finite("time", event.time)
    _index("case", event.case)
