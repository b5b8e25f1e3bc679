"""Runs on disk: a Zarr directory that any Zarr or xarray reader opens, with a checkpoint inside.

Arrays have time as their first dimension and are written in whole chunks, each file in one stroke
(a new file takes the place of the old one). After each chunk the checkpoint is written the same
way; it says how many rows count. So whenever a run is killed, what the checkpoint speaks of is
there.
"""

import hashlib
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.results.checkpoint_file import Progress, progress_to_bytes, read_progress
from tiburon.results.header_text import header_from_text, header_to_text
from tiburon.results.run_header import Checkpoint, RunHeader
from tiburon.results.store_files import (
    FORMAT,
    VERSION,
    check_chunk,
    make_array,
    make_column,
    make_labels,
    read_attributes,
    signed,
    sync_files,
    writing,
)
from tiburon.results.store_guard import (
    PROGRESS_BYTES,
    ArrayLayout,
    RunFiles,
    first_line,
    guarded_store,
    layout_of,
    refuse_links,
)
from tiburon.results.store_lock import StoreLock, writer_of
from tiburon.version import installed_version
from tiburon.written_file import sync_directory, write_file

__all__ = ["RunStore"]

Array = NDArray[np.float64]

CHUNK_BYTES = 16_000_000
"""Size of one chunk of rows of all columns together, as far as rows are not larger."""

MOST_ROWS = 65_536
"""Rows of one chunk at most: those of a small robot would otherwise be on disk late."""

OTHER_ROWS = "read other rows with run.part(...)"

PROGRESS = "checkpoint/progress.npz"
"""Where the checkpoint lies: inside an array, where readers of groups do not look for arrays."""


class RunStore:
    """The rows of a run on disk, and what it takes to go on."""

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
        # checksum of the checkpoint file as this process knows it
        self._known = b""
        # written, but perhaps not yet on the disk
        self._unsynced: set[Path] = set()
        self._lock: StoreLock | None = None

    def __getstate__(self) -> dict[str, Any]:
        # copies and other processes read the files themselves, and do not record
        return {**self.__dict__, "_root": None, "_opened": {}, "_lock": None, "_unsynced": set()}

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: RunHeader,
        rows: int | None,
        start: Checkpoint | None = None,
    ) -> "RunStore":
        """Make a store, and take the right to record into it.

        It is made beside its place and moved there when it is whole.

        Args:
            path: A directory to be; by custom its name ends in ".zarr".
            header: What is known of the run.
            rows: How many rows there will be, where known.
            start: What it takes to begin: with it, a run that is killed before its first rows are
                on disk can be resumed.

        Raises:
            RunFileError: If something is there already, or it cannot be written.
        """
        target = Path(path)
        taken = RunFileError(
            target,
            "is there already; remove it, choose another name, or go on with it by "
            "tiburon.load_run(...).resume()",
        )
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise taken
        chunk_rows = max(1, min(CHUNK_BYTES // header.row_bytes, MOST_ROWS))
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
        """Write the arrays and the first checkpoint."""
        import zarr

        group = zarr.open_group(self.path, mode="w", zarr_format=3, attributes=dict(attributes))
        size = self.chunk_rows if rows is None else rows
        make_array(group, "time", (size,), (self.chunk_rows,), ("time",), {"units": "s"})
        for column in self.header.columns:
            make_column(group, self.header, column, size, self.chunk_rows)
        make_labels(group, self.header)
        note = {"about": "number of recorded rows; beside it lies what it takes to go on"}
        make_array(group, "checkpoint", (), (), (), note, dtype="i8", fill_value=0)
        self._put_progress(Progress(0, start, (), (), False))
        self._consolidate()

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], model: Model | None = None, world: World | None = None
    ) -> "RunStore":
        """Open a store to read, or to go on with.

        Args:
            path: The directory, or a zip file of it.
            model: The robot, for runs of robots that no file can hold.
            world: What surrounds it, likewise.

        Raises:
            RunFileError: If it is not there, not whole, of a later version, or not a run at all.
        """
        target = Path(path)
        try:
            there = target.exists()
        except (OSError, ValueError) as error:
            raise RunFileError(target, f"is no path ({first_line(error)}); correct it") from error
        if not there:
            raise RunFileError(target, "is not there; check the path")
        files = RunFiles(target)
        attributes = read_attributes(files)
        header = header_from_text(target, attributes["run"], model, world)
        check_chunk(target, header, attributes["chunk_rows"])
        store = cls(target, header, Progress(0, None, (), (), False), attributes)
        store.progress, store._known = store._read_progress()
        store._check_files()
        return store

    def reopen(self, header: RunHeader, rows: int | None, keep: int, state: Checkpoint) -> None:
        """Prepare for more rows, and take the right to record them.

        Args:
            header: What is known of the run that goes on.
            rows: How many rows there will be, those on disk counted; None where not known.
            keep: How many of those on disk stay.
            state: The checkpoint that belongs to them.

        Raises:
            RunFileError: If another process records into the store, or has since it was loaded, or
                the store holds links to other places.
        """
        if self.is_zip:
            raise RunFileError(
                self.path, "a zip file cannot be gone on with; unpack it and load the directory"
            )
        # before the lock file, too, is written
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
            # the rows that stay count before any file changes
            self.commit(keep, state)
            with writing(self.path, self._so_far()):
                # what cannot be described in the end is refused at the start
                self._consolidate()
                self._group().attrs.update(signed(self.path, header_to_text(header)))
                self._resize(max(keep, self.chunk_rows if rows is None else rows))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give up the right to record: the run ended, or cannot go on."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- rows --------------------------------------------------------------------------------------

    @property
    def is_zip(self) -> bool:
        """Whether it is one file."""
        return self.files.is_zip

    @property
    def count(self) -> int:
        """Number of rows that count."""
        return self.progress.rows

    def write(self, start: int, rows: Mapping[str, Array], count: int) -> None:
        """Write a chunk of rows.

        Args:
            start: Where it begins: a whole number of chunks.
            rows: By key, "time" among them; after the first `count`, NaN may follow.
            count: How many rows there are.

        Raises:
            RunFileError: If it cannot be written; what the checkpoint speaks of stays.
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
            place: What to take along each dimension, time first; slices with steps above 0.

        Raises:
            RunFileError: If a file is damaged, or memory does not hold that much.
        """
        name = self._name(key)
        rows = place[0]
        told = f"row {rows}" if isinstance(rows, int) else f"rows {rows.start} to {rows.stop}"
        try:
            return np.asarray(self._array(name)[place], dtype=np.float64)
        except RunFileError as error:
            raise RunFileError(
                self.path, f"{told} of {name} are damaged ({error.problem}), or {OTHER_ROWS}"
            ) from error
        except MemoryError as error:
            raise RunFileError(
                self.path, f"{told} of {name} do not fit into memory; {OTHER_ROWS}"
            ) from error
        except Exception as error:
            raise RunFileError(
                self.path,
                f"{told} of {name} are damaged ({first_line(error)}); restore the files from a "
                f"copy, or {OTHER_ROWS}",
            ) from error

    # -- progress ----------------------------------------------------------------------------------

    def commit(self, rows: int, checkpoint: Checkpoint) -> None:
        """Let rows count that were written, and keep what it takes to go on after them."""
        self._put_progress(Progress(rows, checkpoint, (), (), False))

    def finish(
        self,
        rows: int,
        checkpoint: Checkpoint | None,
        outcomes: Sequence[Any],
        events: Sequence[Any],
    ) -> None:
        """Write down how the run ended, and let others record."""
        self._put_progress(Progress(rows, checkpoint, tuple(outcomes), tuple(events), True))
        with writing(self.path, self._so_far()):
            self._resize(rows)
        self._consolidate()
        self._sync()
        self.release()

    def ended(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return outcomes and events; of a run that did not end, whether it was killed or runs on.

        Raises:
            RunFileError: If they do not fit the run.
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
        # rows are on the disk before they count
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
        """Flush what was written to the disk."""
        with writing(self.path, self._so_far()):
            sync_files(self._unsynced)
        self._unsynced.clear()

    def _so_far(self) -> str:
        """Say what is safe on disk."""
        state = self.progress.checkpoint
        if state is None:
            return "; no rows are safe: start the run again"
        if not self.progress.rows:
            return (
                "; no rows are safe yet, but the start of the run is, and "
                "tiburon.load_run(...).resume() begins there"
            )
        return (
            f"; {self.progress.rows} rows up to {state.time:.6g} s are safe, and "
            "tiburon.load_run(...).resume() goes on from there"
        )

    # -- arrays ------------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        column = self.header.column(key)
        return key if column is None else column.name

    def _group(self) -> Any:
        """Return the Zarr group, whose files are read through the guard."""
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
        """Put all descriptions in one file, which readers open faster."""
        import zarr

        with warnings.catch_warnings(), writing(self.path, self._so_far()):
            # a convention that all readers know, though no part of the standard yet
            warnings.simplefilter("ignore")
            try:
                zarr.consolidate_metadata(guarded_store(self.files, {}, read_only=False))
            except (OSError, RunFileError):
                raise
            except Exception as error:
                raise RunFileError(
                    self.path,
                    f"the description of one of its arrays is damaged ({first_line(error)}); "
                    "restore the files named zarr.json from a copy",
                ) from error
        self._unsynced.add(self.path / "zarr.json")

    def _check_files(self) -> None:
        """Refuse a store some of whose files are missing: they would read as numbers unknown."""
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
