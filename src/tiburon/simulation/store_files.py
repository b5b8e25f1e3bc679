"""The files of a run on disk: arrays and their descriptions, made, read and refused."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.errors import RunFileError
from tiburon.simulation.run_header import Column, RunHeader

__all__ = [
    "FORMAT",
    "VERSION",
    "file_names",
    "make_array",
    "make_column",
    "make_labels",
    "read_attributes",
    "read_bytes",
    "signed",
    "writing",
    "zip_store",
]

FORMAT = "tiburon run"
VERSION = 1
"""Version of the layout that is written; readers take this one and those before it."""

FILE_BYTES = 64_000_000
"""Size of one file at most: large batches are cut by cases as well."""


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
        # light: numbers of a motion hardly shrink; the sum tells damage
        compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="shuffle"), Crc32cCodec()],
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


def signed(text: str) -> dict[str, str]:
    """Return what is said of a run as attributes, with its checksum."""
    return {"run": text, "run_sha256": hashlib.sha256(text.encode()).hexdigest()}


def read_attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a store after checking that it is a run, whole, and not too new."""
    try:
        data = json.loads(read_bytes(path, "zarr.json"))
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
    if not isinstance(text, str) or signed(text)["run_sha256"] != attributes.get("run_sha256"):
        raise RunFileError(
            path, "what it says of robot and run is damaged (checksum); restore zarr.json"
        )
    return attributes


def read_bytes(path: Path, name: str) -> bytes:
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


def file_names(path: Path) -> frozenset[str]:
    """Return the names of the files in an archive."""
    with zipfile.ZipFile(path) as archive:
        return frozenset(archive.namelist())


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


def zip_store(store: Path, target: Path) -> None:
    """Put the files of a store into one zip file, in one stroke."""
    buffer = target.with_name(target.name + ".partial")
    with writing(target):
        try:
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
                for file in sorted(store.rglob("*")):
                    if file.is_file():
                        archive.write(file, file.relative_to(store).as_posix())
            os.replace(buffer, target)
        except OSError:
            buffer.unlink(missing_ok=True)
            raise
