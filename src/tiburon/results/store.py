"""Runs on disk: a Zarr directory that any Zarr or xarray reader opens, with a checkpoint inside.

Arrays have time as their first dimension and are written in whole chunks; each file is replaced
atomically. After each chunk the checkpoint, which holds the number of valid rows, is written the
same way. A killed run therefore always has all rows that its checkpoint counts.
"""

import hashlib
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.results.checkpoint import (
    PROGRESS_BYTES,
    Checkpoint,
    Progress,
    progress_to_bytes,
    read_progress,
)
from tiburon.results.encoding import first_line, header_from_text, header_to_text
from tiburon.results.header import RunHeader
from tiburon.results.outcome import RUNNING, statuses_of
from tiburon.results.store_files import (
    FORMAT,
    VERSION,
    ArrayLayout,
    RunFiles,
    StoreLock,
    check_chunk,
    guarded_store,
    layout_of,
    make_array,
    make_column,
    make_labels,
    read_attributes,
    refuse_links,
    signed,
    sync_files,
    writer_of,
    writing,
    zip_store,
)
from tiburon.version import installed_version
from tiburon.written_file import sync_directory, write_file

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory

__all__ = ["RunStore", "save_run"]

Array = NDArray[np.float64]

CHUNK_BYTES = 16_000_000
"""Size of one chunk of rows of all columns together, unless a single row is larger [bytes]."""

MAX_CHUNK_ROWS = 65_536
"""Most rows of a chunk, so that those of a small robot reach the disk in time."""

OTHER_ROWS = "read other rows with run.part(...)"

PROGRESS = "checkpoint/progress.npz"
"""Path of the checkpoint: inside an array, where readers of groups do not look for arrays."""


class RunStore:
    """The rows of a run on disk, and its checkpoint."""

    def __init__(self, path: Path, header: RunHeader, progress: Progress, attributes: Any) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.header = header
        self.progress = progress
        self.chunk_rows: int = int(attributes["chunk_rows"])
        self.files = RunFiles(path)
        self._root: Any = None
        self._opened: dict[str, Any] = {}
        self._layouts: dict[str, ArrayLayout] = {}
        # checksum of the checkpoint file that this process last read or wrote
        self._known = b""
        # files written, but perhaps not yet synced to disk
        self._unsynced: set[Path] = set()
        self._lock: StoreLock | None = None

    def __getstate__(self) -> dict[str, Any]:
        # copies and other processes open the files themselves, and do not record
        return {**self.__dict__, "_root": None, "_opened": {}, "_lock": None, "_unsynced": set()}

    # -- creation ----------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: RunHeader,
        rows: int | None,
        start: Checkpoint | None = None,
    ) -> "RunStore":
        """Create a store, and lock it for recording.

        It is written to a temporary directory and moved to its path when it is complete.

        Args:
            path: A new directory; by convention its name ends in ".zarr".
            header: Header of the run.
            rows: Number of rows to come, if known.
            start: Initial state: with it, a run that is killed before its first rows are on disk
                can be resumed.

        Raises:
            RunFileError: If the path exists already, or it cannot be written.
        """
        target = Path(path)
        taken = RunFileError(
            target,
            "exists already; remove it, choose another name, or continue it by "
            "tiburon.load_run(...).resume()",
        )
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise taken
        chunk_rows = max(1, min(CHUNK_BYTES // header.row_bytes, MAX_CHUNK_ROWS))
        if rows is not None:
            chunk_rows = max(1, min(chunk_rows, rows))
        attributes: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": f"tiburon {installed_version()}",
            "chunk_rows": chunk_rows,
            "title": f"{header.model.name}: simulated motion",
            **signed(target, header_to_text(header)),
        }
        with writing(target, "; no rows are safe: start the run again"):
            target.parent.mkdir(parents=True, exist_ok=True)
            spare = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", dir=target.parent))
            try:
                made = cls(spare / "run", header, Progress(0, None, (), (), False), attributes)
                made._make(attributes, rows, start)
                place = Path(os.path.realpath(target))
                if place.is_dir():
                    place.rmdir()
                os.rename(made.path, place)
            except FileExistsError as error:
                raise taken from error
            except RunFileError as error:
                raise RunFileError(target, error.problem) from error
            finally:
                shutil.rmtree(spare, ignore_errors=True)
            sync_directory(target.parent)
        store = cls(target, header, made.progress, attributes)
        store._known = made._known
        store._lock = StoreLock(target)
        return store

    def _make(
        self, attributes: Mapping[str, Any], rows: int | None, start: Checkpoint | None
    ) -> None:
        """Write the arrays and the initial checkpoint."""
        import zarr

        group = zarr.open_group(self.path, mode="w", zarr_format=3, attributes=dict(attributes))
        size = self.chunk_rows if rows is None else rows
        make_array(group, "time", (size,), (self.chunk_rows,), ("time",), {"units": "s"})
        for column in self.header.columns:
            make_column(group, self.header, column, size, self.chunk_rows)
        make_labels(group, self.header)
        note = {"about": "number of recorded rows; the file beside it is the checkpoint"}
        make_array(group, "checkpoint", (), (), (), note, dtype="i8", fill_value=0)
        self._put_progress(Progress(0, start, (), (), False))
        self._consolidate()

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], model: Model | None = None, world: World | None = None
    ) -> "RunStore":
        """Open a store to read it, or to resume its run.

        Args:
            path: The directory, or a zip file of it.
            model: The robot, for runs of robots that no file can hold.
            world: The surroundings, likewise.

        Raises:
            RunFileError: If it does not exist, is incomplete, of a later version, or not a run.
        """
        target = Path(path)
        try:
            there = target.exists()
        except (OSError, ValueError) as error:
            raise RunFileError(target, f"is no path ({first_line(error)}); correct it") from error
        if not there:
            raise RunFileError(target, "does not exist; check the path")
        files = RunFiles(target)
        attributes = read_attributes(files)
        header = header_from_text(target, attributes["run"], model, world)
        check_chunk(target, header, attributes["chunk_rows"])
        store = cls(target, header, Progress(0, None, (), (), False), attributes)
        store.progress, store._known = store._read_progress()
        store._check_files()
        return store

    def reopen(self, header: RunHeader, rows: int | None, keep: int, state: Checkpoint) -> None:
        """Prepare for more rows, and lock the store for recording.

        Args:
            header: Header of the resumed run.
            rows: Total number of rows, including those on disk; None if unknown.
            keep: Number of rows on disk to keep.
            state: The checkpoint after these rows.

        Raises:
            RunFileError: If another process records into the store, or has since it was loaded, or
                the store holds symbolic links.
        """
        if self.is_zip:
            raise RunFileError(
                self.path, "a zip file cannot be resumed; unpack it and load the directory"
            )
        # before the lock file is written, too
        refuse_links(self.path)
        if self._lock is None:
            self._lock = StoreLock(self.path)
        try:
            now, known = self._read_progress()
            if known != self._known:
                raise RunFileError(
                    self.path,
                    f"has changed since it was loaded: it had {self.count} rows then, {now.rows} "
                    "now; load it again",
                )
            self.header = header
            # the checkpoint counts only the rows to keep before any file changes
            self.commit(keep, state)
            with writing(self.path, self._so_far()):
                # damaged metadata raises now rather than at the end of the run
                self._consolidate()
                self._group().attrs.update(signed(self.path, header_to_text(header)))
                self._resize(max(keep, self.chunk_rows if rows is None else rows))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock: the run ended, or failed."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- rows --------------------------------------------------------------------------------------

    @property
    def is_zip(self) -> bool:
        """Whether it is one zip file."""
        return self.files.is_zip

    @property
    def count(self) -> int:
        """Number of valid rows."""
        return self.progress.rows

    def write(self, start: int, rows: Mapping[str, Array], count: int) -> None:
        """Write a chunk of rows.

        Args:
            start: First row: a multiple of the chunk size.
            rows: Values by key, including "time"; those after the first `count` rows are NaN.
            count: Number of rows.

        Raises:
            RunFileError: If it cannot be written; the rows that the checkpoint counts are kept.
        """
        with writing(self.path, self._so_far()):
            size = self._array("time").shape[0]
            stop = start + self.chunk_rows
            if start + count > size:
                size = max(stop, size + size // 2)
                self._resize(size)
            stop = min(stop, size)
            for key, values in rows.items():
                name = self._name(key)
                self._array(name)[start:stop] = values[: stop - start]
                layout = self._layouts[name]._replace(shape=self._array(name).shape)
                self._unsynced.update(self.path / name / file for file in layout.files(stop, start))

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time".

        Raises:
            RunFileError: If a file is damaged.
        """
        return self.select(key, (slice(start, min(stop, self.count)),))

    def select(self, key: str, place: tuple[int | slice, ...]) -> Array:
        """Return a part of a column, or of "time".

        Args:
            key: Key or name of the column.
            place: Index or slice along each dimension, time first; slices with positive steps.

        Raises:
            RunFileError: If a file is damaged, or the values do not fit into memory.
        """
        name = self._name(key)
        rows = place[0]
        which = f"row {rows}" if isinstance(rows, int) else f"rows {rows.start} to {rows.stop}"
        try:
            return np.asarray(self._array(name)[place], dtype=np.float64)
        except RunFileError as error:
            raise RunFileError(
                self.path, f"{which} of {name} are damaged ({error.problem}), or {OTHER_ROWS}"
            ) from error
        except MemoryError as error:
            raise RunFileError(
                self.path, f"{which} of {name} do not fit into memory; {OTHER_ROWS}"
            ) from error
        except Exception as error:
            raise RunFileError(
                self.path,
                f"{which} of {name} are damaged ({first_line(error)}); restore the files from a "
                f"copy, or {OTHER_ROWS}",
            ) from error

    # -- progress ----------------------------------------------------------------------------------

    def commit(self, rows: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint that counts the rows written so far."""
        self._put_progress(Progress(rows, checkpoint, (), (), False))

    def finish(
        self,
        rows: int,
        checkpoint: Checkpoint | None,
        outcomes: Sequence[Any],
        events: Sequence[Any],
    ) -> None:
        """Write outcomes and events of a run that ended, and release the lock."""
        self._put_progress(Progress(rows, checkpoint, tuple(outcomes), tuple(events), True))
        with writing(self.path, self._so_far()):
            self._resize(rows)
        self._consolidate()
        self._sync()
        self.release()

    def ended(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return outcomes and events; "killed" or "running" for a run that did not end.

        Raises:
            RunFileError: If they are inconsistent with the run.
        """
        model, cases = self.header.model, math.prod(self.header.batch)
        writer = None if self.is_zip else writer_of(self.path)
        try:
            outcomes, events = self.progress.as_loaded(writer, cases, model.nq, model.nv)
            if len(outcomes) not in (0, cases):
                raise ValueError(f"{cases} outcomes expected, got {len(outcomes)}")
        except (ValueError, TypeError, AttributeError) as error:
            raise RunFileError(
                self.path,
                f"its checkpoint is damaged ({first_line(error)}); restore the file from a copy",
            ) from error
        return outcomes, events

    def _read_progress(self) -> tuple[Progress, bytes]:
        """Return the checkpoint on disk, and the checksum of its file."""
        with self.files.open(PROGRESS) as stream:
            if stream.seek(0, os.SEEK_END) > PROGRESS_BYTES:
                raise RunFileError(
                    self.path,
                    f"{PROGRESS} may have {PROGRESS_BYTES / 1e6:.4g} MB, got more; restore it from "
                    "a copy",
                )
            stream.seek(0)
            progress = read_progress(self.path, stream)
            stream.seek(0)
            return progress, hashlib.file_digest(stream, "sha256").digest()  # type: ignore[arg-type]

    def _put_progress(self, progress: Progress) -> None:
        content = progress_to_bytes(progress)
        if len(content) > PROGRESS_BYTES:
            raise RunFileError(
                self.path,
                f"a checkpoint may have {PROGRESS_BYTES / 1e6:.4g} MB, got "
                f"{len(content) / 1e6:.4g} MB; store fewer cases in one run{self._so_far()}",
            )
        # rows are on disk before the checkpoint counts them
        self._sync()
        write_file(
            self.path / PROGRESS,
            content,
            lambda _, problem: RunFileError(self.path, problem + self._so_far()),
        )
        self.progress, self._known = progress, hashlib.sha256(content).digest()
        with writing(self.path, self._so_far()):
            self._array("checkpoint")[...] = progress.rows

    def _sync(self) -> None:
        """Flush written files to disk."""
        with writing(self.path, self._so_far()):
            sync_files(self._unsynced)
        self._unsynced.clear()

    def _so_far(self) -> str:
        """Return the part of an error message about the rows that are on disk."""
        state = self.progress.checkpoint
        if state is None:
            return "; no rows are safe: start the run again"
        if not self.progress.rows:
            return (
                "; no rows are safe yet, but the initial state is, and "
                "tiburon.load_run(...).resume() begins there"
            )
        return (
            f"; {self.progress.rows} rows up to {state.time:.6g} s are safe, and "
            "tiburon.load_run(...).resume() continues from there"
        )

    # -- arrays ------------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        column = self.header.column(key)
        return key if column is None else column.name

    def _group(self) -> Any:
        """Return the Zarr group, whose files are read with bounds."""
        import zarr

        if self._root is None:
            store = guarded_store(self.files, self._layouts, read_only=self.is_zip)
            mode: Any = "r" if self.is_zip else "r+"
            self._root = zarr.open_group(store, mode=mode, use_consolidated=False)
        return self._root

    def _array(self, name: str) -> Any:
        if name not in self._opened:
            column = self.header.column(name)
            shape: tuple[int, ...] | None = None if name == "checkpoint" else ()
            if column is not None:
                shape = self.header.shape(column)
            kind = "int64" if name == "checkpoint" else "float64"
            self._layouts[name] = layout_of(self.files, name, shape, kind, self.chunk_rows)
            try:
                self._opened[name] = self._group()[name]
            except RunFileError:
                raise
            except Exception as error:
                raise RunFileError(
                    self.path,
                    f"array {name!r} is missing or damaged ({first_line(error)}); restore it",
                ) from error
        return self._opened[name]

    def _resize(self, rows: int) -> None:
        for name in ("time", *(column.name for column in self.header.columns)):
            array = self._array(name)
            array.resize((rows, *array.shape[1:]))
            self._unsynced.add(self.path / name / "zarr.json")

    def _consolidate(self) -> None:
        """Consolidate the metadata of all arrays in one file, which readers open faster."""
        import zarr

        with warnings.catch_warnings(), writing(self.path, self._so_far()):
            # a convention that all readers support, though not part of the standard yet
            warnings.simplefilter("ignore")
            try:
                zarr.consolidate_metadata(guarded_store(self.files, {}, read_only=False))
            except (OSError, RunFileError):
                raise
            except Exception as error:
                raise RunFileError(
                    self.path,
                    f"the metadata of one of its arrays is damaged ({first_line(error)}); "
                    "restore the files named zarr.json from a copy",
                ) from error
        self._unsynced.add(self.path / "zarr.json")

    def _check_files(self) -> None:
        """Raise `RunFileError` if chunk files are missing, which Zarr would read as NaN."""
        for name in ("time", *(column.name for column in self.header.columns)):
            self._array(name)
            layout = self._layouts[name]
            if layout.rows < self.count:
                raise RunFileError(
                    self.path,
                    f"array {name!r} must hold {self.count} rows, got {layout.rows}; restore it "
                    "from a copy",
                )
            for file in layout.files(self.count):
                if not self.files.has(f"{name}/{file}"):
                    raise RunFileError(
                        self.path, f"file {name}/{file} is missing; restore it from a copy"
                    )


def save_run(run: "Trajectory", path: Path, *, overwrite: bool = False) -> None:
    """Save a run; `Trajectory.save` describes the arguments.

    The files are written to a temporary directory and moved when they are complete: an earlier run
    at the same path is removed only once the new one is safe.
    """
    if path.exists() and not overwrite:
        raise RunFileError(path, "exists already; choose another name, or pass overwrite=True")
    if path.exists() and not _is_run(path):
        raise RunFileError(
            path, "exists already and is not a run, so it is kept; choose another name"
        )
    writer = writer_of(path) if path.is_dir() else None
    if writer is not None:
        raise RunFileError(path, f"is being recorded by {writer}; choose another name")
    if run.store is not None and run.store.path.resolve() == path.resolve():
        raise RunFileError(path, "holds this run already; choose another name")
    try:
        # a symbolic link is kept, and points to the run
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
            # the source run cannot be read
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
    """Return the error of a run that cannot be saved."""
    kept = "; the existing run is unchanged" if path.exists() else ""
    return RunFileError(
        path,
        f"cannot be written ({reason}){kept}; check the path, free some space or choose another "
        "place, and save again",
    )


def _swap(made: Path, path: Path, spare: Path) -> None:
    """Move a run to its path; an earlier one is removed only once the new one is in place."""
    if made.is_file() and not path.is_dir():
        os.replace(made, path)
        return
    moved = path.exists()
    if moved:
        # directories cannot be replaced atomically
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
        # a part of a run, which cannot be resumed
        store.finish(len(run), None, run.outcomes, run.events)
    elif not {"killed", RUNNING} & set(statuses_of(run.outcomes)) and run.outcomes:
        store.finish(len(run), state, run.outcomes, run.events)
    else:
        # the copy can be resumed as the original can
        store.commit(len(run), state)
        store.release()


def _is_run(path: Path) -> bool:
    try:
        RunStore.open(path)
    except RunFileError as error:
        # a damaged run may be replaced as well
        return "not a run" not in error.problem and "not a saved run" not in error.problem
    return True
