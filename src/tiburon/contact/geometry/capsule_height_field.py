"""Contacts of a capsule with a height field."""

from functools import partial

from tiburon.contact.geometry.capsule_capsule import capsule_capsule
from tiburon.contact.geometry.capsule_plane import capsule_ends
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import NEAR, Reach, terrain_contacts
from tiburon.contact.geometry.smooth_height_field import (
    hill_contacts,
    nearest_mantle,
    smooth_terrain_contact,
)
from tiburon.contact.geometry.sphere_capsule import point_capsule
from tiburon.contact.geometry.terrain_features import ridge_contacts, segment
from tiburon.trace.regions import function


def capsule_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return two contacts of each hemisphere, at -z and +z, and two of peaks and ridges between."""
    contacts: tuple[ContactGeometry, ...] = ()
    for end in capsule_ends(first):
        contacts += terrain_contacts(end, first.size[0], second, 2, reach.point)
    ridges = ridge_contacts(
        first.position,
        second,
        reach.body,
        2,
        lambda point: (point_capsule(point, 0.0, first),),
        lambda start, edge: capsule_capsule(segment(start, edge), first),
    )
    return (*contacts, *ridges)


def capsule_smooth_height_field(
    first: Placed, second: Placed, reach: Reach = NEAR
) -> tuple[ContactGeometry, ...]:
    """Return contacts with smooth terrain: of the hemispheres at -z and +z, and of two hills."""
    radius, length = first.size
    contact_of = function(smooth_terrain_contact)
    ends = tuple(contact_of(end, radius, second) for end in capsule_ends(first))
    mantle, bound = partial(nearest_mantle, first), radius + 0.5 * length
    return (*ends, *hill_contacts(mantle, first.position, bound, second, reach.body, 2))
