"""Rigid contact as an element: the contact points of a robot and what they carry between steps."""

from collections.abc import Hashable, Sequence

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.contact.candidates import Candidate, candidates_of, surfaces_of
from tiburon.contact.rigid import (
    Compliance,
    PointState,
    RigidStep,
    rigid_step,
)
from tiburon.contact.rows import PointRows, contact_geometry, contact_rows
from tiburon.errors import ModelError, OptionError
from tiburon.model import Model, Plan, World
from tiburon.record import record
from tiburon.spatial import Scalar

__all__ = ["CONTACTS", "RigidContact", "contact_elements"]

CONTACTS = ("rigid", False)
"""Models of contact; None chooses by the ground."""

POINT_STATES = ("force_x", "force_y", "force_z", "sticking")
"""States of a contact point, in the order of `PointState`."""


@record
class RigidContact(Element):
    """Shapes that cannot penetrate each other, with Coulomb friction and restitution.

    Its discrete states are those of each contact point at the end of the last step: the mean force
    over the step on the first body, world axes [N], and whether the point sticks; then the residual
    of the impulses.
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
    ) -> "RigidContact | None":
        """Return the contacts of a robot with its world; None if nothing can touch."""
        found = candidates_of(model, world, pairs)
        return cls(name, found) if found else None

    @property
    def point_names(self) -> tuple[str, ...]:
        """Names of all contact points."""
        return tuple(name for candidate in self.candidates for name in candidate.point_names)

    def discrete_state_names(self, model: Model) -> tuple[str, ...]:
        """Return the names of the states of all contact points, and of the residual."""
        points = (f"{point}.{part}" for point in self.point_names for part in POINT_STATES)
        return (*points, f"{self.name}.residual")

    def initial_discrete_state(self, model: Model) -> tuple[float, ...]:
        """Return no force; points that touch without slip at the start stick."""
        return (*(0.0, 0.0, 0.0, 1.0) * len(self.point_names), 0.0)

    def parameters(self) -> tuple[float, ...]:
        """Return dimensions and materials of all candidates."""
        return tuple(x for candidate in self.candidates for x in candidate.parameters())

    def structure(self) -> Hashable:
        """Return the pairs of shapes without dimensions and materials."""
        return tuple(candidate.form() for candidate in self.candidates)

    def act(self, now: ElementContext) -> Action:
        """Return no force: contacts act at the end of each step."""
        return Action()

    def update_discrete_state(self, now: ElementContext) -> Sequence[Scalar]:
        """Return the states that `finish_step` has given already."""
        return now.z

    def rows(self, plan: Plan, q: Sequence[Scalar], p: Sequence[Scalar]) -> list[PointRows]:
        """Return all contact points in a configuration."""
        return contact_rows(plan, q, self.candidates, p)

    def gaps(self, plan: Plan, q: Sequence[Scalar], p: Sequence[Scalar]) -> list[Scalar]:
        """Return the gaps of all contact points in a configuration [m]."""
        return [geometry.gap for geometry in contact_geometry(plan, q, self.candidates, p)[0]]

    def finish_step(
        self,
        gaps: Sequence[Scalar],
        points: Sequence[PointRows],
        compliance: Compliance,
        z: Sequence[Scalar],
        p: Sequence[Scalar],
        v: Sequence[Scalar],
        v_free: Sequence[Scalar],
        h: Scalar,
    ) -> tuple[RigidStep, tuple[Scalar, ...]]:
        """Return what contacts make of a step, and the states after it; see `rigid_step`."""
        width = len(POINT_STATES)
        states = [
            PointState(tuple(z[width * k : width * k + 3]), z[width * k + 3])
            for k in range(len(points))
        ]
        found = rigid_step(
            gaps, points, compliance, surfaces_of(self.candidates, p), states, v, v_free, h
        )
        after = [y for state in found.states for y in (*state.force, state.sticking)]
        return found, (*after, found.residual)


def contact_elements(
    model: Model,
    world: World,
    contact: str | bool | None,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> tuple[Element, ...]:
    """Return the contacts of a robot with its world as elements.

    Args:
        model: The robot.
        world: Its surroundings.
        contact: "rigid", False for none, or None: rigid where there is ground and something of the
            robot can touch it, or where pairs are named.
        pairs: Names of two bodies each that may touch, "world" for the ground.

    Raises:
        OptionError: If there is no such model of contact.
        ModelError: If nothing can touch where contact is asked for.
    """
    if not (
        contact is None or contact is False or (isinstance(contact, str) and contact == "rigid")
    ):
        raise OptionError("contact", CONTACTS, contact)
    if contact is False:
        if pairs is not None:
            raise ModelError("contact_pairs: expected contact='rigid' with pairs, got False")
        return ()
    if contact is None and world.ground is None and pairs is None:
        return ()
    ground = world.ground
    if contact is None and ground is not None and ground.normal_stiffness:
        raise ModelError(
            "ground: compliant contact is not available, got normal_stiffness "
            f"{ground.normal_stiffness:g} N/m; pass contact='rigid', or contact=False for none"
        )
    found = RigidContact.of(model, world, pairs)
    if found is None and contact is not None:
        raise ModelError(
            f"model {model.name!r}: contact='rigid' needs shapes that may touch, got none; give "
            "the world a Ground, and the robot contact points or collision shapes"
        )
    return () if found is None else (found,)
