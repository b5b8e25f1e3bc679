"""Contact of a sphere with a box."""

from tiburon.contact.geometry.contact_geometry import (
    ZERO33,
    ContactGeometry,
    Placed,
    axis,
    face_contact,
    rounded_contact,
    to_world,
)
from tiburon.contact.geometry.vectors import (
    add_matrices,
    clamp,
    outer,
    scale_matrix,
    select,
    sign,
)
from tiburon.spatial.vec3 import (
    IDENTITY3,
    Mat3,
    Scalar,
    Vec3,
    matrix_vector,
    scale,
    subtract,
    transpose_vector,
)
from tiburon.trace.value import where


def point_box(point: Vec3, radius: Scalar, box: Placed) -> ContactGeometry:
    """Return the contact of a sphere around a point with a box.

    A point inside the box touches the nearest face, at a negative gap.
    """
    half = tuple(0.5 * edge for edge in box.size)
    local = transpose_vector(box.rotation, subtract(point, box.position))
    x, y, z = (clamp(c, -h, h) for c, h in zip(local, half, strict=True))
    free: Mat3 = ZERO33
    for k, (c, q) in enumerate(zip(local, (x, y, z), strict=True)):
        along = axis(box, k)
        free = add_matrices(free, scale_matrix(outer(along, along), where(c == q, 1.0, 0.0)))
    outward, face_point = _nearest_face(local, half)
    inside = face_contact(
        point, radius, to_world(box, face_point), matrix_vector(box.rotation, outward)
    )
    offset = matrix_vector(box.rotation, subtract((x, y, z), local))
    outside = rounded_contact(point, offset, radius, 0.0, inside.normal, second_free=free)
    contained = (local[0] == x) & (local[1] == y) & (local[2] == z)
    return select(contained, inside, outside)  # type: ignore[no-any-return]


def _nearest_face(local: Vec3, half: tuple[Scalar, ...]) -> tuple[Vec3, Vec3]:
    """Return the outward normal of the face a point inside a box is nearest to, and its center."""
    outward = scale(IDENTITY3[0], sign(local[0]))
    center = scale(outward, half[0])
    depth = half[0] - abs(local[0])
    for k in (1, 2):
        other, next_depth = scale(IDENTITY3[k], sign(local[k])), half[k] - abs(local[k])
        nearer = next_depth < depth
        outward, center = select(nearer, (other, scale(other, half[k])), (outward, center))
        depth = where(nearer, next_depth, depth)
    return outward, center


def sphere_box(first: Placed, second: Placed) -> tuple[ContactGeometry, ...]:
    """Return the contact at the closest points."""
    return (point_box(first.position, first.size[0], second),)
