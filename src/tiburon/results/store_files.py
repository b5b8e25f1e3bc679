"""The files of a run on disk: arrays and their descriptions, made, read and refused."""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.errors import RunFileError
from tiburon.results.run_header import Column, RunHeader
from tiburon.results.store_guard import BLOSC, HEADER_BYTES, RunFiles, first_line
from tiburon.results.store_lock import LOCK
from tiburon.written_file import replacing, sync_directory

__all__ = [
    "FORMAT",
    "VERSION",
    "check_chunk",
    "make_array",
    "make_column",
    "make_labels",
    "read_attributes",
    "signed",
    "sync_files",
    "writing",
    "zip_store",
]

FORMAT = "tiburon run"
VERSION = 1
"""Version of the layout that is written; readers take this one and those before it."""

FILE_BYTES = 64_000_000
"""Size of one file at most: large batches are cut by cases as well."""

MOST_CHUNK_ROWS = 2**24
"""Rows of one chunk at most that a reader accepts."""


def make_column(group: Any, header: RunHeader, column: Column, size: int, rows: int) -> None:
    """Make the array of a column.

    Args:
        group: Where.
        header: What is known of the run.
        column: Which column.
        size: Number of rows of the array.
        rows: Number of rows of a chunk.
    """
    shape = header.shape(column)
    chunk = [max(1, size) for size in shape]
    for k in range(len(header.batch)):
        # large batches in several files
        rest = 8 * rows * math.prod(chunk) // chunk[k]
        chunk[k] = min(chunk[k], max(1, FILE_BYTES // rest))
    dimensions = ("time", *header.case_dimensions, *([column.dimension] if column.width else []))
    attributes = dict(column.attributes)
    beside = [name for name in column.coordinates if name != column.dimension]
    if beside:
        # where other readers look for what goes along with an array
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
    """Make an array whose files carry a sum that tells damage."""
    from zarr.codecs import BloscCodec, Crc32cCodec

    group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=fill_value,
        dimension_names=dimensions,
        attributes=dict(attributes),
        # the sum at the end detects damage
        compressors=[BloscCodec(**BLOSC), Crc32cCodec()],  # type: ignore[arg-type]
        # a chunk of unknown numbers is written too: a missing file means damage
        config={"write_empty_chunks": True},
    )


def make_labels(group: Any, header: RunHeader) -> None:
    """Write the names along dimensions, so that other readers have them as coordinates."""
    for column in header.columns:
        for name, labels in column.coordinates.items():
            if name not in group:
                array = group.create_array(
                    name, shape=(len(labels),), dtype=str, dimension_names=(column.dimension,)
                )
                array[:] = np.array(labels, dtype=object)


def signed(path: Path, text: str) -> dict[str, str]:
    """Return what is said of a run as attributes, with its checksum.

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
    """Return the checksum of a text; lone surrogates, which no run has, do not matter."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_attributes(files: RunFiles) -> dict[str, Any]:
    """Return the attributes of a store after checking that it is a run, whole, and not too new."""
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
        raise RunFileError(
            path, "what it says of robot and run is damaged (checksum); restore zarr.json"
        )
    rows = attributes.get("chunk_rows")
    if type(rows) is not int or not 1 <= rows <= MOST_CHUNK_ROWS:
        raise RunFileError(
            path,
            f"chunk_rows must be a whole number from 1 to {MOST_CHUNK_ROWS}, got "
            f"{str(rows)[:80]!r}; restore zarr.json",
        )
    return attributes


def check_chunk(path: Path, header: RunHeader, chunk_rows: int) -> None:
    """Refuse a chunk that no run was written with: whoever goes on holds one in memory.

    Raises:
        RunFileError: If it is too large.
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
    """Tell in our own words what the disk refuses."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise RunFileError(
            path, f"cannot be written ({reason}); free some room or choose another place{safe}"
        ) from error


def sync_files(files: Iterable[Path]) -> None:
    """Flush files to the disk; those that are gone again do not matter."""
    folders = set()
    for file in files:
        with suppress(FileNotFoundError):
            # Windows flushes only what may be written
            handle = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            folders.add(file.parent)
    for folder in folders:
        sync_directory(folder)


def zip_store(store: Path, target: Path) -> None:
    """Put the files of a store into one zip file, in one stroke."""
    with replacing(target, RunFileError) as stream, zipfile.ZipFile(stream, "w") as archive:
        for file in sorted(store.rglob("*")):
            if file.is_file() and file.relative_to(store).as_posix() != LOCK:
                archive.write(file, file.relative_to(store).as_posix())
