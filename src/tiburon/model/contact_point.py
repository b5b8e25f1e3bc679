"""Where a robot may touch the ground."""

from tiburon.model.numbers import Vec3, check_name, number, vec3
from tiburon.record import record


@record
class ContactPoint:
    """A point of a body that may touch what surrounds it; immutable, compares by value.

    Numbers only: what happens at contact is said where contact is.
    """

    name: str
    """Unique among the contact points of a model."""

    body: str
    """Name of the body or frame it is fixed to."""

    position: Vec3 = (0.0, 0.0, 0.0)
    """Where it is, in axes of that body or frame [m]."""

    radius: float = 0.0
    """Radius of the ball around it that touches [m]; 0 for a point."""

    def __post_init__(self) -> None:
        check_name(self.name, "contact")
        element = f"contact {self.name!r}"
        check_name(self.body, f"{element}: body")
        object.__setattr__(self, "position", vec3(self.position, element, "position", self.name))
        radius = number(self.radius, element, "radius", self.name, least=0.0)
        object.__setattr__(self, "radius", radius)
