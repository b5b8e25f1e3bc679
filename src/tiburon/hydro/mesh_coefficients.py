"""Water numbers of a solid from a mesh file.

Volume and center are exact. Added mass comes by panels, or, where walls are too thin for them, from
the ellipsoid with the same second moments. Drag is that of the box or the ellipsoid with the same
second moments, whichever has the volume closer to that of the solid.
"""

import math
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelFileError
from tiburon.hydro.ellipsoid import ellipsoid_added_mass
from tiburon.hydro.mesh import Mesh
from tiburon.hydro.mesh_file import load_mesh
from tiburon.hydro.panels import MOST, PANELS, PanelAddedMass, panel_added_mass
from tiburon.model.body import MeshShape
from tiburon.model.body_fluid import BoxDrag, Drag, EllipsoidDrag
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, matrix3

__all__ = ["MeshWater", "mesh_water"]

ROUGH = 0.1
"""Added mass whose error may be larger than this part of it is a guess."""


USABLE = 0.5
"""Added mass whose error may be larger than this part of it is worse than that of an ellipsoid."""

ALIGNED = 1e-6
"""Products of inertia, by the moments, that count as none: digits of files."""


class MeshWater(NamedTuple):
    """Water numbers of a mesh, in its own axes."""

    volume: float
    """[m^3]."""

    center: Vec3
    """Center of buoyancy [m]."""

    added: NDArray[np.float64]
    """Added mass about the origin of the mesh, angular rows first."""

    drag: Drag
    """A shape that stands for it."""

    volume_quality: str
    """ "exact", or "guessed" where shells overlap."""

    added_quality: str
    """ "computed", or "guessed" where shells overlap or panels cannot do it."""

    turning_quality: str
    """The same of added moments."""

    remark: str
    """How the numbers came about, in a sentence."""


def mesh_water(
    geometry: MeshShape,
    density: float,
    coefficients: tuple[float, float],
    panels: int = PANELS,
) -> MeshWater:
    """Read a mesh and find its water numbers.

    Args:
        geometry: Where the mesh is.
        density: Of the water [kg/m^3].
        coefficients: Of drag, of a box and of an ellipsoid.
        panels: How many to use for added mass.

    Raises:
        ModelFileError: If the file cannot be read, or encloses no solid.
    """
    if "://" in geometry.path:
        raise ModelFileError(
            geometry.path,
            "expected a mesh on this computer, got a name that was not found; load the robot with "
            "package_paths=[...] naming the folder that holds it",
        )
    mesh = load_mesh(geometry.path, geometry.scale)
    found = panel_added_mass(mesh, density, panels=panels)
    if found.error > ROUGH and 2 * panels <= MOST:
        # thin walls and slivers often need no more than smaller panels
        found = panel_added_mass(mesh, density, panels=2 * panels)
    usable = found.error <= USABLE
    return MeshWater(
        volume=mesh.volume,
        center=mesh.center,
        added=np.array(found.matrix) if usable else _ellipsoid_added(mesh, density),
        drag=_drag(mesh, *coefficients),
        volume_quality="guessed" if mesh.overlaps else "exact",
        added_quality="guessed" if mesh.overlaps or found.error > ROUGH else "computed",
        turning_quality=("guessed" if mesh.overlaps or found.turning_error > ROUGH else "computed"),
        remark=_remark(found, usable),
    )


def _remark(found: PanelAddedMass, usable: bool) -> str:
    notes = "".join(f"; {note}" for note in found.notes)
    if not usable:
        return (
            f"walls are too thin, or faces too narrow, for {found.panels} panels: added mass is "
            f"that of the ellipsoid with the same second moments{notes}"
        )
    return (
        f"added mass by {found.panels} panels, error about {100.0 * found.error:.1g} %, of moments "
        f"{100.0 * found.turning_error:.1g} %{notes}"
    )


def _ellipsoid_added(mesh: Mesh, density: float) -> NDArray[np.float64]:
    """Return the added mass of the ellipsoid with the same second moments, about the origin."""
    squares, axes = _spread(mesh)
    a, b, c = np.sqrt(5.0 * squares).tolist()
    moments, masses = ellipsoid_added_mass((a, b, c), density)
    x, y, z = mesh.center
    # velocity of the center along the axes, by that of the origin
    to_center = np.zeros((6, 6))
    to_center[:3, :3] = to_center[3:, 3:] = axes.T
    to_center[3:, :3] = axes.T @ [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    found: NDArray[np.float64] = to_center.T @ np.diag([*moments, *masses]) @ to_center
    return found


def _spread(mesh: Mesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean squares of distances along principal axes [m^2], and the axes as columns."""
    tensor = np.array(mesh.inertia(1.0 / mesh.volume).matrix)
    # mean squares along axes, from moments about them
    spread = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    if np.abs(spread - np.diag(np.diag(spread))).max() <= ALIGNED * np.trace(spread):
        # a cube has any axes by its moments, and those of its faces by its file
        squares, axes = np.diag(spread), np.eye(3)
    else:
        squares, axes = np.linalg.eigh(spread)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    return squares, axes


def _drag(mesh: Mesh, box: float, ellipsoid: float) -> Drag:
    """Return the simple solid with the same second moments and about the same volume."""
    squares, axes = _spread(mesh)
    pose = Pose(matrix3(axes), mesh.center)
    sides, radii = (np.sqrt(k * squares).tolist() for k in (12.0, 5.0))
    too_large = (
        abs(math.log(math.prod(sides) / mesh.volume)),
        abs(math.log(4.0 / 3.0 * math.pi * math.prod(radii) / mesh.volume)),
    )
    if too_large[0] <= too_large[1]:
        return BoxDrag(tuple(sides), (box,) * 3, pose)
    return EllipsoidDrag(tuple(radii), (ellipsoid,) * 3, pose)
