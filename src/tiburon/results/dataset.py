"""Export of runs: xarray datasets with names and units, pandas tables, CSV files."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from tiburon.errors import RunFileError
from tiburon.results.encoding import is_data, to_text
from tiburon.results.header import Column
from tiburon.results.quantities import (
    ENERGIES,
    Quantity,
    computed_values,
    labels_of,
    quantity_of,
)
from tiburon.written_file import replacing

if TYPE_CHECKING:
    import pandas

    from tiburon.results.store import RunStore
    from tiburon.results.trajectory import Trajectory


class StoredColumn(BackendArray):
    """A column of a run on disk for xarray: read, and checked for damage, when it is used."""

    dtype = np.dtype(np.float64)

    def __init__(self, store: "RunStore", key: str, shape: tuple[int, ...]) -> None:
        """Keep the location of the column.

        Args:
            store: The run on disk.
            key: Key of the column.
            shape: Shape of all its rows.
        """
        self.store, self.key, self.shape = store, key, shape

    def __getitem__(self, key: Any) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.BASIC, self._select)

    def _select(self, place: tuple[int | slice, ...]) -> Any:
        rows = place[0]
        if isinstance(rows, slice):
            # the arrays on disk may have more rows than are valid
            place = (slice(*rows.indices(self.shape[0])), *place[1:])
        return self.store.select(self.key, place)


def dataset_of(run: "Trajectory") -> xarray.Dataset:
    """Return all recorded columns, and the quantities that `record` of the run names."""
    variables: dict[str, Any] = {}
    for column in run.header.columns:
        values: Any
        if run.store is None:
            values = run.array(column.key)
        else:
            shape = (len(run), *run.header.shape(column))
            values = LazilyIndexedArray(StoredColumn(run.store, column.key, shape))
        labeled = [column.dimension] if column.labels is not None else []
        names = ("time", *run.header.case_dimensions, *labeled)
        variables[column.name] = xarray.Variable(names, values, column.attributes)
    coordinates = _coordinates(run)
    for column in run.header.columns:
        for name, labels in column.coordinates.items():
            coordinates[name] = (column.dimension, np.array(labels))
    data = xarray.Dataset(variables, coords=coordinates)
    for name in run.header.setup.get("record") or ():
        for wanted in ENERGIES if name == "energy" else (name,):
            if wanted not in data:
                data[wanted] = variable_of(run, wanted)
    status = run.status
    if run.batch:
        data = data.assign_coords(status=(run.header.case_dimensions, status))
    data.attrs = {
        "title": f"{run.model.name}: simulated motion",
        "robot": run.model.name,
        "status": status if isinstance(status, str) else "see coordinate status",
    }
    if is_data(run.model):
        data.attrs["model"] = to_text(run.model)
    return data


def variable_of(run: "Trajectory", name: str) -> xarray.DataArray:
    """Return a recorded or derived quantity by name."""
    column = run.header.column(name)
    if column is not None:
        found: xarray.DataArray = run.data[column.name]
        return found
    return _computed(run, name, quantity_of(run, name))


def _coordinates(run: "Trajectory") -> dict[str, Any]:
    """Return the coordinates that all quantities share: time and case."""
    return {
        "time": ("time", run.time, {"units": "s", "long_name": "time"}),
        **{n: np.arange(k) for n, k in zip(run.header.case_dimensions, run.batch, strict=True)},
    }


def _computed(run: "Trajectory", name: str, quantity: Quantity) -> xarray.DataArray:
    """Return a derived quantity."""
    names = labels_of(run, name, quantity)
    units = quantity.unit_of_each(run.model)
    # gives the same attributes as a recorded column
    column = Column(name, name, (), units, quantity.dimensions[-1] if names else "", quantity.title)
    found = xarray.DataArray(
        computed_values(run, quantity, names),
        dims=("time", *run.header.case_dimensions, *quantity.dimensions),
        coords={
            **_coordinates(run),
            **{name: np.array(labels) for name, labels in names.items()},
        },
        name=name,
        attrs=column.attributes,
    )
    if quantity.flags:
        # the convention of CF for values that stand for states
        found.attrs["flag_values"] = np.arange(len(quantity.flags), dtype=np.float64)
        found.attrs["flag_meanings"] = " ".join(quantity.flags)
    if not isinstance(units, str):
        found = found.assign_coords({f"{name}_unit": (column.dimension, np.array(units))})
    return found


def table_of(run: "Trajectory") -> "pandas.DataFrame":
    """Return a table with the index time [s], or time and case, and one column per scalar."""
    import pandas

    time = run.time
    cases = int(np.prod(run.batch))
    columns, units = {}, {}
    for column in run.header.columns:
        flat = run.array(column.key).reshape(len(time) * cases, -1)
        labels = column.labels
        names = [column.name] if labels is None else [f"{column.name}.{k}" for k in labels]
        for k, name in enumerate(names):
            columns[name] = flat[:, k]
            units[name] = column.units if isinstance(column.units, str) else column.units[k]
    index: pandas.Index
    if run.batch:
        ranges = [range(size) for size in run.batch]
        names = ["time", *run.header.case_dimensions]
        index = pandas.MultiIndex.from_product([time, *ranges], names=names)
    else:
        index = pandas.Index(time, name="time")
    table = pandas.DataFrame(columns, index=index)
    table.attrs["units"] = units
    return table


def write_csv(run: "Trajectory", path: Path) -> None:
    """Write a table as text: names, units, then one line per time and case.

    Numbers have all of their digits, so that reading them restores the same bits.
    """
    table = table_of(run)
    head = [*map(str, table.index.names), *table.columns]
    units = ["s", *[""] * len(run.batch), *table.attrs["units"].values()]
    with replacing(path, RunFileError) as stream:
        file = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        file.write(",".join(_quoted(name) for name in head) + "\n")
        file.write(",".join(_quoted(f"[{unit}]" if unit else "") for unit in units) + "\n")
        table.to_csv(file, header=False, na_rep="nan", lineterminator="\n")
        file.detach()


def _quoted(text: str) -> str:
    """Return a text as a CSV field: names may hold commas."""
    return text if not set(text) & set(',"\n') else '"' + text.replace('"', '""') + '"'
