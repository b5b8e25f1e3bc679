"""Contact of event-driven runs as an element: contact points and the modes they are in."""

from collections.abc import Callable
from typing import Any, ClassVar

from tiburon.actuation.contact_element import (
    PEAK_FORCE,
    POINT_STATES,
    ContactElement,
    PointForces,
)
from tiburon.actuation.element import Action, ElementContext
from tiburon.contact.candidates import surfaces_of
from tiburon.contact.complementarity import contact_accelerations
from tiburon.contact.mode_forces import (
    HeldContacts,
    PointMode,
    closing_step,
    force_on_first,
    stopping_impulse,
)
from tiburon.contact.rigid import compliance_of
from tiburon.contact.rows import contact_rows
from tiburon.loops.projection import moved_configuration
from tiburon.model import Model, Plan
from tiburon.record import record
from tiburon.spatial import Scalars

MODE_STATES = (
    "mode",
    "slip_x",
    "slip_y",
    "slip_z",
    "near_x",
    "near_y",
    "near_z",
    "since",
)
"""Further discrete states of a contact point, in the order of `PointMode`."""

PEAK_IMPULSE = "peak_impulse_squared"
"""Discrete state of a contact point: square of its largest impulse in a collision [N^2 s^2]."""


@record
class ExactContactElement(ContactElement):
    """Shapes that cannot penetrate each other, in runs that locate every change of contact.

    Its discrete states are those of each contact point, then per point its mode (0 open, 1
    sticking, 2 sliding, 3 touching without force, 4 and 5 beginning to slide), the direction of its
    slip, the forces that those which are not unique are nearest to [N], and the time since when
    [s]. Its peak force and impulse follow. They change at events only, but for the forces, which
    are those of the recorded time, and their peak.
    """

    is_event_driven: ClassVar[bool] = True

    def own_state_names(self) -> tuple[str, ...]:
        """Return the names of modes and what belongs to them."""
        return tuple(f"{point}.{part}" for point in self.point_names for part in MODE_STATES)

    def peak_names(self) -> tuple[str, ...]:
        """Return what is largest so far of each point: squares of force and impulse."""
        return (PEAK_FORCE, PEAK_IMPULSE)

    def act(self, now: ElementContext) -> Action:
        """Return no force: contacts constrain the accelerations of the system."""
        return Action()

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return the same states: events change them."""
        return now.z

    def held_contacts(
        self,
        plan: Plan,
        q: Scalars,
        v: Scalars,
        vd: Scalars,
        z: Scalars,
        p: Scalars,
        loops: tuple[Any, ...],
    ) -> HeldContacts:
        """Return all contacts in their modes; see `Element.held_contacts`."""
        problem = contact_accelerations(plan, q, v, vd, self.candidates, p, *loops)
        surfaces = surfaces_of(self.candidates, p, [point.geometry for point in problem.points])
        return HeldContacts(problem, surfaces, self.modes(z))

    def point_forces(
        self, plan: Plan, q: Scalars, z: Scalars, p: Scalars, held: Callable[[], HeldContacts]
    ) -> PointForces:
        """Return what acts at all points; see `ContactElement.point_forces`."""
        contacts = held()
        f, points = contacts.forces().f, contacts.problem.points
        pushes = [force_on_first(one, f[3 * k : 3 * k + 3]) for k, one in enumerate(points)]
        return PointForces([one.geometry for one in points], pushes)

    def settled(
        self,
        model: Model,
        q: Scalars,
        v: Scalars,
        z: Scalars,
        p: Scalars,
        around: Callable[[Scalars], tuple[Plan, tuple[Any, ...]]],
    ) -> tuple[Scalars, Scalars]:
        """Return a state with the gaps of closed contacts closed, and without what they stop.

        Args:
            model: The robot.
            q: Configuration [m or rad].
            v: Joint velocity [m/s or rad/s].
            z: Its discrete states.
            p: Its run-time parameters, then the handles of its tables.
            around: Returns layout and loops at a configuration; see `Element.held_contacts`.
        """
        modes = self.modes(z)
        for last in (False, True):
            plan, loops = around(q)
            points = contact_rows(plan, q, self.candidates, p)
            compliance = compliance_of(plan, q, points, *loops)
            if not last:
                q = moved_configuration(model, q, closing_step(points, compliance, modes))
        velocity = [x for point in points for x in point.velocity(v)]
        change = stopping_impulse(points, velocity, compliance, modes)
        return q, tuple(a + b for a, b in zip(v, change, strict=True))

    def modes(self, z: Scalars) -> list[PointMode]:
        """Return the modes of all points from the discrete states of the element."""
        count, width = len(self.point_names), len(MODE_STATES)
        found = []
        for k in range(count):
            start = len(POINT_STATES) * count + width * k
            mode, a, b, c, d, e, f, since = z[start : start + width]
            found.append(PointMode(mode, (a, b, c), (d, e, f), since))
        return found
