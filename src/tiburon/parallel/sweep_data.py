"""Results of a sweep as an xarray dataset: one dimension per axis of the design, read when used."""

from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from tiburon.parallel.sweep_cases import SWEEP_STATUSES
from tiburon.parallel.sweep_store import SweepStore


class SweepColumn(BackendArray):
    """An array of a sweep, by indices of the design; cases without receipt are NaN."""

    def __init__(self, store: SweepStore, name: str, rest: tuple[int, ...], covered: Any) -> None:
        """Keep the place of the array.

        Args:
            store: The store.
            name: Name of the array.
            rest: Its shape beyond the cases.
            covered: Number of valid cases of each block.
        """
        self.store, self.name, self.covered = store, name, covered
        self.shape = (*store.header.design.shape, *rest)
        self.dtype = np.dtype(np.float64)
        if name == "status":
            self.dtype = np.array(SWEEP_STATUSES).dtype

    def __getitem__(self, key: Any) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._select)

    def _select(self, place: tuple[Any, ...]) -> Any:
        design = self.store.header.design
        count = len(design.shape)
        # numbers of the wanted cases, one dimension per axis
        wanted = [np.atleast_1d(np.arange(n)[p]) for n, p in zip(design.shape, place, strict=False)]
        sizes = [len(along) for along in wanted]
        grid = np.stack(np.meshgrid(*wanted, indexing="ij"), axis=-1).reshape(-1, count)
        cases, where = np.unique(design.cases(grid), return_inverse=True)
        rest = tuple(_along(n, p) for n, p in zip(self.shape[count:], place[count:], strict=True))
        values = self.store.read(self.name, cases, rest)
        size = self.store.header.block_size
        valid = cases % size < self.covered[cases // size]
        if self.name == "status":
            values = np.array(SWEEP_STATUSES)[np.where(valid, values, 0)]
        elif not valid.all():
            values[~valid] = np.nan
        found = values[where.ravel()].reshape(*sizes, *values.shape[1:])
        single = tuple(k for k, p in enumerate(place) if isinstance(p, (int, np.integer)))
        return np.squeeze(found, axis=single) if single else found


def _along(size: int, place: Any) -> Any:
    """Return an index along a dimension that is not of the design, as a slice or an array."""
    if isinstance(place, slice) and place.step in (None, 1):
        return slice(*place.indices(size))
    return np.atleast_1d(np.arange(size)[place])


def sweep_dataset(store: SweepStore) -> xarray.Dataset:
    """Return the finished cases of a sweep; others are NaN, and their status "unfinished"."""
    design, layout = store.header.design, store.header.layout
    covered = np.zeros(store.block_count, dtype=np.int64)
    for block, receipt in store.receipts():
        covered[block] = receipt.stop - receipt.first

    def column(name: str, rest: tuple[int, ...] = ()) -> Any:
        return LazilyIndexedArray(SweepColumn(store, name, rest, covered))

    axes = design.dimensions
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for one in layout.columns:
        rest = (len(layout.times), *one.width)
        names = (*axes, "time", *([one.dimension] if one.labels is not None else []))
        variables[one.name] = xarray.Variable(names, column(one.name, rest), one.attributes)
        for name, labels in one.coordinates.items():
            coordinates[name] = (one.dimension, np.array(labels))
    for name, shape in layout.reduced.items():
        names = (*axes, *(f"{name}_{k}" for k in range(len(shape))))
        variables[name] = xarray.Variable(names, column(name, shape))
    if layout.columns:
        coordinates["time"] = ("time", layout.times, {"units": "s", "long_name": "time"})
    attributes = {"units": "s", "long_name": "time of the last valid state"}
    variables["end_time"] = xarray.Variable(axes, column("end_time"), attributes)
    variables["status"] = xarray.Variable(axes, column("status"))
    for axis in design.axes:
        for name, values in axis.values.items():
            beyond: tuple[str, ...] = ()
            if isinstance(values, tuple):
                labels = [getattr(value, "name", value) for value in values]
                plain = all(isinstance(label, (str, int, float)) for label in labels)
                shown: Any = np.array(labels if plain else [str(label) for label in labels])
            else:
                shown = np.asarray(values)
                beyond = tuple(f"{name}_{k}" for k in range(shown.ndim - 1))
                if beyond and name == axis.name:
                    # a coordinate of several dimensions cannot index its axis
                    name = f"{name}_value"
            coordinates[name] = ((axis.name, *beyond), shown)
    data = xarray.Dataset(variables, coords=coordinates)
    cases = int(covered.sum())
    data.attrs = {
        "title": f"{store.header.robot}: sweep over {', '.join(design.names)}",
        "robot": store.header.robot,
        "finished_cases": cases,
        "cases": design.count,
    }
    return data
