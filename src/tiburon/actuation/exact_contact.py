"""Contact of event-driven runs as an element: contact points and the modes they are in."""

from typing import ClassVar

from tiburon.actuation.contact_element import PEAK_FORCE, POINT_STATES, ContactElement
from tiburon.actuation.element import Action, ElementContext
from tiburon.contact.mode_forces import PointMode
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

    def modes(self, z: Scalars) -> list[PointMode]:
        """Return the modes of all points from the discrete states of the element."""
        count, width = len(self.point_names), len(MODE_STATES)
        found = []
        for k in range(count):
            start = len(POINT_STATES) * count + width * k
            mode, a, b, c, d, e, f, since = z[start : start + width]
            found.append(PointMode(mode, (a, b, c), (d, e, f), since))
        return found
