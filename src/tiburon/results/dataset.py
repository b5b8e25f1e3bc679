"""Runs as xarray datasets: named dimensions, coordinates, units, and the robot embedded."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import UnknownNameError
from tiburon.functions.parameters import CaseRows
from tiburon.results.embedding import is_data, to_text
from tiburon.results.quantities import ENERGIES, QUANTITIES, Quantity, States, output_quantity
from tiburon.results.run_header import Column
from tiburon.simulation.run_parameters import with_named

if TYPE_CHECKING:
    import xarray

    from tiburon.results.trajectory import Trajectory

__all__ = ["dataset_of", "variable_of"]

Array = NDArray[np.float64]

BLOCK_BYTES = 64_000_000
"""Recorded states that are read at a time when quantities are computed from them."""


def dataset_of(run: "Trajectory") -> "xarray.Dataset":
    """Return all recorded columns, and quantities asked for when the run was started."""
    import xarray

    if run.store is None:
        variables = {column.name: _recorded(run, column) for column in run.header.columns}
        data = xarray.Dataset(variables, coords=_coordinates(run))
    else:
        data = _opened(run)
    for name in run.header.setup.get("record") or ():
        for wanted in _meant(name):
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


def _meant(name: str) -> tuple[str, ...]:
    """Return the quantities that a word stands for."""
    return ENERGIES if name == "energy" else (name,)


def variable_of(run: "Trajectory", name: str) -> "xarray.DataArray":
    """Return a quantity by name, recorded or computed."""
    column = run.header.column(name)
    if column is not None:
        found: xarray.DataArray = run.data[column.name]
        return found
    if name in QUANTITIES:
        return _computed(run, name, QUANTITIES[name])
    if run.system is not None and name in run.system.output_names:
        return _computed(run, name, output_quantity(name))
    raise UnknownNameError("quantity", name, run.names, listing="run.names")


def _recorded(run: "Trajectory", column: Column) -> Any:
    import xarray

    return xarray.Variable(_dimensions(run, column), run.array(column.key), column.attributes)


def _dimensions(run: "Trajectory", column: Column) -> tuple[str, ...]:
    named = [column.dimension] if column.labels is not None else []
    return ("time", *run.header.case_dimensions, *named)


def _coordinates(run: "Trajectory") -> dict[str, Any]:
    found: dict[str, Any] = {
        "time": ("time", run.time, {"units": "s", "long_name": "time"}),
        **{n: np.arange(k) for n, k in zip(run.header.case_dimensions, run.batch, strict=True)},
    }
    for column in run.header.columns:
        for name, labels in column.coordinates.items():
            found[name] = (column.dimension, np.array(labels))
    return found


def _opened(run: "Trajectory") -> "xarray.Dataset":
    """Return the arrays of a store, which are read when they are used."""
    import xarray
    from xarray.core.indexing import LazilyIndexedArray

    from tiburon.results.stored_column import StoredColumn

    assert run.store is not None
    variables = {}
    for column in run.header.columns:
        shape = (len(run), *run.header.shape(column))
        lazy = LazilyIndexedArray(StoredColumn(run.store, column.key, shape))
        names = _dimensions(run, column)
        variables[column.name] = xarray.Variable(names, lazy, column.attributes)
    return xarray.Dataset(variables, coords=_coordinates(run))


def _computed(run: "Trajectory", name: str, quantity: Quantity) -> "xarray.DataArray":
    import xarray

    names = quantity.coordinates(run.model)
    units = quantity.unit_of_each(run.model)
    # made by the same rules as what is recorded
    column = Column(name, name, (), units, quantity.dimensions[-1] if names else "", quantity.title)
    shape = tuple(len(labels) for labels in names.values())
    values = np.full((len(run), *run.batch, *shape), np.nan)
    step = max(1, BLOCK_BYTES // run.header.row_bytes)
    for start in range(0, len(run), step):
        stop = min(start + step, len(run))
        _fill(run, quantity, start, stop, values[start:stop])
    cases = ("time", *run.header.case_dimensions)
    common = {key: value for key, value in _coordinates(run).items() if key in cases}
    found = xarray.DataArray(
        values,
        dims=("time", *run.header.case_dimensions, *quantity.dimensions),
        coords={**common, **{name: np.array(labels) for name, labels in names.items()}},
        name=name,
        attrs=column.attributes,
    )
    if not isinstance(units, str):
        found = found.assign_coords({f"{name}_unit": (column.dimension, np.array(units))})
    return found


def _fill(run: "Trajectory", quantity: Quantity, start: int, stop: int, values: Array) -> None:
    """Compute a quantity for some rows; states of ended cases, which are NaN, stay so."""
    rows = {key: _rows(run, key, start, stop) for key in ("q", "v", "x", "u")}
    good = np.isfinite(rows["q"]).all(axis=-1) & np.isfinite(rows["v"]).all(axis=-1)
    if not good.any():
        return
    time = run.rows.read("time", start, stop)
    time = np.broadcast_to(time.reshape(-1, *[1] * len(run.batch)), good.shape)
    own = {
        name: np.ascontiguousarray(np.broadcast_to(table, (*good.shape, table.shape[-1]))[good])
        for name, table in _parameters(run).items()
    }
    model, world = with_named(run.model, run.world, tuple(run.header.setup.get("named") or ()))
    states = States(
        model,
        world,
        run.system,
        np.ascontiguousarray(time[good]),
        **{key: np.ascontiguousarray(array[good]) for key, array in rows.items()},
        parameters=CaseRows(own),
    )
    values[good] = quantity.compute(states)


def _parameters(run: "Trajectory") -> dict[str, Array]:
    """Return numbers that replaced those of the robot and its surroundings, alike or by case."""
    given = run.header.setup.get("parameters") or {}
    alike = {name: np.asarray(row) for name, row in given.items() if np.ndim(row) == 1}
    return {**alike, **run.header.case_parameters}


def _rows(run: "Trajectory", key: str, start: int, stop: int) -> Array:
    if run.header.column(key) is None:
        return np.empty((stop - start, *run.batch, 0))
    return run.rows.read(key, start, stop)
