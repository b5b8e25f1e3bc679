"""Simple shapes around meshes, so that robots whose geometry is meshes can touch.

A cover contains the mesh: triangles are divided into groups that are near each other, and one
convex shape is put around all corners of each group, which therefore holds its triangles. It is
made once, from the file of the mesh, and is data of the model from then on.

Groups: Lloyd's algorithm on the centers of triangles, from centers that are far from each other.
Spheres: a center that moves toward the farthest point (Badoiu and Clarkson 2003). Capsules: the
same in the plane across each principal axis. Boxes: along the principal or the file's axes. Of
several choices that of the smallest volume is taken.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least, choice
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.contact.meshes import scaled_triangles
from tiburon.errors import DomainError, ModelError, shown
from tiburon.model import BoxShape, CapsuleShape, MeshShape, Model, Pose, Shape, SphereShape
from tiburon.model.composition import changed

Array = NDArray[np.float64]

COVERS = ("capsule", "sphere", "box")
"""Kinds of shapes that cover meshes."""

EDGE_PARTS = 12
"""Parts of the length of a mesh, per shape, that edges of its triangles are divided into."""

MOST_TRIANGLES = 200_000
"""Triangles after division at most."""

MAX_COVERS = 1000
"""Shapes of one cover at most: contact of more is slower than that of the mesh."""

LLOYD_ITERATIONS = 30
"""Iterations of Lloyd's algorithm."""

CENTER_MOVES = 300
"""Moves of a center toward the farthest point; the radius is then within 1/300 of the least."""

MIN_THICKNESS = 1e-6
"""Least dimension of a shape, relative to the length of the mesh."""


@public
def cover_mesh(
    mesh: Shape | MeshShape, *, kind: str = "capsule", count: int = 1
) -> tuple[Shape, ...]:
    """Cover a mesh by simple shapes, which have contacts.

    Args:
        mesh: A mesh, or a shape of a body with it.
        kind: "capsule", "sphere" or "box".
        count: Number of shapes; more follow the mesh more closely; at most 1000.

    Returns:
        Collision shapes that contain the mesh, at its place on the body and with its material.

    Raises:
        ModelError: If it is not a mesh.
        DomainError: If the count is below 1 or above 1000.
        ModelFileError: If the file of the mesh cannot be read, or has no triangles.

    Example:
        ``Body("thigh", ..., shapes=(drawn, *tb.cover_mesh(drawn, count=3)))``
    """
    shape: Any = Shape(mesh) if isinstance(mesh, MeshShape) else mesh
    if not isinstance(shape, Shape) or not isinstance(shape.geometry, MeshShape):
        raise ModelError(
            f"mesh: expected a MeshShape or a Shape with one, got {shown(mesh)}; only meshes need "
            "covers"
        )
    choice("kind", kind, COVERS)
    count = at_least("count", count, 1)
    if count > MAX_COVERS:
        raise DomainError("count", f"at most {MAX_COVERS} shapes", shown(count))
    vertices, faces = _divided(*scaled_triangles(shape.geometry), count)
    found = []
    size = float(np.ptp(vertices, axis=0).max())
    for number, group in enumerate(_groups(vertices[faces].mean(axis=1), count)):
        points = vertices[np.unique(faces[group])]
        geometry, pose = _around(points, kind, MIN_THICKNESS * size)
        name = shape.name if not shape.name or count == 1 else f"{shape.name}_{number}"
        found.append(
            Shape(
                geometry,
                shape.pose @ pose,
                "collision",
                name=name,
                material=shape.material,
                contact_bits=shape.contact_bits,
            )
        )
    return tuple(found)


@public
def cover_meshes(model: Model, *, kind: str = "capsule", count: int = 1) -> Model:
    """Return a robot whose collision meshes are covered by simple shapes; meshes are still drawn.

    Args:
        model: The robot.
        kind: "capsule", "sphere" or "box".
        count: Number of shapes for each mesh.

    Raises:
        ModelFileError: If the file of a mesh cannot be read, or has no triangles.

    Example:
        ``dog = tb.cover_meshes(tb.load("dog.urdf"), count=2)``
    """
    choice("kind", kind, COVERS)
    bodies = []
    for body in model.bodies:
        shapes: list[Shape] = []
        for shape in body.shapes:
            if not isinstance(shape.geometry, MeshShape) or shape.role == "visual":
                shapes.append(shape)
                continue
            if shape.role == "both":
                shapes.append(replace(shape, role="visual"))
            shapes += cover_mesh(shape, kind=kind, count=count)
        bodies.append(changed(body, shapes=tuple(shapes)))
    return model._changed(model._parts._replace(bodies=tuple(bodies)), None)


def _divided(
    vertices: Array, faces: NDArray[np.int64], count: int
) -> tuple[Array, NDArray[np.int64]]:
    """Divide triangles until their edges are short against the parts of the cover."""
    longest = float(np.ptp(vertices[faces].reshape(-1, 3), axis=0).max()) / (
        EDGE_PARTS * count ** (1.0 / 3.0)
    )
    corners = vertices[faces]
    while count > 1:
        edges = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=2)
        long = edges.max(axis=1) > longest
        if not long.any() or len(corners) + 3 * int(long.sum()) > MOST_TRIANGLES:
            break
        a, b, c = (corners[long][:, k] for k in range(3))
        ab, bc, ca = 0.5 * (a + b), 0.5 * (b + c), 0.5 * (c + a)
        parts = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        corners = np.concatenate([corners[~long], *(np.stack(part, axis=1) for part in parts)])
    flat = corners.reshape(-1, 3)
    return flat, np.arange(len(flat)).reshape(-1, 3)


def _groups(centers: Array, count: int) -> list[NDArray[np.intp]]:
    """Divide points into groups that are near each other."""
    seeds = [centers[np.argmax(np.linalg.norm(centers - centers.mean(axis=0), axis=1))]]
    distance = np.linalg.norm(centers - seeds[0], axis=1)
    while len(seeds) < count:
        seeds.append(centers[np.argmax(distance)])
        distance = np.minimum(distance, np.linalg.norm(centers - seeds[-1], axis=1))
    middles = np.array(seeds)
    nearest = np.zeros(len(centers), dtype=np.intp)
    for _ in range(LLOYD_ITERATIONS):
        squares = np.sum(centers**2, axis=1)[:, None] - 2.0 * centers @ middles.T
        nearest = np.argmin(squares + np.sum(middles**2, axis=1), axis=1)
        after = np.array(
            [
                centers[nearest == k].mean(axis=0) if (nearest == k).any() else middles[k]
                for k in range(len(middles))
            ]
        )
        if np.array_equal(after, middles):
            break
        middles = after
    groups = [np.flatnonzero(nearest == k) for k in range(len(middles))]
    return [group for group in groups if len(group)]


def _around(points: Array, kind: str, least: float) -> tuple[Any, Pose]:
    """Return a shape that contains points, and its pose."""
    if kind == "sphere":
        center, radius = _ball(points)
        return SphereShape(max(radius, least)), Pose(translation=tuple(center.tolist()))
    middle = points.mean(axis=0)
    _, _, axes = np.linalg.svd(points - middle, full_matrices=False)
    axes = np.vstack([axes, np.eye(3)])[:3] if len(axes) < 3 else axes
    axes[2] = np.cross(axes[0], axes[1])
    frames = [np.roll(axes, shift, axis=0) for shift in range(3)] + [np.eye(3)]
    choices = [_along(points, frame, kind, least) for frame in frames]
    _, geometry, pose = min(choices, key=lambda found: found[0])
    return geometry, pose


def _along(points: Array, frame: Array, kind: str, least: float) -> tuple[float, Any, Pose]:
    """Return a shape around points along the rows of a frame: its volume, shape and pose."""
    local = points @ frame.T
    rotation: Any = tuple(map(tuple, frame.T.tolist()))
    if kind == "box":
        low, high = local.min(axis=0), local.max(axis=0)
        size = np.maximum(high - low, least)
        place = tuple((0.5 * (low + high) @ frame).tolist())
        return float(size.prod()), BoxShape(tuple(size.tolist())), Pose(rotation, place)
    across, radius = _ball(local[:, :2])
    radius = max(radius, least)
    depth = np.sqrt(np.maximum(radius**2 - np.sum((local[:, :2] - across) ** 2, axis=1), 0.0))
    # ends from which hemispheres reach all points
    high, low = float((local[:, 2] - depth).max()), float((local[:, 2] + depth).min())
    length = max(high - low, 0.0)
    center = np.array([*across, 0.5 * (high + low)]) @ frame
    volume = math.pi * radius**2 * (length + 4.0 / 3.0 * radius)
    return volume, CapsuleShape(radius, length), Pose(rotation, tuple(center.tolist()))


def _ball(points: Array) -> tuple[Array, float]:
    """Return center and radius of a ball around points."""
    center = 0.5 * (points.min(axis=0) + points.max(axis=0))
    best: tuple[Array, float] = (center, math.inf)
    for step in range(CENTER_MOVES):
        distances = np.linalg.norm(points - center, axis=1)
        farthest = int(np.argmax(distances))
        if distances[farthest] < best[1]:
            best = (center, float(distances[farthest]))
        center = center + (points[farthest] - center) / (step + 2.0)
    # rounding must not leave a point outside
    return best[0], best[1] * (1.0 + 1e-12)
