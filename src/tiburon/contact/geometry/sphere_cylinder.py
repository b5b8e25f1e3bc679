"""Contact of a sphere with a cylinder."""

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.vectors import (
    add_matrices,
    outer,
    root,
    scale_matrix,
    sign,
)
from tiburon.spatial.vec3 import (
    Scalar,
    Vec3,
    add,
    cross,
    matrix_vector,
    negate,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.value import unary, where


def point_cylinder(point: Vec3, radius: Scalar, cylinder: Placed) -> ContactGeometry:
    """Return the contact of a sphere around a point with a cylinder.

    A point inside touches the nearer of mantle and end face; one on the axis has the mantle's
    normal along the cylinder's x axis.
    """
    thickness, length = cylinder.size
    x, y, z = transpose_vector(cylinder.rotation, subtract(point, cylinder.position))
    half = 0.5 * length
    square = x * x + y * y
    off_axis = square > 0.0
    divided = unary("sqrt", where(off_axis, square, 1.0))
    cosine, sine = where(off_axis, x / divided, 1.0), where(off_axis, y / divided, 0.0)
    rho = where(off_axis, divided, 0.0)
    # outside, the distance to the rectangle of the meridian plane; inside, to its nearer side
    out, up = rho - thickness, abs(z) - half
    beside, beyond = where(out > 0.0, out, 0.0), where(up > 0.0, up, 0.0)
    distance = root(beside * beside + beyond * beyond)
    outside = distance > 0.0
    divisor = where(outside, distance, 1.0)
    mantle = out >= up
    radial = where(outside, beside / divisor, where(mantle, 1.0, 0.0))
    along = where(outside, beyond / divisor, where(mantle, 0.0, 1.0)) * sign(z)
    signed = where(outside, distance, where(mantle, out, up))
    outward = matrix_vector(cylinder.rotation, (radial * cosine, radial * sine, along))
    around = matrix_vector(cylinder.rotation, (-sine, cosine, 0.0))
    gap = signed - radius
    reach = radius + 0.5 * gap
    # circles around the axis are curved, and the rim across itself
    rim = (beside > 0.0) & (beyond > 0.0)
    across = cross(outward, around)
    curvature = add_matrices(
        scale_matrix(outer(around, around), where(off_axis, radial / divided, 0.0)),
        scale_matrix(outer(across, across), where(rim, 1.0 / divisor, 0.0)),
    )
    return ContactGeometry(
        gap,
        add(point, scale(outward, -reach)),
        negate(outward),
        curvature,
        scale_matrix(curvature, reach),
    )


def sphere_cylinder(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    return (point_cylinder(first.position, first.size[0], second),)
