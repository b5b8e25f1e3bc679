"""Linear models of robots on compliant contacts, in continuous time.

Springs and dampers of contacts act, about anchors that stay where they are: points that stick are
held by their springs, points that slide by kinetic friction, and open points by nothing.
"""

import math
from typing import Any

import numpy as np

from tiburon.actuation.compliant_contact import CompliantContact
from tiburon.actuation.defaults import contact_elements
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError, ShapeError
from tiburon.functions.keywords import DynamicsCall
from tiburon.model import Model
from tiburon.simulation.contact_start import contact_states
from tiburon.simulation.integrators.manifold import Chart, Manifold
from tiburon.simulation.integrators.rate_jacobian import ImplicitRates, rate_changes
from tiburon.simulation.system import System, surrounded
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["compliant_changes"]

Array = NDArray[np.float64]

TAKEN = ("world", "fluid", "time")
"""Shared keywords that a linear model with compliant contact takes."""


def compliant_changes(
    model: Model,
    choice: tuple[str | bool | None, Any],
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike],
    contact_state: ArrayLike | None,
    conditions: DynamicsCall,
) -> Array | None:
    """Return how the rate of x = [dq, v] changes with x, shape (..., 2 nv, 2 nv).

    Args:
        model: The robot.
        choice: The arguments `contact` and `contact_pairs` of `linearize`.
        arrays: Configuration, velocity and joint force.
        contact_state: Discrete states of the contacts as in `run.z`; by default those of contacts
            that closed where they are.
        conditions: Shared keywords.

    Returns:
        The matrix; None if nothing can touch.

    Raises:
        ModelError: If a keyword cannot act together with compliant contact.
        ShapeError: If the states of contacts do not fit.
    """
    world = world_with(conditions.get("world"), conditions.get("fluid")) or DEFAULT_WORLD
    elements = contact_elements(model, world, *choice)
    if not elements:
        return None
    refused = [
        name for name, value in conditions.items() if name not in TAKEN and value is not None
    ]
    if refused:
        raise ModelError(
            f"linearize with compliant contact: expected {', '.join(TAKEN)} alone, got "
            f"{refused[0]}; leave it out, or pass contact=False"
        )
    (element,) = elements
    assert isinstance(element, CompliantContact)
    system = surrounded(model, world, None, None, False).system((element,))
    fresh = contact_state is None
    if contact_state is None:
        when = conditions.get("time")
        z = contact_states(model, element.candidates, system.z0, *arrays[:2], when)
    else:
        z = np.asarray(contact_state, dtype=np.float64)
    if z.shape[-1:] != system.z0.shape:
        raise ShapeError(
            "contact_state", f"{len(system.z0)} discrete states of contacts", f"shape {z.shape}"
        )
    kernel = _kernel(system, fresh)
    time = np.asarray(conditions.get("time", 0.0) or 0.0, dtype=np.float64)
    given = [np.asarray(x, dtype=np.float64) for x in (*arrays, z)]
    lead = np.broadcast_shapes(*(x.shape[:-1] for x in given), time.shape)
    count = math.prod(lead)
    q, v, tau, z = (
        np.ascontiguousarray(np.broadcast_to(x, (*lead, x.shape[-1])).reshape(count, -1))
        for x in given
    )
    times = np.ascontiguousarray(np.broadcast_to(time, lead).reshape(count))
    found = np.asarray(kernel(q, v, np.concatenate([tau, z], axis=-1), times))
    size = 2 * model.nv
    return found.reshape(*lead, size, size)


def _kernel(system: System, fresh: bool) -> Any:
    """Return the kernel of the matrix, with anchors set anew or given."""
    from tiburon.native.kernel import ProgramSource, make_kernel

    name = ("compliant changes", fresh)
    found = system.kept.get(name)
    if found is not None:
        return found
    model = system.model
    implicit = ImplicitRates(system)

    def run(given: Any) -> Any:
        q, v, u = (tuple(scalars(given[name])) for name in ("q", "v", "u"))
        time = given["time"]
        if fresh:
            u = system.update(q, v, u, time)
        chart = Chart(Manifold(model), implicit.under(u), q)
        columns = rate_changes(chart, chart.start(v), time).by_state
        rows = [[column[i] for column in columns] for i in range(len(columns))]
        return as_traced([x for row in rows for x in row])

    inputs = [
        Input("q", (model.nq,)),
        Input("v", (model.nv,)),
        Input("u", (system.drive_size,)),
        Input("time", ()),
    ]
    program = system.trace(run, inputs, "compliant_changes")
    kernel = make_kernel(ProgramSource(program), system.parameters(), part="many")
    system.kept[name] = kernel
    return kernel
