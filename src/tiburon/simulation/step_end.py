"""The end of a step: rigid contacts, and laws of joints: damping, springs, dry friction and stops.

The integrator takes the step with the mean forces that these had in the last one; its end corrects
them (`tiburon.actuation.joint_laws`, `tiburon.contact.rigid`). Friction, stops and contacts are
rows of one problem.

Symbols:
    q1, v1      state at the end of the step under the forces of the last one
    H           mass matrix, with what damping and springs add to its diagonal
    r           impulses by which damping and springs would change if v1 stayed, and what their
                added armatures kept from v1
    c           impulses with the forces of friction and stops in the last step
    p           impulses of friction, stops and contacts
    m           impulses with the forces of contacts in the last step, with the mean of the lever
                arms at both ends of this one

    v = v1 + H^-1 (r - c - m + J^T p)
    q = q1 + h (H^-1 (r - c - m) / 2 + the shift by p that contacts determine)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.actuation.actuator_drive import MotorDrive
from tiburon.actuation.joint_laws import NEAR_STOP, HeldLaw, JointLaws
from tiburon.actuation.point_spring import StiffSprings
from tiburon.actuation.rigid_contact import RigidContactElement
from tiburon.actuation.soft_loops import SoftLoops
from tiburon.contact.active import ActivePoints
from tiburon.contact.rigid import (
    TOLERANCE,
    ActingForces,
    BoundRow,
    Compliance,
    Impact,
    RigidStep,
    compliance_of,
    rigid_step,
)
from tiburon.contact.rows import PointRows
from tiburon.loops.metric import MIN_CUT
from tiburon.model import Plan
from tiburon.simulation.control_calls import commands_at
from tiburon.simulation.integrator_step import IntegratorStep
from tiburon.simulation.soft_loops import SoftTerms, soft_terms
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.regions import where_needed
from tiburon.trace.value import require

if TYPE_CHECKING:
    from tiburon.simulation.system import System

UNSOLVED_JOINTS = (
    "impulses of joint friction, stops and contacts that converge: bodies of very different masses "
    "push each other, or the step is too long"
)
"""What a step expects whose impulses do not converge."""

UNSOLVED_CONTACT = (
    "contact impulses that converge: bodies of very different masses rest on each other, or the "
    "step is too long"
)
"""The same of a step without laws of joints."""

MAX_CONTACT_RESIDUAL = 1e-3
"""Relative residual of contact impulses above which a step has failed, whatever its tolerance."""

MAX_CLOSING = 1e-3
"""Share of the speed of approach that contact impulses may leave; a step that leaves more has
failed, however small its residual is relative to impulses."""

SHORTEST_STEP = 1e-12
"""Length of a step with contact at least [s]: accuracy of the times of events."""

MAX_GAP = 1e100
"""Upper bound of a finite sum of gaps [m]; a NaN gap exceeds it."""


class LawTerms(NamedTuple):
    """What laws of joints do at the end of a step, by velocity variable."""

    held: list[HeldLaw]
    """Laws of joints with their forces over the last step."""

    forces: list[Scalar]
    """Force of damping and spring of each law if the velocity at the end stayed [N or N m]."""

    added: dict[int, Scalar]
    """What damping and springs add to the diagonal of the mass matrix."""

    change: dict[int, Scalar]
    """Impulses by which damping and springs would change if the velocity at the end stayed."""

    names: list[tuple[int, str]]
    """Law and force of each row of friction and stops."""

    bounds: list[BoundRow]
    """These rows."""

    removed: dict[int, Scalar]
    """Impulses of the last step along them, the other way; of servos to the middle of limits."""

    @classmethod
    def of(
        cls,
        held: list[HeldLaw],
        q: Scalars,
        v: Scalars,
        v1: Scalars,
        h: Scalar,
        gain: Scalars,
        *,
        binds: bool,
    ) -> "LawTerms":
        """Return the terms of a step from a state, with the velocity v1 at its end.

        `gain` is the change of velocity that the stages found with added armatures; `binds` states
        whether linear forces with limits are rows.
        """
        found = cls(held, [], {}, {}, [], [], {})
        for k, law in enumerate(held):
            i = law.variable
            force: Scalar = 0.0
            if law.law.is_linear:
                force = law.linear_force(law.measured(q, v), law.ratio * v1[i], h)
                last = law.forces[law.law.linear_name]
                if binds and law.law.is_bounded:
                    found.names.append((k, law.law.linear_name))
                    found.bounds.append(law.soft_row(force, law.ratio * v1[i], h))
                    _add(found.removed, i, law.ratio * h * (law.middle - last))
                else:
                    _add(found.added, i, law.ratio * law.ratio * h * law.slope(h))
                    _add(found.change, i, law.ratio * h * (force - last))
                if gain:
                    _add(found.change, i, law.ratio * law.ratio * law.stage_inertia * gain[i])
            found.forces.append(force)
            rows = tuple(law.bounds(q, v, h))
            for name, bound in rows:
                found.names.append((k, name))
                found.bounds.append(bound)
            for name in dict.fromkeys(name for name, _ in rows):
                _add(found.removed, i, -law.ratio * h * law.forces[name])
        return found

    def may_bind(self, v1: Scalars, h: Scalar) -> Any:
        """Return whether friction or stops may act in the step; False where nothing binds."""
        closest: Scalar = 1.0
        for bound in self.bounds:
            if bound.friction is not None:
                return True
            after: Scalar = 0.0
            for i, x in bound.row.items():
                after = after + x * v1[i]
            reach = 2.0 * h * (np.abs(bound.speed) + np.abs(after)) + NEAR_STOP
            closest = np.minimum(closest, np.where(bound.held > 0.0, 0.0, bound.gap - reach))
        return closest <= 0.0 if self.bounds else False


class StepEnd(NamedTuple):
    """The problem at the end of a step, before it is solved."""

    terms: LawTerms
    """What laws of joints do."""

    v1: Scalars
    """Velocity at the end under the forces of the last step [m/s or rad/s]."""

    v_free: Scalars
    """Velocity there without friction and stops [m/s or rad/s]."""

    v_start: Scalars
    """Velocity at the start, in the axes of the end [m/s or rad/s]."""

    mean_change: Scalars
    """Change of the mean velocity of the step that goes with that of the velocity."""

    compliance: Compliance
    """The inverse mass matrix as rows see it."""

    tolerance: Scalar
    """Residual at which solvers end, relative to the largest impulse."""

    contact: tuple[list[Scalar], list[PointRows], Scalars] | None
    """Gaps at the start, contact points and their run-time parameters."""

    acting: ActingForces | None
    """Contact forces of the last step that act in this one."""

    soft: SoftTerms | None
    """Springs and dampers across loops."""


class _Ended(NamedTuple):
    """The end of a step."""

    q: Scalars
    """Configuration."""

    v: Scalars
    """Joint velocity [m/s or rad/s]."""

    z: Scalars
    """Discrete states."""

    good: Scalar
    """Whether impulses are those of a step: 1 or 0."""

    exceeds: Scalar = 0.0
    """Whether a servo exceeds its limits, so that the step needs rows: 1 or 0."""

    impact: Impact = Impact()
    """The first collision with restitution."""


def end_of_step(step: IntegratorStep) -> tuple[Scalars, Scalars, Scalars, Impact]:
    """Return configuration, velocities with inner states, and held values at the end of a step.

    Then the first collision with restitution.

    Args:
        step: A step of a robot with rigid contacts or laws of joints.
    """
    # what an event leaves of a step may be nothing, and forces are impulses over time
    step = step._replace(h=np.maximum(step.h, SHORTEST_STEP))
    system, v, h = step.system, step.v, step.h
    held = _held(step)
    found = _found_end(step, held)
    unsolved = UNSOLVED_CONTACT if system.find(JointLaws) is None else UNSOLVED_JOINTS
    q_end = tuple(require(found.good > 0.5, x, unsolved) for x in found.q)
    x_end = _states_of_windings(system, held, v, found.v, step.after[1][system.model.nv :], h)
    held_values = (*step.u[: system.discrete.start], *found.z)
    return q_end, (*found.v, *x_end), held_values, found.impact


def _found_end(step: IntegratorStep, held: list[HeldLaw]) -> _Ended:
    """Return the end of a step with what may act in it of friction, stops and contacts.

    Args:
        step: The step.
        held: Laws of joints with their forces over the last step.
    """
    system, q, v, v1, h = step.system, step.start[0], step.v, step.v1, step.h
    soft = system.find(SoftLoops) is not None or system.find(StiffSprings) is not None
    linear = soft or any(law.law.is_linear for law in held)

    def ended(*, binds: bool, touches: bool = False) -> _Ended:
        # where contacts are not part of it, the states are those of all else alone
        acts = binds or linear or touches
        return _solved(step, binds=binds, touches=touches) if acts else _untouched(step)

    binds: Any = LawTerms.of(held, q, v, v1, h, (), binds=False).may_bind(v1, h)
    near: Any = False
    if system.ends_in_contact:
        near = _may_touch(step)
    if near is True:
        return ended(binds=True, touches=True)
    # what is near something has the problem of all rows, the others that of their joints
    ways: tuple[tuple[Any, Callable[[], _Ended]], ...] = (
        (_both(binds, _opposite(near)), lambda: ended(binds=True)),
        (_both(_opposite(binds), _opposite(near)), lambda: ended(binds=False)),
    )
    found = _untouched(step)
    for condition, way in ways:
        if condition is True:
            found = way()
        elif condition is not False:
            # one of them is computed
            found = where_needed(condition, way, found)
    if binds is not True and any(law.law.is_bounded for law in held):
        found = where_needed(found.exceeds > 0.5, lambda: ended(binds=True), found)
    # states of hundreds of points pass through one region only
    found = found._replace(z=_states_after(system, step.z, (), found.z))
    # where laws are stops alone, few of them act: what is at none has its contacts alone
    alone = bool(held) and all(any(law.law.ends) for law in held)
    apart = _both(near, _opposite(binds)) if alone else False
    if apart is not False:
        found = where_needed(apart, lambda: ended(binds=False, touches=True), found)
    near = _both(near, _opposite(apart))
    if near is not False:
        found = where_needed(near, lambda: ended(binds=True, touches=True), found)
    return found


def _untouched(step: IntegratorStep) -> _Ended:
    """Return the end of a step in which nothing acts at its end."""
    states = _law_states(step.system, None, None, step.z, step.h)
    return _Ended(step.after[0], tuple(step.v1), states, 1.0)


def _solved(step: IntegratorStep, *, binds: bool, touches: bool) -> _Ended:
    """Return the end of a step, with friction and stops or without, and with contacts."""
    system, manifold, q1, h = step.system, step.manifold, step.after[0], step.h
    posed = posed_end(step, binds=binds, touches=touches)
    exceeds = 0.0 if binds else _exceeds(posed, h)
    found: RigidStep | None = None
    states: Scalars = ()
    at_end: Scalars = ()
    if binds or touches:
        found, states, at_end = solved_end(step, posed)
    mean, v_after, good, impact = posed.mean_change, posed.v_free, 1.0, Impact()
    if found is not None:
        mean = tuple(a + b for a, b in zip(mean, found.shifted, strict=True))
        v_after = found.v
        good, impact = _is_good(system, posed, found), found.impact
    q_after = manifold.normalize(manifold.displaced(q1, mean, h))
    back = manifold.reexpress(v_after, q1, q_after)
    states = _states_of(step, posed, found, states, at_end)
    return _Ended(q_after, tuple(back), states, good, exceeds, impact)


def _states_of(
    step: IntegratorStep,
    posed: StepEnd,
    found: RigidStep | None,
    states: Scalars,
    at_end: Scalars,
) -> Scalars:
    """Return the discrete states after a step; those of laws alone where contacts have none.

    Args:
        step: The step.
        posed: The problem at its end.
        found: What friction, stops and contacts make of it, if they act.
        states: States of contacts before joint forces.
        at_end: Those after them.
    """
    system, z, h = step.system, step.z, step.h
    if found is not None and posed.contact is not None:
        # of joints that turn in world axes, which do not turn in the next step
        neutral = tuple(system.model.neutral())
        for impulses in (found.mean_impulses, found.joint_impulses):
            forces = tuple(np.where(found.lasts, x / h, 0.0) for x in impulses)
            states = (*states, *step.manifold.reexpress(forces, step.after[0], neutral))
        states = (*states, *at_end)
    others = _law_states(system, posed, found, z, h)
    return _states_after(system, z, states, others) if states else others


def _opposite(condition: Any) -> Any:
    return not condition if isinstance(condition, bool) else ~condition


def _both(a: Any, b: Any) -> Any:
    """Return whether both of two conditions hold, which may be known."""
    if a is False or b is False:
        return False
    if a is True:
        return b
    return a if b is True else a & b


def _held(step: IntegratorStep) -> list[HeldLaw]:
    """Return the laws with their forces over the last step, and the commands of this one."""
    system, u = step.system, step.u
    laws = system.find(JointLaws)
    if laws is None:
        return []
    element = laws.element
    places = {
        law.actuator.name: system.commands.place(law.actuator.name)
        for law in element.laws
        if law.actuator is not None
    }
    commands: dict[str, Scalar] = {}
    if places:
        # of controllers within the step the mean of its ends
        ends = [commands_at(system, *step.start, u, step.time)]
        if system.control is not None and not system.held:
            ends.append(commands_at(system, *step.after, u, step.time + step.h))
        share = 1.0 / len(ends)
        commands = {name: share * sum(end[k] for end in ends) for name, k in places.items()}
    x = step.start[1][system.model.nv :]
    currents = {name: x[k] for name, k in _windings(system).items()}
    return element.held(system.model, step.p[laws.p], step.z[laws.z], commands, currents)


def _windings(system: "System") -> dict[str, int]:
    """Return the places of the currents of motors that act at the ends of steps, by actuator."""
    return {
        one.element.name: one.x.start
        for one in system.placed
        if isinstance(one.element, MotorDrive) and one.element.at_ends and one.state_count
    }


def _states_of_windings(
    system: "System", held: list[HeldLaw], v: Scalars, after: Scalars, x: Scalars, h: Scalar
) -> Scalars:
    """Return continuous states with currents at the end of a step between two velocities."""
    found, places = list(x), _windings(system)
    for law in held:
        if law.winding is not None and law.winding.L is not None:
            assert law.law.actuator is not None
            part, i = law.weight(h), law.variable
            speed = law.ratio * (v[i] + part * (after[i] - v[i]))
            found[places[law.law.actuator.name]] = law.winding.current_after(speed, part, h)
    return tuple(found)


def _exceeds(posed: StepEnd, h: Scalar) -> Scalar:
    """Return whether a linear force is beyond its limits: 1 or 0."""
    beyond: Scalar = 0.0
    for law, force in zip(posed.terms.held, posed.terms.forces, strict=True):
        if law.law.is_bounded:
            found = _linear_after(law, force, posed.v_free, posed.v1, h)
            beyond = np.where((found < law.low) | (found > law.high), 1.0, beyond)
    return beyond


def _linear_after(law: HeldLaw, force: Scalar, v: Scalars, v1: Scalars, h: Scalar) -> Scalar:
    """Return the force of damping and spring at another velocity at the end of the step."""
    i = law.variable
    return force - law.slope(h) * law.ratio * (v[i] - v1[i])


def _is_good(system: "System", posed: StepEnd, found: RigidStep) -> Scalar:
    """Return whether impulses are those of a step: 1 or 0."""
    # the outcome reports smaller misses
    solved = found.residual <= np.maximum(posed.tolerance, MAX_CONTACT_RESIDUAL)
    solved &= found.pressed.left <= MAX_CLOSING * found.pressed.approach
    if posed.contact is not None:
        # gaps of points beyond the grid of the ground are NaN, which comparisons hide
        gaps = sum((point.geometry.gap for point in posed.contact[1]), 0.0)
        solved = solved & (gaps < MAX_GAP)
    good: Scalar = np.where(solved, 1.0, 0.0)
    return good


def posed_end(
    step: IntegratorStep, *, binds: bool = True, touches: bool = True, whole: bool = False
) -> StepEnd:
    """Return the problem at the end of a step.

    Args:
        step: The step.
        binds: Whether friction and stops are part of it.
        touches: Whether contacts are.
        whole: Whether all contact points are, where steps choose among them.
    """
    system, manifold, _, _, u, h, time, p, explicit, few = step
    (q, w), (q1, w1), nv = step.start, step.after, system.model.nv
    v, v1 = w[:nv], tuple(w1[:nv])
    plan = system.plan_at(q1, v1, time + h)
    gain = tuple(b - a for a, b in zip(v, w1[:nv], strict=True)) if explicit else ()
    held = _held(step)
    terms = LawTerms.of(held, q, v, v1, h, gain, binds=binds)
    if not binds:
        terms = terms._replace(names=[], bounds=[])
    # impulses do not change the velocities of joints on paths
    fixed: list[int] = []
    for joint in system.prescribed(time + h, p):
        fixed += [i for i, _ in joint.accelerations]
        v1 = (*v1[: joint.v], *joint.sample[1], *v1[fixed[-1] + 1 :])
    closes = bool(system.model.loops) and system.held_loops.method.projects
    jacobian, cut = (closes and system.held_loops.rows(plan, q1, w[nv:])) or ((), MIN_CUT)
    soft = soft_terms(step, plan, v1)
    if soft is not None:
        jacobian = soft.jacobian
    softness = () if soft is None else soft.softness

    def compliance_at(points: list[PointRows]) -> Compliance:
        given = terms.bounds, terms.added, softness
        return compliance_of(plan, q1, points, jacobian, cut, fixed, *given)

    contact, acting, end = None, None, None
    points: list[PointRows] = []
    rigid = system.find(RigidContactElement)
    own: Scalars = ()
    tolerance: Scalar = TOLERANCE
    if rigid is not None:
        own, tolerance = rigid.element.own_parameters(system.own_parameters(rigid, p))
    if touches and rigid is not None:
        element = rigid.element
        act, *forces = element.acting(u[system.discrete][rigid.z])
        neutral = tuple(system.model.neutral())
        whole_arms, at_end = (manifold.reexpress(one, neutral, q1) for one in forces)
        acting = ActingForces(act, *(tuple(h * x for x in one) for one in (whole_arms, at_end)))
        if not whole and element.chooses_points(plan, few=few):
            compliance = compliance_at(ActivePoints())
            assert compliance.felt is not None
            taken = compliance.response(compliance.felt(dict(enumerate(acting.joint_impulses))))
            end = manifold.displaced(q1, tuple(-0.5 * x for x in taken), h)
        # prescribed motion goes on between the ends of the step
        earlier = system.plan_at(q, v, time) if plan.depends_on_time else plan
        gaps, points = element.approach((earlier, plan), q, q1, (v, v1), h, own, end)
        contact = gaps, points, own
    if end is None:
        compliance = compliance_at(points)
    if closes:
        v1 = tuple(_closed_velocity(system, compliance, plan, q1, v1, w[nv:]))

    def moved(impulses: dict[int, Scalar]) -> Scalars:
        assert compliance.felt is not None
        return compliance.response(compliance.felt(impulses)) if impulses else (0.0,) * nv

    changes = [moved(terms.change), moved(terms.removed)]
    if soft is not None:
        assert compliance.closing is not None
        changes.append(compliance.closing(soft.rates))
    mean = tuple(0.5 * sum(one[1:], one[0]) for one in zip(*changes, strict=True))
    free = tuple(sum(one[1:], one[0]) for one in zip(v1, *changes, strict=True))
    start_ahead = list(manifold.reexpress(v, q, q1))
    # joints on paths have one velocity within a step, as those that a path drives
    for i in fixed:
        start_ahead[i] = v1[i]
    rest = tuple(start_ahead), mean, compliance, tolerance, contact, acting, soft
    return StepEnd(terms, v1, free, *rest)


def _may_touch(step: IntegratorStep) -> Any:
    """Return whether anything may touch in a step."""
    system, q, q1, v, time = step.system, step.start[0], step.after[0], step.v, step.time
    rigid = system.find(RigidContactElement)
    assert rigid is not None
    plan = system.plan_at(q1, v, time + step.h)
    earlier = system.plan_at(q, v, time) if plan.depends_on_time else plan
    return rigid.element.may_touch((earlier, plan), q, q1, step.p[rigid.p])


def _closed_velocity(
    system: "System", compliance: Compliance, plan: Plan, q: Scalars, v: Scalars, x: Scalars
) -> Scalars:
    """Return the velocity without what loops forbid.

    It would be slip that no impulse can stop, and friction would act on it.
    """
    if compliance.closing is None:
        return v
    change = compliance.closing([-rate for rate in system.held_loops.opening(plan, q, v, x)])
    return tuple(a + b for a, b in zip(v, change, strict=True))


def _add(values: dict[int, Scalar], place: int, value: Scalar) -> None:
    values[place] = values[place] + value if place in values else value


def solved_end(step: IntegratorStep, posed: StepEnd) -> tuple[RigidStep, Scalars, Scalars]:
    """Return what friction, stops and contacts make of a step, and the states of contacts.

    These are those before joint forces, and those after them.
    """
    if posed.contact is None:
        ends = posed.v1, posed.v_free, posed.v_start
        found = rigid_step(
            (),
            (),
            posed.compliance,
            (),
            (),
            *ends,
            step.h,
            posed.tolerance,
            bounds=posed.terms.bounds,
        )
        return found, (), ()
    rigid = step.system.find(RigidContactElement)
    assert rigid is not None
    gaps, points, own = posed.contact
    return rigid.element.finish_step(
        gaps,
        points,
        posed.compliance,
        step.z[rigid.z],
        own,
        posed.v1,
        posed.v_free,
        posed.v_start,
        step.h,
        posed.tolerance,
        step.time,
        posed.terms.bounds,
        posed.acting,
    )


def _states_after(system: "System", z: Scalars, contacts: Scalars, others: Scalars) -> Scalars:
    """Return the discrete states after a step, those of contacts that are apart if there are none.

    Args:
        system: The robot.
        z: Those before it.
        contacts: Those of contacts after it, where something touches.
        others: Those of `_law_states`.
    """
    after = list(z)
    rigid = system.find(RigidContactElement)
    if rigid is not None:
        after[rigid.z] = contacts or rigid.element.states_apart(z[rigid.z])
    used = 0
    for place in _law_places(system):
        end = used + place.stop - place.start
        after[place] = others[used:end]
        used = end
    return tuple(after)


def _law_places(system: "System") -> list[slice]:
    """Return the places of the states of soft loops, of stiff springs and of laws of joints."""
    found = system.find(SoftLoops), system.find(StiffSprings), system.find(JointLaws)
    return [one.z for one in found if one is not None]


def _law_states(
    system: "System", posed: StepEnd | None, found: RigidStep | None, z: Scalars, h: Scalar
) -> Scalars:
    """Return the states of soft loops, stiff springs and laws of joints: their mean forces.

    `found` is None where friction, stops and contacts do not act, `posed` where nothing does.
    """
    states: list[Scalar] = []
    soft, springs = system.find(SoftLoops), system.find(StiffSprings)
    laws = system.find(JointLaws)
    held = [*(() if soft is None else z[soft.z])]
    count = len(held)
    held += [-x for x in (() if springs is None else z[springs.z])]
    if held and posed is not None and posed.soft is not None:
        v = posed.v_free if found is None else found.v
        change = tuple(a - b for a, b in zip(v, posed.v1, strict=True))
        held = posed.soft.forces_after(change)
    # springs pull against the rate of their length
    states += [*held[:count], *(-x for x in held[count:])]
    if laws is not None:
        own = z[laws.z]
        if posed is None:
            states += (*(0.0 for _ in own[:-1]), own[-1])
        else:
            states += _forces_after(posed, found, own, h)
    return tuple(states)


def _forces_after(posed: StepEnd, found: RigidStep | None, z: Scalars, h: Scalar) -> list[Scalar]:
    """Return the discrete states of the laws after a step."""
    terms = posed.terms
    after = [dict.fromkeys(law.forces, 0.0) for law in terms.held]
    v = posed.v_free if found is None else found.v
    for law, force, own in zip(terms.held, terms.forces, after, strict=True):
        if law.law.is_linear:
            own[law.law.linear_name] = _linear_after(law, force, v, posed.v1, h)
    residual: Scalar = 0.0
    if found is not None:
        residual = found.residual
        rows = zip(terms.names, terms.bounds, found.bounds, strict=True)
        for (k, name), bound, impulse in rows:
            force = impulse / h
            if bound.softness is not None:
                force = force + terms.held[k].middle
            elif bound.friction is None:
                # what a collision takes does not act on
                force = np.where(found.lands, 0.0, bound.sign * force)
                # both ends of a narrow range
                force = after[k][name] + force
            after[k][name] = force
    largest = z[-1]
    values = [x for own in after for x in own.values()]
    return [*values, residual, np.where(residual > largest, residual, largest)]


def revised_contact_forces(system: "System", u: Scalars, trial: Scalars) -> tuple[Any, Scalars]:
    """Return whether a step is taken anew with other contact forces, and held values with them.

    Args:
        system: The robot, with rigid contacts.
        u: Held values at the start of a step.
        trial: Those after it.
    """
    rigid, z = system.find(RigidContactElement), list(u[system.discrete])
    assert rigid is not None
    before, after = tuple(z[rigid.z]), trial[system.discrete][rigid.z]
    acts, z[rigid.z] = rigid.element.revised_states(before, after)
    return acts, (*u[: system.discrete.start], *z)


def without_contact_forces(system: "System", u: Scalars) -> Scalars:
    """Return held values with which contacts of the last step do not act in this one."""
    rigid, z = system.find(RigidContactElement), list(u[system.discrete])
    assert rigid is not None
    z[rigid.z] = rigid.element.at_rest(tuple(z[rigid.z]))
    return (*u[: system.discrete.start], *z)
