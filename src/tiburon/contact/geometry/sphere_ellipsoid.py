"""Contact of a sphere with an ellipsoid."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.ellipsoid_ellipsoid import (
    ellipsoid_support,
    smooth_contact,
    sphere_support,
)

__all__ = ["sphere_ellipsoid"]


def sphere_ellipsoid(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points; see `ellipsoid_ellipsoid`."""
    sphere = sphere_support(first.size[0])
    return (smooth_contact(first.position, sphere, second.position, ellipsoid_support(second)),)
