"""Meshes of solids with known added mass, and panel results beside published values.

Ellipsoids: Lamb, Hydrodynamics (6th ed. 1932), arts. 114 and 115; the corners of the panels lie on
the ellipsoid, so that the meshed solid is slightly smaller. Regular solids: Sihvola, Yla-Oijala,
Jarvenpaa and Avelin 2004 (IEEE Trans. Antennas Propag. 52(9), "Polarizabilities of Platonic
solids"), whose normalized polarizability at permittivity zero is minus one minus the ratio of added
to displaced mass: the field around a body that excludes it equals the flow around that body.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.hydro.coefficients import ellipsoid_added_mass
from tiburon.hydro.mesh import Mesh
from tiburon.hydro.panels import panel_added_mass
from tiburon.model.value_checks import Vec3
from tiburon.reproduce.cells import DERIVED, PRINTED, Cells, cell_table, claim

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
    [*((0, 1, 2), (1, 3, 2), (3, 4, 2), (4, 0, 2)), *((1, 0, 5), (3, 1, 5), (4, 3, 5), (0, 4, 5))]
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
    """Return a box of twelve faces about the origin with given edge lengths [m]."""
    return Mesh((CUBE_CORNERS - 0.5) * np.array(size), CUBE_FACES)


def tetrahedron() -> Mesh:
    """Return a regular tetrahedron about the origin."""
    return Mesh(TETRAHEDRON_CORNERS, TETRAHEDRON_FACES)


def octahedron() -> Mesh:
    """Return a regular octahedron about the origin."""
    return Mesh(OCTAHEDRON_CORNERS, OCTAHEDRON_FACES)


def icosahedron() -> Mesh:
    """Return a regular icosahedron about the origin."""
    return Mesh(ICOSAHEDRON_CORNERS, ICOSAHEDRON_FACES)


def ellipsoid_triangles(
    radii: Vec3 = (1.0, 1.0, 1.0), parts: int = 5
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return vertices and faces of a subdivided icosahedron projected onto an ellipsoid.

    Vertices are repeated for each face of the icosahedron, as in files without shared vertices.

    Args:
        radii: Semi-axes along x, y, z [m].
        parts: Subdivisions of each edge; there are 20 parts^2 faces.
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
    # the same corner of two faces has different rounding errors
    places = np.round(places / np.linalg.norm(places, axis=1)[:, None], 12)
    return places * np.array(radii), np.array(faces)


def ellipsoid(radii: Vec3 = (1.0, 1.0, 1.0), parts: int = 5) -> Mesh:
    """Return a solid of 20 parts^2 faces, inscribed in an ellipsoid of given semi-axes [m]."""
    return Mesh(*ellipsoid_triangles(radii, parts))


PARTS = (5, 7, 10)
"""Subdivisions of the edges of the icosahedron: 500, 980 and 2000 panels."""

ELLIPSOIDS: dict[str, Vec3] = {
    "sphere": (1.0, 1.0, 1.0),
    "spheroid 3:1:1": (3.0, 1.0, 1.0),
    "spheroid 10:1:1": (10.0, 1.0, 1.0),
    "spheroid 1:1:0.3": (1.0, 1.0, 0.3),
    "ellipsoid 1:0.6:0.3": (1.0, 0.6, 0.3),
}
"""Semi-axes."""

REGULAR: dict[str, tuple[Callable[[], Mesh], float]] = {
    "tetrahedron": (tetrahedron, 0.8063),
    "cube": (box, 0.6383),
    "octahedron": (octahedron, 0.5871),
    "icosahedron": (icosahedron, 0.5236),
}
"""Shape, and ratio of added to displaced mass in any direction."""

ALLOWED = 0.015
"""Largest relative error of the finest mesh."""


class PanelRow(NamedTuple):
    """One added-mass coefficient of one body."""

    body: str
    motion: str
    """ "along x", or "about y"."""

    published: float
    """Ratio of added to displaced mass, or of the moments of inertia."""

    ours: tuple[float, ...]
    """The same by panels, one per mesh."""

    panels: tuple[int, ...]
    estimate: float
    """Relative error estimate of the finest mesh."""

    @property
    def errors(self) -> tuple[float, ...]:
        """Relative errors."""
        return tuple(found / self.published - 1.0 for found in self.ours)


@cell_table(
    "Lamb; Sihvola and others 2004", "added mass relative to the displaced water, by panels"
)
def added_mass_table(parts: Sequence[int] = PARTS) -> Cells:
    """Return all bodies beside published values; arguments are those of `panel_rows`."""
    for row in panel_rows(parts):
        errors = ", ".join(f"{100 * error:+.2f} %" for error in row.errors)
        text = f"{row.ours[-1]:.4f} (errors {errors}; estimated {100 * row.estimate:.1f} %)"
        good = abs(row.errors[-1]) <= ALLOWED
        # Lamb prints integrals, Sihvola and others values
        kind = DERIVED if row.body in ELLIPSOIDS else PRINTED
        yield claim(f"{row.body}, {row.motion}", f"{row.published:.4f}", text, good, kind)
    yield f"{', '.join(str(20 * k * k) for k in parts)} panels; the last agree within 1.5 %"


def panel_rows(parts: Sequence[int]) -> Iterator[PanelRow]:
    """Yield the added mass of all bodies, by 20 parts^2 panels each."""
    for body, radii in ELLIPSOIDS.items():
        yield from _ellipsoid(body, radii, parts)
    for body, (make, published) in REGULAR.items():
        mesh = make()
        found = [panel_added_mass(mesh, 1.0, panels=20 * k * k) for k in parts]
        # regular solids are isotropic; panels on them are not
        means = tuple(float(np.trace(np.array(f.matrix)[3:, 3:])) / 3 / mesh.volume for f in found)
        counts = tuple(f.panels for f in found)
        yield PanelRow(body, "any axis", published, means, counts, found[-1].error)


def _ellipsoid(body: str, radii: Vec3, parts: Sequence[int]) -> Iterator[PanelRow]:
    found = [panel_added_mass(ellipsoid(radii, k), 1.0, panels=20 * k * k) for k in parts]
    counts = tuple(f.panels for f in found)
    moments, masses = ellipsoid_added_mass(radii, 1.0)
    volume = 4.0 / 3.0 * np.pi * float(np.prod(radii))
    squares = np.square(radii)
    displaced = [*(volume / 5.0 * (squares.sum() - squares)), volume, volume, volume]
    seen = set()
    for k, name in enumerate(("about x", "about y", "about z", "along x", "along y", "along z")):
        published = [*moments, *masses][k] / displaced[k]
        # equal axes have equal coefficients; rotation about a symmetry axis has none
        if published == 0.0 or (name[:5], round(published, 9)) in seen:
            continue
        seen.add((name[:5], round(published, 9)))
        ours = tuple(f.matrix[k][k] / displaced[k] for f in found)
        estimate = found[-1].error if k >= 3 else found[-1].rotational_error
        yield PanelRow(body, name, published, ours, counts, estimate)
