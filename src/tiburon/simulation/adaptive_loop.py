"""Kernels of steps that adapt: each case of a batch takes its own, and says how it fares.

One kernel does all that such a run needs: it starts, goes on after a jump, steps until times are
reached, and looks into its last step.
"""

import hashlib
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.tape_calls import scalars
from tiburon.record import record
from tiburon.simulation.events import Watch
from tiburon.simulation.integrators.adaptive import (
    AdaptiveState,
    Settle,
    Tolerances,
    advance_adaptive,
    restart_adaptive,
    start_adaptive,
    state_at,
)
from tiburon.simulation.integrators.manifold import Manifold, Scalars
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.pair import Pair
from tiburon.simulation.loop import MOST_STEPS
from tiburon.simulation.system import ELEMENTS, System
from tiburon.spatial import Scalar
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function, while_loop
from tiburon.trace.structure import Structure, flatten, rebuild

__all__ = ["ADAPTIVE_CLOCK", "FAR", "PARTS", "AdaptiveClock", "AdaptiveSource", "memory_form"]

FAR = 1e300
"""A time that is never reached [s]."""


class AdaptiveClock(NamedTuple):
    """Numbers that tell a call what to do; times to reach follow them in the kernel's argument."""

    rtol: Scalar
    atol: Scalar

    first: Scalar
    """First step to try [s]; zero to choose one."""

    start: Scalar
    """1 to start, 2 to go on after a jump, both from the given state and time; 0 to go on."""

    time: Scalar
    """Time of the given state [s]."""

    stop: Scalar
    """Time that no step goes beyond [s]."""

    attempts: Scalar
    """Most attempts in this call."""

    sample: Scalar
    """Whether to ask a sampled controller in the given state: 1 or 0."""


PARTS = 8
"""Parts of a step that are looked at for events: what comes and goes within a part is missed."""

ADAPTIVE_CLOCK = len(AdaptiveClock._fields)
"""Where the times to reach begin."""


class _Going(NamedTuple):
    """State of the loop that looks for events."""

    at: AdaptiveState
    g: Scalars
    met: Scalars


def memory_form(system: System, pair: Pair) -> tuple[int, Structure]:
    """Return what a case carries along: how many numbers, in which form."""
    model = system.model
    w = (0.0,) * (model.nv + system.nx)
    q = tuple(float(x) for x in model.neutral())

    def resting(*_: Any) -> Scalars:
        return w

    tolerances = Tolerances(1.0, 1.0)
    leaves, structure = flatten(
        start_adaptive(pair, Manifold(model), resting, q, w, 0.0, tolerances, 1.0)
    )
    return len(leaves), structure


@record(slots=False, eq=False)
class AdaptiveSource:
    """Where a kernel of steps that adapt comes from.

    The kernel is called as ``kernel(memory, state, u, clock)``: what a case carries along, the
    state (*q, *v, *x) to start or go on from where that is asked, what is held, and the numbers of
    an `AdaptiveClock` followed by times; where events are watched, also with the sides of zero to
    assume at the start. It gives states at these times, what is carried on, what is held, and which
    events stopped it.
    """

    system: System
    method: str
    slots: int
    """How many states one call gives."""
    watch: Watch | None = None

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_adaptive_loop"

    @property
    def pair(self) -> Pair:
        """The method with its error estimate."""
        found = METHODS[self.method].pair
        assert found is not None
        return found

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        events = None if self.watch is None else self.watch.key(self.system)
        text = repr(("adaptive loop 2", self.method, self.slots, self.system.key, events))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return what callers pass."""
        system, model = self.system, self.system.model
        return [
            Input("memory", (memory_form(system, self.pair)[0],)),
            Input("state", (model.nq + model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("clock", (ADAPTIVE_CLOCK + self.slots,)),
            *([] if self.watch is None else [Input("sides", (len(self.watch),))]),
        ]

    def program(self) -> Program:
        """Trace the steps."""
        return self.system.trace(self._run, self.inputs(), self.name)

    def _run(self, given: Any) -> Any:
        system, pair, nq = self.system, self.pair, self.system.model.nq
        manifold = Manifold(system.model)
        form = memory_form(system, pair)[1]
        before, state, u, numbers = (
            tuple(scalars(given[name])) for name in ("memory", "state", "u", "clock")
        )
        clock = AdaptiveClock(*numbers[:ADAPTIVE_CLOCK])
        tolerances = Tolerances(clock.rtol, clock.atol)
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        q, w = state[:nq], state[nq:]
        if system.held:
            fresh = system.hold(q, w, u, clock.time)
            u = _chosen(clock.sample > 0.5, fresh, u)

        @function
        def rates(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
            return system.rates(q, w, u, time, p)

        def under(u: Scalars, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
            found: Scalars = rates(q, w, u, time)
            return found

        acceleration = partial(under, u)
        settle = _settling(system)
        at: AdaptiveState = rebuild(form, iter(before))
        started = start_adaptive(
            pair, manifold, acceleration, q, w, clock.time, tolerances, clock.first
        )
        jumped = restart_adaptive(acceleration, at, q, w, clock.time)
        at = _state(form, clock.start > 1.5, jumped, at)
        at = _state(form, (clock.start > 0.5) & (clock.start < 1.5), started, at)
        limit = at.steps + at.refused + clock.attempts
        met: Scalars = (0.0,) * (0 if self.watch is None else len(self.watch))
        sides: Scalars = () if self.watch is None else tuple(scalars(given["sides"]))
        rows = []
        for target in numbers[ADAPTIVE_CLOCK:]:
            if self.watch is None:
                at = advance_adaptive(
                    pair, manifold, acceleration, at, target, clock.stop, limit, tolerances, settle
                )
            else:
                at, met = self._watching(
                    manifold, acceleration, at, u, sides, target, clock, limit, settle
                )
            q, w = state_at(manifold, at, target)
            if settle is not None:
                # interpolation leaves the loops by its error; ends of steps are on them already
                closed = settle(q, w, target)
                within = target < at.time
                q, w = _chosen(within, closed[0], q), _chosen(within, closed[1], w)
            rows.append((*q, *w))
        results: dict[str, Any] = {"states": rows, "memory": flatten(at)[0], "held": list(u)}
        if self.watch is not None:
            results["met"] = list(met)
        return results

    def _watching(
        self,
        manifold: Manifold,
        acceleration: Any,
        at: AdaptiveState,
        u: Scalars,
        sides: Scalars,
        target: Scalar,
        clock: AdaptiveClock,
        limit: Scalar,
        settle: Settle | None,
    ) -> tuple[AdaptiveState, Scalars]:
        """Step until a time is reached or an event happens in a step."""
        watch, system = self.watch, self.system
        assert watch is not None
        tolerances = Tolerances(clock.rtol, clock.atol)

        @function
        def happening(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
            return watch.values(system, q, w, u, time)

        def total(met: Scalars) -> Scalar:
            found: Scalar = 0.0
            for one in met:
                found = found + one
            return found

        def goes_on(going: _Going) -> Any:
            at = going.at
            in_time = (at.time < target) & (at.time < clock.stop) & (at.status == 0.0)
            return in_time & (at.steps + at.refused < limit) & (total(going.met) < 0.5)

        def attempt(going: _Going) -> _Going:
            once = going.at.steps + going.at.refused + 1.0
            at = advance_adaptive(
                self.pair,
                manifold,
                acceleration,
                going.at,
                target,
                clock.stop,
                once,
                tolerances,
                settle,
            )
            # steps may be long: they are looked at in parts
            met, before = (0.0,) * len(going.g), going.g
            for part in range(1, PARTS):
                time = at.begin + (part / PARTS) * at.length
                g = happening(*state_at(manifold, at, time), u, time)
                met, before = _either(met, watch.crossed(before, g)), g
            g = happening(at.q, at.w, u, at.time)
            met = _either(met, watch.crossed(before, g))
            taken = at.steps > going.at.steps
            return _Going(at, _chosen(taken, g, going.g), _chosen(taken, met, going.met))

        g = happening(at.q, at.w, u, at.time)
        g = tuple(np.where(side == 0.0, x, side) for x, side in zip(g, sides, strict=True))
        last: _Going = while_loop(
            goes_on, attempt, _Going(at, g, (0.0,) * len(g)), MOST_STEPS
        ).state
        return last.at, last.met


def _settling(system: System) -> Settle | None:
    """Return what brings states back onto the loops; None for trees."""
    if not system.model.loops:
        return None

    @function
    def settled(q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars, Scalar]:
        return system.settle(q, w, time)

    def settle(q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars, Any]:
        q, w, gap = settled(q, w, time)
        return q, w, gap <= system.most_open

    return settle


def _either(a: Scalars, b: Scalars) -> Scalars:
    return tuple(np.maximum(x, y) for x, y in zip(a, b, strict=True))


def _chosen(condition: Any, a: Any, b: Any) -> Scalars:
    return tuple(np.where(condition, x, y) for x, y in zip(a, b, strict=True))


def _state(form: Structure, condition: Any, a: AdaptiveState, b: AdaptiveState) -> AdaptiveState:
    """Return one of two states."""
    found: AdaptiveState = rebuild(form, iter(_chosen(condition, flatten(a)[0], flatten(b)[0])))
    return found
