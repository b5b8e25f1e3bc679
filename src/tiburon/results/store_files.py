"""Files of a run on disk: bounded reading of untrusted files, array metadata, and the lock.

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
import socket
import stat
import struct
import time
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tiburon.errors import RunFileError
from tiburon.regular_file import open_regular_file, read_regular_file
from tiburon.results.encoding import first_line
from tiburon.results.header import Column, RunHeader
from tiburon.written_file import replacing, sync_directory

__all__ = [
    "FORMAT",
    "LOCK",
    "VERSION",
    "ArrayLayout",
    "RunFiles",
    "StoreLock",
    "check_chunk",
    "guarded_store",
    "layout_of",
    "make_array",
    "make_column",
    "make_labels",
    "read_attributes",
    "refuse_links",
    "signed",
    "sync_files",
    "writer_of",
    "writing",
    "zip_store",
]

FORMAT = "tiburon run"
VERSION = 1
"""Version of the layout that is written; readers accept this one and earlier ones."""

FILE_BYTES = 64_000_000
"""Largest file that is written [bytes]: large batches are split by cases as well."""

HEADER_BYTES = 256 * 2**20
"""Largest header; those of batches hold the parameters of each case [bytes]."""

METADATA_BYTES = 2**20
"""Largest metadata of one array [bytes]."""

MAX_CHUNK_BYTES = 256 * 2**20
"""Largest uncompressed chunk of an array that is read [bytes]; see `FILE_BYTES`."""

MAX_CHUNK_ROWS = 2**24
"""Most rows of a chunk that is read."""

MAX_ARRAY_SIZE = 2**48
"""Largest size of an array along a dimension that is read."""

ZIP_BYTES = 64 * 2**20
ZIP_RATIO = 20
"""A zip file may unpack to `ZIP_BYTES` plus `ZIP_RATIO` times its own size; runs hardly shrink."""

ZIP_FILES = 1_000_000
"""Most files in a zip file."""

CODECS = ("bytes", "blosc", "crc32c")
"""Codecs of the chunks of a run, in this order."""

BLOSC = {"typesize": 8, "cname": "lz4", "clevel": 1, "shuffle": "shuffle", "blocksize": 0}
"""Settings of the Blosc codec: fast, since recorded motion hardly shrinks."""

BLOSC_HEADER = struct.Struct("<4x3I")
"""Header of a Blosc frame: uncompressed size, block size, compressed size [bytes]."""

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
                raise self._too_large(name, most)
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

    def _too_large(self, name: str, most: int) -> RunFileError:
        return self._problem(name, f"it may have {most / 2**20:.3g} MB, got more")

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


def guarded_store(files: RunFiles, layouts: Mapping[str, ArrayLayout], *, read_only: bool) -> Any:
    """Return a Zarr store that reads through `RunFiles`, and writes as Zarr does.

    Args:
        files: The files of a run.
        layouts: Layouts of all arrays that may be read; entries may be added later.
        read_only: Whether the store is read-only.
    """
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    def content(key: str) -> bytes | None:
        if not files.has(key):
            return None
        name, *place = key.split("/")
        if place[:1] != ["c"]:
            return files.read(key, METADATA_BYTES if place else HEADER_BYTES)
        size = layouts[name].chunk_bytes
        # incompressible data grows by a few headers
        packed = files.read(key, size + size // 16 + 4096)
        if len(packed) < BLOSC_HEADER.size or BLOSC_HEADER.unpack_from(packed)[0] != size:
            raise RunFileError(files.path, f"{key} is damaged; restore it from a copy")
        return packed

    class GuardedStore(LocalStore):
        """Reads regular files of bounded size only."""

        def with_read_only(self, read_only: bool = False) -> Any:
            return GuardedStore(self.root, read_only=read_only)

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            found = await asyncio.to_thread(content, key)
            return self._as_buffer(found, prototype, byte_range)

        def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
            return self._as_buffer(content(key), prototype, byte_range)

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
    """Make the array of a column.

    Args:
        group: The Zarr group.
        header: Header of the run.
        column: The column.
        size: Number of rows of the array.
        rows: Number of rows of a chunk.
    """
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


def make_labels(group: Any, header: RunHeader) -> None:
    """Write the names along dimensions, which other readers use as coordinates."""
    for column in header.columns:
        for name, labels in column.coordinates.items():
            if name not in group:
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
    return {"run": text, "run_sha256": _checksum(text)}


def _checksum(text: str) -> str:
    """Return the checksum of a text; lone surrogates are accepted."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_attributes(files: RunFiles) -> dict[str, Any]:
    """Return the attributes of a store after checking format, version and checksum."""
    path = files.path
    content = files.read("zarr.json", HEADER_BYTES)
    try:
        data = json.loads(content)
        attributes: dict[str, Any] = dict(data["attributes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunFileError(
            path, f"zarr.json is damaged ({first_line(error)}); restore it from a copy"
        ) from error
    if attributes.get("format") != FORMAT:
        raise RunFileError(
            path,
            f"is a Zarr store but not a run (format must be {FORMAT!r}, got "
            f"{str(attributes.get('format'))[:80]!r}); open it with xarray.open_zarr",
        )
    version = attributes.get("version")
    if type(version) is not int or version < 1:
        raise RunFileError(
            path, f"version must be a whole number, got {str(version)[:80]!r}; restore it"
        )
    if version > VERSION:
        writer = str(attributes.get("written_by", "an unknown one"))[:80]
        raise RunFileError(
            path,
            f"was written in version {version} of the format, this package reads up to {VERSION}; "
            f"update tiburon (it was written by {writer})",
        )
    text = attributes.get("run")
    if not isinstance(text, str) or _checksum(text) != attributes.get("run_sha256"):
        raise RunFileError(path, "its header is damaged (checksum); restore zarr.json")
    rows = attributes.get("chunk_rows")
    if type(rows) is not int or not 1 <= rows <= MAX_CHUNK_ROWS:
        raise RunFileError(
            path,
            f"chunk_rows must be a whole number from 1 to {MAX_CHUNK_ROWS}, got "
            f"{str(rows)[:80]!r}; restore zarr.json",
        )
    return attributes


def check_chunk(path: Path, header: RunHeader, chunk_rows: int) -> None:
    """Check the size of a chunk, which a resumed run holds in memory.

    Raises:
        RunFileError: If it is larger than any chunk that is written.
    """
    size = chunk_rows * header.row_bytes
    if chunk_rows > 1 and size > FILE_BYTES:
        raise RunFileError(
            path,
            f"chunk_rows asks for chunks of {size / 1e6:.4g} MB, expected at most "
            f"{FILE_BYTES / 1e6:.4g} MB; restore zarr.json",
        )


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
            handle = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
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


if hasattr(os, "register_at_fork"):
    # a forked worker would keep the lock when the recording process is killed
    os.register_at_fork(after_in_child=_forget_all)


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
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    file = os.open(path / LOCK, flags, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(22, "not a regular file")
    return file


def _acquire(file: int, timeout: float, *, shared: bool = False) -> bool:
    """Return whether a lock was acquired within a timeout [s]; closing the file releases it."""
    end = time.monotonic() + timeout
    while True:
        try:
            _lock(file, shared)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)
        except OSError:
            # a file system without locks
            return not _is_alive(_owner(file))


if os.name == "nt":  # pragma: no cover

    def _lock(file: int, shared: bool) -> None:
        """Lock a byte beyond the end of the text, which stays readable."""
        import msvcrt

        lock: Any = msvcrt
        os.lseek(file, 2**30, os.SEEK_SET)
        lock.locking(file, lock.LK_NBLCK, 1)

else:

    def _lock(file: int, shared: bool) -> None:
        """Lock the file as a whole."""
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


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
    if owner["host"] != socket.gethostname() or os.name == "nt":
        # processes of other machines cannot be tested, nor can those on Windows
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


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
