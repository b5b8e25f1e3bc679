"""Coarser and finer meshes of the same solid: edge collapse and subdivision.

Edge collapse follows Garland and Heckbert 1997 (SIGGRAPH, "Surface simplification using quadric
error metrics"): each vertex keeps the sum of squared distances from the planes that met in it, a
quadratic form of ten coefficients; the cost of an edge is the minimum of the sum of both ends'
forms. The surface stays closed: an edge only collapses where its ends share exactly the two
neighbors of its two faces, and where no face turns over.
"""

import heapq
from operator import add

import numpy as np

from tiburon.arrays import NDArray
from tiburon.hydro.mesh import Mesh

__all__ = ["reduced", "refined"]

Floats = NDArray[np.float64]
Place = tuple[float, float, float]

ROUNDNESS = 1e-3
"""Weight of the length of an edge beside its distance from the planes: on flat parts, where nothing
is lost, short edges go first and panels stay of one size."""

TURNED = 0.2
"""Least cosine between a face before and after an edge beside it collapsed."""


def reduced(mesh: Mesh, faces: int) -> Mesh:
    """Return nearly the same solid, of the same volume, with about so many faces, if it has more.

    Args:
        mesh: The solid.
        faces: How many faces to reach; shells keep at least a tetrahedron each.
    """
    if len(mesh.faces) <= faces:
        return mesh
    work = _Collapse(mesh)
    work.run(faces)
    places, triangles = work.result()
    found = mesh._with(places, triangles)
    # flattened curves enclose less: the volume is restored around the middle of the solid
    center = np.array(found.center) - mesh._middle
    factor = (mesh.volume / found.volume) ** (1.0 / 3.0)
    return mesh._with(center + (places - center) * factor, triangles)


class _Collapse:
    """The mesh while edges collapse: who is beside whom, and what each edge would cost."""

    def __init__(self, mesh: Mesh) -> None:
        self.places: list[Place] = [(x, y, z) for x, y, z in mesh._around.tolist()]
        self.faces: dict[int, tuple[int, int, int]] = {
            k: (a, b, c) for k, (a, b, c) in enumerate(mesh.faces.tolist())
        }
        self.around: list[set[int]] = [set() for _ in self.places]
        for k, corners in self.faces.items():
            for vertex in corners:
                self.around[vertex].add(k)
        self.quadrics = _quadrics(mesh)
        self.version = [0] * len(self.places)
        self.queue: list[tuple[float, int, int, int, int, Place]] = []
        edges = np.concatenate([mesh.faces[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
        one_way = edges[edges[:, 0] < edges[:, 1]]
        for a, b in np.unique(one_way, axis=0).tolist():
            self.offer(a, b)

    def run(self, wanted: int) -> None:
        """Collapse edges until so many faces are left, or none can."""
        while len(self.faces) > wanted and self.queue:
            _, a, b, version_a, version_b, place = heapq.heappop(self.queue)
            if self.version[a] != version_a or self.version[b] != version_b:
                continue
            if self.allowed(a, b, place):
                self.collapse(a, b, place)

    def result(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return vertices and faces that are left."""
        faces = np.array(list(self.faces.values()))
        used, numbers = np.unique(faces, return_inverse=True)
        return np.array(self.places)[used], numbers.reshape(-1, 3).astype(np.int64)

    def offer(self, a: int, b: int) -> None:
        """Put an edge into the queue at its price."""
        Q = list(map(add, self.quadrics[a], self.quadrics[b]))
        p, q = self.places[a], self.places[b]
        length = _square(p, q)
        middle = (0.5 * (p[0] + q[0]), 0.5 * (p[1] + q[1]), 0.5 * (p[2] + q[2]))
        place = _lowest(Q)
        # where planes are nearly parallel the lowest point runs away along them
        if place is None or _square(place, middle) > length:
            place = min((middle, p, q), key=lambda choice: _value(Q, choice))
        price = max(_value(Q, place), 0.0) + ROUNDNESS * length * length
        heapq.heappush(self.queue, (price, a, b, self.version[a], self.version[b], place))

    def neighbors(self, vertex: int) -> set[int]:
        """Return the vertices that share a face with one."""
        faces = self.faces
        found = set().union(*[faces[k] for k in self.around[vertex]])
        found.discard(vertex)
        return found

    def allowed(self, a: int, b: int, place: Place) -> bool:
        """Return whether the surface stays closed, simple and unfolded."""
        shared = self.around[a] & self.around[b]
        if len(shared) != 2 or len(self.neighbors(a) & self.neighbors(b)) != 2:
            return False
        # four faces are the least that enclose anything
        if len(self.around[a] | self.around[b]) <= 4:
            return False
        for vertex in (a, b):
            for k in self.around[vertex] - shared:
                before = [self.places[x] for x in self.faces[k]]
                after = [place if x == vertex else self.places[x] for x in self.faces[k]]
                if not _looks_alike(before, after):
                    return False
        return True

    def collapse(self, a: int, b: int, place: Place) -> None:
        """Make one vertex of two."""
        for k in self.around[a] & self.around[b]:
            for vertex in self.faces.pop(k):
                self.around[vertex].discard(k)
        for k in self.around[b]:
            x, y, z = (a if vertex == b else vertex for vertex in self.faces[k])
            self.faces[k] = (x, y, z)
        self.around[a] |= self.around[b]
        self.around[b] = set()
        self.places[a] = place
        self.quadrics[a] = list(map(add, self.quadrics[a], self.quadrics[b]))
        self.version[a] += 1
        self.version[b] += 1
        for other in self.neighbors(a):
            self.offer(min(a, other), max(a, other))


def _quadrics(mesh: Mesh) -> list[list[float]]:
    """Return the ten numbers of each vertex: xx, xy, xz, yy, yz, zz, x, y, z, constant."""
    a, b, c = mesh._around[mesh.faces].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    x, y, z = (normal / np.maximum(double, 1e-300)[:, None]).T
    d = -(x * a[:, 0] + y * a[:, 1] + z * a[:, 2])
    planes = np.stack([x * x, x * y, x * z, y * y, y * z, z * z, x * d, y * d, z * d, d * d], 1)
    planes *= double[:, None]
    total = np.zeros((len(mesh.vertices), 10))
    for k in range(3):
        np.add.at(total, mesh.faces[:, k], planes)
    rows: list[list[float]] = total.tolist()
    return rows


def _square(p: Place, q: Place) -> float:
    """Return the square of the distance of two points."""
    x, y, z = p[0] - q[0], p[1] - q[1], p[2] - q[2]
    return x * x + y * y + z * z


def _value(Q: list[float], p: Place) -> float:
    """Return the sum of squared distances of a point, weighted by areas."""
    x, y, z = p
    return (
        x * (Q[0] * x + 2.0 * (Q[1] * y + Q[2] * z + Q[6]))
        + y * (Q[3] * y + 2.0 * (Q[4] * z + Q[7]))
        + z * (Q[5] * z + 2.0 * Q[8])
        + Q[9]
    )


def _lowest(Q: list[float]) -> Place | None:
    """Return the point where a quadric is least; None where that is no single point."""
    xx, xy, xz, yy, yz, zz, x, y, z, _ = Q
    A, B, C = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    determinant = xx * A + xy * B + xz * C
    if abs(determinant) <= 1e-9 * (xx + yy + zz) ** 3:
        return None
    D, E, F = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    k = -1.0 / determinant
    return k * (A * x + B * y + C * z), k * (B * x + D * y + E * z), k * (C * x + E * y + F * z)


def _looks_alike(before: list[Place], after: list[Place]) -> bool:
    """Return whether a face still looks about the same way."""
    p, q = _normal(before), _normal(after)
    along = p[0] * q[0] + p[1] * q[1] + p[2] * q[2]
    sizes = (p[0] ** 2 + p[1] ** 2 + p[2] ** 2) * (q[0] ** 2 + q[1] ** 2 + q[2] ** 2)
    return along > 0.0 and along * along >= TURNED * TURNED * sizes


def _normal(corners: list[Place]) -> Place:
    a, b, c = corners
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    return uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx


def refined(mesh: Mesh, faces: int) -> Mesh:
    """Return the same solid with at least so many faces, if it has fewer.

    The longest edge is halved, over and over, with the faces on both of its sides: triangles stay
    as well shaped as they were (Rivara 1984, Int. J. Numer. Meth. Eng. 20), and none is cut that
    is small already.

    Args:
        mesh: The solid.
        faces: How many faces to reach.
    """
    if len(mesh.faces) >= faces:
        return mesh
    places = [tuple(row) for row in mesh._around.tolist()]
    triangles: list[list[int]] = mesh.faces.tolist()
    beside: dict[tuple[int, int], list[int]] = {}
    longest: list[tuple[float, int, int]] = []

    def enter(face: int) -> None:
        """Note a face at its three edges."""
        corners = triangles[face]
        for k in range(3):
            a, b = corners[k], corners[(k + 1) % 3]
            edge = (a, b) if a < b else (b, a)
            if edge not in beside:
                beside[edge] = []
                x, y = places[a], places[b]
                # rounded, so that equal edges of symmetric bodies are cut in the order they have
                square = sum((p - q) ** 2 for p, q in zip(x, y, strict=True))
                heapq.heappush(longest, (-float(f"{square:.9e}"), *edge))
            beside[edge].append(face)

    for face in range(len(triangles)):
        enter(face)
    while len(triangles) < faces:
        _, a, b = heapq.heappop(longest)
        around = beside.pop((a, b), None)
        if around is None:
            continue
        middle = len(places)
        places.append(tuple(0.5 * (p + q) for p, q in zip(places[a], places[b], strict=True)))
        for face in around:
            corners = triangles[face]
            for k in range(3):
                x, y = corners[k], corners[(k + 1) % 3]
                edge = (x, y) if x < y else (y, x)
                if edge != (a, b):
                    beside[edge].remove(face)
            first = [middle if x == b else x for x in corners]
            second = [middle if x == a else x for x in corners]
            triangles[face] = first
            triangles.append(second)
            enter(face)
            enter(len(triangles) - 1)
    return mesh._with(np.array(places), np.array(triangles))
