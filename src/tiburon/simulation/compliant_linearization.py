"""Linear models of robots on compliant contacts, in continuous time or for one step.

Springs and dampers of contacts act, about anchors that stay where they are: points that stick are
held by their springs, points that slide by kinetic friction, and open points by nothing.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.compliant_contact import CompliantContactElement
from tiburon.actuation.contact_models import ContactModel, contact_elements
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, ShapeError
from tiburon.functions.keywords import DynamicsCall
from tiburon.model import Model
from tiburon.simulation.integrators.manifold import Chart, Manifold
from tiburon.simulation.integrators.rate_jacobian import ImplicitRates, rate_changes
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.step_derivative import step_columns
from tiburon.simulation.surrounded import surrounded
from tiburon.simulation.system import System
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

SUPPORTED_KEYWORDS = ("world", "fluid", "time")
"""Shared keywords that a linear model with compliant contact takes."""


def compliant_changes(
    model: Model,
    contact: ContactModel | None,
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike],
    contact_state: ArrayLike | None,
    conditions: DynamicsCall,
) -> Array | None:
    """Return how the rate of x = [dq, v] changes with x, shape (..., 2 nv, 2 nv).

    Args:
        model: The robot.
        contact: As `linearize` takes it.
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
    posed = _posed(model, contact, contact_state, conditions)
    if posed is None:
        return None
    kernel = _kernel(posed.system, posed.fresh)
    lead, (q, v, tau, z), (times,) = _rows((*arrays, posed.z), (posed.time,))
    found = np.asarray(kernel(q, v, np.concatenate([tau, z], axis=-1), times))
    size = 2 * model.nv
    return found.reshape(*lead, size, size)


def compliant_step(
    model: Model,
    contact: ContactModel | None,
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike],
    dt: ArrayLike,
    contact_state: ArrayLike | None,
    conditions: DynamicsCall,
) -> tuple[Array, Array] | None:
    """Return A and B of a step of `RK4`; None if nothing can touch.

    Args:
        model: The robot.
        contact: See `compliant_changes`.
        arrays: See `compliant_changes`.
        dt: Length of the step [s], shape (...).
        contact_state: See `compliant_changes`.
        conditions: Shared keywords.
    """
    posed = _posed(model, contact, contact_state, conditions)
    if posed is None:
        return None
    kernel = _step_kernel(posed.system, posed.fresh)
    lead, states, (times, steps) = _rows((*arrays, posed.z), (posed.time, dt))
    found, n = np.asarray(kernel(*states, steps, times)), model.nv
    whole = found.reshape(*lead, 2 * n, 3 * n)
    return np.ascontiguousarray(whole[..., : 2 * n]), np.ascontiguousarray(whole[..., 2 * n :])


class _Posed(NamedTuple):
    """A robot on its contacts."""

    system: System
    z: Array
    """Discrete states of the contacts."""

    fresh: bool
    """Whether contacts are set anew, where they close."""

    time: Array


def _posed(
    model: Model,
    contact: ContactModel | None,
    contact_state: ArrayLike | None,
    conditions: DynamicsCall,
) -> _Posed | None:
    """Return the robot on its contacts, None if nothing can touch; see `compliant_changes`."""
    world = world_with(conditions.get("world"), conditions.get("fluid")) or DEFAULT_WORLD
    elements = contact_elements(model, world, contact)
    if not elements:
        return None
    refused = [
        name
        for name, value in conditions.items()
        if name not in SUPPORTED_KEYWORDS and value is not None
    ]
    if refused:
        raise ModelError(
            f"linearize with compliant contact: expected {', '.join(SUPPORTED_KEYWORDS)} alone, "
            f"got {refused[0]}; leave it out, or pass contact=None"
        )
    (element,) = elements
    assert isinstance(element, CompliantContactElement)
    system = surrounded(model, world, None, None).system((element,))
    fresh = contact_state is None
    z = system.z0 if fresh else np.asarray(contact_state, dtype=np.float64)
    if z.shape[-1:] != system.z0.shape:
        raise ShapeError(
            "contact_state", f"{len(system.z0)} discrete states of contacts", f"shape {z.shape}"
        )
    time = np.asarray(conditions.get("time", 0.0) or 0.0, dtype=np.float64)
    return _Posed(system, z, fresh, time)


def _rows(
    vectors: Sequence[ArrayLike], numbers: Sequence[ArrayLike]
) -> tuple[tuple[int, ...], list[Array], list[Array]]:
    """Return the shape of a batch, and its vectors and numbers as one row per case."""
    given = [np.asarray(x, dtype=np.float64) for x in vectors]
    single = [np.asarray(x, dtype=np.float64) for x in numbers]
    lead = np.broadcast_shapes(*(x.shape[:-1] for x in given), *(x.shape for x in single))
    count = math.prod(lead)
    rows = [np.broadcast_to(x, (*lead, x.shape[-1])).reshape(count, -1) for x in given]
    ones = [np.broadcast_to(x, lead).reshape(count) for x in single]
    return lead, [np.ascontiguousarray(x) for x in rows], [np.ascontiguousarray(x) for x in ones]


def _step_kernel(system: System, fresh: bool) -> Any:
    """Return the kernel of [A, B] of a step, with anchors set anew or given."""
    from tiburon.native.kernel import ProgramSource, make_kernel

    name = ("compliant step", fresh)
    found = system.kept.get(name)
    if found is not None:
        return found
    n, sizes = system.model.nv, {"q": system.model.nq}
    sizes |= {"v": n, "tau": n, "z": len(system.z0)}

    def run(given: Any) -> Any:
        q, v, tau, z = (tuple(scalars(given[name])) for name in sizes)
        h, time = given["dt"], given["time"]
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        if fresh:
            u = system.update(q, v, (*tau, *z), time, p)
            z = tuple(u[len(u) - len(z) :])
        columns = step_columns(system, "rk4", (q, v, tau, z), h, time, p)
        return as_traced([x for row in zip(*columns, strict=True) for x in row])

    inputs = [*(Input(part, (size,)) for part, size in sizes.items())]
    inputs += [Input("dt", ()), Input("time", ())]
    program = system.trace(run, inputs, "compliant_step")
    kernel = make_kernel(ProgramSource(program), system.parameters(), part="many")
    system.kept[name] = kernel
    return kernel


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
            u = tuple(system.update(q, v, u, time))
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
