"""What contact elements have in common: the shapes that may touch, and the states of each point."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from tiburon.actuation.element import Element
from tiburon.contact.candidates import (
    Candidate,
    Candidates,
    candidates_of,
    kept,
    restored,
    tables_of,
)
from tiburon.contact.geometry.contact_geometry import ContactGeometry
from tiburon.contact.mode_forces import HeldContacts
from tiburon.model import Ground, Model, Plan, World
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars, Vec3
from tiburon.trace.primitives.table_rows import Table

POINT_STATES = ("force_x", "force_y", "force_z", "sticking")
"""Discrete states of a contact point: force on the first body, world axes [N]; 1 if it sticks."""

PEAK_FORCE = "peak_force_squared"
"""Discrete state of a contact point: square of its largest force in any step so far [N^2]."""


class PointForces(NamedTuple):
    """What acts at the contact points of a robot."""

    geometries: Sequence[ContactGeometry]
    """Where they are."""

    forces: Sequence[Vec3]
    """Forces on first bodies, world axes [N]."""

    moments: Mapping[int, Vec3] = MappingProxyType({})
    """Moments on these about the points, of those with friction against turning [N m]."""


@record
class ContactElement(Element):
    """Contact of a robot with its world, by any model of contact.

    Its discrete states are those of each contact point at the end of the last step, in the order of
    `POINT_STATES`; then come further states of a model of contact, and the peaks of each point,
    which every step raises, recorded or not.
    """

    name: str
    """Unique among the elements of a run."""

    candidates: tuple[Candidate, ...]
    """The shapes that may touch."""

    @classmethod
    def of(
        cls,
        model: Model,
        world: World,
        pairs: Sequence[tuple[str, str]] | None = None,
        name: str = "contact",
    ) -> Self | None:
        """Return the contacts of a robot with its world; None if nothing can touch."""
        found = candidates_of(model, world, pairs)
        return cls(name, found) if found else None

    def on(self, ground: Ground | None) -> Self:
        """Return the same contacts on another ground, where it is uneven; with their tables."""
        return replace(self, candidates=restored(self.candidates, ground))

    @property
    def is_declared(self) -> bool:
        """Whether it holds no user code."""
        return True

    @property
    def is_located(self) -> bool:  # type: ignore[override]
        """Whether meshes are among the shapes."""
        return any(candidate.is_located for candidate in self.candidates)

    def point_forces(
        self, plan: Plan, q: Scalars, z: Scalars, p: Scalars, held: Callable[[], HeldContacts]
    ) -> PointForces | None:
        """Return what acts at points; None if `act` exerts it.

        Args:
            plan: Layout of the robot in this state.
            q: Configuration [m or rad].
            z: Its discrete states.
            p: Its run-time parameters, then the handles of its tables.
            held: Returns what it constrains, where it is event-driven; see `Element.held_contacts`.
        """
        return None

    @property
    def _known(self) -> Candidates:
        return kept(self.candidates)

    @property
    def point_names(self) -> tuple[str, ...]:
        """Names of all contact points."""
        return self._known.point_names

    @property
    def moment_places(self) -> dict[int, int]:
        """Place of the mean moment of each point that has one, from the end of the states."""
        return {}

    def own_state_names(self) -> tuple[str, ...]:
        """Return the names of the discrete states beside those of the points."""
        return ()

    def peak_names(self) -> tuple[str, ...]:
        """Return what is largest so far of each point: the square of its force [N^2]."""
        return (PEAK_FORCE,)

    @property
    def own_states(self) -> slice:
        """Place of its own states among its discrete states."""
        start = len(POINT_STATES) * len(self.point_names)
        return slice(start, start + len(self.own_state_names()))

    def raised_peaks(self, z: Scalars, now: Scalars) -> tuple[Scalar, ...]:
        """Return the peaks of all points after a step.

        Args:
            z: Discrete states of the element before.
            now: Values of the step, point by point in the order of `peak_names`.
        """
        before = z[self.own_states.stop :][: len(now)]
        # one comparison: non-finite forces end a run elsewhere
        return tuple(np.where(a < b, b, a) for a, b in zip(before, now, strict=True))

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the states of all contact points, of its own, and of peaks."""
        names = self.point_names
        points = [f"{point}.{part}" for point in names for part in POINT_STATES]
        peaks = [f"{point}.{part}" for point in names for part in self.peak_names()]
        return (*points, *self.own_state_names(), *peaks)

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return no force; points that touch without slip at the start stick."""
        count = len(self.point_names)
        peaks = (0.0,) * (count * len(self.peak_names()))
        return (*(0.0, 0.0, 0.0, 1.0) * count, *((0.0,) * len(self.own_state_names())), *peaks)

    def parameters(self) -> tuple[float, ...]:
        """Return dimensions and materials of all candidates."""
        return self._known.numbers

    def tables(self) -> tuple[Table, ...]:
        """Return heights of uneven ground and vertices, whose handles follow the parameters."""
        return tables_of(self.candidates)

    def structure(self) -> Hashable:
        """Return the pairs of shapes without dimensions and materials."""
        return self._known.form
