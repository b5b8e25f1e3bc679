"""Event-driven runs: smooth motion between located changes of contact.

Between two events all contact points stay in their modes, and adaptive steps integrate the
constrained motion. A mode ends where one of its margins crosses zero (`mode_margins`): a gap
closes, a normal force vanishes, friction is used up, slip ends. At that instant, located to
1e-12 s,

1. contacts that approach collide, by Poisson's law with friction on the exact cone;
2. accelerations decide which contacts break, stick and slide (`solve_modes`), those of a moment
   later where a limit has just been reached; where Coulomb's law has no answer (Painleve) the
   impulse acts that a short time step finds;
3. states are projected onto what is held from then on, and steps start anew.

Bounces of a contact whose flights have become short form a geometric series: with a speed v after
the last one, an acceleration a toward each other and a coefficient e, they end after
2 v / (a (1 - e)). Once that is shorter than `SHORT_SERIES`, the last impact is taken as inelastic:
impulses that hold the contact during that time add up to those of the bounces.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES
from tiburon.actuation.exact_contact import MODE_STATES, ExactContactElement
from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array, NDArray
from tiburon.contact.candidates import driven_joints
from tiburon.contact.certificate import contradiction
from tiburon.contact.impact import collision_impulses
from tiburon.contact.mode_forces import (
    FOLLOWS,
    IDLE,
    OPEN,
    SLIDES,
    STARTING_SLIP,
    STARTS,
    STICKS,
    HeldContacts,
    force_on_first,
    mode_margins,
)
from tiburon.contact.modes import (
    BREAKING,
    SLIDING,
    ContactProblem,
    ModeSolution,
    Solutions,
    centered_forces,
    solve_modes,
)
from tiburon.contact.rigid import Compliance, solve_impulses
from tiburon.errors import ModelError, SecondOrderCollisionError, TiburonWarning
from tiburon.results.outcome import EventRecord
from tiburon.simulation.accelerations import accelerations
from tiburon.simulation.adaptive_steps import AdaptiveSteps, Changes
from tiburon.simulation.engine import Cases
from tiburon.simulation.events import (
    TIME_TOLERANCE,
    Event,
    EventValues,
    Instants,
    Meeting,
    TimeEvent,
    Watch,
)
from tiburon.simulation.run_parameters import bind_own, state_kernel
from tiburon.simulation.settling import settle_state
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, trace

if TYPE_CHECKING:
    from tiburon.simulation.run import RunSetup

TOUCHING_GAP = 1e-7
"""Gap up to which shapes touch at the start [m]: rounding of configurations typed with seven
digits."""

EVENT_GAP = 1e-10
"""Gap up to which shapes touch at an event [m]."""

AT_REST = 1e-10
"""Normal velocity that is neither approach nor separation, relative to 1 m/s and the largest."""

NO_SLIP = 1e-8
"""Slip that counts as none where it ends or a contact closes, relative to 1 m/s and the largest."""

ZERO_SLIP = 1e-12
"""Slip that counts as none while a point slides, likewise."""

SHORT_SERIES, SHORT_FLIGHT = 3e-6, 2e-8
"""Time that is left of a series of bounces, or of one of them, when it is ended by its sum [s]:
rounding of gaps hides shorter flights."""

GUESS_STEP = 1e-6
"""Time step whose impulses guess the modes of contacts [s]."""

TOLERANCE = 1e-13
"""Residual to which impulses are solved for, relative to the largest."""

REPORTED_RESIDUAL = 1e-8
"""Residual of the impulses of a collision that is reported."""

ZERO_ACCELERATION = 1e-20
"""Acceleration that is none at all [m/s^2]: products of what rounding leaves of velocities at rest;
in hours it moves nothing by 1e-12 m."""

REMOTE_VELOCITY = 1e9
"""Normal velocity that keeps a contact point out of a problem [m/s]."""

BEGINNING = (STARTS, FOLLOWS)
"""Modes of points whose slip begins."""

LED_SHARE = 0.1
"""Share of the motion across a slip that begins below which others hold the point."""

JAM_SHARE = 0.5
"""Share of the impulse of a short step that remains without forces if contacts jam: what only
carries the bodies during the step vanishes with them."""

LOOK_AHEAD = 1e-5
"""Time past the end of a mode at which accelerations decide what follows [s]: at the instant itself
two modes have the same forces, so that rounding would decide. Loads that change within a
millisecond have then passed the limit by a hundredth, slow ones by more than tolerances."""

MOST_ROUNDS = 100
"""Impacts at one instant, after which a case ends."""

SECANT_TIME = 1e-9
"""Time before an event from which its slope is taken [s]."""

EVENTS_PER_POINT = 2
"""Events of each contact point."""

CENTERED_SHARE = 0.5
"""Share of static friction below which forces that are not unique need not be moved."""


def _none(state: Any) -> float:
    """Stand for the expression of a margin, which is computed with those of all others."""
    return 1.0


class ContactWatch(Watch):
    """The margins of all contact points, then the events of the user."""

    def __init__(
        self,
        element: ExactContactElement,
        events: Sequence[Event | TimeEvent],
        begin: float,
        dt: float,
    ) -> None:
        """List the margins and the user's events."""
        super().__init__(events, begin, dt)
        self.own = Watch(events, begin, dt)
        self.points = element.point_names
        margins = [
            Event(f"{point}.{part}", _none, direction=-1)
            for point in self.points
            for part in ("normal margin", "tangential margin")
        ]
        self.events = (*margins, *self.own.events)

    @property
    def first(self) -> int:
        """Number of the first event of the user."""
        return EVENTS_PER_POINT * len(self.points)

    def values(self, system: System, q: Scalars, w: Scalars, u: Scalars, time: Scalar) -> Scalars:
        """Return the values of the user's events; margins are computed with the rates."""
        return self.own.values(system, q, w, u, time) if self.own.events else ()

    def key(self, system: System) -> str:
        """Return text that is equal exactly if the code of all values is."""
        return f"contact margins {self.own.key(system) if self.own.events else system.key}"


def exact_watch(
    system: System, events: Sequence[Event | TimeEvent], begin: float, dt: float
) -> ContactWatch:
    """Return what native loops look for in an event-driven run."""
    contact = system.find(ExactContactElement)
    assert contact is not None
    return ContactWatch(contact.element, events, begin, dt)


def refuse_other_discrete_states(system: System) -> None:
    """Refuse elements that need equal steps in an event-driven run.

    Raises:
        ModelError: If another element than contact has discrete states.
    """
    for element in system.elements:
        if not element.is_event_driven and element.discrete_state_names(system.model):
            raise ModelError(
                f"element {element.name!r}: has discrete states, which equal steps update; "
                "exact contact takes steps of its own: leave the element out, or write "
                "contact=tb.RigidContact()",
                name=element.name,
            )
    if system.own_z_names:
        raise ModelError(
            f"control: has the discrete state {system.own_z_names[0]!r}, which equal steps update; "
            "exact contact takes steps of its own: write contact=tb.RigidContact()"
        )


class _Contacts(NamedTuple):
    """All contact points of one case at one instant."""

    gap: Array
    """[m], shape (points,)."""
    axes: Array
    """Two tangents and the normal of each point, world axes, shape (points, 3, 3)."""
    velocity: Array
    """Relative velocities along them [m/s], shape (points, 3)."""
    free: Array
    """Relative accelerations without contact forces [m/s^2], shape (points, 3)."""
    terms: Array
    """Sums of the magnitudes of their terms [m/s^2], shape (points, 3)."""
    rows: Array
    """A = J H^-1/2, shape (3 points, nv)."""
    columns: Array
    """H^-1 J^T, transposed, shape (3 points, nv)."""
    surfaces: Array
    """Static and kinetic friction and restitution, shape (points, 3)."""
    force: Array
    """Forces on the first bodies in the present modes, world axes [N], shape (points, 3)."""
    margins: Array
    """Margins of the present modes, shape (points, 2)."""

    @property
    def scale(self) -> float:
        """Size of velocities [m/s]."""
        return 1.0 + float(np.abs(self.velocity[self.gap < 1.0]).max(initial=0.0))


class _Kernels:
    """Kernels of one run that look at single cases."""

    def __init__(self, system: System, setup: "RunSetup", cases: int | None) -> None:
        kept = system.kept.get("exact")
        if kept is None:
            kept = system.kept["exact"] = (
                state_kernel(system, _look(system), "contact_state"),
                state_kernel(system, _settled(system), "contact_settle"),
                _solver(system),
            )
        look, settle, self.impulses = kept
        self._system = system
        self._bound = [bind_own(kernel, setup.parameters, cases) for kernel in (look, settle)]

    def _call(self, place: int, case: int, row: Array, held: Array, time: float) -> Any:
        kernel, rows = self._bound[place]
        u = np.ascontiguousarray(held[: self._system.drive_size])
        own = {name: values[case] for name, values in rows.items()}
        return kernel(np.ascontiguousarray(row), u, time, errors="flag", **own)[0]

    def look(self, case: int, row: Array, held: Array, time: float) -> _Contacts:
        """Return all contact points of a case."""
        found = _Contacts(*map(np.asarray, self._call(0, case, row, held, time)))
        return found._replace(
            free=np.where(np.abs(found.free) < ZERO_ACCELERATION, 0.0, found.free)
        )

    def settle(self, case: int, row: Array, held: Array, time: float) -> Array:
        """Return a state on what contacts hold."""
        return np.asarray(self._call(1, case, row, held, time))


def _held_contacts(
    system: System, q: Scalars, w: Scalars, u: Scalars, time: Scalar
) -> HeldContacts:
    """Return all contacts in a state; arguments as of `System.rates`."""
    position, v, x = system.split(q, w)
    here, driving, _ = system.acting(position, v, x, u, time, None)
    vd, _ = accelerations(system, here, position, v, x, driving.force)
    found = system.held_contacts(here, position, v, x, tuple(vd), u, None)
    assert found is not None
    return found


def _look(system: System) -> Callable[[Any], Any]:
    """Return the program that looks at all contact points."""
    nq = system.model.nq

    def run(given: Any) -> Any:
        state, u, time = scalars(given["state"]), scalars(given["u"]), given["time"]
        held = _held_contacts(system, state[:nq], state[nq:], u, time)
        problem, surfaces, modes = held
        forces = held.forces()
        points, compliance = problem.points, problem.compliance
        count, nv = len(points), system.model.nv
        rows = [[row.get(i, 0.0) for i in range(nv)] for row in compliance.rows]
        columns = [compliance.response(row) for row in rows]
        world = [force_on_first(p, forces.f[3 * k : 3 * k + 3]) for k, p in enumerate(points)]
        margins = mode_margins(problem, forces, surfaces, modes, time)

        def shaped(values: Scalars, *shape: int) -> Any:
            return as_traced(list(values)).reshape(*shape)

        return {
            "gap": as_traced([point.geometry.gap for point in points]),
            "axes": shaped([x for p in points for axis in p.axes for x in axis], count, 3, 3),
            "velocity": shaped(problem.velocity, count, 3),
            "free": shaped(problem.free, count, 3),
            "terms": shaped(problem.terms, count, 3),
            "rows": shaped([x for row in rows for x in row], 3 * count, nv),
            "columns": shaped([x for one in columns for x in one], 3 * count, nv),
            "surfaces": shaped([x for s in surfaces for x in s[:3]], count, 3),
            "force": shaped([x for one in world for x in one], count, 3),
            "margins": shaped(margins, count, EVENTS_PER_POINT),
        }

    return run


def _settled(system: System) -> Callable[[Any], Any]:
    """Return the program that projects a state onto its constraints."""
    nq = system.model.nq

    def run(given: Any) -> Any:
        state, u = scalars(given["state"]), scalars(given["u"])
        q, w, _ = settle_state(system, tuple(state[:nq]), tuple(state[nq:]), given["time"], u)
        return as_traced([*q, *w])

    return run


def _solver(system: System) -> Any:
    """Return a kernel of impulses with friction, from the rows of all contact points."""
    from tiburon.native.kernel import ProgramSource, make_kernel

    contact = system.find(ExactContactElement)
    assert contact is not None
    count, nv = len(contact.element.point_names), system.model.nv

    def run(rows: Any, b: Any, mu: Any, least: Any, start: Any) -> Any:
        sparse = [dict(enumerate(row)) for row in rows.tolist()]
        compliance = Compliance(sparse, tuple, nv)
        given = (scalars(x) for x in (b, mu, least, start))
        found = solve_impulses(compliance, *given, tolerance=TOLERANCE)
        return {"p": as_traced(list(found.p)), "residual": found.residual}

    shapes = {
        "rows": (3 * count, nv),
        "b": (3 * count,),
        "mu": (count,),
        "least": (count,),
        "start": (3 * count,),
    }
    inputs = [Input(name, shape) for name, shape in shapes.items()]
    return make_kernel(ProgramSource(trace(run, inputs)))


class _Values(EventValues):
    """Margins of contacts, then the values of the user's events."""

    def __init__(self, kernels: _Kernels, own: EventValues | None) -> None:
        self._kernels, self._own = kernels, own

    def __call__(self, state: Array, held: Array, time: Array, cases: Cases) -> Array:
        """Return the values in some states of given cases, shape (states, events)."""
        look = self._kernels.look
        parts = zip(cases, state, held, time, strict=True)
        margins = np.array(
            [look(int(c), x, u, float(t)).margins.reshape(-1) for c, x, u, t in parts]
        )
        if self._own is None:
            return margins
        return np.concatenate([margins, self._own(state, held, time, cases)], axis=1)


class _Change(NamedTuple):
    """What an instant makes of one case."""

    row: Array
    """State after it."""
    held: Array
    """Held values after it, with the new modes."""
    records: list[tuple[str, float]]
    """Names and times of what happened."""
    problem: str
    """Why the case cannot continue; empty if it can."""


class _Decision(NamedTuple):
    """Modes of closed contact points."""

    solution: ModeSolution | None
    """Modes and forces of the closed points; None if there are none that satisfy all conditions."""
    closed: NDArray[np.bool_]
    """Points that touch and do not separate."""
    slip: Array
    """Slip of all points [m/s], zero for those at rest, shape (points, 2)."""
    impulse: Array | None
    """Impulses that act where no forces satisfy Coulomb's law [N s]."""
    problem: str = ""
    """Why there is neither."""
    least_force: float = 0.0
    """Force up to which there is none [N]."""
    least_acceleration: float = 0.0
    """Acceleration up to which there is none [m/s^2]."""


class ContactEvents(Changes):
    """What events of contact and of the user change in event-driven runs."""

    ends_at_rows = True
    """Contacts are looked for in eighths of steps."""

    def __init__(
        self, engine: AdaptiveSteps, setup: "RunSetup", events: Watch, cases: int | None
    ) -> None:
        """Prepare events; the arguments are those of `Changes`."""
        assert isinstance(events, ContactWatch)
        self.engine, self._watch = engine, events
        self.system = system = engine.system
        self._kernels = _Kernels(system, setup, cases)
        own = None
        self._instants: Instants | None = None
        if events.own.events:
            own = EventValues(system, events.own, setup.parameters, cases)
            self._instants = Instants(system, events.own, own, engine.ahead, engine.event_records)
        self.values = _Values(self._kernels, own)
        contact = system.find(ExactContactElement)
        assert contact is not None
        element = contact.element
        self._candidates = element.candidates
        self._names = element.point_names
        count = len(self._names)
        start = system.discrete.start + contact.z.start
        width = len(POINT_STATES)
        self._point_states = slice(start, start + width * count)
        self._mode_states = slice(start + width * count, start + (width + len(MODE_STATES)) * count)
        self._peak_states = slice(
            self._mode_states.stop, self._mode_states.stop + len(element.peak_names()) * count
        )
        # whether the latest change left the motion smooth
        self._is_smooth = False
        # when cases changed last, and how often at that instant
        self._latest: dict[int, tuple[float, int]] = {}

    def start(self) -> None:
        """Decide the contact modes at the start, then handle the events there."""
        engine = self.engine
        time = engine.time
        for case in [int(c) for c in engine.running]:
            self._change(case, time, engine.state[case], (), TOUCHING_GAP)
        self.reached()
        if self._instants is None:
            return
        cases = engine.running
        found = self._instants.starting(cases, engine.state[cases], engine.held[cases], time)
        for _, met in found:
            instant = self._instants.happen(met)
            engine.state = engine.state.copy()
            engine.state[met.case] = instant.row
            self._take_sides(met.case, instant.sides, instant.until)
            if instant.ended is not None or instant.endless is not None:
                engine.end_case(met.case, instant.ended, instant.endless, time)
            elif instant.acted:
                self._change(met.case, time, instant.row, (), EVENT_GAP)
        self.reached()

    def jumped(self) -> None:
        """Decide modes anew where a jump of commands has ended them."""
        engine = self.engine
        for case in [int(c) for c in engine.running]:
            now = self._kernels.look(case, engine.state[case], engine.held[case], engine.time)
            if (now.margins < -1e-9).any():
                self._change(case, engine.time, engine.state[case], (), EVENT_GAP)
                engine.go_on_from(case, engine.time)

    def reached(self) -> None:
        """Write contact forces of the time reached among the held values, for records."""
        engine = self.engine
        engine.held = engine.held.copy()
        count = len(self._names)
        for case in [int(c) for c in engine.running]:
            held = engine.held[case]
            now = self._kernels.look(case, engine.state[case], held, engine.time)
            shown = held[self._point_states].reshape(count, -1)
            modes = self._modes(held)[:, 0]
            closed = (modes != OPEN) & (modes != IDLE)
            shown[:, :3] = np.where(closed[:, None], now.force, 0.0)
            shown[:, 3] = modes == STICKS
            if engine.is_at_row:
                # elsewhere native calls end as the wall clock has it
                self._raise_peaks(held, shown[:, :3], 0)
                self._turn_slips(held, now)

    def _raise_peaks(self, held: Array, now: Array, place: int) -> None:
        """Raise the peaks of all points among held values.

        Args:
            held: Held values of a case, changed in place.
            now: Force [N] or impulse [N s] of each point, shape (points, 3).
            place: 0 for forces, 1 for impulses.
        """
        peaks = held[self._peak_states].reshape(len(self._names), -1)[:, place]
        np.maximum(peaks, np.sum(now * now, axis=1), out=peaks)

    def _turn_slips(self, held: Array, now: _Contacts) -> None:
        """Take the directions of slip anew at recorded times, at which steps end; forces stay."""
        states = self._modes(held)
        speed = np.hypot(now.velocity[:, 0], now.velocity[:, 1])
        for k in np.flatnonzero((states[:, 0] == SLIDES) & (speed > NO_SLIP * now.scale)):
            states[k, 1:4] = (now.velocity[k, :2] / speed[k]) @ now.axes[k, :2]

    def _modes(self, held: Array) -> Array:
        """Return the modes of all points in held values; a view, as `MODE_STATES` lists them."""
        return held[self._mode_states].reshape(len(self._names), -1)

    # instants

    def go_on(self, case: int, when: float) -> None:
        """Continue after events; steps stay as long where modes have not changed."""
        self.engine.go_on_from(case, when, 2.0 if self._is_smooth else 1.0)

    def located(self, case: int, when: float, event: int) -> tuple[float, Array]:
        """Return time and state of an event, which was located to 1e-12 s, to rounding.

        Errors of location accumulate over thousands of bounces.
        """
        one, held, at = np.array([case]), self.engine.held[[case]], self.engine.at

        def value(time: float) -> tuple[Array, float]:
            row = at(one, np.array([time]))
            return row[0], float(self.values(row, held, np.array([time]), one)[0, event])

        row, g = value(when)
        if event >= self._watch.first:
            return when, row
        _, earlier = value(when - SECANT_TIME)
        slope = (g - earlier) / SECANT_TIME
        if not (slope < 0.0 and g <= 0.0):
            return when, row
        sharper = when - min(g / slope, 4.0 * TIME_TOLERANCE)
        return sharper, at(one, np.array([sharper]))[0]

    def happen(self, case: int, when: float, row: Array, sides: Mapping[int, float]) -> bool:
        """Let events of one case happen; return whether its motion changes."""
        engine, first = self.engine, self._watch.first
        own = {k - first: side for k, side in sides.items() if k >= first}
        acted = False
        if own:
            assert self._instants is not None
            instant = self._instants.happen(Meeting(case, when, row, engine.held[case], own))
            row, acted = instant.row, instant.acted
            if instant.ended is not None or instant.endless is not None:
                engine.state[case] = row
                engine.end_case(case, instant.ended, instant.endless, when)
                return True
            if acted:
                self._take_sides(case, instant.sides, instant.until)
        met = [k for k in sides if k < first]
        if not (met or acted):
            return False
        self._change(case, when, row, met, EVENT_GAP, goes_on=not acted)
        self._is_smooth &= not acted
        return True

    def _take_sides(self, case: int, sides: Array, until: Array) -> None:
        """Assume sides of zero of the user's events."""
        first = self._watch.first
        self.engine.sides[case, first:], self.engine.until[case, first:] = sides, until

    def end_endless(self, case: int, when: float, event: int) -> None:
        """End a case in which an event or a contact changes without end."""
        name = self._watch.events[event].name
        if event < self._watch.first:
            name = self._names[event // EVENTS_PER_POINT]
        message = (
            f"contact {name!r} changes without end from {when:.9g} s on (Zeno behavior); record "
            "more often, or simulate with contact=tb.RigidContact()"
        )
        self.engine.close_as(case, "zeno", when, message, event=name)
        self.engine.leave(np.array([case]))

    def _change(
        self,
        case: int,
        when: float,
        row: Array,
        met: Sequence[int],
        near: float,
        *,
        goes_on: bool = False,
    ) -> None:
        """Change the modes of the contacts of a case; its state is the one after it.

        Args:
            case: The case.
            when: Time [s].
            row: State before.
            met: Numbers of the margins that have vanished.
            near: Gap up to which shapes touch [m].
            goes_on: Whether the last step is the motion before and, in the same modes, after it.
        """
        engine, records = self.engine, self.engine.event_records
        impacts = len(records)
        before = self._modes(engine.held[case])[:, 0].copy()
        last, times = self._latest.get(case, (-np.inf, 0))
        times = times + 1 if when - last <= TIME_TOLERANCE else 1
        self._latest[case] = (when, times)
        try:
            found = self._decided(case, when, row, met, near, goes_on)
        except SecondOrderCollisionError as error:
            found = _Change(row, engine.held[case].copy(), [], str(error))
        engine.state, engine.held = engine.state.copy(), engine.held.copy()
        engine.state[case], engine.held[case] = found.row, found.held
        nq, nv = self.system.model.nq, self.system.model.nq + self.system.model.nv
        parts = row[:nq].copy(), row[nq:nv].copy(), row[nv:].copy()
        records += [EventRecord(name, t, case, *parts) for name, t in found.records]
        after = self._modes(engine.held[case])[:, 0]
        self._is_smooth = len(records) == impacts and np.array_equal(before, after)
        first = self._watch.first
        engine.sides[case, :first], engine.until[case, :first] = 1.0, when
        problem = found.problem
        if not problem and times > MOST_ROUNDS:
            problem = f"contacts of {self.system.model.name!r} change without end"
        if problem:
            message = f"diverged at {when:.9g} s: {problem}"
            engine.close_as(case, "diverged", when, message, quantity="contact force")
            engine.leave(np.array([case]))

    def _decided(
        self, case: int, when: float, row: Array, met: Sequence[int], near: float, goes_on: bool
    ) -> _Change:
        """Return state, modes and records after an instant."""
        look, names = self._kernels.look, self._names
        held = self.engine.held[case].copy()
        states = self._modes(held).copy()
        before = states[:, 0]
        records: list[tuple[str, float]] = []
        ended = np.zeros((len(names), EVENTS_PER_POINT), dtype=bool)
        ended.reshape(-1)[list(met)] = True
        ends = np.full(len(names), np.nan)
        elastic = np.ones(len(names))
        bounced = np.zeros(len(names), dtype=bool)
        now = look(case, row, held, when)
        touched = now.gap <= near
        ahead = None
        spent = (ended[:, 0] & (before != OPEN)) | (ended[:, 1] & (before == STICKS))
        # past the end of a slip its friction would go on
        if goes_on and spent.any() and not (ended[:, 1] & (before != STICKS)).any():
            late = np.array([when + LOOK_AHEAD])
            ahead = look(case, self.engine.at(np.array([case]), late)[0], held, float(late[0]))
        for _ in range(MOST_ROUNDS):
            approaching = touched & (now.velocity[:, 2] < -AT_REST * now.scale)
            if not approaching.any():
                decision = self._accelerations(now, touched, states, ended[:, 1], ahead=ahead)
                if decision.solution is not None:
                    # points that separate so slowly that they touch again within rounding
                    leaves = touched & ~bounced & (now.velocity[:, 2] > AT_REST * now.scale)
                    returning = leaves & (_flights(now, decision) < SHORT_SERIES)
                    if not returning.any():
                        break
                    # impacts of others throw points off so little that they come to rest
                    decision = self._accelerations(
                        now, touched, states, ended[:, 1], returning, ahead=ahead
                    )
                    if decision.solution is not None:
                        row = self._stopped(row, now, decision)
                        now, ahead = look(case, row, held, when), None
                        continue
                if decision.impulse is None:
                    why = decision.problem or self._undecided(decision.closed)
                    return _Change(row, held, records, why)
                # no forces satisfy Coulomb's law: an impulse without a collision
                row = self._pushed(row, now, decision.impulse)
                self._raise_peaks(held, decision.impulse.reshape(-1, 3), 1)
                records += [(f"{names[k]}.jam", when) for k in np.flatnonzero(decision.closed)]
            else:
                impulse = self._collided(now, touched, elastic)
                after = self._pushed(row, now, impulse)
                series = self._series(case, when, after, held, touched, elastic)
                ending = ~np.isnan(series)
                if ending.any():
                    ends[ending], elastic[ending] = series[ending], 0.0
                    impulse = self._collided(now, touched, elastic)
                    after = self._pushed(row, now, impulse)
                self._raise_peaks(held, impulse.reshape(-1, 3), 1)
                row = after
                bounced |= approaching & (now.surfaces[:, 2] * elastic > 0.0)
                records += [(f"{names[k]}.impact", when) for k in np.flatnonzero(approaching)]
            now, ahead = look(case, row, held, when), None
        else:
            names_left = ", ".join(names[k] for k in np.flatnonzero(touched))
            return _Change(row, held, records, f"impacts without end at {names_left}")
        self._write_modes(held, when, now, decision, ended[:, 0] & (before != OPEN))
        after_modes = self._modes(held)[:, 0]
        for k, (a, b) in enumerate(zip(before, after_modes, strict=True)):
            kind = _kind(a, b)
            if not np.isnan(ends[k]) and b != OPEN:
                records.append((f"{names[k]}.rest", float(ends[k])))
            elif kind:
                records.append((f"{names[k]}.{kind}", when))
        return _Change(self._settled(case, when, row, held, touched), held, records, "")

    def _settled(
        self, case: int, when: float, row: Array, held: Array, touched: NDArray[np.bool_]
    ) -> Array:
        """Return a state on what is held from now on, in which no touching point is below."""
        settle, modes = self._kernels.settle, self._modes(held)[:, 0]
        leaves = touched & (modes == OPEN)
        if leaves.any():
            # closing the gaps of other points alone could push these into the ground
            closed = held.copy()
            self._modes(closed)[leaves, 0] = SLIDES
            nq = self.system.model.nq
            row = np.concatenate([settle(case, row, closed, when)[:nq], row[nq:]])
        return settle(case, row, held, when)

    def _contradiction(
        self, normals: Array, d: Array, some: NDArray[np.bool_], *, impulses: bool = False
    ) -> SecondOrderCollisionError | None:
        """Return the error of contacts that nothing keeps from penetrating, if some are such."""
        names = [self._names[k] for k in np.flatnonzero(some)]
        joints = partial(driven_joints, self.system.model, self._candidates)
        return contradiction(normals @ normals.T, d, names, joints, impulses=impulses)

    def _undecided(self, closed: NDArray[np.bool_]) -> str:
        listed = ", ".join(repr(self._names[k]) for k in np.flatnonzero(closed))
        return (
            f"no modes of the contacts {listed} were found that satisfy Coulomb's law; simulate "
            "with contact=tb.RigidContact()"
        )

    def _pushed(self, row: Array, now: _Contacts, impulse: Array) -> Array:
        """Return a state after impulses along the axes of the contact points [N s]."""
        nq, nv = self.system.model.nq, self.system.model.nv
        found = row.copy()
        found[nq : nq + nv] += now.columns.T @ impulse
        return found

    def _stopped(self, row: Array, now: _Contacts, decision: _Decision) -> Array:
        """Return a state in which what closed points hold is at rest: it loses energy, if any."""
        places = []
        assert decision.solution is not None
        for mode, k in zip(decision.solution.modes, np.flatnonzero(decision.closed), strict=True):
            if mode != BREAKING:
                places += [3 * k + 2] if mode == SLIDING else [3 * k, 3 * k + 1, 3 * k + 2]
        held = now.rows[places]
        x = np.linalg.lstsq(held, -now.velocity.reshape(-1)[places], rcond=1e-9)[0]
        impulse = np.zeros(len(now.rows))
        impulse[places] = np.linalg.lstsq(held.T, x, rcond=1e-9)[0]
        return self._pushed(row, now, impulse)

    def _collided(self, now: _Contacts, touched: NDArray[np.bool_], elastic: Array) -> Array:
        """Return the impulses of a collision (Featherstone 1987, eqs. 9.75-9.83, with friction).

        Where coefficients differ, decompression with friction may create energy; it is reduced
        until it does not.

        Raises:
            SecondOrderCollisionError: If prescribed motion presses the contacts together.
        """
        b = now.velocity.copy()
        b[:, 2] = np.where(touched, b[:, 2], REMOTE_VELOCITY)
        restitution = now.surfaces[:, 2] * elastic
        found, _, residual = collision_impulses(
            now.rows, b.reshape(-1), now.surfaces[:, 1], restitution
        )
        if residual > REPORTED_RESIDUAL:
            normals = now.rows[2::3][touched]
            why = self._contradiction(normals, b[touched, 2], touched, impulses=True)
            if why is not None:
                raise why
            listed = ", ".join(repr(self._names[k]) for k in np.flatnonzero(touched))
            warnings.warn(
                f"exact run: impulses of the contacts {listed} satisfy the laws of contact to "
                f"{residual:.3g} of the largest only; compare with contact=tb.RigidContact()",
                TiburonWarning,
                stacklevel=2,
            )
        return found

    def _solve(self, now: _Contacts, b: Array, mu: Array, least: Array, start: Array) -> Array:
        found: Array = np.asarray(
            self._kernels.impulses(now.rows, b.reshape(-1), mu, least, start)[0]
        )
        return found

    def _series(
        self,
        case: int,
        when: float,
        after: Array,
        held: Array,
        touched: NDArray[np.bool_],
        elastic: Array,
    ) -> Array:
        """Return when the bounces of contacts end whose flights have become short [s], else NaN.

        Args:
            case: The case.
            when: Time of the impact [s].
            after: State after it.
            held: Held values before it.
            touched: Points that touch.
            elastic: 0 for points whose impact is inelastic already.
        """
        now = self._kernels.look(case, after, held, when)
        speed = now.velocity[:, 2]
        restitution = now.surfaces[:, 2] * elastic
        bouncing = touched & (speed > AT_REST * now.scale)
        bouncing &= (restitution > 0.0) & (restitution < 1.0)
        if not bouncing.any():
            return np.full(len(speed), np.nan)
        found = self._accelerations(
            now, touched & ~bouncing, self._modes(held), np.zeros(len(speed), dtype=bool)
        )
        flight = _flights(now, found)
        left = flight / (1.0 - np.where(bouncing, restitution, 0.0))
        ends = bouncing & ((left < SHORT_SERIES) | (flight < SHORT_FLIGHT))
        return np.where(ends, when + left, np.nan)

    def _accelerations(
        self,
        now: _Contacts,
        touched: NDArray[np.bool_],
        states: Array,
        ended: NDArray[np.bool_],
        also: NDArray[np.bool_] | None = None,
        *,
        ahead: _Contacts | None = None,
    ) -> _Decision:
        """Decide the modes of closed points by the accelerations that forces permit.

        Args:
            now: All contact points.
            touched: Points that touch.
            states: Modes before, as `MODE_STATES` lists them.
            ended: Points whose slip has ended, or whose static friction is used up.
            also: Points that separate slowly and count as closed.
            ahead: All contact points a little later, if the modes before stayed.
        """
        closed = touched & (now.velocity[:, 2] <= AT_REST * now.scale)
        if also is not None:
            closed |= also
        modes = states[:, 0]
        slip = _slips(now, states, ended)
        moves = (slip != 0.0).any(axis=1)
        if ahead is not None:
            now = now._replace(free=ahead.free, rows=ahead.rows, terms=ahead.terms)
        if not closed.any():
            nothing = ModeSolution((), np.zeros((0, 3)), np.zeros((0, 3)), 0, 0)
            return _Decision(nothing, closed, slip, None)
        A = now.rows[np.repeat(closed, 3)]
        problem = ContactProblem(
            A @ A.T,
            now.free[closed].reshape(-1),
            slip[closed],
            now.surfaces[closed, 0],
            now.surfaces[closed, 1],
            ((modes == STICKS) & ended)[closed],
            terms=float(now.terms[closed].max()),
        )
        b = GUESS_STEP * now.free
        b[:, :2] += slip
        b[:, 2] = np.where(closed, b[:, 2], REMOTE_VELOCITY)
        mu = np.where(moves, now.surfaces[:, 1], now.surfaces[:, 0])
        spent = (modes == STICKS) & ended
        slips, impulse = spent.copy(), np.zeros(b.size)
        for _ in range(len(mu)):
            # what slips has kinetic friction
            mu = np.where(slips, now.surfaces[:, 1], mu)
            impulse = self._solve(now, b, mu, np.zeros(len(mu)), impulse)
            p = impulse.reshape(-1, 3)
            used = np.hypot(p[:, 0], p[:, 1]) >= mu * p[:, 2] * (1.0 - 1e-9)
            fresh = closed & ~moves & ~slips & used & (p[:, 2] > 0.0)
            if not fresh.any():
                break
            slips |= fresh
        guess = p[closed] / GUESS_STEP
        try:
            answers = solve_modes(problem, guess, slips[closed], all_patterns=False)
        except SecondOrderCollisionError:
            answers = Solutions([], False)
        if not answers.found:
            why = self._contradiction(A[2::3], problem.d[2::3], closed)
            if why is not None:
                return _Decision(None, closed, slip, None, str(why))
            return _Decision(None, closed, slip, self._jam(now, slip, closed, mu, impulse))
        solution = answers.found[0]
        forces = centered_forces(problem, solution.modes, solution.f, CENTERED_SHARE)
        least = problem.least_force(forces), problem.least_acceleration
        return _Decision(solution._replace(f=forces), closed, slip, None, "", *least)

    def _jam(
        self, now: _Contacts, slip: Array, closed: NDArray[np.bool_], mu: Array, impulse: Array
    ) -> Array | None:
        """Return the impulse of an instant without which contacts would penetrate, if there is one.

        The impulse of a short step holds what accelerates the bodies meanwhile as well, which does
        not belong to it: without these accelerations it is solved for once more, from there.

        Args:
            now: All contact points.
            slip: Slip of all points, zero for those at rest [m/s].
            closed: Points that touch and do not separate.
            mu: Friction of all points.
            impulse: Impulses of a short time step [N s].
        """
        b = np.concatenate([slip, np.where(closed, 0.0, REMOTE_VELOCITY)[:, None]], axis=1)
        found = self._solve(now, b, mu, np.zeros(len(mu)), impulse)
        change = np.linalg.norm(now.rows.T @ found)
        if change < JAM_SHARE * np.linalg.norm(now.rows.T @ impulse):
            return None
        return found

    def _write_modes(
        self,
        held: Array,
        when: float,
        now: _Contacts,
        decision: _Decision,
        loose: NDArray[np.bool_],
    ) -> None:
        """Write the modes of all points into held values; forces of `loose` ones have vanished."""
        states, solution = self._modes(held), decision.solution
        assert solution is not None
        modes = np.full(len(states), OPEN)
        for place, k in enumerate(np.flatnonzero(decision.closed)):
            mode, force, a = solution.modes[place], solution.f[place], solution.a[place]
            # where no other contact carries force, the last one of this point is the measure
            last = 1e-9 * float(np.linalg.norm(states[k, 4:7])) if loose[k] else 0.0
            if mode == BREAKING or force[2] <= max(decision.least_force, last):
                modes[k] = OPEN if a[2] > decision.least_acceleration else IDLE
                if loose[k] and _can_open(now, int(k), decision):
                    modes[k] = OPEN
                continue
            axes = now.axes[k]
            states[k, 4:7] = -(force @ axes)
            modes[k] = STICKS
            if mode == SLIDING:
                modes[k] = SLIDES
                slip = decision.slip[k]
                direction = slip
                if not slip.any():
                    # against friction: where static friction has just been used up, there is no
                    # acceleration yet; without friction no direction matters
                    direction = -force[:2] if force[:2].any() else a[:2]
                    modes[k] = STARTS if force[:2].any() else SLIDES
                elif states[k, 0] in BEGINNING and np.hypot(*slip) < 0.5 * STARTING_SLIP:
                    modes[k] = STARTS
                length = float(np.hypot(*direction)) or 1.0
                states[k, 1:4] = (direction / length) @ axes[:2]
        modes = np.where(_led(now, modes, states), FOLLOWS, modes)
        states[:, 7] = np.where(states[:, 0] != modes, when, states[:, 7])
        states[:, 0] = modes
        forces = np.zeros((len(states), 3))
        forces[decision.closed] = solution.f
        self._raise_peaks(held, forces, 0)


def _slips(now: _Contacts, states: Array, ended: NDArray[np.bool_]) -> Array:
    """Return the slip of all points, zero for those at rest [m/s], shape (points, 2).

    Args:
        now: All contact points.
        states: Modes before, as `MODE_STATES` lists them.
        ended: Points whose slip has ended or grown, or whose static friction is used up.
    """
    modes = states[:, 0]
    speed = np.hypot(now.velocity[:, 0], now.velocity[:, 1])
    slides = (modes == SLIDES) & ~ended
    moves = speed > np.where(slides, ZERO_SLIP, NO_SLIP) * now.scale
    slip = np.where(moves[:, None], now.velocity[:, :2], 0.0)
    for k in np.flatnonzero(np.isin(modes, BEGINNING)):
        way = now.axes[k, :2] @ states[k, 1:4]
        along = float(way @ now.velocity[k, :2])
        if ended[k]:
            slip[k] = now.velocity[k, :2] if along > 0.5 * STARTING_SLIP else 0.0
        elif speed[k] < STARTING_SLIP:
            # it keeps its direction, however small it is still
            slip[k] = max(along, ZERO_SLIP) * way
    return slip


def _led(now: _Contacts, modes: Array, states: Array) -> NDArray[np.bool_]:
    """Return which of the points that begin to slip need no force across it.

    These are the points whose motion across their slip follows from what others hold: two forces
    that hold the same motion, in directions that differ by rounding, would wedge the body.
    """
    rows = now.rows.reshape(len(modes), 3, -1)
    held = [row for k in np.flatnonzero(modes == STICKS) for row in rows[k]]
    held += [rows[k, 2] for k in np.flatnonzero((modes == SLIDES) | (modes == STARTS))]
    basis = np.zeros((0, rows.shape[2]))
    if held:
        _, sizes, V = np.linalg.svd(np.array(held), full_matrices=False)
        basis = V[sizes > 1e-9 * sizes[0]]
    led = np.zeros(len(modes), dtype=bool)
    for k in np.flatnonzero(modes == STARTS):
        one, two = now.axes[k, :2] @ states[k, 1:4]
        across = -two * rows[k, 0] + one * rows[k, 1]
        rest = across - basis.T @ (basis @ across)
        size = float(np.linalg.norm(rest))
        led[k] = size <= LED_SHARE * float(np.linalg.norm(across))
        if not led[k]:
            basis = np.vstack([basis, rest / size])
    return led


def _flights(now: _Contacts, decision: _Decision) -> Array:
    """Return after what time points that separate would be back [s]; large if they would not."""
    forces = np.zeros_like(now.free)
    if decision.solution is not None:
        forces[decision.closed] = decision.solution.f
    a = (now.free.reshape(-1) + now.rows @ (now.rows.T @ forces.reshape(-1))).reshape(-1, 3)
    approach = np.where(a[:, 2] < 0.0, -a[:, 2], 1e-300)
    return 2.0 * now.velocity[:, 2] / approach


def _can_open(now: _Contacts, k: int, decision: _Decision) -> bool:
    """Return whether the contacts that carry force let another point separate."""
    assert decision.solution is not None
    places = []
    for place, j in enumerate(np.flatnonzero(decision.closed)):
        mode, force = decision.solution.modes[place], decision.solution.f[place]
        if j != k and mode != BREAKING and force[2] > 0.0:
            places += [3 * j + 2] if mode == SLIDING else [3 * j, 3 * j + 1, 3 * j + 2]
    row = now.rows[3 * k + 2]
    if not places:
        return True
    others = now.rows[places].T
    rest = row - others @ np.linalg.lstsq(others, row, rcond=1e-9)[0]
    return bool(np.linalg.norm(rest) > 1e-6 * np.linalg.norm(row))


def _kind(before: float, after: float) -> str:
    """Return what a change of mode is called; empty if nothing happened."""
    if before == OPEN and after != OPEN:
        return "touch_down"
    if before != OPEN and after == OPEN:
        return "lift_off"
    slips = (SLIDES, STARTS, FOLLOWS)
    if before == STICKS and after in slips:
        return "slip"
    if before in slips and after == STICKS:
        return "stick"
    if before == SLIDES and after in BEGINNING:
        return "reversal"
    return ""
