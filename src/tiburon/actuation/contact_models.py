"""How bodies touch in a run, by one object each: `simulate(contact=)`.

A model of contact answers one question: which element has the contacts of a robot with its world.
`DefaultContact` chooses among them; None stands for no contact at all.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tiburon.actuation.compliant_contact import CompliantContactElement
from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.element import Element
from tiburon.actuation.exact_contact import ExactContactElement
from tiburon.actuation.rigid_contact import LAWS, RigidContactElement
from tiburon.argument_checks import is_number
from tiburon.arguments import caller_level, public
from tiburon.contact.active import leaves_out_turning
from tiburon.contact.candidates import acts_by_default, kept, refuse_meshes, refuse_turning
from tiburon.contact.compliant import ContactLaw
from tiburon.contact.rigid import TOLERANCE
from tiburon.errors import DomainError, ModelError, ModelWarning, OptionError, shown
from tiburon.model import Model, World
from tiburon.record import field, record
from tiburon.trace.primitives.friction_newton import MOST_COLUMNS

LEAST_TOLERANCE, MOST_TOLERANCE = 1e-13, 1e-3
"""Tolerances of contact impulses: rounding limits them, and with coarser ones contacts slide."""

Pairs = Sequence[tuple[str, str]]
"""Names of two bodies each that may touch, "world" for the ground."""


@public
class ContactModel:
    """How bodies touch; derived classes return the element that has the contacts of a robot."""

    __slots__ = ()

    is_event_driven: ClassVar[bool] = False
    """Whether changes of contact are located within steps."""

    pairs: Pairs | None
    """Pairs of bodies whose shapes may touch; None for those of robot and world."""

    def __post_init__(self) -> None:
        """Keep pairs as a tuple; whether they are pairs of bodies is checked with the robot."""
        if isinstance(self.pairs, (list, tuple)):
            pairs = (tuple(x) if isinstance(x, list) else x for x in self.pairs)
            object.__setattr__(self, "pairs", tuple(pairs))

    def element(self, model: Model, world: World) -> Element | None:
        """Return the contacts of a robot with its world; None if nothing can touch."""
        raise ModelError(
            f"{type(self).__name__}: expected contacts of its own, got none; write "
            "def element(self, model, world): ..., which returns an element, or None if nothing "
            "can touch"
        )

    def elements(self, model: Model, world: World) -> tuple[Element, ...]:
        """Return the contacts of a robot with its world as elements of a run.

        Raises:
            ModelError: If nothing can touch.
        """
        found = self.element(model, world)
        if found is None:
            raise ModelError(
                f"model {model.name!r}: contact={type(self).__name__}(...) needs shapes that may "
                "touch, got none; give the world a Ground, and the robot contact points or "
                "collision shapes"
            )
        return (found,)


@public
@record
class RigidContact(ContactModel):
    """Contact without penetration: impulses with friction and restitution at the end of each step.

    Example:
        ``tb.simulate(dog, 1.0, world=floor, contact=tb.RigidContact(tolerance=1e-10))``
    """

    tolerance: float = field(default=TOLERANCE, kw_only=True)
    """Residual at which impulses are accepted, relative to the largest impulse of the step; from
    1e-13 to 1e-3."""

    pairs: Pairs | None = field(default=None, kw_only=True)
    """Pairs of bodies whose collision shapes may touch, "world" for the ground; by default the
    contact points of the robot, or the collision shapes of a tree without any, and the ground,
    collision shapes of different trees, and pairs of the robot."""

    law: str = field(default=LAWS[0], kw_only=True)
    """"coulomb", or "convex", under which sliding points lift off (docs/contact.md)."""

    def __post_init__(self) -> None:
        ContactModel.__post_init__(self)
        given: Any = self.tolerance
        number = float(given) if is_number(given) else math.nan
        if not LEAST_TOLERANCE <= number <= MOST_TOLERANCE:
            raise DomainError(
                "RigidContact: tolerance",
                f"a value from {LEAST_TOLERANCE:g} to {MOST_TOLERANCE:g}",
                shown(self.tolerance),
                advice="write tb.RigidContact() for 1e-8 of the largest impulse",
            )
        object.__setattr__(self, "tolerance", number)
        if self.law not in LAWS:
            raise OptionError("RigidContact: law", LAWS, self.law)

    def element(self, model: Model, world: World) -> Element | None:
        """Return the contacts; see `ContactModel.element`."""
        found = RigidContactElement.of(model, world, self.pairs)
        if found is not None and self.law == "convex" and model.nv > MOST_COLUMNS:
            raise ModelError(
                f"RigidContact: law 'convex' is solved for up to {MOST_COLUMNS} velocities, got "
                f"{model.nv} of model {model.name!r}; write tb.RigidContact()"
            )
        if found is None:
            return None
        if self.law == "convex":
            refuse_turning(found.candidates, "RigidContact(law='convex')")
        if leaves_out_turning(model.plan, found.candidates):
            named = next(one.name for one in found.candidates if any(one.turning))
            warnings.warn(
                f"model {model.name!r}: torsional and rolling friction were left out, of contact "
                f"{named!r} first: too many points of a robot with {model.nv} velocities may "
                "touch; name the pairs of bodies that matter by pairs=",
                ModelWarning,
                stacklevel=caller_level(),
            )
            candidates = (replace(one, resists_turning=False) for one in found.candidates)
            found = replace(found, candidates=kept(tuple(candidates)))
        return replace(found, law=self.law, tolerance=self.tolerance)


@public
@record
class CompliantContact(ContactModel):
    """Contact by forces of springs, dampers and friction where shapes penetrate each other.

    Example:
        ``tb.simulate(dog, 1.0, world=soft_floor, contact=tb.CompliantContact())``
    """

    pairs: Pairs | None = field(default=None, kw_only=True)
    """As of `RigidContact`."""

    law: ContactLaw | None = field(default=None, kw_only=True)
    """A function of a `Touch` that returns the normal force [N], or the normal force and the
    tangential force on the first body; spring and damper of the materials by default."""

    def __post_init__(self) -> None:
        ContactModel.__post_init__(self)
        if not (self.law is None or callable(self.law)):
            raise OptionError("CompliantContact: law", ("a function", None), self.law)

    def element(self, model: Model, world: World) -> Element | None:
        """Return the contacts; see `ContactModel.element`."""
        found = CompliantContactElement.of(model, world, self.pairs)
        _refuse(self, found)
        return None if found is None else replace(found, law=self.law)


@public
@record
class ExactContact(ContactModel):
    """Rigid contact whose changes are located as events between adaptive steps.

    Example:
        ``tb.simulate(ball, 1.0, world=floor, contact=tb.ExactContact())``
    """

    is_event_driven: ClassVar[bool] = True

    pairs: Pairs | None = field(default=None, kw_only=True)
    """As of `RigidContact`."""

    def element(self, model: Model, world: World) -> Element | None:
        """Return the contacts; see `ContactModel.element`."""
        found = ExactContactElement.of(model, world, self.pairs)
        _refuse(self, found)
        return found


@public
@record
class DefaultContact(ContactModel):
    """Contact as ground and robot have it: compliant if the ground has a stiffness, else rigid.

    There is none where the world has no ground, and neither `pairs` nor the robot name bodies that
    touch (`Model(contact_pairs=...)`).

    Example:
        ``tb.simulate(hand, 1.0, contact=tb.DefaultContact(pairs=[("thumb", "cup")]))``
    """

    pairs: Pairs | None = field(default=None, kw_only=True)
    """As of `RigidContact`."""

    def chosen(self, model: Model, world: World) -> ContactModel | None:
        """Return the model of contact that acts; None for none."""
        if not acts_by_default(model, world, self.pairs):
            return None
        soft = world.ground is not None and world.ground.normal_stiffness > 0.0
        return (CompliantContact if soft else RigidContact)(pairs=self.pairs)

    def element(self, model: Model, world: World) -> Element | None:
        """Return the contacts; see `ContactModel.element`."""
        chosen = self.chosen(model, world)
        return None if chosen is None else chosen.element(model, world)

    def elements(self, model: Model, world: World) -> tuple[Element, ...]:
        """Return the contacts of a robot with its world, none if nothing can touch."""
        found = self.element(model, world)
        return () if found is None else (found,)


DEFAULT_CONTACT = DefaultContact()
"""Contact of runs whose caller says nothing about it."""

_WORDS = {
    "rigid": "tb.RigidContact()",
    "compliant": "tb.CompliantContact()",
    "exact": "tb.ExactContact()",
    "none": "None",
}


def checked_contact(contact: Any) -> ContactModel | None:
    """Return a model of contact, None for no contact.

    Raises:
        ModelError: If it is something else; the message has the object to write.
    """
    if contact is None or isinstance(contact, ContactModel):
        return contact
    write = "None" if contact is False else "tb.RigidContact(), tb.CompliantContact() or None"
    if isinstance(contact, str):
        write = _WORDS.get(contact, write)
    if isinstance(contact, type) and issubclass(contact, ContactModel):
        write = f"tb.{contact.__name__}()"
    one = "one model" if isinstance(contact, (list, tuple)) else "a model"
    raise ModelError(
        f"contact: expected {one} of contact, got {shown(contact)}; write contact={write}"
    )


def contact_elements(model: Model, world: World, contact: Any) -> tuple[Element, ...]:
    """Return the contacts of a robot with its world as elements.

    Args:
        model: The robot.
        world: Its surroundings.
        contact: A model of contact, or None for no contact.

    Raises:
        ModelError: If it is something else, or if nothing can touch where contact is requested.
    """
    checked = checked_contact(contact)
    return () if checked is None else checked.elements(model, world)


def _refuse(contact: ContactModel, found: ContactElement | None) -> None:
    """Refuse meshes, whose contacts are located between steps, and friction against turning."""
    if found is not None:
        what = f"contact={type(contact).__name__}(...)"
        refuse_meshes(found.candidates, what, hulls=True)
        refuse_turning(found.candidates, what)
