"""Surfaces of the solids robots are made of, for drawing libraries that know only triangles.

Edges are rounded a little and neighbors share their corners: averaged normals then shade flat
faces flat and edges soft.
"""

import numpy as np
from numpy.typing import NDArray

from tiburon.viewer.scene import ScenePart
from tiburon.viewer.scene_mesh import Mesh

__all__ = ["box", "center_mark", "lathe", "sphere", "surface_of", "thruster"]

Array = NDArray[np.float64]

ROUND = 36
"""Sides of round things."""

EDGE = 4
"""Steps in which an edge is rounded."""

PLANE = 20.0
"""Half the length of a plane that has no end [m]."""


def surface_of(part: ScenePart) -> Mesh:
    """Return the surface of a solid, in its own axes [m]."""
    if part.kind == "mesh" and part.mesh is not None:
        return part.mesh
    if part.kind == "box":
        return box(part.size)
    if part.kind == "sphere":
        return sphere((part.size[0],) * 3)
    if part.kind == "ellipsoid":
        return sphere(part.size)
    if part.kind == "cylinder":
        return cylinder(*part.size)
    if part.kind == "capsule":
        return capsule(*part.size)
    return _mesh(
        [[-PLANE, -PLANE, 0], [PLANE, -PLANE, 0], [PLANE, PLANE, 0], [-PLANE, PLANE, 0]],
        [[0, 1, 2], [0, 2, 3]],
    )


def box(size: tuple[float, ...]) -> Mesh:
    """Return a box with rounded edges.

    Each side is a grid whose outer lines lie on balls around the corners of a smaller box.

    Args:
        size: Edge lengths [m].
    """
    radius = 0.06 * min(size)
    half = 0.5 * np.array(size) - radius
    turn = np.tan(np.linspace(-1.0, 0.0, EDGE) * np.pi / 4.0)
    # lines of the grid: towards which way the edge is turned, and to which side they belong
    lines = np.concatenate([turn, -turn[::-1]])
    sides = np.concatenate([-np.ones(EDGE), np.ones(EDGE)])
    count = len(lines)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(lines, lines, indexing="ij"))
    at_a, at_b = (grid.reshape(-1) for grid in np.meshgrid(sides, sides, indexing="ij"))
    corner = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).reshape(-1)
    squares = np.stack([corner, corner + count, corner + count + 1, corner + 1], axis=-1)
    points: list[Array] = []
    triangles: list[NDArray[np.intp]] = []
    for axis in range(3):
        u, w = (axis + 1) % 3, (axis + 2) % 3
        for sign in (1.0, -1.0):
            direction, inner = np.empty((count**2, 3)), np.empty((count**2, 3))
            direction[:, axis], direction[:, u], direction[:, w] = sign, a, b
            inner[:, axis], inner[:, u], inner[:, w] = sign, at_a, at_b
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            turned = squares if sign > 0.0 else squares[:, ::-1]
            faces = np.concatenate([turned[:, [0, 1, 2]], turned[:, [0, 2, 3]]])
            triangles.append(faces + len(points) * count**2)
            points.append(inner * half + radius * direction)
    return _mesh(np.concatenate(points), np.concatenate(triangles))


def lathe(outline: Array) -> Mesh:
    """Return what an outline sweeps around z.

    Args:
        outline: Distance from the axis and height of its points [m], outside on its right hand
            when walked from below, shape (n, 2).
    """
    angle = np.arange(ROUND) * (2.0 * np.pi / ROUND)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points = np.concatenate(
        [
            np.column_stack([across * ring, np.full(ROUND, height)])
            for across, height in outline.tolist()
        ]
    )
    here = np.arange(ROUND)
    after = (here + 1) % ROUND
    triangles = []
    for k in range(len(outline) - 1):
        low, high = k * ROUND, (k + 1) * ROUND
        if outline[k, 0] > 0.0:
            triangles.append(np.stack([low + here, low + after, high + after], axis=-1))
        if outline[k + 1, 0] > 0.0:
            triangles.append(np.stack([low + here, high + after, high + here], axis=-1))
    return _mesh(points, np.concatenate(triangles))


def cylinder(radius: float, length: float) -> Mesh:
    """Return a cylinder along z with rounded rims; radius and length in m."""
    rim = 0.12 * min(radius, length)
    half = 0.5 * length
    outline = [[0.0, -half]]
    for height, start in ((rim - half, -0.5 * np.pi), (half - rim, 0.0)):
        for angle in start + np.linspace(0.0, 0.5 * np.pi, EDGE + 1):
            outline.append(
                [radius - rim + rim * np.cos(angle), height + rim * float(np.sin(angle))]
            )
    outline.append([0.0, half])
    return lathe(np.array(outline))


def capsule(radius: float, length: float) -> Mesh:
    """Return a capsule along z; length between the centers of its half balls [m]."""
    angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, ROUND // 2 + 2)
    side = np.where(angle < 0.0, -0.5, 0.5) * length
    across = np.maximum(radius * np.cos(angle), 0.0)
    across[[0, -1]] = 0.0
    return lathe(np.column_stack([across, side + radius * np.sin(angle)]))


def sphere(radii: tuple[float, ...]) -> Mesh:
    """Return an ellipsoid with half axes along x, y, z [m]."""
    ball = capsule(1.0, 0.0)
    return _mesh(ball.vertices * np.array(radii), ball.triangles)


def thruster(radius: float) -> tuple[Mesh, Mesh]:
    """Return a short duct and the propeller in it, thrust along z; radius in m."""
    wall = [(0.86, 0), (0.9, -0.55), (1.0, -0.5), (1.06, 0), (1.0, 0.5), (0.9, 0.55), (0.86, 0)]
    duct = lathe(radius * np.array(wall))
    parts = [capsule(0.16 * radius, 0.5 * radius)]
    blade = box((0.7 * radius, 0.24 * radius, 0.04 * radius))
    pitch = _about(0, 0.6)
    for k in range(4):
        placed = (blade.vertices @ pitch.T + [0.47 * radius, 0.0, 0.0]) @ _about(2, k * np.pi / 2).T
        parts.append(_mesh(placed, blade.triangles))
    return duct, _joined(parts)


def center_mark(radius: float) -> tuple[Mesh, Mesh]:
    """Return the usual mark of a center: the bright and the dark quarters of a ball."""
    ball = sphere((radius,) * 3)
    middle = ball.vertices[ball.triangles].mean(axis=1)
    dark = np.prod(middle, axis=1) > 0.0
    return Mesh(ball.vertices, ball.triangles[~dark]), Mesh(ball.vertices, ball.triangles[dark])


def _about(axis: int, angle: float) -> Array:
    """Return the rotation about a coordinate axis [rad], shape (3, 3)."""
    u, w = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[u, u] = R[w, w] = np.cos(angle)
    R[w, u], R[u, w] = np.sin(angle), -np.sin(angle)
    return R


def _joined(parts: list[Mesh]) -> Mesh:
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])
    triangles = [part.triangles + at for part, at in zip(parts, offsets[:-1], strict=True)]
    return _mesh(np.concatenate([part.vertices for part in parts]), np.concatenate(triangles))


def _mesh(vertices: object, triangles: object) -> Mesh:
    return Mesh(np.asarray(vertices, dtype=np.float32), np.asarray(triangles, dtype=np.int32))
