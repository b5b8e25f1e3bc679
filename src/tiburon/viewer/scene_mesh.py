"""Surfaces from mesh files, made small enough to be sent around.

The files come from strangers: a damaged one gives a note and no surface, never an error.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.errors import ModelFileError
from tiburon.hydro.mesh_file import read_triangles
from tiburon.record import record

__all__ = ["Mesh", "read_mesh"]

Points = NDArray[np.float32]
Corners = NDArray[np.int32]


@record(eq=False)
class Mesh:
    """A surface of triangles."""

    vertices: Points
    """Axes of the shape [m], shape (n, 3)."""

    triangles: Corners
    """Three vertices each, counterclockwise from outside, shape (m, 3)."""


def read_mesh(
    path: str, scale: tuple[float, float, float], triangles: int, notes: list[str]
) -> Mesh | None:
    """Read a mesh file, or note why it cannot be drawn and return None.

    Args:
        path: Where the file is.
        scale: Factors along x, y, z.
        triangles: How many are kept at most; finer surfaces are coarsened.
        notes: Gets a sentence if there is no surface.
    """
    try:
        vertices, corners = read_triangles(Path(path))
    except ModelFileError as problem:
        notes.append(f"mesh not drawn: {problem}")
        return None
    inside = corners.min() >= 0 and corners.max() < len(vertices)
    if not inside or not np.isfinite(vertices[corners]).all():
        notes.append(f"mesh not drawn: {path}: its triangles have corners that are nowhere")
        return None
    vertices = np.where(np.isfinite(vertices), vertices, 0.0)
    points = (vertices * np.array(scale)).astype(np.float32)
    if np.prod(scale) < 0.0:
        # mirroring turns surfaces inside out
        corners = corners[:, ::-1]
    return coarsened(Mesh(points, np.ascontiguousarray(corners, dtype=np.int32)), triangles)


def coarsened(mesh: Mesh, triangles: int) -> Mesh:
    """Return the same surface with at most so many triangles.

    Vertices in one cell of a grid become their mean; cells grow until the triangles that are left
    are few enough. The first grid is so fine that it only joins equal corners.
    """
    low = mesh.vertices.min(axis=0)
    extent = float((mesh.vertices.max(axis=0) - low).max()) or 1.0
    cells = 4096.0
    while True:
        place = np.round((mesh.vertices - low) * (cells / extent)).astype(np.int64)
        _, owner = np.unique(place @ np.array([1, 8192, 8192**2]), return_inverse=True)
        owner = owner.reshape(-1)
        count = np.bincount(owner)
        sums = [np.bincount(owner, weights=mesh.vertices[:, k]) for k in range(3)]
        vertices = (np.stack(sums, axis=1) / count[:, None]).astype(np.float32)
        corners = owner[mesh.triangles]
        a, b, c = corners.T
        kept = corners[(a != b) & (b != c) & (c != a)]
        kept = np.unique(_least_first(kept), axis=0) if len(kept) else kept
        if len(kept) <= triangles or cells < 2.0:
            return Mesh(vertices, kept.astype(np.int32))
        cells *= 0.7


def _least_first(corners: NDArray[Any]) -> NDArray[Any]:
    """Turn each triangle until its least corner is first, so that equal ones look equal."""
    start = np.argmin(corners, axis=1)[:, None]
    return np.take_along_axis(corners, (start + np.arange(3)) % 3, axis=1)
