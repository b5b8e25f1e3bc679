"""Contact of a sphere with a plane."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, axis, face_contact


def sphere_plane(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the sphere's deepest point."""
    return (face_contact(first.position, first.size[0], second.position, axis(second, 2)),)
