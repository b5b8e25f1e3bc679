"""One step of a method: the part that all loops of equal steps share, and a kernel of it alone."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tiburon.algorithms.tape_calls import scalars
from tiburon.record import record
from tiburon.simulation.integrators.kept_inertia import KeptSystem
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.system import ELEMENTS, System
from tiburon.spatial import Scalar
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function
from tiburon.trace.value import require

__all__ = ["LEFT_OPEN", "NOW", "StepSource", "Stepping"]

LEFT_OPEN = (
    "loops that stay closed: the step is too long, or a joint was driven where they cannot follow"
)
"""What a step expects that cannot bring its state back onto the loops."""

NOW = ("begin", "dt", "step", "done")
"""What the argument `now` of a kernel of one step holds; `Clock` in loop.py tells what they are."""


class Stepping:
    """Steps of a method, on floats or traced values.

    The step is one function, traced with nothing around it but run-time numbers: it rounds alike
    in every loop that calls it.

    Attributes:
        manifold: Positions of the robot.
        step: Takes position, velocities with inner states, what the method remembers, what is held,
            the length of the step [s] and the time at its start [s]; gives the first three one step
            later, loops closed.
    """

    def __init__(self, system: System, method: Method, p: Sequence[Scalar] = ()) -> None:
        """Prepare for steps.

        Args:
            system: What moves.
            method: The integrator.
            p: Run-time numbers of the elements.
        """
        self.manifold = manifold = Manifold(system.model)
        kept = KeptSystem(system, p) if method.keeps_inertia else None

        @function
        def rates(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
            return system.rates(q, w, u, time, p)

        def rates_under(u: Scalars, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
            found: Scalars = rates(q, w, u, time)
            return found

        def under(u: Scalars) -> Any:
            return partial(rates_under, u) if kept is None else kept.under(u)

        @function
        def settled(q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars]:
            q, w, gap = system.settle(q, w, time)
            return tuple(require(gap <= system.most_open, x, LEFT_OPEN) for x in q), w

        @function
        def step(
            q: Scalars, w: Scalars, memory: Any, u: Scalars, h: Scalar, time: Scalar
        ) -> tuple[Scalars, Scalars, Any]:
            q, w, memory = method.advance(manifold, under(u), q, w, memory, h, time)
            if system.model.loops:
                q, w = settled(q, w, time + h)
            return q, w, memory

        self.step: Callable[..., tuple[Scalars, Scalars, Any]] = step
        self.under = under
        """Gives, for what is held, what the method asks for rates."""


@record(slots=False, eq=False)
class StepSource:
    """Where a kernel of one step comes from.

    The kernel is called as ``kernel(q, v, u, now)``, with inner states x after v where there are
    any, what is held, and the numbers of `NOW`; it gives q, v (and x) one step later. Its bits are
    those of a loop that takes one step.
    """

    system: System
    method: str

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_step"

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        text = repr(("step 1", self.method, self.system.key))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return what callers pass."""
        system, model = self.system, self.system.model
        return [
            Input("q", (model.nq,)),
            Input("v", (model.nv,)),
            *([Input("x", (system.nx,))] if system.nx else []),
            Input("u", (system.drive_size,)),
            Input("now", (len(NOW),)),
        ]

    def program(self) -> Program:
        """Trace the step."""
        system = self.system
        nv = system.model.nv

        def run(given: Any) -> Any:
            q, v, u = (tuple(scalars(given[name])) for name in ("q", "v", "u"))
            x = tuple(scalars(given["x"])) if system.nx else ()
            begin, dt, h, done = scalars(given["now"])
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            stepping = Stepping(system, METHODS[self.method], p)
            q, w, _ = stepping.step(q, (*v, *x), (), u, h, begin + done * dt)
            found = {"q": list(q), "v": list(w[:nv])}
            return {**found, "x": list(w[nv:])} if system.nx else found

        return system.trace(run, self.inputs(), self.name)
