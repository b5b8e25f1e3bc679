"""Diagnosis of runs that diverged: the first quantity that is not finite."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.joint_laws import JointLaws
from tiburon.actuation.rigid_contact import OWN_STATES, RigidContactElement
from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array, NDArray
from tiburon.contact.rigid import RigidStep
from tiburon.contact.rows import contact_geometry
from tiburon.errors import DomainError, NonFiniteError
from tiburon.functions.assembly import RANK_TOLERANCE, open_loops, resting_position
from tiburon.functions.closed_loops import constraint_residual, loop_jacobian
from tiburon.functions.contact import contacts_among
from tiburon.functions.parameters import geometry_of
from tiburon.loops.loop_method import LoopMethod
from tiburon.model import Model
from tiburon.results.outcome import Outcomes
from tiburon.simulation.control_calls import hold
from tiburon.simulation.integrator_step import IntegratorStep
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.methods import METHODS
from tiburon.simulation.integrators.rk4 import rk4_step
from tiburon.simulation.layout import ELEMENTS, TABLES
from tiburon.simulation.recorder import Recorder
from tiburon.simulation.settling import settle_state
from tiburon.simulation.soft_loops import loops_and_inertia
from tiburon.simulation.step_end import (
    MAX_CLOSING,
    MAX_CONTACT_RESIDUAL,
    posed_end,
    solved_end,
)
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.graph import ANGLE_LIMIT
from tiburon.trace.program import Input

BEYOND_GRID = "beyond the grid of the ground"
"""Where a contact is that has left uneven ground."""

UNDETERMINED = "which do not determine all others"
"""What independent velocities are that are not a basis."""

UNSOLVED = "whose impulses do not meet the tolerance"
"""What a contact is that solvers did not solve."""

REPORTED_DEPTH = 1e-4
"""Penetration that an outcome reports [m]: the curvature of motions leaves some micrometers within
a step."""

MOST_EXPLAINED = 100
"""Contact points times degrees of freedom of robots whose failed step is compiled once more, for
more than the residual of its contacts: within a second."""

MAX_GROWTH = 100.0
"""Growth of states within a step beyond which commands are not the cause."""


class Cause(NamedTuple):
    """What diverged first."""

    quantity: str
    """In words, with its name."""

    body: str | None
    """The body that moves with it; None for continuous states."""


class _StopError(Exception):
    """Ends the step that is diagnosed."""


def first_to_diverge(
    system: System,
    method: str,
    state: Array,
    held: Array,
    time: float,
    dt: float,
    *,
    thorough: bool = True,
    left: Array | None = None,
) -> Cause:
    """Take the step that failed once more, on floats, and find what diverges first.

    Where all rates become non-finite at once, the largest state is the cause.

    Args:
        system: The system.
        method: Name of the integrator.
        state: The last finite state (*q, *v, *x).
        held: Held values.
        time: Time [s].
        dt: Length of the step [s].
        thorough: Whether to take the step; else the largest state is the cause.
        left: Held values that the step left, with the residual of contacts, if they are known.
    """
    model = system.model
    nq = model.nq
    for name, value in zip(system.command_names, held, strict=False):
        if not np.isfinite(value):
            return Cause(f"command {name!r}", None)
    largest = int(np.argmax(np.abs(state[nq:]))) if len(state) > nq else 0
    if not thorough:
        return _cause(system, largest)
    found: list[int] = []
    lost: list[str] = []
    causes: list[Cause] = []
    size = float(np.abs(state[nq:]).max(initial=0.0))

    def rates(q: Scalars, w: Scalars, *now: Any) -> Scalars:
        # a command that is not finite because the motion has exploded before is not the cause
        calm = all(abs(x) <= MAX_GROWTH * (1.0 + size) for x in w)
        cause = _bad_command(system, q, w, held, *(now or (time,))) if calm else None
        if cause is not None:
            causes.append(cause)
            raise _StopError
        given = tuple(system.rates(q, w, tuple(np.float64(x) for x in held), *(now or (time,))))
        bad = [k for k, x in enumerate(given) if not np.isfinite(x)]
        if bad:
            if model.loops:
                # loops whose residuals are not finite, as of a disc that lies flat
                gaps = system.held_loops.gaps(q, np.float64((now or (time,))[0]), w[model.nv :])
                lost.extend(open_loops(model, gaps, np.inf))
            worst = np.array([abs(x) for x in w])
            if len(bad) == len(given) and np.isfinite(worst).all():
                bad = [int(np.argmax(worst))]
            found.append(bad[0])
            raise _StopError
        return given

    q, w = (tuple(np.float64(x) for x in part) for part in (state[:nq], state[nq:]))
    try:
        with np.errstate(all="ignore"):
            after = METHODS[method].step(
                system.held_loops.manifold(), rates, q, w, np.float64(dt), np.float64(time)
            )
            opened = _off_grid(system, q, w, dt, time) or _unsolved(
                system, q, w, held, dt, time, left
            )
            opened = opened or _opened(system, *after, time + dt)
            if opened is None and system.held:
                # a controller is sampled at the end of a step
                opened = _bad_command(system, *after, held, time + dt)
    except _StopError:
        if causes:
            return causes[0]
        return Cause(f"gap of loop {lost[0]!r}", None) if lost else _cause(system, found[0])
    except (ArithmeticError, ValueError, TypeError, RuntimeError, LookupError):
        # the step cannot be taken on plain floats: beyond a grid, or the largest state must do
        opened = _undetermined(system) or _off_grid(system, q, w, dt, time)
    if opened is not None:
        return opened
    return _cause(system, largest)


def _bad_command(system: System, q: Scalars, w: Scalars, held: Array, time: Any) -> Cause | None:
    """Return which command a traced controller gives that is not finite in a finite state."""
    if system.control is None or not all(np.isfinite(x) for x in (*q, *w)):
        return None
    u = tuple(np.float64(x) for x in held)
    try:
        commands = hold(system, q, w, u, np.float64(time))[: len(system.command_names)]
    except (DomainError, NonFiniteError) as error:
        return Cause(f"command of the controller ({str(error).split(';')[0]})", None)
    for name, value in zip(system.command_names, commands, strict=True):
        if not np.isfinite(value):
            return Cause(f"command {name!r}", None)
    return None


def _off_grid(system: System, q: Scalars, w: Scalars, dt: float, time: float) -> Cause | None:
    """Return which contact is beyond the grid of the ground at the end of a step, if any."""
    contact = system.find(ContactElement)
    if contact is None:
        return None
    handle = system.run_time(TABLES)[contact.tables]
    if not handle:
        return None
    v = np.array(w[: system.model.nv])
    after = tuple(system.model.integrate(np.array(q), dt * v))
    plan = system.plan_at(after, tuple(v), np.float64(time))
    for candidate in contact.element.candidates:
        try:
            contact_geometry(plan, after, (candidate,), (*candidate.parameters(), *handle))
        except DomainError:
            return Cause(f"contact {candidate.name!r} {BEYOND_GRID}", candidate.first.body)
    return None


def _unsolved(
    system: System,
    q: Scalars,
    w: Scalars,
    held: Array,
    dt: float,
    time: float,
    left: Array | None,
) -> Cause | None:
    """Return which contact or joint has the largest residual of an unsolved step, if any."""
    if not system.ends_in_contact and system.find(JointLaws) is None:
        return None
    nv = system.model.nv
    if not system.ends_in_contact and nv * nv > MOST_EXPLAINED:
        return None
    if system.ends_in_contact and left is not None:
        element, own = _rigid_states(system, left, 1)
        if own["iterations"][0] == own["residual"][0] == 0.0:
            # nothing touched
            return None
        points = len(element.point_names)
        if points * nv > MOST_EXPLAINED:
            # compiling the step once more would take many seconds
            residual, worst = own["residual"][0], int(own["worst"][0])
            if not residual > max(element.tolerance, MAX_CONTACT_RESIDUAL) or worst >= points:
                return None
            bodies = [one.first.body for one in element.candidates for _ in one.point_names]
            fault = f"of a residual of {residual:.2g}"
            subject = f"contact {element.point_names[worst]!r}"
            return Cause(f"{subject}, {fault}, {UNSOLVED}", bodies[worst])
    u = tuple(np.float64(x) for x in held)
    now = np.float64(dt), np.float64(time)
    found = _failure(system, q, w, u, *now)
    if found is None:
        return None
    subject, fault, body = found
    return Cause(f"{subject}, {fault}, {UNSOLVED}", body)


def _failure(
    system: System, q: Scalars, w: Scalars, u: Scalars, h: Scalar, time: Scalar
) -> tuple[str, str, str] | None:
    """Return the contact or joint for which a step failed, what is wrong, and the body.

    None if the impulses meet the tolerance. Arguments are floats, as of `IntegratorStep`. The
    step is compiled: a solver that does not converge would iterate for a minute on floats.
    """
    from tiburon.native.kernel import ProgramSource, make_kernel

    def run(given: Mapping[str, Any]) -> Any:
        state: list[Any] = [scalars(given[name]) for name in ("q", "w", "u")]
        now: tuple[Any, ...] = (*state, given["h"], given["when"], system.run_time(ELEMENTS))
        found = _solved_step(system, *now)
        pressed = found.pressed
        return as_traced(
            [pressed.left, pressed.approach, pressed.worst, found.residual, found.worst]
        )

    inputs = [
        Input("q", (len(q),)),
        Input("w", (len(w),)),
        Input("u", (len(u),)),
        Input("h", ()),
        Input("when", ()),
    ]
    program = system.trace(run, inputs, "contact_failure")
    kernel = make_kernel(ProgramSource(program), system.parameters())
    given = (np.array(values, dtype=np.float64) for values in (q, w, u))
    found, has_failed = kernel(*given, h, time, errors="flag")
    if has_failed:
        return None
    left, approach, closing, residual, worst = found
    subjects = [*_contact_subjects(system), *_law_subjects(system)]
    if left > MAX_CLOSING * approach:
        name, body = subjects[int(closing)]
        return name, f"which goes on closing at {left:.2g} m/s", body
    tolerance = 0.0
    rigid = system.find(RigidContactElement)
    if rigid is not None:
        tolerance = float(rigid.element.own_parameters(system.own_parameters(rigid))[1])
    if residual <= max(tolerance, MAX_CONTACT_RESIDUAL):
        return None
    name, body = subjects[int(worst)]
    return name, f"of a residual of {residual:.2g}", body


def _solved_step(
    system: System,
    q: Scalars,
    w: Scalars,
    u: Scalars,
    h: Scalar,
    time: Scalar,
    p: Scalars,
) -> RigidStep:
    """Return what contacts and laws of joints make of a step; arguments of `IntegratorStep`."""
    manifold = Manifold(system.model)

    def rates(q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        return system.rates(q, w, u, time, p)

    after = rk4_step(manifold, rates, q, w, h, time)
    step = IntegratorStep(system, manifold, (q, w), after, u, h, time, p)
    return solved_end(step, posed_end(step))[0]


def _contact_subjects(system: System) -> Iterator[tuple[str, str]]:
    """Yield the words for each contact point, and the body that it belongs to."""
    rigid = system.find(RigidContactElement)
    for candidate in () if rigid is None else rigid.element.candidates:
        for point in candidate.point_names:
            yield f"contact {point!r}", candidate.first.body


def _law_subjects(system: System) -> Iterator[tuple[str, str]]:
    """Yield the words for friction and stop of each joint, and its body."""
    bodies = {body.joint.name: body.name for body in system.model.bodies}
    laws = system.find(JointLaws)
    for law in () if laws is None else laws.element.laws:
        for force in law.rows:
            name = force.removesuffix("_force")
            yield f"{name} of joint {law.joint!r}", bodies[law.joint]


def _opened(system: System, q: Scalars, w: Scalars, time: float) -> Cause | None:
    """Return which loop a step opened beyond repair, if any."""
    model = system.model
    if not model.loops:
        return None
    settled, _, gap = settle_state(system, q, w, np.float64(time))
    if gap <= system.held_loops.most_open:
        return None
    gaps = system.held_loops.gaps(settled, np.float64(time), w[model.nv :])
    names = open_loops(model, gaps, system.held_loops.most_open)
    return _undetermined(system) or Cause(f"gap of loop {names[0]!r}", None)


def _undetermined(system: System) -> Cause | None:
    """Return that independent joints have lost the others, where velocities follow from them."""
    return (
        Cause(f"independent velocities, {UNDETERMINED}", None)
        if system.held_loops.is_guided
        else None
    )


def _cause(system: System, place: int) -> Cause:
    """Name a component of (*v, *x)."""
    model = system.model
    if place >= model.nv:
        return Cause(f"inner state {system.x_names[place - model.nv]!r}", None)
    for body in model.bodies:
        where = model.slice(body.joint.name, of="v")
        if where.start <= place < where.stop:
            name = model.v_names[place]
            return Cause(f"velocity {name!r} of body {body.name!r}", body.name)
    return Cause(f"velocity {model.v_names[place]!r}", None)


def report_unsolved_contacts(system: System, held: Array, outcomes: Outcomes) -> None:
    """Add to the outcomes of a run which contact missed the tolerance of its impulses, and how far.

    Args:
        system: The system.
        held: Held values of all cases at the end.
        outcomes: Their messages are changed in place.
    """
    element, own = _rigid_states(system, held, len(outcomes))
    largest, places = own["largest_residual"], own["largest_at"]
    for case in np.flatnonzero(largest > element.tolerance).tolist():
        if outcomes[case].status == "diverged":
            continue
        point = element.point_names[int(places[case])]
        outcomes.add(
            case,
            f"; contact {point!r} had impulses of a residual of {largest[case]:.2g} in some step, "
            f"above the tolerance {element.tolerance:.2g}: take a smaller dt or a larger "
            "tolerance of RigidContact",
        )


def _rigid_states(
    system: System, held: Array, cases: int
) -> tuple[RigidContactElement, dict[str, Array]]:
    """Return rigid contact and its states beside those of its points, by name, one per case."""
    rigid = system.find(RigidContactElement)
    assert rigid is not None
    element = rigid.element
    z = held.reshape(cases, -1)[:, system.discrete][:, rigid.z]
    return element, dict(zip(OWN_STATES, z[:, element.own_states].T, strict=True))


def report_penetration(
    system: System, state: Array, held: Array, outcomes: Outcomes, parameters: Mapping[str, Array]
) -> None:
    """Add to the outcomes of a run which contact penetrated deepest, how far and when.

    Steps note the depth at their start; at the end of the last one it is looked up here.

    Args:
        system: The system.
        state: States of all cases at the end, (*q, *v, *x).
        held: Held values of all cases at the end.
        outcomes: Their messages are changed in place.
        parameters: Tables of run-time parameters, of which those of the geometry count.
    """
    element, own = _rigid_states(system, held, len(outcomes))
    depth, places, times = (
        own[name].copy() for name in ("largest_depth", "deepest_at", "deepest_time")
    )
    ends, q = outcomes.times, state[:, : system.model.nq]
    valid = np.isfinite(q).all(axis=1) & (np.array(outcomes.statuses) != "diverged")
    cases = np.flatnonzero(valid)
    try:
        gap = contacts_among(
            system.model,
            element.candidates,
            q[cases],
            time=ends[cases],
            geometry=geometry_of(parameters, cases),
        ).gap
    except DomainError:
        # a contact at the border of the grid of the ground
        gap = np.zeros((len(cases), len(element.point_names)))
    last = np.argmin(gap, axis=1)
    deeper = -gap[np.arange(len(cases)), last] > depth[cases]
    depth[cases[deeper]] = -gap[deeper, last[deeper]]
    places[cases[deeper]], times[cases[deeper]] = last[deeper], ends[cases[deeper]]
    for case in np.flatnonzero(depth > REPORTED_DEPTH).tolist():
        point = element.point_names[int(places[case])]
        outcomes.add(
            case,
            f"; contact {point!r} penetrated by {depth[case]:.2g} m at {times[case]:.6g} s: take a "
            "smaller dt; on uneven ground, larger cells or smaller shapes",
        )


# gains of loop methods

WITHOUT_METHOD = "write loops=tb.Projection()"
"""What always helps: projections have no gains, and pass singular configurations."""

STABLE_PRODUCT = 0.7
"""Length of a step times the fastest rate at which one-step methods are stable: semi-implicit Euler
steps are up to 1, Runge-Kutta steps up to 2 and more."""

STABLE_PRODUCT_OF_BLOCKS = 0.15
"""The same for predictor-corrector methods, of which those of four points are stable up to 0.2."""


def stable_choice(system: System, method: str, dt: float, q: Array, time: float) -> str:
    """Return steps or gains with which the correction of loops by a method is stable.

    Args:
        system: The system, with a loop method.
        method: Name of the integrator.
        dt: Length of a step [s].
        q: A configuration [m or rad], shape (nq,).
        time: Its time [s].
    """
    kind = system.loops
    product = STABLE_PRODUCT if METHODS[method].points == 1 else STABLE_PRODUCT_OF_BLOCKS
    name = type(kind).__name__
    if kind.has_springs:
        rates = _spring_rates(system.model, kind, q, time)
        step = product / float(np.abs(rates).max())
        if method == "euler":
            # |1 + dt rate| < 1, which oscillations with little damping reach with short steps only
            step = min(step, product * float((-rates.real / np.abs(rates) ** 2).min()))
        rounded = float(f"{step:.0e}")
        step = rounded if rounded <= step else float(f"{0.9 * step:.0e}")
        advised = f"a dt of {step:g} s, for which its springs and dampers are stable"
        return advised if step < dt else "a smaller dt"
    rate, gains = kind.decay_rate
    if rate * dt <= product:
        return "a smaller dt"
    limit = 0.5 * product / dt
    return f"{gains} of {name} below {limit:.2g} 1/s at this dt, a dt below {product / rate:.2g} s"


def _spring_rates(
    model: Model, method: LoopMethod, q: Array, time: float
) -> NDArray[np.complex128]:
    """Return the fastest rates of springs and dampers across loops [1/s], in a configuration."""
    if not (np.abs(q) < ANGLE_LIMIT).all():
        q = resting_position(model)
    now: Any = {"time": time} if model.plan.depends_on_time else {}
    J, L = loops_and_inertia(model, q, **now)
    rates = method.roots(J, L)
    # redundant constraints have none
    found: NDArray[np.complex128] = rates[np.abs(rates) > 1e-9 * np.abs(rates).max()]
    return found


# rank changes of the constraints, which mark singular configurations

Places = NDArray[np.intp]

STEPS_PER_CHECK = 50
"""Steps of a run for each configuration that is looked at: some percent of their cost."""

MAX_CHECKS = 20000
"""Configurations of all cases that are looked at, where first and last rows are not more."""


REPORTED_OPENING = 1e-6
"""Loop-closure error that an outcome reports, beyond that at the start [m or rad]; near a singular
configuration, energy has changed by some 1e-4 of the kinetic energy where it is left."""


def report_rank_changes(
    system: System,
    recorder: Recorder,
    steps: int,
    outcomes: Outcomes,
    parameters: Mapping[str, Array],
) -> None:
    """Add to the outcomes of a run where the rank of its constraints changed.

    The rank of switched loops changes by design, and penalties need none. Open loops, which other
    methods leave, have no rank: redundant constraints are independent by about the residual.
    Messages of outcomes are changed in place.

    Args:
        system: The robot.
        recorder: The recorded rows.
        steps: How many steps were taken.
        outcomes: One per case.
        parameters: Tables of run-time parameters, of which those of the geometry count.
    """
    model, rows = system.model, recorder.count
    if system.loops.opens_by_design or system.held_loops.switch_places or rows < 2:
        return
    cases = len(outcomes)
    places = _looked_at(rows, min(1 + steps // STEPS_PER_CHECK, MAX_CHECKS // cases))
    cut = max(RANK_TOLERANCE, system.loops.redundancy_tolerance)

    def ranks(chosen: Places, only: slice) -> Array:
        """Return the rank at some rows, shape (rows, cases); -1 for ended cases, open loops."""
        q = recorder.pick("q", chosen).reshape(len(chosen), cases, -1)[:, only]
        time = np.broadcast_to(recorder.pick("time", chosen)[:, None], q.shape[:2])
        # diverged cases may have turned beyond the angles that sines are defined for
        there = (np.abs(q) < ANGLE_LIMIT).all(axis=-1)
        found = np.full(there.shape, -1.0)
        if there.any():
            now = time[there] if model.plan.depends_on_time else None
            which = np.broadcast_to(np.arange(cases)[only], q.shape[:2])[there]
            how: Any = {"time": now, "parameters": geometry_of(parameters, which)}
            s = np.linalg.svd(loop_jacobian(model, q[there], **how), compute_uv=False)
            rank = np.sum(s > cut * s[:, :1], axis=1)
            if not system.loops.projects:
                left = np.abs(constraint_residual(model, q[there], **how)).max(axis=-1)
                rank = np.where(left > REPORTED_OPENING, -1, rank)
            found[there] = rank
        return found

    known = ranks(places, slice(None))
    for case in np.flatnonzero((known[1:] != known[:-1]).any(axis=0)).tolist():
        change = _first_change(places, known[:, case], case, ranks)
        if change is not None:
            before, after, row = change
            times = recorder.pick("time", np.array([row - 1, row]))
            outcomes.add(
                case,
                f"; between {times[0]:.6g} s and {times[1]:.6g} s the rank of its constraints "
                f"changed from {before} to {after}: a singular configuration, near which the "
                "motion may not be unique",
            )


def _looked_at(rows: int, count: int) -> Places:
    """Return evenly spaced rows, about as many as given; the first and the last are among them."""
    return np.unique(np.linspace(0, rows - 1, min(rows, max(2, count))).astype(np.intp))


def report_open_loops(
    system: System, recorder: Recorder, outcomes: Outcomes, parameters: Mapping[str, Array]
) -> None:
    """Add to the outcomes of a run by corrected accelerations how far its loops opened, and when.

    Projections keep loops closed, and springs open them by design. Errors that other methods leave
    decay; near singular configurations they are amplified instead, and the motion is lost.
    Messages of outcomes are changed in place.

    Args:
        system: The robot.
        recorder: The recorded rows.
        outcomes: One per case.
        parameters: Tables of run-time parameters, of which those of the geometry count.
    """
    model, rows, method = system.model, recorder.count, system.loops
    if method.projects or method.opens_by_design:
        return
    if system.held_loops.switch_places or rows < 2:
        return
    cases = len(outcomes)
    places = _looked_at(rows, MAX_CHECKS // cases)
    q = recorder.pick("q", places).reshape(len(places), cases, -1)
    times = recorder.pick("time", places)
    there = (np.abs(q) < ANGLE_LIMIT).all(axis=-1)
    now = np.broadcast_to(times[:, None], there.shape)[there]
    which = np.broadcast_to(np.arange(cases), there.shape)[there]
    how: Any = {
        "time": now if model.plan.depends_on_time else None,
        "parameters": geometry_of(parameters, which),
    }
    given = np.abs(constraint_residual(model, q[there], **how))
    found = np.zeros((*there.shape, given.shape[-1]))
    found[there] = given
    largest = found.max(axis=-1)
    # errors at the start decay, and velocities there open loops a little further before
    allowed = REPORTED_OPENING + 2.0 * largest[0]
    for case in np.flatnonzero((largest > allowed).any(axis=0)).tolist():
        if outcomes[case].status == "diverged":
            continue
        row = int(np.argmax(largest[:, case]))
        first = int(np.argmax(largest[:, case] > allowed[case]))
        name = open_loops(model, found[row, case], 0.5 * largest[row, case])[0]
        outcomes.add(
            case,
            f"; loop {name!r} opened by {largest[row, case]:.2g} m or rad at {times[row]:.6g} s, "
            f"beyond {allowed[case]:.2g} from {times[first]:.6g} s on, as near a singular "
            f"configuration: {WITHOUT_METHOD}, or take a smaller dt or larger gains",
        )


def _first_change(
    places: Places, known: Array, case: int, ranks: Callable[[Places, slice], Array]
) -> tuple[int, int, int] | None:
    """Return the ranks before and after the first change, and the row after it."""
    for k in range(len(places) - 1):
        before, after = known[k], known[k + 1]
        if before == after or min(before, after) < 0.0:
            continue
        low, high = int(places[k]), int(places[k + 1])
        while high - low > 1:
            middle = (low + high) // 2
            found = ranks(np.array([middle]), slice(case, case + 1))[0, 0]
            if found == before:
                low = middle
            else:
                high, after = middle, found
        if after >= 0.0:
            return int(before), int(after), high
    return None
