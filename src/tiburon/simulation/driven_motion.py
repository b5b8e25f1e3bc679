"""What elements do, and how the robot accelerates under it, in many recorded states at once."""

from collections.abc import Callable, Mapping
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.tape_calls import scalars
from tiburon.errors import ModelError
from tiburon.simulation.system import ELEMENTS, Driving, System
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.results.quantities import States

__all__ = ["accelerations", "joint_forces", "reported", "wrenches"]

Array = NDArray[np.float64]
Run = Callable[[Any, Any, Any, Any, Any], Any]


def accelerations(states: "States") -> Array:
    """Return joint accelerations [m/s^2 or rad/s^2], shape (n, nv)."""
    system = _system(states)

    def run(q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
        return list(system.rates(q, w, u, time, p)[: system.model.nv])

    return np.asarray(_ask(states, run, "recorded_acceleration"))


def joint_forces(states: "States") -> Array:
    """Return what all elements and commands together exert at joints [N or N m], shape (n, nv)."""
    system = _system(states)

    def run(q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
        return list(_driving(system, q, w, u, time, p).force)

    return np.asarray(_ask(states, run, "recorded_joint_force"))


def wrenches(states: "States") -> dict[str, Array]:
    """Return what elements exert on frames, by name: [n; f], frame axes [N m, N], shape (n, 6)."""
    system = _system(states)
    frames: list[str] = []

    def run(q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
        found: dict[str, Any] = {}
        for frame, wrench in _driving(system, q, w, u, time, p).wrenches:
            known = found.get(frame)
            found[frame] = tuple(wrench) if known is None else tuple(map(add, known, wrench))
        frames[:] = found
        # zeros for robots that nothing pushes: a kernel gives something
        return [x for wrench in found.values() for x in wrench] or [0.0 * q[0]]

    pushes = np.asarray(_ask(states, run, "recorded_wrenches"))
    return {frame: pushes[:, 6 * k : 6 * k + 6] for k, frame in enumerate(frames)}


def reported(states: "States", name: str) -> Array:
    """Return what an element reports under one of the names of `System.output_names`, (n,)."""
    system = _system(states)

    def run(q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
        return [0.0 * q[0] + _driving(system, q, w, u, time, p).outputs[name]]

    return np.asarray(_ask(states, run, "recorded_output"))[:, 0]


def _system(states: "States") -> System:
    """Return what moves, commanded from outside: the recorded commands tell what was decided."""
    if states.system is None:
        raise ModelError(
            f"robot {states.model.name!r}: its elements are code, which the file of a run cannot "
            "hold, so that forces and accelerations are not known; ask the run before it is saved, "
            "or record them"
        )
    found: System = states.system
    return found


def _driving(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Driving:
    """Let all elements act in one state."""
    position, v, x = system._parts(q, w)
    here = system._setting(position, v, time)
    return system.drive(here, position, v, x, u, time, p)


def _ask(states: "States", run: Run, name: str) -> Any:
    """Evaluate a function of a system on all states.

    Args:
        states: Where.
        run: Takes scalars q, w, u, time and the elements' numbers p.
        name: Name of the kernel.
    """
    from tiburon.native.kernel import ProgramSource, make_kernel

    system = _system(states)
    model = system.model

    def traced(given: Mapping[str, Any]) -> Any:
        q, w, u = (scalars(given[key]) for key in ("q", "w", "u"))
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        return run(q, w, u, given["when"], p)

    inputs = [
        Input("q", (model.nq,)),
        Input("w", (model.nv + system.nx,)),
        Input("u", (len(system.command_names),)),
        Input("when", ()),
    ]
    program = system.trace(traced, inputs, name)
    kernel: Any = make_kernel(ProgramSource(program), system.parameters())
    # the states of a controller follow those of the elements, and are none of theirs
    w = np.concatenate([states.v, states.x[:, : system.nx]], axis=-1)
    known = kernel.__self__.parameters
    own = {key: rows for key, rows in states.parameters.items() if key in known}
    return kernel(states.q, w, states.u, states.time, **own)
