"""Reading the untrusted files of a run on disk, bounded in memory and time.

A store is a directory or a zip file. Its files are opened only if they are regular ones, and read
only up to the size that what is already known of the run allows. Array metadata is checked before
Zarr sees it, since Zarr allocates what a file claims.
"""

import asyncio
import json
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

from tiburon.errors import RunFileError
from tiburon.regular_file import open_regular_file, read_regular_file

__all__ = [
    "ArrayLayout",
    "RunFiles",
    "first_line",
    "guarded_store",
    "layout_of",
    "refuse_links",
]

HEADER_BYTES = 256 * 2**20
"""Largest description of a run; those of batches hold the parameters of each case [bytes]."""

PROGRESS_BYTES = 2**31
"""Largest checkpoint file, with the states and outcomes of all cases [bytes]."""

METADATA_BYTES = 2**20
"""Largest description of one array [bytes]."""

CHUNK_BYTES = 256 * 2**20
"""Largest chunk of an array, unpacked [bytes]; those written here have at most 64 MB."""

ZIP_BYTES = 64 * 2**20
ZIP_RATIO = 20
"""A zip file may unpack to `ZIP_BYTES` and `ZIP_RATIO` times its own size; runs hardly shrink."""

ZIP_FILES = 1_000_000
"""Most files in a zip file."""

MOST_ROWS = 2**48
"""Most rows of an array."""

CODECS = ("bytes", "blosc", "crc32c")
"""What the chunks of a run are packed with, in this order."""

BLOSC = {"typesize": 8, "cname": "lz4", "clevel": 1, "shuffle": "shuffle", "blocksize": 0}
"""Settings of the codec named so; light, as the numbers of a motion hardly shrink."""

FRAME = struct.Struct("<4x3I")
"""Start of what Blosc packs: unpacked size, block size, packed size [bytes]."""


class RunFiles:
    """The files of one run, by their names inside the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_zip = path.is_file()

    def __reduce__(self) -> tuple[Any, ...]:
        # an open zip file stays in its process
        return RunFiles, (self.path,)

    def has(self, name: str) -> bool:
        """Return whether there is a regular file of that name."""
        if self.is_zip:
            return name in self._archive[1]
        return (self.path / name).is_file()

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file.

        Args:
            name: Such as "zarr.json".
            most: Largest size to read [bytes].

        Raises:
            RunFileError: If it is missing, too large, damaged or no regular file.
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
            RunFileError: If it is missing, damaged or no regular file.
        """
        if not self.is_zip:
            with open_regular_file(
                self.path / name, "a saved run", lambda _, problem: self._problem(name, problem)
            ) as file:
                yield file
            return
        archive, members = self._archive
        if name not in members:
            raise self._problem(name, "there is no such file")
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
            f"{name} cannot be read ({problem}); it is no saved run, or not whole: restore it from "
            "a copy",
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
                self.path, f"is no saved run, or not whole ({first_line(error)}); restore it"
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
    """Refuse a store with symbolic links inside, through which files elsewhere would be written.

    Args:
        path: Directory of the store; it may be a link itself.

    Raises:
        RunFileError: If there is one, or a directory cannot be listed.
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
    """How an array of a store lies on disk, checked."""

    rows: int
    """Size of its first dimension; 0 where it has none."""

    shape: tuple[int, ...]
    """Its shape."""

    chunks: tuple[int, ...]
    """Shape of a chunk."""

    @property
    def chunk_bytes(self) -> int:
        """Size of a chunk [bytes]."""
        return 8 * math.prod(self.chunks)

    def files(self, stop: int, start: int = 0) -> Iterator[str]:
        """Iterate over the names of chunk files, inside the array, that hold some rows.

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
    """Return the layout of an array after checking that it is one of a run.

    Args:
        files: The store.
        name: Of the array.
        shape: Of one row; None for a single number.
        kind: Data type, such as "float64".
        chunk_rows: Rows of one chunk.

    Raises:
        RunFileError: If its metadata is damaged, or is not what was written for this run.
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
    if found_layout.chunk_bytes > CHUNK_BYTES:
        raise RunFileError(
            files.path,
            f"array {name!r}: a chunk may have {CHUNK_BYTES / 1e6:.4g} MB, got "
            f"{found_layout.chunk_bytes / 1e6:.4g} MB; restore {name}/zarr.json from a copy",
        )
    return found_layout


def _size(number: Any) -> int:
    """Return a size that a file states."""
    if type(number) is not int or not 0 <= number <= MOST_ROWS:
        raise ValueError(f"sizes must be whole numbers from 0 to {MOST_ROWS}, got {number!r:.40}")
    return number


def guarded_store(files: RunFiles, layouts: Mapping[str, ArrayLayout], *, read_only: bool) -> Any:
    """Return a Zarr store that reads files through `RunFiles`, and writes them as Zarr does.

    Args:
        files: The files of a run.
        layouts: Of all arrays that may be read, now or later.
        read_only: Whether nothing is written.
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
        # what does not shrink grows by a few headers
        packed = files.read(key, size + size // 16 + 4096)
        if len(packed) < FRAME.size or FRAME.unpack_from(packed)[0] != size:
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
                raise RunFileError(files.path, "chunks of runs are read as a whole")
            if found is None:
                return None
            return (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    return GuardedStore(files.path, read_only=read_only)


def first_line(error: BaseException) -> str:
    """Return the message of an error as one line of bounded length."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
