"""How far a run is, as the bytes of one file: rows that count, checkpoint, outcomes, events."""

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tiburon.errors import RunFileError
from tiburon.results.embedding import decode, encode
from tiburon.results.outcome import RUNNING, CommonEnd, Outcome, Outcomes
from tiburon.results.run_header import Checkpoint
from tiburon.results.store_guard import PROGRESS_BYTES, first_line
from tiburon.simulation.events import EventRecord

__all__ = ["Progress", "progress_to_bytes", "read_progress"]

NOTES = "notes"
ARRAY = "array."
"""Stands before the names of a checkpoint's arrays."""


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Rows that count."""

    checkpoint: Checkpoint | None
    """All it takes to go on after them; None before the first."""

    outcomes: tuple[Any, ...]
    """How each case ended; empty while the run goes on."""

    events: tuple[Any, ...]
    """What happened on the way; empty while the run goes on."""

    finished: bool
    """Whether the run ended by itself: as planned, by an event, or told to stop."""

    def as_loaded(
        self, writer: str | None, cases: int, nq: int, nv: int
    ) -> "tuple[Sequence[Any], Sequence[Any]]":
        """Return outcomes and events of a run that is loaded: of one that did not end, how it is.

        Args:
            writer: The process that records into its store now, in words; None if none does.
            cases: Number of cases.
            nq: Numbers of a position.
            nv: Numbers of a velocity.
        """
        state = self.checkpoint
        notes: Mapping[str, Any] = {} if state is None else state.notes
        known = {_whole("case", case): Outcome(*fields) for case, fields in notes.get("ended", ())}
        happened = [EventRecord(*fields) for fields in notes.get("events", ())]
        for outcome in known.values():
            _check_outcome(outcome)
        for event in happened:
            _check_event(event)
        if any(case >= cases for case in known):
            raise ValueError(f"cases that ended must be below {cases}, got {max(known)}")
        _whole("asked", notes.get("asked", 0))
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
                "resume() goes on from there"
            )
        else:
            status = RUNNING
            message = f"{writer} records it; {time:.6g} s are on disk"
        ended = Outcomes(cases, known, CommonEnd(status, time, message, states, (nq, nq + nv)))
        return ended, happened


def progress_to_bytes(progress: Progress) -> bytes:
    """Return the content of a file."""
    state = progress.checkpoint
    notes: dict[str, Any] = {
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
        arrays = {ARRAY + name: value for name, value in state.arrays.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **{NOTES: np.array(json.dumps(notes)), **arrays})
    return buffer.getvalue()


def read_progress(path: Path, stream: IO[bytes]) -> Progress:
    """Return what a file says.

    Args:
        path: The run, for messages.
        stream: The file, of a bounded size.

    Raises:
        RunFileError: If it is damaged.
    """
    try:
        arrays = _read_arrays(stream)
        notes = json.loads(str(arrays.pop(NOTES)))
        checkpoint = None
        if "checkpoint" in notes:
            given = notes["checkpoint"]
            checkpoint = Checkpoint(
                _whole("step", given["step"]),
                _time(given["time"]),
                {name.removeprefix(ARRAY): array for name, array in arrays.items()},
                _of_kind("notes", decode(given["notes"]), Mapping),
            )
        outcomes = _of_kind("outcomes", decode(notes["outcomes"]), tuple)
        events = _of_kind("events", decode(notes["events"]), tuple)
        for outcome in outcomes:
            _check_outcome(outcome)
        for event in events:
            _check_event(event)
        return Progress(
            _whole("rows", notes["rows"]),
            checkpoint,
            outcomes,
            events,
            _of_kind("finished", notes["finished"], bool),
        )
    except Exception as error:
        # whatever damage makes of a reader
        raise RunFileError(
            path, f"its checkpoint is damaged ({first_line(error)}); restore the file from a copy"
        ) from error


def _read_arrays(stream: IO[bytes]) -> dict[str, Any]:
    """Return the arrays of an .npz file, none of which takes more memory than it has bytes."""
    found = {}
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename[:80]} is packed, which it never is")
            if member.file_size > PROGRESS_BYTES:
                raise ValueError(f"{member.filename[:80]} claims {member.file_size} bytes")
            content = io.BytesIO(archive.read(member))
            version = np.lib.format.read_magic(content)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, kind = read(content)
            if kind.kind not in "biufU":
                raise ValueError(f"{member.filename[:80]} holds {kind}, expected numbers")
            flat = np.frombuffer(content.getbuffer()[content.tell() :], kind)
            # an array of its own, which the run that goes on may change
            array = flat.reshape(shape, order="F" if fortran else "C").copy()
            found[member.filename.removesuffix(".npy")] = array
    return found


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} must be a whole number, got {str(value)[:40]!r}")
    return value


def _time(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"time must be a finite number, got {str(value)[:40]!r}")
    return float(value)


def _of_kind(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {str(value)[:40]!r}")
    return value


def _check_outcome(outcome: Any) -> None:
    """Refuse what is no outcome, or one whose parts are of another kind."""
    _of_kind("outcome", outcome, Outcome)
    _of_kind("status", outcome.status, str)
    _of_kind("time", outcome.time, float)
    _of_kind("message", outcome.message, str)
    for part in (outcome.q, outcome.v, outcome.x):
        _of_kind("state", part, np.ndarray)
    for name in ("event", "body", "quantity"):
        value = getattr(outcome, name)
        if value is not None:
            _of_kind(name, value, str)


def _check_event(event: Any) -> None:
    """Refuse what is no event."""
    _of_kind("event", event, EventRecord)
    _of_kind("name", event.name, str)
    _time(event.time)
    _whole("case", event.case)
