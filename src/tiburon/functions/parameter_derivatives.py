"""Derivatives of kernels by run-time parameters, such as masses and geometry.

A kernel reads named parameters from tables. Its derivative along a direction of these tables is a
kernel, too (`forward_derivative`), compiled once; every scalar parameter is one direction, and all
directions are a batch. Entries of tables follow from named values by sums and products of at most
two of them, whose derivatives differences give without truncation error; entries of the geometry
are the named values themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, ShapeError, TiburonError, UnknownNameError, shown
from tiburon.functions.library import TIME
from tiburon.functions.parameters import KernelParameters
from tiburon.model.parameters import PLACEMENT, SYMMETRIC, Parameter, component_places, read_values

DIFFERENCE = 1e-3
"""Step of differences of products, relative to the scale of a parameter."""

STENCILS = {
    (1.0, -1.0): np.array([0.0, 0.5, -0.5]),
    (1.0, 2.0): np.array([-1.5, 2.0, -0.5]),
    (-1.0, -2.0): np.array([1.5, -2.0, 0.5]),
}
"""Differences that are exact for products of two parameters: offsets of two points in steps, and
weights of the value itself and of both. The latter two are for values at a bound."""


def table_changes(
    lower: Callable[[Array], Mapping[str, Array]],
    feasible: Callable[[Array], bool],
    values: Array,
    scale: Array,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the tables of run-time parameters, and their derivatives, shape (parameters, k).

    Args:
        lower: Returns the tables, shape (cases, k), for values of shape (parameters, cases).
        feasible: Whether a robot may have values, shape (parameters,).
        values: The values.
        scale: Size of a change of each of them.
    """
    steps = DIFFERENCE * scale
    columns, stencils = [values], []
    for k, step in enumerate(steps):
        for stencil in STENCILS:
            points = [values + offset * step * (np.arange(len(values)) == k) for offset in stencil]
            if values[k] > 2.0 * step or all(map(feasible, points)):
                break
        columns += points
        stencils.append(stencil)
    found = lower(np.stack(columns, axis=1))
    derivatives = {name: np.empty((len(values), rows.shape[-1])) for name, rows in found.items()}
    for name, rows in found.items():
        for k, stencil in enumerate(stencils):
            three = rows[[0, 1 + 2 * k, 2 + 2 * k]]
            derivatives[name][k] = STENCILS[stencil] @ three / steps[k]
    return {name: rows[0] for name, rows in found.items()}, derivatives


@public
def parameter_derivatives(
    kernel: Callable[..., Any],
    *arrays: ArrayLike,
    parameters: Mapping[str, ArrayLike] | None = None,
    by: str | Sequence[str] | None = None,
    time: ArrayLike | None = None,
) -> dict[str, Any]:
    """Differentiate the results of a kernel by its run-time parameters, exactly.

    The parameters are those for which the kernel was compiled: masses, geometry, properties of
    water. The sensitivity of any function to a design parameter is thus one call: of accelerations,
    poses, constraint residuals, and configurations with closed loops (`loop_motion`).

    Args:
        kernel: From `compile`, with ``parameters=`` names.
        arrays: Its arguments, one case or a batch.
        parameters: Values by name at which to differentiate, one for all cases; those of the robot
            by default.
        by: Which of these names, or components of them; all that the kernel was compiled for by
            default.
        time: Time at which driven joints and currents are evaluated [s], one value or one per
            case; 0 by default. Only for kernels that depend on it.

    Returns:
        By name, the derivative of the result: its dimensions are those of the batch, of the result
        and of the parameter; a scalar result has none. A tuple for a kernel with several results.

    Raises:
        ModelError: If the kernel was compiled without parameters, or not for one that is named; if
            there is a time, and the kernel does not depend on it.
        ShapeError: If there are more or fewer arrays than the kernel takes.

    Example:
        ``tb.parameter_derivatives(tb.compile(tb.forward_kinematics, arm, frames="tool",
        parameters=["elbow.translation"]), q)["elbow.translation"]``
    """
    own: Any = getattr(kernel, "__self__", None)
    names = getattr(own, "_named_parameters", None)
    if not isinstance(names, KernelParameters) or not names.names:
        raise ModelError(
            f"kernel: expected one that was compiled with parameters=names, got {shown(kernel)}; "
            "write tb.compile(function, model, parameters=[...])"
        )
    inputs = [item.name for item in own.inputs]
    if len(arrays) != len(inputs):
        listed = ", ".join(inputs)
        raise ShapeError("arrays", f"{len(inputs)} ({listed})", f"{len(arrays)}")
    if time is not None and TIME not in own.parameters:
        raise ModelError(
            f"time: expected none, because nothing in kernel {own.name!r} depends on it, got "
            f"{shown(time)}; leave it out"
        )
    refuse_unusable("time", time)
    known = names.known()
    whole = names.declared(known)
    for name, array in read_values(known, parameters or {}).items():
        if name not in whole or array.shape != known[name].shape:
            expected = "one value for all cases" if name in whole else "a name of the kernel's own"
            raise ModelError(
                f"parameters[{name!r}]: expected {expected}, got shape {array.shape}; compile the "
                "kernel for it, and call this once per value"
            )
        whole[name] = array
    wanted = names.names if by is None else ((by,) if isinstance(by, str) else tuple(by))
    if not wanted:
        raise ShapeError("by", "names of parameters", "none", advice="leave it out for all")
    places = {name: _entries(name, known, whole) for name in wanted}
    entries = [entry for found in places.values() for entry in found]
    start = np.array([whole[owner][where[0]] for owner, where in entries], dtype=np.float64)
    scale = np.array([np.abs(whole[owner]).max() or 1.0 for owner, _ in entries])

    def lower(columns: Array) -> dict[str, Array]:
        count = columns.shape[1]
        given = {name: np.repeat(value[None], count, axis=0) for name, value in whole.items()}
        for (owner, where), row in zip(entries, columns, strict=True):
            for place in where:
                at: Any = (slice(None), *place)
                given[owner][at] = row
        tables = names.rows(given)
        # what is common to all cases is one row
        return {
            name: np.broadcast_to(table, (count, table.shape[-1]))
            for name, table in tables.items()
            if name in own.parameters
        }

    def feasible(column: Array) -> bool:
        # any geometry is that of some robot
        moved = [entries[k][0] for k in np.flatnonzero(column != start)]
        if all(known[owner].part == PLACEMENT for owner in moved):
            return True
        try:
            lower(column[:, None])
        except TiburonError:
            return False
        return True

    tables, changes = table_changes(lower, feasible, start, scale)
    inputs = own.inputs
    given = [np.asarray(array, dtype=np.float64) for array in arrays]
    # a time per case is one more argument of the kernel
    at = {} if time is None else {TIME: np.asarray(time, dtype=np.float64)}
    lead = np.broadcast_shapes(
        *(x.shape[: x.ndim - len(item.shape)] for x, item in zip(given, inputs, strict=True)),
        *(value.shape for value in at.values()),
    )
    directions = [rows.reshape(len(entries), *(1,) * len(lead), -1) for rows in changes.values()]
    found = own.along(tuple(changes)).evaluate(*given, *directions, **tables, **at)
    results = found if isinstance(found, tuple) else (found,)
    answer: dict[str, Any] = {}
    first = 0
    for name, own_entries in places.items():
        last = first + len(own_entries)
        shape = known[name].shape if name in known else ()
        parts = tuple(
            np.moveaxis(part[first:last], 0, -1).reshape((*part.shape[1:], *shape))
            for part in results
        )
        answer[name] = parts if len(parts) > 1 else parts[0]
        first = last
    return answer


Entry = tuple[str, list[tuple[int, ...]]]
"""A scalar parameter: the parameter it belongs to, and where it stands there."""


def _entries(name: str, known: Mapping[str, Parameter], whole: Mapping[str, Array]) -> list[Entry]:
    """Return the scalars of a parameter or component."""
    if name in known:
        if name.rpartition(".")[2] in SYMMETRIC:
            raise ModelError(
                f"by: expected components of {name!r}, whose mirrored entries are equal, got all "
                f"of them; name those you need: by=[{name + '.vx'!r}, {name + '.wy_vz'!r}, ...]"
            )
        owner, found = name, [[place] for place in np.ndindex(known[name].shape)]
    else:
        owner, places = component_places(name, known)
        found = [places] if places else []
    if owner not in whole or not found:
        raise UnknownNameError("parameter of the kernel", name, whole, where="by")
    return [(owner, places) for places in found]
