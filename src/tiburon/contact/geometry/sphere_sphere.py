"""Contact of two spheres."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed, rounded_contact
from tiburon.spatial.vec3 import subtract


def sphere_sphere(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact on the line of centers; normal +z where the centers coincide."""
    (r1,), (r2,) = first.size, second.size
    offset = subtract(second.position, first.position)
    return (rounded_contact(first.position, offset, r1, r2, (0.0, 0.0, 1.0)),)
