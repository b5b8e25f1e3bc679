"""Keys of elements and controllers that run user code: the graph of what they compute."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiburon.algorithms.tape_calls import scalars
from tiburon.model.plan import WORLD_BODY
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.simulation.system import System

__all__ = ["ELEMENTS", "drive_key"]

ELEMENTS = "elements"
"""Name of the parameter that holds the run-time numbers of all elements."""


def drive_key(system: "System") -> str:
    """Return the key of the graph of elements and controller alone, without the dynamics."""
    frames: list[Any] = []

    def run(given: Mapping[str, Any]) -> Any:
        q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
        time = given["time"]
        position, v, x = system._parts(q, w)
        here = system._setting(position, v, time)
        commands, own = (
            (u, ()) if system.control is None else system.decide(position, v, x, u, time)
        )
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        driving = system.drive(here, position, v, x, commands, time, p)
        frames[:] = [
            name for name, _ in driving.wrenches if here.plan.frame(name).body != WORLD_BODY
        ]
        pushes = [value for _, wrench in driving.wrenches for value in wrench]
        names = sorted(driving.outputs)
        frames.append(names)
        reported = [driving.outputs[name] for name in names]
        return [*commands, *driving.force, *pushes, *driving.rates, *own, *reported]

    model = system.model
    inputs = [
        Input("q", (model.nq,)),
        Input("w", (model.nv + system.nx,)),
        Input("u", (system.drive_size,)),
        Input("time", ()),
    ]
    program = system.trace(run, inputs, "drive")
    return f"{program.key:016x} {frames}"
