"""Contact sites: contacts given by a point and a normal instead of shapes.

Flat feet, soft fingertips, and contacts whose place is measured or planned. The point and the
normal are run-time data, so that they may move from case to case: a ball that rolls in a hand.

Components of the force on the second body, in this order: two tangents and the normal; for soft
contact the moment about the normal; for flat feet the moments about the tangents and the normal.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tiburon.algorithms.kinematics import WORLD_PLACE, Place, jacobian_columns
from tiburon.algorithms.tape_calls import JointVector
from tiburon.argument_checks import is_number
from tiburon.contact.geometry.contact_geometry import ContactGeometry
from tiburon.contact.geometry.vectors import perpendicular, unit
from tiburon.contact.rows import ContactRow, PointRows
from tiburon.errors import ModelError, shown
from tiburon.model import WORLD, Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.model.value_checks import Vec3 as FloatVec3
from tiburon.model.value_checks import check_name, finite_array, number, unit_vector, vec3
from tiburon.record import record
from tiburon.spatial import Motion, Scalars, Vec3
from tiburon.spatial.vec3 import ZERO3, add, add_matrix_vector, cross, dot, matrix_vector, scale

MAX_FRICTION = 10.0
"""Largest coefficient of friction of a plan.

Rubber on dry rock reaches about 1.5, racing tires and silicone on glass up to 5. Above 10, friction
angles of more than 84 degrees, there is no dry contact; such values are angles in degrees.
"""

SITE_VALUES = 9
"""Run-time values of a site: its point, its normal and the direction of its length."""

Wrenches = list[tuple[int, Vec3, Vec3]]
"""Wrenches on plan bodies: index, moment about the origin of the world [N m] and force [N], world
axes."""


def expected_friction(value: Any) -> str | None:
    """Return what a coefficient of friction of a plan should be, if it is not."""
    if not is_number(value) or not 0.0 <= float(value) < np.inf:
        return "a finite number of at least 0"
    if float(value) <= MAX_FRICTION:
        return None
    angle = float(value)
    meant = f" ({np.tan(np.radians(angle)):.3g} for {angle:g} degrees)" if angle < 85.0 else ""
    return f"a coefficient of at most {MAX_FRICTION:g}, the tangent of the friction angle{meant}"


def friction_field(value: Any, element: str, name: str) -> float:
    """Return the coefficient of friction of a contact, or raise `ModelError`.

    Args:
        value: The coefficient.
        element: What it belongs to, for messages.
        name: Name of the contact.
    """
    expected = expected_friction(value)
    if expected is not None:
        raise ModelError(f"{element}: friction must be {expected}, got {shown(value)}", name=name)
    return float(value)


@record
class ContactSite:
    """A contact with friction at a place of a body, for load sharing.

    Example:
        The sole of a humanoid, 20 cm by 10 cm, whose frame has its z axis up::

            ContactSite("left_sole", "left_foot", 0.7, half_size=(0.1, 0.05), torsion=0.03)
    """

    name: str
    """Unique among contacts and loops."""

    body: str
    """Name of the first body or frame."""

    friction: float
    """Coefficient of static friction."""

    other: str = WORLD
    """Name of the second body or frame; the world by default."""

    point: FloatVec3 = (0.0, 0.0, 0.0)
    """The contact in axes of `body` [m]; the center of a flat foot."""

    normal: FloatVec3 = (0.0, 0.0, -1.0)
    """Unit normal from the first body to the second, in axes of `body`."""

    torsion: float = 0.0
    """Largest moment about the normal per normal force [m]."""

    half_size: tuple[float, float] | None = None
    """Half length and half width of a flat foot, which bound its center of pressure [m]; None for
    contact at a point."""

    along: FloatVec3 = (1.0, 0.0, 0.0)
    """Direction of the length of a flat foot, and of the first tangent, in axes of `body`."""

    def __post_init__(self) -> None:
        check_name(self.name, "contact site")
        element = f"contact site {self.name!r}"
        for quantity in ("body", "other"):
            check_name(getattr(self, quantity), f"{element}: {quantity}")
        if self.body == self.other:
            raise ModelError(
                f"{element}: must lie between two bodies, got {self.body!r} twice", name=self.name
            )
        friction = friction_field(self.friction, element, self.name)
        object.__setattr__(self, "friction", friction)
        torsion = number(self.torsion, element, "torsion", self.name, least=0.0)
        object.__setattr__(self, "torsion", torsion)
        object.__setattr__(self, "point", vec3(self.point, element, "point", self.name))
        for quantity in ("normal", "along"):
            value3 = unit_vector(getattr(self, quantity), element, quantity, self.name)
            object.__setattr__(self, quantity, value3)
        if abs(float(np.dot(self.normal, self.along))) > 1.0 - 1e-9:
            raise ModelError(
                f"{element}: along must not be parallel to the normal, got {shown(self.along)}; "
                "give the direction of the foot's length",
                name=self.name,
            )
        if self.half_size is not None:
            size = finite_array(self.half_size, (2,), element, "half_size", self.name)
            if not (size > 0.0).all():
                raise ModelError(
                    f"{element}: half_size must be two lengths above 0, got "
                    f"{shown(self.half_size)}; leave it out for contact at a point",
                    name=self.name,
                )
            object.__setattr__(self, "half_size", tuple(size.tolist()))

    @property
    def moment_count(self) -> int:
        """Components of its moment: three for a flat foot, one with torsion, else none."""
        if self.half_size is not None:
            return 3
        return 1 if self.torsion else 0

    @property
    def values(self) -> tuple[float, ...]:
        """Point, normal and direction of its length: what may change from case to case."""
        return (*self.point, *self.normal, *self.along)

    def form(self) -> Self:
        """Return a site with neutral run-time values: what code depends on."""
        size = None if self.half_size is None else (1.0, 1.0)
        torsion = 1.0 if self.torsion else 0.0
        return type(self)(self.name, self.body, 0.0, self.other, torsion=torsion, half_size=size)


class SiteRows(NamedTuple):
    """A contact site in one configuration."""

    point: PointRows
    """Point, axes and rows of its force."""

    moments: list[ContactRow]
    """Rows of its moment: relative angular velocity about the axes."""

    wrenches: list[Wrenches]
    """Wrenches of unit components, force first."""


def site_rows(
    plan: Plan, q: Scalars, places: Sequence[Place], site: ContactSite, values: Scalars
) -> SiteRows:
    """Return a contact site in one configuration.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        places: Poses of all plan bodies.
        site: The site.
        values: `SITE_VALUES` run-time values, in the order of `ContactSite.values`.
    """
    first, second = plan.frame(site.body), plan.frame(site.other)
    carrier = WORLD_PLACE if first.body == WORLD_BODY else places[first.body]
    place = carrier.moved(first.transform)
    x, y, z = values[:3]
    point = add_matrix_vector(place.p, place.R, (x, y, z))
    x, y, z = values[3:6]
    n, _ = unit(matrix_vector(place.R, (x, y, z)), (0.0, 0.0, -1.0))
    x, y, z = values[6:9]
    length = matrix_vector(place.R, (x, y, z))
    across = scale(n, -dot(length, n))
    t1, _ = unit(add(length, across), perpendicular(n))
    axes = (t1, cross(n, t1), n)
    columns: dict[int, Motion] = {}
    for body, sign in ((first.body, -1.0), (second.body, 1.0)):
        moved = jacobian_columns(plan, JointVector(q), places, body, point)
        for index, column in moved.items():
            own = Motion(scale(column.angular, sign), scale(column.linear, sign))
            columns[index] = columns[index] + own if index in columns else own
    rows = [{i: dot(axis, column.linear) for i, column in columns.items()} for axis in axes]
    about = {0: (), 1: (n,), 3: axes}[site.moment_count]
    moments = [{i: dot(axis, column.angular) for i, column in columns.items()} for axis in about]
    bodies = (first.body, second.body)
    wrenches = [opposed(bodies, cross(point, axis), axis) for axis in axes]
    wrenches += [opposed(bodies, axis, ZERO3) for axis in about]
    geometry = ContactGeometry(0.0, point, n)
    return SiteRows(PointRows(geometry, axes, (rows[0], rows[1], rows[2])), moments, wrenches)


def opposed(bodies: tuple[int, int], moment: Vec3, force: Vec3) -> Wrenches:
    """Return a wrench on the second of two plan bodies, and its opposite on the first."""
    found: Wrenches = []
    for body, sign in zip(bodies, (-1.0, 1.0), strict=True):
        if body != WORLD_BODY:
            found.append((body, scale(moment, sign), scale(force, sign)))
    return found
