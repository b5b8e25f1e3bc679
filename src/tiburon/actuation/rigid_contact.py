"""Rigid contact as an element: the contact points of a robot and what they carry between steps."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement, PointForces
from tiburon.actuation.element import Action, ElementContext
from tiburon.contact.active import ActivePoints, active_points, chooses
from tiburon.contact.candidates import surfaces_of
from tiburon.contact.mode_forces import HeldContacts
from tiburon.contact.rigid import (
    TOLERANCE,
    ActingForces,
    BoundRow,
    Compliance,
    PointState,
    RigidStep,
    rigid_step,
)
from tiburon.contact.rows import PointRows, contact_geometry, may_touch, swept_rows
from tiburon.model import Model, Plan
from tiburon.record import field, record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.active_rows import active_rows, picked_rows, spread_rows
from tiburon.trace.regions import where_needed

LAWS = ("coulomb", "convex")
"""Laws of friction: Coulomb's, and the convex one of other engines (docs/contact.md)."""

OWN_STATES = (
    "residual",
    "iterations",
    "worst",
    "acting",
    "largest_residual",
    "largest_at",
    "largest_depth",
    "deepest_at",
    "deepest_time",
)
"""Discrete states beside those of the points."""

MOMENT_STATES = (
    *(f"moment_at_end_{axis}" for axis in "xyz"),
    *(f"moment_{axis}" for axis in "xyz"),
)
"""Discrete states of a contact point with torsional or rolling friction: its moment on the first
body, world axes, with the directions of the end of the last step, and the mean over the step [N m].
"""

START = -1.0
"""What the state "acting" is before the first step of a run."""

REVISED = -2.0
"""What it is after a step with forces of the last one that are none of this: the step is taken
anew, without them."""


@record
class RigidContactElement(ContactElement):
    """Shapes that cannot penetrate each other, with Coulomb friction and restitution.

    Its discrete states are those of each contact point at the end of the last step: the mean force
    over the step on the first body, world axes [N], and whether the point sticks; then the residual
    of the impulses, the number of iterations that found them, the number of the point with the
    largest residual, whether the forces act within the next step (2 if they did in the last one, -1
    before the first step, -2 if they should not), and the largest residual so far with its point;
    the deepest penetration at the start of a step so far [m] with its point and time [s]; then the
    peak force of each point; last the joint forces that act within the next step, and those with
    the lever arms of the end of the last one [N or N m], of joints that turn in world axes; the
    force of each point with the directions of the end of the last step [N]; and `MOMENT_STATES` of
    the points whose surfaces may have torsional or rolling friction.
    """

    ends_steps: ClassVar[bool] = True

    law: str = field(default="coulomb", kw_only=True)
    """The law of friction, one of `LAWS`."""

    tolerance: float = field(default=TOLERANCE, kw_only=True)
    """Residual of the impulses at which solvers end, relative to the largest impulse."""

    def own_state_names(self) -> tuple[str, ...]:
        """Return the names of residual, iterations and worst point, and of the worst so far."""
        return tuple([f"{self.name}.{part}" for part in OWN_STATES])

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the states of contacts, and of the joint forces that they exert."""
        joints = [
            f"{self.name}.{kind}_along_{name}"
            for kind in ("force", "force_at_end")
            for name in model.v_names
        ]
        points = [f"{name}.force_at_end_{axis}" for name in self.point_names for axis in "xyz"]
        names = self.point_names
        moments = [f"{names[k]}.{part}" for k in self.turning_points for part in MOMENT_STATES]
        return (*ContactElement.discrete_state_names(self, model), *joints, *points, *moments)

    @property
    def turning_points(self) -> tuple[int, ...]:
        """Numbers of the points whose surfaces may have torsional or rolling friction."""
        return self._known.turning_points

    @property
    def moment_places(self) -> dict[int, int]:
        """Place of the mean moment of each of these points, from the end of the states."""
        width, first = len(MOMENT_STATES), MOMENT_STATES.index("moment_x")
        points = self.turning_points
        return {k: first + width * (place - len(points)) for place, k in enumerate(points)}

    @property
    def _ends(self) -> int:
        """Number of the states of the ends of steps, which come last."""
        return 3 * len(self.point_names) + len(MOMENT_STATES) * len(self.turning_points)

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return no force; points that touch without slip at the start stick."""
        found = list(ContactElement.initial_discrete_state(self, model))
        found[self._act] = START
        return (*found, *(0.0,) * (2 * model.nv + self._ends))

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

    def carried_forces(self, z: Scalars) -> Scalars:
        """Return the joint forces of all contacts in the last step."""
        return self.acting(z)[1]

    def point_forces(
        self, plan: Plan, q: Scalars, z: Scalars, p: Scalars, held: Callable[[], HeldContacts]
    ) -> PointForces:
        """Return what acts at all points; see `ContactElement.point_forces`."""
        own, states = self.own_parameters(p)[0], self.point_states(z)
        geometries, _ = contact_geometry(plan, q, self.candidates, own)
        moments = {k: states[k].moment for k in self.turning_points}
        return PointForces(geometries, [state.force for state in states], moments)

    def own_parameters(self, p: Scalars) -> tuple[Scalars, Scalar]:
        """Return the parameters of candidates with table handles, and the tolerance."""
        count = len(self._known.numbers)
        return (*p[:count], *p[count + 1 :]), p[count]

    def may_touch(self, plans: tuple[Plan, Plan], start: Scalars, end: Scalars, p: Scalars) -> Any:
        """Return whether anything may touch in a step; see `contact.rows.may_touch`.

        Args:
            plans: Layout of the model at the start and at the end of the step.
            start: Position at the start [m or rad].
            end: Position at the end.
            p: Its run-time parameters.
        """
        return may_touch(plans, start, (end,), self.candidates, p)

    def chooses_points(self, plan: Plan, *, few: bool) -> bool:
        """Return whether contact of a step is that of the points that come near.

        Prescribed motion of joints that a model has needs the rows of all points. `few` states
        whether points of few bodies are chosen, too.
        """
        return not plan.depends_on_time and chooses(plan, self.candidates, few=few)

    def approach(
        self,
        plans: tuple[Plan, Plan],
        start: Scalars,
        end: Scalars,
        v: tuple[Scalars, Scalars],
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
        v_start: Scalars,
        h: Scalar,
        tolerance: Scalar,
        time: Scalar,
        bounds: Sequence[BoundRow] = (),
        acting: ActingForces | None = None,
    ) -> tuple[RigidStep, tuple[Scalar, ...], tuple[Scalar, ...]]:
        """Return what contacts make of a step, and the states after it; see `rigid_step`.

        The step begins at `time` [s]. The states are those before joint forces, and those after
        them.
        """
        active, states = isinstance(points, ActivePoints), self.point_states(z)
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
            v_start,
            h,
            tolerance,
            convex=self.law == "convex",
            bounds=bounds,
            acting=acting,
        )
        after = [y for state in found.states for y in (*state.mean, state.sticking)]
        at_end = [x for state in found.states for x in state.force]
        for k in self.turning_points:
            state = found.states[k]
            at_end += [*state.moment, *state.mean_moment]
        if isinstance(points, ActivePoints):
            before = z[self.peak_states]
            own_peaks = picked_rows(points.places, before, 1)
            squares = [_square(force) for force in found.forces]
            raised = [(np.maximum(a, b),) for (a,), b in zip(own_peaks, squares, strict=True)]
            peaks = tuple(spread_rows(points.places, raised, before))
            least = points.least
        else:
            least = functools.reduce(np.minimum, gaps)
            peaks = self.raised_peaks(z, [_square(state.mean) for state in found.states])
        *_, largest, place, depth, deepest, when = z[self.own_states]
        larger = found.residual > largest
        own = (found.residual, found.sweeps, found.worst)
        acted = z[self._act] > 0.5
        acts = np.where(found.lasts, np.where(acted, 2.0, 1.0), 0.0)
        acts = np.where(acted & found.differs, REVISED, acts)
        largest, place = (np.where(larger, a, b) for a, b in ((own[0], largest), (own[2], place)))
        depths = where_needed(
            -least > depth,
            lambda: (-least, _place(gaps, least, chosen=active), time),
            (depth, deepest, when),
        )
        return found, (*after, *own, acts, largest, place, *depths, *peaks), tuple(at_end)

    def point_states(self, z: Scalars) -> list[PointState]:
        """Return what each contact point carries from the last step."""
        width, count = len(POINT_STATES), len(self.point_names)
        at_end = z[len(z) - self._ends :]
        found = [
            PointState(tuple(at_end[3 * k : 3 * k + 3]), z[width * k + 3]) for k in range(count)
        ]
        for place, k in enumerate(self.turning_points):
            own = at_end[3 * count + len(MOMENT_STATES) * place :][: len(MOMENT_STATES)]
            found[k] = found[k]._replace(moment=tuple(own[:3]))
        return found

    @property
    def peak_states(self) -> slice:
        """Place of the peaks among its discrete states; forces of joints and of ends follow."""
        start = self.own_states.stop
        return slice(start, start + len(self.point_names))

    def acting(self, z: Scalars) -> tuple[Scalar, Scalars, Scalars]:
        """Return whether forces of the last step act within this one, and those of joints.

        Those that act come first, then those with the lever arms of the end of the last step.
        """
        forces = z[self.peak_states.stop : len(z) - self._ends]
        half = len(forces) // 2
        return z[self._act], forces[:half], forces[half:]

    @property
    def _act(self) -> int:
        """Place of the state that tells whether forces act within the next step."""
        return int(self.own_states.start) + OWN_STATES.index("acting")

    def revised_states(self, z: Scalars, trial: Scalars) -> tuple[Any, Scalars]:
        """Return whether a step is taken anew, and the states with which it then begins.

        The first step of a run has its own forces; only joint forces then act, since the lever arms
        of the trial are not those of the step. Where those of the last step are none of this one,
        none act.

        Args:
            z: Discrete states at the start of a step.
            trial: Those after it.
        """
        joints = self.peak_states.stop
        begins = (z[self._act] < 0.5 * START) & (trial[self._act] > 0.5)
        differs = trial[self._act] < 0.5 * (START + REVISED)
        ends = len(z) - self._ends
        forces = self.acting(trial)[1]
        still = (0.0,) * len(forces)
        # many points have thousands of states, which loops copy
        acting: tuple[Scalars, Scalars] = where_needed(
            differs, lambda: (still, tuple(z[ends:])), (tuple(forces), tuple(trial[ends:]))
        )
        revised = (*z[: self._act], 0.0, *z[self._act + 1 : joints], *acting[0], *still, *acting[1])
        return begins | differs, revised

    def mean_forces(self, z: Scalars) -> Scalars:
        """Return mean forces of all points over a step, and moments, from the states after it."""
        return tuple(z[k] for k in self._mean_places(len(z)))

    def with_mean_forces(self, z: Scalars, means: Scalars, before: Scalars) -> Scalars:
        """Return states after a step in parts, with the means over all of it, and their peaks.

        Args:
            z: States after the last part.
            means: The means, in the order of `mean_forces`.
            before: States at the start of the step.
        """
        found = list(z)
        for k, mean in zip(self._mean_places(len(z)), means, strict=True):
            found[k] = mean
        squares = [_square(means[k : k + 3]) for k in range(0, 3 * len(self.point_names), 3)]
        found[self.peak_states] = self.raised_peaks(before, squares)
        return tuple(found)

    def _mean_places(self, count: int) -> list[int]:
        """Places of these means among the states."""
        starts = [len(POINT_STATES) * k for k in range(len(self.point_names))]
        starts += [count + place for place in self.moment_places.values()]
        return [start + axis for start in starts for axis in range(3)]

    def at_rest(self, z: Scalars) -> Scalars:
        """Return the states with forces that do not act within the next step."""
        act = self._act
        joints, points = self.peak_states.stop, len(z) - self._ends
        return (*z[:act], 0.0, *z[act + 1 : joints], *(0.0,) * (points - joints), *z[points:])

    def states_apart(self, z: Scalars) -> Scalars:
        """Return the states after a step in which nothing came near anything else."""
        ends = self._act + 1
        joints = self.peak_states.stop
        return (*(0.0,) * ends, *z[ends:joints], *(0.0,) * len(z[joints:]))


def _place(values: Scalars, value: Scalar, *, chosen: bool) -> Scalar:
    """Return the number of the first of the values that is a given one, the least.

    Where points are chosen among many, by a loop.
    """
    if chosen:
        return active_rows(values, value, value, 1)[0][0]
    found: Scalar = 0.0
    for place in reversed(range(len(values))):
        found = np.where(values[place] <= value, float(place), found)
    return found


def _square(a: Scalars) -> Scalar:
    """Return the squared length of a vector."""
    x, y, z = a
    return x * x + y * y + z * z
