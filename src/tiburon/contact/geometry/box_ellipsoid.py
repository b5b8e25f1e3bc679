"""Contact of a box with an ellipsoid."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.support import box_parts, ellipsoid_parts, support_contact


def box_ellipsoid(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    parts = box_parts(first), ellipsoid_parts(second)
    return (support_contact(first.position, parts[0], second.position, parts[1]),)
