"""Rigid contact as an element: the contact points of a robot and what they carry between steps."""

import functools
from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.actuation.element import Action, ElementContext
from tiburon.contact.active import ActivePoints, active_points
from tiburon.contact.candidates import surfaces_of
from tiburon.contact.rigid import (
    TOLERANCE,
    BoundRow,
    Compliance,
    PointState,
    RigidStep,
    rigid_step,
)
from tiburon.contact.rows import PointRows, swept_rows
from tiburon.model import Plan
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.active_rows import picked_rows, spread_rows
from tiburon.trace.regions import where_needed

LAWS = ("coulomb", "convex")
"""Laws of friction: Coulomb's, and the convex one of other engines (docs/contact.md)."""

OWN_STATES = (
    "residual",
    "iterations",
    "worst",
    "largest_residual",
    "largest_at",
    "largest_depth",
    "deepest_at",
    "deepest_time",
)
"""Discrete states beside those of the points."""


@record
class RigidContactElement(ContactElement):
    """Shapes that cannot penetrate each other, with Coulomb friction and restitution.

    Its discrete states are those of each contact point at the end of the last step: the mean force
    over the step on the first body, world axes [N], and whether the point sticks; then the residual
    of the impulses, the number of iterations that found them, the number of the point with the
    largest residual, and the largest residual so far with its point; the deepest penetration at the
    start of a step so far [m] with its point and time [s]; then the peak force of each point.
    """

    ends_steps: ClassVar[bool] = True

    law: str = field(default="coulomb", kw_only=True)
    """The law of friction, one of `LAWS`."""

    tolerance: float = field(default=TOLERANCE, kw_only=True)
    """Residual of the impulses at which solvers end, relative to the largest impulse."""

    def own_state_names(self) -> tuple[str, ...]:
        """Return the names of residual, iterations and worst point, and of the worst so far."""
        return tuple([f"{self.name}.{part}" for part in OWN_STATES])

    def parameters(self) -> tuple[float, ...]:
        """Return dimensions and materials of all candidates, then the tolerance."""
        return (*ContactElement.parameters(self), self.tolerance)

    def structure(self) -> Hashable:
        """Return the pairs of shapes, and the law."""
        return (ContactElement.structure(self), self.law)

    def act(self, now: ElementContext) -> Action:
        """Return no force: contacts act at the end of each step."""
        return Action()

    def update_discrete_state(self, now: ElementContext) -> Scalars:
        """Return the states that `finish_step` has given already."""
        return now.z

    def approach(
        self,
        plans: tuple[Plan, Plan],
        start: Scalars,
        end: Scalars,
        v: Scalars,
        h: Scalar,
        p: Scalars,
        free: Scalars | None = None,
    ) -> tuple[list[Scalar], list[PointRows]]:
        """Return gaps at the start of a step, and contact points at its end: `swept_rows`.

        Given the configuration `free` at the end without contact, points are those that may act.
        """
        if free is not None:
            found = active_points(plans[1], start, end, free, v, h, self.candidates, p)
            return found.gaps, found
        return swept_rows(plans, start, end, v, h, self.candidates, p)

    def finish_step(
        self,
        gaps: Scalars,
        points: Sequence[PointRows],
        compliance: Compliance,
        z: Scalars,
        p: Scalars,
        v: Scalars,
        v_free: Scalars,
        h: Scalar,
        tolerance: Scalar,
        time: Scalar,
        bounds: Sequence[BoundRow] = (),
    ) -> tuple[RigidStep, tuple[Scalar, ...]]:
        """Return what contacts make of a step, and the states after it; see `rigid_step`.

        The step begins at `time` [s].
        """
        width = len(POINT_STATES)
        active = isinstance(points, ActivePoints)
        states = [
            PointState(tuple(z[width * k : width * k + 3]), z[width * k + 3])
            for k in range(len(gaps))
        ]
        geometry = [point.geometry for point in points]
        surfaces = [] if active else surfaces_of(self.candidates, p, geometry)
        found = rigid_step(
            gaps,
            points,
            compliance,
            surfaces,
            states,
            v,
            v_free,
            h,
            tolerance,
            convex=self.law == "convex",
            bounds=bounds,
        )
        after = [y for state in found.states for y in (*state.force, state.sticking)]
        if isinstance(points, ActivePoints):
            before = z[self.own_states.stop :]
            own_peaks = picked_rows(points.places, before, 1)
            squares = [_square(force) for force in found.forces]
            raised = [(np.maximum(a, b),) for (a,), b in zip(own_peaks, squares, strict=True)]
            peaks = tuple(spread_rows(points.places, raised, before))
        else:
            peaks = self.raised_peaks(z, [_square(state.force) for state in found.states])
        *_, largest, place, depth, deepest, when = z[self.own_states]
        larger = found.residual > largest
        own = (found.residual, found.sweeps, found.worst)
        largest, place = (np.where(larger, a, b) for a, b in ((own[0], largest), (own[2], place)))
        least = functools.reduce(np.minimum, gaps)
        depths = where_needed(
            -least > depth, lambda: (-least, _place(gaps, least), time), (depth, deepest, when)
        )
        return found, (*after, *own, largest, place, *depths, *peaks)

    def states_apart(self, z: Scalars) -> Scalars:
        """Return the states after a step in which nothing came near anything else."""
        points = len(POINT_STATES) * len(self.point_names)
        return (*(0.0,) * (points + 3), *z[points + 3 :])


def _place(values: Scalars, value: Scalar) -> Scalar:
    """Return the number of the first of the values that is a given one."""
    found: Scalar = 0.0
    for place in reversed(range(len(values))):
        found = np.where(values[place] <= value, float(place), found)
    return found


def _square(a: Scalars) -> Scalar:
    """Return the squared length of a vector."""
    x, y, z = a
    return x * x + y * y + z * z
