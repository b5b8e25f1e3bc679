"""Saving a run that is there already, from memory or from another store."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tiburon.errors import RunFileError
from tiburon.results.outcome import RUNNING, statuses_of
from tiburon.results.store import RunStore
from tiburon.results.store_files import zip_store
from tiburon.results.store_lock import writer_of
from tiburon.written_file import sync_directory

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

__all__ = ["save_run"]


def save_run(run: "Trajectory", path: Path, *, overwrite: bool = False) -> None:
    """Save a run; `Trajectory.save` tells the arguments.

    The files are made beside their place and moved there when they are whole: an earlier run at the
    same place is lost only once the new one is safe.
    """
    if path.exists() and not overwrite:
        raise RunFileError(path, "is there already; choose another name, or pass overwrite=True")
    if path.exists() and not _is_run(path):
        raise RunFileError(path, "is there already and no run, so it stays; choose another name")
    writer = writer_of(path) if path.is_dir() else None
    if writer is not None:
        raise RunFileError(path, f"is being recorded by {writer}; choose another name")
    if run.store is not None and run.store.path.resolve() == path.resolve():
        raise RunFileError(path, "holds this very run already; choose another name")
    try:
        # a link stays, and leads to the run
        place = Path(os.path.realpath(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = Path(tempfile.mkdtemp(prefix=f".{place.name[:40]}.", dir=place.parent))
    except OSError as error:
        raise RunFileError(path, f"cannot be written ({error.strerror}); check the path") from error
    made = spare / "run"
    try:
        _write(run, made)
        if path.suffix.lower() == ".zip":
            zip_store(made, spare / "run.zip")
            made = spare / "run.zip"
        _swap(made, place, spare / "earlier")
    except OSError as error:
        raise _failed(path, str(error.strerror)) from error
    except RunFileError as error:
        if Path(error.file) not in (spare / "run", spare / "run.zip"):
            # the run itself cannot be read
            raise
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__
        if cause is None:
            raise RunFileError(path, error.problem) from error
        raise _failed(path, os.strerror(cause.errno) if cause.errno else str(cause)) from error
    finally:
        shutil.rmtree(spare, ignore_errors=True)


def _failed(path: Path, reason: str) -> RunFileError:
    """Return the error of a run that cannot be saved; nothing is lost by it."""
    kept = "; the run that is there is unchanged" if path.exists() else ""
    return RunFileError(
        path,
        f"cannot be written ({reason}){kept}; check the path, free some space or choose another "
        "place, and save again",
    )


def _swap(made: Path, path: Path, spare: Path) -> None:
    """Move a run to its place; the one that was there goes only once the new one is there."""
    if made.is_file() and not path.is_dir():
        os.replace(made, path)
        return
    moved = path.exists()
    if moved:
        # directories cannot be replaced in one stroke
        os.replace(path, spare)
    try:
        os.replace(made, path)
    except OSError:
        if moved:
            os.replace(spare, path)
        raise
    sync_directory(path.parent)


def _write(run: "Trajectory", path: Path) -> None:
    """Write all rows, a chunk at a time."""
    store = RunStore.create(path, run.header, len(run))
    keys = ("time", *(column.key for column in run.header.columns))
    for start in range(0, len(run), store.chunk_rows):
        stop = min(start + store.chunk_rows, len(run))
        store.write(start, {key: run.rows.read(key, start, stop) for key in keys}, stop - start)
    state = run.checkpoint
    if state is None:
        # a part of a run: there is nothing to go on with
        store.finish(len(run), None, run.outcomes, run.events)
    elif not {"killed", RUNNING} & set(statuses_of(run.outcomes)) and run.outcomes:
        store.finish(len(run), state, run.outcomes, run.events)
    else:
        # the copy can be resumed as the run itself
        store.commit(len(run), state)
        store.release()


def _is_run(path: Path) -> bool:
    try:
        RunStore.open(path)
    except RunFileError as error:
        # damaged runs may be replaced too
        return "not a run" not in error.problem and "no saved run" not in error.problem
    return True
