"""Runs on disk: a Zarr directory that any Zarr or xarray reader opens, with a checkpoint inside.

Arrays have time as their first dimension and are written in whole chunks; each file is replaced
atomically. After each chunk the checkpoint, which contains the number of valid rows, is written the
same way. A killed run therefore always has all rows that its checkpoint counts.

A store is a directory or a zip file. Only its regular files are opened, and each is read only up to
the size that the known metadata allows. Array metadata is checked before Zarr reads it, since Zarr
allocates whatever a file claims.

One process at a time records into a store. The operating system's lock on a file inside the store
ends with the process that holds it, so that a killed run can be resumed at once. The file also
names its owner; on a file system without locks, the owner holds the lock while it is alive.
"""

import asyncio
import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import socket
import stat
import struct
import time
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.errors import RunFileError
from tiburon.model import Model, World
from tiburon.operating_system import at_fork, lock_file, open_flags, process_exists
from tiburon.regular_file import open_regular_file, read_regular_file
from tiburon.results.checkpoint import (
    PROGRESS_BYTES,
    Checkpoint,
    Progress,
    progress_to_bytes,
    read_progress,
)
from tiburon.results.encoding import first_line, header_from_text, header_to_text
from tiburon.results.header import Column, RunHeader
from tiburon.results.outcome import RUNNING, statuses_of
from tiburon.version import installed_version
from tiburon.written_file import (
    move_into_place,
    remove_leftovers,
    replacing,
    sync_directory,
    temporary_directory,
    write_file,
)

if TYPE_CHECKING:
    from tiburon.results.trajectory import Trajectory


FORMAT = "tiburon run"
VERSION = 2
"""Version of the layout that is written; readers accept this one and earlier ones. Since version 2
chunks and checkpoints are bound to their run."""

FILE_BYTES = 64_000_000
"""Largest file that is written [bytes]: large batches are split by cases as well."""

HEADER_BYTES = 256 * 2**20
"""Largest header; those of batches hold the parameters of each case [bytes]."""

METADATA_BYTES = 2**20
"""Largest metadata of one array [bytes]."""

MAX_CHUNK_BYTES = 256 * 2**20
"""Largest uncompressed chunk of an array that is read [bytes]; see `FILE_BYTES`."""

MAX_READ_ROWS = 2**24
"""Most rows of a chunk that is read."""

MAX_ARRAY_SIZE = 2**48
"""Largest size of an array along a dimension that is read."""

ZIP_BYTES = 64 * 2**20
ZIP_RATIO = 20
"""A zip file may unpack to `ZIP_BYTES` plus `ZIP_RATIO` times its size; runs compress little."""

ZIP_FILES = 1_000_000
"""Most files in a zip file."""

CODECS = ("bytes", "blosc", "crc32c")
"""Codecs of the chunks of a run, in this order."""

BLOSC = {"typesize": 8, "cname": "lz4", "clevel": 1, "shuffle": "shuffle", "blocksize": 0}
"""Settings of the Blosc codec: fast, since recorded motion compresses little."""

BLOSC_HEADER = struct.Struct("<4x3I")
"""Header of a Blosc frame: uncompressed size, block size, compressed size [bytes]."""

CHECKSUMS = "checksums"
"""File inside an array: two checksums per chunk file, of the chunk that is written next or was
written last, and of the one before. A run that is killed in between has either."""

CHECKSUM_BYTES = 16
"""Size of a checksum of a chunk [bytes]."""

LOCK = "checkpoint/lock"
"""Path of the lock file: inside an array, where readers of groups do not look for arrays."""

LOCK_SECONDS = 1.0
"""Wall-clock time to wait for readers, who hold the lock briefly to test whether it is free [s]."""


# -- bounded reading -------------------------------------------------------------------------------


class RunFiles:
    """The files of a run, by their names inside the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_zip = path.is_file()

    def __reduce__(self) -> tuple[Any, ...]:
        # an open zip file cannot be pickled
        return RunFiles, (self.path,)

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Return some bytes of a file; fewer if it ends before.

        Raises:
            RunFileError: If it is missing, damaged or not a regular file.
        """
        with self.open(name) as stream:
            stream.seek(start)
            return stream.read(size)

    def has(self, name: str) -> bool:
        """Return whether a regular file of that name exists."""
        if self.is_zip:
            return name in self._archive[1]
        return (self.path / name).is_file()

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file.

        Args:
            name: Such as "zarr.json".
            most: Largest size to read [bytes].

        Raises:
            RunFileError: If it is missing, too large, damaged or not a regular file.
        """
        if self.is_zip:
            with self.open(name) as stream:
                content = stream.read(most + 1)
            if len(content) > most:
                raise self._problem(name, f"it may have {most / 2**20:.3g} MB, got more")
            return content
        return read_regular_file(
            self.path / name,
            most,
            f"{name} of a run",
            "restore it from a copy",
            error=lambda _, problem: self._problem(name, problem),
        )

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for reading.

        Raises:
            RunFileError: If it is missing, damaged or not a regular file.
        """
        if not self.is_zip:
            with open_regular_file(
                self.path / name, "a saved run", lambda _, problem: self._problem(name, problem)
            ) as file:
                yield file
            return
        archive, members = self._archive
        if name not in members:
            raise self._problem(name, "no such file")
        try:
            with archive.open(members[name]) as member:
                yield member
        except RunFileError:
            raise
        except Exception as error:
            raise self._problem(name, first_line(error)) from error

    def _problem(self, name: str, problem: str) -> RunFileError:
        return RunFileError(
            self.path,
            f"{name} cannot be read ({problem}); it is not a saved run, or incomplete: restore it "
            "from a copy",
        )

    @cached_property
    def _archive(self) -> tuple[zipfile.ZipFile, Mapping[str, zipfile.ZipInfo]]:
        """The zip file, and its members by name."""
        try:
            archive = zipfile.ZipFile(self.path)
            members = {info.filename: info for info in archive.infolist()}
            packed = self.path.stat().st_size
        except Exception as error:
            raise RunFileError(
                self.path, f"is not a saved run, or incomplete ({first_line(error)}); restore it"
            ) from error
        size = sum(info.file_size for info in members.values())
        most = ZIP_BYTES + ZIP_RATIO * packed
        if size > most or len(members) > ZIP_FILES:
            archive.close()
            raise RunFileError(
                self.path,
                f"unpacks to {size / 1e6:.4g} MB in {len(members)} files, expected at most "
                f"{most / 1e6:.4g} MB in {ZIP_FILES}; unpack it yourself if you trust it, and load "
                "the directory",
            )
        return archive, members


def refuse_links(path: Path) -> None:
    """Check that a store holds no symbolic links, which would redirect writes to other files.

    Args:
        path: Directory of the store; it may be a symbolic link itself.

    Raises:
        RunFileError: If it holds one, or a directory cannot be listed.
    """
    waiting = [path]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        name = Path(entry.path).relative_to(path).as_posix()
                        raise RunFileError(
                            path,
                            f"{name} is a link, through which other files would be written; put a "
                            "copy of what it leads to in its place",
                        )
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
    except OSError as error:
        raise RunFileError(
            path, f"cannot be listed ({error.strerror}); check who may read it"
        ) from error


_UNFINISHED = re.compile(r".*\.[0-9a-f]{32}\.partial")
"""Names under which Zarr writes files before it moves them."""


def remove_unfinished(path: Path) -> None:
    """Remove the files that Zarr was writing in a store when its process was killed.

    Args:
        path: Directory of a store into which no other process writes.
    """
    for folder, _, files in os.walk(path):
        for name in filter(_UNFINISHED.fullmatch, files):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


class ArrayLayout(NamedTuple):
    """Checked layout of an array on disk."""

    rows: int
    """Size of its first dimension; 0 for a scalar."""

    shape: tuple[int, ...]
    """Its shape."""

    chunks: tuple[int, ...]
    """Shape of a chunk."""

    @property
    def chunk_bytes(self) -> int:
        """Size of a chunk [bytes]."""
        return 8 * math.prod(self.chunks)

    @property
    def packed_bytes(self) -> int:
        """Largest size of a chunk file [bytes]: incompressible data grows by a few headers."""
        return self.chunk_bytes + self.chunk_bytes // 16 + 4096

    def number(self, place: Sequence[int]) -> int:
        """Return the number of a chunk file from its indices; chunks of a row are consecutive."""
        found = 0
        for index, size, chunk in zip(place, self.shape, self.chunks, strict=True):
            # the number of rows may grow, and does not enter: the first factor is multiplied by 0
            found = found * -(-size // chunk) + index
        return found

    def files(self, stop: int, start: int = 0) -> Iterator[str]:
        """Iterate over the names of the chunk files, inside the array, that hold some rows.

        Args:
            stop: Row after the last.
            start: First row.
        """
        used = (stop, *self.shape[1:])
        grid = [-(-n // c) for n, c in zip(used, self.chunks, strict=True)]
        first = start // self.chunks[0] * math.prod(grid[1:])
        for number in range(first, math.prod(grid)):
            place: list[str] = []
            for count in reversed(grid):
                number, index = divmod(number, count)
                place.append(str(index))
            yield "/".join(["c", *reversed(place)])


def layout_of(
    files: RunFiles, name: str, shape: tuple[int, ...] | None, kind: str, chunk_rows: int
) -> ArrayLayout:
    """Return the layout of an array after checking its metadata.

    Args:
        files: The store.
        name: Name of the array.
        shape: Shape of one row; None for a scalar.
        kind: Data type, such as "float64".
        chunk_rows: Rows of one chunk.

    Raises:
        RunFileError: If its metadata is damaged, or does not match the run.
    """
    content = files.read(f"{name}/zarr.json", METADATA_BYTES)
    try:
        data = json.loads(content)
        given = [_size(n) for n in data["shape"]]
        chunks = [_size(n) for n in data["chunk_grid"]["configuration"]["chunk_shape"]]
        found = {
            "zarr_format": data["zarr_format"],
            "node_type": data["node_type"],
            "data_type": data["data_type"],
            "chunk grid": data["chunk_grid"]["name"],
            "chunk keys": (
                data["chunk_key_encoding"]["name"],
                data["chunk_key_encoding"].get("configuration", {}).get("separator", "/"),
            ),
            "codecs": tuple(codec["name"] for codec in data["codecs"]),
            "codec settings": [codec.get("configuration", {}) for codec in data["codecs"]][1:],
            "storage transformers": list(data.get("storage_transformers", ())),
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFileError(
            files.path, f"array {name!r}: zarr.json is damaged ({first_line(error)}); restore it"
        ) from error
    expected: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "data_type": kind,
        "chunk grid": "regular",
        "chunk keys": ("default", "/"),
        "codecs": CODECS,
        "codec settings": [BLOSC, {}],
        "storage transformers": [],
    }
    wrong = [key for key, value in expected.items() if found[key] != value]
    if wrong:
        key = wrong[0]
        raise RunFileError(
            files.path,
            f"array {name!r}: {key} must be {expected[key]}, got {str(found[key])[:80]}; restore "
            f"{name}/zarr.json from a copy",
        )
    rows = given[0] if given and shape is not None else 0
    wanted = [] if shape is None else [rows, *shape]
    fitting = len(chunks) == len(given) and all(n >= 1 for n in chunks)
    if given != wanted or not fitting or (shape is not None and chunks[0] != chunk_rows):
        raise RunFileError(
            files.path,
            f"array {name!r}: expected rows of shape {shape} in chunks of {chunk_rows} rows, got "
            f"shape {given} in chunks of {chunks}; restore {name}/zarr.json from a copy",
        )
    found_layout = ArrayLayout(rows, tuple(given), tuple(chunks))
    if found_layout.chunk_bytes > MAX_CHUNK_BYTES:
        raise RunFileError(
            files.path,
            f"array {name!r}: a chunk may have {MAX_CHUNK_BYTES / 1e6:.4g} MB, got "
            f"{found_layout.chunk_bytes / 1e6:.4g} MB; restore {name}/zarr.json from a copy",
        )
    return found_layout


def _size(number: Any) -> int:
    """Return a size that a file states."""
    if type(number) is not int or not 0 <= number <= MAX_ARRAY_SIZE:
        raise ValueError(
            f"sizes must be whole numbers from 0 to {MAX_ARRAY_SIZE}, got {number!r:.40}"
        )
    return number


class BoundChunks:
    """Checksums of the chunks of a run, over content, run, array and place.

    A chunk of another run, array or place is therefore not taken for this one, and neither is one
    that comes with its checksums.
    """

    def __init__(self, files: RunFiles, layouts: Mapping[str, ArrayLayout], identity: str) -> None:
        """Bind chunks to a run.

        Args:
            files: The files of the run.
            layouts: Layouts of its arrays; entries may be added later.
            identity: Text that no other run has.
        """
        self.files = files
        self.layouts = layouts
        self.identity = identity

    def check(self, key: str, content: bytes) -> None:
        """Raise `RunFileError` if a chunk is not that of this run and place."""
        if self._checksum(key, content) not in self._known(key):
            raise RunFileError(
                self.files.path,
                f"{key} is damaged, or a chunk of another run; restore it from a copy",
            )

    def note(self, key: str, content: Any) -> None:
        """Write the checksum of a chunk that is about to be written.

        The checksum of a chunk that is replaced is kept, and flushed to disk before.
        """
        before = b""
        if self.files.has(key):
            largest = self.layouts[key.split("/")[0]].packed_bytes
            earlier = self._checksum(key, self.files.read(key, largest))
            before = earlier if earlier in self._known(key) else b""
        name, start = self._place(key)
        extra = open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
        handle = os.open(self.files.path / name, os.O_RDWR | os.O_CREAT | extra, 0o666)
        try:
            os.lseek(handle, start, os.SEEK_SET)
            os.write(handle, self._checksum(key, content) + before.ljust(CHECKSUM_BYTES, b"\0"))
            if before:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _known(self, key: str) -> tuple[bytes, ...]:
        name, start = self._place(key)
        if not self.files.has(name):
            return ()
        both = self.files.read_part(name, start, 2 * CHECKSUM_BYTES)
        return both[:CHECKSUM_BYTES], both[CHECKSUM_BYTES:]

    def _place(self, key: str) -> tuple[str, int]:
        """Return the file that holds the checksums of a chunk, and where they begin [bytes]."""
        name, _, *place = key.split("/")
        number = self.layouts[name].number([int(index) for index in place])
        return f"{name}/{CHECKSUMS}", 2 * CHECKSUM_BYTES * number

    def _checksum(self, key: str, content: Any) -> bytes:
        bound = hashlib.blake2b(f"{self.identity}/{key}".encode()).digest()
        return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES, key=bound).digest()


def guarded_store(
    files: RunFiles,
    layouts: Mapping[str, ArrayLayout],
    *,
    read_only: bool,
    bound: BoundChunks | None = None,
) -> Any:
    """Return a Zarr store that reads through `RunFiles`, and writes as Zarr does.

    Args:
        files: The files of a run.
        layouts: Layouts of all arrays that may be read; entries may be added later.
        read_only: Whether the store is read-only.
        bound: Checks chunks that are read, and registers those that are written.
    """
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    def content(key: str) -> bytes | None:
        if not files.has(key):
            return None
        name, *place = key.split("/")
        if place[:1] != ["c"]:
            return files.read(key, METADATA_BYTES if place else HEADER_BYTES)
        layout = layouts[name]
        packed = files.read(key, layout.packed_bytes)
        if (
            len(packed) < BLOSC_HEADER.size
            or BLOSC_HEADER.unpack_from(packed)[0] != layout.chunk_bytes
        ):
            raise RunFileError(files.path, f"{key} is damaged; restore it from a copy")
        if bound is not None and is_rows(key):
            bound.check(key, packed)
        return packed

    def is_rows(key: str) -> bool:
        """Return whether a file is a chunk of rows: a scalar has no indices."""
        return key.split("/")[1:2] == ["c"] and key.count("/") > 1

    def note(key: str, value: Any) -> None:
        if bound is not None and is_rows(key):
            bound.note(key, value.as_numpy_array())

    class GuardedStore(LocalStore):
        """Reads regular files of bounded size only."""

        def with_read_only(self, read_only: bool = False) -> Any:
            return GuardedStore(self.root, read_only=read_only)

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            found = await asyncio.to_thread(content, key)
            return self._as_buffer(found, prototype, byte_range)

        def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
            return self._as_buffer(content(key), prototype, byte_range)

        async def set(self, key: str, value: Any) -> None:
            await asyncio.to_thread(note, key, value)
            await super().set(key, value)

        def set_sync(self, key: str, value: Any) -> None:
            note(key, value)
            super().set_sync(key, value)

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
            return [await self.get(key, prototype, part) for key, part in key_ranges]

        def _as_buffer(self, found: bytes | None, prototype: Any, byte_range: Any) -> Any:
            if byte_range is not None:
                raise RunFileError(files.path, "chunks of runs are read whole")
            if found is None:
                return None
            return (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    return GuardedStore(files.path, read_only=read_only)


# -- array files -----------------------------------------------------------------------------------


def make_column(group: Any, header: RunHeader, column: Column, size: int, rows: int) -> None:
    """Make the array of a column."""
    shape = header.shape(column)
    chunk = [max(1, size) for size in shape]
    for k in range(len(header.batch)):
        # split large batches into several files
        rest = 8 * rows * math.prod(chunk) // chunk[k]
        chunk[k] = min(chunk[k], max(1, FILE_BYTES // rest))
    dimensions = ("time", *header.case_dimensions, *([column.dimension] if column.width else []))
    attributes = dict(column.attributes)
    beside = [name for name in column.coordinates if name != column.dimension]
    if beside:
        # where other readers look for the coordinates of an array
        attributes["coordinates"] = " ".join(beside)
    make_array(group, column.name, (size, *shape), (rows, *chunk), dimensions, attributes)


def make_array(
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
    """Make an array whose chunk files end in a checksum."""
    from zarr.codecs import BloscCodec, Crc32cCodec

    group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=fill_value,
        dimension_names=dimensions,
        attributes=dict(attributes),
        compressors=[BloscCodec(**BLOSC), Crc32cCodec()],  # type: ignore[arg-type]
        # chunks of NaN are written too, so that a missing file means damage
        config={"write_empty_chunks": True},
    )


def make_labels(group: Any, columns: Sequence[Column]) -> None:
    """Write the names along dimensions, which other readers use as coordinates."""
    written = set()
    for column in columns:
        for name, labels in column.coordinates.items():
            if name not in written:
                written.add(name)
                array = group.create_array(
                    name, shape=(len(labels),), dtype=str, dimension_names=(column.dimension,)
                )
                array[:] = np.array(labels, dtype=object)


def signed(path: Path, text: str) -> dict[str, str]:
    """Return the text of a header as attributes, with its checksum.

    Raises:
        RunFileError: If the text is longer than readers accept.
    """
    if len(text) > HEADER_BYTES // 2:
        raise RunFileError(
            path,
            f"parameters of all cases take {len(text) / 1e6:.4g} MB, expected at most "
            f"{HEADER_BYTES // 2 / 1e6:.4g} MB; store fewer cases in one run",
        )
    return signed_header("run", text)


def signed_header(key: str, text: str) -> dict[str, str]:
    """Return the attributes that hold the header of a store, with a checksum."""
    return {key: text, f"{key}_sha256": _checksum(text)}


def _checksum(text: str) -> str:
    """Return the checksum of a text; lone surrogates are accepted."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def checked_attributes(
    files: RunFiles, key: str, kind: str, version: int, advice: Callable[[str], str]
) -> dict[str, Any]:
    """Return the attributes of a store after checking format, version and checksum of its header.

    Args:
        files: Files of the store.
        key: Attribute that holds the header.
        kind: What the attribute "format" must be.
        version: Latest version that can be read.
        advice: Called with another format: what to do with such a store.
    """
    path = files.path
    try:
        data = json.loads(files.read("zarr.json", HEADER_BYTES))
        attributes: dict[str, Any] = dict(data["attributes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunFileError(
            path, f"zarr.json is damaged ({first_line(error)}); restore it from a copy"
        ) from error
    found = attributes.get("format")
    if found != kind:
        shown = str(found)[:80]
        raise RunFileError(
            path,
            f"is a Zarr store but not a {key} (format must be {kind!r}, got {shown!r}); "
            f"{advice(shown)}",
        )
    written = attributes.get("version")
    if type(written) is not int or written < 1:
        raise RunFileError(
            path, f"version must be a whole number, got {str(written)[:80]!r}; restore it"
        )
    if written > version:
        writer = str(attributes.get("written_by", "an unknown one"))[:80]
        raise RunFileError(
            path,
            f"was written in version {written} of the format, this package reads up to {version}; "
            f"update tiburon (it was written by {writer})",
        )
    text = attributes.get(key)
    if not isinstance(text, str) or _checksum(text) != attributes.get(f"{key}_sha256"):
        raise RunFileError(path, "its header is damaged (checksum); restore zarr.json from a copy")
    return attributes


@contextmanager
def writing(path: Path, safe: str = "") -> Iterator[None]:
    """Raise `RunFileError` in place of an operating system error."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunFileError(
            path, f"cannot be written ({reason}); free some space or choose another place{safe}"
        ) from error


def sync_files(files: Iterable[Path]) -> None:
    """Flush files to disk; files that were removed are skipped."""
    folders = set()
    for file in files:
        with suppress(FileNotFoundError):
            # Windows flushes only files opened for writing
            handle = os.open(file, os.O_RDWR | open_flags("O_BINARY"))
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            folders.add(file.parent)
    for folder in folders:
        sync_directory(folder)


def zip_store(store: Path, target: Path) -> None:
    """Write the files of a store to one zip file, atomically."""
    with replacing(target, RunFileError) as stream, zipfile.ZipFile(stream, "w") as archive:
        for file in sorted(store.rglob("*")):
            if file.is_file() and file.relative_to(store).as_posix() != LOCK:
                archive.write(file, file.relative_to(store).as_posix())


OWNER_BYTES = 1000
"""Most that is read of the owner's name."""


# -- lock ------------------------------------------------------------------------------------------


class StoreLock:
    """Exclusive lock on a store, held until it is released or the process ends."""

    def __init__(self, path: Path) -> None:
        """Acquire the lock of a store.

        Args:
            path: Directory of the store.

        Raises:
            RunFileError: If another process, or another run of this one, records into it.
        """
        self._file: int | None = None
        try:
            file = _open_lock(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunFileError(
                path,
                f"{LOCK} cannot be written ({os.strerror(error.errno or 0)}); check who may write "
                "into the directory",
            ) from error
        try:
            if not _acquire(file, LOCK_SECONDS):
                raise RunFileError(
                    path,
                    f"is being recorded by {_describe_owner(file)}; wait until it ends, or stop "
                    "it, and load the run again",
                )
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
            _write_owner(file, json.dumps(owner).encode())
        except BaseException:
            os.close(file)
            raise
        self._file = file
        _held.add(self)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                _write_owner(self._file, b"")
            os.close(self._file)
            self._file = None

    def forget(self) -> None:
        """Close the lock file in a forked child; the parent process keeps the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.release()


_held: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()
"""Locks held by this process."""


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


# a forked worker would keep the lock when the recording process is killed
at_fork(in_child=_forget_all)


def writer_of(path: Path) -> str | None:
    """Return a description of the process that records into a store; None if none does."""
    try:
        file = _open_lock(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _acquire(file, 0.0, shared=True) else _describe_owner(file)
    finally:
        os.close(file)


def _open_lock(path: Path, flags: int) -> int:
    """Open the lock file of a store, which must be a regular file and no link."""
    extra = open_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    file = os.open(path / LOCK, flags | extra, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(22, "not a regular file")
    return file


def _acquire(file: int, timeout: float, *, shared: bool = False) -> bool:
    """Return whether a lock was acquired within a timeout [s]; closing the file releases it."""
    end = time.monotonic() + timeout
    while True:
        try:
            lock_file(file, shared)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            # a file system without locks
            return not _is_alive(_owner(file))


def _write_owner(file: int, content: bytes) -> None:
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, content)


def _owner(file: int) -> dict[str, Any]:
    """Return the owner named in a lock file; empty where the file is empty or damaged."""
    try:
        os.lseek(file, 0, os.SEEK_SET)
        found = json.loads(os.read(file, OWNER_BYTES))
        pid, host, since = int(found["pid"]), str(found["host"])[:80], float(found["since"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}
    return {"pid": pid, "host": host, "since": since}


def _is_alive(owner: dict[str, Any]) -> bool:
    """Return whether the owner of a lock may still be running."""
    if not owner:
        return False
    # processes of other machines cannot be tested
    return owner["host"] != socket.gethostname() or process_exists(owner["pid"])


def _describe_owner(file: int) -> str:
    """Return a description of the owner of a lock."""
    owner = _owner(file)
    if not owner:
        return "another process"
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
    except (OSError, ValueError, OverflowError):
        since = "an unknown time"
    return f"process {owner['pid']} on {owner['host']} since {since}"


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
        self.identity: str = attributes.get("identity", "")
        self.files = RunFiles(path)
        self._root: Any = None
        self._opened: dict[str, Any] = {}
        self._layouts: dict[str, ArrayLayout] = {}
        # checksum of the checkpoint file that this process last read or wrote
        self._known = b""
        # files written, but perhaps not yet synced to disk
        self._unsynced: set[Path] = set()
        # whether the metadata of all arrays in one file is that of the arrays
        self._consolidated = False
        self._lock: StoreLock | None = None
        self._is_read_only = True

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
        remove_leftovers(target.parent)
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
            "identity": secrets.token_hex(16),
            "title": f"{header.model.name}: simulated motion",
            **signed(target, header_to_text(header)),
        }
        with writing(target, "; no rows are safe: start the run again"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary_directory(target) as spare:
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
            sync_directory(target.parent)
        store = cls(target, header, made.progress, attributes)
        store._known, store._consolidated = made._known, True
        store._unsynced = {target / name / "zarr.json" for name in ("", *store._row_arrays())}
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
        make_labels(group, self.header.columns)
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
            raise RunFileError(
                target, f"is not a path ({first_line(error)}); correct it"
            ) from error
        if not there:
            raise RunFileError(target, "does not exist; check the path")
        files = RunFiles(target)
        advice = "open it with xarray.open_zarr"
        attributes = checked_attributes(files, "run", FORMAT, VERSION, lambda _: advice)
        rows = attributes.get("chunk_rows")
        if type(rows) is not int or not 1 <= rows <= MAX_READ_ROWS:
            raise RunFileError(
                target,
                f"chunk_rows must be a whole number from 1 to {MAX_READ_ROWS}, got "
                f"{str(rows)[:80]!r}; restore zarr.json",
            )
        identity = attributes.setdefault("identity", "")
        if not isinstance(identity, str) or (not identity and attributes["version"] > 1):
            raise RunFileError(
                target, f"identity must be a text, got {str(identity)[:80]!r}; restore zarr.json"
            )
        header = header_from_text(target, attributes["run"], model, world)
        # a resumed run holds a chunk in memory
        size = rows * header.row_bytes
        if rows > 1 and size > FILE_BYTES:
            raise RunFileError(
                target,
                f"chunk_rows gives chunks of {size / 1e6:.4g} MB, expected at most "
                f"{FILE_BYTES / 1e6:.4g} MB; restore zarr.json",
            )
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
            remove_unfinished(self.path)
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
                self._consolidated = False
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
        self._for_writing()
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
                if self.identity:
                    self._unsynced.add(self.path / name / CHECKSUMS)

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
        if not self._consolidated:
            self._consolidate()
        self._sync()
        self.release()

    def ended(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return outcomes and events; "killed" or "running" for a run that did not end.

        Raises:
            RunFileError: If they are inconsistent with the run.
        """
        model, cases = self.header.model, math.prod(self.header.batch)
        # who records matters only if the run did not end: locks may fail on a read-only disk
        writer = None if self.is_zip or self.progress.finished else writer_of(self.path)
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
            progress = read_progress(self.path, stream, self.identity)
            stream.seek(0)
            return progress, hashlib.file_digest(stream, "sha256").digest()  # type: ignore[arg-type]

    def _put_progress(self, progress: Progress) -> None:
        content = progress_to_bytes(progress, self.identity)
        if len(content) > PROGRESS_BYTES:
            raise RunFileError(
                self.path,
                f"a checkpoint may have {PROGRESS_BYTES / 1e6:.4g} MB, got "
                f"{len(content) / 1e6:.4g} MB; store fewer cases in one run{self._so_far()}",
            )
        self._for_writing()
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

    def _row_arrays(self) -> tuple[str, ...]:
        """Return the names of the arrays that have a row for each time."""
        return ("time", *(column.name for column in self.header.columns))

    def _name(self, key: str) -> str:
        column = self.header.column(key)
        return key if column is None else column.name

    def _for_writing(self) -> None:
        """Open arrays for writing from now on; before, Zarr creates nothing on a read-only disk."""
        if self._is_read_only:
            self._is_read_only, self._root = False, None
            self._opened.clear()

    def _group(self) -> Any:
        """Return the Zarr group, whose files are read with bounds."""
        import zarr

        if self._root is None:
            bound = BoundChunks(self.files, self._layouts, self.identity) if self.identity else None
            read_only = self.is_zip or self._is_read_only
            store = guarded_store(self.files, self._layouts, read_only=read_only, bound=bound)
            mode: Any = "r" if read_only else "r+"
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
        for name in self._row_arrays():
            array = self._array(name)
            if array.shape[0] != rows:
                self._consolidated = False
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
        self._consolidated = True
        self._unsynced.add(self.path / "zarr.json")

    def _check_files(self) -> None:
        """Raise `RunFileError` if chunk files are missing, which Zarr would read as NaN."""
        for name in self._row_arrays():
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
    remove_leftovers(Path(os.path.realpath(path)).parent)
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
        with temporary_directory(place) as spare:
            _write_and_move(run, path, place, spare)
    except OSError as error:
        raise _failed(path, error.strerror or str(error)) from error


def _write_and_move(run: "Trajectory", path: Path, place: Path, spare: Path) -> None:
    """Write a run to a temporary directory, and move it to its place."""
    made = spare / "run"
    try:
        _write(run, made)
        if path.suffix.lower() == ".zip":
            zip_store(made, spare / "run.zip")
            made = spare / "run.zip"
        move_into_place(made, place)
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


def _failed(path: Path, reason: str) -> RunFileError:
    """Return the error of a run that cannot be saved."""
    kept = "; the existing run is unchanged" if path.exists() else ""
    return RunFileError(
        path,
        f"cannot be written ({reason}){kept}; check the path, free some space or choose another "
        "place, and save again",
    )


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
