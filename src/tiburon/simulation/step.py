"""One step of a run with equal steps: the kernel that `equal_steps.py` calls in a loop.

A step moves the state by one interval of the method, projects it onto the loop constraints, and
applies what happens once per step: it updates the discrete states of elements, samples a controller
that is due, and checks events.
Whatever changes from step to step is an input and an output of the same name, so that the outputs
of one call are the inputs of the next. The step is one traced function, which rounds alike in
every kernel that contains it.
"""

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.actuation.joint_laws import JointLaws
from tiburon.actuation.point_spring import StiffSprings
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.algorithms.tape_calls import scalars
from tiburon.contact.rigid import Impact
from tiburon.record import record
from tiburon.simulation.control_calls import commands_at, hold
from tiburon.simulation.events import Watch
from tiburon.simulation.integrator_step import IntegratorStep
from tiburon.simulation.integrators.integrator import OWN
from tiburon.simulation.integrators.kept_inertia import KeptSystem
from tiburon.simulation.integrators.manifold import GuidedManifold, Manifold
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rate_jacobian import ImplicitRates
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.parted_step import MOST_IMPACTS, PartEnd, past_impacts, past_switches
from tiburon.simulation.run_parameters import state_kernel
from tiburon.simulation.settling import settle_state
from tiburon.simulation.step_end import (
    end_of_step,
    revised_contact_forces,
    without_contact_forces,
)
from tiburon.simulation.surrounded import put_latest
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.dependencies import snapshot
from tiburon.trace.digest import program_digest
from tiburon.trace.program import Input, Program
from tiburon.trace.regions import function, where_needed
from tiburon.trace.structure import Structure, flatten, rebuild
from tiburon.trace.value import require

if TYPE_CHECKING:
    from tiburon.native.code import Part

CLOSED_LOOPS_EXPECTED = (
    "loops that stay closed: the step is too long, or a joint was driven where they cannot follow"
)
"""What a step expects that cannot bring its state back onto the loops."""

MOST_PARTED_POINTS = 256
"""Contact points of robots whose steps are parted at collisions with restitution at most: states of
more in all parts do not fit into the memory of a kernel."""

MOST_STEPS = 2**53
"""Steps are counted in floats, exactly up to here."""


class Clock(NamedTuple):
    """The argument `clock` of a step kernel."""

    begin: Scalar
    """Time at the start of the run [s]."""

    dt: Scalar
    """Interval of the time grid [s]: times are ``begin + done * dt``, which does not drift."""

    step: Scalar
    """Length of the step [s]: dt, or less to search inside a step."""

    done: Scalar
    """Steps of the grid taken before."""

    hold: Scalar = 1.0
    """Steps for which a sampled controller holds its commands."""

    sample: Scalar = 0.0
    """Whether a sampled controller is called at the end of a step where it is due: 1 or 0."""

    start: Scalar = 0.0
    """Whether a multi-step method starts again: 1 after a jump of commands or states, else 0."""

    end: Scalar = float(MOST_STEPS)
    """Steps of the grid at which a case that is watched for events stops; lowered to `done` by an
    event in the next step."""

    look: Scalar = 0.0
    """Whether events are evaluated at the start of the step: 1 in the first step, then 0."""


PLAIN_CLOCK = 4
"""Fields of the clock that a step reads without sampled controller, memory and events."""


def traced_rates(
    system: System, manifold: Manifold, p: Scalars, *, updated: bool = False
) -> tuple[Callable[..., Scalars], Callable[..., Scalars]]:
    """Return the rates of a system as traced functions, which all stages of a step share.

    Args:
        system: The system.
        manifold: Its positions.
        p: Run-time parameters of its elements.
        updated: Whether discrete states were last updated in the state of the rates.

    Returns:
        A function of q, w, held values u and time; and one of u, q, w and time, which computes what
        moves guided positions once, for positions and rates.
    """

    @function
    def rates(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        return system.rates(q, w, u, time, p, updated=updated)

    @function
    def guided_rates(guided: Any, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        return system.rates(guided.q, w, u, time, p, guided, updated)

    def rates_under(u: Scalars, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        found: Scalars
        if isinstance(manifold, GuidedManifold):
            found = guided_rates(manifold.guide(q, w), w, u, time)
        else:
            found = rates(q, w, u, time)
        return found

    return rates, rates_under


def _settling(system: System, p: Scalars) -> Callable[..., tuple[Scalars, Scalars]]:
    """Return a traced function that moves states back onto loops and prescribed paths."""

    @function
    def settled(q: Scalars, w: Scalars, time: Scalar) -> tuple[Scalars, Scalars]:
        q, w, gap = settle_state(system, q, w, time, p=p)
        most = system.held_loops.most_open
        return tuple(require(gap <= most, x, CLOSED_LOOPS_EXPECTED) for x in q), w

    return settled


class Stepping:
    """Steps of a method, on floats or traced values.

    Attributes:
        manifold: Positions of the robot.
        step: Takes position, velocities with continuous states, memory of the method, held values,
            the length of the step [s] and the time at its start [s]; returns the first four one
            step later, with closed loops; contacts change their discrete states among the held
            values.
        switched: Takes the state with held values at the start of a step and after it, its length
            [s], and the time at both [s]; returns the latter, parted where compliant contacts
            switch.
        under: Returns, for held values, the rates that the method integrates; and for the state
            at which a step begins, where elements may know their forces from the last one.
    """

    def __init__(
        self,
        system: System,
        method: Method,
        p: Scalars = (),
        *,
        settles: bool = True,
        reuses: bool = True,
    ) -> None:
        """Prepare for steps of a method.

        Args:
            system: The robot.
            method: The integrator.
            p: Run-time parameters of the elements.
            settles: Whether states are moved back onto loops after a step.
            reuses: Whether a step begins with the contact forces in its discrete states. Not where
                it is differentiated by its state.
        """
        self.manifold = manifold = system.held_loops.manifold()
        parted = system.partition
        kept = KeptSystem(system, p) if method.keeps_inertia else None

        rates_under = traced_rates(system, manifold, p)[1]
        implicit = ImplicitRates(system, p) if method.is_implicit else None
        one_step = not method.has_memory and kept is None

        first_under = rates_under
        if system.acts_in_contact and reuses:
            _, first_under = traced_rates(system, manifold, p, updated=True)

        def under(u: Scalars, start: tuple[Any, ...] = (None, None)) -> Any:
            if implicit is not None:
                return implicit.under(u)
            if kept is not None:
                return kept.under(u)

            def rates(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
                begins = q is start[0] and w is start[1]
                return (first_under if begins else rates_under)(u, q, w, time)

            return rates

        settled = _settling(system, p)
        # derivatives need those of the first collision
        most = MOST_IMPACTS if reuses else 1

        @function
        def step(
            q: Scalars, w: Scalars, memory: Any, u: Scalars, h: Scalar, time: Scalar
        ) -> tuple[Any, ...]:
            start = (q, w, memory)
            held: Scalars = ()
            impact = Impact()
            if system.ends_in_contact and not one_step:
                # rates of several steps, with forces that change between them
                u = without_contact_forces(system, u)
            if parted is not None and parted.holds_remote:
                q, w = parted.held_advance(system, method, manifold, under(u), start, h, time)
            else:
                q, w, memory = method.advance(manifold, under(u, start), *start, h, time)
            ends = JointLaws, SoftLoops, StiffSprings
            if system.ends_in_contact or any(system.find(kind) is not None for kind in ends):
                states = start[:2], (q, w)
                taken = IntegratorStep(system, manifold, *states, u, h, time, p)
                taken = taken._replace(explicit=implicit is None, few=reuses)
                q, w, held, impact = end_of_step(taken)
            if (system.model.loops or system.prescribes) and settles:
                q, w = settled(q, w, time + h)
            if parted is not None:
                q, w = parted.after_step(system, q, w)
            return q, w, memory, held, impact

        def part(q: Scalars, w: Scalars, u: Scalars, h: Scalar, time: Scalar) -> PartEnd:
            """Take a step of a one-step method with contact, or a part of one."""
            found = step(q, w, (), u, h, time)
            if reuses:
                trial = found[3]

                def again() -> Any:
                    revised = revised_contact_forces(system, u, trial)[1]
                    return step(q, w, (), revised, h, time)

                anew = revised_contact_forces(system, u, trial)[0]
                found = where_needed(anew, again, found)
            q, w, _, u, impact = found
            return PartEnd(q, w, u, impact)

        each = function(part)

        def stepped(
            q: Scalars, w: Scalars, memory: Any, u: Scalars, h: Scalar, time: Scalar
        ) -> tuple[Scalars, Scalars, Any, Scalars]:
            if one_step and system.ends_in_contact and parted is None:
                if _point_count(system) > MOST_PARTED_POINTS:
                    found = part(q, w, u, h, time)
                else:
                    whole = each(q, w, u, h, time)
                    found = past_impacts(system, each, (q, w, u), whole, h, time, most)
                return found.q, found.w, memory, found.u
            # held values pass through the traced function only where the end changes them
            q, w, memory, held, _ = step(q, w, memory, u, h, time)
            return q, w, memory, held or u

        def switched(
            start: tuple[Scalars, Scalars, Scalars],
            whole: tuple[Scalars, Scalars, Scalars],
            h: Scalar,
            times: tuple[Scalar, Scalar],
        ) -> tuple[Scalars, Scalars, Scalars]:
            if not (one_step and system.acts_in_contact and parted is None):
                return whole

            def moved(q: Scalars, w: Scalars, u: Scalars, h: Scalar, time: Scalar) -> Any:
                return step(q, w, (), u, h, time)[:2]

            return past_switches(system, moved, start, whole, h, times, p)

        self.switched = switched
        self.step = stepped
        self.under = under


def _point_count(system: System) -> int:
    """Return how many points may touch in rigid contact."""
    rigid = system.find(RigidContactElement)
    return 0 if rigid is None else len(rigid.element.point_names)


def resting_state(system: System) -> tuple[Scalars, Scalars, Any]:
    """Return q and w of a robot at rest, and rates that keep it there: for the form of memory."""
    w = (0.0,) * (system.model.nv + system.nx)
    return tuple(float(x) for x in system.model.neutral()), w, lambda *_: w


def memory_form(system: System, method: Method) -> tuple[int, Structure]:
    """Return the size and the structure of what a multi-step method carries between steps."""
    q, w, rates = resting_state(system)
    if method.keeps_inertia:
        rates = KeptSystem(system).under((0.0,) * system.drive_size)
    leaves, structure = flatten(method.start(Manifold(system.model), rates, q, w, 1.0, 0.0))
    return len(leaves), structure


def method_key(source: Any, *options: Hashable) -> Hashable:
    """Return the key of the method of a step: its name, and the graph of what users wrote.

    Args:
        source: Source of the kernel of the step, with its `system` and the name of its `method`.
        options: What else determines the step.
    """
    if source.method not in OWN:
        return (source.method, *options)
    reads, kept = snapshot(OWN[source.method].step), source.system.kept
    label = ("method", type(source), source.method, options, source.system.key)
    known = kept.get(label)
    if known is None or reads is None or known[0] != reads:
        known = kept[label] = (reads, program_digest(source.program()))
    return (source.method, *options, known[1])


@record(slots=False, eq=False)
class StepSource:
    """Source of the kernel of one step.

    Its arguments are those of `widths`, in that order. It returns those of `chained` one step
    later.
    """

    system: System
    method: str
    watch: Watch | None = None
    """Events: a case stops before the step in which one happens. None for none."""
    plain: bool = False
    """Whether the step is taken without memory, as parts of steps are."""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.method}_step"

    @property
    def integrator(self) -> Method:
        """The method, without memory for plain steps."""
        method = METHODS[self.method]
        if not self.plain:
            return method
        return replace(method, starts=None, advances=None, keeps_inertia=False)

    @property
    def widths(self) -> dict[str, int]:
        """Sizes of the arguments by name; those that are empty are left out."""
        system, model, method = self.system, self.system.model, self.integrator
        is_special = system.held or method.has_memory or self.watch is not None
        found = {
            "q": model.nq,
            "v": model.nv,
            "x": system.nx,
            "u": system.drive_size,
            "memory": memory_form(system, method)[0] if method.has_memory else 0,
            "clock": len(Clock._fields) if is_special else PLAIN_CLOCK,
            "side": 0 if self.watch is None else len(self.watch),
        }
        return {name: width for name, width in found.items() if width}

    @property
    def chained(self) -> dict[str, int]:
        """Sizes of what a step passes on to the next, by name.

        The state; held values if a controller is sampled or elements have discrete states; the
        memory of a multi-step method; where events are watched, the clock of each case and the side
        of zero of each event: -1, 1, or 0 where it cannot be crossed.
        """
        fixed = () if self.system.held or self.system.z_names else ("u",)
        if self.watch is None:
            fixed = (*fixed, "clock")
        return {name: width for name, width in self.widths.items() if name not in fixed}

    @property
    def key(self) -> str:
        """Text that is equal exactly if the code is."""
        events = None if self.watch is None else self.watch.key(self.system)
        text = repr(("step 2", method_key(self, self.plain, events), self.system.key))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code as it is now."""
        self.system.retrace()

    def inputs(self) -> list[Input]:
        """Return the arguments of the kernel."""
        return [Input(name, (width,)) for name, width in self.widths.items()]

    def program(self) -> Program:
        """Trace the step."""
        return self.system.trace(self._run, self.inputs(), self.name)

    def _run(self, given: Any) -> Any:
        system, method, nv = self.system, self.integrator, self.system.model.nv
        named = {
            name: tuple(scalars(given[name])) if name in given else ()
            for name in ("q", "v", "x", "u", "memory", "clock", "side")
        }
        clock, q, w, u = Clock(*named["clock"]), named["q"], named["v"] + named["x"], named["u"]
        p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
        stepping = Stepping(system, method, p)
        now, later = (clock.begin + done * clock.dt for done in (clock.done, clock.done + 1.0))

        def started(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Any:
            return method.start(stepping.manifold, stepping.under(u), q, w, clock.step, time)

        memory: Any = ()
        if method.has_memory:
            memory = rebuild(memory_form(system, method)[1], iter(named["memory"]))
            memory = where_needed(clock.start > 0.5, lambda: started(q, w, u, now), memory)
        q1, w1, memory1, u1 = stepping.step(q, w, memory, u, clock.step, now)
        due = clock.sample > 0.5
        results: dict[str, Any] = {}
        if system.z_names:
            u1 = system.update(q1, w1, u1, later, p)
            whole = (q1, w1, u1)
            q1, w1, u1 = stepping.switched((q, w, u), whole, clock.step, (now, later))
        if self.watch is not None:
            side, met = self._watched((q, w, now), (q1, w1, later), u, clock, named["side"])
            going = clock.done < clock.end
            stay, due = met | ~going, due & going & ~met
            q1, w1, memory1, side = (
                chosen(stay, a, b)
                for a, b in ((q, q1), (w, w1), (memory, memory1), (side[0], side[1]))
            )
            u1 = chosen(stay, u, u1) if system.z_names else u
            done = np.where(stay, clock.done, clock.done + 1.0)
            end = np.where(met & going, clock.done, clock.end)
            then = clock._replace(done=done, end=end, start=0.0, look=0.0)
            results = {"clock": list(then), "side": list(side)}
        if system.held:
            total = clock.done + 1.0
            due = due & (total - clock.hold * np.floor(total / clock.hold) < 0.5)

            def sampled() -> tuple[Scalars, Any]:
                fresh = hold(system, q1, w1, u1, later)
                return fresh, started(q1, w1, fresh, later) if method.has_memory else memory1

            u1, memory1 = where_needed(due, sampled, (u1, memory1))
        results["u"] = list(u1)
        after = {"q": q1, "v": w1[:nv], "x": w1[nv:], "memory": tuple(flatten(memory1)[0])}
        results |= {name: list(values) for name, values in after.items()}
        return {name: results[name] for name in self.chained}

    def _watched(
        self,
        here: tuple[Scalars, Scalars, Scalar],
        there: tuple[Scalars, Scalars, Scalar],
        u: Scalars,
        clock: Clock,
        side: Scalars,
    ) -> tuple[tuple[Scalars, Scalars], Any]:
        """Return the sides of zero at both ends of a step, and whether any event crosses it."""
        system, watch = self.system, self.watch
        assert watch is not None

        @function
        def values(q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
            return watch.values(system, q, w, u, time)

        def signs(values: Scalars) -> Scalars:
            # a value that is not a number is on no side
            return tuple(np.where(g > 0.0, 1.0, np.where(g < 0.0, -1.0, 0.0)) for g in values)

        def looked() -> Scalars:
            found = signs(values(here[0], here[1], u, here[2]))
            return tuple(np.where(s == 0.0, g, s) for s, g in zip(side, found, strict=True))

        before = where_needed(clock.look > 0.5, looked, side)
        g = values(there[0], there[1], u, there[2])
        crossed: Scalar = 0.0
        for one in watch.crossed(before, g):
            crossed = crossed + one
        return (before, signs(g)), crossed > 0.0


def step_kernel(source: StepSource, part: "Part" = "one", cases: int = 0) -> Callable[..., Any]:
    """Return the kernel of a step; runs of one system share it while its parameters are equal.

    Binding parameters takes as long as hundreds of steps of a small robot.

    Args:
        source: Of the kernel.
        part: "many" if it is called with batches.
        cases: How many steps it is going to compute, if that is known.
    """
    from tiburon.native.kernel import make_kernel

    key, kept, parameters = ("step", source.key), source.system.kept, source.system.parameters()
    known: tuple[dict[str, Any], Callable[..., Any]] | None = kept.get(key)
    if known is None or known[0] != parameters:
        with source.system.compiling:
            known = parameters, make_kernel(source, parameters, part=part, cases=cases)
    put_latest(kept, key, known)
    return known[1]


def sample_kernel(system: System, part: "Part" = "one") -> Callable[..., Any]:
    """Return a kernel of the controller alone: held values after it was sampled.

    It takes (state, u, time), with the state (*q, *v, *x).

    Args:
        system: The robot with its controller.
        part: "many" if it is called with batches: code for one case is not compiled then.
    """
    return _controller_kernel(system, "sample", hold, part)


def command_kernel(system: System) -> Callable[..., Any]:
    """Return a kernel of the commands of a traced controller, for batches: recorded rows."""
    return _controller_kernel(system, "commands", commands_at, "many")


def _controller_kernel(
    system: System, name: str, function: Callable[..., Scalars], part: "Part" = "one"
) -> Callable[..., Any]:
    found: Callable[..., Any] | None = system.kept.get(name)
    if found is not None:
        return found
    nq = system.model.nq

    def run(given: Any) -> Any:
        state, u = tuple(scalars(given["state"])), tuple(scalars(given["u"]))
        return list(function(system, state[:nq], state[nq:], u, given["time"]))

    found = system.kept[name] = state_kernel(system, run, name, part=part)
    return found


def chosen(condition: Any, a: Any, b: Any) -> Any:
    """Return one of two values of the same structure."""
    (x, structure), (y, _) = flatten(a), flatten(b)
    chosen = [np.where(condition, one, other) for one, other in zip(x, y, strict=True)]
    return rebuild(structure, iter(chosen))
