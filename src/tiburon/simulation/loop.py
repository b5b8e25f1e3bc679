"""Kernels that take many steps without returning to Python.

One kernel serves any number of steps and any recording rate: how many steps to take before each
state that it gives is an argument. The dynamics is a function inside it, called at every stage. A
traced controller that is sampled, and the watch for events, are part of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.tape_calls import scalars
from tiburon.record import record
from tiburon.simulation.events import Watch
from tiburon.simulation.integrators.kept_inertia import KeptSystem
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.step_source import Stepping
from tiburon.simulation.system import ELEMENTS, System
from tiburon.spatial import Scalar
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function, while_loop
from tiburon.trace.structure import Structure, flatten, rebuild

__all__ = ["CLOCK", "MOST_STEPS", "Clock", "LoopSource", "take_steps"]

MOST_STEPS = 2**53
"""Steps are counted in floats, exactly up to here."""


class Clock(NamedTuple):
    """Numbers that tell a call what to do; counts of steps follow them in the kernel's argument."""

    begin: Scalar
    """Time at the start of the run [s]."""

    dt: Scalar
    """Distance of two times of the grid [s]: times are ``begin + steps done * dt``."""

    step: Scalar
    """Length of a step [s]: dt, or less to look into a step."""

    done: Scalar
    """Steps of the grid that were taken before the call."""

    hold: Scalar
    """Steps for which a sampled controller holds its commands."""

    sample: Scalar
    """When a sampled controller is asked: 1 where it is due on arriving at a step, 2 also at the
    start of the call, 0 never. What is held at the start of a call is known already, as a rule: a
    controller that reads its own commands must not be asked twice."""

    watch: Scalar
    """Whether to stop before a step in which an event happens: 1 or 0."""

    start: Scalar
    """Whether a multi-step method starts anew: 1 after a jump of commands or states, else 0."""


CLOCK = len(Clock._fields)
"""Where the counts of steps begin."""


class _Loop(NamedTuple):
    """State of the inner loop."""

    taken: Scalar
    q: Scalars
    w: Scalars
    memory: Any
    """What the method remembers of the steps before."""
    g: Scalars
    """Values of the events here."""
    met: Scalars
    """For each event 1 if it happens in the next step, else 0."""


def take_steps(
    system: System,
    method: Method,
    watch: Watch | None,
    q: Scalars,
    w: Scalars,
    carried: Scalars,
    clock: Clock,
    counts: Sequence[Scalar],
    p: Sequence[Scalar] = (),
    sides: Sequence[Scalar] = (),
) -> tuple[list[Scalars], list[Scalars], Scalars, Scalar]:
    """Take steps and keep some of the states on the way; on floats or traced values.

    Args:
        system: What moves.
        method: The integrator.
        watch: The events to look for; None for none.
        q: Position at the start [m or rad], nq scalars.
        w: Joint velocity and inner states at the start, nv + nx scalars.
        carried: What is carried from call to call: what is held, `System.drive_size` scalars, and
            what the method remembers.
        clock: When, and how far.
        counts: How many steps to take before each state that is kept.
        p: Run-time numbers of the elements.
        sides: For each event the side of zero it is on at the start, 1 or -1; 0 to go by its value.

    Returns:
        States (*q, *w), and what is carried on, one for each count; the events that stopped
        the run, 1 or 0 each; and the number of steps taken.
    """
    stepping = Stepping(system, method, p)

    def when(taken: Scalar) -> Scalar:
        # sums of dt would drift, and depend on how a run is cut into calls
        return clock.begin + (clock.done + taken) * clock.dt

    @function
    def happening(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        return watch.values(system, q, w, u, time) if watch is not None else ()

    def stopped(met: Scalars) -> Scalar:
        found: Scalar = 0.0
        for one in met:
            found = found + one
        return found

    def run(now: _Loop, u: Scalars, end: Scalar) -> _Loop:
        """Step up to a number of steps, or to an event."""

        def following(now: _Loop) -> _Loop:
            time = when(now.taken)
            q, w, memory = stepping.step(now.q, now.w, now.memory, u, clock.step, time)
            if watch is None:
                return now._replace(taken=now.taken + 1.0, q=q, w=w, memory=memory)
            # the end of a step is the start of the next one, to the bit
            g = happening(q, w, u, when(now.taken + 1.0))
            met = tuple(clock.watch * one for one in watch.crossed(now.g, g))
            stay = stopped(met) > 0.0
            # before a step with an event the loop rests: it is looked into from its start
            return _Loop(
                np.where(stay, now.taken, now.taken + 1.0),
                _chosen(stay, now.q, q),
                _chosen(stay, now.w, w),
                _chosen_memory(stay, now.memory, memory),
                _chosen(stay, now.g, g),
                met,
            )

        def going(now: _Loop) -> Any:
            return (now.taken < end) & (stopped(now.met) < 0.5) if now.met else now.taken < end

        return _Loop(*while_loop(going, following, now, MOST_STEPS).state)

    def phase_of(now: _Loop) -> Scalar:
        """Return how many steps ago the controller was due."""
        total = clock.done + now.taken
        return total - clock.hold * np.floor(total / clock.hold)

    @function
    def asked(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        return system.hold(q, w, u, time)

    def sampled(now: _Loop, u: Scalars, due: Any) -> tuple[_Loop, Scalars]:
        """Ask the controller if it is due; return where the loop is, and what is held then."""
        u = _chosen(due, asked(now.q, now.w, u, when(now.taken)), u)
        return now._replace(memory=started(now, u, due)), u

    def started(now: _Loop, u: Scalars, anew: Any) -> Any:
        """Return what the method remembers: nothing of the time before a jump."""
        if not method.has_memory:
            return now.memory
        rates = stepping.under(u)
        fresh = method.start(stepping.manifold, rates, now.q, now.w, clock.step, when(now.taken))
        return _chosen_memory(anew, fresh, now.memory)

    @function
    def advance(now: _Loop, u: Scalars, end: Scalar) -> tuple[_Loop, Scalars]:
        """Step up to a number of steps with a controller that is sampled, or with none."""
        if not system.held:
            return run(now, u, end), u

        def next_sample(state: tuple[_Loop, Scalars]) -> tuple[_Loop, Scalars]:
            now, u = state
            then = run(now, u, np.minimum(end, now.taken + clock.hold - phase_of(now)))
            # not where an event stopped the loop before its first step: it was asked there before
            arrived = (phase_of(then) < 0.5) & (then.taken > now.taken)
            return sampled(then, u, arrived & (clock.sample > 0.5))

        def going(state: tuple[_Loop, Scalars]) -> Any:
            now = state[0]
            return (now.taken < end) & (stopped(now.met) < 0.5) if now.met else now.taken < end

        found: tuple[_Loop, Scalars] = while_loop(going, next_sample, (now, u), MOST_STEPS).state
        return found

    u, numbers = carried[: system.drive_size], carried[system.drive_size :]
    g = happening(q, w, u, when(0.0))
    g = tuple(np.where(side == 0.0, x, side) for x, side in zip(g, sides, strict=True))
    now = _Loop(0.0, q, w, (), g, (0.0,) * len(g))
    if method.has_memory:
        known = rebuild(memory_form(system, method)[1], iter(numbers))
        now = now._replace(memory=known)
        now = now._replace(memory=started(now, u, clock.start > 0.5))
    if system.held:
        now, u = sampled(now, u, clock.sample > 1.5)
    states: list[Scalars] = []
    held: list[Scalars] = []
    end: Scalar = 0.0
    for count in counts:
        end = end + count
        now, u = advance(now, u, end)
        states.append((*now.q, *now.w))
        held.append((*u, *flatten(now.memory)[0]))
    return states, held, now.met, now.taken


def _chosen(condition: Scalar, a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalars:
    """Return a where a condition holds, else b."""
    return tuple(np.where(condition, x, y) for x, y in zip(a, b, strict=True))


def _chosen_memory(condition: Any, a: Any, b: Any) -> Any:
    """Return one of two memories of the same structure."""
    (x, structure), (y, _) = flatten(a), flatten(b)
    return rebuild(structure, iter(_chosen(condition, x, y)))


def memory_form(system: System, method: Method) -> tuple[int, Structure]:
    """Return what a method remembers of the steps of a system: how many numbers, in which form."""
    model = system.model
    w = (0.0,) * (model.nv + system.nx)
    q = tuple(float(x) for x in model.neutral())

    def resting(*_: Any) -> Scalars:
        return w

    rates: Any = resting
    if method.keeps_inertia:
        rates = KeptSystem(system).under((0.0,) * system.drive_size)
    leaves, structure = flatten(method.start(Manifold(model), rates, q, w, 1.0, 0.0))
    return len(leaves), structure


@record(slots=False, eq=False)
class LoopSource:
    """Where a kernel of equal steps comes from.

    The kernel is called as ``kernel(state, u, clock)``, with state (*q, *v, *x), what is carried
    from call to call, and the numbers of a `Clock` followed by counts; where events are watched,
    also with the sides of zero to assume at the start. It gives states, shape
    (slots, nq + nv + nx): after counts[0] steps, after counts[1] more, and so on; where a sampled
    controller or a multi-step method is inside, what is carried on from each of them; where events
    are watched, which one stopped it and after how many steps.
    """

    system: System
    method: str
    slots: int
    """How many states one call gives."""
    watch: Watch | None = None
    plain: bool = False
    """Whether steps are taken without memory, as parts of steps are."""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_loop"

    @property
    def integrator(self) -> Method:
        """The method, without memory where that is asked for."""
        method = METHODS[self.method]
        if not self.plain:
            return method
        return replace(method, starts=None, advances=None, keeps_inertia=False)

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        events = None if self.watch is None else self.watch.key(self.system)
        text = repr(("loop 2", self.method, self.plain, self.slots, self.system.key, events))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return what callers pass."""
        system, model = self.system, self.system.model
        return [
            Input("state", (model.nq + model.nv + system.nx,)),
            Input("u", (system.drive_size + memory_form(system, self.integrator)[0],)),
            Input("clock", (CLOCK + self.slots,)),
            *([] if self.watch is None else [Input("sides", (len(self.watch),))]),
        ]

    def program(self) -> Program:
        """Trace the steps."""
        system, nq = self.system, self.system.model.nq

        def run(given: Any) -> Any:
            state, u, clock = (scalars(given[name]) for name in ("state", "u", "clock"))
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            found = take_steps(
                system,
                self.integrator,
                self.watch,
                tuple(state[:nq]),
                tuple(state[nq:]),
                tuple(u),
                Clock(*clock[:CLOCK]),
                clock[CLOCK:],
                p,
                () if self.watch is None else scalars(given["sides"]),
            )
            results: dict[str, Any] = {"states": found[0]}
            if system.held or self.integrator.has_memory:
                results["held"] = found[1]
            if self.watch is not None:
                results["met"] = list(found[2])
                results["taken"] = found[3]
            return results

        return system.trace(run, self.inputs(), self.name)
