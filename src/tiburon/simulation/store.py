"""Runs on disk: a Zarr directory that any Zarr or xarray reader opens, with a checkpoint inside.

Arrays have time as their first dimension and are written in whole chunks, each file in one stroke
(a new file takes the place of the old one). After each chunk the checkpoint is written the same
way; it says how many rows count. So whenever a run is killed, what the checkpoint speaks of is
there.
"""

import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.simulation.checkpoint_file import Progress, progress_from_bytes, progress_to_bytes
from tiburon.simulation.header_text import header_from_text, header_to_text
from tiburon.simulation.run_header import Checkpoint, Column, RunHeader
from tiburon.version import installed_version

__all__ = ["FORMAT", "VERSION", "RunStore"]

Array = NDArray[np.float64]

FORMAT = "tiburon run"
VERSION = 1
"""Version of the layout that is written; readers take this one and those before it."""

CHUNK_BYTES = 16_000_000
"""Size of one chunk of rows of all columns together, as far as rows are not larger."""

FILE_BYTES = 64_000_000
"""Size of one file at most: large batches are cut by cases as well."""

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
            **_signed(text),
        }
        with _writing(target):
            group = zarr.open_group(target, mode="w", zarr_format=3, attributes=attributes)
            size = chunk_rows if rows is None else rows
            _make_array(group, "time", (size,), (chunk_rows,), ("time",), {"units": "s"})
            for column in header.columns:
                _make_column(group, header, column, size, chunk_rows)
            _make_labels(group, header)
            note = {"about": "number of recorded rows; beside it lies what it takes to go on"}
            _make_array(group, "checkpoint", (), (), (), note, dtype="i8", fill_value=0)
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
        attributes = _read_attributes(target)
        header = header_from_text(target, attributes["run"], model, world)
        progress = progress_from_bytes(target, _read_bytes(target, PROGRESS))
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
        with _writing(self.path):
            self._group("r+").attrs.update(_signed(header_to_text(header)))
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
        with _writing(self.path, self._so_far()):
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
        with _writing(self.path, self._so_far()):
            self._resize(rows)
        self._consolidate()

    def _put_progress(self, progress: Progress) -> None:
        content = progress_to_bytes(progress)
        target = self.path / PROGRESS
        with _writing(self.path, self._so_far()):
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

        with warnings.catch_warnings(), _writing(self.path, self._so_far()):
            # a convention that all readers know, though no part of the standard yet
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.path)

    def _check_files(self) -> None:
        """Refuse a store some of whose files are missing: they would read as numbers unknown."""
        names = _file_names(self.path) if self.is_zip else None
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


def _make_column(group: Any, header: RunHeader, column: Column, size: int, rows: int) -> None:
    shape = header.shape(column)
    chunk = list(shape)
    if header.batch:
        # large batches in several files
        rest = 8 * rows * int(np.prod(shape[1:], dtype=int))
        chunk[0] = min(shape[0], max(1, FILE_BYTES // max(rest, 1)))
    dimensions = ("time", *header.case_dimensions, *([column.dimension] if column.width else []))
    attributes = dict(column.attributes)
    beside = [name for name in column.coordinates if name != column.dimension]
    if beside:
        # where other readers look for what goes along with an array
        attributes["coordinates"] = " ".join(beside)
    _make_array(group, column.name, (size, *shape), (rows, *chunk), dimensions, attributes)


def _make_array(
    group: Any,
    name: str,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dimensions: tuple[str, ...],
    attributes: Mapping[str, Any],
    *,
    dtype: str = "f8",
    fill_value: float = np.nan,
) -> None:
    from zarr.codecs import BloscCodec, Crc32cCodec

    group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=fill_value,
        dimension_names=dimensions,
        attributes=dict(attributes),
        # light: numbers of a motion hardly shrink; the sum tells damage
        compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"), Crc32cCodec()],
        # a chunk of unknown numbers is written too: a missing file means damage
        config={"write_empty_chunks": True},
    )


def _make_labels(group: Any, header: RunHeader) -> None:
    """Write the names along dimensions, so that other readers have them as coordinates."""
    for column in header.columns:
        for name, labels in column.coordinates.items():
            if name not in group:
                array = group.create_array(
                    name, shape=(len(labels),), dtype=str, dimension_names=(column.dimension,)
                )
                array[:] = np.array(labels, dtype=object)


def _signed(text: str) -> dict[str, str]:
    return {"run": text, "run_sha256": hashlib.sha256(text.encode()).hexdigest()}


def _read_attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a store after checking that it is a run, whole, and not too new."""
    try:
        data = json.loads(_read_bytes(path, "zarr.json"))
        attributes: dict[str, Any] = dict(data["attributes"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunFileError(
            path, f"zarr.json is damaged ({error}); restore it from a copy"
        ) from error
    if attributes.get("format") != FORMAT:
        raise RunFileError(
            path,
            f"is a Zarr store but not a run (format must be {FORMAT!r}, got "
            f"{attributes.get('format')!r}); open it with xarray.open_zarr",
        )
    version = attributes.get("version")
    if type(version) is not int or version < 1:
        raise RunFileError(path, f"version must be a whole number, got {version!r}; restore it")
    if version > VERSION:
        raise RunFileError(
            path,
            f"was written in version {version} of the format, this package reads up to {VERSION}; "
            f"update tiburon (it was written by {attributes.get('written_by', 'an unknown one')})",
        )
    text = attributes.get("run")
    if not isinstance(text, str) or _signed(text)["run_sha256"] != attributes.get("run_sha256"):
        raise RunFileError(
            path, "what it says of robot and run is damaged (checksum); restore zarr.json"
        )
    return attributes


def _read_bytes(path: Path, name: str) -> bytes:
    """Return the bytes of one file of a store."""
    try:
        if path.is_file():
            with zipfile.ZipFile(path) as archive:
                return archive.read(name)
        return (path / name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise RunFileError(
            path, f"{name} cannot be read ({error}); it is no saved run, or not whole"
        ) from error


def _file_names(path: Path) -> frozenset[str]:
    with zipfile.ZipFile(path) as archive:
        return frozenset(archive.namelist())


@contextmanager
def _writing(path: Path, safe: str = "") -> Iterator[None]:
    """Tell in our own words what the disk refuses."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunFileError(
            path, f"cannot be written ({reason}); free some room or choose another place{safe}"
        ) from error


def zip_store(store: Path, target: Path) -> None:
    """Put the files of a store into one zip file, in one stroke."""
    buffer = target.with_name(target.name + ".partial")
    with _writing(target):
        try:
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
                for file in sorted(store.rglob("*")):
                    if file.is_file():
                        archive.write(file, file.relative_to(store).as_posix())
            os.replace(buffer, target)
        except OSError:
            buffer.unlink(missing_ok=True)
            raise
