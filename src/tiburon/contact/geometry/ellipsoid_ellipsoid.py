"""Contact of two ellipsoids."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.support import ellipsoid_parts, support_contact


def ellipsoid_ellipsoid(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    parts = ellipsoid_parts(first), ellipsoid_parts(second)
    return (support_contact(first.position, parts[0], second.position, parts[1]),)
