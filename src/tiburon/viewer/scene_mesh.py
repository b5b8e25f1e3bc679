"""Surfaces from mesh files, made small enough to be sent around.

STL (binary and text) and OBJ are read here; other kinds by trimesh, where it is installed. The
files come from strangers: a damaged or huge one gives a note and no surface, never an error.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.record import record

__all__ = ["Mesh", "read_mesh"]

LARGEST_FILE = 64 * 2**20
"""Bytes of a mesh file that is still opened."""

STL_HEADER = 84
STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("spare", "<u2")])

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
    file = Path(path)
    try:
        size = file.stat().st_size
        if size > LARGEST_FILE:
            raise ValueError(f"{size / 2**20:.0f} MB is more than {LARGEST_FILE // 2**20} MB")
        vertices, corners = _read(file)
        if not len(corners) or not np.isfinite(vertices).all():
            raise ValueError("it holds no triangles with finite corners")
        if corners.min() < 0 or corners.max() >= len(vertices):
            raise ValueError("a triangle names a corner that is not there")
    except Exception as problem:
        # whatever a damaged file makes a reader raise: the robot is drawn without it
        notes.append(f"mesh {path!r} is not drawn: {problem}")
        return None
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


def _read(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    kind = file.suffix.lower()
    if kind == ".stl":
        return _read_stl(file.read_bytes())
    if kind == ".obj":
        return _read_obj(file.read_text(errors="replace"))
    try:
        import trimesh
    except ImportError:
        raise ValueError(f"files of kind {kind!r} need trimesh (pip install trimesh)") from None
    loaded: Any = trimesh.load(file, force="mesh")
    return np.asarray(loaded.vertices), np.asarray(loaded.faces)


def _read_stl(data: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read either kind: a binary file is exactly as long as its number of triangles says."""
    count = int.from_bytes(data[80:84], "little") if len(data) >= STL_HEADER else 0
    if len(data) >= STL_HEADER and len(data) == STL_HEADER + count * STL_TRIANGLE.itemsize:
        records = np.frombuffer(data, STL_TRIANGLE, count, STL_HEADER)
        points = records["corners"].reshape(-1, 3).astype(np.float64)
    else:
        words = data.split()
        starts = [i for i, word in enumerate(words) if word == b"vertex"]
        points = np.array([[float(x) for x in words[i + 1 : i + 4]] for i in starts])
    if not len(points) or len(points) % 3:
        raise ValueError("this is neither a binary nor a text STL file")
    return points, np.arange(len(points)).reshape(-1, 3)


def _read_obj(text: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read vertices and faces; polygons are cut into fans."""
    points: list[list[float]] = []
    corners: list[list[int]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            points.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(word.split("/")[0]) for word in words[1:]]
            # counted from 1, or backward from the last vertex so far
            ring = [n - 1 if n > 0 else len(points) + n for n in numbers]
            corners += [[ring[0], ring[i], ring[i + 1]] for i in range(1, len(ring) - 1)]
    return np.array(points, dtype=np.float64).reshape(-1, 3), np.array(corners).reshape(-1, 3)
