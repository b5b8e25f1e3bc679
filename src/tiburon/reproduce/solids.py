"""Solids with known added mass, as meshes."""

import numpy as np
from numpy.typing import NDArray

from tiburon.hydro.mesh import Mesh
from tiburon.model.numbers import Vec3

__all__ = ["box", "ellipsoid", "ellipsoid_triangles", "icosahedron", "octahedron", "tetrahedron"]

CUBE_CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
CUBE_SQUARES = (
    *((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1)),
    *((2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)),
)
CUBE_FACES = np.array([t for a, b, c, d in CUBE_SQUARES for t in ((a, b, c), (a, c, d))])

TETRAHEDRON_CORNERS = np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)], dtype=float)
TETRAHEDRON_FACES = np.array([(0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2)])

OCTAHEDRON_CORNERS = np.concatenate([np.eye(3), -np.eye(3)])
OCTAHEDRON_FACES = np.array(
    [
        *((0, 1, 2), (1, 3, 2), (3, 4, 2), (4, 0, 2)),
        *((1, 0, 5), (3, 1, 5), (4, 3, 5), (0, 4, 5)),
    ]
)

_G = 0.5 * (1.0 + 5.0**0.5)
ICOSAHEDRON_CORNERS = np.array(
    [
        *((-1, _G, 0), (1, _G, 0), (-1, -_G, 0), (1, -_G, 0), (0, -1, _G), (0, 1, _G)),
        *((0, -1, -_G), (0, 1, -_G), (_G, 0, -1), (_G, 0, 1), (-_G, 0, -1), (-_G, 0, 1)),
    ]
)
ICOSAHEDRON_FACES = np.array(
    [
        *((0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4)),
        *((11, 10, 2), (10, 7, 6), (7, 1, 8), (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8)),
        *((3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7), (9, 8, 1)),
    ]
)


def box(size: Vec3 = (1.0, 1.0, 1.0)) -> Mesh:
    """Return a box around the origin with edges of given lengths [m], of twelve faces."""
    return Mesh((CUBE_CORNERS - 0.5) * np.array(size), CUBE_FACES)


def tetrahedron() -> Mesh:
    """Return a regular tetrahedron around the origin."""
    return Mesh(TETRAHEDRON_CORNERS, TETRAHEDRON_FACES)


def octahedron() -> Mesh:
    """Return a regular octahedron around the origin."""
    return Mesh(OCTAHEDRON_CORNERS, OCTAHEDRON_FACES)


def icosahedron() -> Mesh:
    """Return a regular icosahedron around the origin."""
    return Mesh(ICOSAHEDRON_CORNERS, ICOSAHEDRON_FACES)


def ellipsoid_triangles(
    radii: Vec3 = (1.0, 1.0, 1.0), parts: int = 5
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return vertices and faces of an icosahedron, cut up, its corners moved onto an ellipsoid.

    Vertices stand there once per face of the icosahedron, as in files that know no shared ones.

    Args:
        radii: Half axes along x, y, z [m].
        parts: Into how many parts edges are cut; there are 20 parts^2 faces.
    """
    points: list[NDArray[np.float64]] = []
    faces = []
    for corners in ICOSAHEDRON_FACES:
        a, b, c = ICOSAHEDRON_CORNERS[corners]
        number = {}
        for i in range(parts + 1):
            for j in range(parts + 1 - i):
                number[i, j] = len(points)
                points.append(((parts - i - j) * a + i * b + j * c) / parts)
        for i in range(parts):
            for j in range(parts - i):
                faces.append((number[i, j], number[i + 1, j], number[i, j + 1]))
                if i + j < parts - 1:
                    faces.append((number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]))
    places = np.array(points)
    # the same corner of two faces comes with different rounding
    places = np.round(places / np.linalg.norm(places, axis=1)[:, None], 12)
    return places * np.array(radii), np.array(faces)


def ellipsoid(radii: Vec3 = (1.0, 1.0, 1.0), parts: int = 5) -> Mesh:
    """Return a solid of 20 parts^2 faces, inscribed in an ellipsoid of given half axes [m]."""
    return Mesh(*ellipsoid_triangles(radii, parts))
