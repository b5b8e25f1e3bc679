"""Contact of a cylinder with an ellipsoid."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.support import cylinder_parts, ellipsoid_parts, support_contact


def cylinder_ellipsoid(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    parts = cylinder_parts(first), ellipsoid_parts(second)
    return (support_contact(first.position, parts[0], second.position, parts[1]),)
