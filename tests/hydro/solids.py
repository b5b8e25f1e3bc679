"""Meshes with known answers."""

import numpy as np

from tiburon.hydro.mesh import Mesh

CUBE_CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
_SQUARES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
CUBE_FACES = np.array([t for a, b, c, d in _SQUARES for t in ((a, b, c), (a, c, d))])

TETRAHEDRON_CORNERS = np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)], dtype=float)
TETRAHEDRON_FACES = np.array([(0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2)])

OCTAHEDRON_CORNERS = np.concatenate([np.eye(3), -np.eye(3)])
OCTAHEDRON_FACES = np.array(
    [
        *((0, 1, 2), (1, 3, 2), (3, 4, 2), (4, 0, 2)),
        *((1, 0, 5), (3, 1, 5), (4, 3, 5), (0, 4, 5)),
    ]
)

_G = 0.5 * (1.0 + np.sqrt(5.0))
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


def box(size=(1.0, 1.0, 1.0)):
    """A box around the origin, of twelve faces."""
    return Mesh((CUBE_CORNERS - 0.5) * np.array(size), CUBE_FACES)


def tetrahedron():
    return Mesh(TETRAHEDRON_CORNERS, TETRAHEDRON_FACES)


def octahedron():
    return Mesh(OCTAHEDRON_CORNERS, OCTAHEDRON_FACES)


def icosahedron():
    return Mesh(ICOSAHEDRON_CORNERS, ICOSAHEDRON_FACES)


def ellipsoid_triangles(radii=(1.0, 1.0, 1.0), parts=5):
    """Vertices and faces of an icosahedron cut into 20 parts^2 faces, its corners on an ellipsoid.

    Vertices stand there once per face of the icosahedron, as in files that know no shared ones.
    """
    points, faces = [], []
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
    points = np.array(points)
    # the same corner of two faces comes with different rounding
    points = np.round(points / np.linalg.norm(points, axis=1)[:, None], 12)
    return points * np.array(radii), np.array(faces)


def ellipsoid(radii=(1.0, 1.0, 1.0), parts=5):
    """A solid of 20 parts^2 faces, inscribed in an ellipsoid."""
    return Mesh(*ellipsoid_triangles(radii, parts))
