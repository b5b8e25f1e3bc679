"""Runs on disk: a Zarr directory that any Zarr or xarray reader opens, with a checkpoint inside.

Arrays have time as their first dimension and are written in whole chunks, each file in one stroke
(a new file takes the place of the old one). After each chunk the checkpoint is written the same
way; it says how many rows count. So whenever a run is killed, what the checkpoint speaks of is
there.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.simulation.checkpoint_file import Progress, progress_from_bytes, progress_to_bytes
from tiburon.simulation.header_text import header_from_text, header_to_text
from tiburon.simulation.run_header import Checkpoint, RunHeader
from tiburon.simulation.store_files import (
    FORMAT,
    VERSION,
    file_names,
    make_array,
    make_column,
    make_labels,
    read_attributes,
    read_bytes,
    signed,
    writing,
)
from tiburon.version import installed_version

__all__ = ["RunStore"]

Array = NDArray[np.float64]

CHUNK_BYTES = 16_000_000
"""Size of one chunk of rows of all columns together, as far as rows are not larger."""

MOST_ROWS = 65_536
"""Rows of one chunk at most: those of a small robot would otherwise be on disk late."""

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
        self._opened: dict[str, Any] = {}

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], header: RunHeader, rows: int | None
    ) -> "RunStore":
        """Make a store.

        Args:
            path: A directory to be; by custom its name ends in ".zarr".
            header: What is known of the run.
            rows: How many rows there will be, where known.

        Raises:
            RunFileError: If something is there already, or it cannot be written.
        """
        import zarr

        target = Path(path)
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise RunFileError(
                target,
                "is there already; remove it, choose another name, or go on with it by "
                "tiburon.load_run(...).resume()",
            )
        chunk_rows = max(1, min(CHUNK_BYTES // header.row_bytes, MOST_ROWS))
        if rows is not None:
            chunk_rows = max(1, min(chunk_rows, rows))
        text = header_to_text(header)
        attributes: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": f"tiburon {installed_version()}",
            "chunk_rows": chunk_rows,
            "title": f"{header.model.name}: simulated motion",
            **signed(text),
        }
        with writing(target):
            group = zarr.open_group(target, mode="w", zarr_format=3, attributes=attributes)
            size = chunk_rows if rows is None else rows
            make_array(group, "time", (size,), (chunk_rows,), ("time",), {"units": "s"})
            for column in header.columns:
                make_column(group, header, column, size, chunk_rows)
            make_labels(group, header)
            note = {"about": "number of recorded rows; beside it lies what it takes to go on"}
            make_array(group, "checkpoint", (), (), (), note, dtype="i8", fill_value=0)
        store = cls(target, header, Progress(0, None, (), (), False), attributes)
        store._put_progress(store.progress)
        store._consolidate()
        return store

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
        if not target.exists():
            raise RunFileError(target, "is not there; check the path")
        attributes = read_attributes(target)
        header = header_from_text(target, attributes["run"], model, world)
        progress = progress_from_bytes(target, read_bytes(target, PROGRESS))
        store = cls(target, header, progress, attributes)
        store._check_files()
        return store

    def reopen(self, header: RunHeader, rows: int | None, keep: int, state: Checkpoint) -> None:
        """Prepare for more rows.

        Args:
            header: What is known of the run that goes on.
            rows: How many rows there will be, those on disk counted; None where not known.
            keep: How many of those on disk stay.
            state: The checkpoint that belongs to them.
        """
        if self.is_zip:
            raise RunFileError(
                self.path, "a zip file cannot be gone on with; unpack it and load the directory"
            )
        self.header = header
        # the rows that stay count before any file changes
        self.commit(keep, state)
        with writing(self.path):
            self._group("r+").attrs.update(signed(header_to_text(header)))
            self._resize(max(keep, self.chunk_rows if rows is None else rows))

    # -- rows --------------------------------------------------------------------------------------

    @property
    def is_zip(self) -> bool:
        """Whether it is one file."""
        return self.path.is_file()

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

    def read(self, key: str, start: int, stop: int) -> Array:
        """Return some rows of a column, or of "time".

        Raises:
            RunFileError: If a file is damaged.
        """
        stop = min(stop, self.count)
        try:
            return np.asarray(self._array(self._name(key))[start:stop], dtype=np.float64)
        except Exception as error:
            raise RunFileError(
                self.path,
                f"rows {start} to {stop} of {self._name(key)} are damaged "
                f"({str(error).splitlines()[0][:200]}); restore the files from a copy, or read "
                "other rows with run.part(...)",
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
        """Write down how the run ended."""
        self._put_progress(Progress(rows, checkpoint, tuple(outcomes), tuple(events), True))
        with writing(self.path, self._so_far()):
            self._resize(rows)
        self._consolidate()

    def _put_progress(self, progress: Progress) -> None:
        content = progress_to_bytes(progress)
        target = self.path / PROGRESS
        with writing(self.path, self._so_far()):
            spare = target.with_suffix(".partial")
            try:
                spare.write_bytes(content)
                os.replace(spare, target)
            except OSError:
                spare.unlink(missing_ok=True)
                raise
            self._array("checkpoint")[...] = progress.rows
        self.progress = progress

    def _so_far(self) -> str:
        """Say what is safe on disk."""
        state = self.progress.checkpoint
        if state is None:
            return ""
        return (
            f"; {self.progress.rows} rows up to {state.time:.6g} s are safe, and "
            "tiburon.load_run(...).resume() goes on from there"
        )

    # -- arrays ------------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        column = self.header.column(key)
        return key if column is None else column.name

    def _group(self, mode: str) -> Any:
        import zarr

        if self.is_zip:
            return zarr.open_group(
                zarr.storage.ZipStore(self.path, mode="r"), mode="r", use_consolidated=False
            )
        return zarr.open_group(self.path, mode=mode, use_consolidated=False)  # type: ignore[arg-type]

    def _array(self, name: str) -> Any:
        if name not in self._opened:
            self._opened[name] = self._group("r" if self.is_zip else "r+")[name]
        return self._opened[name]

    def _resize(self, rows: int) -> None:
        for name in ("time", *(column.name for column in self.header.columns)):
            array = self._array(name)
            array.resize((rows, *array.shape[1:]))

    def _consolidate(self) -> None:
        """Put all descriptions in one file, which readers open faster."""
        import zarr

        with warnings.catch_warnings(), writing(self.path, self._so_far()):
            # a convention that all readers know, though no part of the standard yet
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.path)

    def _check_files(self) -> None:
        """Refuse a store some of whose files are missing: they would read as numbers unknown."""
        names = file_names(self.path) if self.is_zip else None
        for key in ("time", *(column.name for column in self.header.columns)):
            try:
                chunks = self._array(key).chunks
                shape = self._array(key).shape
            except Exception as error:
                raise RunFileError(
                    self.path, f"array {key!r} is missing or damaged ({error}); restore it"
                ) from error
            used = (self.count, *shape[1:])
            grid = [-(-n // c) for n, c in zip(used, chunks, strict=True)]
            for place in np.ndindex(*grid):
                file = f"{key}/c/{'/'.join(map(str, place))}"
                there = file in names if names is not None else (self.path / file).is_file()
                if not there:
                    raise RunFileError(self.path, f"file {file} is missing; restore it from a copy")
