"""How far a run is, as the bytes of one file: rows that count, checkpoint, outcomes, events."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import RunFileError
from tiburon.simulation.embedding import NotDataError, decode, encode
from tiburon.simulation.run_header import Checkpoint

__all__ = ["Progress", "progress_from_bytes", "progress_to_bytes"]

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


def progress_from_bytes(path: Path, content: bytes) -> Progress:
    """Return what a file says.

    Args:
        path: The run, for messages.
        content: The bytes.

    Raises:
        RunFileError: If they are damaged.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            notes = json.loads(str(file[NOTES]))
            arrays = {name.removeprefix(ARRAY): file[name] for name in file.files if name != NOTES}
        checkpoint = None
        if "checkpoint" in notes:
            given = notes["checkpoint"]
            checkpoint = Checkpoint(given["step"], given["time"], arrays, decode(given["notes"]))
        return Progress(
            notes["rows"],
            checkpoint,
            decode(notes["outcomes"]),
            decode(notes["events"]),
            notes["finished"],
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        OSError,
        EOFError,
        NotDataError,
        zipfile.BadZipFile,
    ) as error:
        raise RunFileError(
            path, f"its checkpoint is damaged ({error}); restore the file from a copy"
        ) from error
