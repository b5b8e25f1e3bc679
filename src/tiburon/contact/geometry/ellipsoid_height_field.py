"""Contacts of an ellipsoid with a height field."""

from tiburon.contact.geometry.capsule_ellipsoid import capsule_ellipsoid
from tiburon.contact.geometry.contact_geometry import (
    ContactGeometry,
    Placed,
    to_world,
)
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import smooth_support_contacts
from tiburon.contact.geometry.sphere_ellipsoid import sphere_ellipsoid
from tiburon.contact.geometry.support import ellipsoid_parts, support_point
from tiburon.contact.geometry.terrain_features import (
    ABSENT_CONTACT,
    face_contacts,
    ridge_contacts,
    segment,
)
from tiburon.contact.geometry.vectors import maximum, unit
from tiburon.spatial.vec3 import (
    IDENTITY3,
    Mat3,
    Vec3,
    add,
    transpose_vector,
)


def _deepest(ellipsoid: Placed, down: Vec3) -> Vec3:
    """Return the extreme point in a direction, world axes [m]: E^2 m / |E m| in its axes."""
    a, b, c = ellipsoid.size
    x, y, z = transpose_vector(ellipsoid.rotation, down)
    (x, y, z), _ = unit((a * x, b * y, c * z), (0.0, 0.0, -1.0))
    return to_world(ellipsoid, (a * x, b * y, c * z))


def ellipsoid_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts with four triangles, and with four peaks or ridges."""
    a, b, c = first.size
    largest = maximum(a, maximum(b, c))
    (under,) = terrain_contacts(first.position, 0.0, second, 1)
    found = face_contacts(
        lambda down: (_deepest(first, down),), first.position, under, second, reach.body, 4
    )
    peaks = ridge_contacts(
        first.position,
        second,
        reach.body,
        4,
        lambda point: sphere_ellipsoid(Placed(IDENTITY3, point, (0.0,)), first),
        lambda start, edge, outward, _: (
            capsule_ellipsoid(segment(start, edge), first)[0],
            ABSENT_CONTACT,
        ),
        largest,
    )
    return (*found, *peaks)


def ellipsoid_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return up to four contacts with smooth terrain."""
    parts = ellipsoid_parts(first)
    a, b, c = first.size
    largest = maximum(a, maximum(b, c))

    def support(toward: Vec3) -> tuple[Vec3, Mat3]:
        point, radii = support_point(parts, toward)
        return add(first.position, point), radii

    return smooth_support_contacts(support, first.position, largest, second, reach.body, 4)
