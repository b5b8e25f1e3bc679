"""Added mass by panels beside closed forms and published values.

Ellipsoids: Lamb, Hydrodynamics (6th ed. 1932), arts. 114 and 115; the corners of the panels lie on
the ellipsoid, so that the solid is a little smaller than it. Regular solids: Sihvola, Yla-Oijala,
Jarvenpaa and Avelin 2004 (IEEE Trans. Antennas Propag. 52(9), "Polarizabilities of Platonic
solids"), whose normalized polarizability at permittivity zero is minus one minus the added by the
displaced mass: the field around a body that keeps all of it out is the flow around that body.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiburon.hydro.ellipsoid import ellipsoid_added_mass
from tiburon.hydro.mesh import Mesh
from tiburon.hydro.panels import panel_added_mass
from tiburon.model.numbers import Vec3
from tiburon.reproduce import solids

__all__ = ["PanelRow", "panel_rows"]

PARTS = (5, 7, 10)
"""Into how many parts edges of the icosahedron are cut: 500, 980 and 2000 panels."""

ELLIPSOIDS: dict[str, Vec3] = {
    "sphere": (1.0, 1.0, 1.0),
    "spheroid 3:1:1": (3.0, 1.0, 1.0),
    "spheroid 10:1:1": (10.0, 1.0, 1.0),
    "spheroid 1:1:0.3": (1.0, 1.0, 0.3),
    "ellipsoid 1:0.6:0.3": (1.0, 0.6, 0.3),
}
"""Half axes."""

REGULAR: dict[str, tuple[Callable[[], Mesh], float]] = {
    "tetrahedron": (solids.tetrahedron, 0.8063),
    "cube": (solids.box, 0.6383),
    "octahedron": (solids.octahedron, 0.5871),
    "icosahedron": (solids.icosahedron, 0.5236),
}
"""Added by displaced mass, in any direction."""

ALLOWED = 0.015
"""Largest error with the most panels, as a fraction."""


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One number of one body."""

    body: str
    """What it is."""

    motion: str
    """ "along x", or "about y"."""

    published: float
    """Added by displaced mass, or by the same moment of the displaced water."""

    ours: tuple[float, ...]
    """The same by panels, one per number of panels."""

    panels: tuple[int, ...]
    """Those numbers."""

    told: float
    """The error that the last one tells of itself, as a fraction."""

    @property
    def errors(self) -> tuple[float, ...]:
        """How far ours are from the published one, as fractions of it."""
        return tuple(found / self.published - 1.0 for found in self.ours)

    @property
    def good(self) -> bool:
        """Whether the last one is close enough."""
        return abs(self.errors[-1]) <= ALLOWED


def panel_rows(parts: Sequence[int] = PARTS) -> Iterator[PanelRow]:
    """Yield the comparison of all bodies, as it is computed.

    Args:
        parts: Into how many parts edges of an icosahedron are cut; 20 parts^2 panels each.
    """
    for body, radii in ELLIPSOIDS.items():
        yield from _ellipsoid(body, radii, parts)
    for body, (make, published) in REGULAR.items():
        mesh = make()
        found = [panel_added_mass(mesh, 1.0, panels=20 * k * k) for k in parts]
        # regular solids have no direction of their own; panels on them have
        means = tuple(float(np.trace(np.array(f.matrix)[3:, 3:])) / 3 / mesh.volume for f in found)
        counts = tuple(f.panels for f in found)
        yield PanelRow(body, "any way", published, means, counts, found[-1].error)


def _ellipsoid(body: str, radii: Vec3, parts: Sequence[int]) -> Iterator[PanelRow]:
    found = [panel_added_mass(solids.ellipsoid(radii, k), 1.0, panels=20 * k * k) for k in parts]
    counts = tuple(f.panels for f in found)
    moments, masses = ellipsoid_added_mass(radii, 1.0)
    volume = 4.0 / 3.0 * np.pi * float(np.prod(radii))
    squares = np.square(radii)
    displaced = [*(volume / 5.0 * (squares.sum() - squares)), volume, volume, volume]
    seen = set()
    for k, name in enumerate(("about x", "about y", "about z", "along x", "along y", "along z")):
        published = [*moments, *masses][k] / displaced[k]
        # axes of the same length have the same numbers; turning about a round axis has none
        if published == 0.0 or (name[:5], round(published, 9)) in seen:
            continue
        seen.add((name[:5], round(published, 9)))
        ours = tuple(f.matrix[k][k] / displaced[k] for f in found)
        told = found[-1].error if k >= 3 else found[-1].turning_error
        yield PanelRow(body, name, published, ours, counts, told)
