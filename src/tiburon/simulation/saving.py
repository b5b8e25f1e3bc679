"""Saving a run that is there already, from memory or from another store."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tiburon.errors import RunFileError
from tiburon.simulation.outcome import RUNNING, statuses_of
from tiburon.simulation.store import RunStore
from tiburon.simulation.store_files import zip_store
from tiburon.simulation.store_lock import writer_of
from tiburon.written_file import sync_directory

if TYPE_CHECKING:
    from tiburon.simulation.trajectory import Trajectory

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
        path.parent.mkdir(parents=True, exist_ok=True)
        spare = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise RunFileError(path, f"cannot be written ({error.strerror}); check the path") from error
    try:
        made = spare / "run"
        _write(run, made)
        if path.suffix.lower() == ".zip":
            zip_store(made, spare / "run.zip")
            made = spare / "run.zip"
        _swap(made, path, spare / "earlier")
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); check the path"
        raise RunFileError(path, reason) from error
    finally:
        shutil.rmtree(spare, ignore_errors=True)


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
