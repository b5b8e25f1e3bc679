"""Sweeps on disk: a Zarr directory with one chunk along `case` per block, and a receipt for each.

A worker writes the files of a block, flushes them to disk, and then writes the receipt, atomically.
Rows count if and only if their receipt is there. A block that is computed twice has the same bytes
both times, so that late writers do no harm. Receipts, drivers and attempts are files inside the
array `status`, where readers of groups do not look for arrays: `xarray.open_zarr` reads the store
at any time, and there `status` is 0 for cases that are not finished.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import RunFileError
from tiburon.parallel.receipt import Receipt, file_checksum, read_receipt, write_receipt
from tiburon.parallel.sweep_cases import SWEEP_STATUSES, BlockResult, case_coordinates
from tiburon.parallel.sweep_header import SweepHeader, header_from_text, header_to_text
from tiburon.results.encoding import first_line
from tiburon.results.store import (
    FILE_BYTES,
    HEADER_BYTES,
    ArrayLayout,
    RunFiles,
    checked_attributes,
    guarded_store,
    layout_of,
    make_array,
    make_labels,
    refuse_links,
    signed_header,
    sync_files,
    writing,
)
from tiburon.version import installed_version
from tiburon.written_file import remove_leftovers, sync_directory, temporary_directory

FORMAT = "tiburon sweep"
VERSION = 1
"""Version of the layout that is written; readers accept this one and earlier ones."""

RECEIPTS, DRIVERS, ATTEMPTS = "status/receipts", "status/drivers", "status/attempts"
"""Directories inside the store."""

BLOCKS_PER_DIRECTORY = 1000
"""Receipts in one directory."""


def block_range(header: SweepHeader, block: int) -> tuple[int, int]:
    """Return the first case of a block, and that after its last."""
    first = block * header.block_size
    return first, min(first + header.block_size, header.design.count)


class SweepStore:
    """A sweep on disk."""

    def __init__(self, path: Path, header: SweepHeader) -> None:
        """Use `create` or `open`."""
        self.path, self.header = path, header
        self.files = RunFiles(path)
        self._root: Any = None
        self._is_read_only = True
        self._opened: dict[str, Any] = {}
        self._layouts: dict[str, ArrayLayout] = {}

    # -- creation ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, header: SweepHeader) -> "SweepStore":
        """Create a store: written to a temporary directory, and moved when it is complete.

        Raises:
            RunFileError: If it cannot be written.
            FileExistsError: If another process was faster.
        """
        text = header_to_text(header)
        if len(text) > HEADER_BYTES // 2:
            raise RunFileError(
                path,
                f"its design takes {len(text) / 1e6:.4g} MB, expected at most "
                f"{HEADER_BYTES // 2 / 1e6:.4g} MB; split it into several sweeps",
            )
        with writing(path, "; nothing was computed yet"):
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent)
            with temporary_directory(path) as spare:
                made = cls(spare / "sweep", header)
                made._make(text)
                place = Path(os.path.realpath(path))
                if place.is_dir() and not any(place.iterdir()):
                    place.rmdir()
                if place.exists():
                    raise FileExistsError(path)
                try:
                    os.rename(made.path, place)
                except OSError as error:
                    if place.exists():
                        raise FileExistsError(path) from error
                    raise
            sync_directory(path.parent)
        return cls(path, header)

    def _make(self, text: str) -> None:
        """Write the arrays."""
        import zarr

        header, layout = self.header, self.header.layout
        attributes: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": f"tiburon {installed_version()}",
            "block_size": header.block_size,
            "title": f"{header.robot}: sweep over {', '.join(header.design.names)}",
            **signed_header("sweep", text),
        }
        group: Any = zarr.open_group(self.path, mode="w", zarr_format=3, attributes=attributes)
        for name, spec in _arrays(header).items():
            none = np.nan if spec.kind == "f8" else 0
            make_array(group, name, *spec[:4], dtype=spec.kind, fill_value=none)
        if layout.columns:
            size = (len(layout.times),)
            make_array(group, "time", size, size, ("time",), {"units": "s"})
            group["time"][:] = layout.times
        make_labels(group, layout.columns)
        for folder in (RECEIPTS, DRIVERS, ATTEMPTS):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        self._consolidate()

    @classmethod
    def open(cls, path: Path, given: Mapping[str, Any] | None = None) -> "SweepStore":
        """Open a store; `given` are model and world, where no file can hold them.

        Raises:
            RunFileError: If it does not exist, is damaged, of a later version, or no sweep.
        """
        if not path.exists():
            raise RunFileError(path, "does not exist; check the path")
        files = RunFiles(path)
        attributes = _attributes(files)
        return cls(path, header_from_text(path, attributes["sweep"], dict(given or {})))

    def grow(self, header: SweepHeader) -> None:
        """Make room for the cases of a larger design."""
        with writing(self.path, "; the blocks so far are safe"):
            refuse_links(self.path)
            self._for_writing()
            group = self._group()
            for name, spec in _arrays(header).items():
                array = group[name]
                if array.shape[0] < spec.shape[0]:
                    array.resize(spec.shape)
            group.attrs.update(signed_header("sweep", header_to_text(header)))
            self._consolidate()
        self.header = header
        self._opened.clear()
        self._layouts.clear()

    def _consolidate(self) -> None:
        """Consolidate the metadata of all arrays in one file, which readers open faster."""
        import zarr

        with warnings.catch_warnings():
            # a convention that all readers support, though not part of the standard yet
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(guarded_store(self.files, {}, read_only=False))

    # -- blocks ------------------------------------------------------------------------------------

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return -(-self.header.design.count // self.header.block_size)

    def block_range(self, block: int) -> tuple[int, int]:
        """Return the first case of a block, and that after its last."""
        return block_range(self.header, block)

    def receipt_path(self, block: int) -> Path:
        """Return the path of a receipt."""
        folder = self.path / RECEIPTS / str(block // BLOCKS_PER_DIRECTORY)
        return folder / f"{block}.json"

    def receipt(self, block: int, *, verify: bool = False) -> Receipt | None:
        """Return the receipt of a finished block; None if it is missing or damaged.

        With `verify` checksums of its files are compared, not their sizes alone.
        """
        path = self.receipt_path(block)
        if not path.is_file():
            return None
        found = read_receipt(path)
        if found is None or found.block != block:
            return None
        first, stop = self.block_range(block)
        if found.first != first or found.stop > stop:
            return None
        root = str(self.path)
        for name, (size, checksum) in found.files.items():
            try:
                if verify:
                    if file_checksum(self.path / name) != (size, checksum):
                        return None
                # a million files: paths as objects would take longer than the look
                elif os.stat(f"{root}/{name}").st_size != size:
                    return None
            except (OSError, RunFileError):
                return None
        return found

    def receipt_numbers(self) -> Iterator[int]:
        """Iterate over the numbers of blocks that have a receipt, damaged or not."""
        try:
            folders = sorted(os.listdir(self.path / RECEIPTS))
        except FileNotFoundError:
            return
        for folder in folders:
            if folder.isdigit():
                for entry in os.listdir(self.path / RECEIPTS / folder):
                    number = entry.removesuffix(".json")
                    if number.isdigit() and int(number) < self.block_count:
                        yield int(number)

    def receipt_count(self) -> int:
        """Return the number of receipts, damaged ones included."""
        return sum(1 for _ in self.receipt_numbers())

    def receipts(self) -> Iterator[tuple[int, Receipt]]:
        """Iterate over the blocks whose files are there, in any order, with their receipts.

        Receipts of blocks that have grown since cover their first cases.
        """
        for number in self.receipt_numbers():
            receipt = self.receipt(number)
            if receipt is not None:
                yield number, receipt

    def remove_receipt(self, block: int) -> None:
        """Remove the receipt of a block, whose rows then no longer count."""
        with writing(self.path):
            self.receipt_path(block).unlink(missing_ok=True)

    def is_finished(self, receipt: Receipt | None) -> bool:
        """Return whether a receipt covers all cases of its block."""
        return receipt is not None and receipt.stop == self.block_range(receipt.block)[1]

    def write(self, block: int, result: BlockResult) -> dict[str, tuple[int, str]]:
        """Write the files of a block and flush them; return sizes and checksums.

        Raises:
            RunFileError: If they cannot be written.
        """
        first, stop = self.block_range(block)
        arrays: dict[str, Any] = {
            **case_coordinates(self.header.design, np.arange(first, stop)),
            **result.arrays,
            "end_time": result.end_times,
            # last: readers without receipts see it when everything else is there
            "status": result.codes,
        }
        written: list[str] = []
        self._for_writing()
        with writing(self.path), _single_threaded_compression():
            for name, values in arrays.items():
                self._array(name)[first:stop] = values
                layout = self._layouts[name]._replace(shape=self._array(name).shape)
                written += [f"{name}/{file}" for file in layout.files(stop, first)]
            sync_files(self.path / name for name in written)
        return {name: file_checksum(self.path / name) for name in written}

    def write_receipt(self, receipt: Receipt) -> None:
        """Write the receipt of a block whose files are on disk."""
        write_receipt(self.receipt_path(receipt.block), receipt, self.path)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, name: str, cases: Any, rest: tuple[Any, ...] = ()) -> Any:
        """Return an array for some cases.

        Args:
            name: Name of the array.
            cases: Numbers of the cases, in increasing order.
            rest: Indices, slices or arrays of indices along the other dimensions.

        Raises:
            RunFileError: If a file is damaged.
        """
        array = self._array(name)
        try:
            return np.asarray(array.oindex[(np.asarray(cases), *rest)])
        except Exception as error:
            size = self.header.block_size
            blocks = sorted({int(case) // size for case in np.ravel(cases)})
            raise RunFileError(
                self.path,
                f"{name} of blocks {blocks[0]} to {blocks[-1]} cannot be read "
                f"({first_line(error)}); tiburon.load_sweep(...).resume(verify=True) finds damaged "
                "blocks and computes them again",
            ) from error

    def _for_writing(self) -> None:
        """Open arrays for writing from now on; before, Zarr creates nothing on a read-only disk."""
        if self._is_read_only:
            self._is_read_only, self._root = False, None
            self._opened.clear()

    def _group(self) -> Any:
        import zarr

        if self._root is None:
            store = guarded_store(self.files, self._layouts, read_only=self._is_read_only)
            mode: Any = "r" if self._is_read_only else "r+"
            self._root = zarr.open_group(store, mode=mode, use_consolidated=False)
        return self._root

    def _array(self, name: str) -> Any:
        import zarr

        if name not in self._opened:
            spec = _arrays(self.header)[name]
            kind = {"f8": "float64", "i8": "int64"}[spec.kind]
            found = layout_of(self.files, name, spec.shape[1:], kind, spec.chunks[0])
            if found.rows < spec.shape[0]:
                raise RunFileError(
                    self.path,
                    f"array {name!r} must hold {spec.shape[0]} cases, got {found.rows}; restore "
                    f"{name}/zarr.json from a copy",
                )
            self._layouts[name] = found
            # chunks of fill values are written too, so that a missing file means damage
            with zarr.config.set({"array.write_empty_chunks": True}):
                self._opened[name] = self._group()[name]
        return self._opened[name]


# -- arrays ----------------------------------------------------------------------------------------


class ArraySpec(NamedTuple):
    """Shape and description of an array of a sweep."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any] = {}
    kind: str = "f8"


def _arrays(header: SweepHeader) -> dict[str, ArraySpec]:
    """Return all arrays whose first dimension is the case."""
    design, layout, size = header.design, header.layout, header.block_size
    count = design.count
    found: dict[str, ArraySpec] = {}
    for column in layout.columns:
        rows = max(1, len(layout.times))
        width = [max(1, n) for n in column.width]
        # large blocks are split along time, never along case
        part = max(1, min(rows, FILE_BYTES // (8 * size * int(np.prod(width)))))
        attributes: dict[str, Any] = dict(column.attributes)
        beside = [name for name in column.coordinates if name != column.dimension]
        if beside:
            attributes["coordinates"] = " ".join(beside)
        found[column.name] = ArraySpec(
            (count, len(layout.times), *column.width),
            (size, part, *width),
            ("case", "time", *([column.dimension] if column.width else [])),
            attributes,
        )
    for name, shape in layout.reduced.items():
        found[name] = ArraySpec(
            (count, *shape),
            (size, *(max(1, n) for n in shape)),
            ("case", *(f"{name}_{k}" for k in range(len(shape)))),
        )
    for name, values in case_coordinates(design, np.arange(0)).items():
        kind = "f8" if values.dtype == np.float64 else "i8"
        found[name] = ArraySpec((count,), (size,), ("case",), {"about": "design"}, kind)
    last = {"units": "s", "long_name": "time of the last valid state"}
    found["end_time"] = ArraySpec((count,), (size,), ("case",), last)
    flags = {
        "long_name": "how the run ended",
        "flag_values": list(range(len(SWEEP_STATUSES))),
        "flag_meanings": " ".join(SWEEP_STATUSES),
    }
    found["status"] = ArraySpec((count,), (size,), ("case",), flags, "i8")
    return found


@contextmanager
def _single_threaded_compression() -> Iterator[None]:
    """Compress in one thread: several write the parts of a chunk in any order."""
    from numcodecs import blosc

    before = blosc.use_threads
    blosc.use_threads = False
    try:
        yield
    finally:
        blosc.use_threads = before


# -- attributes ------------------------------------------------------------------------------------


def _attributes(files: RunFiles) -> dict[str, Any]:
    """Return the attributes of a sweep on disk after checking them."""
    if files.is_zip:
        raise RunFileError(files.path, "is a file; unpack it and load the directory")

    def advice(kind: str) -> str:
        return "load it by tiburon.load_run" if kind == "tiburon run" else "check the path"

    return checked_attributes(files, "sweep", FORMAT, VERSION, advice)
