"""Calls of a traced controller: its commands, the rates of its states, and what it holds.

Symbols are those of `tiburon.simulation.system`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.algorithms.surroundings import at_time
from tiburon.errors import ShapeError
from tiburon.simulation.layout import CONTROL
from tiburon.simulation.state import Readings, State
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import current_graph

if TYPE_CHECKING:
    from tiburon.simulation.system import System


def decide(
    system: "System", q: Scalars, v: Scalars, x: Scalars, u: Scalars, time: Scalar
) -> tuple[Scalars, Scalars, Scalars]:
    """Call the traced controller; return commands, rates, and its next discrete states."""
    count, own, own_z = (
        len(names) for names in (system.command_names, system.own_names, system.own_z_names)
    )
    state = State(system, time, *map(_array, (q, v, x, u[:count])))
    if own:
        state.own = state.x[len(x) - own :]
    if system.z_names:
        state.z = _array(u[system.discrete])
        state.own_z = state.z[len(system.z_names) - own_z :] if own_z else None
    if system.sensed:
        state.sensors = _readings_by_name(system, u)
    state.owner, state.p = system.control, _array(system.run_time(CONTROL))
    state.tables = system.control_handles
    assert system.control is not None
    with at_time(time if system.time_matters else None):
        answer = system.control(state)
    parts = [
        ("rates", system.own_names),
        ("discrete states", system.own_z_names),
    ]
    more: list[Scalars] = [(), ()]
    if own or own_z:
        names = ["commands", *(part for part, known in parts if known)]
        if not (isinstance(answer, tuple) and len(answer) == len(names)):
            raise ShapeError("control", f"a tuple ({', '.join(names)})", type(answer).__name__)
        answer, *rest = answer
        for k, (part, known) in enumerate(parts):
            if known:
                more[k] = tuple(as_traced(rest.pop(0)).reshape(-1).tolist())
                if len(more[k]) != len(known):
                    listed = f"{len(known)} ({', '.join(known)})"
                    raise ShapeError(f"control: {part}", listed, len(more[k]))
    return tuple(system.commands.fill(list(u[:count]), answer)), more[0], more[1]


def hold(system: "System", q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
    """Sample the traced controller: return the held values from here on."""
    position, v, x = system.split(q, w)
    commands, own, own_z = decide(system, position, v, x, u, time)
    kept = u[system.readings.start : system.discrete.stop - len(own_z)]
    return (*commands, *own, *kept, *own_z)


def commands_at(system: "System", q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
    """Return the commands in a state: those held, or those of the controller."""
    if system.control is None or system.held:
        return tuple(u[: len(system.command_names)])
    position, v, x = system.split(q, w)
    return decide(system, position, v, x, u, time)[0]


def state_at(system: "System", q: Any, w: Scalars, u: Any, time: Scalar) -> State:
    """Return a state as events see it, from scalars."""
    position, v, x = system.split(q, w)
    count = len(system.command_names)
    return State(system, time, *map(_array, (position, v, x, u[:count])))


def _readings_by_name(system: "System", u: Scalars) -> Readings:
    """Return the held sensor readings by the name of the sensor."""
    found, place = Readings(), system.readings.start
    for name, count in system.sensed:
        found[name] = _array(u[place : place + count])
        place += count
    return found


def _array(values: Scalars) -> Any:
    """Return scalars as an array that user code may calculate with."""
    if current_graph() is None:
        return np.array(values, dtype=np.float64)
    return as_traced(list(values))
